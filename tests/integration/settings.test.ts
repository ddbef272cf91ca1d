// SPDX-License-Identifier: Apache-2.0
// Every setting: its default, and that a bad value stops the start with one line that says what is wrong.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { binary, newStateDir, productEnv, productUid, scratch } from '../lib/env.ts';
import { caisson } from '../lib/process.ts';
import { RawClient } from '../lib/raw.ts';
import { serve, using } from '../lib/session.ts';

/** The first family's variables, their defaults, and values that must be refused. */
const table: [name: string, fallback: string, bad: string[]][] = [
	['SANDBOX_IMAGE', 'llm-sandbox:latest', []],
	['SANDBOX_MEMORY_LIMIT', '512m', ['lots', '12x', '-1m', '1e9', '99999999999t', '1 2m']],
	['SANDBOX_CPU_LIMIT', '1.0', ['one', '-1', 'nan', 'inf']],
	['SANDBOX_EXEC_TIMEOUT_S', '60', ['3.5', '-1', 'abc', '0x10', '99999999999999999999']],
	['SANDBOX_SESSION_TTL_M', '30', ['3.5', '-1', 'abc']],
	['SANDBOX_MAX_SESSIONS', '10', ['0', '-1', '2.5', 'ten', '1__0', '_1', '5.']],
	['SANDBOX_CLEANUP_INTERVAL_M', '5', ['0', '-5', 'x']],
	['SANDBOX_MAX_UPLOAD_BYTES', '52428800', ['-1', '1.5', '50m']],
	['SANDBOX_MAX_ARTIFACT_READ_BYTES', '10485760', ['-1', 'x']],
	['SANDBOX_MAX_OUTPUT_BYTES', '102400', ['-1', 'x', '1e5']],
	['SANDBOX_MAX_CODE_BYTES', '102400', ['-1', 'x']],
	['SANDBOX_HTTP_HOST', '127.0.0.1', []],
	['SANDBOX_HTTP_PORT', '8080', ['65536', '-1', 'http', '80 80']],
	['SANDBOX_LOG_FORMAT', 'console', ['JSON', 'xml']],
	['SANDBOX_PROFILE', 'full', ['everything']],
	['SANDBOX_POOL', '1', ['-1', '65', 'many']],
	['SANDBOX_KILL_GRACE_MS', '1000', ['-1', '1.5']],
	['SANDBOX_LISTEN', '127.0.0.1:8181', ['nowhere', '127.0.0.1:99999', ':']],
];
const all = [...table.map((r) => r[0]), 'SANDBOX_LOG_LEVEL', 'SANDBOX_LOG_FILE', 'SANDBOX_STATE_DIR'];
const unset = Object.fromEntries(all.map((n) => [n, undefined]));

