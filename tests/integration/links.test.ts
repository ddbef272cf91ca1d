// SPDX-License-Identifier: Apache-2.0
// Artifact links as browsers and curl use them: types, ranges, names, and paths that must not work.

import assert from 'node:assert/strict';
import * as net from 'node:net';
import { describe, it } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { freePort, newStateDir } from '../lib/env.ts';
import { caisson, residentBytes } from '../lib/process.ts';
import { matrix, open, serve, using, type Json, type Session } from '../lib/session.ts';

/** One HTTP/1.1 exchange with bytes of our own: fetch() would tidy the path. */
async function exchange(port: number, head: string): Promise<{ status: number; text: string }> {
	return new Promise((resolve, reject) => {
		const socket = net.connect(port, '127.0.0.1', () => socket.write(head));
		let text = '';
		socket.setTimeout(10_000, () => socket.destroy(new Error(`no answer to ${JSON.stringify(head.slice(0, 80))}`)));
		socket.on('data', (b) => (text += b.toString('latin1')));
		socket.on('error', reject);
		socket.on('close', () => resolve({ status: Number(/^HTTP\/1\.[01] (\d{3})/.exec(text)?.[1] ?? 0), text }));
	});
}

function get(port: number, path: string): Promise<{ status: number; text: string }> {
	return exchange(port, `GET ${path} HTTP/1.1\r\nHost: localhost:${port}\r\nConnection: close\r\n\r\n`);
}

async function linkOf(s: Session, id: string, name: string): Promise<string> {
	const found = (await s.list(id)).find((a) => a.filename === name);
	assert.ok(found, name);
	return found.download_url;
}

