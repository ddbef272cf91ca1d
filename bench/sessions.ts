// SPDX-License-Identifier: Apache-2.0
// What a session costs: its statements in several states, the memory of an idle one, the statement after a crash. With CAISSON_BEFORE, another
// binary (and CAISSON_BEFORE_STATE, its state folder if its images are other ones), both are measured in turns, and the ratios are printed.
import { readdirSync, readFileSync } from "node:fs";
import { ms, quantile, show } from "./parts.ts";
import type { Caisson } from "./peers.ts";

export interface SessionRow { id: string; title: string; unit: "ms" | "KiB"; samples: Record<string, number[]> } // by the name of the binary

interface Scene {
  id: string;
  title: string;
  n: number;
  before?: string; // the first cell of the session
  prepare?: string; // a statement before each sample, which may end badly
  code: string;
  pauseMs?: number; // before each sample
  times?: number; // statements of a sample, one after the other
}

const THREADS = `import threading
stop = threading.Event()
for _ in range(15): threading.Thread(target=stop.wait, daemon=True).start()`;
const LARGE = "d = [{'k': i, 'v': str(i)} for i in range(400_000)]";

const scenes: Scene[] = [
  { id: "pause", title: "a statement after a pause of 50 ms", n: 100, code: "n = 1", pauseMs: 50 },
  { id: "value", title: "a number as last expression, after a pause", n: 100, code: "6 * 7", pauseMs: 50 },
  { id: "burst", title: "12 statements back to back", n: 12, code: "n = 1", pauseMs: 50, times: 12 },
  { id: "threads", title: "a statement after a pause, with 16 threads", n: 50, before: THREADS, code: "n = 1", pauseMs: 50 },
  { id: "threads-burst", title: "12 statements back to back, with 16 threads", n: 12, before: THREADS, code: "n = 1", pauseMs: 50, times: 12 },
  { id: "large", title: "a statement after a pause, with 400,000 dicts", n: 30, before: LARGE, code: "n = 1", pauseMs: 50 },
  { id: "crash", title: "the statement after a crash", n: 20, prepare: "import os; os.abort()", code: "n = 1" },
  { id: "minute", title: "the first statement after a minute", n: 2, code: "n = 1", pauseMs: 60_000 },
];

const pause = (n: number) => new Promise((done) => setTimeout(done, n));

/** Private dirty memory in KiB of all processes below PID, the process itself left out. */
function dirtyBelow(pid: number): number {
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc").filter((p) => /^\d+$/.test(p))) {
    try {
      parents.set(Number(name), Number(/^\d+ \(.*\) \S (\d+)/s.exec(readFileSync(`/proc/${name}/stat`, "utf8"))![1]));
    } catch {
      // it has ended
    }
  }
  const isBelow = (p: number): boolean => p === pid || (parents.has(p) && parents.get(p) !== 0 && isBelow(parents.get(p)!));
  let sum = 0;
  for (const p of parents.keys()) {
    if (p === pid || !isBelow(p)) continue;
    try {
      sum += Number(/^Private_Dirty:\s+(\d+)/m.exec(readFileSync(`/proc/${p}/smaps_rollup`, "utf8"))![1]);
    } catch {
      // the same
    }
  }
  return sum;
}

async function idleMemory(peer: Caisson, session_id: string): Promise<number> {
  const run = (code: string) => peer.client.tool("sandbox_run_python", { session_id, code, stateful: true });
  await peer.client.tool("sandbox_run_python", { session_id, code: "1" });
  await pause(1500); // interpreters that wait are there
  const before = dirtyBelow(peer.client.child.pid!);
  await run("n = 1");
  await pause(1500);
  const after = dirtyBelow(peer.client.child.pid!);
  await peer.client.tool("sandbox_close_session", { session_id });
  return after - before;
}

export async function sessions(peers: Caisson[], quick: boolean, only: string[]): Promise<SessionRow[]> {
  const wanted = (id: string) => only.length === 0 || only.includes(id);
  const rows: SessionRow[] = [];
  const began: Caisson[] = [];
  try {
    for (const p of peers) {
      await p.start();
      began.push(p);
    }
    for (const s of scenes.filter((k) => wanted(k.id) && (!quick || k.id !== "minute"))) {
      const session_id = `sessions-${s.id}`;
      const call = (p: Caisson, code: string) => p.client.tool("sandbox_run_python", { session_id, code, stateful: true });
      const row: SessionRow = { id: s.id, title: s.title, unit: "ms", samples: Object.fromEntries(peers.map((p) => [p.name, []])) };
      for (const p of peers) await call(p, s.before ?? "n = 0");
      for (let i = 0; i < (quick ? Math.ceil(s.n / 10) : s.n); i++) {
        const turn = i % 2 === 0 ? peers : [...peers].reverse();
        if (s.pauseMs) await pause(s.pauseMs);
        for (const p of turn) {
          if (s.prepare) await call(p, s.prepare);
          const from = ms();
          for (let k = 0; k < (s.times ?? 1); k++) await call(p, s.code);
          row.samples[p.name]!.push(ms() - from);
        }
      }
      for (const p of peers) await p.client.tool("sandbox_close_session", { session_id });
      rows.push(row);
      console.log(line(row, peers));
    }
    const memory: SessionRow = { id: "memory", title: "private memory of an idle session", unit: "KiB", samples: Object.fromEntries(peers.map((p) => [p.name, []])) };
    for (let i = 0; wanted(memory.id) && i < (quick ? 1 : 3); i++)
      for (const p of peers) memory.samples[p.name]!.push(await idleMemory(p, `sessions-memory-${i}`));
    if (wanted(memory.id)) {
      rows.push(memory);
      console.log(line(memory, peers));
    }
  } finally {
    for (const p of began) await p.stop().catch(() => {});
  }
  return rows;
}

function line(row: SessionRow, peers: Caisson[]): string {
  const medians = peers.map((p) => quantile(row.samples[p.name]!, 0.5));
  const ratio = medians.length === 2 ? `  ${show(medians[0]! / medians[1]!)} times the one before` : "";
  return `${row.title.padEnd(48)}${peers.map((p, i) => `${p.name} ${show(medians[i]!)} ${row.unit}`).join(", ")}${ratio}  n=${row.samples[peers[0]!.name]!.length}`;
}

export function sessionsTable(rows: SessionRow[]): string[] {
  const names = Object.keys(rows[0]!.samples);
  return [`| of a session, median | ${names.join(" | ")} |`, `|---|${names.map(() => "---:|").join("")}`,
    ...rows.map((r) => `| ${r.title} | ${names.map((n) => `${show(quantile(r.samples[n]!, 0.5))} ${r.unit}`).join(" | ")} |`), ""];
}
