// SPDX-License-Identifier: Apache-2.0
// Contexts: sessions of one sandbox with variables of their own.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { asker } from '../lib/asker.ts';
import { newStateDir } from '../lib/env.ts';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const ADMIN = 'an-administrators-key-of-the-server';
const MOST = 8;

describe('contexts', () => {
	let program: Program;
	let base: string;
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN };

	before(async () => {
		({ program, base } = await serve({ profile: 'full', env }));
	});
	after(async () => {
		await program.end();
	});

	const ask = asker(() => base, ADMIN);
	async function make(json: Json = {}): Promise<string> {
		const r = await ask('POST', '/sandboxes', json);
		assert.equal(r.status, 201, r.text);
		return r.body.id;
	}
	async function run(id: string, code: string, context?: string, more: Json = {}): Promise<Json> {
		const r = await ask('POST', `/sandboxes/${id}/runs`, { code, stateful: true, wait: true, ...(context ? { context } : {}), ...more });
		assert.equal(r.status, 201, r.text);
		return r.body;
	}
	const out = async (id: string, code: string, context?: string): Promise<string> => {
		const r = await run(id, code, context);
		return (r.stdout + r.value + r.stderr).trim();
	};
	const names = async (id: string): Promise<string[]> => (await ask('GET', `/sandboxes/${id}/contexts`)).body.contexts.map((c: Json) => c.name);
	const refused = (r: { status: number; body: Json; text: string }, status: number, code: string): void => assert.deepEqual([r.status, r.body.code], [status, code], r.text);

	it('each has its own variables, and all have the same files', async () => {
		const id = await make();
		assert.equal(await out(id, 'x = 1; open("shared", "w").write("one"); print(x)'), '1');
		assert.equal(await out(id, 'print("x" in dir(), open("shared").read())', 'b'), 'False one');
		assert.equal(await out(id, 'x = 2; print(x)', 'b'), '2');
		assert.equal(await out(id, 'print(x)'), '1');
		assert.equal(await out(id, 'print(x)', 'default'), '1');
		assert.equal(await out(id, 'print(x)', 'b'), '2');
		assert.match(await out(id, 'x', 'c'), /NameError/);
		assert.deepEqual(await names(id), ['default', 'b', 'c']);
		const r = await run(id, 'x', 'b');
		assert.deepEqual([r.value, r.context, r.state], ['2', 'b', 'kept']);
		assert.equal((await run(id, 'x')).context, undefined);
	});

	it('runs in turns keep every one of them', async () => {
		const id = await make();
		const all = Array.from({ length: MOST - 1 }, (_, i) => `c${i}`);
		for (const c of [undefined, ...all])
			assert.equal((await run(id, 'n = 0', c)).state, 'kept');
		for (let round = 1; round <= 4; round++)
			for (const c of [...all, undefined])
				assert.equal(await out(id, 'n += 1; n', c), `${round}`, `${c} ${round}`);
	});

	it('a ninth is refused, and one that was ended makes room', async () => {
		const id = await make();
		for (let i = 1; i < MOST; i++)
			assert.equal((await ask('POST', `/sandboxes/${id}/contexts`, { name: `c${i}` })).status, 201);
		refused(await ask('POST', `/sandboxes/${id}/contexts`, {}), 429, 'quota_exceeded');
		refused(await ask('POST', `/sandboxes/${id}/runs`, { code: '1', context: 'more' }), 429, 'quota_exceeded');
		refused(await ask('POST', `/sandboxes/${id}/contexts`, { name: 'c1' }), 409, 'already_exists');
		refused(await ask('POST', `/sandboxes/${id}/contexts`, { name: 'default' }), 409, 'already_exists');
		refused(await ask('POST', `/sandboxes/${id}/contexts`, { name: '../x' }), 400, 'invalid_argument');
		refused(await ask('DELETE', `/sandboxes/${id}/contexts/default`), 400, 'invalid_argument');
		refused(await ask('DELETE', `/sandboxes/${id}/contexts/nothing`), 404, 'not_found');
		assert.equal((await ask('DELETE', `/sandboxes/${id}/contexts/c3`)).status, 204);
		const made = await ask('POST', `/sandboxes/${id}/contexts`, {});
		assert.match(made.body.name, /^context-[0-9a-f]{8}$/, made.text);
		assert.equal(await out(id, '"x" in dir()', made.body.name), 'False');
	});

	it('one that ends takes its variables, threads and processes along, and nothing of the others', async () => {
		const id = await make();
		const counts = 'import subprocess, threading\np = subprocess.Popen(["sleep", "1000"])\nprint(p.pid)';
		const lives = (...of: string[]): string => `import os\nalive = []\nfor p in (${of.join(', ')},):\n    try: os.kill(p, 0); alive.append(True)\n    except ProcessLookupError: alive.append(False)\n    except PermissionError: alive.append(True) # a kernel whose Landlock keeps signals in\nprint(alive)`;
		const kept = await out(id, counts), ended = await out(id, `${counts}\nx = 1`, 'b');
		assert.equal(await out(id, lives(kept, ended), 'c'), '[True, True]');
		assert.equal((await ask('DELETE', `/sandboxes/${id}/contexts/b`)).status, 204);
		assert.deepEqual(await names(id), ['default', 'c']);
		// Nothing answers for a process that was killed before the kernel has freed it.
		assert.equal(await until('its end', async () => (await out(id, lives(ended), 'c')) === '[False]'), true);
		assert.equal(await out(id, lives(kept), 'c'), '[True]');
		assert.equal(await out(id, 'p.poll() is None'), 'True');
		assert.equal(await out(id, '"x" in dir()', 'b'), 'False');
		assert.equal((await ask('DELETE', `/sandboxes/${id}/contexts/b`)).status, 204); // the one that is current
		assert.equal(await out(id, 'p.poll() is None'), 'True');
	});

	it('a server in a thread or a child of one answers runs of another, and waits between runs', async () => {
		const id = await make();
		await run(id, 'import threading, http.server\nsrv = http.server.ThreadingHTTPServer(("127.0.0.1", 8001), http.server.SimpleHTTPRequestHandler)\nthreading.Thread(target=srv.serve_forever, daemon=True).start()', 'thread');
		await run(id, 'import subprocess, sys, time, urllib.request as u\np = subprocess.Popen([sys.executable, "-m", "http.server", "8002", "-b", "127.0.0.1"], stderr=subprocess.DEVNULL)\nfor i in range(200):\n    try:\n        u.urlopen("http://127.0.0.1:8002/"); break\n    except OSError: time.sleep(0.05)', 'child');
		const fetches = 'import urllib.request as u\nprint([u.urlopen(f"http://127.0.0.1:{p}/", timeout=20).status for p in (8001, 8002)])';
		assert.equal(await out(id, fetches), '[200, 200]');
		assert.equal((await run(id, fetches, 'thread')).stdout, '[200, 200]\n');
		assert.equal((await run(id, fetches, undefined, { stateful: false })).stdout.trim(), '[200, 200]');
		assert.equal(await out(id, 'p.poll() is None', 'child'), 'True');
		assert.equal(await out(id, fetches, 'other'), '[200, 200]');
	});

	it('a crash in one gives it back as it was, and touches no other', async () => {
		const id = await make();
		await run(id, 'x = "main"');
		await run(id, 'x = "b"', 'b');
		const died = await run(id, 'x = "changed"; import os; os._exit(3)', 'b');
		assert.equal(died.state, 'unchanged');
		assert.equal(await out(id, 'x'), "'main'");
		assert.equal(await out(id, 'x', 'b'), "'b'");
		// Where a run of another context can kill the process that waits, its own backup takes over.
		const pid = await out(id, 'import os; print(os.getpid())', 'b');
		await run(id, `import os, signal; os.kill(${pid}, signal.SIGKILL)`);
		assert.equal(await out(id, 'x', 'b'), "'b'");
	});

	it('restart begins one anew, and the others stay', async () => {
		const id = await make();
		await run(id, 'x = 1');
		await run(id, 'x = 2', 'b');
		assert.equal((await run(id, 'print("x" in dir())', 'b', { restart: true })).stdout, 'False\n');
		assert.equal(await out(id, 'x'), '1');
		await run(id, 'y = 5', 'b');
		assert.equal((await run(id, 'print("x" in dir())', undefined, { restart: true })).stdout, 'False\n');
		assert.equal(await out(id, 'y', 'b'), '5');
	});

	it('a checkpoint has the default one, and a restore leaves the others', async () => {
		const id = await make();
		await run(id, 'x = 1');
		await run(id, 'x = 10', 'b');
		assert.equal((await ask('POST', `/sandboxes/${id}/checkpoints`, { name: 'p' })).status, 201);
		await run(id, 'x = 2');
		await run(id, 'x = 20', 'b');
		const back = await ask('POST', `/sandboxes/${id}/checkpoints/p/restore`, {});
		assert.equal(back.status, 200, back.text);
		assert.equal(await out(id, 'x'), '1');
		assert.equal(await out(id, 'x', 'b'), '20');
		const tried = await ask('POST', `/sandboxes/${id}/branches`, { branches: [{ name: 'one', code: 'x += 1; print(x)' }, { name: 'two', code: 'x += 2; print(x)' }] });
		assert.equal(tried.status, 200, tried.text);
		assert.deepEqual(tried.body.branches.map((b: Json) => b.stdout ?? b.run?.stdout), ['2\n', '3\n'], tried.text);
		assert.equal(await out(id, 'x', 'b'), '20');
		assert.equal(await out(id, 'x'), '1');
		const two = await ask('POST', `/sandboxes/${id}/checkpoints/two/restore`, {});
		assert.equal(two.status, 200, two.text);
		assert.equal(await out(id, 'x', 'b'), '20');
		assert.equal(await out(id, 'x'), '3');
	});

	it('what a thread of one writes comes with the next run of that one', async () => {
		const id = await make();
		await run(id, 'import threading, time\nt = threading.Thread(target=lambda: [time.sleep(0.05), print("late", flush=True)]); t.start()', 'b');
		assert.equal(await out(id, 'import time; time.sleep(0.5); print("mine")'), 'mine');
		assert.match(await out(id, 't.join(); print("b")', 'b'), /late[\s\S]*b/);
	});

	it('a run that is on keeps its context', async () => {
		const id = await make();
		const r = await ask('POST', `/sandboxes/${id}/runs`, { code: 'import time\nfor i in range(10000): time.sleep(0.01)', context: 'b' });
		assert.equal(r.status, 201, r.text);
		refused(await ask('DELETE', `/sandboxes/${id}/contexts/b`), 409, 'session_busy');
		assert.equal((await ask('POST', `/sandboxes/${id}/contexts`, { name: 'c' })).status, 201);
		assert.equal((await ask('DELETE', `/sandboxes/${id}/contexts/c`)).status, 204);
		assert.equal((await ask('DELETE', `/runs/${r.body.id}`)).status, 202);
		await until('the end of the run', async () => (await ask('GET', `/runs/${r.body.id}`)).body.status === 'done');
		assert.equal((await ask('DELETE', `/sandboxes/${id}/contexts/b`)).status, 204);
	});

	it('context goes with code', async () => {
		const id = await make();
		refused(await ask('POST', `/sandboxes/${id}/runs`, { command: 'true', context: 'b' }), 400, 'invalid_argument');
		assert.equal((await run(id, 'x = 3', 'b', { stateful: false })).state, 'kept'); // a context is stateful
		assert.equal(await out(id, 'x', 'b'), '3');
		refused(await ask('POST', `/sandboxes/${id}/runs`, { code: '1', context: 'a b' }), 400, 'invalid_argument');
	});
});
