// SPDX-License-Identifier: Apache-2.0
// Workspaces of sessions on disk: hard limits that are not memory, nothing left after any death, and a host whose disk is full.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { mode, newStateDir, unlessEnforced } from '../lib/env.ts';
import { caisson } from '../lib/process.ts';
import { SmallDisk } from '../lib/small-disk.ts';
import { facts, using, type Json, type Session } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const notRoot = mode !== 'root' && 'a plain user cannot mount disks';
const MIB = 1 << 20;
const waitMs = 30_000;

/** The loop devices that have a file of this state folder, a nameless one too. */
function devicesOf(state: string): string[] {
	return fs.readdirSync('/sys/block').filter((d) => {
		try {
			return fs.readFileSync(`/sys/block/${d}/loop/backing_file`, 'utf8').startsWith(state + '/');
		} catch {
			return false;
		}
	});
}

describe('workspaces of sessions', { skip: notRoot }, () => {
	const policy = async (s: Session, id: string): Promise<Json> => facts(await s.raw('sandbox_info', { session_id: id }));

	it('(slow) eighty at once get a disk each', async () => { // all of them look for a free loop device at the same time
		const state = newStateDir();
		await using('stdio', { env: { SANDBOX_STATE_DIR: state, SANDBOX_POOL: '0', SANDBOX_WARM: 'off', SANDBOX_MAX_SESSIONS: '100', SANDBOX_WORKSPACE: 'disk' } }, async (s) => {
			const answers = await Promise.all(Array.from({ length: 80 }, (_, i) => s.run('open("f", "w").close()', `crowd-${i}`)));
			assert.deepEqual(answers.map((r) => r.error ?? r.exit_code), answers.map(() => 0));
		});
		await until('the disks to go', () => devicesOf(state).length === 0, waitMs);
	});

	it('(slow) files are not memory, and the policy says both limits', { skip: unlessEnforced('memory') }, () => {
		const state = newStateDir();
		return using('stdio', { profile: 'full', env: { SANDBOX_STATE_DIR: state, SANDBOX_MEMORY_LIMIT: '128m', SANDBOX_WORKSPACE_LIMIT: '600m', SANDBOX_WORKSPACE_FILES: '3000' } }, async (s) => {
			// dirty pages beyond the limit are written back instead of ending the run, and are read again
			await s.ok('b = bytes(range(256)) * 4096\nwith open("big", "wb") as f:\n for i in range(400): f.write(b)\nwith open("big", "rb") as f:\n for i in range(400): assert f.read(1 << 20) == b', 'a');
			await s.ok('x = bytearray(40 << 20)\nx[::4096] = b"1" * len(x[::4096])\nimport os; assert os.path.getsize("big") == 400 << 20', 'a');
			const info = await policy(s, 'a');
			assert.equal(info.workspace, 'disk');
			assert.deepEqual([info.limits.memory_bytes, info.limits.workspace_bytes], [128 * MIB, 600 * MIB]);
			assert.ok(info.used.workspace_bytes >= 400 * MIB && info.used.memory_bytes < 100 * MIB, JSON.stringify(info.used));
			// the twin: memory is still limited
			assert.equal((await s.run('x = bytearray(300 << 20)\nx[::4096] = b"1" * len(x[::4096])', 'a')).reason ?? 'oom', 'oom');
			await s.ok('import os; assert os.path.getsize("big") == 400 << 20', 'a');
		});
	});

	it('bytes and inodes are limited hard: sparse files, holes, deep trees, hard links, removed files that are open', () => using('stdio', { env: { SANDBOX_WORKSPACE_LIMIT: '20m', SANDBOX_WORKSPACE_FILES: '500' } }, async (s) => {
		const r = JSON.parse((await s.ok(String.raw`
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
out = {}
def fill(f, step=1 << 16):
    n = 0
    try:
        while n < 100 << 20:
            n += f.write(b"x" * step)
            f.flush()
    except OSError as e:
        assert e.errno == errno.ENOSPC, e
    return n >> 20
with open("sparse", "wb") as f:
    f.truncate(1 << 33)
    for i in range(64):
        os.pwrite(f.fileno(), b"1", i << 27)
out["sparse"] = os.stat("sparse").st_blocks * 512 >> 10
with open("full", "wb", buffering=0) as f:
    out["first"] = fill(f)
    # FALLOC_FL_PUNCH_HOLE | KEEP_SIZE: what is punched can be written again, and no more
    assert libc.fallocate(f.fileno(), 3, ctypes.c_long(0), ctypes.c_long(8 << 20)) == 0
    os.fsync(f.fileno())
    with open("again", "wb", buffering=0) as g:
        out["again"] = fill(g)
f = open("full", "rb")
os.unlink("full"); os.unlink("again")
with open("open", "wb", buffering=0) as g:
    out["beside_removed"] = fill(g)
f.close(); os.unlink("open"); os.unlink("sparse")
depth = 0
try:
    while depth < 5000:
        os.mkdir("d"); os.chdir("d"); depth += 1
except OSError as e:
    assert e.errno == errno.ENOSPC, e
out["depth"] = depth
print(json.dumps(out))
`, 'a')).stdout) as Json;
		assert.ok(r.sparse <= 64 * 4 + 64, JSON.stringify(r));
		assert.ok(r.first >= 18 && r.first <= 21 && r.again >= 7 && r.again <= 9 && r.beside_removed <= 13, JSON.stringify(r));
		assert.ok(r.depth >= 450 && r.depth <= 530, JSON.stringify(r));
		await s.ok('pass', 'a');
	}));

	it('(slow) nothing is left after any death', async () => {
		const state = newStateDir();
		const files = (): string[] => fs.readdirSync(path.join(state, 'workspaces'));
		for (const how of ['close', 'end', 'SIGKILL'] as const)
			await using('stdio', { env: { SANDBOX_STATE_DIR: state, SANDBOX_POOL: '2' } }, async (s) => {
				for (const id of ['a', 'b'])
					await s.ok('open("f", "wb").write(bytes(30 << 20))', id);
				assert.ok(devicesOf(state).length >= 2);
				assert.deepEqual(files(), [], 'a file of a session has no name');
				if (how === 'close') {
					const before = devicesOf(state).length;
					await s.close('a');
					await until('a device less', () => devicesOf(state).length < before + 1, waitMs);
				} else if (how === 'SIGKILL') {
					process.kill(s.pid, 'SIGKILL');
				}
			}).catch((e: Error) => {
				if (how !== 'SIGKILL')
					throw e;
			}).then(() => until(`no device after ${how}`, () => devicesOf(state).length === 0, waitMs));
		assert.deepEqual(files(), []);
	});

	it('memory where it is chosen', () => using('stdio', { profile: 'full', env: { SANDBOX_WORKSPACE: 'memory' } }, async (s) => {
		await s.ok('import os; assert "tmpfs" in next(l for l in open("/proc/self/mountinfo") if " /mnt/data " in l)', 'a');
		const info = await policy(s, 'a');
		assert.deepEqual([info.workspace, info.limits.workspace_bytes], ['memory', 512 * MIB]);
	}));

	it('(slow) a full disk of the host: a clear error, nothing is lost, and all goes on when there is space', async () => {
		const d = new SmallDisk();
		await d.serveOnDisk('500m', { SANDBOX_WORKSPACE_LIMIT: '300m', SANDBOX_WORKSPACE_FILES: '1000' });
		try {
			const call = async (method: string, url: string, body?: unknown): Promise<{ status: number; body: Json }> => {
				const r = await fetch(d.base + url, { method, headers: { 'content-type': 'application/json' }, body: body === undefined ? undefined : JSON.stringify(body) });
				const text = await r.text();
				return { status: r.status, body: text ? JSON.parse(text) as Json : {} };
			};
			const make = (): Promise<{ status: number; body: Json }> => call('POST', '/api/v1/sandboxes', { kind: 'session' });
			const run = async (id: string, code: string): Promise<Json> => (await call('POST', `/api/v1/sandboxes/${id}/runs`, { code, wait: true })).body;
			const [a, b] = [(await make()).body.id as string, (await make()).body.id as string];
			assert.ok(a && b);
			const data = 'bytes(range(256)) * 4096 * 40';
			assert.equal((await run(a, `import os\nf = open("mine", "wb"); f.write(${data}); f.flush(); os.fsync(f.fileno())`)).exit_code, 0);
			d.fill(40 * MIB); // less than the reserve: what the kernel has accepted already can still be written
			// whoever writes now is told at once; a file that is there is whole, and can be written again in its place
			const full = await until('the disks to be closed', async () => {
				const r = await run(b, 'with open("other", "ab") as f:\n f.write(b"x" * (1 << 20))');
				return r.exit_code !== 0 && r;
			}, waitMs);
			assert.match(full.stderr, /No space left on device/);
			const again = await run(a, `import os\nd = open("mine", "rb").read()\nassert d == ${data}\nf = open("mine", "r+b"); f.write(d); f.flush(); os.fsync(f.fileno())`);
			assert.equal(again.exit_code, 0, JSON.stringify(again));
			const put = await fetch(`${d.base}/api/v1/sandboxes/${b}/files/up`, { method: 'PUT', body: new Uint8Array(4 * MIB) });
			assert.deepEqual([put.status, (await put.json() as Json).code], [507, 'host_disk_full']);
			const refused = await make();
			assert.deepEqual([refused.status, refused.body.code], [507, 'host_disk_full'], JSON.stringify(refused));
			d.free();
			await until('writing again', async () => (await run(b, 'open("again", "wb").write(bytes(1 << 20))')).exit_code === 0, waitMs);
			assert.ok((await make()).body.id);
			assert.equal((await run(a, `assert open("mine", "rb").read() == ${data}`)).exit_code, 0);
		} finally {
			await d.end();
		}
	});
});

it('a plain user cannot have them on disk with hard limits', { skip: mode === 'root' && 'root can' }, async () => {
	const r = await caisson(['run', '-c', 'print(1)'], { env: { SANDBOX_WORKSPACE: 'disk' } });
	assert.notEqual(r.code, 0);
	assert.match(r.stderr.toString(), /SANDBOX_WORKSPACE=disk: workspaces cannot be on disk: only a server that root started can mount them/);
});
