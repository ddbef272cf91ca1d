// SPDX-License-Identifier: Apache-2.0
// Sandboxes with a root user: what it can do inside, and that it can do nothing outside.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { engine, imagesDir, mode, newStateDir, scratch, unlessEnforced } from '../lib/env.ts';
import { caisson, membersOf, namespaceOf, type Program } from '../lib/process.ts';
import { initsOf } from '../lib/family.ts';
import { serve, using, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const possible = mode === 'root' && engine === 'native';
const skip = (!possible && 'only a server that root started, with the native engine, can have root users') || unlessEnforced('memory', 'pids');
/** Says what each line of code does: the error of the system, or "done". */
const TRY = String.raw`
import ctypes, errno, os, signal, socket, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, fn):
    try:
        r = fn()
        print(name, "done" if not isinstance(r, int) or r >= 0 else errno.errorcode[ctypes.get_errno()])
    except OSError as e:
        print(name, errno.errorcode[e.errno])
`;

interface Answer { status: number; body: Json; text: string }

/** REST of a server at BASE. */
function rest(base: () => string): (method: string, at: string, json?: unknown) => Promise<Answer> {
	return async (method, at, json) => {
		const r = await fetch(`${base()}/api/v1${at}`, {
			method, headers: json === undefined ? {} : { 'content-type': 'application/json' }, body: json === undefined ? undefined : JSON.stringify(json),
		});
		const text = await r.text();
		return { status: r.status, body: text ? JSON.parse(text) : {}, text };
	};
}

describe('without SANDBOX_ROOT', () => {
	let program: Program;
	let base: string;
	const ask = rest(() => base);

	before(async () => {
		({ program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir() } }));
	});
	after(() => program.end());

	it('nobody gets a root user, and is told what would be needed', async () => {
		const refused = await ask('POST', '/sandboxes', { root: true });
		assert.deepEqual([refused.status, refused.body.code, refused.body.member], [403, 'forbidden', 'root'], refused.text);
		assert.match(refused.body.detail, /SANDBOX_ROOT=on/);
		const made = await ask('POST', '/sandboxes', { root: false });
		assert.equal(made.status, 201, made.text);
		for (const [at, more] of [['runs', { wait: true }], ['processes', {}], ['terminals', {}]] as const) {
			const r = await ask('POST', `/sandboxes/${made.body.id}/${at}`, { command: 'id', user: 'root', ...more });
			assert.equal(r.status, 400, `${at}: ${r.text}`);
			assert.match(r.text, /no root user/);
		}
		const run = await ask('POST', `/sandboxes/${made.body.id}/runs`, { command: 'id -u', user: 'user', wait: true });
		assert.equal(run.body.stdout, '1000\n', run.text);
		assert.equal((await ask('GET', '/policy')).body.root, false);
	});
	it('the tools do not speak of it', () => using('stdio', { profile: 'full' }, async (s) => {
		const tools = (await s.client.listTools()).tools as Json[];
		const of = (name: string): Json => tools.find((t) => t.name === name)!.inputSchema.properties;
		assert.deepEqual([of('sandbox_create').root, of('sandbox_run_shell').user, of('sandbox_process').user], [undefined, undefined, undefined]);
	}));
});

describe('SANDBOX_ROOT=on where it is impossible', { skip: possible && 'it is possible here' }, () => {
	it('the server says so and does not start', async () => {
		const r = await caisson(['serve', '--listen', '127.0.0.1:0'], { env: { SANDBOX_ROOT: 'on', SANDBOX_STATE_DIR: newStateDir() } });
		assert.notEqual(r.code, 0);
		assert.match(`${r.stderr}`, /SANDBOX_ROOT=on needs the native engine, a server that root started/);
	});
});

