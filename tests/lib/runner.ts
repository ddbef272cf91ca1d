// SPDX-License-Identifier: Apache-2.0
// `tests/run` without a suite: unit tests, then every integration file in every mode that this host can do, then a virtual machine.
// Prints one line per file, failure and skip, one row per mode, and the closing line.

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { Count, SLOTS, type Outcome } from './count.ts';
import { inCore, LEFT_OUT, strictFiles } from './core.ts';
import { engineEnv, openCopy, top, type Mode } from './env.ts';
import { runFile, type FileRun, type Place, type Settings } from './file.ts';
import { makeImages } from './images.ts';
import { leftovers } from './leftovers.ts';
import { madeOnMachine, notHidden } from './machine.ts';
import { asPlain, askDoctor, isRoot, modes } from './modes.ts';
import { options, sampled, sampledUsage } from './options.ts';
import { owned, sweep } from './owned.ts';
import { firstLine, rowAgain, secondTries, tellFlaky } from './play.ts';
import type { Row } from './reporter.ts';
import { Sample } from './sample.ts';
import { mayRunAgain, NO_TIME, timeIsUp } from './time.ts';
import { runUnits, unitAgain } from './units.ts';
import { runVm } from './vm.ts';
import { until } from './wait.ts';

const usage = `usage: tests/run [options]          unit and integration tests
       tests/run SUITE [options]    a suite of tests/suites (tests/run SUITE --help)
  --only TEXT      only the integration file of that name, else those whose names contain TEXT (may be repeated)
  --case REGEX     only cases whose name matches
  --mode MODE      root or user (may be repeated; default: both where possible)
  --jobs N         test files at a time (default: 3)
  --core           what the gate runs (make test): each file in one mode, without cases that take long or assert a time (core.ts).
                   With --only or --mode nothing is left out
  --part I/N       the Ith of N parts of the files, 1 to N
  --vm             the virtual machine with cgroup v2 and the programs that drive the engine by itself, alone
  --no-vm          without these
  --units          unit tests alone
  --no-units       no unit tests
  --sanitize       test build-asan/ (address and undefined-behaviour sanitizers)
  --build DIR      test another build folder
  --image NAME     image to use instead of science
  --slow-ms N      also list cases slower than N milliseconds
${sampledUsage}`;

const opt = options(usage, {
	only: { type: 'string', multiple: true },
	case: { type: 'string' },
	mode: { type: 'string', multiple: true },
	jobs: { type: 'string', default: '3' },
	core: { type: 'boolean', default: false },
	part: { type: 'string', default: '1/1' },
	units: { type: 'boolean', default: false },
	vm: { type: 'boolean', default: false },
	'no-vm': { type: 'boolean', default: false },
	'no-units': { type: 'boolean', default: false },
	sanitize: { type: 'boolean', default: false },
	build: { type: 'string' },
	image: { type: 'string' },
	'slow-ms': { type: 'string' },
	...sampled,
});

const jobs = Math.max(1, Number(opt.jobs) || 1);
const buildDir = path.resolve(opt.build ?? path.join(top, opt.sanitize ? 'build-asan' : 'build'));
const started = performance.now();
const [part, parts] = opt.part.split('/').map(Number) as [number, number];
/** Who names files or modes wants these. */
const isCore = opt.core && !opt.only && !opt.mode;
const sample = new Sample(opt.sample, opt.seed);

interface Tally {
	title: string;
	rows: Row[];
	note?: string;
}

function say(text: string): void {
	process.stdout.write(text + '\n');
}

for (const folder of [os.tmpdir(), '/dev/shm'].filter((f) => fs.existsSync(f)))
	sweep(folder, 'caisson-run-', 'caisson-test-');
const scratch = owned('caisson-run-');
fs.chmodSync(scratch, 0o755);
/** A path of the binary that the plain user can execute: the checkout may be in a closed folder. */
function binaryOf(mode: Mode): string {
	const binary = path.join(buildDir, 'caisson');
	return isRoot && mode === 'user' && !canExecute(binary) ? openCopy(binary, scratch) : binary;
}

function canExecute(binary: string): boolean {
	const [command, ...args] = asPlain(['test', '-x', binary]);
	return spawnSync(command!, args).status === 0;
}

