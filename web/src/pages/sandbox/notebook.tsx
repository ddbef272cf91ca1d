// SPDX-License-Identifier: Apache-2.0
// Every run of the sandbox as a cell, as it happens, and an editor to go on by hand in the same state.

import type { ComponentChildren } from 'preact';
import { signal, type Signal } from '@preact/signals';
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api, url } from '../../api/client.ts';
import { loadCells, me, notebook } from '../../api/state.ts';
import type { Cell, Checkpoint, Completion, Language } from '../../api/types.ts';
import { Button, Empty, Fault, Loading, Search } from '../../parts/basics.tsx';
import type { Editor } from '../../parts/editor.ts';
import { ActionDialog, sayFault } from '../../parts/overlay.tsx';
import { VirtualList, type VirtualHandle } from '../../parts/virtual.tsx';
import { exampleCode } from '../../pure/example.ts';
import { rangesOf } from '../../pure/notebook.ts';
import { text } from '../../text/en.ts';
import type { TabProps } from '../sandbox.tsx';
import { CellView } from './cell.tsx';
import { MarkdownDialog } from './markdown-cell.tsx';

const t = text.notebook;
const drafts = new Map<string, string>(); // what was typed and not run, by sandbox
const languages = new Map<string, Signal<Language>>(); // what is being written, by sandbox

function languageOf(id: string): Signal<Language> {
	const found = languages.get(id) ?? signal<Language>('python');
	languages.set(id, found);
	return found;
}

export function NotebookView({ id, s }: TabProps) {
	const n = notebook(id);
	const [error, setError] = useState<unknown>(null);
	const [away, setAway] = useState(false);
	const list = useRef<VirtualHandle>(null);
	const editor = useRef<Editor | null>(null);
	const older = useRef(false);
	const load = (): void => void loadCells(id).then(() => setError(null), setError);
	useEffect(load, [id]);
	const cells = n.cells.value;
	const checkpoints = useCheckpoints(id, s !== null);
	const can = s !== null && !me.value?.read_only;
	const onTop = useCallback(() => {
		if (!n.more.value || older.current)
			return;
		older.current = true;
		void loadCells(id, true).catch(sayFault).finally(() => (older.current = false));
	}, [id]);
	const run = async (code: string, language: Language = 'python', context?: string): Promise<void> => {
		list.current?.toEnd();
		await api.post(`/sandboxes/${encodeURIComponent(id)}/runs`, language === 'bash' ? { command: code } : { code, stateful: true, context, language });
	};
	const [picked, setPicked] = useState<ReadonlySet<number> | null>(null); // null: nobody selects
	const pickOf = (c: Cell) => picked && c.seq !== null ? { on: picked.has(c.seq), set: (on: boolean) => {
		const next = new Set(picked);
		next[on ? 'add' : 'delete'](c.seq!);
		setPicked(next);
	} } : undefined;
	const [removing, setRemoving] = useState<Cell | null>(null);
	const [writing, setWriting] = useState<{ cell: Cell | null; beside?: Cell } | null>(null);
	const change = !me.value?.read_only;
	const again = (c: Cell): void => void run(c.code!, c.language, c.context).catch(sayFault);
	const edit = ({ code, language }: Cell): void => {
		languageOf(id).value = language ?? 'python';
		drafts.set(id, code!);
		editor.current?.set(code!);
		editor.current?.focus();
	};
	const select = picked ? undefined : <Button icon="check" label={t.select} tiny onClick={() => (setPicked(new Set()), load())} />;
	return (
		<div class="notebook" onKeyDown={(e) => moveByKey(e, cells.length, list.current)}>
			{!s && <div class="notice">{t.ended}</div>}
			{s?.host_disk_full && <div class="notice bad" role="status">{t.hostDiskFull}</div>}
			{picked && <Picked id={id} cells={cells} picked={picked} set={setPicked} />}
			{cells.length > 3 ? <Contents cells={cells} more={n.more.value} to={(i) => list.current?.to(i)} select={select} /> : cells.length > 0 && select && <span class="contents-open">{select}</span>}
			{error !== null && cells.length === 0 ? <div class="page"><Fault error={error} retry={load} /></div>
				: !n.loaded.value && cells.length === 0 ? <Loading />
				: cells.length === 0 ? <div class="notebook-empty"><Empty icon="notebook-pen" title={t.empty}><p>{t.emptyWhat}</p>{can && <Button icon="play" label={text.home.exampleRun} onClick={() => void run(exampleCode).catch(sayFault)} />}</Empty></div>
				: (
					<VirtualList key={id} count={cells.length} keyOf={(i) => cells[i]!.run} estimate={140} follow handle={list} label={t.title} onTop={onTop} onAway={setAway}
						top={n.more.value ? <div class="notebook-more"><span class="spinner" />{t.older}</div> : undefined}
						row={(i) => <CellView cell={cells[i]!} n={n} checkpoint={checkpoints.get(cells[i]!.run)} act={can ? { edit, again } : undefined} remove={change ? setRemoving : undefined} write={change ? (cell) => setWriting({ cell }) : undefined} beside={change ? (beside) => setWriting({ cell: null, beside }) : undefined} pick={pickOf(cells[i]!)} />} />
				)}
			{away && <span class="to-end"><Button icon="arrow-down" label={t.toEnd} tiny onClick={() => list.current?.toEnd()} /></span>}
			{removing && (
				<ActionDialog title={t.removeAsk(removing.number)} action={text.common.delete} alarm onClose={() => setRemoving(null)} run={async () => {
					await api.remove(`/notebooks/${encodeURIComponent(id)}/runs/${encodeURIComponent(removing.run)}`);
					n.cells.value = n.cells.value.filter((c) => c.run !== removing.run);
				}}><p>{t.removeWhat}</p></ActionDialog>
			)}
			{writing && <MarkdownDialog sandbox={id} cell={writing.cell} beside={writing.beside} onClose={() => setWriting(null)} />}
			{can && <Composer id={id} busy={s.busy} editor={editor} cells={cells} run={run} write={() => setWriting({ cell: null })} />}
		</div>
	);
}

