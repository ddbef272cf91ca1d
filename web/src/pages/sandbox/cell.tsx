// SPDX-License-Identifier: Apache-2.0
// One run: who asked, what ran, what came out, what it made.

import { useEffect, useState } from 'preact/hooks';
import { api } from '../../api/client.ts';
import { outputVersion, type Notebook } from '../../api/state.ts';
import type { Cell, Checkpoint, Text } from '../../api/types.ts';
import { Button, CopyButton } from '../../parts/basics.tsx';
import { Code } from '../../parts/code.tsx';
import { Icon } from '../../parts/icon.tsx';
import { sayFault } from '../../parts/overlay.tsx';
import { Output } from '../../parts/output.tsx';
import { bytes, duration, when } from '../../pure/format.ts';
import { folderOf, lineOf } from '../../pure/line.ts';
import { settled, traceback } from '../../pure/notebook.ts';
import { text } from '../../text/en.ts';
import { goOnFrom } from './checkpoints.tsx';
import { RunFiles } from './run-files.tsx';

const t = text.notebook;
const CODE_LINES = 24; // longer code is folded

export function CellView({ cell, n, checkpoint, edit }: { cell: Cell; n: Notebook; checkpoint?: Checkpoint; edit?: (code: string) => void }) {
	const label = t.cell(cell.seq, cell.asked_by?.name ?? '');
	return (
		<article class={`cell ${cell.status}`} tabIndex={-1} aria-label={label} aria-busy={settled(cell) ? undefined : 'true'}>
			<CellHead cell={cell} edit={edit} />
			<CellCode cell={cell} />
			{settled(cell) ? <Results cell={cell} /> : <LiveOutput cell={cell} n={n} />}
			{checkpoint && (
				<div class="cell-checkpoint">
					<Icon name="git-branch" size={14} /><span class="small">{t.checkpoint(checkpoint.name)}</span>
					{edit && <Button label={text.checkpoints.goOn} tiny onClick={() => void goOnFrom(cell.sandbox, checkpoint.name).catch(sayFault)} />}
				</div>
			)}
		</article>
	);
}

function CellHead({ cell, edit }: { cell: Cell; edit?: (code: string) => void }) {
	const how = cell.asked_by?.how ?? '';
	return (
		<header class="cell-head">
			<span class="cell-who" title={t.how[how]}>{cell.asked_by?.how === 'page' ? t.byPage : cell.asked_by?.name || t.how[how] || how}</span>
			{cell.started_at && <time dateTime={cell.started_at}>{when(cell.started_at)}</time>}
			{settled(cell) ? <Figures cell={cell} /> : <Running cell={cell} />}
			<span class="cell-tools push">
				{edit && cell.code && cell.kind !== 'package' && cell.kind !== 'command' && <Button icon="pencil" label={t.edit} iconOnly tiny look="plain" onClick={() => edit(cell.code!)} />}
				{cell.code && <CopyButton value={cell.code} label={t.copyCode} iconOnly />}
			</span>
		</header>
	);
}

function Figures({ cell }: { cell: Cell }) {
	const facts = [
		cell.duration_ms !== undefined && [duration(cell.duration_ms), t.took],
		cell.cpu_ms !== undefined && [t.cpu(duration(cell.cpu_ms)), t.cpuWhat],
		cell.peak_bytes ? [bytes(cell.peak_bytes), t.peak] : false,
	].filter(Boolean) as [string, string][];
	const bad = cell.reason && cell.reason !== 'exited' ? t.reasons[cell.reason] ?? cell.reason : cell.exit_code ? t.exit(cell.exit_code) : null;
	return (
		<>
			{facts.map(([v, title], i) => <span class={`quiet ${i ? 'wide-only' : ''}`} title={title}>{v}</span>)}
			{bad && <span class="tag bad">{bad}</span>}
		</>
	);
}

