// SPDX-License-Identifier: Apache-2.0
// Runs the hostile suite in every mode that this host can do and prints the table.

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { spawn, spawnSync } from 'node:child_process';
import * as readline from 'node:readline';
import { parseArgs } from 'node:util';
import { imagesDir, openCopy, PLAIN_UID, top, type Mode } from '../../lib/env.ts';
import { owned, sweep } from '../../lib/owned.ts';
import { makeTestingBuild, testingBuild } from '../../lib/testing-build.ts';
import { runVm } from '../../lib/vm.ts';
import { rowOf, twinOf, wallNames } from './case.ts';
import { cases } from './cases/all.ts';
import { programOf } from './judge.ts';
import { Summary } from './summary.ts';
import type { Row } from './suite.ts';
import { runTwin } from './twins.ts';

const { values: opt } = parseArgs({
	options: {
		case: { type: 'string', default: '' },
		mode: { type: 'string', multiple: true },
		warm: { type: 'string', multiple: true },
		build: { type: 'string', default: path.join(top, 'build') },
		image: { type: 'string' },
		list: { type: 'boolean', default: false },
		export: { type: 'string' },
		twins: { type: 'boolean', default: false },
		times: { type: 'string', default: '1' },
		vm: { type: 'boolean', default: false },
		'no-vm': { type: 'boolean', default: false },
		help: { type: 'boolean', short: 'h', default: false },
	},
});
if (opt.help) {
	console.log(`usage: tests/suites/hostile/run [--case REGEX] [--mode root|user]… [--warm on|off]… [--build DIR] [--image NAME] [--times N] [--no-vm] [--list | --twins | --vm | --export DIR]
  --times N     each case N times, without twins: --case '^9[ab]$' --times 30 is a minute each of swapping what is read
  --vm          what control groups hold, in a virtual machine with cgroup v2, and nothing else; a run without options has it as its last mode
  --no-vm       not that
  --export DIR  write the programs of the cases, and a table of what they must do, for a machine without Node`);
	process.exit(0);
}

const suite = path.join(top, 'tests/suites/hostile/suite.ts');
if (opt.list) {
	const rows = new Map<number, number>();
	for (const c of cases) {
		console.log(`${c.id.padEnd(5)}${c.attack}  ->  ${c.must}`);
		rows.set(rowOf(c), (rows.get(rowOf(c)) ?? 0) + 1);
	}
	console.log(`\n${cases.length} cases; mechanisms by row: ${[...rows].sort((a, b) => a[0] - b[0]).map(([r, n]) => `${r}:${n}`).join(' ')}`);
	process.exit(0);
}

if (opt.export) {
	const chosen = cases.filter((c) => c.code && !c.before && new RegExp(opt.case).test(c.id));
	for (const c of chosen)
		fs.writeFileSync(path.join(opt.export, `${c.id}.py`), programOf(c.code));
	fs.writeFileSync(path.join(opt.export, 'table'), chosen.map((c) => `${[c.id, c.held ?? 1, c.ends ?? 0, c.attack].join('\t')}\n`).join(''));
	process.exit(0);
}

const isRoot = process.getuid!() === 0;
sweep(os.tmpdir(), 'caisson-hostile-', 'caisson-test-');
const scratch = owned('caisson-hostile-');
fs.chmodSync(scratch, 0o755);
const binary = openCopy(path.join(opt.build, 'caisson'), scratch);

function asMode(mode: Mode, argv: string[]): string[] {
	const id = String(PLAIN_UID);
	return isRoot && mode === 'user' ? ['setpriv', '--reuid', id, '--regid', id, '--clear-groups', '--', ...argv] : argv;
}

interface Verdict {
	status: number;
	enforced: string[];
	cgroup: string;
	rows: { state: string; what: string; value: string }[];
}

function doctor(mode: Mode): Verdict | undefined {
	const [cmd, ...args] = asMode(mode, [binary, 'doctor', '--json']);
	const r = spawnSync(cmd!, args, { encoding: 'utf8', env: { PATH: process.env.PATH, SANDBOX_STATE_DIR: path.dirname(imagesDir) } });
	try {
		return JSON.parse(r.stdout);
	} catch {
		return undefined;
	}
}

