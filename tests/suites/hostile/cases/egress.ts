// SPDX-License-Identifier: Apache-2.0
// Rows 38, 40: a sandbox that may reach something and wants more, and packages that are traps. Each case has a server of its own, with the
// network that it attacks; an index on loopback is all that is ever reached.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import * as http from 'node:http';
import * as net from 'node:net';
import { facts, using, type Json, type Session } from '../../../lib/session.ts';
import { Canary, Index, wheel, wheelName, zip } from '../../../lib/wheel.ts';
import type { Case, Outside } from '../case.ts';
import { checkAttempts, checkEnding, programOf, runCode } from '../judge.ts';

/** Runs CODE where SETTINGS give a network; at least HELD attempts, none that works. */
async function attack(o: Outside, settings: Record<string, string>, held: number, code: string): Promise<void> {
	await using('stdio', { env: { ...o.env, ...settings } }, async (s) => {
		const r = await runCode(s, programOf(proxy + code), 'out');
		checkEnding(r, 0);
		checkAttempts(r, held);
	});
}

const listed = { SANDBOX_NETWORK: 'allowlist', SANDBOX_NETWORK_ALLOW: 'good.caisson.invalid *.wild.caisson.invalid only.caisson.invalid:8443' };

/** Sends bytes to the proxy; the reason of a refusal, or the status. */
const proxy = `
import re, socket

def said(request):
    s = socket.create_connection(("127.0.0.1", 3128)); s.settimeout(10)
    s.sendall(request if isinstance(request, bytes) else request.encode())
    got = b""
    while chunk := s.recv(4096):
        got += chunk
    reason = re.search(rb"X-Egress-Reason: (\\w+)", got)
    return (reason[1] if reason else got[:20]).decode("latin1")

def tunnel(target):
    return said(f"CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n")
`;

/** Listens where an index is thought to be and answers any byte. */
async function withEcho(body: (port: number) => Promise<void>): Promise<void> {
	const server = net.createServer((c) => c.on('error', () => {}).once('data', () => c.end('reached')));
	await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
	try {
		await body((server.address() as net.AddressInfo).port);
	} finally {
		server.close();
	}
}

/** Listens where an index is thought to be, reads everything and answers a request. */
async function withSink(body: (port: number, received: () => number) => Promise<void>): Promise<void> {
	let n = 0;
	const server = net.createServer((c) => c.on('error', () => {}).on('data', (b: Buffer) => {
		n += b.length;
		if (b.toString('latin1', 0, 4) === 'GET ')
			c.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
	}));
	await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
	try {
		await body((server.address() as net.AddressInfo).port, () => n);
	} finally {
		server.close();
	}
}

async function withIndex(body: (index: Index, canary: Canary) => Promise<void>): Promise<void> {
	const index = await new Index().open();
	const canary = await new Canary().open();
	try {
		await body(index, canary);
	} finally {
		index.close();
		canary.close();
	}
}

/** An index that answers with too much, too slowly, or too deep. */
async function withTroll(body: (url: string) => Promise<void>): Promise<void> {
	const heavy = wheel('heavy', '1.0', '', { requires: Array.from({ length: 1 << 19 }, (_x, i) => `p${i}; python_version < "2" and "${'x'.repeat(32)}" == "y"`) });
	const good = wheel('good', '1.0', '');
	const row = (name: string): string => `<a href="/files/${wheelName(name, '1.0')}">${wheelName(name, '1.0')}</a>`;
	const server = http.createServer((req, res) => {
		const name = /^\/simple\/([a-z]+)\/$/.exec(req.url!)?.[1] ?? '';
		res.on('error', () => {});
		res.setHeader('content-type', name === 'nested' ? 'application/vnd.pypi.simple.v1+json' : 'text/html');
		const more = (): void => {
			while (!res.destroyed && res.write('<!-- more -->'.repeat(5000)));
		};
		if (name === 'endless') res.on('drain', more), more();
		else if (name === 'slow') {
			const timer = setInterval(() => res.write('<'), 200);
			res.on('close', () => clearInterval(timer));
		} else if (name === 'nested') res.end('['.repeat(1 << 20));
		else if (name) res.end(row(name).replace('.whl"', `.whl#sha256=${createHash('sha256').update(name === 'heavy' ? heavy : good).digest('hex')}"`));
		else res.end(req.url!.includes('heavy') ? heavy : good);
	});
	await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
	try {
		await body(`http://127.0.0.1:${(server.address() as net.AddressInfo).port}/simple`);
	} finally {
		server.close();
		server.closeAllConnections();
	}
}

