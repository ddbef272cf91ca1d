// SPDX-License-Identifier: Apache-2.0
// Operations, the points that each must reach, and what may be said and left when somebody died on the way.

import assert from 'node:assert/strict';
import type { Json } from '../../lib/session.ts';
import { small } from '../../lib/dockerfiles.ts';
import { Registry } from '../../lib/oci.ts';
import { imagesOf } from '../../lib/own-images.ts';
import { until } from '../../lib/wait.ts';
import { points } from './points.ts';
import type { Outcome, Server } from './server.ts';

/** One try: a sandbox of its own, and whatever the operation made. */
export interface Try {
	server: Server;
	id: string; // of the session that it works with
	stored?: string; // of the stored sandbox that it made
	keeper: string; // stored, active, a bystander
	other: string; // stored, not active
	dies: string; // the kind of process
}

export interface Scenario {
	name: string;
	points: string[];
	/** Settings of its server; those with the same ones share it. */
	env?: Record<string, string> | (() => Promise<Record<string, string>>);
	/** Its server makes images, in a folder of its own. Seconds for each kill, so none of them is in the fixed core of a sample. */
	images?: boolean;
	/** The disk of its state folder is so small (as root). */
	host?: string;
	/** At all its points there is a run in the try's session, which must be in the history whatever happens. */
	runs?: boolean;
	/** The first operation of a server: each try has a fresh one. */
	first?: boolean;
	before?(t: Try): Promise<unknown>;
	act(t: Try): Promise<Outcome>;
	/** An answer that is no error must be this. */
	right(value: Json, t: Try): void;
	/** Before a new server takes the place of one that is not whole. */
	without?(t: Try): Promise<void>;
	/** Afterwards, with a server that serves: the sandbox is in one of the states that the outcome allows. */
	after?(o: Outcome, t: Try): Promise<void>;
}

/** Each time it is executed the log grows by one line: more than one for one call would be a run that was doubled. */
const grow = 'open("log", "a").write("x\\n"); open("out.txt", "w").write("out"); print("a", open("log").read().count("x"))';
const count = 'import os; print(open("log").read().count("x") if os.path.exists("log") else 0)';

function isGrown(value: Json, t: Try): void {
	if (value.reason === 'signaled') { // the run itself was killed, and says so
		assert.equal(value.exit_code, 137);
		assert.match(value.stdout, /^(a 1\n)?$/);
		return;
	}
	assert.equal(value.exit_code, 0, JSON.stringify(value));
	assert.equal(value.stdout, 'a 1\n');
	const files = value.artifacts.map((a: Json) => a.filename).sort();
	if (!['init', 'monitor'].includes(t.dies) || files.length > 0) // who ends between a run and the look at its files costs the list of these, not the result
		assert.deepEqual(files, ['log', 'out.txt']);
}

/** Executed once when the answer says so, else once at most; a sandbox that was lost says so once. */
async function grownOnce(o: Outcome, t: Try, id = t.id): Promise<void> {
	let r = await t.server.call('sandbox_run_python', { session_id: id, code: count });
	if (r.kind === 'error' && (o.kind !== 'right' || t.dies === 'init')) {
		assert.equal(r.code, 'sandbox_lost');
		r = await t.server.call('sandbox_run_python', { session_id: id, code: count });
	}
	assert.equal(r.kind, 'right', JSON.stringify(r));
	const n = Number((r as { value: Json }).value.stdout);
	const whole = o.kind === 'right' && o.value.reason !== 'signaled';
	assert.ok(whole && (id === t.other || (t.server.kept && t.dies !== 'init')) ? n === 1 : n <= 1, `executed ${n} times: ${JSON.stringify(o)}`);
}

const python = (t: Try, code: string, more: Json = {}): Promise<Outcome> => t.server.call('sandbox_run_python', { session_id: t.id, code, ...more });
const made = (t: Try): Promise<string> => t.server.run(t.id, 'pass');
/** Its next run has an interpreter that is ready; the first ones may be quicker than that. */
const warm = (t: Try): Promise<true> => until('a warm run', async () => (await made(t), t.server.hadWarmRun(t.id)), 20_000);

/** A session with n = 1 and its backup. The backup is made after the answer: a kill while that goes on would end the sandbox before the
 * run of the try has begun, and then the history rightly has no row of it. */
