// SPDX-License-Identifier: Apache-2.0
// A router in front of two workers that only look like ones (fake-workers.ts).

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { newStateDir, scratch } from './env.ts';
import { Authority, FakeWorker, idsOf, routerUid, underRouter } from './fake-workers.ts';
import type { Program } from './process.ts';
import { serve, type Json } from './session.ts';
import { until } from './wait.ts';

export const KEY = 'k'.repeat(40);
export const json = async (r: Response): Promise<Json> => await r.json() as Json;

export class FakeFleet {
	program!: Program;
	base = '';
	keyFile = '';
	one!: FakeWorker;
	two!: FakeWorker;

	/** ENV: of the router, besides what it needs. */
	async begin(name: string, env: Record<string, string> = {}): Promise<void> {
		const dir = scratch(name), list = path.join(dir, 'workers'), state = newStateDir();
		fs.chmodSync(path.dirname(dir), 0o711); // the router is another user than the tests
		this.keyFile = path.join(dir, 'fleet.key');
		const authority = new Authority(dir), mine = authority.certificate('router'), theirs = authority.certificate('worker');
		fs.writeFileSync(this.keyFile, randomBytes(32));
		this.one = await new FakeWorker('ab3', theirs, authority.ca, idsOf(this.keyFile, 'ab3', 60)).listen();
		this.two = await new FakeWorker('zz9', theirs, authority.ca, idsOf(this.keyFile, 'zz9', 60)).listen();
		fs.writeFileSync(list, `${this.one.at}\n${this.two.at}\n`);
		for (const f of [this.keyFile, list, mine.cert, mine.key, authority.ca, dir, state])
			fs.chownSync(f, routerUid, routerUid);
		({ program: this.program, base: this.base } = await serve({ profile: 'full', under: underRouter, env: {
			SANDBOX_STATE_DIR: state, SANDBOX_ROLE: 'router', SANDBOX_FLEET_WORKERS: list, SANDBOX_FLEET_KEY: this.keyFile, SANDBOX_FLEET_CA: authority.ca,
			SANDBOX_FLEET_CERTIFICATE: mine.cert, SANDBOX_FLEET_CERTIFICATE_KEY: mine.key, SANDBOX_API_KEY: KEY, ...env,
		} }));
		await until('2 workers are ready', async () => (await (await fetch(`${this.base}/readyz`)).text()).includes(': 2 of'), 8_000);
	}

	async end(): Promise<void> {
		this.one?.close();
		this.two?.close();
		this.program?.kill('SIGTERM');
		assert.equal((await this.program?.exit)?.code, 0, this.program?.stderr);
	}

	call(method: string, where: string, headers: Record<string, string> = { 'x-api-key': KEY }): Promise<Response> {
		return fetch(this.base + where, { method, headers, redirect: 'manual' });
	}
}
