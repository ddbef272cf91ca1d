// SPDX-License-Identifier: Apache-2.0
// What a router believes of the lists of stored sandboxes that workers tell it. The workers only look like ones; the rows are in PostgreSQL.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { scratch } from '../../lib/env.ts';
import { FakeFleet } from '../../lib/fake-fleet.ts';
import { routerUid, type FakeWorker } from '../../lib/fake-workers.ts';
import { ObjectStore } from '../../lib/object-store.ts';
import type { Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';

const { CAISSON_TEST_DATABASE: address } = process.env as Record<string, string>;

function psql(sql: string): string {
	const r = spawnSync('psql', ['-qAtX', '-v', 'ON_ERROR_STOP=1', '-d', address!, '-c', sql], { encoding: 'utf8' });
	assert.equal(r.status, 0, r.stderr);
	return r.stdout.trim();
}

describe('lists of stored sandboxes', () => {
	const fleet = new FakeFleet();
	let store: ObjectStore, worker: FakeWorker, list: Json[] = [], onList: () => void = () => undefined;
	const orders: Json[] = [];

	before(async () => {
		const dir = scratch('lists'), file = (name: string): string => path.join(dir, name);
		fs.chmodSync(path.dirname(dir), 0o711);
		fs.writeFileSync(file('credentials'), 'aws_access_key_id = TESTS\naws_secret_access_key = secret\n');
		fs.writeFileSync(file('snapshots.key'), randomBytes(32));
		fs.writeFileSync(file('database'), `${address}\n`);
		for (const f of [file('credentials'), file('snapshots.key'), file('database'), dir])
			fs.chownSync(f, routerUid, routerUid);
		psql('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
		store = await new ObjectStore().begin();
		await fleet.begin('lists-fleet', {
			SANDBOX_DATABASE: file('database'), SANDBOX_OBJECTS_ENDPOINT: store.address('').slice(0, -1), SANDBOX_OBJECTS_BUCKET: 'bucket', SANDBOX_OBJECTS_PATH_STYLE: 'on',
			SANDBOX_OBJECTS_CREDENTIALS: file('credentials'), SANDBOX_OBJECTS_KEY: file('snapshots.key'),
		});
		worker = fleet.one;
		worker.handler = (req, res, body) => {
			if (req.url!.startsWith('/fleet/stored?')) {
				const all = !req.url!.includes('unsaved=1');
				const stored = all ? [...list] : [];
				if (all)
					onList();
				worker.say(res, 200, { v: 1, version: worker.stored, stored });
			} else if (req.method === 'POST' && req.url === '/fleet/orders') {
				orders.push(JSON.parse(body.toString()) as Json);
				worker.say(res, 204, undefined);
			} else {
				worker.answer(req, res);
			}
		};
	});
	after(async () => {
		await fleet.end();
		store?.end();
	});

	/** A row of a sandbox that is saved; with the next version, as every change. */
	const insert = (incarnation: string, at: string, epoch: number, removed = 0): void => {
		psql(`UPDATE snapshot_clock SET n = n + 1; INSERT INTO snapshots SELECT '${incarnation}', 'id-${incarnation}', '', '${at}', 0, ${epoch}, 1, ${epoch}, 1, '${'0'.repeat(64)}', 1, 1, 1, ${removed}, n FROM snapshot_clock`);
	};
	const row = (incarnation: string): string => psql(`SELECT worker, epoch, removed_ms > 0 FROM snapshots WHERE incarnation = '${incarnation}'`);
	const told = (incarnation: string, epoch: number, removed = false): Json => ({
		incarnation, id: `id-${incarnation}`, owner: '', epoch, change: 1, saved: 1, removed, at_rest: true, disk_bytes: 1, proof: 'ab'.repeat(16),
	});
	const [lost, arrived, nobodys, ended] = ['1', '2', '3', '4'].map((c) => c.repeat(32)) as [string, string, string, string];

	it('do not make lost what arrives while they are read', async () => {
		let asked = 0;
		insert(lost, worker.id, 1);
		insert(nobodys, '', 1);
		insert(ended, 'zz9', 1, Date.now());
		/* The list was made, and is on its way, when another router has brought a sandbox here. */
		onList = () => {
			if (++asked === 1) {
				insert(arrived, worker.id, 1);
				list.push(told(arrived, 1));
			}
		};
		list = [told(nobodys, 1, true), told(ended, 0)];
		worker.stored = '1';
		await until('what it has not is nowhere', () => row(lost) === '|1|f', 15_000);
		const compared = (n: number): Promise<true> => until(`${n} lists are compared`, () => orders.filter((o) => o.kind === 'drop').length >= n, 15_000);
		await compared(1);
		assert.equal(row(arrived), `${worker.id}|1|f`);
		await until('the list is read again', () => asked > 1, 15_000);
		await compared(2);
		assert.equal(row(arrived), `${worker.id}|1|f`);
	});

	it('remove nothing that was not given to their worker', async () => {
		await until('it is to forget it', () => orders.some((o) => o.kind === 'forget' && o.incarnation === nobodys));
		assert.equal(row(nobodys), '|1|f');
	});

	it('are corrected where their worker has what was removed elsewhere', () => {
		assert.ok(orders.some((o) => o.kind === 'drop' && o.incarnation === ended && o.epoch === 1), JSON.stringify(orders));
	});
});
