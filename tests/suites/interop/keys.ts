// SPDX-License-Identifier: Apache-2.0
// A server with a static key: how the clients get in, what those see that do not, and where a server without one listens.

import assert from 'node:assert/strict';
import { caisson } from '../../lib/process.ts';
import { facts } from '../../lib/session.ts';
import { within } from '../../lib/wait.ts';
import type { Client, Target } from './client.ts';
import { sdk1 } from './sdk.ts';

export const KEY = 'a-key-for-tests-0123456789';
const WRONG = 'not-the-key-for-tests-0123';
const REFUSED_MS = 20_000;

export interface Case {
	name: string;
	run(): Promise<void>;
}

interface Remote {
	name: string;
	open(target: Target): Promise<Client>;
}

const guarded = [['POST', '/mcp'], ['GET', '/mcp'], ['DELETE', '/mcp'], ['GET', '/sse']] as const;
/** Where clients look for OAuth: each has to be 404, or they begin it. */
const probes = [
	['GET', '/.well-known/oauth-protected-resource'],
	['GET', '/.well-known/oauth-protected-resource/mcp'],
	['GET', '/.well-known/oauth-protected-resource/sse'],
	['GET', '/.well-known/oauth-authorization-server'],
	['GET', '/.well-known/oauth-authorization-server/mcp'],
	['GET', '/.well-known/openid-configuration'],
	['GET', '/.well-known/openid-configuration/mcp'],
	['POST', '/register'],
] as const;

const ping = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });

/** One request; its body is not read on. */
async function ask(url: string, method: string, headers: Record<string, string> = {}): Promise<Response> {
	const stop = new AbortController();
	try {
		return await fetch(url, {
			method,
			headers: { accept: 'application/json, text/event-stream', 'content-type': 'application/json', ...headers },
			body: method === 'POST' ? ping : undefined,
			signal: stop.signal,
		});
	} finally {
		setTimeout(() => stop.abort(), 0);
	}
}

function isRefused(r: Response, what: string): void {
	assert.equal(r.status, 401, what);
	const challenge = r.headers.get('www-authenticate') ?? '';
	assert.match(challenge, /^Bearer realm="[^"]+"/, what);
	assert.ok(!challenge.includes('resource_metadata'), what);
}

async function staysOut(open: () => Promise<Client>): Promise<void> {
	const attempt = open().then((client) => client.close().then(() => 'was let in'), () => 'refused');
	assert.equal(await within('the refusal', attempt, REFUSED_MS), 'refused');
}

function refusedListeners(): Case[] {
	const wide: [string, string[], Record<string, string>][] = [
		['0.0.0.0', ['--listen', '0.0.0.0:0'], {}],
		['[::]', ['--listen', '[::]:0'], {}],
		['APP_HOST=0.0.0.0', [], { APP_HOST: '0.0.0.0', APP_PORT: '0' }],
	];
	return wide.map(([name, args, env]) => ({
		name: `key: without one ${name} is refused`,
		async run() {
			const exit = await within('serve', caisson(['serve', ...args], { env: { SANDBOX_HTTP_PORT: '0', ...env } }), REFUSED_MS);
			assert.notEqual(exit.code, 0);
			assert.match(exit.stderr.toString(), /SANDBOX_API_KEY/);
		},
	}));
}

/** BASE: the server that wants KEY, in profile `code`; CLIENTS: the rows of the matrix that go through it. */
export function keyCases<R extends Remote>(base: string, clients: R[], pass: (r: R, target: Target) => Promise<void>): Case[] {
	const target = (headers: Record<string, string>, sseQuery = ''): Target => ({ profile: 'code', base, headers, sseQuery });
	const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });
	const sse = clients.filter((r) => / sse |sse→/.test(r.name));
	return [
		...guarded.map(([method, path]) => ({
			name: `key: ${method} ${path} without one and with a wrong one`,
			async run() {
				isRefused(await ask(base + path, method), 'none');
				isRefused(await ask(base + path, method, bearer(WRONG)), 'wrong bearer');
				isRefused(await ask(base + path, method, { 'x-api-key': WRONG }), 'wrong x-api-key');
				isRefused(await ask(`${base}${path}?api_key=${WRONG}`, method), 'wrong in the query');
				if (path !== '/sse')
					isRefused(await ask(`${base}${path}?api_key=${KEY}`, method), 'in the query, which only /sse takes');
			},
		})),
		...probes.map(([method, path]) => ({
			name: `key: ${method} ${path} is not there`,
			async run() {
				assert.equal((await ask(base + path, method)).status, 404);
				assert.equal((await ask(base + path, method, bearer(KEY))).status, 404);
			},
		})),
		...clients.map((r) => ({ name: `key: ${r.name}, bearer`, run: () => pass(r, target(bearer(KEY))) })),
		...clients.map((r) => ({ name: `key: ${r.name}, x-api-key`, run: () => pass(r, target({ 'x-api-key': KEY })) })),
		...sse.map((r) => ({ name: `key: ${r.name}, in the query`, run: () => pass(r, target({}, `?api_key=${KEY}`)) })),
		...clients.map((r) => ({ name: `key: ${r.name}, wrong key`, run: () => staysOut(() => r.open(target(bearer(WRONG)))) })),
		...clients.map((r) => ({ name: `key: ${r.name}, no key`, run: () => staysOut(() => r.open(target({}))) })),
		{
			name: 'key: a link works alone, but not without its signature',
			async run() {
				const client = await sdk1('http', target(bearer(KEY)));
				const run = facts(await client.call('sandbox_run_python', { code: 'open("/mnt/data/a.txt", "w").write("a")' }));
				const link = new URL(run.artifacts[0].download_url);
				assert.equal(await (await fetch(link)).text(), 'a');
				link.search = '';
				assert.ok([401, 403, 404].includes((await fetch(link)).status), 'refused');
				await client.call('sandbox_close_session', { session_id: run.session_id });
				await client.close();
			},
		},
		...refusedListeners(),
	];
}
