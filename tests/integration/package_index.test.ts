// SPDX-License-Identifier: Apache-2.0
// What the package index has under a name: GET /sandboxes/{id}/index/{name}.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { mode, scratch } from '../lib/env.ts';
import { serve, type Json } from '../lib/session.ts';
import { Index, wheel, wheelName, zip } from '../lib/wheel.ts';

interface Answer { status: number; body: Json }

/** A server with one sandbox, asked by BODY what the index has. */
async function asking(env: Record<string, string>, body: (lookUp: (name: string) => Promise<Answer>, log: () => string) => Promise<void>): Promise<void> {
	const s = await serve({ profile: 'full', env });
	const request = async (method: string, where: string, json?: Json): Promise<Answer> => {
		const r = await fetch(`${s.base}/api/v1${where}`, { method, headers: { 'content-type': 'application/json' }, body: json && JSON.stringify(json) });
		return { status: r.status, body: await r.json() as Json };
	};
	try {
		const id = (await request('POST', '/sandboxes', {})).body.id;
		await body((name) => request('GET', `/sandboxes/${id}/index/${encodeURIComponent(name)}`), () => s.program.stderr);
	} finally {
		await s.program.end();
	}
}

describe('looking a package up', () => {
	const index = new Index();
	const file = (name: string, version: string, summary?: string): { file: string; body: Buffer } => ({ file: wheelName(name, version), body: wheel(name, version, '', { summary }) });

	before(async () => {
		await index.open();
		index.add('alpha', file('alpha', '1.0'), file('alpha', '1.10', 'The first <b>letter</b>'), file('alpha', '1.9'), file('alpha', '2.0rc1'), { file: 'alpha-0.1.tar.gz', body: zip([]) });
		index.add('many', ...Array.from({ length: 45 }, (_, n) => file('many', `1.${n}`)));
		index.add('sourceonly', { file: 'sourceonly-1.0.tar.gz', body: zip([]) });
		index.add('two-words', file('two_words', '3.1'));
		index.add('liar', { ...file('liar', '1.0', 'Not this one'), sha256: '0'.repeat(64) });
	});
	after(() => index.close());

	it('(slow) tells the version that an installation would take, its summary, and the others, newest first', () => asking({ SANDBOX_PIP_INDEX_URL: index.url }, async (lookUp) => {
		const { status, body } = await lookUp('alpha');
		assert.equal(status, 200, JSON.stringify(body));
		assert.equal(body.version, '1.10');
		assert.equal(body.summary, 'The first <b>letter</b>');
		assert.deepEqual(body.versions, ['2.0rc1', '1.10', '1.9', '1.0', '0.1']);
		assert.equal(body.total, 5);
		const asked = index.asked.length;
		assert.deepEqual((await lookUp('Alpha')).body, body, 'one name, however it is written');
		assert.equal(index.asked.length, asked, 'the answer was remembered');
		assert.equal((await lookUp('Two.Words')).body.version, '3.1');
		const many = (await lookUp('many')).body;
		assert.equal(many.versions.length, 30);
		assert.equal(many.versions[0], '1.44');
		assert.equal(many.total, 45);
	}));
	it('(slow) says why nothing fits, and that there is nothing', () => asking({ SANDBOX_PIP_INDEX_URL: index.url }, async (lookUp) => {
		const source = (await lookUp('sourceonly')).body;
		assert.equal(source.version, undefined);
		assert.match(source.why, /has no wheel.*SANDBOX_PIP_SOURCE_BUILDS=on/);
		assert.deepEqual(source.versions, ['1.0']);
		const nothing = await lookUp('nothing');
		assert.equal(nothing.status, 404);
		assert.match(JSON.stringify(nothing.body), /has nothing named 'nothing'/);
		assert.equal((await lookUp('liar')).body.summary, undefined, 'a wheel that is not what its index says tells nothing');
		for (const name of ['alpha>=1', 'alpha beta', 'alpha[x]', '--help', 'alpha;x'])
			assert.equal((await lookUp(name)).status, 400, name);
		for (const name of ['../alpha', 'http://127.0.0.1/x'])
			assert.equal((await lookUp(name)).status, 404, name); // no such route
	}));
	it('says that sources are built where they are', () => asking({ SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_PIP_SOURCE_BUILDS: 'on' }, async (lookUp) => {
		assert.equal((await lookUp('sourceonly')).body.version, '1.0');
	}));
	it('(slow) uses the credentials of an index and shows them to nobody', async () => {
		index.credentials = 'reader:pass word';
		try {
			await asking({ SANDBOX_PIP_INDEX_URL: index.url.replace('//', '//reader:pass%20word@') }, async (lookUp) => {
				assert.equal((await lookUp('alpha')).body.version, '1.10');
			});
			await asking({ SANDBOX_PIP_INDEX_URL: index.url.replace('//', '//reader:secret-4711@') }, async (lookUp, log) => {
				const refused = await lookUp('alpha');
				assert.deepEqual([refused.status, refused.body.code], [503, 'index_unavailable']);
				assert.match(JSON.stringify(refused.body), /the package index cannot be asked/);
				assert.doesNotMatch(JSON.stringify(refused.body) + log(), /secret-4711/);
			});
		} finally {
			index.credentials = undefined;
		}
	});
	it('says that the index does not answer', () => asking({ SANDBOX_PIP_INDEX_URL: 'http://127.0.0.1:9/simple' }, async (lookUp) => {
		const r = await lookUp('alpha');
		assert.deepEqual([r.status, r.body.code], [503, 'index_unavailable'], JSON.stringify(r));
		assert.match(JSON.stringify(r.body), /the package index cannot be asked/);
	}));
	it('tells what a folder of wheels holds', async () => {
		const folder = scratch('wheels');
		await asking({ SANDBOX_PIP_WHEEL_DIR: folder }, async (lookUp) => {
			const r = await lookUp('alpha');
			assert.equal(r.status, mode === 'root' ? 503 : 404, JSON.stringify(r.body)); // root's server gives its rights up
		});
		fs.chmodSync(folder, 0o755);
		for (const [name, version] of [['alpha', '1.9'], ['alpha', '1.10'], ['two_words', '1']])
			fs.writeFileSync(path.join(folder, wheelName(name!, version!)), wheel(name!, version!, ''));
		await asking({ SANDBOX_PIP_WHEEL_DIR: folder }, async (lookUp) => {
			assert.deepEqual((await lookUp('alpha')).body, { name: 'alpha', version: '1.10', versions: ['1.10', '1.9'], total: 2 });
			assert.equal((await lookUp('two-words')).body.version, '1');
			assert.equal((await lookUp('beta')).status, 404);
		});
	});
});
