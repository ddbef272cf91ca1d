// SPDX-License-Identifier: Apache-2.0
// The table at the end: what was attacked, and how many cases held in each mode (the README of the project shows one).

import { rowOf } from './case.ts';
import type { Turn } from '../../lib/turns.ts';
import { kinds } from './cases/all.ts';

type Outcome = 'passed' | 'failed' | 'skipped' | 'flaky';

const kindOf = new Map(kinds.flatMap(([kind, list]) => list.map((c) => [c.id, kind] as const)));

/** 1, 2, 3, 7 -> 1–3, 7 */
function ranges(numbers: number[]): string {
	const spans: [number, number][] = [];
	for (const n of [...new Set(numbers)].sort((a, b) => a - b)) {
		const last = spans.at(-1);
		if (last && last[1] === n - 1)
			last[1] = n;
		else
			spans.push([n, n]);
	}
	return spans.map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(', ');
}

export class Summary {
	private readonly turns = new Map<string, { longest: Turn; times: number }>();
	private readonly columns = new Map<string, Map<string, Record<Outcome, number>>>();

	/** The case ID in one mode, or its twin. */
	add(column: string, id: string, outcome: Outcome): void {
		const rows = this.columns.get(column) ?? new Map<string, Record<Outcome, number>>();
		this.columns.set(column, rows);
		const kind = kindOf.get(id)!;
		const n = rows.get(kind) ?? { passed: 0, failed: 0, skipped: 0, flaky: 0 };
		rows.set(kind, n);
		n[outcome]++;
	}

	/** The server's loop had TURN while the case ID ran. */
	addTurn(column: string, id: string, turn: Turn): void {
		const key = `${id}, ${column}: ${turn.work}`;
		const known = this.turns.get(key);
		this.turns.set(key, { longest: known && known.longest.ms > turn.ms ? known.longest : turn, times: (known?.times ?? 0) + 1 });
	}

	/** `turn: CASE: ms work`, the longest first. Of turns with the same work in one case the longest, and how many there were. */
	turnLines(): string[] {
		return [...this.turns].sort(([, a], [, b]) => b.longest.ms - a.longest.ms).map(([key, { longest: t, times }]) => {
			const [where] = key.split(': ', 1);
			return `turn: ${where}: ${t.ms} ms (CPU ${t.cpuMs}, waited ${t.waitedMs}${times > 1 ? `; ${times} times` : ''}) ${t.work}`;
		});
	}

	/** Markdown; nothing when no case ran. */
	lines(): string[] {
		if (this.columns.size === 0)
			return [];
		const cell = (n?: Record<Outcome, number>): string =>
			!n ? '–' : `${n.passed}${n.failed ? `, **${n.failed} failed**` : ''}${n.skipped ? ` (${n.skipped} skipped)` : ''}`;
		const line = (cells: string[]): string => `| ${cells.join(' | ')} |`;
		return [
			line(['attacked', 'rows', 'cases', ...this.columns.keys()]),
			line(['---', '---', '---:', ...[...this.columns].map(() => '---:')]),
			...kinds.map(([kind, list]) => line([kind, ranges(list.map(rowOf)), String(list.length), ...[...this.columns.values()].map((rows) => cell(rows.get(kind)))])),
		];
	}
}
