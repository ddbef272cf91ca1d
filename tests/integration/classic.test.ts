// SPDX-License-Identifier: Apache-2.0
// The second tool family over HTTP+SSE, as its clients know it: the profile `classic`, `both` at once, restarts, kills,
// two servers on one state folder. Cases of users and REST are in files of their own.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { newStateDir, scratch } from '../lib/env.ts';
import { Stream } from '../lib/event-stream.ts';
import { descendants, type Program } from '../lib/process.ts';
import { RawClient } from '../lib/raw.ts';
import { requestTimeoutMs, serve, type Json, type OpenOptions, type ToolResult } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const SEVEN = ['create_sandbox', 'list_sandboxes', 'execute_python_code', 'install_package_in_sandbox',
	'check_package_installation_status', 'execute_terminal_command', 'upload_file_to_sandbox'];
const DENIED = "Access denied. You don't have permission to access this sandbox.";
const NOBODYS = '12345678-1234-4234-8234-123456789abc';

/** A server with a client of the second family connected to it. */
class Classic {
	readonly client: Client;
	readonly base: string;
	readonly program: Program;

	constructor(client: Client, base: string, program: Program) {
		this.client = client;
		this.base = base;
		this.program = program;
	}

	async raw(name: string, args: Json = {}): Promise<ToolResult> {
		return (await this.client.callTool({ name, arguments: args }, undefined, { timeout: requestTimeoutMs })) as ToolResult;
	}

	/** Checks the encoding that all tools of the family share: one text block, JSON indented by two, nothing structured. */
	async call(name: string, args: Json = {}): Promise<any> {
		const r = await this.raw(name, args);
		assert.equal(r.isError, false, JSON.stringify(r.content));
		assert.equal(r.structuredContent, undefined);
		if (r.content.length === 0)
			return [];
		assert.equal(r.content.length, 1);
		const value = JSON.parse(r.content[0]!.text);
		assert.equal(r.content[0]!.text, JSON.stringify(value, null, 2));
		return value;
	}

	async create(name?: string): Promise<string> {
		return (await this.call('create_sandbox', name === undefined ? {} : { name })).sandbox_id;
	}

	python(sandbox_id: string, code: string): Promise<Json> {
		return this.call('execute_python_code', { sandbox_id, code });
	}

	terminal(sandbox_id: string, command: string): Promise<Json> {
		return this.call('execute_terminal_command', { sandbox_id, command });
	}

	async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
		await this.client.close();
		this.program.kill(signal);
		await this.program.exit;
	}
}

async function openClassic(o: OpenOptions = {}): Promise<Classic> {
	const { program, base } = await serve({ profile: 'classic', ...o, env: { SANDBOX_BRIDGE: 'off', SANDBOX_SOCKET: 'off', ...o.env } });
	const client = new Client({ name: 'classic-tests', version: '1' });
	try {
		await client.connect(new SSEClientTransport(new URL(`${base}/sse`)));
	} catch (e) {
		await program.end();
		throw e;
	}
	return new Classic(client, base, program);
}

