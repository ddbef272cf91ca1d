// SPDX-License-Identifier: Apache-2.0
// What a person sees who watches: events of runs of any client, streams that go on where they broke off, history with code and
// output, masked secrets, and that nobody sees what is another's.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import { after, before, describe, it } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { newStateDir } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';
import { Index, wheel, wheelName } from '../lib/wheel.ts';

interface Event { id: string; name: string; data: Json }

/** A stream of events as a tab of a browser has it. */
class Tab {
	readonly events: Event[] = [];
	status = 0;
	closed = false;
	private request?: http.ClientRequest;

	static async open(url: string, headers: Record<string, string> = {}): Promise<Tab> {
		const tab = new Tab();
		await new Promise<void>((resolve, reject) => {
			tab.request = http.get(url, { headers, agent: false }, (r) => {
				let text = '';
				tab.status = r.statusCode!;
				r.setEncoding('utf8').on('data', (piece: string) => {
					text += piece;
					for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
						tab.take(text.slice(0, end));
						text = text.slice(end + 2);
					}
				}).on('close', () => (tab.closed = true)).on('error', () => undefined);
				resolve();
			}).on('error', reject);
		});
		return tab;
	}

	private take(block: string): void {
		const fields = new Map(block.split('\n').filter((l) => !l.startsWith(':')).map((l) => [l.slice(0, l.indexOf(':')), l.slice(l.indexOf(':') + 2)]));
		if (fields.has('event'))
			this.events.push({ id: fields.get('id')!, name: fields.get('event')!, data: JSON.parse(fields.get('data')!) });
	}

	async wait(what: string, is: (e: Event) => boolean): Promise<Event> {
		await until(what, () => this.events.some(is), 20_000);
		return this.events.find(is)!;
	}

	of(name: string): Event[] {
		return this.events.filter((e) => e.name === name);
	}

	close(): void {
		this.request?.destroy();
	}
}

async function ask(method: string, url: string, o: { key?: string; json?: unknown; headers?: Record<string, string> } = {}): Promise<{ status: number; body: Json; text: string; headers: Headers }> {
	const headers: Record<string, string> = { ...o.headers };
	if (o.key)
		headers.authorization = `Bearer ${o.key}`;
	if (o.json !== undefined)
		headers['content-type'] = 'application/json';
	const r = await fetch(url, { method, headers, body: o.json === undefined ? undefined : JSON.stringify(o.json) });
	const text = await r.text();
	let body: Json = {};
	try {
		body = text ? JSON.parse(text) : {};
	} catch { /* no JSON */ }
	return { status: r.status, body, text, headers: r.headers };
}

