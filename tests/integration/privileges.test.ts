// SPDX-License-Identifier: Apache-2.0
// What the server's two processes may do, as the kernel tells it: the front has neither capabilities nor
// most system calls; the monitor has only what making sandboxes needs.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { mode } from '../lib/env.ts';
import { descendants } from '../lib/process.ts';
import { using } from '../lib/session.ts';

function status(pid: number | string): Record<string, string> {
	return Object.fromEntries(readFileSync(`/proc/${pid}/status`, 'utf8').trim().split('\n').map((l) => l.split(/:\s+/, 2) as [string, string]));
}

/** Of the front's children, the one that makes the sandboxes. */
function monitorOf(front: number): number {
	for (const { pid } of descendants(front))
		if (readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'caisson-monitor') return pid;
	throw new Error('there is no monitor');
}

// linux/capability.h
const never = { NET_RAW: 13, IPC_LOCK: 14, SYS_MODULE: 16, SYS_RAWIO: 17, SYS_PACCT: 20, SYS_BOOT: 22, SYS_NICE: 23, SYS_TIME: 25,
	SYS_TTY_CONFIG: 26, AUDIT_CONTROL: 30, MAC_ADMIN: 33, SYSLOG: 34, PERFMON: 38, BPF: 39 };

describe('the processes of the server', () => {
	for (const wire of ['stdio', 'http'] as const)
		it(`the front over ${wire} has no rights and a filter`, async () => {
			await using(wire, {}, async (s) => {
				await s.call('sandbox_run_python', { code: 'print(1)' });
				const threads = readdirSync(`/proc/${s.pid}/task`);
				assert.ok(threads.length <= 40, `threads: ${threads.length}`);
				for (const thread of threads) {
					const front = status(`${s.pid}/task/${thread}`);
					for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapAmb']) assert.equal(BigInt(`0x${front[set]}`), 0n, set);
					assert.equal(front.NoNewPrivs, '1');
					assert.equal(front.Seccomp, '2');
					assert.notEqual(front.Uid.split('\t')[0], '0');
					if (mode === 'root') assert.equal(BigInt(`0x${front.CapBnd}`), 0n);
				}
			});
		});
	it('root\'s monitor keeps no capability and no system call that it does not need', { skip: mode === 'root' ? false : 'a plain user\'s monitor has no rights to give up' }, async () => {
		await using('http', {}, async (s) => {
			const monitor = status(monitorOf(s.pid));
			assert.equal(monitor.Seccomp, '2');
			assert.equal(monitor.Uid.split('\t')[0], '0');
			for (const set of ['CapPrm', 'CapEff', 'CapBnd'])
				for (const [name, bit] of Object.entries(never)) assert.equal(BigInt(`0x${monitor[set]}`) >> BigInt(bit) & 1n, 0n, `${set} ${name}`);
			assert.equal(BigInt(`0x${monitor.CapInh}`), 0n);
		});
	});
	it('the two loops get a processor first; threads, sandboxes and helpers do not', async () => {
		const niceOf = (path: string): number => Number(readFileSync(`${path}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ')[16]); // proc(5), field 19
		const first = mode === 'root' ? -10 : 0;
		await using('http', {}, async (s) => {
			await s.ok('print(1)');
			await s.upload('a.txt', 'a'); // a thread writes it
			const monitor = monitorOf(s.pid);
			assert.deepEqual([s.pid, monitor].map((pid) => niceOf(`/proc/${pid}`)), [first, first]);
			const threads = readdirSync(`/proc/${s.pid}/task`).map((t) => `/proc/${s.pid}/task/${t}`);
			const workers = threads.filter((t) => readFileSync(`${t}/comm`, 'utf8') === 'worker\n').map(niceOf);
			assert.ok(workers.length > 0 && workers.every((nice) => nice === (mode === 'root' ? 0 : 5)), `threads: ${workers}`);
			const others = descendants(s.pid).filter(({ pid }) => pid !== monitor);
			assert.ok(others.length > 0);
			for (const { pid, name } of others) {
				try {
					assert.ok(niceOf(`/proc/${pid}`) >= 0, `${pid} ${name}`);
				} catch (e) {
					if ((e as NodeJS.ErrnoException).code !== 'ENOENT') // it has ended
						throw e;
				}
			}
		});
	});
	it("the monitor's children have no library but the C library", { skip: process.env.LD_PRELOAD && 'a preloaded library may stand before it' }, async () => {
		await using('stdio', {}, async (s) => {
			await s.ok('print(1)');
			const inherited = new Set<string>();
			let file = '';
			for (const line of readFileSync(`/proc/${monitorOf(s.pid)}/smaps`, 'utf8').split('\n')) {
				file = /^[0-9a-f]+-[0-9a-f]+ .*?(?:(\/.*))?$/.exec(line)?.[1] ?? (/^[0-9a-f]+-/.test(line) ? '' : file);
				if (line.startsWith('VmFlags:') && file.includes('.so') && !/ dc( |$)/.test(line)) // proc(5): dc = not copied on fork
					inherited.add(file.replace(/^.*\//, ''));
			}
			assert.ok([...inherited].some((name) => name.startsWith('libc.so')), 'the C library is inherited');
			assert.deepEqual([...inherited].filter((name) => !/^(libc\.so|ld-|lib[aut]b?san)/.test(name)), []);
		});
	});
});
