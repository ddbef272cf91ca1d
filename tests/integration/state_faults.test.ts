// SPDX-License-Identifier: Apache-2.0
// The state folder cannot be written, or its disk is full: what needs no disk goes on, the rest fails with a typed error that says
// what to do, nothing is damaged, and all of it works again afterwards without a restart.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { binary, imagesDir, mode, newStateDir, scratch } from '../lib/env.ts';
import { failing } from '../lib/failing.ts';
import { caisson, type Exit } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { SmallDisk } from '../lib/small-disk.ts';
import { until } from '../lib/wait.ts';
import { Index, wheel, wheelName } from '../lib/wheel.ts';

const isRoot = process.getuid!() === 0;
const notRoot = !isRoot && 'only root may interfere with processes of the server';
const rootOnly = mode !== 'root' && 'only root may mount a disk of its own';
const waitMs = 30_000;

interface Reply { status: number; body: Json }

async function ask(base: string, method: string, target: string, body?: Json | string): Promise<Reply> {
	const json = typeof body === 'object';
	const r = await fetch(`${base}/api/v1/${target}`, { method, headers: json ? { 'content-type': 'application/json' } : {}, body: json ? JSON.stringify(body) : body });
	const text = await r.text();
	return { status: r.status, body: text ? JSON.parse(text) as Json : {} };
}
async function good(base: string, method: string, target: string, body?: Json | string): Promise<Json> {
	const r = await ask(base, method, target, body);
	assert.ok(r.status < 300, `${method} ${target}: ${JSON.stringify(r)}`);
	return r.body;
}
const run = async (base: string, id: string, code: string): Promise<string> => {
	const r = await good(base, 'POST', `sandboxes/${id}/runs`, { code, wait: true });
	assert.equal(r.exit_code, 0, JSON.stringify(r));
	return r.stdout as string;
};
const metric = async (base: string, name: string): Promise<number> =>
	Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(await (await fetch(`${base}/metrics`)).text())![1]);
const times = (text: string, what: RegExp): number => [...text.matchAll(new RegExp(what, 'g'))].length;

/** A refusal with its type, and with words about what to do. */
function refused(r: Reply, status: number, code: string, hint: RegExp): void {
	assert.deepEqual([r.status, r.body.code], [status, code], JSON.stringify(r));
	assert.match(r.body.hint as string, hint);
	assert.ok((r.body.detail as string).length > 0);
}

/** Adds rows of some size until the store takes no more. */
async function addUntilRefused(base: string): Promise<Reply> {
	for (let i = 0; i < 2000; i++) {
		const r = await ask(base, 'POST', 'users', { name: `user-${i}-${'x'.repeat(40)}` });
		if (r.status !== 201)
			return r;
	}
	throw new Error('the disk is not full');
}

async function historyIs(base: string, ids: string[]): Promise<void> {
	await until('all rows of history', async () => {
		const rows = (await good(base, 'GET', 'runs?limit=100')).runs as Json[];
		return ids.every((id) => rows.filter((r) => r.sandbox === id).length > 0);
	}, waitMs);
}

/** SQLite's own opinion of a copy of the database. */
function isWhole(state: (name: string) => string): void {
	const copy = scratch('database');
	for (const name of ['caisson.db', 'caisson.db-wal'])
		fs.copyFileSync(state(name), path.join(copy, name));
	const db = new DatabaseSync(path.join(copy, 'caisson.db'));
	assert.deepEqual(db.prepare('PRAGMA integrity_check').all().map((r) => Object.values(r)), [['ok']]);
	db.close();
}

