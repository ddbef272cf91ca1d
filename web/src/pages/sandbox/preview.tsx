// SPDX-License-Identifier: Apache-2.0
// What is in a file. HTML runs in a closed frame; everything else is text nodes and pictures.

import { useEffect, useRef, useState } from 'preact/hooks';
import { api, filePath, upload, url } from '../../api/client.ts';
import { me, notebook } from '../../api/state.ts';
import type { Preview } from '../../api/types.ts';
import { href } from '../../app/router.ts';
import { Button, Empty, Fault, Loading, useLoad } from '../../parts/basics.tsx';
import { Code } from '../../parts/code.tsx';
import { Frame } from '../../parts/frame.tsx';
import { Icon } from '../../parts/icon.tsx';
import { Markdown } from '../../parts/markdown.tsx';
import { Output } from '../../parts/output.tsx';
import { say, sayFault } from '../../parts/overlay.tsx';
import { Sheet } from '../../parts/sheet.tsx';
import { isDockerfile } from '../../pure/build.ts';
import { bytes } from '../../pure/format.ts';
import { kindOf, type Kind } from '../../pure/kinds.ts';
import { text } from '../../text/en.ts';

const t = text.files;
const editable = /\.(txt|md|markdown|rst|py|pyi|sh|bash|js|ts|css|html?|svg|xml|json|geojson|ipynb|jsonl|ndjson|csv|tsv|ya?ml|toml|ini|cfg|conf|log|sql|r|c|h|cc|cpp|hpp|rs|go|java|tex|env|diff|patch)$|(^|\/)(Makefile|Dockerfile|README|LICENSE|\.[a-z]+rc)$/i;
const TEXT_MAX = 512 * 1024; // bytes of a text that are shown
const PAGE_MAX = 16 << 20; // bytes of HTML
const CODE_MAX = 60_000; // characters that get colours

export function PreviewOf({ sandbox, path, build }: { sandbox: string; path: string; live: boolean; build?: () => void }) {
	const kind = kindOf(path);
	const [plain, setPlain] = useState(false);
	const [edited, setEdited] = useState<string | null>(null);
	const address = `/sandboxes/${encodeURIComponent(sandbox)}/files/${filePath(path)}`;
	/** Only a whole text in UTF-8 can be saved as it was. */
	const begin = async (): Promise<void> => {
		try {
			const file = await api.head(address, TEXT_MAX);
			if (file.cut || file.foreign || file.text.includes('\0'))
				say(file.cut ? t.tooLong(bytes(TEXT_MAX)) : t.notUtf8, true);
			else
				setEdited(file.text);
		} catch (e) {
			sayFault(e);
		}
	};
	return (
		<>
			<header class="preview-head">
				<a class="button plain icon-only preview-back" href={href('sandboxes', sandbox, 'files')} aria-label={t.back}><Icon name="arrow-left" /></a>
				<h2 class="clip">{path.split('/').pop()}</h2>
				<span class="push row">
					{build && edited === null && <Button icon="hard-drive" label={text.images.fileAction} tiny look="plain" onClick={build} />}
					{(editable.test(path) || isDockerfile(path)) && edited === null && !me.value?.read_only && <Button icon="pencil" label={t.edit} tiny look="plain" onClick={() => void begin()} />}
					{edited === null && (['page', 'json', 'markdown'].includes(kind) || /\.(csv|tsv|jsonl|ndjson)$/i.test(path)) && <Button label={plain ? t.shown : t.source} tiny look="plain" onClick={() => setPlain(!plain)} />}
					<a class="button tiny" href={url(address)} download=""><Icon name="download" size={14} />{text.common.download}</a>
				</span>
			</header>
			{edited !== null ? <Edit sandbox={sandbox} path={path} text={edited} close={() => setEdited(null)} /> : <div class="preview-body"><Body kind={plain ? 'text' : kind} sandbox={sandbox} path={path} address={address} /></div>}
		</>
	);
}

