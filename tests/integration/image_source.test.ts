// SPDX-License-Identifier: Apache-2.0
// SANDBOX_IMAGE_SOURCE: where the image of the sandboxes is missing, it is downloaded from there.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { after, afterEach, before, describe, it } from 'node:test';
import { Downloads, images, keptBytes } from '../lib/downloads.ts';
import { caisson, descendants, self, start } from '../lib/process.ts';
import { serve, using, wires, type Json, type ToolResult } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const downloads = new Downloads();
const offline = { SANDBOX_IMAGE_SOURCE: '127.0.0.1:9/nobody' };
const textOf = (r: ToolResult): string => JSON.stringify(r.content);
const answer = ['-c', 'print(6 * 7)'];

/** Ctrl-C as a terminal sends it: to the program and to all that it started, of which some may have ended by the first signal. */
function interrupt(programs: { pid: number }[]): void {
	for (const { pid } of programs) {
		try {
			process.kill(pid, 'SIGINT');
		} catch (e) {
			if ((e as NodeJS.ErrnoException).code !== 'ESRCH')
				throw e;
		}
	}
}

describe('a missing image', { skip: process.env.CAISSON_TEST_ENGINE_ENV ? 'the native engine has images of its own' : false }, () => {
	before(() => downloads.open());
	after(() => downloads.close());
	afterEach(() => downloads.over());

	describe('image pull without a reference', () => {
		it('fetches the image of the sandboxes, and --name another one', async () => {
			const env = downloads.env();
			const r = await caisson(['image', 'pull'], { env });
			assert.equal(r.code, 0, r.stderr.toString());
			assert.deepEqual(images(env), ['base']);
			const other = await caisson(['image', 'pull', '--name', 'science'], { env });
			assert.match(other.stderr.toString(), /has no image some\/folder\/science:latest/);
			assert.deepEqual(images(env), ['base']);
		});
		it('--if-missing asks nobody for an image that is there', async () => {
			const env = downloads.env();
			assert.equal((await caisson(['image', 'pull'], { env })).code, 0);
			downloads.clear();
			assert.equal((await caisson(['image', 'pull', '--if-missing'], { env })).code, 0);
			assert.equal(downloads.registry.requests.length, 0);
			assert.equal((await caisson(['image', 'pull'], { env })).code, 0);
			assert.ok(downloads.registry.requests.length > 0);
		});
		it('needs the setting, and one that names a folder of a registry', async () => {
			const env = downloads.env();
			for (const [source, words] of [['', /usage: caisson image pull.*SANDBOX_IMAGE_SOURCE/], ['registry', /SANDBOX_IMAGE_SOURCE: 'registry' is not allowed/]] as const) {
				const r = await caisson(['image', 'pull'], { env: { ...env, SANDBOX_IMAGE_SOURCE: source } });
				assert.match(r.stderr.toString(), words);
				assert.notEqual(r.code, 0);
			}
			assert.equal(downloads.registry.requests.length, 0);
		});
	});

	describe('caisson run', () => {
		it('downloads it first, once, and its output is the script\'s alone', async () => {
			const env = downloads.env();
			const first = await caisson(['run', ...answer], { env });
			assert.equal(first.stdout.toString(), '42\n', first.stderr.toString());
			assert.match(first.stderr.toString(), /^Downloading the image 'base' from 127\.0\.0\.1:\d+\/some\/folder\/base:latest; this is needed once\.\n {2}asking the registry\n/);
			assert.deepEqual(images(env), ['base']);
			downloads.clear();
			const second = await caisson(['run', ...answer], { env });
			assert.deepEqual([second.stdout.toString(), second.stderr.toString()], ['42\n', '']);
			assert.equal(downloads.registry.requests.length, 0);
		});
		it('says in one sentence what to do without a network', async () => {
			const env = downloads.env(offline);
			const r = await caisson(['run', ...answer], { env });
			assert.equal(r.code, 69, r.stderr.toString());
			assert.equal(r.stdout.toString(), '');
			assert.match(r.stderr.toString(), /no answer .*Check the address, the network and the proxy of this machine\.\ncaisson run: the image 'base' is not there, and its download from 127\.0\.0\.1:9\/nobody\/base:latest failed \(see above\); try again when that is mended, or bring the image as a file with: caisson image import base FILE\n$/);
			assert.deepEqual(images(env), []);
		});
		it('goes on where Ctrl-C ended it', async () => {
			const env = downloads.env();
			downloads.hold();
			const stopped = start(['run', ...answer], { env });
			await until('some bytes of it', () => keptBytes(env) > 1e6);
			interrupt([self(stopped.pid), ...descendants(stopped.pid)]);
			const r = await stopped.exit;
			assert.equal(r.code, 130, r.stderr.toString());
			assert.match(r.stderr.toString(), /what came is kept/);
			downloads.clear();
			const again = await caisson(['run', ...answer], { env });
			assert.equal(again.stdout.toString(), '42\n', again.stderr.toString());
			assert.match(downloads.registry.requests.map((q) => q.range ?? '').join(), /bytes=[1-9]\d*-/);
		});
	});

	for (const wire of wires) describe(`a server over ${wire === 'http' ? 'HTTP' : wire}`, () => {
		it('answers at once, its call waits for the image and tells how far it is, and others go on', async () => {
			const env = downloads.env();
			downloads.hold();
			await using(wire, { profile: 'full', env }, async (s) => {
				assert.ok((await s.client.listTools()).tools.length > 5);
				const told: string[] = [];
				const values: number[] = [];
				const run = s.raw('sandbox_run_python', { code: 'print(6 * 7)' }, { onprogress: (p) => { told.push(p.message ?? ''); values.push(p.progress); } });
				await until('a report of the download', () => told.some((m) => /^downloading the image 'base': fetching \d+ layers?/.test(m)));
				assert.ok((await s.client.listTools()).tools.length > 5, 'others go on');
				await until('progress that says how much came', () => values.some((v) => v > 0.35 && v < 0.6));
				assert.equal(downloads.asked, 1);
				downloads.letGo();
				assert.match(textOf(await run), /42/);
				assert.deepEqual(values, [...values].sort((a, b) => a - b));
				assert.ok(values.every((v, i) => i === 0 || v > values[i - 1]!), values.join());
				assert.deepEqual(images(env), ['base']);
				assert.match(textOf(await s.raw('sandbox_run_python', { code: 'print(40 + 2)' })), /42/);
				assert.equal(downloads.asked, 1);
			});
		});
		it('says what to do when the download fails, and tries again for the next call', async () => {
			const env = downloads.env();
			downloads.registry.lie = (_, res) => {
				res.socket!.destroy();
				return true;
			};
			await using(wire, { profile: 'full', env }, async (s) => {
				for (let i = 0; i < 2; i++) {
					const r = await s.raw('sandbox_run_python', { code: 'print(6 * 7)' });
					assert.equal(r.isError, true);
					assert.match(textOf(r), /the image 'base' is not there, and its download from 127\.0\.0\.1:\d+\/some\/folder\/base:latest failed \(.*no answer.*\); call again when that is mended, or bring the image as a file with: caisson image import base FILE/);
				}
				downloads.clear();
				assert.match(textOf(await s.raw('sandbox_run_python', { code: 'print(6 * 7)' })), /42/);
			});
		});
		it('(slow) answers a call that waits for longer than clients do, and the next one waits for the rest', async () => {
			const env = downloads.env();
			downloads.hold();
			await using(wire, { profile: 'full', env }, async (s) => {
				const r = await s.raw('sandbox_run_python', { code: 'print(6 * 7)' });
				assert.equal(r.isError, true);
				assert.match(textOf(r), /the image 'base' is still being downloaded from 127\.0\.0\.1:\d+\/some\/folder\/base:latest \(fetching \d+ layers?.*\); call again, and the call waits for the rest/);
				const next = s.raw('sandbox_run_python', { code: 'print(6 * 7)' });
				downloads.letGo();
				assert.match(textOf(await next), /42/);
				assert.equal(downloads.asked, 1);
			});
		});
		it('that ends stops the download, which goes on at the next start', async () => {
			const env = downloads.env();
			downloads.hold();
			let pulls: { pid: number }[] = [];
			await using(wire, { profile: 'full', env }, async (s) => {
				await until('some bytes', () => keptBytes(env) > 1e6);
				pulls = descendants(s.pid).filter((p) => p.name.startsWith('caisson'));
			});
			await until('the end of its processes', () => pulls.every(({ pid }) => !fs.existsSync(`/proc/${pid}`)));
			assert.deepEqual(images(env), ['.fetch']);
			downloads.clear();
			await using(wire, { profile: 'full', env }, async (s) => assert.match(textOf(await s.raw('sandbox_run_python', { code: 'print(6 * 7)' })), /42/));
			assert.match(downloads.registry.requests.map((q) => q.range ?? '').join(), /bytes=[1-9]\d*-/);
		});
	});

	describe('serve', () => {
		it('shows the download where it shows builds, with its lines, and an administrator can stop it', async () => {
			const env = downloads.env({ SANDBOX_IMAGE_BUILDS: 'off' });
			downloads.hold();
			const { program, base } = await serve({ profile: 'full', env });
			const state = async (): Promise<Json> => (await (await fetch(`${base}/api/v1/images`)).json() as Json);
			try {
				await until('the download', async () => (await state()).build?.lines.some((l: string) => /fetching \d+ layers?/.test(l)));
				const { build, definitions, why_not } = await state();
				assert.deepEqual([build.name, build.what, build.state, build.ended_at, definitions], ['base', 'download', 'downloading', null, []]);
				assert.match(why_not, /SANDBOX_IMAGE_BUILDS/);
				assert.equal((await fetch(`${base}/api/v1/images`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"base"}' })).status, 403);
				assert.equal((await fetch(`${base}/api/v1/images/build`, { method: 'DELETE' })).status, 202);
				await until('its end', async () => (await state()).build.state === 'cancelled');
				downloads.clear();
				const made = await fetch(`${base}/api/v1/sandboxes`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
				assert.equal(made.status, 201, await made.text());
				assert.equal((await state()).build.state, 'done');
			} finally {
				await program.end();
			}
		});
		it('refuses a source that names no folder of a registry', async () => {
			const r = await caisson(['serve', '--listen', '127.0.0.1:0'], { env: downloads.env({ SANDBOX_IMAGE_SOURCE: 'registry.example' }) });
			assert.match(r.stderr.toString(), /SANDBOX_IMAGE_SOURCE: 'registry\.example' is not allowed/);
			assert.equal(r.code, 78);
		});
	});
});
