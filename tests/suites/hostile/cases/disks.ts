// SPDX-License-Identifier: Apache-2.0
// Row 4 of the list, for the server's own time: a tenant's disk that is slow, and files in many pieces. Threads wait for them (base/workers.h); the event loop, which serves
// everybody, does not. Judged by the loop's own watch of long turns. Without the threads the build of the twins notices the first call that could wait, and ends.
// And the disk of the host that is smaller than what its sandboxes may hold together: what a program was told to be on disk is there after a crash.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as os from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { newStateDir, slowness } from '../../../lib/env.ts';
import { serve, type Json } from '../../../lib/session.ts';
import { SmallDisk } from '../../../lib/small-disk.ts';
import { held } from '../../../lib/turns.ts';
import type { Case, Outside } from '../case.ts';

const MiB = 1 << 20;
const PIECES = 20_000; // of a file: every second block is a hole
const TOLD_MS = 20;
const TURN_MS = 50;
const PUT_BYTES = 1024 * MiB;

// Not in the page cache afterwards, so that a reader needs the disk.
const fragmented = `
import os
fd = os.open("pieces", os.O_CREAT | os.O_RDWR, 0o644)
for i in range(${PIECES}):
    os.pwrite(fd, b"x" * 4096, i * 8192)
os.fsync(fd)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
os.close(fd)`;

interface Server {
	base: string;
	id: string;
	run: (code: string) => Promise<void>;
}

/** A request whose answer is not read beyond its first bytes; resolves when they are there. */
function begin(url: string): Promise<http.ClientRequest> {
	return new Promise((resolve, reject) => {
		const req = http.get(url, (answer) => answer.once('readable', () => {
			answer.on('error', () => {});
			resolve(req);
		}));
		req.on('error', reject);
	});
}

const finished = (url: string): Promise<number> => new Promise((resolve, reject) => {
	http.get(url, (answer) => {
		let n = 0;
		answer.on('data', (b: Buffer) => (n += b.length)).on('close', () => resolve(n)).on('error', () => {});
	}).on('error', reject);
});

/** PUTs BYTES zeros as fast as the server takes them; the status. */
function put(url: string, bytes: number): Promise<number> {
	const piece = Buffer.alloc(MiB);
	return new Promise((resolve, reject) => {
		let left = bytes;
		const req = http.request(url, { method: 'PUT', headers: { 'content-length': bytes } }, (r) => {
			r.resume();
			resolve(r.statusCode!);
		});
		req.on('error', reject);
		const more = (): void => {
			while (left > 0) {
				left -= piece.length;
				if (!req.write(piece))
					return void req.once('drain', more);
			}
			req.end();
		};
		more();
	});
}

