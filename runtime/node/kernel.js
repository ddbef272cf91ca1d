// SPDX-License-Identifier: Apache-2.0
// The Node process of a session: executes its cells of JavaScript and TypeScript one after the other, so that their variables stay.
//
//   node --expose-internals kernel.js COMMANDS REPLIES ACKS
//
// Three pipes to runtime/python/javascript.py. COMMANDS and REPLIES carry one JSON object a line, ACKS one byte for each thing that was
// shown. Standard output and error are those of the session, so nobody carries what a cell prints. The code of the user runs in this
// process and may write to the pipes, too: whoever reads them believes nothing.
'use strict';

const fs = require('fs');
const inspector = require('inspector');
const Module = require('module');
const net = require('net');
const path = require('path');
const util = require('util');
const vm = require('vm');
const { pathToFileURL, fileURLToPath } = require('url');
const { Writable } = require('stream');
const { rewrite, IMPORT, PICK, META } = require('./rewrite.js');
const { typescript, hookImports } = require('./typescript.js');
const { bundleOf, dataOf, MIMES } = require('./shown.js');

// What the code of a cell may replace, as it was before the first one. If it replaces more, such as methods of Array, cells fail or Node ends,
// and the next cell finds a new one.
const process = globalThis.process;
const space = globalThis;
const { Promise } = globalThis;
const { exit: exitNow, emit, nextTick, reallyExit } = process;
const { readSync, writeSync } = fs;
const { parse, stringify } = JSON;
const bytesOf = Buffer.from;
const later = setImmediate;

const [COMMANDS, REPLIES, ACKS] = process.argv.slice(2).map(Number);
const REPLY_MAX = 4 << 20;     // characters; javascript.py reads no longer line
const ERROR_MAX = 64 << 10;    // characters of an error's text
const SOURCES_MAX = 4 << 20;   // characters of cells that are kept for errors
const LINE_MAX = 300;          // characters of a line of code that an error shows

let cell = null;  // the one that executes: {name, last, settle(error)}
let exiting = null;  // process.exit() was called in it with this code

// ---- pipes -----------------------------------------------------------------------------------

const pause = new Int32Array(new SharedArrayBuffer(4));

function writeAll(fd, data) {
	const bytes = typeof data === 'string' ? bytesOf(data) : data;
	let at = 0;
	while (at < bytes.length) {
		try {
			at += writeSync(fd, bytes, at);
		} catch (e) {
			if (e.code !== 'EAGAIN')  // a child has made the pipe non-blocking
				return;
			Atomics.wait(pause, 0, 0, 1);
		}
	}
}

function reply(what) {
	what = { word: cell?.word, ...what };
	let text = stringify(what);
	if (text.length > REPLY_MAX)
		text = stringify({ ...what, data: undefined, text: String(what.text).slice(0, REPLY_MAX / 8) });
	writeAll(REPLIES, text + '\n');
}

// Whoever prints in a loop prints at once, and an exit loses nothing.
class Output extends Writable {
	constructor(fd) {
		super({ decodeStrings: true });
		this.fd = fd;
		this._type = 'pipe';
		this._isStdio = true;
	}

	_write(chunk, encoding, done) {
		writeAll(this.fd, chunk);
		done();
	}

	end(chunk, ...rest) {  // the next cell prints, too
		if (chunk !== undefined && typeof chunk !== 'function')
			this.write(chunk);
		const done = rest.concat(chunk).find((one) => typeof one === 'function');
		if (done)
			nextTick(done);
		return this;
	}

	_destroy(error, done) {
		done(error);
	}
}

for (const [name, fd] of [['stdout', 1], ['stderr', 2]]) {
	const stream = new Output(fd);
	Object.defineProperty(process, name, { value: stream, configurable: true, enumerable: true, writable: true });
}

// ---- errors ----------------------------------------------------------------------------------

class Exit extends Error {
	constructor(code) {
		super(`process.exit(${code})`);
		this.name = 'Exit';
	}
}

const sources = new Map();  // name of a cell: {lines, map}
let kept = 0;

function keepSource(name, code) {
	sources.set(name, { lines: code.split(/\r\n|[\n\r\u2028\u2029]/), place: null, map: null, size: code.length });
	kept += code.length;
	for (const [oldest, { size }] of sources) {
		if (kept <= SOURCES_MAX || oldest === name)
			break;
		sources.delete(oldest);
		kept -= size;
	}
}

