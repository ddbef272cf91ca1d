// SPDX-License-Identifier: Apache-2.0
// What stands between a bridge and a server in the tests: an index of npm packages, a server of a few lines, and a wire that can be cut.

import * as fs from 'node:fs';
import * as http from 'node:http';
import * as net from 'node:net';
import * as path from 'node:path';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { gunzipSync } from 'node:zlib';
import type { Json } from '../../lib/session.ts';

async function listening(server: net.Server): Promise<number> {
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	return (server.address() as net.AddressInfo).port;
}

/** The file NAME of a packed npm package. */
function fileOf(archive: Buffer, name: string): Buffer {
	const tar = gunzipSync(archive);
	for (let at = 0; at < tar.length;) {
		const text = (from: number, size: number): string => tar.subarray(at + from, at + from + size).toString().replace(/\0.*$/s, '');
		const size = parseInt(text(124, 12), 8);
		if (text(0, 100) === `package/${name}`)
			return tar.subarray(at + 512, at + 512 + size);
		at += 512 + Math.ceil(size / 512) * 512;
	}
	throw new Error(`no ${name} in the package`);
}

/** An index that has the packages in FOLDER and no other. */
export class NpmIndex {
	readonly asked: string[] = [];
	private readonly server: http.Server;
	url = '';

	private constructor(folder: string) {
		const archives = fs.readdirSync(folder).filter((n) => n.endsWith('.tgz')).map((n) => fs.readFileSync(path.join(folder, n)));
		const packages = new Map(archives.map((a) => [JSON.parse(fileOf(a, 'package.json').toString()).name as string, a]));
		this.server = http.createServer((q, r) => {
			const asked = decodeURIComponent(q.url!.slice(1));
			this.asked.push(asked);
			const [name, isFile] = asked.endsWith('.tgz') ? [asked.slice(0, -4), true] : [asked, false];
			const archive = packages.get(name);
			if (!archive) {
				r.writeHead(404, { 'content-type': 'application/json' }).end('{"error":"not found"}');
				return;
			}
			if (isFile) {
				r.end(archive);
				return;
			}
			const own = JSON.parse(fileOf(archive, 'package.json').toString()) as Json;
			const dist = { tarball: `${this.url}/${encodeURIComponent(name)}.tgz`, integrity: `sha512-${createHash('sha512').update(archive).digest('base64')}` };
			r.writeHead(200, { 'content-type': 'application/json' });
			r.end(JSON.stringify({ name, 'dist-tags': { latest: own.version }, versions: { [own.version]: { ...own, dist } } }));
		});
	}

	static async start(folder: string): Promise<NpmIndex> {
		const index = new NpmIndex(folder);
		index.url = `http://127.0.0.1:${await listening(index.server)}`;
		return index;
	}

	stop(): void {
		this.server.closeAllConnections();
		this.server.close();
	}
}

export interface Seen {
	method: string;
	headers: http.IncomingHttpHeaders;
	message: Json;
}

/** A server whose answers the test writes. */
export class Stub {
	readonly seen: Seen[] = [];
	url = '';
	private readonly server: http.Server;

	private constructor(answer: (q: Seen, r: http.ServerResponse) => void) {
		this.server = http.createServer(async (q, r) => {
			let body = '';
			for await (const piece of q)
				body += String(piece);
			const seen = { method: q.method!, headers: q.headers, message: body ? JSON.parse(body) as Json : {} };
			this.seen.push(seen);
			answer(seen, r);
		});
	}

	static async start(answer: (q: Seen, r: http.ServerResponse) => void): Promise<Stub> {
		const stub = new Stub(answer);
		stub.url = `http://127.0.0.1:${await listening(stub.server)}/mcp`;
		return stub;
	}

	stop(): void {
		this.server.closeAllConnections();
		this.server.close();
	}
}

/** Passes bytes on to a port, until it is told to cut. */
export class Wire {
	port = 0;
	connections = 0;
	/** Told of what the server sends: true cuts that connection before these bytes. */
	cut: (bytes: Buffer) => boolean = () => false;
	private readonly open = new Set<net.Socket>();
	private readonly server: net.Server;

	private constructor(to: number) {
		this.server = net.createServer((client) => {
			const server = net.connect(to, '127.0.0.1');
			this.connections++;
			for (const s of [client, server]) {
				this.open.add(s);
				s.on('error', () => {}).on('close', () => this.open.delete(s));
			}
			client.pipe(server);
			server.on('data', (bytes) => {
				if (this.cut(bytes)) {
					client.destroy();
					server.destroy();
				} else {
					client.write(bytes);
				}
			}).on('end', () => client.end());
		});
	}

	static async start(to: number): Promise<Wire> {
		const wire = new Wire(to);
		wire.port = await listening(wire.server);
		return wire;
	}

	stop(): void {
		this.server.close();
		this.open.forEach((s) => s.destroy());
	}
}
