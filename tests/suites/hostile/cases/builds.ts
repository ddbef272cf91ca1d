// SPDX-License-Identifier: Apache-2.0
// Row 56: images from a stranger's Dockerfile and build context (`caisson image build NAME --dockerfile DIR`). Cases that build need buildah,
// or do it in sandboxes.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { buildsFolder, missing, noRange, sleepers, small } from '../../../lib/dockerfiles.ts';
import { imagesDir, scratch, slowness } from '../../../lib/env.ts';
import { Registry } from '../../../lib/oci.ts';
import { imagesOf, stateOfItsOwn } from '../../../lib/own-images.ts';
import { caisson } from '../../../lib/process.ts';
import type { Json } from '../../../lib/session.ts';
import type { Case, Outside } from '../case.ts';

const F = 'FROM r.example/a\n';
const cannot = missing || noRange || undefined;

interface Said { code: number | null; text: string; ms: number }
type Files = Record<string, string>;

/** What twins change: every answer, before it is judged. */
const said = (what: string, change: (s: Said) => void): Case['planted'] => ({ what, by: (_r: Json, o: Outside) => void (o.spoil = change) });
const accepted = said('it is said to be accepted', (s) => Object.assign(s, { code: 0, text: '1 instruction in 1 stage' }));

function put(files: Files): string {
	const folder = scratch('context');
	for (const [name, text] of Object.entries(files)) {
		fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
		fs.writeFileSync(path.join(folder, name), text);
	}
	return folder;
}

/** `caisson image build` with buildah's builder, whose checks need no buildah, in folders of its own; nothing of it may stay. */
async function build(o: Outside, folder: string, ...more: string[]): Promise<Said & { root: string }> {
	const builds = buildsFolder(), state = scratch('state');
	try {
		const began = performance.now();
		const r = await caisson(['image', 'build', 'x', '--builder', 'buildah', '--dockerfile', folder, ...more], { env: { ...o.env, SANDBOX_STATE_DIR: state, TMPDIR: builds } });
		const s: Said = { code: r.code, text: r.stderr.toString() + r.stdout.toString(), ms: performance.now() - began };
		o.spoil?.(s);
		assert.deepEqual(fs.readdirSync(builds), [], 'a build left its folder');
		return { ...s, root: path.join(state, 'images/x/root') };
	} finally {
		fs.rmSync(builds, { recursive: true, force: true });
	}
}
const check = (o: Outside, text: string, files: Files = {}): Promise<Said> => build(o, put({ ...files, Dockerfile: text }), '--check');

/** A stranger's Dockerfile that is refused at once, with a sentence that begins with its place. */
async function refused(o: Outside, text: string, why: RegExp, files: Files = {}): Promise<void> {
	const r = await check(o, text, files);
	assert.ok(r.code === 64, `${text.slice(0, 200)}: ${r.code} ${r.text.slice(0, 500)}`);
	assert.match(r.text, why);
	assert.ok(r.ms < 5000 * slowness, `${r.ms} ms`);
	assert.ok(!/[\x00-\x08\x0b-\x1f\x7f]/.test(r.text), 'control characters');
}

/** A build that begins with a shell and a few programs. */
async function steps(o: Outside, text: string, ...more: string[]): Promise<Said & { root: string }> {
	const registry = new Registry();
	await registry.open();
	registry.add('small', small());
	try {
		return await build(o, put({ Dockerfile: `FROM ${registry.host}/small\n${text}` }), ...more);
	} finally {
		registry.close();
	}
}

/** The same in a sandbox, on the image base. Nothing but that and what the build made is there afterwards; a harmless build is the last one. */
async function inSandboxes(o: Outside, body: (build: (text: string, ...more: string[]) => Promise<Said>, root: string) => Promise<void>): Promise<void> {
	const state = stateOfItsOwn(), env = { ...o.env, SANDBOX_STATE_DIR: state, SANDBOX_IMAGE: 'base', OPERATORS_SECRET: 'secret-of-the-operator' };
	const one = async (text: string, ...more: string[]): Promise<Said> => {
		const began = performance.now();
		const r = await caisson(['image', 'build', 'x', '--builder', 'sandboxes', '--dockerfile', put({ Dockerfile: `FROM base\n${text}` }), ...more], { env });
		return { code: r.code, text: r.stderr.toString() + r.stdout.toString(), ms: performance.now() - began };
	};
	await body(async (text, ...more) => {
		const s = await one(text, ...more);
		o.spoil?.(s);
		assert.deepEqual(imagesOf(state).filter((n) => n !== 'x'), ['base']);
		return s;
	}, path.join(state, 'images/x/root'));
	const good = await one('RUN echo fine >/fine\n');
	assert.equal(good.code, 0, good.text);
	assert.equal(fs.readFileSync(path.join(state, 'images/x/root/fine'), 'utf8'), 'fine\n');
}
const IN_SANDBOXES = { mounts: true, needs: ['memory', 'pids'], code: '', skip: fs.existsSync(path.join(imagesDir, 'base/root')) ? undefined : 'the image base is not there' };