/** A source package whose build, a program of its own, writes a wheel and needs nothing else. */
function sourcePackage(name: string): Buffer {
	const made = wheel(name, '1.0', 'who = "built"').toString('base64');
	const backend = `import base64\ndef build_wheel(folder, config_settings=None, metadata_directory=None):\n    open(folder + "/${wheelName(name, '1.0')}", "wb").write(base64.b64decode("${made}"))\n    return "${wheelName(name, '1.0')}"\n`;
	return zip([
		{ name: `${name}-1.0/PKG-INFO`, text: `Metadata-Version: 2.1\nName: ${name}\nVersion: 1.0\n` },
		{ name: `${name}-1.0/pyproject.toml`, text: '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n' },
		{ name: `${name}-1.0/backend.py`, text: backend },
	]);
}

async function install(s: Session, packages: string): Promise<Json> {
	return facts(await s.raw('sandbox_install_packages', { packages, session_id: 'shop' }));
}

/** Each package must be refused, and the sandbox has nothing of it: no package, no file, no visit to who is not the index. */
async function refuses(o: Outside, settings: Record<string, string>, packages: string[], index: Index, canary: Canary): Promise<void> {
	await using('stdio', { profile: 'all', env: { ...o.env, SANDBOX_PIP_INDEX_URL: index.url, ...settings } }, async (s) => {
		for (const name of packages) {
			const r = await install(s, name);
			assert.equal(r.error, 'package_failed', `${name}: ${JSON.stringify(r)}`);
		}
		await o.spoil?.(s);
		assert.deepEqual((await s.call('sandbox_list_packages', { session_id: 'shop' })).installed, []);
		const found = await runCode(s, 'import glob\nprint(glob.glob("/mnt/data/**", recursive=True), glob.glob("/tmp/*"))', 'shop');
		assert.equal(found.stdout, "['/mnt/data/'] []\n");
		assert.equal(canary.visits, 0, 'somebody else than the index was asked');
	});
}

