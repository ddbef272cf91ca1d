// SPDX-License-Identifier: Apache-2.0
// `caisson stdio` beside a running `caisson serve` of the same user: shared when nothing stands against it, an engine of its own otherwise.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as net from 'node:net';
import * as os from 'node:os';
import * as path from 'node:path';
import { once } from 'node:events';
import { spawn, type ChildProcess } from 'node:child_process';
import { after, before, describe, it } from 'node:test';
import { asProductUser, binary, freePort, newStateDir, productEnv, productUid, scratch, unlessEnforced } from '../lib/env.ts';
import { monitorOf } from '../lib/family.ts';
import { caisson, descendants, type Program } from '../lib/process.ts';
import { RawClient } from '../lib/raw.ts';
import { serve, type Json } from '../lib/session.ts';
import { until, within } from '../lib/wait.ts';

type Env = Record<string, string | undefined>;

const OTHER_UID = 61235;
const isRoot = process.getuid!() === 0;

/** What server and clients agree on; ports and the log are explicit in every test. */
async function meeting(extra: Env = {}): Promise<Env & { SANDBOX_SOCKET: string }> {
	const dir = scratch('meet');
	return {
		SANDBOX_SOCKET: path.join(dir, 's'),
		SANDBOX_HTTP_PORT: String(await freePort()),
		SANDBOX_LOG_FILE: path.join(dir, 'log'),
		SANDBOX_MAX_LINE_BYTES: '0',
		...extra,
	};
}

function client(env: Env, args: string[] = []): RawClient {
	return new RawClient({ env }, ['stdio', '--profile', 'code', ...args]);
}

/** After an answer it is known: a client with an engine has a monitor below it, a bridge has nobody. */
async function isBridged(c: RawClient): Promise<boolean> {
	assert.equal((await c.initialize()).result.serverInfo.name, 'code_sandbox_mcp');
	return descendants(c.pid).length === 0;
}

/** A client for the duration of `body`. */
async function withClient<T>(env: Env, args: string[], body: (c: RawClient) => Promise<T>): Promise<T> {
	const c = client(env, args);
	try {
		return await body(c);
	} finally {
		await c.end();
	}
}

/** The same with one that shares a server; on a busy machine an answer may come after the budget of the client, who then does well without. */
async function bridged<T>(env: Env, args: string[], body: (c: RawClient) => Promise<T>): Promise<T> {
	for (let tries = 5; ; tries--) {
		const c = client(env, args);
		try {
			if (await isBridged(c))
				return await body(c);
			const log = fs.readFileSync(env.SANDBOX_LOG_FILE!, 'utf8').trim().split('\n').filter((l) => l.includes('not_bridged')).at(-1);
			assert.ok(tries > 0 && log?.includes('too busy'), `not bridged: ${log}`);
		} finally {
			await c.end();
		}
	}
}

async function inputEnds(c: RawClient): Promise<void> {
	c.program.child.stdin!.end();
	const r = await within('the end of the client', c.program.exit, 20_000);
	assert.deepEqual([r.code, r.signal], [0, null], r.stderr.toString());
}

