// SPDX-License-Identifier: Apache-2.0
// How many times slower than a quiet machine this one is now, 1 to 8: deadlines of tests are multiplied by it (env.ts), and the gate has so much
// more time. Prints the figure:
//   node tests/lib/slowness.ts

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';

/** One round on two quiet cores of a virtual machine, where a page fault costs 3 µs. */
const QUIET_MS = 230;
const ROUNDS = 5;
const MOST = 8;

function must(command: string, ...args: string[]): void {
	if (spawnSync(command, args, { stdio: 'ignore' }).error)
		throw new Error(`${command} is missing: make setup`);
}

/** What tests wait for: interpreters that start, namespaces, computing, and a disk that confirms. */
function round(folder: string): number {
	const begin = performance.now();
	for (let i = 0; i < 4; i++)
		must('/usr/bin/python3', '-c', 'import json, subprocess');
	for (let i = 0; i < 8; i++) // without the right to make them the start of the program is what counts
		must('unshare', '--user', '--map-root-user', '--mount', '--pid', '--net', '--fork', 'true');
	const bytes = Buffer.alloc(1 << 20, 'x');
	for (let i = 0; i < 64; i++)
		createHash('sha256').update(bytes).digest();
	const fd = fs.openSync(path.join(folder, 'file'), 'w');
	for (let i = 0; i < 16; i++) {
		fs.writeSync(fd, bytes, 0, 1 << 16);
		fs.fsyncSync(fd);
	}
	fs.closeSync(fd);
	return performance.now() - begin;
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'caisson-slowness-'));
const rounds = Array.from({ length: ROUNDS }, () => round(folder)).sort((a, b) => a - b);
fs.rmSync(folder, { recursive: true });
const median = rounds[ROUNDS >> 1]!;
if (process.argv.includes('--rounds'))
	console.error(rounds.map(Math.round).join(' '));
console.log(Math.min(MOST, Math.max(1, median / QUIET_MS)).toFixed(2));
