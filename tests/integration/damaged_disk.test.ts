// SPDX-License-Identifier: Apache-2.0
// Stored workspaces whose disk image was damaged on the host: by a failing disk, a full file system, a wrong hand. The kernel's ext4
// reads it, so the answers must be errors that say what happened, and everything else must go on.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { freePort, mode, newStateDir } from '../lib/env.ts';
import { random } from '../lib/data.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const MiB = 1 << 20;

/** Writes BYTES at OFFSET of FILE. */
function patch(file: string, offset: number, bytes: Buffer): void {
	const fd = fs.openSync(file, 'r+');
	fs.writeSync(fd, bytes, 0, bytes.length, offset);
	fs.closeSync(fd);
}

/** N bytes of the allocated parts of FILE, which hold all structures of the file system, get another value. */
function flip(file: string, n: number, seed: number): void {
	const next = random(seed);
	const data = fs.readFileSync(file);
	const used = Array.from({ length: data.length / 4096 }, (_, i) => i).filter((i) => data.subarray(i * 4096, i * 4096 + 4096).some((b) => b !== 0));
	for (let i = 0; i < n; i++) {
		const at = used[Math.floor(next() * used.length)]! * 4096 + Math.floor(next() * 4096);
		patch(file, at, Buffer.from([data[at]! ^ (1 + Math.floor(next() * 255))]));
	}
}

interface Damage {
	name: string;
	make(file: string): void;
	/** No sandbox can be made of it. Otherwise it may work, with the files or without. */
	hopeless?: boolean;
}

const damages: readonly Damage[] = [
	{ name: 'an empty file', make: (f) => fs.truncateSync(f, 0), hopeless: true },
	{ name: 'the first MiB lost', make: (f) => patch(f, 0, Buffer.alloc(MiB)), hopeless: true },
	{ name: 'cut to its half', make: (f) => fs.truncateSync(f, fs.statSync(f).size / 2), hopeless: true },
	{ name: 'text in its place', make: (f) => fs.writeFileSync(f, 'not a disk\n'), hopeless: true },
	{ name: 'a link in its place', make: (f) => { fs.rmSync(f); fs.symlinkSync('/etc/hostname', f); }, hopeless: true },
	{ name: 'a folder in its place', make: (f) => { fs.rmSync(f); fs.mkdirSync(f); }, hopeless: true },
	{ name: 'a pipe in its place', make: (f) => { fs.rmSync(f); execFileSync('mkfifo', [f]); }, hopeless: true },
	...Array.from({ length: 8 }, (_, i) => ({ name: `${4 ** (i % 4)} bytes changed, ${i < 4 ? 'once' : 'again'}`, make: (f: string): void => flip(f, 4 ** (i % 4), i + 1) })),
];

describe('a damaged disk of a stored sandbox', { skip: mode !== 'root' && 'a plain user has folders, no disks' }, () => {
	const state = newStateDir();
	let server: Awaited<ReturnType<typeof serve>>;
	let healthy: string;
	const ask = async (method: string, where: string, body?: Json): Promise<{ status: number; body: Json }> => {
		const r = await fetch(`${server.base}/api/v1${where}`, { method, headers: { 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
		const text = await r.text();
		return { status: r.status, body: text ? JSON.parse(text) as Json : {} };
	};
	const create = async (): Promise<string> => {
		const r = await ask('POST', '/sandboxes', { kind: 'stored' });
		assert.equal(r.status, 201, JSON.stringify(r.body));
		return r.body.id as string;
	};
	const run = (id: string, code: string): ReturnType<typeof ask> => ask('POST', `/sandboxes/${id}/runs`, { code, wait: true });
	const disk = (id: string): string => path.join(state, 'workspaces', `${id}.img`);
	/** Nobody has the disk's lock any more. */
	const released = (id: string): Promise<unknown> => until(`${id} is put away`, () => {
		try {
			execFileSync('flock', ['-n', '-x', disk(id), 'true']);
			return true;
		} catch {
			return false;
		}
	}, 20_000);

	before(async () => {
		server = await serve({ profile: 'full', env: {
			SANDBOX_STATE_DIR: state, SANDBOX_IMAGE: 'base', SANDBOX_STORED_WORKSPACE_LIMIT: '16m', SANDBOX_STORED_WORKSPACE_FILES: '200',
			SANDBOX_USER_SANDBOX_LIMIT: '0', SANDBOX_STORED_MAX_ACTIVE: '1', SANDBOX_HTTP_PORT: String(await freePort()), SANDBOX_POOL: '0',
		} });
		healthy = await create();
		assert.equal((await run(healthy, 'open("mine", "w").write("untouched")')).body.exit_code, 0);
	});
	after(async () => server?.program.end());

	for (const damage of damages)
		it(damage.name, async () => {
			const id = await create();
			assert.equal((await run(id, 'import os\nfor i in range(50):\n    os.makedirs(f"d{i % 7}/e", exist_ok=True)\n    open(f"d{i % 7}/e/f{i}", "w").write("kept" * 500)')).body.exit_code, 0);
			assert.equal((await run(healthy, 'pass')).body.exit_code, 0); // one may be active: the other is put away
			await released(id);
			damage.make(disk(id));
			const r = await run(id, 'import os\nn = 0\nfor d, _, names in os.walk("."):\n    for name in names:\n        try: n += open(f"{d}/{name}").read() == "kept" * 500\n        except OSError as e: print(e)\nopen("new", "w").write("x")\nprint(n)');
			if (damage.hopeless)
				assert.equal(r.body.code, 'workspace_damaged', JSON.stringify(r));
			else if (r.status >= 300) // init itself may read what is damaged, and end
				assert.match(r.body.code, /^(workspace_damaged|sandbox_lost)$/, JSON.stringify(r));
			assert.equal((await run(healthy, 'print(open("mine").read())')).body.stdout, 'untouched\n');
			assert.ok((await ask('DELETE', `/sandboxes/${id}`)).status < 300, 'it can be removed');
			assert.equal(fs.lstatSync(disk(id), { throwIfNoEntry: false }), undefined, 'and nothing of it is left');
			assert.ok(fs.existsSync('/etc/hostname'), 'what a link led to is there');
		});
});
