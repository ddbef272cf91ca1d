// SPDX-License-Identifier: Apache-2.0
// execute_terminal_command in the profile `all`: a command begins where the one before it ended. What the sandbox says about that is its own affair.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import { facts, open, type Json, type OpenOptions, type Session } from '../lib/session.ts';

const START = '/app/results';

describe('the terminal keeps its folder', () => {
	const options: OpenOptions = { profile: 'all', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_BRIDGE: 'off', SANDBOX_SOCKET: 'off' } };
	let s: Session;
	before(async () => {
		s = await open('stdio', options);
	});
	after(async () => {
		await s?.end();
	});

	async function tool(name: string, args: Json): Promise<Json> {
		const r = (await s.client.callTool({ name, arguments: args })) as Json;
		return facts(r);
	}
	const terminal = (sandbox_id: string, command: string): Promise<Json> => tool('execute_terminal_command', { sandbox_id, command });

	const kinds: [string, () => Promise<string>][] = [
		['a stored sandbox', async () => (await tool('create_sandbox', {})).sandbox_id],
		['a session', async () => (await tool('sandbox_run_python', { code: '1' })).session_id],
	];
	for (const [kind, make] of kinds)
		describe(kind, () => {
			let id: string;
			before(async () => {
				id = await make();
			});

			it('the next command sees cd, also of a command that failed', async () => {
				assert.deepEqual(await terminal(id, 'pwd'), { stdout: `${START}\n`, stderr: '', exit_code: 0, cwd: START });
				assert.deepEqual(await terminal(id, 'mkdir -p sub/deep && cd sub'), { stdout: '', stderr: '', exit_code: 0, cwd: `${START}/sub` });
				assert.deepEqual(await terminal(id, 'pwd'), { stdout: `${START}/sub\n`, stderr: '', exit_code: 0, cwd: `${START}/sub` });
				assert.deepEqual(await terminal(id, 'echo x > f; cd deep; false'), { stdout: '', stderr: '', exit_code: 1, cwd: `${START}/sub/deep` });
				const failed = await terminal(id, 'cat ../f; cd nothing || exit 7');
				assert.deepEqual([failed.stdout, failed.exit_code, failed.cwd], ['x\n', 7, `${START}/sub/deep`]);
				assert.equal((await terminal(id, '(cd /; pwd)')).cwd, `${START}/sub/deep`, 'a subshell is another shell');
				assert.equal((await terminal(id, 'cd /tmp')).cwd, '/tmp');
				assert.equal((await terminal(id, 'cd -- "$HOME/../.." && pwd')).cwd, '/');
				assert.equal((await terminal(id, 'echo $# "$1" ok')).stdout, '0  ok\n');
				assert.deepEqual([(await terminal(id, 'no-such-program')).exit_code, (await terminal(id, 'if')).cwd], [127, '/']);
				assert.equal((await terminal(id, 'cd')).cwd, (await terminal(id, 'echo "$HOME"')).stdout.trimEnd());
				assert.equal((await terminal(id, `cd ${START}`)).cwd, START);
			});

			it('a folder that is gone: back to the start, with a word', async () => {
				await terminal(id, `mkdir -p "${START}/a 'b" && cd "${START}/a 'b"`);
				assert.equal((await terminal(id, 'pwd')).stdout, `${START}/a 'b\n`);
				assert.equal((await terminal(id, `rm -r "${START}/a 'b"`)).cwd, `${START}/a 'b`);
				const back = await terminal(id, 'pwd');
				assert.deepEqual(back, { stdout: `${START}\n`, stderr: `[${START}/a 'b is gone: this ran in ${START}]\n`, exit_code: 0, cwd: START });
				assert.equal((await terminal(id, 'pwd')).stderr, '');
			});

			it('what is reported is a folder or nothing', async () => {
				await terminal(id, 'mkdir -p here; cd here');
				const lies = ['echo relative >&3', 'printf "/no/end" >&3; trap - EXIT', 'printf "/a\\0b\\n" >&3; trap - EXIT', 'printf "/a\\nb\\n" >&3; trap - EXIT', 'printf "/\\377\\n" >&3; trap - EXIT',
					'printf "/\\033[31m\\n" >&3; trap - EXIT', 'head -c 5000 /dev/zero | tr "\\0" / >&3; echo >&3; trap - EXIT', 'head -c 3000000 /dev/zero >&3', 'exec 3>&-; cd /', 'kill -9 $$'];
				for (const lie of lies)
					assert.equal((await terminal(id, lie)).cwd, `${START}/here`, lie);
				// A path that is none is the sandbox's own trouble, and never a word of a shell.
				assert.equal((await terminal(id, `echo '/x"; touch $(id) $HOME' >&3; trap - EXIT`)).cwd, '/x"; touch $(id) $HOME');
				assert.match((await terminal(id, 'pwd; ls -A')).stderr, /^\[\/x"; touch \$\(id\) \$HOME is gone: this ran in \/app\/results\]\n$/);
			});
		});

	it('a stored one keeps it beyond its server', async () => {
		const [here, there] = [(await tool('create_sandbox', {})).sandbox_id, (await tool('create_sandbox', {})).sandbox_id];
		await terminal(here, 'mkdir -p deep && cd deep && echo x > f');
		await terminal(there, 'cd /tmp');
		await terminal(there, `cd ${START}`);
		await s.end();
		s = await open('stdio', options);
		assert.deepEqual(await terminal(here, 'cat f'), { stdout: 'x\n', stderr: '', exit_code: 0, cwd: `${START}/deep` });
		assert.deepEqual(await terminal(there, 'pwd'), { stdout: `${START}\n`, stderr: '', exit_code: 0, cwd: START });
		for (const sandbox_id of [here, there])
			await s.client.callTool({ name: 'sandbox_delete', arguments: { session_id: sandbox_id } });
	});
	it('each sandbox has its own; execute_python_code begins where it always did', async () => {
		const [a, b] = [(await tool('create_sandbox', {})).sandbox_id, (await tool('create_sandbox', {})).sandbox_id];
		await terminal(a, 'cd /tmp');
		assert.equal((await terminal(b, 'pwd')).stdout, `${START}\n`);
		assert.equal((await terminal(a, 'pwd')).stdout, '/tmp\n');
		assert.equal((await tool('execute_python_code', { sandbox_id: a, code: 'import os; print(os.getcwd())' })).stdout, `${START}\n`);
	});
});