describe('sandboxes with a root user', { skip }, () => {
	let program: Program;
	let base: string;
	const ask = rest(() => base);
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_ROOT: 'on' };

	before(async () => {
		({ program, base } = await serve({ profile: 'full', env }));
	});
	after(() => program.end());

	async function make(more: Json = {}): Promise<string> {
		const r = await ask('POST', '/sandboxes', { root: true, ...more });
		assert.equal(r.status, 201, r.text);
		assert.equal(r.body.root, true);
		return r.body.id;
	}
	async function run(id: string, json: Json): Promise<Json> {
		const r = await ask('POST', `/sandboxes/${id}/runs`, { wait: true, ...json });
		assert.ok(r.status < 300, r.text);
		return r.body;
	}
	const root = async (id: string, command: string): Promise<string> => {
		const r = await run(id, { command, user: 'root' });
		return r.stdout + r.stderr;
	};
	const user = async (id: string, command: string): Promise<string> => {
		const r = await run(id, { command });
		return r.stdout + r.stderr;
	};

	it('root changes the system and the user does not', async () => {
		const id = await make();
		assert.equal(await root(id, 'id -un; pwd; echo $HOME; touch /etc/new /root/own && rm /usr/bin/env && ls /usr/bin/env 2>/dev/null; stat -c %U /etc /usr/bin /root/own /etc/new'),
			'root\n/mnt/data\n/root\nroot\nroot\nroot\nroot\n');
		assert.equal(await user(id, 'id -un; echo $HOME; touch /etc/other 2>&1 | grep -c denied; stat -c %U /etc/new; [ -e /usr/bin/env ] || echo gone'), 'sandbox\n/home/sandbox\n1\nroot\ngone\n');
		// for others of the same image nothing has changed
		assert.equal(await user(await make(), 'ls /etc/new 2>/dev/null; [ -e /usr/bin/env ] && echo there'), 'there\n');
	});

	it('files belong to whom they are given, and root becomes who it wants', async () => {
		const id = await make();
		assert.equal(await root(id, `cd /srv; echo secret >of-33; chown 33:33 of-33; chmod 600 of-33; stat -c %u:%g of-33
			python3 -c 'import os; os.setgroups([]); os.setgid(33); os.setuid(33); print(open("/srv/of-33").read().strip(), os.getuid())
try: open("/etc/x", "w")
except PermissionError: print("no")
try: os.setuid(0)
except PermissionError: print("never back")'`), '33:33\nsecret 33\nno\nnever back\n');
		assert.match(await user(id, 'cat /srv/of-33'), /Permission denied/);
		assert.match(await root(id, 'chown 500 /srv/of-33'), /Invalid argument/); // an id that the sandbox does not have
	});

	it('root and the user work on one repository, and root becomes the user', async () => {
		const id = await make();
		assert.match(await user(id, 'git init -q r && cd r && touch a && git add a && git commit -qm one; git log --format=%s'), /^one\n$/);
		assert.equal(await root(id, 'cd r && touch b && git add b && git commit -qm two; git log --format=%s; git config init.defaultBranch'), 'two\none\nmain\n'); // the image's configuration stays
		assert.equal(await root(id, 'su sandbox -c "id -un; git -C r log --format=%s"; su - user -c pwd; su -s /bin/sh nobody -c "id -un"'), 'sandbox\ntwo\none\n/home/user\nnobody\n');
	});

	it('programs that give rights up and start others work, and what they start has none', async () => {
		const id = await make();
		const facts = 'id -u; id -g; grep -h -E "Cap(Prm|Eff|Amb)" /proc/self/status | cut -f 2 | sort -u; touch /etc/mine 2>/dev/null || echo no; python3 -c "import os; os.setuid(0)" 2>&1 | tail -n 1';
		const lost = '1000\n1000\n0000000000000000\nno\nPermissionError: [Errno 1] Operation not permitted\n';
		assert.equal(await root(id, `setpriv --reuid=1000 --regid=1000 --init-groups sh -c '${facts}'`), lost);
		assert.equal(await root(id, `setpriv --reuid=1000 --regid=1000 --clear-groups --inh-caps=-all sh -c '${facts}'`), lost);
		assert.equal(await root(id, `start-stop-daemon --start --chuid sandbox --pidfile /run/none --startas /bin/sh -- -c '${facts}'`), lost);
		assert.equal(await root(id, `setpriv --reuid=33 --regid=33 --clear-groups id -un; setpriv --inh-caps=-all id -un`), 'www-data\nroot\n');
		// as servers do that open a port below 1024, or files, afterwards
		assert.equal(await root(id, `echo secret >/srv/roots; chmod 600 /srv/roots; cat >/srv/keeps.py <<'END'
${TRY}
import struct
def capset(mask): return libc.capset(struct.pack("Ii", 0x20080522, 0), struct.pack("6I", mask, mask, 0, 0, 0, 0))
tried("keep", lambda: libc.prctl(8, 1, 0, 0, 0))
os.setgroups([]); os.setresgid(1000, 1000, 1000); os.setresuid(1000, 1000, 1000)
tried("before", lambda: open("/srv/roots") and 0)
tried("capset", lambda: capset(2))
print(open("/srv/roots").read().strip(), os.getuid())
tried("more", lambda: capset(2 | 1 << 21))
tried("ambient", lambda: libc.prctl(47, 2, 1, 0, 0))
os.execvp("sh", ["sh", "-c", ${JSON.stringify(facts)}])
END
			python3 /srv/keeps.py`), `keep done\nbefore EACCES\ncapset done\nsecret 1000\nmore EPERM\nambient EPERM\n${lost}`);
		// who has nothing gets nothing
		const r = await run(id, { code: `${TRY}\nimport struct\ntried("keep", lambda: libc.prctl(8, 1, 0, 0, 0))\nfor sets in (2, 2, 0), (0, 2, 0), (0, 0, 2):\n    tried("capset", lambda: libc.capset(struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *sets, 0, 0, 0)))` });
		assert.equal(r.stdout, 'keep done\ncapset EPERM\ncapset EPERM\ncapset EPERM\n', r.stderr);
	});

	it('a package of the system is installed with what its script does', async () => {
		const id = await make();
		const said = await root(id, `mkdir -p /srv/p/DEBIAN /srv/p/usr/bin /srv/p/var/lib/tried && cd /srv
			printf 'Package: tried\nVersion: 1\nArchitecture: all\nMaintainer: x <x@localhost>\nDescription: x\n' >p/DEBIAN/control
			printf '#!/bin/sh\nchown 105:33 /var/lib/tried && echo tried:x:105:33::/:/bin/sh >>/etc/passwd\n' >p/DEBIAN/postinst; chmod 755 p/DEBIAN/postinst
			printf '#!/bin/sh\necho works\n' >p/usr/bin/tried; chmod 755 p/usr/bin/tried
			dpkg-deb --root-owner-group -b p p.deb >/dev/null && dpkg -i --force-depends p.deb 2>&1 | grep -c 'Setting up tried'
			tried; stat -c %U /var/lib/tried; dpkg -s tried | grep Status`);
		assert.equal(said, '1\nworks\ntried\nStatus: install ok installed\n');
	});

	it('no rights outside: what root cannot do', async () => {
		const id = await make();
		const said = await root(id, `cat >t.py <<'E'\n${TRY}
tried("mount", lambda: libc.mount(b"none", b"/mnt", b"tmpfs", 0, None))
tried("unshare", lambda: libc.unshare(0x10000000))
tried("device", lambda: os.mknod("/srv/d", 0o20666, os.makedev(1, 1)))
tried("chroot", lambda: os.chroot("/srv"))
tried("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
tried("host name", lambda: socket.sethostname("x"))
tried("kill init", lambda: os.kill(1, signal.SIGKILL))
tried("proc", lambda: open("/proc/sys/kernel/core_pattern", "w"))
tried("init's memory", lambda: open("/proc/1/mem"))
tried("init's files", lambda: open("/proc/1/fd/3"))
tried("init's folder", lambda: os.listdir("/proc/1/cwd"))
tried("init's environment", lambda: open("/proc/1/environ").read())
tried("kernel log", lambda: libc.klogctl(3, None, 0))
tried("clock", lambda: libc.settimeofday(ctypes.byref((ctypes.c_long * 2)(0, 0)), None))
tried("lower priority number", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))
E
python3 t.py; grep Cap /proc/self/status | cut -f2 | sort -u; grep NoNewPrivs /proc/self/status`);
		const lines = said.trim().split('\n');
		for (const line of lines.slice(0, -3))
			assert.match(line, / E(PERM|ACCES|NOENT|NOSYS|ROFS)$/, said);
		// CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE
		assert.deepEqual(lines.slice(-3), ['0000000000000000', '00000000000004fb', 'NoNewPrivs:\t1'], said);
	});

	it('the user gains nothing by a set-user-id program, nor does Python', async () => {
		const id = await make();
		await root(id, 'cp /usr/bin/id /usr/bin/whoelse; chown 0:0 /usr/bin/whoelse; chmod 4755 /usr/bin/whoelse');
		assert.equal(await user(id, '/usr/bin/whoelse -u; grep CapPrm /proc/self/status'), '1000\nCapPrm:\t0000000000000000\n');
		for (const stateful of [false, true]) {
			const r = await run(id, { stateful, code: `${TRY}\ntried("setuid", lambda: os.setuid(0))\ntried("setgroups", lambda: os.setgroups([0]))\ntried("chown", lambda: os.chown("/etc/passwd", 1000, 1000))\nprint(os.getuid())` });
			assert.equal(r.stdout, 'setuid EPERM\nsetgroups EPERM\nchown EPERM\n1000\n', r.stderr);
		}
	});

	it('sandboxes have no id of the host in common', async () => {
		const ids = await Promise.all(Array.from({ length: 3 }, () => make()));
		const maps = await Promise.all(ids.map((id) => root(id, 'cat /proc/self/uid_map')));
		const taken = new Set<number>();
		for (const map of maps)
			for (const line of map.trim().split('\n')) {
				const [, at, n] = line.trim().split(/\s+/).map(Number) as [number, number, number];
				for (let i = at; i < at + n; i++) {
					assert.ok(!taken.has(i), `${i} twice: ${maps.join('\n')}`);
					taken.add(i);
				}
			}
		await ask('DELETE', `/sandboxes/${ids[0]}`);
		await run(await make(), { command: 'true' }); // what it gave back is taken again
	});

	it('all processes of all users end with the run, and with the sandbox', async () => {
		const id = await make();
		const leave = `python3 - <<'E'
import os, time
for uid in (0, 33, 1000):
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        os.setgid(uid); os.setuid(uid)
        open("/tmp/left-%d" % uid, "w").close()
        while True: time.sleep(1000)
while not all(os.path.exists("/tmp/left-%d" % u) for u in (0, 33, 1000)): time.sleep(0.01)
E`;
		const r = await run(id, { command: leave, user: 'root' });
		assert.equal(r.exit_code, 0, r.stderr);
		assert.equal((await root(id, "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null; echo; done | grep -c 'python3 -$'")).trim(), '0');
		// a background process of root beside runs, and of a user below it
		const p = await ask('POST', `/sandboxes/${id}/processes`, { command: `rm -f /tmp/left-*; ${leave}\nsleep 1000`, user: 'root' });
		assert.equal(p.status, 201, p.text);
		await until('its children', async () => (await root(id, 'ls /tmp/left-33 2>/dev/null')).includes('left'));
		const space = namespaceOf(initsOf(program.pid).at(-1)!.pid, 'pid')!;
		const killed = await ask('POST', `/sandboxes/${id}/processes/${p.body.id}/signal`, { signal: 'KILL' });
		assert.ok(killed.status < 300, killed.text);
		await until('its end', async () => (await ask('GET', `/sandboxes/${id}/processes/${p.body.id}`)).body.state !== 'running');
		assert.equal((await root(id, "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null; echo; done | grep -c 'python3 -$'")).trim(), '0');
		await ask('POST', `/sandboxes/${id}/processes`, { command: leave + '\nsleep 1000', user: 'root' });
		assert.equal((await ask('DELETE', `/sandboxes/${id}`)).status, 204);
		await until('nothing of the sandbox', () => membersOf([space]).length === 0);
	});

	it('a time limit ends what is another user\'s, too', async () => {
		const id = await make();
		const r = await run(id, { command: "trap '' TERM; python3 -c 'import os,signal,time; signal.signal(15, signal.SIG_IGN); os.setgid(33); os.setuid(33); time.sleep(100)'", user: 'root', timeout_s: 1 });
		assert.equal(r.reason, 'timeout', JSON.stringify(r));
		assert.equal((await user(id, 'echo on')).trim(), 'on');
	});

	it('memory, processes and disk are limited for root as for others', async () => {
		const id = await make({ memory_mb: 128, processes: 40, disk_mb: 60 });
		const eats = await run(id, { command: "exec python3 -c 'x = bytearray(400 << 20); x[::4096] = b\"1\" * len(x[::4096])'", user: 'root' });
		assert.equal(eats.reason, 'oom', JSON.stringify(eats));
		assert.match(await root(id, 'head -c 100000000 /dev/zero >/var/big'), /No space left/);
		assert.equal(await root(id, 'rm /var/big; echo fits >/var/small; cat /var/small'), 'fits\n');
		assert.match(await root(id, `python3 - <<'E'
import os, time
n = 0
try:
    for uid in (0, 33, 1000) * 40:
        if os.fork() == 0:
            os.setgid(uid); os.setuid(uid); time.sleep(100); os._exit(0)
        n += 1
except OSError as e: print(n < 40, e.strerror)
E`), /^True Resource temporarily/);
	});

	it('what root closes is closed to the user, who is told why', async () => {
		const id = await make();
		await root(id, 'mkdir -m 700 /srv/closed; echo junk >/srv/junk; chmod 755 /srv/junk; chown root /mnt/data; chmod 700 /mnt/data');
		const python = await ask('POST', `/sandboxes/${id}/runs`, { wait: true, code: '1' }); // a waiting interpreter has started already
		assert.ok(python.status === 400 || (python.body.exit_code === 127 && /\/mnt\/data cannot be entered, so nothing ran: Permission denied/.test(python.body.stderr)), python.text);
		for (const more of [{ command: 'true' }, { command: 'true', cwd: '/srv/closed' }]) {
			const r = await ask('POST', `/sandboxes/${id}/runs`, { wait: true, ...more });
			assert.equal(r.status, 400, r.text);
			assert.match(r.body.detail, /may not enter the working folder|cannot be entered/);
		}
		const notFolder = await ask('POST', `/sandboxes/${id}/runs`, { command: 'true', cwd: '/srv/junk', user: 'root', wait: true });
		assert.deepEqual([notFolder.status, notFolder.body.code], [400, 'invalid_path'], notFolder.text);
		assert.equal(await root(id, 'chown sandbox /mnt/data; cp /srv/junk /usr/bin/python3.new; mv /usr/bin/python3.new /usr/bin/python3'), '');
		assert.equal((await user(id, 'echo again')), 'again\n');
		const broken = await ask('POST', `/sandboxes/${id}/runs`, { code: '1', env: { PYTHONHASHSEED: '1' }, wait: true });
		assert.ok(broken.status < 500, broken.text);
	});

	it('checkpoints keep what root made in the workspace', async () => {
		const id = await make();
		await root(id, 'mkdir d; echo 1 >d/own; chmod 700 d; chmod 600 d/own');
		const saved = await ask('POST', `/sandboxes/${id}/checkpoints`, { name: 'a' });
		assert.ok(saved.status < 300, saved.text);
		await root(id, 'rm -r d');
		const back = await ask('POST', `/sandboxes/${id}/checkpoints/a/restore`, {});
		assert.ok(back.status < 300, back.text);
		assert.equal(await root(id, 'cat d/own'), '1\n');
		const list = await ask('GET', `/sandboxes/${id}/files?path=d`);
		assert.equal(list.status, 200, list.text);
	});

	it('it is not kept and not stored, and says why', async () => {
		const id = await make();
		const kept = await ask('POST', `/sandboxes/${id}/keep`, {});
		assert.deepEqual([kept.status, kept.body.code], [409, 'not_keepable'], kept.text);
		const stored = await ask('POST', '/sandboxes', { root: true, persistent: true });
		assert.ok(stored.status >= 400, stored.text);
		const fork = await ask('POST', `/sandboxes/${id}/forks`, {});
		assert.equal(fork.status, 201, fork.text);
		assert.equal(await root(fork.body.id, 'id -u'), '0\n');
	});

	it('caisson exec --user root', async () => {
		const id = await make();
		const started = await caisson(['exec', '-d', '--user', 'root', id, '--', 'sh', '-c', 'id -u'], { env: { SANDBOX_STATE_DIR: env.SANDBOX_STATE_DIR, SANDBOX_LISTEN: new URL(base).host } });
		assert.equal(started.code, 0, `${started.stderr}`);
		const p = `${started.stdout}`.trim();
		const end = await until('its end', async () => {
			const r = (await ask('GET', `/sandboxes/${id}/processes/${p}`)).body;
			return r.state === 'ended' && r;
		});
		assert.equal(end.stdout.text, '0\n', JSON.stringify(end));
		const refused = await caisson(['exec', '-d', '--user', 'nobody', id, '--', 'id'], { env: { SANDBOX_STATE_DIR: env.SANDBOX_STATE_DIR, SANDBOX_LISTEN: new URL(base).host } });
		assert.match(`${refused.stderr}`, /user/);
		assert.notEqual(refused.code, 0);
	});

	it('images without accounts, without root, or with more than there can be', async () => {
		const state = scratch('images'), shared = path.join(imagesDir, 'base/root');
		const texts = { none: undefined, rootless: 'games:x:5:60:games:/usr/games:/bin/sh\n', lines: 'root\n::::\n\n:\0:\nroot:x:0:0:r:/root:/bin/sh', large: 'x:x:5:5::/:/bin/sh\n'.repeat(100_000) };
		for (const [name, text] of Object.entries(texts)) {
			const at = path.join(state, 'images', name, 'root');
			fs.mkdirSync(path.dirname(at), { recursive: true });
			assert.equal(spawnSync('sh', ['-c', 'cp -al "$0" "$1" 2>/dev/null || { rm -rf "$1"; cp -a "$0" "$1"; }', shared, at]).status, 0);
			fs.rmSync(path.join(at, 'etc/passwd'));
			fs.rmSync(path.join(at, 'root'), { recursive: true });
			if (text !== undefined)
				fs.writeFileSync(path.join(at, 'etc/passwd'), text);
		}
		const other = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: state, SANDBOX_ROOT: 'on', SANDBOX_IMAGE: 'none', SANDBOX_IMAGES: Object.keys(texts).join(',') } });
		try {
			const at = rest(() => other.base);
			for (const image of Object.keys(texts)) {
				const made = await at('POST', '/sandboxes', { root: true, image });
				assert.equal(made.status, 201, made.text);
				const r = await at('POST', `/sandboxes/${made.body.id}/runs`, { command: 'cd; pwd; id -un; stat -c %U /etc/passwd .; su sandbox -c "id -un"', user: 'root', wait: true });
				assert.equal(r.body.stdout, '/root\nroot\nroot\nroot\nsandbox\n', `${image}: ${r.text}`);
			}
		} finally {
			await other.program.end();
		}
	});

	it('a terminal and the tools: the model is told and can', async () => {
		const id = await make();
		const t = await ask('POST', `/sandboxes/${id}/terminals`, { command: 'id -u; tty', user: 'root' });
		assert.equal(t.status, 201, t.text);
		const end = await until('its end', async () => {
			const p = (await ask('GET', `/sandboxes/${id}/processes/${t.body.id}`)).body;
			return p.state !== 'running' && p;
		});
		assert.match(end.stdout.text, /^0\r\n\/dev\/pts\/\d+\r\n$/, JSON.stringify(end));
		await using('stdio', { profile: 'full', env: { SANDBOX_ROOT: 'on' } }, async (s) => {
			const tools = (await s.client.listTools()).tools as Json[];
			const of = (name: string): Json => tools.find((x) => x.name === name)!.inputSchema.properties;
			assert.ok(of('sandbox_create').root && of('sandbox_run_shell').user && of('sandbox_process').user);
			await s.raw('sandbox_create', { session_id: 'a', root: true });
			const said = await s.raw('sandbox_run_shell', { session_id: 'a', command: 'id -u; touch /etc/x && echo can', user: 'root' });
			assert.match(JSON.stringify(said), /0\\ncan/);
			const not = await s.raw('sandbox_run_shell', { session_id: 'b', command: 'id -u', user: 'root' });
			assert.match(JSON.stringify(not), /no root user/);
		});
	});

});
