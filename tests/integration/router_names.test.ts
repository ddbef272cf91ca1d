// SPDX-License-Identifier: Apache-2.0
// Names of workers in the list of a router. The names are those of a small server of DNS in here, which the router alone asks.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import * as dgram from 'node:dgram';
import * as fs from 'node:fs';
import * as https from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { mode, newStateDir, scratch } from '../lib/env.ts';
import { Authority, FakeWorker, idsOf, routerUid } from '../lib/fake-workers.ts';
import type { Program } from '../lib/process.ts';
import { serve } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const SERVER = '127.77.7.53', A = 1, AAAA = 28;

/** RFC 1035, as far as getaddrinfo(3) needs it. */
class Dns {
	/** By name; null: the server fails. */
	readonly names = new Map<string, string[] | null>();
	readonly asked: string[] = [];
	private readonly socket = dgram.createSocket('udp4');

	async listen(): Promise<void> {
		this.socket.on('message', (q, from) => this.socket.send(this.answer(q), from.port, from.address));
		await new Promise<void>((resolve, reject) => this.socket.once('error', reject).bind(53, SERVER, resolve));
	}
	close(): void {
		this.socket.close();
	}
	private answer(q: Buffer): Buffer {
		const labels: string[] = [];
		let at = 12;
		for (; q[at]; at += q[at]! + 1)
			labels.push(q.toString('latin1', at + 1, at + 1 + q[at]!));
		const name = labels.join('.'), type = q.readUInt16BE(at + 1), end = at + 5, known = this.names.get(name);
		this.asked.push(name);
		const data = (known ?? []).filter((a) => a.includes(':') === (type === AAAA)).map((a) => type === A ? Buffer.from(a.split('.').map(Number)) : Buffer.from(a.split('::').map((half, i) => half.split(':').filter(Boolean).map((g) => g.padStart(4, '0')).join('')[i ? 'padStart' : 'padEnd'](i ? 32 - (a.split('::')[0]!.split(':').filter(Boolean).length * 4) : 0, '0')).join(''), 'hex'));
		const head = Buffer.alloc(12);
		q.copy(head, 0, 0, 2);
		head.writeUInt16BE(known === null ? 0x8182 : known ? 0x8180 : 0x8183, 2);
		head.writeUInt16BE(1, 4);
		head.writeUInt16BE(data.length, 6);
		const records = data.map((d) => {
			const r = Buffer.alloc(12);
			r.writeUInt16BE(0xc00c, 0);
			r.writeUInt16BE(type, 2);
			r.writeUInt16BE(1, 4);
			r.writeUInt16BE(d.length, 10);
			return Buffer.concat([r, d]);
		});
		return Buffer.concat([head, q.subarray(12, end), ...records]);
	}
}

/** The API server of Kubernetes, as far as it has EndpointSlices of one Service. */
class Api {
	addresses: string[] = [];
	token = 'first';
	refused = 0;
	readonly lists: string[] = [];
	private readonly watches = new Set<ServerResponse>();
	private version = 100;
	private readonly server: https.Server;

	constructor(cert: { cert: string; key: string }) {
		this.server = https.createServer({ cert: fs.readFileSync(cert.cert), key: fs.readFileSync(cert.key) }, (req, res) => this.answer(req, res));
	}
	async listen(port = 0): Promise<number> {
		await new Promise<void>((resolve, reject) => this.server.once('error', reject).listen(port, SERVER, resolve));
		return (this.server.address() as AddressInfo).port;
	}
	close(): Promise<unknown> {
		const closed = new Promise((resolve) => this.server.close(resolve));
		this.server.closeAllConnections();
		return closed;
	}
	set(...addresses: string[]): void {
		this.addresses = addresses;
		this.version++;
		this.watches.forEach((res) => res.write('{"type":"MODIFIED","object":{}}\n'));
	}
	get watched(): number {
		return this.watches.size;
	}
	private answer(req: IncomingMessage, res: ServerResponse): void {
		const url = new URL(req.url!, 'https://x'), ask = url.searchParams;
		const known = url.pathname === '/apis/discovery.k8s.io/v1/namespaces/fleet/endpointslices' && ask.get('labelSelector') === 'kubernetes.io/service-name=workers';
		const status = req.headers.authorization !== `Bearer ${this.token}` ? 401 : req.method !== 'GET' || !known ? 404 : 200;
		res.writeHead(status, { 'content-type': 'application/json' });
		if (status !== 200) {
			this.refused++;
			return void res.end('{"kind":"Status"}');
		}
		if (!ask.has('watch')) {
			this.lists.push(req.url!);
			const endpoints = this.addresses.map((a) => ({ addresses: [a], conditions: { ready: false } }));
			return void res.end(JSON.stringify({ kind: 'EndpointSliceList', metadata: { resourceVersion: String(this.version) }, items: [{ addressType: 'IPv4', endpoints }] }));
		}
		if (ask.get('resourceVersion') !== String(this.version))
			return void res.end('{"type":"MODIFIED","object":{}}\n');
		res.flushHeaders();
		this.watches.add(res);
		res.on('close', () => this.watches.delete(res));
	}
}

