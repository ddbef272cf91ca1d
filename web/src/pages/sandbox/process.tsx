// SPDX-License-Identifier: Apache-2.0
// One background process: its output as it comes, its input, signals, removal.

import { useEffect, useRef, useState } from 'preact/hooks';
import { api, Problem } from '../../api/client.ts';
import { keepSandbox, me } from '../../api/state.ts';
import type { Process, Sandbox } from '../../api/types.ts';
import { go } from '../../app/router.ts';
import { Button, Empty, Fault, Loading, Snippet, useVisible } from '../../parts/basics.tsx';
import { Output } from '../../parts/output.tsx';
import { ActionDialog, say } from '../../parts/overlay.tsx';
import { bytes, duration, when, whole } from '../../pure/format.ts';
import { Tail } from '../../pure/tail.ts';
import { text } from '../../text/en.ts';

const t = text.processes;
const WAIT_S = 15; // of one request; the server keeps one whose browser has left for so long
const PACE_MS = 1000; // between two requests of a process that prints without a pause
const RETRY_MS = 3000;

export const nameOf = (p: Process): string => p.name || p.id;

/** How one ended, in words. */
export function endOf(p: Process): { words: string; bad: boolean } {
	if (p.error)
		return { words: t.failed, bad: true };
	const by = p.reason && p.reason !== 'exited' ? t.reasons[p.reason] ?? p.reason : null;
	const code = p.exit_code ?? 0;
	return by ? { words: code ? `${by}, ${t.exit(code)}` : by, bad: true } : { words: t.exit(code), bad: code !== 0 };
}

const pause = (ms: number, stop: AbortSignal): Promise<void> => new Promise((done) => {
	const timer = setTimeout(done, ms);
	stop.addEventListener('abort', () => (clearTimeout(timer), done()), { once: true });
});

/** Whether it still lives. After a failure the server may be a new one, where a request for the processes of a stored sandbox would wake it up. */
export async function isAwake(sandbox: string, stop: AbortSignal): Promise<boolean> {
	const s = await api.get<Sandbox>(`/sandboxes/${encodeURIComponent(sandbox)}`, undefined, stop);
	if (!stop.aborted)
		keepSandbox(s);
	return s.state !== 'stored';
}

interface Tails { out: Tail; err: Tail }

/** Asks for a process until it has ended: the first answer comes at once, the others when there is more. */
async function follow(sandbox: string, address: string, tails: Tails, stop: AbortSignal, tell: (p: Process) => void, fail: (e: unknown) => void): Promise<void> {
	let wait = {};
	let failed = false;
	while (!stop.aborted) {
		const began = Date.now();
		try {
			if (failed && !await isAwake(sandbox, stop))
				return;
			failed = false;
			const p = await api.get<Process>(address, { stdout_from: tails.out.next, stderr_from: tails.err.next, ...wait }, stop);
			if (stop.aborted)
				return;
			tails.out.add(p.stdout!);
			tails.err.add(p.stderr!);
			tell(p);
			if (p.state === 'ended')
				return;
			if ('wait_s' in wait && Date.now() - began < PACE_MS)
				await pause(PACE_MS, stop);
			wait = { wait_s: WAIT_S, output: true };
		} catch (e) {
			if (stop.aborted)
				return;
			fail(e);
			if (e instanceof Problem && e.status >= 400 && e.status < 429)
				return;
			await pause(RETRY_MS, stop);
			wait = {};
			failed = true;
		}
	}
}

/** ROW: what the list has of it. CHANGED: the list is to be loaded again. */
export function Detail({ sandbox, row, changed }: { sandbox: string; row: Process; changed: () => void }) {
	const address = `/sandboxes/${encodeURIComponent(sandbox)}/processes/${encodeURIComponent(row.id)}`;
	const tails = useRef<Tails>({ out: new Tail(), err: new Tail() });
	const [seen, setSeen] = useState<Process | null>(null);
	const [error, setError] = useState<unknown>(null);
	const [turn, setTurn] = useState(0);
	const visible = useVisible();
	useEffect(() => {
		if (!visible)
			return;
		const stop = new AbortController();
		let lived = false;
		void follow(sandbox, address, tails.current, stop.signal, (p) => {
			setError(null);
			setSeen(p);
			if (lived && p.state === 'ended')
				changed();
			lived = p.state === 'running';
		}, setError);
		return () => stop.abort();
	}, [address, visible, turn]);
	const p = seen ?? row;
	const section = useRef<HTMLElement>(null);
	const before = useRef(`${p.state} ${p.input}`);
	useEffect(() => { // the button that had the focus may be gone: the keyboard goes on from here
		const now = `${p.state} ${p.input}`;
		if (now !== before.current && document.activeElement === document.body)
			section.current?.focus({ preventScroll: true });
		before.current = now;
	});
	const again = (): void => setTurn((n) => n + 1);
	const { out, err } = tails.current;
	if (error instanceof Problem && error.status === 404)
		return <Empty icon="activity" title={t.gone}><p>{t.goneWhat}</p></Empty>;
	return (
		<section ref={section} tabIndex={-1} class="process-detail stack" aria-label={t.detail(nameOf(p))}>
			<Snippet value={p.command} label={t.command} />
			<Facts p={p} />
			{!me.value?.read_only && <Actions sandbox={sandbox} address={address} p={p} changed={changed} />}
			{error ? <Fault error={error} retry={again} /> : null}
			{p.message && <p class="cell-error">{p.message}</p>}
			{!seen ? !error && <Loading /> : out.screen.empty && err.screen.empty ? <p class="quiet">{p.state === 'running' ? t.noOutputYet : t.noOutput}</p> : (
				<div class="stack tight">
					{(out.cut || err.cut) && <p class="small quiet">{t.cut}</p>}
					<Output value={out.screen} label={t.stdout} live />
					{!err.screen.empty && <div class="stderr"><Output value={err.screen} label={t.stderr} live /></div>}
				</div>
			)}
			{!me.value?.read_only && p.state === 'running' && p.input && <Input address={address} closed={again} />}
		</section>
	);
}

