// SPDX-License-Identifier: Apache-2.0
// Files anywhere in a sandbox of containers: a program of tests/integration names them by every kind of path.

import assert from 'node:assert/strict';
import * as path from 'node:path';
import { spawn } from 'node:child_process';
import { binary } from '../../lib/env.ts';
import { Program } from '../../lib/process.ts';
import type { EngineCase, World } from './cases.ts';

async function name(w: World, ...args: string[]): Promise<void> {
	const program = path.join(path.dirname(binary), 'tests/integration/engine_places');
	const p = new Program(spawn(program, ['--image', w.env.SANDBOX_IMAGE!, '--daemon', w.daemon.host, ...args], { stdio: ['ignore', 'pipe', 'pipe'] }));
	const e = await p.exit, said = e.stdout.toString() + e.stderr.toString();
	assert.equal(e.code, 0, said.slice(-3000));
	assert.match(said, /^ok \d - names$/m);
}

export const placeCases: EngineCase[] = [
	{
		name: 'files anywhere in a container: what paths lead to and what is refused, names, links, watches',
		skip: (w) => w.daemon.product === 'podman' ? 'with runc, Podman gives the mount on /home/sandbox the owner and mode of the image\'s folder: root, 0755' : undefined,
		run: (w) => name(w),
	},
	{ name: 'gVisor: files anywhere in a sandbox: what paths lead to and what is refused, names, links', docker: true, run: (w) => name(w, '--runtime', 'runsc') },
];
