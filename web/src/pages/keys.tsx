// SPDX-License-Identifier: Apache-2.0
// Keys of the caller, or, for administrators, of another person (#/keys/USER): what each one may do, and making and ending them.

import { useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import type { Key, NewKey, User } from '../api/manage.ts';
import { me, session } from '../api/state.ts';
import { href } from '../app/router.ts';
import type { PageProps } from '../app/pages.ts';
import { Button, Empty, Fault, Field, Loading, Snippet, useLoad } from '../parts/basics.tsx';
import { Table, Time } from '../parts/listing.tsx';
import { ActionDialog, Dialog } from '../parts/overlay.tsx';
import { snippets } from '../pure/clients.ts';
import { text } from '../text/en.ts';

const t = text.keys;
const DAY_S = 86_400;

export default function KeysPage({ parts }: PageProps) {
	const owner = parts[0];
	if (!owner && !session.value!.required)
		return (
			<>
				<div class="page-head"><h1>{t.title}</h1></div>
				<Empty icon="key" title={t.open}><p>{t.openWhat}</p><div class="row"><a class="button" href={href('connect')}>{text.nav.connect}</a><a class="button" href={href('people')}>{text.people.title}</a></div></Empty>
			</>
		);
	return <Keys key={owner} owner={owner} />;
}

function Keys({ owner }: { owner?: string }) {
	const { value, error, again } = useLoad((signal) => api.get<{ keys: Key[] }>('/keys', { owner }, signal), [owner]);
	const person = useLoad(async (signal) => owner ? api.get<User>(`/users/${encodeURIComponent(owner)}`, {}, signal) : null, [owner]);
	const [making, setMaking] = useState(false);
	const [made, setMade] = useState<NewKey | null>(null);
	const [revoking, setRevoking] = useState<Key | null>(null);
	const name = owner ? person.value?.name ?? owner : null;
	const rows = value?.keys;
	return (
		<>
			<div class="page-head">
				<h1>{name ? t.of(name) : t.title}</h1>
				{!me.value?.read_only && <Button icon="plus" label={t.make} look="primary" onClick={() => setMaking(true)} />}
			</div>
			{error !== undefined && <Fault error={error} retry={again} />}
			{!rows ? error === undefined && <Loading />
				: rows.length === 0 ? <Empty icon="key" title={t.empty}><p>{t.emptyWhat}</p></Empty>
				: <List rows={rows} revoke={setRevoking} />}
			{making && <MakeDialog owner={owner} onClose={() => setMaking(false)} made={(k) => (setMade(k), again())} />}
			{made && <MadeDialog made={made} onClose={() => setMade(null)} />}
			{revoking && (
				<ActionDialog title={t.revokeAsk(labelOf(revoking))} action={t.revoke} alarm onClose={() => setRevoking(null)} run={async () => {
					await api.remove(`/keys/${encodeURIComponent(revoking.id)}`, { owner });
					again();
				}}><p>{t.revokeWhat}</p></ActionDialog>
			)}
		</>
	);
}

const labelOf = (k: Key): string => k.name || t.unnamed;

function List({ rows, revoke }: { rows: Key[]; revoke: (k: Key) => void }) {
	const now = Date.now();
	return (
		<Table label={t.title} heads={[t.name, t.scope, t.made, t.used, t.expires, '']}>
			{rows.map((k) => {
				const over = k.expires_at ? Date.parse(k.expires_at) < now : false;
				return (
					<tr key={k.id}>
						<td data-head={t.name}><div class="two-lines"><span class="clip">{labelOf(k)}</span>{k.hint && <code class="quiet small">{k.hint}</code>}</div></td>
						<td data-head={t.scope}><span class="row"><span class={`tag ${k.scope === 'read' ? '' : 'on'}`} title={t.scopeHints[k.scope]}>{t.scopes[k.scope]}</span>{k.profile && <span class="tag">{k.profile}</span>}</span></td>
						<td data-head={t.made}><Time at={k.created_at} /></td>
						<td data-head={t.used}><Time at={k.used_at} none={t.never} /></td>
						<td data-head={t.expires}>{over ? <span class="tag bad">{t.expired}</span> : <Time at={k.expires_at} none={t.stays} />}</td>
						<td class="number">{!me.value?.read_only && <Button label={t.revokeNamed(labelOf(k))} iconOnly icon="trash-2" look="plain alarm" onClick={() => revoke(k)} />}</td>
					</tr>
				);
			})}
		</Table>
	);
}

function MakeDialog({ owner, onClose, made }: { owner?: string; onClose: () => void; made: (k: NewKey) => void }) {
	const [scope, setScope] = useState<Key['scope']>('full');
	const scopes: Key['scope'][] = me.value?.admin ? ['full', 'read', 'admin'] : ['full', 'read'];
	const run = async (form: FormData): Promise<void> => {
		const days = Number(form.get('days'));
		const profile = String(form.get('profile') ?? '');
		made(await api.post<NewKey>('/keys', { name: String(form.get('name') ?? '').trim(), scope, ...(days > 0 && { expires_in_s: days * DAY_S }), ...(profile && { profile }) }, { owner }));
	};
	return (
		<ActionDialog title={t.make} action={t.makeAction} onClose={onClose} run={run}>
			<Field label={t.name} hint={t.nameHint} control={(a) => <input {...a} class="input" name="name" maxLength={100} autocomplete="off" autofocus />} />
			<fieldset class="choices">
				<legend>{t.scope}</legend>
				{scopes.map((s) => <label key={s}><input type="radio" name="scope" value={s} checked={scope === s} onChange={() => setScope(s)} /><span><span>{t.scopes[s]}</span><span class="quiet small">{t.scopeHints[s]}</span></span></label>)}
			</fieldset>
			<div class="two">
				<Field label={t.expires} control={(a) => <select {...a} class="input" name="days">{t.lives.map(([days, words]) => <option value={days} selected={days === 90}>{words}</option>)}</select>} />
				<Field label={t.profile} control={(a) => <select {...a} class="input" name="profile"><option value="">{t.anyProfile}</option>{['full', 'code', 'classic', 'both', 'all'].map((p) => <option value={p}>{p}</option>)}</select>} />
			</div>
		</ActionDialog>
	);
}

/** The key is shown here and never again. Escape does not close this one by accident. */
function MadeDialog({ made, onClose }: { made: NewKey; onClose: () => void }) {
	const config = snippets(session.value!.base, true).find((s) => s.id === 'code')!.value.replace('Bearer KEY', `Bearer ${made.key}`);
	return (
		<Dialog title={t.madeTitle(labelOf(made))} wide onClose={() => undefined}>
			<div class="stack">
				<p>{t.once}</p>
				<Snippet value={made.key} label={t.key} />
				<p class="quiet">{t.useIt}</p>
				<Snippet value={config} label={text.connect.clients.code!} />
				<div class="actions"><Button label={t.copied} look="primary" onClick={onClose} /></div>
			</div>
		</Dialog>
	);
}
