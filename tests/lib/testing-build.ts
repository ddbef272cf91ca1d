// SPDX-License-Identifier: Apache-2.0
// The build that the tests of walls and of kill points share: walls can be left out, processes can be killed at named points.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { top } from './env.ts';

export const testingBuild = path.join(top, 'build-testing');

/** Brings `targets` of it up to date; false = it does not build, and the log is on standard output. */
export function makeTestingBuild(...targets: string[]): boolean {
	const options = ['-Dremovable_walls=true', '-Dkill_points=true'];
	if (!fs.existsSync(path.join(testingBuild, 'build.ninja')) &&
		spawnSync('meson', ['setup', testingBuild, ...options], { cwd: top, stdio: ['ignore', 'ignore', 'inherit'] }).status !== 0)
		return false;
	const made = spawnSync('ninja', ['-C', testingBuild, ...targets], { encoding: 'utf8', maxBuffer: 1 << 26 });
	if (made.status !== 0)
		console.log(made.stdout.slice(-4000));
	return made.status === 0;
}
