// SPDX-License-Identifier: Apache-2.0
// SIGKILL of the front, the monitor, both, or an init, during runs: what may be left, and what must not be touched.

import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { describe, it } from 'node:test';
import { inspect } from 'node:util';
import { monitorOf } from '../lib/family.ts';
import { Census, cgroupFolders, descendants, mounts, namespaceOf, alive } from '../lib/process.ts';
import { binary, freePort, mode } from '../lib/env.ts';
import { RawClient } from '../lib/raw.ts';
import { open, serve, using, wires, type Session } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const FREEZER = '/sys/fs/cgroup/freezer';

/** Two sessions with stubborn runs and something daemonised in each. */
async function busySession(s: Session): Promise<void> {
	for (const id of ['one', 'two']) {
		let early: unknown; // a run that ends by itself says why here
		void s.run([
			'import os, signal, subprocess, time',
			'for g in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(g, signal.SIG_IGN)',
			'subprocess.Popen(["sleep", "500"], start_new_session=True)',
			'open("started", "w").close()',
			'time.sleep(500)',
		].join('\n'), id).then((r) => { early = r; }, (e: unknown) => { early = e; });
		await until(`the run in ${id}`, async () => {
			assert.equal(early, undefined, `the run in ${id} ended: ${inspect(early)}`);
			const l = await s.call('sandbox_list_artifacts', { session_id: id });
			return l.artifacts?.length > 0;
		}, 30_000).catch((e: Error) => {
			e.message += `\nthe end of the server's log:\n${fs.readFileSync(s.log, 'utf8').slice(-2000)}`;
			throw e;
		});
	}
}

/** Names of the cgroup folders that the sandboxes below a front are in; none on a host where it has no cgroups. */
function instancesOf(front: number): Set<string> {
	const names = new Set<string>();
	for (const p of descendants(front)) {
		let text = '';
		try {
			text = fs.readFileSync(`/proc/${p.pid}/cgroup`, 'latin1');
		} catch {
			continue; // it has ended meanwhile
		}
		for (const m of text.matchAll(/caisson-[0-9a-f]{8}/g))
			names.add(m[0]);
	}
	return names;
}

const victims: [string, (front: number) => number[]][] = [
	['the front', (front) => [front]],
	['the monitor', (front) => [monitorOf(front).pid]],
	['both', (front) => [front, monitorOf(front).pid]],
	['both, the monitor first', (front) => [monitorOf(front).pid, front]],
];

