// SPDX-License-Identifier: Apache-2.0
// Requests to the server. A failure is always a Problem, which has words for people.

import { isPlainPath } from '../pure/address.ts';
import { text } from '../text/en.ts';

export class Problem extends Error {
	readonly status: number;
	readonly code: string;
	readonly hint?: string;
	readonly member?: string;
	readonly retryAfter?: number; // seconds

	constructor(status: number, body: { detail?: string; title?: string; code?: string; hint?: string; member?: string }, retryAfter?: number) {
		super(body.detail ?? body.title ?? text.errors.status(status));
		this.status = status;
		this.code = body.code ?? '';
		this.hint = body.hint;
		this.member = body.member;
		this.retryAfter = retryAfter;
	}
}

export type Query = Record<string, string | number | boolean | undefined | null>;

/** Called when the server says that the session is over. The page then shows the sign-in. */
let onSignedOut: () => void = () => undefined;
export function whenSignedOut(f: () => void): void {
	onSignedOut = f;
}

/** Below the address of the page: a proxy may have the server below a path. An address that would lead elsewhere becomes one that leads nowhere. */
export function url(path: string, query?: Query): string {
	if (!isPlainPath(path))
		return 'about:invalid';
	const q = new URLSearchParams();
	for (const [k, v] of Object.entries(query ?? {}))
		if (v !== undefined && v !== null)
			q.set(k, String(v));
	const s = q.toString();
	return `api/v1${path}${s ? `?${s}` : ''}`;
}

/** A path of a workspace as part of an address. */
export function filePath(path: string): string {
	return path.split('/').map(encodeURIComponent).join('/');
}

/** The same for a request: that fails with a reason. */
function target(path: string, query?: Query): string {
	if (!isPlainPath(path))
		throw new Problem(0, { detail: text.errors.address });
	return url(path, query);
}

async function problemOf(r: Response): Promise<Problem> {
	const body = await r.json().catch(() => ({})) as Record<string, string>;
	const wait = Number(r.headers.get('retry-after'));
	const p = new Problem(r.status, body ?? {}, Number.isFinite(wait) && wait > 0 ? wait : undefined);
	if (r.status === 401 && !r.url.includes('/api/v1/session'))
		onSignedOut();
	return p;
}

async function send(method: string, path: string, query?: Query, body?: unknown, signal?: AbortSignal): Promise<Response> {
	const headers: Record<string, string> = {};
	if (method !== 'GET')
		headers['X-Caisson-Page'] = '1';
	if (body !== undefined)
		headers['Content-Type'] = 'application/json';
	const to = target(path, query);
	let r: Response;
	try {
		r = await fetch(to, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal, credentials: 'same-origin' });
	} catch (e) {
		if (signal?.aborted)
			throw e;
		throw new Problem(0, { detail: text.errors.unreachable });
	}
	if (!r.ok)
		throw await problemOf(r);
	return r;
}

async function json<T>(r: Response): Promise<T> {
	return (r.status === 204 || r.status === 202 ? await r.json().catch(() => undefined) : await r.json()) as T;
}

export const api = {
	get: async <T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> => json<T>(await send('GET', path, query, undefined, signal)),
	post: async <T>(path: string, body: unknown = {}, query?: Query): Promise<T> => json<T>(await send('POST', path, query, body)),
	patch: async <T>(path: string, body: unknown): Promise<T> => json<T>(await send('PATCH', path, undefined, body)),
	remove: async <T = void>(path: string, query?: Query): Promise<T> => json<T>(await send('DELETE', path, query)),
	/** The bytes of a file or of an export. */
	blob: async (path: string, query?: Query, signal?: AbortSignal): Promise<Blob> => (await send('GET', path, query, undefined, signal)).blob(),
	/** The first MAX bytes of a file, and they as text. FOREIGN: they are not UTF-8. */
	head: async (path: string, max: number, signal?: AbortSignal): Promise<{ text: string; cut: boolean; foreign: boolean; bytes: ArrayBuffer }> => {
		const r = await fetch(target(path), { headers: { Range: `bytes=0-${max - 1}` }, signal, credentials: 'same-origin', cache: 'no-store' });
		if (r.status === 416)
			return { text: '', cut: false, foreign: false, bytes: new ArrayBuffer(0) };
		if (!r.ok)
			throw await problemOf(r);
		const total = Number(r.headers.get('content-range')?.split('/')[1] ?? 0);
		const bytes = await r.arrayBuffer();
		let foreign = false;
		try {
			new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: total > max });
		} catch {
			foreign = true;
		}
		return { text: new TextDecoder().decode(bytes), cut: total > max, foreign, bytes };
	},
};

/** Puts FILE at PATH of a sandbox. Only XMLHttpRequest tells how much has been sent. */
export function upload(sandbox: string, path: string, file: Blob, overwrite: boolean, progress: (sent: number) => void, signal: AbortSignal): Promise<void> {
	return new Promise((done, failed) => {
		const x = new XMLHttpRequest();
		x.open('PUT', target(`/sandboxes/${encodeURIComponent(sandbox)}/files/${filePath(path)}`, { overwrite: overwrite || undefined }));
		x.setRequestHeader('X-Caisson-Page', '1');
		x.setRequestHeader('Content-Type', 'application/octet-stream');
		x.upload.onprogress = (e) => progress(e.loaded);
		x.onload = () => {
			if (x.status < 300)
				return done();
			let body = {};
			try {
				body = JSON.parse(x.responseText) as object;
			} catch { /* not of this server: the status says it */ }
			failed(new Problem(x.status, body));
		};
		x.onerror = () => failed(new Problem(0, { detail: text.errors.unreachable }));
		x.onabort = () => failed(new DOMException('', 'AbortError'));
		signal.addEventListener('abort', () => x.abort());
		x.send(file);
	});
}
