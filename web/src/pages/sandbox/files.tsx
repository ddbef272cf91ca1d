// SPDX-License-Identifier: Apache-2.0
// The workspace: a tree, a preview beside it, and uploads.

import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, filePath, Problem, url } from '../../api/client.ts';
import { me, notebook } from '../../api/state.ts';
import type { FileEntry } from '../../api/types.ts';
import { addUploads, dropUpload, sendAgain, uploads, type Upload } from '../../api/uploads.ts';
import { go, href } from '../../app/router.ts';
import { Button, Empty, Fault, Field, Loading, Search, useLoad } from '../../parts/basics.tsx';
import { Icon } from '../../parts/icon.tsx';
import { ActionDialog, Menu } from '../../parts/overlay.tsx';
import { isDockerfile } from '../../pure/build.ts';
import { bytes, when } from '../../pure/format.ts';
import { iconOf, kindOf } from '../../pure/kinds.ts';
import { FOLDERS_MAX, walk } from '../../pure/walk.ts';
import { text } from '../../text/en.ts';
import { DockerfileDialog, useMakesImages } from '../image-dialogs.tsx';
import type { TabProps } from '../sandbox.tsx';
import { PreviewOf } from './preview.tsx';

const t = text.files;

type Order = 'name' | 'newest' | 'size';
const order = signal<Order>('name');
const hidden = signal(false); // names with a dot, such as .output, where whole outputs of runs are, are shown

const by: Record<Order, (a: FileEntry, b: FileEntry) => number> = {
	name: (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }),
	newest: (a, b) => b.modified_at.localeCompare(a.modified_at),
	size: (a, b) => b.size - a.size,
};

interface Ask { what: 'remove' | 'rename' | 'folder' | 'image'; path: string; folder?: boolean }

interface Listing { files: FileEntry[]; more: boolean }
export function Files({ id, s, parts }: TabProps) {
	const path = parts.join('/');
	const [ask, setAsk] = useState<Ask | null>(null);
	const close = (): void => setAsk(null);
	const changed = (): void => void (notebook(id).files.value++);
	const chosen = useRef<HTMLInputElement>(null);
	const can = !me.value?.read_only;
	const builds = useMakesImages(s !== null);
	const [words, setWords] = useState('');
	return (
		<div class={`files ${path ? 'one' : ''}`}>
			<section class="files-list" aria-label={t.title}>
				<div class="files-tools">
					{can && <Button icon="upload" label={t.upload} tiny onClick={() => chosen.current!.click()} />}
					{can && <Button icon="folder-plus" label={t.newFolder} tiny onClick={() => setAsk({ what: 'folder', path: '' })} />}
					<a class="button tiny" href={url(`/sandboxes/${encodeURIComponent(id)}/files`, { archive: 'zip' })} download=""><Icon name="download" size={14} />{t.downloadAll}</a>
					<input ref={chosen} type="file" multiple hidden aria-label={t.upload} onChange={(e) => {
						addUploads(id, [...e.currentTarget.files ?? []].map((f) => ({ path: f.name, file: f })));
						e.currentTarget.value = '';
					}} />
				</div>
				<div class="files-order"><Search value={words} label={t.find} onInput={setWords} /></div>
				<div class="files-order small">
					<select class="input" aria-label={t.order} value={order.value} onChange={(e) => (order.value = e.currentTarget.value as Order)}>{Object.entries(t.orders).map(([k, words]) => <option value={k}>{words}</option>)}</select>
					<label class="row"><input type="checkbox" checked={hidden.value} onChange={(e) => (hidden.value = e.currentTarget.checked)} />{t.hidden}</label>
				</div>
				{uploads(id).value.map((u) => <Progress key={u.id} sandbox={id} u={u} />)}
				<div class="tree" onKeyDown={treeKeys}>{words.trim() ? <Found id={id} words={words.trim().toLowerCase()} chosen={path} /> : <Folder id={id} path="" depth={0} chosen={path} ask={can ? setAsk : undefined} builds={builds} />}</div>
			</section>
			<section class="files-preview" aria-label={t.preview}>
				{path ? <PreviewOf key={path} sandbox={id} path={path} live={s !== null} build={builds && isDockerfile(path) ? () => setAsk({ what: 'image', path }) : undefined} /> : <Empty icon="eye" title={t.choose}><p>{can ? t.chooseWhat : ''}</p></Empty>}
			</section>
			{s && ask?.what === 'image' && <DockerfileDialog of={s} path={ask.path} onClose={close} />}
			{ask?.what === 'remove' && (
				<ActionDialog title={text.home.deleteAsk(ask.path)} action={text.common.delete} alarm onClose={close} run={() => api.remove(`/sandboxes/${encodeURIComponent(id)}/files/${filePath(ask.path)}`, { recursive: ask.folder || undefined }).then(changed)}>
					<p>{ask.folder ? t.deleteFolderWhat : t.deleteWhat}</p>
				</ActionDialog>
			)}
			{ask?.what === 'rename' && (
				<ActionDialog title={t.renameAsk(ask.path)} action={text.common.save} onClose={close} run={async (f) => {
					const to = String(f.get('to')).trim();
					await api.patch(`/sandboxes/${encodeURIComponent(id)}/files/${filePath(ask.path)}`, { to });
					changed();
					if (path === ask.path)
						go('sandboxes', id, 'files', ...to.split('/'));
				}}>
					<Field label={t.newName} hint={t.newNameHint} control={(a) => <input {...a} class="input mono" name="to" required defaultValue={ask.path} autocomplete="off" spellcheck={false} autofocus />} />
				</ActionDialog>
			)}
			{ask?.what === 'folder' && (
				<ActionDialog title={t.newFolder} action={t.make} onClose={close} run={(f) => api.post(`/sandboxes/${encodeURIComponent(id)}/folders`, { path: String(f.get('path')).trim() }).then(changed)}>
					<Field label={t.newName} hint={t.newFolderHint} control={(a) => <input {...a} class="input mono" name="path" required defaultValue={ask.path && `${ask.path}/`} autocomplete="off" spellcheck={false} autofocus />} />
				</ActionDialog>
			)}
		</div>
	);
}

