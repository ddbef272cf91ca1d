// SPDX-License-Identifier: Apache-2.0
// The face e2b: what a sandbox may reach. Hosts, addresses and blocks of them, chosen when it is made and later; what may be had from the
// network here is the package index on loopback, which the operator names. How the proxy judges addresses is in tests/unit/test_egress_blocks.c.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { ADMIN, client, hex, said, type Answer, type Box } from '../lib/e2b.ts';
import { newStateDir } from '../lib/env.ts';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';
import { Index } from '../lib/wheel.ts';

const EVERYTHING = '0.0.0.0/0';

describe('e2b: networks', () => {
	let program: Program;
	let base: string;
	let port: number;
	let other: string;

	before(async () => {
		({ program, base, port } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN, SANDBOX_FACES: 'e2b' } }));
		other = await newKey('somebody');
	});
	after(async () => {
		await program.end();
	});
	const { newKey, control, make } = client(() => ({ base, port }));

	it('the network of a sandbox changes within what the operator permits', async () => {
		const put = (s: Box, body: Json, key?: string): Promise<Answer> => control('PUT', `/sandboxes/${s.id}/network`, body, key);
		const box = await make();
		assert.equal((await put(box, {})).status, 204);
		assert.equal((await put(box, { denyOut: ['0.0.0.0/0'] })).status, 204);
		assert.equal((await put(box, { allowOut: ['example.org'], denyOut: ['0.0.0.0/0'] })).status, 403);
		for (const body of [{ denyOut: ['example.org'] }, { allowOut: ['example.org'] }, { rules: { a: [] } }, { egressProxy: { url: 'x' } }])
			assert.equal((await put(box, body)).status, 400, JSON.stringify(body));
		assert.equal((await put(box, {}, hex(other))).status, 404);
		const open = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_FACES: 'e2b', SANDBOX_NETWORK: 'allowlist', SANDBOX_NETWORK_ALLOW: 'a.example.org b.example.org' } });
		try {
			const call = (method: string, at: string, body?: Json): Promise<Response> =>
				fetch(`${open.base}/faces/e2b${at}`, { method, headers: { 'x-api-key': 'e2b_00', 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
			const made = await (await call('POST', '/v2/sandboxes', { templateID: 'base', timeout: 60 })).json() as Json;
			const change = async (body: Json): Promise<number> => (await call('PUT', `/sandboxes/${made.sandboxID}/network`, body)).status;
			const internet = async (): Promise<boolean> => ((await (await call('GET', `/sandboxes/${made.sandboxID}`)).json()) as Json).allowInternetAccess;
			assert.equal(await internet(), true);
			assert.deepEqual([await change({ denyOut: ['0.0.0.0/0'] }), await internet()], [204, false]);
			assert.deepEqual([await change({ denyOut: ['0.0.0.0/0'], allowOut: ['a.example.org'] }), await internet()], [204, true]);
			assert.deepEqual([await change({ denyOut: ['0.0.0.0/0'], allowOut: ['c.example.org'] }), await internet()], [403, true]);
			assert.deepEqual([await change({ allow_internet_access: false }), await internet()], [204, false]);
			assert.deepEqual([await change({}), await internet()], [204, true]);
			/* One that was made without a network, and a fork and a snapshot of it, get one later, within the policy. */
			const there = client(() => ({ base: open.base, port: open.port })), closed = await there.make({ allow_internet_access: false }, 'e2b_00');
			const ids = async (path: string, body: Json): Promise<Json> => (await there.control('POST', `/sandboxes/${closed.id}/${path}`, body, 'e2b_00')).json;
			const forked = (await ids('fork', { count: 1 }))[0].sandbox, snapshot = await ids('snapshots', {});
			const boxes: Box[] = [closed, { id: forked.sandboxID, token: forked.envdAccessToken, traffic: '' }, await there.make({ templateID: snapshot.snapshotID }, 'e2b_00')];
			const asks = 'echo "${HTTPS_PROXY:-no proxy}"; exec 3<>/dev/tcp/127.0.0.1/3128; printf "GET http://%s/ HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" b.example.org b.example.org >&3; cat <&3';
			for (const b of boxes) {
				assert.match(said(await there.start(b, asks), 'stdout'), /^no proxy\nHTTP\/1.1 403 /);
				assert.equal((await there.control('PUT', `/sandboxes/${b.id}/network`, { denyOut: ['0.0.0.0/0'], allowOut: ['b.example.org'] }, 'e2b_00')).status, 204);
				assert.deepEqual((await there.control('GET', `/sandboxes/${b.id}`, undefined, 'e2b_00')).json.network, { allowPublicTraffic: false, denyOut: ['0.0.0.0/0'], allowOut: ['b.example.org'] });
				assert.match(said(await there.start(b, asks), 'stdout'), /^http:\/\/127.0.0.1:3128\nHTTP\/1.1 50[234] /); // there is no such host
				assert.equal((await there.control('PUT', `/sandboxes/${b.id}/network`, { allow_internet_access: false }, 'e2b_00')).status, 204);
				assert.match(said(await there.start(b, asks), 'stdout'), /^no proxy\nHTTP\/1.1 403 /);
			}
			const later = await there.make({ templateID: snapshot.snapshotID, network: { denyOut: ['0.0.0.0/0'], allowOut: ['b.example.org'] } }, 'e2b_00');
			assert.match(said(await there.start(later, asks), 'stdout'), /HTTP\/1.1 50[234] /);
		} finally {
			await open.program.end();
		}
	});
});

