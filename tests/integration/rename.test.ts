// SPDX-License-Identifier: Apache-2.0
// A sandbox gets another name after its runs: its notebook, the search in the history and the exports have the new one.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import { serve, type Json } from '../lib/session.ts';

const name = 'Sales <b>"2026"</b>';

describe('a sandbox that is renamed', () => {
	for (const kind of ['session', 'stored', 'stored, not active'] as const)
		it(kind, async () => {
			const options = { profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_POOL: '0' } } as const;
			let { program, base } = await serve(options);
			const get = async (method: string, path: string, body?: Json): Promise<string> => {
				const r = await fetch(`${base}/api/v1/${path}`, { method, headers: { 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
				const text = await r.text();
				assert.ok(r.status < 300, `${method} ${path}: ${r.status} ${text}`);
				return text;
			};
			const ask = async (method: string, path: string, body?: Json): Promise<Json> => JSON.parse(await get(method, path, body)) as Json;
			try {
				const id = (await ask('POST', 'sandboxes', { name: 'before', kind: kind === 'session' ? 'session' : 'stored' })).id as string;
				const other = (await ask('POST', 'sandboxes', { name: 'other' })).id as string;
				for (const sandbox of [id, other])
					await get('POST', `sandboxes/${sandbox}/runs`, { code: '6 * 7', wait: true });
				assert.match(await get('GET', `notebooks/${id}/export?format=html`), /<h1>before &ndash; session /);
				if (kind === 'stored, not active') {
					await program.end();
					({ program, base } = await serve(options));
					const found = await ask('GET', `sandboxes/${id}`);
					assert.equal(found.state, 'stored', JSON.stringify(found));
				}
				await get('PATCH', `sandboxes/${id}`, { name });

				const notebooks = (await ask('GET', 'notebooks')).notebooks as Json[];
				assert.deepEqual(new Map(notebooks.map((n) => [n.sandbox, n.name])), new Map([[id, name], [other, 'other']]));
				assert.deepEqual((await ask('GET', 'notebooks?q=sales')).notebooks.map((n: Json) => n.sandbox), [id]);
				assert.deepEqual((await ask('GET', 'notebooks?q=before')).notebooks, []);
				assert.deepEqual((await ask('GET', 'history?q=6')).cells.map((c: Json) => c.sandbox_name).sort(), [name, 'other'].sort());
				assert.equal((await ask('GET', `notebooks/${id}`)).cells[0].sandbox_name, name);
				assert.equal((await ask('GET', `notebooks/${id}/export?format=ipynb`)).metadata.title, name);
				const page = await get('GET', `notebooks/${id}/export?format=html`);
				assert.match(page, /<h1>Sales &lt;b&gt;(&quot;|&#34;|")2026(&quot;|&#34;|")&lt;\/b&gt; &ndash; session /);
				assert.match(page, /<title>Sales /);
			} finally {
				await program.end();
			}
		});
});
