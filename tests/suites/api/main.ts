// SPDX-License-Identifier: Apache-2.0
// The OpenAPI document against the running server: schemathesis makes requests from /api/v1/openapi.json, good and bad ones. It
// checks that the document names the status, type and body of every answer, and that no answer is a server error. Two generators of
// clients read the document without a warning, and their clients do the workflow of docs/rest.md (generated.py, generated.ts).

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { spawn, spawnSync } from 'node:child_process';
import { Count } from '../../lib/count.ts';
import { freePort, scratch, slowness, top } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { options } from '../../lib/options.ts';
import { play, type Trial } from '../../lib/play.ts';
import { Program, start } from '../../lib/process.ts';
import { pythonEnvironment } from '../../lib/python.ts';
import { until } from '../../lib/wait.ts';

const opt = options(`usage: tests/run api [options]
  --build DIR   test another build folder
  --seconds N   the longest time that the generator of requests has (default: 50)`, {
	build: { type: 'string', default: path.join(top, 'build') },
	seconds: { type: 'string', default: '50' },
});
const here = path.join(top, 'tests/suites/api');
const WHOLE_S = 50;
/** So many operations a whole run tests at least. */
const OPERATIONS_MIN = 20;
const count = new Count();

function fail(why: string): never {
	console.log(`FAILED  ${why}`);
	count.add('failed');
	return count.close();
}

if (ensureImages(opt.build, 'base'))
	fail('the image base could not be built');
const bin = pythonEnvironment('api', path.join(here, 'requirements.txt'));
const port = await freePort();
const server = start(['serve', '--listen', `127.0.0.1:${port}`], {
	program: path.resolve(opt.build, 'caisson'),
	env: {
		SANDBOX_HTTP_PORT: 'off', SANDBOX_IMAGE: 'base', SANDBOX_MAX_SESSIONS: '20', SANDBOX_USER_SANDBOX_LIMIT: '5',
		SANDBOX_EXEC_TIMEOUT_S: '3', SANDBOX_STORED_EXEC_TIMEOUT_S: '3',
	},
});
const base = `http://127.0.0.1:${port}`;
await until('the server', () => {
	if (server.child.exitCode !== null)
		fail(`the server ended: ${server.stderr.slice(-300)}`);
	return fetch(`${base}/readyz`).then((r) => r.ok, () => false);
}, 20_000);

/** A folder with the document. */
async function described(name: string): Promise<string> {
	const folder = scratch(name);
	fs.writeFileSync(path.join(folder, 'openapi.json'), await (await fetch(`${base}/api/v1/openapi.json`)).text());
	return folder;
}

/** What is wrong with the types that openapi-typescript makes, with a program that uses them, or with those of the page; '' if nothing is. */
async function typedClient(): Promise<string> {
	const folder = await described('typed');
	fs.symlinkSync(path.join(here, 'node_modules'), path.join(folder, 'node_modules'));
	fs.copyFileSync(path.join(here, 'generated.ts'), path.join(folder, 'generated.ts'));
	fs.writeFileSync(path.join(folder, 'package.json'), '{"type":"module"}');
	const node = (...args: string[]): string | undefined => {
		const done = spawnSync(process.execPath, ['--disable-warning=ExperimentalWarning', ...args], { cwd: folder, encoding: 'utf8' });
		return done.status === 0 ? undefined : `${args[0]}: ${done.error?.message ?? ''}${done.stdout.slice(-1500)}${done.stderr.slice(-1500)}`;
	};
	return node('node_modules/openapi-typescript/bin/cli.js', 'openapi.json', '-o', 'paths.d.ts')
		?? node('node_modules/typescript/bin/tsc', '--noEmit', '--strict', '--target', 'es2023', '--module', 'nodenext', '--skipLibCheck', '--allowImportingTsExtensions',
			'--typeRoots', path.join(top, 'tests/node_modules/@types'), '--types', 'node', 'generated.ts')
		?? node('generated.ts', base) ?? node(path.join(top, 'web/describe.mjs'), path.join(folder, 'openapi.json'), '--check') ?? '';
}

/** What is wrong with the client that openapi-python-client makes; '' if nothing is. */
async function generatedClient(): Promise<string> {
	const folder = await described('client');
	const tools = pythonEnvironment('api-client', path.join(here, 'client-requirements.txt'));
	const run = (program: string, ...args: string[]): string | undefined => {
		const done = spawnSync(path.join(tools, program), args, { cwd: folder, encoding: 'utf8', env: { ...process.env, PATH: `${tools}:${process.env.PATH}` } });
		return done.status === 0 ? undefined : `${program}: ${done.error?.message ?? ''}${done.stdout.slice(-1500)}${done.stderr.slice(-1500)}`;
	};
	return run('openapi-python-client', 'generate', '--path', 'openapi.json', '--output-path', 'made', '--meta', 'none', '--fail-on-warning')
		?? run('python', path.join(here, 'generated.py'), folder, base) ?? '';
}

/** An end or a report of the server, which no second try forgives. */
function inspect(): void {
	const { exitCode, signalCode } = server.child;
	if (exitCode !== null || signalCode !== null)
		throw new Error(`the server ended with ${signalCode ?? exitCode}: ${server.stderr.slice(-300)}`);
	if (/Sanitizer|runtime error|broken promise/.test(server.stderr))
		throw new Error(server.stderr.slice(-2000));
}

/** A generated client does the workflow, if its generator can be had. */
function workflow(language: string, client: () => Promise<string>): Trial {
	const run = async (): Promise<string | void> => {
		const wrong = await client().catch((e: Error) => ({ missing: `the generator cannot be had: ${e.message}` }));
		inspect();
		if (typeof wrong !== 'string')
			return wrong.missing;
		assert.equal(wrong, '');
	};
	return { name: `a generated client in ${language} does the workflow`, run };
}

// Event streams have no end that a generator could wait for; tests/integration/rest.test.ts has them.
async function requests(): Promise<void> {
	const r = await new Program(spawn(path.join(bin, 'schemathesis'), ['--config-file', path.join(here, 'schemathesis.toml'), 'run', `${base}/api/v1/openapi.json`, '--url', base,
		'--max-examples', '15', '--max-time', String(Number(opt.seconds) * slowness), '--request-timeout', '20', '--phases', 'examples,coverage,fuzzing',
		'--checks', 'not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance',
		'--exclude-operation-id', 'followRun', '--exclude-operation-id', 'watchSandbox', '--warnings', 'off', '--no-color', '--generation-deterministic', '--suppress-health-check', 'all'],
	{ cwd: scratch('report'), stdio: ['ignore', 'pipe', 'pipe'] })).exit;
	const report = `${r.stdout.toString()}${r.stderr.toString()}`;
	console.log(report.split('\n').slice(-60).map((l) => l.slice(0, 400)).join('\n'));
	inspect();
	const tested = Number(/^ *Tested: (\d+)$/m.exec(report)?.[1] ?? 0);
	const least = Number(opt.seconds) < WHOLE_S ? 1 : OPERATIONS_MIN;
	if (tested < least)
		throw new Error(`only ${tested} operations were tested, at least ${least} are expected`);
	const bad = report.match(/^_{3,} .* _{3,}$/gm) ?? [];
	if (r.code !== 0)
		throw new Error(`of ${tested} operations these are wrong: ${bad.join(' ')}`);
}

await play([
	workflow('Python', generatedClient), workflow('TypeScript', typedClient),
	{ name: 'every answer to the requests of schemathesis is one that the document names', run: requests },
], count);
server.kill('SIGTERM');
await server.exit;
count.close();
