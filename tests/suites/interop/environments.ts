// SPDX-License-Identifier: Apache-2.0
// An environment of Python for each generation of its MCP client, under build/python.

import * as path from 'node:path';
import { pythonEnvironment } from '../../lib/python.ts';
import { here } from './client.ts';

export type Generation = 1 | 2;

/** The interpreter of a generation's environment. The first call installs its packages. */
export function interpreter(generation: Generation): string {
	return path.join(pythonEnvironment(`interop/python-${generation}`, path.join(here, 'python', `requirements-${generation}.txt`)), 'python');
}
