// SPDX-License-Identifier: Apache-2.0
// Images of what the root user of a sandbox has changed.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { asker } from '../lib/asker.ts';
import { engine, mode, unlessEnforced } from '../lib/env.ts';
import { stateOfItsOwn } from '../lib/own-images.ts';
import { caisson, descendants, start, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const possible = mode === 'root' && engine === 'native';
const skip = (!possible && 'only a server that root started, with the native engine, can have root users') || unlessEnforced('memory', 'pids');

/** What is in a tree: names, kinds, modes, owners, contents. Not how many names a file has. */
function digest(top: string): string {
	const sum = createHash('sha256');
	const walk = (folder: string): void => {
		for (const name of fs.readdirSync(folder).sort()) {
			const at = path.join(folder, name);
			const st = fs.lstatSync(at);
			sum.update(`${at.slice(top.length)} ${st.mode} ${st.uid} ${st.gid} ${st.size} ${st.mtimeMs}\n`);
			if (st.isSymbolicLink())
				sum.update(fs.readlinkSync(at));
			else if (st.isDirectory())
				walk(at);
			else if (st.isFile())
				sum.update(fs.readFileSync(at));
		}
	};
	walk(top);
	return sum.digest('hex');
}

describe('an image of a sandbox', { skip }, () => {
	let program: Program;
	let base: string;
	let state: string;

	before(async () => {
		state = stateOfItsOwn();
		({ program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: state, SANDBOX_ROOT: 'on', SANDBOX_IMAGE: 'base', SANDBOX_IMAGES: '*' } }));
	});
	after(() => program.end());

	const ask = asker(() => base);
	async function make(image = 'base', root = true): Promise<string> {
		const r = await ask('POST', '/sandboxes', { root, image });
		assert.equal(r.status, 201, r.text);
		return r.body.id;
	}
	async function run(id: string, command: string, user = 'root'): Promise<string> {
		const r = await ask('POST', `/sandboxes/${id}/runs`, { wait: true, command, user });
		assert.ok(r.status < 300, r.text);
		return r.body.stdout + r.body.stderr;
	}
	const built = (): Promise<Json> => until('the end of the build', async () => {
		const { build } = (await ask('GET', '/images')).body;
		return build && ['done', 'failed', 'cancelled'].includes(build.state) ? build as Json : undefined;
	});
	async function commit(id: string, name: string): Promise<void> {
		const r = await ask('POST', `/sandboxes/${id}/image`, { name });
		assert.equal(r.status, 202, r.text);
		const build = await built();
		assert.deepEqual([build.name, build.state, build.reason], [name, 'done', ''], JSON.stringify(build));
	}

	it('has what root installed, with its owners, and not what it removed; the image below stays as it was', async () => {
		const below = digest(path.join(state, 'images/base/root'));
		const id = await make();
		const long = 'n'.repeat(180);
		assert.equal(await run(id, `cd /srv && mkdir deep && echo one >deep/a && ln deep/a deep/b && ln -s a deep/c && chown 33:42 deep/a && chmod 640 deep/a
			mkdir of-user && chown user:user of-user && mkdir -m 700 closed && echo x >closed/x && touch ${long} && truncate -s 3M holes
			rm /usr/bin/env && rm -r /usr/share/doc && mkdir /usr/share/doc && echo new >/usr/share/doc/only
			rm -r /usr/share/man; ln -s doc /usr/share/man; useradd -r tried 2>/dev/null || echo 'tried:x:998:998::/:/bin/sh' >>/etc/passwd
			echo hidden >/mnt/data/of-workspace; echo hidden >/tmp/t; chmod 4755 /bin/cat`), '');
		await commit(id, 'tools');
		const other = await make('tools');
		assert.equal(await run(other, `cd /srv && cat deep/c && stat -c '%n %U:%G %a %h' deep/a deep/b of-user closed && cat closed/x && ls ${long} && stat -c '%s' holes
			ls /usr/bin/env 2>/dev/null; ls /usr/share/doc; readlink /usr/share/man; grep -c ^tried: /etc/passwd; ls /mnt/data; ls /tmp | grep -c ^t$; stat -c %a /bin/cat`),
			`one\ndeep/a www-data:shadow 640 2\ndeep/b www-data:shadow 640 2\nof-user sandbox:sandbox 755 2\nclosed root:root 700 2\nx\n${long}\n3145728\nonly\ndoc\n1\n0\n755\n`);
		assert.equal(await run(other, 'touch /srv/of-user/mine && echo ok; cat /srv/deep/a 2>&1 | grep -c denied', 'user'), 'ok\n1\n');
		// without a root user the image is there, too, and Python is warm
		const plain = await make('tools', false);
		assert.match(await run(plain, 'cat /usr/share/doc/only; ls /srv/deep; touch /srv/of-user/x 2>&1', 'user'), /^new\na\nb\nc\ntouch: .*Read-only/);
		const python = await ask('POST', `/sandboxes/${plain}/runs`, { wait: true, code: 'print(6 * 7)' });
		assert.equal(python.body.stdout, '42\n', python.text);
		assert.equal(digest(path.join(state, 'images/base/root')), below);
		// and nothing of it can be written by accounts of the host
		const open: string[] = [];
		const walk = (folder: string): void => {
			for (const e of fs.readdirSync(folder, { withFileTypes: true })) {
				const at = path.join(folder, e.name);
				const st = fs.lstatSync(at);
				if (!st.isSymbolicLink() && (st.mode & 0o6002) !== 0)
					open.push(`${at} ${st.mode.toString(8)}`);
				if (e.isDirectory())
					walk(at);
				const ids = [st.uid, st.gid].filter((n) => n !== 0 && n < 2147352576);
				if (ids.length && !st.isSymbolicLink())
					open.push(`${at} belongs to ${ids}`);
			}
		};
		walk(path.join(state, 'images/tools/root'));
		assert.deepEqual(open, []);
	});

	it('can be the base of another one, and be made anew', async () => {
		let id = await make();
		await run(id, 'echo 1 >/srv/first');
		await commit(id, 'chain');
		id = await make('chain');
		assert.equal(await run(id, 'cat /srv/first; echo 2 >/srv/second; rm /srv/first; chown 33 /srv'), '1\n');
		await commit(id, 'chain');
		id = await make('chain');
		assert.equal(await run(id, 'ls /srv; stat -c %U /srv'), 'second\nwww-data\n');
	});

	it('does not take the name of an image that was made in another way', async () => {
		const id = await make();
		const r = await ask('POST', `/sandboxes/${id}/image`, { name: 'base' });
		if (r.status === 202)
			assert.match((await built()).reason, /was not made of a sandbox and is not replaced/);
		else
			assert.match(r.text, /was not made of a sandbox|has ended/);
		for (const name of ['../x', 'UP', '', 'a/b', '.x'])
			assert.equal((await ask('POST', `/sandboxes/${id}/image`, { name })).status, 400, name);
		assert.equal((await ask('POST', '/sandboxes/nobody/image', { name: 'x' })).status, 404);
	});

	it('is removed over REST, while others are not', async () => {
		const id = await make();
		await commit(id, 'short');
		const user = await make('short');
		const { images, of_sandboxes, build } = (await ask('GET', '/images')).body;
		assert.deepEqual([of_sandboxes, build.what, images.filter((i: Json) => ['base', 'short'].includes(i.name)).map((i: Json) => [i.name, i.of_sandbox])], [true, 'build', [['base', false], ['short', true]]]);
		assert.equal((await ask('DELETE', '/images/short')).status, 202);
		assert.equal((await built()).what, 'remove');
		assert.deepEqual([(await built()).state, fs.existsSync(path.join(state, 'images/short'))], ['done', false]);
		assert.equal(await run(user, 'echo goes on'), 'goes on\n');
		const none = await ask('POST', '/sandboxes', { image: 'short' });
		assert.ok(none.status >= 400, none.text);
		assert.equal((await ask('DELETE', '/images/base')).status, 202);
		assert.match((await built()).reason, /'base' was not made of a sandbox/);
		assert.equal((await ask('DELETE', '/images/..%2fx')).status, 404);
		assert.equal((await ask('DELETE', '/images/nothing')).status, 202);
		assert.match((await built()).reason, /there is no image 'nothing'/);
	});

	it('is refused for a sandbox without a root user, and while something is on', async () => {
		const plain = await make('base', false);
		const refused = await ask('POST', `/sandboxes/${plain}/image`, { name: 'x' });
		assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_argument'], refused.text);
		assert.match(refused.body.detail, /no root user/);
		assert.equal((await built()).state, 'cancelled');
		const id = await make();
		const started = await ask('POST', `/sandboxes/${id}/processes`, { command: 'sleep 1000' });
		assert.equal(started.status, 201, started.text);
		const busy = await ask('POST', `/sandboxes/${id}/image`, { name: 'x' });
		assert.deepEqual([busy.status, busy.body.code], [409, 'session_busy'], busy.text);
		await built();
		assert.equal(fs.existsSync(path.join(state, 'images/x')), false);
	});

	it('leaves nothing when the sandbox ends or its layer is not complete', async () => {
		const cut = await caisson(['image', 'commit', 'cut', 'base'], { env: { SANDBOX_STATE_DIR: state }, input: Buffer.alloc(1024) });
		assert.notEqual(cut.code, 0);
		assert.match(`${cut.stderr}`, /not complete/);
		const id = await make();
		assert.equal(await run(id, 'head -c 60M /dev/urandom >/srv/big; stat -c %s /srv/big'), '62914560\n');
		const [answer] = await Promise.all([ask('POST', `/sandboxes/${id}/image`, { name: 'half' }), ask('DELETE', `/sandboxes/${id}`)]);
		const build = await built();
		if (answer.status === 202 && build.state === 'done')
			assert.equal(build.name, 'half'); // it was quicker
		else
			assert.equal(fs.existsSync(path.join(state, 'images/half')), false, JSON.stringify(build));
		assert.deepEqual(fs.readdirSync(path.join(state, 'images')).filter((n) => n.startsWith('.build')), []);
	});

	it('a layer that tries to leave its folder, or says too much, is refused', async () => {
		const tar = (name: string, link?: string): Buffer => {
			const h = Buffer.alloc(512);
			h.write(name, 0); h.write('0000644\0', 100); h.write('0000000\0', 108); h.write('0000000\0', 116);
			h.write('00000000000\0', 124); h.write('00000000000\0', 136); h.write('        ', 148); h.write(link ? '2' : '0', 156);
			h.write(link ?? '', 157); h.write('ustar\0' + '00', 257);
			h.write(h.reduce((a, b) => a + b, 0).toString(8).padStart(6, '0') + '\0 ', 148);
			return h;
		};
		const end = Buffer.concat([tar('.wh..wh..end'), Buffer.alloc(1024)]);
		for (const [parts, words] of [[[tar('../out')], /forbidden name/], [[tar('/etc/x')], /forbidden name/], [[tar('a', '/etc'), tar('a/passwd')], /cannot unpack|forbidden/]] as const) {
			const r = await start(['image', 'commit', 'evil', 'base'], { env: { SANDBOX_STATE_DIR: state }, input: Buffer.concat([...parts, end]) }).exit;
			assert.notEqual(r.code, 0);
			assert.match(`${r.stderr}`, words);
		}
		// a link in the layer does not lead a folder of the base out of the tree
		const r = await start(['image', 'commit', 'linked', 'base'], { env: { SANDBOX_STATE_DIR: state }, input: Buffer.concat([tar('usr', '/etc'), end]) }).exit;
		if (r.code === 0) { // it has no programs then
			assert.equal(fs.readlinkSync(path.join(state, 'images/linked/root/usr')), '/etc');
			assert.equal((await caisson(['image', 'rm', 'linked'], { env: { SANDBOX_STATE_DIR: state } })).code, 0);
		}
		assert.deepEqual(fs.readdirSync(path.join(state, 'images')).filter((n) => n.startsWith('.build')), []);
		assert.deepEqual(descendants(program.pid).filter((p) => p.name === 'caisson' && /image/.test(p.name)), []);
	});
});
