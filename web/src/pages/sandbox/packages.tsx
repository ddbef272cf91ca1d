// SPDX-License-Identifier: Apache-2.0
// Python packages: what is there, install with its log, remove.

import { useEffect, useState } from 'preact/hooks';
import { api } from '../../api/client.ts';
import { me, notebook } from '../../api/state.ts';
import { Button, Empty, Fault, Loading, Search, useLoad } from '../../parts/basics.tsx';
import { bytes } from '../../pure/format.ts';
import { ActionDialog, say } from '../../parts/overlay.tsx';
import { Output } from '../../parts/output.tsx';
import { text } from '../../text/en.ts';
import type { TabProps } from '../sandbox.tsx';

const t = text.packages;
const STEPS = 200; // lines of the log of an installation

interface Package { name: string; version: string; from_image: boolean }
interface Status { packages: string; status: string; message: string; stderr: string; complete: boolean; installed: string[] }

/** What the index has under a name; all of it is text of strangers. */
interface Entry { name: string; version?: string; summary?: string; why?: string; bytes?: number; versions: string[]; total: number }

const oneName = /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/;

export function Packages({ id }: TabProps) {
	const [filter, setFilter] = useState('');
	const [turn, setTurn] = useState(0);
	const [remove, setRemove] = useState<string | null>(null);
	const event = notebook(id).packages.value;
	const list = useLoad((signal) => api.get<{ packages: Package[] }>(`/sandboxes/${encodeURIComponent(id)}/packages`, { all: true }, signal), [id, turn, event?.status === 'success' ? event : null]);
	const rows = (list.value?.packages ?? []).filter((p) => p.name.toLowerCase().includes(filter.toLowerCase()));
	const own = rows.filter((p) => !p.from_image);
	const image = rows.filter((p) => p.from_image);
	const can = !me.value?.read_only;
	return (
		<div class="pane stack">
			{can && <Install id={id} done={() => setTurn((n) => n + 1)} />}
			<Search value={filter} label={t.filter} onInput={setFilter} />
			{list.error && !list.value ? <Fault error={list.error} retry={list.again} /> : !list.value ? <Loading /> : rows.length === 0 && filter ? <Empty icon="search" title={t.noMatch}>{can && <p>{t.noMatchWhat}</p>}</Empty> : (
				<>
					<section class="stack tight"><h2>{t.own}</h2>{own.length ? <List rows={own} remove={can ? setRemove : undefined} /> : <p class="quiet">{filter ? t.noMatch : t.ownNone}</p>}</section>
					<section class="stack tight"><h2>{t.image}</h2>{image.length ? <List rows={image} /> : <p class="quiet">{t.noMatch}</p>}</section>
				</>
			)}
			{remove && (
				<ActionDialog title={t.removeAsk(remove)} action={t.remove} alarm onClose={() => setRemove(null)} run={() => api.remove(`/sandboxes/${encodeURIComponent(id)}/packages/${encodeURIComponent(remove)}`).then(() => (say(t.removed(remove)), setTurn((n) => n + 1)))} />
			)}
		</div>
	);
}

function List({ rows, remove }: { rows: Package[]; remove?: (name: string) => void }) {
	return (
		<ul class="package-list panel">
			{rows.map((p) => <li key={p.name}><span class="clip">{p.name}</span><span class="quiet mono">{p.version}</span>{remove && <Button icon="trash-2" label={t.removeAsk(p.name)} iconOnly tiny look="plain" onClick={() => remove(p.name)} />}</li>)}
		</ul>
	);
}

