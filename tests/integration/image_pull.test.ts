// SPDX-License-Identifier: Apache-2.0
// `caisson image pull`: which name an image gets, which machine's manifest is taken, how it goes on after an interruption, and what a
// registry is asked for. More of what a hostile registry cannot do is in image_import.test.ts: both commands fetch in the same way.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import * as path from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { Downloads } from '../lib/downloads.ts';
import { binary, mode, scratch } from '../lib/env.ts';
import { architecture, image, Registry, root, sha256, tar } from '../lib/oci.ts';
import { caisson, start } from '../lib/process.ts';
import { until } from '../lib/wait.ts';

const state = { SANDBOX_STATE_DIR: scratch('pull') };
const store = path.join(state.SANDBOX_STATE_DIR, 'images');
const registry = new Registry();
const small = image([tar(root), tar([{ name: 'opt/mark', body: 'small' }])]);

before(async () => {
	await registry.open();
	registry.add('team/tool', small);
	registry.add('other/tool', small);
});
after(() => registry.close());
beforeEach(() => {
	fs.rmSync(store, { recursive: true, force: true });
	registry.lie = () => false;
	registry.requests.length = 0;
});

async function pull(reference: string, ...more: string[]): Promise<{ code: number | null; said: string }> {
	const r = await caisson(['image', 'pull', reference, ...more], { env: state });
	return { code: r.code, said: r.stderr.toString() + r.stdout.toString() };
}
async function good(reference: string, ...more: string[]): Promise<void> {
	const r = await pull(reference, ...more);
	assert.equal(r.code, 0, r.said);
	assert.deepEqual(hidden(), []);
}
async function bad(words: RegExp, reference: string, ...more: string[]): Promise<void> {
	const r = await pull(reference, ...more);
	assert.match(r.said, words);
	assert.ok(r.code! >= 64 && r.code! <= 78, `${r.code} ${r.said}`);
}
const names = (): string[] => fs.existsSync(store) ? fs.readdirSync(store).sort() : [];
const hidden = (): string[] => names().filter((n) => n.startsWith('.') && n !== '.lock');
const images = (): string[] => names().filter((n) => !n.startsWith('.'));
const marks = (name: string): string => fs.readFileSync(path.join(store, name, 'root/opt/mark'), 'utf8');
const facts = (name: string): Record<string, any> => JSON.parse(fs.readFileSync(path.join(store, name, 'manifest.json'), 'utf8'));

describe('the name', () => {
	it('is the last part of the reference', async () => {
		await good(`${registry.host}/team/tool:1`);
		assert.deepEqual(images(), ['tool']);
		assert.equal(marks('tool'), 'small');
		assert.equal(facts('tool').origin, `docker://${registry.host}/team/tool:1`);
		assert.equal(facts('tool').digest, sha256(small.manifest));
	});
	it('may be chosen, and the reference may be that of an import', async () => {
		await good(`docker://${registry.host}/team/tool@${sha256(small.manifest)}`, '--name', 'mine');
		assert.deepEqual(images(), ['mine']);
	});
	it('that nobody chose replaces an image of the same repository only', async () => {
		await good(`${registry.host}/team/tool:1`);
		await good(`${registry.host}/team/tool:2`);
		assert.match(facts('tool').origin, /:2$/);
		await bad(/there is an image 'tool' from elsewhere; choose a name with --name/, `${registry.host}/other/tool`);
		assert.match(facts('tool').origin, /team\/tool:2$/);
		await good(`${registry.host}/other/tool`, '--name', 'tool');
		assert.match(facts('tool').origin, /other\/tool$/);
	});
	it('must be one that images can have', async () => {
		await bad(/no name for an image; choose one with --name/, `${registry.host}/team/tool`, '--name', '../tool');
		await bad(/no name for an image; choose one with --name/, `${registry.host}/team/${'x'.repeat(64)}`);
		assert.equal(registry.requests.length, 0);
	});
	it('without a reference is no command', async () => {
		await bad(/usage: caisson image pull/, '--name', 'x');
		await bad(/is no image/, 'UPPER/case');
	});
});

