// SPDX-License-Identifier: Apache-2.0
// What is left in the daemon of a sandbox that has ended: nothing, whatever the daemon answers to its removal, and whenever.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { newStateDir, scratch } from '../../lib/env.ts';
import { serve, using, type Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import { wheel, wheelName } from '../../lib/wheel.ts';
import { REFUSED, idOf, ours, python, text, type EngineCase, type World } from './cases.ts';
import { Watched } from './watched.ts';

const everything = (w: World): string[] => [...ours(w), ...w.daemon.volumes().filter((v) => v.startsWith('caisson-'))];
/** Podman does not tell what there is while a container is half made. */
const thereAre = (w: World, n: number): boolean => {
	try {
		return everything(w).length === n;
	} catch {
		return false;
	}
};
const leftOver = (w: World) => (e: Error): never => {
	throw new Error(`${e.message}: ${everything(w).join(', ')}`);
};

/** A folder with one package. */
function wheels(): string {
	const folder = scratch('wheels');
	fs.chmodSync(folder, 0o755);
	fs.writeFileSync(path.join(folder, wheelName('solo', '1.0')), wheel('solo', '1.0', 'who = "solo"'));
	return folder;
}

export const leftoverCases: EngineCase[] = [
	{
		name: 'a helper installs packages; a sandbox that is removed meanwhile takes its helper with it, and nothing is left',
		async run(w) {
			const folder = wheels();
			await using('stdio', { profile: 'all', env: { ...w.env, SANDBOX_PIP_WHEEL_DIR: folder, SANDBOX_POOL: '0' } }, async (s) => {
				await python(s, 'print(1)', { session_id: 'good' });
				const done = await s.raw('sandbox_install_packages', { packages: 'solo', session_id: 'good' });
				assert.match(text(done), /solo/);
				assert.match(await python(s, 'import solo; print(solo.who)', { session_id: 'good' }), /^solo$/m);
				// The end comes while the helper is asked for, made, or at work: whatever the daemon is at.
				for (const containers of [2, 3]) {
					await python(s, 'print(1)', { session_id: 'short' });
					const lost = s.raw('sandbox_install_packages', { packages: 'solo', session_id: 'short' });
					await until('a helper', () => ours(w).length >= containers, 20_000).catch(() => undefined);
					await s.raw('sandbox_close_session', { session_id: 'short' });
					assert.match(text(await lost), /^package_failed: .*: the sandbox has ended$/m);
				}
				assert.match(await python(s, 'import solo; print(solo.who)', { session_id: 'good' }), /^solo$/m);
				await until('nothing but the first', () => thereAre(w, 3), 30_000).catch((e: Error) => {
					throw new Error(`${e.message}: ${everything(w).join(', ')}; ${s.stderr.slice(-2000)}`);
				});
			});
		},
	},
	{
		name: 'whatever the daemon answers to a removal, nothing is left: after the end of a sandbox, and of the server',
		async run(w) {
			// Podman has an error for a container whose first process ends at this moment; a volume is in use until the last container has gone.
			const watched = new Watched(w.daemon, '.*', (call, count) =>
				/^DELETE .*\/containers\//.test(call) && count < 1 ? { status: 500 } : /^DELETE .*\/volumes\//.test(call) && count < 2 ? { status: 409 } : undefined);
			try {
				await using('stdio', { profile: 'all', env: { ...w.env, DOCKER_HOST: watched.host, SANDBOX_POOL: '0' } }, async (s) => {
					const session_id = idOf(await python(s, 'print(1)'));
					await s.raw('sandbox_close_session', { session_id });
					await until('the end of the sandbox', () => thereAre(w, 0), 20_000).catch(leftOver(w));
					await python(s, 'print(1)');
					assert.ok(ours(w).length === 1);
				});
				await until('the end with the server', () => thereAre(w, 0), 20_000).catch(leftOver(w));
				assert.deepEqual(watched.wrong, []);
			} finally {
				watched.end();
			}
		},
	},
	{
		name: 'what the daemon makes after its answer is no longer awaited: the container goes, and the volume that it brought back',
		async run(w) {
			let late = false;
			const watched = new Watched(w.daemon, '.*', (call) => late && /^POST .*\/containers\/create/.test(call) ? { late: 2000 } : undefined);
			const folder = wheels();
			try {
				await using('stdio', { profile: 'all', env: { ...w.env, DOCKER_HOST: watched.host, SANDBOX_PIP_WHEEL_DIR: folder, SANDBOX_POOL: '0' } }, async (s) => {
					await python(s, 'print(1)', { session_id: 'short' });
					late = true;
					// A helper has the volume of the sandbox that it helps.
					assert.match(text(await s.raw('sandbox_install_packages', { packages: 'solo', session_id: 'short' })), /^package_failed: .*\(asking the container daemon\): /);
					await s.raw('sandbox_close_session', { session_id: 'short' });
					assert.match(await python(s, 'print(1)'), REFUSED);
					await until('both late calls', () => watched.late.size === 2, 20_000);
					await until('the end of both', () => thereAre(w, 0), 20_000).catch(leftOver(w));
				});
				assert.deepEqual(watched.wrong, []);
			} finally {
				watched.end();
			}
		},
	},
	{
		name: 'what the daemon makes for a server that was killed meanwhile is removed at a later start: also a volume that the call of a helper brought back',
		async run(w) {
			let late = false;
			const watched = new Watched(w.daemon, '.*', (call) => late && /^POST .*\/containers\/create/.test(call) ? { late: 'held' } : undefined);
			const env = { ...w.env, SANDBOX_STATE_DIR: newStateDir(), SANDBOX_PIP_WHEEL_DIR: wheels(), SANDBOX_POOL: '0' };
			const next = (): Promise<unknown> => using('stdio', { profile: 'full', env }, () => until('the end of what is there', () => thereAre(w, 0), 20_000).catch(leftOver(w)));
			try {
				const server = await serve({ profile: 'full', env: { ...env, DOCKER_HOST: watched.host } });
				const ask = (route: string, body: Json): Promise<Response> => fetch(`${server.base}/api/v1/${route}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
				const { id } = await (await ask('sandboxes', {})).json() as Json;
				late = true;
				ask(`sandboxes/${id}/packages`, { packages: 'solo' }).catch(() => undefined);
				await until('the call of the helper', () => watched.held.size > 0, 20_000);
				process.kill(Number(spawnSync('pgrep', ['-P', String(server.program.pid), '-x', 'caisson-keeper'], { encoding: 'utf8' }).stdout.trim()), 'SIGKILL');
				server.program.kill('SIGKILL');
				await server.program.exit;
				await next();
				watched.passOn(); // when nobody looks
				await until('the late call', () => watched.late.size > 0, 20_000);
				// Docker refuses it, since the folder of its channel is gone; Podman makes the volume first.
				assert.equal(everything(w).length > 0, w.daemon.product === 'podman', 'what the late call has made');
				await next();
			} finally {
				watched.end();
			}
		},
	},
	{
		name: 'what a killed server left is removed at the next start, also if the daemon refuses a list or a removal at first',
		async run(w) {
			const env = { ...w.env, SANDBOX_STATE_DIR: newStateDir(), SANDBOX_POOL: '0' };
			const server = await serve({ profile: 'full', env });
			const r = await fetch(`${server.base}/api/v1/sandboxes`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
			assert.ok(r.ok, await r.text());
			const old = everything(w);
			assert.equal(old.length, 3);
			const keeper = Number(spawnSync('pgrep', ['-P', String(server.program.pid), '-x', 'caisson-keeper'], { encoding: 'utf8' }).stdout.trim());
			process.kill(keeper, 'SIGKILL');
			server.program.kill('SIGKILL');
			await server.program.exit;
			const refused: string[] = [];
			const watched = new Watched(w.daemon, '.*', (call, count) => count === 0 && /^(DELETE |GET .*\/containers\/json)/.test(call) && refused.push(call) ? { status: 500 } : undefined);
			try {
				await using('stdio', { profile: 'full', env: { ...env, DOCKER_HOST: watched.host } }, () => until('the end of what it left', () => thereAre(w, 0), 30_000).catch(leftOver(w)));
				assert.ok(refused.length >= 4, `the list, the container and its volumes were refused once: ${refused.join(', ')}`);
			} finally {
				watched.end();
			}
		},
	},
];