describe('a router whose workers have names', { skip: mode !== 'root' && 'the port of DNS and a mount need root' }, () => {
	const dir = scratch('router-names'), list = path.join(dir, 'workers'), dns = new Dns(), workers: FakeWorker[] = [];
	const account = path.join(dir, 'account');
	let program: Program, base: string, port: number, api: Api, apiPort: number;

	const writeToken = (): void => {
		fs.writeFileSync(path.join(account, 'token.new'), `${api.token}\n`, { mode: 0o644 });
		fs.renameSync(path.join(account, 'token.new'), path.join(account, 'token'));
	};
	const write = (...lines: string[]): void => {
		fs.writeFileSync(`${list}.new`, lines.map((l) => `${l}\n`).join(''));
		fs.chownSync(`${list}.new`, routerUid, routerUid);
		fs.renameSync(`${list}.new`, list);
	};
	const ready = (text: string): Promise<unknown> => until(`it says: ${text}`, async () => (await (await fetch(`${base}/readyz`)).text()).includes(text), 15_000);

	before(async () => {
		fs.chmodSync(path.dirname(dir), 0o711);
		const authority = new Authority(dir), mine = authority.certificate('router'), theirs = authority.certificate('worker'), keyFile = path.join(dir, 'fleet.key');
		fs.writeFileSync(keyFile, randomBytes(32));
		for (const [id, host] of [['aa1', '127.77.7.1'], ['bb2', '127.77.7.2'], ['cc3', '::1']] as const) {
			workers.push(await new FakeWorker(id, theirs, authority.ca, idsOf(keyFile, id, 2)).listen(workers[0]?.port ?? 0, host));
			port = workers[0]!.port;
		}
		await dns.listen();
		dns.names.set('workers.fleet', ['127.77.7.1', '127.77.7.2']);
		write(`Workers.Fleet:${port}`);
		const conf = path.join(dir, 'resolv.conf'), nss = path.join(dir, 'nsswitch.conf'), state = newStateDir();
		fs.writeFileSync(conf, `nameserver ${SERVER}\noptions timeout:1 attempts:1\n`);
		fs.writeFileSync(nss, 'hosts: dns\npasswd: files\n');
		[dir, keyFile, mine.cert, mine.key, authority.ca, state].forEach((f) => fs.chownSync(f, routerUid, routerUid));
		const env = {
			SANDBOX_STATE_DIR: state, SANDBOX_ROLE: 'router', SANDBOX_FLEET_WORKERS: list, SANDBOX_FLEET_KEY: keyFile, SANDBOX_FLEET_CA: authority.ca,
			SANDBOX_FLEET_CERTIFICATE: mine.cert, SANDBOX_FLEET_CERTIFICATE_KEY: mine.key, SANDBOX_API_KEY: 'k'.repeat(40),
		};
		fs.mkdirSync(account, { mode: 0o755 });
		fs.copyFileSync(authority.ca, path.join(account, 'ca.crt'));
		api = new Api(authority.certificate('api', 'kubernetes.fleet'));
		apiPort = await api.listen();
		writeToken();
		dns.names.set('kubernetes.fleet', [SERVER]);
		Object.assign(env, { KUBERNETES_SERVICE_HOST: 'kubernetes.fleet', KUBERNETES_SERVICE_PORT: String(apiPort) });
		const place = '/run/secrets/kubernetes.io/serviceaccount';
		const under = ['unshare', '-m', 'sh', '-c', `mount --bind ${conf} /etc/resolv.conf && mount --bind ${nss} /etc/nsswitch.conf &&
			mount -t tmpfs run /run && mkdir -p ${place} && mount --bind ${account} ${place} && exec "$0" "$@"`];
		({ program, base } = await serve({ profile: 'full', env, under }));
	});
	after(async () => {
		workers.forEach((w) => w.close());
		dns.close();
		await api?.close();
		program?.kill('SIGTERM');
		assert.equal((await program?.exit).code, 0, program?.stderr);
	});

	it('has all addresses of a name as workers, and follows what the name says', async () => {
		const failed = (): number => program.stderr.split('worker_name_not_resolved').length, before = failed();
		await ready('ready: 2 of 2');
		/* An address of version 6, and what cannot be one of a worker. */
		dns.names.set('workers.fleet', ['::1', '0.0.0.0', '224.0.0.1', '255.255.255.255', '::', 'ff02::1', 'fe80::1']);
		await ready('ready: 1 of 1');
		/* A resolver that fails says nothing about the name, */
		dns.names.set('workers.fleet', null);
		await until('the log says that the name is not resolved', () => failed() > before, 8_000);
		await ready('ready: 1 of 1');
		/* unlike one that knows no address of it. */
		dns.names.set('workers.fleet', []);
		await ready('not ready: 0 of 0');
		dns.names.set('workers.fleet', Array.from({ length: 65 }, (_, i) => `127.78.${i}.1`));
		await until('the log says that there are too many', () => program.stderr.includes('too many addresses'), 8_000);
		assert.match(await (await fetch(`${base}/readyz`)).text(), /0 of 0/);
		assert.ok(dns.asked.length < 40, `${dns.asked.length} questions`);
	});

	it('takes names and addresses together, the same one once, and lets a name go with its line', async () => {
		dns.names.set('workers.fleet', ['127.77.7.1', '127.77.7.2']);
		dns.names.set('other.fleet', ['127.77.7.2']);
		write(`workers.fleet:${port}`, `127.77.7.1:${port}`, `other.fleet:${port}`, `[::1]:${port}`, `none.fleet:${port}`);
		await ready('ready: 3 of 3');
		write(`other.fleet:${port}`);
		await ready('ready: 1 of 1');
		assert.deepEqual([...new Set(dns.asked)].sort(), ['none.fleet', 'other.fleet', 'workers.fleet']);
	});

	it('follows the EndpointSlices of a Service of Kubernetes', async () => {
		api.set('127.77.7.1', '127.77.7.2');
		write(`endpointslices:fleet/workers:${port}`);
		await ready('ready: 2 of 2');
		await until('it waits for changes', () => api.watched === 1, 8_000);
		/* A change is told, also while nobody would ask, and with a token that is new. */
		api.token = 'second';
		writeToken();
		api.set('127.77.7.2');
		await ready('ready: 1 of 1');
		assert.equal(api.refused, 0);
		await until('it waits again', () => api.watched === 1, 8_000);
		const lists = api.lists.length;
		assert.ok(lists <= 4, api.lists.join('\n'));
		/* The wrong account: the log says what it lacks, and the list stays. */
		api.token = 'third';
		api.set();
		await until('the log says what is wrong', () => program.stderr.includes('does not accept the pod'), 8_000);
		await ready('ready: 1 of 1');
	});

	it('keeps the workers of a Service while the API server is away, and asks again (slow)', async () => {
		const failed = (): number => program.stderr.split('worker_name_not_resolved').length;
		writeToken();
		api.set('127.77.7.2');
		write(`endpointslices:fleet/workers:${port}`);
		await until('it waits for changes', () => api.watched === 1, 8_000);
		await ready('ready: 1 of 1');
		const before = failed();
		await api.close();
		await until('the log says that', () => failed() > before, 8_000);
		await ready('ready: 1 of 1');
		api = Object.assign(new Api({ cert: path.join(dir, 'api.pem'), key: path.join(dir, 'api.key') }), { token: api.token, addresses: ['127.77.7.1', '127.77.7.2'] });
		await api.listen(apiPort);
		await ready('ready: 2 of 2');
	});
});
