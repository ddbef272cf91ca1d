// SPDX-License-Identifier: Apache-2.0
// All cases in one mode against one server. Prints one JSON line per case (see main.ts). Settings come from the
// environment: those of lib/env.ts, HOSTILE_BUILD (a folder), HOSTILE_CASE (a pattern), HOSTILE_TIMES (how often each), HOSTILE_WARM (on or off).

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { enforced, engine, scratch, slowness, stateDir, top } from '../../lib/env.ts';
import { emitRow } from '../../lib/modes.ts';
import { openDescriptors, residentBytes } from '../../lib/process.ts';
import { open, type Session } from '../../lib/session.ts';
import { held, type Turn } from '../../lib/turns.ts';
import { NO_TIME, timeIsUp } from '../../lib/time.ts';
import { until, within } from '../../lib/wait.ts';
import { twinOf, type Case, type Outside } from './case.ts';
import { casesOn, notOn } from './cases/all.ts';
import { openWorld } from './fakenet.ts';
import { checkAttempts, checkEnding, programOf, runCode } from './judge.ts';
import { Served } from './served.ts';

export interface Row {
	id: string;
	attack: string;
	outcome: 'passed' | 'failed' | 'skipped';
	ms: number;
	why?: string;
	/** Long turns of the server's loop meanwhile. */
	turns?: Turn[];
}

const TIMEOUT_S = 4 * slowness;
const TWIN_MS = 15_000; // one without walls may hang, one with damage must come to its judgement
const TURN_MS = 20; // from here on a turn of the loop is told
const TURN_MOST_MS = 100 * slowness; // of CPU, in one turn: more is a failure. What it waited depends on the machine
const build = process.env.HOSTILE_BUILD ?? path.join(top, 'build');
const only = new RegExp(process.env.HOSTILE_CASE ?? '');

const cases = casesOn(engine);

function emit(row: Row): void {
	emitRow(row);
}

function survivorsOf(mark: string): number[] {
	return fs.readdirSync('/proc').filter((p) => /^\d+$/.test(p)).map(Number).filter((pid) => {
		try {
			return fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(mark);
		} catch {
			return false;
		}
	});
}

function mounts(): string {
	return fs.readFileSync('/proc/self/mountinfo', 'utf8');
}

/** The open descriptors of a process by what they are, for a failure to say. */
function kindsOf(pid: number): string {
	const kinds = new Map<string, number>();
	for (const fd of fs.readdirSync(`/proc/${pid}/fd`)) {
		let kind: string;
		try {
			kind = fs.readlinkSync(`/proc/${pid}/fd/${fd}`).replace(/\d+/g, '');
		} catch {
			continue; // it was closed meanwhile
		}
		kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
	}
	return [...kinds].map(([k, n]) => `${n} ${k}`).join(', ');
}

/** What must be true after every case, whatever it was. */
async function checkAlways(o: Outside, calm: { mounts: string; descriptors: number; kinds: string }): Promise<void> {
	await o.session.client.ping();
	await until('the end of every process of the case', () => o.survivors().length === 0, 3000);
	assert.equal((await o.session.ok('print("next")', o.id)).stdout, 'next\n', 'the sandbox goes on');
	assert.ok((await o.neighbourMs()) < 5000 * slowness, 'a neighbour waits');
	// What a case leaves, stays; others on the host mount for a moment.
	await until("the host's mounts to be as before", () => mounts() === calm.mounts, 5000).catch(() => assert.equal(mounts(), calm.mounts, "the host's mounts"));
	assert.equal(fs.readFileSync(o.canary, 'utf8'), 'canary\n');
	await o.session.close(o.id);
	// A sandbox of the pool that is being made has some for a moment.
	await until(`the server's descriptors to be ${calm.descriptors} again`, () => openDescriptors(o.session.pid) <= calm.descriptors + 4, 5000)
		.catch((e: Error) => assert.fail(`${e.message}; they were ${calm.kinds}; they are ${kindsOf(o.session.pid)}`));
}

