// SPDX-License-Identifier: Apache-2.0
// The tests' own temporary folders: none is left behind, and nobody else's is touched.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { once } from 'node:events';
import { spawn, type ChildProcess } from 'node:child_process';
import { describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import { scratch, top } from '../lib/env.ts';
import { sweep } from '../lib/owned.ts';
import { within } from '../lib/wait.ts';

/** A process with a folder in `parent`, which it has filled. */
async function owner(parent: string): Promise<{ child: ChildProcess; dir: string; end: Promise<unknown[]> }> {
	const lib = pathToFileURL(path.join(top, 'tests/lib/owned.ts')).href;
	const code = `import { owned } from ${JSON.stringify(lib)};
		import * as fs from 'node:fs';
		const dir = owned('caisson-test-', ${JSON.stringify(parent)});
		fs.mkdirSync(dir + '/a/b', { recursive: true });
		process.stdout.write(dir);
		setInterval(() => undefined, 1000);`;
	const child = spawn(process.execPath, ['--no-warnings', '--experimental-strip-types', '--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
	const end = once(child, 'close');
	const [dir] = await within('the folder', once(child.stdout!, 'data'), 30_000);
	return { child, dir: String(dir), end };
}

describe('temporary folders of tests', () => {
	for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
		it(`${signal} takes them along`, async () => {
			const { child, dir, end } = await owner(scratch('owner'));
			assert.ok(fs.existsSync(path.join(dir, 'a/b')));
			child.kill(signal);
			await within('the end', end, 30_000);
			assert.ok(!fs.existsSync(dir));
		});
	it('those of a killed process go with the next sweep, and no other', async () => {
		const parent = scratch('owners');
		const dead = await owner(parent), alive = await owner(parent);
		const others = ['caisson-test-nobodys', 'caisson-other-x'].map((n) => path.join(parent, n));
		for (const dir of others)
			fs.mkdirSync(dir);
		fs.copyFileSync(path.join(dead.dir, '.owner'), path.join(others[1]!, '.owner'));
		dead.child.kill('SIGKILL');
		await dead.end;
		assert.ok(fs.existsSync(dead.dir));
		sweep(parent, 'caisson-test-', 'caisson-run-');
		assert.ok(!fs.existsSync(dead.dir));
		for (const dir of [alive.dir, ...others])
			assert.ok(fs.existsSync(dir), dir);
		alive.child.kill('SIGTERM');
		await alive.end;
	});
});
