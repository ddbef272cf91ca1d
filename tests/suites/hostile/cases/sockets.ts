// SPDX-License-Identifier: Apache-2.0
// Row 2 of the list, for memory that belongs to the kernel's network code: what the buffers of sockets hold.
// For TCP and UDP the kernel's own count of the whole host is the judge, because a sandbox cannot be asked what nobody charges to it.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import type { Case, Outside } from '../case.ts';

const MiB = 1 << 20;
const LIMIT = 256 * MiB; // memory limit of a sandbox in this suite
const SAMPLES = 300;
const EVERY_MS = 20;

/** Bytes in the buffers of all TCP and UDP sockets of the host, IPv6 included (proc(5), net/sockstat counts pages). */
function socketBytes(): number {
	const pages = [...fs.readFileSync('/proc/net/sockstat', 'utf8').matchAll(/^(?:TCP|UDP):.* mem (\d+)$/gm)].map((m) => Number(m[1]));
	return pages.reduce((a, b) => a + b, 0) * 4096;
}

const peaks = new Map<string, number>();

/** Six seconds of samples, from before the program fills anything until after it has begun to wait. */
async function sample(o: Outside): Promise<void> {
	const before = socketBytes();
	let peak = 0;
	for (let i = 0; i < SAMPLES; i++) {
		peak = Math.max(peak, socketBytes() - before);
		await new Promise((done) => setTimeout(done, EVERY_MS));
	}
	peaks.set(o.id, peak);
}

/** Each program would take about 600 MiB if nothing held it: more than the limit, and far below what this host permits in all. */
function socketCase(id: string, attack: string, code: string): Case {
	return {
		id, attack, must: 'the host holds no more than the memory limit', without: { walls: ['sockets', 'filter', 'memory', 'nofile'] }, ends: 'any', held: 0, during: sample,
		code: `
import socket
keep, block = [], b"x" * 60000
def fill(s, bytes):
    s.setblocking(False)
    while bytes > 0:
        try:
            bytes -= s.send(block)
        except OSError:
            break
${code}
time.sleep(4)`,
		after: (_r, o) => assert.ok(peaks.get(o.id)! < LIMIT, `the host held ${Math.round(peaks.get(o.id)! / MiB)} MiB in buffers of sockets`),
	};
}

const udp = (family: string, address: string) => `
for i in range(150):
    r = socket.socket(socket.${family}, socket.SOCK_DGRAM)
    r.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
    r.bind(("${address}", 0))
    s = socket.socket(socket.${family}, socket.SOCK_DGRAM)
    s.connect(r.getsockname())
    keep += [r, s]
    fill(s, 4 << 20)`;

/** Pairs of UNIX sockets that hold what nobody reads: BYTES in all, or as much as fits into PAIRS. */
const pairs = `
import socket
def fill(bytes, pairs=1 << 30):
    keep, total = [], 0
    while total < bytes and len(keep) < pairs:
        a, b = socket.socketpair(); a.setblocking(False); keep.append((a, b))
        try:
            while True:
                total += a.send(b"x" * 65536)
        except BlockingIOError:
            pass
    return keep, total`;

export const socketCases: Case[] = [
	{
		id: '2d', without: { walls: ['memory', 'nofile'] }, attack: 'socket buffers', must: 'charged to the sandbox or bounded', ends: 'any', held: 0,
		code: `${pairs}
try:
    keep, total = fill(1 << 30)
    say(False, "buffers", total)
except OSError as e:
    say(True, "buffers", e)`,
		after: (r) => assert.doesNotMatch(r.stdout, /BROKEN/),
	},
	{
		id: '2r', without: { walls: ['memory', 'sockets'] }, attack: 'socket buffers of many processes, each below its own limits', must: 'charged to the sandbox', ends: 'any', held: 0,
		code: `${pairs}
told, tell = os.pipe()
total = 0
for i in range(20):
    if os.fork() == 0:
        keep, n = fill(80 << 20, 480)
        os.write(tell, n.to_bytes(8, "little"))
        time.sleep(60)
    total += int.from_bytes(os.read(told, 8), "little")
time.sleep(0.5)
say(total < 512 << 20, "buffers", total)
os.killpg(0, signal.SIGKILL)`,
		after: (r) => assert.doesNotMatch(r.stdout, /BROKEN/),
	},
	socketCase('2l', 'datagrams that nobody reads, IPv4', udp('AF_INET', '127.0.0.1')),
	socketCase('2m', 'datagrams that nobody reads, IPv6', udp('AF_INET6', '::1')),
	socketCase('2n', 'TCP connections that nobody reads', `
l = socket.create_server(("127.0.0.1", 0))
for i in range(150):
    c = socket.create_connection(l.getsockname())
    keep += [c, l.accept()[0]]
    fill(c, 4 << 20)`),
	socketCase('2o', 'TCP connections that nobody accepts, with the largest buffers', `
l = socket.socket()
l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
l.bind(("127.0.0.1", 0))
l.listen(4096)
for i in range(120):
    c = socket.create_connection(l.getsockname(), 1)
    keep.append(c)
    fill(c, 5 << 20)`),
	socketCase('2p', 'TCP connections that nobody accepts, by thousands, over IPv6', `
for worker in range(8):
    if os.fork() == 0:
        for i in range(2):
            l = socket.create_server(("::1", 0), family=socket.AF_INET6, backlog=4096)
            keep.append(l)
            for j in range(128):
                try:
                    c = socket.create_connection(l.getsockname()[:2], 1)
                    fill(c, 256 << 10)
                    c.close()
                except OSError:
                    break
        time.sleep(4)
        os._exit(0)`),
];