/** The cells that are selected, and files of them alone. */
function Picked({ id, cells, picked, set }: { id: string; cells: readonly Cell[]; picked: ReadonlySet<number>; set: (p: ReadonlySet<number> | null) => void }) {
	const all = cells.flatMap((c) => c.seq ?? []);
	const chosen = rangesOf(all, picked);
	const bad = chosen.length > RANGES_MAX;
	const link = (format: string): string => url(`/notebooks/${encodeURIComponent(id)}/export`, { format, cells: chosen.join(',') || undefined });
	return (
		<section class="picked panel" aria-label={t.select}>
			<Button icon="x" label={text.common.close} iconOnly tiny look="plain" onClick={() => set(null)} />
			<span role="status">{bad ? t.tooMany : t.picked(picked.size)}</span>
			<Button label={t.pickAll} tiny onClick={() => set(new Set(all))} />
			{chosen.length > 0 && !bad && (
				<span class="push row">
					<a class="button tiny" href={link('ipynb')} download="">{t.exportNotebook}</a>
					<a class="button tiny" href={link('html')} download="">{t.exportReport}</a>
				</span>
			)}
		</section>
	);
}

const RANGES_MAX = 200; // of the server

/** What is in the notebook, to look through and to go to: the first line of each run, and where words are found. */
function Contents({ cells, more, to, select }: { cells: readonly Cell[]; more: boolean; to: (i: number) => void; select?: ComponentChildren }) {
	const [open, setOpen] = useState(false);
	const [words, setWords] = useState('');
	const w = words.trim().toLowerCase();
	const rows = cells.map((c, i) => ({ i, c })).filter(({ c }) => !w || [c.code, c.stdout?.text, c.stderr?.text, c.value?.text, c.error, c.asked_by?.name].some((x) => x?.toLowerCase().includes(w)));
	if (!open)
		return <span class="contents-open row">{select}<Button icon="search" label={t.contents} tiny onClick={() => setOpen(true)} /></span>;
	return (
		<section class="contents panel" aria-label={t.contents} onKeyDown={(e) => e.key === 'Escape' && setOpen(false)}>
			<div class="row"><Search value={words} label={t.find} onInput={setWords} /><span class="push"><Button icon="x" label={text.common.close} iconOnly tiny look="plain" onClick={() => setOpen(false)} /></span></div>
			<ol tabIndex={0}>
				{rows.slice(-CONTENTS_MAX).map(({ i, c }) => (
					<li key={c.run}><button type="button" class="contents-row" onClick={() => to(i)}><span class="clip mono">{c.number && `[${c.number}] `}{headOf(c)}</span>{(c.exit_code || (c.reason && c.reason !== 'exited')) && <span class="dot bad" />}</button></li>
				))}
			</ol>
			{rows.length === 0 && <p class="small quiet">{t.notFound}</p>}
			{more && <p class="small quiet">{t.olderNot}</p>}
		</section>
	);
}

const CONTENTS_MAX = 500;

