// SPDX-License-Identifier: Apache-2.0
// Tenants who may do all that they do, and do it to harm. A process of its own (`node hostile_tenants.ts BASE KIND=KEY...`), so that its work does not delay the
// clients that are measured. At its end it prints one line of JSON: how many answers had which status, by kind.

import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import * as net from 'node:net';
import * as os from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

type Json = Record<string, any>;
export type Taken = Record<string, Record<string, number>>;

const UNREAD_MAX = 40; // connections with an answer that nobody reads

/** The process with all of them. */
export class HostileTenants {
	private readonly child: ChildProcess;
	private text = '';

	constructor(base: string, keys: Record<string, string>) {
		this.child = spawn(process.execPath, [fileURLToPath(import.meta.url), base, ...Object.entries(keys).map(([k, v]) => `${k}=${v}`)], { stdio: ['pipe', 'pipe', 'inherit'] });
		this.child.stdout!.setEncoding('utf8').on('data', (t: string) => (this.text += t));
	}

	async end(): Promise<Taken> {
		const gone = new Promise((resolve) => this.child.on('close', resolve));
		this.child.stdin!.end();
		await gone;
		return JSON.parse(this.text) as Taken;
	}
}

class Tenant {
	readonly counts: Record<string, number> = {};
	private readonly sockets: net.Socket[] = [];
	private readonly base: string;
	private readonly key: string;

	constructor(base: string, key: string) {
		this.base = base;
		this.key = key;
	}

	private count(what: string | number): void {
		this.counts[what] = (this.counts[what] ?? 0) + 1;
	}

	async ask(method: string, path: string, body?: Json | FormData, headers: Record<string, string> = {}): Promise<{ status: number; body: Json }> {
		const plain = body instanceof FormData;
		const r = await fetch(this.base + path, { method, headers: { ...(this.key ? { 'x-api-key': this.key } : {}), ...(plain ? {} : { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }), ...headers },
			body: plain ? body : body && JSON.stringify(body) });
		const text = await r.text();
		this.count(r.status);
		return { status: r.status, body: text.startsWith('{') ? JSON.parse(text) as Json : {} };
	}

	async sandbox(options: Json = {}): Promise<string> {
		const r = await this.ask('POST', '/api/v1/sandboxes', options);
		if (!r.body.id) {
			await pause(500);
			throw new Error(`no sandbox: ${r.status}`);
		}
		return r.body.id as string;
	}

	async run(id: string, code: string): Promise<Json> {
		return (await this.ask('POST', `/api/v1/sandboxes/${id}/runs`, { code, wait: true })).body;
	}

	/** A request whose answer is left unread; the oldest ones end. CLOSE_MS: it is closed after that. */
	unread(path: string, closeMs?: number): void {
		const url = new URL(this.base);
		const s = net.connect(Number(url.port), url.hostname, () => s.write(`GET ${path} HTTP/1.1\r\nHost: ${url.host}\r\nX-Api-Key: ${this.key}\r\n\r\n`));
		s.once('data', (b: Buffer) => {
			this.count(`${b.toString('latin1', 9, 12)} unread`);
			s.pause();
			if (closeMs !== undefined)
				setTimeout(() => s.destroy(), closeMs);
		});
		s.on('error', () => this.count('reset'));
		this.sockets.push(s);
		while (this.sockets.length > UNREAD_MAX)
			this.sockets.shift()!.destroy();
	}

	failed(e: Error): void {
		this.count((e.cause as { code?: string } | undefined)?.code ?? e.message.slice(0, 60));
	}

	end(): void {
		this.sockets.forEach((s) => s.destroy());
	}
}

/** What makes a file of many pieces: every second block is a hole. */
const fragments = 'f = open("pieces", "wb")\nfor i in range(6000): f.seek(i * 8192); f.write(b"x" * 4096)\nf.close()';

