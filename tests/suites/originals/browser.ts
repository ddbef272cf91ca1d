// SPDX-License-Identifier: Apache-2.0
// A page on another port of this machine, in Chromium, that makes the calls of the second original's page in its order: register, log in,
// users/me, the key, the sandboxes (again and again), delete, regenerate, log out.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as http from 'node:http';
import type * as net from 'node:net';
import { chromium, type Page } from 'playwright-core';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { newStateDir } from '../../lib/env.ts';
import { serve } from '../../lib/session.ts';
import { within } from '../../lib/wait.ts';
import { second, Second, type Env } from './clients.ts';

const STEP_MS = 20_000;

/** As its HTTP client sends them: JSON, a form for the login, the token as a bearer. It shows `detail` of an error as a text. */
const html = (api: string): string => `<!doctype html><title>page</title><body><output id="shown"></output><script>
const api = ${JSON.stringify(api)};
async function ask(method, path, { json, form } = {}) {
	const headers = { accept: 'application/json, text/plain, */*' };
	const token = localStorage.getItem('token');
	if (token) headers.authorization = 'Bearer ' + token;
	if (json) headers['content-type'] = 'application/json';
	if (form) headers['content-type'] = 'application/x-www-form-urlencoded';
	const r = await fetch(api + path, { method, headers, body: json ? JSON.stringify(json) : form ? new URLSearchParams(form) : undefined });
	const body = await r.json();
	if (!r.ok) {
		if (typeof body.detail !== 'string') throw new Error('the page cannot show ' + JSON.stringify(body));
		document.getElementById('shown').textContent = body.detail;
	}
	return { status: r.status, body };
}
</script>`;

/** Debian's Chromium, with or without a window system. */
function browserPath(): string {
	const found = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'].find((p) => fs.existsSync(p));
	assert.ok(found, 'chromium is missing: run make setup (tools/packages.txt)');
	return found;
}

/** Serves the page on the first free port of PORTS at localhost. */
async function servePage(ports: readonly number[], api: string): Promise<http.Server> {
	for (const port of ports) {
		const server = http.createServer((_, res) => res.writeHead(200, { 'content-type': 'text/html' }).end(html(api)));
		const open = await new Promise<boolean>((done) => {
			server.once('error', () => done(false));
			server.listen(port, 'localhost', () => done(true));
		});
		if (open)
			return server;
	}
	throw new Error(`none of the ports ${ports.join(', ')} is free`);
}

type Ask = (method: string, path: string, body?: { json?: unknown; form?: Record<string, string> }) => Promise<{ status: number; body: any }>;

/** Opens the page of PORTS in Chromium and gives BODY its function for calls. */
async function inBrowser(ports: readonly number[], api: string, body: (ask: Ask, page: Page, origin: string) => Promise<void>): Promise<void> {
	const server = await servePage(ports, api);
	const browser = await chromium.launch({ executablePath: browserPath(), args: ['--no-sandbox', '--disable-gpu'], timeout: 60_000 });
	try {
		const page = await browser.newPage();
		const origin = `http://localhost:${(server.address() as net.AddressInfo).port}`;
		await page.goto(`${origin}/`);
		// The text of the call goes as one string: the page's functions know nothing of this file.
		const ask: Ask = (method, path, o) => within(`${method} ${path}`, page.evaluate(`ask(${JSON.stringify(method)}, ${JSON.stringify(path)}, ${JSON.stringify(o ?? {})})`) as ReturnType<Ask>, STEP_MS);
		await body(ask, page, origin);
	} finally {
		await browser.close();
		server.close();
	}
}

export const PAGE_PORTS = [5173, 4173] as const; // of the page's development server and of its preview

