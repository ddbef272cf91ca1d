// SPDX-License-Identifier: Apache-2.0
// A fleet's certificates, ids and workers that only look like ones, for tests of the router.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as https from 'node:https';
import * as path from 'node:path';
import type { Duplex } from 'node:stream';
import { productUid } from './env.ts';
import type { Json } from './session.ts';

/** A router needs no root, and gives it up where it has it. */
export const routerUid = productUid;
export const underRouter: string[] = [];

function openssl(...args: string[]): void {
	const r = spawnSync('openssl', args, { encoding: 'utf8' });
	assert.equal(r.status, 0, r.stderr);
}

const EC = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

/** An authority, and certificates of it by DNS name. */
export class Authority {
	readonly dir: string;
	readonly ca: string;
	private readonly caKey: string;

	constructor(dir: string, name = 'fleet') {
		this.dir = dir;
		this.ca = path.join(dir, `${name}-ca.pem`);
		this.caKey = path.join(dir, `${name}-ca.key`);
		openssl('req', '-x509', ...EC, '-days', '2', '-subj', `/CN=${name}`, '-keyout', this.caKey, '-out', this.ca);
	}

	certificate(role: string, dns = `${role}.caisson.internal`, days = 2): { cert: string; key: string } {
		const cert = path.join(this.dir, `${role}.pem`), key = path.join(this.dir, `${role}.key`), request = path.join(this.dir, `${role}.csr`), ext = path.join(this.dir, `${role}.ext`);
		fs.writeFileSync(ext, `subjectAltName=DNS:${dns}\n`);
		openssl('req', '-new', ...EC, '-subj', `/CN=${role}`, '-keyout', key, '-out', request);
		openssl('x509', '-req', '-in', request, '-CA', this.ca, '-CAkey', this.caKey, '-CAcreateserial', '-days', String(days), '-extfile', ext, '-out', cert);
		return { cert, key };
	}
}

/** Ids of sessions (signatures of links and tokens of E2B have the form of those of MCP), sandboxes of E2B, or tokens of upload links, that the worker of this short id makes, by another implementation of src/fleet/ids.h. */
export function idsOf(keyFile: string, worker: string, n: number, form: 'session' | 'mcp' | 'upload' | 'e2b' = 'session'): string[] {
	const program = `
import hashlib, secrets, sys
key = hashlib.blake2b(open(sys.argv[1], 'rb').read(), digest_size=32).digest()
prefix, kind, rest, digits = {'session': ('sess_', b'1', 12, '0123456789abcdef'), 'mcp': ('', b'3', 24, '0123456789abcdef'), 'upload': ('', b'6', 56, '0123456789abcdef'), 'e2b': ('i', b'4', 12, '0123456789abcdefghijklmnopqrstuvwxyz')}[sys.argv[4]]
def number(value, n):
    return (number(value // len(digits), n - 1) if n > 1 else '') + digits[value % len(digits)]
for _ in range(int(sys.argv[3])):
    head, tail = prefix + number(int(sys.argv[2], 36), 4 if len(digits) == 16 else 3), ''.join(secrets.choice(digits) for _ in range(rest))
    mac = hashlib.blake2b(b'caisson fleet id 1 ' + kind + (head + tail).encode(), key=key, digest_size=16).digest()
    print(head + number(int.from_bytes(mac[:4], 'big'), 4) + tail)
`;
	const r = spawnSync('python3', ['-c', program, keyFile, worker, String(n), form], { encoding: 'utf8' });
	assert.equal(r.status, 0, r.stderr);
	return r.stdout.trim().split('\n');
}

export interface Heard { method: string; url: string; headers: http.IncomingHttpHeaders; body: Buffer; caller: Json | undefined }
type Handler = (req: http.IncomingMessage, res: http.ServerResponse, body: Buffer) => void;

/** What a router believes to be a worker. */
export class FakeWorker {
	readonly id: string;
	readonly heard: Heard[] = [];
	readonly ids: string[];
	readonly sandboxes = new Set<string>();
	connections = 0;
	port = 0;
	ready = true;
	draining = false;
	max = 100;
	faces: string[] | undefined = ['e2b'];
	/** Credentials of what is open here, told in pages of two; and what the router has said of them. */
	open: Json[] = [];
	readonly ended: { owners: string[]; credentials: Json[] }[] = [];
	/** What users have here, and how often it was asked for; undefined: it is a worker that does not count. */
	uses: { version: string; rows: unknown[]; more?: boolean; forgotten?: string; raw?: Json } | undefined;
	usesAsked = 0;
	/** The version of what is stored here; undefined: it moves no sandboxes. What routers ask and order then goes to `handler`. */
	stored: string | undefined;
	handler: Handler | undefined;
	/** Gets requests before their bodies are read. */
	raw: Handler | undefined;
	onUpgrade: ((req: http.IncomingMessage, socket: Duplex) => void) | undefined;
	private isDown = false;
	private readonly server: https.Server;
	private readonly sockets = new Set<Duplex>();
	readonly epoch = randomBytes(8).toString('hex');

