// SPDX-License-Identifier: Apache-2.0
// The images of the server, building those that it has definitions of, with the output as it comes, and removing those that were made of sandboxes.

import { useEffect, useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import type { Images as Answer, ServerImage } from '../api/manage.ts';
import { me } from '../api/state.ts';
import { Button, Empty, Fault, Field, Loading, useLoad } from '../parts/basics.tsx';
import { Table, Time } from '../parts/listing.tsx';
import { ActionDialog } from '../parts/overlay.tsx';
import { bytes, count } from '../pure/format.ts';
import { text } from '../text/en.ts';
import { Build, underWay } from './image-build.tsx';

const t = text.images;
const IDLE_MS = 10_000;
const BUILDING_MS = 1000;

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
			{value.images.length === 0 ? <Empty icon="hard-drive" title={t.none}><p>{t.noneWhat}</p></Empty> : <List of={value} busy={busy} done={again} />}
			{value.why_not ? <p class="quiet">{t.whyNot(value.why_not)}</p> : !me.value?.read_only && <Order of={value} busy={busy} done={again} />}
			{value.build && <Build of={value.build} done={again} />}
		</>
	);
}

function List({ of, busy, done }: { of: Answer; busy: boolean; done: () => void }) {
	const [ask, setAsk] = useState<ServerImage | null>(null);
	const can = of.of_sandboxes && !me.value?.read_only && of.images.some((i) => i.of_sandbox);
	return (
		<>
			<Table label={t.title} heads={[t.image, t.size, t.built, t.python, t.packages, ...(can ? [''] : [])]}>
				{of.images.map((i) => (
					<tr key={i.name}>
						<td data-head={t.image}><span class="row"><span class="clip">{i.name}</span>{i.default && <span class="tag on">{t.default}</span>}{i.of_sandbox && <span class="tag">{t.ofSandbox}</span>}</span></td>
						<td data-head={t.size} class="nowrap">{i.bytes ? bytes(i.bytes) : '–'}</td>
						<td data-head={t.built} class="nowrap"><Time at={i.built_at} /></td>
						<td data-head={t.python}>{i.python || '–'}</td>
						<td data-head={t.packages}>{i.packages === null || i.packages === undefined ? '–' : count(i.packages)}</td>
						{can && <td class="number">{i.of_sandbox && <Button icon="trash-2" label={t.removeNamed(i.name)} iconOnly look="plain alarm" disabled={busy} onClick={() => setAsk(i)} />}</td>}
					</tr>
				))}
			</Table>
			{ask && (
				<ActionDialog title={t.removeAsk(ask.name)} action={t.remove} alarm onClose={() => setAsk(null)} run={() => api.remove(`/images/${encodeURIComponent(ask.name)}`).then(done)}>
					<p>{t.removeWhat}</p>
					{ask.default && <p>{t.removeDefault}</p>}
				</ActionDialog>
			)}
		</>
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
