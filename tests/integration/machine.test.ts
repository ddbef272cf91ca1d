// SPDX-License-Identifier: Apache-2.0
// What programs are told about the machine: the limits and processes of their sandbox, never those of the host.

import assert from 'node:assert/strict';
import * as os from 'node:os';
import { describe, it } from 'node:test';
import { facts, using, type Json } from '../lib/session.ts';

const MIB = 1 << 20;
const python = `import os, psutil, multiprocessing
m = psutil.virtual_memory()
before = m.used
kept = bytearray(64 << 20)
again = psutil.virtual_memory()
print(m.total >> 20, again.used - before >= 60 << 20, again.available < m.available, 0 <= again.percent <= 100)
print(os.cpu_count(), os.process_cpu_count(), multiprocessing.cpu_count(), psutil.cpu_count(), psutil.cpu_count(logical=False))
print(os.sched_getaffinity(0) == set(psutil.Process().cpu_affinity()), len(os.sched_getaffinity(0)), os.sysconf("SC_NPROCESSORS_ONLN"), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20)
print(os.path.exists("/proc/meminfo"), os.access("/proc/cpuinfo", os.R_OK), os.access("/proc/cpuinfo", os.W_OK), os.path.isfile("/proc/nosuch"))
print(psutil.swap_memory().total, len(psutil.cpu_percent(percpu=True)), psutil.cpu_times().user >= 0)
p = psutil.Process()
import time
print(abs(time.time() - p.create_time()) < 600, p.memory_info().rss > 1 << 20, [x.pid for x in psutil.process_iter()] == [p.pid])
print('/tmp' in [x.mountpoint for x in psutil.disk_partitions(all=True)], isinstance(psutil.disk_partitions(), list), psutil.net_io_counters().bytes_recv, psutil.disk_io_counters())
print([(name, [x.address for x in all]) for name, all in psutil.net_if_addrs().items()], psutil.net_if_stats()['lo'].isup)`;

