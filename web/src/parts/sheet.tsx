// SPDX-License-Identifier: Apache-2.0
// A table: of a file (CSV, parquet, Excel), whose rows are fetched as they come into view, or one that a run showed. Only rows that can be seen are in
// the document.

import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import type { Preview } from '../api/types.ts';
import { count } from '../pure/format.ts';
import { readTable, sorted } from '../pure/results.ts';
import { text } from '../text/en.ts';
import { Fault, Loading } from './basics.tsx';

const PAGE = 100; // rows of one request
const ROW = 28; // pixels; style/notebook.css says the same
const OVER = 10;
const PAGES_MAX = 30; // pages that are kept

type Row = Preview['rows'][number];
interface Sort { column: number; down: boolean }
type Load = (offset: number, limit: number, sheet: string | undefined, sort: Sort | null) => Promise<Preview>;

/** A table of a file of SANDBOX. */
export function Sheet({ sandbox, path, small }: { sandbox: string; path: string; small?: boolean }) {
	const load = useCallback<Load>((offset, limit, sheet) => api.get<Preview>(`/sandboxes/${encodeURIComponent(sandbox)}/preview`, { path, sheet, offset, limit }), [sandbox, path]);
	return <Rows load={load} label={path} small={small} />;
}

/** A table that is here. */
export function KeptSheet({ text: json, label }: { text: string; label: string }) {
	const table = useMemo(() => readTable(json), [json]);
	const load = useCallback<Load>(async (offset, limit, _sheet, sort) => {
		const rows = sort ? sorted(table!.rows, sort.column, sort.down) : table!.rows;
		return { kind: 'table', columns: table!.columns, rows: rows.slice(offset, offset + limit), total: rows.length, offset };
	}, [table]);
	if (!table)
		return null;
	return (
		<>
			<Rows load={load} label={label} small sorts width={table.width} />
			{table.total > table.rows.length && <p class="small quiet">{text.notebook.firstRows(count(table.rows.length), count(table.total))}</p>}
		</>
	);
}

function Rows({ load, label, small, sorts, width }: { load: Load; label: string; small?: boolean; sorts?: boolean; width?: number }) {
	const [sheet, setSheet] = useState<string | undefined>();
	const [sort, setSort] = useState<Sort | null>(null);
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
		load(page * PAGE, PAGE, sheet, sort).then((p) => {
			if (pages.current !== mine)
				return;
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
		if (!sorts)
			setHead(null);
		setError(null);
		fetchPage(0);
	}, [load, sheet, sort, turn]);
	if (error)
		return <Fault error={error} retry={() => setTurn((n) => n + 1)} />;
	if (!head)
		return <Loading />;
	const total = head.total ?? end.current;
	const n = total ?? (Math.max(...pages.current.keys()) + 2) * PAGE;
	const height = box.current?.clientHeight ?? 400;
	const first = Math.max(0, Math.floor(top / ROW) - OVER);
	const last = Math.min(n, Math.ceil((top + height) / ROW) + OVER);
	const numbered = head.columns[0]?.type !== 'index';
	const rows = [];
	for (let i = first; i < last; i++) {
		const page = pages.current.get(Math.floor(i / PAGE));
		if (!page)
			fetchPage(Math.floor(i / PAGE));
		const row = page && page !== 'loading' ? page[i % PAGE] : undefined;
		rows.push(<tr key={i} aria-rowindex={i + 2}>{numbered && <th scope="row">{i + 1}</th>}{head.columns.map((c, k) => c.type === 'index' ? <th scope="row">{row ? String(row[k] ?? '') : '…'}</th> : <Value value={row?.[k]} />)}</tr>);
	}
	return (
		<div class={`sheet ${small ? 'small' : ''}`}>
			<div class="sheet-head">
				<span class="small quiet">{text.files.tableSize(total === null ? null : count(total), width || head.columns.length)}</span>
				{head.encoding && <span class="small quiet">{text.files.foreign(head.encoding, head.sure)}</span>}
				{head.sheets && head.sheets.length > 1 && <select class="input" aria-label={text.files.sheet} value={sheet ?? head.sheets[0]} onChange={(e) => setSheet(e.currentTarget.value)}>{head.sheets.map((s) => <option>{s}</option>)}</select>}
			</div>
			<div ref={box} class="sheet-box" tabIndex={0} role="group" aria-label={label} onScroll={(e) => setTop(e.currentTarget.scrollTop)}>
				<table aria-rowcount={total === null ? -1 : total + 1}>
					<thead><tr>{numbered && <th scope="col"><span class="hidden">{text.files.row}</span></th>}{head.columns.map((c, k) => <Head column={c} k={k} sort={sorts ? sort : undefined} set={setSort} />)}</tr></thead>
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

/** SORT undefined: the rows cannot be sorted. A third click brings back the order that they came in. */
function Head({ column, k, sort, set }: { column: Preview['columns'][number]; k: number; sort: Sort | null | undefined; set: (s: Sort | null) => void }) {
	if (sort === undefined)
		return <th scope="col" title={column.type}>{column.name}</th>;
	const mine = sort?.column === k ? sort : null;
	return (
		<th scope="col" title={column.type} aria-sort={mine ? (mine.down ? 'descending' : 'ascending') : undefined}>
			<button type="button" class="sort" aria-label={text.notebook.sortBy(column.name)} onClick={() => set(!mine ? { column: k, down: false } : mine.down ? null : { column: k, down: true })}>{column.name}{mine && <span aria-hidden="true">{mine.down ? ' ↓' : ' ↑'}</span>}</button>
		</th>
	);
}

function Value({ value }: { value: Row[number] | undefined }) {
	if (value === undefined)
		return <td class="quiet">…</td>;
	if (value === null)
		return <td class="quiet">{text.common.none}</td>;
	return <td class={typeof value === 'number' ? 'number' : ''}>{String(value)}</td>;
}
