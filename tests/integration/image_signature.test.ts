// SPDX-License-Identifier: Apache-2.0
// SANDBOX_IMAGE_KEY: an image of a registry is taken only if one of the keys has signed it. Each refusal has a twin that differs in nothing but what
// is wrong, and is taken.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { startRegistry } from '../lib/daemon.ts';
import { images, push, slimLayer } from '../lib/downloads.ts';
import { binary, freePort, scratch, scratchInMemory, top } from '../lib/env.ts';
import { asImage, named, Signer, tagOf, type SignOptions } from '../lib/minisign.ts';
import { architecture, image, Registry, root, sha256, tar } from '../lib/oci.ts';
import { caisson } from '../lib/process.ts';

const registry = new Registry();
const signer = new Signer(), stranger = new Signer();
const ours = image([tar(root), tar([{ name: 'opt/mark', body: 'ours' }])]);
const other = image([tar(root), tar([{ name: 'opt/mark', body: 'other' }])]);
const env = { SANDBOX_STATE_DIR: scratchInMemory('signed'), SANDBOX_IMAGE: 'tool' };
const digest = sha256(ours.manifest);
const line = named('tool', digest);
const tool = path.join(top, 'packaging/release/sign');

/** Pulls what the registry has now, with the key of SIGNER unless MORE says otherwise. */
async function pull(more: Record<string, string> = {}, ...args: string[]): Promise<{ code: number | null; said: string }> {
	const r = await caisson(['image', 'pull', ...args], { env: { ...env, SANDBOX_IMAGE_SOURCE: `${registry.host}/some/folder`, SANDBOX_IMAGE_KEY: signer.public, ...more } });
	return { code: r.code, said: r.stderr.toString() };
}
const offer = (...signatures: string[]): void => registry.addTag('some/folder/tool', tagOf(digest), asImage(...signatures));
async function taken(more: Record<string, string> = {}, ...args: string[]): Promise<void> {
	const r = await pull(more, ...args);
	assert.equal(r.code, 0, r.said);
	assert.deepEqual(images(env), ['tool']);
}
async function refused(words: RegExp, more: Record<string, string> = {}, ...args: string[]): Promise<void> {
	const r = await pull(more, ...args);
	assert.match(r.said, words);
	assert.notEqual(r.code, 0);
	assert.deepEqual(images(env), []);
	assert.deepEqual(registry.requests.filter((q) => ours.layers.some((_, i) => q.url.endsWith(layer(i)))), [], 'no layer came');
}
const layer = (i: number): string => JSON.parse(ours.manifest.toString()).layers[i].digest;

