// SPDX-License-Identifier: Apache-2.0
// The table at the end: what was attacked, and how many cases held in each mode (the README of the project shows one).

import { rowOf } from './case.ts';
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
