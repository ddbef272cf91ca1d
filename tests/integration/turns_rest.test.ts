// SPDX-License-Identifier: Apache-2.0
// No request of REST keeps the event loop, whatever it asks for and however much there is of it. The requests are made from the server's own
// description, so a new route is asked, too. The server has hostile rows and files: many, long, and of characters that JSON escapes.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import * as path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { newStateDir, sanitized, slowness } from '../lib/env.ts';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { turnsOf, type Turn } from '../lib/turns.ts';

/** The thread of the loop may compute for so long in one turn: the defects that this finds were turns of 400 ms and more. */
const TURN_MS = 20 * slowness;
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

/** What ASK does to the loop. */
async function watch(ask: () => Promise<unknown>): Promise<Turn[]> {
	const from = server.program.stderr.length;
	await ask();
	await fetch(`${server.base}/healthz`); /* what the answer left for later turns has run */
	return turnsOf(server.program.stderr.slice(from)).filter((t) => t.cpuMs >= TURN_MS);
}

describe('turns of the loop, by route of REST', () => {
	const ids: Json = {};
	let big = '';

	before(async () => {
		server = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: state, SANDBOX_POOL: '0', CAISSON_WATCH_TURNS: '20', SANDBOX_WORKSPACE_FILES: '30000' } });
		fill();
		big = (await (await fetch(api('/sandboxes'), { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })).json() as Json).id;
		/* As many names as a listing has, each as long as it may be. */
		const odd = await run(big, 'for i in range(9900): open(f"{i:05d}" + "\\x01\\"\\x7f" * 80, "w").close()\nopen("a.csv", "w").write("a,b\\n1,2\\n")');
		assert.equal(odd.reason, 'exited');
		Object.assign(ids, { id: big, run: odd.id, user, path: 'a.csv', name: 'pip', packages: 'pip', checkpoint: 'none', process: 'p1', terminal: 'p2', key: randomUUID(), invitation: randomUUID() });
	});
	after(() => server.program.end());

	/** Queries that ask for as much as there is. */
	const queries: Record<string, string[]> = {
		listSandboxes: ['all=true', 'usage=true'],
		listRuns: ['limit=1000', 'all=true&limit=1000'],
		listNotebooks: ['limit=1000', 'limit=1000&q=nothing'],
		getNotebook: ['limit=1000', 'limit=1000&before=0'],
		searchHistory: ['limit=1000', 'q=nothing'],
		exportNotebook: ['format=ipynb', 'format=html'],
		exportSandbox: ['format=html'],
		listAudit: ['limit=1000'],
		listKeys: [`owner=USER`],
		listPackages: ['all=true'],
		listFiles: ['path='],
		getUsage: ['series=true'],
		getProcess: ['wait_s=20'],
		getFigures: ['minutes=1440'],
		previewTable: ['path=a.csv&limit=1000'],
	};
	const bodies: Record<string, Json> = {
		createSandbox: {},
		makeCheckpoint: { name: 'one' },
		makeContext: {},
		startProcess: { command: `python3 -c 'print("\\x01" * 65535)'` },
		startTerminal: { command: `python3 -c 'print("\x01" * 65535)'` },
		tryBranches: { branches: [{ code: 'print("\\x01" * 100000)' }, { code: 'print("\\x01" * 100000)' }] },
		startRun: { code: 'for i in range(9000): open(f"{i:05d}" + "\\x01\\"\\x7f" * 80, "w").write("x")\nprint("\\x01" * 100000)', wait: true },
		completeName: { code: 'pri', cursor: 3 },
		addUser: { name: 'one more' },
		newKey: {},
	};
	/** These name what the history has. */
	const past = new Set(['getNotebook', 'exportNotebook', 'getCell', 'getCellFile', 'removeNotebook']);

	it('(slow) a zip has the names of 9,901 files twice, and all of them', async () => {
		const r = await fetch(api(`/sandboxes/${big}/files?path=&archive=zip`));
		assert.equal(r.status, 200);
		const zip = Buffer.from(await r.arrayBuffer());
		const end = zip.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
		assert.ok(end > 0, 'the archive has its end');
		assert.equal(zip.readUInt16LE(end + 10), 9901);
	});

	it('(timing) no route keeps the loop', async () => {
		const description = await get('/openapi.json');
		const routes = Object.entries(description.paths as Record<string, Json>).flatMap(([p, methods]) =>
			Object.entries(methods).filter(([m]) => /^(get|post|put|patch|delete)$/.test(m)).map(([method, o]) => ({ p, method, id: (o as Json).operationId as string })));
		/* What removes things comes last. */
		routes.sort((a, b) => Number(a.method === 'delete') - Number(b.method === 'delete'));
		const slow: string[] = [];
		let asked = 0;
		for (const route of routes) {
			for (const query of queries[route.id] ?? ['']) {
				const known: Json = past.has(route.id) ? { ...ids, id: 'past', run: 'run_5' } : ids;
				const at = route.p.replace(/^\/api\/v1/, '').replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(known[name] ?? 'none'));
				const init: RequestInit = { method: route.method.toUpperCase(), signal: AbortSignal.timeout(60_000 * slowness) };
				if (!['get', 'delete'].includes(route.method)) {
					init.headers = { 'content-type': 'application/json' };
					init.body = JSON.stringify(bodies[route.id] ?? {});
				}
				const turns = await watch(async () => {
					const answer = await fetch(api(at + (query ? `?${query.replace('USER', user)}` : '')), init);
					if (answer.headers.get('content-type')?.startsWith('text/event-stream')) await answer.body!.cancel();
					else await answer.arrayBuffer();
					assert.ok(answer.status < 500, `${route.id}: ${answer.status}`);
				}).catch((e: Error) => assert.fail(`${route.id} ${query}: ${e.message} ${String(e.cause)}`));
				asked++;
				slow.push(...turns.map((t) => `${route.id} ${query}: ${t.ms} ms, ${t.cpuMs} of them computing, slept ${t.slept} times: ${t.work}`));
			}
		}
		assert.ok(asked >= routes.length && routes.length > 50, String(asked));
		assert.deepEqual(slow, []);
		const db = new DatabaseSync(path.join(state, 'caisson.db'), { readOnly: true });
		const count = (sql: string, value: string): number => Number((db.prepare(sql).get(value) as { n: number }).n);
		assert.equal(count('SELECT count(*) AS n FROM cells WHERE sandbox = ?', 'past'), 0, 'the notebook was removed, in many slices');
		assert.equal(count('SELECT count(*) AS n FROM keys WHERE user = ?', user), 0, 'the keys of the user were removed');
		assert.equal(count('SELECT count(*) AS n FROM users WHERE id = ?', user), 0, 'and the user');
		assert.equal(count('SELECT count(*) AS n FROM cells WHERE sandbox = ?', 'other-1'), 1, 'and nothing else');
		db.close();
	});
});