/** The eleven steps, against a server with ENV. */
export async function elevenSteps(env: Env, ports: readonly number[] = PAGE_PORTS): Promise<void> {
	const server = await serve({ profile: 'classic', env: { SANDBOX_STATE_DIR: newStateDir(), ...env } });
	await inBrowser(ports, server.base, async (ask, page) => {
		const me = { username: 'ada', email: 'ada@example.org', password: 'sixsix' };
		// 1, 2: an error is shown as a text; then the account is made
		const short = await ask('POST', '/api/register', { json: { ...me, password: 'five5' } });
		assert.equal(short.status, 422);
		assert.equal(await page.textContent('#shown'), 'password: 6 to 256 bytes');
		assert.equal((await ask('POST', '/api/register', { json: me })).status, 200);
		assert.deepEqual((await ask('POST', '/api/register', { json: me })).body, { detail: 'Username already registered' });
		// 3: logged in at once
		assert.equal((await ask('POST', '/api/token', { form: { username: 'ada', password: 'wrong1' } })).body.detail, 'Incorrect username or password');
		const login = await ask('POST', '/api/token', { form: { username: 'ada', password: 'sixsix' } });
		assert.equal(login.body.token_type, 'bearer');
		await page.evaluate((token) => localStorage.setItem('token', token), login.body.access_token as string);
		// 4, 5, 6: what the dashboard loads
		const user = (await ask('GET', '/api/users/me')).body;
		assert.deepEqual([user.username, user.email, user.is_active], ['ada', 'ada@example.org', true]);
		const key: string = (await ask('GET', '/api/users/me/api-key')).body.api_key;
		assert.ok(key.length >= 32);
		assert.deepEqual((await ask('GET', '/api/users/me/sandboxes')).body, { sandboxes: [] });
		// 7: a client makes a sandbox with the address that the page shows, key included
		const mcp = new Second(server.program, server.base);
		await mcp.client.connect(new SSEClientTransport(new URL(`${server.base}/sse?api_key=${key}`)));
		const id = await mcp.create('from a client');
		const run = await mcp.python(id, 'open("t.txt", "w").write("mine")');
		// 8: it appears when the page asks again, also in a page that was loaded anew
		await page.reload();
		assert.equal((await ask('GET', '/api/users/me/api-key')).body.api_key, key, 'the same key');
		const { sandboxes } = (await ask('GET', '/api/users/me/sandboxes')).body;
		assert.deepEqual(sandboxes.map((s: any) => [s.id, s.name, s.user_id]), [[id, 'from a client', user.id]]);
		assert.ok(!Number.isNaN(Date.parse(sandboxes[0].created_at)));
		assert.equal(await (await fetch(run.file_links[0])).text(), 'mine', 'a link opens without a key of its own');
		// 9: deleted
		assert.deepEqual((await ask('DELETE', `/api/users/me/sandboxes/${id}`)).body, { message: 'Sandbox deleted successfully' });
		assert.deepEqual((await ask('GET', '/api/users/me/sandboxes')).body, { sandboxes: [] });
		// 10: a new key; the old one ends at once, and what it opened
		const fresh = (await ask('POST', '/api/users/me/api-key/regenerate')).body.api_key;
		assert.notEqual(fresh, key);
		assert.equal((await fetch(`${server.base}/sse?api_key=${key}`)).status, 401);
		await mcp.client.close();
		const again = new Client({ name: 'originals', version: '1' });
		await again.connect(new SSEClientTransport(new URL(`${server.base}/sse?api_key=${fresh}`)));
		await again.close();
		// 11: signed out: the token is gone, and so is the way in
		await page.evaluate(() => localStorage.removeItem('token'));
		assert.equal((await ask('GET', '/api/users/me')).status, 401);
	}).finally(() => server.program.end());
}

/** A page of an origin that the server does not know gets nothing, not even from /mcp. */
export async function strangersPage(): Promise<void> {
	await second({}, (server) => inBrowser([0], server.base, async (ask) => {
		for (const [method, at] of [['GET', '/api/users/me'], ['POST', '/api/token'], ['GET', '/openapi.json'], ['GET', '/health']] as const)
			await assert.rejects(ask(method, at, method === 'POST' ? { form: { username: 'a', password: 'b' } } : {}), /Failed to fetch/, at);
	}));
	// The page's own origin may use the user routes and nothing else.
	await second({}, (server) => inBrowser(PAGE_PORTS, server.base, async (ask) => {
		assert.equal((await ask('GET', '/health')).status, 200);
		for (const at of ['/mcp', '/sse', '/api/v1/sandboxes', '/metrics'])
			await assert.rejects(ask('GET', at), /Failed to fetch/, at);
	}));
}
