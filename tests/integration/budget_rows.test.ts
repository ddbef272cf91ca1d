// SPDX-License-Identifier: Apache-2.0
// Every row of budgets.tbl.h, reached by requests that all arrive together: none is above the bound of its user, none above what there is in all, who
// is refused is told what to do, and nothing is counted any more when everything has ended. The names of the rows are the server's: a new row without a
// case fails.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import * as http from 'node:http';
import * as net from 'node:net';
import { json } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { facts, serve, type Json } from '../lib/session.ts';
import { askUnread } from '../lib/unread.ts';
import { until } from '../lib/wait.ts';
import { Index, wheel, wheelName } from '../lib/wheel.ts';

const accept = 'application/json, text/event-stream';
const modern = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 't', version: '1' }, 'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/tasks': {} } } };
const waitMs = 30_000;
const EACH = 4, TOTAL = 16, MANY = 12, USERS = 5;

interface Answer { status: number; retry: string | null; body: Json }
interface Who { id: string; key: string }
/** What one request got. What is granted stays until close(). */
interface Got { answer: Answer; granted: boolean; close: () => Promise<unknown> | void }

class Server {
	readonly env: Record<string, string>;
	program!: Program;
	base = '';
	admin = '';
	#n = 0;

	constructor(env: Record<string, string>) {
		this.env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_POOL: '0', SANDBOX_STORED_MAX_ACTIVE: '20', ...env };
	}
	async start(): Promise<void> {
		assert.equal((await caisson(['user', 'add', 'root', '--role', 'admin', '--password', 'none'], { env: this.env })).code, 0);
		this.admin = (await caisson(['key', 'new', 'root', '--scope', 'admin'], { env: this.env })).stdout.toString().trim();
		({ program: this.program, base: this.base } = await serve({ profile: 'full', env: this.env }));
	}
	async ask(key: string, method: string, target: string, json?: unknown, more: Record<string, string> = {}): Promise<Answer> {
		const r = await fetch(this.base + target, { method, headers: { 'x-api-key': key, 'content-type': 'application/json', accept, connection: 'close', ...more }, body: json === undefined ? undefined : JSON.stringify(json) });
		const text = await r.text();
		const data = /^data: (\{.*"(?:result|error)".*)$/m.exec(text)?.[1] ?? text;
		return { status: r.status, retry: r.headers.get('retry-after'), body: data.startsWith('{') ? JSON.parse(data) as Json : {} };
	}
	async good(key: string, method: string, target: string, json?: unknown): Promise<Json> {
		const r = await this.ask(key, method, target, json);
		assert.ok(r.status < 300, `${method} ${target}: ${JSON.stringify(r)}`);
		return r.body;
	}
	async user(): Promise<Who> {
		const { id } = await this.good(this.admin, 'POST', '/api/v1/users', { name: `user${++this.#n}` });
		return { id, key: (await this.good(this.admin, 'POST', `/api/v1/keys?owner=${id}`, {})).key };
	}
	async box(who: Who, more: Json = {}): Promise<string> {
		return (await this.good(who.key, 'POST', '/api/v1/sandboxes', more)).id as string;
	}
	/** A sandbox that is busy for longer than any test. */
	async busy(who: Who): Promise<{ id: string; run: string }> {
		const id = await this.box(who, { kind: 'stored' }); // in a session nothing waits
		return { id, run: (await this.good(who.key, 'POST', `/api/v1/sandboxes/${id}/runs`, { code: 'import time; time.sleep(600)' })).id };
	}
	async session(key: string): Promise<string> {
		const r = await fetch(`${this.base}/mcp`, { method: 'POST', headers: { 'x-api-key': key, 'content-type': 'application/json', accept },
			body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } } }) });
		await r.text();
		assert.equal(r.status, 200);
		return r.headers.get('mcp-session-id')!;
	}
	/** A call of a tool, or a method, without a session. */
	call(key: string, method: string, params: Json): Promise<Answer> {
		return this.ask(key, 'POST', '/mcp', { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: modern } },
			{ 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, 'mcp-name': (params.name ?? params.taskId) as string });
	}
	/** An answer that is not read to its end; to the name HOST. */
	async stream(key: string, target: string, host?: string): Promise<Got> {
		if (host) {
			const r = http.get(this.base + target, { agent: false, headers: { host } });
			const [said] = await once(r, 'response') as [http.IncomingMessage];
			const body = said.statusCode === 200 ? {} : await json(said) as Json;
			return { answer: { status: said.statusCode!, retry: said.headers['retry-after'] ?? null, body }, granted: said.statusCode === 200, close: () => void r.on('error', () => undefined).destroy() };
		}
		const abort = new AbortController();
		const r = await fetch(this.base + target, { headers: { 'x-api-key': key, accept }, signal: abort.signal });
		const body = r.status === 200 ? {} : await r.json() as Json;
		return { answer: { status: r.status, retry: r.headers.get('retry-after'), body }, granted: r.status === 200, close: () => abort.abort() };
	}
	/** A request on a connection of its own, of which TEXT is all that comes. Granted: it is answered with 200, or not at all until SETTLED. */
	async part(text: string, answered: () => void, settled: () => Promise<boolean>): Promise<Got> {
		const { hostname, port } = new URL(this.base);
		let heard = '', ended = false;
		const socket = net.connect(Number(port), hostname, () => socket.write(text));
		socket.on('data', (b: Buffer) => (heard += b.toString('latin1'))).on('error', () => (ended = true)).on('close', () => (ended = true));
		await until('the end of the request', async () => {
			if (!ended && !/\r\n\r\n[^]*\}/.test(heard))
				return settled();
			answered();
			return true;
		}, waitMs);
		const body = /\r\n\r\n(\{[^]*\})/.exec(heard)?.[1];
		const answer = { status: Number(heard.slice(9, 12)), retry: /^retry-after: (.*)\r$/im.exec(heard)?.[1] ?? null, body: body ? JSON.parse(body) as Json : {} };
		return { answer, granted: answer.status === 0 || answer.status === 200, close: () => void socket.destroy() };
	}
	async figures(name: string): Promise<Json> {
		return (await this.good(this.admin, 'GET', '/api/v1/stats')).budgets[name];
	}
	async end(): Promise<void> {
		await this.program.end();
	}
}

