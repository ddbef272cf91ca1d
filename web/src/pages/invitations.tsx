// SPDX-License-Identifier: Apache-2.0
// For administrators: invitations that are still good, and new ones. An invitation makes one account.

import { useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import type { Invitation } from '../api/manage.ts';
import { session } from '../api/state.ts';
import { Button, Empty, Fault, Field, Loading, Snippet, useLoad } from '../parts/basics.tsx';
import { Table, Time } from '../parts/listing.tsx';
import { ActionDialog, Dialog } from '../parts/overlay.tsx';
import { text } from '../text/en.ts';

const t = text.invitations;
const DAY_S = 86_400;

export default function InvitationsPage() {
	const { value, error, again } = useLoad((signal) => api.get<{ invitations: Invitation[] }>('/invitations', {}, signal), []);
	const [making, setMaking] = useState(false);
	const [made, setMade] = useState<string | null>(null);
	const [ending, setEnding] = useState<Invitation | null>(null);
	const rows = value?.invitations;
	const make = async (form: FormData): Promise<void> => {
		const note = String(form.get('note') ?? '').trim();
		const { invitation } = await api.post<{ invitation: string }>('/invitations', { role: form.get('role'), expires_in_s: Number(form.get('days')) * DAY_S, ...(note && { note }) });
		setMade(`${session.value!.base}/#/join/${invitation}`);
		again();
	};
	return (
		<>
			<div class="page-head"><h1>{t.title}</h1><Button icon="plus" label={t.make} look="primary" onClick={() => setMaking(true)} /></div>
			{error !== undefined && <Fault error={error} retry={again} />}
			{!rows ? error === undefined && <Loading />
				: rows.length === 0 ? <Empty icon="mail" title={t.empty}><p>{t.emptyWhat}</p></Empty>
				: (
					<Table label={t.title} heads={[t.note, text.people.role, t.made, text.keys.expires, '']}>
						{rows.map((i) => (
							<tr key={i.id}>
								<td data-head={t.note}><span class="clip">{i.note || t.noNote}</span></td>
								<td data-head={text.people.role}><span class={`tag ${i.role === 'admin' ? 'on' : ''}`}>{text.people.roles[i.role]}</span></td>
								<td data-head={t.made}><Time at={i.created_at} /></td>
								<td data-head={text.keys.expires}><Time at={i.expires_at} /></td>
								<td class="number"><Button icon="trash-2" iconOnly look="plain alarm" label={t.endNamed(i.note || i.id)} onClick={() => setEnding(i)} /></td>
							</tr>
						))}
					</Table>
				)}
			{making && (
				<ActionDialog title={t.make} action={t.makeAction} onClose={() => setMaking(false)} run={make}>
					<p class="quiet">{t.what}</p>
					<Field label={t.note} hint={t.noteHint} control={(a) => <input {...a} class="input" name="note" maxLength={100} autocomplete="off" autofocus />} />
					<div class="two">
						<Field label={text.people.role} control={(a) => <select {...a} class="input" name="role">{(['user', 'admin'] as const).map((r) => <option value={r}>{text.people.roles[r]}</option>)}</select>} />
						<Field label={text.keys.expires} control={(a) => <select {...a} class="input" name="days">{t.lives.map(([days, words]) => <option value={days} selected={days === 7}>{words}</option>)}</select>} />
					</div>
				</ActionDialog>
			)}
			{made !== null && (
				<Dialog title={t.madeTitle} wide onClose={() => undefined}>
					<div class="stack">
						<p>{t.once}</p>
						<Snippet value={made} label={t.link} />
						<div class="actions"><Button label={text.keys.copied} look="primary" onClick={() => setMade(null)} /></div>
					</div>
				</Dialog>
			)}
			{ending && (
				<ActionDialog title={t.endAsk} action={t.end} alarm onClose={() => setEnding(null)} run={async () => {
					await api.remove(`/invitations/${encodeURIComponent(ending.id)}`);
					again();
				}}><p>{t.endWhat(ending.note || t.noNote)}</p></ActionDialog>
			)}
		</>
	);
}
