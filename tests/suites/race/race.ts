// SPDX-License-Identifier: Apache-2.0
// Clients of several users do random things to the same sandboxes at the same time, leave in the middle, delete, revoke. One server must take
// it all: no crash, no report of a sanitizer, no answer 500, and at the end nothing is left.

import * as fs from 'node:fs';
import { spawnSync } from 'node:child_process';
import * as path from 'node:path';
import { random } from '../../lib/data.ts';
import { binary, engine, mode, newStateDir, sanitized, top, unlessEnforced } from '../../lib/env.ts';
import { initsOf } from '../../lib/family.ts';
import { ensureImages } from '../../lib/images.ts';
import { caisson, openDescriptors } from '../../lib/process.ts';
import { serve, type Json } from '../../lib/session.ts';
import { until, within } from '../../lib/wait.ts';
import { Index, wheel, wheelName } from '../../lib/wheel.ts';
import { addUser, IDS, operations, sandboxName, USERS, World, type Op, type Reply } from './operations.ts';

export interface RaceOptions { seconds: number; seed: number; actors: number; replay?: string }

/** What users keep by design when all their sandboxes are gone: it ends by time, or is displaced. */
/* `connections` has that of the question itself. */
const kept = /^(keys|kept_bytes|idempotency_keys|upload_links|notebooks?|tasks|task_results|history|.*_kept|figures|connections)$/;
const SLACK = 4; // descriptors: a connection that is being closed, a statement's file of SQLite

/** An answer that no request may get: also a user is removed whatever is under way. */
function wrong(op: Op, r: Reply): boolean {
	return r.status === 500 || (op.op === 'removeUser' && r.status >= 400) || /"code":"(system_error|execution_failed)"/.test(r.status >= 400 ? r.body : '') || /"code":-32603/.test(r.body);
}

