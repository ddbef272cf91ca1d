// SPDX-License-Identifier: Apache-2.0
// The life of warm interpreters: killed, renewed, dropped, given back. No request fails by it, and none tells by anything but speed.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { initsOf, othersOf, zygotesOf } from '../lib/family.ts';
import { alive, openDescriptors, type Ident } from '../lib/process.ts';
import { facts, open, using, type Session } from '../lib/session.ts';
import { imagesDir, mode, newStateDir, productUid } from '../lib/env.ts';
import { until, within } from '../lib/wait.ts';

const cold = process.env.CAISSON_TEST_COLD === '1' && 'warm starts are off in this mode';
const waitMs = 30_000;

/** Runs something; true when the interpreter was a fork, which has the image's modules. */
async function isWarm(s: Session, id: string): Promise<boolean> {
	return (await s.ok('import sys; print("numpy" in sys.modules)', id)).stdout === 'True\n';
}

/** A fork is there or on its way. A run waits two seconds for one (SPARE_WAIT_NS in runtime/init), which is a hundred times what a fork takes. */
async function mustBeWarm(s: Session, id: string, why?: string): Promise<void> {
	assert.ok(await isWarm(s, id), why ?? `${id} started cold`);
}

function warmAgain(s: Session, id: string): Promise<unknown> {
	return until(`${id} to be warm`, () => isWarm(s, id), waitMs);
}

async function zygoteOf(s: Session): Promise<Ident> {
	await until('one zygote', () => zygotesOf(s.pid).length === 1, waitMs);
	return zygotesOf(s.pid)[0]!;
}

/** The only sandbox has had its first run: one that can fork, and its fork. */
function bothWait(s: Session): Promise<unknown> {
	return until('two interpreters that wait', () => othersOf(initsOf(s.pid)[0]!).length === 2, waitMs);
}

/** One may have ended by the end of another. */
function kill(p: Ident): void {
	try {
		process.kill(p.pid, 'SIGKILL');
	} catch (e) {
		assert.equal((e as NodeJS.ErrnoException).code, 'ESRCH');
	}
}

async function killInterpreters(s: Session): Promise<void> {
	const all = othersOf(initsOf(s.pid)[0]!);
	all.forEach(kill);
	await until('their end', () => !all.some(alive), waitMs);
}

const noPool = { SANDBOX_POOL: '0', SANDBOX_MAX_SESSIONS: '40' };

