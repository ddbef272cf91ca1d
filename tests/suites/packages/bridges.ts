// SPDX-License-Identifier: Apache-2.0
// Both bridges against a running server with a key: what a client sees is what it would see of `caisson stdio`, whatever happens to
// the server and the wire.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import * as v2 from '@modelcontextprotocol/client';
import { StdioClientTransport as Stdio2 } from '@modelcontextprotocol/client/stdio';
import { asProductUser, binary, freePort, openCopy, scratch } from '../../lib/env.ts';
import { start, type Program } from '../../lib/process.ts';
import type { RawClient } from '../../lib/raw.ts';
import type { Json } from '../../lib/session.ts';
import { until, within } from '../../lib/wait.ts';
import { Wire } from './stub.ts';
import { client, ends, firstRun, newcomer, type Case, type Launcher, type World } from './world.ts';

const KEY = '0123456789abcdef-key';
const MODERN = '2026-07-28';

const call = (code: string, more: Json = {}, _meta?: Json): Json => ({ name: 'sandbox_run_python', arguments: { code, ...more }, ...(_meta ? { _meta } : {}) });
const textOf = (r: Json): string => r.result?.content?.[0]?.text ?? JSON.stringify(r);

interface Server {
	program: Program;
	port: number;
	base: string;
}

/** A server with a key. */
async function server(port?: number, profile = 'full', extra: Record<string, string> = {}): Promise<Server> {
	const at = port ?? await freePort(), base = `http://127.0.0.1:${at}`;
	const program = start(['serve', '--listen', `127.0.0.1:${at}`, '--profile', profile], { env: { SANDBOX_API_KEY: KEY, SANDBOX_IMAGE: 'base', SANDBOX_HTTP_PORT: '0', ...extra } });
	await until(`the server on port ${at}`, () => {
		assert.equal(program.child.exitCode, null, program.stderr);
		return fetch(`${base}/healthz`).then((r) => r.ok, () => false);
	});
	return { program, port: at, base };
}

function bridge(l: Launcher, url: string, env: Record<string, string> = {}): RawClient {
	return client(l, { ...newcomer().env, CAISSON_BRIDGE: '1', CAISSON_URL: url, CAISSON_KEY: KEY, ...env });
}

/** A bridge to a server of the case's own, for the duration of `body`. */
async function withOwn(l: Launcher, body: (c: RawClient, s: Server) => Promise<void>, profile = 'full', extra: Record<string, string> = {}): Promise<void> {
	const s = await server(undefined, profile, extra);
	const c = bridge(l, s.base);
	try {
		await body(c, s);
	} finally {
		await c.end();
		await s.program.end();
	}
}

/** How many runs of the server were cancelled. */
async function cancelled(base: string): Promise<number> {
	const text = await (await fetch(`${base}/metrics`, { headers: { authorization: `Bearer ${KEY}` } })).text();
	return Number(/^caisson_runs_total\{reason="cancelled"\} (\d+)$/m.exec(text)![1]);
}

type Body = (c: RawClient, base: string) => Promise<void>;

/** Sends a run that lasts, and waits until it is under way. */
async function begins(c: RawClient, id: string): Promise<void> {
	await c.sendJson({ jsonrpc: '2.0', id, method: 'tools/call', params: call('import time; print("on", flush=True); time.sleep(500)', { timeout_s: 600 }, { progressToken: 'p' }) });
	await until('the run', () => c.messages().some((m) => m.method === 'notifications/progress' && String(m.params.message).includes('on')));
}

