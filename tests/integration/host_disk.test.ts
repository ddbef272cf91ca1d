// SPDX-License-Identifier: Apache-2.0
// The disk of the host is smaller than what its sandboxes may hold together: nothing that was accepted is lost, and everybody is told.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { mode, scratch } from '../lib/env.ts';
import { SmallDisk } from '../lib/small-disk.ts';
import { type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const notRoot = mode !== 'root' && 'a plain user cannot mount disks';
const MIB = 1 << 20;
const waitMs = 30_000;

class Client {
	readonly disk: SmallDisk;
	constructor(disk: SmallDisk) {
		this.disk = disk;
	}
	async call(method: string, url: string, body?: unknown): Promise<{ status: number; body: Json }> {
		const r = await fetch(this.disk.base + url, { method, headers: { 'content-type': 'application/json' }, body: body === undefined ? undefined : JSON.stringify(body) });
		const text = await r.text();
		return { status: r.status, body: text ? JSON.parse(text) as Json : {} };
	}
	create(kind: 'session' | 'stored'): Promise<{ status: number; body: Json }> {
		return this.call('POST', '/api/v1/sandboxes', { kind });
	}
	async made(kind: 'session' | 'stored'): Promise<string> {
		const r = await this.create(kind);
		assert.equal(r.status, 201, JSON.stringify(r.body));
		return r.body.id as string;
	}
	async run(id: string, code: string): Promise<Json> {
		return (await this.call('POST', `/api/v1/sandboxes/${id}/runs`, { code, wait: true })).body;
	}
	async put(id: string, path: string, data: Uint8Array): Promise<number> {
		return (await fetch(`${this.disk.base}/api/v1/sandboxes/${id}/files/${path}`, { method: 'PUT', body: data as Uint8Array<ArrayBuffer> })).status;
	}
	async get(id: string, path: string): Promise<Buffer> {
		return Buffer.from(await (await fetch(`${this.disk.base}/api/v1/sandboxes/${id}/files/${path}`)).arrayBuffer());
	}
	async figure(name: string): Promise<number> {
		const text = await (await fetch(`${this.disk.base}/metrics`)).text();
		return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
	}
	/** The events of the owner. */
	async watch(): Promise<{ text: () => string; end: () => void }> {
		const abort = new AbortController();
		const r = await fetch(`${this.disk.base}/api/v1/events`, { signal: abort.signal });
		assert.equal(r.status, 200);
		let text = '';
		void (async () => {
			for await (const piece of r.body as unknown as AsyncIterable<Uint8Array>)
				text += Buffer.from(piece).toString();
		})().catch(() => {});
		return { text: () => text, end: () => abort.abort() };
	}
	async ready(): Promise<Json> {
		return (await this.call('GET', '/readyz')).body;
	}
}

/** Writes files of MiB each until there is no more space; prints how many were accepted whole. Each has its number in it. */
const fill = (name: string, most: number): string => `
n = 0
try:
    while n < ${most}:
        f = open(f"${name}{n}", "wb", buffering=0)
        b = n.to_bytes(4, "big") * (1 << 18)
        assert f.write(b) == len(b)
        n += 1
except OSError as e:
    assert e.errno == 28, e
    import os
    f.close(); os.remove(f.name)
open("after.txt", "w").write("written after") if n == ${most} else None
print(n)`;
const check = (name: string, n: number): string => `
for i in range(${n}):
    assert open(f"${name}{i}", "rb").read() == i.to_bytes(4, "big") * (1 << 18), i
print("whole")`;

describe('a host whose disk is small', { skip: notRoot }, () => {
	it('(slow) stored sandboxes that together want more than there is: nothing accepted is lost, after SIGKILL of everything', async () => {
		const d = new SmallDisk();
		const c = new Client(d);
		await d.serveOnDisk('3g', { SANDBOX_STORED_WORKSPACE_LIMIT: '2g', SANDBOX_STORED_WORKSPACE_FILES: '20000', SANDBOX_STORED_MAX_ACTIVE: '5' });
		try {
			const ids = [await c.made('stored'), await c.made('stored')];
			const watch = await c.watch(); // before the first of them finds that the disk is full
			const counts = await Promise.all(ids.map(async (id) => {
				const r = await c.run(id, fill('f', 1800));
				assert.equal(r.exit_code, 0, JSON.stringify(r));
				return Number(r.stdout);
			}));
			const sum = counts[0]! + counts[1]!;
			assert.ok(sum > 2200 && sum < 3000, `the disk is used: ${counts}`);
			// A part of what is left is kept for sandboxes that come next, so the last of it is taken in steps.
			let step = 0;
			await until('degraded', async () => {
				await Promise.all(ids.map((id) => c.run(id, fill(`more${step++}`, 300))));
				return (await c.ready()).status === 'degraded';
			}, waitMs);
			// its owner is told why: by the run, by the upload, by the sandbox and by an event
			await until('a sandbox that says so', async () => {
				const r = await c.run(ids[0]!, fill(`last${step++}`, 300));
				assert.equal(r.exit_code, 0, JSON.stringify(r));
				return (await c.call('GET', `/api/v1/sandboxes/${ids[0]}`)).body.host_disk_full;
			}, waitMs);
			const full = await c.run(ids[0]!, 'with open("x", "wb") as f: f.write(bytes(200 << 20))');
			assert.match(full.stderr as string, /No space left on device/);
			assert.match(full.hint as string, /Free space on the disk of the state folder/, JSON.stringify(full));
			const up = await fetch(`${d.base}/api/v1/sandboxes/${ids[0]}/files/up`, { method: 'PUT', body: new Uint8Array(40 * MIB) });
			assert.deepEqual([up.status, (await up.json() as Json).code], [507, 'host_disk_full']);
			await until('the event', () => /event: sandbox\.changed\ndata: .*"host_disk_full":true/.test(watch.text()), waitMs);
			watch.end();
			await until('the line of the log', () => /sandbox_stopped_by_host_disk/.test(d.program.stderr), waitMs);
			const refused = await c.create('session');
			assert.deepEqual([refused.status, refused.body.code], [507, 'host_disk_full'], JSON.stringify(refused.body));
			for (const [i, id] of ids.entries()) {
				const r = await c.run(id, `import os; os.sync()${check('f', counts[i]!)}`);
				assert.equal(r.stdout, 'whole\n', JSON.stringify(r));
			}
			assert.ok(await c.figure('caisson_host_disk_free_bytes') >= 0.9 * await c.figure('caisson_host_disk_reserve_bytes'));
			await d.again();
			for (const [i, id] of ids.entries()) {
				const r = await c.run(id, check('f', counts[i]!));
				assert.equal(r.stdout, 'whole\n', JSON.stringify(r));
			}
			// space that one gives back can be used by the other
			assert.equal((await c.run(ids[0]!, 'import glob, os\nfor f in glob.glob("f*"): os.remove(f)')).exit_code, 0);
			const more = await until('room for the other', async () => {
				const r = await c.run(ids[1]!, fill('g', 100));
				return Number(r.stdout) === 100 && r;
			}, waitMs);
			assert.equal(more.exit_code, 0);
		} finally {
			await d.end();
		}
	});

	it('(slow) what a stored sandbox has accepted outlives a program that takes the whole disk, and SIGKILL', async () => {
		const d = new SmallDisk();
		const c = new Client(d);
		await d.serveOnDisk('400m', { SANDBOX_STORED_WORKSPACE_LIMIT: '200m', SANDBOX_STORED_WORKSPACE_FILES: '1000', SANDBOX_STATE_DIR: `${d.state}/` });
		try {
			const id = await c.made('stored');
			const data = new Uint8Array(40 * MIB).map((_, i) => i % 251);
			assert.equal(await c.put(id, 'before', data), 201);
			assert.equal((await c.run(id, fill('f', 30))).stdout, '30\n');
			// the blocks of the sandbox are its own meanwhile
			await until('its blocks', () => fs.statSync(d.file(`workspaces/${id}.img`)).blocks * 512 > 150 * MIB, waitMs);
			d.fill();
			await until('degraded', async () => ((await c.ready()).reasons as string[] | undefined)?.includes('host_disk_full'), waitMs);
			const full = await c.run(id, 'open("late", "wb").write(bytes(1 << 20))');
			assert.match(full.stderr as string, /No space left on device/);
			assert.equal(await c.put(id, 'up', new Uint8Array(4 * MIB)), 507);
			assert.equal((await c.run(id, check('f', 30))).stdout, 'whole\n');
			await d.again();
			assert.deepEqual(await c.get(id, 'before'), Buffer.from(data), 'an upload that was answered 201');
			assert.equal((await c.run(id, check('f', 30))).stdout, 'whole\n');
			assert.equal((await c.run(id, 'print(open("after.txt").read())')).stdout, 'written after\n');
			d.free();
			await until('writing again', async () => (await c.run(id, 'open("again", "wb").write(bytes(1 << 20))')).exit_code === 0, waitMs);
		} finally {
			await d.end();
		}
	});

	it('(slow) an active stored sandbox gives up what it does not use when another program needs it', async () => {
		const d = new SmallDisk();
		const c = new Client(d);
		await d.serveOnDisk('1500m', { SANDBOX_STORED_WORKSPACE_LIMIT: '1g', SANDBOX_STORED_WORKSPACE_FILES: '1000' });
		try {
			const id = await c.made('stored');
			assert.equal((await c.run(id, fill('f', 100))).stdout, '100\n');
			const blocks = (): number => fs.statSync(d.file(`workspaces/${id}.img`)).blocks * 512;
			await until('the whole disk', () => blocks() > 950 * MIB, waitMs);
			for (let taken = 20; taken <= 700; taken += 20) {
				execFileSync('fallocate', ['-l', `${taken}m`, d.file('other')]);
				await sleep(50);
			}
			assert.ok(blocks() < 750 * MIB, `${blocks() / MIB} MiB`);
			assert.ok(await c.figure('caisson_host_disk_free_bytes') >= await c.figure('caisson_host_disk_reserve_bytes'));
			assert.equal((await c.run(id, check('f', 100))).stdout, 'whole\n');
			assert.equal((await c.run(id, fill('g', 50))).stdout, '50\n', 'and it goes on');
		} finally {
			await d.end();
		}
	});

	it('(slow) the blocks of a stored sandbox whose server was killed go back at the next start; the state folder is a symbolic link', async () => {
		const d = new SmallDisk();
		const c = new Client(d);
		const link = path.join(scratch('link'), 'state');
		fs.symlinkSync(d.state, link);
		await d.serveOnDisk('400m', { SANDBOX_STORED_WORKSPACE_LIMIT: '200m', SANDBOX_STORED_WORKSPACE_FILES: '1000', SANDBOX_STATE_DIR: link });
		try {
			const id = await c.made('stored');
			assert.equal((await c.run(id, fill('f', 30))).stdout, '30\n');
			const blocks = (): number => fs.statSync(d.file(`workspaces/${id}.img`)).blocks * 512;
			await until('its blocks', () => blocks() > 150 * MIB, waitMs);
			await d.again();
			await until('blocks that its files do not need to be given back', () => blocks() < 60 * MIB, waitMs);
			assert.equal(fs.statSync(d.file(`workspaces/${id}.img`)).mode & 0o7777, 0o600);
			assert.equal((await c.run(id, check('f', 30))).stdout, 'whole\n');
			await until('its blocks', () => blocks() > 150 * MIB, waitMs);
			// the guard works behind a link, too
			d.fill();
			await until('degraded', async () => ((await c.ready()).reasons as string[] | undefined)?.includes('host_disk_full'), waitMs);
			assert.match((await c.run(id, 'open("late", "wb").write(bytes(1 << 20))')).stderr as string, /No space left on device/);
			d.free();
			await until('writing again', async () => (await c.run(id, 'open("again", "wb").write(bytes(1 << 20))')).exit_code === 0, waitMs);
		} finally {
			await d.end();
		}
	});

	it('checkpoints, branches and forks say that the disk of the host is full, not that of the sandbox', async () => {
		const d = new SmallDisk();
		const c = new Client(d);
		await d.serveOnDisk('600m', { SANDBOX_WORKSPACE_LIMIT: '300m', SANDBOX_WORKSPACE_FILES: '1000' });
		try {
			const id = await c.made('session');
			assert.equal((await c.run(id, fill('f', 60))).stdout, '60\n');
			const copies: [string, unknown][] = [['checkpoints', { name: 'kept' }], ['branches', { branches: [{ code: 'x = 1' }] }], ['forks', {}]];
			const copy = ([what, body]: [string, unknown]): Promise<{ status: number; body: Json }> => c.call('POST', `/api/v1/sandboxes/${id}/${what}`, body);
			d.fill(16 * MIB);
			await until('the disks to be closed', async () => (await c.ready()).status === 'degraded', waitMs);
			for (const asked of copies) {
				const r = await copy(asked);
				assert.deepEqual([r.status, r.body.code], [507, 'host_disk_full'], JSON.stringify(r.body));
			}
			assert.equal((await c.run(id, check('f', 60))).stdout, 'whole\n');
			d.free();
			await until('a checkpoint', async () => (await copy(copies[0]!)).status === 201, waitMs);
		} finally {
			await d.end();
		}
	});

	it('many made at once get a disk each, and then their shares', async () => {
		const d = new SmallDisk();
		const c = new Client(d);
		const all = 80;
		await d.serveOnDisk('3400m', { SANDBOX_WORKSPACE_LIMIT: '512m', SANDBOX_WORKSPACE_FILES: '1000', SANDBOX_WARM: 'off', SANDBOX_MAX_SESSIONS: '100', SANDBOX_USER_SANDBOX_LIMIT: '0' });
		try {
			// those that rest have all of the disk at first, and give it to those that come
			const ids = await Promise.all(Array.from({ length: 5 }, () => c.made('session')));
			const made = await Promise.all(Array.from({ length: all - ids.length }, () => c.create('session')));
			assert.deepEqual(made.filter((r) => r.status !== 201).map((r) => r.body), []);
			ids.push(...made.map((r) => r.body.id as string));
			const r = await until('the share of one that is filled', async () => {
				const said = await c.run(ids.at(-1)!, fill('f', 100));
				return Number(said.stdout) === 100 && said;
			}, waitMs);
			assert.equal(r.exit_code, 0);
			assert.equal((await c.run(ids[0]!, fill('f', 10))).stdout, '10\n');
		} finally {
			await d.end();
		}
	});

	it('no sandbox is told that there is no space while there is: (timing) one that writes fast, another that rests', async () => {
		const d = new SmallDisk();
		const c = new Client(d);
		await d.serveOnDisk('3g', { SANDBOX_WORKSPACE_LIMIT: '2g', SANDBOX_MEMORY_LIMIT: '1g' });
		try {
			const [rests, writes] = [await c.made('session'), await c.made('session')];
			assert.equal((await c.run(rests, fill('f', 100))).stdout, '100\n');
			const r = await c.run(writes, 'import time\nt = time.time()\nb = bytes(1 << 20)\nf = open("big", "wb", buffering=0)\nfor i in range(1700): f.write(b)\nprint(int(1700 / (time.time() - t)), "MiB/s")');
			assert.equal(r.exit_code, 0, JSON.stringify(r));
			assert.equal((await c.run(rests, check('f', 100))).stdout, 'whole\n');
			// what is removed goes back to the host when the sandbox rests
			assert.equal((await c.run(writes, 'import os; os.fsync(os.open("big", os.O_RDWR))')).exit_code, 0);
			await until('the blocks to be taken', async () => await c.figure('caisson_host_disk_free_bytes') < 1300 * MIB, waitMs);
			assert.equal((await c.run(writes, 'import os; os.remove("big")')).exit_code, 0);
			await until('free again', async () => await c.figure('caisson_host_disk_free_bytes') > 2200 * MIB, waitMs);
			assert.doesNotMatch((await c.run(writes, 'print([l for l in open("/proc/mounts") if " /mnt/data " in l])')).stdout as string, /discard|data=writeback/);
		} finally {
			await d.end();
		}
	});
});

/** Counts the files of fill(). Those of which the last byte was accepted are whole; a run that was ended leaves one that is not. */
const filled = (name: string): string => `
import os
n = sum(f.startswith("${name}") and f[1:].isdigit() for f in os.listdir("."))
for i in range(n):
    if open(f"${name}{i}", "rb").read() != i.to_bytes(4, "big") * (1 << 18):
        assert i == n - 1, (i, n)
        n -= 1
print(n)`;

// Folders instead of disks: init ends the run that takes the reserve, and a write beyond the host's last block fails in the kernel.
describe('a host whose disk is small, and a server of a plain user', { skip: mode !== 'user' ? 'root has disks' : process.getuid!() !== 0 && 'only root can mount the small disk' }, () => {
	it('everybody is told, and nothing that was accepted is lost after SIGKILL', async () => {
		const d = new SmallDisk();
		const c = new Client(d);
		await d.serveOnDisk('400m', { SANDBOX_WARM: 'off' });
		const full = async (): Promise<boolean> => ((await c.ready()).reasons as string[] | undefined)?.includes('host_disk_full') ?? false;
		try {
			const ids = [await c.made('stored'), await c.made('stored')];
			const watch = await c.watch();
			const data = new Uint8Array(40 * MIB).map((_, i) => i % 251);
			assert.equal(await c.put(ids[0]!, 'before', data), 201);
			assert.equal((await c.run(ids[1]!, fill('f', 20))).stdout, '20\n');
			const first = await c.run(ids[0]!, fill('f', 600));
			assert.ok(first.reason === 'disk_limit' || (first.exit_code === 0 && Number(first.stdout) < 300), JSON.stringify(first));
			await until('degraded', full, waitMs);
			await until('a sandbox that says so', async () => (await c.call('GET', `/api/v1/sandboxes/${ids[0]}`)).body.host_disk_full, waitMs);
			await until('the event', () => /event: sandbox\.changed\ndata: .*"host_disk_full":true/.test(watch.text()), waitMs);
			watch.end();
			await until('the line of the log', () => /sandbox_stopped_by_host_disk/.test(d.program.stderr), waitMs);
			const more = await c.run(ids[0]!, 'import time\nopen("more", "wb").write(bytes(8 << 20))\ntime.sleep(20)');
			assert.ok(more.reason === 'disk_limit' || more.exit_code === 1, JSON.stringify(more));
			assert.match(more.hint as string, /Free space on the disk of the state folder/, JSON.stringify(more));
			const up = await fetch(`${d.base}/api/v1/sandboxes/${ids[1]}/files/up`, { method: 'PUT', body: new Uint8Array(4 * MIB) });
			assert.deepEqual([up.status, (await up.json() as Json).code], [507, 'host_disk_full']);
			const refused = await c.create('stored');
			assert.deepEqual([refused.status, refused.body.code], [507, 'host_disk_full'], JSON.stringify(refused.body));
			// another program takes the reserve, too
			d.fill();
			const none = await c.run(ids[1]!, 'with open("x", "wb") as f: f.write(bytes(1 << 20))');
			// by the kernel, or by init if the first bytes found a free block
			assert.ok(/No space left on device/.test(none.stderr as string) || none.reason === 'disk_limit', JSON.stringify(none));
			assert.match(none.hint as string, /Free space on the disk of the state folder/, JSON.stringify(none));
			const found = await Promise.all(ids.map((id) => c.run(id, filled('f'))));
			const counts = found.map((r) => Number(r.stdout));
			assert.ok(counts[0]! > 60 && counts[1] === 20, JSON.stringify(found));
			await d.again();
			assert.deepEqual(await c.get(ids[0]!, 'before'), Buffer.from(data), 'an upload that was answered 201');
			for (const [i, id] of ids.entries()) {
				const r = await c.run(id, filled('f'));
				assert.equal(r.stdout, `${counts[i]}\n`, JSON.stringify(r));
			}
			assert.equal((await c.run(ids[1]!, 'print(open("after.txt").read())')).stdout, 'written after\n');
			// room again: for those that are there, and for a new one
			d.free();
			assert.equal((await c.run(ids[0]!, 'import glob, os\nfor f in glob.glob("f*"): os.remove(f)')).exit_code, 0);
			await until('ready', async () => (await c.ready()).status === 'ready', waitMs);
			assert.equal((await c.run(ids[1]!, fill('g', 20))).stdout, '20\n');
			assert.equal((await c.create('stored')).status, 201);
			assert.equal((await c.call('GET', `/api/v1/sandboxes/${ids[1]}`)).body.host_disk_full, undefined);
		} finally {
			await d.end();
		}
	});
});