export async function race(o: RaceOptions): Promise<boolean> {
	const missing = ensureImages(path.dirname(binary), 'science');
	if (missing)
		throw new Error(`the image ${missing} could not be built`);
	const index = await new Index().open();
	for (const name of ['gamma', 'delta'])
		index.add(name, { file: wheelName(name, '1.0'), body: wheel(name, '1.0', `who = "${name}"\n`) });
	const env = {
		SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_OPEN_REGISTRATION: 'off', SANDBOX_POOL: '1', SANDBOX_POOL_MAX: '1', SANDBOX_MAX_SESSIONS: '24',
		// One that ended on its own is kept for its next user until the next cleanup.
		SANDBOX_CLEANUP_INTERVAL_M: '1', SANDBOX_TASK_AFTER_S: '1',
		SANDBOX_BUDGETS: 'kept_bytes=100000/1000000', // what is kept makes room for what comes
		...(mode === 'root' && engine === 'native' && !unlessEnforced('memory', 'pids') ? { SANDBOX_ROOT: 'on' } : {}),
		SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_BRIDGE: 'off', SANDBOX_SOCKET: 'off', SANDBOX_LOG_FILE: '',
	};
	const again = o.replay ? opsOf(o.replay) : undefined; // before the log of this run, which may have the same name
	const logFile = path.join(top, 'build', `race-${o.seed}.jsonl`);
	const log = fs.createWriteStream(logFile);
	console.log(`seed ${o.seed}, ${o.seconds} s, ${o.actors} clients${sanitized ? ', with sanitizers' : ''}; operations: ${logFile}`);
	await caisson(['user', 'add', 'boss', '--role', 'admin', '--password', 'none'], { env });
	const admin = (await caisson(['key', 'new', 'boss', '--scope', 'admin'], { env })).stdout.toString().trim();
	const { program, base } = await serve({ profile: 'all', env });
	// In a file from the first byte: what a server says before it dies is all that is known of its end.
	const errorsFile = path.join(top, 'build', `race-${o.seed}.stderr`);
	fs.writeFileSync(errorsFile, program.stderr);
	program.child.stderr!.on('data', (b: Buffer) => fs.appendFileSync(errorsFile, b));
	const w = new World(base, admin, program.pid, env);
	const bad: string[] = [];
	const counts = new Map<number, number>();
	let ending = false;
	const alive = (): boolean => program.child.exitCode === null && program.child.signalCode === null;
	try {
		for (let i = 0; i < USERS; i++)
			await addUser(w, i, `user${i}`);
		await w.mcp({ at: 0, actor: 0, op: '', user: 0, id: 0, n: 0 }, 'sandbox_run_python', { code: '1', session_id: 'race-0-0' });
		await clear(w);
		const before = openDescriptors(program.pid);
		const started = performance.now();
		const now = (): number => Math.round(performance.now() - started);
		const perform = async (op: Op): Promise<void> => {
			log.write(`${JSON.stringify(op)}\n`);
			const r = await operations[op.op]![1](w, op).catch((e: Error) => ({ status: -1, body: e.stack ?? '', headers: {} }));
			if (!r)
				return;
			counts.set(r.status, (counts.get(r.status) ?? 0) + 1);
			log.write(`${JSON.stringify({ done: now(), of: op.at, actor: op.actor, op: op.op, status: r.status, body: r.body.slice(0, 300) })}\n`);
			if (alive() && !(ending && r.status === -1) && (wrong(op, r) || r.status === -1))
				bad.push(`${JSON.stringify(op)}: ${r.status} ${r.body.slice(0, 500)}`);
		};
		if (again)
			await replay(again, now, perform, alive);
		else
			await Promise.all(Array.from({ length: o.actors }, (_, i) => actor(o, i, now, perform, alive)));
		console.log(`${[...counts.values()].reduce((a, b) => a + b, 0)} answers: ${[...counts].toSorted(([a], [b]) => a - b).map(([s, n]) => `${s || 'left'} × ${n}`).join(', ')}`);
		if (alive())
			bad.push(...await leftovers(w, before));
		// The server ends while operations are under way.
		if (alive() && !again) {
			const last = Array.from({ length: o.actors }, (_, i) => actor({ ...o, seed: o.seed + 1, seconds: now() / 1000 + 3 }, i, now, (op) => Promise.race([perform(op), new Promise<void>((resolve) => setTimeout(resolve, 20))]), alive));
			await new Promise((resolve) => setTimeout(resolve, 2000));
			ending = true;
			program.kill('SIGTERM');
			await within('the end of the server', program.exit, 60_000);
			await Promise.all(last);
		}
	} finally {
		log.end();
		index.close();
		program.kill('SIGTERM');
	}
	const end = await within('the end of the server', program.exit, 60_000);
	if (end.code !== 0 || end.signal)
		bad.push(`the server ended with ${end.code ?? end.signal}`);
	bad.push(...told(end.stderr.toString(), end.code !== 0));
	for (const text of bad.slice(0, 20))
		console.log(`FAILED  ${text}`);
	if (bad.length > 20)
		console.log(`FAILED  and ${bad.length - 20} more`);
	if (bad.length > 0)
		console.log(`again: tests/run race --seed ${o.seed} --seconds ${o.seconds} --actors ${o.actors}, or --replay ${logFile}; stderr: ${errorsFile}`);
	return bad.length === 0;
}

/** Where `(PROGRAM+0xOFFSET)` of a report is in the source: the front has no right to start a program that would tell. */
function named(report: string): string {
	return report.split('\n').map((line) => {
		const [, program, offset] = /\((\/\S+)\+(0x[0-9a-f]+)\)/.exec(line) ?? [];
		const found = program === undefined ? undefined : spawnSync('addr2line', ['-Cfpse', program, offset!], { encoding: 'utf8' });
		return found?.status === 0 && !found.stdout.startsWith('??') ? `${line.replace(/0x[0-9a-f]+ .*/, '')}${found.stdout.trim()}` : line;
	}).join('\n');
}

/** What a server said of its end: reports of sanitizers, broken promises, or its last lines if it DIED without one. */
function told(stderr: string, died: boolean): string[] {
	const at = stderr.search(/[^\n]*(Sanitizer|runtime error|broken promise)/);
	if (at >= 0)
		return [named(stderr.slice(at, at + 8000).replace(/Shadow bytes around[^]*/, ''))];
	return died ? [`its last lines:\n${stderr.split('\n').slice(-40).join('\n')}`] : [];
}

