// SPDX-License-Identifier: Apache-2.0
// What the cases share: the packed files, where the bridges are unpacked, and how programs are started in an empty home.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawn, spawnSync } from 'node:child_process';
import { asProductUser, newStateDir, openCopy, scratch, top } from '../../lib/env.ts';
import { Program } from '../../lib/process.ts';
import { RawClient } from '../../lib/raw.ts';
import type { Json } from '../../lib/session.ts';

export interface Case {
	name: string;
	run(): Promise<string | void>;
}

/** A command that is `caisson-mcp`, with its first arguments. */
export interface Launcher {
	name: string;
	argv: [string, ...string[]];
	env?: Record<string, string>;
}

export interface World {
	wheels: string; // folder
	archives: string; // folder
	version: string;
	portable: boolean;
	bridges: Launcher[];
	uv: string;
	node: string; // of the tests; every user may run it
}

/** Runs a program of the tests themselves. */
export function must(argv: string[], o: { env?: Record<string, string>; cwd?: string } = {}): string {
	const r = spawnSync(argv[0]!, argv.slice(1), { encoding: 'utf8', env: o.env ?? process.env, cwd: o.cwd, stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 1 << 26 });
	assert.equal(r.status, 0, `${argv.join(' ')}: ${r.error?.message ?? ''}${r.stdout}${r.stderr}`);
	return r.stdout;
}

/** The home of a user who has nothing yet, and an environment with nothing of the caller's. */
export function newcomer(): { home: string; env: Record<string, string> } {
	const home = scratch('newcomer');
	return {
		home,
		env: {
			HOME: home, PATH: `${home}/.local/bin:/usr/bin:/bin`, LANG: 'C.UTF-8', TMPDIR: home, SANDBOX_STATE_DIR: newStateDir(), SANDBOX_LOG_FILE: path.join(home, 'log'),
			SANDBOX_SOCKET: 'off', SANDBOX_HTTP_PORT: '0', SANDBOX_IMAGE: 'base', PIP_DISABLE_PIP_VERSION_CHECK: '1', NO_UPDATE_NOTIFIER: '1', npm_config_audit: 'false', npm_config_fund: 'false',
		},
	};
}

/** Runs a program as the newcomer, to its end. The index of npm packages, which is in this process, goes on meanwhile. */
export async function asNewcomer(argv: string[], env: Record<string, string>): Promise<{ status: number | null; stdout: string; stderr: string }> {
	const all = asProductUser(argv);
	const r = await new Program(spawn(all[0]!, all.slice(1), { env, cwd: env.HOME, stdio: ['ignore', 'pipe', 'pipe'] })).exit;
	return { status: r.code, stdout: r.stdout.toString(), stderr: r.stderr.toString() };
}

export async function installs(argv: string[], env: Record<string, string>): Promise<void> {
	const r = await asNewcomer(argv, env);
	assert.equal(r.status, 0, `${argv.join(' ')}:\n${r.stdout}${r.stderr}`);
}

/** A client of the command; nothing of the tests' own settings reaches it. */
export function client(l: Launcher, env: Record<string, string>, args: string[] = []): RawClient {
	const words = Object.entries({ ...env, ...l.env }).map(([n, v]) => `${n}=${v}`);
	return new RawClient({ program: 'env', cwd: env.HOME }, ['-i', ...words, ...l.argv, ...args]);
}

/** The first thing that a client does, and a run. */
export async function firstRun(c: RawClient): Promise<void> {
	const hello = await c.initialize();
	assert.equal(hello.result?.serverInfo.name, 'caisson', JSON.stringify(hello));
	const { tools } = (await c.request('tools/list')).result as { tools: Json[] };
	assert.ok(tools.some((t) => t.name === 'sandbox_run_python'));
	const r = await c.request('tools/call', { name: 'sandbox_run_python', arguments: { code: 'print(6 * 7)' } }, 60_000);
	assert.match(r.result.content[0].text, /^42\n/);
}

/** Ends the input; the program must end by itself, and have written nothing but messages. */
export async function ends(c: RawClient, status = 0): Promise<void> {
	c.program.child.stdin!.end();
	const r = await c.program.exit;
	assert.deepEqual([r.code, r.signal], [status, null], r.stderr.toString());
	for (const m of c.messages())
		assert.equal(m.jsonrpc, '2.0');
}

/** Unpacks what the bridges are, so that the cases run what people get. */
export function unpack(w: Omit<World, 'bridges' | 'node'>, node: string): World {
	const python = scratch('python'), npm = scratch('npm');
	must(['python3', '-c', 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])', path.join(w.wheels, `caisson_mcp-${w.version}-py3-none-any.whl`), python]);
	must(['tar', '-C', npm, '-xf', path.join(w.archives, `caisson-mcp-${w.version}.tgz`)]);
	must(['chmod', '-R', 'a+rX', python, npm]);
	const own = openCopy(node, scratch('node'));
	const js = path.join(npm, 'package/bin/caisson-mcp.js');
	const python3 = fs.existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3';
	return {
		...w, node: own,
		bridges: [
			{ name: 'Python', argv: [python3, '-B', '-m', 'caisson_mcp'], env: { PYTHONPATH: python } },
			{ name: 'JavaScript', argv: [own, js] },
		],
	};
}

export const packed = (kind: 'pypi' | 'npm', args: string[], env: Record<string, string> = {}): string =>
	must([path.join(top, 'packaging', kind, 'build'), ...args], { env: { ...process.env as Record<string, string>, ...env } });
