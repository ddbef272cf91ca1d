// SPDX-License-Identifier: Apache-2.0
// A server whose wall clock jumps when a test says so; its other clocks go on (suites/torture/clock.c).

import * as fs from 'node:fs';
import path from 'node:path';
import { binary, mode, sanitized, scratch } from './env.ts';

export const hour = 3_600_000;

/** Why the clock cannot be moved, or need not. */
export const noClock = sanitized ? 'the sanitizers want to be the first library' : mode === 'root' ? false : 'once is enough: the front is the same for everybody';

export class WallClock {
	private readonly file = path.join(scratch('clock'), 'offset');
	/** For the environment of the server. */
	readonly env: Record<string, string>;

	constructor() {
		fs.writeFileSync(this.file, Buffer.alloc(8));
		fs.chmodSync(this.file, 0o644);
		this.env = { LD_PRELOAD: path.join(path.dirname(binary), 'tests/suites/torture/clock.so'), CLOCK_OFFSET_FILE: this.file };
	}

	/** From now on the server's wall clock is so many milliseconds ahead of ours. */
	jump(ms: number): void {
		const b = Buffer.alloc(8);
		b.writeBigInt64LE(BigInt(ms) * 1_000_000n);
		const fd = fs.openSync(this.file, 'r+'); // in place: the server has it mapped
		fs.writeSync(fd, b, 0, 8, 0);
		fs.closeSync(fd);
	}
}
