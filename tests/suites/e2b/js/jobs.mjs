// SPDX-License-Identifier: Apache-2.0
// What applications do with E2B's SDKs for JavaScript: `jobs.mjs NAME` does one job, `jobs.mjs` names them all.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as os from 'node:os';
import * as path from 'node:path';
import * as e2b from 'e2b';
import { Sandbox as Interpreter } from '@e2b/code-interpreter';

const { Sandbox } = e2b;
const jobs = {};

function job(name, run, kind = Sandbox) {
	jobs[name] = [kind, run];
}

async function until(what, is) {
	for (const end = Date.now() + 20_000; !(await is()); await new Promise((go) => setTimeout(go, 100)))
		assert(Date.now() < end, what);
}

job('find and extend', async (s) => {
	const info = await s.getInfo();
	assert.deepEqual([info.sandboxId, info.metadata], [s.sandboxId, { job: 'a b&c=d/é' }]);
	const pages = Sandbox.list({ query: { metadata: { job: 'a b&c=d/é' } } });
	assert((await pages.nextItems()).some((one) => one.sandboxId === s.sandboxId));
	await s.setTimeout(500_000);
	const later = (await s.getInfo()).endAt;
	assert(later - info.endAt > 250_000);
	const again = await Sandbox.connect(s.sandboxId);
	assert.equal((await again.commands.run('echo $FROM')).stdout, 'create\n');
	assert.deepEqual((await s.getInfo()).endAt, later);
});

job('pause and go on', async (s) => {
	await s.files.write('kept', 'yes');
	assert(await s.pause());
	assert(!(await s.isRunning()));
	assert.equal((await s.getInfo()).state, 'paused');
	const again = await Sandbox.connect(s.sandboxId);
	assert.equal(await again.files.read('kept'), 'yes');
});

job('networks of addresses', async () => {
	const narrowed = await Sandbox.create({ timeoutMs: 60_000, network: { denyOut: ['9.9.9.0/24', '8.8.8.8/32'], allowOut: ['9.9.9.9'] } });
	const told = async () => {
		const { denyOut = [], allowOut = [] } = (await narrowed.getInfo()).network ?? {};
		return [denyOut, allowOut];
	};
	assert.deepEqual(await told(), [['9.9.9.0/24', '8.8.8.8'], ['9.9.9.9']]);
	await narrowed.updateNetwork({ denyOut: ({ allTraffic }) => [allTraffic] });
	assert.deepEqual(await told(), [['0.0.0.0/0'], []]);
	await assert.rejects(narrowed.updateNetwork({ denyOut: ['example.org'] }), /denyOut: .*names cannot be denied/);
	await assert.rejects(narrowed.updateNetwork({ rules: { 'example.org': [{ transform: { headers: { a: 'b' } } }] } }), /rules: .*leave rules out/);
	assert.deepEqual(await told(), [['0.0.0.0/0'], []]);
	await narrowed.kill();
});

job('ports for everybody, and with a token', async (s) => {
	const visit = (of, headers = {}) => new Promise((done, failed) => {
		const host = of.getHost(8000); // it leads to this machine, whatever the resolver says of it
		http.get({ host: '127.0.0.1', port: host.split(':')[1], path: '/page', agent: false, headers: { host, ...headers } }, async (r) => done([r.statusCode, (await r.toArray()).join('')])).on('error', failed);
	});
	const closed = await Sandbox.create({ timeoutMs: 60_000, network: { allowPublicTraffic: false } });
	for (const one of [s, closed]) {
		await one.files.write('page', 'hello');
		await one.commands.run('python3 -m http.server 8000', { background: true });
	}
	await until('the first server', async () => (await visit(s))[0] === 200);
	assert.deepEqual(await visit(s), [200, 'hello']);
	assert.equal((await visit(closed))[0], 403);
	const token = { 'e2b-traffic-access-token': closed.trafficAccessToken };
	await until('the second server', async () => (await visit(closed, token))[0] === 200);
	assert.equal((await closed.getInfo()).network?.allowPublicTraffic, false);
	await closed.kill();
});

job('end of life', async (s) => {
	assert(await s.kill());
	assert(!(await s.isRunning()));
	assert(!(await s.kill()));
	await assert.rejects(s.commands.run('true'), e2b.SandboxError);
	await assert.rejects(Sandbox.connect(s.sandboxId), e2b.NotFoundError);
});

job('killed under a command', async (s) => {
	const handle = await s.commands.run('sleep 60', { background: true });
	await Sandbox.kill(s.sandboxId);
	await assert.rejects(handle.wait(), e2b.TimeoutError);
});

