// SPDX-License-Identifier: Apache-2.0
// `caisson image`: what a person sees, what a failed build leaves behind, and the default image from inside.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { freePort, mode, scratch, top } from '../lib/env.ts';
import { caisson, start, type Exit } from '../lib/process.ts';
import { until } from '../lib/wait.ts';

function said(r: Exit): string {
	return r.stderr.toString();
}

/** A state folder of its own, so that nothing happens to the shared images. */
function ownState(): Record<string, string> {
	return { SANDBOX_STATE_DIR: scratch('images') };
}

/** What a store holds beside its lock. */
function left(state: Record<string, string>): string[] {
	const dir = path.join(state.SANDBOX_STATE_DIR!, 'images');
	return fs.existsSync(dir) ? fs.readdirSync(dir).filter((n) => n !== '.lock' && !n.endsWith('.log')) : [];
}

/** The arguments of mmdebstrap's processes that name MIRROR. */
function commandLines(mirror: string): string[][] {
	return fs.readdirSync('/proc').filter((pid) => /^\d+$/.test(pid)).flatMap((pid) => {
		try {
			const argv = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
			return argv.some((a) => a.endsWith('mmdebstrap')) && argv.some((a) => a.includes(mirror)) ? [argv] : [];
		} catch {
			return []; // it has ended
		}
	});
}

/** A definition folder with one file NAME.conf. */
function definition(name: string, text: string): Record<string, string> {
	const dir = scratch('defs');
	fs.writeFileSync(path.join(dir, `${name}.conf`), text, { mode: 0o644 });
	return { SANDBOX_IMAGE_DEFS: dir };
}

