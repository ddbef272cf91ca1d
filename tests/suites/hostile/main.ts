// SPDX-License-Identifier: Apache-2.0
// Runs the hostile suite in every mode that this host can do and prints the table.

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { Count, type Outcome } from '../../lib/count.ts';
import { startDocker, type Daemon } from '../../lib/daemon.ts';
import { openCopy, top, type Mode } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { askDoctor, isRoot, modes, runRows } from '../../lib/modes.ts';
import { options, sampled, sampledUsage } from '../../lib/options.ts';
import { owned, sweep } from '../../lib/owned.ts';
import { playAgain } from '../../lib/play.ts';
import { Sample } from '../../lib/sample.ts';
import { makeTestingBuild, testingBuild } from '../../lib/testing-build.ts';
import { againEnv } from '../../lib/time.ts';
import { runVm } from '../../lib/vm.ts';
import { rowOf, twinOf, wallNames, type Case } from './case.ts';
import { cases as nativeCases, casesOn, differs, notOn } from './cases/all.ts';
import { programOf } from './judge.ts';
import { onContainers } from './cases/containers.ts';
import { Summary } from './summary.ts';
import type { Row } from './suite.ts';
import { runTwin } from './twins.ts';

const usage = `usage: tests/run hostile [options]
  --case REGEX  only the cases whose id matches
  --mode MODE   root or user (may be repeated; default: both)
  --warm STATE  on or off: warm or cold interpreters (may be repeated; default: both)
  --build DIR   test another build folder
  --engine NAME native (default), or docker: a daemon of our own, and every sandbox is a container (as root; no virtual machine)
  --image NAME  the image of the sandboxes (default: science)
  --times N     each case N times, without twins: --case '^9[ab]$' --times 30 swaps paths for a minute each
  --twins       only the twins: every case must fail where its walls are missing
  --vm          only the virtual machine with cgroup v2, which is the last mode of a run without options
  --no-vm       everything but the virtual machine
  --list        print the cases and end
  --export DIR  write the programs of the cases, and a table of what they must do, for a machine without Node
${sampledUsage}`;

const opt = options(usage, {
	case: { type: 'string', default: '' },
	mode: { type: 'string', multiple: true },
	warm: { type: 'string', multiple: true },
	build: { type: 'string', default: path.join(top, 'build') },
	engine: { type: 'string', default: 'native' },
	image: { type: 'string', default: 'science' },
	list: { type: 'boolean', default: false },
	export: { type: 'string' },
	twins: { type: 'boolean', default: false },
	times: { type: 'string', default: '1' },
	vm: { type: 'boolean', default: false },
	'no-vm': { type: 'boolean', default: false },
	...sampled,
});
const cases = casesOn(opt.engine);
if (opt.list) {
	const rows = new Map<number, number>();
	for (const c of cases) {
		console.log(`${c.id.padEnd(5)}${c.attack}  ->  ${c.must}`);
		rows.set(rowOf(c), (rows.get(rowOf(c)) ?? 0) + 1);
	}
	console.log(`\n${cases.length} cases; mechanisms by row: ${[...rows].sort((a, b) => a[0] - b[0]).map(([r, n]) => `${r}:${n}`).join(' ')}`);
	process.exit(0);
}

const named = cases.filter((c) => new RegExp(opt.case).test(c.id));
if (opt.export) {
	const chosen = named.filter((c) => c.code && !c.before);
	for (const c of chosen)
		fs.writeFileSync(path.join(opt.export, `${c.id}.py`), programOf(c.code));
	fs.writeFileSync(path.join(opt.export, 'table'), chosen.map((c) => `${[c.id, c.held ?? 1, c.ends ?? 0, c.attack].join('\t')}\n`).join(''));
	process.exit(0);
}

const count = new Count();
const summary = new Summary();
const sample = new Sample(opt.sample, opt.seed);
if (ensureImages(opt.build, opt.image)) {
	console.log(`FAILED  the image ${opt.image} could not be built`);
	count.add('failed');
	count.close();
}
sweep(os.tmpdir(), 'caisson-hostile-', 'caisson-test-');
const scratch = owned('caisson-hostile-');
fs.chmodSync(scratch, 0o755);
const binary = openCopy(path.join(opt.build, 'caisson'), scratch);

