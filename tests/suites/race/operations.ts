// SPDX-License-Identifier: Apache-2.0
// What a client may do, each as one request or a few that belong together. Everything is named by numbers, so that a log can be replayed.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import { initsOf } from '../../lib/family.ts';
import { caisson } from '../../lib/process.ts';
import type { Json } from '../../lib/session.ts';
import { call, initialize, rpc } from '../../lib/torture.ts';
import { WebSocketClient } from '../../lib/websocket.ts';

export const USERS = 4;
export const IDS = 3; // sandboxes of one user that all actors use together

/** One operation of the log. `abort`: the connection is closed after so many ms. */
export interface Op {
	at: number;
	actor: number;
	op: string;
	user: number;
	id: number;
	n: number;
	abort?: number;
	slow?: number; // the answer is not read for so many ms
	heard?: (text: string) => void; // gets what has come of the answer, each time; no log has it
}

export interface Reply {
	status: number; // 0: the connection ended first
	body: string;
	headers: http.IncomingHttpHeaders;
}

export class World {
	readonly base: string;
	readonly admin: string;
	readonly front: number;
	readonly env: Record<string, string>;
	readonly keys: string[] = [];
	readonly users: string[] = []; // ids
	readonly sessions = new Map<string, string>(); // MCP, by key
	readonly begun: { session: string; user: number }[] = []; // all of them: two actors may begin one for the same key
	readonly links: string[] = []; // for uploads
	readonly downloads: string[] = [];
	readonly runs: string[] = [];
	readonly tasks: string[] = [];
	readonly processes: { at: string; user: number }[] = [];
	readonly terminals: { at: string; user: number }[] = [];
	private readonly turns: Promise<unknown>[] = [];
	readonly stored: { id: string; user: number }[] = [];
	constructor(base: string, admin: string, front: number, env: Record<string, string>) {
		[this.base, this.admin, this.front, this.env] = [base, admin, front, env];
	}

	send(o: Pick<Op, 'abort' | 'slow' | 'heard'>, method: string, target: string, key: string | undefined, body?: string | Buffer, headers: Record<string, string> = {}): Promise<Reply> {
		const url = new URL(target, this.base);
		return new Promise((resolve) => {
			let status = 0, text = '', got: http.IncomingHttpHeaders = {};
			const end = (): void => {
				clearTimeout(timer);
				resolve({ status, body: text, headers: got });
			};
			const req = http.request(url, { method, agent: false, headers: { ...(key ? { 'x-api-key': key } : {}), ...(body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }), ...headers } }, (res) => {
				got = res.headers;
				if (o.slow !== undefined) {
					res.pause();
					setTimeout(() => res.destroyed || res.resume(), o.slow);
				}
				res.setEncoding('utf8').on('data', (d: string) => {
					text = (text + d).slice(-100_000);
					o.heard?.(text);
				}).on('end', () => {
					status = res.statusCode!;
					end();
				}).on('error', end).on('close', end);
			});
			req.on('error', end);
			const timer = setTimeout(() => req.destroy(), o.abort ?? 60_000);
			if (o.abort !== undefined && body !== undefined && Buffer.byteLength(body) > 1000) { // half of it, then the rest
				const bytes = Buffer.from(body);
				req.write(bytes.subarray(0, bytes.length >> 1));
				setTimeout(() => req.destroyed || req.end(bytes.subarray(bytes.length >> 1)), o.abort >> 1);
			} else {
				req.end(body);
			}
		});
	}

	mcp(o: Op, tool: string, args: Json): Promise<Reply> {
		return this.rpc(o, call(tool, args));
	}

	/** One message in the MCP session of the user. */
	async rpc(o: Op, message: string): Promise<Reply> {
		const key = this.keys[o.user]!;
		const accept = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
		let session = this.sessions.get(key);
		if (!session) {
			session = (await this.send({}, 'POST', '/mcp', key, initialize(), accept)).headers['mcp-session-id'] as string | undefined;
			if (!session)
				return { status: 0, body: '', headers: {} };
			this.sessions.set(key, session);
			this.begun.push({ session, user: o.user });
		}
		const r = await this.send(o, 'POST', '/mcp', key, message, { ...accept, 'mcp-session-id': session, 'mcp-protocol-version': '2025-11-25' });
		if (r.status === 404)
			this.sessions.delete(key);
		return r;
	}

	/** Changes of a user's credentials, one after the other: two at once would leave the user without any. */
	alone<T>(user: number, body: () => Promise<T>): Promise<T> {
		const mine = (this.turns[user] ?? Promise.resolve()).then(body, body);
		this.turns[user] = mine;
		return mine;
	}

	/** A request of the revision without sessions, from a client that knows tasks. */
	modern(o: Op, method: string, params: Json, called: string): Promise<Reply> {
		const prefix = 'io.modelcontextprotocol/';
		const _meta = { [`${prefix}protocolVersion`]: '2026-07-28', [`${prefix}clientCapabilities`]: { extensions: { [`${prefix}tasks`]: {} } } };
		return this.send(o, 'POST', '/mcp', this.keys[o.user], rpc(method, { ...params, _meta }), { 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, 'mcp-name': called });
	}
}

