// SPDX-License-Identifier: Apache-2.0
// One server of the test build after the other on one state folder, and everything that may be left of it on this host.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as path from 'node:path';
import { execFileSync, spawnSync } from 'node:child_process';
import { imagesDir, newStateDir, scratch } from '../../lib/env.ts';
import { stateOfItsOwn } from '../../lib/own-images.ts';
import { initsOf, monitorOf, zygotesOf } from '../../lib/family.ts';
import { alive, cgroupFolders, descendants, mounts, self, type Ident, type Program } from '../../lib/process.ts';
import { serve, type Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import { Control } from './points.ts';

/** What came back of a call. */
export type Outcome = { kind: 'right'; value: Json } | { kind: 'error'; code: string; text: string } | { kind: 'closed' };

const ANSWER_MS = 40_000;
const LEAVE_MS = 20_000;
const clientHeaders = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };

interface Reply { status: number; headers: http.IncomingHttpHeaders; body: string }

/** SIGKILL for one that may have ended meanwhile. */
export function kill(p: Ident): void {
	try {
		process.kill(p.pid, 'SIGKILL');
	} catch (e) {
		assert.equal((e as NodeJS.ErrnoException).code, 'ESRCH');
	}
}

function request(port: number, method: string, target: string, headers: Record<string, string> = {}, body?: string): Promise<Reply> {
	return new Promise((resolve, reject) => {
		const r = http.request({ host: '127.0.0.1', port, method, path: target, headers, agent: false, timeout: ANSWER_MS }, (res) => {
			const parts: Buffer[] = [];
			res.on('data', (b: Buffer) => parts.push(b));
			res.on('error', reject);
			res.on('end', () => resolve({ status: res.statusCode!, headers: res.headers, body: Buffer.concat(parts).toString() }));
		});
		r.on('timeout', () => r.destroy(new Error('HANGS')));
		r.on('error', reject);
		r.end(body);
	});
}

/** A state folder on a disk of SIZE, mounted in the mount namespace of the worker until that ends. */
function smallState(size: string): string {
	const image = path.join(scratch('host'), 'disk.img');
	const dir = scratch('state');
	execFileSync('truncate', ['-s', size, image]);
	execFileSync('mke2fs', ['-qF', '-t', 'ext4', '-m0', image]);
	execFileSync('mount', ['-o', 'loop', image, dir]);
	process.prependListener('exit', () => spawnSync('umount', ['-l', dir])); // before the folder is removed
	fs.symlinkSync(imagesDir, path.join(dir, 'images'));
	return dir;
}

export class Server {
	readonly state: string;
	readonly control: Control;
	private readonly env: Record<string, string | undefined>;
	private readonly mountsBefore: number;
	private readonly dead = new Set<string>(); // names of instances that have ended
	/** The server that was there when the operation began goes on. */
	kept = true;
	private program?: Program;
	private front?: Ident;
	private port = 0;
	private client: Record<string, string> = {};
	private serial = 0;

	/** HOST: how large the disk of the state folder is; else it is this machine's. OWN: its images are no other server's. */
	constructor(env: Record<string, string | undefined>, host?: string, own = false) {
		this.state = host ? smallState(host) : own ? stateOfItsOwn() : newStateDir();
		this.mountsBefore = mounts().length;
		this.control = new Control(path.join(this.state, 'kill-points'));
		this.env = {
			SANDBOX_STATE_DIR: this.state, SANDBOX_SOCKET: path.join(this.state, 'server.sock'), CAISSON_KILL_POINTS: this.control.file,
			SANDBOX_LOG_FILE: path.join(this.state, 'log'), SANDBOX_HTTP_PORT: 'off', SANDBOX_EXEC_TIMEOUT_S: '15', SANDBOX_POOL: '0',
			SANDBOX_STORED_MAX_ACTIVE: '1', SANDBOX_MAX_USER_RUNS: undefined, ...env,
		};
	}

	get pid(): number {
		return this.program!.pid;
	}
	get runs(): boolean {
		return this.front !== undefined && alive(this.front);
	}
	/** The server can make sandboxes: front and monitor are there. */
	get whole(): boolean {
		return this.runs && descendants(this.pid).some((p) => p.name === 'caisson-monitor' && p.ppid === this.pid && p.state !== 'Z');
	}

