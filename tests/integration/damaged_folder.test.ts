// SPDX-License-Identifier: Apache-2.0
// Stored workspaces that are folders, those of a plain user and of an engine on containers, damaged by a wrong hand or a restored backup. Whatever stands in the place of a
// folder or of its lock: the answer is an error that says what happened, the sandbox can be deleted, and everything else goes on.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { engineEnv, freePort, mode, newStateDir, productUid, scratch } from '../lib/env.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const isRoot = process.getuid!() === 0;
const onContainers = engineEnv.SANDBOX_ENGINE === 'docker';
const gone = (p: string): void => fs.rmSync(p, { recursive: true, force: true });

interface Damage {
	name: string;
	make(p: string): void;
}

/** Something else in the place of P, of the same owner. */
const replaced = (make: (p: string) => void) => (p: string): void => {
	gone(p);
	make(p);
	if (isRoot && !onContainers)
		fs.lchownSync(p, productUid, productUid);
};
/** What a link of this file leads to. It must be as it was. */
const outside = scratch('outside');
const instead: readonly Damage[] = [
	{ name: 'a file', make: replaced((p) => fs.writeFileSync(p, 'not a folder\n')) },
	{ name: 'a link to a folder', make: replaced((p) => fs.symlinkSync(outside, p)) },
	{ name: 'a link to nothing', make: replaced((p) => fs.symlinkSync('/nowhere', p)) },
	{ name: 'a link to itself', make: replaced((p) => fs.symlinkSync(path.basename(p), p)) },
	{ name: 'a pipe', make: replaced((p) => { execFileSync('mkfifo', [p]); }) },
	{ name: 'a socket', make: replaced((p) => { execFileSync('python3', ['-c', 'import os, socket, sys\nd, n = os.path.split(sys.argv[1])\nos.chdir(d)\nsocket.socket(socket.AF_UNIX).bind(n)', p]); }) },
];

/** A folder that stays, with rights that it must not have. */
const rights: readonly Damage[] = [
	{ name: 'closed to all', make: (p) => fs.chmodSync(p, 0) },
	{ name: 'not to be entered', make: (p) => fs.chmodSync(p, 0o600) },
	...isRoot ? [{ name: 'somebody else\'s, and closed', make: (p: string) => { fs.chownSync(p, 0, 0); fs.chmodSync(p, 0o700); } }] : [],
];
interface Case extends Damage {
	/** No sandbox can be made of it. Otherwise it works. */
	hopeless: boolean;
	/** Its owner cannot remove all of it from the disk. */
	stays?: boolean;
}
const at = (where: string, what: string, d: Damage, hopeless: boolean): Case =>
	({ name: `${what}: ${d.name}`, make: (p) => d.make(where === '.lock' ? `${p}.lock` : path.join(p, where)), hopeless });
const foreign = (d: Damage): boolean => d.name.startsWith('somebody');
const folderThere: Damage = { name: 'a folder', make: replaced((p) => fs.mkdirSync(p)) };
const folderWithFiles: Damage = { name: 'a folder with files', make: replaced((p) => { fs.mkdirSync(p); fs.writeFileSync(path.join(p, 'x'), ''); }) };

const cases: readonly Case[] = [
	...instead.map((d) => at('', 'the workspace', d, true)),
	...rights.map((d) => ({ ...at('', 'the workspace', d, foreign(d)), stays: foreign(d) })),
	{ name: 'the workspace: missing', make: gone, hopeless: false },
	{ ...at('', 'the workspace', folderThere, true), name: 'the workspace: an empty folder' },
	{ name: 'the workspace: in a folder of its name', make: (p) => { fs.renameSync(p, `${p}.x`); folderThere.make(p); fs.renameSync(`${p}.x`, path.join(p, 'x')); }, hopeless: true },
	...[...instead.filter((d) => d.name !== 'a file'), folderThere, folderWithFiles].map((d) => at('.lock', 'the lock', d, d.name !== 'a pipe')),
	...rights.map((d) => at('.lock', 'the lock', d, foreign(d))),
	{ name: 'the lock: missing', make: (p) => gone(`${p}.lock`), hopeless: false },
	{ name: 'the workspace and its lock: missing', make: (p) => { gone(p); gone(`${p}.lock`); }, hopeless: false },
	...['data', 'venv', 'tmp', 'home'].flatMap((f) => [
		...instead.map((d) => at(f, f, d, true)),
		...rights.map((d) => ({ ...at(f, f, d, foreign(d)), stays: foreign(d) })),
		{ name: `${f}: missing`, make: (p: string) => gone(path.join(p, f)), hopeless: f === 'data' },
	]),
];

/** On containers each sandbox takes a second to make: one damage of each kind, and root may open and remove what is somebody else's. */
const picked = ['the workspace: a file', 'the workspace: a link to a folder', 'the workspace: an empty folder', 'the lock: a folder with files', 'data: a link to a folder', 'data: closed to all',
	'data: somebody else\'s, and closed', 'data: missing', 'home: a link to nothing', 'venv: a socket'];
const chosen = onContainers ? cases.filter((c) => picked.includes(c.name)).map((c) => ({ ...c, stays: false })) : cases;