describe('classic', () => {
	const roots = scratch('roots');
	let c: Classic;
	let id: string;
	before(async () => {
		fs.writeFileSync(path.join(roots, 'local.csv'), 'a,b\n1,2\n');
		fs.symlinkSync('/etc/passwd', path.join(roots, 'link'));
		execFileSync('mkfifo', [path.join(roots, 'pipe')]);
		c = await openClassic({ env: { SANDBOX_UPLOAD_LOCAL_ROOTS: roots, SANDBOX_STATE_DIR: newStateDir(), SANDBOX_USER_SANDBOX_LIMIT: '3' } });
	});
	after(() => c?.stop());

	it('B01 lists exactly the seven tools and says who it is', async () => {
		const { tools } = await c.client.listTools();
		assert.deepEqual(tools.map((t) => t.name), SEVEN);
		assert.ok(tools.every((t) => t.outputSchema === undefined && t.annotations === undefined));
		assert.equal(c.client.getServerVersion()!.name, 'Python Sandbox Executor');
		const run = tools.find((t) => t.name === 'execute_python_code')!;
		assert.deepEqual(run.inputSchema.required, ['sandbox_id', 'code']);
		assert.equal((run.inputSchema.properties as Json).sandbox_id.title, 'Sandbox Id');
	});
	it('a request that is refused before it begins fails its POST, and no event follows', async () => {
		const stream = await Stream.open(`${c.base}/sse`);
		const endpoint = c.base + (await stream.wait(/data: (\/messages\/\S+)/))[1]!;
		const sent = (body: string): Promise<[number, string]> =>
			fetch(endpoint, { method: 'POST', body, headers: { 'content-type': 'application/json' } }).then(async (r) => [r.status, await r.text()]);
		assert.deepEqual(await sent('{"jsonrpc":"1.0","id":71,"method":"ping"}'), [400, 'Could not parse message']);
		assert.deepEqual(await sent('{"jsonrpc":"2.0","id":72,"method":"ping"}'), [202, 'Accepted']);
		await stream.wait(/"id":72,"result"/);
		assert.doesNotMatch(stream.text, /"id":71/);
		stream.close();
	});
	it('B02 an empty list is no block; a new sandbox is an object, then one item', async () => {
		assert.deepEqual((await c.raw('list_sandboxes')).content, []);
		const made = await c.call('create_sandbox');
		assert.match(made.sandbox_id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
		assert.deepEqual(made, { sandbox_id: made.sandbox_id, user_id: 'root', name: 'Sandbox 1', status: 'active' });
		id = made.sandbox_id;
		assert.deepEqual(await c.call('list_sandboxes'), [{ sandbox_id: id, name: 'Sandbox 1', installed_packages: [] }]);
	});
	it('B03 the fourth is one too many', async () => {
		const names = [(await c.call('create_sandbox', { name: 'zwei ü' })).name, (await c.call('create_sandbox', { name: null })).name];
		assert.deepEqual(names, ['zwei ü', 'Sandbox 3']);
		assert.deepEqual(await c.call('create_sandbox'), {
			error: true,
			message: 'You have reached the maximum limit of 3 sandboxes. Please delete an existing sandbox before creating a new one.',
		});
	});
	it('the first failed connection of a sandbox says that the network is closed, and which setting opens it', async () => {
		const note = 'Sandboxes have no network here. SANDBOX_NETWORK=open together with SANDBOX_NETWORK_OPEN=on permits public hosts.';
		const code = 'import urllib.request\nurllib.request.urlopen("https://example.com")';
		assert.ok((await c.python(id, code)).stderr.endsWith('\n' + note));
		assert.doesNotMatch((await c.python(id, code)).stderr, /SANDBOX_NETWORK/);
		assert.match((await c.python(id, 'import os; f = [os.open("/dev/null", 0) for i in range(70000)]')).stderr, /\nA process of a sandbox may have \d+ open files \(SANDBOX_NOFILE_LIMIT\)\.$/);
	});
	it('B07 B08 prints, tracebacks, new files with links that open inline', async () => {
		assert.deepEqual(await c.python(id, 'print(6 * 7)'), { stdout: '42\n', stderr: '', exit_code: 0, files: [], file_links: [] });
		const r = await c.python(id, "open('t.txt', 'w').write('x')\nopen('.hidden', 'w').close()\nimport os; os.mkdir('folder'); os.mkdir('/app/results/folder/in')");
		assert.deepEqual(r.files, ['/app/results/folder', '/app/results/t.txt']);
		assert.equal(r.file_links[1], `${c.base}/sandbox/file?sandbox_id=${id}&file_path=/app/results/t.txt`);
		const got = await fetch(r.file_links[1]);
		assert.equal(await got.text(), 'x');
		assert.match(got.headers.get('content-type')!, /^text\/plain/);
		assert.match(got.headers.get('content-disposition')!, /^inline/);
		assert.deepEqual((await c.python(id, 'print(1)')).files, [], 'what is there already is not new');
		const odd = await c.python(id, "open('a b&c=#ü.txt', 'w').write('odd')");
		assert.equal(await (await fetch(odd.file_links[0])).text(), 'odd');
	});
	it('B07 the link of a file that is not there is no link', async () => {
		for (const [query, status] of [['', 422], [`sandbox_id=${id}`, 422], [`sandbox_id=${id}&file_path=/app/results/none`, 404],
			[`sandbox_id=${id}&file_path=/etc/passwd`, 404], [`sandbox_id=${NOBODYS}&file_path=/app/results/t.txt`, 404],
			[`sandbox_id=${id}&file_path=/app/results/folder`, 404]] as const) {
			const r = await fetch(`${c.base}/sandbox/file?${query}`);
			assert.equal(r.status, status, query);
			assert.equal(typeof (await r.json()).detail, 'string');
		}
	});
	it('B09 a file made before an exception is linked', async () => {
		const r = await c.python(id, "open('before.txt', 'w').close()\n1/0");
		assert.equal(r.exit_code, 1);
		assert.match(r.stderr, /ZeroDivisionError/);
		assert.deepEqual(r.files, ['/app/results/before.txt']);
	});
	it('B10 commands: plain ones, ones for a shell, broken ones', async () => {
		assert.equal((await c.terminal(id, 'ls -1 t.txt')).stdout, 't.txt\n');
		assert.deepEqual(await c.terminal(id, 'python3 -c "print(1)"'), { stdout: '1\n', stderr: '', exit_code: 0 });
		assert.deepEqual(await c.terminal(id, "printf '%s|' 'a  b' c\\ d \"e'f\""), { stdout: "a  b|c d|e'f|", stderr: '', exit_code: 0 });
		assert.deepEqual(await c.terminal(id, "echo 'open"), { stdout: '', stderr: 'No closing quotation', exit_code: -1 });
		assert.equal((await c.terminal(id, 'echo a | tr a b && cd folder && pwd; exit 3')).stdout, 'b\n/app/results/folder\n');
		assert.equal((await c.terminal(id, 'exit 3; true')).exit_code, 3);
		assert.equal((await c.terminal(id, "echo '$HOME' '*'")).stdout, '$HOME *\n');
		const missing = await c.terminal(id, 'no-such-program');
		assert.equal(missing.exit_code, 127);
		assert.match(missing.stderr, /No such file/);
	});
	it('B11 uploads come from the allowed folders alone', async () => {
		const upload = (local_file_path: string, dest_path?: string): Promise<Json> =>
			c.call('upload_file_to_sandbox', { sandbox_id: id, local_file_path, ...(dest_path === undefined ? {} : { dest_path }) });
		assert.deepEqual(await upload(path.join(roots, 'local.csv')),
			{ success: true, message: `Uploaded local.csv to /app/results in sandbox ${id}` });
		assert.equal((await upload('local.csv', '/mnt/data/folder')).success, true);
		assert.equal((await c.terminal(id, 'cat local.csv folder/local.csv')).stdout, 'a,b\n1,2\na,b\n1,2\n');
		assert.equal((await upload(`${roots}/`, '/app/results/folder')).success, true);
		assert.equal((await c.terminal(id, `ls -A folder/${path.basename(roots)}`)).stdout, 'local.csv\n', 'neither links nor pipes of a folder');
		for (const [local, dest, message] of [['none.csv', undefined, /Local file not found: none\.csv/], ['local.csv', '/app/results/none', /No folder/],
			['/etc/passwd', undefined, /upload\.local_roots/], ['../../etc/passwd', undefined, /upload\.local_roots/], ['link', undefined, /upload\.local_roots/], [`${roots}2/local.csv`, undefined, /upload\.local_roots/],
			['pipe', undefined, /cannot be read/], ['local.csv', '/etc', /not a folder of the sandbox/], ['local.csv', '../..', /not a folder of the sandbox/]] as const) {
			const r = await upload(local, dest);
			assert.equal(r.error, true, local);
			assert.match(r.message, message);
		}
	});
	it('B12 an id of nobody is denied by every tool', async () => {
		for (const sandbox_id of [NOBODYS, 'nope', '', '../x', 'x'.repeat(70)]) {
			const a = { error: DENIED };
			assert.deepEqual(await c.python(sandbox_id, '1'), a);
			assert.deepEqual(await c.call('install_package_in_sandbox', { sandbox_id, package_name: 'six' }), a);
			assert.deepEqual(await c.call('check_package_installation_status', { sandbox_id, package_name: 'six' }), a);
			assert.deepEqual(await c.call('upload_file_to_sandbox', { sandbox_id, local_file_path: 'local.csv' }), a);
			assert.deepEqual(await c.terminal(sandbox_id, 'ls'), { stdout: '', stderr: DENIED, exit_code: -1 });
		}
	});
	it('arguments that do not fit are told', async () => {
		for (const [name, args] of [['execute_python_code', { sandbox_id: id }], ['create_sandbox', { name: 5 }], ['list_sandboxes', { x: 1 }]] as const) {
			const r = await c.raw(name, args);
			assert.equal(r.isError, true);
			assert.match(r.content[0]!.text, new RegExp(`^Error calling tool '${name}': `));
		}
	});
	it('calls to one sandbox wait for each other', async () => {
		const all = await Promise.all(Array.from({ length: 6 }, (_, i) =>
			c.python(id, `import os, time\nassert not os.path.exists('lock')\nopen('lock', 'w').close()\ntime.sleep(0.05)\nos.unlink('lock')\nprint(${i})`)));
		assert.deepEqual(all.map((r) => r.stdout || r.stderr), ['0\n', '1\n', '2\n', '3\n', '4\n', '5\n']);
	});
	it('one bad byte, much output and huge code keep the shape', async () => {
		assert.equal((await c.python(id, "import os; os.write(1, b'a\\xffb')")).stdout, 'a\ufffdb');
		const big = await c.python(id, "print('x' * 3_000_000)");
		const mark = '\n[... 1951425 bytes left out ...]\n';
		assert.equal(big.stdout.length, (1 << 20) + mark.length);
		assert.deepEqual([big.stdout.includes(mark), big.stdout.endsWith('x\n'), big.stderr], [true, true, '']);
		const long = await c.python(id, '#'.repeat(2_000_000));
		assert.equal(long.exit_code, 1);
		assert.match(long.error, /exceeds/);
		assert.deepEqual([long.stdout, long.files, long.file_links], ['', [], []]);
	});
});

describe('files of the machine, where no folders were named', () => {
	const folder = scratch('started-in');
	fs.writeFileSync(path.join(folder, 'local.csv'), 'a,b\n');
	fs.writeFileSync(path.join(folder, 'large.csv'), 'a,bc\n');
	const readable = { sandbox_id: NOBODYS, local_file_path: path.join(folder, 'local.csv') };

	it('come from the folder that it was started in, over stdio: whoever asks has the same uid', async () => {
		const client = new RawClient({ cwd: folder, env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_MAX_UPLOAD_BYTES: '4' } }, ['stdio', '--profile', 'classic', '--no-bridge']);
		try {
			await client.initialize();
			const call = async (name: string, args: Json): Promise<Json> => {
				const r = await client.request('tools/call', { name, arguments: args });
				return JSON.parse(r.result.content[0].text);
			};
			const sandbox_id = (await call('create_sandbox', {})).sandbox_id;
			const r = await call('upload_file_to_sandbox', { sandbox_id, local_file_path: 'local.csv' });
			assert.equal(r.success, true, r.message);
			const large = await call('upload_file_to_sandbox', { sandbox_id, local_file_path: 'large.csv' });
			assert.match(large.message, /large\.csv has 5 bytes, the limit is 4/);
			const outside = await call('upload_file_to_sandbox', { sandbox_id, local_file_path: '/etc/passwd' });
			assert.match(outside.message, /upload\.local_roots/);
		} finally {
			await client.end();
		}
	});
	for (const [what, options] of [['a server over HTTP, whoever asks', { cwd: folder }], ['a server that was started in /', { cwd: '/' }],
		['a server behind a proxy', { cwd: folder, env: { SANDBOX_PUBLIC_URL: 'http://box.example.org' } }]] as const)
		it(`are not read by ${what}`, async () => {
			const c = await openClassic({ ...options, env: { SANDBOX_STATE_DIR: newStateDir(), ...('env' in options ? options.env : {}) } });
			try {
				const r = await c.call('upload_file_to_sandbox', readable);
				assert.equal(r.error, true);
				assert.match(r.message, /reads no files of its own machine.*SANDBOX_UPLOAD_LOCAL_ROOTS/);
			} finally {
				await c.stop();
			}
		});
});

