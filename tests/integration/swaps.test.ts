// SPDX-License-Identifier: Apache-2.0
// Names that are swapped while the server reads, lists, packs, writes and removes them, for a minute: nothing is ever seen,
// written or removed but what lies in the workspace itself, and nothing waits. (Cases 9a-9c of tests/suites/hostile have the twins.)

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { mode, sanitized, scratch } from '../lib/env.ts';
import { facts, using, type Json, type Session } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const SECONDS = mode === 'root' && !sanitized ? 60 : 10;
const TRIES = 20; // of each way at least, however slow the machine is
const ANSWER_MS = 60_000; // a FIFO that is waited for never answers
const id = 'swapped';

/** Until there is a file `stop`: each child swaps one kind of name. `keep` is what a link leads to, inside. */
const swapper = (canary: string): string => `
import os, socket, time
os.makedirs("/tmp/keep"); open("/tmp/keep/victim", "w").write("outside")
for d in ("a", "d", "many"):
    os.mkdir(d)
open("a/passwd", "w").write("good"); open("d/victim", "w").write("good"); open("hard", "w").write("good")

def put(make, name="swap.txt"):
    make("t." + name); os.rename("t." + name, name)

def file(at):
    open(at, "w").write("good")

def bound(at):
    s = socket.socket(socket.AF_UNIX); s.bind(at); s.close()

def sparse(at):
    with open(at, "wb") as f:
        f.write(b"good"); f.truncate(1 << 40)

def swap_file():
    for make in (file, lambda at: os.symlink("/etc/passwd", at), file, lambda at: os.symlink(${JSON.stringify(canary)}, at), os.mkfifo,
                 lambda at: os.link("hard", at), bound, lambda at: os.symlink("/proc/self/environ", at), sparse, lambda at: os.symlink("/dev/null", at)):
        put(make); yield

def swap_folder(name, target):
    if os.path.islink(name):
        os.unlink(name)
    if not os.path.isdir(name):  # whoever removed what was away
        os.mkdir(name)
    for known in ("passwd", "victim"):
        file(f"{name}/{known}")
    yield
    os.rename(name, name + ".away"); os.symlink(target, name); yield
    os.unlink(name); os.rename(name + ".away", name)

def odd():
    for n in (b"a\\nb", b"-rf", b"caf\\xe9", b"x" * 255, "\\u202etxt".encode(), b"%2e%2e", b" "):
        open(b"many/" + n, "wb").write(b"good")
    for i in range(500):
        open(f"many/{i}", "w").close()
    yield
    for n in os.listdir(b"many"):
        os.unlink(b"many/" + n)
    yield

def forever(steps):
    while not os.path.exists("stop"):
        try:
            for _ in steps():
                time.sleep(0.0005)
        except OSError:
            time.sleep(0.001)

kinds = (swap_file, lambda: swap_folder("a", "/etc"), lambda: swap_folder("d", "/tmp/keep"), odd)
for steps in kinds:
    if os.fork() == 0:
        forever(steps)
        os._exit(0)
for _ in kinds:
    os.wait()
print(sorted(os.listdir("/tmp/keep")), open("/tmp/keep/victim").read())
`;

