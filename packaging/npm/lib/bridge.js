// SPDX-License-Identifier: Apache-2.0
// Stdio on this side, Streamable HTTP on the other. Messages go through as they are; the bridge adds what HTTP needs: the key, the
// session, the revision, and connections that are made again when they break.
'use strict';

const { constants } = require('node:os');
const { spawn } = require('node:child_process');
const messages = require('./messages.js');
const { Events, Line, Lost, Refused } = require('./http.js');

const DRAIN_MS = 5000; // that calls may still take after the end of the input, as with `caisson stdio`
const GOODBYE_MS = 3000;
const TRIES = 5; // to come back to a stream, one after the other without any event
const PAUSE_MOST_MS = 10_000;
const ACCEPT = { Accept: 'application/json, text/event-stream', 'Content-Type': 'application/json' };

const tell = (text) => process.stderr.write(`caisson-mcp: ${text}\n`);

/** A message that is under way, with the ids of its requests that have no answer yet. */
class Call {
	constructor(line) {
		this.line = line;
		this.parts = messages.read(line);
		this.waiting = new Set(this.parts.filter(messages.isRequest).map((m) => m.idText));
		this.only = this.parts.length === 1 && typeof this.parts[0].method === 'string' ? this.parts[0] : undefined;
		this.method = this.only?.method ?? '';
		this.revision = this.only ? messages.revisionOf(this.only) : '';
		this.session = '';
		this.cancelled = false;
		this.request = undefined;
		this.sent = new Promise((resolve) => (this.isSent = (request) => {
			this.request = request ?? this.request;
			resolve();
		}));
	}
}

class Bridge {
	calls = new Set();
	session = '';
	revision = '';
	hello = undefined; // the message `initialize`
	renewal = Promise.resolve(true);
	ending = false;
	pauses = new Set(); // what ends each
	written = Promise.resolve(); // settles when the last line is out

	constructor(place) {
		this.line = new Line(place.url, place.key);
		this.hasKey = place.key !== '';
	}

	// ---- output

	/** Settles when there is room for more. */
	put(text) {
		this.written = new Promise((resolve) => process.stdout.write(`${messages.oneLine(text)}\n`, resolve));
		return process.stdout.writableNeedDrain ? this.written : undefined;
	}

	/** Passes on a message that came for CALL. */
	take(text, call) {
		for (const m of call.waiting.size > 0 ? messages.read(text) : []) {
			if (messages.isAnswer(m))
				call.waiting.delete(m.idText);
			if (call.method === 'initialize' && messages.isObject(m.result)) {
				this.revision = String(m.result.protocolVersion ?? '');
				this.hello = call.line;
			}
		}
		return this.put(text);
	}

	fail(call, error) {
		if (call.cancelled || this.ending)
			return;
		if (call.parts.length > 0 && call.waiting.size === 0) {
			tell(error.message);
			return;
		}
		for (const id of call.waiting.size > 0 ? call.waiting : ['null']) // what cannot be read has no id
			this.put(messages.failure(id, error.message, error.status));
		call.waiting.clear();
	}

	// ---- requests

	headersFor(call) {
		if (call.revision)
			return { ...ACCEPT, ...messages.modernHeaders(call.only, call.revision) };
		if (call.method === 'initialize')
			return ACCEPT;
		call.session = this.session;
		return { ...ACCEPT, ...(this.session ? { 'Mcp-Session-Id': this.session } : {}), ...(this.revision ? { 'MCP-Protocol-Version': this.revision } : {}) };
	}

	/** The refusal in words that say what to do. */
	explained(refused, call) {
		const { url } = this.line;
		let text = refused.message;
		if (refused.status === 401)
			text = this.hasKey ? `${url} does not accept the key in CAISSON_KEY` : `${url} needs a key: set CAISSON_KEY`;
		else if (refused.status === 404 && call.session)
			text = `${url} does not know this session any more, and a new one could not be begun: connect again`;
		else if (refused.status === 404)
			text = `there is no MCP at ${url} (404): the path of a server of Caisson is /mcp`;
		return new Refused(refused.status, text);
	}