describe('a shared server', () => {
	let env: Env & { SANDBOX_SOCKET: string };
	let program: Program;
	before(async () => {
		env = await meeting({ SANDBOX_EXEC_TIMEOUT_S: '30' });
		({ program } = await serve({ env }));
	});
	after(() => program?.end());

	it('has a socket that is the user\'s alone', () => {
		const st = fs.statSync(env.SANDBOX_SOCKET);
		assert.ok(st.isSocket());
		assert.equal(st.mode & 0o777, 0o600);
		assert.equal(st.uid, productUid);
	});
	it('two clients at once use its monitor and see the same sandboxes', async () => {
		const before = monitorOf(program.pid).pid;
		await bridged(env, [], (one) => bridged(env, [], async (two) => {
			const run = (c: RawClient, code: string): Promise<Json> => c.tool('sandbox_run_python', { code, session_id: 'both' });
			assert.equal((await run(one, 'open("f", "w").write("hello")')).exit_code, 0);
			assert.equal((await run(two, 'print(open("f").read())')).stdout, 'hello\n');
			assert.equal(descendants(one.pid).length + descendants(two.pid).length, 0);
		}));
		assert.equal(monitorOf(program.pid).pid, before);
	});
	it('sandboxes outlive the client that made them', async () => {
		await bridged(env, [], async (c) => {
			await c.tool('sandbox_run_python', { code: 'open("kept", "w").close()', session_id: 'kept' });
			await inputEnds(c);
		});
		await bridged(env, [], async (c) => {
			const r = await c.tool('sandbox_list_artifacts', { session_id: 'kept' });
			assert.deepEqual(r.artifacts.map((a: Json) => a.filename), ['kept']);
		});
	});
	it('(slow) the end of input lets a run finish, and its answer arrive', () => bridged(env, [], async (c) => {
		await c.sendJson({ jsonrpc: '2.0', id: 'late', method: 'tools/call', params: {
			name: 'sandbox_run_python', arguments: { code: 'import time; time.sleep(1); print("done")', session_id: 'drain' } } });
		await inputEnds(c);
		const answer = c.messages().find((m) => m.id === 'late');
		assert.equal(answer?.result.structuredContent.result.stdout, 'done\n');
	}));
	it('megabytes pass both ways', () => bridged(env, [], async (c) => {
		const content = Buffer.alloc(6 << 20, 'caisson ').toString('base64');
		const up = await c.tool('sandbox_upload_file', { filename: 'big.bin', content_base64: content, session_id: 'big' });
		assert.equal(up.error, undefined, JSON.stringify(up));
		const down = await c.tool('sandbox_read_artifact', { session_id: 'big', path: '/mnt/data/big.bin' });
		assert.ok(down.content_base64 === content, 'the same bytes');
	}));
	/** What stdin and stdout are decides who reads and writes them: the server (sockets above, pipes) or the client (files, terminals). */
	const requests = (session_id: string): string => [
		{ id: 'init', method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } } },
		{ method: 'notifications/initialized' },
		{ id: 'run', method: 'tools/call', params: { name: 'sandbox_run_python', arguments: { code: 'open("f", "wb").write(b"abc" * 1000000)', session_id } } },
	].map((m) => JSON.stringify({ jsonrpc: '2.0', ...m }) + '\n').join('');
	const read = (session_id: string): string => JSON.stringify({ jsonrpc: '2.0', id: 'read', method: 'tools/call', params: {
		name: 'sandbox_read_artifact', arguments: { session_id, path: '/mnt/data/f' } } }) + '\n';
	for (const [what, command] of [
		['pipes', '(cat in; sleep 1; cat more) | "$0" "$@" | cat >out'],
		['a pipe and a file', '(cat in; sleep 1; cat more) | "$0" "$@" >out'],
		['a file and a pipe', '"$0" "$@" <in | cat >out; "$0" "$@" <more | cat >>out'],
		['files', '"$0" "$@" <in >out; "$0" "$@" <more >>out'],
	] as const) {
		/** True: the run was made by the server, whose sandbox it is; an engine of the client's own has taken it along. */
		const attempt = async (id: string): Promise<boolean> => {
			const dir = scratch('wires');
			fs.writeFileSync(path.join(dir, 'in'), requests(id));
			fs.writeFileSync(path.join(dir, 'more'), read(id));
			const argv = asProductUser(['sh', '-c', command, binary, 'stdio', '--profile', 'code']);
			const child = spawn(argv[0]!, argv.slice(1), { cwd: dir, env: productEnv(env), stdio: ['ignore', 'ignore', 'pipe'] });
			let said = '';
			child.stderr!.on('data', (b: Buffer) => (said += b.toString()));
			const [code] = await within('the end', once(child, 'close'), 60_000);
			assert.deepEqual([code, said], [0, '']);
			const answers = fs.readFileSync(path.join(dir, 'out'), 'utf8').trim().split('\n').map((l) => JSON.parse(l) as Json);
			assert.equal(answers.find((m) => m.id === 'run')?.result.structuredContent.result.exit_code, 0, JSON.stringify(answers).slice(0, 1000));
			return bridged(env, [], async (c) => {
				const r = await c.tool('sandbox_list_artifacts', { session_id: id });
				assert.ok(r.error === 'session_not_found' || r.artifacts[0].size_bytes === 3_000_000, JSON.stringify(r));
				return !r.error;
			});
		};
		it(`serves a client with ${what}`, async () => {
			const log = (): string[] => fs.readFileSync(env.SANDBOX_LOG_FILE!, 'utf8').split('\n').filter((l) => l.includes('not_bridged'));
			for (let tries = 5; ; tries--) {
				const before = log().length;
				if (await attempt(`${what.replaceAll(' ', '-')}-${tries}`))
					return;
				assert.ok(tries > 0 && log().length > before && log().slice(before).every((l) => l.includes('too busy')), `not bridged: ${log().slice(before).join('\n')}`);
			}
		});
	}
	it('SIGTERM of a client is the end of its input', () => bridged(env, [], async (c) => {
		c.program.kill('SIGTERM');
		const r = await within('the end of the client', c.program.exit, 10_000);
		assert.deepEqual([r.code, r.signal], [0, null]);
	}));
	it('a client that vanishes takes its run along, not the server', () => bridged(env, [], (c) => bridged(env, [], async (other) => {
		await c.sendJson({ jsonrpc: '2.0', id: 'x', method: 'tools/call', params: {
			name: 'sandbox_run_python', arguments: { code: 'open("on", "w").close()\nimport time; time.sleep(25)', session_id: 'gone' } } });
		await until('the run', async () => (await other.tool('sandbox_list_artifacts', { session_id: 'gone' })).artifacts?.length > 0);
		c.program.kill('SIGKILL');
		await c.program.exit;
		await until('a run that is not in its way', async () => { // session_busy until the old one is dead
			const r = await other.tool('sandbox_run_python', { code: 'print(1)', session_id: 'gone' });
			return r.stdout === '1\n';
		}, 8000);
	})));
	it('the same settings are taken, however they are given', () =>
		bridged({ ...env, SANDBOX_EXEC_TIMEOUT_S: undefined }, ['--exec-timeout-s', '30', '--max-sessions=10'], async () => undefined));
	for (const args of [['--no-bridge'], ['--bridge', 'off'], ['--exec-timeout-s', '31'], ['--memory-limit', '512m'], ['--session-ttl-m', '1'],
		['--max-output-bytes', '100'], ['--profile', 'all'], ['--state-dir', 'OTHER'], ['--api-key', 'x'.repeat(20)], ['--socket', '/nowhere/s']]) {
		it(`${args.join(' ')} means an engine of its own`, { skip: args[0] === '--memory-limit' && unlessEnforced('memory') }, async () => {
			const given = args.map((a) => (a === 'OTHER' ? newStateDir() : a));
			await withClient(env, given, async (c) => {
				await c.initialize();
				monitorOf(c.pid);
				const r = await c.tool('sandbox_list_artifacts', { session_id: 'kept' });
				assert.equal(r.error, 'session_not_found', 'not the server\'s sandboxes');
			});
		});
	}
	it('(slow) a client that takes O_NONBLOCK from its pipe, and does not read, stops nobody', { skip: productUid !== 0 && 'a server of the same user opens the pipe again, so nobody shares its flags' }, async () => {
		// Who has passed a descriptor has the same open file, and so its flags; here they are changed in the server's copy.
		const attack = String.raw`
import ctypes, fcntl, json, os, subprocess, sys
server, argv = int(sys.argv[1]), sys.argv[2:]
c = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def send(**m):
    c.stdin.write(json.dumps({"jsonrpc": "2.0", **m}).encode() + b"\n"); c.stdin.flush()
def call(id, name, **arguments):
    send(id=id, method="tools/call", params={"name": name, "arguments": {"session_id": "stuck", **arguments}})
def answer(id):
    while True:
        line = c.stdout.readline()
        assert line
        if json.loads(line).get("id") == id: return line
send(id=0, method="initialize", params={"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}})
answer(0)
send(method="notifications/initialized")
call(1, "sandbox_run_python", code='open("big.bin", "wb").write(bytes(6 << 20))')
answer(1)
pipe = os.readlink(f"/proc/{c.pid}/fd/1")
def target(n):
    try: return os.readlink(f"/proc/{server}/fd/{n}")
    except FileNotFoundError: return None  # closed since
at = [n for n in os.listdir(f"/proc/{server}/fd") if target(n) == pipe]
assert at, "the server does not write into the pipe itself"
for n in at:
    fd = ctypes.CDLL(None).syscall(438, os.pidfd_open(server), int(n), 0)  # pidfd_getfd(2)
    assert fd >= 0
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NONBLOCK)
call(2, "sandbox_read_artifact", path="/mnt/data/big.bin")
print("ready", flush=True)
sys.stdin.readline()
print(len(answer(2)) > 8 << 20)
c.kill()
`;
		const [command, ...args] = asProductUser(['python3', '-c', attack, String(program.pid), binary, 'stdio', '--profile', 'code']);
		const child = spawn(command!, args, { env: productEnv(env), stdio: ['pipe', 'pipe', 'inherit'] });
		let said = '';
		child.stdout.setEncoding('utf8').on('data', (d: string) => (said += d));
		try {
			await until('the pipe to be blocking', () => said.includes('ready') || child.exitCode !== null, 30_000);
			assert.equal(child.exitCode, null);
			await bridged(env, [], async (other) => {
				for (let i = 0; i < 10; i++) {
					const r = await within('an answer to another', other.tool('sandbox_run_python', { code: 'import time; time.sleep(0.1)', session_id: 'both' }), 30_000);
					assert.equal(r.exit_code, 0, JSON.stringify(r));
				}
			});
			child.stdin.write('\n');
			await until('its own answer', () => said.endsWith('True\n'), 30_000);
		} finally {
			await killed(child);
		}
	});
	it('a second server does not take the socket', async () => {
		const r = await caisson(['serve', '--listen', '127.0.0.1:0', '--profile', 'code'], { env });
		assert.notEqual(r.code, 0);
		assert.match(r.stderr.toString(), /^ERROR: .*another server listens.*\n$/m);
		await bridged(env, [], async () => undefined);
	});
	it('(slow) broken and endless hellos end their connection alone', { skip: productUid !== process.getuid!() && 'the connection must come from the user of the server' }, async () => {
		const head = (length: number, version = 1, magic = 'caisson\0'): Buffer => {
			const b = Buffer.alloc(16);
			b.write(magic, 'latin1');
			b.writeUInt32LE(version, 8);
			b.writeUInt32LE(length, 12);
			return b;
		};
		const refused = [
			Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'), head(0), head(0xffffffff), head(65537), head(4, 2), head(4, 1, 'Caisson\0'), head(10), head(1).subarray(0, 7),
			Buffer.concat([head(5), Buffer.from('abcde')]), Buffer.concat([head(1), Buffer.from('\0')]),
			Buffer.concat([head(15), Buffer.from('caisson=0.0.0\0x')]), Buffer.concat([head(65536), Buffer.alloc(65536)]),
		];
		for (const bytes of refused) {
			const sock = net.connect(env.SANDBOX_SOCKET);
			const got: Buffer[] = [];
			sock.on('data', (b: Buffer) => got.push(b)).on('error', () => undefined);
			sock.write(bytes);
			await within('the end of the connection', new Promise((resolve) => sock.once('close', resolve)), 10_000);
			const answer = Buffer.concat(got);
			assert.ok(answer.length === 0 || answer.readUInt32LE(12) === 0, 'not accepted');
		}
		await bridged(env, [], async () => undefined);
	});
});

