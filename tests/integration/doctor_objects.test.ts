// SPDX-License-Identifier: Apache-2.0
// What `caisson doctor` says of a router's object store: it tries the store, which the test itself is, with an object of its own.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { newStateDir, productUid, scratch } from '../lib/env.ts';
import { caisson } from '../lib/process.ts';

interface Row { id: string; state: string; value: string; mend: string }
type Fault = 'refuses' | 'garbles' | 'keeps' | 'copies' | 'hides' | 'hangs up';

/** As much of S3 as doctor asks for, with one fault at a time. */
class Store {
	readonly objects = new Map<string, string>();
	readonly asked: string[] = [];
	fault: Fault | null = null;
	readonly server = http.createServer((from, to) => {
		const url = new URL(from.url!, 'http://localhost'), chunks: Buffer[] = [];
		from.on('data', (c: Buffer) => chunks.push(c)).on('end', () => this.answer(from, to, url, Buffer.concat(chunks).toString()));
	});

	private answer(from: http.IncomingMessage, to: http.ServerResponse, url: URL, body: string): void {
		const key = url.pathname.slice('/snapshots/'.length);
		const says = (status: number, code: string): void => void to.writeHead(status).end(`<?xml version="1.0"?><Error><Code>${code}</Code></Error>`);
		this.asked.push(`${from.method} ${url.pathname}`);
		if (this.fault === 'hangs up')
			return void to.destroy();
		if (this.fault === 'refuses' || !url.searchParams.get('X-Amz-Signature'))
			return says(403, 'AccessDenied');
		const source = from.headers['x-amz-copy-source'];
		if (from.method === 'PUT') {
			if (source !== undefined && this.fault !== 'copies')
				return says(403, 'AccessDenied');
			this.objects.set(key, source === undefined ? body : this.objects.get(String(source).slice('/snapshots/'.length)) ?? '');
			return void to.end();
		}
		if (from.method === 'DELETE') {
			if (this.fault !== 'keeps')
				this.objects.delete(key);
			return void to.writeHead(204).end();
		}
		const text = this.objects.get(key);
		if (text === undefined)
			return this.fault === 'hides' ? says(403, 'AccessDenied') : says(404, 'NoSuchKey');
		to.end(this.fault === 'garbles' ? [...text].reverse().join('') : text);
	}
}

describe('doctor and the object store of a fleet', () => {
	const store = new Store(), dir = scratch('objects');
	let env: Record<string, string>, port: number;

	before(async () => {
		await new Promise<void>((done) => void store.server.listen(0, '127.0.0.1', done));
		port = (store.server.address() as AddressInfo).port;
		env = { SANDBOX_ROLE: 'router', SANDBOX_STATE_DIR: newStateDir(), SANDBOX_OBJECTS_ENDPOINT: `http://127.0.0.1:${port}`, SANDBOX_OBJECTS_BUCKET: 'snapshots',
			SANDBOX_OBJECTS_PATH_STYLE: 'on', SANDBOX_OBJECTS_CREDENTIALS: file('keys', 'aws_access_key_id = ACCESS\naws_secret_access_key = SECRET\n') };
	});
	after(() => (store.server.closeAllConnections(), store.server.close()));

	const file = (name: string, text: string): string => {
		fs.writeFileSync(path.join(dir, name), text, { mode: 0o600 });
		fs.chownSync(path.join(dir, name), productUid, productUid);
		return path.join(dir, name);
	};
	const row = async (fault: Fault | null, change: Record<string, string> = {}): Promise<Row> => {
		store.fault = fault;
		store.objects.clear();
		store.asked.length = 0;
		return (JSON.parse((await caisson(['doctor', '--json'], { env: { ...env, ...change } })).stdout.toString()) as { rows: Row[] }).rows.find((r) => r.id === 'objects')!;
	};

	it('writes, reads and deletes one object, and leaves none', async () => {
		const r = await row(null);
		assert.deepEqual([r.state, r.value], ['note', `bucket snapshots at 127.0.0.1:${port}: writes, reads and deletes`], JSON.stringify(r));
		assert.match(r.mend, /^https:\/\//, 'signed addresses pass in the clear');
		assert.deepEqual([...store.objects.keys()], []);
		assert.ok(store.asked.every((a) => / \/snapshots\/caisson\/doctor\/[0-9a-f]{32}(-copy)?$/.test(a)), store.asked.join());
	});
	for (const [fault, state, says] of [
		['refuses', 'missing', /PUT.*(refused|AccessDenied|403)/s],
		['garbles', 'missing', /GET caisson\/doctor\/[0-9a-f]{32}: other bytes than were stored/],
		['keeps', 'missing', /it is still there after DELETE/],
		['hides', 'missing', /a deleted object \(the account needs s3:ListBucket, too\)/],
	] as const)
		it(`says what is wrong with a store that ${fault}`, async () => {
			const r = await row(fault);
			assert.equal(r.state, state, JSON.stringify(r));
			assert.match(r.value, says);
			assert.match(r.mend, /docs\/fleet\.md/);
			if (fault !== 'keeps')
				assert.deepEqual([...store.objects.keys()], [], 'nothing is left in the bucket');
		});
	it('warns of a store that heeds headers which were not signed, and takes the copy away again', async () => {
		const r = await row('copies');
		assert.equal(r.state, 'note', JSON.stringify(r));
		assert.match(r.mend, /X-Amz-Copy-Source.*reads every object/);
		assert.deepEqual([...store.objects.keys()], []);
	});
	it('says whether stored sandboxes are saved there', async () => {
		const r = await row(null, { SANDBOX_OBJECTS_KEY: file('snapshots.key', 'x'.repeat(32)), SANDBOX_DATABASE: file('database', 'postgresql://127.0.0.1:1/none') });
		assert.match(r.value, /: writes, reads and deletes; stored sandboxes are saved there$/);
	});
	it('names the setting that is wrong, without a request', async () => {
		const database = file('database', 'postgresql://127.0.0.1:1/none');
		for (const [change, says] of [
			[{ SANDBOX_OBJECTS_CREDENTIALS: file('short', 'aws_access_key_id = ACCESS\n') }, /SANDBOX_OBJECTS_CREDENTIALS/],
			[{ SANDBOX_OBJECTS_CREDENTIALS: path.join(dir, 'missing') }, /SANDBOX_OBJECTS_CREDENTIALS.*No such file/],
			[{ SANDBOX_OBJECTS_BUCKET: '' }, /needs SANDBOX_OBJECTS_BUCKET, too/],
			[{ SANDBOX_OBJECTS_KEY: file('snapshots.key', 'x'.repeat(32)) }, /SANDBOX_OBJECTS_KEY needs SANDBOX_DATABASE, too/],
			[{ SANDBOX_OBJECTS_KEY: path.join(dir, 'missing'), SANDBOX_DATABASE: database }, /SANDBOX_OBJECTS_KEY.*No such file/],
			[{ SANDBOX_OBJECTS_KEY: file('short.key', 'x'.repeat(31)), SANDBOX_DATABASE: database }, /short\.key has fewer than 32 bytes/],
			[{ SANDBOX_ROLE: 'all' }, /for the routers of a fleet/],
		] as [Record<string, string>, RegExp][]) {
			const r = await row(null, change);
			assert.deepEqual([r.state, says.test(r.value), store.asked], ['missing', true, []], JSON.stringify(r));
			assert.ok(!r.value.includes('SECRET'));
		}
	});
});
