// SPDX-License-Identifier: Apache-2.0
// No request of MCP keeps the event loop: every tool of every profile, every method, in both eras, on files and texts that are large, many and odd.
// A tool or method that the tables below do not know fails the test.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { slowness, top } from '../lib/env.ts';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { turnsOf, type Turn } from '../lib/turns.ts';

/** The goal is 5 ms; see turns_rest.test.ts. */
const TURN_MS = 20 * slowness;
const computed = (log: string): Turn[] => turnsOf(log).filter((t) => t.cpuMs >= TURN_MS);
const odd = '\u0001"\\\u001b';
/** Each name as long as it may be, and each byte of it several in JSON. */
const names = 'for i in range(9000): open(f"{i:05d}" + "\\x01\\"\\x7f" * 80, "w").close()\n';
const files = names + 'open("lines", "w").write("\\n" * (30 << 20)); open("c", "wb").write(b"\\x01" * (2 << 20)); open("nine", "wb").write(b"x" * (9 << 20)); open("edit", "w").write("a\\n" * 200000)\n';
const noise = 'print("\\x01" * (4 << 20))';
const long = odd.repeat(64 << 10);
const picture = 'import zlib, struct\nw = 2000\nraw = b"".join(b"\\0" + bytes((x * y) % 251 for x in range(w)) for y in range(w))\nk = lambda t, d: struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))\nopen("p.png", "wb").write(b"\\x89PNG\\r\\n\\x1a\\n" + k(b"IHDR", struct.pack(">IIBBBBB", w, w, 8, 0, 0, 0, 0)) + k(b"IDAT", zlib.compress(raw)) + k(b"IEND", b""))';

const META = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 'turns', version: '1' }, 'io.modelcontextprotocol/clientCapabilities': {} };

class Wire {
	readonly base: string;
	readonly modern: boolean;
	readonly version: string;
	session = '';
	private id = 0;

	constructor(base: string, modern: boolean, version = '2025-11-25') {
		this.base = base;
		this.modern = modern;
		this.version = version;
	}

	message(method: string, params: Json): Json {
		const progress = { progressToken: ++this.id };
		return { jsonrpc: '2.0', id: this.id, method, params: { ...params, _meta: this.modern ? { ...META, ...progress } : progress } };
	}

	async post(body: Json | Json[]): Promise<Response> {
		const one = Array.isArray(body) ? body[0]! : body;
		const headers: Record<string, string> = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
		if (this.modern) Object.assign(headers, { 'mcp-protocol-version': '2026-07-28', 'mcp-method': one.method });
		if (this.modern && (one.params.name ?? one.params.uri ?? one.params.taskId)) headers['mcp-name'] = one.params.name ?? one.params.uri ?? one.params.taskId;
		if (this.session) headers['mcp-session-id'] = this.session;
		return await fetch(`${this.base}/mcp`, { method: 'POST', headers, body: JSON.stringify(body), signal: AbortSignal.timeout(120_000 * slowness) });
	}

	async begin(): Promise<void> {
		if (this.modern) return;
		const r = await this.post(this.message('initialize', { protocolVersion: this.version, capabilities: {}, clientInfo: { name: 'turns', version: '1' } }));
		await r.text();
		this.session = r.headers.get('mcp-session-id')!;
		await (await this.post({ jsonrpc: '2.0', method: 'notifications/initialized', params: {} })).text();
	}

	/** The answer, whether it came as JSON or as the last event of a stream. */
	async ask(method: string, params: Json = {}): Promise<Json> {
		const r = await this.post(this.message(method, params));
		const text = await r.text();
		const line = r.headers.get('content-type')?.startsWith('text/event-stream') ? text.split('\n').filter((l) => l.startsWith('data: {')).at(-1)!.slice(6) : text;
		return JSON.parse(line) as Json;
	}
}

/** What the calls of one profile need to know. */
interface Place {
	id: string; // of a sandbox of the second family
	serial: number;
}