	constructor(id: string, files: { cert: string; key: string }, ca: string, ids: string[]) {
		this.id = id;
		this.ids = ids;
		this.server = https.createServer({ cert: fs.readFileSync(files.cert), key: fs.readFileSync(files.key), ca: fs.readFileSync(ca), requestCert: true, rejectUnauthorized: true }, (req, res) => this.take(req, res));
		this.server.on('secureConnection', (s) => {
			this.connections++;
			if (this.isDown)
				s.destroy();
			this.sockets.add(s);
			s.on('close', () => this.sockets.delete(s)).on('error', () => undefined);
		}).on('tlsClientError', () => undefined);
		this.server.on('upgrade', (req: http.IncomingMessage, socket: Duplex) => this.onUpgrade?.(req, socket));
		this.server.keepAliveTimeout = 120_000;
	}

	async listen(port = 0, host = '127.0.0.1'): Promise<this> {
		await new Promise<void>((resolve) => this.server.listen(port, host, resolve));
		this.port = (this.server.address() as { port: number }).port;
		return this;
	}
	get at(): string {
		return `127.0.0.1:${this.port}`;
	}
	/** Cuts every connection, and takes none. */
	close(): void {
		this.server.close();
		this.cut();
	}
	/** For connections from now on. */
	renew(files: { cert: string; key: string }, ca: Buffer): void {
		this.server.setSecureContext({ cert: fs.readFileSync(files.cert), key: fs.readFileSync(files.key), ca });
	}
	/** Answers nothing until up(). */
	down(): void {
		this.isDown = true;
		this.cut();
	}
	up(): void {
		this.isDown = false;
	}
	cut(): void {
		for (const s of this.sockets)
			s.destroy();
	}

	private take(req: http.IncomingMessage, res: http.ServerResponse): void {
		if (req.url === '/fleet/state') {
			this.say(res, 200, { v: 1, version: '0', name: 'one', worker: this.id, epoch: this.epoch, draining: this.draining, ready: this.ready, sandboxes: { open: this.sandboxes.size, max: this.max }, images: ['science'], profile: 'full', faces: this.faces, ...(this.uses ? { uses: this.uses.version } : {}), ...(this.stored ? { stored: this.stored } : {}) });
			return;
		}
		if (req.url!.startsWith('/fleet/uses')) {
			this.usesAsked++;
			this.say(res, 200, this.uses!.raw ?? { v: 1, version: this.uses!.version, more: this.uses!.more ?? false, uses: this.uses!.rows, ...(this.uses!.forgotten ? { forgotten: this.uses!.forgotten } : {}) });
			return;
		}
		if (req.url!.startsWith('/fleet/credentials')) {
			const from = Number.parseInt(/after=([0-9a-f]{16})$/.exec(req.url!)?.[1] ?? '0', 16), rest = this.open.length > from + 2;
			this.say(res, 200, { v: 1, credentials: this.open.slice(from, from + 2), ...(rest ? { next: (from + 2).toString(16).padStart(16, '0') } : {}) });
			return;
		}
		if (req.url === '/fleet/ended') {
			const pieces: Buffer[] = [];
			req.on('data', (b: Buffer) => pieces.push(b)).on('end', () => {
				this.ended.push(JSON.parse(Buffer.concat(pieces).toString()) as { owners: string[]; credentials: Json[] });
				this.say(res, 204, undefined);
			});
			return;
		}
		if (this.raw) {
			this.raw(req, res, Buffer.alloc(0));
			return;
		}
		const pieces: Buffer[] = [];
		req.on('data', (b: Buffer) => pieces.push(b)).on('end', () => {
			const body = Buffer.concat(pieces), header = req.headers['caisson-caller'];
			this.heard.push({ method: req.method!, url: req.url!, headers: req.headers, body, caller: typeof header === 'string' ? JSON.parse(Buffer.from(header, 'base64url').toString()) as Json : undefined });
			(this.handler ?? ((a, b) => this.answer(a, b)))(req, res, body);
		});
	}
	say(res: http.ServerResponse, status: number, body: Json | undefined, headers: http.OutgoingHttpHeaders = {}): void {
		const text = body === undefined ? '' : JSON.stringify(body);
		res.writeHead(status, { ...(text ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) } : {}), ...headers });
		res.end(text);
	}
	answer(req: http.IncomingMessage, res: http.ServerResponse): void {
		const id = /^\/api\/v1\/sandboxes\/([^/?]+)/.exec(req.url!)?.[1];
		if (req.method === 'POST' && req.url!.startsWith('/api/v1/sandboxes') && !id) {
			const fresh = this.ids[this.sandboxes.size]!;
			this.sandboxes.add(fresh);
			this.say(res, 201, { id: fresh, worker: this.id });
		} else if (id && this.sandboxes.has(id) && req.method === 'DELETE') {
			this.sandboxes.delete(id);
			this.say(res, 204, undefined);
		} else if (id && this.sandboxes.has(id)) {
			this.say(res, 200, { id, worker: this.id });
		} else if (req.url!.startsWith('/api/v1/sandboxes') && !id) {
			this.say(res, 200, { sandboxes: [...this.sandboxes].map((s) => ({ id: s })) });
		} else {
			this.say(res, 404, { code: 'session_not_found', status: 404, detail: 'no' });
		}
	}
}
