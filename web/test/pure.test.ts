// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { href, parse } from '../src/app/router.ts';
import { snippets } from '../src/pure/clients.ts';
import { argsOf, IMAGE_NAME, imageNameAt, imageNameOf, isDockerfile, shareOf } from '../src/pure/build.ts';
import { age, bytes, duration, figure, timeSpan } from '../src/pure/format.ts';
import { kindOf } from '../src/pure/kinds.ts';
import { tree } from '../src/pure/tree.ts';
import { shell } from '../src/pure/words.ts';

test('bytes', () => {
	assert.deepEqual([0, 999, 1023, 1024, 10_240, 1_048_576, 5e9].map(bytes), ['0 B', '999 B', '1.0 KiB', '1.0 KiB', '10 KiB', '1.0 MiB', '4.7 GiB']);
});

test('durations', () => {
	assert.deepEqual([0, 340, 999.6, 2100, 59_960, 185_000, 7_800_000, 270_000_000].map(duration), ['0 ms', '340 ms', '1.0 s', '2.1 s', '1 min', '3 min 5 s', '2 h 10 min', '3 d 3 h']);
	assert.deepEqual([-1, 59, 61, 3700, 90_000].map(age), ['0 s', '59 s', '1 min', '1 h', '1 d']);
});

test('figures of plots', () => {
	assert.deepEqual([0, 0.005, 0.01, 0.4, 4.25, 250.4, 1200].map(figure), ['0', '0.005', '0.010', '0.40', '4.3', '250', '1,200']);
	assert.deepEqual(timeSpan(1000, 1000, 60), [940, 1000]);
	assert.deepEqual(timeSpan(1000, 1030, 60), [970, 1030]);
	assert.deepEqual(timeSpan(1000, 4600, 60), [1000, 4600]);
});

test('how far a build is', () => {
	assert.equal(shareOf([]), null);
	assert.equal(shareOf(["Building image 'base' (Debian forky) in /x 1/2 y", '  installing packages  21/84 downloading libc6']), 0.25);
	assert.equal(shareOf(['  installing packages  21/84 downloading libc6', '  installing packages']), null);
	assert.equal(shareOf(['  installing packages  0/0 x']), null);
	assert.equal(shareOf(['  installing packages  9/3 x']), 1);
});

test('which files are Dockerfiles', () => {
	for (const yes of ['Dockerfile', 'a/b/Dockerfile', 'Dockerfile.dev', 'api.Dockerfile', 'api.dockerfile', 'dockerfile'])
		assert.ok(isDockerfile(yes) && kindOf(yes) === 'text', yes);
	for (const no of ['Dockerfile/x', 'Dockerfiles', 'myDockerfile', '.Dockerfile', 'Dockerfile.', 'Dockerfile.dockerignore', '.dockerignore', 'a.txt'])
		assert.ok(!isDockerfile(no), no);
});

test('names of images', () => {
	const good = new RegExp(`^(?:${IMAGE_NAME})$`, 'v');
	for (const [path, words, name] of [['app/Dockerfile', '', 'app'], ['a/My App!/Dockerfile', '', 'my-app'], ['Dockerfile', 'Tools 2.0', 'tools-2.0'], ['Dockerfile', '', ''], ['-_t.t.x/Dockerfile', '', 'x'], ['日本/Dockerfile', '', '']] as const) {
		assert.equal(imageNameAt(path, words), name);
		assert.ok(name === '' || good.test(name), name);
	}
	assert.equal(imageNameOf('x'.repeat(80)).length, 63);
	for (const wrong of ['', 'A', 't.x', '.x', '-x', '_x', 'a b', 'a/b', 'x'.repeat(64)])
		assert.ok(!good.test(wrong), wrong);
	assert.ok(['a', 't', 'tt.x', '0._-', 'x'.repeat(63)].every((n) => good.test(n)));
});

test('build arguments', () => {
	assert.deepEqual(argsOf(' A=1\r\n\nB=two words =\nC=\n'), { args: ['A=1', 'B=two words =', 'C='], wrong: undefined });
	for (const wrong of ['A', '=1', 'A B=1'])
		assert.equal(argsOf(`X=1\n${wrong}`).wrong, wrong);
});

test('addresses survive every name', () => {
	for (const name of ['a b', 'ü/ö', '100%', '?x=1', '#', '<script>', '..'])
		assert.deepEqual(parse(href('sandboxes', 's', 'files', name)).parts, ['sandboxes', 's', 'files', name]);
	assert.deepEqual(parse('#/%E0%A4%A/x?q=1').parts, ['%E0%A4%A', 'x']);
});

test('kinds of files', () => {
	assert.deepEqual(['a.PNG', 'a.csv', 'b.parquet', 'x.html', 'y.json', 'z.py', 'Makefile', 'q.bin', 'r.pdf'].map(kindOf), ['picture', 'table', 'table', 'page', 'json', 'text', 'text', 'other', 'pdf']);
});

test('words of a shell', () => {
	const code = `for f in *.csv; do echo "a $f" 'b' | head -n 5 > out # done\ndone; cd $HOME && X=1 ls --all a#b`;
	assert.equal(shell(code).map(([t]) => t).join(''), code);
	const kinds = Object.fromEntries(shell(code).map(([t, k]) => [t, k]));
	assert.deepEqual([kinds['for'], kinds['echo'], kinds['-n'], kinds['|'], kinds['# done'], kinds['ls'], kinds['$HOME'], kinds['"a $f"']], ['keyword', 'command', 'option', 'operator', 'comment', 'command', 'variable', 'string']);
});

test('hostile text through the words of a shell comes out whole', () => {
	for (const code of ['"', "'", '\\', '$', '${', '$(', '#', 'a'.repeat(50_000), '"'.repeat(999), '\x00\x1b[31m'])
		assert.equal(shell(code).map(([t]) => t).join(''), code);
});

test('a tree of checkpoints', () => {
	const names = (b: { value: { name: string }; children: never[] }[]): unknown => b.map((x) => [x.value.name, names(x.children)]);
	assert.deepEqual(names(tree([{ name: 'a' }, { name: 'b', parent: 'a' }, { name: 'c', parent: 'b' }, { name: 'd', parent: 'gone' }]) as never), [['a', [['b', [['c', []]]]]], ['d', []]]);
	assert.deepEqual((names(tree([{ name: 'a', parent: 'b' }, { name: 'b', parent: 'a' }, { name: 'c', parent: 'c' }]) as never) as unknown[]).length, 3);
});

/** TEXT without the layout of JSON. */
const dense = (text: string): string => text.replace(/\s+/g, '');

test('configurations of clients', () => {
	const docs = readFileSync(new URL('../../docs/clients.md', import.meta.url), 'utf8');
	const gateway = JSON.parse(readFileSync(new URL('../../tests/suites/interop/package.json', import.meta.url), 'utf8')).dependencies.supergateway;
	for (const key of [true, false])
		for (const s of snippets('http://127.0.0.1:8181', key)) {
			assert.equal(s.value.includes('KEY'), key, s.id);
			if (s.value.startsWith('{'))
				JSON.parse(s.value);
			if (s.value.includes('supergateway'))
				assert.ok(s.value.includes(`supergateway@${gateway}`), `${s.id}: not the release that the suite interop runs`);
			if (key && s.id !== 'rest')
				assert.ok(dense(docs).includes(dense(s.value)), `${s.id} is not in docs/clients.md: ${s.value}`);
		}
});
