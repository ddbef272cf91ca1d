// SPDX-License-Identifier: Apache-2.0
// How every suite judges cases that failed (tests/lib/play.ts), and what the gate runs. No sandbox is needed.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { asCold, asUser, inCore, LEFT_OUT, strictFiles } from '../lib/core.ts';
import { scratch, top } from '../lib/env.ts';
import { rowAgain, secondTries } from '../lib/play.ts';
import type { Row } from '../lib/reporter.ts';

interface Ended {
	lines: string[];
	status: number | null;
}

/** Nothing of this environment: the gate would read of cases that are flaky here. */
function run(args: string[], env: Record<string, string> = {}): Ended {
	const r = spawnSync(process.execPath, ['--disable-warning=ExperimentalWarning', ...args], { encoding: 'utf8', env: { PATH: process.env.PATH, ...env } });
	assert.equal(r.stderr, '');
	return { lines: r.stdout.trim().split('\n'), status: r.status };
}

/** An executable shell script in a folder of its own, which is its working directory. */
function script(text: string): string {
	const file = path.join(scratch('script'), 'run');
	fs.writeFileSync(file, `#!/bin/bash\ncd "$(dirname "$0")"\n${text}\n`, { mode: 0o755 });
	return file;
}

/** The output and the status of a suite with these cases: each gives the errors of its first, second … run. `skip` is no error: the case skips itself. */
function suite(cases: Record<string, string[]>, env: Record<string, string> = {}): Ended {
	const program = `
		import { Count } from '${top}/tests/lib/count.ts';
		import { play } from '${top}/tests/lib/play.ts';
		const count = new Count();
		const cases = ${JSON.stringify(cases)};
		await play(Object.entries(cases).map(([name, errors]) => ({ name, run: async () => { const e = errors.shift(); if (e === 'skip') return e; if (e) throw new Error(e); } })), count, { jobs: 2 });
		count.close();`;
	return run(['--input-type=module', '--eval', program], env);
}

