// SPDX-License-Identifier: Apache-2.0
// Ends of every kind at random moments, in sessions beside each other. What an answer says of its session must be what the next cell finds, no
// sandbox may be lost, and at the end nothing is left.

import assert from 'node:assert/strict';
import { random } from '../../lib/data.ts';
import { descendants } from '../../lib/process.ts';
import { facts, type Json, type Session } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';

const ACTORS = 4;
const STEPS = 25; // of one session

/** What a session holds, and so how its backup goes on. */
const kinds = {
	nothing: '',
	'a pool': 'from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2); pool.submit(pow, 2, 5).result()',
	'a child': "import subprocess\nchild = subprocess.Popen(['cat'], stdin=-1, stdout=-1)",
	'a loop': 'import asyncio\nawait asyncio.to_thread(lambda: 21)',
	'a thread that no fork carries': 'import ctypes, os\nlibc = ctypes.CDLL(None); libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, libc.pause, None); del libc',
};

/** What a cell does while its end comes. */
const bodies = [
	'', 'time.sleep(30)', 'while True: pass', 'sum(range(10**13))', "import subprocess; subprocess.run(['sleep', '30'])", "os.system('sleep 30')",
	'while True: print("x" * 100)', 'while True:\n    if os.fork() == 0: os._exit(0)\n    os.wait()', 'b = []\nwhile True: b.append(bytearray(30_000_000)); time.sleep(.01)',
	'import threading\nwhile True: t = threading.Thread(target=time.sleep, args=(.001,)); t.start(); t.join()', '1 / 0', 'import sys; sys.exit(3)',
	'import asyncio\nawait asyncio.sleep(30)', 'try: time.sleep(30)\nexcept BaseException: time.sleep(30)',
] as const;

const signals = ['SIGKILL', 'SIGSEGV', 'SIGABRT', 'SIGTERM', 'SIGINT', 'SIGSTOP'] as const;

type Random = ReturnType<typeof random>;

class Actor {
	private readonly s: Session;
	private readonly next: Random;
	private readonly name: string;
	private x: number | null = null;
	private n = 0;
	/** A timer of an earlier cell may still end the session's process: also while it makes its backup, and then the variables are those from
	 * before the last run, or lost if there was none. */
	private armed = false;
	readonly seen = new Map<string, number>();
	private readonly history: string[] = [];

	constructor(s: Session, next: Random, name: string) {
		this.s = s;
		this.next = next;
		this.name = name;
	}

	private below(n: number): number {
		return Math.floor(this.next() * n);
	}

	private async tool(name: string, args: Json, signal?: AbortSignal): Promise<Json> {
		return facts(await this.s.raw(name, { session_id: this.name, ...args }, signal && { signal }));
	}

	/** A cell; one that was cancelled may still be ending. */
	private async cell(code: string, more: Json = {}): Promise<Json> {
		return await until(`the end of what ran before in ${this.name}`, async () => {
			const r = await this.tool('sandbox_run_python', { code, stateful: true, timeout_s: 60, ...more });
			this.history.push(`${JSON.stringify(code).slice(0, 200)} -> ${JSON.stringify([r.error, r.state, r.result, r.exit_code, r.hint])}`);
			return r.error !== 'session_busy' && r;
		});
	}

	private async look(after: string, allowed: (number | null)[]): Promise<void> {
		let r = await this.cell(`globals().get('x')`);
		for (let n = 0, ends = 0; r.exit_code !== 0 && this.armed && n < 5; n++) {
			this.note(`${r.state} in a look`);
			ends += r.state === 'kept' ? 0 : 1;
			this.armed = ends < 2; // a timer begins again in the backup, and not in the backup of that
			r = await this.cell(`globals().get('x')`);
		}
		const all = `${this.name}, after ${after}: ${JSON.stringify(r)}\n${this.history.slice(-8).join('\n')}`;
		assert.equal(r.exit_code, 0, all);
		if (this.armed && r.state === 'lost') {
			this.note('lost by a timer');
			allowed = [null];
		}
		if (this.armed && /those from before the last run/.test(String(r.hint))) {
			this.note('before the last run by a timer');
			allowed = [...allowed, this.x];
		}
		const x = r.result === undefined ? null : Number(r.result);
		assert.ok(allowed.includes(x), `x is ${x}, not ${allowed.join(' or ')}: ${all}`);
		this.x = x;
	}

