// SPDX-License-Identifier: Apache-2.0
// From what tests said in a sandbox to what a run says: every failure is new or listed, every listed one fails.

import { known, skips, timed, type Where } from './known.ts';
import type { Module } from './modules.ts';

export interface Line {
	test: string;
	end: 'start' | 'pass' | 'fail' | 'skip' | 'end';
	why: string;
}

/** What one run of a module said; BAD: how its process ended, where that is not as it should. */
export interface Said {
	lines: Line[];
	bad?: string;
}

export function hasEnded(s: Said): boolean {
	return s.lines.some((l) => l.end === 'end');
}

export interface Finding {
	test: string;
	why: string;
}

export interface Row {
	module: string;
	passed: number;
	/** Left themselves out, and why. */
	skipped: Finding[];
	/** Failed and listed. */
	forbidden: number;
	failed: Finding[];
	ms: number;
}

/** The worst that was said of each test, in the order in which they ran. */
function ends(lines: Line[]): Map<string, Line> {
	const rank = { start: 0, end: 0, pass: 1, skip: 2, fail: 3 };
	const all = new Map<string, Line>();
	for (const l of lines) {
		const before = all.get(l.test);
		if (l.end !== 'end' && (!before || rank[l.end] > rank[before.end]))
			all.set(l.test, l);
	}
	return all;
}

/** Whether TEST is one that cannot pass; one that may is no such where it has passed. */
function isListed(test: string, passed: boolean, w: Where): boolean {
	return known.some((k) => (!k.when || k.when(w)) && !(k.mayPass && passed) && k.tests.includes(test));
}

/** A reason that is the error of a system call: another wall than the one that was judged would look the same. */
const OF_A_CALL = /\[Errno \d+\]|PermissionError|[Pp]ermission denied|[Oo]peration not (permitted|supported)|[Ff]unction not implemented/;

export function maySkip(test: string, why: string): boolean {
	return skips.some((s) => (s.tests ? s.tests.test(test) : !OF_A_CALL.test(why)) && s.reasons.some((r) => r.test(why)));
}

export function judge(m: Module, first: Said, w: Where): Row {
	const row: Row = { module: m.name, passed: 0, skipped: [], forbidden: 0, failed: [], ms: 0 };
	const add = (test: string, why: string): void => void row.failed.push({ test, why });
	for (const [test, l] of ends(first.lines)) {
		const listed = isListed(test, l.end === 'pass', w);
		const good = l.end === 'pass';
		if (l.end === 'skip') {
			if (maySkip(test, l.why))
				row.skipped.push({ test, why: l.why });
			else
				add(test, `skipped for a reason that is not listed: ${l.why}`);
		} else if (!listed && !good && timed.some((t) => test.startsWith(t))) {
			row.skipped.push({ test, why: `it asserts a time: ${l.why}` });
		} else if (listed === good) {
			add(test, listed ? 'it passes, but it is listed as one that cannot' : l.end === 'start' ? 'the process ended in it' : l.why);
		} else if (listed) {
			row.forbidden++;
		} else {
			row.passed++;
		}
	}
	if (!hasEnded(first))
		add(m.name, first.bad ?? 'it broke off');
	else if (row.passed + row.skipped.length + row.forbidden + row.failed.length === 0)
		add(m.name, 'it has no tests');
	return row;
}