describe('the end of a shared server', () => {
	it('SIGKILL during a call ends the clients at once, with one line', async () => {
		const env = await meeting();
		const { program } = await serve({ env });
		await bridged(env, [], async (c) => {
			await c.sendJson({ jsonrpc: '2.0', id: 'x', method: 'tools/call', params: {
				name: 'sandbox_run_python', arguments: { code: 'import time; time.sleep(50)', session_id: 'x' } } });
			program.kill('SIGKILL');
			const r = await within('the end of the client', c.program.exit, 10_000);
			assert.equal(r.code, 71);
			assert.match(r.stderr.toString(), /^ERROR: .*server.*ended.*\n$/);
		}).finally(() => program.end());
		await withClient(env, [], async (next) => assert.equal(await isBridged(next), false));
		const { program: again } = await serve({ env });
		await bridged(env, [], async () => undefined).finally(() => again.end());
	});
	it('SIGKILL ends a client whose output is a file, too', async () => {
		const env = await meeting();
		const { program } = await serve({ env });
		const argv = asProductUser([binary, 'stdio', '--profile', 'code']);
		/** True when it shared the server, so that there was something to see. */
		const attempt = async (): Promise<boolean> => {
			const out = path.join(scratch('out'), 'out');
			const fd = fs.openSync(out, 'w');
			const child = spawn(argv[0]!, argv.slice(1), { env: productEnv(env), stdio: ['pipe', fd, 'pipe'] });
			const end = once(child, 'close');
			let said = '';
			child.stderr!.on('data', (b: Buffer) => (said += b.toString()));
			try {
				child.stdin!.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n');
				await until('an answer', () => fs.readFileSync(out, 'utf8').includes('"id":1'));
				if (descendants(child.pid!).length > 0)
					return false;
				program.kill('SIGKILL');
				assert.equal((await within('the end of the client', end, 10_000))[0], 71);
				assert.match(said, /^ERROR: .*server.*ended.*\n$/);
				return true;
			} finally {
				child.kill('SIGKILL');
				await end;
				fs.closeSync(fd);
			}
		};
		try {
			let tries = 0;
			while (!(await attempt())) {
				const log = fs.readFileSync(env.SANDBOX_LOG_FILE!, 'utf8').trim().split('\n').filter((l) => l.includes('not_bridged')).at(-1);
				assert.ok(tries++ < 5 && log?.includes('too busy'), `not bridged: ${log}`);
			}
		} finally {
			await program.end();
		}
	});
	it('one that stands still is not waited for, and takes nothing of a client that went on alone', async () => {
		const env = await meeting();
		const { program } = await serve({ env });
		program.kill('SIGSTOP');
		try {
			await withClient(env, [], async (c) => {
				assert.equal(await isBridged(c), false);
				program.kill('SIGCONT');
				await bridged(env, [], (other) => other.alive());
				for (let i = 0; i < 50; i++)
					await c.alive();
			});
		} finally {
			program.kill('SIGCONT');
			await program.end();
		}
	});
	it('SIGTERM removes the socket and ends the clients', async () => {
		const env = await meeting();
		const { program } = await serve({ env });
		await bridged(env, [], async (c) => {
			program.kill('SIGTERM');
			assert.equal((await within('the end of the server', program.exit, 20_000)).code, 0);
			assert.equal((await within('the end of the client', c.program.exit, 10_000)).code, 71);
		}).finally(() => program.end());
		assert.ok(!fs.existsSync(env.SANDBOX_SOCKET));
	});
});

