// SPDX-License-Identifier: Apache-2.0
// Every run of the sandbox as a cell, as it happens, and an editor to go on by hand in the same state.

import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api } from '../../api/client.ts';
import { loadCells, me, notebook } from '../../api/state.ts';
import type { Cell, Checkpoint, Completion } from '../../api/types.ts';
import { Button, Empty, Fault, Loading } from '../../parts/basics.tsx';
import type { Editor } from '../../parts/editor.ts';
import { sayFault } from '../../parts/overlay.tsx';
import { VirtualList, type VirtualHandle } from '../../parts/virtual.tsx';
import { exampleCode } from '../../pure/example.ts';
import { text } from '../../text/en.ts';
import type { TabProps } from '../sandbox.tsx';
import { CellView } from './cell.tsx';

const t = text.notebook;
const drafts = new Map<string, string>(); // what was typed and not run, by sandbox

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
	const run = async (code: string): Promise<void> => {
		list.current?.toEnd();
		await api.post(`/sandboxes/${id}/runs`, { code, stateful: true });
	};
	const edit = (code: string): void => {
		drafts.set(id, code);
		editor.current?.set(code);
		editor.current?.focus();
	};
	return (
		<div class="notebook" onKeyDown={(e) => moveByKey(e, cells.length, list.current)}>
			{!s && <div class="notice">{t.ended}</div>}
			{error !== null && cells.length === 0 ? <div class="page"><Fault error={error} retry={load} /></div>
				: !n.loaded.value && cells.length === 0 ? <Loading />
				: cells.length === 0 ? <div class="notebook-empty"><Empty icon="notebook-pen" title={t.empty}><p>{t.emptyWhat}</p>{can && <Button icon="play" label={text.home.exampleRun} onClick={() => void run(exampleCode).catch(sayFault)} />}</Empty></div>
				: (
					<VirtualList key={id} count={cells.length} keyOf={(i) => cells[i]!.run} estimate={140} follow handle={list} label={t.title} onTop={onTop} onAway={setAway}
						top={n.more.value ? <div class="notebook-more"><span class="spinner" />{t.older}</div> : undefined}
						row={(i) => <CellView cell={cells[i]!} n={n} checkpoint={checkpoints.get(cells[i]!.run)} edit={can ? edit : undefined} />} />
				)}
			{away && <span class="to-end"><Button icon="arrow-down" label={t.toEnd} tiny onClick={() => list.current?.toEnd()} /></span>}
			{can && <Composer id={id} busy={s.busy} editor={editor} cells={cells} run={run} />}
		</div>
	);
}

/** Checkpoints by the run after which they were made. */
function useCheckpoints(id: string, live: boolean): ReadonlyMap<string, Checkpoint> {
	const [rows, setRows] = useState<Checkpoint[]>([]);
	const turn = notebook(id).checkpoints.value;
	useEffect(() => {
		if (live)
			void api.get<{ checkpoints: Checkpoint[] }>(`/sandboxes/${id}/checkpoints`).then((r) => setRows(r.checkpoints), () => setRows([]));
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
	run: (code: string) => Promise<void>;
}

function Composer({ id, busy, editor, cells, run }: ComposerProps) {
	const host = useRef<HTMLDivElement>(null);
	const [ready, setReady] = useState(false);
	const [error, setError] = useState<unknown>(null);
	const latest = useRef({ cells, run });
	latest.current = { cells, run };
	const start = (code: string): void => {
		drafts.delete(id);
		setError(null);
		latest.current.run(code).catch((e: unknown) => {
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
				label: t.editor,
				hint: t.editorHint,
				run: start,
				previous: () => latest.current.cells.findLast((c) => c.code && c.kind !== 'command' && c.kind !== 'package')?.code ?? null,
				complete: (code, cursor) => api.post<Completion>(`/sandboxes/${id}/complete`, { code, cursor }),
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
	return (
		<div class="composer">
			{error !== null && <Fault error={error} />}
			<div class="composer-box">
				<div ref={host} class="composer-host" data-editor />
				{!ready && <div class="composer-wait quiet">{text.common.loading}</div>}
				<div class="composer-foot">
					<span class="small quiet wide-only">{busy ? t.waits : t.keys}</span>
					<span class="push"><Button icon="play" label={t.run} tiny look="primary" disabled={!ready} onClick={() => {
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
