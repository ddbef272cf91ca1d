// SPDX-License-Identifier: Apache-2.0
// What a run of a sandbox may signal: the processes of earlier ones and of background processes, and nothing that is ours.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { asker } from '../lib/asker.ts';
import { engine, mode, newStateDir, unlessEnforced } from '../lib/env.ts';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const skip = engine !== 'native' && 'in a container no library is loaded that could ask init';
const rootless = (mode !== 'root' || engine !== 'native') && 'only a server that root started can have root users' || unlessEnforced('memory', 'pids');
const STAYS = 'trap "echo caught; exit 3" TERM; trap "echo again" USR1; echo $$ >PID; while :; do sleep .02; done';

describe('signals to processes of earlier runs', { skip }, () => {
	let program: Program;
	let base: string;
	let id = '';

	before(async () => {
		({ program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_ROOT: rootless ? undefined : 'on' } }));
	});
	after(() => program.end());

	const rest = asker(() => base);
	const ask = async (method: string, at: string, json?: unknown): Promise<Json> => {
		const r = await rest(method, `/sandboxes${at}`, json);
		assert.ok(r.status < 300, `${method} ${at}: ${r.status} ${r.text}`);
		return r.body;
	};
	const run = async (json: Json): Promise<Json> => ask('POST', `/${id}/runs`, { wait: true, ...json });
	const said = async (command: string, more: Json = {}): Promise<string> => {
		const r = await run({ command, ...more });
		return r.stdout + r.stderr;
	};
	const background = async (more: Json = {}): Promise<string> => {
		const p = await ask('POST', `/${id}/processes`, { command: STAYS, ...more });
		await until('its number', async () => /^\d+$/m.test(await said('cat PID 2>&1')));
		return p.process_id ?? p.id;
	};
	const ended = (at: string): Promise<Json> => until('its end', async () => {
		const p = await ask('GET', `/${id}/processes/${at}`);
		return p.state === 'ended' ? p : undefined;
	}) as Promise<Json>;
	const sandbox = (name: string, fn: () => Promise<void>, more: Json = {}, not: string | false = false): void => {
		it(name, { skip: not }, async () => {
			id = (await ask('POST', '', more)).id;
			await fn();
			await ask('DELETE', `/${id}?force=true`);
		});
	};

	sandbox('a command ends a background process that it finds by its number', async () => {
		const at = await background();
		assert.equal(await said('kill -0 $(cat PID) && kill -USR1 $(cat PID) && /bin/kill $(cat PID) && echo done'), 'done\n');
		const p = await ended(at);
		assert.equal(p.exit_code, 3);
		assert.match(await said('kill -0 $(cat PID)'), /No such process/);
	});
	sandbox('so do Python, a cell of a session, and the signal to a group', async () => {
		for (const [code, more] of [
			['import os; os.kill(int(open("PID").read()), 15)', {}], ['import os; os.kill(int(open("PID").read()), 15)', { stateful: true }],
			['import os; os.killpg(int(open("PID").read()), 15)', {}],
		] as const) {
			const at = await background();
			const r = await run({ code, ...more });
			assert.equal(r.exit_code, 0, r.stderr);
			assert.equal((await ended(at)).exit_code, 3);
			await said('rm PID');
		}
	});
	sandbox('a command ends what a cell has started, and no interpreter', async () => {
		const cell = await run({
			stateful: true, code: `import subprocess, os
kept = 41
p = subprocess.Popen(["python3", "-m", "http.server", "8124", "-b", "127.0.0.1"])
print(p.pid, os.getpid())`,
		});
		const [server, own] = String(cell.stdout).trim().split(' ');
		assert.equal(await said(`kill ${server} && echo done; kill -9 ${own} 1 2>&1 | grep -c "not permitted"; kill -9 -- -${own} 2>&1 | grep -c "not permitted"`), 'done\n2\n0\n');
		const next = await run({ stateful: true, code: 'print(kept + 1, p.wait(), os.getpid())' });
		assert.equal(next.stdout, `42 -15 ${own}\n`, next.stderr);
	});
	sandbox('a background process signals another one, and what stands still goes on for its client alone', async () => {
		const one = await background();
		const p = await ask('POST', `/${id}/processes`, { command: 'kill -USR1 $(cat PID) && kill -9 $(cat PID) && kill -9 $PPID' });
		assert.equal((await ended(one)).reason, 'signaled');
		assert.match(JSON.stringify(await ended(p.process_id ?? p.id)), /"exit_code":1/); // its own reaper is not one of its like
	});
	sandbox('pgrep, pkill, ps and psutil find processes of other runs, and nothing that is ours', async () => {
		const cell = await run({ stateful: true, code: 'import subprocess\np = subprocess.Popen(["python3", "-m", "http.server", "8125", "-b", "127.0.0.1"])\nprint(p.pid)' });
		const server = String(cell.stdout).trim();
		await background();
		const shell = (await said('cat PID')).trim();
		assert.equal(await said('pgrep -f "http.serve[r]"; pgrep -af 8125; pgrep -x python3; pgrep -f nothing-like-it; echo $?'),
			`${server}\n${server} python3 -m http.server 8125 -b 127.0.0.1\n${server}\n1\n`);
		assert.equal(await said('pgrep -u 0 .; pgrep -u sandbox -c python3; pgrep -P 1; pgrep -n -x python3'), `1\n${server}\n`);
		for (const style of ['aux', '-ef']) {
			const rows = (await said(`ps ${style}`)).split('\n');
			assert.ok(rows.some((row) => new RegExp(`^sandbox +${server} .* python3 -m http.server 8125`).test(row)), rows.join('\n'));
			assert.ok(rows.some((row) => row.includes(` ${shell} `)), rows.join('\n'));
			assert.doesNotMatch(rows.join('\n'), /caisson-/);
		}
		// The names are of one look: a job's `sleep` ends between two.
		const seen = await run({ code: `import psutil, os
names = {p.pid: p.info['name'] for p in psutil.process_iter(['name'])}
server = psutil.Process(${server})
print(server.cmdline()[1:3], server.name(), server.username(), sorted(names) == sorted({os.getpid(), ${server}, ${shell}} | {p for p in names if names[p] == "sleep"}))` });
		assert.equal(seen.stdout, "['-m', 'http.server'] python3 sandbox True\n", seen.stderr);
		assert.equal(await said('pkill --signal FOO python3; echo $?'), '2\npkill: unknown signal: FOO\n');
		assert.equal(await said('pkill -f http.server; echo $?; pkill -KILL python3; echo $?; pkill -USR1 sh; pkill'), `0\n1\n${await said('/usr/bin/pkill')}`);
		assert.equal((await run({ stateful: true, code: 'print(p.wait())' })).stdout.split('\n').at(-2), '-15');
	});
	sandbox('a user signals root not, and root everybody', async () => {
		const one = await background({ user: 'root' });
		assert.match(await said('kill -9 $(cat PID)'), /not permitted/i);
		assert.equal(await said('kill $(cat PID) && echo done', { user: 'root' }), 'done\n');
		await ended(one);
		await said('rm -f PID', { user: 'root' });
		const other = await background();
		assert.equal(await said('kill $(cat PID) && echo done', { user: 'root' }), 'done\n');
		await ended(other);
	}, { root: true }, rootless);
});
