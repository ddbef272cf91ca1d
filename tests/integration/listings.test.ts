// SPDX-License-Identifier: Apache-2.0
// What directories and clients are told about Caisson (packaging/listings): the rules of each format, and that it is true.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { before, describe, it } from 'node:test';
import { scratch, top } from '../lib/env.ts';
import { Program } from '../lib/process.ts';
import { facts, serve, using, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const read = (...name: string[]): string => fs.readFileSync(path.join(top, ...name), 'utf8');
const json = (...name: string[]): Json => JSON.parse(read(...name)) as Json;
const version = read('VERSION').trim(), name = read('packaging/registry-name').trim();
const KEY = '0123456789abcdef-key';

function build(args: string[], env: Record<string, string> = {}): string {
	return execFileSync(path.join(top, 'packaging/listings/build'), args, { encoding: 'utf8', env: { ...process.env, SOURCE_DATE_EPOCH: '1700000000', ...env } });
}

/** The keys of O are among those that the format has. */
function onlyKeys(o: Json, allowed: string): void {
	assert.deepEqual(Object.keys(o).filter((k) => !allowed.split(' ').includes(k)), []);
}

/** What TEXT says, in the part of YAML that packaging/listings/build writes: maps, lists, texts, and blocks that begin with |-. */
function yaml(text: string): Json {
	const lines = text.split('\n').filter((l) => l.trim() !== '' && !l.startsWith('#'));
	let at = 0;
	const depth = (): number => at < lines.length ? /^ */.exec(lines[at]!)![0].length : -1;
	const scalar = (t: string): string => t.startsWith('"') ? JSON.parse(t) as string : t;
	const block = (over: number): string => {
		const here = depth(), all: string[] = [];
		while (depth() > over)
			all.push(lines[at++]!.slice(here));
		return all.join('\n');
	};
	const value = (here: number): Json | string[] => {
		if (lines[at]!.trim().startsWith('- ')) {
			const all: (string | Json)[] = [];
			while (depth() === here && lines[at]!.trim().startsWith('- ')) {
				const rest = lines[at]!.trim().slice(2);
				if (/^[\w$]+:( |$)/.test(rest)) {
					lines[at] = `${' '.repeat(here + 2)}${rest}`;
					all.push(value(here + 2) as Json);
				} else {
					all.push(scalar(rest));
					at++;
				}
			}
			return all as string[];
		}
		const o: Json = {};
		while (depth() === here) {
			const [, key, rest] = /^([\w$]+):(?: (.*))?$/.exec(lines[at++]!.trim())!;
			assert.ok(!(key! in o), `${key} is there twice`);
			o[key!] = rest === '|-' ? block(here) : rest !== undefined ? scalar(rest) : value(depth());
		}
		return o;
	};
	const all = value(0);
	assert.equal(at, lines.length, `line ${at + 1}: ${lines[at]}`);
	return all as Json;
}

/** A bridge as ARGV starts it, with what it says to initialize and tools/list. */
async function toolsThrough(argv: string[], env: Record<string, string>): Promise<Json[]> {
	const p = new Program(spawn(argv[0]!, argv.slice(1), { env: { PATH: process.env.PATH, HOME: scratch('home'), ...env }, stdio: ['pipe', 'pipe', 'pipe'] }));
	const send = (o: Json): boolean => p.child.stdin!.write(`${JSON.stringify({ jsonrpc: '2.0', ...o })}\n`);
	const answer = async (id: number): Promise<Json> => {
		const found = (): string | undefined => p.stdout.split('\n').slice(0, -1).find((l) => l.includes(`"id":${id},`) || l.endsWith(`"id":${id}}`));
		await until(`the answer ${id} through ${argv.join(' ')}`, () => found() !== undefined);
		return JSON.parse(found()!) as Json;
	};
	try {
		send({ id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } } });
		await answer(1);
		send({ method: 'notifications/initialized' });
		send({ id: 2, method: 'tools/list' });
		return (await answer(2)).result.tools as Json[];
	} finally {
		await p.end();
	}
}

