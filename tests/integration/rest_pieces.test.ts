// SPDX-License-Identifier: Apache-2.0
// Lists of REST that are made in pieces: every row is there once and in order, however many there are and whatever they have in them. The server
// has hostile rows and files: many, long, and of characters that JSON escapes.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import * as net from 'node:net';
import * as path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import { initsOf } from '../lib/family.ts';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';

const MANY = 10_000;
const CELLS = 600;
const OTHERS = 1_500;
const bad = '\u0001"\\\u001b';

const state = newStateDir();
let server: { program: Program; base: string };
let user = '';

/** Rows as the server writes them. */
function fill(): void {
	const db = new DatabaseSync(path.join(state, 'caisson.db'));
	const many = (n: number, sql: string, row: (i: number) => (string | number | Uint8Array)[]): void => {
		const insert = db.prepare(sql);
		for (let i = 0; i < n; i++) insert.run(...row(i));
	};
	const digest = (i: number): Uint8Array => new Uint8Array(new Uint32Array([i, 1, 2, 3, 4, 5, 6, 7]).buffer);
	user = randomUUID();
	db.exec('BEGIN IMMEDIATE');
	many(MANY, 'INSERT INTO users VALUES(?, ?, NULL, NULL, 0, 1, ?, -1, -1, -1, -1)', (i) => [i ? randomUUID() : user, `user ${i} ${bad.repeat(8)}`, 1000 + (i >> 3)]);
	many(MANY, "INSERT INTO keys VALUES(?, ?, ?, 'csk_', ?, 0, '', ?, 1, 0)", (i) => [randomUUID(), user, bad.repeat(20), digest(i), 1000 + (i >> 3)]);
	many(1000, "INSERT INTO invitations VALUES(?, ?, 0, ?, ?, ?)", (i) => [randomUUID(), digest(i), bad.repeat(40), 1000 + i, 9_000_000_000_000]);
	many(MANY, "INSERT INTO runs(id, owner, sandbox, kind, reason, exit_code, started_ms, duration_ms, cpu_us, peak_bytes, out_bytes) VALUES(?, '', 'past', 'code', 'exited', 0, ?, 1, 1, 1, 1)",
		(i) => [`run_${i}`, 1000 + i]);
	many(2 * MANY, "INSERT INTO audit(at_ms, actor, action, object, result, detail, peer, class, who, count) VALUES(?, '', 'test', ?, 'ok', ?, 'peer', 0, '', 1)",
		(i) => [1000 + i, bad.repeat(30), bad.repeat(30)]);
	const meta = JSON.stringify({ status: 'done', kind: 'code', asked_by: { how: 'rest', name: '' }, code_cut: false, sandbox_name: bad, image: 'science',
		files: Array.from({ length: 64 }, (_, i) => ({ name: bad.repeat(20) + i, size: 1, kept: false })), reason: 'exited', exit_code: 0,
		duration_ms: 1, cpu_ms: 1, peak_bytes: 1, stdout: { total: 32768, cut: false }, stderr: { total: 0, cut: false }, value: { total: 0, cut: false } });
	const cell = "INSERT INTO cells(run, owner, sandbox, started_ms, bytes, code, out, err, value, meta) VALUES(?, '', ?, ?, 4000, ?, ?, '', '', ?)";
	many(CELLS, cell, (i) => [`run_${i}`, 'past', 1000 + i, `print(${i})`, bad.repeat(8192), meta]);
	many(OTHERS, cell, (i) => [`run_o${i}`, `other-${i}`, 1000 + i, `print(${i})\n${bad.repeat(500)}`, '', meta]);
	many(500, "INSERT INTO sandboxes(id, owner, name, image, persist, disk_bytes, created_ms, used_ms) VALUES(?, '', ?, 'science', ?, 1048576, ?, 1000)", (i) => [randomUUID(), `${i} ${bad.repeat(20)}`, randomUUID(), 1000 + (i >> 3)]);
	db.exec('COMMIT');
	db.close();
}

const api = (p: string): string => `${server.base}/api/v1${p}`;
const get = async (p: string): Promise<Json> => {
	const r = await fetch(api(p));
	assert.equal(r.status, 200, p);
	return await r.json() as Json;
};
async function run(sandbox: string, code: string): Promise<Json> {
	const r = await fetch(api(`/sandboxes/${sandbox}/runs`), { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ code, wait: true }) });
	assert.equal(r.status, 201);
	return await r.json() as Json;
}

