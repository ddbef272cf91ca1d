// SPDX-License-Identifier: Apache-2.0
// tests/run hides what this machine has of Caisson: state, home, cache. What stands there afterwards, a test has made, and what a test looks for
// there it does not find.

import * as fs from 'node:fs';

/** The hidden folders, in the order in which tests/run named them. */
const hidden = (process.env.CAISSON_TEST_HIDDEN ?? '').split(':').filter(Boolean);

/** Why nothing can be said about it here. */
export const notHidden = hidden.length === 0 && 'tests/run could not hide the folders of this machine: that needs root';

/** What was made in the hidden folders. */
export function madeOnMachine(): string[] {
	return hidden.flatMap((dir) => {
		try {
			return fs.readdirSync(dir).map((name) => `${dir}/${name}`);
		} catch {
			return []; // it is not there, as before
		}
	});
}