	async start(): Promise<void> {
		const s = await serve({ profile: 'all', env: this.env });
		this.program = s.program;
		this.front = self(s.program.pid);
		this.port = s.port;
		const hello = JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'kill', version: '1' } } });
		const r = await request(this.port, 'POST', '/mcp', clientHeaders, hello);
		assert.equal(r.status, 200, r.body);
		this.client = { ...clientHeaders, 'Mcp-Session-Id': String(r.headers['mcp-session-id']), 'MCP-Protocol-Version': '2025-11-25' };
	}

	/** A run in session ID had an interpreter that was ready before. */
	hadWarmRun(id: string): boolean {
		return fs.readFileSync(path.join(this.state, 'log'), 'utf8').split('\n').some((line) => line.includes('container_exec_done') && line.includes(`"${id}"`) && / warm=true\b/.test(line));
	}

	/** A tool's answer, its typed error, or the end of the connection; anything else fails here. */
	async call(name: string, args: Json): Promise<Outcome> {
		let r: Reply;
		try {
			r = await request(this.port, 'POST', '/mcp', this.client, JSON.stringify({ jsonrpc: '2.0', id: ++this.serial, method: 'tools/call', params: { name, arguments: args } }));
		} catch (e) {
			assert.notEqual((e as Error).message, 'HANGS', `no answer in ${ANSWER_MS} ms`);
			return { kind: 'closed' };
		}
		assert.equal(r.status, 200, r.body);
		const text = /^text\/event-stream/.test(String(r.headers['content-type'])) ? [...r.body.matchAll(/^data: (\{.*\})$/gm)].at(-1)?.[1] : r.body;
		if (!text)
			return { kind: 'closed' };
		const message = JSON.parse(text) as Json;
		assert.ok(message.result, `no result: ${text}`);
		const block = message.result.content[0].text as string;
		const value = message.result.structuredContent?.result ?? message.result.structuredContent ?? JSON.parse(block);
		if (!message.result.isError && value.error === undefined)
			return { kind: 'right', value };
		assert.equal(typeof value.error, 'string', `an error without a type: ${text}`);
		assert.ok(value.message?.length > 0, `an error without words: ${text}`);
		return { kind: 'error', code: value.error, text: value.message };
	}
	async right(name: string, args: Json): Promise<Json> {
		const r = await this.call(name, args);
		assert.equal(r.kind, 'right', `${name}: ${JSON.stringify(r)}`);
		return (r as { value: Json }).value;
	}
	/** Runs code that must come to its end; gives back what it printed. */
	async run(session_id: string, code: string): Promise<string> {
		const r = await this.right('sandbox_run_python', { session_id, code });
		assert.equal(r.exit_code, 0, JSON.stringify(r));
		return String(r.stdout).trim();
	}
	/** The same over REST. */
	async rest(method: string, target: string, body?: Json): Promise<Outcome> {
		try {
			const r = await request(this.port, method, `/api/v1${target}`, { 'Content-Type': 'application/json' }, body && JSON.stringify(body));
			const value = r.body ? JSON.parse(r.body) as Json : {};
			if (r.status < 300)
				return { kind: 'right', value };
			assert.equal(typeof value.code, 'string', `an error without a type: ${r.status} ${r.body}`);
			return { kind: 'error', code: value.code, text: value.detail ?? value.title };
		} catch (e) {
			if (e instanceof assert.AssertionError)
				throw e;
			assert.notEqual((e as Error).message, 'HANGS', `no answer in ${ANSWER_MS} ms`);
			return { kind: 'closed' };
		}
	}
	/** Ids of all stored sandboxes. */
	async stored(): Promise<string[]> {
		const r = await this.rest('GET', '/sandboxes');
		assert.equal(r.kind, 'right', JSON.stringify(r));
		return (r as { value: Json }).value.sandboxes.filter((s: Json) => s.kind === 'stored').map((s: Json) => s.id);
	}
	/** Figures of /metrics, all of one moment. */
	async figures(...names: string[]): Promise<number[]> {
		const r = await request(this.port, 'GET', '/metrics');
		assert.equal(r.status, 200, r.body);
		return names.map((name) => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(r.body)?.[1]));
	}
	async history(sandbox: string): Promise<Json[]> {
		const r = await request(this.port, 'GET', `/api/v1/runs?sandbox=${sandbox}&limit=50`);
		assert.equal(r.status, 200, r.body);
		return JSON.parse(r.body).runs;
	}

	/* ---- who is who ---- */

	victims(who: string, but: Set<number>): Ident[] {
		switch (who) {
		case 'front':
			return [self(this.pid)];
		case 'monitor':
			return this.whole ? [monitorOf(this.pid)] : [];
		case 'zygote':
			return this.whole ? zygotesOf(this.pid) : [];
		default:
			return this.whole ? initsOf(this.pid).filter((p) => !but.has(p.pid)) : [];
		}
	}
	inits(): Ident[] {
		return initsOf(this.pid);
	}
	/** Names of the control groups of this instance. */
	private instance(): string | undefined {
		for (const p of [...this.inits()]) {
			try {
				const m = /caisson-[0-9a-f]{8}/.exec(fs.readFileSync(`/proc/${p.pid}/cgroup`, 'latin1'));
				if (m)
					return m[0];
			} catch {
				// it has ended meanwhile
			}
		}
		return undefined;
	}
	note(): void {
		const name = this.whole ? this.instance() : undefined;
		if (name)
			this.dead.add(name);
	}

	/* ---- ends ---- */

	/** After somebody of it was killed: the rest must go by itself, or when it is told to. */
	async stop(): Promise<void> {
		if (this.runs)
			this.program!.kill('SIGTERM');
		await until('the end of the front', () => !this.runs, LEAVE_MS);
		await this.program!.exit;
		let left: Ident[] = [];
		await until('the end of everything that it had started', () => (left = descendants(process.pid).filter(alive)).length === 0, LEAVE_MS)
			.catch((e: Error) => assert.fail(`${e.message}: ${left.map((p) => `${p.pid} ${p.name} ${p.state}`).join(', ')}`));
		this.program = this.front = undefined;
	}
	/** For the end of the test: whatever it takes. */
	kill(): void {
		for (const p of descendants(process.pid).filter(alive))
			kill(p);
	}

	/* ---- what may be left ---- */

	private loops(): string[] {
		return fs.readdirSync('/sys/block').filter((n) => n.startsWith('loop')).flatMap((n) => {
			try {
				const file = fs.readFileSync(`/sys/block/${n}/loop/backing_file`, 'utf8').trim();
				return file.startsWith(this.state) ? [`${n}: ${file}`] : [];
			} catch {
				return []; // nothing is attached
			}
		});
	}
	private workspaces(): string[] {
		const dir = path.join(this.state, 'workspaces');
		return fs.existsSync(dir) ? fs.readdirSync(dir).filter((n) => !n.endsWith('.lock')).sort() : [];
	}

	/** Workspaces that belong to none of the stored sandboxes. One that was a session has a workspace of another name, a UUID. */
	private strange(keys: string[]): string[] {
		const there = this.workspaces();
		const unknown = there.filter((n) => !keys.some((k) => n === k || n === `${k}.img`));
		const sessions = keys.filter((k) => !/^[0-9a-f]{8}-/.test(k)).length;
		return unknown.length <= sessions && unknown.every((n) => /^[0-9a-f]{8}-.*\.img$/.test(n)) ? [] : unknown;
	}

	/** All that there is belongs to so many living sandboxes, and to the records of stored ones. */
	async clean(sandboxes: number): Promise<void> {
		const keys = await this.stored();
		const own = new Set([this.pid, ...descendants(this.pid).map((p) => p.pid)]);
		const look = (): string[] => {
			const inits = this.inits();
			const groups = cgroupFolders();
			const current = this.instance();
			for (const p of [this.pid, ...descendants(this.pid).map((q) => q.pid)])
				own.add(p);
			return [
				...(inits.length === sandboxes ? [] : [`${inits.length} sandboxes instead of ${sandboxes}`]),
				...descendants(process.pid).filter((p) => alive(p) && !own.has(p.pid)).map((p) => `process ${p.pid} ${p.name}`),
				...groups.filter((g) => [...this.dead].some((d) => d !== current && g.includes(d))).map((g) => `control group ${g}`),
				...(mounts().length === this.mountsBefore ? [] : ['mounts']),
				...(this.loops().length <= sandboxes ? [] : this.loops()),
				...this.strange(keys).map((n) => `workspace ${n}`),
			];
		};
		let left: string[] = [];
		await until('nothing to be left', () => (left = look()).length === 0, LEAVE_MS).catch((e: Error) => assert.fail(`${e.message}: ${left.join('; ')}`));
	}
}
