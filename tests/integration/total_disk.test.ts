// SPDX-License-Identifier: Apache-2.0
// SANDBOX_TOTAL_DISK: what all stored sandboxes may hold together, whoever makes them and in however many servers.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { mode } from '../lib/env.ts';
import { serve, type Json } from '../lib/session.ts';

const MiB = 1 << 20;
const env = { SANDBOX_TOTAL_DISK: '80m', SANDBOX_STORED_WORKSPACE_LIMIT: '20m', SANDBOX_USER_SANDBOX_LIMIT: '0', SANDBOX_POOL: '0' };

async function ask(base: string, method: string, path: string, body?: Json): Promise<{ status: number; body: Json }> {
	const r = await fetch(`${base}/api/v1${path}`, { method, headers: { 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
	const text = await r.text();
	return { status: r.status, body: text ? JSON.parse(text) as Json : {} };
}

describe('the disk of all stored sandboxes', () => {
	const servers: Awaited<ReturnType<typeof serve>>[] = [];
	before(async () => {
		servers.push(await serve({ profile: 'full', env }), await serve({ profile: 'full', env })); // with one state folder
	});
	after(async () => {
		for (const s of servers)
			await s.program.end();
	});
	const create = (n: number): ReturnType<typeof ask> => ask(servers[n % 2]!.base, 'POST', '/sandboxes', { kind: 'stored' });

	it('as a plain user none is made, for nothing counts their bytes', { skip: mode === 'root' && 'root has disks' }, async () => {
		const r = await create(0);
		assert.ok(r.status >= 400, JSON.stringify(r.body));
		assert.match(JSON.stringify(r.body), /cannot be limited/);
	});
	it('of many at once, in two servers, exactly those are made that fit', { skip: mode !== 'root' && 'a plain user has no disks' }, async () => {
		const all = await Promise.all(Array.from({ length: 10 }, (_, n) => create(n)));
		const made = all.filter((r) => r.status < 300);
		assert.equal(made.length, 4, JSON.stringify(all.map((r) => r.body)));
		for (const r of all.filter((k) => k.status >= 300))
			assert.match(JSON.stringify(r.body), /quota_exceeded.*SANDBOX_TOTAL_DISK/);
		const metrics = await (await fetch(`${servers[0]!.base}/metrics`)).text();
		assert.match(metrics, new RegExp(`^caisson_stored_bytes ${80 * MiB}$`, 'm'));
		const policy = (await ask(servers[0]!.base, 'GET', '/policy')).body;
		assert.equal(policy.total.disk_bytes, 80 * MiB);
		await ask(servers[0]!.base, 'DELETE', `/sandboxes/${made[0]!.body.id as string}`);
		assert.ok((await create(0)).status < 300, 'room that was given back');
		assert.ok((await create(1)).status >= 400);
	});
});
