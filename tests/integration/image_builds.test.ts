// SPDX-License-Identifier: Apache-2.0
// Building images over REST: who may, what is told meanwhile, one at a time, and what a stop or a kill leaves.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Builds, NOISE } from '../lib/builds.ts';
import { mode } from '../lib/env.ts';
import { alive, caisson, Census, descendants, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until, within } from '../lib/wait.ts';

const LINES = 300; // of a build, kept by the server
const root = mode === 'root';
let builds: Builds;

interface Reply { status: number; body: Json }

class Server {
	program: Program;
	private readonly base: string;
	constructor(program: Program, base: string) {
		this.program = program;
		this.base = base;
	}
	async ask(method: string, at: string, body?: unknown, key?: string): Promise<Reply> {
		const r = await fetch(`${this.base}/api/v1${at}`, { method, headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...(key && { 'x-api-key': key }) }, body: body === undefined ? undefined : JSON.stringify(body) });
		const text = await r.text();
		return { status: r.status, body: text ? JSON.parse(text) as Json : {} };
	}
	async images(): Promise<Json> {
		const { status, body } = await this.ask('GET', '/images');
		assert.equal(status, 200, JSON.stringify(body));
		return body;
	}
	async begin(name: string): Promise<void> {
		const { status, body } = await this.ask('POST', '/images', { name });
		assert.equal(status, 202, JSON.stringify(body));
		assert.deepEqual([body.name, body.state, body.ended_at], [name, 'building', null]);
	}
	/** The build, once it is in one of the states. */
	ended(...states: string[]): Promise<Json> {
		return until(`a build that is ${states.join(' or ')}`, async () => {
			const { build } = await this.images();
			return states.includes(build?.state) && build as Json;
		}, 60_000);
	}
	async lineOf(words: RegExp): Promise<void> {
		await until(`a line with ${words}`, async () => ((await this.images()).build.lines as string[]).some((l) => words.test(l)), 30_000);
	}
	builder(): number[] {
		return descendants(this.program.pid).filter((p) => p.name === 'caisson-images').map((p) => p.pid);
	}
}

async function started(env: Record<string, string> = {}): Promise<Server> {
	const { program, base } = await serve({ profile: 'full', env: { ...builds.env, ...env }, under: builds.under });
	return new Server(program, base);
}