/** Each tool at its largest. A function makes arguments that are different each time. `may`: an error is an answer, too, for this machine has no package index, or it is refused by design. */
const calls: Record<string, { args: (p: Place) => Json[]; may?: true; last?: true }> = {
	sandbox_run_python: { args: () => [{ code: names, session_id: 'odd' }, { code: noise, session_id: 'odd' }, { code: `x = "${'y'.repeat(300_000)}"`, session_id: 'odd' }] },
	sandbox_run_shell: { args: () => [{ command: 'ls; head -c 3000000 c', session_id: 'odd' }] },
	sandbox_upload_file: { args: (p) => [{ filename: `up${++p.serial}`, content_base64: Buffer.alloc(8 << 20, 1).toString('base64'), session_id: 'odd', overwrite: true }] },
	sandbox_read_artifact: { args: () => [{ session_id: 'odd', path: 'nine' }, { session_id: 'odd', path: 'c' }] },
	sandbox_list_artifacts: { args: () => [{ session_id: 'odd' }] },
	sandbox_close_session: { args: () => [{ session_id: 'copy' }, { session_id: 'odd' }], last: true },
	create_sandbox: { args: () => [{ name: odd.repeat(16) }], may: true },
	list_sandboxes: { args: () => [{}] },
	execute_python_code: { args: (p) => [{ sandbox_id: p.id, code: names }, { sandbox_id: p.id, code: noise }] },
	install_package_in_sandbox: { args: (p) => [{ sandbox_id: p.id, package_name: odd }], may: true },
	check_package_installation_status: { args: (p) => [{ sandbox_id: p.id, package_name: odd.repeat(100) }], may: true },
	execute_terminal_command: { args: (p) => [{ sandbox_id: p.id, command: 'ls' }] },
	upload_file_to_sandbox: { args: (p) => [{ sandbox_id: p.id, local_file_path: '/etc/passwd' }], may: true },
	delete_sandbox: { args: (p) => [{ sandbox_id: p.id }], last: true },
	sandbox_create: { args: () => [{ session_id: 'made', labels: Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`k${i}`, 'v'.repeat(60)])), env: Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`V${i}`, 'v'.repeat(500)])) }] },
	sandbox_list: { args: () => [{}] },
	sandbox_info: { args: () => [{ session_id: 'odd', all_packages: true }] },
	sandbox_delete: { args: () => [{ session_id: 'made' }], last: true },
	sandbox_list_files: { args: () => [{ session_id: 'odd', depth: 3 }] },
	sandbox_read_file: { args: () => [{ session_id: 'odd', path: 'lines' }, { session_id: 'odd', path: 'lines', start_line: 20_000_000, end_line: 20_100_000 }, { session_id: 'odd', path: 'nine', base64: true }, { session_id: 'odd', path: 'p.png' }] },
	sandbox_write_file: { args: () => [{ session_id: 'odd', path: 'w', content: long, overwrite: true }, { session_id: 'odd', path: 'large', content: 'z'.repeat(48 << 20), overwrite: true }, { session_id: 'odd', path: 'w64', content_base64: Buffer.alloc(8 << 20, 2).toString('base64'), overwrite: true }] },
	sandbox_edit_file: { args: () => [{ session_id: 'odd', path: 'edit', old_text: 'a', new_text: odd, replace_all: true }] },
	sandbox_add_file: { args: () => [{ session_id: 'odd', local_path: '/etc/passwd' }], may: true },
	sandbox_install_packages: { args: () => [{ session_id: 'odd', packages: 'no-such-package-at-all' }], may: true },
	sandbox_checkpoint: { args: () => [{ session_id: 'odd', name: 'one' }] },
	sandbox_restore: { args: () => [{ session_id: 'odd', name: 'one', files_only: true }] },
	sandbox_branch: { args: () => [{ session_id: 'odd', branches: [{ code: noise }, { code: noise }] }] },
	sandbox_process: { args: () => [{ session_id: 'odd', action: 'start', command: `head -c 200000 /dev/zero; echo ${odd}`, env: Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`V${i}`, 'v'.repeat(1000)])) }, { session_id: 'odd', action: 'list' }] },
	sandbox_view_image: { args: () => [{ session_id: 'odd', path: 'p.png' }] },
	sandbox_fork: { args: (p) => [{ session_id: 'odd', new_session_id: `copy${++p.serial}` }] },
	sandbox_list_packages: { args: () => [{ session_id: 'odd', all: true }] },
	sandbox_uninstall_packages: { args: () => [{ session_id: 'odd', packages: 'no-such-package-at-all' }], may: true },
};

