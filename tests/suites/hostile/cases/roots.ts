// SPDX-License-Identifier: Apache-2.0
// Row 55: the root user that a sandbox can have. What it does as it should is in tests/integration/root_user.test.ts.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { imagesDir, scratch } from '../../../lib/env.ts';
import { namespaceOf } from '../../../lib/process.ts';
import type { Json } from '../../../lib/session.ts';
import { until } from '../../../lib/wait.ts';
import { Index, wheel, wheelName } from '../../../lib/wheel.ts';
import type { Case, Outside } from '../case.ts';
import { checkAttempts, programOf } from '../judge.ts';
import { live, said, type Served } from '../served.ts';
import { faced } from './faces.ts';
import { survivor } from './stays.ts';

const needs = ['memory', 'pids'];
const ONLY_ROOT = { needs, mounts: true, code: '', held: 0 };
const FOLDERS = 'd d/e d/e/f';

/** The server on which sandboxes may have a root user. */
function rooted(o: Outside, body: (s: Served) => Promise<void>): Promise<void> {
	return live(o, body, o.rooted);
}

/** CODE, after the prelude, as a command of USER. */
async function program(o: Outside, s: Served, id: string, code: string, user = 'root', more: Json = {}): Promise<Json> {
	const text = programOf(code).replaceAll('@MARK@', o.mark);
	assert.ok((await s.fetch(`/api/v1/sandboxes/${id}/files/p.py?overwrite=true`, { method: 'PUT', body: text })).status < 300);
	return s.run(id, { command: 'exec python3 /mnt/data/p.py', user, ...more });
}
async function attack(o: Outside, s: Served, id: string, held: number, code: string, user = 'root'): Promise<void> {
	checkAttempts(await program(o, s, id, code, user), held);
}
async function output(s: Served, id: string, command: string, user = 'root'): Promise<string> {
	const r = await s.run(id, { command, user });
	return `${r.stdout}${r.stderr}`;
}
async function nobody(o: Outside): Promise<void> {
	await until('the end of all', () => o.survivors().length === 0, 5000).catch(() => assert.fail(`${o.survivors().length} processes are left`));
}
function uidsOf(pid: number): string[] {
	return /^Uid:\t(.*)$/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))![1]!.split('\t');
}
/** Disks of sandboxes of STATE that the host has attached. */
function disksOf(state: string): number {
	return fs.readdirSync('/sys/block').filter((name) => {
		try {
			return name.startsWith('loop') && fs.readFileSync(`/sys/block/${name}/loop/backing_file`, 'utf8').startsWith(fs.realpathSync(state));
		} catch {
			return false;
		}
	}).length;
}
/** A state folder with an image that lacks the folders in which packages are mounted, as one that somebody made by hand. */
function bareImage(): string {
	const state = scratch('bare'), root = path.join(state, 'images/bare/root');
	fs.mkdirSync(path.dirname(root), { recursive: true });
	const from = path.join(imagesDir, 'base/root');
	if (spawnSync('cp', ['-al', from, root]).status !== 0)
		assert.equal(spawnSync('cp', ['-a', from, root]).status, 0);
	fs.rmSync(path.join(root, 'app'), { recursive: true });
	return state;
}

/** Processes of several users that are hard to end; says "full" when all are there. */
const ZOO = `
def animal(uid, name, do):
    if os.fork(): return
    os.setsid()
    if os.fork(): os._exit(0)
    os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
    os.execv(sys.executable, ["python3", "-c", "import os, signal, time\\n" + do + "\\nopen('/tmp/%s-%d', 'w').close()\\nwhile True: time.sleep(1000)" % (name, uid), MARK])
users = (0, 1, 33, 100, 999, 1000, 1011, 65534)
for uid in users:
    animal(uid, "deaf", "for n in range(1, 65):\\n    try: signal.signal(n, signal.SIG_IGN)\\n    except (OSError, ValueError): pass")
    animal(uid, "stopped", "import threading; threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGSTOP)).start()")
until = time.time() + 20
while len([f for f in os.listdir("/tmp") if f.startswith(("deaf-", "stopped-"))]) < 2 * len(users) and time.time() < until: time.sleep(0.01)
print("full", flush=True)`;