describe('a case that failed', () => {
	it('runs again up to two times; if it passes then, it is named and forgiven', () => {
		const { lines, status } = suite({ good: [], once: ['no'], twice: ['no', 'still no'] });
		assert.deepEqual([lines.at(-1), status], ['1 passed, 0 failed, 0 skipped, 2 flaky', 0]);
		assert.deepEqual(lines.filter((l) => l.startsWith('flaky')), ['flaky   once: Error: no', 'flaky   twice: Error: no']);
	});
	it('has failed when it fails three times', () => {
		const { lines, status } = suite({ good: [], bad: ['no', 'no', 'no'] });
		assert.deepEqual([lines.at(-1), status], ['1 passed, 1 failed, 0 skipped', 1]);
		assert.ok(lines.includes('FAILED  bad'));
	});
	it('has failed when it hangs, also if the time of the run is used up meanwhile', () => {
		const folder = scratch('hang'), file = path.join(folder, 'hang.test.ts');
		fs.writeFileSync(file, `import { it } from 'node:test'; it('ends', () => {}); it('hangs', () => new Promise((done) => setTimeout(done, 60_000)));`);
		const outcomes = (hangMs: number): string[] => {
			const program = `
				import { runFile } from '${top}/tests/lib/file.ts';
				const place = { mode: 'root', title: 'root', binary: '/bin/true', enforced: [] };
				const rows = await runFile({ file: '${file}', place }, { scratch: '${folder}', mark: 'x', sanitized: false, hangMs: ${hangMs} }, () => {});
				console.log(JSON.stringify(rows.map((r) => [r.name, r.outcome])));`;
			// a file that is at work may go on for 20 s after the end
			const { lines } = run(['--input-type=module', '--eval', program], { CAISSON_TEST_UNTIL: String(Date.now() - 18_000) });
			return JSON.parse(lines.at(-1)!);
		};
		assert.deepEqual(outcomes(500), [['hang › ends', 'passed'], ['hang', 'failed']]);
		assert.deepEqual(outcomes(60_000), [['hang › ends', 'passed'], ['hang › what it had not come to', 'skipped']]);
	});
	it('has failed when it skips itself the second time', () => {
		const { lines, status } = suite({ good: [], bad: ['no', 'skip'] });
		assert.deepEqual([lines.at(-1), status], ['1 passed, 1 failed, 0 skipped', 1]);
	});
	it('has failed when it did not run the second time, whatever else of its file passed', () => {
		const row = (name: string, outcome: Row['outcome'], full?: string): Row => ({ name, outcome, ms: 0, full });
		const bad = row('f › bad', 'failed', 'bad'), file = row('f', 'failed');
		assert.equal(rowAgain(bad, [row('f › good', 'passed', 'good')]), undefined);
		assert.equal(rowAgain(bad, [row('f › good', 'failed', 'good'), row('f › bad', 'passed', 'bad')])?.outcome, 'passed');
		assert.equal(rowAgain(bad, [row('f › bad', 'passed', 'bad'), file]), file);
		assert.equal(rowAgain(file, [row('f › good', 'passed', 'good')])?.outcome, 'passed');
		assert.equal(rowAgain(file, [row('f › good', 'passed', 'good'), bad]), bad);
	});
	it('runs again as a program that Meson knows', () => {
		const folder = path.dirname(script('[ -f marker ] || { touch marker; exit 1; }'));
		fs.writeFileSync(path.join(folder, 'meson.build'), "project('p')\ntest('once', find_program('./run'), suite: 'unit')\ntest('other', find_program('true'), suite: 'fuzz')\n");
		const build = path.join(folder, 'build');
		assert.equal(spawnSync('meson', ['setup', build, folder]).status, 0);
		const { lines } = run(['--input-type=module', '--eval', `
			import { runUnits, unitAgain } from '${top}/tests/lib/units.ts';
			const rows = runUnits('${build}', ['unit'], 1);
			console.log(rows[0].name, rows[0].outcome, unitAgain('${build}', ['unit'], rows[0]), rows[0].outcome);`]);
		assert.match(lines.at(-1)!, /^p:unit \/ once failed true flaky$/);
	});
	it('runs again in a suite that is no TypeScript', () => {
		const external = (text: string): Ended => run([path.join(top, 'tests/lib/external.ts'), script(text)]);
		const once = external('echo "ok      good"; if [ "$CAISSON_TEST_AGAIN" = "a: b" ]; then echo "ok      a: b"; else printf "FAILED  a: b\n        no\n"; fi; echo "1 passed, 1 failed"');
		assert.deepEqual([once.lines.at(-1), once.status], ['1 passed, 0 failed, 0 skipped, 1 flaky', 0]);
		assert.ok(once.lines.includes('flaky   a: b: no') && !once.lines.some((l) => l.startsWith('FAILED')));
		const crash = external('printf "FAILED  a\n        the server ended with SIGSEGV\n"; [ -z "$CAISSON_TEST_AGAIN" ] || echo "ok      a"; echo "0 passed, 1 failed"; exit 1');
		assert.deepEqual([crash.lines.at(-1), crash.status], ['0 passed, 1 failed, 0 skipped', 1]);
		for (const early of ['echo "ok      a"', 'echo "ok      a"; echo "1 passed, 0 failed"; exit 3', 'echo "1 passed, 1 failed"'])
			assert.match(external(early).lines.at(-1)!, / 1 failed, /, early);
	});
	it('six at once are no accident', () => {
		const { lines, status } = suite(Object.fromEntries(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => [name, ['no']])));
		assert.deepEqual([lines.at(-1), status], ['0 passed, 6 failed, 0 skipped', 1]);
	});
	it('make verify counts every first failure', () => {
		const { lines, status } = suite({ good: [], once: ['no'] }, { CAISSON_TEST_SLOTS: '0' });
		assert.deepEqual([lines.at(-1), status], ['1 passed, 0 failed, 0 skipped, 1 flaky', 1]);
	});
	it('a signal, a broken promise and a report of a sanitizer are never forgiven', () => {
		for (const why of ['serve ended with SIGABRT: ', 'broken promise: w->state', '==1==ERROR: AddressSanitizer: heap-use-after-free', 'x.c:1:2: runtime error: signed integer overflow', 'BROKEN read /etc/shadow (worked)'])
			assert.equal(secondTries(why), 0, why);
		const { lines, status } = suite({ good: [], crash: ['serve ended with SIGSEGV'] });
		assert.deepEqual([lines.at(-1), status], ['1 passed, 1 failed, 0 skipped', 1]);
	});
	it('where walls and acknowledged data are asserted, a deadline alone is forgiven', () => {
		assert.equal(secondTries('a stored file: expected kept, actual nothing', true), 0);
		assert.equal(secondTries('waited 30000 ms in vain for: a zygote', true), 2);
		assert.equal(secondTries('a stored file: expected kept, actual nothing'), 2);
	});
	it('when the time is used up no case begins, and each is named', () => {
		const { lines, status } = suite({ one: [], two: ['no'] }, { CAISSON_TEST_UNTIL: '1' });
		assert.deepEqual([lines.at(-1), status], ['0 passed, 0 failed, 2 skipped', 0]);
		assert.ok(lines.includes('skipped one: the time of this run is used up'));
	});
});