/** A process that listens on `sock` and tells what it got; `answer` is what it says to everybody. */
async function listener(sock: string, uid: number, answer = ''): Promise<{ child: ChildProcess; heard: () => string }> {
	const code = `const s=require('net').createServer(c=>{c.on('error',()=>{});c.on('data',b=>process.stdout.write(b));
		${answer}}).listen(${JSON.stringify(sock)},()=>{require('fs').chmodSync(${JSON.stringify(sock)},0o777);process.stderr.write('up')})`;
	const as = isRoot ? ['setpriv', '--reuid', String(uid), '--regid', String(uid), '--clear-groups', '--', process.execPath] : [process.execPath];
	const child = spawn(as[0]!, [...as.slice(1), '-e', code], { stdio: ['ignore', 'pipe', 'pipe'] });
	let out = '', said = '';
	child.stdout!.on('data', (b: Buffer) => (out += b.toString('latin1')));
	child.stderr!.on('data', (b: Buffer) => (said += b.toString()));
	await until('the listener', () => {
		assert.ok(said === 'up' || child.exitCode === null, said);
		return said === 'up';
	});
	return { child, heard: () => out };
}

async function killed(child: ChildProcess): Promise<void> {
	if (child.exitCode !== null || child.signalCode !== null)
		return; // its event has been
	const gone = once(child, 'exit');
	child.kill('SIGKILL');
	await gone;
}