/** The heading of a cell: its first comment, else its first line. */
function headOf(c: Cell): string {
	const lines = (c.code ?? '').split('\n').map((l) => l.trim()).filter(Boolean);
	return (lines.find((l) => /^#+ ?\w/.test(l))?.replace(/^#+ ?/, '') ?? lines[0] ?? t.noCode).slice(0, 120);
}

/** Checkpoints by the run after which they were made. */
function useCheckpoints(id: string, live: boolean): ReadonlyMap<string, Checkpoint> {
	const [rows, setRows] = useState<Checkpoint[]>([]);
	const turn = notebook(id).checkpoints.value;
	useEffect(() => {
		if (live)
			void api.get<{ checkpoints: Checkpoint[] }>(`/sandboxes/${encodeURIComponent(id)}/checkpoints`).then((r) => setRows(r.checkpoints), () => setRows([]));
	}, [id, live, turn]);
	return useMemo(() => new Map(rows.filter((r) => r.by).map((r) => [r.by!, r])), [rows]);
}

/** Arrow keys and j, k go from cell to cell while no field has the focus. */
function moveByKey(e: KeyboardEvent, count: number, list: VirtualHandle | null): void {
	const target = e.target as HTMLElement;
	const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[e.key];
	if (!step || e.ctrlKey || e.metaKey || e.altKey || target.shadowRoot || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.closest('.output-window, .menu, dialog, .sheet'))
		return;
	const rows = [...document.querySelectorAll<HTMLElement>('.notebook [data-row]')];
	const here = target.closest<HTMLElement>('[data-row]');
	const at = here ? Number(here.dataset['row']) + step : step > 0 ? Number(rows[0]?.dataset['row']) : count - 1;
	if (at < 0 || at >= count)
		return;
	e.preventDefault();
	const focus = (): void => {
		const article = document.querySelector<HTMLElement>(`.notebook [data-row="${at}"] article`);
		article?.focus({ preventScroll: true });
		article?.scrollIntoView({ block: 'nearest' });
	};
	if (rows.some((r) => Number(r.dataset['row']) === at))
		return focus();
	list?.to(at);
	requestAnimationFrame(() => requestAnimationFrame(focus));
}

interface ComposerProps {
	id: string;
	busy: boolean;
	editor: { current: Editor | null };
	cells: readonly Cell[];
	run: (code: string, language: Language) => Promise<void>;
	write: () => void;
}

function Composer({ id, busy, editor, cells, run, write }: ComposerProps) {
	const host = useRef<HTMLDivElement>(null);
	const [ready, setReady] = useState(false);
	const [error, setError] = useState<unknown>(null);
	const language = languageOf(id);
	const latest = useRef({ cells, run });
	latest.current = { cells, run };
	const start = (code: string): void => {
		drafts.delete(id);
		setError(null);
		latest.current.run(code, language.value).catch((e: unknown) => {
			setError(e);
			drafts.set(id, code);
			editor.current?.set(code); // a run that was refused: nothing that was typed is lost
		});
	};
	useEffect(() => {
		let gone = false;
		void import('../../parts/editor.ts').then(({ makeEditor }) => {
			if (gone)
				return;
			editor.current = makeEditor(host.current!, drafts.get(id) ?? '', {
				hint: t.editorHint,
				run: start,
				previous: () => latest.current.cells.findLast((c) => c.code && !['command', 'package', 'markdown'].includes(c.kind ?? ''))?.code ?? null,
				complete: async (code, cursor) => language.peek() !== 'python' ? null : api.post<Completion>(`/sandboxes/${encodeURIComponent(id)}/complete`, { code, cursor }),
				changed: (code) => drafts.set(id, code),
			});
			setReady(true);
		}, setError);
		return () => {
			gone = true;
			editor.current?.destroy();
			editor.current = null;
		};
	}, [id]);
	useEffect(() => editor.current?.language(t.editor(t.languages[language.value]), language.value === 'python'), [language.value, ready]);
	return (
		<div class="composer">
			{error !== null && <Fault error={error} />}
			<div class="composer-box">
				<div ref={host} class="composer-host" data-editor />
				{!ready && <div class="composer-wait quiet">{text.common.loading}</div>}
				<div class="composer-foot">
					<span class="small quiet wide-only">{busy ? t.waits : t.keys}</span>
					<span class="push"><select class="input tiny" aria-label={t.language} value={language.value} onChange={(e) => (language.value = e.currentTarget.value as Language)}>{Object.entries(t.languages).map(([k, words]) => <option value={k}>{words}</option>)}</select></span>
					<span><Button icon="notebook-pen" label={t.markdownAdd} title={t.markdownWhat} tiny look="plain" onClick={write} /></span>
					<span><Button icon="play" label={t.run} tiny look="primary" disabled={!ready} onClick={() => {
						const code = drafts.get(id) ?? '';
						if (code.trim() !== '') {
							editor.current?.set('');
							start(code);
						}
					}} /></span>
				</div>
			</div>
		</div>
	);
}
