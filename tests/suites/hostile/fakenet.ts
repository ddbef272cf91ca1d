// SPDX-License-Identifier: Apache-2.0
// A world to be reached, for the cases whose wall is the network namespace: inside a network namespace of the suite's own,
// every address that a case tries is this machine's, somebody listens, and names resolve. Not a packet leaves it.

import * as dgram from 'node:dgram';
import * as net from 'node:net';
import { execFileSync } from 'node:child_process';

const addresses = ['8.8.8.8', '1.1.1.1', '9.9.9.9', '10.0.0.1', '172.17.0.1', '192.168.0.1', '192.168.1.1', '100.64.0.1', '169.254.0.1', '169.254.169.254', '169.254.170.2', '10.96.0.1', '100.100.100.200'];
const ports = [22, 80, 443, 853];

/** The question with one address as its answer (of another type: none). */
function answer(question: Buffer): Buffer {
	const end = question.indexOf(0, 12) + 5; // name, type, class
	const isA = question.readUInt16BE(end - 4) === 1;
	const head = Buffer.from(question.subarray(0, 12));
	head.writeUInt16BE(0x8180, 2);
	head.writeUInt16BE(isA ? 1 : 0, 6);
	head.writeUInt32BE(0, 8);
	const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 192, 0, 2, 1]);
	return Buffer.concat([head, question.subarray(12, end), ...(isA ? [record] : [])]);
}

/** To be called in a network namespace without anything in it. */
export async function openWorld(): Promise<() => void> {
	execFileSync('ip', ['link', 'set', 'lo', 'up']);
	for (const a of addresses)
		execFileSync('ip', ['address', 'add', `${a}/32`, 'dev', 'lo']);
	const names = dgram.createSocket('udp4', (question, from) => names.send(answer(question), from.port, from.address));
	await new Promise<void>((resolve) => names.bind(53, '0.0.0.0', resolve));
	const servers = await Promise.all(ports.map((port) => new Promise<net.Server>((resolve) => {
		const server = net.createServer((c) => c.on('error', () => {}).destroy()).listen(port, '0.0.0.0', () => resolve(server));
	})));
	return () => {
		names.close();
		servers.forEach((s) => s.close());
	};
}
