// SPDX-License-Identifier: Apache-2.0
// The cells of one sandbox, from pages of its history and from events, in the order in which they began. Each run is one cell.

import type { Cell, RunOutput, Text } from '../api/types.ts';
import { Screen } from './ansi.ts';

/** Output of a run as it comes. */
export class Live {
	readonly stdout = new Screen();
	readonly stderr = new Screen();
	readonly value = new Screen();
	cut = false;
	private readonly bytes = { stdout: 0, stderr: 0, value: 0 };

	/** Adds a piece. One whose offset says that a part of it is here already adds the rest. */
	add(e: RunOutput): void {
		if (e.cut)
			this.cut = true;
		if (!e.stream || !e.text)
			return;
		let piece = new TextEncoder().encode(e.text);
		const have = this.bytes[e.stream] - (e.offset ?? this.bytes[e.stream]);
		if (have > 0)
			piece = piece.subarray(have);
		this.bytes[e.stream] += piece.length;
		this[e.stream].push(have > 0 ? new TextDecoder().decode(piece) : e.text);
	}

	/** A run that began before anybody looked: CELL has what it has said so far. */
	static of(cell: Cell): Live {
		const live = new Live();
		for (const stream of ['stdout', 'stderr', 'value'] as const)
			live.add({ run: cell.run, sandbox: cell.sandbox, stream, text: cell[stream]?.text });
		live.cut = Boolean(cell.stdout?.cut || cell.stderr?.cut);
		return live;
	}
}

/** Puts CELL at its place: it replaces the cell of the same run, else it becomes the last one before cells that began later. */
export function put(cells: readonly Cell[], cell: Cell): Cell[] {
	const next = cells.slice();
	for (let i = next.length - 1; i >= 0; i--)
		if (next[i]!.run === cell.run) {
			next[i] = settled(next[i]!) && !settled(cell) ? next[i]! : { ...next[i], ...cell };
			return next;
		}
	let at = next.length;
	while (at > 0 && after(next[at - 1]!, cell))
		at--;
	next.splice(at, 0, cell);
	return next;
}

/** Where somebody put a cell: before or behind that of a run. */
export interface Beside { before?: string; after?: string }

/** Adds a cell that somebody wrote. MORE: there are cells before these; one that belongs among them comes with them. */
export function write(cells: readonly Cell[], cell: Cell, beside: Beside, more: boolean): Cell[] {
	const at = cells.findIndex((c) => c.run === (beside.before ?? beside.after)); // it may have come by an event, without a number
	if (at >= 0 && !cells.some((c) => c.run === cell.run))
		return cells.toSpliced(at + (beside.before ? 0 : 1), 0, cell);
	const first = cells.find((c) => c.seq !== null);
	return more && first && placeOf(cell) < placeOf(first) ? cells.slice() : put(cells, cell);
}

export function settled(cell: Cell): boolean {
	return cell.status === 'done' || cell.status === 'failed';
}

/** What became of the session of a cell and what is gone, in WORDS. The server says it: the reason of an end does not. A run that
 * ended by itself and kept everything needs no words. */
export function sessionAfter(cell: Cell, words: { session: Record<string, string>; gone: (what: string) => string }): string {
	const ended = cell.state !== 'kept' || cell.reason === 'timeout' || cell.reason === 'cancelled';
	return [ended && words.session[cell.state ?? ''], cell.gone?.length && words.gone(cell.gone.join(', '))].filter(Boolean).join(' ');
}

/** Where a cell of the history stands: in the order of these texts. */
function placeOf(cell: Cell): string {
	return cell.place ?? (cell.seq ?? 0).toString(16).padStart(16, '0');
}

/** Whether A belongs behind B. Cells of the history come by place; queued and running ones have none and are last. */
function after(a: Cell, b: Cell): boolean {
	if (a.seq !== null && b.seq !== null)
		return placeOf(a) > placeOf(b);
	if (a.seq === null && b.seq === null)
		return false;
	return a.seq === null && Boolean(b.seq !== null && (a.started_at ?? '~') > (b.started_at ?? ''));
}

/** A page of older or newer cells together with those that are there. */
export function merge(cells: readonly Cell[], page: readonly Cell[]): Cell[] {
	if (cells.length === 0)
		return page.slice();
	const known = new Set(cells.map((c) => c.run));
	let next: Cell[] = cells.slice();
	for (const c of page)
		if (known.has(c.run))
			next = put(next, c);
	const fresh = page.filter((c) => !known.has(c.run));
	const first = next.find((c) => c.seq !== null); // now: the page gives numbers to cells that events brought
	const older = fresh.filter((c) => c.seq !== null && (!first || placeOf(c) < placeOf(first)));
	next = [...older, ...next];
	for (const c of fresh)
		if (!older.includes(c))
			next = put(next, c);
	return next;
}

/** Numbers of cells as the export wants them: neighbours of ALL, which is in the order of the notebook, that are PICKED become one range. */
export function rangesOf(all: readonly number[], picked: ReadonlySet<number>): string[] {
	const found: [number, number][] = [];
	let open = false;
	for (const seq of all) {
		if (!picked.has(seq))
			open = false;
		else if (open)
			found[found.length - 1]![1] = seq;
		else
			open = found.push([seq, seq]) > 0;
	}
	return found.map(([a, b]) => a === b ? String(a) : `${a}-${b}`);
}

/** The beginning of a text that is there, if there is any. */
export function shown(t: Text | null | undefined): string {
	return t?.text ?? '';
}

/** OPEN: it is shown at once. */
export interface Traceback { before: string; trace: string; last: string; open?: boolean }

/** Splits a Python traceback off: what stands before it, the traceback, and its last line, which names the error. */
export function traceback(text: string): Traceback | null {
	const mark = 'Traceback (most recent call last)';
	const at = text.indexOf(mark);
	if (at < 0)
		return unread(text);
	const cause = /[^\n]*\n\n(?:The above exception was the direct cause|During handling of the above exception)/.exec(text); // its own traceback may be left out
	const start = Math.min(text.lastIndexOf('\n', at) + 1, cause?.index ?? at);
	const trace = text.slice(start).trimEnd();
	const lines = trace.slice(trace.lastIndexOf(mark)).split('\n'); // of chained errors, the last one is the one that counts
	// eslint-disable-next-line no-control-regex
	const plain = (l: string): string => l.replace(/\x1b\[[0-9;]*m/g, '');
	const last = lines.slice(1).find((l) => /^[\w.]+(?:Error|Exception|Interrupt|Exit|Warning|Iteration|Group)?\b.*/.test(plain(l)) && !/^\s/.test(plain(l))) ?? lines[lines.length - 1]!;
	return { before: text.slice(0, start), trace, last: plain(last) };
}

/** Code that Python could not read has no traceback: the place, the line with a mark, and the error. */
function unread(text: string): Traceback | null {
	const m = /^( {2}File "[^"\n]*", line \d+\n(?: {4}.*\n)*)((?:Syntax|Indentation|Tab)Error\b.*)\s*$/m.exec(text);
	return m && { before: text.slice(0, m.index), trace: m[1]!.trimEnd(), last: m[2]!, open: true };
}
