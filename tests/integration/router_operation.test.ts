// SPDX-License-Identifier: Apache-2.0
// How a router of a fleet is operated: credentials that end, new certificates, what doctor says. Its workers only look like ones.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import type * as http from 'node:http';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { newStateDir, scratch } from '../lib/env.ts';
import { Authority, FakeWorker, idsOf, routerUid, underRouter } from '../lib/fake-workers.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const dir = scratch('router-operation'), list = path.join(dir, 'workers'), keyFile = path.join(dir, 'fleet.key');
const KEY = 'k'.repeat(40);
const owned = (...files: string[]): void => files.forEach((f) => fs.chownSync(f, routerUid, routerUid));

describe('the operation of a router', () => {
	let program: Program, base: string, one: FakeWorker, two: FakeWorker;
	let routerFiles: { cert: string; key: string }, workerFiles: { cert: string; key: string }, authority: Authority, env: Record<string, string>;

	const call = (method: string, where: string, o: { body?: Json } = {}): Promise<Response> => fetch(base + where, {
		method, headers: { 'x-api-key': KEY, ...(o.body ? { 'content-type': 'application/json' } : {}) }, ...(o.body ? { body: JSON.stringify(o.body) } : {}),
	});
	const json = async (r: Response): Promise<Json> => await r.json() as Json;
	const make = async (): Promise<Json> => {
		const r = await call('POST', '/api/v1/sandboxes', { body: {} });
		assert.equal(r.status, 201, await r.clone().text());
		return json(r);
	};
	const workerOf = (made: Json): FakeWorker => made.worker === one.id ? one : two;
	const usable = (n: number): Promise<unknown> => until(`${n} workers are ready`, async () => (await (await fetch(`${base}/readyz`)).text()).includes(`: ${n} of`), 8_000);

	before(async () => {
		fs.chmodSync(path.dirname(dir), 0o711); // the router is another user than the tests
		authority = new Authority(dir);
		routerFiles = authority.certificate('router');
		workerFiles = authority.certificate('worker');
		fs.writeFileSync(keyFile, randomBytes(32));
		one = await new FakeWorker('ab3', workerFiles, authority.ca, idsOf(keyFile, 'ab3', 20)).listen();
		two = await new FakeWorker('zz9', workerFiles, authority.ca, idsOf(keyFile, 'zz9', 20)).listen();
		fs.writeFileSync(list, `${one.at}\n${two.at}\n`);
		const state = newStateDir();
		owned(keyFile, list, routerFiles.cert, routerFiles.key, workerFiles.cert, workerFiles.key, authority.ca, dir, state);
		env = {
			SANDBOX_STATE_DIR: state, SANDBOX_ROLE: 'router', SANDBOX_FLEET_WORKERS: list, SANDBOX_FLEET_KEY: keyFile, SANDBOX_FLEET_CA: authority.ca,
			SANDBOX_FLEET_CERTIFICATE: routerFiles.cert, SANDBOX_FLEET_CERTIFICATE_KEY: routerFiles.key, SANDBOX_API_KEY: KEY,
		};
		({ program, base } = await serve({ profile: 'full', env, under: underRouter }));
		await usable(2);
	});
	after(async () => {
		one?.close();
		two?.close();
		program?.kill('SIGTERM');
		assert.equal((await program?.exit).code, 0, program?.stderr);
	});

	it('tells workers which credentials of what is open there have ended, also those that were away', async () => {
		const page = { 'origin': base, 'sec-fetch-site': 'same-origin', 'x-caisson-page': '1' }, password = 'correct horse battery';
		const user = await json(await call('POST', '/api/v1/users', { body: { name: 'ivy', password } })), owner = user.id as string;
		const signIn = async (): Promise<string> => {
			const r = await fetch(`${base}/api/v1/session`, { method: 'POST', headers: { ...page, 'content-type': 'application/json' }, body: JSON.stringify({ username: 'ivy', password }) });
			assert.equal(r.status, 200, await r.text());
			return r.headers.getSetCookie().find((c) => c.startsWith('caisson-') && !c.startsWith('caisson-device'))!.split(';')[0]!;
		};
		const login = await json(await fetch(`${base}/api/token`, { method: 'POST', body: new URLSearchParams({ username: 'ivy', password }) }));
		const keys: Json[] = [];
		for (const name of ['a', 'b', 'c'])
			keys.push(await json(await call('POST', `/api/v1/keys?owner=${owner}`, { body: { name } })));
		const cookies = [await signIn(), await signIn()];
		/* What a worker would tell of these: the caller of a request, without name, times and limits. */
		const heard = async (headers: Record<string, string>): Promise<Json> => {
			const before = [one.heard.length, two.heard.length];
			assert.equal((await fetch(`${base}/api/v1/sandboxes`, { headers })).status, 200);
			const { admin, read_only, profile, key_id, signin, version, how, ...rest } = [...one.heard.slice(before[0]), ...two.heard.slice(before[1])].at(-1)!.caller!;
			assert.equal(rest.owner, owner);
			return { owner, admin, read_only, profile, key_id, signin, version, how };
		};
		const by = (i: number): Promise<Json> => heard({ 'x-api-key': keys[i]!.key as string });
		const a = await by(0), b = await by(1), c = await by(2);
		const [first, second] = [await heard({ ...page, cookie: cookies[0]! }), await heard({ ...page, cookie: cookies[1]! })];
		const token = await heard({ authorization: `Bearer ${login.access_token as string}` });
		assert.deepEqual([a.key_id, first.how, token.how, first.signin === second.signin, (token.version as string).length], [keys[0]!.id, 'signin', 'token', false, 16]);
		/* Not known here, so maybe of a router with another database. */
		const foreign = { ...a, owner: 'ffffffff-0000-4000-8000-000000000000' };
		one.open = [foreign, a, b, first, second, token];
		two.open = [c, a];
		const told = (w: FakeWorker): Json[] => w.ended.flatMap((e) => e.credentials), has = (w: FakeWorker, x: Json): boolean => told(w).some((y) => JSON.stringify(Object.entries(y).sort()) === JSON.stringify(Object.entries(x).sort()));
		const soon = async (what: string, w: FakeWorker, x: Json): Promise<void> => {
			await until(what, () => has(w, x), 5_000); // it takes a second, where nothing else loads the machine
			w.open = w.open.filter((y) => y !== x);
		};
		assert.equal((await call('DELETE', `/api/v1/keys/${keys[0]!.id}?owner=${owner}`)).status, 204);
		await soon('a key that was revoked', one, a);
		await soon('and at the other worker', two, a);
		assert.equal((await fetch(`${base}/api/v1/session`, { method: 'DELETE', headers: { ...page, cookie: cookies[0]! } })).status < 300, true);
		await soon('a sign-in that ended', one, first);
		/* By another process, with the same database. */
		assert.equal((await caisson(['key', 'revoke', keys[1]!.id as string], { env: { SANDBOX_STATE_DIR: env.SANDBOX_STATE_DIR! } })).code, 0);
		await soon('a key that the command line revoked', one, b);
		assert.deepEqual([told(one).length, told(two).length, one.ended.flatMap((e) => e.owners)], [3, 1, []], 'and nothing else');
		two.down();
		assert.equal((await call('PATCH', `/api/v1/users/${owner}`, { body: { password: `${password}!` } })).status, 200);
		await soon('another sign-in, by a new password', one, second);
		await soon('and a token', one, token);
		assert.equal((await call('PATCH', `/api/v1/users/${owner}`, { body: { active: false } })).status, 200);
		await until('a user who is not active', () => one.ended.some((e) => e.owners.includes(owner)), 5_000);
		assert.equal(has(two, c), false);
		two.up();
		await until('the worker that was away has heard of the user', () => two.ended.some((e) => e.owners.includes(owner)), 8_000);
		await soon('and of the key', two, c);
		assert.equal(has(one, foreign), false);
		/* By another process, of which the router hears nothing else; and behind many that hold. */
		const joe = await json(await call('POST', '/api/v1/users', { body: { name: 'joe', password } })), key = await json(await call('POST', `/api/v1/keys?owner=${joe.id}`, { body: { name: 'd' } }));
		const d = { ...c, owner: joe.id, key_id: key.id };
		one.open = [...Array.from({ length: 140 }, (_, i) => ({ ...foreign, key_id: `ffffffff-0000-4000-8000-${String(i).padStart(12, '0')}` })), d];
		assert.equal((await caisson(['user', 'rm', 'joe'], { env: { SANDBOX_STATE_DIR: env.SANDBOX_STATE_DIR! } })).code, 0);
		await until('a key of a user whom the command line removed', () => has(one, d), 8_000);
		await until('and that user', () => one.ended.some((e) => e.owners.includes(joe.id as string)), 5_000);
		assert.equal(told(one).some((x) => x.owner === foreign.owner), false);
		one.open = [];
		two.open = [];
		await usable(2);
	});

	it('tells each worker what its user has at the others, and believes none of them too much', async () => {
		const id = (await json(await call('POST', '/api/v1/users', { body: { name: 'uses', password: 'correct horse battery' } }))).id as string;
		const { key } = await json(await call('POST', `/api/v1/keys?owner=${id}`, { body: { name: 'k' } }));
		const ask = (body: string): Promise<Response> => fetch(`${base}/api/v1/sandboxes`, { method: 'POST', headers: { 'x-api-key': key as string, 'content-type': 'application/json' }, body });
		const version = (n: number): string => n.toString(16).padStart(16, '0');
		/* What W hears that the user has elsewhere. */
		const hears = async (w: FakeWorker): Promise<number | undefined> => {
			await (await fetch(`${base}/api/v1/sandboxes/${w.ids[0]}`, { headers: { 'x-api-key': key as string } })).text();
			return (w.heard.at(-1)!.caller!.elsewhere as Json | undefined)?.sandboxes as number | undefined;
		};
		one.handler = two.handler = (_, res) => one.say(res, 400, { status: 400, code: 'bad_request', detail: 'not now' });
		assert.equal(await hears(one), undefined, 'a worker that does not count would not know the member');
		one.uses = { version: version(0), rows: [] };
		two.uses = { version: version(2), rows: [[id, 5, 50, 0, 0, 0, 0], ['', 1, 0, 0, 0, 0, 0]] };
		await until('one hears it', async () => await hears(one) === 5, 5_000);
		assert.equal(await hears(two), 0, 'its own are not elsewhere');
		const asked = two.usesAsked;
		two.uses.version = version(3);
		two.uses.rows = [[id, 2, 20, 0, 0, 0, 0]];
		await until('one hears the change', async () => await hears(one) === 2, 5_000);
		assert.equal(two.usesAsked, asked + 1, 'it is asked when something has changed, and not else');
		two.handler = (_, res) => two.say(res, 204, undefined);
		assert.equal((await fetch(`${base}/api/v1/sandboxes/${two.ids[0]}`, { method: 'DELETE', headers: { 'x-api-key': key as string } })).status, 204);
		await until('it is asked at once when a sandbox was deleted, before its state says that anything has changed', () => two.usesAsked === asked + 2, 5_000);
		two.handler = one.handler;
		two.uses = { version: version(4), forgotten: version(4), rows: [] };
		await until('of a user whom it has dropped nothing is left', async () => await hears(one) === 0, 5_000);
		two.uses = { version: version(5), forgotten: version(4), rows: [[id, 2, 20, 0, 0, 0, 0]] };
		await until('and the next change counts', async () => await hears(one) === 2, 5_000);
		const wrong: [string, Json | undefined, unknown[], boolean][] = [
			['no list', { v: 1, version: version(9), more: false, uses: {} }, [], false],
			['too many in one answer', undefined, Array.from({ length: 257 }, () => [id, 9, 0, 0, 0, 0, 0]), false],
			['a name', undefined, [['uses', 9, 0, 0, 0, 0, 0]], false],
			['no end', undefined, [[id, 2, 20, 0, 0, 0, 0]], true],
		];
		for (const [i, [what, raw, rows, more]] of wrong.entries()) {
			const before = two.usesAsked;
			two.uses = { version: version(16 + i), rows, more, ...(raw ? { raw } : {}) };
			await until(what, () => two.usesAsked > before, 5_000);
			two.uses = { version: version(32 + i), rows: [[id, 2, 20, 0, 0, 0, 0]] };
			await until(`${what}: it goes on`, async () => await hears(one) === 2, 5_000);
		}
		one.sandboxes.clear();
		two.sandboxes.clear();
		await until('both are empty, so that both get some', async () => ((await json(await call('GET', '/api/v1/fleet'))).workers as Json[]).every((w) => w.sandboxes === 0), 5_000);
		/* Those that are made at once: the first gets what is left, and the next ones hear of it before the worker has counted it. */
		const waiting: (() => void)[] = [];
		for (const w of [one, two])
			w.handler = (req, res) => req.method === 'GET' ? w.say(res, 400, { status: 400, code: 'bad_request', detail: 'not now' }) : void waiting.push(() => w.say(res, 201, { id: w.ids[0]!, worker: w.id }));
		const heard = [one.heard.length, two.heard.length], answers = Array.from({ length: 6 }, () => ask('{"kind":"\\u0073tored"}'));
		await until('all are there', () => waiting.length === 6, 5_000);
		const there = (w: FakeWorker, i: number): number[] => w.heard.slice(heard[i]).map((h) => (h.caller!.elsewhere as Json).sandboxes as number);
		const [a, b] = [there(one, 0), there(two, 1)];
		assert.equal(a.length + b.length, 6);
		for (const n of a)
			assert.ok(n >= 2 && n <= 2 + b.length, `${a} ${b}`);
		assert.ok(Math.max(...a.map((n) => n - 2), ...b) > 0, `${a} ${b}`);
		one.uses = { version: version(64), rows: [[id, a.length + 1, 0, 0, 0, 0, 0]] };
		await until('what a worker counts before its answer counts once', async () => await hears(two) === a.length + 1, 5_000);
		waiting.forEach((go) => go());
		for (const r of await Promise.all(answers))
			assert.equal(r.status, 201);
		one.handler = two.handler = (_, res) => one.say(res, 400, { status: 400, code: 'bad_request', detail: 'not now' });
		await until('what no worker has counted is forgotten', async () => await hears(one) === 2, 5_000);
		two.uses = undefined;
		await until('a worker that has nothing to say counts nothing', async () => await hears(one) === 0, 5_000);
		one.uses = one.handler = two.handler = undefined;
		assert.equal((await call('DELETE', `/api/v1/users/${id}`)).status, 204);
	});

	it('reads its certificate, key and authority again on SIGHUP, and keeps all three if one is wrong', async () => {
		const files = [authority.ca, routerFiles.cert, routerFiles.key], first = files.map((f) => fs.readFileSync(f)), workers = [one, two];
		const next = new Authority(scratch('router-next'), 'next'), worker = next.certificate('worker'), mine = next.certificate('router');
		const hup = async (...texts: (string | Buffer)[]): Promise<void> => {
			const word = /certificate_(not_)?read/g, before = program.stderr.match(word)?.length ?? 0;
			texts.forEach((t, i) => fs.writeFileSync(files[i]!, t));
			program.kill('SIGHUP');
			await until('the log tells what became of them', () => (program.stderr.match(word)?.length ?? 0) > before, 5_000);
		};
		const works = async (): Promise<void> => {
			workers.forEach((w) => w.cut()); // so that the router needs new connections
			await usable(2);
			assert.equal((await call('GET', '/api/v1/sandboxes')).status, 200);
		};
		const [ca, cert, key] = first as [Buffer, Buffer, Buffer];
		for (const texts of [['', cert, key], ['no certificate', cert, key], [ca, 'x', key], [ca, cert, ''], [ca, cert, fs.readFileSync(mine.key)], [ca, fs.readFileSync(mine.cert), key]] as const) {
			await hup(...texts);
			assert.match(program.stderr.trim().split('\n').filter((l) => l.includes('certificate_')).at(-1)!, /certificate_not_read/, texts.map(String).join().slice(0, 40));
		}
		await works();
		/* An answer that is under way goes on. */
		const made = await make(), at = workerOf(made);
		let said: http.ServerResponse | undefined;
		at.raw = (_, res) => {
			res.writeHead(200, { 'content-type': 'text/event-stream' });
			res.write('data: 1\n\n');
			said = res;
		};
		const reader = (await call('GET', `/api/v1/sandboxes/${made.id}/events`)).body!.getReader();
		await reader.read();
		at.raw = undefined;
		/* Both authorities, then the new certificates, then the new authority alone. */
		const both = Buffer.concat([ca, fs.readFileSync(next.ca)]);
		await hup(both, cert, key);
		workers.forEach((w) => w.renew(worker, both));
		await hup(both, fs.readFileSync(mine.cert), fs.readFileSync(mine.key));
		said!.write('data: 2\n\n');
		assert.equal(new TextDecoder().decode((await reader.read()).value), 'data: 2\n\n');
		/* Its connection is of the first certificate, and is not kept for a further request. */
		const { socket } = said!;
		assert.ok(socket && !socket.destroyed);
		said!.end();
		assert.equal((await reader.read()).done, true);
		await until('the connection is closed', () => socket.destroyed, 5_000);
		await hup(fs.readFileSync(next.ca));
		workers.forEach((w) => w.renew(worker, fs.readFileSync(next.ca)));
		await works();
		workers.forEach((w) => w.renew(workerFiles, ca));
		workers.forEach((w) => w.cut());
		await usable(0);
		await hup(ca, cert, key);
		await works();
	});

	it('reads them without a signal when they change, and says when they end (slow)', async () => {
		const ends = async (): Promise<Map<string, number>> => new Map([...(await (await call('GET', '/metrics')).text()).matchAll(/^caisson_certificate_end_timestamp_seconds\{use="(\w+)"\} (\d+)$/gm)].map((m) => [m[1]!, Number(m[2])]));
		const before = await ends();
		assert.deepEqual([...before.keys()].sort(), ['authority', 'router'], 'there is no listener with TLS');
		for (const until_s of before.values())
			assert.ok(Math.abs(until_s - Date.now() / 1000 - 2 * 86_400) < 3600);
		const files = [authority.ca, routerFiles.cert, routerFiles.key], first = files.map((f) => fs.readFileSync(f));
		const next = authority.certificate('router', 'router.caisson.internal', 9); // it takes the same files
		assert.deepEqual([next.cert, next.key], [routerFiles.cert, routerFiles.key]);
		await until('the new one is in use', async () => (await ends()).get('router')! > before.get('router')! + 6 * 86_400, 10_000);
		assert.equal((await ends()).get('authority'), before.get('authority'));
		one.cut();
		two.cut();
		await usable(2);
		files.forEach((f, i) => fs.writeFileSync(f, first[i]!));
	});

	it('shows administrators its workers, and what has become of requests', async () => {
		const shown = async (): Promise<Json[]> => (await json(await call('GET', '/api/v1/fleet'))).workers as Json[];
		const metric = async (name: string): Promise<number> => Number(new RegExp(`^caisson_fleet_${name.replace(/[{}]/g, '\\$&')} (\\d+)$`, 'm').exec(await (await call('GET', '/metrics')).text())?.[1] ?? NaN);
		const [first] = (await shown()).filter((w) => w.id === 'ab3');
		assert.match(first!.since as string, /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
		assert.deepEqual({ ...first, since: '', requests: 0 }, { address: one.at, id: 'ab3', name: 'one', version: '0', epoch: one.epoch, state: 'ready', since: '', listed: true, requests: 0, sandboxes: one.sandboxes.size, sandboxes_max: 100 });
		const before = await metric('requests_total{outcome="answered"}'), made = await make(), at = workerOf(made);
		assert.equal(await metric('requests_total{outcome="answered"}'), before + 1);
		assert.deepEqual([await metric('workers{state="ready"}'), await metric('workers{state="draining"}')], [2, 0]);
		/* A full worker is asked, then the other one. */
		one.handler = two.handler = (_, res) => one.say(res, 503, { status: 503, code: 'max_sessions' });
		const full = await metric('retries_total{reason="full"}');
		assert.equal((await json(await call('POST', '/api/v1/sandboxes', { body: {} }))).code, 'fleet_full');
		assert.deepEqual([await metric('retries_total{reason="full"}'), await metric('failures_total{code="fleet_full"}'), await metric('requests_total{outcome="failed"}')], [full + 2, 1, 1]);
		one.handler = two.handler = undefined;
		at.draining = true;
		await until('it is draining', async () => (await shown()).some((w) => w.id === at.id && w.state === 'draining'), 5_000);
		at.draining = false;
		at.down();
		await until('it is unreachable', async () => (await shown()).some((w) => w.id === at.id && w.state === 'unreachable'), 5_000);
		assert.equal((await call('GET', `/api/v1/sandboxes/${made.id}`)).status, 503);
		assert.deepEqual([await metric('failures_total{code="node_unreachable"}'), await metric('workers{state="unreachable"}')], [1, 1]);
		at.up();
		await usable(2);
		const user = await json(await call('POST', '/api/v1/users', { body: { name: 'joe', password: 'correct horse battery' } }));
		const key = (await json(await call('POST', `/api/v1/keys?owner=${user.id}`, { body: { name: 'k' } }))).key as string;
		assert.equal((await fetch(`${base}/api/v1/fleet`, { headers: { 'x-api-key': key } })).status, 403);
	});

	it('says to doctor which workers answer, and what is wrong with its files', async () => {
		interface Row { id: string; state: string; value: string; mend: string }
		const row = async (change: Record<string, string> = {}): Promise<Row> =>
			(JSON.parse((await caisson(['doctor', '--json'], { env: { ...env, ...change } })).stdout.toString()) as { rows: Row[] }).rows.find((r) => r.id === 'fleet')!;
		const file = (name: string, ...lines: string[]): string => {
			fs.writeFileSync(path.join(dir, name), lines.join('\n'));
			owned(path.join(dir, name));
			return path.join(dir, name);
		};
		const good = await row();
		assert.match(good.value, /^router: 2 of 2 workers answer; certificate until \d{4}-\d\d-\d\d$/);
		assert.deepEqual([good.state, good.mend.includes('SIGHUP')], ['note', true], 'it ends in two days');
		const stranger = await new FakeWorker('bad', routerFiles, authority.ca, []).listen();
		const some = await row({ SANDBOX_FLEET_WORKERS: file('some', one.at, stranger.at, 'localhost:1') });
		stranger.close();
		assert.match(some.value, /^router: 1 of \d workers answer;.*; 127\.0\.0\.1:\d+: its certificate is not one of a worker of this fleet$/);
		const none = await row({ SANDBOX_FLEET_WORKERS: file('none', '127.0.0.1:1') });
		assert.deepEqual([none.state, /0 of 1 workers answer.*127\.0\.0\.1:1: Connection refused/.test(none.value)], ['weaker', true], none.value);
		for (const [change, says] of [
			[{ SANDBOX_FLEET_WORKERS: file('wrong', 'a b') }, /line 1/],
			[{ SANDBOX_FLEET_CERTIFICATE: workerFiles.cert, SANDBOX_FLEET_CERTIFICATE_KEY: workerFiles.key }, /does not have the DNS name router\.caisson\.internal/],
			[{ SANDBOX_FLEET_CERTIFICATE_KEY: workerFiles.key }, /certificate or its key cannot be used/],
			[{ SANDBOX_FLEET_CERTIFICATE: path.join(dir, 'missing') }, /cannot be read: No such file/],
			[{ SANDBOX_FLEET_CERTIFICATE: keyFile }, /it is no certificate/],
			[{ SANDBOX_FLEET_CA: keyFile }, /authority cannot be used/],
			[{ SANDBOX_FLEET_KEY: file('short', 'x') }, /32 to 4096 bytes/],
			[{ SANDBOX_FLEET_KEY: '' }, /needs SANDBOX_FLEET_KEY/],
		] as [Record<string, string>, RegExp][]) {
			const said = await row(change);
			assert.equal(said.state, 'missing');
			assert.match(said.value, says);
		}
	});
});
