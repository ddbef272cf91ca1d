// SPDX-License-Identifier: Apache-2.0
// Public ports through a router with two workers: what somebody without a key gets, and that others get theirs.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as http from 'node:http';
import { text as content } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { engineEnv } from '../lib/env.ts';
import { startFleet, type RealFleet } from '../lib/real-fleet.ts';
import type { Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const KEY = 'k'.repeat(40), PROXY = '127.0.0.9', EACH = 8, OWN = EACH / 4; // requests of strangers to one owner's sandboxes at a worker, and of one address
const program = fs.readFileSync(new URL('../lib/port_server.py', import.meta.url)), gvisor = engineEnv.SANDBOX_RUNTIME === 'runsc';

interface Held { status: number; response: http.IncomingMessage; leave(): void }

describe('public ports of a fleet', { skip: gvisor && 'this engine has no ports' }, () => {
	let fleet: RealFleet, key = KEY, ids: string[] = [];

	const ask = async (method: string, where: string, body?: Json | Buffer): Promise<Json> => {
		const r = await fetch(`${fleet.base}/api/v1${where}`, { method, headers: { 'x-api-key': key, 'content-type': Buffer.isBuffer(body) ? 'application/octet-stream' : 'application/json' },
			...(body === undefined ? {} : { body: Buffer.isBuffer(body) ? new Uint8Array(body) : JSON.stringify(body) }) }), said = await r.text();
		assert.ok(r.ok, `${method} ${where}: ${r.status} ${said}`);
		return (said ? JSON.parse(said) : {}) as Json;
	};
	const start = async (id: string): Promise<void> => {
		await ask('PUT', `/sandboxes/${id}/files/server.py`, program);
		const p = await ask('POST', `/sandboxes/${id}/processes`, { command: 'exec python3 server.py 8000 8001' });
		await until('the server', async () => JSON.stringify(await ask('GET', `/sandboxes/${id}/processes/${p.id}`)).includes('serving'));
	};
	/** CLIENT: whose address the proxy in front says; undefined: it comes without the proxy. */
	const open = (client: string | undefined, id: string, where: string, headers: http.OutgoingHttpHeaders = {}): Promise<Held> => new Promise((resolve, reject) => {
		const r = http.get({ host: '127.0.0.1', localAddress: client ? PROXY : '127.0.0.1', port: fleet.port, path: where, agent: false,
			headers: { host: `8000-${id}.localhost:${fleet.port}`, ...(client ? { 'x-forwarded-for': client } : {}), ...headers } }, (response) => {
			response.on('error', () => undefined);
			resolve({ status: response.statusCode!, response, leave: () => r.destroy() });
		}).on('error', reject);
	});
	const status = async (client: string | undefined, id: string, headers?: http.OutgoingHttpHeaders): Promise<number> => {
		const got = await open(client, id, '/echo', headers);
		await content(got.response);
		return got.status;
	};
	/** An answer that goes on until it is left. */
	const hold = async (client: string | undefined, id: string): Promise<Held> => {
		const got = await open(client, id, '/chunks');
		assert.equal(got.status, 200);
		got.response.resume();
		return got;
	};
	const free = (client: string | undefined, id: string): Promise<boolean> => until('its requests have ended', async () => await status(client, id) === 200);

	before(async () => {
		fleet = await startFleet('router-public', { router: { SANDBOX_API_KEY: KEY, SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_TRUSTED_PROXIES: PROXY, SANDBOX_PORT_DOMAIN: 'localhost' }, worker: { SANDBOX_PUBLIC_PORTS: 'on', SANDBOX_PORT_DOMAIN: 'localhost', SANDBOX_BUDGETS: `public_requests=${EACH}/${4 * EACH}` } });
		/* The holder of the static key is bound by totals alone. */
		const ada = await ask('POST', '/users', { name: 'ada', password: 'correct horse battery' });
		key = (await ask('POST', `/keys?owner=${ada.id}`, { name: 'k' })).key as string;
		/* Two at one worker, and one at the other. */
		const by = new Map<string, string[]>();
		for (let i = 0; i < 40 && ids.length === 0; i++) {
			const id = (await ask('POST', '/sandboxes', { public: true })).id as string;
			by.set(id.slice(5, 9), [...by.get(id.slice(5, 9)) ?? [], id]);
			const [most, least] = [...by.values()].sort((x, y) => y.length - x.length);
			if (most!.length > 1 && least)
				ids = [most![0]!, least[0]!, most![1]!];
		}
		assert.equal(ids.length, 3, 'both workers have sandboxes');
		await Promise.all(ids.map(start));
	});
	after(() => fleet.end());

	it('one address has its part at a worker, by however many connections and sandboxes, and whatever it says of itself', async () => {
		for (const client of ['9.9.9.1', undefined]) {
			const held = [await hold(client, ids[0]!), await hold(client, ids[2]!)];
			assert.equal(held.length, OWN);
			const forged: http.OutgoingHttpHeaders[] = [{}, { 'x-real-ip': '9.9.9.8' }, { 'caisson-caller': 'e30', 'caisson-port-domain': 'x' }, { cookie: `caisson-port=${Math.floor(Date.now() / 1000) + 3600}..${'0'.repeat(32)}` }, { 'x-api-key': 'csn_wrong' },
				...(client ? [{ 'x-forwarded-for': `9.9.9.8, ${client}` }, { 'x-forwarded-for': `${client}:99` }, { 'connection': 'close, x-forwarded-for' }] : [{ 'x-forwarded-for': '9.9.9.8' }, { forwarded: 'for=9.9.9.8' }, { 'x-forwarded-for': '9.9.9.8', 'forwarded': 'for=9.9.9.7' }])];
			for (const id of [ids[0]!, ids[2]!])
				for (const headers of forged)
					assert.equal(await status(client, id, headers), 429, JSON.stringify([client, headers]));
			assert.equal(await status('9.9.9.2', ids[0]!), 200, 'somebody else');
			held.forEach((h) => h.leave());
			await free(client, ids[0]!);
		}
	});

	it('a worker gives no more than that to somebody who uses others as well, and others get theirs at each', async () => {
		const held: Held[] = [];
		for (const id of [ids[0]!, ids[1]!]) {
			for (let i = 0; i < OWN; i++)
				held.push(await hold('9.9.9.3', id));
			assert.equal(await status('9.9.9.3', id), 429);
		}
		for (const id of [ids[0]!, ids[1]!])
			for (let client = 4; client < 4 + EACH / OWN - 1; client++)
				for (let i = 0; i < OWN; i++)
					held.push(await hold(`9.9.9.${client}`, id));
		assert.equal(held.length, 2 * EACH);
		assert.equal(await status('9.9.9.99', ids[0]!), 429, 'all of the owner is in use there');
		assert.equal(await status('9.9.9.99', ids[0]!, { 'x-api-key': key }), 200, 'the owner is not kept out');
		held.forEach((h) => h.leave());
		await free('9.9.9.3', ids[1]!);
	});
});
