// SPDX-License-Identifier: Apache-2.0
// The one event stream of a tab. It goes on where it stopped; a server that restarted says `resync`, and everything is loaded again.

import { signal } from '@preact/signals';
import { url } from './client.ts';

export type Connection = 'connecting' | 'live' | 'lost';
export const connection = signal<Connection>('connecting');

const NAMES = ['hello', 'resync', 'sandbox.created', 'sandbox.changed', 'sandbox.ended', 'files.changed', 'run.queued', 'run.started', 'run.output', 'run.ended',
	'checkpoint.made', 'checkpoint.restored', 'checkpoint.removed', 'package', 'history.added', 'history.changed', 'history.removed'] as const;
export type EventName = typeof NAMES[number];

const RETRY_MS = [500, 1000, 2000, 5000, 10000] as const;

type Handler = (name: EventName, data: never) => void;

let source: EventSource | null = null;
let lastId = '';
let failures = 0;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Begins to listen. ON_EVENT gets every event; ON_REFUSED is called when the server refuses the stream, which may mean that the session is over. */
export function listen(onEvent: Handler, onRefused: () => void): void {
	close();
	connection.value = failures ? 'lost' : 'connecting';
	const s = new EventSource(url('/events', { last_event_id: lastId || undefined }));
	source = s;
	for (const name of NAMES)
		s.addEventListener(name, (e) => {
			lastId = (e as MessageEvent).lastEventId || lastId;
			if (name === 'hello') {
				failures = 0;
				connection.value = 'live';
			}
			onEvent(name, JSON.parse((e as MessageEvent<string>).data) as never);
		});
	s.onerror = () => {
		connection.value = 'lost';
		if (s.readyState !== EventSource.CLOSED)
			return; // the browser tries again with Last-Event-ID
		onRefused();
		timer = setTimeout(() => listen(onEvent, onRefused), RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]);
	};
}

export function close(): void {
	clearTimeout(timer);
	source?.close();
	source = null;
}
