// SPDX-License-Identifier: Apache-2.0
// Runs cases and judges them, the same way in every suite: a case that failed runs again at the end, alone, up to two times. If it passes
// then, it is flaky: it is named, and it does not fail the run. Some failures are never forgiven.

import * as fs from 'node:fs';
import { Count, SLOTS } from './count.ts';
import type { Row } from './reporter.ts';
import { mayRunAgain, NO_TIME, timeIsUp } from './time.ts';

export interface Trial {
	name: string;
	/** Throws if the case fails. Gives a reason if the case cannot run here. */
	run(): Promise<string | void>;
}

export interface Playing {
	/** Cases at a time. */
	jobs?: number;
	/** What is asserted is a wall, or that acknowledged data is there: only a deadline that passed is forgiven. */
	strict?: boolean;
	/** Further lines about a failure. */
	onFailure?(t: Trial): Promise<string>;
}

/** A signal or a broken assertion of our binary, or a report of a sanitizer: seen once, it was there. */
const NEVER = /(Address|Leak|Thread|UndefinedBehavior)Sanitizer|runtime error: |broken promise|\bSIG(SEGV|ABRT|BUS|ILL|FPE|SYS)\b|BROKEN/;

/** What waits longer than it may, in the words of wait.ts, of the MCP client, of Playwright and of the runner. A machine that stalls does so, too. */
const DEADLINE = /waited \d+ ms in vain|took more than \d+|Request timed out|Timeout \d+ms exceeded|ETIMEDOUT/;

/** How often what failed for WHY may run again. */
export function secondTries(why: string, strict = false): number {
	return NEVER.test(why) || (strict && !DEADLINE.test(why)) ? 0 : 2;
}

/** The first line of a failure that says something. */
export function firstLine(why: string): string {
	return why.split('\n').map((l) => l.trim()).find((l) => l !== '') ?? 'no reason given';
}

/** Names a flaky case; in .ci/run also in its table: step, case, reason. */
export function tellFlaky(name: string, why: string): void {
	const { CAISSON_TEST_FLAKY: table, CAISSON_TEST_STEP: step } = process.env;
	console.log(`flaky   ${name}: ${firstLine(why)}`);
	if (table)
		fs.appendFileSync(table, `${[step, name, firstLine(why)].map((s) => (s ?? '').replace(/\s+/g, ' ')).join('\t')}\n`);
}

/**
 * The row of ROWS, a second try, that says what became of ROW, which failed; undefined if it did not run. A failure of a whole file or
 * program has no row when all goes well: then any case that passed says so.
 */
export function rowAgain(row: Row, rows: readonly Row[]): Row | undefined {
	const isCase = row.full !== undefined;
	return rows.find((r) => r.outcome === 'failed' && (r.name === row.name || !isCase || r.full === undefined))
		?? rows.find((r) => r.outcome === 'passed' && (r.name === row.name || !isCase));
}

interface Failure {
	trial: Trial;
	why: string;
}

async function attempt(t: Trial, count: Count, o: Playing): Promise<Failure | undefined> {
	const begin = performance.now();
	try {
		const reason = await t.run();
		count.add(reason ? 'skipped' : 'passed');
		console.log(reason ? `skipped ${t.name}: ${reason}` : `ok      ${t.name} (${Math.round(performance.now() - begin)} ms)`);
		return undefined;
	} catch (e) {
		const more = await o.onFailure?.(t).catch((f: Error) => f.message) ?? '';
		return { trial: t, why: `${String((e as Error).stack ?? e)}${more && `\n${more}`}` };
	}
}

function tell(mark: string, f: Failure): void {
	console.log(`${mark.padEnd(8)}${f.trial.name}\n${f.why.split('\n').slice(0, 40).map((l) => `        ${l}`).join('\n')}`);
}

async function again(f: Failure, count: Count, o: Playing): Promise<void> {
	for (let n = secondTries(f.why, o.strict); n > 0 && mayRunAgain(); n--) {
		const own = new Count();
		const next = await attempt(f.trial, own, o);
		if (own.passed > 0) {
			tellFlaky(f.trial.name, f.why);
			count.add('flaky');
			return;
		}
		if (!next) // a case that skips itself now has not passed
			break;
		tell('again', next);
		if (secondTries(next.why, o.strict) === 0)
			break;
	}
	tell('FAILED', f);
	count.add('failed');
}

/** Runs every case once, and those that failed again. Prints a line for each. */
export async function play(trials: readonly Trial[], count: Count, o: Playing = {}): Promise<void> {
	const queue = [...trials];
	const failed: Failure[] = [];
	const worker = async (): Promise<void> => {
		for (let t = queue.shift(); t; t = queue.shift()) {
			if (timeIsUp()) {
				console.log(`skipped ${t.name}: ${NO_TIME}`);
				count.add('skipped');
				continue;
			}
			const f = await attempt(t, count, o);
			if (f) {
				tell('failed', f);
				failed.push(f);
			}
		}
	};
	await Promise.all(Array.from({ length: o.jobs ?? 1 }, worker));
	if (failed.length > Math.max(SLOTS, 5))
		for (const f of failed.splice(0)) {
			console.log(`FAILED  ${f.trial.name}: ${firstLine(f.why)}`);
			count.add('failed');
		}
	for (const f of failed)
		await again(f, count, o);
}

/** A result of a suite whose cases run in a process of their own (modes.ts, runRows). */
export interface Result {
	outcome: string;
	why?: string;
}

export interface Remote<R extends Result> {
	name(r: R): string;
	strict?: boolean;
	/** Runs the cases of these results once more and gives theirs. */
	run(failed: R[]): Promise<R[]>;
}

/** Counts results that failed, after they ran again where that may be forgiven: at the end, one after the other. */
export async function playAgain<R extends Result>(failed: R[], count: Count, o: Remote<R>): Promise<void> {
	const lost = (r: R): void => {
		console.log(`FAILED  ${o.name(r)}: ${firstLine(r.why ?? '')}`);
		count.add('failed');
	};
	let waiting = failed.length > Math.max(SLOTS, 5) ? [] : failed.filter((r) => secondTries(r.why ?? '', o.strict) > 0);
	failed.filter((r) => !waiting.includes(r)).forEach(lost);
	for (let n = 1; n <= 2 && waiting.length > 0 && mayRunAgain(); n++) {
		const now = await o.run(waiting);
		const passed = (r: R): boolean => now.some((k) => o.name(k) === o.name(r) && k.outcome === 'passed');
		for (const r of waiting.filter(passed)) {
			tellFlaky(o.name(r), r.why ?? '');
			count.add('flaky');
		}
		waiting = waiting.filter((r) => !passed(r));
		const final = waiting.filter((r) => now.some((k) => o.name(k) === o.name(r) && secondTries(k.why ?? '', o.strict) === 0));
		final.forEach(lost);
		waiting = waiting.filter((r) => !final.includes(r));
	}
	waiting.forEach(lost);
}
