// SPDX-License-Identifier: Apache-2.0
// Links that tools return lead to the proxy through which the call came, if that proxy is trusted.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import { after, before, describe, it } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Program } from '../lib/process.ts';
import { facts, serve, type Json } from '../lib/session.ts';
import type { AddressInfo } from 'node:net';

/** A proxy that has the server below /tools, as nginx or Caddy would have it. */
function proxyTo(port: number): Promise<http.Server> {
	const server = http.createServer((req, res) => {
		if (!req.url!.startsWith('/tools/')) {
			res.writeHead(404).end();
			return;
		}
		const headers = { ...req.headers, host: `127.0.0.1:${port}`, 'x-forwarded-prefix': '/tools', 'x-forwarded-host': req.headers.host!, 'x-forwarded-proto': 'http',
			'x-forwarded-for': '192.0.2.1' };
		const up = http.request({ host: '127.0.0.1', port, method: req.method, path: req.url!.slice('/tools'.length), headers }, (r) => {
			res.writeHead(r.statusCode!, r.headers);
			r.pipe(res);
		});
		up.on('error', () => res.destroy());
		res.on('close', () => up.destroy());
		req.pipe(up);
	});
	return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}

const trusted = { SANDBOX_TRUSTED_PROXIES: '127.0.0.1', SANDBOX_ALLOWED_HOSTS: 'box.example.org' };

