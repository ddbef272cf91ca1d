// SPDX-License-Identifier: Apache-2.0
// What the page of the server shows: version, pool and images for everybody; settings, protection and figures for administrators.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

describe('the server about itself', () => {
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_API_KEY: 'a-key-that-nobody-may-see-0123456789' };
	let admin: string;
	let s: { program: Program; base: string };
	let user: string;
	const get = async (path: string, key: string): Promise<{ status: number; body: Json; text: string }> => {
		const r = await fetch(`${s.base}/api/v1${path}`, { headers: { 'x-api-key': key } });
		const text = await r.text();
		return { status: r.status, text, body: JSON.parse(text) };
	};
	before(async () => {
		s = await serve({ profile: 'full', env });
		const key = async (name: string, role: string): Promise<string> => {
			assert.equal((await caisson(['user', 'add', name, '--password', 'none', '--role', role], { env })).code, 0);
			return (await caisson(['key', 'new', name, '--scope', role === 'admin' ? 'admin' : 'full'], { env })).stdout.toString().match(/csn_[\w-]+/)![0];
		};
		user = await key('ada', 'user');
		admin = await key('root', 'admin');
	});
	after(() => s.program.end());

	it('tells everybody its version, pool and images, and nobody else the rest', async () => {
		const { status, body, text } = await get('/server', user);
		assert.equal(status, 200, text);
		assert.match(body.version, /^\d+\.\d+\.\d+/);
		assert.deepEqual([body.profile, body.engine, typeof body.uptime_s, typeof body.pool.ready], ['full', 'native', 'number', 'number']);
		const image = body.images.find((i: Json) => i.name === 'science');
		assert.deepEqual([image.default, typeof image.bytes, image.packages > 10, Number.isNaN(Date.parse(image.built_at))], [true, 'number', true, false]);
		assert.match(image.python, /^3\./);
		assert.equal(body.settings, undefined);
		assert.equal(body.doctor, undefined);
		assert.doesNotMatch(text, /nobody-may-see/);
		assert.equal((await get('/figures', user)).status, 403);
		assert.equal((await fetch(`${s.base}/api/v1/server`)).status, 401);
	});
	it('tells administrators the settings in force, where each came from, and no secret', async () => {
		const { body, text } = await get('/server', admin);
		const of = (name: string): Json => body.settings.find((r: Json) => r.name === name);
		assert.deepEqual([of('SANDBOX_REQUIRE_AUTH').value, of('SANDBOX_REQUIRE_AUTH').from], ['on', 'environment']);
		assert.equal(of('SANDBOX_PROFILE').from, 'flag');
		assert.equal(of('SANDBOX_WARM').from, 'default');
		assert.deepEqual([of('SANDBOX_API_KEY').value, of('SANDBOX_API_KEY').secret], ['', true]);
		assert.doesNotMatch(text, /nobody-may-see/);
		const told = JSON.parse((await caisson(['doctor', '--json'], { env })).stdout.toString()).rows as Json[];
		assert.deepEqual(body.doctor.map((r: Json) => r.id), told.map((r) => r.id));
		assert.ok(body.doctor.every((r: Json) => ['ok', 'note', 'weak', 'missing'].includes(r.state) && r.title && r.text));
	});
	it('(slow) keeps figures, and refuses times that it does not keep', async () => {
		for (const bad of ['0', '1441', '-1', 'x', '1.5', '1e4'])
			assert.equal((await get(`/figures?minutes=${bad}`, admin)).status, 400, bad);
		for (const good of ['1', '1440', '60.0', '1e3']) // an integer is what has the value of one, however it is written
			assert.equal((await get(`/figures?minutes=${good}`, admin)).status, 200, good);
		const first = (await get('/figures', admin)).body;
		assert.equal(first.step_s, 10);
		const { body } = await until('a first sample', async () => {
			const r = await get('/figures?minutes=1440', admin);
			return r.body.at.length > 0 && r;
		}, 30_000);
		assert.deepEqual(Object.keys(body.series), ['sandboxes', 'runs_per_s', 'run_ms_avg', 'cpu_cores', 'pool_ready', 'http_per_s', 'events_streams']);
		for (const values of Object.values(body.series) as unknown[][]) assert.equal(values.length, body.at.length);
		assert.equal(body.series.run_ms_avg[0], null, 'no run, no time of a run');
		assert.ok(body.series.http_per_s[0] > 0);
		assert.ok(Math.abs(body.at[0] - Date.now() / 1000) < 60);
	});
});
