// SPDX-License-Identifier: Apache-2.0
// sandbox_process of the profile `full`: background processes for models. What they are is in rest_processes.test.ts.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import * as http from 'node:http';
import { after, before, describe, it } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { engineEnv, newStateDir } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { facts, matrix, serve, using, type Json, type ToolResult } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const TOOL = 'sandbox_process';
const gvisor = engineEnv.SANDBOX_RUNTIME === 'runsc';
const text = (r: ToolResult): string => r.content[0]!.text as string;
const LOOP = 'while :; do sleep .02; done';
const FETCH = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8123/', timeout=20).status)";

matrix('sandbox_process', { profile: 'full', env: { SANDBOX_MAX_CODE_BYTES: '50000', SANDBOX_RESULT_CHARS: '8000' } }, (s) => {
	let serial = 0;
	const inside = (name: string, fn: (id: string) => Promise<void>): void => {
		it(name, async () => {
			const id = `proc-${serial++}`;
			await s().ok('1', id);
			await fn(id);
			await s().raw('sandbox_delete', { session_id: id });
		});
	};
	const does = (action: string, args: Json): Promise<Json> => s().call(TOOL, { action, ...args });
	const fails = async (args: Json, code: string, message: RegExp, hint: RegExp): Promise<void> => {
		const r = await s().raw(TOOL, args);
		const said = r.structuredContent ?? {};
		assert.deepEqual([r.isError, said.error], [true, code], text(r));
		assert.match(said.message, message);
		assert.match(said.hint, hint);
		assert.ok(text(r).startsWith(`${code}: `), text(r));
	};
	/** The output grows until it has WORDS. */
	const says = async (at: Json, words: string): Promise<Json> => {
		let all = '', p: Json = { next: '0:0' };
		while (!all.includes(words)) {
			assert.notEqual(p.state, 'ended', all);
			p = await does('output', { ...at, since: p.next, wait_s: 20 });
			all += p.stdout;
		}
		return { ...p, stdout: all };
	};

	inside('a server that one call starts answers later runs, until it is removed', async (session_id) => {
		const r = await s().raw(TOOL, { action: 'start', session_id, command: 'python3 -u -m http.server 8123 -b 127.0.0.1 2>&1', name: 'web' });
		const p = facts(r);
		assert.deepEqual([p.session_id, p.process_id, p.name, p.state], [session_id, 'p1', 'web', 'running']);
		assert.match(text(r), /^Process p1 \(web\): running for \d+\.\d s\.\n/);
		const at = { session_id, process_id: p.process_id };
		await says(at, 'Serving HTTP');
		assert.equal((await s().ok(FETCH, session_id)).stdout, '200\n');
		assert.match((await says(at, ' 200 ')).stdout, /GET \/ HTTP/);
		const list = await s().raw(TOOL, { action: 'list', session_id });
		assert.match(text(list), /^- p1 \(web\): running for \d+\.\d s: python3 -u -m http\.server/);
		assert.deepEqual(facts(list).processes.map((k: Json) => [k.process_id, k.name, k.state]), [['p1', 'web', 'running']]);
		if (!gvisor) { // an address for people, where there is a server for it
			const ports = facts(list).ports as Json[];
			assert.deepEqual(ports.map((k) => k.port), [8123]);
			assert.equal(text(list).includes(`Port 8123 is listened on${ports[0]!.url ? `; for people: ${ports[0]!.url}` : '.'}\n`), true, text(list));
			assert.deepEqual((await does('output', at)).ports.map((k: Json) => [k.port, 'url' in k]), [[8123, s().base !== undefined]]);
			assert.equal('url' in ports[0]!, s().base !== undefined);
			if (s().base) {
				assert.match(ports[0]!.url, new RegExp(`^http://8123-${session_id}\\.localhost:${new URL(s().base!).port}/\\?caisson-port=`));
				const path = new URL(ports[0]!.url).search;
				const r = http.get({ host: '127.0.0.1', port: new URL(s().base!).port, path: `/${path}`, headers: { host: new URL(ports[0]!.url).host } });
				const [said] = await once(r, 'response') as [http.IncomingMessage];
				said.resume();
				assert.equal(said.statusCode, 303);
			}
		}
		const gone = await s().raw(TOOL, { action: 'remove', ...at });
		assert.match(text(gone), /^Process p1 \(web\): it is removed; ended with exit_code -?\d+ after \d+\.\d s \(cancelled\)\.\n/);
		assert.match(text(await s().raw(TOOL, { action: 'list', session_id })), /^There are no background processes\.\n/);
		await fails({ action: 'output', ...at }, 'not_found', /has no process p1$/, /^It has none: action start makes one/);
	});

	it('start makes a session where none is given, and the client goes on there with "last"', async () => {
		const p = await does('start', { command: 'echo on; exec sleep 1000' });
		assert.match(p.session_id, /^[\w-]+$/);
		assert.deepEqual((await does('list', { session_id: 'last' })).session_id, p.session_id);
		const named = await does('start', { command: 'echo on', session_id: 'not-there-yet' });
		assert.equal(named.session_id, 'not-there-yet');
		await fails({ action: 'list', session_id: 'nowhere' }, 'session_not_found', /nowhere/, /session_id/);
		await fails({ action: 'list' }, 'invalid_session_id', /./, /session_id/);
		for (const id of [p.session_id, 'not-there-yet']) await s().raw('sandbox_delete', { session_id: id });
	});

	inside('an answer tells how one ended, and a start tells it at once', async (session_id) => {
		const gone = await s().raw(TOOL, { action: 'start', session_id, command: 'echo out; echo no >&2; exit 3', wait_s: 30 });
		assert.match(text(gone), /^Process p1: ended with exit_code 3 after \d+\.\d s\.\nout\nstderr:\nno\n\[session_id: \S+, process_id: p1, next: 4:3\]\n$/);
		const { state, exit_code, reason, stdout, stderr, next } = facts(gone);
		assert.deepEqual([state, exit_code, reason, stdout, stderr, next], ['ended', 3, 'exited', 'out\n', 'no\n', '4:3']);
		const place = await s().raw(TOOL, { action: 'start', session_id, command: 'true', cwd: 'no/such', wait_s: 30 });
		assert.match(text(place), /^Process p2: not started, not_found: /);
		assert.equal(facts(place).error, 'not_found');
		const late = await does('start', { session_id, command: `trap 'echo bye; exit 0' TERM; ${LOOP}`, timeout_s: 1, wait_s: 30 });
		assert.deepEqual([late.reason, late.stdout], ['timeout', 'bye\n']);
		const bash = await does('start', { session_id, command: 'a=(x y); echo ${a[1]} $ONE; pwd', cwd: '/tmp', env: { ONE: '1' }, wait_s: 30 });
		assert.equal(bash.stdout, 'y 1\n/tmp\n');
		const used = await does('start', { session_id, command: `trap 'exit 7' USR1; echo on; ${LOOP}` });
		const at = { session_id, process_id: used.process_id };
		await says(at, 'on');
		const usr = await s().raw(TOOL, { action: 'signal', ...at, signal: 'SIGUSR1', wait_s: 30 });
		assert.match(text(usr), /^Process p5: USR1 was sent; ended with exit_code 7 /);
		const term = await does('start', { session_id, command: 'exec sleep 1000' });
		assert.equal((await does('signal', { session_id, process_id: term.process_id, wait_s: 30 })).reason, 'signaled');
		const waited = await does('start', { session_id, command: 'read -r line; exit 4', input: true });
		const end = does('wait', { session_id, process_id: waited.process_id });
		await does('close_input', { session_id, process_id: waited.process_id });
		assert.equal((await end).exit_code, 4);
		assert.equal((await does('wait', { session_id, process_id: used.process_id })).exit_code, 7, 'of one that has ended, at once');
	});

	inside('input is answered with what comes after it', async (session_id) => {
		const p = await does('start', { session_id, command: 'echo ready; while read -r line; do echo "<$line>"; done; echo end', input: true });
		const at = { session_id, process_id: p.process_id };
		await says(at, 'ready');
		const r = await s().raw(TOOL, { action: 'input', ...at, text: 'ä b\n', wait_s: 30 });
		assert.match(text(r), /^Process p1: it was given 5 bytes; running for \d+\.\d s\.\n<ä b>\n\[/);
		assert.equal(facts(r).stdout, '<ä b>\n');
		assert.equal((await does('close_input', { ...at, wait_s: 30 })).exit_code, 0);
		await fails({ action: 'input', ...at, text: 'x' }, 'invalid_argument', /has ended/, /./);
		await fails({ action: 'input', ...at }, 'invalid_argument', /input needs text/, /./);
		const deaf = await does('start', { session_id, command: 'exec sleep 1000', input: true });
		const to = { session_id, process_id: deaf.process_id };
		await does('input', { ...to, text: 'x'.repeat(65536), wait_s: 0 });
		await fails({ action: 'input', ...to, text: 'y' }, 'server_busy', /bytes of input to read yet/, /does not read/);
		await fails({ action: 'input', ...to, text: 'x'.repeat(65537) }, 'invalid_argument', /at most 65536/, /./);
	});

	inside('output is a bounded view, or all of it in order with since', async (session_id) => {
		const p = await does('start', { session_id, command: "python3 -c \"for i in range(20000): print('%07d' % i)\"", wait_s: 30 });
		const at = { session_id, process_id: p.process_id };
		assert.equal(p.state, 'ended');
		const view = await does('output', at);
		assert.ok(view.stdout.length < 9000 && view.stdout.endsWith('0019999\n'), view.stdout.slice(-100));
		assert.match(view.stdout, /bytes/);
		assert.equal(view.next, '160000:0');
		let next = '0:0', all = '', lost = 0, answers = 0;
		for (let more = true; more; answers++) {
			const r = await s().raw(TOOL, { action: 'output', ...at, since: next });
			const q = facts(r);
			assert.ok(text(r).length < 9000, `${text(r).length}`);
			lost += q.stdout_lost_bytes ?? 0;
			all += q.stdout;
			next = q.next;
			more = q.later_bytes > 0;
			assert.equal(/bytes more, with since\]/.test(text(r)), more);
		}
		assert.deepEqual([lost + all.length, next, answers > 3], [160000, '160000:0', true]);
		assert.equal(all, Array.from({ length: 20000 }, (_, i) => `${String(i).padStart(7, '0')}\n`).join('').slice(lost));
		assert.equal((await does('output', { ...at, since: '999999999:5' })).stdout, '');
	});

	inside('a wait holds nobody, and a cancelled one leaves the process alone', async (session_id) => {
		const p = await does('start', { session_id, command: 'exec sleep 1000' });
		const at = { session_id, process_id: p.process_id };
		const leave = new AbortController();
		const waits = s().raw(TOOL, { action: 'wait', ...at, wait_s: 50 }, { signal: leave.signal });
		const other = does('wait', { ...at, wait_s: 50 });
		assert.equal((await s().ok('print(1)', session_id)).stdout, '1\n');
		leave.abort();
		await assert.rejects(waits);
		assert.equal((await does('output', at)).state, 'running');
		await does('signal', { ...at, signal: 'KILL' });
		assert.equal((await other).reason, 'cancelled');
		assert.equal((await does('wait', { session_id, process_id: (await does('start', { session_id, command: 'exec sleep 1000' })).process_id, wait_s: 0 })).state, 'running');
	});

	inside('what cannot be done is said, with what can', async (session_id) => {
		const p = await does('start', { session_id, command: 'exec sleep 1000', name: 'one\ntwo' });
		const at = { session_id, process_id: p.process_id };
		await fails({ action: 'output', session_id, process_id: 'p9' }, 'not_found', /has no process p9$/, /^There are: p1 \("one\\ntwo"\) runs$/);
		await fails({ action: 'output', session_id }, 'invalid_argument', /output needs process_id/, /action list/);
		await fails({ action: 'output', session_id, process_id: '' }, 'invalid_argument', /needs process_id/, /action list/);
		await fails({ action: 'output', session_id, process_id: 'x'.repeat(100_000) }, 'not_found', /has no process/, /^There are: /);
		await fails({ action: 'output', ...at, since: '12' }, 'invalid_argument', /since/, /"12:0"/);
		for (const since of ['', ':', '1:', '-1:0', '1:2:3', '99999999999999999999:0', 'x'.repeat(70_000)])
			await fails({ action: 'output', ...at, since }, 'invalid_argument', /since/, /"12:0"/);
		for (const action of ['', 'stop', 'START', 'start\0', 'x'.repeat(100_000)])
			await fails({ action, session_id }, 'invalid_argument', /no such action/, /start\|list\|output/);
		for (const signal of ['', 'SEGV', '9', 'SIG', 'x'.repeat(100_000)])
			await fails({ action: 'signal', ...at, signal }, 'invalid_argument', /signal must be one of HUP\|INT/, /./);
		await fails({ action: 'start', session_id }, 'invalid_argument', /start needs command/, /command/);
		await fails({ action: 'start', session_id, command: '' }, 'invalid_argument', /start needs command/, /command/);
		await fails({ action: 'start', session_id, command: 'a\0b' }, 'invalid_argument', /NUL byte/, /./);
		await fails({ action: 'start', session_id, command: 'x'.repeat(50_001) }, 'code_too_large', /50001 bytes, the limit is 50000/, /sandbox_write_file/);
		await fails({ action: 'start', session_id, command: 'x'.repeat(200_000) }, 'code_too_large', /200000 bytes/, /sandbox_write_file/);
		await fails({ action: 'start', session_id, command: 'true', name: 'x'.repeat(65) }, 'invalid_argument', /name cannot be used/, /short/);
		await fails({ action: 'start', session_id, command: 'true', cwd: 'x'.repeat(100_000) }, 'invalid_argument', /cwd cannot be used/, /short/);
		await fails({ action: 'start', session_id, command: 'true', env: { '=': '1' } }, 'invalid_argument', /./, /./);
		await fails({ action: 'start', session_id, command: 'true', env: { A: 'x'.repeat(100_000) } }, 'invalid_argument', /too long/, /./);
		await fails({ action: 'wait', ...at, wait_s: 51 }, 'invalid_argument', /wait_s/, /./);
		await fails({ action: 'wait', ...at, wait_s: -1 }, 'invalid_argument', /wait_s/, /./);
		await fails({ action: 'start', session_id, command: 'true', timeout_s: 1e15 }, 'invalid_argument', /timeout_s/, /./);
		for (const args of [{}, { action: 5, session_id }, { action: ['start'], session_id }, { action: 'start', session_id, command: { a: 1 } }, { action: 'start', session_id, command: 'true', env: 'A=1' }, { action: 'wait', ...at, wait_s: 'long' }, { action: 'start', session_id, command: 'true', input: 'perhaps' }])
			assert.equal((await s().raw(TOOL, args)).isError, true, JSON.stringify(args));
		assert.deepEqual((await does('list', { session_id })).processes.map((k: Json) => k.process_id), ['p1'], 'nothing was started');
	});

	inside('a run whose background process ends with it names the tool, one of a session says that it rests', async (session_id) => {
		const HINT = /^A background process of this run was ended with it: sandbox_process with action start keeps one running beside later runs\.$/;
		const hint = async (tool: string, args: Json): Promise<string> => (await s().call(tool, { session_id, ...args })).hint ?? '';
		const popen = 'import subprocess\np = subprocess.Popen(["sleep", "99"])';
		for (const command of ['nohup sleep 99 &', 'sleep 99 & echo on', 'setsid -f sleep 99', '(sleep 99 &) ; true', 'sleep 99 >/dev/null 2>&1 &\ndisown'])
			assert.match(await hint('sandbox_run_shell', { command }), HINT, command);
		for (const code of [popen, 'import os\nos.system("sleep 99 &")', '!sleep 99 &'])
			assert.match(await hint('sandbox_run_python', { code }), HINT, code);
		for (const command of ['sleep 0 & wait', 'true && true', 'echo a 2>&1', 'echo "a&b"'])
			assert.equal(await hint('sandbox_run_shell', { command }), '', command);
		assert.match(await hint('sandbox_run_python', { code: popen, stateful: true }), /^Threads and processes that are left rest now, /);
		assert.equal(await hint('sandbox_run_python', { code: 'print(6 & 3)' }), '');
	});

	inside('the limit of processes is that of the sandbox', async () => {
		const { session_id } = await s().call('sandbox_create', { processes: 4 });
		for (let i = 0; i < 4; i++) await does('start', { session_id, command: 'exec sleep 1000', wait_s: 0 });
		await fails({ action: 'start', session_id, command: 'true' }, 'quota_exceeded', /4 background processes/, /action remove/);
		await does('remove', { session_id, process_id: 'p1', wait_s: 30 });
		assert.equal((await does('start', { session_id, command: 'exec sleep 1000', wait_s: 0 })).state, 'running');
		await s().raw('sandbox_delete', { session_id });
	});
});

