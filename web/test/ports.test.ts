// SPDX-License-Identifier: Apache-2.0
// What a page knows of the ports of a sandbox.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { began, ends, listens, noPorts, without } from '../src/pure/ports.ts';

const row = (port: number) => ({ port, path: `/p/s/${port}/` });

test('what is there at the first look is no news, what begins later is, once', () => {
	let p = began(noPorts, [row(80)]);
	assert.deepEqual(p.offers, []);
	p = listens(p, row(8000));
	p = listens(p, row(79));
	assert.deepEqual([p.rows!.map((r) => r.port), p.offers], [[79, 80, 8000], [8000, 79]]);
	p = listens(p, row(8000)); // another process
	assert.deepEqual(p.offers, [8000, 79]);
	p = ends(p, 8000);
	assert.deepEqual([p.rows!.map((r) => r.port), p.offers], [[79, 80], [79]]);
	p = listens(p, row(8000));
	assert.deepEqual(p.offers, [79], 'it was offered already');
	p = without(p, 79);
	assert.deepEqual([p.offers, p.fresh.has(79)], [[], true]);
});

test('after a connection that was lost, what is new meanwhile is offered, and what has ended is not', () => {
	let p = listens(began(noPorts, []), row(1));
	p = began(p, [row(2)]);
	assert.deepEqual([p.rows!.map((r) => r.port), p.offers], [[2], [2]]);
	p = began(p, [row(1), row(2)]);
	assert.deepEqual(p.offers, [2]);
});