/** What one client does follows from the seed and its number alone. */
async function actor(o: RaceOptions, number: number, now: () => number, perform: (op: Op) => Promise<void>, alive: () => boolean): Promise<void> {
	const next = random(o.seed * 1000 + number);
	const whole = (below: number): number => Math.floor(next() * below);
	const names = Object.entries(operations).flatMap(([name, [weight]]) => Array<string>(weight).fill(name));
	while (now() < o.seconds * 1000 && alive()) {
		const op: Op = { at: 0, actor: number, op: names[whole(names.length)]!, user: whole(USERS), id: whole(IDS), n: whole(1_000_000) };
		const abort = whole(5), ms = whole(60), joined = whole(4);
		op.at = now();
		if (abort === 0)
			op.abort = ms;
		const done = perform(op);
		if (joined > 0) // else the next one begins beside it
			await done;
		else
			await Promise.race([done, new Promise((resolve) => setTimeout(resolve, ms))]);
	}
}

function opsOf(file: string): Op[] {
	const ops = fs.readFileSync(file, 'utf8').split('\n').filter(Boolean).map((l) => JSON.parse(l) as Op).filter((l) => l.at !== undefined && operations[l.op]);
	return ops.toSorted((a, b) => a.at - b.at);
}

async function replay(ops: Op[], now: () => number, perform: (op: Op) => Promise<void>, alive: () => boolean): Promise<void> {
	const all: Promise<void>[] = [];
	for (const op of ops) {
		await new Promise((resolve) => setTimeout(resolve, Math.max(0, op.at - now())));
		if (!alive())
			break;
		all.push(perform(op));
	}
	await Promise.all(all);
}

async function all(w: World): Promise<Json[]> {
	return ((JSON.parse((await w.send({}, 'GET', '/api/v1/sandboxes?all=true', w.admin)).body || '{}') as Json).sandboxes ?? []) as Json[];
}

/** Ends every sandbox and every MCP session. */
async function clear(w: World): Promise<void> {
	let left = '';
	await until('the last sandbox to go', async () => {
		const drop = (owner: string, id: string): Promise<unknown> => w.send({}, 'DELETE', `/api/v1/sandboxes/${id}?force=true&owner=${owner}`, w.admin);
		for (const [user, owner] of w.users.entries())
			for (let id = 0; id < IDS; id++) // also those that ended on their own, which no list shows
				await drop(owner, sandboxName(user, id));
		for (const s of await all(w))
			await drop(s.owner as string, s.id as string);
		const there = await all(w);
		left = `sandboxes ${there.map((s) => `${s.owner}/${s.id}`).join(' ')}; ${initsOf(w.front).length} inits`;
		return there.length === 0 && initsOf(w.front).length <= 1;
	}, 15_000).catch((e: Error) => {
		throw new Error(`${e.message}: ${left}`);
	});
	await endSessions(w);
	w.sessions.clear();
}

/** Those whose end was refused, or that began meanwhile, are there the next time. */
async function endSessions(w: World): Promise<void> {
	for (const one of w.begun.splice(0)) {
		const r = await w.send({}, 'DELETE', '/mcp', w.keys[one.user], undefined, { 'mcp-session-id': one.session });
		if (![200, 202, 204, 404].includes(r.status))
			w.begun.push(one);
	}
}

/** What is left when nobody does anything any more. */
async function leftovers(w: World, before: number): Promise<string[]> {
	let rows: string[] = [];
	const look = async (): Promise<boolean> => {
		await endSessions(w);
		const late = await all(w); // made for a client that had left
		for (const one of late)
			await w.send({}, 'DELETE', `/api/v1/sandboxes/${one.id}?force=true&owner=${one.owner}`, w.admin);
		const stats = JSON.parse((await w.send({}, 'GET', '/api/v1/stats', w.admin)).body || '{}') as Json;
		rows = Object.entries((stats.budgets ?? {}) as Json).filter(([name, b]) => !kept.test(name) && (b.used ?? 0) > 0).map(([name, b]) => `${name} ${JSON.stringify(b)}`);
		const open = openDescriptors(w.front);
		if (open > before + SLACK)
			rows.push(`${open} descriptors of the front, before ${before}`);
		if (rows.length > 0)
			rows.push(`${late.length} sandboxes`);
		return rows.length === 0;
	};
	try {
		await clear(w);
		await until('everything to be given back', look, 15_000);
		return [];
	} catch (e) {
		return [`left: ${rows.join('; ') || (e as Error).message}`];
	}
}
