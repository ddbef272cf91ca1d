// SPDX-License-Identifier: Apache-2.0
// A container without what the server needs: the start fails, and says which flag is missing. Without a container: the same rights and
// folders are taken away.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { mode, newStateDir } from '../lib/env.ts';
import { caisson } from '../lib/process.ts';
import { serve } from '../lib/session.ts';

const command = ['serve', '--listen', '127.0.0.1:0'];

describe('a start in a container', () => {
	it('a folder that cannot be written is named, with the volume that is missing', async () => {
		const r = await caisson(command, { env: { SANDBOX_STATE_DIR: '/dev/null/caisson' } });
		assert.notEqual(r.code, 0);
		assert.match(r.stderr.toString(), /there is no image 'science', and \/dev\/null\/caisson\/images cannot be made.*--volume caisson-state:\/dev\/null\/caisson/);
	});
	for (const cap of ['sys_admin', 'setuid', 'setpcap', 'sys_ptrace', 'chown'])
		it(`root without ${cap}: the flag is named`, { skip: mode === 'root' ? false : 'a plain user has no capabilities' }, async () => {
			const r = await caisson(command, { env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_HTTP_PORT: '0' }, under: ['setpriv', `--bounding-set=-${cap}`, `--inh-caps=-${cap}`] });
			assert.notEqual(r.code, 0);
			assert.match(r.stderr.toString(), new RegExp(`if this is a container, it lacks flags: .*--cap-add ${cap.toUpperCase()}\\b`));
		});
	it('root without what only helps does start', { skip: mode === 'root' ? false : 'a plain user has no capabilities' }, async () => {
		const { program } = await serve({ env: { SANDBOX_STATE_DIR: newStateDir() }, under: ['setpriv', '--bounding-set=-mknod,-kill', '--inh-caps=-mknod,-kill'] });
		await program.end();
	});
	it('a start that fails for another reason names no flag', async () => {
		const r = await caisson(command, { env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_PROFILE: 'nosuch' } });
		assert.notEqual(r.code, 0);
		assert.doesNotMatch(r.stderr.toString(), /lacks flags/);
	});
});