describe('links behind a proxy', () => {
	let program: Program, base: string, proxy: http.Server, outside: string;
	before(async () => {
		const s = await serve({ profile: 'all', env: trusted });
		({ program, base } = s);
		proxy = await proxyTo(s.port);
		outside = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/tools`;
	});
	after(async () => {
		proxy.closeAllConnections();
		proxy.close();
		await program.end();
	});
	for (const wire of ['http', 'sse'] as const)
		it(`files, lists and uploads go through it over ${wire === 'sse' ? 'HTTP+SSE' : 'Streamable HTTP'}`, async () => {
			const client = new Client({ name: 'proxied', version: '1' });
			await client.connect(wire === 'sse' ? new SSEClientTransport(new URL(`${outside}/sse`)) : new StreamableHTTPClientTransport(new URL(`${outside}/mcp`)));
			const call = async (name: string, args: Json): Promise<Json> => facts(await client.callTool({ name, arguments: args }) as Json);
			try {
				const session_id = `proxied-${wire}`;
				const run = await call('sandbox_run_python', { session_id, code: 'open("a b.txt", "w").write("made")' });
				const listed = await call('sandbox_list_files', { session_id });
				const old = await call('sandbox_list_artifacts', { session_id });
				const links = [run.new_files ?? run.artifacts, listed.files, old.artifacts].map((files: Json[]) => files[0]!.download_url as string);
				for (const link of links) {
					assert.ok(link.startsWith(`${outside}/files/`), link);
					assert.equal(await (await fetch(link)).text(), 'made');
				}
				const { upload_url } = await call('sandbox_add_file', { session_id, path: '/mnt/data/up.txt' });
				assert.ok(upload_url.startsWith(`${outside}/upload/`), upload_url);
				assert.equal((await fetch(upload_url, { method: 'PUT', body: 'from outside' })).status, 201);
				const read = await call('sandbox_run_python', { session_id, code: 'print(open("up.txt").read())' });
				assert.match(JSON.stringify(read), /from outside/);

				const made = await call('create_sandbox', {});
				const classic = JSON.stringify(await call('execute_python_code', { sandbox_id: made.sandbox_id, code: 'open("c.txt", "w").write("classic")' }));
				const link = /http:[^"\\ )]*file_path=[^"\\ )]*/.exec(classic)?.[0] ?? classic;
				assert.ok(link.startsWith(`${outside}/sandbox/file?`), link);
				assert.equal(await (await fetch(link)).text(), 'classic');
			} finally {
				await client.close();
			}
		});
	/** The origin and path of an upload link that a call with these headers gets. */
	async function linkOf(at: string, headers: Record<string, string>): Promise<string> {
		const post = (body: Json, session?: string): Promise<Response> => fetch(`${at}/mcp`, { method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...body }),
			headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers, ...(session ? { 'mcp-session-id': session } : {}) } });
		const began = await post({ method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'm', version: '1' } } });
		const r = await post({ method: 'tools/call', params: { name: 'sandbox_add_file', arguments: { session_id: 'words' } } }, began.headers.get('mcp-session-id')!);
		return /(https?:[^"\\\s]*)\/upload\//.exec(await r.text())![1]!;
	}
	it('follow what the proxy says, and only names that are ours', async () => {
		const own = new URL(base).host;
		for (const [headers, want] of [
			[{ 'x-forwarded-host': 'box.example.org', 'x-forwarded-proto': 'https' }, 'https://box.example.org'],
			[{ 'x-forwarded-host': 'box.example.org:8443, inner', 'x-forwarded-proto': 'https, http', 'x-forwarded-prefix': '/a/' }, 'https://box.example.org:8443/a'],
			[{ 'x-forwarded-host': 'box.example.org', 'x-forwarded-prefix': '//elsewhere' }, 'http://box.example.org'],
			[{ 'x-forwarded-host': 'elsewhere.example.org', 'x-forwarded-proto': 'https' }, null],
			[{ 'x-forwarded-host': `${own}"<x>` }, null],
			[{ 'x-forwarded-prefix': '/a' }, null], // nobody knows the host
			[{ 'forwarded': 'for="[2001:db8::1]:4711";proto=https;host=box.example.org' }, 'https://box.example.org'],
			[{ 'forwarded': 'for=192.0.2.1; Host="box.example.org:8443"; Proto="HTTPS", for=127.0.0.1;host=inner;proto=http', 'x-forwarded-prefix': '/a' }, 'https://box.example.org:8443/a'],
			[{ 'forwarded': 'for=192.0.2.1;ext="a;host=elsewhere, \\"", for=192.0.2.2;host=box.example.org' }, 'http://box.example.org'],
			[{ 'forwarded': 'host="[::1]:99";proto=https' }, 'https://\\[::1\\]:99'],
			[{ 'forwarded': 'host=box.example.org;proto=https', 'x-forwarded-host': 'box.example.org:7', 'x-forwarded-proto': 'http' }, 'http://box.example.org:7'],
			[{ 'forwarded': 'host=elsewhere.example.org;proto=https' }, null],
			[{ 'forwarded': 'for=192.0.2.1' }, null],
			[{ 'forwarded': 'host="box.example.org' }, null],
			[{ 'forwarded': `host="${'a'.repeat(400)}"` }, null],
			[{}, null],
		] as const)
			assert.match(await linkOf(base, headers), want === null ? /^http:\/\/localhost:\d+$/ : new RegExp(`^${want}$`), JSON.stringify(headers));
	});
	it('the address that REST tells the page is the same', async () => {
		const told = async (headers: Record<string, string>): Promise<string> => (await (await fetch(`${base}/api/v1/session`, { headers })).json() as Json).base;
		assert.equal(await told({}), base);
		assert.equal(await told({ 'x-forwarded-host': 'box.example.org', 'x-forwarded-proto': 'https, http', 'x-forwarded-prefix': '/a' }), 'https://box.example.org/a');
		assert.equal(await told({ forwarded: 'for=192.0.2.1;host=box.example.org;proto=https' }), 'https://box.example.org');
		assert.equal(await told({ forwarded: 'for=192.0.2.1;host=elsewhere.example.org;proto=https' }), base);
	});
	it('stay as configured where no proxy is trusted; a public URL keeps its origin', async () => {
		const headers = { 'x-forwarded-host': 'box.example.org', 'x-forwarded-proto': 'https', 'x-forwarded-prefix': '/b' };
		for (const [env, want] of [
			[{ SANDBOX_ALLOWED_HOSTS: 'box.example.org' }, /^http:\/\/localhost:\d+$/],
			[{ ...trusted, SANDBOX_TRUSTED_PROXIES: '192.0.2.7' }, /^http:\/\/localhost:\d+$/],
			[{ ...trusted, SANDBOX_PUBLIC_URL: 'https://public.example.org/tools/' }, /^https:\/\/public\.example\.org\/b$/],
		] as const) {
			const s = await serve({ profile: 'full', env });
			try {
				assert.match(await linkOf(s.base, headers), want, JSON.stringify(env));
			} finally {
				await s.program.end();
			}
		}
	});
});
