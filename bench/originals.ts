// SPDX-License-Identifier: Apache-2.0
// What was slower here than in one of the two servers that this project replaces, measured as their clients meet it. The originals
// need Docker and their own dependencies: `there` is the figure of theirs that was recorded on a machine of this kind, beside ours then.
import { readFileSync } from "node:fs";
import { ms, quantile, show } from "./parts.ts";
import { Caisson, type Paths } from "./peers.ts";
import { workloads } from "./rows.ts";

export interface Slower { title: string; unit: "ms" | "MiB"; samples: number[]; there: number | null; was: number | null; goal: number }

const GROWN = 100; // servers that ran at once before `initialize` is measured

async function times(n: number, job: (i: number) => Promise<unknown>): Promise<number[]> {
  const samples = [];
  for (let i = 0; i < n; i++) {
    const from = ms();
    await job(i);
    samples.push(ms() - from);
  }
  return samples;
}

function mibOf(pid: number): number {
  let kib = 0;
  const waiting = [pid];
  for (let p = waiting.pop(); p !== undefined; p = waiting.pop())
    try {
      kib += Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${p}/smaps_rollup`, "utf8"))?.[1] ?? 0);
      for (const c of readFileSync(`/proc/${p}/task/${p}/children`, "utf8").split(" ").filter(Boolean)) waiting.push(Number(c));
    } catch {
      // it has just ended
    }
  return kib / 1024;
}

export async function originals(paths: Paths, samples: number): Promise<Slower[]> {
  const make = (env: Record<string, string> = {}) => new Caisson("originals", "", paths, env);
  const rows: Slower[] = [];
  const add = (row: Slower) => {
    rows.push(row);
    console.log(`${row.title.padEnd(44)} p50 ${show(quantile(row.samples, 0.5))} ${row.unit}  (theirs ${row.there ?? "–"}, ours before ${row.was ?? "–"}, goal ${row.goal})  n=${row.samples.length}`);
  };

  const peer = make({ SANDBOX_MAX_ARTIFACT_READ_BYTES: "20000000", SANDBOX_MAX_LINE_BYTES: "0", SANDBOX_USER_SANDBOX_LIMIT: "0" });
  await peer.start();
  try {
    for (const [mb, there, was, goal] of [[5, null, null, 30], [9, 159, 290, 53]] as const) {
      await peer.client.tool("sandbox_run_python", { session_id: "read", code: `open("f${mb}", "wb").write(bytes(range(250)) * ${mb * 4000})` });
      add({ title: `read_artifact of ${mb} MB over stdio`, unit: "ms", there, was, goal, samples: await times(samples, () => peer.client.tool("sandbox_read_artifact", { session_id: "read", path: `/mnt/data/f${mb}` })) });
    }
    const made = [];
    for (let i = 0; i < 3; i++) made.push((await peer.client.tool("create_sandbox", {})).sandbox_id);
    try {
      add({ title: "list_sandboxes of three", unit: "ms", there: null, was: 59, goal: 5, samples: await times(samples, () => peer.client.tool("list_sandboxes", {})) });
    } finally {
      for (const id of made) await peer.client.tool("sandbox_close_session", { session_id: id });
    }
    add({ title: "memory of the server after use", unit: "MiB", there: 168, was: 224, goal: 150, samples: [mibOf(peer.client.child.pid!)] });
  } finally {
    await peer.stop();
  }

  const charts: number[] = [];
  for (let i = 0; i < Math.max(2, samples / 10); i++) {
    const fresh = make();
    const from = ms();
    await fresh.startOnly();
    await fresh.client.request("tools/call", { name: "sandbox_run_python", arguments: { code: workloads.chart } });
    charts.push(ms() - from);
    await fresh.stop();
  }
  add({ title: "first chart of a freshly started server", unit: "ms", there: 1465, was: 1024, goal: 500, samples: charts });

  const many = Array.from({ length: Math.min(GROWN, samples * 2) }, () => make({ SANDBOX_POOL: "0" }));
  await Promise.all(many.map((m) => m.startOnly()));
  await Promise.all(many.map((m) => m.stop()));
  const starts = await times(samples, async () => {
    const one = make();
    await one.startOnly();
    await one.stop();
  });
  add({ title: `start to initialize, after ${many.length} servers at once`, unit: "ms", there: null, was: 100, goal: 20, samples: starts });
  return rows;
}

export function originalsTable(rows: Slower[]): string[] {
  return ["| as clients of the replaced servers meet it | here | there | here before | goal |", "|---|---:|---:|---:|---:|",
    ...rows.map((r) => `| ${r.title} | ${show(quantile(r.samples, 0.5))} ${r.unit} | ${r.there === null ? "–" : `${r.there} ${r.unit}`} | ${r.was === null ? "–" : `${r.was} ${r.unit}`} | ${r.goal} ${r.unit} |`), ""];
}