async function withBackup(t: Try): Promise<void> {
	const ready = points.find((p) => p.name === 'BACKUP_READY')!;
	const before = t.server.control.passed(ready);
	await t.server.right('sandbox_run_python', { session_id: t.id, code: 'n = 1', stateful: true });
	await until('the backup', () => t.server.control.passed(ready) > before);
}

async function twoFiles(t: Try): Promise<void> {
	await t.server.run(t.id, 'open("one", "w").write("1"); open("two", "w").write("2")');
}
const files = 'import os; print(*sorted(f"{n}={open(n).read()}" for n in os.listdir(".")))';

/** Whatever became of it: all files of one moment, never a mixture, never what copying needed for itself. */
async function oneMoment(t: Try, allowed: string[]): Promise<void> {
	let r = await t.server.call('sandbox_run_python', { session_id: t.id, code: files });
	if (r.kind === 'error')
		r = await t.server.call('sandbox_run_python', { session_id: t.id, code: files });
	assert.equal(r.kind, 'right', JSON.stringify(r));
	assert.ok([...allowed, ''].includes((r as { value: Json }).value.stdout.trim()), JSON.stringify(r));
}

async function newStored(t: Try): Promise<void> {
	const r = await t.server.rest('POST', '/sandboxes', { kind: 'stored', name: t.id });
	assert.equal(r.kind, 'right', JSON.stringify(r));
	t.stored = (r as { value: Json }).value.id;
	await t.server.run(t.stored!, 'open("data", "w").write("data")');
	await t.server.run(t.keeper, 'pass'); // the only active one again
}

/** What is listed beside the two is whole, and can be deleted. */
async function listedIsWhole(t: Try, expected: boolean | undefined): Promise<void> {
	const more = (await t.server.stored()).filter((id) => id !== t.keeper && id !== t.other);
	if (expected !== undefined)
		assert.equal(more.length, expected ? 1 : 0, `${more.length} stored sandboxes are listed`);
	assert.ok(more.length <= 1);
	for (const id of more) {
		const code = 'open("more", "w").write("m"); print(open("more").read())';
		const r = await t.server.call('sandbox_run_python', { session_id: id, code });
		if (r.kind === 'error') // it was made, and its processes have ended since
			assert.equal(await t.server.run(id, code), 'm');
		else
			assert.equal(r.kind === 'right' && r.value.stdout, 'm\n');
		const gone = await t.server.rest('DELETE', `/sandboxes/${id}`);
		assert.equal(gone.kind, 'right', JSON.stringify(gone));
	}
}

const SOME = 60, MUCH = 120; // MiB

/** Files of a MiB until there are MOST, each on disk (fsync) before the next; fewer if there is no space. Prints how many there are. */
const fill = (most: number): string => `
import errno, os
n = sum(f.startswith("f") for f in os.listdir("."))
while n < ${most}:
    fd = os.open(f"f{n}", os.O_CREAT | os.O_WRONLY)
    try:
        if os.write(fd, n.to_bytes(4, "big") * (1 << 18)) != 1 << 20:
            raise OSError(errno.ENOSPC, "a part")
        os.fsync(fd)
    except OSError as e:
        assert e.errno == errno.ENOSPC, e
        os.remove(f"f{n}")
        break
    finally:
        os.close(fd)
    n += 1
print(n)`;

/** All files but the last one, which may not be finished and is removed then, are whole. Prints how many there are. */
const filled = `
import os
n = sum(f.startswith("f") for f in os.listdir("."))
for i in range(n):
    if open(f"f{i}", "rb").read() != i.to_bytes(4, "big") * (1 << 18):
        assert i == n - 1, (i, n)
        os.remove(f"f{i}")
        n -= 1
print(n)`;