/** One row. */
interface Row {
	/** What SANDBOX_BUDGETS says of it: one user, all. */
	each: number;
	total: number;
	/** Parallel requests of one user. */
	many?: number;
	env?: Record<string, string>;
	/** Before the requests. What it gives back is handed to them; what has to be removed at the end is in `boxes`. */
	prepare?: (s: Server, who: Who) => Promise<any>;
	one: (s: Server, who: Who, prepared: any, i: number) => Promise<Got>;
	/** Of 'refuses', as many are granted as fit; with 'makes room' older things of the same user end; of 'does without' the
	 * rest goes on without it; what 'waits' is all granted in the end, and is over when it is answered. */
	beyond: 'refuses' | 'makes room' | 'does without' | 'waits';
	/** How many fit; default each. */
	fits?: number;
	/** How long it may take until nothing of it is left; default waitMs. */
	endsMs?: number;
	/** What the user has besides. */
	besides?: number;
	/** Is kept after everything was closed, until it expires: gone with its user. */
	kept?: boolean;
	/** Why the bound in all is not reached. */
	notAll?: string;
}

const got = (answer: Answer, close: Got['close'] = () => {}): Got => ({ answer, granted: answer.status < 300 && !answer.body.error, close });
const runOf = (s: Server, who: Who, id: string, json: Json): Promise<Answer> => s.ask(who.key, 'POST', `/api/v1/sandboxes/${id}/runs`, json);
const head = (s: Server, who: Who, length: number): string =>
	`POST /mcp HTTP/1.1\r\nHost: ${new URL(s.base).host}\r\nX-Api-Key: ${who.key}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":`;
