// SPDX-License-Identifier: Apache-2.0
// Checkpoints as a tree: each one stands under the one from which its state came.

import { useState } from 'preact/hooks';
import { api } from '../../api/client.ts';
import { me, notebook } from '../../api/state.ts';
import type { Checkpoint } from '../../api/types.ts';
import { go } from '../../app/router.ts';
import { Button, Empty, Fault, Field, Loading, useClock, useLoad } from '../../parts/basics.tsx';
import { Icon } from '../../parts/icon.tsx';
import { ActionDialog, Menu, say } from '../../parts/overlay.tsx';
import { age, bytes } from '../../pure/format.ts';
import { tree, type Branch } from '../../pure/tree.ts';
import { text } from '../../text/en.ts';
import type { TabProps } from '../sandbox.tsx';

const t = text.checkpoints;
type Ask = { what: 'make' } | { what: 'restore' | 'remove' | 'branch'; name: string } | null;

const address = (id: string, name: string): string => `/sandboxes/${encodeURIComponent(id)}/checkpoints/${encodeURIComponent(name)}`;

/** Saves what is there as a checkpoint, whose name begins with NAME and is not used yet: a used one would be replaced. */
async function keep(id: string, name: string): Promise<string> {
	const { checkpoints } = await api.get<{ checkpoints: Checkpoint[] }>(`/sandboxes/${encodeURIComponent(id)}/checkpoints`);
	const first = name.slice(0, 60);
	let free = first;
	for (let n = 2; checkpoints.some((c) => c.name === free); n++)
		free = `${first}-${n}`;
	await api.post(`/sandboxes/${encodeURIComponent(id)}/checkpoints`, { name: free });
	return free;
}

/** A new interpreter: the files alone of a checkpoint of this moment, which keeps the variables. */
export async function restart(id: string): Promise<void> {
	const kept = await keep(id, 'before-restart');
	await api.post(`${address(id, kept)}/restore`, { files_only: true });
	notebook(id).checkpoints.value++;
	say(text.sandbox.restarted(kept));
}

/** Goes back to a checkpoint. The present state is kept as a checkpoint first, so that nothing is lost. */
export async function goOnFrom(id: string, name: string, filesOnly = false): Promise<void> {
	await keep(id, `before-${name}`);
	await api.post(`${address(id, name)}/restore`, { files_only: filesOnly });
	say(t.restored(name));
}

export function Checkpoints({ id }: TabProps) {
	const [ask, setAsk] = useState<Ask>(null);
	const turn = notebook(id).checkpoints.value;
	const list = useLoad((signal) => api.get<{ checkpoints: Checkpoint[] }>(`/sandboxes/${encodeURIComponent(id)}/checkpoints`, undefined, signal).then((r) => ({ rows: r.checkpoints, at: Date.now() })), [id, turn]);
	useClock();
	const can = !me.value?.read_only;
	const make = can && <Button icon="plus" label={t.make} look="primary" onClick={() => setAsk({ what: 'make' })} />;
	const rows = list.value?.rows;
	const since = (Date.now() - (list.value?.at ?? 0)) / 1000; // the list was loaded
	return (
		<div class="pane stack">
			{list.error && !rows ? <Fault error={list.error} retry={list.again} /> : !rows ? <Loading />
				: rows.length === 0 ? <Empty icon="git-branch" title={t.none}><p>{t.noneWhat}</p>{make}</Empty>
				: (
					<>
						<div class="page-head"><p class="quiet">{t.what}</p><span class="push">{make}</span></div>
						<ul class="checkpoints panel">{tree(rows).map((b) => <Row key={b.value.name} b={b} since={since} ask={can ? setAsk : undefined} />)}</ul>
					</>
				)}
			{ask && <Asked id={id} ask={ask} close={() => setAsk(null)} />}
		</div>
	);
}

function Row({ b, since, ask }: { b: Branch<Checkpoint>; since: number; ask?: (a: Ask) => void }) {
	const c = b.value;
	return (
		<li>
			<div class="checkpoint">
				<Icon name="git-branch" size={14} />
				<span class="checkpoint-name">{c.name}</span>
				<span class="tag wide-only" title={t.stateHints[c.state]}>{t.states[c.state] ?? c.state}</span>
				<span class="small quiet wide-only">{t.holds(c.files, bytes(c.bytes))}</span>
				<span class="small quiet">{t.ago(age(c.age_s + since))}</span>
				{ask && <span class="push row"><Button icon="rotate-ccw" label={t.restore} tiny onClick={() => ask({ what: 'restore', name: c.name })} /><Menu label={`${text.common.more}: ${c.name}`} items={[
					{ icon: 'git-fork', label: t.branch, run: () => ask({ what: 'branch', name: c.name }) },
					{ icon: 'trash-2', label: text.common.delete, alarm: true, run: () => ask({ what: 'remove', name: c.name }) },
				]} /></span>}
			</div>
			{b.children.length > 0 && <ul>{b.children.map((x) => <Row key={x.value.name} b={x} since={since} ask={ask} />)}</ul>}
		</li>
	);
}

function Asked({ id, ask, close }: { id: string; ask: NonNullable<Ask>; close: () => void }) {
	const changed = (): void => void (notebook(id).checkpoints.value++);
	const value = (f: FormData, name: string): string => String(f.get(name) ?? '').trim();
	if (ask.what === 'make')
		return (
			<ActionDialog title={t.make} action={text.common.save} onClose={close} run={(f) => api.post(`/sandboxes/${encodeURIComponent(id)}/checkpoints`, { name: value(f, 'name') }).then(changed)}>
				<Field label={t.name} hint={t.nameHint} control={(a) => <input {...a} class="input" name="name" required maxLength={64} pattern="[A-Za-z0-9_\-]+" autocomplete="off" autofocus />} />
			</ActionDialog>
		);
	if (ask.what === 'remove')
		return <ActionDialog title={text.home.deleteAsk(ask.name)} action={text.common.delete} alarm onClose={close} run={() => api.remove(address(id, ask.name)).then(changed)}><p>{t.removeWhat}</p></ActionDialog>;
	if (ask.what === 'restore')
		return (
			<ActionDialog title={t.restoreAsk(ask.name)} action={t.restore} onClose={close} run={(f) => goOnFrom(id, ask.name, f.get('files') === 'on').then(changed)}>
				<p>{t.restoreWhat(`before-${ask.name}`)}</p>
				<label class="row"><input type="checkbox" name="files" />{t.filesOnly}</label>
			</ActionDialog>
		);
	const branch = async (f: FormData): Promise<void> => {
		await goOnFrom(id, ask.name);
		await api.post(`/sandboxes/${encodeURIComponent(id)}/branches`, { branches: [{ name: value(f, 'name') || undefined, code: String(f.get('code')) }] });
		changed();
		go('sandboxes', id, 'notebook');
	};
	return (
		<ActionDialog title={t.branchAsk(ask.name)} action={t.branchRun} wide onClose={close} run={branch}>
			<p class="quiet">{t.branchWhat}</p>
			<Field label={t.branchName} control={(a) => <input {...a} class="input" name="name" maxLength={64} autocomplete="off" />} />
			<Field label={t.branchCode} control={(a) => <textarea {...a} class="input mono" name="code" rows={8} required spellcheck={false} autofocus />} />
		</ActionDialog>
	);
}
