// SPDX-License-Identifier: Apache-2.0
// Counts results and writes the closing line that every suite ends with.

/** `flaky`: the case failed, and passed when it ran again. */
export type Outcome = 'passed' | 'failed' | 'skipped' | 'flaky';

/** So many cases may be flaky in one run; more are no accident. CAISSON_TEST_SLOTS names another number: 0 counts every first failure. */
export const SLOTS = Number(process.env.CAISSON_TEST_SLOTS ?? 5);

export class Count {
	passed = 0;
	failed = 0;
	skipped = 0;
	flaky = 0;

	add(outcome: Outcome, n = 1): void {
		this[outcome] += n;
	}

	/** `.ci/run` reads exactly this line. The part about flaky results is there only when there are some. */
	line(): string {
		return `${this.passed} passed, ${this.failed} failed, ${this.skipped} skipped${this.flaky > 0 ? `, ${this.flaky} flaky` : ''}`;
	}

	/** Prints the closing line and ends the process. A run that had no case at all is a failure. */
	close(): never {
		console.log(`\n${this.line()}`);
		process.exit(this.failed > 0 || this.flaky > SLOTS || this.passed + this.flaky + this.skipped === 0 ? 1 : 0);
	}
}
