// SPDX-License-Identifier: Apache-2.0
// How tests/suites/inside judges what the tests in a sandbox said: what is new, and what is missing, fails the run. No sandbox is needed.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { judge, type Line, type Row } from '../suites/inside/judge.ts';
import { known, skips, timed } from '../suites/inside/known.ts';
import type { Module } from '../suites/inside/modules.ts';

const module: Module = { name: 'test.test_os', how: 'unittest', quick: false };
const listed = known[0]!.tests[0]!;

function row(end: Line['end'], test: string, why = ''): Row {
	const lines: Line[] = [{ test, end: 'start', why: '' }, { test, end, why }, { test: module.name, end: 'end', why: '' }];
	return judge(module, { lines }, { mode: 'root', warm: false });
}

function isFailure(r: Row): boolean {
	return r.failed.length === 1 && r.passed + r.skipped.length + r.forbidden === 0;
}

describe('the judge of tests/suites/inside', () => {
	it('a failure is one unless it is listed', () => {
		assert.ok(isFailure(row('fail', 'test.test_os.New.test_new')));
		assert.equal(row('fail', listed).forbidden, 1);
	});
	it('a test that asserts a time is skipped when it fails, with what it said', () => {
		const late = row('fail', `${timed[0]!}New.test_new`, '2 is not less than 1');
		assert.deepEqual([late.passed, late.failed], [0, []]);
		assert.match(late.skipped[0]!.why, /asserts a time: 2 is not less than 1/);
	});
	it('a listed test that passes is a failure', () => assert.ok(isFailure(row('pass', listed))));
	it('a listed test that may pass is counted as what it did', () => {
		const may = known.find((k) => k.mayPass)!;
		const judged = (end: Line['end']): Row => judge(module, { lines: [{ test: may.tests[0]!, end, why: '' }, { test: module.name, end: 'end', why: '' }] }, { mode: 'root', warm: true });
		assert.equal(judged('pass').passed, 1);
		assert.equal(judged('fail').forbidden, 1);
	});
	it('a process that ends in a test is a failure', () => assert.ok(isFailure(row('start', 'test.test_os.New.test_new'))));
	it('a module that breaks off, or has no tests, is a failure', () => {
		assert.equal(judge(module, { lines: [], bad: 'exit status 139' }, { mode: 'root', warm: false }).failed[0]?.why, 'exit status 139');
		assert.ok(isFailure(judge(module, { lines: [{ test: module.name, end: 'end', why: '' }] }, { mode: 'root', warm: false })));
	});
	it('a reason to leave oneself out must be listed', () => {
		assert.equal(row('skip', 'test.test_os.New.test_new', 'Windows specific').skipped.length, 1);
		assert.ok(isFailure(row('skip', 'test.test_os.New.test_new', 'a reason that nobody wrote down')));
	});
	it('the error of a system call is a reason for the tests that it was judged for alone', () => {
		const own = skips.filter((s) => s.tests);
		assert.ok(own.length > 0);
		for (const why of ['[Errno 1] Operation not permitted', '[Errno 38] Function not implemented', '[Errno 95] Operation not supported', 'os.link(): [Errno 1] Operation not permitted (root)'])
			assert.ok(isFailure(row('skip', 'test.test_os.New.test_new', why)), why);
		assert.equal(row('skip', 'test.test_os.FileTests.test_splice', '[Errno 38] Function not implemented').skipped.length, 1);
		assert.ok(isFailure(row('skip', 'test.test_os.FileTests.test_splice', '[Errno 1] Operation not permitted')));
	});
});
