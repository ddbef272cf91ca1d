// SPDX-License-Identifier: Apache-2.0
// A server that may have 256 open files and not one more: it serves, refuses what is new with an error that says so, keeps what it has, and tells how little it has.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import * as net from 'node:net';
import { spawnSync } from 'node:child_process';
import { after, before, describe, it } from 'node:test';
import { asProductUser, binary, engine, productEnv, sanitized } from '../lib/env.ts';
import { openDescriptors, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const FILES = 256;
const under = ['prlimit', `--nofile=${FILES}:${FILES}`];

describe(`${FILES} open files`, { skip: engine !== 'native' ? 'each container takes descriptors of its daemon' : sanitized ? 'the sanitizers open files of their own' : false }, () => {
	let program: Program, base: string, calm: number;
	const kept = new http.Agent({ keepAlive: true, maxSockets: 1 });

	interface Answer { status: number; body: Json; text: string; retry?: string }
	/** 0: no answer, the connection was closed. */
	const api = (method: string, target: string, body?: Json, agent?: http.Agent): Promise<Answer> =>
		new Promise((resolve) => {
			const headers = { ...(body ? { 'content-type': 'application/json' } : {}), ...(agent ? {} : { connection: 'close' }) };
			const r = http.request(`${base}/api/v1/${target}`, { method, agent: agent ?? false, headers, timeout: 60_000 }, (m) => {
				let text = '';
				m.setEncoding('utf8').on('data', (d: string) => (text += d)).on('error', () => resolve({ status: 0, body: {}, text })).on('end', () =>
					resolve({ status: m.statusCode!, text, body: /json/.test(m.headers['content-type'] ?? '') ? JSON.parse(text) as Json : {}, retry: m.headers['retry-after'] }));
			});
			r.on('error', () => resolve({ status: 0, body: {}, text: '' })).on('timeout', () => r.destroy());
			r.end(body && JSON.stringify(body));
		});
	const run = (id: string, code: string): Promise<Answer> => api('POST', `sandboxes/${id}/runs`, { code, wait: true }, kept);
	/** A connection that idles gives way to new ones, so it may take a second try. */
	const works = async (id: string, what: string): Promise<void> => {
		const r = await until(`an answer for ${what}`, async () => {
			const said = await run(id, 'print(6 * 7)');
			return said.status !== 0 && said;
		}, 30_000);
		assert.equal(r.body.stdout, '42\n', `${what}: ${r.status} ${r.text}`);
	};
	let here: string;
	let stream: http.IncomingMessage, streamEnded = false; // it was there first, and has something to say

	before(async () => {
		({ program, base } = await serve({ profile: 'full', under, env: { SANDBOX_POOL: '0', SANDBOX_MAX_SESSIONS: '300' } }));
		here = (await api('POST', 'sandboxes', {}, kept)).body.id;
		await works(here, 'a calm server');
		stream = await new Promise((resolve, reject) => http.get(`${base}/api/v1/events`, { agent: new http.Agent(), headers: { accept: 'text/event-stream' } }, resolve).on('error', reject));
		stream.on('close', () => (streamEnded = true)).resume();
		calm = openDescriptors(program.pid);
	});
	after(async () => {
		stream.destroy();
		kept.destroy();
		await program.end();
	});

	it('doctor and the policy say it', async () => {
		const [command, ...args] = asProductUser([...under, binary, 'doctor', '--json']);
		const said = JSON.parse(spawnSync(command!, args, { encoding: 'utf8', env: productEnv() }).stdout) as { rows: { id: string; state: string; value: string; mend?: string }[] };
		const row = said.rows.find((r) => r.id === 'descriptors')!;
		assert.equal(row.state, 'weaker', JSON.stringify(row));
		assert.match(row.value, /at most 256/);
		assert.equal((await api('GET', 'policy')).body.server.open_files, FILES);
	});

	it('(slow) clients: four hundred of them take what there is, and what there was goes on', async () => {
		const asked = run(here, 'import time; time.sleep(3); print(6 * 7)'); // before the others came
		await until('it to run', async () => (await api('GET', 'sandboxes')).body.sandboxes[0].busy === true);
		const said: string[] = [];
		const sockets = Array.from({ length: 400 }, (_, i) => {
			const s = net.connect(Number(new URL(base).port), '127.0.0.1');
			said.push('');
			s.on('data', (d: Buffer) => (said[i] += d.toString('latin1'))).on('error', () => (said[i] ||= 'closed')).on('close', () => (said[i] ||= 'closed'));
			s.on('connect', () => s.write('GET /sse HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n'));
			return s;
		});
		try {
			const answer = await asked;
			assert.equal(answer.body.stdout, '42\n', `${answer.status} ${answer.text}`);
			assert.ok(openDescriptors(program.pid) <= FILES);
			await until('an answer for some', () => said.filter((t) => t.startsWith('HTTP/1.1 200')).length >= 16, 30_000);
			const others = said.filter((t) => t && !t.startsWith('HTTP/1.1 200'));
			assert.ok(others.every((t) => t === 'closed' || /^HTTP\/1\.1 (429|503) [^]*Retry-After: \d+/i.test(t)), others.find((t) => t !== 'closed'));
			assert.ok(said.filter((t) => t.startsWith('HTTP/1.1 200')).length < FILES / 2, 'clients leave something for sandboxes');
			assert.deepEqual([streamEnded, program.child.exitCode ?? program.child.signalCode], [false, null], 'what was there goes on');
		} finally {
			sockets.forEach((s) => s.destroy());
		}
		await until('a new client', async () => (await api('GET', 'me')).status === 200, 30_000);
	});

	it('sandboxes: made until one is refused; runs, files and new clients go on', async () => {
		const made: string[] = [];
		let refused: Answer | undefined;
		while (!refused && made.length < FILES) {
			const r = await api('POST', 'sandboxes', {}, kept);
			if (r.status === 201)
				made.push(r.body.id as string);
			else
				refused = r;
		}
		assert.ok(refused, 'one is refused');
		assert.ok(refused.status === 429 || refused.status === 503, `${refused.status} ${refused.text}`);
		assert.match(refused.text, /open files/i);
		assert.ok(made.length >= 4, `only ${made.length} were made`);
		for (const id of [here, made[0]!, made.at(-1)!])
			await works(id, 'an older one');
		const file = await api('PUT', `sandboxes/${here}/files/a.txt?overwrite=true`, { a: 1 }, kept);
		assert.ok(file.status < 300, file.text);
		assert.equal((await api('GET', 'me')).status, 200, 'a new client');
		for (let i = 0; i < 3; i++)
			assert.equal((await api('POST', 'sandboxes', {}, kept)).status, refused.status, 'the next one is refused as well');
		for (const id of made)
			assert.equal((await api('DELETE', `sandboxes/${id}`, undefined, kept)).status, 204);
		const again = await api('POST', 'sandboxes', {}, kept);
		assert.equal(again.status, 201, again.text);
		await works(again.body.id as string, 'a new one');
		await api('DELETE', `sandboxes/${again.body.id as string}`, undefined, kept);
		await until('descriptors to go', () => openDescriptors(program.pid) <= calm + 8, 20_000);
	});
});
