// SPDX-License-Identifier: Apache-2.0
// The init of one sandbox was taken over and says everything wrongly: order, lengths, descriptors, floods, or nothing. That sandbox is lost; the front and the sandbox
// beside it are as before. A library stands between front and init (suites/torture/init_lies.c).

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { binary, engine, mode, sanitized, scratch } from '../lib/env.ts';
import { openDescriptors, residentBytes, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until, within } from '../lib/wait.ts';

/** enum lie of the library, without the first; after them how the sandbox ends: by itself, or when it is deleted. */
const LIES = ['silent', 'mute', 'deaf', 'long', 'short', 'others', 'twice', 'serial', 'descriptors', 'pipes', 'colds', 'ends', 'files', 'changes', 'readies', 'errnos', 'ports'] as const;
const QUIET: readonly string[] = ['silent', 'mute', 'deaf'];
const MiB = 1 << 20;
/** They want to be the first library. */
const sanitizers = sanitized ? [execFileSync('gcc', ['-print-file-name=libasan.so'], { encoding: 'utf8' }).trim()] : [];

interface Answer { status: number; body: Json; text: string }

const skip = engine !== 'native' ? 'the library knows the messages of the native monitor' : mode !== 'root' ? 'once is enough: the front is the same for everybody' : false;

describe('an init that lies', { skip }, () => {
	const file = path.join(scratch('lies'), 'control');
	let program: Program, base: string, good: string;

	const field = (n: number): number => {
		const b = Buffer.alloc(8), fd = fs.openSync(file, 'r');
		fs.readSync(fd, b, 0, 8, 8 * n);
		fs.closeSync(fd);
		return Number(b.readBigInt64LE());
	};
	function arm(lie: number): void {
		const b = Buffer.alloc(8), fd = fs.openSync(file, 'r+'); // in place: the server has it mapped
		b.writeBigInt64LE(BigInt(lie));
		fs.writeSync(fd, b, 0, 8, 0);
		fs.closeSync(fd);
	}
	async function api(method: string, target: string, json?: Json): Promise<Answer> {
		const r = await fetch(`${base}/api/v1/${target}`, { method, headers: { ...(json ? { 'content-type': 'application/json' } : {}), connection: 'close' }, body: json && JSON.stringify(json) }).catch((e: Error) => {
			throw new Error(`${method} ${target}: ${e.message}; the server: ${program.child.exitCode ?? program.child.signalCode ?? 'lives'}, ${program.stderr.slice(-2000)}`);
		});
		const text = await r.text();
		return { status: r.status, text, body: text.startsWith('{') ? JSON.parse(text) as Json : {} };
	}
	async function works(what: string): Promise<void> {
		const r = await within(`a run beside ${what}`, api('POST', `sandboxes/${good}/runs`, { code: 'print(6 * 7)', wait: true }), 30_000);
		assert.equal(r.body.stdout, '42\n', `${what}: ${r.status} ${r.text}`);
		assert.equal(program.child.exitCode ?? program.child.signalCode, null, `${what}: the server ended: ${program.stderr}`);
	}

	before(async () => {
		fs.writeFileSync(file, Buffer.alloc(24));
		fs.chmodSync(file, 0o666);
		({ program, base } = await serve({ profile: 'full', env: { LD_PRELOAD: [...sanitizers, path.join(path.dirname(binary), 'tests/suites/torture/init_lies.so')].join(' '), LIES_CONTROL: file, SANDBOX_POOL: '0', SANDBOX_EXEC_TIMEOUT_S: '3', SANDBOX_KILL_GRACE_MS: '300' } }));
		good = (await api('POST', 'sandboxes', {})).body.id;
		await works('nothing');
	});
	after(async () => {
		arm(0);
		await program.end();
	});

	for (const [i, lie] of LIES.entries())
		it(lie, async () => {
			const calm = { descriptors: openDescriptors(program.pid), bytes: residentBytes(program.pid), started: field(1), sent: field(2) };
			arm(i + 1);
			// Everything that a client can ask of it, each with an answer that waits for init.
			const making = api('POST', 'sandboxes', {});
			await until('the liar', () => field(1) === calm.started + 1);
			const asked: Promise<Answer>[] = [making];
			const made = lie === 'silent' ? undefined : await within('the sandbox', making, 30_000);
			const at = made?.body.id as string | undefined;
			if (at)
				asked.push(...[
					api('POST', `sandboxes/${at}/runs`, { code: 'open("a", "w").write("a"); print(1)', wait: true }), api('GET', `sandboxes/${at}/files`), api('GET', `sandboxes/${at}/files/a`), api('GET', `sandboxes/${at}/events?path=none`), api('GET', `sandboxes/${at}/usage`),
					api('POST', `sandboxes/${at}/checkpoints`, { name: 'p' }), api('POST', `sandboxes/${at}/complete`, { code: 'pri', cursor: 3 }), api('POST', `sandboxes/${at}/runs`, { code: 'x = 1', stateful: true, wait: true }),
				]);
			const ports = lie === 'ports' ? api('GET', `sandboxes/${at}/events?ports=true`) : undefined; // else it may have no end
			for (let n = 0; n < 5; n++)
				await works(lie);
			assert.ok(residentBytes(program.pid) - calm.bytes < 16 * MiB, `${lie}: ${(residentBytes(program.pid) - calm.bytes) / MiB} MiB more`);
			assert.ok(openDescriptors(program.pid) <= calm.descriptors + 40, `${lie}: ${openDescriptors(program.pid)} descriptors`);
			if (QUIET.includes(lie) && at)
				assert.ok([204, 404, 410].includes((await within('its end', api('DELETE', `sandboxes/${at}?force=true`), 30_000)).status));
			if (lie !== 'silent')
				for (const r of await within('typed answers', Promise.all(asked), 60_000))
					assert.ok(r.status < 400 || (r.body.code && r.status !== 500), `${lie}: ${r.status} ${r.text}`);
			if (ports)
				assert.equal((await within('the stream of ports', ports, 60_000)).body.code, 'sandbox_lost');
			if (!QUIET.includes(lie))
				assert.ok(field(2) > calm.sent, `${lie}: it said something`);
			if (at)
				await api('DELETE', `sandboxes/${at}?force=true`);
			await works(`after ${lie}`);
			if (lie === 'silent') // nobody knows its id yet; the set-up has a deadline
				void making.catch(() => {});
			else
				await until(`${lie}: descriptors to go`, () => openDescriptors(program.pid) <= calm.descriptors + 4, 20_000);
		});
});
