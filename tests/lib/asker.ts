// SPDX-License-Identifier: Apache-2.0
// Requests to the REST interface of a server.

import type { Json } from './session.ts';

export interface Reply {
	status: number;
	body: Json; // {}: there was none
	text: string;
	headers: Headers;
}

/** Asks BASE() below /api/v1, with KEY where a request names none. */
export function asker(base: () => string, key?: string): (method: string, at: string, json?: unknown, as?: string) => Promise<Reply> {
	return async (method, at, json, as = key) => {
		const r = await fetch(`${base()}/api/v1${at}`, {
			method, headers: { ...(as !== undefined && { 'x-api-key': as }), ...(json !== undefined && { 'content-type': 'application/json' }) },
			body: json === undefined ? undefined : JSON.stringify(json),
		});
		const text = await r.text();
		return { status: r.status, body: text ? JSON.parse(text) as Json : {}, text, headers: r.headers };
	};
}