/** Each method with parameters that ask for much. */
const methods: Record<string, Json[]> = {
	'initialize': [], // by begin()
	'ping': [{}],
	'server/discover': [{}],
	'tools/list': [{}],
	'tools/call': [], // by the table above
	'resources/list': [{}],
	'resources/templates/list': [{}],
	'resources/read': [{ uri: 'sandbox://odd/c' }, { uri: 'sandbox://odd/lines' }, { uri: 'sandbox://odd/lines?offset=0&length=2000000' }],
	'resources/subscribe': [{ uri: 'sandbox://odd/c' }],
	'resources/unsubscribe': [{ uri: 'sandbox://odd/c' }],
	'prompts/list': [{}],
	'prompts/get': [{ name: 'none', arguments: { a: odd.repeat(1000) } }],
	'completion/complete': [{ ref: { type: 'ref/resource', uri: 'sandbox://{session_id}/{+path}' }, argument: { name: 'path', value: '0' }, context: { arguments: { session_id: 'odd' } } }],
	'logging/setLevel': [{ level: 'debug' }],
	'subscriptions/listen': [], // a stream without an end
	'tasks/get': [{ taskId: 'x'.repeat(100) }],
	'tasks/update': [{ taskId: 'none', inputResponses: {} }],
	'tasks/cancel': [{ taskId: 'none' }],
};

