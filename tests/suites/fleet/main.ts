// SPDX-License-Identifier: Apache-2.0
// A rolling restart of the workers of a fleet, under load (README.md).

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Count } from '../../lib/count.ts';
import { binary, freePort, newStateDir, productUid, scratch } from '../../lib/env.ts';
import { Authority, routerUid } from '../../lib/fake-workers.ts';
import { ensureImages } from '../../lib/images.ts';
import { options } from '../../lib/options.ts';
import { play } from '../../lib/play.ts';
import type { Program } from '../../lib/process.ts';
import { serve, type Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';

const opt = options(`usage: tests/run fleet [options]   workers that are restarted one after the other, under load
  --clients N   clients of each kind (default: 3)`, { clients: { type: 'string', default: '3' } });
const KEY = 'k'.repeat(40), WORKERS = 3, MAY = ['node_unreachable', 'node_lost', 'session_not_found'];
const count = new Count();

interface Worker { name: string; env: Record<string, string>; program: Program; id: string }
interface Said { status: number; code: string; text: string }

class Fleet {
	readonly workers: Worker[] = [];
	/** Short ids, in the four digits that ids of sandboxes have, of workers that are being restarted, or were lately. */
	readonly restarting = new Set<string>();
	readonly wrong: string[] = [];
	readonly counts: Record<string, number> = {};
	over = false;
	router!: Program;
	base!: string;

	async start(): Promise<void> {
		const dir = scratch('fleet-rolling'), authority = new Authority(dir), mine = authority.certificate('router'), theirs = authority.certificate('worker');
		const own = (uid: number, ...files: string[]): void => files.forEach((f) => fs.chownSync(f, uid, uid));
		const key = path.join(dir, 'ids.key'), keyOfRouter = path.join(dir, 'router-ids.key'), list = path.join(dir, 'workers'), state = newStateDir();
		fs.chmodSync(path.dirname(dir), 0o711);
		fs.writeFileSync(key, randomBytes(32));
		fs.copyFileSync(key, keyOfRouter);
		own(productUid, key, theirs.cert, theirs.key);
		const at: string[] = [];
		for (let i = 0; i < WORKERS; i++) {
			at.push(`127.0.0.1:${await freePort()}`);
			const env = {
				SANDBOX_STATE_DIR: newStateDir(), SANDBOX_ROLE: 'worker', SANDBOX_HTTP_PORT: 'off', SANDBOX_TLS_LISTEN: at[i]!, SANDBOX_TLS_CERTIFICATE: theirs.cert, SANDBOX_TLS_KEY: theirs.key,
				SANDBOX_FLEET_CA: authority.ca, SANDBOX_FLEET_KEY: key, SANDBOX_FLEET_NAME: `worker-${i}`, SANDBOX_IMAGE: 'base',
			};
			this.workers.push({ name: `worker-${i}`, env, program: (await serve({ profile: 'full', env })).program, id: '' });
		}
		fs.writeFileSync(list, at.map((a) => `${a}\n`).join(''));
		own(routerUid, dir, keyOfRouter, list, mine.cert, mine.key, authority.ca, state);
		({ program: this.router, base: this.base } = await serve({ profile: 'full', env: {
			SANDBOX_STATE_DIR: state, SANDBOX_ROLE: 'router', SANDBOX_FLEET_WORKERS: list, SANDBOX_FLEET_KEY: keyOfRouter, SANDBOX_FLEET_CA: authority.ca,
			SANDBOX_FLEET_CERTIFICATE: mine.cert, SANDBOX_FLEET_CERTIFICATE_KEY: mine.key, SANDBOX_API_KEY: KEY,
		} }));
		for (const w of this.workers)
			w.id = await this.isReady(w.name);
	}

	async end(): Promise<void> {
		await this.router?.end();
		await Promise.all(this.workers.map((w) => w.program.end()));
	}

	async members(): Promise<Json[]> {
		return ((await (await fetch(`${this.base}/api/v1/fleet`, { headers: { 'x-api-key': KEY } })).json()) as Json).workers as Json[];
	}

	/** Waits for the worker, and gives its short id as ids of sandboxes have it. */
	async isReady(name: string): Promise<string> {
		const member = await until(`${name} is ready`, async () => (await this.members()).find((m) => m.name === name && m.state === 'ready'), 30_000);
		return Number.parseInt(member.id as string, 36).toString(16).padStart(4, '0');
	}

	async call(method: string, where: string, body?: Json | string): Promise<Said> {
		const r = await fetch(this.base + where, {
			method, headers: { 'x-api-key': KEY, ...(body === undefined ? {} : { 'content-type': typeof body === 'string' ? 'application/octet-stream' : 'application/json' }) },
			...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
		});
		const text = await r.text();
		const said = { status: r.status, code: r.ok ? 'ok' : /"code":"(\w+)"/.exec(text)?.[1] ?? `status ${r.status}`, text };
		this.counts[said.code] = (this.counts[said.code] ?? 0) + 1;
		return said;
	}

	async make(): Promise<string> {
		const said = await this.call('POST', '/api/v1/sandboxes', {});
		if (said.status === 201)
			return (JSON.parse(said.text) as Json).id as string;
		this.wrong.push(`a new sandbox: ${said.status} ${said.text}`);
		return '';
	}

	/** Is the sandbox there still? What else may be is that its worker is being restarted. */
	async ask(id: string, method: string, where: string, body?: Json | string): Promise<string | undefined> {
		const said = await this.call(method, `/api/v1/sandboxes/${id}${where}`, body);
		if (said.code === 'ok')
			return said.text;
		if (!MAY.includes(said.code) || !this.restarting.has(id.slice(5, 9)))
			this.wrong.push(`${method} ${id}${where}: ${said.status} ${said.text}`);
		return undefined;
	}

	async short(): Promise<void> {
		while (!this.over) {
			const id = await this.make(), word = randomBytes(8).toString('hex');
			if (!id)
				continue;
			const run = await this.ask(id, 'POST', '/runs', { code: `open("f", "w").write("${word}"); print("${word}")`, wait: true });
			if (run !== undefined && !run.includes(word))
				this.wrong.push(`a run of ${id} did not print ${word}: ${run}`);
			const read = run === undefined ? undefined : await this.ask(id, 'GET', '/files/f');
			if (read !== undefined && read !== word)
				this.wrong.push(`a file of ${id} is not ${word}: ${read}`);
			await this.ask(id, 'DELETE', '');
		}
	}

	async long(): Promise<void> {
		let id = '';
		for (let i = 0; !this.over; i++) {
			id ||= await this.make();
			if (id && await this.ask(id, 'PUT', `/files/f${i}`, String(i)) === undefined)
				id = '';
			await sleep(50);
		}
	}
}

async function roll(): Promise<void> {
	const fleet = new Fleet();
	try {
		await fleet.start();
		const clients = Array.from({ length: Number(opt.clients) }, () => [fleet.short(), fleet.long()]).flat();
		for (const w of fleet.workers) {
			const before = fleet.counts.ok ?? 0;
			await until('clients work', () => (fleet.counts.ok ?? 0) > before + 50, 60_000);
			fleet.restarting.add(w.id);
			const began = Date.now();
			w.program.kill('SIGTERM');
			assert.equal((await w.program.exit).code, 0, w.program.stderr);
			const down = Date.now();
			w.program = (await serve({ profile: 'full', env: w.env })).program;
			await fleet.isReady(w.name);
			console.log(`        ${w.name}: ended in ${down - began} ms, ready again after ${Date.now() - down} ms`);
			/* A client can still have a sandbox of before. */
			await until('it has sandboxes again', async () => ((await fleet.members()).find((m) => m.name === w.name)!.sandboxes as number) > 0, 60_000);
		}
		fleet.over = true;
		await Promise.all(clients);
		console.log(`        answers: ${Object.entries(fleet.counts).map(([code, n]) => `${n} ${code}`).join(', ')}`);
		assert.deepEqual(fleet.wrong.slice(0, 10), [], `${fleet.wrong.length} answers are none of the contract\n${fleet.router.stderr.slice(-3000)}`);
	} finally {
		fleet.over = true;
		await fleet.end();
	}
}

const missing = ensureImages(path.dirname(binary), 'base');
if (missing) {
	console.log(`FAILED  the image ${missing} could not be built`);
	count.add('failed');
} else {
	await play([{ name: 'every worker is restarted while clients work', run: roll }], count);
}
count.close();