describe('of an index', () => {
	const entry = (i: typeof small, machine: string): object => ({ digest: sha256(i.manifest), size: i.manifest.length, platform: { os: 'linux', architecture: machine } });
	it('with 10,000 entries nothing is taken', async () => {
		registry.add('many', small, { schemaVersion: 2, manifests: Array.from({ length: 10000 }, () => entry(small, architecture)) });
		await bad(/more than 256/, `${registry.host}/many`);
		assert.deepEqual([images(), hidden()], [[], []]);
	});
	it('without this machine nothing is taken, and that is said', async () => {
		registry.add('foreign', small, { schemaVersion: 2, manifests: [entry(small, 's390x')] });
		await bad(/not made for linux\//, `${registry.host}/foreign`);
		assert.equal(registry.requests.length, 1);
	});
});

describe('a pull of several layers', () => {
	const layers = (marked: string): Buffer[] => [tar(root), tar([{ name: 'opt/mark', body: marked }]), tar([{ name: 'opt/last', body: 'last' }])];
	const two = image(layers('two'));
	const digestOf = (i: typeof two, n: number): string => JSON.parse(i.manifest.toString()).layers[n].digest;
	/** The last layer does not come before release() is called. */
	function hold(i: typeof two): { release(): void; readonly asked: boolean } {
		let held: ServerResponse[] = [];
		registry.lie = (req, res) => {
			if (!req.url!.endsWith(digestOf(i, 2)))
				return false;
			held.push(res);
			return true;
		};
		return {
			get asked() { return held.length > 0; },
			release() {
				registry.lie = () => false;
				for (const res of held)
					res.end(i.blobs.get(digestOf(i, 2)));
				held = [];
			},
		};
	}
	const unpacked = (): string[] => names().filter((n) => n.startsWith('.build-')).map((n) => path.join(store, n, 'root/opt/mark')).filter((f) => fs.existsSync(f));

	it('unpacks the lower ones while the last is coming', async () => {
		registry.add('team/two', two);
		const last = hold(two);
		const running = good(`${registry.host}/team/two`);
		await until('the second layer, unpacked', () => last.asked && unpacked().length > 0);
		assert.deepEqual(images(), []);
		last.release();
		await running;
		assert.equal(marks('two'), 'two');
		assert.equal(fs.readFileSync(path.join(store, 'two/root/opt/last'), 'utf8'), 'last');
	});
	it('fails on a lower one without waiting for the last', async () => {
		const lying = image(layers('lying'), { config: (c) => c.rootfs.diff_ids[1] = c.rootfs.diff_ids[0] });
		registry.add('team/lying', lying);
		const last = hold(lying);
		await bad(/the image is damaged/, `${registry.host}/team/lying`);
		last.release();
		assert.deepEqual([images(), hidden()], [[], []]);
	});
	it('keeps what came if the last one does not, and says why', async () => {
		registry.add('team/two', two);
		registry.lie = (req, res) => {
			if (!req.url!.endsWith(digestOf(two, 2)))
				return false;
			void until('the second layer, unpacked', () => unpacked().length > 0).then(() => res.socket!.destroy());
			return true;
		};
		await bad(/no answer/, `${registry.host}/team/two`);
		assert.deepEqual([images(), hidden()], [[], ['.fetch']]);
		registry.lie = () => false;
		registry.requests.length = 0;
		await good(`${registry.host}/team/two`);
		assert.deepEqual(registry.requests.filter((r) => r.url.endsWith(digestOf(two, 1))), [], 'the second layer was kept');
	});
	it('ends while one is unpacked and another one comes if the user ends it', async () => {
		registry.add('team/two', two);
		const last = hold(two);
		const p = start(['image', 'pull', `${registry.host}/team/two`], { env: state });
		await until('the second layer, unpacked', () => last.asked && unpacked().length > 0);
		p.kill('SIGINT');
		assert.notEqual((await p.exit).code, 0);
		last.release();
		assert.deepEqual([images(), hidden()], [[], ['.fetch']]);
	});
});

describe('an image that was pulled', () => {
	it('is, exported again, the one that was pulled, also with a Python from elsewhere (slow)', async () => {
		const again = async (name: string): Promise<{ digest: string; config: Record<string, any> }> => {
			const file = path.join(scratch('again'), 'x.tar');
			const r = await caisson(['image', 'export', name, file, '--format', 'oci'], { env: state });
			assert.equal(r.code, 0, r.stderr.toString());
			const get = (n: string): any => JSON.parse(execFileSync('tar', ['-xOf', file, n]).toString());
			const { digest } = get('index.json').manifests[0];
			return { digest, config: get(`blobs/sha256/${get(`blobs/sha256/${digest.slice(7)}`).config.digest.slice(7)}`) };
		};
		const downloads = new Downloads(); // of the image base, built here
		await downloads.open(true);
		try {
			await good(`${downloads.source}/base`);
			assert.equal((await again('base')).digest, sha256(downloads.image.manifest));
		} finally {
			downloads.close();
		}
		// What is added to an image from elsewhere is added once.
		registry.add('team/foreign', image([tar(root)], { config: (c) => c.created = '2001-02-03T04:05:06.789Z' }));
		await good(`${registry.host}/team/foreign`);
		const once = await again('foreign');
		assert.equal(once.config.created, '2001-02-03T04:05:06.789Z');
		const file = path.join(scratch('foreign'), 'x.tar');
		assert.equal((await caisson(['image', 'export', 'foreign', file, '--format', 'oci'], { env: state })).code, 0);
		const now = Math.floor(Date.now() / 1000);
		await until('another second, since files have times in seconds', () => Date.now() / 1000 > now + 1);
		assert.equal((await caisson(['image', 'import', 'foreign', file], { env: state })).code, 0);
		assert.equal((await again('foreign')).digest, once.digest);
	});
});

describe('an interrupted pull', () => {
	// Two layers; the second one is long, and no compression makes it shorter.
	const long = image([tar(root), tar([{ name: 'opt/mark', body: 'long' }, { name: 'opt/noise', body: randomBytes(3 << 20) }])], { plain: true });
	const body = long.layers[1]!;
	const half = body.length >> 1;
	const reference = (): string => `${registry.host}/team/long`;
	const kept = (): string => path.join(store, '.fetch/blobs/sha256', sha256(body).slice(7));
	const isLong = (req: { url?: string }): boolean => req.url!.endsWith(sha256(body));
	const asked = (): (string | undefined)[] => registry.requests.filter(isLong).map((r) => r.range);
	before(() => registry.add('team/long', long));

	/** Sends the first half and breaks off. */
	function cut(res: ServerResponse, from = 0): void {
		res.writeHead(from ? 206 : 200, { 'content-length': body.length - from, ...from ? { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` } : {} });
		res.write(body.subarray(from, from + half), () => res.socket!.destroySoon());
	}
	/** The first request gets a half, later ones what LATER says; true: it has answered. */
	function cutFirst(later: (req: IncomingMessage, res: ServerResponse) => boolean): void {
		let first = true;
		registry.lie = (req, res) => {
			if (!isLong(req))
				return false;
			if (!first)
				return later(req, res);
			first = false;
			cut(res);
			return true;
		};
	}
	/** A pull that ends without the second half, which then is kept. */
	async function interrupt(): Promise<void> {
		cutFirst((_, res) => { res.socket!.destroy(); return true; });
		await bad(/what came is kept[^]*answer/, reference());
		assert.deepEqual(hidden(), ['.fetch']);
		assert.equal(fs.statSync(kept()).size, half);
		registry.lie = () => false;
		registry.requests.length = 0;
	}

	it('goes on by itself where it broke off', async () => {
		cutFirst(() => false);
		await good(reference());
		assert.deepEqual(asked(), [undefined, `bytes=${half}-`]);
		assert.equal(marks('long'), 'long');
	});
	it('takes everything of a server that knows no ranges', async () => {
		cutFirst((_, res) => { res.end(body); return true; });
		await good(reference());
		assert.equal(asked().length, 2);
	});
	it('keeps what came, and the next one asks for the rest alone', async () => {
		await interrupt();
		await good(reference());
		assert.deepEqual(asked(), [`bytes=${half}-`]);
		assert.equal(registry.requests.filter((r) => r.url.includes('/blobs/')).length, 1); // the other blobs were complete
		assert.equal(marks('long'), 'long');
	});
	it('trusts nothing of what it kept', async () => {
		await interrupt();
		fs.writeFileSync(kept(), Buffer.alloc(half, 'x'));
		await good(reference());
		assert.deepEqual(asked(), [`bytes=${half}-`, undefined]);
		await interrupt();
		fs.writeFileSync(kept(), Buffer.alloc(body.length, 'x'));
		await good(reference());
		assert.deepEqual(asked(), [undefined]);
		await interrupt();
		fs.writeFileSync(kept(), Buffer.alloc(body.length + 1, 'x'));
		await good(reference());
		assert.deepEqual(asked(), [undefined]);
	});
	it('is forgotten when another image is pulled', async () => {
		await interrupt();
		await good(`${registry.host}/team/tool`);
		await good(reference());
		assert.deepEqual(asked(), [undefined]);
	});
	for (const [what, lie, words] of [
		['another part', (res) => { res.writeHead(206, { 'content-range': `bytes 0-${body.length - 1}/${body.length}` }).end(body); }, /another part than was asked for/],
		['a part without its place', (res) => { res.writeHead(206).end(body.subarray(half)); }, /another part than was asked for/],
		['more than the rest', (res) => { res.writeHead(206, { 'content-range': `bytes ${half}-${body.length}/${body.length + 1}` }).end(Buffer.concat([body.subarray(half), Buffer.from('x')])); }, /larger than announced/],
		['a rest that is something else', (res) => { res.writeHead(206, { 'content-range': `bytes ${half}-${body.length - 1}/${body.length}` }).end(Buffer.alloc(body.length - half)); }, /something else/],
	] as [string, (res: ServerResponse) => void, RegExp][])
		it(`gets ${what}, and nothing stays`, async () => {
			cutFirst((_, res) => { lie(res); return true; });
			await bad(words, reference());
			assert.deepEqual([images(), hidden()], [[], []]);
		});
	it('that breaks off again and again ends', async () => {
		registry.lie = (req, res) => {
			if (!isLong(req))
				return false;
			const from = Number(/\d+/.exec(req.headers.range ?? '0')![0]);
			res.writeHead(from ? 206 : 200, { 'content-length': body.length - from, 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` });
			res.write(body.subarray(from, from + 100), () => res.socket!.destroySoon());
			return true;
		};
		await bad(/what came is kept/, reference());
		assert.ok(asked().length >= 6 && asked().length < 12, `${asked().length}`);
	});
	it('by Ctrl-C leaves what can be resumed and nothing else', async () => {
		registry.lie = (req, res) => {
			if (!isLong(req))
				return false;
			res.writeHead(200, { 'content-length': body.length });
			res.write(body.subarray(0, half));
			return true;
		};
		const p = start(['image', 'pull', reference()], { env: state });
		try {
			await until('half a blob', () => fs.existsSync(kept()) && fs.statSync(kept()).size === half);
			p.kill('SIGINT');
			const r = await p.exit;
			assert.match(r.stderr.toString(), /what came is kept/);
			assert.ok(r.code !== 0);
		} finally {
			await p.end();
		}
		assert.deepEqual([images(), hidden()], [[], ['.fetch']]);
		registry.lie = () => false;
		registry.requests.length = 0;
		await good(reference());
		assert.deepEqual(asked(), [`bytes=${half}-`]);
	});
	it('does not hinder one that runs beside it', async () => {
		let held: ServerResponse | undefined;
		cutFirst(() => false);
		const old = registry.lie;
		registry.lie = (req, res) => {
			if (!isLong(req) || held)
				return isLong(req) ? false : old(req, res);
			held = res;
			return true;
		};
		const first = start(['image', 'pull', reference(), '--name', 'first'], { env: state });
		try {
			await until('the request of the first', () => held);
			const second = await pull(reference(), '--name', 'second');
			assert.equal(second.code, 0, second.said);
			held!.end(body);
			const r = await first.exit;
			assert.equal(r.code, 0, r.stderr.toString());
		} finally {
			await first.end();
		}
		assert.deepEqual([images(), hidden()], [['first', 'second'], []]);
	});
});

