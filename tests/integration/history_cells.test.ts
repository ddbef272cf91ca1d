// SPDX-License-Identifier: Apache-2.0
// What a person does with the cells of a notebook: the numbers by which tracebacks name them, cells in
// Markdown, exporting some, deleting one.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { ask as request } from '../lib/users.ts';
import { until } from '../lib/wait.ts';

let base: string;
let program: Program;

const ask = (method: string, path: string, json?: unknown) => request(method, `${base}/api/v1${path}`, json === undefined ? {} : { json });
const make = async (): Promise<string> => (await ask('POST', '/sandboxes', {})).body.id as string;
const run = async (id: string, code: string, stateful = true, restart = false): Promise<Json> => (await ask('POST', `/sandboxes/${id}/runs`, { code, stateful, restart, wait: true })).body;
/** The cells of a notebook, when all of them are history. */
const cells = (id: string): Promise<Json[]> => until('all runs in the history', async () => {
	const found: Json[] = (await ask('GET', `/notebooks/${id}`)).body.cells;
	return found.every((c) => c.seq !== null) ? found : undefined;
});

before(async () => {
	({ program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir() } }));
});
after(() => program.end());

describe('numbers of cells', () => {
	it('(slow) a traceback names cells by the numbers that the history has, exports too', async () => {
		const id = await make();
		await run(id, 'def first(x):\n    return 1 / x');
		await run(id, 'print("apart")', false);
		await run(id, 'x = = 1');
		await run(id, '"value"');
		const failed = await run(id, 'first(0)');
		const all = await cells(id);
		assert.deepEqual(all.map((c) => c.number), [1, undefined, 2, 3, 4]);
		assert.match(all[2]!.stderr.text, /File "<cell 2>", line 1/);
		assert.deepEqual([...(failed.stderr as string).matchAll(/<cell (\d)>", line (\d)/g)].map((m) => [m[1], m[2]]), [['4', '1'], ['1', '2']]);
		assert.equal(all.find((c) => c.code.startsWith('def first'))!.number, 1);
		const book = (await ask('GET', `/notebooks/${id}/export`)).body;
		assert.deepEqual(book.cells.map((c: Json) => c.execution_count), [1, null, 2, 3, 4]);
		assert.equal(book.cells[3].outputs[0].execution_count, 3);
		assert.deepEqual([...(await ask('GET', `/notebooks/${id}/export?format=html`)).body.text.matchAll(/<h2>(\[\d\] )?<small>/g)].map((m) => m[1]), ['[1] ', undefined, '[2] ', '[3] ', '[4] ']);
	});

	it('a run that was undone gives its number to the next one; a new Python counts from 1', async () => {
		const id = await make();
		await run(id, 'x = 1');
		await run(id, 'import os; os._exit(3)');
		const failed = await run(id, '1 / 0');
		assert.match(failed.stderr as string, /<cell 2>/);
		assert.deepEqual((await cells(id)).map((c) => c.number), [1, undefined, 2]);
		await run(id, 'import os; os.register_at_fork(before=lambda: os._exit(1))'); // the process with the variables dies, and this run is undone
		await run(id, 'None');
		await run(id, 'import os; os.register_at_fork(before=lambda: os._exit(1))', true, true); // there is no state before it
		await run(id, 'None');
		assert.deepEqual((await cells(id)).slice(3).map((c) => c.number), [3, 3, 1, 1]);
	});
});

it('some cells are exported alone', async () => {
	const id = await make();
	for (let i = 0; i < 5; i++)
		await run(id, `print("word${i}")`);
	const seqs = (await cells(id)).map((c) => c.seq as number);
	const words = async (chosen: string, format = 'ipynb'): Promise<string[]> => [...JSON.stringify((await ask('GET', `/notebooks/${id}/export?format=${format}&cells=${chosen}`)).body).matchAll(/word(\d)\\n/g)].map((m) => m[1]!);
	for (const format of ['ipynb', 'html'])
		assert.deepEqual([await words(`${seqs[0]},${seqs[2]}-${seqs[3]}`, format), await words(`${seqs[4]}`, format), await words(`1-${seqs[1]}`, format), await words(`${seqs[3]}-9000000000`, format)], [['0', '2', '3'], ['4'], ['0', '1'], ['3', '4']], format);
	assert.equal((await ask('GET', `/notebooks/${id}/export?cells=${seqs[4]! + 1}-${seqs[4]! + 9}`)).status, 404);
	for (const wrong of ['0', 'x', '3-', '-3', '5,3', '5-3', '1,1', '1,,2', '1-2-3', '1,', ' 1', '99999999999999999999', Array.from({ length: 201 }, (_, i) => i + 1).join()]) {
		const r = await ask('GET', `/notebooks/${id}/export?cells=${encodeURIComponent(wrong)}`);
		assert.deepEqual([r.status, r.body.code], [400, 'invalid_argument'], wrong);
	}
	assert.equal((await ask('GET', `/notebooks/${id}/export?cells=${seqs[0]},${Array.from({ length: 199 }, (_, i) => seqs[4]! + 2 + i).join()}`)).status, 200, 'as many as may be');
});

describe('cells in Markdown', () => {
	const add = (id: string, text: unknown) => ask('POST', `/notebooks/${id}/markdown`, { text });

	it('stand among the runs, can be changed and deleted, and are in exports as what they are', async () => {
		const id = await make();
		await run(id, '1 + 1');
		const made = await add(id, '# Plan\n\n*first* <b>x</b>');
		assert.equal(made.status, 201, JSON.stringify(made.body));
		assert.deepEqual([made.body.kind, made.body.code, made.body.status, made.body.sandbox], ['markdown', '# Plan\n\n*first* <b>x</b>', 'done', id]);
		await run(id, '2 + 2');
		const all = await cells(id);
		assert.deepEqual(all.map((c) => c.kind), ['stateful', 'markdown', 'stateful']);
		assert.deepEqual({ ...all[1], asked_by: null }, { ...made.body, asked_by: null }, 'the answer is the cell');
		const at = `/notebooks/${id}/runs/${made.body.run}`;
		assert.equal((await ask('PATCH', at, { text: '## Plan B' })).status, 204);
		assert.equal((await ask('GET', at)).body.code, '## Plan B');
		const book = (await ask('GET', `/notebooks/${id}/export`)).body;
		assert.deepEqual(book.cells.map((c: Json) => [c.cell_type, c.source]), [['code', '1 + 1'], ['markdown', '## Plan B'], ['code', '2 + 2']]);
		assert.equal((await ask('PATCH', at, { text: '<script>x</script>' })).status, 204);
		assert.match((await ask('GET', `/notebooks/${id}/export?format=html`)).body.text, /<pre class="note">&lt;script&gt;x/);
		assert.equal((await ask('GET', '/history?q=script')).body.cells.length, 1);
		assert.equal((await ask('DELETE', at)).status, 204);
		assert.equal((await ask('PATCH', at, { text: 'gone' })).status, 404);
		assert.equal((await cells(id)).length, 2);
	});
	it('are put before or behind any other cell, and keep their order everywhere', async () => {
		const id = await make();
		const runs: string[] = [];
		for (let i = 0; i < 3; i++)
			runs.push((await run(id, `${i}`)).id as string);
		const put = async (text: string, beside: Json): Promise<string> => {
			const made = await ask('POST', `/notebooks/${id}/markdown`, { text, ...beside });
			assert.equal(made.status, 201, JSON.stringify(made.body));
			return made.body.run as string;
		};
		await put('title', { before: runs[0] }); // in the moment after a run: its row may be on its way
		const under = await put('under 1', { after: runs[1] });
		await put('over 1', { before: runs[1] });
		await put('under "under 1"', { after: under });
		await put('over "under 1"', { before: under });
		await put('last', { after: runs[2] });
		await put('end', {});
		await run(id, '3');
		const wanted = ['title', '0', 'over 1', '1', 'over "under 1"', 'under 1', 'under "under 1"', '2', 'last', 'end', '3'];
		const all = await cells(id);
		assert.deepEqual(all.map((c) => c.code), wanted);
		const places = all.map((c) => c.place as string);
		assert.deepEqual(places.toSorted((a, b) => a < b ? -1 : 1), places, 'the place tells the order');
		// pages in both directions
		const page = async (query: string): Promise<Json> => (await ask('GET', `/notebooks/${id}?${query}`)).body;
		const up: string[] = [], back: string[] = [];
		let seq = 0, more = true;
		while (more) {
			const p = await page(`after=${seq}&limit=3`);
			up.push(...p.cells.map((c: Json) => c.code));
			({ more } = p);
			seq = p.cells.at(-1).seq;
		}
		assert.deepEqual(up, wanted);
		for (seq = 0, more = true; more;) {
			const p = await page(`before=${seq}&limit=3`);
			back.unshift(...p.cells.map((c: Json) => c.code));
			({ more } = p);
			seq = p.cells[0].seq;
		}
		assert.deepEqual(back, wanted);
		// exports, and parts of them
		const numbers = all.map((c) => c.seq as number);
		const exported = async (chosen = ''): Promise<string[]> => (await ask('GET', `/notebooks/${id}/export?${chosen && `cells=${chosen}`}`)).body.cells.map((c: Json) => c.source);
		assert.deepEqual(await exported(), wanted);
		assert.deepEqual(await exported(`${numbers[0]},${numbers[2]}-${numbers[5]},${numbers[8]}`), ['title', ...wanted.slice(2, 6), 'last']);
		assert.equal((await ask('GET', `/notebooks/${id}/export?cells=${numbers[3]},${numbers[0]}`)).status, 400, 'they are not in the order of the notebook');
		const report = (await ask('GET', `/notebooks/${id}/export?format=html`)).body.text as string;
		assert.deepEqual([...report.matchAll(/<pre class="(?:note|code)">([^<]*)</g)].map((m) => m[1]!.replaceAll('&quot;', '"')), wanted);
		// a cell that goes leaves the others where they are
		assert.equal((await ask('DELETE', `/notebooks/${id}/runs/${runs[1]}`)).status, 204);
		assert.equal((await ask('PATCH', `/notebooks/${id}/runs/${under}`, { text: 'changed' })).status, 204);
		assert.deepEqual((await cells(id)).map((c) => c.code), wanted.filter((c) => c !== '1').map((c) => c === 'under 1' ? 'changed' : c));
		assert.equal((await ask('GET', '/history?q=title')).body.cells[0].code, 'title');
	});
	it('are not put beside what is not there, or has not ended', async () => {
		const id = await make(), other = await make();
		const { id: foreign } = await run(other, '1');
		const { id: own } = await run(id, '1');
		for (const [beside, status] of [[{ before: 'none' }, 404], [{ after: foreign }, 404], [{ before: 'x'.repeat(100) }, 404], [{ before: own, after: own }, 400], [{ before: '' }, 400], [{ before: 1 }, 400], [{ before: ['x'] }, 400]] as const)
			assert.equal((await ask('POST', `/notebooks/${id}/markdown`, { text: 'x', ...beside })).status, status, JSON.stringify(beside));
		const begun = (await ask('POST', `/sandboxes/${id}/runs`, { code: 'import time; time.sleep(600)' })).body.id as string;
		const busy = await ask('POST', `/notebooks/${id}/markdown`, { text: 'x', before: begun });
		assert.deepEqual([busy.status, busy.body.code], [409, 'session_busy']);
		await ask('DELETE', `/runs/${begun}`);
		assert.equal((await cells(id)).filter((c) => c.kind === 'markdown').length, 0);
	});
	it('of what is there alone; a run is not changed; too much is refused', async () => {
		const id = await make();
		const { id: made } = await run(id, '1');
		await cells(id);
		assert.equal((await ask('PATCH', `/notebooks/${id}/runs/${made}`, { text: 'other' })).status, 404);
		assert.equal((await ask('GET', `/notebooks/${id}/runs/${made}`)).body.code, '1');
		for (const text of ['', 'x'.repeat(65537), 5, null])
			assert.equal((await add(id, text)).status, 400, String(text).slice(0, 9));
		assert.equal((await add(id, 'x'.repeat(65536))).status, 201);
		assert.equal((await add('none', 'x')).status, 404);
		await ask('DELETE', `/sandboxes/${id}`);
		assert.equal((await add(id, 'its sandbox has ended')).status, 201);
		const stored = (await ask('POST', '/sandboxes', { kind: 'stored', name: 's' })).body.id as string;
		assert.equal((await add(stored, 'nothing ran yet')).status, 201);
	});
	it('(slow) many at once are written or refused, and hold nothing afterwards', async () => {
		const id = await make();
		const all = await Promise.all(Array.from({ length: 300 }, () => add(id, 'x'.repeat(65536))));
		for (const r of all)
			assert.ok(r.status === 201 || (r.status === 429 && r.body.code === 'budget_exceeded'), JSON.stringify(r.body).slice(0, 200));
		assert.ok(all.some((r) => r.status === 201));
		assert.equal((await ask('GET', '/stats')).body.budgets.upload_memory.used, 0);
		assert.equal((await add(id, 'again')).status, 201);
	});
	it('count for the bounds of the history, by what they have now', async () => {
		const id = await make();
		const used = async (): Promise<number> => (await ask('GET', `/notebooks`)).body.notebooks.find((n: Json) => n.sandbox === id)?.bytes ?? 0;
		const made = (await add(id, 'x'.repeat(1000))).body.run as string;
		const before = await used();
		assert.equal((await ask('PATCH', `/notebooks/${id}/runs/${made}`, { text: 'é'.repeat(1000) })).status, 204);
		assert.equal(await used() - before, 1000);
	});
});

describe('a cell is deleted', () => {
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on' };
	const cli = async (...args: string[]): Promise<string> => {
		const r = await caisson(args, { env });
		assert.equal(r.code, 0, r.stderr.toString());
		return r.stdout.toString().trim();
	};
	const keys: Record<string, string> = {};
	let open: { program: Program; base: string };
	let adaId: string;
	const as = (who: string, method: string, path: string, json?: unknown) => request(method, `${open.base}/api/v1${path}`, { key: keys[who], json });

	before(async () => {
		for (const name of ['ada', 'bob', 'root']) {
			const said = await cli('user', 'add', name, '--password', 'none', ...(name === 'root' ? ['--role', 'admin'] : []));
			if (name === 'ada')
				adaId = /^id\s+(\S+)$/m.exec(said)![1]!;
			keys[name] = await cli('key', 'new', name, ...(name === 'root' ? ['--scope', 'admin'] : []));
		}
		keys.reader = await cli('key', 'new', 'ada', '--scope', 'read');
		open = await serve({ profile: 'full', env });
	});
	after(() => open.program.end());

	it('(slow) by its owner or an administrator, when it has ended; the rest stays, and the audit log says so', async () => {
		const id = (await as('ada', 'POST', '/sandboxes', {})).body.id as string;
		const runOf = async (code: string): Promise<string> => (await as('ada', 'POST', `/sandboxes/${id}/runs`, { code, stateful: true, wait: true })).body.id as string;
		const runs = [await runOf('x = "kept variable"'), await runOf('print("secret to forget"); open("note.svg", "w").write("<svg xmlns=\'http://www.w3.org/2000/svg\'/>")'), await runOf('x')];
		const gone = runs[1]!;
		for (const [who, status] of [['bob', 404], ['reader', 403]] as const)
			assert.equal((await as(who, 'DELETE', `/notebooks/${id}/runs/${gone}`)).status, status, who);
		assert.equal((await as('bob', 'DELETE', `/notebooks/${id}/runs/${gone}?owner=${adaId}`)).status, 404);
		const exported = async (): Promise<string> => JSON.stringify((await as('ada', 'GET', `/notebooks/${id}/export`)).body) + JSON.stringify((await as('ada', 'GET', `/notebooks/${id}/export?format=html`)).body);
		assert.match(await exported(), /secret to forget/);
		assert.equal((await as('ada', 'DELETE', `/notebooks/${id}/runs/${gone}`)).status, 204);
		assert.doesNotMatch(await exported(), /secret to forget/);
		for (const path of ['', '/files/note.svg', '/results'])
			assert.equal((await as('ada', 'GET', `/notebooks/${id}/runs/${gone}${path}`)).status, 404, path);
		assert.equal((await as('ada', 'GET', '/history?q=forget')).body.cells.length, 0);
		const again = await as('ada', 'DELETE', `/notebooks/${id}/runs/${gone}`);
		assert.deepEqual([again.status, again.body.code], [404, 'not_found']);
		// an administrator for her; the others and the variables are still there
		assert.equal((await as('root', 'DELETE', `/notebooks/${id}/runs/${runs[0]}?owner=${adaId}`)).status, 204);
		assert.deepEqual((await as('ada', 'GET', `/notebooks/${id}`)).body.cells.map((c: Json) => c.run), [runs[2]]);
		assert.equal((await as('ada', 'POST', `/sandboxes/${id}/runs`, { code: 'x', stateful: true, wait: true })).body.value.trim(), "'kept variable'");
		// one that goes on is refused, and says what to do
		const begun = (await as('ada', 'POST', `/sandboxes/${id}/runs`, { code: 'print("on", flush=True)\nimport time; time.sleep(600)' })).body.id as string;
		const busy = await as('ada', 'DELETE', `/notebooks/${id}/runs/${begun}`);
		assert.deepEqual([busy.status, busy.body.code], [409, 'session_busy']);
		assert.match(busy.body.detail as string, /Stop it first/);
		await as('ada', 'DELETE', `/runs/${begun}`);
		await until('it can be deleted', async () => (await as('ada', 'DELETE', `/notebooks/${id}/runs/${begun}`)).status === 204);
		const rows = (await as('root', 'GET', '/audit?limit=200')).body.rows.filter((r: Json) => r.action === 'history.remove');
		assert.deepEqual(rows.map((r: Json) => [r.object, r.result]).slice(0, 2), [[`${id} ${begun}`, 'ok'], [`${id} ${runs[0]}`, 'ok']]);
	});
});
