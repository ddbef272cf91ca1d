// SPDX-License-Identifier: Apache-2.0
// GET /api/v1/sandboxes/{id}/events?ports=true: ports that programs in a sandbox begin and cease to listen on, as events.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { after, afterEach, before, describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { asker } from '../lib/asker.ts';
import { engineEnv, newStateDir } from '../lib/env.ts';
import { Stream } from '../lib/event-stream.ts';
import { initsOf, othersOf } from '../lib/family.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const ADMIN = 'an-administrators-key-of-the-server';
const EACH = 12; // watches of one user
const OF_SANDBOX = 8; // PROTO_WATCHES_MAX
const LISTED = 256; // PROTO_PORTS_MAX
const gvisor = engineEnv.SANDBOX_RUNTIME === 'runsc';

interface Event { id: string; name: string; data: Json }

const eventsOf = (s: Stream): Event[] => s.text.split('\n\n').flatMap((block) => {
	const m = /^id: (\S+)\nevent: (\S+)\ndata: ([^\n]*)$/.exec(block);
	return m ? [{ id: m[1]!, name: m[2]!, data: JSON.parse(m[3]!) as Json }] : [];
});
/** "type port" of each event about a port. */
const told = (s: Stream): string[] => eventsOf(s).filter((e) => e.name === 'port').map((e) => `${e.data.type} ${e.data.port}`);
const count = (s: Stream, what: string): number => told(s).filter((t) => t === what).length;
const listening = (ports: number[], host = '127.0.0.1'): string =>
	`import socket\nheld = []\nfor p in ${JSON.stringify(ports)}:\n    s = socket.socket(socket.AF_INET6 if ':' in '${host}' else socket.AF_INET)\n    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n    s.bind(('${host}', p)); s.listen(); held.append(s)\n`;
