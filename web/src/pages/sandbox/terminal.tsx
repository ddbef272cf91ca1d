// SPDX-License-Identifier: Apache-2.0
// A terminal: each line is a run of its own, seen as it prints. The folder is kept from line to line; Ctrl-C stops.

import { useEffect, useRef, useState } from 'preact/hooks';
import { me } from '../../api/state.ts';
import { Empty, Fault, Loading } from '../../parts/basics.tsx';
import { text } from '../../text/en.ts';
import type { TabProps } from '../sandbox.tsx';

export function Terminal({ id }: TabProps) {
	const host = useRef<HTMLDivElement>(null);
	const [error, setError] = useState<unknown>(null);
	const [ready, setReady] = useState(false);
	const can = !me.value?.read_only;
	useEffect(() => {
		let stop: (() => void) | null = null;
		let gone = false;
		if (can)
			void import('../../parts/terminal.ts').then((m) => {
				if (gone)
					return;
				stop = m.openTerminal(host.current!, id);
				setReady(true);
			}, setError);
		return () => {
			gone = true;
			stop?.();
		};
	}, [id]);
	if (!can)
		return <Empty icon="terminal" title={text.terminal.readOnly} />;
	return (
		<div class="terminal-pane">
			{error !== null && <Fault error={error} />}
			{!ready && !error && <Loading />}
			<div class="terminal-box"><div ref={host} class="terminal-host" aria-label={text.terminal.title} role="group" /></div>
			<p class="small quiet terminal-hint">{text.terminal.hint}</p>
		</div>
	);
}