	/** Sends a message and passes on what comes back, to the last answer. */
	async post(call) {
		try {
			let reply = await this.line.send('POST', this.headersFor(call), call.line, call.isSent);
			if (reply.status === 404 && call.session && await this.renewed(call.session)) {
				reply.close();
				reply = await this.line.send('POST', this.headersFor(call), call.line, call.isSent);
			}
			if (call.method === 'initialize' && reply.status === 200)
				this.session = reply.header('mcp-session-id') ?? '';
			if (reply.isMessage)
				await this.take(await reply.read(), call);
			else if (reply.isStream)
				await this.follow(reply, call);
			else if (![200, 202, 204].includes(reply.status))
				await this.refused(await reply.refusal(), call);
			reply.close();
			if (call.waiting.size > 0)
				throw new Lost(`${this.line.url} gave no answer`);
		} catch (e) {
			this.fail(call, e);
		} finally {
			call.isSent();
		}
	}

	/** A refusal that is an answer to the request itself goes through. */
	async refused(refusal, call) {
		const answers = [401, 404].includes(refusal.status) ? [] : messages.read(refusal.body).filter(messages.isAnswer);
		if (!answers.some((m) => call.waiting.has(m.idText) || call.parts.length === 0))
			throw this.explained(refusal, call);
		await this.take(refusal.body, call);
	}

	/** Reads the stream of CALL; comes back to it when it breaks off before the answer. */
	async follow(reply, call) {
		const events = new Events();
		const tries = { failed: 0 };
		for (;;) {
			for await (const text of events.read(reply)) {
				tries.failed = 0;
				await this.take(text, call);
			}
			reply.close();
			if (call.waiting.size === 0 || call.cancelled || this.ending)
				return;
			if (!events.lastId || call.revision)
				throw new Lost(`the connection to ${this.line.url} broke before the answer; the call may have had effects`);
			reply = await this.back(events, call.session, tries, call);
		}
	}

	/** A new connection to a stream. `tries.failed` counts how many in a row brought nothing. */
	async back(events, session, tries, call) {
		for (;;) {
			if (++tries.failed > TRIES && call)
				throw new Lost(`the connection to ${this.line.url} broke before the answer, and the answer cannot be had any more; the call may have had effects`);
			if (tries.failed > 0)
				await this.pause(Math.min(events.retryMs * 2 ** Math.min(tries.failed - 1, 10), PAUSE_MOST_MS));
			if (this.ending)
				throw new Lost('the bridge ends');
			const headers = { Accept: 'text/event-stream', 'Mcp-Session-Id': session, 'MCP-Protocol-Version': this.revision };
			if (events.lastId)
				headers['Last-Event-ID'] = events.lastId;
			const reply = await this.line.send('GET', headers).catch(() => undefined);
			if (!reply)
				continue;
			if (reply.isStream)
				return reply;
			const refusal = await reply.refusal();
			reply.close();
			if (call && reply.status === 404)
				throw new Lost(`${this.line.url} does not know this call any more, as it was started again; the call may have had effects`);
			if (reply.status < 500 && ![409, 429].includes(reply.status))
				throw call ? this.explained(refusal, call) : refusal;
		}
	}

	pause(ms) {
		return new Promise((resolve) => {
			const end = () => {
				clearTimeout(timer);
				this.pauses.delete(end);
				resolve();
			};
			const timer = setTimeout(end, ms);
			this.pauses.add(end);
		});
	}

	// ---- the session

	/** Begins a new session in place of SESSION, which the server has forgotten, as it does when it starts again. */
	renewed(session) {
		const own = this.renewal.then(() => this.session !== session || this.renew()); // somebody else may have
		this.renewal = own.catch(() => false);
		return this.renewal;
	}

	async renew() {
		const reply = await this.line.send('POST', ACCEPT, this.hello);
		const session = reply.header('mcp-session-id');
		reply.close();
		if (reply.status !== 200 || !session)
			return false;
		this.session = session;
		(await this.line.send('POST', { ...ACCEPT, 'Mcp-Session-Id': session, 'MCP-Protocol-Version': this.revision }, '{"jsonrpc":"2.0","method":"notifications/initialized"}')).close();
		tell('the server has forgotten the session; a new one was begun, without earlier subscriptions');
		void this.listen(session);
		return true;
	}

