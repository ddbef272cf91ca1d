// SPDX-License-Identifier: Apache-2.0
// Rows 8-10, 12: artifacts that are traps, and what was left open.

import assert from 'node:assert/strict';
import { WORKED, type Case, type Outside } from '../case.ts';

async function unreadable(o: Outside, name: string): Promise<void> {
	const started = performance.now();
	const r = await o.session.call('sandbox_read_artifact', { session_id: o.id, path: `/mnt/data/${name}` });
	assert.ok(typeof r.error === 'string', `${WORKED}: ${name} was read: ${JSON.stringify(r).slice(0, 200)}`);
	assert.ok(performance.now() - started < 3000, `${name} blocked the server`);
}

export const fileCases: Case[] = [
	{
		id: '8a', without: { walls: ['beneath'] }, attack: 'symbolic links out of the workspace', must: 'never followed, never listed', held: 0,
		code: `
os.symlink("/etc/passwd", "passwd.txt")
os.symlink("@CANARY@", "canary.txt")
os.symlink("/proc/self/environ", "env.txt")
os.symlink(".", "loop.txt")
os.mkdir("sub"); os.symlink("/etc", "sub/etc")`,
		after: async (r, o) => {
			assert.deepEqual(r.artifacts, []);
			assert.deepEqual(await o.session.list(o.id), []);
			for (const n of ['passwd.txt', 'canary.txt', 'env.txt', 'loop.txt', 'sub/etc/passwd'])
				await unreadable(o, n);
		},
	},
	{
		id: '8b', without: { walls: ['nonblock'] }, attack: 'FIFO, socket and folder as artifacts', must: 'never listed, never block', held: 0,
		code: `
import socket
os.mkfifo("pipe.csv")
s = socket.socket(socket.AF_UNIX); s.bind("sock.csv")
os.mkdir("dir.csv")`,
		after: async (_r, o) => {
			assert.deepEqual(await o.session.list(o.id), []);
			for (const n of ['pipe.csv', 'sock.csv', 'dir.csv'])
				await unreadable(o, n);
		},
	},
	{
		id: '8c', attack: 'hard links to files of the image', must: 'another file system: EXDEV or EPERM',
		held: 2,
		code: `
refused("link", lambda: os.link("/etc/passwd", "p"))
refused("link", lambda: os.link("/proc/self/status", "q"))`,
	},
	{
		id: '8d', planted: { what: 'nobody may read it', by: async (_r, o) => void (await o.session.ok('import os; os.chmod("mine.txt", 0)', o.id)) }, attack: 'files that only the owner may read', must: 'readable as artifacts all the same', held: 0,
		code: `
open("mine.txt", "w").write("mine")
os.chmod("mine.txt", 0o400)
open("none.txt", "w").write("none"); os.chmod("none.txt", 0)`,
		after: async (_r, o) => {
			assert.equal((await o.session.read(o.id, '/mnt/data/mine.txt')).toString(), 'mine');
		},
	},
	{
		id: '9a', without: { walls: ['beneath'] }, attack: 'swap a file for a link while it is read', must: 'the good content or an error, never the target', held: 0, ends: 'any',
		code: `
open("good", "w").write("good")
end = time.time() + 2.5
while time.time() < end:
    try:
        os.symlink("/etc/passwd", "t"); os.rename("t", "swap.txt")
        open("t", "w").write("good"); os.rename("t", "swap.txt")
    except OSError:
        pass`,
		during: async (o) => {
			const end = performance.now() + 2000;
			while (performance.now() < end) {
				const r = await o.session.call('sandbox_read_artifact', { session_id: o.id, path: '/mnt/data/swap.txt' });
				if (r.content_base64 !== undefined)
					assert.ok(['good', ''].includes(Buffer.from(r.content_base64, 'base64').toString()), `${WORKED}: the target was read`);
			}
		},
	},
	{
		id: '9b', without: { walls: ['beneath'] }, attack: 'swap a folder of the path for a link', must: 'the good content or an error', held: 0, ends: 'any',
		code: `
os.mkdir("a"); os.mkdir("b"); open("a/passwd", "w").write("good")
end = time.time() + 2.5
while time.time() < end:
    try:
        os.rename("a", "c"); os.symlink("/etc", "a"); os.unlink("a"); os.rename("c", "a")
    except OSError:
        pass`,
		during: async (o) => {
			const end = performance.now() + 2000;
			while (performance.now() < end) {
				const r = await o.session.call('sandbox_read_artifact', { session_id: o.id, path: '/mnt/data/a/passwd' });
				if (r.content_base64 !== undefined)
					assert.ok(['good', ''].includes(Buffer.from(r.content_base64, 'base64').toString()), `${WORKED}: the target was read`);
			}
		},
	},
	{
		id: '10a', without: { walls: ['escape'] }, attack: 'names with newlines, quotes, markup, dashes, bytes that are no text', must: 'kept, and escaped in links', held: 0,
		code: `
for name in (b"a\\nb.txt", b"-rf", b"<script>.txt", b"..hidden", b"caf\\xe9.txt", b"x" * 255, "\\u202etxt.exe".encode(), b"con.txt", b"a%2fb", b"q?x#y"):
    open(name, "wb").write(b"1")`,
		after: async (_r, o) => {
			for (const f of await o.session.list(o.id)) {
				assert.ok(String(f.path).isWellFormed());
				if (f.download_url !== null)
					assert.match(f.download_url, /^http:\/\/[\x21-\x7e]+$/);
			}
		},
	},
	{
		id: '10b', without: { walls: ['path', 'beneath'] }, attack: 'leave the workspace by the path of a tool', must: 'refused', held: 0,
		code: `open("ok.txt", "w").write("ok")`,
		after: async (_r, o) => {
			for (const p of ['/etc/passwd', '/mnt/data/../../etc/passwd', '/mnt/data//..//x', '/mnt/data/./ok.txt/..', '/proc/self/environ', '/mnt/data/\0', '/mnt/database/x']) {
				const r = await o.session.raw('sandbox_read_artifact', { session_id: o.id, path: p });
				assert.ok(r.isError || typeof r.structuredContent?.result?.error === 'string', p);
			}
		},
	},
	{
		id: '12a', without: { walls: ['descriptors'] }, attack: 'use descriptors that were left open', must: 'stdio only',
		held: 2,
		code: `
import stat
fds = [f for f in os.listdir("/proc/self/fd")]
odd = []
for f in fds:
    try:
        t = os.readlink("/proc/self/fd/" + f)
    except OSError:
        continue
    if int(f) > 2 and not t.startswith(("/proc/", "/usr/lib/")):  # libffi keeps its own file open
        odd.append((f, t))
holds("nothing but stdio", not odd, odd)
bad = [t for t in (os.readlink(f"/proc/self/fd/{i}") for i in range(3)) if not t.startswith(("pipe:", "/dev/null", "socket:", "/dev/pts"))]
holds("stdio is pipes", not bad, bad)`,
	},
	{
		id: '12b', attack: 'read the environment and working folder of the server', must: 'a clean environment',
		held: 3,
		code: `
holds("no variable of the server", not [k for k in os.environ if k.startswith(("SANDBOX_", "CAISSON", "XDG_", "SSH", "AWS"))], list(os.environ))
holds("no secret", "hostile-canary" not in str(os.environ))
holds("working folder", os.getcwd() in ("/mnt/data", "/app/results"), os.getcwd())`,
	},
	{
		id: '8e', without: { walls: ['nonblock'] }, attack: 'a file that turns into a FIFO between look and read', must: 'never blocks the server', held: 0, ends: 'any',
		code: `
end = time.time() + 1.5
while time.time() < end:
    try:
        open("t", "w").write("good"); os.rename("t", "turn.csv")
        os.mkfifo("t"); os.rename("t", "turn.csv")
    except OSError:
        pass`,
		during: async (o) => {
			const end = performance.now() + 1200;
			while (performance.now() < end) {
				const t = performance.now();
				const r = await o.session.call('sandbox_read_artifact', { session_id: o.id, path: '/mnt/data/turn.csv' });
				assert.ok(r.content_base64 === undefined || ['good', ''].includes(Buffer.from(r.content_base64, 'base64').toString()));
				assert.ok(performance.now() - t < 3000, 'the read blocked');
			}
		},
	},
	{
		id: '9c', without: { walls: ['aside', 'beneath'] }, attack: 'swap the target of an upload for a link', must: 'the link is replaced or refused, never followed', held: 0, ends: 'any',
		code: `
end = time.time() + 1.5
while time.time() < end:
    try:
        os.symlink("@CANARY@", "t"); os.rename("t", "in.csv")
        os.symlink("/tmp/reached", "t"); os.rename("t", "in.csv")
    except OSError:
        pass
holds("nothing went through", not os.path.exists("/tmp/reached"))`,
		during: async (o) => {
			const end = performance.now() + 1200;
			while (performance.now() < end) {
				const r = await o.session.upload('in.csv', 'through', o.id, true);
				assert.ok(r.error === undefined || typeof r.message === 'string');
			}
		},
		after: (r) => assert.doesNotMatch(r.stdout, /BROKEN/),
	},
	{
		id: '10c', planted: { what: 'one of the names is lost', by: async (_r, o) => void (await o.session.ok('import os; os.unlink("--help")', o.id)) }, attack: 'names of every length, of devices, and that look like options', must: 'each can be read back by its path', held: 0,
		code: `
for name in ("-rf", "--help", "con", "aux.txt", "nul", "a" * 255, "\u00e9" * 127, " lead", "trail ", "a;b|c&d", "$(id)", "%00", "tab\tname", "~", "*"):
    open(name, "w").write(name)`,
		after: async (_r, o) => {
			const names = (await o.session.list(o.id)).map((f) => f.filename as string);
			assert.equal(names.length, 15);
			for (const n of names)
				assert.equal((await o.session.read(o.id, `/mnt/data/${n}`)).toString(), n);
		},
	},
	{
		id: '12c', without: { walls: ['descriptors'] }, attack: 'every number that a descriptor can have', must: 'closed, but for stdio', held: 1,
		code: `
import stat
own = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY)
known = {own}
open_ones = []
for fd in range(3, 4096):
    try:
        st = os.fstat(fd)
    except OSError:
        continue
    if fd not in known and not stat.S_ISREG(st.st_mode):
        open_ones.append((fd, os.readlink(f"/proc/self/fd/{fd}")))
holds("no pipe, socket, folder or device", not open_ones, open_ones)`,
	},
];
