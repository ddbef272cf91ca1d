// SPDX-License-Identifier: Apache-2.0
// What was counted, in counts.json: for each module and mode the tests that passed, that left themselves out, and that cannot pass.
// It is written from the reports of runs alone (--count), so that no figure of docs/inside.md comes from a hand.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { top } from '../../lib/env.ts';
import type { Row } from './judge.ts';
import { chosen, packs } from './modules.ts';

const file = path.join(top, 'tests/suites/inside/counts.json');
export const places = ['root warm', 'root cold', 'user warm', 'user cold'];

/** A line of a report. */
export interface Reported extends Row {
	/** One of `places`. */
	where: string;
}

type Numbers = [passed: number, left: number, cannot: number];
type Counts = Record<string, Record<string, Numbers>>;

function read(): Counts {
	return JSON.parse(fs.readFileSync(file, 'utf8')) as Counts;
}

/** The modules of a whole run. */
function modules(): string[] {
	return packs.flatMap((p) => chosen(p.modules, false, /(?:)/)).map((m) => m.name);
}

/** Takes in what REPORTS say of modules of a whole run in which nothing failed; what they do not have stays as it was counted before. */
export function count(reports: string[]): void {
	const before = read();
	const rows = reports.flatMap((r) => fs.readFileSync(r, 'utf8').split('\n').filter(Boolean)).map((l) => JSON.parse(l) as Reported);
	const lines = modules().map((name) => {
		const now = { ...before[name] };
		for (const r of rows.filter((o) => o.module === name && o.failed.length === 0))
			now[r.where] = [r.passed, r.skipped.length, r.forbidden];
		const ordered = Object.fromEntries(places.filter((p) => now[p]).map((p) => [p, now[p]]));
		return `${JSON.stringify(name)}: ${JSON.stringify(ordered)}`;
	});
	fs.writeFileSync(file, `{\n${lines.join(',\n')}\n}\n`);
}

/** What nobody has counted yet: `MODULE (MODE)`. */
export function uncounted(): string[] {
	const all = read();
	return modules().flatMap((name) => places.filter((p) => !all[name]?.[p]).map((p) => `${name} (${p})`));
}

export function isLibrary(module: string): boolean {
	return module.startsWith('test.');
}

/** How many modules of a whole run were counted in a mode. */
export function counted(place: string): string {
	const all = read();
	return `${modules().filter((name) => all[name]?.[place]).length} of ${modules().length}`;
}

/** The sums of one mode, of the standard library's modules or of the others. */
export function sum(place: string, library: boolean): Numbers {
	const total: Numbers = [0, 0, 0];
	for (const [name, by] of Object.entries(read())) {
		if (isLibrary(name) === library)
			by[place]?.forEach((n, i) => void (total[i]! += n));
	}
	return total;
}