describe('what listens is no such server', () => {
	const frame = (accepted: number, version: number, magic = 'caisson\\0'): string =>
		`const b=Buffer.alloc(256);b.write('${magic}','latin1');b.writeUInt32LE(${version},8);b.writeUInt32LE(${accepted},12);b.write('another version',16);`;
	const fakes: [string, string][] = [
		['refuses', frame(0, 1) + 'c.write(b)'],
		['has another version of the hello', frame(1, 2) + 'c.write(b)'],
		['speaks something else', frame(1, 1, 'notours\\0') + 'c.write(b)'],
		['stops in the middle of its answer', frame(1, 1) + 'c.write(b.subarray(0,100))'],
		['hangs up', 'c.destroy()'],
		['never answers', ''],
	];
	for (const [what, answer] of fakes) {
		it(`one that ${what}: an engine of its own, without delay`, async () => {
			const env = await meeting();
			const fake = await listener(env.SANDBOX_SOCKET, productUid, answer);
			try {
				await withClient(env, [], async (c) => {
					assert.equal(await isBridged(c), false);
					assert.match(fs.readFileSync(env.SANDBOX_LOG_FILE!, 'utf8'), /not_bridged/);
				});
				if (what === 'never answers') // the others may be left before they have read
					await until('the hello', () => /caisson=\d/.test(fake.heard()));
			} finally {
				await killed(fake.child);
			}
		});
	}
	it('one of another user is told nothing', { skip: !isRoot && 'needs root to be another user' }, async () => {
		const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'caisson-other-'));
		fs.chmodSync(dir, 0o755);
		fs.chownSync(dir, OTHER_UID, OTHER_UID);
		const env = { ...(await meeting()), SANDBOX_SOCKET: path.join(dir, 's') };
		const fake = await listener(env.SANDBOX_SOCKET, OTHER_UID, 'c.write("x")');
		try {
			await withClient(env, [], async (c) => assert.equal(await isBridged(c), false));
			assert.equal(fake.heard(), '');
		} finally {
			await killed(fake.child);
			fs.rmSync(dir, { recursive: true });
		}
	});
	it('a dead server\'s socket is passed over, and replaced by the next server', async () => {
		const env = await meeting();
		await killed((await listener(env.SANDBOX_SOCKET, productUid)).child);
		assert.ok(fs.statSync(env.SANDBOX_SOCKET).isSocket());
		await withClient(env, [], async (c) => assert.equal(await isBridged(c), false));
		const { program } = await serve({ env });
		await bridged(env, [], async () => undefined).finally(() => program.end());
	});
	it('a server does not replace what another program listens on, nor a file', async () => {
		const env = await meeting();
		const other = await listener(env.SANDBOX_SOCKET, productUid);
		const refused = async (): Promise<void> => {
			const r = await caisson(['serve', '--listen', '127.0.0.1:0', '--profile', 'code'], { env });
			assert.notEqual(r.code, 0);
			assert.match(r.stderr.toString(), /SANDBOX_SOCKET/);
		};
		await refused().finally(() => killed(other.child));
		fs.rmSync(env.SANDBOX_SOCKET);
		fs.writeFileSync(env.SANDBOX_SOCKET, 'precious');
		await refused();
		assert.equal(fs.readFileSync(env.SANDBOX_SOCKET, 'utf8'), 'precious');
	});
	it('a folder that others can write to is no place for a server', async () => {
		const env = await meeting();
		fs.chmodSync(path.dirname(env.SANDBOX_SOCKET), 0o777);
		const r = await caisson(['serve', '--listen', '127.0.0.1:0', '--profile', 'code'], { env });
		assert.notEqual(r.code, 0);
		assert.match(r.stderr.toString(), /SANDBOX_SOCKET.*nobody else can write/);
	});
	it('nor is one that another user could replace, by a folder on the way or by a link', { skip: !isRoot && 'files of another user are needed' }, async () => {
		const env = await meeting();
		const dir = path.dirname(env.SANDBOX_SOCKET);
		const good = path.join(dir, 'good'), between = path.join(dir, 'between'), link = path.join(dir, 'link');
		for (const d of [good, between, path.join(between, 'mine')])
			fs.mkdirSync(d, { mode: 0o755 });
		for (const d of [good, path.join(between, 'mine')])
			fs.chownSync(d, productUid, productUid);
		fs.symlinkSync(good, link);
		const serves = async (folder: string): Promise<string> => {
			const r = await caisson(['serve', '--listen', '127.0.0.1:0', '--profile', 'code', '--state-dir', '/nowhere/at/all'], { env: { ...env, SANDBOX_SOCKET: path.join(folder, 's') } });
			return r.stderr.toString();
		};
		const refused = /SANDBOX_SOCKET.*lead to it/;
		assert.doesNotMatch(await serves(path.join(between, 'mine')), refused);
		assert.doesNotMatch(await serves(link), refused);
		for (const d of [good, path.join(between, 'mine')])
			fs.rmSync(path.join(d, 's.lock'), { force: true });
		fs.chownSync(between, OTHER_UID, OTHER_UID);
		fs.lchownSync(link, OTHER_UID, OTHER_UID);
		assert.match(await serves(path.join(between, 'mine')), refused);
		assert.match(await serves(link), refused);
		assert.deepEqual([good, path.join(between, 'mine')].map((d) => fs.readdirSync(d)), [[], []], 'nothing was made there');
	});
});

