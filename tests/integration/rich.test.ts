// SPDX-License-Identifier: Apache-2.0
// What runs show besides text: bundles over REST, in the history and in exports, in the order in which they were shown; and that models and
// the exact profiles read what they read before.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import { type Program } from '../lib/process.ts';
import { facts, serve, using, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

interface Result { kind: string; offset: number; end: number; data: Record<string, string>; left_out: { type: string; bytes: number }[]; file?: string }

const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const light = 'from IPython.display import HTML, Image, Markdown, JSON, SVG, clear_output\n';
const mixed = `${light}import base64
print("before")
display(HTML("<b>bold</b>"))
print("between", end="")
display(Image(base64.b64decode("${png}")), JSON({"a": [1, None]}))
print("after")
Markdown("*end*")`;

describe('rich values', () => {
	let base: string, server: Program;
	const ask = async (method: string, path: string, json?: Json): Promise<{ status: number; text: string; body: Json }> => {
		const r = await fetch(`${base}/api/v1${path}`, { method, ...(json ? { body: JSON.stringify(json), headers: { 'content-type': 'application/json' } } : {}) });
		const text = await r.text();
		return { status: r.status, text, body: /^[[{]/.test(text) ? JSON.parse(text) : {} };
	};
	const make = async (more: Json = {}): Promise<string> => (await ask('POST', '/sandboxes', more)).body.id;
	const run = async (id: string, code: string, more: Json = {}): Promise<Json & { results: Result[] }> => {
		const r = await ask('POST', `/sandboxes/${id}/runs`, { code, wait: true, ...more });
		assert.equal(r.status, 201, r.text);
		return r.body as Json & { results: Result[] };
	};
	/** The run as the history has it, and its results. */
	const kept = async (id: string, runId: string): Promise<{ cell: Json; results: Result[] }> => {
		const cell = await until('the history', async () => {
			const r = await ask('GET', `/notebooks/${id}/runs/${runId}`);
			return r.status === 200 && r.body.seq ? r.body : null;
		});
		const results = await ask('GET', `/notebooks/${id}/runs/${runId}/results`);
		return { cell: cell as Json, results: results.status === 200 ? (results.body as unknown as Result[]) : [] };
	};

	before(async () => {
		const started = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir() } });
		base = started.base;
		server = started.program;
	});
	after(() => server.end());

	for (const stateful of [false, true])
		it(`(slow) bundles, in order, ${stateful ? 'in a session' : 'in a run'}`, async () => {
			const id = await make();
			const r = await run(id, mixed, { stateful });
			const text = (o: { offset: number; end: number }): string => r.stdout.slice(o.offset, o.end);
			assert.deepEqual([r.exit_code, r.stderr, r.value], [0, '', '<IPython.core.display.Markdown object>']);
			assert.equal(r.stdout, 'before\n<IPython.core.display.HTML object>\nbetween<IPython.core.display.JSON object>\nafter\n');
			assert.deepEqual(r.results.map((o) => [o.kind, Object.keys(o.data).filter((t) => t !== 'text/plain').join(), text(o)]), [
				['display', 'text/html', '<IPython.core.display.HTML object>\n'], ['display', 'image/png', ''],
				['display', 'application/json', '<IPython.core.display.JSON object>\n'], ['result', 'text/markdown', '']]);
			assert.equal(r.results[1]!.data['image/png'], png);
			assert.deepEqual(JSON.parse(r.results[2]!.data['application/json']!), { a: [1, null] });
			const h = await kept(id, r.id);
			const own = (o: Json): Json => o.file ? { ...o, data: {} } : o; // what is a file is not kept twice
			assert.deepEqual(h.results, r.results.map(own));
			assert.deepEqual(h.cell.results.map((o: Json) => [o.kind, o.offset, o.end]), r.results.map((o) => [o.kind, o.offset, o.end]));
			const book = (await ask('GET', `/notebooks/${id}/export?format=ipynb`)).body;
			assert.deepEqual(book.cells[0].outputs.map((o: Json) => o.output_type === 'stream' ? o.text : [o.output_type, Object.keys(o.data).join()]), [
				'before\n', ['display_data', 'text/plain,text/html'], 'between', ['display_data', 'image/png,text/plain'],
				['display_data', 'text/plain,application/json'], 'after\n', ['execute_result', 'text/plain,text/markdown']]);
			assert.deepEqual(book.cells[0].outputs[4].data['application/json'], { a: [1, null] }, 'JSON is a value there');
		});

	it('tables: of display and of a last expression', async () => {
		const id = await make();
		const r = await run(id, 'import pandas as pd\ndf = pd.DataFrame({"a": [2, None], "b": ["<x>", "y"]}, index=pd.Index([7, 8], name="k"))\ndisplay(df)\ndf["b"]');
		assert.deepEqual(r.results.map((o) => o.kind), ['display', 'result'], JSON.stringify(r));
		const [shown, value] = r.results.map((o) => JSON.parse(o.data['application/vnd.caisson.table+json']!));
		assert.deepEqual(shown, { kind: 'table', columns: [{ name: 'k', type: 'index' }, { name: 'a', type: 'float64' }, { name: 'b', type: 'object' }], total: 2, width: 2, offset: 0, rows: [[7, 2, '<x>'], [8, null, 'y']] });
		assert.deepEqual(value.rows, [[7, '<x>'], [8, 'y']]);
		assert.match(r.results[0]!.data['text/html']!, /<table border="1" class="dataframe">/);
		await kept(id, r.id);
		const book = (await ask('GET', `/notebooks/${id}/export?format=ipynb`)).body;
		assert.deepEqual(book.cells[0].outputs.map((o: Json) => [o.output_type, Object.keys(o.data).join()]), [['display_data', 'text/plain,text/html'], ['execute_result', 'text/plain']]);
		const page = (await ask('GET', `/notebooks/${id}/export?format=html`)).text;
		assert.equal(page.match(/<table>/g)?.length, 2);
		assert.match(page, /<td>&lt;x&gt;<\/td>/);
		assert.ok(!page.includes('<x>'));
	});

	it('a large table is bounded in rows, columns and bytes', async () => {
		const id = await make();
		const r = await run(id, 'import pandas as pd, numpy as np\ndisplay(pd.DataFrame(np.zeros((100000, 3))), pd.DataFrame(np.zeros((5, 3000))), pd.DataFrame({"t": ["x" * 100000] * 900}))');
		const tables = r.results.map((o) => JSON.parse(o.data['application/vnd.caisson.table+json']!));
		assert.deepEqual(tables.map((t) => [t.rows.length, t.columns.length, t.total, t.width]), [[1000, 4, 100000, 3], [5, 101, 5, 3000], [tables[2].rows.length, 2, 900, 1]]);
		assert.ok(r.results[2]!.data['application/vnd.caisson.table+json']!.length <= 256 << 10);
		assert.equal(tables[2].rows[0][1].length, 500);
	});

	it('100 MB are cut, with a note', async () => {
		const id = await make();
		const r = await run(id, `${light}display(HTML("x" * 100_000_000))\nfor i in range(9): display(HTML(str(i) * 400_000))\nprint("end")`);
		assert.deepEqual(r.results[0]!.left_out, [{ type: 'text/html', bytes: 100_000_000 }]);
		assert.equal(r.results.length, 10);
		assert.ok(JSON.stringify(r.results).length < 2.2e6, 'the answer has what fits');
		assert.deepEqual(r.results.map((o) => o.left_out.length), [1, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
		assert.ok(r.stdout.endsWith('end\n'));
		const h = await kept(id, r.id);
		assert.ok(JSON.stringify(h.results).length < 1.1e6);
		assert.deepEqual(h.results.map((o) => o.left_out.length), Array(10).fill(1), 'none is within 256 KiB');
	});

	it('the history of a sandbox with secrets keeps half a mebibyte, masked', async () => {
		const { body } = await ask('POST', '/sandboxes', { env: { TOKEN: 'a-secret-value' } });
		const r = await run(body.id, `${light}for i in range(4): display(HTML("a-secret-value " + str(i) * 200_000))`);
		assert.deepEqual(r.results.map((o) => [o.left_out.length, o.data['text/html']!.slice(0, 15)]), Array(4).fill([0, 'a-secret-value ']), 'the answer has all, as it is');
		const h = await kept(body.id, r.id);
		assert.deepEqual(h.results.map((o) => [o.left_out.map((l) => l.type).join(), o.data['text/html']?.slice(0, 8)]), [['', '•••••• 0'], ['', '•••••• 1'], ['text/html', undefined], ['text/html', undefined]]);
	});

	it('pictures of plots stand where they were shown, once', async () => {
		const id = await make();
		const r = await run(id, 'import matplotlib.pyplot as plt\nprint(1)\nplt.plot([1, 2])\nplt.show()\nprint(2)\nplt.plot([2, 1])\n5');
		assert.deepEqual([r.stdout, r.value], ['1\n2\n', r.value]);
		assert.deepEqual(r.results.map((o) => [o.kind, o.file, o.offset, Object.keys(o.data).join()]).slice(0, 1), [['display', 'figure-1.png', 2, 'image/png']]);
		assert.deepEqual(r.artifacts.map((a: Json) => a.name), r.results.map((o) => o.file));
		await kept(id, r.id);
		const book = (await ask('GET', `/notebooks/${id}/export?format=ipynb`)).body;
		assert.deepEqual(book.cells[0].outputs.map((o: Json) => o.text ?? o.data['text/plain']).slice(0, 3), ['1\n', 'figure-1.png', '2\n']);
		assert.equal(JSON.stringify(book).match(/"image\/png"/g)?.length, r.results.length);
	});

	it('clear_output and updates', async () => {
		const id = await make();
		const r = await run(id, `${light}h = display("first", display_id=True)\nh.update("second")\nprint("gone")\nfor i in range(300):\n    clear_output(wait=True)\n    display(i)\nclear_output(wait=True)`);
		assert.deepEqual(r.results.map((o) => [o.kind, o.data['text/plain']]), [['clear', undefined], ['display', '299']]);
		await kept(id, r.id);
		const book = (await ask('GET', `/notebooks/${id}/export?format=ipynb`)).body;
		assert.deepEqual(book.cells[0].outputs.map((o: Json) => o.data?.['text/plain'] ?? o.text), ['299']);
		const u = await run(id, `h = display("first", display_id=True)\nh.update("second")`);
		assert.deepEqual(u.results.map((o) => o.data['text/plain']), ["'second'"]);
	});

	it('places are right in masked, long and broken output; secrets are masked in what is shown', async () => {
		const id = await make({ env: { TOKEN: 'hunter2-hunter2' } });
		const r = await run(id, `${light}import os, sys\nt = os.environ["TOKEN"]\nprint(t, t)\ndisplay(HTML("<p>" + t))\nsys.stdout.buffer.write(b"\\xff\\xfe\\n")\ndisplay("middle")\nprint("x" * 200_000)\ndisplay("last")\nprint("end")`);
		assert.equal(r.results.length, 3);
		const { cell, results } = await kept(id, r.id);
		assert.ok(!JSON.stringify([cell, results]).includes('hunter2'));
		assert.match(results[0]!.data['text/html']!, /^<p>•+$/);
		const bytes = Buffer.from(cell.stdout.text);
		assert.deepEqual(results.map((o) => bytes.subarray(o.offset, o.end).toString()), ['<IPython.core.display.HTML object>\n', "'middle'\n", "'last'\n"]);
		assert.ok(cell.stdout.text.endsWith("'last'\nend\n"));
	});

	it('what a sandbox forges harms nobody', async () => {
		const id = await make();
		const forged = `import os, struct
fd = next(f for f in range(3, 300) if os.path.islink(f"/proc/self/fd/{f}") and "memfd:result" in os.readlink(f"/proc/self/fd/{f}"))
def part(name, data, size=None): return struct.pack("=HHQ", len(name), 0, len(data) if size is None else size) + name + data
def put(at, kind, body, n=None): os.pwrite(fd, struct.pack("=4sII", b"CRR1", kind, len(body) if n is None else n) + body, (32 << 20) + at)
`;
		for (const body of [
			'put(0, 1, part(b"text/html", b"\\xff\\xfe") + part(b"text/plain", b"a\\0b") + part(b"x", b"y") + part(b\'a"/b\', b"z"))',
			'put(0, 1, part(b"text/html", b"short", 1 << 60))', 'put(0, 99, b"")', 'put(0, 1, b"x" * 100, 0xffffffff)', 'put(0, 1, part(b"application/vnd.caisson.table+json", b\'{"rows":[[\'))',
			'put(0, 2, part(b"application/json", b"[" * 500000))', 'os.ftruncate(fd, 1 << 40)', 'print("\\x1b_caisson:B\\x1b\\\\" * 5000 + "\\x1b_caisson:E\\x1b\\\\" * 5000)'
		]) {
			const r = await run(id, forged + body);
			assert.equal(r.exit_code, 0, r.stderr);
			assert.ok(r.results.length <= 1 && !JSON.stringify(r.results).includes('short'), body);
		}
		assert.equal((await run(id, 'print("well")')).stdout, 'well\n');
		const book = await ask('GET', `/notebooks/${id}/export?format=ipynb`);
		assert.equal(book.body.nbformat, 4);
		assert.equal((await ask('GET', `/notebooks/${id}/export?format=html`)).status, 200);
	});

	it('a model reads the text alone', () => using('stdio', { profile: 'full' }, async (s) => {
		const r = await s.raw('sandbox_run_python', { code: `${light}print("a")\ndisplay(HTML("<b>x</b>"))\nprint("b")`, session_id: 'rich' });
		assert.equal(facts(r).stdout, 'a\n<IPython.core.display.HTML object>\nb\n');
		assert.ok(!JSON.stringify(r).includes('_caisson') && !JSON.stringify(r).includes('<b>x'));
	}));

	it('the exact profiles have none of it', () => using('stdio', { profile: 'code' }, async (s) => {
		const r = await s.raw('sandbox_run_python', { session_id: 'rich', code: 'try: display(1)\nexcept NameError as e: print(e)\ntry: import IPython\nexcept ImportError as e: print(e)\nprint("\\x1b_caisson:B\\x1b\\\\")' });
		assert.match(JSON.stringify(r), /name 'display' is not defined[^]*No module named 'IPython'[^]*_caisson:B/);
	}));
});
