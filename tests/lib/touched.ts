// SPDX-License-Identifier: Apache-2.0
// Which suites a change needs: prints those whose rooms the last 40 commits touched, each on a line with the seconds that it needs to say
// something on a quiet machine, in the order of a seed. With names: those, whatever was touched.
//   node tests/lib/touched.ts SEED [NAME…]

import { spawnSync } from 'node:child_process';
import { top } from './env.ts';
import { Sample } from './sample.ts';

const COMMITS = 40;

/** A suite of the gate, its seconds (with the build or the packages that it needs first), and the beginnings of paths that it tests. */
const suites: Readonly<Record<string, readonly [number, ...string[]]>> = {
	hostile: [40, 'src/base/', 'src/engine/', 'src/egress/', 'src/http/', 'src/mcp/', 'src/packages/', 'src/sandbox/', 'runtime/', 'tests/suites/hostile/'],
	engines: [60, 'src/engine/', 'src/sandbox/', 'runtime/init/', 'tests/suites/engines/'],
	api: [70, 'src/api/', 'src/http/', 'tests/suites/api/'],
	ui: [45, 'src/api/', 'src/app/', 'src/web/', 'web/', 'tests/suites/ui/'],
	interop: [80, 'src/bridge/', 'src/mcp/', 'src/tools/', 'src/transport/', 'tests/suites/interop/'],
	inside: [60, 'src/engine/', 'images/', 'runtime/', 'tests/suites/inside/'],
	container: [80, 'src/cmd/', 'packaging/container/', 'tests/suites/container/'],
	alerts: [30, 'packaging/prometheus/', 'src/api/rest/stats.c', 'src/fleet/router/figures.c', 'tests/suites/alerts/'],
	'kill-points': [120, 'src/engine/', 'src/sandbox/', 'src/store/', 'runtime/init/', 'runtime/zygote/', 'tests/suites/kill/'],
	sanitizers: [300, 'src/', 'runtime/init/', 'runtime/zygote/'],
	'fuzz-smoke': [240, 'src/base/', 'src/config/', 'src/egress/', 'src/engine/', 'src/http/', 'src/image/', 'src/mcp/', 'src/tools/', 'tests/fuzz/'],
};

const log = spawnSync('git', ['-C', top, 'log', `-${COMMITS}`, '--format=', '--name-only'], { encoding: 'utf8', maxBuffer: 1 << 26 });
const files = new Set(log.stdout.split('\n').filter(Boolean));
const [seed, ...names] = process.argv.slice(2);
const chosen = Object.keys(suites).filter((name) => names.length > 0 ? names.includes(name) : suites[name]!.slice(1).some((room) => [...files].some((f) => f.startsWith(room as string))));
process.stdout.write(new Sample(true, seed).order(chosen, (name) => name, () => false).map((name) => `${name} ${suites[name]![0]}\n`).join(''));