describe('the icon', () => {
	const png = fs.readFileSync(path.join(top, 'packaging/listings/icon.png'));
	it('is a picture of 512 pixels, drawn of that of the page as it is now', () => {
		assert.deepEqual([png.subarray(1, 4).toString(), png.readUInt32BE(16), png.readUInt32BE(20)], ['PNG', 512, 512]);
		assert.ok(png.length < 2_000_000);
		const digest = createHash('sha256').update(read('web/src/favicon.svg')).digest('hex');
		assert.ok(png.includes(`tEXtSource\0${digest}`), 'packaging/listings/make-icon, then packaging/listings/build --write');
	});
	it('is what MCP clients get from the server', async () => {
		await using('stdio', { profile: 'full' }, async (s) => {
			const { icons } = s.client.getServerVersion() as Json;
			assert.deepEqual(icons, [{ src: `data:image/svg+xml;base64,${Buffer.from(read('web/src/favicon.svg').trim()).toString('base64')}`, mimeType: 'image/svg+xml', sizes: ['any'] }]);
		});
	});
	it('is with both plugins', () => {
		for (const plugin of ['caisson', 'caisson-remote'])
			assert.ok(fs.readFileSync(path.join(top, 'plugins', plugin, '.claude-plugin/icon.png')).equals(png), `${plugin}: packaging/listings/build --write`);
	});
});

describe('the catalog of Docker', () => {
	let entry: Json, tools: Json[];
	before(() => {
		const folder = scratch('docker');
		build(['--out', folder]);
		entry = yaml(fs.readFileSync(path.join(folder, 'docker/caisson/server.yaml'), 'utf8'));
		tools = JSON.parse(fs.readFileSync(path.join(folder, 'docker/caisson/tools.json'), 'utf8')) as Json[];
	});
	it('the entry keeps the rules of its checker', () => {
		onlyKeys(entry, 'name image type meta about source config');
		assert.match(entry.name, /^[a-z0-9-]+$/);
		assert.deepEqual([entry.image, entry.type], [`mcp/${entry.name}`, 'server']);
		onlyKeys(entry.about, 'title description icon');
		assert.ok(!/MCP|Server/.test(entry.about.title) && /^[A-Z]/.test(entry.about.title));
		onlyKeys(entry.source, 'project commit dockerfile');
		assert.equal(entry.source.commit, execFileSync('git', ['-C', top, 'rev-parse', 'HEAD'], { encoding: 'utf8' }).trim());
		assert.equal(entry.source.project, `https://github.com/${name.replace('io.github.', '')}`);
		onlyKeys(entry.config, 'description secrets env parameters');
		const known = read('packaging/pypi/caisson_mcp/places.py');
		for (const secret of entry.config.secrets) {
			assert.match(secret.name, /^[A-Za-z0-9_-]+\.[A-Za-z0-9._-]+$/);
			assert.ok(known.includes(`'${secret.env}'`), secret.env);
		}
		for (const e of entry.config.env) {
			const [, parameter] = /^\{\{caisson\.(\w+)\}\}$/.exec(e.value)!;
			assert.ok(entry.config.parameters.properties[parameter!] && known.includes(`'${e.name}'`), e.name);
		}
	});
	it('its tools are those that the server has, through what the Dockerfile starts', async () => {
		const file = read(entry.source.dockerfile), root = scratch('container');
		for (const [, from, to] of file.matchAll(/^COPY (\S+) (\S+)$/gm))
			fs.cpSync(path.join(top, from!), path.join(root, to!), { recursive: true });
		const variables = Object.fromEntries([.../^ENV (.*)$/m.exec(file)![1]!.split(' ').map((v) => v.split('='))]) as Record<string, string>;
		assert.ok(variables.PYTHONPATH);
		const argv = JSON.parse(/^ENTRYPOINT (.*)$/m.exec(file)![1]!) as string[];
		const s = await serve({ profile: 'full', env: { SANDBOX_API_KEY: KEY } });
		try {
			const there = await toolsThrough(argv, { ...variables, PYTHONPATH: path.join(root, variables.PYTHONPATH), CAISSON_URL: `${s.base}/mcp`, CAISSON_KEY: KEY });
			const type = (p: Json): string => Array.isArray(p.type) ? p.type.find((t: string) => t !== 'null') : p.type ?? p.anyOf?.find((a: Json) => a.type !== 'null')?.type;
			const want = there.map((t) => ({ name: t.name as string, description: t.description as string,
				arguments: Object.entries((t.inputSchema.properties ?? {}) as Record<string, Json>).map(([n, p]) => ({ name: n, type: type(p), desc: p.description as string })) }));
			if (process.env.CAISSON_WRITE_PAGE === '1')
				fs.writeFileSync(path.join(top, 'packaging/listings/docker/tools.json'), `${JSON.stringify(want, null, 2)}\n`);
			assert.deepEqual(tools, want, 'CAISSON_WRITE_PAGE=1 tests/run --only listings writes packaging/listings/docker/tools.json');
			for (const t of want)
				for (const a of t.arguments)
					assert.ok(a.type && a.desc, `${t.name}: ${a.name}`);
		} finally {
			await s.program.end();
		}
	});
});

