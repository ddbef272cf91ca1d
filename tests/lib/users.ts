// SPDX-License-Identifier: Apache-2.0
// Users as HTTP clients see them: the requests of the second family's user routes.

import assert from 'node:assert/strict';
import type { Json } from './session.ts';

export interface Answer {
	status: number;
	body: Json;
	headers: Headers;
}

export async function ask(method: string, url: string, o: { key?: string; token?: string; json?: unknown; form?: Record<string, string>; headers?: Record<string, string> } = {}): Promise<Answer> {
	const headers: Record<string, string> = { ...o.headers };
	let body: string | undefined;
	if (o.key !== undefined)
		headers['x-api-key'] = o.key;
	if (o.token !== undefined)
		headers.authorization = `Bearer ${o.token}`;
	if (o.json !== undefined) {
		headers['content-type'] = 'application/json';
		body = JSON.stringify(o.json);
	} else if (o.form !== undefined) {
		headers['content-type'] = 'application/x-www-form-urlencoded';
		body = new URLSearchParams(o.form).toString();
	}
	const r = await fetch(url, { method, headers, body });
	const text = await r.text();
	let parsed: Json = {};
	try {
		parsed = text ? JSON.parse(text) : {};
	} catch {
		parsed = { text };
	}
	return { status: r.status, body: parsed, headers: r.headers };
}

export const password = 'correct horse battery';

export async function register(base: string, name: string): Promise<Json> {
	const r = await ask('POST', `${base}/api/register`, { json: { username: name, email: `${name}@example.org`, password } });
	assert.equal(r.status, 200, JSON.stringify(r.body));
	return r.body;
}

export async function login(base: string, name: string): Promise<string> {
	const r = await ask('POST', `${base}/api/token`, { form: { username: name, password } });
	assert.equal(r.status, 200, JSON.stringify(r.body));
	return r.body.access_token;
}
