// SPDX-License-Identifier: Apache-2.0
// What a run in a container may signal, and who wants to be root there.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { binary, productEnv } from '../../lib/env.ts';
import { serve, type Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import type { EngineCase } from './cases.ts';
import { within } from './gvisor.ts';

/** A background process, and what a command says that signals it; then a user of E2B's face who wants to be root. */
async function signals(env: Record<string, string>, outcome: RegExp): Promise<void> {
	const { program, base } = await serve({ profile: 'full', env: { ...env, SANDBOX_FACES: 'e2b', SANDBOX_API_KEY: 'a-key-of-this-server' } });
	const ask = async (at: string, body: Json, status = 201): Promise<Json> => {
		const r = await fetch(`${base}/api/v1/sandboxes${at}`, { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json', 'x-api-key': 'a-key-of-this-server' } });
		const said = await r.text();
		assert.equal(r.status, status, said);
		return JSON.parse(said) as Json;
	};
	try {
		const { id } = await ask('', {});
		await ask(`/${id}/processes`, { command: 'trap "touch caught" TERM; echo $$ >PID; while :; do sleep .1; done' });
		const run = async (command: string): Promise<string> => {
			const r = await ask(`/${id}/runs`, { wait: true, command });
			return `${r.stdout}${r.stderr}`;
		};
		await until('its number', async () => /^\d+$/m.test(await run('cat PID 2>&1')));
		assert.match(await run('kill -TERM $(cat PID) 2>&1 && for i in $(seq 50); do [ -e caught ] && echo caught && break; sleep .1; done'), outcome);
		assert.match(await run('sudo -n true 2>&1; id -u'), /^(?!0$)\d+$/m);
		assert.match((await ask('', { root: true }, 403)).detail, /SANDBOX_ROOT=on/);
	} finally {
		await program.end();
	}
}

export const signalCases: EngineCase[] = [
	{
		name: 'a run cannot signal the processes of earlier runs, and there is no root user to become',
		run: (w) => signals(w.env, /not permitted/i),
	},
	{
		name: 'gVisor: a run may signal the processes of earlier runs; there is no root user, and the server does not start with SANDBOX_ROOT=on',
		docker: true,
		async run(w) {
			await signals(within(w), /^caught$/m);
			const r = spawnSync(binary, ['run', '-c', 'print(1)'], { encoding: 'utf8', env: productEnv(within(w, { SANDBOX_ROOT: 'on' })), timeout: 60_000 });
			assert.equal(r.status, 78, r.stderr);
			assert.match(r.stderr, /SANDBOX_ROOT=on needs the native engine, a server that root started/);
		},
	},
];
