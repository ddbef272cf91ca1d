// SPDX-License-Identifier: Apache-2.0
// Output of programs as lines of styled text: colours (SGR), carriage return, backspace, erasing and moving the cursor, which progress bars
// use. Everything else that a terminal knows is dropped. The input is hostile: state and work per character are bounded.

export interface Style {
	fg?: string; // "1" … "15" of the palette, or "#rrggbb"
	bg?: string;
	bold?: boolean;
	dim?: boolean;
	italic?: boolean;
	underline?: boolean;
	strike?: boolean;
	inverse?: boolean;
}

export interface Segment {
	text: string;
	style: Style | null;
}

export interface Line {
	segments: Segment[];
	length: number; // UTF-16 units
}

const PENDING_MAX = 256; // of an escape sequence that is not complete
const LINES_MAX = 200_000;
const UP_MAX = 500; // lines that a cursor may go back

// In this order: CSI, OSC, other escapes, control characters.
// eslint-disable-next-line no-control-regex
const special = /\x1b\[([0-9;:?<=>]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_][^\x1b]*\x1b\\|\x1b[ -/]?[0-Z\\^-~]|[\x00-\x1f\x7f]/g;
// The beginning of a sequence whose end may come with the next piece.
// eslint-disable-next-line no-control-regex
const unfinished = /\x1b(?:\[[0-9;:?<=>]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/])?$/;

export class Screen {
	readonly lines: Line[] = [{ segments: [], length: 0 }];
	private row = 0;
	private column = 0;
	private style: Style | null = null;
	private pending = '';

	push(input: string): void {
		let text = this.pending + input;
		this.pending = '';
		const open = unfinished.exec(text.slice(-PENDING_MAX));
		if (open) {
			this.pending = open[0];
			text = text.slice(0, text.length - open[0].length);
		}
		let at = 0;
		special.lastIndex = 0;
		for (let m = special.exec(text); m; m = special.exec(text)) {
			if (m.index > at)
				this.write(text.slice(at, m.index));
			at = m.index + m[0].length;
			if (m[2])
				this.sequence(m[2], m[1] ?? '');
			else if (m[0].length === 1)
				this.control(m[0]);
		}
		if (at < text.length)
			this.write(text.slice(at));
	}

	/** All text without styles. */
	text(): string {
		return this.lines.map((l) => l.segments.map((s) => s.text).join('')).join('\n');
	}

	get empty(): boolean {
		return this.lines.length === 1 && this.lines[0]!.length === 0;
	}

	private control(c: string): void {
		if (c === '\n') {
			this.row++;
			this.column = 0;
			if (this.row === this.lines.length)
				this.lines.push({ segments: [], length: 0 });
			if (this.lines.length > LINES_MAX) {
				this.lines.shift();
				this.row--;
			}
		} else if (c === '\r') {
			this.column = 0;
		} else if (c === '\b') {
			this.column = Math.max(0, this.column - 1);
		} else if (c === '\t') {
			this.write(' '.repeat(8 - this.column % 8));
		}
	}

	private sequence(end: string, args: string): void {
		const n = Math.min(Number.parseInt(args, 10) || 0, 10_000);
		const line = this.lines[this.row]!;
		if (end === 'm')
			this.style = sgr(this.style, args);
		else if (end === 'K')
			this.lines[this.row] = n === 0 ? cut(line, 0, this.column) : n === 2 ? { segments: [], length: 0 } : line;
		else if (end === 'A' || end === 'F')
			this.row = Math.max(0, this.row - Math.min(n || 1, UP_MAX));
		else if (end === 'B' || end === 'E')
			this.row = Math.min(this.lines.length - 1, this.row + (n || 1));
		else if (end === 'C')
			this.column = Math.min(line.length, this.column + (n || 1));
		else if (end === 'D')
			this.column = Math.max(0, this.column - (n || 1));
		else if (end === 'G')
			this.column = Math.min(line.length, Math.max(0, n - 1));
		if (end === 'E' || end === 'F')
			this.column = 0;
		this.column = Math.min(this.column, Math.max(this.lines[this.row]!.length, 0));
	}

	private write(text: string): void {
		const line = this.lines[this.row]!;
		const end = this.column + text.length;
		if (this.column === line.length) {
			append(line, text, this.style);
		} else {
			const tail = end < line.length ? cut(line, end, line.length) : null;
			const next = cut(line, 0, this.column);
			append(next, text, this.style);
			tail?.segments.forEach((s) => append(next, s.text, s.style));
			this.lines[this.row] = next;
		}
		this.column = end;
	}
}

function append(line: Line, text: string, style: Style | null): void {
	const last = line.segments[line.segments.length - 1];
	if (last && last.style === style)
		last.text += text;
	else
		line.segments.push({ text, style });
	line.length += text.length;
}

/** The part of LINE from FROM to TO. */
function cut(line: Line, from: number, to: number): Line {
	const out: Line = { segments: [], length: 0 };
	let at = 0;
	for (const s of line.segments) {
		const text = s.text.slice(Math.max(0, from - at), Math.max(0, to - at));
		if (text)
			append(out, text, s.style);
		at += s.text.length;
	}
	return out;
}

const flags: Record<number, Style> = {
	1: { bold: true }, 2: { dim: true }, 3: { italic: true }, 4: { underline: true }, 7: { inverse: true }, 9: { strike: true },
	22: { bold: undefined, dim: undefined }, 23: { italic: undefined }, 24: { underline: undefined }, 27: { inverse: undefined }, 29: { strike: undefined },
	39: { fg: undefined }, 49: { bg: undefined },
};

function sgr(before: Style | null, args: string): Style | null {
	let style: Style = { ...before };
	const codes = (args || '0').split(/[;:]/, 32).map((a) => Number.parseInt(a, 10) || 0);
	for (let i = 0; i < codes.length; i++) {
		const c = codes[i]!;
		if (c === 0)
			style = {};
		else if (c === 38 || c === 48) {
			const [color, used] = extended(codes.slice(i + 1));
			i += used;
			style = { ...style, [c === 38 ? 'fg' : 'bg']: color };
		} else if (flags[c])
			style = { ...style, ...flags[c] };
		else if ((c >= 30 && c <= 37) || (c >= 90 && c <= 97))
			style = { ...style, fg: String(c >= 90 ? c - 82 : c - 30) };
		else if ((c >= 40 && c <= 47) || (c >= 100 && c <= 107))
			style = { ...style, bg: String(c >= 100 ? c - 92 : c - 40) };
	}
	return Object.values(style).some((v) => v !== undefined) ? style : null;
}

/** The colour after 38 or 48, and how many numbers it takes. */
function extended(rest: number[]): [string | undefined, number] {
	const hex = (n: number): string => Math.min(255, Math.max(0, n)).toString(16).padStart(2, '0');
	if (rest[0] === 2)
		return [`#${hex(rest[1] ?? 0)}${hex(rest[2] ?? 0)}${hex(rest[3] ?? 0)}`, 4];
	if (rest[0] !== 5)
		return [undefined, rest.length];
	const n = Math.min(255, rest[1] ?? 0);
	if (n < 16)
		return [String(n), 2];
	if (n >= 232)
		return [`#${hex(8 + (n - 232) * 10).repeat(3)}`, 2];
	const level = (v: number): string => hex(v === 0 ? 0 : 55 + v * 40);
	return [`#${level(Math.floor((n - 16) / 36))}${level(Math.floor((n - 16) / 6) % 6)}${level((n - 16) % 6)}`, 2];
}