export const rootCases: Case[] = [
	{
		...ONLY_ROOT, id: '55a', without: { walls: ['filter', 'root_caps'] }, attack: 'root tries what gives rights over the host: mounts, namespaces, devices, handles, tracing, tables of the kernel, ids and rights that it does not have', must: 'each is refused',
		after: (_r, o) => rooted(o, async (s) => attack(o, s, await s.make({ root: true }), 80, `
import fcntl, pty, resource, socket, struct
NULL, AT = ctypes.c_void_p(), -100
for what, args in (("mount", (b"none", b"/srv", b"tmpfs", 0, NULL)), ("mount", (b"/", b"/srv", NULL, 4096, NULL)), ("mount", (NULL, b"/app/.venv", NULL, 32 | 4096, NULL)), ("mount", (b"proc", b"/srv", b"proc", 0, NULL)),
                   ("umount2", (b"/app/.venv", 2)), ("umount2", (b"/proc", 2)), ("pivot_root", (b"/srv", b"/srv")), ("chroot", (b"/srv",)), ("fsopen", (b"ext4", 0)), ("fsopen", (b"overlay", 0)), ("fspick", (AT, b"/", 0)), ("open_tree", (AT, b"/app/.venv", 1)),
                   ("move_mount", (AT, b"/app/.venv", AT, b"/srv", 0)), ("mount_setattr", (AT, b"/app/.venv", 0, struct.pack("4Q", 0, 1, 0, 0), 32)), ("unshare", (0x10000000,)), ("unshare", (0x20000,)), ("unshare", (0x40000000,)), ("setns", (os.open("/proc/self/ns/mnt", os.O_RDONLY), 0)), ("setns", (os.open("/proc/self/ns/user", os.O_RDONLY), 0)),
                   ("clone", (0x10000000 | 17, NULL)), ("clone", (0x20000 | 17, NULL)), ("clone3", (struct.pack("11Q", 0x10000000, *([0] * 10)), 88)), ("name_to_handle_at", (AT, b"/etc/passwd", ctypes.create_string_buffer(b"\\x80\\0\\0\\0", 256), ctypes.create_string_buffer(8), 0)),
                   ("open_by_handle_at", (AT, struct.pack("Ii8s", 8, 1, b"\\2" + bytes(7)), 0)), ("fanotify_init", (0, 0)), ("quotactl", (0x800002 << 8, b"/dev/loop0", 0, NULL)), ("quotactl_fd", (os.open("/", os.O_RDONLY), 0x800002 << 8, 0, NULL)), ("swapon", (b"/tmp/x", 0)), ("swapoff", (b"/tmp/x",)), ("acct", (b"/tmp/x",)), ("reboot", (0xfee1dead, 672274793, 0x1234567, NULL)),
                   ("bpf", (0, ctypes.create_string_buffer(128), 72)), ("perf_event_open", (ctypes.create_string_buffer(b"\\1\\0\\0\\0\\x80", 128), 0, -1, -1, 0)), ("io_uring_setup", (4, ctypes.create_string_buffer(128))), ("userfaultfd", (0,)), ("keyctl", (1, NULL)), ("add_key", (b"user", b"x", b"y", 1, -3)), ("request_key", (b"user", b"x", NULL, -3)),
                   ("ptrace", (16, 1, 0, 0)), ("ptrace", (0x4206, 1, 0, 0)), ("process_vm_readv", (1, NULL, 0, NULL, 0, 0)), ("kcmp", (1, os.getpid(), 0, 0, 0)), ("pidfd_getfd", (os.pidfd_open(1), 3, 0)), ("settimeofday", (struct.pack("2q", 0, 0), NULL)), ("clock_settime", (0, struct.pack("2q", 0, 0))), ("adjtimex", (ctypes.create_string_buffer(b"\\1", 256),)),
                   ("sethostname", (b"x", 1)), ("setdomainname", (b"x", 1)), ("syslog", (3, ctypes.create_string_buffer(64), 64)), ("init_module", (b"x", 1, b"")), ("finit_module", (0, b"", 0)), ("delete_module", (b"loop", 0)), ("kexec_load", (0, 0, NULL, 0)), ("vhangup", ()), ("iopl", (3,)), ("ioperm", (0, 1, 1)), ("modify_ldt", (1, NULL, 0)),
                   ("migrate_pages", (1, 1, NULL, NULL)), ("move_pages", (1, 0, NULL, NULL, NULL, 0)), ("process_madvise", (os.pidfd_open(1), NULL, 0, 20, 0)), ("memfd_secret", (0,)), ("seccomp", (1, 8, NULL)), ("landlock_restrict_self", (0, 0)), ("ioprio_set", (3, 0, 0)), ("ioprio_set", (1, 1, 0)),
                   ("prctl", (28, 1)), ("prctl", (28, 0x2f)), ("prctl", (47, 2, 21, 0, 0)), ("prctl", (24, 0)), ("prctl", (0x59616d61, -1)), ("prctl", (35, 13, 0)), ("capset", (struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *([0xffffffff] * 6))))):
    refused_call(what, *args)
open("/srv/f", "w").close()
f = os.open("/srv/f", os.O_RDWR)
for kind in (0o20000, 0o60000):
    for dev in ((1, 1), (7, 0), (8, 0), (1, 3), (10, 229)):
        refused(f"device {dev}", lambda: os.mknod("/srv/dev", kind | 0o666, os.makedev(*dev)), errno.EPERM)
for name in ("security.capability", "trusted.overlay.opaque", "trusted.x", "system.posix_acl_access"):
    refused(name, lambda: os.setxattr("/srv/f", name, b"\\1\\0\\0\\2" + bytes(16)))
refused("immutable", lambda: fcntl.ioctl(f, 0x40086602, struct.pack("L", 0x10)), errno.EPERM)
refused("project id", lambda: fcntl.ioctl(f, 0x401c5820, bytes(28)), errno.EPERM)
refused("ext4 shutdown", lambda: fcntl.ioctl(f, 0x8004587d, struct.pack("I", 2)), errno.EPERM)
refused("freeze", lambda: fcntl.ioctl(f, 0xc0045877, 0), errno.EPERM)
for uid in (130, 500, 969, 1012, 1024, 60000, 65533, 65535, 1879048192, 4294967294):
    refused(f"uid {uid}", lambda: os.setuid(uid), errno.EINVAL)
    refused(f"group {uid}", lambda: os.setgroups([uid]), errno.EINVAL)
    refused(f"a file of {uid}", lambda: os.chown("/srv/f", uid, 0), errno.EINVAL)
for what, attempt in (("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)), ("packet", lambda: socket.socket(17, socket.SOCK_RAW, 3)), ("route", lambda: socket.socket(16, socket.SOCK_RAW, 0)), ("audit", lambda: socket.socket(16, socket.SOCK_RAW, 9)), ("vsock", lambda: socket.socket(40, socket.SOCK_STREAM, 0)), ("alg", lambda: socket.socket(38, socket.SOCK_SEQPACKET, 0))):
    refused("socket " + what, attempt)
own = socket.socket()
for level, option in ((1, 8), (1, 33), (1, 32), (1, 36), (1, 26), (0, 64), (6, 31), (41, 64)): # RCVBUFFORCE is told apart: 33, 32; MARK, filters, tables, ULP
    if (level, option) != (1, 8):
        refused_call("setsockopt", own.fileno(), level, option, struct.pack("I", 1), 4)
master, slave = pty.openpty()
refused("TIOCSTI", lambda: fcntl.ioctl(slave, 0x5412, b"x"), errno.EPERM)
refused("TIOCSETD", lambda: fcntl.ioctl(slave, 0x5423, struct.pack("i", 13)), errno.EPERM)
refused("TIOCCONS", lambda: fcntl.ioctl(slave, 0x541d), errno.EPERM)
refused("more files", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1] + 1,) * 2))
refused("more processes", lambda: resource.setrlimit(resource.RLIMIT_NPROC, (resource.getrlimit(resource.RLIMIT_NPROC)[1] + 1,) * 2))
refused("cores", lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
refused("priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))
refused("priority of init", lambda: os.setpriority(os.PRIO_PROCESS, 1, 5))
refused("priority of all", lambda: os.setpriority(os.PRIO_USER, 1000, 5))
refused("real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
refused("init elsewhere", lambda: os.sched_setaffinity(1, {0}))
for name in ("/dev/mem", "/dev/kmsg", "/dev/loop0", "/dev/loop-control", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/sda", "/proc/sys/kernel/core_pattern", "/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger", "/proc/kcore", "/sys/kernel/uevent_helper", "/sys/fs/cgroup/cgroup.procs"):
    refused("open " + name, lambda: open(name, "r+b"))
for name in ("/dev/null", "/dev/zero"):
    refused("chmod " + name, lambda: os.chmod(name, 0))
    refused("remove " + name, lambda: os.unlink(name))
    refused("own " + name, lambda: os.chown(name, 1000, 1000))
refused("a name in /dev", lambda: open("/dev/x", "w"))
for name in ("/proc", "/dev", "/tmp", "/mnt/data", "/app/.venv", "/home/sandbox", "/home/user", "/app/results"):
    refused("rename " + name, lambda: os.rename(name, name + "2"), errno.EBUSY, errno.EXDEV)
refused("write a package", lambda: open("/app/.venv/x", "w"), errno.EROFS)
try:
    os.kill(1, 9); os.kill(1, 19)
except OSError: pass
holds("init lives", os.path.exists("/proc/1/stat"))`)),
	},
	{
		...ONLY_ROOT, id: '55b', without: { walls: ['proc_ro', 'landlock'] }, attack: 'root, and root as uid 1000, read and write what /proc has of init and of waiting interpreters, and signal init', must: 'nothing but names and numbers can be read, nothing written',
		after: (_r, o) => rooted(o, async (s) => {
			const id = await s.make({ root: true });
			await s.run(id, { code: 'x = 1', stateful: true });
			const reads = `
own = {os.getpid()}
others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in own]
for p in others:
    for f in ("environ", "mem", "maps", "smaps", "auxv", "stack", "syscall", "pagemap", "io", "personality"):
        refused(f"{p}/{f}", lambda: open(f"/proc/{p}/{f}", "rb").read(8) or (_ for _ in ()).throw(OSError(errno.ENODATA, "nothing")))
    for f in ("cwd", "root", "exe", "fd/0", "fd/3", "fd/16", "ns/mnt", "ns/user"):
        refused(f"{p}/{f}", lambda: os.readlink(f"/proc/{p}/{f}"))
    refused(f"{p}/root/etc", lambda: os.listdir(f"/proc/{p}/root/etc"))
    refused(f"{p}/map_files", lambda: os.listdir(f"/proc/{p}/map_files"))
    refused(f"{p}/fdinfo", lambda: open(f"/proc/{p}/fdinfo/0").read())
    for f in ("mem", "clear_refs", "comm", "oom_score_adj", "timerslack_ns", "coredump_filter", "uid_map", "gid_map", "setgroups", "loginuid", "autogroup", "sched"):
        def write():
            now = open(f"/proc/{p}/{f}").read() if f == "oom_score_adj" else "1"
            with open(f"/proc/{p}/{f}", "w") as at: at.write(str(int(now) + 1) if f == "oom_score_adj" else "1")
        refused(f"write {p}/{f}", write)`;
			await attack(o, s, id, 60, `${reads}
holds("it sees init", "1" in others, others)
for f in ("self/oom_score_adj", "self/uid_map", "self/setgroups", "self/attr/current", "self/comm", "sys/vm/drop_caches"):
    refused("write " + f, lambda: open("/proc/" + f, "w").write("1"))
import ctypes as c
for signo in (1, 2, 9, 15, 17, 18, 19, 34, 64):
    try: os.kill(1, signo)
    except OSError: pass
try: os.kill(-1, 0)
except OSError: pass
holds("init is there", os.path.exists("/proc/1/stat") and open("/proc/1/stat").read().split(")")[1].split()[0] in "SR")`);
			await attack(o, s, id, 1, `os.setgroups([0]); os.setresgid(1000, 1000, 0); os.setresuid(1000, 1000, 0)${reads}\nholds("done", True)`);
			assert.equal((await s.run(id, { code: 'x', stateful: true })).value, '1');
		}),
	},
	{
		...ONLY_ROOT, id: '55c', without: { walls: ['root_ids'] }, attack: 'two roots: their users are the same numbers inside', must: 'no id of the host in common, and none of the host\'s own',
		after: (_r, o) => rooted(o, async (s) => {
			const code = `for uid in (0, 1, 33, 129, 970, 999, 1000, 1001, 1011, 65534):
    if os.fork() == 0:
        os.setgid(uid); os.setuid(uid)
        os.execv(sys.executable, ["python3", "-c", "import time; time.sleep(1000)", MARK])
print("full", flush=True)
time.sleep(1000)`;
			for (let i = 0; i < 3; i++) {
				const id = await s.make({ root: true });
				assert.ok((await s.fetch(`/api/v1/sandboxes/${id}/files/p.py`, { method: 'PUT', body: programOf(code).replaceAll('@MARK@', o.mark) })).status < 300);
				await s.says(await s.process(id, { command: 'exec python3 p.py', user: 'root' }), 'full');
			}
			await until('all', () => o.survivors().length === 30);
			const owners = new Map<string, string>();
			for (const pid of o.survivors()) {
				const space = namespaceOf(pid, 'pid')!;
				for (const uid of uidsOf(pid)) {
					assert.ok(Number(uid) > 1 << 30, `uid ${uid} is the host's`);
					assert.equal(owners.get(uid) ?? space, space, `uid ${uid} is in two sandboxes`);
					owners.set(uid, space);
				}
			}
			assert.equal(owners.size, 30);
		}),
	},
	{
		...ONLY_ROOT, id: '55d', without: { walls: ['root_own'] }, attack: 'the user wants what is root\'s: its terminal, its files after a checkpoint, programs and folders that are closed, set-user-id bits', must: 'refused',
		after: (_r, o) => rooted(o, async (s) => {
			const id = await s.make({ root: true });
			assert.equal(await output(s, id, `printf '#!/bin/sh\\necho it runs\\n' >/usr/local/bin/closed; chmod 700 /usr/local/bin/closed; mkdir -m 700 /srv/closed; echo "key of root" >key; chmod 600 key; mkdir -m 700 ${FOLDERS}; echo "key of root" >d/e/f/key; chmod 600 d/e/f/key; ln key d/again
mkfifo -m 600 pipe; ln -s key link; chown -h 33:33 pipe link; cp /usr/bin/python3 /usr/local/bin/su3; chown 0:0 /usr/local/bin/su3; chmod 6755 /usr/local/bin/su3`), '');
			assert.ok((await s.ask('POST', `/sandboxes/${id}/checkpoints`, { name: 'a' })).status < 300);
			await output(s, id, 'rm -r key d pipe link');
			const back = await s.ask('POST', `/sandboxes/${id}/checkpoints/a/restore`, {});
			assert.ok(back.status < 300, back.text);
			assert.equal(await output(s, id, `stat -c '%n %U:%G %a' key ${FOLDERS} d/again d/e/f/key; stat -c '%n %u' pipe link; cat d/again`), `key root:root 600\n${FOLDERS.replace(/\S+/g, '$& root:root 700\n').replaceAll(' d', 'd')}d/again root:root 600\nd/e/f/key root:root 600\npipe 33\nlink 33\nkey of root\n`);
			const t = await s.attach(await s.terminal(id, { command: 'echo ready; read x; echo "[$x]"; sleep 1000', user: 'root' }));
			await t.shows('ready');
			const inside = { command: 'echo inside', cwd: '/srv/closed' };
			const run = await s.ask('POST', `/sandboxes/${id}/runs`, { ...inside, wait: true });
			assert.ok(run.status >= 400 || run.body.exit_code !== 0, run.text);
			const one = await s.ask('POST', `/sandboxes/${id}/processes`, inside);
			const end = one.status < 300 ? await until('its end', async () => {
				const p = await s.look(`/sandboxes/${id}/processes/${one.body.id}`);
				return p.state !== 'running' && p;
			}) : one.body;
			assert.ok(!JSON.stringify(end).includes('inside\\n'), JSON.stringify(end));
			await attack(o, s, id, 16, `
import glob, stat, subprocess
for name in ("key", "d/again", "link", "pipe", "/srv/closed", "/usr/local/bin/closed", "/etc/shadow"):
    refused("read " + name, lambda: os.listdir(name) if os.path.isdir(name) else os.open(name, os.O_RDONLY | os.O_NONBLOCK))
ptys = [n for n in glob.glob("/dev/pts/[0-9]*")]
holds("a terminal is there", ptys)
for name in ptys:
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        refused(f"open {name} {flags}", lambda: os.open(name, flags | os.O_NOCTTY | os.O_NONBLOCK), errno.EACCES)
    refused("chmod " + name, lambda: os.chmod(name, 0o666))
for what, attempt in (("setuid", lambda: os.setuid(0)), ("groups", lambda: os.setgroups([0])), ("chown", lambda: os.chown("/etc/passwd", 1000, 1000)), ("write", lambda: open("/etc/passwd", "a")), ("rename", lambda: os.rename("/usr", "/usr2"))):
    refused(what, attempt)
r = subprocess.run(["/usr/local/bin/su3", "-c", "import os; print(os.getresuid(), os.getresgid())"], capture_output=True, text=True)
holds("set-user-id gives nothing", r.stdout == "(1000, 1000, 1000) (1000, 1000, 1000)\\n", r.stdout + r.stderr)`, 'user');
		}),
	},
	{
		...ONLY_ROOT, id: '55e', without: { walls: ['packages'] }, attack: 'root puts something in the place of the packages, and they are installed, listed and removed', must: 'a refusal; nothing of root\'s is mounted for the installer',
		after: async (_r, o) => {
			const index = new Index();
			await index.open();
			for (const name of ['alpha', 'beta'])
				index.add(name, { file: wheelName(name, '1.0'), body: wheel(name, '1.0', `who = "${name}"`) });
			try {
				const settings = { SANDBOX_STATE_DIR: bareImage(), SANDBOX_IMAGE: 'bare', SANDBOX_PIP_INDEX_URL: index.url };
				await live(o, async (s) => {
					for (const [place, how] of [['/srv/own', 'mkdir -p /srv/own/.venv; chmod 777 /srv/own/.venv; ln -s /srv/own /app'], ['/app', 'mkdir -p /app/.venv; chmod 777 /app/.venv'], ['/mnt/data', 'mkdir -m 777 .venv; ln -s /mnt/data /app']] as const) {
						const id = await s.make({ root: true });
						const install = (packages: string): Promise<Json> => s.ask('POST', `/sandboxes/${id}/packages`, { packages, wait: true });
						const good = await install('alpha');
						assert.equal(good.body.status, 'success', good.text);
						assert.equal(await output(s, id, `mv /app /gone && { ${how}; }; ls /gone/.venv/lib/python3*/site-packages | grep ^alpha.py`), 'alpha.py\n');
						const bad = await install('beta');
						assert.notEqual(bad.body.status, 'success', bad.text);
						assert.equal(await output(s, id, `find ${place} -name 'beta*' -o -name 'pyvenv*'`), '', bad.text);
						assert.equal((await s.run(id, { command: 'echo on' })).stdout, 'on\n');
						assert.equal(await output(s, id, 'rm -r /app; mv /gone /app'), '');
						assert.equal((await install('beta')).body.status, 'success');
					}
				}, () => o.rooted(settings));
			} finally {
				index.close();
			}
		},
	},
	{
		...ONLY_ROOT, id: '55f', planted: survivor, attack: 'sandboxes with root are made and ended, in a storm, in the middle of what they do', must: 'all ids and disks come back, no process is left',
		after: (_r, o) => rooted(o, async (s) => {
			const before = disksOf(o.stateDir);
			for (let round = 0; round < 3; round++) {
				const ids = await Promise.all(Array.from({ length: 7 }, () => s.make({ root: true })));
				await Promise.all(ids.map(async (id, i) => {
					if (i % 3 !== 2)
						await s.ask('POST', `/sandboxes/${id}/processes`, { command: `exec python3 -c 'import os, time\nfor u in (0, 33, 1000):\n  if os.fork() == 0:\n    os.setgid(u); os.setuid(u)\nwhile True: time.sleep(1)' ${o.mark}`, user: 'root' });
					if (i % 3 === 1)
						await output(s, id, 'mkdir -m 000 /shut /mnt/data/shut; head -c 3000000 /dev/urandom >/var/x');
					assert.equal((await s.ask('DELETE', `/sandboxes/${id}?force=true`)).status, 204);
				}));
				await s.neighbour();
			}
			await nobody(o);
			await until('all disks to be gone', () => disksOf(o.stateDir) <= before + 2, 10_000);
		}),
	},
	{
		...ONLY_ROOT, id: '55g', without: { walls: ['beneath'] }, attack: 'while a client reads, lists and writes a file of the system, root turns its folder into links to /proc, to other mounts and to devices', must: 'it reads that file, or nothing',
		after: (_r, o) => faced(o, async (f, s) => {
			const box = await f.make(), id = box.id;
			const at = await s.process(id, { user: 'root', command: `mkdir -p /srv/real /srv/t; echo mine >/srv/real/environ; cp /srv/real/environ /srv/real/status; echo set; cd /srv; exec python3 -c '
import os
targets = ["/srv/real", "/proc/1", "/proc/self", "/srv/real", "/dev", "/srv/real", "/app/.venv", "/proc/1/root/proc/1"]
n = 0
while True:
    t = targets[n % len(targets)]; n += 1
    os.symlink(t, "next"); os.rename("next", "t2") if n % 2 else os.rename("next", "t3")
    try: os.rename("t", "away"); os.rename("t2" if n % 2 else "t3", "t"); os.rename("t", "t2" if n % 2 else "t3"); os.rename("away", "t")
    except OSError: pass
    try: os.mkdir("t");
    except OSError: pass
    try: os.link("real/environ", "t/environ"); os.link("real/status", "t/status")
    except OSError: pass'` });
			await s.says(at, 'set');
			let read = 0;
			for (let i = 0; i < 300; i++) {
				const r = await f.read(box, `/srv/${['t', 't2', 't3'][i % 3]}/${i % 2 ? 'environ' : 'status'}`);
				assert.ok(r.status !== 200 || r.bytes.toString() === 'mine\n', r.text.slice(0, 200));
				read += r.status === 200 ? 1 : 0;
			}
			assert.ok(read > 0);
			assert.equal((await s.look(at)).state, 'running');
		}, o.rooted),
	},
	{
		...ONLY_ROOT, id: '55h', without: { walls: ['pids'] }, attack: 'a fork bomb of root in which each process is another user', must: 'the limit of the sandbox counts them all; others are served',
		after: (_r, o) => rooted(o, async (s) => {
			const id = await s.make({ root: true });
			const [r] = await Promise.all([program(o, s, id, `
n = 0
users = [*range(130), *range(970, 1001), *range(1001, 1012), 65534]
try:
    for i in range(500):
        if os.fork() == 0:
            os.setgroups([]); os.setgid(users[i % len(users)]); os.setuid(users[i % len(users)])
            while True: time.sleep(100)
        n += 1
except OSError: pass
holds("few", n < 64, n)`), s.neighbour()]);
			checkAttempts(r, 1);
			assert.equal(await output(s, id, 'id -u'), '0\n');
		}),
	},
	{
		...ONLY_ROOT, id: '55i', without: { walls: ['kill', 'tree'] }, attack: 'a run of root, and a background process, leave daemons of eight users that are deaf, stopped, and in sessions of their own', must: 'all end with it',
		after: (_r, o) => rooted(o, async (s) => {
			const id = await s.make({ root: true });
			const left = await program(o, s, id, ZOO);
			assert.equal(left.stdout, 'full\n', left.stderr);
			await nobody(o);
			assert.equal(await output(s, id, 'rm -f /tmp/deaf-* /tmp/stopped-*; id -u'), '0\n');
			const at = await s.process(id, { command: `exec python3 p.py`, user: 'root' });
			await s.says(at, 'full');
			await until('its end', async () => (await s.look(at)).state === 'ended');
			await nobody(o);
			await output(s, id, 'rm -f /tmp/deaf-* /tmp/stopped-*');
			const long = await s.process(id, { command: `python3 p.py; sleep 1000`, user: 'root' });
			await s.says(long, 'full');
			assert.ok(o.survivors().length >= 16, `${o.survivors().length}`);
			assert.equal((await s.ask('DELETE', long)).status, 204);
			await nobody(o);
		}),
	},
	{
		...ONLY_ROOT, id: '55j', without: { walls: ['root_caps'] }, attack: 'root replaces every program and library that programs of ours load: Python, the shell, ld.so.preload, site-packages, the loader\'s cache', must: 'they run with no more rights than before, the server goes on, and other sandboxes have the image\'s',
		after: (_r, o) => faced(o, async (f, s) => {
			const box = await f.make(), id = box.id;
			await s.run(id, { code: 'y = 2', stateful: true });
			assert.equal(await output(s, id, `cd /mnt/data; mkdir -m 777 /srv/told; cp /usr/bin/python3 /srv/real3; cp /bin/sh /srv/sh; printf 'a,b\\n1,2\\n' >t.csv
cat >/srv/evil <<'E'
#!/srv/sh
read -r a <&3 2>/dev/null
while read -r k v; do case $k in Uid:|CapEff:|CapPrm:|NoNewPrivs:|Seccomp:) l="$l $k $v";; esac; done </proc/self/status
echo "$l" >/srv/told/$$
echo '{"rows": [[' '\\x00\\xff' ; echo evil >&2; kill -9 $PPID; exit 3
E
chmod 755 /srv/evil /srv/sh; echo 'import os; open("/srv/told/site-%d" % os.getpid(), "w").write(open("/proc/self/status").read())' >/usr/lib/python3/dist-packages/sitecustomize.py
echo /no/such.so >/etc/ld.so.preload; echo junk >/etc/ld.so.cache; for p in $(ls -d /usr/bin/python3* /bin/bash /usr/local/bin/*); do cp /srv/evil $p.new && /srv/sh -c "exec mv -f $p.new $p"; done`, 'root').then((t) => t.replace(/ERROR: ld.so.*\n/g, '')), '');
			const asks: [string, string, unknown?][] = [['GET', `/sandboxes/${id}/files?path=`], ['GET', `/sandboxes/${id}/preview?path=t.csv`], ['POST', `/sandboxes/${id}/complete`, { code: 'y.', cursor: 2 }],
				['POST', `/sandboxes/${id}/runs`, { code: 'print(1)', wait: true }], ['POST', `/sandboxes/${id}/runs`, { code: 'print(y)', stateful: true, wait: true }], ['POST', `/sandboxes/${id}/runs`, { code: 'print(1)', wait: true, env: { PYTHONHASHSEED: '1' } }], ['POST', `/sandboxes/${id}/runs`, { command: 'python3 -c 1', wait: true }],
				['POST', `/sandboxes/${id}/runs`, { command: 'python3 -c 1', wait: true, user: 'root' }], ['POST', `/sandboxes/${id}/checkpoints`, { name: 'c' }], ['GET', `/sandboxes/${id}/packages`], ['GET', `/sandboxes/${id}/usage`], ['POST', `/sandboxes/${id}/terminals`, {}]];
			for (const [method, at, json] of asks) {
				const r = await s.ask(method, at, json);
				assert.ok(r.status < 600 && r.status !== 0 && !r.text.includes('internal'), `${at}: ${r.text.slice(0, 300)}`);
			}
			await s.neighbour();
			const told = await f.rpc(box, 'filesystem.Filesystem/ListDir', { path: '/srv/told', depth: 1 });
			const names = ((told.json.entries ?? []) as Json[]).map((e) => e.name as string);
			assert.ok(names.length > 0, told.text.slice(0, 300));
			let ofRoot = 0;
			for (const name of names) {
				const { text } = await f.read(box, `/srv/told/${name}`);
				const fact = (key: string): string => new RegExp(`${key}:\\s*([0-9a-f]+)`).exec(text)?.[1] ?? '';
				assert.equal(fact('NoNewPrivs'), '1', text);
				assert.equal(fact('Seccomp'), '2', text);
				const root = fact('Uid') === '0';
				ofRoot += root ? 1 : 0;
				assert.deepEqual([fact('CapEff'), fact('CapPrm')], Array(2).fill(root ? '00000000000004fb' : '0000000000000000'), text);
			}
			assert.ok(names.length > ofRoot, told.text);
			assert.equal((await s.run(await s.make({ root: true }), { code: 'print(1)' })).stdout, '1\n');
		}, o.rooted),
	},
	{
		...ONLY_ROOT, mounts: false, needs: [], id: '55k', planted: said('a refusal is a success', (t) => t.replace(/"status":4\d\d/, '"status":200').replace('forbidden', 'fine').replace('no root user', 'a root user').replace('user root', 'you')),
		attack: 'every door without the operator\'s word: sandboxes, changes, forks, runs, processes, terminals, clients of E2B', must: 'refused at each, and all that runs is uid 1000',
		after: (_r, o) => live(o, async (s) => {
			const made = await s.ask('POST', '/sandboxes', { root: true });
			assert.deepEqual([made.status, made.body.code], [403, 'forbidden'], made.text);
			const id = await s.make({ root: false });
			for (const [method, at, json] of [['PATCH', `/sandboxes/${id}`, { root: true }], ['PUT', '/sandboxes/another-name', { root: true }], ['POST', `/sandboxes/${id}/forks`, { root: true }],
				['POST', '/sandboxes', { root: 'true' }], ['POST', '/sandboxes', { root: 1 }], ['POST', '/sandboxes', { user: 'root' }],
				...['runs', 'processes', 'terminals'].flatMap((kind) => ['root', 'ROOT', '0', 'root:root', '', 'daemon', 0, null, true, ['root']].map((user) => ['POST', `/sandboxes/${id}/${kind}`, { command: 'id -u', user, ...(kind === 'runs' ? { wait: true } : {}) }]))] as [string, string, Json][]) {
				const r = await s.ask(method, at, json);
				assert.ok(r.status >= 400 && r.status < 500, `${method} ${at} ${JSON.stringify(json)}: ${r.text}`);
			}
			const refused = await s.ask('POST', `/sandboxes/${id}/runs`, { command: 'id -u', user: 'root', wait: true });
			assert.match(refused.text, /no root user/);
			assert.equal((await s.run(id, { command: 'id -u' })).stdout, '1000\n');
			const box = await s.fetch('/faces/e2b/v2/sandboxes', { method: 'POST', body: JSON.stringify({ templateID: 'base', timeout: 600 }), headers: { 'content-type': 'application/json' } });
			assert.equal(box.status, 201, box.text);
			const routed = { 'e2b-sandbox-id': box.body.sandboxID as string, 'e2b-sandbox-port': '49983', 'x-access-token': box.body.envdAccessToken as string, authorization: `Basic ${Buffer.from('root:').toString('base64')}`, 'content-type': 'application/json' };
			for (const method of ['process.Process/List', 'filesystem.Filesystem/Stat', 'filesystem.Filesystem/MakeDir', 'filesystem.Filesystem/Remove']) {
				const r = await s.fetch(`/faces/e2b/${method}`, { method: 'POST', headers: routed, body: JSON.stringify({ path: '/etc/x' }) });
				assert.ok(r.status >= 400 || method.endsWith('List'), `${method}: ${r.text}`);
			}
			for (const method of ['GET', 'POST'])
				assert.ok((await s.fetch('/faces/e2b/files?path=/etc/hosts&username=root', { method, headers: { ...routed, ...(method === 'POST' ? { 'content-type': 'application/octet-stream' } : {}) }, ...(method === 'POST' ? { body: 'x' } : {}) })).status >= 400, method);
			await s.fetch(`/faces/e2b/sandboxes/${box.body.sandboxID}`, { method: 'DELETE' });
		}),
	},
	{
		...ONLY_ROOT, id: '55l', planted: said('a file is missing', (t) => t.replace('"name":"deep"', '"name":"gone"').replaceAll('shut', 'open')), attack: 'root leaves trees that are hard to read, copy and remove: mode 000, other owners, 300 folders deep, sockets, FIFOs, odd names, hard links, holes', must: 'they are saved, restored, downloaded and removed; nothing is left on the host',
		after: (_r, o) => rooted(o, async (s) => {
			const before = disksOf(o.stateDir);
			const id = await s.make({ root: true });
			const make = `
import socket
os.umask(0)
os.chdir("/mnt/data")
os.makedirs("t/shut/in"); open("t/shut/in/f", "w").write("kept"); os.chown("t/shut/in/f", 33, 33); os.chmod("t/shut/in/f", 0)
os.link("t/shut/in/f", "t/again"); os.mkfifo("t/pipe", 0); s = socket.socket(socket.AF_UNIX); s.bind("t/sock")
with open("t/holes", "wb") as f: f.truncate(1 << 33)
os.chmod("t/holes", 0); os.chown("t/holes", 65534, 999)
for name in ("-rf", "a\\nb", b"\\xff\\xfe".decode("utf-8", "surrogateescape"), "x" * 255, " ", "...", "*", ".caisson-0"): open("t/" + name, "w").close()
os.symlink("/proc/1/environ", "t/link"); os.symlink("loop", "t/loop"); os.lchown("t/link", 33, 33)
at = "t/deep"; os.mkdir(at); fd = os.open(at, os.O_RDONLY)
for i in range(200):
    os.mkdir("d", dir_fd=fd); nxt = os.open("d", os.O_RDONLY, dir_fd=fd); os.close(fd); fd = nxt
os.fchmod(fd, 0); os.chown("t/shut/in", 1, 1); os.chmod("t/shut/in", 0); os.chmod("t/shut", 0); os.chown("t", 100, 100); os.chmod("t", 0)
holds("made", True)`;
			await attack(o, s, id, 1, make);
			const saved = await s.ask('POST', `/sandboxes/${id}/checkpoints`, { name: 'a' });
			assert.ok(saved.status < 300, saved.text);
			const listed = await s.ask('GET', `/sandboxes/${id}/files?path=t`);
			assert.ok(listed.text.includes('shut') && listed.text.includes('deep'), listed.text.slice(0, 300));
			const one = await s.fetch(`/api/v1/sandboxes/${id}/files/${encodeURIComponent('t/shut/in/f')}`);
			assert.deepEqual([one.status, one.text], [200, 'kept']);
			const removed = await s.ask('DELETE', `/sandboxes/${id}/files/t?recursive=true`);
			assert.ok(removed.status < 300, removed.text);
			assert.equal(await output(s, id, 'ls /mnt/data'), 'p.py\n');
			const restored = await s.ask('POST', `/sandboxes/${id}/checkpoints/a/restore`, {});
			assert.ok(restored.status < 300, restored.text);
			assert.equal(await output(s, id, "stat -c '%u %a' t t/shut t/shut/in t/shut/in/f t/holes; cat t/again; stat -c %h t/again; stat -c %s t/holes"), '100 0\n0 0\n1 0\n33 0\n65534 0\nkept2\n8589934592\n');
			assert.ok((await s.ask('DELETE', `/sandboxes/${id}/checkpoints/a`)).status < 300);
			await output(s, id, 'rm t/holes');
			const fork = await s.ask('POST', `/sandboxes/${id}/forks`, {});
			assert.equal(fork.status, 201, fork.text);
			assert.equal(await output(s, fork.body.id as string, "stat -c '%U %a' t/shut/in/f"), 'sandbox 644\n');
			assert.equal((await s.ask('DELETE', `/sandboxes/${fork.body.id}?force=true`)).status, 204);
			assert.equal((await s.ask('DELETE', `/sandboxes/${id}?force=true`)).status, 204);
			await until('all disks to be gone', () => disksOf(o.stateDir) <= before + 2, 10_000);
			assert.deepEqual(fs.readdirSync(o.stateDir).filter((n) => n.startsWith('.')), []);
			assert.deepEqual(fs.existsSync(path.join(o.stateDir, 'workspaces')) ? fs.readdirSync(path.join(o.stateDir, 'workspaces')).filter((n) => n.includes(id)) : [], []);
		}),
	},
	{
		...ONLY_ROOT, id: '55m', without: { walls: ['asked'] }, attack: 'other users than the sandbox\'s own ask init for a command of root; the user asks with numbers, files and descriptors that cannot be', must: 'no command begins; the next one that may be does', needs,
		after: (_r, o) => rooted(o, async (s) => {
			const id = await s.make({ root: true });
			await attack(o, s, id, 14, `
import array, socket, struct
def asked(argc, envc, args, n=5, kind=3):
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    fds = [there.fileno(), args, 0, 1, 2][:n]
    s.sendmsg([struct.pack("Iii", kind, argc, envc)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))], 0, "/run/caisson/init")
    there.close()
    here.settimeout(10)
    got = here.recv(8)
    if len(got) == 8 and struct.unpack("ii", got)[0] == 1: return "began"
    raise OSError(struct.unpack("ii", got)[1] if len(got) == 8 else struct.unpack("i", got)[0] if got else errno.EPIPE, "")
def text(data):
    fd = os.memfd_create("x"); os.write(fd, data); return fd
good = text(b"/\\0/bin/true\\0A=b\\0")
holds("the user may", asked(1, 1, good) == "began")
for uid in (1, 33, 999, 65534):
    def other():
        r, w = os.pipe()
        if os.fork() == 0:
            os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
            try: code = 0 if asked(1, 1, good) else 1
            except OSError as e: code = e.errno
            os.write(w, bytes([code])); os._exit(0)
        os.wait()
        code = os.read(r, 1)[0]
        if code: raise OSError(code, "")
    refused(f"user {uid}", other, errno.EPERM)
fifo = os.pipe()[0]
for what, argc, envc, args, n in (("no word", 0, 1, good, 5), ("less than none", -1, 1, good, 5), ("too many", 100000, 1, good, 5), ("more than there are", 2, 1, good, 5), ("environment below 0", 1, -1, good, 5),
                                  ("no end", 1, 1, text(b"/\\0/bin/true\\0A=b"), 5), ("empty", 1, 1, text(b""), 5), ("a pipe", 1, 1, fifo, 5), ("too few descriptors", 1, 1, good, 4)):
    refused(what, lambda: asked(argc, envc, args, n))`);
			assert.equal(await output(s, id, 'sudo id -u', 'user'), '0\n');
		}),
	},
];
