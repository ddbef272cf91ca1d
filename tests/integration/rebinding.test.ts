// SPDX-License-Identifier: Apache-2.0
// Names that lie to the proxy: answers that change between two questions, aliases, public and private addresses in one answer, lifetimes of 0. The proxy connects
// to an address that it has judged, and asks once for each connection. The names live in a network of the test's own (suites/hostile/names.ts).

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { engine, mode, scratch, top } from '../lib/env.ts';
import { using, type Json, type Session } from '../lib/session.ts';
import { until } from '../lib/wait.ts';
import { OWN, PORT, PUBLIC, ZONE } from '../suites/hostile/names.ts';

const skip = process.getuid!() !== 0 ? 'only root can make such a network' : mode !== 'root' || process.env.CAISSON_TEST_COLD === '1' ? 'once is enough: the front resolves for everybody in the same way'
	: engine !== 'native' ? 'the sandboxes of the daemon are in another network' : false;

/** Sends REQUESTS (name and kind) to the proxy, one after the other; for each: 'reached', the reason of a refusal, or what came instead. */
const program = (requests: [string, 'GET' | 'CONNECT'][]): string => `
import json, re, socket
def said(name, kind):
    s = socket.create_connection(("127.0.0.1", 3128)); s.settimeout(30)
    at = name + ":${PORT}"
    s.sendall((kind + " " + (at if kind == "CONNECT" else "http://" + at + "/") + " HTTP/1.1\\r\\nHost: " + at + "\\r\\n\\r\\n").encode())
    got = s.recv(4096)
    if kind == "CONNECT" and got.startswith(b"HTTP/1.1 200"):
        return "reached"
    while chunk := s.recv(4096):
        got += chunk
    reason = re.search(rb"X-Egress-Reason: (\\w+)", got)
    return reason[1].decode() if reason else "reached" if got.endswith(b"reached") else repr(got[:60])
print(json.dumps([said(name, kind) for name, kind in ${JSON.stringify(requests)}]))
`;

