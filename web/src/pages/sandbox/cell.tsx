// SPDX-License-Identifier: Apache-2.0
// One run: who asked, what ran, what came out, what it made.

import { useState } from 'preact/hooks';
import { api } from '../../api/client.ts';
import { me, outputVersion, sandboxes, type Notebook } from '../../api/state.ts';
import type { Cell, Checkpoint, Text } from '../../api/types.ts';
import { href } from '../../app/router.ts';
import { Button, CopyButton, useClock } from '../../parts/basics.tsx';
import { Code } from '../../parts/code.tsx';
import { Icon } from '../../parts/icon.tsx';
import { sayFault } from '../../parts/overlay.tsx';
import { Output } from '../../parts/output.tsx';
import { bytes, duration, when } from '../../pure/format.ts';
import { inOrder } from '../../pure/results.ts';
import { sessionAfter, settled, traceback, type Traceback } from '../../pure/notebook.ts';
import { text } from '../../text/en.ts';
import { goOnFrom } from './checkpoints.tsx';
import { MarkdownCell } from './markdown-cell.tsx';
import { Shown, useResults } from './results.tsx';
import { RunFiles } from './run-files.tsx';

const t = text.notebook;
const CODE_LINES = 24; // longer code is folded

export interface CellActions { edit: (cell: Cell) => void; again: (cell: Cell) => void }

export interface CellProps { cell: Cell; n: Notebook; checkpoint?: Checkpoint; act?: CellActions; remove?: (c: Cell) => void; write?: (c: Cell) => void; beside?: (c: Cell) => void; pick?: { on: boolean; set: (on: boolean) => void } }

export function CellView({ cell, n, checkpoint, act, remove, write, beside, pick }: CellProps) {
	if (cell.kind === 'markdown')
		return <MarkdownCell cell={cell} write={write} beside={beside} remove={remove} pick={pick} />;
	const label = t.cell(cell.number, cell.asked_by?.name ?? '');
	return (
		<article class={`cell ${cell.status}`} tabIndex={-1} aria-label={label} aria-busy={settled(cell) ? undefined : 'true'}>
			<CellHead cell={cell} act={act} remove={remove} beside={beside} pick={pick} />
			<CellCode cell={cell} />
			{settled(cell) ? <Results cell={cell} /> : <LiveOutput cell={cell} n={n} />}
			{checkpoint && (
				<div class="cell-checkpoint">
					<Icon name="git-branch" size={14} /><span class="small">{t.checkpoint(checkpoint.name)}</span>
					{act && <Button label={text.checkpoints.goOn} tiny onClick={() => void goOnFrom(cell.sandbox, checkpoint.name).catch(sayFault)} />}
				</div>
			)}
		</article>
	);
}

