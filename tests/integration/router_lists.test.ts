// SPDX-License-Identifier: Apache-2.0
// Lists and events of all workers, as the router of a fleet has them.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as http from 'node:http';
import { after, before, describe, it } from 'node:test';
import { Stream } from '../lib/event-stream.ts';
import { FakeFleet, json, KEY } from '../lib/fake-fleet.ts';
import type { FakeWorker } from '../lib/fake-workers.ts';
import type { Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

describe('lists of a router', () => {
	const fleet = new FakeFleet();
	let base = '', one: FakeWorker, two: FakeWorker;
	const call = (method: string, where: string): Promise<Response> => fleet.call(method, where);
	const memory = (): number => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${fleet.program.pid}/status`, 'utf8'))![1]) / 1024;

	before(async () => {
		await fleet.begin('router-lists');
		({ base, one, two } = fleet);
	});
	after(() => fleet.end());

	it('merges lists that have an order, page by page, each worker from where it was left', async () => {
		const at = (s: number): string => `2026-01-01T00:00:${String(s).padStart(2, '0')}.000Z`;
		/** Rows of the seconds OF, newest first, as a worker tells them. */
		const rows = (w: FakeWorker, member: string, time: string, of: number[]): void => {
			w.handler = (req, res) => {
				const q = new URL(req.url!, 'http://x').searchParams, limit = Number(q.get('limit') ?? 100), before = Number(q.get('before') ?? 0);
				const left = of.map((s, i) => ({ seq: of.length - i, id: `${w.id}-${s}`, [time]: at(s) })).filter((r) => before === 0 || r.seq < before);
				const page = left.slice(0, limit);
				w.say(res, 200, { [member]: page, ...(member === 'runs' ? {} : { next: left.length > limit ? page.at(-1)!.seq : null }) });
			};
		};
		const ids = (o: Json, member: string): string[] => (o[member] as Json[]).map((r) => r.id as string);
		for (const [where, member, time] of [['/api/v1/notebooks', 'notebooks', 'last_at'], ['/api/v1/history', 'cells', 'started_at']] as const) {
			rows(one, member, time, [50, 40, 39, 38, 10]);
			rows(two, member, time, [45, 44, 20, 9, 8, 7]);
			const all: string[] = [];
			let next: unknown = '', pages = 0;
			for (; next !== null && pages < 9; pages++) {
				const page = await json(await call('GET', `${where}?limit=3&q=x${next === '' ? '' : `&before=${String(next)}`}`));
				assert.ok(ids(page, member).length <= 3);
				all.push(...ids(page, member));
				next = page.next;
			}
			assert.deepEqual(all, ['ab3-50', 'zz9-45', 'zz9-44', 'ab3-40', 'ab3-39', 'ab3-38', 'zz9-20', 'ab3-10', 'zz9-9', 'zz9-8', 'zz9-7'], where);
			assert.equal(pages, 4);
			assert.match(two.heard.at(-1)!.url, /\?limit=3&before=3&q=x$/);
			/* A worker that is silent keeps its place in the pages. */
			const first = await json(await call('GET', `${where}?limit=3`));
			two.handler = (_, res) => two.say(res, 500, { code: 'internal_error' });
			const short = await json(await call('GET', `${where}?limit=3&before=${String(first.next)}`));
			assert.deepEqual([ids(short, member), short.workers_missing], [['ab3-40', 'ab3-39', 'ab3-38'], ['zz9']]);
			rows(two, member, time, [45, 44, 20, 9, 8, 7]);
			assert.deepEqual(ids(await json(await call('GET', `${where}?limit=3&before=${String(short.next)}`)), member), ['zz9-20', 'ab3-10', 'zz9-9']);
			for (const wrong of ['12', 'ab3.', 'ab3.x', 'ab3.1_', 'ab3.1_ab3.2', 'AB3.1', 'ab3.-1', `ab3.1_${'9'.repeat(9000)}`]) {
				const r = await call('GET', `${where}?before=${wrong}`);
				assert.deepEqual([r.status, (await json(r)).code], [400, 'invalid_argument'], wrong.slice(0, 20));
			}
			two.handler = (_, res) => two.say(res, 200, { [member]: [{ id: 'x', [time]: at(1) }], next: null }); // a row without a number
			assert.deepEqual((await json(await call('GET', where))).workers_missing, ['zz9']);
		}
		rows(one, 'runs', 'started_at', [50, 40, 10]);
		rows(two, 'runs', 'started_at', [45, 9]);
		const runs = await json(await call('GET', '/api/v1/runs?limit=4&before_ms=99'));
		assert.deepEqual([ids(runs, 'runs'), runs.next], [['ab3-50', 'zz9-45', 'ab3-40', 'ab3-10'], undefined]);
		assert.match(one.heard.at(-1)!.url, /\?limit=4&before_ms=99$/);
		for (const w of [one, two])
			w.handler = (_, res) => w.say(res, 200, { sandboxes: [{ id: w.id }] });
		assert.deepEqual(ids(await json(await call('GET', '/api/users/me/sandboxes')), 'sandboxes').sort(), ['ab3', 'zz9']);
		for (const w of [one, two])
			w.handler = (_, res) => w.say(res, 403, { detail: 'no' });
		const refused = await call('GET', '/api/users/me/sandboxes');
		assert.deepEqual([refused.status, refused.headers.get('content-type'), await json(refused)], [403, 'application/json', { detail: 'no' }]);
		one.handler = two.handler = undefined;
	});

	it('reads and writes megabytes beside the loop, also for clients that go away meanwhile', async () => {
		const row = (w: FakeWorker, i: number): Json => ({ seq: 100 - i, id: `${w.id}-${i}`, started_at: `2026-01-01T00:00:${String(10 + (i % 50))}.000Z`, text: '\u0001'.repeat(3000) });
		for (const w of [one, two])
			w.handler = (_, res) => w.say(res, 200, { cells: Array.from({ length: 90 }, (_, i) => row(w, i)), next: null });
		/* Each leaves a little later than the one before: while workers are asked, parts are read, the answer is written or sent. */
		const asked = one.heard.length;
		for (let ms = 0; ms < 40; ms++)
			await fetch(`${base}/api/v1/history`, { headers: { 'x-api-key': KEY }, signal: AbortSignal.timeout(ms) }).then((r) => r.text()).catch(() => undefined);
		await until('the workers were asked', () => one.heard.length > asked);
		const page = await json(await call('GET', '/api/v1/history'));
		assert.deepEqual([(page.cells as Json[]).length, page.workers_missing], [100, undefined]);
		assert.equal((page.cells as Json[])[99]!.text, '\u0001'.repeat(3000));
		assert.equal(typeof page.next, 'string');
		one.handler = two.handler = undefined;
	});

	it('has the events of all workers in one stream, which outlives a worker that goes and comes back', async () => {
		interface Feed { res: http.ServerResponse; last: string | undefined }
		const feeds = new Map<FakeWorker, Feed[]>([[one, []], [two, []]]);
		const say = (w: FakeWorker, seq: number, name: string, data: Json): void => void feeds.get(w)!.at(-1)!.res.write(`id: ${w.id === 'ab3' ? 'aaaa' : 'bbbb'}-${seq}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
		const serveFeed = (w: FakeWorker): void => {
			w.handler = (req, res) => {
				const last = req.headers['last-event-id'] as string | undefined;
				res.writeHead(200, { 'content-type': 'text/event-stream' });
				feeds.get(w)!.push({ res, last });
				res.write('event: early\ndata: {}\n\n'); // before hello: of no stream
				say(w, 1, 'hello', { epoch: 'x', seq: 1, resumed: last !== undefined });
			};
		};
		serveFeed(one);
		serveFeed(two);
		const tab = await Stream.open(`${base}/api/v1/events?last_event_id=old-1&api_key=${KEY}`);
		assert.equal(tab.status, 200);
		const told = await tab.wait(/^id: (\w+)-1\nevent: hello\ndata: \{"epoch":"(\w+)","seq":1,"resumed":false\}\n\nid: \w+-2\nevent: resync\n/);
		assert.equal(told[1], told[2]);
		assert.deepEqual([one, two].map((w) => w.heard.at(-1)!.url), ['/api/v1/events', '/api/v1/events']);
		assert.deepEqual([one, two].map((w) => feeds.get(w)!.at(-1)!.last), [undefined, undefined], 'an id of this router is none of a worker');
		say(one, 2, 'run.started', { run: 'a' });
		say(two, 7, 'run.ended', { run: 'b' });
		await tab.wait(/event: run.started\ndata: \{"run":"a"\}\n\n/);
		await tab.wait(/event: run.ended\ndata: \{"run":"b"\}\n\n/);
		/* One goes and comes back: it is asked to go on where it was. */
		feeds.get(one)!.at(-1)!.res.destroy();
		await until('it is asked again', () => feeds.get(one)!.length === 2, 8_000);
		assert.equal(feeds.get(one)![1]!.last, 'aaaa-2');
		say(one, 3, 'run.output', { text: 'x'.repeat(700_000) });
		await tab.wait(/event: run.output\ndata: \{"text":"x{700000}"\}\n\n/);
		/* What would be two events, or none, does not reach the client; neither does an id of a worker that is none. */
		feeds.get(two)!.at(-1)!.res.write('id: 1\r\nX: 2\nevent: bad\ndata: {}\n\nevent: Bad Name\ndata: {}\n\n: heartbeat\n\nid: b c\nevent: good\ndata: {}\n\n');
		await tab.wait(/event: good\n/);
		assert.doesNotMatch(tab.text, /bad|Bad|b c|heartbeat|early/);
		const ids = [...tab.text.matchAll(/^id: \w+-(\d+)$/gm)].map((m) => Number(m[1]));
		assert.deepEqual(ids, ids.map((_, i) => i + 1));
		/* Of one sandbox: its worker alone is asked. */
		const before = feeds.get(one)!.length, ofTwo = await Stream.open(`${base}/api/v1/events?sandbox=${two.ids.at(-1)}&api_key=${KEY}`);
		await ofTwo.wait(/hello/);
		assert.deepEqual([feeds.get(one)!.length, two.heard.at(-1)!.url], [before, `/api/v1/events?sandbox=${two.ids.at(-1)}`]);
		ofTwo.close();
		const forged = await call('GET', `/api/v1/events?sandbox=${one.ids[0]!.slice(0, 9)}0000${one.ids[0]!.slice(13)}`);
		assert.equal(forged.status, 404);
		/* A reader that is slow stops the workers, and the router holds little of what they would say. */
		const slow = await new Promise<http.IncomingMessage>((resolve) => http.get(`${base}/api/v1/events?sandbox=${one.ids.at(-1)}&api_key=${KEY}`, { agent: false }, (r) => resolve(r.pause())));
		await until('it is followed', () => feeds.get(one)!.length === before + 1, 5_000);
		const from = memory(), big = feeds.get(one)!.at(-1)!.res;
		let sent = 0;
		const piece = `event: run.output\ndata: ${'y'.repeat(1 << 16)}\n\n`;
		while (sent < 64 << 20 && big.write(piece))
			sent += piece.length;
		await until('the worker is stopped', () => { while (sent < 64 << 20 && big.write(piece)) sent += piece.length; return big.writableNeedDrain; }, 5_000);
		assert.ok(sent < 40 << 20, `${sent} bytes were taken`);
		assert.ok(memory() - from < 12, `${memory() - from} MiB more`);
		slow.destroy();
		tab.close();
		await until('workers hear that the clients are gone', () => [...feeds.values()].flat().every((f) => f.res.destroyed || f.res.closed), 5_000);
		/* One that refuses keeps nobody from the others. */
		serveFeed(two);
		one.handler = (_, res) => one.say(res, 404, { code: 'session_not_found', status: 404, detail: 'no' });
		const half = await Stream.open(`${base}/api/v1/events?api_key=${KEY}`);
		await half.wait(/event: hello/);
		half.close();
		/* What all workers refuse is refused. */
		for (const w of [one, two])
			w.handler = (_, res) => w.say(res, 429, { code: 'budget_exceeded', status: 429, detail: 'too many' });
		const no = await call('GET', '/api/v1/events');
		assert.deepEqual([no.status, (await json(no)).code], [429, 'budget_exceeded']);
		one.handler = two.handler = undefined;
	});
});
