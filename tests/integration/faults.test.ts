// SPDX-License-Identifier: Apache-2.0
// What fails below the server while it serves: typed errors, no hang, no leak, and work again without a restart.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { imagesDir, mode, scratch, unlessEnforced } from '../lib/env.ts';
import { isError } from '../lib/expect.ts';
import { failing } from '../lib/failing.ts';
import { initsOf, monitorOf, othersOf } from '../lib/family.ts';
import { alive, caisson } from '../lib/process.ts';
import { facts, serve, using, type Json, type Session } from '../lib/session.ts';
import { until, within } from '../lib/wait.ts';

const isRoot = process.getuid!() === 0;
const notRoot = !isRoot && 'only root may interfere with processes of the server';
const cold = process.env.CAISSON_TEST_COLD === '1' && 'warm starts are off in this mode';
const waitMs = 30_000;

/** The other limit that so many calls meet. */
function tooMany(e: Error): Json {
	assert.match(e.message, /Too many requests in flight/);
	return { error: 'in flight' };
}

/** New sandboxes fail and say why while the fault lasts; what lives goes on; afterwards all is well. */
async function refusedAndBack(s: Session, why: RegExp, fault: (body: () => Promise<void>) => Promise<void>): Promise<void> {
	await s.ok('open("f", "w").write("kept")', 'old');
	await fault(async () => {
		for (let i = 0; i < 3; i++) {
			isError(await within('an answer', s.run('print(1)', `new${i}`), waitMs), 'execution_failed', why);
		}
	});
	assert.equal((await s.ok('print(open("f").read())', 'old')).stdout, 'kept\n');
	for (let i = 0; i < 3; i++)
		assert.equal((await s.ok('print(2)', `new${i}`)).stdout, '2\n');
	for (const id of ['old', 'new0', 'new1', 'new2'])
		await s.close(id);
}

const noPool = { SANDBOX_POOL: '0', SANDBOX_MAX_SESSIONS: '20' };