/** The daemon, where sandboxes are containers; a failure ends the suite. */
async function daemonOf(engine: string): Promise<Daemon | undefined> {
	if (engine === 'native')
		return undefined;
	const daemon = engine === 'docker' ? await startDocker({ more: ['--net', '--ipc'] }) : `there is no engine '${engine}'`;
	const why = typeof daemon === 'string' ? daemon : daemon.importImage(opt.image);
	if (typeof daemon !== 'string' && !why)
		return daemon;
	console.log(`FAILED  ${why ?? daemon}`);
	count.add('failed');
	if (typeof daemon !== 'string')
		await daemon.stop();
	return count.close();
}

const daemon = await daemonOf(opt.engine);
const engineEnv = daemon?.settings(opt.image) ?? {};

/** A pattern for exactly these cases. */
function patternOf(chosen: Case[]): string {
	return `^(${chosen.map((c) => c.id).join('|') || 'none'})$`;
}

function runSuite(mode: Mode, warm: string, chosen: Case[], enforced: string[], show: (r: Row) => void, more: Record<string, string> = {}): Promise<number> {
	return runRows<Row>('hostile/suite.ts', {
		CAISSON_TEST_MODE: mode, CAISSON_TEST_BINARY: binary, CAISSON_TEST_IMAGE: opt.image, CAISSON_TEST_ENFORCED: enforced.join(','),
		CAISSON_TEST_ENGINE_ENV: JSON.stringify(engineEnv), HOSTILE_BUILD: opt.build, HOSTILE_CASE: patternOf(chosen), HOSTILE_ORDER: sample.order(chosen, (c) => c.id, (c) => CORE.test(c.id)).map((c) => c.id).join(' '), HOSTILE_TIMES: opt.times, HOSTILE_WARM: warm, ...more,
	}, show, !more.HOSTILE_WITHOUT ? {} : daemon ? { under: ['nsenter', `--net=/proc/${daemon.pid}/ns/net`, '--'] } : { net: true }); // twins have a network of their own (fakenet.ts)
}

function tellTwin(id: string, outcome: Outcome, why: string): void {
	count.add(outcome);
	summary.add('twins that failed', id, outcome);
	if (outcome === 'failed')
		console.log(`FAILED  twin of ${id}: it passes without its wall`);
	console.log(`${{ passed: 'can fail', failed: 'CANNOT FAIL', skipped: 'no twin', flaky: '' }[outcome].padEnd(12)}${id.padEnd(5)}${why}`);
}

const twins = sample.on ? [] : named;

async function bareTwins(): Promise<void> {
	console.log('\nthe other programs without any wall');
	const queue = twins.filter((k) => twinOf(k) === 'bare' && (!daemon || (differs(k) && !notOn(opt.engine, k)))); // they have no engine: once is enough
	const worker = async (): Promise<void> => {
		for (let c = queue.shift(); c; c = queue.shift()) {
			const r = await runTwin(c, opt.image);
			tellTwin(c.id, r.outcome, r.why);
		}
	};
	await Promise.all(Array.from({ length: os.availableParallelism() }, worker)); // each has namespaces of its own
	if (daemon)
		return;
	for (const c of twins.filter((k) => k.noTwin))
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
	const said = await runVm(opt.build, 'hostile');
	if (said.skipped) {
		console.log(`skipped ${said.skipped}`);
		count.add('skipped');
	}
	for (const r of said.rows) {
		const id = /^\d+[a-z] /.exec(r.name)?.[0].trim();
		const outcome = r.held ? 'passed' : 'failed';
		count.add(outcome);
		if (id)
			summary.add(column, id, outcome);
		console.log(`${(r.held ? 'held' : 'BROKEN').padEnd(8)}${r.name}`);
	}
	for (const why of new Set(said.rows.map((r) => r.why).filter(Boolean)))
		console.log(why);
}

/** A wall that no case names, and a name that is no wall, are defects of the table. */
function checkWalls(): void {
	const used = new Set(nativeCases.flatMap((c) => c.without?.walls ?? []));
	const known = new Set(wallNames());
	const odd = [...[...used].filter((w) => !known.has(w)).map((w) => `${w} is not in src/base/walls.tbl.h`), ...[...known].filter((w) => !used.has(w)).map((w) => `no case names the wall ${w}`),
		...Object.keys(onContainers).filter((id) => !nativeCases.some((c) => c.id === id)).map((id) => `${id} in cases/containers.ts is no case`)];
	for (const what of odd)
		console.log(`BROKEN  ${what}`);
	count.add('failed', odd.length);
}

