// SPDX-License-Identifier: Apache-2.0
// A table of a file (CSV, parquet, Excel): rows are fetched as they come into view, and only those are in the document.

import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import type { Preview } from '../api/types.ts';
import { count } from '../pure/format.ts';
import { text } from '../text/en.ts';
import { Fault, Loading } from './basics.tsx';

const PAGE = 100; // rows of one request
const ROW = 28; // pixels; style/notebook.css says the same
const OVER = 10;
const PAGES_MAX = 30; // pages that are kept

type Row = Preview['rows'][number];

export function Sheet({ sandbox, path, small }: { sandbox: string; path: string; small?: boolean }) {
	const [sheet, setSheet] = useState<string | undefined>();
	const [head, setHead] = useState<Preview | null>(null);
	const [error, setError] = useState<unknown>(null);
	const [top, setTop] = useState(0);
	const [turn, setTurn] = useState(0);
	const [, draw] = useState(0);
	const box = useRef<HTMLDivElement>(null);
	const pages = useRef(new Map<number, Row[] | 'loading'>());
	const end = useRef<number | null>(null);
	const fetchPage = (page: number): void => {
		if (pages.current.has(page))
			return;
		if (pages.current.size >= PAGES_MAX)
			pages.current.delete(pages.current.keys().next().value!);
		pages.current.set(page, 'loading');
		const mine = pages.current;
		api.get<Preview>(`/sandboxes/${sandbox}/preview`, { path, sheet, offset: page * PAGE, limit: PAGE }).then((p) => {
			mine.set(page, p.rows);
			if (p.rows.length < PAGE)
				end.current = page * PAGE + p.rows.length;
			if (page === 0)
				setHead(p);
			draw((n) => n + 1);
		}, setError);
	};
	useEffect(() => {
		pages.current = new Map();
		end.current = null;
		setHead(null);
		setError(null);
		fetchPage(0);
	}, [sandbox, path, sheet, turn]);
	if (error)
		return <Fault error={error} retry={() => setTurn((n) => n + 1)} />;
	if (!head)
		return <Loading />;
	const total = head.total ?? end.current;
	const n = total ?? (Math.max(...pages.current.keys()) + 2) * PAGE;
	const height = box.current?.clientHeight ?? 400;
	const first = Math.max(0, Math.floor(top / ROW) - OVER);
	const last = Math.min(n, Math.ceil((top + height) / ROW) + OVER);
	const rows = [];
	for (let i = first; i < last; i++) {
		const page = pages.current.get(Math.floor(i / PAGE));
		if (!page)
			fetchPage(Math.floor(i / PAGE));
		const row = page && page !== 'loading' ? page[i % PAGE] : undefined;
		rows.push(<tr key={i} aria-rowindex={i + 2}><th scope="row">{i + 1}</th>{head.columns.map((_, c) => <Value value={row?.[c]} />)}</tr>);
	}
	return (
		<div class={`sheet ${small ? 'small' : ''}`}>
			<div class="sheet-head">
				<span class="small quiet">{text.files.tableSize(total === null ? null : count(total), head.columns.length)}</span>
				{head.sheets && head.sheets.length > 1 && <select class="input" aria-label={text.files.sheet} value={sheet ?? head.sheets[0]} onChange={(e) => setSheet(e.currentTarget.value)}>{head.sheets.map((s) => <option>{s}</option>)}</select>}
			</div>
			<div ref={box} class="sheet-box" tabIndex={0} role="group" aria-label={path} onScroll={(e) => setTop(e.currentTarget.scrollTop)}>
				<table aria-rowcount={total === null ? -1 : total + 1}>
					<thead><tr><th scope="col"><span class="hidden">{text.files.row}</span></th>{head.columns.map((c) => <th scope="col" title={c.type}>{c.name}</th>)}</tr></thead>
					<tbody>
						{first > 0 && <tr style={{ height: `${first * ROW}px` }} aria-hidden="true" />}
						{rows}
						{last < n && <tr style={{ height: `${(n - last) * ROW}px` }} aria-hidden="true" />}
					</tbody>
				</table>
			</div>
		</div>
	);
}

function Value({ value }: { value: Row[number] | undefined }) {
	if (value === undefined)
		return <td class="quiet">…</td>;
	if (value === null)
		return <td class="quiet">{text.common.none}</td>;
	return <td class={typeof value === 'number' ? 'number' : ''}>{String(value)}</td>;
}
