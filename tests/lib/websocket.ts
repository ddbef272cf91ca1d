// SPDX-License-Identifier: Apache-2.0
// A client of WebSockets (RFC 6455) that can also send what no client may, and read nothing.

import { createHash, randomBytes } from 'node:crypto';
import * as net from 'node:net';
import { until } from './wait.ts';
import type { Json } from './session.ts';

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

/** A frame of a client. FIRST: the first byte. */
export function frame(first: number, data: Buffer): Buffer {
	const mask = randomBytes(4);
	const n = data.length;
	const head = n < 126 ? Buffer.from([first, n]) : n < 65536 ? Buffer.from([first, 126, n >> 8, n & 255]) : Buffer.from([first, 127, 0, 0, 0, 0, n >>> 24, (n >> 16) & 255, (n >> 8) & 255, n & 255]);
	head[1]! |= 0x80;
	return Buffer.concat([head, mask, data.map((b, i) => b ^ mask[i % 4]!)]);
}

export class WebSocketClient {
	readonly socket: net.Socket;
	private pieces: Buffer[] = []; // of all binary messages
	readonly said: Json[] = []; // texts
	pongs = 0;
	closed?: { code: number; reason: string };
	ended = false;
	private rest: Buffer = Buffer.alloc(0);

	private constructor(socket: net.Socket) {
		this.socket = socket;
	}
	/** Gives the status of the answer if it is not 101. CONNECTED: a connection that is there already. */
	static async open(url: string, headers: Record<string, string> = {}, connected?: net.Socket): Promise<WebSocketClient | { status: number; text: string }> {
		const u = new URL(url);
		const socket = connected ?? net.connect({ host: u.hostname.replace(/[[\]]/g, ''), port: Number(u.port), noDelay: true });
		const key = randomBytes(16).toString('base64');
		let head = '';
		const all = { Host: u.host, Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': key, ...headers };
		socket.write(`GET ${u.pathname}${u.search} HTTP/1.1\r\n${Object.entries(all).map(([k, v]) => `${k}: ${v}\r\n`).join('')}\r\n`);
		const rest = await new Promise<Buffer | undefined>((resolve, reject) => {
			const take = (data: Buffer): void => {
				head += data.toString('latin1');
				const end = head.indexOf('\r\n\r\n');
				if (!head.startsWith('HTTP/1.1 101') || end < 0)
					return;
				socket.off('data', take);
				resolve(Buffer.from(head.slice(end + 4), 'latin1'));
			};
			socket.on('data', take).on('error', reject).on('close', () => resolve(undefined));
		});
		if (!rest)
			return { status: Number(head.slice(9, 12)), text: head };
		const accept = createHash('sha1').update(key + GUID).digest('base64');
		if (!head.toLowerCase().includes(`\r\nsec-websocket-accept: ${accept.toLowerCase()}\r\n`))
			throw new Error(`not the answer to the key: ${head}`);
		const c = new WebSocketClient(socket);
		socket.removeAllListeners('close').removeAllListeners('error');
		socket.on('error', () => undefined).on('close', () => { c.ended = true; }).on('data', (data: Buffer) => c.take(data));
		c.take(rest);
		return c;
	}
	private take(data: Buffer): void {
		this.rest = this.rest.length ? Buffer.concat([this.rest, data]) : data;
		for (;;) {
			const b = this.rest;
			const short = b.length >= 2 ? b[1]! & 127 : 0;
			const head = short === 127 ? 10 : short === 126 ? 4 : 2;
			if (b.length < head)
				break;
			const n = short === 127 ? Number(b.readBigUInt64BE(2)) : short === 126 ? b.readUInt16BE(2) : short;
			if (b.length < head + n)
				break;
			const payload = b.subarray(head, head + n);
			this.rest = b.subarray(head + n);
			if (b[0] === 0x82)
				this.pieces.push(payload);
			else if (b[0] === 0x81)
				this.said.push(JSON.parse(payload.toString()) as Json);
			else if (b[0] === 0x8a)
				this.pongs++;
			else if (b[0] === 0x88)
				this.closed = { code: n >= 2 ? payload.readUInt16BE(0) : 1005, reason: payload.subarray(2).toString() };
			else
				throw new Error(`a frame that begins with ${b[0]}`);
		}
	}
	/** What came, joined only when it is looked at: a flood would take all of the time. */
	get bytes(): Buffer {
		if (this.pieces.length !== 1)
			this.pieces = [Buffer.concat(this.pieces)];
		return this.pieces[0]!;
	}
	get text(): string {
		return this.bytes.toString();
	}
	raw(data: Buffer): void {
		this.socket.write(data);
	}
	type(text: string | Buffer): void {
		this.raw(frame(0x82, Buffer.from(text)));
	}
	say(o: Json | string): void {
		this.raw(frame(0x81, Buffer.from(typeof o === 'string' ? o : JSON.stringify(o))));
	}
	close(code = 1000): void {
		this.raw(frame(0x88, Buffer.from([code >> 8, code & 255])));
	}
	shows(text: string | RegExp): Promise<true> {
		return until(`${text} of a terminal`, () => {
			const there = typeof text === 'string' ? this.text.includes(text) : text.test(this.text);
			if (!there && this.ended)
				throw new Error(`the connection ended: ${JSON.stringify([this.closed, this.text.slice(-500), this.said])}`);
			return there;
		});
	}
	hears(member: string): Promise<Json> {
		return until(`a message with ${member}`, () => this.said.find((m) => member in m) ?? (this.ended && {})) as Promise<Json>;
	}
	async end(): Promise<{ code: number; reason: string } | undefined> {
		await until('the end of the connection', () => this.ended);
		return this.closed;
	}
}
