// SPDX-License-Identifier: Apache-2.0
// Row 49: servers in sandboxes, and what they and their clients do to each other and to this server. What single answers of odd servers become is in
// tests/integration/ports.test.ts.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import * as http from 'node:http';
import * as net from 'node:net';
import { text as content } from 'node:stream/consumers';
import { serve, type Json } from '../../../lib/session.ts';
import { until } from '../../../lib/wait.ts';
import type { Case, Outside } from '../case.ts';
import { grown, live, said, type Served } from '../served.ts';

const hex = (s: string): string => Buffer.from(s).toString('hex');

/** A case whose sandbox has the servers of programs/servers.py. */
function served(o: Outside, body: (s: Served, id: string) => Promise<void>): Promise<void> {
	return live(o, async (s) => {
		const id = await s.make();
		await s.upload(id, 'servers.py');
		await s.says(await s.process(id, { command: 'exec python3 servers.py' }), 'serving');
		await body(s, id);
		assert.equal((await s.fetch(`/p/${id}/8000/echo`)).status, 200, 'the servers go on');
	});
}

/** What the server that notes everything has got since the last time. */
async function seen(s: Served, id: string): Promise<string[]> {
	const r = await fetch(`${s.base}/p/${id}/8000/seen`, { headers: { 'x-api-key': s.alice } });
	return ((await r.json()) as string[]).map((b) => Buffer.from(b, 'base64').toString('latin1'));
}

/** A request as browsers send it to a name. */
async function named(s: Served, host: string, path: string, headers: Record<string, string> = {}): Promise<{ status: number; headers: http.IncomingHttpHeaders; text: string }> {
	const r = http.request({ host: '127.0.0.1', port: s.port, path, headers: { host, ...headers } });
	r.end();
	const [answer] = await once(r, 'response') as [http.IncomingMessage];
	return { status: answer.statusCode!, headers: answer.headers, text: await content(answer) };
}

