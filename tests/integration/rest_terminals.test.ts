// SPDX-License-Identifier: Apache-2.0
// REST: terminals, by a client of WebSockets. They are background processes with a PTY: rest_processes.test.ts has what all of these have.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { asker } from '../lib/asker.ts';
import { engineEnv, newStateDir } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';
import { frame, WebSocketClient } from '../lib/websocket.ts';

const ADMIN = 'an-administrators-key-of-the-server';
const FOLLOWERS = 8;
const gvisor = engineEnv.SANDBOX_RUNTIME === 'runsc';

describe('REST: terminals', () => {
	let program: Program;
	let base: string;
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN, SANDBOX_BUDGETS: `followers=${FOLLOWERS}/${4 * FOLLOWERS}` };

	before(async () => {
		({ program, base } = await serve({ profile: 'full', env }));
	});
	after(async () => {
		await program.end();
	});

	const ask = asker(() => base, ADMIN);
	async function make(json: Json = {}, key = ADMIN): Promise<string> {
		const r = await ask('POST', '/sandboxes', json, key);
		assert.equal(r.status, 201, r.text);
		return r.body.id;
	}
	async function start(id: string, json: Json = {}, key = ADMIN): Promise<string> {
		const r = await ask('POST', `/sandboxes/${id}/terminals`, json, key);
		assert.equal(r.status, 201, r.text);
		return `/sandboxes/${id}/terminals/${r.body.id}`;
	}
	const open = (at: string, headers: Record<string, string> = { 'x-api-key': ADMIN }): ReturnType<typeof WebSocketClient.open> => WebSocketClient.open(`${base}/api/v1${at}`, headers);
	async function attach(at: string, headers?: Record<string, string>): Promise<WebSocketClient> {
		const c = await open(at, headers);
		assert.ok(c instanceof WebSocketClient, JSON.stringify(c));
		return c;
	}
	async function refused(at: string, status: number, headers?: Record<string, string>): Promise<void> {
		const r = await open(at, headers);
		assert.ok(!(r instanceof WebSocketClient), 'it was attached');
		assert.equal(r.status, status, r.text);
	}
	/** Kilobytes of memory of the server's own process. */
	const memory = (): number => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${program.pid}/status`, 'utf8'))![1]);

	if (gvisor) {
		it('is refused where the kernel cannot tell whose processes are whose', async () => {
			const r = await ask('POST', `/sandboxes/${await make()}/terminals`, {});
			assert.deepEqual([r.status, r.body.code], [501, 'terminal_unavailable'], r.text);
		});
		return;
	}

	it('a shell: what is typed, shown and run, its size, its end; the REST description', async () => {
		const id = await make({ env: { ONE: '1' } });
		const at = await start(id, { rows: 30, columns: 90, env: { TWO: '2' }, name: 'mine' });
		const c = await attach(at);
		c.type('stty -echo; PS1="now> "; pwd; echo $ONE$TWO $TERM $0; stty size; tty\n');
		await c.shows(/\/mnt\/data\r\n12 xterm-256color bash\r\n30 90\r\n\/dev\/pts\/\d+\r\n/);
		assert.deepEqual(c.said, [{ attached: { id: 'p1', from: 0, rows: 30, columns: 90 } }]);
		c.say({ resize: { rows: 50, columns: 120 } });
		assert.deepEqual(await c.hears('resize'), { resize: { rows: 50, columns: 120 } });
		// Input goes another way than sizes. What init is asked next, it answers when the terminal has its size.
		assert.equal((await ask('GET', `/sandboxes/${id}/files`)).status, 200);
		// Who says it has the terminal: between two commands of a list the shell has it, and may wait for the next one all the same.
		c.type(`stty size; bash -c 'echo go; exec sleep 1000'\n`);
		await c.shows('50 120\r\ngo\r\n');
		c.type('\x03');
		await c.shows(/go\r\n[^]*now> $/); // what is typed before may go with the interrupt
		c.type(`bash --noediting -c 'echo $((40 + 2)); read x; echo "[$x]"'\n`);
		await c.shows(/\n42\r\n/); // bash's own editor has given the terminal away
		c.type('a\u00e9\x7fb\n'); // Backspace takes the whole character
		await c.shows('[ab]');
		c.type('sleep 1000 & jobs | tr a-z A-Z\n');
		await c.shows('RUNNING');
		const row = (await ask('GET', at)).body;
		assert.deepEqual([row.id, row.name, row.state, row.input, row.terminal], ['p1', 'mine', 'running', true, { rows: 50, columns: 120 }]);
		await ask('POST', `/sandboxes/${id}/processes`, { command: 'sleep 1000' });
		assert.deepEqual((await ask('GET', `/sandboxes/${id}/terminals`)).body.terminals.map((t: Json) => t.id), ['p1']);
		assert.deepEqual((await ask('GET', `/sandboxes/${id}/processes`)).body.processes.map((t: Json) => t.id), ['p1', 'p2']);
		assert.equal((await ask('GET', `/sandboxes/${id}/terminals/p2`)).status, 404);
		assert.equal((await ask('POST', `/sandboxes/${id}/processes/p1/input`, { text: '', close: true })).status, 400);
		c.type('exit 7\n');
		assert.deepEqual(await c.hears('exit'), { exit: { code: 7, reason: 'exited' } });
		assert.deepEqual(await c.end(), { code: 1000, reason: 'the program has ended' });
		// what it has shown is there for those who come later
		const late = await attach(at);
		assert.deepEqual(await late.hears('exit'), { exit: { code: 7, reason: 'exited' } });
		assert.ok(late.text.includes('50 120\r\n') && late.bytes.equals(c.bytes), late.text);
		await late.end();
		assert.equal((await ask('DELETE', at)).status, 204);
		assert.equal((await ask('GET', at)).status, 404);
	});

	it('several clients see the same, one that comes back goes on where it was, and long output is whole', async () => {
		const at = await start(await make(), { command: 'stty raw -echo; echo ready; cat' });
		const a = await attach(at), b = await attach(at);
		await Promise.all([a.shows('ready'), b.shows('ready')]);
		a.type('ä from a');
		b.type(' and from b');
		await Promise.all([a.shows('from b'), b.shows('from b')]);
		assert.ok(a.bytes.equals(b.bytes), `${a.text} ${b.text}`);
		b.socket.destroy();
		a.type(Buffer.alloc(30_000, 'x'));
		a.type('end of it');
		await a.shows('end of it');
		const c = await attach(`${at}?from=${b.bytes.length}`);
		await c.shows('end of it');
		assert.ok(Buffer.concat([b.bytes, c.bytes]).equals(a.bytes));
		a.close();
		assert.deepEqual(await a.end(), { code: 1000, reason: '' });
		c.raw(frame(0x89, Buffer.from('ping')));
		await until('the answer to a ping', () => c.pongs === 1);
		const long = await attach(await start(await make(), { command: 'read -r go; seq 200000' }));
		long.type('go\n');
		await long.end();
		const missed = long.said.filter((m) => 'missed' in m).reduce((n, m) => n + m.missed.bytes, 0);
		assert.equal(long.bytes.length + missed, 'go\r\n'.length + [...Array(200_001).keys()].slice(1).reduce((n, i) => n + String(i).length + 2, 0));
		assert.ok(long.text.endsWith('199999\r\n200000\r\n'));
	});

	it('what is no proper message is refused, what is no proper frame ends the connection', async () => {
		const at = await start(await make(), { command: 'cat' });
		const sick: [string, number, Buffer][] = [
			['no mask', 1002, Buffer.from([0x82, 1, 0x78])],
			['a ping of 126 bytes', 1002, frame(0x89, Buffer.alloc(126))],
			['a reserved bit', 1002, frame(0xc2, Buffer.from('x'))],
			['33 KB', 1009, frame(0x82, Buffer.alloc(33_000))],
			['no UTF-8', 1007, frame(0x81, Buffer.from([0xff, 0x20]))],
			['an HTTP request', 1002, Buffer.from('GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\n\r\n')],
		];
		for (const [what, code, bytes] of sick) {
			const c = await attach(at);
			c.raw(bytes);
			assert.equal((await c.end())?.code, code, what);
			assert.doesNotMatch(c.text, /HTTP/);
		}
		const c = await attach(at);
		for (const text of ['{', '[]', '{}', '{"resize":1}', '{"resize":{"rows":1}}', '{"resize":{"rows":0,"columns":1}}', '{"resize":{"rows":1,"columns":1001}}', '{"resize":{"rows":1e9,"columns":1}}', '{"resize":{"rows":1,"columns":1,"x":1}}', `{"x":"${'x'.repeat(2000)}"}`, '['.repeat(1000), '{"resize":{"rows":99999999999999999999,"columns":1}}']) {
			c.said.length = 0;
			c.say(text);
			assert.equal((await c.hears('error')).error?.code, 'invalid_argument', text.slice(0, 60));
		}
		c.type('still here\n');
		await c.shows('still here\r\nstill here\r\n');
		for (const body of [{ rows: 0 }, { columns: 1001 }, { rows: -1 }, { command: '' }])
			assert.equal((await ask('POST', `/sandboxes/${at.split('/')[2]}/terminals`, body)).status, 400);
	});

	it('(slow) a flood that nobody reads, or one client does not read, holds no memory; others go on', async () => {
		const at = await start(await make(), { command: 'read -r go; yes 0123456789abcdef' });
		const deaf = await attach(at), other = await attach(at);
		await deaf.hears('attached');
		deaf.socket.pause();
		const before = memory();
		other.type('go\n');
		await until('much output', () => other.bytes.length > 8_000_000);
		assert.ok(memory() - before < 20_000, `${memory() - before} KB more`);
		other.close();
		await other.end();
		const total = async (): Promise<number> => (await ask('GET', at)).body.stdout_bytes;
		const then = await total();
		await until('much output that nobody reads', async () => await total() > then + 4_000_000);
		assert.ok(memory() - before < 20_000, `${memory() - before} KB more`);
		deaf.socket.resume();
		const missed = (): Json[] => deaf.said.filter((m) => m.missed).map((m) => m.missed); // some of it before its buffers were full
		await until('much is told as missed', () => missed().reduce((sum, m) => sum + m.bytes, 0) > 1_000_000);
		assert.ok(missed().every((m) => m.from >= m.bytes), JSON.stringify(missed()));
		assert.equal((await ask('DELETE', at)).status, 204);
		assert.equal((await deaf.end())?.code, 1000);
	});

	it('a client that types what nobody reads has to wait, and nothing of it is lost', async () => {
		const id = await make();
		const at = await start(id, { command: 'stty raw -echo; echo ready; until [ -e go ]; do sleep .05; done; head -c 3000000 | sha256sum' });
		const c = await attach(at);
		await c.shows('ready');
		for (let i = 0; i < 100; i++)
			c.type(Buffer.alloc(30_000, 'a'));
		await until('the client waits', () => c.socket.bytesWritten > 200_000 && c.socket.writableLength > 0 || c.socket.bytesWritten > 2_900_000);
		assert.equal((await ask('GET', at)).body.state, 'running');
		await ask('POST', `/sandboxes/${id}/runs`, { command: 'touch go', wait: true });
		await c.shows(/[0-9a-f]{64}/);
		assert.ok(c.text.includes(createHash('sha256').update(Buffer.alloc(3_000_000, 'a')).digest('hex')), c.text);
		await c.end();
	});

	it('a storm of sizes ends with the last one, and init is told few of them', async () => {
		const at = await start(await make(), { command: `python3 -uc "
import os, signal, time
n = 0
def size(*_):
    global n
    n += 1
signal.signal(signal.SIGWINCH, size)
print('ready')
while True:
    signal.pause()
    c, r = os.get_terminal_size()
    if (r, c) == (7, 11): print('seen', n, 'end')
"` });
		const c = await attach(at);
		await c.shows('ready');
		for (let i = 0; i < 20_000; i++)
			c.say({ resize: { rows: 1 + i % 1000, columns: 1 + (i * 7) % 1000 } });
		c.say({ resize: { rows: 7, columns: 11 } });
		await c.shows(/seen \d+ end/);
		const n = Number(/seen (\d+) end/.exec(c.text)![1]);
		assert.ok(n < 5000, `${n} signals`);
	});

	it('others have no part in it; ends of keys, sandboxes and the budget', async () => {
		const e = { env: { ...env, SANDBOX_API_KEY: '' } };
		const key = async (user: string, ...more: string[]): Promise<string> => {
			if (more.length === 0)
				await caisson(['user', 'add', user, '--password', 'none'], e);
			return /csn_\S+/.exec((await caisson(['key', 'new', user, ...more], e)).stdout.toString())![0];
		};
		const anna = await key('anna'), bob = await key('bob'), reads = await key('anna', '--scope', 'read');
		const id = await make({}, anna);
		const at = await start(id, { command: 'cat' }, anna);
		await refused(at, 404, { 'x-api-key': bob });
		await refused(at, 401, {});
		await refused(at, 401, { 'x-api-key': 'wrong' });
		await refused(at, 403, { 'x-api-key': reads });
		await refused(at, 403, { 'x-api-key': anna, Origin: 'http://evil.example' });
		await refused(at, 426, { 'x-api-key': anna, 'Sec-WebSocket-Version': '12' });
		await refused(at.replace('p1', 'p9'), 404, { 'x-api-key': anna });
		for (const [method, path, json] of [['GET', at], ['DELETE', at], ['GET', `/sandboxes/${id}/terminals`], ['POST', `/sandboxes/${id}/terminals`, {}]] as const)
			assert.equal((await ask(method, path, json, bob)).body.code, 'session_not_found');
		// the place of each client, and by the key in the query, as browsers do it
		const all: WebSocketClient[] = [];
		for (let i = 0; i < FOLLOWERS; i++)
			all.push(await attach(`${at}?api_key=${anna}`, {}));
		await refused(at, 429, { 'x-api-key': anna });
		all.pop()!.socket.destroy();
		const again = await until('a place', async () => {
			const c = await open(at, { 'x-api-key': anna });
			return c instanceof WebSocketClient && c;
		});
		// a key that is revoked: its clients are gone at once, and so is what it has started
		const row = (await ask('GET', '/keys', undefined, anna)).body.keys.find((k: Json) => k.scope !== 'read');
		assert.equal((await ask('DELETE', `/keys/${row.id}`, undefined, anna)).status, 204);
		assert.ok([1000, 1008].includes((await again.end())!.code));
		for (const c of all)
			assert.ok([1000, 1008].includes((await c.end())!.code));
		const user = (await ask('GET', '/users')).body.users.find((u: Json) => u.name === 'anna').id;
		await until('the end of the terminal', async () => (await ask('GET', `${at}?owner=${user}`)).body.state === 'ended');
		// a sandbox that is removed
		const mine = await make();
		const c = await attach(await start(mine, {}));
		await c.hears('attached');
		assert.equal((await ask('DELETE', `/sandboxes/${mine}?force=true`)).status, 204);
		assert.ok('exit' in await c.hears('exit'));
		assert.equal((await c.end())?.code, 1000);
	});

	it('a program that is not there, and a user that is removed', async () => {
		const e = { env: { ...env, SANDBOX_API_KEY: '' } };
		await caisson(['user', 'add', 'carl', '--password', 'none'], e);
		const carl = /csn_\S+/.exec((await caisson(['key', 'new', 'carl'], e)).stdout.toString())![0];
		const id = await make({}, carl);
		const none = await attach(await start(id, { command: 'true', cwd: 'no/such/folder' }, carl), { 'x-api-key': carl });
		assert.equal((await none.hears('error')).error.code, 'not_found');
		assert.equal((await none.end())?.code, 1000);
		const c = await attach(await start(id, {}, carl), { 'x-api-key': carl });
		await c.hears('attached');
		const user = (await ask('GET', '/users')).body.users.find((u: Json) => u.name === 'carl').id;
		assert.equal((await ask('DELETE', `/users/${user}`)).status, 204);
		assert.ok([1000, 1008].includes((await c.end())!.code));
	});
});
