// SPDX-License-Identifier: Apache-2.0
// The ports that servers in the sandbox listen on, each with a button that opens it in a tab of its own.

import { useState } from 'preact/hooks';
import { api } from '../../api/client.ts';
import { me } from '../../api/state.ts';
import type { Port, PortAddress } from '../../api/types.ts';
import { Button, Fault } from '../../parts/basics.tsx';
import { ports as t } from '../../text/ports.ts';

export function Ports({ id, rows }: { id: string; rows: Port[] }) {
	const [error, setError] = useState<unknown>(null);
	const [address, setAddress] = useState<string | null>(null);
	const open = async (port: number): Promise<void> => {
		setError(null);
		setAddress(null);
		const tab = window.open('', '_blank'); // at once: later a browser takes it for a popup
		try {
			const { url } = await api.post<PortAddress>(`/sandboxes/${id}/ports`, { port });
			if (new URL(url).host === location.host || !tab) { // no name of its own, or no tab
				tab?.close();
				setAddress(url);
				return;
			}
			tab.opener = null; // the page there is whatever its server makes it
			tab.location.replace(url);
		} catch (x) {
			tab?.close();
			setError(x);
		}
	};
	if (rows.length === 0)
		return null;
	return (
		<section class="stack tight" aria-label={t.list}>
			<ul class="ports panel">
				{rows.map((r) => (
					<li key={r.port} class="row">
						<span class="dot on" />
						<code>{r.port}</code>
						<span class="quiet clip">{r.program ? t.by(r.program) : t.listens}</span>
						{!me.value?.read_only && <span class="push"><Button icon="external-link" label={t.open} title={t.openWhat(r.port)} onClick={() => void open(r.port)} /></span>}
					</li>
				))}
			</ul>
			{address && <p class="small">{t.path} <a href={address} target="_blank" rel="noreferrer">{address}</a></p>}
			{error !== null && <Fault error={error} />}
		</section>
	);
}