describe('what is stored stays', () => {
	it('B16 files are there after a restart and after SIGKILL, and the sandbox is usable at once', async () => {
		const state = newStateDir();
		let c = await openClassic({ env: { SANDBOX_STATE_DIR: state } });
		const id = await c.create('kept');
		await c.python(id, "open('first', 'w').write('1')\nopen('sub', 'w').write('m')");
		await c.stop();
		c = await openClassic({ env: { SANDBOX_STATE_DIR: state } });
		assert.deepEqual((await c.call('list_sandboxes')).map((s: Json) => [s.sandbox_id, s.name]), [[id, 'kept']]);
		assert.equal((await c.python(id, "print(open('first').read(), open('sub').read())\nopen('second', 'w').write('2')")).stdout, '1 m\n');
		await c.stop('SIGKILL');
		c = await openClassic({ env: { SANDBOX_STATE_DIR: state } });
		// the processes of the killed server are just ending
		const r = await until('the sandbox of the killed server', async () => {
			const tried = await c.terminal(id, 'cat first second');
			return tried.exit_code === 0 && tried;
		}, 20_000);
		assert.equal(r.stdout, '12');
		const link = await fetch(`${c.base}/sandbox/file?sandbox_id=${id}&file_path=/app/results/second`);
		assert.equal(await link.text(), '2');
		await c.stop();
	});
	it('(slow) home and /tmp are there after a restart, without dead sockets, and count for the limit', async () => {
		const state = newStateDir();
		const env = { SANDBOX_STATE_DIR: state, SANDBOX_STORED_WORKSPACE_LIMIT: '48m', SANDBOX_ALLOW_WEAKER: 'disk' };
		let c = await openClassic({ env });
		const id = await c.create('kept');
		const again = async (): Promise<void> => {
			await c.stop();
			c = await openClassic({ env });
		};
		const wrote = await c.python(id, `
import os, socket, tempfile
home = os.path.expanduser('~')
os.makedirs(home + '/.config/tool')
open(home + '/.config/tool/settings', 'w').write('kept')
os.chmod(home + '/.config/tool/settings', 0o600)
deep = tempfile.mkdtemp(prefix='job-')
open('/tmp/state', 'w').write(deep)
open(deep + '/part', 'w').write('half')
for name in ('/tmp/s1', deep + '/s2', home + '/s3'):
    socket.socket(socket.AF_UNIX).bind(name)
os.mkfifo('/tmp/fifo')
print(oct(os.stat('/tmp').st_mode), oct(os.stat(home).st_mode))`);
		assert.equal(wrote.stdout, '0o41777 0o40700\n', wrote.stderr);
		await again();
		const read = await c.python(id, `
import os, socket, stat
home, deep = os.path.expanduser('~'), open('/tmp/state').read()
print(open(home + '/.config/tool/settings').read(), oct(os.stat(home + '/.config/tool/settings').st_mode & 0o777), open(deep + '/part').read())
print([os.path.lexists(p) for p in ('/tmp/s1', deep + '/s2', home + '/s3', '/tmp/fifo')], os.listdir('/dev/shm'))
socket.socket(socket.AF_UNIX).bind('/tmp/s1')`);
		assert.equal(read.stdout, 'kept 0o600 half\n[False, False, False, True] []\n', read.stderr);
		assert.deepEqual((await c.call('list_sandboxes')).length, 1);

		// What a run leaves there must not keep the sandbox from starting: links in place of our folders, no rights, a full disk.
		const hostile = await c.python(id, `
import os, shutil
for name in ('.config', '.caisson'):
    shutil.rmtree('/tmp/' + name, ignore_errors=True)
    os.symlink('/', '/tmp/' + name)
os.chmod(os.path.expanduser('~'), 0)
try:
    with open('/tmp/fill', 'wb') as f:
        while f.tell() < 200 << 20:
            f.write(os.urandom(1 << 20))
            f.flush()
except OSError as e:
    print(e.errno)`);
		assert.ok(/^2[78]\n$/.test(hostile.stdout) || hostile.exit_code !== 0, JSON.stringify(hostile));
		await again();
		const after = await c.python(id, `
import os
print('runs')
os.chmod(os.path.expanduser('~'), 0o700)
os.unlink('/tmp/fill')
os.unlink('/tmp/.config')`);
		assert.equal(after.stdout, 'runs\n', JSON.stringify(after));
		assert.equal((await c.python(id, "open('x', 'w').write('y' * 1000000)")).exit_code, 0);
		await c.stop();
	});
	it('nothing is lost when every process is killed at once, in the middle of a run', async () => {
		const state = newStateDir();
		let c = await openClassic({ env: { SANDBOX_STATE_DIR: state } });
		const id = await c.create();
		await c.python(id, "open('before', 'w').write('b' * 100_000)");
		const run = c.python(id, "open('during', 'w').write('d'); open('started', 'w').close()\nwhile True: open('busy', 'a').write('x')").catch(() => undefined);
		await until('the run', async () => (await fetch(`${c.base}/sandbox/file?sandbox_id=${id}&file_path=/app/results/started`)).ok);
		for (const p of [...descendants(c.program.pid), { pid: c.program.pid }])
			try {
				process.kill(p.pid, 'SIGKILL');
			} catch {
				// it went with another one
			}
		await c.program.exit;
		await c.client.close();
		await run;
		c = await openClassic({ env: { SANDBOX_STATE_DIR: state } });
		const r = await until('the sandbox of the killed server', async () => {
			const tried = await c.terminal(id, 'wc -c < before; cat during');
			return tried.exit_code === 0 && tried;
		}, 20_000);
		assert.equal(r.stdout, '100000\nd');
		assert.equal((await c.python(id, "open('after', 'w').close()")).exit_code, 0);
		await c.stop();
	});
	it('the configuration file of the server that this one replaces loads unchanged', async () => {
		const file = path.join(scratch('config'), 'config.toml');
		fs.writeFileSync(file, `[server]
host = "127.0.0.1"
port = 8181

[auth]
require_auth = false
default_user_id = "somebody"
user_sandbox_limit = 1

[docker]
default_image = "python-sandbox:latest"
dockerfile_path = "sandbox_images/Dockerfile"
check_dockerfile_changes = true
build_info_file = ".docker_build_info"

[logging]
level = "INFO"
format = "%(asctime)s - %(name)s - %(levelname)s - %(message)s"
log_file = "mcp_sandbox.log"

[mirror]
pypi_index_url = ""
`);
		fs.chmodSync(file, 0o644);
		fs.chmodSync(path.dirname(file), 0o755);
		const c = await openClassic({ env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_USER_SANDBOX_LIMIT: undefined }, args: ['--config', file] });
		assert.equal((await c.call('create_sandbox')).user_id, 'somebody');
		assert.match((await c.call('create_sandbox')).message, /maximum limit of 1 sandboxes/);
		await c.stop();
	});
	it('a link starts a sandbox that is not active', async () => {
		const state = newStateDir();
		let c = await openClassic({ env: { SANDBOX_STATE_DIR: state } });
		const id = await c.create();
		await c.python(id, "open('f.txt', 'w').write('later')");
		await c.stop();
		c = await openClassic({ env: { SANDBOX_STATE_DIR: state } });
		assert.equal(await (await fetch(`${c.base}/sandbox/file?sandbox_id=${id}&file_path=/app/results/f.txt`)).text(), 'later');
		await c.stop();
	});
	it('the first family finds a stored sandbox that is not active', async () => {
		const state = newStateDir();
		let c = await openClassic({ env: { SANDBOX_STATE_DIR: state } });
		const id = await c.create();
		await c.python(id, "open('f.txt', 'w').write('later')");
		await c.stop();
		c = await openClassic({ profile: 'all', env: { SANDBOX_STATE_DIR: state, SANDBOX_STORED_MAX_ACTIVE: '1' } });
		const first = async (name: string, args: Json): Promise<Json> => (await c.raw(name, args)).structuredContent!.result;
		assert.equal((await first('sandbox_list_artifacts', { session_id: id })).artifacts[0].filename, 'f.txt');
		const other = await c.create(); // takes the one place
		assert.equal(Buffer.from((await first('sandbox_read_artifact', { session_id: id, path: '/mnt/data/f.txt' })).content_base64, 'base64').toString(), 'later');
		assert.deepEqual(await c.call('delete_sandbox', { sandbox_id: other }), { success: true, message: 'Sandbox deleted successfully' });
		assert.equal((await c.raw('sandbox_read_file', { session_id: id, path: 'f.txt' })).isError ?? false, false);
		assert.deepEqual(await c.call('delete_sandbox', { sandbox_id: id }), { success: true, message: 'Sandbox deleted successfully' });
		assert.deepEqual(await c.call('delete_sandbox', { sandbox_id: id }), { error: DENIED });
		assert.equal((await first('sandbox_list_artifacts', { session_id: id })).error, 'session_not_found');
		await c.stop();
	});
	it('(slow) one server at a time has it', async () => {
		const state = newStateDir();
		const a = await openClassic({ env: { SANDBOX_STATE_DIR: state } });
		const b = await openClassic({ env: { SANDBOX_STATE_DIR: state } });
		const id = await a.create();
		assert.deepEqual((await b.call('list_sandboxes')).map((s: Json) => s.sandbox_id), [id]);
		const refused = await b.python(id, 'print(1)');
		assert.equal(refused.exit_code, 1);
		assert.match(refused.error, /another engine/);
		assert.match((await b.terminal(id, 'true')).stderr, /another engine/);
		assert.equal((await a.python(id, "open('x', 'w').write('a')")).exit_code, 0);
		await a.stop();
		assert.equal((await b.terminal(id, 'cat x')).stdout, 'a');
		await b.stop();
	});
	it('as many as are made, only some have processes', async () => {
		const c = await openClassic({ env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_USER_SANDBOX_LIMIT: '6', SANDBOX_STORED_MAX_ACTIVE: '2' } });
		const ids: string[] = [];
		for (let i = 0; i < 4; i++) {
			ids.push(await c.create());
			await c.python(ids[i]!, `open('n', 'w').write('${i}')`);
		}
		for (let i = 0; i < 4; i++)
			assert.equal((await c.terminal(ids[i]!, 'cat n')).stdout, String(i));
		await c.stop();
	});
});

