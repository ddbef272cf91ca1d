// SPDX-License-Identifier: Apache-2.0
// Images from a Dockerfile that the server builds in sandboxes, where nothing is installed for it.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { asker } from '../lib/asker.ts';
import { sleepers, small } from '../lib/dockerfiles.ts';
import { engine, mode, scratch, slowness, unlessEnforced } from '../lib/env.ts';
import { Registry } from '../lib/oci.ts';
import { imagesOf, stateOfItsOwn } from '../lib/own-images.ts';
import { caisson, start, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

/** Of the server, and of the command that is used beside it. */
let state = '';

const possible = mode === 'root' && engine === 'native';
const skip = (!possible && 'only a server that root started, with the native engine, can have root users') || unlessEnforced('memory', 'pids');

describe('a Dockerfile in a workspace', { skip }, () => {
	let program: Program;
	let base: string;
	let source: string;

	before(async () => {
		state = stateOfItsOwn();
		({ program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: state, SANDBOX_ROOT: 'on', SANDBOX_IMAGE: 'base', SANDBOX_IMAGES: '*' } }));
		source = (await ask('POST', '/sandboxes', {})).body.id;
	});
	after(() => program.end());

	const ask = asker(() => base);
	async function put(name: string, text: string | Buffer): Promise<void> {
		const r = await fetch(`${base}/api/v1/sandboxes/${source}/files/${name}?overwrite=true`, { method: 'PUT', body: text as BodyInit });
		assert.ok(r.status < 300, `${name}: ${r.status} ${await r.text()}`);
	}
	async function run(id: string, command: string, user = 'user'): Promise<string> {
		const r = await ask('POST', `/sandboxes/${id}/runs`, { wait: true, command, user });
		assert.ok(r.status < 300, r.text);
		return r.body.stdout + r.body.stderr;
	}
	const ended = (): Promise<Json> => until('the end of the build', async () => {
		const { build } = (await ask('GET', '/images')).body;
		return build && ['done', 'failed', 'cancelled'].includes(build.state) ? build as Json : undefined;
	});
	/** Begins in FOLDER, with the files there, and waits. */
	async function build(folder: string, files: Record<string, string | Buffer>, more: Json = {}): Promise<Json> {
		for (const [name, text] of Object.entries(files))
			await put(`${folder}/${name}`, text);
		const r = await ask('POST', `/sandboxes/${source}/image`, { name: folder, dockerfile: `${folder}/Dockerfile`, ...more });
		assert.equal(r.status, 202, r.text);
		return ended();
	}
	/** What the command says in a sandbox of the image that was built. */
	async function inside(image: string, command: string): Promise<string> {
		const r = await ask('POST', '/sandboxes', { image, root: true });
		assert.equal(r.status, 201, r.text);
		const said = await run(r.body.id, command, 'root');
		await ask('DELETE', `/sandboxes/${r.body.id}?force=true`);
		return said;
	}
	const done = (b: Json): void => assert.deepEqual([b.state, b.reason], ['done', ''], JSON.stringify(b, null, 1));

	it('has its steps done: variables, folders, users, files, here-documents, archives', async () => {
		const b = await build('whole', {
			Dockerfile: [
				'# syntax=docker/dockerfile:1', 'ARG WHO=nobody', 'FROM base', 'ARG WHO', 'ENV GREETING="hello $WHO" PATH="/opt/tool/bin:$PATH"', 'WORKDIR /srv/app', 'WORKDIR below',
				'COPY a.txt b?.txt /data/', 'COPY --chmod=600 --chown=1000:1000 a.txt renamed', 'COPY tree /tree', 'COPY ["a name.txt", "/data/with blank.txt"]',
				'RUN mkdir -p /opt/tool/bin && printf \'#!/bin/sh\\necho "$GREETING from $(pwd)"\\n\' > /opt/tool/bin/greet && chmod +x /opt/tool/bin/greet', 'RUN greet > /data/greeting',
				'RUN ["/bin/sh", "-c", "echo \'exec form\' > /data/exec"]', 'RUN echo other:x:990:990::/home/other:/bin/sh >> /etc/passwd && mkdir /data/o && chown other /data/o', 'USER other', 'RUN id -un > /data/o/who; echo $HOME >> /data/o/who', 'USER root',
				'RUN <<END', 'echo "first $GREETING" > /data/here', 'echo second >> /data/here', 'END', 'COPY <<"END" /data/literal', '$GREETING', 'END', 'ADD files.tar /unpacked/',
				'SHELL ["/bin/bash", "-c"]', 'RUN [[ x == x ]] && echo ${BASH_VERSION:+bash} > /data/shell', 'LABEL a=b', 'EXPOSE 80', 'CMD ["greet"]', '',
			].join('\n'),
			'a.txt': 'a', 'b1.txt': 'b1', 'b2.txt': 'b2', 'c.txt': 'c', 'tree/deep/x': 'x', 'tree/y': 'y', 'a%20name.txt': 'blank',
			'files.tar': tar('inner.txt', 'from the archive'),
		}, { args: ['WHO=world'] });
		done(b);
		assert.equal(await inside('whole', [
			'ls /data /tree /tree/deep', 'cat /data/a.txt /data/b1.txt /data/greeting /data/exec /data/o/who /data/here /data/literal /data/shell /unpacked/inner.txt', 'echo', 'cat "/data/with blank.txt"', 'echo',
			'stat -c "%a %u %g %n" /srv/app/below/renamed /data/a.txt', 'ls -a / /home/user | grep caisson',
		].join('; ')), [
			'/data:', 'a.txt', 'b1.txt', 'b2.txt', 'exec', 'greeting', 'here', 'literal', 'o', 'shell', 'with blank.txt', '', '/tree:', 'deep', 'y', '', '/tree/deep:', 'x',
			'ab1hello world from /srv/app/below', 'exec form', 'other', '/home/other', 'first hello world', 'second', '$GREETING', 'bash', 'from the archive', 'blank',
			'600 1000 1000 /srv/app/below/renamed', '644 0 0 /data/a.txt', '',
		].join('\n'));
		assert.ok(b.lines.some((l: string) => /^\[3\/\d+\] WORKDIR \/srv\/app$/.test(l)), b.lines.join('\n'));
	});

	it('has stages: one begins with another, one copies from another, and those that nothing needs are left out', async () => {
		done(await build('stages', {
			Dockerfile: [
				'FROM base AS tools', 'RUN mkdir /made && echo made > /made/file && ln -s file /made/link', 'ENV KEPT=yes', 'FROM tools AS more', 'RUN echo "$KEPT" > /made/kept',
				'FROM base AS unused', 'RUN exit 7', 'FROM base', 'COPY --from=more /made /final', 'COPY --from=0 /made/file /made/li*k /other/', 'COPY --from=base /etc/debian_version /from-image', '',
			].join('\n'),
		}));
		assert.equal(await inside('stages', 'cat /final/file /final/kept; readlink /final/link; ls /other; cat /from-image | wc -l; ls -d /made'), 'made\nyes\nfile\nfile\nlink\n1\nls: cannot access \'/made\': No such file or directory\n');
		done(await build('target', { Dockerfile: 'FROM base AS one\nRUN echo one > /which\nFROM one AS two\nRUN echo two > /which\n' }, { target: 'one' }));
		assert.equal(await inside('target', 'cat /which'), 'one\n');
	});

	it('keeps what .dockerignore names out of the image, also of steps that look for it', async () => {
		done(await build('ignores', {
			Dockerfile: 'FROM base\nCOPY . /all\nRUN find / -xdev -name \'*secret*\' -not -path \'/proc/*\' -not -path \'/usr/*\' -not -path \'/opt/*\' > /found 2>/dev/null; true\n',
			'.dockerignore': '# none of these\n**/*secret*\nnode_modules\n*.log\n!keep.log\nd/[a-c]?x\n/a+b(c)\n',
			'my.secret': '1', 'deep/down/secret.key': '2', 'node_modules/x/y.js': '3', 'a.log': '4', 'keep.log': '5', 'd/b1x': '6', 'd/d1x': '7', 'a+b(c)': '8', 'aab(c)': '9', plain: '10',
		}));
		assert.equal(await inside('ignores', 'cd /all; find . -type f | sort; cat /found'), './.dockerignore\n./Dockerfile\n./aab(c)\n./d/d1x\n./keep.log\n./plain\n');
	});

	it('says which line failed and what it said, and leaves neither image nor sandbox', async () => {
		const before = (await ask('GET', '/sandboxes')).text;
		const failed = await build('fails', { Dockerfile: 'FROM base\n\nRUN echo some words; exit 3\nRUN echo never\n' });
		assert.deepEqual([failed.state, failed.reason], ['failed', 'Dockerfile:3: RUN echo some words; exit 3: exit status 3']);
		assert.ok(failed.lines.includes('some words') && !failed.lines.includes('never'), failed.lines.join('\n'));
		const missing = await build('fails', { Dockerfile: 'FROM base\nCOPY no-such* /x/\n' });
		assert.equal(missing.reason, 'Dockerfile:2: COPY no-such* /x/: exit status 1');
		assert.ok(missing.lines.includes('no-such*: there is no such file to copy'), missing.lines.join('\n'));
		assert.match((await build('fails', { Dockerfile: 'FROM no.example/such:1\n' })).reason, /the image 'no\.example\/such:1' is not on this server; its operator can download it: caisson image pull/);
		assert.match((await build('base', { Dockerfile: 'FROM base\nRUN exit 5\n' })).reason, /the image 'base' was not made of a sandbox/);
		assert.match((await build('fails', { Dockerfile: 'FROM scratch\nCOPY a /\n' })).reason, /FROM scratch has no shell/);
		assert.match((await build('fails', { Dockerfile: 'FROM base\nRUN --mount=type=secret,id=x cat /x\n' })).reason, /^Dockerfile:2: --mount=type=secret/);
		assert.ok(!(await ask('GET', '/images')).body.images.some((i: Json) => i.name === 'fails'));
		await until('no sandbox of a build', async () => (await ask('GET', '/sandboxes')).body.sandboxes.length === JSON.parse(before).sandboxes.length || undefined);
	});

	it('is refused where a request is wrong, and one is built at a time', async () => {
		await put('slow/Dockerfile', 'FROM base\nRUN sleep 600\n');
		const own = await ask('POST', `/sandboxes/${source}/image`, { name: 't.x' });
		assert.deepEqual([own.status, own.body.detail], [400, 'name: what begins with \'t.\' is a template\'s']);
		for (const [body, status] of [
			[{ name: 'Slow', dockerfile: 'slow/Dockerfile' }, 400], [{ name: 't.x', dockerfile: 'slow/Dockerfile' }, 400], [{ name: 'slow', dockerfile: '../etc/passwd' }, 400],
			[{ name: 'slow', dockerfile: 'slow/Dockerfile', args: ['=1'] }, 400], [{ name: 'slow', dockerfile: 'slow/Dockerfile', args: ['A'] }, 400],
		] as const)
			assert.equal((await ask('POST', `/sandboxes/${source}/image`, body)).status, status, JSON.stringify(body));
		assert.equal((await build('nowhere', {}, { dockerfile: 'nowhere/Dockerfile' })).state, 'failed');
		assert.equal((await ask('POST', `/sandboxes/${source}/image`, { name: 'slow', dockerfile: 'slow/Dockerfile' })).status, 202);
		const second = await ask('POST', `/sandboxes/${source}/image`, { name: 'second', dockerfile: 'slow/Dockerfile' });
		assert.deepEqual([second.status, second.body.code], [409, 'session_busy'], second.text);
		await until('the step that sleeps', async () => (await ask('GET', '/images')).body.build.lines.includes('[1/1] RUN sleep 600') || undefined);
		assert.equal((await ask('DELETE', '/images/build')).status, 202);
		assert.equal((await ended()).state, 'cancelled');
		await put('slow/Dockerfile', 'FROM base\nRUN head -c 48000000 /dev/urandom > /large\n');
		done(await build('kept', { Dockerfile: 'FROM base\nRUN echo first > /which\n' }));
		assert.equal((await ask('POST', `/sandboxes/${source}/image`, { name: 'kept', dockerfile: 'slow/Dockerfile' })).status, 202);
		await until('the image being made', async () => (await ask('GET', '/images')).body.build.lines.includes('making the image') || undefined);
		assert.equal((await ask('DELETE', '/images/build')).status, 202);
		assert.equal((await ended()).state, 'cancelled');
		done(await build('after', { Dockerfile: 'FROM base\nRUN echo fine > /after\n' }));
		assert.equal(await inside('kept', 'cat /which'), 'first\n'); // the image that a cancelled build would have replaced
	});

	describe('and one that the command line builds beside the server', () => {
		const registry = new Registry();
		const folder = scratch('context');
		const inImage = (name: string): string => fs.readFileSync(path.join(state, 'images/own/root', name), 'utf8');
		const options = (...more: string[]): string[] => ['image', 'build', 'own', '--builder', 'sandboxes', '--dockerfile', folder, ...more];
		async function command(text: string, ...more: string[]): Promise<{ code: number | null; said: string; out: string }> {
			fs.writeFileSync(path.join(folder, 'Dockerfile'), text);
			const r = await caisson(options(...more), { env: { SANDBOX_STATE_DIR: state } });
			return { code: r.code, said: r.stderr.toString(), out: r.stdout.toString() };
		}
		async function refused(code: number, words: RegExp, text: string, ...more: string[]): Promise<void> {
			const r = await command(text, ...more);
			assert.match(r.said, words);
			assert.equal(r.code, code, r.said);
		}

		before(async () => {
			await registry.open();
			registry.add('some/small', small());
			for (const [name, text] of Object.entries({ 'a.txt': 'a', 'b.secret': 'b', 'd/c.txt': 'c', '.dockerignore': '*.secret\nd\n!d/c.txt\n' })) {
				fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
				fs.writeFileSync(path.join(folder, name), text);
			}
			fs.symlinkSync('../../../../etc/hostname', path.join(folder, 'link'));
			fs.chmodSync(path.join(folder, 'd'), 0o750); // of which .dockerignore keeps one file
		});
		after(() => registry.close());

		it('has what the steps made, from an image that is downloaded where it is missing, and is the operator\'s', async () => {
			const text = [
				'ARG WHO=nobody', 'FROM base AS one', 'ARG WHO', 'COPY . /all', 'RUN ls -A /all >/list; stat -c %a /all/d >>/list; readlink /all/link >/who; echo "$WHO" >>/who; printf "a\\033[2Jb\\n"',
				'RUN head -c 20000000 /dev/zero >/much', // a disk with as much is not kept beyond its sandbox
				'FROM base AS two', 'COPY --from=one /list /who /made/', 'COPY --chmod=640 d /d', 'FROM two', 'RUN echo never >/never', '',
			].join('\n');
			const r = await command(text, '--target', 'two', '--build-arg', 'WHO=you', '--no-network');
			assert.equal(r.code, 0, r.said);
			assert.match(r.said, /^ {2}3\/4 RUN ls -A.*\na \[2Jb\n {2}4\/4 RUN head .*\n {2}1\/2 COPY .*\n {2}2\/2 COPY d \/d\n {2}making the image\n$/m); // controls are no command to the terminal
			assert.match(r.out, /Image 'own' is ready: .*\n$/);
			assert.equal(inImage('made/list'), '.dockerignore\nDockerfile\na.txt\nd\nlink\n750\n');
			assert.deepEqual([inImage('made/who'), inImage('d/c.txt'), fs.existsSync(path.join(state, 'images/own/root/never'))], ['../../../../etc/hostname\nyou\n', 'c', false]);
			const row = (await ask('GET', '/images')).body.images.find((i: Json) => i.name === 'own');
			assert.equal(row.of_sandbox, false); // so no client of the server removes or replaces it
			const text2 = `FROM ${registry.host}/some/small\nRUN echo second >/which\n`;
			const second = await command(text2); // the command replaces it
			assert.deepEqual([second.code, inImage('which')], [0, 'second\n'], second.said);
			assert.match(second.said, new RegExp(`Downloading ${registry.host}/some/small:latest, which the build begins with, as image 'from\\.small-latest\\.[0-9a-f]{16}'\\n`));
			registry.requests.length = 0;
			const third = await command(text2);
			assert.deepEqual([third.code, registry.requests.length], [0, 0], third.said);
		});

		it('fails with the line and what it wrote, at its limits, and where an option does not fit', async () => {
			const failed = await command('FROM base\nRUN echo out; echo err >&2; \\\n exit 7\n');
			assert.equal(failed.code, 70, failed.said);
			assert.doesNotMatch((await command('FROM base\nRUN printf "[9/9] \\033]0;x\\007\\302\\233y\\n"; exit 3\n')).said, /[^\n\t\x20-\x7e]/); // nor as a step
			assert.match(failed.said, /\nout\nerr\ncaisson image: Dockerfile:2: RUN echo out; echo err >&2; +exit 7: exit status 7\n$/);
			await refused(75, /1\/1 RUN sleep 98771: the build has lasted 2 s, which is its limit \(--timeout\)/, 'FROM base\nRUN sleep 98771\n', '--timeout', '2');
			await refused(70, /exit status 1; the disk was full, of which a build has 40 MiB \(--max-size\)/, 'FROM base\nRUN head -c 60000000 /dev/zero >/large\n', '--max-size', '40m');
			await refused(64, /--allow-inside is for builds with buildah/, 'FROM base\n', '--allow-inside');
			await refused(64, /--builder: auto, buildah or sandboxes/, 'FROM base\n', '--builder', 'docker');
			await refused(64, /FROM scratch has no shell/, 'FROM scratch\nCOPY a.txt /\n');
			await refused(69, /^Downloading 127\.0\.0\.1:9\/x\/other:7, which the build begins with, as image 'from\.other-7\.[0-9a-f]{16}'\n[^]*no answer/m, 'FROM 127.0.0.1:9/x/other:7\nCOPY a.txt /\n');
			await refused(69, /as image 'from\.base-latest\.[0-9a-f]{16}'\n[^]*no answer/, 'FROM 127.0.0.1:9/x/base\nCOPY a.txt /\n'); // no name of an operator's image
			await refused(69, /^Downloading 127\.0\.0\.1:9\/some\/small:latest, /m, `FROM 127.0.0.1:9/some/small\nCOPY a.txt /\n`); // another registry's has the same end
			const checked = await command('FROM base\nCOPY . /x\n', '--check');
			assert.equal(checked.out, '2 instructions in 1 stage, 1 image to fetch; the build context has 6 files of 0 MB.\n');
		});

		it('leaves nothing after Ctrl-C, and what was there stays', async () => {
			const before = imagesOf(state);
			fs.writeFileSync(path.join(folder, 'Dockerfile'), 'FROM base\nRUN setsid sleep 98772 & sleep 98772\n');
			const child = start(options(), { env: { SANDBOX_STATE_DIR: state } });
			await until('the step to run', () => sleepers('98772') > 0, 60_000 * slowness);
			child.kill('SIGINT');
			const r = await child.exit;
			assert.equal(r.code, 130, r.stderr.toString());
			assert.match(r.stderr.toString(), /stopped; nothing was changed/);
			assert.equal(sleepers('98772'), 0);
			assert.equal(sleepers('98771'), 0); // of the build that has lasted too long
			assert.deepEqual(imagesOf(state), before);
		});
	});
});

