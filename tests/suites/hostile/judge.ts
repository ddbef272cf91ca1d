// SPDX-License-Identifier: Apache-2.0
// Sends a program and reads what it says of its attempts (prelude.py).

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { top } from '../../lib/env.ts';
import { facts, type Json, type Session } from '../../lib/session.ts';
import { WORKED, type Ending } from './case.ts';

const prelude = fs.readFileSync(path.join(top, 'tests/suites/hostile/prelude.py'), 'utf8');

/** CODE after the prelude. */
export function programOf(code: string): string {
	return `${prelude}${code}\n`;
}

/** Both forms of the answer say the same. Not Session.run(): its check of the exact bytes is for tame output. */
export async function runCode(s: Session, code: string, session_id: string): Promise<Json> {
	const r = await s.raw('sandbox_run_python', { code, session_id });
	assert.equal(r.isError ?? false, false, JSON.stringify(r.content));
	const told = facts(r);
	if (r.structuredContent)
		assert.deepEqual(told, r.structuredContent.result ?? r.structuredContent);
	return told;
}

export function checkEnding(r: Json, want: Ending): void {
	assert.equal(r.error, undefined, JSON.stringify(r));
	const text = `exit status ${r.exit_code}; ${String(r.stderr).slice(-600)}`;
	switch (want) {
	case 'any':
		return;
	case 'timeout':
		return assert.equal(r.exit_code, -1, text);
	case 'killed':
		return assert.ok(r.exit_code === 137 || /MemoryError/.test(r.stderr), text);
	case 'failed':
		return assert.notEqual(r.exit_code, 0, text);
	default:
		assert.equal(r.exit_code, want, text);
	}
}

export function checkAttempts(r: Json, want: number): void {
	const lines = String(r.stdout).split('\n');
	const broken = lines.filter((l) => l.startsWith('BROKEN'));
	const held = lines.filter((l) => l.startsWith('HELD'));
	assert.equal(broken.length, 0, `${WORKED}: ${broken.join('\n')}`);
	assert.ok(held.length >= want, `${held.length} attempts were made, at least ${want} expected: ${r.stdout}${r.stderr}`);
}
