// SPDX-License-Identifier: Apache-2.0
// The two users that tests run as, what this host can do for each, and the start of a suite as one of them.

import * as fs from 'node:fs';
import * as path from 'node:path';
import * as readline from 'node:readline';
import { spawn, spawnSync } from 'node:child_process';
import { imagesDir, PLAIN_UID, top, type Mode } from './env.ts';

export const isRoot = process.getuid!() === 0;
export const modes: Mode[] = ['root', 'user'];

/** The command line that runs ARGV as a user without rights. */
export function asPlain(argv: string[]): string[] {
	const id = String(PLAIN_UID);
	return isRoot ? ['setpriv', '--reuid', id, '--regid', id, '--clear-groups', '--', ...argv] : argv;
}

export interface Ability {
	mode: Mode;
	/** Why sandboxes cannot be made in this mode; undefined when they can. */
	missing?: string;
	/** Limits that the kernel enforces here, in the words of `caisson doctor`. */
	enforced: string[];
	/** The version of control groups, for titles. */
	cgroup: string;
}

/** What `caisson doctor --json` says of MODE. SCRATCH: a folder that every user can reach. ENGINE: settings of another engine than the native one. */
export function askDoctor(mode: Mode, binary: string, scratch: string, engine: Record<string, string> = {}): Ability {
	if (mode === 'root' && !isRoot)
		return { mode, missing: 'started without root', enforced: [], cgroup: '?' };
	const state = fs.mkdtempSync(path.join(scratch, `doctor-${mode}-`));
	if (fs.existsSync(imagesDir))
		fs.symlinkSync(imagesDir, path.join(state, 'images'));
	if (isRoot && mode === 'user')
		fs.chownSync(state, PLAIN_UID, PLAIN_UID);
	const own = [binary, 'doctor', '--json'];
	const argv = mode === 'user' ? asPlain(own) : own;
	const env = { PATH: process.env.PATH!, SANDBOX_STATE_DIR: state, HOME: state, ...engine };
	const r = spawnSync(argv[0]!, argv.slice(1), { encoding: 'utf8', env, timeout: 30_000 });
	try {
		const said = JSON.parse(r.stdout) as { cgroup: string; enforced: string[]; rows: { what: string; state: string; value: string }[] };
		const missing = said.rows.filter((row) => row.state === 'missing').map((row) => `${row.what}: ${row.value}`);
		return { mode, missing: missing.join('; ') || undefined, enforced: said.enforced, cgroup: said.cgroup };
	} catch {
		// Without a verdict the tests run, and show what is wrong.
		return { mode, enforced: [], cgroup: '? (doctor gives no verdict)' };
	}
}

/** Tells runRows() ROW. Node makes the pipe to a child non-blocking, and many short rows fill it. */
export function emitRow(row: unknown): void {
	let rest = Buffer.from(`${JSON.stringify(row)}\n`);
	while (rest.length > 0)
		try {
			rest = rest.subarray(fs.writeSync(1, rest));
		} catch (e) {
			if ((e as NodeJS.ErrnoException).code !== 'EAGAIN')
				throw e;
			Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5); // the reader needs the processor
		}
}

/**
 * Runs a file of `tests/suites` that prints one JSON row per line; gives its exit status. It has a mount namespace of its own:
 * the tests compare the mounts of the host before and after a case, and other programs mount things meanwhile.
 */
export function runRows<Row>(file: string, env: Record<string, string | undefined>, show: (r: Row) => void, o: { under?: string[]; net?: boolean } = {}): Promise<number> {
	const apart = isRoot ? ['unshare', '--mount', ...(o.net ? ['--net'] : []), '--propagation', 'private', '--'] : [];
	const argv = [...apart, ...(o.under ?? []), process.execPath, path.join(top, 'tests/suites', file)];
	return new Promise((resolve) => {
		const child = spawn(argv[0]!, argv.slice(1), {
			stdio: ['ignore', 'pipe', 'inherit'],
			env: { ...process.env, NODE_NO_WARNINGS: '1', CAISSON_TEST_IMAGES: imagesDir, ...env },
		});
		readline.createInterface({ input: child.stdout }).on('line', (l) => show(JSON.parse(l) as Row));
		child.on('close', (code) => resolve(code ?? 1));
	});
}
