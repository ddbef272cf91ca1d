// SPDX-License-Identifier: Apache-2.0
// Output of programs. A short one is shown whole; a long one is a window of its own, in which only the lines that can be seen are drawn.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Screen, type Line, type Style } from '../pure/ansi.ts';
import { count } from '../pure/format.ts';
import { text } from '../text/en.ts';
import { CopyButton } from './basics.tsx';

const WHOLE = 40; // lines that are shown without a window
const LINE = 19; // pixels of a line in a window; style/notebook.css says the same
const OVER = 30; // lines drawn above and below
const WIDE = 4000; // characters of one line that are drawn; a click shows the rest

export function Output({ value, label, live }: { value: string | Screen; label: string; live?: boolean }) {
	const screen = useMemo(() => {
		if (typeof value !== 'string')
			return value;
		const s = new Screen();
		s.push(value);
		return s;
	}, [value]);
	if (screen.empty)
		return null;
	const lines = screen.lines;
	const n = lines[lines.length - 1]!.length === 0 ? lines.length - 1 : lines.length;
	return (
		<div class="output" role="group" aria-label={label}>
			{n <= WHOLE ? <pre class="output-text">{lines.slice(0, n).map((l) => <Row line={l} />)}</pre> : <Window lines={lines} n={n} live={live} label={label} />}
			{n > 3 && <span class="output-tools">{n > WHOLE && <span class="small quiet">{text.notebook.lines(count(n))}</span>}<CopyButton value={() => screen.text()} iconOnly label={text.notebook.copyOutput} /></span>}
		</div>
	);
}

function Window({ lines, n, live, label }: { lines: readonly Line[]; n: number; live?: boolean; label: string }) {
	const box = useRef<HTMLDivElement>(null);
	const [top, setTop] = useState(0);
	const end = useRef(Boolean(live));
	useLayoutEffect(() => {
		if (live && end.current) {
			box.current!.scrollTop = box.current!.scrollHeight;
			setTop(box.current!.scrollTop); // the event of the first scrolling comes before anybody listens
		}
	});
	useEffect(() => {
		const b = box.current!;
		let frame = 0;
		const onScroll = (): void => {
			end.current = b.scrollHeight - b.scrollTop - b.clientHeight < 2 * LINE;
			cancelAnimationFrame(frame);
			frame = requestAnimationFrame(() => setTop(b.scrollTop));
		};
		b.addEventListener('scroll', onScroll, { passive: true });
		return () => b.removeEventListener('scroll', onScroll);
	}, []);
	const first = Math.max(0, Math.floor(top / LINE) - OVER);
	const last = Math.min(n, first + 24 + 2 * OVER);
	return (
		<div ref={box} class="output-window" tabIndex={0} role="group" aria-label={label}>
			<pre class="output-text" style={{ paddingTop: `${first * LINE}px`, height: `${n * LINE}px` }}>{lines.slice(first, last).map((l, i) => <Row key={first + i} line={l} />)}</pre>
		</div>
	);
}

function Row({ line }: { line: Line }) {
	const [all, setAll] = useState(false);
	let left = all ? Infinity : WIDE;
	const parts = [];
	for (const s of line.segments) {
		if (left <= 0)
			break;
		const t = s.text.length > left ? s.text.slice(0, left) : s.text;
		left -= t.length;
		parts.push(s.style ? <span style={css(s.style)}>{t}</span> : t);
	}
	return <div class="line">{parts}{left <= 0 && <button type="button" class="button tiny" onClick={() => setAll(true)}>{text.notebook.restOfLine(count(line.length - WIDE))}</button>}{line.length === 0 && '\n'}</div>;
}

/** Styles go through the CSSOM, which the page's policy allows. */
function css(s: Style): Record<string, string> {
	const color = (c: string | undefined): string | undefined => c === undefined ? undefined : c.startsWith('#') ? c : `var(--c${c})`;
	let fg = color(s.fg);
	let bg = color(s.bg);
	if (s.inverse)
		[fg, bg] = [bg ?? 'var(--paper)', fg ?? 'var(--ink)'];
	const out: Record<string, string> = {};
	if (bg) {
		out['background'] = bg;
		out['color'] = fg ?? 'var(--paper)';
	} else if (fg) {
		out['color'] = fg;
	}
	if (s.bold)
		out['fontWeight'] = '650';
	if (s.dim)
		out['opacity'] = '.75';
	if (s.italic)
		out['fontStyle'] = 'italic';
	if (s.underline || s.strike)
		out['textDecoration'] = `${s.underline ? 'underline' : ''} ${s.strike ? 'line-through' : ''}`;
	return out;
}
