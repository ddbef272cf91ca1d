// SPDX-License-Identifier: Apache-2.0
// Runs the same calls on every engine of this machine (README.md).

import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { Count } from '../../lib/count.ts';
import { startDocker, startPodman, type Daemon } from '../../lib/daemon.ts';
import { binary, freePort, top } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { askDoctor, runRows } from '../../lib/modes.ts';
import { options, sampled, sampledUsage } from '../../lib/options.ts';
import { play, playAgain } from '../../lib/play.ts';
import { Sample } from '../../lib/sample.ts';
import { againEnv, NO_TIME, timeIsUp } from '../../lib/time.ts';
import { within } from '../../lib/wait.ts';
import type { Case } from '../hostile/case.ts';
import { differs, kinds } from '../hostile/cases/all.ts';
import type { Row } from '../hostile/suite.ts';
import { cases as common, type World } from './cases.ts';
import { gvisorCases } from './gvisor.ts';
import { leftoverCases } from './leftovers.ts';
import { levelCases } from './levels.ts';
import { placeCases } from './places.ts';
import { signalCases } from './signals.ts';
import { storedCases } from './stored.ts';
import { takenCases } from './taken.ts';

const IMAGE = 'base';
const cases = [...common, ...leftoverCases, ...storedCases, ...takenCases, ...levelCases, ...gvisorCases, ...signalCases, ...placeCases];
const CASE_MS = 90_000;
/** Files of tests/integration that say what a client sees, and nothing about how an engine works. */
const files = ['files', 'e2b_files', 'sessions', 'classic', 'rest_checkpoints', 'limits_later', 'network', 'terminal', 'run_inputs', 'damaged_folder', 'living_session', 'rest_processes', 'rest_terminals', 'ports', 'ports_events', 'watch', 'shell_verb'];
const opt = options(`usage: tests/run engines [options]
  --engine NAME  docker or podman (default: both)
  --case REGEX   only cases whose name matches; no files of tests/integration
${sampledUsage}`, { engine: { type: 'string', default: '' }, case: { type: 'string', default: '' }, ...sampled });
const count = new Count();
const sample = new Sample(opt.sample, opt.seed);
/** The fixed core of a sample. */
const CORE = /^(a container has the walls|a timeout ends the run|settings of the whole server|nothing is left: containers)|is removed from outside is a lost/;

function note(outcome: 'passed' | 'failed' | 'skipped', name: string, more = ''): void {
	const mark = { passed: 'ok     ', failed: 'FAILED ', skipped: 'skip   ' }[outcome];
	console.log(`${mark} ${name}${more}`);
	count.add(outcome);
}

/** Of those, the ones that need no network, no checkpoints and no `ls`, which Debian's gVisor fails (docs/testing.md). */
const gvisorFiles = ['files', 'sessions', 'terminal', 'run_inputs', 'rest_processes', 'rest_terminals', 'ports', 'ports_events'];
/** Of living_session, which takes minutes there: one session for each way in which its process ends, and what gVisor does otherwise. */
const gvisorSessions = `over stdio.*(${['a pool of threads', 'a server in a thread', 'a child that one talks to', '\\(slow\\) an interrupt', '\\(slow\\) what no interrupt reaches', 'a crash, and a child', 'no memory', 'exits', 'what is carried', 'a restart',
	'an attack: a process that begins while variables are read'].join('|')})$`;

/** The files of tests/integration, with another engine. Their counts are added. */
function integration(engine: string, files: readonly string[], env: Record<string, string>, cases?: string): void {
	const r = spawnSync(path.join(top, 'tests/run'), [...files.flatMap((f) => ['--only', f]), ...(cases ? ['--case', cases] : []), '--mode', 'root', '--no-units', '--no-vm', '--image', IMAGE], {
		encoding: 'utf8', maxBuffer: 1 << 26, env: { ...process.env, CAISSON_TEST_ENGINE_ENV: JSON.stringify(env) } });
	const said = /(\d+) passed, (\d+) failed, (\d+) skipped(?:, (\d+) flaky)?\s*$/.exec(r.stdout);
	const [passed, failed, skipped] = said ? said.slice(1, 4).map(Number) : [0, 1, 0];
	const told = r.stdout.split('\n').filter((l) => /^(FAILED|failed|flaky) |^ {8}/.test(l)).slice(0, 60).join('\n');
	console.log(`${told}${said ? '' : r.stderr.slice(0, 2000)}`);
	console.log(`${failed === 0 && said ? 'ok     ' : 'FAILED '} ${engine}: ${files.length} files of tests/integration: ${passed} passed, ${failed} failed, ${skipped} skipped`);
	count.add('passed', passed);
	count.add('failed', failed);
	count.add('skipped', skipped);
	count.add('flaky', Number(said?.[4] ?? 0));
}

