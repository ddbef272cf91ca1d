// SPDX-License-Identifier: Apache-2.0
// Requests to the face e2b, as bytes: for its tests.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import type { Json } from './session.ts';

export const ADMIN = 'an-administrators-key-of-the-server';
export const hex = (key: string): string => `e2b_${Buffer.from(key).toString('hex')}`;

export interface Answer { status: number; headers: http.IncomingHttpHeaders; bytes: Buffer; text: string; json: Json }
export interface Box { id: string; token: string; traffic: string }
export interface Frame { last: boolean; message: Json }

/** The messages of Connect in BYTES. */
export function frames(bytes: Buffer): Frame[] {
	const all: Frame[] = [];
	for (let at = 0; at < bytes.length;) {
		const size = bytes.readUInt32BE(at + 1);
		all.push({ last: (bytes[at]! & 2) !== 0, message: JSON.parse(bytes.subarray(at + 5, at + 5 + size).toString()) });
		at += 5 + size;
	}
	return all;
}
export function frame(message: unknown, flags = 0): Buffer {
	const text = Buffer.from(typeof message === 'string' ? message : JSON.stringify(message)), head = Buffer.alloc(5);
	head[0] = flags;
	head.writeUInt32BE(text.length, 1);
	return Buffer.concat([head, text]);
}
export const said = (all: Frame[], stream: string): string =>
	Buffer.concat(all.map((f) => Buffer.from(f.message.event?.data?.[stream] ?? '', 'base64'))).toString();

/** What clients ask of the server that WHERE tells. */
export function client(where: () => { base: string; port: number }) {
	async function rest(method: string, at: string, json?: Json): Promise<Json> {
		const r = await fetch(`${where().base}/api/v1${at}`, { method, headers: { 'x-api-key': ADMIN, 'content-type': 'application/json' }, body: json && JSON.stringify(json) });
		const text = await r.text();
		assert(r.ok, text);
		return text ? JSON.parse(text) : {};
	}
	async function newKey(name: string, more: Json = {}): Promise<string> {
		const found = (await rest('GET', '/users')).users.find((u: Json) => u.name === name);
		const user = found ?? await rest('POST', '/users', { name, password: 'a long password' });
		return (await rest('POST', `/keys?owner=${user.id}`, { name: 'agents', ...more })).key;
	}

	function ask(method: string, at: string, o: { headers?: Record<string, string>; body?: Json | Buffer | string; prefix?: string } = {}): Promise<Answer> {
		const raw = Buffer.isBuffer(o.body) || typeof o.body === 'string' ? o.body : o.body && JSON.stringify(o.body);
		return new Promise((done, failed) => {
			const req = http.request({ host: '127.0.0.1', port: where().port, method, path: `${o.prefix ?? '/faces/e2b'}${at}`,
				headers: { ...(typeof raw === 'string' ? { 'content-type': 'application/json' } : {}), ...(raw === undefined ? {} : { 'content-length': `${Buffer.byteLength(raw)}` }), ...o.headers } }, (res) => {
				const pieces: Buffer[] = [];
				res.on('data', (data) => pieces.push(data));
				res.on('error', failed);
				res.on('end', () => {
					const bytes = Buffer.concat(pieces), text = bytes.toString();
					let json: Json = {};
					try {
						json = JSON.parse(text);
					} catch { /* bytes */ }
					done({ status: res.statusCode!, headers: res.headers, bytes, text, json });
				});
			});
			req.on('error', failed);
			req.end(raw);
		});
	}
	const control = (method: string, at: string, body?: Json, key = hex(ADMIN)): Promise<Answer> => ask(method, at, { headers: { 'x-api-key': key }, body });
	async function make(body: Json = {}, key = hex(ADMIN)): Promise<Box> {
		const r = await control('POST', '/v2/sandboxes', { templateID: 'base', timeout: 120, ...body }, key);
		assert.equal(r.status, 201, r.text);
		return { id: r.json.sandboxID, token: r.json.envdAccessToken, traffic: r.json.trafficAccessToken };
	}
	const routed = (box: Box, service = 49983): Record<string, string> =>
		({ 'e2b-sandbox-id': box.id, 'e2b-sandbox-port': `${service}`, 'x-access-token': box.token });
	const envd = (box: Box, method: string, body: Json, headers = routed(box)): Promise<Answer> => ask('POST', `/${method}`, { headers, body });
	async function start(box: Box, command: string, more: Json = {}, headers: Record<string, string> = {}): Promise<Frame[]> {
		const r = await ask('POST', '/process.Process/Start', { headers: { ...routed(box), 'content-type': 'application/connect+json', ...headers },
			body: frame({ process: { cmd: '/bin/bash', args: ['-l', '-c', command] }, stdin: false, ...more }) });
		assert.equal(r.status, 200, r.text);
		return frames(r.bytes);
	}
	const code = (box: Box, body: Json, headers = routed(box, 49999)): Promise<Answer> => ask('POST', '/execute', { headers, body });
	const lines = (r: Answer): Json[] => r.text.trim().split('\n').map((l) => JSON.parse(l));
	return { rest, newKey, ask, control, make, routed, envd, start, code, lines };
}