describe('watching', () => {
	let program: Program;
	let base = '';
	let api = '';
	const ada = { key: '' }, bob = { key: '' };
	const index = new Index();

	before(async () => {
		await index.open();
		index.add('alpha', { file: wheelName('alpha', '1.0'), body: wheel('alpha', '1.0', 'who = "alpha"') });
		const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_MAX_CODE_BYTES: String(8 << 20) };
		for (const [who, name] of [[ada, 'ada'], [bob, 'bob']] as const) {
			assert.equal((await caisson(['user', 'add', name, '--password', 'none'], { env })).code, 0);
			const made = await caisson(['key', 'new', name], { env });
			who.key = /csn_\S+/.exec(made.stdout.toString())![0];
		}
		({ program, base } = await serve({ profile: 'full', env }));
		api = `${base}/api/v1`;
	});
	after(async () => {
		await program.end();
		index.close();
	});

	const make = async (json: Json = {}): Promise<string> => {
		const r = await ask('POST', `${api}/sandboxes`, { key: ada.key, json });
		assert.equal(r.status, 201, r.text);
		return r.body.id;
	};
	const run = async (id: string, json: Json): Promise<Json> => {
		const r = await ask('POST', `${api}/sandboxes/${id}/runs`, { key: ada.key, json: { wait: true, ...json } });
		assert.equal(r.status, 201, r.text);
		return r.body;
	};
	const watch = (key: string, query = '', headers: Record<string, string> = {}): Promise<Tab> =>
		Tab.open(`${api}/events?api_key=${key}${query}`, headers);

	it('a run of an MCP client is seen as it happens, with who asked', async () => {
		const tab = await watch(ada.key);
		const hello = await tab.wait('hello', (e) => e.name === 'hello');
		assert.equal(hello.data.resumed, false);
		const client = new Client({ name: 'a <b>client</b>', version: '1' });
		await client.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { requestInit: { headers: { authorization: `Bearer ${ada.key}` } } }));
		await client.callTool({ name: 'sandbox_run_python', arguments: { session_id: 'watched', stateful: true, code: 'print("first", flush=True)\nimport sys\nprint("second", file=sys.stderr)\n6*7' } });
		const ended = await tab.wait('the end', (e) => e.name === 'run.ended' && e.data.cell.sandbox === 'watched');
		await client.close();
		await tab.wait('the sandbox', (e) => e.name === 'sandbox.created' && e.data.sandbox.id === 'watched');
		const started = tab.events.findIndex((e) => e.name === 'run.started' && e.data.cell.run === ended.data.cell.run);
		assert.ok(started >= 0 && started < tab.events.indexOf(ended));
		assert.deepEqual(tab.events[started]!.data.cell.asked_by, { how: 'mcp', name: 'a <b>client</b>' });
		const output = tab.of('run.output').filter((e) => e.data.run === ended.data.cell.run);
		const text = (stream: string): string => output.filter((e) => e.data.stream === stream).map((e) => e.data.text).join('');
		assert.equal(text('stdout'), 'first\n');
		assert.equal(text('stderr'), 'second\n');
		const cell = ended.data.cell;
		assert.equal(cell.stdout.text, 'first\n');
		assert.equal(cell.value.text.trim(), '42');
		assert.equal(cell.status, 'done');
		assert.equal(cell.exit_code, 0);
		tab.close();
	});

	it('a shell command is shown as it was asked for', async () => {
		const tab = await watch(ada.key);
		const client = new Client({ name: 'model', version: '1' });
		await client.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { requestInit: { headers: { authorization: `Bearer ${ada.key}` } } }));
		await client.callTool({ name: 'sandbox_run_shell', arguments: { session_id: 'shown', command: 'echo one && echo two' } });
		await client.close();
		const ended = await tab.wait('the end', (e) => e.name === 'run.ended' && e.data.cell.sandbox === 'shown');
		assert.equal(ended.data.cell.code.text ?? ended.data.cell.code, 'echo one && echo two');
		tab.close();
	});

	it('an installation is seen from its beginning to its end, by its owner alone', async () => {
		const id = await make();
		const [tab, other] = [await watch(ada.key), await watch(bob.key)];
		await tab.wait('hello', (e) => e.name === 'hello');
		for (const [packages, status] of [['alpha', 'success'], ['nothing-of-this-name', 'failed']] as const) {
			assert.ok((await ask('POST', `${api}/sandboxes/${id}/packages`, { key: ada.key, json: { packages, wait: true } })).status < 300);
			const end = await tab.wait('the end', (e) => e.name === 'package' && e.data.packages === packages && e.data.status !== 'installing');
			assert.deepEqual([end.data.sandbox, end.data.status], [id, status]);
			assert.ok(end.data.message);
			const steps = tab.of('package').filter((e) => e.data.packages === packages && e.data.status === 'installing');
			assert.ok(steps.length > 1 && steps.some((e) => e.data.message), JSON.stringify(steps.map((e) => e.data)));
		}
		await other.wait('hello', (e) => e.name === 'hello');
		await ask('POST', `${api}/sandboxes`, { key: bob.key, json: {} });
		const created = await other.wait('the own sandbox', (e) => e.name === 'sandbox.created');
		assert.equal(other.of('package').length, 0);
		const [mine, hello] = [tab.events[0]!.data, other.events[0]!.data];
		assert.notEqual(hello.epoch, mine.epoch);
		assert.equal(created.id, `${String(hello.epoch)}-${Number(hello.seq) + 1}`, 'numbers do not tell what others do');
		tab.close();
		other.close();
	});

	it('a tab that comes back gets what it missed, once, and is told if that is gone', async () => {
		const id = await make();
		const first = await watch(ada.key);
		await first.wait('hello', (e) => e.name === 'hello');
		await run(id, { code: 'print("one")' });
		const seen = await first.wait('the first end', (e) => e.name === 'run.ended');
		first.close();
		await run(id, { code: 'print("two")' });
		const again = await watch(ada.key, '', { 'last-event-id': seen.id });
		const ended = await again.wait('the second end', (e) => e.name === 'run.ended');
		assert.equal(ended.data.cell.code, 'print("two")');
		assert.equal(again.events[0]!.name, 'hello');
		assert.equal(again.events[0]!.data.resumed, true);
		assert.equal(again.of('resync').length, 0);
		assert.ok(!again.events.some((e) => e.data.cell?.code === 'print("one")'), 'not what it had');
		again.close();
		for (const id of ['00000000-1', 'nonsense', `${seen.id}9999999`, '-', `${'9'.repeat(60)}`]) {
			const lost = await watch(ada.key, `&last_event_id=${id}`);
			await lost.wait(`resync after ${id}`, (e) => e.name === 'resync');
			lost.close();
		}
	});

	it('a reader that falls behind is told so and is not buffered for', async () => {
		const id = await make();
		const tab = await watch(ada.key);
		const hello = await tab.wait('hello', (e) => e.name === 'hello');
		for (let i = 0; i < 8; i++)
			await run(id, { code: 'print("x" * 230_000)' });
		await tab.wait('all ends', () => tab.of('run.ended').filter((e) => e.data.cell.sandbox === id).length === 8);
		tab.close();
		const late = await watch(ada.key, '', { 'last-event-id': hello.id }); // more than the ring holds lies between
		await late.wait('resync', (e) => e.name === 'resync');
		late.close();
	});

	it('nobody sees events, cells or files of another', async () => {
		const tab = await watch(bob.key), evil = await watch(bob.key, '&owner=');
		await tab.wait('hello', (e) => e.name === 'hello');
		const id = await make({ name: 'private' });
		const r = await run(id, { code: 'open("a.svg", "w").write("<svg/>"); print("private output")' });
		const bobs = (await ask('POST', `${api}/sandboxes`, { key: bob.key, json: {} })).body.id;
		await tab.wait('its own sandbox', (e) => e.name === 'sandbox.created');
		assert.ok(tab.events.every((e) => e.name === 'hello' || JSON.stringify(e.data).includes(bobs)));
		assert.ok(!JSON.stringify(evil.events).includes('private'));
		await until('the history', async () => (await ask('GET', `${api}/notebooks/${id}/runs/${r.id}`, { key: ada.key })).status === 200);
		for (const path of [`/notebooks/${id}`, `/notebooks/${id}/runs/${r.id}`, `/notebooks/${id}/runs/${r.id}/files/a.svg`, `/notebooks/${id}/export`])
			assert.equal((await ask('GET', api + path, { key: bob.key })).status, 404, path);
		assert.equal((await ask('DELETE', `${api}/notebooks/${id}`, { key: bob.key })).status, 404);
		assert.equal((await ask('DELETE', `${api}/runs/${r.id}`, { key: bob.key })).status, 404);
		assert.ok(!(await ask('GET', `${api}/history?q=private`, { key: bob.key })).text.includes('private output'));
		assert.ok(!(await ask('GET', `${api}/notebooks`, { key: bob.key })).text.includes(id));
		tab.close();
		evil.close();
	});

	it('a stream ends with its key', async () => {
		const made = await ask('POST', `${api}/keys`, { key: ada.key, json: { name: 'short' } });
		const tab = await watch(made.body.key);
		await tab.wait('hello', (e) => e.name === 'hello');
		assert.equal((await ask('DELETE', `${api}/keys/${made.body.id}`, { key: ada.key })).status, 204);
		await until('the end of the stream', () => tab.closed, 20_000);
	});

	it('a run of another client can be stopped', async () => {
		const tab = await watch(ada.key);
		await tab.wait('hello', (e) => e.name === 'hello');
		const client = new Client({ name: 'model', version: '1' });
		await client.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { requestInit: { headers: { authorization: `Bearer ${ada.key}` } } }));
		const answer = client.callTool({ name: 'sandbox_run_python', arguments: { session_id: 'endless', code: 'print("on", flush=True)\nimport time\nwhile True: time.sleep(1)' } });
		const output = await tab.wait('its output', (e) => e.name === 'run.output' && e.data.sandbox === 'endless');
		assert.equal((await ask('DELETE', `${api}/runs/${output.data.run}`, { key: ada.key })).status, 202);
		const ended = await tab.wait('its end', (e) => e.name === 'run.ended' && e.data.cell.sandbox === 'endless');
		assert.equal(ended.data.cell.reason, 'cancelled');
		await answer;
		await client.close();
		tab.close();
	});

	it('values of the environment are masked in code, events and history, however they come', async () => {
		const secret = 'tok-5f3a9c17e2';
		const id = await make({ env: { TOKEN: secret, LINES: 'line one\nline two', SHORT: 'ab' } });
		const tab = await watch(ada.key);
		await tab.wait('hello', (e) => e.name === 'hello');
		await run(id, { code: `import os, sys, time\nt = os.environ["TOKEN"] # ${secret}\nfor c in "start " + t + " " + t[:6]:\n    sys.stdout.write(c); sys.stdout.flush(); time.sleep(0.003)\nprint(os.environ["LINES"], os.environ["SHORT"])\nsys.stderr.write("e" * 40000 + t + "e" * 40000)\nt` });
		const ended = await tab.wait('the end', (e) => e.name === 'run.ended' && e.data.cell.sandbox === id);
		const mask = '•'.repeat(6);
		assert.equal(ended.data.cell.stdout.text, `start ${mask} tok-5f${mask} ab\n`);
		assert.ok(ended.data.cell.value.text.includes(mask));
		assert.ok(ended.data.cell.code.includes(`# ${mask}`));
		assert.equal(tab.of('run.output').filter((e) => e.data.stream === 'stdout').map((e) => e.data.text).join(''), ended.data.cell.stdout.text);
		assert.ok(!JSON.stringify(tab.events).includes(secret));
		const notebook = await ask('GET', `${api}/notebooks/${id}`, { key: ada.key });
		assert.equal(notebook.body.cells.length, 1);
		assert.ok(!notebook.text.includes(secret));
		for (const format of ['ipynb', 'html'])
			assert.ok(!(await ask('GET', `${api}/notebooks/${id}/export?format=${format}`, { key: ada.key })).text.includes(secret));
		assert.equal((await ask('GET', `${api}/history?q=${secret}`, { key: ada.key })).body.cells.length, 0);
		tab.close();
	});

	it('so are those that a waiting run gets, those that were there before, and those in files', async () => {
		const mask = '•'.repeat(6);
		const env = (id: string, TOKEN: string | null): Promise<{ status: number }> => ask('PATCH', `${api}/sandboxes/${id}`, { key: ada.key, json: { env: { TOKEN } } });
		const id = await make({ kind: 'stored' });
		const tab = await watch(ada.key, `&sandbox=${id}`);
		await tab.wait('hello', (e) => e.name === 'hello');
		await ask('POST', `${api}/sandboxes/${id}/runs`, { key: ada.key, json: { code: 'import os, time\nwhile not os.path.exists("go"): time.sleep(0.01)' } });
		await tab.wait('the first run', (e) => e.name === 'run.started');
		const waiting = await ask('POST', `${api}/sandboxes/${id}/runs`, { key: ada.key, json: { code: 'import os; print(os.environ["TOKEN"]) # of-one-5f3a' } });
		await tab.wait('the second run', (e) => e.name === 'run.queued' && e.data.cell.run === waiting.body.id);
		assert.equal((await env(id, 'of-one-5f3a')).status, 200);
		assert.equal((await ask('PUT', `${api}/sandboxes/${id}/files/go`, { key: ada.key })).status, 201);
		const ended = await tab.wait('its end', (e) => e.name === 'run.ended' && e.data.cell.run === waiting.body.id);
		assert.equal(ended.data.cell.stdout.text, `${mask}\n`);
		await run(id, { code: 'import os; kept = os.environ["TOKEN"]', stateful: true });
		assert.equal((await env(id, 'of-two-77c1')).status, 200);
		assert.equal((await env(id, null)).status, 200);
		await run(id, { code: 'print(kept)', stateful: true });
		assert.equal((await env(id, 'of-six-1b2e')).status, 200);
		await run(id, { code: 'import os\nt = os.environ["TOKEN"]\nfor name in ["page.html", "picture.svg", t + ".html", t + t + ".html"]:\n    open(name, "w").write("<p>" + t + "</p>")' });
		const notebook = await until('all runs in the history', async () => {
			const r = await ask('GET', `${api}/notebooks/${id}`, { key: ada.key });
			return r.body.cells.length === 5 && r.body.cells[4].seq !== null ? r : undefined;
		});
		assert.doesNotMatch(notebook.text + JSON.stringify(tab.events.filter((e) => e.name !== 'run.queued')), /of-one-5f3a|of-two-77c1|of-six-1b2e/);
		const last = notebook.body.cells[4];
		assert.deepEqual(last.files.map((f: Json) => f.name).sort(), ['page.html', 'picture.svg', `${mask}.html`, `${mask}.html`].sort());
		for (const name of ['page.html', 'picture.svg', `${mask}.html`])
			assert.equal((await ask('GET', `${api}/notebooks/${id}/runs/${last.run}/files/${encodeURIComponent(name)}`, { key: ada.key })).text, `<p>${mask}</p>`, name);
		tab.close();
	});

	it('the usual encodings of a value are masked, too', async () => {
		const secret = 'p/ss "wörd" & more';
		const id = await make({ env: { TOKEN: secret } });
		await run(id, { code: 'import os, json, base64, urllib.parse as u\nt = os.environ["TOKEN"]\nprint(u.quote(t), u.quote_plus(t), sep="\\n")\nprint(json.dumps({"t": t}), json.dumps(t, ensure_ascii=False), sep="\\n")\nprint(base64.b64encode(b"user:" + t.encode()).decode())' });
		await until('the history', async () => (await ask('GET', `${api}/notebooks/${id}`, { key: ada.key })).body.cells[0]?.status === 'done');
		const lines = (await ask('GET', `${api}/notebooks/${id}`, { key: ada.key })).body.cells[0].stdout.text.split('\n');
		const mask = '•'.repeat(6);
		assert.deepEqual(lines.slice(0, 4), [mask, mask, `{"t": "${mask}"}`, `"${mask}"`]);
		assert.match(lines[4], new RegExp(`^dXNlcj.${mask}.{0,4}$`), 'what is left of base64 are the neighbours');
	});

	it('(slow) values are masked at the beginning and the end of much output, and in long code', async () => {
		const mask = '•'.repeat(6);
		const secret = 'p'.repeat(3000) + '-end';
		const id = await make({ env: { TOKEN: secret, OTHER: 'tok-5f3a9c17e2' } });
		const flood = 'import os\nt, o = os.environ["TOKEN"], os.environ["OTHER"]\nprint("first", t)\nfor i in range(400): print("p" * 9999 + "." + t * 2 + "n")\nprint(o * 700000)\nfor i in range(6): print("x" * 2000, t)\nprint("last", t + o)';
		for (const code of [flood, `${flood}\n# ${secret}\n#${'c'.repeat(5 << 20)}`]) // watched by nobody
			assert.equal((await run(id, { code })).status, 'done');
		const tab = await watch(ada.key, `&sandbox=${id}`);
		await tab.wait('hello', (e) => e.name === 'hello');
		await run(id, { code: flood });
		const ended = await tab.wait('its end', (e) => e.name === 'run.ended');
		assert.match(ended.data.cell.stdout.text, new RegExp(`last ${mask}\n$`));
		const told = tab.of('run.output').map((e) => e.data.text ?? '').join('');
		assert.ok(told.startsWith(`first ${mask}\n`));
		assert.doesNotMatch(told, /-end|tok-5/);
		const notebook = await until('all runs in the history', async () => {
			const r = await ask('GET', `${api}/notebooks/${id}`, { key: ada.key });
			return r.body.cells.length === 3 && r.body.cells[2].seq !== null ? r : undefined;
		});
		assert.doesNotMatch(notebook.text, /-end|tok-5/);
		for (const cell of notebook.body.cells) {
			assert.ok(cell.stdout.text.startsWith(`first ${mask}\n`));
			assert.match(cell.stdout.text, /\n\[\.\.\. \d+ bytes left out \.\.\.\]\n/);
			assert.ok(cell.stdout.text.endsWith(`${'x'.repeat(2000)} ${mask}\nlast ${mask}\n`));
		}
		assert.deepEqual(notebook.body.cells.map((c: Json) => c.code_cut), [false, true, false]);
		assert.ok(notebook.body.cells[1].code.includes(`# ${mask}\n#cc`));
		tab.close();
	});

	it('a session that ended can be read, searched, exported and forgotten', async () => {
		const id = await make({ name: 'to read' });
		await run(id, { code: 'x = 41\nprint("needle <script>alert(1)</script> \\x1b[31mred\\x1b[0m")', stateful: true });
		await run(id, { code: 'import base64\nopen("dot.png","wb").write(base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="))\nx + 1', stateful: true });
		const failed = await run(id, { code: '1/0' });
		await run(id, { command: 'echo "from the shell" && false' });
		assert.equal((await ask('DELETE', `${api}/sandboxes/${id}`, { key: ada.key })).status, 204);
		const book = await ask('GET', `${api}/notebooks/${id}`, { key: ada.key });
		assert.equal(book.status, 200);
		assert.equal(book.body.live, false);
		const cells: Json[] = book.body.cells;
		assert.deepEqual(cells.map((c) => c.kind), ['stateful', 'stateful', 'code', 'command']);
		assert.deepEqual(cells.map((c) => c.asked_by), Array(4).fill({ how: 'rest', name: 'ada' }));
		assert.equal(cells[1]!.value.text.trim(), '42');
		assert.equal(cells[2]!.run, failed.id);
		assert.match(cells[2]!.stderr.text, /ZeroDivisionError/);
		assert.equal(cells[3]!.code, 'echo "from the shell" && false');
		assert.equal(cells[3]!.exit_code, 1);
		assert.deepEqual(cells[1]!.files.map((f: Json) => [f.name, f.kept]), [['dot.png', true]]);
		const one = await ask('GET', `${api}/notebooks/${id}/runs/${failed.id}`, { key: ada.key });
		assert.equal(one.body.run, failed.id);
		const picture = await fetch(`${api}/notebooks/${id}/runs/${cells[1]!.run}/files/dot.png`, { headers: { authorization: `Bearer ${ada.key}` } });
		assert.equal(picture.headers.get('content-type'), 'image/png');
		assert.equal((await picture.arrayBuffer()).byteLength, 70);
		// Pages in both directions.
		const page = await ask('GET', `${api}/notebooks/${id}?limit=3`, { key: ada.key });
		assert.equal(page.body.more, true);
		const rest = await ask('GET', `${api}/notebooks/${id}?after=${page.body.cells[2].seq}`, { key: ada.key });
		assert.deepEqual([...page.body.cells, ...rest.body.cells], cells);
		assert.deepEqual((await ask('GET', `${api}/notebooks/${id}?before=0&limit=2`, { key: ada.key })).body.cells, cells.slice(2));
		// Search.
		for (const [q, n] of [['NEEDLE', 1], ['from the shell', 1], ['ZeroDivision', 1], ['%', 0], ['stdout', 0], ['<script>', 1]] as const)
			assert.equal((await ask('GET', `${api}/history?sandbox=${id}&q=${encodeURIComponent(q)}`, { key: ada.key })).body.cells.length, n, q);
		const row = (await ask('GET', `${api}/notebooks`, { key: ada.key })).body.notebooks.find((n: Json) => n.sandbox === id);
		assert.equal(row.name, 'to read');
		assert.equal(row.cells, 4);
		// Export.
		const nb = await ask('GET', `${api}/notebooks/${id}/export?format=ipynb`, { key: ada.key });
		assert.match(nb.headers.get('content-disposition')!, /attachment; filename=".*\.ipynb"/);
		assert.equal(nb.body.nbformat, 4);
		assert.equal(nb.body.cells.length, 4);
		for (const c of nb.body.cells) {
			assert.match(c.id, /^[a-zA-Z0-9_-]{1,64}$/);
			assert.equal(c.cell_type, 'code');
			for (const o of c.outputs)
				assert.ok(['stream', 'execute_result', 'display_data'].includes(o.output_type));
		}
		assert.ok(nb.body.cells[1].outputs.some((o: Json) => o.data?.['image/png']?.startsWith('iVBOR')));
		const page2 = await ask('GET', `${api}/sandboxes/${id}/export?format=html`, { key: ada.key });
		assert.match(page2.text, /&lt;script&gt;alert\(1\)&lt;\/script&gt; red/);
		assert.doesNotMatch(page2.text, /<script|\x1b|https?:/i);
		assert.match(page2.text, /<img alt="" src="data:image\/png;base64,iVBOR/);
		assert.match(page2.headers.get('content-security-policy')!, /^sandbox;/);
		assert.equal((await ask('DELETE', `${api}/notebooks/${id}`, { key: ada.key })).status, 204);
		assert.equal((await ask('GET', `${api}/notebooks/${id}`, { key: ada.key })).status, 404);
	});
});