function runSuite(mode: Mode, warm: string, enforced: string[], show: (r: Row) => void, more: Record<string, string> = {}): Promise<number> {
	return new Promise((resolve) => {
		// A mount namespace of its own, so that what others mount meanwhile is not taken for a leak; for twins a network too (fakenet.ts).
		const spaces = more.HOSTILE_WITHOUT ? ['--mount', '--net'] : ['--mount'];
		const argv = [...(isRoot ? ['unshare', ...spaces, '--propagation', 'private', '--'] : []), process.execPath, suite];
		const child = spawn(argv[0]!, argv.slice(1), {
			stdio: ['ignore', 'pipe', 'inherit'],
			env: {
				...process.env, CAISSON_TEST_MODE: mode, CAISSON_TEST_BINARY: binary, CAISSON_TEST_IMAGES: imagesDir, CAISSON_TEST_IMAGE: opt.image,
				CAISSON_TEST_ENFORCED: enforced.join(','), HOSTILE_BUILD: opt.build, HOSTILE_CASE: opt.case, HOSTILE_TIMES: opt.times, HOSTILE_WARM: warm, ...more,
			},
		});
		readline.createInterface({ input: child.stdout }).on('line', (l) => show(JSON.parse(l) as Row));
		child.on('close', (code) => resolve(code ?? 1));
	});
}

const count = { passed: 0, failed: 0, skipped: 0 };
const summary = new Summary();
function tellTwin(id: string, outcome: 'passed' | 'failed' | 'skipped', why: string): void {
	count[outcome]++;
	summary.add('twins that failed', id, outcome);
	console.log(`${{ passed: 'can fail', failed: 'CANNOT FAIL', skipped: 'no twin' }[outcome].padEnd(12)}${id.padEnd(5)}${why}`);
}

async function bareTwins(): Promise<void> {
	const only = new RegExp(opt.case);
	console.log('\nthe other programs without any wall');
	const queue = cases.filter((k) => only.test(k.id) && twinOf(k) === 'bare');
	const worker = async (): Promise<void> => {
		for (let c = queue.shift(); c; c = queue.shift()) {
			const r = await runTwin(c, opt.image ?? 'science');
			tellTwin(c.id, r.outcome, r.why);
		}
	};
	await Promise.all(Array.from({ length: os.availableParallelism() }, worker)); // each has namespaces of its own
	for (const c of cases.filter((k) => only.test(k.id) && k.noTwin))
		tellTwin(c.id, 'skipped', c.noTwin!);
	const kinds = { without: 0, bare: 0, planted: 0, none: 0 };
	for (const c of cases)
		kinds[twinOf(c)]++;
	console.log(`\n${cases.length} cases: ${kinds.without} have a twin without the walls that they name, ${kinds.bare} one without any wall, ${kinds.planted} one with the damage planted, ${kinds.none} none`);
}

/** On cgroup v2, where this host can boot such a machine: a mode like the others, with the cases that control groups hold. */
async function virtualMachine(): Promise<void> {
	const column = 'virtual machine, cgroup v2, cold';
	console.log(`\nnative, ${column}`);
	let said = await runVm(opt.build, 'hostile');
	if (said.rows.some((r) => !r.held)) { // an emulated machine beside whatever else this one does: as in suite.ts, once more
		console.log('again, for it was not held or too slow:');
		for (const r of said.rows.filter((k) => !k.held))
			console.log(`        ${r.name}\n${r.why ?? ''}`);
		said = await runVm(opt.build, 'hostile');
	}
	if (said.skipped) {
		console.log(`skipped ${said.skipped}`);
		count.skipped++;
	}
	for (const r of said.rows) {
		const id = /^\d+[a-z] /.exec(r.name)?.[0].trim();
		const outcome = r.held ? 'passed' : 'failed';
		count[outcome]++;
		if (id)
			summary.add(column, id, outcome);
		console.log(`${(r.held ? 'held' : 'BROKEN').padEnd(8)}${r.name}`);
	}
	for (const why of new Set(said.rows.map((r) => r.why).filter(Boolean)))
		console.log(why);
}