describe('the registry', () => {
	it('is asked for three blobs at once, and not for more', async () => {
		const five = image(['a', 'b', 'c', 'd'].map((name) => tar([...root, { name }])));
		registry.add('team/five', five);
		let waiting: (() => void)[] = [];
		let seen = 0;
		let most = 0;
		registry.lie = (req, res) => {
			const blob = five.blobs.get(req.url!.split('/').at(-1)!);
			if (!req.url!.includes('/blobs/') || !blob)
				return false;
			waiting.push(() => res.end(blob));
			most = Math.max(most, waiting.length);
			if (waiting.length === 3 || ++seen > 3) {
				// A fourth request would have been sent with these; it gets the time to arrive.
				setTimeout(() => { const now = waiting; waiting = []; now.forEach((answer) => answer()); }, 100);
			}
			return true;
		};
		await good(`${registry.host}/team/five`);
		assert.equal(most, 3);
	});
	it('cannot make it fetch more than an image may have', async () => {
		const huge = image([tar(root), tar([])], { manifest: (m) => m.layers.forEach((l: { size: number }) => l.size = 9 * 2 ** 30) });
		registry.add('team/huge', huge);
		await bad(/layers are too large/, `${registry.host}/team/huge`);
		assert.ok(registry.requests.every((r) => r.url.includes('/manifests/')));
		assert.deepEqual([images(), hidden()], [[], []]);
	});
	if (mode === 'root') // others cannot mount
		it('is asked for nothing that the disk has no room for', async () => {
			const large = image([tar(root), tar([{ name: 'noise', body: randomBytes(6 << 20) }])], { plain: true });
			registry.add('team/large', large);
			const mount = 'mount -t tmpfs -o mode=755,size=5m none "$SANDBOX_STATE_DIR" && exec "$@"';
			const onSmallDisk = (name: string) => start(['--mount', '--propagation', 'private', '--', 'sh', '-c', mount, 'sh', binary, 'image', 'pull', `${registry.host}/team/${name}`],
				{ program: 'unshare', asCaller: true, env: state }).exit;
			const r = await onSmallDisk('large');
			assert.match(r.stderr.toString(), /has 5 MB free and 6 MB are to be fetched; free some space or move it/);
			assert.ok(registry.requests.every((q) => q.url.includes('/manifests/')));
			const fits = await onSmallDisk('tool');
			assert.equal(fits.code, 0, fits.stderr.toString());
		});

	const challenge = (res: ServerResponse): boolean => {
		res.writeHead(401, { 'www-authenticate': `Bearer realm="http://${registry.host}/token",service="s"` }).end();
		return true;
	};
	it('may want a new token while layers come', async () => {
		let tokens = 0;
		registry.lie = (req, res) => {
			if (req.url!.startsWith('/token')) {
				res.end(`{"token": "t${++tokens}"}`);
				return true;
			}
			return req.headers.authorization === `Bearer t${req.url!.includes('/blobs/') ? 2 : 1}` ? false : challenge(res);
		};
		await good(`${registry.host}/team/tool`);
		assert.equal(tokens, 2);
	});
	it('that takes no token is not asked for ever', async () => {
		registry.lie = (req, res) => {
			if (!req.url!.startsWith('/token'))
				return req.url!.includes('/blobs/') && challenge(res);
			res.end('{"token": "t"}');
			return true;
		};
		await bad(/wants another login for this image, or does not have it; 'docker login/, `${registry.host}/team/tool`);
		assert.ok(registry.requests.length < 12, `${registry.requests.length}`);
		assert.deepEqual(hidden(), []);
	});
	for (const [status, words] of [[403, /wants another login/], [429, /too many requests from here; try again later/]] as [number, RegExp][])
		it(`that answers ${status} is understood`, async () => {
			registry.lie = (_, res) => { res.writeHead(status).end(); return true; };
			await bad(words, `${registry.host}/team/tool`);
		});
	it('is asked through the proxy of the environment, unless it is on loopback', async () => {
		registry.lie = (req) => { req.url = req.url!.replace(/^http:\/\/registry\.invalid/, ''); return false; };
		const far = await caisson(['image', 'pull', 'registry.invalid/team/tool', '--plain-http'], { env: { ...state, http_proxy: `http://${registry.host}` } });
		assert.equal(far.code, 0, far.stderr.toString());
		assert.ok(registry.requests.length > 2 && registry.requests.every((r) => r.url.startsWith('http://registry.invalid/v2/')));
		const near = await caisson(['image', 'pull', `${registry.host}/team/tool`, '--name', 'near'], { env: { ...state, http_proxy: 'http://127.0.0.1:1' } });
		assert.equal(near.code, 0, near.stderr.toString());
	});
});