describe('caisson image', () => {
	it('list tells size, Python, packages', async () => {
		const r = await caisson(['image', 'list']);
		assert.equal(r.code, 0, said(r));
		assert.match(r.stdout.toString(), /^NAME +SIZE +PYTHON +PACKAGES/);
		assert.match(r.stdout.toString(), /^science +\d+ MB +3\.\d+\.\d+ +\d+/m);
	});
	it('list --json and --packages name every package with its version', async () => {
		const r = await caisson(['image', 'list', 'science', '--json']);
		const science = JSON.parse(r.stdout.toString());
		assert.equal(science.format_version, 1);
		const names = new Set(science.packages.map((p: { name: string }) => p.name));
		for (const name of ['python3-numpy', 'python3-pandas', 'python3-pyarrow', 'libopenblas0-pthread'])
			assert.ok(names.has(name), name);
		assert.ok(science.size_bytes <= 1.85e9, `${science.size_bytes}`);
		const wheels = Object.fromEntries(science.wheels.map((w: { name: string; sha256: string }) => [w.name, w.sha256]));
		const list = fs.readFileSync(path.join(top, 'images/science.wheels'), 'utf8');
		for (const name of ['polars', 'duckdb', 'python-pptx', 'pdfplumber', 'plotly', 'uv'])
			assert.ok(list.includes(`--hash=sha256:${wheels[name]}`), name);
		const lines = (await caisson(['image', 'list', 'science', '--packages'])).stdout.toString().trim().split('\n');
		assert.equal(lines.length, science.packages.length);
		assert.match(lines.join('\n'), /^python3-numpy \d/m);
	});
	it('(slow) the default image does its job from inside', async () => {
		const r = await caisson(['run', path.join(top, 'images/verify.py')]);
		assert.equal(r.code, 0, r.stdout.toString() + said(r));
		assert.match(r.stdout.toString(), / 0 without a current \.pyc/);
	});
	it('has no set-uid program, no device, and the names that code expects', async () => {
		const file = path.join(scratch('script'), 'look.py');
		fs.writeFileSync(file, [
			'import os, pwd, shutil, stat, zoneinfo',
			'bad = []',
			'for top in ("/usr", "/etc", "/opt", "/var"):',
			'    for folder, _, files in os.walk(top):',
			'        for f in files:',
			'            st = os.lstat(os.path.join(folder, f))',
			'            if st.st_mode & 0o6000 or stat.S_ISBLK(st.st_mode) or stat.S_ISCHR(st.st_mode):',
			'                bad.append(os.path.join(folder, f))',
			'assert not bad, bad',
			'assert pwd.getpwuid(1000).pw_name == "sandbox"',
			'for name in "python python3 pip uv curl git unzip zip jq sqlite3 rg file tree pdftotext pdftoppm fc-list ffmpeg ffprobe tesseract pytest gcc g++ cc c++ make ld sh bash awk grep sed find less ps tar gzip timeout".split():',
			'    assert shutil.which(name), name',
			'assert zoneinfo.ZoneInfo("Asia/Tokyo") and open("/etc/hostname").read() == "sandbox\\n"',
			'assert "é中".encode() == open("/dev/null") or os.fsencode("é中").decode() == "é中"',
		].join('\n'), { mode: 0o644 });
		const r = await caisson(['run', file]);
		assert.equal(r.code, 0, said(r));
	});

	const refusals: [string, string[], number, RegExp][] = [
		['no verb', ['image'], 64, /usage: caisson image build/],
		['an unknown option', ['image', 'list', '--bogus'], 64, /unknown option '--bogus'/],
		['a missing operand', ['image', 'rm'], 64, /usage: caisson image rm NAME/],
		['a hostile name', ['image', 'build', '../x'], 64, /no image name/],
		['an unknown definition', ['image', 'build', 'nope'], 66, /no definition of image 'nope'/],
		['packages without a start', ['image', 'build', 'x', '--packages', 'alpha'], 64, /need --from/],
		['modules without a start', ['image', 'build', 'x', '--preload', 'wave'], 64, /need --from/],
		['a module that is none', ['image', 'build', 'x', '--from', 'base', '--preload', '../wave'], 78, /--preload: '\.\.\/wave' is no value/],
		['an unknown start', ['image', 'build', 'x', '--from', 'nope', '--packages', 'alpha'], 66, /no definition of image 'nope'/],
		['an address as a package', ['image', 'build', 'x', '--from', 'base', '--packages', 'a@http://127.0.0.1/a.whl'], 78, /--packages: 'a@/],
		['an option as a package', ['image', 'build', 'x', '--from', 'base', '--debian', '-oX'], 78, /--debian: '-oX' is no value/],
		['an unknown image', ['image', 'export', 'nope', 'x.tar'], 66, /there are no images in .*\/images; 'caisson image build'/],
		['removing what is not there', ['image', 'rm', 'nope'], 66, /there are no images in/],
		['a file that is no archive', ['image', 'import', 'x', '/etc/passwd'], 64, /no tar/],
	];
	for (const [what, args, code, words] of refusals) {
		it(`refuses ${what}`, async () => {
			const state = ownState();
			const r = await caisson(args, { env: state });
			assert.match(said(r), words);
			assert.equal(r.code, code, said(r));
			assert.deepEqual(left(state), []);
		});
	}
	it('a wrong definition is named with its line', async () => {
		const r = await caisson(['image', 'build', 'x'], {
			env: { ...ownState(), ...definition('x', 'suite = forky\n\npackages = python3 --x\n') },
		});
		assert.equal(r.code, 78);
		assert.match(said(r), /x\.conf:3: '--x' is no value of 'packages'/);
	});
	// The tests' plain user has no sub-uids, so it is refused before any source is asked.
	if (mode === 'root') it('(slow) a source that cannot be reached is said, and nothing is left', async () => {
		const state = ownState();
		const mirror = `http://127.0.0.1:${await freePort()}/debian`;
		const r = await caisson(['image', 'build', 'base', '--mirror', mirror], { env: state });
		assert.equal(r.code, 69, said(r));
		assert.match(said(r), /the package source cannot be reached; 'apt-get update' says/);
		assert.deepEqual(left(state), []);
	});
	if (mode === 'user') it('a plain user without sub-uids is told what to ask for', async () => {
		const state = ownState();
		const r = await caisson(['image', 'build', 'base'], { env: state });
		assert.equal(r.code, 70);
		const advice = /usermod --add-subuids \S+ --add-subgids \S+/.exec(said(r))?.[0];
		const doctor = await caisson(['doctor'], { env: state });
		assert.ok(advice && doctor.stdout.toString().includes(advice), `${said(r)}\n${doctor.stdout}`);
		assert.deepEqual(left(state), []);
	});
	for (const signal of mode === 'root' ? ['SIGINT', 'SIGKILL'] as const : []) {
		it(`a build that got ${signal} leaves no half image`, async () => {
			const state = ownState();
			// A mirror that accepts and never answers.
			const { createServer } = await import('node:net');
			const mirror = createServer(() => {});
			await new Promise<void>((resolve) => mirror.listen(0, '127.0.0.1', resolve));
			const { port } = mirror.address() as { port: number };
			try {
				const p = start(['image', 'build', 'base', '--mirror', `http://127.0.0.1:${port}/debian`], { env: state });
				await until('the build folder', () => left(state).length > 0, 20_000);
				const patterns = (): string[] => commandLines(`127.0.0.1:${port}`).flatMap((argv) => argv).filter((a) => a.startsWith('--dpkgopt=path-'));
				if (signal === 'SIGINT') {
					await until('mmdebstrap', () => patterns().length > 0, 20_000);
					assert.ok(patterns().includes('--dpkgopt=path-exclude=/usr/share/doc/*'));
					assert.equal(patterns().at(-1), '--dpkgopt=path-include=/usr/share/doc/*/copyright', 'licences stay: dpkg goes by the last pattern that matches');
				}
				p.kill(signal);
				const r = await p.exit;
				if (signal === 'SIGINT')
					assert.equal(r.code, 130, said(r));
			} finally {
				mirror.close();
			}
			// The next maker of an image removes what a killed one left.
			await until('the folder is clean', async () => {
				await caisson(['image', 'import', 'x', '/etc/passwd'], { env: state });
				return left(state).length === 0;
			}, 30_000);
		});
	}
});
