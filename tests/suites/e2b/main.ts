// SPDX-License-Identifier: Apache-2.0
// E2B's own SDKs against the face e2b, unchanged: each job of each SDK is a program of its own, as an application is.

import * as path from 'node:path';
import { spawn, spawnSync } from 'node:child_process';
import { Count } from '../../lib/count.ts';
import { binary, mode, newStateDir, slowness } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { options } from '../../lib/options.ts';
import { stateOfItsOwn } from '../../lib/own-images.ts';
import { play } from '../../lib/play.ts';
import { pythonEnvironment } from '../../lib/python.ts';
import { serve } from '../../lib/session.ts';

const here = import.meta.dirname;
const KEY = 'the-key-of-a-server-for-agents';
const JOB_MS = 120_000 * slowness;
const opt = options(`usage: tests/run e2b [options]   E2B's SDKs for Python and JavaScript against the face e2b
  --case REGEX   only cases whose name matches: "python 2.50 commands"`, { case: { type: 'string', default: '' } });
const count = new Count();

const python = (version: string): string[] =>
	[path.join(pythonEnvironment(`e2b/${version}`, path.join(here, `python/requirements-${version}.txt`)), 'python'), path.join(here, 'python/jobs.py')];

const sdks: readonly [string, () => string[]][] = [
	['python newest', () => python('newest')],
	['python 2.50', () => python('2.50')],
	['python 2.24', () => python('2.24')],
	['javascript newest', () => [process.execPath, path.join(here, 'js/jobs.mjs')]],
];

/** Runs a job to its end; throws with all that it has said if it fails. */
function run(command: readonly string[], env: NodeJS.ProcessEnv): Promise<void> {
	return new Promise((done, failed) => {
		const child = spawn(command[0]!, command.slice(1), { env, stdio: ['ignore', 'pipe', 'pipe'], timeout: JOB_MS, killSignal: 'SIGKILL' });
		let said = '';
		for (const stream of [child.stdout, child.stderr])
			stream.on('data', (data) => {
				said += data;
			});
		child.on('error', failed);
		child.on('close', (code, signal) => {
			if (code === 0)
				done();
			else
				failed(new Error(signal ? `the job took more than ${JOB_MS} ms\n${said}` : `${said.trim().split('\n').at(-1)}\n${said}`));
		});
	});
}

interface Server { env: NodeJS.ProcessEnv; end: () => Promise<unknown> }

async function server(settings: Record<string, string>): Promise<Server> {
	const { program, base } = await serve({ profile: 'full', env: { SANDBOX_API_KEY: KEY, SANDBOX_FACES: 'e2b', SANDBOX_PUBLIC_PORTS: 'on', SANDBOX_MEMORY_LIMIT: '768m', ...settings } });
	return {
		env: {
			...process.env, PYTHONDONTWRITEBYTECODE: '1', E2B_API_KEY: `e2b_${Buffer.from(KEY).toString('hex')}`,
			E2B_API_URL: `${base}/faces/e2b`, E2B_SANDBOX_URL: `${base}/faces/e2b`,
		},
		end: () => program.end(),
	};
}

async function main(): Promise<void> {
	const missing = ensureImages(path.dirname(binary), 'science');
	if (missing)
		throw new Error(`the image ${missing} could not be built`);
	const plain = await server({ SANDBOX_STATE_DIR: newStateDir() });
	/** Templates are images, so this one has a folder of images to itself. */
	const builder = mode === 'root' ? await server({ SANDBOX_STATE_DIR: stateOfItsOwn(), SANDBOX_IMAGE: 'base', SANDBOX_ROOT: 'on', SANDBOX_TEMPLATES: 'on' }) : undefined;
	try {
		for (const [sdk, command] of sdks) {
			const words = command();
			const listed = spawnSync(words[0]!, words.slice(1), { env: plain.env, encoding: 'utf8' });
			if (listed.status !== 0)
				throw new Error(`${sdk}: ${listed.stderr}`);
			const jobs = listed.stdout.trim().split('\n').filter((name) => new RegExp(opt.case).test(`${sdk} ${name.replaceAll('_', ' ')}`));
			await play(jobs.map((name) => ({ name: `${sdk}: ${name.replaceAll('_', ' ')}`, run: async (): Promise<string | undefined> => {
				const where = name.startsWith('template') ? builder : plain;
				if (!where)
					return 'only a server that root started builds templates';
				await run([...words, name], where.env);
				return undefined;
			} })), count);
		}
	} finally {
		await plain.end();
		await builder?.end();
	}
}

try {
	await main();
} catch (e) {
	console.log(`FAILED  the preparation\n        ${String((e as Error).stack ?? e).split('\n').join('\n        ')}`);
	count.add('failed');
}
count.close();