/** Another text in the place of a file. What is typed stays while the file changes under it; saving says so first. */
function Edit({ sandbox, path, text: before, close }: { sandbox: string; path: string; text: string; close: () => void }) {
	const area = useRef<HTMLTextAreaElement>(null);
	const [busy, setBusy] = useState(false);
	const [error, setError] = useState<unknown>(null);
	const save = async (): Promise<void> => {
		setBusy(true);
		setError(null);
		try {
			const now = await api.head(`/sandboxes/${encodeURIComponent(sandbox)}/files/${filePath(path)}`, TEXT_MAX);
			if (now.text !== before && error === null)
				throw new Error(t.changed);
			await upload(sandbox, path, new Blob([area.current!.value]), true, () => undefined, new AbortController().signal);
			notebook(sandbox).files.value++;
			say(t.saved);
			close();
		} catch (e) {
			setError(e);
			setBusy(false);
		}
	};
	return (
		<form class="preview-body" onSubmit={(e) => (e.preventDefault(), void save())}>
			<textarea ref={area} class="input mono preview-edit" defaultValue={before} aria-label={t.editOf(path)} spellcheck={false} autocapitalize="off" autofocus />
			{error !== null && <Fault error={error} />}
			<div class="row"><Button label={text.common.save} type="submit" look="primary" busy={busy} /><Button label={text.common.cancel} onClick={close} /></div>
		</form>
	);
}

function Body({ kind, sandbox, path, address }: { kind: Kind; sandbox: string; path: string; address: string }) {
	const turn = notebook(sandbox).files.value;
	switch (kind) {
	case 'picture':
		return <Picture address={url(address, { turn })} name={path} />;
	case 'pdf':
		return <Pdf address={address} turn={turn} name={path} />;
	case 'document':
		return <Document sandbox={sandbox} path={path} turn={turn} />;
	case 'archive':
	case 'table':
		return <Sheet key={turn} sandbox={sandbox} path={path} />;
	case 'page':
		return <Page address={address} turn={turn} name={path} />;
	case 'markdown':
		return <Note address={address} turn={turn} />;
	case 'sound':
	case 'film':
		return <Played film={kind === 'film'} address={url(address, { turn })} name={path} />;
	case 'other':
		return <Other sandbox={sandbox} address={address} turn={turn} path={path} />;
	default:
		return <PlainText sandbox={sandbox} address={address} turn={turn} path={path} json={kind === 'json'} />;
	}
}

function Picture({ address, name }: { address: string; name: string }) {
	const [bad, setBad] = useState(false);
	return bad ? <Empty icon="image" title={t.noPicture} /> : <img class="preview-picture" src={address} alt={name} onError={() => setBad(true)} />;
}

function Played({ film, address, name }: { film: boolean; address: string; name: string }) {
	const [bad, setBad] = useState(false);
	if (bad)
		return <Empty icon={film ? 'film' : 'music'} title={t.noSound}><p>{t.noPdfWhat}</p></Empty>;
	const Tag = film ? 'video' : 'audio';
	return <Tag class="preview-played" controls preload="metadata" src={address} aria-label={name} onError={() => setBad(true)} />;
}

function Note({ address, turn }: { address: string; turn: number }) {
	const file = useLoad((signal) => api.head(address, TEXT_MAX, signal), [address, turn]);
	return file.error ? <Fault error={file.error} retry={file.again} /> : file.value ? <><Markdown value={file.value.text} />{file.value.cut && <p class="small quiet">{t.cut}</p>}</> : <Loading />;
}

const PARAGRAPHS = 1000;

/** The paragraphs of a Word document, or the texts of slides, as a program in the sandbox has read them. */
function Document({ sandbox, path, turn }: { sandbox: string; path: string; turn: number }) {
	const found = useLoad((signal) => api.get<Preview>(`/sandboxes/${encodeURIComponent(sandbox)}/preview`, { path, limit: PARAGRAPHS }, signal), [sandbox, path, turn]);
	if (found.error)
		return <Fault error={found.error} retry={found.again} />;
	if (!found.value)
		return <Loading />;
	const rows = found.value.rows.map((r) => [String(r[0]), String(r[1])] as const);
	return (
		<div class="markdown">
			{rows.map(([style, words]) => {
				if (style === 'slide')
					return <div class="head slide" role="heading" aria-level={2}>{t.slide(words)}</div>;
				const level = /^Title$/i.test(style) ? '1' : /^Heading ?([1-6])$/i.exec(style)?.[1];
				return level ? <div class={`head h${level}`} role="heading" aria-level={Math.min(6, 2 + Number(level))}>{words}</div> : /^list/i.test(style) ? <ul><li>{words}</li></ul> : words.trim() && <p class={style === 'row' ? 'mono' : ''}>{words}</p>;
			})}
			{(found.value.total ?? 0) > rows.length && <p class="small quiet">{t.cut}</p>}
		</div>
	);
}

