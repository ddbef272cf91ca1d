// SPDX-License-Identifier: Apache-2.0
// Makes, uses and ends sandboxes many thousand times. Afterwards nothing of them may be left.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { binary, scratch, stateDir } from '../../lib/env.ts';
import { initsOf, monitorOf, zygotesOf } from '../../lib/family.ts';
import { ensureImages } from '../../lib/images.ts';
import { options } from '../../lib/options.ts';
import { cgroupFolders, descendants, mounts, openDescriptors, residentBytes } from '../../lib/process.ts';
import { serve } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';

const usage = `usage: tests/run soak [options]
  --cycles N        sandboxes made and ended, at least 10 (default: 100000)
  --connections N   clients at a time (default: 4)
  --pool N          sandboxes made ahead (default: 1)`;
const opt = options(usage, {
	cycles: { type: 'string', default: '100000' },
	connections: { type: 'string', default: '4' },
	pool: { type: 'string', default: '1' },
});
const cycles = Number(opt.cycles);
const connections = Number(opt.connections);
if (!(cycles >= 10) || !(connections >= 1)) {
	console.log(`${usage}\n0 passed, 1 failed, 0 skipped`);
	process.exit(2);
}
const missing = ensureImages(path.dirname(binary), 'science');
if (missing) {
	console.log(`FAILED  the image ${missing} could not be built\n0 passed, 1 failed, 0 skipped`);
	process.exit(1);
}

const MIB = 1 << 20;
const perSession = 250; // cycles of one MCP session
const warmUpCycles = 100; // lazily made things are made
/** How much each may have grown (clients open and close connections as they like); the rest must be equal. */
const slack: Record<string, number> = {
	'front descriptors': 2 * connections, 'memory groups of the host': 200, 'used MiB of the disk': 512, // others may be at work
	'front MiB': 8, 'monitor MiB': 2, 'zygote MiB': 24,
};

type Counts = Record<string, number>;

function filesBelow(dir: string): number {
	return fs.readdirSync(dir, { withFileTypes: true }).reduce((n, e) => n + 1 + (e.isDirectory() ? filesBelow(path.join(dir, e.name)) : 0), 0);
}

/** Groups of the instance of a front, by name: others may be at work on this machine. */
function groupsOf(front: number): number {
	const names = new Set<string>();
	for (const p of descendants(front))
		try {
			for (const m of fs.readFileSync(`/proc/${p.pid}/cgroup`, 'latin1').matchAll(/caisson-[0-9a-f]{8}/g))
				names.add(m[0]);
		} catch {
			continue; // it has ended meanwhile
		}
	return cgroupFolders().filter((c) => names.has(/caisson-[0-9a-f]{8}/.exec(c)?.[0] ?? '')).length;
}

/** Loop devices with a file of the state folder; those of sandboxes have no name any more, "/…/#12 (deleted)". */
function disks(): number {
	return fs.readdirSync('/sys/block').filter((n) => {
		try {
			return fs.readFileSync(`/sys/block/${n}/loop/backing_file`, 'utf8').startsWith(stateDir());
		} catch {
			return false; // nothing is attached
		}
	}).length;
}

/** Memory groups of v1, those included that have no folder any more, but that cached pages keep; 0 on v2. */
function memoryGroups(): number {
	return Number(/^memory\t\d+\t(\d+)/m.exec(fs.readFileSync('/proc/cgroups', 'latin1'))?.[1] ?? 0);
}

function usedMib(dir: string): number {
	const s = fs.statfsSync(dir);
	return Math.round((s.blocks - s.bfree) * s.bsize / MIB);
}

function count(front: number, files: string[]): Counts {
	const monitor = monitorOf(front).pid;
	const zygote = zygotesOf(front)[0]?.pid;
	const mib = (pid: number): number => Math.round(residentBytes(pid) / MIB * 10) / 10;
	return {
		processes: descendants(front).filter((p) => p.state !== 'Z').length,
		zombies: descendants(front).filter((p) => p.state === 'Z').length,
		sandboxes: initsOf(front).length,
		'mounts of the host': mounts().length,
		'mounts of the monitor': mounts(monitor).length,
		'control groups': groupsOf(front),
		'front descriptors': openDescriptors(front),
		'monitor descriptors': openDescriptors(monitor),
		'zygote descriptors': zygote ? openDescriptors(zygote) : 0,
		disks: disks(),
		'memory groups of the host': memoryGroups(),
		'used MiB of the disk': usedMib(stateDir()),
		files: files.reduce((n, f) => n + (fs.existsSync(f) ? filesBelow(f) : 0), 0),
		'front MiB': mib(front),
		'monitor MiB': mib(monitor),
		'zygote MiB': zygote ? mib(zygote) : 0,
	};
}