describe('faults', { concurrency: 2 }, () => {
	it('(slow) the monitor cannot fork: no new sandboxes, the old ones go on, and all is well afterwards', { skip: notRoot }, () =>
		using('stdio', { env: noPool }, (s) =>
			refusedAndBack(s, /cannot be made.*Resource temporarily unavailable/, (body) => failing(monitorOf(s.pid).pid, 'clone,clone3', 'EAGAIN', body))));

	it('(slow) the monitor has no memory or no descriptors', { skip: notRoot }, () =>
		using('stdio', { env: noPool }, async (s) => {
			await refusedAndBack(s, /cannot be made.*Cannot allocate memory/, (body) => failing(monitorOf(s.pid).pid, 'clone,clone3', 'ENOMEM', body));
			await refusedAndBack(s, /cannot be made.*Too many open files/, (body) => failing(monitorOf(s.pid).pid, 'socketpair', 'EMFILE', body));
		}));

	it('(slow) the front has no watches, descriptors or memory for new connections: what is open goes on, and all is well afterwards', { skip: notRoot }, async () => {
		const { program, base } = await serve({ profile: 'full', env: noPool });
		const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
		const get = (path: string, o: http.RequestOptions = {}): Promise<number> => new Promise((resolve) => {
			const req = http.get(`${base}${path}`, { timeout: 700, agent: false, ...o }, (res) => res.resume().on('end', () => resolve(res.statusCode!)));
			req.on('timeout', () => req.destroy()).on('error', () => resolve(0));
		});
		assert.equal(await get('/healthz', { agent }), 200);
		const stream = new AbortController();
		const sse = await fetch(`${base}/sse`, { signal: stream.signal });
		for (const [calls, error] of [['epoll_ctl', 'ENOSPC'], ['epoll_ctl', 'ENOMEM'], ['accept4', 'EMFILE'], ['accept4', 'ENFILE'], ['accept4', 'ENOMEM']] as const) {
			await failing(program.pid, calls, error, async () => {
				assert.ok([0, 503].includes(await get('/healthz')), `${calls} ${error}: a new client is refused or waits`);
				if (calls === 'epoll_ctl') // without descriptors an idle connection makes room
					assert.equal(await get('/healthz', { agent }), 200, `${calls} ${error}: an old one goes on`);
			});
			assert.equal(await until('a new client', () => get('/healthz').then((r) => r === 200 && r), waitMs), 200);
		}
		assert.equal(sse.status, 200);
		stream.abort();
		agent.destroy();
		await program.end();
	});

	it('a sandbox cannot fork: the run fails with a typed error, the next one works', { skip: notRoot }, () =>
		using('stdio', { env: { ...noPool, SANDBOX_WARM: 'off' } }, async (s) => {
			await s.ok('pass', 'a');
			await failing(initsOf(s.pid)[0]!.pid, 'clone,clone3,fork,vfork', 'EAGAIN', async () =>
				isError(await s.run('print(1)', 'a'), 'execution_failed', /\w/));
			assert.equal((await s.ok('print(1)', 'a')).stdout, '1\n');
		}));

	it('the server is out of descriptors: typed errors, and it works again when there are some', () =>
		using('stdio', { env: { ...noPool, SANDBOX_MAX_SESSIONS: '200' }, under: ['prlimit', '--nofile=70:70'] }, async (s) => {
			await s.ok('open("f", "w").write("kept")', 'old');
			const made: string[] = [];
			const refused = await until('a refusal', async () => {
				const id = `s${made.length}`;
				const r = await within('an answer', s.run('print(1)', id), waitMs);
				made.push(id);
				return r.error && r;
			}, waitMs);
			isError(refused, 'execution_failed', /Too many open files/);
			assert.equal((await s.ok('print(open("f").read())', 'old')).stdout, 'kept\n');
			for (let i = 0; i < 10; i++)
				isError(await within('an answer', s.run('print(1)', `t${i}`), waitMs), 'execution_failed', /Too many open files/);
			for (const id of [...made, ...Array.from({ length: 10 }, (_, i) => `t${i}`)])
				await s.call('sandbox_close_session', { session_id: id });
			assert.equal((await s.ok('print(2)', 'new')).stdout, '2\n');
			assert.equal((await s.ok('print(open("f").read())', 'old')).stdout, 'kept\n');
		}));

	it('(slow) two thousand creations at once beyond the cap', () =>
		using('stdio', { env: { SANDBOX_MAX_SESSIONS: '10' } }, async (s) => {
			const all = await within('two thousand answers', Promise.all(Array.from({ length: 2000 }, (_, i) => s.run('print(1)', `s${i}`).catch(tooMany))), 120_000);
			const made = all.map((r, i) => [r, i] as const).filter(([r]) => r.error === undefined);
			assert.equal(made.length, 10);
			made.forEach(([r]) => assert.equal(r.stdout, '1\n'));
			all.filter((r) => r.error !== undefined && r.error !== 'in flight').forEach((r) => isError(r, 'max_sessions', /10 concurrent sessions/));
			await Promise.all(made.map(([, i]) => s.close(`s${i}`)));
			assert.equal((await s.ok('print(2)', 's1999')).stdout, '2\n');
		}));

	it('(slow) a sandbox of the pool that ends while it waits is replaced', { skip: cold || notRoot }, () =>
		using('stdio', {}, async (s) => {
			await s.ok('pass', 'first');
			for (let i = 0; i < 3; i++) {
				const waiting = await until('one that waits', () => initsOf(s.pid).length > i + 1 && initsOf(s.pid).sort((a, b) => Number(b.started) - Number(a.started))[0], waitMs);
				process.kill(waiting.pid, 'SIGKILL');
				await until('its end', () => !alive(waiting), waitMs);
				assert.equal((await s.ok('print(1)', `s${i}`)).stdout, '1\n');
			}
			await until('another that waits', () => initsOf(s.pid).length >= 5, waitMs);
		}));

	it('(slow) an image that is replaced: old sandboxes keep theirs, every new one has the new', { skip: notRoot || (mode === 'user' && 'the copy belongs to root') }, async () => {
		const state = scratch('state');
		const images = path.join(state, 'images');
		fs.mkdirSync(images);
		const copy = (name: string, mark: string): void => {
			const to = path.join(images, name);
			assert.equal(spawnSync('cp', ['-al', fs.realpathSync(path.join(imagesDir, 'base')), to]).status, 0);
			fs.writeFileSync(path.join(to, 'root/etc/caisson-test'), mark);
		};
		copy('test', 'one');
		const mark = 'print(open("/etc/caisson-test").read())';
		await using('stdio', { env: { SANDBOX_STATE_DIR: state, SANDBOX_IMAGE: 'test' } }, async (s) => {
			assert.equal((await s.ok(mark, 'old')).stdout, 'one\n');
			await until('a sandbox in the pool', () => cold || initsOf(s.pid).length >= 2, waitMs);
			copy('next', 'two');
			fs.renameSync(path.join(images, 'test'), path.join(images, 'gone'));
			fs.renameSync(path.join(images, 'next'), path.join(images, 'test'));
			assert.equal((await s.ok(mark, 'new')).stdout, 'two\n');
			assert.equal((await s.ok(mark, 'old')).stdout, 'one\n');
			for (let i = 0; i < 3; i++)
				assert.equal((await s.ok(mark, `more${i}`)).stdout, 'two\n');
			fs.renameSync(path.join(images, 'test'), path.join(images, 'away'));
			isError(await s.run(mark, 'none'), 'execution_failed', /the image 'test' is not there; .* caisson image build test/);
			fs.renameSync(path.join(images, 'away'), path.join(images, 'test'));
			assert.equal((await s.ok(mark, 'again')).stdout, 'two\n');
		});
	});

	it('(slow) a checkpoint whose copier is killed says that it was killed, and the next one is made', { skip: notRoot }, () =>
		using('stdio', { env: noPool, profile: 'all' }, async (s) => {
			const tool = async (name: string, args: Json): Promise<Json> => facts(await s.raw(name, { session_id: 'copied', ...args }));
			await s.ok('for i in range(10000): open(f"f{i}", "w").close()\nopen("big", "wb").write(bytes(100 << 20))', 'copied');
			const [init] = initsOf(s.pid);
			/* The copier may be done before anybody has seen it. */
			const killed = async (n: number): Promise<Json> => {
				let said: Json | undefined;
				const saved = tool('sandbox_checkpoint', { name: `one${n}` }).then((r) => (said = r));
				const copier = await until('the copier', () => othersOf(init!).find((p) => p.name === 'caisson-init') ?? said, waitMs);
				if (typeof copier.pid === 'number')
					process.kill(copier.pid, 'SIGKILL');
				return await saved;
			};
			let said = await killed(0);
			for (let n = 1; said.error === undefined && n < 6; n++)
				said = await killed(n);
			assert.deepEqual([said.error, /was killed/.test(said.message)], ['system_error', true], JSON.stringify(said));
			assert.equal((await tool('sandbox_checkpoint', { name: 'two' })).error, undefined);
			assert.equal((await s.ok('import os\nprint(len(os.listdir()))', 'copied')).stdout, '10001\n');
		}));

	it('all sandboxes together: where nothing can hold their limit, it is refused', { skip: !unlessEnforced('memory') && 'it holds here' }, async () => {
		const script = path.join(scratch('total'), 'one.py');
		fs.writeFileSync(script, 'print(1)');
		fs.chmodSync(script, 0o644);
		const r = await caisson(['run', script], { env: { SANDBOX_TOTAL_MEMORY: '1g' } });
		assert.notEqual(r.code, 0);
		assert.match(r.stderr.toString(), /memory of all sandboxes together cannot be limited here/);
	});

	it('(slow) all sandboxes together: uploads count, and are refused before others suffer', { skip: unlessEnforced('memory') }, () =>
		using('stdio', { env: { ...noPool, SANDBOX_TOTAL_MEMORY: '300m', SANDBOX_WORKSPACE: 'memory', SANDBOX_WORKSPACE_LIMIT: '300m' } }, async (s) => {
			const bytes = Buffer.alloc(32 << 20, 'x');
			let accepted = 0, refusal: Json | undefined;
			for (let i = 0; i < 12 && !refusal; i++) {
				const r = await s.upload(`f${i}`, bytes, `up${i % 4}`);
				if (r.error)
					refusal = r;
				else
					accepted += bytes.length;
			}
			assert.ok(accepted >= 100 << 20 && accepted <= 300 << 20, `${accepted}`);
			assert.equal(refusal!.error, 'execution_failed');
			assert.match(refusal!.message, /^all sandboxes together use \d+ of 300 MiB/);
			await s.close('up1');
			await until('room again', async () => !(await s.upload('later', bytes, 'up2', true)).error, waitMs);
		}));

	it('(slow) all sandboxes together: uploads that were deleted inside are free for others', { skip: unlessEnforced('memory') }, () =>
		using('stdio', { env: { ...noPool, SANDBOX_TOTAL_MEMORY: '300m', SANDBOX_WORKSPACE: 'memory', SANDBOX_WORKSPACE_LIMIT: '300m' } }, async (s) => {
			const bytes = Buffer.alloc(32 << 20, 'x');
			for (let round = 0; round < 4; round++) {
				for (let i = 0; i < 3; i++)
					assert.equal((await s.upload(`f${i}`, bytes, 'greedy')).error, undefined, `round ${round}`);
				assert.equal((await s.run('import glob, os\nfor f in glob.glob("f*"): os.remove(f)', 'greedy')).exit_code, 0);
			}
			for (let i = 0; i < 4; i++)
				assert.equal((await s.upload(`f${i}`, bytes, 'other')).error, undefined, `${i}`);
		}));

	it('(slow) all sandboxes together: uploads leave the runs less', { skip: unlessEnforced('memory') }, () =>
		using('stdio', { env: { ...noPool, SANDBOX_WORKSPACE: 'memory', SANDBOX_TOTAL_MEMORY: '400m', SANDBOX_WORKSPACE_LIMIT: '300m', SANDBOX_MEMORY_LIMIT: '380m' } }, async (s) => {
			const hog = 'print(len(bytearray(b"x") * (200 << 20)))';
			assert.equal((await s.ok(hog, 'first')).stdout, `${200 << 20}\n`);
			await s.close('first');
			for (let i = 0; i < 7; i++)
				assert.equal((await s.upload(`f${i}`, Buffer.alloc(32 << 20, 'x'), 'up')).error, undefined);
			assert.equal((await s.run(hog, 'second')).reason, 'oom');
			await s.close('up');
			await until('room again', async () => (await s.run(hog, 'third')).exit_code === 0, waitMs);
		}));

	for (const start of ['warm', 'cold'] as const)
		it(`(slow) all sandboxes together, ${start}: idle ones give back memory, new ones are refused, runs end before the rest`, { skip: unlessEnforced('memory') || (start === 'warm' && cold) }, () =>
			using('stdio', { env: { ...noPool, SANDBOX_WARM: start === 'warm' ? 'on' : 'off', SANDBOX_TOTAL_MEMORY: '300m', SANDBOX_MEMORY_LIMIT: '512m' }, profile: 'all' }, async (s) => {
				const state = async (code: string): Promise<Json> => facts(await s.raw('sandbox_run_python', { code, session_id: 'held', stateful: true }));
				if (start === 'warm')
					assert.equal((await state('x = 41')).state, 'kept');
				await s.ok('open("f", "w").write("kept")', 'idle');
				const idle = initsOf(s.pid);
				const hog = s.run([
					'import os, time',
					'a = [bytearray(b"x") * (1 << 20) for _ in range(262)]',
					'open("full", "w").close()',
					'while not os.path.exists("go"):',
					'    time.sleep(0.1)',
					'    if len(a) < 280: a.append(bytearray(b"x") * (1 << 20))',
				].join('\n'), 'hog');
				await until('the hog', async () => (await s.call('sandbox_list_artifacts', { session_id: 'hog' })).artifacts?.length > 0, waitMs);
				if (start === 'warm')
					await until('the idle ones to give back what they can', () => idle.reduce((n, i) => n + othersOf(i).length, 0) <= 1, waitMs);
				const refused = await until('a refusal', async () => {
					const r = await s.raw('sandbox_run_python', { code: 'pass', session_id: 'more' });
					await s.raw('sandbox_close_session', { session_id: 'more' });
					return r.isError && facts(r);
				}, waitMs);
				assert.equal(refused.error, 'out_of_memory');
				assert.match(refused.message, /all sandboxes together use \d+ of 300 MiB/);
				await s.upload('go', 'x', 'hog');
				assert.equal((await hog).exit_code, 0);
				await s.close('hog');
				await until('room again', async () => !(await s.raw('sandbox_run_python', { code: 'pass', session_id: 'more' })).isError, waitMs);
				const big = await s.run('a = bytearray(b"x") * (400 << 20)', 'more');
				assert.equal(big.reason, 'oom', JSON.stringify(big));
				assert.equal((await s.ok('print(open("f").read())', 'idle')).stdout, 'kept\n');
				if (start === 'warm')
					assert.equal((await state('x + 1')).result, '42');
			}));
});
