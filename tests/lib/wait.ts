// SPDX-License-Identifier: Apache-2.0
// Waiting for what can only be observed by looking: with a deadline and the reason in the failure.

import { setTimeout as pause } from 'node:timers/promises';
import { slowness } from './env.ts';

type Falsy = false | null | undefined | 0 | '';

/** The shortest deadline: a test does not assert how quick something is, and a machine may stall. */
const DEADLINE_MS = 30_000;

/** Looks every 10 ms until `look` gives something truthy; fails after `deadlineMs`, or DEADLINE_MS if that is longer. */
export async function until<T>(what: string, look: () => T | Promise<T>, deadlineMs = DEADLINE_MS): Promise<Exclude<T, Falsy>> {
	const most = Math.round(Math.max(deadlineMs, DEADLINE_MS) * slowness);
	const end = performance.now() + most;
	for (;;) {
		const seen = await look();
		if (seen)
			return seen as Exclude<T, Falsy>;
		if (performance.now() > end)
			throw new Error(`waited ${most} ms in vain for: ${what}`);
		await pause(10);
	}
}

/** Fails unless `promise` settles in time. */
export async function within<T>(what: string, promise: Promise<T>, deadlineMs: number): Promise<T> {
	let timer: NodeJS.Timeout | undefined;
	const late = new Promise<never>((_, reject) => {
		timer = setTimeout(() => reject(new Error(`${what} took more than ${Math.round(deadlineMs * slowness)} ms`)), deadlineMs * slowness);
	});
	try {
		return await Promise.race([promise, late]);
	} finally {
		clearTimeout(timer);
	}
}
