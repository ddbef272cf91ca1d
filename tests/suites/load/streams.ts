// SPDX-License-Identifier: Apache-2.0
// Tabs of the page that watch a run which prints: what the front pays for each, in CPU time and memory, and whether each gets every line.

import * as fs from 'node:fs';
import * as http from 'node:http';
import * as os from 'node:os';
import { newStateDir } from '../../lib/env.ts';
import { residentBytes } from '../../lib/process.ts';
import { serve } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';

const LINES = 1000;
const PAUSE_MS = 5;
const TAB_MEMORY_MAX = 256 << 10; // a stream may have this much in its queue and buffers
const TICK_MS = 10; // USER_HZ is 100

/** Milliseconds of CPU that a process has used. */
function cpuMs(pid: number): number {
	const fields = fs.readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ');
	return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** An event stream as a tab has it; counts the lines of the run that it was told. */
class Tab {
	lines = 0;
	events = 0;
	resynced = false;
	private greeted = false;
	private rest = '';
	private readonly request: http.ClientRequest;

	constructor(base: string) {
		this.request = http.get(`${base}/api/v1/events`, { agent: false }, (res) => {
			res.setEncoding('utf8').on('data', (t: string) => this.take(t));
		});
		this.request.on('error', () => {}); // it is ended by us
	}

	private take(text: string): void {
		const events = (this.rest + text).split('\n\n');
		this.rest = events.pop()!;
		for (const e of events) {
			this.greeted ||= e.includes('event: hello');
			this.resynced ||= e.includes('event: resync');
			if (!e.includes('event: run.output'))
				continue;
			this.events++;
			const { text: piece } = JSON.parse(/^data: (.*)$/m.exec(e)![1]!) as { text?: string };
			this.lines += (piece ?? '').split('\n').length - 1;
		}
	}

	get ready(): boolean {
		return this.greeted;
	}

	end(): void {
		this.request.destroy();
	}
}

interface Cost { cpu: number; memory: number; events: number }

/** Runs the program that prints while N tabs watch; what the front used for it. */
async function watched(base: string, pid: number, box: string, n: number, findings: string[]): Promise<Cost> {
	const before = residentBytes(pid);
	const tabs = Array.from({ length: n }, () => new Tab(base));
	await until(`${n} streams`, () => tabs.every((t) => t.ready), 30_000);
	const cpu = cpuMs(pid);
	let peak = residentBytes(pid);
	const sampler = setInterval(() => (peak = Math.max(peak, residentBytes(pid))), 100);
	const r = await fetch(`${base}/api/v1/sandboxes/${box}/runs`, { method: 'POST', headers: { 'content-type': 'application/json' },
		body: JSON.stringify({ code: `import time\nfor i in range(${LINES}):\n    print("line", i, flush=True)\n    time.sleep(${PAUSE_MS / 1000})`, wait: true }) });
	if (r.status !== 201)
		findings.push(`the run that prints: ${r.status} ${await r.text()}`);
	await until('every line in every tab', () => tabs.every((t) => t.lines >= LINES), 20_000)
		.catch(() => findings.push(`of ${n} tabs ${tabs.filter((t) => t.lines !== LINES).length} did not get ${LINES} lines (${tabs.filter((t) => t.resynced).length} were told to load again)`));
	clearInterval(sampler);
	const cost = { cpu: cpuMs(pid) - cpu, memory: Math.max(peak, residentBytes(pid)) - before, events: tabs[0]?.events ?? 0 };
	tabs.forEach((t) => t.end());
	return cost;
}

/** The same run with no tab, with one and with N; returns what went wrong. */
export async function streams(n: number): Promise<string[]> {
	const findings: string[] = [];
	const { program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir() } });
	const made = await fetch(`${base}/api/v1/sandboxes`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
	const { id } = await made.json() as { id: string };
	const costs: Cost[] = [];
	await watched(base, program.pid, id, 0, findings); // the first run pays for what every later one finds ready
	for (const tabs of [0, 1, n])
		costs.push(await watched(base, program.pid, id, tabs, findings));
	program.kill('SIGTERM');
	await program.exit;
	const [none, one, all] = costs as [Cost, Cost, Cost];
	const each = all.cpu * 1000 / (all.events * n); // all of its CPU time, also what it needs without a tab
	console.log(`${LINES} lines in ${all.events} events, watched by no tab, one, ${n}: the front used ${none.cpu}, ${one.cpu}, ${all.cpu} ms of CPU (with all of them at most ${each.toFixed(1)} µs for each event of each tab), ` +
		`and ${n} tabs took ${(all.memory / 1048576).toFixed(1)} MiB (load ${os.loadavg()[0]!.toFixed(1)})`);
	if (all.memory > n * TAB_MEMORY_MAX)
		findings.push(`${n} tabs took ${all.memory >> 20} MiB of the front`);
	return findings;
}