const PLACE = /<cell(?: \d+)?>:\d+(?::\d+)?/g;
const PARTS = /^(<cell(?: \d+)?>):(\d+)(?::(\d+))?$/;

// A place in the script of a cell as one in what the user wrote. '': it is none of it.
function place(text) {
	const [, name, line, column] = PARTS.exec(text);
	const source = sources.get(name);
	let found = { line: Number(line), column: Number(column || 1) };
	if (source?.place)
		found = source.place(found.line, found.column);
	if (!found)
		return '';
	const of = source?.map?.findEntry(found.line - 1, found.column - 1);
	if (of?.originalLine !== undefined)
		found = { line: of.originalLine + 1, column: of.originalColumn + 1 };
	return `${name}:${found.line}:${found.column}`;
}

function excerpt(text) {
	const found = text && PARTS.exec(text);
	const line = found && sources.get(found[1])?.lines[found[2] - 1];
	if (line === undefined || line === null || line.length > LINE_MAX)
		return '';
	const before = line.slice(0, Math.max(0, (found[3] || 1) - 1)).replace(/[^\t]/g, ' ');
	return `${found[1]}:${found[2]}\n${line}\n${before}^\n\n`;
}

const FRAME = /^ +at /;
const ours = new RegExp(`^ +at .*(?:${__dirname.replace(/[^\w/]/g, '\\$&')}/|node:)`);

// The text of an error without our own frames, with places as they are in the cells.
function cleaned(text) {
	const lines = [];
	for (const line of text.split('\n')) {
		if (!FRAME.test(line)) {
			lines.push(line);
			continue;
		}
		let gone = ours.test(line);
		const changed = line.replace(PLACE, (at) => {
			const found = place(at);
			gone ||= !found;
			return found;
		});
		if (!gone)
			lines.push(changed);
		else if (line.endsWith(' {') && lines.length > 0)  // what follows are members of the error
			lines[lines.length - 1] += ' {';
	}
	return lines.join('\n');
}

// The name, the message and the text of whatever was thrown. None of it can be trusted to be what it should be.
function describe(error) {
	let text;
	try {
		text = util.inspect(error).slice(0, ERROR_MAX);
	} catch {
		text = 'Error: what was thrown cannot be shown';
	}
	if (!util.types.isNativeError(error) && !(error instanceof Error))
		return { name: 'Error', message: text, text: `Uncaught ${text}\n` };
	const part = (of) => {
		try {
			return String(error[of]).slice(0, ERROR_MAX);
		} catch {
			return '';
		}
	};
	const name = part('name') || 'Error', message = part('message');
	text = error.cellPlace === undefined ? cleaned(text) : `${name}: ${message}`;
	const first = text.split('\n').find((line) => FRAME.test(line) && line.search(PLACE) >= 0);
	const where = error.cellPlace ?? first?.match(PLACE).pop();
	return { name, message, text: `${excerpt(where)}${text}\n` };
}

// A SyntaxError without the places that a parser puts behind its message.
function syntaxError(e, name) {
	const error = new SyntaxError(String(e.message).replace(/ \(\d+:\d+\)$/, ''));
	error.stack = `SyntaxError: ${error.message}`;
	Object.defineProperty(error, 'cellPlace', { value: e.loc ? `${name}:${e.loc.line}:${e.loc.column + 1}` : null });
	return error;
}

function fails(error) {
	if (cell)
		cell.settle(error);
	else if (!(error instanceof Exit))
		process.stderr.write(`Between the cells: ${describe(error).text}`);
}

process.on('uncaughtException', fails);
process.on('unhandledRejection', fails);
process.removeAllListeners('warning');
process.on('warning', (w) => {
	if (w.name !== 'ExperimentalWarning')
		process.stderr.write(`${w.name}: ${w.message}\n`);
});
process.on('SIGINT', () => {
	if (cell && process.listenerCount('SIGINT') === 1)
		cell.settle(new Error('The cell was interrupted'));
	if (inspector.url())  // javascript.py has stopped a loop by it
		inspector.close();
});
process.on('beforeExit', () => {
	if (cell)
		cell.idle();
});

process.exit = function exit(code) {
	const wanted = Number(code ?? process.exitCode ?? 0) & 255;
	if (cell?.last)
		reply({ kind: 'end', exit: wanted });
	if (!cell || cell.last)
		exitNow.call(process, wanted);
	exiting ??= wanted;
	throw new Exit(wanted);
};

