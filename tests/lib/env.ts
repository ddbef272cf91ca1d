// SPDX-License-Identifier: Apache-2.0
// Where the tests run: which mode (root or a plain user), which binary, which scratch folder.
// The runner (runner.ts) sets the variables; started by hand, a test file runs in the caller's own mode.

import * as fs from 'node:fs';
import * as path from 'node:path';
import * as net from 'node:net';
import { fileURLToPath } from 'node:url';
import { prefixOf } from './leftovers.ts';
import { owned } from './owned.ts';

export type Mode = 'root' | 'user';

export const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');

/** A throw-away uid without a passwd entry: what the runner takes as "a plain user" when it is root itself. */
export const PLAIN_UID = 61234;

const isRoot = process.getuid!() === 0;

export const mode: Mode = (process.env.CAISSON_TEST_MODE as Mode | undefined) ?? (isRoot ? 'root' : 'user');
export const binary = process.env.CAISSON_TEST_BINARY ?? path.join(top, 'build', 'caisson');
export const sanitized = process.env.CAISSON_TEST_SANITIZED === '1';

/** Limits that hold hard in this mode, in the words of `caisson doctor` (memory cpu pids disk own_uid); all when nobody said. */
export const enforced = process.env.CAISSON_TEST_ENFORCED?.split(',');

/** For `it(…, { skip })`: the reason when doctor says that a limit cannot be enforced here. */
export function unlessEnforced(...limits: string[]): string | false {
	const lacking = limits.filter((l) => enforced && !enforced.includes(l));
	return lacking.length > 0 && `caisson doctor: ${lacking.join(', ')} cannot be enforced for this user on this host`;
}

/** Every deadline of a test is multiplied by this: what tests/run measured of the machine (slowness.ts), and what sanitizers cost. A
 * whole number, because settings take whole seconds. */
export const slowness = Math.max(1, Math.round(Number(process.env.CAISSON_TEST_SLOWNESS || 1))) * (sanitized ? 4 : 1);

/** The folder with images that all tests share; read only, and not that of a server of this machine. */
export const imagesDir = process.env.CAISSON_TEST_IMAGES ?? `/var/tmp/caisson-test-images-${process.getuid!()}/images`;

/** The uid that the product runs under in this mode. */
export const productUid = mode === 'user' && isRoot ? PLAIN_UID : process.getuid!();

function ownedByProduct(p: string): string {
	if (isRoot)
		fs.chownSync(p, productUid, productUid);
	return p;
}

const scratchPrefix = process.env.CAISSON_TEST_RUN ? prefixOf(process.env.CAISSON_TEST_RUN) : 'caisson-test-';
const scratchRoot = ownedByProduct(owned(scratchPrefix, process.env.CAISSON_TEST_SCRATCH));

/** A new folder that the product may write to; gone when the test file ends. */
export function scratch(name: string): string {
	return ownedByProduct(fs.mkdtempSync(path.join(scratchRoot, name + '-')));
}

/** A file system in memory, where there is one; the runner sweeps it, too. */
const MEMORY = '/dev/shm';

/** Whether programs can be executed there, and there is room for the images of a few tests. */
function isRoomyMemory(folder: string): boolean {
	const mount = fs.readFileSync('/proc/mounts', 'utf8').split('\n').map((l) => l.split(' ')).findLast((m) => m[1] === folder);

	if (mount?.[2] !== 'tmpfs' || mount[3]!.split(',').includes('noexec'))
		return false;
	const { bavail, bsize } = fs.statfsSync(folder);
	return bavail * bsize > 4 * 2 ** 30;
}

let memoryRoot: string | undefined;
/** As `scratch`, in memory where that is possible: an image that gets its name waits until the whole file system is on the disk, with what all others have
 * written. Whoever fills it removes it when the case ends. */
export function scratchInMemory(name: string): string {
	memoryRoot ??= isRoomyMemory(MEMORY) ? ownedByProduct(owned(scratchPrefix, MEMORY)) : scratchRoot;
	return ownedByProduct(fs.mkdtempSync(path.join(memoryRoot, name + '-')));
}

/** A new state folder whose images are the shared ones. */
export function newStateDir(): string {
	const dir = scratch('state');
	fs.symlinkSync(imagesDir, path.join(dir, 'images'));
	return dir;
}

let sharedState: string | undefined;
/** The state folder of this test file. */
export function stateDir(): string {
	return (sharedState ??= newStateDir());
}

/** A copy of PROGRAM in FOLDER that every user can execute: the checkout may be in a closed folder. */
export function openCopy(program: string, folder: string, name = path.basename(program)): string {
	const copy = path.join(folder, name);
	fs.copyFileSync(program, copy);
	fs.chmodSync(copy, 0o755);
	return copy;
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
	const server = net.createServer();
	await new Promise<void>((resolve, reject) => {
		server.once('error', reject);
		server.listen(0, '127.0.0.1', resolve);
	});
	const { port } = server.address() as net.AddressInfo;
	await new Promise((resolve) => server.close(resolve));
	return port;
}

/** The command line that starts `argv` as the user of this mode; the pid stays that of the command. */
export function asProductUser(argv: string[]): string[] {
	if (mode === 'root' || !isRoot)
		return argv;
	const id = String(productUid);
	return ['setpriv', '--reuid', id, '--regid', id, '--clear-groups', '--', ...argv];
}

/** Settings of the engine that is tested, from suites/engines; none: the native one. */
export const engineEnv = JSON.parse(process.env.CAISSON_TEST_ENGINE_ENV ?? '{}') as Record<string, string>;

/** The engine that is tested. */
export const engine = engineEnv.SANDBOX_ENGINE ?? 'native';

/** A clean environment for the product: nothing of the caller's but PATH, plus `extra` (undefined removes). */
export function productEnv(extra: Record<string, string | undefined> = {}): Record<string, string> {
	const home = (homeDir ??= scratch('home'));
	const env: Record<string, string | undefined> = {
		PATH: process.env.PATH,
		HOME: home,
		LANG: 'C.UTF-8',
		SANDBOX_STATE_DIR: stateDir(),
		SANDBOX_LOG_FILE: path.join(home, 'sandbox.log'),
		SANDBOX_IMAGE: process.env.CAISSON_TEST_IMAGE,
		SANDBOX_WARM: process.env.CAISSON_TEST_COLD === '1' ? 'off' : undefined,
		SANDBOX_SOCKET: 'off', // servers and clients of other tests run beside this one
		ASAN_OPTIONS: 'detect_leaks=1:abort_on_error=1:detect_stack_use_after_return=1:strict_string_checks=1',
		UBSAN_OPTIONS: 'halt_on_error=1:abort_on_error=1:print_stacktrace=1',
		...engineEnv,
		...extra,
	};
	return Object.fromEntries(Object.entries(env).filter((e): e is [string, string] => e[1] !== undefined));
}
let homeDir: string | undefined;
