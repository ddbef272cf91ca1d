// SPDX-License-Identifier: Apache-2.0
// What a run showed, between its output: places are bytes of the text in UTF-8.

import type { Result } from '../api/types.ts';

export type Piece = { text: string } | { result: Result };

export const TABLE = 'application/vnd.caisson.table+json';

/** Pieces of TEXT and what was shown between them. The text of a thing that is shown is left out. */
export function inOrder(text: string, results: readonly Result[]): Piece[] {
	const bytes = new TextEncoder().encode(text);
	const decoder = new TextDecoder();
	const out: Piece[] = [];
	let at = 0;
	const upTo = (end: number): void => {
		if (end > at)
			out.push({ text: decoder.decode(bytes.subarray(at, end)) });
		at = Math.max(at, end);
	};
	for (const r of results) {
		if (r.kind === 'result')
			continue;
		if (r.kind === 'clear') {
			out.length = 0;
			at = Math.min(bytes.length, Math.max(at, r.offset));
			continue;
		}
		upTo(Math.min(bytes.length, r.offset));
		out.push({ result: r });
		at = Math.min(bytes.length, Math.max(at, r.end));
	}
	upTo(bytes.length);
	return out;
}

/** The type that is shown of a result, the best first. Null: there is only text, or nothing. */
export function bestType(r: Result): string | null {
	const order = [TABLE, 'image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/svg+xml', 'text/html', 'text/markdown', 'text/latex', 'application/json'];
	return order.find((t) => typeof r.data[t] === 'string') ?? null;
}

export type Row = (string | number | boolean | null)[];

/** Rows in the order of a column: numbers before texts, nothing at the end. */
export function sorted(rows: readonly Row[], column: number, down: boolean): Row[] {
	const rank = (v: unknown): number => (v === null || v === undefined ? 2 : typeof v === 'number' ? 0 : 1);
	const sign = down ? -1 : 1;
	return [...rows].sort((x, y) => {
		const a = x[column], b = y[column];
		const by = rank(a) - rank(b);
		if (by !== 0)
			return rank(a) === 2 || rank(b) === 2 ? by : by * sign;
		return sign * (typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b)));
	});
}

/** A table of a bundle; null: it is none. It comes from a sandbox, so everything is looked at. */
export function readTable(text: string): { columns: { name: string; type: string }[]; rows: Row[]; total: number; width: number } | null {
	try {
		const t = JSON.parse(text) as Record<string, unknown>;
		if (!Array.isArray(t.columns) || !Array.isArray(t.rows))
			return null;
		const columns = t.columns.map((c: Record<string, unknown> | null) => ({ name: String(c?.name ?? ''), type: String(c?.type ?? '') }));
		const rows = t.rows.filter(Array.isArray).map((row: unknown[]) => columns.map((_, i) => {
			const v = row[i];
			return v === null || v === undefined ? null : typeof v === 'object' ? JSON.stringify(v) : v as Row[number];
		}));
		const number = (v: unknown, least: number): number => (typeof v === 'number' && v > least ? v : least);
		return { columns, rows, total: number(t.total, rows.length), width: number(t.width, 0) };
	} catch {
		return null;
	}
}