const json = { 'content-type': 'application/json' };
export const sandboxName = (user: number, id: number): string => `race-${user}-${id}`;
const name = (o: Op): string => sandboxName(o.user, o.id);

/** A form of N small files. */
function form(n: number): string {
	return Array.from({ length: n }, (_, i) => `--b0\r\nContent-Disposition: form-data; name="f"; filename="form/n${i}"\r\n\r\n${i}\r\n`).join('') + '--b0--\r\n';
}

const codes = [
	'open("made.txt", "w").write("x" * 1000); open("made.csv", "w").write("a,b\\n1,2\\n")',
	'import time; time.sleep(0.3)',
	'print("x" * 300_000)',
	'import glob, os\nfor f in glob.glob("form/*"): os.remove(f)',
	'import os; os.fork(); print(1)',
	'import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()',
	'for i in range(300): open(f"f{i}", "w").write("x")',
	'import time\nfor i in range(50): print(i, flush=True); time.sleep(0.01)',
	'open("large", "wb").write(bytes(4_000_000))',
	'import os; os.makedirs("deep/a/b", exist_ok=True)\nfor i in range(40): open(f"deep/a/b/{i}", "w").write("x" * 50_000)',
];
const processes: Json[] = [
	{ command: 'sleep 1000', input: true },
	{ command: 'cat', input: true },
	{ command: 'while :; do echo x; done', timeout_s: 3 },
	{ command: 'sleep 0.2; exit 3' },
	{ command: 'setsid sleep 1000 & sleep 1', timeout_s: 2 },
];
/** Of the root user, in sandboxes that have one: what others of the same sandbox meet meanwhile. */
const rooted = [
	'head -c 500000 /dev/urandom >/var/x; rm -rf /usr/share/doc; chown 33 made.txt; chmod 000 form',
	'mkdir -p shut/in; chown -R 1:1 shut; chmod 000 shut/in shut',
	"python3 -c 'import os, time\nfor u in (33, 1000, 65534):\n  if os.fork() == 0: os.setgid(u); os.setuid(u)\ntime.sleep(0.3)'",
	'setsid sleep 1000 & sleep 0.1',
	'chmod -R 755 /mnt/data; chown -R sandbox /mnt/data; rm -rf shut',
	'su sandbox -c "sleep 0.1; kill -9 -1"',
	'kill -9 -1',
	'chown root /mnt/data; chmod 700 /mnt/data; sleep 0.1; chmod 755 /mnt/data; chown sandbox /mnt/data',
	'mv /usr/bin/python3 /usr/bin/away; sleep 0.1; mv /usr/bin/away /usr/bin/python3',
];
const packages = ['gamma', 'delta', 'gamma delta', 'missing'];

type Fn = (w: World, o: Op) => Promise<Reply | undefined>;
const rest = (method: string, at: (o: Op) => string, body?: (o: Op) => Json): Fn => (w, o) =>
	w.send(o, method, `/api/v1${at(o)}`, w.keys[o.user], body ? JSON.stringify(body(o)) : undefined, body ? json : {});
const of = (rest: string) => (o: Op): string => `/sandboxes/${name(o)}${rest}`;
const code = (o: Op): string => codes[o.n % codes.length]!;
/** One of the background processes of anybody, asked by its owner. */
const ofProcess = (method: string, what: string, body?: (o: Op) => Json): Fn => (w, o) => {
	const p = w.processes[o.n % 10];
	return rest(method, () => `${p?.at ?? '/sandboxes/none/processes/p1'}${what}`, body)(w, { ...o, user: p?.user ?? o.user });
};
/** One answer in three is read late. */
const slowly = (o: Op): Op => (o.n % 3 === 0 ? { ...o, slow: o.n % 500 } : o);

