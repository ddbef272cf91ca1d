// SPDX-License-Identifier: Apache-2.0
// News of files: which ones a run has made, what subscribers are told, and names that try to look like something else.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { ResourceListChangedNotificationSchema, ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { open, type Session } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

describe('news of files', () => {
	let s: Session;
	const updated: string[] = [];
	let listChanges = 0;
	before(async () => {
		s = await open('http', { profile: 'full' });
		s.client.setNotificationHandler(ResourceUpdatedNotificationSchema, (n) => void updated.push(n.params.uri));
		s.client.setNotificationHandler(ResourceListChangedNotificationSchema, () => void listChanges++);
	});
	after(() => s?.end());

	const rest = (method: string, path: string, body?: string): Promise<Response> => fetch(`${s.base}/api/v1/sandboxes/${path}`, { method, body });
	const put = async (id: string, path: string, body = 'x'): Promise<void> => {
		const r = await rest('PUT', `${id}/files/${path}?overwrite=true`, body);
		assert.equal(r.status, 201, await r.text());
	};
	const made = async (id: string, code: string): Promise<string[]> => (await s.ok(code, id)).artifacts.map((a: { path: string }) => a.path.replace('/mnt/data/', '')).sort();

	it('a file that was uploaded into a folder just before a run is none of its files', async () => {
		await s.ok('import os; os.mkdir("sub"); open("sub/old", "w").write("x")', 'before');
		for (let i = 0; i < 20; i++) {
			await put('before', `sub/u${i}`);
			await put('before', `u${i}`);
			assert.deepEqual(await made('before', 'pass'), [], `upload ${i}`);
		}
		await put('before', 'sub/u0');
		assert.deepEqual(await made('before', 'open("sub/u0", "a").write("more")'), ['sub/u0']);
	});

	it('uploads and a removal during a run, even many, leave it its own files alone', async () => {
		await s.ok('import os; os.mkdir("sub"); [open(n, "w").write("x") for n in ("old", "gone", "sub/old")]', 'during');
		const run = made('during', [
			'import os, time',
			'os.chmod("old", 0o600); os.chmod("sub/old", 0o600)',
			'open("started", "w").close()',
			'while not os.path.exists("go"): time.sleep(0.01)',
			'print("y" * 200000); open("mine", "w").write("1")', // more output than an answer has
		].join('\n'));
		await until('the run', async () => (await rest('GET', 'during/files/started')).status === 200);
		assert.equal((await rest('DELETE', 'during/files/gone')).status, 204);
		for (let i = 0; i < 70; i++)
			await put('during', `u${i}`);
		await put('during', 'new/u');
		await put('during', 'go');
		assert.deepEqual(await run, ['mine', 'started']);
		assert.deepEqual(await made('during', 'pass'), []);
	});

	it('subscribers learn of files that were changed or removed, also in folders, by a run, by REST and by a restore', async () => {
		await s.ok('import os\nos.makedirs("a/b")\nfor n in ("top", "a/one", "a/b/two", "a/b/keep"): open(n, "w").write("x")', 'news');
		await s.call('sandbox_checkpoint', { session_id: 'news', name: 'c' });
		for (const path of ['top', 'a/one', 'a/b/two', 'a/b/keep', 'a/up', 'a/.h/x'])
			await s.client.subscribeResource({ uri: `sandbox://news/${path}` });
		const told = async (what: () => Promise<unknown>, ...paths: string[]): Promise<void> => {
			updated.length = 0;
			const lists = listChanges;
			await what();
			const want = paths.map((p) => `sandbox://news/${p}`).sort();
			await until(`news of ${paths}`, () => want.every((uri) => updated.includes(uri)) && listChanges > lists);
			assert.deepEqual([...new Set(updated)].filter((uri) => !uri.includes('/.')).sort(), want.filter((uri) => !uri.includes('/.')));
		};
		await told(() => s.ok('open("a/one", "a").write("y")', 'news'), 'a/one');
		await told(() => s.ok('import os; os.unlink("top")', 'news'), 'top');
		await told(() => s.ok('import os; os.unlink("a/b/two")', 'news'), 'a/b/two');
		await told(() => put('news', 'a/up'), 'a/up');
		await told(() => s.ok('import os; os.unlink("a/up")', 'news'), 'a/up');
		await told(() => put('news', 'top'), 'top');
		await told(() => rest('DELETE', 'news/files/top'), 'top');
		await told(() => s.ok('import os; os.mkdir("a/.h"); open("a/.h/x", "w").close(); open("other", "w").close()', 'news'), 'a/.h/x');
		await told(() => s.ok('import shutil; shutil.rmtree("a/b")', 'news'), 'a/b/keep');
		await told(() => rest('DELETE', 'news/files/a?recursive=true'), 'a/one', 'a/up', 'a/b/two', 'a/b/keep', 'a/.h/x');
		await told(() => s.call('sandbox_restore', { session_id: 'news', name: 'c' }), 'top', 'a/one', 'a/b/two', 'a/b/keep', 'a/up', 'a/.h/x');
	});

	it('subscribers learn what a background process does when no run is on, often enough and not for each write', async () => {
		await s.ok('open("log", "w").close()', 'between');
		await s.client.subscribeResource({ uri: 'sandbox://between/log' });
		await s.client.subscribeResource({ uri: 'sandbox://between/folder/deep' });
		updated.length = 0;
		const post = async (path: string, body: object): Promise<Response> => fetch(`${s.base}/api/v1/sandboxes/${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
		const count = (uri: string): number => updated.filter((u) => u === `sandbox://between/${uri}`).length;
		const code = 'i=0; while [ $i -lt 3000 ]; do echo $i >> log; i=$((i+1)); done; mkdir folder; echo x > folder/deep; sleep 1000';
		assert.equal((await post('between/processes', { command: code })).status, 201);
		await until('the log and the file in a new folder', () => count('log') > 0 && count('folder/deep') > 0);
		assert.ok(count('log') < 300, `${count('log')} for 3000 writes`);
		assert.deepEqual([...new Set(updated)].sort(), ['sandbox://between/folder/deep', 'sandbox://between/log']);
		for (const path of ['log', 'folder/deep'])
			await s.client.unsubscribeResource({ uri: `sandbox://between/${path}` });
		const figures = async (): Promise<number> => ((await (await fetch(`${s.base}/api/v1/me`)).json()) as { budgets: Record<string, { used: number }> }).budgets.watchers!.used;
		const others = await figures();
		await s.client.subscribeResource({ uri: 'sandbox://between/log' });
		assert.equal(await figures(), others + 1);
		await s.client.unsubscribeResource({ uri: 'sandbox://between/log' });
		assert.equal(await figures(), others);
	});

	it('a name with line ends and control characters forges no line of a text', async () => {
		const name = 'a\n- /mnt/data/FORGED\x1b[2J\x9b\u2028b.txt';
		const text = async (tool: string, args: object): Promise<string> => {
			const r = await s.raw(tool, { session_id: 'names', ...args });
			const t = r.content.map((c) => c.text ?? '').join('');
			assert.doesNotMatch(t, /^(- )?(\/mnt\/data\/)?FORGED|[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028]/m, tool);
			return t;
		};
		const shown = '"/mnt/data/f/a\\n- \\u2028b.txt"'.replace('\\u2028', '/mnt/data/FORGED\\u001b[2J\\u009b\\u2028');
		const path = `f/${name.replace('/mnt/data/', '')}`;
		const code = `import os; os.makedirs(os.path.dirname(${JSON.stringify(`f/${name}`)})); open(${JSON.stringify(`f/${name}`)}, "w").write("one\\ntwo\\n")`;
		assert.ok((await text('sandbox_run_python', { code })).includes(`- ${shown} (`));
		assert.ok((await text('sandbox_list_files', {})).includes(`- ${shown} (`));
		assert.ok((await text('sandbox_read_file', { path: `f/${name}`, start_line: 1 })).startsWith(`${shown}: lines`));
		await text('sandbox_read_file', { path: `${path}.not` });
		await text('sandbox_edit_file', { path: `f/${name}`, old_text: 'not there', new_text: 'x' });
		assert.match(await text('sandbox_write_file', { path: `f/${name}`, content: 'x' }), /^path: "/m);
		assert.match(await text('sandbox_run_python', { code: `open("missing.csv")` }), /^Hint: .*f\/a\\n-/m);
	});
});