function Running({ cell }: { cell: Cell }) {
	const [, tick] = useState(0);
	const [stopping, setStopping] = useState(false);
	useEffect(() => {
		const clock = setInterval(() => tick((x) => x + 1), 500);
		return () => clearInterval(clock);
	}, []);
	const stop = (): void => {
		setStopping(true);
		api.remove(`/runs/${cell.run}`).catch((e: unknown) => {
			setStopping(false);
			sayFault(e);
		});
	};
	const since = cell.started_at ? Date.now() - Date.parse(cell.started_at) : 0;
	return (
		<>
			<span class="spinner" aria-hidden="true" />
			<span class="cell-running" role="status">{cell.status === 'queued' ? t.queued : t.running}{cell.status === 'running' && since > 1000 && <span aria-hidden="true"> {duration(Math.floor(since / 1000) * 1000)}</span>}</span>
			<Button icon="square" label={t.stop} tiny look="alarm" busy={stopping} onClick={stop} />
		</>
	);
}

function CellCode({ cell }: { cell: Cell }) {
	const [all, setAll] = useState(false);
	if (cell.code === null || cell.code === undefined || cell.code === '')
		return cell.kind === 'package' ? null : <p class="quiet small">{t.noCode}</p>;
	const own = cell.kind === 'command' ? lineOf(cell.code) : null; // of the page's terminal
	const lines = (own?.line ?? cell.code).trimEnd().split('\n');
	const long = lines.length > CODE_LINES + 4 && !all;
	const code = long ? lines.slice(0, CODE_LINES).join('\n') : lines.join('\n');
	const command = cell.kind === 'command' || cell.kind === 'package';
	return (
		<div class="cell-code">
			<pre tabIndex={0} aria-label={t.code}>{command && <span class="prompt" aria-hidden="true">{cell.kind === 'package' ? 'pip ' : `${own?.cwd ?? ''} $ `.trimStart()}</span>}<Code code={code} language={command ? 'shell' : 'python'} /></pre>
			{(long || cell.code_cut) && <div class="row small">{long && <Button label={t.allCode(lines.length)} tiny look="plain" onClick={() => setAll(true)} />}{cell.code_cut && <span class="quiet">{t.codeCut}</span>}</div>}
		</div>
	);
}

function LiveOutput({ cell, n }: { cell: Cell; n: Notebook }) {
	void outputVersion(n, cell.run).value; // drawn again with each piece
	const live = n.live.get(cell.run);
	if (!live)
		return null;
	return (
		<div class="cell-out">
			<Output value={live.stdout} label={t.stdout} live />
			{!live.stderr.empty && <div class="stderr"><Output value={live.stderr} label={t.stderr} live /></div>}
			{live.cut && <p class="small quiet">{t.liveCut}</p>}
		</div>
	);
}

function Results({ cell }: { cell: Cell }) {
	const stdout = cell.kind === 'command' && cell.stdout && lineOf(cell.code ?? '') ? { ...cell.stdout, text: folderOf(cell.stdout.text).text } : cell.stdout;
	const trace = traceback(cell.stderr?.text ?? '');
	const stderr = trace ? trace.before.trimEnd() : cell.stderr?.text ?? '';
	return (
		<div class="cell-out">
			<Stream value={stdout} label={t.stdout} />
			{stderr && <div class="stderr"><Output value={stderr} label={t.stderr} /></div>}
			{trace && <Trace trace={trace.trace} last={trace.last} />}
			{cell.error && cell.error !== trace?.last && <p class="cell-error">{cell.error}</p>}
			{cell.value?.text && <div class="value"><Stream value={cell.value} label={t.value} /></div>}
			{cell.files && cell.files.length > 0 && <RunFiles cell={cell} files={cell.files} />}
		</div>
	);
}

function Stream({ value, label }: { value?: Text | null; label: string }) {
	if (!value?.text)
		return null;
	return <><Output value={value.text} label={label} />{value.cut && <p class="small quiet">{t.cut(bytes(value.total))}</p>}</>;
}

/** An error of Python: its last line says what it is; the way to it is folded. */
function Trace({ trace, last }: { trace: string; last: string }) {
	return (
		<details class="trace">
			<summary><Icon name="chevron-right" size={14} /><span class="cell-error mono">{last}</span></summary>
			<Output value={trace} label={t.trace} />
		</details>
	);
}
