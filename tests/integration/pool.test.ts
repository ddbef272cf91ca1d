// SPDX-License-Identifier: Apache-2.0
// A sandbox that was made ahead of need has the policy of one that was made on demand: read from inside and from outside.
// And the pool follows the demand.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { describe, it } from 'node:test';
import { unlessEnforced } from '../lib/env.ts';
import { initsOf, othersOf } from '../lib/family.ts';
import { using, type Json, type Session } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const cold = process.env.CAISSON_TEST_COLD === '1' && 'the pool is off without warm starts';
const notRoot = process.getuid!() !== 0 && 'only root may look at the processes of a sandbox';
const waitMs = 30_000;

const inside = [
	'import json, os, re, resource',
	'status = dict(l.rstrip("\\n").split(":\\t", 1) for l in open("/proc/self/status") if ":\\t" in l)',
	'def refused(what, *args):',
	'    try: what(*args)',
	'    except OSError as e: return e.errno',
	'    return 0',
	'seen = {',
	'    "status": {k: status[k] for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters", "Uid", "Gid", "Groups")},',
	'    "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},',
	'    "disks": {p: [getattr(os.statvfs(p), f) for f in ("f_blocks", "f_files", "f_flag")] for p in ("/", "/tmp", "/mnt/data", "/home/sandbox", "/dev/shm")},',
	'    "mounts": sorted(re.sub("(id=|/dev/loop)[0-9]+", "", l.split(" ", 3)[3]) for l in open("/proc/self/mountinfo")),',
	'    "refused": [refused(os.setuid, 0), refused(os.chroot, "/"), refused(os.kill, 1, 9), refused(os.mkdir, "/etc/x"), refused(open, "/proc/1/mem"), refused(os.listdir, "/proc/1/fd")],',
	'    "environment": sorted(os.environ.items()), "umask": os.umask(0o22), "cwd": os.getcwd(), "nice": os.nice(0), "devices": sorted(os.listdir("/dev")),',
	'}',
	'print(json.dumps(seen))',
].join('\n');

function text(path: string): string {
	return fs.readFileSync(path, 'latin1').trim();
}

/** The values of all files of limits on the way up from a process's groups to the instance's. */
function groupLimits(pid: number): string[] {
	const found: string[] = [];
	for (const line of text(`/proc/${pid}/cgroup`).split('\n')) {
		const [, controllers, group] = /^\d+:([^:]*):(.*)$/.exec(line)!;
		const trees = controllers ? [`/sys/fs/cgroup/${controllers}`, `/sys/fs/cgroup/${controllers!.split(',')[0]}`] : ['/sys/fs/cgroup', '/sys/fs/cgroup/unified'];
		const tree = trees.find((t) => fs.existsSync(t + group!) && /caisson-/.test(group!));
		for (let at = group!; tree && /caisson-[0-9a-f]{8}\/./.test(at); at = at.slice(0, at.lastIndexOf('/')))
			for (const name of ['memory.limit_in_bytes', 'memory.memsw.limit_in_bytes', 'memory.max', 'memory.swap.max', 'pids.max', 'cpu.max', 'cpu.cfs_quota_us', 'cpu.cfs_period_us'])
				if (fs.existsSync(`${tree}${at}/${name}`))
					found.push(`${at.replace(/.*caisson-[0-9a-f]{8}\/s\d+/, '')}/${name} ${text(`${tree}${at}/${name}`)}`);
	}
	return found.sort();
}

/** The run that is NSPID in its sandbox, and the init of that sandbox. */
function processOf(s: Session, nspid: number): { pid: number; init: number } | undefined {
	for (const init of initsOf(s.pid))
		for (const p of othersOf(init)) {
			const numbers = /^NSpid:\s+(.*)$/m.exec(text(`/proc/${p.pid}/status`))![1]!.split(/\s+/);
			if (Number(numbers.at(-1)) === nspid && text(`/proc/${p.pid}/cgroup`) && isRun(p.pid))
				return { pid: p.pid, init: init.pid };
		}
	return undefined;
}

/** Only a run has the workspace as its working folder. */
function isRun(pid: number): boolean {
	return fs.readlinkSync(`/proc/${pid}/cwd`).endsWith('/mnt/data');
}

