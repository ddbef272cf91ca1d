// SPDX-License-Identifier: Apache-2.0
// What the page looks up inside a sandbox: parts of tables, names of the live session, figures. The session does not change, and
// no run shows in its history.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

describe('looking into a sandbox', () => {
	let program: Program;
	let api = '';
	let id = '';

	const ask = async (method: string, path: string, json?: unknown): Promise<{ status: number; body: Json }> => {
		const r = await fetch(api + path, { method, headers: json === undefined ? {} : { 'content-type': 'application/json' }, body: json === undefined ? undefined : JSON.stringify(json) });
		const text = await r.text();
		return { status: r.status, body: text ? JSON.parse(text) : {} };
	};
	const run = async (code: string): Promise<Json> => {
		const r = await ask('POST', `/sandboxes/${id}/runs`, { code, stateful: true, wait: true });
		assert.equal(r.body.exit_code, 0, JSON.stringify(r.body));
		return r.body;
	};
	const preview = (query: string): Promise<{ status: number; body: Json }> => ask('GET', `/sandboxes/${id}/preview?${query}`);
	const names = async (code: string): Promise<string[]> => {
		const r = await ask('POST', `/sandboxes/${id}/complete`, { code, cursor: [...code].length });
		assert.equal(r.status, 200, JSON.stringify(r.body));
		return r.body.items.map((i: Json) => i.label);
	};

	before(async () => {
		let base = '';
		({ program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir() } }));
		api = `${base}/api/v1`;
		id = (await ask('POST', '/sandboxes', { env: { TOKEN: 'a secret value' } })).body.id;
	});
	after(async () => {
		await program.end();
	});

	it('decodes texts that are not UTF-8, and says so', async () => {
		await run(`r = "Имя;Город\\nИван;Москва\\n"
open("r.csv", "wb").write(r.encode("cp1251")); open("r.txt", "wb").write(r.encode("koi8-r")); open("u.csv", "w").write(r)
open("r.jsonl", "wb").write('{"имя": "Иван Петров"}'.encode("cp1251"))`);
		const table = (await preview('path=r.csv')).body;
		assert.deepEqual([table.columns.map((c: Json) => c.name), table.rows, table.encoding], [['Имя', 'Город'], [['Иван', 'Москва']], 'cp1251']);
		assert.ok(table.sure > 80 && table.sure <= 100);
		assert.deepEqual((await preview('path=r.jsonl')).body.rows, [['Иван Петров']]);
		const plain = (await preview('path=r.txt&encoding=true')).body;
		assert.deepEqual([plain.encoding, plain.rows], ['koi8-r', []]);
		for (const query of ['path=u.csv', 'path=u.csv&encoding=true'])
			assert.equal('encoding' in (await preview(query)).body, false, query);
		assert.equal((await preview('path=nothing.txt&encoding=true')).status, 400);
	});

	it('shows the paragraphs of documents and the names in archives', async () => {
		await run(`import tarfile, zipfile
w = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
p = lambda text, style="": '<w:p>%s<w:r><w:t>%s</w:t></w:r></w:p>' % (style and '<w:pPr><w:pStyle w:val="%s"/></w:pPr>' % style, text)
cell = lambda text: '<w:tc>%s</w:tc>' % p(text)
body = p("Report", "Heading1") + p("Caf&#233; &lt;b&gt;") + '<w:tbl><w:tr>%s%s</w:tr></w:tbl>' % (cell("a"), cell("b"))
with zipfile.ZipFile("d.docx", "w") as z:
    z.writestr("word/document.xml", '<w:document %s><w:body>%s</w:body></w:document>' % (w, body))
with zipfile.ZipFile("bomb.docx", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("word/document.xml", " " * (40 << 20))
with zipfile.ZipFile("e.docx", "w") as z:
    z.writestr("word/document.xml", '<!DOCTYPE d [<!ENTITY a "aaaa">]><w:document %s><w:body>%s</w:body></w:document>' % (w, p("&a;")))
f = "http://schemas.openxmlformats.org/"
def deck(name, slides, bomb=""):
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("ppt/presentation.xml", '<p:presentation xmlns:p="%spresentationml/2006/main" xmlns:r="%sofficeDocument/2006/relationships"><p:sldIdLst>%s</p:sldIdLst></p:presentation>' % (f, f, "".join('<p:sldId id="%d" r:id="r%d"/>' % (i, i) for i in range(len(slides)))))
        z.writestr("ppt/_rels/presentation.xml.rels", '<Relationships xmlns="%spackage/2006/relationships">%s</Relationships>' % (f, "".join('<Relationship Id="r%d" Target="slides/s%d.xml"/>' % (i, len(slides) - i) for i in range(len(slides)))))
        for i, s in enumerate(slides):
            z.writestr("ppt/slides/s%d.xml" % (len(slides) - i), '%s<p:sld xmlns:p="%spresentationml/2006/main" xmlns:a="%sdrawingml/2006/main">%s</p:sld>' % (bomb, f, f, s))
ap = lambda text: '<a:p><a:r><a:t>%s</a:t></a:r></a:p>' % text
shape = lambda text, kind="": '<p:sp><p:nvSpPr><p:nvPr>%s</p:nvPr></p:nvSpPr><p:txBody>%s</p:txBody></p:sp>' % (kind and '<p:ph type="%s"/>' % kind, ap(text))
deck("s.pptx", [shape("First &lt;b&gt;", "ctrTitle") + shape("Caf&#233;"), shape("Second", "title") + '<p:graphicFrame><a:tbl><a:tr><a:tc>%s</a:tc><a:tc>%s</a:tc></a:tr></a:tbl></p:graphicFrame>' % (ap("a"), ap("b")) + shape(" ")])
deck("bomb.pptx", [" " * (12 << 20)] * 3)
deck("e.pptx", [shape("&a;")], '<!DOCTYPE d [<!ENTITY a "aaaa">]>')
with zipfile.ZipFile("z.zip", "w") as z:
    z.writestr("a/b.txt", "four"); z.writestr("c.txt", "")
with tarfile.open("t.tar.gz", "w:gz") as t:
    t.add("z.zip")
open("no.zip", "w").write("no")`);
		const document = (await preview('path=d.docx')).body;
		assert.deepEqual([document.rows, document.total], [[['Heading1', 'Report'], ['', 'Café <b>'], ['row', 'a\tb']], 3]);
		assert.deepEqual((await preview('path=d.docx&offset=1&limit=1')).body.rows, [['', 'Café <b>']]);
		const slides = (await preview('path=s.pptx')).body;
		assert.deepEqual(slides.rows, [['slide', '1'], ['title', 'First <b>'], ['', 'Café'], ['slide', '2'], ['title', 'Second'], ['row', 'a\tb']]);
		const archive = (await preview('path=z.zip')).body;
		assert.deepEqual([archive.columns.map((c: Json) => c.name), archive.rows.map((r: Json[]) => r.slice(0, 2)), archive.total], [['name', 'bytes', 'modified'], [['a/b.txt', 4], ['c.txt', 0]], 2]);
		assert.equal((await preview('path=t.tar.gz')).body.rows[0][0], 'z.zip');
		for (const path of ['no.zip', 'bomb.docx', 'e.docx', 'bomb.pptx', 'e.pptx'])
			assert.equal((await preview(`path=${path}`)).status, 400, path);
	});

	it('renames files and makes folders, and nothing is overwritten', async () => {
		await run('open("one.txt", "w").write("1"); open("two.txt", "w").write("2")');
		const move = (path: string, to: string): Promise<{ status: number; body: Json }> => ask('PATCH', `/sandboxes/${id}/files/${path}`, { to });
		assert.deepEqual(await move('one.txt', "deep/er/o'n\\e.txt"), { status: 200, body: { path: "deep/er/o'n\\e.txt" } });
		assert.equal((await run('import os\nprint(os.path.exists("one.txt"), open("deep/er/o\'n\\\\e.txt").read())')).stdout, 'False 1\n');
		assert.deepEqual(await move('two.txt', 'deep').then((r) => [r.status, r.body.code]), [409, 'file_exists']);
		assert.deepEqual(await move('none.txt', 'x').then((r) => [r.status, r.body.code]), [404, 'not_found']);
		assert.equal((await move('deep', 'deep/below')).status, 400, 'into itself');
		for (const to of ['../out', '/etc/x', '', 'a\0b', 'x'.repeat(5000)])
			assert.equal((await move('two.txt', to)).status, 400, to.slice(0, 20));
		assert.deepEqual(await ask('POST', `/sandboxes/${id}/folders`, { path: 'a/b/c' }), { status: 201, body: { path: 'a/b/c' } });
		assert.deepEqual(await ask('POST', `/sandboxes/${id}/folders`, { path: 'a/b' }).then((r) => [r.status, r.body.code]), [409, 'file_exists']);
		assert.equal((await move('deep', 'moved')).status, 200);
		const files = async (path: string): Promise<string[]> => (await ask('GET', `/sandboxes/${id}/files?path=${path}`)).body.files.map((f: Json) => f.name);
		assert.deepEqual([await files('moved/er'), await files('a/b')], [["o'n\\e.txt"], ['c']]);
		// The next run is not said to have made what was renamed.
		assert.deepEqual((await run('1')).files ?? [], []);
		assert.equal((await ask('PATCH', '/sandboxes/nobody/files/x', { to: 'y' })).status, 404);
	});

	it('renames files and makes folders while code runs', async () => {
		const files = async (path: string): Promise<string[]> => ((await ask('GET', `/sandboxes/${id}/files?path=${path}`)).body.files ?? []).map((f: Json) => f.name);
		const running = run('import os\nopen("begun", "w").close()\nwhile not os.path.exists("while/on"): pass\nos.remove("while/on"); os.rmdir("while")');
		await until('the run', async () => (await files('')).includes('begun'));
		assert.equal((await ask('POST', `/sandboxes/${id}/folders`, { path: 'while' })).status, 201);
		assert.equal((await ask('PATCH', `/sandboxes/${id}/files/begun`, { to: 'while/on' })).status, 200);
		await running;
		assert.deepEqual((await files('')).filter((f) => f === 'begun' || f === 'while'), []);
	});

	it('shows pages of tables', async () => {
		await run(`import pandas as pd, json
df = pd.DataFrame({"n": range(2500), "text": ["<b>%d</b>" % i for i in range(2500)], "x": [i / 4 for i in range(2500)]})
df.to_csv("t.csv", index=False); df.to_csv("t.tsv", index=False, sep="\\t"); df.to_csv("semi.csv", index=False, sep=";")
df.to_parquet("t.parquet", row_group_size=700)
with pd.ExcelWriter("t.xlsx") as w:
    df.head(300).to_excel(w, sheet_name="first", index=False); df.head(3).to_excel(w, sheet_name="second", index=False)
df.head(50).to_json("t.jsonl", orient="records", lines=True)
open("bad.parquet", "w").write("no"); open("empty.csv", "w").close(); open("bytes.csv", "wb").write(b"a,b\\n\\xff\\x00,2\\n")
open("it's \\\\ 'x'.csv", "w").write("a\\n1\\n")`);
		for (const [file, total] of [['t.csv', 2500], ['t.tsv', 2500], ['semi.csv', 2500], ['t.parquet', 2500], ['t.xlsx', 300], ['t.jsonl', null]] as const) {
			const offset = total === 2500 ? 1399 : 20;
			const r = await preview(`path=${file}&offset=${offset}&limit=3`);
			assert.equal(r.status, 200, JSON.stringify(r.body));
			assert.deepEqual(r.body.columns.map((c: Json) => c.name), ['n', 'text', 'x'], file);
			assert.deepEqual(r.body.rows, [0, 1, 2].map((i) => [offset + i, `<b>${offset + i}</b>`, (offset + i) / 4]), file);
			assert.equal(r.body.total, total, file);
			assert.equal(r.body.offset, offset);
		}
		const sheet = await preview('path=t.xlsx&sheet=second');
		assert.deepEqual([sheet.body.sheets, sheet.body.sheet, sheet.body.rows.length], [['first', 'second'], 'second', 3]);
		assert.deepEqual((await preview('path=t.csv&offset=99999')).body.rows, []);
		assert.deepEqual((await preview(`path=${encodeURIComponent("it's \\ 'x'.csv")}`)).body.rows, [[1]]);
		assert.equal((await preview('path=empty.csv')).status, 200);
		assert.equal((await preview('path=bytes.csv')).status, 200);
		for (const path of ['bad.parquet', 'nothing.csv', 't.unknown', '../../etc/passwd', '/etc/passwd'])
			assert.equal((await preview(`path=${path}`)).status, 400, path);
	});

	it('runs no code of the workspace', async () => {
		const made = await ask('POST', '/sandboxes', {});
		const here = `/sandboxes/${made.body.id}`;
		const code = async (text: string): Promise<void> => {
			const r = await ask('POST', `${here}/runs`, { code: text, stateful: true, wait: true });
			assert.equal(r.body.exit_code, 0, JSON.stringify(r.body));
		};
		await code('for name in ["json", "csv", "os", "keyword", "re", "types", "pandas", "pyarrow"]:\n    open(name + ".py", "w").write("open(\'/mnt/data/ran\', \'a\').write(__name__)")\nopen("one.csv", "w").write("a\\n1\\n")');
		assert.deepEqual((await ask('GET', `${here}/preview?path=one.csv`)).body.rows, [[1]]);
		const found = await ask('POST', `${here}/complete`, { code: 'whi', cursor: 3 });
		assert.deepEqual(found.body.items, [{ label: 'while', type: 'keyword' }]);
		const list = async (): Promise<string[]> => (await ask('GET', `${here}/files`)).body.files.map((f: Json) => f.name);
		assert.ok(!(await list()).includes('ran'));
		// Twin: a run of the user finds them first.
		const r = await ask('POST', `${here}/runs`, { code: 'import csv', wait: true });
		assert.equal(r.body.exit_code, 0, JSON.stringify(r.body));
		assert.ok((await list()).includes('ran'));
	});

	it('a session that writes without end is cut off', async () => {
		const made = await ask('POST', '/sandboxes', {});
		for (const fd of [1, 2]) {
			const r = await ask('POST', `/sandboxes/${made.body.id}/runs`, { code: `import json, os\ndef dumps(*a):\n    while True:\n        os.write(${fd}, b"x" * 65536)\njson.dumps = dumps`, stateful: true, wait: true });
			assert.equal(r.body.exit_code, 0, JSON.stringify(r.body));
			const c = await ask('POST', `/sandboxes/${made.body.id}/complete`, { code: 'a', cursor: 1 });
			assert.equal(c.status, 400, JSON.stringify(c.body)); // 504 is the time limit
		}
	});

	it('completes names of the session, without running its code', async () => {
		await run(`import math
touched = []
class Thing:
    attribute = 1
    def method(self): pass
    @property
    def side_effect(self):
        touched.append("property"); return self
    def __getattr__(self, name):
        touched.append("getattr " + name); raise AttributeError(name)
    def __dir__(self):
        touched.append("dir"); return []
thing = Thing(); thing.own = 2
my_variable_1 = 1; my_variable_2 = lambda: 0`);
		assert.deepEqual(await names('x = my_var'), ['my_variable_1', 'my_variable_2']);
		assert.ok((await names('math.sq')).includes('sqrt'));
		assert.deepEqual((await names('thing.')), ['attribute', 'method', 'own', 'side_effect']);
		assert.deepEqual(await names('thing.side_effect.'), []);
		assert.deepEqual(await names('nothing.'), []);
		assert.ok((await names('impo')).includes('import'));
		assert.ok((await names('é = prin')).includes('print'));
		assert.deepEqual(await names(''), []);
		await run('import os, pandas as pd\ndf = pd.DataFrame({"amount": [1], "Amount paid": [2], 3: [4]})\nclass Mine(pd.DataFrame):\n    @property\n    def columns(self): touched.append("columns"); return []\nmine = Mine({"amount": [1]})\nopen("my_module.py", "w").write("raise SystemExit")');
		assert.ok((await names('os.pat')).includes('path'));
		assert.deepEqual(await names('df.amou'), ['amount']);
		assert.deepEqual(await names('df["'), ['amount', 'Amount paid']);
		assert.deepEqual(await names("x = df[['amount', 'Amo"), ['Amount paid']);
		assert.deepEqual(await names('nothing["a'), []);
		assert.deepEqual(await names('mine["'), []);
		// modules, by their files: none is imported
		assert.ok((await names('import nump')).includes('numpy'));
		assert.ok((await names('x = 1\nimport os, colle')).includes('collections'));
		assert.deepEqual(await names('import my_mod'), ['my_module']);
		assert.ok((await names('from matplotlib.pypl')).includes('pyplot'));
		assert.ok((await names('import concurrent.fut')).includes('futures'));
		assert.ok((await names('from os import pat')).includes('path'));
		assert.ok((await names('from collections import (OrderedDict, dequ')).includes('deque'));
		assert.deepEqual(await names('from my_module import x'), []);
		assert.deepEqual(await names('import ..'), []);
		const r = await run('print(touched, "complete" in globals(), "space" in globals(), __import__("os").environ["TOKEN"])');
		assert.equal(r.stdout, '[] False False a secret value\n');
	});

	it('leaves no trace in the history, and does not wait for a long run', async () => {
		const cells = (await ask('GET', `/notebooks/${id}`)).body.cells;
		assert.equal(cells.length, 10, JSON.stringify(cells.map((c: Json) => c.code)));
		const long = (await ask('POST', `/sandboxes/${id}/runs`, { code: 'import time\nwhile True: time.sleep(1)' })).body.id;
		assert.equal((await preview('path=t.csv')).status, 409);
		assert.deepEqual(await names('my_var'), []);
		assert.equal((await ask('DELETE', `/runs/${long}`)).status, 202);
	});

	it('a sandbox without a session has no names, and does not get one', async () => {
		const other = (await ask('POST', '/sandboxes', {})).body.id;
		const r = await ask('POST', `/sandboxes/${other}/complete`, { code: 'pri', cursor: 3 });
		assert.deepEqual(r.body, { start: 3, end: 3, items: [] });
	});

	it('tells what it uses', async () => {
		const r = await ask('GET', `/sandboxes/${id}/usage`);
		assert.equal(r.status, 200);
		for (const key of ['memory_bytes', 'cpu_ms', 'pids', 'disk_bytes'])
			assert.equal(typeof r.body[key], 'number', key);
	});

	it('lists what many use with one request, and each sandbox with its runs and where it came from', async () => {
		const stored = (await ask('POST', '/sandboxes', { kind: 'stored', name: 'Kept one' })).body.id;
		for (const code of ['1', '2'])
			assert.equal((await ask('POST', `/sandboxes/${stored}/runs`, { code, wait: true })).status, 201);
		const copy = (await ask('POST', `/sandboxes/${stored}/forks`, {})).body.id;
		const list = async (query: string): Promise<Map<string, Json>> => new Map((await ask('GET', `/sandboxes${query}`)).body.sandboxes.map((s: Json) => [s.id, s]));
		for (const s of (await list('')).values())
			assert.ok(!('usage' in s), 'nobody asked for figures');
		const all = await list('?usage=true');
		assert.deepEqual([all.get(stored)!.runs, all.get(copy)!.runs, all.get(copy)!.parent, all.get(stored)!.parent], [2, 0, stored, undefined]);
		assert.equal(all.get(id)!.runs, (await ask('GET', `/notebooks/${id}`)).body.cells.length, 'previews and completions are no runs');
		for (const s of all.values())
			for (const key of ['memory_bytes', 'cpu_ms', 'pids', 'disk_bytes'])
				assert.equal(typeof s.usage[key], 'number', `${key} of ${s.id}`);
		// Many who ask at a time share one measurement; what was measured is a series.
		await Promise.all(Array.from({ length: 20 }, () => list('?usage=true')));
		const { body } = await ask('GET', `/sandboxes/${id}/usage?series=true`);
		const n = body.series.at_ms.length;
		assert.ok(n >= 1 && n < 10, `${n} samples`);
		assert.deepEqual([body.series.memory_bytes.length, body.series.cpu_ms.length, body.series.disk_bytes.length], [n, n, n]);
		assert.deepEqual([...body.series.at_ms].sort((a, b) => a - b), body.series.at_ms);
		await ask('DELETE', `/sandboxes/${copy}?force=true`);
		assert.ok(!(await list('?usage=true')).has(copy));
	});

	it('a stored sandbox keeps the number of its runs when the server ends', async () => {
		const state = newStateDir();
		const env = { SANDBOX_STATE_DIR: state };
		const first = await serve({ profile: 'full', env });
		const at = async (base: string, method: string, path: string, json?: unknown): Promise<Json> => (await fetch(`${base}/api/v1${path}`, { method, headers: { 'content-type': 'application/json' }, body: json === undefined ? undefined : JSON.stringify(json) })).json() as Promise<Json>;
		const stored = (await at(first.base, 'POST', '/sandboxes', { kind: 'stored', name: 'Counted' })).id;
		for (let i = 0; i < 3; i++)
			await at(first.base, 'POST', `/sandboxes/${stored}/runs`, { code: 'pass', wait: true });
		first.program.kill('SIGTERM');
		await first.program.exit;
		const second = await serve({ profile: 'full', env });
		try {
			const [row] = (await at(second.base, 'GET', '/sandboxes?usage=true')).sandboxes;
			assert.deepEqual([row.state, row.runs, row.usage], ['stored', 3, undefined]);
			await at(second.base, 'POST', `/sandboxes/${stored}/runs`, { code: 'pass', wait: true });
			assert.equal((await at(second.base, 'GET', `/sandboxes/${stored}`)).runs, 4);
			const titles = async (q: string): Promise<string[]> => (await at(second.base, 'GET', `/notebooks?q=${encodeURIComponent(q)}`)).notebooks.map((n: Json) => n.name);
			assert.deepEqual([await titles('COUNT'), await titles(stored.slice(0, 8)), await titles('no such name')], [['Counted'], ['Counted'], []]);
		} finally {
			await second.program.end();
		}
	});
});
