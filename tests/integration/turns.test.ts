// SPDX-License-Identifier: Apache-2.0
// Turns of the event loop: what one request does must not keep everybody else waiting. The server counts its turns by length, and logs the long ones
// with their cause.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { slowness } from '../lib/env.ts';
import { serve, using } from '../lib/session.ts';
import { held, turnsOf } from '../lib/turns.ts';
import { until } from '../lib/wait.ts';

/** The goal is 5 ms. The rest is room for a slow and busy machine, as the defects that this finds were turns of 60 ms and more. */
const turnMs = 20 * slowness;

/** caisson_turn_seconds of /metrics: how many turns took at most the bound, by bound in seconds. */
async function turns(base: string): Promise<Map<string, number>> {
	const text = await (await fetch(`${base}/metrics`)).text();
	return new Map([...text.matchAll(/^caisson_turn_seconds_bucket\{le="([^"]+)"\} (\d+)$/gm)].map((m) => [m[1]!, Number(m[2])]));
}

describe('turns of the loop', () => {
	it('are counted by length', async () => {
		const { program, base } = await serve({ profile: 'full' });
		const before = await turns(base);
		assert.deepEqual([...before.keys()], ['0.001', '0.002', '0.005', '0.010', '0.020', '0.050', '0.100', '0.500', '1.000', '5.000', '+Inf']);
		for (let i = 0; i < 5; i++) assert.equal((await fetch(`${base}/healthz`)).status, 200);
		assert.ok((await turns(base)).get('+Inf')! >= before.get('+Inf')! + 5);
		program.kill('SIGTERM');
		await program.exit;
	});

	it('are logged with their cause where somebody watches them', () =>
		using('http', { profile: 'full', env: { CAISSON_WATCH_TURNS: '0' } }, async (s) => {
			for (const cause of [/"?work"?[=:].*http \/mcp.*method tools\/call, tool sandbox_run_python/, /work.*message INIT_ENDED/, /slow_turn.*cpu_ms.*slept/])
				await until(`a line with ${cause}`, async () => {
					await s.raw('sandbox_run_python', { code: 'print(1)' }); // on a busy machine a turn has more work than its line names
					return s.stderr.split('\n').some((l) => cause.test(l)) || s.logLines().some((l) => cause.test(l));
				});
		}));

	it('(timing) files of control characters and large files keep nobody waiting', () =>
		using('http', { profile: 'all', env: { CAISSON_WATCH_TURNS: String(turnMs), SANDBOX_ANSWER_BYTES: '0' } }, async (s) => { // whole files in answers
			await s.ok('open("c", "wb").write(b"\\x01" * (2 << 20)); open("nine", "wb").write(b"x" * (9 << 20)); open("lines", "w").write("\\n" * (30 << 20))', 'big');
			assert.equal(Buffer.from(((await s.client.readResource({ uri: 'sandbox://big/c' })).contents[0] as { blob: string }).blob, 'base64').length, 2 << 20);
			assert.equal((await s.read('big', '/mnt/data/nine')).length, 9 << 20);
			assert.ok(!(await s.raw('sandbox_read_file', { session_id: 'big', path: 'nine', base64: true })).isError);
			assert.ok(!(await s.raw('sandbox_read_file', { session_id: 'big', path: 'lines' })).isError);
			assert.deepEqual(held(s.stderr, turnMs), []);
		}));

	it('(timing) a value of megabytes is read in pieces, and all of it is kept', () =>
		using('http', { profile: 'all', env: { CAISSON_WATCH_TURNS: '3' } }, async (s) => {
			await s.raw('sandbox_run_python', { session_id: 'value', stateful: true, code: '1' });
			const from = s.stderr.length;
			const r = await s.raw('sandbox_run_python', { session_id: 'value', stateful: true, code: '"".join(f"{i:07d}\\x01" for i in range(1 << 20))' });
			assert.ok(!r.isError, r.content[0]!.text);
			const file = /\/mnt\/data\/\S+\.result\.txt/.exec(r.content[0]!.text!)?.[0];
			const seen = await s.ok(`text = open("${file}").read()\nprint(len(text), eval(text) == "".join(f"{i:07d}\\x01" for i in range(1 << 20)))`, 'value');
			assert.equal(seen.stdout, `${2 + (11 << 20)} True\n`);
			assert.deepEqual(turnsOf(s.stderr.slice(from)).filter((t) => t.cpuMs >= 5 * slowness), []);
		}));

	it('(timing) a page of the longest names takes less than 5 ms of computing', () =>
		using('http', { profile: 'all', env: { CAISSON_WATCH_TURNS: '3', SANDBOX_WORKSPACE_FILES: '30000' } }, async (s) => {
			await s.ok('for i in range(9000): open(f"{i:05d}" + "\\x01\\"\\x7f" * 80, "w").close()', 'long');
			const from = s.stderr.length;
			for (let page = await s.client.listResources(), n = 0; page.nextCursor && n < 6; n++)
				page = await s.client.listResources({ cursor: page.nextCursor });
			await s.ok('print(1)', 'long'); // what was logged before has come
			assert.deepEqual(turnsOf(s.stderr.slice(from)).filter((t) => t.cpuMs >= 5 * slowness && /files listed|resources\/list/.test(t.work)), []);
		}));

	// Names with control characters and without UTF-8: each byte of them is several in JSON and in a link.
	const odd = 'import os\nfor i in range(5000):\n  open(bytes(1 + (i * 7 + k * 13) % 255 for k in range(150)).replace(b"/", b"_") + str(i).encode(), "w").close()';

	for (const profile of ['all', 'both', 'code'])
		it(`(timing) profile ${profile}: thousands of odd file names keep nobody waiting`, () =>
			using('http', { profile, env: { CAISSON_WATCH_TURNS: String(turnMs) } }, async (s) => {
				const made = await s.run(odd, 'odd');
				assert.equal(made.exit_code, 0, made.stderr);
				if (profile === 'all') {
					assert.ok(made.artifacts.length < 5000);
					assert.equal(made.artifacts.length + made.artifacts_left_out, 5000);
					assert.ok(!(await s.raw('sandbox_list_files', { session_id: 'odd' })).isError);
					const page = await s.client.listResources();
					assert.ok(page.resources.length > 0 && page.nextCursor, 'a cursor behind a name that is not UTF-8');
					const next = await s.client.listResources({ cursor: page.nextCursor });
					assert.notEqual(next.resources[0]!.uri, page.resources[0]!.uri);
				} else {
					assert.equal(made.artifacts.length, 5000, 'the contract names them all');
				}
				assert.equal((await s.list('odd')).length, 5000);
				await s.run('print(1)', 'odd');
				if (profile !== 'code') {
					const { sandbox_id } = JSON.parse((await s.raw('create_sandbox', {})).content[0]!.text);
					const r = JSON.parse((await s.raw('execute_python_code', { sandbox_id, code: odd })).content[0]!.text);
					assert.equal(r.files.length, r.file_links.length);
					await s.raw('execute_python_code', { sandbox_id, code: 'print("\\x01" * (10 << 20))' });
					await s.raw('execute_terminal_command', { sandbox_id, command: 'ls' });
				}
				assert.deepEqual(held(s.stderr, turnMs), []);
			}));
});
