// SPDX-License-Identifier: Apache-2.0
// One sandbox: its notebook, files, terminal, processes, packages, checkpoints and limits. A sandbox that has ended still has its notebook.

import type { ComponentChildren, FunctionComponent } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { api, Problem, url } from '../api/client.ts';
import { keepSandbox, me, notebook, sandboxes, stopRuns } from '../api/state.ts';
import type { Sandbox } from '../api/types.ts';
import { addUploads, filesOf } from '../api/uploads.ts';
import type { PageProps } from '../app/pages.ts';
import { go, href } from '../app/router.ts';
import { Button, Fault, Loading, useClock } from '../parts/basics.tsx';
import { Icon } from '../parts/icon.tsx';
import { ActionDialog, Menu, say, sayFault } from '../parts/overlay.tsx';
import { age } from '../pure/format.ts';
import { text } from '../text/en.ts';
import { idle, stateOf } from './home.tsx';
import { CommitDialog, useMakesImages } from './image-dialogs.tsx';
import { DeleteDialog, ForkDialog, KeepDialog, nameOf, RenameDialog } from './sandbox-dialogs.tsx';
import { About } from './sandbox/about.tsx';
import { Checkpoints, restart } from './sandbox/checkpoints.tsx';
import { Files } from './sandbox/files.tsx';
import { NotebookView } from './sandbox/notebook.tsx';
import { Packages } from './sandbox/packages.tsx';
import { PortOffers } from './sandbox/ports.tsx';
import { Processes } from './sandbox/processes.tsx';
import { Terminal } from './sandbox/terminal.tsx';

const t = text.sandbox;

export interface TabProps {
	id: string;
	s: Sandbox | null; // null: it has ended
	parts: string[]; // of the address, behind the tab
}

const tabs: { path: string; icon: string; title: string; view: FunctionComponent<TabProps> }[] = [
	{ path: 'notebook', icon: 'notebook-pen', title: t.tabs.notebook, view: NotebookView },
	{ path: 'files', icon: 'folder', title: t.tabs.files, view: Files },
	{ path: 'terminal', icon: 'terminal', title: t.tabs.terminal, view: Terminal },
	{ path: 'processes', icon: 'activity', title: t.tabs.processes, view: Processes },
	{ path: 'packages', icon: 'package', title: t.tabs.packages, view: Packages },
	{ path: 'checkpoints', icon: 'git-branch', title: t.tabs.checkpoints, view: Checkpoints },
	{ path: 'limits', icon: 'shield', title: t.tabs.limits, view: About },
];

