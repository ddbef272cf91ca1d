// SPDX-License-Identifier: Apache-2.0
// Many sandboxes with an idle session each, used again one after the other: the memory of one, and how long waking takes.
import { readFileSync } from "node:fs";
import { lineChart } from "./chart.ts";
import { ms, quantile, show } from "./parts.ts";
import type { Caisson } from "./peers.ts";

// Where the memory of the host is, by lines of /proc/meminfo: what processes own, files in memory, and what only the kernel uses.
const PARTS = ["AnonPages", "Shmem", "PageTables", "KernelStack", "SUnreclaim", "SReclaimable", "Percpu"] as const;
type Parts = Record<(typeof PARTS)[number], number>;
export interface Density { live: number; kibEach: number; partsKib: Parts; wakeMs: number[]; refused: number }

const AT_ONCE = 4; // sandboxes that are made at a time
const LEAVE = 1 / 3; // of the host's memory: no more sandboxes are made when less is available

function meminfo(key: string): number { // KiB
  return Number(new RegExp(`^${key}:\\s+(\\d+)`, "m").exec(readFileSync("/proc/meminfo", "utf8"))?.[1] ?? 0);
}
const partsNow = (): Parts => Object.fromEntries(PARTS.map((p) => [p, meminfo(p)])) as Parts;

// At each of STEPS, uses SAMPLES of the sessions again, each sandbox once, those first that were idle for longest.
export async function density(peer: Caisson, steps: number[], samples: number): Promise<Density[]> {
  const rows: Density[] = [];
  const session_id = (i: number) => `dense-${i}`;
  const statement = (i: number, code: string) => peer.client.tool("sandbox_run_python", { code, session_id: session_id(i), stateful: true });
  const reasons = new Map<string, number>();
  const note = (why: unknown) => {
    const text = String(why).slice(0, 200).replaceAll(/\d+/g, "N");
    reasons.set(text, (reasons.get(text) ?? 0) + 1);
  };
  await peer.start();
  try {
    const before = meminfo("MemAvailable");
    const partsBefore = partsNow();
    let live = 0, next = 0;
    for (const step of steps) {
      let refused = 0;
      while (live < step && meminfo("MemAvailable") > LEAVE * meminfo("MemTotal")) {
        const batch = Math.min(AT_ONCE, step - live);
        const made = await Promise.allSettled(Array.from({ length: batch }, (_, i) => statement(live + i, `x = ${live + i}`)));
        for (const m of made) {
          if (m.status === "fulfilled") continue;
          refused++;
          note(m.reason);
        }
        live += batch;
      }
      await new Promise((done) => setTimeout(done, 1000)); // interpreters of idle sandboxes end
      const kibEach = Math.round((before - meminfo("MemAvailable")) / live);
      const now = partsNow();
      const partsKib = Object.fromEntries(PARTS.map((p) => [p, Math.round((now[p] - partsBefore[p]) / live)])) as Parts;
      const wakeMs: number[] = [];
      for (let i = 0; i < Math.min(samples, live); i++, next = (next + 1) % live) {
        const from = ms();
        try {
          const r = await statement(next, "x");
          if (r.result !== String(next)) throw new Error(`session ${next} has ${r.result}`);
          wakeMs.push(ms() - from);
        } catch (e) {
          refused++;
          note(e);
        }
      }
      rows.push({ live, kibEach, partsKib, wakeMs, refused });
      console.log(`${String(live).padStart(5)} idle sessions: ${kibEach} KiB each, a statement in the one idle for longest p50 ${show(quantile(wakeMs, 0.5))} ms p99 ${show(quantile(wakeMs, 0.99))} ms n=${wakeMs.length}, ${refused} refused`);
      console.log(`${" ".repeat(20)} of that ${PARTS.map((p) => `${p} ${partsKib[p]}`).join(" · ")}`);
      if (live >= step) continue;
      console.log(`stopped at ${live}: less than a third of the host's memory is available`);
      break;
    }
  } finally {
    for (const [why, times] of reasons) console.log(`refused ${times} times: ${why}`);
    await peer.stop();
  }
  return rows;
}

export function densityChart(rows: Density[]): string {
  return lineChart("idle sessions", [
    { title: "a statement in the one idle for longest, p50, ms", points: rows.map((r) => [r.live, quantile(r.wakeMs, 0.5)]) },
    { title: "p99, ms", points: rows.map((r) => [r.live, quantile(r.wakeMs, 0.99)]) },
    { title: "memory of the host for each, MiB", points: rows.map((r) => [r.live, r.kibEach / 1024]) },
  ]);
}

export function densityTable(rows: Density[]): string[] {
  return [`| idle sessions | memory of each | ${PARTS.join(" | ")} | a statement in the one idle for longest, p50 / p99 | refused |`, `|---:|---:|${"---:|".repeat(PARTS.length)}---:|---:|`,
    ...rows.map((r) => `| ${r.live} | ${r.kibEach} KiB | ${PARTS.map((p) => r.partsKib[p]).join(" | ")} | ${show(quantile(r.wakeMs, 0.5))} / ${show(quantile(r.wakeMs, 0.99))} ms | ${r.refused} |`), ""];
}
