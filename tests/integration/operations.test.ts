// SPDX-License-Identifier: Apache-2.0
// What an operator meets: SIGHUP, names of the server, a state folder or an image that is not there, and processes that are left.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { asProductUser, binary, freePort, imagesDir, newStateDir, productEnv, productUid, scratch } from '../lib/env.ts';
import { Program, caisson, start } from '../lib/process.ts';
import { RawClient } from '../lib/raw.ts';
import { serve } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

/** GET / with a Host of our choice. */
function ask(port: number, host: string): Promise<{ status: number; body: string }> {
	return new Promise((resolve, reject) => {
		http.get({ host: '127.0.0.1', port, path: '/', headers: { host } }, (r) => {
			let body = '';
			r.on('data', (b: Buffer) => (body += b.toString()));
			r.on('end', () => resolve({ status: r.statusCode!, body }));
		}).on('error', reject);
	});
}

function ownFile(name: string, text: string): string {
	const file = path.join(scratch('config'), name);
	fs.writeFileSync(file, text, { mode: 0o644 });
	fs.chownSync(file, productUid, productUid);
	return file;
}

const second = (host: string, port: number, more = ''): string => `[server]
host = "${host}"
port = ${port}
[auth]
require_auth = false
user_sandbox_limit = 0
[docker]
default_image = "python-sandbox:latest"
dockerfile_path = "elsewhere/Dockerfile"
[logging]
level = "INFO"
format = "%(message)s"
${more}`;

describe('names and paths of a server', () => {
	it('an allowed host or origin that can never match is refused at the start, with what is wrong', async () => {
		for (const [name, value, why] of [
			['SANDBOX_ALLOWED_HOSTS', 'https://box.example.org', 'without http'],
			['SANDBOX_ALLOWED_HOSTS', 'good.example.org,*.example.org', 'means every host'],
			['SANDBOX_ALLOWED_HOSTS', 'box:8080', 'the port'],
			['SANDBOX_ALLOWED_HOSTS', 'box/x', 'a path'],
			['SANDBOX_ALLOWED_HOSTS', '2001:db8::7', 'brackets'],
			['SANDBOX_ALLOWED_ORIGINS', 'app.example.org', 'its scheme'],
			['SANDBOX_ALLOWED_ORIGINS', 'https://app.example.org/', 'no slash'],
		] as const) {
			const p = start(['serve', '--listen', '127.0.0.1:0'], { env: { [name]: value } });
			assert.equal((await p.exit).code, 78, `${value}: ${p.stderr}`);
			assert.match(p.stderr, new RegExp(`${name}: '[^']+' can never match: .*${why}`));
		}
	});
	it('a path prefix of a trusted proxy, or of the public URL, is in the endpoint of SSE and in the description', async () => {
		const endpoint = async (base: string, headers: Record<string, string>): Promise<string> => {
			const stop = new AbortController();
			const r = await fetch(`${base}/sse`, { headers, signal: stop.signal });
			const { value } = await r.body!.getReader().read();
			stop.abort();
			return /data: (.*)\?/.exec(new TextDecoder().decode(value))![1]!;
		};
		const servers = async (base: string, page: string, headers: Record<string, string>): Promise<string> =>
			((await (await fetch(base + page, { headers })).json()) as { servers: { url: string }[] }).servers[0]!.url;
		const by = (prefix: string): Record<string, string> => ({ 'x-forwarded-prefix': prefix, 'x-forwarded-for': '192.0.2.1' });
		for (const [env, headers, want] of [
			[{ SANDBOX_TRUSTED_PROXIES: '127.0.0.1' }, by('/box/'), '/box'],
			[{ SANDBOX_TRUSTED_PROXIES: '127.0.0.1' }, by('//elsewhere.example.org'), ''],
			[{ SANDBOX_TRUSTED_PROXIES: '127.0.0.1' }, by('/a"b'), ''],
			[{}, by('/box'), ''],
			[{ SANDBOX_PUBLIC_URL: 'https://box.example.org/tools/' }, {}, '/tools'],
		] as const) {
			const s = await serve({ profile: 'full', env });
			try {
				assert.equal(await endpoint(s.base, headers), `${want}/messages/`, JSON.stringify([env, headers]));
				assert.equal(await servers(s.base, '/openapi.json', headers), want || '/');
				assert.equal(await servers(s.base, '/api/v1/openapi.json', headers), want || '/');
				assert.match(await (await fetch(`${s.base}/docs`)).text(), /href="openapi\.json"/);
			} finally {
				await s.program.end();
			}
		}
	});
	const noV6 = !fs.existsSync('/proc/net/if_inet6') || !/ lo$/m.test(fs.readFileSync('/proc/net/if_inet6', 'utf8'));
	it('what is printed as localhost is served on both loopback addresses', { skip: noV6 && 'this machine has no address ::1' }, async () => {
		const port = await freePort(), links = await freePort();
		const p = start(['serve', '--listen', `localhost:${port}`], { env: { SANDBOX_HTTP_PORT: String(links) } });
		try {
			for (const host of ['127.0.0.1', '[::1]']) {
				await until(`${host}`, () => fetch(`http://${host}:${port}/healthz`).then((r) => r.ok, () => false));
				assert.equal((await fetch(`http://${host}:${links}/files/none/x`)).status, 404);
			}
		} finally {
			await p.end();
		}
	});
});

