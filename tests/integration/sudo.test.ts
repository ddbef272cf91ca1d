// SPDX-License-Identifier: Apache-2.0
// `sudo` in sandboxes with a root user.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { asker } from '../lib/asker.ts';
import { engine, mode, newStateDir, unlessEnforced } from '../lib/env.ts';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const skip = (mode !== 'root' || engine !== 'native') && 'only a server that root started, with the native engine, can have root users' || unlessEnforced('memory', 'pids');

describe('sudo', { skip }, () => {
	let program: Program;
	let base: string;
	let id = '';

	before(async () => {
		({ program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_ROOT: 'on' } }));
	});
	after(() => program.end());

	const rest = asker(() => base);
	const ask = async (method: string, at: string, json?: unknown): Promise<Json> => {
		const r = await rest(method, `/sandboxes${at}`, json);
		assert.ok(r.status < 300, `${method} ${at}: ${r.status} ${r.text}`);
		return r.body;
	};
	const run = async (json: Json): Promise<Json> => ask('POST', `/${id}/runs`, { wait: true, ...json });
	const said = async (command: string, more: Json = {}): Promise<string> => {
		const r = await run({ command: `exec 2>&1; ${command}`, ...more });
		return r.stdout;
	};
	const sandbox = (name: string, fn: () => Promise<void>, more: Json = { root: true }): void => {
		it(name, async () => {
			id = (await ask('POST', '', more)).id;
			await fn();
			await ask('DELETE', `/${id}?force=true`);
		});
	};
	/** How many processes have WORD in their command line. */
	const count = async (word: string): Promise<number> => Number(await said(`pgrep -fc ${word}`, { user: 'root' }));

	sandbox('the user does by it what root does', async () => {
		assert.equal(await said('sudo sh -c "cat; echo out" <&-; sudo sh -c "echo unheard" >&-; echo $?'), 'out\n0\n', 'standard descriptors that are closed are /dev/null');
		assert.equal(await said('sudo id -u; sudo touch /etc/new && stat -c %U /etc/new; echo text | sudo tee /etc/of-root; sudo cat /etc/of-root; cd /usr && sudo pwd; seq 3 | sudo wc -l'),
			'0\nroot\ntext\ntext\n/usr\n3\n');
		assert.equal(await said('sudo sh -c "exit 7"; echo $?; sudo no-such-program; echo $?; sudo sh -c \'kill -TERM $$\'; echo $?'),
			'7\nsudo: no-such-program: command not found\n1\nTerminated\n143\n');
		assert.equal(await said('sudo sudo id -u; sudo -u nobody sudo id -u', { user: 'root' }), '0\nsudo: only the users `user` and `root` of this sandbox may do this\n');
	});
	sandbox('the options that people use', async () => {
		assert.equal(await said('sudo -u nobody id -un; sudo --user=nobody id -un; sudo -unobody id -un; sudo -u "#33" id -u; sudo -nSH id -un; sudo -- id -un; sudo -v && sudo -l && sudo -k; echo $?'),
			'nobody\nnobody\nnobody\n33\nroot\nroot\n0\n');
		assert.equal(await said('export OWN=1 HTTP_PROXY=p; sudo sh -c \'echo $OWN-$HTTP_PROXY-$HOME-$USER-$SUDO_USER-$SUDO_UID; echo $PATH | grep -c sbin\'; sudo -E sh -c \'echo $OWN-$HOME\'; sudo TOLD="a b" sh -c \'echo $TOLD\''),
			'-p-/root-root-sandbox-1000\n1\n1-/home/sandbox\na b\n');
		assert.equal(await said('sudo -i pwd; sudo -iu user pwd; sudo -s id -un; echo "id -un" | sudo -s; sudo -i sh -c "echo a  b; id -u"'), '/root\n/home/user\nroot\nroot\na b\n0\n');
		for (const [command, words] of [['sudo -e x', /the option -e is not there/], ['sudo -u no-such id', /unknown user: no-such/], ['sudo -u "#x" id', /unknown user: #x/], ['sudo -u "#4294967295" id', /unknown user/], ['sudo', /usage: sudo/], ['sudo -u', /needs the name/], ['sudo --version', /^sudo of/]] as const)
			assert.match(await said(command), words);
	});
	sandbox('signals are passed on, and an end is an end', async () => {
		const r = await run({ code: `import signal, subprocess, time
for signo in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    p = subprocess.Popen(["sudo", "sh", "-c", "trap 'echo caught; exit 9' INT TERM HUP; echo there; while :; do sleep .02; done"], stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    p.send_signal(signo)
    print(p.communicate()[0].strip(), p.returncode)
p = subprocess.Popen(["sudo", "sh", "-c", "trap '' HUP TERM; echo there; while :; do sleep .02; done"], stdout=subprocess.PIPE, text=True)
p.stdout.readline()
p.kill()
print(repr(p.stdout.read()))` });
		assert.equal(r.stdout, 'caught 9\ncaught 9\ncaught 9\n\'\'\n', r.stderr); // its output ends, so the command has
		const cell = await run({ stateful: true, code: 'import subprocess\nprint(subprocess.run(["sudo", "id", "-u"], capture_output=True, text=True).stdout)' });
		assert.equal(cell.stdout, '0\n\n');
	});
	sandbox('what it has started ends with the run or the background process that asked', async () => {
		await said('sudo sh -c "setsid sleep 4321 & sleep .1"; sudo sleep 4321 & sleep .3');
		assert.equal(await count('sleep.432[1]'), 0);
		const p = await ask('POST', `/${id}/processes`, { command: 'sudo sh -c "setsid sleep 4322 >/dev/null & sleep .1"; sudo sleep 4322' });
		await until('all of it', async () => await count('sleep.432[2]') >= 2);
		await said('true'); // a run leaves it alone
		await said('sudo sleep 4323 & sleep .3');
		assert.equal(await count('sleep.432[3]'), 0);
		assert.ok(await count('sleep.432[2]') >= 2);
		await ask('DELETE', `/${id}/processes/${p.process_id ?? p.id}`);
		await until('the end of all', async () => await count('sleep.432[2]') === 0);
		assert.equal(await said('sudo id -u'), '0\n');
	});
	sandbox('without a root user there is none', async () => {
		assert.match(await said('sudo id; /usr/local/lib/caisson/sudo id'), /sudo: (1: )?not found\nsudo: this sandbox has no root user: it is made with the option root: true/);
	}, {});
});