export const buildCases: Case[] = [
	{
		id: '56a', without: { walls: ['dockerfile'] }, attack: 'COPY and ADD from above the build context: with .., absolute, in variables, quotes and lists', must: 'each is refused', code: '',
		after: async (_r, o) => {
			for (const from of ['COPY ../x /', 'COPY a/../../x /', 'ADD /../../etc/passwd /', 'COPY ["..", "/"]', 'ENV u=..\nCOPY $u/x /', 'ARG u=../..\nCOPY ok ${u:-x}/x /', 'ADD "../x" /', 'COPY .\\./x /', 'ENV d=.\nCOPY ${d}${d}/x /'])
				await refused(o, `${F}${from}\n`, /leads out of the build context/);
		},
	},
	{
		id: '56b', without: { walls: ['dockerfile'] }, attack: 'ADD of addresses of the host, in every spelling, and through variables', must: 'each is refused', code: '',
		after: async (_r, o) => {
			for (const host of ['127.0.0.1', '127.1', '0', '2130706433', '0x7f000001', '0177.0.0.1', 'localhost', 'LOCALHOST.', 'a.localhost', '[::1]', '[::ffff:127.0.0.1]', '[0:0:0:0:0:0:0:1]', 'x@127.0.0.1', '127.0.0.1:8181', '[64:ff9b::7f00:1]', 'ip6-localhost'])
				await refused(o, `${F}ADD http://${host}/x /\n`, /is an address of this machine/);
			await refused(o, `${F}ENV A=127.0 B=\${A}.0.1\nENV B=\${A}.0.1\nADD http://$B/x /\n`, /is an address of this machine/);
			await refused(o, `${F}ADD http://$FROM_THE_IMAGE/x /\n`, /which this file does not set/);
			await refused(o, `${F}ONBUILD RUN x\nADD file:///etc/passwd /\n`, /only ADD takes addresses/);
		},
	},
	{
		id: '56c', without: { walls: ['dockerfile'] }, attack: 'ADD of metadata services', must: 'each is refused', code: '',
		after: async (_r, o) => {
			for (const host of ['169.254.169.254', '[fd00:ec2::254]', 'metadata.google.internal', '100.100.100.200', '0xa9fea9fe', '2852039166', '[::ffff:169.254.169.254]', '192.0.0.192', '169.254.170.2'])
				await refused(o, `${F}ADD --checksum=sha256:0 http://${host}/latest/meta-data/ /\n`, /is an address of this machine or its cloud/);
		},
	},
	{
		id: '56d', planted: accepted, attack: 'bombs of here-documents: 10,000 of them, one without end, one of 2 MiB, ones that grow by variables', must: 'each is refused at a limit', code: '',
		after: async (_r, o) => {
			await refused(o, `${F}RUN${' <<E'.repeat(10_000)}\n${'E\n'.repeat(10_000)}`, /more than 16 here-documents/);
			await refused(o, `${F}RUN <<E\n${'x\n'.repeat(100_000)}`, /no line ends the here-document/);
			await refused(o, `${F}RUN <<E\n${'x'.repeat(2 << 20)}\nE\n`, /larger than 1024 KiB/);
			await refused(o, `${F}ENV a=${'x'.repeat(30_000)}\nCOPY <<E /x\n${'$a'.repeat(5000)}\nE\n`, /longer than 1024 KiB|more than 4 MiB/);
			await refused(o, `${F}ENV a=${'x'.repeat(30_000)}\n${`COPY <<E /x\n${'$a'.repeat(30)}\nE\n`.repeat(900)}`, /more than 4 MiB of text/);
		},
	},
	{
		id: '56e', planted: accepted, attack: 'bombs of variables: doubled 40 times, nested 10,000 deep, 100,000 of them, through 64 stages', must: 'each is refused at a limit', code: '',
		after: async (_r, o) => {
			await refused(o, `${F}ENV a=xxxxxxxx\n${'ENV a=$a$a\n'.repeat(40)}`, /becomes longer than 32 KiB/);
			await refused(o, `${F}ENV a=${'${a:-'.repeat(10_000)}x${'}'.repeat(10_000)}\n`, /nested more than 8 deep/);
			await refused(o, `${F}ENV ${Array.from({ length: 5000 }, (_, i) => `a${i}=1`).join(' ')}\n`, /more than 512 variables/);
			await refused(o, `${F}ENV ${Array.from({ length: 60 }, (_, i) => `a${i}=${'x'.repeat(1000)}`).join(' ')}\n`.replace('FROM r.example/a', 'FROM r.example/a AS s0')
				+ Array.from({ length: 63 }, (_, i) => `FROM s${i} AS s${i + 1}\n`).join('') + 'LABEL b=$a1\n'.repeat(900), /more than 4 MiB|need too much memory/);
			await refused(o, `${F}ENV a=${'x'.repeat(30_000)}\n${`LABEL ${'b=$a '.repeat(1000)}\n`.repeat(100)}`, /more than 4 MiB of text/);
		},
	},
	{
		id: '56f', planted: accepted, attack: '100,000 steps, 1,000 stages, a step of 900 KiB, 10,000 flags', must: 'each is refused at a limit', code: '',
		after: async (_r, o) => {
			await refused(o, F + 'RUN a\n'.repeat(100_000), /Dockerfile:1001: more than 1000 instructions/);
			await refused(o, F.repeat(1000), /more than 64 stages/);
			await refused(o, `${F}RUN ${'a \\\n'.repeat(200_000)}\n`, /longer than 64 KiB/);
			await refused(o, `${F}RUN ${'--network=default '.repeat(3000)}a\n`, /more than 32 flags/);
		},
	},
	{
		id: '56g', planted: accepted, attack: 'an image that is a folder or file of the host, or the image store of another program', must: 'each is refused', code: '',
		after: async (_r, o) => {
			for (const from of ['oci:/etc', 'dir:/root', 'docker-archive:/x.tar', 'oci-archive:/x.tar', 'oci:5000/x', 'dir:1/x', 'containers-storage:[overlay@/var/lib]x', 'file:///etc', '/etc', '../x', 'docker-daemon:a/b:1', 'sif:/x', 'ostree:x@/etc'])
				await refused(o, `FROM ${from}\n`, /is no image/);
			for (const from of ['oci:/etc', '/etc', 'dir:1/x', '99', '$x'])
				await refused(o, `${F}COPY --from=${from} /x /\n`, /is no image|no such stage/);
		},
	},
	{
		id: '56h', without: { walls: ['context'] }, attack: 'a build context with a pipe, a sparse file of 8 TiB and, as root, devices', must: 'each is refused by its name, and nothing is opened or read', code: '',
		after: async (_r, o) => {
			const one = async (make: (f: string) => void, why: RegExp): Promise<void> => {
				const folder = put({ Dockerfile: 'FROM scratch\nCOPY . /\n', 'd/x': '' });
				make(path.join(folder, 'd'));
				const r = await build(o, folder, '--check');
				assert.match(r.text, why);
				assert.ok(r.code === 64 && r.ms < 5000 * slowness, `${r.code} ${r.ms}`);
			};
			await one((f) => execFileSync('mkfifo', [`${f}/pipe`]), /'d\/pipe' of the build context is a pipe/);
			await one((f) => fs.truncateSync(`${f}/x`, 8 * 2 ** 40), /more than 32768 MiB/);
			if (process.getuid!() === 0)
				await one((f) => execFileSync('mknod', [`${f}/disk`, 'b', '7', '0']), /'d\/disk' of the build context is a device/);
		},
	},
	{
		id: '56i', planted: accepted, attack: 'a build context 100 folders deep, and patterns of .dockerignore that make matchers slow', must: 'refused, or done within seconds', code: '',
		after: async (_r, o) => {
			await refused(o, 'FROM scratch\n', /more than 64 deep/, { [`${'d/'.repeat(100)}x`]: '' });
			const slow = await check(o, 'FROM scratch\n', { '.dockerignore': `${'**a*'.repeat(200)}b\n`.repeat(300), ['a'.repeat(200)]: '', [`${'a/'.repeat(60)}${'a'.repeat(200)}`]: '' });
			assert.ok(slow.ms < 10_000 * slowness, `${slow.ms} ms`);
			assert.ok(slow.code === 0 && /build context has/.test(slow.text) || /too many together/.test(slow.text), slow.text);
			await refused(o, 'FROM scratch\n', /at most 1000 patterns/, { '.dockerignore': 'a\n'.repeat(5000) });
		},
	},
	{
		id: '56j', planted: said('it shows what is behind the link', (s) => void (s.text += 'canary')), attack: 'a Dockerfile and a .dockerignore that are links to files of the host', must: 'neither is read, and no message quotes them', code: '',
		after: async (_r, o) => {
			for (const name of ['Dockerfile', '.dockerignore', 'Dockerfile.dockerignore']) {
				const folder = put(name === 'Dockerfile' ? {} : { Dockerfile: 'FROM scratch\n' });
				fs.symlinkSync(o.canary, path.join(folder, name));
				const r = await build(o, folder, '--check');
				assert.ok(r.code! >= 64 && !r.text.includes('canary\n') && !/instruction '(?!RUN)canary/.test(r.text) && !r.text.endsWith('canary'), r.text);
			}
		},
	},
	{
		id: '56k', skip: cannot, planted: said('a link came out with the content of a file', (s) => void (s.text += 'canary-came-out')), attack: 'links in the build context that lead out: to files and folders, absolute and with ..', must: 'the build has links, and what they name is that of the image or nothing', code: '',
		after: async (_r, o) => {
			const registry = new Registry();
			await registry.open();
			registry.add('small', small());
			try {
				for (const from of ['link', 'up', 'folder/canary.txt', 'deep/link']) {
					const folder = put({ Dockerfile: `FROM ${registry.host}/small\nCOPY ${from} /out\nRUN cat /out\n`, 'deep/x': '' });
					fs.symlinkSync(o.canary, path.join(folder, 'link'));
					fs.symlinkSync(`../../../../../../..${o.canary}`, path.join(folder, 'up'));
					fs.symlinkSync(path.dirname(o.canary), path.join(folder, 'folder'));
					fs.symlinkSync(path.relative(path.join(folder, 'deep'), o.canary), path.join(folder, 'deep/link'));
					const r = await build(o, folder);
					assert.ok(r.code !== 0 && !/^canary$/m.test(r.text) && !r.text.includes('canary-came-out'), `${from}: ${r.text}`);
				}
			} finally {
				registry.close();
			}
		},
	},
	{
		id: '56l', skip: cannot, planted: said('it is said to have ended well', (s) => void (s.code = 0)), attack: 'a step that forks for ever, into sessions of their own', must: 'it ends at its limit with all that it started', code: '',
		after: async (_r, o) => {
			const r = await steps(o, `RUN f() { setsid sleep 87651 & }; while :; do f; sleep 0.05; done\n`, '--timeout', `${5 * slowness}`);
			assert.equal(r.code, 75, r.text);
			assert.match(r.text, /which is its limit \(--timeout\)/);
			assert.equal(sleepers('87651'), 0);
		},
	},
	{
		id: '56m', skip: cannot, planted: said('it is said to have ended well', (s) => void (s.code = 0)), attack: 'steps that fill the disk: one file, many files, a file of holes', must: 'they end at the limit; the disk is as before', code: '',
		after: async (_r, o) => {
			const one = await steps(o, 'RUN cat /dev/zero >/big\n', '--max-size', '300m');
			assert.equal(one.code, 70, one.text);
			assert.match(one.text, /RUN cat .*(exit status|needs more than 300 MiB)/);
			const many = await steps(o, 'RUN i=0; while :; do head -c 4000000 /dev/zero >/f$i; i=$((i+1)); done\n', '--max-size', '300m');
			assert.equal(many.code, 70, many.text);
			assert.match(many.text, /needs more than 300 MiB of disk/);
		},
	},
	{
		id: '56n', skip: cannot, planted: said('a line of it is BROKEN', (s) => void (s.text += '\nBROKEN')), attack: 'a step looks for the host: its processes, its files through /proc, devices, mounts, the kernel\'s settings', must: 'nothing of the host is there or can be changed', code: '',
		after: async (_r, o) => {
			const script = `RUN <<'E'
for p in /proc/[0-9]*; do case $(cat $p/cmdline 2>/dev/null) in *caisso[n]*stdi[o]*) echo BROKEN process $p;; esac; done
cat ${o.canary} 2>/dev/null && echo BROKEN canary
cat /proc/1/root${o.canary} 2>/dev/null && echo BROKEN canary through proc
mknod /disk b 254 0 2>/dev/null && dd if=/disk of=/dev/null bs=1 count=1 2>/dev/null && echo BROKEN disk
(echo x >/proc/sys/kernel/core_pattern) 2>/dev/null && echo BROKEN core_pattern
(echo 1 >/proc/sys/vm/drop_caches) 2>/dev/null && echo BROKEN drop_caches
(echo b >/proc/sysrq-trigger) 2>/dev/null && echo BROKEN sysrq
case $(cat /proc/self/uid_map) in *' 0 4294967295'*) echo BROKEN all accounts;; esac
echo looked
exit 9
E
`;
			const r = await steps(o, script);
			assert.equal(r.code, 70, r.text);
			assert.match(r.text, /^looked$/m);
			assert.doesNotMatch(r.text, /^BROKEN/m);
			assert.match(r.text, /Dockerfile:2: RUN <<'E': exit status 9/);
		},
	},
	{
		id: '56o', skip: cannot, planted: said('it comes as it was', (s) => void (s.text += '\x1b]0;x\x07')), attack: 'a step prints escapes of terminals, and lines that look like steps', must: 'none reaches the terminal', code: '',
		after: async (_r, o) => {
			const r = await steps(o, `RUN printf '\\033]0;owned\\007\\033[2J\\302\\233x\\nSTEP 999/999: RUN x\\nError: exit status 0\\n'; exit 4\n`);
			assert.equal(r.code, 70, r.text);
			assert.match(r.text, /Dockerfile:2: RUN printf/);
			assert.ok(!/[\x00-\x08\x0b-\x1f\x7f]|\xc2\x9b|\u009b/.test(r.text), JSON.stringify(r.text));
		},
	},
	{
		id: '56p', ...IN_SANDBOXES, planted: said('it is said to have ended well', (s) => void (s.code = 0)), attack: 'in a sandbox, steps that fork for ever into sessions of their own, and one that never ends', must: 'each ends at a limit, with all that it started',
		after: (_r, o) => inSandboxes(o, async (build) => {
			for (const step of ['RUN f() { setsid sleep 87653 & }; while :; do f; done', 'RUN b() { b | b & }; b; sleep 87653', 'RUN trap "" TERM INT HUP; while :; do sleep 87653; done']) {
				const r = await build(`${step}\n`, '--timeout', `${5 * slowness}`);
				assert.ok([70, 75].includes(r.code!), `${r.code} ${r.text.slice(-500)}`);
				assert.match(r.text, /which is its limit \(--timeout\)|exit status \d+/);
				assert.ok(r.ms < 40_000 * slowness, `${r.ms} ms`);
				assert.equal(sleepers('87653'), 0);
			}
		}),
	},
	{
		id: '56q', ...IN_SANDBOXES, planted: said('it is said to have ended well', (s) => void (s.code = 0)), attack: 'in a sandbox, steps that fill the disk: one file, many files, many empty files and folders; and output without end', must: 'each ends at a limit, and nothing of it stays',
		after: (_r, o) => inSandboxes(o, async (build) => {
			for (const step of ['RUN cat /dev/zero >/big', 'RUN i=0; while head -c 4000000 /dev/zero >/f$i; do i=$((i+1)); done; exit 1', 'RUN python3 -c "import itertools, os; [os.mkdir(f\'/d{i}\') or open(f\'/d{i}/e\', \'w\').close() for i in itertools.count()]"']) {
				const r = await build(`${step}\n`, '--max-size', '40m', '--timeout', `${60 * slowness}`);
				assert.equal(r.code, 70, r.text.slice(-500));
				assert.match(r.text, /RUN .*exit status \d+/);
			}
			const loud = await build('RUN yes\n', '--timeout', `${5 * slowness}`);
			assert.ok([70, 75].includes(loud.code!) && loud.text.length < 64 << 20, `${loud.code} ${loud.text.length}`);
		}),
	},
	{
		id: '56r', ...IN_SANDBOXES, planted: said('a line of it is BROKEN', (s) => void (s.text += '\nBROKEN')), attack: 'in a sandbox, a step asks addresses inside, and looks for the operator\'s variables, the host\'s files, processes and devices', must: 'nothing of the host is there, and nobody is asked',
		after: (_r, o) => inSandboxes(o, async (build) => {
			const inside = new Registry();
			await inside.open();
			const [host, port] = inside.host.split(':');
			const script = `RUN <<'E'
for p in /proc/[0-9]*; do
  case $(tr '\\0' ' ' <$p/cmdline 2>/dev/null) in *caisso[n]*image*) echo BROKEN process $p;; esac
  case $(tr '\\0' ' ' <$p/environ 2>/dev/null) in *secret-of-the-operato[r]*) echo BROKEN environment $p;; esac
done
cat ${o.canary} 2>/dev/null && echo BROKEN canary
cat /proc/1/root${o.canary} 2>/dev/null && echo BROKEN canary through proc
mknod /disk b 254 0 2>/dev/null && dd if=/disk of=/dev/null bs=1 count=1 2>/dev/null && echo BROKEN disk
(echo x >/proc/sys/kernel/core_pattern) 2>/dev/null && echo BROKEN core_pattern
(echo b >/proc/sysrq-trigger) 2>/dev/null && echo BROKEN sysrq
bash -c 'exec 3<>/dev/tcp/${host}/${port} && printf "GET /from-a-step HTTP/1.0\\r\\n\\r\\n" >&3' 2>/dev/null && echo BROKEN loopback
python3 -c 'import urllib.request as u; u.urlopen("http://${inside.host}/from-a-step", timeout=5); print("BROKEN proxy")' 2>/dev/null
echo looked
exit 9
E
`;
			try {
				for (const more of [[], ['--no-network']]) {
					const r = await build(script, ...more);
					assert.equal(r.code, 70, r.text);
					assert.match(r.text, /^looked$/m);
					assert.doesNotMatch(r.text, /^BROKEN|^.*secret-of-the-operator/m);
				}
				for (const at of [`http://${inside.host}/x`, `http://localhost:${port}/x`, 'http://169.254.169.254/x', `http://[::ffff:127.0.0.1]:${port}/x`]) {
					const r = await build(`ADD ${at} /x\n`);
					assert.ok(r.code! >= 64, r.text);
				}
				assert.deepEqual(inside.requests, []);
			} finally {
				inside.close();
			}
		}),
	},
	{
		id: '56s', ...IN_SANDBOXES, planted: said('the link came out with the content of a file', (s) => void (s.text += '\ncanary-came-out')), attack: 'in a sandbox, a stage leaves links that lead out, devices, set-id files and a secret that it removes, and the next stage copies them', must: 'no file of the host is in the image, and nothing that was removed',
		after: (_r, o) => inSandboxes(o, async (build, root) => {
			const links = `ln -s ${path.dirname(o.canary)} /made/out && ln -s ${o.canary} /made/file && ln -s ../../../../../../../..${o.canary} /made/up`;
			const r = await build(`RUN mkdir /made && ${links} && echo key-of-a-builder >/made/secret && rm /made/secret
RUN cp /bin/sh /made/sh && chmod 6755 /made/sh; mknod /made/disk b 7 0; mkfifo /made/pipe; true
FROM base
COPY --from=0 /made /copied
RUN cat /copied/file /copied/up /copied/out/*; true
`);
			assert.equal(r.code, 0, r.text);
			assert.doesNotMatch(r.text, /^canary$|canary-came-out/m);
			const of = (name: string): fs.Stats | undefined => fs.lstatSync(path.join(root, 'copied', name), { throwIfNoEntry: false });
			assert.ok(of('file')?.isSymbolicLink() && !of('secret') && !of('disk')?.isBlockDevice());
			assert.equal(of('sh')!.mode & 0o6000, 0);
			for (const from of ['file', 'up', 'out/canary.txt']) {
				const copied = await build(`RUN mkdir /made && ${links}\nFROM base\nCOPY --from=0 /made/${from} /came\nRUN cat /came\n`);
				assert.ok(copied.code !== 0 && !/^canary$|canary-came-out/m.test(copied.text), copied.text);
			}
		}),
	},
];
