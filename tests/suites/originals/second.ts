// SPDX-License-Identifier: Apache-2.0
// What clients of the second original (mcp-sandbox) and its page do, and what they got there.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { binary, freePort, newStateDir, scratch } from '../../lib/env.ts';
import { caisson, start } from '../../lib/process.ts';
import { RawClient } from '../../lib/raw.ts';
import { facts, type Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import { Index, wheel, wheelName } from '../../lib/wheel.ts';
import { elevenSteps, strangersPage } from './browser.ts';
import { openSecond, second, type Env, type Second } from './clients.ts';
import { WORKERS, WORKERS_PRINT } from './first.ts';
import { agrees, type Row } from './row.ts';

const original = 'second';
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const SEVEN = ['create_sandbox', 'list_sandboxes', 'execute_python_code', 'install_package_in_sandbox',
	'check_package_installation_status', 'execute_terminal_command', 'upload_file_to_sandbox'];

/** The configuration file as the second original ships it, for HOST and PORT, with MORE lines on accounts and the index MIRROR. */
function shipped(host: string, port: number, more = '', mirror = ''): string {
	const file = path.join(scratch('config'), 'config.toml');
	fs.writeFileSync(file, `[server]
host = "${host}"
port = ${port}

[auth]
require_auth = false
default_user_id = "root"
user_sandbox_limit = 3
${more}
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
pypi_index_url = "${mirror}"
`);
	fs.chmodSync(file, 0o644);
	fs.chmodSync(path.dirname(file), 0o755);
	return file;
}

/** A request of REST with a JSON body or a form. */
async function ask(base: string, method: string, at: string, o: { token?: string; json?: unknown; form?: Record<string, string>; headers?: Record<string, string> } = {}): Promise<{ status: number; body: Json; headers: Headers }> {
	const headers: Record<string, string> = { ...o.headers };
	if (o.token)
		headers.authorization = `Bearer ${o.token}`;
	if (o.json)
		headers['content-type'] = 'application/json';
	const r = await fetch(base + at, { method, headers, body: o.json ? JSON.stringify(o.json) : o.form ? new URLSearchParams(o.form) : undefined });
	const text = await r.text();
	return { status: r.status, body: text.startsWith('{') ? JSON.parse(text) : { text }, headers: r.headers };
}

/** Starts the program by the name FOLDER/NAME and waits until it answers on PORT. */
async function byName(name: string, args: string[], port: number, env: Record<string, string>, body: (base: string, stderr: () => string) => Promise<void>, cwd?: string): Promise<void> {
	const folder = scratch('names');
	fs.symlinkSync(binary, path.join(folder, name));
	const program = start(args, { program: path.join(folder, name), cwd, env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_HTTP_PORT: 'off', ...env } });
	const base = `http://127.0.0.1:${port}`;
	try {
		await until(`${name} on port ${port}`, async () => {
			if (program.child.exitCode !== null)
				throw new Error(`it ended with ${program.child.exitCode}: ${program.stderr.slice(-500)}`);
			return fetch(`${base}/healthz`).then((r) => r.ok, () => false);
		}, 15_000);
		await body(base, () => program.stderr);
	} finally {
		await program.end();
	}
}

/** An index on loopback that has the package alpha, for the duration of BODY. */
async function withIndex(body: (index: Index) => Promise<void>): Promise<void> {
	const index = await new Index().open();
	index.add('alpha', { file: wheelName('alpha', '1.0'), body: wheel('alpha', '1.0', 'who = "alpha of the index"') });
	try {
		await body(index);
	} finally {
		index.close();
	}
}

/** The end of an installation, asked for as the original's clients do: again and again. */
function installed(s: Second, sandbox_id: string, package_name: string): Promise<Json> {
	return until(`the installation of ${package_name}`, async () => {
		const seen = await s.call('install_package_in_sandbox', { sandbox_id, package_name });
		return seen.complete && seen;
	}, 30_000);
}