/** A part of a message. Each one is either refused or counted with about BYTES. */
const unfinished = (s: Server, name: string, who: Who, p: { answered: number }, text: string, bytes: number): Promise<Got> =>
	s.part(text, () => void p.answered++, async () => p.answered + Math.round(((await s.figures(name)).by_user[who.id] ?? 0) / bytes) >= MANY);
const none = async (): Promise<{ answered: number }> => ({ answered: 0 });
const item = (i: number): string => JSON.stringify(Array.from({ length: 3300 }, () => `${i}bcdefgh`.repeat(3))).slice(0, -1);

async function link(s: Server, who: Who, box: string): Promise<Got> {
	const answer = await s.call(who.key, 'tools/call', { name: 'sandbox_add_file', arguments: { session_id: box } });
	const r = answer.body.result;
	return got(r?.isError ? { ...answer, body: { error: facts(r) } } : answer);
}

const rows: Record<string, Row> = {
	connections: {
		each: EACH, total: 0, env: { SANDBOX_MAX_CONNECTIONS: '64' }, beyond: 'refuses', notAll: 'SANDBOX_MAX_CONNECTIONS; budgets.test.ts',
		one: (s, who) => s.part(`GET /api/v1/me HTTP/1.1\r\nHost: ${new URL(s.base).host}\r\nX-Api-Key: ${who.key}\r\n\r\n`, () => {}, async () => false),
	},
	streams: { each: EACH, total: TOTAL, beyond: 'refuses', one: (s, who) => s.stream(who.key, '/sse') },
	mcp_sessions: { each: EACH, total: TOTAL, beyond: 'refuses', one: (s, who) => s.stream(who.key, '/sse') },
	subscriptions: {
		each: EACH, total: TOTAL, beyond: 'refuses',
		prepare: async (s, who) => ({ box: await s.box(who), session: await s.session(who.key) }),
		one: async (s, who, p, i) => {
			const at = { 'mcp-session-id': p.session as string };
			const say = (method: string): Promise<Answer> => s.ask(who.key, 'POST', '/mcp', { jsonrpc: '2.0', id: 1, method, params: { uri: `sandbox://${p.box}/f${i}` } }, at);
			return got(await say('resources/subscribe'), () => say('resources/unsubscribe'));
		},
	},
	message_memory: {
		each: 250_000, total: 1_000_000, beyond: 'refuses', fits: 2, prepare: none,
		one: (s, who, p, i) => unfinished(s, 'message_memory', who, p, head(s, who, 200_000) + item(i), 90_000),
	},
	message_files: {
		each: 3_000_000, total: 12_000_000, beyond: 'refuses', fits: 2, prepare: none,
		one: (s, who, p) => unfinished(s, 'message_files', who, p, `${head(s, who, 20_000_000)}"${'x'.repeat(1_200_000)}`, 1_200_000),
	},
	answer_memory: {
		each: 1_000_000, total: 4_000_000, beyond: 'refuses', fits: -1,
		one: async (s, who) => {
			const all = await askUnread(s.base, ['/api/v1/openapi.json'], { 'x-api-key': who.key });
			const status = Number(Object.keys(all.statuses)[0]);
			const answer = { status, retry: /^retry-after: (.*)\r$/im.exec(all.heads[status]!)?.[1] ?? null, body: JSON.parse(/\r\n\r\n(\{[^]*\})$/.exec(all.heads[status]!)?.[1] ?? '{}') as Json };
			return { answer, granted: status === 200, close: all.close };
		},
		many: 60,
	},
	kept_bytes: {
		each: 200_000, total: 800_000, beyond: 'makes room', kept: true,
		prepare: async (s, who) => ({ boxes: await Promise.all([0, 1].map(() => s.box(who, { kind: 'stored' }))) }),
		one: async (s, who, p, i) => got(await runOf(s, who, p.boxes[i % 2], { code: 'print("x" * 60_000)', wait: true })),
	},
	secret_memory: {
		each: 100_000, total: 400_000, beyond: 'does without', kept: true, many: 4,
		one: async (s, who, _, i) => {
			const id = await s.box(who, { env: Object.fromEntries(Array.from({ length: 2 }, (__, k) => [`S${k}`, `${i}-${k}-`.repeat(20)])) });
			return got(await runOf(s, who, id, { code: 'print(1)', wait: true }), () => s.ask(who.key, 'DELETE', `/api/v1/sandboxes/${id}?force=true`));
		},
	},
	tasks: {
		each: EACH, total: TOTAL, beyond: 'does without', kept: true, many: 8, env: { SANDBOX_TASK_AFTER_S: '1' },
		prepare: async (s, who) => ({ boxes: await Promise.all([0, 1].map(() => s.box(who))) }),
		one: async (s, who, p, i) => {
			const answer = await s.call(who.key, 'tools/call', { name: 'sandbox_run_shell', arguments: { session_id: p.boxes[i % 2], command: 'sleep 3' } });
			return { answer, granted: !!answer.body.result?.taskId, close: () => {} };
		},
	},
	task_results: {
		each: 70_000, total: 280_000, beyond: 'makes room', kept: true, many: 8, env: { SANDBOX_TASK_AFTER_S: '1' },
		prepare: async (s, who) => ({ boxes: await Promise.all([0, 1, 2, 3].map(() => s.box(who))) }),
		one: async (s, who, p, i) => {
			const answer = await s.call(who.key, 'tools/call', { name: 'sandbox_run_shell', arguments: { session_id: p.boxes[i % 4], command: 'sleep 1.3; head -c 20000 /dev/zero | tr "\\0" x' } });
			const taskId = answer.body.result?.taskId as string | undefined;
			await until('the end of the task', async () => (await s.call(who.key, 'tasks/get', { taskId: taskId ?? '' })).body.result?.status !== 'working', waitMs);
			return got(answer);
		},
	},
	sandboxes: {
		each: EACH, total: 0, env: { SANDBOX_MAX_SESSIONS: '16' }, beyond: 'refuses',
		one: async (s, who) => {
			const answer = await s.ask(who.key, 'POST', '/api/v1/sandboxes', {});
			return got(answer, () => answer.status === 201 ? s.ask(who.key, 'DELETE', `/api/v1/sandboxes/${answer.body.id}`) : undefined);
		},
	},
	active_stored: { // what works makes no room; a user may have three stored sandboxes
		each: 2, total: 0, many: 3, env: { SANDBOX_STORED_MAX_ACTIVE: '16' }, beyond: 'refuses',
		one: async (s, who) => {
			const made = await s.ask(who.key, 'POST', '/api/v1/sandboxes', { kind: 'stored' });
			const close = (): unknown => made.status === 201 ? s.ask(who.key, 'DELETE', `/api/v1/sandboxes/${made.body.id}?force=true`) : undefined;
			return got(made.status === 201 ? await s.ask(who.key, 'POST', `/api/v1/sandboxes/${made.body.id}/processes`, { command: 'sleep 600' }) : made, close as Got['close']);
		},
	},
	processes: {
		each: EACH, total: TOTAL, beyond: 'refuses',
		prepare: async (s, who) => ({ boxes: [await s.box(who)] }),
		one: async (s, who, p) => {
			const at = `/api/v1/sandboxes/${p.boxes[0]}/processes`;
			const answer = await s.ask(who.key, 'POST', at, { command: 'sleep 600' });
			return got(answer, () => answer.status === 201 ? s.ask(who.key, 'DELETE', `${at}/${answer.body.id}`) : undefined);
		},
	},
	port_requests: { // of a server that never ends its answers
		each: EACH, total: TOTAL, beyond: 'refuses',
		prepare: async (s, who) => {
			const id = await s.box(who);
			const code = "import socket; s = socket.create_server(('127.0.0.1', 8000)); print('re' + 'ady', flush=True); a = []\nwhile 1: a.append(s.accept()[0]); a[-1].recv(4096); a[-1].send(b'HTTP/1.1 200 OK\\r\\n\\r\\n')";
			const at = `/api/v1/sandboxes/${id}/processes`;
			const { body } = await s.ask(who.key, 'POST', at, { command: `exec python3 -c "${code}"` });
			await until('the server', async () => JSON.stringify((await s.ask(who.key, 'GET', `${at}/${body.id}`)).body).includes('ready'));
			return { boxes: [id] };
		},
		one: (s, who, p) => s.stream(who.key, `/p/${p.boxes[0]}/8000/`),
	},
	public_requests: { // of people who are not the owner
		each: EACH, total: TOTAL, beyond: 'refuses', env: { SANDBOX_PUBLIC_PORTS: 'on' },
		prepare: async (s, who) => {
			const p = await rows.port_requests!.prepare!(s, who);
			assert.equal((await s.ask(who.key, 'PATCH', `/api/v1/sandboxes/${p.boxes[0]}`, { public: true })).status, 200);
			return p;
		},
		one: (s, _who, p) => s.stream('', '/', `8000-${p.boxes[0]}.localhost:${new URL(s.base).port}`),
	},
	queued_runs: {
		each: EACH, total: TOTAL, beyond: 'refuses',
		prepare: async (s, who) => ({ boxes: [(await s.busy(who)).id] }),
		one: async (s, who, p) => got(await runOf(s, who, p.boxes[0], { code: '1' })),
	},
	run_input: { // those that wait hold theirs
		each: EACH * 10_000, total: TOTAL * 10_000, fits: EACH, beyond: 'refuses',
		prepare: async (s, who) => ({ boxes: [(await s.busy(who)).id] }),
		one: async (s, who, p) => got(await runOf(s, who, p.boxes[0], { code: '1', stdin: 'x'.repeat(10_000) })),
	},
	followers: {
		each: EACH, total: TOTAL, beyond: 'refuses',
		prepare: async (s, who) => { const { id, run } = await s.busy(who); return { boxes: [id], run }; },
		one: (s, who, p) => s.stream(who.key, `/api/v1/runs/${p.run}/events`),
	},
	watchers: {
		each: EACH, total: TOTAL, beyond: 'refuses',
		prepare: async (s, who) => ({ boxes: [await s.box(who)] }),
		one: (s, who, p) => s.stream(who.key, `/api/v1/sandboxes/${p.boxes[0]}/events`),
	},
	installations: {
		each: EACH, total: TOTAL, beyond: 'refuses', many: 8,
		prepare: async (s, who) => ({ boxes: [await s.box(who)] }),
		one: async (s, who, p, i) => got(await s.ask(who.key, 'POST', `/api/v1/sandboxes/${p.boxes[0]}/packages`, { packages: `p${i}` })),
	},
	archives: {
		each: EACH, total: TOTAL, beyond: 'refuses', many: 8,
		prepare: async (s, who) => {
			const id = await s.box(who);
			assert.equal((await runOf(s, who, id, { code: 'open("sparse", "wb").truncate(1 << 30)', wait: true })).body.exit_code, 0);
			return { boxes: [id] };
		},
		one: (s, who, p) => s.stream(who.key, `/api/v1/sandboxes/${p.boxes[0]}/files?archive=tar`),
	},
	idempotency_keys: {
		each: EACH, total: TOTAL, beyond: 'refuses', kept: true,
		prepare: async (s, who) => ({ boxes: [(await s.busy(who)).id], answered: 0 }),
		one: async (s, who, p, i) => { // a run that waits: its request is under way and makes no room
			const abort = new AbortController();
			let answer: Answer | undefined;
			void fetch(`${s.base}/api/v1/sandboxes/${p.boxes[0]}/runs`, { method: 'POST', signal: abort.signal, body: JSON.stringify({ code: '1', wait: true }),
				headers: { 'x-api-key': who.key, 'content-type': 'application/json', 'idempotency-key': `key-${i}` } })
				.then(async (r) => { p.answered++; answer = { status: r.status, retry: r.headers.get('retry-after'), body: await r.json() as Json }; }).catch(() => {});
			await until('an answer, or the place', async () => answer || p.answered + ((await s.figures('idempotency_keys')).by_user[who.id] ?? 0) >= MANY, waitMs);
			return { answer: answer ?? { status: 0, retry: null, body: {} }, granted: !answer, close: () => abort.abort() };
		},
	},
	upload_links: {
		each: EACH, total: TOTAL, beyond: 'makes room', kept: true,
		prepare: async (s, who) => ({ boxes: [await s.box(who)] }),
		one: (s, who, p) => link(s, who, p.boxes[0]),
	},
	upload_memory: {
		each: 300_000, total: 1_200_000, beyond: 'waits', notAll: 'nothing is left when all are answered',
		prepare: async (s, who) => ({ boxes: [await s.box(who)] }),
		one: async (s, who, p, i) => {
			const r = await fetch(`${s.base}/api/v1/sandboxes/${p.boxes[0]}/files/f${i}`, { method: 'PUT', body: new Uint8Array(2_000_000), headers: { 'x-api-key': who.key } });
			return got({ status: r.status, retry: r.headers.get('retry-after'), body: await r.json() as Json });
		},
	},
	keys: {
		each: EACH, total: TOTAL, beyond: 'refuses', fits: EACH - 1, besides: 1,
		one: async (s, who) => {
			const answer = await s.ask(who.key, 'POST', '/api/v1/keys', {});
			return got(answer, () => answer.status === 201 ? s.ask(who.key, 'DELETE', `/api/v1/keys/${answer.body.id}`) : undefined);
		},
	},
};

