// SPDX-License-Identifier: Apache-2.0
// A row: what a client of one of the two originals does, and what it got there. Rows with `page` are also lines of docs/moving.md.

import assert from 'node:assert/strict';

export type Original = 'first' | 'second';

export interface Row {
	original: Original;
	name: string;
	/** The line of docs/moving.md: what it was there, what it is here and how to get the old behaviour. */
	page?: { topic: string; there: string; here: string };
	/** Why the answer is not yet that of the original. Such a row is skipped with this reason while it fails. */
	pending?: string;
	run(): Promise<void>;
}

/** Compares an answer with facts about the original's: texts that change from run to run are patterns. */
export function agrees(got: unknown, fact: unknown, where = 'answer'): void {
	if (fact instanceof RegExp) {
		assert.match(String(got), fact, where);
	} else if (Array.isArray(fact)) {
		assert.ok(Array.isArray(got), `${where} is no list: ${JSON.stringify(got)}`);
		assert.equal(got.length, fact.length, `${where}: ${JSON.stringify(got)}`);
		fact.forEach((f, i) => agrees(got[i], f, `${where}[${i}]`));
	} else if (fact !== null && typeof fact === 'object') {
		assert.ok(got !== null && typeof got === 'object', `${where} is no object: ${JSON.stringify(got)}`);
		assert.deepEqual(Object.keys(got), Object.keys(fact), `names in ${where}: ${JSON.stringify(got)}`);
		for (const [key, f] of Object.entries(fact))
			agrees((got as Record<string, unknown>)[key], f, `${where}.${key}`);
	} else {
		assert.deepEqual(got, fact, where);
	}
}
