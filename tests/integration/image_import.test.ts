// SPDX-License-Identifier: Apache-2.0
// `caisson image import` from Docker archives, OCI layouts, folders and registries: what layers mean, what an image must have, and what
// hostile archives, documents and registries cannot do. An attack has a twin that shows what would happen without the check.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { imagesDir, mode, scratch } from '../lib/env.ts';
import { dockerArchive, image, layout, program, Registry, root, sha256, tar, tarOf, writeFiles, type Entry, type Image } from '../lib/oci.ts';
import { caisson, type Exit } from '../lib/process.ts';
import { using, type Json } from '../lib/session.ts';

const state = { SANDBOX_STATE_DIR: scratch('images') };
const store = path.join(state.SANDBOX_STATE_DIR, 'images');

function write(body: Buffer, name = 'image.tar'): string {
	const file = path.join(scratch('archive'), name);
	fs.writeFileSync(file, body);
	return file;
}

async function take(source: string, env: Record<string, string> = {}, ...more: string[]): Promise<Exit & { said: string; at: (p: string) => string; has: (p: string) => boolean }> {
	const r = await caisson(['image', 'import', 'x', source, ...more], { env: { ...state, ...env } });
	const at = (p: string): string => path.join(store, 'x/root', p);
	return { ...r, said: r.stderr.toString(), at, has: (p) => fs.lstatSync(at(p), { throwIfNoEntry: false }) !== undefined };
}

/** Nothing of an import that failed may stay. */
function leftovers(): string[] {
	return fs.existsSync(store) ? fs.readdirSync(store).filter((n) => n.startsWith('.') && n !== '.lock') : [];
}

async function refused(source: string, words: RegExp, env: Record<string, string> = {}, ...more: string[]): Promise<void> {
	await caisson(['image', 'rm', 'x'], { env: state });
	const r = await take(source, env, ...more);
	assert.match(r.said, words);
	assert.ok(r.code! >= 64 && r.code! <= 78, `${r.code} ${r.said}`);
	assert.ok(!fs.existsSync(path.join(store, 'x')));
	assert.deepEqual(leftovers(), []);
}

async function manifest(): Promise<Record<string, any>> {
	return JSON.parse((await caisson(['image', 'list', 'x', '--json'], { env: state })).stdout.toString());
}

const layers = [
	tar([...root, { name: 'opt/', type: 'dir' }, { name: 'opt/gone', body: 'a' }, { name: 'opt/dir/', type: 'dir' }, { name: 'opt/dir/old', body: 'b' },
		{ name: 'opt/was-dir/f', body: 'c' }, { name: 'opt/was-file', body: 'd' }, { name: 'opt/first', body: 'e' }, { name: 'opt/second', type: 'hard', target: 'opt/first' },
		{ name: 'bin', type: 'link', target: 'usr/bin' }, { name: 'opt/to-link', type: 'hard', target: 'bin' }]),
	tar([{ name: 'opt/.wh.gone' }, { name: 'opt/dir/new', body: 'f' }, { name: 'opt/dir/.wh..wh..opq' }, { name: 'opt/was-dir', body: 'g' },
		{ name: 'opt/was-file/h', body: 'h' }, { name: 'bin/tool', body: 'i', mode: 0o4755 }, { name: 'opt/third', type: 'hard', target: 'opt/first' },
		{ name: '.wh..wh.plnk', type: 'dir' }, { name: 'dev/sda', type: 'block' }, { name: 'opt/caps', body: 'j', pax: { 'SCHILY.xattr.security.capability': 'x' } }]),
];

