// SPDX-License-Identifier: Apache-2.0
// One run of a file of tests/integration, as a process of its own. Gives a row for each case.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawn, type ChildProcess } from 'node:child_process';
import { slowness, top } from './env.ts';
import type { Ability } from './modes.ts';
import type { Row } from './reporter.ts';
import { AGAIN_MS, NO_TIME, timeLeft } from './time.ts';

/** A mode of this host. */
export interface Place extends Ability {
	title: string;
	binary: string;
	cold?: boolean; // interpreters are started, not forked: only the files of coldFiles
}

export interface FileRun {
	file: string;
	place: Place;
	/** Only cases whose full name (those of its suites and its own, with spaces between) matches. */
	cases?: string;
	/** None whose full name matches. */
	without?: string;
	/** They run again, so they may begin after the end of the time. */
	again?: boolean;
}

export interface Settings {
	/** For reports and programs of the file; the file's own folders are elsewhere. */
	scratch: string;
	/** In the names of the folders of the test files. */
	mark: string;
	sanitized: boolean;
	image?: string;
	hangMs?: number;
}

const LIMIT_MS = 600_000 * slowness; // for a hang
/** A file that is stopped because the time is used up hangs if none of its cases has ended for so long. */
const HANG_MS = 120_000 * slowness;
const GRACE_MS = 20_000; // a file that is at work when the time is used up may still come to its end

/** Test files at work: they end with this process, and their folders with them. */
const working = new Set<ChildProcess>();
process.on('exit', () => working.forEach((c) => c.kill('SIGTERM')));

let serial = 0;

function read(file: string): Row[] {
	const text = fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '';
	return text.split('\n').filter((l) => l.endsWith('}')).map((l) => JSON.parse(l) as Row);
}

/** BUDGET is told what was used of a budget. */
export function runFile(run: FileRun, s: Settings, budget: (text: string) => void): Promise<Row[]> {
	const name = path.basename(run.file, '.test.ts');
	const out = path.join(s.scratch, `${run.place.mode}-${name}.${++serial}.jsonl`), crashes = `${out}.crashes`;
	const args = ['--test-reporter', path.join(top, 'tests/lib/reporter.ts'), '--test-reporter-destination', out, '--test-force-exit'];
	if (run.cases)
		args.push('--test-name-pattern', run.cases);
	if (run.without)
		args.push('--test-skip-pattern', run.without);
	const env: NodeJS.ProcessEnv = {
		...process.env,
		CAISSON_TEST_RUN: s.mark,
		CAISSON_TEST_MODE: run.place.mode,
		CAISSON_TEST_BINARY: run.place.binary,
		CAISSON_TEST_SANITIZED: s.sanitized ? '1' : '0',
		CAISSON_TEST_COLD: run.place.cold ? '1' : '0',
		CAISSON_TEST_ENFORCED: run.place.enforced.join(','),
		CAISSON_TEST_CRASHES: crashes,
		NODE_NO_WARNINGS: '1',
	};
	if (s.image)
		env.CAISSON_TEST_IMAGE = s.image;
	return new Promise((resolve) => {
		const child = spawn(process.execPath, [...args, run.file], { env, stdio: ['ignore', 'pipe', 'pipe'] });
		working.add(child);
		let noise = '';
		for (const stream of [child.stdout, child.stderr])
			stream.on('data', (b: Buffer) => (noise = (noise + b.toString()).slice(-8000)));
		const limit = Math.max(0, Math.min(LIMIT_MS, timeLeft() + GRACE_MS + (run.again ? AGAIN_MS : 0)));
		let stopped: Row[] | undefined; // what it had said when it was ended
		let silent = 0; // for how long it had said nothing then
		const start = Date.now();
		const timers = [setTimeout(() => {
			stopped = read(out);
			silent = Date.now() - Math.max(start, fs.existsSync(out) ? fs.statSync(out).mtimeMs : 0);
			child.kill('SIGTERM');
			timers.push(setTimeout(() => child.kill('SIGKILL'), GRACE_MS));
		}, limit)];
		child.on('close', (code, signal) => {
			timers.forEach(clearTimeout);
			working.delete(child);
			const said = stopped ?? read(out);
			const rows = said.filter((r) => !r.budget);
			for (const b of new Set(said.flatMap((r) => r.budget ?? [])))
				budget(`${name}: ${b}`);
			for (const r of rows)
				r.name = `${name} › ${r.name}`;
			if (stopped && limit < LIMIT_MS && silent >= (s.hangMs ?? HANG_MS))
				rows.push({ name, outcome: 'failed', ms: limit, why: `no case of the file ended for ${Math.round(silent)} ms\n${noise}` });
			else if (stopped)
				rows.push(limit < LIMIT_MS ? { name: `${name} › what it had not come to`, outcome: 'skipped', ms: limit, why: NO_TIME }
					: { name, outcome: 'failed', ms: limit, why: `the file took more than ${limit} ms\n${noise}` });
			else if (code !== 0 && !rows.some((r) => r.outcome === 'failed'))
				rows.push({ name, outcome: 'failed', ms: 0, why: `the test process ended with ${code ?? signal}\n${noise}` });
			const crashed = fs.existsSync(crashes) ? fs.readFileSync(crashes, 'utf8') : '';
			for (const r of rows.filter((f) => f.outcome === 'failed' && crashed))
				r.why = `${r.why ?? ''}\na program of ours ended during this file: ${crashed}`;
			resolve(rows);
		});
	});
}
