// SPDX-License-Identifier: Apache-2.0
// The images of the server, and building those that it has definitions of, with the output as it comes.

import { useEffect, useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import type { ImageBuild, Images as Answer, ServerImage } from '../api/manage.ts';
import { me } from '../api/state.ts';
import { Button, Empty, Fault, Field, Loading, useLoad } from '../parts/basics.tsx';
import { Table, Time } from '../parts/listing.tsx';
import { Output } from '../parts/output.tsx';
import { shareOf } from '../pure/build.ts';
import { bytes, count, duration } from '../pure/format.ts';
import { text } from '../text/en.ts';

const t = text.images;
const IDLE_MS = 10_000;
const BUILDING_MS = 1000;

const underWay = (b: ImageBuild | null | undefined): boolean => b !== null && b !== undefined && ['building', 'downloading', 'stopping'].includes(b.state);

export function Images() {
	const { value, error, again } = useLoad((signal) => api.get<Answer>('/images', {}, signal), []);
	const busy = underWay(value?.build);
	useEffect(() => {
		const timer = setInterval(() => document.visibilityState === 'visible' && again(), busy ? BUILDING_MS : IDLE_MS);
		return () => clearInterval(timer);
	}, [busy]);
	if (!value)
		return error === undefined ? <Loading /> : <Fault error={error} retry={again} />;
	return (
		<>
			{error !== undefined && <Fault error={error} retry={again} />}
			{value.images.length === 0 ? <Empty icon="hard-drive" title={t.none}><p>{t.noneWhat}</p></Empty> : <List rows={value.images} />}
			{value.why_not ? <p class="quiet">{t.whyNot(value.why_not)}</p> : !me.value?.read_only && <Order of={value} busy={busy} done={again} />}
			{value.build && <Build of={value.build} done={again} />}
		</>
	);
}

function List({ rows }: { rows: ServerImage[] }) {
	return (
		<Table label={t.title} heads={[t.image, t.size, t.built, t.python, t.packages]}>
			{rows.map((i) => (
				<tr key={i.name}>
					<td data-head={t.image}><span class="row"><span class="clip">{i.name}</span>{i.default && <span class="tag on">{t.default}</span>}</span></td>
					<td data-head={t.size} class="nowrap">{i.bytes ? bytes(i.bytes) : '–'}</td>
					<td data-head={t.built} class="nowrap"><Time at={i.built_at} /></td>
					<td data-head={t.python}>{i.python ?? '–'}</td>
					<td data-head={t.packages}>{i.packages === null || i.packages === undefined ? '–' : count(i.packages)}</td>
				</tr>
			))}
		</Table>
	);
}

function Order({ of, busy, done }: { of: Answer; busy: boolean; done: () => void }) {
	const [name, setName] = useState(of.definitions[0]?.name ?? '');
	const [asked, setAsked] = useState(false);
	const [error, setError] = useState<unknown>(null);
	const there = of.images.some((i) => i.name === name);
	const build = (e: SubmitEvent): void => {
		e.preventDefault();
		setAsked(true);
		setError(null);
		void api.post('/images', { name }).then(done, setError).finally(() => setAsked(false));
	};
	return (
		<form class="stack tight" onSubmit={build}>
			<h2>{t.buildTitle}</h2>
			<Field label={t.definition} hint={of.definitions.find((d) => d.name === name)?.description} control={(a) => (
				<div class="row">
					<select {...a} class="input by" value={name} disabled={busy} onChange={(e) => setName(e.currentTarget.value)}>{of.definitions.map((d) => <option key={d.name} value={d.name}>{d.name}</option>)}</select>
					<Button icon="package" label={there ? t.buildAgain : t.build} type="submit" look="primary" busy={asked} disabled={busy || name === ''} />
				</div>
			)} />
			<p class="quiet">{there ? t.againWhat : t.buildWhat}</p>
			{error !== null && <Fault error={error} />}
		</form>
	);
}

function Build({ of, done }: { of: ImageBuild; done: () => void }) {
	const [error, setError] = useState<unknown>(null);
	const [now, setNow] = useState(Date.now());
	const busy = underWay(of);
	useEffect(() => {
		if (!busy)
			return;
		setError(null);
		const clock = setInterval(() => setNow(Date.now()), 1000);
		return () => clearInterval(clock);
	}, [busy]);
	const share = busy ? shareOf(of.lines) : null;
	const took = duration(Math.max(0, (of.ended_at ? Date.parse(of.ended_at) : now) - Date.parse(of.began_at)));
	const cancel = (): void => void api.remove('/images/build').then(done, setError);
	return (
		<section class="stack tight" aria-label={t.buildOf(of.name)}>
			<div class="row">
				<h2>{t.buildOf(of.name)}</h2>
				<span class={`tag ${of.state === 'failed' ? 'bad' : busy || of.state === 'done' ? 'on' : ''}`} role="status">{t.states[of.state] ?? of.state}</span>
				<span class="quiet">{took}</span>
				{busy && !me.value?.read_only && <Button icon="square" label={t.cancel} tiny disabled={of.state === 'stopping'} onClick={cancel} />}
			</div>
			{error !== null && <Fault error={error} />}
			{of.state === 'failed' && <p class="cell-error">{of.reason}</p>}
			{share !== null && <div class="bar" role="progressbar" aria-label={t.buildOf(of.name)} aria-valuenow={Math.round(100 * share)} aria-valuemin={0} aria-valuemax={100}><div style={{ width: `${100 * share}%` }} /></div>}
			{of.dropped > 0 && <p class="quiet">{t.dropped(of.dropped)}</p>}
			{of.lines.length > 0 && <Output value={of.lines.join('\n')} label={t.log} live={busy} />}
		</section>
	);
}
