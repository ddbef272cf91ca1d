// SPDX-License-Identifier: Apache-2.0
// docs/kernel-bugs.md is true: every class that it calls unreachable answers an error at each of its entry points, every other one works,
// each bug has a class, and the shares are what the rows add up to.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { it } from 'node:test';
import { top } from '../lib/env.ts';
import { caisson } from '../lib/process.ts';
import { using } from '../lib/session.ts';
import { cases } from '../suites/hostile/cases/all.ts';

/** What the filter answers, what a place without the node answers, and nothing else: EINVAL would mean that the call was carried out. */
const refusals = new Set(['EPERM', 'ENOSYS', 'ENOENT']);
/** The classes behind netlink sockets, which the filter refuses with other errors: EOPNOTSUPP, which Python calls ENOTSUP; that of the audit with what a kernel without one says. */
const netlink = new Set(['netfilter', 'rtnetlink', 'xfrm', 'netlink']);
/** The marks of the last column: kernelCTF, CISA's catalogue of exploited vulnerabilities, both, none. */
const marks = new Set(['K', 'C', 'K C', '–']);

const text = fs.readFileSync(path.join(top, 'docs/kernel-bugs.md'), 'utf8');

function table(heading: string): string[][] {
	const part = text.split(`\n## ${heading}\n`)[1]!.split('\n## ')[0]!;
	return part.split('\n').filter((l) => l.startsWith('| ')).slice(1).map((l) => l.split('|').slice(1, -1).map((c) => c.trim()));
}

const classes = table('Classes').map(([name, , reachable, , tried]) => ({ name: name!, reachable: reachable === '**yes**', tried: tried!.split(' ').filter(Boolean) }));
const bugs = table('Bugs').map(([number, , kind, catalogue]) => ({ number: number!, kind: kind!, mark: catalogue! }));

it('the tables name each bug once and each class', () => {
	assert.equal(new Set(bugs.map((b) => b.number)).size, bugs.length);
	assert.deepEqual(new Set(bugs.map((b) => b.kind)), new Set(classes.map((c) => c.name)));
	assert.ok(bugs.every((b) => /^CVE-20\d\d-\d{4,}$/.test(b.number)));
	assert.ok(bugs.every((b) => marks.has(b.mark)));
	const known = new Set(cases.map((c) => c.id));
	for (const t of classes.flatMap((c) => c.tried).filter((t) => !t.startsWith('`')))
		assert.ok(known.has(t), `${t} is no case of tests/suites/hostile`);
});

it('the shares are those of the rows', () => {
	const open = new Set(classes.filter((c) => c.reachable).map((c) => c.name));
	const count = (of: typeof bugs): number[] => {
		const unreachable = of.filter((b) => !open.has(b.kind)).length;
		return [of.length, unreachable, Math.round((100 * unreachable) / of.length), of.length - unreachable];
	};
	const figures = '(\\d+):? (\\d+) unreachable \\((\\d+) %\\), (\\d+) reachable\\.';
	const said = new RegExp(`\\*\\*${figures.replace(':?', ' bugs:')} Of kernelCTF ${figures} Of CISA's catalogue ${figures}\\*\\*`).exec(text);
	const marked = (mark: string): typeof bugs => bugs.filter((b) => b.mark.split(' ').includes(mark));
	assert.deepEqual(said?.slice(1).map(Number), [...count(bugs), ...count(marked('K')), ...count(marked('C'))]);
	assert.equal(Number(/^\* \*\*–\*\*: (\d+) more/m.exec(text)?.[1]), marked('–').length);
	const [all, unreachable, share] = count(bugs);
	assert.ok(share! >= 85, 'the goal');
	const summary = fs.readFileSync(path.join(top, 'docs/SECURITY.md'), 'utf8');
	assert.ok(summary.includes(`lists ${all} local privilege escalations`) && summary.includes(`${unreachable} of them (${share} %) cannot be reached`));
});

it("doctor's table has the bugs of the reachable classes, and no other", () => {
	const open = new Set(classes.filter((c) => c.reachable).map((c) => c.name));
	const rows = fs.readFileSync(path.join(top, 'src/doctor/kernel_bugs.tbl.h'), 'utf8');
	assert.deepEqual([...rows.matchAll(/^B\("([^"]+)"/gm)].map((m) => m[1]), bugs.filter((b) => open.has(b.kind)).map((b) => b.number));
});

it('doctor says how many of them this kernel has', async () => {
	const said = JSON.parse((await caisson(['doctor', '--json'])).stdout.toString()) as { rows: { id: string; state: string; value: string }[] };
	const row = said.rows.find((r) => r.id === 'known_bugs');
	assert.match(row?.value ?? '', /^(none|\d+) of the \d+ that reach through the walls|^cannot be judged: |^not counted: /);
	assert.equal(row!.state === 'ok', row!.value.startsWith('none'));
});

it('timers of everyday programs are left alone', async () => {
	const code = `
import signal, subprocess, time
assert subprocess.run(["timeout", "0.2", "sleep", "60"]).returncode == 124
with open("lock", "w") as held:
    import fcntl; fcntl.flock(held, fcntl.LOCK_EX)
    assert subprocess.run(["flock", "-w", "0.2", "lock", "true"]).returncode == 1
time.sleep(0.01)
fired = []
signal.signal(signal.SIGPROF, lambda *a: fired.append(1))
signal.setitimer(signal.ITIMER_PROF, 0.01)
while not fired:
    pass
print(time.process_time() > 0, time.clock_getres(time.CLOCK_THREAD_CPUTIME_ID) > 0)`;
	await using('stdio', {}, async (s) => {
		assert.equal((await s.ok(code)).stdout, 'True True\n');
	});
});

it('files are copied and sent without splice and sendfile', async () => {
	const code = `
import asyncio, os, pathlib, shutil, socket, subprocess
data = os.urandom(1 << 20)
pathlib.Path("a").write_bytes(data)
shutil.copyfile("a", "b")
pathlib.Path("a").copy(pathlib.Path("c")) if hasattr(pathlib.Path, "copy") else shutil.copy("a", "c")
subprocess.run("cp a d && cat a | cat > e && tee f < a > g && dd if=a of=h status=none", shell=True, check=True)

async def serve(reader, writer):
    with open("a", "rb") as f:
        await asyncio.get_running_loop().sendfile(writer.transport, f)
    writer.close()

async def both():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    got = await reader.read()
    writer.close()
    server.close()
    return got

a, b = socket.socketpair()
with a, b, open("a", "rb") as f:
    sent = a.sendfile(f, count=1000)
    print(all(pathlib.Path(n).read_bytes() == data for n in "bcdefgh"), asyncio.run(both()) == data, b.recv(2000) == data[:sent], sent)`;
	await using('stdio', {}, async (s) => {
		assert.equal((await s.ok(code)).stdout, 'True True True 1000\n');
	});
});

it('the entry points of every class answer so in a sandbox', async () => {
	const code = fs.readFileSync(path.join(top, 'tests/integration/kernel-bugs.py'), 'utf8');
	await using('stdio', {}, async (s) => {
		const answers = JSON.parse((await s.ok(code)).stdout) as Record<string, string[]>;
		assert.deepEqual(new Set(Object.keys(answers)), new Set(classes.map((c) => c.name)));
		for (const c of classes) {
			const got = answers[c.name]!;
			assert.ok(got.length > 0 && got.every((a) => (c.reachable ? a === 'ok' : refusals.has(a) || (['ENOTSUP', 'EPROTONOSUPPORT'].includes(a) && netlink.has(c.name)))), `${c.name}: ${got}`);
		}
	});
});
