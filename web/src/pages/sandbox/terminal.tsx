// SPDX-License-Identifier: Apache-2.0
// A terminal with a shell of the sandbox, which goes on when the tab is left.

import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from '../../api/client.ts';
import { keepSandbox, me } from '../../api/state.ts';
import type { Sandbox } from '../../api/types.ts';
import { Button, Empty, Fault, Loading } from '../../parts/basics.tsx';
import { text } from '../../text/en.ts';
import type { TabProps } from '../sandbox.tsx';

const t = text.terminal;

export function Terminal({ id, s }: TabProps) {
	const [asked, setAsked] = useState(false);
	if (me.value?.read_only)
		return <Empty icon="terminal" title={t.readOnly} />;
	// a shell would wake it up
	if (s?.state === 'stored' && !asked)
		return <Empty icon="moon" title={text.processes.asleep}><p>{t.asleepWhat}</p><Button icon="terminal" label={t.open} onClick={() => setAsked(true)} /></Empty>;
	return s ? <Screen id={id} root={s.root === true} /> : <Loading />;
}

function Screen({ id, root }: { id: string; root: boolean }) {
	const host = useRef<HTMLDivElement>(null);
	const [error, setError] = useState<unknown>(null);
	const [ready, setReady] = useState(false);
	useEffect(() => {
		let stop: (() => void) | null = null;
		let gone = false;
		void import('../../parts/terminal.ts').then((m) => {
			if (gone)
				return;
			stop = m.openTerminal(host.current!, id, root, () => void api.get<Sandbox>(`/sandboxes/${encodeURIComponent(id)}`).then(keepSandbox, () => undefined));
			setReady(true);
		}, setError);
		return () => {
			gone = true;
			stop?.();
		};
	}, [id, root]);
	return (
		<div class="terminal-pane">
			{error !== null && <Fault error={error} />}
			{!ready && !error && <Loading />}
			<div class="terminal-box"><div ref={host} class="terminal-host" aria-label={t.title} role="group" /></div>
			<p class="small quiet terminal-hint">{t.hint}</p>
		</div>
	);
}
