// SPDX-License-Identifier: Apache-2.0
// What an idle sandbox costs the host, and that what interpreters share stays as it is, whatever a run does with it.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { mode } from '../lib/env.ts';
import { initsOf, othersOf, zygotesOf } from '../lib/family.ts';
import { cgroupFolders, type Ident } from '../lib/process.ts';
import { using, type Session } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const cold = process.env.CAISSON_TEST_COLD === '1' && 'warm starts are off in this mode';
const v1 = fs.existsSync('/sys/fs/cgroup/memory/tasks');
const waitMs = 30_000;

function tablesKib(p: Ident): number {
	return Number(/^VmPTE:\s+(\d+) kB/m.exec(fs.readFileSync(`/proc/${p.pid}/status`, 'latin1'))?.[1]);
}

/** A server whose sandbox `a` has had a run in a fork; its interpreters wait for the next one. */
async function warmed(s: Session): Promise<Ident[]> {
	await until('a fork', async () => (await s.ok('import sys; print("numpy" in sys.modules)', 'a')).stdout === 'True\n', waitMs);
	await until('interpreters that wait', () => othersOf(initsOf(s.pid)[0]!).length === 2, waitMs);
	return othersOf(initsOf(s.pid)[0]!);
}

/** Finds the memory of libraries that all interpreters share, by its name in the list of mappings. */
const shared = `
import ctypes, hashlib, mmap, os
def shared(access):
    for line in open("/proc/self/maps"):
        part = line.split()
        if part[-1] == "(deleted)" and part[5] == "/memfd:libraries" and part[1] == access:
            low, high = (int(x, 16) for x in part[0].split("-"))
            yield low, high - low
def digest():
    h = hashlib.sha256()
    for low, size in shared("r--p"):
        h.update(ctypes.string_at(low, size))
    return h.hexdigest()
`;

/**
 * Writes into the shared memory of libraries in each way that a program has, and puts nothing back. So a child does it,
 * which may crash when it is done with a library. The last bytes of a writable mapping belong to no variable.
 */
const attack = `${shared}
libc = ctypes.CDLL(None, use_errno=True)
libc.madvise.argtypes = libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
libc.mremap.restype = ctypes.c_ssize_t
REMOVE, MAYMOVE = 9, 1
variables, constants = list(shared("rw-p")), list(shared("r--p"))
for low, size in variables + constants:
    assert libc.madvise(low, size, REMOVE) == -1
    assert libc.mremap(low, 0, size, MAYMOVE) == -1  # a second mapping, if it were a shared one
    try:
        os.open("/proc/self/map_files/%x-%x" % (low, low + size), os.O_RDWR)
        print("opened")
    except OSError:
        pass
for low, size in variables:
    ctypes.memmove(low + size - 8, b"changed!", 8)
for low, size in constants:
    child = os.fork()
    if child == 0:
        try:
            with open("/proc/self/mem", "r+b", 0) as memory:
                memory.seek(low + size - 16)
                memory.write(b"changed!")
        except OSError:
            pass
        if libc.mprotect(low, size, 3) == 0:
            ctypes.memset(low + size - 8, 7, 8)
        os._exit(0)
    os.waitpid(child, 0)
print("done")
`;

const look = `${shared}
print(sum(ctypes.string_at(low + size - 8, 8) == b"changed!" for low, size in shared("rw-p")), len(list(shared("rw-p"))) > 100, digest())
`;

describe('the cost of idle sandboxes', { concurrency: 1, skip: cold }, () => {
	it('(slow) a fork does not copy the page tables of libraries', () =>
		using('stdio', { env: { SANDBOX_POOL: '0' } }, async (s) => {
			const waiting = await warmed(s);
			const whole = tablesKib(zygotesOf(s.pid)[0]!);
			for (const p of waiting)
				assert.ok(tablesKib(p) < whole * 0.7, `${tablesKib(p)} KiB of page tables in a fork, ${whole} in its zygote`);
		}));

	it('(slow) what a run writes into the data of libraries stays in that run', () =>
		using('stdio', { env: { SANDBOX_POOL: '0' } }, async (s) => {
			await warmed(s);
			const before = (await s.ok(look, 'a')).stdout;
			assert.match(before, /^0 True [0-9a-f]{64}\n$/);
			assert.equal((await s.ok(attack, 'a')).stdout, 'done\n');
			assert.equal((await s.ok(look, 'a')).stdout, before, 'the next run of the sandbox');
			assert.equal((await s.ok('import numpy; print(numpy.arange(3).sum())', 'a')).stdout, '3\n');
			await until('a fork in another sandbox', async () => (await s.ok('import sys; print("numpy" in sys.modules)', 'b')).stdout === 'True\n', waitMs);
			assert.equal((await s.ok(look, 'b')).stdout, before, 'a run in another sandbox');
		}));

	it('(slow) the memory that interpreters share cannot be written, with no right', { skip: mode !== 'root' && 'only root may open mapped files' }, () =>
		using('stdio', { env: { SANDBOX_POOL: '0' } }, async (s) => {
			await warmed(s);
			const folder = `/proc/${zygotesOf(s.pid)[0]!.pid}/map_files`;
			const moved = fs.readdirSync(folder).filter((f) => fs.readlinkSync(path.join(folder, f)) === '/memfd:libraries (deleted)');
			assert.ok(moved.length > 100, `${moved.length} mappings`);
			for (const f of moved) {
				const fd = fs.openSync(path.join(folder, f), 'r+');
				assert.equal(fs.fstatSync(fd).mode & 0o777, 0, 'mincore(2) asks for the right to write');
				assert.throws(() => fs.writeSync(fd, 'changed!', 0), { code: 'EPERM' });
				assert.throws(() => fs.ftruncateSync(fd, 0), { code: 'EPERM' });
				fs.closeSync(fd);
			}
		}));

	it('(slow) interpreters that wait count for their sandbox, which has one group for runs', { skip: (mode !== 'root' || !v1) && 'needs control groups v1' }, () =>
		using('stdio', { env: { SANDBOX_POOL: '0' } }, async (s) => {
			const waiting = await warmed(s);
			const groups = waiting.map((p) => /^\d+:memory:(.*)$/m.exec(fs.readFileSync(`/proc/${p.pid}/cgroup`, 'latin1'))?.[1] ?? '');
			const sandbox = groups.find((g) => /\/s\d+$/.test(g));
			assert.ok(sandbox, groups.join(' '));
			assert.deepEqual(groups.sort(), [sandbox, `${sandbox}/run`]);
			assert.deepEqual(cgroupFolders().filter((f) => f.includes(`${sandbox}/`)).map((f) => path.basename(f)), ['run']);
		}));
});
