// SPDX-License-Identifier: Apache-2.0
// Wheels in images: an image of one's own by one line, with packages of an index on loopback; what the index may not do to a build.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { execFile, execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { freePort, imagesDir, mode, scratch, top } from '../lib/env.ts';
import { caisson } from '../lib/process.ts';
import { Index, wheel, wheelName } from '../lib/wheel.ts';

const sha256 = (data: Buffer): string => createHash('sha256').update(data).digest('hex');
const alpha = wheel('alpha', '1.0', 'who = "alpha"', { scripts: 'alpha-run = alpha:who.title' });
const beta = wheel('beta', '2.0', 'import gamma\nwho = "beta and " + gamma.who', { requires: ['gamma>=1', 'pip'] });

describe('wheels in images', { skip: mode !== 'root' && 'the tests\' plain user has no sub-uids' }, () => {
	const index = new Index();
	before(async () => {
		await index.open();
		index.add('alpha', { file: wheelName('alpha', '1.0'), body: alpha });
		index.add('beta', { file: wheelName('beta', '2.0'), body: beta });
		index.add('gamma', { file: wheelName('gamma', '1.0'), body: wheel('gamma', '1.0', 'who = "gamma"') });
		index.add('sourceonly', { file: 'sourceonly-1.0.tar.gz', body: alpha });
	});
	after(() => index.close());

	it('(slow) image build NAME --from DEFINITION --packages: pinned wheels, resolved ones, their hashes in the manifest', async () => {
		const defs = scratch('defs');
		const state = { SANDBOX_STATE_DIR: scratch('own-image') };
		fs.writeFileSync(path.join(defs, 'tiny.conf'), 'suite = forky\npackages = python3 python3-pip\nwheels = tiny.wheels\n' +
			'exclude = /usr/share/doc/* /usr/share/man/* /usr/share/locale/* /usr/local/bin/alpha-run\n');
		fs.writeFileSync(path.join(defs, 'tiny.wheels'), `# of nobody\nalpha==1.0 \\\n    --hash=sha256:${'0'.repeat(64)} \\\n    --hash=sha256:${sha256(alpha)}\n`);
		const r = await caisson(['image', 'build', 'mine', '--from', 'tiny', '--packages', 'beta'],
			{ env: { ...state, SANDBOX_IMAGE_DEFS: defs, SANDBOX_PIP_INDEX_URL: index.url } });
		assert.equal(r.code, 0, r.stderr.toString());
		const image = JSON.parse((await caisson(['image', 'list', 'mine', '--json'], { env: state })).stdout.toString());
		assert.equal(image.description, 'tiny and beta');
		assert.deepEqual(image.wheels.map((w: { name: string; version: string; file: string }) => [w.name, w.version, w.file]).sort(),
			[['alpha', '1.0', wheelName('alpha', '1.0')], ['beta', '2.0', wheelName('beta', '2.0')], ['gamma', '1.0', wheelName('gamma', '1.0')]]);
		assert.equal(image.wheels.find((w: { name: string }) => w.name === 'beta').sha256, sha256(beta));
		assert.ok(!JSON.stringify(image).includes('127.0.0.1'));
		const file = path.join(scratch('script'), 'look.py');
		fs.writeFileSync(file, 'import alpha, beta, os\nprint(alpha.who, beta.who, os.path.exists("/usr/local/bin/alpha-run"), int.from_bytes(open(beta.__cached__, "rb").read(12)[8:], "little") == int(os.stat(beta.__file__).st_mtime))', { mode: 0o644 });
		const run = await caisson(['run', '--image', 'mine', file], { env: state });
		assert.equal(run.stdout.toString(), 'alpha beta and gamma False True\n', run.stderr.toString());
	});

	/** wheels.sh on a copy of image `base`, with what the builder hands to it. */
	async function hook(files: Record<string, string>, env: Record<string, string>): Promise<{ status: number; said: string; root: string }> {
		const folder = scratch('hook');
		const root = path.join(folder, 'root');
		execFileSync('cp', ['-a', '--reflink=auto', path.join(fs.realpathSync(path.join(imagesDir, 'base')), 'root'), root]);
		execFileSync('mknod', ['-m', '666', path.join(root, 'dev/null'), 'c', '1', '3']); // as mmdebstrap has it at that time
		for (const name of ['wheels.sh', 'wheels.py'])
			fs.copyFileSync(path.join(top, 'src/image', name), path.join(folder, name));
		for (const [name, text] of Object.entries(files))
			fs.writeFileSync(path.join(folder, name), text);
		// Not synchronously: the index answers from this process.
		return new Promise((resolve) => {
			execFile('sh', [path.join(folder, 'wheels.sh'), root], { env: { PATH: process.env.PATH!, ...env }, timeout: 120_000 },
				(error, _out, said) => resolve({ status: error ? 1 : 0, said, root }));
		});
	}
	const pinned = (hash: string): Record<string, string> => ({ pinned: `alpha==1.0 --hash=sha256:${hash}\n` });
	const refused: [string, Record<string, string>, () => Promise<Record<string, string>> | Record<string, string>, RegExp][] = [
		['a wheel with another hash', pinned('1'.repeat(64)), () => ({ CAISSON_INDEX_URL: index.url }), /E: wheels: a file of the package index is not the one that the list names/],
		['a list with an address', { pinned: 'alpha @ http://127.0.0.1/alpha.whl\n' }, () => ({ CAISSON_INDEX_URL: index.url }), /E: wheels: the list of wheels has 'alpha'/],
		['a list with an option', { pinned: '--extra-index-url http://127.0.0.1/\n' }, () => ({ CAISSON_INDEX_URL: index.url }), /E: wheels: the list of wheels has/],
		['a list without a hash', { pinned: 'alpha==1.0\n' }, () => ({ CAISSON_INDEX_URL: index.url }), /E: wheels: the list of wheels has no hash for alpha==1\.0/],
		['a package without a wheel', { names: 'sourceonly\n' }, () => ({ CAISSON_INDEX_URL: index.url }), /E: wheels: No matching distribution found for sourceonly/],
		['an index that does not answer', pinned(sha256(alpha)), async () => ({ CAISSON_INDEX_URL: `http://127.0.0.1:${await freePort()}/simple` }), /E: wheels: the package index cannot be reached/],
	];
	const refuses = async (files: (typeof refused)[number][1], env: (typeof refused)[number][2], words: RegExp): Promise<void> => {
		const r = await hook(files, await env());
		assert.notEqual(r.status, 0);
		assert.match(r.said, words);
		assert.ok(!fs.existsSync(path.join(r.root, 'opt/caisson/wheels.json')));
	};
	for (const [what, files, env, words] of refused)
		it(`(slow) refuses ${what}`, () => refuses(files, env, words));
	it('refuses a folder without wheels', () =>
		refuses(pinned(sha256(alpha)), () => ({ CAISSON_WHEEL_DIR: scratch('empty') }), /E: wheels: .*SANDBOX_PIP_WHEEL_DIR.* has no wheel/));
	it('(slow) without a network: a folder of wheels', async () => {
		const wheels = scratch('wheels');
		fs.writeFileSync(path.join(wheels, wheelName('alpha', '1.0')), alpha, { mode: 0o644 });
		const r = await hook(pinned(sha256(alpha)), { CAISSON_WHEEL_DIR: wheels, CAISSON_INDEX_URL: 'http://127.0.0.1:1/simple' });
		assert.equal(r.status, 0, r.said);
		assert.equal(JSON.parse(fs.readFileSync(path.join(r.root, 'opt/caisson/wheels.json'), 'utf8')).wheels[0].sha256, sha256(alpha));
		assert.ok(!fs.existsSync(path.join(r.root, 'tmp/caisson-wheels')));
	});
});