describe('the default place', { skip: isRoot && productUid === 0 && 'root has one for the whole machine' }, () => {
	it('is made below the runtime folder of the user', async () => {
		const runtime = scratch('runtime');
		const env = { ...(await meeting()), SANDBOX_SOCKET: undefined, XDG_RUNTIME_DIR: runtime };
		const { program } = await serve({ env });
		try {
			assert.equal(fs.statSync(path.join(runtime, 'caisson')).mode & 0o777, 0o700);
			assert.ok(fs.statSync(path.join(runtime, 'caisson', 'server.sock')).isSocket());
			await bridged(env, [], async () => undefined);
			const { program: second } = await serve({ env: { ...env, SANDBOX_HTTP_PORT: '0' } }); // goes on without a socket
			await second.end();
			await bridged(env, [], async () => undefined);
		} finally {
			await program.end();
		}
	});
	it('is the state folder where the user has no runtime folder, as in a container', async () => {
		const env = { ...(await meeting()), SANDBOX_STATE_DIR: newStateDir(), SANDBOX_SOCKET: undefined, XDG_RUNTIME_DIR: undefined };
		const { program } = await serve({ env });
		try {
			assert.ok(fs.statSync(path.join(env.SANDBOX_STATE_DIR, 'run', 'server.sock')).isSocket());
			await bridged(env, [], async (c) => {
				const r = await c.tool('sandbox_run_python', { code: 'open("made.txt", "w").write("hello")', session_id: 'links' });
				assert.equal(await (await fetch(r.artifacts[0].download_url)).text(), 'hello');
			});
			program.kill('SIGTERM');
			assert.equal((await within('the end of the server', program.exit, 20_000)).code, 0);
		} finally {
			await program.end();
		}
		assert.ok(!fs.existsSync(path.join(env.SANDBOX_STATE_DIR, 'run', 'server.sock')));
	});
});
