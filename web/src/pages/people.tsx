// SPDX-License-Identifier: Apache-2.0
// For administrators: who has an account, with which rights and quotas.

import { useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import type { User } from '../api/manage.ts';
import { me, session } from '../api/state.ts';
import { href } from '../app/router.ts';
import { Button, Empty, Fault, Field, Loading, Search, useLoad } from '../parts/basics.tsx';
import { Table, Time } from '../parts/listing.tsx';
import { ActionDialog, Menu, say } from '../parts/overlay.tsx';
import { bytes, count, duration } from '../pure/format.ts';
import { text } from '../text/en.ts';

const t = text.people;
const MIB = 1024 * 1024;
type Ask = { what: 'add' } | { what: 'edit' | 'password' | 'delete'; of: User } | null;

export default function PeoplePage() {
	const { value, error, again } = useLoad((signal) => api.get<{ users: User[] }>('/users', {}, signal), []);
	const [filter, setFilter] = useState('');
	const [ask, setAsk] = useState<Ask>(null);
	const close = (): void => setAsk(null);
	const rows = value?.users.filter((u) => `${u.name} ${u.email} ${u.role}`.toLowerCase().includes(filter.toLowerCase()));
	return (
		<>
			<div class="page-head">
				<h1>{t.title}</h1>
				{value && value.users.length > 0 && <Search value={filter} label={t.filter} onInput={setFilter} />}
				<a class="button" href={href('invitations')}>{t.invite}</a>
				<Button icon="plus" label={t.add} look="primary" onClick={() => setAsk({ what: 'add' })} />
			</div>
			{error !== undefined && <Fault error={error} retry={again} />}
			{!rows ? error === undefined && <Loading />
				: value!.users.length === 0 ? <Empty icon="users" title={t.empty}><p>{session.value!.required ? t.emptyWhat : t.emptyOpen}</p></Empty>
				: rows.length === 0 ? <Empty icon="search" title={t.noMatch} />
				: <List rows={rows} ask={setAsk} />}
			{ask?.what === 'add' && <AddDialog onClose={close} done={again} />}
			{ask?.what === 'edit' && <EditDialog of={ask.of} onClose={close} done={again} />}
			{ask?.what === 'password' && <PasswordDialog of={ask.of} onClose={close} />}
			{ask?.what === 'delete' && (
				<ActionDialog title={t.deleteAsk(ask.of.name)} action={text.common.delete} alarm onClose={close} run={async () => {
					await api.remove(`/users/${encodeURIComponent(ask.of.id)}`);
					again();
				}}><p>{t.deleteWhat}</p></ActionDialog>
			)}
		</>
	);
}

const QUOTAS = ['max_sandboxes', 'max_cpu_s_per_day', 'max_disk_bytes', 'max_runs_per_minute'] as const;
type Quota = typeof QUOTAS[number];

function quotaWords(q: Quota, n: number): string {
	return q === 'max_disk_bytes' ? bytes(n) : q === 'max_cpu_s_per_day' ? duration(n * 1000) : count(n);
}

/** Quotas of one's own; -1 is that of the server. */
function Quotas({ of }: { of: User }) {
	const own = QUOTAS.filter((q) => (of[q] ?? -1) >= 0);
	return own.length === 0 ? <span class="quiet">{t.serverQuotas}</span>
		: <span class="row">{own.map((q) => <span class="tag" key={q}>{t.quotas[q]} {quotaWords(q, of[q]!)}</span>)}</span>;
}

function List({ rows, ask }: { rows: User[]; ask: (a: Ask) => void }) {
	return (
		<Table label={t.title} heads={[t.name, t.role, t.quotasHead, t.since, '']}>
			{rows.map((u) => (
				<tr key={u.id}>
					<td data-head={t.name}><div class="two-lines"><span class="clip">{u.name}</span>{u.email && <span class="quiet small clip">{u.email}</span>}</div></td>
					<td data-head={t.role}>{u.active ? <span class={`tag ${u.role === 'admin' ? 'on' : ''}`}>{t.roles[u.role]}</span> : <span class="tag bad">{t.inactive}</span>}</td>
					<td data-head={t.quotasHead}><Quotas of={u} /></td>
					<td data-head={t.since}><Time at={u.created_at} /></td>
					<td class="number">
						<Menu label={`${text.common.more}: ${u.name}`} items={[
							{ icon: 'pencil', label: t.edit, run: () => ask({ what: 'edit', of: u }) },
							{ icon: 'key', label: text.keys.title, href: href('keys', u.id) },
							{ icon: 'shield', label: t.setPassword, run: () => ask({ what: 'password', of: u }) },
							...(u.id === me.value?.id ? [] : [{ icon: 'trash-2', label: text.common.delete, alarm: true, run: () => ask({ what: 'delete', of: u }) }]),
						]} />
					</td>
				</tr>
			))}
		</Table>
	);
}

function Role({ chosen }: { chosen: User['role'] }) {
	return <Field label={t.role} control={(a) => <select {...a} class="input" name="role">{(['user', 'admin'] as const).map((r) => <option value={r} selected={r === chosen}>{t.roles[r]}</option>)}</select>} />;
}

function Password({ required }: { required?: boolean }) {
	const least = session.value!.password_min;
	return <Field label={t.password} hint={required ? t.passwordHint(least) : t.passwordMaybe(least)} control={(a) => <input {...a} class="input" name="password" type="password" minLength={least} required={required} autocomplete="new-password" />} />;
}

function AddDialog({ onClose, done }: { onClose: () => void; done: () => void }) {
	const run = async (form: FormData): Promise<void> => {
		const body = Object.fromEntries([...form].map(([k, v]) => [k, String(v)]).filter(([, v]) => v !== ''));
		const u = await api.post<User>('/users', body);
		say(t.added(u.name));
		done();
	};
	return (
		<ActionDialog title={t.add} action={t.addAction} onClose={onClose} run={run}>
			<Field label={t.name} control={(a) => <input {...a} class="input" name="name" required maxLength={64} autocomplete="off" autofocus />} />
			<Field label={t.email} control={(a) => <input {...a} class="input" name="email" type="email" autocomplete="off" />} />
			<Password />
			<Role chosen="user" />
		</ActionDialog>
	);
}

function EditDialog({ of, onClose, done }: { of: User; onClose: () => void; done: () => void }) {
	const self = of.id === me.value?.id;
	const run = async (form: FormData): Promise<void> => {
		const number = (q: Quota): number => {
			const v = String(form.get(q) ?? '').trim();
			return v === '' ? -1 : Math.round(Number(v) * (q === 'max_disk_bytes' ? MIB : 1));
		};
		await api.patch(`/users/${encodeURIComponent(of.id)}`, {
			...Object.fromEntries(QUOTAS.map((q) => [q, number(q)])),
			...(self ? {} : { role: form.get('role'), active: form.get('active') === 'on' }),
			...(String(form.get('email') ?? '') !== of.email && { email: form.get('email') }),
		});
		done();
	};
	const shown = (q: Quota): string => (of[q] ?? -1) < 0 ? '' : String(q === 'max_disk_bytes' ? Math.round(of[q]! / MIB) : of[q]);
	return (
		<ActionDialog title={t.editTitle(of.name)} action={text.common.save} onClose={onClose} run={run}>
			<Field label={t.email} control={(a) => <input {...a} class="input" name="email" type="email" value={of.email} autocomplete="off" />} />
			{self ? <p class="quiet">{t.self}</p> : <><Role chosen={of.role} /><label class="check"><input type="checkbox" name="active" checked={of.active} /><span>{t.active}</span></label></>}
			<fieldset class="quotas">
				<legend>{t.quotasHead}</legend>
				<p class="quiet small">{t.quotasHint}</p>
				<div class="two">{QUOTAS.map((q) => <Field key={q} label={t.quotaFields[q]} control={(a) => <input {...a} class="input" name={q} type="number" min={0} step={1} value={shown(q)} />} />)}</div>
			</fieldset>
		</ActionDialog>
	);
}

function PasswordDialog({ of, onClose }: { of: User; onClose: () => void }) {
	return (
		<ActionDialog title={t.passwordTitle(of.name)} action={text.common.save} onClose={onClose} run={async (form) => {
			await api.patch(`/users/${encodeURIComponent(of.id)}`, { password: String(form.get('password')) });
			say(t.passwordSet(of.name));
		}}>
			<p>{t.passwordWhat}</p>
			<Password required />
		</ActionDialog>
	);
}
