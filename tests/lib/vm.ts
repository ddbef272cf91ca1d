// SPDX-License-Identifier: Apache-2.0
// The product on a host with cgroup v2: a virtual machine (tests/suites/vm), as rows of whoever runs it.

import * as path from 'node:path';
import { spawn } from 'node:child_process';
import { imagesDir, top } from './env.ts';

export interface VmRow {
	name: string;
	held: boolean;
	why?: string; // what the machine said about its failures
}

export interface VmResult {
	skipped?: string; // why this host cannot do it; then there are no rows
	rows: VmRow[];
}

/** Boots it once, for the rows of `make test` or for those of `make hostile`. A machine that ended early is a row that failed. */
export function runVm(build: string, what: 'engine' | 'hostile'): Promise<VmResult> {
	return new Promise((resolve) => {
		const child = spawn(path.join(top, 'tests/suites/vm/run'), [build, path.dirname(imagesDir), what], { stdio: ['ignore', 'pipe', 'pipe'] });
		let out = '';
		child.stdout.on('data', (b: Buffer) => (out += b.toString()));
		child.stderr.on('data', (b: Buffer) => (out += b.toString()));
		child.on('error', (e) => (out += e.message));
		child.on('close', (code) => {
			if (code === 77)
				return resolve({ skipped: /^skip: (.*)/m.exec(out)?.[1] ?? 'no reason given', rows: [] });
			const details = out.split('\n').filter((l) => l.startsWith('# ')).join('\n');
			const rows = [...out.matchAll(/^(ok|not ok) (.*)/gm)].map(([, word, name]): VmRow => ({ name: name!, held: word === 'ok', why: word === 'ok' ? undefined : details }));
			if (rows.length === 0 || (code !== 0 && rows.every((r) => r.held)))
				rows.push({ name: 'the machine', held: false, why: `status ${code}\n${out.slice(-3000)}` });
			resolve({ rows });
		});
	});
}
