// SPDX-License-Identifier: Apache-2.0
// Dialogs that make, rename, limit, fork and delete a sandbox.

import { useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import { dropSandbox, keepSandbox } from '../api/state.ts';
import type { Sandbox } from '../api/types.ts';
import { go } from '../app/router.ts';
import { Field, useLoad } from '../parts/basics.tsx';
import { ActionDialog, say } from '../parts/overlay.tsx';
import { count } from '../pure/format.ts';
import { text } from '../text/en.ts';

const t = text.home;

export function nameOf(s: Sandbox): string {
	return s.name || s.id.slice(0, 13);
}

const value = (form: FormData, name: string): string => String(form.get(name) ?? '').trim();

/** NAME=value lines as an object; a line of another form is refused. */
function envOf(lines: string): Record<string, string> | undefined {
	const env: Record<string, string> = {};
	for (const line of lines.split('\n').filter((l) => l.trim() !== '')) {
		const at = line.indexOf('=');
		if (at < 1)
			throw new Error(t.envWrong(line));
		env[line.slice(0, at).trim()] = line.slice(at + 1);
	}
	return Object.keys(env).length ? env : undefined;
}

export function CreateDialog({ onClose }: { onClose: () => void }) {
	const [kind, setKind] = useState('session');
	const create = async (form: FormData): Promise<void> => {
		const body: Record<string, unknown> = { kind, env: envOf(value(form, 'env')) };
		for (const name of ['name', 'image', 'level', 'network'])
			body[name] = value(form, name) || undefined;
		for (const name of ['memory_mb', 'cpus', 'disk_mb', 'timeout_s', 'ttl_s'])
			body[name] = value(form, name) ? Number(value(form, name)) : undefined;
		if (form.get('root'))
			body['root'] = true;
		if (body['network'] === 'allowlist')
			body['domains'] = value(form, 'domains').split(/[\s,]+/).filter(Boolean);
		const s = await api.post<Sandbox>('/sandboxes', body);
		keepSandbox(s);
		go('sandboxes', s.id);
	};
	return (
		<ActionDialog title={t.create} action={t.createAction} onClose={onClose} run={create}>
			<Field label={t.name} hint={t.nameHint} control={(a) => <input {...a} class="input" name="name" maxLength={100} autocomplete="off" autofocus />} />
			<Field label={t.kind} hint={t.kindHints[kind]} control={(a) => (
				<select {...a} class="input" value={kind} onChange={(e) => setKind(e.currentTarget.value)}>
					{['session', 'stored'].map((k) => <option value={k}>{t.kinds[k]}</option>)}
				</select>
			)} />
			<details class="more">
				<summary>{t.limits}</summary>
				<More />
			</details>
		</ActionDialog>
	);
}

interface Permitted { image?: string; images?: string[]; network?: string; network_max?: string; level?: string; levels?: string[]; root?: boolean; max?: Record<string, number> }

const networks = ['none', 'packages', 'allowlist', 'open']; // each one is wider than the one before

/** Only what this server permits can be chosen. */
function More() {
	const policy = useLoad((signal) => api.get<Permitted>('/policy', undefined, signal), []).value ?? {};
	const server = useLoad((signal) => api.get<{ images?: { name: string }[] }>('/server', undefined, signal), []).value;
	const [network, setNetwork] = useState('');
	const may = policy.images ?? [];
	const images = (server?.images ?? []).map((i) => i.name).filter((name) => may.includes(name) || may.includes('*'));
	const numbers: [string, string][] = [['memory_mb', t.memoryMb], ['cpus', t.cpus], ['disk_mb', t.diskMb], ['timeout_s', t.timeout], ['ttl_s', t.ttl]];
	return (
		<div class="stack">
			<p class="quiet small">{t.defaults}</p>
			<div class="two">
				<Choice label={t.image} name="image" usual={policy.image} of={images} />
				{(policy.levels?.length ?? 0) > 1 && <Choice label={t.level} name="level" usual={policy.level} of={policy.levels!} />}
				<Field label={t.network} control={(a) => (
					<select {...a} class="input" name="network" value={network} onChange={(e) => setNetwork(e.currentTarget.value)}>
						{['', ...networks.slice(0, networks.indexOf(policy.network_max ?? '') + 1)].map((k) => <option value={k}>{t.networks[k]}</option>)}
					</select>
				)} />
				{numbers.map(([name, label]) => <Field label={label} hint={policy.max?.[name] ? t.most(count(policy.max[name])) : undefined} control={(a) => <input {...a} class="input" name={name} type="number" min="0" max={policy.max?.[name]} step={name === 'cpus' ? '0.1' : '1'} />} />)}
			</div>
			{network === 'allowlist' && <Field label={t.domains} hint={t.domainsHint} control={(a) => <textarea {...a} class="input mono" name="domains" rows={2} autocomplete="off" spellcheck={false} />} />}
			{policy.root && <label class="row"><input type="checkbox" name="root" />{t.root}</label>}
			<Field label={t.env} hint={t.envHint} control={(a) => <textarea {...a} class="input mono" name="env" rows={3} autocomplete="off" spellcheck={false} />} />
		</div>
	);
}

function Choice({ label, name, usual, of }: { label: string; name: string; usual?: string; of: string[] }) {
	return <Field label={label} control={(a) => <select {...a} class="input" name={name}><option value="">{t.usual(usual ?? '')}</option>{of.map((x) => <option value={x}>{x}</option>)}</select>} />;
}

export function RenameDialog({ of, onClose }: { of: Sandbox; onClose: () => void }) {
	const rename = async (form: FormData): Promise<void> => {
		keepSandbox(await api.patch<Sandbox>(`/sandboxes/${encodeURIComponent(of.id)}`, { name: value(form, 'name') }));
		say(t.renamed);
	};
	return (
		<ActionDialog title={t.rename} action={text.common.save} onClose={onClose} run={rename}>
			<Field label={t.name} control={(a) => <input {...a} class="input" name="name" maxLength={100} defaultValue={of.name} autocomplete="off" autofocus />} />
		</ActionDialog>
	);
}

export function KeepDialog({ of, onClose }: { of: Sandbox; onClose: () => void }) {
	const keep = async (form: FormData): Promise<void> => {
		keepSandbox(await api.post<Sandbox>(`/sandboxes/${encodeURIComponent(of.id)}/keep`, { name: value(form, 'name') || undefined }));
		say(text.sandbox.kept);
	};
	return (
		<ActionDialog title={text.sandbox.keepAsk} action={text.sandbox.keep} onClose={onClose} run={keep}>
			<p>{text.sandbox.keepWhat}</p>
			<p class="quiet small">{text.sandbox.keepNot}</p>
			<Field label={t.name} hint={t.nameHint} control={(a) => <input {...a} class="input" name="name" maxLength={100} defaultValue={of.name} autocomplete="off" autofocus />} />
		</ActionDialog>
	);
}

/** The limits that a sandbox can get while it lives. What was not touched is not sent. */
export function LimitsDialog({ of, onClose }: { of: Sandbox; onClose: () => void }) {
	const rows: ['memory_mb' | 'cpus' | 'processes' | 'timeout_s' | 'ttl_s', string][] = [['memory_mb', t.memoryMb], ['cpus', t.cpus], ['processes', text.limits.processes], ['timeout_s', t.timeout], ['ttl_s', t.ttl]];
	const change = async (form: FormData): Promise<void> => {
		const changed = rows.map(([name]) => [name, Number(value(form, name))] as const).filter(([name, n]) => n !== of.limits[name]);
		if (changed.length > 0)
			keepSandbox(await api.patch<Sandbox>(`/sandboxes/${encodeURIComponent(of.id)}`, Object.fromEntries(changed)));
		say(text.limits.changed);
	};
	return (
		<ActionDialog title={text.limits.change} action={text.common.save} onClose={onClose} run={change}>
			<p class="quiet small">{text.limits.changeWhat}</p>
			<div class="two">
				{rows.map(([name, label]) => <Field label={label} control={(a) => <input {...a} class="input" name={name} type="number" min="0" step={name === 'cpus' ? '0.1' : '1'} defaultValue={String(of.limits[name])} required />} />)}
			</div>
		</ActionDialog>
	);
}

export function ForkDialog({ of, onClose }: { of: Sandbox; onClose: () => void }) {
	const fork = async (form: FormData): Promise<void> => {
		const made = await api.post<{ id?: string; sandbox?: Sandbox }>(`/sandboxes/${encodeURIComponent(of.id)}/forks`, {});
		const id = made.id ?? made.sandbox?.id;
		if (!id)
			return;
		const name = value(form, 'name');
		if (name)
			await api.patch(`/sandboxes/${encodeURIComponent(id)}`, { name });
		keepSandbox(await api.get<Sandbox>(`/sandboxes/${encodeURIComponent(id)}`));
		say(t.forked(name || id.slice(0, 13)));
		go('sandboxes', id);
	};
	return (
		<ActionDialog title={t.fork} action={t.forkAction} onClose={onClose} run={fork}>
			<p class="quiet">{t.forkWhat}</p>
			<Field label={t.forkName} control={(a) => <input {...a} class="input" name="name" maxLength={100} autocomplete="off" autofocus />} />
		</ActionDialog>
	);
}

export function DeleteDialog({ of, onClose }: { of: Sandbox; onClose: () => void }) {
	const remove = async (): Promise<void> => {
		await api.remove(`/sandboxes/${encodeURIComponent(of.id)}`);
		dropSandbox(of.id);
		if (location.hash.includes(of.id))
			go();
	};
	return (
		<ActionDialog title={t.deleteAsk(nameOf(of))} action={text.common.delete} alarm onClose={onClose} run={remove}>
			<p>{t.deleteWhat}</p>
		</ActionDialog>
	);
}