function Progress({ sandbox, u }: { sandbox: string; u: Upload }) {
	const exists = u.error instanceof Problem && u.error.code === 'file_exists';
	const never = u.error instanceof Problem && u.error.status === 413; // the same again would not help
	const share = u.size ? Math.round(100 * u.sent / u.size) : 100;
	return (
		<div class="upload" role="status">
			<div class="row"><span class="clip">{u.name}</span><span class="small quiet push">{u.error ? '' : t.sent(bytes(u.sent), bytes(u.size))}</span><Button icon="x" label={text.common.cancel} iconOnly tiny look="plain" onClick={() => dropUpload(sandbox, u.id)} /></div>
			{u.error ? <div class="small stack tight" role="alert"><span class="cell-error">{exists ? t.exists : (u.error as Error).message}</span>{never ? <span>{t.tooLargeWhat}</span> : <span><Button label={exists ? t.replace : text.common.again} tiny onClick={() => sendAgain(sandbox, u, exists)} /></span>}</div>
				: <div class="bar" role="progressbar" aria-label={u.name} aria-valuenow={share} aria-valuemin={0} aria-valuemax={100}><div style={{ width: `${share}%` }} /></div>}
		</div>
	);
}

const FOUND_MAX = 200;

/** Files and folders of the whole workspace whose names have the words. The folders are listed once, not at each key. */
function Found({ id, words, chosen }: { id: string; words: string; chosen: string }) {
	const turn = notebook(id).files.value;
	const all = useLoad((signal) => walk<FileEntry>((path) => api.get<Listing>(`/sandboxes/${encodeURIComponent(id)}/files`, { path }, signal), (f) => hidden.value || !f.name.startsWith('.')), [id, turn, hidden.value]);
	if (all.error && !all.value)
		return <Fault error={all.error} retry={all.again} />;
	if (!all.value)
		return <Loading />;
	const rows = all.value.files.filter((f) => f.name.toLowerCase().includes(words)).sort((a, b) => by[order.value](a, b) || a.path.localeCompare(b.path));
	return (
		<>
			<ul>
				{rows.slice(0, FOUND_MAX).map((f) => (
					<li key={f.path}>
						<div class={`entry found ${chosen === f.path ? 'chosen' : ''}`}>
							{f.type === 'folder'
								? <span class="entry-name"><Icon name="folder" size={14} /><FoundName path={f.path} /></span>
								: <a class="entry-name" aria-current={chosen === f.path ? 'true' : undefined} href={href('sandboxes', id, 'files', ...f.path.split('/'))}><Icon name={iconOf(kindOf(f.name))} size={14} /><FoundName path={f.path} /></a>}
							{f.type !== 'folder' && <span class="small quiet entry-size" title={when(f.modified_at)}>{bytes(f.size)}</span>}
						</div>
					</li>
				))}
			</ul>
			<p class="small quiet tree-none" role="status">{rows.length > FOUND_MAX ? t.foundFirst(FOUND_MAX, rows.length) : rows.length ? t.found(rows.length) : t.notFound}{!all.value.whole && ` ${t.notAll(FOLDERS_MAX)}`}</p>
		</>
	);
}

