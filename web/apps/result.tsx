// SPDX-License-Identifier: Apache-2.0
import { useSignal, type ReadonlySignal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import type { Facts, FileFact, Picture } from './facts.ts';
import type { Host } from './host.ts';
import { isTable, readPicture, readTable, readText, type Table } from './table.ts';
import { text } from './text.ts';

const LINES = 16; // of a text that is folded
const ROWS = 50; // of a table on one page

export type Shown = { state: 'waiting' } | { state: 'cancelled' } | { state: 'done'; facts: Facts };

export function Result({ shown, host }: { shown: ReadonlySignal<Shown>; host: Host }): JSX.Element {
	const s = shown.value;
	if (s.state !== 'done') return <p class="quiet" role="status">{s.state === 'waiting' ? text.waiting : text.cancelled}</p>;
	const f = s.facts;
	const nothing = f.texts.length + f.pictures.length + f.files.length === 0;
	return <>
		<h1 class="unseen">{text.result}</h1>
		{f.end !== '' && <p class={f.failed ? 'end failed' : 'end'} role="status"><span class="dot" aria-hidden="true" />{f.end}{f.ms !== null && <span class="quiet"> · {text.took(f.ms)}</span>}</p>}
		{f.pictures.length > 0 && <Gallery pictures={f.pictures} />}
		{f.texts.map((t) => <Text key={t.kind} kind={t.kind} value={t.text} />)}
		{f.files.length > 0 && <Files files={f.files} session={f.session} host={host} />}
		{nothing && <p class="quiet">{text.empty}</p>}
	</>;
}

function Gallery({ pictures }: { pictures: Picture[] }): JSX.Element {
	const at = useSignal<number | null>(null);
	const one = pictures.length === 1;
	return <section aria-label={text.pictures}>
		<ul class={one ? 'pictures one' : 'pictures'}>
			{pictures.map((p, i) => <li key={i}>
				{one ? <img src={p.src} alt={p.name} />
					: <button type="button" class="thumb" aria-label={text.larger(p.name)} aria-expanded={at.value === i} onClick={() => { at.value = at.value === i ? null : i; }}><img src={p.src} alt="" /><span>{p.name}</span></button>}
			</li>)}
		</ul>
		{at.value !== null && pictures[at.value] && <figure><img src={pictures[at.value]!.src} alt={pictures[at.value]!.name} /><figcaption class="quiet">{pictures[at.value]!.name}</figcaption></figure>}
	</section>;
}

function Text({ kind, value }: { kind: Facts['texts'][number]['kind']; value: string }): JSX.Element {
	const all = useSignal(false);
	const lines = value.replace(/\n+$/, '').split('\n');
	const long = lines.length > LINES;
	// Of errors the end says what happened.
	const part = all.value || !long ? lines : kind === 'stderr' ? lines.slice(-LINES) : lines.slice(0, LINES);
	return <section class={`text ${kind}`} aria-label={text[kind]}>
		{(kind === 'stderr' || kind === 'value' || kind === 'hint') && <h2>{text[kind]}</h2>}
		{kind === 'hint' ? <p>{value}</p> : <pre tabIndex={0} aria-label={text[kind]}>{part.join('\n')}</pre>}
		{long && kind !== 'hint' && <button type="button" class="link" onClick={() => { all.value = !all.value; }}>{all.value ? text.fewer : text.more(lines.length)}</button>}
	</section>;
}

/** How a file is shown here; NULL: only in the browser. */
function viewOf(f: FileFact): 'table' | 'picture' | 'text' | null {
	if (isTable(f.path)) return 'table';
	if (/^image\/(png|jpeg|gif|webp)$/.test(f.type)) return 'picture';
	return /^text\/(?!html)|json|javascript|xml$/.test(f.type) && !/svg|html/.test(f.type) ? 'text' : null;
}

function Files({ files, session, host }: { files: FileFact[]; session: string; host: Host }): JSX.Element {
	const open = useSignal<string | null>(null);
	return <section aria-label={text.files}>
		<h2>{text.files}</h2>
		<ul class="files">
			{files.map((f) => <li key={f.path}>
				<span class="name" title={f.path}>{f.name}</span>
				<span class="quiet size">{text.size(f.size)}</span>
				<span class="actions">
					{host.canRead() && session !== '' && viewOf(f) !== null && <button type="button" aria-expanded={open.value === f.path} aria-label={open.value === f.path ? text.closeNamed(f.name) : text.lookNamed(f.name)}
						onClick={() => { open.value = open.value === f.path ? null : f.path; }}>{open.value === f.path ? text.close : text.look}</button>}
					{host.canOpen() && f.link !== null && <button type="button" aria-label={text.openNamed(f.name)} onClick={() => void host.open(f.link!).catch(() => undefined)}>{text.open}</button>}
				</span>
				{open.value === f.path && <Look key={f.path} file={f} session={session} host={host} />}
			</li>)}
		</ul>
	</section>;
}

type Loaded = { kind: 'reading' } | { kind: 'failed'; why: string } | { kind: 'table'; table: Table } | { kind: 'picture'; src: string } | { kind: 'text'; text: string };

function Look({ file, session, host }: { file: FileFact; session: string; host: Host }): JSX.Element {
	const loaded = useSignal<Loaded>({ kind: 'reading' });
	useEffect(() => {
		let gone = false;
		const load = async (): Promise<Loaded> => {
			const how = viewOf(file);
			if (how === 'table') return { kind: 'table', table: await readTable(host, session, file.path, file.size) };
			if (how === 'picture') return { kind: 'picture', src: await readPicture(host, session, file.path) };
			return { kind: 'text', text: await readText(host, session, file.path, file.size) };
		};
		load().catch((e: unknown): Loaded => ({ kind: 'failed', why: e instanceof Error ? e.message.slice(0, 200) : '?' })).then((l) => { if (!gone) loaded.value = l; });
		return () => { gone = true; };
	}, [file.path, session]);
	const l = loaded.value;
	return <div class="look">
		{l.kind === 'reading' && <p class="quiet" role="status">{text.reading}</p>}
		{l.kind === 'failed' && <p role="alert">{text.unreadable(l.why)}</p>}
		{l.kind === 'picture' && <img src={l.src} alt={file.name} />}
		{l.kind === 'text' && <Text kind="text" value={l.text} />}
		{l.kind === 'table' && <Browser table={l.table} name={file.name} />}
	</div>;
}

function Browser({ table, name }: { table: Table; name: string }): JSX.Element {
	const at = useSignal(0);
	const rows = table.rows.slice(at.value, at.value + ROWS);
	return <>
		<div class="scroll" tabIndex={0} role="region" aria-label={name}>
			<table>
				<thead><tr><th scope="col" class="n">#</th>{table.columns.map((c, i) => <th scope="col" key={i}>{c}</th>)}</tr></thead>
				<tbody>{rows.map((r, i) => <tr key={at.value + i}><th scope="row" class="n">{at.value + i + 1}</th>
					{table.columns.map((_, k) => <td key={k} class={/^-?[\d.,]+(e[+-]?\d+)?$/i.test(r[k] ?? '') ? 'n' : undefined}>{r[k] ?? ''}</td>)}</tr>)}</tbody>
			</table>
		</div>
		<p class="pages"><span class="quiet" role="status">{text.rows(at.value + 1, at.value + rows.length, table.rows.length, table.more)}</span>
			{table.rows.length > ROWS && <>
				<button type="button" aria-label={text.previous} disabled={at.value === 0} onClick={() => { at.value = Math.max(0, at.value - ROWS); }}>‹</button>
				<button type="button" aria-label={text.next} disabled={at.value + ROWS >= table.rows.length} onClick={() => { at.value += ROWS; }}>›</button></>}
		</p>
	</>;
}
