// SPDX-License-Identifier: Apache-2.0
// Cases that only engines on containers have. Each gets a daemon of its own suite, and settings that lead to it.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawn, spawnSync } from 'node:child_process';
import { binary, freePort, newStateDir, productEnv, scratch } from '../../lib/env.ts';
import { makeCertificates, startRegistry, type Daemon } from '../../lib/daemon.ts';
import { serve, using, type Json, type Session } from '../../lib/session.ts';
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
	run(w: World): Promise<void>;
}

const text = (r: { content: Json[] }): string => r.content.map((c) => c.text ?? '').join('\n');
const python = async (s: Session, code: string, more: Json = {}): Promise<string> => text(await s.raw('sandbox_run_python', { code, ...more }));
const idOf = (said: string): string => /sess_[0-9a-f]{12}/.exec(said)![0];
const ours = (w: World): string[] => w.daemon.containers().filter((n) => n.startsWith('caisson-'));
const inspect = (w: World, name: string): Json => w.daemon.ask('GET', `/v1.41/containers/${name}/json`).body as Json;
const REFUSED = /engine_unavailable|does not answer|asking the container daemon/;
const once = (w: World, ...args: string[]): { status: number | null; stdout: string; stderr: string } =>
	spawnSync(binary, ['run', ...args], { encoding: 'utf8', env: productEnv(w.env), timeout: 90_000 });