/** What needs nothing but a server that works. */
const common: [name: string, body: Body][] = [
	['initialize, tools/list and a run; the end of the input ends it', async (c) => {
		await firstRun(c);
		await ends(c);
		assert.match(c.program.stderr, /^caisson-mcp: this is a bridge to http:\/\/127\.0\.0\.1:\d+\/mcp\n$/);
	}],
	['ids come back as they were written', async (c) => {
		await c.initialize();
		for (const id of ['1.0', '18446744073709551616', '"é\\u00e9 \\"}"', '-1e3'])
			await c.send(`{"params":{"id":5,"x":"\\\\\\"id\\":7"},"jsonrpc":"2.0","method":"nosuch","id":${id}}\n`);
		await until('four answers', () => c.lines.filter((m) => m.includes('"error"')).length === 4);
		const ids = c.lines.filter((m) => m.includes('"error"')).map((m) => /"id":("(?:[^"\\]|\\.)*"|[^,}]*)/.exec(m)![1]!.replace('\\u00e9', 'é'));
		assert.deepEqual(ids.sort(), ['"éé \\"}"', '-1e3', '1.0', '18446744073709551616']);
	}],
	['progress comes before the answer', async (c) => {
		await c.initialize();
		const r = await c.request('tools/call', call('import time\nfor i in range(5):\n  print(i, flush=True); time.sleep(.2)', {}, { progressToken: 'p' }));
		assert.match(textOf(r), /^0\n1\n2\n3\n4\n/);
		const messages = c.messages(), answer = messages.findIndex((m) => m.id === r.id);
		assert.ok(messages.slice(0, answer).some((m) => m.method === 'notifications/progress' && m.params.progressToken === 'p'));
	}],
	['a run is cancelled', async (c, base) => {
		await c.initialize();
		const before = await cancelled(base);
		await begins(c, 'long');
		await c.sendJson({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'long' } });
		await until('the end of the run', async () => await cancelled(base) === before + 1);
		assert.match(textOf(await c.request('tools/call', call('print("next")'))), /^next/);
		await ends(c);
		assert.ok(!c.messages().some((m) => m.id === 'long'));
	}],
	['a request is cancelled as soon as it is sent', async (c) => {
		await c.initialize();
		for (let i = 0; i < 10; i++)
			await c.send(`${JSON.stringify({ jsonrpc: '2.0', id: `s${i}`, method: 'tools/call', params: call('import time; time.sleep(500)', { timeout_s: 600 }) })}\n`
				+ `${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: `s${i}` } })}\n`);
		await c.alive();
		await ends(c); // none is waited for
		assert.doesNotMatch(c.program.stderr, /took longer/);
	}],
	['what is no JSON has an answer', async (c) => {
		await c.initialize();
		await c.send('{"jsonrpc":\n');
		assert.ok((await c.answer(null)).error);
		await c.alive();
	}],
	['(slow) an answer that is under way at the end of the input still comes', async (c) => {
		await c.initialize();
		await c.sendJson({ jsonrpc: '2.0', id: 'late', method: 'tools/call', params: call('import time; time.sleep(1); print("done")') });
		await ends(c);
		assert.match(textOf(c.messages().find((m) => m.id === 'late')!), /^done/);
	}],
	['(slow) a run that takes too long after the end of the input is left', async (c, base) => {
		await c.initialize();
		const before = await cancelled(base);
		await begins(c, 'long');
		await ends(c);
		assert.match(c.program.stderr, /the input ended, and 1 calls took longer than 5 s/);
		await until('the end of the run', async () => await cancelled(base) === before + 1);
	}],
	['SIGTERM ends it, and the run', async (c, base) => {
		await c.initialize();
		const before = await cancelled(base);
		await begins(c, 'long');
		c.program.kill('SIGTERM');
		assert.equal((await c.program.exit).code, 143);
		await until('the end of the run', async () => await cancelled(base) === before + 1);
	}],
];