/** By kind: makes what it needs once; what it does then, again and again. */
const kinds: Record<string, (t: Tenant) => Promise<() => Promise<unknown>>> = {
	exports: async (t) => {
		const id = await t.sandbox();
		for (let i = 0; i < 12; i++)
			await t.run(id, `print("<\\x01&" * 20000) # ${'c'.repeat(30_000)}`);
		return async () => {
			for (const format of ['html', 'ipynb'])
				t.unread(`/api/v1/notebooks/${id}/export?format=${format}`);
			await t.ask('GET', `/api/v1/notebooks/${id}`);
			await pause(100);
		};
	},
	reads: async (t) => {
		const id = await t.sandbox();
		await t.run(id, 'open("odd.txt", "w").write("\\x01" * 9_000_000)\nfor i in range(900): open(f"n\\x02{i}" + "\\x03" * 150, "w").close()');
		const read = { jsonrpc: '2.0', id: 1, method: 'resources/read', params: { uri: `sandbox://${id}/odd.txt`, _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 'load', version: '1' }, 'io.modelcontextprotocol/clientCapabilities': {} } } };
		return async () => {
			await t.ask('POST', '/mcp', read, { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'resources/read', 'mcp-name': read.params.uri });
			await t.ask('GET', `/api/v1/sandboxes/${id}/files`);
			await t.run(id, 'pass');
			await pause(100);
		};
	},
	fragments: async (t) => {
		const id = await t.sandbox();
		return async () => {
			await t.run(id, fragments);
			t.unread(`/api/v1/sandboxes/${id}/files/pieces`, 100);
			await pause(20);
			await t.run(id, 'open("pieces", "r+b").truncate(0)');
			await t.run(id, fragments);
			t.unread(`/api/v1/sandboxes/${id}/files/pieces`, 100);
			await pause(20);
			await t.ask('DELETE', `/api/v1/sandboxes/${id}/files/pieces`);
			await pause(100);
		};
	},
	masks: async (t) => {
		const env = Object.fromEntries(Array.from({ length: 64 }, (_, i) => [`S${i}`, `${'p'.repeat(700)}${i}x`]));
		const id = await t.sandbox({ env });
		return async () => {
			await t.run(id, 'import os, time\npiece = (("p" * 700 + "-") * 90 + "p" * 300).encode()\nend = time.time() + 2\nwhile time.time() < end: os.write(1, piece)');
			await t.ask('PATCH', `/api/v1/sandboxes/${id}`, { env: { S0: `${'p'.repeat(700)}${Date.now()}` } });
			await t.ask('GET', `/api/v1/notebooks/${id}`);
		};
	},
	shown: async (t) => {
		const env = Object.fromEntries(Array.from({ length: 44 }, (_, i) => [`S${i}`, randomBytes(500).toString('hex')]));
		const id = await t.sandbox({ env });
		return async () => {
			const r = await t.run(id, 'import os, random\nclass Page:\n def _repr_html_(self): return "".join(os.environ[f"S{random.randrange(44)}"][:999] + "-" for _ in range(240))\nfor _ in range(4): display(Page())');
			if (!(r.results?.length >= 4)) throw new Error(`four pages were to be shown: ${JSON.stringify(r).slice(0, 300)}`);
			await t.ask('PATCH', `/api/v1/sandboxes/${id}`, { env: { S0: randomBytes(500).toString('hex') } });
		};
	},
	forms: async (t) => async () => {
		const id = await t.sandbox();
		const form = new FormData();
		for (let i = 0; i < 95; i++)
			form.append('file', new Blob(['x'.repeat(2000)]), `f${i}.txt`);
		const sent = t.ask('POST', `/api/v1/sandboxes/${id}/files`, form).catch((e: Error) => t.failed(e));
		await pause(Math.random() * 15);
		await t.ask('DELETE', `/api/v1/sandboxes/${id}?force=true`);
		await sent;
	},
	signins: async (t) => async () => {
		await t.ask('POST', '/api/v1/session', { username: `nobody${Math.floor(Math.random() * 1000)}`, password: 'a wrong password' }, { 'x-caisson-page': '1' });
		await t.ask('GET', '/api/v1/me', undefined, { 'x-api-key': 'csn_00000000000000000000000000000000' });
	},
};

export const tenantKinds = Object.keys(kinds);

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	const [base, ...args] = process.argv.slice(2);
	os.setPriority(0); // the parent's may be higher
	const taken: Taken = {};
	const tenants: Tenant[] = [];
	let ending = false;
	process.stdin.resume().on('end', () => {
		ending = true;
		tenants.forEach((t) => t.end());
		process.stdout.write(JSON.stringify(taken), () => process.exit(0));
	});
	for (const arg of args) {
		const [kind, key] = arg.split('=') as [string, string];
		const t = new Tenant(base!, key);
		tenants.push(t);
		taken[kind] = t.counts;
		void (async () => {
			let act: (() => Promise<unknown>) | undefined;
			while (!ending) {
				try {
					act ??= await kinds[kind]!(t);
					await act();
				} catch (e) {
					if (!ending)
						t.failed(e as Error);
					await pause(50);
				}
			}
		})();
	}
}
