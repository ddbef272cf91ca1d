// SPDX-License-Identifier: Apache-2.0
// Runs the table of rows over all contenders, interleaved, and writes results/latest.json, results/table.md and results/chart.svg.
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { cpus, release } from "node:os";
import { barChart } from "./chart.ts";
import { bubblewrap, Caisson, docker, paths, plainPython, type Peer } from "./peers.ts";
import { growthSteps, latencyRows, throughputClients, throughputSeconds, workloads } from "./rows.ts";

const out = new URL("./results/", import.meta.url).pathname;
const quick = process.argv.includes("--quick");
const ms = () => Number(process.hrtime.bigint()) / 1e6;

function quantile(samples: number[], q: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
}

const show = (v: number) => (v < 10 ? v.toFixed(2) : v < 100 ? v.toFixed(1) : v.toFixed(0));

interface Cell {
  row: string;
  peer: string;
  samples: number[];
}

async function latency(peers: Peer[]): Promise<Cell[]> {
  const cells: Cell[] = [];
  for (const row of latencyRows) {
    const here = peers.filter((p) => p[row.how]).map((peer) => ({ peer, cell: { row: row.id, peer: peer.name, samples: [] as number[] } }));
    const wanted = quick ? Math.max(5, row.samples / 10) : row.samples;
    for (let i = 0; i < wanted; i++) {
      for (const { peer, cell } of here) {
        const slow = cell.samples.length >= 5 && quantile(cell.samples, 0.5) > 200;
        if (slow && i % 10 !== 0) continue;
        const from = ms();
        await peer[row.how]!(workloads[row.workload]);
        cell.samples.push(ms() - from);
      }
    }
    for (const { cell } of here) {
      cells.push(cell);
      console.log(`${row.title.padEnd(44)} ${cell.peer.padEnd(16)} p50 ${show(quantile(cell.samples, 0.5)).padStart(8)} ms  p99 ${show(quantile(cell.samples, 0.99)).padStart(8)} ms  n=${cell.samples.length}`);
    }
  }
  return cells;
}

async function throughput(peers: Peer[]): Promise<{ peer: string; clients: number; perSecond: number }[]> {
  const rows = [];
  for (const peer of peers.filter((p) => p.cycle)) {
    for (const clients of throughputClients) {
      const end = ms() + (quick ? 1 : throughputSeconds) * 1000;
      const from = ms();
      let done = 0;
      await Promise.all(
        Array.from({ length: clients }, async () => {
          while (ms() < end) {
            await peer.cycle!(workloads.print);
            done++;
          }
        }),
      );
      const perSecond = done / ((ms() - from) / 1000);
      rows.push({ peer: peer.name, clients, perSecond });
      console.log(`create + run + destroy, ${String(clients).padStart(2)} clients  ${peer.name.padEnd(16)} ${show(perSecond)} a second`);
    }
  }
  return rows;
}

async function burst(peer: Caisson): Promise<number> {
  const from = ms();
  await Promise.all(Array.from({ length: 100 }, () => peer.cycle(workloads.print)));
  const took = ms() - from;
  console.log(`100 at once                                  ${peer.name.padEnd(16)} ${show(took)} ms in all`);
  return took;
}

function memAvailableKiB(): number {
  return Number(/MemAvailable:\s+(\d+)/.exec(readFileSync("/proc/meminfo", "utf8"))![1]);
}

// The cost of one more sandbox as their number grows, and what an idle one takes.
async function growth(peer: Caisson): Promise<{ live: number; createMs: number; runMs: number; kibEach: number }[]> {
  const rows = [];
  const before = memAvailableKiB();
  let live = 0;
  for (const step of quick ? growthSteps.slice(0, 2) : growthSteps) {
    while (live < step) {
      const batch = Math.min(8, step - live);
      await Promise.all(
        Array.from({ length: batch }, (_, i) => peer.client.tool("sandbox_upload_file", { filename: "x", content_base64: "", session_id: `grow-${live + i}` })),
      );
      live += batch;
    }
    const create: number[] = [];
    const again: number[] = [];
    for (let i = 0; i < 10; i++) {
      let from = ms();
      const result = await peer.client.tool("sandbox_run_python", { code: workloads.print });
      create.push(ms() - from);
      from = ms();
      await peer.client.tool("sandbox_run_python", { code: workloads.print, session_id: result.session_id });
      again.push(ms() - from);
      await peer.client.tool("sandbox_close_session", { session_id: result.session_id });
    }
    const row = { live, createMs: quantile(create, 0.5), runMs: quantile(again, 0.5), kibEach: (before - memAvailableKiB()) / live };
    rows.push(row);
    console.log(`with ${String(live).padStart(4)} live sandboxes: new + print ${show(row.createMs)} ms, again ${show(row.runMs)} ms, ${show(row.kibEach)} KiB of the host's memory each`);
  }
  for (let i = 0; i < live; i++) await peer.client.tool("sandbox_close_session", { session_id: `grow-${i}` });
  return rows;
}