async function playCases(engine: string, w: World): Promise<void> {
	const mine = cases.filter((c) => new RegExp(opt.case).test(c.name) && (!c.docker || engine === 'docker'));
	await play(sample.order(mine, (c) => c.name, (c) => CORE.test(c.name)).map((c) => ({
		name: `${engine}: ${c.name}`,
		run: async () => c.skip?.(w) ?? within(c.name, c.run(w), c.ms ?? CASE_MS),
	})), count);
}

/** Part of the hostile suite: what containers do otherwise, and a sample of what is quick elsewhere. Everything, with twins: make hostile ARGS='--engine docker'. */
const SHARE = 0.2;
const slow = (c: Case): boolean => c.ends === 'timeout' || !c.code || /numpy|while True|time\.sleep\([1-9]|time\(\) \+/.test(c.code);

async function attacks(engine: string, w: World): Promise<void> {
	const sample = new Sample(true);
	const mine = kinds.filter(([kind]) => !/client|permitted/.test(kind)).flatMap(([, list]) => list);
	const chosen = mine.filter((c) => !slow(c) && sample.picks(`${c.id} on ${engine}`, SHARE, differs(c)));
	const warm = sample.turn('warm', 2) === 0 ? 'off' : 'on';
	const run = async (ids: string[], more: Record<string, string> = {}): Promise<{ rows: Row[]; status: number }> => {
		const rows: Row[] = [];
		const status = await runRows<Row>('hostile/suite.ts', {
			CAISSON_TEST_MODE: 'root', CAISSON_TEST_BINARY: binary, CAISSON_TEST_ENGINE_ENV: JSON.stringify(w.env), CAISSON_TEST_ENFORCED: askDoctor('root', binary, w.daemon.folder, w.env).enforced.join(','),
			HOSTILE_CASE: `^(${ids.join('|')})$`, HOSTILE_WARM: warm, ...more,
		}, (r) => {
			rows.push(r);
			console.log(`${{ passed: 'ok', failed: 'failed', skipped: 'skipped' }[r.outcome].padEnd(8)}${nameOf(r)} (${r.ms} ms)${r.why ? `\n        ${r.why.split('\n').slice(0, 12).join('\n        ')}` : ''}`);
		});
		return { rows, status };
	};
	const nameOf = (r: Row): string => `${engine}: attack ${r.id}, ${r.attack}`;
	const { rows, status } = await run(chosen.map((c) => c.id));
	for (const r of rows.filter((k) => k.outcome !== 'failed'))
		count.add(r.outcome);
	await playAgain(rows.filter((r) => r.outcome === 'failed'), count, { name: nameOf, strict: true, run: async (failed) => (await run(failed.map((r) => r.id), againEnv)).rows });
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
		await playCases(engine, { daemon, env });
		if (timeIsUp()) {
			note('skipped', `${engine}: attacks and files of tests/integration: ${NO_TIME}`);
		} else if (!opt.case && engine === 'docker') {
			await attacks(engine, { daemon, env });
			integration(engine, files, env);
			integration(`${engine}, gVisor`, gvisorFiles, { ...env, SANDBOX_RUNTIME: 'runsc' });
			integration(`${engine}, gVisor, sessions`, ['living_session'], { ...env, SANDBOX_RUNTIME: 'runsc' }, gvisorSessions);
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
if (opt.engine !== 'docker' && timeIsUp())
	note('skipped', `podman: ${NO_TIME}`);
else if (opt.engine !== 'docker')
	await on('podman', await startPodman());
count.close();
