// SPDX-License-Identifier: Apache-2.0
// One request of HTTP, and the events of a stream (https://html.spec.whatwg.org/multipage/server-sent-events.html).
'use strict';

const http = require('node:http');
const https = require('node:https');

const SILENCE_MS = 60_000; // the server sends a comment every 15 s
const RETRY_MS = 1000; // of a stream that names none
const REFUSAL_BYTES = 1 << 20; // of what is read of an answer that is no message

/** The server cannot be reached, or an answer is gone. */
class Lost extends Error {}

/** The server answered with another status than 200; `body`: with this text. */
class Refused extends Error {
	constructor(status, text, body = '') {
		super(text);
		this.status = status;
		this.body = body;
	}
}

const reason = (e) => e.errors?.[0]?.message || e.message || e.code || String(e);

/** An answer of the server whose body has not been read. */
class Reply {
	constructor(url, response) {
		this.url = url;
		this.response = response;
		this.status = response.statusCode;
		const kind = (response.headers['content-type'] ?? '').split(';')[0].trim().toLowerCase();
		this.isStream = this.status === 200 && kind === 'text/event-stream';
		this.isMessage = this.status === 200 && kind === 'application/json';
		response.on('error', () => {}); // of a body that nobody reads
	}

	header(name) {
		return this.response.headers[name];
	}

	async read(most = Infinity) {
		const pieces = [];
		let size = 0;
		try {
			for await (const piece of this.response) {
				pieces.push(piece);
				if ((size += piece.length) > most)
					break;
			}
		} catch (e) {
			throw new Lost(`the connection to ${this.url} broke: ${reason(e)}`);
		}
		return Buffer.concat(pieces).toString();
	}

	/** What it says when it is neither a message nor a stream. */
	async refusal() {
		let body = '', text;
		try {
			body = await this.read(REFUSAL_BYTES);
			text = JSON.parse(body).error.message;
		} catch {
			text = undefined;
		}
		text ??= this.header('location') ?? this.response.statusMessage;
		return new Refused(this.status, `${this.url} answered ${this.status}: ${text}`, body);
	}

	close() {
		this.response.destroy();
	}
}

/** The way to the server: a connection for each request, so that none is found dead when it is used again. */
class Line {
	constructor(url, key) {
		this.url = url;
		this.key = key;
		this.module = url.startsWith('https:') ? https : http;
	}

	/** Gives a Reply. `sent` is called when the request is on its way: what is sent after it arrives after it. */
	send(method, headers, body, sent) {
		return new Promise((resolve, reject) => {
			const lost = (e) => reject(new Lost(`cannot reach ${this.url}: ${reason(e)}`));
			let request;
			try {
				request = this.module.request(this.url, {
					method, agent: false, timeout: SILENCE_MS,
					headers: { ...(this.key ? { Authorization: `Bearer ${this.key}` } : {}), ...(body === undefined ? {} : { 'Content-Length': Buffer.byteLength(body) }), ...headers },
				});
			} catch (e) { // such as a key that no header can hold
				lost(e);
				return;
			}
			request.on('socket', (socket) => socket.setKeepAlive(true, SILENCE_MS));
			request.on('timeout', () => request.destroy(new Error(`nothing came for ${SILENCE_MS / 1000} s`)));
			request.on('error', lost);
			request.on('response', (response) => resolve(new Reply(this.url, response)));
			request.on('finish', () => sent?.(request));
			request.end(body);
		});
	}
}

/** What has come of a stream, over all its connections. */
class Events {
	lastId = '';
	retryMs = RETRY_MS;

	/** Gives the data of each message. Ends with the connection, whatever ended it. */
	async *read(reply) {
		let kind = 'message', data = [], id = this.lastId;
		for await (const line of Events.lines(reply)) {
			if (line === '') {
				this.lastId = id; // not before: the server sends an event again that broke off
				if (kind === 'message' && data.some(Boolean))
					yield data.join('\n');
				kind = 'message';
				data = [];
				continue;
			}
			const colon = line.indexOf(':');
			const name = colon < 0 ? line : line.slice(0, colon);
			const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
			if (name === 'data')
				data.push(value);
			else if (name === 'event')
				kind = value;
			else if (name === 'id' && !value.includes('\0'))
				id = value;
			else if (name === 'retry' && /^\d+$/.test(value))
				this.retryMs = Math.min(Number(value), SILENCE_MS);
		}
	}

	static async *lines(reply) {
		let pieces = []; // of a line that has not ended: a large answer comes in many, none is looked at twice
		try {
			for await (const block of reply.response) {
				let from = 0;
				for (let end = block.indexOf(10); end >= 0; end = block.indexOf(10, from)) {
					pieces.push(block.subarray(from, end));
					const line = Buffer.concat(pieces).toString();
					yield line.endsWith('\r') ? line.slice(0, -1) : line;
					pieces = [];
					from = end + 1;
				}
				pieces.push(block.subarray(from));
			}
		} catch {
			// The connection broke; whoever reads this comes back.
		}
	}
}

module.exports = { Events, Line, Lost, Refused };
