// SPDX-License-Identifier: Apache-2.0
// nginx and Caddy in front of a server (README.md).

import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { Count } from '../../lib/count.ts';
import { binary, newStateDir, scratch } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { options } from '../../lib/options.ts';
import { play } from '../../lib/play.ts';
import { serve } from '../../lib/session.ts';
import { within } from '../../lib/wait.ts';
import { BOX, casesOf, KEY, PORTS } from './cases.ts';
import { kinds, Proxy } from './proxies.ts';

const CASE_MS = 60_000;
const opt = options(`usage: tests/run proxy [options]   nginx and Caddy with the files of packaging/proxy in front of a server
  --case REGEX   only cases whose name matches`, { case: { type: 'string', default: '' } });
const count = new Count();

async function main(): Promise<void> {
	const missing = ensureImages(path.dirname(binary), 'base');
	if (missing)
		throw new Error(`the image ${missing} could not be built`);
	const folder = scratch('certificate'), certificate = path.join(folder, 'box.pem'), key = path.join(folder, 'box.key');
	const made = spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', `/CN=${BOX}`,
		'-addext', `subjectAltName=DNS:${BOX},DNS:*.${PORTS}`, '-keyout', key, '-out', certificate], { encoding: 'utf8' });
	if (made.status !== 0)
		throw new Error(made.stderr);
	for (const below of ['', '/caisson'])
		await behind(below, certificate, key);
}

/** One server, below that path of its host, behind each proxy in turn. */
async function behind(below: string, certificate: string, key: string): Promise<void> {
	const { program, port } = await serve({ profile: 'full', env: {
		SANDBOX_STATE_DIR: newStateDir(), SANDBOX_IMAGE: 'base', SANDBOX_API_KEY: KEY, SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_PUBLIC_URL: `https://${BOX}${below}`,
		...(below === '' && { SANDBOX_ALLOWED_HOSTS: BOX, SANDBOX_PORT_DOMAIN: PORTS, SANDBOX_FACES: 'e2b' }), SANDBOX_TRUSTED_PROXIES: '127.0.0.1', SANDBOX_MAX_UPLOAD_BYTES: String(600 << 20), SANDBOX_WORKSPACE_LIMIT: '700m' } });
	try {
		for (const kind of kinds.filter((k) => k.path === below)) {
			const proxy = await Proxy.start(kind, `127.0.0.1:${port}`, certificate, key);
			if (typeof proxy === 'string') {
				const strict = process.env.CAISSON_STRICT === '1';
				console.log(`${strict ? 'FAILED' : 'skip  '}  ${proxy}`);
				count.add(strict ? 'failed' : 'skipped');
				continue;
			}
			try {
				const cases = casesOf(kind, proxy, fs.readFileSync(certificate)).filter((c) => new RegExp(opt.case).test(c.name));
				await play(cases.map((c) => ({ name: c.name, run: () => within(c.name, c.run(), CASE_MS) })), count);
			} finally {
				await proxy.stop();
			}
		}
	} finally {
		await program.end();
	}
}

try {
	await main();
} catch (e) {
	console.log(`FAILED  the preparation\n        ${String((e as Error).stack ?? e).split('\n').join('\n        ')}`);
	count.add('failed');
}
count.close();