describe('both families in one server', () => {
	it('(slow) two READMEs at once, on one workspace where they meet', async () => {
		const c = await openClassic({ profile: 'both', env: { SANDBOX_STATE_DIR: newStateDir() } });
		const a = new Client({ name: 'first-family', version: '1' });
		await a.connect(new StreamableHTTPClientTransport(new URL(`${c.base}/mcp`)));
		const first = async (name: string, args: Json): Promise<Json> =>
			((await a.callTool({ name, arguments: args }, undefined, { timeout: requestTimeoutMs })) as ToolResult).structuredContent!.result;
		assert.equal((await a.listTools()).tools.length, 12);

		const [session, id] = await Promise.all([
			first('sandbox_upload_file', { filename: 'sales.csv', content_base64: Buffer.from('v\n1\n2\n').toString('base64') }),
			c.create(),
		]);
		const [run, made] = await Promise.all([
			first('sandbox_run_python', { session_id: session.session_id, code: "print(sum(int(l) for l in open('sales.csv').read().split()[1:]))\nopen('chart.png', 'wb').write(b'\\x89PNG')" }),
			c.python(id, "open('out.csv', 'w').write('1')"),
		]);
		assert.equal(run.stdout, '3\n');
		assert.equal((await fetch(run.artifacts[0].download_url)).status, 200);
		assert.deepEqual(made.files, ['/app/results/out.csv']);
		assert.equal((await fetch(made.file_links[0])).status, 200);

		// each other's tools on each other's ids
		assert.equal((await first('sandbox_run_python', { session_id: id, code: "print(open('/mnt/data/out.csv').read())" })).stdout, '1\n');
		assert.equal((await c.terminal(session.session_id, 'ls /app/results')).stdout, 'chart.png\nsales.csv\n');
		assert.deepEqual((await c.call('list_sandboxes')).map((s: Json) => s.sandbox_id), [id], 'sessions are not listed');
		assert.deepEqual((await first('sandbox_list_artifacts', { session_id: id })).artifacts.map((x: Json) => x.filename), ['out.csv']);

		// the first family does not wait, the second does
		const slow = c.python(id, "import time; open('started', 'w').close(); time.sleep(1); print('slow')");
		await until('the slow run', async () => (await first('sandbox_list_artifacts', { session_id: id })).artifacts.some((x: Json) => x.filename === 'started'));
		assert.equal((await first('sandbox_run_python', { session_id: id, code: '1' })).error, 'session_busy');
		assert.equal((await c.terminal(id, 'echo next')).stdout, 'next\n');
		assert.equal((await slow).stdout, 'slow\n');

		// closing a stored sandbox is deleting it
		assert.equal((await first('sandbox_close_session', { session_id: id })).status, 'closed');
		assert.deepEqual(await c.call('list_sandboxes'), []);
		assert.deepEqual(await c.python(id, '1'), { error: DENIED });
		await a.close();
		await c.stop();
	});
});