describe('Smithery', () => {
	it('its file starts the bridge with the settings of the person', async () => {
		const { startCommand: how } = yaml(read('smithery.yaml'));
		onlyKeys(how, 'type configSchema commandFunction exampleConfig');
		assert.equal(how.type, 'stdio');
		const { properties, required } = how.configSchema as Json;
		assert.deepEqual([Object.keys(how.exampleConfig), required], [Object.keys(properties), ['url']]);
		const command = (config: Json): Json => (new Function(`return (${how.commandFunction})`)() as (c: Json) => Json)(config); // eslint-disable-line @typescript-eslint/no-implied-eval
		assert.deepEqual(command({ url: 'u' }), { command: 'npx', args: ['-y', 'caisson-mcp', '--bridge'], env: { CAISSON_URL: 'u' } });
		const s = await serve({ profile: 'full', env: { SANDBOX_API_KEY: KEY } });
		try {
			const { args, env } = command({ url: `${s.base}/mcp`, key: KEY });
			const own = scratch('package'); // as npm unpacks it
			for (const part of ['bin', 'lib'])
				fs.cpSync(path.join(top, 'packaging/npm', part), path.join(own, part), { recursive: true });
			fs.writeFileSync(path.join(own, 'package.json'), JSON.stringify({ name: 'caisson-mcp', version, optionalDependencies: {} }));
			assert.ok((await toolsThrough([process.execPath, path.join(own, 'bin/caisson-mcp.js'), ...(args as string[]).slice(2)], env)).length > 10);
		} finally {
			await s.program.end();
		}
	});
});

