// SPDX-License-Identifier: Apache-2.0
// docs/kernel-bugs.md is true: every class that it calls unreachable answers an error at each of its entry points, every other one works,
// each bug has a class, and the shares are what the rows add up to.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { it } from 'node:test';
import { top } from '../lib/env.ts';
import { using } from '../lib/session.ts';
import { cases } from '../hostile/cases/all.ts';

/** What the filter answers, what a place without the node answers, and nothing else: EINVAL would mean that the call was carried out. */
const refusals = new Set(['EPERM', 'ENOSYS', 'ENOENT']);
/** Up to here every number of the catalogue is in the list. */
const COMPLETE_TO = [2024, 53125];

const text = fs.readFileSync(path.join(top, 'docs/kernel-bugs.md'), 'utf8');

function table(heading: string): string[][] {
	const part = text.split(`\n## ${heading}\n`)[1]!.split('\n## ')[0]!;
	return part.split('\n').filter((l) => l.startsWith('| ')).slice(1).map((l) => l.split('|').slice(1, -1).map((c) => c.trim()));
}

const classes = table('Classes').map(([name, , reachable, , tried]) => ({ name: name!, reachable: reachable === '**yes**', tried: tried!.split(' ').filter(Boolean) }));
const bugs = table('Bugs').map(([number, , kind, catalogue]) => ({ number: number!, kind: kind!, listed: catalogue === 'K' }));

function isComplete(number: string): boolean {
	const [, year, n] = /^CVE-(\d{4})-(\d+)$/.exec(number)!.map(Number);
	return year! < COMPLETE_TO[0]! || (year === COMPLETE_TO[0] && n! <= COMPLETE_TO[1]!);
}

it('the tables name each bug once and each class', () => {
	assert.equal(new Set(bugs.map((b) => b.number)).size, bugs.length);
	assert.deepEqual(new Set(bugs.map((b) => b.kind)), new Set(classes.map((c) => c.name)));
	assert.ok(bugs.every((b) => /^CVE-20\d\d-\d{4,}$/.test(b.number)));
	const known = new Set(cases.map((c) => c.id));
	for (const t of classes.flatMap((c) => c.tried).filter((t) => !t.startsWith('`')))
		assert.ok(known.has(t), `${t} is no case of tests/hostile`);
});

it('the shares are those of the rows', () => {
	const open = new Set(classes.filter((c) => c.reachable).map((c) => c.name));
	const count = (of: typeof bugs): number[] => {
		const unreachable = of.filter((b) => !open.has(b.kind)).length;
		return [of.length, unreachable, Math.round((100 * unreachable) / of.length), of.length - unreachable];
	};
	const said = /\*\*(\d+) bugs: (\d+) unreachable \((\d+) %\), (\d+) reachable\. Of the complete part of the catalogue (\d+): (\d+) unreachable \((\d+) %\), (\d+) reachable\.\*\*/.exec(text);
	assert.deepEqual(said?.slice(1).map(Number), [...count(bugs), ...count(bugs.filter((b) => b.listed && isComplete(b.number)))]);
	const [all, unreachable, share] = count(bugs);
	assert.ok(share! >= 85, 'the goal');
	const summary = fs.readFileSync(path.join(top, 'docs/SECURITY.md'), 'utf8');
	assert.ok(summary.includes(`lists ${all} local privilege escalations`) && summary.includes(`${unreachable} of them (${share} %) cannot be reached`));
});

it('the entry points of every class answer so in a sandbox', async () => {
	const code = fs.readFileSync(path.join(top, 'tests/integration/kernel-bugs.py'), 'utf8');
	await using('stdio', {}, async (s) => {
		const answers = JSON.parse((await s.ok(code)).stdout) as Record<string, string[]>;
		assert.deepEqual(new Set(Object.keys(answers)), new Set(classes.map((c) => c.name)));
		for (const c of classes) {
			const got = answers[c.name]!;
			assert.ok(got.length > 0 && got.every((a) => (c.reachable ? a === 'ok' : refusals.has(a))), `${c.name}: ${got}`);
		}
	});
});
