// SPDX-License-Identifier: Apache-2.0
// Row 57: registries that lie to builds of strangers (SANDBOX_PULLS): what the process that downloads for them can be made to ask, keep or tell. Each case ends with
// the same image from an honest registry. What builds of templates make of it is in tests/integration/build_pulls.test.ts.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { gzipSync } from 'node:zlib';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { scratch, slowness } from '../../../lib/env.ts';
import { image, Registry, root, sha256, tar, type Entry, type Image } from '../../../lib/oci.ts';
import { caisson } from '../../../lib/process.ts';
import type { Json } from '../../../lib/session.ts';
import { until } from '../../../lib/wait.ts';
import type { Case, Outside } from '../case.ts';

interface Said { code: number | null; text: string; ms: number; left: string[]; requests: { url: string; authorization?: string }[] }

const said = (what: string, change: (s: Said) => void): Case['planted'] => ({ what, by: (_r: Json, o: Outside) => void (o.spoil = change) });
const accepted = said('it is said to be accepted', (s) => Object.assign(s, { code: 0, text: 'ready' }));
const good = (): Image => image([tar(root)]);
const withEntries = (...more: Entry[]): Image => image([tar([...root, ...more])]);

class Liar {
	readonly registry = new Registry();
	readonly inside = new Registry();
	readonly state = scratch('state');
	private readonly o: Outside;
	constructor(o: Outside) {
		this.o = o;
	}
	async pull(i: Image, o: { index?: object; lie?: (req: IncomingMessage, res: ServerResponse) => boolean; cache?: string; spoils?: boolean } = {}): Promise<Said> {
		this.registry.add('a/b', i, o.index);
		this.registry.lie = o.lie ?? (() => false);
		this.registry.requests.length = 0;
		const login = scratch('login'), began = performance.now();
		fs.writeFileSync(path.join(login, 'config.json'), JSON.stringify({ auths: { [this.registry.host]: { auth: Buffer.from('operator:secret').toString('base64') }, [this.inside.host]: { auth: Buffer.from('operator:secret').toString('base64') } } }));
		const r = await caisson(['image', 'pull', `${this.registry.host}/a/b:1`, '--for-build'], { env: { ...this.o.env, SANDBOX_STATE_DIR: this.state, SANDBOX_PULLS: `${this.registry.host}/a/*`, SANDBOX_PULL_CACHE: o.cache ?? '64m', DOCKER_CONFIG: login } });
		const store = path.join(this.state, 'images');
		const s: Said = { code: r.code, text: r.stderr.toString() + r.stdout.toString(), ms: performance.now() - began, requests: [...this.registry.requests],
			left: fs.existsSync(store) ? fs.readdirSync(store).filter((n) => n !== '.lock') : [] };
		if (o.spoils !== false)
			this.o.spoil?.(s);
		return s;
	}
	/** It is refused with a sentence, soon, and nothing is left of it or anywhere inside. */
	async refused(i: Image, why: RegExp, o: Parameters<Liar['pull']>[1] = {}): Promise<Said> {
		const s = await this.pull(i, o);
		assert.ok(s.code !== 0 && s.code !== null && s.code >= 64, `${s.code} ${s.text.slice(0, 500)}`);
		assert.match(s.text, why);
		assert.deepEqual(s.left, []);
		assert.deepEqual(this.inside.requests, []);
		assert.ok(s.ms < 20_000 * slowness, `${s.ms} ms`);
		assert.ok(!/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/.test(s.text), 'control characters');
		assert.ok(s.requests.length < 40, `${s.requests.length} requests`);
		assert.ok(s.requests.every((r) => r.authorization === undefined), 'a login of the operator was sent');
		return s;
	}
	async with(body: (l: Liar) => Promise<void>): Promise<void> {
		await this.registry.open();
		await this.inside.open();
		try {
			await body(this);
			const s = await this.pull(good(), { spoils: false });
			assert.equal(s.code, 0, s.text);
			assert.match(s.left.join(), /^pulled\.b-1\.[0-9a-f]{16}$/);
		} finally {
			this.registry.close();
			this.inside.close();
		}
	}
}
const redirect = (to: string, of: string) => (req: IncomingMessage, res: ServerResponse): boolean => {
	if (!req.url!.includes(of))
		return false;
	res.writeHead(307, { location: `${to}${req.url}` });
	res.end();
	return true;
};
const answer = (of: string, body: (req: IncomingMessage) => Buffer | string, headers: Record<string, string> = {}) => (req: IncomingMessage, res: ServerResponse): boolean => {
	if (!req.url!.includes(of))
		return false;
	res.writeHead(200, headers);
	res.end(body(req));
	return true;
};

