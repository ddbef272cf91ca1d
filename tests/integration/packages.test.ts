// SPDX-License-Identifier: Apache-2.0
// Packages: from an index on loopback that is good and one that is not, from a folder of wheels, and, where one can be
// reached, from the index that this machine's pip is configured for.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import type * as http from 'node:http';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { execFileSync } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { imagesDir, mode, newStateDir, sanitized, scratch } from '../lib/env.ts';
import { initsOf } from '../lib/family.ts';
import { caisson, type Program } from '../lib/process.ts';
import { facts, open, serve, using, type Json, type Session } from '../lib/session.ts';
import { until } from '../lib/wait.ts';
import { Canary, Index, wheel, wheelName, zip } from '../lib/wheel.ts';

const install = async (s: Session, packages: string | string[], session_id: string): Promise<Json> =>
	facts(await s.raw('sandbox_install_packages', { packages, session_id }));

const stdout = async (s: Session, code: string, session_id: string): Promise<string> => {
	const r = facts(await s.raw('sandbox_run_python', { code, session_id }));
	return `${r.stdout}${r.stderr}`;
};

const names = async (s: Session, session_id: string): Promise<string[]> =>
	(await s.call('sandbox_list_packages', { session_id })).installed.map((p: Json) => `${p.name}==${p.version}`);