	/** One cell with its end, and a look at what it left. */
	private async step(): Promise<void> {
		const old = this.x, x = ++this.n;
		const ms = this.below(400), body = bodies[this.below(bodies.length)]!;
		const what = this.below(10);
		const death = what < 5 ? `import threading, signal; threading.Timer(${ms / 1000}, lambda: os.kill(os.getpid(), signal.${signals[this.below(signals.length)]})).start()\n` : '';
		const code = `x = ${x}\nimport os, time\n${death}${body}`;
		let r: Json;
		if (what === 5 || what === 6) { // the client goes
			const gone = new AbortController();
			const timer = setTimeout(() => gone.abort(), ms);
			r = await this.tool('sandbox_run_python', { code, stateful: true, timeout_s: 3 }, gone.signal).catch((e: Error) => ({ cancelled: e.message }));
			clearTimeout(timer);
		} else if (what === 7) {
			r = await this.cell(code, { restart: true, timeout_s: 1 });
		} else if (what === 8) {
			r = await this.tool('sandbox_run_shell', { command: this.below(2) ? 'pkill -KILL python || true' : 'pkill -STOP python || true', timeout_s: 20 });
		} else {
			r = await this.cell(code, { timeout_s: 1 });
		}
		const after = `${JSON.stringify(code)} (${what}): ${JSON.stringify(r).slice(0, 2000)}`;
		assert.ok(!r.error, `${this.name}, ${after}`);
		this.note(r.cancelled ? 'cancelled' : r.state ?? 'shell');
		const before = what === 7 ? null : old;
		const armed = this.armed;
		this.armed = (this.armed && what !== 7) || ((r.cancelled || r.state === 'kept' || what === 8) && death !== '');
		if (r.cancelled)
			await this.look(after, [before, x]);
		else if (what === 8)
			await this.look(after, [before, null]);
		else if (r.state === 'kept') // a signal may come before the first statement: while asyncio is imported for a cell that awaits
			await this.look(after, /KeyboardInterrupt/.test(String(r.stderr)) && !/<cell/.test(String(r.stderr)) ? [before, x] : [x]);
		else if (r.state === 'lost') {
			// A kernel that is out of memory while the session's process is ending already may take the backup.
			assert.ok(armed || body.includes('bytearray'), `${this.name}, ${after}`);
			await this.look(after, [null, x]); // what was before this run is lost
		}
		else
			await this.look(after, [before]);
	}

	private note(state: string): void {
		this.seen.set(state, (this.seen.get(state) ?? 0) + 1);
	}

	async play(): Promise<void> {
		const all = Object.values(kinds);
		await this.cell(`${all[this.below(all.length)]}\nx = None`);
		this.x = null;
		for (let i = 0; i < STEPS; i++)
			await this.step();
		await this.tool('sandbox_delete', {});
	}
}

export async function randomEnds(s: Session, seconds: number, seed: number): Promise<void> {
	console.log(`seed ${seed}, ${seconds} s`);
	const next = random(seed);
	const until_ = performance.now() + seconds * 1000;
	const seen = new Map<string, number>();
	await s.raw('sandbox_run_python', { code: '1', session_id: 'first' });
	await s.raw('sandbox_delete', { session_id: 'first' });
	const before = descendants(s.pid).length;
	let serial = 0;
	const loop = async (): Promise<void> => {
		while (performance.now() < until_) {
			const a = new Actor(s, next, `random${serial++}`);
			try {
				await a.play();
			} finally {
				for (const [k, v] of a.seen)
					seen.set(k, (seen.get(k) ?? 0) + v);
			}
		}
	};
	const ended = await Promise.allSettled(Array.from({ length: ACTORS }, loop));
	console.log([...seen].map(([k, v]) => `${k} ${v}`).join(', '));
	for (const e of ended)
		if (e.status === 'rejected')
			throw e.reason;
	await until('the end of all that the sessions had', () => descendants(s.pid).length <= before);
}