export const egressCases: Case[] = [
	{
		id: '38a', without: { walls: ['hosts'] }, attack: 'names that look like one of the list', must: 'refused by what they are, before anything is resolved', code: '', held: 0,
		after: (_r, o) => attack(o, listed, 30, `
base = "good.caisson.invalid"
for target in ("caisson.invalid", "evil" + base, base + ".evil.example", "x." + base, "wild.caisson.invalid", "xwild.caisson.invalid", "*.wild.caisson.invalid", "..wild.caisson.invalid", ".wild.caisson.invalid",
               base + "..", base + "%2eevil.example", base + "%00.evil.example", "evil.example#" + base, "evil.example/" + base, "evil.example?" + base, base + "@evil.example", "evil.example@" + base,
               "g\\u00f6od.caisson.invalid", "\\uff47ood.caisson.invalid", "xn--good.caisson.invalid", base + "\\\\.evil.example", "[" + base + "]", "\\t" + base, base + "\\x00.evil.example", "evil.example\\x00." + base, "evil.example,"  + base):
    said_so = tunnel(target + ":443")
    say(said_so in ("host_not_allowed", "bad_host", "bad_target", "bad_request", "address_literal"), "tunnel to " + ascii(target), said_so)
for target in (base + ":22", base + ":0443x", base + ":", base, base + ":65536", base + ":-1", base + ":443:443", "only.caisson.invalid:443", base + ":0x1bb"):
    said_so = tunnel(target)
    say(said_so in ("port_not_allowed", "bad_host", "bad_target", "bad_request"), "port of " + target, said_so)`),
	},
	{
		id: '38b', without: { walls: ['hosts'] }, attack: 'addresses in every spelling through the proxy', must: 'names alone are taken', code: '', held: 0,
		after: (_r, o) => withEcho((port) => attack(o, listed, 24, `
for host in ("127.0.0.1", "localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "169.254.169.254", "[fe80::1%25eth0]", "1.1.1.1", "[64:ff9b::a00:1]"):
    for request in (f"CONNECT {host}:${port} HTTP/1.1\\r\\nHost: {host}:${port}\\r\\n\\r\\nx", f"GET http://{host}:${port}/ HTTP/1.1\\r\\nHost: {host}:${port}\\r\\n\\r\\n"):
        said_so = said(request)
        say(said_so in ("host_not_allowed", "address_literal", "bad_host", "bad_target", "bad_request"), request.split()[0] + " " + host, said_so)`)),
	},
	{
		id: '38c', without: { walls: ['greeting'] }, attack: 'a tunnel to one host, a TLS greeting for another, or no TLS', must: 'cut before a byte reaches the server', code: '', held: 0,
		after: (_r, o) => withEcho((port) => attack(o, { SANDBOX_NETWORK: 'packages', SANDBOX_PIP_INDEX_URL: `https://localhost:${port}/simple` }, 6, `
import ssl

def greeting(name):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
    out = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()

def sent(first):
    s = socket.create_connection(("127.0.0.1", 3128)); s.settimeout(10)
    s.sendall(b"CONNECT localhost:${port} HTTP/1.1\\r\\nHost: localhost:${port}\\r\\n\\r\\n")
    assert s.recv(100).startswith(b"HTTP/1.1 200"), "the index is allowed"
    s.sendall(first)
    got = b""
    try:
        while chunk := s.recv(100):
            got += chunk
    except ConnectionResetError:
        pass
    return got

own = greeting("localhost")
holds("its own name", sent(own) == b"reached")
halves = own[:3] + (100).to_bytes(2, "big") + own[5:105] + own[:3] + (len(own) - 105).to_bytes(2, "big") + own[105:]
for what, first in (("another name", greeting("evil.example")), ("no name", greeting(None)), ("a greeting in two records", halves), ("plain HTTP", b"GET / HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n"), ("SSH", b"SSH-2.0-OpenSSH_9.2\\r\\n"), ("an address", greeting("127.0.0.1"))):
    say(b"reached" not in sent(first), what)`)),
	},
	{
		id: '38d', without: { walls: ['authority'] }, attack: 'requests that two readers understand in two ways', must: 'refused; one request a connection reaches the index', code: '', held: 0,
		after: (_r, o) => withIndex(async (index) => {
			index.add('plain', { file: wheelName('plain', '1.0'), body: '' });
			const at = new URL(index.url).host;
			await attack(o, { SANDBOX_NETWORK: 'packages', SANDBOX_PIP_INDEX_URL: index.url }, 16, `
url, host = "http://${at}/simple/evil/", "Host: ${at}"
def get(line=f"GET {url} HTTP/1.1", fields=(host,), end="\\r\\n", body=""):
    return end.join((line, *fields, "", body))
plain = said(get("GET http://${at}/simple/plain/ HTTP/1.1") + get())
holds("the index is reached, and what stands behind the request is not another one", plain.startswith("HTTP/1.1 200"), plain)
for what, request in (("another host", get(fields=("Host: evil.example",))), ("two hosts", get(fields=(host, "Host: evil.example"))), ("no host", get(fields=())), ("chunks", get(fields=(host, "Transfer-Encoding: chunked"), body="0\\r\\n\\r\\n")),
                      ("length and chunks", get(fields=(host, "Content-Length: 5", "Transfer-Encoding: chunked"), body="0\\r\\n\\r\\n")), ("two lengths", get(fields=(host, "Content-Length: 0", "Content-Length: 50"))), ("a blank before the colon", get(fields=(host.replace(":", " :", 1),))),
                      ("a folded line", get(fields=(host, "X: a", " b"))), ("bare line feeds", get(end="\\n")), ("bare returns", get(end="\\r")), ("a NUL", get(fields=(host, "X: a\\0b"))), ("h2c", get(fields=(host, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AA"))),
                      ("HTTP/2", "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"), ("HTTP/0.9", f"GET {url}\\r\\n\\r\\n"), ("a user in the address", get(f"GET http://evil@${at}/simple/evil/ HTTP/1.1")), ("a write", get(f"POST {url} HTTP/1.1", (host, "Content-Length: 1"), body="x")),
                      ("another scheme", get(f"GET ftp://${at}/simple/evil/ HTTP/1.1")), ("no target", get("GET /simple/evil/ HTTP/1.1")), ("a target in two words", get(f"GET {url} evil HTTP/1.1"))):
    said_so = said(request)
    say(not said_so.startswith("HTTP/1.1"), what, said_so)`);
			assert.deepEqual(index.asked, ['/simple/plain/']);
		}),
	},
	{
		id: '38e', without: { walls: ['index_path', 'uploads'] }, attack: 'other paths of the host of the index, and an upload through a tunnel', must: 'pages and packages are read, little is sent', code: '', held: 0,
		after: (_r, o) => withSink((port, received) => attack(o, { SANDBOX_NETWORK: 'packages', SANDBOX_PIP_INDEX_URL: `http://127.0.0.1:${port}/simple` }, 7, `
for path in ("/", "/admin", "/simple/a/?q=stolen", "/simple/../admin", "/simple/%2e%2e/admin", "/simple/a/stolen"):
    said_so = said(f"GET http://127.0.0.1:${port}{path} HTTP/1.1\\r\\nHost: 127.0.0.1:${port}\\r\\n\\r\\n")
    say(said_so == "path_not_allowed", "GET " + path, said_so)
s = socket.create_connection(("127.0.0.1", 3128)); s.settimeout(10)
s.sendall(b"CONNECT 127.0.0.1:${port} HTTP/1.1\\r\\nHost: 127.0.0.1:${port}\\r\\n\\r\\n")
assert s.recv(100).startswith(b"HTTP/1.1 200"), "the index is allowed"
sent = 0
try:
    while sent < 8 << 20:
        sent += s.send(b"x" * 65536)
except OSError:
    pass
say(sent < 8 << 20, "an upload of 8 MiB", str(sent))`).then(() => assert.ok(received() < 3 << 20, `${received()} bytes arrived`))),
	},
	{
		id: '40a', without: { settings: { SANDBOX_PIP_SOURCE_BUILDS: 'on' } }, attack: 'packages that run code while they are installed', must: 'refused: nothing but wheels is installed', code: '', held: 0,
		after: (_r, o) => withIndex(async (index, canary) => {
			index.add('builder', { file: 'builder-1.0.zip', body: sourcePackage('builder') });
			index.add('needer', { file: wheelName('needer', '1.0'), body: wheel('needer', '1.0', '', { requires: ['builder'] }) });
			await refuses(o, {}, ['builder', 'needer'], index, canary);
			assert.deepEqual(index.asked.filter((path) => path.startsWith('/files/builder')), [], 'its archive was fetched');
		}),
	},
	{
		id: '40b', planted: { what: 'the file is where its path leads', by: (_r, o) => void (o.spoil = (s: Session) => s.upload('evil.py', 'x', 'shop')) },
		attack: 'wheels with paths, links and names that are not theirs', must: 'refused whole', code: '', held: 0,
		after: (_r, o) => withIndex(async (index, canary) => {
			const more = (name: string, file: string, text: string, mode?: number): void =>
				index.add(name, { file: wheelName(name, '1.0'), body: wheel(name, '1.0', '', { more: [{ name: file, text, mode }] }) });
			more('climber', '../../../../../../mnt/data/evil.py', 'x');
			more('linker', 'link', '/mnt/data', 0o120777);
			more('scripts', 'scripts-1.0.data/data/../../../../mnt/data/evil.py', 'x');
			index.add('impostor', { file: wheelName('impostor', '1.0'), body: wheel('numpy', '99.0', '') });
			await refuses(o, {}, ['climber', 'linker', 'scripts', 'impostor'], index, canary);
		}),
	},
	{
		id: '40c', without: { walls: ['hosts'] }, attack: 'an index that sends elsewhere: links, redirects, the metadata service', must: 'nobody but the index is asked', code: '', held: 0,
		after: (_r, o) => withIndex(async (index, canary) => {
			const there = `http://127.0.0.1:${canary.port}/elsewhere-1.0-py3-none-any.whl`;
			index.add('elsewhere', { file: wheelName('elsewhere', '1.0'), body: wheel('elsewhere', '1.0', ''), url: there });
			index.add('redirected', { file: wheelName('redirected', '1.0'), body: there });
			index.add('metadata', { file: wheelName('metadata', '1.0'), body: 'http://169.254.169.254/latest/meta-data/' });
			await refuses(o, {}, ['elsewhere', 'redirected', 'metadata'], index, canary);
		}),
	},
	{
		id: '40d', without: { settings: { SANDBOX_INSTALL_MAX_BYTES: '200m', SANDBOX_WORKSPACE_LIMIT: '200m', SANDBOX_WORKSPACE_FILES: '100000' } }, attack: 'a wheel that unpacks to forty times its size, and one that is another than the index says', must: 'refused', code: '', held: 0,
		after: (_r, o) => withIndex(async (index, canary) => {
			index.add('bomb', { file: wheelName('bomb', '1.0'), body: wheel('bomb', '1.0', '', { more: [{ name: 'zeros', text: Buffer.alloc(40 << 20) }] }) });
			index.add('liar', { file: wheelName('liar', '1.0'), body: wheel('liar', '1.0', ''), sha256: '0'.repeat(64) });
			await refuses(o, { SANDBOX_INSTALL_MAX_BYTES: o.env.SANDBOX_INSTALL_MAX_BYTES ?? '4m' }, ['bomb', 'liar'], index, canary);
		}),
	},
	{
		id: '40e', without: { settings: { SANDBOX_INSTALL_TIMEOUT_S: '600' } }, attack: 'an index that never ends: pages without an end, a byte at a time, lists in lists, metadata of 40 MiB', must: 'each ends in time with an error, and the next one works', code: '', held: 0,
		after: (_r, o) => withTroll((url) => using('stdio', { profile: 'all', env: { SANDBOX_INSTALL_TIMEOUT_S: '5', SANDBOX_INSTALL_MAX_BYTES: '8m', ...o.env, SANDBOX_PIP_INDEX_URL: url } }, async (s) => {
			for (const name of ['endless', 'slow', 'nested', 'heavy']) {
				const r = await Promise.race([install(s, name), new Promise<Json>((resolve) => setTimeout(() => resolve({ error: 'nothing' }), 20_000).unref())]);
				assert.equal(r.error, 'package_failed', `${name}: ${JSON.stringify(r)}`);
			}
			assert.equal((await install(s, 'good')).status, 'success');
		})),
	},
];