describe('layers', () => {
	for (const [what, source] of [
		['a Docker archive', () => write(tarOf(dockerArchive(image(layers))))],
		['a Docker archive with compressed layers', () => write(tarOf(dockerArchive({ ...image(layers), layers: layers.map((l) => gzipSync(l)) })))],
		['a compressed Docker archive', () => write(gzipSync(tarOf(dockerArchive(image(layers)))))],
		['an OCI layout in a tar', () => write(tarOf(layout(image(layers))))],
		['a folder with an OCI layout', () => writeFiles(scratch('layout'), layout(image(layers, { plain: true })))],
		['an unpacked Docker archive', () => writeFiles(scratch('saved'), dockerArchive(image(layers)))],
	] as [string, () => string][]) {
		it(`of ${what} give the tree that they mean`, async () => {
			const r = await take(source());
			assert.equal(r.code, 0, r.said);
			assert.ok(!r.has('opt/gone') && !r.has('opt/dir/old') && !r.has('dev/sda'));
			assert.ok(!r.has('opt/.wh.gone') && !r.has('.wh..wh.plnk') && !r.has('opt/dir/.wh..wh..opq'));
			assert.equal(fs.readFileSync(r.at('opt/dir/new'), 'utf8'), 'f'); // came before the opaque mark of its own layer
			assert.equal(fs.readFileSync(r.at('opt/was-dir'), 'utf8'), 'g');
			assert.equal(fs.readFileSync(r.at('opt/was-file/h'), 'utf8'), 'h');
			assert.equal(fs.readFileSync(r.at('usr/bin/tool'), 'utf8'), 'i'); // through the link of the lower layer
			assert.equal(fs.statSync(r.at('usr/bin/tool')).mode & 0o7777, 0o755);
			assert.equal(fs.statSync(r.at('opt/first')).nlink, 3);
			assert.equal(fs.readlinkSync(r.at('opt/to-link')), 'usr/bin');
			assert.equal(fs.statSync(r.at('usr/bin/tool')).mtimeMs, 0o7346545000 * 1000);
			const m = await manifest();
			assert.match(m.digest, /^sha256:[0-9a-f]{64}$/);
			assert.equal(m.setid_dropped, 1);
			assert.equal(m.devices_dropped, 1);
			assert.deepEqual(leftovers(), []);
		});
	}
	it('have no extended attributes afterwards', async () => {
		const r = await take(write(tarOf(dockerArchive(image(layers)))));
		assert.equal(r.code, 0, r.said);
		const found = execFileSync('python3', ['-c', 'import os, sys; print(os.listxattr(sys.argv[1]))', r.at('opt/caps')]).toString();
		assert.equal(found.trim(), '[]');
	});
	it('the source and the digest are in the list', async () => {
		const i = image(layers);
		await take(write(tarOf(layout(i))));
		const list = (await caisson(['image', 'list'], { env: state })).stdout.toString();
		assert.match(list, new RegExp(`^x .* oci +${sha256(i.manifest).slice(7, 19)} `, 'm'), list);
		await take(write(tarOf(dockerArchive(i))));
		assert.equal((await manifest()).digest, sha256(i.config)); // what Docker calls the id
		assert.equal((await manifest()).source, 'docker-archive');
	});
	it('go under no name that an image cannot be found by', async () => {
		for (const name of ['A B', '.x', '../x', 'x'.repeat(64)]) {
			const r = await caisson(['image', 'import', name, write(tar(root))], { env: state });
			assert.match(r.stderr.toString(), /is no name for an image/);
			assert.ok(!fs.existsSync(path.join(store, name)));
		}
		assert.deepEqual(leftovers(), []);
	});
	it('--tag chooses among the images of an archive', async () => {
		const one = dockerArchive(image([tar([...root, { name: 'one' }])]), ['a:1']);
		const two = dockerArchive(image([tar([...root, { name: 'two' }])]), ['a:2']);
		const both = { ...one, ...two, 'manifest.json': Buffer.from(JSON.stringify([one, two].flatMap((f) => JSON.parse(f['manifest.json']!.toString())))) };
		const r = await take(write(tarOf(both)), {}, '--tag', 'a:2');
		assert.equal(r.code, 0, r.said);
		assert.ok(r.has('two') && !r.has('one'));
		await refused(write(tarOf(both)), /several images; choose one with --tag/);
		await refused(write(tarOf(both)), /no image with that tag/, {}, '--tag', 'a:3');
	});
	it('of an index the manifest for this machine is taken', async () => {
		const i = image(layers);
		const other = image([tar([])], { platform: 's390x' });
		const entry = (x: Image, architecture: string): object =>
			({ digest: sha256(x.manifest), size: x.manifest.length, platform: { os: 'linux', architecture } });
		const mine = process.arch === 'x64' ? 'amd64' : 'arm64';
		i.blobs = new Map([...i.blobs, ...other.blobs]);
		const r = await take(write(tarOf(layout(i, { manifests: [entry(other, 's390x'), entry(i, mine)] }))));
		assert.equal(r.code, 0, r.said);
		await refused(write(tarOf(layout(i, { manifests: [entry(other, 's390x')] }))), /not made for linux/);
	});
});

