// SPDX-License-Identifier: Apache-2.0
// Two users: each tool and each route says of the other's sandbox what it says of one that does not exist. The tools come from tools/list and the
// routes from the OpenAPI document, so that a new one without a row here fails.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { newStateDir, scratch } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { requestTimeoutMs, serve, type Json } from '../lib/session.ts';

/** Arguments beside the id; null: takes no id of a sandbox. */
const TOOLS: Record<string, Json | null> = {
	create_sandbox: null,
	list_sandboxes: null,
	execute_python_code: { code: 'print(open("secret.txt").read())' },
	install_package_in_sandbox: { package_name: 'six' },
	check_package_installation_status: { package_name: 'six' },
	execute_terminal_command: { command: 'cat secret.txt' },
	upload_file_to_sandbox: { local_file_path: 'nothing' },
	delete_sandbox: {},
	sandbox_upload_file: { filename: 'new.txt', content_base64: 'eA==' },
	sandbox_run_python: { code: 'print(open("secret.txt").read())' },
	sandbox_read_artifact: { path: '/mnt/data/secret.txt' },
	sandbox_list_artifacts: {},
	sandbox_close_session: {},
	sandbox_run_shell: { command: 'cat secret.txt' },
	sandbox_create: {},
	sandbox_list: null,
	sandbox_list_files: {},
	sandbox_add_file: { local_path: '/etc/passwd' },
	sandbox_read_file: { path: 'secret.txt' },
	sandbox_write_file: { path: 'new.txt', content: 'x' },
	sandbox_edit_file: { path: 'secret.txt', old_text: 'alice', new_text: 'bob' },
	sandbox_view_image: { path: 'secret.txt' },
	sandbox_info: {},
	sandbox_checkpoint: { name: 'point' },
	sandbox_restore: { name: 'point' },
	sandbox_branch: { branches: [{ code: '1' }] },
	sandbox_process: { action: 'start', command: 'cat secret.txt' },
	sandbox_fork: {},
	sandbox_install_packages: { packages: '../six' },
	sandbox_list_packages: {},
	sandbox_uninstall_packages: { packages: 'six' },
	sandbox_allow_domain: { domain: 'example.org' },
	sandbox_delete: {},
};

/** What a route is sent; operations that take no body need no row. */
const BODIES: Record<string, Json | string> = {
	createSandbox: {}, installPackages: { packages: 'six' }, startRun: { code: '1' }, putFile: 'bytes', postFiles: 'form', moveFile: { to: 'other.txt' }, makeFolder: { path: 'folder' }, addUser: { name: 'carol' },
	changeUser: { active: false }, newKey: {}, newInvitation: {}, changeSandbox: { name: 'mine' }, keepSandbox: { name: 'mine' }, addMarkdown: { text: 'mine' }, changeMarkdown: { text: 'mine' },
	completeName: { code: 'pri', cursor: 3 }, signIn: { name: 'bob', password: 'wrong' }, register: { name: 'carol', password: 'short' },
	changePassword: { password: 'wrong', new_password: 'long-enough-1' },
	makeCheckpoint: { name: 'point' }, makeContext: {}, restoreCheckpoint: {}, tryBranches: { branches: [{ code: '1' }] }, forkSandbox: {}, buildImage: { name: 'base' }, commitImage: { name: 'mine' },
	startProcess: { command: 'touch new.txt' }, signalProcess: { signal: 'KILL' }, writeProcess: { text: 'x' }, startTerminal: { command: 'touch new.txt' }, openPort: { port: 8000 },
};

/** What a route cannot do without. */
const QUERIES: Record<string, string> = { previewTable: '?path=secret.txt' };

