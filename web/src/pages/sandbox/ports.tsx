// SPDX-License-Identifier: Apache-2.0
// The ports that servers in the sandbox listen on, each with a button that opens it in a tab of its own; and the offer to open a new one.

import { useEffect, useState } from 'preact/hooks';
import { Problem, api } from '../../api/client.ts';
import { me, notebook } from '../../api/state.ts';
import { followPorts } from '../../api/ports.ts';
import type { Port, PortAddress, Sandbox } from '../../api/types.ts';
import { href } from '../../app/router.ts';
import { Button, Fault, useVisible } from '../../parts/basics.tsx';
import { Icon } from '../../parts/icon.tsx';
import { isWebAddress } from '../../pure/address.ts';
import { without } from '../../pure/ports.ts';
import { text } from '../../text/en.ts';
import { ports as t } from '../../text/ports.ts';

const OFFERS_MAX = 3; // at a time; the list has all

/** Opens a server in a tab of its own; ADDRESS: where it has no name of its own. */
function useOpen(id: string): { open: (port: number) => Promise<void>; address: string | null; error: unknown } {
	const [error, setError] = useState<unknown>(null);
	const [address, setAddress] = useState<string | null>(null);
	const open = async (port: number): Promise<void> => {
		setError(null);
		setAddress(null);
		const tab = window.open('', '_blank'); // at once: later a browser takes it for a popup
		try {
			const { url } = await api.post<PortAddress>(`/sandboxes/${encodeURIComponent(id)}/ports`, { port });
			if (!isWebAddress(url))
				throw new Problem(0, { detail: text.errors.address });
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
	return { open, address, error };
}

function Opened({ address, error }: { address: string | null; error: unknown }) {
	return (
		<>
			{address && <p class="small">{t.path} <a href={address} target="_blank" rel="noreferrer">{address}</a></p>}
			{error !== null && <Fault error={error} />}
		</>
	);
}

const nameOf = (r: Port): string => r.program ? t.by(r.program) : t.listens;

/** The list. */
export function Ports({ id }: { id: string }) {
	const { ports } = notebook(id);
	const { rows, fresh, offers } = ports.value;
	const { open, ...opened } = useOpen(id);
	useEffect(() => { // here they are seen
		if (offers.length > 0)
			ports.value = { ...ports.value, offers: [] };
	}, [offers]);
	if (!rows?.length)
		return null;
	return (
		<section class="stack tight" aria-label={t.list}>
			<ul class="ports panel">
				{rows.map((r) => (
					<li key={r.port} class="row">
						<span class="dot on" />
						<code>{r.port}</code>
						<span class="quiet clip">{nameOf(r)}</span>
						{fresh.has(r.port) && <span class="tag on">{t.fresh}</span>}
						{!me.value?.read_only && <span class="push"><Button icon="external-link" label={t.open} title={t.openWhat(r.port)} onClick={() => void open(r.port)} /></span>}
					</li>
				))}
			</ul>
			<Opened {...opened} />
		</section>
	);
}

/** On every part of a sandbox: ports that are new, each with a button. QUIET: the list is there, too. */
export function PortOffers({ id, s, quiet }: { id: string; s: Sandbox; quiet: boolean }) {
	const { ports } = notebook(id);
	const visible = useVisible();
	const lives = s.state !== 'stored';
	useEffect(() => {
		if (lives && visible)
			return followPorts(id);
		if (!lives)
			ports.value = { ...ports.value, rows: [], offers: [] };
		return undefined;
	}, [id, visible, lives]);
	const { open, ...opened } = useOpen(id);
	const { rows, offers } = ports.value;
	if (quiet || me.value?.read_only)
		return null;
	const shown = offers.slice(0, OFFERS_MAX);
	const away = (port: number): void => {
		ports.value = without(ports.value, port);
	};
	return (
		<section class="port-offers" aria-label={t.offers} aria-live="polite">
			{shown.map((port) => {
				const row = rows?.find((r) => r.port === port);
				return row && (
					<div key={port} class="notice">
						<Icon name="external-link" />
						<span class="clip">{t.offer(port, row.program)}</span>
						<span class="push row">
							<Button label={t.open} title={t.openWhat(port)} tiny onClick={() => (away(port), void open(port))} />
							<Button icon="x" label={text.common.close} iconOnly tiny look="plain" onClick={() => away(port)} />
						</span>
					</div>
				);
			})}
			{offers.length > OFFERS_MAX && <div class="notice"><a href={href('sandboxes', id, 'processes')}>{t.more(offers.length - OFFERS_MAX)}</a></div>}
			{(opened.address || opened.error !== null) && <div class="port-opened"><Opened {...opened} /></div>}
		</section>
	);
}