export const cases: EngineCase[] = [
	{
		name: 'a container has the walls that the first README lists, and nothing more',
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_POOL: '0' } }, async (s) => {
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
			const writable = (c.Mounts as Json[]).filter((m) => m.RW).map((m) => m.Destination).sort();
			assert.deepEqual(writable.filter((d) => !['/tmp', '/home/sandbox'].includes(d)), ['/app/results', '/mnt/data']);
			assert.ok((c.Mounts as Json[]).every((m) => !/sock/.test(m.Source ?? '')), 'no socket of the host');
		}),
	},
	{
		name: 'limits change while a container lives, and memory never below what is in use',
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_POOL: '0', SANDBOX_MAX_MEMORY_LIMIT: '1g' } }, async (s) => {
			const id = idOf(await python(s, 'open("/dev/shm/x", "wb").write(bytes(150 << 20))'));
			const change = async (args: Json): Promise<Json> => {
				const r = await s.raw('sandbox_create', { session_id: id, ...args });
				return r.structuredContent!.result ?? r.structuredContent!;
			};
			const more = await change({ memory_mb: 800, cpus: 0.5, processes: 77 });
			if (w.daemon.product !== 'docker' && more.error) {
				assert.equal(more.error, 'limit_not_changeable', JSON.stringify(more));
				return;
			}
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
		name: 'inside: no right, no network, read-only, uid 1000, a filter, an own name',
		run: (w) => using('stdio', { profile: 'full', env: w.env }, async (s) => {
			const said = await python(s, `
import os, socket
status = dict(l.split(":", 1) for l in open("/proc/self/status") if ":" in l)
print([status[k].strip() for k in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")])
print(os.getuid(), os.getgid(), socket.gethostname(), [l.split(":")[0].strip() for l in open("/proc/net/dev").readlines()[2:]])
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
			assert.match(said, /True\nTrue\nTrue\nTrue\nno way out\ntables \[\] \[\]\ncaisson-init False False/);
			assert.doesNotMatch(said, /WROTE|CONNECTED/);
		}),
	},
	{
		name: 'memory, processes and the workspace have their limits; the sandbox goes on',
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_MEMORY_LIMIT: '96m', SANDBOX_PIDS_LIMIT: '32', SANDBOX_WORKSPACE_LIMIT: '4m' } }, async (s) => {
			const first = await python(s, 'open("kept.txt", "w").write("kept")');
			const session_id = idOf(first);
			assert.match(await python(s, 'x = bytearray(10**9)', { session_id }), /memory/i);
			assert.match(await python(s, 'import os\nn = 0\ntry:\n    while n < 200:\n        if os.fork() == 0: os.pause() if hasattr(os, "pause") else __import__("time").sleep(60)\n        n += 1\nexcept OSError as e: print("stopped", n < 64)', { session_id }), /stopped True/);
			assert.match(await python(s, 'try: open("big", "wb").write(b"x" * (8 << 20))\nexcept OSError as e: print(e.errno)', { session_id }), /^28$/m);
			assert.match(await python(s, 'print(open("kept.txt").read())', { session_id }), /kept/);
		}),
	},
	{
		name: 'a timeout ends the run and not the sandbox; variables stay; a checkpoint comes back',
		run: (w) => using('stdio', { profile: 'full', env: w.env }, async (s) => {
			const session_id = idOf(await python(s, 'n = 41', { stateful: true }));
			assert.match(await python(s, 'import time; time.sleep(60)', { session_id, timeout_s: 1 }), /tim(e|ed)[ -]?out/i);
			const said = await python(s, 'n + 1', { session_id, stateful: true });
			assert.match(said, /42/);
			assert.match(await python(s, 'import sys, os; os.system("echo from the shell"); print("err", file=sys.stderr)', { session_id }), /from the shell/);
		}),
	},
	{
		name: 'an image that is not there is named as such',
		async run(w) {
			const r = once({ ...w, env: { ...w.env, SANDBOX_IMAGE: 'not/there:ever' } }, '-c', 'print(1)');
			assert.notEqual(r.status, 0);
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
		name: 'nothing is left: containers, volumes, folders with sockets',
		async run(w) {
			const state = newStateDir();
			await using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_STATE_DIR: state } }, async (s) => {
				await python(s, 'print(1)');
				assert.ok(ours(w).length > 0);
			});
			await until('the end of the containers', () => ours(w).length === 0, 30_000);
			await until('the end of the volumes', () => w.daemon.volumes().filter((v) => v.startsWith('caisson-')).length === 0, 30_000);
			assert.deepEqual(fs.readdirSync(path.join(state, 'docker/cells')), []);
		},
	},
	{
		name: 'a container that is removed from outside is a lost sandbox; the next call has another one',
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_POOL: '0' } }, async (s) => {
			const session_id = idOf(await python(s, 'print(1)'));
			const run = python(s, 'import time; time.sleep(60)', { session_id });
			const [name] = await until('the container', () => ours(w).length === 1 && ours(w));
			assert.ok(w.daemon.ask('DELETE', `/v1.41/containers/${name}?force=1`).status < 300);
			assert.match(await run, /lost|gone|ended/i);
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
			assert.match(await run, /lost|gone|ended/i);
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
				assert.match(await python(s, 'print(1)'), /no space left|No space left/);
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
		name: 'a container that is stopped from outside, in a run and between runs, is a lost sandbox; nothing of it is left',
		run: (w) => using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_POOL: '0' } }, async (s) => {
			const session_id = idOf(await python(s, 'print(1)'));
			const [name] = ours(w);
			assert.ok(w.daemon.ask('POST', `/v1.41/containers/${name}/kill`).status < 300);
			assert.match(await python(s, 'print(1)', { session_id }), /session_not_found|not found|lost|gone|ended|No active session/i);
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
			assert.match(await run, /lost|gone|ended|tim(e|ed)[ -]?out/i);
			assert.match(await python(s, 'print(6 * 7)'), /^42$/m);
			await until('the end of the paused container', () => !ours(w).includes(name!), 60_000);
		}),
	},
	{
		name: 'no daemon at the start: one line that says where it was looked for',
		async run(w) {
			for (const host of ['unix:///nowhere/docker.sock', 'tcp://127.0.0.1:1', 'ssh://127.0.0.1', 'unix://relative']) {
				const r = once({ ...w, env: { ...w.env, DOCKER_HOST: host } }, '-c', 'print(1)');
				assert.notEqual(r.status, 0, host);
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