describe('a database that a newer program has changed', () => {
	it('is refused with a sentence, stays as it is, and is used again by the program that knows it', async () => {
		const state = newStateDir();
		const env = { SANDBOX_STATE_DIR: state, SANDBOX_HTTP_PORT: 'off' };
		const made = await caisson(['user', 'add', 'Ada', '--password', 'none'], { env });
		assert.equal(made.code, 0, made.stderr.toString());
		const inside = <T>(fn: (db: DatabaseSync) => T): T => {
			const db = new DatabaseSync(path.join(state, 'caisson.db'));
			try {
				return fn(db);
			} finally {
				db.close();
			}
		};
		const tables = (): unknown[] => inside((db) => [db.prepare('SELECT * FROM migrations ORDER BY version').all(),
			db.prepare('SELECT name, sql FROM sqlite_master ORDER BY name').all(), db.prepare('SELECT * FROM users').all()]);
		const added = inside((db) => db.prepare('INSERT INTO migrations VALUES(4000000, 0)').run().changes);
		assert.equal(Number(added), 1);
		const before = tables();
		for (const args of [['serve', '--listen', '127.0.0.1:0'], ['user', 'list']]) {
			const r = await caisson(args, { env });
			assert.equal(r.code, 71, `${args[0]}: ${r.stderr}`);
			assert.match(r.stderr.toString(), /\/caisson\.db: a newer version of this program has changed the database \(its tables have version 4000000, this one knows \d+\): use that version, or restore a backup into a new state folder\b/);
			assert.deepEqual(tables(), before);
		}
		inside((db) => db.exec('DELETE FROM migrations WHERE version = 4000000'));
		const again = await caisson(['user', 'list'], { env });
		assert.equal(again.code, 0, again.stderr.toString());
		assert.match(again.stdout.toString(), /Ada/);
	});
});

describe('a state folder that is read-only', () => {
	function inReadOnly(state: string, args: string[]): Promise<Exit> {
		const env = { SANDBOX_STATE_DIR: state, SANDBOX_HTTP_PORT: 'off' };
		if (mode === 'user') { // its owner's own mistake
			fs.chmodSync(state, 0o555);
			return caisson(args, { env });
		}
		const mount = 'mount --bind "$SANDBOX_STATE_DIR" "$SANDBOX_STATE_DIR" && mount -o remount,bind,ro "$SANDBOX_STATE_DIR" && exec "$@"';
		return caisson(['--mount', '--propagation', 'private', '--', 'sh', '-c', mount, 'sh', binary, ...args], { env, program: 'unshare' });
	}
	function refusesToStart(r: Exit): void {
		assert.equal(r.code, 73, r.stderr.toString());
		assert.match(r.stderr.toString(), /^ERROR: \/.*caisson\.db: .*(Read-only|readonly|Permission denied|unable to open).*\. Make the state folder writable .* SANDBOX_STATE_DIR\.$/m);
	}
	const newState = (): string => {
		const state = scratch('state');
		fs.symlinkSync(imagesDir, path.join(state, 'images'));
		return state;
	};
	const serveArgs = ['serve', '--listen', '127.0.0.1:0'];

	it('(slow) another program keeps the database for itself: who reads the history waits, and nobody else', async () => {
		const state = newStateDir();
		const { program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: state, SANDBOX_POOL: '0' } });
		const id = (await good(base, 'POST', 'sandboxes', {})).id as string;
		const cells = async (): Promise<number> => ((await ask(base, 'GET', `notebooks/${id}`)).body.cells as Json[] | undefined)?.length ?? 0;
		await run(base, id, 'print(1)');
		assert.equal(await cells(), 1, 'what has ended is there');
		const db = new DatabaseSync(path.join(state, 'caisson.db'));
		db.exec('PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE');
		await run(base, id, 'print(2)');
		let others = 0;
		for (let round = 0; round < 5; round++) {
			let answered = false;
			const history = cells().finally(() => (answered = true));
			for (; !answered; others++)
				await good(base, 'GET', 'me');
			assert.ok(await history >= 1);
		}
		assert.ok(others >= 20, `only ${others} requests were answered while the history waited`);
		db.exec('ROLLBACK');
		db.close();
		await until('the second cell', async () => (await cells()) === 2, waitMs);
		await program.end();
	});
	it('a new one: serve says what to do, and ends', async () =>
		refusesToStart(await inReadOnly(newState(), serveArgs)));

	it('one with a database', async () => {
		const state = newState();
		assert.equal((await caisson(['user', 'add', 'ada', '--password', 'none'], { env: { SANDBOX_STATE_DIR: state } })).code, 0);
		fs.rmSync(path.join(state, 'caisson.db-wal'), { force: true });
		fs.rmSync(path.join(state, 'caisson.db-shm'), { force: true });
		refusesToStart(await inReadOnly(state, serveArgs));
	});

	it('(slow) while it serves: runs go on, what must be stored is refused, rows wait and are written later', { skip: notRoot }, async () => {
		const { program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newState(), SANDBOX_POOL: '0' } });
		try {
			const old = (await good(base, 'POST', 'sandboxes', {})).id as string;
			await run(base, old, 'open("f", "w").write("kept")');
			await historyIs(base, [old]);
			let other = '';
			await failing(program.pid, 'pwrite64,fallocate', 'EROFS', async () => {
				assert.equal(await run(base, old, 'print(open("f").read())'), 'kept\n');
				other = (await good(base, 'POST', 'sandboxes', {})).id as string;
				assert.equal(await run(base, other, 'print(6*7)'), '42\n');
				await until('the batch to fail', async () => await metric(base, 'caisson_store_failures_total') >= 2, waitMs);
				assert.ok(await metric(base, 'caisson_store_rows_queued') >= 2);
				refused(await ask(base, 'POST', 'users', { name: 'ada' }), 503, 'store_read_only', /Make the state folder writable/);
				refused(await ask(base, 'POST', 'sandboxes', { kind: 'stored', name: 'new' }), 503, 'store_read_only', /Make the state folder writable/);
				await good(base, 'GET', 'runs');
				assert.equal(await run(base, other, 'print(1)'), '1\n');
			}, { threads: true });
			await historyIs(base, [other]);
			await until('the log', () => /history_written_again/.test(program.stderr), waitMs);
			assert.deepEqual([times(program.stderr, /history_not_written/), times(program.stderr, /history_written_again/)], [1, 1], program.stderr);
			assert.match(program.stderr, /history_not_written.*Make the state folder writable/);
			await good(base, 'POST', 'users', { name: 'ada' });
		} finally {
			await program.end();
		}
	});
});

