// SPDX-License-Identifier: Apache-2.0
// The packed files themselves, and what each installer makes of them in the empty home of a plain user.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { scratch, stateDir, top } from '../../lib/env.ts';
import { descendants } from '../../lib/process.ts';
import { until } from '../../lib/wait.ts';
import { NpmIndex } from './stub.ts';
import { asNewcomer, client, ends, firstRun, installs, must, newcomer, packed, type Case, type World } from './world.ts';

/** Reads a wheel as an installer does: the hashes of RECORD, the modes, the times. */
const LOOK = `
import base64, hashlib, json, sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
info = next(n for n in z.namelist() if n.endswith('.dist-info/RECORD')).rsplit('/', 1)[0]
rows = [r.rsplit(',', 2) for r in z.read(info + '/RECORD').decode().splitlines()]
for name, digest, size in rows[:-1]:
    data = z.read(name)
    assert digest == 'sha256=' + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode() and int(size) == len(data), name
assert rows[-1] == [info + '/RECORD', '', ''] and sorted(r[0] for r in rows) == sorted(z.namelist())
print(json.dumps({'modes': {i.filename: oct(i.external_attr >> 16) for i in z.infolist()}, 'wheel': z.read(info + '/WHEEL').decode(), 'metadata': z.read(info + '/METADATA').decode(),
    'commands': z.read(info + '/entry_points.txt').decode(), 'unix': {i.create_system for i in z.infolist()} == {3}}))`;

/** Started by this installer, `caisson connect` writes a command that the client can start later: that of the installer. */
async function connects(argv: string[], home: string, env: Record<string, string>, command: string, args: string[]): Promise<void> {
	const r = await asNewcomer([...argv, 'connect', 'cursor', '--yes'], env);
	assert.equal(r.status, 0, r.stderr);
	assert.deepEqual(JSON.parse(fs.readFileSync(`${home}/.cursor/mcp.json`, 'utf8')).mcpServers.caisson, { type: 'stdio', command, args });
}

const MISSING_FOLDER = /no definition of image 'nosuch' in ([^\s:]+)/;