export const portCases: Case[] = [
	{
		id: '49a', without: { walls: ['origin'] }, attack: 'a name of somebody else that leads here (DNS rebinding), to ports and to what tells of them', must: '403', code: '', held: 0,
		after: (_r, o) => served(o, async (s, id) => {
			for (const host of ['evil.example', `evil.example:${s.port}`, `8000-${id}.evil.example:${s.port}`, `127.0.0.1.evil.example:${s.port}`, `localhost.evil.example`, `8000-${id}-localhost:${s.port}`])
				for (const path of [`/p/${id}/8000/echo`, `/api/v1/sandboxes/${id}/ports`, '/'])
					assert.equal((await named(s, host, path, { 'x-api-key': s.alice })).status, 403, `${host} ${path}`);
			for (const origin of ['http://evil.example', 'null', `http://8001-${id}.localhost:${s.port}`, `http://127.0.0.1:${s.port + 1}`])
				assert.equal((await named(s, `8000-${id}.localhost:${s.port}`, '/echo', { 'x-api-key': s.alice, origin })).status, 403, origin);
		}),
	},
	{
		id: '49b', without: { walls: ['crossing'] }, attack: 'a server looks for keys, cookies and lies about who asks in what it is sent', must: 'nothing of ours, and only what this server knows of the client', code: '', held: 0,
		after: (_r, o) => served(o, async (s, id) => {
			const cookies = [`caisson-${s.port}=s1`, 'caisson=s2', `caisson-device-${s.port}=s3`, 'caisson-port=s4', '__Host-caisson=s5', '__Host-caisson-device=s6', '__Host-caisson-port=s7', 'caisson-port =s8', 'caissonette=mine', 'own=mine'];
			const sent = { 'x-api-key': s.alice, 'x-caisson-page': '1', cookie: cookies.join('; '), 'x-forwarded-for': '6.6.6.6', 'x-real-ip': '6.6.6.6', 'x-forwarded-host': 'evil', 'x-forwarded-proto': 'https', forwarded: 'for=6.6.6.6' };
			for (const host of [`127.0.0.1:${s.port}`, `8000-${id}.localhost:${s.port}`]) {
				const r = await named(s, host, host.startsWith('8000') ? '/echo' : `/p/${id}/8000/echo`, sent);
				assert.equal(r.status, 200, r.text);
				assert.doesNotMatch(r.text, /s\d"|s\d;|6\.6\.6\.6|evil|x-caisson-page/i);
				assert.ok(!r.text.includes(s.alice));
				assert.equal(/caissonette=mine; own=mine/.test(r.text), host.startsWith('8000'), r.text);
			}
			for (const authorization of [`Bearer ${s.alice}`, `bearer   ${s.alice}`, `BEARER\t${s.alice}`])
				assert.ok(!(await s.fetch(`/p/${id}/8000/echo`, { headers: { authorization } })).text.includes(s.alice), authorization);
		}),
	},
	{
		id: '49c', without: { walls: ['crossing'] }, attack: 'a server sets cookies for all of a domain, and headers that act on other pages or on a proxy', must: 'none passes', code: '', held: 0,
		after: (_r, o) => served(o, async (s, id) => {
			const set = ['a=1; Domain=localhost', 'a=2; DOMAIN = .localhost; Path=/', 'a=3;domain\t=x', 'a=4; ;Domain', 'caisson-port=x', '__Host-caisson-port=x; Secure; Path=/', 'caisson=x', `caisson-${s.port}=x`, '=caisson-port=x', ' caisson-device=x', 'a=5; Path=/'];
			const bad = ['Strict-Transport-Security: max-age=1', 'Alt-Svc: h2=":1"', 'NEL: {}', 'Report-To: {}', 'X-Accel-Redirect: /api/v1/me', 'X-Sendfile: /etc/passwd', 'x-accel-buffering: no'];
			const answer = hex(`HTTP/1.1 200 OK\r\n${set.map((c) => `Set-Cookie: ${c}\r\n`).join('')}${bad.map((b) => `${b}\r\n`).join('')}Clear-Site-Data: "*"\r\nService-Worker-Allowed: /\r\nContent-Length: 0\r\n\r\n`);
			const name = await named(s, `8001-${id}.localhost:${s.port}`, `/${answer}`, { 'x-api-key': s.alice });
			assert.deepEqual(name.headers['set-cookie']?.map((c) => c.slice(0, 3)), ['a=1', 'a=2', 'a=3', 'a=4', 'a=5']);
			assert.doesNotMatch(name.headers['set-cookie']!.join(), /domain/i);
			const below = await s.fetch(`/p/${id}/8001/${answer}`);
			assert.equal(below.status, 200, below.text);
			for (const b of [...bad, 'Set-Cookie: ', 'Clear-Site-Data: ', 'Service-Worker-Allowed: ']) {
				const h = b.slice(0, b.indexOf(':')).toLowerCase();
				assert.equal(below.headers.get(h), null, h);
				if (bad.includes(b))
					assert.equal(name.headers[h], undefined, h);
			}
			assert.match(below.headers.get('content-security-policy') ?? '', /^sandbox (?!.*allow-same-origin)/);
		}),
	},
	{
		id: '49d', without: { walls: ['redirects'] }, attack: 'a server sends its client on to the API, with method, body and key', must: 'it stays within the port, or there is no place to go', code: '', held: 0,
		after: (_r, o) => served(o, async (s, id) => {
			const here = `127.0.0.1:${s.port}`, base = `/p/${id}/8001`;
			for (const to of ['/../../../api/v1/keys', '/a/../../../../api/v1/keys', '/%2e%2e/%2E./.%2e/api/v1/keys', '/..\\..\\..\\api\\v1\\keys', '../../../api/v1/keys', '..', '.././../../api/v1/keys', '\\..\\..\\..\\api/v1/keys', '.\t./.\t./.\t./api/v1/keys',
				'x/../../../../api/v1/keys', `http://${here}/api/v1/keys`, `HTTP://${here}/api/v1/keys`, `//${here}/api/v1/keys`, `\\\\${here}/api/v1/keys`, `/\\${here}/api/v1/keys`, `///${here}/api/v1/keys`, `http:\\\\${here}\\api`, 'http:/api/v1/keys',
				'http:../../../api/v1/keys', `http://u:p@${here}/api/v1/keys`, `http://localhost:${s.port}/api/v1/keys`, `http://127.1:${s.port}/api/v1/keys`, `http://2130706433:${s.port}/api`, `http://0x7f.1:${s.port}/api`, `http://[::1]:${s.port}/api`,
				`http://${here}${base}/../../../api/v1/keys`, `http://${here}${base}x/`, `http://127.0.0.1%3a${s.port}/api`, `http://${here}${base}/%2e%2e/8000/x`, 'http://localhost:8001/../../../api/v1/keys', 'http://localhost:8001/%2e%2e/%2e%2e/%2e%2e/api']) {
				const r = await s.fetch(`${base}/${hex(`HTTP/1.1 307 On\r\nLocation: ${to}\r\nContent-Location: ${to}\r\nContent-Length: 0\r\n\r\n`)}`, { method: 'POST', body: '{"name":"x"}' });
				assert.equal(r.status, 307, to);
				for (const h of ['location', 'content-location']) {
					const location = r.headers.get(h);
					const leads = location === null ? undefined : new URL(location, `http://${here}${base}/x`);
					assert.ok(!leads || (leads.host === here && leads.pathname.startsWith(`${base}/`)), `${to} leads to ${leads}`);
				}
			}
			// what a server may do
			for (const [to, leads] of [['/login?next=/../x', `${base}/login?next=/../x`], ['a/b', 'a/b'], ['?q=../..', '?q=../..'], ['#x', '#x'], ['../b', `${base}/b`], ['/a/./b/../c/', `${base}/a/c/`], ['http://localhost:8001', `${base}/`], ['http://localhost:8001/x', `${base}/x`],
				['https://example.org/../x', 'https://example.org/../x'], ['mailto:a@b', 'mailto:a@b'], [`http://${here}${base}/x`, `http://${here}${base}/x`], ['/a..b/.../c', `${base}/a..b/.../c`]]) {
				const r = await s.fetch(`${base}/${hex(`HTTP/1.1 302 On\r\nLocation: ${to}\r\nContent-Length: 0\r\n\r\n`)}`);
				assert.equal(r.headers.get('location'), leads, to);
			}
		}),
	},
	{
		id: '49e', without: { walls: ['single', 'chunk'] }, attack: 'requests that two readers understand differently, to a server in a sandbox', must: '400, or one request whose end is where its head says', code: '', held: 0,
		after: (_r, o) => served(o, async (s, id) => {
			const own = `Host: 127.0.0.1:${s.port}\r\nX-Api-Key: ${s.alice}\r\n`, to = `POST /p/${id}/8001/x HTTP/1.1\r\n${own}`;
			const second = `GET /p/${id}/8001/SMUGGLED HTTP/1.1\r\n${own}\r\n`;
			for (const rest of [`Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, `Content-Length: 0\r\nContent-Length: 5\r\n\r\n`, `Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n`, 'Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n',
				'Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n', 'Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n', 'Transfer-Encoding:\vchunked\r\n\r\n0\r\n\r\n', 'X: a\r\n b: c\r\nContent-Length: 0\r\n\r\n', 'X: a\nContent-Length: 0\r\n\r\n', 'Content-Length: +5\r\n\r\nabcde', 'Content-Length: 5, 5\r\n\r\nabcde',
				'Content-Length: 0x5\r\n\r\nabcde', 'Content-Length:\r\n\r\n', 'Transfer-Encoding: chunked\r\n\r\n5 \r\nabcde\r\n0\r\n\r\n', 'Transfer-Encoding: chunked\r\n\r\n5\nabcde\n0\n\n', 'Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n', 'Transfer-Encoding: chunked\r\n\r\n2\r\nabX\r\n0\r\n\r\n', 'X\0: a\r\nContent-Length: 0\r\n\r\n']) {
				const answers = [...(await s.exchange(to + rest + second, (t) => t.includes('\r\n\r\n'))).matchAll(/HTTP\/1\.1 (\d{3})/g)].map((m) => m[1]);
				assert.ok(answers.length <= 1 && (answers[0] ?? '400') === '400', `${JSON.stringify(rest)}: ${answers}`);
			}
			// what is proper arrives once, with one length, without extensions and trailers
			await s.exchange(`${to}Transfer-Encoding: chunked\r\n\r\n5;x="y"\r\nabcde\r\n0\r\nX-Trailer: 1\r\n\r\n`, (t) => t.includes('\r\n\r\n'));
			const all: string[] = []; // of some it has got the beginning, and then an end of the connection
			await until('the last one', async () => all.push(...await seen(s, id)) > 0 && all.some((t) => t.includes('abcde')));
			assert.doesNotMatch(all.join(), /SMUGGLED/);
			const [got, ...more] = all.filter((t) => /abcde|\r\n0\r\n\r\n$/.test(t));
			assert.deepEqual(more, []);
			assert.match(got!, /\r\nTransfer-Encoding: chunked\r\n[^]*\r\n\r\n5\r\nabcde\r\n0\r\n\r\n$/);
			assert.doesNotMatch(got!, /x="y"|Trailer|Content-Length/);
		}),
	},
	{
		id: '49f', planted: said('the second answer is another one', (t) => t.replaceAll('{"second"', '{"smuggled"')), attack: 'answers that two readers understand differently, on a connection that serves more requests', must: 'the next request has its own answer', code: '', held: 0,
		after: (_r, o) => served(o, async (s, id) => {
			const own = `Host: 127.0.0.1:${s.port}\r\nX-Api-Key: ${s.alice}\r\n`;
			const last = `GET /p/${id}/8001/${hex('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"second"}')} HTTP/1.1\r\n${own}Connection: close\r\n\r\n`;
			const fake = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nFAKE';
			for (const answer of [`HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok${fake}`, `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n${fake}`, `HTTP/1.1 204 No\r\nContent-Length: ${fake.length}\r\n\r\n${fake}`, `HTTP/1.1 304 Not\r\nContent-Length: ${fake.length}\r\n\r\n${fake}`,
				`HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\nok${fake}`, `HTTP/1.1 200 OK\r\nX: a\r\n Content-Length: 99\r\nContent-Length: 2\r\n\r\nok${fake}`, `HTTP/1.1 200 OK\nContent-Length: 2\n\nok${fake}`, `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=\nb\r\nok\r\n0\r\n\r\n${fake}`,
				`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n02\r\nok\r\n0\r\nContent-Length: 9\r\n\r\n${fake}`, 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: \x01\r\nX-A: b\rc\r\n\r\nok']) {
				const text = await s.exchange(`GET /p/${id}/8001/${hex(answer)} HTTP/1.1\r\n${own}\r\n${last}`);
				assert.doesNotMatch(text, /HTTP\/1\.1 \d+ [^]*FAKE[^]*HTTP\/1\.1 .*FAKE/, JSON.stringify(answer));
				const answers = text.split(/(?=HTTP\/1\.1 \d{3} )/);
				// either the connection ended with the first one, or the second is the second
				assert.ok(answers.length === 1 || (answers.length === 2 && answers[1]!.endsWith('{"second"}')), `${JSON.stringify(answer)}: ${JSON.stringify(text)}`);
			}
		}),
	},
	{
		id: '49g', planted: grown, attack: 'heads of a megabyte, a status line and interim answers without end, an answer before the request', must: '502, or the answer; the memory of the server is bounded', code: '', held: 0,
		after: (_r, o) => served(o, (s, id) => s.holds(10, async () => {
			for (const port of [8004, 8005, 8006]) {
				const all = await Promise.all(Array.from({ length: 6 }, () => s.fetch(`/p/${id}/${port}/x`)));
				assert.deepEqual([...new Set(all.map((r) => `${r.status} ${r.body.code}`))], ['502 bad_gateway'], String(port));
			}
			for (const body of [undefined, 'x'.repeat(200_000)]) {
				const r = await s.fetch(`/p/${id}/8003/x`, { method: body ? 'POST' : 'GET', body }).catch(() => undefined); // its reset may overtake the answer
				assert.ok(!r || r.status === 502 || r.text === 'early', r?.text);
			}
		})),
	},
	{
		id: '49h', planted: said('some of it is gone', (t) => t.replace(/^\d+ /m, '0 ')), attack: 'a client shuts down its side of an upgraded connection while the server reads slowly', must: 'the server gets all of it and the end, the client the answer; nothing of the connection is left', code: '', held: 0,
		after: (_r, o) => served(o, async (s, id) => {
			const data = Buffer.alloc(1_500_000, 'half-closed ');
			for (const late of ['', 'late']) {
				const socket = net.connect({ port: s.port, host: '127.0.0.1', allowHalfOpen: true });
				socket.write(`GET /p/${id}/8007/${late} HTTP/1.1\r\nHost: 127.0.0.1:${s.port}\r\nX-Api-Key: ${s.alice}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`);
				socket.end(data);
				const told = await content(socket), text = s.change ? s.change(told) : told;
				assert.match(text, /^HTTP\/1\.1 101 /);
				assert.equal(text.split('\r\n\r\n')[1], `${data.length} ${createHash('sha256').update(data).digest('hex')}\n`, late);
			}
			const me = async (): Promise<number> => (await s.ask('GET', '/me')).body.budgets.port_requests.used as number;
			assert.equal(await me(), 0);
		}),
	},
	{
		id: '49i', without: { walls: ['net'] }, attack: 'a sandbox asks for the servers of another one, and for this server', must: 'nothing listens there', code: '', held: 0,
		after: (_r, o) => served(o, async (s) => {
			const other = await s.make();
			const r = await s.run(other, { code: `
import socket
for port in (*range(8000, 8008), ${s.port}):
    for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0"):
        c = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        c.settimeout(1)
        try:
            c.connect((host, port))
            print("BROKEN", host, port)
        except OSError as e:
            print("HELD", host, port, e)` });
			assert.doesNotMatch(r.stdout, /BROKEN/);
			assert.equal(r.stdout.match(/HELD/g)?.length, 36, r.stdout + r.stderr);
		}),
	},
	{
		id: '49j', planted: said('the other one is answered', (t) => t.replace('session_not_found', 'ok')), attack: 'the ids of another user: ports, names, passes, processes, terminals, contexts, watches, parallel runs', must: '404, as for ids of nobody', code: '', held: 0,
		after: (_r, o) => served(o, async (s, id) => {
			await s.terminal(id, { command: 'cat' });
			await s.run(id, { code: 'x = 1', context: 'mine' });
			const at = `/sandboxes/${id}`;
			for (const [method, path, json] of [
				['GET', `${at}/processes`], ['GET', `${at}/processes/p1`], ['GET', `${at}/processes/p1?wait_s=9`], ['DELETE', `${at}/processes/p1`], ['POST', `${at}/processes`, { command: 'true' }], ['POST', `${at}/processes/p1/signal`, { signal: 'KILL' }], ['POST', `${at}/processes/p2/input`, { text: 'x' }],
				['GET', `${at}/terminals`], ['GET', `${at}/terminals/p2`], ['POST', `${at}/terminals`, {}], ['DELETE', `${at}/terminals/p2`], ['GET', `${at}/contexts`], ['POST', `${at}/contexts`, { name: 'x' }], ['DELETE', `${at}/contexts/mine`],
				['GET', `${at}/ports`], ['POST', `${at}/ports`, { port: 8000 }], ['GET', `${at}/events`], ['GET', `${at}/events?recursive=true`], ['POST', `${at}/runs`, { code: '1', parallel: true }], ['POST', `${at}/runs`, { code: 'x', context: 'mine' }],
			] as [string, string, Json?][]) {
				const r = await s.ask(method, path, json, s.bob);
				assert.deepEqual([r.status, r.body.code], [404, 'session_not_found'], `${method} ${path}: ${r.text}`);
			}
			assert.equal((await s.fetch(`/p/${id}/8000/echo`, {}, s.bob)).status, 404);
			assert.equal((await named(s, `8000-${id}.localhost:${s.port}`, '/echo', { 'x-api-key': s.bob })).status, 404);
			const socket = await s.exchange(`GET /api/v1${at}/terminals/p2 HTTP/1.1\r\nHost: 127.0.0.1:${s.port}\r\nX-Api-Key: ${s.bob}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`);
			assert.match(socket, /^HTTP\/1\.1 404 /);
			// a pass of his own says nothing about hers
			const his = (await s.ask('POST', '/sandboxes', {}, s.bob)).body.id as string;
			const pass = new URL((await s.ask('POST', `/sandboxes/${his}/ports`, { port: 8000 }, s.bob)).body.url as string).searchParams.get('caisson-port')!;
			assert.equal((await named(s, `8000-${id}.localhost:${s.port}`, '/echo', { cookie: `caisson-port=${pass}` })).status, 401);
			assert.equal((await named(s, `8000-${id}.localhost:${s.port}`, `/echo?caisson-port=${pass}`)).status, 401);
			await s.ask('DELETE', `/sandboxes/${his}?force=true`, undefined, s.bob);
			assert.equal((await s.look(`${at}/processes/p1`)).state, 'running');
			assert.equal((await s.run(id, { code: 'x', context: 'mine' })).value, '1');
		}),
	},
	{
		id: '39e', without: { walls: ['scheme'] }, attack: 'a page at the http:// address of a server that is reached by https, with the cookie of a browser', must: '403', code: '', held: 0,
		after: async (_r, o) => {
			const e = { ...o.env, SANDBOX_API_KEY: 'an-administrators-key-of-the-server', SANDBOX_PUBLIC_URL: 'https://caisson.example', SANDBOX_TRUSTED_PROXIES: '127.0.0.1' };
			const { program, port } = await serve({ profile: 'full', env: e });
			const ask = async (method: string, path: string, headers: Record<string, string>, json?: Json): Promise<{ status: number; headers: http.IncomingHttpHeaders }> => {
				const r = http.request({ host: '127.0.0.1', port, path: `/api/v1${path}`, method, headers: { host: 'caisson.example', ...(json && { 'content-type': 'application/json' }), ...headers } });
				r.end(json && JSON.stringify(json));
				const [answer] = await once(r, 'response') as [http.IncomingMessage];
				await content(answer);
				return { status: answer.statusCode!, headers: answer.headers };
			};
			try {
				const page = { origin: 'https://caisson.example', 'x-caisson-page': '1' };
				const signed = await ask('POST', '/session', page, { key: e.SANDBOX_API_KEY });
				assert.equal(signed.status, 200);
				const cookie = signed.headers['set-cookie']![0]!.split(';')[0]!;
				const made = (headers: Record<string, string>): Promise<number> => ask('POST', '/sandboxes', { cookie, 'x-caisson-page': '1', ...headers }, {}).then((r) => r.status);
				assert.equal(await made(page), 201);
				for (const more of [{}, { 'x-forwarded-proto': 'https' }] as Record<string, string>[])
					assert.equal(await made({ origin: 'http://caisson.example', ...more }), 403, JSON.stringify(more));
				assert.equal(await made({ origin: 'https://caisson.example:8443' }), 403);
			} finally {
				await program.end();
			}
		},
	},
];

