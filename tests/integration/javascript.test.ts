// SPDX-License-Identifier: Apache-2.0
// JavaScript and TypeScript beside Python: cells with variables that stay, over REST and as a tool's argument.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { asker } from '../lib/asker.ts';
import { newStateDir } from '../lib/env.ts';
import { Stream } from '../lib/event-stream.ts';
import type { Program } from '../lib/process.ts';
import { matrix, serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

type Wanted = { value?: string | RegExp; stdout?: string | RegExp; stderr?: string | RegExp; code?: number };
type Cell = [code: string, wanted?: Wanted, more?: Json];

const TS = { language: 'typescript' };
const PY = { language: 'python' };

/** How the code reaches the pipe on which the kernel answers. */
const REPLIES = 'const fs = require("fs"), fd = Number(fs.readFileSync("/proc/self/cmdline", "utf8").split("\\0").at(-3))';
const FORGED = /NodeEnded: .* it sent what is no message of the kernel/;

/** Each row is a sandbox of its own. */
const rows: Record<string, Cell[]> = {
	'variables, functions and classes stay': [['const a = 1; let b = [2]; var c = 3\nfunction f() { return a + c }\nclass X { static n = 5 }'], ['b.push(4); [f(), b, X.n]', { value: '[ 4, [ 2, 4 ], 5 ]' }]],
	'all of them can be declared again': [['const a = 1; class X {}; function f() { return 1 }'], ['const a = "new"; class X { static s = a }; let f = 2; [a, X.s, f]', { value: "[ 'new', 'new', 2 ]" }], ['let f; f', { value: '' }]],
	'names of Node can be declared': [['const crypto = require("crypto"), fetch = 1, performance = 2; [typeof crypto.createHash, fetch, performance]', { value: "[ 'function', 1, 2 ]" }]],
	'the value of a last expression': [['1;\n2;', { value: '2' }], ['const q = 3', { value: '' }], ['{ a: 1 }', { value: '{ a: 1 }' }], ['{ let z = 1; z }', { value: '' }], ['null', { value: 'null' }], ['undefined', { value: '' }], ['_', { value: 'null' }], ['"a\\nb"', { value: "'a\\nb'" }]],
	'await at the top level': [['const x = await Promise.resolve(20), { y, ...z } = await { y: 1, w: 2 }\nclass K { static v = x }\nfunction g() { return K.v + y }\ng() + z.w', { value: '23' }], ['[x, y, z, g()]', { value: '[ 20, 1, { w: 2 }, 21 ]' }], ['for await (const v of (async function* () { yield 7 })()) console.log(v)', { stdout: '7\n' }],
		['for (var i = 0; i < 3; i++) await i\nif (await true) var t = 1; else var t = 2;\n[i, t]', { value: '[ 3, 1 ]' }]],
	'a last promise is awaited': [['async function main() { await 0; console.log("in it"); return 5 }\nmain()', { stdout: 'in it\n', value: '5' }]],
	'import and require': [['require("fs").writeFileSync("m.mjs", "export const q = 5; export default \'d\'; export const many = [1]"); require("fs").writeFileSync("c.js", "exports.r = 6"); require("fs").writeFileSync("d.json", "{\\"j\\": 7}")'],
		['import d, { q as renamed } from "./m.mjs"\nimport * as ns from "./m.mjs"\nimport fs, { readFileSync } from "node:fs"\n[d, renamed, ns.many, require("./c.js").r, readFileSync === fs.readFileSync]', { value: "[ 'd', 5, [ 1 ], 6, true ]" }],
		['renamed + (await import("./m.mjs")).q', { value: '10' }], ['import j from "./d.json" with { type: "json" }; j.j', { value: '7' }], ['import { nope } from "./m.mjs"', { code: 1, stderr: /SyntaxError: .*'nope'/ }], ['import x from "no-such-package"', { code: 1, stderr: /Cannot find package 'no-such-package'/ }],
		['[import.meta.url, __dirname, import.meta.dirname]', { value: /file:\/\/\/mnt\/data\/.*'\/mnt\/data',\s+'\/mnt\/data'/s }]],
	'packages of the workspace and of the image': [['const fs = require("fs"); fs.mkdirSync("node_modules/own", { recursive: true }); fs.writeFileSync("node_modules/own/package.json", \'{"name":"own","exports":{"import":"./i.mjs","require":"./r.cjs"}}\'); fs.writeFileSync("node_modules/own/i.mjs", "export default 1"); fs.writeFileSync("node_modules/own/r.cjs", "module.exports = 2")'],
		['import one from "own"; [one, require("own")]', { value: '[ 1, 2 ]' }], ['import again from "npm:own@1.2"; [again, await import("npm:own").then((m) => m.default)]', { value: '[ 1, 1 ]' }],
		['import none from "npm:@scope/none@^2/sub"', { code: 1, stderr: /Cannot find package '@scope\/none\/sub'/ }], ['import { Parser } from "acorn"; typeof Parser', { value: "'function'" }]],
	'a file that has changed is read again': [['const fs = require("fs"); fs.writeFileSync("h.js", "exports.v = 1"); require("./h.js").v', { value: '1' }], ['fs.writeFileSync("h.js", "exports.v = 2"); fs.utimesSync("h.js", 1, 1); require("./h.js").v', { value: '2' }],
		['fs.writeFileSync("h.mjs", "export const v = 1"); (await import("./h.mjs")).v', { value: '1' }], ['fs.writeFileSync("h.mjs", "export const v = 2"); fs.utimesSync("h.mjs", 1, 1); (await import("./h.mjs")).v', { value: '2' }]],
	'TypeScript': [['interface P { n: number }\nenum Color { Red, Green = 4 }\nconst p: P = { n: 1 }\nlet s = <string>"t"\n;[p.n as number, Color.Green, s]', { value: "[ 1, 4, 't' ]" }, TS], ['p.n + Color.Green', { value: '5' }], ['type T = { a: P }\nabstract class A<X> { constructor(private x: X) {} get() { return this.x } }\nnew (class extends A<number> {})(8).get()', { value: '8' }, TS],
		['\n\ninterface Q {\n  a: 1\n}\nfunction bad(x: number): never {\n  throw new RangeError("at " + x)\n}\nbad(3)', { code: 1, stderr: /<cell 4>:7\n {2}throw new RangeError.*\n +\^\n\nRangeError: at 3\n {4}at bad \(<cell 4>:7:9\)\n {4}at <cell 4>:9:1\n/ }, TS], ['let x: = 1', { code: 1, stderr: /<cell 5>:1\nlet x: = 1\n +\^\n\nSyntaxError: / }, TS],
		['require("fs").writeFileSync("t.ts", "export interface I { a: number }\\nexport const typed: I = { a: 9 }\\nexport enum E { A }")'], ['import { I, typed, E } from "./t.ts"\nconst i: I = typed\n;[i, E.A]', { value: '[ { a: 9 }, 0 ]' }, TS]],
	'errors name the cell and the line': [['function f(x) {\n  throw new TypeError("bad " + x)\n}'], ['\nf(1)', { code: 1, stderr: /^<cell 1>:2\n {2}throw new TypeError.*\n {8}\^\n\nTypeError: bad 1\n {4}at f \(<cell 1>:2:9\)\n {4}at <cell 2>:2:1\n$/ }],
		['const a = await 1; f(2)', { code: 1, stderr: /at <cell 3>:1:20\n$/ }], ['let x = ;', { code: 1, stderr: /^<cell 4>:1\nlet x = ;\n {8}\^\n\nSyntaxError: Unexpected token\n$/ }], ['nowhere', { code: 1, stderr: /ReferenceError: nowhere is not defined/ }], ['throw null', { code: 1, stderr: 'Uncaught null\n' }], ['throw { a: 1 }', { code: 1, stderr: 'Uncaught { a: 1 }\n' }],
		['throw new Error("outer", { cause: new Error("inner") })', { code: 1, stderr: /outer[^]*\[cause\]: Error: inner/ }], ['class Own extends Error { name = "Own"; extra = 1 }\nthrow new Own("m")', { code: 1, stderr: /Own: m\n.*\{\n {2}extra: 1\n\}/ }]],
	'what nobody catches is an error of the cell': [['Promise.reject(new Error("unhandled")); 5', { code: 1, stderr: /Error: unhandled/, value: '' }], ['setTimeout(() => { throw new Error("late") }, 5); await new Promise((r) => setTimeout(r, 2000))', { code: 1, stderr: /Error: late/ }], ['6', { value: '6' }]],
	'a promise that nothing can settle': [['await new Promise(() => {})', { code: 1, stderr: /nothing is left to settle/ }], ['7', { value: '7' }]],
	'process.exit() ends the cell, and the variables stay': [['const kept = 1; console.log("before"); process.exit(3); console.log("never")', { code: 3, stdout: 'before\n', stderr: '' }], ['try { process.exit(4) } catch {}', { code: 4 }], ['process.exitCode = 5', { code: 5 }], ['setTimeout(() => process.exit(6), 1); await new Promise((r) => setTimeout(r, 5000))', { code: 6 }], ['kept', { value: '1', code: 0 }]],
	'Node dies, and the next cell starts it anew': [['const gone = 1'], ['process.kill(process.pid, "SIGKILL")', { code: 1, stderr: /NodeEnded: Node was ended by SIGKILL, and the variables/ }], ['typeof gone', { value: "'undefined'" }]],
	'the heap has a limit of its own': [['const all = []; for (;;) all.push(new Array(1e6).fill(all.length))', { code: 1, stderr: /heap out of memory[^]*NodeEnded: Node was ended by SIGABRT/ }], ['x = 1; x', { stdout: '1\n', value: '1' }, { ...PY, code: 'x = 1; print(x); x' }], ['2', { value: '2' }]],
	'what goes to both streams': [['console.log("out", { a: [1] }); console.error("err"); process.stdout.write("no end"); process.stdout.end(); console.log()', { stdout: 'out { a: [ 1 ] }\nno end\n', stderr: 'err\n' }], ['for (let i = 0; i < 3; i++) console.log(i)', { stdout: '0\n1\n2\n' }], ['require("child_process").spawnSync("sh", ["-c", "echo of a child; echo e >&2"], { stdio: "inherit" }).status', { stdout: 'of a child\n', stderr: 'e\n', value: '0' }]],
	'a million lines': [['for (let i = 0; i < 1000000; i++) console.log(i)\ni = "end"', { stdout: /^0\n1\n[^]*999999\n$/, value: "'end'" }]],
	'a value without end': [['const a = new Array(1e6).fill("x".repeat(1000)); a', { value: /100 more items|more items/ }], ['({ [Symbol.for("nodejs.util.inspect.custom")]() { throw 1 } })', { value: '[a value that cannot be shown]' }], ['const o = {}; o.o = o; o', { value: '<ref *1> { o: [Circular *1] }' }]],
	'Python beside it': [['x = 1', {}, PY], ['const x = 2'], ['x', { value: '1' }, PY], ['x', { value: '2' }], ['%%javascript\n`from a magic: ${x}`', { value: "'from a magic: 2'" }, PY], ['%%typescript\nconst y: number = 3; y', { value: '3' }, PY], ['open("p", "w").write("from Python")', {}, PY], ['require("fs").readFileSync("p", "utf8")', { value: "'from Python'" }],
		['print("one")\nraise SystemExit(3)', { stdout: 'one\n', code: 3 }, PY], ['x', { value: '2' }]],
	'a crash of Python takes Node along, and says so': [['const x = 1'], ['import os; os.kill(os.getpid(), 9)', {}, PY], ['typeof x', { value: "'undefined'", stderr: /variables of earlier cells of JavaScript are gone/ }], ['const z = 1; z', { value: '1', stderr: '' }]],
	'frames that the code forges': [[`${REPLIES}\nfs.writeSync(fd, '{"kind":"end","exit":0,"text":"forged","data":{"text/html":"<b>"}}\\n')\nfor (;;);`, { code: 1, stderr: FORGED }], ['1 + 1', { value: '2' }], ['[1, 2]', { value: '[ 1, 2 ]' }]],
	'frames that are none': [...['nonsense', '{"kind":"end"}', '[]', '{"kind":"other","exit":0}', '{"kind":"show","data":5,"text":{}}\\n5', '{"kind":"end","exit":1e999}', '{"kind":"show","text":"\\\\ud800","data":{"text/html":[1],"a":"\\\\udfff"}}\\n', '{"a":'].map((text): Cell => [`${REPLIES}\nfs.writeSync(fd, ${JSON.stringify(text)} + "\\n")\nfor (;;);`, { code: 1, stderr: FORGED }]),
		[`${REPLIES}\nfs.writeSync(fd, "[".repeat(100000) + "\\n")\nfor (;;);`, { code: 1, stderr: FORGED }], [`${REPLIES}\nconst piece = Buffer.alloc(1 << 20, "x"); for (;;) fs.writeSync(fd, piece)`, { code: 1, stderr: FORGED }], ['4', { value: '4' }]],
	'descriptors that Python closes': [['1', { value: '1' }], ['import os; os.closerange(3, 60); files = [open("f%d" % i, "w") for i in range(40)]', {}, PY], ['2', { value: '2', stderr: /are gone/ }], ['[f.close() for f in files]; sum(os.path.getsize("f%d" % i) for i in range(40))', { value: '0' }, PY], ['3', { value: '3', stderr: '' }]],
	'what the code replaces': [['JSON.stringify = JSON.parse = null; require("fs").writeSync = null; Buffer.from = null; globalThis.Promise = null; delete globalThis.process; setImmediate = null; console.log = null; 1', { value: '1' }], ['Object.prototype.foo = { type: "Identifier" }; 2', { value: '2' }], ['const globalThis = 3; 40 + 2', { value: '42' }],
		['RegExp.prototype.exec = null; null.x', { code: 1, stderr: /NodeEnded/ }], ['3', { value: '3' }]],
	'the environment of Python': [['1'], ['import os; os.environ["NEW"] = "x"; os.environ.pop("LANG", None)', {}, PY], ['[process.env.NEW, process.env.LANG]', { value: "[ 'x', undefined ]" }], ['process.env.NEW = "y"; process.env.NEW', { value: "'y'" }]],
};

describe('javascript', { concurrency: 2 }, () => { // many cases wait for a timeout; each has a sandbox of its own
	let program: Program;
	let base: string;
	before(async () => {
		({ program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir() } }));
	});
	after(async () => {
		await program.end();
	});

	const ask = asker(() => base);
	async function make(json: Json = {}): Promise<string> {
		const r = await ask('POST', '/sandboxes', json);
		assert.equal(r.status, 201, r.text);
		return r.body.id;
	}
	async function run(id: string, code: string, more: Json = {}): Promise<Json> {
		const r = await ask('POST', `/sandboxes/${id}/runs`, { code, stateful: true, wait: true, language: 'javascript', ...more });
		assert.equal(r.status, 201, r.text);
		return r.body;
	}
	const like = (found: string, wanted: string | RegExp, what: string): void => typeof wanted === 'string' ? assert.equal(found, wanted, what) : assert.match(found, wanted, what);

	for (const [name, cells] of Object.entries(rows))
		it(name, async () => {
			const id = await make();
			for (const [code, wanted = {}, more] of cells) {
				const r = await run(id, code, more);
				const what = JSON.stringify({ code: code.slice(0, 200), ...r, stdout: r.stdout?.slice(-500), results: undefined }, null, 1);
				if (wanted.code !== undefined || wanted.stderr === undefined)
					assert.equal(r.exit_code, wanted.code ?? (/os.kill|closerange/.test(code) ? r.exit_code : 0), what);
				for (const stream of ['value', 'stdout', 'stderr'] as const)
					if (wanted[stream] !== undefined)
						like(r[stream], wanted[stream], what);
			}
			assert.equal((await ask('DELETE', `/sandboxes/${id}`)).status, 204);
		});

	it('what is shown besides text', async () => {
		const id = await make();
		const shown = async (code: string): Promise<Json[]> => (await run(id, code)).results.map((r: Json) => [r.kind, r.data]);
		assert.deepEqual(await shown('({ [Symbol.for("Jupyter.display")]: () => ({ "text/html": "<b>h</b>", "text/plain": "P" }) })'), [['result', { 'text/html': '<b>h</b>' }]]);
		assert.deepEqual(await shown('({ toHtml: async () => "<i>" })'), [['result', { 'text/html': '<i>' }]]);
		const r = await run(id, 'console.log("a"); display.html("<u>"); console.log("b"); display({ x: 1 }); display.png(Buffer.from("iVBORw0KGgo=", "base64")); console.log("c")');
		assert.equal(r.stdout.replace(/\n+/g, '\n'), 'a\nb\n{ x: 1 }\nc\n');
		assert.deepEqual(r.results.map((x: Json) => [x.kind, Object.keys(x.data)]), [['display', ['text/html', 'text/plain']], ['display', ['text/plain']], ['display', ['image/png', 'text/plain']]].map(([k, types]) => [k, types]));
		assert(r.results[0].offset >= 2 && r.results[0].offset < r.stdout.indexOf('b'), JSON.stringify(r));
		assert.deepEqual((await run(id, 'display({ [Symbol.for("Jupyter.display")]() { throw 1 } })')).exit_code, 0);
	});

	it('console is heard at once', async () => {
		const id = await make();
		const r = await ask('POST', `/sandboxes/${id}/runs`, { code: 'console.log("begun"); const go = require("fs"); while (!go.existsSync("go")); console.log("over")', language: 'javascript', stateful: true });
		const events = await Stream.open(`${base}/api/v1/runs/${r.body.id}/events`);
		await events.wait(/event: stdout\ndata: "begun\\n"/);
		assert(!/over/.test(events.text));
		assert((await fetch(`${base}/api/v1/sandboxes/${id}/files/go`, { method: 'PUT', body: '' })).ok);
		await events.wait(/"over\\n"/);
		await events.end;
	});

	it('a loop without end is interrupted, and the variables stay', async () => {
		const id = await make();
		await run(id, 'const kept = 1');
		for (const code of ['for (;;);', 'await new Promise((r) => setTimeout(r, 100000))', 'require("child_process").spawnSync("sleep", ["1000"])\nfor (;;);']) {
			const r = await run(id, code, { timeout_s: 1 });
			assert.deepEqual([r.reason, r.state], ['timeout', 'kept'], JSON.stringify(r));
			assert.equal(r.stderr, 'KeyboardInterrupt: the cell was interrupted\n');
			assert.equal((await run(id, 'kept')).value, '1', code);
		}
	});

	it('a loop without end in a callback or behind an await is ended, and the variables stay', async () => {
		const id = await make();
		await run(id, 'let kept = 1, ticks = 0; setInterval(() => { ticks++ }, 20)');
		for (const code of ['await 0; for (;;);', 'await new Promise(() => setTimeout(() => { for (;;); }, 20))', 'await new Promise(() => require("fs").stat("/", () => { for (;;); }))', 'const timer = setInterval(() => { for (;;); }, 20); await new Promise(() => {})']) {
			const r = await run(id, code, { timeout_s: 1 });
			assert.deepEqual([r.reason, r.state], ['timeout', 'kept'], JSON.stringify(r));
			assert.match(r.stderr, /was stopped there. The variables of JavaScript are still there.\n[^]*KeyboardInterrupt: the cell was interrupted\n$/, code);
			const after = await run(id, 'const before = ticks; await new Promise((r) => setTimeout(r, 200)); [kept, ticks > before, require("inspector").url()]');
			assert.deepEqual([after.value, after.stderr], ['[ 1, true, undefined ]', ''], `other timers go on after ${code}`);
		}
		// a callback of an earlier cell holds the one that comes then
		await run(id, 'setTimeout(() => { for (;;); }, 100); 1');
		const held = await run(id, 'await new Promise((r) => setTimeout(r, 300)); kept = 2', { timeout_s: 1 });
		assert.deepEqual([held.reason, held.state], ['timeout', 'kept'], JSON.stringify(held));
		assert.match((await run(id, 'kept')).value, /^[12]$/); // what a cell awaits goes on when it was interrupted
		// Whoever takes the signals himself loses them: Node ends, Python stays.
		await run(id, 'x = 5', PY);
		const r = await run(id, 'process.on("SIGINT", () => {}); process.on("SIGUSR1", () => {}); await 0; for (;;);', { timeout_s: 1 });
		assert.equal(r.reason, 'timeout');
		assert.match(r.stderr, /did not react to the interrupt/);
		assert.match((await run(id, 'typeof kept')).stderr, /are gone: the last one did not react/);
		assert.equal((await run(id, 'x', PY)).value, '5');
	});

	it('a client interrupts a cell', async () => {
		const id = await make();
		await run(id, 'const kept = 1');
		const r = await ask('POST', `/sandboxes/${id}/runs`, { code: 'console.log("on"); for (;;);', language: 'javascript', stateful: true });
		const events = await Stream.open(`${base}/api/v1/runs/${r.body.id}/events`);
		await events.wait(/"on\\n"/);
		assert.equal((await ask('DELETE', `/runs/${r.body.id}?interrupt=true`)).status, 202);
		await events.wait(/event: end/);
		assert.equal((await run(id, 'kept')).value, '1');
	});

	it('contexts are apart', async () => {
		const id = await make();
		await run(id, 'const x = "default"');
		assert.equal((await run(id, 'typeof x', { context: 'b' })).value, "'undefined'");
		await run(id, 'const x = "b"', { context: 'b' });
		assert.equal((await run(id, 'x')).value, "'default'");
		assert.equal((await run(id, 'x', { context: 'b' })).value, "'b'");
		assert.equal((await run(id, 'typeof x', { restart: true })).value, "'undefined'");
		assert.equal((await run(id, 'x', { context: 'b' })).value, "'b'");
		const pid = (await run(id, 'process.pid', { context: 'b' })).value;
		assert.equal((await ask('DELETE', `/sandboxes/${id}/contexts/b`)).status, 204);
		await until('the end of its Node', async () => (await run(id, `import os; os.path.exists("/proc/${pid}")`, PY)).value === 'False');
	});

	it('a checkpoint has the variables of Python alone', async () => {
		const id = await make();
		await run(id, 'x = 1', PY);
		await run(id, 'const x = 2');
		assert.equal((await ask('POST', `/sandboxes/${id}/checkpoints`, { name: 'c' })).status, 201);
		assert.equal((await run(id, 'x')).value, '2');
		assert.equal((await ask('POST', `/sandboxes/${id}/checkpoints/c/restore`, {})).status, 200);
		assert.equal((await run(id, 'x', PY)).value, '1');
		const r = await run(id, 'typeof x');
		assert.equal(r.value, "'undefined'");
		assert.match(r.stderr, /variables of earlier cells of JavaScript are gone/);
	});

	it('without a session: a program that goes on to its end', async () => {
		const id = await make();
		const once = { stateful: false };
		const r = await run(id, 'const x = 1; setTimeout(() => console.log("later"), 20); process.on("exit", (c) => console.log("exit", c)); x', once);
		assert.deepEqual([r.stdout, r.value, r.exit_code, r.state], ['later\nexit 0\n', '1', 0, undefined]);
		assert.equal((await run(id, 'typeof x', once)).value, "'undefined'");
		assert.equal((await run(id, 'process.exit(3)', once)).exit_code, 3);
		const failed = await run(id, 'setTimeout(() => { throw new Error("late") }, 5)', once);
		assert.equal(failed.exit_code, 1);
		assert.match(failed.stderr, /<cell>:1\n[^]*Error: late/);
		const server = await run(id, 'require("http").createServer().listen(0)', { ...once, timeout_s: 1 });
		assert.equal(server.reason, 'timeout');
		assert.equal((await run(id, 'const n: number = 4; n', { ...once, ...TS })).value, '4');
		assert.equal((await run(id, 'const n = 4; n', { ...once, parallel: true })).value, '4');
		assert.equal((await run(id, 'require("fs").readFileSync(0, "utf8")', { ...once, stdin: 'typed' })).value, "'typed'");
		assert.equal((await run(id, `"${'x'.repeat(100_000)}".length`)).value, '100000');
	});

	it('children of a cell rest between the cells, and a bomb is cleaned up', async () => {
		const id = await make({ processes: 64 });
		await run(id, 'const cp = require("child_process"); const child = cp.spawn("cat"); 1');
		assert.equal((await run(id, 'child.stdin.write("hi"); await new Promise((r) => child.stdout.once("data", (d) => r(String(d))))')).value, "'hi'");
		await run(id, 'for (let i = 0; i < 200; i++) cp.spawn("sleep", ["1000"]).on("error", () => {})\n1', { timeout_s: 20 });
		assert.equal((await run(id, 'typeof child', { restart: true })).value, "'undefined'");
		assert.equal((await run(id, 'import subprocess; subprocess.run(["pgrep", "-c", "sleep"], stdout=-1).stdout', PY)).value.trim(), "b'0\\n'");
	});

	it('secrets are masked in what the page shows, and the history says the language', async () => {
		const id = await make({ env: { TOKEN_OF_MINE: 'hunter2-hunter2-hunter2' } });
		assert.equal((await run(id, 'console.log(process.env.TOKEN_OF_MINE); 1')).stdout, 'hunter2-hunter2-hunter2\n');
		await run(id, 'const t: number = 1; t', TS);
		await run(id, '1', PY);
		const { cells } = (await ask('GET', `/notebooks/${id}`)).body;
		assert.deepEqual(cells.map((c: Json) => c.language), ['javascript', 'typescript', undefined]);
		assert.equal(cells[0].code, 'console.log(process.env.TOKEN_OF_MINE); 1');
		assert(!JSON.stringify(cells).includes('hunter2'), JSON.stringify(cells));
		const notebook = await ask('GET', `/notebooks/${id}/export?format=ipynb`);
		assert.deepEqual(notebook.body.cells.slice(0, 3).map((c: Json) => c.source.split('\n')[0]), ['%%javascript', '%%typescript', '1']);
	});

	it('what goes together, and what does not', async () => {
		const id = await make();
		const refused = async (json: Json, about: RegExp): Promise<void> => {
			const r = await ask('POST', `/sandboxes/${id}/runs`, json);
			assert.deepEqual([r.status, r.body.code], [400, 'invalid_argument'], r.text);
			assert.match(r.text, about);
		};
		await refused({ command: 'ls', language: 'javascript' }, /language goes with code/);
		await refused({ code: '1', language: 'cobol' }, /language/);
		await refused({ code: '1', language: 5 }, /language/);
	});
});

