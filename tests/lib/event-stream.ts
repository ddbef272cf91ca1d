// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict';

/** An event stream, read as it comes. */
export class Stream {
	readonly status: number;
	text = '';
	closed = false;
	readonly end: Promise<number>; // when, ms
	private readonly abort: AbortController;

	private constructor(r: Response, abort: AbortController) {
		this.status = r.status;
		this.abort = abort;
		this.end = this.read(r);
	}

	static async open(url: string, init: RequestInit = {}): Promise<Stream> {
		const abort = new AbortController();
		return new Stream(await fetch(url, { ...init, signal: abort.signal }), abort);
	}

	private async read(r: Response): Promise<number> {
		try {
			for await (const piece of r.body! as unknown as AsyncIterable<Uint8Array>)
				this.text += Buffer.from(piece).toString();
		} catch {
			// cut
		}
		this.closed = true;
		return performance.now();
	}

	async wait(what: RegExp): Promise<RegExpExecArray> {
		for (let i = 0; i < 500; i++) {
			const m = what.exec(this.text);
			if (m)
				return m;
			assert.ok(!this.closed, `ended before ${what}: ${this.text}`);
			await new Promise((resolve) => setTimeout(resolve, 20));
		}
		throw new Error(`no ${what} in: ${this.text}`);
	}

	close(): void {
		this.abort.abort();
	}
}
