// SPDX-License-Identifier: Apache-2.0
// The wall clock jumps, and credentials, links and waits live on: what has a date ends by the date, what counts elapsed time does not notice, and nothing
// that was made while the clock was wrong lasts for years.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import { after, before, describe, it } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { hour, noClock, WallClock } from '../lib/clock.ts';
import { newStateDir } from '../lib/env.ts';
import { caisson } from '../lib/process.ts';
import { facts, serve, type Json } from '../lib/session.ts';
import { ask, login, password, type Answer } from '../lib/users.ts';

const day = 24 * hour;

describe('the wall clock jumps: rights and waits', { skip: noClock }, () => {
	const clock = new WallClock();
	const env = { ...(noClock ? {} : clock.env), SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_POOL: '0' };
	let server: Awaited<ReturnType<typeof serve>>;
	let base: string, admin: string;

	before(async () => {
		assert.equal((await caisson(['user', 'add', 'root', '--role', 'admin', '--password', 'none'], { env })).code, 0);
		admin = (await caisson(['key', 'new', 'root', '--scope', 'admin'], { env })).stdout.toString().trim();
		server = await serve({ profile: 'full', env });
		base = server.base;
		assert.equal((await api('POST', 'users', { name: 'ada', password })).status, 201);
	});
	after(async () => {
		clock.jump(0);
		await server.program.end();
	});

	const api = (method: string, target: string, json?: Json, more: { key?: string; headers?: Record<string, string> } = {}): Promise<Answer> =>
		ask(method, `${base}/api/v1/${target}`, { key: more.key ?? admin, headers: more.headers, json });
	/** What LOOK gives at each of these offsets of the clock. */
	async function at<T>(offsets: number[], look: () => Promise<T>): Promise<T[]> {
		const all: T[] = [];
		for (const ms of offsets) {
			clock.jump(ms);
			all.push(await look());
		}
		clock.jump(0);
		return all;
	}
	const withToken = (token: string) => async (): Promise<number> => (await ask('GET', `${base}/api/v1/me`, { token })).status;

	it('(slow) a token ends by its date; one of a clock that was years ahead is worth nothing', async () => {
		const token = await login(base, 'ada'); // for five hours
		assert.deepEqual(await at([0, 4 * hour, 6 * hour, -6 * hour, 0], withToken(token)), [200, 200, 401, 200, 200]);
		clock.jump(3650 * day);
		const future = await login(base, 'ada');
		assert.equal(await withToken(future)(), 200);
		assert.deepEqual(await at([0, 20 * day, 3650 * day], withToken(future)), [401, 401, 200]);
	});

	/** node:http, because fetch() sends no cookie. */
	function page(method: string, cookie?: string, json?: Json): Promise<{ status: number; cookie?: string }> {
		const url = new URL(`${base}/api/v1/${json ? 'session' : 'me'}`);
		const body = json && JSON.stringify(json);
		return new Promise((resolve, reject) => {
			const headers = { 'sec-fetch-site': 'same-origin', origin: base, 'x-caisson-page': '1', ...(cookie ? { cookie } : {}), ...(body ? { 'content-type': 'application/json' } : {}) };
			http.request(url, { method, headers }, (m) => {
				m.resume().on('end', () => resolve({ status: m.statusCode!, cookie: m.headers['set-cookie']?.[0]?.split(';')[0] }));
			}).on('error', reject).end(body);
		});
	}

	it('people who sign in after the clock was set back stay signed in', async () => {
		const signIn = async (): Promise<string> => (await page('POST', undefined, { key: admin })).cookie!; // no password takes its time to be checked
		const me = (cookie: string) => async (): Promise<number> => (await page('GET', cookie)).status;
		clock.jump(3 * hour);
		const ahead: string[] = [];
		for (let i = 0; i < 32; i++) // as many as one user has
			ahead.push(await signIn());
		clock.jump(0);
		const back = await signIn();
		assert.equal(await me(back)(), 200);
		assert.deepEqual([await me(ahead[0]!)(), await me(ahead[31]!)()], [401, 200], 'the oldest one made room');
		clock.jump(3650 * day);
		const future = await signIn();
		assert.deepEqual([await me(future)(), ...await at([0], me(future))], [200, 401]);
	});

	it('a link to a file ends by its date, an upload link after its minutes', async () => {
		const client = new Client({ name: 'clock', version: '1' });
		await client.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { requestInit: { headers: { 'x-api-key': admin } } }));
		const call = async (name: string, args: Json): Promise<Json> => facts((await client.callTool({ name, arguments: { session_id: 'here', ...args } })) as Json);
		await call('sandbox_write_file', { path: 'a.txt', content: 'a' });
		const file = (await call('sandbox_list_files', {})).files[0].download_url as string;
		const get = (url: string) => async (): Promise<number> => (await fetch(url, { headers: { connection: 'close' } })).status;
		assert.deepEqual(await at([0, 23 * hour, 25 * hour, -25 * hour, 0], get(file)), [200, 200, 403, 200, 200]);
		const upload = (await call('sandbox_add_file', {})).upload_url as string;
		assert.deepEqual(await at([0, 48 * hour, -48 * hour], get(upload)), [200, 200, 200]);
		await client.close();
	});

	it('an Idempotency-Key is remembered for a day, whatever the date', async () => {
		const headers = { 'idempotency-key': 'clock' };
		const ids = await at([0, 48 * hour, -48 * hour, 0], async () => (await api('POST', 'sandboxes', {}, { headers })).body.id as string);
		assert.equal(new Set(ids).size, 1, ids.join());
	});

	it('runs of a minute are counted for a minute', async () => {
		const user = (await api('POST', 'users', { name: 'carl', max_runs_per_minute: 1 })).body.id as string;
		const key = (await api('POST', `keys?owner=${user}`, {})).body.key as string;
		const id = (await api('POST', 'sandboxes', {}, { key })).body.id as string;
		const began = performance.now();
		const run = async (): Promise<number> => (await api('POST', `sandboxes/${id}/runs`, { code: '1', wait: true }, { key })).status;
		const said = await at([0, 2 * hour, -2 * hour, 25 * hour], run);
		assert.equal(said[0], 201);
		if (performance.now() - began < 55_000)
			assert.deepEqual(said.slice(1), [429, 429, 429]);
	});

	it('(slow) who guessed passwords waits some seconds, whatever the clock says', async () => {
		const guess = async (pass: string): Promise<Answer> => ask('POST', `${base}/api/token`, { form: { username: 'ada', password: pass } });
		for (const ms of [0, 12 * hour, -12 * hour]) {
			clock.jump(ms);
			for (let i = 0; i < 8; i++) {
				const r = await guess('wrong');
				assert.ok([401, 429].includes(r.status), `${r.status}`);
				const wait = Number(r.headers.get('retry-after') ?? 0);
				assert.ok(wait >= 0 && wait <= 60, `${wait}`);
			}
			assert.equal((await guess(password)).status, 200, 'the right one is let in');
		}
		clock.jump(0);
	});
});
