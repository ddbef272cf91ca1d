// SPDX-License-Identifier: Apache-2.0
// `caisson image build NAME --dockerfile DIR`: what is refused before anything is built, what a build makes, where it fails, and what stays of it.
// Builds need buildah; without it these tests are skipped.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { buildsFolder, missing, noRange, sleepers, small } from '../lib/dockerfiles.ts';
import { slim } from '../lib/downloads.ts';
import { mode, scratch, scratchInMemory, slowness } from '../lib/env.ts';
import { Registry } from '../lib/oci.ts';
import { caisson, start } from '../lib/process.ts';
import { until } from '../lib/wait.ts';

const builds = buildsFolder();
after(() => fs.rmSync(builds, { recursive: true, force: true }));

const state = { SANDBOX_STATE_DIR: scratchInMemory('dockerfile'), TMPDIR: builds };
const store = path.join(state.SANDBOX_STATE_DIR, 'images');

interface Said { code: number | null; said: string; out: string }

async function build(files: Record<string, string>, ...more: string[]): Promise<Said> {
	return at(context(files), ...more);
}
async function at(folder: string, ...more: string[]): Promise<Said> {
	/* As root a machine without buildah builds in sandboxes: dockerfile_in_sandboxes.test.ts. */
	const r = await caisson(['image', 'build', 'x', '--dockerfile', folder, '--builder', 'buildah', ...more], { env: state });
	return { code: r.code, said: r.stderr.toString() + r.stdout.toString(), out: r.stdout.toString() };
}
function context(files: Record<string, string>): string {
	const folder = scratch('context');
	for (const [name, text] of Object.entries(files)) {
		fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
		fs.writeFileSync(path.join(folder, name), text);
	}
	return folder;
}
async function refused(words: RegExp, files: Record<string, string>, ...more: string[]): Promise<void> {
	const r = await build(files, ...more);
	assert.match(r.said, words);
	assert.ok(r.code! >= 64 && r.code! <= 78, `${r.code} ${r.said}`);
	nothingLeft();
}
/** What builds leave: folders of theirs, drafts, processes. */
function nothingLeft(): void {
	assert.deepEqual(fs.readdirSync(state.TMPDIR), []);
	assert.deepEqual(fs.existsSync(store) ? fs.readdirSync(store).filter((n) => n.startsWith('.build-') || n.startsWith('.old-')) : [], []);
}

beforeEach(async () => {
	await caisson(['image', 'rm', 'x'], { env: state });
});

describe('a Dockerfile is refused, with its line,', () => {
	for (const [what, text, words] of [
		['without FROM', '# nothing\n', /Dockerfile: there is no FROM in it/],
		['with a mistyped instruction', 'FROM a\nRUUN x\n', /Dockerfile:2: unknown instruction 'RUUN'; did you mean 'RUN'\?/],
		['with COPY from above the context', 'FROM a\n\nCOPY ../x /\n', /Dockerfile:3: '\.\.\/x' leads out of the build context/],
		['with ADD of an address of this machine', 'FROM a\nARG h=127.0.0.1\nADD http://$h/x /\n', /Dockerfile:3: ADD .* 127\.0\.0\.1 is an address of this machine or its cloud; --allow-inside permits/],
		['with a secret', 'FROM a\nRUN --mount=type=secret,id=x cat\n', /Dockerfile:2: --mount.*only type=cache and type=tmpfs/],
		['with an open here-document', 'FROM a\nRUN <<E\nx\n', /Dockerfile:2: no line ends the here-document 'E'/],
		['with a folder of this machine as its image', 'FROM oci:/etc\n', /Dockerfile:1: 'oci:\/etc' is no image/],
		['that is no text', 'FROM a\nRUN \0\n', /no text in UTF-8/],
		['of more than 1,000 instructions', 'FROM a\n' + 'RUN a\n'.repeat(1000), /Dockerfile:1001: more than 1000 instructions/],
		['of more than 1 MiB', 'FROM a\n' + '#\n'.repeat(1 << 19), /larger than 1024 KiB/],
	] as [string, string, RegExp][])
		it(what, () => refused(words, { Dockerfile: text }));

	it('without a Dockerfile in the folder, and with a link out of it', async () => {
		await refused(/cannot read .*\/Dockerfile: No such file/, { x: '' });
		const folder = context({});
		fs.symlinkSync('/etc/passwd', path.join(folder, 'Dockerfile'));
		const r = await at(folder);
		assert.match(r.said, /Dockerfile is a link that leads out of the folder; --file names/);
		assert.doesNotMatch(r.said, /root:/);
	});
	it('and options that do not fit', async () => {
		await refused(/no stage is named 'y'/, { Dockerfile: 'FROM a AS x\n' }, '--target', 'y');
		await refused(/--timeout: 1 to/, { Dockerfile: 'FROM a\n' }, '--timeout', '0');
		await refused(/--max-size/, { Dockerfile: 'FROM a\n' }, '--max-size', '1');
		await refused(/--build-arg NAME=VALUE/, { Dockerfile: 'FROM a\n' }, '--build-arg', '=x');
		await refused(/ADD of an address needs the network/, { Dockerfile: 'FROM a\nADD https://x.example/a /\n' }, '--no-network');
		await refused(/usage: caisson image build NAME --dockerfile/, { Dockerfile: 'FROM a\n' }, '--from', 'base');
		const r = await caisson(['image', 'build', 'x', '--check'], { env: state });
		assert.match(r.stderr.toString(), /one of 'build NAME --dockerfile DIR'/);
	});
});

