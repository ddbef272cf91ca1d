// SPDX-License-Identifier: Apache-2.0
// The kill points of a test build (src/base/kill_points.h): their table, and the file that all processes of a server share with the test.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { top } from '../../lib/env.ts';

export interface Point {
	name: string;
	who: string; // the process that passes
	what: string; // what has just happened
	number: number;
	rootOnly: boolean; // a plain user's engine does without
}

/** The rows of kill_points.tbl.h, in its order: their numbers are those of the enum. */
export const points: Point[] = [...fs.readFileSync(path.join(top, 'src/base/kill_points.tbl.h'), 'utf8')
	.matchAll(/^K\((\w+), "([^"]+)", "([^"]+)"\)$/gm)].map((m, i) => ({ name: m[1]!, who: m[2]!, what: m[3]!, number: i + 1, rootOnly: /^((SESSION_)?DISK|PULL)_/.test(m[1]!) }));

const BYTES = 4096;
const ARMED = 0, ACT = 4, LEFT = 8, REACHED = 12, GO = 16, PASSED = 20;

/** struct kill_control. */
export class Control {
	readonly file: string;
	private readonly fd: number;

	constructor(file: string) {
		this.file = file;
		fs.writeFileSync(file, Buffer.alloc(BYTES));
		fs.chmodSync(file, 0o666);
		this.fd = fs.openSync(file, 'r+');
	}
	private put(at: number, n: number): void {
		const b = Buffer.alloc(4);
		b.writeUInt32LE(n);
		fs.writeSync(this.fd, b, 0, 4, at);
	}
	private get(at: number): number {
		const b = Buffer.alloc(4);
		fs.readSync(this.fd, b, 0, 4, at);
		return b.readUInt32LE();
	}
	/** The next to pass there dies, or waits for go(). */
	arm(p: Point, dies: boolean): void {
		this.put(ARMED, 0);
		this.put(REACHED, 0);
		this.put(GO, 0);
		this.put(LEFT, 1);
		this.put(ACT, dies ? 0 : 1);
		this.put(ARMED, p.number);
	}
	disarm(): void {
		this.put(ARMED, 0);
		this.put(GO, 1);
	}
	go(): void {
		this.put(GO, 1);
	}
	get reached(): boolean {
		return this.get(REACHED) === 1;
	}
	passed(p: Point): number {
		return this.get(PASSED + 4 * p.number);
	}
}
