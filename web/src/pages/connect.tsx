// SPDX-License-Identifier: Apache-2.0
// How to connect each client, with text to copy.

import { useState } from 'preact/hooks';
import { session } from '../api/state.ts';
import { Snippet } from '../parts/basics.tsx';
import { href } from '../app/router.ts';
import { snippets } from '../pure/clients.ts';
import { text } from '../text/en.ts';

export default function ConnectPage() {
	return (
		<>
			<div class="page-head"><h1>{text.connect.title}</h1></div>
			<div class="stack">
				<p>{text.connect.what} <span class="quiet">{text.connect.profile(session.value!.profile)}</span></p>
				<Clients />
			</div>
		</>
	);
}

/** One tab for each client, and its configuration. Also in the empty state of the home page. */
export function Clients() {
	const s = session.value!;
	const all = snippets(s.base, s.required);
	const [at, setAt] = useState(0);
	const one = all[at]!;
	const key = (e: KeyboardEvent): void => {
		const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
		if (!step)
			return;
		e.preventDefault();
		const next = (at + step + all.length) % all.length;
		setAt(next);
		(e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('[role=tab]')[next]?.focus();
	};
	return (
		<div class="clients stack">
			<div class="tabs" role="tablist" aria-label={text.connect.title} onKeyDown={key}>
				{all.map((c, i) => <button type="button" role="tab" id={`client-${c.id}`} aria-selected={i === at ? 'true' : 'false'} aria-controls="client-text" tabIndex={i === at ? 0 : -1} onClick={() => setAt(i)}>{text.connect.clients[c.id]}</button>)}
			</div>
			<div role="tabpanel" id="client-text" aria-labelledby={`client-${one.id}`} class="stack">
				<p class="quiet">{text.connect.how[one.id]}</p>
				<Snippet value={one.value} label={text.connect.clients[one.id]!} />
				{one.open && <div class="row"><a class="button" href={one.open}>{text.connect.open(text.connect.clients[one.id]!)}</a></div>}
				{s.required && <p class="quiet">{text.connect.needsKey} <a href={href('keys')}>{text.connect.makeKey}</a></p>}
			</div>
		</div>
	);
}