// ---- modules ---------------------------------------------------------------------------------

const root = process.cwd();
const MAIN = path.join(root, '[cell]');
const plainRequire = Module.createRequire(MAIN);
const times = new Map();  // of files of the user that were loaded: when they had been changed

// True if FILE of the user has changed since it was loaded last.
function changed(file) {
	if (file.includes('/node_modules/') || !path.isAbsolute(file))
		return false;
	try {
		const now = fs.statSync(file).mtimeMs, before = times.get(file);
		times.set(file, now);
		return before !== undefined && before !== now;
	} catch {
		return false;
	}
}

function requireFresh(name) {
	if (typeof name === 'string' && /^[./]/.test(name)) {
		const file = plainRequire.resolve(name);
		if (changed(file))
			delete plainRequire.cache[file];
	}
	return plainRequire(name);
}

const importer = (() => {
	const loader = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER;
	if (loader)
		return new vm.Script('(name,options)=>options?import(name,options):import(name)',
			{ filename: MAIN, importModuleDynamically: loader }).runInThisContext();
	return (name, options) => options ? import(name, options) : import(name);
})();

async function importFresh(name, options) {
	// As in Deno, where code for E2B says so: with a version, or a path inside the package. Node has one version of each.
	name = String(name).replace(/^npm:\/?((?:@[^/@]+\/)?[^/@]+)(?:@[^/]*)?/, '$1');
	if (/^\.{0,2}\//.test(name) || name === '.' || name === '..') {
		const url = pathToFileURL(path.resolve(root, name));
		if (changed(fileURLToPath(url)))
			url.search = `?${times.get(fileURLToPath(url))}`;
		name = url.href;
	}
	try {
		return await importer(name, options);
	} catch (e) {
		// import looks for packages beside the code alone; require() also where the image has its own
		if (e?.code !== 'ERR_MODULE_NOT_FOUND' || /^[./]|:/.test(name))
			throw e;
		let file;
		try {
			file = plainRequire.resolve(name);
		} catch {
			throw new Error(`Cannot find package '${name}'. Packages are installed into the workspace with npm, where the image has it.`);
		}
		return await importer(pathToFileURL(file).href, options);
	}
}

let lenient = false;  // the cell is TypeScript: what is missing may be a type

function pick(module, name, from) {
	if (name in module)
		return module[name];
	const whole = module.default;
	if (whole !== null && (typeof whole === 'object' || typeof whole === 'function') && name in whole)
		return whole[name];
	if (lenient)
		return undefined;
	throw new SyntaxError(`The requested module '${from}' does not provide an export named '${name}'`);
}

function hidden(name, value) {
	Object.defineProperty(globalThis, name, { value, configurable: true, writable: true, enumerable: false });
}

hidden(IMPORT, importFresh);
hidden(PICK, pick);
hidden(META, Object.freeze({
	__proto__: null, url: pathToFileURL(MAIN).href, dirname: root, filename: MAIN, main: true,
	resolve: (name) => /^[./]/.test(name) ? pathToFileURL(path.resolve(root, name)).href :
		Module.isBuiltin(name) ? `node:${name.replace(/^node:/, '')}` : pathToFileURL(plainRequire.resolve(name)).href,
}));
hidden('require', Object.assign(requireFresh, plainRequire));
hidden('module', { exports: {}, id: '.', filename: MAIN, loaded: false, children: [], paths: plainRequire.resolve.paths('x') });
hidden('exports', globalThis.module.exports);
hidden('__filename', MAIN);
hidden('__dirname', root);
process.argv.splice(1, Infinity, MAIN);
process.execArgv.length = 0;
hookImports();

// ---- what is shown ---------------------------------------------------------------------------

function show(data) {
	reply({ kind: 'show', data: data.data, text: data.text });
	const ack = Buffer.alloc(1);
	for (;;) {
		try {
			readSync(ACKS, ack);
			return;
		} catch (e) {
			if (e.code !== 'EINTR' && e.code !== 'EAGAIN')
				return;
		}
	}
}

// Shows VALUE now, with all that it shows of itself. RAW: it is {media type: data}, as in Deno.jupyter.display().
function display(value, { raw = false } = {}) {
	const found = raw ? { data: dataOf(value), text: value['text/plain'] ?? '' } : bundleOf(value);
	return found instanceof Promise ? found.then(show) : show(found);
}
for (const [name, mime] of Object.entries(MIMES))
	display[name] = (data) => display({ [mime]: data }, { raw: true });
