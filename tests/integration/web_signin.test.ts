// SPDX-License-Identifier: Apache-2.0
// Browsers that sign in: the cookie, what it may do and for whom, that no other site can use it, and when it ends.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import { after, before, describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';

/** `from`: the port of our end of the connection. */
interface Answer { status: number; headers: http.IncomingHttpHeaders; body: Json; from: number | undefined }

/** node:http, because fetch() does not let a program set Origin, Cookie and Sec-Fetch-*. */
function send(base: string, method: string, path: string, headers: Record<string, string> = {}, json?: unknown, agent?: http.Agent): Promise<Answer> {
	const body = json === undefined ? undefined : JSON.stringify(json);
	const url = new URL(base);
	return new Promise((resolve, reject) => {
		const req = http.request({
			host: '127.0.0.1', port: url.port, method, path, agent,
			headers: { host: url.host, ...(body === undefined ? {} : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) }), ...headers },
		}, (r) => {
			const from = r.socket.localPort;
			let text = '';
			r.setEncoding('utf8').on('data', (p: string) => (text += p)).on('end', () => {
				let parsed: Json = {};
				try {
					parsed = text ? JSON.parse(text) : {};
				} catch { /* not JSON */ }
				resolve({ status: r.statusCode!, headers: r.headers, body: parsed, from });
			});
		}).on('error', reject);
		req.end(body);
	});
}

const password = 'correct horse battery';
const cookieOf = (a: Answer): string => a.headers['set-cookie']![0]!.split(';')[0]!;