	/** Passes on what the server sends of itself, as long as the session lasts. */
	async listen(session) {
		const events = new Events();
		const tries = { failed: -1 }; // the first time at once
		while (session && this.session === session && !this.ending) {
			let reply;
			try {
				reply = await this.back(events, session, tries);
			} catch (e) {
				if (e.status !== 404 || !events.lastId)
					return; // no such stream here, or no such session any more: the next message tells
				events.lastId = ''; // what was kept is gone; what comes from now on is not
				continue;
			}
			for await (const text of events.read(reply)) {
				tries.failed = 0;
				await this.put(text);
			}
			reply.close();
		}
	}

	// ---- input

	/** Marks the call that LINE cancels. True: nothing is left to be sent, as the modern era cancels by closing the connection. */
	cancel(line) {
		const id = messages.cancelledId(line);
		const call = [...this.calls].find((c) => c.waiting.has(id));
		if (!call)
			return false;
		call.cancelled = true;
		if (call.revision)
			call.request?.destroy();
		return call.revision !== '';
	}

	async message(line) {
		const call = new Call(line);
		if (call.method === 'notifications/cancelled' && this.cancel(line))
			return;
		if (call.waiting.size === 0 || call.method === 'initialize') {
			await this.post(call); // what comes next is sent after it
			if (call.method === 'notifications/initialized')
				void this.listen(this.session);
			return;
		}
		this.calls.add(call);
		call.done = this.post(call).finally(() => this.calls.delete(call));
		await call.sent;
	}

	/** The input has ended: waits for answers that are under way. */
	async drain() {
		const busy = [...this.calls].filter((c) => c.method !== 'subscriptions/listen').map((c) => c.done);
		let timer;
		await Promise.race([Promise.all(busy), new Promise((resolve) => (timer = setTimeout(resolve, DRAIN_MS)))]);
		clearTimeout(timer);
		if ([...this.calls].some((c) => c.method !== 'subscriptions/listen'))
			tell(`the input ended, and ${this.calls.size} calls took longer than ${DRAIN_MS / 1000} s`);
	}

	async end(status) {
		this.ending = true;
		this.pauses.forEach((end) => end());
		if (this.session) {
			const leaving = this.line.send('DELETE', { 'Mcp-Session-Id': this.session, 'MCP-Protocol-Version': this.revision }).catch(() => {});
			await Promise.race([leaving, new Promise((resolve) => setTimeout(resolve, GOODBYE_MS))]);
		}
		await this.written; // no line is cut off
		process.exit(status);
	}
}

async function* lines(source) {
	let pieces = [];
	for await (const block of source) {
		let from = 0;
		for (let end = block.indexOf(10); end >= 0; end = block.indexOf(10, from)) {
			pieces.push(block.subarray(from, end));
			yield Buffer.concat(pieces).toString().trim();
			pieces = [];
			from = end + 1;
		}
		pieces.push(block.subarray(from));
	}
	yield Buffer.concat(pieces).toString().trim();
}

/** There is no Caisson: every request is told so. */
async function nowhere(place) {
	for await (const line of lines(process.stdin))
		for (const id of new Call(line).waiting)
			process.stdout.write(`${messages.failure(id, place.why)}\n`);
	process.exitCode = 1;
}

/** A program with our standard streams; signals and its end pass through. */
function replace(command) {
	const child = spawn(command[0], command.slice(1), { stdio: 'inherit' });
	const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'];
	for (const signal of signals)
		process.on(signal, () => child.kill(signal));
	child.on('error', (e) => {
		tell(`${command[0]} cannot be started: ${e.message}`);
		process.exit(126);
	});
	child.on('exit', (code, signal) => {
		if (!signal)
			process.exit(code);
		signals.forEach((s) => process.removeAllListeners(s));
		process.kill(process.pid, signal);
		setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), 1000); // of a signal that does not end us
	});
}

async function main(place) {
	tell(place.say);
	if (place.command)
		return replace(place.command);
	if (!place.url)
		return nowhere(place);
	process.stdout.on('error', () => process.exit(1)); // nobody reads answers any more
	const bridge = new Bridge(place);
	for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'])
		process.once(signal, () => bridge.end(128 + constants.signals[signal]));
	for await (const line of lines(process.stdin))
		if (line)
			await bridge.message(line);
	await bridge.drain();
	return bridge.end(0);
}

module.exports = { main, replace, tell };
