// SPDX-License-Identifier: Apache-2.0
// Cells that people write: Markdown among the runs.

import { useState } from 'preact/hooks';
import { api } from '../../api/client.ts';
import type { Cell } from '../../api/types.ts';
import { Button, CopyButton, Field } from '../../parts/basics.tsx';
import { Markdown } from '../../parts/markdown.tsx';
import { ActionDialog } from '../../parts/overlay.tsx';
import { when } from '../../pure/format.ts';
import { text } from '../../text/en.ts';
import type { CellProps } from './cell.tsx';

const t = text.notebook;
const TEXT_MAX = 65536; // bytes, of the server; every character has at least one

export function MarkdownCell({ cell, write, beside, remove, pick }: Pick<CellProps, 'cell' | 'write' | 'beside' | 'remove' | 'pick'>) {
	return (
		<article class="cell done" tabIndex={-1} aria-label={t.markdownOf(cell.asked_by?.name ?? '')}>
			<header class="cell-head">
				{pick && <input type="checkbox" aria-label={t.pick(undefined)} checked={pick.on} onChange={(e) => pick.set(e.currentTarget.checked)} />}
				<span class="cell-who">{cell.asked_by?.how === 'page' ? t.byPage : cell.asked_by?.name}</span>
				{cell.started_at && <time dateTime={cell.started_at}>{when(cell.started_at)}</time>}
				<span class="cell-tools push">
					{write && <Button icon="pencil" label={t.markdownEdit} iconOnly tiny look="plain" onClick={() => write(cell)} />}
					<CopyButton value={cell.code ?? ''} label={t.markdownCopy} iconOnly />
					{beside && <Button icon="list-plus" label={t.markdownBeside} iconOnly tiny look="plain" onClick={() => beside(cell)} />}
					{remove && <Button icon="trash-2" label={t.remove} iconOnly tiny look="plain" onClick={() => remove(cell)} />}
				</span>
			</header>
			<Markdown value={cell.code ?? ''} under={1} />
		</article>
	);
}

/** CELL: it is changed; null: a new one, above or below BESIDE, or at the end. */
export function MarkdownDialog({ sandbox, cell, beside, onClose }: { sandbox: string; cell: Cell | null; beside?: Cell; onClose: () => void }) {
	const [where, setWhere] = useState<'before' | 'after'>('before');
	const save = (form: FormData): Promise<unknown> => {
		const body = { text: String(form.get('text')).replaceAll('\r\n', '\n') };
		return cell ? api.patch(`/notebooks/${encodeURIComponent(sandbox)}/runs/${encodeURIComponent(cell.run)}`, body) : api.post(`/notebooks/${encodeURIComponent(sandbox)}/markdown`, { ...body, ...(beside && { [where]: beside.run }) });
	};
	return (
		<ActionDialog title={cell ? t.markdownEdit : beside ? t.markdownBeside : t.markdownAdd} action={text.common.save} wide onClose={onClose} run={save}>
			{beside && (
				<fieldset class="choices">
					<legend>{t.markdownWhere}</legend>
					<div class="two">{(['before', 'after'] as const).map((w) => <label key={w}><input type="radio" name="where" value={w} checked={where === w} onChange={() => setWhere(w)} /><span>{t.markdownSides[w](beside.number)}</span></label>)}</div>
				</fieldset>
			)}
			<Field label={t.markdown} hint={t.markdownHint} control={(a) => <textarea {...a} class="input mono" name="text" rows={12} required maxLength={TEXT_MAX} defaultValue={cell?.code ?? ''} autofocus />} />
		</ActionDialog>
	);
}
