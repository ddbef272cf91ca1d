// SPDX-License-Identifier: Apache-2.0
// xterm.js over the runs of one sandbox, loaded when a terminal is opened.

import { effect } from '@preact/signals';
import { FitAddon } from '@xterm/addon-fit';
import { Terminal, type ITheme } from '@xterm/xterm';
import { api, Problem } from '../api/client.ts';
import { sandboxes, watchRuns, type RunNews, type Watcher } from '../api/state.ts';
import type { Cell } from '../api/types.ts';
import { look } from '../app/look.ts';
import { LineEditor } from '../pure/line.ts';
import { settled } from '../pure/notebook.ts';
import { text } from '../text/en.ts';
import { wordsOf } from './basics.tsx';

const t = text.terminal;
const HOME = '/mnt/data';
const RETRY_MS = 1000;
const AHEAD_MAX = 65_536; // characters

/** The colours of the page, as xterm.js wants them. */
function theme(): ITheme {
	const probe = document.createElement('span');
	document.body.append(probe);
	const color = (name: string): string => {
		probe.style.color = `var(--${name})`;
		return getComputedStyle(probe).color;
	};
	const names = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
	const out: Record<string, string> = { background: color('raised'), foreground: color('ink'), cursor: color('ink'), cursorAccent: color('raised'), selectionBackground: color('line-strong') };
	names.forEach((n, i) => {
		out[n] = color(`c${i}`);
		out[`bright${n[0]!.toUpperCase()}${n.slice(1)}`] = color(`c${i + 8}`);
	});
	probe.remove();
	return out;
}

class Shell implements Watcher {
	private readonly line = new LineEditor();
	private cwd: string;
	private run: string | null = null; // under way
	private busy = false;
	private stop = false; // Ctrl-C came before the run had a name
	private ahead = ''; // what was typed or pasted while something ran
	private early: RunNews[] = [];
	private lost = false; // news were missed before the run had a name
	private over: (() => void) | null = null; // of the run under way

	private readonly term: Terminal;
	private readonly sandbox: string;

	constructor(term: Terminal, sandbox: string) {
		this.term = term;
		this.sandbox = sandbox;
		this.cwd = sandboxes.value?.get(sandbox)?.workdir ?? HOME;
		this.term.write(`\x1b[2m${t.welcome}\x1b[0m\r\n`);
		this.draw();
	}

	input(data: string): void {
		const lines = data.length > 1 && /[\r\n]/.test(data) && !data.startsWith('\x1b') ? data.split(/\r\n|\r|\n/) : [data];
		lines.forEach((l, i) => {
			if (l !== '')
				this.key(l);
			if (i < lines.length - 1)
				this.key('\r');
		});
	}

	private key(data: string): void {
		if (this.busy) {
			if (data === '\x03')
				this.interrupt();
			else if (!data.startsWith('\x1b') && this.ahead.length < AHEAD_MAX)
				this.ahead += data;
			return;
		}
		const what = this.line.input(data);
		if (what && 'line' in what) {
			this.term.write('\r\n');
			void this.start(what.line);
		} else if (what && 'interrupt' in what) {
			this.line.clear();
			this.term.write('^C\r\n');
			this.draw();
		} else {
			if (what)
				this.term.clear();
			this.draw();
		}
	}

	private prompt(): [string, number] {
		const where = this.cwd.replace(new RegExp(`^${HOME}(?=/|$)`), '~');
		return [`\x1b[36m${where}\x1b[0m $ `, where.length + 3];
	}

	private draw(): void {
		this.term.write(this.line.draw(...this.prompt(), this.term.cols));
	}

	private interrupt(): void {
		this.ahead = '';
		this.stop = true;
		if (this.run)
			api.remove(`/runs/${this.run}`).catch(() => undefined);
	}

	private async start(line: string): Promise<void> {
		if (line.trim() === 'clear')
			this.term.clear();
		else if (line.trim() !== '')
			await this.execute(line);
		this.line.fresh();
		this.draw();
		const ahead = this.ahead;
		this.ahead = '';
		if (ahead !== '')
			this.input(ahead);
	}

