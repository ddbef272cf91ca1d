// SPDX-License-Identifier: Apache-2.0
// The OpenAPI document against the running server: schemathesis makes requests from /api/v1/openapi.json, good and bad ones. It
// checks that the document names the status, type and body of every answer, and that no answer is a server error.

import * as path from 'node:path';
import { spawn } from 'node:child_process';
import { Count } from '../../lib/count.ts';
import { freePort, scratch, top } from '../../lib/env.ts';
import { ensureImages } from '../../lib/images.ts';
import { options } from '../../lib/options.ts';
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

// Event streams have no end that a generator could wait for; tests/integration/rest.test.ts has them.
const r = await new Program(spawn(path.join(bin, 'schemathesis'), ['--config-file', path.join(here, 'schemathesis.toml'), 'run', `${base}/api/v1/openapi.json`, '--url', base,
	'--max-examples', '15', '--max-time', opt.seconds, '--request-timeout', '20', '--phases', 'examples,coverage,fuzzing',
	'--checks', 'not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance',
	'--exclude-operation-id', 'followRun', '--warnings', 'off', '--no-color', '--generation-deterministic', '--suppress-health-check', 'all'],
{ cwd: scratch('report'), stdio: ['ignore', 'pipe', 'pipe'] })).exit;
const report = `${r.stdout.toString()}${r.stderr.toString()}`;
console.log(report.split('\n').slice(-60).map((l) => l.slice(0, 400)).join('\n'));
if (server.child.exitCode !== null)
	fail(`the server has ended: ${server.stderr.slice(-300)}`);
if (/Sanitizer|runtime error/.test(server.stderr))
	fail(`a sanitizer reports: ${server.stderr.slice(-2000)}`);
server.kill('SIGTERM');
await server.exit;
const tested = Number(/^ *Tested: (\d+)$/m.exec(report)?.[1] ?? 0);
if (tested < OPERATIONS_MIN)
	fail(`only ${tested} operations were tested, at least ${OPERATIONS_MIN} are expected`);
const bad = r.code === 0 ? 0 : Math.max(1, report.match(/^_{3,} .* _{3,}$/gm)?.length ?? 0);
count.add('failed', bad);
count.add('passed', Math.max(0, tested - bad));
count.close();
