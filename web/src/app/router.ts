// SPDX-License-Identifier: Apache-2.0
// Addresses are fragments (#/sandboxes/ID/files): the server never sees them.

import { signal } from '@preact/signals';

export interface Route {
	parts: string[]; // of the path, decoded
	query: URLSearchParams;
}

export function parse(hash: string): Route {
	const [path = '', query = ''] = hash.replace(/^#?\/?/, '').split('?', 2);
	const parts = path.split('/').filter(Boolean).map((p) => {
		try {
			return decodeURIComponent(p);
		} catch {
			return p;
		}
	});
	return { parts, query: new URLSearchParams(query) };
}

/** The address of a page: href('sandboxes', id, 'files'). */
export function href(...parts: string[]): string {
	return `#/${parts.map(encodeURIComponent).join('/')}`;
}

export const route = signal<Route>(parse(globalThis.location?.hash ?? ''));

export function go(...parts: string[]): void {
	location.hash = href(...parts);
}

/** Changes the address without a new entry in the browser's history. */
export function replace(...parts: string[]): void {
	history.replaceState(null, '', href(...parts));
	route.value = parse(location.hash);
}

export function startRouter(): void {
	addEventListener('hashchange', () => {
		route.value = parse(location.hash);
	});
}
