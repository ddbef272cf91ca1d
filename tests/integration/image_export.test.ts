// SPDX-License-Identifier: Apache-2.0
// `caisson image export --format docker|oci`: the documents and their digests, the same bytes each time, and the way back.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { before, describe, it } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { scratch } from '../lib/env.ts';
import { architecture, root, sha256, tar } from '../lib/oci.ts';
import { caisson } from '../lib/process.ts';

describe('container images from images', () => {
	const state = { SANDBOX_STATE_DIR: scratch('images') };
	const folder = scratch('out');
	const made = async (name: string, ...more: string[]): Promise<string> => {
		const file = path.join(folder, name);
		const r = await caisson(['image', 'export', 'x', file, ...more], { env: state });
		assert.equal(r.code, 0, r.stderr.toString());
		assert.deepEqual(fs.readdirSync(folder).filter((n) => n.includes('.part') || n.includes('.layer')), []);
		return file;
	};
	const open = (file: string): ((name: string) => Buffer) => (name) => execFileSync('tar', ['-xOf', file, name], { maxBuffer: 1 << 28 });
	before(async () => {
		const file = path.join(folder, 'first.tar');
		fs.writeFileSync(file, tar([...root, { name: 'opt/caisson/image.json', body: '{"preload":["json","os.path"]}' }, { name: 'b', body: 'bb' }, { name: 'a', type: 'hard', target: 'b' }, { name: 'c', type: 'link', target: '/b' }]));
		const r = await caisson(['image', 'import', 'x', file], { env: state });
		assert.equal(r.code, 0, r.stderr.toString());
	});

	it('have digests that are right, one layer, user 1000 and the name that was asked for', async () => {
		const get = open(await made('docker.tar', '--format', 'docker', '--tag', 'llm-sandbox:latest'));
		const json = (name: string): any => JSON.parse(get(name).toString());
		const blob = (b: { digest: string; size: number }): Buffer => {
			const body = get(`blobs/sha256/${b.digest.slice(7)}`);
			assert.equal(sha256(body), b.digest);
			assert.equal(body.length, b.size);
			return body;
		};
		const entry = json('index.json').manifests[0];
		const manifest = JSON.parse(blob(entry).toString());
		const config = JSON.parse(blob(manifest.config).toString());
		const packed = blob(manifest.layers[0]);
		const layer = gunzipSync(packed);
		assert.equal(packed.readUInt32LE(packed.length - 4), layer.length, 'nothing follows the compressed stream');
		assert.deepEqual(config.rootfs.diff_ids, [sha256(layer)]);
		assert.equal(config.architecture, architecture);
		assert.equal(config.config.User, '1000:1000');
		assert.equal(config.config.WorkingDir, '/mnt/data');
		assert.deepEqual(config.config.Cmd, ['python3']);
		assert.deepEqual(config.config.Env.slice(1), ['LANG=C.UTF-8', 'CAISSON_PRELOAD=json os.path']);
		const docker = json('manifest.json')[0];
		assert.deepEqual(docker.RepoTags, ['llm-sandbox:latest']);
		assert.equal(docker.Config, `blobs/sha256/${manifest.config.digest.slice(7)}`);
		assert.deepEqual(docker.Layers, [`blobs/sha256/${manifest.layers[0].digest.slice(7)}`]);
		const list = execFileSync('tar', ['--numeric-owner', '-tv'], { input: layer }).toString();
		assert.match(list, /^drwxrwxrwt 0\/0 .* tmp\/$/m, 'what a daemon mounts there has this mode');
		assert.match(list, /^drwxr-xr-x 1000\/1000 .* mnt\/data\/$/m);
		assert.match(list, /^hrw-r--r-- 0\/0 .* b link to a$/m);
		assert.match(list, /2001-\d\d-\d\d .* a$/m); // files keep their time: compiled Python depends on it
		const names = execFileSync('tar', ['-t'], { input: layer }).toString().trim().split('\n').map((n) => n.replace(/\/$/, ''));
		assert.ok(names.indexOf('a') < names.indexOf('app') && names.indexOf('b') < names.indexOf('c'));
	});
	it('are the same bytes each time', async () => {
		for (const format of ['docker', 'oci'])
			assert.equal(sha256(fs.readFileSync(await made('1.tar', '--format', format))), sha256(fs.readFileSync(await made('2.tar', '--format', format))));
	});
	it('are for the machine that the image was built for', async () => {
		const manifest = path.join(state.SANDBOX_STATE_DIR, 'images/x/manifest.json');
		const before = fs.readFileSync(manifest, 'utf8');
		const other = architecture === 'amd64' ? 'arm64' : 'amd64';
		assert.equal(JSON.parse(before).architecture, architecture);
		fs.writeFileSync(manifest, JSON.stringify({ ...JSON.parse(before), architecture: other }));
		const get = open(await made('other.tar', '--format', 'oci'));
		fs.writeFileSync(manifest, before);
		const entry = JSON.parse(get('index.json').toString()).manifests[0];
		const config = JSON.parse(get(`blobs/sha256/${entry.digest.slice(7)}`).toString()).config;
		assert.equal(entry.platform.architecture, other);
		assert.equal(JSON.parse(get(`blobs/sha256/${config.digest.slice(7)}`).toString()).architecture, other);
		const wrong = await caisson(['image', 'build', 'base', '--architecture', 's390x'], { env: state });
		assert.match(wrong.stderr.toString(), /--architecture is amd64 or arm64/);
	});
	it('come back by import', async () => {
		for (const format of ['docker', 'oci']) {
			const file = await made(`${format}-back.tar`, '--format', format);
			const r = await caisson(['image', 'import', 'y', file, '--tag', 'x:latest'], { env: state });
			assert.equal(r.code, 0, r.stderr.toString());
			const at = path.join(state.SANDBOX_STATE_DIR, 'images/y/root');
			assert.equal(fs.readFileSync(path.join(at, 'a'), 'utf8'), 'bb');
			assert.equal(fs.statSync(path.join(at, 'a')).nlink, 2);
			assert.equal(fs.readlinkSync(path.join(at, 'c')), '/b');
			assert.equal(execFileSync('tar', ['-tf', file]).toString().includes('manifest.json'), format === 'docker');
		}
	});
	it('have several layers if they are large, each for itself, and come back as they were (slow)', async () => {
		const big = 70 << 20, file = path.join(folder, 'big.tar'), body = Buffer.alloc(big, 'x');
		fs.writeFileSync(file, tar([...root, { name: 'mnt/', type: 'dir' }, { name: 'mnt/data/', type: 'dir' }, { name: 'mnt/data/1', body }, { name: 'mnt/data/2', body }, { name: 'mnt/data/3', type: 'hard', target: 'mnt/data/1' },
			{ name: 'mnt/data/4', body: 'four' }, { name: 'usr/5', body: Buffer.concat([body, body]) }]));
		const import_ = async (name: string, from: string): Promise<string> => {
			const r = await caisson(['image', 'import', name, from], { env: state });
			assert.equal(r.code, 0, r.stderr.toString());
			return path.join(state.SANDBOX_STATE_DIR, 'images', name, 'root');
		};
		const was = await import_('big', file);
		fs.rmSync(file);
		const out = async (name: string): Promise<string> => {
			const to = path.join(folder, name);
			const r = await caisson(['image', 'export', 'big', to, '--format', 'docker'], { env: state });
			assert.equal(r.code, 0, r.stderr.toString());
			return to;
		};
		const once = await out('once.tar');
		assert.ok(fs.readFileSync(once).equals(fs.readFileSync(await out('twice.tar'))));
		const get = open(once), manifest = JSON.parse(get(`blobs/sha256/${JSON.parse(get('index.json').toString()).manifests[0].digest.slice(7)}`).toString());
		const config = JSON.parse(get(`blobs/sha256/${manifest.config.digest.slice(7)}`).toString());
		const layers = manifest.layers.map((l: { digest: string }) => gunzipSync(get(`blobs/sha256/${l.digest.slice(7)}`))) as Buffer[];
		assert.deepEqual(config.rootfs.diff_ids, layers.map(sha256));
		assert.equal(config.history.length, layers.length);
		assert.deepEqual(JSON.parse(get('manifest.json').toString())[0].Layers, manifest.layers.map((l: { digest: string }) => `blobs/sha256/${l.digest.slice(7)}`));
		const listed = layers.map((l) => execFileSync('tar', ['--numeric-owner', '-tv'], { input: l, encoding: 'utf8', maxBuffer: 1 << 28 }).trim().split('\n'));
		const names = listed.map((l) => l.map((x) => x.replace(/ (link to|->) .*/, '').split(' ').at(-1)!));
		assert.deepEqual(names.map((n) => n.filter((x) => /\d$/.test(x) && !/python/.test(x))), [['mnt/data/1'], ['mnt/data/2'], ['mnt/data/3', 'mnt/data/4'], ['usr/5'], []]);
		// An engine lays layers over each other, so each has the folders of its files, and no link leads to another one.
		for (const i of [0, 1, 2])
			assert.ok(listed[i]!.some((l) => /^drwxr-xr-x 1000\/1000 .* mnt\/data\/$/.test(l)) && names[i]!.includes('mnt/'), `layer ${i}`);
		for (const [i, l] of listed.entries())
			for (const link of l.filter((x) => x.startsWith('h')))
				assert.ok(names[i]!.includes(/ link to (.*)$/.exec(link)![1]!), link);
		const back = await import_('again', once);
		for (const n of ['mnt/data/1', 'mnt/data/2', 'mnt/data/3', 'mnt/data/4', 'usr/5'])
			assert.ok(fs.readFileSync(path.join(back, n)).equals(fs.readFileSync(path.join(was, n))), n);
		for (const name of ['big', 'again'])
			assert.equal((await caisson(['image', 'rm', name], { env: state })).code, 0);
	});
	it('start as a file says', async () => {
		const file = path.join(folder, 'start.json');
		const start = { Entrypoint: ['/bin/x', '-v'], Cmd: ['serve'], Env: ['A=b=c', 'D='], User: '0', WorkingDir: '/', StopSignal: 'SIGINT', ExposedPorts: { '80/tcp': {} }, Volumes: { '/v': {} },
			Labels: { 'org.x': 'y', 'org.opencontainers.image.title': 'X', 'org.opencontainers.image': 'no' }, Healthcheck: { Test: ['CMD', 'x'], Interval: 1_000_000_000, Retries: 2 } };
		fs.writeFileSync(file, JSON.stringify(start));
		const get = open(await made('start.tar', '--format', 'docker', '--start', file));
		const config = JSON.parse(get(JSON.parse(get('manifest.json').toString())[0].Config).toString());
		assert.deepEqual(config.config, start);
		// Labels that OCI defines are annotations as well; the tag stays that of the archive.
		const entry = JSON.parse(get('index.json').toString()).manifests[0];
		const manifest = JSON.parse(get(`blobs/sha256/${entry.digest.slice(7)}`).toString());
		assert.deepEqual(manifest.annotations, { 'org.opencontainers.image.title': 'X' });
		assert.deepEqual(entry.annotations, { 'org.opencontainers.image.title': 'X', 'org.opencontainers.image.ref.name': 'x:latest' });
	});
	for (const [text, words] of [
		['[]', /no JSON object/], ['{', /line 1/], ['{"Cmd": "x"}', /Cmd is a list of texts/], ['{"Cmd": []}', /Cmd is a list/], ['{"Env": ["=x"]}', /Env is a list of NAME=VALUE/],
		['{"Env": ["x"]}', /Env/], ['{"Privileged": true}', /'Privileged' is not known/], ['{"ExposedPorts": {"0/tcp": {}}}', /ExposedPorts/], ['{"ExposedPorts": {"80": {}}}', /ExposedPorts/],
		['{"Volumes": {"v": {}}}', /Volumes/], ['{"WorkingDir": "x"}', /WorkingDir is an absolute path/], ['{"Labels": {"a": 1}}', /Labels/], ['{"Healthcheck": {"Retries": 1}}', /Healthcheck/],
		['{"Healthcheck": {"Test": ["CMD"], "Retries": -1}}', /Healthcheck/], ['{"User": "0", "User": "1"}', /duplicate/], [`{"User": "${'x'.repeat(1 << 16)}"}`, /cannot read/],
	] as [string, RegExp][])
		it(`refuse to start as ${text.slice(0, 40)}`, async () => {
			const file = path.join(folder, 'wrong.json');
			fs.writeFileSync(file, text);
			const r = await caisson(['image', 'export', 'x', path.join(folder, 'wrong.tar'), '--format', 'docker', '--start', file], { env: state });
			assert.match(r.stderr.toString(), words);
			assert.notEqual(r.code, 0);
			assert.ok(!fs.readdirSync(folder).some((n) => n.startsWith('wrong.tar')));
		});
	for (const [what, args, words] of [
		['a way to start without a container image', ['x.tar', '--start', 'none.json'], /--start needs --format docker or oci/],
		['a way to start that is not there', ['x.tar', '--format', 'oci', '--start', '/none.json'], /cannot read \/none\.json/],
		['an unknown format', ['x.tar', '--format', 'zip'], /--format is tar, docker or oci/],
		['a compressed archive', ['x.tar.gz', '--format', 'oci'], /must end in \.tar/],
		['a tag without a name', ['x.tar', '--format', 'docker', '--tag', ':1'], /--tag is NAME:TAG/],
		['a tag with a line break', ['x.tar', '--format', 'docker', '--tag', 'a:1\n'], /--tag is NAME:TAG/],
	] as [string, string[], RegExp][])
		it(`refuses ${what}`, async () => {
			const r = await caisson(['image', 'export', 'x', path.join(folder, args[0]!), ...args.slice(1)], { env: state });
			assert.match(r.stderr.toString(), words);
			assert.ok(!fs.existsSync(path.join(folder, args[0]!)));
		});

	it('have a layer of zstd where that is asked for, the same bytes each time, and come back', async () => {
		const zstd = ['--format', 'oci', '--compression', 'zstd'];
		const file = await made('zstd.tar', ...zstd);
		assert.ok(fs.readFileSync(file).equals(fs.readFileSync(await made('again.tar', ...zstd))));
		const get = open(file);
		const blob = (digest: string): Buffer => get(`blobs/sha256/${digest.slice(7)}`);
		const manifest = JSON.parse(blob(JSON.parse(get('index.json').toString()).manifests[0].digest).toString());
		assert.equal(manifest.layers[0].mediaType, 'application/vnd.oci.image.layer.v1.tar+zstd');
		const layer = execFileSync('zstd', ['-dc'], { input: blob(manifest.layers[0].digest) });
		assert.deepEqual(JSON.parse(blob(manifest.config.digest).toString()).rootfs.diff_ids, [sha256(layer)]);
		const plain = open(await made('plain.tar', '--format', 'oci', '--compression', 'gzip'));
		const other = JSON.parse(plain(`blobs/sha256/${JSON.parse(plain('index.json').toString()).manifests[0].digest.slice(7)}`).toString());
		assert.equal(other.layers[0].mediaType, 'application/vnd.oci.image.layer.v1.tar+gzip');
		assert.equal(other.config.digest, manifest.config.digest, 'it is the same layer otherwise');
		const back = await caisson(['image', 'import', 'back', file], { env: state });
		assert.equal(back.code, 0, back.stderr.toString());
		for (const wrong of [['--format', 'docker', '--compression', 'zstd'], ['--compression', 'zstd'], ['--format', 'oci', '--compression', 'xz']]) {
			const r = await caisson(['image', 'export', 'x', path.join(folder, 'wrong.tar'), ...wrong], { env: state });
			assert.match(r.stderr.toString(), /--compression/);
			assert.equal(r.code, 64);
		}
	});
});