describe('--check', () => {
	it('counts what would be built', async () => {
		const r = await build({ Dockerfile: 'FROM a AS one\nRUN x\nFROM b\nCOPY --from=one /x /\n', a: 'x'.repeat(3 << 20), 'd/b': '' }, '--check');
		assert.equal(r.code, 0, r.said);
		assert.equal(r.out, '4 instructions in 2 stages, 2 images to fetch; the build context has 4 files of 3 MB.\n');
	});
	it('counts without what .dockerignore leaves out', async () => {
		const files = { Dockerfile: 'FROM scratch\n', '.dockerignore': '*\n!Dockerfile\n!d/keep\n', a: 'x', 'd/b': '', 'd/keep': '' };
		assert.match((await build(files, '--check')).out, /has 3 files/); // a folder counts
		assert.match((await build({ ...files, 'Dockerfile.dockerignore': '**\n' }, '--check')).out, /has 0 files/);
		await refused(/\.dockerignore:2: a '\[' or/, { ...files, '.dockerignore': 'a\n[b\n' });
	});
	it('refuses pipes, and contexts that are too large', async () => {
		const folder = context({ Dockerfile: 'FROM scratch\n', 'd/x': '' });
		fs.truncateSync(path.join(folder, 'd/x'), 2 ** 40);
		assert.match((await at(folder, '--check')).said, /more than 32768 MiB; leave files out with \.dockerignore/);
		fs.unlinkSync(path.join(folder, 'd/x'));
		execFileSync('mkfifo', [path.join(folder, 'd/pipe')]);
		assert.match((await at(folder, '--check')).said, /'d\/pipe' of the build context is a pipe/);
	});
});

describe('without buildah', () => {
	it('the command says how to get it', { skip: missing ? false : 'buildah is installed' }, async () => {
		await refused(/buildah is not installed.*apt-get install buildah/, { Dockerfile: 'FROM scratch\n' });
	});
	it('and without sub-uids, that these are missing', { skip: mode === 'user' && noRange ? false : 'this account has what it needs' }, async () => {
		await refused(/no range in \/etc\/subuid and \/etc\/subgid/, { Dockerfile: 'FROM scratch\n' });
	});
});

