// SPDX-License-Identifier: Apache-2.0
// Two routers with one PostgreSQL database: what one changes the other knows, what becomes of both while the database is away, and what
// an operator sees of it. `run` starts the server and reads the lines of node's reporter.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { newStateDir, scratch, slowness } from '../../lib/env.ts';
import { Authority, routerUid } from '../../lib/fake-workers.ts';
import { caisson as run, type Program } from '../../lib/process.ts';
import { serve, type Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';

const SOON_MS = 1_000, PASSWORD = 'hunter2-in-the-address', KEY = 'k'.repeat(40);
const { CAISSON_TEST_DATABASE: address, CAISSON_TEST_DATABASE_KILL: kill, CAISSON_TEST_DATABASE_START: start } = process.env as Record<string, string>;

function sh(command: string): void {
	assert.equal(spawnSync('sh', ['-c', command], { stdio: 'ignore' }).status, 0, command);
}
function psql(sql: string): string {
	const r = spawnSync('psql', ['-qAtX', '-v', 'ON_ERROR_STOP=1', '-d', address!, '-c', sql], { encoding: 'utf8' });
	assert.equal(r.status, 0, r.stderr);
	return r.stdout.trim();
}

const caisson = async (args: string[], env: Record<string, string>): Promise<{ code: number | null; stdout: string; stderr: string }> => {
	const r = await run(args, { env });
	return { code: r.code, stdout: String(r.stdout), stderr: String(r.stderr) };
};

class Router {
	readonly program: Program;
	readonly base: string;
	readonly env: Record<string, string>;

	constructor(program: Program, base: string, env: Record<string, string>) {
		this.program = program;
		this.base = base;
		this.env = env;
	}

	call(method: string, where: string, o: { body?: Json; key?: string; cookie?: string } = {}): Promise<Response> {
		return fetch(this.base + where, {
			method, headers: { ...(o.cookie ? { cookie: o.cookie, origin: this.base, 'sec-fetch-site': 'same-origin', 'x-caisson-page': '1' } : { 'x-api-key': o.key ?? KEY }), ...(o.body ? { 'content-type': 'application/json' } : {}) },
			body: o.body && JSON.stringify(o.body),
		});
	}
	async make(where: string, body: Json): Promise<Json> {
		const r = await this.call('POST', where, { body });
		assert.equal(r.status, 201, await r.clone().text());
		return await r.json() as Json;
	}
	async opens(key: string): Promise<number> {
		return (await this.call('GET', '/api/v1/me', { key })).status;
	}
	log(): string {
		return this.program.stderr + fs.readdirSync(this.env.SANDBOX_STATE_DIR!, { recursive: true, encoding: 'utf8' })
			.filter((f) => f.endsWith('.log')).map((f) => fs.readFileSync(path.join(this.env.SANDBOX_STATE_DIR!, f), 'utf8')).join('');
	}
}

describe('two routers', () => {
	let a: Router, b: Router, base: Record<string, string>;
	const soon = async (what: string, is: () => Promise<boolean>): Promise<void> => {
		const since = performance.now();
		await until(what, is);
		assert.ok(performance.now() - since < SOON_MS * slowness, `${what}: after ${Math.round(performance.now() - since)} ms`);
	};

	const open = async (profile = 'full', more: Record<string, string> = {}): Promise<Router> => {
		const state = newStateDir();
		fs.chownSync(state, routerUid, routerUid);
		const env = { ...base, ...more, SANDBOX_STATE_DIR: state };
		const { program, base: at } = await serve({ profile, env });
		return new Router(program, at, env);
	};

	before(async () => {
		const dir = scratch('routers'), file = (name: string): string => path.join(dir, name);
		fs.chmodSync(path.dirname(dir), 0o711);
		const authority = new Authority(dir), pair = authority.certificate('router');
		fs.writeFileSync(file('fleet.key'), randomBytes(32));
		fs.writeFileSync(file('workers'), '127.0.0.1:9\n');
		fs.writeFileSync(file('database'), `${address!.replace('caisson@', `caisson:${PASSWORD}@`)}\n`, { mode: 0o600 });
		for (const f of [file('fleet.key'), file('workers'), file('database'), pair.cert, pair.key, authority.ca, dir])
			fs.chownSync(f, routerUid, routerUid);
		psql('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
		base = {
			SANDBOX_ROLE: 'router', SANDBOX_FLEET_WORKERS: file('workers'), SANDBOX_FLEET_KEY: file('fleet.key'), SANDBOX_FLEET_CA: authority.ca,
			SANDBOX_FLEET_CERTIFICATE: pair.cert, SANDBOX_FLEET_CERTIFICATE_KEY: pair.key, SANDBOX_API_KEY: KEY, SANDBOX_DATABASE: file('database'),
		};
		[a, b] = await Promise.all([open(), open()]) as [Router, Router];
	});
	after(async () => {
		for (const r of [a, b]) {
			r?.program.kill('SIGTERM');
			assert.equal((await r?.program.exit).code, 0, r?.program.stderr);
		}
	});

	it('a key that one makes opens the other, and one that it revokes does not, within a second', async () => {
		const user = await a.make('/api/v1/users', { name: 'ada', password: 'correct horse battery' });
		const key = await a.make(`/api/v1/keys?owner=${user.id}`, { name: 'laptop' });
		assert.equal(await a.opens(key.key as string), 200);
		await soon('the key opens the other', async () => await b.opens(key.key as string) === 200);
		assert.equal((await a.call('DELETE', `/api/v1/keys/${key.id}?owner=${user.id}`)).status, 204);
		assert.equal(await a.opens(key.key as string), 401);
		await soon('the other refuses it', async () => await b.opens(key.key as string) === 401);
	});

	it('a sign-in and its end count at both, and so does the end of the user', async () => {
		const signIn = await a.call('POST', '/api/v1/session', { body: { username: 'ada', password: 'correct horse battery' }, cookie: 'x=y' });
		assert.equal(signIn.status, 200, await signIn.clone().text());
		const cookies = signIn.headers.getSetCookie().map((c) => c.split(';')[0]).join('; ');
		const port = (r: Router): string => new URL(r.base).port; // it is in the names of cookies; behind a proxy it would be the same one
		const me = async (r: Router): Promise<number> => (await r.call('GET', '/api/v1/me', { cookie: cookies.replaceAll(`-${port(a)}=`, `-${port(r)}=`) })).status;
		assert.equal(await me(a), 200);
		await soon('signed in at the other', async () => await me(b) === 200);
		const { users } = await (await b.call('GET', '/api/v1/users')).json() as { users: Json[] };
		assert.equal((await b.call('DELETE', `/api/v1/users/${users.find((u) => u.name === 'ada')!.id}`)).status, 204);
		assert.equal(await me(b), 401);
		await soon('signed out at the first', async () => await me(a) === 401);
	});

	it('the verbs change the same users, and both routers see it', async () => {
		assert.equal((await caisson(['user', 'add', 'eve', '--password', 'none'], a.env)).code, 0);
		const made = await caisson(['key', 'new', 'eve'], a.env);
		assert.equal(made.code, 0, made.stderr);
		const key = /csn_\S+/.exec(made.stdout)![0];
		for (const r of [a, b])
			await soon('the key opens', async () => await r.opens(key) === 200);
		assert.equal((await caisson(['user', 'rm', 'eve'], a.env)).code, 0);
		for (const r of [a, b])
			await soon('it opens no more', async () => await r.opens(key) === 401);
		assert.match(await (await b.call('GET', '/api/v1/audit')).text(), /user\.remove/);
	});

	it('while the database is away keys open, changes are refused, and it goes on afterwards', async () => {
		const user = await a.make('/api/v1/users', { name: 'bob', password: 'correct horse battery' });
		const key = await a.make(`/api/v1/keys?owner=${user.id}`, { name: 'laptop' });
		await soon('the key opens the other', async () => await b.opens(key.key as string) === 200);
		const figure = async (r: Router, name: string): Promise<string | undefined> => new RegExp(`^caisson_store_${name} (\\d+)$`, 'm').exec(await (await r.call('GET', '/metrics')).text())?.[1];
		assert.deepEqual([await figure(a, 'connected'), await figure(a, 'changes_waiting')], ['1', '0']);
		sh(kill!);
		for (const r of [a, b]) {
			assert.equal(await r.opens(key.key as string), 200);
			const refused = await r.call('POST', '/api/v1/users', { body: { name: 'zoe', password: 'correct horse battery' } });
			assert.equal(refused.status, 503);
			const answer = await refused.json() as Json;
			assert.equal(answer.code, 'store_unreachable', JSON.stringify(answer));
			assert.doesNotMatch(JSON.stringify(answer), /\/tmp|socket|connection to/, 'it says nothing of where the database is');
			const read = await r.call('GET', '/api/v1/audit');
			assert.equal(read.status, 503);
			assert.doesNotMatch(await read.text(), /\/tmp|socket|connection to/);
			assert.equal(await figure(r, 'connected'), '0');
		}
		await until('the copy ages', async () => Number(await figure(a, 'copy_age_seconds')) >= 1, 5_000);
		sh(start!);
		psql(`UPDATE users SET active = 0 WHERE name = 'bob'`);
		for (const r of [a, b])
			await until('it has heard of it', async () => await r.opens(key.key as string) === 401, 5_000);
		assert.equal(await figure(a, 'connected'), '1');
		await until('changes are possible', async () => (await a.call('POST', '/api/v1/users', { body: { name: 'zoe', password: 'correct horse battery' } })).status === 201, 5_000);
		assert.equal(psql(`SELECT count(*) FROM users WHERE name = 'zoe'`), '1');
	});

	it('one user cannot take all places for changes that wait', async () => {
		const keyOf = async (name: string): Promise<string> => {
			const user = await a.make('/api/v1/users', { name });
			return (await a.make(`/api/v1/keys?owner=${user.id}`, {})).key as string;
		};
		const greedy = await keyOf('greedy'), other = await keyOf('other');
		const lock = spawn('psql', ['-qAtX', '-d', address!], { stdio: ['pipe', 'pipe', 'inherit'] });
		lock.stdin.write(`BEGIN; LOCK TABLE keys IN EXCLUSIVE MODE; SELECT 'locked';\n`);
		await once(lock.stdout, 'data');
		const make = (key: string): Promise<Response> => a.call('POST', '/api/v1/keys', { key, body: {} });
		const waiting = Array.from({ length: 72 }, () => make(greedy));
		const refused = await Promise.any(waiting); // nothing else is answered as long as the table is locked
		assert.equal(refused.status, 503);
		const answer = await refused.json() as Json;
		assert.equal(answer.code, 'store_busy', JSON.stringify(answer));
		assert.match(JSON.stringify(answer), /64 of your changes wait/);
		const others = make(other);
		lock.stdin.end('COMMIT;\n');
		assert.equal((await others).status, 201);
		const answers = (await Promise.all(waiting)).map((r) => r.status);
		assert.deepEqual([answers.filter((s) => s === 201).length, answers.filter((s) => s === 503).length], [64, 8]);
	});

	it('routes of the second family answer when the database has it, too', async () => {
		const c = await open('classic', { SANDBOX_OPEN_REGISTRATION: 'on' });
		const holder = spawn('psql', ['-qX', '-d', address!, '-c', 'BEGIN; SELECT pg_advisory_xact_lock(8386112020297315432); SELECT pg_sleep(2); COMMIT'], { stdio: 'ignore' });
		const held = once(holder, 'exit');
		await until('the lock is held', () => psql(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'`) !== '0');
		const made = await c.call('POST', '/api/register', { body: { username: 'kim', email: 'kim@example.org', password: 'correct horse battery' } });
		assert.equal(made.status, 200, await made.clone().text());
		assert.equal(psql(`SELECT count(*) FROM keys WHERE "user" = (SELECT id FROM users WHERE name = 'kim')`), '1');
		await held;
		c.program.kill('SIGTERM');
		assert.equal((await c.program.exit).code, 0, c.program.stderr);
	});

	it('shows the password to nobody', async () => {
		const shown = await caisson(['config'], { ...a.env, SANDBOX_DATABASE: address!.replace('caisson@', `caisson:${PASSWORD}@`) });
		assert.match(shown.stdout, /SANDBOX_DATABASE\s+\(set\)/);
		for (const text of [shown.stdout, shown.stderr, a.log(), b.log()])
			assert.ok(!text.includes(PASSWORD), 'the password');
	});

	it('doctor says what is there', async () => {
		const row = (out: string): string => /^.*database .*$/m.exec(out)?.[0] ?? out;
		assert.match(row((await caisson(['doctor'], a.env)).stdout), /PostgreSQL \d+, tables of version \d+/);
		const away = await caisson(['doctor'], { ...a.env, SANDBOX_DATABASE: `postgresql://u:${PASSWORD}@/d?host=/nonexistent` });
		assert.match(away.stdout, /database.*connecting/);
		assert.ok(!away.stdout.includes(PASSWORD));
	});

	it('no server starts that the setting is not for, or that is older than the tables', async () => {
		const refusal = async (env: Record<string, string>): Promise<string> => {
			const r = await caisson(['serve', '--listen', '127.0.0.1:0'], { ...a.env, ...env });
			assert.notEqual(r.code, 0);
			return r.stderr + r.stdout;
		};
		assert.match(await refusal({ SANDBOX_ROLE: 'all', SANDBOX_FLEET_WORKERS: '', SANDBOX_FLEET_KEY: '', SANDBOX_FLEET_CA: '', SANDBOX_FLEET_CERTIFICATE: '', SANDBOX_FLEET_CERTIFICATE_KEY: '' }), /SANDBOX_DATABASE is for the routers/);
		assert.match(await refusal({ SANDBOX_DATABASE: '/nonexistent/database' }), /cannot read its file/);
		const empty = path.join(a.env.SANDBOX_STATE_DIR!, 'empty');
		fs.writeFileSync(empty, '');
		fs.chownSync(empty, routerUid, routerUid);
		assert.match(await refusal({ SANDBOX_DATABASE: empty }), /its file is empty/);
		assert.match(await refusal({ SANDBOX_DATABASE: 'mysql://example.org/d' }), /give postgresql:/);
		psql('INSERT INTO migrations VALUES(9999, 0)');
		assert.match(await refusal({}), /newer version of this program/);
		psql('DELETE FROM migrations WHERE version = 9999');
	});

	it('move-users takes users, keys and audit log along, into an empty database only', async () => {
		const state = newStateDir(), env = { SANDBOX_STATE_DIR: state }, there = { ...env, SANDBOX_DATABASE: address!.replace('/caisson?', '/moved?') };
		assert.equal((await caisson(['user', 'add', 'ida', '--password', 'none'], env)).code, 0);
		const key = (await caisson(['key', 'new', 'ida'], env)).stdout;
		assert.match(key, /csn_/);
		psql('DROP DATABASE IF EXISTS moved');
		psql('CREATE DATABASE moved');
		const moved = await caisson(['move-users'], there);
		assert.equal(moved.code, 0, moved.stderr);
		assert.match(moved.stdout, /^copied 1 users, 1 keys and 2 rows of the audit log$/m);
		assert.match((await caisson(['key', 'list', 'ida'], there)).stdout, new RegExp(/csn_[\w-]{6}/.exec(key)![0]));
		assert.equal((await caisson(['user', 'passwd', 'ida', '--password', 'generate'], there)).code, 0);
		const again = await caisson(['move-users'], there);
		assert.notEqual(again.code, 0);
		assert.match(again.stderr, /is not empty \(1 users, 3 rows/);
		assert.match((await caisson(['move-users'], env)).stderr, /SANDBOX_DATABASE/);
	});
});
