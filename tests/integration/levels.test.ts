// SPDX-License-Identifier: Apache-2.0
// Levels of isolation by name where there is one, `standard`: what a client may choose, and what it is told. Several levels need a
// container daemon: tests/suites/engines.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, it } from 'node:test';
import { asker } from '../lib/asker.ts';
import { binary, engineEnv, newStateDir, productEnv } from '../lib/env.ts';
import { facts, serve, using, type Json } from '../lib/session.ts';

const contained = Object.keys(engineEnv).length > 0;
const caisson = (env: Record<string, string>, ...args: string[]): { status: number | null; stdout: string; stderr: string } =>
	spawnSync(binary, args, { encoding: 'utf8', env: productEnv(env), timeout: 60_000 });

describe('one level of isolation', () => {
	it('REST: it can be named, everything says it, and another one is refused with its name', async () => {
		const { program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir() } });
		const ask = asker(() => base);
		try {
			for (const json of [{}, { level: 'standard' }, { kind: 'stored' }, { kind: 'stored', level: 'standard' }]) {
				const box = await ask('POST', '/sandboxes', json);
				assert.deepEqual([box.status, box.body.level], [201, 'standard'], box.text);
				assert.equal((await ask('GET', `/sandboxes/${box.body.id}`)).body.level, 'standard');
				assert.equal((await ask('DELETE', `/sandboxes/${box.body.id}?force=true`)).status, 204);
			}
			for (const kind of ['session', 'stored']) {
				const no = await ask('POST', '/sandboxes', { kind, level: 'strict' });
				assert.deepEqual([no.status, no.body.code, no.body.member], [400, 'invalid_argument', 'level'], no.text);
				assert.match(no.body.detail, /no level 'strict'; it has: standard$/);
			}
			for (const level of ['', 7, 'x'.repeat(33)])
				assert.deepEqual(await ask('POST', '/sandboxes', { level }).then((r) => [r.status, r.body.member]), [400, 'level']);
			assert.deepEqual((await ask('GET', '/sandboxes')).body.sandboxes, []);
			const policy = (await ask('GET', '/policy')).body;
			assert.deepEqual([policy.level, policy.levels], ['standard', ['standard']]);
			assert.deepEqual(Object.keys(policy.max).sort(), ['cpus', 'disk_mb', 'memory_mb', 'processes', 'timeout_s', 'ttl_s']);
			assert.ok(policy.images.includes(policy.image), JSON.stringify(policy.images));
			for (const [name, max] of Object.entries<number>(policy.max).filter(([n]) => n !== 'ttl_s'))
				assert.equal((await ask('POST', '/sandboxes', { [name]: max + 1 })).status, 400, `${name}: more than the policy says`);
			const box = await ask('POST', '/sandboxes', {});
			const later = await ask('PATCH', `/sandboxes/${box.body.id}`, { level: 'standard' });
			assert.deepEqual([later.status, later.body.member], [400, 'level'], later.text);
		} finally {
			await program.end();
		}
	});

	it('MCP: sandbox_create takes it, sandbox_info says it, and the schema does not offer the only one', () => using('stdio', { profile: 'full' }, async (s) => {
		const made = facts(await s.raw('sandbox_create', { level: 'standard' }));
		assert.deepEqual([made.status, made.level], ['created', 'standard'], JSON.stringify(made));
		assert.equal(facts(await s.raw('sandbox_info', { session_id: made.session_id })).level, 'standard');
		const no = facts(await s.raw('sandbox_create', { level: 'strict' }));
		assert.equal(no.error, 'invalid_argument', JSON.stringify(no));
		assert.match(no.message, /no level 'strict'; it has: standard$/);
		const { tools } = await s.client.listTools();
		assert.equal((tools.find((t) => t.name === 'sandbox_create')!.inputSchema.properties as Json).level, undefined);
	}));

	it('the settings: a wrong name, and levels without a container daemon, are refused before anything starts', { skip: contained }, () => {
		const env = { SANDBOX_STATE_DIR: newStateDir() };
		for (const [more, says] of [
			[{ SANDBOX_LEVEL: 'strict' }, /SANDBOX_LEVEL: there is no level 'strict'; there is: standard/],
			[{ SANDBOX_LEVELS: 'standard,strict=runsc' }, /SANDBOX_LEVELS=standard,strict=runsc needs a container daemon, which alone has runtimes; set SANDBOX_ENGINE=docker/],
			[{ SANDBOX_RUNTIME: 'runsc' }, /SANDBOX_RUNTIME=runsc needs a container daemon, which alone has runtimes; set SANDBOX_ENGINE=docker/],
			[{ SANDBOX_ENGINE: 'docker', SANDBOX_LEVELS: 'Strict=runsc' }, /'Strict=runsc' is no level; write NAME=RUNTIME/],
			[{ SANDBOX_ENGINE: 'docker', SANDBOX_LEVELS: 'a=runc,a=crun' }, /the level a twice/],
		] as [Record<string, string>, RegExp][]) {
			const r = caisson({ ...env, ...more }, 'run', '-c', 'print(1)');
			assert.equal(r.status, 78, r.stderr);
			assert.match(r.stderr, says);
			const doctor = caisson({ ...env, ...more }, 'doctor', '--json');
			assert.equal(doctor.status, 2, doctor.stderr);
			const row = (JSON.parse(doctor.stdout) as Json).rows.find((x: Json) => x.id === 'levels');
			assert.equal(row.state, 'missing');
			assert.match(row.value, says);
		}
		const said = caisson(env, 'doctor', '--json');
		const row = (JSON.parse(said.stdout) as Json).rows.find((x: Json) => x.id === 'levels');
		assert.deepEqual([row.state, row.value.split(':')[0]], ['ok', 'standard']);
		assert.equal(caisson({ ...env, SANDBOX_LEVEL: 'standard' }, 'run', '-c', 'print(6 * 7)').stdout, '42\n');
		assert.equal(caisson(env, 'run', '--level', 'standard', '-c', 'print(6 * 7)').stdout, '42\n');
	});
});