describe('what the history keeps', () => {
	it('(slow) code alone, or nothing, as the operator says; and no more than its bound', async () => {
		for (const [keep, text] of [['code', ''], ['off', null]] as const) {
			const { program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_HISTORY_CONTENT: keep } });
			const id = (await ask('POST', `${base}/api/v1/sandboxes`, { json: {} })).body.id;
			await ask('POST', `${base}/api/v1/sandboxes/${id}/runs`, { json: { code: 'print("kept?")', wait: true } });
			const { cells } = (await ask('GET', `${base}/api/v1/notebooks/${id}`)).body;
			assert.deepEqual(cells.map((c: Json) => c.stdout.text), text === null ? [] : [text], keep);
			if (text !== null)
				assert.equal(cells[0].code, 'print("kept?")');
			await program.end();
		}
		const { program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_HISTORY_USER_BYTES: '1m' } });
		const id = (await ask('POST', `${base}/api/v1/sandboxes`, { json: {} })).body.id;
		for (let i = 0; i < 45; i++)
			await ask('POST', `${base}/api/v1/sandboxes/${id}/runs`, { json: { code: `print(${i}, "y" * 40_000)`, wait: true } });
		const row = (await ask('GET', `${base}/api/v1/notebooks`)).body.notebooks[0];
		assert.ok(row.bytes <= 1 << 20, String(row.bytes));
		assert.ok(row.cells > 20 && row.cells < 45, String(row.cells));
		const newest = (await ask('GET', `${base}/api/v1/notebooks/${id}?before=0&limit=1`)).body.cells[0];
		assert.equal(newest.code, 'print(44, "y" * 40_000)');
		assert.equal(newest.stdout.cut, true);
		await program.end();
	});
});