function keyCases(l: Launcher, base: () => string): [string, () => Promise<void>][] {
	return [
		['a wrong key and none are told with the id of the request', async () => {
			for (const [key, words] of [['wrong', /does not accept the key in CAISSON_KEY/], ['', /needs a key: set CAISSON_KEY/]] as const) {
				const c = bridge(l, base(), { CAISSON_KEY: key });
				const r = await c.request('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } });
				assert.match(r.error.message, words);
				assert.equal(r.error.data.status, 401);
				await ends(c);
			}
		}],
		['a path without MCP is told with the id of the request', async () => {
			const c = bridge(l, `${base()}/elsewhere`);
			assert.match((await c.request('ping')).error.message, /there is no MCP at .*\/elsewhere \(404\): the path of a server of Caisson is \/mcp/);
			await ends(c);
		}],
		['what the server sends of itself comes', async () => {
			const one = bridge(l, base()), two = bridge(l, base());
			await one.initialize();
			await two.initialize();
			await one.alive();
			// The stream of the session may open after this answer, so more than one file is made.
			await until('a notification', async () => {
				await two.request('tools/call', call('open("new", "w").close()'));
				return one.messages().some((m) => m.method === 'notifications/resources/list_changed');
			});
			await ends(one);
			await ends(two);
		}],
		['a key that no header can hold ends it, and is not printed', async () => {
			const c = bridge(l, base(), { CAISSON_KEY: 'sécret' });
			await ends(c, 2);
			assert.match(c.program.stderr, /CAISSON_KEY has a character that no header can hold/);
			assert.doesNotMatch(c.program.stderr, /cret\b/);
		}],
		['an address that is none ends it with a sentence', async () => {
			for (const url of ['localhost:8181', 'ftp://x', 'http://a:b@x/']) {
				const c = bridge(l, url);
				await ends(c, 2);
				assert.match(c.program.stderr, /is no address of a server: http:\/\/HOST:PORT\/mcp/);
			}
		}],
	];
}

function troubleCases(l: Launcher): [string, () => Promise<void>][] {
	return [
		['a server that is not there is told; when it is there, all goes on', async () => {
			const port = await freePort();
			const c = bridge(l, `http://127.0.0.1:${port}`);
			assert.match((await c.initialize()).error.message, /cannot reach http:\/\/127\.0\.0\.1:\d+\/mcp: .*refused/i);
			const s = await server(port);
			try {
				await firstRun(c);
				await ends(c);
			} finally {
				await s.program.end();
			}
		}],
		['(slow) a server that is killed in a run and starts again: the run has an error, the next one a new session', () => withOwn(l, async (c, s) => {
			await c.initialize();
			await begins(c, 'lost');
			await s.program.end();
			const again = await server(s.port);
			try {
				assert.match((await c.answer('lost', 60_000)).error.message, /the call may have had effects/);
				assert.match(textOf(await c.request('tools/call', call('print("again")'))), /^again/);
				await ends(c);
				assert.match(c.program.stderr, /the server has forgotten the session; a new one was begun/);
			} finally {
				await again.program.end();
			}
		})],
		['(slow) a server that is gone for good: the run has an error', () => withOwn(l, async (c, s) => {
			await c.initialize();
			await begins(c, 'lost');
			await s.program.end();
			assert.match((await c.answer('lost', 120_000)).error.message, /cannot be had any more; the call may have had effects/);
			assert.match((await c.request('ping')).error.message, /cannot reach/);
			await ends(c);
		})],
		['megabytes pass both ways', () => withOwn(l, async (c) => {
			await c.initialize();
			const content = Buffer.alloc(6 << 20, 'caisson ').toString('base64');
			const { session_id } = await c.tool('sandbox_upload_file', { filename: 'big.csv', content_base64: content }, 120_000);
			const down = await c.tool('sandbox_read_artifact', { session_id, path: '/mnt/data/big.csv' }, 120_000);
			assert.ok(down.content_base64 === content, JSON.stringify(down).slice(0, 300));
			await ends(c);
		}, 'code')],
		['a message that is too large for the server is told with the id of the request', () => withOwn(l, async (c) => {
			await c.initialize();
			const r = await c.request('tools/call', { name: 'sandbox_upload_file', arguments: { filename: 'big.csv', content_base64: 'A'.repeat(12 << 20) } });
			assert.match(r.error.message, /too large/);
			await c.alive();
			await ends(c);
		}, 'code', { SANDBOX_MAX_MESSAGE_BYTES: '1000000' })],
		['(slow) a connection that breaks in a run is made again, and nothing is lost or comes twice', () => withOwn(l, async (_, s) => {
			const wire = await Wire.start(s.port), c = bridge(l, `http://127.0.0.1:${wire.port}`);
			try {
				await c.initialize();
				let cuts = 0;
				wire.cut = (bytes) => cuts < 2 && bytes.includes('running for') && ++cuts > 0;
				const r = await c.request('tools/call', call('import time\nfor i in range(30):\n  print("line", i, flush=True); time.sleep(.1)', {}, { progressToken: 'p' }), 60_000);
				assert.equal(cuts, 2);
				assert.match(textOf(r), /line 29/);
				const progress = c.messages().filter((m) => m.method === 'notifications/progress').map((m) => m.params.progress as number);
				assert.deepEqual(progress, [...new Set(progress)].sort((a, b) => a - b));
				await ends(c);
			} finally {
				wire.stop();
			}
		})],
	];
}

/** Programs that stand for wsl.exe and docker, before all others in PATH. */
function placeCases(l: Launcher): [string, () => Promise<void>][] {
	const own = openCopy(binary, scratch('program'));
	const standIn = (name: string, script: string): string => {
		const folder = scratch('path');
		fs.writeFileSync(path.join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
		return `${folder}:/usr/bin:/bin`;
	};
	const at = (PATH: string, args: string[] = []): RawClient => client(l, { ...newcomer().env, PATH }, ['--bridge', ...args]);
	return [
		['without a URL it is Caisson in WSL, and says so', async () => {
			const wsl = standIn('wsl.exe', `[ "$1 $2 $3" = '--exec sh -lc' ] || exit 9; PATH=${path.dirname(own)}:$PATH; exec sh -c "$4"`);
			const c = at(wsl);
			await firstRun(c);
			await ends(c);
			assert.match(c.program.stderr, /^caisson-mcp: no URL is named \(CAISSON_URL\), so this is Caisson in WSL\n/);
			const options = at(wsl, ['--profile', 'code']);
			assert.equal((await options.initialize()).result.serverInfo.name, 'code_sandbox_mcp');
			await ends(options);
		}],
		['without WSL it is the container, and says so', async () => {
			const c = at(standIn('docker', `case $1 in inspect) [ "$4" = caisson-caisson-1 ] && echo true;; exec) shift 3; PATH=${path.dirname(own)}:$PATH; exec "$@";; esac`));
			await firstRun(c);
			await ends(c);
			assert.match(c.program.stderr, /^caisson-mcp: no URL is named \(CAISSON_URL\), so this is Caisson in the container caisson-caisson-1\n/);
		}],
		['without either every request is told what to do', async () => {
			const c = at(standIn('docker', 'echo false'));
			assert.match((await c.request('initialize', {})).error.message, /^There is no Caisson for this machine: .* Set CAISSON_URL/);
			await ends(c, 1);
		}],
	];
}

/** The official client, which asks for the newest revision, or insists on it. */
function sdkCases(l: Launcher, base: () => string): [string, () => Promise<void>][] {
	return (['auto', 'modern'] as const).map((era) => [`the TypeScript SDK, ${era}: tools, a run, a cancelled run`, async () => {
		const { env } = newcomer();
		const argv = asProductUser(l.argv);
		const sdk = new v2.Client({ name: 'packages', version: '1' }, { versionNegotiation: { mode: era === 'modern' ? { pin: MODERN } : era } });
		const way = new Stdio2({ command: argv[0]!, args: argv.slice(1), env: { ...env, ...l.env, CAISSON_BRIDGE: '1', CAISSON_URL: base(), CAISSON_KEY: KEY }, cwd: env.HOME, stderr: 'ignore' });
		await sdk.connect(way);
		try {
			assert.equal(sdk.getNegotiatedProtocolVersion(), MODERN);
			assert.ok((await sdk.listTools()).tools.length > 10);
			const run = (code: string, signal?: AbortSignal, onprogress?: () => void) => sdk.callTool({ name: 'sandbox_run_python', arguments: { code } }, { signal, onprogress });
			assert.match(JSON.stringify((await run('print(1)')).content), /1\\n/);
			const stop = new AbortController(), before = await cancelled(base());
			await assert.rejects(run('import time; print("on", flush=True); time.sleep(500)', stop.signal, () => stop.abort()));
			await until('the end of the run', async () => await cancelled(base()) === before + 1);
			assert.match(JSON.stringify((await within('the next run', run('print(2)'), 60_000)).content), /2\\n/);
		} finally {
			await sdk.close();
		}
	}]);
}

/** A server for the cases that do not hurt it, and the cases. */
export async function bridgeCases(w: World): Promise<{ cases: Case[]; stop(): Promise<void> }> {
	const s = await server();
	const base = (): string => s.base;
	const cases = w.bridges.flatMap((l) => [
		...common.map(([name, body]): [string, () => Promise<void>] => [name, async () => {
			const c = bridge(l, s.base);
			try {
				await body(c, s.base);
			} finally {
				await c.end();
			}
		}]),
		...keyCases(l, base), ...sdkCases(l, base), ...troubleCases(l), ...placeCases(l),
	].map(([name, run]): Case => ({ name: `${l.name} bridge: ${name}`, run })));
	return { cases, stop: () => s.program.end() };
}