	private async execute(line: string): Promise<void> {
		this.busy = true;
		this.stop = false;
		this.lost = false;
		const over = new Promise<void>((done) => this.over = done);
		try {
			const { id } = await api.post<{ id: string }>(`/sandboxes/${this.sandbox}/runs`, { command: line, cwd: this.cwd });
			this.run = id;
			if (this.stop)
				this.interrupt();
			for (const e of this.early.filter((x) => x.run === id))
				this.tell(e);
			if (this.lost)
				this.missed();
			await over;
		} catch (e) {
			this.term.write(`\x1b[31m${wordsOf(e)}\x1b[0m\r\n`);
		}
		if (this.last !== '\n')
			this.term.write('\r\n');
		this.last = '\n';
		this.run = null;
		this.busy = false;
		this.early = [];
	}

	/** Events may come before the answer that names the run. */
	tell(news: RunNews): void {
		if (!this.busy)
			return;
		if (news.run !== this.run)
			this.early.push(news);
		else if (news.cell)
			this.end(news.cell);
		else if (news.cut)
			this.note(t.cut);
		else
			this.write(news.text ?? '');
	}

	/** The end of the run may have been missed, too: when the server starts again, nobody tells it any more. */
	missed(): void {
		this.lost = true;
		if (this.run === null)
			return;
		this.note(t.missed);
		void this.ask(this.run);
	}

	private async ask(run: string): Promise<void> {
		const found = await api.get<Cell>(`/notebooks/${this.sandbox}/runs/${run}`).catch((e: unknown) => e instanceof Problem ? e : null);
		if (this.run !== run)
			return;
		if (found instanceof Problem && (found.status === 0 || found.status === 429 || found.status >= 500))
			return void setTimeout(() => void (this.run === run && this.ask(run)), RETRY_MS);
		const cell = found instanceof Problem ? null : found;
		if (!cell)
			this.note(t.unknown);
		if (!cell || settled(cell))
			this.end(cell ?? undefined);
	}

	/** Words of the page on lines of their own. */
	private note(words: string): void {
		this.term.write(`${this.last === '\n' ? '' : '\r\n'}\x1b[2m${words}\x1b[0m\r\n`);
		this.last = '\n';
	}

	private last = '\n';

	private write(piece: string): void {
		this.last = piece[piece.length - 1]!;
		this.term.write(piece.replace(/\r?\n/g, '\r\n'));
	}

	private end(cell?: Cell): void {
		const reason = cell?.reason ?? 'exited';
		if (cell?.status === 'failed') {
			this.term.write(`${this.last === '\n' ? '' : '\r\n'}\x1b[31m${cell.error ?? ''}\x1b[0m`);
			this.last = '';
			this.cwd = HOME; // a folder that is gone is no place to go on
		} else if (reason === 'cancelled') {
			this.write('^C');
		} else if (reason !== 'exited') {
			this.term.write(`\r\n\x1b[31m${text.notebook.reasons[reason] ?? reason}\x1b[0m`);
			this.last = '';
		}
		this.cwd = cell?.ended_cwd ?? this.cwd;
		this.over?.();
	}
}

/** Opens a terminal in HOST. The answer closes it. */
export function openTerminal(host: HTMLElement, sandbox: string): () => void {
	const term = new Terminal({ fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--mono'), fontSize: 13, lineHeight: 1.25, cursorBlink: !matchMedia('(prefers-reduced-motion: reduce)').matches, scrollback: 20_000, theme: theme(), screenReaderMode: true });
	const fit = new FitAddon();
	term.loadAddon(fit);
	term.open(host);
	fit.fit();
	const shell = new Shell(term, sandbox);
	term.onData((d) => shell.input(d));
	const resized = new ResizeObserver(() => fit.fit());
	resized.observe(host);
	const dark = matchMedia('(prefers-color-scheme: dark)');
	const paint = (): void => {
		term.options.theme = theme();
	};
	dark.addEventListener('change', paint);
	const unlook = effect(() => {
		void look.value;
		paint();
	});
	const unwatch = watchRuns(sandbox, shell);
	term.focus();
	return () => {
		unwatch();
		unlook();
		dark.removeEventListener('change', paint);
		resized.disconnect();
		term.dispose();
	};
}
