// SPDX-License-Identifier: Apache-2.0
// A user names what is another's: checkpoints, forks, resources, completions, streams, tasks and histories, by ids that he was told, that he guesses and that are gone. The answer
// is that for an id that never existed, before and after the end of the other's sandbox; and who deletes while another restores leaves both as they were.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

interface Answer { status: number; body: Json; text: string }
const meta = (tasks: boolean): Json => ({ 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 't', version: '1' }, 'io.modelcontextprotocol/clientCapabilities': tasks ? { extensions: { 'io.modelcontextprotocol/tasks': {} } } : {} });

describe('what is another\'s', () => {
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_POOL: '0', SANDBOX_MAX_SESSIONS: '60', SANDBOX_TASK_AFTER_S: '1' };
	const keys: Record<string, string> = {};
	let program: Program, base: string;
	let stored: string, run: string, task: string;

	async function cli(...args: string[]): Promise<string> {
		const r = await caisson(args, { env });
		assert.equal(r.code, 0, r.stderr.toString());
		return r.stdout.toString().trim();
	}
	async function rest(who: string, method: string, target: string, json?: Json): Promise<Answer> {
		const r = await fetch(`${base}/api/v1/${target}`, { method, headers: { 'x-api-key': keys[who]!, ...(json ? { 'content-type': 'application/json' } : {}) }, body: json && JSON.stringify(json) });
		const stream = r.headers.get('content-type')?.startsWith('text/event-stream');
		const text = stream ? 'a stream' : await r.text();
		if (stream)
			await r.body!.cancel();
		return { status: r.status, text, body: text.startsWith('{') ? JSON.parse(text) as Json : {} };
	}
	async function rpc(who: string, method: string, params: Json, name?: string, tasks = method.startsWith('tasks/'), client = 't'): Promise<Json> {
		const headers: Record<string, string> = { 'x-api-key': keys[who]!, 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, ...(name ? { 'mcp-name': name } : {}) };
		const r = await fetch(`${base}/mcp`, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: { ...meta(tasks), 'io.modelcontextprotocol/clientInfo': { name: client, version: '1' } } } }) });
		const text = await r.text();
		return JSON.parse(text.startsWith('{') ? text : /^data: (\{.*"(?:result|error)".*)$/m.exec(text)?.[1] ?? '{}') as Json;
	}
	const tool = (who: string, name: string, args: Json): Promise<Json> => rpc(who, 'tools/call', { name, arguments: args }, name);
	/** Without the ids that were asked for, and what is another at each time. */
	const plain = (answer: unknown, ...ids: string[]): string =>
		ids.reduce((text, id) => text.replaceAll(id, 'ID').replaceAll(id.toUpperCase(), 'ID'), JSON.stringify(answer)).replace(/(run|sess)_\w+/g, '$1').replace(/\d+(\.\d+)?/g, 'N');

	before(async () => {
		for (const name of ['alice', 'bob']) {
			await cli('user', 'add', name, '--password', 'none');
			keys[name] = await cli('key', 'new', name);
		}
		({ program, base } = await serve({ profile: 'full', env }));
		stored = (await rest('alice', 'POST', 'sandboxes', { kind: 'stored', name: 'secretname' })).body.id;
		run = (await rest('alice', 'POST', `sandboxes/${stored}/runs`, { code: 'open("secret.txt", "w").write("of alice")', wait: true })).body.id;
		// A session of the same name for both; only hers has a state and a checkpoint.
		assert.ok((await tool('alice', 'sandbox_run_python', { session_id: 'desk', code: 'x = 41; open("secret.txt", "w").write("of alice")', stateful: true })).result);
		const point = await tool('alice', 'sandbox_checkpoint', { session_id: 'desk', name: 'herkp' });
		assert.notEqual(point.result?.isError, true, JSON.stringify(point));
		assert.ok((await tool('bob', 'sandbox_run_python', { session_id: 'desk', code: 'pass' })).result);
		const begun = await rpc('alice', 'tools/call', { name: 'sandbox_run_python', arguments: { session_id: 'task', code: 'import time; time.sleep(300)' } }, 'sandbox_run_python', true);
		task = begun.result?.taskId as string;
		assert.ok(task, JSON.stringify(begun));
	});
	after(async () => {
		await program.end();
	});

	it('"last" without a session is of the same key and client, and nobody guesses between two', async () => {
		const call = async (who: string, client: string, name: string, args: Json): Promise<Json> => (await rpc(who, 'tools/call', { name, arguments: args }, name, false, client)).result;
		const idOf = (r: Json): string => /session_id: (\w+)/.exec(r.content[0].text)![1]!;
		const none = await call('alice', 'solo', 'sandbox_list_files', { session_id: 'last' });
		assert.match(none.content[0].text, /session_not_found: You have worked in no session yet/);
		const first = await call('alice', 'solo', 'sandbox_run_python', { session_id: 'last', code: 'x = 41', stateful: true });
		const id = idOf(first);
		const again = await call('alice', 'solo', 'sandbox_run_python', { session_id: 'last', code: 'print(x + 1)', stateful: true });
		assert.deepEqual([idOf(again), again.content[0].text.split('\n')[0]], [id, '42']);
		for (const [who, client] of [['alice', 'other'], ['bob', 'solo']] as const)
			assert.match((await call(who, client, 'sandbox_list_files', { session_id: 'last' })).content[0].text, /You have worked in no session yet/, who);
		const second = idOf(await call('alice', 'solo', 'sandbox_run_python', { code: 'pass' }));
		assert.notEqual(second, id);
		const asked = (await call('alice', 'solo', 'sandbox_run_python', { session_id: 'last', code: 'pass' })).content[0].text;
		assert.ok(asked.includes(`"last" may be ${second} or ${id}`), asked);
	});
	it('a session of the same name has nothing of the other one', async () => {
		for (const [name, args] of [['sandbox_restore', {}], ['sandbox_checkpoint', { delete: true }]] as const) {
			const answers = [];
			for (const point of ['herkp', 'never'])
				answers.push(plain(await tool('bob', name, { session_id: 'desk', name: point, ...args }), point));
			assert.equal(answers[0], answers[1], name);
			assert.ok(!answers[0]!.includes('alice'));
		}
		for (const point of ['herkp', 'never']) {
			assert.equal((await rest('bob', 'POST', `sandboxes/desk/checkpoints/${point}/restore`, {})).status, 404);
			assert.equal((await rest('bob', 'DELETE', `sandboxes/desk/checkpoints/${point}`)).status, 404);
		}
		// A fork that takes the id of another user's session makes one of his own.
		const fork = await rest('bob', 'POST', 'sandboxes/desk/forks', { id: 'task' });
		assert.equal(fork.status, 201, fork.text);
		const r = await rest('bob', 'GET', 'sandboxes/task/files');
		assert.deepEqual(r.body.files, []);
		const list = await rest('alice', 'GET', 'sandboxes/desk/checkpoints');
		assert.deepEqual((list.body.checkpoints as Json[]).map((c) => c.name), ['herkp']);
		const kept = await tool('alice', 'sandbox_run_python', { session_id: 'desk', code: 'print(x, open("secret.txt").read())', stateful: true });
		assert.match(JSON.stringify(kept), /41 of alice/);
	});

	const routes = (id: string, of: string): [string, string, Json?][] => [
		['GET', `sandboxes/${id}`], ['DELETE', `sandboxes/${id}`], ['PATCH', `sandboxes/${id}`, { name: 'mine' }], ['GET', `sandboxes/${id}/checkpoints`], ['POST', `sandboxes/${id}/checkpoints`, { name: 'herkp' }],
		['POST', `sandboxes/${id}/checkpoints/herkp/restore`, {}], ['DELETE', `sandboxes/${id}/checkpoints/herkp`], ['POST', `sandboxes/${id}/branches`, { branches: [{ code: '1' }] }], ['POST', `sandboxes/${id}/forks`, {}],
		['GET', `notebooks/${id}`], ['DELETE', `notebooks/${id}`], ['GET', `notebooks/${id}/export`], ['GET', `notebooks/${id}/export?format=html`], ['GET', `sandboxes/${id}/export`], ['GET', `notebooks/${id}/runs/${of}`], ['DELETE', `notebooks/${id}/runs/${of}`], ['GET', `notebooks/${id}/runs/${of}/files/secret.txt`],
		['GET', `sandboxes/${id}/usage`], ['GET', `sandboxes/${id}/preview?path=secret.txt`], ['POST', `sandboxes/${id}/complete`, { code: 'pri', cursor: 3 }], ['GET', `runs/${of}`], ['DELETE', `runs/${of}`], ['GET', `runs/${of}/events`],
		['GET', `runs?sandbox=${id}`], ['GET', `history?sandbox=${id}`], ['GET', `history?sandbox=${id}&q=alice`], ['GET', `events?sandbox=${id}`], ['GET', `sandboxes/${id}/packages`], ['GET', `sandboxes/${id}/files?archive=tar`],
	];
	const messages = (id: string, taskId: string): [string, Json, string?][] => [
		['resources/read', { uri: `sandbox://${id}/secret.txt` }, `sandbox://${id}/secret.txt`],
		...['tasks/get', 'tasks/cancel', 'tasks/result'].map((m): [string, Json, string] => [m, { taskId }, taskId]),
		['completion/complete', { ref: { type: 'ref/resource', uri: 'sandbox://{id}/{+path}' }, argument: { name: 'path', value: '' }, context: { arguments: { id } } }],
		['completion/complete', { ref: { type: 'ref/resource', uri: 'sandbox://{id}/{+path}' }, argument: { name: 'id', value: id.slice(0, 4) } }],
		...[['sandbox_restore', { name: 'herkp' }], ['sandbox_branch', { branches: [{ code: 'print(open("secret.txt").read())' }] }], ['sandbox_fork', {}], ['sandbox_checkpoint', { name: 'herkp', delete: true }], ['sandbox_info', {}], ...['list', 'output', 'wait', 'input', 'signal', 'remove'].map((action): [string, Json] => ['sandbox_process', { action, process_id: 'p1' }]), ['sandbox_delete', {}]].map(([name, args]): [string, Json, string] =>
			['tools/call', { name, arguments: { session_id: id, ...(args as Json) } }, name as string]),
	];
	/** Bob asks for everything by hers and by nobody's ids: the same answers, and nothing of hers in them. */
	async function asks(id: string, of: string, taskId: string, what: string): Promise<void> {
		const nobody = id === 'task' ? `none-${randomUUID()}` : randomUUID(), noRun = `run_${randomUUID()}`, noTask = randomUUID();
		for (const [i, [method, target, json]] of routes(id, of).entries()) {
			const other = routes(nobody, noRun)[i]!;
			const [hers, none] = [await rest('bob', method, target, json), await rest('bob', other[0], other[1], other[2])];
			assert.equal(plain([hers.status, hers.text], id, of), plain([none.status, none.text], nobody, noRun), `${what}: ${method} ${target}`);
			assert.doesNotMatch(hers.text, /of alice|secretname/, `${what}: ${method} ${target}`);
		}
		for (const [i, [method, params, name]] of messages(id, taskId).entries()) {
			const other = messages(nobody, noTask)[i]!;
			const [hers, none] = [await rpc('bob', method, params, name), await rpc('bob', other[0], other[1], other[2])];
			assert.equal(plain(hers, id, taskId), plain(none, nobody, noTask), `${what}: ${method} ${JSON.stringify(params)}`);
			assert.doesNotMatch(JSON.stringify(hers), /of alice|secretname/, `${what}: ${method}`);
		}
	}

	it('ids that he was told', async () => {
		await asks(stored, run, task, 'a stored sandbox');
		const [alice, gone] = [await rpc('alice', 'tasks/get', { taskId: task }, task), await rest('alice', 'GET', `sandboxes/${stored}/files/secret.txt`)];
		assert.equal(alice.result?.status, 'working', JSON.stringify(alice));
		assert.equal(gone.text, 'of alice');
	});

	it('ids that he guesses: other spellings of hers', async () => {
		for (const id of [stored.toUpperCase(), stored.replaceAll('-', ''), `${stored}%00`, `${stored}%2f`, `%2e%2e%2f${stored}`, `${stored} `, `alice/${stored}`, stored.slice(0, 35)])
			for (const [method, target, json] of routes(encodeURI(id).replaceAll('%25', '%'), run).slice(0, 9)) {
				const r = await rest('bob', method, target, json);
				assert.ok([400, 404, 405].includes(r.status), `${method} ${target}: ${r.status} ${r.text}`);
				assert.doesNotMatch(r.text, /of alice|secretname/);
			}
		for (const uri of [`sandbox://${stored}/../${stored}/secret.txt`, `sandbox://${stored.toUpperCase()}/secret.txt`, `sandbox:///${stored}/secret.txt`, `sandbox://alice@${stored}/secret.txt`]) {
			const r = await rpc('bob', 'resources/read', { uri }, uri);
			assert.ok(r.error, JSON.stringify(r));
		}
	});

	it('one deletes while others restore, fork and name it: each answer is typed, and the next sandbox of that id is empty', async () => {
		for (let round = 0; round < 6; round++) {
			const id = `race${round}`;
			const begun = await tool('alice', 'sandbox_run_python', { session_id: id, code: 'x = 1; open("secret.txt", "w").write("of alice")', stateful: true });
			assert.notEqual(begun.result?.isError, true, JSON.stringify(begun));
			assert.equal((await rest('alice', 'POST', `sandboxes/${id}/checkpoints`, { name: 'p' })).status, 201);
			const all = await Promise.all([
				rest('alice', 'POST', `sandboxes/${id}/checkpoints/p/restore`, {}),
				rest('alice', 'POST', `sandboxes/${id}/forks`, { id: `fork${round}` }),
				rest('alice', 'DELETE', `sandboxes/${id}?force=true`),
				rest('alice', 'POST', `sandboxes/${id}/checkpoints/p/restore`, {}),
				rest('bob', 'POST', `sandboxes/${id}/checkpoints/p/restore`, {}),
				rest('bob', 'DELETE', `sandboxes/${id}?force=true`),
			]);
			for (const [i, r] of all.entries()) {
				assert.ok(r.status < 300 || r.body.code, `${i}: ${r.status} ${r.text}`);
				assert.ok(r.status !== 500, `${i}: ${r.text}`);
			}
			assert.deepEqual([all[4]!.status, all[5]!.status], [404, 404]);
			await rest('alice', 'DELETE', `sandboxes/${id}?force=true`);
			await until('it to be gone', async () => [404, 410].includes((await rest('alice', 'GET', `sandboxes/${id}`)).status));
			// The id is free for either of them, and has nothing of before.
			for (const who of ['bob', 'alice']) {
				const again = await tool(who, 'sandbox_run_python', { session_id: id, code: 'import os; print(os.listdir("."), "x" in globals())', stateful: true });
				assert.match(JSON.stringify(again), /\[\] False/);
				assert.equal((await rest(who, 'POST', `sandboxes/${id}/checkpoints/p/restore`, {})).status, 404);
				assert.equal((await rest(who, 'DELETE', `sandboxes/${id}?force=true`)).status, 204);
			}
			await rest('alice', 'DELETE', `sandboxes/fork${round}?force=true`);
		}
	});

	it('ids that are gone', async () => {
		await rpc('alice', 'tasks/cancel', { taskId: task }, task);
		assert.equal((await rest('alice', 'DELETE', `sandboxes/${stored}?force=true`)).status, 204);
		await asks(stored, run, task, 'a deleted stored sandbox');
		assert.equal((await rest('alice', 'GET', `notebooks/${stored}`)).status, 200, 'her history stays');
	});
});
