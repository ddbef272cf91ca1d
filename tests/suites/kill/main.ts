// SPDX-License-Identifier: Apache-2.0
// Builds the product with kill points, runs every try in every mode that this host can do, and prints the table.

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { Count } from '../../lib/count.ts';
import { openCopy, type Mode } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { askDoctor, modes, runRows } from '../../lib/modes.ts';
import { options, sampled, sampledUsage } from '../../lib/options.ts';
import { owned, sweep } from '../../lib/owned.ts';
import { playAgain } from '../../lib/play.ts';
import { Sample } from '../../lib/sample.ts';
import { makeTestingBuild, testingBuild } from '../../lib/testing-build.ts';
import { againEnv } from '../../lib/time.ts';
import { points } from './points.ts';
import { scenarios } from './scenarios.ts';
import type { Row } from './suite.ts';

const usage = `usage: tests/run kill [options]
  --case REGEX  only what matches; the pattern is compared with SCENARIO/POINT/VICTIM
  --mode MODE   root or user (may be repeated; default: both)
  --jobs N      servers at a time (default: 2)
  --image NAME  the image of the sandboxes (default: base)
  --list        print the points and end
${sampledUsage}`;

const opt = options(usage, {
	case: { type: 'string', default: '' },
	mode: { type: 'string', multiple: true },
	jobs: { type: 'string', default: '2' },
	image: { type: 'string', default: 'base' },
	list: { type: 'boolean', default: false },
	...sampled,
});
if (opt.list) {
	for (const p of points)
		console.log(`${p.name.padEnd(18)}${p.who.padEnd(13)}${p.what}  [${scenarios.filter((s) => s.points.includes(p.name)).map((s) => s.name).join(', ')}]`);
	console.log(`\n${points.length} points`);
	process.exit(0);
}

sweep(os.tmpdir(), 'caisson-kill-', 'caisson-test-');
const scratch = owned('caisson-kill-');
fs.chmodSync(scratch, 0o755);
const count = new Count();
const sample = new Sample(opt.sample, opt.seed);

function fail(text: string): void {
	console.log(`FAILED  ${text}`);
	count.add('failed');
}

/** The lines of one row. */
function show(r: Row): void {
	console.log(`${(r.outcome === 'passed' ? 'held' : r.outcome).padEnd(8)}${r.point.padEnd(18)}${r.victim.padEnd(9)}${r.what.padEnd(26)}${String(r.ms).padStart(6)} ms  ${r.scenario}`);
	if (r.why)
		console.log(r.why.split('\n').slice(0, 12).map((l) => `        ${l}`).join('\n'));
}

async function runMode(mode: Mode, binary: string): Promise<void> {
	const reached = new Set<string>(), leftOut = new Set<string>();
	const began = performance.now();
	const jobs = Math.max(1, Number(opt.jobs) || 1);
	console.log(`\nnative, ${mode}`);
	const failed: Row[] = [];
	const take = (r: Row): void => {
		if (r.outcome === 'left out') {
			if (r.victim === 'itself') // of the fixed core, unless that does without this point
				leftOut.add(r.point);
			return sample.note(0, 1);
		}
		sample.note(1, 1);
		if (r.outcome === 'failed')
			failed.push(r);
		else
			reached.add(r.point); // or there was no time to reach it
		if (r.outcome === 'absent') // the point was reached, and there was no such process to kill
			return;
		if (r.outcome !== 'failed')
			count.add(r.outcome);
		show(r);
	};
	const worker = (part: string, only: string, each: (r: Row) => void): Promise<number> => runRows<Row>('kill/suite.ts', {
		CAISSON_TEST_MODE: mode, CAISSON_TEST_BINARY: binary, CAISSON_TEST_IMAGE: opt.image,
		KILL_PART: part, KILL_CASE: only, KILL_SEED: sample.on && each === take ? sample.seed : '', ...(each === take ? {} : againEnv),
	}, each, { under: [path.join(testingBuild, 'tests/suites/kill/nursery')] });
	const codes = await Promise.all(Array.from({ length: jobs }, (_, i) => worker(`${i}/${jobs}`, opt.case, take)));
	await playAgain(failed, count, {
		name: (r) => `[${mode}] ${r.scenario}/${r.point}/${r.victim}`,
		strict: true,
		run: async (rows) => {
			const again: Row[] = [];
			await worker('0/1', `^(${rows.map((r) => `${r.scenario}/${r.point}/${r.victim}`.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|')})$`, (r) => {
				again.push(r);
				show(r);
			});
			again.filter((r) => r.outcome === 'passed').forEach((r) => reached.add(r.point));
			return again;
		},
	});
	for (const code of codes.filter((c) => c !== 0))
		fail(`a worker ended with status ${code}`);
	const never = points.filter((p) => !reached.has(p.name) && !leftOut.has(p.name) && !(mode === 'user' && p.rootOnly));
	if (!opt.case && never.length > 0 && !(sample.on && mode === 'user')) // root's part of a sample has all points
		fail(`never reached: ${never.map((p) => p.name).join(' ')}`);
	console.log(`${reached.size} of ${points.length} points, ${((performance.now() - began) / 1000).toFixed(0)} s`);
}

if (!makeTestingBuild('caisson', 'tests/suites/kill/nursery')) {
	fail('the build with kill points');
} else if (ensureImages(testingBuild, opt.image, 'base')) { // with base the server begins that makes images
	fail(`the image ${opt.image} could not be built`);
} else {
	const binary = openCopy(path.join(testingBuild, 'caisson'), scratch); // a path that the plain user can reach
	for (const mode of (opt.mode ?? modes) as Mode[]) {
		const can = askDoctor(mode, binary, scratch);
		if (can.missing) {
			console.log(`${mode}: skipped, ${can.missing}`);
			count.add('skipped');
		} else {
			await runMode(mode, binary);
		}
	}
}
sample.tell('kills');
count.close();
