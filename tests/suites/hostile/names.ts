// SPDX-License-Identifier: Apache-2.0
// A world in which names lie: `names.ts REPORT -- COMMAND…`, to be started in a network and a mount namespace without anything in them. Public
// and private addresses are this machine's, somebody listens on each, and a name server gives the answers of the table below, another one each time where it has several.
// COMMAND runs in this world. REPORT gets a line for each question (`? NAME TYPE`) and for each connection (`> ADDRESS`). Not a packet leaves it.

import * as dgram from 'node:dgram';
import * as fs from 'node:fs';
import * as net from 'node:net';
import * as path from 'node:path';
import { execFileSync, spawn } from 'node:child_process';

export const PORT = 8080;
export const PUBLIC = '93.184.215.14';
export const OWN = '93.184.216.1'; // a public address that is this machine's own
export const ZONE = 'wild.caisson.example';
const LOCAL = ['10.0.0.1', '169.254.169.254', '100.100.100.200', OWN];

type Answer = string[] | { cname: string; then: string[] } | 'loop' | 'none';

/** What each name resolves to, below ZONE; the next answer at each question of one type. IPv6 addresses answer AAAA, the others A. */
const TABLE: Record<string, Answer[]> = {
	public: [[PUBLIC]],
	rebind: [[PUBLIC], ['10.0.0.1'], [PUBLIC], ['127.0.0.1'], ['169.254.169.254']],
	private: [['10.0.0.1']],
	metadata: [['169.254.169.254']],
	loopback: [['127.0.0.1']],
	zero: [['0.0.0.0']],
	own: [[OWN]],
	mixed: [[PUBLIC, '10.0.0.1']],
	reversed: [['10.0.0.1', PUBLIC]],
	both: [[PUBLIC, '::1']],
	mapped: [['::ffff:10.0.0.1']],
	mappedtoo: [[PUBLIC, '::ffff:127.0.0.1']],
	nat64: [['64:ff9b::a00:1']],
	alias: [{ cname: 'elsewhere.example', then: [PUBLIC] }],
	aliased: [{ cname: 'inside.corp.example', then: ['10.0.0.1'] }],
	turned: [{ cname: 'a.example', then: [PUBLIC] }, { cname: 'a.example', then: ['127.0.0.1'] }],
	localhost: [{ cname: 'localhost', then: ['127.0.0.1'] }],
	loop: ['loop'],
	none: ['none'],
	last: [[...Array.from({ length: 20 }, (_, i) => `93.184.215.${20 + i}`), '10.0.0.1']],
	'xn--good-fna': [['10.0.0.1']],
};

const encode = (name: string): Buffer => Buffer.concat([...name.split('.').filter(Boolean).map((l) => Buffer.concat([Buffer.from([l.length]), Buffer.from(l, 'latin1')])), Buffer.from([0])]);

function bytesOf(address: string): Buffer {
	if (net.isIPv4(address))
		return Buffer.from(address.split('.').map(Number));
	const v4 = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(address);
	const words = v4 ? `${v4[1]}${bytesOf(v4[2]!).toString('hex').replace(/^(....)/, '$1:')}` : address;
	const [head, tail] = words.split('::').map((part) => part.split(':').filter(Boolean));
	const all = [...head!, ...Array<string>(8 - head!.length - (tail?.length ?? 0)).fill('0'), ...(tail ?? [])];
	return Buffer.from(all.map((w) => w.padStart(4, '0')).join(''), 'hex');
}

/** A record with TTL 0. */
function record(name: string, type: number, data: Buffer): Buffer {
	const fixed = Buffer.alloc(10);
	fixed.writeUInt16BE(type, 0);
	fixed.writeUInt16BE(1, 2);
	fixed.writeUInt16BE(data.length, 8);
	return Buffer.concat([encode(name), fixed, data]);
}

const A = 1, CNAME = 5, AAAA = 28;

function records(name: string, answer: Answer, type: number): Buffer[] {
	if (answer === 'none')
		return [];
	if (answer === 'loop')
		return [record(name, CNAME, encode(name))];
	const [owner, addresses] = Array.isArray(answer) ? [name, answer] : [answer.cname, answer.then];
	const wanted = addresses.filter((a) => net.isIPv4(a) === (type === A)).map((a) => record(owner, type, bytesOf(a)));
	return Array.isArray(answer) ? wanted : [record(name, CNAME, encode(owner)), ...wanted];
}

