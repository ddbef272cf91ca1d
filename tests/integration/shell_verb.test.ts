// SPDX-License-Identifier: Apache-2.0
// `caisson shell`: a terminal in a sandbox, at a terminal that tests/lib/terminal.py gives it.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawn, spawnSync } from 'node:child_process';
import { after, before, describe, it } from 'node:test';
import { asProductUser, binary, engineEnv, newStateDir, productEnv } from '../lib/env.ts';
import { caisson, descendants, Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const ADMIN = 'an-administrators-key-of-the-server';
const gvisor = engineEnv.SANDBOX_RUNTIME === 'runsc';

/** The command at a terminal of that size. */
const atTerminal = (words: string[], [rows, columns] = [24, 80]): Program => new Program(spawn('python3', [path.resolve(import.meta.dirname, '../lib/terminal.py'), String(rows), String(columns), ...words],
	{ env: productEnv({ SANDBOX_API_KEY: ADMIN }), stdio: ['pipe', 'pipe', 'pipe'] }));

/** What a person sees and types. */
class Screen {
	readonly p: Program;
	private seen = 0;

	constructor(args: string[], size?: [number, number]) {
		this.p = atTerminal(asProductUser([binary, 'shell', ...args]), size);
	}
	type(keys: string): void {
		this.p.child.stdin!.write(keys);
	}
	async shows(what: RegExp): Promise<string> {
		let found = '';
		await until(String(what), () => {
			const m = what.exec(this.p.stdout.slice(this.seen));
			if (m) {
				this.seen += m.index + m[0].length;
				found = m[1] ?? m[0];
			}
			return m !== null;
		}).catch((e: unknown) => assert.fail(`${String(e)}, in ${JSON.stringify(this.p.stdout.slice(-300))}`));
		return found;
	}
	get pid(): number {
		return descendants(this.p.pid).find(({ pid }) => fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(`${binary}\0shell`))!.pid;
	}
	resize(rows: number, columns: number): void {
		const r = spawnSync('stty', ['-F', fs.readlinkSync(`/proc/${this.pid}/fd/0`), 'rows', String(rows), 'cols', String(columns)]);
		assert.equal(r.status, 0, String(r.stderr));
	}
}

describe('caisson shell', () => {
	let program: Program;
	let base: string;
	let at: string[];
	let id: string;

	const ask = async (path: string, method = 'GET', json?: unknown): Promise<Json> => {
		const r = await fetch(`${base}/api/v1${path}`, {
			method, headers: { 'x-api-key': ADMIN, ...(json === undefined ? {} : { 'content-type': 'application/json' }) }, body: json === undefined ? undefined : JSON.stringify(json),
		});
		return r.status === 204 ? {} : r.json();
	};
	const terminals = async (): Promise<Json[]> => (await ask(`/sandboxes/${id}/terminals`)).terminals;
	const fails = async (code: number, says: RegExp, ...args: string[]): Promise<void> => {
		const screen = new Screen([...at, ...args]);
		assert.equal((await screen.p.exit).code, code, screen.p.stdout);
		assert.match(screen.p.stdout, says);
	};

	before(async () => {
		({ program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN } }));
		at = ['--listen', base.slice('http://'.length)];
		id = (await ask('/sandboxes', 'POST', {})).id;
	});
	after(async () => {
		await program.end();
	});

	it('wants a terminal, a sandbox that is there and words that it knows', async () => {
		const piped = await caisson(['shell', ...at, id], { env: { SANDBOX_API_KEY: ADMIN } });
		assert.equal(piped.code, 64);
		assert.match(piped.stderr.toString(), /no terminal; 'caisson exec -d' starts a process without one/);
		await fails(64, /the id of a sandbox is missing/);
		await fails(64, /no id of a sandbox/, 'a/b');
		await fails(64, /no id of a terminal/, id, 'p1/x');
		await fails(64, /has its name, user and command/, id, 'p1', '--', 'true');
		await fails(66, /nowhere/, 'nowhere');
		await fails(66, /p9/, id, 'p9');
		if (gvisor)
			await fails(64, /terminal/, id);
	});
	if (gvisor)
		return;

	it('passes keys, bytes and sizes, and ends as its program does', async () => {
		const screen = new Screen([...at, '--name', 'mine', id], [31, 91]);
		await screen.shows(/\$ $/);
		// Without the editor of bash, which draws the line anew for each size.
		screen.type('exec bash --noediting --norc\r');
		await screen.shows(/\$ $/);
		screen.type('stty -echo; PS1="now> "; stty size; printf "a\\303\\244\\033[1mb\\n"\r');
		await screen.shows(/31 91\r\na\u00e4\x1b\[1mb\r\nnow> $/);
		screen.resize(40, 120);
		await until('the new size', async () => (await terminals()).some((t) => t.name === 'mine' && t.terminal.rows === 40 && t.terminal.columns === 120));
		screen.type('while [ "$(stty size)" != "40 120" ]; do :; done; echo "si"zed\r'); // the server knows it sooner
		await screen.shows(/sized\r\n/);
		screen.type('echo go; cat >/dev/null\r');
		await screen.shows(/go\r\n/);
		screen.type('\x03'); // for the program in the sandbox, not for this one
		await screen.shows(/now> $/);
		screen.type('exit 7\r');
		assert.equal((await screen.p.exit).code, 7);
	});

	it('a command, what ends it, and a flood in both directions', async () => {
		const killed = new Screen([...at, id, '--', 'sh', '-c', 'echo "it\'s $0"; kill -9 $$', '$HOME']);
		await killed.shows(/it's \$HOME\r\n/);
		assert.equal((await killed.p.exit).code, 137);
		const many = new Screen([...at, id, '--', 'sh', '-c', 'stty raw -echo; echo ready; head -c 300000 | wc -c; seq 100000']);
		await many.shows(/ready/);
		many.type('0123456789'.repeat(30_000));
		await many.shows(/300000/);
		assert.equal((await many.p.exit).code, 0);
		assert.match(many.p.stdout, /99999\s+100000\s*$/);
	});

	it('~. leaves it running, and its id leads back; ~~ is one ~, and elsewhere ~ is a ~', async () => {
		const screen = new Screen([...at, id, '--', 'sh', '-c', 'echo ready; exec cat']);
		await screen.shows(/ready\r\n/); // until then the keys are this terminal's
		screen.type('a~.b\r');
		await screen.shows(/a~\.b\r\na~\.b\r\n/);
		screen.type('~~.c\r');
		await screen.shows(/~\.c\r\n~\.c\r\n/);
		screen.type('~d\r');
		await screen.shows(/~d\r\n~d\r\n/);
		screen.type('~.');
		const back = await screen.shows(/The terminal goes on: caisson shell \S+ (p\d+)\r\n/);
		assert.equal((await screen.p.exit).code, 0);
		const again = new Screen([...at, id, back]);
		await again.shows(/a~\.b\r\n/);
		again.type('still\r');
		await again.shows(/still\r\nstill\r\n/);
		// Whoever closes the window leaves it, too.
		process.kill(again.pid, 'SIGHUP');
		await again.shows(/The terminal goes on/);
		assert.equal((await again.p.exit).code, 129);
		const last = new Screen([...at, id, back]);
		await last.shows(/still\r\n/);
		await ask(`/sandboxes/${id}/processes/${back}/signal`, 'POST', { signal: 'TERM' });
		assert.equal((await last.p.exit).code, 143);
	});

	it('the modes of the terminal are as they were, also after the server has ended', async () => {
		const own = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN } });
		const made = await (await fetch(`${own.base}/api/v1/sandboxes`, { method: 'POST', headers: { 'x-api-key': ADMIN, 'content-type': 'application/json' }, body: '{}' })).json();
		const words = asProductUser([binary, 'shell', '--listen', own.base.slice('http://'.length), made.id, '--', 'cat']);
		const p = atTerminal(['sh', '-c', 'a=$(stty -g); "$@"; echo "<$?>"; [ "$a" = "$(stty -g)" ] && echo equal', '-', ...words]);
		p.child.stdin!.write('x\r');
		await until('an echo', () => p.stdout.includes('x\r\nx\r\n'));
		await own.program.end();
		assert.equal((await p.exit).code, 0);
		assert.match(p.stdout, /(the connection to the server is lost|the terminal ended: \w+)[^]*<(74|\d+)>\r\nequal\r\n/);
	});
});
