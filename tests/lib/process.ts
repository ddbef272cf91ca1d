// SPDX-License-Identifier: Apache-2.0
// Child processes of the tests, and what /proc says about a tree of them.

import * as fs from 'node:fs';
import { spawn, type ChildProcess } from 'node:child_process';
import { asProductUser, binary, productEnv } from './env.ts';
import { until } from './wait.ts';

export interface Exit {
	code: number | null;
	signal: NodeJS.Signals | null;
	stdout: Buffer;
	stderr: Buffer;
}

/** Children that still live. They go with us also when a signal ends the tests: nobody else would end a server. */
const living = new Set<ChildProcess>();
process.on('exit', () => living.forEach((c) => c.kill('SIGKILL')));

const CRASHES: readonly unknown[] = ['SIGSEGV', 'SIGABRT', 'SIGBUS', 'SIGILL', 'SIGFPE', 'SIGSYS'];

/** Such an end of a program makes a failure of its file final (file.ts). */
export function noteCrash(argv: readonly string[], signal: NodeJS.Signals | null): void {
	if (process.env.CAISSON_TEST_CRASHES && CRASHES.includes(signal))
		fs.appendFileSync(process.env.CAISSON_TEST_CRASHES, `${signal} ${argv.slice(0, 6).join(' ')}\n`);
}

export class Program {
	readonly child: ChildProcess;
	readonly exit: Promise<Exit>;
	private out: Buffer[] = [];
	private err: Buffer[] = [];

	constructor(child: ChildProcess) {
		this.child = child;
		living.add(child);
		child.stdout?.on('data', (b: Buffer) => this.out.push(b));
		child.stderr?.on('data', (b: Buffer) => this.err.push(b));
		child.stdin?.on('error', () => {}); // EPIPE of a program that ended
		this.exit = new Promise((resolve, reject) => {
			child.once('error', reject);
			child.once('exit', (_, signal) => {
				living.delete(child);
				noteCrash(child.spawnargs, signal);
			});
			child.once('close', (code, signal) =>
				resolve({ code, signal, stdout: Buffer.concat(this.out), stderr: Buffer.concat(this.err) }));
		});
	}

	get pid(): number {
		return this.child.pid!;
	}
	get stdout(): string {
		return Buffer.concat(this.out).toString();
	}
	get stderr(): string {
		return Buffer.concat(this.err).toString();
	}
	kill(signal: NodeJS.Signals): void {
		this.child.kill(signal);
	}
	/** Ends it the hard way if it still lives; for cleaning up after a test. */
	async end(): Promise<void> {
		if (this.child.exitCode === null && this.child.signalCode === null)
			this.child.kill('SIGKILL');
		await this.exit;
	}
}

export interface StartOptions {
	env?: Record<string, string | undefined>;
	cwd?: string;
	input?: string | Buffer;
	keepInput?: boolean; // leave stdin open
	program?: string; // another name of the binary
	under?: string[]; // the command that starts it
	asCaller?: boolean; // as the user of the tests, whatever the mode
}

/** Starts `caisson ARGS` as the user of this mode. */
export function start(args: string[], o: StartOptions = {}): Program {
	const own = [...(o.under ?? []), o.program ?? binary, ...args];
	const argv = o.asCaller ? own : asProductUser(own);
	const env = productEnv(o.env);
	const child = spawn(argv[0]!, argv.slice(1), { env, cwd: o.cwd ?? env.HOME, stdio: ['pipe', 'pipe', 'pipe'] });
	const program = new Program(child);
	if (o.input !== undefined)
		child.stdin!.write(o.input);
	if (!o.keepInput)
		child.stdin!.end();
	return program;
}

/** Runs `caisson ARGS` to its end. */
export function caisson(args: string[], o: StartOptions = {}): Promise<Exit> {
	return start(args, o).exit;
}

/** One process, told apart from a later one with the same pid by its start time. */
export interface Ident {
	pid: number;
	ppid: number;
	started: string;
	name: string;
	state: string;
}

function readStat(pid: number): Ident | undefined {
	try {
		const stat = fs.readFileSync(`/proc/${pid}/stat`, 'latin1');
		const end = stat.lastIndexOf(')');
		const f = stat.slice(end + 2).split(' ');
		return { pid, name: stat.slice(stat.indexOf('(') + 1, end), state: f[0]!, ppid: Number(f[1]), started: f[19]! };
	} catch {
		return undefined;
	}
}

function allProcesses(): Ident[] {
	return fs.readdirSync('/proc').filter((n) => /^\d+$/.test(n)).flatMap((n) => readStat(Number(n)) ?? []);
}