/** Nothing accepted is lost, the disks promise no more than there is, and there is as much room as ever. */
async function claimsAreRight(o: Outcome, t: Try): Promise<void> {
	const s = t.server;
	if (t.dies === 'init') // the next call is told of it, unless the run was
		await s.call('sandbox_run_python', { session_id: t.other, code: 'pass' });
	const n = Number(await s.run(t.other, filled));
	assert.ok(o.kind !== 'right' || o.value.exit_code !== 0 || n >= Number(o.value.stdout), `${n} files are left: ${JSON.stringify(o)}`);
	await until('the rest of the room', async () => await s.run(t.other, fill(MUCH)) === String(MUCH), 30_000);
	assert.equal(await s.run(t.other, filled), String(MUCH));
	const [free, reserve, promised] = await s.figures('caisson_host_disk_free_bytes', 'caisson_host_disk_reserve_bytes', 'caisson_host_disk_promised_bytes') as [number, number, number];
	assert.ok(promised <= free - reserve, `${promised} bytes are promised, ${free} are free, ${reserve} of them kept`);
	await s.run(t.other, 'import glob, os\nfor f in glob.glob("f*"): os.remove(f)');
	await s.run(t.keeper, 'pass');
}

/** A thread that Python does not know, so that no fork of the session can go on. */
const thread = 'import ctypes, os\nlibc = ctypes.CDLL(None); libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, libc.pause, None)\n';

/** A crash in a session with the variable n: another process takes its place, or the answer says that it is lost. */
const crash = (first: string, state: string): Pick<Scenario, 'before' | 'act' | 'right' | 'after'> => ({
	before: (t) => t.server.right('sandbox_run_python', { session_id: t.id, code: `${first}n = 1`, stateful: true }),
	act: (t) => python(t, 'n = 2; import os; os.abort()', { stateful: true }),
	right: (value, t) => assert.ok(value.state === state || (t.dies === 'interpreter' && value.state === 'lost'), JSON.stringify(value)),
	after: async (o, t) => {
		const r = await python(t, 'globals().get("n")', { stateful: true });
		const all = JSON.stringify([o, r]);
		if (o.kind === 'right' && t.server.kept && t.dies !== 'init')
			assert.equal(r.kind === 'right' && r.value.result, o.value.state === 'lost' ? undefined : '1', all);
		else // of a sandbox that was lost, or of a server that has ended, nothing is there
			assert.ok(r.kind === 'error' || ['1', undefined].includes(r.kind === 'right' ? r.value.result : ''), all);
	},
});

/** The other stored sandbox has the variables of CODE, and they are on its disk. */
async function restsWith(t: Try, code: string): Promise<void> {
	await t.server.right('sandbox_run_python', { session_id: t.other, code, stateful: true });
	await t.server.run(t.keeper, 'pass');
}

/** The variables of its last run, or the word that they are lost; never those from before, which were on the disk. */
async function neverOlder(o: Outcome, t: Try): Promise<void> {
	const get = { session_id: t.other, code: 'globals().get("n")', stateful: true };
	let r = await t.server.call('sandbox_run_python', get);
	if (r.kind === 'error')
		r = await t.server.call('sandbox_run_python', get);
	const all = JSON.stringify([o, r]);
	assert.equal(r.kind, 'right', all);
	const { result, state } = (r as { value: Json }).value;
	const whole = o.kind === 'right' && o.value.state === 'lost' ? '10' : '2';
	assert.ok(result === whole || (result === undefined && state !== 'kept') || (result === undefined && o.kind !== 'right'), all);
	await t.server.run(t.keeper, 'pass'); // the only active one again
}

/** Images of which builds begin, with any tag. */
const registry = new Registry();
const from = (t: Try, n = ''): string => `FROM ${registry.host}/some/small:${t.id}${n}\nRUN echo built >/built\n`;

/** Builds an image from a Dockerfile in the session, to its end. */
async function buildOf(t: Try, dockerfile: string): Promise<Outcome> {
	const written = await t.server.call('sandbox_write_file', { session_id: t.id, path: 'Dockerfile', content: dockerfile, overwrite: true });
	const r = written.kind === 'right' ? await t.server.rest('POST', `/sandboxes/${t.id}/image`, { name: t.id, dockerfile: 'Dockerfile' }) : written;
	if (r.kind !== 'right')
		return r;
	return until('the end of the build', async (): Promise<Outcome | undefined> => {
		const now = await t.server.rest('GET', '/images');
		const build = now.kind === 'right' ? now.value.build : undefined;
		if (now.kind !== 'right' || build?.state === 'done')
			return now.kind === 'right' ? { kind: 'right', value: build } : now;
		return ['failed', 'cancelled'].includes(build?.state) ? { kind: 'error', code: build.state, text: build.reason } : undefined;
	}, 30_000);
}