describe('packages from an index', () => {
	const index = new Index();
	const canary = new Canary();
	let s: Session;

	before(async () => {
		await index.open();
		await canary.open();
		const evil = 'import urllib.request\nurllib.request.urlopen("http://127.0.0.1:' + canary.port + '/")\n';
		index.add('alpha', { file: wheelName('alpha', '1.0'), body: wheel('alpha', '1.0', 'who = "alpha 1"') },
			{ file: wheelName('alpha', '2.0'), body: wheel('alpha', '2.0', 'import beta\nwho = "alpha 2"\ndef main():\n    print("alpha runs")', { requires: ['beta>=1'], scripts: 'alpha-run = alpha:main' }) });
		index.add('beta', { file: wheelName('beta', '1.5'), body: wheel('beta', '1.5', 'who = "beta"') });
		index.add('sourceonly', { file: 'sourceonly-1.0.tar.gz', body: zip([{ name: 'setup.py', text: evil }]) });
		index.add('climber', { file: wheelName('climber', '1.0'), body: wheel('climber', '1.0', '', { more: [{ name: '../../../../../../mnt/data/evil.py', text: 'x' }] }) });
		index.add('linker', { file: wheelName('linker', '1.0'), body: wheel('linker', '1.0', '', { more: [{ name: 'link', text: '/etc/passwd', mode: 0o120777 }] }) });
		index.add('impostor', { file: wheelName('impostor', '1.0'), body: wheel('alpha', '9.0', 'who = "impostor"') });
		index.add('liar', { file: wheelName('liar', '1.0'), body: wheel('liar', '1.0', ''), sha256: '0'.repeat(64) });
		index.add('bomb', { file: wheelName('bomb', '1.0'), body: wheel('bomb', '1.0', '', { more: [{ name: 'zeros', text: Buffer.alloc(40 << 20) }] }) });
		index.add('elsewhere', { file: wheelName('elsewhere', '1.0'), body: wheel('elsewhere', '1.0', ''), url: `http://127.0.0.1:${canary.port}/elsewhere-1.0-py3-none-any.whl` });
		index.add('redirected', { file: wheelName('redirected', '1.0'), body: `http://127.0.0.1:${canary.port}/x.whl` });
		index.add('metadata', { file: wheelName('metadata', '1.0'), body: 'http://169.254.169.254/latest/meta-data/' });
		s = await open('stdio', { profile: 'all', env: { SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_INSTALL_MAX_BYTES: '4m' } });
	});
	after(async () => {
		await s.end();
		index.close();
		canary.close();
	});

	it('a package with what it needs: imports, scripts, versions, listing, removing', async () => {
		const r = await install(s, 'alpha', 'good');
		assert.equal(r.status, 'success', JSON.stringify(r));
		assert.deepEqual(r.installed.sort(), ['alpha==2.0', 'beta==1.5']);
		assert.equal(await stdout(s, 'import alpha, beta; print(alpha.who, beta.who)', 'good'), 'alpha 2 beta\n');
		const shell = await s.call('sandbox_run_shell', { command: 'alpha-run; pip install nosuch; echo $?', session_id: 'good' });
		assert.equal(shell.stdout, 'alpha runs\n1\n');
		assert.match(shell.stderr, /sandbox_install_packages/);
		assert.deepEqual(await names(s, 'good'), ['alpha==2.0', 'beta==1.5']);
		assert.equal((await install(s, 'alpha==1.0', 'good')).status, 'success');
		assert.equal(await stdout(s, 'import alpha; print(alpha.who)', 'good'), 'alpha 1\n');
		assert.equal((await install(s, 'alpha', 'good')).message, 'Package alpha is already installed');
		assert.equal((await s.call('sandbox_uninstall_packages', { packages: 'alpha', session_id: 'good' })).status, 'success');
		assert.deepEqual(await names(s, 'good'), ['beta==1.5']);
		assert.match(await stdout(s, 'import alpha', 'good'), /ModuleNotFoundError/);
	});
	it('the second sandbox gets it from the cache and asks nobody', async () => {
		const before = index.asked.length;
		assert.deepEqual((await install(s, 'alpha', 'second')).installed.sort(), ['alpha==2.0', 'beta==1.5']);
		assert.equal(index.asked.length, before);
		assert.equal(await stdout(s, 'import alpha; print(alpha.who)', 'second'), 'alpha 2\n');
	});
	it('(slow) what one sandbox does to its packages no other one sees', async () => {
		await stdout(s, 'open("/app/.venv/lib/python3.%d/site-packages/beta.py" % __import__("sys").version_info[1], "w").write("who = 1")', 'second');
		assert.equal((await install(s, 'beta', 'third')).status, 'success');
		assert.equal(await stdout(s, 'import beta; print(beta.who)', 'third'), 'beta\n');
	});
	for (const [name, why] of [
		['sourceonly', /sourceonly has no wheel for Python 3\.\d+ on the package index.*SANDBOX_PIP_SOURCE_BUILDS=on/s], ['climber', /holds the path/], ['linker', /holds a link/], ['impostor', /./], ['liar', /./],
		['bomb', /unpacks to more/], ['elsewhere', /./], ['redirected', /./], ['metadata', /./], ['nosuchpackage', /No matching distribution/],
		['alpha==99', /The package index has no version of alpha that is ==99\. It has 2\.0, 1\.0\./],
	] as const)
		it(`(slow) hostile: ${name}`, async () => {
			const r = await install(s, name, 'hostile');
			assert.equal(r.error, 'package_failed', JSON.stringify(r));
			assert.match(r.message, why);
			assert.deepEqual(await names(s, 'hostile'), []);
			assert.equal(canary.visits, 0);
		});
	it('nothing but names is taken', async () => {
		for (const packages of ['--index-url http://127.0.0.1:1 alpha', '-r /etc/passwd', './alpha', 'alpha @ http://127.0.0.1:1/a.whl', `http://127.0.0.1:${canary.port}/a.whl`, 'alpha --pre', '', [], ['alpha', '-r x'], Array(2000).fill('alpha')])
			assert.equal((await install(s, packages, 'hostile')).error, 'invalid_argument', String(packages).slice(0, 100));
		assert.equal(canary.visits, 0);
	});
	/* One line each: the status, and whether the hint was there. */
	const spellings = ['pip install gamma', 'pip3 -q install gamma', '/usr/bin/pip install gamma', 'python -m pip install gamma', 'python3 -m pip --disable-pip-version-check -q install gamma', '/usr/bin/python3 -m pip install gamma',
		'python3 -I -m pip download gamma', 'uv pip install gamma', 'uv -q pip install gamma', 'uv add gamma', 'cd / && env python3 -m pip wheel gamma', 'sh -c "exec python3 -m pip install gamma"'];
	it('(slow) every spelling of an installation ends with the hint: in the terminal, a subprocess, with packages and without', async () => {
		const called = async (name: string, args: Json): Promise<Json> => facts(await s.raw(name, args));
		const stored = (await called('create_sandbox', {})).sandbox_id as string;
		assert.equal((await install(s, 'beta', 'spelled')).status, 'success');
		const all = spellings.map((c) => `(${c}) </dev/null 2>&1 | grep -c 'the tool sandbox_install_packages'`).join('; ');
		const want = '1\n'.repeat(spellings.length);
		for (const r of [await called('execute_terminal_command', { sandbox_id: stored, command: all }), await called('sandbox_run_shell', { command: all, session_id: 'bare' }), await called('sandbox_run_shell', { command: `test -x /app/.venv/bin/python3 && { ${all}; /app/.venv/bin/python3 -m pip install gamma; echo $?; }`, session_id: 'spelled' })]) {
			assert.equal(r.stdout.slice(0, want.length), want, JSON.stringify(r));
			assert.match(r.stdout.slice(want.length), /^(1\n)?$/);
		}
		const python = `import os, subprocess, sys
for argv in (['pip', 'install', 'gamma'], [sys.executable, '-m', 'pip', 'install', 'gamma']):
    r = subprocess.run(argv, capture_output=True, text=True)
    print(r.returncode, 'sandbox_install_packages' in r.stderr)
print(os.system('python3 -m pip install gamma 2>/dev/null') >> 8)`;
		for (const [tool, args] of [['sandbox_run_python', { code: python, session_id: 'bare' }], ['execute_python_code', { code: python, sandbox_id: stored }]] as const)
			assert.equal((await called(tool, args)).stdout, '1 True\n1 True\n1\n', tool);
	});
	it('(slow) what needs no network is pip\'s own', async () => {
		const r = await s.call('sandbox_run_shell', { command: 'python3 -m pip list 2>/dev/null | grep -ci numpy; pip --version | grep -c "^pip [0-9]"; pip install --no-index --find-links . nothing 2>&1 | grep -c sandbox_install', session_id: 'bare' });
		assert.equal(r.stdout, '1\n1\n0\n');
	});
	it('a list of packages means the same as a text of them', async () => {
		const r = await install(s, ['beta # a comment', 'alpha==1.0'], 'listed');
		assert.deepEqual([r.status, r.installed.length], ['success', 2], JSON.stringify(r));
		const wrong = await s.raw('sandbox_install_packages', { packages: ['alpha', 1], session_id: 'listed' });
		assert.match(wrong.content[0]!.text!, /Input should be a valid string/);
	});
	it('several at once, in several sandboxes', async () => {
		const all = await Promise.all(['p', 'q', 'r'].map((id) => install(s, 'beta alpha==1.0', id)));
		assert.deepEqual(all.map((r) => r.status), ['success', 'success', 'success']);
	});
});

