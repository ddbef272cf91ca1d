// SPDX-License-Identifier: Apache-2.0
// One answer has at most SANDBOX_ANSWER_BYTES: pictures are made smaller or become links, larger files are links, and the text is always there.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { using, type Json, type Session, type ToolResult } from '../lib/session.ts';

const MOST = 1_000_000;
/** A PNG of noise, which no compression makes smaller. */
const noise = `import os, struct, zlib
def png(name, w, h):
    chunk = lambda kind, data: struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    rows = b''.join(b'\\0' + os.urandom(3 * w) for _ in range(h))
    open(name, 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', w, h, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(rows, 1)) + chunk(b'IEND', b''))
`;
const types = (r: ToolResult): string[] => r.content.map((b) => b.type);

function bounded(r: Json, most = MOST): void {
	const length = Buffer.byteLength(JSON.stringify({ jsonrpc: '2.0', id: 1, result: r }));
	assert.ok(length <= most, `${length} bytes`);
}

describe('the size of an answer', () => {
	for (const wire of ['stdio', 'http'] as const)
		it(`${wire === 'http' ? '(slow) ' : ''}four pictures over ${wire} fit together, with the text`, () => using(wire, { profile: 'full' }, async (s) => {
			const r = await s.raw('sandbox_run_python', { session_id: 'p', code: `${noise}for i in range(4): png(f'n{i}.png', 400, 300)\nprint("the text")` });
			bounded(r);
			assert.match(r.content[0]!.text, /the text\n/);
			assert.equal(r.content.length, 5, JSON.stringify(types(r)));
			for (const block of r.content.slice(1)) // an image without a program for pictures has links
				assert.ok(block.type === 'image' || (block.type === 'resource_link' && /^sandbox:\/\/p\/n\d\.png$/.test(block.uri) && block.size > 300_000), JSON.stringify(block).slice(0, 300));
		}));
	it('small pictures leave their room to large ones', () => using('stdio', { profile: 'full' }, async (s) => {
		const r = await s.raw('sandbox_run_python', { session_id: 'p', code: `${noise}for i in range(3): png(f's{i}.png', 20, 20)\npng('z.png', 450, 400)` });
		bounded(r);
		assert.deepEqual(types(r), ['text', 'image', 'image', 'image', 'image']);
		assert.deepEqual(r.content.slice(1).map((b) => b.mimeType), Array(4).fill('image/png'), 'no picture was changed');
	}));
	it('one picture, a file as base64 and a resource', () => using('stdio', { profile: 'full' }, async (s: Session) => {
		await s.raw('sandbox_run_python', { session_id: 'p', code: `${noise}png('a.png', 600, 500)\nopen('b', 'wb').write(os.urandom(400_000))\nopen('c', 'w').write('x' * 1_200_000)` });
		const seen = await s.raw('sandbox_read_file', { session_id: 'p', path: 'a.png' });
		bounded(seen);
		assert.match(types(seen).join(), /^text,(image|resource_link)$/);
		const bytes = await s.raw('sandbox_read_file', { session_id: 'p', path: 'b', base64: true });
		assert.equal(bytes.structuredContent!.error, 'artifact_too_large');
		for (const name of ['a.png', 'c']) {
			const read = await s.client.readResource({ uri: `sandbox://p/${name}` });
			bounded(read);
			assert.match((read.contents[0] as Json).text, /too many for one answer\. Read a part .*\/files\/p\//);
		}
	}));
	it('(slow) a client that takes more gets more', () => using('stdio', { profile: 'full', env: { SANDBOX_ANSWER_BYTES: '4000000' } }, async (s) => {
		const r = await s.raw('sandbox_run_python', { session_id: 'p', code: `${noise}for i in range(4): png(f'n{i}.png', 400, 300)` });
		bounded(r, 4_000_000);
		assert.deepEqual(r.content.slice(1).map((b) => b.mimeType), Array(4).fill('image/png'));
	}));
});
