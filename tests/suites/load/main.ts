// SPDX-License-Identifier: Apache-2.0
// Good and hostile clients together (README.md). One process plays all of them: a client is a loop of requests with a pause, over one keep-alive connection.

import * as fs from 'node:fs';
import * as http from 'node:http';
import * as path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { binary, stateDir } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { options } from '../../lib/options.ts';
import { Census, descendants, openDescriptors, residentBytes } from '../../lib/process.ts';
import { serve, type Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import { cases } from '../hostile/cases/all.ts';
import { rowOf } from '../hostile/case.ts';
import { programOf } from '../hostile/judge.ts';
import { streams } from './streams.ts';
import { hostileTenants, tenantKinds } from './tenants.ts';
import { greedyUsers, quantile } from './users.ts';

const opt = options(`usage: tests/run load [options]
  --minutes N        with hostile clients beside the good ones (default: 10)
  --calm-minutes N   before that, good clients alone (default: 1)
  --clients N        all clients (default: 64)
  --hostile N        of these, hostile ones (default: 16)
  --cpu-limit N      cores of one sandbox (default: 0.1)
  --greedy N         at the end so many users who take all they can get, for --greedy-s seconds (default: 64)
  --greedy-s N       (default: 60)
  --greedy-only      nothing before them
  --tabs N           after that, so many event streams that watch a run which prints (default: 100)
  --tabs-only        nothing else
  --tenants-s N      at the end, hostile but authorised tenants beside good ones for so many seconds (default: 60)
  --tenants-calm-s N before that, the good ones alone (default: 20)
  --tenant KIND      of the hostile ones only this one (may be repeated)
  --tenants-only     nothing else
  --report FILE      write all figures as JSON`, {
	minutes: { type: 'string', default: '10' },
	'calm-minutes': { type: 'string', default: '1' },
	clients: { type: 'string', default: '64' },
	hostile: { type: 'string', default: '16' },
	'cpu-limit': { type: 'string', default: '0.1' },
	greedy: { type: 'string', default: '64' },
	'greedy-s': { type: 'string', default: '60' },
	'greedy-only': { type: 'boolean', default: false },
	tabs: { type: 'string', default: '100' },
	'tabs-only': { type: 'boolean', default: false },
	'tenants-s': { type: 'string', default: '60' },
	'tenants-calm-s': { type: 'string', default: '20' },
	tenant: { type: 'string', multiple: true },
	'tenants-only': { type: 'boolean', default: false },
	report: { type: 'string' },
});
const missing = ensureImages(path.dirname(binary), 'science');
if (missing) {
	console.log(`FAILED  the image ${missing} could not be built\n0 passed, 1 failed, 0 skipped`);
	process.exit(1);
}

const tenants = (): Promise<string[]> => hostileTenants(opt.tenant ?? tenantKinds, Number(opt['tenants-calm-s']), Number(opt['tenants-s']));
if (opt['greedy-only'] || opt['tabs-only'] || opt['tenants-only']) {
	const found = opt['tenants-only'] ? await tenants() : opt['tabs-only'] ? await streams(Number(opt.tabs)) : await greedyUsers(Number(opt.greedy), Number(opt['greedy-s']));
	found.forEach((f) => console.log(`FAILED  ${f}`));
	console.log(`\n1 passed, ${found.length} failed, 0 skipped`);
	process.exit(found.length > 0 ? 1 : 0);
}

const TAIL_GOAL = 3;
const THINK_MS = 2000; // a person's client is not a closed loop
const RUN_S = 5;
const GROWTH_MAX = 16 << 20;
/** What the first family's contract answers, and the cap of all sandboxes. Anything else is a finding. */
const contract = new Set(['session_busy', 'max_sessions', 'not_found', 'session_not_found', 'invalid_session_id', 'invalid_filename', 'invalid_path', 'invalid_content',
	'upload_too_large', 'code_too_large', 'artifact_too_large', 'file_exists', 'no_space', 'quota_exceeded']);
/** Rows whose programs need nothing from outside while they run. */
const rows = new Set([1, 2, 3, 4, 5, 6, 7, 12, 13, 15, 16, 17, 18, 19, 20, 21, 23, 25, 26, 27, 34]);
const slow = new Set(['20f', '32e']);

const mark = `load-${process.pid}`;
const programs = cases.filter((c) => c.code && !c.before && !c.during && !c.needs?.length && rows.has(rowOf(c)) && !slow.has(c.id))
	.map((c) => ({ id: c.id, code: programOf(c.code).replaceAll('@MARK@', mark).replaceAll('@STATE@', stateDir()).replaceAll('@CANARY@', '/nonexistent') }));

interface Answer {
	status: number;
	body: Json;
}

interface Sample {
	what: string;
	ms: number;
}

const findings: string[] = [];
const samples: Record<'calm' | 'mixed', Sample[]> = { calm: [], mixed: [] };
const counts: Record<string, number> = {};
let phase: 'calm' | 'mixed' = 'calm';
let ending = false;

function finding(text: string): void {
	if (findings.length < 50)
		findings.push(text);
	else if (findings.length === 50)
		findings.push('and more');
}

function count(what: string): void {
	counts[what] = (counts[what] ?? 0) + 1;
}

class Caller {
	private readonly agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
	private id = 0;
	private readonly base: string;

	constructor(base: string) {
		this.base = base;
	}

	post(text: string, headers: http.OutgoingHttpHeaders, hangUpMs?: number): Promise<Answer> {
		return new Promise((resolve, reject) => {
			const req = http.request(`${this.base}/mcp`, { method: 'POST', agent: this.agent, headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers } }, (res) => {
				let body = '';
				res.setEncoding('utf8').on('data', (t: string) => (body += t)).on('error', reject).on('end', () => {
					const data = /^data: (.*"(?:result|error)".*)$/m.exec(body)?.[1] ?? body;
					try {
						resolve({ status: res.statusCode!, body: data ? JSON.parse(data) : {} });
					} catch {
						reject(new Error(`not JSON: ${data.slice(0, 200)}`));
					}
				});
			});
			req.on('error', reject);
			if (hangUpMs !== undefined)
				setTimeout(() => req.destroy(new Error('hung up')), hangUpMs);
			req.end(text);
		});
	}

	/** A tool of the first family; its object. */
	async call(name: string, args: Json, hangUpMs?: number): Promise<Json> {
		const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 'load', version: '1' }, 'io.modelcontextprotocol/clientCapabilities': {} };
		const text = JSON.stringify({ jsonrpc: '2.0', id: ++this.id, method: 'tools/call', params: { name, arguments: args, _meta: meta } });
		const r = await this.post(text, { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': name }, hangUpMs);
		if (r.body.error || !r.body.result?.structuredContent)
			throw new Error(`${name}: HTTP ${r.status} ${JSON.stringify(r.body).slice(0, 300)}`);
		return r.body.result.structuredContent.result;
	}

	close(): void {
		this.agent.destroy();
	}
}

