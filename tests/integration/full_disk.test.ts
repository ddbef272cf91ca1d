// SPDX-License-Identifier: Apache-2.0
// A full disk is told as a full disk: what is used, how much there is, and what could be removed.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { scratch, unlessEnforced } from '../lib/env.ts';
import { using, type Json, type Session } from '../lib/session.ts';
import { wheel, wheelName } from '../lib/wheel.ts';

describe('a full disk', { skip: unlessEnforced('disk') }, () => {
	const wheels = scratch('full-disk-wheels');
	fs.mkdirSync(wheels, { recursive: true });
	fs.chmodSync(wheels, 0o755);
	// random digits, so that the wheel is as large as what is in it
	const noise = Array.from({ length: 300_000 }, (_, i) => Math.floor(Math.abs(Math.sin(i + 1)) * 1e12).toString(36)).join('');
	fs.writeFileSync(path.join(wheels, wheelName('large', '1.0')), wheel('large', '1.0', `text = "${noise}"`));

	it('in a run, in /tmp, and when packages are installed', () => using('stdio', { profile: 'full', env: { SANDBOX_PIP_WHEEL_DIR: wheels } }, async (s: Session) => {
		const call = async (name: string, args: Json): Promise<string> => JSON.stringify(await s.raw(name, args));
		const made = await s.raw('sandbox_create', { disk_mb: 20 });
		const session_id = /"session_id":"([^"]+)"/.exec(JSON.stringify(made.structuredContent))![1]!;
		await call('sandbox_run_python', { session_id, code: 'open("large.bin", "wb").write(bytes(12 << 20)); open("odd\\nname", "wb").write(bytes(2 << 20)); open("small", "w").write("x")' });
		for (const [tool, args] of [['sandbox_run_python', { code: 'open("more", "wb").write(bytes(30 << 20))' }], ['sandbox_run_shell', { command: 'head -c 30000000 /dev/zero > more' }]] as const) {
			const text = await call(tool, { session_id, ...args });
			assert.match(text, /The disk of the sandbox is full: \/mnt\/data holds (19|20) of 20 MiB\. Remove files that are not needed\. The largest files: /, text);
			assert.match(text, /large\.bin \(12 MiB\)/);
			assert.ok(!/largest files[^.]*odd/.test(text), text);
		}
		const installed = await call('sandbox_install_packages', { session_id, packages: 'large' });
		assert.match(installed, /no space is left for packages in the sandbox: (19|20) of 20 MiB are used/, installed);
		await call('sandbox_run_shell', { session_id, command: 'rm more' });
		const temporary = await call('sandbox_run_shell', { session_id, command: 'head -c 90000000 /dev/zero > /tmp/x' });
		assert.match(temporary, /not that of \/mnt\/data, which holds \d+ of 20 MiB: \/tmp takes 64 MiB/, temporary);
		// what only says the words is no full disk
		assert.doesNotMatch(await call('sandbox_run_python', { session_id, code: 'print("No space left on device")' }), /The disk of the sandbox is full/);
	}));
});