describe('e2b: addresses', () => {
	const index = new Index();
	let program: Program;
	let base: string;
	let port: number;

	before(async () => {
		await index.open();
		index.add('alpha');
		const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN, SANDBOX_FACES: 'e2b', SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_NETWORK: 'packages', SANDBOX_NETWORK_MAX: 'allowlist', SANDBOX_NETWORK_ALLOW: 'a.invalid.example 8.8.8.0/24 [2620:fe::/48]:8443' };
		({ program, base, port } = await serve({ profile: 'full', env }));
	});
	after(async () => {
		await program.end();
		index.close();
	});
	const { control, make, start } = client(() => ({ base, port }));
	const put = (box: Box, body: Json): Promise<Answer> => control('PUT', `/sandboxes/${box.id}/network`, body);
	const network = async (box: Box): Promise<Json> => {
		const { denyOut, allowOut } = (await control('GET', `/sandboxes/${box.id}`)).json.network;
		return { ...(denyOut && { denyOut }), ...(allowOut && { allowOut }) };
	};
	/** What the proxy says to a request for the index: its status, and why. */
	const index_of = async (box: Box): Promise<string> => {
		const host = new URL(index.url).host, text = said(await start(box, `exec 3<>/dev/tcp/127.0.0.1/3128; printf "GET http://${host}/simple/alpha/ HTTP/1.1\\r\\nHost: ${host}\\r\\n\\r\\n" >&3; cat <&3`), 'stdout');
		return `${/^HTTP\/1.1 (\d+)/.exec(text)?.[1]} ${/X-Egress-Reason: (\w+)/.exec(text)?.[1] ?? ''}`.trim();
	};

	it('denied blocks and exceptions from them hold for connections, now and when they change', async () => {
		const plain = await make(), denied = await make({ network: { denyOut: ['127.0.0.0/8'] } });
		assert.deepEqual([await index_of(plain), await index_of(denied)], ['200', '403 address_not_allowed']);
		for (const [body, expected] of [
			[{ denyOut: ['127.0.0.0/8', '10.0.0.0/8'], allowOut: ['127.0.0.1'] }, '200'], [{ denyOut: ['127.0.0.1/32'] }, '403 address_not_allowed'], [{ denyOut: ['127.0.0.2', '::/0'] }, '200'],
			[{ denyOut: ['127.0.0.2/0'] }, '403 no_network'], [{ denyOut: ['126.0.0.0/7'] }, '403 address_not_allowed'], [{ allowOut: ['8.8.8.8'] }, '200'], [{}, '200'],
		] as const) {
			assert.equal((await put(denied, body)).status, 204, JSON.stringify(body));
			assert.equal(await index_of(denied), expected, JSON.stringify(body));
		}
		assert.equal((await put(denied, { denyOut: ['127.0.0.0/8'] })).status, 204);
		const fork = (await control('POST', `/sandboxes/${denied.id}/fork`, { count: 1 })).json[0].sandbox;
		assert.equal(await index_of({ id: fork.sandboxID, token: fork.envdAccessToken, traffic: '' }), '403 address_not_allowed');
	});


	it('an open connection ends when its address is denied, and no sooner', async () => {
		const box = await make(), host = new URL(index.url).host;
		const tunnel = `import socket
s = socket.create_connection(('127.0.0.1', 3128))
s.sendall(b'CONNECT ${host} HTTP/1.1\\r\\nHost: ${host}\\r\\n\\r\\n')
open('said', 'wb').write(s.recv(100))
s.settimeout(100)
try:
    s.recv(1)
except ConnectionError:
    pass
open('ended', 'w').write('ended')`;
		const read = async (name: string): Promise<string> => said(await start(box, `cat ${name} 2>/dev/null || true`), 'stdout');
		const running = start(box, `cat > tunnel.py <<'END'\n${tunnel}\nEND\npython3 tunnel.py`);
		await until('the tunnel', async () => (await read('said')).startsWith('HTTP/1.1 200'));
		for (const body of [{ denyOut: ['10.0.0.0/8'] }, { denyOut: ['127.0.0.0/8'], allowOut: ['127.0.0.1/32'] }, {}]) {
			assert.equal((await put(box, body)).status, 204);
			assert.equal(await read('ended'), '', JSON.stringify(body));
		}
		assert.equal((await put(box, { denyOut: ['127.0.0.1'] })).status, 204);
		await until('the end of the tunnel', async () => (await read('ended')) === 'ended');
		await running;
	});


	it('rules are told as they are compared', async () => {
		for (const [body, told] of [
			[{ denyOut: ['8.8.8.8/32', '10.1.2.3/8', '2620:FE:0::/32'] }, { denyOut: ['8.8.8.8', '10.0.0.0/8', '2620:fe::/32'] }],
			[{ denyOut: ['8.8.0.0/16'], allowOut: ['8.8.8.8', '10.0.0.1'] }, { denyOut: ['8.8.0.0/16'], allowOut: ['8.8.8.8', '10.0.0.1'] }],
			[{ denyOut: [EVERYTHING, '8.8.8.8'], allowOut: ['A.invalid.example', '8.8.8.9/30'] }, { denyOut: [EVERYTHING, '8.8.8.8'], allowOut: ['a.invalid.example', '8.8.8.8/30'] }],
			[{ denyOut: [EVERYTHING], allowOut: ['[2620:fe::9]:8443'] }, { denyOut: [EVERYTHING], allowOut: ['[2620:fe::9]:8443'] }],
			[{ denyOut: [EVERYTHING, '8.8.8.8'] }, { denyOut: [EVERYTHING] }], [{ allow_internet_access: false }, { denyOut: [EVERYTHING] }], [{ denyOut: [], allowOut: [] }, {}],
		] as [Json, Json][]) {
			const { allow_internet_access, ...rules } = body, box = await make(allow_internet_access === undefined ? { network: rules } : { allow_internet_access });
			assert.deepEqual(await network(box), told);
			assert.equal((await put(box, {})).status, 204);
			assert.deepEqual(await network(box), {});
			assert.equal((await put(box, body)).status, 204, JSON.stringify(body));
			assert.deepEqual(await network(box), told);
			await control('DELETE', `/sandboxes/${box.id}`);
		}
	});


	it('members that are not offered are refused by their names, when it is made and later', async () => {
		const box = await make();
		for (const [member, value, advice] of [['egressProxy', { address: 'proxy.example.org:1080' }, /leave egress_proxy out/], ['dnsServers', ['1.1.1.1'], /leave dns_servers out/],
			['rules', { 'a.invalid.example': [{ transform: { headers: { a: 'b' } } }] }, /leave rules out/], ['rules', { 'a.invalid.example': [] }, /leave rules out/]] as [string, Json, RegExp][])
			for (const r of [await put(box, { [member]: value }), await control('POST', '/v2/sandboxes', { templateID: 'base', network: { [member]: value } })]) {
				assert.deepEqual([r.status, r.json.message.startsWith(`${member}: `)], [400, true], r.text);
				assert.match(r.json.message, advice);
			}
		/* What asks for nothing is no reason. */
		assert.equal((await put(box, { egressProxy: null, dnsServers: [], httpsPorts: [], rules: {} })).status, 204);
	});


	it('what is no rule, or wider than the operator permits, is refused with a sentence', async () => {
		const box = await make(), many = (n: number): string[] => Array.from({ length: n }, (_, i) => `8.8.8.${i}`);
		assert.equal((await put(box, { denyOut: ['127.0.0.0/8'] })).status, 204);
		for (const entry of ['', ' ', '*', 'example.org', '*.example.org', '8.8.8', '8.8.8.8/33', '8.8.8.8/', '8.8.8.08', '010.8.8.8', '0x8080808', '134744072', '8.8.8.8 9.9.9.9', '8.8.8.8,9.9.9.9', '8.8.8.8:53', '!8.8.8.8', '::ffff:8.8.8.8', '::ffff:0:0/96',
			'fe80::1%eth0', '[::1]', 'x'.repeat(5000), 'ä'.repeat(300), 8, null, ['8.8.8.8']]) {
			const r = await put(box, { denyOut: ['9.9.9.9', entry] });
			assert.equal(r.status, 400, JSON.stringify([entry, r.text]));
			assert.match(r.json.message, /denyOut: .*(names cannot be denied)/);
		}
		for (const entry of ['', '!8.8.8.8', '8.8.8.8 9.9.9.9', '8.8.8.8,9.9.9.9', '8.8.8.8/33', '::ffff:8.8.8.8', '10.0.0.0/8', '127.0.0.1', 'fd00::1', 'localhost', 'a.invalid.example.', 8, null]) {
			const r = await put(box, { denyOut: [EVERYTHING], allowOut: [entry] });
			assert.equal(r.status, 400, JSON.stringify([entry, r.text]));
		}
		for (const entry of ['9.9.9.9', '8.8.0.0/16', EVERYTHING, '::/0', '2620:fe::9', '8.8.8.8:8443', 'b.invalid.example']) {
			const r = await put(box, { denyOut: [EVERYTHING], allowOut: ['8.8.8.8', entry] });
			assert.equal(r.status, 403, JSON.stringify([entry, r.text]));
			assert.match(r.json.message, /SANDBOX_NETWORK_ALLOW/);
		}
		for (const body of [{ allowOut: ['a.invalid.example'] }, { denyOut: ['8.8.8.8'], allowOut: ['a.invalid.example'] }, { denyOut: ['0.0.0.0/1', '128.0.0.0/1'], allowOut: ['a.invalid.example'] }]) {
			const r = await put(box, body);
			assert.deepEqual([r.status, /needs denyOut with 0.0.0.0\/0/.test(r.json.message)], [400, true], r.text);
		}
		for (const [body, member] of [[{ denyOut: many(33) }, 'denyOut'], [{ denyOut: ['8.8.8.8'], allowOut: many(33) }, 'allowOut'], [{ denyOut: [EVERYTHING], allowOut: many(33) }, 'allowOut']] as [Json, string][]) {
			const r = await put(box, body);
			assert.deepEqual([r.status, r.json.message.startsWith(`${member}: at most 32`)], [400, true], r.text);
		}
		assert.deepEqual(await network(box), { denyOut: ['127.0.0.0/8'] }, 'what is refused changes nothing');
		assert.equal((await put(box, { denyOut: [EVERYTHING, ...many(32)], allowOut: many(32) })).status, 204);
		assert.deepEqual(await network(box), { denyOut: [EVERYTHING, ...many(32)], allowOut: many(32) });
	});
});
