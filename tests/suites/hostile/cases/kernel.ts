// SPDX-License-Identifier: Apache-2.0
// Rows 13-24, 29, 30, 33: doors of the kernel that must be shut.

import * as fs from 'node:fs';
import * as net from 'node:net';
import * as path from 'node:path';
import type { Case } from '../case.ts';

const NS_FLAGS = '0x00020000 0x02000000 0x04000000 0x08000000 0x10000000 0x20000000 0x40000000'.split(' ');

export const kernelCases: Case[] = [
	{
		id: '13a', attack: 'read what /proc knows about the host', must: 'nothing but the own processes is there',
		held: 12,
		code: `
for p in ("kcore", "kallsyms", "keys", "key-users", "sysrq-trigger", "sys/kernel/core_pattern", "sys/kernel/hostname", "kmsg", "config.gz",
          "interrupts", "timer_list", "modules", "sched_debug", "iomem"):
    refused("/proc/" + p, lambda: open("/proc/" + p, "rb").read(64))`,
	},
	{
		id: '13b', without: { walls: ['proc_ro', 'landlock'] }, attack: 'write below /proc', must: 'nothing there is writable',
		held: 5,
		code: `
for p in ("self/comm", "self/oom_score_adj", "self/loginuid", "self/attr/current", "self/timerslack_ns", "self/coredump_filter", "self/uid_map", "self/setgroups"):
    def attempt():
        with open("/proc/" + p, "w") as f:
            f.write("0")
    refused("write /proc/" + p, attempt)`,
	},
	{
		id: '13c', attack: 'find host paths in mountinfo', must: 'no path of the host is named',
		held: 3,
		code: `
text = open("/proc/self/mountinfo").read()
for word in ("@STATE@", "/var/lib/caisson", "/images/"):
    holds("no " + word, word not in text, text[:200].replace("\\n", "|") if word in text else "")
sys.stderr.write(text)`,
	},
	{
		id: '13d', without: { walls: ['hidepid'] }, attack: 'see and read other processes', must: 'only the own pid namespace, and pid 1 is closed',
		held: 5,
		code: `
pids = [int(p) for p in os.listdir("/proc") if p.isdigit()]
holds("the own process alone", pids == [os.getpid()], pids)
for f in ("environ", "mem", "maps", "cwd", "root", "fd"):
    refused("/proc/1/" + f, lambda: os.listdir("/proc/1/fd") if f == "fd" else os.readlink("/proc/1/" + f) if f in ("cwd", "root") else open("/proc/1/" + f, "rb").read(10))`,
	},
	{
		id: '13e', attack: 'use /sys', must: 'it is not there',
		held: 2,
		code: `
holds("/sys is empty", not os.path.exists("/sys/kernel"))
refused("cgroup tree", lambda: os.listdir("/sys/fs/cgroup"))`,
	},
	{
		id: '14a', attack: 'overwrite the programs that run outside the filter', must: 'no executable can be opened for writing',
		held: 3,
		code: `
for p in ("/proc/1/exe", "/proc/self/exe", sys.executable, "/usr/bin/id", "/usr/bin/env"):
    refused("write " + p, lambda: open(p, "r+b"))`,
	},
	{
		id: '14b', attack: 'replace files of the image', must: 'the root is read-only',
		held: 5,
		code: `
for p in ("/bin/sh", "/etc/passwd", "/usr/lib/x", "/x", "/lib/x.so"):
    refused("write " + p, lambda: open(p, "w"))
refused("unlink /etc/passwd", lambda: os.unlink("/etc/passwd"))
refused("rename /usr", lambda: os.rename("/usr", "/usr2"))`,
	},
	{
		id: '15a', attack: 'trace or read another process', must: 'EPERM or ENOSYS',
		held: 7,
		code: `
child = os.fork()
if child == 0:
    time.sleep(5); os._exit(0)
for who in (child, 1):
    refused_call("ptrace", 16, who)
    refused_call("process_vm_readv", who, 0, 0, 0, 0, 0)
    refused_call("process_vm_writev", who, 0, 0, 0, 0, 0)
refused_call("ptrace", 0)
refused_call("kcmp", os.getpid(), child, 0, 0, 0)
os.kill(child, 9)`,
	},
	{
		id: '15b', attack: 'take descriptors of another process', must: 'EPERM',
		held: 2,
		code: `
fd = os.pidfd_open(os.getpid())
refused_call("pidfd_getfd", fd, 0, 0)
refused("open /proc/1/fd/0", lambda: os.open("/proc/1/fd/0", os.O_RDONLY))`,
	},
	{
		id: '16a', attack: 'keyrings', must: 'EPERM or ENOSYS',
		held: 3,
		code: `
refused_call("add_key", ctypes.c_char_p(b"user"), ctypes.c_char_p(b"x"), ctypes.c_char_p(b"y"), 1, -4)
refused_call("request_key", ctypes.c_char_p(b"user"), ctypes.c_char_p(b"x"), 0, -4)
refused_call("keyctl", 0, -3, 1)`,
	},
	{
		id: '17a', attack: 'unshare each kind of namespace', must: 'EPERM',
		held: 7,
		code: `
for flag in (${NS_FLAGS.join(', ')}):
    refused(f"unshare {flag:#x}", lambda: call("unshare", flag), errno.EPERM)`,
	},
	{
		id: '17b', attack: 'clone into a new namespace', must: 'EPERM; clone3 ENOSYS',
		held: 8,
		code: `
for flag in (${NS_FLAGS.join(', ')}):
    def attempt():
        if call("clone", flag | signal.SIGCHLD, 0, 0, 0, 0) == 0:
            os._exit(0)
        return "a child"
    refused(f"clone {flag:#x}", attempt, errno.EPERM)
args = (ctypes.c_uint64 * 11)(0x10000000)
refused("clone3", lambda: call("clone3", ctypes.byref(args), 88), errno.ENOSYS)`,
	},
	{
		id: '17c', attack: 'enter namespaces by descriptor', must: 'EPERM',
		held: 4,
		code: `
for ns in ("user", "mnt", "pid", "net"):
    fd = os.open("/proc/self/ns/" + ns, os.O_RDONLY)
    refused("setns " + ns, lambda: call("setns", fd, 0), errno.EPERM)`,
	},
	{
		id: '18a', attack: 'mount and unmount', must: 'EPERM',
		held: 6,
		code: `
s = ctypes.c_char_p
refused_call("mount", s(b"none"), s(b"/tmp"), s(b"tmpfs"), 0, 0)
refused_call("mount", s(b"proc"), s(b"/tmp"), s(b"proc"), 0, 0)
refused_call("mount", s(b"/"), s(b"/tmp"), 0, 4096, 0)
refused_call("umount2", s(b"/mnt/data"), 2)
refused_call("pivot_root", s(b"."), s(b"."))
refused_call("chroot", s(b"/tmp"))`,
	},
	{
		id: '18b', attack: 'the new mount interface', must: 'EPERM or ENOSYS',
		held: 7,
		code: `
s = ctypes.c_char_p
refused_call("fsopen", s(b"tmpfs"), 0)
refused_call("fsconfig", -1, 6, 0, 0, 0)
refused_call("fsmount", -1, 0, 0)
refused_call("fspick", -100, s(b"/"), 0)
refused_call("open_tree", -100, s(b"/"), 1)
refused_call("move_mount", -100, s(b"/tmp"), -100, s(b"/mnt"), 0)
refused_call("mount_setattr", -100, s(b"/"), 0, 0, 0)`,
	},
	{
		id: '19a', attack: 'io_uring', must: 'EPERM or ENOSYS',
		held: 3,
		code: `
p = (ctypes.c_char * 256)()
refused_call("io_uring_setup", 8, p)
refused_call("io_uring_enter", 0, 1, 1, 1, 0, 0)
refused_call("io_uring_register", 0, 0, 0, 0)`,
	},
	{
		id: '20a', attack: 'bpf, perf events, userfaultfd', must: 'EPERM or ENOSYS',
		held: 5,
		code: `
b = (ctypes.c_char * 256)()
for cmd in (0, 5, 18):
    refused_call("bpf", cmd, b, 128)
refused_call("perf_event_open", b, 0, -1, -1, 0)
refused_call("userfaultfd", 1)`,
	},
	{
		id: '20b', attack: 'modules, another kernel, the machine', must: 'EPERM or ENOSYS',
		held: 13,
		code: `
for name in ("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "quotactl", "quotactl_fd", "swapon", "swapoff", "acct", "syslog", "iopl", "ioperm",
             "modify_ldt", "uselib", "vhangup", "fanotify_init"):
    refused_call(name, -1, -1, -1, -1, -1)
refused_call("reboot", 0xfee1dead, 672274793, 0x4321fedc, 0)`,
	},
	{
		id: '20c', attack: "the host's clock and name", must: 'EPERM',
		held: 6,
		code: `
t = (ctypes.c_long * 32)()
refused_call("settimeofday", t, 0)
refused_call("clock_settime", 0, t)
refused_call("adjtimex", t)
refused_call("clock_adjtime", 0, t)
refused_call("sethostname", ctypes.c_char_p(b"x"), 1)
refused_call("setdomainname", ctypes.c_char_p(b"x"), 1)`,
	},
	{
		id: '20d', attack: 'handles past the mounts', must: 'EPERM',
		held: 2,
		code: `
h = (ctypes.c_char * 256)()
refused_call("name_to_handle_at", -100, ctypes.c_char_p(b"/"), h, h, 0)
refused_call("open_by_handle_at", 0, h, 0)`,
	},
	{
		id: '20e', attack: 'tie itself with filters of its own, or undo the old', must: 'refused',
		held: 4,
		code: `
refused_call("seccomp", 1, 0, 0)
refused_call("seccomp", 1, 8, 0)
refused_call("prctl", 22, 2, 0)
refused_call("landlock_create_ruleset", 0, 0, 1)`,
	},
	{
		id: '21a', attack: 'every other socket family', must: 'three families and no more',
		held: 40,
		code: `
import socket
for family in range(0, 47):
    if family not in (1, 2, 10):
        refused(f"family {family}", lambda: socket.socket(family, socket.SOCK_DGRAM).close() or "socket")
for family in (16, 17, 38, 40):
    refused(f"raw family {family}", lambda: socket.socket(family, socket.SOCK_RAW, 0))`,
	},
	{
		id: '21b', attack: 'raw, ping and exotic protocols', must: 'refused',
		held: 8,
		code: `
import socket
for family in (2, 10):
    refused("raw", lambda: socket.socket(family, socket.SOCK_RAW, 1), errno.EPERM)
    for proto in (1, 33, 58, 132, 136, 262):
        for kind in (1, 2, 5):
            refused(f"protocol {proto} type {kind}", lambda: socket.socket(family, kind, proto), errno.EPERM)`,
	},
	{
		id: '21c', attack: '32-bit and x32 calls', must: 'the process dies by SIGSYS',
		held: 2,
		code: `
import mmap
if _x86:
    dies("x32 getpid", lambda: _libc.syscall(ctypes.c_long(0x40000000 | 39)), signal.SIGSYS)
    def int80():
        m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        m.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")  # mov eax, 20 (getpid); int 0x80; ret
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
    dies("i386 getpid", int80, signal.SIGSYS)
else:
    holds("not on this machine", True); holds("not on this machine", True)`,
	},
	{
		id: '22a', attack: 'configure the network namespace', must: 'refused: no capability, no netlink',
		held: 4,
		code: `
import socket, fcntl, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
refused("netlink", lambda: socket.socket(16, socket.SOCK_RAW, 12), errno.EOPNOTSUPP)
refused("SIOCSIFFLAGS", lambda: fcntl.ioctl(s, 0x8914, struct.pack("16sh22x", b"lo", 0)))
refused("SIOCBRADDBR", lambda: fcntl.ioctl(s, 0x89a0, b"br0"))
refused("iptables replace", lambda: s.setsockopt(0, 64, b"x" * 96), errno.EPERM)
refused("TCP_ULP", lambda: socket.socket().setsockopt(6, 31, b"tls"), errno.EPERM)
refused("SO_ATTACH_FILTER", lambda: s.setsockopt(1, 26, b"x" * 16), errno.EPERM)`,
	},
	{
		id: '22b', without: { walls: ['net'] }, attack: 'reach the network', must: 'loopback only',
		held: 5,
		code: `
import socket
for addr in ("8.8.8.8", "10.0.0.1", "169.254.169.254", "192.168.0.1", "255.255.255.255"):
    s = socket.socket(); s.settimeout(2)
    refused("connect " + addr, lambda: s.connect((addr, 80)))
s = socket.socket(socket.AF_INET6); s.settimeout(2)
refused("connect v6", lambda: s.connect(("2001:4860:4860::8888", 80)))
refused("dns", lambda: socket.getaddrinfo("example.org", 80))`,
	},
	{
		id: '23a', without: { walls: ['net', 'landlock'] }, attack: "reach the host's loopback and abstract sockets", must: 'another network namespace',
		held: 2,
		code: `
import socket
port = int(open("port").read()) if os.path.exists("port") else 22
s = socket.socket(); s.settimeout(2)
refused("host loopback", lambda: s.connect(("127.0.0.1", port)), errno.ECONNREFUSED)
u = socket.socket(socket.AF_UNIX)
refused("host abstract socket", lambda: u.connect("\\0caisson-hostile"), errno.ECONNREFUSED, errno.EPERM)`,
		during: async () => {
			const server = net.createServer((c) => c.destroy());
			await new Promise<void>((resolve) => server.listen({ path: '\0caisson-hostile' }, resolve));
			await new Promise((resolve) => setTimeout(resolve, 1500));
			server.close();
		},
	},
	{
		id: '23b', without: { walls: ['nofile'] }, attack: 'a storm of descriptors in flight', must: 'bounded by the open files of a process; the server is untouched',
		held: 1, ends: 'any',
		code: `
import socket, array
pairs, sent = [], 0
try:
    while sent < 15000:
        a, b = socket.socketpair(); pairs.append((a, b))
        for i in range(50):
            a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 100))], socket.MSG_DONTWAIT); sent += 100
except OSError as e:
    say(True, "storm", f"{sent} {errno.errorcode.get(e.errno)}")
else:
    say(False, "storm", sent)`,
	},
	{
		id: '24a', attack: 'push input into a terminal', must: 'EPERM for TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS',
		held: 8,
		code: `
import pty, fcntl
master, slave = pty.openpty()
for fd in (0, slave):
    for req in (0x5412, 0x541C, 0x5423, 0x541D):
        refused(f"ioctl {req:#x}", lambda: fcntl.ioctl(fd, req, b"x\\0\\0\\0"), errno.EPERM)
refused("upper half", lambda: call("ioctl", slave, 1 << 32 | 0x5412, ctypes.c_char_p(b"x")), errno.EPERM)
refused("/dev/tty", lambda: os.open("/dev/tty", os.O_RDWR))`,
	},
	{
		id: '29a', without: { walls: ['core'] }, attack: "let the host's core handler run: RLIMIT_CORE 0", must: 'the limit cannot be changed; no core appears',
		held: 3,
		code: `
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
holds("the limit is 1: a piped handler is not run", (soft, hard) == (1, 1), (soft, hard))
refused("setrlimit core 0", lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
refused("setrlimit core max", lambda: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1)))
dies("crash", lambda: ctypes.string_at(0), signal.SIGSEGV)
holds("no core file", not [f for f in os.listdir(".") if f.startswith("core")])`,
	},
	{
		id: '30a', attack: 'set-uid files in the image', must: 'nosuid everywhere, nothing gains rights',
		held: 6,
		code: `
import shutil, struct, subprocess
line = [l for l in open("/proc/self/status") if l.startswith(("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"))]
holds("no capability", all(int(l.split()[1], 16) == 0 for l in line), "".join(line))
holds("no_new_privs", "NoNewPrivs:\\t1" in open("/proc/self/status").read())
import stat
missing = [l for l in open("/proc/self/mountinfo") if "nosuid" not in l.split()[5] and not stat.S_ISCHR(os.stat(l.split()[4]).st_mode)]
holds("every mount of files is nosuid", not missing, missing[:1])
for sets in ((-1, -1, 0), (0, 1 << 21, 0), (0, 0, 1)): # effective, permitted, inheritable
    refused("capset", lambda: call("capset", struct.pack("Ii", 0x20080522, 0), struct.pack("6i", *sets, 0, 0, 0)), errno.EPERM)`,
	},
	{
		id: '30b', attack: 'a set-uid copy of one’s own', must: 'the uid stays',
		held: 2,
		code: `
import shutil, subprocess
shutil.copy("/usr/bin/id", "idcopy")
os.chmod("idcopy", 0o6755)
try:
    out = subprocess.run(["./idcopy", "-u"], capture_output=True, text=True).stdout.strip()
except OSError as e:
    out = str(os.getuid())
holds("uid stays", out == str(os.getuid()) and out != "0", out)
refused("setuid 0", lambda: os.setuid(0))
refused("chown to root", lambda: os.chown("idcopy", 0, 0))`,
	},
	{
		id: '30c', attack: 'device nodes', must: 'EPERM',
		held: 4,
		code: `
import stat
for kind, dev in ((stat.S_IFCHR, os.makedev(1, 1)), (stat.S_IFBLK, os.makedev(8, 0)), (stat.S_IFCHR, os.makedev(10, 229))):
    refused("mknod", lambda: os.mknod("node", kind | 0o666, dev), errno.EPERM)
extra = [d for d in os.listdir("/dev") if d not in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin", "stdout", "stderr", "console", "mqueue")]
holds("only harmless devices", not extra, extra)`,
	},
	{
		id: '33a', attack: 'side channels of the kernel', must: 'page merging, cache probes, page-out and placement are refused',
		held: 7,
		code: `
import mmap
m = mmap.mmap(-1, 1 << 16)
addr = ctypes.addressof(ctypes.c_char.from_buffer(m))
for advice in (12, 21, 100, 101):
    refused(f"madvise {advice}", lambda: call("madvise", addr, 4096, advice), errno.EPERM)
refused_call("cachestat", 0, 0, 0, 0)
refused_call("mbind", addr, 4096, 1, 0, 0, 0)
refused_call("move_pages", 0, 0, 0, 0, 0, 0)
refused_call("prctl", 62, 0, 0, 0, 0)
refused_call("personality", 0x40000)`,
	},
	{
		id: '16b', attack: 'session keyrings', must: 'EPERM or ENOSYS for every command',
		held: 20,
		code: `
for command in range(0, 33):
    refused_call("keyctl", command, 0, 0, 0, 0)
holds("/proc/keys", not os.path.exists("/proc/keys") or open("/proc/keys").read() == "")`,
	},
	{
		id: '19b', attack: 'io_uring with a kernel thread, and registered buffers', must: 'EPERM or ENOSYS',
		held: 4,
		code: `
p = (ctypes.c_uint32 * 32)()
for flags in (2, 3, 64, 1 << 12):
    p[2] = flags
    refused_call("io_uring_setup", 4096, p)
for op in range(0, 4):
    refused_call("io_uring_register", -1, op, 0, 0)`,
	},
	{
		id: '20f', without: { walls: ['filter'] }, attack: 'every system call that the table refuses, with every interesting argument', must: 'as the table says',
		held: 1,
		before: async (o) => {
			const probe = path.join(o.build, 'tests/suites/hostile/syscalls-probe');
			await o.session.upload('syscalls', fs.readFileSync(probe), o.id);
		},
		code: `
import subprocess
data = open("syscalls", "rb").read()
fd = os.memfd_create("probe", 0)
os.write(fd, data)
r = subprocess.run([f"/proc/self/fd/{fd}", "--inside"], pass_fds=[fd], capture_output=True, text=True)
say(r.returncode == 0, "the sweep", r.stdout[-600:].replace("\\n", "; "))`,
	},
	{
		id: '24b', attack: 'terminals of the host', must: 'not there',
		held: 5,
		code: `
for dev in ("/dev/console", "/dev/tty0", "/dev/tty1", "/dev/vcs", "/dev/ttyS0", "/dev/pts/0"):
    refused(dev, lambda: os.open(dev, os.O_RDWR | os.O_NOCTTY))`,
	},
	{
		id: '29b', attack: 'crash in every way', must: 'no core file, no helper, the run goes on',
		held: 5,
		code: `
import resource
for sig in (signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGBUS, signal.SIGQUIT):
    def attempt():
        call("prctl", 4, 1)
        signal.signal(sig, signal.SIG_DFL)
        os.kill(os.getpid(), sig)
        time.sleep(1)
    dies(signal.Signals(sig).name, attempt, sig)
holds("no core file", not [f for f in os.listdir(".") if "core" in f])`,
	},
	{
		id: '33b', attack: 'physical addresses and hardware counters', must: 'nothing is told',
		held: 4,
		code: `
def frames():
    with open("/proc/self/pagemap", "rb") as f:
        f.seek((id(f) >> 12) * 8)
        entry = int.from_bytes(f.read(8), "little")
    if entry & ((1 << 55) - 1):
        return hex(entry)
    raise OSError(errno.EPERM, "no frame numbers")
refused("pagemap", frames)
for dev in ("/dev/cpu/0/msr", "/dev/mem", "/dev/kmsg", "/dev/kvm"):
    refused(dev, lambda: os.open(dev, os.O_RDONLY))`,
	},
	{
		id: '13f', attack: 'go around by the links of /proc/self', must: 'they lead back into the sandbox', held: 5,
		code: `
holds("root", os.stat("/proc/self/root/..").st_ino == os.stat("/").st_ino)
holds("cwd", os.path.realpath("/proc/self/cwd") in ("/mnt/data", "/app/results"))
holds("above the root", os.stat("/" + "../" * 40).st_ino == os.stat("/").st_ino)
holds("no table of the system", not any(os.path.isdir(p) and os.listdir(p) for p in ("/proc/sys", "/proc/sysvipc")))
holds("cgroup names no host path", all("caisson" not in l and "docker" not in l for l in open("/proc/self/cgroup")) if os.path.exists("/proc/self/cgroup") else True)`,
	},
	{
		id: '15c', without: { walls: ['hidepid'] }, attack: 'read the memory and files of processes that are not the own', must: 'there is none to be seen, whatever waits in the sandbox', held: 1,
		code: `
mine = {os.getpid(), os.getppid() if os.getppid() > 1 else 0}
others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in mine]
holds("nobody else is there", not others, others)
for p in [*others, "1", *map(str, range(2, 40))]:
    if int(p) in mine:
        continue
    for f in ("mem", "environ", "maps", "auxv"):
        refused(f"{p}/{f}", lambda: open(f"/proc/{p}/{f}", "rb").read(1))
    refused(f"{p}/fd", lambda: os.listdir(f"/proc/{p}/fd"))
    refused(f"{p}/root", lambda: os.listdir(f"/proc/{p}/root"))`,
	},
	{
		id: '17d', attack: 'time and cgroup namespaces, and many kinds at once', must: 'EPERM', held: 6,
		code: `
for flags in (0x80, 0x02000000, 0x10000000 | 0x20000000, 0x7e020080, 0x10000000 | 0x00020000):
    refused(f"unshare {flags:#x}", lambda: call("unshare", flags), errno.EPERM, errno.EINVAL)
    def attempt():
        if call("clone", flags & ~0xff | signal.SIGCHLD, 0, 0, 0, 0) == 0:
            os._exit(0)
        return "a child"
    if flags & ~0xff:
        refused(f"clone {flags:#x}", attempt, errno.EPERM, errno.EINVAL)`,
	},
	{
		id: '17e', attack: 'change the maps of ids, or enter by a descriptor of a process', must: 'refused', held: 6,
		code: `
for f in ("uid_map", "gid_map", "setgroups", "projid_map"):
    def attempt():
        with open("/proc/self/" + f, "w") as m:
            m.write("0 1000 1\\n" if f != "setgroups" else "allow")
    refused(f, attempt)
fd = os.pidfd_open(os.getpid())
for flags in (0x10000000, 0x00020000, 0x20000000):
    refused(f"setns by pidfd {flags:#x}", lambda: call("setns", fd, flags), errno.EPERM)`,
	},
	{
		id: '18c', attack: 'change what is mounted: remount, move, unmount each', must: 'EPERM', held: 8,
		code: `
s = ctypes.c_char_p
places = [l.split()[4].encode() for l in open("/proc/self/mountinfo")]
for p in places:
    refused_call("mount", s(b"none"), s(p), 0, 32 | 4096, 0)
    refused_call("umount2", s(p), 2)
    refused_call("mount", s(p), s(b"/tmp"), 0, 8192, 0)`,
	},
	{
		id: '19c', attack: 'give pages away to a pipe', must: 'EPERM or ENOSYS', held: 2,
		code: `
r, w = os.pipe()
iov = (ctypes.c_uint64 * 2)(ctypes.addressof(ctypes.create_string_buffer(4096)), 4096)
refused_call("vmsplice", w, iov, 1, 8)
refused_call("vmsplice", w, iov, 1, 0)`,
	},
	{
		id: '20g', attack: 'calls that nobody needs any more, and numbers that do not exist', must: 'EPERM or ENOSYS', held: 10,
		code: `
numbers = (134, 136, 139, 153, 156, 174, 177, 178, 180, 181, 182, 183, 184, 185, 212, 236) if _x86 else (42, 58, 60, 89, 104, 105, 106, 97, 112, 161)
for nr in numbers + (461, 500, 511, 1000, 4095, 0x3fffffff):
    refused_call(nr, 0, 0, 0, 0, 0)`,
	},
	{
		id: '21d', attack: 'families past the check: pairs, flags, upper halves', must: 'refused', held: 10,
		code: `
import socket
for family in (16, 17, 38, 40, 44):
    refused(f"pair of {family}", lambda: socket.socketpair(family, socket.SOCK_RAW), errno.EPERM, errno.EOPNOTSUPP, errno.EAFNOSUPPORT, errno.EINVAL)
    for flags in (0o2000000, 0o4000, 0o2004000):
        refused(f"family {family} with {flags:o}", lambda: socket.socket(family, socket.SOCK_SEQPACKET | flags), errno.EOPNOTSUPP if family == 16 else errno.EPERM)
SOCKET = 41 if _x86 else 198
for family in (38, 40, 17):
    refused(f"upper half {family}", lambda: call(SOCKET, family | 1 << 32, 5, 0), errno.EPERM)`,
	},
	{
		id: '22c', attack: 'addresses, routes and tunnels', must: 'refused', held: 6,
		code: `
import socket, fcntl, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for req, what in ((0x8916, "SIOCSIFADDR"), (0x8922, "SIOCSIFMTU"), (0x890b, "SIOCADDRT"), (0x8955, "SIOCSARP"), (0x8923, "SIOCSIFNAME"), (0x8946, "SIOCETHTOOL"), (0x89f0, "SIOCDEVPRIVATE")):
    refused(what, lambda: fcntl.ioctl(s, req, struct.pack("16s112x", b"lo")))
refused("tun", lambda: os.open("/dev/net/tun", os.O_RDWR))
refused("SO_MARK", lambda: s.setsockopt(1, 36, 1))
refused("SO_BINDTODEVICE", lambda: s.setsockopt(1, 25, b"eth0\\0"))`,
	},
	{
		id: '24c', attack: 'line disciplines on a terminal of one’s own', must: 'EPERM for each', held: 20,
		code: `
import pty, fcntl, struct
master, slave = pty.openpty()
for n in range(1, 31):
    refused(f"discipline {n}", lambda: fcntl.ioctl(slave, 0x5423, struct.pack("i", n)), errno.EPERM)`,
	},
	{
		id: '30d', attack: 'rights in the attributes of files', must: 'refused', held: 3,
		code: `
open("f", "w").close()
cap = b"\\x01\\x00\\x00\\x02\\xff\\xff\\xff\\xff\\x00\\x00\\x00\\x00\\xff\\xff\\xff\\xff\\x00\\x00\\x00\\x00"
for name in ("security.capability", "trusted.overlay.opaque", "trusted.x"):
    refused(name, lambda: os.setxattr("f", name, cap))`,
	},
	{
		id: '33c', attack: 'share pages with others', must: 'merging is refused for the whole process too', held: 2,
		code: `
refused_call("prctl", 67, 1, 0, 0, 0)
refused("/dev/cpu_dma_latency", lambda: os.open("/dev/cpu_dma_latency", os.O_RDWR))`,
	},
];