/** Typed, and with words about what to do. */
function isRefusal(name: string, a: Answer): void {
	const e = a.body.error;
	if (a.status === 200 && e) {
		assert.deepEqual([e.code ?? -32003, e.data?.error ?? e.error, e.data?.budget ?? name], [-32003, 'budget_exceeded', name], JSON.stringify(a));
		return;
	}
	if (name === 'answer_memory') { // only the head of it was read
		assert.deepEqual([a.status, a.retry], [429, '10']);
		return;
	}
	assert.deepEqual([a.status, a.retry, a.body.code ?? e?.data?.error], [429, '10', 'budget_exceeded'], JSON.stringify(a));
	assert.ok(((a.body.hint ?? e?.data?.hint ?? e?.message) as string)?.length > 10, JSON.stringify(a));
}

async function released(s: Server, name: string, row: Row, whose: Who[]): Promise<void> {
	const left = async (): Promise<string> => JSON.stringify(Object.entries((await s.figures(name)).by_user).filter(([id, n]) => whose.some((w) => w.id === id) && (n as number) > (row.besides ?? 0)));
	if (row.kept)
		for (const who of whose)
			await s.good(s.admin, 'DELETE', `/api/v1/users/${who.id}`);
	await until(`${name} to be free again`, async () => await left() === '[]', row.endsMs ?? waitMs).catch(async (e: Error) => { throw new Error(`${e.message}: ${await left()}`); });
}

