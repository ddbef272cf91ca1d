// SPDX-License-Identifier: Apache-2.0
// Stored workspaces whose disk image was damaged on the host: by a failing disk, a full file system, a wrong hand. The kernel's ext4
// reads it, so the answers must be errors that say what happened, and everything else must go on. DAMAGE_SEED and DAMAGE_ROUNDS choose
// other random damage; a title names its seed.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { asker } from '../lib/asker.ts';
import { freePort, mode, newStateDir } from '../lib/env.ts';
import { random } from '../lib/data.ts';
import { serve } from '../lib/session.ts';
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

/** Commands of debugfs(8), which also corrects the checksums: the kernel meets what is wrong only when it uses it. `f0` stands for a block of the first file. */
function debug(file: string, ...commands: string[]): void {
	const blockOf = (what: string): string => execFileSync('debugfs', ['-R', `bmap ${what} 0`, file], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
	const script = commands.map((c) => c.replace('BLOCK(f0)', () => blockOf('data/d0/e/f0')).replace('BLOCK(d0)', () => blockOf('data/d0'))).join('\n');
	const r = execFileSync('debugfs', ['-w', '-f', '-', file], { input: `${script}\n`, encoding: 'utf8', stdio: ['pipe', 'pipe', 'pipe'] });
	assert.doesNotMatch(r, /unknown request|not found by ext2_lookup/i, r);
}

/** Another file system of the same length. */
function remake(file: string, ...options: string[]): void {
	execFileSync('mke2fs', ['-qF', ...options, file], { stdio: 'ignore' });
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
	{ name: 'a folder with a disk in it', make: (f) => { fs.renameSync(f, `${f}.x`); fs.mkdirSync(f); fs.renameSync(`${f}.x`, path.join(f, 'x.img')); }, hopeless: true },
	{ name: 'a link to nothing', make: (f) => { fs.rmSync(f); fs.symlinkSync('/nowhere', f); }, hopeless: true },
	{ name: 'a device', make: (f) => { fs.rmSync(f); execFileSync('mknod', [f, 'c', '1', '5']); }, hopeless: true },
	{ name: 'terabytes of nothing', make: (f) => { fs.truncateSync(f, 0); fs.truncateSync(f, 2 ** 43); }, hopeless: true },
	{ name: 'terabytes of nothing behind it', make: (f) => fs.truncateSync(f, 2 ** 43) },
	{ name: 'a byte too few', make: (f) => fs.truncateSync(f, fs.statSync(f).size - 1), hopeless: true },
	{ name: 'an empty ext4 of other features', make: (f) => remake(f, '-text4', '-Oencrypt,casefold,inline_data', '-b1024'), hopeless: true },
	{ name: 'an empty ext2', make: (f) => remake(f, '-text2'), hopeless: true },
	{ name: 'an empty ext3 with blocks of 2 KiB', make: (f) => remake(f, '-text3', '-b2048'), hopeless: true },
	{ name: 'a journal that is elsewhere', make: (f) => remake(f, '-Ojournal_dev', '-b4096'), hopeless: true },
	{ name: 'features that no kernel has', make: (f) => debug(f, 'ssv feature_incompat 0x80000000'), hopeless: true },
	{ name: 'errors are to panic', make: (f) => debug(f, 'ssv errors 3', 'ssv state 2', 'ssv mount_opts errors=panic') },
	{ name: 'mount options of its own', make: (f) => debug(f, 'ssv mount_opts usrjquota=f,debug,data=journal') },
	{ name: 'no root folder', make: (f) => debug(f, 'clri <2>'), hopeless: true },
	{ name: 'a root folder that is a file', make: (f) => debug(f, 'sif <2> mode 0100644'), hopeless: true },
	{ name: 'no folder for data', make: (f) => debug(f, 'clri data') },
	{ name: 'data that is a link', make: (f) => debug(f, 'kill_file data', 'unlink data', 'symlink data /etc'), hopeless: true },
	{ name: 'packages that are a file', make: (f) => debug(f, 'rm venv/pyvenv.cfg', 'rmdir venv', 'write /etc/hostname venv'), hopeless: true },
	{ name: 'packages that are a link', make: (f) => debug(f, 'rm venv/pyvenv.cfg', 'rmdir venv', 'symlink venv /etc'), hopeless: true },
	{ name: 'packages that are a link to nothing', make: (f) => debug(f, 'rm venv/pyvenv.cfg', 'rmdir venv', 'symlink venv /nowhere'), hopeless: true },
	{ name: 'data that is a device', make: (f) => debug(f, 'unlink data', 'mknod data b 254 0'), hopeless: true },
	{ name: 'no journal', make: (f) => debug(f, 'clri <8>'), hopeless: true },
	{ name: 'a journal in the root folder', make: (f) => debug(f, 'ssv journal_inum 2'), hopeless: true },
	{ name: 'a journal of rubbish to be replayed', make: (f) => { const bytes = Buffer.alloc(4096 * 4, 0xa5); const at = Number(execFileSync('debugfs', ['-R', 'bmap <8> 1', f], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })); debug(f, 'feature needs_recovery'); patch(f, at * 4096, bytes); } },
	{ name: 'orphans that are folders, and the journal', make: (f) => debug(f, 'ssv last_orphan 8') },
	{ name: 'orphans in a circle', make: (f) => debug(f, 'sif data/d0/e/f0 dtime 15', 'sif data/d0/e/f0 links_count 0', 'ssv last_orphan 15') },
	{ name: 'all blocks free', make: (f) => debug(f, 'set_bg 0 free_blocks_count 30000', 'freeb 600 3000') },
	{ name: 'bitmaps in the superblock', make: (f) => debug(f, 'set_bg 0 block_bitmap 0', 'set_bg 0 inode_bitmap 0', 'set_bg 0 checksum calc'), hopeless: true },
	{ name: 'an inode table behind the end', make: (f) => debug(f, 'set_bg 0 inode_table 0xfffffff0', 'set_bg 0 checksum calc'), hopeless: true },
	{ name: 'a file that is longer than the disk', make: (f) => debug(f, 'sif data/d0/e/f0 size 0x0fffffffffff') },
	{ name: 'a file of a terabyte with no end of its own', make: (f) => debug(f, 'sif data/d0/e/f0 size 0x10000000000', 'sif data/d1/e/f1 size 0x10000000000') },
	{ name: 'two files in one block', make: (f) => debug(f, 'sif data/d1/e/f1 block[5] BLOCK(f0)') },
	{ name: 'extents of any depth', make: (f) => debug(f, 'sif data/d0/e/f0 block[0] 0xfffff30a', 'sif data/d0/e/f0 block[1] 0x0005ffff') },
	{ name: 'a folder in itself', make: (f) => debug(f, 'link data data/d0/up', 'link data/d0 data/d0/e/me') },
	{ name: 'a folder whose block is another one\'s file', make: (f) => { const at = Number(execFileSync('debugfs', ['-R', 'bmap data/d0 0', f], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })); patch(f, at * 4096, Buffer.alloc(4096, 'kept')); } },
	{ name: 'device nodes and programs of root among the files', make: (f) => debug(f, 'mknod data/disk b 254 0', 'mknod data/mem c 1 1', 'sif data/d0/e/f0 mode 0106777', 'sif data/d0/e/f0 uid 0') },
	...Array.from({ length: Number(process.env.DAMAGE_ROUNDS ?? 8) }, (_, i) => ({ i, seed: Number(process.env.DAMAGE_SEED ?? 1) + i })).map(({ i, seed }) =>
		({ name: `${4 ** (i % 6)} bytes changed, seed ${seed}`, make: (f: string): void => flip(f, 4 ** (i % 6), seed) })),
];