/** Nothing that is unfinished stays, and the same build works. */
async function buildsAgain(o: Outcome, t: Try): Promise<void> {
	if (t.dies === 'init') // the next call is told of it, unless the build was
		await t.server.call('sandbox_run_python', { session_id: t.id, code: 'pass' });
	if (o.kind === 'error')
		assert.ok(o.text.length > 20, `no reason: ${JSON.stringify(o)}`);
	const again = await buildOf(t, from(t));
	assert.equal(again.kind, 'right', JSON.stringify(again));
	const own = (n: string): boolean => new RegExp(`^pulled\\.small-${t.id}\\.[0-9a-f]{16}$`).test(n);
	await until('nothing unfinished', () => imagesOf(t.server.state).every((n) => n === 'base' || /^try-\d+$/.test(n) || /^pulled\.small-try-\d+(-more)?\.[0-9a-f]{16}$/.test(n)));
	assert.equal(imagesOf(t.server.state).filter(own).length, 1);
}

export const scenarios: Scenario[] = [
	{
		name: 'the first of a server', first: true,
		points: ['TEMPLATE_ENTERED', 'TEMPLATE_BUILT', 'ZYGOTE_FORKED', 'ZYGOTE_READY'],
		act: (t) => python(t, grow),
		right: isGrown,
		after: grownOnce,
	},
	{
		name: 'a new sandbox',
		points: ['REQUEST_READ', 'SANDBOX_RESERVED', 'CREATE_SENT', 'CREATE_TAKEN', 'CGROUP_MADE', 'MAKER_FORKED', 'SESSION_DISK_FILLED', 'SESSION_DISK_ATTACHED', 'SESSION_DISK_MOUNTED', 'MAKER_JOINED', 'MAKER_ENTERED', 'MAKER_MAPPED', 'INIT_CLONED', 'INIT_PLACED',
			'MAKER_ENDED', 'CREATED_SENT', 'INIT_CONFIGURED', 'INIT_MOUNTED', 'INIT_DROPPED', 'INIT_READY', 'CREATED_TAKEN', 'READY_TAKEN', 'CLEAN_ASKED', 'CLEAN_TAKEN', 'CLEAN_FORKED', 'CLEAN_ENTERED', 'SPARE_TIED'],
		act: (t) => python(t, grow),
		right: isGrown,
		after: grownOnce,
	},
	{
		name: 'one of the pool', env: { SANDBOX_POOL: '1', SANDBOX_POOL_MAX: '1' },
		points: ['POOL_CLAIMED', 'POOL_FILLED'],
		act: (t) => python(t, grow),
		right: isGrown,
		after: grownOnce,
	},
	{
		name: 'a run', runs: true,
		points: ['RUN_SENT', 'RUN_TAKEN', 'RUN_GIVEN', 'RUN_ENTERED', 'OUTPUT_READ', 'RUN_OVER', 'END_SENT', 'END_TAKEN', 'RUN_SCANNED', 'RUN_NOTED', 'ANSWER_WRITTEN', 'COMMIT_NEXT', 'COMMIT_DONE'],
		before: warm,
		act: (t) => python(t, grow),
		right: isGrown,
		after: grownOnce,
	},
	{
		name: 'a cold run', runs: true,
		points: ['RUN_FORKED', 'RUN_TIED'],
		before: made,
		act: (t) => t.server.call('sandbox_run_shell', { session_id: t.id, command: 'echo x >>log; echo out >out.txt; echo a $(grep -c x log)' }),
		right: isGrown,
		after: grownOnce,
	},
	{
		name: 'a run of a session', runs: true,
		points: ['STATE_TAKEN', 'BACKUP_TIED', 'BACKUP_READY'],
		before: withBackup,
		act: (t) => python(t, 'n += 1; n', { stateful: true }),
		right: (value) => assert.equal(value.result, '2', JSON.stringify(value)),
		after: async (o, t) => {
			const r = await python(t, 'n', { stateful: true });
			const n = r.kind === 'right' ? r.value.result : undefined;
			// the state before the run, that after it, or none any more
			assert.ok(o.kind === 'right' && t.server.kept ? n === '2' || (r.kind === 'right' && r.value.state !== 'kept') || r.kind === 'error' : n !== '3', JSON.stringify([o, r]));
		},
	},
	{ name: 'a crash in a session', runs: true, points: ['WAKE_SENT', 'BACKUP_WOKEN'], ...crash('', 'unchanged') },
	{ name: 'a crash in a session that is carried', runs: true, points: ['BACKUP_WOKEN', 'REVIVE_SENT', 'VARIABLES_READ'], ...crash(thread, 'carried') },
	{
		name: 'a checkpoint',
		points: ['CHECKPOINT_SENT', 'CHECKPOINT_TAKEN', 'FILES_COPIED', 'CHECKPOINT_DONE', 'CHECKPOINT_ANSWERED'],
		before: twoFiles,
		act: (t) => t.server.call('sandbox_checkpoint', { session_id: t.id, name: 'kept' }),
		right: (value) => assert.equal(value.name, 'kept'),
		after: async (o, t) => {
			if (o.kind === 'right' && t.server.kept && t.dies !== 'init')
				await t.server.right('sandbox_restore', { session_id: t.id, name: 'kept' });
			await oneMoment(t, ['one=1 two=2']);
		},
	},
	{
		name: 'going back',
		points: ['FILES_ASIDE', 'FILES_BACK'],
		before: async (t) => {
			await twoFiles(t);
			await t.server.right('sandbox_checkpoint', { session_id: t.id, name: 'kept' });
			await t.server.run(t.id, 'import os; os.unlink("two"); open("one", "w").write("changed")');
		},
		act: (t) => t.server.call('sandbox_restore', { session_id: t.id, name: 'kept' }),
		right: (value) => assert.equal(value.name, 'kept'),
		after: (o, t) => oneMoment(t, o.kind === 'right' ? ['one=1 two=2'] : ['one=1 two=2', 'one=changed']),
	},
	{
		name: 'the end of a sandbox',
		points: ['CLOSE_MARKED', 'DESTROY_SENT', 'DESTROY_TAKEN', 'SESSION_DISK_DROPPING', 'INIT_KILLED', 'INIT_REAPED', 'CGROUP_REMOVED', 'GONE_SENT', 'GONE_TAKEN'],
		before: (t) => t.server.run(t.id, 'open("log", "w").write("x\\n" * 7); open("much", "wb").write(bytes(20 << 20))'),
		act: (t) => t.server.call('sandbox_close_session', { session_id: t.id }),
		right: (value) => assert.equal(value.status, 'closed', JSON.stringify(value)),
		after: async (_, t) => assert.equal(await t.server.run(t.id, count), '0', 'nothing of the old one is there'),
	},
	{
		name: 'a stored sandbox made active',
		points: ['STORED_LOCKED', 'DISK_ATTACHED', 'DISK_MAPPING', 'STORED_MOUNTED', 'MAKER_ENDED', 'INIT_READY', 'OUTPUT_READ', 'RUN_OVER', 'COMMIT_NEXT'],
		before: async (t) => {
			await t.server.run(t.other, 'open("log", "w").close(); open("out.txt", "w").close()');
			await t.server.run(t.keeper, 'pass');
		},
		act: (t) => t.server.call('sandbox_run_python', { session_id: t.other, code: grow }),
		right: isGrown,
		after: (o, t) => grownOnce(o, t, t.other),
	},
	{
		name: 'a stored sandbox put away',
		points: ['CLOSE_MARKED', 'INIT_KILLED', 'CGROUP_REMOVED'],
		before: async (t) => {
			await t.server.run(t.other, 'open("log", "w").write("x\\n")');
		},
		act: (t) => t.server.call('sandbox_run_python', { session_id: t.keeper, code: 'print(open("keep").read())' }),
		right: (value) => assert.equal(value.stdout, 'kept\n'),
		after: async (_, t) => assert.equal(await t.server.run(t.other, count), '1'),
	},
	{
		name: 'a stored sandbox put away with its variables',
		points: ['STORE_SENT', 'BACKUP_WOKEN', 'STORE_WRITTEN', 'STORE_NAMED', 'STORE_TAKEN'],
		before: async (t) => {
			await restsWith(t, 'n = 1');
			await t.server.right('sandbox_run_python', { session_id: t.other, code: 'n = 2', stateful: true });
		},
		act: (t) => t.server.call('sandbox_run_python', { session_id: t.keeper, code: 'print(open("keep").read())' }),
		right: (value) => assert.equal(value.stdout, 'kept\n'),
		after: neverOlder,
	},
	{
		name: 'a stored sandbox made active with its variables',
		points: ['STORE_SPENT', 'REVIVE_SENT', 'VARIABLES_READ'],
		before: (t) => restsWith(t, 'n = 1'),
		act: (t) => t.server.call('sandbox_run_python', { session_id: t.other, code: 'n = globals().get("n", 9) + 1; n', stateful: true }),
		right: (value) => assert.ok(value.result === (value.state === 'lost' ? '10' : '2') || value.reason === 'signaled', JSON.stringify(value)),
		after: neverOlder,
	},
	{
		name: 'a stored sandbox that is filled on a small disk of the host', host: '400m',
		env: { SANDBOX_WORKSPACE_LIMIT: '200m', SANDBOX_STORED_WORKSPACE_LIMIT: '200m', SANDBOX_WORKSPACE_FILES: '1000', SANDBOX_STORED_WORKSPACE_FILES: '1000' },
		points: ['DISK_CLAIMED'],
		act: (t) => t.server.call('sandbox_run_python', { session_id: t.other, code: fill(SOME) }),
		right: (value) => assert.ok(value.reason === 'signaled' || Number(value.stdout) > 0, JSON.stringify(value)),
		after: claimsAreRight,
	},
	{
		name: 'a new stored sandbox',
		points: ['RECORD_ADDED', 'STORED_ASIDE', 'STORED_NAMED', 'STORED_MOUNTED', 'INIT_READY', 'COMMIT_NEXT', 'COMMIT_DONE'],
		act: (t) => t.server.rest('POST', '/sandboxes', { kind: 'stored', name: t.id }),
		right: (value) => assert.equal(value.kind, 'stored'),
		after: (o, t) => listedIsWhole(t, o.kind === 'right' ? true : o.kind === 'error' && t.dies !== 'monitor' ? false : undefined),
	},
	{
		name: 'a session that becomes a stored sandbox',
		points: ['DISK_KEEP_SENT', 'DISK_KEEP_FLUSHED', 'DISK_KEEP_NAMED', 'DISK_KEPT_SENT'],
		before: twoFiles,
		act: (t) => t.server.rest('POST', `/sandboxes/${t.id}/keep`),
		right: (value) => assert.equal(value.kind, 'stored'),
		after: async (o, t) => {
			await oneMoment(t, ['one=1 two=2']);
			if (o.kind === 'right') // it is not lost: what was lost could be empty
				assert.equal(await t.server.run(t.id, files), 'one=1 two=2');
			if ((await t.server.stored()).includes(t.id))
				assert.equal((await t.server.rest('DELETE', `/sandboxes/${t.id}?force=true`)).kind, 'right');
			await t.server.run(t.keeper, 'pass'); // the only active one again
		},
	},
	{
		name: 'the end of a stored sandbox',
		points: ['FORGET_SENT', 'STORED_DEAD', 'SWEEP_BEGUN', 'STORED_FORGOTTEN', 'FORGOTTEN_TAKEN', 'RECORD_REMOVED', 'COMMIT_NEXT', 'COMMIT_DONE'],
		before: newStored,
		act: (t) => t.server.rest('DELETE', `/sandboxes/${t.stored}`),
		right: () => {},
		after: (o, t) => listedIsWhole(t, o.kind === 'right' ? false : undefined),
	},
	{
		name: 'a download of a build', images: true,
		env: async () => {
			if (!registry.host)
				await registry.open();
			registry.add('some/small', small());
			return { SANDBOX_IMAGE: 'base', SANDBOX_IMAGES: '*', SANDBOX_ROOT: 'on', SANDBOX_PULLS: `${registry.host}/some/*` };
		},
		points: ['PULL_SENT', 'PULL_TAKEN', 'PULL_ASKED', 'PULL_UNPACKED', 'PULL_NAMED', 'PULL_ENDED', 'PULL_HEARD'],
		before: made,
		act: (t) => buildOf(t, from(t)),
		right: (value) => assert.equal(value.state, 'done'),
		without: async (t) => {
			if (t.dies !== 'pulls')
				return;
			const r = await buildOf(t, from(t, '-more'));
			assert.ok(r.kind === 'error' && /restart the server/.test(r.text), `without a process that downloads: ${JSON.stringify(r)}`);
		},
		after: buildsAgain,
	},
];