describe('the Python of an image', () => {
	const without = root.filter((e) => !e.name.includes('python'));
	const python = (name: string, more: Partial<Entry> = {}): Entry => ({ name, body: program(), mode: 0o755, ...more });
	it('is the first on its PATH', async () => {
		const r = await take(write(tarOf(dockerArchive(image([tar([...root, python('opt/tool/bin/python3.11'),
			{ name: 'opt/tool/bin/python3', type: 'link', target: 'python3.11' }])], { env: ['PATH=/opt/tool/bin:/usr/bin'] })))));
		assert.equal(r.code, 0, r.said);
		assert.equal(fs.readlinkSync(r.at('usr/bin/python3')), '/opt/tool/bin/python3.11');
		assert.ok(r.has('opt/tool/lib/python3.11/site-packages/caisson-bytecode.pth'));
		assert.equal((await manifest()).python_version, '3.11');
	});
	it('in /usr/local comes before that of /usr', async () => {
		const r = await take(write(tar([...root, python('usr/local/bin/python3.13'), { name: 'usr/local/bin/python3', type: 'link', target: '/usr/local/bin/python3.13' }])));
		assert.equal(r.code, 0, r.said);
		assert.equal((await manifest()).python_version, '3.13');
	});
	for (const [what, entries, words] of [
		['one for another machine', [...without, python('usr/bin/python3', { body: program(22) })], /made for another kind of machine/],
		['one that is a script', [...without, python('usr/bin/python3', { body: '#!/bin/sh\n' })], /no program of 64 bits/],
	] as [string, Entry[], RegExp][])
		it(`${what}: refused, and said`, () => refused(write(tar(entries)), words));

	for (const [what, entries, words] of [
		['none', without, /the image has no python3: its sandboxes run commands and programs, and refuse Python code, which needs 3\.9/],
		['an old one', [...without, python('usr/bin/python3.8'), { name: 'usr/bin/python3', type: 'link', target: 'python3.8' }], /the image has Python 3\.8: its sandboxes/],
		['a link out of the image', [...without, { name: 'usr/bin/python3', type: 'link', target: '../../../../../../../../usr/bin/python3' }], /the image has no python3:/],
	] as [string, Entry[], RegExp][])
		it(`${what}: imported for commands alone, and said`, async () => {
			const r = await take(write(tar(entries)));
			assert.equal(r.code, 0, r.said);
			assert.match(r.said, words);
			assert.match(r.stdout.toString(), /is ready: .*, no Python, /);
			assert.equal((await manifest()).python_version, '');
			assert.ok(r.has('opt/caisson/no-python'));
			const again = await take(write(tar([...root, { name: 'opt/', type: 'dir' }, { name: 'opt/caisson/', type: 'dir' }, { name: 'opt/caisson/no-python' }])));
			assert.ok(!again.has('opt/caisson/no-python'), 'with a Python the mark goes');
			assert.equal((await manifest()).python_version, '3.12');
		});

	it('(slow) of another system, outside of /usr/bin, runs warm', async (t) => {
		// This machine's own Python as one of a foreign image, in /usr/local.
		const folder = scratch('foreign');
		const script = `
import os, shutil, subprocess, sys, sysconfig
top, name = sys.argv[1], 'python3.%d' % sys.version_info[1]
real = os.path.realpath(sys.executable)
def put(src, dst):
    os.makedirs(os.path.dirname(top + dst), exist_ok=True)
    shutil.copy(os.path.realpath(src), top + dst)
put(real, '/usr/local/bin/' + name)
os.symlink(name, top + '/usr/local/bin/python3')
lib = sysconfig.get_path('stdlib')
shutil.copytree(lib, top + '/usr/local/lib/' + name, ignore=shutil.ignore_patterns('test', 'tests', 'idlelib', 'tkinter', 'ensurepip', 'lib2to3', 'config-*', '*-packages'))
os.makedirs(top + '/usr/local/lib/%s/site-packages' % name)
# Runs at each start: a class among the modules, as typing.io was until Python 3.12.
with open(top + '/usr/local/lib/%s/sitecustomize.py' % name, 'w') as f:
    f.write("import sys; sys.modules['early'] = type('early', (), {})\\n")
seen, todo = set(), [real, '/bin/sh'] + [os.path.join(d, f) for d, _, fs in os.walk(lib + '/lib-dynload') for f in fs]
for f in todo:
    for line in subprocess.run(['ldd', f], capture_output=True, text=True).stdout.splitlines():
        part = [p for p in line.split() if p.startswith('/')]
        if part and part[0] not in seen:
            seen.add(part[0])
            put(part[0], part[0])
put('/bin/sh', '/bin/sh')
os.makedirs(top + '/etc')
`;
		execFileSync('/usr/bin/python3', ['-I', '-c', script, folder], { stdio: ['ignore', 2, 2] });
		const r = await caisson(['image', 'import', 'foreign', folder], { env: state });
		assert.equal(r.code, 0, r.stderr.toString());
		const run = await caisson(['run', '--image', 'foreign', '-c', 'import json, sys; print(json.dumps([sys.prefix, sys.executable]))'], { env: state });
		assert.deepEqual(JSON.parse(run.stdout.toString()), ['/usr/local', '/usr/local/bin/python3'], run.stderr.toString());
		await using('stdio', { profile: 'full', env: { ...state, SANDBOX_IMAGE: 'foreign' } }, async (session) => {
			const cell = async (code: string): Promise<Json> => session.call('sandbox_run_python', { code, session_id: 'warm', stateful: true });
			assert.equal((await cell('x = 1')).state, 'kept');
			assert.equal((await cell('x')).result, '1');
		});
		const listed = await caisson(['image', 'list', 'foreign', '--json'], { env: state });
		assert.equal(JSON.parse(listed.stdout.toString()).source, 'folder');
		const gone = await caisson(['image', 'rm', 'foreign'], { env: state });
		assert.equal(gone.code, 0, gone.stderr.toString());
		t.diagnostic(`Python of this machine: ${execFileSync('/usr/bin/python3', ['-V']).toString().trim()}`);
	});
	// Children import a module of the workspace, which is edited within one second without another size, and one of installed packages.
	const edited = `
import json, os, subprocess, sys
def child(name):
    return subprocess.run([sys.executable, '-c', 'import sys; sys.path.append("lib/site-packages"); import %s; print(%s.v)' % (name, name)], capture_output=True, text=True).stdout.strip()
os.makedirs('lib/site-packages')
open('lib/site-packages/installed.py', 'w').write('v = 3')
seen = []
for v in 1, 2:
    open('mine.py', 'w').write('v = %d' % v)
    os.utime('mine.py', (10**9, 10**9))
    seen.append(child('mine'))
child('installed')
print(json.dumps({'seen': seen, 'kept': bool(os.listdir('lib/site-packages/__pycache__'))}))
`;
	it('(slow) an image of Docker is used by SANDBOX_IMAGE', async () => {
		const base = path.join(fs.realpathSync(path.join(imagesDir, 'base')), 'root');
		const lower = path.join(scratch('lower'), 'layer.tar');
		execFileSync('tar', ['-C', base, '-cf', lower, '.']);
		// Images that are built here have a sitecustomize.py of ours, others do not.
		const etc = fs.readdirSync(path.join(base, 'etc')).find((n) => /^python3\.\d+$/.test(n))!;
		const upper = tar([{ name: 'usr/lib/python3/dist-packages/mine.py', body: 'who = "mine"\n' }, { name: `etc/${etc}/.wh.sitecustomize.py` }]);
		const r = await caisson(['image', 'import', 'mine', write(tarOf(dockerArchive(image([fs.readFileSync(lower), upper]))))], { env: state });
		assert.equal(r.code, 0, r.stderr.toString());
		const run = await caisson(['run', '-c', 'import mine; print(mine.who)'], { env: { ...state, SANDBOX_IMAGE: 'mine' } });
		assert.equal(run.stdout.toString(), 'mine\n', run.stderr.toString());
		const child = await caisson(['run', '-c', edited], { env: { ...state, SANDBOX_IMAGE: 'mine' } });
		assert.deepEqual(JSON.parse(child.stdout.toString()), { seen: ['1', '2'], kept: true }, child.stderr.toString());
	});
});

