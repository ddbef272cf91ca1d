// SPDX-License-Identifier: Apache-2.0
// A07, A10–A12, A27: settings that show, expiry, logs, and what a start and an end leave behind.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { describe, it } from 'node:test';
import { isError } from '../lib/expect.ts';
import { mode, sanitized, scratch } from '../lib/env.ts';
import { Census, residentBytes } from '../lib/process.ts';
import { matrix, open, using, wires, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

describe('A07 settings from the environment', () => {
	it('the deadline', () => using('stdio', { env: { SANDBOX_EXEC_TIMEOUT_S: '1' } }, async (s) => {
		const r = await s.run('import time; time.sleep(30)');
		assert.equal(r.exit_code, -1);
		assert.match(r.stderr, /Execution timed out after 1s$/);
	}));
	it('no deadline', () => using('stdio', { env: { SANDBOX_EXEC_TIMEOUT_S: '0' } }, async (s) => {
		assert.equal((await s.ok('import time; time.sleep(1); print(1)')).stdout, '1\n');
	}));
	it('an image that is not there names itself and how to build it', () =>
		using('stdio', { env: { SANDBOX_IMAGE: 'nowhere' } }, async (s) => {
			const r = await s.run('print(1)');
			isError(r, 'execution_failed', /nowhere/);
			await s.client.ping();
		}).catch((e: Error) => assert.match(e.message, /nowhere/))); // refusing to start is as good
	it('names are case-insensitive and unknown ones are ignored', () =>
		using('stdio', { env: { sandbox_max_output_bytes: ' 5 ', SANDBOX_NO_SUCH_THING: 'x' } }, async (s) => {
			assert.equal((await s.ok('print("123456789")')).stdout, '12345');
		}));
	it('the old image name means science', () => using('stdio', { env: { SANDBOX_IMAGE: 'llm-sandbox:latest' } }, async (s) => {
		await s.ok('import pandas');
	}));
});

matrix('A12, A27 logs', {}, (s) => {
	it('a whole workflow writes its events to the file, with the session, and nothing of the code or its output', async () => {
		const up = await s().upload('secret.csv', 'UPLOADED_CONTENT', 'logged');
		assert.equal(up.session_id, 'logged');
		await s().ok('print("PRINTED" + "_TEXT")  # SOURCE_TEXT', 'logged');
		await s().run('raise ValueError("RAISED_TEXT")', 'logged');
		await s().close('logged');
		const lines = await until('the events', () => {
			const l = s().logLines();
			return l.some((x) => x.includes('session_destroyed')) && l;
		});
		for (const event of ['session_created', 'file_uploaded', 'container_exec_start', 'container_exec_done', 'session_destroyed'])
			assert.ok(lines.some((l) => l.includes(event) && l.includes('logged')), `${event} in:\n${lines.join('\n')}`);
		for (const secret of ['UPLOADED_CONTENT', 'VVBMT0FERUR', 'PRINTED_TEXT', 'SOURCE_TEXT', 'RAISED_TEXT'])
			assert.ok(!lines.some((l) => l.includes(secret)), `${secret} was logged`);
	});
	it('the log file belongs to its owner alone', () => {
		assert.equal(fs.statSync(s().log).mode & 0o077, 0);
	});
});

it('A12 json lines are JSON with event, level and time', () =>
	using('stdio', { env: { SANDBOX_LOG_FORMAT: 'json', SANDBOX_LOG_LEVEL: 'debug' } }, async (s) => {
		await s.ok('pass', 'json');
		const rows = (await until('log lines', () => s.logLines().length > 2 && s.logLines())).map((l) => JSON.parse(l) as Json);
		for (const r of rows) {
			assert.equal(typeof r.event, 'string');
			assert.match(r.level, /^(debug|info|warning|error)$/i);
			assert.match(r.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/);
		}
	}));

describe('A10 starts and ends', () => {
	for (const wire of wires) {
		it(`an orderly end leaves no process (${wire})`, async () => {
			const s = await open(wire);
			await s.ok('pass', 'one');
			const running = s.run('import time; time.sleep(300)', 'two').catch(() => undefined);
			await until('the run', async () => {
				const l = await s.call('sandbox_close_session', { session_id: 'two' });
				return l.error === 'session_busy' && l;
			});
			const census = new Census();
			census.take(s.pid);
			assert.ok(census.size >= 4, 'front, monitor, init and a run at least');
			await s.end();
			await running;
			await census.gone(10_000);
		});
	}
	it('a start does not touch the sessions of a server that lives', () => using('stdio', {}, async (a) => {
		await a.ok('open("mine", "w").write("1")', 'shared-name');
		await using('stdio', {}, async (b) => {
			isError(await b.call('sandbox_list_artifacts', { session_id: 'shared-name' }), 'session_not_found');
			await b.ok('open("other", "w").write("2")', 'shared-name');
			assert.deepEqual((await a.list('shared-name')).map((x) => x.filename), ['mine']);
		});
		assert.equal((await a.read('shared-name', '/mnt/data/mine')).toString(), '1');
	}));
	it('leaves nothing in the working directory', async () => {
		const cwd = scratch('cwd');
		await using('stdio', { env: { HOME: cwd } }, async (s) => {
			await s.ok('pass');
		});
		const left = fs.readdirSync(cwd).filter((n) => !n.startsWith('.') && !n.endsWith('.log'));
		assert.deepEqual(left, []);
	});
	it('an idle server with a session is small', { skip: sanitized && 'sanitizers take memory of their own' }, () =>
		using('http', {}, async (s) => {
			await s.ok('pass', 'idle');
			assert.ok(residentBytes(s.pid) < 15 << 20, `${residentBytes(s.pid) >> 10} KiB`);
		}));
	it(`runs as ${mode}`, () => using('stdio', {}, async (s) => {
		const status = fs.readFileSync(`/proc/${s.pid}/status`, 'latin1');
		assert.match(status, /^CapEff:\s+0+$/m, 'the front holds no capability');
		assert.match(status, /^NoNewPrivs:\s+1$/m);
	}));
});