/** Whoever listens: says that it was reached, unless the path asks for something else. */
function answer(c: net.Socket, asked: string): void {
	const [, what, more] = /^\/([^/]*)(?:\/(.*))?$/.exec(asked) ?? [];
	const ends: Record<string, () => void> = {
		to: () => c.end(`HTTP/1.1 302 Found\r\nLocation: ${decodeURIComponent(more ?? '')}\r\nContent-Length: 0\r\n\r\n`),
		short: () => c.end('HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nreached'),
		shortchunk: () => c.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nreached'),
		long: () => c.end('HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nreached and more'),
		negative: () => c.end('HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nreached'),
		drip: () => {
			c.write('HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n');
			const timer = setInterval(() => c.write('x'), 100);
			c.on('close', () => clearInterval(timer));
		},
		endless: () => {
			c.write('HTTP/1.1 200 OK\r\n\r\n');
			const more = (): void => { while (!c.destroyed) if (!c.write(Buffer.alloc(1 << 16))) return void c.once('drain', more); };
			more();
		},
	};
	(ends[what ?? ''] ?? ((): void => void c.end('HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nreached')))();
}

async function open(report: (line: string) => void): Promise<void> {
	const ip = (...args: string[]): Buffer => execFileSync('ip', args);
	ip('link', 'set', 'lo', 'up');
	for (const a of LOCAL)
		ip('address', 'add', `${a}/32`, 'dev', 'lo');
	// Reached here, but not an address of this machine, as the kernel tells it: packets to it come from another one.
	ip('route', 'add', 'local', '93.184.215.0/24', 'dev', 'lo', 'src', '10.0.0.1');
	const asked = new Map<string, number>();
	const server = dgram.createSocket('udp4', (question, from) => {
		let end = 12;
		const labels: string[] = [];
		for (; question[end]; end += question[end]! + 1)
			labels.push(question.toString('latin1', end + 1, end + 1 + question[end]!));
		const type = question.readUInt16BE(end + 1);
		const name = labels.join('.').toLowerCase();
		report(`? ${name} ${type}`);
		const answers = name.endsWith(`.${ZONE}`) ? TABLE[name.slice(0, -ZONE.length - 1)] : undefined;
		const n = asked.get(`${name} ${type}`) ?? 0;
		asked.set(`${name} ${type}`, n + 1);
		const found = answers && [A, AAAA].includes(type) ? records(name, answers[n % answers.length]!, type) : [];
		const head = Buffer.from(question.subarray(0, 12));
		head.writeUInt16BE(answers ? 0x8580 : 0x8583, 2);
		head.writeUInt16BE(found.length, 6);
		head.writeUInt32BE(0, 8);
		server.send(Buffer.concat([head, question.subarray(12, end + 5), ...found]), from.port, from.address);
	});
	await new Promise<void>((resolve) => server.bind(53, '127.0.0.1', resolve));
	const canary = net.createServer((c) => {
		report(`> ${c.localAddress!.replace('::ffff:', '')}`);
		c.on('error', () => {}).once('data', (head) => answer(c, /^GET (?:http:\/\/[^/]*)?(\S*)/.exec(head.toString('latin1'))?.[1] ?? ''));
	});
	await new Promise<void>((resolve) => canary.listen(PORT, '::', resolve));
}

async function main([reportFile, , command, ...args]: string[]): Promise<void> {
	const file = path.join(path.dirname(reportFile!), 'resolv.conf');
	fs.writeFileSync(file, 'nameserver 127.0.0.1\noptions timeout:2 attempts:2\n');
	fs.chmodSync(file, 0o644);
	execFileSync('mount', ['--bind', file, fs.realpathSync('/etc/resolv.conf')]);
	await open((line) => fs.appendFileSync(reportFile!, `${line}\n`));
	const child = spawn(command!, args, { stdio: 'inherit' });
	child.on('exit', (code) => process.exit(code ?? 1));
	for (const signal of ['SIGTERM', 'SIGINT'] as const)
		process.on(signal, () => child.kill(signal));
}

if (process.argv[1] === import.meta.filename)
	await main(process.argv.slice(2));