/** All requests of all users at once; what they got, and what was counted while they had it. */
async function together(s: Server, name: string, row: Row, whose: Who[]): Promise<{ by: Got[][]; figures: Json }> {
	const prepared = await Promise.all(whose.map((who) => row.prepare?.(s, who)));
	const by = await Promise.all(whose.map((who, k) => Promise.all(Array.from({ length: row.many ?? MANY }, (_, i) => row.one(s, who, prepared[k], i)))));
	const figures = await s.figures(name);
	for (const some of by)
		for (const one of some)
			await one.close();
	for (const [k, who] of whose.entries())
		for (const id of [...prepared[k]?.boxes ?? [], ...prepared[k]?.box ? [prepared[k].box] : []])
			await s.ask(who.key, 'DELETE', `/api/v1/sandboxes/${id}?force=true`);
	return { by, figures };
}

function judge(name: string, row: Row, by: Got[][], whose: Who[], figures: Json): void {
	const fits = row.fits ?? row.each;
	for (const [k, some] of by.entries()) {
		const granted = some.filter((g) => g.granted).length, used = figures.by_user[whose[k]!.id] ?? 0;
		assert.ok(used <= row.each, `${name}: ${used} of ${row.each} are used`);
		if (row.beyond === 'refuses')
			for (const g of some.filter((one) => !one.granted))
				isRefusal(name, g.answer);
		if (row.beyond === 'makes room' || row.beyond === 'waits')
			assert.equal(granted, some.length, `${name}: ${JSON.stringify(some.find((g) => !g.granted)?.answer)}`);
		else if (fits > 0)
			assert.ok(granted <= fits, `${name}: ${granted} granted, ${fits} fit`);
	}
	assert.ok(figures.used <= figures.total, `${name}: ${figures.used} of ${figures.total} in all`);
}

