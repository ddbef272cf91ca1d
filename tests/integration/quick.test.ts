// SPDX-License-Identifier: Apache-2.0
// The part of the tests that `make test` runs. No sandbox is needed.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { top } from '../lib/env.ts';
import { asUser, long, quick } from '../lib/quick.ts';
import { Sample } from '../lib/sample.ts';

const files = fs.readdirSync(path.join(top, 'tests/integration')).filter((f) => f.endsWith('.test.ts')).map((f) => path.basename(f, '.test.ts'));
const part = (seed: string): string[] => {
	const sample = new Sample(true, seed);
	return (['root', 'user'] as const).flatMap((mode) => files.filter((f) => quick(f, mode, false, 'root', sample)).map((f) => `${f} ${mode}`));
};

describe('the part of the tests that make test runs', () => {
	it('every name of its lists is that of a file', () => {
		assert.deepEqual([...long, ...asUser].filter((name) => !files.includes(name)), []);
	});
	it('it has each file that is not long, and the same part for the same seed', () => {
		const first = part('one');
		assert.deepEqual(files.filter((f) => !long.includes(f) && !first.includes(`${f} root`)), []);
		assert.deepEqual(part('one'), first);
	});
	it('seeds reach every file in either mode', () => {
		const reached = new Set(Array.from({ length: 400 }, (_, i) => part(`${i}`)).flat());
		assert.deepEqual(files.flatMap((f) => [`${f} root`, `${f} user`]).filter((f) => !reached.has(f)), []);
	});
});