describe('settings', () => {
	it('the defaults are those of the contract', async () => {
		const config = async (...profile: string[]): Promise<string> => {
			const r = await caisson(['config', ...profile], { env: { ...unset, SANDBOX_STATE_DIR: productEnv().SANDBOX_STATE_DIR } });
			assert.equal(r.code, 0, r.stderr.toString());
			return r.stdout.toString();
		};
		const [text, exact] = [await config(), await config('--profile', 'code')];
		const grows = ['SANDBOX_MAX_SESSIONS', 'SANDBOX_MEMORY_LIMIT'];
		assert.match(text, /\bSANDBOX_MAX_SESSIONS +[1-9]\d+ /, 'in full it follows the memory of the machine');
		const [memory, stored] = ['SANDBOX_MEMORY_LIMIT', 'SANDBOX_STORED_MEMORY_LIMIT'].map((n) => Number(new RegExp(`\\b${n} +(\\d+)m `).exec(text)![1]));
		const part = Math.min(os.totalmem(), process.constrainedMemory() || Infinity) / 48 / 2 ** 20;
		assert.ok(memory === 2048 ? part >= 2048 : memory! >= 512 && memory! <= Math.max(512, part) && memory! > part - 64, `${memory} MiB, a 48th is ${part}`);
		assert.ok(stored! >= Math.max(memory!, 1024), `a stored one: ${stored} MiB`);
		assert.match((await caisson(['config'], { env: { ...unset, SANDBOX_MAX_MEMORY_LIMIT: '600m', SANDBOX_STATE_DIR: productEnv().SANDBOX_STATE_DIR } })).stdout.toString(), /\bSANDBOX_MEMORY_LIMIT +(5[1-9]\d|600)m /, 'not above what may be chosen');
		for (const [name, fallback] of table) {
			const line = (grows.includes(name) ? exact : text).split('\n').find((l) => new RegExp(`\\b${name}\\b`).test(l));
			assert.ok(line, `${name} in:\n${text}`);
			assert.ok(line.includes(fallback), `${name} is ${fallback}: ${line}`);
		}
	});
	for (const [name, , bad] of table) {
		it(`${name} refuses bad values in one line`, async () => {
			for (const value of bad) {
				const r = await caisson(['stdio'], { env: { [name]: value }, input: '' });
				assert.notEqual(r.code, 0, `${name}='${value}' was taken`);
				assert.equal(r.signal, null);
				assert.equal(r.stdout.toString(), '', 'nothing on stdout');
				const lines = r.stderr.toString().trim().split('\n');
				assert.equal(lines.length, 1, r.stderr.toString());
				assert.ok(lines[0]!.includes(name), `names the variable: ${lines[0]}`);
				assert.ok(lines[0]!.includes(`'${value}'`) || lines[0]!.includes(`"${value}"`), `names the value: ${lines[0]}`);
			}
		});
	}
	it('an empty variable is as good as none; an empty flag is refused', async () => {
		const config = async (env: Record<string, string | undefined>): Promise<string[]> => {
			const r = await caisson(['config'], { env });
			assert.equal(r.code, 0, r.stderr.toString());
			return r.stdout.toString().split('\n');
		};
		const own = { ...unset, SANDBOX_STATE_DIR: productEnv().SANDBOX_STATE_DIR };
		const plain = await config(own);
		const names = plain.flatMap((line) => /^\s*([A-Z][A-Z_]+) .* default\s*$/.exec(line)?.[1] ?? []);
		assert.ok(names.length > 100, plain.join('\n'));
		const empty = await config({ ...own, ...Object.fromEntries(names.map((n) => [n, ''])) });
		const changed = empty.filter((line) => !plain.includes(line)).map((line) => /[A-Z][A-Z_]+/.exec(line)![0]);
		assert.deepEqual(changed.filter((n) => !/^SANDBOX_IMAGE_(KEY|SOURCE)$/.test(n)).sort(), ['SANDBOX_LOG_FILE', 'SANDBOX_PAGE_ORIGINS', 'SANDBOX_UPLOAD_LOCAL_ROOTS'], 'those for which nothing is a value; a build may give two others a default');
		for (const flag of ['--profile', '--max-sessions', '--image'])
			assert.match((await caisson(['config', flag, ''], { env: own })).stderr.toString(), new RegExp(`${flag}: '' is not allowed`));
		const exact = await caisson(['config', '--profile', 'code'], { env: { ...own, SANDBOX_MEMORY_LIMIT: '' } });
		assert.match(exact.stdout.toString(), /SANDBOX_MEMORY_LIMIT +16777216m/, 'as the first family read it');
	});
	it('integers may have blanks around them; an unknown level means INFO', () =>
		using('stdio', { env: { SANDBOX_MAX_SESSIONS: ' 1 ', SANDBOX_LOG_LEVEL: 'chatty' } }, async (s) => {
			await s.ok('pass', 'one');
			assert.equal((await s.run('pass', 'two')).error, 'max_sessions');
		}));
	it('values mean what they meant in the first family: no limit, 1_0, 5.0', async () => {
		const r = await caisson(['config'], { env: { SANDBOX_MEMORY_LIMIT: '0', SANDBOX_CPU_LIMIT: '0', SANDBOX_MAX_SESSIONS: '1_0', SANDBOX_EXEC_TIMEOUT_S: '5.0' } });
		assert.match(r.stdout.toString(), /SANDBOX_MEMORY_LIMIT +16777216m[^]*SANDBOX_CPU_LIMIT +1024\.0[^]*SANDBOX_EXEC_TIMEOUT_S +5 [^]*SANDBOX_MAX_SESSIONS +10 /, r.stderr.toString());
		await using('stdio', { env: { SANDBOX_MEMORY_LIMIT: '', SANDBOX_CPU_LIMIT: '0' } }, async (s) => void (await s.ok('print(1)')));
		assert.match((await caisson(['config'], { env: { SANDBOX_MAX_SESSIONS: '0' } })).stderr.toString(), /from 1 \(0 would refuse every sandbox\)/);
	});
	it('a variable that is no setting is refused with the name that was meant; in the profiles that replace others it is a warning', async () => {
		const env = { SANDBOX_MEMROY_LIMIT: '1g' };
		for (const args of [['config'], ['stdio'], ['ps'], ['image', 'list']]) {
			const r = await caisson(args, { env, input: '' });
			assert.equal(r.code, 78, args.join(' '));
			assert.match(r.stderr.toString(), /SANDBOX_MEMROY_LIMIT; did you mean 'SANDBOX_MEMORY_LIMIT'\?/);
		}
		assert.match((await caisson(['config'], { env: { SANDBOX_PORT: '80' } })).stderr.toString(), /SANDBOX_PORT; did you mean 'SANDBOX_LISTEN=HOST:PORT'\?/);
		for (const profile of ['code', 'classic', 'both']) {
			const r = await caisson(['config', '--profile', profile], { env });
			assert.equal(r.code, 0);
			assert.match(r.stderr.toString(), /no setting SANDBOX_MEMROY_LIMIT, so it is ignored/);
		}
		const file = path.join(scratch('config'), 'c.toml');
		fs.writeFileSync(file, '[session]\nmemory_limt = "1g"\n');
		assert.match((await caisson(['config', '--config', file])).stderr.toString(), /did you mean 'session\.memory_limit'/);
	});
	it('the flag wins over the environment, the environment over the file', async () => {
		const file = path.join(scratch('config'), 'c.toml');
		fs.writeFileSync(file, '[session]\nmax = 7\nexec_timeout_s = 11\nttl_m = 13\n');
		const r = await caisson(['config', '--config', file, '--max-sessions', '9'], { env: { SANDBOX_MAX_SESSIONS: '8', SANDBOX_EXEC_TIMEOUT_S: '12' } });
		assert.equal(r.code, 0, r.stderr.toString());
		const value = (name: string): string => r.stdout.toString().split('\n').find((l) => l.includes(name))!;
		assert.match(value('SANDBOX_MAX_SESSIONS'), /\b9\b/);
		assert.match(value('SANDBOX_EXEC_TIMEOUT_S'), /\b12\b/);
		assert.match(value('SANDBOX_SESSION_TTL_M'), /\b13\b/);
	});
	it('a bad file is refused with its line', async () => {
		const file = path.join(scratch('config'), 'bad.toml');
		fs.writeFileSync(file, '[session]\nmax = 3\nthis is no TOML\n');
		const r = await caisson(['stdio', '--config', file], { input: '' });
		assert.notEqual(r.code, 0);
		assert.match(r.stderr.toString(), /bad\.toml:3|line 3/);
	});
	for (const args of [['serve'], ['run', '/dev/null'], ['ps'], ['image', 'list'], ['user', 'list'], ['key', 'list', 'ada'], ['doctor'], ['config']]) {
		it(`caisson ${args.join(' ')} reads --config FILE, too`, async () => {
			const file = path.join(scratch('config'), 'bad.toml');
			fs.writeFileSync(file, '[session]\nmax = 3\nthis is no TOML\n');
			for (const flag of [['--config', file], [`--config=${file}`]]) {
				const r = await caisson([...args, ...flag], { input: '' });
				assert.equal(r.code, 78, r.stderr.toString());
				assert.match(r.stderr.toString(), /bad\.toml:3/);
			}
		});
	}
	it('the file says which state folder has the images, before and after the word', async () => {
		const dir = scratch('config'), file = path.join(dir, 'c.toml');
		fs.writeFileSync(file, `[server]\nstate_dir = "${newStateDir()}"\n`);
		const env = { SANDBOX_STATE_DIR: undefined, XDG_DATA_HOME: dir };
		for (const args of [['image', 'list', '--config', file], ['image', '--config', file, 'list']])
			assert.match((await caisson(args, { env })).stdout.toString(), /^science /m);
	});
	it('./config.toml is read by all but stdio and run, and by nobody when others can write it', async () => {
		const cwd = scratch('config'), file = path.join(cwd, 'config.toml');
		fs.writeFileSync(file, 'this is no TOML\n', { mode: 0o600 });
		fs.chownSync(file, productUid, productUid);
		for (const args of [['ps'], ['image', 'list'], ['user', 'list'], ['doctor'], ['config']])
			assert.match((await caisson(args, { cwd })).stderr.toString(), /config\.toml:1/, args.join(' '));
		const nowhere = ['--engine', 'docker', '--docker-host', 'unix:///nonexistent'];
		for (const args of [['stdio', ...nowhere], ['run', '/dev/null', ...nowhere]])
			assert.match((await caisson(args, { cwd, input: '' })).stderr.toString(), /daemon at unix:\/\/\/nonexistent/, args.join(' '));
		fs.chmodSync(file, 0o666);
		const r = await caisson(['config'], { cwd });
		assert.equal(r.code, 0);
		assert.match(r.stderr.toString(), /config\.toml is not read/);
	});
	it('ps finds the server by the file, also by the second family\'s keys', async () => {
		const { program, port } = await serve();
		try {
			for (const text of [`listen = "127.0.0.1:${port}"`, `host = "127.0.0.1"\nport = ${port}`]) {
				const file = path.join(scratch('config'), 'c.toml');
				fs.writeFileSync(file, `[server]\n${text}\n`);
				const r = await caisson(['ps', '--config', file]);
				assert.deepEqual([r.code, r.stderr.toString()], [0, ''], text);
				assert.match(r.stdout.toString(), /^ID /);
			}
		} finally {
			await program.end();
		}
	});
	it('a listener beyond loopback without a key is refused', async () => {
		const r = await caisson(['serve', '--listen', '0.0.0.0:0']);
		assert.notEqual(r.code, 0);
		assert.equal(r.stderr.toString().trim().split('\n').length, 1);
	});
});

