// SPDX-License-Identifier: Apache-2.0
// What lib/runner.ts says at the end of a run: processes of its own tests are left, and those of somebody else are nothing to it. And what a census says.

import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { binary, imagesDir, scratch } from '../lib/env.ts';
import { leftovers, prefixOf } from '../lib/leftovers.ts';
import { alive, Census, descendants, type Program } from '../lib/process.ts';
import { serve } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

/** A server with a state folder whose name begins with PREFIX. */
async function server(prefix: string): Promise<Program> {
	const home = scratch(prefix), state = path.join(home, 'state');
	fs.mkdirSync(state);
	fs.symlinkSync(imagesDir, path.join(state, 'images'));
	const { uid, gid } = fs.statSync(home);
	fs.chownSync(state, uid, gid);
	return (await serve({ profile: 'full', env: { HOME: home, SANDBOX_STATE_DIR: state, SANDBOX_LOG_FILE: path.join(home, 'log') } })).program;
}

describe('processes that a run of the tests has left', () => {
	it('another server of the same binary is not one of them; each process of the own server is', async () => {
		const binaries = new Set([fs.realpathSync(binary)]);
		const left = (): number[] => leftovers('MARK', binaries).map((line) => Number(/^\d+/.exec(line)![0]));
		const foreign = await server('caisson-test-other-');
		const own = await server(prefixOf('MARK'));
		try {
			const ours = [own.pid, ...descendants(own.pid).filter((p) => p.name === 'caisson-monitor').map((p) => p.pid)];
			assert.ok(ours.length >= 2, 'a front and a monitor');
			assert.deepEqual(ours.filter((pid) => !left().includes(pid)), []);
			const theirs = [foreign.pid, ...descendants(foreign.pid).map((p) => p.pid)];
			assert.deepEqual(theirs.filter((pid) => left().includes(pid)), []);
			await own.end();
			await until('the end of all that is ours', () => left().length === 0);
			assert.ok(descendants(foreign.pid).some((p) => alive(p)), 'the other one runs on');
		} finally {
			await own.end();
			await foreign.end();
		}
	});
});

describe('a census', () => {
	it('takes no new pid namespace for one that has ended', { skip: process.getuid!() !== 0 && 'a pid namespace needs root' }, async () => {
		const children: ChildProcess[] = [];
		const begin = async (): Promise<ChildProcess> => {
			const child = spawn('unshare', ['--pid', '--fork', '--kill-child', 'sleep', '500'], { stdio: 'ignore' });
			children.push(child);
			await until('the first process of the namespace', () => descendants(child.pid!).some((p) => p.name === 'sleep'));
			return child;
		};
		try {
			const first = await begin(), census = new Census();
			assert.deepEqual(census.take(first.pid!).map((p) => p.name), ['unshare', 'sleep']);
			first.kill('SIGKILL');
			await once(first, 'exit');
			await until('its end', () => census.survivors().length === 0);
			// The kernel gives the lowest free number to a new namespace: with so many, that of the first one as well, if it is free.
			for (let i = 0; i < 80; i++) {
				await begin();
				assert.deepEqual(census.survivors(), []);
			}
		} finally {
			for (const child of children)
				child.kill('SIGKILL');
		}
	});
});
