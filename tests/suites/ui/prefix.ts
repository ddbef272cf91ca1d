// SPDX-License-Identifier: Apache-2.0
// The page below a path of a host that has other applications, behind a proxy that takes the path off (packaging/proxy).

import assert from 'node:assert/strict';
import * as http from 'node:http';
import * as net from 'node:net';
import { once } from 'node:events';
import { accessible, type Case, type World } from './case.ts';
import { type } from './person.ts';
import { PASSWORD, server } from './server.ts';

const PREFIX = '/tools/caisson';

/** A proxy in front of the server on PORT. What is not below PREFIX belongs to another application, and is written into STRAY. */
async function proxy(w: World, port: number, stray: string[]): Promise<string> {
	const below = (req: http.IncomingMessage): string | null => {
		if (req.url!.startsWith(`${PREFIX}/`))
			return req.url!.slice(PREFIX.length);
		stray.push(`${req.method} ${req.url}`);
		return null;
	};
	const passed = (req: http.IncomingMessage): http.OutgoingHttpHeaders => ({ ...req.headers, 'x-forwarded-for': '192.0.2.1', 'x-forwarded-prefix': PREFIX, 'x-forwarded-host': req.headers.host, 'x-forwarded-proto': 'http' });
	const front = http.createServer((req, res) => {
		const path = below(req);
		if (path === null)
			return void res.writeHead(404).end();
		const on = http.request({ host: '127.0.0.1', port, path, method: req.method, headers: passed(req) }, (r) => {
			res.writeHead(r.statusCode!, r.rawHeaders);
			r.on('error', () => res.destroy()).pipe(res);
		});
		on.on('error', () => res.destroy());
		res.on('close', () => on.destroy());
		req.pipe(on);
	});
	front.on('upgrade', (req: http.IncomingMessage, socket: net.Socket, head: Buffer) => {
		const path = below(req);
		if (path === null)
			return void socket.destroy();
		const on = net.connect(port, '127.0.0.1', () => {
			on.write(`GET ${path} HTTP/1.1\r\n${Object.entries(passed(req)).map(([k, v]) => `${k}: ${String(v)}\r\n`).join('')}\r\n`);
			on.write(head);
			on.pipe(socket).pipe(on);
		});
		for (const s of [on, socket])
			s.on('error', () => s.destroy()).on('close', () => [on, socket].forEach((x) => x.destroy()));
	});
	front.listen(0, '127.0.0.1');
	await once(front, 'listening');
	w.atEnd(async () => {
		front.close();
		front.closeAllConnections();
	});
	return `http://127.0.0.1:${(front.address() as net.AddressInfo).port}${PREFIX}`;
}

export const prefixCases: Case[] = [{
	name: 'below a path: sign in, a run, a page that it made, files, a terminal, addresses for clients',
	async run(w) {
		const s = await server(w, { auth: true, env: { SANDBOX_TRUSTED_PROXIES: '127.0.0.1' } });
		await s.person('ada');
		const stray: string[] = [], base = await proxy(w, s.port, stray);
		const page = await w.window();
		await page.goto(`${base}/`);
		await page.getByLabel('User name').fill('ada');
		await page.getByLabel('Password').fill(PASSWORD);
		await page.getByRole('button', { name: 'Sign in' }).click();
		await page.getByRole('button', { name: 'Run an example' }).click();
		await page.waitForFunction(() => Array.from(document.querySelectorAll<HTMLImageElement>('.cell img')).some((i) => i.complete && i.naturalWidth > 200));
		await type(page, 'class Shown:\n    def _repr_html_(self):\n        return "<h1>made by the run</h1>"\nShown()');
		await page.frameLocator('iframe.frame').getByRole('heading', { name: 'made by the run' }).waitFor();
		await accessible(page, 'the notebook below a path');
		const tab = (name: string): Promise<void> => page.getByRole('navigation', { name: 'Parts of the sandbox' }).getByRole('link', { name }).click();
		await tab('Files');
		const data = await page.evaluateHandle(() => {
			const d = new DataTransfer();
			d.items.add(new File(['city,people\nBerlin,3645000\n'], 'cities.csv', { type: 'text/csv' }));
			return d;
		});
		await page.dispatchEvent('.files', 'drop', { dataTransfer: data });
		await page.getByRole('link', { name: /^cities\.csv/ }).first().click();
		await page.getByText('Berlin').waitFor();
		const [saved] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download', exact: true }).first().click()]);
		assert.ok(saved.url().startsWith(`${base}/`), saved.url());
		assert.equal(await saved.failure(), null);
		await tab('Terminal');
		await page.locator('.terminal textarea').waitFor({ state: 'attached' });
		await page.locator('.terminal').click();
		await page.keyboard.type('echo $((6 * 7))x\n');
		await page.waitForFunction(() => document.querySelector('.terminal .xterm-rows')?.textContent?.includes('42x'));
		await page.goto(`${base}/#/connect`);
		await page.getByText(`${base}/mcp`).first().waitFor();
		assert.deepEqual(stray, []);
	},
}];
