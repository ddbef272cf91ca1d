// SPDX-License-Identifier: Apache-2.0
// The tries of one worker: each point of its scenarios, each victim. Prints one JSON line per try (see main.ts).
// Settings come from the environment: those of lib/env.ts, KILL_PART (`i/n`), KILL_CASE (a pattern), KILL_SEED (of a sample; empty: all).

import assert from 'node:assert/strict';
import { emitRow } from '../../lib/modes.ts';
import { mode } from '../../lib/env.ts';
import { alive, self } from '../../lib/process.ts';
import { Sample } from '../../lib/sample.ts';
import type { Json } from '../../lib/session.ts';
import { NO_TIME, timeIsUp } from '../../lib/time.ts';
import { until, within } from '../../lib/wait.ts';
import { points, type Point } from './points.ts';
import { scenarios, type Scenario, type Try } from './scenarios.ts';
import { kill, Server, type Outcome } from './server.ts';

export interface Row {
	scenario: string;
	point: string;
	victim: string;
	/** `absent`: there was no such process to kill. `left out`: not in the sample. */
	outcome: 'passed' | 'failed' | 'skipped' | 'absent' | 'left out';
	ms: number;
	what: string; // how the client heard of it
	why?: string;
}

const SELF = 'itself';
const others = ['front', 'monitor', 'zygote', 'init'];
const REACH_MS = 30_000;
const SETTLE_MS = 60_000;
const only = new RegExp(process.env.KILL_CASE ?? '');
const sample = new Sample(Boolean(process.env.KILL_SEED), process.env.KILL_SEED || undefined);
const [part, parts] = (process.env.KILL_PART ?? '0/1').split('/').map(Number) as [number, number];

function emit(row: Row): void {
	emitRow(row);
}

/** What a sample has of the kills that are not in the fixed core. */
const SHARE = { root: 0.1, user: 0.3 };

/** The fixed core of a sample: as root, each process that reaches a point is killed there. */
function runs(sc: Scenario, point: string, victim: string): boolean {
	return sample.picks(`${mode} ${sc.name}/${point}/${victim}`, mode === 'user' && victim !== SELF ? 0 : SHARE[mode], mode === 'root' && victim === SELF && !sc.images);
}

/** Who is killed at a point: the process that reaches it, and each of the others. */
function victimsOf(p: Point): string[] {
	return [SELF, ...others.filter((v) => v !== p.who)];
}

/** A server with its bystanders: a session with a file, and two stored sandboxes. */
class Place {
	readonly server: Server;
	private readonly pool: number;
	private serial = 0;
	private calmMade = false; // on this server
	private stored: string[] = [];
	private bystanders = new Set<number>();

	constructor(sc: Scenario, env: Record<string, string>) {
		this.server = new Server(env, sc.host, sc.images);
		this.pool = Number(env.SANDBOX_POOL ?? 0);
	}

	/** Serves, and everybody who has nothing to do with the next try is well. */
	async calm(touched: boolean): Promise<void> {
		const s = this.server;
		const fresh = !s.runs;
		if (fresh)
			await this.start();
		assert.equal(await s.run('calm', this.calmMade ? 'print(open("f").read())' : 'open("f", "w").write("calm"); print(open("f").read())'), 'calm', 'the bystander');
		this.calmMade = true;
		for (const file of this.stored.length === 0 ? ['other', 'keep'] : [])
			await this.makeStored(file);
		const [other, keeper] = this.stored as [string, string];
		if (fresh || touched) // an activation each: not where nothing has happened to them
			assert.equal(await s.run(other, 'print(open("other").read())'), 'kept', 'a stored file');
		assert.equal(await s.run(keeper, 'print(open("keep").read())'), 'kept', 'a stored file');
		await until('a zygote', async () => {
			if (s.victims('zygote', new Set()).length === 1)
				return true;
			await s.call('sandbox_run_python', { session_id: 'needs-one', code: 'pass' }); // one is started by need
			await s.call('sandbox_close_session', { session_id: 'needs-one' });
			return false;
		}, REACH_MS);
		await s.clean(2 + this.pool);
		this.bystanders = new Set(s.inits().map((p) => p.pid));
		s.note();
	}
	private async start(): Promise<void> {
		await this.server.start();
		this.calmMade = false;
		this.bystanders.clear();
	}
	private async makeStored(file: string): Promise<void> {
		const r = await this.server.rest('POST', '/sandboxes', { kind: 'stored', name: file });
		assert.equal(r.kind, 'right', JSON.stringify(r));
		const id = (r as unknown as { value: { id: string } }).value.id;
		await this.server.run(id, `open("${file}", "w").write("kept")`);
		this.stored.push(id);
	}

	private async kill(victim: string): Promise<boolean> {
		const found = this.server.victims(victim, this.bystanders);
		for (const p of found)
			kill(p);
		await until(`the end of ${victim}`, () => !found.some(alive), REACH_MS);
		return found.length > 0;
	}

	/** Who lives on serves on; who cannot says so, ends, and a new server takes over. */
	private async recover(victim: string): Promise<void> {
		const s = this.server;
		if (s.whole && !['sweep', 'pulls'].includes(victim)) // what a sweep leaves is removed by the next one; nobody takes the place of who downloads
			return;
		if (s.runs && victim === 'monitor') {
			const r = await s.call('sandbox_run_python', { code: 'print(1)' });
			assert.equal(r.kind, 'error', `without a monitor: ${JSON.stringify(r)}`);
		}
		await s.stop();
	}