describe('what does not fit, and a second index', () => {
	const index = new Index();
	const extra = new Index();
	let s: Session;

	before(async () => {
		await index.open();
		await extra.open();
		const beta = wheel('beta', '1.0', '');
		index.add('beta', { file: wheelName('beta', '1.0'), body: beta });
		index.add('fat', { file: wheelName('fat', '1.0'), body: wheel('fat', '1.0', '', { more: [{ name: 'zeros', text: Buffer.alloc(24 << 20) }] }) });
		index.add('alpha', { file: wheelName('alpha', '2.0'), body: wheel('alpha', '2.0', 'who = "cuda"', { requires: ['huge'] }) });
		index.add('metadata-of-huge', { file: `${wheelName('huge', '1.0')}.metadata`, body: Buffer.from('Metadata-Version: 2.1\nName: huge\nVersion: 1.0\nRequires-Dist: large\n') },
			{ file: `${wheelName('large', '3.0')}.metadata`, body: Buffer.from('Metadata-Version: 2.1\nName: large\nVersion: 3.0\n') });
		for (const [name, version, size] of [['huge', '1.0', 2 << 20], ['large', '3.0', 3 << 20], ['giant', '1.0', 900 << 20]] as const)
			index.pages.set(name, (_, res) => {
				const filename = wheelName(name, version);
				res.setHeader('content-type', 'application/vnd.pypi.simple.v1+json');
				res.end(JSON.stringify({ meta: { 'api-version': '1.1' }, name, files: [{ filename, url: `/files/${filename}`, size: size + (4 << 20), hashes: { sha256: '0'.repeat(64) }, 'core-metadata': true }] }));
			});
		extra.add('alpha', { file: wheelName('alpha', '2.0+cpu'), body: wheel('alpha', '2.0+cpu', 'who = "cpu"') });
		extra.add('gamma', { file: wheelName('gamma', '1.0'), body: wheel('gamma', '1.0', '', { requires: ['beta'] }) });
		s = await open('stdio', { profile: 'all', env: { SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_PIP_EXTRA_INDEX_URL: extra.url, SANDBOX_INSTALL_MAX_BYTES: '12m' } });
	});
	after(async () => {
		await s.end();
		index.close();
		extra.close();
	});

	const refused = async (packages: string, session_id: string, said: RegExp, hint: RegExp): Promise<void> => {
		const r = await install(s, packages, session_id);
		assert.equal(r.error, 'package_failed', JSON.stringify(r));
		assert.match(r.message, said);
		assert.match(r.hint, hint);
		assert.doesNotMatch(r.hint, /Check the names/);
		assert.deepEqual(await names(s, session_id), []);
		assert.deepEqual([...index.asked, ...extra.asked].filter((url) => /(huge|large|giant)[^/]*\.whl$/.test(url)), [], 'nothing was downloaded');
	};
	it('wheels that are too large together are refused before they are downloaded', () =>
		refused('huge', 'sizes', /the wheels have 13 MiB, and one installation may have 12 MiB \(SANDBOX_INSTALL_MAX_BYTES\)\. The largest are large 3\.0 7 MiB, huge 1\.0 6 MiB\. Nothing was downloaded/, /SANDBOX_INSTALL_MAX_BYTES raises the limit/));
	it('so is a single one', () => refused('giant', 'sizes', /the wheels have 904 MiB/, /SANDBOX_INSTALL_MAX_BYTES/));
	it('(slow) and what the disk of the sandbox cannot hold', async () => {
		await s.call('sandbox_create', { session_id: 'disk', disk_mb: 5 });
		await refused('large', 'disk', /the wheels have 7 MiB, and the disk of this sandbox 5 MiB/, /disk_mb/);
		await refused('fat', 'disk', /no space is left for packages in the sandbox: they need 25 MiB: \d+ of \d+ MiB are used/, /larger disk_mb/);
		assert.equal((await install(s, 'beta', 'disk')).status, 'success');
	});
	it('of both indexes the newest version is taken, so that a build without CUDA comes first', async () => {
		const r = await install(s, 'alpha gamma', 'extra');
		assert.deepEqual(r.installed?.sort(), ['alpha==2.0+cpu', 'beta==1.0', 'gamma==1.0'], JSON.stringify(r));
		assert.equal(await stdout(s, 'import alpha; print(alpha.who)', 'extra'), 'cpu\n');
	});
	it('(slow) an index that cannot be reached is not the fault of the name', () => using('stdio', { profile: 'full', env: { SANDBOX_PIP_INDEX_URL: 'http://127.0.0.1:9/simple' } }, async (other) => {
		const r = await install(other, 'alpha', 'unreached');
		assert.equal(r.error, 'package_failed');
		assert.match(r.hint, /^The package index cannot be reached/, JSON.stringify(r));
	}));
	it('a library that the image lacks', async () => {
		const said = 'libGL.so.1: cannot open shared object file: No such file or directory';
		await s.call('sandbox_write_file', { session_id: 'gl', path: 'cv2.py', content: `raise ImportError("${said}")` });
		const hint = async (code: string): Promise<string> => String(facts(await s.raw('sandbox_run_python', { code, session_id: 'gl' })).hint);
		assert.match(await hint('import cv2'), /install opencv-python-headless/);
		assert.match(await hint(`raise ImportError("${said}")`), /needs the library libGL\.so\.1, which is not in this image/);
	});
});

