// SPDX-License-Identifier: Apache-2.0
// The page as a person meets it: Debian's Chromium against the built binary.

import * as path from 'node:path';
import { Count } from '../../lib/count.ts';
import { binary } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { options, sampled, sampledUsage } from '../../lib/options.ts';
import { play, type Trial } from '../../lib/play.ts';
import { Sample } from '../../lib/sample.ts';
import { within } from '../../lib/wait.ts';
import { accountCases } from './accounts.ts';
import { appCases } from './apps.ts';
import { buildCases } from './builds.ts';
import { launch, World, type Case } from './case.ts';
import { dialogCases } from './dialogs.ts';
import { fileCases } from './files.ts';
import { fleetCases } from './fleet.ts';
import { hostileCases } from './hostile.ts';
import { plantedCases } from './planted.ts';
import { imageCases } from './images.ts';
import { keyboardCases } from './keyboard.ts';
import { notebookCases } from './notebook.ts';
import { personCases } from './person.ts';
import { prefixCases } from './prefix.ts';
import { processCases } from './processes.ts';
import { richCases } from './rich.ts';
import { scaleCases } from './scale.ts';
import { shapeCases } from './shape.ts';
import { smallCases } from './small.ts';
import { watchCases } from './watch.ts';

const CASE_MS = 100_000;
/** The fixed core of a sample. */
const CORE = /^(person: from the first|watch: a model works|hostile: names)/;
const opt = options(`usage: tests/run ui [options]
  --only PART   only the cases with PART in their name
  --jobs N      cases at a time (default: 2)
${sampledUsage}
Pictures of the pages are left in build/ui. CAISSON_TEST_BINARY names another binary.`, {
	only: { type: 'string', default: '' },
	jobs: { type: 'string', default: '2' },
	...sampled,
});
// The long ones first: cases run two at a time.
const cases: Case[] = [...shapeCases, ...personCases, ...scaleCases, ...hostileCases, ...plantedCases, ...richCases, ...watchCases, ...dialogCases, ...accountCases, ...keyboardCases, ...smallCases, ...fileCases, ...notebookCases, ...processCases, ...prefixCases, ...buildCases, ...imageCases, ...appCases, ...fleetCases];
const count = new Count();

if (ensureImages(path.dirname(binary), 'science', 'base')) {
	console.log('FAILED  an image could not be built');
	count.add('failed');
	count.close();
}
const browser = await launch();

/** A case, with a window of its own each time it runs. */
function trialOf(c: Case): Trial {
	return {
		name: c.name,
		run: async () => {
			const world = new World(browser);
			try {
				await within(c.name, c.run(world), c.limitMs ?? CASE_MS);
				world.check();
			} catch (e) {
				await world.pictures(`failed-${c.name.replace(/\W+/g, '-')}`);
				throw new Error(`${(e as Error).stack}\nbesides: ${world.taken().join('\n')}`);
			} finally {
				await world.end();
			}
		},
	};
}

const sample = new Sample(opt.sample, opt.seed);
const chosen = sample.order(cases.filter((c) => c.name.includes(opt.only)), (c) => c.name, (c) => CORE.test(c.name));
await play(chosen.map(trialOf), count, { jobs: Number(opt.jobs) });
await browser.close();
count.close();
