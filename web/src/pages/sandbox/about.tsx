// SPDX-License-Identifier: Apache-2.0
// The limits and walls that hold for this sandbox, and what it uses of them, now and while somebody looked.

import { useEffect, useState } from 'preact/hooks';
import { api } from '../../api/client.ts';
import { me } from '../../api/state.ts';
import { Button, Fault, Loading, useLoad } from '../../parts/basics.tsx';
import { bytes, count, duration } from '../../pure/format.ts';
import type { Usage } from '../../api/types.ts';
import { text } from '../../text/en.ts';
import { LimitsDialog } from '../sandbox-dialogs.tsx';
import type { TabProps } from '../sandbox.tsx';

const t = text.limits;

const AGAIN_MS = 3000;

interface Policy { engine: string; enforced: string[]; best_effort: string[]; network_max: string; server?: { system_call_filter?: boolean; files?: string } }

export function About({ id, s }: TabProps) {
	const policy = useLoad((signal) => api.get<Policy>('/policy', undefined, signal), []);
	const usage = useLoad((signal) => s?.state === 'stored' ? Promise.resolve(null) : api.get<Usage>(`/sandboxes/${encodeURIComponent(id)}/usage`, { series: true }, signal).catch(() => null), [id, s?.state]);
	const [changing, setChanging] = useState(false);
	useEffect(() => {
		const timer = setInterval(() => document.visibilityState === 'visible' && usage.again(), AGAIN_MS);
		return () => clearInterval(timer);
	}, [id]);
	if (!s)
		return null;
	const used = usage.value;
	const limits: [string, string][] = [
		[text.home.memory, t.of(used ? bytes(used.memory_bytes) : null, bytes(s.limits.memory_mb * 1048576))],
		[text.home.disk, t.of(used ? bytes(used.disk_bytes) : null, bytes(s.limits.disk_mb * 1048576))],
		[t.processes, t.of(used ? count(used.pids) : null, count(s.limits.processes))],
		[text.home.cpus, String(s.limits.cpus)],
		[t.run, s.limits.timeout_s === undefined ? t.runAny : duration(s.limits.timeout_s * 1000)],
		[t.idle, duration(s.limits.ttl_s * 1000)],
	];
	const rest: [string, string][] = [
		[text.home.network, `${text.home.networks[s.network] ?? s.network}${s.domains?.length ? `: ${s.domains.join(', ')}` : ''}`],
		[text.home.image, s.image],
		[text.home.level, s.level],
		...(s.root ? [[t.users, 'user, root'] as [string, string]] : []),
		[t.env, s.env.join(', ') || text.common.none],
		[t.labels, Object.entries(s.labels).map(([k, v]) => `${k}=${v}`).join(', ') || text.common.none],
		[t.id, s.id],
		...(s.parent ? [[t.parent, s.parent] as [string, string]] : []),
	];
	return (
		<div class="pane stack" tabIndex={0}>
			{used?.series && used.series.at_ms.length > 1 && <Use of={used.series} />}
			<Facts title={t.limits} rows={limits} />
			{!me.value?.read_only && <p><Button icon="pencil" label={t.change} onClick={() => setChanging(true)} /></p>}
			{changing && <LimitsDialog of={s} onClose={() => setChanging(false)} />}
			<Facts title={t.place} rows={rest} />
			<section class="stack tight">
				<h2>{t.walls}</h2>
				{policy.error ? <Fault error={policy.error} retry={policy.again} /> : !policy.value ? <Loading /> : <Walls p={policy.value} />}
			</section>
		</div>
	);
}

type Series = NonNullable<Usage['series']>;

/** Memory and processors over the time in which somebody looked. */
function Use({ of }: { of: Series }) {
	const [Plot, setPlot] = useState<{ of: typeof import('../../parts/plots.tsx').Plot } | null>(null);
	useEffect(() => void import('../../parts/plots.tsx').then((m) => setPlot({ of: m.Plot }), () => undefined), []);
	if (!Plot)
		return null;
	const at = of.at_ms.map((ms) => ms / 1000);
	const cores = of.cpu_ms.map((ms, i) => i === 0 ? null : Math.max(0, (ms - of.cpu_ms[i - 1]!) / Math.max(1, of.at_ms[i]! - of.at_ms[i - 1]!)));
	return (
		<section class="stack tight">
			<h2>{t.use}</h2>
			<div class="plots"><Plot.of name="memory_bytes" at={at} values={of.memory_bytes} /><Plot.of name="cpu_cores" at={at} values={cores} /></div>
		</section>
	);
}

function Facts({ title, rows }: { title: string; rows: [string, string][] }) {
	return <section class="stack tight"><h2>{title}</h2><dl class="facts panel pad">{rows.map(([k, v]) => <><dt>{k}</dt><dd>{v}</dd></>)}</dl></section>;
}

function Walls({ p }: { p: Policy }) {
	return (
		<div class="panel pad stack tight">
			<p>{t.enforced}</p>
			<div class="row">{p.enforced.map((w) => <span class="tag on">{t.names[w] ?? w}</span>)}</div>
			{p.best_effort.length > 0 && <><p>{t.weak}</p><div class="row">{p.best_effort.map((w) => <span class="tag bad">{t.names[w] ?? w}</span>)}</div></>}
			<p class="quiet">{t.engine(p.engine)}</p>
		</div>
	);
}