describe('names that lie', { skip }, () => {
	async function world(body: (s: Session, report: () => string[]) => Promise<void>, env: Record<string, string> = {}): Promise<void> {
		const report = path.join(scratch('names'), 'report');
		fs.writeFileSync(report, '');
		const under = ['unshare', '--net', '--mount', '--propagation', 'private', '--', process.execPath, path.join(top, 'tests/suites/hostile/names.ts'), report, '--'];
		await using('stdio', { under, env: { NODE_NO_WARNINGS: '1', SANDBOX_NETWORK: 'allowlist', SANDBOX_NETWORK_ALLOW: `*.${ZONE}:${PORT}`, SANDBOX_EXEC_TIMEOUT_S: '120', ...env } },
			(s) => body(s, () => fs.readFileSync(report, 'utf8').split('\n').filter(Boolean)));
	}
	async function ask(s: Session, requests: [string, 'GET' | 'CONNECT'][]): Promise<string[]> {
		const r: Json = await s.ok(program(requests), 'out');
		return JSON.parse(r.stdout) as string[];
	}
	const at = (name: string): string => `${name}.${ZONE}`;

	it('each connection asks once and goes to an address that was judged', () => world(async (s, report) => {
		assert.deepEqual(await ask(s, [[at('public'), 'GET'], [at('public'), 'CONNECT'], [at('alias'), 'GET']]), ['reached', 'reached', 'reached'], 'this world can be reached');
		const before = report().length;
		// Five answers in turn, of which two are public.
		const said = await ask(s, Array.from({ length: 20 }, (_, i) => [at('rebind'), i % 2 ? 'GET' : 'CONNECT']));
		const good = (i: number): string => ([0, 2].includes(i % 5) ? 'reached' : 'address_refused');
		assert.deepEqual(said, said.map((_, i) => good(i)));
		const lines = report().slice(before);
		assert.equal(lines.filter((l) => l === `? ${at('rebind')} 1`).length, 20, 'one question for each connection');
		const turned = await ask(s, Array.from({ length: 6 }, () => [at('turned'), 'GET']));
		assert.deepEqual(turned, turned.map((_, i) => (i % 2 ? 'address_refused' : 'reached')));
		await until('the connections', () => report().filter((l) => l.startsWith('> ')).length >= 3 + 8 + 3);
		assert.deepEqual([...new Set(report().filter((l) => l.startsWith('> ')))], [`> ${PUBLIC}`]);
	}));

	it('one address that is not public makes the answer unusable, whatever stands beside it', () => world(async (s, report) => {
		const rows: [string, string][] = [
			...['private', 'metadata', 'loopback', 'zero', 'own', 'mixed', 'reversed', 'both', 'mapped', 'mappedtoo', 'nat64', 'aliased', 'localhost', 'last', 'xn--good-fna'].map((n): [string, string] => [at(n), 'address_refused']),
			...['loop', 'none', 'nobody'].map((n): [string, string] => [at(n), 'resolve_failed']),
			[`${at('public')}.`, 'bad_host'], [`${at('public')}..`, 'bad_host'], [`.${at('public')}`, 'bad_host'], [at('gööd'), 'bad_target'], [at('public').replace('.', '\u3002'), 'bad_target'], [ZONE, 'host_not_allowed'], [OWN, 'address_literal'],
		];
		for (const kind of ['GET', 'CONNECT'] as const) {
			const said = await ask(s, rows.map(([name]) => [name, kind]));
			assert.deepEqual(Object.fromEntries(rows.map(([name], i) => [name, said[i]])), Object.fromEntries(rows), kind);
		}
		assert.deepEqual(await ask(s, [[at('public'), 'GET']]), ['reached'], 'it still works');
		assert.deepEqual(report().filter((l) => l.startsWith('> ')), [`> ${PUBLIC}`]);
		assert.ok(!report().some((l) => l.includes('..') || l.startsWith(`? ${ZONE} `)), 'what is no name of the list was asked for');
	}));

	it('addresses of a list are reached, and no others, by their address and never by a name', () => world(async (s, report) => {
		const rows: [string, string][] = [
			[PUBLIC, 'reached'], ['93.184.215.15', 'address_not_allowed'], [OWN, 'address_not_allowed'], ['127.0.0.1', 'address_not_allowed'], ['10.0.0.1', 'address_not_allowed'], [at('public'), 'host_not_allowed'],
			[PUBLIC.replace('93', '0135'), 'bad_host'], ['1572394766', 'bad_host'], [`[::ffff:${PUBLIC}]`, 'address_not_allowed'], [`${PUBLIC}.`, 'bad_host'],
		];
		for (const kind of ['GET', 'CONNECT'] as const) {
			const said = await ask(s, rows.map(([name]) => [name, kind]));
			assert.deepEqual(Object.fromEntries(rows.map(([name], i) => [name, said[i]])), Object.fromEntries(rows), kind);
		}
		assert.deepEqual([...new Set(report())], [`> ${PUBLIC}`], 'no name was asked for');
	}, { SANDBOX_NETWORK_ALLOW: `${PUBLIC}:${PORT}` }));

	it('a block that holds addresses of the machine or private ones opens none of them', () => world(async (s) => {
		const rows: [string, string][] = [[PUBLIC, 'reached'], ...[OWN, '127.0.0.1', '10.0.0.1', '169.254.169.254', `[::ffff:${PUBLIC}]`].map((n): [string, string] => [n, 'address_refused'])];
		for (const kind of ['GET', 'CONNECT'] as const)
			assert.deepEqual(await ask(s, rows.map(([name]) => [name, kind])), rows.map(([, reason]) => reason), kind);
	}, { SANDBOX_NETWORK_ALLOW: `0.0.0.0/0:${PORT} [::/0]:${PORT}` }));
});
