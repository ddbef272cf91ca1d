// SPDX-License-Identifier: Apache-2.0
// For administrators: the sandboxes of all people, what each uses and may use, and how to stop or delete one.

import { useEffect, useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import type { HistoryPage, User } from '../api/manage.ts';
import type { Sandbox } from '../api/types.ts';
import { me } from '../api/state.ts';
import { href } from '../app/router.ts';
import { Empty, Fault, Loading, Search, useLoad } from '../parts/basics.tsx';
import { Table } from '../parts/listing.tsx';
import { ActionDialog, Menu, say, sayFault } from '../parts/overlay.tsx';
import { age, bytes, count } from '../pure/format.ts';
import { settled } from '../pure/notebook.ts';
import { text } from '../text/en.ts';

const t = text.everyone;
const MIB = 1024 * 1024;
const AGAIN_MS = 5000; // between two looks
const CELLS = 100; // of a sandbox, in which those that run are looked for

interface Loaded { sandboxes: Sandbox[]; missing: string[]; names: Map<string, string> }

/** The owner '' is the local user: whoever comes without an account. */
const nameOf = (id: string, names: Map<string, string>): string => id === '' ? t.local : names.get(id) ?? id;
const titleOf = (s: Sandbox): string => s.name || s.id.slice(0, 13);

async function load(signal: AbortSignal): Promise<Loaded> {
	const [{ sandboxes, workers_missing = [] }, { users }] = await Promise.all([
		api.get<{ sandboxes: Sandbox[]; workers_missing?: string[] }>('/sandboxes', { all: true, usage: true }, signal),
		api.get<{ users: User[] }>('/users', {}, signal),
	]);
	return { sandboxes, missing: workers_missing, names: new Map(users.map((u) => [u.id, u.name])) };
}

async function stop(s: Sandbox): Promise<void> {
	const { cells } = await api.get<HistoryPage>(`/notebooks/${encodeURIComponent(s.id)}`, { owner: s.owner, before: 0, limit: CELLS });
	await Promise.all(cells.filter((c) => !settled(c)).map((c) => api.remove(`/runs/${encodeURIComponent(c.run)}`, { owner: s.owner })));
}

export default function EveryonePage() {
	const { value, error, again } = useLoad(load, []);
	const [filter, setFilter] = useState('');
	const [removing, setRemoving] = useState<Sandbox | null>(null);
	useEffect(() => {
		const timer = setInterval(() => document.visibilityState === 'visible' && again(), AGAIN_MS);
		return () => clearInterval(timer);
	}, []);
	const rows = value?.sandboxes
		.filter((s) => [s.id, s.name ?? '', s.image, nameOf(s.owner, value.names)].join(' ').toLowerCase().includes(filter.toLowerCase()))
		.sort((a, b) => Number(b.busy) - Number(a.busy) || (b.usage?.memory_bytes ?? 0) - (a.usage?.memory_bytes ?? 0));
	return (
		<>
			<div class="page-head">
				<h1>{t.title}</h1>
				{value && value.sandboxes.length > 0 && <Search value={filter} label={t.filter} onInput={setFilter} />}
			</div>
			{value && value.sandboxes.length > 0 && <p class="quiet">{t.sum(count(value.sandboxes.length), bytes(value.sandboxes.reduce((n, s) => n + (s.usage?.memory_bytes ?? 0), 0)))}</p>}
			{error !== undefined && <Fault error={error} retry={again} />}
			{value && value.missing.length > 0 && <p class="quiet" role="status">{text.home.missing(value.missing.join(', '))}</p>}
			{!rows ? error === undefined && <Loading />
				: value!.sandboxes.length === 0 ? <Empty icon="box" title={t.empty} />
				: rows.length === 0 ? <Empty icon="search" title={text.home.noMatch} />
				: <List rows={rows} names={value!.names} again={again} remove={setRemoving} />}
			{removing && (
				<ActionDialog title={text.home.deleteAsk(titleOf(removing))} action={text.common.delete} alarm onClose={() => setRemoving(null)} run={async () => {
					await api.remove(`/sandboxes/${encodeURIComponent(removing.id)}`, { owner: removing.owner, force: true });
					again();
				}}><p>{t.deleteWhat(nameOf(removing.owner, value!.names))}</p></ActionDialog>
			)}
		</>
	);
}

function List({ rows, names, again, remove }: { rows: Sandbox[]; names: Map<string, string>; again: () => void; remove: (s: Sandbox) => void }) {
	return (
		<Table label={t.title} heads={[t.owner, t.sandbox, text.home.state, text.home.memory, text.home.disk, text.home.cpus, text.home.runs, text.home.age, '']}>
			{rows.map((s) => (
				<tr key={`${s.owner} ${s.id}`}>
					<td data-head={t.owner}><span class="clip">{nameOf(s.owner, names)}</span></td>
					<td data-head={t.sandbox}><div class="two-lines"><Name s={s} /><span class="quiet small clip">{text.home.kinds[s.kind]} · {s.image}</span></div></td>
					<td data-head={text.home.state}><span class={`tag ${s.busy ? 'on' : ''}`}>{s.busy ? text.home.states.busy : s.state === 'stored' ? text.home.states.inactive : text.home.idleFor(age(s.idle_s ?? 0))}</span></td>
					<td data-head={text.home.memory}><Used now={s.usage?.memory_bytes} most={s.limits.memory_mb * MIB} /></td>
					<td data-head={text.home.disk}><Used now={s.usage?.disk_bytes} most={s.limits.disk_mb * MIB} /></td>
					<td data-head={text.home.cpus}>{s.limits.cpus}</td>
					<td data-head={text.home.runs}>{s.runs === undefined ? '–' : count(s.runs)}</td>
					<td data-head={text.home.age}>{age(s.age_s)}</td>
					<td class="number">{!me.value?.read_only && <Actions s={s} again={again} remove={remove} />}</td>
				</tr>
			))}
		</Table>
	);
}

/** Pages of a sandbox are for its owner. */
function Name({ s }: { s: Sandbox }) {
	return s.owner === me.value?.id ? <a class="clip" href={href('sandboxes', s.id)}>{titleOf(s)}</a> : <span class="clip">{titleOf(s)}</span>;
}

function Used({ now, most }: { now: number | undefined; most: number }) {
	return <div class="two-lines"><span>{now === undefined ? '–' : bytes(now)}</span>{most > 0 && <span class="quiet small">{t.of(bytes(most))}</span>}</div>;
}

function Actions({ s, again, remove }: { s: Sandbox; again: () => void; remove: (s: Sandbox) => void }) {
	return <Menu label={`${text.common.more}: ${titleOf(s)}`} items={[
		...(s.busy ? [{ icon: 'square', label: text.home.stop, run: () => void stop(s).then(() => (say(text.home.stopped), again()), sayFault) }] : []),
		{ icon: 'trash-2', label: text.common.delete, alarm: true, run: () => remove(s) },
	]} />;
}