/** How long the log of the server of S is; there is none before its first line. */
function logLength(s: Session): number {
	return fs.existsSync(s.log) ? fs.statSync(s.log).size : 0;
}

/** The turns in what the server of S has logged since FROM, and in the logs of others. */
function turnsSince(s: Session, from: number, others: string[]): Turn[] {
	const own = fs.existsSync(s.log) ? fs.readFileSync(s.log).subarray(from).toString() : '';
	return held([own, ...others].join('\n'), TURN_MS);
}

/** Servers over HTTP, by what they have besides the settings of all. */
const served = new Map<string, Promise<Served>>();

function serverWith(env: Outside['env'], more: Record<string, string>): Promise<Served> {
	const key = JSON.stringify(more), known = served.get(key) ?? Served.open({ ...env, ...more });
	served.set(key, known);
	return known;
}
async function endServed(): Promise<void> {
	for (const one of served.values())
		await (await one.catch(() => undefined))?.end();
	served.clear();
}

/** OTHERS gets the logs of further servers. */
async function runCase(c: Case, s: Session, canary: string, others: string[], base: Outside['env'], env: Outside['env'] = {}, planted?: Case['planted']): Promise<void> {
	const mark = `hostile-${c.id}-${process.pid}`;
	const o: Outside = {
		session: s, id: `h${c.id}`, mark, stateDir: stateDir(), build, enforced: enforced ?? [], canary, env,
		logged: (text) => void others.push(text),
		served: () => serverWith({ ...base, ...env }, {}),
		rooted: (more = {}) => serverWith({ ...base, ...env }, { SANDBOX_ROOT: 'on', ...more }),
		residentBytes: () => residentBytes(s.pid),
		survivors: () => survivorsOf(mark),
		neighbourMs: async () => {
			const t = performance.now();
			await s.ok('print(1)', 'neighbour');
			return performance.now() - t;
		},
	};
	await s.ok('open("there", "w").close()', 'neighbour'); // the first file of a server opens its listener for links, which stays
	const calm = { mounts: mounts(), descriptors: openDescriptors(s.pid), kinds: kindsOf(s.pid) };
	const code = programOf(c.code).replaceAll('@MARK@', mark).replaceAll('@STATE@', stateDir()).replaceAll('@CANARY@', canary);
	await c.before?.(o);
	if (c.code) {
		const [r] = await Promise.all([runCode(s, code, o.id), c.during?.(o)]);
		await planted?.by(r, o);
		checkEnding(r, c.ends ?? 0);
		checkAttempts(r, c.held ?? 1);
		await c.after?.(r, o);
	} else {
		await planted?.by({}, o);
		await c.after?.({}, o);
	}
	await checkAlways(o, calm);
}

/** A limit that was set and cannot be enforced would be refused. */
function given(limit: string, value: string): string | undefined {
	return !enforced || enforced.includes(limit) ? value : undefined;
}

async function runTwin(c: Case, canary: string, env: Outside['env']): Promise<Row> {
	const row: Row = { id: c.id, attack: c.attack, outcome: 'failed', ms: 0, why: 'it held without them, too' };
	const t = performance.now();
	const less = { ...c.without?.settings, CAISSON_WITHOUT_WALLS: c.without?.walls?.join(',') };
	const s = await open('stdio', { env: { ...env, ...less } });
	let judges = false;
	try {
		await s.ok('print(1)', 'neighbour'); // without the walls a sandbox must start, or nothing is judged
		judges = true;
		await within('the case', runCase(c, s, canary, [], env, less, c.planted), c.without ? TWIN_MS : 4 * TWIN_MS);
	} catch (e) {
		if (judges && (c.without || e instanceof assert.AssertionError)) // a planted twin proves the judgement, so it must be the one that speaks
			row.outcome = 'passed';
		row.why = (e as Error).message;
	}
	await endServed();
	for (const pid of survivorsOf(`hostile-${c.id}-`))
		process.kill(pid, 'SIGKILL');
	await s.end().catch(() => {});
	return { ...row, ms: Math.round(performance.now() - t) };
}