describe('for a plain user', { skip: mode !== 'user' && 'root is none' }, () => {
	it('the command says what a build in sandboxes takes', async () => {
		const folder = scratch('context');
		fs.writeFileSync(path.join(folder, 'Dockerfile'), 'FROM base\n');
		const r = await caisson(['image', 'build', 'own', '--builder', 'sandboxes', '--dockerfile', folder], { env: { SANDBOX_STATE_DIR: scratch('state') } });
		assert.equal(r.code, 69);
		assert.match(r.stderr.toString(), /needs a root user inside them, which only root can give: start this command as root, or install buildah/);
	});
});

/** A tar with one file. */
function tar(name: string, text: string): Buffer {
	const head = Buffer.alloc(512);
	head.write(name, 0);
	head.write('0000644\0', 100);
	head.write('0000000\0', 108);
	head.write('0000000\0', 116);
	head.write(`${text.length.toString(8).padStart(11, '0')}\0`, 124);
	head.write('00000000000\0', 136);
	head.write('        ', 148);
	head.write('0', 156);
	head.write('ustar\0' + '00', 257);
	head.write(`${head.reduce((a, b) => a + b, 0).toString(8).padStart(6, '0')}\0 `, 148);
	return Buffer.concat([head, Buffer.from(text.padEnd(512, '\0')), Buffer.alloc(1024)]);
}
