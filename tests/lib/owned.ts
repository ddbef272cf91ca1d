// SPDX-License-Identifier: Apache-2.0
// Temporary folders with an owner: gone at the end of their process, at a signal, or at the start of a later run when the process was killed.

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';

/** In each folder: the namespace of pids, the pid and the start time of its process. */
const OWNER = '.owner';

/** `undefined`: there is no such process, or it is dead and waits for its parent. */
function startTime(pid: number | string): string | undefined {
	try {
		const fields = fs.readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)!.split(' ');
		return fields[0] === 'Z' ? undefined : fields[19];
	} catch {
		return undefined;
	}
}

function namespace(): string {
	return fs.readlinkSync('/proc/self/ns/pid');
}

function remove(dir: string): void {
	fs.rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
}

/** Removes from `parent` what begins with one of `prefixes` and belongs to a process that is gone; all else stays. */
export function sweep(parent: string, ...prefixes: string[]): void {
	for (const name of fs.readdirSync(parent).filter((n) => prefixes.some((p) => n.startsWith(p)))) {
		const dir = path.join(parent, name);
		try {
			const [ns, pid, started] = fs.readFileSync(path.join(dir, OWNER), 'utf8').split(' ');
			if (fs.lstatSync(dir).isDirectory() && ns === namespace() && startTime(pid!) !== started)
				remove(dir);
		} catch {
			// Nobody's word for it, or somebody else's folder.
		}
	}
}

let watched = false;
/** `process.exit` is what runs the handlers of 'exit'; a signal alone does not. */
function watchSignals(): void {
	if (watched)
		return;
	watched = true;
	for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
		process.once(signal, () => process.exit(128 + os.constants.signals[signal]));
}

/** A new folder in `parent` that goes with this process. */
export function owned(prefix: string, parent = os.tmpdir()): string {
	const dir = fs.mkdtempSync(path.join(parent, prefix));
	fs.writeFileSync(path.join(dir, OWNER), `${namespace()} ${process.pid} ${startTime('self')}`);
	process.on('exit', () => remove(dir));
	watchSignals();
	return dir;
}