describe('lists in pieces', () => {
	let big = '';

	before(async () => {
		server = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: state, SANDBOX_POOL: '0', SANDBOX_WORKSPACE_FILES: '30000' } });
		fill();
		big = (await (await fetch(api('/sandboxes'), { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })).json() as Json).id;
		/* As many names as a listing has, each as long as it may be. */
		const odd = await run(big, 'for i in range(9900): open(f"{i:05d}" + "\\x01\\"\\x7f" * 80, "w").close()\nopen("a.csv", "w").write("a,b\\n1,2\\n")');
		assert.equal(odd.reason, 'exited');
	});
	after(() => server.program.end());

	it('(slow) have every row once, in order', async () => {
		const users = (await get('/users')).users as Json[];
		assert.equal(new Set(users.map((u) => u.id)).size, MANY);
		assert.deepEqual(users.map((u) => Number(u.name.split(' ')[1])), Array.from({ length: MANY }, (_, i) => i));
		assert.equal(users[7]!.name, `user 7 ${bad.repeat(8)}`);
		assert.equal(new Set(((await get(`/keys?owner=${user}`)).keys as Json[]).map((k) => k.id)).size, MANY);
		assert.equal(new Set(((await get('/invitations')).invitations as Json[]).map((k) => k.id)).size, 1000);
		const audit = (await get('/audit?limit=1000')).rows as Json[];
		assert.ok(audit.length === 1000 && audit.every((r, i) => i === 0 || r.id < audit[i - 1]!.id));
		assert.equal(audit.at(-1)!.detail, bad.repeat(30));
		assert.equal(((await get('/runs?sandbox=past&limit=1000')).runs as Json[]).length, 1000);
		assert.equal(((await get('/sandboxes')).sandboxes as Json[]).length, 501);
		const names = (await get(`/sandboxes/${big}/files`)).files as Json[];
		assert.ok(names.length === 9901 && names.every((f, i) => i === 0 || f.name > names[i - 1]!.name));
	});

	it('(slow) pages of the history meet, forwards and backwards', async () => {
		const seen: Json[] = [];
		for (let after = 0, more = true; more;) {
			const page = await get(`/notebooks/past?limit=1000&after=${after}`);
			seen.push(...page.cells);
			after = page.cells.at(-1).seq;
			more = page.more;
		}
		assert.deepEqual(seen.map((c) => c.run), Array.from({ length: CELLS }, (_, i) => `run_${i}`));
		assert.equal(seen[0]!.stdout.text, bad.repeat(8192));
		assert.equal(seen[0]!.files.length, 64);
		const back: Json[] = [];
		for (let before = 0, more = true; more;) {
			const page = await get(`/notebooks/past?limit=100&before=${before}`);
			back.unshift(...page.cells);
			before = page.cells[0].seq;
			more = page.more;
		}
		assert.deepEqual(back.map((c) => c.seq), seen.map((c) => c.seq));
		const all = new Set<string>();
		for (let next: number | null = 0; next !== null;) {
			const page = await get(`/notebooks?limit=1000&before=${next}`);
			for (const n of page.notebooks) all.add(n.sandbox);
			next = page.next;
		}
		assert.ok(all.size >= OTHERS + 1, String(all.size));
		let found = 0;
		for (let next: number | null = 0; next !== null;) {
			const page = await get(`/history?q=PRINT(5)&sandbox=past&before=${next}`);
			found += page.cells.length;
			next = page.next;
		}
		assert.equal(found, 1);
	});

	it('of files, whose client leaves before there is a list, end alone', async () => {
		const [init] = initsOf(server.program.pid);
		process.kill(init!.pid, 'SIGSTOP');
		const { hostname, port } = new URL(server.base);
		const client = net.connect(Number(port), hostname, () => client.write(`GET /api/v1/sandboxes/${big}/files HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`));
		await once(client, 'connect');
		const turns = async (): Promise<void> => { for (let i = 0; i < 20; i++) await get('/me'); };
		await turns(); // the loop has seen the request, and then its end
		client.destroy();
		await turns();
		process.kill(init!.pid, 'SIGCONT');
		assert.equal((await get(`/sandboxes/${big}/files`)).files.length, 9901);
	});
});
