// SPDX-License-Identifier: Apache-2.0
// Certificates of a fleet, and a router that is none: it says to a worker whatever a test wants.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as https from 'node:https';
import * as path from 'node:path';
import { Readable } from 'node:stream';
import { freePort, newStateDir, productUid, scratch } from './env.ts';
import type { Program } from './process.ts';
import { serve, type Json } from './session.ts';

export const ROUTER = 'router.caisson.internal', WORKER = 'worker.caisson.internal';

function openssl(...args: string[]): void {
	const r = spawnSync('openssl', args, { encoding: 'utf8' });
	assert.equal(r.status, 0, `openssl ${args.join(' ')}: ${r.stderr}`);
}

export interface Pair { cert: string; key: string }

/** An authority in a folder of its own. */
export class Authority {
	readonly dir: string;
	readonly own: Pair;

	constructor(name: string) {
		this.dir = scratch(name);
		this.own = { cert: path.join(this.dir, 'ca.pem'), key: path.join(this.dir, 'ca.key') };
		openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=fleet', '-addext', 'basicConstraints=critical,CA:true', '-keyout', this.own.key, '-out', this.own.cert);
		fs.chownSync(this.own.cert, productUid, productUid);
	}

	/** A certificate with the alternative names NAMES ("DNS:…"; '' = none). KEY: how openssl makes another kind of key. */
	issue(file: string, names: string, o: { days?: number; subject?: string; more?: string; key?: string[] } = {}): Pair {
		const at = (end: string): string => path.join(this.dir, `${file}.${end}`);
		fs.writeFileSync(at('ext'), `basicConstraints=critical,CA:false\n${names && `subjectAltName=${names}\n`}${o.more ?? ''}`);
		openssl('genpkey', ...o.key ?? ['-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:prime256v1'], '-out', at('key'));
		openssl('req', '-new', '-key', at('key'), '-subj', o.subject ?? '/CN=member', '-out', at('csr'));
		openssl('x509', '-req', '-in', at('csr'), '-CA', this.own.cert, '-CAkey', this.own.key, '-CAcreateserial', '-days', `${o.days ?? 2}`, '-extfile', at('ext'), '-out', at('pem'));
		for (const end of ['key', 'pem'])
			fs.chownSync(at(end), productUid, productUid);
		return { cert: at('pem'), key: at('key') };
	}
}

/** A caller, as a router writes it. */
export interface Who { v: number; owner: string; name: string; admin: boolean; read_only: boolean; profile: string; key_id: string; signin: string; version: string; how: string; until_ms: number; expires_ms: number; limits: Json; elsewhere?: Json }

const none = { sandboxes: -1, cpu_s_per_day: -1, disk_bytes: -1, runs_per_minute: -1 };
export const local: Who = { v: 1, owner: '', name: 'root', admin: true, read_only: false, profile: '', key_id: '', signin: '', version: '', how: 'local', until_ms: 0, expires_ms: 0, limits: none };
export const user = (name: string, digit: string, more: Partial<Who> = {}): Who =>
	({ ...local, owner: `${digit.repeat(8)}-0000-4000-8000-000000000000`, name, admin: false, how: 'key', key_id: `${digit.repeat(8)}-1111-4000-8000-000000000000`, ...more });
export const header = (who: unknown): string => Buffer.from(typeof who === 'string' ? who : JSON.stringify(who)).toString('base64url');

export interface Answer { status: number; headers: NodeJS.Dict<string | string[]>; text: string; json: Json }
export interface Ask { who?: Who; raw?: string | string[]; body?: unknown; headers?: Record<string, string | string[]>; as?: Pair | null; maxVersion?: 'TLSv1.2' }

export class FakeRouter {
	readonly port: number;
	readonly pair: Pair;
	readonly agent: https.Agent;

	constructor(port: number, pair: Pair) {
		this.port = port;
		this.pair = pair;
		this.agent = new https.Agent({ keepAlive: true, maxSockets: 8 });
	}

