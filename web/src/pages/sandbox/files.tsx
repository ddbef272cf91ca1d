// SPDX-License-Identifier: Apache-2.0
// The workspace: a tree, a preview beside it, and uploads.

import { useEffect, useRef, useState } from 'preact/hooks';
import { api, filePath, Problem, url } from '../../api/client.ts';
import { me, notebook } from '../../api/state.ts';
import type { FileEntry } from '../../api/types.ts';
import { addUploads, dropUpload, sendAgain, uploads, type Upload } from '../../api/uploads.ts';
import { href } from '../../app/router.ts';
import { Button, Empty, Fault, Loading, useLoad } from '../../parts/basics.tsx';
import { Icon } from '../../parts/icon.tsx';
import { ActionDialog, Menu } from '../../parts/overlay.tsx';
import { bytes, when } from '../../pure/format.ts';
import { iconOf, kindOf } from '../../pure/kinds.ts';
import { text } from '../../text/en.ts';
import type { TabProps } from '../sandbox.tsx';
import { PreviewOf } from './preview.tsx';

const t = text.files;

interface Listing { files: FileEntry[]; more: boolean }
export function Files({ id, s, parts }: TabProps) {
	const path = parts.join('/');
	const [remove, setRemove] = useState<string | null>(null);
	const chosen = useRef<HTMLInputElement>(null);
	const can = !me.value?.read_only;
	return (
		<div class={`files ${path ? 'one' : ''}`}>
			<section class="files-list" aria-label={t.title}>
				<div class="files-tools">
					{can && <Button icon="upload" label={t.upload} tiny onClick={() => chosen.current!.click()} />}
					<a class="button tiny" href={url(`/sandboxes/${id}/files`, { archive: 'zip' })} download=""><Icon name="download" size={14} />{t.downloadAll}</a>
					<input ref={chosen} type="file" multiple hidden aria-label={t.upload} onChange={(e) => {
						addUploads(id, [...e.currentTarget.files ?? []].map((f) => ({ path: f.name, file: f })));
						e.currentTarget.value = '';
					}} />
				</div>
				{uploads(id).value.map((u) => <Progress key={u.id} sandbox={id} u={u} />)}
				<div class="tree" onKeyDown={treeKeys}><Folder id={id} path="" depth={0} chosen={path} remove={can ? setRemove : undefined} /></div>
			</section>
			<section class="files-preview" aria-label={t.preview}>
				{path ? <PreviewOf key={path} sandbox={id} path={path} live={s !== null} /> : <Empty icon="eye" title={t.choose}><p>{can ? t.chooseWhat : ''}</p></Empty>}
			</section>
			{remove !== null && (
				<ActionDialog title={text.home.deleteAsk(remove)} action={text.common.delete} alarm onClose={() => setRemove(null)} run={() => api.remove(`/sandboxes/${id}/files/${filePath(remove)}`).then(() => void (notebook(id).files.value++))}>
					<p>{t.deleteWhat}</p>
				</ActionDialog>
			)}
		</div>
	);
}

function Progress({ sandbox, u }: { sandbox: string; u: Upload }) {
	const exists = u.error instanceof Problem && u.error.status === 409;
	const share = u.size ? Math.round(100 * u.sent / u.size) : 100;
	return (
		<div class="upload" role="status">
			<div class="row"><span class="clip">{u.name}</span><span class="small quiet push">{u.error ? '' : t.sent(bytes(u.sent), bytes(u.size))}</span><Button icon="x" label={text.common.cancel} iconOnly tiny look="plain" onClick={() => dropUpload(sandbox, u.id)} /></div>
			{u.error ? <div class="row small"><span class="cell-error">{exists ? t.exists : (u.error as Error).message}</span><Button label={exists ? t.replace : text.common.again} tiny onClick={() => sendAgain(sandbox, u, exists)} /></div>
				: <div class="bar" role="progressbar" aria-label={u.name} aria-valuenow={share} aria-valuemin={0} aria-valuemax={100}><div style={{ width: `${share}%` }} /></div>}
		</div>
	);
}

interface FolderProps { id: string; path: string; depth: number; chosen: string; remove?: (path: string) => void }

function Folder({ id, path, depth, chosen, remove }: FolderProps) {
	const turn = notebook(id).files.value;
	const list = useLoad((signal) => api.get<Listing>(`/sandboxes/${id}/files`, { path }, signal), [id, path, turn]);
	if (list.error && !list.value)
		return <Fault error={list.error} retry={list.again} />;
	if (!list.value)
		return depth ? null : <Loading />;
	const rows = list.value.files.slice().sort((a, b) => Number(b.type === 'folder') - Number(a.type === 'folder') || a.name.localeCompare(b.name, undefined, { numeric: true }));
	if (rows.length === 0)
		return depth ? <p class="small quiet tree-none">{t.emptyFolder}</p> : <p class="quiet tree-none">{t.empty}</p>;
	return (
		<ul>
			{rows.map((f) => <Entry key={f.name} id={id} f={f} path={path ? `${path}/${f.name}` : f.name} depth={depth} chosen={chosen} remove={remove} />)}
			{list.value.more && <li class="small quiet tree-none">{t.moreEntries}</li>}
		</ul>
	);
}

function Entry({ id, f, path, depth, chosen, remove }: { f: FileEntry } & FolderProps) {
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
					{ icon: 'download', label: text.common.download, href: url(folder ? `/sandboxes/${id}/files/${filePath(path)}` : `/sandboxes/${id}/files/${filePath(path)}`, folder ? { archive: 'zip' } : undefined), download: true },
					...(remove && !folder ? [{ icon: 'trash-2', label: text.common.delete, alarm: true, run: () => remove(path) }] : []),
				]} />
			</div>
			{folder && open && <Folder id={id} path={path} depth={depth + 1} chosen={chosen} remove={remove} />}
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
