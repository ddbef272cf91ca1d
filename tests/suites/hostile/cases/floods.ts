// SPDX-License-Identifier: Apache-2.0
// Rows 47, 48, 52: floods that nobody reads, clients that do not read, terminals, and watches of files.

import assert from 'node:assert/strict';
import * as path from 'node:path';
import { spawn } from 'node:child_process';
import { text as content } from 'node:stream/consumers';
import { asProductUser, binary, productEnv, top } from '../../../lib/env.ts';
import type { Json } from '../../../lib/session.ts';
import { until } from '../../../lib/wait.ts';
import type { Case } from '../case.ts';
import { grown, live, said, type Served } from '../served.ts';

const DEAF = 24; // clients at once

/** What the programs of a sandbox have printed so far; the list has no output. */
const printed = async (s: Served, id: string): Promise<number> =>
	((await s.look(`/sandboxes/${id}/processes`)).processes as Json[]).reduce((n, p) => n + p.stdout_bytes, 0);

async function judged(c: Promise<string>, held: number): Promise<void> {
	const lines = (await c).split(/\r?\n/);
	assert.deepEqual(lines.filter((l) => l.startsWith('BROKEN')), []);
	assert.ok(lines.filter((l) => l.startsWith('HELD')).length >= held, lines.join('\n'));
}

/** Runs CODE in a terminal and gives what it shows. */
async function inTerminal(s: Served, code: string): Promise<string> {
	const id = await s.make();
	await s.run(id, { code: `open("attack.py", "w").write(${JSON.stringify(code)})` });
	const c = await s.attach(await s.terminal(id, { command: 'stty -echo; exec python3 attack.py' }));
	await c.end();
	return c.text;
}

