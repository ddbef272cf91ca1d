// SPDX-License-Identifier: Apache-2.0
// Clients that do not read what they asked for, in parallel: what that may hold is bound before it is made, for a user, for an address and in all.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as net from 'node:net';
import { after, before, describe, it } from 'node:test';
import { newStateDir, sanitized } from '../lib/env.ts';
import { caisson, residentBytes, type Program } from '../lib/process.ts';
import { serve } from '../lib/session.ts';
import { askUnread } from '../lib/unread.ts';
import { until } from '../lib/wait.ts';

const MiB = 1 << 20;

function open(): number {
	return Number(/^TCP: .* mem (\d+)$/m.exec(fs.readFileSync('/proc/net/sockstat', 'latin1'))?.[1] ?? 0) * 4096;
}

describe('public answers that nobody reads', () => {
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_POOL: '0' };
	let server: { program: Program; base: string };
	let key = '';

	before(async () => {
		for (const args of [['user', 'add', 'root', '--role', 'admin', '--password', 'none']])
			assert.equal((await caisson(args, { env })).code, 0);
		key = (await caisson(['key', 'new', 'root', '--scope', 'admin'], { env })).stdout.toString().trim();
		server = await serve({ profile: 'full', env });
	});
	after(() => server.program.end());

	const used = async (): Promise<{ used: number; total: number }> =>
		((await (await fetch(`${server.base}/api/v1/stats`, { headers: { 'x-api-key': key } })).json()) as any).budgets.answer_memory;

	for (const path of ['/api/v1/openapi.json', '/openapi.json'])
		it(`600 of ${path}: as many as the budget has, 429 for the others, and no copy of them`, async () => {
			const size = (await (await fetch(server.base + path)).text()).length;
			const [resident, buffers] = [residentBytes(server.program.child.pid!), open()];
			const all = await askUnread(server.base, Array.from({ length: 600 }, () => path));
			try {
				assert.deepEqual(Object.keys(all.statuses), ['200', '429'], JSON.stringify(all.statuses));
				assert.ok(all.statuses[200]! * size <= 2 * 48 * MiB, `${all.statuses[200]} of ${size} bytes`);
				assert.match(all.heads[429]!, /\r\nRetry-After: 10\r\n/);
				assert.ok(residentBytes(server.program.child.pid!) - resident < 24 * MiB, 'copies');
				assert.ok(open() - buffers < 160 * MiB, `${open() - buffers} bytes of buffers`);
				assert.ok((await fetch(`${server.base}/healthz`)).ok);
			} finally {
				all.close();
			}
			await until('the room is free again', async () => (await used()).used === 0);
			assert.equal((await fetch(server.base + path)).status, 200);
		});
});