describe('strangers', () => {
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_OPEN_REGISTRATION: 'off', SANDBOX_PIP_WHEEL_DIR: scratch('strangers'), SANDBOX_MAX_SESSIONS: '60', SANDBOX_USER_SANDBOX_LIMIT: '20' };
	const keys: Record<string, string> = {};
	const users: Record<string, string> = {};
	let program: Program;
	let base: string;
	let alice: Client;
	let bob: Client;
	let stored: string;
	let run: string;
	let key: string;

	async function cli(...args: string[]): Promise<string> {
		const r = await caisson(args, { env });
		assert.equal(r.code, 0, r.stderr.toString());
		return r.stdout.toString();
	}

	async function connect(name: string): Promise<Client> {
		const client = new Client({ name: 'strangers', version: '1' });
		await client.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { requestInit: { headers: { 'x-api-key': keys[name]! } } }));
		return client;
	}

	const call = async (who: Client, name: string, args: Json): Promise<Json> => (await who.callTool({ name, arguments: args }, undefined, { timeout: requestTimeoutMs })) as Json;
	const rest = (who: string, method: string, path: string, body?: Json | string): Promise<Response> => {
		const headers: Record<string, string> = { 'x-api-key': keys[who]! };
		if (typeof body === 'object')
			headers['content-type'] = 'application/json';
		const form = new FormData();
		form.append('file', new File(['x'], 'new.txt'));
		return fetch(`${base}${path}`, { method, headers, body: body === 'form' ? form : typeof body === 'object' ? JSON.stringify(body) : body });
	};

	/** The same text for the same fact: without the ids that were asked for, new ids, and figures. */
	function plain(text: string, ...ids: string[]): string {
		for (const id of ids)
			text = text.replaceAll(id, 'ID');
		// Bob has had sessions of these names himself, and is told how they ended.
		text = text.replace(/The earlier session ID was [^.]*\.|There was no session ID: [^.]*\.[^.]*\./g, 'NONE')
			.replace(/(Sandbox|Session) ID was \w+, [^.]* ago\.[^.]*\.|There is no (sandbox|session) ID, [^.]*\.[^?]*\?|No active session with id ID/g, 'NONE');
		return text.replace(/(run|sess)_\w+/g, '$1').replace(/[?&][es]=\w+/g, '').replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'UUID').replace(/\d+(\.\d+)?/g, 'N');
	}

	before(async () => {
		for (const name of ['alice', 'bob']) {
			users[name] = /^id\s+(\S+)$/m.exec(await cli('user', 'add', name, '--password', 'none'))![1]!;
			keys[name] = (await cli('key', 'new', name)).trim();
		}
		({ program, base } = await serve({ profile: 'all', env }));
		[alice, bob] = [await connect('alice'), await connect('bob')];
		stored = JSON.parse((await call(alice, 'create_sandbox', {})).content[0].text).sandbox_id;
		const r = await rest('alice', 'POST', `/api/v1/sandboxes/${stored}/runs`, { code: 'open("secret.txt","w").write("of alice")', wait: true });
		run = ((await r.json()) as Json).id;
		assert.equal((await rest('alice', 'POST', `/api/v1/sandboxes/${stored}/processes`, { command: 'echo of alice; exec cat', input: true })).status, 201);
		assert.equal((await rest('alice', 'POST', `/api/v1/sandboxes/${stored}/terminals`, { command: 'cat' })).status, 201);
		assert.equal((await rest('alice', 'POST', `/api/v1/sandboxes/${stored}/contexts`, { name: 'notes' })).status, 201);
		key = ((await (await rest('alice', 'GET', '/api/v1/keys')).json()) as Json).keys[0].id;
	});
	after(async () => {
		await alice?.close();
		await bob?.close();
		await program.end();
	});

	/** Nothing that bob did is to be seen there. */
	async function untouched(id: string, what: string): Promise<void> {
		const r = await rest('alice', 'GET', `/api/v1/sandboxes/${id}/files`);
		const files = ((await r.json()) as Json).files;
		assert.deepEqual([r.status, files?.map((f: Json) => [f.name, f.size])], [200, [['secret.txt', 8]]], what);
	}

	it('every tool', async () => {
		const tools = (await bob.listTools()).tools;
		const property = (t: Json): string | undefined => ['sandbox_id', 'session_id'].find((p) => p in (t.inputSchema.properties ?? {}));
		for (const t of tools) {
			assert.ok(t.name in TOOLS, `${t.name} has no row`);
			assert.equal(TOOLS[t.name] === null, property(t) === undefined, `${t.name}: ${property(t)}`);
		}
		assert.ok(tools.length >= 25);
		const live = 'live-one';
		assert.notEqual((await call(alice, 'sandbox_run_python', { session_id: live, code: 'open("secret.txt","w").write("of alice")' })).isError, true);
		for (const t of tools.filter((t) => property(t)))
			for (const id of [stored, live]) {
				const nobody = id === live ? `none-${randomUUID()}` : randomUUID();
				const answers: string[] = [];
				for (const asked of [id, nobody]) {
					const r = await call(bob, t.name, { [property(t)!]: asked, ...TOOLS[t.name] });
					answers.push(plain(JSON.stringify(r), asked));
					assert.ok(!answers.at(-1)!.includes('of alice'), t.name);
					// Some tools make a session of the name that they are given: bob's own.
					await call(bob, 'sandbox_close_session', { session_id: asked });
				}
				assert.equal(answers[0], answers[1], `${t.name} of ${id === live ? 'a session' : 'a stored sandbox'}`);
				await untouched(id, t.name);
			}
		assert.deepEqual((await call(bob, 'list_sandboxes', {})).content, []);
	});

	it('every route', async () => {
		const doc = (await (await fetch(`${base}/api/v1/openapi.json`)).json()) as Json;
		const invitation = (await cli('user', 'invite')).trim();
		const theirs: Record<string, string> = { id: stored, checkpoint: 'point', process: 'p1', terminal: 'p2', context: 'notes', run, path: 'secret.txt', name: 'secret.txt', packages: 'six', user: users.alice!, key, invitation, image: 'mine' };
		const nobodys: Record<string, string> = { ...theirs, id: randomUUID(), run: `run_${randomUUID()}`, user: randomUUID(), key: randomUUID(), invitation: `csi_${'a'.repeat(43)}` };
		// Sessions of his own that had the id have left a history of his own.
		await rest('bob', 'DELETE', `/api/v1/notebooks/${stored}`);
		let seen = 0;
		for (const [path, item] of Object.entries<Json>(doc.paths))
			for (const [method, op] of Object.entries<Json>(item)) {
				assert.equal(op.requestBody !== undefined, op.operationId in BODIES, `${op.operationId}: its body has no row, or it has none`);
				const names = [...path.matchAll(/\{(\w+)\}/g)].map((m) => m[1]!);
				for (const name of names)
					assert.ok(name in theirs, `${path}: {${name}} has no row`);
				const ask = async (values: Record<string, string>, query: string): Promise<string> => {
					const r = await rest('bob', method.toUpperCase(), path.replace(/\{(\w+)\}/g, (_, n: string) => values[n]!) + (QUERIES[op.operationId] ?? '') + query, BODIES[op.operationId]);
					const type = r.headers.get('content-type');
					// A stream of events has no end: what it begins with.
					const text = type?.startsWith('text/event-stream') ? new TextDecoder().decode((await r.body!.getReader().read()).value) : await r.text();
					return `${r.status} ${plain(`${type} ${text}`, ...names.map((n) => values[n]!))}`;
				};
				const mine = await ask(theirs, '');
				assert.ok(![stored, run, key, 'of alice'].some((secret) => mine.includes(secret)), `${op.operationId}: ${mine}`);
				if (names.length > 0) {
					assert.match(mine, /^40[34] /, `${op.operationId}: ${mine}`);
					assert.equal(mine, await ask(nobodys, ''), op.operationId);
					if ((op.parameters as Json[]).some((p) => p.name === 'owner'))
						assert.equal(await ask(theirs, `${op.operationId in QUERIES ? '&' : '?'}owner=${users.alice}`), mine, `${op.operationId} for another owner`);
				}
				seen++;
			}
		assert.ok(seen >= 30);
		for (const [method, path] of [['DELETE', '/api/users/me/sandboxes/ID'], ['GET', '/files/ID/secret.txt'], ['GET', '/sandbox/file?sandbox_id=ID&file_path=/app/results/secret.txt']] as const) {
			const [mine, none] = await Promise.all([stored, randomUUID()].map(async (id) => {
				const r = await rest('bob', method, path.replace('ID', id));
				return `${r.status} ${plain(await r.text(), id)}`;
			}));
			assert.equal(mine, none, path);
			assert.match(mine!, /^40[134] /);
		}
		await untouched(stored, 'all routes');
		const process = (await (await rest('alice', 'GET', `/api/v1/sandboxes/${stored}/processes/p1`)).json()) as Json;
		assert.deepEqual([process.state, process.stdout.text], ['running', 'of alice\n']);
		const terminal = (await (await rest('alice', 'GET', `/api/v1/sandboxes/${stored}/terminals/p2`)).json()) as Json;
		assert.deepEqual([terminal.state, terminal.stdout_bytes], ['running', 0]);
		const contexts = (await (await rest('alice', 'GET', `/api/v1/sandboxes/${stored}/contexts`)).json()) as Json;
		assert.deepEqual(contexts.contexts.map((c: Json) => c.name).filter((n: string) => n !== 'default'), ['notes']);
	});
});
