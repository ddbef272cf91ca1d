// SPDX-License-Identifier: Apache-2.0
// `caisson connect` in a home of its own: what it writes for each client, and that nothing of the user's is lost.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { PLAIN_UID, asProductUser, binary, mode, openCopy, productEnv, productUid, scratch } from '../lib/env.ts';
import { Program, caisson, start, type Exit } from '../lib/process.ts';
import { until } from '../lib/wait.ts';

/** Every client: the folder that shows it, its file, and the entry without a server elsewhere. */
const clients: Record<string, [folder: string, file: string, entry: (command: string) => unknown]> = {
	'claude-code': ['.claude', '.claude.json', (command) => ({ mcpServers: { caisson: { type: 'stdio', command, args: ['stdio'] } } })],
	'claude-desktop': ['.config/Claude', '.config/Claude/claude_desktop_config.json', (command) => ({ mcpServers: { caisson: { command, args: ['stdio'] } } })],
	'cursor': ['.cursor', '.cursor/mcp.json', (command) => ({ mcpServers: { caisson: { type: 'stdio', command, args: ['stdio'] } } })],
	'vscode': ['.config/Code', '.config/Code/User/mcp.json', (command) => ({ servers: { caisson: { type: 'stdio', command, args: ['stdio'] } } })],
	'vscode-insiders': ['.config/Code - Insiders', '.config/Code - Insiders/User/mcp.json', (command) => ({ servers: { caisson: { type: 'stdio', command, args: ['stdio'] } } })],
	'windsurf': ['.codeium/windsurf', '.codeium/windsurf/mcp_config.json', (command) => ({ mcpServers: { caisson: { command, args: ['stdio'] } } })],
	'zed': ['.config/zed', '.config/zed/settings.json', (command) => ({ context_servers: { caisson: { source: 'custom', command, args: ['stdio'] } } })],
	'gemini': ['.gemini', '.gemini/settings.json', (command) => ({ mcpServers: { caisson: { command, args: ['stdio'] } } })],
	'codex': ['.codex', '.codex/config.toml', (command) => `[mcp_servers.caisson]\ncommand = "${command}"\nargs = ["stdio"]\n`],
	'opencode': ['.config/opencode', '.config/opencode/opencode.json', (command) => ({ mcp: { caisson: { type: 'local', command: [command, 'stdio'] } } })],
	'lmstudio': ['.lmstudio', '.lmstudio/mcp.json', (command) => ({ mcpServers: { caisson: { command, args: ['stdio'] } } })],
};

const own = (file: string): void => fs.chownSync(file, productUid, productUid);

/** A home with the folders, and the files if they have a text. */
function home(files: Record<string, string | undefined> = {}): string {
	const dir = scratch('home');
	for (const [name, text] of Object.entries(files)) {
		const file = path.join(dir, name);
		const folder = text === undefined ? file : path.dirname(file);
		fs.mkdirSync(folder, { recursive: true });
		for (let at = folder; at.length > dir.length; at = path.dirname(at))
			own(at);
		if (text !== undefined) {
			fs.writeFileSync(file, text);
			own(file);
		}
	}
	return dir;
}

const connect = (dir: string, args: string[], env: Record<string, string | undefined> = {}): Promise<Exit> => caisson(['connect', ...args], { env: { HOME: dir, ...env }, input: '' });

async function ok(dir: string, args: string[], env: Record<string, string | undefined> = {}): Promise<string> {
	const r = await connect(dir, args, env);
	assert.deepEqual([r.code, r.stderr.toString()], [0, ''], r.stdout.toString());
	return r.stdout.toString();
}

async function refused(dir: string, args: string[], said: RegExp, env: Record<string, string | undefined> = {}): Promise<void> {
	const r = await connect(dir, args, env);
	assert.match(r.stderr.toString(), said);
	assert.ok(r.code !== 0 && r.signal === null, `${r.code} ${r.signal}`);
}

/** Every file below DIR with its bytes. */
function files(dir: string): Record<string, string> {
	const names = (fs.readdirSync(dir, { recursive: true }) as string[]).filter((n) => fs.statSync(path.join(dir, n)).isFile() && !n.startsWith('sandbox.log'));
	return Object.fromEntries(names.sort().map((n) => [n, fs.readFileSync(path.join(dir, n), 'utf8')]));
}

const read = (dir: string, name: string): string => fs.readFileSync(path.join(dir, name), 'utf8');

