// SPDX-License-Identifier: Apache-2.0
// xterm.js on a terminal of the sandbox, which goes on when nobody looks: the newest shell that lives, else a new one.

import { effect } from '@preact/signals';
import { FitAddon } from '@xterm/addon-fit';
import { Terminal, type ITheme } from '@xterm/xterm';
import { api, Problem, url } from '../api/client.ts';
import type { Process } from '../api/types.ts';
import { look } from '../app/look.ts';
import { text } from '../text/en.ts';
import { wordsOf } from './basics.tsx';

const t = text.terminal;
const SHELL = 'shell'; // the command of a terminal that was started without one
const RETRY_MS = 1000;
const MESSAGE_MAX = 32 * 1024; // bytes that the server takes at once
const AHEAD_MAX = 1000; // keys, or pieces that were pasted
const BEHIND_MAX = 4 << 20; // bytes that xterm.js has not drawn yet

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

/** What the server says in texts (docs/decisions/0037-terminals.md). */
interface Said {
	attached?: { from: number; rows: number; columns: number };
	missed?: { bytes: number };
	resize?: { rows: number; columns: number };
	error?: { message: string };
	exit?: { code: number; reason: string };
}

class Screen {
	private readonly term: Terminal;
	private readonly at: string; // the address of the terminals
	private id: string | null = null;
	private socket: WebSocket | null = null;
	private next: number | null = null; // position of the next byte
	private behind = 0;
	private attached = false;
	private ahead: Uint8Array[] = []; // what was typed before that
	private over = false; // the program has ended: Enter starts another one
	private gone = false;

	private readonly started: () => void;
	private readonly root: boolean; // where there is a root user, people are it

	constructor(term: Terminal, sandbox: string, root: boolean, started: () => void) {
		this.term = term;
		this.root = root;
		this.started = started;
		this.at = `/sandboxes/${encodeURIComponent(sandbox)}/terminals`;
		void this.find();
	}

	private note(words: string): void {
		this.term.write(`\r\n\x1b[0;2m${words}\x1b[0m\r\n`);
	}

	/** Goes on in the newest shell. */
	private async find(): Promise<void> {
		try {
			const { terminals } = await api.get<{ terminals: Process[] }>(this.at);
			const shell = terminals.filter((p) => p.state === 'running' && p.command === SHELL).pop();
			if (shell)
				this.attach(shell.id);
			else
				await this.start();
		} catch (e) {
			this.fail(e);
		}
	}

	private async start(): Promise<void> {
		this.over = false;
		const { id } = await api.post<Process>(this.at, { rows: this.term.rows, columns: this.term.cols, ...(this.root ? { user: 'root' } : {}) });
		this.started();
		this.attach(id);
	}

	private fail(e: unknown): void {
		this.over = true;
		this.note(e instanceof Problem && e.code === 'terminal_unavailable' ? t.unavailable : `${wordsOf(e)} ${t.again}`);
	}

	private attach(id: string): void {
		if (this.gone)
			return;
		if (id !== this.id)
			this.next = null;
		this.id = id;
		const address = new URL(url(`${this.at}/${encodeURIComponent(id)}`, { from: this.next }), location.href);
		address.protocol = address.protocol.replace('http', 'ws');
		const socket = new WebSocket(address);
		socket.binaryType = 'arraybuffer';
		socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => typeof data === 'string' ? this.hear(JSON.parse(data) as Said) : this.draw(new Uint8Array(data));
		socket.onclose = () => {
			if (this.socket !== socket)
				return;
			this.socket = null;
			this.attached = false;
			if (!this.over)
				setTimeout(() => void this.back(), RETRY_MS);
		};
		this.socket = socket;
	}

	/** The connection was lost, and maybe the server, and the terminal with it. */
	private async back(): Promise<void> {
		if (this.gone || this.socket || this.behind > 0)
			return;
		try {
			const p = await api.get<Process>(`${this.at}/${encodeURIComponent(this.id!)}`);
			if (p.state === 'running')
				this.attach(p.id);
			else
				this.end(p.exit_code ?? 0);
		} catch (e) {
			if (e instanceof Problem && (e.status === 0 || e.status === 429 || e.status >= 500))
				setTimeout(() => void this.back(), RETRY_MS);
			else {
				this.over = true;
				this.note(`${t.lost} ${t.again}`);
			}
		}
	}

	private hear(said: Said): void {
		if (said.attached) {
			if (this.next === null)
				this.term.reset();
			this.next = said.attached.from;
			this.attached = true;
			this.resize();
			this.ahead.splice(0).forEach((data) => this.type(data));
		} else if (said.missed) {
			this.next = (this.next ?? 0) + said.missed.bytes;
			this.note(t.missed);
		} else if (said.resize) {
			this.term.resize(said.resize.columns, said.resize.rows);
		} else if (said.exit) {
			this.end(said.exit.code);
		} else if (said.error) {
			this.fail(new Error(said.error.message));
		}
	}

	private end(code: number): void {
		this.over = true;
		this.note(`${t.ended(code)} ${t.again}`);
	}

	/** One that prints faster than it can be drawn is left for a moment, and seen again with its newest output. */
	private draw(bytes: Uint8Array): void {
		this.next = (this.next ?? 0) + bytes.length;
		this.behind += bytes.length;
		this.term.write(bytes, () => {
			this.behind -= bytes.length;
			if (this.behind === 0 && !this.socket && !this.over)
				void this.back();
		});
		if (this.behind > BEHIND_MAX) {
			const socket = this.socket;
			this.socket = null;
			this.attached = false;
			socket?.close();
			this.next = null;
		}
	}

	type(data: Uint8Array): void {
		if (this.over) {
			if (data.includes(13))
				this.start().catch((e: unknown) => this.fail(e));
			return;
		}
		if (this.attached)
			for (let i = 0; i < data.length; i += MESSAGE_MAX)
				this.socket!.send(data.slice(i, i + MESSAGE_MAX));
		else if (this.ahead.length < AHEAD_MAX)
			this.ahead.push(data);
	}

	resize(): void {
		if (this.attached)
			this.socket!.send(JSON.stringify({ resize: { rows: this.term.rows, columns: this.term.cols } }));
	}

	/** The shell goes on. */
	leave(): void {
		this.gone = true;
		this.socket?.close();
		this.socket = null;
	}
}

/** Opens a terminal in HOST, as the root user if the sandbox has one. STARTED is called when it has made a shell. The answer closes it. */
export function openTerminal(host: HTMLElement, sandbox: string, root: boolean, started: () => void): () => void {
	const term = new Terminal({ fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--mono'), fontSize: 13, lineHeight: 1.25, cursorBlink: !matchMedia('(prefers-reduced-motion: reduce)').matches, scrollback: 20_000, theme: theme(), screenReaderMode: true });
	const fit = new FitAddon();
	term.loadAddon(fit);
	term.open(host);
	fit.fit();
	const screen = new Screen(term, sandbox, root, started);
	const encoder = new TextEncoder();
	term.onData((d) => screen.type(encoder.encode(d)));
	term.onBinary((d) => screen.type(Uint8Array.from(d, (c) => c.charCodeAt(0))));
	const resized = new ResizeObserver(() => {
		fit.fit();
		screen.resize();
	});
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
	term.focus();
	return () => {
		screen.leave();
		unlook();
		dark.removeEventListener('change', paint);
		resized.disconnect();
		term.dispose();
	};
}