describe('budgets, reached by parallel requests', () => {
	for (const [name, row] of Object.entries(rows))
		it(`(slow) ${name}: one user, several users, nothing left`, async () => {
			const s = new Server({ SANDBOX_BUDGETS: `${name}=${row.each}${row.total ? `/${row.total}` : ''}`, ...row.env, ...(name === 'installations' ? await held() : {}) });
			await s.start();
			try {
				const who = await s.user();
				const table = Object.keys((await s.good(who.key, 'GET', '/api/v1/me')).budgets as Json);
				assert.deepEqual(table.sort(), Object.keys(rows).sort(), 'every row of budgets.tbl.h has a case here');
				const alone = await together(s, name, row, [who]);
				judge(name, row, alone.by, [who], alone.figures);
				const granted = alone.by[0]!.filter((g) => g.granted).length;
				if (row.beyond === 'refuses')
					assert.ok(granted === (row.fits ?? row.each) || (row.fits === -1 && granted > 0 && granted < alone.by[0]!.length), `${granted} granted`);
				else if (row.beyond !== 'waits')
					assert.ok(alone.figures.by_user[who.id] > row.each / 4, JSON.stringify(alone.figures));
				await released(s, name, row, [who]);
				if (row.notAll)
					return;
				const whose = await Promise.all(Array.from({ length: USERS }, () => s.user()));
				const all = await together(s, name, row, whose);
				judge(name, row, all.by, whose, all.figures);
				assert.ok(all.figures.used > row.each, `the bound in all was not tried: ${JSON.stringify(all.figures)}`);
				await released(s, name, row, whose);
			} finally {
				await s.end();
				index?.close();
				index = undefined;
			}
		});
});

