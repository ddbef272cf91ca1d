// SPDX-License-Identifier: Apache-2.0
// The processes that a run of the tests has left. Other servers of the same binary may run on this machine: a process is one of the tests'
// if its arguments or its environment name a folder that only the test files of this run have.

import * as fs from 'node:fs';

/** The beginning of the names of the folders that the test files of the run with this mark have. */
export const prefixOf = (mark: string): string => `caisson-test-${mark}-`;

/** Processes whose program is one of BINARIES, and that have a folder of the run with this mark; not those of BEFORE. One line for each. */
export function leftovers(mark: string, binaries: ReadonlySet<string>, before: ReadonlySet<string> = new Set()): string[] {
	const left: string[] = [];
	for (const pid of fs.readdirSync('/proc').filter((n) => /^\d+$/.test(n) && !before.has(n))) {
		try {
			if (!binaries.has(fs.readlinkSync(`/proc/${pid}/exe`)))
				continue;
			const args = fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1');
			// The monitor has no environment: its arguments name the state folder.
			if (args.includes(prefixOf(mark)) || fs.readFileSync(`/proc/${pid}/environ`, 'latin1').includes(prefixOf(mark)))
				left.push(`${pid}: ${args.replaceAll('\0', ' ')}`);
		} catch {
			// gone meanwhile, or a kernel thread
		}
	}
	return left;
}
