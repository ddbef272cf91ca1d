// SPDX-License-Identifier: Apache-2.0
// What a sandbox is made with and changed to: limits, environment, name, labels, folder, image; that values of the
// environment reach every kind of run and no answer, log, history or audit.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { newStateDir, unlessEnforced } from '../lib/env.ts';
import { type Program } from '../lib/process.ts';
import { serve, using, type Json, type Session } from '../lib/session.ts';

const SECRET = 'hush-7c1f';

interface Answer { status: number; body: Json; headers: Headers; text: string }

describe('options of a sandbox', () => {
	let program: Program;
	let base: string;
	const state = newStateDir();
	const env = {
		SANDBOX_STATE_DIR: state, SANDBOX_MAX_SESSIONS: '20', SANDBOX_MAX_MEMORY_LIMIT: '2g', SANDBOX_MAX_CPU_LIMIT: '1.5',
		SANDBOX_MAX_TIMEOUT_S: '90', SANDBOX_LOG_LEVEL: 'DEBUG', SANDBOX_IMAGES: 'nowhere',
	};
	let said = '';

	async function begin(): Promise<void> {
		({ program, base } = await serve({ profile: 'full', env }));
	}
	before(begin);
	after(async () => {
		await program.end();
	});

	async function ask(method: string, at: string, json?: unknown): Promise<Answer> {
		const r = await fetch(`${base}/api/v1${at}`, {
			method, headers: json === undefined ? {} : { 'content-type': 'application/json' },
			body: json === undefined ? undefined : JSON.stringify(json),
		});
		const text = await r.text();
		said += text;
		return { status: r.status, body: text ? JSON.parse(text) : {}, headers: r.headers, text };
	}
	async function make(json: Json): Promise<Json> {
		const r = await ask('POST', '/sandboxes', json);
		assert.equal(r.status, 201, r.text);
		return r.body;
	}
	async function out(id: string, json: Json): Promise<string> {
		const r = await ask('POST', `/sandboxes/${id}/runs`, { wait: true, ...json });
		assert.equal(r.body.exit_code, 0, r.text);
		return r.body.stdout.trim();
	}

	it('(slow) are told back, and hold', async () => {
		const box = await make({
			name: 'Ü 1', labels: { team: 'a', 'x/y': '' }, memory_mb: 300, cpus: 0.5, processes: 40, disk_mb: 20, timeout_s: 2, ttl_s: 60,
			workdir: '/mnt/data/proj/deep', env: { TOKEN: SECRET },
		});
		assert.deepEqual(box.limits, { memory_mb: 300, cpus: 0.5, processes: 40, disk_mb: 20, timeout_s: 2, ttl_s: 60 });
		assert.deepEqual([box.name, box.labels, box.env, box.workdir], ['Ü 1', { team: 'a', 'x/y': '' }, ['TOKEN'], '/mnt/data/proj/deep']);
		assert.deepEqual((await ask('GET', `/sandboxes/${box.id}`)).body.limits, box.limits);
		const listed = (await ask('GET', '/sandboxes')).body.sandboxes.find((b: Json) => b.id === box.id);
		assert.deepEqual([listed.labels, listed.name], [box.labels, 'Ü 1']);
		// every kind of run starts in the folder, which is made
		const where = 'import os; print(os.getcwd())';
		assert.equal(await out(box.id, { code: where }), '/mnt/data/proj/deep');
		assert.equal(await out(box.id, { command: 'pwd' }), '/mnt/data/proj/deep');
		assert.equal(await out(box.id, { code: where, stateful: true }), '/mnt/data/proj/deep');
		assert.equal(await out(box.id, { command: 'rm -r /mnt/data/proj; echo gone' }), 'gone');
		assert.equal(await out(box.id, { code: where }), '/mnt/data/proj/deep');
		const slow = await ask('POST', `/sandboxes/${box.id}/runs`, { wait: true, code: 'import time; time.sleep(30)' });
		assert.equal(slow.body.reason, 'timeout', slow.text);
		assert.ok(slow.body.duration_ms < 15_000);
		await ask('DELETE', `/sandboxes/${box.id}`);
	});

	it('memory, processes and disk are enforced', { skip: unlessEnforced('memory', 'pids', 'disk') }, async () => {
		const box = await make({ memory_mb: 100, processes: 20, disk_mb: 5 });
		const full = await ask('POST', `/sandboxes/${box.id}/runs`, { wait: true, command: 'head -c 9000000 /dev/zero > big' });
		assert.notEqual(full.body.exit_code, 0, full.text);
		const much = await ask('POST', `/sandboxes/${box.id}/runs`, { wait: true, code: 'x = bytearray(300 << 20); print(len(x))' });
		assert.notEqual(much.body.exit_code, 0, much.text);
		const many = await ask('POST', `/sandboxes/${box.id}/runs`, { wait: true, code: 'import subprocess\nfor i in range(60): subprocess.Popen(["sleep", "5"])' });
		assert.notEqual(many.body.exit_code, 0, many.text);
		const larger = await make({ memory_mb: 1500 });
		assert.equal(await out(larger.id, { code: 'x = bytearray(900 << 20); print(len(x) >> 20)' }), '900');
		for (const b of [box, larger])
			await ask('DELETE', `/sandboxes/${b.id}`);
	});

	it('beyond the maxima or wrong: the problem names the member and the setting', async () => {
		const rows: [Json, string, number, RegExp][] = [
			[{ memory_mb: 2049 }, 'memory_mb', 400, /at most 2048.*SANDBOX_MAX_MEMORY_LIMIT/],
			[{ cpus: 1.6 }, 'cpus', 400, /at most 1.5.*SANDBOX_MAX_CPU_LIMIT/],
			[{ processes: 100000 }, 'processes', 400, /SANDBOX_MAX_PIDS_LIMIT/],
			[{ disk_mb: 1048576 }, 'disk_mb', 400, /SANDBOX_MAX_WORKSPACE_LIMIT/],
			[{ timeout_s: 91 }, 'timeout_s', 400, /at most 300.*SANDBOX_MAX_TIMEOUT_S|at most 90/],
			[{ ttl_s: 86401 }, 'ttl_s', 400, /at most 86400.*SANDBOX_MAX_TTL_M/],
			[{ image: 'another' }, 'image', 403, /SANDBOX_IMAGES/],
			[{ memory_mb: '1g' }, 'memory_mb', 400, /whole number/],
			[{ env: { LD_PRELOAD: SECRET } }, 'env', 400, /LD_PRELOAD cannot be set/],
			[{ env: { A: null } }, 'env', 400, /value of A/],
			[{ workdir: '/etc' }, 'workdir', 400, /\/mnt\/data/],
			[{ labels: null }, 'labels', 400, /labels/],
			[{ memory: 5 }, 'memory', 400, /not known/],
			[{ kind: 'other' }, 'kind', 400, /kind/],
		];
		for (const [json, member, status, says] of rows) {
			if (member === 'timeout_s')
				json.timeout_s = 301; // stored sandboxes have 300 s by default, which is more than SANDBOX_MAX_TIMEOUT_S
			const r = await ask('POST', '/sandboxes', json);
			assert.deepEqual([r.status, r.body.member], [status, member], r.text);
			assert.match(r.body.detail, says);
		}
		const missing = await ask('POST', '/sandboxes', { image: 'nowhere' });
		assert.equal(missing.body.code, 'image_missing', missing.text);
		const document = (await ask('GET', '/openapi.json')).body;
		const schema = (id: string): Json => Object.values<Json>(document.paths).flatMap((p) => Object.values<Json>(p)).find((o) => o.operationId === id)!
			.requestBody.content['application/json'].schema.properties;
		assert.deepEqual([schema('createSandbox').memory_mb.maximum, schema('startRun').timeout_s.maximum], [2048, 300]);
	});

	it('the environment reaches warm, cold, stateful and shell runs, and is shown nowhere', async () => {
		const box = await make({ env: { TOKEN: SECRET, LINES: 'a\nb', EMPTY: '' } });
		const show = 'import os; print(len(os.environ["TOKEN"]), os.environ["LINES"] == "a\\nb", os.environ["EMPTY"] == "")';
		assert.equal(await out(box.id, { code: show }), '9 True True');
		assert.equal(await out(box.id, { code: show, stateful: true }), '9 True True');
		assert.equal(await out(box.id, { command: 'echo ${#TOKEN}; python3 -c "import os; print(len(os.environ[\'TOKEN\']))"' }), '9\n9');
		// Changes hold at once, in a session that lives, too; what code has set itself stays.
		assert.equal(await out(box.id, { code: 'os.environ["MINE"] = "1"; os.environ["EMPTY"] = "x"; print(1)', stateful: true }), '1');
		const r = await ask('PATCH', `/sandboxes/${box.id}`, { env: { TOKEN: 'short', LINES: null, NEW: '2' } });
		assert.deepEqual([r.status, r.body.env.sort()], [200, ['EMPTY', 'NEW', 'TOKEN']], r.text);
		const now = 'import os; print([os.environ.get(n) for n in ("TOKEN", "LINES", "NEW", "EMPTY", "MINE")])';
		assert.equal(await out(box.id, { code: now, stateful: true }), "['short', None, '2', 'x', '1']");
		assert.equal(await out(box.id, { code: now }), "['short', None, '2', '', None]");
		// read when Python starts: such runs start cold and work
		const cold = await make({ env: { PYTHONHASHSEED: '0', OMP_NUM_THREADS: '1' } });
		assert.equal(await out(cold.id, { code: 'import os; print(os.environ["PYTHONHASHSEED"], os.environ["OMP_NUM_THREADS"])' }), '0 1');
		for (const b of [box, cold])
			await ask('DELETE', `/sandboxes/${b.id}`);
	});

	it('later: what can be changed is, the rest says what to do', async () => {
		const box = await make({ name: 'a', labels: { x: '1' } });
		const r = await ask('PATCH', `/sandboxes/${box.id}`, { name: 'b', labels: { x: null, y: '2' }, ttl_s: 70, timeout_s: 7, workdir: '/mnt/data/w' });
		assert.equal(r.status, 200, r.text);
		assert.deepEqual([r.body.name, r.body.labels, r.body.limits.ttl_s, r.body.limits.timeout_s, r.body.workdir], ['b', { y: '2' }, 70, 7, '/mnt/data/w']);
		const no = await ask('PATCH', `/sandboxes/${box.id}`, { image: 'base' });
		assert.deepEqual([no.status, no.body.member], [400, 'image'], no.text);
		assert.match(no.body.detail, /Make a new sandbox/);
		assert.equal((await ask('PATCH', '/sandboxes/none', { name: 'x' })).status, 404);
		assert.equal((await ask('DELETE', `/sandboxes/${box.id}`)).status, 204);
	});

	it('a stored sandbox keeps them across a restart, and no file but the database has the secret', async () => {
		const box = await make({ kind: 'stored', name: 'kept', labels: { a: 'b' }, memory_mb: 400, disk_mb: 50, ttl_s: 90, env: { TOKEN: SECRET }, workdir: '/mnt/data/w' });
		assert.equal(await out(box.id, { code: 'import os; print(os.environ["TOKEN"][:4])' }), SECRET.slice(0, 4));
		assert.equal((await ask('PATCH', `/sandboxes/${box.id}`, { labels: { c: 'd' } })).status, 200);
		let log = program.stderr;
		await program.end();
		await begin();
		const found = (await ask('GET', `/sandboxes/${box.id}`)).body;
		assert.deepEqual([found.state, found.name, found.labels, found.env, found.workdir], ['stored', 'kept', { a: 'b', c: 'd' }, ['TOKEN'], '/mnt/data/w']);
		assert.deepEqual([found.limits.memory_mb, found.limits.disk_mb, found.limits.ttl_s], [400, 50, 90]);
		// changed while it is not active
		const r = await ask('PATCH', `/sandboxes/${box.id}`, { name: 'again', env: { MORE: '1' } });
		assert.deepEqual([r.status, r.body.name, r.body.env, r.body.state], [200, 'again', ['TOKEN', 'MORE'], 'stored'], r.text);
		assert.equal(await out(box.id, { code: 'import os; print(len(os.environ["TOKEN"]), os.environ["MORE"], os.getcwd())' }), '9 1 /mnt/data/w');
		assert.equal((await ask('GET', `/sandboxes/${box.id}`)).body.limits.memory_mb, 400);
		await ask('GET', '/audit');
		await ask('GET', '/runs');
		log += program.stderr;
		assert.equal((await ask('DELETE', `/sandboxes/${box.id}`)).status, 204);
		await program.end();
		for (const [what, text] of [['an answer', said], ['the log', log + program.stderr]])
			assert.ok(!text.includes(SECRET) && !text.includes('se-7c1f'), `${what} has the secret`);
		for (const name of fs.readdirSync(state))
			if (!name.startsWith('caisson.db') && fs.statSync(path.join(state, name)).isFile())
				assert.ok(!fs.readFileSync(path.join(state, name)).includes(SECRET), name);
		await begin();
	});

	it('tools: create, change and info show all but the values; a refusal does not repeat them', () => using('stdio', { profile: 'full', env: { SANDBOX_MAX_TIMEOUT_S: '700', SANDBOX_STORED_EXEC_TIMEOUT_S: '60', SANDBOX_LOG_LEVEL: 'DEBUG' } }, async (s: Session) => {
		const call = async (name: string, args: Json): Promise<{ text: string; object: Json; error: boolean }> => {
			const r = await s.raw(name, args);
			const text = JSON.stringify(r);
			assert.ok(!text.includes(SECRET), text);
			return { text, object: r.structuredContent?.result ?? r.structuredContent ?? {}, error: r.isError ?? false };
		};
		const made = await call('sandbox_create', { name: 'n', labels: { a: 'b' }, memory_mb: 300, cpus: 0.5, processes: 50, disk_mb: 30, timeout_s: 9, ttl_s: 600, env: { TOKEN: SECRET }, workdir: '/mnt/data/w' });
		assert.equal(made.error, false, made.text);
		const id = made.object.session_id as string;
		const info = (await call('sandbox_info', { session_id: id })).object;
		assert.deepEqual([info.name, info.labels, info.env, info.workdir], ['n', { a: 'b' }, ['TOKEN'], '/mnt/data/w']);
		const l = info.limits;
		assert.deepEqual([l.memory_bytes >> 20, l.cpu_milli, l.processes, l.workspace_bytes >> 20, l.run_seconds, l.unused_seconds, l.run_seconds_max, l.checkpoints], [300, 500, 50, 30, 9, 600, 700, 8]);
		for (const member of ['workspace_files', 'tmp_bytes', 'open_files', 'output_bytes', 'code_bytes', 'upload_bytes'])
			assert.ok(l[member] > 0, member);
		assert.match((await call('sandbox_run_python', { code: 'import os; print(len(os.environ["TOKEN"]), os.getcwd())', session_id: id })).text, /9 \/mnt\/data\/w/);
		assert.equal((await call('sandbox_create', { session_id: id, env: { TOKEN: null, B: '1' }, timeout_s: 8 })).error, false);
		assert.deepEqual((await call('sandbox_info', { session_id: id })).object.env, ['B']);
		for (const args of [{ env: { TOKEN: SECRET, PATH: SECRET } }, { env: { TOKEN: SECRET, OTHER: 5 } }, { env: [SECRET] }, { env: SECRET }, { env: { TOKEN: SECRET }, cpus: 'x' }, { env: { [SECRET]: '1' } }])
			assert.equal((await call('sandbox_create', args)).error, true);
		assert.match((await call('sandbox_create', { memory_mb: 1048576 })).text, /at most 1024.*SANDBOX_MAX_MEMORY_LIMIT/);
		assert.match((await call('sandbox_create', { session_id: id, image: 'base' })).text, /Make a new sandbox/);
		// programs of the server itself need neither the folder nor the environment
		const odd = (await call('sandbox_create', { workdir: '/mnt/data/w', env: { PYTHONPATH: '/mnt/data/w' } })).object.session_id as string;
		await call('sandbox_run_python', { session_id: odd, code: 'from PIL import Image\nImage.new("RGB", (4, 4)).save("/mnt/data/p.bmp")\nfor name in ("struct", "subprocess"): open(name + ".py", "w").write("1/0")' });
		const seen = await s.raw('sandbox_read_file', { session_id: odd, path: 'p.bmp' });
		assert.ok(seen.content.some((b) => b.type === 'image'), JSON.stringify(seen.content));
		const { tools } = await s.client.listTools();
		assert.equal(JSON.stringify(tools).match(/"timeout_s":\{[^}]*?"maximum":(\d+)/)![1], '700');
		assert.ok(!JSON.stringify(tools).includes('604800'));
		assert.ok(!s.stderr.includes(SECRET) && !fs.readFileSync(s.log, { encoding: 'utf8', flag: 'a+' }).includes(SECRET), 'the log has the secret');
	}));
});
