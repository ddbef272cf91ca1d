// SPDX-License-Identifier: Apache-2.0
// docs/inside.md, from the tables of what runs and of what cannot pass.

import { known, skips } from './known.ts';
import { packs } from './modules.ts';

/** What runs of all modules counted at least, in each mode. */
const counted = { library: 15_900, packages: 12_700 };

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

The walls must not stop what Python and its packages promise. \`make inside\` runs their own tests in sandboxes of the built server, as root and as a plain user,
with warm and with cold interpreters (\`tests/inside\`; \`make inside ARGS=--quick\` is the part of a minute and a half that CI runs, as root with warm interpreters
and as a plain user with cold ones). This page is made from its tables, and every run compares.

**More than ${counted.library.toLocaleString('en')} tests of the standard library and more than ${counted.packages.toLocaleString('en')} of the packages pass; ${forbidden} cannot.** A failure that is not in the table below fails the run, and so does a listed test that passes, or one that
leaves itself out for a reason that nobody wrote down (${skips.length} groups of them: other systems, other builds of Python, programs and families of sockets that are not there).

* The standard library, ${own(false)} modules and classes: ${names()}.
* numpy, scipy, pandas, pyarrow, matplotlib (their own tests), pip, seaborn, openpyxl, reportlab, Pillow, sympy, lxml (ours, \`tests/inside/own\`): ${own(true)} modules.

| cannot, because | tests |
|---|---|
${rows.join('\n')}

Not tried: what profiles or debugs another process (\`perf\`, \`sys.remote_exec\`, \`pdb -p\`), because no process may read or trace another one; and what needs a network.`;
}