for (const profile of ['all', 'both'])
	describe(`turns of the loop, by tool and method of MCP, profile ${profile}`, () => {
		let server: { program: Program; base: string };
		let tools: string[] = [];
		const wires: Record<string, Wire> = {};
		const answered = new Set<string>();
		const place: Place = { id: '', serial: 0 };

		/** The turns of at least TURN_MS while ASK ran, in words. Computation alone: on a busy machine the loop also waits for a thread that has a lock of the memory and no CPU. */
		const watch = async (what: string, ask: () => Promise<unknown>): Promise<string[]> => {
			const from = server.program.stderr.length;
			await ask();
			await (await fetch(`${server.base}/healthz`)).text();
			return computed(server.program.stderr.slice(from)).map((t) => `${what}: ${t.ms} ms, ${t.cpuMs} of them computing, ${t.waitedMs} waiting: ${t.work}`);
		};

		before(async () => {
			server = await serve({ profile, env: { SANDBOX_POOL: '0', CAISSON_WATCH_TURNS: String(TURN_MS), SANDBOX_WORKSPACE_FILES: '30000', SANDBOX_MAX_SESSIONS: '40' } });
			for (const [era, wire] of [['legacy', new Wire(server.base, false)], ['modern', new Wire(server.base, true)]] as const) {
				await wire.begin();
				wires[era] = wire;
			}
			tools = ((await wires.modern!.ask('tools/list')).result.tools as Json[]).map((t) => t.name as string);
			const made = await wires.modern!.ask('tools/call', { name: 'sandbox_run_python', arguments: { code: files + picture, session_id: 'odd' } });
			assert.ok(!made.error && !made.result.isError, JSON.stringify(made).slice(0, 2000));
			if (tools.includes('create_sandbox'))
				place.id = JSON.parse((await wires.modern!.ask('tools/call', { name: 'create_sandbox', arguments: {} })).result.content[0].text).sandbox_id;
		});
		after(() => server.program.end());

		it('every tool has a row', () => {
			assert.deepEqual(tools.filter((name) => !calls[name]), []);
			assert.ok(tools.length > 10);
		});

		it('every method has a row', () => {
			const table = fs.readFileSync(path.join(top, 'src/mcp/methods.tbl.h'), 'utf8');
			assert.deepEqual([...table.matchAll(/^M\("([^"]+)"/gm)].map((m) => m[1]!).filter((name) => !methods[name]), []);
		});

		it('(timing) no method keeps the loop', async () => {
			const slow: string[] = [];
			for (const [era, wire] of Object.entries(wires))
				for (const [method, all] of Object.entries(methods))
					for (const params of all)
						slow.push(...await watch(`${era} ${method}`, () => wire.ask(method, params)));
			assert.deepEqual(slow, []);
		});

		it('(timing) no tool keeps the loop', async () => {
			const slow: string[] = [];
			const order = [...tools].sort((a, b) => Number(calls[a]!.last ?? false) - Number(calls[b]!.last ?? false));
			for (const name of order)
				for (const [era, wire] of Object.entries(wires))
					for (const args of calls[name]!.args(place))
						slow.push(...await watch(`${era} ${name} ${JSON.stringify(args).slice(0, 60)}`, async () => {
							const r = await wire.ask('tools/call', { name, arguments: args });
							if (calls[name]!.may || (r.result && !r.result.isError)) answered.add(name);
						}));
			assert.deepEqual(slow, []);
			assert.deepEqual(tools.filter((name) => !answered.has(name)), [], 'tools that only failed');
		});
	});

describe('turns of the loop, by message of MCP', () => {
	let server: { program: Program; base: string };

	before(async () => {
		server = await serve({ profile: 'code', env: { SANDBOX_POOL: '0', CAISSON_WATCH_TURNS: String(TURN_MS), SANDBOX_WORKSPACE_FILES: '30000' } });
	});
	after(() => server.program.end());

	it('the other profiles have no further tools', async () => {
		for (const profile of ['code', 'classic', 'full']) {
			const s = await serve({ profile, env: { SANDBOX_POOL: '0' } });
			const list = (await new Wire(s.base, true).ask('tools/list')).result.tools as Json[];
			assert.deepEqual(list.map((t) => t.name as string).filter((name) => !calls[name]), []);
			await s.program.end();
		}
	});

	it('(timing) large messages, batches and replays keep nobody waiting', async () => {
		const from = server.program.stderr.length;
		const wire = new Wire(server.base, false, '2025-03-26');
		await wire.begin();
		const call = (args: Json): Json => wire.message('tools/call', { name: 'sandbox_run_python', arguments: args });
		await (await wire.post(call({ code: names, session_id: 'odd' }))).text();

		// Many answers of megabytes, joined to one.
		const list = (): Json => wire.message('tools/call', { name: 'sandbox_list_artifacts', arguments: { session_id: 'odd' } });
		const answer = await (await wire.post(Array.from({ length: 3 }, list))).text();
		const joined = JSON.parse(answer.startsWith('[') ? answer : answer.split('\n').filter((l) => l.startsWith('data: [')).at(-1)?.slice(6) ?? '{}') as Json[];
		assert.equal(joined.length, 3, answer.slice(0, 1000));
		for (const one of joined) assert.equal(one.result.structuredContent.result.artifacts.length, 9000);
		await (await wire.post(Array.from({ length: 100 }, () => wire.message('ping', {})))).text();

		// As many values as a message may have, texts below the size of those that go to a file, and one that goes there.
		for (const args of [{ a: Array.from({ length: 4900 }, () => odd) }, { a: Array.from({ length: 12 }, () => odd.repeat(10_000)) }, { code: `"${'\u00e9'.repeat(10 << 20)}"` }])
			await (await wire.post(call(args))).text();
		assert.deepEqual(computed(server.program.stderr.slice(from)), []);
	});
});
