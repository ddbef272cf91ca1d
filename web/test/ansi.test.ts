// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Screen } from '../src/pure/ansi.ts';

const E = '\x1b[';
const screen = (...pieces: string[]): Screen => {
	const s = new Screen();
	pieces.forEach((p) => s.push(p));
	return s;
};
const styles = (s: Screen): unknown[] => s.lines.flatMap((l) => l.segments.map((x) => [x.text, x.style]));

const texts: [what: string, pieces: string[], want: string][] = [
	['lines', ['a\nb\n'], 'a\nb\n'],
	['a carriage return overwrites', ['10%\r20%'], '20%'],
	['a shorter text leaves the rest', ['abcdef\rXY'], 'XYcdef'],
	['CR LF is one line end', ['a\r\nb'], 'a\nb'],
	['backspace', ['abc\b\bX'], 'aXc'],
	['erase to the end of the line', ['abcdef\r12' + E + 'K'], '12'],
	['erase the whole line', ['abc' + E + '2K\rx'], 'x'],
	['cursor up, as progress bars of several rows do', ['one\ntwo\n' + E + '2AONE\n' + E + 'B'], 'ONE\ntwo\n'],
	['cursor up beyond the beginning', ['a' + E + '99999999A' + '\rb'], 'b'],
	['tabs', ['a\tb'], 'a       b'],
	['titles and links are dropped', ['\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\c'], 'abc'],
	['clipboards, questions to the terminal, mouse reports and strings of devices are dropped', ['\x1b]52;c;c2VjcmV0\x07a' + E + '6n' + E + '>cb\x1bP$qm\x1b\\c' + E + '?1003hd\x1b_x\x1b\\e\x05f' + E + '21tg'], 'abcdefg'],
	['a sequence in two pieces', ['a' + '\x1b', '[31mb'], 'ab'],
	['a sequence in four pieces', ['a\x1b', '[', '3', '1mb'], 'ab'],
	['a lone escape at the end prints nothing', ['a\x1b'], 'a'],
	['unknown sequences print nothing', [E + '?25la' + E + '5;5H' + 'b\x1b(Bc' + E + '?2004h'], 'abc'],
	['NUL, bell and the mark of the folder print nothing', ['a\x00\x07\x1eb'], 'ab'],
	['markup stays text', ['<img src=x onerror=alert(1)>'], '<img src=x onerror=alert(1)>'],
];
for (const [what, pieces, want] of texts)
	test(`text: ${what}`, () => assert.equal(screen(...pieces).text(), want));

const colours: [what: string, input: string, want: unknown[]][] = [
	['a colour and its end', `${E}31mred${E}0m plain`, [['red', { fg: '1' }], [' plain', null]]],
	['bright', `${E}94mx`, [['x', { fg: '12' }]]],
	['bold in a colour', `${E}1;32mx`, [['x', { bold: true, fg: '2' }]]],
	['bold ends, colour stays', `${E}1;32mx${E}22my`, [['x', { bold: true, fg: '2' }], ['y', { bold: undefined, dim: undefined, fg: '2' }]]],
	['256: of the palette', `${E}38;5;9mx`, [['x', { fg: '9' }]]],
	['256: of the cube', `${E}38;5;196mx`, [['x', { fg: '#ff0000' }]]],
	['256: grey', `${E}48;5;232mx`, [['x', { bg: '#080808' }]]],
	['true colour', `${E}38;2;1;2;255mx`, [['x', { fg: '#0102ff' }]]],
	['numbers beyond the range', `${E}38;2;999;5;3mx`, [['x', { fg: '#ff0503' }]]],
	['38 without more', `${E}38mx`, [['x', null]]],
	['an empty SGR resets', `${E}31ma${E}mb`, [['a', { fg: '1' }], ['b', null]]],
];
for (const [what, input, want] of colours)
	test(`colour: ${what}`, () => assert.deepEqual(styles(screen(input)), want));

test('overwriting in another colour splits the text', () => {
	assert.deepEqual(styles(screen(`abcdef\r${E}31mXY`)), [['XY', { fg: '1' }], ['cdef', null]]);
});

test('an escape sequence that never ends is not kept for ever', () => {
	const s = screen('\x1b]0;' + 'x'.repeat(5000));
	s.push('\x07after');
	assert.ok(s.text().endsWith('after'));
});

test('one line of a megabyte, written in small pieces, is quick', () => {
	const s = new Screen();
	for (let i = 0; i < 20_000; i++)
		s.push('x'.repeat(50));
	assert.equal(s.lines[0]!.length, 1_000_000);
});

test('lines are bounded', () => {
	const s = new Screen();
	for (let i = 0; i < 210; i++)
		s.push('x\n'.repeat(1000));
	assert.equal(s.lines.length, 200_000);
});
