// SPDX-License-Identifier: Apache-2.0
// What a page knows of the ports of a sandbox: which there are, and which are new, so that it can offer to open them. A port is offered once.

import type { Port } from '../api/types.ts';

export interface Ports {
	rows: readonly Port[] | null; // null: not known
	fresh: ReadonlySet<number>; // began while somebody looked
	offers: readonly number[]; // of those, the ones that nobody has opened, put away or seen in the list
	seen: ReadonlySet<number>;
}

export const noPorts: Ports = { rows: null, fresh: new Set(), offers: [], seen: new Set() };

function offer(p: Ports, ports: readonly number[]): Ports {
	const first = ports.filter((n) => !p.seen.has(n));
	return { ...p, fresh: new Set([...p.fresh, ...first]), offers: [...p.offers, ...first], seen: new Set([...p.seen, ...first]) };
}

/** All that there are: what is there at the first look is nothing new. */
export function began(p: Ports, rows: readonly Port[]): Ports {
	const there = new Set(rows.map((r) => r.port));
	const now = { ...p, rows, offers: p.offers.filter((n) => there.has(n)) };
	return p.rows ? offer(now, [...there]) : { ...now, seen: new Set([...p.seen, ...there]) };
}

export function listens(p: Ports, row: Port): Ports {
	const rows = [...(p.rows ?? []).filter((r) => r.port !== row.port), row].sort((a, b) => a.port - b.port);
	return offer({ ...p, rows }, [row.port]);
}

export function ends(p: Ports, port: number): Ports {
	return { ...without(p, port), rows: (p.rows ?? []).filter((r) => r.port !== port) };
}

/** It is not offered any more. */
export function without(p: Ports, port: number): Ports {
	return { ...p, offers: p.offers.filter((n) => n !== port) };
}
