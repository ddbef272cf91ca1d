// SPDX-License-Identifier: Apache-2.0
// What the gate runs of tests/integration: every file as root with warm interpreters, a few also otherwise, without cases whose title says
// that they take long or assert a time. make verify runs everything.

import type { Mode } from './env.ts';

/** Cases that run over both transports (session.ts, matrix) run over one. `(slow)`: more than a second and a half on a quiet machine. `(timing)`: it asserts how long something takes, which says nothing on a machine that others use. */
export const LEFT_OUT = '\\((slow|timing)\\)| over http ';

/** What these files assert is that acknowledged data is there, or that a wall holds: of their failures only a deadline is forgiven. */
export const strictFiles: readonly string[] = ['backup', 'damaged_disk', 'damaged_folder', 'deaths', 'host_disk', 'kept', 'own_walls', 'privileges', 'restart', 'strangers'];

/** A plain user's server does most here that root's does not. */
export const asUser: readonly string[] = ['damaged_folder', 'files', 'lifecycle', 'own_walls', 'policies', 'privileges', 'total_disk'];
/** What must look the same when no warm interpreter is there. */
export const asCold: readonly string[] = ['endings'];

/** Whether the file NAME runs in this mode. BASE: the mode that has every file, root where it is possible. */
export function inCore(name: string, mode: Mode, cold: boolean, base: Mode): boolean {
	if (cold)
		return mode === base && asCold.includes(name);
	return mode === base || asUser.includes(name);
}
