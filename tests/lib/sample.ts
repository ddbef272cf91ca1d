// SPDX-License-Identifier: Apache-2.0
// Chooses the part of a long suite that runs. The choice depends on a seed alone, so a failure can be repeated with --seed.

import { createHash } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { top } from './env.ts';

/** CI gives the commit as the seed, so that every commit runs another part. */
function defaultSeed(): string {
	const r = spawnSync('git', ['-C', top, 'rev-parse', '--short=12', 'HEAD'], { encoding: 'utf8' });
	return process.env.CAISSON_TEST_SEED || r.stdout?.trim() || 'none';
}

export class Sample {
	readonly on: boolean;
	readonly seed: string;
	private ran = 0;
	private whole = 0;

	/** A seed asks for a sample, too. */
	constructor(on: boolean, seed?: string) {
		this.on = on || seed !== undefined;
		this.seed = seed ?? defaultSeed();
	}

	/** A number from 0 up to 1 that depends on the seed and NAME. */
	private draw(name: string): number {
		return createHash('sha256').update(`${this.seed}/${name}`).digest().readUInt32BE(0) / 2 ** 32;
	}

	/** One of N alternatives for NAME, as an index. */
	turn(name: string, n: number): number {
		return Math.floor(this.draw(`turn of ${name}`) * n);
	}

	/** Whether NAME runs. ALWAYS: it belongs to the fixed core. SHARE: the part of all other names that runs, from 0 to 1. */
	picks(name: string, share: number, always = false): boolean {
		const picked = !this.on || always || this.draw(name) < share;
		this.whole++;
		this.ran += picked ? 1 : 0;
		return picked;
	}

	/** The order in which a sample runs LIST until its time is used up: the fixed core, then the rest as the seed has it. Without a sample: as it is. */
	order<T>(list: readonly T[], name: (t: T) => string, core: (t: T) => boolean): T[] {
		if (!this.on)
			return [...list];
		const place = (t: T): number => core(t) ? -1 : this.draw(`order of ${name(t)}`);
		return [...list].sort((a, b) => place(a) - place(b));
	}

	/** For counts that another process made. */
	note(ran: number, whole: number): void {
		this.ran += ran;
		this.whole += whole;
	}

	/** One line that says how much of the whole ran, how to run the same part again, and the whole. */
	tell(unit: string, everything = 'without --sample'): void {
		if (this.on)
			console.log(`sample: ${this.ran} of ${this.whole} ${unit}; the same part again: --seed ${this.seed}; everything: ${everything}`);
	}
}
