// SPDX-License-Identifier: Apache-2.0
// Names of servers in sandboxes (PORT-ID.DOMAIN) at the router of a fleet: where they lead, and what passes in both directions.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import { after, before, describe, it } from 'node:test';
import { FakeFleet, json, KEY } from '../lib/fake-fleet.ts';
import type { FakeWorker } from '../lib/fake-workers.ts';
import type { Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

interface Answer { status: number; headers: http.IncomingHttpHeaders; text: string }

describe('names of ports at a router', () => {
	const fleet = new FakeFleet();
	let one: FakeWorker, two: FakeWorker, port = 0;

	before(async () => {
		await fleet.begin('router-ports', { SANDBOX_PORT_DOMAIN: 'ports.example.org' });
		({ one, two } = fleet);
		port = Number(new URL(fleet.base).port);
	});
	after(() => fleet.end());

	const heard = (): number => one.heard.length + two.heard.length;
	const ask = (host: string, path: string, headers: http.OutgoingHttpHeaders = {}, method = 'GET', body = ''): Promise<Answer> => new Promise((resolve, reject) => {
		http.request({ host: '127.0.0.1', port, method, path, agent: false, headers: { host, ...headers } }, (r) => {
			let text = '';
			r.setEncoding('utf8').on('data', (s: string) => (text += s)).on('end', () => resolve({ status: r.statusCode!, headers: r.headers, text }));
		}).on('error', reject).end(body);
	});

	it('lead to the worker of the sandbox, with the cookies of its server and no credential of ours', async () => {
		const id = two.ids[0]!, host = `8000-${id}.ports.example.org`;
		two.handler = (req, res) => two.say(res, 200, { at: req.url });
		const r = await ask(host.toUpperCase().replace('PORTS.EXAMPLE.ORG', 'ports.example.org'), '/api/v1/sandboxes?caisson-port=x&api_key=no', {
			'cookie': `a=1; caisson=${KEY}; caisson-port=no; __Host-caisson-device=${KEY}; b=2`, 'authorization': 'Basic dTpw', 'origin': `http://${host}`, 'caisson-port-domain': 'evil.example.org', 'caisson-caller': 'e30', 'x-forwarded-host': 'evil.example.org',
		}, 'POST', 'body');
		assert.deepEqual([r.status, JSON.parse(r.text)], [200, { at: '/api/v1/sandboxes?caisson-port=x' }]);
		const last = two.heard.at(-1)!;
		assert.deepEqual([last.method, last.body.toString(), last.caller], ['POST', 'body', undefined]);
		assert.equal(last.headers.host!.toLowerCase(), host);
		assert.deepEqual(['cookie', 'authorization', 'origin', 'caisson-port-domain', 'caisson-caller'].map((n) => last.headers[n]), ['a=1; caisson-port=no; b=2', 'Basic dTpw', `http://${host}`, 'ports.example.org', undefined]);
		const keyed = await ask(host, '/', { authorization: `Bearer ${KEY}`, 'x-api-key': 'other' });
		assert.equal(keyed.status, 200);
		assert.deepEqual([two.heard.at(-1)!.caller!.how, two.heard.at(-1)!.headers.authorization, two.heard.at(-1)!.headers['x-api-key']], ['static', undefined, undefined]);
		two.handler = undefined;
	});

	it('let a server be what it likes in its origin, and nothing beyond', async () => {
		const host = `8000-${one.ids[0]}.ports.example.org`;
		one.handler = (_, res) => {
			res.writeHead(302, [
				['Location', 'https://elsewhere.example.org/x'], ['Set-Cookie', 'a=1; Domain=ports.example.org; Path=/'], ['Set-Cookie', 'caisson=evil'], ['Set-Cookie', '=caisson=evil'], ['Set-Cookie', '__Host-caisson=evil; Secure; Path=/'],
				['Set-Cookie', 'caisson-port=1.2.3; Path=/; HttpOnly'], ['Strict-Transport-Security', 'max-age=9'], ['Alt-Svc', 'h3=":1"'], ['X-Accel-Redirect', '/etc'], ['Caisson-Caller', 'x'], ['WWW-Authenticate', 'Basic realm=x'], ['Content-Length', '0'],
			].flat());
			res.end();
		};
		const r = await ask(host, '/');
		assert.equal(r.status, 302);
		assert.deepEqual(r.headers['set-cookie'], ['a=1; Path=/', 'caisson-port=1.2.3; Path=/; HttpOnly']);
		assert.deepEqual(['location', 'www-authenticate', 'strict-transport-security', 'alt-svc', 'x-accel-redirect', 'caisson-caller', 'content-security-policy'].map((n) => r.headers[n]),
			['https://elsewhere.example.org/x', 'Basic realm=x', undefined, undefined, undefined, undefined, undefined]);
		one.handler = undefined;
	});

	it('let a server say that it misses an identity, which is no fault of the fleet', async () => {
		one.handler = (_, res) => one.say(res, 401, { code: 'identity_missing' });
		const r = await ask(`8000-${one.ids[0]}.ports.example.org`, '/');
		assert.deepEqual([r.status, JSON.parse(r.text)], [401, { code: 'identity_missing' }]);
		one.handler = undefined;
	});

	it('lead nowhere if they are made up, and neither do passes of users who are gone', async () => {
		const id = two.ids[0]!, before = heard();
		for (const name of [`8000-${id.slice(0, 9)}${id[9] === '0' ? '1' : '0'}${id.slice(10)}`, '8000-mine'])
			assert.equal((await ask(`${name}.ports.example.org`, '/')).status, 404, name);
		for (const name of [`x-${id}`, id]) // no name of a port, and none of this server
			assert.equal((await ask(`${name}.ports.example.org`, '/')).status, 403, name);
		assert.equal((await ask(`8000-${id}.elsewhere.example.org`, '/')).status, 403);
		assert.equal(heard(), before);
		const post = (where: string, method: string, body: unknown): Promise<Response> => fetch(fleet.base + where, { method, headers: { 'x-api-key': KEY, 'content-type': 'application/json' }, body: JSON.stringify(body) });
		const user = (await json(await post('/api/v1/users', 'POST', { name: 'ada', password: 'correct horse battery' }))).id as string;
		const pass = `${Math.floor(Date.now() / 1000) + 3600}.${user}.${'0'.repeat(32)}`, host = `8000-${id}.ports.example.org`;
		two.handler = (_, res) => two.say(res, 200, {});
		const tries = (): Promise<number[]> => Promise.all([ask(host, '/', { cookie: `caisson-port=${pass}` }), ask(host, '/', { cookie: `x=1; __Host-caisson-port=${pass}` }), ask(host, `/?caisson-port=${pass}&y=1`),
			// The worker takes whichever is right, so one that is none in front of it, or a key of somebody else, changes nothing.
			ask(host, '/', { cookie: `caisson-port=x; caisson-port=${pass}` }), ask(host, '/?caisson-port=x', { cookie: `caisson-port=${pass}` }), ask(host, `/?api_key=x&caisson-port=${pass}`), ask(host, '/', { 'cookie': `caisson-port=${pass}`, 'x-api-key': KEY })].map(async (r) => (await r).status));
		assert.deepEqual(await tries(), new Array(7).fill(200));
		assert.equal((await ask(host, '/', { cookie: Array.from({ length: 5 }, () => `caisson-port=${pass}`).join('; ') })).status, 401, 'each is a question to the store');
		assert.equal((await post(`/api/v1/users/${user}`, 'PATCH', { active: false })).status, 200);
		const then = heard();
		assert.deepEqual(await tries(), new Array(7).fill(401));
		assert.equal(heard(), then, 'the worker, which does not know that, is not asked');
		two.handler = undefined;
	});
});

describe('requests without a key at a router behind a proxy', () => {
	const PROXY = '127.0.0.9', EACH = 3, fleet = new FakeFleet(), waiting: (() => void)[] = [];
	let host = '', port = 0;

	before(async () => {
		await fleet.begin('router-strangers', { SANDBOX_PORT_DOMAIN: 'ports.example.org', SANDBOX_TRUSTED_PROXIES: PROXY, SANDBOX_BUDGETS: `port_requests=${EACH}/64`, SANDBOX_REQUIRE_AUTH: 'on' });
		port = Number(new URL(fleet.base).port);
		host = `8000-${fleet.two.ids[0]}.ports.example.org`;
		fleet.two.handler = (req, res) => req.url === '/held' ? void waiting.push(() => fleet.two.say(res, 200, {})) : fleet.two.say(res, 200, {});
	});
	after(() => fleet.end());

	interface From { agent?: http.Agent; headers?: http.OutgoingHttpHeaders; where?: string; to?: string }
	const status = (client: string, { agent, headers = {}, where = '/', to = host }: From = {}): Promise<number> => new Promise((resolve, reject) => {
		http.get({ host: '127.0.0.1', localAddress: PROXY, port, path: where, agent: agent ?? false, headers: { host: to, 'x-forwarded-for': client, ...headers } }, (r) => r.resume().on('end', () => resolve(r.statusCode!))).on('error', reject);
	});

	it('count for the address that the proxy says, whatever else they say', async () => {
		const held = Array.from({ length: EACH }, () => status('9.9.9.1', { where: '/held' }));
		await until('they are at the worker', () => waiting.length === EACH);
		const other = { 'x-real-ip': '9.9.9.7', 'true-client-ip': '9.9.9.7', 'caisson-caller': 'e30', 'connection': 'x-forwarded-for', 'x-api-key': 'csn_wrong', 'cookie': `caisson-port=${Math.floor(Date.now() / 1000) + 3600}..${'0'.repeat(32)}` };
		for (const [client, headers] of [['9.9.9.1', {}], ['9.9.9.7, 9.9.9.1', {}], ['9.9.9.1', other], ['::ffff:9.9.9.1', {}], ['9.9.9.1:4711', {}]] as const)
			assert.equal(await status(client, { headers }), 429, client);
		assert.equal(await status('9.9.9.1', { headers: { forwarded: 'for=9.9.9.7' } }), 400, 'two headers that disagree');
		for (const client of ['9.9.9.2', '2001:db8::1'])
			assert.equal(await status(client), 200, client);
		assert.equal(await status('9.9.9.1', { headers: { 'x-api-key': KEY } }), 200, 'with a key it is somebody else');
		assert.equal(fleet.two.heard.at(-1)!.headers['x-forwarded-for'], '9.9.9.1', 'which the worker believes of its router');
		waiting.splice(0).forEach((end) => end());
		assert.deepEqual(await Promise.all(held), new Array(EACH).fill(200));
		assert.equal(await status('9.9.9.1'), 200);
	});

	it('do not count for the user whose request came on the same connection before', async () => {
		const post = async (where: string, body: Json): Promise<Json> => json(await fetch(fleet.base + where, { method: 'POST', headers: { 'x-api-key': KEY, 'content-type': 'application/json' }, body: JSON.stringify(body) }));
		const ada = (await post('/api/v1/users', { name: 'ada', password: 'correct horse battery' })).id as string, key = (await post(`/api/v1/keys?owner=${ada}`, { name: 'k' })).key as string;
		const used = async (): Promise<number> => (await json(await fleet.call('GET', '/api/v1/me', { 'x-api-key': key }))).budgets.port_requests.used as number;
		const kept = Array.from({ length: EACH }, () => new http.Agent({ keepAlive: true, maxSockets: 1 }));
		for (const agent of kept)
			assert.equal(await status('9.9.9.3', { agent, headers: { 'x-api-key': key }, where: '/api/v1/me', to: `127.0.0.1:${port}` }), 200);
		const held = kept.map((agent, i) => status(`9.9.8.${i}`, { agent, where: '/held' }));
		await until('they are at the worker', () => waiting.length === EACH);
		assert.equal(await used(), 0);
		waiting.splice(0).forEach((end) => end());
		assert.deepEqual(await Promise.all(held), new Array(EACH).fill(200));
		kept.forEach((agent) => agent.destroy());
	});
});
