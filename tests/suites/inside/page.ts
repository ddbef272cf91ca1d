// SPDX-License-Identifier: Apache-2.0
// docs/inside.md, from the tables of what runs and of what cannot pass.

import { counted, places, sum } from './counts.ts';
import { known, skips } from './known.ts';
import { packs } from './modules.ts';

function table(): string {
	const cell = (n: number): string => n.toLocaleString('en');
	return places.filter((p) => !counted(p).startsWith('0 ')).map((p) => `| ${[p.replace(' ', ', '), counted(p), ...[...sum(p, true), ...sum(p, false)].map(cell)].join(' | ')} |`).join('\n');
}

function names(): string {
	const modules = packs.flatMap((p) => p.modules.map((m) => m.name));
	const library = modules.filter((n) => n.startsWith('test.')).map((n) => n.split('.')[1]!.replace(/^test_/, '').replace(/^multiprocessing_.*/, 'multiprocessing'));
	return [...new Set(library)].sort().join(', ');
}

export function markdown(): string {
	const forbidden = known.reduce((n, k) => n + k.tests.length, 0);
	const own = (packages: boolean): number => packs.filter((p) => packages !== p.files.includes('std')).reduce((n, p) => n + p.modules.length, 0);
	const rows = known.map((k) => `| ${k.why} | ${k.tests.map((t) => `\`${t.replace(/^test\./, '')}\``).join(', ')} |`);
	return `# What works inside

Python and its packages must work inside the walls. \`make inside\` runs their own tests in sandboxes of the built server, as root and as a plain user,
with warm and with cold interpreters (\`tests/suites/inside\`). \`make inside ARGS=--quick\` takes a minute and a half: as root with warm interpreters,
and as a plain user with cold ones. This page is made from the tables of the suite, and every run compares.

| mode | modules | standard library: passed | left out | cannot | packages: passed | left out | cannot |
|---|---|---|---|---|---|---|---|
${table()}

The figures come from runs (\`tests/run inside --report FILE\`, \`tests/run inside --count FILE\`); the column \`modules\` says how many modules those runs had. In all modes together ${forbidden} tests cannot pass; the table below lists them.
The suite fails if another test fails, or if a listed test passes. It also fails if a test skips itself for an unknown reason. There are ${skips.length} groups of known reasons: other
systems, other builds of Python, missing programs and socket families. If a reason is an error of a system call, it counts only for the tests that it is listed for.

* The standard library, ${own(false)} modules and classes: ${names()}.
* numpy, scipy, pandas, pyarrow, matplotlib (their own tests), pip, seaborn, openpyxl, reportlab, Pillow, sympy, lxml (ours, \`tests/suites/inside/own\`): ${own(true)} modules.

| cannot, because | tests |
|---|---|
${rows.join('\n')}

Two kinds of tests are not run: those that profile or debug another process (\`perf\`, \`sys.remote_exec\`, \`pdb -p\`), because no process may read or trace another one, and those that need a network.`;
}
