// SPDX-License-Identifier: Apache-2.0
// The face e2b, as bytes: who may do what, how errors look, and what no SDK would send. Files are in e2b_files.test.ts, networks in e2b_network.test.ts, jobs of the
// SDKs in tests/suites/e2b.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import { after, before, describe, it } from 'node:test';
import { ADMIN, client, frame, frames, hex, said, type Answer, type Box } from '../lib/e2b.ts';
import { newStateDir } from '../lib/env.ts';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

describe('e2b', () => {
	let program: Program;
	let base: string;
	let port: number;
	let other: string;

	before(async () => {
		({ program, base, port } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN, SANDBOX_FACES: 'e2b', SANDBOX_MAX_UPLOAD_BYTES: '100000000' } }));
		other = await newKey('somebody');
	});
	after(async () => {
		await program.end();
	});
	const { rest, newKey, ask, control, make, routed, envd, start, code, lines } = client(() => ({ base, port }));

	it('is not there unless a setting names it', async () => {
		const plain = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir() } });
		assert.equal((await fetch(`${plain.base}/faces/e2b/sandboxes`)).status, 404);
		assert.equal((await fetch(`${plain.base}/files?path=a`)).status, 404);
		await plain.program.end();
	});


	it('takes keys of the server in both forms, and no others', async () => {
		for (const key of [ADMIN, hex(ADMIN), other, hex(other)])
			assert.equal((await control('GET', '/v2/sandboxes', undefined, key)).status, 200, key);
		for (const key of ['e2b_00', 'e2b_', `${hex(ADMIN)}00`, hex(`${ADMIN}x`), 'e2b_zz', `e2b_${'61'.repeat(600)}`, 'wrong']) {
			const r = await control('POST', '/v2/sandboxes', { templateID: 'base' }, key);
			assert.deepEqual([r.status, r.json.code], [401, 401], key);
			assert.match(r.json.message, /key/);
		}
		assert.equal((await ask('GET', '/sandboxes')).status, 401);
	});


	it('a key that may only read makes and changes nothing', async () => {
		const box = await make({}, other);
		assert.equal((await control('POST', '/sandboxes', { templateID: 'base' }, await newKey('somebody', { profile: 'classic' }))).status, 403);
		const key = await newKey('somebody', { scope: 'read' });
		/* Its token would do everything in the sandbox. */
		for (const [by, token] of [[key, undefined], [other, box.token]] as const) {
			const r = await control('GET', `/sandboxes/${box.id}`, undefined, by);
			assert.deepEqual([r.status, r.json.envdAccessToken], [200, token]);
			assert(!r.text.includes(box.traffic));
		}
		for (const [method, at] of [['POST', '/sandboxes'], ['DELETE', `/sandboxes/${box.id}`], ['POST', `/sandboxes/${box.id}/timeout`], ['POST', `/sandboxes/${box.id}/connect`]] as const)
			assert.equal((await control(method, at, { templateID: 'base', timeout: 1 }, key)).status, 403, at);
		await control('DELETE', `/sandboxes/${box.id}`, undefined, other);
	});


	it('a sandbox of another user does not exist', async () => {
		const box = await make(), mine = await make({}, other);
		for (const [method, at] of [['GET', ''], ['DELETE', ''], ['POST', '/timeout'], ['POST', '/refreshes'], ['POST', '/connect'], ['GET', '/metrics']] as const) {
			const r = await control(method, `/sandboxes/${box.id}${at}`, { timeout: 5, duration: 5 }, other);
			assert.deepEqual([r.status, r.json.code], [404, 404], `${method} ${at} ${r.text}`);
		}
		assert.deepEqual((await control('GET', '/v2/sandboxes', undefined, other)).json.map((s: Json) => s.sandboxID), [mine.id]);
		/* With the token of one, nothing of the other. */
		const wrong: Record<string, string>[] = [{ ...routed(box), 'x-access-token': mine.token }, { ...routed(mine), 'x-access-token': box.token }, { ...routed(box), 'x-access-token': '' },
			{ ...routed(box), 'x-access-token': box.traffic }, { ...routed(box), 'x-access-token': `${box.token}0` }];
		for (const headers of wrong) {
			const r = await envd(box, 'process.Process/List', {}, headers);
			assert.deepEqual([r.status, r.json.code], [401, 'unauthenticated'], r.text);
			assert.equal((await ask('GET', '/files?path=a', { headers })).status, 401);
			assert.equal((await code(box, { code: '1' }, { ...headers, 'e2b-sandbox-port': '49999', 'e2b-traffic-access-token': headers['e2b-sandbox-id'] === box.id ? mine.traffic : box.traffic })).status, 401);
		}
	});


	it('a sandbox that is not there is not found by any route', async () => {
		/* Many at once: what a call still used after its answer, another one had by then. */
		for (const [method, at, body] of [['GET', '', undefined], ['POST', '/connect', { timeout: 60 }], ['POST', '/timeout', { timeout: 60 }], ['POST', '/refreshes', { duration: 60 }], ['GET', '/metrics', undefined], ['POST', '/pause', {}], ['POST', '/resume', { timeout: 60 }],
			['POST', '/snapshots', { name: 'none' }], ['POST', '/fork', { count: 2 }], ['PUT', '/network', { allowOut: [] }], ['DELETE', '', undefined]] as [string, string, Json | undefined][]) {
			const all = await Promise.all(Array.from({ length: 20 }, () => control(method, `/sandboxes/i${'0'.repeat(19)}${at}`, body)));
			assert.deepEqual(new Set(all.map((r) => r.status)), new Set([404]), `${method} ${at}: ${all[0]!.text}`);
		}
	});

	it('tokens end with the key that made the sandbox, until somebody connects again', async () => {
		const user = (await rest('GET', '/users')).users.find((u: Json) => u.name === 'somebody');
		const first = await rest('POST', `/keys?owner=${user.id}`, { name: 'first' }), box = await make({}, first.key);
		assert.equal((await envd(box, 'process.Process/List', {})).status, 200);
		await rest('DELETE', `/keys/${first.id}?owner=${user.id}`);
		await until('the end of the token', async () => (await envd(box, 'process.Process/List', {})).status === 401);
		assert.equal((await control('POST', `/v2/sandboxes/${box.id}/connect`, { timeout: 60 }, other)).status, 200);
		assert.equal((await envd(box, 'process.Process/List', {})).status, 200);
	});


	it('what lives has its time, what has ended is 502 in the words that the SDKs look for', async () => {
		const box = await make({ timeout: 1 });
		assert.equal((await ask('GET', '/health', { headers: routed(box) })).status, 204);
		assert.equal((await ask('GET', '/health', { headers: routed(box, 49999) })).status, 200);
		await until('its end', async () => (await ask('GET', '/health', { headers: routed(box) })).status === 502);
		const r = await envd(box, 'process.Process/List', {});
		assert.deepEqual([r.status, r.json], [502, { sandboxId: box.id, message: 'The sandbox was not found', code: 502 }]);
		assert.equal((await control('DELETE', `/sandboxes/${box.id}`)).status, 404);
		assert.equal((await rest('GET', '/sandboxes')).sandboxes.some((s: Json) => s.id === box.id), false);
	});


	it('an idle sandbox lives on, and one that is deleted elsewhere is gone here', async () => {
		const box = await make();
		await fetch(`${base}/api/v1/sandboxes/${box.id}?force=true`, { method: 'DELETE', headers: { 'x-api-key': ADMIN } });
		assert.equal((await ask('GET', '/health', { headers: routed(box) })).status, 502);
		assert.equal((await control('GET', `/sandboxes/${box.id}`)).status, 404);
	});


	it('bodies that ask for what is not there are refused with its name', async () => {
		for (const [member, value] of Object.entries({ iam: { b: 1 }, volumeMounts: [{ name: 'v', path: '/v' }],
			network: { dnsServers: ['192.0.2.1'] }, timeout: -1, metadata: { a: 1 }, envVars: [], templateID: '' })) {
			const r = await control('POST', '/v2/sandboxes', { templateID: 'base', [member]: value });
			assert.deepEqual([r.status, r.json.code], [400, 400], `${member} ${r.text}`);
			assert.match(r.json.message, new RegExp(member === 'network' ? 'dnsServers' : member), r.text);
		}
		assert.equal((await control('POST', '/v2/sandboxes', { templateID: 'no-such' })).status, 404);
		const templates = await control('POST', '/v3/templates', { name: 'a' });
		assert.deepEqual([templates.status, templates.json.message], [400, 'this server does not offer POST /v3/templates; its operator can permit templates with SANDBOX_TEMPLATES=on']);
		for (const [at, body] of [['timeout', { timeout: 86401 }], ['timeout', { timeout: '5' }]] as const) {
			const box = await make();
			assert.equal((await control('POST', `/sandboxes/${box.id}/${at}`, body)).status, 400);
		}
		/* Unknown members are for servers that are newer. */
		const r = await control('POST', '/sandboxes', { templateID: 'code-interpreter-v1', secure: true, autoPause: false, autoPauseMemory: true, mcp: { a: {} }, somethingNew: {} });
		assert.equal(r.status, 201, r.text);
	});


	it('metrics of many tell of one\'s own alone; what is not offered is named', async () => {
		const a = await make(), b = await make(), theirs = await make({}, other);
		const r = await control('GET', `/sandboxes/metrics?sandbox_ids=${a.id},${theirs.id},i0123456789abcdefghi,,${'x'.repeat(100)},${b.id}`);
		assert.deepEqual([r.status, Object.keys(r.json.sandboxes).sort()], [200, [a.id, b.id].sort()]);
		assert(r.json.sandboxes[a.id].memTotal > 0);
		assert.deepEqual((await control('GET', '/sandboxes/metrics?sandbox_ids=')).json, { sandboxes: {} });
		assert.equal((await control('GET', '/sandboxes/metrics')).status, 400);
		for (const [method, at] of [['GET', `/sandboxes/${a.id}/logs`], ['GET', `/v2/sandboxes/${a.id}/logs`], ['GET', '/events/sandboxes'], ['POST', '/events/webhooks'], ['DELETE', '/templates/tags'], ['GET', '/templates/a/builds/b/status'], ['GET', '/volumes/a'], ['POST', '/secrets/a'],
			['PATCH', '/v2/templates/a'], ['PATCH', '/templates/a'], ['POST', '/templates'], ['POST', '/v2/templates'], ['POST', '/templates/a'], ['POST', '/templates/a/builds/b'], ['DELETE', '/events/webhooks/a'],
			['GET', '/volumecontent/a/dir?path=%2F'], ['PUT', '/volumecontent/a/file?path=%2Fx'], ['PATCH', '/volumecontent/a/path'], ['DELETE', '/volumecontent/a/path']] as const) {
			const refused = await control(method, at, ['POST', 'PUT', 'PATCH'].includes(method) ? {} : undefined);
			assert.equal(refused.status, 400, at);
			assert.match(refused.json.message, /^this server does not offer /);
		}
		for (const box of [a, b])
			await control('DELETE', `/sandboxes/${box.id}`);
	});


	it('the same idempotency key makes one sandbox for its user', async () => {
		const again = (key: string): Promise<Answer> => ask('POST', '/v2/sandboxes', { headers: { 'x-api-key': key, 'idempotency-key': 'abc-1' }, body: { templateID: 'base' } });
		const a = await again(hex(ADMIN)), b = await again(hex(ADMIN)), c = await again(other);
		assert.equal(a.json.sandboxID, b.json.sandboxID);
		assert.notEqual(a.json.sandboxID, c.json.sandboxID);
		const once = (): Promise<Answer> => ask('POST', '/v2/sandboxes', { headers: { 'x-api-key': hex(ADMIN), 'idempotency-key': 'at-once' }, body: { templateID: 'base' } });
		const all = await Promise.all([once(), once(), once(), once()]);
		assert.deepEqual(new Set(all.map((r) => r.json.sandboxID)).size, 1, JSON.stringify(all.map((r) => r.text)));
	});


	it('a wish for a closed network that cannot be read is refused', async () => {
		for (const body of [{ allow_internet_access: 'false' }, { allow_internet_access: 0 }, { network: [] }, { network: { denyOut: '0.0.0.0/0' } }, { network: { denyOut: ['0.0.0.0/0'], allowOut: {} } }]) {
			const r = await control('POST', '/v2/sandboxes', { templateID: 'base', ...body });
			assert.equal(r.status, 400, JSON.stringify(body));
		}
	});


	it('a sandbox may end while the long body of a request to it is read', async () => {
		const text = 'A'.repeat(200_000);
		for (let i = 0; i < 6; i++) {
			const box = await make();
			/* An answer that comes before the end of the body may be overtaken by the reset of the connection. */
			const asked = [
				...['process.Process/SendInput', 'process.Process/List', 'filesystem.Filesystem/Stat', 'filesystem.Filesystem/CreateWatcher'].map((m) => envd(box, m, { path: 'x', text })),
				code(box, { code: '1', text }),
			].map((one) => one.catch(() => undefined));
			await control('DELETE', `/sandboxes/${box.id}`);
			for (const r of await Promise.all(asked))
				assert(!r || [200, 400, 404, 499, 502].includes(r.status), `${r?.status} ${r?.text}`); // 499: it was under way
		}
		assert.equal((await control('GET', '/v2/sandboxes')).status, 200);
	});


	it('a process tells its number, what it writes, and its end', async () => {
		const box = await make({ envVars: { FROM: 'create' } });
		const all = await start(box, 'echo $FROM $USER $HOME; echo e >&2; pwd; exit 3');
		assert.deepEqual(Object.keys(all[0]!.message.event), ['start']);
		assert.deepEqual([said(all, 'stdout'), said(all, 'stderr')], ['create user /home/user\n/home/user\n', 'e\n']);
		assert.deepEqual(all.at(-2)!.message.event.end, { exitCode: 3, exited: true, status: 'exit status 3' });
		assert.deepEqual(all.at(-1), { last: true, message: {} });
		const late = await start(box, 'sleep 50', {}, { 'connect-timeout-ms': '300' });
		assert.equal(late.at(-1)!.message.error.code, 'deadline_exceeded');
	});


	it('frames that are none are refused, in a frame', async () => {
		const box = await make();
		for (const body of [Buffer.alloc(0), Buffer.from([0, 0, 0]), frame('{}', 1), frame('[]'), frame('{"process":'), Buffer.concat([frame('{}').subarray(0, 4), Buffer.from([200])]),
			Buffer.from([0, 255, 255, 255, 255, 123, 125]), frame('{"process":{"cmd":""}}'), frame('{"process":{"cmd":"a","args":[1]}}'), frame('{"process":{"cmd":"a","envs":{"A=B":"c"}}}'),
			frame('{"process":{"cmd":"true"},"pty":{"size":{"cols":0,"rows":5}}}'), frame(`{"process":{"cmd":"true","cwd":"/${'x'.repeat(5000)}"}}`)]) {
			const r = await ask('POST', '/process.Process/Start', { headers: { ...routed(box), 'content-type': 'application/connect+json' }, body });
			const all = frames(r.bytes);
			assert.deepEqual([r.status, all.length, all[0]!.last, all[0]!.message.error.code], [200, 1, true, 'invalid_argument'], body.toString());
		}
		const plain = await ask('POST', '/process.Process/Start', { headers: routed(box), body: { process: { cmd: 'true' } } });
		assert.equal(frames(plain.bytes)[0]!.message.error.code, 'invalid_argument');
		const huge = await ask('POST', '/process.Process/Start', { headers: { ...routed(box), 'content-type': 'application/connect+json' }, body: frame({ process: { cmd: 'x'.repeat(300_000) } }) });
		assert.equal(huge.status, 413);
	});


	it('a client that does not read holds up its process, and gets everything later', async () => {
		const box = await make(), bytes = 20_000_000;
		const req = http.request({ host: '127.0.0.1', port, method: 'POST', path: '/faces/e2b/process.Process/Start', headers: { ...routed(box), 'content-type': 'application/connect+json' } });
		req.end(frame({ process: { cmd: '/bin/bash', args: ['-l', '-c', `head -c ${bytes} /dev/zero; echo done > /tmp/done`] } }));
		const res = await new Promise<http.IncomingMessage>((done) => req.on('response', done));
		res.pause();
		for (let i = 0; i < 5; i++)
			assert.doesNotMatch(said(await start(box, 'sleep 0.2; ls /tmp'), 'stdout'), /done/);
		const pieces: Buffer[] = [];
		for await (const piece of res)
			pieces.push(piece as Buffer);
		const all = frames(Buffer.concat(pieces));
		assert.equal(said(all, 'stdout').length, bytes);
		assert.equal(all.at(-1)!.message.error, undefined);
	});


	it('a process goes on without its client, and another one follows it', async () => {
		const box = await make();
		const req = http.request({ host: '127.0.0.1', port, method: 'POST', path: '/faces/e2b/process.Process/Start', headers: { ...routed(box), 'content-type': 'application/connect+json' } });
		req.on('error', () => undefined);
		req.end(frame({ process: { cmd: '/bin/bash', args: ['-l', '-c', 'read line; echo got $line'] }, stdin: true, tag: 'reader' }));
		await new Promise<void>((done) => req.on('response', (res) => res.once('data', () => done())));
		req.destroy();
		const listed = (await envd(box, 'process.Process/List', {})).json.processes;
		assert.deepEqual(listed.map((p: Json) => [p.config.args[2], p.tag]), [['read line; echo got $line', 'reader']]);
		const followed = ask('POST', '/process.Process/Connect', { headers: { ...routed(box), 'content-type': 'application/connect+json' }, body: frame({ process: { tag: 'reader' } }) });
		assert.equal((await envd(box, 'process.Process/SendInput', { process: { pid: listed[0].pid }, input: { stdin: Buffer.from('it\n').toString('base64') } })).status, 200);
		assert.equal(said(frames((await followed).bytes), 'stdout'), 'got it\n');
		const gone = await envd(box, 'process.Process/SendSignal', { process: { pid: 4711 }, signal: 'SIGNAL_SIGKILL' });
		assert.deepEqual([gone.status, gone.json.code], [404, 'not_found']);
		assert.equal((await envd(box, 'process.Process/SendInput', { process: { pid: listed[0].pid }, input: { stdin: 'YQ==' } })).status, 404);
	});


	it('streams are cut when their sandbox is killed', async () => {
		const box = await make();
		const req = http.request({ host: '127.0.0.1', port, method: 'POST', path: '/faces/e2b/process.Process/Start', headers: { ...routed(box), 'content-type': 'application/connect+json' } });
		req.end(frame({ process: { cmd: 'sleep', args: ['60'] } }));
		const res = await new Promise<http.IncomingMessage>((done) => req.on('response', done));
		const ended = new Promise<string>((done) => {
			res.on('error', () => done('cut'));
			res.on('end', () => done('end'));
			res.resume();
		});
		assert.equal((await control('DELETE', `/sandboxes/${box.id}`)).status, 204);
		assert.equal(await ended, 'cut');
	});


	it('what is paused rests, is out of reach, and goes on', async () => {
		const box = await make(), pause = (body?: Json): Promise<Answer> => control('POST', `/sandboxes/${box.id}/pause`, body);
		const running = start(box, 'trap "" TERM; (setsid sh -c "while :; do echo >> /tmp/far; sleep 0.01; done" &); for i in 1 2 3; do while :; do (:); done & done; while :; do echo >> /tmp/near; sleep 0.01; done', {}, { 'connect-timeout-ms': '60000' }).catch(() => 'cut');
		const cell = code(box, { code: 'import time; time.sleep(60)' }).catch(() => 'cut');
		const sizes = async (): Promise<string> => {
			const r = await ask('POST', '/process.Process/Start', { headers: { ...routed(box), 'content-type': 'application/connect+json' }, body: frame({ process: { cmd: 'wc', args: ['-c', '/tmp/far', '/tmp/near'] } }) });
			return said(frames(r.bytes), 'stdout');
		};
		await until('both write', async () => !(await sizes()).includes('No such'));
		assert.equal((await pause()).status, 204);
		assert.deepEqual([await running, await cell], ['cut', 'cut']);
		assert.equal((await pause()).status, 409);
		for (const r of [await envd(box, 'process.Process/List', {}), await ask('GET', '/health', { headers: routed(box) }), await code(box, { code: '1' })])
			assert.equal(r.status, 502, r.text);
		assert.deepEqual((await control('GET', '/v2/sandboxes?state=paused')).json.map((s: Json) => s.sandboxID), [box.id]);
		assert.equal((await control('GET', '/v2/sandboxes?state=running')).json.some((s: Json) => s.sandboxID === box.id), false);
		/* While nothing of it executes, its CPU time stays. */
		let last: number[] = [];
		await until('rest', async () => {
			last = [...last.slice(-9), (await rest('GET', `/sandboxes/${box.id}/usage`)).cpu_ms];
			return last.length === 10 && last.every((ms) => ms === last[0]);
		});
		assert.equal((await control('POST', `/v2/sandboxes/${box.id}/connect`, { timeout: 60 })).status, 201);
		const before = await sizes();
		await until('they go on', async () => (await sizes()) !== before);
		assert.equal((await control('POST', `/sandboxes/${box.id}/resume`, { timeout: 60 })).status, 409);
		/* Files alone: what it had started is gone, and its client can tell. */
		const boot = async (of: Box): Promise<string> => (await ask('GET', '/files?path=/proc/sys/kernel/random/boot_id', { headers: routed(of) })).text;
		const first = await boot(box), other = await make({ autoPause: true, autoPauseMemory: false });
		assert.match(first, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\n$/);
		assert.notEqual(await boot(other), first);
		assert.equal((await pause()).status, 204);
		assert.equal((await control('POST', `/sandboxes/${box.id}/resume`, { timeout: 60 })).status, 201);
		assert.equal(await boot(box), first);
		assert.equal((await pause({ memory: false })).status, 204);
		assert.equal((await control('POST', `/sandboxes/${box.id}/resume`, { timeout: 60 })).status, 201);
		await until('no process', async () => (await envd(box, 'process.Process/List', {})).json.processes.length === 0);
		const second = await boot(box);
		assert.notEqual(second, first);
		/* Or because its client wants no more when it comes back. */
		const sleeps = start(box, 'sleep 100').catch(() => 'cut');
		await until('a process', async () => (await envd(box, 'process.Process/List', {})).json.processes.length === 1);
		assert.equal((await pause()).status, 204);
		assert.equal(await sleeps, 'cut');
		assert.equal((await control('POST', `/v2/sandboxes/${box.id}/connect`, { timeout: 60, memory: false })).status, 201);
		await until('no process', async () => (await envd(box, 'process.Process/List', {})).json.processes.length === 0);
		assert.notEqual(await boot(box), second);
		/* The end of its time keeps as much as was chosen. */
		const gone = start(other, 'sleep 100').catch(() => 'cut'), before_end = await boot(other);
		await until('its process', async () => (await envd(other, 'process.Process/List', {})).json.processes.length === 1);
		assert.equal((await control('POST', `/sandboxes/${other.id}/timeout`, { timeout: 0 })).status, 204);
		await until('the pause', async () => (await control('GET', `/sandboxes/${other.id}`)).json.state === 'paused');
		assert.equal(await gone, 'cut');
		assert.equal((await control('POST', `/v2/sandboxes/${other.id}/connect`, { timeout: 60 })).status, 201);
		await until('no process of it', async () => (await envd(other, 'process.Process/List', {})).json.processes.length === 0);
		assert.notEqual(await boot(other), before_end);
	});


	it('snapshots and forks belong to their user, and end', async () => {
		const box = await make();
		await start(box, 'echo one > f');
		const made = await control('POST', `/sandboxes/${box.id}/snapshots`, { name: 'mine' });
		assert.deepEqual([made.status, made.json], [201, { snapshotID: 'mine:default', names: ['mine:default'] }]);
		assert.equal((await control('POST', '/v2/sandboxes', { templateID: 'mine' }, other)).status, 404);
		assert.deepEqual((await control('GET', '/snapshots', undefined, other)).json, []);
		for (const [name, n] of [['mine', 1], ['mine:default', 1], ['min', 0], ['mine:x', 0], ['', 0]] as const)
			assert.equal((await control('GET', `/snapshots?name=${name}`)).json.length, n, name);
		assert.equal((await control('DELETE', '/templates/mine', undefined, other)).status, 404);
		const copy = await make({ templateID: 'mine' });
		assert.equal(said(await start(copy, 'cat f'), 'stdout'), 'one\n');
		assert.equal((await control('POST', '/v2/sandboxes', { templateID: 'mine', allow_internet_access: false })).json.alias, 'mine');
		const forks = await control('POST', `/sandboxes/${box.id}/fork`, { count: 2, timeout: 30 });
		assert.deepEqual([forks.status, forks.json.length, forks.json.every((f: Json) => f.sandbox?.sandboxID)], [201, 2, true]);
		/* Many clients at once make sandboxes of one snapshot, and fork the one that it is of. */
		const at_once = await Promise.all([...Array(4)].flatMap(() => [control('POST', '/v2/sandboxes', { templateID: 'mine', timeout: 60 }), control('POST', `/sandboxes/${box.id}/fork`, {})]));
		const ids: string[] = at_once.map((r) => (Array.isArray(r.json) ? r.json[0].sandbox : r.json)?.sandboxID);
		assert.deepEqual([at_once.map((r) => r.status), new Set(ids).size, ids.every(Boolean)], [Array(8).fill(201), 8, true], at_once.map((r) => r.text).join('\n'));
		for (const id of ids)
			await control('DELETE', `/sandboxes/${id}`);
		for (const body of [{ count: 0 }, { count: 21 }, { timeout: -1 }])
			assert.equal((await control('POST', `/sandboxes/${box.id}/fork`, body)).status, 400);
		for (const name of ['', 'A', 'a:b', 'x'.repeat(129)])
			assert.equal((await control('POST', `/sandboxes/${box.id}/snapshots`, { name })).status, 400, name);
		assert.equal((await control('DELETE', '/templates/mine')).status, 204);
		assert.equal((await control('POST', '/v2/sandboxes', { templateID: 'mine' })).status, 404);
	});


	it('input that waits for a process is dropped when its client leaves', async () => {
		const box = await make(), size = 150_000, times = 12;
		void start(box, 'until [ -e go ]; do sleep 0.05; done; wc -c > counted; mv counted n', { stdin: true }).catch(() => undefined);
		await until('the process', async () => (await envd(box, 'process.Process/List', {})).json.processes.length === 1);
		const pid = (await envd(box, 'process.Process/List', {})).json.processes[0].pid;
		const body = JSON.stringify({ process: { pid }, input: { stdin: Buffer.alloc(size, 'a').toString('base64') } });
		for (let i = 0; i < times; i++) {
			const req = http.request({ host: '127.0.0.1', port, method: 'POST', path: '/faces/e2b/process.Process/SendInput',
				headers: { ...routed(box), 'content-type': 'application/json', 'content-length': `${body.length}` } });
			const ended = new Promise<void>((done) => req.on('close', () => done()));
			req.on('error', () => undefined);
			req.end(body);
			/* Nobody says when input waits. After other requests it does, as a rule. */
			for (let k = 0; k < 20; k++)
				await envd(box, 'process.Process/List', {});
			req.destroy();
			await ended;
		}
		assert.equal((await ask('POST', '/files?path=go', { headers: { ...routed(box), 'content-type': 'multipart/form-data; boundary=b' }, body: Buffer.from('--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n\r\n--b--\r\n') })).status, 200);
		assert.equal((await ask('POST', '/process.Process/SendInput', { headers: { ...routed(box), 'content-type': 'application/json' }, body })).status, 200); // behind all others
		await envd(box, 'process.Process/CloseStdin', { process: { pid } });
		let n = '';
		await until('the count', async () => {
			const r = await ask('GET', '/files?path=n', { headers: routed(box) });
			n = r.status === 200 ? r.text : '';
			return n !== '';
		});
		assert(Number(n) >= size && Number(n) <= 2 * size, n);
	});


	it('a user that is not offered is refused', async () => {
		const box = await make();
		const as = (name: string): string => `Basic ${Buffer.from(`${name}:`).toString('base64')}`;
		assert.equal(said(await start(box, 'id -u', {}, { authorization: as('user') }), 'stdout'), '1000\n');
		assert.match((await start(box, 'id -u', {}, { authorization: as('root') }))[0]!.message.error.message, /root/);
		assert.equal((await start(box, 'id -u', {}, { authorization: as('nobody') }))[0]!.message.error.code, 'unauthenticated');
		assert.equal((await ask('GET', '/files?path=/etc/passwd&username=root', { headers: routed(box) })).status, 400);
		assert.equal((await ask('GET', '/files?path=/etc/passwd&username=other', { headers: routed(box) })).status, 401);
		assert.equal((await envd(box, 'filesystem.Filesystem/Stat', { path: '/' }, { ...routed(box), authorization: as('root') })).status, 400);
	});


	it('a cell tells its output, its value and its error in lines of ASCII', async () => {
		const box = await make();
		const r = await code(box, { code: 'import sys\nprint("é\\u2028\\x85")\nprint("e", file=sys.stderr)\n6 * 7' });
		assert.equal(r.status, 200, r.text);
		assert.match(r.text, /^[\x20-\x7e\n]*$/);
		/* Two pipes: nobody knows which of their bytes came first. */
		const rank = ['number_of_executions', 'stdout', 'stderr'], place = (l: Json): number => (rank.indexOf(l.type) + 1 || 9);
		const all = lines(r).filter((l) => l.type !== 'keepalive').sort((a, b) => place(a) - place(b));
		assert.deepEqual(all.map((l) => l.type), ['number_of_executions', 'stdout', 'stderr', 'result', 'end_of_execution']);
		assert.deepEqual([all[0]!.execution_count, all[1]!.text, all[3]!.text, all[3]!.is_main_result], [1, 'é\u2028\x85\n', '42', true]);
		const failed = lines(await code(box, { code: '[][1]' })).find((l) => l.type === 'error')!;
		assert.deepEqual([failed.name, failed.value], ['IndexError', 'list index out of range']);
		assert.match(failed.traceback, /IndexError/);
		for (const body of [{}, { code: 1 }, { code: '1', language: 'cobol' }, { code: '1', language: 'python', context_id: 'default' }, { code: '1', env_vars: { 'A=B': 'c' } }])
			assert.equal((await code(box, body)).status, 400, JSON.stringify(body));
		assert.equal((await code(box, { code: '1', context_id: 'nope' })).status, 404);
		/* Without a token, contexts are closed as well. */
		assert.equal((await ask('GET', '/contexts', { headers: { 'e2b-sandbox-id': box.id, 'e2b-sandbox-port': '49999' } })).status, 401);
		const traffic = { 'e2b-sandbox-id': box.id, 'e2b-sandbox-port': '49999', 'e2b-traffic-access-token': box.traffic };
		assert.deepEqual((await ask('GET', '/contexts', { headers: traffic })).json.map((c: Json) => c.language), ['python', 'javascript']);
	});


	it('inside, the port of the code interpreter answers /health and nothing else, whoever bothers it', async () => {
		const box = await make();
		const ask = `import http.client, socket
def ask(path, method='GET'):
	c = http.client.HTTPConnection('127.0.0.1', 49999, timeout=20)
	c.request(method, path)
	r = c.getresponse()
	return r.status, r.read().decode()
`;
		const told = await lines(await code(box, { code: `${ask}print(ask('/health'), ask('/execute', 'POST')[0], ask('/healthy')[0])` }));
		assert.equal(told.filter((l) => l.type === 'stdout').map((l) => l.text).join(''), `(200, '"OK"') 404 404\n`);
		/* Many that say nothing, or one letter, hold up neither the others nor the sandbox. */
		const bothered = await lines(await code(box, { code: `silent = [socket.socket() for _ in range(60)]
for s in silent:
	s.setblocking(False)
	s.connect_ex(('127.0.0.1', 49999))
import contextlib
for i, s in enumerate(silent):
	with contextlib.suppress(OSError):
		i % 2 and s.send(b'G')
	s.close()
print(ask('/health')[0])` }));
		assert.equal(bothered.filter((l) => l.type === 'stdout').map((l) => l.text).join(''), '200\n', JSON.stringify(bothered));
		/* It is no server of the user, and other sandboxes have the port to themselves. */
		assert.deepEqual((await rest('GET', `/sandboxes/${box.id}/ports`)).ports, []);
		const plain = await rest('POST', '/sandboxes', {});
		const r = await rest('POST', `/sandboxes/${plain.id}/runs`, { wait: true, code: "import socket; s = socket.socket(); s.bind(('127.0.0.1', 49999)); print('free')" });
		assert.equal(r.stdout, 'free\n', JSON.stringify(r));
	});

	it('cells of JavaScript and TypeScript', async () => {
		const box = await make();
		const traffic = { 'e2b-sandbox-id': box.id, 'e2b-sandbox-port': '49999', 'e2b-traffic-access-token': box.traffic, 'content-type': 'application/json' };
		const types = async (body: Json): Promise<Json[]> => lines(await code(box, body)).filter((l) => !['number_of_executions', 'end_of_execution', 'keepalive'].includes(l.type));
		assert.deepEqual((await types({ code: 'const a = 20; console.log("o"); a + 1', language: 'js' })).map((l) => [l.type, l.text, l.is_main_result]), [['stdout', 'o\n', undefined], ['result', '21', true]]);
		assert.equal((await types({ code: 'const b: number = a * 2; b', language: 'typescript' }))[0]!.text, '40');
		assert.equal((await types({ code: '"a" in dir()' }))[0]!.text, 'False');
		const [failed] = await types({ code: 'null.x', language: 'javascript' });
		assert.deepEqual([failed!.type, failed!.name], ['error', 'TypeError']);
		assert.match(failed!.traceback, /<cell 3>:1\nnull\.x/);
		assert.equal((await types({ code: 'process.env.OF_THIS', language: 'js', env_vars: { OF_THIS: 'x' } }))[0]!.text, 'x');
		assert.deepEqual(await types({ code: 'process.env.OF_THIS', language: 'js' }), []);
		assert.equal((await types({ code: '({ toHtml: () => "<b>" })', language: 'js' }))[0]!.html, '<b>');
		const context = (await ask('POST', '/contexts', { headers: traffic, body: JSON.stringify({ language: 'ts', cwd: '/tmp' }) })).json;
		assert.deepEqual([context.language, context.cwd], ['typescript', '/tmp']);
		assert.equal((await types({ code: 'const where: string = process.cwd(); where + typeof a', context_id: context.id }))[0]!.text, '/tmpundefined');
		assert.equal((await ask('POST', `/contexts/${context.id}/restart`, { headers: traffic })).status, 200);
		assert.equal((await types({ code: 'typeof where', context_id: context.id }))[0]!.text, 'undefined');
		assert.equal((await types({ code: 'a', context_id: 'javascript' }))[0]!.text, '20');
		assert.equal((await ask('POST', '/contexts', { headers: traffic, body: '{"language":"r"}' })).status, 400);
		assert.equal((await ask('DELETE', '/contexts/javascript', { headers: traffic })).status, 400);
		assert.equal((await ask('DELETE', `/contexts/${context.id}`, { headers: traffic })).status, 204);
	});

	it('cells of a forger are cells: what they write as records is shown at most', async () => {
		const box = await make();
		const forged = lines(await code(box, { code: [
			'import json', 'from IPython.display import display',
			'display({"application/vnd.caisson.error+json": {"type": "end_of_execution", "name": 5}}, raw=True)',
			'print(json.dumps({"type": "end_of_execution"}))', '"end"'].join('\n') }));
		assert.equal(forged.filter((l) => l.type === 'end_of_execution').length, 1);
		assert.equal(forged.at(-1)!.type, 'end_of_execution');
		assert.equal(forged.findLast((l) => l.type === 'result')!.text, 'end');
		assert(!forged.some((l) => l.type === 'error'));
		const shown = lines(await code(box, { code: ['def show(kind, text):', '    display({kind: text}, raw=True)',
			'show("application/vnd.caisson.table+json", json.dumps({"columns": [{"name": str(i)} for i in range(3000)], "rows": [[]] * 3000}))',
			'show("application/json", "[" * 10000 + "]" * 10000)', 'show("application/json", "[1e999]")', 'show("application/json", "[" + "0," * 300000 + "0]")'].join('\n') }))
			.filter((l) => l.type === 'result');
		assert.deepEqual(shown.map((l) => l.data ?? typeof l.json), [{}, 'string', 'string', 'string']);
	});


	it('half a character at the end of what a cell prints is told', async () => {
		const all = lines(await code(await make(), { code: 'import os\nn = os.write(1, b"abc\\xe2\\x82")' }));
		assert.equal(all.filter((l) => l.type === 'stdout').map((l) => l.text).join(''), 'abc\ufffd');
	});


	it('a cell whose client leaves without reading is interrupted, and what it did stays', async () => {
		const box = await make();
		await code(box, { code: 'import os\nkept = 7' });
		const body = JSON.stringify({ code: 'kept = 8\ntry:\n    for n in range(1 << 30):\n        with open("m", "w") as f:\n            k = f.write(str(n))\n        os.replace("m", "n")\n        print("x" * 65536)\nfinally:\n    print("x" * 1000000)' });
		const req = http.request({ host: '127.0.0.1', port, method: 'POST', path: '/faces/e2b/execute', headers: { ...routed(box, 49999), 'content-type': 'application/json', 'content-length': `${body.length}` } });
		req.on('error', () => undefined);
		req.on('response', (res) => {
			res.on('error', () => undefined);
			res.pause();
		});
		req.end(body);
		const count = async (): Promise<number> => Number((await ask('GET', '/files?path=n', { headers: routed(box) })).text);
		let last = -1, same = 0;
		await until('the cell waits', async () => {
			const now = await count();
			same = now === last ? same + 1 : 0;
			last = now;
			return last > 20 && same > 50;
		});
		req.destroy();
		assert.equal(lines(await code(box, { code: 'kept' })).findLast((l) => l.type === 'result')?.text, '8');
	});


	it('a name leads to the same as headers do, and must agree with them', async () => {
		const box = await make(), two = await make();
		const named = (host: string, headers: Record<string, string> = {}): Promise<Answer> =>
			ask('POST', '/process.Process/List', { headers: { host: `${host}.localhost:${port}`, 'x-access-token': box.token, ...headers }, body: {}, prefix: '' });
		assert.equal((await named(`49983-${box.id}`)).status, 200);
		assert.equal((await named(`49983-${box.id.toUpperCase()}`)).status, 200);
		assert.equal((await named(`49983-${box.id}`, routed(box))).status, 200);
		assert.equal((await named(`49983-${two.id}`)).status, 401);
		assert.equal((await named(`49983-${two.id}`, { 'e2b-sandbox-id': box.id })).status, 502);
		assert.equal((await named('49983-nope')).status, 502);
		assert.equal((await named(`49983-${'n'.repeat(50)}`)).status, 502);
		/* A dot at the end is the same name. */
		const dotted = (of: Box): Promise<Answer> => ask('POST', '/process.Process/List', { headers: { host: `49983-${of.id}.localhost.:${port}`, 'x-access-token': box.token }, body: {}, prefix: '' });
		assert.deepEqual([(await dotted(box)).status, (await dotted(two)).status], [200, 401]);
		/* SDKs of 2025 name no sandbox: its token does. */
		assert.equal((await ask('POST', '/process.Process/List', { headers: { 'x-access-token': two.token }, body: {} })).status, 200);
		assert.equal((await ask('POST', '/process.Process/List', { headers: { 'x-access-token': two.traffic }, body: {} })).status, 502);
		const r = await ask('GET', '/v2/sandboxes', { headers: { host: `api.localhost:${port}`, 'x-api-key': ADMIN }, prefix: '' });
		assert.equal(r.status, 200);
		for (const service of [49983, 49999]) // pages of a sandbox have no origin of the control plane
			assert.equal((await ask('GET', '/v2/sandboxes', { headers: { host: `${service}-${box.id}.localhost:${port}`, 'x-api-key': ADMIN }, prefix: '' })).status, 404);
		assert.equal((await ask('GET', '/api/v1/sandboxes', { headers: { host: `api.localhost:${port}`, 'x-api-key': ADMIN }, prefix: '' })).status, 404);
	});


	it('a sandbox counts for its user, and budgets end with it', async () => {
		const used = async (): Promise<number> => (await rest('GET', '/stats')).budgets?.followers?.used ?? 0;
		const box = await make();
		await Promise.all(Array.from({ length: 8 }, () => start(box, 'true')));
		await until('no follower is left', async () => (await used()) === 0);
	});
});
