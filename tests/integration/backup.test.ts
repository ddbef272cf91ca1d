// SPDX-License-Identifier: Apache-2.0
// caisson backup and caisson restore: beside a server and without one, and that nothing half or foreign is taken back.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { mode, newStateDir, scratch } from '../lib/env.ts';
import { caisson, type Exit } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

type Server = Awaited<ReturnType<typeof serve>>;

const start = (state: string): Promise<Server> => serve({ profile: 'full', env: { SANDBOX_STATE_DIR: state, SANDBOX_POOL: '0' } });

async function stop(server: Server): Promise<void> {
	server.program.kill('SIGTERM');
	await server.program.exit;
}

async function ask(server: Server, method: string, where: string, body?: Json): Promise<Json> {
	const r = await fetch(`${server.base}/api/v1/${where}`, { method, headers: { 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
	const text = await r.text();
	assert.ok(r.status < 300, `${method} ${where}: ${r.status} ${text}`);
	return JSON.parse(text) as Json;
}

async function run(server: Server, id: string, code: string): Promise<string> {
	const r = await ask(server, 'POST', `sandboxes/${id}/runs`, { code, wait: true });
	assert.equal(r.exit_code, 0, JSON.stringify(r));
	return r.stdout as string;
}

const verb = (name: 'backup' | 'restore', state: string, file: string): Promise<Exit> =>
	caisson([name, '--state-dir', state, file]);

async function fine(exit: Promise<Exit>): Promise<void> {
	const r = await exit;
	assert.equal(r.code, 0, r.stderr.toString());
}

/** Files with everything that a copy may get wrong: holes, links out of the folder, bytes as names, rights, depth. */
const fill = `
import os
os.chdir('/mnt/data')
open('plain.txt', 'w').write('kept')
with open('holes.bin', 'wb') as f:
    f.write(b'begin'); f.seek(5_000_000); f.write(b'end')
os.symlink('/etc/passwd', 'out'); os.symlink('plain.txt', 'in')
open(b'name-\\xff-\\xc3\\xbc', 'w').write('bytes')
os.makedirs('a/b/c'); open('a/b/c/deep.sh', 'w').write('x'); os.chmod('a/b/c/deep.sh', 0o755); os.chmod('a/b', 0o555)
open('closed', 'w').write('secret'); os.chmod('closed', 0)
print('done')`;
const look = `
import os, hashlib
os.chdir('/mnt/data')
os.chmod('closed', 0o600)
print(open('plain.txt').read(), hashlib.sha256(open('holes.bin', 'rb').read()).hexdigest()[:8], os.path.getsize('holes.bin'),
      os.readlink('out'), os.readlink('in'), open(b'name-\\xff-\\xc3\\xbc').read(), oct(os.stat('a/b/c/deep.sh').st_mode), oct(os.stat('a/b').st_mode),
      open('closed').read(), os.stat('plain.txt').st_uid == os.getuid())`;

describe('backup and restore', { concurrency: 2 }, () => {
	for (const runs of [true, false])
		it(runs ? 'beside a server, with a sandbox in use' : 'without a server', async () => {
			const state = newStateDir(), place = newStateDir(), file = path.join(scratch('backup'), 'caisson.backup');
			let server = await start(state);
			try {
				assert.equal((await caisson(['user', 'add', 'ada', '--password', 'generate', '--state-dir', state])).code, 0);
				const id = (await ask(server, 'POST', 'sandboxes', { kind: 'stored', name: 'kept' })).id as string;
				const never = (await ask(server, 'POST', 'sandboxes', { kind: 'stored', name: 'never used' })).id as string;
				await run(server, id, fill);
				const seen = await run(server, id, look);
				assert.match(seen, /^kept [0-9a-f]{8} 5000003 \/etc\/passwd plain.txt bytes 0o100755 0o40555 secret True/);
				if (!runs)
					await stop(server);
				await fine(verb('backup', state, file));
				assert.equal(fs.statSync(file).mode & 0o777, 0o600);
				assert.deepEqual(fs.readdirSync(path.dirname(file)), ['caisson.backup'], 'nothing is left beside it');
				if (runs) {
					assert.equal(await run(server, id, look), seen, 'the server goes on');
					await stop(server);
				}

				await fine(verb('restore', place, file));
				const db = path.join(place, 'caisson.db');
				assert.equal(fs.statSync(db).mode & 0o777, 0o600);
				assert.equal(fs.statSync(path.join(place, 'workspaces')).mode & 0o777, 0o700);
				assert.deepEqual(fs.readdirSync(place).filter((n) => n.startsWith('.')), []);
				const users = await caisson(['user', 'list', '--state-dir', place]);
				assert.match(users.stdout.toString(), / ada\n/);
				server = await start(place);
				assert.equal(await run(server, id, look), seen);
				assert.equal((await ask(server, 'GET', `sandboxes/${never}`)).name, 'never used');
				await run(server, never, 'open("/mnt/data/new", "w").write("x"); print(1)');
				const cells = (await ask(server, 'GET', `notebooks/${id}`)).cells as Json[];
				assert.ok(cells.some((c) => c.code === fill), 'the history is there');
			} finally {
				await server.program.end();
			}
		});

	it('refuses what would replace or lose something, and says what to do', async () => {
		const state = newStateDir(), folder = scratch('backup'), file = path.join(folder, 'b');
		const refused = async (exit: Promise<Exit>, code: number, text: RegExp): Promise<void> => {
			const r = await exit;
			assert.match(r.stderr.toString(), text);
			assert.equal(r.code, code, r.stderr.toString());
		};
		await refused(verb('backup', state, file), 66, /there is no database .*--state-dir/);
		await refused(caisson(['backup', '--state-dir', state]), 64, /name of one file/);
		const server = await start(state);
		try {
			const id = (await ask(server, 'POST', 'sandboxes', { kind: 'stored' })).id as string;
			await run(server, id, 'open("/mnt/data/f", "w").write("x" * 100000); print(1)');
			await fine(verb('backup', state, file));
			await refused(verb('backup', state, file), 73, /there is a file/);
			await refused(verb('restore', state, file), 75, /a server uses .*stop it/);
		} finally {
			await stop(server);
		}
		await refused(verb('restore', state, file), 73, /there is a database .* already/);
		const full = newStateDir();
		fs.mkdirSync(path.join(full, 'workspaces', 'somebody'), { recursive: true });
		await refused(verb('restore', full, file), 73, /has files of sandboxes already/);
		await refused(verb('restore', newStateDir(), path.join(folder, 'none')), 66, /none/);

		const whole = fs.readFileSync(file), place = newStateDir(), broken = path.join(folder, 'broken');
		const flipped = Buffer.from(whole);
		flipped[Math.floor(whole.length / 2)]! ^= 0x10;
		const cuts = [0, 1, 100, whole.length >> 1, whole.length - 40, whole.length - 5].map((n) => whole.subarray(0, n));
		for (const bytes of [...cuts, flipped, Buffer.from('no backup at all'.repeat(100))]) {
			fs.writeFileSync(broken, bytes);
			fs.chmodSync(broken, 0o644);
			await refused(verb('restore', place, broken), 64, /is no complete backup/);
			assert.deepEqual(fs.readdirSync(place), ['images'], `${bytes.length} of ${whole.length} bytes`);
		}
		await fine(verb('restore', place, file));
	});

	it('(slow) a sandbox that writes all the time is left out and named; the others are there', async () => {
		const state = newStateDir(), place = newStateDir(), file = path.join(scratch('backup'), 'b');
		const server = await start(state);
		try {
			const busy = (await ask(server, 'POST', 'sandboxes', { kind: 'stored' })).id as string;
			const calm = (await ask(server, 'POST', 'sandboxes', { kind: 'stored' })).id as string;
			await run(server, calm, 'open("/mnt/data/f", "w").write("calm"); print(1)');
			/* Eight processes, so that one of them writes on a busy machine, too. A disk changes when what is written reaches it, a folder at each write. */
			await ask(server, 'POST', `sandboxes/${busy}/runs`, { code: `import os\nf = open("/mnt/data/f", "w")\nprint("on", flush=True)\nfor i in range(3): os.fork()\nwhile True:\n    f.write("x"); f.flush()${mode === 'root' ? '; os.fsync(f.fileno())' : ''}` });
			await until('the run', async () => (await fetch(`${server.base}/api/v1/sandboxes/${busy}/files/f`)).ok, 30_000);
			const r = await verb('backup', state, file);
			assert.equal(r.code, 75, r.stderr.toString());
			assert.match(r.stderr.toString(), new RegExp(`sandbox ${busy} change all the time`));
			assert.doesNotMatch(r.stderr.toString(), new RegExp(calm));
			const back = await verb('restore', place, file);
			assert.equal(back.code, 0, back.stderr.toString());
			assert.match(back.stderr.toString(), new RegExp(`does not have the files of sandbox ${busy}`));
			assert.deepEqual(fs.readdirSync(path.join(place, 'workspaces')).map((n) => n.slice(0, 36)), [calm]);
		} finally {
			await stop(server);
		}
	});
});
