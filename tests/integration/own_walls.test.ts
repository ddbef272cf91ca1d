// SPDX-License-Identifier: Apache-2.0
// The server's own walls, as doctor and the policy tell them: on this kernel, and on one that does not know Landlock, or filters.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { asProductUser, binary, imagesDir, mode, openCopy, productEnv, scratch, top } from '../lib/env.ts';
import { spawnSync } from 'node:child_process';
import { facts, using, type Json } from '../lib/session.ts';

// The same numbers in all architectures that we build for, but for seccomp(2).
const LANDLOCK_CREATE_RULESET = '444';
const LANDLOCK_RESTRICT_SELF = '446';
const SECCOMP = process.arch === 'x64' ? '317' : '277';

function helper(): string {
	const built = [path.dirname(binary), path.join(top, 'build'), path.join(top, 'build-asan')].map((d) => path.join(d, 'tests/integration/without_call')).find((p) => fs.existsSync(p));
	assert.ok(built, 'tests/integration/without_call is not built');
	return openCopy(built, scratch('helper'));
}

function doctor(...under: string[]): { status: number; rows: Json[] } {
	const [cmd, ...args] = asProductUser([...under, binary, 'doctor', '--json']);
	const r = spawnSync(cmd!, args, { encoding: 'utf8', env: productEnv() });
	return JSON.parse(r.stdout) as { status: number; rows: Json[] };
}

function row(said: { rows: Json[] }, id: string): Json {
	return said.rows.find((r) => r.id === id)!;
}

it('doctor says that no engine on containers limits the memory of all sandboxes together', () => {
	const said = (env: Record<string, string>): Json => row(JSON.parse(spawnSync(binary, ['doctor', '--json'], { encoding: 'utf8', env: productEnv({ SANDBOX_ENGINE: 'docker', DOCKER_HOST: 'unix:///nowhere/at/all', ...env }) }).stdout), 'daemon_limits');
	assert.match(said({ SANDBOX_TOTAL_MEMORY: '1g' }).value, /SANDBOX_TOTAL_MEMORY=1024m needs the native engine/);
	assert.doesNotMatch(said({}).value, /SANDBOX_TOTAL_MEMORY/);
});

it('(slow) doctor and the log say where blocks cannot be allocated ahead', { skip: mode !== 'root' && 'only root has disks' }, () => {
	const on = (type: string): { row: Json; log: string } => {
		const dir = scratch('blocks');
		const run = (...args: string[]): string => {
			const r = spawnSync('unshare', ['--mount', '--propagation', 'private', '--', 'sh', '-c', `truncate -s 4g "$0.img" && mke2fs -qF -t ${type} -m0 "$0.img" && mount -o loop "$0.img" "$0" && chmod 755 "$0" && ln -s "$1" "$0/images" && shift && exec timeout 5 "$@"`, dir, imagesDir, ...args], { encoding: 'utf8', env: productEnv({ SANDBOX_STATE_DIR: dir, SANDBOX_SOCKET: 'off', SANDBOX_HTTP_PORT: 'off' }) });
			fs.rmSync(`${dir}.img`);
			return r.stdout + r.stderr;
		};
		const doctor = run(binary, 'doctor', '--json');
		return { row: row(JSON.parse(doctor.slice(doctor.indexOf('{'))), 'state_dir'), log: run(binary, 'serve', '--listen', '127.0.0.1:0', '--profile', 'full') };
	};
	const [without, having] = [on('ext3'), on('ext4')];
	assert.match(without.row.value, /cannot allocate blocks ahead/);
	assert.match(without.log, /disk_cannot_allocate/);
	assert.doesNotMatch(having.row.value, /cannot allocate/);
	assert.doesNotMatch(having.log, /disk_cannot_allocate/);
});

describe("the server's own walls", () => {
	const here = doctor();
	const hasLandlock = row(here, 'landlock').value.startsWith('level ') && !/^level 1 /.test(row(here, 'landlock').value);

	it('doctor tells them for this kernel', () => {
		assert.equal(row(here, 'front').state, hasLandlock ? 'ok' : 'weaker');
		assert.equal(/and Landlock for its files/.test(row(here, 'front').value), hasLandlock);
	});
	it('without Landlock doctor says so', () => {
		const said = doctor(helper(), LANDLOCK_CREATE_RULESET);
		assert.match(row(said, 'landlock').value, /^not there/, 'the call is unknown there');
		assert.deepEqual([row(said, 'front').state, row(said, 'seccomp').state], ['weaker', 'ok']);
		assert.match(row(said, 'front').value, /without Landlock/);
		assert.match(row(said, 'front').mend, /lsm=/);
		assert.ok(said.status >= 1);
	});
	it('without filters no server starts, and doctor says so', () => {
		const said = doctor(helper(), SECCOMP);
		assert.deepEqual([row(said, 'front').state, row(said, 'seccomp').state, said.status], ['missing', 'missing', 2]);
	});
	it('with rules that cannot be put on, no server starts, and doctor says so', { skip: !hasLandlock && 'this kernel has no Landlock' }, () => {
		const said = doctor(helper(), LANDLOCK_RESTRICT_SELF);
		assert.equal(row(said, 'front').state, 'missing');
	});
	for (const lacking of [false, true])
		it(`the policy of a server ${lacking ? 'without Landlock' : 'on this kernel'}`, async () => {
			await using('stdio', { profile: 'full', under: lacking ? [helper(), LANDLOCK_CREATE_RULESET] : [] }, async (s) => {
				const id = 'walls';
				await s.raw('sandbox_run_python', { code: 'print(1)', session_id: id });
				const r = await s.raw('sandbox_info', { session_id: id });
				const info = facts(r);
				assert.deepEqual(info.server, { system_call_filter: true, files: hasLandlock && !lacking ? 'landlock' : 'uid' });
			});
		});
});
