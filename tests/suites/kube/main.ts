// SPDX-License-Identifier: Apache-2.0
// The chart of packaging/chart (README.md).

import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { Count } from '../../lib/count.ts';
import { top } from '../../lib/env.ts';
import { options } from '../../lib/options.ts';
import { play } from '../../lib/play.ts';
import { chartCases } from './chart.ts';

const opt = options(`usage: tests/run kube [options]   the chart of packaging/chart
  --case REGEX   only cases whose name matches`, { case: { type: 'string', default: '' } });
const count = new Count();

/** The folder with helm, or undefined where it can be neither found nor built. */
function programs(): string | undefined {
	const built = spawnSync(path.join(top, 'tests/suites/kube/build'), ['helm'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
	if (built.status === 0)
		return built.stdout.trim();
	const strict = process.env.CAISSON_STRICT === '1';
	console.log(`${strict ? 'FAILED' : 'skip  '}  helm could not be built`);
	count.add(strict ? 'failed' : 'skipped');
	return undefined;
}

const folder = programs();
if (folder)
	await play(chartCases(path.join(folder, 'helm')).filter((c) => new RegExp(opt.case).test(c.name)), count);
count.close();
