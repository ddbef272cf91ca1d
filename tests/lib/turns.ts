// SPDX-License-Identifier: Apache-2.0
// Turns of a server that was started with CAISSON_WATCH_TURNS: the long ones, with their cause.

import { slowness } from './env.ts';

export interface Turn {
	ms: number;
	/** The thread computed for so long. */
	cpuMs: number;
	/** How often it waited: for a disk, a lock, a page. */
	slept: number;
	/** It waited for so long, and not for a CPU. */
	waitedMs: number;
	work: string;
}

const number = (line: string, name: string): number => Number(new RegExp(`\\b${name}"?[=:] ?(\\d+)`).exec(line)?.[1]);

export function turnsOf(log: string): Turn[] {
	return log.split('\n').filter((l) => l.includes('slow_turn')).map((l) => ({
		ms: number(l, 'ms'),
		cpuMs: number(l, 'cpu_ms'),
		slept: number(l, 'slept'),
		waitedMs: number(l, 'waited_ms'),
		work: /work"?[=:] ?"?([^"]*)/.exec(l)?.[1] ?? l,
	}));
}

/** A thread that has a lock of the loop may have no CPU for as long as others compute: two slices of busy neighbours were 25 ms. A disk that the
 * loop waits for takes longer now and then. */
const lockMs = 50 * slowness;

/** Turns of at least MS that were the server's own: it computed so long, or it waited for something that is no lock. A machine that has no CPU for it is neither. */
export const held = (log: string, ms: number): Turn[] =>
	turnsOf(log).filter((t) => t.cpuMs >= ms || (t.waitedMs >= Math.max(ms, lockMs) && t.slept > 0));
