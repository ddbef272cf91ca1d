// SPDX-License-Identifier: Apache-2.0
// `caisson upgrade --check`: a signed file says what the newest release is. Servers that lie are refused; each refusal has a twin that differs in
// nothing but the lie, and is believed.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as https from 'node:https';
import type { AddressInfo } from 'node:net';
import * as path from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { makeCertificates } from '../lib/daemon.ts';
import { freePort, scratch, top } from '../lib/env.ts';
import { Signer, type SignOptions } from '../lib/minisign.ts';
import { architecture } from '../lib/oci.ts';
import { caisson } from '../lib/process.ts';

type Answer = (req: http.IncomingMessage, res: http.ServerResponse) => void;
const signer = new Signer(), stranger = new Signer();
const version = fs.readFileSync(path.join(top, 'VERSION'), 'utf8').trim();
const elsewhere = architecture === 'amd64' ? 'arm64' : 'amd64';
const hex = 'ab'.repeat(32);
const paths = new Map<string, Answer>();
const asked: string[] = [];
const server = http.createServer(answer);
let secure: https.Server, base = '', secureBase = '', certificates = '';

function answer(req: http.IncomingMessage, res: http.ServerResponse): void {
	asked.push(req.url!);
	const a = paths.get(req.url!);
	if (a)
		a(req, res);
	else
		res.writeHead(404).end('nothing here');
}
const body = (text: string | Buffer): Answer => (_, res) => void res.end(text);
const redirect = (to: string): Answer => (_, res) => void res.writeHead(302, { location: to }).end();
const file = (kind: string, name: string, machine = architecture): object => ({ kind, architecture: machine, name, sha256: hex, size: 5 });
function release(v: string, more: object = {}): string {
	return JSON.stringify({ caisson_release: 1, version: v, files: [file('deb', 'c_1.deb'), file('deb', 'c_2.deb', elsewhere), file('mcpb', 'c.mcpb', 'any')], ...more });
}
/** The file and its signature. */
function offer(text: string, by: Signer = signer, o: SignOptions = {}): void {
	paths.set('/some/release.json', body(text));
	paths.set('/some/release.json.minisig', body(by.sign(text, o)));
}
async function check(more: Record<string, string> = {}, ...args: string[]): Promise<{ code: number | null; out: string; said: string }> {
	const r = await caisson(['upgrade', '--check', ...args], { env: { SANDBOX_RELEASE_URL: `${base}/some/release.json`, SANDBOX_IMAGE_KEY: signer.public, ...more } });
	return { code: r.code, out: r.stdout.toString(), said: r.stderr.toString() };
}
async function refused(words: RegExp, more: Record<string, string> = {}, status?: number): Promise<void> {
	const r = await check(more);
	assert.match(r.said, words);
	assert.equal(r.out, '');
	assert.ok(r.code !== 0 && r.code !== 1, `status ${r.code} says that it is known`);
	if (status !== undefined)
		assert.equal(r.code, status);
}
async function believed(more: Record<string, string> = {}): Promise<void> {
	const r = await check(more);
	assert.equal(r.code, 1, r.said);
	assert.match(r.out, /^caisson 99\.0\.0 is there \(you have /);
}
const listen = (s: http.Server): Promise<string> => new Promise((resolve) => s.listen(0, '127.0.0.1', () => resolve(`127.0.0.1:${(s.address() as AddressInfo).port}`)));

describe('caisson upgrade --check', () => {
	before(async () => {
		const folder = path.join(scratch('tls'), 'certs');
		makeCertificates(folder);
		certificates = path.join(folder, 'ca.pem');
		secure = https.createServer({ key: fs.readFileSync(path.join(folder, 'server-key.pem')), cert: fs.readFileSync(path.join(folder, 'server.pem')) }, answer);
		base = `http://${await listen(server)}`;
		secureBase = `https://${await listen(secure)}`;
	});
	after(() => {
		for (const s of [server, secure]) {
			s.closeAllConnections();
			s.close();
		}
	});
	beforeEach(() => {
		paths.clear();
		asked.length = 0;
		offer(release('99.0.0'));
	});

	it('says that there is a newer one, and where its files for this machine are', async () => {
		const r = await check();
		assert.equal(r.code, 1, r.said);
		assert.equal(r.out, `caisson 99.0.0 is there (you have ${version})\n` +
			[['deb ', 'c_1.deb'], ['mcpb', 'c.mcpb']].map(([kind, name]) => `  ${kind}     ${base}/some/${name}\n           sha256 ${hex}\n`).join(''));
		assert.deepEqual(asked, ['/some/release.json', '/some/release.json.minisig']);
	});
	it('says that this is the newest, also if the newest is older', async () => {
		for (const v of [version, '0.0.1', `${version}-rc1`]) {
			offer(release(v));
			const r = await check();
			assert.equal(r.out, `caisson ${version} is the newest\n`, r.said);
			assert.equal(r.code, 0);
		}
	});
	it('--json', async () => {
		const newer = await check({}, '--json');
		assert.equal(newer.code, 1, newer.said);
		const file = (kind: string, name: string, machine: string): object => ({ kind, architecture: machine, url: `${base}/some/${name}`, sha256: hex, size: 5 });
		assert.deepEqual(JSON.parse(newer.out), { installed: version, newest: '99.0.0', newer: true, files: [file('deb', 'c_1.deb', architecture), file('mcpb', 'c.mcpb', 'any')] });
		offer(release(version, { files: [] }));
		const same = await check({}, '--json');
		assert.equal(same.code, 0, same.said);
		assert.deepEqual(JSON.parse(same.out), { installed: version, newest: version, newer: false, files: [] });
	});
	it('needs an address and a key, and says which is missing', async () => {
		await refused(/^caisson upgrade: set SANDBOX_RELEASE_URL to [^\n]*\n$/, { SANDBOX_RELEASE_URL: '' }, 78);
		await refused(/^caisson upgrade: set SANDBOX_IMAGE_KEY to [^\n]*\n$/, { SANDBOX_IMAGE_KEY: '' }, 78);
		await refused(/is no public key of minisign/, { SANDBOX_IMAGE_KEY: 'x' }, 78);
		assert.deepEqual(asked, []);
		const bare = await caisson(['upgrade'], { env: {} });
		assert.equal(bare.code, 64);
		assert.match(bare.stderr.toString(), /whatever installed caisson upgrades it/);
	});
	it('takes any of the keys', async () => {
		offer(release('99.0.0'), stranger);
		await believed({ SANDBOX_IMAGE_KEY: `${signer.public},${stranger.public}` });
	});
	it('asks by https, and by http on this machine alone', async () => {
		const port = await freePort();
		for (const url of ['http://192.0.2.1/r.json', `ftp://127.0.0.1:${port}/r.json`, 'file:///etc/passwd', '/etc/passwd', 'example.org', `${base}/r.json?x=1`, `${base}/r.json#x`])
			await refused(/SANDBOX_RELEASE_URL is no https address of a file/, { SANDBOX_RELEASE_URL: url }, 78);
		await believed({ SANDBOX_RELEASE_URL: `${secureBase}/some/release.json`, SSL_CERT_FILE: certificates });
		asked.length = 0;
		await refused(/no answer/, { SANDBOX_RELEASE_URL: `${secureBase}/some/release.json` }, 69); // nobody knows this certificate
		assert.deepEqual(asked, []);
	});

	const signatures: [string, RegExp, () => void][] = [
		['is missing', /the release file has no signature \(http/, () => paths.delete('/some/release.json.minisig')],
		['is by another key', /signed with a key that is not in SANDBOX_IMAGE_KEY/, () => offer(release('99.0.0'), stranger)],
		['is of another file', /not one of the release file/, () => paths.set('/some/release.json', body(release('99.0.1')))],
		['is of the line of an image', /not one of the release file/, () => paths.set('/some/release.json.minisig', body(signer.sign(`release.json@sha256:${hex}\n`)))],
		['is of another comment', /not one of the release file/, () => offer(release('99.0.0'), signer, { signedComment: 'x' })],
		['is of the kind without a hash', /signature of the release file is damaged/, () => offer(release('99.0.0'), signer, { algorithm: 'Ed' })],
		['is empty', /signature of the release file is damaged/, () => paths.set('/some/release.json.minisig', body(''))],
		['is long', /release\.json\.minisig has more than 1024 bytes/, () => paths.set('/some/release.json.minisig', body('x'.repeat(1025)))],
	];
	for (const [what, words, lie] of signatures) it(`refuses a file whose signature ${what}`, async () => {
		lie();
		await refused(words, {}, 65);
		offer(release('99.0.0'));
		await believed();
	});

	const documents: [string, RegExp, string][] = [
		['of another format', /of a kind that this version does not know/, release('99.0.0', { caisson_release: 2 })],
		['that is no JSON', /the release file: no JSON/, 'x'],
		['with a path as a name', /the release file: files/, release('99.0.0', { files: [file('deb', '../c.deb')] })],
		['with a control character', /the release file: version/, release('99.0.0\u001b[2J')],
		['with too many files', /the release file: files/, release('99.0.0', { files: Array.from({ length: 33 }, () => file('deb', 'c.deb')) })],
		['that is too large', /release\.json has more than 65536 bytes/, release('99.0.0', { x: 'x'.repeat(1 << 16) })],
	];
	for (const [what, words, text] of documents) it(`refuses a signed file ${what}`, async () => {
		offer(text);
		await refused(words, {}, 65);
	});

	it('follows redirects that keep the scheme, a few of them', async () => {
		paths.set('/from/release.json', redirect('/middle'));
		paths.set('/middle', redirect(`${base}/some/release.json`));
		paths.set('/from/release.json.minisig', redirect(`${base}/some/release.json.minisig`));
		const r = await check({ SANDBOX_RELEASE_URL: `${base}/from/release.json` });
		assert.match(r.out, new RegExp(`${base}/from/c_1\\.deb`), r.said); // the address that was set names the folder
		paths.set('/from/release.json', redirect('/from/release.json'));
		await refused(/redirects too often/, { SANDBOX_RELEASE_URL: `${base}/from/release.json` }, 65);
		assert.ok(asked.length < 20);
	});
	it('follows no redirect to another scheme or machine without TLS', async () => {
		for (const to of ['file:///etc/passwd', `${secureBase}/some/release.json`, 'ftp://127.0.0.1/x', 'http://192.0.2.1/x']) {
			paths.set('/some/release.json', redirect(to));
			await refused(/redirects to an address of another kind/, { SSL_CERT_FILE: certificates }, 65);
		}
		paths.set('/s/release.json', redirect(`${base}/some/release.json`));
		await refused(/redirects to an address of another kind/, { SANDBOX_RELEASE_URL: `${secureBase}/s/release.json`, SSL_CERT_FILE: certificates }, 65);
	});
	it('is told what is wrong with a server', async () => {
		await refused(/no answer/, { SANDBOX_RELEASE_URL: `http://127.0.0.1:${await freePort()}/release.json` }, 69);
		await refused(/the server answered 404/, { SANDBOX_RELEASE_URL: `${base}/none.json` }, 69);
		paths.set('/some/release.json', (_, res) => void res.writeHead(500).end('x'.repeat(1 << 20)));
		await refused(/the server answered 500|more than 65536 bytes/);
		paths.set('/some/release.json', (_, res) => {
			res.writeHead(200, { 'content-length': '1000' }).write('{');
			setImmediate(() => res.destroy());
		});
		await refused(/the answer broke off/, {}, 69);
		paths.set('/some/release.json', (_, res) => void res.writeHead(200, Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`x-${i}`, 'y'.repeat(1000)]))).end('{}'));
		await refused(/more than 65536 bytes/, {}, 65);
	});

	it('believes what packaging/release/list writes, which is the same each time', async () => {
		const folder = scratch('list'), tools = path.join(top, 'packaging/release'), out = path.join(folder, 'release.json');
		const names = ['caisson-99.0.0-linux-x86_64.tar.xz', 'caisson-99.0.0-linux-aarch64.tar.xz', 'caisson_99.0.0_amd64.deb', 'caisson_99.0.0_arm64.deb', 'caisson_mcp-99.0.0-py3-none-manylinux_2_31_x86_64.whl',
			'caisson-linux-x64-99.0.0.tgz', 'caisson-mcp-99.0.0.tgz', 'caisson-mcp-99.0.0.mcpb'];
		for (const n of names)
			fs.writeFileSync(path.join(folder, n), n);
		execFileSync(path.join(tools, 'sign'), ['key', path.join(folder, 'key')]);
		const list = (...files: string[]): Buffer => execFileSync(path.join(tools, 'list'), ['--key', path.join(folder, 'key'), '--version', '99.0.0', '--out', out, ...files.map((f) => path.join(folder, f))], { stdio: 'pipe' });
		const read = (): string[] => [out, `${out}.minisig`].map((f) => fs.readFileSync(f, 'utf8'));
		list(...names);
		const once = read();
		list(...names.toReversed());
		assert.deepEqual(read(), once);
		paths.set('/some/release.json', body(once[0]!));
		paths.set('/some/release.json.minisig', body(once[1]!));
		const r = await check({ SANDBOX_IMAGE_KEY: fs.readFileSync(path.join(folder, 'key.pub'), 'utf8').split('\n')[1]! }, '--json');
		assert.equal(r.code, 1, r.said);
		const here = names.filter((n) => /mcp-99.0.0/.test(n) && !n.endsWith('.whl') || (architecture === 'amd64' ? /x86_64|amd64|x64/ : /aarch64|arm64/).test(n));
		assert.deepEqual(JSON.parse(r.out).files.map((f: { url: string }) => path.basename(f.url)).sort(), here.sort());
		fs.writeFileSync(path.join(folder, 'other.deb'), '');
		assert.throws(() => list('other.deb'), /called like no package of ours/);
	});
});