describe('packages of an image that is built anew', () => {
	it('(slow) its sandboxes have nothing of what the index said for the old one', { skip: (process.getuid!() !== 0 || mode === 'user') && 'the copy belongs to root' }, async () => {
		const images = path.join(scratch('state'), 'images');
		const copy = (name: string): void => {
			fs.mkdirSync(images, { recursive: true });
			execFileSync('cp', ['-al', fs.realpathSync(path.join(imagesDir, 'base')), path.join(images, name)]);
		};
		const index = await new Index().open();
		index.add('beta', { file: wheelName('beta', '1.5'), body: wheel('beta', '1.5', 'who = "beta"') });
		copy('test');
		try {
			await using('stdio', { profile: 'all', env: { SANDBOX_STATE_DIR: path.dirname(images), SANDBOX_IMAGE: 'test', SANDBOX_PIP_INDEX_URL: index.url } }, async (s) => {
				const asks: number[] = [];
				for (const id of ['one', 'two', 'three', 'four']) {
					if (id === 'three') {
						copy('next');
						fs.renameSync(path.join(images, 'test'), path.join(images, 'gone'));
						fs.renameSync(path.join(images, 'next'), path.join(images, 'test'));
					}
					const before = index.asked.length;
					assert.equal((await install(s, 'beta', id)).status, 'success');
					asks.push(index.asked.length - before);
				}
				assert.deepEqual(asks.map((n) => n > 0), [true, false, true, false]);
			});
		} finally {
			index.close();
		}
	});
});

