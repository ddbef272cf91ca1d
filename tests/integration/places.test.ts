// SPDX-License-Identifier: Apache-2.0
// Files in the workspace that shadow what an interpreter has imported ahead: a run behaves like a plain interpreter, forked or not.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { scratch } from '../lib/env.ts';
import { facts, using, type Json, type Session } from '../lib/session.ts';
import { until } from '../lib/wait.ts';
import { wheel, wheelName } from '../lib/wheel.ts';

const cases: [name: string, file: string, text: string, code: string, said: string][] = [
	['a module of the standard library', 'random.py', 'who = "mine"', 'import random; print(random.who, random.__file__)', 'mine /mnt/data/random.py\n'],
	['a package of the image', 'numpy.py', 'who = "mine"', 'import numpy; print(numpy.who)', 'mine\n'],
	['a file of data by such a name', 'random.csv', '1', 'import random; print(random.randint(3, 3))', '3\n'],
	['a module that nobody has imported', 'helper_of_mine.py', 'who = "mine"', 'import helper_of_mine; print(helper_of_mine.who)', 'mine\n'],
];

const said = async (s: Session, session_id: string, code: string, more: Json = {}): Promise<Json> => {
	const r = await s.raw('sandbox_run_python', { code, session_id, ...more });
	const text = facts(r);
	assert.ok(!text.error, r.content[0]!.text);
	return text;
};

for (const warm of ['on', 'off'])
	describe(`places, warm ${warm}`, () => {
		for (const [name, file, text, code, out] of cases)
			it(name, () => using('stdio', { profile: 'all', env: { SANDBOX_WARM: warm } }, async (s) => {
				const id = file.replaceAll('.', '_');
				await s.upload(file, text, id);
				for (const again of [1, 2]) {
					const r = await said(s, id, code);
					assert.deepEqual([r.stdout, r.stderr, r.exit_code], [out, '', 0], `run ${again}`);
				}
			}));
	});

/** A folder of wheels that stands for an index. */
function wheelFolder(): string {
	const dir = scratch('wheels');
	fs.writeFileSync(path.join(dir, wheelName('added', '1.0')), wheel('added', '1.0', 'who = 1\ndef main():\n    print("tool")', { scripts: 'tool = added:main' }));
	fs.writeFileSync(path.join(dir, wheelName('numpy', '99.0')), wheel('numpy', '99.0', 'who = 2'));
	fs.chmodSync(dir, 0o755);
	return dir;
}

async function install(s: Session, packages: string): Promise<void> {
	const r = await s.raw('sandbox_install_packages', { packages, session_id: 'venv' });
	assert.equal((facts(r)).status, 'success', r.content[0]!.text);
}

const places = 'import sys, os, shutil, numpy, added; print(sys.prefix, sys.executable, os.environ["VIRTUAL_ENV"], shutil.which("tool"), added.who, numpy.__file__.startswith("/usr"))';

/** Runs as the log tells them, oldest first. */
const ends = (s: Session): Json[] => s.logLines().map((l) => JSON.parse(l) as Json).filter((l) => l.event === 'container_exec_done');

describe('a bare interpreter', { skip: process.env.CAISSON_TEST_COLD === '1' && 'every run is one' }, () => {
	it('(slow) counts as a cold start, in a session too; what a fork runs counts as a warm one', () => using('stdio', { profile: 'all', env: { SANDBOX_LOG_FORMAT: 'json' } }, async (s) => {
		// A stateful run waits for its fork: those after it have theirs.
		let runs = 0; // the log may be behind
		const told = async (session_id: string, code: string, more: Json = {}) => {
			const at = runs++;
			await said(s, session_id, code, more);
			return (await until('the end in the log', () => ends(s)[at])).warm;
		};
		const first = (session_id: string) => told(session_id, 'kept = 1', { stateful: true });
		await first('plain');
		assert.equal(await told('plain', 'kept', { stateful: true }), true);
		// One that waits long for its fork starts cold.
		for (const code of ['print(1)', 'import os; os._exit(3)'])
			await until(`a fork for ${code}`, () => told('plain', code), 60_000);
		await s.upload('random.py', 'who = "mine"', 'plain');
		assert.deepEqual([await told('plain', 'import random; print(random.who)'), await told('plain', 'import os; os._exit(3)')], [false, false]);
		await s.upload('random.py', 'who = "mine"', 'held');
		assert.deepEqual([await told('held', 'import random; random.who', { stateful: true }), await told('held', 'random.who', { stateful: true })], [false, true]);
	}));
});

describe('a virtual environment in /app/.venv', () => {
	for (const warm of ['on', 'off'])
		it(`(slow) is active in every run and command, warm ${warm}`, () => using('stdio', { profile: 'all', env: { SANDBOX_WARM: warm, SANDBOX_PIP_WHEEL_DIR: wheelFolder() } }, async (s) => {
			if (warm === 'on') // a session that began before
				await said(s, 'venv', 'early = 1', { stateful: true });
			await install(s, 'added');
			const out = '/app/.venv /app/.venv/bin/python3 /app/.venv /app/.venv/bin/tool 1 True\n';
			assert.deepEqual([(await said(s, 'venv', places)).stdout], [out]);
			const shell = await s.raw('sandbox_run_shell', { session_id: 'venv', command: 'tool; python3 -c "import sys, added; print(sys.prefix)"; echo $VIRTUAL_ENV' });
			assert.equal((facts(shell)).stdout, 'tool\n/app/.venv\n/app/.venv\n');
			if (warm === 'on')
				assert.deepEqual([(await said(s, 'venv', `${places}; early`, { stateful: true })).stdout], [out]);
			await install(s, 'numpy==99.0');
			assert.equal((await said(s, 'venv', 'import numpy; print(numpy.who)')).stdout, '2\n');
		}));
});

describe('places of a session', () => {
	const open = { profile: 'all' };
	it('(slow) what shadows a module when the session begins is what the session sees; it keeps its state', () => using('stdio', open, async (s) => {
		await s.upload('random.py', 'who = "mine"', 'held');
		const first = await said(s, 'held', 'import random, sys\nx = 40\nprint(sys.argv, __name__)\nrandom.who', { stateful: true });
		assert.deepEqual([first.result, first.state, first.stdout, first.stderr], ["'mine'", 'kept', "['-c'] __main__\n", '']);
		assert.equal((await said(s, 'held', 'x += 2; x', { stateful: true })).result, '42');
		const bad = await said(s, 'held', 'x = 0\nimport os; os._exit(3)', { stateful: true });
		assert.deepEqual([bad.exit_code, bad.state], [3, 'unchanged']);
		assert.equal((await said(s, 'held', 'random.who, x', { stateful: true })).result, "('mine', 42)");
		const failed = await said(s, 'held', '1 / 0', { stateful: true });
		assert.match(failed.stderr, /<cell \d+>", line 1, in <module>\n {4}1 \/ 0/);
	}));
	it('(slow) such a run that ends badly leaves no state, and the next begins one', () => using('stdio', open, async (s) => {
		await s.upload('random.py', 'who = "mine"', 'ended');
		assert.equal((await said(s, 'ended', 'import os; os._exit(4)', { stateful: true })).exit_code, 4);
		assert.equal((await said(s, 'ended', 'import random; random.who', { stateful: true })).result, "'mine'");
	}));
});
