// SPDX-License-Identifier: Apache-2.0
// Hosts that a person allows a sandbox (`sandbox_allow_domain`), through the official clients of both eras. Nothing is reached: what the
// proxy answers tells what it would have done.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Client, StreamableHTTPClientTransport, type VersionNegotiationMode } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { asProductUser, binary, productEnv } from '../lib/env.ts';
import { facts, serve, using, wires, type Json, type Wire } from '../lib/session.ts';

type Answer = { action: 'accept' | 'decline' | 'cancel'; content?: Record<string, boolean> };
type Call = (name: string, args: Json) => Promise<Json>;

const yes: Answer = { action: 'accept', content: { allow_domain: true } };
const env = { SANDBOX_NETWORK_ASK: 'on' };

/** Body gets the raw results of tools; the questions come to ASKED, and ANSWERS are given in turn. Without answers the client cannot ask. */
async function talk(wire: Wire, mode: VersionNegotiationMode, answers: Answer[] | null, asked: string[], body: (call: Call) => Promise<void>, more: Record<string, string> = {}): Promise<void> {
	const client = new Client({ name: 'caisson-tests-v2', version: '1.0.0' }, { versionNegotiation: { mode }, capabilities: answers ? { elicitation: {} } : {} });
	if (answers) client.setRequestHandler('elicitation/create', async (r) => (asked.push(r.params.message), answers.shift()!));
	const call: Call = async (name, args) => (await client.callTool({ name, arguments: args })) as Json;
	if (wire === 'stdio') {
		const own = productEnv({ ...env, ...more });
		const argv = asProductUser([binary, 'stdio', '--profile', 'full']);
		await client.connect(new StdioClientTransport({ command: argv[0]!, args: argv.slice(1), env: own, cwd: own.HOME, stderr: 'ignore' }));
		try {
			await body(call);
		} finally {
			await client.close();
		}
		return;
	}
	const { program, base } = await serve({ profile: 'full', env: { ...env, ...more } });
	try {
		await client.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`)));
		await body(call);
		await client.close();
	} finally {
		program.kill('SIGTERM');
		await program.exit;
	}
}

/** What the proxy of the sandbox says to a CONNECT: the reason's word. */
async function ask(call: Call, session_id: string, target: string): Promise<string> {
	const code = `import socket
s = socket.create_connection(('127.0.0.1', 3128))
s.sendall(b'CONNECT ${target} HTTP/1.1\\r\\nHost: ${target}\\r\\n\\r\\n')
print(s.makefile().read())`;
	const r = await call('sandbox_run_python', { code, session_id });
	const stdout = object(r).stdout as string;
	return /no_network|host_not_allowed|port_not_allowed/.exec(stdout)?.[0] ?? (/^HTTP\/1\.1 /.test(stdout) ? 'passed' : JSON.stringify(r));
}

function failure(r: Json, code: string): void {
	assert.equal(r.isError, true, JSON.stringify(r));
	const said = facts(r);
	assert.equal(said.error, code);
	assert.ok(said.message && said.hint, JSON.stringify(said));
}

function object(r: Json): Json {
	assert.ok(!r.isError, JSON.stringify(r));
	return facts(r);
}

const eras: [string, VersionNegotiationMode][] = [
	['legacy', 'legacy'],
	['modern', { pin: '2026-07-28' }],
];

describe('a person allows a sandbox a host', () => {
	for (const wire of wires)
		for (const [era, mode] of eras)
			it(`${era} over ${wire}`, async () => {
				const asked: string[] = [];
				const answers: Answer[] = [{ action: 'decline' }, { action: 'accept', content: { allow_domain: false } }, yes, yes];
				await talk(wire, mode, answers, asked, async (call) => {
					await call('sandbox_run_shell', { command: 'true', session_id: 'out' });
					assert.equal(await ask(call, 'out', 'api.caisson.invalid:8443'), 'no_network');
					for (let i = 0; i < 2; i++) failure(await call('sandbox_allow_domain', { session_id: 'out', domain: 'no.caisson.invalid:8443' }), 'declined');
					/* Asked again once is enough, in another sandbox too, and however it is written. */
					await call('sandbox_run_shell', { command: 'true', session_id: 'other' });
					for (const session_id of ['out', 'other']) failure(await call('sandbox_allow_domain', { session_id, domain: 'NO.caisson.invalid:8443' }), 'asked_too_often');
					assert.equal(await ask(call, 'out', 'no.caisson.invalid:8443'), 'no_network');
					assert.equal(await ask(call, 'out', 'api.caisson.invalid:8443'), 'no_network');

					const r = object(await call('sandbox_allow_domain', { session_id: 'out', domain: 'API.caisson.invalid:8443' }));
					assert.deepEqual([r.status, r.domain, r.network_allowed], ['allowed', 'api.caisson.invalid:8443', ['api.caisson.invalid:8443']]);
					assert.equal(asked.length, 3);
					for (const [i, text] of asked.entries()) assert.match(text, i < 2 ? /sandbox out .*host no\.caisson\.invalid:8443\?/ : /sandbox out .*host api\.caisson\.invalid:8443\?/);
					assert.equal(await ask(call, 'out', 'api.caisson.invalid:8443'), 'passed');
					assert.equal(await ask(call, 'out', 'api.caisson.invalid:443'), 'port_not_allowed');
					assert.equal(await ask(call, 'out', 'caisson.invalid:8443'), 'host_not_allowed');

					object(await call('sandbox_allow_domain', { session_id: 'out', domain: 'api.caisson.invalid:8443' })); // allowed already: nobody is asked
					assert.equal(asked.length, 3);
					object(await call('sandbox_allow_domain', { session_id: 'out', domain: 'second.caisson.invalid' }));
					assert.match(asked[3]!, /second\.caisson\.invalid \(ports 80 and 443\)/);
					const info = object(await call('sandbox_info', { session_id: 'out' }));
					assert.deepEqual([info.network, info.network_allowed], ['allowlist', ['api.caisson.invalid:8443', 'second.caisson.invalid']]);

					// Another sandbox has nothing of it.
					await call('sandbox_run_shell', { command: 'true', session_id: 'other' });
					assert.equal(await ask(call, 'other', 'api.caisson.invalid:8443'), 'no_network');
					assert.equal(object(await call('sandbox_info', { session_id: 'other' })).network, 'none');
				});
			});
	for (const [era, mode] of eras)
		it(`a ${era} client that cannot ask is told so, and what is no name is refused before anybody is asked`, async () => {
			await talk('stdio', mode, null, [], async (call) => {
				await call('sandbox_run_shell', { command: 'true', session_id: 'mute' });
				failure(await call('sandbox_allow_domain', { session_id: 'mute', domain: 'api.caisson.invalid' }), 'cannot_ask');
				for (const domain of ['', 'localhost', '*.caisson.invalid', '127.0.0.1', '[::1]:80', 'https://caisson.invalid', 'a.invalid b.invalid', 'a.invalid:0', 'ä.invalid'])
					failure(await call('sandbox_allow_domain', { session_id: 'mute', domain }), 'invalid_domain');
				failure(await call('sandbox_allow_domain', { session_id: 'nobody', domain: 'caisson.invalid' }), 'session_not_found');
				assert.equal(await ask(call, 'mute', 'api.caisson.invalid:443'), 'no_network');
			});
		});
	it('at most 16 hosts a sandbox', async () => {
		const asked: string[] = [];
		await talk('stdio', 'legacy', Array.from({ length: 17 }, () => yes), asked, async (call) => {
			await call('sandbox_run_shell', { command: 'true', session_id: 'many' });
			for (let i = 0; i < 16; i++) object(await call('sandbox_allow_domain', { session_id: 'many', domain: `h${i}.caisson.invalid` }));
			failure(await call('sandbox_allow_domain', { session_id: 'many', domain: 'h16.caisson.invalid' }), 'quota_exceeded');
			assert.equal(asked.length, 16);
		});
	});
	it('whoever says no is not asked for ever more hosts, even by many calls at once; a yes does not count', async () => {
		const asked: string[] = [];
		const answers: Answer[] = [yes, ...Array.from({ length: 8 }, (): Answer => ({ action: 'decline' }))];
		await talk('http', 'legacy', answers, asked, async (call) => {
			await call('sandbox_run_shell', { command: 'true', session_id: 'nag' });
			object(await call('sandbox_allow_domain', { session_id: 'nag', domain: 'good.caisson.invalid' }));
			const results = await Promise.all(Array.from({ length: 12 }, (_, i) => call('sandbox_allow_domain', { session_id: 'nag', domain: `h${i}.caisson.invalid` })));
			const codes = results.map((r) => (facts(r)).error as string);
			assert.deepEqual([codes.filter((c) => c === 'declined').length, codes.filter((c) => c === 'asked_too_often').length, asked.length], [8, 4, 9]);
			failure(await call('sandbox_allow_domain', { session_id: 'nag', domain: 'h0.caisson.invalid' }), 'asked_too_often');
		}, { SANDBOX_NETWORK_ASK_AGAIN: '0' });
	});
	it('there is no such tool where the operator did not permit it', () => using('stdio', { profile: 'full' }, async (s) => {
		assert.ok(!(await s.client.listTools()).tools.some((t) => t.name === 'sandbox_allow_domain'));
	}));
});
