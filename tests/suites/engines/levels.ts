// SPDX-License-Identifier: Apache-2.0
// Levels of isolation by name: the operator says which runtime makes the sandboxes of a level, and a client says the name. The daemon has
// runc under two names, so that what made a container can be seen.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { asker } from '../../lib/asker.ts';
import { binary, newStateDir, productEnv } from '../../lib/env.ts';
import { facts, serve, using, type Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import type { EngineCase, World } from './cases.ts';

const LEVELS = 'standard=runc,other=second,absent=nothing';

/** How many containers each runtime has made. */
function made(w: World): Record<string, number> {
	const n: Record<string, number> = {};
	for (const name of w.daemon.containers().filter((c) => c.startsWith('caisson-'))) {
		const runtime = (w.daemon.ask('GET', `/v1.41/containers/${name}/json`).body as Json).HostConfig?.Runtime as string | undefined;
		if (runtime)
			n[runtime] = (n[runtime] ?? 0) + 1;
	}
	return n;
}
const caisson = (env: Record<string, string>, ...args: string[]): { status: number | null; stdout: string; stderr: string } =>
	spawnSync(binary, args, { encoding: 'utf8', env: productEnv(env), timeout: 90_000 });

export const levelCases: EngineCase[] = [
	{
		name: 'a level by name: its runtime makes the sandbox, a fork has it, too, and every answer says it',
		docker: true,
		async run(w) {
			const env = { ...w.env, SANDBOX_STATE_DIR: newStateDir(), SANDBOX_LEVELS: LEVELS, SANDBOX_POOL: '1' };
			const server = await serve({ profile: 'full', env });
			const ask = asker(() => server.base);
			try {
				const usual = await ask('POST', '/sandboxes', {});
				assert.deepEqual([usual.status, usual.body.level], [201, 'standard'], usual.text);
				const box = await ask('POST', '/sandboxes', { level: 'other' });
				assert.deepEqual([box.status, box.body.level], [201, 'other'], box.text);
				// The pool makes sandboxes of the usual level alone.
				await until('the pool', () => (made(w).runc ?? 0) >= 2, 30_000);
				assert.equal(made(w).second, 1);
				const ran = await ask('POST', `/sandboxes/${box.body.id}/runs`, { code: 'open("x", "w").write("kept"); print(6 * 7)', wait: true });
				assert.equal(ran.body.stdout, '42\n', ran.text);
				const fork = await ask('POST', `/sandboxes/${box.body.id}/forks`, {});
				assert.equal(fork.status, 201, fork.text);
				assert.equal((await ask('GET', `/sandboxes/${fork.body.id}`)).body.level, 'other');
				assert.equal(made(w).second, 2);
				const policy = (await ask('GET', '/policy')).body;
				assert.deepEqual([policy.level, policy.levels, policy.runtime], ['standard', ['standard', 'other'], 'runc']);
				const document = (await ask('GET', '/openapi.json')).text;
				assert.match(document, /"level":\{"type":"string","enum":\["standard","other"\]/);
				const later = await ask('PATCH', `/sandboxes/${box.body.id}`, { level: 'standard' });
				assert.deepEqual([later.status, later.body.member], [400, 'level'], later.text);
			} finally {
				await server.program.end();
			}
		},
	},
	{
		name: 'a level that the daemon cannot make is refused, and the refusal names those that there are',
		docker: true,
		async run(w) {
			await using('stdio', { profile: 'full', env: { ...w.env, SANDBOX_LEVELS: LEVELS, SANDBOX_LEVEL: 'other', SANDBOX_POOL: '0' } }, async (s) => {
				for (const [level, error, says] of [
					['absent', 'level_unavailable', /the level absent is not available: its runtime nothing .* levels: standard, other$/],
					['hard', 'invalid_argument', /no level 'hard'; it has: standard, other$/],
				] as const) {
					const r = facts(await s.raw('sandbox_create', { level }));
					assert.deepEqual([r.error, says.test(r.message)], [error, true], JSON.stringify(r));
				}
				assert.deepEqual(made(w), {});
				const r = facts(await s.raw('sandbox_create', {}));
				const info = facts(await s.raw('sandbox_info', { session_id: r.session_id }));
				assert.equal(info.level, 'other');
				assert.deepEqual(Object.keys(made(w)), ['second'], 'also what the pool makes');
				const { tools } = await s.client.listTools();
				assert.deepEqual((tools.find((t) => t.name === 'sandbox_create')!.inputSchema.properties as Json).level.enum, ['standard', 'other']);
			});
			const env = { ...w.env, SANDBOX_LEVELS: LEVELS };
			const doctor = caisson(env, 'doctor', '--json');
			const row = (JSON.parse(doctor.stdout) as Json).rows.find((x: Json) => x.id === 'levels');
			assert.equal(row.state, 'weaker');
			assert.match(row.value, /^standard \(default\): runc; other: second; absent: nothing, which the daemon lacks$/);
			assert.match(row.mend, /runc/);
			assert.match(caisson(env, 'run', '--level', 'other', '-c', 'print(6 * 7)').stdout, /^42$/m);
			const refused = caisson(env, 'run', '--level', 'absent', '-c', 'print(1)');
			assert.equal(refused.status, 69, refused.stderr);
			assert.match(refused.stderr, /no runtime 'nothing', which the level absent has/);
		},
	},
	{
		name: 'a stored sandbox whose level the operator removes is refused, and never made with less',
		docker: true,
		async run(w) {
			const state = newStateDir();
			const env = { ...w.env, SANDBOX_STATE_DIR: state, SANDBOX_POOL: '0' };
			let server = await serve({ profile: 'full', env: { ...env, SANDBOX_LEVELS: 'standard=runc,other=second' } });
			try {
				const box = await asker(() => server.base)('POST', '/sandboxes', { kind: 'stored', level: 'other' });
				assert.deepEqual([box.status, box.body.level], [201, 'other'], box.text);
				await server.program.end();
				server = await serve({ profile: 'full', env });
				const ask = asker(() => server.base);
				assert.equal((await ask('GET', `/sandboxes/${box.body.id}`)).body.level, 'other');
				const ran = await ask('POST', `/sandboxes/${box.body.id}/runs`, { code: 'print(1)', wait: true });
				assert.deepEqual([ran.status, ran.body.code], [503, 'level_unavailable'], ran.text);
				assert.match(ran.body.detail, /no level 'other'; it has: standard$/);
				assert.deepEqual(made(w), {});
				await server.program.end();
				server = await serve({ profile: 'full', env: { ...env, SANDBOX_LEVELS: 'standard=runc,other=second' } });
				const again = await asker(() => server.base)('POST', `/sandboxes/${box.body.id}/runs`, { code: 'print(6 * 7)', wait: true });
				assert.equal(again.body.stdout, '42\n', again.text);
				assert.deepEqual(made(w), { second: 1 });
			} finally {
				await server.program.end();
			}
		},
	},
];
