// SPDX-License-Identifier: Apache-2.0
// Rows 1-7, 31, 32: eating what others need.

import assert from 'node:assert/strict';
import type { Case } from '../case.ts';

const MiB = 1 << 20;

/** Other sandboxes must hardly notice. The first number is after a calm one. */
async function neighbourStaysQuick(o: { neighbourMs: () => Promise<number> }): Promise<void> {
	for (let i = 0; i < 3; i++)
		assert.ok((await o.neighbourMs()) < 5000, 'a neighbour waited more than 5 s');
}

export const limitCases: Case[] = [
	{
		id: '1a', without: { walls: ['pids', 'memory'] }, attack: 'fork bomb', must: 'stopped by the process limit, all dead at the deadline', needs: ['pids'], ends: 'timeout',
		during: neighbourStaysQuick,
		code: `
if os.fork() == 0:
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)
most = 0
for i in range(5):
    time.sleep(0.1)
    most = max(most, sum(p.isdigit() for p in os.listdir("/proc")))
say(10 < most < 100, "processes", most)
time.sleep(1000)`,
	},
	{
		id: '1b', without: { walls: ['pids'] }, attack: 'thread bomb', must: 'threads count as processes', needs: ['pids'], ends: 'any',
		code: `
import threading
n = 0
try:
    for n in range(5000):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    say(False, "threads", n)
except RuntimeError as e:
    say(n < 200, "threads", n)
os._exit(0)`,
	},
	{
		id: '1c', without: { walls: ['deadline', 'grace'] }, attack: 'clone storm: short-lived children', must: 'the neighbour works', needs: ['pids'], ends: 'timeout', held: 0, during: neighbourStaysQuick,
		code: `
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0:
            os._exit(0)
    except OSError:
        pass`,
	},
	{
		id: '2a', without: { walls: ['memory'] }, attack: 'heap', must: 'killed, and the answer says out of memory', ends: 'killed', held: 0,
		code: `
b = []
for i in range(128):
    b.append(bytearray(b"x") * (8 << 20))
say(False, "heap", "1 GiB")`,
		after: (r) => assert.doesNotMatch(r.stdout, /BROKEN/),
	},
	{
		id: '2b', without: { walls: ['memory'] }, attack: 'shared memory files', must: 'bounded', ends: 'any', held: 0,
		code: `
f = open("/dev/shm/big", "wb")
try:
    for i in range(900):
        f.write(b"x" * (1 << 20))
    say(False, "shm")
except OSError as e:
    say(True, "shm", e)`,
		after: (r) => assert.doesNotMatch(r.stdout, /BROKEN/),
	},
	{
		id: '2c', without: { walls: ['memory'] }, attack: 'memfd', must: 'charged to the sandbox', ends: 'any', held: 0,
		code: `
fd = os.memfd_create("x")
try:
    for i in range(900):
        os.write(fd, b"x" * (1 << 20))
    say(False, "memfd")
except OSError as e:
    say(True, "memfd", e)`,
		after: (r) => assert.doesNotMatch(r.stdout, /BROKEN/),
	},
	{
		id: '2e', without: { walls: ['memory'] }, attack: 'page tables: touch one page in every 2 MiB', must: 'charged to the sandbox', ends: 'any', held: 0,
		code: `
import mmap
n = 0
try:
    for k in range(200):
        m = mmap.mmap(-1, 1 << 31, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
        m.madvise(15)  # no huge pages
        for off in range(0, 1 << 31, 2 << 20):
            m[off] = 1
            n += 1
        globals()["m%d" % k] = m
    say(False, "page tables", n)
except (OSError, MemoryError) as e:
    say(True, "page tables", n)`,
		after: (r) => assert.doesNotMatch(r.stdout, /BROKEN/),
	},
	{
		id: '3a', without: { walls: ['grace'] }, attack: 'burn CPU, ignoring every polite signal', must: 'killed at deadline and grace', ends: 'timeout', held: 0, during: neighbourStaysQuick,
		code: `
for s in range(1, 64):
    try:
        signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
import threading
for i in range(8):
    threading.Thread(target=lambda: any(iter(int, 1)), daemon=True).start()
while True:
    pass`,
	},
	{
		id: '3b', attack: 'raise the own priority', must: 'refused',
		held: 5,
		code: `
refused("nice", lambda: os.setpriority(os.PRIO_PROCESS, 0, -10))
for policy in (1, 2, 6, 7):
    refused(f"policy {policy}", lambda: os.sched_setscheduler(0, policy, os.sched_param(1 if policy < 3 else 0)), errno.EPERM)
refused_call("sched_setattr", 0, ctypes.c_char_p(b"x" * 64), 0)`,
	},
	{
		id: '3f', without: { walls: ['filter'] }, attack: 'slow down PID 1, which ends runs at their deadline', must: 'refused', ends: 'any',
		held: 6,
		code: `
refused("nice of init", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19), errno.EPERM)
refused("nice of the user", lambda: os.setpriority(os.PRIO_USER, 0, 19), errno.EPERM)
refused("pin init", lambda: os.sched_setaffinity(1, {0}), errno.EPERM)
refused("idle class for init", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)), errno.EPERM)
refused_call("ioprio_set", 1, 1, 3 << 13, errors=(errno.EPERM,))
refused_call("ioprio_set", 3, os.getuid(), 3 << 13, errors=(errno.EPERM,))
os.setpriority(os.PRIO_PROCESS, 0, 5)
os.sched_setaffinity(0, os.sched_getaffinity(0))`,
	},
	{
		id: '3c', without: { walls: ['grace'] }, attack: 'stop oneself', must: 'a stopped run ends at the deadline', ends: 'timeout', held: 0,
		code: `os.kill(os.getpid(), signal.SIGSTOP)`,
	},
	{
		id: '4a', without: { walls: ['disk', 'memory'] }, attack: 'fill the workspace', must: 'ENOSPC', needs: ['disk'],
		code: `
f = open("big", "wb", buffering=0)
try:
    for i in range(300):
        f.write(b"x" * (1 << 20))
    say(False, "fill", i)
except OSError as e:
    say(e.errno in (errno.ENOSPC, errno.EDQUOT), "fill", i)
os.unlink("big")`,
	},
	{
		id: '4b', without: { walls: ['disk', 'memory'] }, attack: 'fill the inodes', must: 'ENOSPC', needs: ['disk'],
		code: `
try:
    for i in range(20000):
        open(f"f{i}", "w").close()
    say(False, "inodes", i)
except OSError as e:
    say(e.errno in (errno.ENOSPC, errno.EDQUOT), "inodes", i)`,
	},
	{
		id: '4c', without: { walls: ['disk', 'memory'] }, attack: 'twenty thousand long names by hard links', must: 'bounded by names or, on a disk, by bytes', needs: ['disk'], ends: 'any', held: 0,
		code: `
open("fill", "wb").write(bytes(29 << 20))
open("one", "w").close()
os.mkdir("d")
try:
    for i in range(20000):
        os.link("one", "d/%0255d" % i)
    say(False, "links", i)
except OSError as e:
    say(e.errno in (errno.ENOSPC, errno.EDQUOT), "links", i)
for entry in os.scandir("d"):
    os.unlink(entry)`,
		after: (r) => assert.doesNotMatch(r.stdout, /BROKEN/),
	},
	{
		id: '4d', planted: { what: 'the session ends before it is listed', by: async (_r, o) => void (await o.session.close(o.id)) }, attack: 'deep folders', must: 'the session can be listed and closed', ends: 'any', held: 0,
		code: `
try:
    for i in range(3000):
        os.mkdir("d"); os.chdir("d")
except OSError as e:
    pass`,
		after: async (_r, o) => {
			assert.ok(Array.isArray(await o.session.list(o.id)));
		},
	},
	{
		id: '5a', without: { settings: { SANDBOX_MAX_ARTIFACT_READ_BYTES: '1073741824' } }, attack: 'a sparse file of petabytes', must: 'apparent size is checked before a read', ends: 'any', held: 0,
		code: `
f = open("huge.bin", "wb")
for bits in (52, 50, 44, 40):
    try:
        f.truncate(1 << bits); break
    except OSError:
        pass
with open("hole.bin", "wb") as f:
    f.truncate(2 << 20)  # no more than a server without the limit would read`,
		after: async (_r, o) => {
			for (const name of ['huge.bin', 'hole.bin']) {
				const r = await o.session.call('sandbox_read_artifact', { session_id: o.id, path: `/mnt/data/${name}` });
				assert.ok(typeof r.error === 'string', `${name} is read`);
			}
		},
	},
	{
		id: '5b', without: { walls: ['disk', 'memory'] }, attack: 'allocate more than there is', must: 'ENOSPC', needs: ['disk'],
		code: `
fd = os.open("x", os.O_CREAT | os.O_RDWR)
refused("fallocate", lambda: os.posix_fallocate(fd, 0, 1 << 28), errno.ENOSPC, errno.EFBIG, errno.EDQUOT)`,
	},
	{
		id: '6a', without: { settings: { SANDBOX_MAX_OUTPUT_BYTES: '67108864' } }, attack: 'a flood on both streams', must: 'cut; the server stays small', held: 0,
		code: `
b = b"y" * 65536
for i in range(30):
    os.write(1, b); os.write(2, b)`,
		after: (r, o) => {
			assert.equal(r.stdout_truncated, true);
			assert.equal(r.stderr_truncated, true);
			assert.ok(o.residentBytes() < 96 * MiB, `the server has ${o.residentBytes() >> 20} MiB`);
		},
	},
	{
		id: '6b', without: { settings: { SANDBOX_OUTPUT_STOP_BYTES: '0' } }, attack: 'one endless line', must: 'is ended at the limit of output, cut', ends: 'killed', held: 0,
		code: `
while True:
    os.write(1, b"z" * 65536)`,
		after: (r, o) => {
			assert.deepEqual([r.reason, r.stdout_truncated], ['output_limit', true]);
			assert.ok(o.residentBytes() < 96 * MiB);
		},
	},
	{
		id: '7a', without: { walls: ['utf8'] }, attack: 'bytes that are no text', must: 'valid Unicode comes out', held: 0,
		code: `os.write(1, bytes(range(256)) * 4 + b"\\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80 \\xc0\\x80 \\xe2\\x80\\xae\\x1b]0;x\\x07")`,
		after: (r) => {
			assert.ok(r.stdout.isWellFormed());
			assert.match(r.stdout, /\ufffd/);
		},
	},
	{
		id: '7b', without: { settings: { SANDBOX_MAX_OUTPUT_BYTES: '67108864' } }, attack: 'a table of a million columns', must: 'cut, not refused', held: 0,
		code: `print(",".join("1" for i in range(1000000)))`,
		after: (r) => assert.equal(r.stdout_truncated, true),
	},
	{
		id: '31a', without: { walls: ['ipc'] }, attack: 'leave System V objects behind', must: 'nobody else sees them',
		code: `
key = 0x5ca15504
refused("somebody else's segment", lambda: call("shmget", key, 4096, 0), errno.ENOENT)
call("shmget", key, 4096, 0o1666)
say(True, "made one")`,
		held: 2,
		after: async (_r, o) => {
			const other = `${o.id}-b`;
			const r = await o.session.run('import ctypes\nl = ctypes.CDLL(None, use_errno=True)\nprint(l.shmget(0x5ca15504, 4096, 0), ctypes.get_errno())', other);
			await o.session.close(other);
			assert.equal(r.stdout, '-1 2\n');
		},
	},
	{
		id: '31b', planted: { what: 'another sandbox has the same file', by: async (_r, o) => void (await o.session.ok('open("/dev/shm/left", "w").close()', `${o.id}-b`)) }, attack: 'leave a file in /dev/shm', must: 'nobody else sees it',
		code: `
holds("empty at first", os.listdir("/dev/shm") == [])
open("/dev/shm/left", "w").write("x" * 1000)`,
		after: async (_r, o) => {
			const other = `${o.id}-b`;
			const r = await o.session.run('import os\nprint(os.listdir("/dev/shm"))', other);
			await o.session.close(other);
			assert.equal(r.stdout, '[]\n');
		},
	},
	{
		id: '31c', attack: 'huge pages of the host', must: 'refused',
		held: 2,
		code: `
refused("memfd", lambda: os.memfd_create("x", 4), errno.EPERM)
refused("shmget", lambda: call("shmget", 0, 2 << 20, 0o5666), errno.EPERM)`,
	},
	{
		id: '32a', without: { walls: ['ptys', 'nofile'] }, attack: 'take all terminals', must: 'bounded; the host still has some', ends: 'any',
		code: `
import pty
n = 0
try:
    while n < 5000:
        pty.openpty(); n += 1
    say(False, "ptys", n)
except OSError as e:
    say(n <= 64, "ptys", n)`,
	},
	{
		id: '32b', without: { walls: ['watchers'] }, attack: 'take all watches', must: 'bounded per sandbox, well below the 128 that the host has', ends: 'any',
		code: `
n = 0
try:
    while n < 5000:
        fd = _libc.inotify_init1(0)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "")
        n += 1
    say(False, "inotify", n)
except OSError as e:
    say(n <= 64, "inotify", n)`,
	},
	{
		id: '32c', attack: 'take all asynchronous I/O slots', must: 'ENOSYS',
		code: `
refused("io_setup", lambda: call("io_setup", 65536, ctypes.byref(ctypes.c_ulong(0))) if _x86 else call(9999), errno.ENOSYS)`,
	},
	{
		id: '32d', without: { walls: ['nofile'] }, attack: 'open files without end', must: 'EMFILE',
		code: `
keep = []
try:
    for i in range(1000000):
        keep.append(os.open("/dev/null", 0))
    say(False, "files", i)
except OSError as e:
    say(e.errno == errno.EMFILE and i < 15000, "files", i)`,
	},
	{
		id: '32e', without: { walls: ['filter'] }, attack: 'flush the host: sync in a loop', must: 'nothing happens', held: 1,
		code: `
def shortest(f, n):
    best = 1.0
    for i in range(n):
        t = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - t)
    return best * 1e6
cheap, sync = shortest(os.getppid, 200), shortest(os.sync, 200)
say(sync < 10 * cheap + 2, "sync", f"{sync:.1f} us, {cheap:.1f} us for one that only asks")`,
	},
	{
		id: '1d', without: { walls: ['pids', 'memory'] }, attack: "a shell's fork bomb, each part in a session of its own", must: 'stopped by the process limit, all dead at the deadline', needs: ['pids'], ends: 'timeout', during: neighbourStaysQuick,
		code: `
import subprocess
subprocess.Popen(["sh", "-c", "b() { setsid sleep 300 & b | b & }; b"], stderr=subprocess.DEVNULL)
most = 0
for i in range(5):
    time.sleep(0.1)
    most = max(most, sum(p.isdigit() for p in os.listdir("/proc")))
say(10 < most < 100, "processes", most)
time.sleep(1000)`,
	},
	{
		id: '2f', without: { walls: ['memlock'] }, attack: 'memory that cannot be swapped', must: 'bounded', ends: 'any', held: 1,
		code: `
import mmap
m = mmap.mmap(-1, 4 << 20)
addr = ctypes.addressof(ctypes.c_char.from_buffer(m))
say(_libc.mlock(ctypes.c_void_p(addr), ctypes.c_size_t(4 << 20)) == -1, "mlock of 4 MiB", ctypes.get_errno())
say(_libc.mlockall(3) == -1, "mlockall", ctypes.get_errno())`,
	},
	{
		id: '2g', without: { walls: ['memory', 'nofile'] }, attack: 'buffers of pipes', must: 'charged to the sandbox or bounded', ends: 'any', held: 0,
		code: `
import fcntl
keep, total = [], 0
try:
    while total < 125 << 20:
        r, w = os.pipe(); keep.append((r, w))
        try:
            fcntl.fcntl(w, 1031, 1 << 20)
        except OSError:
            pass
        os.set_blocking(w, False)
        try:
            while True:
                total += os.write(w, b"x" * 65536)
        except BlockingIOError:
            pass
    say(False, "pipes", total)
except OSError as e:
    say(True, "pipes", total)`,
		after: (r) => assert.doesNotMatch(r.stdout, /BROKEN/),
	},
	{
		id: '2gs', without: { walls: ['filter'] }, attack: 'enlarge the pipes of standard output, whose pages count for the server', must: 'EPERM above 64 KiB', held: 4,
		code: `
import fcntl
for fd in (1, 2):
    refused(f"1 MiB for {fd}", lambda: fcntl.fcntl(fd, 1031, 1 << 20), errno.EPERM)
    refused(f"64 KiB and one page for {fd}", lambda: fcntl.fcntl(fd, 1031, 0x11000), errno.EPERM)
r, w = os.pipe()
holds("64 KiB and less are given", [fcntl.fcntl(w, 1031, n) for n in (4096, 65536)] == [4096, 65536])`,
	},
	{
		id: '2h', without: { walls: ['memory'] }, attack: 'shared memory without a file', must: 'charged to the sandbox', ends: 'any', held: 0,
		code: `
import mmap
m = mmap.mmap(-1, 900 << 20)
try:
    for i in range(0, len(m), 4096):
        m[i] = 1
    say(False, "shared", len(m))
except (OSError, MemoryError) as e:
    say(True, "shared", e)`,
		after: (r) => assert.doesNotMatch(r.stdout, /BROKEN/),
	},
	{
		id: '2j', without: { walls: ['memory'] }, attack: 'System V segments that no process has attached any more', must: 'charged to the sandbox', ends: 'any', held: 0,
		code: `
_libc.shmat.restype = ctypes.c_void_p
_libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
_libc.shmdt.argtypes = [ctypes.c_void_p]
total = 0
try:
    for i in range(20):
        part = call("shmget", 0, 32 << 20, 0o600)
        at = _libc.shmat(part, None, 0)
        ctypes.memset(at, 1, 32 << 20)
        _libc.shmdt(at)
        total += 32 << 20
        time.sleep(0.02)
    time.sleep(0.5)
    say(False, "segments", total)
except OSError as e:
    say(True, "segments", e)`,
		after: (r) => assert.doesNotMatch(r.stdout, /BROKEN/),
	},
	{
		id: '2k', without: { walls: ['memory'] }, attack: 'System V semaphores by the million', must: 'charged to the sandbox', ends: 'any', held: 0,
		code: `
sets = 0
try:
    for i in range(300):
        if _libc.semget(0, 32000, 0o600) < 0:
            raise OSError(ctypes.get_errno(), "refused")
        sets += 1
    time.sleep(0.5)
    say(False, "sets of two megabytes", sets)
except OSError as e:
    say(True, "sets of two megabytes", e)`,
		after: (r) => assert.doesNotMatch(r.stdout, /BROKEN/),
	},
	{
		id: '2i', without: { walls: ['memory'] }, attack: 'page tables: one page of a file, mapped at 20,000 distant places by two processes', must: 'charged to the sandbox', needs: ['memory'], ends: 'any', held: 0,
		code: `
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
fd, n = os.open("/etc/passwd", os.O_RDONLY), 0
done = os.pipe()
child = os.fork()
for i in range(20000):
    if _libc.mmap((16384 + i) << 30, 4096, 1, 0x108001, fd, 0) != 2 ** 64 - 1:  # shared, populated, there or nowhere
        n += 1
if child == 0:
    os.write(done[1], b"x")
    time.sleep(60)
os.close(done[1])
time.sleep(0.2)  # for whoever looks
if os.read(done[0], 1):
    say(n < 20000, "page tables", n)`,
		after: (r) => assert.doesNotMatch(r.stdout, /BROKEN/),
	},
	{
		id: '3d', attack: 'leave the group that counts its time', must: 'there is no way to name one', held: 4,
		code: `
for p in ("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/cpu/tasks", "/proc/self/cgroup", "/proc/1/cgroup"):
    refused("write " + p, lambda: os.write(os.open(p, os.O_WRONLY), b"0"))`,
	},
	{
		id: '3e', planted: { what: 'the answer says more than one processor', by: (r) => void (r.stdout = 'BROKEN used 2.0 processors') }, attack: 'four processes that compute at once', must: 'they share the processor time of the sandbox', needs: ['cpu'],
		code: `
began = time.monotonic()
for i in range(4):
    if os.fork() == 0:
        while time.monotonic() < began + 2:
            pass
        os._exit(0)
for i in range(4):
    os.wait()
used = sum(os.times()[2:4]) / (time.monotonic() - began)
say(used < 1.5, "used", f"{used:.2f} processors")`,
	},
	{
		id: '4f', attack: 'more names than there may be, outside of the workspace', must: 'each place is bounded', held: 3,
		code: `
begun = time.time_ns()  # a sandbox may have the names of an earlier run
try:
    for i in range(10000):
        os.symlink("x", f"/home/sandbox/{begun}-{i}")
    say(False, "names at home", i)
except OSError as e:
    say(e.errno in (errno.ENOSPC, errno.EDQUOT), "names at home", i)
for place, most in (("/tmp", 65536), ("/home/sandbox", 4096)):  # as many take seconds to make
    holds("names in " + place, os.statvfs(place).f_files <= most, os.statvfs(place).f_files)`,
	},
	{
		id: '4e', without: { walls: ['disk', 'memory'] }, attack: 'fill every place that can be written', must: 'each is bounded', ends: 'any', held: 3,
		code: `
for place in ("/tmp", "/home/sandbox", "/dev/shm"):
    try:
        with open(place + "/fill", "wb", buffering=0) as f:
            for i in range(512):
                f.write(b"x" * (1 << 20))
        say(False, "fill " + place, "512 MiB")
    except OSError as e:
        say(e.errno in (errno.ENOSPC, errno.EDQUOT), "fill " + place, i)
    try:
        os.unlink(place + "/fill")
    except OSError:
        pass`,
	},
	{
		id: '5c', without: { walls: ['disk', 'memory'] }, attack: 'a hole, filled from behind', must: 'ENOSPC at the limit, whatever the apparent size', needs: ['disk'], held: 1,
		code: `
with open("hole", "wb", buffering=0) as f:
    f.truncate(1 << 40)
    wrote = 0
    try:
        for i in range(1024):
            f.seek((1 << 40) - (i + 1) * (2 << 20))
            wrote += f.write(b"x" * (1 << 20))
        say(False, "behind", wrote)
    except OSError as e:
        say(e.errno in (errno.ENOSPC, errno.EDQUOT) and wrote < 64 << 20, "behind", wrote)
os.unlink("hole")`,
	},
	{
		id: '6c', without: { settings: { SANDBOX_MAX_OUTPUT_BYTES: '67108864' } }, attack: 'a flood of single bytes', must: 'cut; the server stays small', held: 0, ends: 'any',
		code: `
for i in range(150000):
    os.write(1, b"."); os.write(2, b"!")`,
		after: (r, o) => {
			assert.deepEqual([r.stdout_truncated, r.stderr_truncated], [true, true]);
			assert.ok(o.residentBytes() < 96 * MiB, `the server has ${o.residentBytes() >> 20} MiB`);
		},
	},
	{
		id: '7c', without: { walls: ['utf8'] }, attack: 'sequences that command terminals', must: 'told as they are, escaped; never raw in the log', held: 0,
		code: `os.write(1, b"\\x1b]0;title\\x07\\x1b[2J\\x1b[6n\\x1bP$q\\x1b\\\\ \\x9b31m \\xe2\\x80\\xae \\x00")`,
		after: (r, o) => {
			assert.ok(r.stdout.includes('\u001b]0;title\u0007') && r.stdout.includes('\0'));
			assert.ok(!(o.session.logLines().join('') + o.session.stderr).includes('\u001b]0;title'));
		},
	},
	{
		id: '32f', without: { walls: ['sigpending'] }, attack: 'timers without end', must: 'bounded by what a user may have in flight', ends: 'any', held: 1,
		code: `
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int), ("pad", ctypes.c_char * 48)]
event, timer, n = Event(None, signal.SIGUSR1, 0, b""), ctypes.c_int(), 0
try:
    while n < 12000:
        call(222 if _x86 else 107, 1, ctypes.byref(event), ctypes.byref(timer)); n += 1
    say(False, "timers", n)
except OSError as e:
    say(n < 10000, "timers", f"{n} {errno.errorcode.get(e.errno)}")`,
	},
	{
		id: '32g', without: { walls: ['nofile'] }, attack: 'locks and event descriptors without end', must: 'bounded by open files', ends: 'any', held: 2,
		code: `
import fcntl, select
keep = []
for what, make in (("epoll", select.epoll), ("eventfd", lambda: os.eventfd(0))):
    try:
        for i in range(100000):
            keep.append(make())
        say(False, what, i)
    except OSError as e:
        say(e.errno == errno.EMFILE and i < 15000, what, i)
    for k in keep:
        k.close() if hasattr(k, "close") else os.close(k)
    keep.clear()`,
	},
];
