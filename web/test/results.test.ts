// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Result } from '../src/api/types.ts';
import { bestType, inOrder, readTable, sorted, TABLE } from '../src/pure/results.ts';

const result = (offset: number, end: number, more: Partial<Result> = {}): Result => ({ kind: 'display', offset, end, data: {}, left_out: [], ...more });
const said = (text: string, results: Result[]): string => inOrder(text, results).map((p) => ('text' in p ? p.text : `<${p.result.offset}>`)).join('|');

it('what was shown stands between the output, and its text is left out', () => {
	assert.equal(said('abc', []), 'abc');
	assert.equal(said('', [result(0, 0)]), '<0>');
	assert.equal(said('a\nX\nb\n', [result(2, 4)]), 'a\n|<2>|b\n');
	assert.equal(said('äöX', [result(4, 5)]), 'äö|<4>');
	assert.equal(said('abc', [result(1, 1), result(1, 2), result(3, 3, { kind: 'result' })]), 'a|<1>|<1>|c');
	assert.equal(said('abcd', [result(1, 1), result(2, 2, { kind: 'clear' }), result(3, 3)]), 'c|<3>|d');
});

it('places that lie do no harm', () => {
	assert.equal(said('abc', [result(99, 120)]), 'abc|<99>');
	assert.equal(said('abc', [result(2, 1), result(0, 0)]), 'ab|<2>|<0>|c');
	assert.equal(said('abc', [result(-5, -1)]), '<-5>|abc');
});

it('the best type', () => {
	assert.equal(bestType(result(0, 0, { data: { 'text/plain': 'x' } })), null);
	assert.equal(bestType(result(0, 0, { data: { 'text/html': 'x', [TABLE]: '{}' } })), TABLE);
	assert.equal(bestType(result(0, 0, { data: { 'text/html': 'x', 'image/png': 'y' } })), 'image/png');
});

it('rows are sorted, and nothing comes last', () => {
	const rows = [[3], [null], ['b'], [-1], ['a'], [10]];
	assert.deepEqual(sorted(rows, 0, false).flat(), [-1, 3, 10, 'a', 'b', null]);
	assert.deepEqual(sorted(rows, 0, true).flat(), ['b', 'a', 10, 3, -1, null]);
});

it('a table of a sandbox is looked at', () => {
	for (const bad of ['', '{', '[]', 'null', '{"columns":1,"rows":[]}', '{"columns":[]}'])
		assert.equal(readTable(bad), null, bad);
	assert.deepEqual(readTable('{"columns":[{"name":"a"},null],"rows":[[1,{"x":1},5],7,[]],"total":"many","width":2}'), {
		columns: [{ name: 'a', type: '' }, { name: '', type: '' }], rows: [[1, '{"x":1}'], [null, null]], total: 2, width: 2,
	});
});