describe('an installation ends with its sandbox', () => {
	const index = new Index();
	let s: { program: Program; base: string };
	let admin = '', n = 0;
	let asked: { page: string; gone: boolean }[] = [];
	const hold = (q: http.IncomingMessage, r: http.ServerResponse): void => {
		const one = { page: q.url!, gone: false };
		asked.push(one);
		r.on('close', () => (one.gone = true));
	};
	const ask = async (key: string, method: string, where: string, json?: Json): Promise<Json> => {
		const r = await fetch(`${s.base}/api/v1${where}`, { method, headers: { 'x-api-key': key, 'content-type': 'application/json', connection: 'close' }, body: json && JSON.stringify(json) });
		const text = await r.text();
		assert.ok(r.status < 300, `${method} ${where}: ${r.status} ${text}`);
		return text ? JSON.parse(text) as Json : {};
	};

	before(async () => {
		await index.open();
		index.pages.set('silent', hold);
		index.add('half', { file: wheelName('half', '1.0'), sha256: '0'.repeat(64), body: (q, r) => { // a part of a wheel, and no more of it
			hold(q, r);
			r.writeHead(200, { 'content-length': '1000000' }).write(Buffer.alloc(1000));
		} });
		const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_POOL: '0', SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_INSTALL_TIMEOUT_S: '300' };
		assert.equal((await caisson(['user', 'add', 'root', '--role', 'admin', '--password', 'none'], { env })).code, 0);
		admin = (await caisson(['key', 'new', 'root', '--scope', 'admin'], { env })).stdout.toString().trim();
		s = await serve({ profile: 'full', env });
	});
	after(async () => {
		await s.program.end();
		index.close();
	});

	const ends: Record<string, (who: Json, box: string, spec: string) => Promise<unknown>> = {
		'it is closed': (who, box) => ask(who.key, 'DELETE', `/sandboxes/${box}?force=true`),
		'its user is removed': (who) => ask(admin, 'DELETE', `/users/${who.id}`),
		'it is lost': async (_who, _box) => process.kill(initsOf(s.program.child.pid!)[0]!.pid, 'SIGKILL'), // made first: its helper and resolver are younger
		'it is cancelled': (who, box, spec) => ask(who.key, 'DELETE', `/sandboxes/${box}/packages/${spec}`),
	};
	for (const [state, spec] of [['asks the index', 'silent'], ['downloads', 'half']] as const)
		for (const [how, end] of Object.entries(ends))
			it(`it ${state}, and another one waits, when ${how}`, async () => {
				asked = [];
				const id = (await ask(admin, 'POST', '/users', { name: `user${++n}` })).id as string;
				const who = { id, key: (await ask(admin, 'POST', `/keys?owner=${id}`, {})).key as string };
				const box = (await ask(who.key, 'POST', '/sandboxes', {})).id as string;
				const before = initsOf(s.program.child.pid!).length;
				const places = async (): Promise<number> => (await ask(admin, 'GET', '/stats')).budgets.installations.by_user[id] ?? 0;
				for (const one of how === 'it is cancelled' ? [spec] : [spec, 'silent==2'])
					await ask(who.key, 'POST', `/sandboxes/${box}/packages`, { packages: one });
				await until('a question', () => asked.length > 0 && asked.at(-1)!.page.includes(spec));
				assert.ok(await places() > 0 && initsOf(s.program.child.pid!).length > before, 'twin: it has its place and its helpers');
				await end(who, box, spec);
				await until('the places to be free', async () => await places() === 0, 3000);
				await until('the questions to end', () => asked.every((a) => a.gone), 3000);
				await until('the helpers to end', () => initsOf(s.program.child.pid!).length <= before - (how === 'it is cancelled' ? 0 : 1), 5000);
				if (how === 'it is cancelled')
					await ask(who.key, 'DELETE', `/sandboxes/${box}`);
			});
});