function Install({ id, done }: { id: string; done: () => void }) {
	const [wanted, setWanted] = useState('');
	const [status, setStatus] = useState<Status | null>(null);
	const [error, setError] = useState<unknown>(null);
	const [seconds, setSeconds] = useState(0);
	const event = notebook(id).packages.value;
	const [steps, setSteps] = useState<string[]>([]);
	const [entry, setEntry] = useState<Entry | null>(null);
	const [looking, setLooking] = useState(false);
	const busy = status !== null && !status.complete;
	useEffect(() => {
		if (!busy)
			return;
		setSeconds(0);
		const clock = setInterval(() => setSeconds((n) => n + 1), 1000);
		return () => clearInterval(clock);
	}, [busy]);
	useEffect(() => {
		if (event?.status === 'installing' && event.message)
			setSteps((all) => all.at(-1) === event.message ? all : [...all, event.message!].slice(-STEPS));
	}, [event]);
	const forget = (): void => {
		setError(null);
		setEntry(null);
		setStatus(null);
	};
	const lookUp = (): void => {
		forget();
		setLooking(true);
		void api.get<Entry>(`/sandboxes/${encodeURIComponent(id)}/index/${encodeURIComponent(wanted.trim())}`).then(setEntry, setError).finally(() => setLooking(false));
	};
	const install = async (): Promise<void> => {
		forget();
		setSteps([]);
		try {
			let s = await api.post<Status>(`/sandboxes/${encodeURIComponent(id)}/packages`, { packages: wanted.trim() });
			setStatus(s);
			while (!s.complete)
				setStatus(s = await api.get<Status>(`/sandboxes/${encodeURIComponent(id)}/packages/${encodeURIComponent(s.packages)}`, { wait: true }));
			if (s.status === 'success')
				setWanted('');
			done();
		} catch (x) {
			setStatus(null);
			setError(x);
		}
	};
	const cancel = (): void => void api.remove(`/sandboxes/${encodeURIComponent(id)}/packages/${encodeURIComponent(status!.packages)}`).catch(setError);
	return (
		<form class="stack tight" onSubmit={(e) => (e.preventDefault(), void install())}>
			<div class="install">
				<input class="input mono" value={wanted} onInput={(e) => setWanted(e.currentTarget.value)} placeholder={t.example} aria-label={t.name} required disabled={busy} autocomplete="off" spellcheck={false} autocapitalize="none" />
				<Button icon="download" label={t.install} type="submit" look="primary" busy={busy} disabled={wanted.trim() === ''} />
				{busy ? <Button icon="x" label={text.common.cancel} onClick={cancel} />
					: <Button icon="search" label={t.lookUp} busy={looking} disabled={!oneName.test(wanted.trim())} onClick={lookUp} />}
			</div>
			{entry && <Found entry={entry} choose={(version) => setWanted(`${entry.name}==${version}`)} />}
			{error !== null && <Fault error={error} />}
			{busy && <p class="row quiet" role="status">{t.installing(seconds)}</p>}
			{busy && event?.status === 'installing' && Boolean(event.total) && <div class="bar"><div style={{ width: `${100 * Math.min(1, (event.done ?? 0) / event.total!)}%` }} /></div>}
			{busy && steps.length > 0 && <Output value={steps.join('\n')} label={t.log} />}
			{status?.complete && (
				<div class="stack tight" role="status">
					<p class={status.status === 'success' ? '' : 'cell-error'}>{status.message}</p>
					{status.installed.length > 0 && <p class="quiet mono">{status.installed.join('  ')}</p>}
					{status.stderr && <Output value={status.stderr} label={t.log} />}
				</div>
			)}
		</form>
	);
}

function Found({ entry, choose }: { entry: Entry; choose: (version: string) => void }) {
	return (
		<div class="panel found stack tight" role="status">
			<p class="row"><b class="clip">{entry.name}</b>{entry.version && <span class="mono">{entry.version}</span>}{entry.bytes !== undefined && <span class="quiet">{bytes(entry.bytes)}</span>}</p>
			{entry.summary && <p>{entry.summary}</p>}
			{entry.why && <p class="cell-error">{entry.why}</p>}
			<p class="quiet">{t.versions(entry.versions.length, entry.total)}</p>
			<ul class="row">
				{entry.versions.map((v) => <li key={v}><Button label={v} tiny look="plain" onClick={() => choose(v)} /></li>)}
			</ul>
		</div>
	);
}
