// SPDX-License-Identifier: Apache-2.0
// A router and two workers with engines.

import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { freePort, newStateDir, productUid, scratch } from './env.ts';
import { Authority, routerUid, underRouter } from './fake-workers.ts';
import { start, type Program } from './process.ts';
import { until } from './wait.ts';

export interface RealFleet {
	base: string;
	port: number;
	router: Program;
	workers: Program[];
	/** Starts the worker that was the I-th anew, on its own disk, or on an empty one. */
	again(i: number, empty?: boolean): Promise<void>;
	/** Settings of the router, also for commands about its users. */
	env: Record<string, string>;
	end(): Promise<void>;
}

const answers = (port: number, what: string): Promise<boolean> => fetch(`http://127.0.0.1:${port}${what}`).then(async (r) => r.ok && !(await r.text()).includes(': 1 of'), () => false);

/** OF: more settings of the router, and of workers; STATE makes the state folder of a worker. */
export async function startFleet(name: string, of: { router?: Record<string, string>; worker?: Record<string, string>; state?: () => string } = {}): Promise<RealFleet> {
	const dir = scratch(name), list = path.join(dir, 'workers'), keyFile = path.join(dir, 'fleet.key'), state = newStateDir();
	fs.chmodSync(path.dirname(dir), 0o711); // the router is another user than the tests
	const authority = new Authority(dir), mine = authority.certificate('router'), theirs = authority.certificate('worker');
	const key = randomBytes(32), workers: Program[] = [], lines: string[] = [];
	fs.writeFileSync(keyFile, key);
	for (const f of [theirs.cert, theirs.key])
		fs.chownSync(f, productUid, productUid);
	const starts: ((empty: boolean) => Program)[] = [], plains: number[] = [];
	for (const worker of ['one', 'two']) {
		const [tls, plain] = [await freePort(), await freePort()], file = path.join(dir, `${worker}.key`);
		fs.writeFileSync(file, key);
		fs.chownSync(file, productUid, productUid);
		let own = of.state ? of.state() : newStateDir();
		plains.push(plain);
		starts.push((empty) => start(['serve', '--listen', `127.0.0.1:${plain}`, '--profile', 'full'], { env: {
			SANDBOX_STATE_DIR: empty ? own = newStateDir() : own, SANDBOX_ROLE: 'worker', SANDBOX_HTTP_PORT: 'off', SANDBOX_TLS_LISTEN: `127.0.0.1:${tls}`, SANDBOX_TLS_CERTIFICATE: theirs.cert, SANDBOX_TLS_KEY: theirs.key,
			SANDBOX_FLEET_CA: authority.ca, SANDBOX_FLEET_KEY: file, SANDBOX_FLEET_NAME: worker, ...of.worker,
		} }));
		workers.push(starts.at(-1)!(false));
		lines.push(`127.0.0.1:${tls}\n`);
		await until(`worker ${worker}`, () => answers(plain, '/healthz'), 20_000);
	}
	fs.writeFileSync(list, lines.join(''));
	for (const f of [dir, keyFile, list, mine.cert, mine.key, authority.ca, state])
		fs.chownSync(f, routerUid, routerUid);
	const env = {
		SANDBOX_STATE_DIR: state, SANDBOX_ROLE: 'router', SANDBOX_FLEET_WORKERS: list, SANDBOX_FLEET_KEY: keyFile, SANDBOX_FLEET_CA: authority.ca,
		SANDBOX_FLEET_CERTIFICATE: mine.cert, SANDBOX_FLEET_CERTIFICATE_KEY: mine.key, ...of.router,
	};
	const port = await freePort(), router = start(['serve', '--listen', `127.0.0.1:${port}`, '--profile', 'full'], { env, under: underRouter });
	await until('the router has two workers', () => answers(port, '/readyz'), 20_000);
	const again = async (i: number, empty = false): Promise<void> => {
		workers[i] = starts[i]!(empty);
		await until('the worker is back', () => answers(plains[i]!, '/healthz'), 20_000);
	};
	return { base: `http://127.0.0.1:${port}`, port, router, workers, env, again, end: async () => {
		router.kill('SIGTERM');
		for (const w of [...workers, ...workers]) // the second signal ends it at once
			w.kill('SIGTERM');
		await Promise.all([router, ...workers].map((p) => p.exit));
	} };
}
