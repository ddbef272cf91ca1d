// SPDX-License-Identifier: Apache-2.0
// The page as a person meets it: Debian's Chromium against the built binary.

import * as path from 'node:path';
import { Count } from '../../lib/count.ts';
import { binary } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { options } from '../../lib/options.ts';
import { within } from '../../lib/wait.ts';
import { accountCases } from './accounts.ts';
import { appCases } from './apps.ts';
import { buildCases } from './builds.ts';
import { launch, World, type Case } from './case.ts';
import { dialogCases } from './dialogs.ts';
import { fileCases } from './files.ts';
import { hostileCases } from './hostile.ts';
import { plantedCases } from './planted.ts';
import { keyboardCases } from './keyboard.ts';
import { notebookCases } from './notebook.ts';
import { personCases } from './person.ts';
import { richCases } from './rich.ts';
import { scaleCases } from './scale.ts';
import { shapeCases } from './shape.ts';
import { smallCases } from './small.ts';
import { watchCases } from './watch.ts';

const CASE_MS = 100_000;
const opt = options(`usage: tests/run ui [options]
  --only PART   only the cases with PART in their name
  --jobs N      cases at a time (default: 2)
Pictures of the pages are left in build/ui. CAISSON_TEST_BINARY names another binary.`, {
	only: { type: 'string', default: '' },
	jobs: { type: 'string', default: '2' },
});
// The long ones first: cases run two at a time.
const cases: Case[] = [...shapeCases, ...personCases, ...scaleCases, ...hostileCases, ...plantedCases, ...richCases, ...watchCases, ...dialogCases, ...accountCases, ...keyboardCases, ...smallCases, ...fileCases, ...notebookCases, ...buildCases, ...appCases];
const count = new Count();

if (ensureImages(path.dirname(binary), 'science', 'base')) {
	console.log('FAILED  an image could not be built');
	count.add('failed');
	count.close();
}
const browser = await launch();

async function run(c: Case): Promise<void> {
	const begin = performance.now();
	const world = new World(browser);
	try {
		await within(c.name, c.run(world), c.limitMs ?? CASE_MS);
		world.check();
		count.add('passed');
		console.log(`ok      ${c.name} (${Math.round(performance.now() - begin)} ms)`);
	} catch (e) {
		count.add('failed');
		await world.pictures(`failed-${c.name.replace(/\W+/g, '-')}`);
		console.log(`FAILED  ${c.name}\n        ${String((e as Error).stack).split('\n').slice(0, 30).join('\n        ')}`);
		try {
			world.check();
		} catch (also) {
			console.log(`        besides: ${(also as Error).message.split('\n').slice(0, 20).join('\n        ')}`);
		}
	} finally {
		await world.end().catch((e: Error) => {
			count.add('failed');
			console.log(`FAILED  ${c.name}: its end: ${e.message}`);
		});
	}
}

const queue = cases.filter((c) => c.name.includes(opt.only));
await Promise.all(Array.from({ length: Number(opt.jobs) }, async () => {
	for (let c = queue.shift(); c; c = queue.shift())
		await run(c);
}));
await browser.close();
count.close();