export const pullCases: Case[] = [
	{
		id: '57a', planted: accepted, attack: 'a registry for builds redirects manifests and layers to addresses inside, and names a login there', must: 'nobody inside is asked', code: '',
		after: (_r, o) => new Liar(o).with(async (l) => {
			const port = l.inside.host.split(':')[1];
			for (const to of [`http://${l.inside.host}`, `https://${l.inside.host}`, `https://localhost:${port}`, `https://127.1:${port}`, `https://[::ffff:127.0.0.1]:${port}`, 'https://169.254.169.254', 'https://[fd00:ec2::254]', 'https://10.0.0.1', 'https://0'])
				for (const what of ['/manifests/', '/blobs/'])
					await l.refused(good(), /is inside the network of this server|names an address without https/, { lie: redirect(to, what) });
			for (const to of [`http://${l.inside.host}`, `https://${l.inside.host}`, 'file:///etc/passwd', 'https://169.254.169.254'])
				await l.refused(good(), /is inside the network of this server|names an address without https/, { lie: (_, res) => {
					res.writeHead(401, { 'www-authenticate': `Bearer realm="${to}/token",service="x"` });
					res.end();
					return true;
				} });
			await l.refused(good(), /wants a login/, { lie: (_, res) => {
				res.writeHead(401, { 'www-authenticate': 'Basic realm="x"' });
				res.end();
				return true;
			} });
			await l.refused(good(), /redirects too often/, { lie: (req, res) => redirect(`http://${l.registry.host}`, '/manifests/')(req, res) });
		}),
	},
	{
		id: '57b', planted: accepted, attack: 'manifests without end, of 100,000 layers, nested without end; indexes that name themselves', must: 'each is refused at a limit', code: '',
		after: (_r, o) => new Liar(o).with(async (l) => {
			await l.refused(good(), /larger than announced/, { lie: answer('/manifests/', () => `{"a":"${'x'.repeat(32 << 20)}"}`) });
			await l.refused(good(), /is no JSON object/, { lie: answer('/manifests/', () => '['.repeat(1 << 20)) });
			await l.refused(image([tar(root)], { manifest: (m) => void (m.layers = Array.from({ length: 100_000 }, () => m.layers[0])) }), /larger than announced/);
			await l.refused(image([tar(root)], { manifest: (m) => void (m.layers = Array.from({ length: 129 }, () => m.layers[0])) }), /list of layers, or one of more than 128/);
			await l.refused(image([tar(root)], { manifest: (m) => void (m.layers[0].size = Number.MAX_SAFE_INTEGER) }), /a part that is too large/);
			await l.refused(image([tar(root)], { manifest: (m) => void (m.layers[0].size = -1) }), /a part that is too large/);
			const list = (digest: string, size: number): object => ({ schemaVersion: 2, mediaType: 'application/vnd.oci.image.index.v1+json', manifests: [{ mediaType: 'application/vnd.oci.image.index.v1+json', digest, size, platform: { os: 'linux', architecture: process.arch === 'x64' ? 'amd64' : 'arm64' } }] });
			/* None can have its own digest; one that says so is found out. */
			await l.refused(good(), /the registry sent something else/, { lie: answer('/manifests/', () => JSON.stringify(list(`sha256:${'a'.repeat(64)}`, 400)), { 'content-type': 'application/vnd.oci.image.index.v1+json' }) });
			let below = sha256(good().manifest), size = good().manifest.length;
			const lists = new Map<string, string>();
			for (let i = 0; i < 6; i++) {
				const text = JSON.stringify(list(below, size));
				[below, size] = [sha256(text), text.length];
				lists.set(below, text);
			}
			const top = lists.get(below)!;
			await l.refused(good(), /nested/, { lie: (req, res) => answer('/manifests/', () => lists.get(req.url!.split('/').at(-1)!) ?? top, { 'content-type': 'application/vnd.oci.image.index.v1+json' })(req, res) });
		}),
	},
	{
		id: '57c', planted: accepted, attack: 'layers that unpack to a thousand times their size, or to many files', must: 'refused; the disk has no more than the limit', code: '',
		after: (_r, o) => new Liar(o).with(async (l) => {
			await l.refused(withEntries({ name: 'bomb', body: Buffer.alloc(256 << 20) }), /larger than what builds have room for now, 67 MB/);
			await l.refused(withEntries({ name: 'holes', size: 2 ** 33 - 1 }), /cannot unpack 'holes'/);
			/* The disk needs a block for each of them; that is seen before all of them are there. */
			await l.refused(withEntries(...Array.from({ length: 1200 }, (_, i) => ({ name: `f/${i}`, body: 'x' }))), /larger than what builds have room for now, 4 MB/, { cache: '4m' });
			await l.refused(withEntries(...Array.from({ length: 1200 }, (_, i) => ({ name: `d/${i}/`, type: 'dir' as const }))), /larger than what builds have room for now, 4 MB/, { cache: '4m' });
			await l.refused(withEntries(...Array.from({ length: 1200 }, (_, i) => ({ name: `m/${i}/x/y`, type: 'link' as const, target: 'z' }))), /larger than what builds have room for now, 4 MB/, { cache: '4m' });
			await l.refused(withEntries(...Array.from({ length: 1200 }, (_, i) => ({ name: `s/${i}`, type: 'link' as const, target: 'z'.repeat(4000) }))), /larger than what builds have room for now, 4 MB/, { cache: '4m' });
		}),
	},
	{
		id: '57d', planted: accepted, attack: 'layers with names that climb, links that lead out and are written through, devices', must: 'refused, and nothing outside is written', code: '',
		after: (_r, o) => new Liar(o).with(async (l) => {
			const before = fs.readFileSync(o.canary, 'utf8');
			for (const more of [[{ name: '../../x', body: 'x' }], [{ name: 'usr/../../../x', body: 'x' }], [{ name: 'out', type: 'link', target: path.dirname(o.canary) }, { name: `out/${path.basename(o.canary)}`, body: 'x' }],
				[{ name: 'hard', type: 'hard', target: `../../../../..${o.canary}` }], [{ name: 'hard', type: 'hard', target: o.canary }]] as Entry[][]) {
				const s = await l.pull(withEntries(...more));
				assert.ok(s.code !== 0 || !JSON.stringify(more).includes('..'), `${JSON.stringify(more)} ${s.text}`);
				assert.equal(fs.readFileSync(o.canary, 'utf8'), before);
				for (const name of s.left)
					await caisson(['image', 'rm', name], { env: { ...o.env, SANDBOX_STATE_DIR: l.state } });
			}
		}),
	},
	{
		id: '57e', planted: accepted, attack: 'a registry that changes what it says: another layer than the manifest names, another size, half a layer for ever, a manifest of another digest', must: 'found out by digest; nothing stays', code: '',
		after: (_r, o) => new Liar(o).with(async (l) => {
			const i = good(), other = gzipSync(tar([...root, { name: 'evil', body: 'x' }]));
			await l.refused(i, /larger than announced/, { lie: answer('/blobs/', () => other) });
			await l.refused(i, /larger than announced/, { lie: answer('/blobs/', () => Buffer.concat([i.blobs.get(JSON.parse(i.manifest.toString()).layers[0].digest)!, Buffer.alloc(1 << 20)])) });
			await l.refused(i, /the registry sent something else/, { lie: answer('/blobs/', () => Buffer.alloc(0)) });
			let asked = 0;
			await l.refused(i, /the answer broke off/, { lie: (req, res) => {
				if (!req.url!.includes('/blobs/'))
					return false;
				asked++;
				res.writeHead(200, { 'content-length': 1 << 20 });
				res.write('half');
				res.socket!.destroySoon();
				return true;
			} });
			assert.ok(asked > 0 && asked < 40, `${asked}`);
		}),
	},
	{
		id: '57f', planted: said('a folder of it is said to be left', (s) => void s.left.push('.build-x')), attack: 'the process that downloads is killed at the manifest, at the configuration, in the middle of a layer and while it unpacks', must: 'no process stays, and the next download works and removes what was left', code: '',
		after: (_r, o) => new Liar(o).with(async (l) => {
			const large = withEntries({ name: 'large', body: randomBytes(24 << 20) });
			const layer = JSON.parse(large.manifest.toString()).layers[0].digest as string;
			const ours = (): number => spawnSync('pgrep', ['-cf', `pull ${l.registry.host}/a/b:1`], { encoding: 'utf8' }).stdout.trim() === '0' ? 0 : 1;
			for (const at of ['/manifests/', sha256(large.config), layer, 'unpack']) {
				const end = (): void => void spawnSync('pkill', ['-KILL', '-of', `pull ${l.registry.host}/a/b:1 --for-build`]);
				const s = await l.pull(large, { spoils: false, lie: (req, res) => {
					if (at === 'unpack' && req.url!.endsWith(layer))
						res.on('finish', () => setImmediate(end));
					if (!req.url!.includes(at))
						return false;
					if (at === layer)
						res.write(large.blobs.get(layer)!.subarray(0, 1 << 20));
					end();
					return true;
				} });
				assert.notEqual(s.code, 0, s.text);
				await until('the end of all its processes', () => ours() === 0);
				const next = await l.pull(good());
				assert.equal(next.code, 0, next.text);
				assert.match(next.left.join(), /^pulled\.b-1\.[0-9a-f]{16}$/, at);
				assert.equal((await caisson(['image', 'rm', next.left[0]!], { env: { ...o.env, SANDBOX_STATE_DIR: l.state } })).code, 0);
			}
		}),
	},
];
