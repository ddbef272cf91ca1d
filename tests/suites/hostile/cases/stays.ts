// SPDX-License-Identifier: Apache-2.0
// Rows 50, 51, 53: what stays beside runs (background processes, terminals, contexts, parallel runs), and what is left when it has ended.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { Json } from '../../../lib/session.ts';
import { until } from '../../../lib/wait.ts';
import { WORKED, type Case, type Outside } from '../case.ts';
import { grown, live, said, type Served } from '../served.ts';

/** For planted twins: a process of the host that has the mark, so that it looks like one that was left. */
export const survivor = {
	what: 'a process is left', by: async (_r: Json, o: Outside): Promise<void> => {
		spawn('python3', ['-c', 'import time; time.sleep(1000)', o.mark], { stdio: 'ignore' });
		await until('it', () => o.survivors().length > 0);
	},
};

/** Kinds of processes that the zoo has, and the zoo. */
const ANIMALS = 8;

async function inhabited(s: Served): Promise<string> {
	const id = await s.make();
	await s.upload(id, 'zoo.py');
	return id;
}

async function nobody(o: Outside): Promise<void> {
	await until('the end of all', () => o.survivors().length === 0, 3000).catch(() => assert.fail(`${o.survivors().length} processes are left`));
}

const full = (o: Outside): void => assert.ok(o.survivors().length >= ANIMALS, `${o.survivors().length} processes`);

/** Asks init for a signal, without the library that programs have for it: 0, an errno, or None if there is no answer. */
const ASKS = `import array, os, socket, struct, sys, time
AT = "/run/caisson/init"
def asked(pid, signo, kind=1):
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.settimeout(5)
    s.sendmsg([struct.pack("Iii", kind, pid, signo)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [there.fileno()]))], 0, AT)
    there.close()
    here.settimeout(5)
    got = here.recv(4)
    return struct.unpack("i", got)[0] if got else None
def listed():
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.sendmsg([struct.pack("Iii", 2, 0, 0)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [there.fileno()]))], 0, AT)
    here.settimeout(5)
    data = open(array.array("i", here.recvmsg(4, 64)[1][0][2])[0], "rb").read()
    at = 0
    while at < len(data):
        pid, *sizes = struct.unpack_from("4I", data, at)
        at += 16 + sum(sizes)
        yield pid
`;

