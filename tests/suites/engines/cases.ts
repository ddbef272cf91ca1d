// SPDX-License-Identifier: Apache-2.0
// Cases that only engines on containers have. Each gets a daemon of its own suite, and settings that lead to it.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawn, spawnSync } from 'node:child_process';
import { binary, freePort, newStateDir, productEnv, scratch } from '../../lib/env.ts';
import { makeCertificates, startRegistry, type Daemon } from '../../lib/daemon.ts';
import { facts, serve, using, type Json, type Session } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';

export interface World {
	daemon: Daemon;
	env: Record<string, string>;
}

export interface EngineCase {
	name: string;
	/** How long it may take; default 90 s. */
	ms?: number;
	/** It stops the daemon, which Podman's socket does not notice. */
	docker?: boolean;
	/** Why this daemon cannot run the case. */
	skip?(w: World): string | undefined;
	run(w: World): Promise<void>;
}

export const text = (r: { content: Json[] }): string => r.content.map((c) => c.text ?? '').join('\n');
export const python = async (s: Session, code: string, more: Json = {}): Promise<string> => text(await s.raw('sandbox_run_python', { code, ...more }));
export const idOf = (said: string): string => /sess_[0-9a-f]{12}/.exec(said)![0];
export const ours = (w: World): string[] => w.daemon.containers().filter((n) => n.startsWith('caisson-'));
const inspect = (w: World, name: string): Json => w.daemon.ask('GET', `/v1.41/containers/${name}/json`).body as Json;
const LOST = /^sandbox_lost: Sandbox sess_[0-9a-f]{12} has ended on its own$/m;
export const REFUSED = /^engine_unavailable: a sandbox cannot be made \(asking the container daemon\): /;
const once = (w: World, ...args: string[]): { status: number | null; stdout: string; stderr: string } =>
	spawnSync(binary, ['run', ...args], { encoding: 'utf8', env: productEnv(w.env), timeout: 90_000 });

/** Podman does so since version 5. */
const changesLimits = (w: World): boolean => w.daemon.product === 'docker' || Number.parseInt((w.daemon.ask('GET', '/v1.41/version').body as Json).Version, 10) >= 5;

