// SPDX-License-Identifier: Apache-2.0
// What the container of the server promises: packaging/container/README.md.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { createHash } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { gunzipSync } from 'node:zlib';
import { top } from '../../lib/env.ts';
import type { Daemon } from '../../lib/daemon.ts';
import type { Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import { Box, docker, flags, folder, KEY, service, without } from './box.ts';

export interface World {
	daemon: Daemon;
	archive: string;
	image: string;
	/** The server with the flags of compose.yaml. Cases leave it as they found it. */
	box: Box;
}

export interface ContainerCase {
	name: string;
	run(w: World): Promise<void> | void;
}

interface Row {
	id: string;
	state: string;
	value: string;
	mend: string;
}

/** What `caisson doctor` says in a container with these flags. */
function doctor(w: World, argv: string[]): { status: number; enforced: string[]; row(id: string): Row | undefined } {
	const r = docker(w.daemon, ['run', '--rm', '--network', 'none', ...argv, w.image, 'doctor', '--json']);
	assert.ok(r.stdout.startsWith('{'), r.stderr);
	const said = JSON.parse(r.stdout) as { status: number; enforced: string[]; rows: Row[] };
	return { ...said, row: (id) => said.rows.find((row) => row.id === id) };
}

const processes = (id: string): string[] => fs.readdirSync('/proc').filter((pid) => {
	try {
		return /^\d+$/.test(pid) && fs.readFileSync(`/proc/${pid}/cgroup`, 'utf8').includes(id);
	} catch {
		return false; // it has ended
	}
});
/** Starts a server with ARGV, which lack WHAT. It must make a sandbox; or, with NAMES, end with a text that names it. */
async function tried(w: World, what: string, argv: string[], names: RegExp | null, command: string[] = []): Promise<void> {
	const started = docker(w.daemon, ['run', '--detach', '--name', 'tried', '--network', 'none', ...argv, w.image, ...command]);
	assert.equal(started.code, 0, `without ${what}: ${started.stderr}`);
	const box = new Box(w.daemon, 'tried');
	try {
		if (!names) {
			await box.ready();
			const made = box.ask('POST', '/sandboxes', {});
			assert.match(String(box.run(made.id as string, 'print(6 * 7)').stdout), /42/, `without ${what}: ${JSON.stringify(made)}`);
			return;
		}
		await until(`the end of a server without ${what}`, () => box.state().Status !== 'running', 20_000);
		assert.notEqual(box.state().ExitCode, 0, what);
		assert.match(box.logs(), names, `without ${what}`);
	} finally {
		box.remove();
	}
}

const field = (box: Box, pid: string, name: string): string => new RegExp(`^${name}:\\s+(.*)$`, 'm').exec(box.exec('cat', `/proc/${pid}/status`).stdout)?.[1] ?? '';
const COMFORTABLE = 'compose.yaml', LEAST = 'compose.least.yaml';

export const cases: ContainerCase[] = [
	{
		name: 'the archive is an OCI layout and a Docker archive; its digests are right; the health check needs no other program',
		run(w) {
			const get = (name: string): Buffer => spawnSync('tar', ['-xOf', w.archive, name], { maxBuffer: 2 ** 31 - 1 }).stdout;
			const json = (name: string): Json => JSON.parse(get(name).toString()) as Json;
			const sha256 = (b: Buffer): string => `sha256:${createHash('sha256').update(b).digest('hex')}`;
			const blob = (b: { digest: string; size: number }): Buffer => {
				const body = get(`blobs/sha256/${b.digest.slice(7)}`);
				assert.deepEqual([sha256(body), body.length], [b.digest, b.size]);
				return body;
			};
			assert.equal(json('oci-layout').imageLayoutVersion, '1.0.0');
			const manifest = JSON.parse(blob(json('index.json').manifests[0]).toString()) as Json;
			const config = JSON.parse(blob(manifest.config).toString()) as Json;
			const layers = (manifest.layers as { digest: string; size: number }[]).map((l) => gunzipSync(blob(l)));
			assert.deepEqual(config.rootfs.diff_ids, layers.map(sha256));
			assert.deepEqual(config.config.Healthcheck.Test, ['CMD', 'caisson', 'ps', '--health']);
			assert.deepEqual(Object.keys(config.config.ExposedPorts), ['8080/tcp', '8181/tcp']);
			assert.match(config.created, /^20\d\d-/);
			assert.deepEqual(json('manifest.json')[0].RepoTags, [w.image]);
			const listed = layers.flatMap((input) => spawnSync('tar', ['-tv', '--numeric-owner'], { input, encoding: 'utf8', maxBuffer: 1 << 28 }).stdout.split('\n'));
			const special = listed.filter((l) => /^.{3}[sS]|^.{6}[sS]/.test(l) && l.startsWith('-')).map((l) => l.split(' ').at(-1));
			assert.deepEqual(special.sort(), ['usr/bin/newgidmap', 'usr/bin/newuidmap'], 'programs that change their user');
			assert.deepEqual(listed.filter((l) => /^[bcps]/.test(l)), [], 'devices, pipes');
			assert.ok(!listed.some((l) => / (usr\/)?bin\/(curl|wget)$/.test(l)));
		},
	},
	{
		name: 'seccomp.json is what its tables say; both compose files mount no socket and ask for no privileges',
		run() {
			const r = spawnSync(path.join(folder, 'make-seccomp'), ['--check'], { encoding: 'utf8' });
			assert.equal(r.status, 0, r.stderr);
			const kept = [...fs.readFileSync(path.join(top, 'src/walls/monitor_caps.tbl.h'), 'utf8').matchAll(/^K\(CAP_(\w+)/gm)].map((m) => m[1]!);
			for (const file of [COMFORTABLE, LEAST]) {
				const s = service(file);
				assert.doesNotMatch(fs.readFileSync(path.join(folder, file), 'utf8').replaceAll(/^#.*$/gm, ''), /docker\.sock|privileged|host\b.*:|pid:/);
				assert.deepEqual(s.get('cap_drop'), ['ALL']);
				assert.equal(s.get('read_only'), 'true');
				assert.deepEqual((s.get('cap_add') as string[] | undefined ?? []).filter((c) => !kept.includes(c)), [], 'only what the monitor keeps');
				assert.ok((s.get('ports') as string[]).every((p) => p.startsWith('127.0.0.1:')));
				const table = fs.readFileSync(path.join(folder, 'README.md'), 'utf8');
				for (const flag of [...(s.get('cap_add') as string[] | undefined ?? []), ...(s.get('security_opt') as string[]), ...(s.get('devices') as string[] | undefined ?? [])])
					assert.ok(table.includes(`\`${flag}\``), `README.md explains ${flag}`);
			}
		},
	},
	{
		name: 'with the flags of compose.yaml every limit holds, the health check is healthy, and the server has no more rights than on a host',
		async run(w) {
			const policy = w.box.ask('GET', '/policy');
			assert.deepEqual(policy.best_effort, [], JSON.stringify(policy));
			assert.deepEqual([policy.engine, policy.stored.disk, policy.session.workspace, policy.server.files], ['native', 'enforced', 'disk', 'landlock']);
			await until('the health check', () => w.box.state().Health.Status === 'healthy', 20_000);
			const wrong = w.box.exec('caisson', 'ps', '--health', '--listen', '127.0.0.1:9');
			assert.deepEqual([wrong.code, /no server at 127\.0\.0\.1 port 9/.test(wrong.stderr)], [1, true]);
			const h = w.box.inspect().HostConfig as Json;
			assert.deepEqual([h.Privileged, h.ReadonlyRootfs, h.PidMode, h.IpcMode === 'host'], [false, true, '', false]);
			assert.ok(!(w.box.inspect().Mounts as { Source: string }[]).some((m) => /\.sock/.test(m.Source)));
			const front = w.box.exec('sh', '-c', 'for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = caisson ] && echo ${p#/proc/}; done').stdout.trim().split('\n').filter((p) => p !== '1');
			assert.ok(front.some((p) => field(w.box, p, 'CapEff') === '0000000000000000' && field(w.box, p, 'Uid') !== '0\t0\t0\t0'), 'the front has given up its rights');
			const user = w.box.exec('caisson', 'user', 'add', 'somebody', '--password', 'none');
			assert.equal(user.code, 0, user.stderr);
			assert.equal(BigInt(`0x${field(w.box, '1', 'CapEff')}`), 1n << 5n, 'the first process may only send signals');
		},
	},
	{
		name: 'the workflow of the README: a client over HTTP and one over docker exec; code, files, variables',
		run(w) {
			const line = (id: number, method: string, params: unknown): string => JSON.stringify({ jsonrpc: '2.0', id, method, params });
			const hello = line(1, 'initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } });
			const call = (code: string): string => line(2, 'tools/call', { name: 'sandbox_run_python', arguments: { code, stateful: true } });
			const said = docker(w.daemon, ['exec', '--interactive', w.box.name, 'env', '-u', 'SANDBOX_API_KEY', 'caisson', 'stdio'],
				`${hello}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n${call('n = 6\nprint(n * 7)')}\n`);
			assert.match(said.stdout, /"id":2.*42/s, said.stderr);
			assert.doesNotMatch(said.stderr, /not_bridged/, 'it shares the engine of the server');
			const pid = String(w.box.state().Pid);
			const http = (body: string, ...more: string[]): string => spawnSync('nsenter', [`--net=/proc/${pid}/ns/net`, '--', 'curl', '-sSi', '--max-time', '60', '-H', 'Content-Type: application/json',
				'-H', 'Accept: application/json, text/event-stream', ...more, '-d', body, 'http://127.0.0.1:8181/mcp'], { encoding: 'utf8' }).stdout;
			assert.match(http(hello), /^HTTP\/1\.1 401/, 'without the key');
			const auth = ['-H', `Authorization: Bearer ${KEY}`];
			const session = /^mcp-session-id: (\S+)/im.exec(http(hello, ...auth))![1]!;
			assert.match(http(call('print(6 * 8)'), ...auth, '-H', `Mcp-Session-Id: ${session}`, '-H', 'MCP-Protocol-Version: 2025-06-18'), /48/);
			const id = w.box.make();
			assert.match(w.box.run(id, 'open("a.txt", "w").write("kept")\nprint(2**10)').stdout as string, /1024/);
			assert.match(w.box.run(id, 'print(open("a.txt").read())').stdout as string, /kept/);
			w.box.ask('DELETE', `/sandboxes/${id}`);
		},
	},
	{
		name: 'memory, processes and disk have their limits, and the groups lie below that of the container',
		run(w) {
			const id = w.box.make({ memory_mb: 96 });
			assert.equal(w.box.run(id, 'x = bytearray(10**9)').reason, 'oom');
			assert.match(w.box.run(id, 'print("goes on")').stdout as string, /goes on/);
			const container = w.box.inspect().Id as string;
			const groups = processes(container).map((p) => fs.readFileSync(`/proc/${p}/cgroup`, 'utf8')).filter((g) => /memory:|0::/.test(g));
			assert.ok(groups.some((g) => new RegExp(`${container}/caisson-[0-9a-f]+/s\\d+`).test(g)), groups.join('\n'));
			w.box.ask('DELETE', `/sandboxes/${id}`);
			const few = w.box.make({ processes: 40 });
			assert.match(w.box.run(few, 'import os\nn = 0\ntry:\n    while n < 2000:\n        if os.fork() == 0: __import__("signal").pause()\n        n += 1\nexcept OSError: print("stopped", n < 60)').stdout as string, /stopped True/);
			w.box.ask('DELETE', `/sandboxes/${few}`);
		},
	},
	{
		name: 'a sandbox sees nothing of the container',
		run(w) {
			const id = w.box.make();
			const said = w.box.run(id, `
import os
print("key", any("${KEY}" in v for v in os.environ.values()), "SANDBOX_API_KEY" in os.environ)
print("files", [p for p in ("/usr/bin/caisson", "/var/lib/caisson", "/usr/lib/caisson", "/run/caisson/server.sock", "/dev/loop-control", "/sys/fs") if os.path.exists(p)])
print("paths", any(w in open("/proc/self/mountinfo").read() for w in ("docker", "/var/lib", "volumes")))
print("processes", len([p for p in os.listdir("/proc") if p.isdigit()]) < 4, os.getuid())
print("rights", [l.split()[1] for l in open("/proc/self/status") if l.startswith(("CapEff", "CapBnd", "Seccomp:"))])
`).stdout as string;
			assert.equal(said.trim(), "key False False\nfiles []\npaths False\nprocesses True 1000\nrights ['0000000000000000', '0000000000000000', '2']");
			w.box.ask('DELETE', `/sandboxes/${id}`);
		},
	},
	{
		name: 'the first process waits for orphans, and nothing stays a zombie',
		async run(w) {
			// Zombies of which the first process is the parent. Between two statements of a session the interpreter that holds its
			// variables is stopped, and may have a zombie of its own until the next one.
			const orphans = (): string[] => Array.from(w.box.exec('sh', '-c', 'grep -hE "^(Name|State|PPid):" /proc/[0-9]*/status').stdout.matchAll(/Name:\t(.*)\nState:\tZ.*\nPPid:\t1\n/g), (m) => m[1]!);
			for (let i = 0; i < 3; i++)
				assert.equal(w.box.exec('sh', '-c', '(sh -c "exit 3" & exec true) & (true &) ; exit 0').code, 0);
			let left: string[] = [];
			await until('the end of the orphans', () => (left = orphans()).length === 0).catch((e: Error) => {
				e.message += `: ${left.join(', ')}`;
				throw e;
			});
			assert.equal(w.box.exec('cat', '/proc/1/comm').stdout.trim(), 'caisson');
		},
	},
	{
		name: 'a stored sandbox survives a restart and a new container; the server ends within 10 s, in the middle of a run, and leaves nothing',
		async run(w) {
			const id = w.box.make({ kind: 'stored', name: 'kept' });
			w.box.run(id, 'open("/mnt/data/kept.txt", "w").write("from the first container")');
			const container = w.box.inspect().Id as string;
			w.box.ask('POST', `/sandboxes/${id}/runs`, { code: 'import time; time.sleep(600)' });
			const ended = w.box.stop();
			assert.equal(ended.code, 0, w.box.logs());
			assert.ok(ended.ms < 10_000, `${ended.ms} ms`);
			assert.deepEqual(processes(container), []);
			assert.doesNotMatch(spawnSync('losetup', ['--list', '--noheadings', '--output', 'BACK-FILE'], { encoding: 'utf8' }).stdout, new RegExp(path.basename(w.daemon.folder)));
			assert.equal(docker(w.daemon, ['start', w.box.name]).code, 0);
			await w.box.ready();
			assert.match(w.box.run(id, 'print(open("/mnt/data/kept.txt").read())').stdout as string, /from the first container/);
			assert.equal(w.box.stop().code, 0);
			w.box.remove();
			const again = await Box.start(w.daemon, w.box.name, flags(COMFORTABLE, 'comfortable'), w.image);
			assert.notEqual(again.inspect().Id, container);
			assert.match(again.run(id, 'print(open("/mnt/data/kept.txt").read())').stdout as string, /from the first container/);
			again.ask('DELETE', `/sandboxes/${id}`);
		},
	},
	{
		name: 'the flags of compose.least.yaml: no capability at all; code runs, and the policy says what is weaker',
		async run(w) {
			const box = await Box.start(w.daemon, 'least', flags(LEAST, 'least'), w.image);
			try {
				assert.equal(field(box, '1', 'CapBnd'), '0000000000000000');
				const policy = box.ask('GET', '/policy');
				assert.deepEqual((policy.best_effort as string[]).sort(), ['cpu', 'memory', 'own_uid']);
				assert.equal(policy.stored.disk, 'best_effort');
				const id = box.make({ kind: 'stored', name: 'kept' });
				assert.match(box.run(id, 'open("/mnt/data/a", "w").write("kept")\nimport os\nprint(os.getuid(), os.listdir("/sys"), os.listdir("/sys/devices"))').stdout as string, /1000 \['devices'\] \['system'\]/);
				assert.equal(box.stop().code, 0, box.logs());
				assert.equal(docker(w.daemon, ['start', 'least']).code, 0);
				await box.ready();
				assert.match(box.run(id, 'print(open("/mnt/data/a").read())').stdout as string, /kept/);
			} finally {
				box.remove();
			}
		},
	},
	{
		name: 'doctor is silent about flags where none is missing, and names each that is',
		run(w) {
			const all = flags(COMFORTABLE, 'doctor'), least = flags(LEAST, 'doctor-least');
			assert.equal(doctor(w, all).row('container'), undefined);
			assert.deepEqual(doctor(w, all).enforced.filter((c) => ['memory', 'cpu', 'pids', 'disk', 'own_uid'].includes(c)).length, 5);
			for (const [option, value, flag, id] of [
				['--device', 'loop-control', "--device /dev/loop-control --device-cgroup-rule 'b 7:* rmw'", 'persistent'],
				['--device-cgroup-rule', 'b 7', "--device /dev/loop-control --device-cgroup-rule 'b 7:* rmw'", 'persistent'],
				['--cap-add', 'MKNOD', '--cap-add MKNOD', 'persistent'],
				['--cap-add', 'SYS_ADMIN', '--cap-add SYS_ADMIN', 'namespaces'],
				['--security-opt', 'seccomp=', '--security-opt seccomp=seccomp.json', 'namespaces'],
			] as const) {
				const said = doctor(w, without(all, option, value));
				assert.ok(said.row('container')?.mend.includes(flag), `without ${option} ${value}: ${JSON.stringify(said.row('container'))}`);
				assert.notEqual(said.row(id)?.state, 'ok', `without ${option} ${value}`);
			}
			assert.match(doctor(w, without(least, '--security-opt', 'systempaths')).row('container')?.mend ?? '', /systempaths=unconfined/);
			assert.match(doctor(w, without(least, '--security-opt', 'seccomp=')).row('container')?.mend ?? '', /seccomp=seccomp\.json/);
			assert.match(doctor(w, []).row('container')?.mend ?? '', /--cap-add SYS_ADMIN.*seccomp=seccomp\.json/);
		},
	},
	{
		name: 'without one flag of compose.yaml the server works, or it ends and names what is missing',
		async run(w) {
			const all = flags(COMFORTABLE, 'single');
			for (const [option, value, names] of [
				['--volume', '', /--volume caisson-state:/],
				['--tmpfs', '/run', /--tmpfs \/run/],
				['--tmpfs', '/tmp', null],
				['--cap-drop', 'ALL', null],
				['--cap-add', 'SYS_ADMIN', /--cap-add SYS_ADMIN/],
				['--cap-add', 'SETUID', /--cap-add SETUID/],
				['--cap-add', 'SETGID', /--cap-add SETGID/],
				['--cap-add', 'SETPCAP', /--cap-add SETPCAP/],
				['--cap-add', 'CHOWN', /--cap-add CHOWN/],
				['--cap-add', 'SYS_PTRACE', /--cap-add SYS_PTRACE/],
				['--cap-add', 'DAC_OVERRIDE', null],
				['--cap-add', 'MKNOD', null],
				['--security-opt', 'seccomp=', /--security-opt seccomp=seccomp\.json/],
				['--security-opt', 'no-new-privileges', null],
				['--device', 'loop-control', null],
				['--device-cgroup-rule', 'b 7', null],
			] as const)
				await tried(w, `${option} ${value}`, without(all, option, value), names);
			await tried(w, 'any flag but --read-only', ['--read-only', '--env', `SANDBOX_API_KEY=${KEY}`], /--cap-add SYS_ADMIN .*--security-opt seccomp=seccomp\.json/);
		},
	},
	{
		name: 'the same of compose.least.yaml; the state folder may be a link',
		async run(w) {
			const all = flags(LEAST, 'single-least');
			for (const [option, value, names] of [
				['--user', '', /--cap-add SYS_ADMIN/],
				['--volume', '', /--volume caisson-state:/],
				['--tmpfs', '/run', null],
				['--tmpfs', '/tmp', /--tmpfs \/tmp/],
				['--security-opt', 'seccomp=', /--security-opt seccomp=seccomp\.json/],
				['--security-opt', 'systempaths=', /--security-opt systempaths=unconfined/],
				['--security-opt', 'no-new-privileges', null],
			] as const)
				await tried(w, `${option} ${value}`, without(all, option, value), names);
			await tried(w, 'a state folder that is no link', ['--entrypoint', 'sh', '--env', 'SANDBOX_STATE_DIR=/var/lib/caisson/link', ...flags(COMFORTABLE, 'linked')], null,
				['-c', 'mkdir -p /var/lib/caisson/real && ln -sfn real /var/lib/caisson/link && exec /usr/lib/caisson/entrypoint serve']);
		},
	},
	{
		name: 'a server that cannot make sandboxes ends with the reason, and docker sees its status',
		run(w) {
			const r = docker(w.daemon, ['run', '--rm', '--network', 'none', ...without(flags(COMFORTABLE, 'refused'), '--env', 'SANDBOX_API_KEY'), w.image]);
			assert.deepEqual([r.code, /SANDBOX_API_KEY/.test(r.stderr)], [78, true], r.stderr);
		},
	},
];