describe('hostile archives', () => {
	const outside = scratch('outside');
	const target = path.join(outside, 'victim');
	const up = '../'.repeat(20);
	// [what, entries of the second layer]. GNU tar with --absolute-names is the twin that checks nothing.
	const escapes: [string, Entry[]][] = [
		['a name with ..', [{ name: `${up}${target.slice(1)}`, body: 'x' }]],
		['an absolute name', [{ name: target, body: 'x' }]],
		['a file through a link that it brings', [{ name: 'l', type: 'link', target: outside }, { name: 'l/victim', body: 'x' }]],
		['a file through a relative link', [{ name: 'l', type: 'link', target: `${up}${outside.slice(1)}` }, { name: 'l/victim', body: 'x' }]],
		['a file over a link', [{ name: 'l', type: 'link', target }, { name: 'l', body: 'x' }]],
		['a hard link to a file of the host', [{ name: 'l', type: 'link', target: outside }, { name: 'h', type: 'hard', target: 'l/secret' }]],
		['a hard link with an absolute target', [{ name: 'h', type: 'hard', target: path.join(outside, 'secret') }]],
		['a whiteout through a link', [{ name: 'l', type: 'link', target: outside }, { name: 'l/.wh.secret' }]],
		['an opaque mark through a link', [{ name: 'l', type: 'link', target: outside }, { name: 'l/.wh..wh..opq' }]],
		['a whiteout of ..', [{ name: 'l/.wh...' }]],
		['a whiteout of nothing', [{ name: 'l/.wh.' }]],
	];
	for (const [what, entries] of escapes) {
		it(`${what} changes nothing outside`, async () => {
			fs.writeFileSync(path.join(outside, 'secret'), 'secret');
			fs.rmSync(target, { force: true });
			const r = await take(write(tarOf(dockerArchive(image([tar(root), tar(entries)])))));
			assert.deepEqual(fs.readdirSync(outside), ['secret'], r.said);
			assert.equal(fs.readFileSync(path.join(outside, 'secret'), 'utf8'), 'secret');
			if (r.code === 0 && r.has('h'))
				assert.notEqual(fs.readFileSync(r.at('h'), 'utf8'), 'secret');
			assert.deepEqual(leftovers(), []);
			// The same as the only tar: a plain root file system is taken more strictly, and never reaches outside either.
			await take(write(tar([...root, ...entries])));
			assert.deepEqual(fs.readdirSync(outside), ['secret']);
		});
	}
	it('twin: a program that checks nothing is led outside by these names', () => {
		for (const [what, entries] of escapes.slice(0, 4)) {
			fs.rmSync(target, { force: true });
			const folder = scratch('naive');
			fs.writeFileSync(path.join(folder, 'a.tar'), tar(entries));
			execFileSync('python3', ['-c', `
import os, sys, tarfile
for m in tarfile.open(sys.argv[1]):
    name = os.path.join(sys.argv[2], m.name)
    if m.issym():
        os.symlink(m.linkname, name)
    else:
        open(name, 'w').close()`, path.join(folder, 'a.tar'), folder]);
			assert.ok(fs.existsSync(target), what);
		}
		fs.rmSync(target);
	});
	it('the layer of a Docker archive cannot be a file of the host', async () => {
		const files = dockerArchive(image([tar(root)]));
		const name = Object.keys(files).find((n) => n.endsWith('layer.tar'))!;
		const lure = write(tar([...root, { name: 'stolen' }]), 'lure.tar');
		const entries: Entry[] = Object.entries(files).map(([n, body]) => n === name ? { name: n, type: 'link', target: lure } : { name: n, body });
		await refused(write(tar(entries)), /lacks/);
		const folder = writeFiles(scratch('saved'), files);
		fs.rmSync(path.join(folder, name));
		fs.symlinkSync(lure, path.join(folder, name));
		await refused(folder, /lacks/);
	});
	const zeros = Buffer.alloc(64 << 20);
	it('a registry that refuses the connection has nothing to do with apt', () => refused('docker://127.0.0.1:9/a/b:1', /^(?![^]*apt)[^]*no answer[^]*Check the address, the network and the proxy of this machine/));
	it('(slow) a bomb is refused, and half of its kind is not', async () => {
		// The same 64 MiB of zeros again and again: 1,000 times smaller when compressed.
		const bomb = (n: number): Buffer => tar([...root, ...Array.from({ length: n }, (_, i) => ({ name: `zeros-${i}`, body: zeros }))]);
		await refused(write(gzipSync(bomb(5))), /grows (too much|more than)|File too large/);
		const i = image([bomb(5)]);
		await refused(write(tarOf(layout(i))), /grows (too much|more than)/);
		const r = await take(write(gzipSync(bomb(2))));
		assert.equal(r.code, 0, r.said);
	});
	it('a file with a hole of 100 TB is refused', () => refused(write(tar([...root,
		{ name: 'hole', body: '0\n1\n0\n', pax: { 'GNU.sparse.major': '1', 'GNU.sparse.minor': '0', 'GNU.sparse.name': 'hole', 'GNU.sparse.realsize': '100000000000000' } }])),
	/cannot unpack|cannot read/));
	it('an archive that ends early is refused', () => refused(write(tar([...root, { name: 'a', body: Buffer.alloc(100_000) }]).subarray(0, 50_000)), /cannot (unpack|read)/));
	it('folders beyond 64 levels are refused', () => refused(write(tar([...root, { name: 'd/'.repeat(49) + 'f', body: 'x' }, { name: 'e', pax: { path: 'd/'.repeat(65) + 'f' } }])), /forbidden name/));
	// Each link begins where the one before ends, so that no name is long.
	const chain = (links: number, folders: number): Entry[] => Array.from({ length: links }, (_, n): Entry[] => [
		{ name: `${n ? `k${n - 1}/` : ''}${'d/'.repeat(folders)}`, type: 'dir' },
		{ name: `k${n}`, type: 'link', target: `/${n ? `k${n - 1}/` : ''}${'d/'.repeat(folders).slice(0, -1)}` }]).flat();
	it('folders beyond 64 levels through links are refused, and go again', async () => {
		await refused(write(tarOf(dockerArchive(image([tar([...root, ...chain(20, 30)])])))), /folders are too deep/);
		await refused(write(tarOf(dockerArchive(image([tar([...root, ...chain(20, 30)]), tar([{ name: '.wh..wh..opq' }])])))), /folders are too deep/);
	});
	it('twin: 60 levels through links are taken', async () => {
		const r = await take(write(tarOf(dockerArchive(image([tar([...root, ...chain(2, 30)])])))));
		assert.equal(r.code, 0, r.said);
		assert.ok(r.has('d/'.repeat(60)));
	});
	it('whiteouts of one folder, again and again and by many names, take no longer than their number (timing)', async () => {
		const n = 15_000;
		const many = (name: (i: number) => Entry): Entry[] => Array.from({ length: n }, (_, i) => name(i));
		const below = tar([...root, { name: 'd/', type: 'dir' }, { name: 'd/lower', body: '1' }, { name: 'd/deep/lower', body: '1' }, ...many((i) => ({ name: `l${i}`, type: 'link', target: 'd' }))]);
		const above = tar([...many((i) => ({ name: `d/f${i}`, body: '' })), { name: 'd/deep/own', body: '' }, { name: 'd/.wh..wh..opq' }, ...many(() => ({ name: 'd/.wh..wh..opq' })),
			...many(() => ({ name: '.wh.d' })), ...many((i) => ({ name: `l${i}/.wh..wh..opq` }))]);
		const began = Date.now();
		const r = await take(write(tarOf(dockerArchive(image([below, above])))));
		assert.equal(r.code, 0, r.said);
		assert.ok(Date.now() - began < 60_000, `${Date.now() - began} ms`);
		assert.deepEqual([r.has('d/lower'), r.has('d/deep/lower'), r.has('d/deep/own'), fs.readdirSync(r.at('d')).length], [false, false, true, n + 1]);
	});
	it('the same name again replaces the first', async () => {
		const r = await take(write(tar([...root, { name: 'f', body: '1' }, { name: 'f', body: '2' }])));
		assert.equal(fs.readFileSync(r.at('f'), 'utf8'), '2');
	});
});

