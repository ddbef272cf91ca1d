// SPDX-License-Identifier: Apache-2.0
// Stored sandboxes that move: a router with PostgreSQL and an object store, and two real workers, which are killed.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { newStateDir, scratch } from '../../lib/env.ts';
import { routerUid } from '../../lib/fake-workers.ts';
import { ObjectStore } from '../../lib/object-store.ts';
import { startFleet, type RealFleet } from '../../lib/real-fleet.ts';
import type { Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';

const { CAISSON_TEST_DATABASE: address } = process.env as Record<string, string>, KEY = 'k'.repeat(40), LOST_MS = 60_000;

function psql(sql: string): string {
	const r = spawnSync('psql', ['-qAtX', '-v', 'ON_ERROR_STOP=1', '-d', address!, '-c', sql], { encoding: 'utf8' });
	assert.equal(r.status, 0, r.stderr);
	return r.stdout.trim();
}

describe('sandboxes that move', () => {
	const states: string[] = [];
	let fleet: RealFleet, store: ObjectStore;

	before(async () => {
		const dir = scratch('moves'), file = (name: string): string => path.join(dir, name);
		fs.chmodSync(path.dirname(dir), 0o711);
		fs.writeFileSync(file('credentials'), 'aws_access_key_id = TESTS\naws_secret_access_key = secret\n');
		fs.writeFileSync(file('snapshots.key'), randomBytes(32));
		fs.writeFileSync(file('database'), `${address}\n`);
		for (const f of [file('credentials'), file('snapshots.key'), file('database'), dir])
			fs.chownSync(f, routerUid, routerUid);
		psql('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
		store = await new ObjectStore().begin();
		fleet = await startFleet('moves', {
			router: {
				SANDBOX_API_KEY: KEY, SANDBOX_DATABASE: file('database'), SANDBOX_OBJECTS_ENDPOINT: store.address('').slice(0, -1), SANDBOX_OBJECTS_BUCKET: 'bucket', SANDBOX_OBJECTS_PATH_STYLE: 'on',
				SANDBOX_OBJECTS_CREDENTIALS: file('credentials'), SANDBOX_OBJECTS_KEY: file('snapshots.key'),
			},
			state: () => states[states.push(newStateDir()) - 1]!,
			worker: { SANDBOX_STORED_MAX_ACTIVE: '1', SANDBOX_USER_SANDBOX_LIMIT: '100' },
		});
	});
	after(async () => {
		await fleet?.end();
		store?.end();
	});

	const call = async (method: string, where: string, body?: Json): Promise<{ status: number; json: Json; text: string; headers: Headers }> => {
		const r = await fetch(fleet.base + where, { method, headers: { 'x-api-key': KEY, ...(body ? { 'content-type': 'application/json' } : {}) }, body: body && JSON.stringify(body) });
		const text = await r.text();
		return { status: r.status, json: r.headers.get('content-type')?.includes('json') ? JSON.parse(text) as Json : {}, text, headers: r.headers };
	};
	const run = async (id: string, code: string): Promise<string> => {
		const r = await call('POST', `/api/v1/sandboxes/${id}/runs`, { wait: true, code });
		assert.deepEqual([r.status, r.json.exit_code], [201, 0], r.text);
		return r.json.stdout as string;
	};
	const make = async (): Promise<string> => {
		const r = await call('POST', '/api/v1/sandboxes', { kind: 'stored' });
		assert.equal(r.status, 201, r.text);
		return r.json.id as string;
	};
	/** Which of the two workers has the short id that ID names. */
	const workerOf = async (short: string): Promise<number> => {
		const all = (await call('GET', '/api/v1/fleet')).json.workers as { id: string; name: string }[];
		return ['one', 'two'].indexOf(all.find((w) => w.id === short)!.name);
	};
	const row = (id: string): string[] => psql(`SELECT worker, loading, epoch, snap_generation, removed_ms > 0 FROM snapshots WHERE id = '${id}'`).split('|');
	const short = (id: string): string => parseInt(id.slice(0, 4), 16).toString(36).padStart(3, '0');
	const saved = async (id: string, generation: number): Promise<void> => { await until('it is saved', () => Number(row(id)[3] ?? 0) >= generation, 30_000); };
	/** Each worker may have one active: others on it come to rest. */
	const rest = async (id: string, generation: number): Promise<void> => {
		const others: string[] = [];
		for (let i = 0; i < 8; i++)
			others.push(await make());
		await saved(id, generation);
		for (const other of others)
			assert.equal((await call('DELETE', `/api/v1/sandboxes/${other}?force=true`)).status, 204);
	};
	let id = '', home = 0;

	it('are saved when they come to rest', async () => {
		id = await make();
		await run(id, "_ = open('kept.txt', 'w').write('from its first worker')");
		await rest(id, 1);
		home = await workerOf(short(id));
		assert.deepEqual(row(id).slice(0, 3), [short(id), '0', '0']);
		assert.ok([...store.objects.keys()].some((name) => name.endsWith('/0-1/manifest')));
	});

	it('are used on another worker when theirs is killed', async () => {
		fleet.workers[home]!.kill('SIGKILL');
		await fleet.workers[home]!.exit;
		const soon = await call('GET', `/api/v1/sandboxes/${id}/files/kept.txt`);
		assert.equal(soon.json.code, 'node_unreachable', 'it may come back');
		let r = soon;
		await until('it is used elsewhere', async () => {
			r = await call('GET', `/api/v1/sandboxes/${id}/files/kept.txt`);
			return r.status === 200;
		}, LOST_MS);
		assert.equal(r.text, 'from its first worker');
		assert.deepEqual(row(id).slice(1, 3), ['0', '1']);
		assert.notEqual(row(id)[0], short(id));
		assert.equal(await run(id, "_ = open('new.txt', 'w').write('from its second'); print(open('kept.txt').read(), end='')"), 'from its first worker');
	});

	it('have names for their servers there', async () => {
		assert.equal((await call('POST', `/api/v1/sandboxes/${id}/processes`, { command: 'exec python3 -m http.server 8000' })).status, 201);
		await until('it listens', async () => ((await call('GET', `/api/v1/sandboxes/${id}/ports`)).json.ports as Json[]).some((p) => p.port === 8000), 10_000);
		const url = new URL((await call('POST', `/api/v1/sandboxes/${id}/ports`, { port: 8000 })).json.url as string);
		const text = await new Promise<string>((resolve, reject) => {
			http.get({ host: '127.0.0.1', port: fleet.port, path: '/kept.txt', agent: false, headers: { host: url.host, 'x-api-key': KEY } }, (r) => {
				let said = '';
				r.setEncoding('utf8').on('data', (s: string) => (said += s)).on('end', () => resolve(said));
			}).on('error', reject);
		});
		assert.equal(text, 'from its first worker');
	});

	it('are nobody else\'s, and unknown ones are not looked for', async () => {
		const user = await call('POST', '/api/v1/users', { name: 'eva', password: 'correct horse battery' });
		const key = await call('POST', `/api/v1/keys?owner=${user.json.id}`, { name: 'k' });
		const r = await fetch(`${fleet.base}/api/v1/sandboxes/${id}`, { headers: { 'x-api-key': key.json.key as string } });
		assert.equal(r.status, 404);
	});

	it('leave the worker that comes back', async () => {
		await fleet.again(home);
		await until('its copy is dropped', () => fleet.workers[home]!.stderr.includes('sandbox_moved_away') && fleet.workers[home]!.stderr.includes('sandbox_deleted'), 30_000);
		assert.equal(await run(id, "print(open('new.txt').read(), end='')"), 'from its second');
		const list = await call('GET', '/api/v1/sandboxes');
		assert.equal((list.json.sandboxes as { id: string }[]).filter((s) => s.id === id).length, 1);
	});

	it('are not claimed or removed by a worker that once had them', async () => {
		const incarnation = psql(`SELECT incarnation FROM snapshots WHERE id = '${id}'`), before = row(id), strange = 'ef'.repeat(16);
		/** What somebody who took that worker over would have it say. */
		const say = async (epoch: number, removed: number): Promise<void> => {
			fleet.workers[home]!.kill('SIGKILL');
			await fleet.workers[home]!.exit;
			const open = (): DatabaseSync => new DatabaseSync(path.join(states[home]!, 'caisson.db')), db = open();
			db.exec(`DELETE FROM moving WHERE incarnation IN ('${incarnation}', '${strange}'); INSERT INTO moving VALUES('${incarnation}', '${id}', '', ${epoch}, 9, 1, ${removed}, '${'ab'.repeat(16)}'), ('${strange}', 'x', '', 0, 1, 1, 1, '')`);
			db.close();
			await fleet.again(home);
			await until('the router has heard all of it', () => {
				const now = open(), { n } = now.prepare('SELECT count(*) AS n FROM moving WHERE incarnation = ?').get(strange) as { n: number };
				now.close();
				return n === 0;
			}, 30_000);
			assert.equal(await run(id, "print(open('new.txt').read(), end='')"), 'from its second');
			assert.deepEqual(row(id), before, `epoch ${epoch}, removed ${removed}`);
		};
		await say(99, 0);
		await say(1, 1);
		await say(99, 1);
	});

	it('are as new as their worker says when the database was restored', async () => {
		const there = await workerOf(row(id)[0]!);
		fleet.workers[there]!.kill('SIGKILL');
		await fleet.workers[there]!.exit;
		psql(`UPDATE snapshots SET epoch = 0, worker = '', version = version + 1000000 WHERE id = '${id}'; UPDATE snapshot_clock SET n = n + 2000000`);
		await fleet.again(there);
		await until('the row has the epoch of the worker', () => row(id)[2] === '1', 30_000);
		await until('it is used there', async () => (await call('GET', `/api/v1/sandboxes/${id}/files/new.txt`)).text === 'from its second', 30_000);
	});

	it('are saved there, too, and deleted with their objects', async () => {
		await rest(id, 1);
		await until('its second state is saved', () => psql(`SELECT snap_epoch FROM snapshots WHERE id = '${id}'`) === '1', 30_000);
		assert.equal((await call('DELETE', `/api/v1/sandboxes/${id}?force=true`)).status, 204);
		await until('the row says so', () => row(id)[4] === 't' || row(id)[0] === '', 30_000);
		const incarnation = psql(`SELECT incarnation FROM snapshots WHERE id = '${id}'`), left = (): number => [...store.objects.keys()].filter((name) => name.includes(incarnation)).length;
		assert.ok(left() > 0, 'they stay for a day');
		await until('its objects are gone', () => {
			psql(`UPDATE snapshot_objects SET dead_ms = 1 WHERE incarnation = '${incarnation}' AND dead_ms > 0`);
			return left() === 0;
		}, 90_000);
		/* A worker that was away may have a copy still, so the row stays for longer. */
		assert.deepEqual([row(id)[0], row(id)[4]], ['', 't']);
		psql(`UPDATE snapshots SET removed_ms = 1 WHERE incarnation = '${incarnation}'`);
		await until('so is the row', () => row(id).length === 1, 30_000);
	});

	it('are loaded anew when their worker has lost its disk', async () => {
		const other = await make();
		await run(other, "_ = open('kept.txt', 'w').write('once more')");
		await rest(other, 1);
		const there = await workerOf(short(other));
		fleet.workers[there]!.kill('SIGKILL');
		await fleet.workers[there]!.exit;
		await fleet.again(there, true);
		await until('it is used again', async () => (await call('GET', `/api/v1/sandboxes/${other}/files/kept.txt`)).text === 'once more', 30_000);
		assert.equal(row(other)[2], '1');
	});

	it('are saved before their worker ends, whose disk may go with it', async () => {
		const last = await make(), there = await workerOf(short(last));
		assert.equal((await call('POST', `/api/v1/sandboxes/${last}/runs`, { wait: true, stateful: true, code: "_ = open('kept.txt', 'w').write('written just before'); kept = 42" })).json.exit_code, 0);
		fleet.workers[there]!.kill('SIGTERM');
		await fleet.workers[there]!.exit;
		assert.ok(!fleet.workers[there]!.stderr.includes('end_before_all_is_saved'), fleet.workers[there]!.stderr);
		await fleet.again(there, true);
		await until('it is used again', async () => (await call('GET', `/api/v1/sandboxes/${last}/files/kept.txt`)).text === 'written just before', 30_000);
		const r = await call('POST', `/api/v1/sandboxes/${last}/runs`, { wait: true, code: 'print(kept)', stateful: true });
		assert.equal(r.json.stdout, '42\n', r.text);
	});
});
