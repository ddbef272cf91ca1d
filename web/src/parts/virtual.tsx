// SPDX-License-Identifier: Apache-2.0
// A long list of which only what can be seen is in the document. Rows have any height; it is measured when they show.

import type { ComponentChildren, RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

const OVER = 900; // pixels above and below the window that are drawn, too
const NEAR = 48; // pixels from the end that count as at the end

export interface VirtualHandle {
	toEnd: () => void;
	to: (index: number) => void;
}

interface Props {
	count: number;
	keyOf: (i: number) => string;
	estimate: number; // pixels of a row that was not seen yet
	row: (i: number) => ComponentChildren;
	follow?: boolean; // it stays at the end while it is there
	handle?: RefObject<VirtualHandle | null>;
	label: string;
	top?: ComponentChildren; // before the first row
	onTop?: () => void; // the beginning has been reached
	onAway?: (away: boolean) => void; // the reader left the end, or is back
}

/** Heights of rows by key, and where each row begins. */
class Heights {
	readonly known = new Map<string, number>();
	starts = new Float64Array(1);

	place(count: number, keyOf: (i: number) => string, estimate: number): void {
		this.starts = new Float64Array(count + 1);
		for (let i = 0; i < count; i++)
			this.starts[i + 1] = this.starts[i]! + (this.known.get(keyOf(i)) ?? estimate);
	}

	/** The row at the height Y. */
	at(y: number): number {
		let low = 0;
		let high = this.starts.length - 1;
		while (low < high) {
			const mid = (low + high) >> 1;
			if (this.starts[mid + 1]! <= y)
				low = mid + 1;
			else
				high = mid;
		}
		return Math.min(low, this.starts.length - 2);
	}
}

/** The first row in the window, how far its top is from the window's, and where the window was then. */
interface Anchor { key: string; y: number; scroll: number }

export function VirtualList(p: Props) {
	const box = useRef<HTMLDivElement>(null);
	const list = useRef<HTMLDivElement>(null);
	const heights = useRef(new Heights()).current;
	const [, draw] = useState(0);
	const atEnd = useRef(true);
	const anchor = useRef<Anchor | null>(null);
	const redraw = (): void => draw((n) => n + 1);
	heights.place(p.count, p.keyOf, p.estimate);
	const total = heights.starts[p.count] ?? 0;
	const height = box.current?.clientHeight ?? 800;
	const following = atEnd.current && p.follow;
	const top = following ? Math.max(0, total - height) : placeOf(box.current, list.current, anchor.current, heights, p);
	const first = p.count ? Math.max(0, heights.at(Math.max(0, top - OVER))) : 0;
	const last = p.count ? Math.min(p.count - 1, heights.at(top + height + OVER)) : -1;

	useLayoutEffect(() => {
		const b = box.current!;
		if (measure(list.current!, heights))
			redraw();
		if (atEnd.current && p.follow)
			b.scrollTop = b.scrollHeight;
		else if (!anchor.current || !hold(b, list.current!, anchor.current))
			anchor.current = firstRow(b, list.current!);
	});
	useEffect(() => {
		const b = box.current!;
		let frame = 0;
		let before = b.scrollTop;
		const onScroll = (): void => {
			if (!list.current)
				return;
			// Only a reader scrolls up; rows that grow move the end away, and that is followed.
			const end = b.scrollHeight - b.scrollTop - b.clientHeight < NEAR || (atEnd.current && b.scrollTop >= before - 1);
			before = b.scrollTop;
			if (end !== atEnd.current) {
				atEnd.current = end;
				p.onAway?.(!end);
			}
			anchor.current = firstRow(b, list.current);
			if (b.scrollTop < OVER)
				p.onTop?.();
			cancelAnimationFrame(frame);
			frame = requestAnimationFrame(redraw);
		};
		b.addEventListener('scroll', onScroll, { passive: true });
		return () => {
			b.removeEventListener('scroll', onScroll);
			cancelAnimationFrame(frame);
		};
	}, [p.onTop, p.onAway]);
	useEffect(() => {
		const seen = new ResizeObserver(redraw);
		seen.observe(list.current!);
		seen.observe(box.current!);
		return () => seen.disconnect();
	}, []);
	if (p.handle)
		p.handle.current = {
			toEnd: () => {
				atEnd.current = true;
				p.onAway?.(false);
				redraw();
			},
			to: (i) => {
				atEnd.current = false;
				anchor.current = null;
				box.current!.scrollTop = heights.starts[i]! + (list.current?.offsetTop ?? 0) - 8;
			},
		};
	const rows = [];
	for (let i = first; i <= last; i++)
		rows.push(<div key={p.keyOf(i)} data-row={i} data-key={p.keyOf(i)} role="listitem">{p.row(i)}</div>);
	return (
		<div ref={box} class="virtual" tabIndex={0} role="region" aria-label={p.label}>
			{p.top}
			<div ref={list} role="list" style={{ paddingTop: `${heights.starts[first] ?? 0}px`, paddingBottom: `${Math.max(0, total - (heights.starts[last + 1] ?? 0))}px` }}>{rows}</div>
		</div>
	);
}

/** Where the window begins in the list: where the reader scrolled, or, if only rows changed since, where the anchor is now. */
function placeOf(box: HTMLElement | null, list: HTMLElement | null, anchor: Anchor | null, heights: Heights, p: Props): number {
	if (!box || !list)
		return 0;
	if (anchor && Math.abs(box.scrollTop - anchor.scroll) <= 1)
		for (let i = 0; i < p.count; i++)
			if (p.keyOf(i) === anchor.key)
				return heights.starts[i]! - anchor.y;
	return box.scrollTop - list.offsetTop;
}

/** Notes the heights of the rows that are drawn. True: some differ from what was known. */
function measure(list: HTMLElement, heights: Heights): boolean {
	let changed = false;
	for (const row of list.children) {
		const h = row.getBoundingClientRect().height;
		const key = (row as HTMLElement).dataset['key']!;
		if (Math.abs((heights.known.get(key) ?? -1) - h) > 0.5) {
			heights.known.set(key, h);
			changed = true;
		}
	}
	return changed;
}

/** Null: none of the rows that are drawn is in the window, as after a jump. */
function firstRow(box: HTMLElement, list: HTMLElement): Anchor | null {
	const { top: edge, bottom } = box.getBoundingClientRect();
	for (const row of list.children) {
		const r = row.getBoundingClientRect();
		if (r.top >= bottom)
			return null;
		if (r.bottom > edge)
			return { key: (row as HTMLElement).dataset['key']!, y: r.top - edge, scroll: box.scrollTop };
	}
	return null;
}

/** Scrolls so that the anchor is seen where it was, although rows above it came or changed their height. False: the anchor is gone. */
function hold(box: HTMLElement, list: HTMLElement, anchor: Anchor): boolean {
	if (Math.abs(box.scrollTop - anchor.scroll) > 1)
		return true; // the reader has scrolled on, and the event of that takes the next anchor
	const row = list.querySelector<HTMLElement>(`[data-key="${CSS.escape(anchor.key)}"]`);
	if (!row)
		return false;
	const moved = row.getBoundingClientRect().top - box.getBoundingClientRect().top - anchor.y;
	if (Math.abs(moved) > 1) {
		box.scrollTop += moved;
		anchor.scroll = box.scrollTop;
	}
	return true;
}