/** Each mode, with warm and with cold interpreters. */
function places(): Place[] {
	return modes.filter((m) => !opt.mode || opt.mode.includes(m)).flatMap((mode) => {
		const binary = binaryOf(mode);
		const can = askDoctor(mode, binary, scratch, engineEnv);
		const title = `${mode === 'root' ? 'root' : 'plain user'}, cgroup ${can.cgroup}`;
		return [{ ...can, title, binary }, { ...can, title: `${title}, cold`, binary, cold: true }];
	});
}

/** The same product on a host with cgroup v2: a virtual machine. */
async function virtualMachine(): Promise<Tally> {
	const tally: Tally = { title: 'virtual machine, cgroup v2', rows: [] };
	const said = await runVm(buildDir, 'engine');
	if (said.skipped) {
		tally.note = `skipped: ${said.skipped}`;
		tally.rows.push({ name: 'all', outcome: 'skipped', ms: 0, why: tally.note });
	}
	for (const r of said.rows)
		tally.rows.push({ name: r.name, outcome: r.held ? 'passed' : 'failed', ms: 0, why: r.why });
	show(tally.title, tally.rows);
	tally.rows.filter((r) => r.outcome === 'failed').forEach((r) => say(`FAILED  [${tally.title}] ${r.name}`));
	return tally;
}

/** The fixed core of a sample: one file for each thing that the server does with memory of its own. */
const coreFiles = ['deaths', 'endings', 'files', 'lifecycle', 'rest', 'runs', 'validation', 'wire'];
const SHARE = 0.15; // of all other files

/** What must look the same when no warm interpreter is there; everywhere else the product's default holds. */
const coldFiles = ['endings', 'runs', 'workflows'];

/** Where a plain user's server does otherwise than root's. With sanitizers, which look at our own code, all other files run as root alone. */
const userFiles = ['branches', 'bridge', 'command', 'deaths', 'disconnect', 'endings', 'faults', 'files', 'image', 'lifecycle', 'network', 'own_walls', 'packages',
	'pip_inside', 'places', 'policies', 'pool', 'privileges', 'runs', 'stateful', 'terminal', 'total_disk', 'warm', 'workflows'];

function belongs(file: string, place: Place): boolean {
	const name = path.basename(file, '.test.ts');
	if (place.cold)
		return coldFiles.includes(name);
	return !opt.sanitize || place.mode === 'root' || !isRoot || userFiles.includes(name);
}

/** Whether the sample, if there is one, has FILE in this place. */
function chosen(file: string, place: Place): boolean {
	const name = path.basename(file, '.test.ts'), cold = place.cold === true;
	if (isCore)
		return inCore(name, place.mode, cold, isRoot ? 'root' : 'user');
	return sample.picks(`${path.basename(file)} ${place.mode}${cold ? ' cold' : ''}`, SHARE, place.mode === 'root' && !cold && coreFiles.includes(name));
}

function integrationFiles(): string[] {
	const dir = path.join(top, 'tests', 'integration');
	const all = fs.readdirSync(dir).filter((f) => f.endsWith('.test.ts')).sort();
	const only = opt.only;
	// `files` is that file, not data_files as well; a part of a name is for whoever has no whole one.
	const wanted = (f: string, t: string): boolean => all.includes(`${t}.test.ts`) ? f === `${t}.test.ts` : f.includes(t);
	return all.filter((f, i) => (!only || only.some((t) => wanted(f, t))) && i % parts === part - 1).map((f) => path.join(dir, f));
}

/** A case that was cancelled with its suite: the suite's own row says why. */
function isEcho(r: Row): boolean {
	return r.why === 'test did not finish before its parent and was cancelled';
}

function show(title: string, rows: Row[]): void {
	for (const r of rows) {
		if (isEcho(r))
			continue;
		if (r.outcome === 'failed')
			say(`failed  [${title}] ${r.name}\n${(r.why ?? '').split('\n').slice(0, 25).map((l) => `        ${l}`).join('\n')}`);
		else if (r.outcome === 'skipped')
			say(`skipped [${title}] ${r.name}: ${r.why}`);
		else if (opt['slow-ms'] && r.ms > Number(opt['slow-ms']))
			say(`slow    [${title}] ${r.name}: ${r.ms} ms`);
	}
}

interface Job extends FileRun {
	tally: Tally;
}

/** A case that failed, or a file that did. */
interface Failure {
	job: Job;
	row: Row;
}

/** What the core does not have. */
const leftOut: string[] = [];

function settings(): Settings {
	return { scratch, mark, sanitized: opt.sanitize, image: opt.image };
}

