// SPDX-License-Identifier: Apache-2.0
// Environments of Python with pinned packages, for suites whose clients are written in Python.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { top } from './env.ts';

function must(argv: string[], hint: string): void {
	const r = spawnSync(argv[0]!, argv.slice(1), { stdio: ['ignore', 2, 2] });
	if (r.status !== 0)
		throw new Error(`${argv[0]} ended with ${r.status ?? r.error?.message}: ${hint}`);
}

/** A Python of this machine that is VERSION ("3.12") or newer, if there is one. */
export function newerPython(version: string): string | undefined {
	const check = `import sys; sys.exit(sys.version_info < (${version.split('.').join(', ')}))`;
	return ['/usr/bin/python3', 'python3', 'python3.14', 'python3.13', 'python3.12'].find((python) => spawnSync(python, ['-c', check]).status === 0);
}

/** The folder with the programs of the environment NAME, which has the packages of LIST. An environment that is only half made is made again. */
export function pythonEnvironment(name: string, list: string, python = fs.existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3'): string {
	const folder = path.join(top, 'build/python', name);
	const stamp = path.join(folder, '.installed-for');
	if (!fs.existsSync(stamp) || !fs.readFileSync(stamp).equals(fs.readFileSync(list))) {
		fs.rmSync(folder, { recursive: true, force: true });
		must([python, '-m', 'venv', folder], "no environment for Python: run 'make setup'");
		must([path.join(folder, 'bin/pip'), 'install', '--quiet', '--disable-pip-version-check', '--only-binary', ':all:', '-r', list],
			"pip could not fetch the packages: check the network or pip's index setting");
		fs.copyFileSync(list, stamp);
	}
	return path.join(folder, 'bin');
}