	/** False = there was nobody to kill. */
	async try(sc: Scenario, point: Point, victim: string, row: Row): Promise<boolean> {
		const s = this.server;
		if (sc.first) {
			if (s.runs)
				await s.stop();
			await this.start();
		} else if (!s.runs) {
			await this.calm(true);
		}
		const [other, keeper] = this.stored as [string, string];
		const t: Try = { server: s, id: `try-${++this.serial}`, keeper, other, dies: victim === SELF ? point.who : victim };
		await sc.before?.(t);
		const known = new Set(sc.runs ? (await s.history(t.id)).map((r) => r.id as string) : []);
		s.kept = true;
		// A client may have an answer before the front has passed the point behind it. When the front waits, it has passed it.
		await until('the front to have nothing to do', () => self(s.pid).state === 'S', REACH_MS);
		s.control.arm(point, victim === SELF);
		let settled = false;
		const act = sc.act(t).finally(() => (settled = true));
		act.catch(() => {});
		let there = true;
		try {
			let by = 0;
			await until(`${point.name} to be reached`, () => s.control.reached || (settled && (by ||= performance.now()) + 3000 < performance.now() && assert.fail(`${point.name} was not reached`)), REACH_MS);
			if (victim !== SELF)
				there = await this.kill(victim);
		} finally {
			s.control.disarm();
		}
		const o = await within('an answer', act, SETTLE_MS);
		row.what = o.kind === 'error' ? `error ${o.code}` : o.kind === 'right' ? 'right' : 'closed';
		await this.judge(sc, point, victim, o, t, known);
		return there;
	}

	private async judge(sc: Scenario, point: Point, victim: string, o: Outcome, t: Try, known: Set<string>): Promise<void> {
		const s = t.server;
		if (o.kind === 'right')
			sc.right(o.value, t);
		if (o.kind === 'closed')
			assert.ok(victim === 'front' || (victim === SELF && point.who === 'front'), 'the front lives, and has closed the connection without an answer');
		if (victim === 'zygote')
			assert.equal(o.kind, 'right', `no request fails by the end of a zygote: ${JSON.stringify(o)}`);
		if (['front', 'monitor'].includes(t.dies))
			await until(`the end of the ${t.dies}`, () => !s.whole, REACH_MS);
		s.note();
		s.kept = s.whole;
		await sc.without?.(t);
		await this.recover(victim === SELF ? point.who : victim);
		if (!s.runs)
			await this.calm(true);
		if (o.kind === 'right' && o.value.run_id)
			await this.historyOf(o, t, o.value.session_id, (r) => r.id === o.value.run_id);
		else if (sc.runs && !point.name.startsWith('COMMIT_')) // which may be that of an earlier row
			await this.historyOf(o, t, t.id, (r) => !known.has(r.id));
		await sc.after?.(o, t);
		await s.call('sandbox_close_session', { session_id: t.id });
		await this.calm(/stored/.test(sc.name));
	}

	/** A run that began is in the history once: with the end that was answered, or as lost. */
	private async historyOf(o: Outcome, t: Try, session: string, mine: (r: Json) => boolean): Promise<void> {
		let rows: Json[] = [];
		await until('the row of history', async () => (rows = (await t.server.history(session)).filter(mine)).length > 0, REACH_MS);
		assert.equal(rows.length, 1, `${rows.length} rows of one run`);
		if (o.kind === 'right' && o.value.reason)
			assert.equal(rows[0]!.reason, o.value.reason);
		if (o.kind === 'error' && o.code === 'sandbox_lost')
			assert.equal(rows[0]!.reason, 'lost');
	}
}

let place: Place | undefined;
let settings = '';
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
	process.on(signal, () => {
		place?.server.kill();
		process.exit(1);
	});

/** The server of the settings of SC: another one only when the last had others, or has failed. */
async function placeOf(sc: Scenario): Promise<Place> {
	const env = typeof sc.env === 'function' ? await sc.env() : sc.env ?? {};
	const wanted = JSON.stringify([env, sc.host, sc.images]);
	if (wanted !== settings && place?.server.runs)
		await place.server.stop();
	if (wanted !== settings || !place)
		place = new Place(sc, env);
	settings = wanted;
	return place;
}

/** One kill. What failed leaves a server that nobody trusts: the next try has a new one. */
async function tryOnce(sc: Scenario, point: Point, victim: string): Promise<Row> {
	const row: Row = { scenario: sc.name, point: point.name, victim, outcome: 'failed', ms: 0, what: '' };
	if (timeIsUp())
		return { ...row, outcome: 'skipped', why: NO_TIME };
	const began = performance.now();
	try {
		row.outcome = (await (await placeOf(sc)).try(sc, point, victim, row)) ? 'passed' : 'absent';
	} catch (e) {
		row.why = (e as Error).message;
		place?.server.kill();
		place = undefined;
	}
	row.ms = Math.round(performance.now() - began);
	return row;
}

async function main(): Promise<void> {
	let n = 0;
	for (const sc of scenarios)
		for (const name of sc.points) {
			const point = points.find((p) => p.name === name)!;
			if (mode === 'user' && point.rootOnly)
				continue;
			for (const victim of victimsOf(point))
				if (only.test(`${sc.name}/${name}/${victim}`) && n++ % parts === part)
					emit(runs(sc, name, victim) ? await tryOnce(sc, point, victim)
						: { scenario: sc.name, point: name, victim, outcome: 'left out', ms: 0, what: '' });
		}
	if (place?.server.runs)
		await place.server.stop();
}

await main();
process.exit(0);