describe('names are swapped meanwhile', () => {
	const canary = path.join(scratch('canary'), 'canary.txt');
	const secret = 'the canary of the host';
	fs.writeFileSync(canary, secret);

	/** Whether there is anything of it that is not the workspace's. */
	const judge = (what: string, body: Buffer | string): void => {
		const text = body.toString('latin1');
		assert.doesNotMatch(text, /root:[x*!]?:0:0:|PYTHON[A-Z]*=|HOME=\//, `${what}: a file of the image was seen`);
		assert.ok(!text.includes(secret), `${what}: a file of the host was seen`);
	};

	it(`(slow) ${SECONDS} s of every way to a file`, () => using('http', { profile: 'all', env: { SANDBOX_EXEC_TIMEOUT_S: '900', SANDBOX_MAX_ARTIFACT_READ_BYTES: '65536' } }, async (s: Session) => {
		const files = `${s.base}/api/v1/sandboxes/${id}/files`;
		const http = async (what: string, url: string, init: RequestInit = {}): Promise<boolean> => {
			const abort = new AbortController();
			const timer = setTimeout(() => abort.abort(), ANSWER_MS);
			let size = 0, begun = false;
			try {
				const r = await fetch(url, { ...init, signal: abort.signal });
				begun = true;
				const reader = r.body?.getReader();
				for (let piece = await reader?.read(); piece?.value; piece = await reader?.read()) {
					judge(what, Buffer.from(piece.value));
					if ((size += piece.value.length) > 1 << 20)
						abort.abort(); // a hole of a terabyte
				}
				return r.status < 300;
			} catch (e) {
				if (size > 1 << 20)
					return true;
				if (begun && !abort.signal.aborted)
					return false; // cut short: the file became smaller while it was sent
				throw e;
			} finally {
				clearTimeout(timer);
			}
		};
		const tool = async (name: string, args: Json): Promise<boolean> => {
			const r = await s.raw(name, { session_id: id, ...args });
			const said = JSON.stringify(r);
			judge(name, said);
			const object = facts(r);
			if (typeof object.content_base64 === 'string')
				judge(name, Buffer.from(object.content_base64, 'base64'));
			return !r.isError && object.error === undefined;
		};
		/** The link that a listing gives, followed. */
		const link = async (): Promise<boolean> => {
			const r = await s.raw('sandbox_list_artifacts', { session_id: id });
			const all = (facts(r)).artifacts as Json[] | undefined;
			const found = all?.find((f) => f.filename === 'swap.txt' && f.download_url);
			return found ? http('a link', found.download_url as string) : false;
		};
		const ways: [string, () => Promise<boolean>, ('both' | 'any')?][] = [ // what must have happened: that it worked, and was refused
			['read a file', () => tool('sandbox_read_artifact', { path: '/mnt/data/swap.txt' }), 'both'],
			['read below a folder', () => tool('sandbox_read_artifact', { path: '/mnt/data/a/passwd' }), 'both'],
			['get a file', () => http('get', `${files}/swap.txt`), 'both'],
			['get a part', () => http('get a part', `${files}/a/passwd`, { headers: { range: 'bytes=0-9' } }), 'both'],
			['follow a link', link, 'any'],
			['list', () => http('list', `${files}?path=`)],
			['list a folder', () => http('list a folder', `${files}?path=a`)],
			['list many', () => http('list many', `${files}?path=many`)],
			['pack a folder', () => http('pack a folder', `${files}?path=a&archive=tar`)],
			['pack many', () => http('pack many', `${files}?path=many&archive=tar`)],
			['overwrite a file', () => tool('sandbox_upload_file', { filename: 'over.txt', content_base64: 'Z29vZA==', overwrite: true })],
			['write below a folder', () => http('put', `${files}/d/new.txt?overwrite=true`, { method: 'PUT', body: 'through' }), 'both'],
			['remove below a folder', () => http('delete', `${files}/d/victim`, { method: 'DELETE' }), 'both'],
			['remove a folder', () => http('delete', `${files}/d.away?recursive=true`, { method: 'DELETE' }), 'any'],
		];
		const run = s.raw('sandbox_run_python', { session_id: id, code: swapper(canary) }, { timeout: 15 * 60_000 });
		run.catch(() => {}); // what failed first is what is told
		await until('the swapping', async () => (await s.raw('sandbox_list_artifacts', { session_id: id })).content[0]!.text!.includes('"hard"'), ANSWER_MS);
		const end = performance.now() + SECONDS * 1000;
		const counts = await Promise.all(ways.map(async ([name, way, must]) => {
			const n = { name, must, worked: 0, refused: 0 };
			while (performance.now() < end || n.worked + n.refused < TRIES)
				n[await way() ? 'worked' : 'refused']++;
			return n;
		}));
		await s.upload('stop', '', id);
		const said = await run;
		const result = facts(said);
		assert.equal(result.stdout, "['victim'] outside\n", JSON.stringify(result));
		assert.equal(fs.readFileSync(canary, 'utf8'), secret);
		for (const n of counts)
			assert.ok(n.must === 'any' || (n.worked > 0 && (n.must !== 'both' || n.refused > 0)), `${n.name}: ${n.worked} worked, ${n.refused} were refused: the names did not change meanwhile`);
	}));
});
