// SPDX-License-Identifier: Apache-2.0
// Who is who below a front: monitor, zygotes, inits and the interpreters that wait in a sandbox.

import assert from 'node:assert/strict';
import { descendants, membersOf, namespaceOf, type Ident } from './process.ts';

const own = namespaceOf(process.pid, 'pid');

function isOutside(p: Ident): boolean {
	return (namespaceOf(p.pid, 'pid') ?? own) === own;
}

/** The monitor. */
export function monitorOf(front: number): Ident {
	const found = descendants(front).filter((p) => p.ppid === front && p.name === 'caisson-monitor');
	assert.equal(found.length, 1, `one monitor below the front: ${found.map((p) => p.name).join(' ')}`);
	return found[0]!;
}

/** Live warm interpreters of images. */
export function zygotesOf(front: number): Ident[] {
	const monitor = monitorOf(front).pid;
	return descendants(front).filter((p) => p.ppid === monitor && isOutside(p) && p.name === 'python3' && p.state !== 'Z');
}

/** First processes of sandboxes, those of the pool included. */
export function initsOf(front: number): Ident[] {
	const monitor = monitorOf(front).pid;
	return descendants(front).filter((p) => p.ppid === monitor && !isOutside(p) && p.state !== 'Z');
}

/** All others of a sandbox. */
export function othersOf(init: Ident): Ident[] {
	const space = namespaceOf(init.pid, 'pid');
	return space ? membersOf([space]).filter((p) => p.pid !== init.pid) : [];
}