/** Every live descendant of `pid` (itself excluded). */
export function descendants(pid: number): Ident[] {
	const all = allProcesses();
	const found = new Map<number, Ident>();
	let grown = true;
	while (grown) {
		grown = false;
		for (const p of all) {
			if (!found.has(p.pid) && (p.ppid === pid || found.has(p.ppid))) {
				found.set(p.pid, p);
				grown = true;
			}
		}
	}
	return [...found.values()];
}

export function alive(p: Ident): boolean {
	const now = readStat(p.pid);
	return now !== undefined && now.started === p.started && now.state !== 'Z' && now.state !== 'X';
}

export function self(pid: number): Ident {
	const p = readStat(pid);
	if (!p)
		throw new Error(`no process ${pid}`);
	return p;
}

/** The inode of a namespace of a process, or undefined when it is gone or hidden from us. */
export function namespaceOf(pid: number, kind: 'pid' | 'mnt' | 'net' | 'user' | 'ipc' | 'uts' | 'cgroup'): string | undefined {
	try {
		return fs.readlinkSync(`/proc/${pid}/ns/${kind}`);
	} catch {
		return undefined;
	}
}

/** Processes of any of these pid namespaces. */
export function membersOf(pidNamespaces: Iterable<string>): Ident[] {
	const wanted = new Set(pidNamespaces);
	return allProcesses().filter((p) => p.state !== 'Z' && wanted.has(namespaceOf(p.pid, 'pid') ?? ''));
}

/** A census of everything that a front has below it, taken while it lives, to be checked after its death. */
export class Census {
	private readonly people = new Map<string, Ident>();
	/** A descriptor for each pid namespace. While it is open the kernel gives the number of the namespace to no other, which may be a stranger's sandbox. */
	private readonly spaces = new Map<string, number>();

	/** Adds all that live below `pid` now, and `pid` itself. */
	take(pid: number): Ident[] {
		const own = namespaceOf(process.pid, 'pid');
		const found = [self(pid), ...descendants(pid)];
		for (const p of found) {
			this.people.set(`${p.pid}/${p.started}`, p);
			this.hold(p.pid, own);
		}
		return found;
	}
	private hold(pid: number, own: string | undefined): void {
		const seen = namespaceOf(pid, 'pid');
		if (!seen || seen === own || this.spaces.has(seen))
			return;
		let fd: number;
		try {
			fd = fs.openSync(`/proc/${pid}/ns/pid`, 'r');
		} catch {
			return; // it has ended meanwhile
		}
		const ns = `pid:[${fs.fstatSync(fd).ino}]`;
		if (ns === own || this.spaces.has(ns))
			fs.closeSync(fd);
		else
			this.spaces.set(ns, fd);
	}
	/** Who still lives, but for these pids. */
	survivors(...except: number[]): Ident[] {
		return [...[...this.people.values()].filter(alive), ...membersOf(this.spaces.keys())].filter((p) => !except.includes(p.pid));
	}
	/** Once all are gone. */
	private forget(): void {
		for (const fd of this.spaces.values())
			fs.closeSync(fd);
		this.spaces.clear();
	}
	get size(): number {
		return this.people.size;
	}
	async gone(deadlineMs: number, ...except: number[]): Promise<void> {
		let left: Ident[] = [];
		await until('no process of the dead instance', () => (left = this.survivors(...except)).length === 0, deadlineMs).catch((e: Error) => {
			throw new Error(`${e.message}; left: ${left.map((p) => `${p.pid} ${p.name} ${p.state}`).join(', ')}`);
		});
		if (except.length === 0)
			this.forget();
	}
}

export function residentBytes(pid: number): number {
	const m = /^VmRSS:\s+(\d+) kB/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'latin1'));
	return m ? Number(m[1]) * 1024 : 0;
}

export function openDescriptors(pid: number): number {
	return fs.readdirSync(`/proc/${pid}/fd`).length;
}

export function mounts(pid: number | 'self' = 'self'): string[] {
	return fs.readFileSync(`/proc/${pid}/mountinfo`, 'latin1').trim().split('\n');
}

/** All cgroup folders of this host with `caisson` in their path, in every hierarchy. */
export function cgroupFolders(): string[] {
	const found: string[] = [];
	const walk = (dir: string, depth: number): void => {
		let names: fs.Dirent[];
		try {
			names = fs.readdirSync(dir, { withFileTypes: true });
		} catch {
			return;
		}
		for (const n of names) {
			if (!n.isDirectory())
				continue;
			const p = `${dir}/${n.name}`;
			if (p.includes('caisson'))
				found.push(p);
			if (depth > 0)
				walk(p, depth - 1);
		}
	};
	walk('/sys/fs/cgroup', 6);
	return found;
}