export const floodCases: Case[] = [
	{
		id: '47a', without: { walls: ['window'] }, attack: `${DEAF} clients of a terminal that is flooded read nothing`, must: 'what waits for each is bounded; one that reads is served', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make(), at = await s.terminal(id, { command: 'stty -echo; read -r go; echo began; yes 0123456789abcdef' });
			await s.holds(12, async () => {
				const deaf = await Promise.all(Array.from({ length: DEAF }, () => s.attach(at)));
				await Promise.all(deaf.map((c) => c.hears('attached')));
				deaf.forEach((c) => c.socket.pause());
				const reads = await s.attach(at);
				reads.type('go\n');
				await until('much output', async () => (await printed(s, id)) > 12 << 20);
				assert.ok(reads.bytes.length > 100_000);
				deaf.forEach((c) => c.socket.destroy());
			});
		}),
	},
	{
		id: '47b', planted: grown, attack: `${DEAF} readers of the events of a run that prints without end read nothing`, must: 'what waits for each is bounded; the run ends as it would', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			await s.holds(16, async () => {
				const { id: run } = await s.run(id, { command: 'until [ -e go ]; do sleep .02; done; head -c 8000000 /dev/zero | tr "\\0" x', wait: false });
				const deaf = await Promise.all(Array.from({ length: DEAF }, () => s.deaf(`/api/v1/runs/${run}/events`)));
				await s.run(id, { command: 'touch go', parallel: true });
				assert.equal((await s.ended(run as string)).exit_code, 0);
				deaf.forEach((c) => c.destroy());
			});
		}),
	},
	{
		id: '47c', planted: grown, attack: `${DEAF} readers of all events of their user read nothing`, must: 'what waits for all of them is bounded by the budget of their user', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			await s.holds(24, async () => {
				const deaf = await Promise.all(Array.from({ length: DEAF }, () => s.deaf('/api/v1/events')));
				for (let i = 0; i < 4; i++)
					await s.run(id, { command: 'head -c 250000 /dev/zero | tr "\\0" x' });
				deaf.forEach((c) => c.destroy());
			});
		}),
	},
	{
		id: '47d', planted: grown, attack: '16 background processes print as fast as they can, and nobody reads', must: 'the newest output is kept, within the budget of the user', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			await s.holds(12, async () => {
				const all = await Promise.all(Array.from({ length: 16 }, () => s.process(id, { command: 'exec yes 0123456789abcdef' })));
				await until('much output', async () => (await printed(s, id)) > 32 << 20);
				const { stdout } = await s.look(all[0]!);
				assert.ok(stdout.text.length <= 65_536 && stdout.next > stdout.from, JSON.stringify({ ...stdout, text: '' }));
			});
		}),
	},
	{
		id: '47e', planted: grown, attack: 'clients of a server that answers without end read nothing', must: 'the server inside has to wait; others are served', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			await s.upload(id, 'servers.py');
			await s.says(await s.process(id, { command: 'exec python3 servers.py' }), 'serving');
			await s.holds(12, async () => {
				const deaf = await Promise.all(Array.from({ length: 16 }, () => s.deaf(`/p/${id}/8002/x`)));
				for (let i = 0; i < 3; i++)
					assert.equal((await s.fetch(`/p/${id}/8000/echo`)).status, 200);
				deaf.forEach((c) => c.destroy());
			});
		}),
	},
	{
		id: '47f', planted: { what: 'one more is said to be answered oddly', by: (_r, o) => void (o.spoil = (s: Served) => (s.change = (t) => t.replace('"running"', '"odd"'))) },
		attack: '1,000 background processes, asked for at once', must: 'each is started or refused; another user works meanwhile; nothing is left', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			await s.holds(24, async () => {
				const asked = Array.from({ length: 1000 }, () => s.ask('POST', `/sandboxes/${id}/processes`, { command: `exec python3 -c 'import time; time.sleep(1000)' ${o.mark}` }));
				await s.neighbour();
				const answers: Record<string, number> = {};
				for (const r of await Promise.all(asked)) {
					const what = r.status === 201 ? r.body.state : `${r.status} ${r.body.code}`;
					answers[what] = (answers[what] ?? 0) + 1;
				}
				assert.ok(answers.running! > 0 && answers.running! < 1000, JSON.stringify(answers));
				assert.ok(Object.keys(answers).every((k) => /^(running|ended|429 \w+|503 \w+)$/.test(k)), JSON.stringify(answers));
			});
			assert.equal((await s.ask('DELETE', `/sandboxes/${id}?force=true`)).status, 204);
			await until('the end of all', () => o.survivors().length === 0);
		}),
	},
	{
		id: '48a', without: { walls: ['reports'] }, attack: 'a program asks the terminal of `caisson shell` for reports, and ends before they come', must: 'they are no input of the next program', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			const asks = `import os; os.write(1, b"\\x1b[?1003h\\x1b[?2004h" + b"\\x1b[6n\\x1b[c\\x1b]52;c;?\\x07" * 300)`;
			await s.run(id, { code: `open("asks.py", "w").write(${JSON.stringify(asks)})` });
			const words = asProductUser([binary, 'shell', '--listen', `127.0.0.1:${s.port}`, id, '--', 'python3', 'asks.py']);
			const child = spawn('python3', [path.join(top, 'tests/suites/hostile/programs/answering_terminal.py'), ...words],
				{ env: productEnv({ ...s.env, SANDBOX_API_KEY: s.alice }), stdio: ['ignore', 'pipe', 'inherit'] });
			assert.equal(await content(child.stdout), 'got <typed>, modes on: none\n');
		}),
	},
	{
		id: '48b', planted: { what: 'more signals are said to have come', by: (_r, o) => void (o.spoil = (s: Served) => (s.more = 1 << 20)) }, attack: 'a storm of sizes', must: 'few of them reach the program, and the last one is right', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const code = 'import os, signal, time\nn = 0\ndef count(*a):\n    global n\n    n += 1\nsignal.signal(signal.SIGWINCH, count)\nprint("ready", flush=True)\nt = time.monotonic()\nwhile tuple(os.get_terminal_size()) != (77, 33): time.sleep(0.01)\nprint("signals", n, "in", int((time.monotonic() - t) * 1000), "ms", flush=True)';
			const id = await s.make();
			await s.run(id, { code: `open("sizes.py", "w").write(${JSON.stringify(code)})` });
			const c = await s.attach(await s.terminal(id, { command: 'exec python3 sizes.py' }));
			await c.shows('ready');
			for (let i = 0; i < 4000; i++)
				c.say({ resize: { rows: 1 + i % 1000, columns: 1000 - i % 1000 } });
			c.say({ resize: { rows: 33, columns: 77 } });
			await c.shows(/signals \d+ in \d+ ms/);
			const [n, ms] = /signals (\d+) in (\d+)/.exec(c.text)!.slice(1).map(Number) as [number, number];
			assert.ok(n + s.more < 10 + ms / 20, `${n} signals in ${ms} ms`);
		}),
	},
	{
		id: '48c', without: { walls: ['filter'] }, attack: 'a program types into its terminal, and changes what the kernel does with it', must: 'refused', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => judged(inTerminal(s, `
import errno, fcntl, os, struct
def refused(name, nr, arg):
    try:
        fcntl.ioctl(0, nr, arg)
        print("BROKEN", name)
    except OSError as e:
        print("HELD" if e.errno in (errno.EPERM, errno.ENOSYS, errno.EACCES, errno.ENOTTY) else "BROKEN", name, e)
refused("TIOCSTI", 0x5412, b"x")
refused("TIOCLINUX", 0x541C, b"\\2")
for n in (2, 13, 17, 21): refused(f"line discipline {n}", 0x5423, struct.pack("i", n))
refused("TIOCVHANGUP", 0x5437, 0)
refused("TIOCCONS", 0x541D, 0)
refused("TIOCSSERIAL", 0x541F, bytes(128))
for p in ("/dev/console", "/dev/tty0", "/dev/vcs", "/dev/pts/ptmx0"):
    try:
        os.open(p, os.O_RDWR | os.O_NOCTTY)
        print("BROKEN", p)
    except OSError as e:
        print("HELD", p, e)
`), 8)),
	},
	{
		id: '48d', planted: said('the second terminal shows something else', (t) => t.replaceAll('running', 'odd')), attack: 'a program breaks its own terminal: sizes, modes, nobody who has it, a child that keeps it', must: 'it ends, and others go on', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			const other = await s.terminal(id, { command: 'stty raw -echo; echo ready; exec cat' }), c = await s.attach(other);
			await c.shows('ready');
			const breaks = `import fcntl, os, signal, struct, subprocess, sys, termios, time
for size in ((0, 0), (65535, 65535), (1, 1)):
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
m = termios.tcgetattr(0)
m[3] |= 0x10000 # EXTPROC
termios.tcsetattr(0, termios.TCSANOW, m)
os.write(1, b"\\x13" + b"x" * 3000)
subprocess.Popen([sys.executable, "-c", "import signal, time\\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\\ntime.sleep(1000)", ${JSON.stringify(o.mark)}])
signal.signal(signal.SIGHUP, signal.SIG_IGN)
fcntl.ioctl(0, termios.TIOCNOTTY)
for fd in range(3): os.close(fd)
time.sleep(0.05)
os.open("/dev/null", os.O_RDWR)
time.sleep(1000)`;
			await s.run(id, { code: `open("breaks.py", "w").write(${JSON.stringify(breaks)})` });
			const at = await s.terminal(id, { command: 'exec python3 breaks.py' });
			const seen = await s.attach(at);
			await seen.shows('xxxx');
			seen.say({ resize: { rows: 5, columns: 5 } });
			await seen.hears('resize');
			assert.equal((await s.look(at)).state, 'running');
			assert.equal((await s.ask('DELETE', at)).status, 204);
			await seen.end();
			await until('the end of its child', () => o.survivors().length === 0);
			c.type('still here');
			await c.shows('still here');
		}),
	},
	{
		id: '52a', without: { walls: ['beneath'] }, attack: 'the folder that is going to be watched is swapped with links that lead out', must: 'refused, or it is the folder: nothing outside is told', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			const at = await s.process(id, { command: `mkdir -p a/d b /tmp/out/d; ln -s /tmp/out c; echo on; while :; do mv a x; mv c a; mv a c; mv x a; : > /tmp/out/d/secret; rm -f /tmp/out/d/secret; done` });
			await s.says(at, 'on');
			const statuses: Record<number, number> = {};
			for (let i = 0; i < 60; i++) {
				const gone = new AbortController();
				const r = await fetch(`${s.base}/api/v1/sandboxes/${id}/events?path=a${i % 2 ? '' : '/d'}&recursive=true`, { headers: { 'x-api-key': s.alice }, signal: gone.signal });
				statuses[r.status] = (statuses[r.status] ?? 0) + 1;
				if (r.status === 200) {
					const { value } = await r.body!.getReader().read();
					assert.doesNotMatch(Buffer.from(value!).toString(), /secret/);
				}
				gone.abort();
			}
			assert.ok(Object.keys(statuses).every((k) => ['200', '400', '404', '429', '503'].includes(k)), JSON.stringify(statuses));
			await s.run(id, { command: 'ln -s /tmp/out link' });
			await until('their places', async () => (await s.ask('GET', '/me')).body.budgets.watchers.used === 0);
			for (const p of ['link', 'link/d', 'link/d/..'])
				assert.ok([400, 404].includes((await s.ask('GET', `/sandboxes/${id}/events?path=${encodeURIComponent(p)}`)).status), p);
		}),
	},
	{
		id: '52b', planted: grown, attack: '8 watches that nobody reads, and storms of folders, names and links', must: 'the kernel of the sandbox keeps it, not the server', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			await s.holds(8, async () => {
				const deaf = await Promise.all(Array.from({ length: 8 }, () => s.deaf(`/api/v1/sandboxes/${id}/events?recursive=true`)));
				const storm = 'import os\nfor i in range(4000):\n    d = f"d{i % 50}-" + "n" * 200\n    try: os.mkdir(d)\n    except OSError: pass\n    try: os.symlink("/proc", f"{d}/l{i}")\n    except OSError: pass\n    try: os.rename(d, f"r{i % 50}")\n    except OSError: pass';
				assert.equal((await s.run(id, { code: storm })).exit_code, 0);
				await s.neighbour();
				deaf.forEach((c) => c.destroy());
			});
		}),
	},
	{
		id: '52c', planted: said('the refusal is said to be another one', (t) => t.replace('too_many_files', 'internal')), attack: 'a program has all instances of inotify of its sandbox', must: 'a watch is refused by name, and is there again when the program has ended', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			const code = 'import ctypes, time\nlibc = ctypes.CDLL(None)\nn = 0\nwhile libc.inotify_init1(0) >= 0: n += 1\nprint("has", n, flush=True)\ntime.sleep(1000)';
			await s.run(id, { code: `open("takes.py", "w").write(${JSON.stringify(code)})` });
			const at = await s.process(id, { command: 'exec python3 takes.py' });
			await s.says(at, 'has');
			const asked = await s.ask('GET', `/sandboxes/${id}/events`).catch(() => undefined);
			assert.deepEqual([asked?.status, asked?.body.code], [503, 'too_many_files'], asked?.text);
			assert.equal((await s.ask('DELETE', at)).status, 204);
			const again = await until('a watch', async () => {
				const r: Json = await fetch(`${s.base}/api/v1/sandboxes/${id}/events`, { headers: { 'x-api-key': s.alice } });
				await r.body.cancel();
				return r.status === 200;
			});
			assert.equal(again, true);
		}),
	},
];
