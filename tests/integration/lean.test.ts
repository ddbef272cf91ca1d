// SPDX-License-Identifier: Apache-2.0
// The lean family, which is the profile `full`: its size, its names, and what each tool answers to a model and to programs.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import { facts, matrix, using, type Json, type Session, type ToolResult } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

/** By the tokenizer o200k_base this list has 0.2334 tokens for each character. */
const TOKENS_OF_A_CHARACTER = 0.235;

const text = (r: ToolResult): string => r.content[0]!.text as string;
const failure = (r: ToolResult, code: string): Json => {
	assert.equal(r.isError, true, JSON.stringify(r));
	assert.deepEqual(Object.keys(r.structuredContent!), ['error', 'message', 'hint']);
	assert.equal(r.structuredContent!.error, code, text(r));
	assert.ok(text(r).startsWith(`${code}: `), text(r));
	return r.structuredContent!;
};

/** What a person wants, the tool that fits, the words of its text by which a model finds it, and why no other one fits. */
const tasks: [task: string, tool: string, words: RegExp, why: string][] = [
	['What is the mean of this column?', 'run_python', /analysis, computation/, 'the shell would start Python itself, without warm modules'],
	['Draw a bar chart of the sales.', 'run_python', /charts/, 'only its answer shows figures that were not saved'],
	['Go on with the DataFrame of the last step.', 'run_python', /true keeps variables/, 'other tools have no variables'],
	['Unpack this archive.', 'run_shell', /archives/, 'Python can do it in more words; no file tool unpacks'],
	['Clone the repository and count its lines.', 'run_shell', /\bgit\b/, 'programs of the command line'],
	['I want an environment that is still there next week.', 'create', /stays \(persistent\)/, 'a first run makes only a session'],
	['Work with 2 GB of memory.', 'create', /other limits/, 'runs take the limits of their sandbox'],
	['Try it in a copy of my files, at the same time.', 'create', /copy of another one's files/, 'a branch cannot run at the same time'],
	['Where did I leave the report yesterday?', 'list', /find an earlier one again/, 'the other tools want the id'],
	['How much memory is left, and which packages are installed?', 'info', /memory and disk in use/, 'a list of sandboxes has no limits'],
	['Throw the sandbox away.', 'delete', /delete a stored sandbox for good/, 'a removed file leaves the sandbox'],
	['Which files are there, and their links?', 'list_files', /at any depth, with sizes/, 'ls knows no links'],
	['Show me lines 100 to 200 of the log.', 'read_file', /lines of a text/, 'a run costs a process and a budget of output'],
	['What is on page 2 of the PDF?', 'read_file', /pages of a PDF/, 'a run returns only text and saved pictures'],
	['Save this script as main.py.', 'write_file', /whose content you have/, 'in code the text would have to be quoted'],
	['Rename this function in main.py.', 'edit_file', /Replace a piece/, 'writing would send the whole file again'],
	['Here is my spreadsheet.', 'add_file', /upload link/, 'the model has no bytes to write'],
	['Load the data from that address.', 'add_file', /from an address/, 'code would have to know about the proxy'],
	['It says that polars is missing.', 'install_packages', /where pip does not/, 'pip has no network'],
	['Before you drop those rows, keep a way back.', 'checkpoint', /before a step that may go wrong/, 'a copy of the files has no variables'],
	['That was wrong, go back.', 'restore', /back to a checkpoint/, 'only a checkpoint has variables'],
	['Keep a web server running and test it.', 'process', /goes on beside runs/, 'what a run starts ends with it'],
	['Compare three models and take the best.', 'branch', /several continuations/, 'runs one after the other would see each other'],
];

describe('the list of tools of profile full', () => {
	for (const [name, env, most] of [['as it is', {}, 16], ['with a person who may allow hosts', { SANDBOX_NETWORK_ASK: 'on' }, 17]] as const)
		it(`is small: ${name}`, (t) => using('stdio', { profile: 'full', env }, async (s) => {
			const { tools } = await s.client.listTools();
			assert.equal(tools.length, most);
			const size = JSON.stringify(tools).length;
			t.diagnostic(`budget: tools/list of profile full has ${size} characters, about ${Math.round(size * TOKENS_OF_A_CHARACTER)} of 3500 tokens`);
			assert.ok(size * TOKENS_OF_A_CHARACTER <= 3500, `${size} characters`);
		}));
	it('explains itself: every tool and every argument, with annotations', () => using('stdio', { profile: 'full', env: { SANDBOX_NETWORK_ASK: 'on' } }, async (s) => {
		const check = (where: string, schema: Json): void => {
			for (const [name, p] of Object.entries((schema.properties ?? {}) as Record<string, Json>)) {
				assert.ok(p.description?.length > 8, `${where}.${name}`);
				if (p.items?.properties) check(`${where}.${name}`, p.items);
			}
		};
		for (const tool of (await s.client.listTools()).tools) {
			assert.match(tool.name, /^sandbox_[a-z_]+$/);
			assert.ok(tool.description!.length > 40 && tool.description!.length < 700, tool.name);
			for (const hint of ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const)
				assert.equal(typeof tool.annotations?.[hint], 'boolean', `${tool.name} ${hint}`);
			assert.equal(tool.annotations!.title, tool.title);
			check(tool.name, tool.inputSchema as Json);
			if (tool.name !== 'sandbox_list') assert.ok('session_id' in (tool.inputSchema.properties ?? {}), `${tool.name} takes a session`);
		}
	}));
	it('leads to one tool for each task', () => using('stdio', { profile: 'full', env: { SANDBOX_NETWORK_ASK: 'on' } }, async (s) => {
		const { tools } = await s.client.listTools();
		const about = (t: Json): string => JSON.stringify([t.description, t.inputSchema]);
		for (const [task, tool, words, why] of tasks) {
			assert.ok(why, task);
			assert.deepEqual(tools.filter((t) => words.test(about(t))).map((t) => t.name), [`sandbox_${tool}`], task);
		}
		const chosen = new Set(tasks.map(([, tool]) => `sandbox_${tool}`));
		assert.deepEqual(tools.map((t) => t.name).filter((n) => !chosen.has(n)), ['sandbox_allow_domain'], 'every tool has its task');
	}));
	it('profile all has it beside both older families, each name once', () => using('stdio', { profile: 'full' }, async (lean) => {
		const names = (await lean.client.listTools()).tools.map((t) => t.name);
		await using('stdio', { profile: 'all' }, async (all) => {
			const shown = (await all.client.listTools()).tools.map((t) => t.name);
			assert.equal(new Set(shown).size, shown.length);
			for (const name of [...names, 'sandbox_upload_file', 'create_sandbox', 'execute_python_code', 'delete_sandbox', 'sandbox_fork'])
				assert.ok(shown.includes(name), name);
		});
	}));
});

matrix('results', { profile: 'full' }, (s) => {
	it('of a run are text as a person reads it, with the object beside it', async () => {
		const r = await s().raw('sandbox_run_python', { code: 'print("a \\"b\\"")\nprint("c")\nimport sys; print("oops", file=sys.stderr)\n1/0', session_id: 'plain' });
		assert.match(text(r), /^a "b"\nc\nstderr:\noops\nTraceback .*\n[^]*ZeroDivisionError: division by zero\n\[session_id: plain, exit_code: 1, \d+ ms\]\n$/m);
		const o = facts(r);
		assert.deepEqual([o.session_id, o.exit_code, o.stdout, o.reason], ['plain', 1, 'a "b"\nc\n', 'exited']);
		assert.equal(text(await s().raw('sandbox_run_shell', { command: 'true', session_id: 'plain' })).split('\n')[0], '(no output)');
	});
	it('(slow) of a statement have a table as a table', async () => {
		const r = await s().raw('sandbox_run_python', { code: 'import pandas as pd\npd.DataFrame({"name": ["x", "y"], "n": [1, 22]})', session_id: 'plain', stateful: true });
		assert.match(text(r), /Value of the last expression:\n {2}name +n\n0 +x +1\n1 +y +22\n\[session_id: plain, exit_code: 0, variables kept, \d+ ms\]/);
	});
	it('(slow) name each new file on one line: in folders, of failed runs, of runs that took too long', async () => {
		const make = 'import os\nos.makedirs("out/deep", exist_ok=True)\nopen("out/deep/r.csv", "w").write("x" * 2000)\nopen("top.txt", "w").write("t")\nos.makedirs(".hidden", exist_ok=True); open(".hidden/x", "w")\n';
		for (const [end, more] of [['', {}], ['1/0', {}], ['import time; time.sleep(60)', { timeout_s: 2 }]] as const) {
			const session_id = `files-${end.length}`;
			const r = await s().raw('sandbox_run_python', { code: make + end, session_id, ...more });
			assert.match(text(r), new RegExp(`New or changed files:\n- /mnt/data/top.txt \\(1 byte, text/plain\\) http\\S+\n- /mnt/data/out/deep/r.csv \\(2.0 KB, text/csv\\) http\\S+/files/${session_id}/out/deep/r.csv\n$`));
			const o = facts(r);
			assert.deepEqual(o.artifacts.map((a: Json) => a.path), ['/mnt/data/top.txt', '/mnt/data/out/deep/r.csv']);
			assert.equal((await (await fetch(o.artifacts[1].download_url)).text()).length, 2000);
		}
		const again = await s().call('sandbox_run_python', { code: 'open("out/deep/r.csv", "a").write("!")', session_id: 'files-0' });
		assert.deepEqual(again.artifacts.map((a: Json) => a.path), ['/mnt/data/out/deep/r.csv'], 'only what has changed');
		const then = Date.now(); // the times of files go in ticks
		await until('the next tick', async () => Date.now() > then + 20, 5000);
		assert.deepEqual((await s().call('sandbox_run_python', { code: 'open("out/deep/r.csv").read()', session_id: 'files-0' })).artifacts, []);
	});
	it('show a picture in a folder, and have the object in _meta then', async () => {
		const r = await s().raw('sandbox_run_python', { code: 'import os; os.makedirs("p", exist_ok=True)\nfrom PIL import Image\nImage.new("RGB", (9, 9)).save("p/red.png")', session_id: 'pic' });
		assert.deepEqual(r.content.map((c) => c.type), ['text', 'image']);
		assert.equal(r.structuredContent, undefined);
		assert.equal(r._meta!['caisson/result'].artifacts[0].path, '/mnt/data/p/red.png');
		assert.equal(facts(r).session_id, 'pic');
	});
});

matrix('sessions', { profile: 'full' }, (s) => {
	it('(slow) without an id a call has a session of its own, with "last" it goes on', async () => {
		const a = await s().call('sandbox_run_python', { code: 'x = 1; open("a.txt", "w").write("a")', stateful: true });
		const b = await s().call('sandbox_run_python', { code: 'import os; print(os.listdir(), "x" in globals())', stateful: true });
		assert.notEqual(a.session_id, b.session_id);
		assert.equal(b.stdout, '[] False\n');
		const c = await s().call('sandbox_run_python', { code: 'y = 2', session_id: a.session_id, stateful: true });
		assert.equal(c.session_id, a.session_id);
		const d = await s().call('sandbox_run_python', { code: 'print(x, y)', session_id: 'last', stateful: true });
		assert.deepEqual([d.session_id, d.stdout], [a.session_id, '1 2\n']);
		assert.match(text(await s().raw('sandbox_read_file', { session_id: 'last', path: 'a.txt' })), /\na$/);
		// What another client of the same server does is not `last` here.
		await s().call('sandbox_delete', { session_id: b.session_id });
		failure(await s().raw('sandbox_info', { session_id: 'last' }), 'session_not_found');
	});
	it('sandbox_create chooses, changes and copies', async () => {
		const made = await s().call('sandbox_create', { session_id: 'chosen', memory_mb: 200, cpus: 0.5, timeout_s: 7, env: { TOKEN: 'hush' }, labels: { team: 'a' }, workdir: '/mnt/data/w' });
		assert.deepEqual([made.session_id, made.kind, made.status, made.memory_mb, made.env, made.labels], ['chosen', 'session', 'created', 200, ['TOKEN'], { team: 'a' }]);
		const run = await s().call('sandbox_run_shell', { command: 'echo $TOKEN; pwd; echo x > f', session_id: 'chosen' });
		assert.equal(run.stdout, 'hush\n/mnt/data/w\n');
		const { limits } = await s().call('sandbox_info', { session_id: 'chosen' });
		assert.deepEqual([limits.memory_bytes, limits.cpu_milli, limits.run_seconds], [200 << 20, 500, 7]);
		const changed = await s().call('sandbox_create', { session_id: 'chosen', timeout_s: 9, env: { TOKEN: 'other' } });
		assert.deepEqual([changed.status, changed.timeout_s, changed.memory_mb], ['changed', 9, 200]);
		failure(await s().raw('sandbox_create', { session_id: 'chosen', disk_mb: 100 }), 'limit_not_changeable');
		failure(await s().raw('sandbox_create', { session_id: 'chosen', network: 'none' }), 'invalid_argument');
		failure(await s().raw('sandbox_create', { env: { A: 'x'.repeat(70_000) } }), 'invalid_argument');
		failure(await s().raw('sandbox_create', { cpus: 5000 }), 'invalid_argument');
		assert.doesNotMatch(JSON.stringify(await s().raw('sandbox_list')), /hush|other/);
		const copy = await s().call('sandbox_create', { copy_of: 'chosen' });
		assert.deepEqual([copy.copy_of, copy.files], ['chosen', 1]);
		assert.match(text(await s().raw('sandbox_read_file', { session_id: 'last', path: 'w/f' })), /\nx\n$/);
		failure(await s().raw('sandbox_create', { copy_of: 'chosen', memory_mb: 100 }), 'invalid_argument');
	});
	it('sandbox_list has what was used last first, and those that are not active last', async () => {
		const ids = ['order-a', 'order-b', 'order-c', 'order-d'];
		const order = async (): Promise<string[]> => (await s().call('sandbox_list', {})).sandboxes.map((b: Json) => b.session_id).filter((id: string) => ids.includes(id));
		for (const session_id of ids) await s().call('sandbox_write_file', { session_id, path: 'a', content: 'a' });
		assert.deepEqual(await order(), ids.toReversed());
		await s().call('sandbox_write_file', { session_id: 'order-b', path: 'b', content: 'b' });
		assert.deepEqual(await order(), ['order-b', 'order-d', 'order-c', 'order-a']);
		for (const session_id of ids) await s().call('sandbox_delete', { session_id });
	});
	it('a stored sandbox is used as a session is, and sandbox_list finds it again', async () => {
		const { session_id } = await s().call('sandbox_create', { persistent: true, name: 'my notes' });
		try {
			await s().call('sandbox_write_file', { session_id, path: 'n.txt', content: 'kept' });
			const { sandboxes } = await s().call('sandbox_list', {});
			const found = sandboxes.find((b: Json) => b.session_id === session_id);
			assert.deepEqual([found.kind, found.name, found.state, found.files], ['stored', 'my notes', 'idle', 1]);
			assert.ok(sandboxes.some((b: Json) => b.kind === 'session'));
			assert.match(text(await s().raw('sandbox_list', {})), new RegExp(`- session_id ${session_id}, kind stored, state idle, .*name my notes, files 1\n`));
		} finally {
			assert.equal((await s().call('sandbox_delete', { session_id })).status, 'deleted');
		}
		failure(await s().raw('sandbox_info', { session_id }), 'session_not_found');
	});
});

describe('when there may be no more sessions', () => {
	it('the answer says which there are', () => using('stdio', { profile: 'full', env: { SANDBOX_MAX_SESSIONS: '2' } }, async (s: Session) => {
		for (const session_id of ['one', 'two']) await s.call('sandbox_write_file', { path: 'f', content: 'x', session_id });
		for (const [tool, args] of [['sandbox_run_python', { code: '1' }], ['sandbox_write_file', { path: 'f', content: 'x' }], ['sandbox_create', {}]] as const)
			assert.match(failure(await s.raw(tool, args), 'max_sessions').hint, /You have: (one \(idle for 0 min\), two|two \(idle for 0 min\), one) \(idle for 0 min\)/);
	}));
});

matrix('files', { profile: 'full' }, (s) => {
	it('are listed at any depth, with names in any script', async () => {
		const name = 'Отчёт 年 ü.csv';
		await s().call('sandbox_write_file', { path: `a/b/${name}`, content: '1\n', session_id: 'tree' });
		await s().call('sandbox_write_file', { path: 'top.md', content: '# x', session_id: 'tree' });
		const all = await s().call('sandbox_list_files', { session_id: 'tree' });
		assert.deepEqual(all.files.map((f: Json) => f.path), ['/mnt/data/top.md', `/mnt/data/a/b/${name}`]);
		assert.equal(await (await fetch(all.files[1].download_url)).text(), '1\n');
		assert.deepEqual((await s().call('sandbox_list_files', { session_id: 'tree', depth: 1 })).files.length, 1);
		assert.deepEqual((await s().call('sandbox_list_files', { session_id: 'tree', path: '/mnt/data/a' })).files.map((f: Json) => f.filename), [name]);
		failure(await s().raw('sandbox_list_files', { session_id: 'tree', path: 'nowhere' }), 'not_found');
		failure(await s().raw('sandbox_list_files', { session_id: 'tree', path: '../..' }), 'invalid_path');
		await s().call('sandbox_run_shell', { command: 'mkdir many; cd many; for i in $(seq 700); do : > $i; done; ln -s / root', session_id: 'tree' });
		const many = await s().call('sandbox_list_files', { session_id: 'tree' });
		assert.deepEqual([many.files.length, many.more], [500, true]);
	});
	it('bytes come and go as base64', async () => {
		for (const bytes of [Buffer.from([0, 1, 255]), Buffer.alloc(200_000, 7)]) {
			await s().call('sandbox_write_file', { path: 'b.bin', content_base64: bytes.toString('base64'), session_id: 'bytes' });
			const r = await s().call('sandbox_read_file', { path: 'b.bin', base64: true, session_id: 'bytes' });
			assert.ok(Buffer.from(r.content_base64, 'base64').equals(bytes));
		}
		failure(await s().raw('sandbox_write_file', { path: 'b.bin', content_base64: 'AA*E', session_id: 'bytes' }), 'invalid_content');
		failure(await s().raw('sandbox_write_file', { path: 'b.bin', content: 'a', content_base64: 'YQ==', session_id: 'bytes' }), 'invalid_argument');
		failure(await s().raw('sandbox_write_file', { path: 'b.bin', session_id: 'bytes' }), 'invalid_argument');
	});
	it('(slow) are looked at as what they are: TIFF, BMP, pages of a PDF, a table', async () => {
		await s().call('sandbox_run_python', {
			session_id: 'kinds', code: `from PIL import Image
im = Image.new("RGB", (90, 60), "red"); im.save("a.tiff"); im.save("b.bmp"); Image.new("I;16", (30, 20), 5).save("c.tif")
from reportlab.pdfgen import canvas
k = canvas.Canvas("d.pdf")
for i in range(6): k.drawString(100, 700, f"page {i}"); k.showPage()
k.save()
open("e.parquet", "wb").write(b"PAR1\\0\\0"); open("f.pdf", "w").write("%PDF-1.4 no")` });
		const read = (file: string, more: Json = {}): Promise<ToolResult> => s().raw('sandbox_read_file', { session_id: 'kinds', path: file, ...more });
		for (const file of ['a.tiff', 'b.bmp', 'c.tif']) {
			const r = await read(file);
			assert.deepEqual(r.content.map((c) => c.type), ['text', 'image'], file);
			assert.ok(Buffer.from(r.content[1]!.data, 'base64').subarray(1, 4).equals(Buffer.from('PNG')));
		}
		const pages = await read('d.pdf');
		assert.deepEqual(pages.content.map((c) => c.type), ['text', 'image', 'image', 'image', 'image']);
		assert.match(text(pages), /Pages 1-4 of 6\./);
		assert.match(text(await read('d.pdf', { start_line: 6 })), /Pages 6-6 of 6\./);
		assert.match(failure(await read('d.pdf', { start_line: 7 }), 'invalid_argument').message, /6 pages/);
		assert.match(text(await read('f.pdf')), /No picture could be made/);
		assert.match(text(await read('e.parquet')), /^- \/mnt\/data\/e\.parquet \(6 bytes, .*\) http\S+\nThis is no text and no picture. Read it with pandas.read_parquet\(path\)/);
	});
	it('a text that is not UTF-8 is decoded, and the answer says so', async () => {
		await s().call('sandbox_run_python', { session_id: 'foreign', code: `
r = "Имя;Город\\nИван;Москва\\n"
open("r.csv", "wb").write(r.encode("cp1251")); open("u.txt", "w", encoding="utf-16").write(r); open("x.bin", "wb").write(bytes(range(128, 256)) * 9)
open("long.csv", "wb").write((r * 200_000).encode("cp1251")); open("late.txt", "wb").write(b"a\\n" * 9000 + "Иван Петров\\n".encode("cp1251"))
open("whole.txt", "w").write("я" * 40_000)` });
		const read = async (file: string, more: Json = {}): Promise<string> => text(await s().raw('sandbox_read_file', { session_id: 'foreign', path: file, ...more }));
		assert.match(await read('r.csv'), /^\/mnt\/data\/r\.csv: lines 1-2 of 2, 22 bytes\nThe file is not UTF-8\. It was decoded as cp1251 \(9\d % sure\): open\(path, encoding="cp1251"\) reads it\.\nИмя;Город\nИван;Москва\n$/);
		assert.match(await read('r.csv', { start_line: 2 }), /lines 2-2 of 2[^]*\nИван;Москва\n$/);
		assert.match(await read('u.txt'), /lines 1-2 of 2[^]*decoded as utf-16 [^]*\nИмя;Город\nИван;Москва\n$/);
		assert.match(await read('long.csv', { start_line: 380_001, end_line: 380_002 }), /lines 380001-380002 of 381301 \(counted in the first 4 MiB\), 4400000 bytes\n[^]*\nИмя;Город\nИван;Москва\n$/);
		assert.match(await read('late.txt', { start_line: 9001 }), /decoded as cp1251[^]*\nИван Петров\n$/);
		assert.match(await read('x.bin'), /The file is not UTF-8/);
		assert.match(await read('whole.txt'), /^[^\n]*\nяяя/); // the look at its first bytes ends inside a letter
	});
	it('an SVG is a picture where the image can draw it, and its text on demand', async () => {
		await s().call('sandbox_write_file', { session_id: 'svg', path: 'x.svg', content: '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="5" height="5"/></svg>' });
		const { stdout } = await s().call('sandbox_run_shell', { session_id: 'svg', command: 'command -v rsvg-convert' });
		const r = await s().raw('sandbox_read_file', { session_id: 'svg', path: 'x.svg' });
		assert.deepEqual(r.content.map((c) => c.type), stdout ? ['text', 'image'] : ['text']);
		assert.match(text(await s().raw('sandbox_read_file', { session_id: 'svg', path: 'x.svg', start_line: 1 })), /<rect/);
	});
	it('of this machine come in only where the operator permits it', async () => {
		failure(await s().raw('sandbox_add_file', { local_path: '/etc/passwd', session_id: 'in' }), 'forbidden');
	});
	it('no address is fetched without a network', async () => {
		assert.match(failure(await s().raw('sandbox_add_file', { url: 'http://127.0.0.1:1/x', session_id: 'in' }), 'network_not_permitted').hint, /upload link/);
		failure(await s().raw('sandbox_add_file', { url: 'file:///etc/passwd', session_id: 'in' }), 'invalid_argument');
		failure(await s().raw('sandbox_add_file', { url: 'http://a', local_path: 'b', session_id: 'in' }), 'invalid_argument');
	});
	it('a refusal leaves no empty session', async () => {
		const all = async (): Promise<Json[]> => (await s().call('sandbox_list', {})).sandboxes;
		const before = (await all()).length;
		failure(await s().raw('sandbox_add_file', { local_path: '/etc/passwd', session_id: 'refused-1' }), 'forbidden');
		failure(await s().raw('sandbox_add_file', { url: 'http://127.0.0.1:1/x', session_id: 'refused-2' }), 'network_not_permitted');
		assert.deepEqual([(await all()).length, (await all()).filter((b) => /^refused/.test(b.session_id))], [before, []]);
	});
});

describe('an address', () => {
	it('is fetched within the network of the sandbox, whole or not at all', async () => {
		const server = http.createServer((q, a) => {
			if (q.url === '/simple/my_file.whl') a.end('hello');
			else if (q.url === '/simple/large.whl') a.end('x'.repeat(3000));
			else a.writeHead(404).end();
		});
		await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
		const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/simple`;
		try {
			await using('stdio', { profile: 'full', env: { SANDBOX_PIP_INDEX_URL: base, SANDBOX_NETWORK: 'packages', SANDBOX_MAX_UPLOAD_BYTES: '2000' } }, async (s) => {
				const add = (url: string, more: Json = {}): Promise<ToolResult> => s.raw('sandbox_add_file', { session_id: 'web', url, ...more });
				assert.deepEqual([facts(await add(`${base}/my_file.whl`)).path, facts(await add(`${base}/my_file.whl`, { path: 'in/x' })).size_bytes], ['/mnt/data/my_file.whl', 5]);
				failure(await add(`${base}/my_file.whl`, { overwrite: false }), 'file_exists');
				assert.match(failure(await add(`${base}/large.whl`), 'fetch_failed').message, /more than 2000 bytes/);
				assert.match(failure(await add(`${base}/none.whl`), 'fetch_failed').message, /404/);
				assert.match(failure(await add('https://example.org/x'), 'fetch_failed').message, /host_not_allowed/);
				assert.match(failure(await add('http://127.0.0.1:1/x'), 'fetch_failed').message, /403|not_allowed/);
				assert.deepEqual((await s.call('sandbox_list_files', { session_id: 'web' })).files.map((f: Json) => f.path), ['/mnt/data/my_file.whl', '/mnt/data/in/x']);
			});
		} finally {
			server.close();
		}
	});
});
