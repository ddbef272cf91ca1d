// SPDX-License-Identifier: Apache-2.0
// What is in a file. HTML runs in a closed frame; everything else is text nodes and pictures.

import { useEffect, useState } from 'preact/hooks';
import { api, filePath, url } from '../../api/client.ts';
import { notebook } from '../../api/state.ts';
import { href } from '../../app/router.ts';
import { Button, Empty, Fault, Loading, useLoad } from '../../parts/basics.tsx';
import { Code } from '../../parts/code.tsx';
import { Frame } from '../../parts/frame.tsx';
import { Icon } from '../../parts/icon.tsx';
import { Output } from '../../parts/output.tsx';
import { Sheet } from '../../parts/sheet.tsx';
import { kindOf, type Kind } from '../../pure/kinds.ts';
import { text } from '../../text/en.ts';

const t = text.files;
const TEXT_MAX = 512 * 1024; // bytes of a text that are shown
const PAGE_MAX = 16 << 20; // bytes of HTML
const CODE_MAX = 60_000; // characters that get colours

export function PreviewOf({ sandbox, path }: { sandbox: string; path: string; live: boolean }) {
	const kind = kindOf(path);
	const [plain, setPlain] = useState(false);
	const address = `/sandboxes/${sandbox}/files/${filePath(path)}`;
	return (
		<>
			<header class="preview-head">
				<a class="button plain icon-only preview-back" href={href('sandboxes', sandbox, 'files')} aria-label={t.back}><Icon name="arrow-left" /></a>
				<h2 class="clip">{path.split('/').pop()}</h2>
				<span class="push row">
					{['table', 'page', 'json'].includes(kind) && <Button label={plain ? t.shown : t.source} tiny look="plain" onClick={() => setPlain(!plain)} />}
					<a class="button tiny" href={url(address)} download=""><Icon name="download" size={14} />{text.common.download}</a>
				</span>
			</header>
			<div class="preview-body"><Body kind={plain ? 'text' : kind} sandbox={sandbox} path={path} address={address} /></div>
		</>
	);
}

function Body({ kind, sandbox, path, address }: { kind: Kind; sandbox: string; path: string; address: string }) {
	const turn = notebook(sandbox).files.value;
	switch (kind) {
	case 'picture':
		return <Picture address={url(address, { turn })} name={path} />;
	case 'pdf':
		return <Pdf address={address} turn={turn} name={path} />;
	case 'table':
		return <Sheet key={turn} sandbox={sandbox} path={path} />;
	case 'page':
		return <Page address={address} turn={turn} name={path} />;
	case 'other':
		return <Other address={address} turn={turn} path={path} />;
	default:
		return <PlainText address={address} turn={turn} path={path} json={kind === 'json'} />;
	}
}

function Picture({ address, name }: { address: string; name: string }) {
	const [bad, setBad] = useState(false);
	return bad ? <Empty icon="image" title={t.noPicture} /> : <img class="preview-picture" src={address} alt={name} onError={() => setBad(true)} />;
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

function PlainText({ address, turn, path, json }: { address: string; turn: number; path: string; json?: boolean }) {
	const file = useLoad((signal) => api.head(address, TEXT_MAX, signal), [address, turn]);
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
			{shown === '' ? <p class="quiet">{t.emptyFile}</p> : code && shown.length < CODE_MAX ? <pre class="preview-code" tabIndex={0}><Code code={shown} language={code} /></pre> : <Output value={shown} label={path} />}
			{file.value.cut && <p class="small quiet">{t.cut}</p>}
		</>
	);
}

/** A file of an unknown kind: text if it looks like text. */
function Other({ address, turn, path }: { address: string; turn: number; path: string }) {
	const file = useLoad((signal) => api.head(address, 4096, signal), [address, turn]);
	if (file.error)
		return <Fault error={file.error} retry={file.again} />;
	if (!file.value)
		return <Loading />;
	// eslint-disable-next-line no-control-regex
	return /[\x00-\x08\ufffd]/.test(file.value.text) ? <Empty icon="file" title={t.binary}><p>{t.binaryWhat}</p></Empty> : <PlainText address={address} turn={turn} path={path} />;
}
