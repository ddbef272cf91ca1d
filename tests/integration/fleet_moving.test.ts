// SPDX-License-Identifier: Apache-2.0
// Stored sandboxes that leave a worker and come to another one, as a router orders it.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { Authority, startWorker, user, type Answer, type Worker } from '../lib/fleet.ts';
import { mode } from '../lib/env.ts';
import { ObjectStore } from '../lib/object-store.ts';
import type { Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

interface Row { id: string; incarnation: string; epoch: number; change: number; saved: number; removed: boolean; at_rest: boolean; disk_bytes: number }
interface State { order: string; state: string; wants: number; bytes: number; error?: { code: string; text: string }; hash?: string; keeps?: [number, number, string][] }
interface Saved { epoch: number; generation: number; hash: string; sent: number; keeps: [number, number, string][] }

const MANIFEST = 16384, ada = user('ada', 'a'), key = randomBytes(32).toString('base64');

describe('stored sandboxes that move between workers', { skip: mode !== 'root' && 'disks alone move, and a plain user has folders' }, () => {
	let one: Worker, two: Worker, store: ObjectStore;

	before(async () => {
		const ca = new Authority('moving'), env = { SANDBOX_STORED_MAX_ACTIVE: '1' };
		store = await new ObjectStore().begin();
		one = await startWorker(ca, { env: { ...env, SANDBOX_FLEET_NAME: 'one' } });
		two = await startWorker(ca, { env: { ...env, SANDBOX_FLEET_NAME: 'two' } });
	});
	after(async () => {
		for (const w of [one, two]) {
			w?.router.end();
			await w?.program.end();
		}
		store?.end();
	});

	const code = (a: Answer): [number, unknown] => [a.status, a.json.code];
	const rows = async (w: Worker, unsaved = false): Promise<Row[]> => (await w.router.ask('GET', `/fleet/stored${unsaved ? '?unsaved=1' : ''}`)).json.stored as Row[];
	const rowOf = async (w: Worker, id: string): Promise<Row | undefined> => (await rows(w)).find((r) => r.id === id);
	const run = async (w: Worker, id: string, program: string): Promise<string> => {
		const r = await w.router.ask('POST', `/api/v1/sandboxes/${id}/runs`, { who: ada, body: { wait: true, code: program } });
		assert.deepEqual([r.status, r.json.exit_code], [201, 0], r.text);
		return r.json.stdout as string;
	};
	const write = (w: Worker, id: string, name: string, text: string): Promise<string> => run(w, id, `_ = open('${name}', 'w').write(${JSON.stringify(text)})`);
	const read = (w: Worker, id: string, name: string): Promise<string> => run(w, id, `print(open('${name}').read(), end='')`);
	const make = async (w: Worker, name: string): Promise<string> => {
		const r = await w.router.ask('POST', '/api/v1/sandboxes', { who: ada, body: { kind: 'stored', name } });
		assert.equal(r.status, 201, r.text);
		return r.json.id as string;
	};
	/** Only one may be active: another one that becomes so puts it to rest. */
	const rest = async (w: Worker, id: string): Promise<Row> => {
		const other = await make(w, 'other');
		await until('it is at rest', async () => (await rowOf(w, id))!.at_rest);
		await remove(other, w);
		return (await rowOf(w, id))!;
	};
	/** An owner may have three. */
	const remove = async (id: string, ...workers: Worker[]): Promise<void> => {
		for (const w of workers)
			assert.equal((await w.router.ask('DELETE', `/api/v1/sandboxes/${id}?force=true`, { who: ada })).status, 204);
	};
	const order = (w: Worker, body: Json): Promise<Answer> => w.router.ask('POST', '/fleet/orders', { body: { v: 1, ...body } });
	const stateOf = async (w: Worker, name: string): Promise<State> => ((await w.router.ask('GET', '/fleet/orders')).json.orders as State[]).find((o) => o.order === name)!;
	const nameOf = (row: { incarnation: string }, epoch: number, generation: number, index: number): string => `caisson/${row.incarnation}/${epoch}-${generation}/${index === MANIFEST ? 'manifest' : index.toString(16).padStart(4, '0')}`;
	/** Gives the order what it wants until it is over. Returns its last state, and how many objects it wanted. */
	const drive = async (w: Worker, name: string, row: { incarnation: string }): Promise<{ state: State; sent: number }> => {
		let state = await stateOf(w, name), sent = 0;
		await until('the order is over', async () => {
			state = await stateOf(w, name);
			if (state.state === 'wants' && state.wants > 0) {
				const { wants } = (await w.router.ask('GET', `/fleet/orders/${name}/wants`)).json as { wants: [number, number, number, number][] };
				sent += wants.length;
				const r = await w.router.ask('POST', `/fleet/orders/${name}/addresses`, { body: { v: 1, addresses: wants.slice(0, 128).map(([e, g, i]) => [e, g, i, store.address(nameOf(row, e, g, i))]) } });
				assert.ok(r.status === 204 || (await stateOf(w, name)).state === 'failed', r.text);
			}
			return state.state === 'done' || state.state === 'failed';
		}, 30_000);
		return { state, sent };
	};
	const ended = async (w: Worker, name: string, keep: boolean): Promise<void> => assert.equal((await w.router.ask('POST', `/fleet/orders/${name}/end`, { body: { v: 1, keep } })).status, 204);
	const saveWords = (row: Row, generation: number, base: Saved | null): Json => ({
		kind: 'save', id: row.id, owner: ada.owner, incarnation: row.incarnation, epoch: row.epoch, generation, change: row.change, key,
		base: base && { epoch: base.epoch, generation: base.generation, hash: base.hash, address: store.address(nameOf(row, base.epoch, base.generation, MANIFEST)) },
	});
	const save = async (w: Worker, row: Row, generation: number, base: Saved | null = null): Promise<Saved> => {
		const begun = await order(w, saveWords(row, generation, base));
		assert.equal(begun.status, 202, begun.text);
		const name = begun.json.order as string, { state, sent } = await drive(w, name, row);
		assert.equal(state.state, 'done', JSON.stringify(state.error));
		await ended(w, name, true);
		return { epoch: row.epoch, generation, hash: state.hash!, sent, keeps: state.keeps! };
	};
	const loadWords = (row: Row, saved: Saved, epoch: number, more: Json = {}): Json => ({
		kind: 'load', id: row.id, owner: ada.owner, incarnation: row.incarnation, epoch, snap_epoch: saved.epoch, generation: saved.generation, key, hash: saved.hash,
		address: store.address(nameOf(row, saved.epoch, saved.generation, MANIFEST)), disk_bytes: 64 * 2 ** 30, proof: 'cd'.repeat(16), ...more,
	});
	const load = async (w: Worker, row: Row, saved: Saved, epoch: number, more: Json = {}): Promise<State> => {
		const begun = await order(w, loadWords(row, saved, epoch, more));
		assert.equal(begun.status, 202, begun.text);
		const { state } = await drive(w, begun.json.order as string, row);
		await ended(w, begun.json.order as string, true);
		return state;
	};

	it('are saved at rest, and used elsewhere with all that was in them (slow)', async () => {
		const id = await make(one, 'first');
		await write(one, id, 'a.txt', 'from the first worker');
		const active = (await rowOf(one, id))!;
		assert.deepEqual(code(await order(one, saveWords(active, 1, null))), [409, 'sandbox_in_use'], 'it is active');
		const row = await rest(one, id);
		assert.ok((await rows(one, true)).some((r) => r.id === id), 'it is not saved');
		const saved = await save(one, row, 1);
		assert.ok(saved.sent > 1);
		assert.ok(!(await rows(one, true)).some((r) => r.id === id), 'now it is');
		assert.ok([...store.objects.values()].every((o) => o.length % 65536 === 0 && !o.includes('from the first worker')));

		/* The same files, name and options. */
		const state = await load(two, row, saved, 1);
		assert.equal(state.state, 'done', JSON.stringify(state.error));
		assert.equal(await read(two, id, 'a.txt'), 'from the first worker');
		assert.equal((await two.router.ask('GET', `/api/v1/sandboxes/${id}`, { who: ada })).json.name, 'first');
		assert.deepEqual(code(await order(two, loadWords(row, saved, 1))).slice(0, 1), [202], 'a load that comes too late');
		await until('that one fails', async () => ((await two.router.ask('GET', '/fleet/orders')).json.orders as State[]).every((o) => o.state === 'failed'));
		for (const o of (await two.router.ask('GET', '/fleet/orders')).json.orders as State[])
			await ended(two, o.order, false);

		/* The first worker hears that it is not its own any more. */
		assert.equal((await order(one, { kind: 'drop', incarnation: row.incarnation, epoch: 0 })).status, 404, 'its epoch is no older one');
		assert.equal((await order(one, { kind: 'drop', incarnation: row.incarnation, epoch: 1 })).status, 202);
		await until('it is gone there', async () => !await rowOf(one, id));
		assert.equal((await one.router.ask('GET', `/api/v1/sandboxes/${id}`, { who: ada })).status, 404);

		/* And back, with a change. */
		await write(two, id, 'b.txt', 'from the second');
		const there = await rest(two, id), again = await save(two, there, 1, saved);
		assert.ok(again.sent < saved.sent + 2 && again.keeps.length >= 1);
		const back = await load(one, row, again, 2);
		assert.equal(back.state, 'done', JSON.stringify(back.error));
		assert.equal(await read(one, id, 'a.txt') + await read(one, id, 'b.txt'), 'from the first workerfrom the second');
		assert.equal((await one.router.ask('DELETE', `/api/v1/sandboxes/${id}?force=true`, { who: ada })).status, 204);
		const grave = (await rowOf(one, id))!;
		assert.ok(grave.removed, 'routers are to hear of it');
		assert.equal((await order(one, { kind: 'forget', incarnation: grave.incarnation })).status, 204);
		assert.equal(await rowOf(one, id), undefined);
	});

	it('go first when somebody wants them, and send only what has changed (slow)', async () => {
		const id = await make(one, 'busy');
		await run(one, id, "import os\nfor i in range(3):\n    open(f'big{i}', 'wb').write(os.urandom(6 << 20))");
		const row = await rest(one, id), saved = await save(one, row, 1);
		await write(one, id, 'small', 'y');
		const next = await rest(one, id), more = await save(one, next, 2, saved);
		assert.ok(more.sent < saved.sent, `${more.sent} of ${saved.sent}`);
		assert.equal(more.keeps.length, 2, 'objects of both are needed');

		const begun = await order(one, saveWords((await rowOf(one, id))!, 3, more));
		assert.equal(begun.status, 202, begun.text);
		assert.equal(await read(one, id, 'small'), 'y');
		const state = await stateOf(one, begun.json.order as string);
		assert.deepEqual([state.state, state.error?.code], ['failed', 'sandbox_in_use']);
		await ended(one, begun.json.order as string, false);
		await rest(one, id);
		const deleted = await order(one, saveWords((await rowOf(one, id))!, 4, more));
		assert.equal(deleted.status, 202, deleted.text);
		assert.equal((await one.router.ask('DELETE', `/api/v1/sandboxes/${id}`, { who: ada })).status, 204);
		await until('the order has ended', async () => (await stateOf(one, deleted.json.order as string)).state === 'failed');
		await ended(one, deleted.json.order as string, false);
		assert.equal((await order(one, { kind: 'forget', incarnation: row.incarnation })).status, 204);
	});

	it('come not at all if anything is wrong with what was saved (slow)', async () => {
		const id = await make(one, 'spoiled');
		await write(one, id, 'f', 'text');
		const row = await rest(one, id), saved = await save(one, row, 1);
		const first = saved.keeps[0]!, bits = Buffer.from(first[2], 'base64'), index = bits.findIndex((b) => b !== 0) * 8 + Math.log2(bits.find((b) => b !== 0)! & -bits.find((b) => b !== 0)!);
		const name = nameOf(row, 0, 1, index), right = store.objects.get(name)!;
		const refused = async (what: string, more: Json = {}): Promise<void> => {
			const state = await load(two, row, saved, 1, more);
			assert.deepEqual([state.state, state.error?.code], ['failed', 'snapshot_invalid'], `${what}: ${JSON.stringify(state)}`);
			assert.equal(await rowOf(two, id), undefined, what);
		};
		const spoiled = Buffer.from(right);
		spoiled[100]! ^= 1;
		store.objects.set(name, spoiled);
		await refused('one bit');
		store.objects.delete(name);
		await refused('a block that is gone');
		store.objects.set(name, right);
		await refused('another hash', { hash: 'ab'.repeat(32) });
		await refused('another key', { key: randomBytes(32).toString('base64') });
		await refused('a disk that is larger than it may be', { disk_bytes: 4096 });
		assert.equal((await load(two, row, saved, 1)).state, 'done');
		assert.equal(await read(two, id, 'f'), 'text');
		await remove(id, one, two);
	});

	it('are saved and loaded although addresses end and the store fails for a moment (slow)', async () => {
		const id = await make(one, 'skewed');
		await write(one, id, 'f', 'text');
		const row = await rest(one, id), asked = new Map<string, number>();
		/* The first address of each object has ended; the next request finds a store that is overloaded. */
		const troubled = (method: string) => (m: string, name: string): number | string | undefined => {
			const n = asked.get(`${m} ${name}`) ?? 0;
			asked.set(`${m} ${name}`, n + 1);
			return m !== method || name.endsWith('/manifest') ? undefined : n === 0 ? 'RequestTimeTooSkewed' : n === 1 ? 503 : undefined;
		};
		try {
			store.disturb = troubled('PUT');
			const saved = await save(one, row, 1);
			assert.ok([...asked].filter(([what]) => !what.endsWith('/manifest')).every(([, n]) => n === 3), JSON.stringify([...asked]));
			assert.equal(saved.sent, 2 * (asked.size - 1) + 1, 'each but the manifest was wanted twice');
			store.disturb = troubled('GET');
			assert.equal((await load(two, row, saved, 1)).state, 'done');
		} finally {
			store.disturb = () => undefined;
		}
		assert.equal(await read(two, id, 'f'), 'text');
		await remove(id, one, two);
	});

	it('stay as they were if the store is cut off in the middle (slow)', async () => {
		const id = await make(one, 'cut');
		await write(one, id, 'f', 'text');
		const row = await rest(one, id);
		const cut = (method: string) => (m: string, name: string): number | undefined => m === method && !name.endsWith('/manifest') ? 503 : undefined;
		let saved: Saved;
		try {
			store.disturb = cut('PUT');
			const begun = await order(one, saveWords(row, 1, null));
			assert.equal(begun.status, 202, begun.text);
			const { state } = await drive(one, begun.json.order as string, row);
			assert.deepEqual([state.state, state.error?.code], ['failed', 'objects_unreachable']);
			assert.ok(!state.error!.text.includes('127.0.0.1'), 'an address is a credential');
			await ended(one, begun.json.order as string, true);
			assert.ok((await rows(one, true)).some((r) => r.id === id), 'it is still not saved, whatever the router says');
			store.disturb = () => undefined;
			saved = await save(one, row, 2);
			store.disturb = cut('GET');
			const failed = await load(two, row, saved, 1);
			assert.deepEqual([failed.state, failed.error?.code], ['failed', 'objects_unreachable']);
			assert.equal(await rowOf(two, id), undefined);
		} finally {
			store.disturb = () => undefined;
		}
		assert.equal((await load(two, row, saved, 1)).state, 'done');
		assert.equal(await read(two, id, 'f'), 'text');
		await remove(id, one, two);
	});

	it('are given up when their own router does not ask any more, though others do (slow)', async () => {
		const a = await make(one, 'left'), first = await rest(one, a), b = await make(one, 'kept'), second = await rest(one, b);
		const left = await order(one, saveWords(first, 1, null));
		assert.equal(left.status, 202, left.text);
		assert.deepEqual(code(await order(one, saveWords(first, 2, null))), [409, 'sandbox_in_use'], 'one order for a sandbox');
		const kept = await order(one, saveWords(second, 1, null));
		assert.equal(kept.status, 202, kept.text);
		assert.deepEqual(code(await order(one, { ...saveWords(second, 1, null), incarnation: 'ab'.repeat(16) })), [503, 'server_busy'], 'a third one');
		assert.equal((await rowOf(one, a))!.at_rest, false, 'it is held');
		await until('the order that was left is gone', async () => {
			const all = (await one.router.ask('GET', `/fleet/orders?order=${kept.json.order}`)).json.orders as State[];
			assert.equal(all.find((o) => o.order === kept.json.order)?.state === 'failed', false);
			return !all.some((o) => o.order === left.json.order);
		}, 90_000);
		assert.ok(await stateOf(one, kept.json.order as string), 'that of the router that asks is not');
		assert.equal((await rowOf(one, a))!.at_rest, true);
		await ended(one, kept.json.order as string, false);
		await remove(a, one);
		await remove(b, one);
	});

	it('do not keep a worker that is to end (slow)', async () => {
		const ca = new Authority('ending'), w = await startWorker(ca, { env: { SANDBOX_STORED_MAX_ACTIVE: '1', SANDBOX_FLEET_NAME: 'three' } });
		let held = false;
		try {
			const id = await make(w, 'ending'), row = await rest(w, id);
			store.disturb = async () => {
				held = true;
				return await new Promise<undefined>(() => {}); /* the connection is cut by the worker */
			};
			const begun = await order(w, saveWords(row, 1, null)), name = begun.json.order as string;
			assert.equal(begun.status, 202, begun.text);
			await until('it wants addresses', async () => (await stateOf(w, name)).wants > 0);
			const { wants } = (await w.router.ask('GET', `/fleet/orders/${name}/wants`)).json as { wants: [number, number, number, number][] };
			assert.equal((await w.router.ask('POST', `/fleet/orders/${name}/addresses`, { body: { v: 1, addresses: wants.slice(0, 128).map(([e, g, i]) => [e, g, i, store.address(nameOf(row, e, g, i))]) } })).status, 204);
			await until('an object is being sent', () => held);
			w.program.child.kill('SIGTERM');
			/* Soon after the last router has asked for its order, and not when a connection on which nothing moves is given up. */
			await until('it has ended', () => w.program.child.exitCode !== null || w.program.child.signalCode !== null, 25_000);
			assert.equal(w.program.child.exitCode, 0, w.program.stderr);
		} finally {
			store.disturb = () => undefined;
			w.router.end();
			await w.program.end();
		}
	});

	it('are saved before their worker ends, and not used on it meanwhile (slow)', async () => {
		const ca = new Authority('leaving'), w = await startWorker(ca, { env: { SANDBOX_STORED_MAX_ACTIVE: '1', SANDBOX_FLEET_NAME: 'four' } });
		try {
			const gone = await make(w, 'removed'), lost = await rest(w, gone), id = await make(w, 'leaving');
			await save(w, lost, 1);
			await write(w, id, 'a.txt', 'written last');
			await remove(gone, w);
			assert.deepEqual((await rows(w, true)).map((r) => [r.id, r.removed]), [[gone, true]], 'the other one is active');
			const running = w.router.ask('POST', `/api/v1/sandboxes/${id}/runs`, { who: ada, body: { wait: true, code: "import time\nopen('b.txt', 'w').write('of a run that goes on')\ntime.sleep(4)" } });
			await until('it runs', async () => (await w.router.ask('GET', `/api/v1/sandboxes/${id}/files/b.txt`, { who: ada })).status === 200);
			w.program.child.kill('SIGTERM');
			assert.equal((await running).json.exit_code, 0, 'it may end');
			await until('it is at rest', async () => (await rows(w, true)).some((r) => r.id === id && r.at_rest), 15_000);
			assert.deepEqual(code(await w.router.ask('POST', `/api/v1/sandboxes/${id}/runs`, { who: ada, body: { wait: true, code: '1' } })), [503, 'sandbox_moving']);
			const row = (await rowOf(w, id))!, saved = await save(w, row, 1);
			assert.equal(w.program.child.exitCode, null, 'no router has heard of the removed one');
			assert.equal((await order(w, { kind: 'forget', incarnation: lost.incarnation })).status, 204);
			await until('it has ended', () => w.program.child.exitCode !== null, 15_000);
			assert.equal(w.program.child.exitCode, 0, w.program.stderr);
			assert.ok(!w.program.stderr.includes('end_before_all_is_saved'), w.program.stderr);
			const state = await load(two, row, saved, 1);
			assert.equal(state.state, 'done', JSON.stringify(state.error));
			assert.deepEqual([await read(two, id, 'a.txt'), await read(two, id, 'b.txt')], ['written last', 'of a run that goes on']);
			await remove(id, two);
		} finally {
			w.router.end();
			await w.program.end();
		}
	});

	it('are ordered by routers alone, with words that have limits', async () => {
		assert.equal((await one.router.ask('GET', '/fleet/orders', { who: ada })).status, 404);
		assert.equal((await one.router.ask('POST', '/fleet/orders', { who: ada, body: {} })).status, 404);
		assert.match(String((await one.router.ask('GET', '/fleet/state')).json.stored), /^[0-9a-f]{16}$/);
		const row = { id: 'sess_1', owner: '', incarnation: 'ab'.repeat(16), epoch: 0, generation: 1, change: 1, key, base: null };
		for (const bad of [{}, { v: 2 }, { v: 1, kind: 'save' }, { v: 1, kind: 'fly' }, { v: 1, kind: 'save', ...row, more: 1 }, { v: 1, kind: 'save', ...row, key: 'short' }, { v: 1, kind: 'save', ...row, incarnation: '../../etc' },
			{ v: 1, kind: 'save', ...row, generation: 0 }, { v: 1, kind: 'save', ...row, generation: 2 ** 40 }, { v: 1, kind: 'save', ...row, owner: 'nobody' }, { v: 1, kind: 'drop', incarnation: 'x', epoch: 1 }, [], 'x'])
			assert.deepEqual(code(await one.router.ask('POST', '/fleet/orders', { body: bad })), [400, 'bad_request'], JSON.stringify(bad));
		assert.deepEqual(code(await one.router.ask('POST', '/fleet/orders', { body: { v: 1, kind: 'save', ...row } })), [404, 'session_not_found']);
		assert.equal((await one.router.ask('GET', '/fleet/orders/0123456789abcdef/wants')).status, 404);
		assert.equal((await one.router.ask('POST', '/fleet/orders/0123456789abcdef/end', { body: { v: 1, keep: true } })).status, 404);
		assert.equal((await one.router.ask('GET', '/fleet/stored?after=x')).status, 400);
	});
});
