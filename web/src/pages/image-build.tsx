// SPDX-License-Identifier: Apache-2.0
// One build of an image, or its removal: state, time, output as it comes, and a button that cancels it.

import { useEffect, useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import type { ImageBuild } from '../api/manage.ts';
import { me } from '../api/state.ts';
import { Button, Fault } from '../parts/basics.tsx';
import { Output } from '../parts/output.tsx';
import { shareOf } from '../pure/build.ts';
import { duration } from '../pure/format.ts';
import { text } from '../text/en.ts';

const t = text.images;

export const underWay = (b: ImageBuild | null | undefined): boolean => b !== null && b !== undefined && ['building', 'downloading', 'removing', 'stopping'].includes(b.state);

export function Build({ of, done }: { of: ImageBuild; done: () => void }) {
	const [error, setError] = useState<unknown>(null);
	const [now, setNow] = useState(Date.now());
	const busy = underWay(of);
	useEffect(() => {
		if (!busy)
			return;
		setError(null);
		const clock = setInterval(() => setNow(Date.now()), 1000);
		return () => clearInterval(clock);
	}, [busy]);
	const title = t.titles[of.what](of.name);
	const share = busy ? shareOf(of.lines) : null;
	const took = duration(Math.max(0, (of.ended_at ? Date.parse(of.ended_at) : now) - Date.parse(of.began_at)));
	const cancel = (): void => void api.remove('/images/build').then(done, setError);
	return (
		<section class="stack tight" aria-label={title}>
			<div class="row">
				<h2>{title}</h2>
				<span class={`tag ${of.state === 'failed' ? 'bad' : busy || of.state === 'done' ? 'on' : ''}`} role="status">{t.states[of.state] ?? of.state}</span>
				<span class="quiet">{took}</span>
				{busy && of.what !== 'remove' && !me.value?.read_only && <Button icon="square" label={t.cancel} tiny disabled={of.state === 'stopping'} onClick={cancel} />}
			</div>
			{error !== null && <Fault error={error} />}
			{of.state === 'failed' && <p class="cell-error">{of.reason}</p>}
			{share !== null && <div class="bar" role="progressbar" aria-label={title} aria-valuenow={Math.round(100 * share)} aria-valuemin={0} aria-valuemax={100}><div style={{ width: `${100 * share}%` }} /></div>}
			{of.dropped > 0 && <p class="quiet">{t.dropped(of.dropped)}</p>}
			{of.lines.length > 0 && <Output value={of.lines.join('\n')} label={t.log} live={busy} />}
		</section>
	);
}
