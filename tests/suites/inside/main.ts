// SPDX-License-Identifier: Apache-2.0
// Runs the test suites of Python and its packages inside sandboxes, in every mode that this host can do, and prints the table.

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { spawn, spawnSync } from 'node:child_process';
import * as readline from 'node:readline';
import { parseArgs } from 'node:util';
import { imagesDir, openCopy, PLAIN_UID, top, type Mode } from '../../lib/env.ts';
import { owned, sweep } from '../../lib/owned.ts';
import { count as countReports, isLibrary, uncounted, type Reported } from './counts.ts';
import type { Row } from './judge.ts';
import { markdown } from './page.ts';
import { packs } from './modules.ts';

const { values: opt } = parseArgs({
	options: {
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
		help: { type: 'boolean', short: 'h', default: false },
	},
});
if (opt.help) {
	console.log(`usage: tests/suites/inside/run [--quick: root warm and user cold] [--module REGEX] [--mode root|user]… [--warm on|off]… [--jobs 2 modes at a time]
                        [--build DIR] [--image NAME] [--report FILE: a JSON line for each module]
                        [--list | --markdown: docs/inside.md | --count REPORT…: its figures, from reports]`);
	process.exit(0);
}
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

const count = { passed: 0, failed: 0, skipped: 0 };
const isRoot = process.getuid!() === 0;
sweep(os.tmpdir(), 'caisson-inside-', 'caisson-test-');
const scratch = owned('caisson-inside-');
fs.chmodSync(scratch, 0o755);
const binary = openCopy(path.join(opt.build, 'caisson'), scratch);

function end(): never {
	console.log(`\n${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
	process.exit(count.failed > 0 ? 1 : 0);
}

/**
 * How the interpreters start in MODE: as asked for, else both ways. A quick run takes the two corners that have every other thing different:
 * root with its own ids, control groups and forked interpreters, a plain user without any of these.
 */
function starts(mode: Mode): string[] {
	return opt.warm ?? (!opt.quick || opt.mode ? ['off', 'on'] : [mode === 'root' ? 'on' : 'off']);
}

/** The modes that are possible here; what is not says why. */
function places(): Place[] {
	const found: Place[] = [];
	for (const mode of (opt.mode ?? ['root', 'user']) as Mode[]) {
		if (mode === 'root' && !isRoot) {
			console.log('root: skipped, started without root');
			count.skipped++;
			continue;
		}
		const id = String(PLAIN_UID);
		const argv = [...(isRoot && mode === 'user' ? ['setpriv', '--reuid', id, '--regid', id, '--clear-groups', '--'] : []), binary, 'doctor', '--json'];
		const r = spawnSync(argv[0]!, argv.slice(1), { encoding: 'utf8', env: { PATH: process.env.PATH, SANDBOX_STATE_DIR: path.dirname(imagesDir) } });
		const said = JSON.parse(r.stdout) as { enforced: string[]; cgroup: string; rows: { state: string; what: string; value: string }[] };
		const missing = said.rows.filter((row) => row.state === 'missing');
		if (missing.length > 0) {
			console.log(`${mode}: skipped, ${missing.map((row) => `${row.what}: ${row.value}`).join('; ')}`);
			count.skipped++;
			continue;
		}
		for (const warm of starts(mode))
			found.push({ mode, warm, title: `native, ${mode}, cgroup ${said.cgroup}, ${warm === 'on' ? 'warm' : 'cold'}`, enforced: said.enforced });
	}
	return found;
}

const report: Reported[] = [];

function show(p: Place, r: Row): void {
	report.push({ ...r, where: `${p.mode} ${p.warm === 'on' ? 'warm' : 'cold'}` });
	if (opt.report)
		fs.appendFileSync(opt.report, `${JSON.stringify(report.at(-1))}\n`);
	count.passed += r.passed;
	count.skipped += r.skipped.length + r.forbidden;
	count.failed += r.failed.length;
	const counts = `${String(r.passed).padStart(6)} passed ${String(r.failed.length).padStart(3)} failed ${String(r.skipped.length).padStart(4)} skipped ${String(r.forbidden).padStart(3)} cannot`;
	console.log(`${p.mode.padEnd(4)} ${p.warm === 'on' ? 'warm' : 'cold'} ${counts} ${(r.ms / 1000).toFixed(1).padStart(6)} s  ${r.module}`);
	for (const t of r.again)
		console.log(`     passed alone: ${t}`);
	for (const f of r.failed)
		console.log(`FAILED  ${f.test}\n${f.why.split('\n').slice(-12).map((l) => `           ${l}`).join('\n')}`);
}

function runPlace(p: Place): Promise<void> {
	return new Promise((resolve) => {
		const child = spawn(process.execPath, [path.join(top, 'tests/suites/inside/suite.ts')], {
			stdio: ['ignore', 'pipe', 'inherit'],
			env: {
				...process.env, CAISSON_TEST_MODE: p.mode, CAISSON_TEST_BINARY: binary, CAISSON_TEST_IMAGES: imagesDir, CAISSON_TEST_IMAGE: opt.image, CAISSON_TEST_ENFORCED: p.enforced.join(','),
				INSIDE_PACKS: packsDir, INSIDE_MODULE: opt.module, INSIDE_QUICK: opt.quick ? '1' : '', INSIDE_WARM: p.warm,
			},
		});
		let rows = 0;
		readline.createInterface({ input: child.stdout }).on('line', (l) => {
			rows++;
			show(p, JSON.parse(l) as Row);
		});
		child.on('close', (code) => {
			if (code !== 0 || rows === 0) {
				console.log(`FAILED  ${p.title}: the suite ended with status ${code} after ${rows} modules`);
				count.failed++;
			}
			resolve();
		});
	});
}

if (fs.readFileSync(page, 'utf8') !== `${markdown()}\n`) {
	console.log('FAILED  docs/inside.md is not what known.ts and modules.ts say: tests/suites/inside/run --markdown >docs/inside.md');
	count.failed++;
}
const packsDir = path.join(opt.build, 'inside');
if (spawnSync(path.join(top, 'tests/suites/inside/packs'), [path.join(imagesDir, opt.image), packsDir], { stdio: ['ignore', 'inherit', 'inherit'] }).status !== 0) {
	console.log('FAILED  the tests could not be fetched');
	count.failed++;
	end();
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
end();