it('upload links that are in use make no room', async () => {
	const s = new Server({ SANDBOX_BUDGETS: `upload_links=${EACH}/${TOTAL}` });
	await s.start();
	try {
		const who = await s.user(), box = await s.box(who);
		const { hostname, port, host } = new URL(s.base);
		const sockets = await Promise.all((await Promise.all(Array.from({ length: EACH }, () => link(s, who, box)))).map(async (made) => {
			let heard = '';
			const socket = net.connect(Number(port), hostname, () =>
				socket.write(`PUT ${new URL(facts(made.answer.body.result).upload_url as string).pathname}/f HTTP/1.1\r\nHost: ${host}\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n`));
			socket.on('data', (b: Buffer) => (heard += b.toString('latin1')));
			await until('its turn', () => heard.startsWith('HTTP/1.1 100 '), waitMs);
			return socket;
		}));
		for (const more of await Promise.all(Array.from({ length: MANY }, () => link(s, who, box)))) {
			assert.ok(!more.granted, 'more links than the bound');
			isRefusal('upload_links', more.answer);
		}
		assert.equal((await s.figures('upload_links')).by_user[who.id], EACH);
		sockets.forEach((socket) => socket.destroy());
		await until('a link to make room', async () => (await link(s, who, box)).granted, waitMs);
	} finally {
		await s.end();
	}
});

/** An index that answers nobody. */
let index: Index | undefined;
async function held(): Promise<Record<string, string>> {
	index = await new Index().open();
	for (let i = 0; i < MANY; i++)
		index.add(`p${i}`, { file: wheelName(`p${i}`, '1.0'), body: wheel(`p${i}`, '1.0', '') });
	index.hold = new Promise(() => {});
	return { SANDBOX_PIP_INDEX_URL: index.url };
}
