// SPDX-License-Identifier: Apache-2.0
// Figures of the server over time. Loaded when it is needed, because the plots come with a library.

import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { api } from '../api/client.ts';
import type { Figures } from '../api/manage.ts';
import { look } from '../app/look.ts';
import { bytes, clock, figure, timeSpan } from '../pure/format.ts';
import { text } from '../text/en.ts';
import { Empty, Fault, Loading, useLoad } from './basics.tsx';

const t = text.server;
const HEIGHT = 150;
const AGAIN_MS = 10_000;

const SHORT_S = 600; // of figures: their times have seconds
const SPAN_MIN_S = 60; // also of one time alone, which the library would show in a day
const units: Record<string, (n: number) => string> = {
	sandboxes: figure, runs_per_s: figure, run_ms_avg: (n) => `${figure(n)} ms`, cpu_cores: figure, memory_bytes: bytes, pool_ready: figure, http_per_s: figure, events_streams: figure,
};

export function Plots({ minutes }: { minutes: number }) {
	const { value, error, again } = useLoad((signal) => api.get<Figures>('/figures', { minutes }, signal), [minutes]);
	useEffect(() => {
		const timer = setInterval(() => document.visibilityState === 'visible' && again(), AGAIN_MS);
		return () => clearInterval(timer);
	}, []);
	if (error !== undefined && !value)
		return <Fault error={error} retry={again} />;
	if (!value)
		return <Loading />;
	const names = Object.keys(units).filter((n) => value.series[n]);
	if (value.at.length === 0 || names.length === 0)
		return <Empty icon="clock" title={t.noFigures}><p>{t.noFiguresWhat}</p></Empty>;
	return <div class="plots">{names.map((n) => <Plot key={n} name={n} at={value.at} values={value.series[n]!} />)}</div>;
}

/** A colour as the canvas wants it: what the variable is now, in this look. */
function colour(name: string): string {
	const probe = document.createElement('span');
	probe.style.color = `var(${name})`;
	document.body.append(probe);
	const c = getComputedStyle(probe).color;
	probe.remove();
	return c;
}

export function Plot({ name, at, values }: { name: string; at: number[]; values: (number | null)[] }) {
	const box = useRef<HTMLDivElement>(null);
	const plot = useRef<uPlot | null>(null);
	const words = units[name]!;
	const known = values.filter((v) => v !== null);
	const now = known.at(-1);
	const most = Math.max(0, ...known);
	useEffect(() => {
		const el = box.current!;
		const axis = { stroke: colour('--quiet'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
		const p = new uPlot({
			width: el.clientWidth, height: HEIGHT, legend: { show: false }, cursor: { y: false, points: { size: 6 } }, padding: [8, 8, 0, 0],
			scales: { x: { range: (u, min, max) => timeSpan(min, u.data[0].length > 1 ? max : min, SPAN_MIN_S) }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
			axes: [{ ...axis, size: 28, space: 64, values: (u, ticks) => ticks.map((s) => clock(new Date(s * 1000), u.scales['x']!.max! - u.scales['x']!.min! < SHORT_S)) }, { ...axis, size: 62, space: 34, values: (_, ticks) => ticks.map(words) }],
			series: [{}, { stroke: colour('--accent'), width: 1.5, fill: colour('--tint'), spanGaps: false, points: { show: (u) => Array.from<unknown>(u.data[1]!).filter((v) => v !== null).length === 1, size: 5 } }],
		}, [at, values], el);
		plot.current = p;
		const sizes = new ResizeObserver(() => p.setSize({ width: el.clientWidth, height: HEIGHT }));
		sizes.observe(el);
		return () => {
			sizes.disconnect();
			p.destroy();
			plot.current = null;
		};
	}, [name, look.value]);
	useEffect(() => plot.current?.setData([at, values]), [at, values]);
	return (
		<figure class="panel plot">
			<figcaption><span>{t.series[name]}</span><span class="quiet">{now === undefined || now === null ? t.unknown : t.now(words(now))}</span></figcaption>
			<div ref={box} role="img" aria-label={t.plotLabel(t.series[name]!, now === undefined || now === null ? t.unknown : words(now), words(most))} />
		</figure>
	);
}