export default function SandboxPage({ parts }: PageProps) {
	const [id = '', tab = 'notebook', ...rest] = parts;
	const s = sandboxes.value?.get(id) ?? null;
	const ended = notebook(id).ended.value;
	const [error, setError] = useState<unknown>(null);
	const [gone, setGone] = useState(false);
	const load = (): void => void api.get<Sandbox>(`/sandboxes/${encodeURIComponent(id)}`).then((x) => (keepSandbox(x), setError(null), setGone(false)), (e: unknown) => e instanceof Problem && e.status === 404 ? setGone(true) : setError(e));
	useEffect(load, [id]);
	useEffect(() => document.querySelector('.sandbox-tabs [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }), [tab, s === null]); // on a narrow screen
	if (error)
		return <div class="page"><Fault error={error} retry={load} /></div>;
	if (!s && !gone && !ended)
		return <Loading />;
	const view = (s ? tabs : tabs.slice(0, 1)).find((x) => x.path === tab) ?? tabs[0]!;
	const can = s !== null && !me.value?.read_only;
	return (
		<DropZone sandbox={can ? id : null}>
			<Head id={id} s={s} />
			{s && (
				<nav class="tabs sandbox-tabs" aria-label={t.parts}>
					{tabs.map((x) => <a href={href('sandboxes', id, x.path)} aria-current={x === view ? 'page' : undefined}><Icon name={x.icon} />{x.title}</a>)}
				</nav>
			)}
			{s && <PortOffers key={`ports ${id}`} id={id} s={s} quiet={view.path === 'processes'} />}
			<view.view key={id} id={id} s={s} parts={rest} />
		</DropZone>
	);
}

/** Files that are dropped anywhere on a sandbox go into its workspace. */
function DropZone({ sandbox, children }: { sandbox: string | null; children: ComponentChildren }) {
	const [over, setOver] = useState(false);
	const has = (e: DragEvent): boolean => Boolean(sandbox && e.dataTransfer?.types.includes('Files'));
	const drop = (e: DragEvent): void => {
		setOver(false);
		if (!has(e))
			return;
		e.preventDefault();
		void filesOf(e.dataTransfer!).then((files) => {
			addUploads(sandbox!, files);
			go('sandboxes', sandbox!, 'files');
		}, sayFault);
	};
	return (
		<div class="drop-zone" onDragOver={(e) => has(e) && (e.preventDefault(), setOver(true))} onDragLeave={(e) => !e.currentTarget.contains(e.relatedTarget as Node | null) && setOver(false)} onDrop={drop}>
			{children}
			{over && <div class="drop" aria-hidden="true"><Icon name="upload" size={28} />{text.files.dropHere}</div>}
		</div>
	);
}

function Head({ id, s }: { id: string; s: Sandbox | null }) {
	const [ask, setAsk] = useState<'rename' | 'restart' | 'fork' | 'keep' | 'image' | 'delete' | null>(null);
	const close = (): void => setAsk(null);
	const images = useMakesImages(Boolean(s?.root));
	return (
		<header class="sandbox-head">
			<a class="button plain icon-only" href={href()} aria-label={text.nav.home} title={text.nav.home}><Icon name="arrow-left" /></a>
			<h1 class="clip" title={s?.name}>{s ? nameOf(s) : t.endedName(id.slice(0, 13))}</h1>
			{s ? <State s={s} /> : <span class="tag">{t.ended}</span>}
			{s?.kind === 'session' && <Ending s={s} />}
			{s?.kind === 'session' && s.keepable && !me.value?.read_only && <Button icon="save" label={t.keep} tiny onClick={() => setAsk('keep')} />}
			<span class="push row">
				{s?.busy && <Button icon="square" label={t.stop} tiny look="alarm" onClick={() => void stopRuns(id).then(() => say(text.home.stopped), sayFault)} />}
				<Menu label={t.more} items={[
					...(s && !me.value?.read_only ? [
						{ icon: 'pencil', label: text.home.rename, run: () => setAsk('rename') },
						{ icon: 'rotate-ccw', label: t.restart, run: () => setAsk('restart') },
						{ icon: 'git-fork', label: text.home.fork, run: () => setAsk('fork') },
						...(images ? [{ icon: 'hard-drive', label: text.images.commitAction, run: () => setAsk('image') }] : []),
					] : []),
					{ icon: 'notebook-pen', label: t.exportNotebook, href: url(`/notebooks/${encodeURIComponent(id)}/export`, { format: 'ipynb' }), download: true },
					{ icon: 'file-text', label: t.exportReport, href: url(`/notebooks/${encodeURIComponent(id)}/export`, { format: 'html' }), download: true },
					...(s ? [{ icon: 'download', label: t.downloadAll, href: url(`/sandboxes/${encodeURIComponent(id)}/files`, { archive: 'zip' }), download: true }] : []),
					...(s && !me.value?.read_only ? [{ icon: 'trash-2', label: text.common.delete, alarm: true, run: () => setAsk('delete') }] : []),
				]} />
			</span>
			{s && ask === 'rename' && <RenameDialog of={s} onClose={close} />}
			{s && ask === 'restart' && <ActionDialog title={t.restartAsk} action={t.restart} onClose={close} run={() => restart(id)}><p>{t.restartWhat}</p></ActionDialog>}
			{s && ask === 'keep' && <KeepDialog of={s} onClose={close} />}
			{s && ask === 'fork' && <ForkDialog of={s} onClose={close} />}
			{s && ask === 'image' && <CommitDialog of={s} onClose={close} />}
			{s && ask === 'delete' && <DeleteDialog of={s} onClose={close} />}
		</header>
	);
}

const SOON_S = 600, LOOK_MS = 30_000;

/** How long a session has left, when that is little. What uses it elsewhere may not have told this page, so the server is asked meanwhile. */
function Ending({ s }: { s: Sandbox }) {
	useClock();
	const left = s.limits.ttl_s - idle(s);
	const soon = left <= SOON_S && !s.busy;
	useEffect(() => {
		if (!soon)
			return;
		const look = (): void => void api.get<Sandbox>(`/sandboxes/${encodeURIComponent(s.id)}`).then(keepSandbox, () => undefined); // its end comes as an event
		look();
		const timer = setInterval(look, LOOK_MS);
		return () => clearInterval(timer);
	}, [s.id, soon]);
	return soon ? <span class="tag bad" role="timer" title={t.endsWhy}>{left > 0 ? t.endsIn(age(left)) : t.endsNow}</span> : null;
}

function State({ s }: { s: Sandbox }) {
	useClock();
	const state = stateOf(s);
	return (
		<>
			<span class={`tag ${state === 'busy' ? 'on' : ''}`}><span class={`dot ${state === 'busy' ? 'busy' : state === 'ready' ? 'on' : ''}`} />{state === 'ready' ? text.home.idleFor(age(idle(s))) : text.home.states[state]}</span>
			{s.public && <span class="tag bad" title={text.home.publicWhat}>{text.home.public}</span>}
			<span class="tag wide-only">{s.image}</span>
			<span class="tag wide-only" title={text.home.kindHints[s.kind]}>{text.home.kinds[s.kind]}</span>
		</>
	);
}
