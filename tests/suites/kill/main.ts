// SPDX-License-Identifier: Apache-2.0
// Builds the product with kill points, runs every try in every mode that this host can do, and prints the table.

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import * as readline from 'node:readline';
import { spawn, spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { imagesDir, openCopy, PLAIN_UID, top, type Mode } from '../../lib/env.ts';
import { owned, sweep } from '../../lib/owned.ts';
import { makeTestingBuild, testingBuild } from '../../lib/testing-build.ts';
import { points } from './points.ts';
import { scenarios } from './scenarios.ts';
import type { Row } from './suite.ts';

const { values: opt } = parseArgs({
	options: {
		case: { type: 'string', default: '' },
		mode: { type: 'string', multiple: true, default: ['root', 'user'] },
		jobs: { type: 'string', default: '2' },
		image: { type: 'string', default: 'base' },
		list: { type: 'boolean', default: false },
		quick: { type: 'boolean', default: false },
		help: { type: 'boolean', short: 'h', default: false },
	},
});
if (opt.help) {
	console.log('usage: tests/suites/kill/run [--case REGEX] [--mode root|user]… [--jobs N] [--image NAME] [--quick] [--list]\n' +
		'REGEX is matched with SCENARIO/POINT/VICTIM. --quick: root kills the process itself and one other at each point, the plain user the process itself.');
	process.exit(0);
}
if (opt.list) {
	for (const p of points)
		console.log(`${p.name.padEnd(18)}${p.who.padEnd(13)}${p.what}  [${scenarios.filter((s) => s.points.includes(p.name)).map((s) => s.name).join(', ')}]`);
	console.log(`\n${points.length} points`);
	process.exit(0);
}

const isRoot = process.getuid!() === 0;
sweep(os.tmpdir(), 'caisson-kill-', 'caisson-test-');
const scratch = owned('caisson-kill-');
fs.chmodSync(scratch, 0o755);
const binary = path.join(scratch, 'caisson'); // a path that the plain user can reach
const count = { passed: 0, failed: 0, skipped: 0 };

function fail(text: string): void {
	console.log(`FAILED  ${text}`);
	count.failed++;
}

/** Why sandboxes cannot be made in that mode; undefined = they can. */
function missing(mode: Mode): string | undefined {
	const id = String(PLAIN_UID);
	const argv = [...(isRoot && mode === 'user' ? ['setpriv', '--reuid', id, '--regid', id, '--clear-groups', '--'] : []), binary, 'doctor', '--json'];
	const r = spawnSync(argv[0]!, argv.slice(1), { encoding: 'utf8', env: { PATH: process.env.PATH, SANDBOX_STATE_DIR: path.dirname(imagesDir) } });
	try {
		const rows = (JSON.parse(r.stdout).rows as { state: string; what: string; value: string }[]).filter((x) => x.state === 'missing');
		return rows.length > 0 ? rows.map((x) => `${x.what}: ${x.value}`).join('; ') : undefined;
	} catch {
		return undefined; // no verdict is no excuse
	}
}

function runPart(mode: Mode, part: number, parts: number, show: (r: Row) => void): Promise<number> {
	return new Promise((resolve) => {
		// A mount namespace of its own, so that what others mount meanwhile is not taken for a leak.
		const argv = [...(isRoot ? ['unshare', '--mount', '--propagation', 'private', '--'] : []), path.join(testingBuild, 'tests/suites/kill/nursery'), process.execPath, path.join(top, 'tests/suites/kill/suite.ts')];
		const child = spawn(argv[0]!, argv.slice(1), {
			stdio: ['ignore', 'pipe', 'inherit'],
			env: {
				...process.env, NODE_NO_WARNINGS: '1', CAISSON_TEST_MODE: mode, CAISSON_TEST_BINARY: binary, CAISSON_TEST_IMAGES: imagesDir, CAISSON_TEST_IMAGE: opt.image,
				KILL_PART: `${part}/${parts}`, KILL_CASE: opt.case, KILL_OTHERS: !opt.quick ? 'all' : mode === 'root' ? 'one' : 'none',
			},
		});
		readline.createInterface({ input: child.stdout }).on('line', (l) => show(JSON.parse(l) as Row));
		child.on('close', (code) => resolve(code ?? 1));
	});
}

async function runMode(mode: Mode): Promise<void> {
	const passed = new Set<string>(); // points that were reached
	const began = performance.now();
	const jobs = Math.max(1, Number(opt.jobs) || 1);
	console.log(`\nnative, ${mode}`);
	const show = (r: Row): void => {
		if (r.outcome === 'absent') // there was no such process at that moment: reached all the same
			return void passed.add(r.point);
		count[r.outcome]++;
		if (r.outcome === 'passed')
			passed.add(r.point);
		console.log(`${{ passed: 'held', failed: 'FAILED' }[r.outcome].padEnd(8)}${r.point.padEnd(18)}${r.victim.padEnd(9)}${r.what.padEnd(26)}${String(r.ms).padStart(6)} ms  ${r.scenario}`);
		if (r.why)
			console.log(r.why.split('\n').slice(0, 12).map((l) => `        ${l}`).join('\n'));
	};
	const codes = await Promise.all(Array.from({ length: jobs }, (_, i) => runPart(mode, i, jobs, show)));
	for (const code of codes.filter((c) => c !== 0))
		fail(`a worker ended with status ${code}`);
	const never = points.filter((p) => !passed.has(p.name) && !(mode === 'user' && p.rootOnly));
	if (!opt.case && never.length > 0)
		fail(`never reached: ${never.map((p) => p.name).join(' ')}`);
	console.log(`${passed.size} of ${points.length} points, ${((performance.now() - began) / 1000).toFixed(0)} s`);
}

if (!makeTestingBuild('caisson', 'tests/suites/kill/nursery')) {
	fail('the build with kill points');
} else {
	openCopy(path.join(testingBuild, 'caisson'), scratch); // which is `binary`
	for (const mode of opt.mode as Mode[]) {
		const why = mode === 'root' && !isRoot ? 'started without root' : missing(mode);
		if (why) {
			console.log(`${mode}: skipped, ${why}`);
			count.skipped++;
		} else {
			await runMode(mode);
		}
	}
}
console.log(`\n${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
process.exit(count.failed > 0 || count.passed === 0 ? 1 : 0);