matrix('links', {}, (s) => {
	it('GET, HEAD, ETag, If-None-Match', async () => {
		await s().upload('page.html', '<b>hi</b>', 'web');
		const url = await linkOf(s(), 'web', 'page.html');
		const r = await fetch(url);
		assert.equal(await r.text(), '<b>hi</b>');
		assert.equal(r.headers.get('content-type'), 'text/html; charset=utf-8');
		assert.match(r.headers.get('content-disposition')!, /^inline; filename="page.html"/);
		assert.equal(r.headers.get('x-content-type-options'), 'nosniff');
		assert.match(r.headers.get('content-security-policy') ?? '', /sandbox/, 'a page from a sandbox is not our origin\'s');
		const head = await fetch(url, { method: 'HEAD' });
		assert.equal(head.headers.get('content-length'), '9');
		assert.equal(await head.text(), '');
		const etag = r.headers.get('etag')!;
		assert.ok(etag);
		assert.equal((await fetch(url, { headers: { 'if-none-match': etag } })).status, 304);
		await s().upload('page.html', '<b>changed</b>', 'web', true);
		const changed = await fetch(url, { headers: { 'if-none-match': etag } });
		assert.equal(changed.status, 200);
		assert.notEqual(changed.headers.get('etag'), etag);
	});
	it('caches ask each time, and a copy that keeps time and size has another ETag', async () => {
		await s().ok('import os\nfor n in ("was", "new"): open(n, "w").write(n); os.utime(n, (1e9, 1e9))', 'tag');
		const url = await linkOf(s(), 'tag', 'was');
		const r = await fetch(url);
		assert.equal(r.headers.get('cache-control'), 'no-cache');
		await s().ok('import os, shutil; os.chmod("was", 0o600); shutil.copy2("new", "was"); os.utime("was", (1e9, 1e9))', 'tag');
		const again = await fetch(url, { headers: { 'if-none-match': r.headers.get('etag')! } });
		assert.deepEqual([again.status, await again.text()], [200, 'new']);
		const same = await fetch(url, { headers: { 'if-none-match': again.headers.get('etag')! } });
		assert.deepEqual([same.status, same.headers.get('cache-control')], [304, 'no-cache']);
	});
	it('pages have scripts and an origin of nobody, and may load nothing from anywhere', async () => {
		const active = ['a.html', 'a.htm', 'a.svg', 'a.xhtml', 'a.xml', 'a.HTML'];
		for (const name of [...active, 'a.png', 'a.txt', 'a.json', 'a', 'a.js', 'a.css']) {
			await s().upload(name, '<script>1</script>', 'pages');
			const url = await linkOf(s(), 'pages', name);
			const answers = [await fetch(url), await fetch(url, { method: 'HEAD' }), await fetch(url, { headers: { range: 'bytes=0-1' } })];
			for (const r of answers) {
				await r.arrayBuffer();
				assert.equal(r.headers.get('x-content-type-options'), 'nosniff', name);
				const policy = r.headers.get('content-security-policy');
				if (!active.includes(name)) {
					assert.equal(policy, null, name);
					assert.doesNotMatch(r.headers.get('content-type')!, /html|xml/, name);
					continue;
				}
				const rules = new Map(policy!.split(';').map((rule) => rule.trim().split(' ')).map(([key, ...values]) => [key!, values]));
				assert.deepEqual(rules.get('sandbox'), ['allow-scripts'], 'no origin of ours, no forms, popups, downloads, dialogs or other tabs');
				assert.deepEqual(rules.get('default-src'), ["'none'"]);
				for (const key of ['base-uri', 'form-action'])
					assert.deepEqual(rules.get(key), ["'none'"]);
				for (const [key, values] of rules)
					if (key.endsWith('-src'))
						for (const value of values)
							assert.ok(["'none'", "'unsafe-inline'", "'unsafe-eval'", 'data:', 'blob:'].includes(value), `${key} ${value}`);
				for (const value of ["'unsafe-inline'", "'unsafe-eval'"])
					assert.ok(rules.get('script-src')!.includes(value), 'charts carry their library in the page');
				assert.equal(r.headers.get('referrer-policy'), 'no-referrer');
				assert.equal(r.headers.get('x-dns-prefetch-control'), 'off');
			}
		}
	});
	it('ranges', async () => {
		await s().upload('digits.txt', '0123456789', 'web');
		const url = await linkOf(s(), 'web', 'digits.txt');
		const rows: [string, number, string, string | null][] = [
			['bytes=0-3', 206, '0123', 'bytes 0-3/10'],
			['bytes=4-', 206, '456789', 'bytes 4-9/10'],
			['bytes=-2', 206, '89', 'bytes 8-9/10'],
			['bytes=8-100', 206, '89', 'bytes 8-9/10'],
			['bytes=0-0', 206, '0', 'bytes 0-0/10'],
			['bytes=10-', 416, '', 'bytes */10'],
			['bytes=5-2', 200, '0123456789', null],
			['bytes=x-y', 200, '0123456789', null],
			['lines=0-3', 200, '0123456789', null],
		];
		for (const [range, status, body, content] of rows) {
			const r = await fetch(url, { headers: { range } });
			const text = await r.text();
			assert.equal(r.status, status, range);
			assert.equal(r.headers.get('content-range'), content, range);
			if (status !== 416)
				assert.equal(text, body, range);
		}
	});
	it('other methods are 405 with Allow', async () => {
		const url = await linkOf(s(), 'web', 'digits.txt');
		for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
			const r = await fetch(url, { method });
			assert.equal(r.status, 405, method);
			assert.match(r.headers.get('allow')!, /GET/);
		}
	});
	it('every name that Linux allows can be linked and fetched', async () => {
		const names = ['with space.txt', 'q?x=1&y#z', 'ünïcode.txt', '日本.csv', 'per%cent%2f', "quote\"'`.txt", 'semi;colon', '<b>.html',
			'new\nline', 'tab\t', '-rf', '.dot', 'back\\slash', 'a'.repeat(255), '日'.repeat(85)];
		const r = await s().ok(`for n in ${JSON.stringify(names)}: open(n, "w").write(n)`, 'names');
		assert.equal(r.artifacts.length, names.length);
		for (const a of r.artifacts as Json[]) {
			assert.match(a.download_url, /^[\x21-\x7e]+$/, 'a link is plain ASCII');
			const got = await fetch(a.download_url);
			assert.equal(got.status, 200, a.download_url);
			assert.equal(await got.text(), a.filename);
			assert.doesNotMatch(got.headers.get('content-disposition')!, /[\r\n]/);
		}
	});
	it('a name that is no UTF-8 does no harm', async () => {
		const r = await s().ok('open(b"bad\\xff\\xfename.txt", "w").write("x"); open("good.txt", "w").write("y")', 'bytes');
		assert.ok(r.artifacts.some((a: Json) => a.filename === 'good.txt'));
		for (const a of r.artifacts as Json[])
			assert.equal((await fetch(a.download_url)).status, 200, a.download_url);
	});
	it('paths that must be 404', async () => {
		await s().ok('import os; os.mkdir("dir"); open("dir/n.txt", "w"); os.symlink("/etc/passwd", "link"); os.symlink("f", "in"); open("f", "w"); os.mkfifo("fifo")', 'odd');
		const port = Number(new URL(await linkOf(s(), 'odd', 'f')).port);
		const paths = ['odd/link', 'odd/in', 'odd/fifo', 'odd/dir', 'odd/dir%2fn.txt', 'odd/..', 'odd/.', 'odd/%2e%2e', 'odd/%2e',
			'odd/../odd/f', 'odd/%2e%2e%2fodd%2ff', 'odd/f%00', 'odd/f%00.png', 'odd//f', 'odd/', 'odd', '', '../etc/passwd', '%2e%2e/f',
			'odd%2ff', 'nobody/f', 'bad%20id/f', `${'a'.repeat(65)}/f`, 'odd/f/', `odd/${'x'.repeat(256)}`];
		for (const p of paths) {
			const r = await get(port, `/files/${p}`);
			assert.ok(r.status === 404 || (r.status === 400 && /%00|%2e|\.\.|\/\//i.test(p)), `${p}: ${r.status}`);
			assert.doesNotMatch(r.text, /root:/);
		}
		assert.equal((await get(port, '/files/odd/f')).status, 200);
		assert.equal((await get(port, '/files/odd/dir/n.txt')).status, 200);
	});
	it('a closed session\'s link is 404', async () => {
		await s().upload('a.txt', 'x', 'brief');
		const url = await linkOf(s(), 'brief', 'a.txt');
		assert.equal((await fetch(url)).status, 200);
		await s().close('brief');
		assert.equal((await fetch(url)).status, 404);
	});
	it('works while the session runs', async () => {
		await s().upload('early.txt', 'before', 'running');
		const url = await linkOf(s(), 'running', 'early.txt');
		const run = s().run('import os, time\nwhile not os.path.exists("go"): time.sleep(0.01)', 'running');
		assert.equal(await (await fetch(url)).text(), 'before');
		await s().upload('go', '', 'running');
		assert.equal((await run).exit_code, 0);
	});
	it('a foreign Host is refused', async () => {
		const port = Number(new URL(await linkOf(s(), 'web', 'digits.txt')).port);
		const r = await exchange(port, 'GET /files/web/digits.txt HTTP/1.1\r\nHost: evil.example.com\r\nConnection: close\r\n\r\n');
		assert.ok(r.status >= 400 && r.status < 500, String(r.status));
	});
});

describe('the listener', () => {
	it('(slow) a link of 200 MB streams in constant memory', () => using('stdio', { env: { SANDBOX_MAX_LINK_BYTES: '0' } }, async (s) => {
		await s.ok('f = open("big.bin", "wb")\nfor i in range(200): f.write(bytes([i]) * (1 << 20))\nf.close()', 'big');
		const url = await linkOf(s, 'big', 'big.bin');
		const before = residentBytes(s.pid);
		let peak = 0, total = 0, wrong = 0;
		for await (const piece of (await fetch(url)).body as unknown as AsyncIterable<Uint8Array>) {
			for (let i = 0; i < piece.length; i += 4096)
				if (piece[i] !== Math.floor((total + i) / (1 << 20)))
					wrong++;
			total += piece.length;
			peak = Math.max(peak, residentBytes(s.pid));
		}
		assert.equal(total, 200 << 20);
		assert.equal(wrong, 0);
		assert.ok(peak - before < 16 << 20, `grew by ${(peak - before) >> 20} MiB`);
	}));
	it('(slow) an artifact larger than the limit is 413 as in the contract, and served in profile all', async () => {
		for (const [profile, status, text] of [['code', 413, 'nine.txt is 0MB, exceeds 0MB limit.'], ['both', 413, 'nine.txt is 0MB, exceeds 0MB limit.'], ['all', 200, '123456789']] as const)
			await using('stdio', { profile, env: { SANDBOX_MAX_ARTIFACT_READ_BYTES: '8' } }, async (s) => {
				await s.upload('nine.txt', '123456789', 'big');
				const r = await fetch(await linkOf(s, 'big', 'nine.txt'));
				assert.deepEqual([r.status, await r.text()], [status, text], profile);
			});
	});
	it('a link that a person writes works right after an upload', async () => {
		const port = await freePort();
		await using('stdio', { env: { SANDBOX_HTTP_PORT: String(port) } }, async (s) => {
			await s.upload('a.txt', 'at once', 'p');
			assert.equal(await (await fetch(`http://localhost:${port}/files/p/a.txt`)).text(), 'at once');
		});
	});
	it('(slow) the owner\'s key opens a file without a signature; signed links of stored sandboxes outlive the server', async () => {
		const state = newStateDir();
		const env = { SANDBOX_STATE_DIR: state, SANDBOX_REQUIRE_AUTH: 'on' };
		const keys: Record<string, string> = {};
		for (const name of ['ann', 'ben']) {
			assert.equal((await caisson(['user', 'add', name, '--password', 'none'], { env })).code, 0);
			keys[name] = (await caisson(['key', 'new', name], { env })).stdout.toString().trim();
		}
		assert.equal((await caisson(['user', 'add', 'op', '--role', 'admin', '--password', 'none'], { env })).code, 0);
		keys.op = (await caisson(['key', 'new', 'op', '--scope', 'admin'], { env })).stdout.toString().trim();
		let server = await serve({ profile: 'both', env });
		const link = async (name: string): Promise<URL[]> => {
			const client = new Client({ name: 'caisson-tests', version: '1.0.0' });
			await client.connect(new StreamableHTTPClientTransport(new URL(`${server.base}/mcp`), { requestInit: { headers: { 'x-api-key': keys.ann! } } }));
			const call = async (tool: string, args: Json): Promise<Json> => JSON.parse(((await client.callTool({ name: tool, arguments: args })) as Json).content[0].text);
			const run = await call('execute_python_code', { sandbox_id: id, code: `open("${name}", "w").write("<b>hi</b>")` });
			const listed = (await call('sandbox_list_artifacts', { session_id: id })).artifacts.find((a: Json) => a.filename === name);
			await client.close();
			return [new URL(run.file_links[0]), new URL(listed.download_url)];
		};
		const rest = async (method: string, at: string, body?: unknown, key = keys.ann!): Promise<Json> =>
			(await fetch(server.base + at, { method, headers: { 'x-api-key': key, 'content-type': 'application/json' }, body: body === undefined ? undefined : JSON.stringify(body) })).json() as Promise<Json>;
		const made = await rest('POST', '/api/v1/sandboxes', { kind: 'stored' });
		const id: string = made.id;
		const signed = (await link('p.html')).map((u) => {
			assert.equal(u.searchParams.get('e'), '0', 'no end');
			return u.pathname + u.search;
		});
		const status = async (at: string, headers: Record<string, string> = {}): Promise<number> => {
			const r = await fetch(server.base + at, { headers });
			if (r.ok)
				assert.match(r.headers.get('content-security-policy')!, /^sandbox allow-scripts;/, 'scripts, in an origin of their own');
			await r.arrayBuffer();
			return r.status;
		};
		const bare = [`/files/${id}/p.html`, `/sandbox/file?sandbox_id=${id}&file_path=/app/results/p.html`];
		for (const at of bare) {
			const and = at.includes('?') ? '&' : '?';
			assert.equal(await status(at, { 'x-api-key': keys.ann! }), 200, at);
			assert.equal(await status(at, { authorization: `Bearer ${keys.ann}` }), 200, at);
			assert.equal(await status(`${at}${and}api_key=${keys.ann}`), 200, 'as the original wrote its links');
			assert.equal(await status(`${at}${and}api_key=${keys.ben}`), 404, 'another\'s key');
			assert.match(String(await status(at)), /^40[13]$/);
			assert.match(String(await status(`${at}${and}api_key=csn_wrong`)), /^40[13]$/);
		}
		for (const at of signed) {
			assert.equal(await status(at), 200, at);
			assert.equal(await status(at.replace(/s=./, (m) => `s=${m === 's=0' ? '1' : '0'}`)), 403);
			assert.equal(await status(at.replace('e=0', 'e=99999999999')), 403, 'the end is signed, too');
		}
		await server.program.end();
		server = await serve({ profile: 'both', env: { ...env, SANDBOX_STORED_LINK_HOURS: '1' } });
		try {
			for (const at of signed)
				assert.equal(await status(at), 200, 'after a restart');
			for (const u of await link('q.html'))
				assert.ok(Math.abs(Number(u.searchParams.get('e')) - Date.now() / 1000 - 3600) < 120, u.search);
			const users = (await rest('GET', '/api/v1/users', undefined, keys.op)).users as Json[];
			const off = await rest('PATCH', `/api/v1/users/${users.find((u) => u.name === 'ann')!.id}`, { active: false }, keys.op);
			assert.equal(off.active, false, JSON.stringify(off));
			for (const at of signed)
				assert.equal(await status(at), 403, 'not for a user who is not active');
		} finally {
			await server.program.end();
		}
	});
	it('a taken port means a free one in the link', async () => {
		const port = await freePort();
		const holder = net.createServer();
		await new Promise<void>((resolve) => holder.listen(port, '127.0.0.1', resolve));
		try {
			await using('stdio', { env: { SANDBOX_HTTP_PORT: String(port) } }, async (s) => {
				await s.upload('a.txt', 'x', 'p');
				const url = await linkOf(s, 'p', 'a.txt');
				assert.notEqual(Number(new URL(url).port), port);
				assert.equal(await (await fetch(url)).text(), 'x');
			});
		} finally {
			holder.close();
		}
	});
	it('two servers with one port both give links that live', async () => {
		const env = { SANDBOX_HTTP_PORT: String(await freePort()) };
		await using('stdio', { env }, (a) => using('stdio', { env }, async (b) => {
			await a.upload('a.txt', 'from a', 'same');
			await b.upload('a.txt', 'from b', 'same');
			assert.equal(await (await fetch(await linkOf(a, 'same', 'a.txt'))).text(), 'from a');
			assert.equal(await (await fetch(await linkOf(b, 'same', 'a.txt'))).text(), 'from b');
		}));
	});
	it('no port is bound before the first link', async () => {
		const port = await freePort();
		await using('stdio', { env: { SANDBOX_HTTP_PORT: String(port) } }, async (s) => {
			await s.client.ping();
			await assert.rejects(get(port, '/'));
			await s.upload('a.txt', 'x', 'p');
			const url = await linkOf(s, 'p', 'a.txt');
			assert.equal(Number(new URL(url).port), port, 'the port that was asked for');
			assert.equal((await fetch(url)).status, 200);
		});
	});
	it('off means null', () => using('stdio', { env: { SANDBOX_HTTP_PORT: 'off' } }, async (s) => {
		const r = await s.ok('open("a", "w").close()', 'off');
		assert.equal(r.artifacts[0].download_url, null);
	}));
	it('the main port of serve has the links too', async () => {
		const s = await open('http');
		try {
			await s.upload('a.txt', 'x', 'main');
			assert.equal(await (await fetch(`${s.base}/files/main/a.txt`)).text(), 'x');
			const own = await linkOf(s, 'main', 'a.txt');
			assert.equal(await (await fetch(own)).text(), 'x');
		} finally {
			await s.end();
		}
	});
});