export const secondRows: Row[] = [
	{
		original, name: 'the command mcp-sandbox is the server, with APP_HOST and APP_PORT',
		page: {
			topic: 'command', there: '`mcp-sandbox`, `uv run main.py`; HTTP+SSE on port 8181; `APP_HOST`, `APP_PORT`',
			here: 'the same name and variables, or `caisson serve --profile classic`; `/sse` as there, and `/mcp` for newer clients',
		},
		run: async () => {
			const port = await freePort();
			await byName('mcp-sandbox', [], port, { APP_PORT: String(port) }, async (base) => {
				const client = new Client({ name: 'originals', version: '1' });
				await client.connect(new SSEClientTransport(new URL(`${base}/sse`)));
				assert.equal(client.getServerVersion()!.name, 'Python Sandbox Executor');
				assert.deepEqual((await client.listTools()).tools.map((t) => t.name), SEVEN);
				await client.close();
				const newer = new Client({ name: 'originals', version: '1' });
				await newer.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`)));
				assert.deepEqual((await newer.listTools()).tools.map((t) => t.name), SEVEN);
				await newer.close();
			});
		},
	},
	{
		original, name: 'the workflow of its README, and the shapes of its errors',
		page: { topic: 'tools', there: 'seven tools', here: 'the same names, schemas, answers and texts of errors in the profiles `classic` and `both`; the descriptions of the tools are in our own words' },
		run: () => second({}, async (s) => {
			assert.deepEqual((await s.raw('list_sandboxes')).content, []);
			const made = await s.call('create_sandbox');
			agrees(made, { sandbox_id: UUID, user_id: 'root', name: 'Sandbox 1', status: 'active' });
			const id = made.sandbox_id;
			agrees(await s.call('list_sandboxes'), [{ sandbox_id: id, name: 'Sandbox 1', installed_packages: [] }]);
			const run = await s.python(id, 'open("t.txt", "w").write("x")\nprint("done")');
			agrees(run, { stdout: 'done\n', stderr: '', exit_code: 0, files: ['/app/results/t.txt'], file_links: [`${s.base}/sandbox/file?sandbox_id=${id}&file_path=/app/results/t.txt`] });
			const link = await fetch(run.file_links[0]);
			assert.deepEqual([await link.text(), link.headers.get('content-type')!.split(';')[0]], ['x', 'text/plain']);
			assert.match(link.headers.get('content-disposition')!, /^inline; filename=/);
			const failed = await s.python(id, 'open("kept.txt", "w").close()\nraise ValueError("no")');
			agrees([failed.exit_code, failed.files, failed.stderr], [1, ['/app/results/kept.txt'], /ValueError: no\n$/]);
			agrees(await s.terminal(id, 'ls -1'), { stdout: 'kept.txt\nt.txt\n', stderr: '', exit_code: 0 });
			agrees(await s.terminal(id, 'echo "open'), { stdout: '', stderr: /./, exit_code: -1 });
			agrees(await s.python('12345678-1234-4234-8234-123456789abc', '1'), { error: "Access denied. You don't have permission to access this sandbox." });
		}),
	},
	{
		original, name: 'three sandboxes for each user',
		page: { topic: 'number of sandboxes', there: '`auth.user_sandbox_limit = 3`', here: 'the same key, or `SANDBOX_USER_SANDBOX_LIMIT`; in the environment 0 means none' },
		run: async () => {
			await second({ env: { SANDBOX_USER_SANDBOX_LIMIT: '1' } }, async (s) => {
				await s.create();
				agrees(await s.call('create_sandbox'), { error: true, message: 'You have reached the maximum limit of 1 sandboxes. Please delete an existing sandbox before creating a new one.' });
			});
			await second({ env: { SANDBOX_USER_SANDBOX_LIMIT: '0' } }, async (s) => {
				for (let i = 0; i < 4; i++)
					await s.create();
			});
		},
	},
	{
		original, name: 'its config.toml on loopback',
		page: {
			topic: 'config.toml', there: 'in the working directory, mandatory',
			here: 'the same file, `--config FILE` or in the working directory; not needed. `docker.*` has no meaning here; the log format is `SANDBOX_LOG_FORMAT`',
		},
		run: async () => {
			const port = await freePort();
			await byName('mcp-sandbox', ['--config', shipped('127.0.0.1', port)], port, {}, async (base) => assert.equal((await fetch(`${base}/health`)).status, 200));
			const here = path.dirname(shipped('127.0.0.1', port));
			await byName('mcp-sandbox', [], port, {}, async (base) => {
				const client = new Client({ name: 'originals', version: '1' });
				await client.connect(new SSEClientTransport(new URL(`${base}/sse`)));
				const answers = [];
				for (let i = 0; i < 4; i++)
					answers.push(JSON.stringify(await client.callTool({ name: 'create_sandbox', arguments: {} })));
				assert.deepEqual(answers.map((a) => /maximum limit of 3 sandboxes/.test(a)), [false, false, false, true], answers[3]);
				await client.close();
			}, here);
		},
	},
	{
		original, name: 'its config.toml as it was shipped, for all addresses',
		page: {
			topic: 'an address that others can reach', there: '`host = "0.0.0.0"`, open to everybody',
			here: 'the server starts, but asks for a key or a login, and registration is closed; the log says what to do. It cannot be opened to everybody',
		},
		run: async () => {
			const port = await freePort();
			await byName('mcp-sandbox', ['--config', shipped('0.0.0.0', port)], port, {}, async (base, stderr) => {
				assert.equal((await fetch(`${base}/health`)).status, 401);
				assert.equal((await ask(base, 'POST', '/api/register', { json: { username: 'x', email: 'x@example.org', password: 'sixsix' } })).status, 403);
				await until('advice', () => /caisson user|SANDBOX_OPEN_REGISTRATION|SANDBOX_API_KEY/.test(stderr()));
			});
		},
	},
	{
		original, name: 'a key of config.toml that nobody knows is a warning',
		run: async () => {
			const port = await freePort();
			await byName('mcp-sandbox', ['--config', shipped('127.0.0.1', port, 'some_own_key = "x"\n')], port, {}, async (_, stderr) => void await until('a warning', () => /some_own_key/.test(stderr())));
		},
	},
	{
		original, name: 'its page, all eleven steps, in Chromium from its own origin',
		page: {
			topic: 'its page', there: 'a project of its own (`npm run dev`), any origin', here: 'works unchanged: it asks port 8000, so start the server with `APP_PORT=8000`; one that was built with `VITE_API_URL` asks there. On loopback its ports 5173 and 4173 are admitted; `SANDBOX_PAGE_ORIGINS` names other origins',
		},
		run: () => elevenSteps({}),
	},
	{
		original, name: 'the page from an origin that SANDBOX_PAGE_ORIGINS names, without and with authentication',
		page: {
			topic: 'accounts', there: 'anybody may register, also where `require_auth = true`',
			here: 'registration is closed where authentication is on: `SANDBOX_OPEN_REGISTRATION=on` opens it, `caisson user invite` invites one person. The first administrator: `caisson user add NAME --role admin`',
		},
		run: async () => {
			const state = newStateDir();
			const env = { SANDBOX_STATE_DIR: state, SANDBOX_REQUIRE_AUTH: 'on' };
			const me = { username: 'eve', email: 'eve@example.org', password: 'sixsix' };
			const made = await caisson(['user', 'add', 'boss', '--role', 'admin', '--password', 'generate'], { env });
			const password = /^password\s+(\S+)$/m.exec(made.stdout.toString())![1]!;
			const invitation = (await caisson(['user', 'invite'], { env })).stdout.toString().match(/csi_[\w-]+/)![0];
			const closed = await openSecond({ env: { ...env }, key: (await caisson(['key', 'new', 'boss'], { env })).stdout.toString().trim() });
			try {
				assert.equal((await ask(closed.base, 'POST', '/api/register', { json: me })).status, 403);
				assert.equal((await ask(closed.base, 'POST', '/api/register', { json: { ...me, invitation } })).status, 200);
				const login = await ask(closed.base, 'POST', '/api/token', { form: { username: 'boss', password } });
				assert.equal((await ask(closed.base, 'GET', '/api/v1/users', { token: login.body.access_token })).status, 200, 'an administrator');
			} finally {
				await closed.end();
			}
			await elevenSteps({ SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_OPEN_REGISTRATION: 'on', SANDBOX_PAGE_ORIGINS: 'http://localhost:5173,http://localhost:4173' });
		},
	},
	{
		original, name: 'pages of other origins get nothing, and the page itself only its routes',
		page: { topic: 'other origins', there: 'pages of every origin could use every route', here: 'of none; `SANDBOX_ALLOWED_ORIGINS` lets the pages that it names use everything' },
		run: () => strangersPage(),
	},
	{
		original, name: 'preflights of the user routes',
		run: () => second({}, async (s) => {
			const preflight = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,content-type' };
			for (const origin of ['http://localhost:5173', 'http://127.0.0.1:4173']) {
				const r = await ask(s.base, 'OPTIONS', '/api/users/me/api-key/regenerate', { headers: { origin, ...preflight } });
				assert.deepEqual([r.status, r.headers.get('access-control-allow-origin'), r.headers.get('access-control-allow-credentials'), r.headers.get('vary')], [204, origin, null, 'Origin']);
				assert.match(r.headers.get('access-control-allow-methods')!, /POST/);
				assert.match(r.headers.get('access-control-allow-headers')!, /authorization.*content-type/);
			}
			for (const [origin, at] of [['https://example.org', '/api/token'], ['http://localhost:5174', '/api/token'], ['null', '/api/token'], ['http://localhost:5173', '/mcp'], ['http://localhost:5173', '/api/v1/me']] as const) {
				const r = await ask(s.base, 'OPTIONS', at, { headers: { origin, ...preflight } });
				assert.deepEqual([r.status, r.headers.get('access-control-allow-origin')], [403, null], `${origin} ${at}`);
			}
		}),
	},
	{
		original, name: 'passwords from six bytes',
		page: { topic: 'passwords', there: 'any; the page asks for six characters', here: 'six bytes in `classic` and `both`, eight elsewhere; `SANDBOX_PASSWORD_MIN`' },
		run: async () => {
			await second({ env: { SANDBOX_PASSWORD_MIN: '12' } }, async (s) => {
				const r = await ask(s.base, 'POST', '/api/register', { json: { username: 'x', email: 'x@example.org', password: 'elevenbytes' } });
				assert.deepEqual([r.status, r.body.detail], [422, 'password: 12 to 256 bytes']);
			});
			await second({}, async (s) => {
				const statuses = [];
				for (const password of ['fives', 'sixsix'])
					statuses.push((await ask(s.base, 'POST', '/api/register', { json: { username: 'x', email: 'x@example.org', password } })).status);
				assert.deepEqual(statuses, [422, 200]);
			});
			for (const [profile, short, long] of [['both', 'fives', 'sixsix'], ['full', 'seven77', 'eight888']] as const)
				await second({ args: ['--profile', profile], env: { SANDBOX_OPEN_REGISTRATION: 'on' } }, async (s) => {
					const statuses = [];
					for (const password of [short, long])
						statuses.push((await ask(s.base, 'POST', '/api/register', { json: { username: 'x', email: 'x@example.org', password } })).status);
					assert.deepEqual(statuses, [422, 200], profile);
				});
		},
	},
	{
		original, name: 'the descriptions of its routes',
		run: () => second({}, async (s) => {
			for (const at of ['/docs', '/redoc'])
				assert.match((await ask(s.base, 'GET', at)).body.text, /\/api\/users\/me\/api-key/);
			assert.ok((await ask(s.base, 'GET', '/openapi.json')).body.paths['/api/users/me/api-key/regenerate'].post);
		}),
	},
	{
		original, name: 'the key of the page is in no file of the server',
		page: { topic: 'API key', there: 'one for each user, readable in the database and in every link', here: 'the page shows its key as there, but it is stored nowhere; other keys are shown once (`caisson key new NAME`)' },
		run: async () => {
			const state = newStateDir();
			await second({ env: { SANDBOX_STATE_DIR: state } }, async (s) => {
				await ask(s.base, 'POST', '/api/register', { json: { username: 'eve', email: 'eve@example.org', password: 'sixsix' } });
				const token = (await ask(s.base, 'POST', '/api/token', { form: { username: 'eve', password: 'sixsix' } })).body.access_token;
				const keyOf = async (): Promise<string> => (await ask(s.base, 'GET', '/api/users/me/api-key', { token })).body.api_key;
				const key = await keyOf();
				assert.equal(await keyOf(), key, 'shown again');
				const files = fs.readdirSync(state, { withFileTypes: true }).filter((f) => f.isFile()).map((f) => fs.readFileSync(path.join(state, f.name)));
				assert.ok(files.some((f) => f.includes('eve@example.org')), 'the files of the database are read');
				assert.ok(!files.some((f) => f.includes(key)));
			});
		},
	},
	{
		original, name: 'links open with the owner\'s key, and last as long as the file',
		page: {
			topic: 'file links', there: '`/sandbox/file?…&api_key=KEY`: the owner\'s key in every link',
			here: 'the same address; where authentication is on, a signature instead of the key. It has no end (`SANDBOX_STORED_LINK_HOURS` sets one). The owner\'s key works as well',
		},
		run: async () => {
			const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on' };
			await caisson(['user', 'add', 'ann', '--password', 'none'], { env });
			const key = (await caisson(['key', 'new', 'ann'], { env })).stdout.toString().trim();
			let s = await openSecond({ env, key });
			const id = await s.create();
			const link = new URL((await s.python(id, 'open("f.txt", "w").write("mine")')).file_links[0]);
			const bare = `/sandbox/file?sandbox_id=${id}&file_path=/app/results/f.txt`;
			assert.equal(await (await fetch(`${s.base}${bare}&api_key=${key}`)).text(), 'mine');
			const none = await ask(s.base, 'GET', bare);
			assert.deepEqual([none.status, none.body], [401, { detail: 'Authentication required' }]);
			await s.end();
			s = await openSecond({ env, key });
			assert.equal(await (await fetch(s.base + link.pathname + link.search)).text(), 'mine');
			assert.equal(link.searchParams.get('e'), '0');
			await s.end();
			await second({ env: { ...env, SANDBOX_STORED_LINK_HOURS: '1' }, key }, async (hour) => {
				const ending = new URL((await hour.python(id, 'open("g.txt", "w").write("x")')).file_links[0]);
				const left = Number(ending.searchParams.get('e')) - Date.now() / 1000;
				assert.ok(left > 3000 && left <= 3601, `${left} s`);
			});
		},
	},
	{
		original, name: 'worker processes (second)',
		page: { topic: 'worker processes', there: '`Pool`, `ProcessPoolExecutor`, `Process` worked; code was a file', here: 'they work; `__file__` is a file' },
		run: () => second({}, async (s) => {
			const r = await s.python(await s.create(), WORKERS);
			assert.equal(r.stdout, WORKERS_PRINT, r.stderr);
		}),
	},
	{
		original, name: 'code has no network unless a setting opens it (second)',
		page: { topic: 'network of code', there: 'open', here: 'closed. `SANDBOX_NETWORK=open` and `SANDBOX_NETWORK_OPEN=on` open it to public hosts, through a proxy (`HTTP_PROXY`); `packages` and `allowlist` open less' },
		run: async () => {
			const code = 'import os\nprint(os.environ.get("HTTP_PROXY"))';
			await second({}, async (s) => assert.equal((await s.python(await s.create(), code)).stdout, 'None\n'));
			await second({ env: { SANDBOX_NETWORK: 'open', SANDBOX_NETWORK_OPEN: 'on' } }, async (s) => agrees((await s.python(await s.create(), code)).stdout, /^http:\/\/127\.0\.0\.1:\d+\/?\n$/));
		},
	},
	{
		original, name: 'the policies packages and allowlist open what they name',
		run: () => withIndex(async (index) => {
			const reach = async (s: Second, id: string, urls: string[]): Promise<string> => (await s.python(id, `
import http.client, os, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTP_PROXY"])
for url in ${JSON.stringify(urls)}:
    c = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=20)
    c.request("GET", url)
    r = c.getresponse()
    print(r.getheader("X-Egress-Reason") or r.status)`)).stdout;
			const named = 'http://plain.invalid.example/';
			await second({ env: { SANDBOX_NETWORK: 'packages', SANDBOX_PIP_INDEX_URL: index.url } }, async (s) => {
				const id = await s.create();
				assert.equal(await reach(s, id, [`${index.url}/alpha/`, named]), '200\nhost_not_allowed\n');
				const r = await s.terminal(id, 'pip install -q alpha && python3 -c "import alpha; print(alpha.who)"');
				assert.equal(r.stdout, 'alpha of the index\n', r.stderr);
			});
			await second({ env: { SANDBOX_NETWORK: 'allowlist', SANDBOX_NETWORK_ALLOW: 'plain.invalid.example', SANDBOX_PIP_INDEX_URL: index.url } }, async (s) => {
				const id = await s.create();
				// Nobody has the name that is permitted, so the proxy asks for its address.
				assert.match(await reach(s, id, [named, 'http://other.invalid.example/', `${index.url}/alpha/`]), /^(?:resolve_failed|address_refused|connect_failed|connect_timeout)\nhost_not_allowed\naddress_literal\n$/);
				agrees((await installed(s, id, 'alpha')).status, 'success'); // the tool has a network of its own
				assert.equal((await s.python(id, 'import alpha; print(alpha.who)')).stdout, 'alpha of the index\n');
			});
		}),
	},
	{
		original, name: 'the first failed connection names the setting',
		run: () => second({}, async (s) => {
			const r = await s.python(await s.create(), 'import urllib.request\nurllib.request.urlopen("http://192.0.2.1/", timeout=2)');
			assert.match(`${r.stdout}${r.stderr}`, /SANDBOX_NETWORK/);
		}),
	},
	{
		original, name: 'what survives a restart',
		page: {
			topic: 'persistence', there: 'containers: files everywhere, also in `/tmp` and the home folder',
			here: '`/app/results`, installed packages, `/tmp` and the home folder, on a disk of `SANDBOX_STORED_WORKSPACE_LIMIT`; sockets and processes do not',
		},
		run: async () => {
			const env = { SANDBOX_STATE_DIR: newStateDir() };
			let s = await openSecond({ env });
			const id = await s.create('kept');
			await s.terminal(id, 'sh -c "echo r > r; echo t > /tmp/t; echo h > ~/.h"');
			await s.end();
			s = await openSecond({ env });
			agrees(await s.terminal(id, 'sh -c "cat r /tmp/t ~/.h"'), { stdout: 'r\nt\nh\n', stderr: '', exit_code: 0 });
			agrees((await s.call('list_sandboxes')).map((b: Json) => b.name), ['kept']);
			await s.end();
		},
	},
	{
		original, name: 'packages survive a restart',
		run: async () => {
			const env: Env = { SANDBOX_STATE_DIR: newStateDir() };
			let id = '';
			await withIndex((index) => second({ env: { ...env, SANDBOX_PIP_INDEX_URL: index.url } }, async (s) => {
				id = await s.create('kept');
				agrees((await installed(s, id, 'alpha')).status, 'success');
			}));
			await second({ env }, async (s) => { // its index is gone
				assert.equal((await s.python(id, 'import alpha; print(alpha.who)')).stdout, 'alpha of the index\n');
				agrees(await s.call('list_sandboxes'), [{ sandbox_id: id, name: 'kept', installed_packages: [{ name: 'alpha', version: '1.0' }] }]);
			});
		},
	},
	{
		original, name: 'files and folders of the server\'s machine',
		page: {
			topic: '`upload_file_to_sandbox`', there: 'any file or folder that the server could read, for every client',
			here: 'files and folders below `SANDBOX_UPLOAD_LOCAL_ROOTS` (`*` = any); if it is not set, clients of the same user over stdio may upload what is below the server\'s working folder. Links and empty folders in a folder are left out; at most 10,000 files',
		},
		run: async () => {
			const root = scratch('roots');
			fs.mkdirSync(path.join(root, 'data/deep'), { recursive: true });
			fs.writeFileSync(path.join(root, 'data/a.csv'), 'a');
			fs.writeFileSync(path.join(root, 'data/deep/b.csv'), 'b');
			fs.symlinkSync('/etc/passwd', path.join(root, 'data/link'));
			fs.mkdirSync(path.join(root, 'data/empty'));
			fs.chmodSync(root, 0o755);
			await second({ env: { SANDBOX_UPLOAD_LOCAL_ROOTS: root } }, async (s) => {
				const id = await s.create();
				for (const [name, to] of [['data/a.csv', 'a.csv'], ['data', 'data']] as const)
					agrees(await s.call('upload_file_to_sandbox', { sandbox_id: id, local_file_path: path.join(root, name) }), { success: true, message: `Uploaded ${to} to /app/results in sandbox ${id}` });
				agrees((await s.terminal(id, 'find . -mindepth 1')).stdout.trim().split('\n').sort(), ['./a.csv', './data', './data/a.csv', './data/deep', './data/deep/b.csv']);
				fs.mkdirSync(path.join(root, ...Array.from({ length: 20 }, () => 'd')), { recursive: true });
				agrees(await s.call('upload_file_to_sandbox', { sandbox_id: id, local_file_path: `${root}/d/` }), { error: true, message: /^\S+\/d has more than 10000 files, or folders in more than 16 others/ });
				agrees(await s.call('upload_file_to_sandbox', { sandbox_id: id, local_file_path: `${root}/none` }), { error: true, message: `Local file not found: ${root}/none` });
			});
			await second({}, async (s) => {
				const r = await s.call('upload_file_to_sandbox', { sandbox_id: await s.create(), local_file_path: '/etc/hostname' });
				agrees([r.error, r.message], [true, /SANDBOX_UPLOAD_LOCAL_ROOTS/]);
			});
			const client = new RawClient({ cwd: root, env: { SANDBOX_STATE_DIR: newStateDir() } }, ['stdio', '--profile', 'classic', '--no-bridge']);
			try {
				await client.initialize();
				const call = async (name: string, args: Json): Promise<Json> => JSON.parse((await client.request('tools/call', { name, arguments: args })).result.content[0].text);
				const { sandbox_id } = await call('create_sandbox', {});
				agrees(await call('upload_file_to_sandbox', { sandbox_id, local_file_path: 'data/a.csv' }), { success: true, message: `Uploaded a.csv to /app/results in sandbox ${sandbox_id}` });
				assert.equal((await call('execute_terminal_command', { sandbox_id, command: 'cat a.csv' })).stdout, 'a');
				const outside = await call('upload_file_to_sandbox', { sandbox_id, local_file_path: '/etc/hostname' });
				agrees([outside.error, outside.message], [true, /upload\.local_roots/]);
			} finally {
				await client.end();
			}
		},
	},
	{
		original, name: 'uploads go below /app/results, which alone of /app can be written',
		page: {
			topic: '`dest_path` of uploads', there: 'any folder of the container, such as `/tmp`, `/app` and `/etc`',
			here: 'a folder below `/app/results`; for another one the answer is an error that says so. Of `/app` nothing else can be written',
		},
		run: async () => {
			const folder = scratch('uploaded');
			fs.writeFileSync(path.join(folder, 'x.txt'), 'x');
			fs.chmodSync(folder, 0o755);
			await second({ env: { SANDBOX_UPLOAD_LOCAL_ROOTS: '*' } }, async (s) => {
				const id = await s.create();
				for (const dest_path of ['/tmp', '/app', '/etc'])
					agrees(await s.call('upload_file_to_sandbox', { sandbox_id: id, local_file_path: path.join(folder, 'x.txt'), dest_path }),
						{ error: true, message: `${dest_path} is not a folder of the sandbox's files: give one below /app/results` });
				assert.match((await s.python(id, 'open("/app/x", "w")')).stderr, /Read-only file system/);
			});
		},
	},
	{
		original, name: 'links are no results; tracebacks have the lines of the source',
		page: {
			topic: 'results and tracebacks', there: 'symbolic links were listed in `files`; tracebacks named a file in the container',
			here: '`files` has files alone; tracebacks say `<string>` and show the lines, `sys.argv` is `["-c"]`, and no virtual environment is active',
		},
		run: () => second({}, async (s) => {
			const id = await s.create();
			agrees((await s.python(id, 'import os\nopen("t", "w").close()\nos.symlink("t", "l")')).files, ['/app/results/t']);
			assert.match((await s.python(id, 'def f():\n    return 1 / 0\nf()')).stderr, /File "<string>", line 2, in f\n    return 1 \/ 0\n/);
			assert.match((await s.python(id, 'x = (1,\ny = 2')).stderr, /File "<string>", line 1\n    x = \(1,\n/);
			assert.equal((await s.python(id, 'import sys\nprint(sys.argv, sys.prefix == sys.base_prefix)')).stdout, "['-c'] True\n");
		}),
	},
	{
		original, name: 'curl and uv are there',
		page: { topic: 'programs', there: 'Python, curl, uv', here: 'these, and what the image has; `caisson image build` makes another one' },
		run: () => second({}, async (s) => {
			const id = await s.create();
			for (const name of ['curl', 'uv'])
				assert.equal((await s.terminal(id, `${name} --version`)).exit_code, 0, name);
		}),
	},
	{
		original, name: 'pipes in the terminal; processes end with their call',
		page: {
			topic: 'terminal', there: 'no shell: no pipes, no `cd`; a background process went on', here: 'a shell where the command needs one; each command begins in `/app/results` (in the profile `all` where the last one ended); processes end with their call (in the profile `full`, `sandbox_process` keeps one running)',
		},
		run: () => second({}, async (s) => {
			const id = await s.create();
			agrees(await s.terminal(id, 'echo abc | tr a-z A-Z'), { stdout: 'ABC\n', stderr: '', exit_code: 0 });
			agrees([(await s.terminal(id, 'cd /tmp && pwd')).stdout, (await s.terminal(id, 'pwd')).stdout], ['/tmp\n', '/app/results\n']);
			agrees((await s.terminal(id, 'sleep 500 & echo begun')).stdout, 'begun\n');
			assert.equal((await s.python(id, 'import os\nprint(any(b"sleep" in open(f"/proc/{p}/cmdline", "rb").read() for p in os.listdir("/proc") if p.isdigit()))')).stdout, 'False\n');
			await second({ args: ['--profile', 'all'] }, async (all) => {
				const box = facts(await all.raw('create_sandbox')).sandbox_id;
				const terminal = async (command: string): Promise<string> => facts(await all.raw('execute_terminal_command', { sandbox_id: box, command })).stdout;
				assert.deepEqual([await terminal('pwd'), await terminal('cd /tmp && echo abc | tr a-z A-Z'), await terminal('pwd')], ['/app/results\n', 'ABC\n', '/tmp\n']);
			});
		}),
	},
	{
		original, name: 'limits that it had not: time and output',
		page: {
			topic: 'time and output', there: 'no limit', here: '300 s (`SANDBOX_STORED_EXEC_TIMEOUT_S`, 0 = none) and 1 MiB of each stream (`SANDBOX_STORED_MAX_OUTPUT_BYTES`)',
		},
		run: () => second({ env: { SANDBOX_STORED_EXEC_TIMEOUT_S: '1', SANDBOX_STORED_MAX_OUTPUT_BYTES: '1000' } }, async (s) => {
			const id = await s.create();
			const late = await s.python(id, 'import time\nwhile True: time.sleep(1)');
			assert.notEqual(late.exit_code, 0);
			assert.match(late.stderr, /timed out/i);
			assert.ok((await s.python(id, 'print("x" * 5000)')).stdout.length < 3000);
			await second({ env: { SANDBOX_STORED_EXEC_TIMEOUT_S: '0' } }, async (none) =>
				assert.equal((await none.python(await none.create(), 'print("no limit")')).stdout, 'no limit\n'));
		}),
	},
	{
		original, name: 'a package that has no wheel',
		page: {
			topic: 'packages', there: '`uv pip install` from the mirror, source packages were built',
			here: 'the same tools; `mirror.pypi_index_url` or `SANDBOX_PIP_INDEX_URL`; packages without a wheel need `SANDBOX_PIP_SOURCE_BUILDS=on`',
		},
		run: () => withIndex(async (index) => {
			index.add('onlysource', { file: 'onlysource-1.0.tar.gz', body: Buffer.from('not looked at') });
			await second({ env: { SANDBOX_PIP_INDEX_URL: index.url } }, async (s) => {
				const r = await installed(s, await s.create(), 'onlysource');
				agrees([r.status, r.success, r.message], ['failed', false, /^Failed to install onlysource: /]);
				assert.match(`${r.message}${r.stderr}`, /SANDBOX_PIP_SOURCE_BUILDS/);
			});
		}),
	},
	{
		original, name: 'the index that its config.toml names',
		run: () => withIndex((index) => second({ args: ['--config', shipped('127.0.0.1', 0, '', index.url)] }, async (s) => {
			const id = await s.create();
			agrees((await installed(s, id, 'alpha')).status, 'success');
			assert.equal((await s.python(id, 'import alpha; print(alpha.who)')).stdout, 'alpha of the index\n');
			assert.ok(index.asked.includes('/simple/alpha/'), index.asked.join(' '));
		})),
	},
	{
		original, name: 'both families from one server',
		page: { topic: 'both originals', there: 'two servers', here: '`caisson serve --profile both`: twelve tools, one workspace under `/mnt/data` and `/app/results`' },
		run: async () => {
			const s = await openSecond({ args: ['--profile', 'both'] });
			assert.equal((await s.client.listTools()).tools.length, 12);
			const id = await s.create();
			await s.python(id, 'open("x", "w").write("seen")');
			const read = (await s.raw('sandbox_read_artifact', { session_id: id, path: '/mnt/data/x' })) as Json;
			assert.equal(read.structuredContent.result.content_base64, Buffer.from('seen').toString('base64'));
			await s.end();
		},
	},
];
