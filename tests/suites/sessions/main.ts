// SPDX-License-Identifier: Apache-2.0
// `tests/run sessions`: libraries in living sessions, and each kind of end (README.md). With --seconds: random ends.

import assert from 'node:assert/strict';
import * as path from 'node:path';
import { Count } from '../../lib/count.ts';
import { options } from '../../lib/options.ts';

const opt = options(`usage: tests/run sessions [options]
  --only NAME     libraries whose name contains NAME
  --no-packages   only libraries of the image
  --random N      N seconds of random ends instead, in sessions beside each other
  --seed N        of the random ends (default: by the clock; it is printed)
  --sanitize      of build-asan/`, {
	only: { type: 'string' },
	'no-packages': { type: 'boolean', default: false },
	random: { type: 'string' },
	seed: { type: 'string' },
	sanitize: { type: 'boolean', default: false },
});
if (opt.sanitize) { // before anything of the library reads it
	process.env.CAISSON_TEST_BINARY = path.resolve(import.meta.dirname, '../../../build-asan/caisson');
	process.env.CAISSON_TEST_SANITIZED = '1';
}
const { binary } = await import('../../lib/env.ts');
const { ensureImages } = await import('../../lib/images.ts');
const { play } = await import('../../lib/play.ts');
const { using, facts } = await import('../../lib/session.ts');
const { libraries } = await import('./libraries.ts');
const { ends } = await import('./ends.ts');
const { randomEnds } = await import('./random.ts');
type Session = import('../../lib/session.ts').Session;
type Json = import('../../lib/session.ts').Json;
type Library = import('./libraries.ts').Library;
type End = import('./ends.ts').End;

const env = { SANDBOX_MAX_SESSIONS: '100', SANDBOX_MEMORY_LIMIT: '1g', SANDBOX_CPU_LIMIT: '2', SANDBOX_EXEC_TIMEOUT_S: '300' };

/** A session in which one library is used. */
class Trial {
	private readonly s: Session;
	private readonly library: Library;
	private readonly session_id: string;
	private value = '';

	constructor(s: Session, library: Library, id: string) {
		this.s = s;
		this.library = library;
		this.session_id = id;
	}

	async cell(code: string, timeout_s = 60): Promise<Json> {
		return facts(await this.s.raw('sandbox_run_python', { code, session_id: this.session_id, stateful: true, timeout_s }));
	}

	async ok(code: string): Promise<string> {
		const r = await this.cell(code);
		assert.equal(r.exit_code, 0, `${code}\n${JSON.stringify(r)}`);
		assert.equal(r.state, 'kept', `${code}\n${JSON.stringify(r)}`);
		return r.result ?? '';
	}

	async begin(): Promise<void> {
		if (this.library.packages) {
			const r = facts(await this.s.raw('sandbox_install_packages', { packages: this.library.packages, session_id: this.session_id }));
			assert.equal(r.error, undefined, JSON.stringify(r));
		}
		await this.ok(this.library.begin);
		this.value = await this.ok(this.library.use);
		assert.notEqual(this.value, '');
		assert.equal(await this.ok(this.library.use), this.value, 'the second use');
	}

	/** One end, what is said of it, and whether that is so. */
	async end(name: string, e: End): Promise<void> {
		await this.ok('mark = 1');
		const r = await this.cell(`mark = 2\n${e.code}`, e.limit);
		const all = `${name}: ${JSON.stringify(r)}`;
		const state = e.kept ? 'kept' : this.library.after ?? 'unchanged';
		// Where memory ends in Python code, it is an exception, and everything is kept.
		assert.ok(r.state === state || (name === 'no memory' && r.state === 'kept'), `${state}, not ${r.state}: ${all}`);
		assert.equal((await this.cell(`globals().get('mark')`)).result ?? 'None', r.state === 'kept' ? '2' : state === 'lost' ? 'None' : '1', all);
		if (r.state === 'carried')
			for (const gone of this.library.gone ?? [])
				assert.ok(new RegExp(`Gone: [^.]*\\b${gone}\\b`).test(r.hint), all);
		const again = await this.cell(this.library.use, 20);
		if (r.state === 'kept' || !this.library.dead)
			assert.equal(again.result, this.value, `after ${all}\n${JSON.stringify(again)}`);
		else
			assert.match(again.stderr, this.library.dead, `after ${all}`);
		assert.equal((await this.cell('6 * 7', 10)).result, '42', `after ${all}`);
		if (r.state !== 'kept' && this.library.dead) {
			await this.ok(this.library.begin);
			await this.ok(this.library.use);
		}
	}

	async play(): Promise<void> {
		try {
			await this.begin();
			for (const [name, e] of Object.entries(ends))
				await this.end(name, e);
		} finally {
			await this.s.raw('sandbox_delete', { session_id: this.session_id });
		}
	}
}

const count = new Count();
const missing = ensureImages(path.dirname(binary), 'science');
if (missing) {
	console.log(`FAILED  the image ${missing} could not be built\n0 passed, 1 failed, 0 skipped`);
	process.exit(1);
}
await using('stdio', { profile: 'full', env }, async (s) => {
	if (opt.random) {
		const seed = Number(opt.seed ?? Date.now() % 1_000_000_000);
		await play([{ name: `random ends, seed ${seed}`, run: () => randomEnds(s, Number(opt.random), seed) }], count, { strict: true });
		return;
	}
	const chosen = Object.entries(libraries).filter(([name, l]) => (!opt.only || name.includes(opt.only)) && !(opt['no-packages'] && l.packages));
	await play(chosen.map(([name, library], i) => ({ name, run: () => new Trial(s, library, `library${i}`).play() })), count, { jobs: 2 });
});
count.close();