describe('a damaged folder of a stored sandbox', { skip: mode !== 'user' && !onContainers && 'root has disks, no folders' }, () => {
	const state = newStateDir();
	let server: Awaited<ReturnType<typeof serve>>;
	let healthy: string;
	let ready: string[] = []; // on containers: one for each case
	const ask = async (method: string, where: string, body?: Json): Promise<{ status: number; body: Json }> => {
		const r = await fetch(`${server.base}/api/v1${where}`, { method, headers: { 'content-type': 'application/json' }, body: body && JSON.stringify(body), signal: AbortSignal.timeout(60_000) });
		const text = await r.text();
		return { status: r.status, body: text ? JSON.parse(text) as Json : {} };
	};
	const create = async (): Promise<string> => {
		const r = await ask('POST', '/sandboxes', { kind: 'stored' });
		assert.equal(r.status, 201, JSON.stringify(r.body));
		return r.body.id as string;
	};
	const run = (id: string, code: string): ReturnType<typeof ask> => ask('POST', `/sandboxes/${id}/runs`, { code, wait: true });
	const workspaces = path.join(state, onContainers ? 'docker/stored' : 'workspaces');
	const folder = (id: string): string => path.join(workspaces, id);
	const left = (): string[] => fs.readdirSync(workspaces).filter((n) => n.startsWith('.'));
	const released = (id: string): Promise<unknown> => until(`${id} is put away`, () => {
		try {
			execFileSync('flock', ['-n', '-x', `${folder(id)}.lock`, 'true']);
			return true;
		} catch {
			return false;
		}
	}, 20_000);

	/** N sandboxes with files, none of which is open. */
	const stored = async (n: number): Promise<string[]> => {
		const ids = [];
		for (let i = 0; i < n; i++) {
			ids.push(await create());
			if (onContainers)
				continue;
			assert.equal((await run(ids[i]!, 'import os\nfor d in (".", "/tmp", os.path.expanduser("~")): open(f"{d}/f", "w").write("kept")')).body.exit_code, 0);
		}
		assert.equal((await run(healthy, 'pass')).body.exit_code, 0); // one may be active: the others are put away
		for (const id of ids)
			await released(id);
		return ids;
	};

	before(async () => {
		fs.writeFileSync(path.join(outside, 'kept'), 'kept');
		for (const f of ['data', 'venv', 'tmp', 'home'])
			fs.mkdirSync(path.join(outside, f));
		server = await serve({ profile: 'full', env: {
			SANDBOX_STATE_DIR: state, SANDBOX_IMAGE: 'base', SANDBOX_USER_SANDBOX_LIMIT: '0', SANDBOX_STORED_MAX_ACTIVE: '1', SANDBOX_HTTP_PORT: String(await freePort()), SANDBOX_POOL: '0',
		} });
		healthy = await create();
		assert.equal((await run(healthy, 'open("mine", "w").write("untouched")')).body.exit_code, 0);
		if (onContainers)
			ready = await stored(chosen.length);
	});
	after(async () => server?.program.end());

	it('whose lock another program holds: an error that says so, and it can be deleted when the lock is free', async () => {
		const [id] = onContainers ? ready : await stored(1);
		const holder = spawn('flock', ['-x', `${folder(id!)}.lock`, 'sh', '-c', 'echo locked; read line'], { stdio: ['pipe', 'pipe', 'inherit'] });
		try {
			await new Promise((resolve) => holder.stdout.once('data', resolve));
			for (const r of [await run(id!, 'pass'), await ask('DELETE', `/sandboxes/${id}`)]) {
				assert.equal(r.body.code, 'sandbox_in_use', JSON.stringify(r));
				assert.match(JSON.stringify(r.body), /use that server or stop it/);
			}
		} finally {
			holder.stdin.end('\n');
			await new Promise((resolve) => holder.once('exit', resolve));
		}
		if (!onContainers) // there a case needs it yet
			assert.ok((await ask('DELETE', `/sandboxes/${id}`)).status < 300);
	});

	for (const [i, damage] of chosen.entries())
		it(damage.name, async () => {
			const ids = onContainers ? [ready[i]!] : await stored(2);
			const [id] = ids;
			ids.forEach((n) => damage.make(folder(n)));
			const r = await run(id!, 'open("new", "w").write("x")');
			if (damage.hopeless)
				assert.equal(r.body.code, 'workspace_damaged', JSON.stringify(r));
			else
				assert.equal(r.body.exit_code, 0, JSON.stringify(r));
			if (!onContainers || i === chosen.length - 1)
				assert.equal((await run(healthy, 'print(open("mine").read())')).body.stdout, 'untouched\n');
			for (const i of ids) {
				const d = await ask('DELETE', `/sandboxes/${i}`);
				assert.ok(d.status < 300, `it can be removed: ${JSON.stringify(d)}`);
				for (const p of [folder(i), `${folder(i)}.lock`])
					assert.equal(fs.lstatSync(p, { throwIfNoEntry: false }), undefined, `and nothing of it is left: ${p}`);
			}
			assert.deepEqual(fs.readdirSync(outside).sort(), ['data', 'home', 'kept', 'tmp', 'venv'], 'what a link led to is there');
			if (!damage.stays)
				await until('nothing is left of it', () => left().length === 0, 20_000);
			else
				left().forEach((n) => gone(path.join(workspaces, n)));
		});
});
