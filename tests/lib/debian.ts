// SPDX-License-Identifier: Apache-2.0
// Programs that single suites need and that nothing else should install: some of their packages start a service.

import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { scratch, top } from './env.ts';

/**
 * PROGRAM from PATH, or from Debian's package, which is unpacked below build/FOLDER once and not installed; or why there is none. A package
 * that depends on more than libraries of every system needs more than this.
 */
export function findProgram(program: string, folder: string, of = program): { program: string } | { missing: string } {
	const places = ['usr/sbin', 'usr/bin'], inside = (root: string): string | undefined => places.map((f) => path.join(root, f, program)).find((f) => fs.existsSync(f));
	const installed = inside('/') ?? (process.env.PATH ?? '').split(':').filter(path.isAbsolute).map((f) => path.join(f, program)).find((f) => fs.existsSync(f));
	if (installed)
		return { program: installed };
	const own = path.join(top, 'build', folder, of);
	if (!inside(own)) {
		const fresh = scratch(of), got = spawnSync('apt-get', ['download', of], { cwd: fresh, encoding: 'utf8' });
		if (got.status !== 0)
			return { missing: `${program} is not installed and cannot be fetched: ${(got.stderr ?? String(got.error)).trim().split('\n').at(-1)}` };
		fs.mkdirSync(own, { recursive: true });
		for (const file of fs.readdirSync(fresh).filter((f) => f.endsWith('.deb')))
			spawnSync('dpkg', ['-x', path.join(fresh, file), own]);
	}
	const there = inside(own);
	return there ? { program: there } : { missing: `there is no ${program} in the package ${of}` };
}
