// SPDX-License-Identifier: Apache-2.0
// Runs a suite that is no TypeScript, and judges what failed as all suites do (play.ts).
//   external.ts PROGRAM [ARGUMENT…]
// The program prints `ok      CASE` or `FAILED  CASE` for each case, with indented lines about it, and the closing line at the end. To
// run cases again it is called once more: CAISSON_TEST_AGAIN has their names, one on each line. It may run more than these.

import * as path from 'node:path';
import * as readline from 'node:readline';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Count } from './count.ts';
import { playAgain, type Result } from './play.ts';

interface Case extends Result {
	name: string;
}

const [program, ...args] = process.argv.slice(2) as [string, ...string[]];
const suite = path.basename(path.dirname(program));

/** COUNT gets what passed and what was skipped. */
async function run(names: string[], count: Count): Promise<Case[]> {
	const child = spawn(program, args, { stdio: ['inherit', 'pipe', 'inherit'], env: { ...process.env, CAISSON_TEST_AGAIN: names.join('\n') } });
	const end = once(child, 'close') as Promise<[number | null, string | null]>;
	const cases: Case[] = [];
	let failures = -1; // of the closing line
	for await (const line of readline.createInterface({ input: child.stdout })) {
		const closing = /^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$/.exec(line);
		if (closing) {
			count.add('passed', Number(closing[1]));
			count.add('skipped', Number(closing[3] ?? 0));
			failures = Number(closing[2]);
			continue;
		}
		console.log(line.replace(/^FAILED /, 'failed '));
		const said = /^(ok|FAILED) +(.+)$/.exec(line), last = cases.at(-1);
		if (said)
			cases.push({ name: said[2]!, outcome: said[1] === 'ok' ? 'passed' : 'failed', why: '' });
		else if (last && line.startsWith(' '))
			last.why += `${line}\n`;
	}
	const [status, signal] = await end;
	if (args.includes('--help') && status === 0)
		process.exit();
	const named = cases.filter((c) => c.outcome === 'failed').length;
	if (named !== failures || (status !== 0 && named === 0))
		cases.push({ name: suite, outcome: 'failed', why: `it ended with ${signal ?? status} and named ${named} failures` });
	return cases;
}

const count = new Count();
const failed = (await run([], count)).filter((c) => c.outcome === 'failed');
await playAgain(failed, count, { name: (c) => c.name, run: (cases) => run(cases.map((c) => c.name), new Count()) });
count.close();
