// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Tail, TAIL_MAX } from '../src/pure/tail.ts';

const said = (t: Tail): [string, number, boolean] => [t.screen.text(), t.next, t.cut];

test('pieces that follow each other are one text', () => {
	const t = new Tail();
	t.add({ text: 'a\x1b[3', from: 0, next: 4 });
	t.add({ text: '', from: 4, next: 4 });
	t.add({ text: '1mb\n', from: 4, next: 8 });
	assert.deepEqual(said(t), ['ab\n', 8, false]);
});

test('what is not there any more takes away what was before it', () => {
	const t = new Tail();
	t.add({ text: 'first\n', from: 0, next: 6 });
	t.add({ text: 'third\n', from: 100, next: 106 });
	assert.deepEqual(said(t), ['third\n', 106, true]);
	const late = new Tail();
	late.add({ text: 'end\n', from: 9, next: 13 });
	assert.deepEqual(said(late), ['end\n', 13, true]);
});

test('what is kept is bounded, and begins with a whole line', () => {
	const t = new Tail();
	const line = `${'x'.repeat(99)}\n`;
	for (let i = 0, at = 0; i < 100; i++, at += 10_000)
		t.add({ text: line.repeat(100), from: at, next: at + 10_000 });
	const text = t.screen.text();
	assert.ok(text.length <= TAIL_MAX && text.length >= TAIL_MAX / 2 - 100, String(text.length));
	assert.deepEqual([text.startsWith(line), t.next, t.cut], [true, 1_000_000, true]);
	const one = new Tail();
	for (let i = 0; i < 100; i++)
		one.add({ text: 'y'.repeat(10_000), from: i * 10_000, next: (i + 1) * 10_000 });
	assert.ok(one.screen.text().length <= TAIL_MAX, 'one line without an end');
});
