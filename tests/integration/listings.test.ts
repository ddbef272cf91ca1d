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
		onlyKeys(m, 'manifest_version name display_name version description author repository homepage license keywords server user_config tools_generated compatibility');
		assert.deepEqual([m.manifest_version, m.version, m.server.type], ['0.3', version, 'node']);
		assert.ok(m.author.name && fs.existsSync(path.join(folder, m.server.entry_point)));
		for (const [key, o] of Object.entries(m.user_config as Record<string, Json>)) {
			onlyKeys(o, 'type title description required default multiple sensitive min max');
			assert.ok(o.title && o.description && JSON.stringify(m.server.mcp_config).includes(`\${user_config.${key}}`), key);
		}
		const s = await serve({ profile: 'full', env: { SANDBOX_API_KEY: KEY } });
		const filled = JSON.parse(JSON.stringify(m.server.mcp_config).replaceAll('${__dirname}', folder).replaceAll('${user_config.url}', s.base).replaceAll('${user_config.key}', KEY)) as Json;
		const p = new Program(spawn(process.execPath, filled.args, { env: { PATH: process.env.PATH, HOME: out, ...filled.env }, stdio: ['pipe', 'pipe', 'pipe'] }));
		try {
			p.child.stdin!.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } } })}\n`);
			await until('the answer through the bridge', () => p.stdout.includes('"serverInfo"'));
		} finally {
			await p.end();
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