describe('a build', { skip: missing || noRange }, () => {
	const registry = new Registry();
	let from = '';

	before(async () => {
		await registry.open();
		registry.add('base', slim());
		registry.add('small', small());
		from = `FROM ${registry.host}/small\n`;
	});
	after(() => registry.close());

	async function good(files: Record<string, string>, ...more: string[]): Promise<Said> {
		const r = await build(files, ...more);
		assert.equal(r.code, 0, r.said);
		nothingLeft();
		return r;
	}
	const inImage = (name: string): string => fs.readFileSync(path.join(store, 'x/root', name), 'utf8');

	it('does every step, shows each, and the image runs', async () => {
		const r = await good({
			Dockerfile: `FROM ${registry.host}/base
USER root
ARG WHO=nobody
ENV GREETING="hello $WHO" A=1
WORKDIR /opt/app
COPY --chmod=755 tool.sh d/ ./
RUN ./tool.sh >made && id -u >>made && pwd >>made
RUN <<EOF
set -e
echo "$GREETING" >here
for i in 1 2; do echo $i >>here; done
EOF
COPY <<one.txt /opt/app/
of $WHO
one.txt
USER 1000:1000
RUN id -u >/tmp/u && cat /tmp/u
CMD ["python3"]
HEALTHCHECK CMD true
`, 'tool.sh': '#!/bin/sh\necho made by $GREETING\n', 'd/file': 'of d\n',
		}, '--build-arg', 'WHO=you');
		assert.match(r.said, /5\/12 WORKDIR/);
		assert.match(r.said, /RUN \.\/tool\.sh/);
		assert.match(r.said, /Image 'x' is ready/);
		assert.equal(inImage('opt/app/made'), 'made by hello you\n0\n/opt/app\n');
		assert.equal(inImage('opt/app/here'), 'hello you\n1\n2\n');
		assert.equal(inImage('opt/app/one.txt'), 'of you\n');
		assert.equal(inImage('opt/app/file'), 'of d\n');
		const m = JSON.parse((await caisson(['image', 'list', 'x', '--json'], { env: state })).stdout.toString());
		assert.equal(m.source, 'dockerfile');
		assert.match(m.digest, /^sha256:/);
		const ran = await caisson(['run', '--image', 'x', '-c', 'import os; print(open("/opt/app/here").read(), os.getcwd(), os.environ.get("GREETING"))'], { env: state });
		assert.equal(ran.stdout.toString(), 'hello you\n1\n2\n /mnt/data None\n', ran.stderr.toString()); // as with every import, the image's variables and folder are not used
	});
	it('of several stages copies from one to another, and --target ends earlier', async () => {
		const files = { Dockerfile: `${from.trim()} AS one\nRUN echo 1 >/one\n${from.trim()} AS two\nCOPY --from=one /one /two\nRUN echo 3 >/three\n` };
		await good(files);
		assert.equal(inImage('two'), '1\n');
		assert.ok(!fs.existsSync(path.join(store, 'x/root/one')));
		await good(files, '--target', 'one');
		assert.equal(inImage('one'), '1\n');
	});
	it('that fails says where, and shows what the step wrote', async () => {
		const r = await build({ Dockerfile: `${from}# a comment\nRUN echo first\nRUN echo out; \\\n  echo err >&2; \\\n  exit 7\n` });
		assert.equal(r.code, 70, r.said);
		assert.match(r.said, /Dockerfile:4: RUN echo out; .*: exit status 7/);
		assert.match(r.said, /^out$/m);
		assert.match(r.said, /^err$/m);
		assert.doesNotMatch(r.said, /^first$/m); // of another step; the log has it
		assert.match(fs.readFileSync(path.join(store, '.x.log'), 'utf8'), /^first$/m);
		assert.ok(!fs.existsSync(path.join(store, 'x')));
		nothingLeft();
		const script = await build({ Dockerfile: `${from}RUN <<E\necho said\nexit 8\nE\n` });
		assert.match(script.said, /^said\ncaisson image: Dockerfile:2: RUN <<E: exit status 8$/m);
		const gone = await build({ Dockerfile: `FROM ${registry.host}/nothing\n` });
		assert.match(gone.said, /FROM 127\.0\.0\.1:\d+\/nothing/);
		assert.equal(gone.code, 69, gone.said);
	});
	it('gets no file that .dockerignore leaves out, and no link leads out of the context', async () => {
		const folder = context({ Dockerfile: `${from}COPY . /c\nRUN ls -A /c >/list; cat /c/link >/link 2>&1 || :\n`, '.dockerignore': '*.secret\n!not.secret\nd\n', 'a.secret': 'a', 'not.secret': 'b', 'd/c': 'c', kept: 'd' });
		fs.symlinkSync('/etc/hostname', path.join(folder, 'link'));
		fs.symlinkSync('../../../../../../etc/machine-id', path.join(folder, 'up'));
		const r = await at(folder);
		assert.equal(r.code, 0, r.said);
		assert.equal(inImage('list'), '.dockerignore\nDockerfile\nkept\nlink\nnot.secret\nup\n');
		const through = await build({ Dockerfile: `${from}COPY up /x\n` });
		assert.notEqual(through.code, 0);
	});
	it('has no network with --no-network, and the one of this machine without', async () => {
		await good({ Dockerfile: `${from}RUN cat /proc/net/dev >/n\n` }, '--no-network');
		assert.equal(inImage('n').split('\n').filter((l) => l.includes(':')).length, 1, inImage('n'));
		const others = `${from}RUN bash -c 'exec 3<>/dev/tcp/127.0.0.1/${registry.host.split(':')[1]}'\n`;
		assert.match((await build({ Dockerfile: others }, '--no-network')).said, /exit status 1/);
		await good({ Dockerfile: others });
	});
	it('runs as no account of this machine', { skip: mode === 'user' && 'for root' }, async () => {
		await good({ Dockerfile: `${from}RUN cat /proc/self/uid_map >/map\n` });
		assert.match(inImage('map'), /^\s*0\s+2141192192\s+65536\n/);
	});
	it('that does not end is ended at its limit, with all that it started', async () => {
		const r = await build({ Dockerfile: `${from}RUN setsid sleep 98761 & setsid sh -c 'sleep 98761' & echo begun; sleep 98761\n` }, '--timeout', `${5 * slowness}`);
		assert.equal(r.code, 75, r.said);
		assert.match(r.said, /Dockerfile:2: RUN setsid sleep.*the build has lasted \d+ s, which is its limit \(--timeout\)/);
		assert.match(r.said, /^begun$/m);
		assert.equal(sleepers('98761'), 0);
		nothingLeft();
	});
	it('leaves nothing after Ctrl-C', async () => {
		const child = start(['image', 'build', 'x', '--dockerfile', context({ Dockerfile: `${from}RUN echo begun >/m; setsid sleep 98762 & sleep 98762\n` })], { env: state });
		await until('the step to run', () => sleepers('98762') > 0, 60_000 * slowness);
		child.kill('SIGINT');
		const r = await child.exit;
		assert.equal(r.code, 130, r.stderr.toString());
		assert.match(r.stderr.toString(), /stopped; nothing was changed/);
		assert.equal(sleepers('98762'), 0);
		assert.ok(!fs.existsSync(path.join(store, 'x')));
		nothingLeft();
	});
	it('after one that was killed removes what that left', async () => {
		const child = start(['image', 'build', 'x', '--dockerfile', context({ Dockerfile: `${from}RUN sleep 98763\n` })], { env: state });
		await until('the step to run', () => sleepers('98763') > 0, 60_000 * slowness);
		child.kill('SIGKILL');
		await child.exit;
		await until('the end of its steps', () => sleepers('98763') === 0, 10_000 * slowness);
		assert.equal(fs.readdirSync(state.TMPDIR).length, 1);
		await build({ Dockerfile: 'FROM scratch\n' });
		nothingLeft();
	});
	it('that writes too much is ended', async () => {
		const r = await build({ Dockerfile: `${from}RUN head -c 8000000 /dev/urandom >/f; i=0; while dd if=/f of=/f$i bs=1M 2>/dev/null; do i=$((i+1)); done\n` }, '--max-size', '700m');
		assert.equal(r.code, 70, r.said);
		assert.match(r.said, /Dockerfile:2: RUN .*needs more than 700 MiB of disk, which is its limit \(--max-size\)/);
		nothingLeft();
	});
});
