// SPDX-License-Identifier: Apache-2.0
// sandbox_add_file by address, in a network whose names, redirects and lengths lie (suites/hostile/names.ts): only the public host is ever reached, and a
// file that is not complete does not appear, nor does anything else.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { engine, mode, scratch, top } from '../lib/env.ts';
import { facts, using, type Json, type Session } from '../lib/session.ts';
import { OWN, PORT, PUBLIC, ZONE } from '../suites/hostile/names.ts';

const skip = process.getuid!() !== 0 ? 'only root can make such a network' : mode !== 'root' || process.env.CAISSON_TEST_COLD === '1' ? 'once is enough: the front resolves for everybody in the same way'
	: engine !== 'native' ? 'the sandboxes of the daemon are in another network' : false;
const at = (name: string): string => `${name}.${ZONE}:${PORT}`;

describe('a file from an address', { skip }, () => {
	async function world(env: Record<string, string>, body: (s: Session, report: () => string[]) => Promise<void>): Promise<void> {
		const report = path.join(scratch('names'), 'report');
		fs.writeFileSync(report, '');
		const under = ['unshare', '--net', '--mount', '--propagation', 'private', '--', process.execPath, path.join(top, 'tests/suites/hostile/names.ts'), report, '--'];
		await using('stdio', { profile: 'full', under, env: { NODE_NO_WARNINGS: '1', SANDBOX_NETWORK: 'allowlist', SANDBOX_NETWORK_ALLOW: `*.${ZONE}:${PORT}`, ...env } },
			(s) => body(s, () => fs.readFileSync(report, 'utf8').split('\n').filter(Boolean)));
	}
	const add = async (s: Session, url: string, more: Json = {}): Promise<Json> => facts(await s.raw('sandbox_add_file', { url, session_id: 'a', path: 'got', ...more }));
	const left = async (s: Session): Promise<string> => facts(await s.raw('sandbox_run_shell', { command: 'cd /mnt/data && find . -type f -printf "%P %s\\n" | sort', session_id: 'a' })).stdout as string;
	const empty = async (s: Session): Promise<void> => assert.equal(await left(s), '');

	it('(slow) reaches no address that is not public, directly or by a redirect', () => world({}, async (s, report) => {
		const bad = ['127.0.0.1', '10.0.0.1', '169.254.169.254', '100.100.100.200', OWN, '2130706433', '0x7f.1', '0177.0.0.1', '127.1', '[::1]', '[::ffff:10.0.0.1]', '[64:ff9b::a00:1]', 'localhost',
			'0', 'localhost.', `${PUBLIC}`, `public.${ZONE}.`].map((h) => `http://${h}:${PORT}/`);
		const names = ['private', 'metadata', 'loopback', 'zero', 'own', 'mixed', 'mapped', 'nat64', 'aliased', 'localhost', 'loop', 'none'].map((n) => `http://${at(n)}/`);
		const odd = [`http://${at('public')}@10.0.0.1:${PORT}/`, `http://user:word@${at('public')}/`, `http://10.0.0.1:${PORT}#@${at('public')}/`, `http://10.0.0.1:${PORT}\\@${at('public')}/`, `http://${at('public')}:80/`,
			`https://10.0.0.1:${PORT}/`, `http://10.0.0.1:${PORT}/?x=http://${at('public')}/`, `http://public.${ZONE}:25/`];
		const kinds = ['file:///etc/passwd', 'ftp://10.0.0.1/x', 'ftp://127.0.0.1/x', 'data:text/plain,x', 'gopher://10.0.0.1/x', '//10.0.0.1:8080/', `http:\\\\10.0.0.1:${PORT}/`];
		for (const url of [...bad, ...names, ...odd, ...[...bad, ...names, ...odd, ...kinds].map((u) => `http://${at('public')}/to/${encodeURIComponent(u)}`)]) {
			const r = await add(s, url);
			assert.equal(r.error, 'fetch_failed', `${url}: ${JSON.stringify(r)}`);
		}
		for (const url of [...kinds, 'HTTP://x', '', 'http:/x', `http://${'x'.repeat(5000)}/`])
			assert.equal((await add(s, url)).error, 'invalid_argument', url.slice(0, 100));
		await empty(s);
		assert.deepEqual([...new Set(report().filter((l) => l.startsWith('> ')))], [`> ${PUBLIC}`]);
		// The twin: the same ways lead to a public name.
		for (const url of [`http://${at('public')}/`, `http://${at('public')}/to/${encodeURIComponent(`http://${at('alias')}/`)}`])
			assert.equal((await add(s, url)).size_bytes, 7, url);
		assert.equal(await left(s), 'got 7\n');
	}));

	it('(slow) a name that changes between two questions leads to public addresses alone', () => world({}, async (s, report) => {
		const url = `http://${at('rebind')}/to/${encodeURIComponent(`http://${at('rebind')}/x`)}`;
		for (let i = 0; i < 10; i++) {
			const r = await add(s, url);
			assert.ok(r.error === 'fetch_failed' || r.size_bytes === 7, JSON.stringify(r));
		}
		assert.ok(report().filter((l) => l === `? ${at('rebind').split(':')[0]} 1`).length >= 10, 'it was asked again and again');
		assert.deepEqual([...new Set(report().filter((l) => l.startsWith('> ')))], [`> ${PUBLIC}`]);
	}));

	it('(slow) what is cut short, too long or endless is no file, and leaves what was there', () => world({ SANDBOX_MAX_UPLOAD_BYTES: '1048576', SANDBOX_EXEC_TIMEOUT_S: '4' }, async (s) => {
		for (const [what, why] of [['short', /broke off after 7 of 100000 bytes/], ['shortchunk', /./], ['endless', /more than 1048576 bytes/], ['drip', /took too long/], ['negative', /./]] as const) {
			const r = await add(s, `http://${at('public')}/${what}`);
			if (what === 'negative' && !r.error) { // no length at all: the end of the connection is the end of the file
				assert.equal(r.size_bytes, 7);
				await s.raw('sandbox_run_shell', { command: 'rm /mnt/data/got', session_id: 'a' });
			} else {
				assert.equal(r.error, 'fetch_failed', `${what}: ${JSON.stringify(r)}`);
				assert.match(r.message, why);
			}
			await empty(s);
		}
		assert.equal((await add(s, `http://${at('public')}/long`)).size_bytes, 7); // the twin: one that is complete
		assert.equal((await add(s, `http://${at('public')}/short`)).error, 'fetch_failed');
		assert.equal(await left(s), 'got 7\n');
		assert.equal((await add(s, `http://${at('public')}/`, { overwrite: false })).error, 'file_exists');
		assert.equal((await add(s, `http://${at('public')}/`, { path: 'a/b/c' })).size_bytes, 7);
		assert.equal((await add(s, `http://${at('public')}/`)).size_bytes, 7, 'it replaces a file');
		assert.equal(await left(s), 'a/b/c 7\ngot 7\n');
	}));

	it('a fetch that fails leaves no session of its own, and those that others use', () => world({}, async (s) => {
		const sessions = async (): Promise<string[]> => (facts(await s.raw('sandbox_list', {})).sandboxes as Json[]).map((b) => b.session_id as string).sort();
		for (const what of ['short', 'none'])
			assert.equal((await add(s, `http://${at('public')}:1/${what}`)).error, 'fetch_failed');
		assert.equal((await add(s, `http://${at('public')}/short`, { session_id: undefined })).error, 'fetch_failed');
		assert.equal((await add(s, `http://${at('public')}/short`, { session_id: 'b', path: 'x/y' })).error, 'fetch_failed');
		assert.deepEqual(await sessions(), []);
		// The twins: a session that was there, and one that another call uses meanwhile.
		await s.raw('sandbox_run_shell', { command: 'mkdir x', session_id: 'a' });
		assert.equal((await add(s, `http://${at('public')}/short`, { path: 'x/y/z/f' })).error, 'fetch_failed');
		assert.equal(facts(await s.raw('sandbox_run_shell', { command: 'find . -type d', session_id: 'a' })).stdout, '.\n./x\n');
		const [failed] = await Promise.all([add(s, `http://${at('public')}/short`, { session_id: 'c' }), s.raw('sandbox_write_file', { path: 'f', content: 'x', session_id: 'c' })]);
		assert.equal(failed.error, 'fetch_failed');
		assert.deepEqual(await sessions(), ['a', 'c']);
	}));
});
