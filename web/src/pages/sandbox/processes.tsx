// SPDX-License-Identifier: Apache-2.0
// Background processes: start one, and the list. The one that the address names is open (process.tsx).

import { useEffect, useState } from 'preact/hooks';
import { api, Problem } from '../../api/client.ts';
import { keepSandbox, me } from '../../api/state.ts';
import type { Process, Sandbox } from '../../api/types.ts';
import { go, href } from '../../app/router.ts';
import { Button, Empty, Fault, Loading, useClock, useVisible } from '../../parts/basics.tsx';
import { Icon } from '../../parts/icon.tsx';
import { age, duration } from '../../pure/format.ts';
import { text } from '../../text/en.ts';
import type { TabProps } from '../sandbox.tsx';
import { Ports } from './ports.tsx';
import { Detail, endOf, isAwake, nameOf } from './process.tsx';

const t = text.processes;
const AGAIN_MS = 3000; // no event tells of processes that others start

export function Processes({ id, s, parts }: TabProps) {
	const [turn, setTurn] = useState(0);
	const again = (): void => setTurn((n) => n + 1);
	const asleep = s?.state === 'stored'; // a request for its processes would wake it up
	const started = (p: Process): void => {
		if (asleep)
			void api.get<Sandbox>(`/sandboxes/${encodeURIComponent(id)}`).then(keepSandbox, () => undefined);
		again();
		go('sandboxes', id, 'processes', p.id);
	};
	return (
		<div class="pane stack">
			{!me.value?.read_only && <Start id={id} started={started} />}
			{asleep ? <Empty icon="moon" title={t.asleep}><p>{t.asleepWhat}</p></Empty> : <List id={id} open={parts[0]} turn={turn} again={again} />}
		</div>
	);
}

function Start({ id, started }: { id: string; started: (p: Process) => void }) {
	const [command, setCommand] = useState('');
	const [name, setName] = useState('');
	const [input, setInput] = useState(false);
	const [busy, setBusy] = useState(false);
	const [error, setError] = useState<unknown>(null);
	const start = async (): Promise<void> => {
		setBusy(true);
		setError(null);
		try {
			started(await api.post<Process>(`/sandboxes/${encodeURIComponent(id)}/processes`, { command, input, ...(name.trim() && { name: name.trim() }) }));
			setCommand('');
			setName('');
			setInput(false);
		} catch (x) {
			setError(x);
		}
		setBusy(false);
	};
	return (
		<form class="stack tight" onSubmit={(e) => (e.preventDefault(), void start())}>
			<div class="install">
				<input class="input mono" value={command} onInput={(e) => setCommand(e.currentTarget.value)} placeholder={t.startExample} aria-label={t.startLabel} required autocomplete="off" spellcheck={false} autocapitalize="none" />
				<Button icon="play" label={t.start} type="submit" look="primary" busy={busy} disabled={command.trim() === ''} />
			</div>
			<div class="row process-more">
				<input class="input" value={name} onInput={(e) => setName(e.currentTarget.value)} placeholder={t.name} aria-label={t.name} maxLength={64} autocomplete="off" spellcheck={false} />
				<label class="row" title={t.takesInputWhat}><input type="checkbox" checked={input} onChange={(e) => setInput(e.currentTarget.checked)} />{t.takesInput}</label>
			</div>
			{error !== null && <Fault error={error} />}
		</form>
	);
}

interface Loaded { rows?: Process[]; at: number; turn?: number; error?: unknown }

/** The list, loaded again and again while it can be seen. */
function useProcesses(id: string, turn: number): Loaded {
	const [state, set] = useState<Loaded>({ at: 0 });
	const visible = useVisible();
	useEffect(() => {
		if (!visible)
			return;
		const stop = new AbortController();
		let timer: ReturnType<typeof setTimeout> | undefined;
		let failed = false;
		const load = async (): Promise<void> => {
			try {
				if (failed && !await isAwake(id, stop.signal))
					return;
				const { processes } = await api.get<{ processes: Process[] }>(`/sandboxes/${encodeURIComponent(id)}/processes`, undefined, stop.signal);
				set({ rows: processes.reverse(), at: Date.now(), turn });
				failed = false;
			} catch (error) {
				if (stop.signal.aborted)
					return;
				set((before) => ({ ...before, error }));
				if (isGone(error))
					return;
				failed = true;
			}
			if (!stop.signal.aborted)
				timer = setTimeout(() => void load(), AGAIN_MS);
		};
		void load();
		return () => {
			stop.abort();
			clearTimeout(timer);
		};
	}, [id, visible, turn]);
	return state;
}

const isGone = (error: unknown): boolean => error instanceof Problem && error.status === 404;

function List({ id, open, turn, again }: { id: string; open?: string; turn: number; again: () => void }) {
	const { rows, at, error, ...loaded } = useProcesses(id, turn);
	const can = !me.value?.read_only;
	if (isGone(error))
		return <Empty icon="activity" title={t.sandboxGone}><p>{t.sandboxGoneWhat}</p></Empty>;
	if (!rows)
		return error ? <Fault error={error} retry={again} /> : <Loading />;
	return (
		<>
			{error ? <Fault error={error} retry={again} /> : null}
			<Ports id={id} />
			{open && loaded.turn === turn && !rows.some((p) => p.id === open) && <Gone id={id} />}
			{rows.length === 0 ? !open && <Empty icon="activity" title={t.none}><p>{can ? t.noneCan : t.noneWhat}</p></Empty> : (
				<ul class="processes panel" aria-label={t.list}>
					{rows.map((p) => <Row key={`${p.id} ${p.started_at}`} sandbox={id} p={p} at={at} open={p.id === open} again={again} />)}
				</ul>
			)}
		</>
	);
}

function Gone({ id }: { id: string }) {
	return <Empty icon="activity" title={t.gone}><p>{t.goneWhat}</p><a class="button" href={href('sandboxes', id, 'processes')}>{t.toList}</a></Empty>;
}

function Row({ sandbox, p, at, open, again }: { sandbox: string; p: Process; at: number; open: boolean; again: () => void }) {
	return (
		<li class={`process ${open ? 'chosen' : ''}`}>
			<a class="process-link" href={open ? href('sandboxes', sandbox, 'processes') : href('sandboxes', sandbox, 'processes', p.id)} aria-expanded={open ? 'true' : 'false'}>
				<Icon name={open ? 'chevron-down' : 'chevron-right'} size={14} />
				<span class={`dot ${p.state === 'running' ? 'on' : endOf(p).bad ? 'bad' : ''}`} />
				<span class="process-name clip">{nameOf(p)}</span>
				<code class="process-command clip">{p.command}</code>
				{p.state === 'running' ? <Since p={p} at={at} /> : <span class="process-state"><span class={`tag ${endOf(p).bad ? 'bad' : ''}`}>{endOf(p).words}</span></span>}
			</a>
			{open && <Detail sandbox={sandbox} row={p} changed={again} />}
		</li>
	);
}

function Since({ p, at }: { p: Process; at: number }) {
	useClock();
	const seconds = Math.floor((p.duration_ms + Math.max(0, Date.now() - at)) / 1000);
	return <span class="process-state"><span class="tag on">{t.runningFor(seconds < 60 ? age(seconds) : duration(seconds * 1000))}</span></span>;
}
