// SPDX-License-Identifier: Apache-2.0
// For administrators: who did what, newest first.

import { useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import type { AuditRow, User } from '../api/manage.ts';
import { Empty, Search, useLoad } from '../parts/basics.tsx';
import { Rest, Table, Time, useParts } from '../parts/listing.tsx';
import { text } from '../text/en.ts';

const t = text.audit;
const LIMIT = 100;
const EVERYBODY = '*';

export default function AuditPage() {
	const [actor, setActor] = useState(EVERYBODY);
	const [filter, setFilter] = useState('');
	const people = useLoad((signal) => api.get<{ users: User[] }>('/users', {}, signal), []);
	const parts = useParts<AuditRow, number>(async (before_id, signal) => {
		const { rows } = await api.get<{ rows: AuditRow[] }>('/audit', { limit: LIMIT, actor: actor === EVERYBODY ? undefined : actor, before_id }, signal);
		return { rows, next: rows.length === LIMIT ? rows.at(-1)!.id : null };
	}, [actor]);
	const names = new Map((people.value?.users ?? []).map((u) => [u.id, u.name]));
	const nameOf = (id: string): string => id === '' ? t.local : names.get(id) ?? id;
	const shown = parts.rows?.filter((r) => [nameOf(r.actor), r.action, t.actions[r.action] ?? '', r.object, r.result, r.detail, r.peer].join(' ').toLowerCase().includes(filter.toLowerCase()));
	return (
		<>
			<div class="page-head">
				<h1>{t.title}</h1>
				<Search value={filter} label={t.filter} onInput={setFilter} />
				<select class="input by" aria-label={t.who} value={actor} onChange={(e) => setActor(e.currentTarget.value)}>
					<option value={EVERYBODY}>{t.everybody}</option>
					<option value="">{t.local}</option>
					{(people.value?.users ?? []).map((u) => <option value={u.id}>{u.name}</option>)}
				</select>
			</div>
			<div class="stack">
				{shown?.length === 0 && !parts.more && <Empty icon="scroll-text" title={parts.rows!.length ? t.noMatch : t.empty}><p>{parts.rows!.length ? '' : t.emptyWhat}</p></Empty>}
				{shown && shown.length > 0 && (
					<Table label={t.title} heads={[t.at, t.who, t.action, t.object, t.result, t.from]}>
						{shown.map((r) => (
							<tr key={r.id}>
								<td data-head={t.at} class="nowrap"><Time at={r.at} /></td>
								<td data-head={t.who}><span class="clip">{nameOf(r.actor)}</span></td>
								<td data-head={t.action} title={r.action}>{t.actions[r.action] ?? r.action}</td>
								<td data-head={t.object}><div class="two-lines"><span class="mono clip" title={r.object}>{r.object || '–'}</span>{r.detail && <span class="quiet small clip" title={r.detail}>{r.detail}</span>}</div></td>
								<td data-head={t.result}><span class={`tag ${r.result === 'ok' || r.result === '' ? '' : 'bad'}`}>{r.result || 'ok'}</span>{r.count > 1 && <span class="quiet small" title={t.timesWhat}> {t.times(r.count)}</span>}</td>
								<td data-head={t.from} class="quiet">{r.peer || '–'}</td>
							</tr>
						))}
					</Table>
				)}
				<Rest parts={parts} />
			</div>
		</>
	);
}