async function serverCost(make: () => Caisson): Promise<{ startMs: number[]; rssKiB: Record<string, number> }> {
  const startMs: number[] = [];
  let rssKiB: Record<string, number> = {};
  for (let i = 0; i < 10; i++) {
    const peer = make();
    const from = ms();
    const started = peer.startOnly();
    await started;
    startMs.push(ms() - from);
    if (i === 9) {
      const front = peer.client.child.pid!;
      rssKiB = { front: rss(front) };
      for (const pid of childrenOf(front)) rssKiB[`child ${comm(pid)}`] = rss(pid);
    }
    await peer.stop();
  }
  console.log(`server start to initialize answered          p50 ${show(quantile(startMs, 0.5))} ms; memory ${JSON.stringify(rssKiB)} KiB`);
  return { startMs, rssKiB };
}

const rss = (pid: number) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
const comm = (pid: number) => readFileSync(`/proc/${pid}/comm`, "utf8").trim();
function childrenOf(pid: number): number[] {
  return readdirSync("/proc")
    .filter((d) => /^\d+$/.test(d))
    .map(Number)
    .filter((p) => {
      try {
        return Number(/PPid:\s+(\d+)/.exec(readFileSync(`/proc/${p}/status`, "utf8"))![1]) === pid;
      } catch {
        return false;
      }
    });
}

function table(cells: Cell[], peers: Peer[]): string {
  const lines = [`| | ${peers.map((p) => p.name).join(" | ")} |`, `|---|${peers.map(() => "---:|").join("")}`];
  for (const row of latencyRows) {
    const own = cells.find((c) => c.row === row.id && c.peer === peers[0].name);
    const columns = peers.map((p) => {
      const cell = cells.find((c) => c.row === row.id && c.peer === p.name);
      if (!cell) return "–";
      const p50 = quantile(cell.samples, 0.5);
      const ratio = own && cell !== own ? ` (${show(p50 / quantile(own.samples, 0.5))}×)` : "";
      return `${show(p50)} / ${show(quantile(cell.samples, 0.99))}${ratio}`;
    });
    lines.push(`| ${row.title} | ${columns.join(" | ")} |`);
  }
  return lines.join("\n") + "\n";
}

const where = paths();
const warm = new Caisson("caisson", "warm: forked interpreters", where, {});
const cold = new Caisson("caisson cold", "the same walls, a plain interpreter start", where, { SANDBOX_WARM: "off" });
const peers: Peer[] = [warm, cold, plainPython(where)];
for (const extra of [bubblewrap(where), docker()]) if (extra) peers.push(extra);

for (const peer of peers) await peer.start();
try {
  const cells = await latency(peers);
  const rates = await throughput(peers);
  const atOnce = await burst(warm);
  const grown = await growth(warm);
  const server = await serverCost(() => new Caisson("start", "", where, {}));
  mkdirSync(out, { recursive: true });
  const host = { kernel: release(), cores: cpus().length, cpu: cpus()[0].model, date: new Date().toISOString() };
  writeFileSync(`${out}latest.json`, JSON.stringify({ host, latency: cells, throughput: rates, burst100Ms: atOnce, growth: grown, server }, null, 1));
  const text = `p50 / p99 in milliseconds; in brackets how many times longer than the first column's median.\n\n${table(cells, peers)}`;
  writeFileSync(`${out}table.md`, text);
  writeFileSync(`${out}chart.svg`, barChart(latencyRows, peers.map((p) => p.name), (row, peer) => {
    const cell = cells.find((c) => c.row === row && c.peer === peer);
    return cell ? quantile(cell.samples, 0.5) : null;
  }));
  console.log(`\n${text}\nwritten: ${out}latest.json, table.md, chart.svg`);
} finally {
  for (const peer of peers) await peer.stop();
}
