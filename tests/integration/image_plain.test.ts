// SPDX-License-Identifier: Apache-2.0
// Sandboxes of an image without Python: commands, processes and terminals are as everywhere; Python code is refused with what to do instead.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { asker } from '../lib/asker.ts';
import { shellLayer } from '../lib/dockerfiles.ts';
import { engine, scratch } from '../lib/env.ts';
import { dockerArchive, type Entry, image, tar, tarOf } from '../lib/oci.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

describe('a sandbox of an image without Python', { skip: engine !== 'native' && 'images of a daemon are its own' }, () => {
	const env = { SANDBOX_STATE_DIR: scratch('plain'), SANDBOX_IMAGE: 'plain' };
	let program: Program, base: string, id: string;

	before(async () => {
		const file = path.join(scratch('archive'), 'plain.tar');
		fs.writeFileSync(file, shellLayer());
		const r = await caisson(['image', 'import', 'plain', file], { env });
		assert.equal(r.code, 0, r.stderr.toString());
		assert.match(r.stderr.toString(), /has no python3: its sandboxes run commands and programs/);
		({ program, base } = await serve({ profile: 'full', env }));
		const made = await ask('POST', '/sandboxes', {});
		assert.equal(made.status, 201, JSON.stringify(made.body));
		id = made.body.id;
	});
	after(() => program.end());

	const ask = asker(() => base);
	const run = (what: object): Promise<{ status: number; body: Json }> => ask('POST', `/sandboxes/${id}/runs`, { ...what, wait: true });

	it('runs commands, and programs without a shell', async () => {
		const r = await run({ command: 'echo $((6 * 7)); id -u; echo x >/mnt/data/f; exit 3' });
		assert.equal(r.status, 201, JSON.stringify(r.body));
		assert.match(r.body.stdout, /^42\n/);
		assert.equal(r.body.exit_code, 3);
	});
	it('refuses Python code at once, with and without kept variables, and says what to do', async () => {
		for (const what of [{ code: 'print(1)' }, { code: 'print(1)', stateful: true }]) {
			const began = performance.now();
			const r = await run(what);
			assert.ok(performance.now() - began < 3000, `${performance.now() - began} ms`);
			assert.equal(r.status, 409, JSON.stringify(r.body));
			assert.equal(r.body.code, 'image_unsuitable');
			assert.match(r.body.detail, /has no Python of 3\.9 or newer, so it runs no Python code; run a command or a process instead, or make a sandbox of an image with Python/);
		}
		assert.match((await run({ command: 'cat f' })).body.stdout, /^x\n/); // and the sandbox goes on
	});
	it('has background processes', async () => {
		const made = await ask('POST', `/sandboxes/${id}/processes`, { command: 'echo begun; sleep 1000' });
		assert.equal(made.status, 201, JSON.stringify(made.body));
		await until('its output', async () => /begun/.test(JSON.stringify((await ask('GET', `/sandboxes/${id}/processes/${made.body.id}`)).body)), 10_000);
		const ended = await ask('DELETE', `/sandboxes/${id}/processes/${made.body.id}`);
		assert.ok(ended.status < 300, JSON.stringify(ended.body));
	});
	it('an older Python is there for commands, and runs no code either', async () => {
		const file = path.join(scratch('archive'), 'old.tar');
		const python: Entry[] = [{ name: 'usr/bin/python3.8', body: '#!/bin/sh\necho "old $*"\n', mode: 0o755 }, { name: 'usr/bin/python3', type: 'link', target: 'python3.8' }];
		fs.writeFileSync(file, tarOf(dockerArchive(image([shellLayer(), tar(python)]))));
		const r = await caisson(['image', 'import', 'old', file], { env });
		assert.match(r.stderr.toString(), /the image has Python 3\.8: its sandboxes run commands/);
		const code = await caisson(['run', '--image', 'old', '-c', 'print(1)'], { env });
		assert.equal(code.code, 65, code.stderr.toString());
		assert.match(code.stderr.toString(), /has no Python of 3\.9 or newer/);
		const command = await caisson(['run', '--image', 'old', '--', 'python3', 'x'], { env });
		assert.equal(command.stdout.toString(), 'old x\n', command.stderr.toString());
	});
	it('and `caisson run` says the same', async () => {
		const r = await caisson(['run', '--image', 'plain', '-c', 'print(1)'], { env });
		assert.equal(r.code, 65, r.stderr.toString());
		assert.match(r.stderr.toString(), /has no Python of 3\.9 or newer/);
		const command = await caisson(['run', '--image', 'plain', '--', 'cat', '/etc/passwd'], { env });
		assert.equal(command.code, 0, command.stderr.toString());
		assert.match(command.stdout.toString(), /root:/);
	});
});