describe('hostile documents', () => {
	const good = (): Image => image([tar(root)]);
	const cases: [string, () => Record<string, Buffer>, RegExp][] = [
		['a layer of another content', () => { const i = good(); const f = layout(i); const name = `blobs/sha256/${JSON.parse(i.manifest.toString()).layers[0].digest.slice(7)}`; f[name] = gzipSync(tar([...root, { name: 'other' }])); return f; }, /damaged|was announced/],
		['a configuration of another content', () => { const i = good(); const f = layout(i); f[`blobs/sha256/${sha256(i.config).slice(7)}`] = Buffer.concat([i.config, Buffer.from(' ')]); return f; }, /damaged|was announced/],
		['a diff_id of another layer', () => layout(image([tar(root)], { config: (c) => c.rootfs.diff_ids[0] = sha256('x') })), /damaged|was announced/],
		['fewer diff_ids than layers', () => layout(image([tar(root)], { config: (c) => c.rootfs.diff_ids = [] })), /has 1 layers and names 0/],
		['a Docker archive whose configuration does not fit its name', () => { const f = dockerArchive(good()); const name = Object.keys(f).find((n) => n.endsWith('.json') && n !== 'manifest.json')!; f[name] = Buffer.concat([f[name]!, Buffer.from('\n')]); return f; }, /damaged/],
		['a digest of another kind', () => layout(image([tar(root)], { manifest: (m) => m.layers[0].digest = 'md5:' + 'a'.repeat(32) })), /no sha256/],
		['a digest that is a path', () => layout(image([tar(root)], { manifest: (m) => m.layers[0].digest = 'sha256:../../../../etc/passwd' })), /no sha256/],
		['a negative size', () => layout(image([tar(root)], { manifest: (m) => m.layers[0].size = -1 })), /too large/],
		['a layer from elsewhere', () => layout(image([tar(root)], { manifest: (m) => m.layers[0].urls = ['http://127.0.0.1/'] })), /fetched from elsewhere/],
		['129 layers', () => layout(image(Array.from({ length: 129 }, () => tar([])))), /more than 128/],
		['no object', () => ({ ...layout(good()), 'index.json': Buffer.from('[1]') }), /no JSON object/],
		['a key twice', () => ({ ...layout(good()), 'index.json': Buffer.from('{"manifests": [], "manifests": []}') }), /no JSON object/],
		['10,000 brackets', () => ({ ...layout(good()), 'index.json': Buffer.from('['.repeat(10_000)) }), /no JSON object/],
		['a document of 5 MB', () => ({ ...layout(good()), 'index.json': Buffer.from(`{"a": "${'x'.repeat(5e6)}"}`) }), /cannot read/],
		['an index that names itself', () => { const i = good(); let index: object = { manifests: [{ digest: sha256(i.manifest), size: i.manifest.length }] }; for (let n = 0; n < 5; n++) { const b = Buffer.from(JSON.stringify(index)); i.blobs.set(sha256(b), b); index = { manifests: [{ digest: sha256(b), size: b.length }] }; } return layout(i, index); }, /nested/],
		['a Docker archive with a layer outside', () => { const f = dockerArchive(good()); const m = JSON.parse(f['manifest.json']!.toString()); m[0].Layers = ['../../../../../../etc/passwd']; f['manifest.json'] = Buffer.from(JSON.stringify(m)); return f; }, /lacks/],
		['another machine', () => layout(image([tar(root)], { platform: 's390x' })), /made for linux\/s390x/],
	];
	for (const [what, files, words] of cases)
		it(`${what}: refused`, () => refused(write(tarOf(files())), words));
	it('twin: the documents that these were made from are taken', async () => {
		assert.equal((await take(write(tarOf(layout(good()))))).code, 0);
		assert.equal((await take(write(tarOf(dockerArchive(good()))))).code, 0);
	});
	it('control characters of an archive do not reach the terminal', async () => {
		const r = await take(write(tar([{ name: '../\x1b[31mred\x1b', body: '' }])));
		assert.match(r.said, /forbidden name/);
		assert.ok(!r.said.includes('\x1b'));
		assert.ok(!(await take(write(tar([{ name: '../\u009b31mred', body: '' }])))).said.includes('\u009b'));
	});
	it('nor do those of packages and of the Python', async () => {
		const name = 'python3.12\x1b]0;title\x07';
		const status = ['good', 'bad\x1b[31m', 'worse\u009b31m'].map((p) => `Package: ${p}\nStatus: install ok installed\nVersion: 1\n\n`).join('');
		const r = await take(write(tar([...root.filter((e) => !e.name.includes('python')), { name: `usr/bin/${name}`, body: program(), mode: 0o755 },
			{ name: 'usr/bin/python3', type: 'link', target: name }, { name: 'var/lib/dpkg/status', body: status },
			...['mine-2', 'mean\x1b[31m-2'].map((n): Entry => ({ name: `usr/local/lib/${name}/dist-packages/${n}.dist-info/`, type: 'dir' }))])));
		assert.equal(r.code, 0, r.said);
		const all = [r.stdout, ...await Promise.all([['list'], ['list', 'x', '--packages'], ['list', 'x', '--json']].map(async (a) => (await caisson(['image', ...a], { env: state })).stdout))].join('');
		assert.doesNotMatch(all.replaceAll('\n', ''), /[\x00-\x1f\x7f-\x9f]/);
		assert.match(all, /^good 1$/m);
		assert.match(all, /^mine 2$/m);
		assert.match(all, /Python 3\.12,/);
	});
});