describe('a machine that refuses user namespaces', () => {
	it('is told at the start, with the sysctl and the remedy', { skip: process.getuid!() !== 0 && 'the limit is set in a user namespace of root' }, async () => {
		const p = start(['stdio', '--no-bridge', '--profile', 'full'], {
			env: { SANDBOX_STATE_DIR: newStateDir() },
			under: ['unshare', '--user', '--map-root-user', 'sh', '-c', 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', 'sh'],
		});
		assert.equal((await p.exit).code, 1, p.stderr);
		assert.match(p.stderr, /refuses user namespaces: user\.max_user_namespaces is 0: sudo sysctl -w user\.max_user_namespaces=/);
	});
});

describe('a running server', () => {
	it('answers to the name of its public URL, and a refused Host says which setting permits it; SIGHUP reopens and rereads', async () => {
		const port = await freePort(), log = path.join(scratch('log'), 'server.log');
		const file = ownFile('c.toml', `[server]\npublic_url = "https://box.example.org:8443/tools"\n[log]\nfile = "${log}"\n`);
		const p = start(['serve', '--config', file, '--listen', `127.0.0.1:${port}`, '--http-port', '0'], { env: { SANDBOX_LOG_FILE: undefined, SANDBOX_STATE_DIR: newStateDir() } });
		try {
			await until('the server', () => ask(port, 'localhost').then((r) => r.status === 200, () => false), 20_000);
			assert.equal((await ask(port, 'box.example.org')).status, 200);
			const refused = await ask(port, 'other.example.org');
			assert.equal(refused.status, 403);
			assert.match(refused.body, /SANDBOX_ALLOWED_HOSTS/);

			fs.renameSync(log, `${log}.old`);
			fs.writeFileSync(file, `[server]\nallowed_hosts = "other.example.org"\nmax_connections = 7\n[log]\nfile = "${log}"\nlevel = "debug"\n`);
			p.kill('SIGHUP');
			await until('the new log', () => fs.existsSync(log) && /reloaded/.test(fs.readFileSync(log, 'utf8')), 10_000);
			const said = fs.readFileSync(log, 'utf8');
			assert.match(said, /setting_changed setting="server.allowed_hosts"/);
			assert.match(said, /setting_needs_restart setting="server.max_connections"/);
			assert.equal((await ask(port, 'other.example.org')).status, 200);
			await until('a line of level debug', () => /http_request/.test(fs.readFileSync(log, 'utf8')), 10_000);

			fs.writeFileSync(file, 'this is no TOML\n');
			p.kill('SIGHUP');
			await until('the error', () => /settings_not_read .*c\.toml:1/.test(fs.readFileSync(log, 'utf8')), 10_000);
			assert.equal((await ask(port, 'other.example.org')).status, 200, 'a wrong file changes nothing');
			p.kill('SIGTERM');
			assert.equal((await p.exit).code, 0);
		} finally {
			await p.end();
		}
	});
	it('starts with the shipped file of the second family: authentication on, registration closed, and a warning', async () => {
		const port = await freePort();
		const file = ownFile('config.toml', second('0.0.0.0', port, '[more]\nunknown = 1\n'));
		const p = start(['serve', '--profile', 'classic', '--config', file, '--http-port', '0'], { env: { SANDBOX_STATE_DIR: newStateDir() } });
		try {
			await until('the server', () => ask(port, 'localhost').then((r) => r.status === 200, () => false), 20_000);
			const base = `http://127.0.0.1:${port}`;
			assert.equal((await fetch(`${base}/sse`)).status, 401);
			assert.equal((await fetch(`${base}/api/register`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"username":"eve","email":"e@example.org","password":"correct horse"}' })).status, 403);
			assert.match(p.stderr, /more\.unknown: there is no such setting, so it is ignored/);
			assert.match(p.stderr, /docker\.dockerfile_path has no effect: .*caisson image build/);
			assert.match(p.stderr, /clients must authenticate[^]*caisson user add/);
		} finally {
			p.kill('SIGTERM');
			await p.exit;
		}
	});
	it('in that file an image is used or refused, and a limit of 0 sandboxes allows none', async () => {
		const other = ownFile('config.toml', second('127.0.0.1', 0).replace('python-sandbox', 'other'));
		const r = await caisson(['serve', '--profile', 'classic', '--config', other], { env: { SANDBOX_IMAGE: undefined } });
		assert.equal(r.code, 1);
		assert.match(r.stderr.toString(), /no image 'other'.*caisson image build other/);

		const file = ownFile('config.toml', second('127.0.0.1', 0));
		const c = new RawClient({ env: { SANDBOX_STATE_DIR: newStateDir() } }, ['stdio', '--profile', 'classic', '--config', file]);
		try {
			await c.initialize();
			const made = await c.request('tools/call', { name: 'create_sandbox', arguments: {} });
			assert.match(made.result.content[0].text, /maximum limit of 0 sandboxes/);
		} finally {
			await c.end();
		}
	});
});

describe('what is not there', () => {
	it('verbs that only look make no state folder', async () => {
		const dir = path.join(scratch('none'), 'state');
		for (const args of [['image', 'list'], ['image', 'rm', 'x'], ['user', 'list'], ['user', 'rm', 'x'], ['key', 'list', 'x'], ['doctor'], ['config'], ['ps', '--listen', '127.0.0.1:1']]) {
			const r = await caisson(args, { env: { SANDBOX_STATE_DIR: dir } });
			assert.ok(!fs.existsSync(dir), `${args.join(' ')} made it`);
			if (args[0] !== 'doctor' && args[0] !== 'config')
				assert.equal(r.code, 66, r.stderr.toString());
		}
	});
	it('without an image stdio answers, each call says what to do, and works as soon as the image is there', async () => {
		const state = scratch('state');
		const c = new RawClient({ env: { SANDBOX_STATE_DIR: state, SANDBOX_IMAGE: undefined } }, ['stdio']);
		try {
			assert.ok((await c.initialize()).result.serverInfo);
			for (let i = 0; i < 2; i++) {
				const r = await c.request('tools/call', { name: 'sandbox_run_python', arguments: { code: 'print(1)' } });
				assert.match(JSON.stringify(r), /the image 'science' is not there.*caisson image build science/);
			}
			await c.alive();
			fs.symlinkSync(imagesDir, path.join(state, 'images'));
			assert.match(JSON.stringify(await c.request('tools/call', { name: 'sandbox_run_python', arguments: { code: 'print(6 * 7)' } })), /42/);
		} finally {
			await c.end();
		}
	});
	it('without an image the profile code ends with status 1 and one line, as the original did', async () => {
		const r = await caisson(['stdio', '--profile', 'code'], { env: { SANDBOX_STATE_DIR: scratch('state'), SANDBOX_IMAGE: undefined }, input: '' });
		assert.equal(r.code, 1);
		assert.match(r.stderr.toString(), /^ERROR: there is no image 'science' .*caisson image build science\n$/);
	});
});

describe('processes', () => {
	for (const args of [['stdio', '--no-bridge'], ['run', '/dev/null']])
		it(`caisson ${args[0]} takes its children with it: nothing is left for a parent that does not reap`, async () => {
			// A subreaper stands for the PID 1 of a container that only waits for its own child.
			const text = [
				'import ctypes, os, subprocess, sys, time',
				'assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0',
				'p = subprocess.run(sys.argv[1:], input=b\'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n\', stdout=subprocess.DEVNULL)',
				'time.sleep(0.3)',
				'left = open(f"/proc/self/task/{os.getpid()}/children").read().split()',
				'print(p.returncode, [open(f"/proc/{n}/comm").read().strip() for n in left])',
			].join('\n');
			const argv = asProductUser([fs.existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3', '-c', text, binary, ...args]);
			const env = productEnv();
			const r = await new Program(spawn(argv[0]!, argv.slice(1), { env, cwd: env.HOME })).exit;
			assert.equal(r.stdout.toString(), '0 []\n', r.stderr.toString());
		});
});