describe('server.json', () => {
	let server: Json, folder: string;
	before(() => {
		folder = scratch('listings');
		build(['--out', folder]);
		server = JSON.parse(fs.readFileSync(path.join(folder, 'server.json'), 'utf8')) as Json;
	});
	it('keeps the rules of its schema', () => {
		onlyKeys(server, '$schema name title description version websiteUrl repository packages remotes icons _meta');
		assert.equal(server.$schema, 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json');
		assert.match(server.name, /^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/);
		assert.ok(server.name.length >= 3 && server.name.length <= 200);
		for (const [text, most] of [[server.description, 100], [server.title, 100], [server.version, 255]] as const)
			assert.ok(text.length >= 1 && text.length <= most, text);
		assert.match(server.version, /^\d+\.\d+\.\d+(-[\w.]+)?$/);
		assert.equal(server.repository.source, 'github');
		for (const icon of server.icons as Json[]) {
			onlyKeys(icon, 'src mimeType sizes theme');
			assert.ok(icon.src.length <= 255);
			const [, file] = new RegExp(`^https://raw\\.githubusercontent\\.com/${name.replace('io.github.', '')}/v${version.replaceAll('.', '\\.')}/(.*)$`).exec(icon.src)!;
			assert.deepEqual([icon.mimeType, icon.sizes, fs.existsSync(path.join(top, file!))], ['image/png', ['512x512'], true]);
		}
		const input = (o: Json): void => {
			onlyKeys(o, 'name description isRequired isSecret format default placeholder choices value variables');
			for (const inner of Object.values(o.variables ?? {}) as Json[])
				onlyKeys(inner, 'description isRequired isSecret format default placeholder choices value');
			for (const used of (o.value ?? '').matchAll(/\{(\w+)\}/g))
				assert.ok(o.variables[used[1]!], `the variable ${used[1]}`);
		};
		for (const p of server.packages as Json[]) {
			onlyKeys(p, 'registryType identifier version transport runtimeHint environmentVariables fileSha256');
			assert.deepEqual(p.transport, { type: 'stdio' });
			assert.equal(p.version, p.registryType === 'mcpb' ? undefined : version);
			for (const v of p.environmentVariables ?? []) {
				assert.ok(v.name);
				input(v);
			}
		}
		for (const r of server.remotes as Json[]) {
			onlyKeys(r, 'type url variables headers');
			assert.equal(r.type, 'streamable-http');
			assert.match(r.url, /^https:\/\//);
			input({ value: r.url, variables: r.variables });
			r.headers.forEach(input);
		}
	});
	it('is of one name and version with the packages, and the bundle is the file', () => {
		assert.deepEqual([server.name, server.version], [name, version]);
		assert.equal(`${server.repository.url}`, `https://github.com/${name.replace('io.github.', '')}`);
		const of = (type: string): Json => (server.packages as Json[]).find((p) => p.registryType === type)!;
		assert.deepEqual([of('pypi').identifier, of('npm').identifier], ['caisson-mcp', 'caisson-mcp']);
		const [bundle] = fs.readdirSync(folder).filter((n) => n.endsWith('.mcpb'));
		assert.equal(of('mcpb').identifier, `${server.repository.url}/releases/download/v${version}/${bundle}`);
		assert.equal(of('mcpb').fileSha256, createHash('sha256').update(fs.readFileSync(path.join(folder, bundle!))).digest('hex'));
		const known = read('packaging/npm/lib/places.js');
		for (const v of of('npm').environmentVariables)
			assert.ok(known.includes(v.name), v.name);
	});
});

describe('MCPB bundle', () => {
	it('is the same, byte for byte, whatever the folder, the time zone and the umask', () => {
		const one = scratch('one'), two = scratch('two-with-a-longer-name');
		const mask = process.umask(0o077);
		try {
			build(['--out', one], { TZ: 'Asia/Tokyo' });
		} finally {
			process.umask(mask);
		}
		build(['--out', two], { TZ: 'UTC' });
		execFileSync('diff', ['-r', one, two]);
	});
	it('has a manifest by the rules, and its bridge reaches a server', async () => {
		const out = scratch('bundle'), folder = path.join(out, 'unpacked');
		build(['--out', out]);
		execFileSync('python3', ['-m', 'zipfile', '-e', path.join(out, `caisson-mcp-${version}.mcpb`), folder]);
		const m = JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json'), 'utf8')) as Json;
		onlyKeys(m, 'manifest_version name display_name icon version description author repository homepage license keywords server user_config tools_generated compatibility');
		assert.deepEqual([m.manifest_version, m.version, m.server.type], ['0.3', version, 'node']);
		assert.ok(m.author.name && fs.existsSync(path.join(folder, m.server.entry_point)));
		assert.ok(fs.readFileSync(path.join(folder, m.icon)).equals(fs.readFileSync(path.join(top, 'packaging/listings/icon.png'))));
		for (const [key, o] of Object.entries(m.user_config as Record<string, Json>)) {
			onlyKeys(o, 'type title description required default multiple sensitive min max');
			assert.ok(o.title && o.description && JSON.stringify(m.server.mcp_config).includes(`\${user_config.${key}}`), key);
		}
		const s = await serve({ profile: 'full', env: { SANDBOX_API_KEY: KEY } });
		const filled = JSON.parse(JSON.stringify(m.server.mcp_config).replaceAll('${__dirname}', folder).replaceAll('${user_config.url}', s.base).replaceAll('${user_config.key}', KEY)) as Json;
		try {
			assert.ok((await toolsThrough([process.execPath, ...filled.args as string[]], filled.env as Record<string, string>)).length > 10);
		} finally {
			await s.program.end();
		}
	});
});

describe('Claude Code', () => {
	const market = json('.claude-plugin/marketplace.json');
	it('files that packaging/listings/build --write makes are as it would make them', () => {
		for (const [file, text] of Object.entries(JSON.parse(build(['--show'])) as Record<string, string>))
			assert.equal(read(file), text, `${file}: packaging/listings/build --write`);
	});
	it('the marketplace has two plugins, each by the rules', () => {
		onlyKeys(market, 'name description owner plugins');
		assert.deepEqual((market.plugins as Json[]).map((p) => p.name), ['caisson', 'caisson-remote']);
		for (const p of market.plugins as Json[]) {
			assert.match(p.name, /^[a-z0-9]+(-[a-z0-9]+)*$/);
			assert.equal(p.source, `./plugins/${p.name}`);
			const own = json(p.source, '.claude-plugin/plugin.json');
			onlyKeys(own, 'name version description author homepage repository license keywords mcpServers userConfig');
			assert.deepEqual([own.name, own.version], [p.name, version]);
			for (const [key, o] of Object.entries((own.userConfig ?? {}) as Record<string, Json>)) {
				onlyKeys(o, 'type title description required default multiple sensitive min max');
				assert.ok(JSON.stringify(own.mcpServers).includes(`\${user_config.${key}}`), key);
			}
			const page = read(p.source, 'README.md');
			assert.ok(page.split(/\s+/).length >= 40 && page.includes(`\n/plugin install ${p.name} --marketplace ${name.replace('io.github.', '')}\n`), page);
		}
	});
	it('the skill is by the rules, and the same in both', () => {
		const text = read('plugins/caisson/skills/run-code/SKILL.md');
		const [, head] = /^---\n([^]*?)\n---\n/.exec(text)!;
		const fields = Object.fromEntries(head!.split('\n').map((l) => l.split(/: (.*)/s).slice(0, 2))) as Record<string, string>;
		assert.deepEqual(Object.keys(fields), ['name', 'description', 'license']);
		assert.equal(fields.name, 'run-code');
		assert.ok(fields.description!.length <= 1024 && text.split('\n').length < 500);
		assert.equal(read('plugins/caisson-remote/skills/run-code/SKILL.md'), text);
	});
	it('what the skill says of the tools is true', async () => {
		const text = read('plugins/caisson/skills/run-code/SKILL.md');
		await using('stdio', { profile: 'full' }, async (s) => {
			const { tools } = await s.client.listTools();
			const named = new Set([...text.matchAll(/`(sandbox_\w+)`/g)].map((m) => m[1]!));
			assert.ok(named.size >= 12, `${named.size} tools`);
			for (const tool of named)
				assert.ok(tools.some((t) => t.name === tool), tool);
			const call = async (tool: string, args: Json): Promise<Json> => facts(await s.raw(tool, args));
			const example = JSON.parse(/```json\n(.*)\n```/.exec(text)![1]!) as Json;
			const first = await call('sandbox_run_python', example);
			assert.deepEqual([first.exit_code, /\b6\b/.test(JSON.stringify(first.value ?? first.result ?? first))], [0, true], JSON.stringify(first));
			const other = await call('sandbox_run_python', { code: 'import os; print(os.listdir())' });
			assert.notEqual(other.session_id, first.session_id, 'without a session_id each call has a new one');
			assert.equal(other.stdout, '[]\n');
			assert.equal((await call('sandbox_run_python', { code: 'import os; print(os.listdir())', session_id: first.session_id })).stdout, "['table.csv']\n");
			await call('sandbox_process', { action: 'start', command: 'exec sleep 300', session_id: 'last' });
			assert.match(JSON.stringify(await call('sandbox_checkpoint', { name: 'a', session_id: 'last' })), /session_busy/);
		});
	});
});

describe('buttons', () => {
	const [, cursor, code, insiders] = /<!-- buttons.*?-->\n(.*)\n(.*)\n(.*)\n<!-- end of buttons -->/.exec(read('docs/clients.md'))!;
	const wanted = { command: 'uvx', args: ['caisson-mcp'] };
	const link = (line: string): URL => new URL(/^\[!\[[^\]]+\]\(https:\/\/[^)\s]+\)\]\((https:[^)\s]+)\)$/.exec(line)![1]!);
	it('Cursor reads its own', () => {
		const url = link(cursor!);
		assert.equal(`${url.origin}${url.pathname}`, 'https://cursor.com/en/install-mcp');
		assert.equal(url.searchParams.get('name'), 'caisson');
		assert.doesNotMatch(url.search.split('config=')[1]!, /[+/=]/, 'escaped, or a reader takes + for a blank');
		assert.deepEqual(JSON.parse(Buffer.from(url.searchParams.get('config')!, 'base64').toString()), wanted);
	});
	it('VS Code and its Insiders read theirs', () => {
		for (const [line, quality] of [[code!, null], [insiders!, 'insiders']] as const) {
			const url = link(line);
			assert.equal(`${url.origin}${url.pathname}`, 'https://insiders.vscode.dev/redirect/mcp/install');
			assert.deepEqual([url.searchParams.get('name'), url.searchParams.get('quality')], ['caisson', quality]);
			assert.deepEqual(JSON.parse(url.searchParams.get('config')!), wanted);
		}
	});
});
