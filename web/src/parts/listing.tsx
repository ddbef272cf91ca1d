// SPDX-License-Identifier: Apache-2.0
// Lists that grow: the first page at once, the next ones by a button; and a time with its whole date beside it.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { text } from '../text/en.ts';
import { when, whole } from '../pure/format.ts';
import { Button, Fault, Loading } from './basics.tsx';

export interface Part<T, C> { rows: T[]; next: C | null }

const EMPTY_PARTS_MAX = 50; // a server may answer with an empty part and a place to go on from

/** Loads parts with LOAD, again from the beginning when one of DEPS changes. */
export function useParts<T, C>(load: (after: C | null, signal: AbortSignal) => Promise<Part<T, C>>, deps: readonly unknown[]): { rows: T[] | null; more: boolean; busy: boolean; error: unknown; next: () => void; again: () => void } {
	const [rows, setRows] = useState<T[] | null>(null);
	const [after, setAfter] = useState<C | null>(null);
	const [busy, setBusy] = useState(false);
	const [error, setError] = useState<unknown>(null);
	const [turn, setTurn] = useState(0);
	const stop = useRef<AbortController>(new AbortController());
	const fetchPart = async (from: C | null, old: T[]): Promise<void> => {
		const { signal } = stop.current;
		setBusy(true);
		setError(null);
		try {
			let part = await load(from, signal);
			for (let i = 0; part.rows.length === 0 && part.next !== null && i < EMPTY_PARTS_MAX; i++)
				part = await load(part.next, signal);
			if (signal.aborted)
				return;
			setRows([...old, ...part.rows]);
			setAfter(part.next);
		} catch (e) {
			if (signal.aborted)
				return;
			setError(e);
		}
		setBusy(false);
	};
	useEffect(() => {
		stop.current = new AbortController();
		void fetchPart(null, []);
		return () => stop.current.abort();
	}, [...deps, turn]);
	return { rows, more: after !== null, busy, error, next: () => void fetchPart(after, rows ?? []), again: () => setTurn((n) => n + 1) };
}

/** What stands below a list that grows. */
export function Rest({ parts }: { parts: { rows: unknown[] | null; more: boolean; busy: boolean; error: unknown; next: () => void; again: () => void } }) {
	if (parts.error !== null)
		return <Fault error={parts.error} retry={parts.rows === null ? parts.again : parts.next} />;
	if (parts.rows === null)
		return <Loading />;
	return parts.more ? <div class="list-more"><Button label={text.common.more} busy={parts.busy} onClick={parts.next} /></div> : null;
}

export function Time({ at, none = '–' }: { at: string | null | undefined; none?: string }) {
	return at ? <time dateTime={at} title={whole(at)}>{when(at)}</time> : <>{none}</>;
}

/** A table of rows; on narrow windows each row becomes a block with the heads beside the cells. */
export function Table({ label, heads, children }: { label: string; heads: string[]; children: ComponentChildren }) {
	return (
		<div class="panel scroll-x">
			<table class="list stacked" aria-label={label}>
				<thead><tr>{heads.map((h) => <th scope="col">{h || <span class="hidden">{text.common.more}</span>}</th>)}</tr></thead>
				<tbody>{children}</tbody>
			</table>
		</div>
	);
}
