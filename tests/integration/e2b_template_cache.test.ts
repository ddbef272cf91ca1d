// SPDX-License-Identifier: Apache-2.0
// Builds of templates that go on from earlier ones: what is kept, for whom, how much of it, and when a build begins anew.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ADMIN, client, said } from '../lib/e2b.ts';
import { binary, engine, mode, scratch, unlessEnforced } from '../lib/env.ts';
import { imagesOf, stateOfItsOwn } from '../lib/own-images.ts';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const possible = mode === 'root' && engine === 'native';
const skip = (!possible && 'only a server that root started, with the native engine, can have root users') || unlessEnforced('memory', 'pids');
/** A step that is long enough to be kept. What it writes is another thing each time. */
const LONG = 'sleep 5.1; head -c 16 /dev/urandom | od -An -tx1 >/srv/random';

describe('cached steps of templates of e2b', { skip }, () => {
	let program: Program;
	let base: string;
	let port: number;
	let state: string;

	const begin = async (more: Record<string, string> = {}): Promise<void> => {
		({ program, base, port } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: state, SANDBOX_IMAGE: 'base', SANDBOX_API_KEY: ADMIN, SANDBOX_FACES: 'e2b', SANDBOX_ROOT: 'on', SANDBOX_TEMPLATES: 'on', SANDBOX_IMAGES: '*', ...more } }));
	};
	before(async () => {
		state = stateOfItsOwn();
		await begin();
	});
	after(() => program.end());
	const { newKey, ask, control, make, start, rest } = client(() => ({ base, port }));

	const run = (command: string, user = 'root'): Json => ({ type: 'RUN', args: [command, user] });
	const points = (): string[] => imagesOf(state).filter((n) => n.startsWith('t.cache.'));
	async function upload(template: string, hash: string, name: string, text: string): Promise<void> {
		const dir = scratch('archive');
		fs.writeFileSync(path.join(dir, name), text);
		const r = await control('GET', `/templates/${template}/files/${hash}`);
		assert.deepEqual([r.status, r.json.present], [201, false], r.text);
		const url = new URL(r.json.url);
		assert.equal((await ask('PUT', url.pathname + url.search, { prefix: '', body: execFileSync('tar', ['-C', dir, '-czf', '-', name]), headers: r.json.headers })).status, 200);
	}
	interface Begun {
		status: () => Promise<Json>;
		ready: () => Promise<{ log: string; templateID: string }>;
	}
	/** A build, and the wait for its success. */
	async function beginBuild(name: string, body: Json, { key, files = {} }: { key?: string; files?: Record<string, string> } = {}): Promise<Begun> {
		const made = await control('POST', '/v3/templates', { name }, key);
		assert.equal(made.status, 202, made.text);
		for (const [hash, text] of Object.entries(files))
			await upload(made.json.templateID, hash, 'a.txt', text);
		const at = `/templates/${made.json.templateID}/builds/${made.json.buildID}`;
		const r = await control('POST', `/v2${at}`, body, key);
		assert.equal(r.status, 202, r.text);
		const status = async (): Promise<Json> => (await control('GET', `${at}/status`, undefined, key)).json;
		const ready = async (): Promise<{ log: string; templateID: string }> => {
			const end = await until('the end of a build', async () => {
				const now = await status();
				return ['ready', 'error'].includes(now.status) ? now : undefined;
			}, 90_000);
			assert.equal(end.status, 'ready', JSON.stringify(end));
			return { log: end.logs.join('\n'), templateID: made.json.templateID };
		};
		return { status, ready };
	}
	/** The log of a build that succeeds. */
	const build = async (...args: Parameters<typeof beginBuild>): ReturnType<Begun['ready']> => (await beginBuild(...args)).ready();
	async function says(template: string, command: string, key?: string): Promise<string> {
		const box = await make({ templateID: template }, key);
		const all = await start(box, command);
		assert.equal((await control('DELETE', `/sandboxes/${box.id}`, undefined, key)).status, 204);
		return said(all, 'stdout') + said(all, 'stderr');
	}
	const copy = (hash: string): Json => ({ type: 'COPY', args: ['a.txt', '/srv/a.txt', '', ''], filesHash: hash });
	const one = 'a1'.repeat(32), two = 'b2'.repeat(32);
	/** Changes after the long step are told by what is copied. */
	const steps = (hash: string): Json[] => [
		{ type: 'ENV', args: ['A', 'one'] },
		run(`${LONG}; mkdir /srv/all /srv/group; chmod 777 /srv/all; chmod 2775 /srv/group; chown 33:1000 /srv/group; echo t >/tmp/t; ln -s /tmp/t /tmp/link; echo h >/home/user/h; chown user: /home/user/h`),
		{ type: 'WORKDIR', args: ['/srv/work'] }, { type: 'USER', args: ['root'] },
		copy(hash),
		run('pwd; id -un; cat /tmp/link; echo "$A" >>/srv/all/by-user; stat -c "%u:%g %a" /srv/group; cat /home/user/h', 'user'),
	];

	it('a changed file is copied, and what came before is not done again', async () => {
		const first = await build('app', { steps: steps(one) }, { files: { [one]: 'first' } });
		assert.match(first.log, /^\[2\/6\] RUN sleep/m);
		assert.doesNotMatch(first.log, /CACHED/);
		assert.match(first.log, /\/srv\/work\nsandbox\nt\n33:1000 2775\nh\n/, 'modes, links and temporary files are there for later steps');
		const random = await says('app', 'cat /srv/random');
		assert.equal(points().length, 1);

		const second = await build('other-app', { steps: steps(two) }, { files: { [two]: 'second' } });
		assert.match(second.log, /^CACHED \[1\/6\] ENV A one\nCACHED \[2\/6\] RUN sleep.*\n\[3\/6\] WORKDIR/m);
		assert.match(second.log, /\/srv\/work\nsandbox\nt\n33:1000 2775\nh\n/);
		assert.equal(await says('other-app', 'cat /srv/random /srv/a.txt /srv/all/by-user; pwd; id -un; ls /opt/caisson; ls -A /srv'),
			`${random}secondone\n/srv/work\nroot\nhome.tar\nimage.json\n${'a.txt\nall\ngroup\nrandom\nwork'}\n`);
		assert.equal(points().length, 1, 'short steps are not worth a point');
		assert.deepEqual((await rest('GET', '/images')).images.map((i: Json) => [i.name, 'identity' in i]), [['base', false]]);
	});

	it('(slow) of nobody else, and anew where it is wanted', async () => {
		const stranger = await newKey('stranger');
		const body = { steps: steps(one).filter((s) => s.type !== 'COPY') };
		await build('app', body);
		const random = await says('app', 'cat /srv/random');
		assert.doesNotMatch((await build('app', body, { key: stranger })).log, /CACHED/);
		assert.equal(points().length, 2);
		assert.match((await build('forced', body)).log, /CACHED \[2\/5\]/);
		assert.doesNotMatch((await build('forced', { ...body, force: true })).log, /CACHED/);
		assert.notEqual(await says('forced', 'cat /srv/random'), random);
		const part = await build('forced', { steps: body.steps.map((s, i) => (i === 1 ? { ...s, force: true } : s)) });
		assert.doesNotMatch(part.log, /CACHED/, 'nothing before the forced step was long');
		const from = await build('forced', { steps: body.steps.map((s, i) => (i === 2 ? { ...s, force: true } : s)) });
		assert.match(from.log, /^CACHED \[2\/5\] .*\n\[3\/5\] WORKDIR/m);
		await until('the points that were made again are gone', () => points().length === 2);
		assert.equal((await control('DELETE', '/templates/app', undefined, stranger)).status, 204);
		await until('what nobody uses is gone', () => points().length === 1);
	});

	it('(slow) outlives the server; a point that the operator has removed is made again', async () => {
		const body = { steps: steps(one).filter((s) => s.type !== 'COPY') };
		await build('app', body);
		await program.end();
		await begin();
		assert.match((await build('app', body)).log, /CACHED \[2\/5\]/);
		await program.end();
		await begin(); // which uses no image yet
		execFileSync(binary, ['image', 'rm', points()[0]!], { env: { ...process.env, SANDBOX_STATE_DIR: state } });
		const again = await build('app', body);
		assert.doesNotMatch(again.log, /CACHED/);
		assert.equal(points().length, 1);
		assert.match((await build('app', body)).log, /CACHED \[2\/5\]/);
	});

	it('(slow) an image that was replaced, and a template that was built again, have other points', async () => {
		await build('below', { steps: [run('echo 1 >/srv/n')] });
		const body = { fromTemplate: 'below', steps: [run(LONG)] };
		assert.doesNotMatch((await build('above', body)).log, /CACHED/);
		assert.match((await build('above', body)).log, /CACHED \[1\/1\]/);
		await build('below', { steps: [run('echo 2 >/srv/n')] });
		assert.doesNotMatch((await build('above', body)).log, /CACHED/);
		assert.equal(await says('above', 'cat /srv/n'), '2\n');

		const image = path.join(state, 'images/base'), copied = path.join(state, 'images/.copy'), manifest = path.join(copied, 'manifest.json');
		execFileSync('cp', ['-al', image, copied]);
		const facts = { ...JSON.parse(fs.readFileSync(manifest, 'utf8')), built_at: new Date().toISOString().replace(/\.\d+Z/, 'Z') };
		fs.rmSync(manifest);
		fs.writeFileSync(manifest, JSON.stringify(facts));
		fs.renameSync(image, path.join(state, 'images/.old-base'));
		fs.renameSync(copied, image);
		assert.doesNotMatch((await build('app', { steps: steps(one).filter((s) => s.type !== 'COPY') })).log, /CACHED/);
	});

	it('(slow) an image that is wanted no more stays until the last build on it has ended', async () => {
		const key = await newKey('busy');
		const own = points();
		const mine = (): string[] => points().filter((p) => !own.includes(p));
		const long = await beginBuild('long', { steps: [run(LONG), run('sleep 16')] }, { key });
		const [replaced] = await until('the first point', () => (mine().length > 0 ? mine() : undefined), 30_000);
		await build('again', { steps: [run(LONG)], force: true }, { key });
		assert.equal((await long.status()).status, 'building', 'the other build was quick enough');
		assert.ok(mine().includes(replaced!));
		await long.ready();
		await until('the point that was replaced is gone', () => !mine().includes(replaced!));
		assert.match(await says('long', 'cat /srv/random', key), /^( [0-9a-f]{2}){16}/);

		const all = (): string[] => imagesOf(state).filter((n) => n.startsWith('t.'));
		const above = async (steps: Json[]): Promise<[Begun, string]> => {
			const before = all();
			await build('below', { steps: [run('echo below >/srv/n')] }, { key });
			const image = all().find((n) => !before.includes(n))!;
			const begun = await beginBuild('above', { fromTemplate: 'below', steps }, { key });
			await until('its step', async () => (await begun.status()).logs.some((l: string) => /RUN sleep/.test(l)), 30_000);
			assert.equal((await control('DELETE', '/templates/below', undefined, key)).status, 204);
			return [begun, image];
		};
		const [begun, image] = await above([run('sleep 3')]);
		await begun.ready();
		assert.equal(await says('above', 'cat /srv/n', key), 'below\n');
		await until('the template below is gone', () => !all().includes(image));

		const [, left] = await above([run('sleep 40')]);
		await until('the image says that it is to go', () => fs.readFileSync(path.join(state, 'images', left, 'manifest.json'), 'utf8').includes('"note": {}'));
		await program.end();
		assert.ok(all().includes(left));
		await begin();
		await until('what the server had left is gone', () => !all().includes(left));
		assert.equal((await control('GET', '/templates/aliases/below', undefined, key)).status, 404);
		for (const name of ['long', 'again', 'above'])
			assert.equal((await control('DELETE', `/templates/${name}`, undefined, key)).status, 204);
		await until('what nobody uses is gone', () => mine().length === 0);
	});

	it('(slow) no user has more than the operator permits', async () => {
		await program.end();
		await begin({ SANDBOX_TEMPLATE_CACHE: '30m' });
		const body = (name: string, mb: number): Json => ({ steps: [run(`sleep 5.1; head -c ${mb}M /dev/urandom >/srv/${name}`)] });
		await build('a', body('a', 20));
		const before = points();
		await build('b', body('b', 20));
		assert.match((await build('b', body('b', 20))).log, /CACHED/);
		await until('the first one is gone', () => before.some((p) => !points().includes(p)));
		// The second point has the files of the first one, too. It is too large alone, and costs the first one nothing.
		await build('two', { steps: [run('sleep 5.1; head -c 20M /dev/urandom >/srv/one'), run('sleep 5.1; head -c 20M /dev/urandom >/srv/two')] });
		assert.equal(await says('two', 'stat -c %s /srv/one /srv/two'), '20971520\n20971520\n');
		const kept = points();
		assert.equal(kept.length, 1);
		assert.match((await build('two', { steps: [run('sleep 5.1; head -c 20M /dev/urandom >/srv/one'), run('true')] })).log, /CACHED/);
		// Folders take space, though they have no bytes; and a point that was read again is as large as it was.
		await build('folders', { steps: [run('sleep 5.1; mkdir /srv/d; cd /srv/d; seq 8000 | xargs mkdir')] });
		assert.deepEqual(points(), kept);
		await build('fewer', { steps: [run('sleep 5.1; mkdir /srv/d; cd /srv/d; seq 4000 | xargs mkdir')] });
		assert.equal(points().length, 1);
		await program.end();
		await begin({ SANDBOX_TEMPLATE_CACHE: '15m' });
		await until('it is too large now', () => points().length === 0);
		await program.end();
		await begin({ SANDBOX_TEMPLATE_CACHE: '30m' });
		assert.doesNotMatch((await build('big', body('c', 40))).log, /CACHED/);
		await until('it is too large', () => points().length <= 1);
		await program.end();
		await begin({ SANDBOX_TEMPLATE_CACHE: '0' });
		await until('there are none', () => points().length === 0);
		assert.doesNotMatch((await build('b', body('b', 1))).log, /CACHED/);
		assert.deepEqual(points(), []);
	});
});