describe('javascript without Node', () => {
	it('says what to do', async () => {
		const { program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_IMAGE: 'base' } });
		try {
			const { id } = await (await fetch(`${base}/api/v1/sandboxes`, { method: 'POST' })).json() as Json;
			for (const stateful of [true, false]) {
				const r = await fetch(`${base}/api/v1/sandboxes/${id}/runs`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ code: '1', language: 'javascript', stateful, wait: true }) });
				const { exit_code, stderr } = await r.json() as Json;
				assert.equal(exit_code, 1);
				assert.match(stderr, /^NodeMissing: .*no program `node`.*science or node/);
			}
		} finally {
			await program.end();
		}
	});
});

matrix('javascript as an argument', { profile: 'full' }, (s) => {
	it('code in another language', async () => {
		const session = await s().call('sandbox_create', {});
		const id = session.session_id ?? /sess_\w+/.exec(JSON.stringify(session))![0];
		const ask = async (args: Json): Promise<string> => JSON.stringify(await s().raw('sandbox_run_python', { session_id: id, stateful: true, ...args }));
		assert.match(await ask({ code: 'const a = 20; console.log(a)', language: 'javascript' }), /20/);
		assert.match(await ask({ code: 'const b: number = a * 2 + 1; b', language: 'typescript' }), /41/);
		assert.match(await ask({ code: '%%javascript\na + b' }), /61/);
		assert.match(await ask({ code: '1', language: 'cobol' }), /python.*javascript.*typescript/);
		assert.match(await ask({ code: 'missing.member', language: 'javascript' }), /ReferenceError: missing is not defined/);
		const tools = await s().client.listTools();
		assert(!JSON.stringify(tools.tools.find((t) => t.name === 'sandbox_run_python')!.inputSchema).includes('language'), 'it would cost tokens in each conversation');
	});
});
