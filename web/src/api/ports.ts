// SPDX-License-Identifier: Apache-2.0
// The stream of the ports of one sandbox, while somebody looks at it.

import { Problem, api, url } from './client.ts';
import { notebook } from './state.ts';
import type { Port, Sandbox } from './types.ts';
import { began, ends, listens } from '../pure/ports.ts';

const RETRY_MS = [1000, 2000, 5000, 10000, 30000] as const;

/** What is there, asked for once; null: a further request would wake the sandbox up. What the page shows of its state is left to the events of all sandboxes: a
 * terminal that was open when the server ended goes on, and wakes it up. */
async function look(id: string): Promise<Port[] | null> {
	const s = await api.get<Sandbox>(`/sandboxes/${encodeURIComponent(id)}`);
	return s.state === 'stored' ? null : (await api.get<{ ports: Port[] }>(`/sandboxes/${encodeURIComponent(id)}/ports`)).ports;
}

const isFinal = (e: unknown): boolean => e instanceof Problem && (e.status === 404 || e.status === 501); // gVisor has no ports, which is no fault

/** Keeps the ports of a sandbox that lives true. Returns what ends that. */
export function followPorts(id: string): () => void {
	const { ports } = notebook(id);
	let source: EventSource | null = null;
	let timer: ReturnType<typeof setTimeout> | undefined;
	let failures = 0;
	let stopped = false;
	const again = (): void => {
		source?.close();
		if (!stopped)
			timer = setTimeout(() => void look(id).then(go, (e: unknown) => isFinal(e) || again()), RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]);
	};
	const go = (there: Port[] | null): void => {
		if (!there)
			return again();
		if (stopped)
			return;
		ports.value = began(ports.value, there); // also where there are too many streams
		open();
	};
	const open = (): void => {
		const s = new EventSource(url(`/sandboxes/${encodeURIComponent(id)}/events`, { ports: true }));
		const on = <T>(name: string, take: (data: T) => void): void => s.addEventListener(name, (e) => take(JSON.parse((e as MessageEvent<string>).data) as T));
		source = s;
		on<{ ports: Port[] }>('start', (d) => {
			failures = 0;
			ports.value = began(ports.value, d.ports);
		});
		on<Port & { type: 'listen' | 'end' }>('port', ({ type, ...row }) => {
			ports.value = type === 'listen' ? listens(ports.value, row) : ends(ports.value, row.port);
		});
		on('end', again);
		s.onerror = again;
	};
	open();
	return () => {
		stopped = true;
		clearTimeout(timer);
		source?.close();
	};
}
