// SPDX-License-Identifier: Apache-2.0
// What clients of the first original (mcp-code-sandbox) do, and what they got there.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { asProductUser, binary, freePort, productEnv, scratch } from '../../lib/env.ts';
import { RawClient } from '../../lib/raw.ts';
import { using, type Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import { first, type Env } from './clients.ts';
import { agrees, type Row } from './row.ts';

const original = 'first';
const CODES = ['invalid_session_id', 'invalid_filename', 'invalid_path', 'upload_too_large', 'invalid_content', 'file_exists', 'code_too_large', 'max_sessions',
	'session_busy', 'session_not_found', 'not_found', 'artifact_too_large', 'docker_error', 'docker_unavailable', 'execution_failed'];

/** Programs with worker processes, and what they print. Both originals ran them. */
export const WORKERS = `
import multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor
def square(x): return x * x
def tell(q): q.put('child')
if __name__ == '__main__':
    with mp.Pool(2) as pool: print(pool.map(square, range(4)))
    with ProcessPoolExecutor(2) as pool: print(list(pool.map(square, range(4))))
    q = mp.Queue(); p = mp.Process(target=tell, args=(q,)); p.start(); print(q.get()); p.join()
    with mp.get_context('spawn').Pool(1) as pool: print(pool.map(square, [5]))
    print(__file__.endswith('.py'))`;
export const WORKERS_PRINT = '[0, 1, 4, 9]\n[0, 1, 4, 9]\nchild\n[25]\nTrue\n';

/** A server of the first family that FOLDER's client started, after one run. Its log is where the settings in ENV say. */
async function runIn(folder: string, env: Env): Promise<RawClient> {
	const client = new RawClient({ cwd: folder, env: { SANDBOX_LOG_FILE: undefined, SANDBOX_HTTP_PORT: String(await freePort()), ...env } });
	await client.initialize();
	assert.equal((await client.tool('sandbox_run_python', { code: 'print(1)', session_id: 'logged' })).stdout, '1\n');
	return client;
}

/** The lines of the log FILE, relative to the folder that the server was started in, when EVENT is among them. */
async function logOf(file: string, env: Env, event: string): Promise<string[]> {
	const folder = scratch('logs');
	const client = await runIn(folder, env);
	try {
		const text = await until(`${event} in ${file}`, () => {
			const seen = fs.existsSync(path.join(folder, file)) ? fs.readFileSync(path.join(folder, file), 'utf8') : '';
			return seen.includes(event) && seen.endsWith('\n') && seen;
		}, 10_000);
		return text.trimEnd().split('\n');
	} finally {
		await client.end();
	}
}

export const firstRows: Row[] = [
	{
		original, name: 'the command mcp-code-sandbox is the server',
		page: {
			topic: 'command', there: '`mcp-code-sandbox`, stdio only',
			here: 'the same name (`make install`), or `caisson stdio --profile code`; over HTTP `caisson serve --profile code`, address `/mcp`',
		},
		run: async () => {
			const folder = scratch('names');
			fs.symlinkSync(binary, path.join(folder, 'mcp-code-sandbox'));
			const argv = asProductUser([path.join(folder, 'mcp-code-sandbox')]);
			const client = new Client({ name: 'originals', version: '1' });
			await client.connect(new StdioClientTransport({ command: argv[0]!, args: argv.slice(1), env: productEnv({ SANDBOX_HTTP_PORT: String(await freePort()) }), stderr: 'ignore' }));
			assert.equal(client.getServerVersion()!.name, 'code_sandbox_mcp');
			assert.deepEqual((await client.listTools()).tools.map((t) => t.name).sort(),
				['sandbox_close_session', 'sandbox_list_artifacts', 'sandbox_read_artifact', 'sandbox_run_python', 'sandbox_upload_file']);
			await client.close();
			await using('http', { profile: 'code' }, async (s) => assert.equal((await s.run('print("over HTTP")')).stdout, 'over HTTP\n'));
		},
	},
	{
		original, name: 'the workflow of its README',
		page: { topic: 'tools', there: 'five `sandbox_*` tools', here: 'the same names, schemas, answers and texts of errors in the profiles `code` and `both`; the descriptions of the tools are in our own words, and the answer of a run also has `reason`: why it ended' },
		run: () => first({}, async (s) => {
			const uploaded = await s.upload('sales.csv', 'region,amount\nn,100\ns,500\n');
			agrees(uploaded, { session_id: /^sess_[0-9a-f]{12}$/, path: '/mnt/data/sales.csv' });
			const id = uploaded.session_id;
			const run = await s.run('import csv\ntotal = sum(int(r["amount"]) for r in csv.DictReader(open("sales.csv")))\nprint(total)\nopen("total.txt", "w").write(str(total))', id);
			agrees(run, {
				session_id: id, run_id: /^run_\d{8}T\d{6}Z_[0-9a-f]{4}$/, exit_code: 0, stdout: '600\n', stderr: '', stdout_truncated: false, stderr_truncated: false,
				artifacts: [{ path: '/mnt/data/total.txt', filename: 'total.txt', size_bytes: 3, mime_type: 'text/plain', download_url: new RegExp(`^http://localhost:\\d+/files/${id}/total.txt$`) }],
				duration_ms: /^\d+$/, reason: 'exited', // the one name that is ours: why the run ended
			});
			const link = await fetch(run.artifacts[0].download_url);
			assert.deepEqual([await link.text(), link.headers.get('content-type')], ['600', 'text/plain; charset=utf-8']);
			agrees(await s.call('sandbox_read_artifact', { session_id: id, path: '/mnt/data/total.txt' }),
				{ path: '/mnt/data/total.txt', filename: 'total.txt', mime_type: 'text/plain', size_bytes: 3, content_base64: 'NjAw' });
			agrees(await s.upload('sales.csv', 'x', id), { error: 'file_exists', message: 'sales.csv already exists. Set overwrite=true to replace.', size_bytes: null, download_url: null });
			agrees(await s.close(id), { status: 'closed' });
			agrees(await s.call('sandbox_list_artifacts', { session_id: id }), { error: 'session_not_found', message: `No active session with id ${id}`, size_bytes: null, download_url: null });
		}),
	},
	{
		original, name: 'what a run leaves behind, and what it finds',
		page: {
			topic: 'processes, `/tmp`, environment', there: 'processes that a run left went on in its session',
			here: 'they end with the run (in the profile `full`, `sandbox_process` keeps one running). `/tmp` has the folders `.caisson` and `.config`; `PATH` is `/usr/local/bin:/usr/bin:/bin`, and `MPLCONFIGDIR`, `PYTHON_CPU_COUNT` and `OMP_NUM_THREADS` are set',
		},
		run: () => first({}, async (s) => {
			const found = await s.run('import os, subprocess\nsubprocess.Popen(["sleep", "500"])\nprint(sorted(os.listdir("/tmp")), os.environ["PATH"], {"MPLCONFIGDIR", "PYTHON_CPU_COUNT", "OMP_NUM_THREADS"} <= set(os.environ))');
			assert.equal(found.stdout, "['.caisson', '.config'] /usr/local/bin:/usr/bin:/bin True\n");
			assert.equal((await s.run('import os\nprint(any(b"sleep" in open(f"/proc/{p}/cmdline", "rb").read() for p in os.listdir("/proc") if p.isdigit()))', found.session_id)).stdout, 'False\n');
		}),
	},
	{
		original, name: 'a time limit, and an exit status that looks like one',
		page: {
			topic: 'time limit', there: '`SANDBOX_EXEC_TIMEOUT_S`; `exit_code` -1; `sys.exit(124)` was reported as a timeout, too',
			here: 'the same setting and answer; 124 is 124; a program that ignores SIGTERM is killed `SANDBOX_KILL_GRACE_MS` later',
		},
		run: () => first({ SANDBOX_EXEC_TIMEOUT_S: '1', SANDBOX_KILL_GRACE_MS: '300' }, async (s) => {
			const deaf = await s.run('import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)');
			agrees([deaf.exit_code, deaf.stderr], [-1, /Execution timed out after 1s$/]);
			assert.ok(deaf.duration_ms >= 1300, `killed after ${deaf.duration_ms} ms, without the grace`);
			const late = await s.run('import time\nprint("began", flush=True)\ntime.sleep(60)');
			agrees([late.exit_code, late.stdout, late.stderr], [-1, 'began\n', /Execution timed out after 1s$/]);
			assert.equal((await s.run('import sys; sys.exit(124)')).exit_code, 124);
		}),
	},
	{
		original, name: 'worker processes (first)',
		page: { topic: 'worker processes', there: '`Pool`, `ProcessPoolExecutor`, `Process` worked', here: 'they work' },
		run: () => first({}, async (s) => {
			const r = await s.run(WORKERS);
			assert.equal(r.stdout, WORKERS_PRINT, r.stderr);
		}),
	},
	{
		original, name: 'code has no network (first)',
		page: { topic: 'network of code', there: 'none', here: 'none; `SANDBOX_NETWORK` and `SANDBOX_NETWORK_ALLOW` permit hosts' },
		run: async () => {
			await first({}, async (s) => {
				const r = await s.run('import urllib.request\ntry:\n    urllib.request.urlopen("http://192.0.2.1/", timeout=3)\nexcept OSError as e:\n    print("refused")');
				assert.equal(r.stdout, 'refused\n', JSON.stringify(r));
			});
			await first({ SANDBOX_NETWORK: 'allowlist', SANDBOX_NETWORK_ALLOW: 'example.org' }, async (s) =>
				agrees((await s.run('import os\nprint(os.environ.get("HTTP_PROXY"))')).stdout, /^http:\/\/127\.0\.0\.1:\d+\/?\n$/));
		},
	},
	{
		original, name: 'a link right after an upload; 413 beyond the limit of reading',
		page: {
			topic: 'artifact links', there: '`:8080/files/{session}/{name}`; 413 beyond `SANDBOX_MAX_ARTIFACT_READ_BYTES`, so a larger file could not be had at all',
			here: 'the same; `SANDBOX_MAX_LINK_BYTES=0` serves files of any size by link, and ranges',
		},
		run: async () => {
			const port = String(await freePort());
			const status = async (name: string): Promise<number> => (await fetch(`http://localhost:${port}/files/s/${name}`)).status;
			await first({ SANDBOX_HTTP_PORT: port, SANDBOX_MAX_ARTIFACT_READ_BYTES: '8' }, async (s) => {
				await s.upload('eight.txt', '12345678', 's');
				assert.equal(await status('eight.txt'), 200);
				await s.upload('nine.txt', '123456789', 's');
				assert.deepEqual([await status('nine.txt'), await status('none.txt')], [413, 404]);
			});
			await first({ SANDBOX_HTTP_PORT: port, SANDBOX_MAX_ARTIFACT_READ_BYTES: '8', SANDBOX_MAX_LINK_BYTES: '0' }, async (s) => {
				await s.upload('nine.txt', '123456789', 's');
				assert.equal(await status('nine.txt'), 200);
				const part = await fetch(`http://localhost:${port}/files/s/nine.txt`, { headers: { range: 'bytes=2-4' } });
				assert.deepEqual([part.status, await part.text()], [206, '345']);
			});
		},
	},
	{
		original, name: 'an upload over a folder has a published code',
		run: () => first({}, async (s) => {
			await s.ok('import os; os.mkdir("folder")', 'f');
			const r = await s.upload('folder', 'x', 'f', true);
			assert.ok(CODES.includes(r.error), JSON.stringify(r));
		}),
	},
	{
		original, name: 'uploads into memory count for the memory of all sandboxes',
		page: {
			topic: 'memory of the machine', there: 'not bounded: `SANDBOX_MEMORY_LIMIT` for each session',
			here: 'the same setting; `SANDBOX_TOTAL_MEMORY` bounds all sandboxes together, with their files where these are in memory (`SANDBOX_WORKSPACE`)',
		},
		run: () => first({ SANDBOX_TOTAL_MEMORY: '700m', SANDBOX_WORKSPACE: 'memory', SANDBOX_POOL: '0', SANDBOX_HTTP_PORT: 'off' }, async (s) => {
			const big = Buffer.alloc(30 << 20, 1);
			let stored = 0;
			for (let i = 0; i < 40; i++) {
				const r = await s.upload(`f${i}.bin`, big, `s${i % 4}`);
				if (r.error)
					break;
				stored += big.length;
			}
			assert.ok(stored > 0 && stored <= 700 << 20, `${stored >> 20} MiB were taken`);
		}),
	},
	{
		original, name: 'stderr says that memory ran out',
		page: { topic: 'out of memory', there: '`exit_code` 137, no text', here: '`exit_code` 137, and `stderr` says why' },
		run: () => first({ SANDBOX_MEMORY_LIMIT: '128m' }, async (s) => {
			const r = await s.run('x = []\nwhile True: x.append(bytearray(1 << 22))');
			assert.equal(r.exit_code, 137);
			assert.match(r.stderr, /memory/i, JSON.stringify(r).slice(0, 300));
		}),
	},
	{
		original, name: 'numbers of settings as they were written there',
		page: {
			topic: 'settings', there: '`SANDBOX_*` in the environment; `0` or nothing for a limit meant none; `5.0` and `1_000` were whole numbers',
			here: 'the same names and values; `SANDBOX_MAX_SESSIONS=0`, which refused every session, is an error',
		},
		run: async () => {
			for (const [name, value] of [['SANDBOX_MEMORY_LIMIT', '0'], ['SANDBOX_MEMORY_LIMIT', ''], ['SANDBOX_CPU_LIMIT', '0'], ['SANDBOX_EXEC_TIMEOUT_S', '5.0'], ['SANDBOX_MAX_CODE_BYTES', '1_000']] as const)
				await first({ [name]: value }, async (s) => assert.equal((await s.run('print(1)')).stdout, '1\n', `${name}=${value}`));
			await assert.rejects(first({ SANDBOX_MAX_SESSIONS: '0' }, async () => {}), /SANDBOX_MAX_SESSIONS[^]*\b0 would refuse every sandbox/);
		},
	},
	{
		original, name: 'many threads and open files work, or the setting is named',
		page: {
			topic: 'threads and open files', there: 'no limit of their own',
			here: '384 processes and threads (`SANDBOX_PIDS_LIMIT`), and 1,024 to 65,536 open files by the memory of the sandbox (`SANDBOX_NOFILE_LIMIT`)',
		},
		run: async () => {
			const code = `
import threading
stop = threading.Event()
threads = [threading.Thread(target=stop.wait) for _ in range(300)]
for t in threads: t.start()
stop.set()
files = [open('/dev/null') for _ in range(2000)]
print('all')`;
			await first({ SANDBOX_PIDS_LIMIT: '400' }, async (s) => assert.equal((await s.run(code)).stdout, 'all\n'));
		},
	},
	{
		original, name: 'without settings, 300 threads work or the answer names the setting',
		run: () => first({}, async (s) => {
			const r = await s.run('import threading\nstop = threading.Event()\nts = [threading.Thread(target=stop.wait) for _ in range(300)]\ntry:\n    for t in ts: t.start()\nfinally:\n    stop.set()\nprint("all")');
			assert.ok(r.stdout === 'all\n' || /SANDBOX_PIDS_LIMIT/.test(r.stderr), r.stderr.slice(-300));
		}),
	},
	{
		original, name: 'a tool that the server does not have',
		run: () => first({}, async (s) => {
			const r = await s.raw('sandbox_fly', {});
			assert.equal(r.isError, true);
			assert.match(r.content[0]!.text, /^Unknown tool: '?sandbox_fly'?$/);
		}),
	},
	{
		original, name: 'answers name no tool that the profile lacks (first)',
		run: () => first({ SANDBOX_EXEC_TIMEOUT_S: '1' }, async (s) => {
			const texts = [];
			for (const code of ['import plotly', 'open("/etc/x", "w")', 'import time; time.sleep(9)', 'import socket; socket.create_connection(("192.0.2.1", 80), 0.2)'])
				texts.push(JSON.stringify(await s.run(code, 'names')));
			const has = (await s.client.listTools()).tools.map((t) => t.name);
			for (const named of texts.join('\n').match(/\bsandbox_[a-z_]+\b|\b(?:install_package_in_sandbox|execute_terminal_command|upload_file_to_sandbox)\b/g) ?? [])
				assert.ok(has.includes(named), named);
		}),
	},
	{
		original, name: 'logs go to a file, answers alone to standard output',
		page: { topic: 'log', there: '`logs/sandbox.log`, `SANDBOX_LOG_*`', here: 'the same; never code, output or keys' },
		run: async () => {
			await first({}, async (s) => {
				await s.run('print("a secret of mine")');
				await until('the end of the run', () => /container_exec_done/.test(s.logLines().join('\n')));
				const log = s.logLines().join('\n');
				assert.match(log, /session_created/);
				assert.doesNotMatch(log, /a secret of mine/);
			});
			assert.match((await logOf('logs/sandbox.log', {}, 'session_created')).join('\n'), /session_created/, 'the file that nothing names');
			const json = await logOf('other/my.log', { SANDBOX_LOG_FILE: 'other/my.log', SANDBOX_LOG_FORMAT: 'json' }, 'session_created');
			assert.ok(json.map((line) => JSON.parse(line)).some((line: Json) => line.event === 'session_created' && line.session_id === 'logged'), json.join('\n'));
			const debug = (await logOf('logs/sandbox.log', { SANDBOX_LOG_LEVEL: 'Debug' }, '[debug')).join('\n');
			assert.match(debug, /\bdebug\b/i);
			const folder = scratch('quiet');
			const quiet = await runIn(folder, { SANDBOX_LOG_LEVEL: 'error' });
			assert.doesNotMatch(fs.readFileSync(path.join(folder, 'logs/sandbox.log'), 'utf8'), /session_created/);
			await quiet.end();
		},
	},
];

