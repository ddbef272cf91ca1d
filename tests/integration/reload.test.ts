// SPDX-License-Identifier: Apache-2.0
// SIGHUP as an attacker or an accident sends it: in storms, before the server is ready, together with SIGTERM, to every process, and with
// files that are none. The server goes on, answers meanwhile, and the next good file counts.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as path from 'node:path';
import { execFileSync } from 'node:child_process';
import { after, before, describe, it } from 'node:test';
import { freePort, mode, newStateDir, productUid, scratch, slowness } from '../lib/env.ts';
import { caisson, descendants, start, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until, within } from '../lib/wait.ts';

const password = 'correct horse battery';

interface Answer { status: number; body: Json }

/** node:http, because fetch() sets no Origin. */
function send(base: string, method: string, where: string, headers: Record<string, string>, body?: Buffer | Json): Promise<Answer> {
	const bytes = body === undefined || Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
	return new Promise((resolve, reject) => {
		const req = http.request(`${base}${where}`, { method, headers: { 'content-type': 'application/json', ...headers, ...(bytes ? { 'content-length': String(bytes.length) } : {}) } }, (r) => {
			const got: Buffer[] = [];
			r.on('data', (b: Buffer) => got.push(b)).on('end', () => {
				const text = Buffer.concat(got).toString();
				resolve({ status: r.statusCode!, body: /^[{[]/.test(text) ? JSON.parse(text) as Json : { text } });
			});
		}).on('error', reject);
		req.end(bytes);
	});
}

const own = (p: string): void => fs.lchownSync(p, productUid, productUid);
const read = (p: string): string => fs.statSync(p, { throwIfNoEntry: false })?.isFile() || p.startsWith('/proc/') ? fs.readFileSync(p, 'utf8') : '';
/* It gives itself its name, which may be later than the server's first answer. */
const reopenerOf = async (pid: number): Promise<number> => {
	const found = (): ReturnType<typeof descendants> => descendants(pid).filter((p) => p.name === 'caisson-reopen');
	await until('a reopener', () => found().length > 0);
	assert.equal(found().length, 1, 'one reopener');
	return found()[0]!.pid;
};

describe('SIGHUP', () => {
	const dir = scratch('reload'), file = path.join(dir, 'c.toml'), log = path.join(dir, 'log', 'server.log');
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_LOG_FILE: undefined, SANDBOX_LOG_LEVEL: undefined, SANDBOX_USER_SANDBOX_LIMIT: '0' };
	let program: Program, base: string, admin: Record<string, string>, page: Record<string, string>;
	let turn = 0;

	/** A good settings file that permits one more Host each time; how it came about is left to `put`. */
	const good = (host: string, more = ''): string => `[server]\nallowed_hosts = "${host}"\n[log]\nfile = "${log}"\nlevel = "debug"\n${more}`;
	const isPermitted = async (host: string): Promise<boolean> => (await send(base, 'GET', '/', { host })).status === 200;
	/** A good file, a SIGHUP, and it counts. */
	const takesNext = async (): Promise<void> => {
		const host = `h${++turn}.example.org`;
		fs.rmSync(file, { force: true, recursive: true });
		fs.writeFileSync(file, good(host));
		own(file);
		program.kill('SIGHUP');
		await until(`the settings of turn ${turn}`, () => isPermitted(host));
	};
	const answers = async (): Promise<void> => {
		for (let i = 0; i < 20; i++)
			assert.equal((await within('an answer', send(base, 'GET', '/healthz', {}), 20_000)).status, 200);
	};

	before(async () => {
		fs.mkdirSync(path.dirname(log));
		own(path.dirname(log));
		fs.writeFileSync(file, good('first.example.org'));
		own(file);
		assert.equal((await caisson(['user', 'add', 'root', '--role', 'admin', '--password', 'none'], { env })).code, 0);
		const key = /csn_\S+/.exec((await caisson(['key', 'new', 'root', '--scope', 'admin'], { env })).stdout.toString())![0];
		({ program, base } = await serve({ profile: 'full', env, args: ['--config', file] }));
		admin = { authorization: `Bearer ${key}` };
		page = { 'sec-fetch-site': 'same-origin', origin: base, 'x-caisson-page': '1' };
		assert.equal((await send(base, 'POST', '/api/v1/users', admin, { name: 'ada', password })).status, 201);
	});
	after(() => program?.end());

	const files: readonly [string, () => void][] = [
		['a pipe without a writer', () => execFileSync('mkfifo', ['-m', '600', file])],
		['a folder', () => fs.mkdirSync(file)],
		['nothing', () => undefined],
		['a link to itself', () => fs.symlinkSync(file, file)],
		['a link to /dev/zero', () => fs.symlinkSync('/dev/zero', file)],
		['a terabyte of nothing', () => { fs.writeFileSync(file, ''); fs.truncateSync(file, 2 ** 40); }],
		['half a file', () => fs.writeFileSync(file, good('half.example.org').slice(0, 25))],
		['64 KiB of brackets', () => fs.writeFileSync(file, '['.repeat(65_000))],
		['bytes that are no text', () => fs.writeFileSync(file, Buffer.from([0, 255, 254, 10, 0x22, 0]))],
	];
	for (const [what, make] of files)
		it(`${what} in place of the settings file`, async () => {
			await takesNext();
			const kept = `h${turn}.example.org`, before = read(log).split('settings_not_read').length;
			fs.rmSync(file);
			make();
			if (fs.lstatSync(file, { throwIfNoEntry: false }))
				own(file);
			for (let i = 0; i < 30; i++)
				program.kill('SIGHUP');
			await answers();
			await until('the log', () => read(log).split('settings_not_read').length > before);
			assert.ok(await isPermitted(kept), 'what was read before counts');
			fs.rmSync(file, { force: true, recursive: true });
			await takesNext();
		});
	it('a settings file that may not be read', { skip: mode === 'root' && 'root may read every file' }, async () => {
		await takesNext();
		fs.chmodSync(file, 0);
		program.kill('SIGHUP');
		await answers();
		await takesNext();
	});

	const logs: readonly [string, () => void][] = [
		['a pipe that nobody reads', () => execFileSync('mkfifo', ['-m', '666', log])],
		['a folder', () => fs.mkdirSync(log)],
		['a link to itself', () => fs.symlinkSync(log, log)],
		['a socket', () => execFileSync('python3', ['-c', `import socket; socket.socket(socket.AF_UNIX).bind(${JSON.stringify(log)})`])],
	];
	for (const [what, make] of logs)
		it(`${what} in place of the log: lines go on to the old one`, async () => {
			await takesNext();
			const old = path.join(dir, `old-${turn}`);
			fs.renameSync(log, old);
			make();
			own(log);
			program.kill('SIGHUP');
			await answers();
			try {
				await until('the word', () => /log_not_opened[^]*reloaded/.test(read(old)));
				await answers();
				await until('a line after it', () => /log_not_opened[^]*healthz/.test(read(old)));
			} finally {
				fs.rmSync(log, { recursive: true });
			}
			await takesNext();
			await until('the new log', () => /reloaded/.test(read(log)));
		});
	it('a pipe in place of the log whose reader has stopped costs lines, not answers', async () => {
		await takesNext();
		fs.renameSync(log, path.join(dir, 'before-pipe'));
		execFileSync('mkfifo', ['-m', '666', log]);
		own(log);
		const reader = fs.openSync(log, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
		try {
			program.kill('SIGHUP');
			for (let i = 0; i < 1200; i++) // lines of level debug, more than a pipe holds
				assert.equal((await within('an answer', send(base, 'GET', '/healthz', {}), 20_000)).status, 200);
			await until('the word on stderr', () => /cannot be written \(Resource temporarily unavailable\)/.test(program.stderr));
		} finally {
			fs.closeSync(reader);
			fs.rmSync(log);
		}
		await takesNext();
		await until('the new log', () => /reloaded/.test(read(log)));
	});
	it('files that nobody hands over for long: the server answers, and reads them once when it can', async () => {
		await takesNext();
		const reopener = await reopenerOf(program.pid);
		process.kill(reopener, 'SIGSTOP');
		const host = `h${++turn}.example.org`;
		try {
			fs.writeFileSync(file, good(host));
			await until('one that waits', () => {
				program.kill('SIGHUP');
				return /reload_waits/.test(read(log));
			});
			await answers();
			assert.ok(!(await isPermitted(host)));
		} finally {
			process.kill(reopener, 'SIGCONT');
		}
		await until('the settings', () => isPermitted(host));
	});
	it('a reopener that has ended is said, and nothing else happens', async () => {
		const port = await freePort(), where = path.join(dir, 'other.log');
		const p = start(['serve', '--listen', `127.0.0.1:${port}`, '--profile', 'code'], { env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_LOG_FILE: where, SANDBOX_HTTP_PORT: '0' } });
		try {
			await until('the server', () => fetch(`http://127.0.0.1:${port}/healthz`).then((r) => r.ok, () => false), 20_000);
			process.kill(await reopenerOf(p.pid), 'SIGKILL');
			for (let i = 1; i <= 2; i++) {
				p.kill('SIGHUP');
				await until('the log', () => read(where).split('not_reloaded').length > i);
			}
			assert.ok((await fetch(`http://127.0.0.1:${port}/healthz`)).ok);
			p.kill('SIGTERM');
			assert.equal((await p.exit).code, 0);
		} finally {
			await p.end();
		}
	});

	it('(slow) hundreds of them beside runs, uploads, sign-ins and a file that is being written: every call succeeds', async () => {
		await takesNext();
		let on = true;
		let sent = 0, calls = 0;
		const storm = async (): Promise<void> => {
			for (; sent < 500; sent++) {
				fs.writeFileSync(file, sent % 3 === 0 ? good('storm.example.org').slice(0, sent % 90) : good('storm.example.org', `# ${sent}\n`));
				program.kill('SIGHUP');
				await new Promise((resolve) => setImmediate(resolve));
			}
			on = false;
		};
		const ok = (r: Answer, ...statuses: number[]): void => {
			calls++;
			assert.ok(statuses.includes(r.status), `${r.status} ${JSON.stringify(r.body)}`);
		};
		const worker = async (i: number): Promise<void> => {
			do {
				const made = await send(base, 'POST', '/api/v1/sandboxes', admin, {});
				ok(made, 201);
				const at = `/api/v1/sandboxes/${made.body.id}`;
				const bytes = Buffer.alloc(300_000, `${i}`);
				ok(await send(base, 'PUT', `${at}/files/f`, { ...admin, 'content-type': 'application/octet-stream' }, bytes), 200, 201);
				const run = await send(base, 'POST', `${at}/runs`, admin, { code: 'print(len(open("f").read()))', wait: true });
				ok(run, 200, 201);
				assert.equal(run.body.stdout, '300000\n', JSON.stringify(run.body));
				ok(await send(base, 'POST', '/api/v1/session', page, { username: 'ada', password }), 200);
				ok(await send(base, 'DELETE', at, admin), 200, 204);
			} while (on);
		};
		try {
			await within('all', Promise.all([storm(), ...[0, 1, 2].map(worker)]), 90_000);
		} finally {
			await takesNext();
		}
		assert.ok(calls >= 15);
	});
	it('to every process of the server, from outside its sandboxes: nobody ends', async () => {
		await takesNext();
		const before = descendants(program.pid).filter((p) => p.state !== 'Z' && p.name.startsWith('caisson'));
		assert.ok(before.length >= 3);
		for (let i = 0; i < 20; i++)
			for (const p of before)
				try {
					process.kill(p.pid, 'SIGHUP');
				} catch { /* one that makes a sandbox may have ended */ }
		const made = await send(base, 'POST', '/api/v1/sandboxes', admin, {});
		assert.equal(made.status, 201, JSON.stringify(made.body));
		const now = new Set(descendants(program.pid).map((p) => `${p.pid} ${p.started}`));
		const small = before.filter((p) => p.ppid === program.pid);
		assert.ok(small.length >= 3, before.map((p) => p.name).join(' '));
		for (const p of small)
			assert.ok(now.has(`${p.pid} ${p.started}`), `${p.name} has ended`);
		await takesNext();
	});
	it('(slow) together with SIGTERM: the end is in order', async () => {
		for (const signals of [['SIGHUP', 'SIGTERM', 'SIGHUP'], ['SIGTERM', 'SIGHUP', 'SIGHUP'], ['SIGHUP', 'SIGHUP', 'SIGTERM']] as const) {
			const port = await freePort();
			const p = start(['serve', '--config', file, '--listen', `127.0.0.1:${port}`, '--profile', 'code'], { env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_LOG_FILE: path.join(dir, 'third.log'), SANDBOX_HTTP_PORT: '0' } });
			try {
				await until('the server', () => fetch(`http://127.0.0.1:${port}/healthz`).then((r) => r.ok, () => false), 20_000);
				const reopener = await reopenerOf(p.pid);
				process.kill(reopener, 'SIGSTOP'); // so that an answer is due at the end
				signals.forEach((s) => p.kill(s));
				try {
					await until('the end', () => p.child.exitCode !== null || p.child.signalCode !== null, 20_000);
				} finally {
					process.kill(reopener, 'SIGCONT');
				}
				const r = await within('the end of all that has its stderr', p.exit, 20_000);
				assert.deepEqual([r.code, r.signal], [0, null], r.stderr.toString());
				await until('the end of the reopener', () => !fs.existsSync(`/proc/${reopener}`));
			} finally {
				await p.end();
			}
		}
	});
	it('while the server starts: it starts', async () => {
		const port = await freePort();
		const p = start(['serve', '--listen', `127.0.0.1:${port}`, '--profile', 'code'], { env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_LOG_FILE: path.join(dir, 'fourth.log'), SANDBOX_HTTP_PORT: '0' } });
		try {
			await until('its first process', () => descendants(p.pid).length > 0); // before, the signal may meet a program that is being loaded
			for (let up = false, i = 0; !up && i < 20_000 * slowness; i++) {
				assert.ok(p.child.exitCode === null && p.child.signalCode === null, `it ended: ${p.stderr}`);
				p.kill('SIGHUP');
				up = await fetch(`http://127.0.0.1:${port}/healthz`).then((r) => r.ok, () => false);
			}
			assert.ok((await fetch(`http://127.0.0.1:${port}/healthz`)).ok);
			p.kill('SIGTERM');
			assert.equal((await p.exit).code, 0);
		} finally {
			await p.end();
		}
	});
});