function Facts({ p }: { p: Process }) {
	const rows: [string, string, string?][] = [
		[t.id, p.id],
		...(p.started_at ? [[t.begins, when(p.started_at), whole(p.started_at)] as [string, string, string]] : []),
		...(p.state === 'ended' ? [[t.time, duration(p.duration_ms)] as [string, string]] : []),
		...(p.cpu_ms !== undefined ? [[t.cpu, duration(p.cpu_ms)] as [string, string]] : []),
		...(p.peak_bytes ? [[t.memory, bytes(p.peak_bytes)] as [string, string]] : []),
		[t.stdout, bytes(p.stdout_bytes)],
		...(p.stderr_bytes ? [[t.stderr, bytes(p.stderr_bytes)] as [string, string]] : []),
	];
	return (
		<div class="row process-facts">
			<span role="status" class={p.state === 'running' || !endOf(p).bad ? '' : 'cell-error'}>{p.state === 'running' ? t.running : endOf(p).words}</span>
			{rows.map(([k, v, title]) => <span title={title}><span class="quiet">{k}</span> {v}</span>)}
		</div>
	);
}

function Actions({ sandbox, address, p, changed }: { sandbox: string; address: string; p: Process; changed: () => void }) {
	const [error, setError] = useState<unknown>(null);
	const [ask, setAsk] = useState(false);
	const signal = (name: string): void => {
		setError(null);
		void api.post(`${address}/signal`, { signal: name }).then(() => say(t.sent(name)), setError);
	};
	const remove = (): Promise<void> => api.remove(address).then(() => {
		say(t.removed(nameOf(p)));
		go('sandboxes', sandbox, 'processes');
		changed();
	});
	return (
		<>
			<div class="row" role="group" aria-label={t.signalsOf(nameOf(p))}>
				{p.state === 'running' && t.signals.map((x) => <Button label={x.label} title={x.what} onClick={() => signal(x.name)} />)}
				{p.state === 'running' && <Button label={t.kill} title={t.killWhat} look="alarm" onClick={() => signal('KILL')} />}
				<span class={p.state === 'running' ? 'push' : ''}><Button icon="trash-2" label={t.remove} look={p.state === 'running' ? 'plain alarm' : 'alarm'} onClick={() => setAsk(true)} /></span>
			</div>
			{error !== null && <Fault error={error} />}
			{ask && <ActionDialog title={t.removeAsk(nameOf(p))} action={t.remove} alarm onClose={() => setAsk(false)} run={remove}><p>{p.state === 'running' ? t.removeLives : t.removeEnded}</p></ActionDialog>}
		</>
	);
}

function Input({ address, closed }: { address: string; closed: () => void }) {
	const [line, setLine] = useState('');
	const [busy, setBusy] = useState(false);
	const [error, setError] = useState<unknown>(null);
	const give = async (body: { text?: string; close?: boolean }): Promise<void> => {
		setBusy(true);
		setError(null);
		try {
			await api.post(`${address}/input`, body);
			if (body.close) {
				say(t.inputClosed);
				closed();
			} else {
				setLine('');
			}
		} catch (x) {
			setError(x);
		}
		setBusy(false);
	};
	return (
		<form class="stack tight" onSubmit={(e) => (e.preventDefault(), void (busy || give({ text: `${line}\n` })))}>
			<div class="install">
				<input class="input mono" value={line} onInput={(e) => setLine(e.currentTarget.value)} placeholder={t.input} aria-label={t.input} autocomplete="off" spellcheck={false} autocapitalize="none" />
				<Button label={t.send} type="submit" disabled={busy} />
				<Button label={t.closeInput} disabled={busy} onClick={() => void give({ close: true })} />
			</div>
			{error !== null && <Fault error={error} />}
		</form>
	);
}
