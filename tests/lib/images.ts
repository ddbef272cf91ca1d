// SPDX-License-Identifier: Apache-2.0
// Makes the images that tests need, in the folder that all tests share (CAISSON_TEST_IMAGES): those that are missing, or whose definition
// has changed. Who comes while others build waits for them. The log goes to standard error.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawn, spawnSync } from 'node:child_process';
import { imagesDir } from './env.ts';

const state = path.dirname(imagesDir);

/** The command that makes NAME; .ci/run holds the same lock while it builds. */
function commandOf(build: string, name: string): [string, string[]] {
	fs.mkdirSync(state, { recursive: true });
	return ['flock', [path.join(state, '.lock'), path.join(build, 'caisson'), 'image', 'build', name, '--if-changed', '--state-dir', state]];
}

/** Gives the name of one that could not be built. */
export function ensureImages(build: string, ...names: string[]): string | undefined {
	return names.find((name) => spawnSync(...commandOf(build, name), { stdio: ['ignore', 2, 2] }).status !== 0);
}

/** The same, beside what the caller does meanwhile. */
export async function makeImages(build: string, ...names: string[]): Promise<string | undefined> {
	for (const name of names) {
		const child = spawn(...commandOf(build, name), { stdio: ['ignore', 2, 2] });
		const code = await new Promise((resolve) => child.once('error', () => resolve(undefined)).once('exit', resolve));
		if (code !== 0)
			return name;
	}
	return undefined;
}