describe('signing in', () => {
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on' };
	let program: Program;
	let base = '';
	let key = '';
	let page: Record<string, string> = {}; // what the page's own requests have

	before(async () => {
		assert.equal((await caisson(['user', 'add', 'root', '--role', 'admin', '--password', 'none'], { env })).code, 0);
		key = /csn_\S+/.exec((await caisson(['key', 'new', 'root', '--scope', 'admin'], { env })).stdout.toString())![0];
		({ program, base } = await serve({ profile: 'full', env }));
		page = { 'sec-fetch-site': 'same-origin', origin: base, 'x-caisson-page': '1' };
		for (const name of ['ada', 'bob', 'eve'])
			assert.equal((await send(base, 'POST', '/api/v1/users', { authorization: `Bearer ${key}` }, { name, password })).status, 201);
	});
	after(async () => {
		await program.end();
	});

	const signIn = async (username: string): Promise<string> => {
		const a = await send(base, 'POST', '/api/v1/session', page, { username, password });
		assert.equal(a.status, 200, JSON.stringify(a.body));
		return cookieOf(a);
	};
	const me = (cookie: string): Promise<Answer> => send(base, 'GET', '/api/v1/me', { cookie, 'sec-fetch-site': 'same-origin' });

	it('tells strangers how, and nothing else', async () => {
		const a = await send(base, 'GET', '/api/v1/session');
		assert.equal(a.status, 200);
		assert.deepEqual([a.body.required, a.body.signed_in, a.body.me, a.body.how, a.body.registration, a.body.loopback], [true, false, null, null, 'invitation', true]);
		assert.equal((await send(base, 'GET', '/api/v1/me')).status, 401);
	});

	it('sets a cookie that scripts and other sites do not get', async () => {
		const a = await send(base, 'POST', '/api/v1/session', page, { username: 'ada', password });
		const set = a.headers['set-cookie']![0]!;
		assert.match(set, /^caisson-\d+=csb_[^;]+; /);
		for (const attribute of ['HttpOnly', 'SameSite=Strict', 'Path=/'])
			assert.ok(set.split('; ').includes(attribute), set);
		assert.doesNotMatch(set, /Domain|Secure/);
		assert.equal(a.body.me.name, 'ada');
		assert.equal(a.body.how, 'cookie');
		assert.equal((await me(cookieOf(a))).body.name, 'ada');
		assert.equal((await send(base, 'POST', '/api/v1/session', page, { username: 'ada', password: 'wrong' })).status, 401);
		assert.equal((await send(base, 'POST', '/api/v1/session', page, { username: 'nobody', password })).status, 401);
		assert.equal((await send(base, 'POST', '/api/v1/session', page, { username: 'ada', password, key: 'x' })).status, 400);
	});

	it('changes something only for the page itself', async () => {
		const cookie = await signIn('ada');
		const rows: [string, Record<string, string>, number][] = [
			['the page', page, 201],
			['the page, of a browser without Sec-Fetch-Site', { origin: base, 'x-caisson-page': '1' }, 201],
			['without Origin', { 'sec-fetch-site': 'same-origin', 'x-caisson-page': '1' }, 201],
			['without the header', { 'sec-fetch-site': 'same-origin', origin: base }, 403],
			['nothing said', {}, 403],
			['the header alone', { 'x-caisson-page': '1' }, 403],
			['another site', { ...page, 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }, 403],
			['another site without Origin', { ...page, 'sec-fetch-site': 'cross-site', origin: '' }, 403],
			['another port of this machine', { ...page, 'sec-fetch-site': 'same-site', origin: 'http://127.0.0.1:1' }, 403],
			['an opaque origin', { ...page, 'sec-fetch-site': 'cross-site', origin: 'null' }, 403],
			['a lying Origin', { ...page, origin: `${base}.evil.example` }, 403],
			['typed into the address line', { ...page, 'sec-fetch-site': 'none', origin: '' }, 403],
		];
		for (const [what, headers, status] of rows) {
			const sent = Object.fromEntries(Object.entries(headers).filter(([, v]) => v !== ''));
			assert.equal((await send(base, 'POST', '/api/v1/sandboxes', { cookie, ...sent }, {})).status, status, what);
		}
		// A form of another site: no JSON, no header.
		assert.equal((await send(base, 'POST', '/api/v1/sandboxes', { cookie, 'content-type': 'text/plain', 'sec-fetch-site': 'cross-site' })).status, 403);
		// Reading from another site with the cookie gives nothing.
		assert.equal((await send(base, 'GET', '/api/v1/me', { cookie, 'sec-fetch-site': 'cross-site' })).status, 403);
		assert.equal((await send(base, 'GET', '/api/v1/events', { cookie, 'sec-fetch-site': 'same-site' })).status, 403);
		// No other site signs anybody in, or out.
		assert.equal((await send(base, 'POST', '/api/v1/session', { 'sec-fetch-site': 'cross-site' }, { username: 'eve', password })).status, 403);
		assert.equal((await send(base, 'DELETE', '/api/v1/session', { cookie, 'sec-fetch-site': 'cross-site' })).status, 403);
		assert.equal((await me(cookie)).status, 200);
	});

	it('is no credential outside of REST', async () => {
		const cookie = await signIn('ada');
		for (const [method, path] of [['POST', '/mcp'], ['GET', '/sse'], ['GET', '/api/users/me']] as const)
			assert.equal((await send(base, method, path, { cookie, ...page }, method === 'POST' ? {} : undefined)).status, 401, path);
	});

	it('is one user: nobody sees what is another\'s', async () => {
		const [ada, bob] = [await signIn('ada'), await signIn('bob')];
		const id = (await send(base, 'POST', '/api/v1/sandboxes', { cookie: ada, ...page }, {})).body.id;
		assert.equal((await send(base, 'GET', `/api/v1/sandboxes/${id}`, { cookie: ada, ...page })).status, 200);
		assert.equal((await send(base, 'GET', `/api/v1/sandboxes/${id}`, { cookie: bob, ...page })).status, 404);
		assert.equal((await send(base, 'GET', '/api/v1/users', { cookie: ada, ...page })).status, 403);
		const made = await send(base, 'POST', '/api/v1/keys', { cookie: ada, ...page }, { name: 'mine' });
		assert.equal(made.status, 201);
	});

	it('(slow) ends by signing out, with the password and with the user, also for open streams', async () => {
		const admin = { authorization: `Bearer ${key}` };
		const [one, two] = [await signIn('eve'), await signIn('eve')];
		assert.equal((await send(base, 'DELETE', '/api/v1/session', { cookie: one, ...page })).status, 204);
		assert.equal((await me(one)).status, 401);
		assert.equal((await me(two)).status, 200);
		// The stream ends, its connection does not: the next request on it is answered.
		const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
		const stream = send(base, 'GET', '/api/v1/events', { cookie: two, 'sec-fetch-site': 'same-origin' }, undefined, agent);
		const next = send(base, 'GET', '/api/v1/me', { cookie: two, 'sec-fetch-site': 'same-origin' }, undefined, agent);
		const eve = (await send(base, 'GET', '/api/v1/users', admin)).body.users.find((u: Json) => u.name === 'eve');
		assert.equal((await send(base, 'PATCH', `/api/v1/users/${eve.id}`, admin, { password: 'another one entirely' })).status, 200);
		assert.equal((await stream).status, 200);
		assert.equal((await next).status, 401);
		assert.equal((await next).from, (await stream).from, 'the server closed the connection of the stream');
		agent.destroy();
		assert.equal((await me(two)).status, 401);
		const three = cookieOf(await send(base, 'POST', '/api/v1/session', page, { username: 'eve', password: 'another one entirely' }));
		assert.equal((await send(base, 'PATCH', `/api/v1/users/${eve.id}`, admin, { active: false })).status, 200);
		assert.equal((await me(three)).status, 401);
		assert.equal((await send(base, 'POST', '/api/v1/session', page, { username: 'eve', password: 'another one entirely' })).status, 401);
		assert.equal((await send(base, 'DELETE', `/api/v1/users/${eve.id}`, admin)).status, 204);
		assert.equal((await me(three)).status, 401);
	});

	it('by a key has the rights of the key, and ends with it', async () => {
		const admin = { authorization: `Bearer ${key}` };
		const bob = (await send(base, 'GET', '/api/v1/users', admin)).body.users.find((u: Json) => u.name === 'bob');
		const made = (await send(base, 'POST', `/api/v1/keys?owner=${bob.id}`, admin, { scope: 'read' })).body;
		const cookie = cookieOf(await send(base, 'POST', '/api/v1/session', page, { key: made.key }));
		const who = (await me(cookie)).body;
		assert.deepEqual([who.name, who.read_only, who.how], ['bob', true, 'cookie']);
		assert.equal((await send(base, 'POST', '/api/v1/sandboxes', { cookie, ...page }, {})).status, 403);
		assert.equal((await send(base, 'DELETE', `/api/v1/keys/${made.id}?owner=${bob.id}`, admin)).status, 204);
		assert.equal((await me(cookie)).status, 401);
		assert.equal((await send(base, 'POST', '/api/v1/session', page, { key: 'csn_nothing' })).status, 401);
	});

	it('a key that may only read, or only run code, ends no other sign-in', async () => {
		const cookie = await signIn('ada');
		for (const [scope, profile] of [['read', 'full'], ['full', 'code']]) {
			const made = await send(base, 'POST', '/api/v1/keys', { cookie, ...page }, { name: 'x', scope, profile });
			assert.equal(made.status, 201, JSON.stringify(made.body));
			const weak = made.body.key;
			assert.equal((await send(base, 'DELETE', '/api/v1/session?all=true', { 'x-api-key': weak })).status, 403);
			// More sign-ins than one may have: those by this key make room, not those by password.
			let last = '';
			for (let i = 0; i < 40; i++)
				last = cookieOf(await send(base, 'POST', '/api/v1/session', page, { key: weak }));
			assert.equal((await me(last)).status, 200);
			assert.equal((await send(base, 'DELETE', '/api/v1/session?all=true', { cookie: last, ...page })).status, 403);
			assert.equal((await send(base, 'DELETE', '/api/v1/session', { cookie: last, ...page })).status, 204);
			assert.equal((await me(last)).status, 401);
			assert.equal((await me(cookie)).status, 200);
		}
		assert.equal((await send(base, 'DELETE', '/api/v1/session?all=true', { cookie, ...page })).status, 204);
		assert.equal((await me(cookie)).status, 401);
	});

	it('an invitation makes one account and signs in', async () => {
		const admin = { authorization: `Bearer ${key}` };
		const { invitation } = (await send(base, 'POST', '/api/v1/invitations', admin, { note: 'for Zoe' })).body;
		const join = (json: Json): Promise<Answer> => send(base, 'POST', '/api/v1/register', page, json);
		assert.equal((await join({ username: 'zoe', password })).status, 403);
		assert.equal((await join({ username: 'zoe', password, invitation: 'csi_wrong' })).status, 403);
		assert.equal((await join({ username: 'z@e', password, invitation })).body.member, 'username');
		assert.equal((await join({ username: 'ada', password, invitation })).status, 409);
		const short = await join({ username: 'zoe', password: 'short', invitation });
		assert.deepEqual([short.status, short.body.member], [400, 'password'], JSON.stringify(short.body));
		const a = await join({ username: 'zoe', password, invitation });
		assert.equal(a.status, 201, JSON.stringify(a.body));
		assert.equal((await me(cookieOf(a))).body.name, 'zoe');
		assert.equal((await join({ username: 'second', password, invitation })).status, 403);
	});

	it('(slow) many wrong passwords slow down', async () => {
		const wrong = [...Array(30)].map(() => send(base, 'POST', '/api/v1/session', page, { username: 'bob', password: 'guess' }));
		const statuses = (await Promise.all(wrong)).map((a) => a.status);
		assert.ok(statuses.includes(429), statuses.join());
		assert.ok(statuses.every((s) => s === 401 || s === 429), statuses.join());
	});
});