describe('a signed image', { skip: process.env.CAISSON_TEST_ENGINE_ENV ? 'the native engine has images of its own' : false }, () => {
	before(() => registry.open());
	after(() => registry.close());
	beforeEach(() => {
		fs.rmSync(path.join(env.SANDBOX_STATE_DIR, 'images'), { recursive: true, force: true });
		registry.removeTags();
		registry.requests.length = 0;
		registry.lie = () => false;
		registry.add('some/folder/tool', ours);
	});

	it('is taken', async () => {
		offer(signer.sign(line));
		await taken();
	});
	it('without a signature is refused, and taken without a key', async () => {
		await refused(/has no signature for tool@sha256:[0-9a-f]{12}…, and SANDBOX_IMAGE_KEY wants one/);
		await taken({ SANDBOX_IMAGE_KEY: '' });
	});
	it('by any of the keys is taken, and by none of them refused', async () => {
		offer(stranger.sign(line));
		await refused(/signed with a key that is not in SANDBOX_IMAGE_KEY/);
		await taken({ SANDBOX_IMAGE_KEY: `${signer.public}, ${stranger.public}` });
	});

	const wrong: [string, RegExp, string, SignOptions?, Signer?][] = [
		['of another digest', /is not one of tool@/, named('tool', other.manifest)],
		['of another name', /is not one of tool@/, named('base', digest)],
		['of the bare digest', /is not one of tool@/, `${digest}\n`],
		['whose comment was changed', /is not one of tool@/, line, { signedComment: 'another' }],
		['cut off after a line', /signature of the image is damaged/, line, { lines: (l) => l.slice(0, 2) }],
		['cut off within a line', /signature of the image is damaged/, line, { lines: (l) => [l[0]!, l[1]!, l[2]!, l[3]!.slice(0, 40)] }],
		['with a line too many', /signature of the image is damaged/, line, { lines: (l) => [...l, 'x'] }],
		['with a damaged letter', /is not one of tool@/, line, { lines: (l) => [l[0]!, l[1]!.slice(0, 60) + (l[1]![60] === 'A' ? 'B' : 'A') + l[1]!.slice(61), l[2]!, l[3]!, ''] }],
		['of the kind without a hash', /signature of the image is damaged/, line, { algorithm: 'Ed' }],
		['that is empty', /signature of the image is damaged/, line, { lines: () => [''] }],
		['that is long', /signature of the image is damaged/, line, { comment: 'x'.repeat(2000) }],
	];
	for (const [what, words, text, options] of wrong) it(`with a signature ${what} is refused`, async () => {
		offer(signer.sign(text, options));
		await refused(words);
		offer(signer.sign(line)); // the twin
		await taken();
	});

	it('by a key with the id of ours is refused', async () => {
		const forger = new Signer();
		signer.id.copy(forger.id);
		offer(forger.sign(line));
		await refused(/is not one of tool@/);
		offer(signer.sign(line));
		await taken();
	});
	it('with two layers of signatures is refused', async () => {
		offer(signer.sign(line), signer.sign(line));
		await refused(/signature of the image is damaged/);
		offer(signer.sign(line));
		await taken();
	});
	it('whose tag was moved to another image is refused', async () => {
		offer(signer.sign(line));
		registry.add('some/folder/tool', other);
		await refused(/has no signature for tool@/);
		registry.add('some/folder/tool', ours);
		await taken();
	});
	it('whose index is signed is taken, and refused if the index names another image', async () => {
		const index = (i: typeof ours): object => ({ schemaVersion: 2, manifests: [{ digest: sha256(i.manifest), size: i.manifest.length, platform: { os: 'linux', architecture } }] });
		const signed = sha256(Buffer.from(JSON.stringify(index(ours))));
		registry.addTag('some/folder/tool', tagOf(signed), asImage(signer.sign(named('tool', signed))));
		registry.add('some/folder/tool', other, index(other));
		await refused(/has no signature for tool@/);
		registry.add('some/folder/tool', ours, index(ours));
		await taken();
		const r = JSON.parse(fs.readFileSync(path.join(env.SANDBOX_STATE_DIR, 'images/tool/manifest.json'), 'utf8'));
		assert.equal(r.digest, signed);
	});
	it('is checked wherever it comes from if the key was set by hand', async () => {
		await refused(/has no signature/, { SANDBOX_IMAGE_SOURCE: '' }, `${registry.host}/some/folder/tool`);
		offer(signer.sign(line));
		await taken({ SANDBOX_IMAGE_SOURCE: '' }, `${registry.host}/some/folder/tool`);
	});
	it('needs keys that are keys', async () => {
		for (const key of ['x', signer.public.slice(0, -4), `${signer.public} ${'y'.repeat(56)}`])
			await refused(/SANDBOX_IMAGE_KEY: '.*' is no public key of minisign/, { SANDBOX_IMAGE_KEY: key });
		await refused(/more than 4 keys/, { SANDBOX_IMAGE_KEY: Array.from({ length: 5 }, () => signer.public).join(',') });
		assert.equal(registry.requests.length, 0);
	});

	it('of packaging/release/images is the same each time, is taken from a real registry and runs', async () => {
		const key = path.join(scratch('key'), 'key'), out = scratch('out'), layout = path.join(out, 'base'), port = await freePort();
		const file = path.join(scratch('slim'), 'base.tar'), built = { SANDBOX_STATE_DIR: scratchInMemory('built') };
		fs.writeFileSync(file, slimLayer());
		assert.equal((await caisson(['image', 'import', 'base', file], { env: built })).code, 0);
		execFileSync(tool, ['key', key]);
		assert.equal(fs.statSync(key).mode & 0o777, 0o600);
		assert.throws(() => execFileSync(tool, ['key', key], { stdio: 'pipe' }), /File exists/);
		const made = (): Record<string, Buffer> => {
			execFileSync(path.join(top, 'packaging/release/images'), ['--key', key, '--tag', '1.0', '--out', out, '--program', binary, 'base'], { stdio: 'pipe', env: { ...process.env, ...built } });
			return Object.fromEntries((fs.readdirSync(layout, { recursive: true }) as string[]).sort().filter((f) => fs.statSync(path.join(layout, f)).isFile()).map((f) => [f, fs.readFileSync(path.join(layout, f))]));
		};
		const once = made(), twice = made();
		assert.deepEqual(Object.keys(once), Object.keys(twice));
		for (const f of Object.keys(once))
			assert.ok(once[f]!.equals(twice[f]!), `${f} is the same each time`);
		const stop = await startRegistry(scratch('registry'), `127.0.0.1:${port}`);
		try {
			const state = { SANDBOX_STATE_DIR: scratchInMemory('state'), SANDBOX_IMAGE: 'base', SANDBOX_IMAGE_SOURCE: `127.0.0.1:${port}/some`, SANDBOX_IMAGE_KEY: fs.readFileSync(`${key}.pub`, 'utf8').split('\n')[1]! };
			await push(layout, `http://127.0.0.1:${port}`, 'some/base');
			const bad = await caisson(['run', '-c', 'print(6 * 7)'], { env: { ...state, SANDBOX_IMAGE_KEY: signer.public } });
			assert.match(bad.stderr.toString(), /signed with a key that is not in SANDBOX_IMAGE_KEY/);
			const good = await caisson(['run', '-c', 'print(6 * 7)'], { env: state });
			assert.equal(good.stdout.toString(), '42\n', good.stderr.toString());
		} finally {
			await stop();
		}
	});
});
