// SPDX-License-Identifier: Apache-2.0
// A runtime with a kernel of its own, gVisor: what works there, and what is refused with its reason.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import path from 'node:path';
import { binary, productEnv, scratch } from '../../lib/env.ts';
import { serve, using, type Json, type Session } from '../../lib/session.ts';
import { wheel, wheelName } from '../../lib/wheel.ts';
import type { EngineCase, World } from './cases.ts';

const text = (r: { content: Json[] }): string => r.content.map((c) => c.text ?? '').join('\n');
const python = async (s: Session, code: string, more: Json = {}): Promise<string> => text(await s.raw('sandbox_run_python', { code, ...more }));
const idOf = (said: string): string => /sess_[0-9a-f]{12}/.exec(said)![0];
export const within = (w: World, more: Record<string, string> = {}): Record<string, string> => {
	if (!(w.daemon.ask('GET', '/v1.41/info').body.Runtimes as Json).runsc)
		throw new Error('runsc is not installed (tools/setup)');
	return { ...w.env, SANDBOX_RUNTIME: 'runsc', SANDBOX_POOL: '0', ...more };
};

export const gvisorCases: EngineCase[] = [
	{
		name: 'gVisor: packages that a helper installs are there for the next run',
		docker: true,
		async run(w) {
			const folder = scratch('wheels');
			fs.chmodSync(folder, 0o755);
			fs.writeFileSync(path.join(folder, wheelName('solo', '1.0')), wheel('solo', '1.0', 'who = "solo"'));
			await using('stdio', { profile: 'full', env: within(w, { SANDBOX_PIP_WHEEL_DIR: folder }) }, async (s) => {
				const session_id = idOf(await python(s, 'print(1)'));
				assert.match(text(await s.raw('sandbox_install_packages', { packages: 'solo', session_id })), /success/);
				assert.match(await python(s, 'import solo; print(solo.who)', { session_id }), /^solo$/m);
				assert.match(await python(s, 'import solo; print(solo.who)', { session_id, stateful: true }), /^solo$/m);
				assert.match(text(await s.raw('sandbox_run_shell', { command: 'python3 -c "import solo; print(solo.who)"', session_id })), /^solo$/m);
			});
		},
	},
	{
		name: 'gVisor: code runs under its kernel, variables stay, a timeout ends the run alone',
		docker: true,
		run: (w) => using('stdio', { profile: 'full', env: within(w) }, async (s) => {
			const said = await python(s, 'n = 41\nprint(open("/proc/version").read())', { stateful: true });
			assert.match(said, /Linux version 4\.4\.0/, 'the version that gVisor says it is');
			const session_id = idOf(said);
			assert.match(await python(s, 'import time; time.sleep(60)', { session_id, timeout_s: 2 }), /^\[session_id: \S+, exit_code: -1, timeout, /m);
			assert.match(await python(s, 'n + 1', { session_id, stateful: true }), /42/);
			assert.match(await python(s, 'from multiprocessing import Pool\nwith Pool(2) as p: print(p.map(abs, [-1, 2]))', { session_id }), /\[1, 2\]/);
			assert.match(await python(s, 'try: open("/etc/x", "w")\nexcept OSError as e: print("kept out", e.errno in (13, 30))', { session_id }), /kept out True/);
			assert.match(await python(s, 'import socket\ntry: socket.create_connection(("1.1.1.1", 80), 1)\nexcept OSError: print("no way out")', { session_id }), /no way out/);
		}),
	},
	{
		name: 'gVisor: files go in and out whole, replace others only if asked, and are listed with their times',
		docker: true,
		async run(w) {
			const server = await serve({ profile: 'full', env: within(w) });
			const ask = async (method: string, at: string, body?: string | Buffer): Promise<{ status: number; bytes: Buffer; json: Json }> => {
				const r = await fetch(`${server.base}/api/v1${at}`, { method, body: typeof body === 'string' || !body ? body : new Uint8Array(body), headers: typeof body === 'string' ? { 'content-type': 'application/json' } : {} });
				const bytes = Buffer.from(await r.arrayBuffer());
				let json: Json = {};
				try {
					json = JSON.parse(bytes.toString()) as Json;
				} catch { /* a file */ }
				return { status: r.status, bytes, json };
			};
			try {
				const at = `/sandboxes/${(await ask('POST', '/sandboxes', '{}')).json.id}`;
				const big = Buffer.alloc(20 << 20, 'caisson ');
				assert.equal((await ask('PUT', `${at}/files/deep/er/big.bin`, big)).status, 201);
				assert.equal((await ask('PUT', `${at}/files/deep/er/big.bin`, Buffer.from('no'))).status, 409);
				assert.ok((await ask('GET', `${at}/files/deep/er/big.bin`)).bytes.equals(big), 'what comes out is what went in');
				assert.equal((await ask('PUT', `${at}/files/deep/er/big.bin?overwrite=true`, Buffer.from('small'))).status, 201);
				const ran = await ask('POST', `${at}/runs`, JSON.stringify({ wait: true, code: 'import os\nprint(open("/mnt/data/deep/er/big.bin").read(), os.listdir("/mnt/data/deep/er"))\nopen("/mnt/data/empty", "w")\nos.utime("/mnt/data/empty", (10**9, 10**9))\nos.symlink("/etc/passwd", "/mnt/data/link")' }));
				assert.equal(ran.json.stdout, "small ['big.bin']\n", JSON.stringify(ran.json));
				const list = (await ask('GET', `${at}/files`)).json.files as Json[];
				assert.deepEqual(list.map((f) => f.name).sort(), ['deep', 'empty', 'link']);
				const empty = list.find((f) => f.name === 'empty')!;
				assert.deepEqual([empty.size, empty.modified_at.slice(0, 10)], [0, '2001-09-09']);
				assert.equal((await ask('GET', `${at}/files/empty`)).bytes.length, 0);
				assert.equal((await ask('GET', `${at}/files/link`)).status, 404);
				assert.equal((await ask('GET', `${at}/files/nothing`)).status, 404);
				const patch = async (from: string, to: string): Promise<number> => (await ask('PATCH', `${at}/files/${from}`, JSON.stringify({ to }))).status;
				assert.equal((await ask('POST', `${at}/folders`, '{"path":"new/folder"}')).status, 201);
				assert.equal((await ask('POST', `${at}/folders`, '{"path":"new/folder"}')).status, 409);
				assert.deepEqual([await patch('deep/er', 'new/folder/er'), await patch('empty', 'new/folder/er/big.bin'), await patch('nothing', 'x'), await patch('new', 'new/folder/new')], [200, 409, 404, 400]);
				assert.equal((await ask('GET', `${at}/files/new/folder/er/big.bin`)).bytes.toString(), 'small');
				assert.equal((await ask('DELETE', `${at}/files/deep?recursive=true`)).status, 204);
			} finally {
				await server.program.end();
			}
		},
	},
	{
		name: 'gVisor: five megabytes printed at once are all there',
		docker: true,
		run: (w) => using('stdio', { profile: 'full', env: within(w) }, async (s) => {
			const r = await s.raw('sandbox_run_python', { code: 'import sys\nsys.stdout.write("x" * 5_000_000)\nprint("END")' });
			assert.match(text(r), /END/);
			const run = JSON.stringify(r.structuredContent);
			assert.match(run, /5000004/, run.slice(0, 2000));
		}),
	},
	{
		name: 'gVisor: memory and the workspace have their limits; where runsc is in no control group, the policy says best effort, and a limit that was set is refused',
		docker: true,
		async run(w) {
			const limits = { SANDBOX_MEMORY_LIMIT: '256m', SANDBOX_WORKSPACE_LIMIT: '4m' };
			const held = async (env: Record<string, string>, said: RegExp): Promise<void> => using('stdio', { profile: 'full', env: within(w, { ...limits, ...env }) }, async (s) => {
				const session_id = idOf(await python(s, 'open("kept.txt", "w").write("kept")'));
				assert.match(await python(s, 'x = bytearray(900 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1', { session_id }), /^\[session_id: \S+, exit_code: 137, oom, /m);
				assert.match(await python(s, 'try:\n    with open("big", "wb") as f: f.write(b"x" * (8 << 20))\nexcept OSError as e: print(e.errno)', { session_id }), /^28$/m);
				assert.match(await python(s, 'print(open("kept.txt").read())', { session_id }), /kept/);
				assert.match(JSON.stringify((await s.raw('sandbox_info', { session_id })).structuredContent), said);
			});
			await held({}, /"enforced":\[[^\]]*"memory"/);
			await held({ SANDBOX_RUNTIME: 'uncounted', SANDBOX_ALLOW_WEAKER: 'memory' }, /"best_effort":\[[^\]]*"memory"/);
			const r = spawnSync(binary, ['run', '-c', 'print(1)'], { encoding: 'utf8', env: productEnv({ ...within(w, limits), SANDBOX_RUNTIME: 'uncounted' }), timeout: 60_000 });
			assert.equal(r.status, 78, r.stdout);
			assert.match(r.stderr, /control groups of the container cannot be seen .*, so nothing shows that the limit of memory is held/);
		},
	},
	{
		name: 'gVisor: a level has it beside runc; what it cannot give is refused with the reason',
		docker: true,
		run: (w) => using('stdio', { profile: 'full', env: { ...within(w), SANDBOX_RUNTIME: '', SANDBOX_LEVELS: 'standard=runc,strict=runsc', SANDBOX_NETWORK: 'allowlist', SANDBOX_NETWORK_ALLOW: 'example.org' } }, async (s) => {
			const facts = async (tool: string, args: Json): Promise<Json> => {
				const r = await s.raw(tool, args);
				return (r.structuredContent!.result ?? r.structuredContent!) as Json;
			};
			const refused = await facts('sandbox_create', { level: 'strict' });
			assert.equal(refused.error, 'level_unavailable', JSON.stringify(refused));
			assert.match(refused.message, /kernel of its own.*no network/);
			const made = await facts('sandbox_create', { level: 'strict', network: 'none' });
			assert.match(await python(s, 'print(open("/proc/version").read())', { session_id: made.session_id }), /4\.4\.0/);
			const kept = await facts('sandbox_checkpoint', { session_id: made.session_id, name: 'a' });
			assert.match(JSON.stringify(kept), /cannot make checkpoints/);
			const plain = await facts('sandbox_create', {});
			assert.doesNotMatch(await python(s, 'print(open("/proc/version").read())', { session_id: plain.session_id }), /4\.4\.0/);
		}),
	},
	{
		name: 'gVisor without --host-uds=open is refused, and the error names the option',
		docker: true,
		async run(w) {
			within(w);
			const r = spawnSync(binary, ['run', '-c', 'print(1)'], { encoding: 'utf8', env: productEnv({ ...w.env, SANDBOX_RUNTIME: 'closed' }), timeout: 60_000 });
			assert.equal(r.status, 69, r.stderr);
			assert.match(r.stderr, /does not connect.*--host-uds=open/);
		},
	},
];
