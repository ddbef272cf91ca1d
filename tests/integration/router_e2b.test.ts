// SPDX-License-Identifier: Apache-2.0
// E2B's API at the router of a fleet: where its requests lead, what a worker hears of who asks, and how the router refuses. The SDKs themselves: tests/run e2b --fleet.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import { after, before, describe, it } from 'node:test';
import { ADMIN, client, frame, frames, hex, said, type Answer, type Box } from '../lib/e2b.ts';
import { FakeFleet, KEY } from '../lib/fake-fleet.ts';
import { idsOf, type FakeWorker } from '../lib/fake-workers.ts';
import { startFleet, type RealFleet } from '../lib/real-fleet.ts';
import type { Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const DOMAIN = 'boxes.example.org';
const dead = (id: string): Json => ({ sandboxId: id, message: 'The sandbox was not found', code: 502 });

describe('E2B at a router', () => {
	const fleet = new FakeFleet();
	let one: FakeWorker, two: FakeWorker, port = 0;
	let ones: string[], twos: string[], tokenOfOne = '', tokenOfTwo = '';
	const { ask } = client(() => ({ base: fleet.base, port }));
	const key = hex(KEY);
	const control = (method: string, at: string, body?: Json, headers: Record<string, string> = {}): Promise<Answer> => ask(method, at, { headers: { 'x-api-key': key, ...headers }, body });
	const heard = (): number => one.heard.length + two.heard.length;

	before(async () => {
		await fleet.begin('router-e2b', { SANDBOX_FACES: 'e2b', SANDBOX_PORT_DOMAIN: DOMAIN, SANDBOX_BUDGETS: 'port_requests=16/512,message_memory=1048576/1048576' });
		({ one, two } = fleet);
		port = Number(new URL(fleet.base).port);
		[ones, twos] = [idsOf(fleet.keyFile, 'ab3', 4, 'e2b'), idsOf(fleet.keyFile, 'zz9', 4, 'e2b')];
		[tokenOfOne, tokenOfTwo] = ['ab3', 'zz9'].map((w) => idsOf(fleet.keyFile, w, 1, 'mcp')[0]!) as [string, string];
		for (const w of [one, two])
			w.handler = (req, res) => w.say(res, 200, { worker: w.id, at: req.url });
	});
	after(() => fleet.end());

	it('the control plane leads to the worker of the id, which hears who asks and no key', async () => {
		for (const [method, at] of [['GET', ''], ['DELETE', ''], ['POST', '/connect'], ['POST', '/timeout'], ['POST', '/pause'], ['POST', '/resume'], ['POST', '/refreshes'], ['POST', '/fork'], ['POST', '/snapshots'], ['GET', '/metrics'], ['PUT', '/network']] as const) {
			const r = await control(method, `/sandboxes/${twos[0]}${at}`, method === 'GET' ? undefined : {}, { 'authorization': 'Basic dTpw', 'cookie': 'caisson=x', 'caisson-caller': 'e30', 'caisson-list': '1' });
			assert.deepEqual([r.status, r.json.worker], [200, 'zz9'], `${method} ${at} ${r.text}`);
			const last = two.heard.at(-1)!;
			assert.deepEqual([last.method, last.caller!.how, ...['x-api-key', 'authorization', 'cookie', 'caisson-list'].map((n) => last.headers[n])], [method, 'static', undefined, undefined, undefined, undefined]);
		}
		assert.equal((await control('DELETE', `/templates/${ones[1]}:default`)).json.worker, 'ab3', 'a snapshot');
	});

	it('without a key, with ids that nobody has made or that differ, no worker is asked', async () => {
		const before = heard(), made = `${twos[0]!.slice(0, 4)}${twos[0]![4] === '0' ? '1' : '0'}${twos[0]!.slice(5)}`;
		for (const k of ['wrong', hex('wrong')]) {
			const r = await control('GET', `/sandboxes/${twos[0]}`, undefined, { 'x-api-key': k });
			assert.deepEqual([r.status, r.json.code], [401, 401], r.text);
			assert.match(r.json.message, /key/);
		}
		for (const id of [made, 'mine', 'x'.repeat(200), 'sess_0123456789abcdef0123']) {
			assert.deepEqual(await control('GET', `/sandboxes/${id}`).then((r) => [r.status, r.json.code]), [404, 404], id);
			assert.equal((await ask('GET', '/health', { headers: { 'e2b-sandbox-id': id } })).status, 502, id);
		}
		const differs = await control('DELETE', `/sandboxes/${twos[0]}`, undefined, { 'e2b-sandbox-id': ones[0]! });
		assert.deepEqual([differs.status, differs.json.code], [400, 400], differs.text);
		const rpc = await ask('POST', '/process.Process/List', { headers: { 'e2b-sandbox-id': made, 'x-access-token': tokenOfTwo }, body: {} });
		assert.deepEqual([rpc.status, rpc.json], [502, dead(made)]);
		const other = await ask('POST', '/process.Process/List', { headers: { 'e2b-sandbox-id': twos[0]!, 'x-access-token': tokenOfOne }, body: {} });
		assert.deepEqual([other.status, other.json.code], [401, 'unauthenticated']);
		const signed = await ask('GET', '/files?path=a&signature=v1_x', { prefix: '' });
		assert.deepEqual([signed.status, signed.json.code], [400, 400]);
		assert.match(signed.json.message, /names no sandbox/);
		assert.equal((await ask('POST', '/execute', { body: {} })).status, 502);
		for (const [method, at] of [['POST', '/v2/templates'], ['POST', '/templates/a'], ['PATCH', '/v2/templates/a'], ['GET', '/volumes'], ['GET', '/events/sandboxes']] as const) {
			const r = await control(method, at, method === 'GET' ? undefined : {});
			assert.deepEqual([r.status, r.json.code], [400, 400], at);
			assert.match(r.json.message, /a fleet does not offer/);
		}
		assert.equal(heard(), before);
	});

	it('envd passes to the worker that the id or the token names, without who asks', async () => {
		const send = { 'x-access-token': tokenOfTwo, 'x-api-key': key, 'authorization': 'Basic dXNlcjo=', 'cookie': 'caisson=x', 'caisson-caller': 'e30' };
		for (const [method, at, headers] of [['POST', '/process.Process/List', { 'e2b-sandbox-id': twos[0]! }], ['POST', '/filesystem.Filesystem/Stat', {}], ['GET', '/files?path=a', {}], ['POST', '/execute', { 'e2b-sandbox-id': twos[0]!, 'e2b-sandbox-port': '49999' }]] as const) {
			const r = await ask(method, at, { headers: { ...send, ...headers }, body: method === 'GET' ? undefined : {} });
			assert.deepEqual([r.status, r.json.worker], [200, 'zz9'], r.text);
			const last = two.heard.at(-1)!;
			assert.deepEqual(['caisson-caller', 'x-api-key', 'cookie', 'x-access-token', 'authorization'].map((n) => last.headers[n]), [undefined, undefined, undefined, tokenOfTwo, 'Basic dXNlcjo='], at);
		}
		await ask('GET', '/files?path=a', { headers: { 'e2b-sandbox-id': ones[0]!, 'authorization': `Bearer ${KEY}` } });
		assert.equal(one.heard.at(-1)!.headers.authorization, undefined);
		assert.equal((await ask('GET', '/files?path=a&signature=v1_x', { headers: { 'e2b-sandbox-id': ones[0]! }, prefix: '' })).json.worker, 'ab3', 'a signed address with the header');
	});

	it('names of sandboxes lead there, and have neither keys nor the control plane', async () => {
		const host = `49983-${twos[0]}.${DOMAIN}:${port}`;
		const r = await ask('GET', '/files?path=a&signature=v1_x', { headers: { 'host': host.toUpperCase().replace(DOMAIN.toUpperCase(), DOMAIN), 'x-api-key': key, 'caisson-port-domain': 'evil.example.org' }, prefix: '' });
		assert.deepEqual([r.status, r.json.worker], [200, 'zz9'], r.text);
		assert.deepEqual(['caisson-port-domain', 'x-api-key', 'caisson-caller'].map((n) => two.heard.at(-1)!.headers[n]), [DOMAIN, undefined, undefined]);
		const before = heard();
		const differs = await ask('GET', '/health', { headers: { host, 'e2b-sandbox-id': ones[0]! }, prefix: '' });
		assert.deepEqual([differs.status, differs.json], [502, dead('')]);
		const api = await ask('GET', '/v2/sandboxes', { headers: { host, 'x-api-key': key }, prefix: '' });
		assert.deepEqual([api.status, api.json.code], [404, 404], api.text);
		assert.equal(heard(), before);
	});

	it('requests that envd does not answer count for their sandbox: the others go on', async () => {
		const held: (() => void)[] = [];
		two.handler = (_, res) => void held.push(() => two.say(res, 200, {}));
		const list = (headers: Record<string, string>): Promise<Answer> => ask('POST', '/process.Process/List', { headers: { 'x-access-token': tokenOfTwo, ...headers }, body: {} });
		for (const name of [{ 'e2b-sandbox-id': twos[0]! }, {}]) {
			const before = heard(), waiting = Array.from({ length: 16 }, () => list(name as Record<string, string>));
			await until('16 requests at the worker', () => heard() === before + 16);
			const more = await list(name as Record<string, string>);
			assert.deepEqual([more.status, more.json.code], [429, 'resource_exhausted'], more.text);
			assert.equal(heard(), before + 16);
			assert.equal((await ask('GET', '/health', { headers: { 'e2b-sandbox-id': ones[0]! } })).status, 200);
			const stats = await fleet.call('GET', '/api/v1/stats').then((r) => r.text());
			assert.match(stats, /"box:[0-9a-z]+":16/);
			assert.ok(!stats.includes(tokenOfTwo), 'a token is for nobody else');
			for (const go of held.splice(0))
				go();
			assert.deepEqual((await Promise.all(waiting)).map((r) => r.status), Array<number>(16).fill(200));
		}
	});

	it('a new sandbox goes to a worker with room, one of a snapshot to where that is', async () => {
		const create = (body: Json, headers: Record<string, string> = {}): Promise<Answer> => control('POST', '/v2/sandboxes', { templateID: 'base', ...body }, headers);
		/* Chunks, as SDKs send them. */
		const chunked = (text: string): Promise<number> => new Promise((done, failed) => {
			const req = http.request({ host: '127.0.0.1', port, method: 'POST', path: '/faces/e2b/v2/sandboxes', headers: { 'x-api-key': key, 'content-type': 'application/json', 'transfer-encoding': 'chunked' } }, (res) => res.resume().on('end', () => done(res.statusCode!)));
			req.on('error', failed);
			req.write(text.slice(0, 3));
			req.end(text.slice(3));
		});
		one.handler = (_, res) => one.say(res, 429, { code: 429, message: 'full' }, { 'caisson-error': 'max_sessions', 'retry-after': '1' });
		two.handler = (_, res) => two.say(res, 201, { sandboxID: twos[0] });
		for (let i = 0; i < 6; i++)
			assert.deepEqual(await create({}).then((r) => [r.status, r.json]), [201, { sandboxID: twos[0] }]);
		assert.equal(await chunked(JSON.stringify({ templateID: 'base' })), 201);
		assert.deepEqual(JSON.parse(two.heard.at(-1)!.body.toString()), { templateID: 'base' });
		for (let i = 0; i < 4; i++)
			assert.equal((await create({}, { 'idempotency-key': `k-${i}` })).status, 201);
		assert.ok(one.heard.some((h) => h.url === '/faces/e2b/v2/sandboxes' && h.method === 'POST'), 'the full one was asked, too');
		two.handler = (_, res) => two.say(res, 429, { code: 429, message: 'quota' }, { 'caisson-error': 'user_quota' });
		const quotas = two.heard.length;
		one.handler = (_, res) => one.say(res, 429, { code: 429, message: 'full' }, { 'caisson-error': 'max_sessions' });
		const quota = await create({ metadata: {} });
		assert.deepEqual([quota.status, quota.json.message, quota.headers['caisson-error']], [429, 'quota', undefined], 'a quota is no reason to ask another one');
		assert.equal(two.heard.length, quotas + 1);
		two.handler = one.handler;
		const full = await create({});
		assert.deepEqual([full.status, full.json.code], [429, 429], full.text);
		assert.ok(full.headers['retry-after']);
		one.handler = two.handler = (_, res) => two.say(res, 503, { code: 503, message: 'no loop devices' }, { 'caisson-error': 'engine_unavailable' });
		assert.deepEqual(await create({}).then((r) => [r.status, r.json.message]), [503, 'no loop devices'], 'what all lack is no want of room');
		two.handler = (_, res) => two.say(res, 401, { code: 401, message: 'x' }, { 'caisson-error': 'identity_missing' });
		const mistrusted = await control('GET', `/sandboxes/${twos[0]}`);
		assert.deepEqual([mistrusted.status, mistrusted.json.code], [500, 500], mistrusted.text);
		const before = two.heard.length;
		one.handler = (_, res) => one.say(res, 201, { sandboxID: ones[0] });
		for (let i = 0; i < 4; i++)
			assert.equal((await create({ templateID: `${ones[3]}:default` })).json.sandboxID, ones[0]);
		assert.equal(two.heard.length, before);
		/* Long bodies are not read on the loop: the worker says what is wrong. */
		one.handler = (_, res) => one.say(res, 429, { code: 429, message: 'full' }, { 'caisson-error': 'max_sessions' });
		two.handler = (_, res) => two.say(res, 404, { code: 404, message: 'no such template' });
		assert.equal((await create({ templateID: `${ones[3]}:default`, metadata: Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [i, ''])) })).status, 404);
		/* Chunks count as what they are once they are there, however long the worker takes. */
		const held: (() => void)[] = [], waiting: Promise<number>[] = [];
		for (const w of [one, two])
			w.handler = (_, res) => void held.push(() => w.say(res, 201, {}));
		for (let i = 0; i < 8; i++) {
			waiting.push(chunked(JSON.stringify({ templateID: 'base' })));
			await until('the request at a worker', () => held.length === i + 1);
		}
		for (const go of held)
			go();
		assert.deepEqual(await Promise.all(waiting), Array<number>(8).fill(201));
	});

	it('lists are those of all workers, page by page, in one array', async () => {
		const at = (s: number): string => `2026-01-01T00:00:${String(s).padStart(2, '0')}.000Z`;
		const rows = (w: FakeWorker, ids: string[], of: number[]): void => {
			w.handler = (req, res) => {
				const q = new URL(req.url!, 'http://x').searchParams, limit = Number(q.get('limit') ?? 100), next = Number(q.get('nextToken') ?? 0), up = q.get('order') === 'asc';
				assert.equal(req.headers['caisson-list'], '1');
				const all = of.map((s, i) => ({ seq: of.length - i, sandboxID: ids[i]!, startedAt: at(s) }));
				const left = (up ? all.reverse() : all).filter((r) => next === 0 || (up ? r.seq > next : r.seq < next)), page = left.slice(0, limit);
				w.say(res, 200, { rows: page, next: left.length > limit ? page.at(-1)!.seq : null });
			};
		};
		rows(one, ones, [50, 40, 10]);
		rows(two, twos, [45, 44, 20, 9]);
		const order = [ones[0], twos[0], twos[1], ones[1], twos[2], ones[2], twos[3]];
		for (const asc of [false, true]) {
			const all: Json[] = [];
			let next: string | undefined = '', pages = 0;
			for (; next !== undefined && pages < 9; pages++) {
				const r: Answer = await control('GET', `/v2/sandboxes?limit=3&state=running${asc ? '&order=asc' : ''}${next ? `&nextToken=${encodeURIComponent(next)}` : ''}`);
				assert.equal(r.status, 200, r.text);
				all.push(...r.json as unknown as Json[]);
				next = r.headers['x-next-token'] as string | undefined;
			}
			assert.deepEqual(all.map((s) => s.sandboxID), asc ? [...order].reverse() : order);
			assert.equal(pages, 3);
			assert.ok(all.every((s) => !('seq' in s)));
		}
		assert.match(one.heard.at(-1)!.url, /state=running/);
		const old = await control('GET', '/sandboxes?limit=2');
		assert.deepEqual([(old.json as unknown as Json[]).length, old.headers['x-next-token']], [2, undefined]);
		for (const wrong of ['12', 'ab3.', 'ab3.1_ab3.2', 'x'.repeat(9000)])
			assert.equal((await control('GET', `/v2/sandboxes?nextToken=${wrong}`)).json.code, 400, wrong.slice(0, 20));
		/* Snapshots have a tag behind their ids; figures come by ids. */
		one.handler = (_, res) => one.say(res, 200, { rows: [{ seq: 1, snapshotID: `${ones[0]}:default`, names: [] }], next: null });
		two.handler = (_, res) => two.say(res, 200, { rows: [{ seq: 1, snapshotID: `${twos[0]}:default`, names: [] }], next: null });
		assert.deepEqual((await control('GET', '/snapshots')).json.map((s: Json) => s.snapshotID).sort(), [`${ones[0]}:default`, `${twos[0]}:default`].sort());
		one.handler = (_, res) => one.say(res, 200, { rows: [{ sandboxID: ones[0], memUsed: 1 }], next: null });
		two.handler = (_, res) => two.say(res, 200, { rows: [{ sandboxID: twos[0], memUsed: 2 }], next: null });
		assert.deepEqual((await control('GET', `/sandboxes/metrics?sandbox_ids=${ones[0]},${twos[0]}`)).json, { sandboxes: { [ones[0]!]: { memUsed: 1 }, [twos[0]!]: { memUsed: 2 } } });
	});

	it('a worker that lies or says nothing makes no list short, and speaks for no other', async () => {
		const good: FakeWorker['handler'] = (_, res) => one.say(res, 200, { rows: [{ seq: 1, sandboxID: ones[0], startedAt: '2026' }], next: null });
		one.handler = good;
		for (const lie of [{ rows: [{ seq: 1, sandboxID: ones[1], startedAt: '2026' }], next: null }, { rows: [{ seq: 1, sandboxID: 'i0123456789abcdefghi', startedAt: '9' }], next: null }, { rows: [{ sandboxID: twos[0] }], next: null }, { rows: {} }, [{ sandboxID: twos[0] }], { rows: [{ seq: 1, sandboxID: { a: 1 } }], next: null }]) {
			two.handler = (_, res) => two.say(res, 200, lie as Json);
			const r = await control('GET', '/v2/sandboxes');
			assert.deepEqual([r.status, r.json.code], [503, 503], `${JSON.stringify(lie)} ${r.text}`);
			assert.match(r.json.message, /worker zz9/);
			assert.ok(r.headers['retry-after']);
		}
		one.handler = (_, res) => one.say(res, 200, { rows: [{ sandboxID: ones[0], memUsed: 1 }], next: null });
		for (const id of [ones[0], `${twos[0]}:","x":"`, `${twos[0]}:default`]) {
			two.handler = (_, res) => two.say(res, 200, { rows: [{ sandboxID: id, memUsed: 9 }], next: null });
			assert.deepEqual((await control('GET', `/sandboxes/metrics?sandbox_ids=${ones[0]}`)).json, { sandboxes: { [ones[0]!]: { memUsed: 1 } } });
		}
		const refusal: FakeWorker['handler'] = (_, res) => one.say(res, 400, { code: 400, message: 'limit: 1 to 100' });
		one.handler = two.handler = refusal;
		const refused = await control('GET', '/v2/sandboxes?limit=500');
		assert.deepEqual([refused.status, refused.json, refused.headers['content-type']], [400, { code: 400, message: 'limit: 1 to 100' }, 'application/json']);
	});

	it('what a worker holds against the router is not for the client', async () => {
		const refuses = (w: FakeWorker): FakeWorker['handler'] => (_, res) => w.say(res, 401, { code: 401, message: 'the API key is missing' }, { 'caisson-error': 'identity_missing' });
		one.handler = (_, res) => one.say(res, 200, { rows: [], next: null });
		two.handler = refuses(two);
		for (const told of [/worker zz9/, /worker (ab3|zz9)/]) {
			const r = await control('GET', '/v2/sandboxes');
			assert.deepEqual([r.status, r.json.code], [503, 503], r.text);
			assert.match(r.json.message, told);
			one.handler = refuses(one);
		}
		for (const event of ['identity_refused', 'list_not_whole'])
			await until(event, () => fleet.program.stderr.includes(event));
	});

	it('a worker without the face gets nothing of it, and makes no list short', async () => {
		const status = async (): Promise<number> => (await control('GET', '/v2/sandboxes')).status;
		one.handler = (req, res) => req.method === 'GET' ? one.say(res, 200, { rows: [], next: null }) : one.say(res, 201, { sandboxID: ones[0] });
		two.handler = (_, res) => two.say(res, 404, { code: 404, message: 'no' });
		assert.equal(await status(), 503);
		two.faces = undefined;
		await until('the router has heard it', async () => await status() === 200);
		const before = two.heard.length;
		for (let i = 0; i < 8; i++)
			assert.equal((await control('POST', '/v2/sandboxes', { templateID: 'base' })).status, 201);
		assert.equal(two.heard.length, before);
		one.faces = [];
		await until('nobody is left', async () => await status() === 503);
		assert.match((await control('POST', '/v2/sandboxes', { templateID: 'base' })).json.message, /offers this API/);
		one.faces = two.faces = ['x', 'e2b'];
		two.handler = (_, res) => two.say(res, 200, { rows: [], next: null });
		await until('both are back', async () => { const n = two.heard.length; return await status() === 200 && two.heard.length > n; });
	});

	it('a worker that ends, or whose short id another one has, makes no list silently short (slow)', async () => {
		const status = async (): Promise<number> => (await control('GET', '/v2/sandboxes')).status;
		one.handler = (_, res) => one.say(res, 200, { rows: [], next: null });
		two.handler = (_, res) => two.say(res, 404, { code: 404, message: 'no' });
		const mine = two as { id: string };
		mine.id = one.id;
		await until('it is refused, and has nothing', async () => await status() === 200);
		two.sandboxes.add('one');
		await until('it has something', async () => await status() === 503);
		two.sandboxes.clear();
		mine.id = 'zz9';
		two.draining = true;
		await until('it is draining', async () => await fleet.call('GET', '/api/v1/fleet').then(async (r) => (await r.text()).includes('"draining"')));
		two.down();
		assert.equal(await status(), 503, 'one question without an answer');
		await until('it has ended', async () => await status() === 200);
		two.draining = false;
		two.up();
		two.handler = one.handler;
		await until('it is back', async () => (await (await fetch(`${fleet.base}/readyz`)).text()).includes(': 2 of'));
	});

	it('a worker that does not answer is 503 in the form of each service', async () => {
		one.handler = (_, res) => one.say(res, 200, { rows: [], next: null });
		two.down();
		const rpc = await ask('POST', '/process.Process/List', { headers: { 'e2b-sandbox-id': twos[0]!, 'x-access-token': tokenOfTwo }, body: {} });
		assert.deepEqual([rpc.status, rpc.json.code], [503, 'unavailable'], rpc.text);
		const stream = await ask('POST', '/process.Process/Start', { headers: { 'e2b-sandbox-id': twos[0]!, 'x-access-token': tokenOfTwo, 'content-type': 'application/connect+json' }, body: Buffer.alloc(5) });
		assert.deepEqual([stream.status, frames(stream.bytes).map((f) => [f.last, f.message.error.code])], [200, [[true, 'unavailable']]]);
		const info = await control('GET', `/sandboxes/${twos[0]}`);
		assert.deepEqual([info.status, info.json.code], [503, 503]);
		assert.equal((await control('GET', '/v2/sandboxes')).status, 503);
		assert.equal((await ask('GET', '/health', { headers: { 'e2b-sandbox-id': twos[0]! } })).status, 503, 'not 502: it may come back');
		two.up();
	});
});

