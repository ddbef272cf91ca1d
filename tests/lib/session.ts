// SPDX-License-Identifier: Apache-2.0
// A running server with an official v1 client connected to it, over stdio or Streamable HTTP.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import type { ChildProcess } from 'node:child_process';
import { after, before, describe } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { ElicitRequestSchema, ErrorCode, McpError, type ElicitResult } from '@modelcontextprotocol/sdk/types.js';
import type { RequestOptions } from '@modelcontextprotocol/sdk/shared/protocol.js';
import { asProductUser, binary, freePort, productEnv, slowness } from './env.ts';
import { noteCrash, start, type Program } from './process.ts';
import { until } from './wait.ts';

export type Wire = 'stdio' | 'http';
export const wires: readonly Wire[] = ['stdio', 'http'];

export interface OpenOptions {
	profile?: string;
	env?: Record<string, string | undefined>;
	args?: string[];
	/** The folder that a server is started in. */
	cwd?: string;
	/** The command that starts it; its pid must become that of the server. */
	under?: string[];
	/** The client can ask its person, who answers so. */
	person?: (message: string) => ElicitResult;
}

export type Json = Record<string, any>;

export interface ToolResult {
	content: Json[];
	structuredContent?: Json;
	isError?: boolean;
	_meta?: Json;
}

/** The answer of a tool for programs: the structured content, which stands in _meta where pictures must not be hidden by it, or the text. */
export const facts = (r: Json | ToolResult): Json =>
	r.structuredContent?.result ?? r.structuredContent ?? r._meta?.['caisson/result'] ?? JSON.parse(r.content[0]!.text);

export const requestTimeoutMs = 90_000 * slowness;

/** Starts `caisson serve` on a free port and waits until it answers. */
export async function serve(o: OpenOptions = {}): Promise<{ program: Program; port: number; base: string }> {
	const port = await freePort();
	const program = start(['serve', '--listen', `127.0.0.1:${port}`, '--profile', o.profile ?? 'code', ...(o.args ?? [])], {
		env: { SANDBOX_HTTP_PORT: String(await freePort()), ...o.env },
		cwd: o.cwd,
		under: o.under,
	});
	const base = `http://127.0.0.1:${port}`;
	await until(`the server on port ${port}`, async () => {
		if (program.child.exitCode !== null || program.child.signalCode !== null)
			throw new Error(`serve ended with ${program.child.exitCode ?? program.child.signalCode}: ${program.stderr}`);
		try {
			return (await fetch(`${base}/healthz`)).ok;
		} catch {
			return false;
		}
	}, 15_000);
	return { program, port, base };
}

/** Is the text of this tool's answers part of a contract? */
const exact = (profile: string, name: string): boolean =>
	!['full', 'all'].includes(profile) || ['upload_file', 'read_artifact', 'list_artifacts', 'close_session'].includes(name.replace('sandbox_', ''));

export class Session {
	readonly wire: Wire;
	readonly profile: string;
	readonly client: Client;
	readonly pid: number;
	readonly base?: string; // of the HTTP server
	readonly log: string; // path of its log file
	private readonly stderrText: () => string;
	private readonly ending: () => Promise<void>;

	constructor(wire: Wire, profile: string, client: Client, pid: number, log: string, stderr: () => string, ending: () => Promise<void>, base?: string) {
		this.wire = wire;
		this.profile = profile;
		this.client = client;
		this.pid = pid;
		this.log = log;
		this.stderrText = stderr;
		this.ending = ending;
		this.base = base;
	}

	get stderr(): string {
		return this.stderrText();
	}

	/** tools/call as it came. */
	async raw(name: string, args?: Json, options?: RequestOptions): Promise<ToolResult> {
		const params = args === undefined ? { name } : { name, arguments: args };
		try {
			return (await this.client.callTool(params, undefined, { timeout: requestTimeoutMs, ...options })) as ToolResult;
		} catch (e) {
			if (e instanceof McpError && e.code === ErrorCode.RequestTimeout)
				e.message += `: ${name} ${JSON.stringify(args ?? {}).slice(0, 300)}\nthe end of the server's log:\n${fs.readFileSync(this.log, 'utf8').slice(-3000)}`;
			throw e;
		}
	}

	/**
	 * Gives back structuredContent.result. Of a call of the first family it checks the encoding that all five tools
	 * share: one text block of compact JSON, the same object as structuredContent.result, and isError false
	 * for errors of the business too. The texts of the lean family are for models.
	 */
	async call(name: string, args: Json, options?: RequestOptions): Promise<Json> {
		const r = await this.raw(name, args, options);
		assert.equal(r.isError ?? false, false, `${name}: ${JSON.stringify(r.content)}`);
		assert.equal(r.content.length, 1, 'exactly one content block');
		assert.equal(r.content[0]!.type, 'text');
		assert.deepEqual(Object.keys(r.structuredContent ?? {}), ['result']);
		// Both writings of a control character are JSON: \u000E and \u000e.
		const text = (r.content[0] as { text: string }).text.replace(/\\u00[01][A-F]/g, (code) => code.toLowerCase());
		if (exact(this.profile, name) && text !== JSON.stringify(r.structuredContent!.result))
			assert.fail(`the text is not the compact JSON of the result: ${text.slice(0, 500)}`);
		return r.structuredContent!.result;
	}

	run(code: string, session_id?: string, options?: RequestOptions): Promise<Json> {
		return this.call('sandbox_run_python', session_id === undefined ? { code } : { code, session_id }, options);
	}

