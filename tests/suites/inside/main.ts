// SPDX-License-Identifier: Apache-2.0
// Runs the test suites of Python and its packages inside sandboxes, in every mode that this host can do, and prints the table.

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { Count } from '../../lib/count.ts';
import { imagesDir, openCopy, top, type Mode } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { askDoctor, modes, runRows } from '../../lib/modes.ts';
import { options, sampled } from '../../lib/options.ts';
import { owned, sweep } from '../../lib/owned.ts';
import { playAgain } from '../../lib/play.ts';
import { Sample } from '../../lib/sample.ts';
import { againEnv } from '../../lib/time.ts';
import { count as countReports, isLibrary, uncounted, type Reported } from './counts.ts';
import type { Row } from './judge.ts';
import { markdown } from './page.ts';
import { chosen, packs } from './modules.ts';

const usage = `usage: tests/run inside [options]
  --quick         the short modules, as root with warm interpreters and as a plain user with cold ones
  --module REGEX  only the modules whose name matches
  --mode MODE     root or user (may be repeated; default: both)
  --warm STATE    on or off: warm or cold interpreters (may be repeated; default: both)
  --jobs N        modes at a time (default: 2)
  --build DIR     test another build folder
  --image NAME    the image of the sandboxes (default: science)
  --report FILE   write one JSON line per module
  --list          print the modules and end
  --markdown      print docs/inside.md and end
  --count FILE…   take the figures of that page from reports, and end
  --sample        of --quick: a fixed core in both modes, the rest in one of them, which the commit chooses (what CI runs)
  --seed TEXT     the part that another run had, which printed this seed`;

const opt = options(usage, {
	quick: { type: 'boolean', default: false },
	module: { type: 'string', default: '' },
	mode: { type: 'string', multiple: true },
	warm: { type: 'string', multiple: true },
	build: { type: 'string', default: path.join(top, 'build') },
	image: { type: 'string', default: 'science' },
	jobs: { type: 'string', default: '2' },
	report: { type: 'string' },
	count: { type: 'string', multiple: true },
	list: { type: 'boolean', default: false },
	markdown: { type: 'boolean', default: false },
	...sampled,
});
const sample = new Sample(opt.sample, opt.seed);
const quick = opt.quick || sample.on;
if (opt.list) {
	for (const m of packs.flatMap((p) => p.modules))
		console.log(`${m.quick ? 'quick' : '     '} ${m.name}`);
	process.exit(0);
}

const page = path.join(top, 'docs/inside.md');
if (opt.count) {
	countReports(opt.count);
	fs.writeFileSync(page, `${markdown()}\n`);
	for (const u of uncounted())
		console.log(`not counted yet: ${u}`);
	process.exit(0);
}
if (opt.markdown) {
	console.log(markdown());
	process.exit(0);
}

interface Place {
	mode: Mode;
	warm: string;
	title: string;
	enforced: string[];
}

const count = new Count();
sweep(os.tmpdir(), 'caisson-inside-', 'caisson-test-');
const scratch = owned('caisson-inside-');
fs.chmodSync(scratch, 0o755);
const binary = openCopy(path.join(opt.build, 'caisson'), scratch);

function fail(what: string): void {
	console.log(`FAILED  ${what}`);
	count.add('failed');
}

/**
 * How the interpreters start in MODE: as asked for, else both ways. A quick run takes the two corners that have every other thing different:
 * root with its own ids, control groups and forked interpreters, a plain user without any of these.
 */
function starts(mode: Mode): string[] {
	return opt.warm ?? (!quick || opt.mode ? ['off', 'on'] : [mode === 'root' ? 'on' : 'off']);
}

/** The modes that are possible here; what is not says why. */
function places(): Place[] {
	const found: Place[] = [];
	for (const mode of (opt.mode ?? modes) as Mode[]) {
		const can = askDoctor(mode, binary, scratch);
		if (can.missing) {
			console.log(`${mode}: skipped, ${can.missing}`);
			count.add('skipped');
			continue;
		}
		for (const warm of starts(mode))
			found.push({ mode, warm, title: `native, ${mode}, cgroup ${can.cgroup}, ${warm === 'on' ? 'warm' : 'cold'}`, enforced: can.enforced });
	}
	return found;
}

const report: Reported[] = [];

function show(p: Place, r: Row): void {
	report.push({ ...r, where: `${p.mode} ${p.warm === 'on' ? 'warm' : 'cold'}` });
	if (opt.report)
		fs.appendFileSync(opt.report, `${JSON.stringify(report.at(-1))}\n`);
	count.add('passed', r.passed);
	count.add('skipped', r.skipped.length + r.forbidden);
	const counts = `${String(r.passed).padStart(6)} passed ${String(r.failed.length).padStart(3)} failed ${String(r.skipped.length).padStart(4)} skipped ${String(r.forbidden).padStart(3)} cannot`;
	console.log(`${p.mode.padEnd(4)} ${p.warm === 'on' ? 'warm' : 'cold'} ${counts} ${(r.ms / 1000).toFixed(1).padStart(6)} s  ${r.module}`);
	for (const f of r.failed)
		console.log(`failed  ${f.test}\n${f.why.split('\n').slice(-12).map((l) => `           ${l}`).join('\n')}`);
}