async function cycle(client: Client, id: string): Promise<void> {
	const call = async (name: string, args: Record<string, string>): Promise<Record<string, unknown>> => {
		const r = await client.callTool({ name, arguments: args }, undefined, { timeout: 90_000 });
		return (r.structuredContent as { result: Record<string, unknown> }).result;
	};
	const ran = await call('sandbox_run_python', { code: `open("f", "w").write("x"); print("${id}")`, session_id: id });
	if (ran.stdout !== `${id}\n`)
		throw new Error(`${id}: ${JSON.stringify(ran)}`);
	const closed = await call('sandbox_close_session', { session_id: id });
	if (closed.error)
		throw new Error(`${id}: ${JSON.stringify(closed)}`);
}

async function main(): Promise<boolean> {
	const tmp = scratch('tmp');
	const { program, base } = await serve({ env: { TMPDIR: tmp, SANDBOX_POOL: opt.pool, SANDBOX_POOL_MAX: opt.pool, SANDBOX_LOG_FILE: '', SANDBOX_MAX_SESSIONS: String(connections + 10) } });
	const files = [stateDir(), tmp];
	const rows: [string, Counts][] = [];
	let failed = 0, next = 0, asked = false;
	const finish = (): void => { // the cycles that are at work end, and are judged
		asked = true;
	};
	process.once('SIGINT', finish).once('SIGTERM', finish);
	try {
		const take = (last: number): number | undefined => next < last && !asked ? next++ : undefined;
		// A client's session keeps its last events (8 MiB at most) for resumption: new ones now and then.
		const worker = async (last: number): Promise<void> => {
			while (next < last && !asked) {
				const client = new Client({ name: 'soak', version: '1.0.0' });
				const transport = new StreamableHTTPClientTransport(new URL(`${base}/mcp`));
				await client.connect(transport);
				for (let k = 0, i = take(last); i !== undefined; i = ++k < perSession ? take(last) : undefined)
					await cycle(client, `c${i}`).catch((e: Error) => {
						if (failed++ < 10)
							console.error(e.message);
					});
				await transport.terminateSession();
				await client.close();
			}
		};
		const turn = async (last: number): Promise<void> => {
			await Promise.all(Array.from({ length: connections }, () => worker(last)));
		};
		const settled = async (): Promise<Counts> => {
			await until('the last sandbox to go, the pool to be full and one zygote', () =>
				initsOf(program.pid).length === Number(opt.pool) && zygotesOf(program.pid).length === 1, 60_000);
			let before = JSON.stringify(count(program.pid, files));
			return until('counts that stay', async () => {
				await new Promise((resolve) => setTimeout(resolve, 500));
				const now = count(program.pid, files);
				const same = JSON.stringify(now) === before;
				before = JSON.stringify(now);
				return same && now;
			}, 60_000);
		};
		await turn(warmUpCycles);
		rows.push(['before', await settled()]);
		const started = performance.now();
		const passed = (): number => (performance.now() - started) / 1000;
		for (let part = 1; part <= 10 && !asked; part++) {
			await turn(warmUpCycles + Math.floor(cycles * part / 10));
			rows.push([`${part * 10} %`, count(program.pid, files)]);
			console.error(`${next - warmUpCycles} cycles after ${passed().toFixed(0)} s, ${failed} failed`);
		}
		const seconds = passed(), done = next - warmUpCycles;
		rows.push(['after', await settled()]);
		console.log(`${done} cycles over ${connections} connections in ${seconds.toFixed(0)} s: ${(done / seconds).toFixed(0)} a second, ${failed} failed`);
	} finally {
		program.kill('SIGTERM');
		await program.exit;
	}
	return report(rows) && failed === 0 && !asked;
}

function report(rows: [string, Counts][]): boolean {
	const names = Object.keys(rows[0]![1]);
	const [first, last] = [rows[0]![1], rows.at(-1)![1]];
	let good = true;
	console.log(['', ...rows.map(([when]) => when)].map((c, i) => c.padEnd(i ? 7 : 26)).join(' '));
	for (const name of names) {
		const grown = last[name]! - first[name]!;
		const ok = name in slack ? grown <= slack[name]! : grown === 0;
		good &&= ok;
		console.log([name, ...rows.map(([, c]) => String(c[name]))].map((c, i) => c.padEnd(i ? 7 : 26)).join(' ') + (ok ? '' : ' <- differs'));
	}
	return good;
}

const good = await main().catch((e: Error) => {
	console.error(e.stack);
	return false;
});
console.log(good ? '1 passed, 0 failed, 0 skipped' : '0 passed, 1 failed, 0 skipped');
process.exit(good ? 0 : 1);
