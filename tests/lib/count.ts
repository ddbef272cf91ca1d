// SPDX-License-Identifier: Apache-2.0
// Counts results and writes the closing line that every suite ends with.

/** `flaky`: the case failed, and passed when it was run a second time. */
export type Outcome = 'passed' | 'failed' | 'skipped' | 'flaky';

/** A case whose title contains this asserts how long something takes. When it passes on the second run, it counts as passed. */
const TIMING = '(timing)';

/** How a case counts that failed first and then passed. */
export function afterSecondRun(title: string): Outcome {
	return title.includes(TIMING) ? 'passed' : 'flaky';
}

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

	/** Prints the closing line and ends the process. A run without a single passed case is a failure. */
	close(): never {
		console.log(`\n${this.line()}`);
		process.exit(this.failed > 0 || this.passed + this.flaky === 0 ? 1 : 0);
	}
}