/** Cases that name their walls run in a build where these can be left out one by one. */
async function withoutWalls(): Promise<void> {
	checkWalls();
	const chosen = twins.filter((c) => ['without', 'planted'].includes(twinOf(c)) && !notOn(opt.engine, c));
	if (chosen.length === 0)
		return;
	console.log('\nthe cases without the walls that they name, or with the damage planted');
	const built = makeTestingBuild('caisson', 'tests/suites/hostile/syscalls-probe');
	const weak = built ? openCopy(path.join(testingBuild, 'caisson'), scratch, 'caisson-without-walls') : '';
	const tell = (r: Row): void => tellTwin(r.id, r.outcome, (r.why ?? '').split('\n')[0]!.slice(0, 150));
	const more = { HOSTILE_WITHOUT: '1', HOSTILE_BUILD: testingBuild, CAISSON_TEST_BINARY: weak };
	const code = !built ? 1 : await runSuite('root', 'off', chosen, askDoctor('root', binary, scratch, engineEnv).enforced, tell, more);
	if (code !== 0) {
		console.log(`BROKEN  the suite without walls ended with status ${code}`);
		count.add('failed');
	}
}

/** A mode and how its interpreters start. */
const corners = (daemon ? (['root'] as Mode[]) : modes).flatMap((mode) => ['off', 'on'].map((warm) => ({ mode, warm, title: `${mode}, ${warm === 'on' ? 'warm' : 'cold'}` })));

/** A sample runs its cases in one corner, in the order of the seed, for as long as it has time; no twins, no virtual machine. */
const corner = sample.turn('corner', corners.length);
/** One of each kind that is over in a moment: what is first in it. */
const CORE = /^(8|10|13|15|18|21|25|28|36)a$/;

async function runCorner({ mode, warm, title }: (typeof corners)[number]): Promise<void> {
	const can = askDoctor(mode, binary, scratch, engineEnv);
	if (can.missing) {
		console.log(`\n${title}: skipped, ${can.missing}`);
		count.add('skipped');
		return;
	}
	const at = corners.findIndex((c) => c.mode === mode && c.warm === warm);
	const chosen = named.filter(() => sample.picks(title, 0, at === corner));
	if (chosen.length === 0)
		return;
	console.log(`\n${opt.engine}, cgroup ${can.cgroup}, ${title}: ${chosen.length} of ${cases.length} cases`);
	let n = 0;
	const failed: Row[] = [];
	const take = (into: Row[]) => (r: Row): void => {
		n++;
		into.push(r);
		for (const turn of r.turns ?? [])
			summary.addTurn(title, r.id, turn);
		console.log(`${{ passed: 'held', failed: 'broken', skipped: 'skipped' }[r.outcome].padEnd(8)}${r.id.padEnd(5)}${String(r.ms).padStart(6)} ms  ${r.attack}`);
		if (r.why)
			console.log(r.why.split('\n').slice(0, 12).map((l) => `           ${l}`).join('\n'));
	};
	const first: Row[] = [];
	const code = await runSuite(mode, warm, chosen, can.enforced, take(first));
	for (const r of first)
		if (r.outcome === 'failed')
			failed.push(r);
		else
			count.add(r.outcome);
	await playAgain(failed, count, {
		name: (r) => `[${title}] ${r.id} ${r.attack}`,
		strict: true,
		run: async (rows) => {
			const again: Row[] = [];
			await runSuite(mode, warm, cases.filter((c) => rows.some((r) => r.id === c.id)), can.enforced, take(again), againEnv);
			for (const r of again.filter((k) => k.outcome === 'passed'))
				first.find((f) => f.id === r.id)!.outcome = 'passed';
			return again;
		},
	});
	for (const r of first)
		summary.add(title, r.id, r.outcome);
	if (code !== 0 || n === 0) {
		console.log(`BROKEN  the suite ended with status ${code} after ${n} cases`);
		count.add('failed');
	}
}

if (!opt.twins && !opt.vm)
	for (const corner of corners.filter((c) => (opt.mode ?? modes).includes(c.mode) && (opt.warm ?? ['off', 'on']).includes(c.warm)))
		await runCorner(corner);
const all = !sample.on && !opt.case && !opt.mode && !opt.warm && !opt.twins && opt.times === '1';
if (opt.vm || (all && !opt['no-vm'] && !daemon))
	await virtualMachine();
if (isRoot && opt.times === '1' && !opt.vm)
	await withoutWalls();
if ((opt.twins || isRoot) && opt.times === '1' && !opt.vm)
	await bareTwins();
console.log(`\n${summary.lines().join('\n')}\n`);
console.log(['turns of the loop of 20 ms or more:', ...summary.turnLines()].join('\n'));
await daemon?.stop();
sample.tell('results of cases and twins');
count.close();