describe('images over REST', { skip: process.env.CAISSON_TEST_ENGINE_ENV ? 'the native engine has images of its own' : false }, () => {
	before(() => void (builds = new Builds()));

	describe('for administrators alone', () => {
		let s: Server;
		const keys: Record<string, string> = {};
		before(async () => {
			s = await started({ SANDBOX_REQUIRE_AUTH: 'on' });
			const env = { SANDBOX_STATE_DIR: builds.state };
			for (const [name, role, scope] of [['ada', 'user', 'full'], ['kim', 'admin', 'admin'], ['lea', 'admin', 'read']] as const) {
				assert.equal((await caisson(['user', 'add', name, '--password', 'none', '--role', role], { env })).code, 0);
				keys[name] = (await caisson(['key', 'new', name, '--scope', scope], { env })).stdout.toString().match(/csn_[\w-]+/)![0];
			}
		});
		after(() => s.program.end());

		it('refuses strangers, users and keys that may only read', async () => {
			for (const [method, at, body] of [['GET', '/images'], ['POST', '/images', { name: 'mini' }], ['DELETE', '/images/build']] as const) {
				assert.equal((await s.ask(method, at, body)).status, 401, `${method} by a stranger`);
				assert.equal((await s.ask(method, at, body, keys.ada)).status, 403, `${method} by a user`);
				assert.equal((await s.ask(method, at, body, keys.lea)).status, 403, `${method} by a key that reads`);
			}
			assert.equal((await s.ask('GET', '/images', undefined, keys.kim)).body.build, null, 'nothing was begun');
		});
		it('takes names of its definitions and nothing else', async () => {
			const { definitions, why_not } = (await s.ask('GET', '/images', undefined, keys.kim)).body;
			assert.deepEqual(definitions, ['broken', 'loud', 'mini', 'slow'].map((name) => ({ name, description: `the image ${name}` })));
			assert.equal(why_not, '');
			for (const name of ['nope', 'wrong', '../mini', 'mini --mirror', '--from', 'Mini'])
				assert.deepEqual([(await s.ask('POST', '/images', { name }, keys.kim)).status, name], [404, name]);
			for (const body of [{}, { name: '' }, { name: 'x'.repeat(64) }, { name: 1 }, { name: 'mini', packages: 'x' }, { name: 'mini', from: 'base' }])
				assert.equal((await s.ask('POST', '/images', body, keys.kim)).status, 400, JSON.stringify(body));
			assert.equal((await s.ask('DELETE', '/images/build', undefined, keys.kim)).status, 404, 'there is none to cancel');
		});
		it('has rows in the audit log', async () => {
			const { rows } = (await s.ask('GET', '/audit', undefined, keys.kim)).body;
			// requests that fail are one row for each caller, action, result and minute
			const failed = rows.filter((r: Json) => r.action === 'image.build' && r.result === 'not_found');
			assert.ok(failed.reduce((n: number, r: Json) => n + r.count, 0) >= 2, JSON.stringify(rows));
		});
	});

	it('none is built where the operator says so, and there is no process for it', async () => {
		const s = await started({ SANDBOX_IMAGE_BUILDS: 'off' });
		try {
			assert.deepEqual(s.builder(), []);
			const { why_not, definitions, build, of_sandboxes } = await s.images();
			assert.match(why_not, /SANDBOX_IMAGE_BUILDS/);
			assert.deepEqual([definitions, build, of_sandboxes], [[], null, false]);
			const refused = await s.ask('POST', '/images', { name: 'mini' });
			assert.equal(refused.status, 403);
			assert.match(refused.body.detail, /SANDBOX_IMAGE_BUILDS/);
		} finally {
			await s.program.end();
		}
	});

	if (!root) it('a plain user without sub-uids reads what to ask for', async () => {
		const s = await started();
		try {
			await s.begin('mini');
			const build = await s.ended('failed', 'done');
			assert.equal(build.state, 'failed');
			assert.match(build.reason, /usermod --add-subuids/);
			assert.deepEqual(builds.left(), []);
		} finally {
			await s.program.end();
		}
	});

	if (root) describe('a build', () => {
		let s: Server;
		before(async () => {
			s = await started();
		});
		after(() => s.program.end());

		it('tells what it does as it does it, is the only one, and its image is there for sandboxes', async () => {
			await s.begin('slow');
			await s.lineOf(/^ {2}installing packages/);
			const second = await s.ask('POST', '/images', { name: 'mini' });
			assert.equal(second.status, 409);
			assert.match(second.body.detail, /'slow' is being built/);
			assert.equal((await s.images()).images.some((i: Json) => i.name === 'slow'), false);
			builds.goOn();
			const build = await s.ended('done', 'failed');
			assert.equal(build.state, 'done', JSON.stringify(build));
			assert.ok(Date.parse(build.ended_at) >= Date.parse(build.began_at));
			assert.match(build.lines.at(-1), /^Image 'slow' is ready: /);
			for (const images of [(await s.images()).images, (await s.ask('GET', '/server')).body.images]) {
				const made = images.find((i: Json) => i.name === 'slow');
				assert.deepEqual([made.description, made.default], ['the image slow', false]);
			}
			const ran = await s.ask('POST', '/sandboxes', { image: 'slow' });
			assert.equal(ran.status, 201, JSON.stringify(ran.body));
			const run = await s.ask('POST', `/sandboxes/${ran.body.id}/runs`, { code: 'print(6*7)', wait: true });
			assert.equal(run.body.stdout, '42\n', JSON.stringify(run.body));
		});
		it('that fails says why, changes nothing, and the next one may begin', async () => {
			const images = (await s.images()).images;
			await s.begin('broken');
			const build = await s.ended('failed', 'done');
			assert.match(build.reason, /the suite lacks a package of the definition.*broken/);
			assert.deepEqual((await s.images()).images, images);
			assert.deepEqual(builds.left(), []);
			await s.begin('mini');
			assert.equal((await s.ended('done', 'failed')).state, 'done');
		});
		it('can be cancelled, and leaves nothing', async () => {
			await s.begin('slow');
			await s.lineOf(/^ {2}installing packages/);
			const census = new Census();
			census.take(s.builder()[0]!);
			assert.ok(census.size >= 3, 'the builder, the build, what stands for mmdebstrap');
			assert.ok(builds.left().length > 0);
			assert.ok(['stopping', 'cancelled'].includes((await s.ask('DELETE', '/images/build')).body.state));
			const build = await s.ended('cancelled', 'done', 'failed');
			assert.deepEqual([build.state, build.reason], ['cancelled', '']);
			await census.gone(10_000, s.builder()[0]!);
			assert.deepEqual(builds.left(), []);
			assert.equal((await s.ask('DELETE', '/images/build')).status, 404);
		});
		it(`keeps ${LINES} lines of one that talks without end`, async () => {
			await s.begin('loud');
			const build = await s.ended('done', 'failed');
			assert.equal(build.state, 'done', build.reason);
			assert.equal(build.lines.length, LINES);
			assert.ok(build.dropped >= NOISE - LINES, `${build.dropped} left out`);
			assert.ok(build.lines.every((l: string) => l.length <= 400));
		});
	});

	for (const [who, signal] of root ? [['the server', 'SIGKILL'], ['the server', 'SIGTERM'], ['the builder', 'SIGKILL']] as const : []) {
		it(`${signal} of ${who} in the middle of a build leaves no process and no half image`, async () => {
			const s = await started();
			const census = new Census();
			try {
				await s.begin('slow');
				await s.lineOf(/^ {2}installing packages/);
				const builder = s.builder()[0]!;
				census.take(who === 'the server' ? s.program.pid : builder);
				process.kill(who === 'the server' ? s.program.pid : builder, signal);
				await census.gone(30_000);
				await until('no half image', () => builds.left().length === 0);
				if (who === 'the builder') {
					const { build } = await s.images();
					assert.deepEqual([build.state, build.reason], ['failed', 'the process that builds images has ended']);
					const refused = await s.ask('POST', '/images', { name: 'mini' });
					assert.deepEqual([refused.status, refused.body.code], [500, 'system_error']);
					assert.match(refused.body.detail, /restart the server/);
				} else {
					await within('the end of the server', s.program.exit, 10_000);
				}
			} finally {
				for (const p of census.survivors().filter(alive))
					process.kill(p.pid, 'SIGKILL');
				await s.program.end();
			}
		});
	}
});
