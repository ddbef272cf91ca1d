// SPDX-License-Identifier: Apache-2.0
// The time that a run has. When it is used up, no further case begins. What found no time is skipped and named; it never fails.

/** In milliseconds since 1970; .ci/run and `make test` set it. Without it there is no end. */
const until = Number(process.env.CAISSON_TEST_UNTIL || Infinity);

export const NO_TIME = 'the time of this run is used up';

export function timeLeft(): number {
	return until - Date.now();
}

export function timeIsUp(): boolean {
	return timeLeft() <= 0;
}

/** What failed may run again for so long beyond the end: a failure must not be final because it came late. */
export const AGAIN_MS = 120_000;

export function mayRunAgain(): boolean {
	return timeLeft() > -AGAIN_MS;
}

/** For a process that runs cases again: its own end. */
export const againEnv: Readonly<Record<string, string>> = until < Infinity ? { CAISSON_TEST_UNTIL: String(until + AGAIN_MS) } : {};
