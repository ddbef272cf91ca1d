// SPDX-License-Identifier: Apache-2.0
// What a sandbox may reach, chosen when it is made (REST and `create_sandbox`): each is held against its own policy, none is wider than
// the operator permits, and nothing that is done to a sandbox widens it. The index on loopback, trusted because the operator named it,
// is what bytes can be had from; of all other hosts the words of the proxy tell what it would have done.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import { facts, serve, using, type Json, type Session } from '../lib/session.ts';
import { Canary, Index, wheel, wheelName } from '../lib/wheel.ts';
import type { Program } from '../lib/process.ts';

/** A server's REST, and what the proxy of a sandbox of it says. */
class Rest {
	readonly base: string;

	constructor(base: string) {
		this.base = base;
	}

	async ask(method: string, path: string, json?: unknown): Promise<{ status: number; body: Json }> {
		const r = await fetch(`${this.base}/api/v1${path}`, { method, headers: { 'content-type': 'application/json' }, body: json === undefined ? undefined : JSON.stringify(json) });
		const text = await r.text();
		return { status: r.status, body: text.startsWith('{') ? (JSON.parse(text) as Json) : {} };
	}

	async make(body: Json): Promise<Json> {
		const r = await this.ask('POST', '/sandboxes', body);
		assert.equal(r.status, 201, JSON.stringify(r.body));
		return r.body;
	}

	async run(id: string, code: string): Promise<string> {
		const r = await this.ask('POST', `/sandboxes/${id}/runs`, { code, wait: true });
		assert.equal(r.status, 201, JSON.stringify(r.body));
		return `${r.body.stdout}${r.body.stderr}`;
	}

	/** Sends REQUEST to the proxy: the reason's word, a status, `no proxy`, or `passed` where only the host's absence stopped it. */
	async reach(id: string, request: string): Promise<string> {
		const said = await this.run(id, `import socket
try:
    s = socket.create_connection(('127.0.0.1', 3128))
    s.sendall(${JSON.stringify(request)}.encode())
    print(s.makefile().read())
except ConnectionRefusedError:
    print('no proxy')`);
		return /no proxy|no_network|\w+_not_allowed|address_literal/.exec(said)?.[0] ?? /^HTTP\/1\.1 200/.exec(said)?.[0] ?? (/resolve_failed|no_address|HTTP\/1\.1 5/.test(said) ? 'passed' : said);
	}
}

const tunnel = (target: string): string => `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`;
const get = (url: string): string => `GET ${url} HTTP/1.1\r\nHost: ${new URL(url).host}\r\n\r\n`;