describe('the command line', () => {
	it('version and help go to stdout with status 0', async () => {
		const version = await caisson(['version']);
		assert.equal(version.code, 0);
		assert.match(version.stdout.toString(), /^caisson \d+\.\d+/);
		assert.match((await caisson(['--help'])).stdout.toString(), /stdio[^]*serve[^]*run[^]*image[^]*doctor/);
	});
	for (const [verb, says] of [['stdio', /\[--no-bridge\]/], ['serve', /--listen/], ['run', /--out DIR/], ['ps', /caisson ps \[--health \| --json\] \[SANDBOX\]\n/], ['exec', /caisson exec -d /], ['kill', /caisson kill \[-s SIGNAL\] SANDBOX PROCESS\n/], ['image', /caisson image rm NAME \[--of-sandbox\]\n/],
		['user', /caisson user role NAME user\|admin\n/], ['key', /caisson key revoke ID\n/], ['doctor', /\[--json\]/], ['config', /\[--markdown\]/]] as const) {
		it(`caisson ${verb} --help says what it takes, whatever else is wrong`, async () => {
			for (const args of [[verb, '--help'], verb === 'run' ? [verb, '-h'] : [verb, 'anything', '-h']]) { // what follows a script is the script's
				const r = await caisson(args, { input: '', env: { SANDBOX_PROFILE: 'none such' } });
				assert.equal(r.code, 0);
				assert.ok(r.stdout.toString().startsWith(`usage: caisson ${verb}`));
				assert.match(r.stdout.toString(), says);
				assert.equal(r.stderr.toString(), '');
			}
		});
	}
	it('what follows -- is no option', async () => {
		for (const args of [['--help'], ['--config', '/nowhere'], ['--config=/nowhere'], ['--profile', 'none such']]) {
			const r = await caisson(['ps', '--', ...args], { input: '' });
			assert.equal(r.code, 64);
			assert.equal(r.stdout.toString(), '');
		}
	});
	for (const args of [['fly'], ['--config', 'x'], ['run', '--fly'], ['stdio', '--no-such-flag'], ['run'], ['serve', '--listen'], ['stdio', '--profile', 'none such']]) {
		it(`caisson ${args.join(' ')} is refused in one line`, async () => {
			const r = await caisson(args, { input: '' });
			assert.notEqual(r.code, 0);
			assert.equal(r.stdout.toString(), '');
			assert.equal(r.stderr.toString().trim().split('\n').length, 1, r.stderr.toString());
		});
	}
	it('a mistyped word is answered with the one that was meant', async () => {
		for (const [args, meant] of [[['imgae'], 'image'], [['image', 'biuld'], 'build'], [['user', 'ad'], 'add'], [['run', '--memroy-limit', '1g'], '--memory-limit'],
			[['image', 'build', '--miror', 'x'], '--mirror'], [['serve', '--lisen=127.0.0.1:1'], '--listen'], [['user', 'add', 'x', '--rloe', 'admin'], '--role'],
			[['serve', '--port', '80'], '--listen HOST:PORT'], [['serve', '--host=0.0.0.0'], '--listen HOST:PORT']] as const) {
			const r = await caisson([...args], { input: '' });
			assert.equal(r.code, 64);
			assert.match(r.stderr.toString(), new RegExp(`did you mean '${meant}'`), args.join(' '));
		}
		assert.doesNotMatch((await caisson(['fly'])).stderr.toString(), /did you mean/);
	});
	it('completions for bash know verbs, commands, options and values; the others and the manual page name every verb', async () => {
		const file = path.join(scratch('completion'), 'caisson');
		fs.writeFileSync(file, (await caisson(['completion', 'bash'])).stdout);
		const complete = (...words: string[]): string =>
			spawnSync('bash', ['-c', '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _caisson; echo "${COMPREPLY[*]}"', file, 'caisson', ...words], { encoding: 'utf8' }).stdout.trim();
		assert.equal(complete('im'), 'image');
		assert.equal(complete('image', 'b'), 'build');
		assert.equal(complete('image', '--mir'), '--mirror');
		assert.equal(complete('stdio', '--memory'), '--memory-limit');
		assert.match(complete('stdio', '--log-format', ''), /^console json$/);
		for (const args of [['completion', 'fish'], ['completion', 'zsh'], ['help', '--man']]) {
			const text = (await caisson(args)).stdout.toString();
			for (const word of ['stdio', 'serve', 'run', 'doctor', 'memory.?-limit'])
				assert.match(text, new RegExp(`\\b${word}\\b`), args.join(' '));
		}
		assert.equal((await caisson(['completion', 'csh'])).code, 64);
	});
	it('called as mcp-code-sandbox it is the first family over stdio, without any argument', async () => {
		const link = path.join(scratch('alias'), 'mcp-code-sandbox');
		fs.symlinkSync(binary, link);
		const c = new RawClient({ program: link }, []);
		try {
			assert.equal((await c.initialize()).result.serverInfo.name, 'code_sandbox_mcp');
			assert.equal((await c.request('tools/list')).result.tools.length, 5);
			assert.equal((await c.tool('sandbox_run_python', { code: 'print(2+2)' })).stdout, '4\n');
		} finally {
			await c.end();
		}
	});
	it('--engine docker without a daemon is a typed refusal that says what to do', async () => {
		const r = await caisson(['run', '-c', '1', '--engine', 'docker', '--docker-host', 'unix:///nonexistent/docker.sock']);
		assert.equal(r.code, 69);
		assert.match(r.stderr.toString(), /daemon at unix:\/\/\/nonexistent\/docker\.sock does not answer/);
		assert.match(r.stderr.toString(), /start it, or set DOCKER_HOST/);
	});
	it('--engine auto is native where that works', async () => {
		const r = await caisson(['run', '--engine', 'auto', '-c', 'print(1)']);
		assert.equal(r.stdout.toString(), '1\n', r.stderr.toString());
	});
	it('doctor --json is JSON', async () => {
		const r = await caisson(['doctor', '--json']);
		const said = JSON.parse(r.stdout.toString()) as object;
		assert.ok(Object.keys(said).length > 0);
	});
	it('image list shows science with its Python', async () => {
		const r = await caisson(['image', 'list']);
		assert.equal(r.code, 0, r.stderr.toString());
		assert.match(r.stdout.toString(), /science.*3\.\d+/);
	});
});
