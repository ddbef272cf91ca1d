// SPDX-License-Identifier: Apache-2.0
// The role worker, seen by a router: who may connect, who asks, and what a worker does not have.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import * as fs from 'node:fs';
import * as net from 'node:net';
import * as os from 'node:os';
import { after, before, describe, it } from 'node:test';
import * as tls from 'node:tls';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Authority, FakeRouter, header, local, ROUTER, startWorker, user, WORKER, type Answer, type Pair, type Who, type Worker } from '../lib/fleet.ts';
import { freePort, newStateDir } from '../lib/env.ts';
import { caisson } from '../lib/process.ts';
import type { Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const ada = user('ada', 'a'), bob = user('bob', 'b');

describe('a worker of a fleet', () => {
	let ca: Authority, w: Worker, r: FakeRouter;

	before(async () => {
		ca = new Authority('fleet-ca');
		w = await startWorker(ca, { env: { SANDBOX_FACES: 'e2b', SANDBOX_PUBLIC_PORTS: 'on' } });
		r = w.router;
	});
	after(async () => {
		r?.end();
		await w?.program.end();
	});

	const make = async (who: Who, body: Json = {}): Promise<string> => {
		const made = await r.ask('POST', '/api/v1/sandboxes', { who, body });
		assert.equal(made.status, 201, made.text);
		return made.json.id as string;
	};
	const code = async (a: Promise<Answer>): Promise<[number, string]> => {
		const got = await a;
		return [got.status, got.json.code as string];
	};

	describe('its certificates', () => {
		const refused = (as: Pair | null): Promise<void> => assert.rejects(r.ask('GET', '/fleet/state', { as }), /alert|ECONNRESET|socket hang up|EPIPE/i);

		it('lets in routers alone', async () => {
			const reasons = (): number => w.program.stderr.split('peer_refused').length;
			assert.equal((await r.ask('GET', '/fleet/state')).status, 200);
			assert.equal((await r.ask('GET', '/fleet/state', { maxVersion: 'TLSv1.2' })).status, 200);
			const other = new Authority('fleet-other');
			const peers: [string, Pair | null][] = [
				['none', null],
				['of another authority', other.issue('router', `DNS:${ROUTER}`)],
				['the authority itself', ca.own],
				['of a worker', { cert: w.env.SANDBOX_TLS_CERTIFICATE!, key: w.env.SANDBOX_TLS_KEY! }],
				['of both names in the subject', ca.issue('subject', `DNS:${WORKER}`, { subject: `/CN=${ROUTER}` })],
				['of the name in the subject alone', ca.issue('cn', '', { subject: `/CN=${ROUTER}` })],
				['of that and an e-mail', ca.issue('mail', 'email:a@example.org', { subject: `/CN=${ROUTER}` })],
				['with the name of another domain', ca.issue('domain', `DNS:${ROUTER}.example.org`)],
				['with a wildcard', ca.issue('wild', 'DNS:*.caisson.internal')],
				['expired', ca.issue('expired', `DNS:${ROUTER}`, { days: -1 })],
				['for servers', ca.issue('purpose', `DNS:${ROUTER}`, { more: 'extendedKeyUsage=serverAuth\n' })],
			];
			for (const [what, pair] of peers) {
				const before = reasons();
				await refused(pair).catch((e: Error) => assert.fail(`${what}: ${e.message}`));
				await until(`the log says so: ${what}`, () => reasons() > before);
				if (!pair)
					assert.doesNotMatch(w.program.stderr, /another authority/, 'it has none at all');
			}
			await assert.rejects(r.ask('GET', '/fleet/state', { as: null, maxVersion: 'TLSv1.2' }));
			for (const word of ['another authority', 'does not have the name', 'has expired', 'not for clients'])
				assert.match(w.program.stderr, new RegExp(word));
			for (const [names, more] of [[`DNS:${WORKER},DNS:${ROUTER}`, ''], [`DNS:${ROUTER}`, 'extendedKeyUsage=serverAuth,clientAuth\n']] as const)
				assert.equal((await r.ask('GET', '/fleet/state', { as: ca.issue('good', names, { more }) })).status, 200);
		});

		it('have no key that is costly to verify, and no end of names', async () => {
			const rsa = (...more: string[]): string[] => ['-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:2048', ...more];
			const names = (n: number): string => [ROUTER, ...Array.from({ length: n }, (_, i) => `name-${i}.example`)].map((name) => `DNS:${name}`).join();
			const good = [ca.issue('rsa', names(0), { key: rsa() }), ca.issue('named', names(100))];
			const bad = [ca.issue('exponent', names(0), { key: rsa('-pkeyopt', `rsa_keygen_pubexp:${2n ** 40n + 1n}`) }), ca.issue('many', names(500))];
			for (const maxVersion of ['TLSv1.2', undefined] as const) {
				for (const as of good)
					assert.equal((await r.ask('GET', '/fleet/state', { as, maxVersion })).status, 200);
				for (const as of bad)
					await assert.rejects(r.ask('GET', '/fleet/state', { as, maxVersion }), /alert|ECONNRESET|socket hang up|EPIPE/i);
			}
		});

		it('renews the authority with the certificate, and keeps both if one is wrong', async () => {
			const file = w.env.SANDBOX_FLEET_CA!, first = fs.readFileSync(file), next = new Authority('fleet-next');
			const newcomer = next.issue('router', `DNS:${ROUTER}`), errors = (): number => w.program.stderr.split('certificate_not_read').length;
			await refused(newcomer);
			for (const wrong of ['', 'no certificate', fs.readFileSync(w.env.SANDBOX_TLS_KEY!)]) {
				const before = errors();
				fs.writeFileSync(file, wrong);
				w.program.kill('SIGHUP');
				await until('the log says so', () => errors() > before);
				await refused(newcomer);
				assert.equal((await r.ask('GET', '/fleet/state', { as: r.pair })).status, 200);
			}
			/* Both at once, as in a renewal, then the new one alone. */
			fs.writeFileSync(file, Buffer.concat([first, fs.readFileSync(next.own.cert)]));
			w.program.kill('SIGHUP');
			const may = (as: Pair): Promise<boolean> => r.ask('GET', '/fleet/state', { as }).then((a) => a.status === 200, () => false);
			await until('the newcomer is let in', () => may(newcomer));
			assert.ok(await may(r.pair));
			fs.writeFileSync(file, fs.readFileSync(next.own.cert));
			w.program.kill('SIGHUP');
			await until('the older one is not', async () => !await may(r.pair));
			assert.ok(await may(newcomer));
			fs.writeFileSync(file, first);
			w.program.kill('SIGHUP');
			await until('it is again', () => may(r.pair));
		});
	});

	it('tells routers its state', async () => {
		const before = (await r.ask('GET', '/fleet/state')).json;
		const id = await make(ada);
		const { json } = await r.ask('GET', '/fleet/state');
		assert.match(json.worker, /^[0-9a-z]{3}$/);
		assert.match(json.epoch, /^[0-9a-f]{16}$/);
		assert.equal(json.sandboxes.open, before.sandboxes.open + 1);
		assert.deepEqual([json.v, json.name, json.draining, json.ready, json.profile, json.images.length], [1, 'w1', false, true, 'full', 1]);
		assert.equal((await r.ask('DELETE', `/api/v1/sandboxes/${id}`, { who: ada })).status, 204);
		for (const who of [local, ada])
			assert.equal((await r.ask('GET', '/fleet/state', { who })).status, 404, 'clients of a router do not get it');
	});

	it('tells at its plain address how many of its places are taken, without stored sandboxes', async () => {
		const figure = async (name: string): Promise<number> => Number(new RegExp(`^caisson_${name} (\\d+)$`, 'm').exec(await (await fetch(`${w.base}/metrics`)).text())?.[1] ?? NaN);
		const before = await figure('sandboxes_claimed'), all = await figure('sandboxes');
		const ids = [await make(ada), await make(ada), await make(ada, { kind: 'stored' })];
		assert.deepEqual([await figure('sandboxes_claimed'), await figure('sandboxes')], [before + 2, all + 3]);
		assert.equal(await figure('sandboxes_max'), (await r.ask('GET', '/fleet/state')).json.sandboxes.max);
		for (const id of ids)
			assert.equal((await r.ask('DELETE', `/api/v1/sandboxes/${id}`, { who: ada })).status, 204);
		assert.equal(await figure('sandboxes_claimed'), before);
	});

	it('has health checks and figures alone at its plain address', async () => {
		for (const [where, pattern] of [['/healthz', /ok/], ['/readyz', /ready/], ['/metrics', /caisson_/], ['/metrics', /_end_timestamp_seconds\{use="listener"\} \d+\n[^\n]*\{use="authority"\} \d/]] as const) {
			const got = await fetch(`${w.base}${where}`);
			assert.equal(got.status, 200, where);
			assert.match(await got.text(), pattern);
		}
		for (const [method, where] of [['GET', '/'], ['GET', '/api/v1/sandboxes'], ['POST', '/mcp'], ['GET', '/fleet/state'], ['GET', '/sse'], ['POST', '/api/token'], ['GET', '/files/a/b'], ['PUT', '/api/v1/sandboxes/a/files/b'], ['GET', '/p/a/80/'], ['POST', '/faces/e2b/sandboxes'], ['GET', '/a//b/%2e%2e']] as const) {
			/* The header of a router counts for nothing here. */
			const got = await fetch(`${w.base}${where}`, { method, headers: { 'caisson-caller': header(local), 'content-type': 'application/json' } });
			const text = await got.text();
			assert.equal(got.status, 403, `${method} ${where}: ${text}`);
			assert.match(text, /"worker_only"[^]*router/, where);
		}
	});

	it('leaves users, keys, sign-in and the page to routers', async () => {
		for (const [method, where] of [['GET', '/api/v1/session'], ['POST', '/api/v1/session'], ['POST', '/api/v1/register'], ['GET', '/api/v1/users'], ['POST', '/api/v1/users'], ['GET', '/api/v1/keys'], ['POST', '/api/v1/keys'], ['POST', '/api/v1/invitations'], ['POST', '/api/v1/me/password'], ['POST', '/api/token'], ['POST', '/api/register'], ['GET', '/api/users/me']] as const)
			assert.deepEqual(await code(r.ask(method, where, { who: local, ...(method === 'POST' ? { body: {} } : {}) })), [403, 'worker_only'], where);
		assert.equal((await r.ask('GET', '/', { who: local })).status, 404);
	});

	describe('the identity', () => {
		it('is what the router says, not what the client has', async () => {
			for (const headers of [{}, { authorization: 'Bearer csn_0123456789abcdef' }, { 'x-api-key': 'a key of a client' }, { cookie: 'caisson_session=x' }] as Record<string, string>[])
				assert.deepEqual(await code(r.ask('GET', '/api/v1/sandboxes', { headers })), [401, 'identity_missing']);
			const me = (await r.ask('GET', '/api/v1/me', { who: ada, headers: { authorization: 'Bearer x' } })).json;
			assert.deepEqual([me.name, me.admin, me.read_only], ['ada', false, false], JSON.stringify(me));
		});

		it('is refused if it is forged, cut or given twice', async () => {
			const good = header(ada);
			const rows: [string, string | string[], number, string][] = [
				['twice', [good, good], 400, 'identity_invalid'],
				['two of different people', [good, header(local)], 400, 'identity_invalid'],
				['joined', `${good}, ${good}`, 400, 'identity_invalid'],
				['empty', '', 400, 'identity_invalid'],
				['cut', good.slice(0, -3), 400, 'identity_invalid'],
				['JSON as it is', JSON.stringify(ada), 400, 'identity_invalid'],
				['another version', header({ ...ada, v: 2 }), 400, 'identity_invalid'],
				['a member more', header({ ...ada, root: true }), 400, 'identity_invalid'],
				['a member less', header({ ...ada, read_only: undefined }), 400, 'identity_invalid'],
				['a path as owner', header({ ...ada, owner: '../../x' }), 400, 'identity_invalid'],
				['the local user with a key', header({ ...ada, owner: '' }), 400, 'identity_invalid'],
				['an ended credential', header({ ...ada, until_ms: Date.now() - 1 }), 401, 'unauthorized'],
				['of 16 KiB', 'e'.repeat(16 << 10), 400, 'identity_invalid'],
			];
			for (const [what, raw, status, word] of rows)
				assert.deepEqual(await code(r.ask('GET', '/api/v1/me', { raw })), [status, word], what);
			const large = await r.ask('GET', '/api/v1/me', { raw: 'e'.repeat(64 << 10) }).then((a) => a.status, () => 431);
			assert.equal(large, 431);
			assert.equal((await r.ask('GET', '/api/v1/me', { who: ada })).status, 200);
		});

		it('keeps two owners apart', async () => {
			const id = await make(ada), his = await make(bob);
			const run = await r.ask('POST', `/api/v1/sandboxes/${id}/runs`, { who: ada, body: { code: 'open("/mnt/data/a.txt", "w").write("hers"); print(6 * 7)' } });
			const events = await r.ask('GET', `/api/v1/runs/${run.json.id}/events`, { who: ada });
			assert.match(events.text, /data: "42\\n"[^]*event: end/);
			for (const [method, where] of [['GET', `/api/v1/sandboxes/${id}`], ['DELETE', `/api/v1/sandboxes/${id}`], ['GET', `/api/v1/sandboxes/${id}/files/a.txt`], ['GET', `/api/v1/runs/${run.json.id}`], ['GET', `/api/v1/runs/${run.json.id}/events`]] as const)
				assert.equal((await r.ask(method, where, { who: bob })).status, 404, `${method} ${where}`);
			const ids = async (who: Who): Promise<string[]> => (await r.ask('GET', '/api/v1/sandboxes', { who })).json.sandboxes.map((s: Json) => s.id);
			assert.deepEqual([await ids(ada), await ids(bob)], [[id], [his]]);
			assert.equal((await r.ask('GET', `/api/v1/sandboxes/${id}/files/a.txt`, { who: ada })).text, 'hers');
			for (const [who, mine] of [[ada, id], [bob, his]] as const)
				assert.equal((await r.ask('DELETE', `/api/v1/sandboxes/${mine}`, { who })).status, 204);
		});

		it('limits what a key for reading may do, and what an administrator may see', async () => {
			const reader = { ...ada, read_only: true, key_id: 'cccccccc-1111-4000-8000-000000000000' };
			assert.equal((await r.ask('GET', '/api/v1/sandboxes', { who: reader })).status, 200);
			assert.deepEqual(await code(r.ask('POST', '/api/v1/sandboxes', { who: reader, body: {} })), [403, 'forbidden']);
			assert.deepEqual(await code(r.ask('GET', '/api/v1/stats', { who: ada })), [403, 'forbidden']);
			assert.equal((await r.ask('GET', '/api/v1/stats', { who: { ...ada, admin: true } })).status, 200);
			assert.deepEqual(await code(r.ask('GET', '/api/v1/stats', { who: ada })), [403, 'forbidden'], 'an older right is no right');
		});

		it('brings the quota of its user', async () => {
			const poor = user('poor', 'd', { limits: { ...ada.limits, sandboxes: 1, runs_per_minute: 2 } });
			const stored = await r.ask('POST', '/api/v1/sandboxes', { who: poor, body: { kind: 'stored', name: 'one' } });
			assert.equal(stored.status, 201, stored.text);
			assert.deepEqual(await code(r.ask('POST', '/api/v1/sandboxes', { who: poor, body: { kind: 'stored', name: 'two' } })), [429, 'quota_exceeded']);
			const rich = { ...poor, limits: { ...poor.limits, sandboxes: 2 } };
			assert.equal((await r.ask('POST', '/api/v1/sandboxes', { who: rich, body: { kind: 'stored', name: 'two' } })).status, 201);
		});

		it('counts for a quota what its user has elsewhere, and tells routers what there is here', async () => {
			const day = 86_400_000, none = { sandboxes: 0, disk_bytes: 0, day: 0, cpu_us: 0, minute: 0, runs: 0 };
			const who = (elsewhere?: Json, limits: Json = {}): Who => user('eli', 'e', { limits: { ...ada.limits, sandboxes: 3, ...limits }, ...(elsewhere ? { elsewhere } : {}) });
			const add = (as: Who): Promise<Answer> => r.ask('POST', '/api/v1/sandboxes', { who: as, body: { kind: 'stored' } });
			const version = async (): Promise<string> => (await r.ask('GET', '/fleet/state')).json.uses as string;
			const uses = async (after?: string): Promise<number[] | undefined> => {
				const { json } = await r.ask('GET', `/fleet/uses${after ? `?after=${after}` : ''}`);
				assert.deepEqual([json.v, json.more], [1, false]);
				return (json.uses as (string | number)[][]).find((u) => u[0] === who().owner)?.slice(1) as number[] | undefined;
			};
			assert.equal(await uses(), undefined);
			const before = await version(), first = await add(who({ ...none, sandboxes: 2 }));
			assert.equal(first.status, 201, first.text);
			const [n, bytes] = (await uses(before))!;
			assert.ok(n === 1 && bytes! > 0, `${n} ${bytes}`);
			assert.equal(await uses(await version()), undefined, 'nothing has changed since');
			const full = await add(who({ ...none, sandboxes: 2 }));
			assert.deepEqual([full.status, full.json.code], [429, 'quota_exceeded']);
			assert.match(full.text, /limit of 3 sandboxes/, 'the quota itself, and not what is left of it');
			assert.deepEqual(await code(add(who())), [429, 'quota_exceeded'], 'what was said last holds');
			assert.deepEqual(await code(add(who({ ...none, disk_bytes: 1 }, { disk_bytes: 2 * bytes! }))), [429, 'quota_exceeded']);
			const second = await add(who(none, { disk_bytes: 2 * bytes! }));
			assert.equal(second.status, 201, second.text);

			const run = (as: Who): Promise<Answer> => r.ask('POST', `/api/v1/sandboxes/${first.json.id}/runs`, { who: as, body: { code: 'sum(range(3_000_000))', wait: true } });
			const minute = (): number => Math.floor(Date.now() / 60_000);
			const limits = { runs_per_minute: 4, cpu_s_per_day: 2 };
			for (const elsewhere of [{ minute: minute(), runs: 4 }, { day: Math.floor(Date.now() / day), cpu_us: 2_000_000 }]) {
				const answer = await run(who({ ...none, ...elsewhere }, limits));
				if (elsewhere.minute !== undefined && elsewhere.minute !== minute())
					continue; // it has just ended
				assert.deepEqual([answer.status, answer.json.code], [429, 'quota_exceeded'], JSON.stringify(elsewhere));
			}
			const ran = await run(who({ ...none, day: Math.floor(Date.now() / day) - 1, cpu_us: 2_000_000, minute: minute() - 1, runs: 4 }, limits));
			assert.equal(ran.status, 201, ran.text);
			await until('its CPU time is told', async () => (await uses())![3]! > 0);
			const told = (await uses())!;
			assert.deepEqual([told[0], told[2], told[5]], [2, Math.floor(Date.now() / day), 1]);
			for (const made of [first, second])
				assert.equal((await r.ask('DELETE', `/api/v1/sandboxes/${made.json.id}`, { who: who() })).status, 204);
			assert.deepEqual((await uses())!.slice(0, 2), [0, 0]);
			for (const after of ['1', 'x'.repeat(16), '0'.repeat(17)])
				assert.equal((await r.ask('GET', `/fleet/uses?after=${after}`)).status, 400);
			assert.equal((await r.ask('GET', '/fleet/uses', { who: ada })).status, 404, 'clients of a router do not get it');
		});

		it('that changes ends what it had open with other rights', async () => {
			const id = await make(ada);
			const run = await r.ask('POST', `/api/v1/sandboxes/${id}/runs`, { who: ada, body: { code: 'import time\nprint("go", flush=True); time.sleep(50)' } });
			const stream = await r.open('GET', `/api/v1/runs/${run.json.id}/events`, { who: ada });
			let heard = '';
			const over = new Promise<void>((resolve) => stream.on('data', (b: Buffer) => { heard += b.toString(); }).on('error', () => resolve()).on('close', () => resolve()));
			await until('its output', () => heard.includes('go'));
			assert.equal((await r.ask('GET', '/api/v1/me', { who: { ...ada, read_only: true } })).status, 200);
			await over;
			assert.deepEqual(await code(r.ask('DELETE', `/api/v1/sandboxes/${id}`, { who: { ...ada, read_only: true } })), [403, 'forbidden']);
			await until('the run is over', async () => (await r.ask('DELETE', `/api/v1/sandboxes/${id}`, { who: ada })).status === 204, 20_000);
			/* The end that its router has named comes by itself, too. */
			const short = { ...bob, until_ms: Date.now() + 700 }, his = await make(short);
			const watch = await r.open('GET', `/api/v1/sandboxes/${his}/events?path=.`, { who: short });
			await new Promise<void>((resolve) => watch.on('error', () => resolve()).on('close', () => resolve()).resume());
			assert.equal((await r.ask('DELETE', `/api/v1/sandboxes/${his}`, { who: bob })).status, 204);
		});
	});

	it('gives files to their owner and to who has a link', async () => {
		const paths = (id: string): string[] => [`/files/${id}/a.txt`, `/sandbox/file?sandbox_id=${id}&file_path=/mnt/data/a.txt`];
		const put = (who: Who, id: string): Promise<Answer> => r.ask('PUT', `/api/v1/sandboxes/${id}/files/a.txt`, { who, body: 'mine', headers: { 'content-type': 'application/octet-stream' } });
		for (const who of [local, { ...local, how: 'static' }, ada]) {
			const id = await make(who);
			assert.ok((await put(who, id)).status < 300);
			for (const where of paths(id)) {
				for (const stranger of [undefined, bob, { ...local, how: 'local' }])
					assert.match(String((await r.ask('GET', where, { who: stranger })).status), /^40[134]$/, `${where} ${stranger?.name}`);
				const own = await r.ask('GET', where, { who });
				assert.deepEqual([own.status, own.text], who.how === 'local' ? [where.startsWith('/files') ? 403 : 401, own.text] : [200, 'mine'], where);
			}
			assert.equal((await r.ask('DELETE', `/api/v1/sandboxes/${id}`, { who })).status, 204);
		}
	});

	it('lists and removes the stored sandboxes of the second family', async () => {
		const id = await make(ada, { kind: 'stored', name: 'second' }), where = '/api/users/me/sandboxes';
		const ids = async (who: Who): Promise<string[]> => (await r.ask('GET', where, { who })).json.sandboxes.map((s: Json) => s.id);
		assert.deepEqual(await ids(ada), [id]);
		assert.deepEqual(await ids(bob), []);
		assert.equal((await r.ask('GET', where)).status, 401);
		assert.equal((await r.ask('DELETE', `${where}/${id}`, { who: bob })).status, 404);
		assert.equal((await r.ask('DELETE', `${where}/${id}`, { who: { ...ada, read_only: true } })).status, 403);
		assert.equal((await r.ask('DELETE', `${where}/${id}`, { who: ada })).status, 200);
		assert.deepEqual(await ids(ada), []);
	});

	describe('MCP', () => {
		for (const mode of ['legacy', 'auto'] as const)
			it(`works for clients that are ${mode}, in whose answers the router's address stands`, async () => {
				let who = ada;
				const client = new Client({ name: 'fleet', version: '1' }, { versionNegotiation: { mode } });
				await client.connect(new StreamableHTTPClientTransport(new URL('https://box.example.org/mcp'), { fetch: r.fetchAs(() => who) }));
				assert.equal(client.getNegotiatedProtocolVersion(), mode === 'legacy' ? '2025-11-25' : '2026-07-28');
				const call = (name: string, args: Json): Promise<Json> => client.callTool({ name, arguments: { session_id: `mcp-${mode}`, ...args } }) as Promise<Json>;
				const made = await call('sandbox_run_python', { code: 'open("a.txt", "w").write("made"); print(6 * 7)' });
				assert.match(JSON.stringify(made), /42/);
				const list = JSON.stringify(await call('sandbox_list_files', {}));
				const link = /https:\/\/box\.example\.org(\/files\/[^"\\ )]*)/.exec(list);
				assert.ok(link, list);
				for (const somebody of [undefined, local, { ...bob, how: 'signin', key_id: '' }])
					assert.equal((await r.ask('GET', link[1]!, { who: somebody })).text, 'made', 'a link is its own credential');
				assert.doesNotMatch(w.program.stderr, /http_server_starting/, 'links need no listener of their own');
				/* The same session, and a key that may do less from now on. */
				who = { ...ada, read_only: true };
				const late = await call('sandbox_run_python', { code: 'print(1)' }).then((a) => JSON.stringify(a), (e: Error) => e.message);
				assert.match(late, /forbidden|may not|not allowed|read/i);
				/* Somebody else with the id of this session. */
				who = bob;
				const foreign = await call('sandbox_list_files', {}).then((a) => JSON.stringify(a), (e: Error) => e.message);
				assert.doesNotMatch(foreign, /a\.txt/);
				who = ada;
				await client.close().catch(() => undefined);
			});

		it('streams what a run prints', async () => {
			const seen: string[] = [];
			const client = new Client({ name: 'fleet', version: '1' }, { versionNegotiation: { mode: 'legacy' } });
			await client.connect(new StreamableHTTPClientTransport(new URL('https://box.example.org/mcp'), { fetch: r.fetchAs(() => ada) }));
			await client.callTool({ name: 'sandbox_run_python', arguments: { session_id: 'mcp-stream', code: 'import time\nfor i in range(3): print("line", i, flush=True); time.sleep(0.1)' } }, { onprogress: (p) => { seen.push(p.message ?? ''); } });
			assert.ok(seen.length > 0, 'progress came while it ran');
			await client.close();
		});
	});

	it('serves the face of E2B for a router that has judged the key', async () => {
		const made = await r.ask('POST', '/faces/e2b/v2/sandboxes', { who: ada, body: { templateID: 'base', timeout: 60 } });
		assert.equal(made.status, 201, made.text);
		const id = made.json.sandboxID as string;
		assert.equal((await r.ask('GET', `/faces/e2b/sandboxes/${id}`, { who: bob })).status, 404);
		assert.equal((await r.ask('GET', `/faces/e2b/sandboxes/${id}`)).status, 401);
		assert.equal((await r.ask('DELETE', `/faces/e2b/sandboxes/${id}`, { who: ada })).status, 204);
	});

	it('passes requests to a server in a sandbox without what the router said', async () => {
		const id = await make(ada), server = 'from http.server import *\nclass H(BaseHTTPRequestHandler):\n def do_GET(s):\n  s.send_response(200); s.end_headers(); s.wfile.write(str(s.headers).encode())\nHTTPServer(("127.0.0.1", 8000), H).serve_forever()';
		const started = await r.ask('POST', `/api/v1/sandboxes/${id}/processes`, { who: ada, body: { command: `python3 -c '${server}'` } });
		assert.equal(started.status, 201, started.text);
		const ask = (who: Who): Promise<Answer> => r.ask('GET', `/p/${id}/8000/`, { who, headers: { 'caisson-other': 'x', 'x-mine': 'kept' } });
		const got = await until('the server inside', async () => { const a = await ask(ada); return a.status === 200 && a; });
		assert.match(got.text, /x-mine: kept/i);
		assert.match(got.text, /x-forwarded-for: 192\.0\.2\.7/i);
		assert.doesNotMatch(got.text, /caisson-/i);
		assert.ok(!got.text.includes(header(ada)));
		assert.equal((await ask(bob)).status, 404);
		assert.equal((await r.ask('DELETE', `/api/v1/sandboxes/${id}`, { who: ada })).status, 204);
	});

	it('leaves a stranger at a public port alone when its owner comes', async () => {
		const owner = { ...user('flo', 'f'), how: 'signin', key_id: '', admin: true }, id = await make(owner, { public: true });
		const server = 'import time\nfrom http.server import *\nclass H(BaseHTTPRequestHandler):\n def do_GET(s):\n  s.send_response(200); s.end_headers()\n  while True: s.wfile.write(b"tick"); time.sleep(0.05)\nHTTPServer(("127.0.0.1", 8000), H).serve_forever()';
		assert.equal((await r.ask('POST', `/api/v1/sandboxes/${id}/processes`, { who: owner, body: { command: `python3 -c '${server}'` } })).status, 201);
		const name = `8000-${id}.localhost`, headers = { host: name, 'x-forwarded-host': name };
		const stream = await until('the server inside', async () => { const s = await r.open('GET', '/', { headers }); if (s.statusCode === 200) return s; s.resume(); return undefined; });
		let bytes = 0, over = false;
		stream.on('data', (b: Buffer) => { bytes += b.length; }).on('error', () => { over = true; }).on('close', () => { over = true; });
		await until('its output', () => bytes > 0);
		assert.equal((await r.ask('GET', '/api/v1/me', { who: owner })).status, 200);
		const before = bytes;
		await until('more of it', () => over || bytes > before + 20);
		assert.equal(over, false);
		stream.destroy();
		assert.equal((await r.ask('DELETE', `/api/v1/sandboxes/${id}`, { who: owner })).status, 204);
	});

	it('removes all of a user whom a router has removed', async () => {
		const eve = user('eve', 'e'), where = `/api/v1/users/${eve.owner}`;
		const ids = [await make(eve), await make(eve, { kind: 'stored', name: 'kept' })];
		assert.deepEqual(await code(r.ask('DELETE', where, { who: eve })), [403, 'forbidden']);
		assert.deepEqual(await code(r.ask('DELETE', where, { who: ada })), [403, 'forbidden']);
		assert.equal((await r.ask('DELETE', where, { who: { ...local, how: 'static' } })).status, 204);
		for (const id of ids)
			assert.equal((await r.ask('GET', `/api/v1/sandboxes/${id}`, { who: local })).status, 404);
		assert.equal((await r.ask('DELETE', where, { who: local })).status, 404, 'once');
	});

	it('ends what a credential has open that has ended, and nothing else', async () => {
		const eva = user('eva', '9'), other = { ...eva, key_id: '99999999-2222-4000-8000-000000000000' }, third = { ...eva, key_id: '99999999-3333-4000-8000-000000000000' }, ids = [await make(eva), await make(eva)], id = ids[0]!;
		const start = async (who: Who): Promise<string> => {
			const run = await r.ask('POST', `/api/v1/sandboxes/${ids[who === eva ? 0 : 1]}/runs`, { who, body: { code: 'import time\ntime.sleep(100)' } });
			assert.equal(run.status, 201, run.text);
			return run.json.id as string;
		};
		const process = async (who: Who): Promise<string> => {
			const p = await r.ask('POST', `/api/v1/sandboxes/${id}/processes`, { who, body: { command: 'sleep 100' } });
			assert.equal(p.status, 201, p.text);
			return p.json.id as string;
		};
		const name = ({ owner, admin, read_only, profile, key_id, signin, version, how }: Who): Json => ({ owner, admin, read_only, profile, key_id, signin, version, how });
		const open = async (): Promise<string[]> => ((await r.ask('GET', '/fleet/credentials')).json.credentials as Json[]).filter((c) => c.owner === eva.owner).map((c) => c.key_id as string).sort();
		const tell = (body: unknown): Promise<Answer> => r.ask('POST', '/fleet/ended', { body });
		const state = async (where: string): Promise<string> => { const { json } = await r.ask('GET', where, { who: third }); return (json.state ?? json.status) as string; };
		const runs = [await start(eva), await start(other)], processes = [await process(eva), await process(other)];
		assert.deepEqual(await open(), [eva.key_id, other.key_id]);
		/* Of another owner, and of other rights. */
		assert.equal((await tell({ v: 1, owners: [], credentials: [{ ...name(eva), owner: bob.owner }, { ...name(eva), read_only: true }] })).status, 204);
		assert.deepEqual(await open(), [eva.key_id, other.key_id]);
		assert.equal((await tell({ v: 1, owners: [], credentials: [name(eva)] })).status, 204);
		const ends = async (i: number): Promise<void> => {
			await until(`run ${i} ends`, async () => await state(`/api/v1/runs/${runs[i]}`) !== 'running', 5_000);
			await until(`process ${i} ends`, async () => await state(`/api/v1/sandboxes/${id}/processes/${processes[i]}`) !== 'running', 5_000);
		};
		await ends(0);
		assert.deepEqual([await state(`/api/v1/runs/${runs[1]}`), await state(`/api/v1/sandboxes/${id}/processes/${processes[1]}`)], ['running', 'running']);
		assert.deepEqual(await open(), [other.key_id]);
		/* All of a user who is not active, with links, until the user comes again. */
		const client = new Client({ name: 'fleet', version: '1' }, { versionNegotiation: { mode: 'legacy' } });
		await client.connect(new StreamableHTTPClientTransport(new URL('https://box.example.org/mcp'), { fetch: r.fetchAs(() => other) }));
		const said = JSON.stringify([await client.callTool({ name: 'sandbox_run_python', arguments: { session_id: 'eva', code: 'open("a.txt", "w").write("x")' } }), await client.callTool({ name: 'sandbox_list_files', arguments: { session_id: 'eva' } })]);
		const link = /https:\/\/box\.example\.org(\/files\/[^"\\ )]*)/.exec(said)?.[1] ?? assert.fail(said);
		assert.equal((await r.ask('GET', link)).text, 'x');
		assert.equal((await tell({ v: 1, owners: [eva.owner, 'cccccccc-9999-4000-8000-000000000000'], credentials: [] })).status, 204);
		assert.match(String((await r.ask('GET', link)).status), /^40[134]$/);
		assert.deepEqual(await open(), []);
		await ends(1);
		await client.close().catch(() => undefined);
		for (const one of [...ids, 'eva'])
			assert.equal((await r.ask('DELETE', `/api/v1/sandboxes/${one}`, { who: eva })).status, 204);
		for (const body of ['', '[]', {}, { v: 1, owners: [] }, { v: 2, owners: [], credentials: [] }, { v: 1, owners: ['../x'], credentials: [] }, { v: 1, owners: [''], credentials: [] }, { v: 1, owners: Array(257).fill(eva.owner), credentials: [] }, { v: 1, owners: [], credentials: [{}] }, { v: 1, owners: [], credentials: [eva] }, { v: 1, owners: [], credentials: [{ ...name(eva), how: 'local' }] }, { v: 1, owners: [], credentials: [], more: 1 }])
			assert.equal((await tell(body)).status, 400, JSON.stringify(body));
		for (const after of ['x', '0', 'g'.repeat(16)])
			assert.equal((await r.ask('GET', `/fleet/credentials?after=${after}`)).status, 400);
		assert.deepEqual((await r.ask('GET', `/fleet/credentials?after=${'f'.repeat(16)}`)).json, { v: 1, credentials: [] });
		for (const [method, where] of [['GET', '/fleet/credentials'], ['POST', '/fleet/ended']] as const) {
			assert.equal((await r.ask(method, where, { who: local, ...(method === 'POST' ? { body: { v: 1, owners: [], credentials: [] } } : {}) })).status, 404, 'not for clients');
			assert.equal((await fetch(`${w.base}${where}`, { method })).status, 403, 'not at the plain address');
		}
	});

	it('makes ids that name it, of every kind that a router must send on', async () => {
		const { worker } = (await r.ask('GET', '/fleet/state')).json as { worker: string };
		const number = parseInt(worker, 36).toString(16).padStart(4, '0'), tags = new Set<string>();
		const names = (id: string, form: RegExp): string => {
			const [, at, tag] = form.exec(id) ?? assert.fail(`${id} is not of the form ${form}`);
			assert.equal(at, at!.length === 4 ? number : worker, id);
			tags.add(tag!);
			return id;
		};
		const id = names(await make(ada), /^sess_([0-9a-f]{4})([0-9a-f]{4})[0-9a-f]{12}$/);
		assert.equal((await r.ask('GET', `/api/v1/sandboxes/${id}`, { who: ada })).status, 200);
		const run = await r.ask('POST', `/api/v1/sandboxes/${id}/runs`, { who: ada, body: { code: '1', wait: true } });
		names(run.json.id, /^run_\d{8}T\d{6}Z_([0-9a-z]{3})([0-9a-z]{4})[0-9a-z]{3}$/);
		assert.equal((await r.ask('GET', `/api/v1/runs/${run.json.id}`, { who: ada })).status, 200);
		const stored = await make(ada, { kind: 'stored', name: 'ids' });
		names(stored, /^([0-9a-f]{4})([0-9a-f]{4})-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
		assert.equal((await r.ask('GET', `/api/v1/sandboxes/${stored}`, { who: ada })).status, 200);
		assert.equal((await r.ask('GET', `/api/v1/sandboxes/${stored}`, { who: bob })).status, 404);
		const hello = { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } } };
		const mcp = await r.ask('POST', '/mcp', { who: ada, body: hello, headers: { accept: 'application/json, text/event-stream' } });
		names(String(mcp.headers['mcp-session-id']), /^([0-9a-f]{4})([0-9a-f]{4})[0-9a-f]{24}$/);
		const e2b = await r.ask('POST', '/faces/e2b/v2/sandboxes', { who: ada, body: { templateID: 'base', timeout: 60 } });
		names(e2b.json.sandboxID, /^i([0-9a-z]{3})([0-9a-z]{4})[0-9a-z]{12}$/);
		assert.equal((await r.ask('GET', `/faces/e2b/sandboxes/${e2b.json.sandboxID}`, { who: ada })).status, 200);
		assert.equal(tags.size, 5, 'each id has a tag of its own');
		for (const where of [`/api/v1/sandboxes/${id}`, `/api/v1/sandboxes/${stored}`, `/faces/e2b/sandboxes/${e2b.json.sandboxID}`])
			assert.equal((await r.ask('DELETE', where, { who: ada })).status, 204);
	});

	it('bounds the connections of an address until their handshakes are over', async (t) => {
		const address = Object.values(os.networkInterfaces()).flat().find((i) => i && !i.internal && i.family === 'IPv4')?.address;
		if (!address) {
			t.skip('this machine has no address but loopback');
			return;
		}
		const port = await freePort(), pair = r.pair;
		const own = await startWorker(ca, { env: { SANDBOX_TLS_LISTEN: `0.0.0.0:${port}`, SANDBOX_MAX_CONNECTIONS_PER_ADDRESS: '5' } });
		let refused = 0;
		const open = (make: () => net.Socket): net.Socket => make().on('error', () => undefined).on('close', () => { refused++; }).resume();
		const silent = Array.from({ length: 20 }, () => open(() => net.connect(port, address)));
		await until('those over the bound are refused', () => refused === 15);
		silent.forEach((c) => c.destroy());
		await until('the others have gone', () => refused === 20);
		const secure = { host: address, port, rejectUnauthorized: false, cert: fs.readFileSync(pair.cert), key: fs.readFileSync(pair.key) };
		const routers: net.Socket[] = [];
		const isServed = async (): Promise<boolean> => {
			const c = tls.connect(secure);
			routers.push(c);
			c.write('GET /fleet/state HTTP/1.1\r\nHost: w\r\n\r\n');
			return once(c, 'data').then(([data]) => String(data).includes(' 200 '), () => false);
		};
		await until('the worker has seen that', isServed);
		for (let i = 0; i < 20; i++)
			assert.ok(await isServed(), 'a router may have more');
		routers.forEach((c) => c.destroy());
		own.router.end();
		await own.program.end();
	});

	it('does not start with half of its settings, or with those of a router', async () => {
		const start = async (more: Record<string, string>): Promise<string> => {
			const out = await caisson(['serve', '--listen', `127.0.0.1:${await freePort()}`], { env: { ...w.env, SANDBOX_STATE_DIR: newStateDir(), ...more } });
			assert.notEqual(out.code, 0, JSON.stringify(more));
			return out.stderr.toString();
		};
		for (const name of ['SANDBOX_TLS_LISTEN', 'SANDBOX_TLS_CERTIFICATE', 'SANDBOX_TLS_KEY', 'SANDBOX_FLEET_CA', 'SANDBOX_FLEET_KEY'])
			assert.match(await start({ [name]: '' }), new RegExp(`SANDBOX_ROLE=worker needs ${name}`));
		for (const [name, value] of [['SANDBOX_API_KEY', 'a key of at least sixteen'], ['SANDBOX_REQUIRE_AUTH', 'on'], ['SANDBOX_ALLOWED_ORIGINS', 'https://a.example'], ['SANDBOX_UPLOAD_LOCAL_ROOTS', '/tmp'], ['SANDBOX_HTTP_HOST', '127.0.0.1'], ['SANDBOX_HTTP_PORT', '8080'], ['SANDBOX_OBJECTS_CREDENTIALS', '/f']] as const)
			assert.match(await start({ [name]: value }), new RegExp(`${name} .*(routers|elsewhere)`));
		for (const flag of [['--role', 'router'], ['--role=router'], ['--fleet-role', 'router']])
			assert.match((await caisson(['serve', ...flag])).stderr.toString(), /SANDBOX_ROLE=router needs SANDBOX_FLEET_WORKERS/);
		assert.match((await caisson(['serve', '--role', 'none'])).stderr.toString(), /all worker router/);
		assert.match(await start({ SANDBOX_ROLE: 'all' }), /SANDBOX_FLEET_(CA|KEY|NAME) is for members of a fleet/);
		fs.writeFileSync(`${ca.dir}/short`, 'k'.repeat(31), { mode: 0o644 });
		assert.match(await start({ SANDBOX_FLEET_KEY: `${ca.dir}/short` }), /32 to 4096 bytes/);
		assert.match(await start({ SANDBOX_FLEET_CA: `${ca.dir}/short` }), /authority/);
	});

	it('tells its routers before it ends', async () => {
		const today = (): number => Math.floor(Date.now() / 86_400_000), day = today(), kim = user('kim', 'c'), id = await make(ada);
		assert.equal((await r.ask('POST', `/api/v1/sandboxes/${await make(kim)}/runs`, { who: kim, body: { code: 'sum(range(3_000_000))', wait: true } })).status, 201);
		w.program.kill('SIGTERM');
		await until('it says so', async () => (await r.ask('GET', '/fleet/state')).json.draining === true);
		const { json } = await r.ask('GET', '/fleet/state');
		assert.deepEqual([json.draining, json.ready], [true, false]);
		assert.equal((await r.ask('GET', `/api/v1/sandboxes/${id}`, { who: ada })).status, 200, 'what is there is served on');
		const { code: status } = await w.program.exit;
		assert.equal(status, 0);
		/* It goes on counting the CPU time of the day. */
		const again = await startWorker(ca, { env: { SANDBOX_STATE_DIR: w.env.SANDBOX_STATE_DIR! } });
		const row = ((await again.router.ask('GET', '/fleet/uses')).json.uses as (string | number)[][]).find((u) => u[0] === kim.owner);
		if (day === today())
			assert.ok(row?.[3] === day && (row[4] as number) > 0, JSON.stringify(row));
		again.router.end();
		await again.program.end();
	});
});
