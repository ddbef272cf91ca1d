// SPDX-License-Identifier: Apache-2.0
// A server with two users, for cases whose attack comes over HTTP: REST, WebSockets, ports. One serves all cases of a mode.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as net from 'node:net';
import * as path from 'node:path';
import { top } from '../../lib/env.ts';
import { caisson, residentBytes, type Program } from '../../lib/process.ts';
import { serve, type Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import { frame, WebSocketClient } from '../../lib/websocket.ts';
import type { Outside } from './case.ts';

const ADMIN = 'an-administrators-key-of-the-server';
let servers = 0;

export interface Answer {
	status: number;
	headers: Headers;
	body: Json;
	text: string;
}

export class Served {
	readonly program: Program;
	readonly base: string;
	readonly port: number;
	readonly env: Record<string, string | undefined>;
	/** Keys of the two. */
	readonly alice: string;
	readonly bob: string;
	/** For planted twins: what the server is said to hold besides, and what an answer is changed to. */
	more = 0;
	change?: (text: string) => string;
	private made: string[] = [];
	private next?: string; // bob's sandbox

	private constructor(program: Program, base: string, port: number, env: Record<string, string | undefined>, alice: string, bob: string) {
		[this.program, this.base, this.port, this.env, this.alice, this.bob] = [program, base, port, env, alice, bob];
	}
	static async open(settings: Record<string, string | undefined>): Promise<Served> {
		const env = { ...settings, SANDBOX_API_KEY: ADMIN, SANDBOX_WARM: 'on', SANDBOX_PARALLEL_RUNS: '3', SANDBOX_MAX_SESSIONS: '20', SANDBOX_FACES: 'e2b', SANDBOX_PUBLIC_PORTS: 'on' };
		const { program, base, port } = await serve({ profile: 'full', env });
		const keys = await Promise.all(['alice', 'bob'].map(async (who) => {
			const name = `${who}-${process.pid}-${++servers}`, e = { env: { ...env, SANDBOX_API_KEY: '' } };
			await caisson(['user', 'add', name, '--password', 'none'], e);
			return /csn_\S+/.exec((await caisson(['key', 'new', name], e)).stdout.toString())![0];
		}));
		return new Served(program, base, port, env, keys[0]!, keys[1]!);
	}
	end(): Promise<unknown> {
		return this.program.end();
	}
	resident(): number {
		return residentBytes(this.program.pid) + this.more;
	}
	/** At most so many MiB more after BODY than before. */
	async holds(mib: number, body: () => Promise<void>): Promise<void> {
		const before = residentBytes(this.program.pid);
		await body();
		const grown = this.resident() - before;
		assert.ok(grown < mib << 20, `the server has grown by ${(grown / (1 << 20)).toFixed(1)} MiB`);
	}
	async fetch(url: string, o: RequestInit = {}, key = this.alice): Promise<Answer> {
		const r = await fetch(`${this.base}${url}`, { redirect: 'manual', ...o, headers: { 'x-api-key': key, ...o.headers } });
		const text = this.change ? this.change(await r.text()) : await r.text();
		let body: Json = {};
		try {
			body = JSON.parse(text) as Json;
		} catch {
			// no JSON
		}
		return { status: r.status, headers: r.headers, body, text };
	}
	ask(method: string, at: string, json?: unknown, key = this.alice): Promise<Answer> {
		return this.fetch(`/api/v1${at}`, { method, ...(json === undefined ? {} : { body: JSON.stringify(json), headers: { 'content-type': 'application/json' } }) }, key);
	}
	private async must(method: string, at: string, json?: unknown, key = this.alice): Promise<Json> {
		const r = await this.ask(method, at, json, key);
		assert.ok(r.status < 300, r.text);
		return r.body;
	}
	async make(json: Json = {}): Promise<string> {
		const { id } = await this.must('POST', '/sandboxes', json);
		this.made.push(id as string);
		return id as string;
	}
	async upload(id: string, name: string): Promise<void> {
		const body = fs.readFileSync(path.join(top, 'tests/suites/hostile/programs', name));
		assert.equal((await this.fetch(`/api/v1/sandboxes/${id}/files/${name}?overwrite=true`, { method: 'PUT', body })).status < 300, true);
	}
	/** Starts it and gives its path. */
	async process(id: string, json: Json): Promise<string> {
		return `/sandboxes/${id}/processes/${(await this.must('POST', `/sandboxes/${id}/processes`, json)).id}`;
	}
	async terminal(id: string, json: Json = {}): Promise<string> {
		return `/sandboxes/${id}/terminals/${(await this.must('POST', `/sandboxes/${id}/terminals`, json)).id}`;
	}
	look(at: string): Promise<Json> {
		return this.must('GET', at);
	}
	says(at: string, text: string): Promise<Json> {
		return until(`${text} of ${at}`, async () => {
			const p = await this.look(at);
			assert.ok(p.state === 'running' || p.stdout.text.includes(text), JSON.stringify(p));
			return p.stdout.text.includes(text) && p;
		});
	}
	run(id: string, json: Json, key = this.alice): Promise<Json> {
		return this.must('POST', `/sandboxes/${id}/runs`, { wait: true, ...json }, key);
	}
	ended(run: string): Promise<Json> {
		return until(`the end of ${run}`, async () => {
			const r = await this.look(`/runs/${run}`);
			return r.status !== 'running' && r.status !== 'queued' && r;
		});
	}
	async attach(at: string): Promise<WebSocketClient> {
		const c = await WebSocketClient.open(`${this.base}/api/v1${at}`, { 'x-api-key': this.alice });
		assert.ok(c instanceof WebSocketClient, JSON.stringify(c));
		return c;
	}
	/** With what code the server closes after BYTES; 0: it goes on, for it answers a ping that follows. */
	async closes(c: WebSocketClient, bytes: Buffer): Promise<number> {
		const pongs = c.pongs;
		c.raw(Buffer.concat([bytes, frame(0x89, Buffer.from('still there?'))]));
		await until('an end, or an answer', () => c.ended || c.pongs > pongs);
		return c.ended ? (c.closed?.code ?? 1006) : 0;
	}
	/** A request of which nothing is read but the first bytes. Resolves when these are there. */
	deaf(url: string, key = this.alice): Promise<net.Socket> {
		return new Promise((resolve, reject) => {
			const socket = net.connect(this.port, '127.0.0.1');
			socket.on('error', reject).once('data', () => {
				socket.off('error', reject).on('error', () => undefined).pause();
				resolve(socket);
			});
			socket.write(`GET ${url} HTTP/1.1\r\nHost: 127.0.0.1:${this.port}\r\nX-Api-Key: ${key}\r\n\r\n`);
		});
	}
	/** Bytes on a connection; all that comes until it closes, or until ENOUGH. */
	exchange(bytes: string | Buffer, enough: (text: string) => boolean = () => false): Promise<string> {
		return new Promise((resolve) => {
			const socket = net.connect(this.port, '127.0.0.1', () => socket.write(bytes));
			let text = '';
			socket.setTimeout(5000, () => socket.destroy());
			socket.on('error', () => undefined).on('close', () => resolve(this.change ? this.change(text) : text)).on('data', (b: Buffer) => {
				text += b.toString('latin1');
				if (enough(text))
					socket.destroy();
			});
		});
	}
	/** What a run of the other user prints meanwhile. */
	async neighbour(): Promise<void> {
		this.next ??= (await this.must('POST', '/sandboxes', {}, this.bob)).id as string;
		assert.equal((await this.run(this.next, { command: 'echo works' }, this.bob)).stdout, 'works\n');
	}
	async clear(): Promise<void> {
		for (const id of this.made.splice(0))
			await this.ask('DELETE', `/sandboxes/${id}?force=true`);
	}
}

/** A case against the server of its mode, or another one: afterwards the other user is served, and what it logged is judged like the log of the other one. */
export async function live(o: Outside, body: (s: Served) => Promise<void>, server = o.served): Promise<void> {
	const s = await server();
	const from = s.program.stderr.length;
	try {
		o.spoil?.(s);
		await body(s);
	} finally {
		s.more = 0;
		s.change = undefined;
		await s.clear();
	}
	await s.neighbour();
	o.logged(s.program.stderr.slice(from));
}

/** For planted twins of cases that judge by memory. */
export const grown = { what: 'the server is said to have 64 MiB more', by: (_r: Json, o: Outside): void => void (o.spoil = (s: Served) => (s.more = 64 << 20)) };

/** For planted twins: every answer is changed so. */
export function said(what: string, change: (text: string) => string): { what: string; by: (r: Json, o: Outside) => void } {
	return { what, by: (_r, o) => void (o.spoil = (s: Served) => (s.change = change)) };
}