describe('exports that nobody reads', () => {
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_POOL: '0', SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_MAX_OUTPUT_BYTES: '1000000' };
	let server: { program: Program; base: string };
	let key = '';
	const runs = 120;

	const ask = async (method: string, path: string, body?: unknown): Promise<any> => {
		const r = await fetch(`${server.base}/api/v1${path}`, { method, headers: { 'x-api-key': key, 'content-type': 'application/json' }, body: body === undefined ? undefined : JSON.stringify(body) });
		assert.ok(r.ok, `${path}: ${r.status}`);
		return r.status === 204 ? undefined : r.json();
	};

	before(async () => {
		assert.equal((await caisson(['user', 'add', 'ada', '--password', 'none'], { env })).code, 0);
		key = (await caisson(['key', 'new', 'ada'], { env })).stdout.toString().trim();
		server = await serve({ profile: 'full', env });
	});
	after(() => server.program.end());

	/** Says what the server does if it never is. */
	const roomIsFree = async (): Promise<void> => {
		try {
			await until('the room is free again', async () => (await ask('GET', '/me')).budgets.answer_memory.used === 0);
		} catch (e) {
			const metrics = await (await fetch(`${server.base}/metrics`, { headers: { 'x-api-key': key } })).text();
			throw new Error(`${(e as Error).message}: ${JSON.stringify((await ask('GET', '/me')).budgets)} ${metrics.match(/^caisson_(workers|http|turn_seconds_c)\S* .*$/gm)?.join(', ')}`);
		}
	};

	it('(slow) 60 at once: some are made, the others are refused, and the front stays small; what is read is whole', async () => {
		const box = (await ask('POST', '/sandboxes', {})).id;
		const code = `${'#\u0001"'.repeat(16_000)}\nprint("\\x02<&" * 8000)`;
		for (let i = 0; i < runs; i++)
			assert.equal((await ask('POST', `/sandboxes/${box}/runs`, { code, wait: true })).exit_code, 0);
		const pid = server.program.child.pid!;
		const resident = residentBytes(pid);
		for (const format of ['ipynb', 'html']) {
			const path = `/api/v1/notebooks/${box}/export?format=${format}`;
			const all = await askUnread(server.base, Array.from({ length: 60 }, () => path), { 'x-api-key': key });
			try {
				assert.deepEqual(Object.keys(all.statuses), ['200', '429'], JSON.stringify(all.statuses));
				assert.ok(all.statuses[200]! >= 8 && all.statuses[200]! <= 16, JSON.stringify(all.statuses));
				assert.match(all.heads[429]!, /\r\nRetry-After: 10\r\n/);
				assert.ok(residentBytes(pid) - resident < (sanitized ? 128 : 48) * MiB, // sanitizers keep what was freed
					 `${residentBytes(pid) - resident} bytes more`);
			} finally {
				all.close();
			}
			await roomIsFree();
		}
		const whole: any = await (await fetch(`${server.base}/api/v1/notebooks/${box}/export`, { headers: { 'x-api-key': key } })).json();
		assert.deepEqual([whole.cells.length, whole.cells[0].source.slice(0, 3), whole.cells[0].outputs[0].text.slice(0, 3)], [runs, '#\u0001"', '\u0002<&']);
		const page = await (await fetch(`${server.base}/api/v1/notebooks/${box}/export?format=html`, { headers: { 'x-api-key': key } })).text();
		assert.equal(page.match(/<section>/g)?.length, runs);
		assert.ok(page.endsWith('</main></body></html>\n'));
	});

	it('an answer that was sent holds what its client has not taken, and no longer its reserve', async () => {
		const box = (await ask('POST', '/sandboxes', {})).id;
		assert.equal((await ask('POST', `/sandboxes/${box}/runs`, { code: '1', wait: true })).exit_code, 0);
		const { hostname, port, host } = new URL(server.base);
		const socket = net.connect(Number(port), hostname);
		let text = '';
		socket.on('data', (d) => { text += d.toString('latin1'); });
		const get = async (path: string, end: string): Promise<string> => {
			text = '';
			socket.write(`GET /api/v1${path} HTTP/1.1\r\nHost: ${host}\r\nX-API-Key: ${key}\r\n\r\n`);
			await until(`the answer of ${path}`, () => text.split('\r\n\r\n')[1]?.endsWith(end));
			return text;
		};
		// The kernel of a client that has asked often tells late what it has taken (delayed acknowledgements): the next request tells it.
		for (let i = 0; i < 40; i++) {
			await get(`/notebooks/${box}/export`, '\n]}\n');
			const used = Number(/"answer_memory":\{"used":(\d+)/.exec(await get('/me', '}'))?.[1]);
			assert.ok(used < MiB, `${used} bytes, round ${i}`);
		}
		socket.destroy();
	});

	it('(slow) an export ends with whatever it is of: the client, the history, the key', async () => {
		const box = (await ask('POST', '/sandboxes', {})).id;
		for (let i = 0; i < 30; i++)
			await ask('POST', `/sandboxes/${box}/runs`, { code: `print("x" * 30000)${'#'.repeat(60_000)}`, wait: true });
		const path = `/api/v1/notebooks/${box}/export`;
		for (let i = 0; i < 8; i++) {
			const all = await askUnread(server.base, Array.from({ length: 4 }, () => path), { 'x-api-key': key });
			if (i === 4)
				await ask('DELETE', `/notebooks/${box}`);
			if (i === 6)
				await ask('DELETE', `/sandboxes/${box}?force=true`);
			all.close();
		}
		await roomIsFree();
	});
});
