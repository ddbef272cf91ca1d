// SPDX-License-Identifier: Apache-2.0
// The view of results inside an MCP client: a host made with the official SDK shows what real calls of our tools return.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import * as path from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { build } from 'esbuild';
import type { Frame, Page } from 'playwright-core';
import { asProductUser, binary, freePort, productEnv } from '../../lib/env.ts';
import { until } from '../../lib/wait.ts';
import { accessible, picture, type Case, type World } from './case.ts';
import { hostileTexts } from './hostile_texts.ts';

type Json = Record<string, any>;
const here = import.meta.dirname;
const URI = 'ui://caisson/results';
/** What a host must enforce when a view declares no hosts. */
const POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; media-src 'self' data:; connect-src 'none'; object-src 'none'; base-uri 'self'; frame-src 'none'";

let hostScript: Promise<string> | undefined;
const bundled = (): Promise<string> => (hostScript ??= build({ entryPoints: [path.join(here, 'host/host.ts')], bundle: true, format: 'iife', write: false, target: 'es2022' }).then((r) => r.outputFiles[0]!.text));

/** The host's pages. The proxy has another origin: 127.0.0.1 instead of localhost. */
async function hostPages(w: World): Promise<number> {
	const script = await bundled();
	const server = http.createServer((req, res) => {
		const html = (text: string, policy = ''): void => void res.writeHead(200, { 'content-type': 'text/html', ...(policy && { 'content-security-policy': policy }) }).end(text);
		if (req.url === '/host.js') res.writeHead(200, { 'content-type': 'text/javascript' }).end(script);
		else if (req.url === '/proxy.js') res.writeHead(200, { 'content-type': 'text/javascript' }).end(fs.readFileSync(path.join(here, 'host/proxy.js')));
		else if (req.url === '/proxy') html('<!doctype html><html lang="en"><title>proxy</title><style>body{margin:0}iframe{border:0;width:100%;height:100vh;display:block}</style><body><script src="/proxy.js"></script>', POLICY);
		else html('<!doctype html><html lang="en"><title>host</title><style>body{margin:16px;background:#888}iframe{border:0;width:100%;height:200px;border-radius:8px}</style><body><script src="/host.js"></script>');
	});
	await new Promise<void>((done) => server.listen(0, () => done()));
	w.atEnd(async () => server.close());
	return (server.address() as AddressInfo).port;
}

class Host {
	readonly page: Page;
	readonly client: Client;
	readonly told: [string, unknown][] = [];
	readonly asked: string[] = [];
	private readonly port: number;

	constructor(page: Page, client: Client, port: number) {
		this.page = page;
		this.client = client;
		this.port = port;
	}

	/** Calls a tool and shows its result; the frame of the view. */
	async show(name: string, args: Json, o: { can?: Json; context?: Json } = {}): Promise<{ view: Frame; result: Json }> {
		const tool = (await this.client.listTools()).tools.find((t) => t.name === name)!;
		assert.deepEqual(tool._meta, { ui: { resourceUri: URI } });
		return this.showResult(await this.client.callTool({ name, arguments: args }, undefined, { timeout: 90_000 }) as Json, args, o);
	}

	async showResult(result: Json, input: Json = {}, o: { can?: Json; context?: Json } = {}): Promise<{ view: Frame; result: Json }> {
		const html = ((await this.client.readResource({ uri: URI })).contents as Json[])[0]!.text as string;
		await this.page.evaluate((s) => (globalThis as any).show(s), { proxy: `http://127.0.0.1:${this.port}/proxy`, html, input, result, context: { theme: 'light', ...o.context }, can: o.can ?? { serverResources: {}, openLinks: {} } } as any);
		const view = await until('the view', () => this.page.frames().find((f) => f.url() === 'about:srcdoc'));
		await view.waitForSelector('main > *');
		return { view, result };
	}
}

async function open(w: World): Promise<Host> {
	const argv = asProductUser([binary, 'stdio', '--profile', 'full']);
	const client = new Client({ name: 'host', version: '1' }, { capabilities: { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } } } as any });
	await client.connect(new StdioClientTransport({ command: argv[0]!, args: argv.slice(1), env: productEnv({ SANDBOX_HTTP_PORT: String(await freePort()) }), stderr: 'ignore' }));
	w.atEnd(() => client.close());
	const port = await hostPages(w);
	const page = await w.window({ viewport: { width: 780, height: 700 } });
	const host = new Host(page, client, port);
	await page.exposeFunction('hostAsk', async (method: string, params: Json) => {
		host.asked.push(params.uri as string);
		return client.request({ method, params } as any, (await import('@modelcontextprotocol/sdk/types.js')).ReadResourceResultSchema);
	});
	await page.exposeFunction('hostTold', (what: string, data: unknown) => void host.told.push([what, data]));
	await page.goto(`http://localhost:${port}/`);
	return host;
}