describe('signing in behind https, with one key, and not at all', () => {
	it('the cookie is Secure and bound to the host', async () => {
		const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: 'the-one-key-of-this-server', SANDBOX_PUBLIC_URL: 'https://sandbox.example' };
		const { program, base } = await serve({ profile: 'full', env });
		const page = { 'sec-fetch-site': 'same-origin', 'x-caisson-page': '1', host: 'sandbox.example', origin: 'https://sandbox.example' };
		const a = await send(base, 'POST', '/api/v1/session', page, { key: 'the-one-key-of-this-server' });
		assert.equal(a.status, 200, JSON.stringify(a.body));
		assert.match(a.headers['set-cookie']![0]!, /^__Host-caisson=[^;]+; Path=\/; .*Secure/);
		const cookie = cookieOf(a);
		assert.equal((await send(base, 'GET', '/api/v1/me', { ...page, cookie })).body.admin, true);
		assert.equal((await send(base, 'GET', '/api/v1/me', { ...page, cookie: cookie.replace('__Host-', '') })).status, 401);
		await program.end();
	});

	it('an open server says that it is open', async () => {
		const { program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir() } });
		const a = await send(base, 'GET', '/api/v1/session');
		assert.deepEqual([a.body.required, a.body.how, a.body.me.admin, a.body.signed_in], [false, 'open', true, false]);
		assert.equal((await send(base, 'GET', '/api/v1/session', { cookie: `caisson-${new URL(base).port}=csb_stale` })).body.how, 'open');
		await program.end();
	});
});
