// SPDX-License-Identifier: Apache-2.0
// How programs of all kinds start Caisson: without some of the descriptors 0 to 2, without variables, in a folder that is gone, under small limits.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { engine, newStateDir, sanitized } from '../lib/env.ts';
import { caisson } from '../lib/process.ts';
import { RawClient } from '../lib/raw.ts';
import { serve } from '../lib/session.ts';

const shell = (end: string, before = ''): string[] => ['sh', '-c', `${before}exec "$@" ${end}`, 'sh'];

/** A client that starts `stdio` so, and runs one line. */
async function runs(under: string[], env: Record<string, string | undefined> = {}): Promise<void> {
	const c = new RawClient({ under, env, cwd: '/' }, ['stdio', '--profile', 'full']);
	try {
		await c.initialize();
		const r = await c.tool('sandbox_run_python', { code: 'print(6 * 7)' });
		assert.equal(r.stdout, '42\n', JSON.stringify(r));
	} finally {
		await c.end();
	}
}

describe('closed descriptors', () => {
	it('stdio without standard error', () => runs(shell('2>&-')));
	it('stdio without standard input ends', async () => {
		const r = await caisson(['stdio'], { under: shell('<&-') });
		assert.deepEqual([r.code, r.stdout.toString()], [0, '']);
	});
	it('stdio without standard output ends with its input', async () => {
		const r = await caisson(['stdio'], { under: shell('>&-'), input: '{"jsonrpc":"2.0","id":1,"method":"ping"}\n' });
		assert.equal(r.code, 0, r.stderr.toString());
	});
	for (const end of ['<&-', '>&-', '2>&-', '<&- >&- 2>&-'])
		it(`a script, ${end}`, async () => {
			const r = await caisson(['run', '-c', 'import sys; print(6 * 7); sys.exit(7)'], { under: shell(end) });
			assert.deepEqual([r.code, r.stdout.toString()], [7, end.includes('>&- ') || end === '>&-' ? '' : '42\n'], r.stderr.toString());
		});
	const full = shell('>/dev/full');
	for (const [what, under] of [['closed', shell('>&-')], ['full', full]] as const)
		it(`what prints fails if standard output is ${what}`, async () => {
			for (const args of [['version'], ['config'], ['config', '--markdown'], ['help'], ['help', '--man'], ['run', '--help'], ['completion', 'bash'], ['image', 'list'], ['doctor', '--json']]) {
				const r = await caisson(args, { under });
				assert.equal(r.code, 1, `${args.join(' ')}: ${r.stderr}`);
				assert.match(r.stderr.toString(), new RegExp(`^caisson ${args[0]}: standard output: .+\n$`), args.join(' '));
			}
		});
	for (const [what, under, said] of [['closed', shell('>&-'), 'Bad file descriptor'], ['full', full, 'No space left on device']] as const)
		it(`a script whose output is lost has failed: ${what}`, async () => {
			const r = await caisson(['run', '-c', 'print(6 * 7)'], { under });
			assert.notEqual(r.code, 0);
			assert.match(r.stderr.toString(), new RegExp(`^caisson run: standard output: ${said}\n$`));
			assert.deepEqual((await caisson(['run', '-c', '6 * 7'], { under })).code, 0, 'nothing was printed');
		});
	it('serve without any of them', async () => {
		const { program, base } = await serve({ profile: 'full', under: shell('<&- >&- 2>&-') });
		try {
			const json = { method: 'POST', headers: { 'content-type': 'application/json' } };
			const { id } = await (await fetch(`${base}/api/v1/sandboxes`, { ...json, body: '{}' })).json() as { id: string };
			const r = await fetch(`${base}/api/v1/sandboxes/${id}/runs`, { ...json, body: '{"code":"print(6 * 7)","wait":true}' });
			const said = await r.json() as { stdout: string };
			assert.equal(said.stdout, '42\n', JSON.stringify(said));
		} finally {
			await program.end();
		}
	});
});