describe('the life of warm interpreters', { concurrency: 2, skip: cold }, () => {
	it('(slow) a zygote that is killed between requests, during creations and during runs fails none of them', () =>
		using('stdio', { env: noPool }, async (s) => {
			await warmAgain(s, 'a');
			await bothWait(s);
			const first = await zygoteOf(s);
			const run = s.ok('import time; time.sleep(1); print("whole")', 'a');
			kill(first);
			assert.equal((await run).stdout, 'whole\n');
			await mustBeWarm(s, 'a', 'what it has forked lives on');
			const creations = Array.from({ length: 8 }, (_, i) => s.ok(`print(${i})`, `c${i}`));
			for (let i = 0; i < 3; i++) { // in the middle of them, whoever is there by then
				zygotesOf(s.pid).forEach(kill);
				await creations[i];
			}
			(await Promise.all(creations)).forEach((r, i) => assert.equal(r.stdout, `${i}\n`));
			for (let i = 0; i < 8; i++)
				await warmAgain(s, `c${i}`);
			assert.notEqual((await zygoteOf(s)).pid, first.pid);
		}));

	it('(slow) sandboxes that end while an interpreter is forked for them leave those of others whole', () =>
		using('stdio', { env: noPool }, async (s) => {
			await warmAgain(s, 'first');
			for (let i = 0; i < 80; i++) {
				await s.upload('x', 'x', `gone${i}`);
				await s.close(`gone${i}`);
			}
			// What stays locked in the C library of the zygote stays so in every fork: a subprocess is what waits for it.
			for (let i = 0; i < 3; i++)
				await within('a subprocess', s.ok('import subprocess; subprocess.run(["true"], check=True)', `then${i}`), waitMs);
			await warmAgain(s, 'then0');
		}));

	it('(slow) the first run of a sandbox is the interpreter that was forked for it; the next one finds others', () =>
		using('stdio', { env: noPool }, async (s) => {
			await warmAgain(s, 'before'); // the zygote has loaded the modules of the image, which may take longer than a run waits
			await s.close('before');
			await until('no sandbox', () => initsOf(s.pid).length === 0, waitMs);
			const run = s.ok('import os, sys, time; print("numpy" in sys.modules)\nopen("there", "w").close()\nwhile not os.path.exists("go"): time.sleep(0.02)', 'first');
			const init = await until('its init', () => initsOf(s.pid)[0], waitMs);
			await until('the run', async () => (await s.call('sandbox_list_artifacts', { session_id: 'first' })).artifacts?.length > 0, waitMs);
			assert.equal(othersOf(init).length, 1, 'the run is alone with init');
			await s.upload('go', 'x', 'first');
			assert.equal((await run).stdout, 'True\n');
			for (let i = 0; i < 3; i++) // at once: each waits for its fork
				await mustBeWarm(s, 'first');
			await bothWait(s);
		}));

	it('(slow) a sandbox whose interpreters are killed gets new ones in the background', () =>
		using('stdio', { env: noPool, profile: 'all' }, async (s) => {
			await warmAgain(s, 'a');
			await zygoteOf(s);
			const state = async (code: string): Promise<Record<string, string>> => facts(await s.raw('sandbox_run_python', { code, session_id: 'a', stateful: true }));
			for (let i = 0; i < 3; i++) {
				await killInterpreters(s);
				assert.equal((await s.ok('print(1)', 'a')).stdout, '1\n');
				await warmAgain(s, 'a');
			}
			await killInterpreters(s);
			assert.equal((await state('6 * 7')).result, '42', 'a stateful run waits for one');
		}));

	it('(slow) an idle sandbox gives back its interpreters and keeps its state and files', () =>
		using('stdio', { env: { ...noPool, SANDBOX_REST_S: '1' }, profile: 'all' }, async (s) => {
			const state = async (code: string): Promise<Record<string, string>> => facts(await s.raw('sandbox_run_python', { code, session_id: 'held', stateful: true }));
			await warmAgain(s, 'plain');
			await s.ok('open("f", "w").write("kept")', 'plain');
			await until('only init in the idle one', () => othersOf(initsOf(s.pid)[0]!).length === 0, waitMs);
			for (let i = 0; i < 3; i++) {
				await mustBeWarm(s, 'plain', 'the next run waits for a fork');
				await until('only init again', () => othersOf(initsOf(s.pid)[0]!).length === 0, waitMs);
			}
			assert.equal((await s.ok('print(open("f").read())', 'plain')).stdout, 'kept\n');
			assert.equal((await state('x = 41')).state, 'kept');
			const held = initsOf(s.pid).sort((a, b) => Number(b.started) - Number(a.started))[0]!;
			await until('init and the holder', () => othersOf(held).length === 1, waitMs);
			assert.equal((await state('x + 1')).result, '42');
			await until('init and the holder again', () => othersOf(held).length === 1, waitMs);
			await mustBeWarm(s, 'held');
			const last = await state('x + 2');
			assert.equal(last.result, '43', JSON.stringify(last));
		}));

	it('only so many idle sandboxes keep interpreters: those that were used last', () =>
		using('stdio', { env: { ...noPool, SANDBOX_SPARES: '2' }, profile: 'all' }, async (s) => {
			const inits: Ident[] = [];
			for (const id of ['a', 'b', 'c', 'd']) {
				await warmAgain(s, id);
				inits.push(initsOf(s.pid).find((i) => !inits.some((known) => known.pid === i.pid))!);
			}
			const waiting = (): string => inits.map((i) => (othersOf(i).length > 0 ? 'x' : '-')).join('');
			await until('interpreters in two', () => waiting() === '--xx', waitMs);
			await mustBeWarm(s, 'a', 'the run waits for a fork');
			await until('interpreters in two others', () => waiting() === 'x--x', waitMs);
			await s.close('d');
			await mustBeWarm(s, 'b');
			await until('and again', () => [0, 1].every((i) => othersOf(inits[i]!).length > 0), waitMs);
			assert.equal(othersOf(inits[2]!).length, 0, 'that one was used before them');
		}));

	it('(slow) an interpreter that arrives while a run ends is not taken for what the run left: nobody runs cold for it', () =>
		using('stdio', { env: noPool, profile: 'all' }, async (s) => {
			for (let i = 0; i < 30; i++) {
				const id = `s${i}`; // the second statement asks for one, and ends when that arrives
				for (const code of ['x = 41', 'x + 1'])
					await s.raw('sandbox_run_python', { code, session_id: id, stateful: true });
				await mustBeWarm(s, id);
				await s.close(id);
			}
		}));

	it('(slow) without sandboxes the pool and the zygote go; the next request brings them back', () =>
		using('stdio', { env: { SANDBOX_ZYGOTE_IDLE_S: '1' } }, async (s) => {
			for (let i = 0; i < 2; i++) {
				assert.equal((await s.ok('print(1)', 'a')).stdout, '1\n');
				await warmAgain(s, 'a');
				await zygoteOf(s);
				await s.close('a');
				await until('no zygote and no sandbox', () => zygotesOf(s.pid).length === 0 && initsOf(s.pid).length === 0, waitMs);
			}
		}));

	for (const [what, setting] of [['age', { SANDBOX_ZYGOTE_AGE_S: '1' }], ['number of forks', { SANDBOX_ZYGOTE_FORKS: '3' }]] as const)
		it(`(slow) a zygote is renewed by ${what}, and nobody runs cold for it`, () =>
			using('stdio', { env: { ...noPool, ...setting } }, async (s) => {
				await warmAgain(s, 'a');
				const first = await zygoteOf(s);
				let n = 0;
				await until('another zygote', async () => {
					await mustBeWarm(s, `s${++n}`);
					await s.close(`s${n}`);
					return zygotesOf(s.pid).some((z) => z.pid !== first.pid);
				}, waitMs);
				await until('the old one to go', async () => {
					await mustBeWarm(s, `s${++n}`);
					await s.close(`s${n}`);
					return !zygotesOf(s.pid).some((z) => z.pid === first.pid);
				}, waitMs);
			}));

	it('(slow) the log says once why the zygote of an image cannot be started, and runs are cold', { skip: cold }, async () => {
		const state = newStateDir();
		const images = path.join(state, 'images');
		fs.unlinkSync(images);
		fs.mkdirSync(images);
		fs.cpSync(path.join(imagesDir, 'base'), path.join(images, 'base'), { recursive: true, verbatimSymlinks: true });
		const lib = path.join(images, 'base/root/usr/lib');
		const python = fs.readdirSync(lib).find((n) => /^python3\.\d+$/.test(n))!;
		fs.writeFileSync(path.join(lib, python, 'broken_module.py'), "import os, sys\nsys.stderr.write('x' * 1000 + '\\nthe device is not there\\n')\nsys.stderr.flush(); os._exit(3)\n");
		fs.writeFileSync(path.join(images, 'base/preload'), 'broken_module\n');
		execFileSync('chown', ['-R', String(productUid), images]);
		await using('stdio', { env: { SANDBOX_STATE_DIR: state, SANDBOX_IMAGE: 'base', SANDBOX_POOL: '0' } }, async (s) => {
			const found = (): string[] => fs.readFileSync(s.log, 'utf8').split('\n').filter((l) => l.includes('zygote_failed'));
			for (let i = 0; i < 3 || found().length === 0; i++) {
				assert.equal((await s.ok('print(6 * 7)', `broken${i}`)).stdout, '42\n');
				await s.close(`broken${i}`);
			}
			assert.equal(found().length, 1, found().join('\n'));
			assert.match(found()[0]!, /image="?base"?.*x\S*the device is not there"?$/);
		});
	});

	it('(slow) an idle sandbox takes four descriptors at most of any one process', { skip: mode === 'user' && 'the descriptors of another user are not ours to count' }, async () => {
		const s = await open('stdio', { env: noPool });
		try {
			await warmAgain(s, 'first');
			const zygote = await zygoteOf(s);
			const people = [s.pid, initsOf(s.pid)[0]!.ppid, zygote.pid];
			const settled = (): number[] => people.map(openDescriptors);
			await s.close('first');
			await until('no sandbox', () => initsOf(s.pid).length === 0, waitMs);
			const before = settled();
			const n = 20;
			for (let i = 0; i < n; i++)
				await warmAgain(s, `s${i}`);
			// The zygote holds those of the fork that it is about to make, the monitor that of each disk.
			await until('few enough, the monitor to hold one each, and the zygote none', () => {
				const after = settled();
				return after.every((c, k) => c - before[k]! <= 4 * n) && after[1]! - before[1]! <= n + 2 && after[2] === before[2];
			}, 10_000).catch((e: Error) => assert.fail(`${e.message}: ${before} ${settled()}`));
		} finally {
			await s.end();
		}
	});
});
