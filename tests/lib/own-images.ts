// SPDX-License-Identifier: Apache-2.0
// A state folder with an image of its own, for tests that make further ones.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { imagesDir, scratch } from './env.ts';

/** With a copy of the image `base`. */
export function stateOfItsOwn(): string {
	const dir = scratch('state');

	fs.mkdirSync(path.join(dir, 'images'));
	fs.cpSync(path.join(imagesDir, 'base'), path.join(dir, 'images/base'), { recursive: true, verbatimSymlinks: true });
	return dir;
}

/** Names of images of STATE, and what builds have left. */
export const imagesOf = (state: string): string[] => fs.readdirSync(path.join(state, 'images')).filter((n) => n !== '.lock').sort();