/** Does ATTACK on a server of its own while somebody else asks for /healthz, and judges what the loop did meanwhile. */
async function beside(o: Outside, what: string, stored: boolean, attack: (s: Server) => Promise<void>): Promise<void> {
	const env = { ...o.env, SANDBOX_STATE_DIR: newStateDir(), CAISSON_WATCH_TURNS: String(TOLD_MS), SANDBOX_MAX_UPLOAD_BYTES: String(2 * PUT_BYTES), SANDBOX_POOL: '0' };
	const { program, base } = await serve({ profile: 'full', env });
	const ask = async (path: string, body: Json): Promise<Json> => {
		const r = await fetch(`${base}/api/v1/${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
		return await r.json() as Json;
	};
	const times: number[] = [];
	let ended = false;
	try {
		const made = await ask('sandboxes', { kind: stored ? 'stored' : 'session' });
		assert.ok(made.id, JSON.stringify(made));
		const victim = (async () => {
			while (!ended) {
				const t = performance.now();
				assert.ok((await fetch(`${base}/healthz`)).ok);
				times.push(performance.now() - t);
				await pause(5);
			}
		})();
		victim.catch(() => {}); // told below
		const run = async (code: string): Promise<void> => {
			const r = await ask(`sandboxes/${made.id}/runs`, { code, wait: true, timeout_s: 120 });
			assert.equal(r.exit_code, 0, JSON.stringify(r));
		};
		try {
			await attack({ base, id: made.id, run });
		} finally {
			ended = true;
		}
		await victim;
		const left = await fetch(`${base}/api/v1/sandboxes/${made.id}?force=true`, { method: 'DELETE' });
		assert.ok(left.status < 300, `${left.status}`);
		assert.ok((await fetch(`${base}/healthz`)).ok);
	} finally {
		await program.end();
		o.logged(program.stderr);
	}
	times.sort((a, b) => a - b);
	console.error(`${what}: ${times.length} answers beside it, p50 ${times[times.length >> 1]!.toFixed(1)} ms, p99 ${times[Math.floor(times.length * 0.99)]!.toFixed(1)} ms, load ${os.loadavg()[0]!.toFixed(0)}`);
	assert.deepEqual(held(program.stderr, TURN_MS * slowness), [], 'the loop was held');
}

const HOST = '600m'; // less than the disks of two sandboxes
const DISK = '400m';
const PIECE = 4 * MiB;

/** Writes numbered files, each on disk (fsync) before the next, and a last one, after.txt. Prints what was accepted, what was then told to be lost, and `full`. */
const filler = `
import errno, os
def write(name, data):
    accepted = False
    try:
        fd = os.open(name, os.O_CREAT | os.O_WRONLY)
        if os.write(fd, data) == len(data):
            accepted = True
            print("kept", name, flush=True)
            os.fsync(fd)
            return True
    except OSError as e:
        if accepted or e.errno != errno.ENOSPC:
            print("lost", name, e.strerror, flush=True)
    if not accepted:
        print("full", flush=True)
        try:
            os.remove(name)
        except OSError as e:
            print("lost", name, e.strerror, flush=True)
    return False
n = 0
while n < ${400 * MiB / PIECE} and write(f"f{n}", n.to_bytes(4, "big") * ${PIECE / 4}):
    n += 1
write("after.txt", b"written after")`;
const missing = (kept: string[]): string => `
import json
bad = []
for name in ${JSON.stringify(kept)}:
    want = b"written after" if name == "after.txt" else int(name[1:]).to_bytes(4, "big") * ${PIECE / 4}
    try:
        whole = open(name, "rb").read() == want
    except OSError as e:
        whole = False
    if not whole:
        bad.append(name)
print(json.dumps(bad))`;

/** Two stored sandboxes fill a host that is too small for both, everything is killed with SIGKILL, and another server looks what there is. */
async function fillHost(o: Outside): Promise<void> {
	const d = new SmallDisk();
	const ask = async (where: string, body: Json): Promise<Json> => {
		const r = await fetch(`${d.base}/api/v1/sandboxes${where}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
		return await r.json() as Json;
	};
	const run = (id: string, code: string): Promise<Json> => ask(`/${id}/runs`, { code, wait: true, timeout_s: 120 });
	try {
		await d.serveOnDisk(HOST, { ...o.env as Record<string, string>, SANDBOX_STORED_WORKSPACE_LIMIT: DISK, SANDBOX_STORED_WORKSPACE_FILES: '1000', SANDBOX_ALLOW_WEAKER: 'disk', SANDBOX_WARM: 'off', CAISSON_WATCH_TURNS: String(TOLD_MS) });
		const ids = await Promise.all([1, 2].map(async () => {
			const made = await ask('', { kind: 'stored' });
			assert.ok(made.id, JSON.stringify(made));
			return made.id as string;
		}));
		// for the next server's database: without the wall nothing would be left for it
		execFileSync('fallocate', ['-l', String(32 * MiB), d.file('room')]);
		const filled = await Promise.all(ids.map(async (id) => {
			const r = await run(id, filler);
			assert.ok(r.exit_code === 0 || r.reason === 'disk_limit', `the program ends: ${JSON.stringify(r)}`);
			const said = (word: string): string[] => (r.stdout as string).split('\n').filter((l) => l.startsWith(word)).map((l) => l.slice(word.length).trim());
			return { kept: said('kept'), lost: said('lost'), full: r.exit_code !== 0 || said('full').length > 0 };
		}));
		o.logged(d.program.stderr);
		fs.rmSync(d.file('room'));
		await d.again();
		const bad = await Promise.all(ids.map(async (id, i) => {
			const r = await run(id, missing(filled[i]!.kept));
			return r.exit_code === 0 ? JSON.parse(r.stdout as string) as string[] : [`all: ${r.code ?? r.stderr}`];
		}));
		const kept = filled.map((f) => f.kept.length);
		console.error(`host full: ${kept.join(' and ')} files of ${PIECE / MiB} MB accepted, ${bad.flat().length} not there after SIGKILL`);
		assert.deepEqual(bad, [[], []], `accepted, and lost; the program was told ${JSON.stringify(filled.map((f) => f.lost))}`);
		assert.deepEqual(filled.map((f) => f.lost), [[], []], 'nothing but ENOSPC is said');
		assert.ok(filled.some((f) => f.full) && kept[0]! + kept[1]! > 50, `the host was full: ${kept}`);
	} finally {
		await d.end();
	}
}

const file = (s: Server, name: string): string => `${s.base}/api/v1/sandboxes/${s.id}/files/${name}`;
const twin = { without: { walls: ['threads'] } };

export const diskCases: Case[] = [
	{
		id: '4g', attack: 'a file in many pieces is cut while its owner downloads what is not in memory', must: 'others are answered at once', code: '', held: 0, ...twin,
		after: (_r, o) => beside(o, 'cut while it is downloaded', false, async (s) => {
			await s.run(fragmented);
			await Promise.all([finished(file(s, 'pieces')), s.run('import os\nos.truncate("pieces", 4096)')]);
		}),
	},
	{
		id: '4h', attack: 'a download begins, the file loses its name, the client leaves: the server has the last descriptor', must: 'others are answered at once', code: '', held: 0, ...twin,
		after: (_r, o) => beside(o, 'last descriptor', false, async (s) => {
			await s.run(fragmented);
			const req = await begin(file(s, 'pieces'));
			await s.run('import os\nos.unlink("pieces")');
			req.destroy();
			await s.run('print("gone")');
		}),
	},
	{
		id: '4i', attack: `an upload of ${PUT_BYTES / MiB} MB into a stored sandbox, faster than the disk`, must: 'others are answered at once', code: '', held: 0, ...twin,
		after: (_r, o) => beside(o, 'large upload', true, async (s) => {
			assert.equal(await put(file(s, 'large'), PUT_BYTES), 201);
		}),
	},
	{
		id: '4j', attack: 'two stored sandboxes write more than the disk of the host has; then all is killed', must: 'ENOSPC; all that was accepted is there', code: '', held: 0, mounts: true,
		without: { walls: ['promises'] }, after: (_r, o) => fillHost(o),
	},
];
