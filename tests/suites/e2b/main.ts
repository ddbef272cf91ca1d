// SPDX-License-Identifier: Apache-2.0
// E2B's own SDKs, and frameworks that use them, against the face e2b, unchanged: each job is a program of its own, as an application is.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { Count } from '../../lib/count.ts';
import { binary, freePort, imagesDir, mode, newStateDir, productUid, scratch, slowness } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { image, Registry } from '../../lib/oci.ts';
import { options } from '../../lib/options.ts';
import { stateOfItsOwn } from '../../lib/own-images.ts';
import { play } from '../../lib/play.ts';
import { newerPython, pythonEnvironment } from '../../lib/python.ts';
import { startFleet } from '../../lib/real-fleet.ts';
import { serve } from '../../lib/session.ts';

const here = import.meta.dirname;
const KEY = 'the-key-of-a-server-for-agents';
const JOB_MS = 120_000 * slowness;
const opt = options(`usage: tests/run e2b [options]   E2B's SDKs for Python and JavaScript, and frameworks that use them, against the face e2b
  --fleet        against a router and two workers instead of one server
  --sdk REGEX    only SDKs and frameworks whose name matches: "python 2.50", "harbor"; others are not installed
  --case REGEX   only cases whose name matches: "python 2.50 commands"`, { fleet: { type: 'boolean', default: false }, case: { type: 'string', default: '' }, sdk: { type: 'string', default: '' } });
const count = new Count();

/** The program of an SDK or framework, which names its jobs; or why it cannot be here. */
type Command = () => readonly string[] | string | Promise<readonly string[]>;

const python = (version: string): string[] =>
	[path.join(pythonEnvironment(`e2b/${version}`, path.join(here, `python/requirements-${version}.txt`)), 'python'), path.join(here, 'python/jobs.py')];
const javascript = (file: string): string[] => [process.execPath, path.join(here, 'js', file)];
const framework = (name: string, file: string, program?: string): string[] =>
	[path.join(pythonEnvironment(`e2b/${name}`, path.join(here, `frameworks/requirements-${name}.txt`), program), 'python'), path.join(here, 'frameworks', file)];

function harbor(): readonly string[] | string {
	const program = newerPython('3.12');
	return program ? framework('harbor', 'harbor_trial.py', program) : 'there is no Python 3.12, which Harbor wants';
}

/** Templates are images, so the servers that build them have folders of images to themselves. */
const builderStates: string[] = [];
function builderState(): string {
	const state = stateOfItsOwn();
	builderStates.push(state);
	return state;
}

/** The operator of the builder has downloaded the image that verifiers asks for, by the reference that names its registry. */
async function verifiers(): Promise<readonly string[]> {
	const registry = new Registry();
	await registry.open();
	const reference = `${registry.host}/library/python:3.11-slim`;
	try {
		const layer = execFileSync('tar', ['-C', path.join(imagesDir, 'base/root'), '-c', '--owner=0', '--group=0', '.'], { maxBuffer: 2 ** 30 });
		registry.add('library/python', image([layer], { plain: true }));
		for (const state of builderStates)
			await run([binary, 'image', 'pull', reference, '--name', 'python', '--plain-http', '--state-dir', state], process.env);
	} finally {
		registry.close();
	}
	return ['/usr/bin/env', `VERIFIERS_IMAGE=${reference}`, ...framework('verifiers', 'verifiers_runtime.py')];
}

/** BUILDS: all of its jobs need the server that has root users and builds templates. NAMED: the server that is reached by its name alone. */
const sdks: readonly { name: string; command: Command; builds?: boolean; named?: boolean }[] = [
	{ name: 'python newest', command: () => python('newest') },
	{ name: 'python newest by E2B_DOMAIN', command: () => python('newest'), named: true },
	{ name: 'python 2.50', command: () => python('2.50') },
	{ name: 'python 2.24', command: () => python('2.24') },
	{ name: 'javascript newest', command: () => javascript('jobs.mjs') },
	{ name: 'javascript newest by E2B_DOMAIN', command: () => javascript('jobs.mjs'), named: true },
	{ name: 'smolagents', command: () => framework('smolagents', 'smol.py') },
	{ name: 'Deep Agents', command: () => framework('deepagents', 'deep_agents.py') },
	{ name: 'OpenAI Agents', command: () => framework('openai', 'openai_agents.py'), builds: true },
	{ name: 'AI SDK', command: () => javascript('ai.mjs') },
	{ name: 'ComputeSDK', command: () => javascript('computesdk.mjs') },
	{ name: 'Harbor', command: harbor, builds: true },
	{ name: 'verifiers', command: verifiers, builds: true },
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

const variables = (base: string): NodeJS.ProcessEnv => ({
	...process.env, PYTHONDONTWRITEBYTECODE: '1', E2B_API_KEY: `e2b_${Buffer.from(KEY).toString('hex')}`,
	E2B_API_URL: `${base}/faces/e2b`, E2B_SANDBOX_URL: `${base}/faces/e2b`, ...(opt.fleet ? { FLEET: '1' } : {}),
});

/** WORKER: settings that a router does not have. STATE: makes a state folder, with images of its own; without it all have the same images. */
async function server(settings: Record<string, string>, worker: Record<string, string> = {}, state?: () => string): Promise<Server> {
	const common = { SANDBOX_FACES: 'e2b', ...(settings['SANDBOX_PORT_DOMAIN'] ? { SANDBOX_PORT_DOMAIN: settings['SANDBOX_PORT_DOMAIN'] } : {}) };
	const boxes = { SANDBOX_PUBLIC_PORTS: 'on', SANDBOX_MEMORY_LIMIT: '768m' };
	if (opt.fleet) {
		const fleet = await startFleet(`e2b-${state ? 'builder' : settings['SANDBOX_PORT_DOMAIN'] ? 'named' : 'plain'}`, { router: { ...common, SANDBOX_API_KEY: KEY, ...settings }, worker: { ...common, ...boxes, ...worker }, state });
		return { env: variables(fleet.base), end: () => fleet.end() };
	}
	const { program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: state ? state() : newStateDir(), SANDBOX_API_KEY: KEY, ...common, ...boxes, ...settings, ...worker } });
	return { env: variables(base), end: () => program.end() };
}

