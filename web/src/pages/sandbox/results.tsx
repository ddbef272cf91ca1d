// SPDX-License-Identifier: Apache-2.0
// What a run showed besides text, by media type. HTML stands in a frame in which no script runs; everything else is text and pictures.

import { api } from '../../api/client.ts';
import type { Cell, Result } from '../../api/types.ts';
import { useLoad } from '../../parts/basics.tsx';
import { Frame } from '../../parts/frame.tsx';
import { Markdown } from '../../parts/markdown.tsx';
import { Output } from '../../parts/output.tsx';
import { KeptSheet } from '../../parts/sheet.tsx';
import { bytes } from '../../pure/format.ts';
import { bestType, TABLE } from '../../pure/results.ts';
import { text } from '../../text/en.ts';
import { ShownFile } from './run-files.tsx';

const t = text.notebook;

/** The results of CELL with their data; null: there are none, or they are not there (yet): its text is shown then. */
export function useResults(cell: Cell): Result[] | null {
	const any = (cell.results?.length ?? 0) > 0;
	const found = useLoad<Result[]>((signal) => any ? api.get(`/notebooks/${encodeURIComponent(cell.sandbox)}/runs/${encodeURIComponent(cell.run)}/results`, undefined, signal) : Promise.resolve([]), [cell.sandbox, cell.run, any]);
	return any && found.value ? found.value : null;
}

/** OTHERWISE: what is shown of a result without anything else. */
export function Shown({ cell, result, otherwise }: { cell: Cell; result: Result; otherwise?: string }) {
	const file = result.file && cell.files?.find((f) => f.name === result.file);
	const type = bestType(result);
	return (
		<div class="shown" role="group" aria-label={t.shown}>
			{file ? <>{otherwise && <Output value={otherwise} label={t.value} />}<ShownFile cell={cell} file={file} /></> : <Data type={type} data={type ? result.data[type]! : otherwise ?? result.data['text/plain'] ?? ''} />}
			{result.left_out.map((l) => <p class="small quiet">{t.leftOut(l.type, bytes(l.bytes))}</p>)}
		</div>
	);
}

function Data({ type, data }: { type: string | null; data: string }) {
	if (type === TABLE)
		return <KeptSheet text={data} label={t.shown} />;
	if (type === 'text/html')
		return <Frame html={data} title={t.shown} still />;
	if (type === 'image/svg+xml')
		return <img src={`data:image/svg+xml,${encodeURIComponent(data)}`} alt={t.shown} />;
	if (type?.startsWith('image/'))
		return <img src={`data:${type};base64,${data}`} alt={t.shown} />;
	if (type === 'text/markdown')
		return <Markdown value={data} under={1} />;
	return data ? <Output value={type === 'application/json' ? pretty(data) : data} label={t.shown} /> : null;
}

function pretty(json: string): string {
	try {
		return JSON.stringify(JSON.parse(json), null, 2);
	} catch {
		return json;
	}
}
