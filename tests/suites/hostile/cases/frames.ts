// SPDX-License-Identifier: Apache-2.0
// Row 46: WebSockets. What single frames may not be is in tests/integration/rest_terminals.test.ts, too; here are what they may not be together,
// and floods.

import assert from 'node:assert/strict';
import { until } from '../../../lib/wait.ts';
import { frame, type WebSocketClient } from '../../../lib/websocket.ts';
import type { Case, Outside } from '../case.ts';
import { grown, live, said, type Served } from '../served.ts';

const text = (s: string | number[]): Buffer => Buffer.from(s as string);
const all = (...frames: Buffer[]): Buffer => Buffer.concat(frames);

/** A head that says LENGTH in a form of 2 or 8 bytes, whatever follows. */
function lie(form: 2 | 8, length: bigint, data: Buffer = Buffer.alloc(0)): Buffer {
	const n = Buffer.alloc(form);
	if (form === 2)
		n.writeUInt16BE(Number(length));
	else
		n.writeBigUInt64BE(length);
	return all(Buffer.from([0x82, 0x80 | (form === 2 ? 126 : 127)]), n, Buffer.alloc(4), data);
}

/** A terminal whose program shows what reaches it. Each of SICK on a connection of its own must be answered with its code, and nothing of it be shown. */
function refused(o: Outside, sick: () => [string, number, Buffer][]): Promise<void> {
	return live(o, async (s) => {
		const at = await s.terminal(await s.make(), { command: 'stty raw -echo; echo ready; exec cat' });
		const watcher = await s.attach(at);
		await watcher.shows('ready');
		for (const [what, code, bytes] of sick())
			assert.equal(await s.closes(await s.attach(at), bytes), code, what);
		watcher.type('end');
		await watcher.shows('end');
		assert.doesNotMatch(watcher.text, /EVIL/);
	});
}

async function cat(s: Served): Promise<WebSocketClient> {
	const c = await s.attach(await s.terminal(await s.make(), { command: 'stty raw -echo; echo ready; exec cat' }));
	await c.shows('ready');
	return c;
}