/** Without the walls that a case names, or with the damage planted, it must fail by its own judgement; a server of its own each time. */
async function mainWithout(canary: string, env: Outside['env']): Promise<void> {
	const closeWorld = await openWorld();
	for (const c of cases.filter((k) => ['without', 'planted'].includes(twinOf(k)) && !k.skip && only.test(k.id)))
		emit(await runTwin(c, canary, env));
	closeWorld();
}

async function main(): Promise<void> {
	const canary = path.join(scratch('canary'), 'canary.txt');
	fs.writeFileSync(canary, 'canary\n');
	const env = {
		SANDBOX_EXEC_TIMEOUT_S: String(TIMEOUT_S), SANDBOX_KILL_GRACE_MS: '300', SANDBOX_MEMORY_LIMIT: given('memory', '256m'), SANDBOX_PIDS_LIMIT: given('pids', '64'),
		SANDBOX_OUTPUT_STOP_BYTES: '100000000', SANDBOX_MAX_ARTIFACT_READ_BYTES: '1048576', SANDBOX_WORKSPACE_LIMIT: '32m', SANDBOX_WORKSPACE_FILES: '2000', SANDBOX_TMP_LIMIT: '16m', SANDBOX_WARM: process.env.HOSTILE_WARM,
		SANDBOX_POOL: '1', SANDBOX_POOL_MAX: '1', // sandboxes made ahead hold descriptors, and the count of these is judged
		SANDBOX_API_KEY: undefined, HOSTILE_SECRET: 'hostile-canary', CAISSON_WATCH_TURNS: String(TURN_MS),
	};
	if (process.env.HOSTILE_WITHOUT)
		return mainWithout(canary, env);
	let s = await open('stdio', { env });
	const chosen = cases.filter((k) => only.test(k.id)).flatMap((c) => Array<Case>(Number(process.env.HOSTILE_TIMES ?? 1)).fill(c));
	const order = (process.env.HOSTILE_ORDER ?? '').split(' '); // of a sample whose time may end
	chosen.sort((a, b) => order.indexOf(a.id) - order.indexOf(b.id));
	for (const c of chosen) {
		const lacking = (c.needs ?? []).filter((n) => enforced && !enforced.includes(n));
		const row: Row = { id: c.id, attack: c.attack, outcome: 'passed', ms: 0 };
		if (timeIsUp()) {
			emit({ ...row, outcome: 'skipped', why: NO_TIME });
			continue;
		}
		if (lacking.length > 0) {
			emit({ ...row, outcome: 'skipped', why: `caisson doctor: ${lacking.join(', ')} cannot be enforced here` });
			continue;
		}
		const why = notOn(engine, c) ?? c.skip ?? (c.mounts && process.getuid!() !== 0 ? 'started without root' : undefined);
		if (why) {
			emit({ ...row, outcome: 'skipped', why });
			continue;
		}
		const t = performance.now();
		const others: string[] = [];
		const [server, from] = [s, logLength(s)];
		try {
			await runCase(c, s, canary, others, env);
			row.turns = turnsSince(server, from, others);
			assert.deepEqual(row.turns.filter((turn) => turn.cpuMs > TURN_MOST_MS), [], 'the loop was held');
		} catch (e) {
			row.turns ??= turnsSince(server, from, others);
			row.outcome = 'failed'; // what was seen once from outside was there: main.ts forgives deadlines alone
			row.why = (e as Error).message;
			await s.end().catch(() => {});
			await endServed();
			s = await open('stdio', { env });
		}
		emit({ ...row, ms: Math.round(performance.now() - t) });
	}
	await endServed();
	await s.end();
}

await main();