/** A run that is ended at its limit on a machine without time for it is an answer of the contract: it counts in the tail, and by itself. */
function isRight(r: Json, right: RegExp): boolean {
	if (r.reason === 'timeout')
		count('good work out of time');
	return r.reason === 'timeout' || right.test(r.stdout);
}

/** What a good client does, with the answer that it must get. */
const work: [string, (c: Caller, id: string, n: number) => Promise<boolean>][] = [
	['print', async (c, id, n) => isRight(await c.call('sandbox_run_python', { session_id: id, code: `print(${n})` }), new RegExp(`^${n}\n$`))],
	['group-by', async (c, id, n) => isRight(await c.call('sandbox_run_python', { session_id: id, code: `import pandas as pd\nprint(pd.DataFrame({"k": [1, 1, 2], "v": [20, 25, ${n}]}).groupby("k").sum())` }), /\b45\b/)],
	['upload', async (c, id, n) => (await c.call('sandbox_upload_file', { session_id: id, filename: 'in.csv', content_base64: Buffer.from(`a,b\n1,${n}\n`).toString('base64'), overwrite: true })).error === undefined],
	['list', async (c, id) => Array.isArray((await c.call('sandbox_list_artifacts', { session_id: id })).artifacts)],
];

async function goodClient(base: string, n: number): Promise<void> {
	const c = new Caller(base);
	const id = `good-${n}`;
	await pause((THINK_MS * n) / Number(opt.clients));
	await c.call('sandbox_run_python', { session_id: id, code: '' });
	for (let i = 0; !ending; i++) {
		const [what, act] = work[(i + n) % work.length]!;
		const t = performance.now();
		try {
			if (!(await act(c, id, i)))
				finding(`${what} of ${id}: a wrong answer`);
			samples[phase].push({ what, ms: performance.now() - t });
		} catch (e) {
			if (!ending)
				finding(`${what} of ${id}: ${(e as Error).message}`);
		}
		await pause(THINK_MS);
	}
	c.close();
}