	/** Runs and insists on exit status 0. */
	async ok(code: string, session_id?: string): Promise<Json> {
		const r = await this.run(code, session_id);
		assert.equal(r.error, undefined, JSON.stringify(r));
		assert.equal(r.exit_code, 0, r.stderr);
		return r;
	}

	upload(filename: string, content: string | Buffer, session_id?: string, overwrite?: boolean): Promise<Json> {
		return this.call('sandbox_upload_file', {
			filename,
			content_base64: Buffer.from(content).toString('base64'),
			...(session_id === undefined ? {} : { session_id }),
			...(overwrite === undefined ? {} : { overwrite }),
		});
	}

	async read(session_id: string, path: string): Promise<Buffer> {
		const r = await this.call('sandbox_read_artifact', { session_id, path });
		assert.equal(r.error, undefined, JSON.stringify(r));
		return Buffer.from(r.content_base64, 'base64');
	}

	async list(session_id: string): Promise<Json[]> {
		const r = await this.call('sandbox_list_artifacts', { session_id });
		assert.equal(r.error, undefined, JSON.stringify(r));
		return r.artifacts;
	}

	close(session_id: string): Promise<Json> {
		return this.call('sandbox_close_session', { session_id });
	}

	logLines(): string[] {
		return fs.existsSync(this.log) ? fs.readFileSync(this.log, 'utf8').split('\n').filter(Boolean) : [];
	}

	/** Disconnects and ends the server; what a sanitizer of any of its processes had to say is a failure. */
	async end(): Promise<void> {
		await this.ending();
		assert.doesNotMatch(this.stderr, /Sanitizer|runtime error|broken promise/);
	}
}

function newClient(o: OpenOptions): Client {
	const { person } = o;
	const client = new Client({ name: 'caisson-tests', version: '1.0.0' }, { capabilities: person ? { elicitation: {} } : {} });
	if (person) client.setRequestHandler(ElicitRequestSchema, async (r) => person(r.params.message));
	return client;
}

async function connect(client: Client, transport: Transport): Promise<void> {
	await client.connect(transport, { timeout: requestTimeoutMs });
	await client.listTools(); // from here on the client checks structuredContent against the output schemas
}

let serial = 0;

async function openStdio(o: OpenOptions): Promise<Session> {
	const env = productEnv({ SANDBOX_HTTP_PORT: String(await freePort()), ...o.env });
	const log = (env.SANDBOX_LOG_FILE = o.env?.SANDBOX_LOG_FILE ?? `${env.HOME}/stdio-${++serial}.log`);
	const argv = asProductUser([...(o.under ?? []), binary, 'stdio', '--profile', o.profile ?? 'code', ...(o.args ?? [])]);
	const transport = new StdioClientTransport({ command: argv[0]!, args: argv.slice(1), env, cwd: env.HOME, stderr: 'pipe' });
	let stderr = '';
	transport.stderr!.on('data', (b: Buffer) => (stderr += b.toString()));
	const client = newClient(o);
	try {
		await connect(client, transport);
	} catch (e) {
		await client.close();
		throw new Error(`stdio server did not come up: ${(e as Error).message}\n${stderr}`);
	}
	const pid = transport.pid!;
	const { _process } = transport as unknown as { _process?: ChildProcess }; // the transport does not tell how its server ended
	_process?.once('exit', (_, signal) => noteCrash(argv, signal));
	return new Session('stdio', o.profile ?? 'code', client, pid, log, () => stderr, () => client.close());
}

async function openHttp(o: OpenOptions): Promise<Session> {
	const log = o.env?.SANDBOX_LOG_FILE ?? `${productEnv().HOME}/http-${++serial}.log`;
	const { program, base } = await serve({ ...o, env: { ...o.env, SANDBOX_LOG_FILE: log } });
	const client = newClient(o);
	const ending = async (): Promise<void> => {
		await client.close();
		program.kill('SIGTERM');
		const { code, signal } = await program.exit;
		assert.ok(code === 0 || signal === 'SIGKILL', `the server ended with ${code ?? signal}: ${program.stderr.slice(-500)}`); // some tests kill it
	};
	try {
		await connect(client, new StreamableHTTPClientTransport(new URL(`${base}/mcp`)));
	} catch (e) {
		await program.end();
		throw new Error(`http server did not come up: ${(e as Error).message}\n${program.stderr}`);
	}
	return new Session('http', o.profile ?? 'code', client, program.pid, log, () => program.stderr, ending, base);
}

export function open(wire: Wire, o: OpenOptions = {}): Promise<Session> {
	return wire === 'stdio' ? openStdio(o) : openHttp(o);
}

/** The same cases over both transports, each with a server of its own for all cases (which may leave sessions open). */
export function matrix(name: string, options: OpenOptions, cases: (s: () => Session) => void): void {
	const o = { ...options, env: { SANDBOX_MAX_SESSIONS: '60', ...options.env } };
	for (const wire of wires) {
		describe(`${name} over ${wire}`, () => {
			let session: Session;
			before(async () => {
				session = await open(wire, o);
			});
			after(async () => {
				await session?.end();
			});
			cases(() => session);
		});
	}
}

/** A server for the duration of `body`. */
export async function using<T>(wire: Wire, o: OpenOptions, body: (s: Session) => Promise<T>): Promise<T> {
	const s = await open(wire, o);
	try {
		return await body(s);
	} finally {
		await s.end();
	}
}