describe('the gate', () => {
	it('has a table of flaky cases whose titles and reasons may have colons', () => {
		const table = path.join(scratch('gate'), 'flaky.tsv');
		suite({ 'a: b': ['one: two'], c: ['no'] }, { CAISSON_TEST_FLAKY: table, CAISSON_TEST_STEP: 'jobs' });
		assert.equal(fs.readFileSync(table, 'utf8'), 'jobs\ta: b\tError: one: two\njobs\tc\tError: no\n');
	});
	it('fails a step whose status nothing else explains than more flaky cases than are forgiven', () => {
		const failures = (closing: string, status: number): string => spawnSync('bash', ['-c', `
			eval "$(sed -n '/^count() {/,/^}/p' "$1/.ci/run")"
			logs=$2 END=3600 SLOTS=5 passed=0 failed=0 skipped=0 flaky=0
			echo "$3" >"$logs/x.log"
			count x "$4" 1 '' >/dev/null
			echo $failed`, 'count', top, scratch('gate'), closing, String(status)], { encoding: 'utf8' }).stdout.trim();
		assert.equal(failures('9 passed, 0 failed, 0 skipped, 1 flaky', 0), '0');
		assert.equal(failures('9 passed, 0 failed, 0 skipped, 1 flaky', 134), '1');
		assert.equal(failures('9 passed, 0 failed, 0 skipped, 5 flaky', 1), '1');
		assert.equal(failures('9 passed, 0 failed, 0 skipped, 6 flaky', 1), '0'); // the sum of all steps says so
		assert.equal(failures('9 passed, 0 failed, 0 skipped', 1), '1');
		assert.equal(failures('9 passed, 2 failed, 0 skipped', 1), '2');
	});
	it('ends well with flaky cases that are forgiven, and names each in its closing lines', () => {
		const folder = scratch('closing'), table = path.join(folder, 'flaky.tsv');
		const ends = (flaky: number): Ended => {
			fs.writeFileSync(table, '');
			const cases = Object.fromEntries(Array.from({ length: flaky }, (_, i) => [`case ${i}`, ['no']]));
			const said = suite({ good: [], ...cases }, { CAISSON_TEST_FLAKY: table, CAISSON_TEST_STEP: 'jobs', CAISSON_TEST_SLOTS: '9' });
			fs.writeFileSync(path.join(folder, 'jobs.log'), `${said.lines.join('\n')}\n`);
			const r = spawnSync('bash', ['-c', `
				for name in count steps closing; do eval "$(sed -n "/^$name() {/,/^}/p" "$1/.ci/run")"; done
				logs=$2 CAISSON_TEST_FLAKY=$2/flaky.tsv END=3600 SLOTS=5 seed=seed passed=0 failed=0 skipped=0 flaky=0
				table=()
				count jobs "$3" 1 ''
				closing`, 'closing', top, folder, String(said.status)], { encoding: 'utf8' });
			assert.equal(r.stderr, '');
			return { lines: r.stdout.trim().split('\n'), status: r.status };
		};
		const { lines, status } = ends(1);
		assert.deepEqual([lines.at(-1), status], ['1 passed, 0 failed, 0 skipped, 1 flaky', 0]);
		assert.ok(lines.includes('flaky   jobs\tcase 0\tError: no'), lines.join('\n'));
		assert.deepEqual(((e) => [e.lines.at(-1), e.status])(ends(5)), ['1 passed, 0 failed, 0 skipped, 5 flaky', 0]);
		const many = ends(6);
		assert.ok(many.lines.includes('FAILED  6 cases were flaky; 5 are forgiven'), many.lines.join('\n'));
		assert.equal(many.status, 1);
	});
	it('refuses a step that is not there, and names those that are', () => {
		const gate = path.join(top, '.ci/run'), text = fs.readFileSync(gate, 'utf8');
		// It finds no program, so that a gate that goes on ends before it changes anything.
		const r = spawnSync('/bin/bash', [gate, '--only', 'nosuch'], { encoding: 'utf8', env: { PATH: '/nonexistent' } });
		assert.deepEqual([r.status, r.stdout], [2, '']);
		const [, said] = /^there is no step 'nosuch' to choose; there are: (.*)$/m.exec(r.stderr)!;
		const asked = [...text.matchAll(/\bwanted ([a-z-]+) \|\||^suite ([a-z-]+) /gm)].map((m) => m[1] ?? m[2]!);
		const touched = run([path.join(top, 'tests/lib/touched.ts'), 'seed', ...said!.split(' ')]).lines.map((l) => l.split(' ')[0]!);
		const all = [...fs.readFileSync(path.join(top, 'tests/lib/touched.ts'), 'utf8').matchAll(/^\t'?([a-z-]+)'?: \[\d/gm)].map((m) => m[1]!);
		assert.deepEqual(touched.sort(), all.sort());
		assert.deepEqual(said!.split(' ').sort(), [...asked, ...all].sort());
	});
	it('runs the suite that is asked for, whatever the last commits touched', () => {
		const chosen = (...names: string[]): Ended => run([path.join(top, 'tests/lib/touched.ts'), 'seed', ...names], { GIT_DIR: '/nonexistent' });
		assert.deepEqual(chosen('api', 'test').lines, ['api 70']);
		assert.deepEqual(chosen().lines, ['']);
	});
});

describe('the core that make test runs', () => {
	const folder = path.join(top, 'tests/integration');
	const files = fs.readdirSync(folder).filter((f) => f.endsWith('.test.ts')).map((f) => path.basename(f, '.test.ts'));
	it('names files that are there', () => {
		assert.deepEqual([...asUser, ...asCold, ...strictFiles].filter((name) => !files.includes(name)), []);
	});
	it('has a case of every file, but for those that do nothing else than to take long', () => {
		const titles = (name: string): string[] => [...fs.readFileSync(path.join(folder, `${name}.test.ts`), 'utf8').matchAll(/\bit\(\s*(?:`[^`]*`|'.*?'|[\w.]+,)/g)].map((m) => m[0]);
		const none = files.filter((f) => inCore(f, 'root', false, 'root') && titles(f).every((t) => new RegExp(LEFT_OUT).test(t)));
		// Those of torture_* are in lib/torture-rows.ts; torture_tools has one for the core there.
		assert.deepEqual(none, ['density', 'expiry', 'swaps', 'torture_packages', 'torture_routes', 'torture_tools', 'turns_rest']);
	});
});
