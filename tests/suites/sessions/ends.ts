// SPDX-License-Identifier: Apache-2.0
// The kinds of end that a cell can have. Each is a cell that first sets `mark` to 2.

export interface End {
	code: string;
	/** Seconds that the cell may take; it needs more. */
	limit?: number;
	/** The session's process goes on; otherwise it is killed, and the library says what is there then. */
	kept?: true;
}

export const ends: Record<string, End> = {
	'an exception': { code: '1 / 0', kept: true },
	'an exit': { code: 'import sys; sys.exit(3)', kept: true },
	'an interrupt': { code: 'import time; time.sleep(600)', limit: 1, kept: true },
	'an interrupt that nothing answers': { code: 'sum(range(10**13))', limit: 1 },
	'an abort': { code: 'import os; os.abort()' },
	'an exit without clearing up': { code: 'import os; os._exit(4)' },
	'no memory': { code: 'import ctypes\nb = []\nwhile True: b.append(ctypes.create_string_buffer(b"x" * (64 << 20)))' },
};
