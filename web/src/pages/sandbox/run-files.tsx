// SPDX-License-Identifier: Apache-2.0
// Files that a run made or changed: pictures and pages are shown, the others are a line.

import { useState } from 'preact/hooks';
import { api, filePath, url } from '../../api/client.ts';
import { sandboxes } from '../../api/state.ts';
import type { Cell, RunFile } from '../../api/types.ts';
import { Fault, Loading, useLoad } from '../../parts/basics.tsx';
import { Frame } from '../../parts/frame.tsx';
import { Icon } from '../../parts/icon.tsx';
import { Sheet } from '../../parts/sheet.tsx';
import { bytes } from '../../pure/format.ts';
import { iconOf, kindOf } from '../../pure/kinds.ts';
import { text } from '../../text/en.ts';

const t = text.notebook;
const SHOWN = 12; // files of one run that are looked at; the rest is named
const PAGE_MAX = 8 << 20; // bytes of HTML that are shown at once

/** Where the file of a run is: as the run left it if that was kept, else as it is now. */
function addressOf(cell: Cell, f: RunFile): string {
	return f.kept ? `/notebooks/${encodeURIComponent(cell.sandbox)}/runs/${encodeURIComponent(cell.run)}/files/${filePath(f.name)}` : `/sandboxes/${encodeURIComponent(cell.sandbox)}/files/${filePath(f.name)}`;
}

export function RunFiles({ cell, files }: { cell: Cell; files: RunFile[] }) {
	const pictures = files.filter((f) => kindOf(f.name) === 'picture');
	const others = files.filter((f) => kindOf(f.name) !== 'picture');
	return (
		<div class="run-files">
			{pictures.length > 0 && <div class={`pictures ${pictures.length > 1 ? 'several' : ''}`}>{pictures.slice(0, SHOWN).map((f) => <Picture key={f.name} cell={cell} file={f} />)}</div>}
			{others.slice(0, SHOWN).map((f) => <OtherFile key={f.name} cell={cell} file={f} />)}
			{Math.max(pictures.length, others.length) > SHOWN && <p class="small quiet">{t.moreFiles(files.length)}</p>}
		</div>
	);
}

function Picture({ cell, file }: { cell: Cell; file: RunFile }) {
	const [place, setPlace] = useState(0);
	const places = [addressOf(cell, file), `/sandboxes/${encodeURIComponent(cell.sandbox)}/files/${filePath(file.name)}`];
	if (place >= places.length)
		return <p class="small quiet"><Icon name="image" size={14} /> {t.pictureGone(file.name)}</p>;
	const address = url(places[place]!);
	return (
		<figure>
			<a href={address} target="_blank" rel="noreferrer"><img src={address} alt={file.name} loading="lazy" onError={() => setPlace(place + 1)} /></a>
			<figcaption class="small quiet">{file.name} · {bytes(file.size)}</figcaption>
		</figure>
	);
}

function OtherFile({ cell, file }: { cell: Cell; file: RunFile }) {
	const kind = kindOf(file.name);
	const live = sandboxes.value?.has(cell.sandbox) ?? true; // a file that was not kept went with its sandbox, and no program reads tables any more
	const shows = kind === 'page' ? file.size <= PAGE_MAX && (live || file.kept) : kind === 'table' && live;
	const [open, setOpen] = useState(kind === 'page' && shows);
	const address = url(addressOf(cell, file));
	return (
		<div class="run-file">
			<div class="row">
				<Icon name={iconOf(kind)} size={14} />
				{shows ? <button type="button" class="link" aria-expanded={open} onClick={() => setOpen(!open)}>{file.name}</button> : <span>{file.name}</span>}
				<span class="small quiet">{bytes(file.size)}</span>
				{live || file.kept ? <a class="small" href={address} download={file.name.split('/').pop()}>{text.common.download}</a> : <span class="small quiet">{t.fileGone}</span>}
			</div>
			{open && kind === 'page' && <PageOf address={addressOf(cell, file)} name={file.name} />}
			{open && kind === 'table' && <Sheet sandbox={cell.sandbox} path={file.name} small />}
		</div>
	);
}

/** A file that stands where it was shown. */
export function ShownFile({ cell, file }: { cell: Cell; file: RunFile }) {
	return kindOf(file.name) === 'picture' ? <div class="pictures"><Picture cell={cell} file={file} /></div> : <OtherFile cell={cell} file={file} />;
}

function PageOf({ address, name }: { address: string; name: string }) {
	const page = useLoad((signal) => api.head(address, PAGE_MAX, signal), [address]);
	return page.error ? <Fault error={page.error} retry={page.again} /> : page.value ? <Frame html={page.value.text} title={name} /> : <Loading />;
}
