// SPDX-License-Identifier: Apache-2.0
// What ran before, in all sandboxes, also in those that are gone: a list of notebooks, and a search in names, code and output.

import { useEffect, useState } from 'preact/hooks';
import { api, url } from '../api/client.ts';
import type { HistoryPage, NotebookPage, NotebookRow } from '../api/manage.ts';
import { session } from '../api/state.ts';
import type { Cell } from '../api/types.ts';
import { href, parse, route } from '../app/router.ts';
import type { PageProps } from '../app/pages.ts';
import { Empty, Search } from '../parts/basics.tsx';
import { Rest, Time, useParts } from '../parts/listing.tsx';
import { ActionDialog, Menu } from '../parts/overlay.tsx';

import { excerpt, plainText } from '../pure/excerpt.ts';
import { duration } from '../pure/format.ts';
import { text } from '../text/en.ts';

const t = text.history;
const PAUSE_MS = 300; // of typing, before the server is asked

export default function HistoryPageView({ query }: PageProps) {
	const [typed, setTyped] = useState(query.get('q') ?? '');
	const [asked, setAsked] = useState(typed);
	/** The address has the words, so that a search can be kept and sent. */
	const keep = (words: string): void => {
		setAsked(words);
		if (words === asked)
			return;
		history.replaceState(null, '', `${href('history')}${words && `?${new URLSearchParams({ q: words }).toString()}`}`);
		route.value = parse(location.hash);
	};
	useEffect(() => {
		const timer = setTimeout(() => keep(typed.trim()), PAUSE_MS);
		return () => clearTimeout(timer);
	}, [typed]);
	const given = query.get('q') ?? '';
	useEffect(() => { // the address was changed, by a link or by the browser's history
		setTyped(given);
		setAsked(given);
	}, [given]);
	if (session.value!.history === 'off')
		return <><div class="page-head"><h1>{t.title}</h1></div><Empty icon="history" title={t.off}><p>{t.offWhat}</p></Empty></>;
	return (
		<>
			<div class="page-head">
				<h1>{t.title}</h1>
				<Search value={typed} label={t.search} onInput={setTyped} />
			</div>
			<div class="stack">{asked ? <><Notebooks words={asked} /><Found words={asked} /></> : <Notebooks />}</div>
		</>
	);
}

/** All notebooks, newest first, or those whose name has WORDS. */
function Notebooks({ words = '' }: { words?: string }) {
	const [remove, setRemove] = useState<NotebookRow | null>(null);
	const parts = useParts<NotebookRow, string | number>(async (before, signal) => {
		const page = await api.get<NotebookPage>('/notebooks', { before, limit: 50, q: words || undefined }, signal);
		return { rows: page.notebooks, next: page.next };
	}, [words]);
	if (parts.rows?.length === 0 && !parts.more)
		return words ? null : <Empty icon="history" title={t.empty}><p>{t.emptyWhat}</p><a class="button" href={href()}>{text.nav.home}</a></Empty>;
	return (
		<>
			{session.value!.history === 'code' && !words && <p class="quiet">{t.codeOnly}</p>}
			{parts.rows && parts.rows.length > 0 && (
				<ul class="panel past" aria-label={words ? t.named(words) : t.title}>
					{parts.rows.map((n) => <Notebook key={n.sandbox} n={n} remove={() => setRemove(n)} />)}
				</ul>
			)}
			{(!words || parts.rows !== null) && <Rest parts={parts} />}
			{remove && (
				<ActionDialog title={t.removeAsk} action={text.common.delete} alarm onClose={() => setRemove(null)} run={async () => {
					await api.remove(`/notebooks/${encodeURIComponent(remove.sandbox)}`);
					parts.again();
				}}><p>{t.removeWhat(remove.name || remove.sandbox)}</p></ActionDialog>
			)}
		</>
	);
}

function Notebook({ n, remove }: { n: NotebookRow; remove: () => void }) {
	const name = n.name || n.sandbox.slice(0, 13);
	const exported = (format: string): string => url(`/notebooks/${encodeURIComponent(n.sandbox)}/export`, { format });
	return (
		<li class="past-row">
			<a class="past-link" href={href('sandboxes', n.sandbox)}>
				<span class={`dot ${n.live ? 'on' : ''}`} />
				<span class="clip">{name}</span>
				<span class="hidden">{n.live ? t.live : t.ended}</span>
			</a>
			<code class="clip quiet">{n.last_code ?? ''}</code>
			<span class="quiet number">{t.cells(n.cells)}</span>
			<span class="quiet number"><Time at={n.last_at} /></span>
			<Menu label={`${text.common.more}: ${name}`} items={[
				{ icon: 'notebook-pen', label: t.exportNotebook, href: exported('ipynb'), download: true },
				{ icon: 'file-text', label: t.exportReport, href: exported('html'), download: true },
				{ icon: 'trash-2', label: t.remove, alarm: true, run: remove },
			]} />
		</li>
	);
}

function Found({ words }: { words: string }) {
	const parts = useParts<Cell, string | number>(async (before, signal) => {
		const page = await api.get<HistoryPage>('/history', { q: words || undefined, before, limit: 30 }, signal);
		return { rows: page.cells, next: page.next };
	}, [words]);
	if (parts.rows?.length === 0 && !parts.more)
		return <Empty icon="search" title={t.nothing(words)}><p>{t.nothingWhat}</p></Empty>;
	return (
		<>
			{parts.rows && parts.rows.length > 0 && <ul class="found" aria-label={t.found(words)}>{parts.rows.map((c) => <Hit key={c.run} c={c} words={words} />)}</ul>}
			<Rest parts={parts} />
		</>
	);
}

function Hit({ c, words }: { c: Cell; words: string }) {
	const outputs = [c.stdout, c.stderr, c.value].map((o) => plainText(o?.text ?? '')).filter((o) => o.toLowerCase().includes(words.toLowerCase()));
	return (
		<li class="panel hit">
			<div class="row small quiet">
				<span class={`dot ${c.status === 'failed' ? 'bad' : ''}`} />
				<a href={href('sandboxes', c.sandbox)}>{c.sandbox_name || c.sandbox.slice(0, 13)}</a>
				<Time at={c.started_at} />
				{c.duration_ms !== undefined && <span>{duration(c.duration_ms)}</span>}
				{c.asked_by && <span>{c.asked_by.name || c.asked_by.how}</span>}
			</div>
			{c.code && <Excerpt of={c.code} words={words} />}
			{outputs.map((o) => <Excerpt of={o} words={words} output />)}
		</li>
	);
}

/** The lines around the first match, with every match marked. */
function Excerpt({ of, words, output }: { of: string; words: string; output?: boolean }) {
	const e = excerpt(of, words);
	return <pre class={output ? 'quiet' : ''}>{e.before && '…\n'}{e.parts.map(([part, hit]) => hit ? <mark>{part}</mark> : part)}{e.after && '\n…'}</pre>;
}