/** With its own listener for TLS, a certificate for all names below a domain, and nothing in front. Clients know E2B_DOMAIN alone. */
async function namedServer(): Promise<Server> {
	const dir = scratch('named'), certificate = path.join(dir, 'cert.pem'), key = path.join(dir, 'key.pem'), domain = 'sandboxes.localhost'; // that some resolvers know by themselves
	/* A root and what it signed: newer clients refuse a certificate that is both. */
	const root = path.join(dir, 'root.pem'), rootKey = path.join(dir, 'root-key.pem');
	const make = (out: string, outKey: string, ...more: string[]): void => {
		const r = spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-keyout', outKey, '-out', out, ...more], { encoding: 'utf8' });
		if (r.status !== 0)
			throw new Error(r.stderr);
	};
	make(root, rootKey, '-subj', '/CN=root of the tests');
	make(certificate, key, '-subj', `/CN=${domain}`, '-CA', root, '-CAkey', rootKey, '-addext', 'basicConstraints=critical,CA:FALSE', '-addext', `subjectAltName=DNS:*.${domain}`);
	for (const file of [certificate, key])
		fs.chownSync(file, productUid, productUid);
	const port = await freePort();
	const { env, end } = await server({
		SANDBOX_PORT_DOMAIN: domain, SANDBOX_TLS_LISTEN: `127.0.0.1:${port}`, SANDBOX_TLS_CERTIFICATE: certificate, SANDBOX_TLS_KEY: key });
	const { E2B_API_URL: _, E2B_SANDBOX_URL: __, ...rest } = env;
	return { env: { ...rest, E2B_DOMAIN: `${domain}:${port}`, SSL_CERT_FILE: root, NODE_EXTRA_CA_CERTS: root, PYTHONPATH: path.join(here, 'python/named'), NODE_OPTIONS: `--import=${path.join(here, 'js/named.mjs')}` }, end };
}

/** The jobs of a program; with WHY they are skipped instead. */
async function jobsOf(sdk: string, command: Command, env: NodeJS.ProcessEnv): Promise<{ words: readonly string[]; names: string[] }> {
	const words = await command();
	if (typeof words === 'string')
		return { words: [words], names: [] };
	const listed = spawnSync(words[0]!, words.slice(1), { env, encoding: 'utf8' });
	if (listed.status !== 0)
		throw new Error(`${sdk}: ${listed.stderr}`);
	return { words, names: listed.stdout.trim().split('\n').filter((name) => new RegExp(opt.case).test(`${sdk} ${name.replaceAll('_', ' ')}`)) };
}

async function main(): Promise<void> {
	const missing = ensureImages(path.dirname(binary), 'science');
	if (missing)
		throw new Error(`the image ${missing} could not be built`);
	const plain = await server({}), named = await namedServer();
	const builder = mode === 'root'
		? await server({}, { SANDBOX_IMAGE: 'base', SANDBOX_ROOT: 'on', SANDBOX_TEMPLATES: 'on', SANDBOX_IMAGES: '*' }, builderState)
		: undefined;
	try {
		for (const { name: sdk, command, builds, named: byName } of sdks.filter(({ name }) => new RegExp(opt.sdk, 'i').test(name))) {
			const { words, names } = await jobsOf(sdk, command, byName ? named.env : plain.env);
			if (names.length === 0 && words.length === 1)
				await play([{ name: sdk, run: async () => words[0] }], count);
			await play(names.map((name) => ({ name: `${sdk}: ${name.replaceAll('_', ' ')}`, run: async (): Promise<string | undefined> => {
				const where = byName ? named : builds || name.startsWith('template') ? builder : plain;
				if (!where)
					return 'only a server that root started builds templates';
				if (opt.fleet && !byName && name === 'addresses_of_files')
					return 'an address without the name of its sandbox leads to no worker';
				await run([...words, name], where.env);
				return undefined;
			} })), count);
		}
	} finally {
		await plain.end();
		await named.end();
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