describe('packages from a folder of wheels', () => {
	it('(slow) no index is asked', async () => {
		const folder = scratch('wheels');
		fs.mkdirSync(folder, { recursive: true });
		fs.writeFileSync(path.join(folder, wheelName('gamma', '1.0')), wheel('gamma', '1.0', 'who = "gamma"', { requires: ['delta'] }));
		fs.writeFileSync(path.join(folder, wheelName('delta', '1.0')), wheel('delta', '1.0', 'who = "delta"'));
		fs.chmodSync(folder, 0o755);
		await using('stdio', { profile: 'all', env: { SANDBOX_PIP_WHEEL_DIR: folder } }, async (s) => {
			const r = await install(s, 'gamma', 'a');
			assert.equal(r.status, 'success', JSON.stringify(r));
			assert.equal(await stdout(s, 'import gamma, delta; print(gamma.who, delta.who)', 'a'), 'gamma delta\n');
			fs.chmodSync(path.join(folder, wheelName('delta', '1.0')), 0);
			const unread = await install(s, 'gamma', 'b'); // it is not missing
			assert.equal(unread.error, 'package_failed', JSON.stringify(unread));
			assert.match(JSON.stringify(unread), /folder of wheels cannot be read \(SANDBOX_PIP_WHEEL_DIR\): delta-1\.0-[^ ]*: Permission denied/);
			fs.chmodSync(folder, 0);
			assert.match(JSON.stringify(await install(s, 'gamma', 'c')), /folder of wheels cannot be read \(SANDBOX_PIP_WHEEL_DIR\): Permission denied/);
			fs.chmodSync(folder, 0o755);
		});
	});

	it('(slow) a sandbox that may have 32 processes gets packages', async () => {
		const folder = scratch('few-processes');
		fs.chmodSync(folder, 0o755);
		fs.writeFileSync(path.join(folder, wheelName('solo', '1.0')), wheel('solo', '1.0', 'who = "solo"'));
		await using('stdio', { profile: 'all', env: { SANDBOX_PIP_WHEEL_DIR: folder, SANDBOX_PIDS_LIMIT: '32', SANDBOX_POOL: '0' } }, async (s) => {
			const r = await install(s, 'solo', 'few');
			assert.deepEqual(r.installed, ['solo==1.0'], JSON.stringify(r));
			assert.equal(await stdout(s, 'import solo; print(solo.who)', 'few'), 'solo\n');
		});
	});
});