function CellHead({ cell, act, remove, beside, pick }: Pick<CellProps, 'cell' | 'act' | 'remove' | 'beside' | 'pick'>) {
	const how = cell.asked_by?.how ?? '';
	return (
		<header class="cell-head">
			{pick && <input type="checkbox" aria-label={t.pick(cell.number)} checked={pick.on} onChange={(e) => pick.set(e.currentTarget.checked)} />}
			{cell.number && <span class="mono" title={t.numberWhat(cell.number)}>[{cell.number}]</span>}
			{cell.language && <span class="quiet">{t.languages[cell.language]}</span>}
			{cell.context && <span class="mono" title={t.contextWhat}>{cell.context}</span>}
			<span class="cell-who" title={t.how[how]}>{cell.asked_by?.how === 'page' ? t.byPage : cell.asked_by?.name || t.how[how] || how}</span>
			{cell.started_at && <time dateTime={cell.started_at}>{when(cell.started_at)}</time>}
			{settled(cell) ? <Figures cell={cell} /> : <Running cell={cell} />}
			<span class="cell-tools push">
				{act && cell.code && !cell.code_cut && cell.kind !== 'package' && cell.kind !== 'command' && (
					<>
						{settled(cell) && <Button icon="play" label={t.runAgain} iconOnly tiny look="plain" onClick={() => act.again(cell)} />}
						<Button icon="pencil" label={t.edit} iconOnly tiny look="plain" onClick={() => act.edit(cell)} />
					</>
				)}
				{cell.code && <CopyButton value={cell.code} label={t.copyCode} iconOnly />}
				{beside && settled(cell) && <Button icon="list-plus" label={t.markdownBeside} iconOnly tiny look="plain" onClick={() => beside(cell)} />}
				{remove && settled(cell) && <Button icon="trash-2" label={t.remove} iconOnly tiny look="plain" onClick={() => remove(cell)} />}
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
	const [stopping, setStopping] = useState(false);
	useClock(500);
	const stop = (interrupt?: boolean): void => {
		setStopping(!interrupt);
		api.remove(`/runs/${encodeURIComponent(cell.run)}`, { interrupt }).catch((e: unknown) => {
			setStopping(false);
			sayFault(e);
		});
	};
	const since = cell.started_at ? Date.now() - Date.parse(cell.started_at) : 0;
	return (
		<>
			<span class="spinner" aria-hidden="true" />
			<span class="cell-running" role="status">{cell.status === 'queued' ? t.queued : t.running}{cell.status === 'running' && since > 1000 && <span aria-hidden="true"> {duration(Math.floor(since / 1000) * 1000)}</span>}</span>
			{cell.kind === 'stateful' && cell.status === 'running' && <Button label={t.interrupt} title={t.interruptWhat} tiny onClick={() => stop(true)} />}
			<Button icon="square" label={t.stop} title={cell.kind === 'stateful' ? t.stopWhat : undefined} tiny look="alarm" busy={stopping} onClick={() => stop()} />
		</>
	);
}

function CellCode({ cell }: { cell: Cell }) {
	const [all, setAll] = useState(false);
	if (cell.code === null || cell.code === undefined || cell.code === '')
		return cell.kind === 'package' ? null : <p class="quiet small">{t.noCode}</p>;
	const lines = cell.code.trimEnd().split('\n');
	const long = lines.length > CODE_LINES + 4 && !all;
	const code = long ? lines.slice(0, CODE_LINES).join('\n') : lines.join('\n');
	const command = cell.kind === 'command' || cell.kind === 'package';
	return (
		<div class="cell-code">
			<pre tabIndex={0} aria-label={t.code}>{command && <span class="prompt" aria-hidden="true">{cell.kind === 'package' ? 'pip ' : `${cell.cwd ?? ''} $ `.trimStart()}</span>}<Code code={code} language={command ? 'shell' : cell.language ?? 'python'} /></pre>
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
	const stdout = cell.stdout;
	const shown = useResults(cell);
	const value = shown?.find((r) => r.kind === 'result');
	const files = cell.files?.filter((f) => !shown?.some((r) => r.file === f.name));
	const trace = traceback(cell.stderr?.text ?? '');
	const stderr = trace ? trace.before.trimEnd() : cell.stderr?.text ?? '';
	return (
		<div class="cell-out">
			{shown && stdout ? inOrder(stdout.text, shown).map((p) => 'text' in p ? <Output value={p.text} label={t.stdout} /> : <Shown cell={cell} result={p.result} />) : <Stream value={stdout} label={t.stdout} />}
			{shown && stdout?.cut && <p class="small quiet">{t.cut(bytes(stdout.total))}</p>}
			{stderr && <div class="stderr"><Output value={stderr} label={t.stderr} /></div>}
			{trace && <Trace of={trace} />}
			{cell.error && cell.error !== trace?.last && <p class="cell-error">{cell.error}</p>}
			{(cell.value?.text || value) && <div class="value">{value ? <Shown cell={cell} result={value} otherwise={cell.value?.text} /> : <Stream value={cell.value} label={t.value} />}</div>}
			<Remedy cell={cell} />
			{files && files.length > 0 && <RunFiles cell={cell} files={files} />}
		</div>
	);
}

/** What a run lacked, how much of it the sandbox has, and what to do. */
function Remedy({ cell }: { cell: Cell }) {
	const s = sandboxes.value?.get(cell.sandbox);
	const words = cell.reason === 'oom' ? t.oom(s ? bytes(s.limits.memory_mb * 1048576) : null) : cell.reason === 'timeout' ? t.timeout(s?.limits.timeout_s === undefined ? null : duration(s.limits.timeout_s * 1000)) : null;
	const session = sessionAfter(cell, t);
	if (!words)
		return session ? <p class="small quiet">{session}</p> : null;
	return <p class="small">{words} {session}{s && !me.value?.read_only && <> <a href={href('sandboxes', cell.sandbox, 'limits')}>{text.limits.change}</a></>}</p>;
}

function Stream({ value, label }: { value?: Text | null; label: string }) {
	if (!value?.text)
		return null;
	return <><Output value={value.text} label={label} />{value.cut && <p class="small quiet">{t.cut(bytes(value.total))}</p>}</>;
}

/** An error of Python: its last line says what it is; the way to it is folded. */
function Trace({ of }: { of: Traceback }) {
	return (
		<details class="trace" open={of.open}>
			<summary><Icon name="chevron-right" size={14} /><span class="cell-error mono">{of.last}</span></summary>
			<Output value={of.trace} label={t.trace} />
		</details>
	);
}