describe('sandbox_process and the rest of a server', () => {
	let program: Program;
	let base: string;
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: 'an-administrators-key-of-the-server' };
	const key = async (user: string): Promise<string> => {
		await caisson(['user', 'add', user, '--password', 'none'], { env: { ...env, SANDBOX_API_KEY: '' } });
		return /csn_\S+/.exec((await caisson(['key', 'new', user], { env: { ...env, SANDBOX_API_KEY: '' } })).stdout.toString())![0];
	};
	async function ask(path: string, method = 'GET'): Promise<Json> {
		const r = await fetch(`${base}/api/v1${path}`, { method, headers: { 'x-api-key': env.SANDBOX_API_KEY } });
		const body = await r.text();
		assert.ok(r.ok, body);
		return body ? JSON.parse(body) : {};
	}
	async function client(how: 'mcp' | 'sse', as: string): Promise<Client> {
		const c = new Client({ name: 'caisson-tests', version: '1.0.0' });
		const requestInit = { headers: { 'x-api-key': as } };
		await c.connect(how === 'mcp' ? new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { requestInit }) : new SSEClientTransport(new URL(`${base}/sse`), { requestInit, eventSourceInit: { fetch: (url, init) => fetch(url, { ...init, headers: { ...init?.headers, 'x-api-key': as } }) } }));
		return c;
	}
	const call = async (c: Client, args: Json): Promise<Json> => facts(await c.callTool({ name: TOOL, arguments: args }) as ToolResult);

	before(async () => {
		({ program, base } = await serve({ profile: 'full', env }));
	});
	after(async () => {
		await program.end();
	});

	it('REST has the same ones, over SSE too, and the audit log has who did it', async () => {
		const c = await client('sse', env.SANDBOX_API_KEY);
		const { session_id, process_id } = await call(c, { action: 'start', command: 'echo on; exec sleep 1000', session_id: 'shared' });
		assert.deepEqual((await ask(`/sandboxes/${session_id}/processes`)).processes.map((p: Json) => [p.id, p.state, p.command]), [[process_id, 'running', 'echo on; exec sleep 1000']]);
		await call(c, { action: 'signal', session_id, process_id, signal: 'KILL', wait_s: 30 });
		assert.equal((await ask(`/sandboxes/${session_id}/processes/${process_id}`)).reason, 'cancelled');
		await call(c, { action: 'input', session_id, process_id, text: 'x' });
		const rows = ((await ask('/audit?limit=50')).rows as Json[]).filter((r) => r.action.startsWith('process.')).reverse();
		assert.deepEqual(rows.map((r) => [r.action, r.object, r.result]), [['process.start', 'shared p1', 'ok'], ['process.signal', 'shared p1', 'ok'], ['process.input', 'shared p1', 'invalid_argument']]);
		await c.close();
	});

	it('a closed connection leaves it alone, a revoked key ends it', async () => {
		const anna = await key('anna');
		const first = await client('mcp', anna);
		const { session_id, process_id } = await call(first, { action: 'start', command: 'exec sleep 1000' });
		void first.callTool({ name: TOOL, arguments: { action: 'wait', session_id, process_id, wait_s: 50 } }).catch(() => undefined);
		await first.close();
		const second = await client('mcp', anna);
		assert.equal((await call(second, { action: 'output', session_id, process_id })).state, 'running');
		const user = (await ask('/users')).users.find((u: Json) => u.name === 'anna').id;
		const at = `/sandboxes/${session_id}/processes/${process_id}?owner=${user}`;
		assert.equal((await ask(at)).state, 'running');
		const row = (await (await fetch(`${base}/api/v1/keys`, { headers: { 'x-api-key': anna } })).json() as Json).keys[0];
		await ask(`/keys/${row.id}?owner=${user}`, 'DELETE').catch(async () => {
			const r = await fetch(`${base}/api/v1/keys/${row.id}`, { method: 'DELETE', headers: { 'x-api-key': anna } });
			assert.equal(r.status, 204);
		});
		await until('the end of the process', async () => (await ask(at)).state === 'ended');
		await second.close().catch(() => undefined);
	});

	it('the command line starts, lists and ends the same ones', async () => {
		const c = await client('mcp', env.SANDBOX_API_KEY);
		const { session_id } = await call(c, { action: 'start', command: 'exec sleep 1000', session_id: 'shell' });
		const at = ['--listen', base.slice('http://'.length)];
		const run = async (args: string[], code = 0): Promise<string> => {
			const r = await caisson(args, { env: { SANDBOX_API_KEY: env.SANDBOX_API_KEY } });
			assert.equal(r.code, code, r.stderr.toString());
			return (code === 0 ? r.stdout : r.stderr).toString();
		};
		const words = ['a b', "it's", '$HOME', '"', '*', '--json', ''];
		assert.equal(await run(['exec', ...at, '-d', '--name', 'words', session_id, '--', 'printf', '<%s>', ...words]), 'p2\n');
		assert.equal((await call(c, { action: 'wait', session_id, process_id: 'p2' })).stdout, words.map((w) => `<${w}>`).join(''));
		assert.match(await run(['ps', ...at, session_id]), /^ID +STATE +AGE +NAME +COMMAND\np1 +running +\d+s +exec sleep 1000\np2 +exit 0 +0s +words +'printf' '<%s>' 'a b' /);
		assert.deepEqual(JSON.parse(await run(['ps', ...at, session_id, '--json'])).processes.map((p: Json) => p.id), ['p1', 'p2']);
		assert.ok(JSON.parse(await run(['ps', ...at, '--json'])).sandboxes.some((b: Json) => b.id === session_id));
		assert.equal(JSON.parse(await run(['exec', ...at, '-d', '--json', session_id, '--', 'sleep', '1000'])).id, 'p3');
		assert.equal(await run(['kill', ...at, session_id, 'p1']), '');
		assert.equal(await run(['kill', ...at, '-s', 'SIGKILL', session_id, 'p3']), '');
		assert.equal((await call(c, { action: 'wait', session_id, process_id: 'p1' })).reason, 'signaled');
		assert.equal((await call(c, { action: 'wait', session_id, process_id: 'p3' })).reason, 'cancelled');
		assert.match(await run(['kill', ...at, session_id, 'p9'], 66), /has no process p9/);
		assert.match(await run(['kill', ...at, '-s', 'SEGV', session_id, 'p1'], 64), /signal/);
		assert.match(await run(['ps', ...at, 'nowhere'], 66), /nowhere/);
		for (const args of [['kill', session_id], ['kill', '../x', 'p1'], ['kill', session_id, 'p1/x'], ['ps', 'a/b'], ['exec', '-d', session_id], ['exec', session_id, '--', 'true'], ['exec', '-d', '--', 'true'], ['exec', '-d', 'a b', '--', 'true']])
			assert.match(await run([...args.slice(0, 1), ...at, ...args.slice(1)], 64), /^caisson (kill|ps|exec): /, args.join(' '));
		await c.close();
	});

	it('the exact profiles have no such tool', async () => {
		for (const profile of ['code', 'classic'])
			await using('stdio', { profile }, async (s) => {
				assert.ok(!(await s.client.listTools()).tools.some((t) => t.name === TOOL));
			});
	});
});