describe('E2B in a fleet of two workers', () => {
	let fleet: RealFleet, other = '';
	const { rest, newKey, ask, control, make, routed, envd, start } = client(() => fleet);
	const boxes: Box[] = [];
	const workerOf = (box: Box): string => box.id.slice(1, 4);

	before(async () => {
		fleet = await startFleet('router-e2b-two', { router: { SANDBOX_API_KEY: ADMIN, SANDBOX_FACES: 'e2b' }, worker: { SANDBOX_FACES: 'e2b' } });
		other = await newKey('somebody');
		while (boxes.length < 12 && new Set(boxes.map(workerOf)).size < 2)
			boxes.push(await make());
	});
	after(() => fleet.end());

	it('sandboxes of both are in one list, and reached by their id or their token alone', async () => {
		assert.equal(new Set(boxes.map(workerOf)).size, 2, 'the less full worker gets the next one');
		const listed: string[] = [];
		for (let next: string | undefined = ''; next !== undefined;) {
			const r: Answer = await control('GET', `/v2/sandboxes?limit=1${next ? `&nextToken=${next}` : ''}`);
			listed.push(...(r.json as unknown as Json[]).map((s) => s.sandboxID as string));
			next = r.headers['x-next-token'] as string | undefined;
		}
		assert.deepEqual(listed, boxes.map((b) => b.id).reverse());
		for (const box of boxes) {
			assert.equal(said(await start(box, 'echo "$HOME"'), 'stdout'), '/home/user\n');
			const { 'e2b-sandbox-id': _, ...alone } = routed(box);
			assert.equal((await envd(box, 'process.Process/List', {}, alone)).status, 200);
			assert.equal((await ask('POST', '/files?path=f', { headers: { ...routed(box), 'content-type': 'application/octet-stream' }, body: Buffer.from(box.id) })).status, 200);
			assert.equal((await ask('GET', '/files?path=f', { headers: routed(box) })).text, box.id);
			for (const [user, status] of [['user', 200], ['nobody', 401]] as const) // the worker hears which user of the sandbox is named
				assert.equal((await envd(box, 'filesystem.Filesystem/Stat', { path: 'f' }, { ...routed(box), authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}` })).status, status);
		}
		const ids = boxes.map((b) => b.id);
		assert.deepEqual(Object.keys((await control('GET', `/sandboxes/metrics?sandbox_ids=${ids.join(',')}`)).json.sandboxes).sort(), [...ids].sort());
	});

	it('one of another user does not exist, and a token opens its own alone', async () => {
		const box = boxes[0]!, far = boxes.find((b) => workerOf(b) !== workerOf(box))!, mine = await make({}, other);
		for (const [method, at] of [['GET', ''], ['DELETE', ''], ['POST', '/timeout'], ['POST', '/connect'], ['POST', '/pause']] as const)
			assert.equal((await control(method, `/sandboxes/${box.id}${at}`, method === 'GET' ? undefined : { timeout: 5 }, other)).status, 404, at);
		assert.deepEqual((await control('GET', '/v2/sandboxes', undefined, other)).json.map((s: Json) => s.sandboxID), [mine.id]);
		/* The key of the owner, or of an administrator, in place of the token changes nothing. */
		for (const token of [mine.token, far.token, '', box.traffic, `${box.token.slice(0, -1)}${box.token.endsWith('0') ? '1' : '0'}`])
			assert.equal((await envd(box, 'process.Process/List', {}, { ...routed(box), 'x-access-token': token, 'x-api-key': hex(ADMIN) })).status, 401, token);
	});

	it('a stream comes as it is written, and ends with its sandbox', async () => {
		const box = await make();
		let text = Buffer.alloc(0), ended = false;
		const req = http.request({ host: '127.0.0.1', port: fleet.port, method: 'POST', path: '/faces/e2b/process.Process/Start', headers: { ...routed(box), 'content-type': 'application/connect+json' } }, (res) => {
			res.on('data', (b: Buffer) => (text = Buffer.concat([text, b]))).on('error', () => undefined).on('close', () => (ended = true));
		}).on('error', () => undefined);
		req.end(frame({ process: { cmd: '/bin/bash', args: ['-c', 'echo here; sleep 100'] }, stdin: false }));
		await until('the first output', () => text.includes(Buffer.from('here\n').toString('base64')));
		assert.equal(ended, false);
		assert.equal((await control('DELETE', `/sandboxes/${box.id}`)).status, 204);
		await until('the end of the stream', () => ended);
		assert.equal((await ask('GET', '/health', { headers: routed(box) })).status, 502);
		assert.equal((await control('POST', `/sandboxes/${box.id}/connect`, { timeout: 5 })).status, 404);
	});

	it('tokens end with the key that made the sandbox, until somebody connects again; snapshots are found by their ids and names', async () => {
		const user = (await rest('GET', '/users')).users.find((u: Json) => u.name === 'somebody');
		const first = await rest('POST', `/keys?owner=${user.id}`, { name: 'first' }), box = await make({}, first.key);
		const snapshot = await control('POST', `/sandboxes/${box.id}/snapshots`, { name: 'mine' }, first.key);
		assert.equal(snapshot.json.snapshotID.slice(1, 4), workerOf(box), snapshot.text);
		assert.deepEqual(snapshot.json.names, ['mine:default']);
		for (let i = 0; i < 3; i++)
			assert.equal(workerOf(await make({ templateID: snapshot.json.snapshotID }, other)), workerOf(box));
		for (const name of ['mine', 'mine:default', 'mine'])
			assert.equal(workerOf(await make({ templateID: name }, other)), workerOf(box));
		assert.equal((await control('POST', '/v2/sandboxes', { templateID: 'mine' })).status, 404, 'of another user');
		assert.equal((await control('POST', `/sandboxes/${box.id}/snapshots`, { name: 'base' }, other)).status, 400, 'the image of the server');
		assert.deepEqual((await control('GET', '/snapshots', undefined, other)).json.map((s: Json) => s.snapshotID), [snapshot.json.snapshotID]);
		assert.equal((await control('DELETE', '/templates/mine')).status, 404, 'of another user');
		assert.equal((await control('DELETE', '/templates/mine', undefined, other)).status, 204);
		assert.equal((await control('DELETE', `/templates/${snapshot.json.snapshotID}`, undefined, other)).status, 404);
		assert.equal((await envd(box, 'process.Process/List', {})).status, 200);
		await rest('DELETE', `/keys/${first.id}?owner=${user.id}`);
		await until('the end of the token', async () => (await envd(box, 'process.Process/List', {})).status === 401);
		assert.equal((await control('POST', `/v2/sandboxes/${box.id}/connect`, { timeout: 60 }, other)).status, 200);
		assert.equal((await envd(box, 'process.Process/List', {})).status, 200);
	});
});
