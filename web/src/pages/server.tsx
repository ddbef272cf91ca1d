// SPDX-License-Identifier: Apache-2.0
// For administrators: the server itself. Figures over time, images (server-images.tsx), what protects the machine, the settings in force.

import { useEffect, useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import type { DoctorRow, Server, Setting } from '../api/manage.ts';
import { href } from '../app/router.ts';
import type { PageProps } from '../app/pages.ts';
import { CopyButton, Empty, Fault, Loading, Search, useLoad } from '../parts/basics.tsx';
import { Icon } from '../parts/icon.tsx';
import { Table } from '../parts/listing.tsx';
import { count, duration } from '../pure/format.ts';
import { text } from '../text/en.ts';
import { Images } from './server-images.tsx';

const t = text.server;
const AGAIN_MS = 10_000;
const TABS = ['figures', 'images', 'doctor', 'settings'] as const;
type Tab = typeof TABS[number];

export default function ServerPage({ parts }: PageProps) {
	const tab: Tab = TABS.find((name) => name === parts[0]) ?? 'figures';
	const { value, error, again } = useLoad((signal) => api.get<Server>('/server', {}, signal), []);
	useEffect(() => {
		const timer = setInterval(() => document.visibilityState === 'visible' && again(), AGAIN_MS);
		return () => clearInterval(timer);
	}, []);
	return (
		<>
			<div class="page-head">
				<h1>{t.title}</h1>
				{value && <span class="quiet">{t.version(value.version)} · {t.up(duration(value.uptime_s * 1000))} · {t.profile(value.profile)}{value.worker && <> · {t.worker(value.worker)}</>}</span>}
			</div>
			<nav class="tabs below" aria-label={t.partsLabel}>
				{TABS.map((name) => <a href={href('server', name)} aria-current={name === tab ? 'page' : undefined}>{t.tabs[name]}{name === 'doctor' && <Bad rows={value?.doctor} />}</a>)}
			</nav>
			<div class="stack">
				{error !== undefined && <Fault error={error} retry={again} />}
				{tab === 'figures' ? <><Pool of={value} /><Figures /></>
					: tab === 'images' ? <Images />
					: !value ? error === undefined && <Loading />
					: tab === 'doctor' ? <Doctor rows={value.doctor ?? []} />
					: <Settings rows={value.settings ?? []} />}
			</div>
		</>
	);
}

/** How many rows are not well. */
function Bad({ rows }: { rows?: DoctorRow[] }) {
	const n = rows?.filter((r) => r.state === 'weak' || r.state === 'missing').length ?? 0;
	return n > 0 ? <span class="tag">{n}</span> : null;
}

function Pool({ of }: { of?: Server }) {
	if (!of?.pool)
		return null;
	const { ready, claimed, cold } = of.pool;
	return <dl class="numbers">{([[t.pool.ready, ready], [t.pool.claimed, claimed], [t.pool.cold, cold]] as const).map(([name, n]) => <div key={name}><dt>{name}</dt><dd>{count(n)}</dd></div>)}</dl>;
}

/** The plots come with a library that is loaded when they are looked at. */
function Figures() {
	const [minutes, setMinutes] = useState(60);
	const [Plots, setPlots] = useState<{ of: typeof import('../parts/plots.tsx').Plots } | null>(null);
	const [error, setError] = useState<unknown>(null);
	const load = (): void => void import('../parts/plots.tsx').then((m) => setPlots({ of: m.Plots }), setError);
	useEffect(load, []);
	return (
		<section class="stack" aria-label={t.tabs.figures}>
			<div class="row">
				<label class="row"><span class="quiet">{t.span}</span>
					<select class="input by" value={minutes} onChange={(e) => setMinutes(Number(e.currentTarget.value))}>{t.spans.map(([n, words]) => <option value={n}>{words}</option>)}</select>
				</label>
			</div>
			{error !== null ? <Fault error={error} retry={load} /> : Plots ? <Plots.of minutes={minutes} /> : <Loading />}
		</section>
	);
}

const ICONS: Record<DoctorRow['state'], string> = { ok: 'circle-check', note: 'info', weak: 'circle-alert', missing: 'circle-alert' };

function Doctor({ rows }: { rows: DoctorRow[] }) {
	if (rows.length === 0)
		return <Empty icon="shield" title={t.noDoctor}><p>{t.noDoctorWhat}</p><code>caisson doctor</code></Empty>;
	const order: DoctorRow['state'][] = ['missing', 'weak', 'note', 'ok'];
	const sorted = [...rows].sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
	return (
		<ul class="panel checks" aria-label={t.tabs.doctor}>
			{sorted.map((r) => (
				<li key={r.id} class={r.state}>
					<Icon name={ICONS[r.state] ?? 'info'} />
					<div>
						<div class="row"><span class="strong">{r.title}</span><span class={`tag ${r.state === 'ok' ? 'on' : r.state === 'missing' ? 'bad' : ''}`}>{t.states[r.state] ?? r.state}</span></div>
						{r.text && <p class="quiet">{r.text}</p>}
						{r.mend && r.state !== 'ok' && <p>{r.mend}</p>}
					</div>
				</li>
			))}
		</ul>
	);
}

function Settings({ rows }: { rows: Setting[] }) {
	const [filter, setFilter] = useState('');
	const [changed, setChanged] = useState(rows.some((r) => r.from !== 'default'));
	if (rows.length === 0)
		return <Empty icon="server" title={t.noSettings} />;
	const shown = rows.filter((r) => (!changed || r.from !== 'default') && `${r.name} ${r.help ?? ''} ${String(r.value)}`.toLowerCase().includes(filter.toLowerCase()));
	return (
		<>
			<div class="row">
				<Search value={filter} label={t.filter} onInput={setFilter} />
				<label class="check"><input type="checkbox" checked={changed} onChange={(e) => setChanged(e.currentTarget.checked)} /><span>{t.onlyChanged}</span></label>
			</div>
			{shown.length === 0 ? <Empty icon="search" title={t.noMatch} /> : (
				<Table label={t.tabs.settings} heads={[t.setting, t.value, t.from, '']}>
					{shown.map((r) => (
						<tr key={r.name}>
							<td data-head={t.setting}><div class="two-lines"><code>{r.name}</code>{r.help && <span class="quiet small">{r.help}</span>}</div></td>
							<td data-head={t.value}>{r.secret ? <span class="quiet">{t.secret}</span> : r.value === '' || r.value === null ? <span class="quiet">{t.emptyValue}</span> : <code>{String(r.value)}</code>}</td>
							<td data-head={t.from}><span class={`tag ${r.from === 'default' ? '' : 'on'}`}>{t.sources[r.from] ?? r.from}</span></td>
							<td class="number">{!r.secret && <CopyButton iconOnly label={t.copySetting(r.name)} value={`${r.name}=${String(r.value ?? '')}`} />}</td>
						</tr>
					))}
				</Table>
			)}
		</>
	);
}