describe('the disk of the state folder', { skip: rootOnly }, () => {
	const env = { SANDBOX_STORED_WORKSPACE_LIMIT: '20m', SANDBOX_STORED_MAX_ACTIVE: '1' };

	/** Two sandboxes with a file each. */
	async function begin(d: SmallDisk): Promise<[string, string]> {
		const session = (await good(d.base, 'POST', 'sandboxes', {})).id as string;
		const stored = (await good(d.base, 'POST', 'sandboxes', { kind: 'stored', name: 'old' })).id as string;
		for (const id of [session, stored])
			await run(d.base, id, 'import os\nf = open("f", "w")\nf.write("kept")\nf.flush()\nfor fd in (f.fileno(), os.open(".", os.O_RDONLY)): os.fsync(fd)');
		await historyIs(d.base, [session, stored]);
		return [session, stored];
	}
	/** What goes on: sandboxes that are there, new ones that end with their use, their files, their checkpoints. */
	async function goesOn(d: SmallDisk, session: string, stored: string): Promise<string> {
		assert.equal(await run(d.base, session, 'print(open("f").read()); open("g", "w").write("x" * 1000000)'), 'kept\n');
		assert.equal(await run(d.base, stored, 'print(open("f").read())'), 'kept\n');
		await good(d.base, 'PUT', `sandboxes/${session}/files/up`, 'x'.repeat(100_000));
		const fresh = (await good(d.base, 'POST', 'sandboxes', {})).id as string;
		assert.equal(await run(d.base, fresh, 'print(6*7)'), '42\n');
		return fresh;
	}
	async function allIsWell(d: SmallDisk, session: string, stored: string, fresh: string): Promise<void> {
		await historyIs(d.base, [session, stored, fresh]);
		assert.equal(await run(d.base, session, 'print(open("f").read(), len(open("up").read()))'), 'kept 100000\n');
		assert.equal(await run(d.base, stored, 'print(open("f").read())'), 'kept\n');
		await good(d.base, 'POST', 'users', { name: 'afterwards' });
		const next = (await good(d.base, 'POST', 'sandboxes', { kind: 'stored', name: 'next' })).id as string;
		assert.equal(await run(d.base, next, 'print(1)'), '1\n');
		// The old one was put away for it: a workspace that could not write its journal is read-only until then.
		assert.equal(await run(d.base, stored, 'print(open("f").read()); open("h", "w").write("h")'), 'kept\n');
		isWhole((name) => d.file(name));
	}

	it('(slow) has no bytes left', async () => {
		const d = new SmallDisk(), index = new Index();
		await index.open();
		index.add('alpha', { file: wheelName('alpha', '1.0'), body: wheel('alpha', '1.0', 'who = "alpha"') });
		try {
			await d.serve('size=300m', { ...env, SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_LOG_FILE: path.join(d.state, 'log') });
			const [session, stored] = await begin(d);
			d.fill();
			const fresh = await goesOn(d, session, stored);
			refused(await ask(d.base, 'POST', 'sandboxes', { kind: 'stored', name: 'new' }), 507, 'host_disk_full', /Free space on the disk of the state folder/);
			const installed = await good(d.base, 'POST', `sandboxes/${session}/packages`, { packages: 'alpha', wait: true });
			// What the sandbox's disk has from the host already may be enough for it.
			if (installed.status === 'success')
				assert.equal(await run(d.base, session, 'import alpha; print(alpha.who)'), 'alpha\n');
			else
				assert.match(installed.message, /No space left on device.*Free space on the disk of the state folder/);
			d.fill(); // the helper of the installation has given its room back
			refused(await addUntilRefused(d.base), 507, 'store_full', /Free space on the disk of the state folder/);
			assert.equal(await run(d.base, fresh, 'print(1)'), '1\n');
			await until('lines of the log to be lost', async () => {
				await run(d.base, fresh, 'pass');
				return await metric(d.base, 'caisson_log_lines_lost_total') > 0;
			}, waitMs);
			d.free();
			await allIsWell(d, session, stored, fresh);
			assert.equal((await good(d.base, 'POST', `sandboxes/${session}/packages`, { packages: 'alpha', wait: true })).status, 'success');
			assert.match(d.program.stderr, /log file .* cannot be written/);
			const lines = fs.readFileSync(d.file('log'), 'utf8').trim().split('\n');
			assert.ok(lines.length > 10 && /container_exec_done/.test(lines.slice(-20).join('\n')), 'the log goes on');
		} finally {
			await d.end();
			index.close();
		}
	});

	it('(slow) has no inodes left', async () => {
		const d = new SmallDisk();
		try {
			await d.serve('size=300m,nr_inodes=200', env);
			const [session, stored] = await begin(d);
			d.fillInodes();
			const fresh = await goesOn(d, session, stored);
			refused(await ask(d.base, 'POST', 'sandboxes', { kind: 'stored', name: 'new' }), 507, 'host_disk_full', /Free space on the disk of the state folder/);
			d.free();
			await allIsWell(d, session, stored, fresh);
		} finally {
			await d.end();
		}
	});

	it('is full at the start: serve says what to do, and ends; nothing is left that a later start would stumble over', async () => {
		const state = scratch('state');
		const env2 = { SANDBOX_STATE_DIR: state, SANDBOX_HTTP_PORT: 'off' };
		const script = 'mount -t tmpfs -o size=1m none "$SANDBOX_STATE_DIR" && ln -s "$IMAGES" "$SANDBOX_STATE_DIR/images" && (cat /dev/zero >"$SANDBOX_STATE_DIR/fill" || :) 2>/dev/null;' +
			'"$@"; echo "first $?" >&2; rm "$SANDBOX_STATE_DIR/fill"; "$0" user list; echo "second $?" >&2';
		const r = await caisson(['--mount', '--propagation', 'private', '--', 'sh', '-c', script, binary, binary, 'serve', '--listen', '127.0.0.1:0'],
			{ env: { ...env2, IMAGES: imagesDir }, program: 'unshare' });
		assert.match(r.stderr.toString(), /^ERROR: .*caisson\.db.*\. Free space on the disk of the state folder\.$/m);
		assert.match(r.stderr.toString(), /^first 73$/m);
		assert.match(r.stderr.toString(), /^second 0$/m);
	});
});
