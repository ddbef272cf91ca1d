// SPDX-License-Identifier: Apache-2.0
// Drop-in for both originals: each row makes the calls of an original's client and compares the answers with what the original gave.
// docs/moving.md is made from the rows, so every line of it is tested here.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { Count } from '../../lib/count.ts';
import { binary, top } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { options } from '../../lib/options.ts';
import { play, type Trial } from '../../lib/play.ts';
import { within } from '../../lib/wait.ts';
import { firstRows } from './first.ts';
import { movingPage } from './moving.ts';
import type { Row } from './row.ts';
import { secondRows } from './second.ts';

const ROW_MS = 90_000;
const AT_ONCE = 2;
const opt = options(`usage: tests/run originals [options]
  --only PART   only the rows with PART in their name
  --write       write docs/moving.md from the rows, and run nothing
CAISSON_TEST_BINARY names another binary.`, {
	only: { type: 'string', default: '' },
	write: { type: 'boolean', default: false },
});
const rows = [...firstRows, ...secondRows];
const file = path.join(top, 'docs/moving.md');
const page = movingPage(rows);
if (opt.write) {
	fs.writeFileSync(file, page);
	process.exit(0);
}
const count = new Count();

function trialOf(row: Row): Trial {
	const name = `${row.original}: ${row.name}`;
	return {
		name,
		run: async () => {
			try {
				await within(name, row.run(), ROW_MS);
			} catch (e) {
				if (row.pending)
					return row.pending;
				throw e;
			}
			if (row.pending)
				console.log(`        ${name} is no longer pending: remove the mark`);
			return undefined;
		},
	};
}

if (ensureImages(path.dirname(binary), 'science')) {
	console.log('FAILED  the image science could not be built');
	count.add('failed');
	count.close();
}
if (!fs.existsSync(file) || fs.readFileSync(file, 'utf8') !== page) {
	console.log('FAILED  docs/moving.md is not what the rows say: tests/run originals --write');
	count.add('failed');
} else {
	console.log('ok      docs/moving.md is made from the rows');
	count.add('passed');
}
await play(rows.filter((r) => r.name.includes(opt.only)).map(trialOf), count, { jobs: AT_ONCE });
count.close();