export const frameCases: Case[] = [
	{
		id: '46a', without: { walls: ['frames'] }, attack: 'fragments of no message, two messages in one, control frames in pieces, opcodes that are none, no mask', must: '1002, and nothing reaches the program', code: '', held: 0,
		after: (_r, o) => refused(o, () => [
			['reserved bit 2', 1002, frame(0xa2, text('EVIL'))],
			['reserved bit 3', 1002, frame(0x92, text('EVIL'))],
			['goes on with nothing', 1002, frame(0x80, text('EVIL'))],
			['a message within another', 1002, all(frame(0x02, text('a')), frame(0x82, text('EVIL')))],
			['half a ping', 1002, frame(0x09, text('EVIL'))],
			['half a close', 1002, frame(0x08, text([3, 232]))],
			...[3, 4, 5, 6, 7, 11, 12, 13, 14, 15].map((n): [string, number, Buffer] => [`opcode ${n}`, 1002, frame(0x80 | n, text('EVIL'))]),
			['no mask', 1002, all(Buffer.from([0x82, 4]), text('EVIL'))],
		]),
	},
	{
		id: '46b', without: { walls: ['frames'] }, attack: 'lengths that are lies: longer forms than needed, the sign bit, petabytes', must: '1002 or 1009, and no memory is taken for what was only said', code: '', held: 0,
		after: (_r, o) => live(o, (s) => s.holds(8, async () => {
			const c = await cat(s);
			const at = `/sandboxes/${(await s.ask('GET', '/sandboxes')).body.sandboxes[0].id}/terminals/p1`;
			for (const [what, code, bytes] of [
				['5 in two bytes', 1002, lie(2, 5n, text('EVIL!'))], ['300 in eight', 1002, lie(8, 300n)], ['the sign bit', 1002, lie(8, 1n << 63n)],
				['all bits', 1002, lie(8, (1n << 64n) - 1n)], ['petabytes', 1009, lie(8, 1n << 60n)], ['one too many', 1009, lie(2, 32769n)],
			] as const)
				assert.equal(await s.closes(await s.attach(at), bytes), code, what);
			for (let i = 0; i < 20; i++) // each says 32 KiB and sends a byte
				(await s.attach(at)).raw(lie(2, 32768n, text('x')));
			c.type('end');
			await c.shows('end');
		})),
	},
	{
		id: '46c', without: { walls: ['frames'] }, attack: 'texts that are no UTF-8: overlong, surrogates, beyond Unicode, cut at the end, in the second piece', must: '1007, before the message has ended', code: '', held: 0,
		after: (_r, o) => refused(o, () => [
			['overlong', 1007, frame(0x81, text([0xc0, 0x80]))],
			['overlong, three bytes', 1007, frame(0x81, text([0xe0, 0x80, 0xaf]))],
			['a surrogate', 1007, frame(0x81, text([0xed, 0xa0, 0x80]))],
			['beyond', 1007, frame(0x81, text([0xf4, 0x90, 0x80, 0x80]))],
			['cut', 1007, all(frame(0x01, text([0xc3])), frame(0x80, text('')))],
			['in the second piece', 1007, all(frame(0x01, text([0xc3])), frame(0x00, text([0x28])))],
			['while it goes on', 1007, frame(0x01, text([0x61, 0xff]))],
		]),
	},
	{
		id: '46d', without: { walls: ['frames'] }, attack: 'ends with half a code, codes that nobody may send, reasons that are no text', must: '1002 or 1007; a code that may be sent comes back', code: '', held: 0,
		after: (_r, o) => refused(o, () => [
			...[0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535].map((n): [string, number, Buffer] => [`code ${n}`, 1002, frame(0x88, text([n >> 8, n & 255]))]),
			['one byte', 1002, frame(0x88, text([3]))],
			['a reason of 0xff', 1007, frame(0x88, text([3, 232, 0xff]))],
			...[1000, 1001, 3000, 4999].map((n): [string, number, Buffer] => [`code ${n}`, n, frame(0x88, text([n >> 8, n & 255]))]),
		]),
	},
	{
		id: '46e', without: { walls: ['frames'] }, attack: 'one message in pieces without end: empty ones, and some of a byte', must: 'empty ones take nothing; too many bytes are 1009', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const at = await s.terminal(await s.make(), { command: 'stty raw -echo; echo ready; exec cat' });
			const c = await s.attach(at);
			await c.shows('ready');
			await s.holds(8, async () => {
				const none = all(...Array.from({ length: 1000 }, () => frame(0x00, text(''))));
				c.raw(frame(0x02, text('be')));
				for (let i = 0; i < 50; i++)
					c.raw(none);
				c.raw(frame(0x80, text('gun')));
				await c.shows('begun');
				const big = all(frame(0x02, text('')), ...Array.from({ length: 34 }, () => frame(0x00, Buffer.alloc(1000, 'E'))));
				assert.equal(await s.closes(await s.attach(at), big), 1009);
			});
			assert.doesNotMatch(c.text, /E/);
		}),
	},
	{
		id: '46f', planted: grown, attack: '40,000 pings by a client that reads no answer', must: 'one answer waits, not 40,000; the server goes on', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const c = await cat(s), other = await s.attach(`/sandboxes/${(await s.ask('GET', '/sandboxes')).body.sandboxes[0].id}/terminals/p1`);
			await s.holds(8, async () => {
				const some = all(...Array.from({ length: 1000 }, () => frame(0x89, Buffer.alloc(125, 'p'))));
				c.socket.pause();
				for (let i = 0; i < 40; i++)
					c.raw(some);
				await until('them to be sent, or to wait', () => c.socket.writableLength === 0 || s.resident() > 0);
				other.type('through');
				await other.shows('through');
			});
			c.socket.resume();
			await until('answers', () => c.pongs > 0);
			assert.ok(c.pongs <= 40_000);
		}),
	},
	{
		id: '46g', planted: said('a second answer comes', (t) => (t.startsWith('HTTP/') ? `${t}HTTP/1.1 200 OK\r\n\r\n` : t)), attack: 'handshakes that are none, with a request behind them', must: 'one refusal, and what follows is never a request', code: '', held: 0,
		after: (_r, o) => live(o, async (s) => {
			const id = await s.make();
			const at = `/api/v1${await s.terminal(id, { command: 'cat' })}`;
			const own = `Host: 127.0.0.1:${s.port}\r\nX-Api-Key: ${s.alice}\r\n`, key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n', up = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
			const second = `GET /api/v1/me HTTP/1.1\r\n${own}\r\n`;
			for (const [what, head] of [
				['another version', `GET ${at} HTTP/1.1\r\n${own}${up}${key}Sec-WebSocket-Version: 8\r\n\r\n`],
				['a list of versions', `GET ${at} HTTP/1.1\r\n${own}${up}${key}Sec-WebSocket-Version: 8, 13\r\n\r\n`],
				['no key', `GET ${at} HTTP/1.1\r\n${own}${up}Sec-WebSocket-Version: 13\r\n\r\n`],
				['a short key', `GET ${at} HTTP/1.1\r\n${own}${up}Sec-WebSocket-Key: YQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`],
				['no base64', `GET ${at} HTTP/1.1\r\n${own}${up}Sec-WebSocket-Key: !!!!!!!!!!!!!!!!!!!!!!==\r\nSec-WebSocket-Version: 13\r\n\r\n`],
				['HTTP/1.0', `GET ${at} HTTP/1.0\r\n${own}${up}${key}Sec-WebSocket-Version: 13\r\n\r\n`],
				['a body', `GET ${at} HTTP/1.1\r\n${own}${up}${key}Sec-WebSocket-Version: 13\r\nContent-Length: ${second.length}\r\n\r\n`],
				['chunks', `GET ${at} HTTP/1.1\r\n${own}${up}${key}Sec-WebSocket-Version: 13\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
				['no Connection', `GET ${at} HTTP/1.1\r\n${own}Upgrade: websocket\r\n${key}Sec-WebSocket-Version: 13\r\n\r\n`],
			]) {
				const answers = [...(await s.exchange(head + second)).matchAll(/HTTP\/1\.1 (\d{3})/g)].map((m) => m[1]);
				assert.equal(answers.length, 1, `${what}: ${answers}`);
				assert.match(answers[0]!, /^4/, what);
			}
		}),
	},
];