describe('networks that are chosen', () => {
	const index = new Index();
	const canary = new Canary();
	let program: Program;
	let rest: Rest;

	before(async () => {
		await index.open();
		await canary.open();
		index.add('alpha', { file: wheelName('alpha', '1.0'), body: wheel('alpha', '1.0', '') });
		const env = { SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_NETWORK_MAX: 'allowlist', SANDBOX_NETWORK_ALLOW: '*.caisson.invalid:8443 plain.invalid.example 8.8.8.0/24:8443 [2620:fe::/48]:8443', SANDBOX_MAX_SESSIONS: '60' };
		const server = await serve({ profile: 'all', env });
		program = server.program;
		rest = new Rest(server.base);
	});
	after(async () => {
		await program.end();
		index.close();
		canary.close();
	});

	it('(slow) each sandbox of one server is held against its own', async () => {
		const page = `${index.url}/alpha/`;
		const packages = await rest.make({ network: 'packages' });
		const none = await rest.make({ network: 'none' });
		const list = await rest.make({ network: 'allowlist', domains: ['API.caisson.invalid:8443'] });
		const nothing = await rest.make({});
		assert.deepEqual([packages.network, none.network, list.network, nothing.network], ['packages', 'none', 'allowlist', 'none']);
		assert.deepEqual([packages.domains, none.domains, list.domains, nothing.domains], [undefined, undefined, ['api.caisson.invalid:8443'], undefined]);

		assert.equal(await rest.reach(packages.id, get(page)), 'HTTP/1.1 200');
		assert.deepEqual(index.asked, ['/simple/alpha/']);
		assert.equal(await rest.reach(packages.id, tunnel('api.caisson.invalid:8443')), 'host_not_allowed');
		assert.equal(await rest.reach(list.id, tunnel('api.caisson.invalid:8443')), 'passed');
		assert.equal(await rest.reach(list.id, tunnel('other.caisson.invalid:8443')), 'host_not_allowed');
		assert.equal(await rest.reach(list.id, tunnel('api.caisson.invalid:443')), 'port_not_allowed');
		for (const id of [list.id, none.id, nothing.id]) {
			assert.notEqual(await rest.reach(id, get(page)), 'HTTP/1.1 200');
			assert.notEqual(await rest.reach(id, get(`http://127.0.0.1:${canary.port}/`)), 'HTTP/1.1 200');
		}
		for (const id of [none.id, nothing.id]) assert.equal(await rest.reach(id, tunnel('api.caisson.invalid:8443')), 'no proxy');
		assert.deepEqual([index.asked.length, canary.visits], [1, 0]);
	});

	it('the choice shows in GET and in the list, and nothing changes it', async () => {
		const made = await rest.make({ network: 'allowlist', domains: ['*.b.caisson.invalid:8443', 'plain.invalid.example'] });
		for (const method of ['PATCH', 'PUT', 'POST']) assert.ok((await rest.ask(method, `/sandboxes/${made.id}`, { network: 'packages' })).status >= 400);
		const domains = ['*.b.caisson.invalid:8443', 'plain.invalid.example'];
		const seen = (await rest.ask('GET', `/sandboxes/${made.id}`)).body;
		const listed = (await rest.ask('GET', '/sandboxes')).body.sandboxes.find((s: Json) => s.id === made.id);
		for (const s of [made, seen, listed]) assert.deepEqual([s.network, s.domains], ['allowlist', domains]);
	});

	it('an empty list means nothing', async () => {
		for (const body of [{ network: 'allowlist' }, { network: 'allowlist', domains: [] }]) {
			const made = await rest.make(body);
			assert.equal(made.network, 'none');
			assert.equal(await rest.reach(made.id, tunnel('api.caisson.invalid:8443')), 'no proxy');
		}
	});

	it('wider than permitted is refused with the setting\'s name', async () => {
		const open = await rest.ask('POST', '/sandboxes', { network: 'open' });
		assert.deepEqual([open.status, open.body.code], [403, 'network_not_permitted']);
		assert.match(open.body.detail, /SANDBOX_NETWORK_MAX/);
		for (const domain of ['example.org', 'caisson.invalid:8443', 'xcaisson.invalid:8443', 'a.caisson.invalid', 'a.caisson.invalid:443', '*.invalid.example', '*.plain.invalid.example', 'plain.invalid.example:8443', 'caisson.invalid.example.org:8443']) {
			const r = await rest.ask('POST', '/sandboxes', { network: 'allowlist', domains: ['a.caisson.invalid:8443', domain] });
			assert.deepEqual([r.status, r.body.code], [403, 'network_not_permitted'], domain);
			assert.match(r.body.detail, /SANDBOX_NETWORK_ALLOW/);
		}
	});

	it('addresses and blocks of them are entries of a list, and exceptions from another policy', async () => {
		const list = await rest.make({ network: 'allowlist', domains: ['8.8.8.8:8443', '8.8.8.9/30:8443', '[2620:FE::9]:8443', '8.8.8.8:8443'], kind: 'stored' });
		assert.deepEqual([list.network, list.domains], ['allowlist', ['8.8.8.8:8443', '8.8.8.8/30:8443', '[2620:fe::9]:8443']]);
		for (const [target, said] of [['8.8.8.12:8443', 'address_not_allowed'], ['8.8.8.8:443', 'port_not_allowed'], ['[2620:fe::8]:8443', 'address_not_allowed'], ['[::ffff:8.8.8.8]:8443', 'address_not_allowed'], ['api.caisson.invalid:443', 'host_not_allowed']] as const)
			assert.equal(await rest.reach(list.id, tunnel(target)), said, target);
		assert.equal(await rest.reach(list.id, tunnel('api.caisson.invalid:8443')), 'host_not_allowed');
		assert.deepEqual((await rest.ask('GET', `/sandboxes/${list.id}`)).body.domains, list.domains);
		const page = get(`${index.url}/alpha/`), kind = 'packages';
		const denied = await rest.make({ network: kind, domains: ['!127.0.0.0/8'] }), excepted = await rest.make({ network: kind, domains: ['!127.0.0.0/8', '127.0.0.1'] }), widened = await rest.make({ network: kind, domains: ['8.8.8.8'] });
		assert.deepEqual([denied.network, denied.domains], [kind, ['!127.0.0.0/8']]);
		assert.deepEqual([await rest.reach(denied.id, page), await rest.reach(excepted.id, page), await rest.reach(widened.id, page)], ['address_not_allowed', 'HTTP/1.1 200', 'HTTP/1.1 200']);
		assert.equal(await rest.reach(widened.id, tunnel('8.8.8.8:8443')), 'address_literal');
		for (const domain of ['8.8.8.8', '8.8.8.0/23:8443', '9.9.9.9:8443', '[2620:fe::/47]:8443', '0.0.0.0/0:8443']) {
			const r = await rest.ask('POST', '/sandboxes', { network: 'allowlist', domains: [domain] });
			assert.deepEqual([r.status, r.body.code], [403, 'network_not_permitted'], domain);
		}
		for (const body of [{ network: 'none', domains: ['!8.8.8.8'] }, { network: kind, domains: ['!example.org'] }, { network: kind, domains: ['!8.8.8.8:443'] }, { network: kind, domains: ['!'] }, { network: 'allowlist', domains: ['!example.org'] }, { domains: ['!8.8.8.8'] }])
			assert.equal((await rest.ask('POST', '/sandboxes', body)).status, 400, JSON.stringify(body));
	});

	it('what is no list of hosts is refused', async () => {
		const bad = ['', ' ', '*', '*.', '*.invalid', 'localhost', 'a.caisson.invalid.:8443', 'a.caisson.invalid:8443 example.org', 'a.caisson.invalid:8443,example.org', 'a.caisson.invalid:8443\nexample.org', 'user@a.caisson.invalid:8443',
			'https://a.caisson.invalid:8443', 'a.caisson.invalid:08443', 'a.caisson.invalid:0', 'a.caisson.invalid:108443', '127.0.0.1:8443', '[::1]:8443', '2130706433:8443', '0x7f.1:8443', 'a.*.caisson.invalid:8443', 'ä.caisson.invalid:8443',
			'a.caisson.invalid:8443\u0000.example.org', `${'a'.repeat(64)}.caisson.invalid:8443`, `${'a.'.repeat(130)}caisson.invalid:8443`, `a${'ä'.repeat(300)}`];
		for (const domain of bad) {
			const r = await rest.ask('POST', '/sandboxes', { network: 'allowlist', domains: [domain] });
			assert.deepEqual([r.status, r.body.code], [400, 'invalid_argument'], JSON.stringify([domain, r.body]));
		}
		const many = Array.from({ length: 33 }, (_, i) => `h${i}.caisson.invalid:8443`);
		for (const body of [{ network: 'allowlist', domains: many }, { network: 'none', domains: ['a.caisson.invalid:8443'] }, { domains: ['a.caisson.invalid:8443'] }, { network: 'packages', domains: ['a.caisson.invalid:8443'] },
			{ network: 'everything' }, { network: null }, { network: 'allowlist', domains: [7] }, { network: 'allowlist', domains: 'a.caisson.invalid:8443' }])
			assert.equal((await rest.ask('POST', '/sandboxes', body)).status, 400, JSON.stringify(body));
		assert.equal((await rest.make({ network: 'allowlist', domains: many.slice(1) })).domains.length, 32);
	});
});