/** A shell command that executes this Python. */
const python = (code: string): string => `exec python3 -c ${`'${code.replaceAll("'", `'"'"'`)}'`}`;

describe('ports of a sandbox as events', () => {
	let program: Program;
	let base: string;
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN, SANDBOX_BUDGETS: `watchers=${EACH}/${4 * EACH}`, SANDBOX_MAX_MEMORY_LIMIT: '4g' };
	const streams: Stream[] = [];

	before(async () => {
		({ program, base } = await serve({ profile: 'full', env }));
	});
	afterEach(() => streams.splice(0).forEach((s) => s.close()));
	after(async () => {
		await program.end();
	});

	const ask = asker(() => base, ADMIN);
	async function make(key = ADMIN, options: Json = {}): Promise<string> {
		const r = await ask('POST', '/sandboxes', options, key);
		assert.equal(r.status, 201, r.text);
		return r.body.id;
	}
	async function run(id: string, code: string): Promise<Json> {
		const r = await ask('POST', `/sandboxes/${id}/runs`, { code, wait: true, timeout_s: 300 });
		assert.equal(r.status, 201, r.text);
		assert.equal(r.body.exit_code, 0, r.text);
		return r.body;
	}
	async function begin(id: string, code: string, key = ADMIN): Promise<string> {
		const r = await ask('POST', `/sandboxes/${id}/processes`, { command: python(code) }, key);
		assert.equal(r.status, 201, r.text);
		return r.body.id;
	}
	const kill = async (id: string, p: string): Promise<void> => assert.equal((await ask('DELETE', `/sandboxes/${id}/processes/${p}`)).status, 204);
	async function watch(id: string, key = ADMIN, headers: Record<string, string> = {}): Promise<Stream> {
		const s = await Stream.open(`${base}/api/v1/sandboxes/${id}/events?ports=true`, { headers: { 'x-api-key': key, ...headers } });
		streams.push(s);
		if (s.status === 200)
			await s.wait(/event: start\n/);
		return s;
	}
	const started = (s: Stream): Json[] => eventsOf(s)[0]!.data.ports;
	const has = (s: Stream, ...wanted: string[]): Promise<unknown> => until(wanted.join(', '), async () => {
		const missing = wanted.filter((w) => !told(s).includes(w));
		assert.ok(!s.closed || missing.length === 0, s.text);
		return missing.length === 0;
	});
	async function keyOf(name: string): Promise<string> {
		const e = { env: { ...env, SANDBOX_API_KEY: '' } };
		await caisson(['user', 'add', name, '--password', 'none'], e);
		return /csn_\S+/.exec((await caisson(['key', 'new', name], e)).stdout.toString())![0];
	}
	const refused = (r: { status: number; body: Json; text: string }, status: number, code: string): void => assert.deepEqual([r.status, r.body.code], [status, code], r.text);

	if (gvisor) {
		it('are refused where no port can be seen from outside', async () => {
			refused(await ask('GET', `/sandboxes/${await make()}/events?ports=true`), 501, 'port_unavailable');
		});
		return;
	}

	it('a port is told when it begins, when it ends, and again; what is there already is in the beginning', async () => {
		const id = await make();
		const s = await watch(id);
		assert.deepEqual(eventsOf(s).map((e) => [e.name, e.data]), [['start', { ports: [] }]]);
		const first = await begin(id, `${listening([8000])}import time; time.sleep(1000)`);
		await has(s, 'listen 8000');
		const [row] = (await ask('GET', `/sandboxes/${id}/ports`)).body.ports;
		assert.deepEqual([row.path, row.program], [`/p/${id}/8000/`, 'python3']);
		assert.deepEqual(eventsOf(s)[1]!.data, { type: 'listen', ...row });
		const other = await watch(id);
		assert.deepEqual(started(other), [row]);
		await kill(id, first);
		await has(s, 'end 8000');
		await has(other, 'end 8000');
		await begin(id, `${listening([8000])}import time; time.sleep(1000)`);
		await until('it is told again', async () => count(s, 'listen 8000') === 2);
		assert.deepEqual(told(s), ['listen 8000', 'end 8000', 'listen 8000']);
		const ids = eventsOf(s).map((e) => e.id);
		assert.deepEqual(ids, ids.map((_, i) => `${ids[0]!.split('-')[0]}-${i + 1}`), 'each event has the next number');
		await run(id, 'open("file", "w").close()');
		const again = await watch(id, ADMIN, { 'last-event-id': ids[0]! });
		assert.deepEqual([started(again).map((p) => p.port), again.text.includes('overflow')], [[8000], false], 'who comes back is told all that there are');
		assert.ok(!s.text.includes('event: change'), 'no files');
	});

	it('IPv6, loopback and all addresses are told; an address that no connection from outside reaches is not', async () => {
		const id = await make();
		const s = await watch(id);
		await begin(id, `${listening([7001], '::1')}keep = held\n${listening([7002], '0.0.0.0')}keep += held\n${listening([7003], '::')}keep += held\n${listening([7004], '127.0.0.2')}keep += held\n${listening([7005])}import time; time.sleep(1000)`);
		await has(s, 'listen 7001', 'listen 7002', 'listen 7003', 'listen 7005');
		assert.ok(!s.text.includes('7004'), s.text);
	});

	it('(slow) another process on the same port is told', async () => {
		const id = await make();
		const s = await watch(id);
		await begin(id, `${listening([8000])}import os, time\nos.set_inheritable(held[0].fileno(), True)\nwhile not os.path.exists("go"): time.sleep(.01)\nif os.fork() == 0: os.execvp("sleep", ["sleep", "1000"])\nheld[0].close(); time.sleep(1000)`);
		await has(s, 'listen 8000');
		await run(id, 'open("go", "w").close()');
		await until('the other process', async () => eventsOf(s).at(-1)!.data.program === 'sleep' || count(s, 'end 8000') > 0);
		assert.ok(told(s).every((t) => t === 'listen 8000'), s.text);
		assert.notEqual(eventsOf(s)[1]!.data.pid, eventsOf(s).at(-1)!.data.pid);
	});

	it('(slow) a port of a run ends with the run; one of a session stays as long as the session', async () => {
		const id = await make();
		const s = await watch(id);
		await run(id, `${listening([8100])}import time\nfor _ in range(300):\n    time.sleep(.01)`);
		await has(s, 'listen 8100', 'end 8100');
		const cell = await ask('POST', `/sandboxes/${id}/runs`, { code: listening([8200]), stateful: true, wait: true });
		assert.equal(cell.body.exit_code, 0, cell.text);
		await has(s, 'listen 8200');
		assert.equal((await ask('POST', `/sandboxes/${id}/checkpoints`, { name: 'before' })).status, 201);
		const more = await ask('POST', `/sandboxes/${id}/runs`, { code: `keep = held\n${listening([8300])}`, stateful: true, wait: true });
		assert.equal(more.body.exit_code, 0, more.text);
		await has(s, 'listen 8300');
		assert.equal(count(s, 'end 8200'), 0, 'it rests with its session');
		const restored = await ask('POST', `/sandboxes/${id}/checkpoints/before/restore`, {});
		assert.equal(restored.status, 200, restored.text);
		await has(s, 'end 8300');
	});

	it('(slow) many at once are told up to a bound, which is said, and the smallest are those that are told', async () => {
		const id = await make();
		const s = await watch(id);
		const p = await begin(id, `${listening(Array.from({ length: LISTED }, (_, i) => 9000 + i))}import time; time.sleep(1000)`);
		await until('all of them', async () => new Set(told(s)).size === LISTED);
		assert.ok(!s.text.includes('event: partial'));
		await begin(id, `${listening([8000, 20000])}import time; time.sleep(1000)`);
		await s.wait(/event: partial\n/);
		await has(s, 'listen 8000');
		assert.equal(count(s, 'listen 20000'), 0);
		const { ports } = (await ask('GET', `/sandboxes/${id}/ports`)).body;
		assert.deepEqual([ports.length, ports[0].port, ports.at(-1).port], [LISTED, 8000, 9000 + LISTED - 2]);
		await kill(id, p);
		await has(s, 'listen 20000', 'end 9000');
		assert.equal(s.text.split('event: partial').length, 2);
	});

	it('(slow) ends with its sandbox and with its key; its budget is that of the watches of files', async () => {
		const id = await make();
		const s = await watch(id);
		await begin(id, `${listening([8000])}import time; time.sleep(1000)`);
		await has(s, 'listen 8000');
		assert.equal((await ask('DELETE', `/sandboxes/${id}?force=true`)).status, 204);
		await s.wait(/event: end\n/);
		await s.end;
		const bob = await keyOf('bob');
		const his = await make(bob);
		const mine: Stream[] = [];
		for (let i = 0; i < OF_SANDBOX; i++)
			mine.push(await watch(his, bob));
		assert.ok(mine.every((m) => m.status === 200));
		refused(await ask('GET', `/sandboxes/${his}/events?ports=true`, undefined, bob), 429, 'budget_exceeded');
		const other = await make(bob);
		for (let i = OF_SANDBOX; i < EACH; i++)
			mine.push(await watch(other, bob));
		refused(await ask('GET', `/sandboxes/${other}/events?ports=true`, undefined, bob), 429, 'budget_exceeded');
		refused(await ask('GET', `/sandboxes/${other}/events`, undefined, bob), 429, 'budget_exceeded');
		const me = (await ask('GET', '/me', undefined, bob)).body;
		assert.equal(me.budgets.watchers.used, EACH);
		mine.pop()!.close();
		await until('its place', async () => (await ask('GET', '/me', undefined, bob)).body.budgets.watchers.used === EACH - 1);
		mine.push(await watch(other, bob));
		assert.equal(mine.at(-1)!.status, 200);
		const { keys } = (await ask('GET', `/keys?owner=${me.owner ?? me.id}`)).body;
		assert.equal((await ask('DELETE', `/keys/${keys[0].id}`, undefined, bob)).status, 204);
		await Promise.all(mine.map((m) => m.end));
	});

	it("what is not possible is refused: a stranger's sandbox, a folder, a word that is neither", async () => {
		const carol = await keyOf('carol');
		const id = await make();
		refused(await ask('GET', `/sandboxes/${id}/events?ports=true`, undefined, carol), 404, 'session_not_found');
		refused(await ask('GET', '/sandboxes/none/events?ports=true'), 404, 'session_not_found');
		refused(await ask('GET', `/sandboxes/${id}/events?ports=true&path=x`), 400, 'invalid_argument');
		refused(await ask('GET', `/sandboxes/${id}/events?ports=true&recursive=true`), 400, 'invalid_argument');
		refused(await ask('GET', `/sandboxes/${id}/events?ports=perhaps`), 400, 'invalid_argument');
		const files = await Stream.open(`${base}/api/v1/sandboxes/${id}/events?ports=false`, { headers: { 'x-api-key': ADMIN } });
		streams.push(files);
		await files.wait(/event: start\ndata: \{"path"/);
	});

	it('hostile: a name with control characters is one event', async () => {
		const id = await make();
		const s = await watch(id);
		await begin(id, `import ctypes\nctypes.CDLL(None).prctl(15, b"\\r\\n\\nevent: x\\xff\\x1b", 0, 0, 0)\n${listening([8000])}import time; time.sleep(1000)`);
		await has(s, 'listen 8000');
		assert.deepEqual(eventsOf(s).map((e) => e.name), ['start', 'port']);
		assert.equal(eventsOf(s)[1]!.data.program, '\r\n\nevent: x\ufffd\u001b');
		assert.equal(s.text.includes('\r'), false);
		assert.equal(s.text.split('\n\n').length, 3, JSON.stringify(s.text));
	});

	it('(slow) hostile: 5,000 sockets that listen, and ports that come and go quickly; others are served meanwhile', async () => {
		const id = await make(ADMIN, { memory_mb: 4096 }); // each socket counts for what it may hold
		const s = await watch(id);
		const p = await begin(id, `import resource, socket, time\nresource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)\nheld = []\nfor p in range(10000, 15000):\n    try:\n        s = socket.socket(); s.bind(("127.0.0.1", p)); s.listen(1); held.append(s)\n    except OSError: break\nprint("listens", len(held), flush=True); time.sleep(1000)`);
		let made = 0;
		await until('the sockets', async () => (made = Number(/listens (\d+)/.exec((await ask('GET', `/sandboxes/${id}/processes/${p}`)).body.stdout.text)?.[1] ?? 0)) > 0);
		assert.ok(made > 4000, `${made}`);
		await s.wait(/event: partial\n/);
		await until('the smallest', async () => new Set(told(s)).size >= LISTED);
		assert.ok(eventsOf(s).filter((e) => e.data.type === 'listen').every((e) => e.data.port < 10000 + made));
		assert.equal((await run(id, 'print(6 * 7)')).stdout, '42\n');
		await kill(id, p);
		await has(s, 'end 10000');
		const before = eventsOf(s).length, from = performance.now();
		const flap = await begin(id, `import socket\nwhile True:\n    held = []\n    for p in range(10000, 10020):\n        s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", p)); s.listen(1); held.append(s)\n    for s in held: s.close()`);
		await until('some are seen', async () => eventsOf(s).length > before);
		await run(id, 'import time\ntime.sleep(3)');
		await kill(id, flap);
		const looks = (performance.now() - from) / 1000 + 2;
		assert.ok(eventsOf(s).length - before <= looks * 40, `${eventsOf(s).length - before} events in ${looks} s`);
		await until('all have ended', async () => [...Array(20).keys()].every((i) => count(s, `listen ${10000 + i}`) === count(s, `end ${10000 + i}`)));
	});

	it('(slow) init looks only while somebody listens and code may execute', { skip: Object.keys(engineEnv).length > 0 && 'init is in a container' }, async () => {
		const id = await make();
		const MARK = '1234.5678';
		const marked = await begin(id, `import os; os.execvp("sleep", ["sleep", "${MARK}"])`);
		let init = 0;
		await until('its init', async () => (init = initsOf(program.pid).find((p) => othersOf(p).some((o) => fs.readFileSync(`/proc/${o.pid}/cmdline`, 'latin1').includes(MARK)))?.pid ?? 0) > 0);
		await kill(id, marked);
		const wakes = (): number => Number(/^voluntary_ctxt_switches:\s*(\d+)/m.exec(fs.readFileSync(`/proc/${init}/status`, 'utf8'))![1]);
		/* What looks once a second is scheduled in each of these spans; what the last request has left is over at some time. */
		const rests = (why: string): Promise<unknown> => until(`3 s in which init sleeps: ${why}`, async () => {
			const from = wakes();
			await setTimeout(3000); // a span to measure
			return wakes() === from;
		}, 60_000);
		await rests('nobody listens, nothing executes');
		const s = await watch(id);
		await rests('somebody listens, nothing executes');
		const p = await begin(id, `${listening([8000])}import time; time.sleep(1000)`);
		await has(s, 'listen 8000');
		const from = wakes();
		await until('looks', async () => wakes() - from >= 3);
		s.close();
		await until('the watch is gone', async () => (await ask('GET', '/stats')).body.budgets.watchers.used === 0);
		await kill(id, p);
		await rests('nobody listens any more');
	});
});
