// SPDX-License-Identifier: Apache-2.0
// ComputeSDK with its provider for E2B.

import assert from 'node:assert/strict';
import { e2b } from '@computesdk/e2b';

if (process.argv[2] === undefined) {
	console.log('sandboxes, commands, files, snapshots');
} else {
	const compute = e2b({ apiKey: process.env.E2B_API_KEY });
	const s = await compute.sandbox.create({ envs: { A: 'one' }, metadata: { job: 'computesdk' } });
	try {
		const ran = await s.runCommand('echo "$A $B"; pwd; echo err >&2; exit 3', { cwd: '/tmp' });
		assert.deepEqual([ran.stdout, ran.stderr, ran.exitCode], ['one \n/tmp\n', 'err\n', 3]);
		await s.filesystem.writeFile('d/a.txt', 'héllo');
		assert.equal(await s.filesystem.readFile('/home/user/d/a.txt'), 'héllo');
		assert.deepEqual((await s.filesystem.readdir('d')).map((one) => one.name), ['a.txt']);
		assert.equal(await s.filesystem.exists('nope'), false);
		assert.equal((await s.runCommand('sleep 100', { background: true })).exitCode, 0);
		assert.match(await s.getUrl({ port: 8000 }), new RegExp(`^https://8000-${s.sandboxId}\\.`));
		assert((await compute.sandbox.list()).some((one) => one.sandboxId === s.sandboxId));
		assert.equal((await compute.sandbox.getById(s.sandboxId)).sandboxId, s.sandboxId);
		assert.equal(await compute.sandbox.getById('nope'), null);
		const { id } = await compute.snapshot.create(s.sandboxId, { name: `of-${s.sandboxId}` });
		const made = await compute.sandbox.create({ snapshotId: id });
		assert.equal((await made.runCommand('cat d/a.txt')).stdout, 'héllo');
		await made.destroy();
	} finally {
		await s.destroy();
	}
	assert(!(await compute.sandbox.list()).some((one) => one.sandboxId === s.sandboxId));
}