/** Whether pip, as it is configured here, gets a small package. */
function reachable(): boolean {
	try {
		execFileSync('python3', ['-m', 'pip', 'download', '-q', '--no-deps', '--retries', '0', '--timeout', '10', '-d', scratch('probe'), 'six'], { stdio: 'ignore', timeout: 30_000 });
		return true;
	} catch {
		return false;
	}
}

/** The newest version of a package that pip finds for the Python of this machine. */
function newest(name: string): string {
	const text = execFileSync('python3', ['-m', 'pip', 'index', 'versions', name, '--retries', '0', '--timeout', '10'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], timeout: 30_000 });
	return /\(([^)]+)\)/.exec(text)![1]!;
}

/** Half a minute of pip at work: once is enough. */
const unlessReal = mode !== 'root' || sanitized ? 'tried as root, without sanitizers' : reachable() ? false : 'pip reaches no package index here';

describe('packages from the configured index', { skip: unlessReal }, () => {
	it('(slow) ten at once, each into a sandbox of its own: in Python, with native code, with dependencies, a newest pandas', () => {
		const pandas = `pandas==${newest('pandas')}`;
		/* What is asked for, none of it in the image, and a program that needs it and says `there`. */
		const wanted: [string, string][] = [
			['httpx', 'import httpx, httpcore, h11; assert "/app/.venv" in httpx.__file__'],
			[pandas, `import pandas; assert pandas.__version__ == ${JSON.stringify(pandas.slice(8))}; pandas.DataFrame({"a": [1, 2]}).sum()`],
			['msgpack', 'import msgpack._cmsgpack'],
			['cbor2', 'import cbor2; assert cbor2.loads(cbor2.dumps({"a": 1})) == {"a": 1}'],
			['toolz', 'import toolz'],
			['itsdangerous', 'import itsdangerous; itsdangerous.URLSafeSerializer("k").dumps({})'],
			['pyfiglet', 'import pyfiglet'],
			['mako', 'from mako.template import Template; assert Template("${a}").render(a=1) == "1"'],
			['tomli>=2', 'import tomli; assert tomli.loads("a = 1") == {"a": 1}'],
			['python-dateutil sortedcontainers', 'import dateutil, sortedcontainers; sortedcontainers.SortedList([2, 1])'],
		];
		return using('stdio', { profile: 'all', env: { SANDBOX_MAX_SESSIONS: '12' } }, async (s) => {
			const classic = async (name: string, args: Json): Promise<Json> => facts(await s.raw(name, args));
			for (const i of wanted.keys()) await s.call('sandbox_run_shell', { command: 'true', session_id: `ten-${i}` });
			const ended = await Promise.all(wanted.map(async ([package_name], i) => {
				const args = { sandbox_id: `ten-${i}`, package_name };
				let r = await classic('install_package_in_sandbox', args);
				await until(package_name, async () => r.status !== 'installing' || (await pause(500), (r = await classic('check_package_installation_status', args)).complete), 240_000);
				return r;
			}));
			for (const [i, [packages, program]] of wanted.entries()) {
				assert.equal(ended[i]!.status, 'success', `${packages}: ${JSON.stringify(ended[i])}`);
				assert.equal(await stdout(s, `${program}\nprint("there")`, `ten-${i}`), 'there\n', packages);
			}
		});
	});
});
