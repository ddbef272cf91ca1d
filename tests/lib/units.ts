// SPDX-License-Identifier: Apache-2.0
// Runs what Meson knows of (unit tests, corpus replay of the fuzz targets, drivers of the engine) and counts cases, not programs.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { imagesDir, slowness } from './env.ts';
import { rowAgain, secondTries, tellFlaky } from './play.ts';
import type { Row } from './reporter.ts';
import { mayRunAgain } from './time.ts';

interface MesonTest {
	name: string;
	result: string;
	duration: number;
	stdout?: string;
	stderr?: string;
}

/** cmocka writes one such line per case, on stderr as a rule. */
const cmockaCase = /^\[\s*(OK|FAILED|SKIPPED)\s*\] (?!\d+ test\(s\))(\S+)/gm; // not the summary: "[ SKIPPED ] 1 test(s), …"
/** Drivers write TAP on stdout. */
const tapCase = /^(not ok|ok) \d+ - (.+)$/gm;

/** A case of cmocka prints `skipped: REASON` before it skips itself. One without a reason has failed. */
function skippedRow(name: string, why?: string): Row {
	return { name, outcome: why ? 'skipped' : 'failed', ms: 0, why: why ?? 'it skipped itself and printed no reason' };
}

function casesOf(t: MesonTest): Row[] {
	const ms = Math.round(t.duration * 1000);
	const rows: Row[] = [];
	const seen = new Set<string>();
	const reasons = [...`${t.stdout ?? ''}`.matchAll(/^skipped: (.+)$/gm)].map((m) => m[1]!);
	for (const m of `${t.stdout ?? ''}\n${t.stderr ?? ''}`.matchAll(cmockaCase)) {
		const name = m[2]!, full = `${t.name} › ${name}`;
		if (m[1] === 'OK')
			rows.push({ name: full, outcome: 'passed', ms: 0, full });
		else if (!seen.has(name)) // a failed case is named again in cmocka's summary
			rows.push(m[1] === 'FAILED' ? { name: full, outcome: 'failed', ms: 0, full, why: `${t.stdout ?? ''}${t.stderr ?? ''}`.slice(-4000) }
				: { ...skippedRow(full, reasons.shift()), full });
		seen.add(name);
	}
	for (const m of (t.stdout ?? '').matchAll(tapCase))
		rows.push({ name: `${t.name} › ${m[2]}`, full: `${t.name} › ${m[2]}`, outcome: m[1] === 'ok' ? 'passed' : 'failed', ms: 0, why: m[1] === 'ok' ? undefined : `${t.stdout ?? ''}${t.stderr ?? ''}`.slice(-4000) });
	const good = t.result === 'OK' || t.result === 'EXPECTEDFAIL';
	if (t.result === 'SKIP')
		return [{ ...skippedRow(t.name, (t.stderr || t.stdout)?.trim().slice(-300)), ms }];
	if (rows.length === 0 || (!good && !rows.some((r) => r.outcome === 'failed')))
		rows.push({
			name: t.name,
			outcome: good ? 'passed' : 'failed',
			ms,
			why: good ? undefined : `${t.result}\n${`${t.stdout ?? ''}${t.stderr ?? ''}`.slice(-4000)}`,
		});
	return rows;
}

/** The time limits of the unit tests are for a machine that does nothing else. A program that hangs must end within the time of a gate. */
const patience = String(3 * slowness);

/** ONLY: one program of them. */
export function runUnits(buildDir: string, suites: string[], jobs: number, only?: string): Row[] {
	const args = ['test', '-C', buildDir, '--num-processes', String(jobs), '--timeout-multiplier', patience, '--print-errorlogs'];
	for (const s of suites)
		args.push('--suite', s);
	if (only)
		args.push(only);
	const run = spawnSync('meson', args, { encoding: 'utf8', maxBuffer: 1 << 28, env: { ...process.env, CAISSON_TEST_IMAGES: imagesDir } });
	const log = path.join(buildDir, 'meson-logs', 'testlog.json');
	if (run.error || !fs.existsSync(log) || /No tests defined|No suitable tests/.test(run.stdout))
		return [{ name: 'meson test', outcome: 'failed', ms: 0, why: `${run.error?.message ?? ''}${run.stdout ?? ''}${run.stderr ?? ''}`.slice(-4000) }];
	if (run.status !== 0 && /ninja.*(failed|stopped)|FAILED: /.test(run.stdout))
		return [{ name: 'build of the unit tests', outcome: 'failed', ms: 0, why: run.stdout.slice(-4000) }];
	return fs.readFileSync(log, 'utf8').trim().split('\n').filter(Boolean).flatMap((line) => casesOf(JSON.parse(line)));
}

/** Runs the program of a case that failed again; says whether the case is flaky. Meson writes `PROJECT:SUITE / NAME`, and takes NAME alone. */
export function unitAgain(buildDir: string, suites: string[], row: Row): boolean {
	const program = row.name.split(' › ')[0]!.split(' / ').at(-1);
	for (let n = secondTries(row.why ?? ''); n > 0 && mayRunAgain(); n--) {
		const next = rowAgain(row, runUnits(buildDir, suites, 1, program));
		if (next?.outcome === 'passed') {
			row.outcome = 'flaky';
			tellFlaky(row.name, row.why ?? '');
			return true;
		}
		if (next && secondTries(next.why ?? '') === 0)
			break;
	}
	return false;
}
