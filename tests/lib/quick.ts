// SPDX-License-Identifier: Apache-2.0
// What `make test` runs, in ten minutes on a quiet machine with two cores: most files in one mode, and a part of all else that a seed chooses.

import type { Mode } from './env.ts';
import type { Sample } from './sample.ts';

/** They take more than 20 s each as root, and half of the time of all files. Only a part of them runs. */
export const long = ['add_file_address', 'branches', 'budget_rows', 'budgets', 'clock_rights', 'density', 'display', 'endings', 'expiry', 'extras', 'faults', 'hostile_index',
	'hostile_wheels', 'host_disk', 'image', 'image_import', 'image_wheels', 'kept', 'lean', 'links', 'output', 'packages', 'pip_inside', 'places', 'restart', 'source_builds',
	'stateful', 'swaps', 'textbook', 'torture', 'torture_all', 'turns_mcp', 'turns_rest', 'users', 'warm', 'workflows'];
const LONG_SHARE = 0.1;

/** A plain user's server does most here that root's does not: these files always run as a plain user, too. */
export const asUser = ['damaged_folder', 'files', 'lifecycle', 'own_walls', 'policies', 'privileges', 'total_disk'];
const USER_SHARE = 0.05;
const COLD_SHARE = 0.2;

/** Whether the file NAME runs in this mode. BASE: the mode that has a row of everything, root where it is possible. */
export function quick(name: string, mode: Mode, cold: boolean, base: Mode, sample: Sample): boolean {
	if (cold)
		return sample.picks(`${name} ${mode} cold`, COLD_SHARE);
	if (mode === base)
		return sample.picks(`${name} ${mode}`, LONG_SHARE, !long.includes(name));
	return sample.picks(`${name} ${mode}`, USER_SHARE, asUser.includes(name));
}