const FIGURES = `
import pandas as pd, matplotlib.pyplot as plt
df = pd.DataFrame({"month": ["Jan", "Feb", "Mar", "Apr"] * 40, "sales": range(160)})
df.to_csv("sales.csv", index=False)
open("page.html", "w").write("<h1>A page</h1>")
print("\\n".join(f"line {i}" for i in range(40)))
for k in ("bar", "line"):
    df.head(4).plot(x="month", y="sales", kind=k, title=k, rot=0)
df.sales.mean()
`;

export const appCases: Case[] = [
	{
		name: 'app: pictures, output, value and files of a run',
		async run(w) {
			const h = await open(w);
			const { view } = await h.show('sandbox_run_python', { code: FIGURES });
			assert.equal(await view.locator('.thumb').count(), 2);
			await view.locator('.thumb').first().click();
			assert.ok(await view.locator('figure img').evaluate((i: HTMLImageElement) => i.complete && i.naturalWidth > 100));
			assert.match((await view.locator('.stdout pre').textContent())!, /^line 0\nline 1\n/);
			assert.doesNotMatch((await view.locator('.stdout pre').textContent())!, /line 30/);
			await view.getByRole('button', { name: 'Show all 40 lines' }).click();
			assert.match((await view.locator('.stdout pre').textContent())!, /line 39$/);
			assert.match((await view.locator('.value pre').textContent())!, /79\.5/);
			assert.deepEqual(await view.locator('.files .name').allTextContents(), ['figure-1.png', 'figure-2.png', 'page.html', 'sales.csv']);
			await picture(h.page, 'app-run', true);
			await accessible(h.page, 'the view of a run', view);
			// the table, in pages of 50 rows, read through the host
			await view.getByRole('button', { name: 'Look at sales.csv' }).click();
			await view.getByText('Rows 1 to 50 of 160').waitFor();
			assert.deepEqual(await view.locator('tbody tr').first().locator('th, td').allTextContents(), ['1', 'Jan', '0']);
			for (let i = 0; i < 3; i++) await view.getByRole('button', { name: 'Next rows' }).click();
			await view.getByText('Rows 151 to 160 of 160').waitFor();
			assert.ok(await view.getByRole('button', { name: 'Next rows' }).isDisabled());
			assert.match(h.asked[0]!, /^sandbox:\/\/sess_[0-9a-f]+\/sales\.csv\?offset=0&length=\d+$/);
			await accessible(h.page, 'the view of a table', view);
			await picture(h.page, 'app-table', true);
			await view.getByRole('button', { name: 'Open page.html in the browser' }).click();
			await until('the link', () => h.told.find(([what]) => what === 'link'));
			assert.match(h.told.find(([what]) => what === 'link')![1] as string, /^http:\/\/localhost:\d+\/files\/sess_[0-9a-f]+\/page\.html$/);
			assert.ok(h.told.some(([what, height]) => what === 'size' && (height as number) > 300), 'the view tells its height');
		},
	},
	{
		name: 'app: tables with quotes, a parquet file, a broken one; a dark host',
		async run(w) {
			const h = await open(w);
			const code = 'import pandas as pd\npd.DataFrame({"a,b": ["x\\"y", "two\\nlines"], "é": [1.5, None]}).to_csv("odd.csv", index=False)\npd.DataFrame({"n": range(70), "w": ["é"] * 70}).to_parquet("t.parquet")\nopen("bad.parquet", "wb").write(b"no parquet at all")\nopen("no rows.csv", "w").write("a,b\\n")\nopen("notes.txt", "w").write("a note\\n")';
			const { view } = await h.show('sandbox_run_python', { code, session_id: 'tables' }, { context: { theme: 'dark' } });
			const look = async (name: string): Promise<void> => void await view.getByRole('button', { name: `Look at ${name}` }).click();
			await look('odd.csv');
			await view.getByText('Rows 1 to 2 of 2').waitFor();
			assert.deepEqual(await view.locator('thead th').allTextContents(), ['#', 'a,b', 'é']);
			assert.deepEqual(await view.locator('tbody td').allTextContents(), ['x"y', '1.5', 'two\nlines', '']);
			await look('t.parquet');
			await view.getByText('Rows 1 to 50 of 70').waitFor();
			assert.deepEqual(await view.locator('tbody tr').nth(1).locator('td').allTextContents(), ['1', 'é']);
			await picture(h.page, 'app-dark', true);
			await accessible(h.page, 'the dark view', view);
			await look('bad.parquet');
			await view.getByRole('alert').waitFor();
			await look('no rows.csv');
			await view.getByText('No rows', { exact: true }).waitFor();
			await look('notes.txt');
			await view.getByText('a note').waitFor();
		},
	},
	{
		name: 'app: a failed run, a refused call, a list of files, a picture, a cancelled call',
		async run(w) {
			const h = await open(w);
			const failed = await h.show('sandbox_run_python', { code: 'print("before")\n1/0', session_id: 'f' });
			assert.match((await failed.view.locator('.end').textContent())!, /exit code 1/);
			assert.match((await failed.view.locator('.stderr pre').textContent())!, /ZeroDivisionError/);
			await picture(h.page, 'app-failed', true);
			await accessible(h.page, 'the view of a failure', failed.view);
			const refused = await h.show('sandbox_read_file', { session_id: 'f', path: 'not there' });
			assert.equal(refused.result.isError, true);
			await refused.view.locator('.error pre').waitFor();
			await h.client.callTool({ name: 'sandbox_run_shell', arguments: { session_id: 'f', command: 'mkdir -p a/b && echo x > "a/b/ü 1.txt"' } });
			const listed = await h.show('sandbox_list_files', { session_id: 'f' });
			assert.deepEqual(await listed.view.locator('.files .name').allTextContents(), ['a/b/ü 1.txt']);
			await listed.view.getByRole('button', { name: 'Look at a/b/ü 1.txt' }).click();
			await listed.view.locator('.look pre', { hasText: /^x$/ }).waitFor();
			const bare = await h.show('sandbox_list_files', { session_id: 'f' }, { can: {} });
			assert.equal(await bare.view.getByRole('button').count(), 0, 'a host that permits nothing is asked for nothing');
			await h.page.evaluate(() => (globalThis as any).cancel());
			await bare.view.getByText('The call was cancelled.').waitFor();
			await h.page.evaluate(() => (globalThis as any).teardown());
		},
	},
	{
		name: 'app: hostile texts stay texts',
		async run(w) {
			const h = await open(w);
			for (const [i, text] of hostileTexts.entries()) {
				const file = { path: `/mnt/data/${text}.txt`, filename: text, size_bytes: 3, mime_type: text, download_url: text };
				const { view } = await h.showResult({
					content: [{ type: 'text', text }, { type: 'image', mimeType: text, data: 'AAAA' }],
					structuredContent: { result: { session_id: text, exit_code: 0, reason: i % 2 ? 'exited' : text, duration_ms: text, stdout: text, stderr: text, result: text, hint: text, artifacts: [file, text, null, 7] } },
				});
				const shown = text.replace(/\r\n?/g, '\n').trim();
				if (shown !== '' && !/[\0\ud800-\udfff]/.test(shown)) assert.ok((await view.locator('.stdout').textContent())?.includes(shown.split('\n')[0]!), `text ${i} is shown as it is`);
				assert.equal(await view.locator('script, iframe, object, embed, a, form, svg, style, link, base, meta').count(), await view.locator('head style, head meta, body > script').count(), `text ${i} made an element`);
				assert.equal(await view.locator('.pictures img').count(), 0);
				assert.equal(await view.getByRole('button', { name: /in the browser/ }).count(), /^https?:\/\//.test(text) ? 1 : 0, `text ${i} as a link`);
			}
		},
	},
	{
		name: 'app: hostile names, tables, notes and errors of real runs',
		async run(w) {
			const h = await open(w);
			const texts = hostileTexts.slice(0, 20).map((t) => t.toWellFormed());
			const rows = JSON.stringify(JSON.stringify(texts));
			const code = `import csv, json\ntexts = json.loads(${rows})\nwith open("t.csv", "w", newline="") as f:\n    w = csv.writer(f)\n    w.writerow(texts[:8])\n    for t in texts: w.writerow([t] * 8)\nopen("note.txt", "w").write("\\n".join(texts))\nfor n, t in enumerate(texts[:8]):\n    open(str(n) + t.replace("/", "_")[:80] + ".txt", "w").write(t)\nraise ValueError(texts[0])`;
			const { view } = await h.show('sandbox_run_python', { code, session_id: 'hostile' });
			const clean = async (where: string): Promise<void> => assert.equal(await view.locator('script, iframe, object, embed, a, form, svg, style, link, base, meta, [onerror], [onload]').count(), await view.locator('head style, head meta, body > script').count(), where);
			assert.ok((await view.locator('.stderr pre').textContent())!.includes(texts[0]!), 'the error is a text');
			await clean('a run');
			await view.getByRole('button', { name: 'Look at t.csv' }).click();
			await view.getByText('Rows 1 to 20 of 20').waitFor();
			assert.deepEqual(await view.locator('thead th').allTextContents(), ['#', ...texts.slice(0, 8)]);
			await clean('a table');
			await view.getByRole('button', { name: 'Look at note.txt' }).click();
			await view.locator('.look pre', { hasText: texts[0] }).waitFor();
			await clean('a note');
			const listed = await h.show('sandbox_list_files', { session_id: 'hostile' });
			assert.ok((await listed.view.locator('.files .name').allTextContents()).includes(`0${texts[0]!.replaceAll('/', '_')}.txt`), 'a name is a text');
			assert.equal(await listed.view.locator('script').count(), await listed.view.locator('body > script').count());
		},
	},
];