/** Much that is shown, of characters that cost most: checked, masked, escaped for the history. The best of TRIES counts, because the machine may be busy. */
describe('turns of the loop when a run shows as much as is kept', () => {
	const TRIES = 4;
	const shows = {
		'40 tables of 200 KB': 'for i in range(40): display(HTML("<p>é\\"\\x01ü</p>" * 12000))',
		'900 small ones': 'for i in range(900): display(HTML("<p>é\\"</p>" * 400))',
		'12 data frames': 'import pandas as pd\nd = pd.DataFrame({"a": range(3000), "b": ["é\\"x" * 20] * 3000})\nfor i in range(12): display(d)',
	};

	it('(slow) no turn of 5 ms', async () => {
		const own = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), CAISSON_WATCH_TURNS: '5' } });
		const post = async (p: string, body: Json): Promise<Json> => await (await fetch(`${own.base}/api/v1${p}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })).json() as Json;
		const { id } = await post('/sandboxes', {});
		for (const [what, code] of Object.entries(shows)) {
			const worst: number[] = [];
			for (let i = 0; i < TRIES; i++) {
				const from = own.program.stderr.length;
				const r = await post(`/sandboxes/${id}/runs`, { code: `from IPython.display import display, HTML\n${code}`, wait: true });
				assert.equal(r.reason, 'exited', r.stderr);
				assert.ok(r.results.length > 10);
				await fetch(`${own.base}/healthz`);
				worst.push(Math.max(0, ...turnsOf(own.program.stderr.slice(from)).map((t) => t.cpuMs)));
			}
			/* Sanitizers make 900 small results 30 times as dear: there the memory is judged, not the time. */
			assert.ok(sanitized || Math.min(...worst) <= 5, `${what}: ${worst.join(', ')} ms of CPU`);
		}
		await own.program.end();
	});
});
