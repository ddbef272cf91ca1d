// SPDX-License-Identifier: Apache-2.0
// What builds begin with, downloaded for them (SANDBOX_PULLS): which references are permitted, what a registry can and cannot make the server
// do, and what stays.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as http from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import * as path from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { Downloads, images } from '../lib/downloads.ts';
import { ADMIN, client, hex, said, type Answer } from '../lib/e2b.ts';
import { binary, engine, mode, scratch, unlessEnforced } from '../lib/env.ts';
import { image, Registry, root, tar, type Image } from '../lib/oci.ts';
import { stateOfItsOwn } from '../lib/own-images.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const possible = mode === 'root' && engine === 'native';
const skip = (!possible && 'only a server that root started, with the native engine, can have root users') || unlessEnforced('memory', 'pids');
const downloads = new Downloads();
const { registry } = downloads;
const elsewhere = new Registry();

describe('downloads of builds', { skip }, () => {
	let program: Program;
	let base: string;
	let port: number;
	let env: Record<string, string> & { SANDBOX_STATE_DIR: string };
	const folder = (): string => `${registry.host}/some/folder`;

	const begin = async (pulls: string, more: Record<string, string> = {}): Promise<void> => {
		const login = scratch('login');
		fs.writeFileSync(path.join(login, 'config.json'), JSON.stringify({ auths: { [registry.host]: { auth: Buffer.from('operator:secret').toString('base64') } } }));
		env = { SANDBOX_STATE_DIR: stateOfItsOwn(), SANDBOX_IMAGE: 'base', SANDBOX_API_KEY: ADMIN, SANDBOX_FACES: 'e2b', SANDBOX_ROOT: 'on', SANDBOX_TEMPLATES: 'on', SANDBOX_PULLS: pulls, DOCKER_CONFIG: login, ...more };
		({ program, base, port } = await serve({ profile: 'full', env }));
	};
	const { ask, control, make, newKey, start } = client(() => ({ base, port }));
	const rest = (method: string, at: string, body?: Json): Promise<Answer> => ask(method, `/api/v1${at}`, { prefix: '', headers: { authorization: `Bearer ${ADMIN}` }, body });

	async function begun(name: string, fromImage: string, key?: string): Promise<Json> {
		const made = await control('POST', '/v3/templates', { name }, key);
		assert.equal(made.status, 202, made.text);
		const r = await control('POST', `/v2/templates/${made.json.templateID}/builds/${made.json.buildID}`, { fromImage, steps: [{ type: 'RUN', args: ['echo built >/srv/built', 'root'] }] }, key);
		assert.deepEqual([r.status, r.text], [202, ''], r.text);
		return made.json;
	}
	const status = async (t: Json, key?: string): Promise<Json> => (await control('GET', `/templates/${t.templateID}/builds/${t.buildID}/status`, undefined, key)).json;
	const logOf = (s: Json): string => s.logEntries.map((e: Json) => e.message).join('\n');
	const ended = (t: Json, key?: string): Promise<Json> => until('the end of a build', async () => {
		const s = await status(t, key);
		return ['ready', 'error'].includes(s.status) ? s : undefined;
	}, 60_000);
	async function good(name: string, from: string): Promise<Json> {
		const s = await ended(await begun(name, from));
		assert.equal(s.status, 'ready', JSON.stringify(s, null, 1));
		return s;
	}
	async function bad(from: string, words: RegExp): Promise<Json> {
		const s = await ended(await begun('bad', from));
		assert.deepEqual([s.status, s.reason?.step], ['error', 'base'], JSON.stringify(s, null, 1));
		assert.match(s.reason.message, words);
		return s;
	}
	/** Images that builds have downloaded, and what is unfinished. */
	const pulled = (): string[] => images(env).filter((n) => n.startsWith('pulled.') || n.startsWith('.build-') || n.startsWith('.fetch'));
	const manifest = (name: string): string => path.join(env.SANDBOX_STATE_DIR, 'images', name, 'manifest.json');
	/** As if NAME had been looked up two days ago. */
	const age = (name: string): void => {
		const then = Date.now() / 1000 - 2 * 86400, store = path.join(env.SANDBOX_STATE_DIR, 'images');
		fs.utimesSync(manifest(name), then, then);
		fs.utimesSync(store, new Date(), new Date());
	};
	async function built(template: string): Promise<string> {
		const box = await make({ templateID: template });
		const all = await start(box, 'cat /srv/built; python3 -c "print(6 * 7)"');
		assert.equal((await control('DELETE', `/sandboxes/${box.id}`)).status, 204);
		return said(all, 'stdout') + said(all, 'stderr');
	}
	const layers = (): number => registry.requests.filter((r) => r.url.includes('/blobs/')).length;

	before(async () => {
		await downloads.open();
		await elsewhere.open();
	});
	after(() => {
		downloads.close();
		elsewhere.close();
	});
	afterEach(() => {
		downloads.clear();
		elsewhere.requests.length = 0;
	});

	describe('of one repository', () => {
		before(() => begin(`${folder()}/base`));
		after(() => program.end());

		it('what is permitted is downloaded once, and runs; it is no choice for sandboxes, and can be listed and removed', async () => {
			const s = await good('first', `${folder()}/base:1`);
			assert.match(logOf(s), new RegExp(`^downloading ${folder()}/base:1: (asking the registry|fetching \\d+ layers?)$`, 'm'));
			assert.equal(await built('first'), 'built\n42\n');
			const [name, ...more] = pulled();
			assert.match(name!, /^pulled\.base-1\.[0-9a-f]{16}$/);
			assert.deepEqual(more, []);
			registry.requests.length = 0;
			await good('second', `docker://${folder()}/base:1`);
			assert.deepEqual(registry.requests, []);
			const choice = await rest('POST', '/sandboxes', { image: name });
			assert.deepEqual([choice.status, choice.json.code], [403, 'forbidden'], choice.text);
			assert.match((await caisson(['image', 'list'], { env })).stdout.toString(), new RegExp(`^${name} `, 'm'));
			assert.equal((await control('DELETE', '/templates/first')).status, 204);
			assert.equal((await control('DELETE', '/templates/second')).status, 204);
		});

		it('(slow) a Dockerfile has it, too, in each of its stages', async () => {
			const box = (await rest('POST', '/sandboxes', {})).json.id;
			await ask('PUT', `/api/v1/sandboxes/${box}/files/Dockerfile?overwrite=true`, { prefix: '', headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/octet-stream' }, body: `FROM ${folder()}/base:1 AS one\nRUN echo one >/made\nFROM ${folder()}/base:2\nCOPY --from=one /made /copied\n` });
			const r = await rest('POST', `/sandboxes/${box}/image`, { name: 'staged', dockerfile: 'Dockerfile' });
			assert.equal(r.status, 202, r.text);
			const end = await until('the end of the build', async () => {
				const { build } = (await rest('GET', '/images')).json;
				return build?.name === 'staged' && ['done', 'failed'].includes(build.state) ? build as Json : undefined;
			}, 60_000);
			assert.deepEqual([end.state, end.reason], ['done', ''], JSON.stringify(end, null, 1));
			assert.ok(end.lines.some((l: string) => l.startsWith(`downloading ${folder()}/base:2: `)), end.lines.join('\n'));
			assert.deepEqual(pulled().map((n) => n.replace(/\.[0-9a-f]{16}$/, '')).sort(), ['pulled.base-1', 'pulled.base-2']);
		});

		it('a build from a Dockerfile that is cancelled stops its download', async () => {
			const box = (await rest('POST', '/sandboxes', {})).json.id;
			await ask('PUT', `/api/v1/sandboxes/${box}/files/Dockerfile?overwrite=true`, { prefix: '', headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/octet-stream' }, body: `FROM ${folder()}/base:never\nRUN true\n` });
			downloads.hold();
			assert.equal((await rest('POST', `/sandboxes/${box}/image`, { name: 'never', dockerfile: 'Dockerfile' })).status, 202);
			await until('half of the layer', () => downloads.asked > 0 || undefined, 20_000);
			const gone = await rest('DELETE', '/images/build'); // a later look may show that templates of the last case were removed
			assert.deepEqual([gone.status, gone.json.state, gone.json.name], [202, 'cancelled', 'never'], gone.text);
			await until('nothing is left', () => pulled().every((n) => !n.startsWith('.')) || undefined, 20_000);
			assert.ok(!pulled().some((n) => n.includes('never')));
		});

		it('nothing else is, however it is written, and nobody is asked', async () => {
			const { host } = registry;
			for (const from of [
				`${folder()}/base-evil`, `${folder()}/basex:1`, `${folder()}/bas`, `${folder()}/base/x`, `${host}/some/folder`, `${host}/base`, `${host}/folder/base`, `x/${folder()}/base`,
				`127.0.0.1/some/folder/base`, `127.0.0.1:1${host.split(':')[1]!.slice(1)}/some/folder/base`, `localhost:${host.split(':')[1]}/some/folder/base`, `[::1]:${host.split(':')[1]}/some/folder/base`,
				'some/folder/base', 'python:3.11-slim', `docker.io/${folder()}/base`, `${folder()}/base2@sha256:${'a'.repeat(64)}`, 'caisson.invalid/some/folder/base',
			])
				await bad(from, /is not on this server; its operator can permit builds to download it in SANDBOX_PULLS/);
			for (const from of [`${folder()}/BASE`, `x@${folder()}/base`, `${host}@elsewhere.example/some/folder/base`, `${folder()}/base:1@sha256:xyz`, `${folder()}/base@md5:00`, `${folder()}/../folder/base`, `${folder()}//base`, `http://${folder()}/base`, '--for-build', '-', `${folder()}/base --name x`, `${folder()}/base\nx`, 'x'.repeat(2000)])
				await bad(from, /is not on this server/);
			assert.deepEqual(registry.requests, []);
		});

		it('the login of the operator is not used for it', async () => {
			registry.lie = (_: IncomingMessage, res: ServerResponse) => {
				res.writeHead(401, { 'www-authenticate': 'Basic realm="x"' });
				res.end('{}');
				return true;
			};
			await bad(`${folder()}/base:secret`, /wants a login.*builds download without one/);
			assert.ok(registry.requests.length > 0 && registry.requests.every((r) => r.authorization === undefined));
			assert.ok((await caisson(['image', 'pull', `${folder()}/base:secret`, '--name', 'own'], { env })).code !== 0);
			assert.ok(registry.requests.some((r) => r.authorization?.startsWith('Basic ')), 'the operator\'s own command uses it');
		});

		it('what a registry has refused is not asked for again at once, by whatever build of its user', async () => {
			const asked = (): number => registry.requests.filter((r) => r.url.includes('/manifests/')).length;
			const refuse = (status: number, headers: Record<string, string> = {}): void => {
				registry.lie = (_, res) => {
					res.writeHead(status, headers);
					res.end('{}');
					return true;
				};
			};
			for (const [tag, status, headers, words, seconds] of [
				['gone', 404, {}, /has no image some\/folder\/base:gone/, 60], ['closed', 403, {}, /wants a login/, 60], ['busy', 429, { 'retry-after': '1800' }, /has had too many requests from here/, 1800], ['vain', 429, { 'retry-after': '999999999999' }, /has had too many requests/, 3600],
			] as [string, number, Record<string, string>, RegExp, number][]) {
				registry.requests.length = 0;
				refuse(status, headers);
				const first = await bad(`${folder()}/base:${tag}`, words);
				assert.match(logOf(first), new RegExp(`: the registry is asked again in ${seconds} s$`, 'm'));
				const before = asked();
				assert.ok(before > 0 && before < 9, `${before}`);
				registry.lie = () => false;
				const again = await bad(`docker://${folder()}/base:${tag}`, words);
				const left = Number(/\(the registry is asked again in (\d+) s\)/.exec(again.reason.message)?.[1]);
				assert.ok(left > seconds - 30 && left <= seconds, again.reason.message);
				assert.equal(asked(), before, tag);
			}
			registry.requests.length = 0;
			refuse(404);
			await bad(`${folder()}/base:other`, /has no image/);
			assert.ok(asked() > 0);
			/* Another user has pushed it since then, maybe. */
			const before = asked(), key = hex(await newKey('ann'));
			assert.equal((await ended(await begun('anns', `${folder()}/base:other`, key), key)).status, 'error');
			assert.ok(asked() > before);
		});

		it('no redirect and no place of logins leads to an address inside', async () => {
			for (const to of [`http://${elsewhere.host}`, `http://localhost:${elsewhere.host.split(':')[1]}`, `https://${elsewhere.host}`, 'https://10.0.0.1', 'https://[::1]', 'https://169.254.169.254', 'https://[::ffff:127.0.0.1]', 'https://2130706433', 'https://localhost']) {
				registry.lie = (req, res) => {
					if (!req.url!.includes('/blobs/'))
						return false;
					res.writeHead(307, { location: `${to}${req.url}` });
					res.end();
					return true;
				};
				await bad(`${folder()}/base:moved`, /is inside the network of this server|names an address without https/);
				registry.lie = (_, res) => {
					res.writeHead(401, { 'www-authenticate': `Bearer realm="${to}/token",service="x"` });
					res.end('{}');
					return true;
				};
				await bad(`${folder()}/base:moved`, /is inside the network of this server|names an address without https/);
			}
			assert.deepEqual(elsewhere.requests, []);
			assert.deepEqual(pulled().filter((n) => n.startsWith('.') || n.includes('moved')), []);
		});

		it('no stored sandbox has one, because it may go: neither from its beginning nor when a session is kept', async () => {
			await program.end();
			({ program, base, port } = await serve({ profile: 'full', env: { ...env, SANDBOX_IMAGES: '*' } }));
			const [name] = pulled();
			const made = await rest('POST', '/sandboxes', { kind: 'stored', image: name });
			assert.deepEqual([made.status, made.json.code], [403, 'forbidden'], made.text);
			assert.match(made.json.detail, /goes when there is no room for it, so no stored sandbox can have it/);
			const session = await rest('POST', '/sandboxes', { image: name });
			assert.equal(session.status, 201, session.text);
			assert.equal((await rest('POST', `/sandboxes/${session.json.id}/runs`, { command: 'echo 1', wait: true })).json.stdout, '1\n');
			const kept = await rest('POST', `/sandboxes/${session.json.id}/keep`, {});
			assert.deepEqual([kept.status, kept.json.code], [403, 'forbidden'], kept.text);
			assert.equal((await rest('POST', `/sandboxes/${session.json.id}/runs`, { command: 'echo 2', wait: true })).json.stdout, '2\n', 'it goes on');
			const own = await rest('POST', '/sandboxes', { kind: 'stored', image: 'base' });
			assert.equal(own.status, 201, own.text);
		});
	});

	describe('with little room', () => {
		const filled = (mark: string): Image => image([tar([...root, { name: `opt/${mark}`, body: Buffer.alloc(1_500_000, mark) }])]);
		const some = image([tar(root), tar([{ name: 'opt/some', body: randomBytes(1_300_000) }])]);
		const team = (): string => `${registry.host}/team`;

		before(async () => {
			for (const name of ['one', 'two', 'three'])
				registry.add(`team/${name}`, filled(name));
			registry.add('team/some', some);
			registry.add('team/large', image([tar([...root, { name: 'opt/large', body: Buffer.alloc(6_000_000) }])]));
			registry.add('team/heavy', image([tar([...root, { name: 'opt/large', body: Buffer.alloc(6_000_000) }])], { plain: true }));
			await begin(`${team()}/*`, { SANDBOX_PULL_CACHE: '4m', SANDBOX_ZYGOTE_IDLE_S: '1' });
		});
		after(() => program.end());

		/** These images have no shell, so a build of one fails after its download. */
		function failed(s: Json): void {
			assert.equal(s.status, 'error');
			assert.doesNotMatch(s.reason.message, /downloaded/, JSON.stringify(s, null, 1));
		}
		const fetched = async (name: string): Promise<Json> => {
			const s = await ended(await begun('room', `${team()}/${name}`));
			failed(s);
			return s;
		};
		const of = (name: string): string[] => pulled().filter((n) => n.startsWith(`pulled.${name}`));
		const unused = (): Promise<unknown> => until('no image is in use', () =>
			pulled().every((n) => spawnSync('flock', ['-n', path.join(env.SANDBOX_STATE_DIR, 'images', n, 'root'), 'true']).status === 0) || undefined, 20_000);

		it('what is larger is refused: by its manifest, or when it has become too large', async () => {
			await bad(`${team()}/heavy`, /its layers have 6 MB, and builds have room for 4 MB \(SANDBOX_PULL_CACHE\)/);
			await bad(`${team()}/large`, /larger than what builds have room for now, 4 MB \(SANDBOX_PULL_CACHE/);
			assert.deepEqual(pulled(), []);
		});

		it('(slow) the one that was looked up longest ago goes first', async () => {
			await fetched('one');
			await fetched('two');
			await unused();
			const now = Date.now() / 1000;
			fs.utimesSync(manifest(of('one')[0]!), now - 100, now - 100);
			fs.utimesSync(manifest(of('two')[0]!), now - 200, now - 200);
			await fetched('some');
			assert.deepEqual([of('one').length, of('two').length, of('some').length], [1, 0, 1]);
			await unused();
		});

		it('no image has what the host\'s disk lacks, whatever the setting says', async () => {
			const pull = (size: string): Promise<string> => new Promise((done) => {
				const child = spawn('unshare', ['-m', 'sh', '-c', `mount -t tmpfs -o size=${size} none "$SANDBOX_STATE_DIR" && exec "$0" image pull ${team()}/heavy --for-build`, binary],
					{ env: { PATH: process.env.PATH, SANDBOX_PULLS: `${team()}/*`, SANDBOX_STATE_DIR: scratch('state') } });
				let text = '';
				for (const out of [child.stdout, child.stderr])
					out.on('data', (d) => text += d);
				child.on('close', () => done(text));
			});
			assert.match(await pull('69m'), /the image is larger than what the disk of the state directory has room for now, 3 MB/);
			assert.match(await pull('63m'), /the disk of the state directory has no room for downloads/);
			assert.match(await pull('200m'), /Image 'pulled\.heavy-latest\.[0-9a-f]{16}' is ready/);
		});

		it('(slow) two builds at once wait for one download, whose lines are in the log; one that is stopped leaves nothing', async () => {
			const { digest } = JSON.parse(some.manifest.toString()).layers[1];
			const layer = some.blobs.get(digest)!;
			let held: ServerResponse[] = [];
			const hold = (): void => {
				registry.lie = (req, res) => {
					if (!req.url!.endsWith(digest))
						return false;
					res.writeHead(200, { 'content-length': layer.length });
					const drip = setInterval(() => res.writableEnded || res.destroyed ? clearInterval(drip) : res.write(layer.subarray(sent, ++sent)), 100);
					let sent = 100;
					res.write(layer.subarray(0, sent));
					res.on('close', () => clearInterval(drip));
					Object.assign(res, { finish: () => res.end(layer.subarray(sent)) });
					held.push(res);
					return true;
				};
			};
			hold();
			const one = await begun('one', `${team()}/some:3`), two = await begun('two', `${team()}/some:3`), other = await begun('other', `${team()}/some:4`);
			for (const t of [one, two])
				await until('how much came', async () => new RegExp(`^downloading ${team()}/some:3: 0 of 1 MB$`, 'm').test(logOf(await status(t))) || undefined, 20_000);
			assert.match(logOf(await status(other)), new RegExp(`^downloading ${team()}/some:4: waiting for another download$`, 'm'));
			for (const name of ['other', 'one'])
				assert.equal((await control('DELETE', `/templates/${name}`)).status, 204);
			registry.lie = () => false;
			held.map((res) => (res as unknown as { finish: () => void }).finish());
			failed(await ended(two));
			assert.equal(layers(), 3, 'a configuration and two layers');
			held = [];
			hold();
			await begun('gone', `${team()}/some:5`);
			await until('a part of the layer', () => held.length > 0 || undefined, 20_000);
			assert.equal((await control('DELETE', '/templates/gone')).status, 204);
			await until('nothing is left', () => pulled().every((n) => !n.startsWith('.')) || undefined, 20_000);
			assert.deepEqual(of('some-5'), []);
			assert.ok(held[0]!.destroyed, 'the connection is closed');
			registry.lie = () => false;
			await unused();
			await fetched('some:5');
			assert.equal(of('some-5').length, 1);
			await unused();
		});

		it('a tag is looked up again after a day: the same image, no answer, another image', async () => {
			await fetched('one:tag');
			const [first] = of('one-tag');
			age(first!);
			registry.requests.length = 0;
			await fetched('one:tag');
			assert.deepEqual([of('one-tag'), registry.requests.length > 0, layers()], [[first], true, 0]);
			registry.requests.length = 0;
			await fetched('one:tag');
			assert.equal(registry.requests.length, 0, 'for another day');
			age(first!);
			registry.lie = (_, res) => {
				res.socket!.destroy();
				return true;
			};
			assert.match(logOf(await fetched('one:tag')), /what was downloaded before is used/);
			registry.lie = () => false;
			age(first!);
			registry.addTag('team/one', 'tag', filled('two'));
			await unused();
			await fetched('one:tag');
			assert.equal(of('one-tag').length, 1);
			assert.notDeepEqual(of('one-tag'), [first]);
			registry.removeTags();
		});

		it('(slow) 256 of them stay, however small they are', async () => {
			await unused();
			for (let i = 0; i < 300; i++) {
				const name = `pulled.small-${i}.0123456789abcdef`;
				fs.mkdirSync(path.join(env.SANDBOX_STATE_DIR, 'images', name, 'root'), { recursive: true });
				fs.writeFileSync(manifest(name), JSON.stringify({ name, source: 'pulled', size_bytes: 1, packages: [] }));
			}
			await fetched('two:many');
			assert.deepEqual([pulled().length, of('two-many').length], [256, 1]);
		});
	});

	it('a public address is asked, unless it is one of this machine', () => {
		const pull = (...before: string[]): string => spawnSync('unshare', ['-n', 'sh', '-c', `${before.join('; ')}\nexec "$0" image pull 8.8.8.8/x --for-build`, binary],
			{ env: { PATH: process.env.PATH, SANDBOX_PULLS: '8.8.8.8/*', SANDBOX_STATE_DIR: scratch('state') }, encoding: 'utf8' }).stderr;
		assert.match(pull(), /8\.8\.8\.8: no answer/);
		assert.match(pull('ip link set lo up', 'ip addr add 8.8.8.8/32 dev lo'), /8\.8\.8\.8:443 is inside the network of this server/);
	});

	it('behind a proxy, too, no name leads to an address inside', async () => {
		const asked: string[] = [];
		const proxy = http.createServer().on('connect', (req, socket) => {
			asked.push(req.url!);
			socket.on('error', () => undefined); // a client that has read the refusal may be gone at once
			socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
		});
		await new Promise<void>((done) => proxy.listen(0, '127.0.0.1', done));
		const own = { SANDBOX_STATE_DIR: scratch('state'), SANDBOX_PULLS: `${folder()}/base`, HTTPS_PROXY: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, NO_PROXY: '*' };
		try {
			for (const [to, words] of [['10.0.0.1', /is inside the network/], ['localhost', /is inside the network/], ['127.0.0.1:1', /is inside the network/], ['8.8.8.8', /no answer/]] as const) {
				registry.lie = (req, res) => {
					if (!req.url!.includes('/blobs/'))
						return false;
					res.writeHead(307, { location: `https://${to}${req.url}` });
					res.end();
					return true;
				};
				assert.match((await caisson(['image', 'pull', `${folder()}/base`, '--for-build'], { env: own })).stderr.toString(), words, to);
			}
			assert.deepEqual([...new Set(asked)], ['8.8.8.8:443'], 'the registry itself is asked without it');
		} finally {
			registry.lie = () => false;
			proxy.close();
		}
	});

	it('a wrong list is told at the start', async () => {
		const r = await caisson(['serve', '--listen', '127.0.0.1:0'], { env: { SANDBOX_STATE_DIR: env.SANDBOX_STATE_DIR, SANDBOX_IMAGE: 'base', SANDBOX_PULLS: 'docker.io/library/*, python:3.11' } });
		assert.equal(r.code, 78, r.stderr.toString());
		assert.match(r.stderr.toString(), /SANDBOX_PULLS: 'python:3\.11' is not allowed; name repositories/);
	});
});
