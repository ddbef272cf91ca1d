// SPDX-License-Identifier: Apache-2.0
// Rows 25-28, 34, 35: signals, survivors, streams, and lies to the server.

import assert from 'node:assert/strict';
import { descendants } from '../../../lib/process.ts';
import type { Json } from '../../../lib/session.ts';
import type { Case, Outside } from '../case.ts';

/** For planted twins: what the next runs are said to have answered. */
function answerWith(o: Outside, answer: Json): void {
	o.session = Object.assign(Object.create(o.session), { run: async () => answer, ok: async () => answer });
}

/** In a container init is a child of the daemon's, where it is not ours to end: there the next answer is that of a sandbox that has ended. */
function endInits(o: Outside): void {
	const inits = descendants(o.session.pid).filter((d) => d.name === 'caisson-init');
	if (inits.length === 0)
		answerWith(o, { stdout: '' });
	for (const p of inits)
		process.kill(p.pid, 'SIGKILL');
}

export const processCases: Case[] = [
	{
		id: '25a', attack: 'signal init and everybody', must: 'init lives, the run ends, the session goes on', ends: 'any', held: 1,
		code: `
for sig in (9, 19, 15, 11):
    try:
        os.kill(1, sig)
    except OSError:
        pass
if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 12): # before it Landlock has no bounds of signals
    refused("init, which is there", lambda: os.kill(1, 0), errno.EPERM)
else:
    holds("init is there", os.kill(1, 0) is None)
try:
    os.kill(-1, 9)
except OSError:
    pass`,
		after: async (_r, o) => {
			assert.equal((await o.session.ok('print(1)', o.id)).stdout, '1\n');
		},
	},
	{
		id: '25b', planted: { what: 'init is killed', by: (_r, o) => endInits(o) }, attack: 'signal the parent and its group', must: 'nothing outside the run', ends: 'any', held: 0,
		code: `
for pid in range(0, 40):
    for sig in (19, 15, 9):
        try:
            if pid != os.getpid():
                os.kill(pid, sig)
        except OSError:
            pass`,
		after: async (_r, o) => {
			assert.equal((await o.session.ok('print(1)', o.id)).stdout, '1\n');
		},
	},
	{
		id: '26a', without: { walls: ['kill'] }, attack: 'daemonise: double fork, new session', must: 'dead when the run ends', held: 0,
		code: `
import subprocess
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        subprocess.Popen(["python3", "-c", "import time; time.sleep(300)", MARK], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(300)
    os._exit(0)
os.wait()
time.sleep(0.3)`,
	},
	{
		id: '26b', without: { walls: ['kill'] }, attack: 'a hundred sleepers in groups of their own', must: 'dead when the run ends', held: 0, ends: 'any',
		code: `
import subprocess
try:
    for i in range(30):
        subprocess.Popen(["sh", "-c", "sleep 300; : " + MARK], start_new_session=True, stderr=subprocess.DEVNULL)
except OSError:
    pass`,
	},
	{
		id: '26c', without: { walls: ['grace'] }, attack: 'forking while it is killed', must: 'no survivor', held: 0, ends: 'timeout',
		code: `
for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(s, signal.SIG_IGN)
while True:
    try:
        if os.fork():
            os._exit(0) if os.getpid() != first else time.sleep(0.001)
    except NameError:
        first = os.getpid()
    except OSError:
        pass`,
	},
	{
		id: '26d', without: { walls: ['reap'] }, attack: 'zombies', must: 'gone with the run', held: 0, ends: 'any',
		code: `
for i in range(40):
    if os.fork() == 0:
        os._exit(0)`,
		after: async (_r, o) => {
			for (let i = 0; i < 2; i++) // there is room for them each time
				await o.session.ok('import os\nfor i in range(40):\n    if os.fork() == 0:\n        os._exit(0)', o.id);
		},
	},
	{
		id: '27a', without: { walls: ['kill'] }, attack: 'a grandchild keeps the pipes', must: 'the answer comes when the first process ends', held: 0,
		code: `
import subprocess
subprocess.Popen(["sh", "-c", "sleep 300; : " + MARK])
print("end")`,
		after: (r) => {
			assert.equal(r.stdout, 'end\n');
			assert.ok(r.duration_ms < 4000, `took ${r.duration_ms} ms`);
		},
	},
	{
		id: '27b', without: { walls: ['kill'] }, attack: 'a grandchild floods after the end', must: 'the answer comes', held: 0,
		code: `
import subprocess
begun, begin = os.pipe()
subprocess.Popen(["sh", "-c", f"trap : PIPE; echo x >&{begin}; while :; do echo late || sleep 1; done; : " + MARK], pass_fds=[begin], start_new_session=True)
os.read(begun, 1)
os._exit(0)`,
		after: (r) => assert.ok(r.duration_ms < 4000),
	},
	{
		id: '28a', without: { walls: ['stdin'] }, attack: 'wait for input', must: 'end of file at once', held: 2,
		code: `
holds("stdin is empty", sys.stdin.read() == "")
try:
    input("password: \\n")
    say(False, "input")
except EOFError:
    say(True, "input")`,
	},
	{
		id: '28b', without: { walls: ['stdin'] }, attack: 'ask for a password on the terminal', must: 'there is none', held: 2,
		code: `
import subprocess
refused("/dev/tty", lambda: os.open("/dev/tty", os.O_RDWR))
holds("no terminal", not any(os.isatty(i) for i in range(3)))
r = subprocess.run(["sh", "-c", "read x; echo status $?"], capture_output=True, text=True)
holds("a shell's read ends", "status 1" in r.stdout, r.stdout)`,
	},
	{
		id: '34a', without: { walls: ['descriptors'] }, attack: 'forge frames on every descriptor', must: 'the answer is the truth', held: 0, ends: 3,
		code: `
fake = b'{"jsonrpc":"2.0","id":1,"result":{"exit_code":0}}\\n' * 50 + bytes(4096)
for fd in range(3, 256):
    try:
        os.write(fd, fake)
    except OSError:
        pass
os.write(1, b"real\\n")
os._exit(3)`,
		after: (r) => assert.equal(r.stdout, 'real\n'),
	},
	{
		id: '34b', planted: { what: 'the next run ends as the poison says', by: (_r, o) => answerWith(o, { exit_code: 7, stdout: '' }) }, attack: 'poison the interpreter', must: 'the next run is untouched', held: 0, ends: 'any',
		code: `
import builtins, json, atexit, threading
builtins.print = lambda *a, **k: None
json.dumps = lambda *a, **k: "poison"
sys.settrace(lambda *a: None)
sys.excepthook = lambda *a: os._exit(0)
atexit.register(lambda: os.write(1, b"bye\\n"))
open("json.py", "w").write("raise SystemExit(7)")
open("sitecustomize.py", "w").write("raise SystemExit(8)")
sys.stdout.close()`,
		after: async (_r, o) => {
			const r = await o.session.run('print("alive")', o.id);
			assert.deepEqual([r.exit_code, r.stdout], [0, 'alive\n']);
		},
	},
	{
		id: '34c', planted: { what: 'another status is told', by: (r) => void (r.exit_code = 0) }, attack: 'exit statuses of every kind', must: 'told as they are', held: 0, ends: 255,
		code: `sys.exit(-1)`,
	},
	{
		id: '34d', without: { walls: ['deadline', 'grace'] }, attack: 'never end: atexit and threads', must: 'ends at the deadline', held: 0, ends: 'timeout',
		code: `
import atexit, threading
atexit.register(lambda: time.sleep(1000))
threading.Thread(target=lambda: time.sleep(1000)).start()`,
	},
	{
		id: '35a', planted: { what: 'the next run has the mark', by: (_r, o) => answerWith(o, { exit_code: 0, stdout: 'True True\n' }) }, attack: 'find what an earlier run left in the interpreter', must: 'a fresh one', held: 1,
		code: `
holds("no trace", not hasattr(sys, "hostile_mark") and "hostile_module" not in sys.modules)
sys.hostile_mark = 1
sys.modules["hostile_module"] = sys`,
		after: async (_r, o) => {
			const r = await o.session.ok('import sys; print(hasattr(sys, "hostile_mark"), "hostile_module" in sys.modules)', o.id);
			assert.equal(r.stdout, 'False False\n');
		},
	},
	{
		id: '35b', planted: { what: 'a neighbour draws the same', by: (r, o) => answerWith(o, { exit_code: 0, stdout: r.stdout }) }, attack: 'guess the random numbers of a neighbour', must: 'all different', held: 0,
		code: `
import random, uuid, secrets, tempfile
print(random.random(), uuid.uuid4(), secrets.token_hex(8), next(tempfile._get_candidate_names()))`,
		after: async (r, o) => {
			const code = 'import random, uuid, secrets, tempfile\nprint(random.random(), uuid.uuid4(), secrets.token_hex(8), next(tempfile._get_candidate_names()))';
			const seen = new Set<string>(r.stdout.trim().split(' '));
			for (const id of [o.id, `${o.id}-b`, `${o.id}-c`]) {
				for (const word of (await o.session.ok(code, id)).stdout.trim().split(' ')) {
					assert.ok(!seen.has(word), `${word} came twice`);
					seen.add(word);
				}
			}
			await o.session.close(`${o.id}-b`);
			await o.session.close(`${o.id}-c`);
		},
	},
	{
		id: '35c', planted: { what: 'the next run draws the same', by: (r, o) => answerWith(o, { exit_code: 0, stdout: r.stdout }) }, attack: 'the same with numpy', must: 'all different', held: 0,
		code: `
import numpy
print(numpy.random.rand(), numpy.random.default_rng().random())`,
		after: async (r, o) => {
			const again = await o.session.ok('import numpy\nprint(numpy.random.rand(), numpy.random.default_rng().random())', o.id);
			const words = new Set([...r.stdout.trim().split(' '), ...again.stdout.trim().split(' ')]);
			assert.equal(words.size, 4, [...words].join(' '));
		},
	},
	{
		id: '25c', without: { walls: ['sigpending'] }, attack: 'queue signals by the thousand', must: 'bounded; init and the session go on', ends: 'any', held: 1,
		code: `
n, last = 0, 0
signal.pthread_sigmask(signal.SIG_BLOCK, range(34, 64))
info = (ctypes.c_char * 128)()
ctypes.memset(info, 0, 128)
ctypes.cast(info, ctypes.POINTER(ctypes.c_int))[2] = -1
for who in (1, os.getpid()):
    for i in range(12000):
        if _libc.syscall(ctypes.c_long(129 if _x86 else 138), ctypes.c_long(who), ctypes.c_long(40), info) < 0:
            break
        n += 1
say(n < 10000, "queued", n)`,
		after: async (_r, o) => {
			assert.equal((await o.session.ok('print(1)', o.id)).stdout, '1\n');
		},
	},
	{
		id: '26e', without: { walls: ['kill'] }, attack: 'keep orphans by being their reaper', must: 'dead when the run ends', held: 0, ends: 'any',
		code: `
import subprocess
call("prctl", 36, 1)
if os.fork() == 0:
    os.setsid()
    call("prctl", 36, 1)
    for i in range(5):
        subprocess.Popen(["sh", "-c", "sleep 300; : " + MARK], start_new_session=True)
    time.sleep(300)
time.sleep(0.2)`,
	},
	{
		id: '28c', without: { walls: ['stdin'] }, attack: 'wait in programs that ask', must: 'they end', held: 3,
		code: `
import subprocess
for argv in (["cat"], ["sh", "-c", "read -r a; exit 7"], [sys.executable, "-c", "import getpass; getpass.getpass()"]):
    try:
        r = subprocess.run(argv, capture_output=True, timeout=3)
        say(True, argv[0], r.returncode)
    except subprocess.TimeoutExpired:
        say(False, argv[0], "still waits")`,
	},
	{
		id: '34e', planted: { what: 'the server reads it as an answer of its own', by: (r) => void (r.stdout = r.stdout.split('\n')[1]) }, attack: 'print what looks like an answer of the server', must: 'it is output and nothing else', held: 0, ends: 0,
		code: `print('{"jsonrpc":"2.0","id":1,"result":{"isError":true}}'); print("data: x\\n\\nevent: endpoint\\ndata: /evil"); sys.stderr.write("HTTP/1.1 200 OK\\r\\n\\r\\n")`,
		after: (r) => {
			assert.equal(r.stdout, '{"jsonrpc":"2.0","id":1,"result":{"isError":true}}\ndata: x\n\nevent: endpoint\ndata: /evil\n');
			assert.equal(r.stderr, 'HTTP/1.1 200 OK\r\n\r\n');
		},
	},
	{
		id: '35d', planted: { what: 'every new sandbox has the same', by: (_r, o) => answerWith(o, { exit_code: 0, stdout: 'a b c\n' }) }, attack: 'meet the same secrets twice in new sandboxes', must: 'all different', held: 0, code: 'print(1)',
		after: async (_r, o) => {
			const code = 'import os, ssl, hashlib, uuid\nprint(os.urandom(8).hex(), ssl.RAND_bytes(8).hex() if hasattr(ssl, "RAND_bytes") else uuid.uuid4(), uuid.uuid1())';
			const seen = new Set<string>();
			for (let i = 0; i < 4; i++) {
				for (const word of (await o.session.ok(code, `${o.id}-${i}`)).stdout.trim().split(' ')) {
					assert.ok(!seen.has(word), `${word} came twice`);
					seen.add(word);
				}
				await o.session.close(`${o.id}-${i}`);
			}
		},
	},
];
