// SPDX-License-Identifier: Apache-2.0
// The sandboxes of the caller, live: what each one is, what it does, and what can be done with it.

import { useEffect, useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import { ageOf, keepSandbox, loadSandboxes, me, missing, sandboxes, stopRuns } from '../api/state.ts';
import type { Sandbox } from '../api/types.ts';
import { go, href } from '../app/router.ts';
import { Button, Empty, Fault, Loading, Search, useClock } from '../parts/basics.tsx';
import { Icon } from '../parts/icon.tsx';
import { Menu, say, sayFault } from '../parts/overlay.tsx';
import { age, bytes, count } from '../pure/format.ts';
import { exampleCode } from '../pure/example.ts';
import { text } from '../text/en.ts';
import { Clients } from './connect.tsx';
import { CreateDialog, DeleteDialog, ForkDialog, RenameDialog } from './sandbox-dialogs.tsx';

const t = text.home;
const USAGE_MS = 5000; // between two looks at memory and disk

type Ask = { what: 'create' } | { what: 'rename' | 'fork' | 'delete'; of: Sandbox } | null;

export default function HomePage() {
	const [error, setError] = useState<unknown>(null);
	const [filter, setFilter] = useState('');
	const [ask, setAsk] = useState<Ask>(null);
	useClock();
	const load = (): void => void loadSandboxes(true).then(() => setError(null), setError);
	useEffect(() => {
		load();
		const usage = setInterval(() => document.visibilityState === 'visible' && load(), USAGE_MS);
		return () => clearInterval(usage);
	}, []);
	const all = sandboxes.value ? [...sandboxes.value.values()] : null;
	const shown = all?.filter((s) => matches(s, filter)).sort((a, b) => Number(b.busy) - Number(a.busy) || idle(a) - idle(b));
	return (
		<>
			{all?.length !== 0 && (
				<div class="page-head">
					<h1>{t.title}</h1>
					<Search value={filter} label={t.filter} onInput={setFilter} />
					{!me.value?.read_only && <Button icon="plus" label={t.create} look="primary" onClick={() => setAsk({ what: 'create' })} />}
				</div>
			)}
			{error !== null && <Fault error={error} retry={load} />}
			{missing.value.length > 0 && <p class="quiet" role="status">{t.missing(missing.value.join(', '))}</p>}
			{!shown ? !error && <Loading /> : all!.length === 0 ? <Welcome create={() => setAsk({ what: 'create' })} />
				: shown.length === 0 ? <Empty icon="search" title={t.noMatch}><p>{t.noMatchWhat}</p></Empty>
				: <List rows={shown} ask={setAsk} />}
			{ask?.what === 'create' && <CreateDialog onClose={() => setAsk(null)} />}
			{ask?.what === 'rename' && <RenameDialog of={ask.of} onClose={() => setAsk(null)} />}
			{ask?.what === 'fork' && <ForkDialog of={ask.of} onClose={() => setAsk(null)} />}
			{ask?.what === 'delete' && <DeleteDialog of={ask.of} onClose={() => setAsk(null)} />}
		</>
	);
}

function matches(s: Sandbox, filter: string): boolean {
	const words = [s.id, s.name ?? '', s.image, s.owner, ...Object.entries(s.labels ?? {}).flat()].join(' ').toLowerCase();
	return filter.toLowerCase().split(/\s+/).every((w) => words.includes(w));
}

/** Seconds since it was used, by the clock of the page. */
export function idle(s: Sandbox): number {
	return s.busy ? 0 : (s.idle_s ?? 0) + (Date.now() - (s.seen_at ?? Date.now())) / 1000;
}

function List({ rows, ask }: { rows: Sandbox[]; ask: (a: Ask) => void }) {
	return (
		<ul class="boxes panel" aria-label={t.title}>
			{rows.map((s) => <Row key={s.id} s={s} ask={ask} />)}
		</ul>
	);
}

export function stateOf(s: Sandbox): 'busy' | 'ready' | 'inactive' {
	return s.busy ? 'busy' : s.state === 'stored' ? 'inactive' : 'ready';
}

function Row({ s, ask }: { s: Sandbox; ask: (a: Ask) => void }) {
	const state = stateOf(s);
	return (
		<li class="box">
			<a class="box-link" href={href('sandboxes', s.id)}>
				<span class={`dot ${state === 'busy' ? 'busy' : state === 'ready' ? 'on' : ''}`} />
				<span class="box-name clip">{s.name || s.id.slice(0, 13)}</span>
				<span class="hidden">{t.states[state]}</span>
			</a>
			<div class="box-facts">
				<span class={`tag ${state === 'busy' ? 'on' : ''}`}>{state === 'ready' ? t.idleFor(age(idle(s))) : t.states[state]}</span>
				{s.public && <span class="tag bad" title={t.publicWhat}>{t.public}</span>}
				<span class="tag" title={t.kindHints[s.kind]}>{t.kinds[s.kind]}</span>
				<span class="tag" title={t.image}>{s.image}</span>
			</div>
			<Figure name={t.memory} value={s.usage ? bytes(s.usage.memory_bytes) : '–'} />
			<Figure name={t.disk} value={s.usage ? bytes(s.usage.disk_bytes) : '–'} />
			<Figure name={t.runs} value={s.runs === undefined ? '–' : count(s.runs)} />
			<Figure name={t.age} value={age(ageOf(s))} />
			{me.value?.read_only ? <span /> : <Actions s={s} ask={ask} />}
		</li>
	);
}

function Figure({ name, value }: { name: string; value: string }) {
	return <div class="figure"><div class="small quiet">{name}</div><div>{value}</div></div>;
}

function Actions({ s, ask }: { s: Sandbox; ask: (a: Ask) => void }) {
	const items = [
		...(s.busy ? [{ icon: 'square', label: t.stop, run: () => void stopRuns(s.id).then(() => say(t.stopped), sayFault) }] : []),
		{ icon: 'pencil', label: t.rename, run: () => ask({ what: 'rename', of: s }) },
		{ icon: 'git-fork', label: t.fork, run: () => ask({ what: 'fork', of: s }) },
		{ icon: 'trash-2', label: text.common.delete, alarm: true, run: () => ask({ what: 'delete', of: s }) },
	];
	return <Menu label={`${text.common.more}: ${s.name || s.id}`} items={items} />;
}

/** The first thing that a newcomer sees. */
function Welcome({ create }: { create: () => void }) {
	const [busy, setBusy] = useState(false);
	const example = async (): Promise<void> => {
		setBusy(true);
		try {
			const s = await api.post<Sandbox>('/sandboxes', { name: text.home.exampleName });
			keepSandbox(s);
			await api.post(`/sandboxes/${encodeURIComponent(s.id)}/runs`, { code: exampleCode, stateful: true });
			go('sandboxes', s.id);
		} catch (e) {
			sayFault(e);
			setBusy(false);
		}
	};
	return (
		<div class="welcome">
			<div class="welcome-lead">
				<h1>{t.welcome}</h1>
				<p>{t.welcomeWhat}</p>
				<div class="row">
					<Button icon="play" label={busy ? t.exampleBusy : t.exampleRun} look="primary" busy={busy} onClick={() => void example()} />
					<Button icon="plus" label={t.create} onClick={create} />
				</div>
			</div>
			<section class="panel welcome-connect" aria-labelledby="welcome-connect">
				<h2 id="welcome-connect"><Icon name="plug" /> {t.welcomeConnect}</h2>
				<Clients />
			</section>
		</div>
	);
}
