// SPDX-License-Identifier: Apache-2.0
// B04 to B06: packages through the tools of the second family alone, with the words of its contract.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { newStateDir } from '../lib/env.ts';
import type { Program } from '../lib/process.ts';
import { facts, requestTimeoutMs, serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';
import { Index, wheel, wheelName } from '../lib/wheel.ts';

describe('classic packages', () => {
	const index = new Index();
	const client = new Client({ name: 'classic-packages', version: '1' });
	let program: Program;
	let id: string;

	before(async () => {
		await index.open();
		for (const name of ['small', 'slow'])
			index.add(name, { file: wheelName(name, '1.0'), body: wheel(name, '1.0', `who = "${name}"`) });
		const server = await serve({ profile: 'classic', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_BRIDGE: 'off', SANDBOX_SOCKET: 'off', SANDBOX_PIP_INDEX_URL: index.url } });
		program = server.program;
		await client.connect(new SSEClientTransport(new URL(`${server.base}/sse`)));
		id = (await tool('create_sandbox', {})).sandbox_id;
	});
	after(async () => {
		await client.close();
		await program.end();
		index.close();
	});

	async function tool(name: string, args: Json): Promise<Json> {
		const r = (await client.callTool({ name, arguments: args }, undefined, { timeout: requestTimeoutMs })) as Json;
		assert.equal(r.isError, false, JSON.stringify(r));
		return facts(r);
	}
	const install = (package_name: string): Promise<Json> => tool('install_package_in_sandbox', { sandbox_id: id, package_name });
	const check = (package_name: string): Promise<Json> => tool('check_package_installation_status', { sandbox_id: id, package_name });
	async function end(package_name: string): Promise<Json> {
		let last: Json = {};
		await until(`the installation of ${package_name} has ended`, async () => (last = await check(package_name)).complete === true, 60_000);
		return last;
	}
	const listed = async (): Promise<Json[]> => (await tool('list_sandboxes', {}) as unknown as Json[])[0]!.installed_packages;

	it('B04 a small package: success or installing, then success; it is listed and imports', async () => {
		const begun = await install('small');
		if (begun.status === 'installing')
			assert.deepEqual([begun.success, Object.keys(begun).toSorted()], [null, ['message', 'status', 'success']]);
		else
			assert.deepEqual([begun.status, begun.success], ['success', true], JSON.stringify(begun));
		const done = await end('small');
		assert.deepEqual([done.status, done.message, done.complete, done.success], ['success', 'Successfully installed small', true, true]);
		assert.match(done.end_time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/);
		assert.deepEqual(await listed(), [{ name: 'small', version: '1.0' }]);
		assert.equal((await tool('execute_python_code', { sandbox_id: id, code: 'import small; print(small.who)' })).stdout, 'small\n');
	});

	it('B05 a package that nobody has: failed, with stderr, and check says it again', async () => {
		const begun = await install('nothing-of-that-name');
		const done = await end('nothing-of-that-name');
		assert.deepEqual([done.status, done.complete, done.success], ['failed', true, false], JSON.stringify(done));
		assert.match(done.message, /^Failed to install nothing-of-that-name: /);
		assert.ok(done.stderr.length > 0);
		if (begun.status !== 'installing')
			assert.deepEqual(begun, done);
		assert.deepEqual(await check('nothing-of-that-name'), done);
		const unknown = await check('never-asked-for');
		assert.deepEqual([unknown.status, unknown.message, unknown.complete, unknown.success], ['not_found', 'No installation record found for never-asked-for', true, false]);
		assert.deepEqual(await listed(), [{ name: 'small', version: '1.0' }]);
	});

	it('(slow) B06 a second installation while the first one runs', async () => {
		let release!: () => void;
		index.hold = new Promise((resolve) => (release = resolve));
		const before = index.asked.length;
		const first = install('slow');
		await until('the index is asked', () => Promise.resolve(index.asked.length > before), 60_000);
		assert.deepEqual(await install('slow'), { success: null, status: 'installing', message: 'Package slow installation already in progress' });
		const running = await check('slow');
		assert.deepEqual([running.status, running.message, running.complete], ['installing', 'Installing slow...', false], JSON.stringify(running));
		assert.ok(running.elapsed_seconds > 0 && /^\d{4}-\d\d-\d\dT/.test(running.start_time), JSON.stringify(running));
		release();
		assert.ok(['installing', 'success'].includes((await first).status));
		assert.equal((await end('slow')).status, 'success');
		assert.deepEqual((await listed()).map((p) => p.name).toSorted(), ['slow', 'small']);
	});
});
