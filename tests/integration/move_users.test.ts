// SPDX-License-Identifier: Apache-2.0
// `caisson move-users` where it must not begin, or cannot go on: what it says, and that the users stay. tests/suites/postgres has the rest.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import { caisson } from '../lib/process.ts';
import { serve } from '../lib/session.ts';

const NOBODY = 'postgresql://ida:secret-word@127.0.0.1:1/caisson';

describe('move-users', () => {
	const run = async (dir: string, args: string[] = [], database = NOBODY): Promise<{ code: number | null; err: string }> => {
		const r = await caisson(['move-users', ...args], { env: { SANDBOX_STATE_DIR: dir, ...(database && { SANDBOX_DATABASE: database }) } });
		assert.equal(r.stdout.toString(), '');
		assert.ok(!r.stderr.includes('secret-word'), r.stderr.toString());
		return { code: r.code, err: r.stderr.toString() };
	};

	it('needs a database to go to, a file to read, and no arguments', async () => {
		const dir = newStateDir(), no = await run(dir, [], ''), empty = await run(dir), more = await run(dir, ['ida']);
		assert.deepEqual([no.code, empty.code, more.code], [78, 66, 64], JSON.stringify([no, empty, more]));
		assert.match(no.err, /SANDBOX_DATABASE/);
		assert.match(empty.err, /there is no database .*\(see --state-dir\)/);
		assert.match(more.err, /it takes no arguments/);
		assert.deepEqual(fs.readdirSync(dir).filter((f) => f.endsWith('.db')), [], 'none was made');
	});
	it('waits for no server that uses the file; names a database that does not answer, and leaves the users where they are', async () => {
		const dir = newStateDir(), env = { SANDBOX_STATE_DIR: dir };
		assert.equal((await caisson(['user', 'add', 'ida', '--password', 'none'], { env })).code, 0);
		const s = await serve({ env }), served = await run(dir);
		assert.equal(served.code, 75);
		assert.match(served.err, /a server uses .*caisson\.db: end it first/);
		await s.program.end();
		const users = async (): Promise<string> => (await caisson(['user', 'list'], { env })).stdout.toString(), before = await users(), away = await run(dir);
		assert.notEqual(away.code, 0);
		assert.match(away.err, /127\.0\.0\.1.*(refused|connect)/s);
		assert.match(before, /ida/);
		assert.equal(await users(), before);
	});
});
