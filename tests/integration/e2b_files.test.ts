// SPDX-License-Identifier: Apache-2.0
// The face e2b, as bytes: files, names, signed addresses, watchers.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import * as zlib from 'node:zlib';
import { after, before, describe, it } from 'node:test';
import { ADMIN, client, frame, frames, type Answer } from '../lib/e2b.ts';
import { newStateDir } from '../lib/env.ts';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

describe('e2b_files', () => {
	let program: Program;
	let base: string;
	let port: number;

	before(async () => {
		({ program, base, port } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN, SANDBOX_FACES: 'e2b', SANDBOX_MAX_UPLOAD_BYTES: '100000000' } }));
	});
	after(async () => {
		await program.end();
	});
	const { ask, control, make, routed, envd, start } = client(() => ({ base, port }));

	it('files are written and read anywhere, as far as programs could', async () => {
		const box = await make();
		const put = (at: string, parts: [string, string][], headers: Record<string, string> = routed(box)): Promise<Answer> => {
			const text = parts.map(([name, data]) => `--b\r\nContent-Disposition: form-data; name="file"; filename="${name}"\r\n\r\n${data}\r\n`).join('');
			return ask('POST', `/files${at}`, { headers: { ...headers, 'content-type': 'multipart/form-data; boundary=b' }, body: Buffer.from(`${text}--b--\r\n`) });
		};
		const get = (file: string): Promise<Answer> => ask('GET', `/files?path=${encodeURIComponent(file)}`, { headers: routed(box) });
		assert.deepEqual((await put('?path=a.txt', [['x', 'one']])).json, [{ name: 'a.txt', type: 'file', path: '/home/user/a.txt' }]);
		assert.deepEqual((await put('', [['b/c.txt', 'two'], ['/tmp/d.txt', 'three']])).json.map((f: Json) => f.path), ['/home/user/b/c.txt', '/tmp/d.txt']);
		for (const [file, text] of [['a.txt', 'one'], ['~/b/c.txt', 'two'], ['/mnt/data/b/../a.txt', 'one'], ['/tmp/d.txt', 'three']] as const)
			assert.equal((await get(file)).text, text);
		assert.deepEqual([(await get('nope')).status, (await get('/tmp')).status, (await get('/proc/1/environ')).status, (await get('/dev/zero')).status], [404, 400, 404, 404]);
		assert.equal((await put('?path=/etc/x', [['x', 'no']])).status, 400, 'frameworks tell the model of a wrong path, and end at other errors');
		for (const [call, body] of [['MakeDir', { path: '/workspace' }], ['Move', { source: 'a.txt', destination: '/srv/a' }], ['Remove', { path: '/etc/passwd' }]] as const) {
			const r = await envd(box, `filesystem.Filesystem/${call}`, body);
			assert.deepEqual([r.status, r.json.code], [400, 'invalid_argument'], r.text);
			assert.match(r.json.message, /is no place for files/);
		}
		await start(box, 'ln -s /etc/passwd link; ln -s /proc/self/environ /tmp/env; mkfifo pipe');
		for (const file of ['link', '/tmp/env', 'pipe', '/proc/self/environ'])
			assert.equal((await get(file)).status, 404, file);
		assert.equal((await put('', [['', 'x']])).status, 400);
		assert.equal((await ask('POST', '/files?path=x', { headers: { ...routed(box), 'content-type': 'text/plain' }, body: Buffer.from('x') })).status, 400);
	});


	it('a body of gzip is unpacked as it comes, and one that is none makes no file', async () => {
		const box = await make();
		const send = (at: string, body: Buffer, headers: Record<string, string> = {}): Promise<Answer> =>
			ask('POST', `/files?path=${at}`, { headers: { ...routed(box), 'content-type': 'application/octet-stream', ...headers }, body });
		const read = (at: string): Promise<Answer> => ask('GET', `/files?path=${at}`, { headers: routed(box) });
		const gzip = { 'content-encoding': 'gzip' }, large = Buffer.alloc(5_000_000, 'abc\0'), packed = zlib.gzipSync(large);
		assert.deepEqual((await send('plain', large)).json, [{ name: 'plain', type: 'file', path: '/home/user/plain' }]);
		assert((await read('plain')).bytes.equals(large));
		assert.equal((await send('packed', packed, gzip)).status, 200);
		assert((await read('packed')).bytes.equals(large));
		assert.equal((await send('two', Buffer.concat([zlib.gzipSync('one '), zlib.gzipSync('two')]), gzip)).status, 200);
		assert.equal((await read('two')).text, 'one two');
		for (const [why, body, headers] of [
			['short', packed.subarray(0, packed.length - 5), gzip], ['none', Buffer.from('plain text'), gzip], ['empty', Buffer.alloc(0), gzip],
			['rubbish behind', Buffer.concat([packed, Buffer.from('rubbish')]), gzip], ['unknown', large, { 'content-encoding': 'br' }],
			['key', large, { 'x-metadata-': 'x' }], ['long', large, { [`x-metadata-${'k'.repeat(247)}`]: 'x' }], ['much', large, { 'x-metadata-a': 'x'.repeat(4096) }],
		] as const) {
			const r = await send('bad', body, headers);
			assert.equal(r.status, 400, `${why}: ${r.text}`);
			assert.equal((await read('bad')).status, 404, why);
		}
		assert.equal((await ask('POST', '/files', { headers: { ...routed(box), 'content-type': 'application/octet-stream' }, body: large })).status, 400);
		// the client leaves in the middle
		const req = http.request({ host: '127.0.0.1', port, method: 'POST', path: '/faces/e2b/files?path=left', headers: { ...routed(box), 'content-type': 'application/octet-stream' } });
		req.on('error', () => undefined);
		await new Promise((done) => req.write(large, done));
		req.destroy();
		assert.equal((await read('left')).status, 404);
		const bomb = await send('bomb', zlib.gzipSync(Buffer.alloc(100_000_001)), gzip);
		assert.equal(bomb.status, 413, bomb.text);
		assert.equal((await read('bomb')).status, 404);
		await control('DELETE', `/sandboxes/${box.id}`);
	});


	it('signatures open one file for one use, and no other', async () => {
		const box = await make(), { createHash } = await import('node:crypto');
		const sign = (file: string, use: string, more = ''): string => `v1_${createHash('sha256').update(`${file}:${use}::${box.token}${more}`).digest('base64').replaceAll('=', '')}`;
		const at = (file: string, signature: string, more = ''): string => `/files?path=${file}&signature=${encodeURIComponent(signature)}${more}`;
		const later = Math.floor(Date.now() / 1000) + 60, before = later - 120;
		const form = { headers: { 'content-type': 'multipart/form-data; boundary=b' }, body: Buffer.from('--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nsigned\r\n--b--\r\n'), prefix: '' };
		assert.equal((await ask('POST', at('s.txt', sign('s.txt', 'write')), form)).status, 200);
		assert.equal((await ask('GET', at('s.txt', sign('s.txt', 'read')), { prefix: '' })).text, 'signed');
		assert.equal((await ask('GET', at('s.txt', sign('s.txt', 'read', `:${later}`), `&signature_expiration=${later}`), { prefix: '' })).status, 200);
		const old = await ask('GET', at('s.txt', sign('s.txt', 'read', `:${before}`), `&signature_expiration=${before}`), { prefix: '' });
		assert.deepEqual([old.status, old.json.message], [401, 'signature is already expired']);
		for (const wrong of [at('s.txt', sign('s.txt', 'write')), at('t.txt', sign('s.txt', 'read')), at('s.txt', sign('s.txt', 'read'), `&signature_expiration=${later}`), at('s.txt', 'v1_'), at('s.txt', ''),
			at('s.txt', sign('s.txt', 'read'), '&username=user')])
			assert.equal((await ask('GET', wrong, { prefix: '' })).status, 401, wrong);
		assert.equal((await ask('POST', at('s.txt', sign('s.txt', 'read')), form)).status, 401);
	});


	it('a page that a sandbox wrote has no rights of a page of this server', async () => {
		const box = await make(), { createHash } = await import('node:crypto');
		await start(box, 'echo "<script>alert(1)</script>" > p.html; echo "<svg/>" > p.svg; echo a > p.txt');
		for (const [file, active] of [['p.html', true], ['p.svg', true], ['p.txt', false]] as const) {
			const signature = `v1_${createHash('sha256').update(`${file}:read::${box.token}`).digest('base64').replaceAll('=', '')}`;
			const r = await ask('GET', `/files?path=${file}&signature=${encodeURIComponent(signature)}`, { prefix: '' });
			assert.equal(r.status, 200);
			assert.equal(/(^|[; ])sandbox/.test(`${r.headers['content-security-policy'] ?? ''}`), active, file);
		}
	});


	it('a list that would not be whole is refused', async () => {
		const box = await make(), list = async (path: string, depth: number): Promise<Json> => (await envd(box, 'filesystem.Filesystem/ListDir', { path, depth })).json;
		await start(box, 'mkdir many folders && cd many && seq 10000 | xargs touch && cd ../folders && seq 1000 | xargs mkdir');
		assert.equal((await list('many', 1)).entries.length, 10000);
		assert.equal((await list('folders', 1)).entries.length, 1000);
		await start(box, 'touch many/more');
		for (const [path, depth] of [['many', 1], ['folders', 2]] as const)
			assert.equal((await list(path, depth)).code, 'invalid_argument', path);
	});


	it('files are looked at, moved and removed', async () => {
		const box = await make(), fs = (method: string, body: Json): Promise<Answer> => envd(box, `filesystem.Filesystem/${method}`, body);
		assert.equal((await fs('MakeDir', { path: 'a/b' })).json.entry.path, '/home/user/a/b');
		assert.deepEqual([(await fs('MakeDir', { path: 'a' })).status, (await fs('MakeDir', { path: 'a' })).json.code], [409, 'already_exists']);
		await start(box, 'echo 1 > a/1; ln -s ../nowhere a/dangling; ln -s . a/loop');
		const entry = (await fs('Stat', { path: 'a/1' })).json.entry;
		assert.deepEqual([entry.name, entry.type, entry.size, entry.mode, entry.permissions, entry.owner], ['1', 'FILE_TYPE_FILE', '2', 0o644, '-rw-r--r--', 'user']);
		assert.equal((await fs('Stat', { path: 'a/dangling' })).json.entry.symlinkTarget, '/home/user/nowhere');
		assert.deepEqual((await fs('ListDir', { path: 'a', depth: 9 })).json.entries.map((e: Json) => e.path),
			['1', 'b', 'dangling', 'loop'].map((n) => `/home/user/a/${n}`));
		await start(box, 'ln -s 1 a/link; ln -s /etc/hostname a/out');
		assert.deepEqual((await fs('ListDir', { path: 'a' })).json.entries.filter((e: Json) => e.symlinkTarget).map((e: Json) => [e.name, e.type, e.size, e.symlinkTarget]), [
			['dangling', 'FILE_TYPE_SYMLINK', '10', '/home/user/nowhere'], ['link', 'FILE_TYPE_FILE', '2', '/home/user/a/1'],
			['loop', 'FILE_TYPE_DIRECTORY', (await fs('Stat', { path: 'a/loop' })).json.entry.size, '/home/user/a'],
			['out', (await fs('Stat', { path: 'a/out' })).json.entry.type, (await fs('Stat', { path: 'a/out' })).json.entry.size, '/etc/hostname']]);
		assert.equal((await fs('Move', { source: 'a/1', destination: '/home/user/c/2' })).json.entry.path, '/home/user/c/2');
		assert.equal((await fs('Move', { source: 'a/1', destination: 'x' })).json.code, 'not_found');
		assert.equal((await fs('ListDir', { path: 'c/2' })).json.code, 'invalid_argument');
		assert.equal((await fs('ListDir', { path: 'zz' })).json.code, 'not_found');
		assert.deepEqual([(await fs('Remove', { path: 'a' })).status, (await fs('Remove', { path: 'a' })).status], [200, 200]);
		assert.notEqual((await fs('Remove', { path: '/etc' })).status, 200);
		assert.equal((await fs('Stat', { path: 'nul\0' })).status, 400);
	});


	it('watchers gather what changed, and belong to their sandbox', async () => {
		const box = await make(), two = await make(), fs = (method: string, body: Json, of = box): Promise<Answer> => envd(of, `filesystem.Filesystem/${method}`, body);
		const id = (await fs('CreateWatcher', { path: '/home/user', recursive: true })).json.watcherId;
		await start(box, 'mkdir d; echo x > d/f');
		const seen: Json[] = [];
		await until('the events', async () => {
			seen.push(...(await fs('GetWatcherEvents', { watcherId: id })).json.events);
			return seen.some((e) => e.name === 'd/f' && e.type === 'EVENT_TYPE_CREATE');
		});
		assert.ok(seen.every((e) => !('entry' in e)), 'nobody asked for it');
		/* A new file tells three events, one in the place of another a single one. */
		const put = async (): Promise<string[]> => {
			await ask('POST', '/files?path=d/up', { headers: { ...routed(box), 'content-type': 'application/octet-stream' }, body: Buffer.from('x') });
			return (await fs('GetWatcherEvents', { watcherId: id })).json.events.filter((e: Json) => e.name === 'd/up').map((e: Json) => e.type.slice('EVENT_TYPE_'.length));
		};
		assert.deepEqual([await put(), await put()], [['CREATE', 'CHMOD', 'WRITE'], ['WRITE']]);
		assert.equal((await fs('GetWatcherEvents', { watcherId: id }, two)).json.code, 'not_found');
		assert.equal((await fs('RemoveWatcher', { watcherId: id })).status, 200);
		assert.equal((await fs('GetWatcherEvents', { watcherId: id })).json.code, 'not_found');
		assert.equal((await fs('CreateWatcher', { path: 'nope' })).json.code, 'not_found');
		/* More than a user may have, and all of them end with their sandbox. */
		const many: Answer[] = [];
		for (let i = 0; i < 40; i++)
			many.push(await fs('CreateWatcher', { path: '/home/user' }));
		assert.equal(many.at(-1)!.json.code, 'resource_exhausted');
		await control('DELETE', `/sandboxes/${box.id}`);
		await until('room for others', async () => (await fs('CreateWatcher', { path: '/home/user' }, two)).status === 200);
	});

	it('a watcher keeps 1 MiB of entries, and all events', async () => {
		const box = await make(), fs = (method: string, body: Json): Promise<Answer> => envd(box, `filesystem.Filesystem/${method}`, body);
		await start(box, 'printf x > f; python3 -c "import os; os.setxattr(\'f\', \'user.e2b.k\', b\'v\' * 3900)"');
		const id = (await fs('CreateWatcher', { path: '/home/user', recursive: true, includeEntry: true })).json.watcherId;
		await start(box, 'for i in $(seq 400); do ln f n$i; done');
		await new Promise((done) => setTimeout(done, 1000));
		const { events } = (await fs('GetWatcherEvents', { watcherId: id })).json;
		const names = new Set(events.map((e: Json) => e.name));
		for (let i = 1; i <= 400; i++)
			assert.ok(names.has(`n${i}`), `${i} of ${events.length}`);
		const entries = events.filter((e: Json) => e.entry);
		const bytes = entries.reduce((sum: number, e: Json) => sum + JSON.stringify(e.entry).length, 0);
		assert.ok(entries.length > 100 && entries.length < events.length && bytes <= 1 << 20, `${entries.length} of ${events.length}, ${bytes} bytes`);
		assert.equal((await control('DELETE', `/sandboxes/${box.id}`)).status, 204);
	});

	it('an event has what is there now, if the client asks for that', async () => {
		const box = await make(), fs = (method: string, body: Json): Promise<Answer> => envd(box, `filesystem.Filesystem/${method}`, body);
		const id = (await fs('CreateWatcher', { path: '/home/user', recursive: true, includeEntry: true })).json.watcherId;
		const pieces: Buffer[] = [];
		const stream = http.request({ host: '127.0.0.1', port, method: 'POST', path: '/faces/e2b/filesystem.Filesystem/WatchDir', headers: { ...routed(box), 'content-type': 'application/connect+json' } }, (res) => res.on('data', (d) => pieces.push(d)));
		stream.on('error', () => undefined);
		stream.end(frame({ path: '/home/user', recursive: true, includeEntry: true }));
		const streamed = (): Json[] => {
			const all = Buffer.concat(pieces);
			let end = 0;
			for (let next = 0; next + 5 <= all.length && (next += 5 + all.readUInt32BE(next + 1)) <= all.length;)
				end = next;
			return frames(all.subarray(0, end)).map((f) => f.message);
		};
		await until('the stream', () => streamed().length > 0);
		assert.deepEqual(streamed()[0], { start: {} });
		const seen: Json[] = [];
		/* What is made in a folder before that is watched, too, has no event. */
		await start(box, 'mkdir d');
		await until('the folder', async () => {
			seen.push(...(await fs('GetWatcherEvents', { watcherId: id })).json.events);
			return seen.some((e) => e.name === 'd') && streamed().some((m) => m.filesystem?.name === 'd');
		});
		await start(box, 'printf four > d/f; ln -s f d/link; seq 300 | sed s,^,d/n, | xargs touch; rm d/n7; touch last');
		const isLast = (e: Json): boolean => e.name === 'last';
		await until('the events', async () => {
			seen.push(...(await fs('GetWatcherEvents', { watcherId: id })).json.events);
			return seen.some(isLast) && streamed().some((m) => m.filesystem && isLast(m.filesystem));
		});
		for (const events of [seen, streamed().flatMap((m) => m.filesystem ?? [])]) {
			const of = (name: string, type: string): Json => events.find((e) => e.name === name && e.type === `EVENT_TYPE_${type}`)!;
			assert.deepEqual((({ path, type, size, permissions }) => [path, type, size, permissions])(of('d/f', 'CREATE').entry), ['/home/user/d/f', 'FILE_TYPE_FILE', '4', '-rw-r--r--']);
			assert.deepEqual([of('d', 'CREATE').entry.type, of('d/link', 'CREATE').entry.symlinkTarget], ['FILE_TYPE_DIRECTORY', '/home/user/d/f']);
			assert.ok(!('entry' in of('d/n7', 'REMOVE')), 'what is gone has none');
			for (let i = 1; i <= 300; i++)
				assert.ok(i === 7 || of(`d/n${i}`, 'CREATE').entry.path === `/home/user/d/n${i}`, `${i}`);
			const removed = events.findIndex((e) => e.name === 'd/n7' && e.type === 'EVENT_TYPE_REMOVE'), made = events.indexOf(of('d/n7', 'CREATE'));
			assert.ok(made >= 0 && removed > made && events.findIndex(isLast) > removed, 'in their order');
		}
		/* A client that leaves, a watcher that goes and a sandbox that ends, each while entries are looked up. */
		const more = start(box, 'for i in $(seq 2000); do echo > d/n$i; done');
		stream.destroy();
		await fs('RemoveWatcher', { watcherId: id });
		await fs('CreateWatcher', { path: '/home/user', recursive: true, includeEntry: true });
		await Promise.all([more.catch(() => undefined), until('some of it', async () => ((await fs('ListDir', { path: 'd' })).json.entries ?? []).length > 320)]);
		assert.equal((await control('DELETE', `/sandboxes/${box.id}`)).status, 204);
		assert.equal((await control('GET', '/v2/sandboxes')).status, 200);
	});
});
