// SPDX-License-Identifier: Apache-2.0
// What keeps the folders of stored sandboxes that containers use.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { binary, newStateDir, productEnv, scratch } from '../../lib/env.ts';
import { serve, type Json } from '../../lib/session.ts';
import type { EngineCase } from './cases.ts';

export const storedCases: EngineCase[] = [
	{
		name: 'a backup has the files of stored sandboxes, and a new state folder gets them back',
		async run(w) {
			const env = { ...w.env, SANDBOX_POOL: '0' }, file = path.join(scratch('backup'), 'b');
			const [from, to] = [newStateDir(), newStateDir()];
			const verb = (name: string, state: string, more: Record<string, string> = {}): { status: number | null; stderr: string } =>
				spawnSync(binary, [name, '--state-dir', state, file], { encoding: 'utf8', env: productEnv({ ...env, ...more }), timeout: 90_000 });
			const post = async (base: string, where: string, body: Json): Promise<Json> =>
				await (await fetch(`${base}/api/v1/sandboxes${where}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })).json() as Json;
			let id = '';
			const inState = async (state: string, code: string): Promise<string> => {
				const server = await serve({ profile: 'full', env: { ...env, SANDBOX_STATE_DIR: state } });
				try {
					id ||= (await post(server.base, '', { kind: 'stored' })).id as string;
					return (await post(server.base, `/${id}/runs`, { code, wait: true })).stdout as string;
				} finally {
					server.program.kill('SIGTERM');
					await server.program.exit;
				}
			};
			assert.equal(await inState(from, 'import os\nopen("a.txt", "w").write("kept")\nos.chmod("a.txt", 0o4711)\nopen("no", "w").close()\nos.chmod("no", 0)\nos.symlink("a.txt", "l")\nprint(len({os.stat(d).st_dev for d in (".", "/tmp", "/var/tmp", "/home/sandbox")}))'), '1\n');
			const forgotten = verb('backup', from, { SANDBOX_ENGINE: 'native' });
			assert.equal(forgotten.status, 75, forgotten.stderr);
			assert.match(forgotten.stderr, new RegExp(`the files of sandbox ${id} are those of a server with SANDBOX_ENGINE=docker: they are not in this backup`));
			fs.unlinkSync(file);
			const saved = verb('backup', from);
			assert.equal(saved.status, 0, saved.stderr);
			const elsewhere = verb('restore', to, { SANDBOX_ENGINE: 'native' });
			assert.equal(elsewhere.status, 64, elsewhere.stderr);
			assert.match(elsewhere.stderr, /restore it for one with SANDBOX_ENGINE=docker/);
			const back = verb('restore', to);
			assert.equal(back.status, 0, back.stderr);
			assert.match(verb('restore', to).stderr, /there is a database .* already/);
			assert.equal(await inState(to, 'import os\nprint(open("l").read(), oct(os.stat("a.txt").st_mode), oct(os.stat("no").st_mode), os.stat("l").st_uid == os.getuid())'), 'kept 0o100711 0o100000 True\n');
		},
	},
];