/** The browser's own viewer shows a PDF from an address of this page. */
function Pdf({ address, turn, name }: { address: string; turn: number; name: string }) {
	const [source, setSource] = useState<string | null>(null);
	const [error, setError] = useState<unknown>(null);
	useEffect(() => {
		if (!navigator.pdfViewerEnabled)
			return;
		const stop = new AbortController();
		let made = '';
		api.blob(address, undefined, stop.signal).then((b) => setSource(made = URL.createObjectURL(new Blob([b], { type: 'application/pdf' }))), (e: unknown) => stop.signal.aborted || setError(e));
		return () => {
			stop.abort();
			URL.revokeObjectURL(made);
		};
	}, [address, turn]);
	if (!navigator.pdfViewerEnabled) // a frame would download the file, or stay white
		return <Empty icon="file" title={t.noPdf}><p>{t.noPdfWhat}</p></Empty>;
	if (error)
		return <Fault error={error} />;
	return source ? <iframe class="frame fill" src={source} title={name} /> : <Loading />;
}

function Page({ address, turn, name }: { address: string; turn: number; name: string }) {
	const page = useLoad((signal) => api.head(address, PAGE_MAX, signal), [address, turn]);
	return page.error ? <Fault error={page.error} retry={page.again} /> : page.value ? <Frame html={page.value.text} title={name} fill /> : <Loading />;
}

interface Text { text: string; cut: boolean; foreign: boolean; encoding?: string; sure?: number }

/** The first MAX bytes as text. What the encoding is if it is not UTF-8, a program in the sandbox tells; a busy sandbox tells nothing. */
async function textOf(sandbox: string, path: string, address: string, max: number, signal: AbortSignal): Promise<Text> {
	const file = await api.head(address, max, signal);
	if (!file.foreign)
		return file;
	try {
		const { encoding, sure } = await api.get<Preview>(`/sandboxes/${encodeURIComponent(sandbox)}/preview`, { path, encoding: true }, signal);
		const name = encoding === 'utf-16' && new Uint8Array(file.bytes)[0] === 0xfe ? 'utf-16be' : encoding;
		return name ? { ...file, text: new TextDecoder(name).decode(file.bytes), encoding, sure } : file;
	} catch {
		return file;
	}
}

function PlainText({ sandbox, address, turn, path, json }: { sandbox: string; address: string; turn: number; path: string; json?: boolean }) {
	const file = useLoad((signal) => textOf(sandbox, path, address, TEXT_MAX, signal), [address, turn]);
	if (file.error)
		return <Fault error={file.error} retry={file.again} />;
	if (!file.value)
		return <Loading />;
	let shown = file.value.text;
	if (json && !file.value.cut)
		try {
			shown = JSON.stringify(JSON.parse(shown), null, 2);
		} catch { /* shown as it is */ }
	const code = /\.pyi?$/i.test(path) ? 'python' : /\.(sh|bash)$/i.test(path) ? 'shell' : null;
	return (
		<>
			{file.value.foreign && <p class="small quiet">{t.foreign(file.value.encoding, file.value.sure)}</p>}
			{shown === '' ? <p class="quiet">{t.emptyFile}</p> : code && shown.length < CODE_MAX ? <pre class="preview-code" tabIndex={0}><Code code={shown} language={code} /></pre> : <Output value={shown} label={path} />}
			{file.value.cut && <p class="small quiet">{t.cut}</p>}
		</>
	);
}

/** A file of an unknown kind: text if it looks like text. */
function Other({ sandbox, address, turn, path }: { sandbox: string; address: string; turn: number; path: string }) {
	const file = useLoad((signal) => textOf(sandbox, path, address, 4096, signal), [address, turn]);
	if (file.error)
		return <Fault error={file.error} retry={file.again} />;
	if (!file.value)
		return <Loading />;
	// eslint-disable-next-line no-control-regex
	const binary = /[\x00-\x08]/.test(file.value.text) || (file.value.foreign && !file.value.encoding);
	return binary ? <Empty icon="file" title={t.binary}><p>{t.binaryWhat}</p></Empty> : <PlainText sandbox={sandbox} address={address} turn={turn} path={path} />;
}
