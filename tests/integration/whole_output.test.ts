// SPDX-License-Identifier: Apache-2.0
// If an answer has only a part of the output, the whole of it is a file that a model reads by lines and a person opens by its link.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { facts, serve, using, type Json, type Session } from '../lib/session.ts';

const id = 'whole';

async function ran(s: Session, code: string, more: Json = {}): Promise<Json> {
	const r = await s.raw('sandbox_run_python', { code, session_id: id, ...more });
	return facts(r);
}

async function shell(s: Session, command: string, more: Json = {}): Promise<Json> {
	const r = await s.raw('sandbox_run_shell', { command, session_id: id, ...more });
	return facts(r);
}

/** The text of the file behind a link. */
async function linked(file: Json): Promise<string> {
	const r = await fetch(file.download_url);
	assert.equal(r.status, 200, file.download_url);
	return r.text();
}

const lines = (n: number): string => [...Array(n).keys()].map((i) => `line ${i}\n`).join('');

describe('the whole output', () => {
	it('(slow) is a file with every byte: stdout, stderr, the value', () => using('stdio', { profile: 'full' }, async (s) => {
		const out = await ran(s, 'import sys\nfor i in range(200000): print("line", i)\nprint("e" * 300000, file=sys.stderr)');
		assert.deepEqual([out.stdout_truncated, out.stderr_truncated, out.exit_code], [true, true, 0]);
		assert.deepEqual(out.artifacts, [], 'the folder is no artifact');
		assert.equal(await linked(out.stdout_file), lines(200_000));
		assert.equal(await linked(out.stderr_file), 'e'.repeat(300_000) + '\n');
		assert.deepEqual([out.stdout_file.complete, out.stdout_file.size_bytes], [true, lines(200_000).length]);
		assert.match(out.stdout, new RegExp(`left out; all ${lines(200_000).length} bytes are in ${out.stdout_file.path}; `));
		const read = await s.raw('sandbox_read_file', { session_id: id, path: out.stdout_file.path, start_line: 150_001, end_line: 150_002 });
		assert.match(read.content[0]!.text, /lines 150001-150002 of 200000, \d+ bytes\nline 150000\nline 150001\n$/);
		const value = await ran(s, 'list(range(100000))', { stateful: true });
		assert.equal(value.result_truncated, true);
		assert.equal(await linked(value.result_file), `[${[...Array(100_000).keys()].join(', ')}]`);
		assert.equal(value.stdout_file, undefined);
		// Also where memory would hold it and only the answer is too small. A cold program, too.
		const some = await shell(s, 'python3 -c "for i in range(9000): print(\'line\', i)"');
		assert.deepEqual([some.stdout_truncated, await linked(some.stdout_file)], [true, lines(9000)]);
		const short = await ran(s, 'print("short")');
		assert.deepEqual([short.stdout_file, short.stdout], [undefined, 'short\n']);
	}));
	it('is there for 12,000 digits, which are not in the answer, and not for as many letters, which are', () => using('stdio', { profile: 'full' }, async (s) => {
		const words = await ran(s, 'print("some words " * 1090)');
		assert.deepEqual([words.stdout_truncated, words.stdout.length, words.stdout_file], [false, 11_991, undefined]);
		const numbers = await ran(s, 'print("0.123456 " * 1330)');
		assert.ok(numbers.stdout.length > 6000 && numbers.stdout.length < 9000, String(numbers.stdout.length));
		assert.equal(await linked(numbers.stdout_file), '0.123456 '.repeat(1330) + '\n');
	}));
	it('has the beginning of a line that had not ended when the file began', () => using('stdio', { profile: 'full' }, async (s) => {
		for (const [head, rest] of [['lin', 'e\n'], ['50 %\r', '60 %\n']]) { // a moment between them, so that they are read apart
			const text = `line\n`.repeat(12_000) + head + rest + 'line\n'.repeat(40_000);
			const r = await ran(s, `import os, time\nprint("line\\n" * 12000 + ${JSON.stringify(head)}, end="")\ntime.sleep(0.3)\nprint(${JSON.stringify(rest)} + "line\\n" * 40000, end="")`);
			assert.deepEqual([r.stdout_file.complete, await linked(r.stdout_file)], [true, text]);
		}
	}));
	it('is whole although signals interrupt what writes it', () => using('stdio', { profile: 'full' }, async (s) => {
		const code = 'import signal\nsignal.signal(signal.SIGALRM, lambda *a: None)\nsignal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)\nprint("x" * 6_000_000)\nimport sys\nsys.stdout.write("y" * 6_000_000)';
		for (const r of [await ran(s, code), await shell(s, `python3 -c '${code}'`)])
			assert.equal(r.stdout_file.size_bytes, 12_000_001);
	}));
	it('(slow) is there whatever ends the run', () => using('stdio', { profile: 'full' }, async (s) => {
		for (const [how, reason] of [['while True: pass', 'timeout'], ['import os; os.kill(os.getpid(), 9)', 'signaled'], ['import os; os._exit(3)', 'exited'],
			['1/0', 'exited']]) {
			const r = await ran(s, `for i in range(20000): print("line", i)\n${how}`, { timeout_s: 2 });
			assert.deepEqual([how, r.reason, await linked(r.stdout_file)], [how, reason, lines(20_000)]);
		}
	}));
	it('is kept up to the setting, for the newest runs, and never harms a run', () => using('stdio', { profile: 'full', env: {
		SANDBOX_WHOLE_OUTPUT_BYTES: '1000000', SANDBOX_WORKSPACE_LIMIT: '8m',
	} }, async (s) => {
		const long = await shell(s, 'yes | head -c 3000000');
		assert.deepEqual([long.exit_code, long.stdout_file.complete, long.stdout_file.size_bytes], [0, false, 1_000_000]);
		assert.match(long.stdout, /the first 1000000 bytes are in .* \(longer than SANDBOX_WHOLE_OUTPUT_BYTES\)/);
		// A full workspace: what fits is kept, and the answer says why there is no more.
		const full = await shell(s, 'rm -r .output; head -c 7900000 /dev/zero > big; yes | head -c 900000');
		assert.deepEqual([full.exit_code, full.stdout_file.complete], [0, false]);
		assert.ok(full.stdout_file.size_bytes > 400_000 && full.stdout_file.size_bytes < 900_000, full.stdout_file.size_bytes);
		assert.match(full.stdout, /\(the workspace is full\)/);
		// Whatever a program puts at the folder's place, nothing outside of the workspace is written.
		for (const [place, why] of [['echo x > .output', 'Not a directory'], ['ln -s /tmp .output', ''], ['mkdir .output; chmod 0 .output', '']]) {
			const r = await shell(s, `rm -rf big .output; ${place}; yes | head -c 300000`);
			assert.deepEqual([r.exit_code, r.stdout_truncated], [0, true]);
			if (!place!.startsWith('mkdir'))
				assert.deepEqual([r.stdout_file, r.stdout.includes('left out; they could not be stored: ')], [undefined, true]);
			assert.ok(r.stdout.includes(why));
		}
		assert.equal((await shell(s, 'ls /tmp')).stdout, '');
		await shell(s, 'chmod 700 .output; rm -rf .output; mkdir .output; echo mine > .output/mine.txt');
		for (let i = 0; i < 6; i++)
			await shell(s, 'yes | head -c 150000; yes | head -c 150000 >&2');
		const kept: string[] = (await shell(s, 'ls .output')).stdout.trim().split('\n');
		assert.equal(kept.length, 9, kept.join(' '));
		assert.ok(kept.includes('mine.txt'));
		assert.ok(kept.every((name) => name === 'mine.txt' || /^run_\w+\.std(out|err)\.txt$/.test(name)));
	}));
	it('can be switched off, and the exact profiles write nothing', async () => {
		await using('stdio', { profile: 'full', env: { SANDBOX_WHOLE_OUTPUT_BYTES: '0' } }, async (s) => {
			const r = await shell(s, 'yes | head -c 300000');
			assert.deepEqual([r.stdout_file, (await shell(s, 'ls -A')).stdout], [undefined, '']);
			assert.match(r.stdout, /bytes left out; save long output to a file/);
		});
		await using('stdio', { profile: 'code' }, async (s) => {
			const r = await s.ok('print("x" * 300000)', id);
			assert.deepEqual([r.stdout_truncated, r.stdout_file, r.stdout.length], [true, undefined, 102_400]);
			assert.equal((await s.ok('import os; print(os.listdir())', id)).stdout, '[]\n');
		});
	});
	it('(slow) is named by REST, also when the run is read later', async () => {
		const { program, base } = await serve({ profile: 'full' });
		try {
			const ask = async (path: string, body?: Json): Promise<Json> => {
				const r = await fetch(`${base}/api/v1${path}`, body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
				assert.ok(r.ok, `${path}: ${r.status}`);
				return await r.json() as Json;
			};
			const { id: box } = await ask('/sandboxes', { kind: 'session' });
			const run = await ask(`/sandboxes/${box}/runs`, { code: 'for i in range(50000): print("line", i)\n"v" * 150000', stateful: true, wait: true });
			assert.deepEqual([run.stdout_truncated, run.stderr_truncated, run.value_truncated], [true, false, true]);
			assert.deepEqual(run.stdout_file, { path: `.output/${run.id}.stdout.txt`, size: lines(50_000).length, complete: true });
			assert.deepEqual((await ask(`/runs/${run.id}`)).value_file, run.value_file);
			const r = await fetch(`${base}/api/v1/sandboxes/${box}/files/${run.stdout_file.path}`);
			assert.equal(await r.text(), lines(50_000));
		} finally {
			await program.end();
		}
	});
});
