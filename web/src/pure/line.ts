// SPDX-License-Identifier: Apache-2.0
// The line that is being typed into the terminal: editing keys, history, and how the line is drawn again. It knows nothing of xterm.js.

const HISTORY_MAX = 500;

export type Key = { line: string } | { interrupt: true } | { clear: true } | null;

/** Columns of a character: East Asian wide ones and emoji take two, marks none. */
export function columns(text: string): number {
	let n = 0;
	for (const c of text) {
		const p = c.codePointAt(0)!;
		if (/\p{M}|\p{Cf}/u.test(c))
			continue;
		n += (p >= 0x1100 && p <= 0x115f) || (p >= 0x2e80 && p <= 0xa4cf) || (p >= 0xac00 && p <= 0xd7a3) || (p >= 0xf900 && p <= 0xfaff) || (p >= 0xfe30 && p <= 0xfe6f) || (p >= 0xff00 && p <= 0xff60) || (p >= 0x1f300 && p <= 0x1faff) || (p >= 0x20000 && p <= 0x3fffd) ? 2 : 1;
	}
	return n;
}

export class LineEditor {
	private chars: string[] = [];
	private at = 0;
	private past: string[] = [];
	private back = 0; // how far the history was gone back
	private kept = ''; // what was typed before going back
	private row = 0; // of the cursor, below the row of the prompt

	get text(): string {
		return this.chars.join('');
	}

	/** One key, or pasted text, as xterm.js reports it. Answers what is to be done when it is more than drawing the line again. */
	input(data: string): Key {
		const move: Record<string, () => void> = {
			'\x1b[D': () => this.at--, '\x1b[C': () => this.at++, '\x02': () => this.at--, '\x06': () => this.at++,
			'\x1b[H': () => this.at = 0, '\x01': () => this.at = 0, '\x1bOH': () => this.at = 0,
			'\x1b[F': () => this.at = this.chars.length, '\x05': () => this.at = this.chars.length, '\x1bOF': () => this.at = this.chars.length,
			'\x1b[A': () => this.recall(1), '\x1b[B': () => this.recall(-1), '\x10': () => this.recall(1), '\x0e': () => this.recall(-1),
			'\x7f': () => this.at > 0 && this.chars.splice(--this.at, 1), '\b': () => this.at > 0 && this.chars.splice(--this.at, 1),
			'\x1b[3~': () => this.chars.splice(this.at, 1),
			'\x15': () => (this.chars.splice(0, this.at), this.at = 0), '\x0b': () => this.chars.splice(this.at),
			'\x17': () => this.eraseWord(), '\x1b\x7f': () => this.eraseWord(),
			'\x1b[1;5D': () => this.at = this.wordStart(), '\x1b[1;5C': () => this.at = this.wordEnd(), '\x1bb': () => this.at = this.wordStart(), '\x1bf': () => this.at = this.wordEnd(),
		};
		if (data === '\x03')
			return { interrupt: true };
		if (data === '\x0c')
			return { clear: true };
		if (data === '\r' || data === '\n')
			return { line: this.take() };
		const known = move[data];
		if (known) {
			known();
			this.at = Math.max(0, Math.min(this.at, this.chars.length));
			return null;
		}
		// eslint-disable-next-line no-control-regex
		const typed = [...data.replace(/\x1b\[?[0-9;]*[A-Za-z~]?/g, '').replace(/\t/g, '    ').replace(/[\x00-\x1f\x7f]/g, '')];
		this.chars.splice(this.at, 0, ...typed);
		this.at += typed.length;
		return null;
	}

	/** Takes the line away and into the history. */
	take(): string {
		const line = this.text;
		if (line.trim() !== '' && this.past[this.past.length - 1] !== line)
			this.past = [...this.past, line].slice(-HISTORY_MAX);
		this.clear();
		return line;
	}

	clear(): void {
		this.chars = [];
		this.at = 0;
		this.back = 0;
		this.row = 0;
	}

	/** What to write so that PROMPT and line stand on the screen, with the cursor at its place. */
	draw(prompt: string, promptColumns: number, width: number): string {
		const before = promptColumns + columns(this.chars.slice(0, this.at).join(''));
		const whole = promptColumns + columns(this.text);
		const up = this.row ? `\x1b[${this.row}A` : '';
		const end = Math.floor(whole / width);
		const row = Math.floor(before / width);
		this.row = row;
		const wrap = whole > 0 && whole % width === 0 ? '\r\n' : ''; // the cursor goes on only with the next character
		return `${up}\r\x1b[J${prompt}${this.text}${wrap}${end > row ? `\x1b[${end - row}A` : ''}\r${before % width ? `\x1b[${before % width}C` : ''}`;
	}

	/** The screen was cleared, or something else was written: the next drawing begins on this row. */
	fresh(): void {
		this.row = 0;
	}

	private recall(step: number): void {
		const back = Math.max(0, Math.min(this.past.length, this.back + step));
		if (back === this.back)
			return;
		if (this.back === 0)
			this.kept = this.text;
		this.back = back;
		this.chars = [...(back === 0 ? this.kept : this.past[this.past.length - back]!)];
		this.at = this.chars.length;
	}

	private wordStart(): number {
		let i = this.at;
		while (i > 0 && this.chars[i - 1] === ' ')
			i--;
		while (i > 0 && this.chars[i - 1] !== ' ')
			i--;
		return i;
	}

	private wordEnd(): number {
		let i = this.at;
		while (i < this.chars.length && this.chars[i] === ' ')
			i++;
		while (i < this.chars.length && this.chars[i] !== ' ')
			i++;
		return i;
	}

	private eraseWord(): void {
		const start = this.wordStart();
		this.chars.splice(start, this.at - start);
		this.at = start;
	}
}
