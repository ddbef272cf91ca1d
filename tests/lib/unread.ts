// SPDX-License-Identifier: Apache-2.0
// Clients that ask and do not read: many connections at once, of whose answers only the first bytes are taken.

import * as net from 'node:net';

export interface Unread {
	/** How many answers began with which status; 0: none came. */
	statuses: Record<number, number>;
	/** A head of each status. */
	heads: Record<number, string>;
	close: () => void;
}

/** Asks for PATHS, each on a connection of its own, all at the same time. */
export async function askUnread(base: string, paths: string[], headers: Record<string, string> = {}): Promise<Unread> {
	const { host, hostname, port } = new URL(base);
	const more = Object.entries(headers).map(([k, v]) => `${k}: ${v}\r\n`).join('');
	const all: Unread = { statuses: {}, heads: {}, close: () => sockets.forEach((s) => s.destroy()) };
	const sockets: net.Socket[] = [];
	await Promise.all(paths.map((path) => new Promise<void>((resolve) => {
		const count = (status: number, head: string): void => {
			all.statuses[status] = (all.statuses[status] ?? 0) + 1;
			all.heads[status] = head;
			resolve();
		};
		const socket = net.connect({ host: hostname, port: Number(port), onread: { buffer: Buffer.alloc(512), callback: (n, buffer) => {
			const text = Buffer.from(buffer.subarray(0, n)).toString('latin1');
			count(Number(text.slice(9, 12)), text);
			return false; // nothing more is read
		} } }, () => socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`));
		socket.on('error', () => count(0, ''));
		sockets.push(socket);
	})));
	return all;
}
