// SPDX-License-Identifier: Apache-2.0
// An object store in memory, for workers that save and load sandboxes. It judges no signature; tests/suites/objects has a real one.

import * as http from 'node:http';
import type { AddressInfo } from 'node:net';

export class ObjectStore {
	readonly objects = new Map<string, Buffer>();
	/** Every request: "PUT /name". */
	readonly log: string[] = [];
	/** Called before each request; what it returns is the answer's status, or the code of a 403, instead of the work. */
	disturb: (method: string, name: string) => number | string | undefined | Promise<number | string | undefined> = () => undefined;
	private readonly server = http.createServer((req, res) => {
		const name = decodeURIComponent(new URL(req.url!, 'http://x').pathname.slice(1)), pieces: Buffer[] = [];
		req.on('data', (d: Buffer) => pieces.push(d));
		req.on('end', () => void this.answer(req.method!, name, Buffer.concat(pieces)).then(({ status, body }) => {
			res.writeHead(status, { 'content-length': body.length });
			res.end(body);
		}));
	});

	private async answer(method: string, name: string, body: Buffer): Promise<{ status: number; body: Buffer }> {
		this.log.push(`${method} ${name}`);
		const status = await this.disturb(method, name), none = Buffer.alloc(0);
		if (typeof status === 'string')
			return { status: 403, body: Buffer.from(`<Error><Code>${status}</Code></Error>`) };
		if (status !== undefined)
			return { status, body: none };
		if (method === 'PUT')
			this.objects.set(name, body);
		else if (method === 'DELETE')
			return { status: this.objects.delete(name) ? 204 : 404, body: none };
		else if (!this.objects.has(name))
			return { status: 404, body: Buffer.from('<Error><Code>NoSuchKey</Code></Error>') };
		return { status: 200, body: method === 'GET' ? this.objects.get(name)! : none };
	}

	async begin(): Promise<this> {
		await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
		return this;
	}

	address(name: string): string {
		return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/${name}`;
	}

	end(): void {
		this.server.closeAllConnections();
		this.server.close();
	}
}