async function hostileProgram(c: Caller, id: string): Promise<void> {
	const p = programs[Math.floor(Math.random() * programs.length)]!;
	const r = await c.call('sandbox_run_python', { session_id: id, code: p.code });
	count(r.error ? `error ${r.error}` : `reason ${r.reason ?? r.exit_code}`);
	if (r.error !== undefined && !contract.has(r.error))
		finding(`program ${p.id}: ${r.error}: ${r.message}`);
	for (const l of String(r.stdout ?? '').split('\n').filter((t) => t.startsWith('BROKEN')))
		finding(`program ${p.id}: ${l}`);
}

/** What a hostile client does besides running programs. */
const tricks: [string, (c: Caller, id: string) => Promise<void>][] = [
	['hang up', async (c, id) => void (await c.call('sandbox_run_python', { session_id: id, code: 'while True: pass' }, 300).catch(() => {}))],
	['no JSON', async (c) => void (await c.post('{"jsonrpc":"2.0","id":1,"method":' + '['.repeat(50_000), { 'mcp-protocol-version': '2026-07-28' }).catch(() => {}))],
	['a megabyte of code', async (c, id) => void (await c.call('sandbox_run_python', { session_id: id, code: '#'.repeat(1 << 20) }))],
	['ids', async (c) => void (await c.call('sandbox_list_artifacts', { session_id: '../../etc' }))],
	['foreign host', async (c) => void (await c.post('{}', { host: 'evil.example' }).catch(() => {}))],
	['close', async (c, id) => void (await c.call('sandbox_close_session', { session_id: id }))],
];

async function hostileClient(base: string, n: number): Promise<void> {
	const c = new Caller(base);
	for (let i = 0; !ending; i++) {
		const id = `hostile-${n}`;
		try {
			if (i % 3 !== 2) {
				await hostileProgram(c, id);
			} else {
				const [what, act] = tricks[Math.floor(Math.random() * tricks.length)]!;
				count(what);
				await act(c, id);
			}
		} catch (e) {
			if (!ending)
				finding(`hostile client ${n}: ${(e as Error).message}`);
		}
		await pause(50);
	}
	c.close();
}

function median(values: number[]): number {
	return quantile(values, 0.5);
}

const clients = Number(opt.clients);
const hostile = Number(opt.hostile);
const { program, base } = await serve({
	env: { SANDBOX_MAX_SESSIONS: String(clients + 8), SANDBOX_EXEC_TIMEOUT_S: String(RUN_S), SANDBOX_KILL_GRACE_MS: '300', SANDBOX_CPU_LIMIT: opt['cpu-limit'], SANDBOX_MEMORY_LIMIT: '256m', SANDBOX_PIDS_LIMIT: '64',
		SANDBOX_WORKSPACE_LIMIT: '32m', SANDBOX_TMP_LIMIT: '16m', SANDBOX_OUTPUT_STOP_BYTES: '100000000' },
});
const monitor = descendants(program.pid).find((p) => p.ppid === program.pid)!;
const memory: { front: number; monitor: number }[] = [];
const before = openDescriptors(program.pid);
const sampler = setInterval(() => {
	memory.push({ front: residentBytes(program.pid), monitor: residentBytes(monitor.pid) });
}, 1000);