describe('a registry', () => {
	const registry = new Registry();
	const i = image(layers);
	const source = (name: string): string => `docker://${registry.host}/${name}`;
	before(async () => {
		await registry.open();
		registry.add('team/tool', i);
	});
	after(() => registry.close());

	it('gives an image by tag and by digest', async () => {
		for (const name of ['team/tool:1', 'team/tool', `team/tool@${sha256(i.manifest)}`]) {
			const r = await take(source(name));
			assert.equal(r.code, 0, r.said);
			assert.ok(r.has('opt/dir/new') && !r.has('opt/gone'));
		}
		const m = await manifest();
		assert.equal(m.source, 'registry');
		assert.equal(m.digest, sha256(i.manifest));
		assert.equal(m.origin, source(`team/tool@${sha256(i.manifest)}`));
		assert.ok(registry.requests.every((q) => !q.authorization));
	});
	it('gives the manifest for this machine of a list', async () => {
		const other = image([tar([])], { platform: 's390x' });
		registry.add('lists', { ...i, blobs: new Map([...i.blobs, ...other.blobs]) }, {
			schemaVersion: 2, mediaType: 'application/vnd.docker.distribution.manifest.list.v2+json', manifests: [
				{ digest: sha256(other.manifest), size: other.manifest.length, platform: { os: 'linux', architecture: 's390x' } },
				{ digest: sha256(i.manifest), size: i.manifest.length, platform: { os: 'linux', architecture: process.arch === 'x64' ? 'amd64' : 'arm64' } }],
		});
		const r = await take(source('lists:2'));
		assert.equal(r.code, 0, r.said);
	});
	it('says what it does not have', () => refused(source('nobody/nothing:1'), /has no image nobody\/nothing:1/));
	it('without an answer is said', () => refused('docker://127.0.0.1:1/x:1', /no answer/));
	for (const bad of ['docker://', 'docker://../x', 'docker://127.0.0.1:5000/A:1', 'docker://127.0.0.1:99999/a:1', 'docker://127.0.0.1:5000/a:../b', 'docker://127.0.0.1:5000/a@sha256:12', 'docker://127.0.0.1:5000/a..b:1', 'docker://127.0.0.1:5000/a___b:1', 'docker://127.0.0.1:5000/a-:1', 'docker-daemon:', 'docker-daemon:-x'])
		it(`'${bad}' is no image`, () => refused(bad, /is no image/));

	const login = { auths: {} as Record<string, object> };
	const config = (): Record<string, string> => {
		const folder = scratch('docker-config');
		login.auths[registry.host] = { auth: Buffer.from('me:my pass').toString('base64') };
		fs.writeFileSync(path.join(folder, 'config.json'), JSON.stringify(login));
		return { DOCKER_CONFIG: folder };
	};
	async function lying(lie: Registry['lie'], test: () => Promise<void>): Promise<void> {
		registry.requests.length = 0;
		registry.lie = lie;
		try {
			await test();
		} finally {
			registry.lie = () => false;
		}
	}
	it('with tokens: asked for one, with the login of docker login', () => lying((req, res) => {
		if (req.url!.startsWith('/token')) {
			assert.match(req.url!, /service=here%20or%20there&scope=repository:team\/tool:pull/);
			assert.equal(req.headers.authorization, 'Basic ' + Buffer.from('me:my pass').toString('base64'));
			res.end('{"token": "abc.def"}');
			return true;
		}
		if (req.headers.authorization === 'Bearer abc.def')
			return false;
		res.writeHead(401, { 'www-authenticate': `Bearer realm="http://${registry.host}/token",service="here or there"` }).end();
		return true;
	}, async () => {
		const r = await take(source('team/tool'), config());
		assert.equal(r.code, 0, r.said);
	}));
	it('with Basic: asked with the login, refused without', () => lying((req, res) => {
		if (req.headers.authorization === 'Basic ' + Buffer.from('me:my pass').toString('base64'))
			return false;
		res.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
		return true;
	}, async () => {
		assert.equal((await take(source('team/tool'), config())).code, 0);
		await refused(source('team/tool'), /docker login/);
	}));
	it('that redirects to another host does not take the login along', async () => {
		const other = new Registry();
		await other.open();
		other.add('team/tool', i);
		try {
			await lying((req, res) => {
				if (!req.headers.authorization)
					res.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
				else if (req.url!.includes('/blobs/'))
					res.writeHead(307, { location: `http://${other.host}${req.url}` }).end();
				else
					return false;
				return true;
			}, async () => {
				const r = await take(source('team/tool'), config());
				assert.equal(r.code, 0, r.said);
			});
			assert.ok(other.requests.length >= 2 && other.requests.every((q) => !q.authorization));
		} finally {
			other.close();
		}
	});
	const lies: [string, (part: 'manifests' | 'blobs', res: import('node:http').ServerResponse) => void, RegExp, ('manifests' | 'blobs')?][] = [
		['another blob than announced', (_, res) => res.end('x'), /something else/],
		['an endless blob', (_, res) => { const more = (): void => { while (res.write(zeros)); }; res.on('drain', more); more(); }, /larger than announced/],
		['an endless manifest', (_, res) => { const more = (): void => { while (res.write(zeros)); }; res.on('drain', more); more(); }, /larger than announced/, 'manifests'],
		['endless headers', (_, res) => { res.socket!.write('HTTP/1.1 200 OK\r\n' + `x: ${'y'.repeat(1000)}\r\n`.repeat(500)); res.socket!.destroy(); }, /larger than announced|no answer/],
		['a redirect in a circle', (_, res) => res.writeHead(302, { location: '/v2/team/tool/blobs/again' }).end(), /redirects too often/],
		['a redirect to a file', (_, res) => res.writeHead(302, { location: 'file:///etc/passwd' }).end(), /without https/],
		['a redirect by http to a machine that is not this one', (_, res) => res.writeHead(302, { location: 'http://192.0.2.1/x' }).end(), /without https/],
		['a login elsewhere without https', (_, res) => res.writeHead(401, { 'www-authenticate': 'Bearer realm="http://192.0.2.1/token"' }).end(), /without https/],
		['a token that is a header', (_, res) => res.writeHead(401, { 'www-authenticate': `Bearer realm="http://${registry.host}/evil"` }).end(), /sent no token/],
		['an error', (_, res) => res.writeHead(500).end('\x1b[31mno'), /answered 500 \( \[31mno\)/],
	];
	const zeros = Buffer.alloc(1 << 16);
	for (const [what, lie, words, part] of lies) {
		it(`that sends ${what} gets nowhere`, () => lying((req, res) => {
			if (req.url!.startsWith('/evil')) {
				res.end('{"token": "a\\r\\nX-Evil: 1"}');
				return true;
			}
			if (!req.url!.includes(`/${part ?? 'blobs'}/`))
				return false;
			lie(part ?? 'blobs', res);
			return true;
		}, () => refused(source('team/tool'), words)));
	}
	it('another manifest than the digest says', () => lying((req, res) => {
		if (!req.url!.includes('/manifests/'))
			return false;
		res.end(image([tar([])]).manifest);
		return true;
	}, () => refused(source(`team/tool@${sha256(i.manifest)}`), /something else/)));

	if (mode === 'root')
		it('is asked by a process without rights', async () => {
			const uids: string[] = [];
			await lying((req) => {
				const [theirs, ours] = [req.socket.remotePort!, req.socket.localPort!].map((port) => `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`);
				const line = fs.readFileSync('/proc/net/tcp', 'utf8').split('\n').find((l) => l.includes(`${theirs} ${ours}`)); // others may have had its port
				uids.push(line?.trim().split(/\s+/)[7] ?? 'nobody has it');
				return false;
			}, async () => {
				const r = await take(source('team/tool:seen'));
				assert.equal(r.code, 0, r.said);
			});
			assert.ok(uids.length > 0 && uids.every((u) => u === '65534'), uids.join());
		});
});
