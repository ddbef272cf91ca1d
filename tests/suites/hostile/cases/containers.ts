// SPDX-License-Identifier: Apache-2.0
// What is different by design where sandboxes are containers, and why (docs/docker-engine.md). A case that is named here with nothing
// but a reason does not run there.

import type { Case } from '../case.ts';

export const onContainers: Record<string, Partial<Case> & { why: string }> = {
	'4j': { why: 'disks that promise no more than the host has are the native engine\'s' },
	'13a': {
		why: 'a container engine mounts the whole of /proc; what describes the host is masked, so it is there and empty',
		code: `
for p in ("kcore", "kallsyms", "keys", "key-users", "sysrq-trigger", "sys", "kmsg", "config.gz", "interrupts", "timer_list", "modules", "sched_debug", "iomem",
          "locks", "slabinfo", "vmallocinfo", "partitions", "diskstats", "cmdline", "kpagecount", "pressure", "driver", "bus", "fs", "irq", "sysvipc"):
    try:
        path = b"/proc/" + p.encode()
        shown = b"".join(os.listdir(path)) if os.path.isdir(path) else open(path, "rb").read(64)
    except OSError as e:
        shown = b""
    holds("/proc/" + p, shown == b"", shown)`,
	},
	'13c': {
		why: 'a container engine mounts by paths of the host, and the kernel tells them; none of them can be reached',
		planted: { what: 'one is reached', by: (r) => void (r.stdout = 'BROKEN /var/lib/caisson (worked)') },
		code: `
import re
text = open("/proc/self/mountinfo").read()
seen = {p for p in re.findall(r"(?<![^ =,:])(/[^ =,:\\n]+)", text) if p.startswith(("/tmp/caisson-", "/var/lib"))} | {"@STATE@", "@CANARY@"}
for p in seen:
    refused(p, lambda: os.stat(p), errno.ENOENT, errno.ENOTDIR)
    refused("a name in " + p, lambda: os.open(p + "/x", os.O_CREAT | os.O_WRONLY), errno.ENOENT, errno.ENOTDIR)`,
	},
	'13d': {
		why: 'the container engine mounts /proc without hidepid: numbers and names of the few processes of the same container can be seen',
		without: undefined, held: 6,
		code: `
others = [int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
holds("few", 1 in others and len(others) < 8, others)
for p in others:
    for f in ("environ", "mem", "maps", "cwd", "root", "exe", "fd/0"):
        refused(f"/proc/{p}/{f}", lambda: os.readlink(f"/proc/{p}/{f}") if f in ("cwd", "root", "exe", "fd/0") else open(f"/proc/{p}/{f}", "rb").read(10))`,
	},
	'15c': {
		why: 'as 13d: the others can be seen, not read',
		without: undefined, held: 5,
		code: `
mine = {os.getpid(), os.getppid() if os.getppid() > 1 else 0}
for p in range(1, 40):
    if p in mine:
        continue
    for f in ("mem", "environ", "maps", "auxv"):
        refused(f"{p}/{f}", lambda: open(f"/proc/{p}/{f}", "rb").read(1))
    refused(f"{p}/root", lambda: os.listdir(f"/proc/{p}/root"))
    for n in range(8):
        refused(f"{p}/fd/{n}", lambda: os.readlink(f"/proc/{p}/fd/{n}"))
        refused(f"open {p}/fd/{n}", lambda: os.open(f"/proc/{p}/fd/{n}", os.O_RDWR | os.O_NONBLOCK))`,
	},
	'30a': {
		why: 'container engines mount the image itself without nosuid; there no_new_privs alone takes the meaning from its set-uid files',
		held: 7,
		code: `
import stat, struct, subprocess
line = [l for l in open("/proc/self/status") if l.startswith(("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"))]
holds("no capability", all(int(l.split()[1], 16) == 0 for l in line), "".join(line))
holds("no_new_privs", "NoNewPrivs:\\t1" in open("/proc/self/status").read())
missing = [l for l in open("/proc/self/mountinfo") if "ro" not in l.split()[5].split(",") and "nosuid" not in l.split()[5] and stat.S_ISDIR(os.stat(l.split()[4]).st_mode)]
holds("every mount that can be written is nosuid", not missing, missing[:1])
for sets in ((-1, -1, 0), (0, 1 << 21, 0), (0, 0, 1)): # effective, permitted, inheritable
    refused("capset", lambda: call("capset", struct.pack("Ii", 0x20080522, 0), struct.pack("6i", *sets, 0, 0, 0)), errno.EPERM)
set_uid = [p for p in ("/bin/su", "/usr/bin/su", "/usr/bin/passwd", "/usr/bin/mount") if os.path.exists(p) and os.stat(p).st_mode & 0o4000][:1]
for p in set_uid:
    child = subprocess.Popen([p], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        uid = os.stat(f"/proc/{child.pid}").st_uid, open(f"/proc/{child.pid}/status").read()
        holds(p + " does not run as root", "Uid:\\t1000\\t1000\\t1000" in uid[1], uid)
    except OSError as e:
        say(True, p, e)
    child.kill()
refused("setuid 0", lambda: os.setuid(0))`,
	},
	'32a': {
		why: 'the daemon mounts /dev/pts without a bound: each process has as many as open files, and the kernel keeps 1024 for the host',
		without: { walls: ['nofile'] }, code: `
import pty
n = 0
try:
    while n < 5000:
        pty.openpty(); n += 1
    say(False, "ptys", n)
except OSError as e:
    say(n <= 2100, "ptys", n)`,
	},
	'32b': {
		why: "the kernel counts these by uid, and containers share one: all of them together have that uid's 128",
	},
	...Object.fromEntries('abcdefghijl'.split('').map((letter) => [`55${letter}`, { why: 'a root user is the native engine\'s' }])),
	'56p': { why: 'builds in sandboxes are the native engine\'s' },
	'56q': { why: 'builds in sandboxes are the native engine\'s' },
	'56r': { why: 'builds in sandboxes are the native engine\'s' },
	'56s': { why: 'builds in sandboxes are the native engine\'s' },
};