	/** The head of an answer; its body comes as it comes. */
	open(method: string, where: string, o: Ask = {}): Promise<import('node:http').IncomingMessage> {
		const body = o.body === undefined || typeof o.body === 'string' || Buffer.isBuffer(o.body) ? o.body : JSON.stringify(o.body);
		const pair = o.as === undefined ? this.pair : o.as;
		const identity = o.raw ?? (o.who && header(o.who));
		return new Promise((resolve, reject) => {
			const req = https.request({
				host: '127.0.0.1', port: this.port, servername: WORKER, method, path: where, rejectUnauthorized: false, agent: o.as === undefined && !o.maxVersion ? this.agent : false, maxVersion: o.maxVersion,
				...(pair ? { cert: fs.readFileSync(pair.cert), key: fs.readFileSync(pair.key) } : {}),
				headers: { host: 'box.example.org', 'x-forwarded-for': '192.0.2.7', 'x-forwarded-proto': 'https', 'x-forwarded-host': 'box.example.org',
					...(body === undefined ? {} : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body as string)) }), ...(identity === undefined ? {} : { 'caisson-caller': identity }), ...o.headers },
			}, resolve).on('error', reject);
			req.end(body);
		});
	}

	async ask(method: string, where: string, o: Ask = {}): Promise<Answer> {
		const r = await this.open(method, where, o);
		const pieces: Buffer[] = [];
		for await (const piece of r)
			pieces.push(piece as Buffer);
		const text = Buffer.concat(pieces).toString();
		return { status: r.statusCode!, headers: r.headers, text, json: r.headers['content-type']?.includes('json') ? JSON.parse(text) as Json : {} };
	}

	/** fetch() through this router, as WHO() at the time of each request; for clients of MCP. */
	fetchAs(who: () => Who): (url: string | URL, init?: RequestInit) => Promise<Response> {
		return async (url, init) => {
			const headers: Record<string, string> = {};
			new Headers(init?.headers).forEach((value, name) => { headers[name] = value; });
			const at = new URL(url);
			const r = await this.open(init?.method ?? 'GET', at.pathname + at.search, { who: who(), headers, body: init?.body ?? undefined });
			init?.signal?.addEventListener('abort', () => r.destroy());
			const empty = [101, 204, 205, 304].includes(r.statusCode!);
			return new Response(empty ? null : Readable.toWeb(r) as ReadableStream, { status: r.statusCode, headers: Object.entries(r.headers).map(([k, v]): [string, string] => [k, String(v)]) });
		};
	}

	end(): void {
		this.agent.destroy();
	}
}

export interface Worker { program: Program; base: string; port: number; router: FakeRouter; env: Record<string, string> }

/** A worker and a router for it. */
export async function startWorker(ca: Authority, o: { profile?: string; env?: Record<string, string> } = {}): Promise<Worker> {
	const key = path.join(ca.dir, 'ids.key'), pair = ca.issue('worker', `DNS:${WORKER}`);
	if (!fs.existsSync(key)) {
		fs.writeFileSync(key, 'a key of the fleet of thirty-two bytes and more');
		fs.chownSync(key, productUid, productUid);
	}
	const port = await freePort();
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_ROLE: 'worker', SANDBOX_TLS_LISTEN: `127.0.0.1:${port}`, SANDBOX_TLS_CERTIFICATE: pair.cert, SANDBOX_TLS_KEY: pair.key,
		SANDBOX_FLEET_CA: ca.own.cert, SANDBOX_FLEET_KEY: key, SANDBOX_FLEET_NAME: 'w1', SANDBOX_HTTP_PORT: 'off', ...o.env };
	const { program, base } = await serve({ profile: o.profile ?? 'full', env });
	return { program, base, port, env, router: new FakeRouter(port, ca.issue('router', `DNS:${ROUTER}`)) };
}