describe('environment and limits', () => {
	it('a working folder that is gone', () => runs(shell('', 'cd "$(mktemp -d)" && rmdir "$PWD" && ')));
	it('a home that does not exist, and none', async () => {
		const env = { SANDBOX_STATE_DIR: newStateDir() };
		await runs([], { ...env, HOME: '/nonexistent' });
		await runs([], { ...env, HOME: undefined });
	});
	it('no home at all: the setting is named', async () => {
		const r = await caisson(['stdio'], { asCaller: true, under: ['setpriv', '--reuid=54321', '--clear-groups', 'env', '-i'] });
		assert.notEqual(r.code, 0);
		assert.match(r.stderr.toString(), /there is no home directory; name a folder with --state-dir/);
	});
	it('no further process: the limit is named', async () => {
		const r = await caisson(['stdio'], { asCaller: true, under: ['prlimit', '--nproc=1:1', 'setpriv', '--reuid=54321', '--clear-groups', '--inh-caps=-all', 'env', '-i', 'ASAN_OPTIONS=detect_leaks=0', 'SANDBOX_STATE_DIR=/dev/null/none', 'SANDBOX_SOCKET=off'] }); // looking for leaks takes a process
		assert.equal(r.code, 71, r.stderr.toString());
		assert.match(r.stderr.toString(), /a process cannot be started, see 'ulimit -u'/);
	});
	// Containers and sanitizers take descriptors of their own.
	it('64 open files', { skip: engine !== 'native' ? 'each container takes descriptors of its daemon' : sanitized ? 'the sanitizers open files of their own' : false }, () =>
		runs(['prlimit', '--nofile=64:64']));
	for (const [option, value, said] of [['stack', 64 << 10, 'the stack is limited to 64 KiB, and at least 128 KiB are needed \\(ulimit -s\\)'], ['data', 8 << 20, 'the memory of a process is limited to 8192 KiB, .* \\(ulimit -d\\)'], ['nofile', 16, 'the number of open files is limited to 16, .* \\(ulimit -n\\)'], ['fsize', 1 << 20, 'the size of a file is limited to 1 MiB, .* \\(ulimit -f\\)']] as const)
		it(`too low a limit of the shell is named: ${option}`, { skip: sanitized && option !== 'nofile' ? 'the sanitizers need more themselves' : false }, async () => {
			for (const args of [['stdio'], ['run', '-c', 'print(1)'], ['serve', '--listen', '127.0.0.1:0']]) {
				const r = await caisson(args, { input: '', under: ['prlimit', `--${option}=${value}:${value}`] });
				assert.equal(r.code, 71, `${args.join(' ')}: ${r.signal} ${r.stderr}`);
				assert.match(r.stderr.toString(), new RegExp(`^caisson ${args[0]}: ${said}\n$`));
			}
		});
	it('a low soft limit is raised', { skip: sanitized ? 'the sanitizers need more themselves' : false }, () => runs(['prlimit', `--stack=${64 << 10}:`, '--nofile=16:']));
	it('a limit of open files below that of a process of ours', async () => {
		const c = new RawClient({ env: { SANDBOX_NOFILE_LIMIT: '40' } }, ['stdio', '--profile', 'full']);
		try {
			await c.initialize();
			for (const [args, said] of [[{ code: 'print(1)' }, '1\n'], [{ code: 'a = 1; print(a)', stateful: true, session_id: 'a' }, '1\n'], [{ code: 'print(a + 1)', stateful: true, session_id: 'a' }, '2\n']] as const) {
				const r = await c.tool('sandbox_run_python', args);
				assert.equal(r.stdout, said, JSON.stringify(r));
			}
		} finally {
			await c.end();
		}
	});
});

describe('switches of the kernel that forbid user namespaces', () => {
	/** What doctor says where /proc/sys/kernel has VALUES; user namespaces are forbidden by the limit of a namespace, so that one is left out. */
	const doctor = async (values: Record<string, string>, limit: number): Promise<string> => {
		const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'switches-'));
		try {
			fs.chmodSync(folder, 0o755); // the server's account reads it
			for (const sub of ['kernel', 'user'])
				fs.mkdirSync(path.join(folder, sub));
			for (const [name, value] of Object.entries({ ...values, 'user/max_user_namespaces': `${limit}` }))
				fs.writeFileSync(path.join(folder, name), `${value}\n`);
			// The limit is real, and what doctor reads of it is LIMIT.
			const script = 'echo 0 >/proc/sys/user/max_user_namespaces && mount --bind "$0/kernel" /proc/sys/kernel && mount --bind "$0/user" /proc/sys/user && exec "$@"';
			return (await caisson(['doctor'], { under: ['unshare', '-Urm', 'sh', '-c', script, folder] })).stdout.toString();
		} finally {
			fs.rmSync(folder, { recursive: true });
		}
	};
	it('doctor names the one that does, and prints a profile for AppArmor', async () => {
		const profile = /\nAn AppArmor profile [^]*\nprofile caisson "\/[^"]+" flags=\(unconfined\) \{\n {2}userns,\n {2}include if exists <local\/caisson>\n\}\n/;
		const apparmor = await doctor({ 'kernel/apparmor_restrict_unprivileged_userns': '1' }, 1000);
		assert.match(apparmor, /MISSING namespaces and mounts [^\n]*\n +-> load the AppArmor profile that 'caisson doctor' prints \(Ubuntu\), or, for all programs: sudo sysctl -w kernel\.apparmor_restrict_unprivileged_userns=0\n/);
		assert.match(apparmor, profile);
		const limit = await doctor({ 'kernel/apparmor_restrict_unprivileged_userns': '1' }, 0);
		assert.match(limit, /MISSING namespaces and mounts [^\n]*\n +-> sudo sysctl -w user\.max_user_namespaces=15000 /);
		const debian = await doctor({ 'kernel/unprivileged_userns_clone': '0' }, 1000);
		assert.match(debian, /MISSING namespaces and mounts [^\n]*\n +-> sudo sysctl -w kernel\.unprivileged_userns_clone=1 /);
		assert.doesNotMatch(debian, profile);
	});
});