job('commands', async (s) => {
	const r = await s.commands.run('echo out; echo err >&2; echo $FROM $MORE; pwd', { envs: { MORE: 'call' } });
	assert.deepEqual([r.stdout, r.stderr, r.exitCode], ['out\ncreate call\n/home/user\n', 'err\n', 0]);
	await assert.rejects(s.commands.run('exit 7'), (e) => e instanceof e2b.CommandExitError && e.exitCode === 7);
	await assert.rejects(s.commands.run('true', { cwd: '/no/such' }), e2b.InvalidArgumentError);
	await assert.rejects(s.commands.run('sleep 20', { timeoutMs: 1000 }), e2b.TimeoutError);
	const seen = [];
	await s.commands.run('for i in 1 2 3; do echo $i; sleep 0.2; done', { onStdout: (data) => seen.push(data) });
	assert.equal(seen.join(''), '1\n2\n3\n');
	assert(seen.length > 1, 'it comes in pieces');
	assert.equal((await s.commands.run('head -c 5000000 /dev/zero | tr "\\0" x')).stdout.length, 5_000_000);
});

job('in the background, with input', async (s) => {
	const handle = await s.commands.run('cat', { background: true, stdin: true });
	await s.commands.sendStdin(handle.pid, 'hello\n');
	await until('the echo', () => handle.stdout === 'hello\n');
	assert((await s.commands.list()).some((p) => p.pid === handle.pid));
	await s.commands.closeStdin(handle.pid);
	assert.equal((await handle.wait()).stdout, 'hello\n');
	const lasting = await s.commands.run('sleep 1; echo late', { background: true });
	await lasting.disconnect();
	assert.equal((await (await s.commands.connect(lasting.pid)).wait()).stdout, 'late\n');
	const killed = await s.commands.run('sleep 50', { background: true });
	assert(await killed.kill());
	assert(!(await s.commands.kill(4711)));
});

job('a terminal', async (s) => {
	let seen = '';
	const handle = await s.pty.create({ cols: 92, rows: 31, onData: (data) => { seen += Buffer.from(data); } });
	await s.pty.sendInput(handle.pid, Buffer.from('stty size\n'));
	await until('its size', () => seen.includes('31 92'));
	await s.pty.resize(handle.pid, { cols: 100, rows: 40 });
	await s.pty.sendInput(handle.pid, Buffer.from('stty size; exit\n'));
	await handle.wait();
	assert(seen.includes('40 100'), seen);
});

job('files', async (s) => {
	assert.equal((await s.files.write('a.txt', 'héllo')).path, '/home/user/a.txt');
	assert.equal(await s.files.read('/home/user/a.txt'), 'héllo');
	const data = new Uint8Array(1 << 20).map((_, i) => i * 7);
	await s.files.write('/tmp/deep/b.bin', data.buffer);
	assert.deepEqual(Buffer.from(await s.files.read('/tmp/deep/b.bin', { format: 'bytes' })), Buffer.from(data));
	await s.files.write([{ path: 'm/1', data: '1' }, { path: 'm/2', data: '2' }]);
	assert.deepEqual((await s.files.list('m')).map((one) => [one.name, one.type, one.path]), [['1', 'file', '/home/user/m/1'], ['2', 'file', '/home/user/m/2']]);
	assert(await s.files.makeDir('d/e'));
	assert(!(await s.files.makeDir('d/e')));
	assert.equal((await s.files.rename('m/1', 'd/e/one')).path, '/home/user/d/e/one');
	assert(!(await s.files.exists('m/1')) && await s.files.exists('d/e/one'));
	const info = await s.files.getInfo('d/e/one');
	assert.deepEqual([info.size, info.permissions, info.owner], [1, '-rw-r--r--', 'user']);
	await s.files.remove('d');
	assert(!(await s.files.exists('d')));
	await assert.rejects(s.files.read('nope'), e2b.NotFoundError);
	await assert.rejects(s.files.list('nope'), e2b.NotFoundError);
	if (!process.env.FLEET || process.env.E2B_DOMAIN) // a router needs the name of the sandbox in the address
		assert.equal(await (await fetch(await s.downloadUrl('a.txt'))).text(), 'héllo');
});

job('watch', async (s) => {
	const seen = [];
	await s.files.makeDir('w');
	const handle = await s.files.watchDir('w', (event) => seen.push(event), { recursive: true });
	await s.files.write('w/new.txt', 'x');
	await until('the event', () => seen.some((e) => e.name === 'new.txt' && e.type === 'create'));
	await s.files.write('w/new.txt', 'y');
	await until('the write', () => seen.some((e) => e.name === 'new.txt' && e.type === 'write'));
	await handle.stop();
	await assert.rejects(s.files.watchDir('nope', () => undefined), e2b.NotFoundError);
});

job('notes about files, and streams', async (s) => {
	const metadata = { author: 'mish' };
	assert.deepEqual((await s.files.write('n/a.txt', 'one', { metadata })).metadata, metadata);
	assert.deepEqual((await s.files.write('n/b.txt', new Blob(['two']), { metadata, useOctetStream: true })).metadata, metadata);
	assert.deepEqual((await s.files.list('n')).map((one) => one.metadata), [metadata, metadata]);
	assert.deepEqual((await s.files.rename('n/a.txt', 'n/c.txt')).metadata, metadata);
	await s.commands.run('setfattr -n user.e2b.by -v me n/b.txt');
	assert.deepEqual((await s.files.getInfo('n/b.txt')).metadata, { ...metadata, by: 'me' });
	await s.files.write('zip.txt', 'line\n'.repeat(100_000), { gzip: true });
	assert.equal((await s.files.getInfo('zip.txt')).size, 500_000);
	await s.files.write('stream', new Blob(['x'.repeat(300_000)]).stream());
	assert.equal((await s.files.read('stream')).length, 300_000);
});

