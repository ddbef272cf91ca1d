// SPDX-License-Identifier: Apache-2.0
// Runs the same calls on every engine of this machine (README.md).

import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { Count } from '../../lib/count.ts';
import { startDocker, startPodman, type Daemon } from '../../lib/daemon.ts';
import { binary, freePort, top } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { askDoctor, runRows } from '../../lib/modes.ts';
import { options } from '../../lib/options.ts';
import { Sample } from '../../lib/sample.ts';
import { within } from '../../lib/wait.ts';
import type { Case } from '../hostile/case.ts';
import { differs, kinds } from '../hostile/cases/all.ts';
import type { Row } from '../hostile/suite.ts';
import { cases as common, type World } from './cases.ts';
import { gvisorCases } from './gvisor.ts';
import { leftoverCases } from './leftovers.ts';
import { levelCases } from './levels.ts';
import { storedCases } from './stored.ts';
import { takenCases } from './taken.ts';

const IMAGE = 'base';
const cases = [...common, ...leftoverCases, ...storedCases, ...takenCases, ...levelCases, ...gvisorCases];
const CASE_MS = 90_000;
/** Files of tests/integration that say what a client sees, and nothing about how an engine works. */
const files = ['files.test', 'sessions.test', 'classic.test', 'rest_checkpoints', 'limits_later', 'network.test', 'terminal', 'run_inputs', 'damaged_folder'];
const opt = options(`usage: tests/run engines [options]
  --engine NAME  docker or podman (default: both)
  --case REGEX   only cases whose name matches; no files of tests/integration`, { engine: { type: 'string', default: '' }, case: { type: 'string', default: '' } });
const count = new Count();

function note(outcome: 'passed' | 'failed' | 'skipped', name: string, more = ''): void {
	const mark = { passed: 'ok     ', failed: 'FAILED ', skipped: 'skip   ' }[outcome];
	console.log(`${mark} ${name}${more}`);
	count.add(outcome);
}

/** Of those, the ones that need no network, no checkpoints and no `ls`, which Debian's gVisor fails (docs/testing.md). */
const gvisorFiles = ['files.test', 'sessions.test', 'terminal', 'run_inputs'];

/** The files of tests/integration, with another engine. Their counts are added. */
function integration(engine: string, files: readonly string[], env: Record<string, string>): void {
	const r = spawnSync(path.join(top, 'tests/run'), [...files.flatMap((f) => ['--only', f]), '--mode', 'root', '--no-units', '--no-vm', '--image', IMAGE], {
		encoding: 'utf8', maxBuffer: 1 << 26, env: { ...process.env, CAISSON_TEST_ENGINE_ENV: JSON.stringify(env) } });
	const said = /(\d+) passed, (\d+) failed, (\d+) skipped(?:, (\d+) flaky)?\s*$/.exec(r.stdout);
	const [passed, failed, skipped] = said ? said.slice(1, 4).map(Number) : [0, 1, 0];
	if (!said || failed! > 0)
		console.log(r.stdout.split('\n').filter((l) => /^FAILED|^ {8}/.test(l)).slice(0, 60).join('\n') + r.stderr.slice(0, 2000));
	console.log(`${failed === 0 && said ? 'ok     ' : 'FAILED '} ${engine}: ${files.length} files of tests/integration: ${passed} passed, ${failed} failed, ${skipped} skipped`);
	count.add('passed', passed);
	count.add('failed', failed);
	count.add('skipped', skipped);
	count.add('flaky', Number(said?.[4] ?? 0));
}

async function play(engine: string, w: World): Promise<void> {
	for (const c of cases.filter((c) => new RegExp(opt.case).test(c.name) && (!c.docker || engine === 'docker'))) {
		const begin = performance.now();
		try {
			const why = c.skip?.(w);
			if (why) {
				note('skipped', `${engine}: ${c.name}`, `: ${why}`);
				continue;
			}
			await within(c.name, c.run(w), c.ms ?? CASE_MS);
			note('passed', `${engine}: ${c.name}`, ` (${Math.round(performance.now() - begin)} ms)`);
		} catch (e) {
			note('failed', `${engine}: ${c.name}`, `\n        ${String((e as Error).stack).split('\n').slice(0, 14).join('\n        ')}`);
		}
	}
}

/** Part of the hostile suite: what containers do otherwise, and a sample of what is quick elsewhere. Everything, with twins: make hostile ARGS='--engine docker'. */
const SHARE = 0.2;
const slow = (c: Case): boolean => c.ends === 'timeout' || !c.code || /numpy|while True|time\.sleep\([1-9]|time\(\) \+/.test(c.code);

async function attacks(engine: string, w: World): Promise<void> {
	const sample = new Sample(true);
	const mine = kinds.filter(([kind]) => !/client|permitted/.test(kind)).flatMap(([, list]) => list);
	const chosen = mine.filter((c) => !slow(c) && sample.picks(`${c.id} on ${engine}`, SHARE, differs(c)));
	const warm = sample.turn('warm', 2) === 0 ? 'off' : 'on';
	const status = await runRows<Row>('hostile/suite.ts', {
		CAISSON_TEST_MODE: 'root', CAISSON_TEST_BINARY: binary, CAISSON_TEST_ENGINE_ENV: JSON.stringify(w.env), CAISSON_TEST_ENFORCED: askDoctor('root', binary, w.daemon.folder, w.env).enforced.join(','),
		HOSTILE_CASE: `^(${chosen.map((c) => c.id).join('|')})$`, HOSTILE_WARM: warm,
	}, (r) => note(r.outcome, `${engine}: attack ${r.id}, ${r.attack}`, ` (${r.ms} ms)${r.why ? `\n        ${r.why.split('\n').slice(0, 12).join('\n        ')}` : ''}`));
	if (status !== 0)
		note('failed', `${engine}: the hostile suite ended with status ${status}`);
	sample.tell(`attacks on ${engine}, interpreters ${warm === 'on' ? 'warm' : 'cold'}`);
}

async function on(engine: 'docker' | 'podman', daemon: Daemon | string): Promise<void> {
	if (typeof daemon === 'string') {
		// CI has what is needed: there a skip would hide a failure.
		note(process.env.CAISSON_STRICT === '1' && engine === 'docker' ? 'failed' : 'skipped', `${engine}: ${daemon}`);
		return;
	}
	try {
		const why = daemon.importImage(IMAGE);
		if (why) {
			note('failed', `${engine}: ${why}`);
			return;
		}
		const env = daemon.settings(IMAGE);
		await play(engine, { daemon, env });
		if (!opt.case && engine === 'docker') {
			await attacks(engine, { daemon, env });
			integration(engine, files, env);
			integration(`${engine}, gVisor`, gvisorFiles, { ...env, SANDBOX_RUNTIME: 'runsc' });
		}
	} finally {
		await daemon.stop();
	}
}

const missing = ensureImages(path.dirname(binary), IMAGE);
if (missing) {
	note('failed', `the image ${missing} could not be built`);
	count.close();
}
if (opt.engine !== 'podman')
	await on('docker', await startDocker({ tlsPort: await freePort() }));
if (opt.engine !== 'docker')
	await on('podman', await startPodman());
count.close();