function fileCases(w: World, tree: string): Case[] {
	const here = w.portable ? [] : ['--here'];
	const tag = `${w.portable ? 'manylinux_2_31' : 'linux'}_x86_64`;
	return [
		{
			name: 'packed again with another folder, time zone and umask the files are the same, byte for byte',
			async run() {
				const one = scratch('one'), two = scratch('two-with-a-longer-name');
				for (const kind of ['pypi', 'npm'] as const) {
					const made = (out: string, env: Record<string, string>): void => void must(['sh', '-c', `umask ${env.MASK}; exec "$@"`, 'sh', path.join(top, 'packaging', kind, 'build'), '--tree', tree, ...here,
						'--out', path.join(out, kind)], { env: { ...process.env as Record<string, string>, SOURCE_DATE_EPOCH: '1700000000', ...env } });
					made(one, { TZ: 'UTC', MASK: '022' });
					made(two, { TZ: 'Asia/Tokyo', MASK: '077', LC_ALL: 'C' });
				}
				must(['diff', '-r', one, two]);
			},
		},
		{
			name: 'the wheels say what is in them: tags, modes, hashes, commands, the mark of the registry',
			async run() {
				const look = (t: string) => JSON.parse(must(['python3', '-c', LOOK, path.join(w.wheels, `caisson_mcp-${w.version}-py3-none-${t}.whl`)]));
				const whole = look(tag), bridge = look('any');
				assert.match(whole.wheel, new RegExp(`^Root-Is-Purelib: false\\nTag: py3-none-${tag}$`, 'm'));
				assert.match(bridge.wheel, /^Root-Is-Purelib: true\nTag: py3-none-any$/m);
				assert.equal(whole.modes['caisson_mcp/caisson'], '0o100755');
				assert.equal(whole.modes['caisson_mcp/share/caisson/images/base.conf'], '0o100644');
				assert.equal(bridge.modes['caisson_mcp/caisson'], undefined);
				if (w.portable)
					for (const name of ['sboms/caisson.cdx.json', 'sboms/caisson.spdx.json', 'licenses/THIRD-PARTY', 'licenses/LICENSE'])
						assert.equal(whole.modes[`caisson_mcp-${w.version}.dist-info/${name}`], '0o100644', name);
				assert.match(whole.commands, /^caisson = .*\ncaisson-mcp = /m);
				assert.doesNotMatch(bridge.commands, /^caisson =/m);
				for (const l of [whole, bridge]) {
					assert.ok(l.unix);
					assert.match(l.metadata, /^Requires-Python: >=3\.8$/m);
					assert.match(l.metadata, /\n<!-- mcp-name: [a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+ -->\n$/);
				}
			},
		},
		{
			name: 'two architectures make two wheels, and two packages that caisson-mcp names',
			async run() {
				const arm = scratch('arm'), out = scratch('both');
				must(['cp', '-r', `${tree}/.`, arm]);
				const elf = fs.openSync(path.join(arm, 'bin/caisson'), 'r+');
				fs.writeSync(elf, Buffer.from([183]), 0, 1, 18); // e_machine: AArch64. Nothing runs it
				fs.closeSync(elf);
				for (const kind of ['pypi', 'npm'] as const)
					packed(kind, ['--tree', tree, '--tree', arm, ...here, '--out', out]);
				assert.deepEqual(fs.readdirSync(out).sort(), [`caisson-linux-arm64-${w.version}.tgz`, `caisson-linux-x64-${w.version}.tgz`, `caisson-mcp-${w.version}.tgz`,
					`caisson_mcp-${w.version}-py3-none-any.whl`, `caisson_mcp-${w.version}-py3-none-${tag.replace('x86_64', 'aarch64')}.whl`, `caisson_mcp-${w.version}-py3-none-${tag}.whl`]);
				const main = JSON.parse(must(['tar', '-xOf', path.join(out, `caisson-mcp-${w.version}.tgz`), 'package/package.json']));
				assert.deepEqual(main.optionalDependencies, { '@caisson/linux-x64': w.version, '@caisson/linux-arm64': w.version });
				const own = JSON.parse(must(['tar', '-xOf', path.join(out, `caisson-linux-arm64-${w.version}.tgz`), 'package/package.json']));
				assert.deepEqual([own.os, own.cpu, own.libc], [['linux'], ['arm64'], ['glibc']]);
			},
		},
		{
			name: 'a program that needs more than an old glibc is refused for other machines',
			async run() {
				const folder = scratch('not-portable');
				fs.mkdirSync(path.join(folder, 'bin'));
				fs.copyFileSync(process.env.CAISSON_TEST_BINARY ?? path.join(top, 'build/caisson'), path.join(folder, 'bin/caisson'));
				for (const kind of ['pypi', 'npm'] as const)
					assert.throws(() => packed(kind, ['--tree', folder, '--out', scratch('out')]), /is not portable: it needs lib/);
			},
		},
	];
}

function pythonCases(w: World): Case[] {
	return [
		{
			name: '(slow) pip, without an index: the client starts caisson-mcp, and the definitions of images are its own',
			async run() {
				const { home, env } = newcomer();
				await installs(['/usr/bin/python3', '-m', 'venv', `${home}/v`], env);
				await installs([`${home}/v/bin/pip`, 'install', '--quiet', '--no-index', '--find-links', w.wheels, 'caisson-mcp'], env);
				const c = client({ name: 'pip', argv: [`${home}/v/bin/caisson-mcp`] }, env);
				await firstRun(c);
				await ends(c);
				const build = await asNewcomer([`${home}/v/bin/caisson`, 'image', 'build', 'nosuch'], env);
				assert.match(MISSING_FOLDER.exec(build.stderr)?.[1] ?? build.stderr, new RegExp(`^${home}/v/lib/.*/caisson_mcp/share/caisson/images$`));
				assert.equal((await asNewcomer([`${home}/v/bin/caisson-mcp`, 'version'], env)).stdout.split(/\s/)[1], w.version);
				assert.equal((await asNewcomer([`${home}/v/bin/caisson-mcp`, 'run', '-c', 'import sys; sys.exit(7)'], env)).status, 7);
				await installs([`${home}/v/bin/pip`, 'uninstall', '--quiet', '--yes', 'caisson-mcp'], env);
				assert.deepEqual(fs.readdirSync(`${home}/v/bin`).filter((n) => n.startsWith('caisson')), []);
			},
		},
		{
			name: '(slow) uvx, without an index and without a network',
			async run() {
				const { home, env } = newcomer();
				const argv: [string, ...string[]] = [path.join(w.uv, 'uvx'), '--offline', '--no-index', '--find-links', w.wheels, '--python', '/usr/bin/python3', 'caisson-mcp'];
				const c = client({ name: 'uvx', argv }, env);
				await firstRun(c);
				await ends(c);
				const options = client({ name: 'uvx', argv }, env, ['--profile', 'code']);
				assert.equal((await options.initialize()).result.serverInfo.name, 'code_sandbox_mcp');
				await ends(options);
				await connects(argv, home, env, 'uvx', ['caisson-mcp']);
				await connects(argv, home, { ...env, UV_CACHE_DIR: `${home}/elsewhere` }, 'uvx', ['caisson-mcp']);
			},
		},
	];
}

function npmCases(w: World): Case[] {
	/** An empty home and the index for the duration of `body`. */
	async function withIndex(body: (env: Record<string, string>, home: string, index: NpmIndex) => Promise<void>, nodeFirst = false): Promise<void> {
		const index = await NpmIndex.start(w.archives);
		try {
			const { home, env } = newcomer();
			await body({ ...env, npm_config_registry: index.url, PATH: `${nodeFirst ? `${path.dirname(w.node)}:` : ''}${env.PATH}` }, home, index);
		} finally {
			index.stop();
		}
	}
	const ways = [['the Node of this machine', false], ['Node 22', true]] as const;
	return [
		...ways.map(([title, nodeFirst]): Case => ({
			name: `(slow) npx from an index on this machine, with ${title}`,
			run: () => withIndex(async (env, home, index) => {
				const c = client({ name: 'npx', argv: ['npx', '-y', 'caisson-mcp'] }, env);
				await firstRun(c);
				await ends(c);
				await connects(['npx', '-y', 'caisson-mcp'], home, env, 'npx', ['-y', 'caisson-mcp']);
				assert.ok(index.asked.includes('@caisson/linux-x64.tgz'), index.asked.join());
			}, nodeFirst),
		})),
		...ways.map(([title, nodeFirst]): Case => ({
			name: `(slow) npm install, with ${title}: exit status and signals pass through, and the definitions of images are its own`,
			run: () => withIndex(async (env, home) => {
				await installs(['npm', 'install', '--silent', '--ignore-scripts', 'caisson-mcp'], env);
				const command = `${home}/node_modules/.bin/caisson-mcp`;
				assert.equal((await asNewcomer([command, 'version'], env)).stdout.split(/\s/)[1], w.version);
				assert.equal((await asNewcomer([command, 'run', '-c', 'import sys; sys.exit(7)'], env)).status, 7);
				const build = (await asNewcomer([command, 'image', 'build', 'nosuch'], env));
				assert.equal(MISSING_FOLDER.exec(build.stderr)?.[1] ?? build.stderr, `${home}/node_modules/@caisson/linux-x64/share/caisson/images`);
				const program = `${home}/node_modules/@caisson/linux-x64/bin/caisson`;
				await connects([command], home, env, program, ['stdio']);
				for (const signal of ['SIGTERM', 'SIGINT', 'SIGKILL'] as const) // of the program itself, too
					assert.deepEqual(await endOf([command], signal, env), await endOf([program, 'stdio'], signal, env), signal);
			}, nodeFirst),
		})),
		{
			name: '(slow) a platform package that is missing is named, with the remedy',
			run: () => withIndex(async (env, home) => {
				await installs(['npm', 'install', '--silent', '--omit=optional', 'caisson-mcp'], env);
				const r = (await asNewcomer([`${home}/node_modules/.bin/caisson-mcp`], env));
				assert.equal(r.status, 1);
				assert.equal(r.stdout, '');
				assert.match(r.stderr, new RegExp(`^caisson-mcp: the package @caisson/linux-x64 is missing: .*npm install @caisson/linux-x64@${w.version}\n$`));
			}),
		},
	];
}

/** How the command, as a server, ends after a signal. All its processes must end. */
async function endOf(argv: [string, ...string[]], signal: NodeJS.Signals, env: Record<string, string>): Promise<unknown> {
	const c = client({ name: 'a server', argv }, env);
	await firstRun(c);
	const below = descendants(c.pid);
	assert.ok(below.length > 0);
	// A launcher cannot pass SIGKILL on; then the program below it is meant.
	const isLauncher = fs.readlinkSync(`/proc/${c.pid}/exe`).endsWith('/node');
	process.kill(isLauncher && signal === 'SIGKILL' ? below.find((p) => p.ppid === c.pid)!.pid : c.pid, signal);
	const r = await c.program.exit;
	await until('the end of all its processes', () => below.every((p) => !fs.existsSync(`/proc/${p.pid}`)));
	return [r.code, r.signal];
}

export function installCases(w: World, tree: string): Case[] {
	stateDir(); // made by root, for all
	return [...fileCases(w, tree), ...pythonCases(w), ...npmCases(w)];
}