job('cells', async (s) => {
	await s.runCode('x = 41');
	const r = await s.runCode('x += 1\nprint("é\\u2028", x)\nx');
	assert.deepEqual([r.text, r.logs.stdout.join('')], ['42', 'é\u2028 42\n']);
	const failed = await s.runCode('1 / 0');
	assert.deepEqual([failed.error.name, failed.error.value], ['ZeroDivisionError', 'division by zero']);
	const drawn = await s.runCode('import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()');
	assert(drawn.results[0].png);
	assert.deepEqual([drawn.results[0].chart.type, drawn.results[0].chart.elements[0].points], ['line', [[0, 1], [1, 2]]]);
	const context = await s.createCodeContext({ cwd: '/tmp' });
	assert.equal((await s.runCode('import os; os.getcwd()', { context })).text, '/tmp');
	await s.removeCodeContext(context);
	assert.equal((await s.runCode('const n = 20; n * 2', { language: 'js' })).text, '40');
	assert.equal((await s.runCode('const m: number = n + 1; m', { language: 'ts' })).text, '21');
	await assert.rejects(s.runCode('while True: pass', { timeoutMs: 1000 }), e2b.TimeoutError);
	assert.equal((await s.runCode('x')).text, '42');
}, Interpreter);

job('template by steps', async () => {
	const top = fs.mkdtempSync(path.join(os.tmpdir(), 'context-'));
	fs.mkdirSync(path.join(top, 'app'));
	fs.writeFileSync(path.join(top, 'app/a.txt'), 'text');
	const lines = [];
	const template = e2b.Template({ fileContextPath: top }).fromBaseImage().setEnvs({ A: '1' }).copy('app', 'app').runCmd('echo built $A')
		.runCmd('mkdir /srv/w; id -un >/srv/w/who', { user: 'root' }).setWorkdir('/srv/w').setStartCmd('python3 -m http.server 8000', e2b.waitForPort(8000));
	await e2b.Template.build(template, 'js-steps', { onBuildLogs: (line) => lines.push(line.message) });
	assert(lines.some((line) => line.includes('built 1')), lines.join('\n'));
	const made = await Sandbox.create('js-steps', { timeoutMs: 60_000 });
	assert.equal((await made.commands.run('pwd; cat who ~/app/a.txt')).stdout, '/srv/w\nroot\ntext');
	await made.kill();
	const failing = e2b.Template().fromTemplate('js-steps').runCmd('exit 7');
	await assert.rejects(e2b.Template.build(failing, 'js-fails'), /7/);
	assert(await e2b.Template.exists('js-steps'));
});

/** Where names lead to the server and it has a certificate for them, nothing is special about a port; nor about one whose server speaks TLS itself. */
async function portsByName(s) {
	const page = async (of, port) => {
		const r = await fetch(`https://${of.getHost(port)}/page`);
		return [r.status, await r.text()];
	};
	const safe = await Sandbox.create({ timeoutMs: 60_000, network: { httpsPorts: [8443] } });
	await safe.files.write('own.pem', execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1', '-subj', '/CN=whoever', '-keyout', '-', '-out', '-'], { stdio: ['ignore', 'pipe', 'ignore'] }).toString());
	await safe.files.write('serve.py', 'import http.server, ssl\nserver = http.server.HTTPServer(("", 8443), http.server.SimpleHTTPRequestHandler)\ncontext = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\ncontext.load_cert_chain("own.pem")\nserver.socket = context.wrap_socket(server.socket, server_side=True)\nserver.serve_forever()');
	for (const [one, command, port] of [[s, 'python3 -m http.server 8000', 8000], [safe, 'python3 serve.py', 8443]]) {
		await one.files.write('page', 'hello');
		await one.commands.run(command, { background: true });
		await until(command, async () => (await page(one, port))[0] === 200);
		assert.deepEqual(await page(one, port), [200, 'hello']);
	}
	assert.deepEqual((await safe.getInfo()).network?.httpsPorts, [8443]);
	await safe.kill();
}

/* What a server does by its name alone; the others are asked the same by its address. */
const NAMED = ['find and extend', 'commands', 'in the background, with input', 'a terminal', 'files', 'watch', 'cells', 'ports by name'];
if (process.env.E2B_DOMAIN) {
	job('ports by name', portsByName);
	for (const other of Object.keys(jobs).filter((one) => !NAMED.includes(one)))
		delete jobs[other];
}

const [name] = process.argv.slice(2);
if (name === undefined) {
	console.log(Object.keys(jobs).join('\n'));
} else {
	const [kind, run] = jobs[name];
	const s = await kind.create({ timeoutMs: 200_000, metadata: { job: 'a b&c=d/é' }, envs: { FROM: 'create' } });
	try {
		await run(s);
	} finally {
		await s.kill();
	}
}
