// SPDX-License-Identifier: Apache-2.0
// Faults below a process that lives: system calls of it that fail for a while (strace).

import { spawn, type ChildProcess } from 'node:child_process';
import { until } from './wait.ts';

/** While BODY runs, these system calls of a process fail; `threads`: of all its threads. */
export async function failing<T>(pid: number, calls: string, error: string, body: () => Promise<T>, o: { threads?: boolean } = {}): Promise<T> {
	const tracer: ChildProcess = spawn('strace', [...(o.threads ? ['-f'] : []), '-p', String(pid), '-e', `trace=${calls}`, '-e', `inject=${calls}:error=${error}`], { stdio: ['ignore', 'ignore', 'pipe'] });
	let said = '';
	tracer.stderr!.on('data', (b: Buffer) => (said += b.toString()));
	const ended = new Promise((resolve) => tracer.once('close', resolve));
	try {
		await until('the tracer', () => {
			if (tracer.exitCode !== null)
				throw new Error(said);
			return /attached/.test(said);
		}, 30_000);
		return await body();
	} finally {
		tracer.kill('SIGINT');
		await ended;
	}
}
