// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cell } from '../src/api/types.ts';
import { Live, merge, put, rangesOf, sessionAfter, traceback, write } from '../src/pure/notebook.ts';
import { text } from '../src/text/en.ts';

const cell = (run: string, seq: number | null, more: Partial<Cell> = {}): Cell =>
	({ run, seq, sandbox: 's', status: seq === null ? 'running' : 'done', kind: 'code', code: run, ...more });
const order = (cells: readonly Cell[]): string => cells.map((c) => c.run).join(' ');

test('a run that ends stays where it was', () => {
	let cells: Cell[] = [];
	cells = put(cells, cell('a', null));
	cells = put(cells, cell('b', null));
	cells = put(cells, cell('a', 7, { exit_code: 0 }));
	assert.equal(order(cells), 'a b');
	assert.equal(cells[0]!.exit_code, 0);
});

test('an event of the beginning that comes late does not undo the end', () => {
	const cells = put([cell('a', 3)], cell('a', null));
	assert.equal(cells[0]!.status, 'done');
});

test('what the beginning said is kept at the end', () => {
	const cells = put([cell('a', null, { asked_by: { how: 'mcp', name: 'x' } })], cell('a', 1));
	assert.equal(cells[0]!.asked_by?.name, 'x');
});

test('finished cells come by number', () => {
	assert.equal(order(put([cell('a', 1), cell('c', 3)], cell('b', 2))), 'a b c');
});

test('an older page goes before, without what is there already', () => {
	const now = [cell('c', 3), cell('d', null)];
	assert.equal(order(merge(now, [cell('a', 1), cell('b', 2), cell('c', 3)])), 'a b c d');
});

test('a run that nobody saw goes behind those that events brought before it', () => {
	assert.equal(order(merge([cell('a', null), cell('b', null)], [cell('a', 1), cell('b', 2), cell('c', 3)])), 'a b c');
	assert.equal(order(merge([cell('b', null)], [cell('a', 1), cell('b', 2), cell('c', 3)])), 'a b c');
});

const placed = (run: string, seq: number, place: string): Cell => cell(run, seq, { place, kind: 'markdown' });

test('what somebody wrote stands at its place, not by its number', () => {
	const now = [cell('a', 1, { place: '0000000000000001' }), cell('b', 2, { place: '0000000000000002' })];
	assert.equal(order(put(now, placed('m', 9, '0000000000000001i'))), 'a m b');
	assert.equal(order(put(now, placed('m', 9, '0000000000000000i'))), 'm a b');
	assert.equal(order(merge([cell('b', 2)], [cell('a', 1), placed('m', 9, '0000000000000001i'), cell('b', 2)])), 'a m b');
	assert.equal(order(merge([cell('b', 2)], [placed('m', 9, '0000000000000002i'), cell('c', 10)])), 'b m c');
});

test('it goes beside a cell that an event brought', () => {
	const now = [cell('a', null, { status: 'done', started_at: '1' }), cell('b', null, { status: 'done', started_at: '2' })];
	assert.equal(order(write(now, placed('m', 9, '0000000000000001i'), { before: 'b' }, false)), 'a m b');
	assert.equal(order(write(now, placed('m', 9, '0000000000000001i'), { after: 'b' }, false)), 'a b m');
	assert.equal(order(write(now, { ...placed('m', 9, '0000000000000009'), started_at: '3' }, {}, false)), 'a b m');
});

test('what belongs among cells that are not loaded comes with them', () => {
	const now = [cell('y', 8), cell('z', 9)];
	assert.equal(order(write(now, placed('m', 10, '0000000000000002i'), { before: 'c' }, true)), 'y z');
	assert.equal(order(write(now, placed('m', 10, '0000000000000002i'), { before: 'c' }, false)), 'm y z');
	assert.equal(order(write(now, placed('m', 10, '0000000000000007i'), { before: 'y' }, true)), 'm y z');
	assert.equal(order(write(now, placed('m', 10, '0000000000000008i'), { before: 'gone' }, true)), 'y m z');
});

test('a newer page after a break goes behind', () => {
	assert.equal(order(merge([cell('a', 1)], [cell('a', 1), cell('b', 2), cell('c', null)])), 'a b c');
});