export const cases: EngineCase[] = [
	{
		name: 'a container has the walls that the first README lists, and nothing more',
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_POOL: '0', SANDBOX_MEMORY_LIMIT: '512m' } }, async (s) => {
			await python(s, 'print(1)');
			const [name] = await until('the container', () => ours(w).length === 1 && ours(w));
			const c = inspect(w, name!), h = c.HostConfig as Json;
			assert.equal(h.NetworkMode, 'none');
			assert.deepEqual(h.CapAdd ?? [], []);
			if (w.daemon.product === 'docker')
				assert.deepEqual(h.CapDrop, ['ALL']);
			assert.equal(h.ReadonlyRootfs, true);
			assert.equal(h.Privileged, false);
			assert.equal(h.Memory, 512 << 20);
			assert.equal(h.MemorySwap, 512 << 20);
			assert.ok(h.PidsLimit > 0);
			assert.equal(c.Config.User, '1000:1000');
			assert.ok(h.SecurityOpt.some((o: string) => o.startsWith('no-new-privileges')), 'no-new-privileges');
			assert.ok(h.SecurityOpt.some((o: string) => o.startsWith('seccomp=')), 'a profile');
			assert.match(h.Tmpfs['/tmp'], /size=(67108864|64m|65536k)/);
			assert.match(JSON.stringify(await python(s, 'import os; [os.statvfs(d).f_blocks * os.statvfs(d).f_frsize >> 20 for d in ("/tmp", "/var/tmp")]')), /\[64, 64\]/);
			const writable = (c.Mounts as Json[]).filter((m) => m.RW).map((m) => m.Destination).sort();
			assert.deepEqual(writable.filter((d) => !['/tmp', '/home/sandbox'].includes(d)), ['/app/results', '/home/user', '/mnt/data']);
			assert.ok((c.Mounts as Json[]).every((m) => !/sock/.test(m.Source ?? '')), 'no socket of the host');
		}),
	},
	{
		name: 'limits change while a container lives, and memory never below what is in use',
		skip: (w) => changesLimits(w) ? undefined : 'this Podman changes no limit of a container; the next case has what is said then',
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_POOL: '0', SANDBOX_MEMORY_LIMIT: '512m', SANDBOX_MAX_MEMORY_LIMIT: '1g' } }, async (s) => {
			const id = idOf(await python(s, 'open("/dev/shm/x", "wb").write(bytes(150 << 20))'));
			const change = async (args: Json): Promise<Json> => facts(await s.raw('sandbox_create', { session_id: id, ...args }));
			const more = await change({ memory_mb: 800, cpus: 0.5, processes: 77 });
			assert.deepEqual([more.status, more.memory_mb], ['changed', 800], JSON.stringify(more));
			const [name] = await until('the container', () => ours(w).length === 1 && ours(w));
			const host = (): Json => inspect(w, name!).HostConfig as Json;
			assert.deepEqual([host().Memory, host().MemorySwap, host().NanoCpus], [800 << 20, 800 << 20, 500_000_000]);
			assert.match(await python(s, 'x = bytearray(550 << 20); print(len(x) >> 20)', { session_id: id }), /^550$/m);
			assert.match(await python(s, 'import subprocess; print(subprocess.run(["free", "-m"], capture_output=True, text=True).stdout)', { session_id: id }), /^Mem: +800 /m);
			assert.equal((await change({ memory_mb: 100 })).error, 'limit_below_use');
			const running = python(s, 'import os, time\nwhile not os.path.exists("/mnt/data/go"): time.sleep(0.05)\nprint("done")', { session_id: id });
			await until('the run', async () => /running/.test(text(await s.raw('sandbox_info', { session_id: id }))));
			assert.equal((await change({ memory_mb: 400 })).error, 'session_busy');
			await s.raw('sandbox_write_file', { session_id: id, path: 'go', content: '1' });
			assert.match(await running, /done/);
			assert.equal((await change({ memory_mb: 400 })).status, 'changed');
			assert.equal(host().Memory, 400 << 20);
			assert.match(await python(s, 'import os; print(os.stat("/dev/shm/x").st_size >> 20)', { session_id: id }), /^150$/m);
		}),
	},
	{
		name: 'a daemon that changes no limit of a container: the change is refused with the reason, and everything is as before',
		skip: (w) => changesLimits(w) ? 'this daemon changes limits; the case above has that' : undefined,
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_POOL: '0', SANDBOX_MEMORY_LIMIT: '512m', SANDBOX_MAX_MEMORY_LIMIT: '1g' } }, async (s) => {
			const id = idOf(await python(s, 'open("/dev/shm/x", "wb").write(bytes(150 << 20))'));
			const refused = facts(await s.raw('sandbox_create', { session_id: id, memory_mb: 800, cpus: 0.5, processes: 77 }));
			assert.equal(refused.error, 'limit_not_changeable', JSON.stringify(refused));
			const [name] = ours(w);
			assert.equal((inspect(w, name!).HostConfig as Json).Memory, 512 << 20);
			assert.match(await python(s, 'import os; print(os.stat("/dev/shm/x").st_size >> 20)', { session_id: id }), /^150$/m);
		}),
	},
	{
		name: 'inside: no right, no network, read-only, uid 1000, a filter, an own name',
		run: (w) => using('stdio', { profile: 'full', env: w.env }, async (s) => {
			const said = await python(s, `
import os, socket
status = dict(l.split(":", 1) for l in open("/proc/self/status") if ":" in l)
print([status[k].strip() for k in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")])
print(os.getuid(), os.getgid(), socket.gethostname(), [l.split(":")[0].strip() for l in open("/proc/net/dev").readlines()[2:]])
open("/home/user/x", "w").write("home"); print(open("/mnt/data/x").read(), __import__("pwd").getpwnam("user").pw_dir, __import__("pwd").getpwuid(1000).pw_name)
for path in "/etc/x", "/usr/x", "/caisson/x", "/app/.venv/x":
    try: open(path, "w"); print("WROTE", path)
    except OSError as e: print(e.errno in (13, 30))
try: socket.create_connection(("1.1.1.1", 80), 1); print("CONNECTED")
except OSError as e: print("no way out")
print("tables", [p for p in ("/sys", "/proc/sys", "/proc/bus", "/proc/fs") if os.path.isdir(p) and os.listdir(p)], [p for p in ("kallsyms", "iomem", "interrupts", "config.gz", "locks") if os.path.exists("/proc/" + p) and open("/proc/" + p, "rb").read(1)])
print(open("/proc/1/status").read().split()[1], os.access("/proc/1/environ", os.R_OK), os.path.exists("/run/docker.sock"))
`);
			assert.match(said, /\['0000000000000000', '0000000000000000', '0000000000000000', '1', '2'\]/);
			assert.match(said, /1000 1000 sandbox \['lo'\]/);
			assert.match(said, /^home \/home\/user sandbox$/m);
			assert.match(said, /True\nTrue\nTrue\nTrue\nno way out\ntables \[\] \[\]\ncaisson-init False False/);
			assert.doesNotMatch(said, /WROTE|CONNECTED/);
		}),
	},
	{
		name: 'memory, processes and the workspace have their limits; the sandbox goes on',
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_MEMORY_LIMIT: '96m', SANDBOX_PIDS_LIMIT: '32', SANDBOX_WORKSPACE_LIMIT: '4m' } }, async (s) => {
			const first = await python(s, 'open("kept.txt", "w").write("kept")');
			const session_id = idOf(first);
			assert.match(await python(s, 'x = bytearray(10**9)', { session_id }), /^\[session_id: \S+, exit_code: 137, oom, /m);
			assert.match(await python(s, 'import os\nn = 0\ntry:\n    while n < 200:\n        if os.fork() == 0: os.pause() if hasattr(os, "pause") else __import__("time").sleep(60)\n        n += 1\nexcept OSError as e: print("stopped", n < 64)', { session_id }), /stopped True/);
			assert.match(await python(s, 'try: open("big", "wb").write(b"x" * (8 << 20))\nexcept OSError as e: print(e.errno)', { session_id }), /^28$/m);
			assert.match(await python(s, 'print(open("kept.txt").read())', { session_id }), /kept/);
		}),
	},
	{
		name: 'a timeout ends the run and not the sandbox; variables stay; a checkpoint comes back',
		run: (w) => using('stdio', { profile: 'full', env: w.env }, async (s) => {
			const session_id = idOf(await python(s, 'n = 41', { stateful: true }));
			assert.match(await python(s, 'import time; time.sleep(60)', { session_id, timeout_s: 1 }), /^\[session_id: \S+, exit_code: -1, timeout, /m);
			const said = await python(s, 'n + 1', { session_id, stateful: true });
			assert.match(said, /42/);
			const call = async (name: string, args: Json): Promise<Json> => {
				const r = await s.raw(name, { session_id, ...args });
				assert.ok(!r.isError, text(r));
				return r;
			};
			await python(s, 'open("kept.txt", "w").write("first")', { session_id });
			await call('sandbox_checkpoint', { name: 'before' });
			assert.match(await python(s, 'n = 0; open("kept.txt", "w").write("second"); n', { session_id, stateful: true }), /^0$/m);
			await call('sandbox_restore', { name: 'before' });
			assert.match(await python(s, 'n, open("kept.txt").read()', { session_id, stateful: true }), /\(41, 'first'\)/);
			assert.match(await python(s, 'import sys, os; os.system("echo from the shell"); print("err", file=sys.stderr)', { session_id }), /from the shell/);
		}),
	},
	{
		name: 'a server that cannot see the processes of its containers: init watches memory, and a limit that was set is refused',
		async run(w) {
			const inside = (env: Record<string, string>): { status: number | null; said: string } => {
				const hog = 'import time\nprint("alive")\nx = []\nfor i in range(600):\n    x.append(bytearray(b"x") * (4 << 20))\n    time.sleep(0.02)\nprint("survived")';
				const r = spawnSync('unshare', ['--pid', '--fork', '--mount-proc', '--kill-child', binary, 'run', '-c', hog], { encoding: 'utf8', env: productEnv({ ...w.env, SANDBOX_STATE_DIR: newStateDir(), ...env }), timeout: 90_000 });
				return { status: r.status, said: r.stdout + r.stderr };
			};
			const watched = inside({});
			assert.match(watched.said, /alive/);
			assert.doesNotMatch(watched.said, /survived/);
			assert.match(watched.said, /out of memory/);
			const refused = inside({ SANDBOX_MEMORY_LIMIT: '256m' });
			assert.equal(refused.status, 78, refused.said);
			assert.match(refused.said, /another PID namespace\), so nothing shows that the limit of memory is held/, refused.said);
		},
	},
	{
		name: 'an image that is not there is named as such',
		async run(w) {
			const r = once({ ...w, env: { ...w.env, SANDBOX_IMAGE: 'not/there:ever' } }, '-c', 'print(1)');
			assert.equal(r.status, 69, r.stderr);
			assert.match(r.stderr, /the image 'not\/there:ever' is not there; get it once with: docker pull not/);
		},
	},
	{
		name: 'a runtime that the daemon lacks is refused at the start',
		async run(w) {
			const r = once({ ...w, env: { ...w.env, SANDBOX_RUNTIME: 'nothing' } }, '-c', 'print(1)');
			assert.equal(r.status, 69, r.stderr);
			assert.match(r.stderr, /no runtime 'nothing'/);
		},
	},
	{
		name: 'settings of the whole server that no daemon enforces are refused at the start, each with its reason',
		async run(w) {
			for (const [setting, value, why] of [['SANDBOX_TOTAL_MEMORY', '1g', /SANDBOX_TOTAL_MEMORY=1024m needs the native engine; remove it, and set SANDBOX_MEMORY_LIMIT/], ['SANDBOX_WORKSPACE', 'disk', /SANDBOX_WORKSPACE=disk needs the native engine/], ['SANDBOX_ROOT', 'on', /SANDBOX_ROOT=on needs the native engine, a server that root started/]] as const) {
				const r = once({ ...w, env: { ...w.env, [setting]: value } }, '-c', 'print(1)');
				assert.equal(r.status, 78, `${setting}: ${r.stdout}${r.stderr}`);
				assert.match(r.stderr, why);
			}
		},
	},
	{
		name: 'nothing is left: containers, volumes, folders with sockets',
		async run(w) {
			const state = newStateDir();
			await using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_STATE_DIR: state } }, async (s) => {
				await python(s, 'print(1)');
				assert.ok(ours(w).length > 0);
			});
			await until('the end of the containers', () => ours(w).length === 0, 30_000);
			await until('the end of the volumes', () => w.daemon.volumes().filter((v) => v.startsWith('caisson-')).length === 0, 30_000);
			assert.deepEqual(fs.readdirSync(path.join(state, 'docker/channels')), []);
		},
	},
	{
		name: 'a run with terminals of its own, resized without end and never read: it ends in time, and nothing of it stays',
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_POOL: '0' } }, async (s) => {
			// A session with a terminal that is its own, deaf to its end, and another one that writes what nobody reads.
			const count = 'import os\nwith_name = lambda: sum(open(f"/proc/{p}/comm").read() == "deaf\\n" for p in os.listdir("/proc") if p.isdigit())';
			const code = [count,
				'import ctypes, fcntl, os, pty, signal, struct, sys, termios, time',
				'kept = []',
				'for kind in range(2):',
				'    pid, master = pty.fork()',
				'    if pid == 0:',
				'        for g in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGWINCH, signal.SIGTTOU): signal.signal(g, signal.SIG_IGN)',
				'        ctypes.CDLL(None).prctl(15, b"deaf")',
				'        if os.fork() == 0: os.setsid()',
				'        while True:',
				'            if kind: os.write(1, b"x" * 4096)',
				'            else: time.sleep(1)',
				'    kept.append(master)',
				'while with_name() < 4: time.sleep(0.01)',
				'print("begun", flush=True)',
				'n = 0',
				'while True:',
				'    n += 1',
				'    for m in kept: fcntl.ioctl(m, termios.TIOCSWINSZ, struct.pack("HHHH", n % 65536, 65535 - n % 65536, 0, 0))',
			].join('\n');
			const said = await python(s, code, { timeout_s: 4 });
			const session_id = idOf(said);
			assert.match(said, /^begun$/m);
			assert.match(said, /^\[session_id: \S+, exit_code: -1, timeout, /m);
			const left = await python(s, `${count}\nprint("left", with_name(), [n for n in os.listdir("/dev/pts") if n.isdigit()])`, { session_id });
			assert.match(left, /^left 0 \[\]$/m);
		}),
	},
	{
		name: 'a container that the daemon cannot start is gone with its server',
		docker: true,
		async run(w) {
			// A folder that is to be mounted below a file.
			const made = spawnSync('sh', ['-c', 'tar -C "$1" -c passwd | curl -s --fail-with-body -X POST --unix-socket "$2" -H "Content-Type: application/x-tar" -T - "http://localhost/v1.41/images/create?fromSrc=-&repo=closed&tag=latest&changes=VOLUME%20/passwd/x"',
				'image', '/etc', path.join(w.daemon.folder, 'socket')], { encoding: 'utf8' });
			assert.equal(made.status, 0, made.stdout);
			const volumes = w.daemon.volumes();
			try {
				const r = once({ ...w, env: { ...w.env, SANDBOX_IMAGE: 'closed' } }, '-c', 'print(1)');
				assert.equal(r.status, 69, r.stderr);
				assert.match(r.stderr, /a sandbox cannot be made \(starting the container\)/);
				await until('the end of its container', () => ours(w).length === 0 && w.daemon.volumes().length === volumes.length, 20_000);
			} finally {
				for (const name of ours(w))
					w.daemon.ask('DELETE', `/v1.41/containers/${name}?force=1&v=1`);
				w.daemon.ask('DELETE', '/v1.41/images/closed');
			}
		},
	},
	{
		name: 'the log says once why the interpreters of an image are cold',
		run: (w) => {
			const broken = "import os, site; open(os.path.join(site.getsitepackages()[0], 'broken_module.py'), 'w').write('import os\\nos.write(2, b\"the device is not there\\\\n\"); os._exit(3)')";
			const made = w.daemon.ask('POST', '/v1.41/containers/create?name=breaks', { Image: w.env.SANDBOX_IMAGE, User: '0', HostConfig: { NetworkMode: 'none', Ulimits: [{ Name: 'nofile', Soft: 1024, Hard: 1024 }, { Name: 'nproc', Soft: 1024, Hard: 1024 }] }, Cmd: ['python3', '-c', broken.replaceAll('open(os.path', 'os.makedirs(site.getsitepackages()[0], exist_ok=True); open(os.path')] });
			assert.equal(made.status, 201, JSON.stringify(made.body));
			const started = w.daemon.ask('POST', '/v1.41/containers/breaks/start');
			assert.ok(started.status < 300, JSON.stringify(started.body));
			assert.equal((w.daemon.ask('POST', '/v1.41/containers/breaks/wait').body as Json).StatusCode, 0);
			const image = w.daemon.ask('POST', `/v1.41/commit?container=breaks&repo=breaks&tag=now&changes=${encodeURIComponent('ENV CAISSON_PRELOAD=broken_module')}`, {});
			assert.equal(image.status, 201, JSON.stringify(image.body));
			w.daemon.ask('DELETE', '/v1.41/containers/breaks?force=1');
			return using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_IMAGE: 'breaks:now', SANDBOX_POOL: '0' } }, async (s) => {
				const found = (): string[] => fs.readFileSync(s.log, 'utf8').split('\n').filter((l) => l.includes('zygote_failed'));
				for (let i = 0; i < 2; i++)
					assert.match(await python(s, 'print(6 * 7)', { session_id: `cold${i}` }), /^42$/m);
				await until('the line', () => found().length > 0);
				assert.equal(found().length, 1, found().join('\n'));
				assert.match(found()[0]!, /image="?breaks:now.*the device is not there/);
			});
		},
	},
	{
		name: 'a container that is removed from outside is a lost sandbox; the next call has another one',
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_POOL: '0' } }, async (s) => {
			const session_id = idOf(await python(s, 'print(1)'));
			const run = python(s, 'import time; time.sleep(60)', { session_id });
			const [name] = await until('the container', () => ours(w).length === 1 && ours(w));
			assert.ok(w.daemon.ask('DELETE', `/v1.41/containers/${name}?force=1`).status < 300);
			assert.match(await run, LOST);
			assert.match(await python(s, 'print(6 * 7)'), /^42$/m);
		}),
	},
	{
		name: 'containers of a server that was killed are removed at the next start, others are not touched',
		async run(w) {
			const env = { ...w.env, SANDBOX_STATE_DIR: newStateDir(), SANDBOX_POOL: '0' };
			const image = w.env.SANDBOX_IMAGE;
			const made = w.daemon.ask('POST', '/v1.41/containers/create?name=somebody-elses', { Image: image, Cmd: ['python3', '-c', 'import time; time.sleep(600)'], Labels: { 'org.caisson.state': '0123456789abcdef', 'org.caisson.instance': '0123456789abcdef' }, HostConfig: { NetworkMode: 'none', Ulimits: [{ Name: 'nofile', Soft: 1024, Hard: 1024 }, { Name: 'nproc', Soft: 1024, Hard: 1024 }] } });
			assert.equal(made.status, 201, JSON.stringify(made.body));
			const server = await serve({ profile: 'full', env });
			const r = await fetch(`${server.base}/api/v1/sandboxes`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
			assert.ok(r.ok, await r.text());
			assert.equal(ours(w).length, 1);
			const keeper = Number(spawnSync('pgrep', ['-P', String(server.program.pid), '-x', 'caisson-keeper'], { encoding: 'utf8' }).stdout.trim());
			assert.ok(keeper > 0, 'a keeper below the front');
			process.kill(keeper, 'SIGKILL');
			server.program.kill('SIGKILL');
			await server.program.exit;
			assert.match(once({ ...w, env }, '-c', 'print(1)').stdout, /1/);
			await until('the orphan', () => ours(w).length === 0, 30_000);
			assert.ok(w.daemon.containers().includes('somebody-elses'));
			w.daemon.ask('DELETE', '/v1.41/containers/somebody-elses?force=1');
		},
	},
	{
		name: 'servers that share a state folder start at the same moment, and each has its sandboxes',
		async run(w) {
			const env = { ...w.env, SANDBOX_STATE_DIR: newStateDir(), SANDBOX_POOL: '0' };
			const answers = await Promise.all([1, 2].map((n) => using('stdio', { profile: 'full', env }, (s) => python(s, `print(${n} * 10)`))));
			answers.forEach((said, i) => assert.match(said, new RegExp(`^${(i + 1) * 10}$`, 'm')));
		},
	},
	{
		name: 'the daemon is stopped in the middle of a run and started again: a typed error, then sandboxes again, without our restart',
		docker: true,
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_POOL: '0' } }, async (s) => {
			const session_id = idOf(await python(s, 'print(1)'));
			const run = python(s, 'import time; time.sleep(60)', { session_id });
			await until('the container', () => ours(w).length === 1);
			await w.daemon.stop();
			assert.match(await run, LOST);
			assert.match(await python(s, 'print(1)'), REFUSED);
			const why = await w.daemon.start();
			assert.equal(why, undefined, why);
			assert.match(await python(s, 'print(6 * 7)'), /^42$/m);
		}),
	},
	{
		name: 'a daemon that hangs holds up new sandboxes alone',
		docker: true,
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_POOL: '0' } }, async (s) => {
			const session_id = idOf(await python(s, 'print(1)'));
			w.daemon.signal('SIGSTOP');
			try {
				const late = python(s, 'print(6 * 7)');
				assert.match(await python(s, 'print("goes", "on")', { session_id }), /^goes on$/m);
				w.daemon.signal('SIGCONT');
				assert.match(await late, /^42$/m);
			} finally {
				w.daemon.signal('SIGCONT');
			}
		}),
	},
	{
		name: 'the disk of the daemon is full: a typed error that says so; then space again, and sandboxes',
		docker: true,
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_POOL: '0' } }, async (s) => {
			const folder = path.join(w.daemon.folder, 'data/containers');
			w.daemon.within('mount', '-t', 'tmpfs', '-o', 'size=4k', 'full', folder);
			try {
				assert.match(await python(s, 'print(1)'), /^store_full: .*: No space left on device$/m);
			} finally {
				w.daemon.within('umount', '-l', folder);
			}
			assert.match(await python(s, 'print(6 * 7)'), /^42$/m);
			assert.equal(ours(w).length, 1);
		}),
	},
	{
		name: 'the image goes while the server runs: an error that names it; it comes back, and sandboxes with it',
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_IMAGE: 'goes/away:now', SANDBOX_POOL: '0' } }, async (s) => {
			const tag = (): void => assert.equal(w.daemon.ask('POST', `/v1.41/images/${w.env.SANDBOX_IMAGE}/tag?repo=goes/away&tag=now`).status, 201);
			tag();
			const session_id = idOf(await python(s, 'print(1)'));
			assert.equal(w.daemon.ask('DELETE', '/v1.41/images/goes/away:now').status, 200);
			assert.match(await python(s, 'print(1)'), /image 'goes\/away:now' is not there; get it once with: docker pull goes\/away:now/);
			assert.match(await python(s, 'print("goes", "on")', { session_id }), /^goes on$/m);
			tag();
			assert.match(await python(s, 'print(6 * 7)'), /^42$/m);
			w.daemon.ask('DELETE', '/v1.41/images/goes/away:now');
		}),
	},
	{
		name: 'a container that is stopped from outside between runs is a lost sandbox; nothing of it is left',
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_POOL: '0' } }, async (s) => {
			const session_id = idOf(await python(s, 'print(1)'));
			const [name] = ours(w);
			assert.ok(w.daemon.ask('POST', `/v1.41/containers/${name}/kill`).status < 300);
			await until('the server to hear of the end', async () => /session_not_found/.test(text(await s.raw('sandbox_info', { session_id }))), 30_000);
			assert.match(await python(s, 'print(1)', { session_id }), /^Hint: The earlier session sess_[0-9a-f]{12} ended on its own, \d+ s ago: this is a new one, without its files and variables\.\n1$/m);
			assert.match(await python(s, 'print(6 * 7)'), /^42$/m);
			await until('the end of the first container', () => !ours(w).includes(name!), 30_000);
		}),
	},
	{
		name: 'a container that is paused from outside ends at the deadline of its run; the next call has another one',
		docker: true,
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_POOL: '0' } }, async (s) => {
			const session_id = idOf(await python(s, 'print(1)'));
			const run = python(s, 'import time; time.sleep(60)', { session_id, timeout_s: 4 });
			const [name] = ours(w);
			assert.ok(w.daemon.ask('POST', `/v1.41/containers/${name}/pause`).status < 300);
			assert.match(await run, LOST);
			assert.match(await python(s, 'print(6 * 7)'), /^42$/m);
			await until('the end of the paused container', () => !ours(w).includes(name!), 60_000);
		}),
	},
	{
		name: 'no daemon at the start: one line that says where it was looked for',
		async run(w) {
			for (const [host, status, why] of [['unix:///nowhere/docker.sock', 69, /does not answer/], ['tcp://127.0.0.1:1', 69, /does not answer/],
				['ssh://127.0.0.1', 78, /is neither unix:\/\/\/PATH nor tcp:\/\/HOST:PORT/], ['unix://relative', 78, /is neither unix:\/\/\/PATH nor tcp:\/\/HOST:PORT/]] as const) {
				const r = once({ ...w, env: { ...w.env, DOCKER_HOST: host } }, '-c', 'print(1)');
				assert.equal(r.status, status, `${host}: ${r.stderr}`);
				assert.match(r.stderr, why);
				assert.ok(r.stderr.includes(host) && r.stderr.trim().split('\n').length <= 3, r.stderr);
			}
		},
	},
	{
		name: 'a stored workspace goes whole, however deep its folders are',
		async run(w) {
			const state = newStateDir();
			const server = await serve({ profile: 'full', env: { ...w.env, SANDBOX_STATE_DIR: state, SANDBOX_POOL: '0' } });
			const ask = async (method: string, at: string, body?: Json): Promise<{ status: number; text: string }> => {
				const r = await fetch(`${server.base}/api/v1${at}`, { method, headers: body ? { 'content-type': 'application/json' } : {}, body: body && JSON.stringify(body) });
				return { status: r.status, text: await r.text() };
			};
			try {
				const made = await ask('POST', '/sandboxes', { kind: 'stored' });
				assert.equal(made.status, 201, made.text);
				const { id } = JSON.parse(made.text) as Json;
				// Longer than 64 KiB, where fts(3) gives up. What measures workspaces takes this for a full one and may end the run.
				const code = 'import os\nopen("big", "wb").write(b"x" * 100000)\nfor i in range(300):\n    os.mkdir("d" * 250)\n    os.chdir("d" * 250)\nopen("last", "w").close()';
				const ran = await ask('POST', `/sandboxes/${id}/runs`, { code, wait: true });
				assert.equal(ran.status, 201, ran.text);
				assert.equal(fs.readdirSync(path.join(state, 'docker/stored')).filter((n) => !n.endsWith('.lock')).length, 1);
				const gone = await ask('DELETE', `/sandboxes/${id}?force=true`);
				assert.equal(gone.status, 204, gone.text);
				await until('the end of the workspace', () => fs.readdirSync(path.join(state, 'docker/stored')).length === 0, 30_000);
			} finally {
				await server.program.end();
			}
		},
	},
	{
		name: 'a session is not kept where it is: its files are in the container, and the answer says what to do',
		async run(w) {
			const server = await serve({ profile: 'full', env: { ...w.env, SANDBOX_STATE_DIR: newStateDir(), SANDBOX_POOL: '0' } });
			const ask = async (method: string, at: string, body?: Json): Promise<[number, Json]> => {
				const r = await fetch(`${server.base}/api/v1/sandboxes${at}`, { method, headers: body ? { 'content-type': 'application/json' } : {}, body: body && JSON.stringify(body) });
				return [r.status, await r.json() as Json];
			};
			try {
				const [, { id, keepable }] = await ask('POST', '', {});
				assert.equal(keepable, false);
				await ask('POST', `/${id}/runs`, { code: 'open("f", "w").write("x")', wait: true });
				const [status, said] = await ask('POST', `/${id}/keep`);
				assert.deepEqual([status, said.code], [409, 'not_keepable'], JSON.stringify(said));
				assert.match(said.detail, /in a container.*Make a stored sandbox and copy them/);
				const [, run] = await ask('POST', `/${id}/runs`, { code: 'print(open("f").read())', wait: true });
				assert.equal(run.stdout, 'x\n');
				assert.equal((await ask('GET', `/${id}`))[1].kind, 'session');
			} finally {
				await server.program.end();
			}
		},
	},
	{
		name: 'the files of a removed workspace go in a process of their own; others are served meanwhile',
		async run(w) {
			const state = newStateDir();
			const server = await serve({ profile: 'full', env: { ...w.env, SANDBOX_STATE_DIR: state, SANDBOX_POOL: '0' } });
			const ask = async (method: string, at: string, body?: Json): Promise<Json> => {
				const r = await fetch(`${server.base}/api/v1${at}`, { method, headers: body ? { 'content-type': 'application/json' } : {}, body: body && JSON.stringify(body) });
				const said = await r.text();
				assert.ok(r.ok, said);
				return said ? JSON.parse(said) as Json : {};
			};
			const stored = (): string[] => fs.readdirSync(path.join(state, 'docker/stored'));
			let remover = 0;
			try {
				const { id } = await ask('POST', '/sandboxes', { kind: 'stored' });
				const ran = await ask('POST', `/sandboxes/${id}/runs`, { code: 'import os\nfor d in range(20):\n    os.mkdir(f"d{d}")\n    for i in range(600): open(f"d{d}/{i}", "w").close()\nprint("made")', wait: true });
				assert.equal(ran.stdout, 'made\n', JSON.stringify(ran));
				const keeper = spawnSync('pgrep', ['-P', String(server.program.pid), '-x', 'caisson-keeper'], { encoding: 'utf8' }).stdout.trim();
				// The process is stopped as soon as it is seen, so that it is still at work when the next sandbox is asked for.
				const gone = ask('DELETE', `/sandboxes/${id}?force=true`);
				remover = await until('the process that removes', () => Number(spawnSync('pgrep', ['-P', keeper, '-x', 'caisson-sweep'], { encoding: 'utf8' }).stdout.trim()) , 20_000);
				process.kill(remover, 'SIGSTOP');
				await gone;
				assert.match(stored().join(), /^\.dead-[0-9a-f]{16}$/, 'nothing but what is being removed');
				const next = await ask('POST', '/sandboxes', { kind: 'stored' });
				assert.equal((await ask('POST', `/sandboxes/${next.id}/runs`, { code: 'print(6 * 7)', wait: true })).stdout, '42\n');
				assert.equal(stored().filter((n) => n.startsWith('.dead-')).length, 1);
				process.kill(remover, 'SIGCONT');
				await until('the end of the files', () => !stored().some((n) => n.startsWith('.dead-')), 30_000);
			} finally {
				await server.program.end();
			}
		},
	},
	{
		name: 'over TCP with TLS: runs with the right certificates; refused with another CA, without a certificate, without TLS',
		docker: true,
		async run(w) {
			const certs = path.join(w.daemon.folder, 'certs');
			const other = path.join(w.daemon.folder, 'other');
			makeCertificates(other);
			const mixed = (ca: string, cert: string, name: string): string => {
				const folder = path.join(w.daemon.folder, name);
				fs.mkdirSync(folder);
				fs.copyFileSync(path.join(ca, 'ca.pem'), path.join(folder, 'ca.pem'));
				for (const file of ['cert.pem', 'key.pem'])
					fs.copyFileSync(path.join(cert, file), path.join(folder, file));
				return folder;
			};
			const at = (folder: string | undefined): Record<string, string> => ({ ...w.env, DOCKER_HOST: w.daemon.tls!, ...(folder ? { DOCKER_CERT_PATH: folder } : {}) });
			await using('stdio', { profile: 'full', env: { ...at(certs), SANDBOX_POOL: '0' } }, async (s) => {
				const session_id = idOf(await python(s, 'open("x", "w").write("kept")'));
				assert.match(await python(s, 'print(open("x").read())', { session_id }), /^kept$/m);
			});
			await until('the end of the containers', () => ours(w).length === 0, 30_000);
			for (const [what, folder] of Object.entries({
				"the daemon's CA is another one": mixed(other, certs, 'wrong-ca'), "the client's CA is another one": mixed(certs, other, 'wrong-client'),
				'no such folder': '/nowhere', 'no TLS': undefined })) {
				const r = once({ ...w, env: at(folder) }, '-c', 'print(1)');
				assert.equal(r.status, 69, `${what}: ${r.stdout}${r.stderr}`);
				assert.ok(r.stderr.includes(w.daemon.tls!), `${what}: ${r.stderr}`);
			}
		},
	},
	{
		name: 'images on their way: from the daemon to the native engine, as an archive back to it, to a registry, and from there with TLS and a CA of our own',
		docker: true,
		ms: 300_000,
		async run(w) {
			const folder = scratch('ways'), state = scratch('images');
			const native = { SANDBOX_STATE_DIR: state };
			const caisson = (env: Record<string, string>, under: string[], ...args: string[]): { status: number | null; said: string } => {
				const [command, ...rest] = [...under, binary, ...args];
				const r = spawnSync(command!, rest, { encoding: 'utf8', env: productEnv(env), timeout: 200_000, maxBuffer: 1 << 26 });
				return { status: r.status, said: r.stdout + r.stderr };
			};
			const done = (r: { status: number | null; said: string }): void => assert.equal(r.status, 0, r.said);
			const packages = (env: Record<string, string>): string => {
				const r = caisson(env, [], 'run', '-c', 'import sys, importlib.metadata as m\nprint(sys.version, sorted(d.name + d.version for d in m.distributions()))');
				done(r);
				return r.said;
			};
			// From the daemon.
			done(caisson({ ...native, DOCKER_HOST: w.daemon.host }, [], 'image', 'import', 'came', `docker-daemon:${w.env.SANDBOX_IMAGE}:latest`));
			const own = packages({ ...native, SANDBOX_IMAGE: 'came' });
			// To it, under the name of the first original's image.
			const archive = path.join(folder, 'out.tar');
			done(caisson(native, [], 'image', 'export', 'came', archive, '--format', 'docker', '--tag', 'llm-sandbox:latest'));
			assert.match(w.daemon.load(archive), /Loaded image: llm-sandbox:latest/);
			assert.equal(packages({ ...w.env, SANDBOX_IMAGE: 'llm-sandbox:latest' }), own);
			// From it to a registry on loopback.
			const port = await freePort(), name = `127.0.0.1:${port}/team/tool`;
			let end = await startRegistry(folder, `127.0.0.1:${port}`);
			try {
				assert.equal(w.daemon.ask('POST', `/v1.41/images/llm-sandbox:latest/tag?repo=${name}&tag=1`).status, 201);
				assert.doesNotMatch(w.daemon.push(`${name}:1`), /error/i);
			} finally {
				await end();
			}
			// From there: the same storage at an address that is not loopback, in a network of its own. Only TLS, and only with the CA.
			const net = spawn('unshare', ['--net', 'sh', '-c', 'ip link set lo up && ip address add 192.0.2.1/32 dev lo && echo ready && exec sleep 600'], { stdio: ['ignore', 'pipe', 'ignore'] });
			try {
				await new Promise((resolve) => net.stdout.once('data', resolve));
				const certs = path.join(folder, 'certs');
				makeCertificates(certs, '192.0.2.1');
				end = await startRegistry(folder, '192.0.2.1:5000', certs, net.pid);
				const inside = ['nsenter', `--net=/proc/${net.pid}/ns/net`, '--'];
				const from = 'docker://192.0.2.1:5000/team/tool:1';
				const refused = caisson(native, inside, 'image', 'import', 'no', from);
				assert.notEqual(refused.status, 0);
				assert.match(refused.said, /certificate/i);
				done(caisson({ ...native, SSL_CERT_FILE: path.join(certs, 'ca.pem') }, inside, 'image', 'import', 'tls', from));
				assert.equal(packages({ ...native, SANDBOX_IMAGE: 'tls' }), own);
				await end();
			} finally {
				net.kill('SIGKILL');
			}
			for (const image of ['llm-sandbox:latest', `${name}:1`])
				w.daemon.ask('DELETE', `/v1.41/images/${image}`);
		},
	},
];