describe('figures of the machine', () => {
	const env = { SANDBOX_MEMORY_LIMIT: '300m', SANDBOX_CPU_LIMIT: '0.7', SANDBOX_ALLOW_WEAKER: 'memory,cpu' };
	for (const [way, more, settings] of [['warm', {}, {}], ['in a session', { stateful: true }, {}], ['cold', {}, { SANDBOX_WARM: 'off' }]] as [string, Json, Record<string, string>][])
		it(`(slow) Python, ${way}`, () => using('stdio', { profile: 'full', env: { ...env, ...settings } }, async (s) => {
			const r = facts(await s.raw('sandbox_run_python', { code: python, session_id: 'm', ...more }));
			assert.equal(r.stdout, '300 True True True\n1 1 1 1 1\nTrue 1 1 300\nTrue True False False\n0 1 True\nTrue True True\nTrue True 0 None\n[(\'lo\', [\'127.0.0.1\'])] True\n', JSON.stringify(r));
		}));

	for (const [way, settings] of [['warm', {}], ['cold', { SANDBOX_WARM: 'off' }]] as [string, Record<string, string>][])
		it(`a program that lowers its own priority, ${way}`, () => using('stdio', { profile: 'full', env: { ...env, ...settings } }, async (s) => {
			const lower = 'import os\nme = os.getpid()\nos.setpriority(os.PRIO_PROCESS, me, 3)\nprint(os.getpriority(os.PRIO_PROCESS, 0))\nfor other in 1, me + 1000:\n try: os.setpriority(os.PRIO_PROCESS, other, 5)\n except PermissionError as e: print(e.errno)\n';
			const r = facts(await s.raw('sandbox_run_python', { code: `${lower}import psutil; psutil.Process().nice(5); print(psutil.Process().nice())`, session_id: 'm' }));
			assert.equal(r.stdout, '3\n1\n1\n5\n', JSON.stringify(r));
			const next = facts(await s.raw('sandbox_run_python', { code: 'import os; print(os.nice(0))', session_id: 'm' }));
			assert.equal(next.stdout, '0\n', JSON.stringify(next));
		}));

	it('commands', () => using('stdio', { profile: 'full', env }, async (s) => {
		const run = async (command: string): Promise<string> => {
			const r = facts(await s.raw('sandbox_run_shell', { command, session_id: 'm' }));
			assert.deepEqual([command, r.exit_code, r.stderr], [command, 0, '']);
			return r.stdout;
		};
		assert.equal(await run('nproc'), '1\n');
		assert.match(await run('lscpu'), /\nCPU\(s\): +1\nOn-line CPU\(s\) list: +0\n[^]*\nModel name: +\S[^]*\nThread\(s\) per core: +1\nCore\(s\) per socket: +1\nSocket\(s\): +1\n/);
		assert.equal(await run('nproc --all; getconf _NPROCESSORS_ONLN; getconf _NPROCESSORS_CONF; echo $(($(getconf _PHYS_PAGES) * $(getconf PAGE_SIZE) >> 20))'), '1\n1\n1\n300\n');
		assert.equal(await run('for f in /proc/meminfo /sys/devices/system/cpu/cpu0/topology/core_id /proc/nosuch /sys/devices/system/cpu/cpu1/topology/core_id; do [ -f $f ] && [ -r $f ] && [ ! -w $f ] && stat -c %F $f; done; cd /sys/devices/system/cpu/; cat cpu0/topology/core_siblings cpu0/topology/thread_siblings_list'), 'regular empty file\nregular empty file\n00000001\n0\n');
		assert.equal(await run('cd /sys/devices/system/cpu && cat possible online ./present /proc/nosuch present 2>/dev/null || :'), '0\n0\n0\n');
		assert.match(await run('free -m'), /^ +total +used .*\nMem: +300 +\d+ +2\d\d .*\nSwap: +0 +0 +0\n$/);
		assert.match(await run('free'), /\nMem: +307200 /);
		assert.match(await run('free -h'), /\nMem: +300\.0Mi /);
		assert.match(await run('sleep 5 & ps aux; kill %1'), /^USER +PID %CPU %MEM .*\n(sandbox .*\n)*sandbox +\d+ .* sleep 5\n/);
		assert.match(await run('ps -ef'), /^UID +PID +PPID .*\n(sandbox .*\n)+$/);
		assert.match(await run('ps -o pid,comm'), /^ +PID COMMAND\n/);
		assert.match(await run('uptime'), /^ \d\d:\d\d:\d\d up 0:0\d, /);
		assert.match(await run('top -b -n1'), /PID USER/);
		assert.match(await run('python3 -c "import os, psutil; print(os.cpu_count(), psutil.virtual_memory().total)"'), new RegExp(`^1 ${300 * MIB}\n$`));
		assert.equal(await run('OMP_NUM_THREADS=2 nproc'), '2\n', 'a program may choose otherwise');
	}));

	it('files of /proc and /sys that others have tell of the sandbox, in every program', () => using('stdio', { profile: 'full', env }, async (s) => {
		const command = (text: string): Promise<Json> => s.raw('sandbox_run_shell', { session_id: 'm', command: text }).then(facts);
		const first = (await command('cat /proc/cpuinfo; grep -c ^processor /proc/cpuinfo')).stdout;
		assert.match(first, /^processor\t: 0\n(.*\n)*cpu cores\t: 1\n(.*\n)*1\n$/);
		if (process.arch === 'x64')
			assert.match(first, /\nmodel name\t: .*\n(.*\n)*flags\t\t:.* sse2 /);
		assert.match((await command('cat /proc/meminfo')).stdout, /^MemTotal: +307200 kB\nMemFree: +(29|30)\d{4} kB\n/);
		assert.match((await command('cat /proc/uptime /proc/loadavg /proc/version /sys/devices/system/cpu/online')).stdout, /^\d+\.\d\d \d+\.\d\d\n0\.00 0\.00 0\.00 1\/\d+ 0\nLinux version .*\n0\n$/);
		assert.match((await command('cat /proc/stat')).stdout, /^cpu  (\d+ ){9}0\ncpu0 (\d+ ){9}0\nintr 0\n(.*\n)*btime \d+\n/);
		assert.match((await command('awk \'/MemTotal/ {print $2}\' /proc/meminfo; top -bn1 | grep "MiB Mem"')).stdout, /^307200\nMiB Mem : +300\.0 total/);
		for (const [text, why] of [['cat /proc/kallsyms /proc/1/environ /proc/diskstats', /No such file/], ['echo x > /proc/meminfo', /No such file/], ['cat proc/meminfo', /No such file/]] as const)
			assert.match((await command(`cd /mnt/data; ${text}`)).stderr, why, text);
		const code = `import os
fd = os.open('/proc/meminfo', os.O_RDONLY)
print(os.get_inheritable(fd), open('/proc/meminfo').readline().split()[1], 'LD_PRELOAD' in os.environ, os.read(fd, 8))`;
		for (const stateful of [false, true])
			assert.equal(facts(await s.raw('sandbox_run_python', { session_id: 'm', code, stateful })).stdout, "False 307200 False b'MemTotal'\n");
		await command(`printf '%s' "${code.replace(/'/g, '"').replace(/"/g, '\\"')}" > p.py`);
		assert.equal((await command('python3 p.py')).stdout, "False 307200 False b'MemTotal'\n");
	}));

	it('the processes of a run are named by lines of a usual length', () => using('stdio', { profile: 'full' }, async (s) => {
		const code = `import subprocess
long = [len(line) for line in subprocess.check_output(['ps', 'aux'], text=True).splitlines()]
print(len(long) > 2, max(long) < 700)`;
		for (const stateful of [false, true])
			assert.equal(facts(await s.raw('sandbox_run_python', { session_id: 'm', code, stateful })).stdout, 'True True\n');
		assert.equal(facts(await s.raw('sandbox_run_python', { session_id: 'm', code: "open('/proc/self/cmdline', 'rb').read()", stateful: true })).result, "b'python3\\x00'");
	}));

	it('without a CPU limit the processors are those that there are', () => using('stdio', { profile: 'full', env: { SANDBOX_CPU_LIMIT: '0' } }, async (s) => {
		const r = facts(await s.raw('sandbox_run_python', { code: 'import os\nlen(os.sched_getaffinity(0)) == os.cpu_count(), "OMP_NUM_THREADS" in os.environ', session_id: 'm' }));
		assert.equal(r.result, os.availableParallelism() > 0 ? '(True, False)' : '');
		const all = facts(await s.raw('sandbox_run_shell', { command: 'nproc; getconf _NPROCESSORS_ONLN; lscpu --parse=core | grep -v "#" | sort -u | wc -l; lscpu | sed -n "s/^\\(Core\\|Socket\\)[^:]*: *//p"', session_id: 'm' }));
		const [n, online, cores, perSocket, sockets] = all.stdout.trim().split('\n');
		assert.deepEqual([online, cores, perSocket, sockets], [n, n, n, '1'], JSON.stringify(all));
	}));
});
