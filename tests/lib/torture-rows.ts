// SPDX-License-Identifier: Apache-2.0
// Failing allocations in every tool and every REST route there is: the table is compared with what the server lists. Of a request
// with many allocations an even choice fails; CAISSON_TEST_FULL=1 takes all of them, which is minutes: so each part is a file of its own
// (torture_tools.test.ts and so on). torture.test.ts walks each step of a few.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { mode, sanitized } from './env.ts';
import type { Json } from './session.ts';
import { call, json, rpc, Torture, type Answer } from './torture.ts';
import { Index, wheel, wheelName } from './wheel.ts';

const FEW = 6, SLOW = 3; // rounds of a request that costs milliseconds, of one that costs a tenth of a second or more

/** `packages`: what tools and routes do with packages; the others have the rest. */
export type Part = 'tools' | 'routes' | 'packages';
const partOf = (what: string, name: string): Part => /package/i.test(name) ? 'packages' : what === 'tool' ? 'tools' : 'routes';

export const allocationsFail = (part: Part): unknown => describe('allocations fail in every tool and route', {
	skip: sanitized ? 'the sanitizers have an allocator of their own'
		: mode === 'root' ? false : 'once is enough: the front is the same for everybody',
}, () => {
	const server = new Torture(), index = new Index();
	const known: Record<string, string> = {}; // ids that requests need

	before(async () => {
		await index.open();
		index.add('alpha', { file: wheelName('alpha', '1.0'), body: wheel('alpha', '1.0', 'who = "alpha"') });
		await server.start({ env: { SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_NETWORK_ASK: 'on', SANDBOX_NETWORK_MAX: 'allowlist', SANDBOX_STORED_MAX_ACTIVE: '2' } });
		known.run = (await rest('POST', '/sandboxes/torture/runs', { code: 'print(1)', wait: true })).id;
		known.stored = (await rest('POST', '/sandboxes', { kind: 'stored', name: 'classic' })).id;
		known.user = (await rest('POST', '/users', { name: 'ada' })).id;
		await server.good(call('sandbox_checkpoint', { session_id: 'torture', name: 'point' }));
	});
	after(async () => {
		await server.end();
		index.close();
	});

	const request = (method: string, path: string, body?: Json | string, headers: Record<string, string> = {}): Promise<Answer | undefined> =>
		server.ask(method, path.startsWith('/api') ? path : `/api/v1${path}`, { ...(typeof body === 'object' ? { 'Content-Type': 'application/json' } : {}), ...headers },
			typeof body === 'object' ? JSON.stringify(body) : body);
	async function rest(method: string, path: string, body?: Json): Promise<Json> {
		const r = await request(method, path, body);
		assert.ok(r && r.status < 300, `${method} ${path}: ${JSON.stringify(r)}`);
		return r.headers['content-type'] ? JSON.parse(r.headers['transfer-encoding'] ? r.body.replace(/^[0-9a-f]+\r\n|\r\n[0-9a-f]+\r\n(\r\n)?/g, '') : r.body) as Json : {};
	}
	const tool = (name: string, args: Json = {}) => () => server.post(call(name, args));
	/** Ends all sandboxes but the two that are needed. */
	async function endOthers(): Promise<void> {
		for (const s of (await rest('GET', '/sandboxes')).sandboxes as Json[])
			if (s.id !== 'torture' && s.id !== known.stored)
				await request('DELETE', `/sandboxes/${s.id}?force=true`);
	}
	/** p1 of a sandbox of its own: no checkpoint can be made beside it. */
	async function aProcess(): Promise<void> {
		await tool('sandbox_write_file', { session_id: 'processes', path: 'x', content: 'x' })();
		if ((await rest('GET', '/sandboxes/processes/processes')).processes.length === 0)
			await rest('POST', '/sandboxes/processes/processes', { command: 'cat', input: true });
	}
	async function aTerminal(): Promise<void> {
		await tool('sandbox_write_file', { session_id: 'terminals', path: 'x', content: 'x' })();
		if ((await rest('GET', '/sandboxes/terminals/terminals')).terminals.length === 0)
			await rest('POST', '/sandboxes/terminals/terminals', { command: 'cat' });
	}
	async function endProcesses(): Promise<void> {
		for (const p of (await rest('GET', '/sandboxes/torture/processes')).processes as Json[])
			await request('DELETE', `/sandboxes/torture/processes/${p.id}`);
	}
	async function endUsers(): Promise<void> {
		for (const u of (await rest('GET', '/users')).users as Json[])
			if (u.id !== known.user)
				await request('DELETE', `/users/${u.id}`);
	}
	const form = '--b\r\nContent-Disposition: form-data; name="file"; filename="one"\r\n\r\n1\r\n--b\r\nContent-Disposition: form-data; name="more"; filename="two"\r\n\r\n2\r\n--b--\r\n';
	const t = { session_id: 'torture' };
	const restore = tool('sandbox_restore', { ...t, name: 'point', files_only: true });

	interface Row { ask: () => Promise<Answer | undefined>; clean?: () => Promise<unknown>; rounds?: number; spare?: number; may?: number; keeps?: number; each?: number; skip?: string | false }
	const row = (ask: Row['ask'], rounds = FEW, clean?: Row['clean'], spare?: number): Row => ({ ask, rounds, clean, spare });
	/** Half a second each: a sandbox of its own, and a program in it. */
	const installation = (ask: Row['ask'], clean: Row['clean']): Row => ({ ask, rounds: SLOW, clean, spare: 200, skip: process.env.CAISSON_TEST_FULL !== '1' && 'with CAISSON_TEST_FULL=1' });

	const tools: Record<string, Row> = {
		sandbox_upload_file: row(tool('sandbox_upload_file', { ...t, filename: 'b.bin', content_base64: 'QUJD', overwrite: true })),
		sandbox_run_python: row(tool('sandbox_run_python', { ...t, code: 'n = 1; n', stateful: true }), SLOW),
		sandbox_run_shell: row(tool('sandbox_run_shell', { ...t, command: 'echo 1' }), SLOW),
		sandbox_read_artifact: row(tool('sandbox_read_artifact', { ...t, path: '/mnt/data/a.txt' })),
		sandbox_list_artifacts: row(tool('sandbox_list_artifacts', t)),
		sandbox_close_session: row(tool('sandbox_close_session', { session_id: 'closed' }), SLOW, tool('sandbox_write_file', { session_id: 'closed', path: 'x', content: 'x' })),
		sandbox_read_file: row(tool('sandbox_read_file', { ...t, path: 'a.txt' })),
		sandbox_write_file: row(tool('sandbox_write_file', { ...t, path: 'c.txt', content: 'text' })),
		sandbox_edit_file: row(tool('sandbox_edit_file', { ...t, path: 'c.txt', old_string: 'x', new_string: 'xx' }), FEW, tool('sandbox_write_file', { ...t, path: 'c.txt', content: 'text' })),
		sandbox_view_image: row(tool('sandbox_view_image', { ...t, path: 'a.txt' })),
		sandbox_info: row(tool('sandbox_info', t)),
		sandbox_delete: row(tool('sandbox_delete', { session_id: 'closed' }), SLOW, tool('sandbox_write_file', { session_id: 'closed', path: 'x', content: 'x' })),
		sandbox_allow_domain: row(tool('sandbox_allow_domain', { ...t, domain: 'example.org' })),
		sandbox_install_packages: installation(tool('sandbox_install_packages', { ...t, packages: 'alpha' }), tool('sandbox_uninstall_packages', { ...t, packages: 'alpha' })),
		sandbox_list_packages: row(tool('sandbox_list_packages', t)),
		sandbox_uninstall_packages: row(tool('sandbox_uninstall_packages', { ...t, packages: 'nothing' }), SLOW),
		sandbox_checkpoint: row(tool('sandbox_checkpoint', { ...t, name: 'again' }), FEW, tool('sandbox_checkpoint', { ...t, name: 'again', delete: true })),
		sandbox_restore: row(restore),
		sandbox_branch: row(tool('sandbox_branch', { ...t, branches: [{ code: 'x = 1' }, { code: 'x = 2' }] }), SLOW),
		sandbox_process: row(tool('sandbox_process', { ...t, action: 'start', command: 'echo 1' }), SLOW, endProcesses), // what has ended is kept
		sandbox_fork: row(tool('sandbox_fork', { ...t, new_session_id: 'forked' }), SLOW, tool('sandbox_delete', { session_id: 'forked' })),
		sandbox_create: row(tool('sandbox_create', { name: 'made', env: { A: '1' } }), SLOW, endOthers),
		sandbox_list: row(tool('sandbox_list')),
		sandbox_list_files: row(tool('sandbox_list_files', t)),
		sandbox_add_file: row(tool('sandbox_add_file', { ...t, path: 'from a person.txt' }), FEW, undefined, 100), // a link is kept until it ends
		create_sandbox: row(tool('create_sandbox', { name: 'made' }), SLOW, endOthers),
		list_sandboxes: row(tool('list_sandboxes')),
		execute_python_code: row(() => server.post(call('execute_python_code', { sandbox_id: known.stored, code: 'print(1)' })), SLOW),
		install_package_in_sandbox: installation(() => server.post(call('install_package_in_sandbox', { sandbox_id: known.stored, package_name: 'alpha' })), () => request('DELETE', `/sandboxes/${known.stored}/packages/alpha`)),
		check_package_installation_status: row(() => server.post(call('check_package_installation_status', { sandbox_id: known.stored, package_name: 'alpha' }))),
		execute_terminal_command: row(() => server.post(call('execute_terminal_command', { sandbox_id: known.stored, command: 'echo 1' })), SLOW),
		upload_file_to_sandbox: row(() => server.post(call('upload_file_to_sandbox', { sandbox_id: known.stored, local_file_path: 'no-such-file' }))),
		delete_sandbox: row(() => server.post(call('delete_sandbox', { sandbox_id: '00000000-0000-4000-8000-000000000000' }))),
	};

	const routes: Record<string, Row> = {
		getDescription: row(() => request('GET', '/openapi.json')),
		listSandboxes: row(() => request('GET', '/sandboxes')),
		createSandbox: row(() => request('POST', '/sandboxes', {}, { 'Idempotency-Key': String(Math.random()) }), SLOW, endOthers, 200), // answers are kept for a day
		getSandbox: row(() => request('GET', '/sandboxes/torture')),
		deleteSandbox: row(() => request('DELETE', '/sandboxes/closed'), SLOW, tool('sandbox_write_file', { session_id: 'closed', path: 'x', content: 'x' })),
		changeSandbox: row(() => request('PATCH', '/sandboxes/torture', { labels: { a: 'b' } })),
		keepSandbox: row(() => request('POST', '/sandboxes/kept/keep', {}), SLOW, async () => {
			await request('DELETE', '/sandboxes/kept?force=true');
			await tool('sandbox_write_file', { session_id: 'kept', path: 'x', content: 'x' })();
		}),
		listCheckpoints: row(() => request('GET', '/sandboxes/torture/checkpoints')),
		makeCheckpoint: row(() => request('POST', '/sandboxes/torture/checkpoints', { name: 'other' }), SLOW),
		removeCheckpoint: row(() => request('DELETE', '/sandboxes/torture/checkpoints/gone'), SLOW, () => request('POST', '/sandboxes/torture/checkpoints', { name: 'gone' })),
		restoreCheckpoint: row(() => request('POST', '/sandboxes/torture/checkpoints/point/restore', { files_only: true }), SLOW),
		tryBranches: row(() => request('POST', '/sandboxes/torture/branches', { branches: [{ code: 'x = 1' }] }), SLOW),
		forkSandbox: row(() => request('POST', '/sandboxes/torture/forks', { id: 'forked' }), SLOW, tool('sandbox_delete', { session_id: 'forked' })),
		listContexts: row(() => request('GET', '/sandboxes/torture/contexts')),
		makeContext: { ...row(() => request('POST', '/sandboxes/torture/contexts', { name: 'one' })), may: 409 },
		endContext: { ...row(() => request('DELETE', '/sandboxes/torture/contexts/none')), may: 404 },
		listProcesses: row(() => request('GET', '/sandboxes/processes/processes'), FEW, aProcess),
		startProcess: row(() => request('POST', '/sandboxes/processes/processes', { command: 'true', env: { A: '1' }, input: true }), SLOW, aProcess),
		getProcess: row(() => request('GET', '/sandboxes/processes/processes/p1'), FEW, aProcess),
		signalProcess: row(() => request('POST', '/sandboxes/processes/processes/p1/signal', { signal: 'CONT' }), FEW, aProcess),
		writeProcess: row(() => request('POST', '/sandboxes/processes/processes/p1/input', { text: 'x' }), FEW, aProcess),
		removeProcess: { ...row(() => request('DELETE', '/sandboxes/processes/processes/none'), FEW, aProcess), may: 404 },
		listTerminals: row(() => request('GET', '/sandboxes/terminals/terminals'), FEW, aTerminal),
		startTerminal: row(() => request('POST', '/sandboxes/terminals/terminals', { command: 'true', env: { A: '1' }, rows: 2 }), SLOW, aTerminal),
		getTerminal: row(() => request('GET', '/sandboxes/terminals/terminals/p1'), FEW, aTerminal),
		listPorts: row(() => request('GET', '/sandboxes/terminals/ports'), FEW, aTerminal),
		watchSandbox: { ...row(() => request('GET', '/sandboxes/terminals/events?path=none'), FEW, aTerminal), may: 404 },
		'watchSandbox for ports': row(() => request('GET', '/sandboxes/terminals/events?ports=true'), FEW, aTerminal),
		openPort: row(() => request('POST', '/sandboxes/terminals/ports', { port: 8000 }), FEW, aTerminal),
		removeTerminal: { ...row(() => request('DELETE', '/sandboxes/terminals/terminals/none'), FEW, aTerminal), may: 404 },
		listPackages: row(() => request('GET', '/sandboxes/torture/packages')),
		installPackages: installation(() => request('POST', '/sandboxes/torture/packages', { packages: 'alpha', wait: true }), tool('sandbox_uninstall_packages', { ...t, packages: 'alpha' })),
		checkPackages: row(() => request('GET', '/sandboxes/torture/packages/nothing')),
		lookUpPackage: installation(() => request('GET', '/sandboxes/torture/index/alpha'), undefined),
		uninstallPackages: row(() => request('DELETE', '/sandboxes/torture/packages/nothing'), SLOW),
		startRun: { ...row(() => request('POST', '/sandboxes/torture/runs', { code: 'print(1)', wait: true }), SLOW, undefined, 40), keeps: 512 }, // KEEP_MAX of rest_runs.c
		listRuns: row(() => request('GET', '/runs?limit=5')),
		getRun: row(() => request('GET', `/runs/${known.run}`)),
		cancelRun: row(() => request('DELETE', `/runs/${known.run}`)),
		followRun: row(() => request('GET', `/runs/${known.run}/events`)),
		listFiles: row(() => request('GET', '/sandboxes/torture/files')),
		'listFiles as an archive': row(() => request('GET', '/sandboxes/torture/files?archive=tar'), SLOW),
		postFiles: row(() => request('POST', '/sandboxes/torture/files?overwrite=true', form, { 'Content-Type': 'multipart/form-data; boundary=b' })),
		getFile: row(() => request('GET', '/sandboxes/torture/files/a.txt', '', { Range: 'bytes=1-5' })),
		putFile: row(() => request('PUT', '/sandboxes/torture/files/put?overwrite=true', 'x'.repeat(1000))),
		deleteFile: row(() => request('DELETE', '/sandboxes/torture/files/gone'), FEW, () => request('PUT', '/sandboxes/torture/files/gone?overwrite=true', 'x')),
		moveFile: row(() => request('PATCH', '/sandboxes/torture/files/nothing', { to: 'moved' }), SLOW),
		makeFolder: row(() => request('POST', '/sandboxes/torture/folders', { path: 'folder' }), SLOW),
		getMe: row(() => request('GET', '/me')),
		listUsers: row(() => request('GET', '/users')),
		// The server remembers who was removed until it ends.
		addUser: { ...row(() => request('POST', '/users', { name: 'bob' }), FEW, endUsers), each: 1 },
		getUser: row(() => request('GET', `/users/${known.user}`)),
		changeUser: row(() => request('PATCH', `/users/${known.user}`, { role: 'user' })),
		removeUser: { ...row(async () => request('DELETE', `/users/${known.bob}`), FEW, async () => {
			const r = await request('POST', '/users', { name: 'bob' });
			known.bob = r?.status === 201 ? (JSON.parse(r.body) as Json).id : known.bob;
		}), each: 1 },
		listKeys: row(() => request('GET', `/keys?owner=${known.user}`)),
		newKey: row(() => request('POST', `/keys?owner=${known.user}`, { name: 'k' }), FEW),
		revokeKey: row(() => request('DELETE', `/keys/00000000-0000-4000-8000-000000000000?owner=${known.user}`)),
		listInvitations: row(() => request('GET', '/invitations')),
		newInvitation: row(() => request('POST', '/invitations', {}), FEW),
		withdrawInvitation: row(() => request('DELETE', '/invitations/00000000-0000-4000-8000-000000000000')),
		listAudit: row(() => request('GET', '/audit?limit=5')),
		getPolicy: row(() => request('GET', '/policy')),
		getStats: row(() => request('GET', '/stats')),
		getFleet: { ...row(() => request('GET', '/fleet')), may: 404 },
		getServer: row(() => request('GET', '/server')),
		listImages: row(() => request('GET', '/images')),
		// There is no such definition: nothing is built.
		buildImage: { ...row(() => request('POST', '/images', { name: 'none' })), may: 404 },
		commitImage: { ...row(() => request('POST', '/sandboxes/torture/image', { name: 'none' })), may: 403 },
		removeImage: { ...row(() => request('DELETE', '/images/none')), may: 403 },
		cancelImageBuild: { ...row(() => request('DELETE', '/images/build')), may: 404 },
		getFigures: row(() => request('GET', '/figures?minutes=5')),
		followEvents: row(() => request('GET', '/events'), FEW),
		listNotebooks: row(() => request('GET', '/notebooks?limit=5')),
		getNotebook: row(() => request('GET', '/notebooks/torture?limit=5')),
		removeNotebook: row(() => request('DELETE', '/notebooks/none')),
		exportNotebook: row(() => request('GET', '/notebooks/torture/export?format=ipynb')),
		exportSandbox: row(() => request('GET', '/sandboxes/torture/export?format=html')),
		getCell: row(() => request('GET', `/notebooks/torture/runs/${known.run}`)),
		addMarkdown: row(() => request('POST', '/notebooks/torture/markdown', { text: '# note' })),
		changeMarkdown: row(() => request('PATCH', '/notebooks/torture/runs/none', { text: '# note' })),
		removeCell: row(() => request('DELETE', '/notebooks/torture/runs/none')),
		getCellResults: row(() => request('GET', `/notebooks/torture/runs/${known.run}/results`)),
		getCellFile: row(() => request('GET', `/notebooks/torture/runs/${known.run}/files/a.txt`)),
		searchHistory: row(() => request('GET', '/history?q=print&limit=5')),
		previewTable: row(() => request('GET', '/sandboxes/torture/preview?path=a.txt'), SLOW),
		completeName: row(() => request('POST', '/sandboxes/torture/complete', { code: 'pri', cursor: 3 }), SLOW),
		getUsage: row(() => request('GET', '/sandboxes/torture/usage')),
		getSession: row(() => request('GET', '/session')),
		signIn: { ...row(() => request('POST', '/session', { name: 'ada', password: 'wrong-password' }), SLOW), may: 401 },
		signOut: row(() => request('DELETE', '/session')),
		changePassword: { ...row(() => request('POST', '/me/password', { password: 'wrong-password', new_password: 'long-enough-1' }), SLOW), may: 403 },
		register: { ...row(() => request('POST', '/register', { name: 'eve', password: 'short' }), SLOW), may: 400 },
	};

	const others: Record<string, Row> = {
		'a task': row(() => server.post(rpc('tasks/list')), FEW),
		'completion': row(() => server.post(rpc('completion/complete', { ref: { type: 'ref/prompt', name: 'debug_error' }, argument: { name: 'error', value: 'x' } }))),
		'templates of resources': row(() => server.post(rpc('resources/templates/list'))),
		'subscription': row(() => server.post(rpc('resources/subscribe', { uri: 'sandbox://torture/a.txt' }))),
		'the level of the log': row(() => server.post(rpc('logging/setLevel', { level: 'error' }))),
		'a stream of notifications': row(() => server.ask('GET', '/mcp', { Accept: 'text/event-stream', 'Mcp-Session-Id': 'none' })),
		'a message of an older client': row(() => server.ask('POST', '/messages/?session_id=00000000000000000000000000000000', json, rpc('ping'))),
		'a link of the second family': row(() => server.ask('GET', '/sandbox/file?sandbox_id=none&file_path=/x')),
		'the page': row(() => server.ask('GET', '/')),
		'health': row(() => server.ask('GET', '/healthz')),
		'figures': row(() => server.ask('GET', '/metrics')),
		'a new account': row(() => request('POST', '/api/register', { username: 'eve', email: 'eve@example.org', password: 'x' })),
		'a login': { ...row(() => server.ask('POST', '/api/token', { 'Content-Type': 'application/x-www-form-urlencoded' }, 'username=ada&password=wrong-password'), SLOW), may: 401 },
		'the caller, second family': { ...row(() => server.ask('GET', '/api/users/me')), may: 401 },
	};

	const tablesAreWhole = async (): Promise<void> => {
		const r = await server.post(rpc('tools/list'));
		const listed = (JSON.parse(/^data: (.*)$/m.exec(r!.body)?.[1] ?? r!.body) as Json).result.tools.map((x: Json) => x.name as string);
		assert.deepEqual(listed.filter((n: string) => !tools[n]), []);
		const paths = (await rest('GET', '/openapi.json')).paths as Record<string, Json>;
		const ids = Object.values(paths).flatMap((p) => Object.values(p)).map((o: Json) => o.operationId as string | undefined).filter((n) => n !== undefined);
		assert.ok(ids.length > 30);
		assert.deepEqual(ids.filter((n) => !routes[n]), []);
	};
	if (part === 'tools')
		it('the tables have every tool and every route', tablesAreWhole);
	for (const [what, rows] of Object.entries({ tool: tools, route: routes, request: others }))
		for (const [name, r] of Object.entries(rows).filter(([n]) => partOf(what, n) === part))
			it(`(slow) ${what} ${name}`, { skip: r.skip }, async (x) => {
				await r.clean?.();
				x.diagnostic(await server.torture(r.ask, r));
			});
});
