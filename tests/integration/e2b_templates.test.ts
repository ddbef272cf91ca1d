// SPDX-License-Identifier: Apache-2.0
// Templates of the face e2b, as bytes: builds, names and tags, what outlives the server, and what is refused. Jobs of the SDKs are in
// tests/suites/e2b.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ADMIN, client, said, type Answer } from '../lib/e2b.ts';
import { engine, mode, scratch, unlessEnforced } from '../lib/env.ts';
import { imagesOf, stateOfItsOwn } from '../lib/own-images.ts';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const possible = mode === 'root' && engine === 'native';
const skip = (!possible && 'only a server that root started, with the native engine, can have root users') || unlessEnforced('memory', 'pids');
const HASH = 'ab'.repeat(32);

describe('templates of e2b', { skip }, () => {
	let program: Program;
	let base: string;
	let port: number;
	let other: string;
	let state: string;

	const begin = async (): Promise<void> => {
		({ program, base, port } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: state, SANDBOX_IMAGE: 'base', SANDBOX_API_KEY: ADMIN, SANDBOX_FACES: 'e2b', SANDBOX_ROOT: 'on', SANDBOX_TEMPLATES: 'on', SANDBOX_IMAGES: '*' } }));
	};
	before(async () => {
		state = stateOfItsOwn();
		await begin();
		other = await newKey('somebody');
	});
	after(() => program.end());
	const { newKey, ask, control, make, routed, envd, start, rest } = client(() => ({ base, port }));

	/** The end of a build. */
	async function ended(id: string, build: string, key?: string): Promise<Json> {
		return until('the end of a build', async () => {
			const r = await control('GET', `/templates/${id}/builds/${build}/status`, undefined, key);
			assert.equal(r.status, 200, r.text);
			return ['ready', 'error'].includes(r.json.status) ? r.json : undefined;
		}, 60_000);
	}
	async function begun(name: string, body: Json, key?: string, more: Json = {}): Promise<Json> {
		const made = await control('POST', '/v3/templates', { name, ...more }, key);
		assert.equal(made.status, 202, made.text);
		const r = await control('POST', `/v2/templates/${made.json.templateID}/builds/${made.json.buildID}`, body, key);
		assert.deepEqual([r.status, r.text], [202, ''], r.text);
		return made.json;
	}
	async function build(name: string, body: Json, key?: string, more: Json = {}): Promise<Json> {
		const made = await begun(name, body, key, more);
		const status = await ended(made.templateID, made.buildID, key);
		assert.equal(status.status, 'ready', JSON.stringify(status));
		return { ...made, ...status };
	}
	async function fails(body: Json, step: string, words: RegExp): Promise<Json> {
		const made = await begun('broken', body);
		const status = await ended(made.templateID, made.buildID);
		assert.deepEqual([status.status, status.reason.step], ['error', step], JSON.stringify(status));
		assert.match(status.reason.message, words);
		return status;
	}
	const run = (command: string, user?: string): Json => ({ type: 'RUN', args: user ? [command, user] : [command] });
	async function says(template: string, command: string, key?: string): Promise<string> {
		const box = await make({ templateID: template }, key);
		const all = await start(box, command);
		assert.equal((await control('DELETE', `/sandboxes/${box.id}`, undefined, key)).status, 204);
		return said(all, 'stdout') + said(all, 'stderr');
	}
	/** An archive as the SDKs make it. */
	function archive(files: Record<string, string>, links: Record<string, string> = {}): Buffer {
		const dir = scratch('archive');
		for (const [name, text] of Object.entries(files)) {
			fs.mkdirSync(path.dirname(path.join(dir, name)), { recursive: true });
			fs.writeFileSync(path.join(dir, name), text);
		}
		for (const [name, target] of Object.entries(links))
			fs.symlinkSync(target, path.join(dir, name));
		return execFileSync('tar', ['-C', dir, '-czf', '-', ...fs.readdirSync(dir)]);
	}
	async function upload(template: string, hash: string, bytes: Buffer, key?: string): Promise<Answer> {
		const r = await control('GET', `/templates/${template}/files/${hash}`, undefined, key);
		assert.equal(r.status, 201, r.text);
		assert.equal(r.json.present, false);
		const url = new URL(r.json.url);
		return ask('PUT', url.pathname + url.search, { prefix: '', body: bytes, headers: r.json.headers });
	}

	it('what the steps do is there in sandboxes: variables, folders, users, files, the command', async () => {
		const made = await build('Full', {
			fromImage: 'e2bdev/base', steps: [
				{ type: 'ENV', args: ['A', 'one', 'B', 'two words of $A and ${A}, \\$A'] },
				run('echo "$B" >/home/user/of-user; id -un'), run('echo "$HOME" >/srv/of-root; chown 33 /srv/of-root; chmod 600 /srv/of-root', 'root'),
				{ type: 'WORKDIR', args: ['deep/er'] }, run('touch here'), { type: 'USER', args: ['root'] }, { type: 'WORKDIR', args: ['/srv/$A'] },
			],
			startCmd: 'python3 -m http.server 8123', readyCmd: '[ -n "$(ss -Htuln sport = :8123)" ]',
		}, undefined, { tags: ['v1'], cpuCount: 1, memoryMB: 200 });
		assert.deepEqual([made.names, made.tags, made.public], [['full'], ['v1'], false]);
		assert.match(JSON.stringify(made.logEntries), /\[1\/7\] ENV A one/);
		const box = await make({ templateID: 'full:v1', envVars: { A: 'other' } });
		const all = await start(box, 'pwd; id -un; echo $A $B; cat /home/user/of-user; ls /home/user/deep/er; stat -c %U:%a /srv/of-root; python3 -c "import urllib.request as u; print(u.urlopen(\'http://localhost:8123\').status)"');
		assert.equal(said(all, 'stdout'), '/srv/one\nroot\nother two words of one and one, $A\ntwo words of one and one, $A\nhere\nwww-data:600\n200\n', said(all, 'stderr'));
		assert.equal((await control('GET', `/sandboxes/${box.id}`)).json.memoryMB, 200);
		assert.equal((await control('POST', '/v2/sandboxes', { templateID: 'full' })).status, 404, 'there is no default');
	});

	it('COPY puts files and the content of folders where they belong', async () => {
		const { templateID, buildID } = (await control('POST', '/v3/templates', { name: 'copies' })).json;
		const put = await upload(templateID, HASH, archive({ 'app/a.txt': 'a', 'app/sub/b.txt': 'b', 'one.txt': '1' }, { 'app/link': 'a.txt' }));
		assert.equal(put.status, 200, put.text);
		const copy = (...args: string[]): Json => ({ type: 'COPY', args, filesHash: HASH });
		const r = await control('POST', `/v2/templates/${templateID}/builds/${buildID}`, { steps: [
			copy('app', '/srv/app', 'root', '0755'), copy('app', 'app', '', ''), copy('one.txt', '/srv/files/', 'www-data', ''), copy('one.txt', '/srv/renamed', '', ''), copy('app/*.txt', '/srv/glob', '', ''), run('mkdir d', ''), copy('one.txt', 'd', '', '')] });
		assert.equal(r.status, 202, r.text);
		const status = await ended(templateID, buildID);
		assert.equal(status.status, 'ready', JSON.stringify(status));
		assert.equal(await says('copies', `cd /srv; stat -c '%n %U %a' app app/a.txt app/sub files/one.txt; readlink app/link; cat renamed; ls glob; cd; find . -type f | sort; stat -c %U app/a.txt; ls -A /home/user`),
			'app root 755\napp/a.txt root 755\napp/sub root 755\nfiles/one.txt www-data 644\na.txt\n1a.txt\nlink\nsub\n./app/a.txt\n./app/sub/b.txt\n./d/one.txt\nsandbox\napp\nd\n');
		assert.deepEqual((await control('GET', '/v2/sandboxes')).json.filter((b: Json) => b.templateID === ''), [], 'what holds archives is in no list');
	});

	it('a step that fails says which, and what', async () => {
		await fails({ steps: [run('true'), run('echo told; exit 3')] }, '2', /exited with code 3/);
		await fails({ steps: [{ type: 'USER', args: ['node'] }] }, '1', /users root and user/);
		await fails({ steps: [{ type: 'WHAT', args: [] }] }, '1', /does not know/);
		await fails({ steps: [{ type: 'ENV', args: ['a-b', '1'] }] }, '1', /^ENV/);
		await fails({ steps: [{ type: 'COPY', args: ['a', 'b', '', ''], filesHash: HASH }] }, '1', /was not uploaded/);
		await fails({ fromImage: 'nobody/nothing:1' }, 'base', /'nobody\/nothing:1' is not on this server.*caisson image pull/s);
		await fails({ fromTemplate: 'nothing' }, 'base', /no template 'nothing'/);
		assert.deepEqual(imagesOf(state).filter((n) => n.startsWith('.build')), []);
		for (const body of [{ steps: 'x' }, { steps: [1] }, { steps: Array(201).fill(run('true')) }, { startCmd: 1 }, { fromImage: 'a', fromTemplate: 'b' }, { fromImageRegistry: { type: 'registry', password: 'secret' } }]) {
			const made = (await control('POST', '/v3/templates', { name: 'refused' })).json;
			const r = await control('POST', `/v2/templates/${made.templateID}/builds/${made.buildID}`, body as Json);
			assert.equal(r.status, 400, JSON.stringify(body).slice(0, 80));
		}
	});

	it('begins with an image of the operator that came meanwhile, by the name that it was downloaded as', async () => {
		const image = path.join(state, 'images/later'), manifest = path.join(image, 'manifest.json');
		execFileSync('cp', ['-al', path.join(state, 'images/base'), image]);
		const facts = { ...JSON.parse(fs.readFileSync(manifest, 'utf8')), origin: 'docker://docker.io/library/later:1' };
		fs.rmSync(manifest);
		fs.writeFileSync(manifest, JSON.stringify(facts));
		fs.renameSync(image, `${image}2`); // as an image appears: complete, under its name
		for (const name of ['later:1', 'library/later:1', 'later2'])
			await build('of-later', { fromImage: name, steps: [run('echo built >n')] });
		for (const name of ['later', 'ater:1', 'later:2', 'some/later:1', 'registry.example/library/later:1'])
			await fails({ fromImage: name }, 'base', /is not on this server/);
		assert.equal(await says('of-later', 'cat n'), 'built\n');
		assert.deepEqual((await rest('GET', '/images')).images.map((i: Json) => [i.name, i.default, 'origin' in i]), [['base', true, false], ['later2', false, false]]);
		fs.rmSync(`${image}2`, { recursive: true });
		assert.deepEqual((await rest('GET', '/server')).images.map((i: Json) => i.name), ['base']);
	});

	it('variables that no sandbox could have are refused at their step', async () => {
		const env = (n: number, bytes: number): Json => ({ type: 'ENV', args: Array.from({ length: n }).flatMap((_, i) => [`V${i}`, 'x'.repeat(bytes)]) });
		for (const [step, words] of [
			[env(4, 12_288), /^ENV: .*49152 bytes/], // 48 KiB and the names
			[env(61, 1), /^ENV: a template may have at most 60 variables$/],
			[env(1, 16_385), /^ENV: the value of V0 is longer than 16384 bytes$/],
			[{ type: 'ENV', args: ['1A', 'x'] }, /^ENV: .*no digit first/],
			[{ type: 'ENV', args: ['LD_PRELOAD', '/srv/x.so'] }, /^ENV: .*LD_PRELOAD cannot be set/],
		] as const)
			await fails({ steps: [run('true'), step] }, '2', words);
		// each is small, and all together are not
		await fails({ steps: [env(3, 16_000), { type: 'ENV', args: ['MORE', '$V0'] }] }, '2', /^ENV: .*49152 bytes/);
		// the most that is permitted works, in the build and in a sandbox
		await build('most', { steps: [env(60, 800), run('test -n "$V59$HOME" && env | grep -c ^V >n')] });
		assert.equal(await says('most', 'cat n; env | grep -c ^V; echo ${#V59}'), '60\n60\n800\n');
	});

	it('is made of another one, and has what that has', async () => {
		await build('parent', { steps: [{ type: 'ENV', args: ['P', '1'] }, run('echo p >of-parent'), { type: 'WORKDIR', args: ['/srv/w'] }], startCmd: 'echo started >/tmp/started; sleep 1000' });
		await build('child', { fromTemplate: 'parent', steps: [run('pwd; echo c >>/home/user/of-parent'), run('rm -rf /usr/share/doc', 'root')] });
		assert.equal(await says('child', 'pwd; cat /home/user/of-parent; echo $P; ls /usr/share/doc 2>/dev/null; until [ -e /tmp/started ]; do sleep 0.05; done; cat /tmp/started'), '/srv/w\np\nc\n1\nstarted\n');
		assert.equal((await control('DELETE', '/templates/parent')).status, 204);
		assert.equal(await says('child', 'cat /home/user/of-parent'), 'p\nc\n', 'it does not need the other one');
	});

	it('names and tags: the newest build has them, others lose them and go', async () => {
		const one = await build('tagged', { steps: [run('echo 1 >n')] }, undefined, { tags: ['a', 'default'] });
		assert.equal((await control('POST', '/templates/tags', { target: 'tagged', tags: ['keep'] })).status, 201);
		const two = await build('team/tagged:A', { steps: [run('echo 2 >n')] });
		assert.equal(two.templateID, one.templateID);
		assert.deepEqual([await says('tagged', 'cat n'), await says('tagged:a', 'cat n'), await says(`${one.templateID}:keep`, 'cat n')], ['1\n', '2\n', '1\n']);
		const tags = (await control('GET', '/templates/tagged/tags')).json as unknown as Json[];
		assert.deepEqual(tags.map((t) => `${t.tag} ${t.buildID === one.buildID ? 1 : 2}`).sort(), ['a 2', 'default 1', 'keep 1']);
		assert.equal((await control('DELETE', '/templates/tags', { name: 'tagged', tags: ['default'] })).status, 400);
		assert.equal((await control('DELETE', '/templates/tags', { name: 'tagged:a', tags: ['keep'] })).status, 400);
		assert.equal((await control('DELETE', '/templates/tags', { name: 'tagged', tags: ['keep', 'a'] })).status, 204);
		await until('the image without tags is gone', () => imagesOf(state).filter((n) => n.startsWith(`t.${one.templateID}`)).length === 1);
		const three = await build('tagged', { steps: [run('echo 3 >n')] });
		await until('the older image is gone', () => imagesOf(state).filter((n) => n.startsWith(`t.${one.templateID}`)).join() === `t.${one.templateID}.${three.buildID.slice(0, 8)}`);
		const all = (await control('GET', '/templates/tagged')).json;
		assert.deepEqual([all.buildCount, all.buildStatus, all.builds.map((b: Json) => b.status)], [1, 'ready', ['ready']]);
		for (const [at, status] of [['tagged', 200], ['tagged:default', 200], ['tagged:none', 404], ['nothing', 404]] as const)
			assert.equal((await control('GET', `/templates/aliases/${at}`)).status, status, at);
	});

	it('outlive the server, with their tags; sandboxes of a removed one go on', async () => {
		const { templateID } = await build('stays', { steps: [{ type: 'ENV', args: ['E', 'kept'] }, run('echo file >f')] });
		assert.equal((await control('POST', '/templates/tags', { target: 'stays', tags: ['prod'] })).status, 201);
		await program.end();
		await begin();
		assert.equal(await says('stays:prod', 'cat f; echo $E'), 'file\nkept\n');
		const box = await make({ templateID: 'stays' });
		/* No stored sandbox has an image that goes with the next build: neither one that is kept nor a new one. */
		const admin = { prefix: '', headers: { authorization: `Bearer ${ADMIN}` } };
		const keep = await ask('POST', `/api/v1/sandboxes/${box.id}/keep`, { ...admin, body: {} });
		assert.deepEqual([keep.status, keep.json.code], [409, 'not_keepable'], keep.text);
		const stored = await ask('POST', '/api/v1/sandboxes', { ...admin, body: { kind: 'stored', image: imagesOf(state).find((n) => n.startsWith(`t.${templateID}`)) } });
		assert.deepEqual([stored.status, stored.json.code], [403, 'forbidden'], stored.text);
		const snapshot = (await control('POST', `/sandboxes/${box.id}/snapshots`, {})).json.snapshotID;
		assert.equal((await control('DELETE', '/templates/stays')).status, 204);
		assert.equal((await control('GET', '/templates/aliases/stays')).status, 404);
		assert.equal(said(await start(box, 'cat f'), 'stdout'), 'file\n');
		assert.equal(await says(snapshot, 'cat f; echo $E'), 'file\nkept\n');
		assert.equal((await control('DELETE', `/templates/${snapshot}`)).status, 204);
		await until('its image has no name any more', () => !imagesOf(state).some((n) => n.startsWith(`t.${templateID}`) || n.startsWith('.build')));
	});

	it('belong to their owner alone', async () => {
		const mine = await build('secret', { steps: [run('echo mine >f')] }, other);
		const image = imagesOf(state).find((n) => n.startsWith(`t.${mine.templateID}`))!;
		assert.equal(await says('secret', 'cat f', other), 'mine\n');
		for (const [method, at, body] of [['GET', `/templates/${mine.templateID}`], ['GET', `/templates/${mine.templateID}/tags`], ['GET', '/templates/aliases/secret'], ['DELETE', '/templates/secret'], ['GET', `/templates/secret/files/${HASH}`],
			['GET', `/templates/${mine.templateID}/builds/${mine.buildID}/status`], ['POST', `/v2/templates/${mine.templateID}/builds/${mine.buildID}`, {}], ['POST', '/templates/tags', { target: 'secret', tags: ['x'] }]] as const)
			assert.equal((await control(method, at, body as Json | undefined)).status, 404, `${method} ${at}`);
		assert.equal((await control('POST', '/v2/sandboxes', { templateID: 'secret' })).status, 404);
		// not even by the name of its image, although the operator permits all
		for (const by of [ADMIN, other])
			assert.equal((await fetch(`${base}/api/v1/sandboxes`, { method: 'POST', headers: { 'x-api-key': by, 'content-type': 'application/json' }, body: JSON.stringify({ image }) })).status, 403);
		assert.equal((await control('POST', '/v2/sandboxes', { templateID: image })).status, 404);
		const readers = await newKey('somebody', { scope: 'read' });
		assert.equal((await control('POST', '/v3/templates', { name: 'x' }, readers)).status, 403);
		assert.equal(((await control('GET', '/v2/templates', undefined, readers)).json as unknown as Json[]).length, 1);
	});

	it('the id of a build stands where a tag does, and one that is not ready is told of as no tag', async () => {
		const one = await build('by-build', { steps: [run('echo 1 >n')] });
		assert.equal((await control('POST', '/templates/tags', { target: `by-build:${one.buildID}`, tags: ['old'] })).status, 201);
		await build('by-build', { steps: [run('echo 2 >n')] });
		assert.equal(await says(`by-build:${one.buildID}`, 'cat n'), '1\n');
		assert.equal(await says('by-build', 'cat n'), '2\n');
		const waits = (await control('POST', '/v3/templates', { name: 'by-build' })).json.buildID;
		for (const tag of [waits, 'never', '00000000-0000-4000-8000-000000000000']) {
			const r = await control('POST', '/v2/sandboxes', { templateID: `by-build:${tag}` });
			assert.equal(r.status, 404);
			assert.match(r.json.message, new RegExp(`^tag '${tag}' does not exist for template 'by-build'`));
		}
		assert.equal((await control('POST', '/v2/sandboxes', { templateID: `by-build:${one.buildID}` }, other)).status, 404);
	});

	it('what a client writes belongs to the user that it names, also in folders of the image', async () => {
		const box = await make();
		const as = (user: string): Record<string, string> => ({ ...routed(box), authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}` });
		const put = async (query: string, type = 'application/octet-stream', body = 'text'): Promise<void> => {
			const r = await ask('POST', `/files?${query}`, { headers: { ...routed(box), 'content-type': type }, body: Buffer.from(body) });
			assert.equal(r.status, 200, r.text);
		};
		const form = '--b\r\nContent-Disposition: form-data; name="file"; filename="/srv/form/f"\r\n\r\nform\r\n--b--\r\n';
		await put('path=/workspace/a/b');
		await put('', 'multipart/form-data; boundary=b', form);
		await put('username=root&path=/srv/of-root');
		for (const [at, user] of [['/workspace/d/e', 'user'], ['/srv/root-made', 'root']] as const)
			assert.equal((await envd(box, 'filesystem.Filesystem/MakeDir', { path: at }, as(user))).status, 200);
		assert.equal((await envd(box, 'filesystem.Filesystem/Move', { source: '/workspace/a/b', destination: '/opt/deep/er' })).status, 200);
		const names = '/workspace /workspace/a /workspace/d/e /srv/form /srv/form/f /opt/deep /opt/deep/er /srv/of-root /srv/root-made';
		const all = await start(box, `stat -c %U ${names} | tr '\\n' ' '; chmod 700 /workspace/d /srv/form/f && echo >/workspace/new && rm -r /opt/deep/er; chmod 700 /srv/of-root`);
		assert.equal(said(all, 'stdout'), 'sandbox sandbox sandbox sandbox sandbox sandbox sandbox root root ', said(all, 'stderr'));
		assert.match(said(all, 'stderr'), /^chmod: [^\n]*of-root[^\n]*not permitted\n$/);
		assert.equal((await control('DELETE', `/sandboxes/${box.id}`)).status, 204);
	});

	it('bounds: names, tags, builds that wait', async () => {
		for (const body of [{}, { name: '' }, { name: 'a b' }, { name: 'a:b:c' }, { name: 'ok', tags: ['no way'] }, { name: 'ok', tags: Array(17).fill('t').map((t: string, i: number) => `${t}${i}`) }, { name: 'x'.repeat(129) }, { name: 'ok', memoryMB: 'x' }, { name: 'ok', cpuCount: -1 }])
			assert.equal((await control('POST', '/v3/templates', body as Json)).status, 400, JSON.stringify(body).slice(0, 80));
		const key = await newKey('greedy');
		for (let i = 0; i < 4; i++)
			assert.equal((await control('POST', '/v3/templates', { name: `w${i}` }, key)).status, 202);
		const more = await control('POST', '/v3/templates', { name: 'w4' }, key);
		assert.equal(more.status, 429, more.text);
		assert.equal((await control('POST', '/v3/templates', { name: 'w0' }, key)).status, 202, 'a build that nobody has begun makes room');
		for (let i = 0; i < 4; i++)
			assert.equal((await control('DELETE', `/templates/w${i}`, undefined, key)).status, 204);
	});

	it('a build is stopped with its template, and leaves neither sandbox nor image', async () => {
		const before = (await rest('GET', '/sandboxes')).sandboxes.length;
		const made = await begun('stopped', { steps: [run('echo begun; sleep 1000')] });
		await until('the step runs', async () => /begun/.test((await control('GET', `/templates/stopped/builds/${made.buildID}/status`)).text));
		assert.equal((await control('DELETE', '/templates/stopped')).status, 204);
		await until('its sandbox is gone', async () => (await rest('GET', '/sandboxes')).sandboxes.length === before);
		assert.deepEqual(imagesOf(state).filter((n) => n.startsWith(`t.${made.templateID}`)), []);
	});

	it('hostile archives change nothing outside of their build', async () => {
		const { templateID, buildID } = (await control('POST', '/v3/templates', { name: 'hostile' })).json;
		const dir = scratch('evil');
		fs.symlinkSync('/etc', path.join(dir, 'out'));
		const evil = execFileSync('sh', ['-c', `cd ${dir}; echo x >x; tar -cPf - --transform 's,^x$,../../etc/evil,' x out`]);
		assert.equal((await upload(templateID, HASH, evil)).status, 200);
		await control('POST', `/v2/templates/${templateID}/builds/${buildID}`, { steps: [{ type: 'COPY', args: ['out', '/srv/out', '', ''], filesHash: HASH }, run('ls /etc/evil; true', 'root')] });
		const status = await ended(templateID, buildID);
		assert.ok(!fs.existsSync('/etc/evil') && !fs.existsSync('/srv/out'), JSON.stringify(status));
		for (const hash of ['x', 'AB'.repeat(32), '..%2f..%2fetc', `${HASH}0`])
			assert.ok([400, 404].includes((await control('GET', `/templates/hostile/files/${hash}`)).status), hash);
	});

	it('go with their owner, also while one is built', async () => {
		const sandboxes = async (): Promise<number> => (await rest('GET', '/sandboxes')).sandboxes.length, before = await sandboxes();
		const key = await newKey('leaver'), who = (await rest('GET', '/users')).users.find((u: Json) => u.name === 'leaver')!;
		const ready = await build('ready', { fromImage: 'base', steps: [run('echo one >one')] }, key), goes = await begun('goes', { fromImage: 'base', steps: [run('sleep 1000')] }, key);
		const own = (): string[] => imagesOf(state).filter((n) => [ready, goes].some((t) => n.startsWith(`t.${t.templateID}`)));
		assert.equal(own().length, 1);
		await rest('DELETE', `/users/${who.id}`);
		await until('nothing of it is left', () => own().length === 0);
		await until('nor its sandboxes', async () => (await sandboxes()) <= before);
	});
});