/** The program at a terminal. */
function atTerminal(dir: string, args: string[]): Program {
	const words = asProductUser([binary, 'connect', ...args]).map((w) => `'${w}'`).join(' ');
	return new Program(spawn('script', ['-qefc', words, '/dev/null'], { env: productEnv({ HOME: dir }), stdio: ['pipe', 'pipe', 'pipe'] }));
}

describe('caisson connect', () => {
	it('lists the clients that are here, and writes nothing', async () => {
		const dir = home({ '.cursor': undefined, '.gemini/settings.json': '{"mcpServers": {"caisson": {"command": "other"}}}', '.config/zed/settings.json': '{' });
		const before = files(dir);
		const said = await ok(dir, []);
		assert.match(said, /^ +cursor +not connected +\S+\/\.cursor\/mcp\.json$/m);
		assert.match(said, /^ +gemini +another server has the name/m);
		assert.match(said, /^ +zed +cannot be read or edited/m);
		assert.doesNotMatch(said, /codex|lmstudio/);
		assert.deepEqual(files(dir), before);
		assert.match(await ok(home(), []), /No client.*It knows claude-code, .*, codex, /);
	});
	for (const [name, [folder, file, entry]] of Object.entries(clients))
		it(`${name}: the entry, which is undone to the byte`, async () => {
			const dir = home({ [folder]: undefined });
			await ok(dir, ['all', '--yes']);
			const want = entry(fs.realpathSync(binary));
			assert.deepEqual(typeof want === 'string' ? read(dir, file) : JSON.parse(read(dir, file)), want);
			assert.equal(fs.statSync(path.join(dir, file)).mode & 0o7777, 0o600);
			assert.deepEqual(Object.keys(files(dir)).sort(), [file, `${file}.caisson-backup`].sort());
			assert.match(await ok(dir, []), new RegExp(`^ +${name} +connected `, 'm'));
			assert.match(await ok(dir, ['all', '--yes']), /says so already/);
			await ok(dir, ['--undo', '--yes']);
			assert.deepEqual(files(dir), {});
			assert.match(await ok(dir, ['--undo', '--yes']), /nothing to take out/);
		});
	it('what is written starts Caisson', async () => {
		const dir = home({ '.cursor': undefined });
		await ok(dir, ['cursor', '--yes']);
		const { command, args } = JSON.parse(read(dir, '.cursor/mcp.json')).mcpServers.caisson as { command: string; args: string[] };
		const p = start(args, { program: command, keepInput: true });
		try {
			p.child.stdin!.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } } })}\n`);
			await until('the answer', () => p.stdout.includes('"serverInfo"'));
		} finally {
			await p.end();
		}
	});
	it('comments, order, mode and a symbolic link stay', async () => {
		const text = '// mine\n{\n\t"theme": "One", // dark\n\t"list": [1, 2,],\n}\n';
		const dir = home({ 'dotfiles/zed.json': text, '.config/zed': undefined });
		fs.chmodSync(path.join(dir, 'dotfiles/zed.json'), 0o640);
		fs.symlinkSync('../../dotfiles/zed.json', path.join(dir, '.config/zed/settings.json'));
		await ok(dir, ['zed', '--yes']);
		const now = read(dir, 'dotfiles/zed.json');
		assert.ok(now.startsWith(text.slice(0, -2)) && now.endsWith('\t},\n}\n'), now);
		assert.equal(fs.statSync(path.join(dir, 'dotfiles/zed.json')).mode & 0o7777, 0o640);
		assert.ok(fs.lstatSync(path.join(dir, '.config/zed/settings.json')).isSymbolicLink());
		assert.equal(read(dir, 'dotfiles/zed.json.caisson-backup'), text);
		await ok(dir, ['zed', '--undo', '--yes']);
		assert.deepEqual([read(dir, 'dotfiles/zed.json'), fs.existsSync(path.join(dir, 'dotfiles/zed.json.caisson-backup'))], [text, false]);
	});
	it('undo keeps what was changed since', async () => {
		const dir = home({ '.gemini/settings.json': '{\n  "a": 1\n}\n' });
		await ok(dir, ['gemini', '--yes']);
		fs.writeFileSync(path.join(dir, '.gemini/settings.json'), read(dir, '.gemini/settings.json').replace('"a": 1', '"a": 2'));
		await ok(dir, ['gemini', '--undo', '--yes']);
		assert.deepEqual(JSON.parse(read(dir, '.gemini/settings.json')), { a: 2, mcpServers: {} });
	});
	it('without a terminal it needs --yes; --dry-run only shows', async () => {
		const dir = home({ '.codex/config.toml': 'model = "o3"\n' }), before = files(dir);
		await refused(dir, ['codex'], /no terminal to ask on; --yes/);
		const said = await ok(dir, ['codex', '--dry-run']);
		assert.match(said, /^ {2}\+ \[mcp_servers\.caisson\]\n {2}\+ command = "/m);
		assert.doesNotMatch(said, /^ {2}-/m);
		assert.deepEqual(files(dir), before);
	});
	it('at a terminal it asks', async () => {
		const dir = home({ '.cursor': undefined });
		for (const [answer, there] of [['n', false], ['', false], ['y', true]] as const) {
			const p = atTerminal(dir, ['cursor']);
			await until('the question', () => p.stdout.includes('[y/N]'));
			p.child.stdin!.end(`${answer}\n`);
			assert.equal((await p.exit).code, 0, p.stdout);
			assert.equal(fs.existsSync(path.join(dir, '.cursor/mcp.json')), there, answer);
		}
	});
	it('a file that another program changes meanwhile is left to it', async () => {
		const dir = home({ '.cursor/mcp.json': '{}' }), file = path.join(dir, '.cursor/mcp.json');
		const p = atTerminal(dir, ['cursor']);
		await until('the question', () => p.stdout.includes('[y/N]'));
		fs.writeFileSync(file, '{"theirs": true}');
		p.child.stdin!.end('y\n');
		assert.notEqual((await p.exit).code, 0);
		assert.match(p.stdout, /changed by another program/);
		assert.deepEqual(files(dir), { '.cursor/mcp.json': '{"theirs": true}' });
	});
	it('a file that it cannot understand is left alone, with what to paste; the others are written', async () => {
		const dir = home({ '.cursor/mcp.json': '{"mcpServers": {', '.codex/config.toml': 'mcp_servers = {}\n', '.gemini': undefined });
		const r = await connect(dir, ['all', '--yes']);
		assert.equal(r.code, 78, r.stderr.toString());
		assert.match(r.stderr.toString(), /add this to \S+\/mcp\.json:\n\{\n {2}"mcpServers": \{/);
		assert.match(r.stderr.toString(), /add this to \S+\/config\.toml:\n\[mcp_servers\.caisson\]\ncommand = /);
		assert.deepEqual([read(dir, '.cursor/mcp.json'), read(dir, '.codex/config.toml')], ['{"mcpServers": {', 'mcp_servers = {}\n']);
		assert.ok(fs.existsSync(path.join(dir, '.gemini/settings.json')));
	});
	it('another server of the name is only replaced with --replace, and undo brings it back', async () => {
		const text = '{"mcpServers": {"caisson": {"command": "theirs"}}, "b": 1}\n';
		const dir = home({ '.gemini/settings.json': text });
		await refused(dir, ['gemini', '--yes'], /another server named 'caisson'; give --replace/);
		assert.equal(read(dir, '.gemini/settings.json'), text);
		assert.match(await ok(dir, ['gemini', '--yes', '--replace']), /Another server has this name/);
		await ok(dir, ['gemini', '--undo', '--yes']);
		assert.equal(read(dir, '.gemini/settings.json'), text);
		await ok(dir, ['--undo', '--yes']);
		assert.equal(read(dir, '.gemini/settings.json'), text, 'what is not ours is nobody\'s to undo');
		await ok(dir, ['gemini', '--name', 'box', '--yes']);
		assert.deepEqual(Object.keys(JSON.parse(read(dir, '.gemini/settings.json')).mcpServers), ['caisson', 'box']);
	});
	it('the newest entry counts, and undo goes back to before the first', async () => {
		const dir = home({ '.gemini/settings.json': '{}\n' });
		await ok(dir, ['gemini', '--yes']);
		await ok(dir, ['gemini', '--yes', '--url', 'https://box.example.org']);
		assert.deepEqual(JSON.parse(read(dir, '.gemini/settings.json')), { mcpServers: { caisson: { httpUrl: 'https://box.example.org/mcp' } } });
		await ok(dir, ['gemini', '--undo', '--yes']);
		assert.deepEqual(files(dir), { '.gemini/settings.json': '{}\n' });
	});
	it('a key is written only where no variable is read, and never shown', async () => {
		const args = ['--url', 'http://127.0.0.1:8181', '--key-from-env', 'BOX_KEY', '--yes'], key = 's3cret-of-the-box', env = { BOX_KEY: key };
		const here = Object.fromEntries(Object.values(clients).filter(([folder]) => !folder.endsWith('Claude')).map(([folder]) => [folder, undefined]));
		const dir = home(here);
		assert.doesNotMatch(await ok(dir, ['all', ...args], env), /s3cret/);
		const plain = Object.entries(files(dir)).filter(([, text]) => text.includes(key)).map(([name]) => name);
		assert.deepEqual(plain, ['.config/zed/settings.json', '.lmstudio/mcp.json']);
		assert.equal(JSON.parse(read(dir, '.claude.json')).mcpServers.caisson.headers.Authorization, 'Bearer ${BOX_KEY}');
		assert.match(read(dir, '.codex/config.toml'), /^bearer_token_env_var = "BOX_KEY"$/m);
		await refused(home({ '.lmstudio': undefined }), ['lmstudio', ...args], /BOX_KEY is not set/);
		await ok(home({ '.cursor': undefined }), ['cursor', ...args]);
		const open = home({ '.lmstudio/mcp.json': '{}' });
		await refused(open, ['lmstudio', ...args], /others may read/, env);
		assert.deepEqual(files(open), { '.lmstudio/mcp.json': '{}' });
		await refused(home({ '.config/Claude': undefined }), ['claude-desktop', ...args], /takes no server by URL/, env);
	});
	it('the environment says where files are', async () => {
		const dir = home({ 'c': undefined, 'x/zed': undefined, 'd': undefined, '.codex': undefined });
		const env = { CLAUDE_CONFIG_DIR: path.join(dir, 'c'), XDG_CONFIG_HOME: path.join(dir, 'x'), CODEX_HOME: path.join(dir, 'd') };
		await ok(dir, ['all', '--yes'], env);
		assert.deepEqual(Object.keys(files(dir)).filter((n) => !n.endsWith('backup')), ['c/.claude.json', 'd/config.toml', 'x/zed/settings.json']);
		await refused(dir, ['zed', '--yes'], /HOME names no folder/, { HOME: undefined });
	});
	for (const [folder, command, args] of [['archive-v0', 'uvx', ['caisson-mcp']], ['_npx', 'npx', ['-y', 'caisson-mcp']]] as const)
		it(`started by ${command}, which may empty its cache, it writes ${command}`, async () => {
			const dir = home({ [`cache/${folder}/a1b2`]: undefined, '.cursor': undefined });
			const program = openCopy(binary, path.join(dir, 'cache', folder, 'a1b2'));
			const r = await caisson(['connect', 'cursor', '--yes'], { env: { HOME: dir }, program, input: '' });
			assert.equal(r.code, 0, r.stderr.toString());
			assert.deepEqual(JSON.parse(read(dir, '.cursor/mcp.json')).mcpServers.caisson, { type: 'stdio', command, args });
		});
	it('files of another user are refused', { skip: process.getuid!() !== 0 && 'only root can give a file away' }, async () => {
		const dir = home({ '.cursor': undefined, '.gemini/settings.json': '{}' }), other = mode === 'root' ? PLAIN_UID : 0;
		for (const name of ['.cursor', '.gemini/settings.json'])
			fs.chownSync(path.join(dir, name), other, other);
		for (const client of ['cursor', 'gemini'])
			await refused(dir, [client, '--yes'], new RegExp(`belongs to .* \\(uid ${other}\\)`));
		assert.deepEqual(files(dir), { '.gemini/settings.json': '{}' });
	});
	it('with sudo it says whose files they are', { skip: mode !== 'root' && 'sudo makes root' }, async () => {
		assert.match(await ok(home({ '.cursor': undefined }), ['cursor', '--yes'], { SUDO_USER: 'ada' }), /for root \(\S+\), not for ada/);
	});
	it('wrong words', async () => {
		const dir = home({ '.cursor': undefined });
		for (const [args, said] of [
			[['curser'], /'curser' is no client.*did you mean 'cursor'/],
			[['cursor', '--ur', 'x'], /unknown option '--ur'; did you mean '--url'/],
			[['cursor', '--url'], /--url needs a value/],
			[['cursor', '--url', 'box.example.org'], /no address of a server/],
			[['cursor', '--url', 'http://user:word@box'], /no address of a server/],
			[['cursor', '--url', 'http://box/${HOME}'], /no address of a server/],
			[['cursor', '--url', 'http://box', '--key-from-env', 'sk-live-1'], /takes the name of a variable/],
			[['cursor', '--key-from-env', 'KEY'], /--key-from-env is for a server by --url/],
			[['cursor', '--name', 'a.b'], /a name has letters/],
			[['cursor', '--undo', '--url', 'http://box'], /--undo takes no --url/],
		] as const)
			await refused(dir, [...args, '--yes'], said);
		assert.deepEqual(files(dir), {});
	});
});