hidden('display', display);

// ---- cells -----------------------------------------------------------------------------------

// A name of Node that is no plain variable, such as `crypto`, becomes one, so that the cell can declare it.
function free(name) {
	const found = Object.getOwnPropertyDescriptor(globalThis, name);
	if (found?.configurable && !found.writable)
		Object.defineProperty(globalThis, name, { value: undefined, configurable: true, enumerable: true, writable: true });
}

function compile(code, name, isTypescript) {
	let script = code;
	keepSource(name, code);
	const source = sources.get(name);
	if (isTypescript)
		({ text: script, map: source.map } = typescript(code, (e) => { throw syntaxError(e, name); }));
	let found;
	try {
		found = rewrite(script);
	} catch (e) {
		throw e.loc ? syntaxError(e, name) : e;
	}
	source.place = found.place;
	const made = new vm.Script(found.text, { filename: name, importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER });
	found.names.forEach(free);
	return [found, made];
}

// Executes the code up to its end, or to the end of its last promise. Resolves to [its value], or [] without one.
async function evaluate(command, name) {
	const [found, script] = compile(command.code, name, command.typescript);
	let value;
	try {
		value = script.runInThisContext({ breakOnSigint: true, displayErrors: false });
	} catch (e) {
		throw e?.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? new Error('The cell was interrupted') : e;
	}
	if (found.awaits)
		value = (await value)?.[0];
	return found.has ? [util.types.isPromise(value) ? await value : value] : [];
}

async function run(command) {
	const name = command.cell ? `<cell ${command.cell}>` : '<cell>';
	for (const [key, value] of Object.entries(command.env ?? {}))
		if (value === null)
			delete process.env[key];
		else
			process.env[key] = value;
	process.argv.push(...command.argv ?? []);
	exiting = null;
	lenient = !!command.typescript;
	let thrown = null, shown = null;
	const settled = new Promise((resolve, reject) => {
		cell = {
			word: command.word, last: command.last, waits: true, settle: reject,
			// Nothing is left that could go on.
			idle() {
				if (this.waits)
					reject(new Error('The code awaits what nothing is left to settle'));
				else
					resolve();
			},
		};
	});
	settled.catch(() => {});
	commands.unref();
	try {
		const value = await Promise.race([evaluate(command, name), settled]);
		if (value.length > 0 && value[0] !== undefined) {
			shown = await Promise.race([bundleOf(value[0]), settled]);
			if (util.types.isNativeError(value[0]))
				shown.text = cleaned(shown.text);
			space._ = value[0];
		}
		cell.waits = false;
		// What nobody catches is told after the microtasks of the cell. Without a later cell, all goes on to its end, as in a program.
		await Promise.race([command.last ? settled : new Promise((resolve) => later(resolve)), settled]);
	} catch (error) {
		thrown = { error };
	}
	commands.ref();
	let code = exiting ?? (Number(process.exitCode ?? 0) & 255);
	process.exitCode = undefined;
	const end = { kind: 'end', exit: code };
	if (thrown && exiting === null)
		Object.assign(end, { error: describe(thrown.error), exit: 1 });
	else if (shown && exiting === null)
		Object.assign(end, shown);
	if (command.last) {
		if (end.error)
			code = 1;
		process.exitCode = code;
		emit.call(process, 'exit', code);
		reply(end);
		reallyExit(code);
	}
	reply(end);
	cell = null;
}

// ---- the beginning ---------------------------------------------------------------------------

// The code has replaced what a cell needs.
function broken(error) {
	writeAll(2, `${error?.name}: ${error?.message}\n`);
	reallyExit(1);
}

let unread = [], turn = Promise.resolve();
const commands = new net.Socket({ fd: COMMANDS, readable: true, writable: false });
commands.setEncoding('utf8');
commands.on('data', (text) => {
	const lines = text.split('\n');
	unread.push(lines.shift());
	for (const rest of lines) {
		const command = parse(unread.join(''));
		unread = [rest];
		// When javascript.py breaks a cell off, what else its turn of the loop was to do is lost: here nothing, not even a promise of ours.
		turn = turn.then(() => new Promise((done) => { later(() => { run(command).catch(broken).then(done); }); }));
	}
});
commands.on('end', () => reallyExit(0));  // the session has ended