/** What the host sees of a run, and the init of its sandbox. */
async function outside(s: Session, id: string): Promise<{ seen: Json; init: number }> {
	const run = s.run('import os, time\nopen("pid", "w").write(str(os.getpid()))\nwhile not os.path.exists("go"): time.sleep(0.02)', id);
	const { pid, init } = await until('the run', async () => {
		const r = await s.call('sandbox_read_artifact', { session_id: id, path: '/mnt/data/pid' });
		return r.content_base64 && processOf(s, Number(Buffer.from(r.content_base64, 'base64').toString()));
	}, waitMs);
	const status = text(`/proc/${pid}/status`).split('\n');
	const seen = {
		status: status.filter((l) => /^(Cap|NoNewPrivs|Seccomp)/.test(l)),
		maps: ['uid_map', 'gid_map'].map((m) => text(`/proc/${pid}/${m}`).split(/\s+/)).map(([inner, , count]) => [inner, count]),
		setgroups: text(`/proc/${pid}/setgroups`),
		limits: text(`/proc/${pid}/limits`),
		score: text(`/proc/${pid}/oom_score_adj`),
		spaces: ['user', 'pid', 'mnt', 'net', 'ipc', 'uts', 'cgroup'].filter((n) => fs.readlinkSync(`/proc/${pid}/ns/${n}`) === fs.readlinkSync(`/proc/${process.pid}/ns/${n}`)),
		groups: groupLimits(pid),
		root: text(`/proc/${pid}/mountinfo`).split('\n').length,
	};
	assert.ok(Number(seen.score) > Number(text(`/proc/${init}/oom_score_adj`)), 'without memory the kernel kills the run first');
	await s.upload('go', 'x', id);
	assert.equal((await run).exit_code, 0);
	return { seen, init };
}

describe('the pool', { skip: cold }, () => {
	it('a claim has the policy of a creation', { skip: notRoot }, async () => {
		const env = { SANDBOX_MEMORY_LIMIT: unlessEnforced('memory') ? undefined : '300m', SANDBOX_PIDS_LIMIT: '77', SANDBOX_NOFILE_LIMIT: '333', SANDBOX_WORKSPACE_LIMIT: '99m', SANDBOX_TMP_LIMIT: '11m', SANDBOX_WORKSPACE_FILES: '1234' };
		const look = async (s: Session, id: string): Promise<{ inside: Json; seen: Json; init: number }> => ({ inside: JSON.parse((await s.ok(inside, id)).stdout), ...await outside(s, id) });
		const made = await using('stdio', { env: { ...env, SANDBOX_POOL: '0', SANDBOX_WARM: 'off' } }, (s) => look(s, 'made'));
		assert.equal(made.seen.spaces.length, 0, 'not one namespace is the host\'s');
		await using('stdio', { env }, async (s) => {
			await s.ok('pass', 'first');
			for (let i = 0; i < 2; i++) {
				await until('it to be warm', async () => (await s.ok('import sys; print("numpy" in sys.modules)', 'first')).stdout === 'True\n', waitMs);
				const waiting = await until('one that waits', () => initsOf(s.pid).length >= i + 2 && initsOf(s.pid).map((p) => p.pid), waitMs);
				const claimed = await look(s, `claimed${i}`);
				assert.ok(waiting.includes(claimed.init), 'claimed, not made');
				assert.deepEqual(claimed.inside, made.inside);
				assert.deepEqual(claimed.seen, made.seen);
			}
		});
	});

	it('(slow) grows with the demand, within its bound, and gives up what nobody needs', () =>
		using('stdio', { env: { SANDBOX_POOL_MAX: '4', SANDBOX_MAX_SESSIONS: '30' } }, async (s) => {
			await s.ok('pass', 'first');
			for (let round = 0; round < 3; round++)
				await Promise.all(Array.from({ length: 4 }, (_, i) => s.ok('pass', `r${round}i${i}`)));
			await until('four that wait', () => initsOf(s.pid).length === 13 + 4, waitMs);
			await until('fewer', () => initsOf(s.pid).length < 13 + 4, waitMs);
		}));
});