export const stayingCases: Case[] = [
	{
		id: '50a', without: { walls: ['tree'] }, attack: 'a background process leaves daemons, stopped ones, and those that take no signal', must: 'all end with it', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await inhabited(s), at = await s.process(id, { command: `exec python3 zoo.py ${o.mark} stay` });
			await s.says(at, 'full');
			full(o);
			assert.equal((await s.run(id, { command: 'true' })).exit_code, 0); // which leaves them alone
			full(o);
			assert.equal((await s.ask('DELETE', at)).status, 204);
			await nobody(o);
			assert.equal((await s.run(id, { command: 'echo alone' })).stdout, 'alone\n'); // it was not the sandbox that ended
		}),
	},
	{
		id: '50b', without: { walls: ['tree'] }, attack: 'the same, and the first process ends by itself', must: 'all end with it', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const at = await s.process(await inhabited(s), { command: `exec python3 zoo.py ${o.mark}` });
			await until('its end', async () => (await s.look(at)).state === 'ended');
			await nobody(o);
		}),
	},
	{
		id: '50c', without: { walls: ['tree'] }, attack: 'the same from a terminal, of which some are in other sessions', must: 'all end with the terminal', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await inhabited(s), at = await s.terminal(id, { command: `exec python3 zoo.py ${o.mark} stay` });
			const c = await s.attach(at);
			await c.shows('full');
			full(o);
			assert.equal((await s.ask('DELETE', at)).status, 204);
			await nobody(o);
			assert.equal((await s.run(id, { command: 'echo alone' })).stdout, 'alone\n'); // it was not the sandbox that ended
		}),
	},
	{
		id: '50d', without: { walls: ['tree'] }, attack: 'the same from a parallel run', must: 'all end with the run, and the run beside it goes on', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await inhabited(s);
			const other = (await s.run(id, { command: 'until [ -e go ]; do sleep .02; done; echo went', wait: false })).id as string;
			assert.equal((await s.run(id, { command: `python3 zoo.py ${o.mark}`, parallel: true })).stdout, 'full\n');
			await nobody(o);
			await s.run(id, { command: 'touch go', parallel: true });
			assert.equal((await s.ended(other)).stdout, 'went\n');
		}),
	},
	{
		id: '50e', without: { walls: ['tree', 'marks'] }, attack: 'the same from a context that is not the current one', must: 'all end with the context', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await inhabited(s);
			const zoo = `import subprocess\np = subprocess.Popen(["python3", "zoo.py", ${JSON.stringify(o.mark)}, "stay"], stdout=subprocess.PIPE, text=True)\nprint(p.stdout.readline())`;
			assert.equal((await s.run(id, { code: zoo, context: 'zoo' })).stdout, 'full\n\n');
			assert.equal((await s.run(id, { code: 'x = 1', context: 'other' })).state, 'kept');
			full(o);
			assert.equal((await s.ask('DELETE', `/sandboxes/${id}/contexts/zoo`)).status, 204);
			await nobody(o);
			assert.equal((await s.run(id, { code: 'x', context: 'other' })).value, '1');
		}),
	},
	{
		id: '50f', planted: survivor, attack: 'the same of all kinds at once', must: 'all end with the sandbox', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await inhabited(s);
			const at = await s.process(id, { command: `exec python3 zoo.py ${o.mark} stay` });
			const terminal = await s.attach(await s.terminal(id, { command: `exec python3 zoo.py ${o.mark} stay` }));
			await Promise.all([s.says(at, 'full'), terminal.shows('full'),
				s.run(id, { code: `import subprocess\np = subprocess.Popen(["python3", "zoo.py", ${JSON.stringify(o.mark)}, "stay"], stdout=subprocess.PIPE, text=True)\nprint(p.stdout.readline())`, context: 'zoo' })]);
			assert.ok(o.survivors().length >= 3 * ANIMALS);
			assert.equal((await s.ask('DELETE', `/sandboxes/${id}?force=true`)).status, 204);
			await nobody(o);
		}),
	},
	{
		id: '50g', planted: survivor, attack: 'a background process kills the process of ours above it', must: 'it has ended; what it left is gone after the next run at the latest', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await inhabited(s);
			const at = await s.process(id, { command: `python3 zoo.py ${o.mark} stay & sleep .5; until [ -e /tmp/zoo-$!-vfork ]; do sleep .02; done; kill -9 $PPID || kill -9 0` });
			await until('its end', async () => (await s.look(at)).state === 'ended');
			await s.run(id, { command: 'true' });
			await nobody(o);
		}),
	},
	{
		id: '50i', without: { walls: ['asked'] }, attack: 'a run asks init, by hand, to signal every process that is not its own', must: 'only submitted code gets it: not init, its helpers, interpreters that wait or have variables', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			await s.run(id, { code: 'x = "kept"', stateful: true });
			const at = await s.process(id, { command: 'echo $$ >PID; echo there; exec sleep 1000' });
			await s.says(at, 'there');
			const r = await s.run(id, { code: `${ASKS}
victim = int(open("PID").read())
print("victim", asked(victim, 0))
for pid in (*range(-80, 0), *range(1, 80)):
    if abs(pid) not in (victim, os.getpid(), os.getppid()):
        for signo in (0, 18, 999, -1):
            if asked(pid, signo) in (0, None): print("BROKEN", pid, signo)
for pid in listed():
    if pid not in (victim, os.getpid(), os.getppid()): print("BROKEN list", pid)
for pid in (-2**31, -1, 0, 2**31 - 1): print("edge", asked(pid, 9))` });
			assert.match(r.stdout, /^victim 0\n/, r.stderr);
			assert.equal(r.stdout.match(/^edge (1|3)$/gm)?.length, 4, r.stdout);
			const broken = r.stdout.match(/^BROKEN .*$/gm) ?? [];
			assert.ok(broken.length === 0, `${WORKED}: ${broken.join(', ')}`);
			assert.equal((await s.run(id, { code: 'print(x)', stateful: true })).stdout, 'kept\n');
		}),
	},
	{
		id: '50j', planted: said('a signal was not sent', (t) => t.replace('"stdout":"sent 0\\n"', '"stdout":"sent 1\\n"')), attack: 'runs flood init with halves, too much, descriptors, sockets that linger and that nobody reads', must: 'the next request is answered in seconds, and the sandbox goes on', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			const at = await s.process(id, { command: 'echo $$ >PID; echo there; exec sleep 1000' });
			await s.says(at, 'there');
			const flood = await s.run(id, { timeout_s: 50, code: `${ASKS}
import array
def lingering():
    l = socket.create_server(("127.0.0.1", 0))
    c = socket.create_connection(l.getsockname()); c.setblocking(False)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    try:
        while True: c.send(bytes(65536))
    except OSError: pass
    return c, l
kept = [lingering() for n in range(8)]
for child in range(8):
    if os.fork() == 0:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.setblocking(False)
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for n in range(50)]
        until = time.time() + 3
        n = 0
        while time.time() < until:
            n += 1
            data = os.urandom(n % 40) if n % 3 else struct.pack("Iii", n % 4, 1, 9)
            fds = [p.fileno() for p, q in pairs][:n % 51] if n % 2 else [kept[n % 8][0].fileno()]
            try: s.sendmsg([data if n % 101 else bytes(60000)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))], 0, AT)
            except OSError: time.sleep(0.001)
        os._exit(0)
for child in range(8): os.wait()
# Where init's side has the last reference: of too many descriptors the last, and in the queue of a socket.
for child in range(4):
    if os.fork() == 0:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        c, l = lingering()
        here, there = socket.socketpair()
        right = lambda fds: [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        if child % 2:
            fds = [here.fileno()] * (6 + child) + [c.fileno()]
        else:
            here.sendmsg([b"x"], right([c.fileno()]))
            fds = [there.fileno()]
        s.sendmsg([struct.pack("Iii", 1, 1, 0)], right(fds), 0, AT)
        os._exit(0)
time.sleep(0.2)
for n in range(4): # two seconds are lost for each
    try: got = asked(int(open("PID").read()), 0)
    except OSError: got = None
    if got is not None: break
print("sent", got, flush=True)
os._exit(0) # which waits for no socket` });
			assert.equal(flood.stdout, 'sent 0\n', flood.stderr);
			assert.equal((await s.run(id, { command: 'kill $(cat PID); echo "sent $?"' })).stdout, 'sent 0\n');
			await until('its end', async () => (await s.look(at)).state === 'ended');
		}),
	},
	{
		id: '50h', without: { walls: ['marks'] }, attack: 'a process of one context makes a daemon while a run of another is on', must: 'it ends with its own context', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			for (const current of [false, true]) {
				const id = await s.make();
				const later = `import os, sys, time
while not os.path.exists("go"): time.sleep(0.01)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("made", "w").close()
        time.sleep(1000)
    os._exit(0)
os.wait()
time.sleep(1000)`;
				await s.run(id, { code: `import subprocess\np = subprocess.Popen(["python3", "-c", ${JSON.stringify(later)}, ${JSON.stringify(o.mark)}])`, context: 'one' });
				await s.run(id, { code: 'import os, time\nopen("go", "w").close()\nwhile not os.path.exists("made"): time.sleep(0.01)', context: 'other' });
				assert.equal(o.survivors().length, 2);
				if (current)
					await s.run(id, { code: '1', context: 'one' });
				assert.equal((await s.ask('DELETE', `/sandboxes/${id}/contexts/one`)).status, 204);
				await nobody(o);
				assert.equal((await s.run(id, { code: 'os.path.exists("made")', context: 'other' })).value, 'True');
			}
		}),
	},
	{
		id: '51a', planted: said('one attempt is said to have worked', (t) => t.replace('HELD mem', 'BROKEN mem')), attack: 'a context reads the memory, the descriptors and the environment of another', must: 'refused', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			const own = 'import os, time\nfd = os.memfd_create("secret")\nos.write(fd, b"secret of one")\nprint(os.getpid(), fd, id(fd), flush=True)';
			const told = await s.run(id, { code: `${own}\nimport subprocess, sys\np = subprocess.Popen([sys.executable, "-c", ${JSON.stringify(`${own}\ntime.sleep(1000)`)}], stdout=subprocess.PIPE, text=True)\nprint(p.stdout.readline())`, context: 'one' });
			const r = await s.run(id, { context: 'other', code: `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
numbers = [int(n) for n in ${JSON.stringify(told.stdout)}.split()]
def can(name, attempt):
    try:
        attempt()
        print("BROKEN", name)
    except OSError as e:
        print("HELD", name)
def call(nr, *args):
    r = libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(a) for a in args])
    if r < 0: raise OSError(ctypes.get_errno(), "refused")
    return r
buf = ctypes.create_string_buffer(64)
class iovec(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
x86 = os.uname().machine == "x86_64"
for pid, fd, at in (numbers[:3], numbers[3:]): # its interpreter, and a child of that
    here, there = iovec(ctypes.addressof(buf), 8), iovec(at, 8)
    can("mem", lambda: os.pread(os.open(f"/proc/{pid}/mem", os.O_RDONLY), 8, at))
    can("fd", lambda: os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY))
    can("environ", lambda: os.read(os.open(f"/proc/{pid}/environ", os.O_RDONLY), 8))
    can("maps", lambda: os.read(os.open(f"/proc/{pid}/maps", os.O_RDONLY), 8))
    can("process_vm_readv", lambda: call(310 if x86 else 270, pid, ctypes.addressof(here), 1, ctypes.addressof(there), 1, 0))
    can("ptrace", lambda: call(101 if x86 else 117, 16, pid, 0, 0))
    can("pidfd_getfd", lambda: call(438, call(434, pid, 0), fd, 0))` });
			assert.equal(r.stdout.match(/^HELD /gm)?.length, 14, r.stdout + r.stderr);
			assert.doesNotMatch(r.stdout, /BROKEN/);
		}),
	},
	{
		id: '51b', planted: said('the variable is another one', (t) => t.replace('"stdout":"x\\n"', '"stdout":"y\\n"')), attack: 'a context kills every process that it can', must: 'another one has its variables, or says that they are lost', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			await s.run(id, { code: 'x = "x"', context: 'one' });
			await s.run(id, { code: 'import os\nfor p in range(2, 60):\n    if p not in (os.getpid(), os.getppid()):\n        try: os.kill(p, 9)\n        except OSError: pass', context: 'other' });
			await s.run(id, { code: 'import os\nos.kill(-1, 9)', context: 'other' });
			const r = await s.run(id, { code: 'print(globals().get("x", "none"))', context: 'one' });
			assert.ok(r.stdout === 'x\n' || r.state === 'lost', JSON.stringify(r));
		}),
	},
	{
		id: '53a', planted: survivor, attack: 'fork bombs in a run and three parallel ones, against each other', must: 'all end at their deadline; another user is served meanwhile; their sandbox goes on, or says that it is lost', needs: ['pids'], code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			const bomb = (n: number): string => `import os, sys\nos.execv(sys.executable, ["python3", "-c", "import os\\nopen('bomb${n}', 'w').close()\\nwhile True:\\n try: os.fork()\\n except OSError: pass", ${JSON.stringify(o.mark)}])`;
			const runs = await Promise.all([0, 1, 2].map(async (n) => (await s.run(id, { code: bomb(n), timeout_s: 1, wait: false, ...(n > 0 ? { parallel: true } : {}) })).id as string));
			await s.neighbour();
			for (const run of runs)
				assert.notEqual((await s.ended(run)).exit_code, 0);
			await nobody(o);
			const r = await s.ask('POST', `/sandboxes/${id}/runs`, { command: 'echo after', wait: true });
			assert.ok(r.body.stdout === 'after\n' || r.body.code === 'sandbox_lost', r.text); // it was theirs to lose
		}),
	},
	{
		id: '53b', planted: survivor, attack: 'parallel runs kill each other', must: 'each end is told; the sandbox goes on', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			const runs = await Promise.all([0, 1, 2].map(async (n) => (await s.run(id, { command: `python3 -c 'import time; time.sleep(${n ? 1000 : 0.3})' ${o.mark}; kill -9 -1`, timeout_s: 1, wait: false, ...(n > 0 ? { parallel: true } : {}) })).id as string));
			for (const run of runs)
				assert.equal(typeof (await s.ended(run)).exit_code, 'number');
			await nobody(o);
			assert.equal((await s.run(id, { command: 'echo after' })).stdout, 'after\n');
		}),
	},
	{
		id: '53c', planted: grown, attack: 'three parallel runs print for ever', must: 'each ends or is cut; the memory of the server is bounded', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			await s.holds(24, async () => {
				const runs = await Promise.all([0, 1, 2].map(async (n) => (await s.run(id, { command: 'head -c 8000000 /dev/zero | tr "\\0" x', wait: false, ...(n > 0 ? { parallel: true } : {}) })).id as string));
				for (const run of runs) {
					const r = await s.ended(run);
					assert.ok(r.truncated || r.reason === 'output_limit' || r.stdout.length < 1 << 20, JSON.stringify(r).slice(0, 300));
				}
			});
		}),
	},
];