describe('a network does not widen', () => {
	const index = new Index();
	before(() => index.open());
	after(() => index.close());

	it('(slow) by a fork, a restored checkpoint or a claim, where all others have more', () => using('http', { profile: 'all', env: { SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_NETWORK: 'packages', SANDBOX_NETWORK_MAX: 'allowlist', SANDBOX_NETWORK_ALLOW: 'a.invalid.example b.invalid.example', SANDBOX_MAX_SESSIONS: '20' } }, async (s: Session) => {
		const rest = new Rest(s.base!);
		const page = get(`${index.url}/nothing/`);
		const call = async (name: string, args: Json): Promise<Json> => facts(await s.raw(name, args));
		const none = await rest.make({ network: 'none' });
		const list = await rest.make({ network: 'allowlist', domains: ['a.invalid.example'] });
		assert.deepEqual([none.network, list.network, (await rest.make({})).network], ['none', 'allowlist', 'packages']);
		assert.equal((await call('sandbox_fork', { session_id: none.id, new_session_id: 'copy-none' })).error, undefined);
		assert.equal((await call('sandbox_fork', { session_id: list.id, new_session_id: 'copy-list' })).error, undefined);
		assert.equal((await call('sandbox_fork', { session_id: 'copy-none', new_session_id: 'copy-copy' })).error, undefined);
		await call('sandbox_checkpoint', { session_id: none.id, name: 'before' });
		await call('sandbox_restore', { session_id: none.id, name: 'before' });
		for (const id of [none.id, 'copy-none', 'copy-copy']) {
			assert.equal(await rest.reach(id, page), 'no proxy', id);
			assert.equal((await call('sandbox_info', { session_id: id })).network, 'none');
		}
		for (const id of [list.id, 'copy-list']) {
			assert.equal(await rest.reach(id, page), 'address_literal', id);
			assert.equal(await rest.reach(id, tunnel('b.invalid.example:443')), 'host_not_allowed', id);
			const info = await call('sandbox_info', { session_id: id });
			assert.deepEqual([info.network, info.domains], ['allowlist', ['a.invalid.example']]);
		}
		assert.equal(index.asked.length, 0);
		/* What is made ahead of need is of those without a way out: neither gets the other's. */
		for (let i = 0; i < 3; i++) {
			assert.equal(await rest.reach((await rest.make({ network: 'none' })).id, page), 'no proxy');
			assert.notEqual(await rest.reach((await rest.make({})).id, page), 'no proxy');
		}
		assert.equal(index.asked.length, 3);
	}));

	it('by a restart, and is narrowed by it where the operator permits less', async () => {
		const SANDBOX_STATE_DIR = newStateDir();
		const common = { SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_STATE_DIR };
		const ids: string[] = [];
		const first = await serve({ profile: 'all', env: { ...common, SANDBOX_NETWORK_MAX: 'open', SANDBOX_NETWORK_OPEN: 'on' } });
		try {
			const rest = new Rest(first.base);
			for (const body of [{ network: 'none' }, { network: 'allowlist', domains: ['a.invalid.example', 'b.invalid.example'] }, { network: 'open' }]) ids.push((await rest.make({ kind: 'stored', ...body })).id as string);
			assert.equal(await rest.reach(ids[2]!, tunnel('c.invalid.example:443')), 'passed');
			assert.equal(await rest.reach(ids[1]!, tunnel('c.invalid.example:443')), 'host_not_allowed');
		} finally {
			await first.program.end();
		}
		const second = await serve({ profile: 'all', env: { ...common, SANDBOX_NETWORK: 'packages', SANDBOX_NETWORK_MAX: 'allowlist', SANDBOX_NETWORK_ALLOW: 'b.invalid.example' } });
		try {
			const rest = new Rest(second.base);
			const want = [['none', undefined], ['allowlist', ['b.invalid.example']], ['none', undefined]];
			const told = async (): Promise<unknown[]> => await Promise.all(ids.map(async (id) => (await rest.ask('GET', `/sandboxes/${id}`)).body).map(async (b) => [(await b).network, (await b).domains]));
			assert.deepEqual(await told(), want); // asleep
			assert.equal(await rest.reach(ids[0]!, get(`${index.url}/x/`)), 'no proxy');
			assert.equal(await rest.reach(ids[1]!, tunnel('a.invalid.example:443')), 'host_not_allowed');
			assert.equal(await rest.reach(ids[1]!, tunnel('b.invalid.example:443')), 'passed');
			assert.equal(await rest.reach(ids[2]!, tunnel('c.invalid.example:443')), 'no proxy');
			assert.deepEqual(await told(), want); // awake
		} finally {
			await second.program.end();
		}
	});

	it('`open` is no maximum without its own permission', async () => {
		await assert.rejects(serve({ env: { SANDBOX_NETWORK_MAX: 'open' } }), /SANDBOX_NETWORK_OPEN/);
	});
});