/** Each with its weight. */
export const operations: Record<string, [weight: number, fn: Fn]> = {
	run: [10, async (w, o) => {
		const r = await w.mcp(o, 'sandbox_run_python', { code: code(o), session_id: name(o), stateful: o.n % 3 === 0 });
		const link = /http:[^\s"\\]*(\/files\/[^\s"\\]+)/.exec(r.body)?.[1];
		if (link)
			w.downloads[o.n % 20] = link;
		return r;
	}],
	shell: [3, (w, o) => w.mcp(o, 'sandbox_run_shell', { command: 'ls -R | head -100', session_id: name(o) })],
	restRun: [5, async (w, o) => {
		const r = await rest('POST', of('/runs'), () => ({ code: code(o), wait: o.n % 2 === 0 }))(w, o);
		const id = /"id":"(run_[^"]+)"/.exec(r?.body ?? '')?.[1];
		if (id)
			w.runs[o.n % 20] = id;
		return r;
	}],
	idempotent: [2, (w, o) => w.send(o, 'POST', `/api/v1/sandboxes/${name(o)}/runs`, w.keys[o.user], JSON.stringify({ code: 'print(1)', wait: true }), { ...json, 'idempotency-key': `k${o.n % 5}` })],
	readRun: [2, (w, o) => rest('GET', () => `/runs/${w.runs[o.n % 20] ?? 'none'}`)(w, o)],
	followRun: [2, (w, o) => rest('GET', () => `/runs/${w.runs[o.n % 20] ?? 'none'}/events`)(w, { ...o, abort: o.abort ?? 300 })],
	cancelRun: [2, (w, o) => rest('DELETE', () => `/runs/${w.runs[o.n % 20] ?? 'none'}${(o.n >> 5) % 3 ? '' : '?interrupt=true'}`)(w, o)],
	// A run that others asked for: one that runs, or waits in a stored sandbox.
	cancelCell: [2, async (w, o) => {
		const [id, user] = o.n % 2 ? [name(o), o.user] : [w.stored[(o.n >> 1) % 6]?.id ?? 'none', w.stored[(o.n >> 1) % 6]?.user ?? o.user];
		const book = await rest('GET', () => `/notebooks/${id}`)(w, { ...o, user, abort: undefined });
		const run = /"run":"(run_[^"]+)"[^]*?"status":"(?:queued|running)"/.exec(book?.body ?? '')?.[1] ?? 'none';
		return rest('DELETE', () => `/runs/${run}${o.n % 3 ? '' : '?interrupt=true'}`)(w, { ...o, user });
	}],
	command: [2, rest('POST', of('/runs'), (o) => (o.n % 3 ? { command: 'cd / && sleep 0.1; ls', cwd: 'deep', wait: o.n % 2 === 0 } : { code: 'x = 1', restart: true, wait: o.n % 2 === 0 }))],
	events: [2, (w, o) => rest('GET', () => '/events')(w, { ...o, abort: 100 + o.n % 2000 })],
	watch: [2, (w, o) => rest('GET', of(`/events?recursive=${o.n % 2 === 0}&path=${['', 'form', 'deep', 'made.txt'][o.n % 4]}`))(w, { ...o, abort: 100 + o.n % 2000 })],
	watchPorts: [1, (w, o) => rest('GET', of('/events?ports=true'))(w, { ...o, abort: 100 + o.n % 2000 })],
	form: [10, (w, o) => w.send(o, 'POST', `/api/v1/sandboxes/${name(o)}/files?overwrite=true`, w.keys[o.user], form(1 + o.n % 99), { 'content-type': 'multipart/form-data; boundary=b0' })],
	put: [6, (w, o) => w.send(o, 'PUT', `/api/v1/sandboxes/${name(o)}/files/put${o.n % 3}?overwrite=true`, w.keys[o.user], Buffer.alloc(o.n % 300_000, 'x'))],
	get: [4, (w, o) => rest('GET', () => `/sandboxes/${name(o)}/files/${o.n % 4 ? `put${o.n % 3}` : 'large'}`)(w, slowly(o))],
	download: [3, (w, o) => w.send(slowly(o), 'GET', w.downloads[o.n % 20] ?? '/files/none/none', undefined)],
	range: [1, (w, o) => w.send(slowly(o), o.n % 4 ? 'GET' : 'HEAD', `/api/v1/sandboxes/${name(o)}/files/${o.n % 5 ? `put${o.n % 3}` : 'large'}`, w.keys[o.user], undefined, { range: `bytes=${o.n % 5000}-` })],
	archive: [3, (w, o) => rest('GET', () => `/sandboxes/${name(o)}/files/${['form', 'deep'][o.n % 2]}?archive=${['tar', 'zip'][(o.n >> 1) % 2]}`)(w, slowly(o))],
	archiveAll: [2, (w, o) => rest('GET', of(`/files?archive=${['tar', 'zip'][o.n % 2]}`))(w, slowly(o))],
	list: [3, rest('GET', of('/files'))],
	remove: [2, rest('DELETE', (o) => `/sandboxes/${name(o)}/files/${['form', 'put1', 'made.txt'][o.n % 3]}?recursive=true`)],
	upload: [3, (w, o) => w.mcp(o, 'sandbox_add_file', { session_id: name(o), path: `b${o.n % 3}`, content_base64: Buffer.alloc(o.n % 100_000, 'y').toString('base64'), overwrite: true })],
	link: [3, async (w, o) => {
		const r = await w.mcp(o, 'sandbox_add_file', { session_id: name(o) });
		const link = /\/upload\/[0-9a-f]{64}/.exec(r.body)?.[0];
		if (link)
			w.links[o.n % 20] = link;
		return r;
	}],
	useLink: [4, (w, o) => {
		const link = w.links[o.n % 20] ?? '/upload/none';
		return o.n % 2 ? w.send(o, 'PUT', `${link}/linked`, undefined, Buffer.alloc(o.n % 100_000, 'z')) : w.send(o, 'POST', link, undefined, form(1), { 'content-type': 'multipart/form-data; boundary=b0', origin: w.base });
	}],
	checkpoint: [3, rest('POST', of('/checkpoints'), (o) => ({ name: `c${o.n % 3}` }))],
	restore: [2, rest('POST', (o) => `/sandboxes/${name(o)}/checkpoints/c${o.n % 3}/restore`, () => ({}))],
	dropCheckpoint: [1, rest('DELETE', (o) => `/sandboxes/${name(o)}/checkpoints/c${o.n % 3}`)],
	branches: [2, rest('POST', of('/branches'), () => ({ branches: [{ name: 'a', code: 'print(1)' }, { name: 'b', code: 'import time; time.sleep(0.2)' }], timeout_s: 5 }))],
	fork: [2, async (w, o) => {
		const r = await rest('POST', of('/forks'), () => ({}))(w, o);
		const ids = [...(r?.body ?? '').matchAll(/"id":"([^"]+)"/g)].map((m) => m[1]);
		for (const id of ids)
			await w.send({}, 'DELETE', `/api/v1/sandboxes/${id}?force=true`, w.keys[o.user]);
		return r;
	}],
	exportSandbox: [2, (w, o) => rest('GET', of('/export'))(w, slowly(o))],
	exportNotebook: [2, rest('GET', (o) => `/notebooks/${name(o)}/export${o.n % 2 ? '' : '?format=html'}`)],
	notebook: [2, rest('GET', (o) => `/notebooks/${name(o)}`)],
	install: [3, rest('POST', of('/packages'), (o) => ({ packages: packages[o.n % 4], wait: o.n % 3 > 0 }))],
	packages: [3, rest('GET', of('/packages?all=true'))],
	uninstall: [1, rest('DELETE', (o) => `/sandboxes/${name(o)}/packages/${packages[o.n % 2]}`)],
	checkPackages: [2, rest('GET', (o) => `/sandboxes/${name(o)}/packages/${packages[o.n % 2]}?wait=${o.n % 3 > 0}`)],
	lookUp: [1, rest('GET', of('/index/gamma'))],
	preview: [1, rest('GET', of('/preview?path=made.csv'))],
	complete: [1, rest('POST', of('/complete'), () => ({ code: 'import o', cursor: 8 }))],
	usage: [2, rest('GET', (o) => of(`/usage${o.n % 2 ? '' : '?series=true'}`)(o))],
	change: [1, rest('PATCH', of(''), (o) => ({ labels: { n: String(o.n) }, timeout_s: 20 }))],
	sandboxes: [1, rest('GET', () => '/sandboxes')],
	history: [1, rest('GET', () => '/history?q=print')],
	readFile: [2, (w, o) => w.mcp(o, 'sandbox_read_file', { session_id: name(o), path: `put${o.n % 3}` })],
	tab: [1, (w, o) => w.send({ abort: 50 + o.n % 1000 }, 'GET', '/mcp', w.keys[o.user], undefined, { accept: 'text/event-stream', 'mcp-session-id': w.sessions.get(w.keys[o.user]!) ?? 'none' })],
	// The events of a call whose client has left, and comes back for the rest.
	resume: [2, async (w, o) => {
		const message = JSON.parse(call('sandbox_run_python', { code: code(o), session_id: name(o) })) as Json;
		const r = await w.rpc({ ...o, abort: 20 + o.n % 400 }, JSON.stringify({ ...message, params: { ...message.params, _meta: { progressToken: 1 } } }));
		const last = [...r.body.matchAll(/^id: (\S+)$/gm)].at(-1)?.[1];
		return last ? w.send({ abort: 1000 }, 'GET', '/mcp', w.keys[o.user], undefined, { accept: 'text/event-stream', 'mcp-session-id': w.sessions.get(w.keys[o.user]!) ?? 'none', 'last-event-id': last }) : r;
	}],
	// A session of the revision that has batches: several calls in one message, and its end while they are at work.
	batch: [1, async (w, o) => {
		const key = w.keys[o.user]!, accept = { ...json, accept: 'application/json, text/event-stream' };
		const first = rpc('initialize', { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'batch', version: '1' } });
		const session = (await w.send({}, 'POST', '/mcp', key, first, accept)).headers['mcp-session-id'] as string | undefined;
		if (!session)
			return undefined;
		w.begun.push({ session, user: o.user });
		const calls = [call('sandbox_run_python', { code: code(o), session_id: name(o) }), call('sandbox_list_files', { session_id: name(o) }), rpc('resources/list'), rpc('ping'), call('sandbox_delete', { session_id: `${name(o)}x` })];
		const done = w.send(o, 'POST', '/mcp', key, `[${calls.join(',')}]`, { ...accept, 'mcp-session-id': session });
		await new Promise((resolve) => setTimeout(resolve, o.n % 400));
		await w.send({}, 'DELETE', '/mcp', key, undefined, { 'mcp-session-id': session });
		return done;
	}],
	// Subscriptions of the revision without sessions.
	listen: [2, (w, o) => w.modern({ ...o, abort: 50 + o.n % 1000 }, 'subscriptions/listen', { notifications: { toolsListChanged: true, resourcesListChanged: true,
		resourceSubscriptions: ['made.txt', 'put1', 'w.txt'].map((file) => `sandbox://${name(o)}/${file}`), taskIds: w.tasks.filter(Boolean) } }, '')],
	endSession: [1, async (w, o) => {
		const session = w.sessions.get(w.keys[o.user]!);
		w.sessions.delete(w.keys[o.user]!);
		return session ? w.send(o, 'DELETE', '/mcp', w.keys[o.user], undefined, { 'mcp-session-id': session }) : undefined;
	}],
	// A run that is a task when it takes longer than a second.
	task: [3, async (w, o) => {
		const r = await w.modern(o, 'tools/call', { name: 'sandbox_run_python', arguments: { code: 'import time; time.sleep(2)', session_id: name(o) } }, 'sandbox_run_python');
		const id = /"taskId":"([^"]+)"/.exec(r.body)?.[1];
		if (id)
			w.tasks[o.n % 10] = id;
		return r;
	}],
	taskGet: [2, (w, o) => w.modern(o, 'tasks/get', { taskId: w.tasks[o.n % 10] ?? 'none' }, w.tasks[o.n % 10] ?? 'none')],
	taskUpdate: [1, (w, o) => w.modern(o, 'tasks/update', { taskId: w.tasks[o.n % 10] ?? 'none', inputResponses: { a: { action: 'accept', content: {} } } }, w.tasks[o.n % 10] ?? 'none')],
	taskCancel: [2, (w, o) => w.modern(o, 'tasks/cancel', { taskId: w.tasks[o.n % 10] ?? 'none' }, w.tasks[o.n % 10] ?? 'none')],
	// A call, and its cancellation from another connection.
	cancelled: [2, async (w, o) => {
		const message = call('sandbox_run_python', { code: 'import time; time.sleep(1)', session_id: name(o) });
		const done = w.rpc(o, message);
		await new Promise((resolve) => setTimeout(resolve, o.n % 300));
		await w.rpc({ ...o, abort: undefined }, JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: (JSON.parse(message) as Json).id } }));
		return done;
	}],
	tool: [6, (w, o) => {
		const session_id = name(o);
		const [tool, args] = ([
			['sandbox_write_file', { session_id, path: 'w.txt', content: 'x'.repeat(o.n % 50_000) }],
			['sandbox_edit_file', { session_id, path: 'w.txt', old_text: 'x', new_text: 'y', replace_all: true }],
			['sandbox_list_files', { session_id }],
			['sandbox_info', { session_id }],
			['sandbox_checkpoint', { session_id, name: `c${o.n % 3}` }],
			['sandbox_restore', { session_id, name: `c${o.n % 3}` }],
			['sandbox_branch', { session_id, branches: [{ name: 'a', code: 'print(1)' }, { name: 'b', code: 'print(2)' }] }],
			['sandbox_install_packages', { session_id, packages: packages[o.n % 4] }],
			['sandbox_list_packages', { session_id }],
			['sandbox_read_artifact', { session_id, path: '/mnt/data/large' }],
			['sandbox_view_image', { session_id, path: 'figure-1.png' }],
			['execute_python_code', { sandbox_id: session_id, code: code(o) }],
			['execute_terminal_command', { sandbox_id: session_id, command: 'sleep 0.2; ls' }],
			['sandbox_upload_file', { session_id, filename: 'u.txt', content_base64: Buffer.alloc(o.n % 70_000, 'u').toString('base64'), overwrite: true }],
		] as [string, Json][])[(o.n >> 4) % 14]!;
		return w.mcp(o, tool, args);
	}],
	// Those that end sandboxes, copy them, or are rarer.
	tool2: [4, (w, o) => {
		const session_id = name(o), sandbox_id = session_id, next = sandboxName(o.user, (o.id + 1) % IDS);
		const all: [string, Json][] = [
			['sandbox_delete', { session_id }],
			['sandbox_close_session', { session_id }],
			['sandbox_list', {}],
			['sandbox_list_artifacts', { session_id }],
			['sandbox_create', { session_id: next, copy_of: session_id }],
			['sandbox_create', { session_id, labels: { n: String(o.n) } }],
			['sandbox_fork', { session_id, new_session_id: next }],
			['sandbox_checkpoint', { session_id, name: `c${o.n % 3}`, delete: true }],
			['sandbox_install_packages', { session_id, packages: 'gamma', remove: true }],
			['sandbox_uninstall_packages', { session_id, packages: 'delta' }],
			['sandbox_read_file', { session_id, path: 'put1', base64: true }],
			['sandbox_read_file', { session_id, path: 'figure-1.png' }],
			['sandbox_run_python', { code: 'print("x" * 300_000)', session_id, stateful: true, restart: o.n % 2 === 0 }],
			['list_sandboxes', {}],
			['install_package_in_sandbox', { sandbox_id, package_name: packages[o.n % 4] }],
			['check_package_installation_status', { sandbox_id, package_name: packages[o.n % 4] }],
			['delete_sandbox', { sandbox_id: w.stored[o.n % 6]?.id ?? 'none' }],
		];
		return w.mcp(o, ...all[(o.n >> 4) % all.length]!);
	}],
	resource: [3, (w, o) => {
		const uri = `sandbox://${name(o)}/${['made.txt', 'put1', 'w.txt'][o.n % 3]}`;
		return w.rpc(o, [rpc('resources/read', { uri }), rpc('resources/subscribe', { uri }), rpc('resources/list'), rpc('tools/list'), rpc('prompts/list'),
			rpc('completion/complete', { ref: { type: 'ref/resource', uri: 'sandbox://{session_id}/{+path}' }, argument: { name: 'path', value: 'p' }, context: { arguments: { session_id: name(o) } } })][(o.n >> 2) % 6]!);
	}],
	// A stored sandbox: made, used, deleted, all by whoever comes.
	store: [2, async (w, o) => {
		const r = await rest('POST', () => '/sandboxes', () => ({ kind: 'stored', name: 's' }))(w, o);
		const id = /"id":"([^"]+)"/.exec(r?.body ?? '')?.[1];
		if (id)
			w.stored[o.n % 6] = { id, user: o.user };
		return r;
	}],
	useStored: [4, (w, o) => stored(w, o, (id, own) => o.n % 3
		? rest('POST', () => `/sandboxes/${id}/runs`, () => ({ code: code(o), wait: true }))(w, own)
		: w.send(own, 'PUT', `/api/v1/sandboxes/${id}/files/put${o.n % 2}?overwrite=true`, w.keys[own.user], Buffer.alloc(o.n % 200_000, 's')))],
	unstore: [3, (w, o) => stored(w, o, (id, own) => rest('DELETE', () => `/sandboxes/${id}?force=true`)(w, own))],
	// A session with an id of the server's becomes a stored sandbox, while others may use or delete it.
	keep: [2, async (w, o) => {
		const id = /"id":"([^"]+)"/.exec((await rest('POST', () => '/sandboxes', () => ({}))(w, { ...o, abort: undefined }))?.body ?? '')?.[1];
		if (!id)
			return undefined;
		const replaced = w.stored[o.n % 6];
		w.stored[o.n % 6] = { id, user: o.user };
		if (replaced)
			void rest('DELETE', () => `/sandboxes/${replaced.id}?force=true`)(w, { ...o, abort: undefined, user: replaced.user });
		const code = rest('POST', () => `/sandboxes/${id}/runs`, () => ({ code: 'open("kept", "w").write("x" * 100_000)', stateful: true }));
		return (await Promise.all([code(w, o), rest('POST', () => `/sandboxes/${id}/keep`, () => ({}))(w, o)]))[1];
	}],
	keepAgain: [2, (w, o) => stored(w, o, (id, own) => rest('POST', () => `/sandboxes/${id}/keep`, () => ({}))(w, own))],
	// Background processes, of sessions and of stored sandboxes.
	startProcess: [4, async (w, o) => {
		const start = async (id: string, own: Op): Promise<Reply | undefined> => {
			const r = await rest('POST', () => `/sandboxes/${id}/processes`, () => processes[(o.n >> 2) % processes.length]!)(w, own);
			const p = /"id":"(p\d+)"/.exec(r?.body ?? '')?.[1];
			if (p)
				w.processes[o.n % 10] = { at: `/sandboxes/${id}/processes/${p}`, user: own.user };
			return r;
		};
		return o.n % 4 ? start(name(o), o) : stored(w, o, start);
	}],
	// Where the server has no root users these are refused.
	makeRoot: [6, (w, o) => w.mcp(o, 'sandbox_create', { session_id: name(o), root: true })],
	asRoot: [6, async (w, o) => {
		if (o.n % 3)
			await w.mcp({ ...o, abort: undefined }, 'sandbox_create', { session_id: name(o), root: true });
		return rest('POST', of('/runs'), () => ({ command: rooted[(o.n >> 1) % rooted.length], user: 'root', wait: o.n % 2 === 0 }))(w, o);
	}],
	rootProcess: [3, async (w, o) => {
		const what = o.n % 3 ? 'processes' : 'terminals';
		const r = await rest('POST', of(`/${what}`), () => ({ command: rooted[(o.n >> 2) % rooted.length], user: 'root' }))(w, o);
		const p = /"id":"(p\d+)"/.exec(r?.body ?? '')?.[1];
		if (p)
			(what === 'processes' ? w.processes : w.terminals)[o.n % 6] = { at: `/sandboxes/${name(o)}/${what}/${p}`, user: o.user };
		return r;
	}],
	waitProcess: [3, (w, o) => ofProcess('GET', `?wait_s=${o.n % 3}`)(w, slowly(o))],
	writeProcess: [4, ofProcess('POST', '/input', (o) => ({ text: 'x'.repeat(o.n % 60_000), close: o.n % 5 === 0 }))],
	signalProcess: [2, ofProcess('POST', '/signal', (o) => ({ signal: ['TERM', 'KILL', 'STOP', 'CONT'][o.n % 4] }))],
	removeProcess: [2, ofProcess('DELETE', '')],
	processes: [1, rest('GET', of('/processes'))],
	// Terminals: they are started, watched, typed into, resized and left by several clients at a time.
	startTerminal: [3, async (w, o) => {
		const command = [undefined, 'cat', 'yes', 'exit 3', 'stty raw; sleep 2'][o.n % 5];
		const r = await rest('POST', () => `/sandboxes/${name(o)}/terminals`, () => ({ command, rows: 1 + o.n % 100 }))(w, o);
		const t = /"id":"(p\d+)"/.exec(r?.body ?? '')?.[1];
		if (t)
			w.terminals[o.n % 6] = { at: `/sandboxes/${name(o)}/terminals/${t}`, user: o.user };
		return r;
	}],
	attachTerminal: [5, async (w, o) => {
		const t = w.terminals[o.n % 6];
		if (!t)
			return undefined;
		const c = await WebSocketClient.open(`${w.base}/api/v1${t.at}?from=${o.n % 7 * 1000}`, { 'x-api-key': w.keys[t.user]! }).catch(() => undefined);
		if (!(c instanceof WebSocketClient))
			return undefined;
		for (let i = 0; i < o.n % 20 && !c.ended; i++) {
			c.say({ resize: { rows: 1 + (o.n + i) % 1000, columns: 1 + i } });
			c.type('x'.repeat((o.n * i) % 30_000) + ['\n', '\x03', '\x04', ''][i % 4]);
			await new Promise((resolve) => setTimeout(resolve, o.n % 30));
			if (i % 5 === 3)
				c.socket.pause();
		}
		if (o.n % 3)
			c.socket.destroy();
		else
			c.close();
		return undefined;
	}],
	removeTerminal: [1, (w, o) => {
		const t = w.terminals[o.n % 6];
		return rest('DELETE', () => t?.at ?? '/sandboxes/none/terminals/p1')(w, { ...o, user: t?.user ?? o.user });
	}],
	terminals: [1, rest('GET', of('/terminals'))],
	// Bodies that a thread reads.
	longBody: [3, rest('POST', of('/runs'), (o) => ({ code: 'print(len(input()))', stdin: '"\\'.repeat(10_000 + o.n % 20_000), wait: o.n % 2 === 0 }))],
	move: [2, rest('PATCH', (o) => of(`/files/put${o.n % 3}`)(o), (o) => ({ to: `put${(o.n >> 2) % 3}` }))],
	makeFolder: [1, rest('POST', of('/folders'), (o) => ({ path: `deep/f${o.n % 9}` }))],
	addMarkdown: [1, rest('POST', (o) => `/notebooks/${name(o)}/markdown`, (o) => ({ text: `# ${o.n}` }))],
	changeCell: [2, async (w, o) => {
		const book = await rest('GET', () => `/notebooks/${name(o)}`)(w, { ...o, abort: undefined });
		const runs = [...(book?.body ?? '').matchAll(/"run":"([^"]+)"/g)].map((m) => m[1]);
		const at = `/notebooks/${name(o)}/runs/${runs[o.n % Math.max(1, runs.length)] ?? 'none'}`;
		return o.n % 2 ? rest('DELETE', () => at)(w, o) : rest('PATCH', () => at, () => ({ text: 'changed' }))(w, o);
	}],
	limits: [1, rest('PATCH', of(''), (o) => ({ memory_mb: 256 + o.n % 256, processes: 32 + o.n % 32 }))],
	// The old transport: a stream, and messages to the address that it begins with.
	sse: [2, async (w, o) => {
		const key = w.keys[o.user], posts: Promise<Reply>[] = [];
		const heard = (text: string): void => {
			const at = /^data: (\/messages\S+)\r$/m.exec(text)?.[1];
			if (at && posts.length === 0)
				for (const message of [initialize(), call('sandbox_run_python', { code: code(o), session_id: name(o) }), rpc('resources/list')])
					posts.push(w.send({ abort: o.abort }, 'POST', at, key, message, json));
		};
		const stream = await w.send({ abort: 100 + o.n % 800, heard }, 'GET', '/sse', key, undefined, { accept: 'text/event-stream' });
		for (const r of await Promise.all(posts))
			if (r.status >= 500)
				return r;
		return stream;
	}],
	look: [4, (w, o) => {
		const key = o.n % 7 < 3 ? w.admin : w.keys[o.user];
		return w.send(slowly(o), 'GET', `/api/v1/${['runs', 'notebooks', 'keys', 'audit', 'users', 'figures', 'images', 'server', 'policy', 'me', 'invitations', `sandboxes/${name(o)}`, `sandboxes/${name(o)}/checkpoints`, 'sandboxes?usage=true', 'openapi.json'][o.n % 15]}`, key);
	}],
	// A run of the history, a file that it made, and what it showed.
	cell: [3, async (w, o) => {
		const book = await rest('GET', () => `/notebooks/${name(o)}`)(w, { ...o, abort: undefined });
		const run = /"run":"(run_[^"]+)"/.exec(book?.body ?? '')?.[1] ?? 'none';
		return rest('GET', () => `/notebooks/${name(o)}/runs/${run}${['', '/files/figure-1.png', '/results'][o.n % 3]}`)(w, o);
	}],
	forget: [1, rest('DELETE', (o) => `/notebooks/${name(o)}`)],
	// A user of an administrator's, who is changed and goes again.
	user: [1, async (w, o) => {
		const made = await w.send({}, 'POST', '/api/v1/users', w.admin, JSON.stringify({ name: `made${o.at}x${o.n}`, ...(o.n % 3 ? {} : { password: 'a long password' }) }), json);
		const id = /"id":"([^"]+)"/.exec(made.body)?.[1];
		if (!id)
			return made;
		const changed = await w.send(o, 'PATCH', `/api/v1/users/${id}`, w.admin, JSON.stringify({ max_sandboxes: 3, active: o.n % 2 === 0, ...(o.n % 3 ? { password: 'another password' } : {}) }), json);
		const gone = await w.send({}, 'DELETE', `/api/v1/users/${id}`, w.admin);
		return changed.status >= 500 ? changed : gone;
	}],
	// An account by invitation, in a browser: a new password, the end of its sign-ins, and its removal.
	account: [1, async (w, o) => {
		const invited = await w.send({}, 'POST', '/api/v1/invitations', w.admin, '{}', json);
		const invitation = /csi_[^"]+/.exec(invited.body)?.[0];
		const password = 'a long password';
		const joined = await w.send({}, 'POST', '/api/v1/register', undefined, JSON.stringify({ username: `joined${o.at}x${o.n}`, password, invitation }), json);
		const id = /"id":"([^"]+)"/.exec(joined.body)?.[1];
		if (!id)
			return joined;
		const cookie = (r: Reply): string => (r.headers['set-cookie'] ?? []).map((c) => c.split(';')[0]).join('; ');
		const as = { ...json, cookie: cookie(joined), 'x-caisson-page': '1', 'sec-fetch-site': 'same-origin' };
		const renewed = await w.send(o, 'POST', '/api/v1/me/password', undefined, JSON.stringify({ password, new_password: 'another password' }), as);
		const left = await w.send(o, 'DELETE', `/api/v1/session?all=${o.n % 2 === 0}`, undefined, undefined, { ...as, cookie: cookie(renewed) || as.cookie });
		const gone = await w.send({}, 'DELETE', `/api/v1/users/${id}`, w.admin);
		return [renewed, left].find((r) => r.status >= 500) ?? gone;
	}],
	classicMe: [1, (w, o) => w.send(o, 'GET', `/api/users/me${['', '/sandboxes', '/api-key'][o.n % 3]}`, w.keys[o.user])],
	token: [1, (w, o) => w.send(o, 'POST', '/api/token', undefined, 'username=user1&password=wrong', { 'content-type': 'application/x-www-form-urlencoded' })],
	signIn: [1, (w, o) => w.send(o, 'POST', '/api/v1/session', undefined, JSON.stringify({ username: 'user0', password: 'wrong' }), json)],
	close: [3, rest('DELETE', of(''))],
	force: [6, rest('DELETE', of('?force=true'))],
	// SIGKILL of the first process of some sandbox, as if the kernel had ended it.
	kill: [2, async (w, o) => {
		const inits = initsOf(w.front);
		const init = inits[o.n % Math.max(1, inits.length)];
		try {
			if (init)
				process.kill(init.pid, 'SIGKILL');
		} catch (e) {
			assert.equal((e as NodeJS.ErrnoException).code, 'ESRCH'); // it has just ended by itself
		}
		return undefined;
	}],
	revoke: [2, (w, o) => w.alone(o.user, async () => {
		const old = w.keys[o.user]!;
		const made = await w.send({}, 'POST', '/api/v1/keys', old, JSON.stringify({ name: `k${o.n}` }), json);
		const key = /"key":"(csn_[^"]+)"/.exec(made.body)?.[1];
		if (!key)
			return made;
		w.keys[o.user] = key;
		const keys = (JSON.parse((await w.send({}, 'GET', '/api/v1/keys', key)).body || '{}') as Json).keys as Json[] | undefined;
		for (const k of keys ?? [])
			if (k.name !== `k${o.n}`)
				await w.send({}, 'DELETE', `/api/v1/keys/${k.id}`, key);
		return made;
	})],
	// The last user goes with everything, and comes again.
	removeUser: [1, (w, o) => w.alone(USERS - 1, async () => {
		const r = await w.send({}, 'DELETE', `/api/v1/users/${w.users[USERS - 1]}`, w.admin);
		await addUser(w, USERS - 1, `gone${o.at}x${o.n}`);
		return r;
	})],
	metrics: [1, (w, o) => w.send(o, 'GET', '/metrics', w.admin)],
	stats: [1, (w, o) => w.send(o, 'GET', '/api/v1/stats', w.admin)],
};

function stored(w: World, o: Op, use: (id: string, own: Op) => Promise<Reply | undefined>): Promise<Reply | undefined> {
	const s = w.stored[o.n % 6];
	return s ? use(s.id, { ...o, user: s.user }) : Promise.resolve(undefined);
}

/** Makes a user with a key, as an operator does. */
export async function addUser(w: World, user: number, called: string): Promise<void> {
	const added = (await caisson(['user', 'add', called, '--password', 'none'], { env: w.env })).stdout.toString();
	const key = (await caisson(['key', 'new', called], { env: w.env })).stdout.toString().trim();
	const id = /^id\s+(\S+)$/m.exec(added)?.[1];
	if (!id || !key)
		throw new Error(`no user ${called}: ${added}`);
	[w.users[user], w.keys[user]] = [id, key];
}
