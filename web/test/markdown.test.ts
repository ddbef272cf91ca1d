// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { blocks, inline } from '../src/pure/markdown.ts';

test('blocks of Markdown', () => {
	const found = blocks('# Head #\n\nA *text* of\ntwo lines.\n- one\n- two\n  - inner\n\n3. three\n\n```py\nx = 1\n```\n> quoted\n\n| a | b |\n|---|---|\n| 1 | **2** |\n\n---\n');
	assert.deepEqual(found.map((b) => b.kind), ['head', 'text', 'list', 'list', 'code', 'quote', 'table', 'rule']);
	assert.deepEqual(found[0], { kind: 'head', level: 1, of: ['Head'] });
	assert.deepEqual(found[1], { kind: 'text', of: ['A ', { kind: 'em', of: ['text'] }, ' of\ntwo lines.'] });
	assert.deepEqual((found[2] as { items: { kind: string }[][] }).items.map((i) => i.map((b) => b.kind)), [['text'], ['text', 'list']]);
	assert.equal((found[3] as { start: number }).start, 3);
	assert.deepEqual(found[4], { kind: 'code', language: 'py', text: 'x = 1' });
	assert.deepEqual(found[6], { kind: 'table', head: [['a'], ['b']], rows: [[['1'], [{ kind: 'strong', of: ['2'] }]]] });
});

test('what is no Markdown stays text; only links to the web are links', () => {
	for (const t of ['<script>x</script>', '[a](javascript:x)', '[a](data:text/html,x)', '2 * 3 * 4', 'snake_case_name', '**', '[x]'])
		assert.deepEqual(inline(t).filter((x) => typeof x !== 'string'), [], t);
	assert.deepEqual(inline('[a](https://b/c) \\*d'), [{ kind: 'link', to: 'https://b/c', of: ['a'] }, ' ', '*', 'd']);
	assert.deepEqual(blocks('|||\n'), [{ kind: 'text', of: ['|||'] }]);
});

test('hostile texts end soon', () => {
	const begin = performance.now();
	for (const t of ['*'.repeat(50_000), '['.repeat(50_000), '> '.repeat(20_000), '- '.repeat(20_000), '`'.repeat(50_001), '_a'.repeat(30_000), '|'.repeat(50_000) + '\n|-|\n', '**a'.repeat(20_000), '- - '.repeat(10_000), `${'- a\n'.repeat(20_000)}`])
		blocks(t);
	assert.ok(performance.now() - begin < 4000, `${performance.now() - begin} ms`);
});
