// SPDX-License-Identifier: Apache-2.0
// Wheels made by hand, good and hostile ones, and an index on loopback that serves them.

import { createHash } from 'node:crypto';
import * as http from 'node:http';
import * as net from 'node:net';
import * as zlib from 'node:zlib';

export interface Member {
	name: string;
	text: string | Buffer;
	/** Unix mode, file type included. */
	mode?: number;
}

/** A zip archive; members are deflated, names stand as they are. */
export function zip(members: Member[]): Buffer {
	const parts: Buffer[] = [];
	const directory: Buffer[] = [];
	let at = 0;
	for (const m of members) {
		const data = Buffer.from(m.text as string);
		const packed = zlib.deflateRawSync(data);
		const name = Buffer.from(m.name);
		const common = Buffer.alloc(26);
		common.writeUInt16LE(20, 0);
		common.writeUInt16LE(0x800, 2);
		common.writeUInt16LE(8, 4);
		common.writeUInt16LE(0x21, 8);
		common.writeUInt32LE(zlib.crc32(data), 10);
		common.writeUInt32LE(packed.length, 14);
		common.writeUInt32LE(data.length, 18);
		common.writeUInt16LE(name.length, 22);
		const local = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), common, name, packed]);
		const tail = Buffer.alloc(14);
		tail.writeUInt32LE(((m.mode ?? 0o100644) << 16) >>> 0, 6);
		tail.writeUInt32LE(at, 10);
		directory.push(Buffer.from('PK\x01\x02\x14\x03', 'latin1'), common, tail, name);
		parts.push(local);
		at += local.length;
	}
	const central = Buffer.concat(directory);
	const end = Buffer.alloc(22);
	end.write('PK\x05\x06', 0, 'latin1');
	end.writeUInt16LE(members.length, 8);
	end.writeUInt16LE(members.length, 10);
	end.writeUInt32LE(central.length, 12);
	end.writeUInt32LE(at, 16);
	return Buffer.concat([...parts, central, end]);
}

export interface WheelOptions {
	summary?: string;
	requires?: string[];
	scripts?: string;
	more?: Member[];
}

export const wheelName = (name: string, version: string): string => `${name}-${version}-py3-none-any.whl`;

/** A wheel with one module of the package's name. */
export function wheel(name: string, version: string, code: string, o: WheelOptions = {}): Buffer {
	const info = `${name}-${version}.dist-info`;
	const members: Member[] = [
		{ name: `${name}.py`, text: code },
		{ name: `${info}/METADATA`, text: `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n${o.summary ? `Summary: ${o.summary}\n` : ''}${(o.requires ?? []).map((r) => `Requires-Dist: ${r}\n`).join('')}` },
		{ name: `${info}/WHEEL`, text: 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n' },
		...(o.scripts ? [{ name: `${info}/entry_points.txt`, text: `[console_scripts]\n${o.scripts}\n` }] : []),
		...(o.more ?? []),
	];
	const record = members.map((m) => `${m.name},sha256=${createHash('sha256').update(m.text).digest('base64url')},${Buffer.byteLength(m.text)}\n`).join('');
	return zip([...members, { name: `${info}/RECORD`, text: `${record}${info}/RECORD,,\n` }]);
}

export interface Listing {
	file: string;
	/** What is served; a string is where it is redirected to; a function answers by hand, and the page says SHA256. */
	body: Buffer | string | http.RequestListener;
	/** What the page says instead of its hash. */
	sha256?: string;
	/** Where the page says it is. */
	url?: string;
}

/** A simple index (PEP 503) on loopback. */
export class Index {
	server!: http.Server;
	url = '';
	asked: string[] = [];
	lastHeaders: http.IncomingHttpHeaders = {};
	/** `user:password` that every request must have. */
	credentials?: string;
	/** A first part of the path that every request of a page must have. */
	token?: string;
	/** Answers wait for it. */
	hold: Promise<void> = Promise.resolve();
	readonly packages = new Map<string, Listing[]>();
	/** Pages of packages that are answered by hand. */
	readonly pages = new Map<string, http.RequestListener>();

	add(name: string, ...files: Listing[]): void {
		this.packages.set(name, files);
	}

	async #answer(req: http.IncomingMessage, res: http.ServerResponse): Promise<void> {
		this.asked.push(req.url!);
		this.lastHeaders = req.headers;
		await this.hold;
		if (this.credentials && req.headers.authorization !== `Basic ${Buffer.from(this.credentials).toString('base64')}`) {
			res.writeHead(401, { 'www-authenticate': 'Basic realm="index"' }).end();
			return;
		}
		const before = this.token ? `/${this.token}` : '';
		const page = req.url!.startsWith(before) ? /^\/simple\/([^/]+)\/$/.exec(req.url!.slice(before.length)) : null;
		const byHand = page && this.pages.get(page[1]!);
		if (byHand) {
			byHand(req, res);
			return;
		}
		const list = page && this.packages.get(page[1]!);
		if (list) {
			res.setHeader('content-type', 'text/html');
			res.end(list.map((f) => {
				const hash = f.sha256 ?? createHash('sha256').update(f.body as Buffer).digest('hex');
				return `<a href="${f.url ?? `/files/${f.file}`}#sha256=${hash}">${f.file}</a>`;
			}).join('\n'));
			return;
		}
		const file = [...this.packages.values()].flat().find((f) => `/files/${f.file}` === req.url);
		if (!file) {
			res.writeHead(404).end();
		} else if (typeof file.body === 'string') {
			res.writeHead(302, { location: file.body }).end();
		} else if (typeof file.body === 'function') {
			file.body(req, res);
		} else {
			res.end(file.body);
		}
	}

	async open(): Promise<this> {
		this.server = http.createServer((req, res) => void this.#answer(req, res));
		await new Promise<void>((done) => this.server.listen(0, '127.0.0.1', done));
		this.url = `http://127.0.0.1:${(this.server.address() as net.AddressInfo).port}/simple`;
		return this;
	}

	close(): void {
		this.server.close();
		this.server.closeAllConnections();
	}
}

/** Listens on loopback and counts who comes. */
export class Canary {
	server!: net.Server;
	port = 0;
	visits = 0;

	async open(): Promise<this> {
		this.server = net.createServer((socket) => {
			this.visits++;
			socket.destroy();
		});
		await new Promise<void>((done) => this.server.listen(0, '127.0.0.1', done));
		this.port = (this.server.address() as net.AddressInfo).port;
		return this;
	}

	close(): void {
		this.server.close();
	}
}
