// SPDX-License-Identifier: Apache-2.0
// The newest output of a process that is followed by positions. What is kept is bounded, however long the process prints.

import { Screen } from './ansi.ts';

export const TAIL_MAX = 256 * 1024; // UTF-16 units

/** Output from one position of a stream to another, in bytes. */
export interface Piece { text: string; from: number; next: number }

export class Tail {
	screen = new Screen();
	next = 0; // position from which the next piece is asked for
	cut = false; // the beginning is not shown
	private kept = '';

	add(p: Piece): void {
		if (p.from > this.next) { // the server no longer has what is in between: lines on both sides of a gap would look like neighbours
			this.cut = true;
			this.begin('');
		}
		this.next = p.next;
		if (this.kept.length + p.text.length <= TAIL_MAX) {
			this.kept += p.text;
			this.screen.push(p.text);
			return;
		}
		const newest = (this.kept + p.text).slice(-TAIL_MAX / 2); // half, so that this is rare
		this.cut = true;
		this.begin(newest.slice(newest.indexOf('\n') + 1));
	}

	private begin(text: string): void {
		this.kept = text;
		this.screen = new Screen();
		this.screen.push(text);
	}
}
