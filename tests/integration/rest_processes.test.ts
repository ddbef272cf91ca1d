// SPDX-License-Identifier: Apache-2.0
// REST: background processes. They go on beside runs, can be read, written to and signalled, and end with all that they have started.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { asker } from '../lib/asker.ts';
import { engineEnv, newStateDir } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const ADMIN = 'an-administrators-key-of-the-server';
const SERVER = `python3 -u -m http.server 8123 -b 127.0.0.1`;
/** A process under gVisor is six or seven on the host, and the control group counts those. */
const gvisor = engineEnv.SANDBOX_RUNTIME === 'runsc';
const MANY = gvisor ? 1024 : 128;
const FOLLOWERS = 64;
const FETCH = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8123/', timeout=20).status)";

describe('REST: background processes', () => {
	let program: Program;
	let base: string;
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN, SANDBOX_MAX_CODE_BYTES: '5000', SANDBOX_BUDGETS: `kept_bytes=1048576/1048576,followers=${FOLLOWERS}/${FOLLOWERS}`, ...(gvisor ? { SANDBOX_MAX_PIDS_LIMIT: `${MANY}` } : {}) };

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
	async function start(id: string, json: Json, key = ADMIN): Promise<string> {
		const r = await ask('POST', `/sandboxes/${id}/processes`, json, key);
		assert.equal(r.status, 201, r.text);
		assert.equal(r.body.state, 'running', r.text);
		return `/sandboxes/${id}/processes/${r.body.id}`;
	}
	async function look(at: string, query = '', key = ADMIN): Promise<Json> {
		const r = await ask('GET', `${at}${query}`, undefined, key);
		assert.equal(r.status, 200, r.text);
		return r.body;
	}
	const end = async (at: string): Promise<Json> => {
		let p = await look(at, '?wait_s=60');
		while (p.state === 'running')
			p = await look(at, '?wait_s=60');
		return p;
	};
	const says = (at: string, text: string): Promise<Json> => until(`${text} of ${at}`, async () => {
		const p = await look(at);
		assert.ok(p.state === 'running' || p.stdout.text.includes(text), JSON.stringify(p));
		return p.stdout.text.includes(text) && p;
	});
	async function run(id: string, json: Json): Promise<Json> {
		const r = await ask('POST', `/sandboxes/${id}/runs`, { ...json, wait: true });
		assert.equal(r.status, 201, r.text);
		return r.body;
	}
	const refused = (r: { status: number; body: Json; text: string }, status: number, code: string): void => assert.deepEqual([r.status, r.body.code], [status, code], r.text);

	it('a server that is started in one call answers runs and cells of later ones', async () => {
		const id = await make();
		const at = await start(id, { command: `${SERVER} 2>&1`, name: 'web' });
		await says(at, 'Serving HTTP');
		assert.equal((await run(id, { code: FETCH })).stdout, '200\n');
		assert.equal((await run(id, { command: `python3 -c "${FETCH}"` })).stdout, '200\n');
		assert.equal((await run(id, { code: `x = 1; ${FETCH}`, stateful: true })).stdout, '200\n');
		assert.equal((await run(id, { code: 'x + 1', stateful: true })).value, '2');
		assert.equal((await run(id, { code: FETCH })).stdout, '200\n');
		const p = await look(at);
		assert.deepEqual([p.name, p.state, p.input, (p.stdout.text.match(/ 200 /g) ?? []).length], ['web', 'running', false, 4], JSON.stringify(p));
		const all = (await ask('GET', `/sandboxes/${id}/processes`)).body.processes;
		assert.deepEqual(all.map((k: Json) => [k.id, k.name, k.state, k.stdout]), [['p1', 'web', 'running', undefined]]);
		assert.equal((await ask('DELETE', at)).status, 204);
		refused(await ask('GET', at), 404, 'not_found');
		await until('the end of the server', async () => /URLError/.test((await run(id, { code: FETCH })).stderr));
	});

	it('how one ends: status, signal, deadline, a program that is not there', async () => {
		const id = await make();
		const long = await end(await start(id, { command: `: ${'ä'.repeat(2000)}; echo long` }));
		assert.deepEqual([long.command, long.stdout.text], [`: ${'ä'.repeat(511)}`, 'long\n']);
		const three = await end(await start(id, { command: 'echo out; echo err >&2; exit 3', cwd: '/tmp' }));
		assert.deepEqual([three.exit_code, three.reason, three.stdout.text, three.stderr.text, three.stdout_bytes], [3, 'exited', 'out\n', 'err\n', 4]);
		const late = await end(await start(id, { command: "trap 'echo bye; exit 0' TERM; while :; do sleep .02; done", timeout_s: 1 }));
		assert.deepEqual([late.reason, late.stdout.text], ['timeout', 'bye\n']);
		const deaf = await start(id, { command: "trap '' TERM; echo on; while :; do sleep .02; done" });
		await says(deaf, 'on');
		assert.equal((await ask('POST', `${deaf}/signal`, { signal: 'TERM' })).status, 204);
		assert.equal((await look(deaf)).state, 'running');
		refused(await ask('POST', `${deaf}/signal`, { signal: 'NONE' }), 400, 'invalid_argument');
		assert.equal((await ask('POST', `${deaf}/signal`, { signal: 'KILL' })).status, 204);
		assert.deepEqual([(await end(deaf)).reason], ['cancelled']);
		assert.equal((await ask('POST', `${deaf}/signal`, { signal: 'TERM' })).status, 204, 'nothing happens to one that has ended');
		const usr = await start(id, { command: "trap 'echo usr; exit 7' USR1; echo on; while :; do sleep .02; done" });
		await says(usr, 'on');
		await ask('POST', `${usr}/signal`, { signal: 'USR1' });
		assert.deepEqual([(await end(usr)).exit_code], [7]);
		const gone = await end(await start(id, { command: 'true', cwd: 'no/such/folder' }));
		assert.deepEqual([gone.error, gone.exit_code], ['not_found', undefined], JSON.stringify(gone));
	});

	it('what it starts belongs to it, orphans in sessions of their own too: runs leave it alone, and it ends with it', async () => {
		const id = await make();
		const hold = "import fcntl, sys, time\nf = open(sys.argv[1], 'w')\nfcntl.flock(f, fcntl.LOCK_EX)\ntime.sleep(1000)\n";
		await run(id, { code: `open('hold.py', 'w').write(${JSON.stringify(hold)})` });
		const at = await start(id, { command: '(setsid python3 hold.py a &); ulimit -m 1000000; (python3 hold.py b; :) & echo on; wait' });
		const other = await start(id, { command: '(setsid python3 hold.py c &); echo on; exec python3 hold.py d' });
		// A run may not see processes of others, but their locks.
		const alive = async (): Promise<string> => (await run(id, { code: `import fcntl
def free(name):
    with open(name, 'a') as f:
        try: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError: return False
        return True
print(*[n for n in 'abcde' if not free(n)])` })).stdout;
		await until('all four', async () => await alive() === 'a b c d\n');
		assert.equal((await run(id, { command: '(setsid python3 hold.py e &); until [ -e e ]; do sleep .05; done' })).exit_code, 0);
		assert.equal(await alive(), 'a b c d\n', 'a run ends with its own daemons alone');
		assert.equal((await ask('POST', `${at}/signal`, { signal: 'KILL' })).status, 204);
		await end(at);
		assert.equal(await alive(), 'c d\n');
		assert.equal((await ask('DELETE', other)).status, 204);
		await until('the end of all', async () => await alive() === '\n');
	});

	it('environment, folder and input', async () => {
		const id = await make({ env: { ONE: '1', TWO: '2' } });
		const at = await start(id, { command: 'pwd; echo $ONE $TWO $THREE; while read -r line; do echo "<$line>"; done; echo end', cwd: '/tmp', env: { TWO: 'two', THREE: '3' }, input: true });
		assert.equal((await says(at, '3\n')).stdout.text, '/tmp\n1 two 3\n');
		assert.equal((await ask('POST', `${at}/input`, { text: 'ä b\n' })).status, 204);
		await says(at, '<ä b>');
		assert.equal((await ask('POST', `${at}/input`, { text: 'c\n', close: true })).status, 204);
		const p = await end(at);
		assert.deepEqual([p.stdout.text, p.exit_code, p.input], ['/tmp\n1 two 3\n<ä b>\n<c>\nend\n', 0, false]);
		refused(await ask('POST', `${at}/input`, { text: 'd' }), 400, 'invalid_argument');
		for (const what of ['input', 'signal'])
			refused(await ask('POST', `/sandboxes/${id}/processes/p99/${what}`, { input: { text: 'x'.repeat(20_000) }, signal: { signal: 'TERM' } }[what]), 404, 'not_found');
		refused(await ask('POST', `${await start(id, { command: 'sleep 100' })}/input`, { text: 'd' }), 400, 'invalid_argument');
		// what the pipe has no room for waits, and comes in order; then the end
		const slow = await start(id, { command: "read -r go; sha256sum", input: true });
		const text = Array.from({ length: 6000 }, (_, i) => String(i).padStart(9, '0')).join('\n');
		assert.equal((await ask('POST', `${slow}/input`, { text })).status, 204);
		assert.equal((await ask('POST', `${slow}/input`, { text: '\nend', close: true })).status, 204);
		refused(await ask('POST', `${slow}/input`, { text: 'd' }), 400, 'invalid_argument');
		assert.equal((await end(slow)).stdout.text.slice(0, 64), createHash('sha256').update(`${text}\nend`.slice(10)).digest('hex'));
		const deaf = await start(id, { command: 'sleep 100', input: true });
		assert.equal((await ask('POST', `${deaf}/input`, { text: 'x'.repeat(65536) })).status, 204);
		refused(await ask('POST', `${deaf}/input`, { text: 'y' }), 503, 'server_busy');
		refused(await ask('POST', `/sandboxes/${id}/processes`, { command: 'true', env: { '=': '1' } }), 400, 'invalid_argument');
	});

	it('output is read from a position on, and what is too old is not there', async () => {
		const id = await make();
		const at = await start(id, { command: "python3 -u -c \"for i in range(300000): print('%07d' % i)\nprint('ä' * 10)\"" });
		const p = await end(at);
		assert.equal(p.stdout_bytes, 300000 * 8 + 21);
		assert.ok(p.stdout.from > 2_300_000 && p.stdout.next === p.stdout_bytes, JSON.stringify({ ...p.stdout, text: '' }));
		assert.ok(p.stdout.text.endsWith(`0299999\n${'ä'.repeat(10)}\n`));
		const tail = await look(at, `?stdout_from=${p.stdout_bytes - 3}`);
		assert.deepEqual([tail.stdout.text, tail.stdout.from], ['ä\n', p.stdout_bytes - 3]);
		assert.equal((await look(at, '?stdout_from=99999999999')).stdout.text, '');
		// a half of a character stays for the next answer
		const half = await start(id, { command: "printf 'a\\303'; sleep .5; printf '\\244b'; sleep 100" });
		const first = await until('the first byte', async () => { const q = await look(half); return q.stdout_bytes >= 2 && q; });
		assert.ok(first.stdout.text === 'a' ? first.stdout.next === 1 : first.stdout.text === 'aäb', JSON.stringify(first));
		let all = '', from = 0;
		while (!all.endsWith('b')) {
			const q = await look(half, `?wait_s=20&output=true&stdout_from=${from}`);
			all += q.stdout.text;
			from = q.stdout.next;
		}
		assert.equal(all, 'aäb');
	});

	it('many at once: 32 live, a user has a budget for what they print, the oldest that have ended are forgotten', async () => {
		const id = await make({ processes: MANY });
		const all = await Promise.all([...Array(32).keys()].map((i) => start(id, { command: `echo ${i}; exec sleep 1000` })));
		await Promise.all(all.map((at, i) => says(at, `${i}\n`)));
		const more = await ask('POST', `/sandboxes/${id}/processes`, { command: 'true' });
		assert.equal(more.status, 201);
		const failed = await end(`/sandboxes/${id}/processes/${more.body.id}`);
		assert.deepEqual([failed.error], ['budget_exceeded'], JSON.stringify(failed));
		for (const at of all.slice(1))
			assert.equal((await ask('POST', `${at}/signal`, { signal: 'KILL' })).status, 204);
		await Promise.all(all.slice(1).map(end));
		for (let i = 0; i < 40; i++)
			await end(await start(id, { command: `head -c 70000 /dev/zero | tr '\\0' x; exit ${i}` }));
		const last = await look(await start(id, { command: `head -c 70000 /dev/zero | tr '\\0' y; exec sleep 1000` }), '?wait_s=1');
		await until('the output of the last one', async () => (await look(`/sandboxes/${id}/processes/${last.id}`)).stdout.text.length === 65536);
		const rows = (await ask('GET', `/sandboxes/${id}/processes`)).body.processes.slice(0, -1);
		assert.equal(rows.length, 63);
		assert.deepEqual([rows[0].id, rows[0].state, rows[62].exit_code], ['p1', 'running', 39]);
		const kept = await Promise.all(rows.map((r: Json) => look(`/sandboxes/${id}/processes/${r.id}`)));
		assert.ok(kept.reduce((n: number, k: Json) => n + k.stdout.text.length, 0) <= 1048576);
		assert.equal((await ask('DELETE', `/sandboxes/${id}?force=true`)).status, 204, 'gives the budget back');
	});

	it('a client that leaves waits no more, and the beginning of a character is no output', async () => {
		const id = await make();
		await start(id, { command: "printf 'a\\303'; exec sleep 1000" });
		await until('the first output', async () => (await look(`/sandboxes/${id}/processes/p1`)).stdout_bytes === 2);
		const began = await look(`/sandboxes/${id}/processes/p1`);
		assert.deepEqual([began.stdout.text, began.stdout.next], ['a', 1]);
		const waiting = (): Promise<Json> => look(`/sandboxes/${id}/processes/p1?wait_s=1&output=true&stdout_from=1`);
		assert.ok((await waiting()).duration_ms - began.duration_ms >= 1000, 'it waited');
		for (let round = 0; round < 2; round++) { // each time one more than one user may have: that one is refused
			const left = new AbortController();
			const asked = Array.from({ length: FOLLOWERS + 1 }, () => fetch(`${base}/api/v1/sandboxes/${id}/processes/p1?wait_s=60`, { headers: { 'x-api-key': ADMIN }, signal: left.signal }).then((r) => r.status, () => 0));
			assert.equal(await Promise.race(asked), 429);
			left.abort();
			await Promise.all(asked);
			await until('their places', async () => (await ask('GET', `/sandboxes/${id}/processes/p1?wait_s=1`)).status === 200);
		}
	});

	it('a background process counts for the limit of processes', { skip: gvisor && 'gVisor itself is more than four processes of the control group: no sandbox starts with that limit' }, async () => {
		const id = await make({ processes: 4 });
		for (let i = 0; i < 4; i++)
			await start(id, { command: 'exec sleep 1000' });
		const more = await ask('POST', `/sandboxes/${id}/processes`, { command: 'true' });
		refused(more, 429, 'quota_exceeded');
		assert.match(more.body.detail, /4 background processes, and its limit is 4/);
		assert.equal((await ask('DELETE', `/sandboxes/${id}/processes/p1`)).status, 204);
		await until('the place of p1', async () => (await ask('POST', `/sandboxes/${id}/processes`, { command: 'true' })).status === 201);
	});

	it('(slow) the pipes of 90 leave those of runs as large as they are', async () => { // pipe(7): all pipes of the server share 16,384 pages
		const ids = await Promise.all([0, 1, 2].map(() => make({ processes: MANY })));
		const size = async (id: string): Promise<string> => (await run(id, { code: 'import fcntl; print(fcntl.fcntl(1, 1032))' })).stdout;
		const other = await make();
		const before = await size(other);
		await Promise.all(ids.flatMap((id) => Array.from({ length: 30 }, () => start(id, { command: 'exec sleep 1000', input: true }))));
		assert.equal(await size(other), before);
		for (const id of ids)
			assert.equal((await ask('DELETE', `/sandboxes/${id}?force=true`)).status, 204);
	});

	it('other users have no part in it; a revoked key ends what it has started; a sandbox ends all', async () => {
		const e = { env: { ...env, SANDBOX_API_KEY: '' } };
		const key = async (user: string): Promise<string> => {
			await caisson(['user', 'add', user, '--password', 'none'], e);
			return /csn_\S+/.exec((await caisson(['key', 'new', user], e)).stdout.toString())![0];
		};
		const anna = await key('anna'), bob = await key('bob');
		const id = await make({}, anna);
		const at = await start(id, { command: 'echo on; sleep 1000' }, anna);
		for (const [method, path, json] of [['GET', at], ['DELETE', at], ['POST', `${at}/signal`, { signal: 'KILL' }], ['POST', `${at}/input`, { text: 'x' }], ['GET', `/sandboxes/${id}/processes`], ['POST', `/sandboxes/${id}/processes`, { command: 'id' }]] as const)
			refused(await ask(method, path, json, bob), 404, 'session_not_found');
		const user = (await ask('GET', '/users')).body.users.find((u: Json) => u.name === 'anna').id;
		const row = (await ask('GET', '/keys', undefined, anna)).body.keys[0];
		assert.equal((await ask('DELETE', `/keys/${row.id}`, undefined, anna)).status, 204);
		await until('the end of the process', async () => (await look(at, `?owner=${user}`)).state === 'ended');
		const mine = await make();
		const last = await start(mine, { command: 'sleep 1000' });
		const waits = ask('GET', `${last}?wait_s=60`);
		assert.equal((await ask('DELETE', `/sandboxes/${mine}?force=true`)).status, 204);
		const r = await waits; // the two requests have no order: this one may find nothing any more
		assert.ok(r.status === 404 || r.body.state === 'ended', r.text);
	});

	it('processor time is counted once, and an idle process has none', async () => {
		const id = await make();
		const rows = async (): Promise<Json[]> => (await ask('GET', `/runs?sandbox=${id}`)).body.runs;
		const used = async (): Promise<number> => (await rows()).reduce((n, r) => n + r.cpu_us, 0) / 1000;
		const counter = async (): Promise<number> => (await look(`/sandboxes/${id}/usage`)).cpu_ms;
		const made = await counter(); // which costs nobody anything
		await run(id, { code: 'print(1)' });
		const p = await end(await start(id, { command: "python3 -c 'import time\nwhile time.process_time() < 2: pass'" }));
		assert.ok(p.cpu_ms >= 2000, JSON.stringify(p));
		// The process goes by gVisor's clock, which also runs while gVisor waits for a processor of the host. The rows are of the container's control group.
		const least = gvisor ? await counter() - made : 2000;
		await run(id, { code: 'print(1)' });
		const sum = await until('the rows', async () => { const n = await used(); return (await rows()).length === 3 && n >= least && n; });
		const most = gvisor ? await counter() : 3900;
		assert.ok(sum <= most, `${sum} ms of ${p.cpu_ms}, at most ${most}`);
		await start(id, { command: 'sleep 1000' });
		const idle = await start(id, { command: 'sleep 3; echo on; sleep 1000' });
		await says(idle, 'on');
		assert.equal((await ask('DELETE', `/sandboxes/${id}?force=true`)).status, 204);
		await until('the rows of both', async () => (await rows()).filter((r) => r.kind === 'process').length === 3);
		assert.ok(await used() < sum + 1500, `${await used()} ms, before ${sum}`);
	});

	it('checkpoints are refused while one lives', async () => {
		const id = await make();
		const at = await start(id, { command: 'sleep 1000' });
		refused(await ask('POST', `/sandboxes/${id}/checkpoints`, { name: 'a' }), 409, 'session_busy');
		await ask('DELETE', at);
		await until('a checkpoint', async () => {
			const r = await ask('POST', `/sandboxes/${id}/checkpoints`, { name: 'a' });
			return r.status === 201 || (gvisor && /this kernel cannot make checkpoints/.test(r.text));
		});
	});
});
