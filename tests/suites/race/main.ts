// SPDX-License-Identifier: Apache-2.0
// Chooses the build (with sanitizers where there is one) before anything of the library reads it.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';
import { options } from '../../lib/options.ts';

const usage = `usage: tests/run race [options]
  --seconds N       how long operations are begun (default: 60)
  --seed N          the operations (default: by the clock; it is printed)
  --actors N        clients at a time (default: 10)
  --replay FILE     the operations of a log, at their times
  --sanitize        fail if there is no build-asan/
  --plain           build/ even if there is one`;
const opt = options(usage, {
	seconds: { type: 'string', default: '60' },
	seed: { type: 'string' },
	actors: { type: 'string', default: '10' },
	replay: { type: 'string' },
	sanitize: { type: 'boolean', default: false },
	plain: { type: 'boolean', default: false },
});
const build = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../../build-asan');
if (!opt.plain && !process.env.CAISSON_TEST_BINARY && fs.existsSync(path.join(build, 'caisson'))) {
	process.env.CAISSON_TEST_BINARY = path.join(build, 'caisson');
	process.env.CAISSON_TEST_SANITIZED = '1';
}
if (opt.sanitize && process.env.CAISSON_TEST_SANITIZED !== '1') {
	console.log('FAILED  there is no build-asan/: tools/build-asan\n0 passed, 1 failed, 0 skipped');
	process.exit(1);
}
const text = opt.seed ?? String(Date.now() % 1_000_000_000);
// A seed of CI is a commit: any text will do.
const seed = /^\d{1,9}$/.test(text) ? Number(text) : [...text].reduce((h, c) => (Math.imul(h, 31) + c.charCodeAt(0)) >>> 0, 7);
const { race } = await import('./race.ts');
const ok = await race({ seconds: Number(opt.seconds), seed, actors: Number(opt.actors), replay: opt.replay });
console.log(ok ? '1 passed, 0 failed, 0 skipped' : '0 passed, 1 failed, 0 skipped');
process.exit(ok ? 0 : 1);
