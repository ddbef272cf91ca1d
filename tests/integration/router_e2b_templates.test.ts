// SPDX-License-Identifier: Apache-2.0
// Templates and snapshots of E2B at the router of a fleet: which worker has them, by their ids and by their names.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ADMIN, client, hex, said, type Answer } from '../lib/e2b.ts';
import { engine, mode, scratch, unlessEnforced } from '../lib/env.ts';
import { FakeFleet, KEY } from '../lib/fake-fleet.ts';
import { idsOf, type FakeWorker } from '../lib/fake-workers.ts';
import { stateOfItsOwn } from '../lib/own-images.ts';
import { startFleet, type RealFleet } from '../lib/real-fleet.ts';
import type { Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const NONE = { template: null, snapshot: null, have: 0, most: 32, open: 0, open_most: 4 };

describe('templates of E2B at a router', () => {
	const fleet = new FakeFleet();
	let one: FakeWorker, two: FakeWorker, port = 0, ones: string[], twos: string[];
	const { ask } = client(() => ({ base: fleet.base, port }));
	const control = (method: string, at: string, body?: Json): Promise<Answer> => ask(method, at, { headers: { 'x-api-key': hex(KEY) }, body });
	const create = (template: string): Promise<Answer> => control('POST', '/v2/sandboxes', { templateID: template });
	const asked = (w: FakeWorker): string[] => w.heard.filter((h) => h.headers['caisson-list']).map((h) => h.url);
	/** W says that of every name, and answers all else with its id. */
	const has = (w: FakeWorker, what: Json | ((name: string) => Json)): void => {
		w.handler = (req, res) => {
			if (!req.headers['caisson-list'])
				return w.say(res, 200, { worker: w.id });
			assert.ok(req.headers['caisson-caller'], 'it hears who asks');
			assert.equal(req.headers['x-api-key'], undefined);
			return w.say(res, 200, typeof what === 'function' ? what(req.url!.split('/').at(-1)!) : what);
		};
	};

	before(async () => {
		await fleet.begin('router-e2b-templates', { SANDBOX_FACES: 'e2b' });
		({ one, two } = fleet);
		port = Number(new URL(fleet.base).port);
		[ones, twos] = [idsOf(fleet.keyFile, 'ab3', 3, 'e2b'), idsOf(fleet.keyFile, 'zz9', 3, 'e2b')];
	});
	after(() => fleet.end());

	it('an id leads to its worker, and nobody is asked', async () => {
		has(one, NONE);
		has(two, NONE);
		const before = asked(one).length + asked(two).length, id = twos[0]!, hash = 'ab'.repeat(32);
		for (const [method, at] of [['GET', ''], ['DELETE', ''], ['GET', '/tags'], ['GET', `/files/${hash}`], ['GET', '/builds/b/status'], ['GET', '/builds/b/logs']] as const)
			assert.equal((await control(method, `/templates/${id}${at}`)).json.worker, 'zz9', at);
		assert.equal((await control('POST', `/v2/templates/${id}/builds/b`, { steps: [] })).json.worker, 'zz9');
		assert.equal((await control('GET', `/templates/aliases/${id}`)).json.worker, 'zz9');
		assert.equal((await control('POST', '/templates/tags', { target: `${id}:v1`, tags: ['a'] })).json.worker, 'zz9');
		assert.equal((await control('DELETE', '/templates/tags', { name: id, tags: ['a'] })).json.worker, 'zz9');
		for (let i = 0; i < 4; i++)
			assert.equal((await create(`${id}:v1`)).json.worker, 'zz9');
		assert.equal(asked(one).length + asked(two).length, before);
	});

	it('a name is asked of all, without namespace, tag and case', async () => {
		has(one, NONE);
		has(two, (name) => name === 'mine' ? { ...NONE, template: { id: twos[0], at: 5 } } : NONE);
		for (const name of ['mine', 'Mine:v2', 'team/mine'])
			assert.equal((await create(name)).json.worker, 'zz9', name);
		assert.equal((await control('GET', '/templates/aliases/mine')).json.worker, 'zz9');
		assert.equal((await control('DELETE', '/templates/mine')).json.worker, 'zz9');
		assert.equal((await control('POST', '/templates/tags', { target: 'mine:a', tags: ['b'] })).json.worker, 'zz9');
		assert.equal((await control('POST', '/v3/templates', { name: 'mine:b' })).json.worker, 'zz9', 'the next build');
		assert.deepEqual(new Set([...asked(one), ...asked(two)]), new Set(['/faces/e2b/templates/aliases/mine']));
		for (const [method, at] of [['GET', '/templates/aliases/other'], ['DELETE', '/templates/other'], ['GET', '/templates/o.t'], ['GET', `/templates/${'x'.repeat(200)}`]] as const) {
			const r = await control(method, at);
			assert.deepEqual([r.status, r.json.code], [404, 404], at);
		}
	});

	it('the image of the server is no name to be asked for', async () => {
		has(one, NONE);
		has(two, NONE);
		const before = asked(one).length + asked(two).length;
		for (const name of ['base', 'code-interpreter-v1:default', 'a/b/c', 'x.y'])
			assert.equal((await create(name)).status, 200, name);
		assert.equal(asked(one).length + asked(two).length, before);
		assert.equal((await create('science')).status, 200, 'nobody has it, so it may be an image');
	});

	it('of two with one name the newest counts, and of a template and a snapshot that which the call is about', async () => {
		const of = (ids: string[], template?: number, snapshot?: number): Json => ({ ...NONE, template: template ? { id: ids[0], at: template } : null, snapshot: snapshot ? { id: ids[1], at: snapshot } : null });
		const build = (): Promise<Answer> => control('POST', '/v3/templates', { name: 'twice' }), alias = (): Promise<Answer> => control('GET', '/templates/aliases/twice'), drop = (): Promise<Answer> => control('DELETE', '/templates/twice');
		const cases: [Json, Json, string, string, string][] = [
			[of(ones, 5), of(twos, 6), 'zz9', 'zz9', 'zz9'], [of(ones, 7), of(twos, 6), 'ab3', 'ab3', 'ab3'],
			[of(ones, 5), of(twos, undefined, 9), 'zz9', 'ab3', 'ab3'], [of(ones, undefined, 1), of(twos, 9), 'ab3', 'zz9', 'zz9'], [of(ones, 1, 1), of(twos, 2), 'ab3', 'zz9', 'zz9'],
			[of(ones, undefined, 1), of(twos, undefined, 2), 'zz9', '', 'zz9'], [of(ones, undefined, 3), of(twos, undefined, 2), 'ab3', '', 'ab3'],
		];
		for (const [a, b, source, template, deleted] of cases) {
			has(one, a);
			has(two, b);
			const what = JSON.stringify([a, b]);
			assert.equal((await create('twice')).json.worker, source, what);
			assert.equal((await drop()).json.worker, deleted, what);
			assert.equal((await alias()).json.worker ?? '', template, what);
			if (template)
				assert.equal((await build()).json.worker, template, what);
		}
	});

	it('a worker speaks for its own ids alone, and what is no answer is none', async () => {
		has(one, NONE);
		const lies = [{ ...NONE, template: { id: ones[0], at: 9 } }, { ...NONE, snapshot: { id: 'i0123456789abcdefghi', at: 9 } }, { ...NONE, template: { id: { a: 1 }, at: 9 } }, { ...NONE, template: [] }, {}, { have: 1 }, []];
		for (const lie of lies) {
			has(two, lie as Json);
			const r = await control('GET', '/templates/aliases/mine');
			assert.deepEqual([r.status, r.json.code], [503, 503], `${JSON.stringify(lie)} ${r.text}`);
		}
		has(one, { ...NONE, template: { id: ones[0], at: 1 } });
		assert.equal((await create('mine')).json.worker, 'ab3');
	});

	it('a new template goes to the home of its name; limits are those of all workers together', async () => {
		has(one, { ...NONE, have: 15, open: 1 });
		has(two, { ...NONE, have: 16, open: 2 });
		const where = new Set<string>();
		for (let i = 0; i < 24; i++) {
			const [a, b] = [await control('POST', '/v3/templates', { name: `n-${i}` }), await control('POST', '/v3/templates', { name: `n-${i}:v` })];
			assert.equal(a.json.worker, b.json.worker, 'two routers choose the same');
			where.add(a.json.worker as string);
		}
		assert.equal(where.size, 2);
		has(two, { ...NONE, have: 17, open: 2 });
		const many = await control('POST', '/v3/templates', { name: 'x' });
		assert.deepEqual([many.status, many.json.code], [429, 429], many.text);
		assert.match(many.json.message, /32 templates/);
		has(one, { ...NONE, have: 15, open: 1, template: { id: ones[0], at: 1 } });
		assert.equal((await control('POST', '/v3/templates', { name: 'x' })).json.worker, 'ab3', 'it is there already');
		has(two, { ...NONE, open: 3 });
		const open = await control('POST', '/v3/templates', { name: 'x' });
		assert.deepEqual([open.status, /4 of your builds/.test(open.json.message as string)], [429, true], open.text);
		for (const body of [{}, { name: '' }, { name: 'a.b' }, { name: 'base' }, { name: 'x', pad: 'x'.repeat(70_000) }])
			assert.equal((await control('POST', '/v3/templates', body)).status, 400, JSON.stringify(body).slice(0, 40));
	});

	it('lists are those of all workers', async () => {
		const rows = (w: FakeWorker, ids: string[], at: string): void => {
			w.handler = (_, res) => w.say(res, 200, { rows: ids.map((id, i) => ({ seq: ids.length - i, templateID: id, createdAt: `${at}${9 - i}` })), next: null });
		};
		rows(one, ones, '2026-01-01T00:00:0');
		rows(two, twos, '2026-01-01T00:00:1');
		for (const at of ['/templates', '/v2/templates']) {
			const r = await control('GET', at);
			assert.deepEqual(r.json.map((t: Json) => [t.templateID, t.seq]), [...twos, ...ones].map((id) => [id, undefined]), r.text);
		}
		rows(two, ones, '2026');
		assert.equal((await control('GET', '/templates')).status, 503, 'rows of another worker');
	});

	it('what one worker alone may know is not said to be missing while that does not answer (slow)', async () => {
		has(one, NONE);
		has(two, NONE);
		one.handler = (req, res) => req.headers['caisson-list'] ? one.say(res, 200, NONE) : one.say(res, 404, { code: 404, message: 'no such template' });
		assert.equal((await create('gone')).status, 404);
		two.handler = (req, res) => req.headers['caisson-list'] ? two.say(res, 500, {}) : two.say(res, 404, { code: 404, message: 'no such template' });
		const calls: [string, string, Json?][] = [['POST', '/v2/sandboxes', { templateID: 'gone' }], ['POST', '/v3/templates', { name: 'gone' }], ['GET', '/templates/aliases/gone'], ['DELETE', '/templates/gone']];
		for (const [method, at, body] of calls) {
			const r = await control(method, at, body);
			assert.deepEqual([r.status, r.json.code], [503, 503], `${at} ${r.text}`);
			assert.match(r.json.message, /worker zz9 .*may have this template/);
			assert.ok(r.headers['retry-after']);
		}
		has(one, { ...NONE, template: { id: ones[0], at: 1 } });
		assert.equal((await create('gone')).json.worker, 'ab3', 'another one has it');
		two.down();
		await until('the router has noticed', async () => (await fetch(`${fleet.base}/readyz`)).text().then((t) => t.includes(': 1 of')));
		assert.equal((await create('gone')).json.worker, 'ab3');
		has(one, NONE);
		assert.equal((await control('GET', '/templates/aliases/gone')).status, 503);
		assert.equal((await control('GET', `/templates/${twos[0]}`)).status, 503);
		two.up();
		has(two, NONE);
		await until('it is back', async () => (await control('GET', '/templates/aliases/gone')).status === 404);
	});

	it('a worker that says nothing is waited for a short time; who goes away leaves nothing (slow)', async () => {
		has(one, { ...NONE, template: { id: ones[0], at: 1 } });
		two.handler = (req, res) => void (req.headers['caisson-list'] ? undefined : two.say(res, 200, {}));
		const begun = Date.now();
		assert.equal((await create('slow')).json.worker, 'ab3');
		assert.ok(Date.now() - begun < 10_000);
		const used = async (): Promise<number> => (await (await fleet.call('GET', '/api/v1/me')).json() as Json).budgets.port_requests.used as number;
		const before = asked(two).length, gone = new AbortController();
		const left = fetch(`${fleet.base}/faces/e2b/templates/aliases/slow`, { headers: { 'x-api-key': hex(KEY) }, signal: gone.signal }).catch(() => 'left');
		await until('it is asked', () => asked(two).length > before);
		assert.equal(await used(), 3, 'the request, and a question to each worker');
		gone.abort();
		assert.equal(await left, 'left');
		has(two, NONE);
		await until('nothing is under way', async () => await used() === 0);
		assert.equal((await create('slow')).json.worker, 'ab3');
	});

	it('after 30 s a worker is lost: its ids say so, and its names are free (slow)', async () => {
		has(one, NONE);
		two.down();
		const lost = await until('the worker is lost', async () => {
			const r = await control('GET', `/templates/${twos[0]}`);
			assert.equal(r.json.code, r.status);
			return r.status === 503 ? undefined : r;
		}, 60_000);
		assert.equal(lost.status, 404, lost.text);
		assert.match(lost.json.message, /worker zz9, which had this, is gone. A template is there again if the worker comes back/);
		assert.equal((await control('GET', '/templates/aliases/free')).status, 404);
		assert.equal((await control('POST', '/v3/templates', { name: 'free' })).json.worker, 'ab3');
		two.up();
		has(two, { ...NONE, template: { id: twos[0], at: 1 } });
		await until('it is back', async () => (await control('GET', '/templates/aliases/free')).json.worker === 'zz9');
	});
});

const possible = mode === 'root' && engine === 'native';
const skip = (!possible && 'only a server that root started, with the native engine, can have root users') || unlessEnforced('memory', 'pids');

describe('templates of E2B in a fleet of two workers', { skip }, () => {
	let fleet: RealFleet, other = '';
	const { newKey, ask, control, make, start } = client(() => fleet);
	const workerOf = (id: string): string => id.slice(1, 4);

	before(async () => {
		fleet = await startFleet('router-e2b-templates-two', { router: { SANDBOX_API_KEY: ADMIN, SANDBOX_FACES: 'e2b' }, state: stateOfItsOwn,
			worker: { SANDBOX_FACES: 'e2b', SANDBOX_IMAGE: 'base', SANDBOX_ROOT: 'on', SANDBOX_TEMPLATES: 'on', SANDBOX_IMAGES: '*' } });
		other = await newKey('somebody');
	});
	after(() => fleet.end());

	async function build(name: string, body: Json, files?: [string, Buffer]): Promise<Json> {
		const made = await control('POST', '/v3/templates', { name });
		assert.equal(made.status, 202, made.text);
		const { templateID, buildID } = made.json;
		if (files) {
			const r = await control('GET', `/templates/${templateID}/files/${files[0]}`);
			assert.equal(r.status, 201, r.text);
			const url = new URL(r.json.url);
			assert.equal(url.port, `${fleet.port}`, 'uploads go through the router');
			const put = await ask('PUT', url.pathname + url.search, { prefix: '', body: files[1], headers: r.json.headers });
			assert.equal(put.status, 200, put.text);
		}
		const begun = await control('POST', `/v2/templates/${templateID}/builds/${buildID}`, body);
		assert.equal(begun.status, 202, begun.text);
		const end = await until('the end of a build', async () => {
			const r = await control('GET', `/templates/${templateID}/builds/${buildID}/status`);
			assert.equal(r.status, 200, r.text);
			return ['ready', 'error'].includes(r.json.status as string) ? r.json : undefined;
		}, 60_000);
		assert.equal(end.status, 'ready', JSON.stringify(end));
		return made.json;
	}

	it('a build, its files, tags and sandboxes are at one worker, by id and by name (slow)', async () => {
		const dir = scratch('archive'), hash = 'cd'.repeat(32);
		fs.writeFileSync(path.join(dir, 'f.txt'), 'from a file');
		const bytes = execFileSync('tar', ['-C', dir, '-czf', '-', 'f.txt']);
		const made: Json[] = [];
		for (let i = 0; i < 8 && new Set(made.map((t) => workerOf(t.templateID as string))).size < 2; i++)
			made.push(await build(`mine-${i}`, { steps: [{ type: 'COPY', args: ['f.txt', '/srv/f.txt', '', ''], filesHash: hash }, { type: 'RUN', args: [`echo ${i} >/home/user/n`] }] }, [hash, bytes]));
		assert.equal(new Set(made.map((t) => workerOf(t.templateID as string))).size, 2, 'names have homes at both');
		for (const [i, t] of made.entries())
			for (const name of [`mine-${i}`, `Mine-${i}:default`, t.templateID as string, `${t.templateID}:${t.buildID}`]) {
				const box = await make({ templateID: name });
				assert.equal(workerOf(box.id), workerOf(t.templateID as string));
				assert.equal(said(await start(box, 'cat /srv/f.txt ~/n'), 'stdout'), `from a file${i}\n`);
				assert.equal((await control('DELETE', `/sandboxes/${box.id}`)).status, 204);
			}
		for (const at of ['/templates', '/v2/templates']) {
			const all = await control('GET', at);
			assert.deepEqual(all.json.map((t: Json) => t.templateID).sort(), made.map((t) => t.templateID).sort(), all.text);
			assert.deepEqual((await control('GET', at, undefined, other)).json, []);
		}
		const far = made.find((t) => workerOf(t.templateID as string) !== workerOf(made[0]!.templateID as string))!;
		const from = (await control('POST', '/v3/templates', { name: 'mine-0:far' })).json;
		assert.equal((await control('POST', `/v2/templates/${from.templateID}/builds/${from.buildID}`, { fromTemplate: far.templateID, steps: [] })).status, 202);
		const why = await until('the end of a build that cannot be', async () => {
			const r = await control('GET', `/templates/${from.templateID}/builds/${from.buildID}/status`);
			return r.json.status === 'error' ? r.json.reason : undefined;
		});
		assert.match(why.message as string, /in a fleet a template can be built from one of the same worker alone/);
		const again = await build('mine-0', { steps: [{ type: 'RUN', args: ['echo new >/home/user/n'] }] });
		assert.equal(again.templateID, made[0]!.templateID, 'a name has one template');
		assert.equal((await control('POST', '/templates/tags', { target: 'mine-0', tags: ['v2'] })).status, 201);
		assert.deepEqual((await control('GET', '/templates/mine-0/tags')).json.map((t: Json) => t.tag).sort(), ['default', 'v2']);
		assert.equal((await control('DELETE', '/templates/tags', { name: 'mine-0', tags: ['v2'] })).status, 204);
		assert.equal((await control('GET', '/templates/aliases/mine-1')).json.templateID, made[1]!.templateID);
		for (const [method, at] of [['GET', '/templates/aliases/mine-1'], ['DELETE', '/templates/mine-1'], ['GET', `/templates/${made[1]!.templateID}`]] as const)
			assert.equal((await control(method, at, undefined, other)).status, 404, 'of another user');
		assert.equal((await control('POST', '/v2/sandboxes', { templateID: 'mine-1' }, other)).status, 404);
		assert.equal((await control('POST', '/v3/templates', { name: 'code-interpreter-v1' })).status, 400, 'the image of the server');
		for (const i of made.keys())
			assert.equal((await control('DELETE', `/templates/mine-${i}`)).status, 204);
		assert.equal((await control('GET', '/templates/aliases/mine-0')).status, 404);
		assert.deepEqual((await control('GET', '/templates')).json, []);
	});
});