test('cells are not changed in place', () => {
	const before = [cell('a', null)];
	put(before, cell('a', 1));
	assert.equal(before[0]!.seq, null);
});

test('pieces of output go to their stream', () => {
	const live = new Live();
	live.add({ run: 'r', sandbox: 's', stream: 'stdout', text: 'a' });
	live.add({ run: 'r', sandbox: 's', stream: 'stderr', text: 'e' });
	live.add({ run: 'r', sandbox: 's', stream: 'stdout', text: 'b\n' });
	live.add({ run: 'r', sandbox: 's', cut: true });
	assert.deepEqual([live.stdout.text(), live.stderr.text(), live.cut], ['ab\n', 'e', true]);
});

test('a run that began before anybody looked goes on where its cell ends', () => {
	const live = Live.of(cell('r', null, { stdout: { text: 'äb', total: 3, cut: false } }));
	live.add({ run: 'r', sandbox: 's', stream: 'stdout', text: 'äbc', offset: 0 });
	live.add({ run: 'r', sandbox: 's', stream: 'stdout', text: 'bc', offset: 2 });
	live.add({ run: 'r', sandbox: 's', stream: 'stdout', text: 'd', offset: 4 });
	assert.equal(live.stdout.text(), 'äbcd');
});

test('a traceback is told from what was printed before', () => {
	const t = traceback('warn\nTraceback (most recent call last):\n  File "x", line 1, in <module>\nValueError: no\n');
	assert.deepEqual([t?.before, t?.last], ['warn\n', 'ValueError: no']);
});

test('the last of several tracebacks counts, and all are folded', () => {
	const one = 'Traceback (most recent call last):\n  File "x", line 1\nKeyError: 1\n';
	assert.equal(traceback(`${one}\nDuring handling of the above exception, another exception occurred:\n\n${one.replace('KeyError: 1', 'a.b.MyError: two')}`)?.last, 'a.b.MyError: two');
	assert.equal(traceback(`a\n${one}\nThe above exception was the direct cause of the following exception:\n\n${one}`)?.before, 'a\n');
	assert.equal(traceback(`a\nKeyError: 1\n\nThe above exception was the direct cause of the following exception:\n\n${one}`)?.before, 'a\n');
	assert.equal(traceback('no error'), null);
});

test('code that cannot be read has its place and its error', () => {
	const t = traceback('warn\n  File "<cell 1>", line 1\n    x = = 1\n        ^\nSyntaxError: invalid syntax\n');
	assert.deepEqual(t, { before: 'warn\n', trace: '  File "<cell 1>", line 1\n    x = = 1\n        ^', last: 'SyntaxError: invalid syntax', open: true });
	assert.equal(traceback('  File "<cell 1>", line 1\nof a book'), null);
});

test('selected cells become ranges of neighbours', () => {
	const all = [3, 5, 9, 12, 13];
	assert.deepEqual(rangesOf(all, new Set([12, 3, 5, 13])), ['3-5', '12-13']);
	assert.deepEqual(rangesOf(all, new Set([9, 4])), ['9']);
	assert.deepEqual(rangesOf(all, new Set()), []);
});

test('a cell says what became of its session as the server tells it, whatever ended the run', () => {
	const says = (more: Partial<Cell>): string => sessionAfter(cell('a', 1, { kind: 'stateful', ...more }), text.notebook);
	assert.equal(says({ state: 'kept' }), '');
	assert.equal(says({ kind: 'code', reason: 'timeout' }), '');
	for (const reason of ['timeout', 'cancelled'])
		assert.match(says({ state: 'kept', reason }), /^What it did before that is kept\.$/);
	for (const reason of ['signaled', 'timeout', 'oom'])
		assert.match(says({ state: 'unchanged', reason, gone: ['connections', 'f'] }), /^The variables are what they were before .* Gone: connections, f\.$/);
	assert.match(says({ state: 'carried', reason: 'signaled' }), /^A new interpreter has the variables/);
	assert.match(says({ state: 'lost', reason: 'exited' }), /^The variables are gone/);
	assert.equal(says({ state: 'kept', gone: ['last run'] }), 'Gone: last run.');
});
