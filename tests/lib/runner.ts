// SPDX-License-Identifier: Apache-2.0
// `tests/run` without a suite: unit tests, then every integration file in every mode that this host can do, then a virtual machine.
// Prints one line per file, failure and skip, one row per mode, and the closing line.

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { afterSecondRun, Count, type Outcome } from './count.ts';
import { engineEnv, openCopy, top, type Mode } from './env.ts';
import { ensureImages } from './images.ts';
import { leftovers } from './leftovers.ts';
import { asPlain, askDoctor, isRoot, modes, type Ability } from './modes.ts';
import { options, sampled, sampledUsage } from './options.ts';
import { owned, sweep } from './owned.ts';
import { long, quick } from './quick.ts';
import type { Row } from './reporter.ts';
import { Sample } from './sample.ts';
import { runUnits } from './units.ts';
import { runVm } from './vm.ts';

const usage = `usage: tests/run [options]          unit and integration tests
       tests/run SUITE [options]    a suite of tests/suites (tests/run SUITE --help)
  --only TEXT      only integration files whose name contains TEXT (may be repeated)
  --case REGEX     only cases whose name matches
  --mode MODE      root or user (may be repeated; default: both where possible)
  --jobs N         test files at a time (default: 3)
  --quick          at most ten minutes: most files in one mode, and a part of the rest that changes with the commit (make test);
                   what is left out is said. With --only or --mode nothing is left out
  --no-vm          without the virtual machine with cgroup v2
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
	quick: { type: 'boolean', default: false },
	units: { type: 'boolean', default: false },
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
const fileLimitMs = (opt.sanitize ? 2400 : 900) * 1000; // for a hang; a busy machine takes a few times as long as a quiet one
const started = performance.now();
/** Who names files or modes wants these. */
const isQuick = opt.quick && !opt.only && !opt.mode;
const sample = new Sample(opt.sample || isQuick, opt.seed);

interface Place extends Ability {
	title: string;
	binary: string;
	cold?: boolean; // interpreters are started, not forked: only the files of coldFiles
}

interface Tally {
	title: string;
	rows: Row[];
	note?: string;
}

function say(text: string): void {
	process.stdout.write(text + '\n');
}

sweep(os.tmpdir(), 'caisson-run-', 'caisson-test-');
const scratch = owned('caisson-run-');
fs.chmodSync(scratch, 0o755);
/** Test files at work: they end with this run, and their folders with them. */
const working = new Set<ChildProcess>();
process.on('exit', () => working.forEach((c) => c.kill('SIGTERM')));

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
	if (isQuick)
		return quick(name, place.mode, cold, isRoot ? 'root' : 'user', sample);
	return sample.picks(`${path.basename(file)} ${place.mode}${cold ? ' cold' : ''}`, SHARE, place.mode === 'root' && !cold && coreFiles.includes(name));
}

function integrationFiles(): string[] {
	const dir = path.join(top, 'tests', 'integration');
	const all = fs.readdirSync(dir).filter((f) => f.endsWith('.test.ts')).sort();
	const only = opt.only;
	return all.filter((f) => !only || only.some((t) => f.includes(t))).map((f) => path.join(dir, f));
}

let serial = 0;

function runFile(file: string, place: Place): Promise<Row[]> {
	const out = path.join(scratch, `${place.mode}-${path.basename(file)}.${++serial}.jsonl`);
	const args = ['--test-reporter', path.join(top, 'tests/lib/reporter.ts'), '--test-reporter-destination', out, '--test-force-exit'];
	if (opt.case)
		args.push('--test-name-pattern', opt.case);
	const env: NodeJS.ProcessEnv = {
		...process.env,
		CAISSON_TEST_RUN: mark,
		CAISSON_TEST_MODE: place.mode,
		CAISSON_TEST_BINARY: place.binary,
		CAISSON_TEST_SANITIZED: opt.sanitize ? '1' : '0',
		CAISSON_TEST_COLD: place.cold ? '1' : '0',
		CAISSON_TEST_ENFORCED: place.enforced.join(','),
		NODE_NO_WARNINGS: '1',
	};
	if (opt.image)
		env.CAISSON_TEST_IMAGE = opt.image;
	return new Promise((resolve) => {
		const child = spawn(process.execPath, [...args, file], { env, stdio: ['ignore', 'pipe', 'pipe'] });
		working.add(child);
		let noise = '';
		child.stdout.on('data', (b: Buffer) => (noise = (noise + b.toString()).slice(-8000)));
		child.stderr.on('data', (b: Buffer) => (noise = (noise + b.toString()).slice(-8000)));
		let late = false;
		const timer = setTimeout(() => {
			late = true;
			child.kill('SIGKILL');
		}, fileLimitMs);
		child.on('close', (code, signal) => {
			clearTimeout(timer);
			working.delete(child);
			const text = fs.existsSync(out) ? fs.readFileSync(out, 'utf8') : '';
			const said = text.trim().split('\n').filter(Boolean).map((l) => JSON.parse(l) as Row);
			const rows = said.filter((r) => !r.budget);
			const name = path.basename(file, '.test.ts');
			for (const b of new Set(said.map((r) => r.budget).filter(Boolean)))
				say(`budget  ${name}: ${b}`);
			for (const r of rows)
				r.name = `${name} › ${r.name}`;
			if (late)
				rows.push({ name, outcome: 'failed', ms: fileLimitMs, why: `the file took more than ${fileLimitMs / 1000} s\n${noise}` });
			else if (code !== 0 && !rows.some((r) => r.outcome === 'failed'))
				rows.push({ name, outcome: 'failed', ms: 0, why: `the test process ended with ${code ?? signal}\n${noise}` });
			resolve(rows);
		});
	});
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
			say(`FAILED  [${title}] ${r.name}\n${(r.why ?? '').split('\n').slice(0, 25).map((l) => `        ${l}`).join('\n')}`);
		else if (r.outcome === 'skipped')
			say(`skipped [${title}] ${r.name}: ${r.why}`);
		else if (opt['slow-ms'] && r.ms > Number(opt['slow-ms']))
			say(`slow    [${title}] ${r.name}: ${r.ms} ms`);
	}
}

interface Job {
	file: string;
	place: Place;
	tally: Tally;
}

const secondTries: string[] = [];
/** What --quick does not run. */
const leftOut: string[] = [];

/** Runs a file and prints its line; failures are for the caller to count. */
async function runJob(job: Job): Promise<Row[]> {
	const t0 = performance.now();
	const rows = await runFile(job.file, job.place);
	const n = (o: Row['outcome']): number => rows.filter((r) => r.outcome === o).length;
	say(`${n('failed') ? 'FAILED' : 'ok'}  [${job.place.title}] ${path.basename(job.file)}: ${n('passed')} passed, ${n('failed')} failed, ${n('skipped')} skipped (${((performance.now() - t0) / 1000).toFixed(1)} s)`);
	show(job.place.title, rows);
	return rows;
}

/** Runs a file that failed once more, alone. What passes now is flaky, unless its title says that it asserts a time. */
async function runAgain(job: Job, first: Row[]): Promise<void> {
	say(`again   [${job.place.title}] ${path.basename(job.file)}, alone`);
	const rows = await runJob(job);
	const failed = first.filter((r) => r.outcome === 'failed' && !isEcho(r));
	for (const r of failed.filter((f) => !rows.some((k) => k.name === f.name && k.outcome !== 'passed'))) {
		const outcome = afterSecondRun(r.name);
		secondTries.push(`${outcome === 'flaky' ? 'flaky' : 'timing'}  [${job.place.title}] ${r.name}: ${(r.why ?? '').split('\n')[0]}`);
		const passed = rows.find((k) => k.name === r.name);
		if (passed)
			passed.outcome = outcome;
		else // the file itself had failed, not one of its cases
			rows.push({ ...r, outcome });
	}
	job.tally.rows.push(...rows);
}

async function runModes(tallies: Tally[]): Promise<void> {
	const files = integrationFiles();
	const queue: Job[] = [];
	const failed: { job: Job; rows: Row[] }[] = [];
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
				queue.push({ file, place, tally });
			else
				left.push(path.basename(file, '.test.ts'));
		if (isQuick && left.length > 0)
			leftOut.push(`left out [${place.title}] ${left.length} files: ${left.join(', ')}`);
		if ((((place.cold || opt.sanitize) && opt.only) || sample.on) && !queue.some((job) => job.place === place))
			tallies.pop(); // --only or the sample has none of its files
	}
	queue.sort((a, b) => weight(b.file) - weight(a.file)); // the long ones first
	const worker = async (): Promise<void> => {
		for (let job = queue.shift(); job; job = queue.shift()) {
			const rows = await runJob(job);
			if (rows.some((r) => r.outcome === 'failed'))
				failed.push({ job, rows });
			else
				job.tally.rows.push(...rows);
		}
	};
	const used = new Set(queue.map((job) => fs.realpathSync(job.place.binary)));
	await Promise.all(Array.from({ length: jobs }, worker));
	for (const { job, rows } of failed)
		await runAgain(job, rows);
	if (used.size > 0) {
		const last: Tally = { title: 'afterwards', rows: [afterwards(used)] };
		tallies.push(last);
		show(last.title, last.rows);
	}
	for (const t of tallies) // a mode that is possible and ran nothing is a failure
		if (!t.note && t.rows.filter((r) => r.outcome !== 'skipped').length === 0) {
			t.rows.push({ name: 'mode ran no test', outcome: 'failed', ms: 0 });
			show(t.title, t.rows.slice(-1));
		}
}

/** In the names of the folders of our test files. No other run has it while we live. */
const mark = process.pid.toString(36);
const pidsBefore = new Set(fs.readdirSync('/proc'));

/** After the last test no process of the tests may live. */
function afterwards(binaries: Set<string>): Row {
	const left = leftovers(mark, binaries, pidsBefore);
	return { name: 'no process of the tests is left', outcome: left.length ? 'failed' : 'passed', ms: 0, why: left.join('\n') };
}

/** Files that take long, longest first: they start first. */
const heavy = ['swaps', 'expiry', 'workflows', 'runs', 'endings', 'deaths'];
function weight(file: string): number {
	const name = path.basename(file, '.test.ts'), at = heavy.indexOf(name);
	return at >= 0 ? heavy.length - at : isQuick && long.includes(name) ? 0.5 : 0;
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
	secondTries.forEach(say);
	leftOut.forEach(say);
	sample.tell('files in their modes', isQuick ? 'make test-all' : undefined);
	say(`\n${((performance.now() - started) / 1000).toFixed(0)} s in all`);
	return total;
}

const tallies: Tally[] = [];
if (!opt['no-units']) {
	const tally: Tally = { title: 'unit tests', rows: runUnits(buildDir, ['unit', 'fuzz'], Math.min(jobs, os.availableParallelism())) };
	tallies.push(tally);
	show(tally.title, tally.rows);
}
function failure(title: string, why: string): Tally {
	const tally: Tally = { title, rows: [{ name: why, outcome: 'failed', ms: 0 }] };
	show(title, tally.rows);
	return tally;
}

/** The engine's own interface, without a server above it, and programs that must do the same plain, cold and warm. */
function engine(): Tally {
	const title = 'engine, by itself';
	const tally: Tally = { title, rows: isRoot ? runUnits(buildDir, ['engine'], 1) : [{ name: title, outcome: 'skipped', ms: 0, why: 'its programs need root' }] };
	show(title, tally.rows);
	return tally;
}

if (!opt.units) {
	const missing = ensureImages(buildDir, opt.image ?? 'science', 'base'); // cases about images copy `base`, the smallest
	if (missing)
		tallies.push(failure('integration', `the image ${missing} could not be built`));
	else
		await runModes(tallies);
	if (isQuick)
		leftOut.push('left out: the programs that drive the engine by itself, and the virtual machine with cgroup v2');
	if (!isQuick && !opt.only && !opt.mode && !opt.sanitize && !opt['no-units'])
		tallies.push(engine());
	if (!isQuick && !opt['no-vm'] && !opt.only && !opt.mode && !opt.sanitize)
		tallies.push(await virtualMachine());
}
summary(tallies).close();