/** Runs a file and prints its line; failures are for the caller to count. */
async function runJob(job: Job): Promise<Row[]> {
	const t0 = performance.now();
	const rows = (await runFile(job, settings(), (text) => say(`budget  ${text}`))).filter((r) => !isEcho(r));
	const n = (o: Row['outcome']): number => rows.filter((r) => r.outcome === o).length;
	say(`${n('failed') ? 'failed' : 'ok'}  [${job.place.title}] ${path.basename(job.file)}: ${n('passed')} passed, ${n('failed')} failed, ${n('skipped')} skipped (${((performance.now() - t0) / 1000).toFixed(1)} s)`);
	show(job.place.title, rows);
	return rows;
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');

/** Runs a case that failed alone; the second time after those before it in its file, which it may need. */
async function runAgain({ job, row }: Failure): Promise<void> {
	const strict = strictFiles.includes(path.basename(job.file, '.test.ts'));
	const most = secondTries(row.why ?? '', strict);
	for (let n = 1; n <= most && mayRunAgain(); n++) {
		const cases = n === 1 && row.full !== undefined ? `^${escaped(row.full)}$` : job.cases;
		say(`again   [${job.place.title}] ${row.name}`);
		const rows = await runJob({ ...job, cases, again: true });
		const next = rowAgain(row, rows);
		if (next?.outcome === 'passed') {
			row.outcome = 'flaky';
			tellFlaky(`[${job.place.title}] ${row.name}`, row.why ?? '');
			return;
		}
		if (next && secondTries(next.why ?? '', strict) === 0)
			break;
	}
	say(`FAILED  [${job.place.title}] ${row.name}: ${firstLine(row.why ?? '')}`);
}

async function runQueue(queue: Job[], failures: Failure[]): Promise<void> {
	queue.sort((a, b) => weight(b.file) - weight(a.file)); // the long ones first
	const worker = async (): Promise<void> => {
		for (let job = queue.shift(); job; job = queue.shift()) {
			const rows = timeIsUp() ? [{ name: path.basename(job.file), outcome: 'skipped', ms: 0, why: NO_TIME } as Row] : await runJob(job);
			if (rows[0]?.why === NO_TIME)
				show(job.place.title, rows);
			job.tally.rows.push(...rows);
			for (const row of rows.filter((r) => r.outcome === 'failed'))
				failures.push({ job, row });
		}
	};
	await Promise.all(Array.from({ length: jobs }, worker));
}

async function runModes(tallies: Tally[]): Promise<void> {
	const files = integrationFiles();
	const queue: Job[] = [];
	const failures: Failure[] = [];
	for (const place of places()) {
		const tally: Tally = { title: place.title, rows: [] };
		tallies.push(tally);
		if (place.missing) {
			tally.note = `skipped: ${place.missing}`;
			tally.rows.push({ name: 'all integration tests', outcome: 'skipped', ms: 0, why: place.missing });
			show(place.title, tally.rows);
			continue;
		}
		const left: string[] = [];
		for (const file of files.filter((f) => belongs(f, place)))
			if (chosen(file, place))
				queue.push({ file, place, tally, cases: opt.case, without: isCore ? LEFT_OUT : undefined });
			else
				left.push(path.basename(file, '.test.ts'));
		if (isCore && left.length > 0)
			leftOut.push(`left out [${place.title}] ${left.length} files: ${left.join(', ')}`);
		if ((place.cold || opt.sanitize || opt.only || isCore || sample.on || parts > 1) && !queue.some((job) => job.place === place))
			tallies.pop(); // none of its files is wanted
	}
	const used = new Set(queue.map((job) => fs.realpathSync(job.place.binary)));
	await runQueue(queue, failures);
	if (failures.length > Math.max(SLOTS, 5)) // no accident
		for (const { job, row } of failures)
			say(`FAILED  [${job.place.title}] ${row.name}: ${firstLine(row.why ?? '')}`);
	else
		for (const failure of failures)
			await runAgain(failure);
	if (used.size > 0) {
		const last: Tally = { title: 'afterwards', rows: await afterwards(used) };
		tallies.push(last);
		show(last.title, last.rows);
		for (const r of last.rows.filter((f) => f.outcome === 'failed'))
			say(`FAILED  ${r.name}: ${r.why}`);
	}
	for (const t of tallies) // a mode that is possible and ran nothing is a failure
		if (!t.note && t.rows.every((r) => r.outcome === 'skipped' && r.why !== NO_TIME)) {
			t.rows.push({ name: 'mode ran no test', outcome: 'failed', ms: 0 });
			say(`FAILED  [${t.title}] mode ran no test`);
		}
}

/** In the names of the folders of our test files. No other run has it while we live. */
const mark = process.pid.toString(36);
const pidsBefore = new Set(fs.readdirSync('/proc'));

/** After the last test no process of the tests may live, and the folders of this machine are as before. A monitor whose server was killed with
 * its file ends its sandboxes first, which it may take as long for as until() waits. */
async function afterwards(binaries: Set<string>): Promise<Row[]> {
	let left: string[] = [];
	await until('the end of all processes', () => (left = leftovers(mark, binaries, pidsBefore)).length === 0).catch(() => undefined);
	const made = madeOnMachine();
	return [
		{ name: 'no process of the tests is left', outcome: left.length ? 'failed' : 'passed', ms: 0, why: left.join('\n') },
		{ name: 'no test wrote to the state folder, the home or the cache of this machine', outcome: notHidden ? 'skipped' : made.length ? 'failed' : 'passed', ms: 0, why: notHidden || made.join('\n') },
	];
}

/** Files that take long, longest first: they start first. */
const heavy = ['swaps', 'expiry', 'workflows', 'runs', 'endings', 'deaths'];
function weight(file: string): number {
	const name = path.basename(file, '.test.ts'), at = heavy.indexOf(name);
	return at >= 0 ? heavy.length - at : 0;
}

function summary(tallies: Tally[]): Count {
	const total = new Count();
	const width = Math.max(...tallies.map((t) => t.title.length), 4);
	const columns: Outcome[] = ['passed', 'failed', 'skipped', 'flaky'];
	say(`\n${'mode'.padEnd(width)}  cases${columns.map((c) => c.padStart(9)).join('')}`);
	for (const t of tallies) {
		const n = new Count();
		for (const r of t.rows) {
			n.add(r.outcome);
			total.add(r.outcome);
		}
		say(`${t.title.padEnd(width)}  ${String(t.rows.length).padStart(5)}${columns.map((c) => String(n[c]).padStart(9)).join('')}${t.note ? `  ${t.note}` : ''}`);
	}
	leftOut.forEach(say);
	sample.tell('files in their modes');
	say(`\n${((performance.now() - started) / 1000).toFixed(0)} s in all`);
	return total;
}

const unitSuites = ['unit', 'fuzz'];
const tallies: Tally[] = [];
// Beside the unit tests, which need none. Cases about images copy `base`, the smallest.
const images = opt.units ? undefined : makeImages(buildDir, 'base', opt.image ?? 'science');
if (!opt['no-units'] && !opt.vm) {
	const tally: Tally = { title: 'unit tests', rows: runUnits(buildDir, unitSuites, Math.min(jobs, os.availableParallelism())) };
	tallies.push(tally);
	show(tally.title, tally.rows);
	for (const row of tally.rows.filter((r) => r.outcome === 'failed'))
		if (!unitAgain(buildDir, unitSuites, row))
			say(`FAILED  ${row.name}: ${firstLine(row.why ?? '')}`);
}
function failure(title: string, why: string): Tally {
	const tally: Tally = { title, rows: [{ name: why, outcome: 'failed', ms: 0 }] };
	say(`FAILED  [${title}] ${why}`);
	return tally;
}

/** The engine's own interface, without a server above it, and programs that must do the same plain, cold and warm. */
function engine(): Tally {
	const title = 'engine, by itself';
	const tally: Tally = { title, rows: isRoot ? runUnits(buildDir, ['engine'], 1) : [{ name: title, outcome: 'skipped', ms: 0, why: 'its programs need root' }] };
	show(title, tally.rows);
	tally.rows.filter((r) => r.outcome === 'failed').forEach((r) => say(`FAILED  [${title}] ${r.name}`));
	return tally;
}

if (opt.vm) {
	tallies.push(engine(), await virtualMachine());
} else if (!opt.units) {
	const missing = await images;
	if (missing)
		tallies.push(failure('integration', `the image ${missing} could not be built`));
	else
		await runModes(tallies);
	if (isCore)
		leftOut.push('left out: cases that say (slow) or (timing), the programs that drive the engine by itself, and the virtual machine with cgroup v2');
	if (!isCore && !opt['no-vm'] && !opt.only && !opt.mode && !opt.sanitize)
		tallies.push(engine(), await virtualMachine());
}
summary(tallies).close();