describe('SIGKILL', { concurrency: 2 }, () => {
	for (const wire of wires) {
		for (const [who, pick] of victims) {
			it(`of ${who} during runs leaves no process and no mount (${wire})`, async () => {
				const mountsBefore = mounts().length;
				const s = await open(wire, { env: { SANDBOX_EXEC_TIMEOUT_S: '600' } });
				await busySession(s);
				const census = new Census();
				const living = census.take(s.pid);
				assert.ok(living.length >= 8, `front, monitor, two inits, four processes of runs at least: ${living.map((p) => p.name)}`);
				for (const pid of pick(s.pid))
					process.kill(pid, 'SIGKILL');
				try {
					await census.gone(20_000); // a front without a monitor ends, too
					assert.equal(mounts().length, mountsBefore);
				} finally {
					for (const p of census.survivors())
						process.kill(p.pid, 'SIGKILL');
					await s.end().catch(() => undefined);
				}
			});
		}
	}
	it('of the monitor: stdio answers what waits, says why and ends with a status', async () => {
		const c = new RawClient({ env: { SANDBOX_EXEC_TIMEOUT_S: '600' } }, ['stdio', '--profile', 'full']);
		await c.initialize();
		await c.tool('sandbox_run_python', { code: 'pass', session_id: 'a' });
		const run = c.tool('sandbox_run_python', { code: 'import time; time.sleep(500)', session_id: 'a' });
		const monitor = monitorOf(c.pid);
		process.kill(c.pid, 'SIGSTOP');
		process.kill(monitor.pid, 'SIGKILL');
		await until('the end of the monitor', () => !alive(monitor));
		const unread = c.tool('sandbox_run_python', { code: 'pass', session_id: 'b' });
		process.kill(c.pid, 'SIGCONT');
		for (const call of [run, unread])
			assert.match(JSON.stringify(await call.catch((e: Error) => e.message)), /sandbox_lost|engine_unavailable/);
		const { code } = await c.program.exit;
		assert.equal(code, 1);
		assert.match(c.program.stderr, /ERROR: the process that makes sandboxes has ended/);
	});
	it('(slow) of the monitor: serve is not ready, with the reason, and ends with a status', async () => {
		const { program, base } = await serve({ profile: 'full' });
		process.kill(monitorOf(program.pid).pid, 'SIGKILL');
		const body = await until('what /readyz says', async () => {
			const r = await fetch(`${base}/readyz`);
			return r.status === 503 && await r.json() as { status: string; code: string; reason: string };
		});
		assert.equal(body.status, 'not ready');
		assert.equal(body.code, 'engine_unavailable');
		assert.match(body.reason, /has ended/);
		const { code } = await program.exit;
		assert.equal(code, 1);
		assert.match(program.stderr, /engine_lost/);
	});
	it('of a small process that opens files or builds images: each call says so at once, the rest goes on', async () => {
		await using('http', { profile: 'full', env: { SANDBOX_UPLOAD_LOCAL_ROOTS: '*' } }, async (s) => {
			for (const name of ['caisson-opener', 'caisson-reopen', 'caisson-images']) {
				const found = descendants(s.pid).filter((p) => p.ppid === s.pid && p.name === name);
				assert.equal(found.length, 1, name);
				process.kill(found[0]!.pid, 'SIGKILL');
			}
			const log = (word: string): Promise<unknown> => until(word, () => fs.readFileSync(s.log, 'utf8').includes(word));
			await log('opener_lost');
			await log('image_builder_lost');
			process.kill(s.pid, 'SIGHUP');
			await log('not_reloaded');
			const build = await fetch(`${s.base}/api/v1/images`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"base"}' });
			assert.match(await build.text(), /restart the server/);
			assert.equal(build.status, 500);
			assert.match(JSON.stringify(await s.raw('sandbox_add_file', { local_path: '/etc/hostname', session_id: 'a' })), /has ended; restart the server/);
			assert.equal((await s.run('print(1)')).stdout, '1\n');
		});
	});
	for (const wire of wires)
		it(`of a front whose sockets somebody else has leaves no process (${wire})`, { skip: process.getuid!() !== 0 && 'taking the descriptors of another process needs root' }, async () => {
			const s = await open(wire, { profile: 'all', env: { SANDBOX_EXEC_TIMEOUT_S: '600' } });
			const census = new Census();
			const holder = spawn(path.join(path.dirname(binary), 'tests/integration/hold_sockets'), [String(s.pid)], { stdio: ['pipe', 'pipe', 'inherit'] });
			try {
				await busySession(s);
				const names = census.take(s.pid).map((p) => p.name);
				for (const name of ['caisson-monitor', ...(wire === 'stdio' ? ['caisson-opener'] : ['caisson-reopen', 'caisson-images'])])
					assert.ok(names.includes(name), `${name}: ${names}`);
				const [said] = await once(holder.stdout, 'data') as [Buffer];
				assert.match(said.toString(), /^holds [1-9]/);
				process.kill(s.pid, 'SIGKILL');
				await census.gone(20_000);
			} finally {
				holder.kill('SIGKILL');
				for (const p of census.survivors())
					process.kill(p.pid, 'SIGKILL');
				await s.end().catch(() => undefined);
			}
		});
	it('what is left of cgroups goes at the next start of any instance; a live one is not touched', async () => {
		const other = await open('stdio');
		try {
			await other.ok('open("mine", "w").write("1")', 'alive');
			const s = await open('stdio', { env: { SANDBOX_EXEC_TIMEOUT_S: '600' } });
			await busySession(s);
			// Other instances make and remove theirs meanwhile: look at this one's alone.
			const instances = instancesOf(s.pid);
			assert.equal(instances.size, mode === 'root' ? 1 : instances.size);
			const made = cgroupFolders().filter((c) => instances.has(/caisson-[0-9a-f]{8}/.exec(c)?.[0] ?? ''));
			const census = new Census();
			census.take(s.pid);
			for (const pid of [s.pid, monitorOf(s.pid).pid])
				process.kill(pid, 'SIGKILL');
			await census.gone(10_000);
			await s.end().catch(() => undefined);
			await using('stdio', {}, async (next) => {
				await next.ok('pass');
				await until('the dead instance\'s cgroups to be gone', () => {
					const now = new Set(cgroupFolders());
					return made.every((c) => !now.has(c));
				}, 3000);
				assert.equal((await other.ok('print(open("mine").read())', 'alive')).stdout, '1\n');
			});
			assert.equal((await other.ok('print(open("mine").read())', 'alive')).stdout, '1\n');
		} finally {
			await other.end();
		}
	});
	it('(slow) a group that is still in use when its server ends goes at the next start', { skip: mode !== 'root' && 'there may be no control groups' }, async () => {
		const s = await open('stdio', { env: { SANDBOX_EXEC_TIMEOUT_S: '600' } });
		let guest: ChildProcess | undefined;
		try {
			await busySession(s);
			const [name] = instancesOf(s.pid);
			const leaf = cgroupFolders().find((c) => c.includes(`/${name}/`) && c.endsWith('/run'));
			assert.ok(leaf, `no group of runs of ${name}`);
			guest = spawn('sleep', ['500'], { stdio: 'ignore' });
			fs.writeFileSync(`${leaf}/cgroup.procs`, String(guest.pid)); // stands for a process that takes long to end
			const monitor = monitorOf(s.pid);
			await s.end();
			await until('the end of the monitor', () => !alive(monitor));
			assert.ok(fs.existsSync(leaf));
			guest.kill('SIGKILL');
			await once(guest, 'exit');
			await using('stdio', {}, async (next) => {
				await next.ok('pass');
				assert.deepEqual(cgroupFolders().filter((c) => c.includes(name!)), []);
			});
		} finally {
			guest?.kill('SIGKILL');
			await s.end().catch(() => undefined);
		}
	});
	it('(slow) a sandbox that ends slowly does not hold up its server, and its group goes when it has ended', {
		skip: mode !== 'root' ? 'the group of another user cannot be frozen' : !fs.existsSync(FREEZER) && 'only control groups v1 let a killed process wait',
	}, async () => {
		const s = await open('stdio', { profile: 'full' });
		const ice = `${FREEZER}/slow-${s.pid}`;
		try {
			await s.call('sandbox_run_python', { code: 'x = 1', session_id: 'slow', stateful: true }); // whose interpreter stays
			const [name] = instancesOf(s.pid);
			const monitor = monitorOf(s.pid);
			const init = descendants(s.pid).find((p) => p.name === 'caisson-init');
			assert.ok(init && name);
			fs.mkdirSync(ice);
			fs.writeFileSync(`${ice}/cgroup.procs`, String(init.pid)); // stands for a disk that has gigabytes to write
			fs.writeFileSync(`${ice}/freezer.state`, 'FROZEN');
			await s.end();
			assert.ok(alive(monitor) && alive(init), 'the monitor waits for the sandbox');
			assert.notDeepEqual(cgroupFolders().filter((c) => c.includes(name)), []);
			fs.writeFileSync(`${ice}/freezer.state`, 'THAWED');
			await until('the end of the monitor', () => !alive(monitor));
			assert.deepEqual(cgroupFolders().filter((c) => c.includes(name)), []);
		} finally {
			if (fs.existsSync(ice)) {
				fs.writeFileSync(`${ice}/freezer.state`, 'THAWED');
				await until('the end of the frozen sandbox', () => fs.readFileSync(`${ice}/cgroup.procs`, 'utf8') === '');
				fs.rmdirSync(ice);
			}
			await s.end().catch(() => undefined);
		}
	});
	it('of an init ends that sandbox with a typed error, not the others', async () => {
		await using('stdio', { env: { SANDBOX_EXEC_TIMEOUT_S: '600', SANDBOX_POOL: '0', SANDBOX_HTTP_PORT: String(await freePort()) } }, async (s) => {
			const known = new Set(descendants(s.pid).map((p) => p.pid));
			await s.ok('open("old", "w").close()', 'victim');
			const own = namespaceOf(process.pid, 'pid');
			const inits = descendants(s.pid).filter((p) => !known.has(p.pid) && (namespaceOf(p.pid, 'pid') ?? own) !== own);
			assert.ok(inits.length >= 1);
			await s.ok('open("f", "w").close()', 'bystander');
			const victim = inits.sort((a, b) => Number(a.started) - Number(b.started))[0]!;
			process.kill(victim.pid, 'SIGKILL');
			await until('the end of init', () => !alive(victim));
			const after = await s.run('import os; print(os.listdir())', 'victim'); // the loss is told, or the id already has a new sandbox
			if (after.error === undefined)
				assert.equal(after.stdout, '[]\n', 'the new sandbox has nothing of the old one');
			else
				assert.ok(['execution_failed', 'session_not_found'].includes(after.error), JSON.stringify(after));
			assert.deepEqual((await s.list('bystander')).map((a) => a.filename), ['f']);
			await s.call('sandbox_close_session', { session_id: 'victim' });
			await s.ok('print(1)', 'victim');
		});
	});
});