describe('a damaged disk of a stored sandbox', { skip: mode !== 'root' && 'a plain user has folders, no disks' }, () => {
	const state = newStateDir();
	let server: Awaited<ReturnType<typeof serve>>;
	let healthy: string;
	const ask = asker(() => server.base);
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

	/** Lines of the kernel's log that say that the kernel itself was in trouble; undefined: this user may not read it. */
	const alarms = (): number | undefined => {
		const r = spawnSync('dmesg', { encoding: 'utf8', maxBuffer: 1 << 26 });
		return r.status === 0 ? r.stdout.split('\n').filter((l) => /BUG:|WARNING:|Oops|general protection|hung task|blocked for more than/.test(l)).length : undefined;
	};
	const alarmsBefore = alarms();

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
			if (!damage.hopeless) // it is open: what it claims must not be more than it can fill
				await create();
			assert.equal((await run(healthy, 'print(open("mine").read())')).body.stdout, 'untouched\n');
			assert.ok((await ask('DELETE', `/sandboxes/${id}`)).status < 300, 'it can be removed');
			assert.equal(fs.lstatSync(disk(id), { throwIfNoEntry: false }), undefined, 'and nothing of it is left');
			assert.ok(fs.existsSync('/etc/hostname'), 'what a link led to is there');
		});
	it('leaves no loop device, no mount and no complaint of the kernel', async (t) => {
		const ours = (file: string): boolean => {
			try {
				return fs.readFileSync(file, 'utf8').includes(state);
			} catch {
				return false; // it is free
			}
		};
		server.program.kill('SIGTERM');
		assert.equal((await server.program.exit).code, 0);
		await until('free loop devices', () => !fs.readdirSync('/sys/block').some((d) => ours(`/sys/block/${d}/loop/backing_file`)), 20_000);
		assert.ok(!fs.readFileSync('/proc/self/mountinfo', 'utf8').includes(state));
		if (alarmsBefore === undefined)
			t.diagnostic('the kernel\'s log cannot be read');
		else // its ring may have lost older lines
			assert.ok(alarms()! <= alarmsBefore, spawnSync('dmesg', { encoding: 'utf8', maxBuffer: 1 << 26 }).stdout.slice(-3000));
	});
});