function FoundName({ path }: { path: string }) {
	const at = path.lastIndexOf('/') + 1;
	return <span class="clip" title={path}>{path.slice(at)}{at > 0 && <span class="small quiet"> {path.slice(0, at - 1)}</span>}</span>;
}

interface FolderProps { id: string; path: string; depth: number; chosen: string; ask?: (a: Ask) => void; builds: boolean }

function Folder({ id, path, depth, chosen, ask, builds }: FolderProps) {
	const turn = notebook(id).files.value;
	const list = useLoad((signal) => api.get<Listing>(`/sandboxes/${encodeURIComponent(id)}/files`, { path }, signal), [id, path, turn]);
	if (list.error && !list.value)
		return <Fault error={list.error} retry={list.again} />;
	if (!list.value)
		return depth ? null : <Loading />;
	const rows = list.value.files.filter((f) => hidden.value || !f.name.startsWith('.') || `${chosen}/`.startsWith(`${path ? `${path}/` : ''}${f.name}/`))
		.sort((a, b) => Number(b.type === 'folder') - Number(a.type === 'folder') || by[order.value](a, b) || by.name(a, b));
	if (rows.length === 0)
		return depth ? <p class="small quiet tree-none">{t.emptyFolder}</p> : <p class="quiet tree-none">{t.empty}</p>;
	return (
		<ul>
			{rows.map((f) => <Entry key={f.name} id={id} f={f} path={path ? `${path}/${f.name}` : f.name} depth={depth} chosen={chosen} ask={ask} builds={builds} />)}
			{list.value.more && <li class="small quiet tree-none">{t.moreEntries}</li>}
		</ul>
	);
}

function Entry({ id, f, path, depth, chosen, ask, builds }: { f: FileEntry } & FolderProps) {
	const folder = f.type === 'folder';
	const [open, setOpen] = useState(chosen.startsWith(`${path}/`));
	useEffect(() => {
		if (chosen.startsWith(`${path}/`))
			setOpen(true);
	}, [chosen]);
	const pad = { paddingInlineStart: `${8 + depth * 16}px` };
	const name = path.split('/').pop()!;
	return (
		<li>
			<div class={`entry ${chosen === path ? 'chosen' : ''}`} style={pad}>
				{folder
					? <button type="button" aria-expanded={open ? 'true' : 'false'} class="entry-name" onClick={() => setOpen(!open)}><Icon name={open ? 'chevron-down' : 'chevron-right'} size={14} /><Icon name="folder" size={14} /><span class="clip">{name}</span></button>
					: <a aria-current={chosen === path ? 'true' : undefined} class="entry-name" href={href('sandboxes', id, 'files', ...path.split('/'))}><span class="entry-space" /><Icon name={iconOf(kindOf(name))} size={14} /><span class="clip">{name}</span></a>}
				{!folder && <span class="small quiet entry-size" title={when(f.modified_at)}>{bytes(f.size)}</span>}
				<Menu label={`${text.common.more}: ${name}`} items={[
					{ icon: 'download', label: text.common.download, href: url(folder ? `/sandboxes/${encodeURIComponent(id)}/files/${filePath(path)}` : `/sandboxes/${encodeURIComponent(id)}/files/${filePath(path)}`, folder ? { archive: 'zip' } : undefined), download: true },
					...(ask ? [
						...(builds && !folder && isDockerfile(path) ? [{ icon: 'hard-drive', label: text.images.fileAction, run: () => ask({ what: 'image', path }) }] : []),
						{ icon: 'pencil', label: text.home.rename, run: () => ask({ what: 'rename', path }) },
						...(folder ? [{ icon: 'folder-plus', label: t.newFolder, run: () => ask({ what: 'folder', path }) }] : []),
						{ icon: 'trash-2', label: text.common.delete, alarm: true, run: () => ask({ what: 'remove', path, folder }) },
					] : []),
				]} />
			</div>
			{folder && open && <Folder id={id} path={path} depth={depth + 1} chosen={chosen} ask={ask} builds={builds} />}
		</li>
	);
}

/** Arrow keys in the tree: up, down, open, close. */
function treeKeys(e: KeyboardEvent): void {
	const items = [...(e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('.entry-name')];
	const at = items.indexOf(e.target as HTMLElement);
	if (at < 0)
		return;
	const open = items[at]!.getAttribute('aria-expanded');
	if (e.key === 'ArrowDown' || e.key === 'ArrowUp')
		items[at + (e.key === 'ArrowDown' ? 1 : -1)]?.focus();
	else if ((e.key === 'ArrowRight' && open === 'false') || (e.key === 'ArrowLeft' && open === 'true'))
		items[at]!.click();
	else
		return;
	e.preventDefault();
}
