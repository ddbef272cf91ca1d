// SPDX-License-Identifier: Apache-2.0
// The extras of the profile `all`, through the official client: text files, shell, pictures, resources, prompts.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { describe, it } from 'node:test';
import type { ElicitResult } from '@modelcontextprotocol/sdk/types.js';
import { slowness } from '../lib/env.ts';
import { facts, matrix, using, wires, type Json, type ToolResult } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

function failure(r: ToolResult, code: string): void {
	assert.equal(r.isError, true, JSON.stringify(r));
	const said = facts(r);
	assert.deepEqual(Object.keys(said), ['error', 'message', 'hint']);
	assert.equal(said.error, code);
	assert.ok(said.message && said.hint, JSON.stringify(said));
}

matrix('extras', { profile: 'all', env: { SANDBOX_MEMORY_LIMIT: '512m', SANDBOX_ALLOW_WEAKER: 'memory' } }, (s) => {
	it('the list has the extras, small enough for every client', async (t) => {
		const { tools } = await s().client.listTools();
		for (const name of ['run_shell', 'read_file', 'write_file', 'edit_file', 'view_image', 'info', 'delete'])
			assert.ok(tools.some((t) => t.name === `sandbox_${name}`), name);
		for (const tool of tools)
			assert.ok((tool.description ?? '').length <= 2048 && tool.title === tool.annotations?.title, tool.name);
		const size = JSON.stringify(tools).length;
		t.diagnostic(`budget: tools/list of profile all takes ${size} of 32000 characters`);
		assert.ok(size < 32_000, `${size} characters`);
	});
	it('write, read some lines, edit, run', async () => {
		const w = await s().call('sandbox_write_file', { path: 'sub/a.py', content: 'x = 1\ny = 2\nprint(x + y)\n', session_id: 'text' });
		assert.deepEqual([w.session_id, w.path, w.size_bytes], ['text', '/mnt/data/sub/a.py', 25]);
		assert.equal(await (await fetch(w.download_url)).text(), 'x = 1\ny = 2\nprint(x + y)\n');
		const r = await s().raw('sandbox_read_file', { session_id: 'text', path: '/mnt/data/sub/a.py', start_line: 2, end_line: 2 });
		assert.match(r.content[0]!.text, /lines 2-2 of 3.*\ny = 2\n$/);
		assert.equal((await s().call('sandbox_edit_file', { session_id: 'text', path: 'sub/a.py', old_text: 'y = 2', new_text: 'y = 41' })).replaced, 1);
		assert.equal((await s().call('sandbox_run_shell', { command: 'python3 sub/a.py', session_id: 'text' })).stdout, '42\n');
	});
	it('(slow) lines of the largest text cost the server little, even if each is empty or nothing is UTF-8', async () => {
		const read = async (path: string, more: Json = {}): Promise<string> => (await s().raw('sandbox_read_file', { session_id: 'lines', path, ...more })).content[0]!.text;
		await s().call('sandbox_run_python', { session_id: 'lines', code: 'for name, data in [("n", b"\\n" * (32 << 20)), ("x", b"\\xff" * (32 << 20)), ("a", b"one\\ntwo\\xff\\nlast"), ("e", b"")]: open(name, "wb").write(data)' });
		const decoded = 'The file is not UTF-8. It was decoded as cp1252 (70 % sure): open(path, encoding="cp1252") reads it.\n';
		assert.equal(await read('a'), `/mnt/data/a: lines 1-3 of 3, 13 bytes\n${decoded}one\ntwoÿ\nlast`);
		assert.equal(await read('a', { start_line: 3 }), `/mnt/data/a: lines 3-3 of 3, 13 bytes\n${decoded}last`);
		assert.equal(await read('a', { start_line: 4, end_line: Number.MAX_SAFE_INTEGER }), `/mnt/data/a: it has no line 4, only 3, 13 bytes\n${decoded}`);
		assert.equal(await read('e'), '/mnt/data/e: lines 0-0 of 0, 0 bytes\n');
		// The server serves everybody else in the same thread. Its own processor time does not depend on the load of the machine.
		const ticks = (): number => fs.readFileSync(`/proc/${s().pid}/stat`, 'utf8').split(') ')[1]!.split(' ').slice(11, 13).map(Number).reduce((a, b) => a + b);
		const start = ticks();
		for (let i = 0; i < 4; i++) {
			assert.match(await read('n', { start_line: 33_000_000 }), /lines 33000000-33001999 of 33554432,/);
			assert.match(await read('x'), /lines 1-1 of 1 .*\nThe file is not UTF-8.*\nÿ+\n\[\.\.\. \d+ bytes left out;/);
		}
		assert.ok(ticks() - start < 120 * slowness, `${ticks() - start} hundredths of a second for 8 calls`);
	});
	it('texts are cut between letters, at the limit in bytes, and one byte is no plural', async () => {
		const read = async (text: string): Promise<string> => {
			await s().call('sandbox_write_file', { session_id: 'bytes', path: 'f.txt', content: text });
			return (await s().raw('sandbox_read_file', { session_id: 'bytes', path: 'f.txt' })).content[0]!.text;
		};
		assert.equal(await read('x'), '/mnt/data/f.txt: lines 1-1 of 1, 1 byte\nx');
		assert.match((await s().raw('sandbox_run_python', { session_id: 'bytes', code: 'open("one", "w").write("x")' })).content[0]!.text, /\/one \(1 byte, /);
		assert.match(await read('x'.repeat(16001)), /\nx{8000}\n\[\.\.\. 1 byte left out; [^\n]*\]\nx{8000}$/);
		const letter = Buffer.byteLength('中'), each = Math.floor(8000 / letter);
		assert.match(await read('中'.repeat(20000)), new RegExp(`\\n中{${each}}\\n\\[\\.\\.\\. ${(20000 - 2 * each) * letter} bytes left out; [^\\n]*\\]\\n中{${each}}$`));
	});
	it('of long output the beginning and the end are kept, with the true count between them', async () => {
		const r = await s().call('sandbox_run_python', { code: 'print("first")\nfor i in range(60000): print(i)\nprint("the answer is 42")', session_id: 'long' });
		const [, left] = r.stdout.match(/\n\[\.\.\. (\d+) bytes left out; .*\.\.\.\]\n/)!;
		const shown = r.stdout.length - r.stdout.match(/\n\[\.\.\. .*\.\.\.\]\n/)![0].length;
		const written = 'first\n'.length + Array.from({ length: 60000 }, (_, i) => `${i}\n`).join('').length + 'the answer is 42\n'.length;
		assert.equal(Number(left) + shown, written);
		assert.ok(r.stdout.startsWith('first\n0\n') && r.stdout.endsWith('59999\nthe answer is 42\n'), r.stdout.slice(-100));
		assert.deepEqual([r.stdout_truncated, r.stderr_truncated], [true, false]);
	});
	it('what only the budget of an answer cuts is told as cut, too', async () => {
		const r = await s().call('sandbox_run_python', { code: 'print("x" * 60000)', session_id: 'long' });
		assert.match(r.stdout, /^x+\n\[\.\.\. 44001 bytes left out; /);
		assert.equal(r.stdout_truncated, true);
	});
	it('a traceback is whole, whatever was written before it', async () => {
		const r = await s().call('sandbox_run_python', {
			code: 'import sys\nfor i in range(50000): print("noise", i, file=sys.stderr)\ndef deep(n):\n    v = "' + 'y'.repeat(150) + '"\n    if n == 0: raise ValueError("the reason")\n' +
				Array.from({ length: 40 }, (_, i) => `def f${i}(): ${i === 0 ? 'deep(0)' : `f${i - 1}()`}  # ${'z'.repeat(150)}`).join('\n') + '\nf39()',
			session_id: 'long',
		});
		const at = r.stderr.indexOf('Traceback (most recent call last):');
		assert.ok(at > 0 && r.stderr.slice(at).includes('in f39') && r.stderr.slice(at).includes('in f0') && !r.stderr.slice(at).includes('left out'), r.stderr.slice(-9000));
		assert.ok(r.stderr.startsWith('noise 0\n') && r.stderr.trimEnd().endsWith('ValueError: the reason'));
		assert.equal(r.stderr_truncated, true);
	});
	it('(slow) the value of a statement says when it is cut', async () => {
		const r = await s().call('sandbox_run_python', { code: '"a" + "v" * 50000 + "z"', session_id: 'long', stateful: true });
		assert.ok(r.result.startsWith("'av") && r.result.endsWith("vz'") && r.result.includes('left out'), r.result.slice(0, 50));
		assert.equal(r.result_truncated, true);
		const small = await s().call('sandbox_run_python', { code: '"small"', session_id: 'long', stateful: true });
		assert.deepEqual([small.result, small.result_truncated], ["'small'", undefined]);
	});
	it('a timeout_s over the cap is refused with the cap, and nothing is made', async () => {
		for (const [tool, args] of [['sandbox_run_python', { code: '1' }], ['sandbox_run_shell', { command: 'true' }]] as const) {
			const r = await s().raw(tool, { ...args, timeout_s: 601, session_id: 'capped' });
			failure(r, 'invalid_argument');
			assert.match(r.content[0]!.text, /timeout_s is 601, this server allows at most 600/);
		}
		failure(await s().raw('sandbox_info', { session_id: 'capped' }), 'session_not_found');
		assert.equal((await s().call('sandbox_run_python', { code: 'print(1)', timeout_s: 600 })).stdout, '1\n');
	});
	it('after a timeout the hint says how much may be asked for', async () => {
		const r = await s().call('sandbox_run_python', { code: 'import time; time.sleep(60)', timeout_s: 1 });
		assert.match(r.hint, /larger timeout_s \(at most 600\)/);
	});
	it('a session that is not there any more is told, a known one is not', async () => {
		for (const stateful of [true, false]) {
			const id = `gone-${stateful}`;
			const r = await s().call('sandbox_run_python', { code: 'print(1)', session_id: id, stateful });
			assert.match(r.hint, new RegExp(`no session ${id}: this is a new one, without files and variables`));
			assert.equal((await s().call('sandbox_run_python', { code: 'print(1)', session_id: id, stateful })).hint, undefined);
		}
		assert.equal((await s().call('sandbox_run_python', { code: 'print(1)' })).hint, undefined);
	});
	it('hints: a missing module, no network, a signal, memory; first in the answer', async () => {
		const rows: [string, RegExp][] = [
			['import nosuchmodule.sub', /^The module nosuchmodule is not installed here/],
			['pd.DataFrame()', /^Variables and imports are kept only from one run with stateful true/],
			['import subprocess, sys; subprocess.run([sys.executable, "-c", "import cv2, numpy; cv2.imshow(\'w\', numpy.zeros((9, 9)))"], check=True)', /^There are no windows here: cv2\.imwrite/],
			['import urllib.request; urllib.request.urlopen("http://example.invalid")', /^The sandbox has no network\./],
			['import os; os.kill(os.getpid(), 11)', /^The run was ended by SIGSEGV: /],
			['x = bytearray(1 << 30); x[::4096] = b"1" * (1 << 18)', /^The sandbox ran out of memory \(it has 512 MiB\)/],
		];
		const { session_id } = await s().call('sandbox_run_python', { code: 'print(1)' });
		for (const [code, hint] of rows) {
			const r = await s().call('sandbox_run_python', { code, session_id });
			if (!r.hint && code.includes('bytearray'))
				assert.match(r.stderr, /MemoryError/, JSON.stringify(r)); // refused by the allocator before the limit was reached
			else
				assert.match(r.hint ?? '', hint, JSON.stringify(r));
			if (r.hint)
				assert.ok(Object.keys(r).indexOf('hint') < Object.keys(r).indexOf('stderr'));
		}
		assert.equal((await s().call('sandbox_run_python', { code: 'import sys; print("ModuleNotFoundError: No module named \'x\'", file=sys.stderr)', session_id })).hint, undefined);
	});
	it('sandbox_info tells the limits of runs', async () => {
		const { session_id } = await s().call('sandbox_run_python', { code: 'print(1)' });
		const { limits } = await s().call('sandbox_info', { session_id });
		assert.deepEqual([limits.output_bytes, limits.run_seconds, limits.run_seconds_max], [102_400, 60, 600]);
	});
	it('what repeats is said once, in the text and in the object', async () => {
		const text = (r: ToolResult): string => r.content[0]!.text;
		const lines = await s().raw('sandbox_run_shell', { command: 'for i in $(seq 500); do echo same; done; for i in $(seq 500); do echo one; echo two; done', session_id: 'fold' });
		assert.equal(facts(lines).stdout, 'same\n[the line above 499 more times]\none\ntwo\n[the 2 lines above 499 more times]\n');
		const warned = await s().raw('sandbox_run_python', { session_id: 'fold', code: 'import warnings\nwarnings.simplefilter("always")\nfor i in range(300):\n    warnings.warn("old")\n    if i % 100 == 0: warnings.warn("step %d" % i)' });
		assert.match(text(warned), /UserWarning: old\n\[this warning 299 more times\]\n.*UserWarning: step 0\n.*step 100\n.*step 200\n\[session_id/);
		await s().call('sandbox_write_file', { session_id: 'fold', path: 'get.py', content: 'import requests\nrequests.get("http://10.9.8.7:81/x")\n' });
		for (const [tool, args] of [['sandbox_run_shell', { command: 'python3 get.py' }], ['sandbox_run_python', { code: 'import requests\nrequests.get("http://10.9.8.7:81/x")' }]] as const) {
			const failed = text(await s().raw(tool, { session_id: 'fold', ...args }));
			// no error that the last one repeats, and no line of a library; of a program that is started, its text is all there is
			assert.match(failed, /^Hint: The sandbox has no network\..*\nstderr:\nTraceback .*\n  File .*\n.*requests\.get.*\n(?: *[~^]+\n)?  \[\.\.\. 5 more frames .*\nrequests\.exceptions\.ConnectionError: .*\n\[session_id/);
			assert.ok(failed.length < 1000 && failed.split('Traceback').length === 2, failed);
		}
	});
	it('an answer has about 16,000 characters, and the rest is in a file', async () => {
		const r = await s().raw('sandbox_run_python', { session_id: 'fold', code: 'import sys\nfor i in range(9000): print("line", i)\nfor i in range(9000): print("error", i, file=sys.stderr)\n"v" * 30000' });
		assert.ok(r.content[0]!.text.length < 17_500, `${r.content[0]!.text.length}`);
		for (const key of ['stdout_file', 'stderr_file', 'result_file'])
			assert.equal(facts(r)[key]?.complete, true, key);
	});
	it('a program that is not there', async () => {
		for (const [tool, args] of [['sandbox_run_shell', { command: 'javac A.java' }], ['sandbox_run_python', { code: 'import subprocess\nsubprocess.run(["javac", "A.java"])' }]] as const) {
			const { hint } = await s().call(tool, { session_id: 'fold', ...args });
			assert.match(hint, /^The program javac is not in this image\. .*Debian's package default-jre-headless/);
		}
	});
	it('pictures beyond the fourth are named', async () => {
		const code = 'import matplotlib.pyplot as plt\nfor i in range(6):\n    plt.figure(figsize=(1, 1)); plt.plot([i]); plt.savefig(f"p{i}.png"); plt.close()';
		const r = await s().raw('sandbox_run_python', { code, session_id: 'six' });
		assert.equal(r.content.filter((c) => c.type === 'image').length, 4);
		assert.deepEqual([facts(r).pictures_not_shown, facts(r).pictures_left_out], [['p4.png', 'p5.png'], 2]);
		assert.match(r.content[0]!.text, /\nPictures that are not shown: 2; sandbox_read_file shows one\.\n$/);
		assert.equal(r.content[0]!.text.split('p5.png (').length, 2, 'each file has one line');
	});
	it('an edit of which the result would be too large is refused, however large: nothing of it is made', async () => {
		await s().call('sandbox_write_file', { path: 'many.txt', content: 'a'.repeat(1 << 20), session_id: 'large' });
		failure(await s().raw('sandbox_edit_file', { session_id: 'large', path: 'many.txt', old_text: 'a', new_text: 'b'.repeat(1 << 20), replace_all: true }), 'artifact_too_large');
		assert.equal((await s().call('sandbox_edit_file', { session_id: 'large', path: 'many.txt', old_text: 'a', new_text: 'bcdefgh', replace_all: true })).replaced, 1 << 20);
		failure(await s().raw('sandbox_edit_file', { session_id: 'large', path: 'many.txt', old_text: 'a'.repeat((1 << 20) + 1), new_text: '' }), 'invalid_argument');
		const long = 'bcdefgh'.repeat(100_000);
		assert.equal((await s().call('sandbox_edit_file', { session_id: 'large', path: 'many.txt', old_text: long, new_text: 'x', replace_all: true })).replaced, 10, 'long texts, which stay in a file until they are used');
		await s().call('sandbox_run_shell', { command: 'printf "a\\0b" > binary', session_id: 'large' });
		failure(await s().raw('sandbox_edit_file', { session_id: 'large', path: 'binary', old_text: 'a', new_text: 'b' }), 'not_text');
	});
	it('failures have a code, a message and a hint, and change nothing', async () => {
		await s().call('sandbox_write_file', { path: 'f.txt', content: 'a a', session_id: 'fail' });
		failure(await s().raw('sandbox_edit_file', { session_id: 'fail', path: 'f.txt', old_text: 'a', new_text: 'b' }), 'ambiguous_match');
		failure(await s().raw('sandbox_edit_file', { session_id: 'fail', path: 'f.txt', old_text: 'z', new_text: 'b' }), 'no_match');
		failure(await s().raw('sandbox_write_file', { session_id: 'fail', path: 'f.txt', content: 'b', overwrite: false }), 'file_exists');
		failure(await s().raw('sandbox_read_file', { session_id: 'fail', path: '../../etc/passwd' }), 'invalid_path');
		failure(await s().raw('sandbox_read_file', { session_id: 'fail', path: 'none' }), 'not_found');
		failure(await s().raw('sandbox_view_image', { session_id: 'fail', path: 'f.txt' }), 'not_an_image');
		failure(await s().raw('sandbox_info', { session_id: 'nobody' }), 'session_not_found');
		await s().call('sandbox_run_shell', { command: 'ln -s /etc/passwd link; mkfifo pipe', session_id: 'fail' });
		failure(await s().raw('sandbox_read_file', { session_id: 'fail', path: 'link' }), 'not_found');
		failure(await s().raw('sandbox_read_file', { session_id: 'fail', path: 'pipe' }), 'not_found');
		const r = await s().raw('sandbox_read_file', { session_id: 'fail', path: 'f.txt' });
		assert.match(r.content[0]!.text, /\na a$/);
	});
	it('a folder that is read as a file is listed', async () => {
		await s().call('sandbox_write_file', { path: 'sub/deep/f.txt', content: 'a', session_id: 'folder' });
		await s().call('sandbox_run_shell', { command: 'mkdir empty; ln -s sub link', session_id: 'folder' });
		for (const path of ['sub', '/mnt/data/sub/', '.', '/mnt/data', 'sub/deep']) {
			const r = await s().raw('sandbox_read_file', { session_id: 'folder', path, start_line: 1 });
			assert.ok(!r.isError, JSON.stringify(r));
			assert.match(r.content[0]!.text, /^\/mnt\/data\S* in session_id: folder\n- \/mnt\/data\/sub\/deep\/f\.txt \(1 byte/);
			assert.deepEqual(facts(r).files.map((f: Json) => f.path), ['/mnt/data/sub/deep/f.txt']);
		}
		assert.match((await s().raw('sandbox_read_file', { session_id: 'folder', path: 'empty' })).content[0]!.text, /^No files in session_id: folder\n/);
		for (const path of ['none', 'none/sub', 'sub/none'])
			assert.match(String(facts(await s().raw('sandbox_read_file', { session_id: 'folder', path })).message), new RegExp(`^There is no file /mnt/data/${path}$`));
	});
	it('a shell command: streams, status, its own time', async () => {
		const r = await s().call('sandbox_run_shell', { command: 'echo out; echo err >&2; exit 3', session_id: 'sh' });
		assert.deepEqual([r.exit_code, r.stdout, r.stderr, r.reason], [3, 'out\n', 'err\n', 'exited']);
		for (const [command, stdout, hint] of [['```bash\necho a; echo b\n```\n', 'a\nb\n', /had fences of Markdown/], ['\n```\necho `echo c`\n```', 'c\n', /fences/], ['$ echo a\n$ echo b', 'a\nb\n', /had prompts/],
			["cat <<'E'\n```\n$ x\n```\nE", '```\n$ x\n```\n', /^$/]] as const) {
			const marked = await s().call('sandbox_run_shell', { command, session_id: 'sh' });
			assert.deepEqual([marked.exit_code, marked.stdout], [0, stdout], JSON.stringify(marked));
			assert.match(marked.hint ?? '', hint);
		}
		assert.equal((await s().call('sandbox_run_shell', { command: '$ echo a\na', session_id: 'sh' })).exit_code, 127);
		const slow = await s().call('sandbox_run_shell', { command: 'sleep 300 & sleep 300', session_id: 'sh', timeout_s: 1 });
		assert.deepEqual([slow.exit_code, slow.reason], [-1, 'timeout']);
		assert.equal(slow.stderr, ''); // the hint says it, once
		assert.match(slow.hint, /^The run was ended after its 1 s\. /);
	});
	it('a run that takes the rights from the workspace ends no other', async () => {
		assert.equal((await s().call('sandbox_run_shell', { command: 'chmod 0 /mnt/data', session_id: 'rights' })).exit_code, 0);
		const r = await s().call('sandbox_run_shell', { command: 'echo kept > f && cat f', session_id: 'rights' });
		assert.deepEqual([r.exit_code, r.stdout], [0, 'kept\n'], JSON.stringify(r));
	});
	it('a saved picture comes as a picture, and then without structured content', async () => {
		const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
		const r = await s().raw('sandbox_run_python', { code: `import base64; open("p.png", "wb").write(base64.b64decode("${png}"))`, session_id: 'pic' });
		assert.equal(r.structuredContent, undefined);
		assert.deepEqual(r.content.map((c) => c.type), ['text', 'image']);
		assert.deepEqual([r.content[1]!.mimeType, r.content[1]!.data], ['image/png', png]);
		assert.equal(facts(r).artifacts[0].filename, 'p.png');
		const view = await s().raw('sandbox_view_image', { session_id: 'pic', path: 'p.png' });
		assert.deepEqual(view.content, [{ type: 'image', data: png, mimeType: 'image/png' }]);
	});
	it('(slow) a large picture comes scaled down, and its file stays', async () => {
		const code = 'import os\nfrom PIL import Image\nImage.effect_noise((2400, 1600), 90).convert("RGB").save("noise.png")\nprint(os.path.getsize("noise.png"))';
		const r = await s().raw('sandbox_run_python', { code, session_id: 'large' });
		assert.deepEqual(r.content.map((c) => c.type), ['text', 'image']);
		const said = facts(r);
		assert.ok(Number(said.stdout) > 3 << 20);
		assert.equal(said.artifacts[0].size_bytes, Number(said.stdout));
		assert.match(said.hint, /smaller/);
		const bytes = Buffer.from(r.content[1]!.data, 'base64');
		assert.ok(bytes.length > 10_000 && bytes.length <= 1536 << 10, String(bytes.length));
		assert.equal(bytes.subarray(0, r.content[1]!.mimeType === 'image/png' ? 4 : 3).toString('hex'), r.content[1]!.mimeType === 'image/png' ? '89504e47' : 'ffd8ff');
		assert.equal((await s().raw('sandbox_view_image', { session_id: 'large', path: 'noise.png' })).content[0]!.type, 'image');
	});
	it('a picture that would be too much to decode stays a link', async () => {
		// A PNG of 60000 x 60000 pixels, which is only a head.
		const code = 'import struct, zlib\nhead = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)\n' +
			'def part(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))\n' +
			'open("bomb.png", "wb").write(b"\\x89PNG\\r\\n\\x1a\\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(bytes(4 << 20), 0)) + part(b"IEND", b""))';
		const r = await s().raw('sandbox_run_python', { code, session_id: 'bomb' });
		assert.deepEqual(r.content.map((c) => [c.type, c.uri]), [['text', undefined], ['resource_link', 'sandbox://bomb/bomb.png']]);
		assert.equal(r.structuredContent!.result.artifacts[0].filename, 'bomb.png');
		const view = await s().raw('sandbox_view_image', { session_id: 'bomb', path: 'bomb.png' });
		assert.equal(view.isError, true);
		assert.match(view.content[0]!.text, /artifact_too_large/);
	});
	it('(slow) an artifact that no client takes in one line is answered with its link over stdio', async () => {
		await s().call('sandbox_run_python', { code: 'open("big.bin", "wb").write(bytes(range(256)) * 20_000)', session_id: 'line' });
		const r = await s().call('sandbox_read_artifact', { session_id: 'line', path: '/mnt/data/big.bin' });
		if (s().wire === 'http') {
			assert.equal(Buffer.from(r.content_base64, 'base64').length, 5_120_000);
			return;
		}
		assert.equal(r.error, 'artifact_too_large');
		assert.equal(r.size_bytes, 5_120_000);
		assert.equal((await (await fetch(r.download_url)).arrayBuffer()).byteLength, 5_120_000);
	});
	it('long output is cut in the middle', async () => {
		const r = await s().call('sandbox_run_python', { code: 'print("begin" + "x" * 90000 + "end")', session_id: 'long' });
		assert.ok(r.stdout.startsWith('beginxxx') && r.stdout.endsWith('xxxend\n'));
		assert.match(r.stdout, /\[\.\.\. \d+ bytes left out; /);
		assert.ok(r.stdout.length < 41_000, `${r.stdout.length}`);
	});
	it('files are resources, whole and in part', async () => {
		await s().call('sandbox_write_file', { path: 'data ü.csv', content: 'a,b\n1,2\n', session_id: 'res' });
		const { resources } = await s().client.listResources();
		const found = resources.find((r) => r.name === 'data ü.csv');
		assert.deepEqual([found?.uri, found?.mimeType, found?.size], ['sandbox://res/data%20%C3%BC.csv', 'text/csv', 8]);
		const whole = await s().client.readResource({ uri: found!.uri });
		assert.equal((whole.contents[0] as Json).text, 'a,b\n1,2\n');
		const part = await s().client.readResource({ uri: `${found!.uri}?offset=4&length=3` });
		assert.equal((part.contents[0] as Json).text, '1,2');
		for (const uri of ['sandbox://res/none', 'sandbox://res/../x', 'sandbox://nobody/x', 'sandbox://res/%2e%2e/x'])
			await assert.rejects(s().client.readResource({ uri }), /not found/i, uri);
	});
	it('prompts and completion', async () => {
		const { prompts } = await s().client.listPrompts();
		assert.deepEqual(prompts.map((p) => p.name), ['analyse_data_file', 'debug_error', 'make_report']);
		const p = await s().client.getPrompt({ name: 'debug_error', arguments: { error: 'KeyError: x' } });
		assert.match((p.messages[0]!.content as Json).text, /KeyError: x/);
		await s().call('sandbox_write_file', { path: 'complete-me.csv', content: '', session_id: 'comp' });
		const c = await s().client.complete({ ref: { type: 'ref/resource', uri: 'sandbox://{id}/{+path}' }, argument: { name: 'path', value: 'comp' }, context: { arguments: { id: 'comp' } } });
		assert.deepEqual(c.completion.values, ['complete-me.csv']);
		// Packages complete the last word; a second question is answered from what the first has learnt.
		const packages = async (value: string): Promise<string[]> =>
			(await s().client.complete({ ref: { type: 'ref/prompt', name: 'make_report' }, argument: { name: 'packages', value }, context: { arguments: { session_id: 'comp' } } })).completion.values;
		assert.ok((await packages('seaborn nump')).includes('seaborn numpy'));
		assert.ok((await packages('pand')).includes('pandas'));
		assert.deepEqual(await packages('no-such-package'), []);
	});
	it('info tells the limits, delete ends a session while it runs', async () => {
		await s().ok('print(1)', 'gone');
		const info = await s().call('sandbox_info', { session_id: 'gone' });
		assert.deepEqual([info.status, info.network], ['idle', 'none']);
		assert.ok(info.limits.memory_bytes > 0 && Array.isArray(info.enforced));
		const running = s().raw('sandbox_run_python', { code: 'import time; time.sleep(300)', session_id: 'gone' });
		while ((await s().call('sandbox_info', { session_id: 'gone' })).status !== 'running')
			;
		assert.equal((await s().call('sandbox_delete', { session_id: 'gone' })).status, 'deleted');
		assert.match(JSON.stringify(await running), /cancelled|sandbox_lost/);
		failure(await s().raw('sandbox_delete', { session_id: 'gone' }), 'session_not_found');
	});
});

describe('a person is asked before a run is ended by a deletion', () => {
	for (const wire of wires)
		it(`over ${wire}: no leaves it, yes ends it`, async () => {
			const answers: ElicitResult[] = [{ action: 'decline' }, { action: 'accept', content: { end_run: false } }, { action: 'accept', content: { end_run: true } }];
			const asked: string[] = [];
			const person = (message: string): ElicitResult => (asked.push(message), answers.shift()!);
			await using(wire, { profile: 'all', person }, async (s) => {
				await s.call('sandbox_run_shell', { command: 'true', session_id: 'busy' });
				await s.call('sandbox_delete', { session_id: 'busy' }); // idle: nobody is asked
				assert.equal(asked.length, 0);
				await s.call('sandbox_run_shell', { command: 'true', session_id: 'busy' });
				const run = s.raw('sandbox_run_shell', { command: 'touch started; sleep 300', session_id: 'busy' });
				await until('the run', async () => (await s.call('sandbox_list_artifacts', { session_id: 'busy' })).artifacts.length === 1, 15_000);
				for (let i = 0; i < 2; i++) failure(await s.raw('sandbox_delete', { session_id: 'busy' }), 'declined');
				assert.equal((await s.call('sandbox_delete', { session_id: 'busy' })).status, 'deleted');
				assert.equal(asked.length, 3);
				assert.match(asked[0]!, /run is going on.*busy/);
				await run;
			});
		});
});

describe('what the official client takes in one line over stdio', () => {
	const write = (name: string, size: number, byte = '\\xff'): string => `open("${name}", "wb").write(b"${byte}" * ${size})`;

	for (const profile of ['code', 'all'])
		it(`(slow) profile ${profile}: the largest file arrives, a larger one is its link, and the connection stays`, () => using('stdio', { profile, env: profile === 'all' ? {} : { SANDBOX_MAX_LINE_BYTES: '10420224' } }, async (s) => {
			await s.ok([write('most', 3_903_048), write('more', 3_903_049), write('nine', 9 << 20)].join('; '), 'line');
			const read = (name: string): Promise<Json> => s.call('sandbox_read_artifact', { session_id: 'line', path: `/mnt/data/${name}` });
			assert.equal(Buffer.from((await read('most')).content_base64, 'base64').length, 3_903_048);
			for (const name of ['more', 'nine']) {
				const r = await read(name);
				assert.deepEqual([r.error, r.size_bytes], ['artifact_too_large', name === 'more' ? 3_903_049 : 9 << 20]);
				assert.equal(/sandbox_read_file/.test(r.message), profile === 'all');
				assert.equal((await (await fetch(r.download_url)).arrayBuffer()).byteLength, r.size_bytes);
			}
			assert.equal((await s.list('line')).length, 3);
		}));
	it('(slow) resources: text as text, control characters and other bytes in base64, more than 2 MiB in parts', () => using('stdio', { profile: 'all', env: { SANDBOX_ANSWER_BYTES: '0' } }, async (s) => {
		await s.ok([write('most', 2 << 20), write('more', (2 << 20) + 1), write('text', 2 << 20, 'x'), write('control', 2_000_000, '\\x01'), write('lines', 1000, 'a\\tb\\r\\n')].join('; '), 'line');
		const read = async (name: string): Promise<Json> => (await s.client.readResource({ uri: `sandbox://line/${name}` })).contents[0] as Json;
		assert.equal(Buffer.from((await read('most')).blob, 'base64').length, 2 << 20);
		assert.equal((await read('text')).text.length, 2 << 20);
		assert.deepEqual(Buffer.from((await read('control')).blob, 'base64'), Buffer.alloc(2_000_000, 1));
		assert.match((await read('lines')).text, /^a\tb\r\n/);
		assert.match((await read('more')).text, /^This file has \d+ bytes, too many for one answer\. Read a part .*or download it: http:/);
		assert.equal(Buffer.from((await read('more?offset=2000000&length=1000000')).blob, 'base64').length, 97_153);
	}));
	it('(slow) a contract has no bound unless one is set, and it is the client that ends the connection', () => using('stdio', { profile: 'code' }, async (s) => {
		await s.ok(write('nine', 9 << 20), 'line');
		let said = '';
		s.client.onerror = (e) => (said += e.message);
		await assert.rejects(s.call('sandbox_read_artifact', { session_id: 'line', path: '/mnt/data/nine' }), /closed/i);
		assert.match(said, /ReadBuffer exceeded maximum size of 10485760 bytes/);
	}));
});