// A cold import of pandas takes longer than the limit at this share of a core: begin when interpreters are forked.
const first = new Caller(base);
await until('a warm interpreter', async () => {
	const t = performance.now();
	await first.call('sandbox_run_python', { session_id: 'first', code: 'import pandas' });
	await first.call('sandbox_close_session', { session_id: 'first' });
	return performance.now() - t < 1000;
}, 60_000);
first.close();

const good = Array.from({ length: clients - hostile }, (_, n) => goodClient(base, n));
console.log(`${clients - hostile} good clients alone for ${opt['calm-minutes']} min`);
await pause(Number(opt['calm-minutes']) * 60_000);
phase = 'mixed';
const start = memory.length;
console.log(`and ${hostile} hostile ones beside them for ${opt.minutes} min (${programs.length} programs)`);
const bad = Array.from({ length: hostile }, (_, n) => hostileClient(base, n));
await pause(Number(opt.minutes) * 60_000);
ending = true;
await Promise.all([...good, ...bad]);
clearInterval(sampler);

console.log('\nwork       calm p50    p99   mixed p50    p99   p99 ratio   answers');
const ratios: Json = {};
for (const [what] of work) {
	const of = (p: 'calm' | 'mixed'): number[] => samples[p].filter((s) => s.what === what).map((s) => s.ms);
	const [a, b] = [of('calm'), of('mixed')];
	ratios[what] = quantile(b, 0.99) / quantile(a, 0.99);
	console.log(`${what.padEnd(9)} ${[median(a), quantile(a, 0.99), median(b), quantile(b, 0.99)].map((v) => v.toFixed(1).padStart(9)).join(' ')} ${ratios[what].toFixed(2).padStart(9)}   ${a.length} + ${b.length}`);
}
const all = (p: 'calm' | 'mixed'): number => quantile(samples[p].map((s) => s.ms), 0.99);
const tail = all('mixed') / all('calm');
console.log(`tail of all good work: ${all('calm').toFixed(1)} -> ${all('mixed').toFixed(1)} ms, ${tail.toFixed(2)} times (goal ${TAIL_GOAL}): ${tail <= TAIL_GOAL ? 'reached' : 'missed'}`);
console.log(`counts: ${Object.entries(counts).sort().map(([k, v]) => `${k} ${v}`).join(', ')}`);

/** Memory of the last quarter against the first one of the mixed phase. */
for (const who of ['front', 'monitor'] as const) {
	const values = memory.slice(start).map((m) => m[who]);
	const quarter = Math.max(1, Math.floor(values.length / 4));
	const [first, last] = [median(values.slice(0, quarter)), median(values.slice(-quarter))];
	console.log(`${who}: ${(first / 1048576).toFixed(1)} -> ${(last / 1048576).toFixed(1)} MiB`);
	if (last - first > GROWTH_MAX)
		finding(`memory of the ${who} grew by ${(last - first) >> 20} MiB`);
}
const c = new Caller(base);
for (let n = 0; n < clients; n++)
	for (const kind of ['good', 'hostile'])
		await c.call('sandbox_close_session', { session_id: `${kind}-${n}` });
c.close();
await until('the descriptors of the server to be as before', () => openDescriptors(program.pid) <= before + 16, 20_000).catch((e: Error) => finding(e.message));
const census = new Census();
census.take(program.pid);
program.kill('SIGTERM');
await program.exit;
await census.gone(5000).catch((e: Error) => finding(e.message));
findings.push(...await greedyUsers(Number(opt.greedy), Number(opt['greedy-s'])));
findings.push(...await streams(Number(opt.tabs)));
findings.push(...await tenants());
if (samples.mixed.length === 0 || Object.keys(counts).length === 0)
	finding('nothing was done');
for (const f of findings)
	console.log(`FAILED  ${f}`);
if (opt.report)
	fs.writeFileSync(opt.report, JSON.stringify({ clients, hostile, minutes: Number(opt.minutes), tail, ratios, counts, findings, samples, memory }));
const passed = samples.calm.length + samples.mixed.length;
console.log(`\n${passed} passed, ${findings.length} failed, 0 skipped`);
process.exit(findings.length > 0 ? 1 : 0);
