// SPDX-License-Identifier: Apache-2.0
// All chosen modules in one mode, in sandboxes of one server. Prints one JSON line per module (see main.ts). Settings come from the
// environment: those of lib/env.ts, INSIDE_PACKS (a folder), INSIDE_MODULE (a pattern), INSIDE_QUICK (1), INSIDE_WARM (on or off), INSIDE_SEED (of a sample; empty: all),
// INSIDE_TESTS (of each module, the tests that run; JSON).

import * as fs from 'node:fs';
import * as path from 'node:path';
import { execFileSync } from 'node:child_process';
import { mode, top } from '../../lib/env.ts';
import { Sample } from '../../lib/sample.ts';
import { open, type Json, type Session } from '../../lib/session.ts';
import { NO_TIME, timeIsUp } from '../../lib/time.ts';
import { judge, type Line, type Row, type Said } from './judge.ts';
import { chosen, packs, type Module, type Pack } from './modules.ts';

const RUN_S = 600;
const folder = process.env.INSIDE_PACKS!;
const only = new RegExp(process.env.INSIDE_MODULE ?? '');
const quick = process.env.INSIDE_QUICK === '1';
const warm = process.env.INSIDE_WARM === 'on';
const sample = new Sample(Boolean(process.env.INSIDE_SEED), process.env.INSIDE_SEED || undefined);
const tests = JSON.parse(process.env.INSIDE_TESTS || '{}') as Record<string, string[]>;
const program = fs.readFileSync(path.join(top, 'tests/suites/inside/inside.py'), 'utf8');

/** The fixed core of a sample, which runs in both modes: what touches processes, signals, terminals and our own packages. */
const core = /^own\.|subprocess|signal|_pty|_mmap|shutil|tempfile/;

/** Of all others in a sample, the seed chooses the mode. */
function runsHere(m: Module): boolean {
	return core.test(m.name) || sample.turn(m.name, 2) === (mode === 'root' ? 0 : 1);
}

function ownPack(): Buffer {
	return execFileSync('tar', ['-C', path.join(top, 'tests/suites/inside'), '-cz', '--exclude=__pycache__', 'own']);
}

async function run(s: Session, id: string, call: string): Promise<Json> {
	// Workers of multiprocessing that are spawned execute this file again, with another name, after they were given the sys.path of the test.
	const code = `if __name__ == "__main__":\n\timport sys\n\tsys.path.insert(0, "/mnt/data")\n\timport inside\n\tinside.${call}\n`;
	const r = await s.raw('sandbox_run_python', { session_id: id, code }, { timeout: (RUN_S + 30) * 1000 });
	return r.structuredContent!.result as Json;
}

/** The lines of a module, and how its process ended where that is not as it should. */
async function runModule(s: Session, id: string, m: Module, tests: string[]): Promise<Said> {
	const r = await run(s, id, `run(${JSON.stringify(m.name)}, ${JSON.stringify(m.how)}, ${JSON.stringify(tests)})`);
	const bad = r.exit_code === 0 ? undefined : `${r.error ?? `exit status ${r.exit_code}`}: ${String(r.stderr ?? r.message).slice(-1500)}`;
	const a = await s.call('sandbox_read_artifact', { session_id: id, path: `/mnt/data/results/${m.name}.jsonl` });
	if (a.error)
		return { lines: [], bad: bad ?? `no results: ${a.error}` };
	return { lines: Buffer.from(a.content_base64, 'base64').toString().split('\n').filter(Boolean).map((l) => JSON.parse(l) as Line), bad };
}

async function runPack(s: Session, p: Pack, show: (r: Row) => void): Promise<void> {
	const modules = chosen(p.modules, quick, only).filter((m) => sample.picks(`${mode} ${m.name}`, 0, runsHere(m)));
	if (modules.length === 0)
		return;
	const id = `inside-${p.files.at(-1)}`;
	for (const f of p.files)
		await s.upload(`${f}.tar.gz`, f === 'own' ? ownPack() : fs.readFileSync(path.join(folder, `${f}.tar.gz`)), id);
	await s.upload('inside.py', program, id);
	const r = await run(s, id, `unpack(${JSON.stringify(p.files)})`);
	if (r.exit_code !== 0)
		throw new Error(`unpacking failed: ${JSON.stringify(r)}`);
	for (const m of modules) {
		const t = performance.now();
		if (timeIsUp()) {
			show({ module: m.name, passed: 0, skipped: [{ test: m.name, why: NO_TIME }], forbidden: 0, failed: [], ms: 0 });
			continue;
		}
		const row = judge(m, await runModule(s, id, m, tests[m.name] ?? []), { mode, warm });
		show({ ...row, ms: Math.round(performance.now() - t) });
	}
	await s.close(id);
}

const s = await open('stdio', {
	env: {
		SANDBOX_EXEC_TIMEOUT_S: String(RUN_S), SANDBOX_MEMORY_LIMIT: '2g', SANDBOX_PIDS_LIMIT: '512', SANDBOX_ALLOW_WEAKER: 'memory,pids', SANDBOX_TMP_LIMIT: '256m', SANDBOX_WARM: process.env.INSIDE_WARM,
		SANDBOX_MAX_ARTIFACT_READ_BYTES: String(64 << 20), SANDBOX_POOL: '1', SANDBOX_POOL_MAX: '1', SANDBOX_TASK_AFTER_S: '0',
	},
});
for (const p of packs)
	await runPack(s, p, (r) => void process.stdout.write(`${JSON.stringify(r)}\n`));
await s.end();
