// SPDX-License-Identifier: Apache-2.0
// A server in a container with a user namespace of its own, which has 65,536 ids instead of all: a pod with `hostUsers: false`.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { freePort, imagesDir, mode, scratch, top } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';

const FIRST = 720_000_000; // of the machine's ids

describe('a container with 65,536 ids', { skip: mode !== 'root' && 'only root may give a container ids' }, () => {
	const under = ['python3', path.join(top, 'tests/lib/container-ids.py'), String(FIRST)];
	let env: Record<string, string>, program: Program, base: string;
	const ask = async (method: string, where: string, body?: Json): Promise<{ status: number; body: Json }> => {
		const r = await fetch(`${base}/api/v1${where}`, { method, headers: { 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
		return { status: r.status, body: await r.json() as Json };
	};

	before(async () => {
		const state = scratch('container');
		fs.mkdirSync(path.join(state, 'images'));
		fs.chmodSync(path.dirname(state), 0o711);
		// Files that belong to root inside, as those of a container's image do.
		assert.equal(spawnSync('sh', ['-c', 'cp -a --reflink=auto "$1/base" "$2/images/" && chown -Rh "$3:$3" "$2"', 'sh', imagesDir, state, String(FIRST)]).status, 0);
		env = { SANDBOX_STATE_DIR: state, HOME: state, SANDBOX_IMAGE: 'base', SANDBOX_HTTP_PORT: 'off', SANDBOX_SOCKET: 'off' };
		({ program, base } = await serve({ profile: 'full', env, under }));
	});
	after(() => program?.end());

	it('each sandbox has an id of its own, which is one of the container', async () => {
		const ids = new Set<string>();
		for (let i = 0; i < 2; i++) {
			const { body: { id } } = await ask('POST', '/sandboxes', {});
			const run = await ask('POST', `/sandboxes/${id}/runs`, { wait: true, code: 'import os; open("made", "w"); print(os.stat("made").st_uid, *open("/proc/self/uid_map").read().split()); open("/etc/passwd", "a")' });
			const said = /^1000 1000 (\d+) 1\n$/.exec(run.body.stdout as string);
			assert.ok(said, JSON.stringify(run.body));
			assert.match(run.body.stderr as string, /Read-only file system|Permission denied/);
			ids.add(said[1]!);
		}
		assert.equal(ids.size, 2);
	});

	it('what it cannot have is refused', async () => {
		const stored = await ask('POST', '/sandboxes', { kind: 'stored' });
		assert.deepEqual([stored.status, stored.body.code], [503, 'engine_unavailable'], JSON.stringify(stored.body));
	});

	it('another server in it does not take the same ids', async () => {
		const childOf = (pid: number): number => Number(fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1'));
		const inside = ['nsenter', '-t', String(childOf(childOf(program.child.pid!))), '-U', '-m', '-p', '-i', '-u', '-S', '0', '-G', '0'];
		const { code, stderr } = await caisson(['serve', '--listen', `127.0.0.1:${await freePort()}`], { env, under: inside });
		assert.notEqual(code, 0);
		assert.match(String(stderr), /another server in this container has its ids/);
	});

	it('doctor says it', async () => {
		const { stdout } = await caisson(['doctor'], { env, under });
		assert.match(String(stdout), /own uid per sandbox +64536 ids of this container/);
	});
});
