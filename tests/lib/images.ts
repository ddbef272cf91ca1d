// SPDX-License-Identifier: Apache-2.0
// Makes the images that tests need, in the folder that all tests share (CAISSON_TEST_IMAGES).

import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { imagesDir } from './env.ts';

/** Builds those of NAMES that are missing; gives the name of one that could not be built. The log goes to standard error. */
export function ensureImages(build: string, ...names: string[]): string | undefined {
	const env = { ...process.env, SANDBOX_STATE_DIR: path.dirname(imagesDir) };
	return names.find((name) => spawnSync(path.join(build, 'caisson'), ['image', 'build', name, '--if-missing'], { stdio: ['ignore', 2, 2], env }).status !== 0);
}