/** A wall that no case names, a name that is no wall: both are defects of the table. */
function checkWalls(): void {
	const used = new Set(cases.flatMap((c) => c.without?.walls ?? []));
	const known = new Set(wallNames());
	const odd = [...[...used].filter((w) => !known.has(w)).map((w) => `${w} is not in src/base/walls.tbl.h`), ...[...known].filter((w) => !used.has(w)).map((w) => `no case names the wall ${w}`)];
	for (const what of odd)
		console.log(`BROKEN  ${what}`);
	count.failed += odd.length;
}

/** The build where walls can be left out, one by one, and the cases that name theirs. */
async function withoutWalls(): Promise<void> {
	const only = new RegExp(opt.case);
	checkWalls();
	if (!cases.some((c) => ['without', 'planted'].includes(twinOf(c)) && only.test(c.id)))
		return;
	const dir = testingBuild;
	console.log('\nthe cases without the walls that they name, or with the damage planted');
	const built = makeTestingBuild('caisson', 'tests/suites/hostile/syscalls-probe');
	const weak = built ? openCopy(path.join(dir, 'caisson'), scratch, 'caisson-without-walls') : '';
	const code = !built ? 1 : await runSuite('root', 'off', doctor('root')?.enforced ?? [], (r) => tellTwin(r.id, r.outcome, (r.why ?? '').split('\n')[0]!.slice(0, 150)), { HOSTILE_WITHOUT: '1', HOSTILE_BUILD: dir, CAISSON_TEST_BINARY: weak });
	if (code !== 0) {
		console.log(`BROKEN  the suite without walls ended with status ${code}`);
		count.failed++;
	}
}

for (const mode of (opt.twins || opt.vm ? [] : (opt.mode ?? ['root', 'user'])) as Mode[]) {
	if (mode === 'root' && !isRoot) {
		console.log('root: skipped, started without root');
		count.skipped++;
		continue;
	}
	const said = doctor(mode);
	const missing = said?.rows.filter((r) => r.state === 'missing') ?? [];
	if (missing.length > 0) {
		console.log(`${mode}: skipped, ${missing.map((r) => `${r.what}: ${r.value}`).join('; ')}`);
		count.skipped++;
		continue;
	}
	for (const warm of opt.warm ?? ['off', 'on']) {
		console.log(`\nnative, ${mode}, cgroup ${said?.cgroup ?? '?'}, ${warm === 'on' ? 'warm' : 'cold'}`);
		let n = 0;
		const code = await runSuite(mode, warm, said?.enforced ?? [], (r) => {
			n++;
			count[r.outcome]++;
			summary.add(`${mode}, ${warm === 'on' ? 'warm' : 'cold'}`, r.id, r.outcome);
			console.log(`${{ passed: 'held', failed: 'BROKEN', skipped: 'skipped' }[r.outcome].padEnd(8)}${r.id.padEnd(5)}${String(r.ms).padStart(6)} ms  ${r.attack}`);
			if (r.why)
				console.log(r.why.split('\n').slice(0, 12).map((l) => `           ${l}`).join('\n'));
		});
		if (code !== 0 || n === 0) {
			console.log(`BROKEN  the suite ended with status ${code} after ${n} cases`);
			count.failed++;
		}
	}
}
const all = !opt.case && !opt.mode && !opt.warm && !opt.twins && opt.times === '1';
if (opt.vm || (all && !opt['no-vm']))
	await virtualMachine();
if (isRoot && opt.times === '1' && !opt.vm)
	await withoutWalls();
if ((opt.twins || isRoot) && opt.times === '1' && !opt.vm)
	await bareTwins();
console.log(`\n${summary.lines().join('\n')}`);
console.log(`\n${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
process.exit(count.failed > 0 ? 1 : 0);