describe('create_sandbox', () => {
	const env = { SANDBOX_NETWORK_MAX: 'allowlist', SANDBOX_NETWORK_ALLOW: 'a.invalid.example' };
	const call = async (s: Session, args: Json): Promise<Json> => facts(await s.raw('create_sandbox', args));

	it('takes a network and domains in `all`', () => using('stdio', { profile: 'all', env }, async (s) => {
		const made = await call(s, { name: 'narrow', network: 'allowlist', domains: ['A.invalid.example'] });
		assert.deepEqual([made.name, made.status, made.network, made.domains], ['narrow', 'active', 'allowlist', ['a.invalid.example']]);
		const info = facts(await s.raw('sandbox_info', { session_id: made.sandbox_id }));
		assert.deepEqual([info.network, info.domains], ['allowlist', ['a.invalid.example']]);
		assert.deepEqual(Object.keys(await call(s, { network: null, domains: null })).sort(), ['name', 'sandbox_id', 'status', 'user_id']);
		for (const [args, code, text] of [
			[{ network: 'open' }, 'network_not_permitted', /SANDBOX_NETWORK_MAX/],
			[{ network: 'allowlist', domains: ['b.invalid.example'] }, 'network_not_permitted', /SANDBOX_NETWORK_ALLOW/],
			[{ network: 'allowlist', domains: [7] }, 'invalid_argument', /./],
			[{ network: 'allowlist', domains: ['a.invalid.example\u0000'] }, 'invalid_argument', /./],
			[{ network: 'allowlist', domains: Array.from({ length: 33 }, () => 'a.invalid.example') }, 'invalid_argument', /32/],
			[{ network: '' }, 'invalid_argument', /./],
			[{ network: `x${'ä'.repeat(300)}` }, 'invalid_argument', /./],
			[{ network: 'allowlist', domains: [`a${'ä'.repeat(300)}`] }, 'invalid_argument', /./],
			[{ domains: ['a.invalid.example'] }, 'invalid_argument', /./],
		] as const) {
			const r = await call(s, args as Json);
			assert.deepEqual([r.error, r.code], [true, code], JSON.stringify(args));
			assert.match(r.message, text);
		}
	}));
	it('takes neither in `classic`', () => using('stdio', { profile: 'classic', env }, async (s) => {
		const tool = (await s.client.listTools()).tools.find((t) => t.name === 'create_sandbox')!;
		assert.deepEqual(Object.keys(tool.inputSchema.properties!), ['name']);
		assert.match((await s.raw('create_sandbox', { network: 'none' })).content[0]!.text, /unexpected_keyword_argument/);
	}));
});
