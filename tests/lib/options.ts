// SPDX-License-Identifier: Apache-2.0
// Reads the command line of a suite. A wrong option is told in one line, not as a stack trace.

import { parseArgs, type ParseArgsConfig } from 'node:util';

type Options = NonNullable<ParseArgsConfig['options']>;
type Parsed<T extends Options> = ReturnType<typeof parseArgs<{ options: T & { help: { type: 'boolean'; short: 'h' } } }>>['values'];

/** Prints USAGE and ends for --help and for what it does not know. */
export function options<const T extends Options>(usage: string, table: T): Parsed<T> {
	try {
		const { values } = parseArgs({ options: { ...table, help: { type: 'boolean', short: 'h' } } });
		if ((values as { help?: boolean }).help) {
			console.log(usage);
			process.exit(0);
		}
		return values as Parsed<T>;
	} catch (e) {
		console.log(`FAILED  ${(e as Error).message}\n${usage}\n0 passed, 1 failed, 0 skipped`);
		process.exit(2);
	}
}

/** The options of every suite that can run a sample. */
export const sampled = { sample: { type: 'boolean', default: false }, seed: { type: 'string' } } as const;
export const sampledUsage = `  --sample      a fixed core and a part of the rest that changes with the commit (what CI runs)
  --seed TEXT   the part that another run had, which printed this seed`;