interface Failed {
	module: string;
	test: string;
	outcome: 'failed' | 'passed';
	why: string;
}

/** TESTS: of these modules, only these tests. */
function suite(p: Place, each: (r: Row) => void, tests?: Record<string, string[]>): Promise<number> {
	const exactly = (names: string[]): string => `^(${names.map((n) => n.replaceAll('.', '\\.')).join('|')})$`;
	return runRows<Row>('inside/suite.ts', {
		CAISSON_TEST_MODE: p.mode, CAISSON_TEST_BINARY: binary, CAISSON_TEST_IMAGE: opt.image, CAISSON_TEST_ENFORCED: p.enforced.join(','),
		INSIDE_PACKS: packsDir, INSIDE_MODULE: tests ? exactly(Object.keys(tests)) : opt.module, INSIDE_QUICK: quick ? '1' : '', INSIDE_WARM: p.warm,
		INSIDE_SEED: sample.on && !tests ? sample.seed : '', INSIDE_TESTS: JSON.stringify(tests ?? {}), ...(tests ? againEnv : {}),
	}, each);
}

/** Runs failed tests by themselves; what failed as a whole module runs whole. */
async function runAgain(p: Place, failed: Failed[]): Promise<Failed[]> {
	const tests: Record<string, string[]> = {};
	for (const f of failed)
		(tests[f.module] ??= []).push(...(f.test === f.module ? [] : [f.test]));
	const rows: Row[] = [];
	await suite(p, (r) => void rows.push(r), tests);
	return failed.flatMap((f) => {
		const row = rows.find((r) => r.module === f.module);
		const still = row && [...row.failed, ...row.skipped].find((k) => k.test === f.test || k.test === f.module);
		return row ? [{ ...f, outcome: still ? 'failed' as const : 'passed' as const, why: still?.why ?? '' }] : [];
	});
}

async function runPlace(p: Place): Promise<void> {
	let rows = 0;
	const failed: Failed[] = [];
	const code = await suite(p, (r) => {
		rows++;
		show(p, r);
		failed.push(...r.failed.map((f) => ({ module: r.module, test: f.test, outcome: 'failed' as const, why: f.why })));
	});
	await playAgain(failed, count, { name: (f) => `[${p.title}] ${f.test}`, run: (again) => runAgain(p, again) });
	sample.note(rows, chosen(packs.flatMap((k) => k.modules), false, new RegExp('')).length);
	if (code !== 0 || rows === 0)
		fail(`${p.title}: the suite ended with status ${code} after ${rows} modules`);
}

if (ensureImages(opt.build, opt.image)) {
	fail(`the image ${opt.image} could not be built`);
	count.close();
}
if (fs.readFileSync(page, 'utf8') !== `${markdown()}\n`)
	fail('docs/inside.md is not what known.ts and modules.ts say: tests/run inside --markdown >docs/inside.md');
const packsDir = path.join(opt.build, 'inside');
if (spawnSync(path.join(top, 'tests/suites/inside/packs'), [path.join(imagesDir, opt.image), packsDir], { stdio: ['ignore', 'inherit', 'inherit'] }).status !== 0) {
	fail('the tests could not be fetched');
	count.close();
}

/** What was counted in this run, as docs/inside.md has it for all modules. */
function printSums(): void {
	for (const where of new Set(report.map((r) => r.where))) {
		const of = (library: boolean): string => {
			const rows = report.filter((r) => r.where === where && isLibrary(r.module) === library);
			const total = (n: (r: Reported) => number): number => rows.reduce((s, r) => s + n(r), 0);
			return `${rows.length} modules, ${total((r) => r.passed)} passed, ${total((r) => r.skipped.length)} left out, ${total((r) => r.forbidden)} cannot, ${total((r) => r.failed.length)} failed`;
		};
		console.log(`${where}: standard library ${of(true)}; packages ${of(false)}`);
	}
}

const waiting = places();
if (opt.report)
	fs.writeFileSync(opt.report, '');
await Promise.all(Array.from({ length: Number(opt.jobs) }, async () => {
	for (let p = waiting.shift(); p; p = waiting.shift())
		await runPlace(p);
}));
printSums();
const cannot = report.reduce((n, r) => n + r.forbidden, 0);
console.log(`\n${report.length} runs of modules; ${cannot} tests failed as known.ts says they must (counted as skipped)`);
sample.tell('runs of modules');
count.close();
