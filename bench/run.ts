// SPDX-License-Identifier: Apache-2.0
// Measures every row with all contenders, interleaved, and writes results/latest.json, results/table.md and results/chart.svg.
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { cpus, loadavg, release } from "node:os";
import { barChart } from "./chart.ts";
import { density, densityChart, densityTable, type Density } from "./density.ts";
import { jobsTable, realJobs, type JobTimes } from "./jobs.ts";
import { originals, originalsTable, type Slower } from "./originals.ts";
import { beside, type Beside } from "./beside.ts";
import { computesdk, computesdkLines, type ComputeSdk } from "./computesdk.ts";
import { ports, type Ports } from "./ports.ts";
import { bubblewrap, Caisson, docker, onContainers, paths, plainPython, type Peer } from "./peers.ts";
import { download, floor, installs, ms, points, quantile, show, upload, type Installs, type Moved, type Points } from "./parts.ts";
import { sessions, sessionsTable, type SessionRow } from "./sessions.ts";
import { densitySamples, densitySteps, floorSamples, jobSamples, growthSteps, latencyRows, pointSamples, pointSizesMib, restSamples, throughputClients, throughputSeconds, workloads } from "./rows.ts";

const out = new URL("./results/", import.meta.url).pathname;
const quick = process.argv.includes("--quick");
// --only PART runs only some parts, --row ID only some rows of the latency table (both repeatable). Then results/ is not changed.
const wantedParts = process.argv.flatMap((a, i) => (process.argv[i - 1] === "--only" ? [a] : []));
const wantedRows = process.argv.flatMap((a, i) => (process.argv[i - 1] === "--row" ? [a] : []));
const whole = wantedParts.length === 0 && wantedRows.length === 0;

interface Cell {
  row: string;
  peer: string;
  kind: string;
  samples: number[];
}

async function latency(peers: Peer[], cells: Cell[]): Promise<void> {
  for (const row of latencyRows.filter((r) => wantedRows.length === 0 || wantedRows.includes(r.id))) {
    const here = peers.filter((p) => p[row.how]).map((peer) => ({ peer, cell: { row: row.id, peer: peer.name, kind: peer.kind, samples: [] as number[] } }));
    const refused = new Set<Peer>(); // contenders that failed in this row
    const wanted = quick ? Math.max(8, row.samples / 5) : row.samples;
    for (let i = 0; i < wanted; i++) {
      for (const { peer, cell } of here) {
        if (refused.has(peer)) continue;
        const p50 = cell.samples.length > 1 ? quantile(cell.samples, 0.5) : 0;
        const enough = quick ? (p50 > 1500 ? 2 : 3) : 5;
        if (p50 > 200 && cell.samples.length >= enough && (quick || i % 10 !== 0)) continue;
        if (row.pauseMs) await new Promise((done) => setTimeout(done, row.pauseMs));
        const from = ms();
        try {
          await peer[row.how]!(workloads[row.workload]);
        } catch (e) {
          problems.push(`${row.title}, ${peer.name}: ${(e as Error).message.split("\n")[0]}`);
          refused.add(peer);
          continue;
        }
        cell.samples.push(Math.round((ms() - from) * 1e4) / 1e4);
      }
    }
    for (const { cell } of here.filter((h) => h.cell.samples.length > 0)) {
      cells.push(cell);
      console.log(`${row.title.padEnd(44)} ${cell.peer.padEnd(16)} p50 ${show(quantile(cell.samples, 0.5)).padStart(8)} ms  p99 ${show(quantile(cell.samples, 0.99)).padStart(8)} ms  n=${cell.samples.length}`);
    }
    report();
  }
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

// The time from the request to end a run until none of its processes is left, seen from outside. The processes are found by
// an argument that no other process has; the interpreter is their parent.
async function killLatency(peers: Peer[], cells: Cell[]): Promise<void> {
  for (const way of ["cancel", "close"] as const) {
    for (const peer of peers.filter((p) => p.endless && (way === "close" || p instanceof Caisson))) {
      const samples: number[] = [];
      try {
        for (let i = 0; i < (quick ? 3 : 10); i++) samples.push(await killOnce(peer, way));
      } catch (e) {
        problems.push(`${way} of a busy run, ${peer.name}: ${(e as Error).message}`);
        continue;
      }
      cells.push({ row: `kill-${way}`, peer: peer.name, kind: peer.kind, samples });
      console.log(`a busy run with three children, ${way.padEnd(6)} to gone ${peer.name.padEnd(16)} p50 ${show(quantile(samples, 0.5))} ms  p99 ${show(quantile(samples, 0.99))} ms`);
    }
  }
}

async function killOnce(peer: Peer, way: "cancel" | "close"): Promise<number> {
  const mark = String(90000000 + Math.floor(Math.random() * 9999999));
  const run = await peer.endless!(`import subprocess\nfor _ in range(3): subprocess.Popen(["sleep", "${mark}"])\nwhile True: pass`);
  try {
    const tree = await treeOf(mark, 3);
    const from = ms();
    run[way]!();
    for (const end = from + 10_000; tree.some(alive); ) {
      if (ms() > end) throw new Error(`the run lives 10 s after ${way}`);
      await new Promise((done) => setImmediate(done));
    }
    return ms() - from;
  } finally {
    await run.clean();
  }
}

async function treeOf(mark: string, children: number): Promise<number[]> {
  for (const end = ms() + 10_000; ms() < end; ) {
    const sleeps = pids().filter((p) => read(`/proc/${p}/cmdline`) === `sleep\0${mark}\0`);
    if (sleeps.length >= children) return [...new Set([...sleeps, ...sleeps.map(parentOf)])].filter((p) => p > 1);
    await new Promise((done) => setTimeout(done, 5));
  }
  throw new Error("the run's processes did not appear");
}

function alive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function memAvailableKiB(): number {
  return Number(/MemAvailable:\s+(\d+)/.exec(readFileSync("/proc/meminfo", "utf8"))![1]);
}

// The cost of one more sandbox as their number grows, and the memory of an idle one.
async function growth(peer: Caisson): Promise<{ live: number; createMs: number; runMs: number; kibEach: number | null }[]> {
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
    // Only from a hundred sandboxes on: fewer drown in the noise of the host's memory.
    const kibEach = live < 100 ? null : (before - memAvailableKiB()) / live;
    const row = { live, createMs: quantile(create, 0.5), runMs: quantile(again, 0.5), kibEach };
    rows.push(row);
    console.log(`with ${String(live).padStart(4)} live sandboxes: new + print ${show(row.createMs)} ms, again ${show(row.runMs)} ms, ${kibEach === null ? "memory not told" : `${show(kibEach)} KiB of the host's memory each`}`);
  }
  for (let i = 0; i < live; i++) await peer.client.tool("sandbox_close_session", { session_id: `grow-${i}` });
  return rows;
}

// A run in a sandbox at rest, whose interpreters have ended: the run waits for two forks.
async function waking(peer: Caisson, n: number): Promise<number[]> {
  await peer.start();
  await peer.client.tool("sandbox_close_session", { session_id: "bench-state" }); // a session with state does not rest
  const run = (session_id: string) => peer.client.tool("sandbox_run_python", { code: workloads.print, session_id });
  const sessions = Array.from({ length: n }, (_, i) => `rest-${i}`);
  for (const s of sessions) await run(s);
  const monitor = childrenOf(peer.client.child.pid!).find((p) => comm(p) === "caisson-monitor")!;
  const waiting = () => childrenOf(monitor).filter((p) => comm(p) === "caisson-init").flatMap(childrenOf).length;
  for (const end = ms() + 20_000; waiting() > 0; ) {
    if (ms() > end) throw new Error("the sandboxes do not go to rest");
    await new Promise((done) => setTimeout(done, 100));
  }
  const samples: number[] = [];
  for (const s of sessions) {
    const from = ms();
    await run(s);
    samples.push(ms() - from);
    await peer.client.tool("sandbox_close_session", { session_id: s });
  }
  await peer.stop();
  console.log(`print(1) in a sandbox at rest                ${peer.name.padEnd(16)} p50 ${show(quantile(samples, 0.5))} ms  p99 ${show(quantile(samples, 0.99))} ms  n=${n}`);
  return samples;
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
const pids = () => readdirSync("/proc").filter((d) => /^\d+$/.test(d)).map(Number);
const parentOf = (pid: number) => Number(/PPid:\s+(\d+)/.exec(read(`/proc/${pid}/status`))?.[1] ?? 0);
const childrenOf = (pid: number) => pids().filter((p) => parentOf(p) === pid);

// The text of a file in /proc; empty if the process is gone.
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function table(cells: Cell[], peers: Peer[]): string {
  const lines = [`| | ${peers.map((p) => `${p.name} (${p.kind})`).join(" | ")} |`, `|---|${peers.map(() => "---:|").join("")}`];
  for (const row of latencyRows.filter((r) => whole || cells.some((c) => c.row === r.id))) {
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
  for (const [id, title] of [["kill-cancel", "cancel of a busy run, to its last process gone"], ["kill-close", "close of a busy sandbox, to its last process gone"]]) {
    const columns = peers.map((p) => {
      const cell = cells.find((c) => c.row === id && c.peer === p.name);
      return cell ? `${show(quantile(cell.samples, 0.5))} / ${show(quantile(cell.samples, 0.99))}` : "–";
    });
    lines.push(`| ${title} | ${columns.join(" | ")} |`);
  }
  return lines.join("\n") + "\n";
}

function budgets(cells: Cell[], first: Peer): string[] {
  return latencyRows
    .filter((r) => r.budgetMs && cells.some((c) => c.row === r.id && c.peer === (r.budgetOf ?? first.name)))
    .map((r) => {
      const cell = cells.find((c) => c.row === r.id && c.peer === (r.budgetOf ?? first.name));
      const p50 = cell ? quantile(cell.samples, 0.5) : NaN;
      return `* Budget of "${r.title}"${r.budgetOf ? ` (${r.budgetOf})` : ""}: ${show(r.budgetMs!)} ms, measured ${show(p50)} ms: ${p50 <= r.budgetMs! ? "kept" : "missed"}.`;
    });
}

const loadBefore = loadavg();
const where = paths();
const warm = new Caisson("caisson", "warm: forked interpreters", where, {});
const noPool = new Caisson("caisson no pool", "warm, no sandbox made ahead", where, { SANDBOX_POOL: "0" });
const cold = new Caisson("caisson cold", "the same walls, a plain interpreter start", where, { SANDBOX_WARM: "off", SANDBOX_POOL: "0" });
const peers: Peer[] = [warm, noPool, cold, plainPython(where)];
const contained = onContainers(where);
for (const extra of [bubblewrap(where), docker(), ...contained]) if (extra) peers.push(extra);

// All results so far. They are written after each part, so that they survive the failure of a later part.
const cells: Cell[] = [];
let rates: { peer: string; clients: number; perSecond: number }[] = [];
let atOnce: number | null = null;
let grown: { live: number; createMs: number; runMs: number; kibEach: number | null }[] = [];
let server: { startMs: number[]; rssKiB: Record<string, number> } | null = null;
let down: Moved | null = null;
let up: Moved | null = null;
let kept: Points[] = [];
let living: SessionRow[] = [];
let bare: number[] = [];
let woken: number[] = [];
let installed: Installs | null = null;
let slower: Slower[] = [];
let worked: JobTimes[] = [];
let dense: Density[] = [];
let stayed: Beside | null = null;
let reached: Ports | null = null;
let computed: ComputeSdk | null = null;
const problems: string[] = [];

function report(): string {
  const host = { kernel: release(), cores: cpus().length, cpu: cpus()[0].model, date: new Date().toISOString(), quick, loadBefore, loadAfter: loadavg() };
  if (whole) writeFileSync(`${out}latest.json`, JSON.stringify({ host, latency: cells, throughput: rates, burst100Ms: atOnce, growth: grown, server, download: down, upload: up, points: kept, sessions: living, waking: woken, installs: installed, originals: slower, jobs: worked, density: dense, ports: reached, beside: stayed, computesdk: computed, floor: bare, problems }));
  const lines = [
    `p50 / p99 in milliseconds; in brackets how many times longer than the first column's median. ${host.cores} cores (${host.cpu}), Linux ${host.kernel}; ` +
      `load average ${loadBefore[0].toFixed(1)} before, ${host.loadAfter[0].toFixed(1)} after, the measurement's own included${quick ? "; few samples (--quick)" : ""}.`,
    "", table(cells, peers),
  ];
  if (rates.length > 0) {
    lines.push(`| create + run + destroy a second | ${throughputClients.map((n) => `${n} clients`).join(" | ")} |`, `|---|${throughputClients.map(() => "---:|").join("")}`);
    for (const p of peers) {
      const own = rates.filter((r) => r.peer === p.name);
      if (own.length > 0) lines.push(`| ${p.name} (${p.kind}) | ${throughputClients.map((n) => own.find((r) => r.clients === n)).map((r) => (r ? show(r.perSecond) : "–")).join(" | ")} |`);
    }
    lines.push("");
  }
  if (slower.length > 0) lines.push(...originalsTable(slower));
  if (worked.length > 0) lines.push(...jobsTable(worked));
  if (dense.length > 0) lines.push(...densityTable(dense));
  if (atOnce !== null) lines.push(`* 100 at once: ${show(atOnce)} ms in all.`);
  for (const g of grown) lines.push(`* With ${g.live} live sandboxes: new + print ${show(g.createMs)} ms, again ${show(g.runMs)} ms${g.kibEach === null ? "" : `; ${show(g.kibEach)} KiB of the host's memory each`}.`);
  if (server) lines.push(`* Server start to initialize answered: ${show(quantile(server.startMs, 0.5))} ms; resident KiB ${JSON.stringify(server.rssKiB)}.`);
  for (const [what, moved] of [["Download", down], ["Upload", up]] as const)
    if (moved) lines.push(`* ${what} of ${(moved.bytes / 1e6).toFixed(0)} MB: ${show(moved.bytes / moved.ms / 1e3)} MB/s; the server's memory at most ${show(moved.serverPeakKiB / 1024)} MiB.`);
  if (living.length > 0) lines.push(...sessionsTable(living));
  for (const k of kept) lines.push(`* A session of ${k.mib} MiB: checkpoint ${show(quantile(k.checkpointMs, 0.5))} ms, branch with one statement ${show(quantile(k.branchMs, 0.5))} ms, restore ${show(quantile(k.restoreMs, 0.5))} ms.`);
  if (woken.length > 0) lines.push(`* print(1) in a sandbox at rest, whose interpreters have ended: ${show(quantile(woken, 0.5))} ms.`);
  if (installed) lines.push(`* Installation of a small package: ${show(quantile(installed.coldMs, 0.5))} ms from the index, ${show(quantile(installed.cachedMs, 0.5))} ms (p99 ${show(quantile(installed.cachedMs, 0.99))}) from the cache; budget 300 ms.`);
  if (computed) lines.push(...computesdkLines(computed));
  if (bare.length > 0) lines.push(`* The floor, bare fork + exec + wait of the same interpreter: ${show(quantile(bare, 0.5))} ms.`);
  lines.push(...budgets(cells, warm), ...problems.map((p) => `* Not measured: ${p}.`));
  const text = lines.join("\n") + "\n";
  if (dense.length > 0 && !quick) { // it takes as long as all the rest, so it may be measured alone
    writeFileSync(`${out}density.svg`, densityChart(dense));
    writeFileSync(`${out}density.md`, densityTable(dense).join("\n"));
  }
  if (!whole) return text;
  writeFileSync(`${out}table.md`, text);
  const shown = latencyRows.filter((r) => cells.some((c) => c.row === r.id));
  writeFileSync(`${out}chart.svg`, barChart(shown, peers.filter((p) => !contained.some((c) => c === p)).map((p) => p.name), (row, peer) => {
    const cell = cells.find((c) => c.row === row && c.peer === peer);
    return cell ? quantile(cell.samples, 0.5) : null;
  }));
  return text;
}

async function part(what: string, job: () => Promise<void> | void): Promise<void> {
  if (!whole && !wantedParts.includes(what) && !(what === "latency" && wantedRows.length > 0)) return;
  try {
    await job();
  } catch (e) {
    problems.push(`${what}: ${(e as Error).message}`);
    console.log(`bench: ${what}: ${(e as Error).message}`);
  }
  report();
}

mkdirSync(out, { recursive: true });
const large = { SANDBOX_MEMORY_LIMIT: "3g", SANDBOX_WORKSPACE_LIMIT: "2g", SANDBOX_MAX_UPLOAD_BYTES: "1100000000" };
const bytes = quick ? 1e8 : 1e9;
const needed = whole || wantedParts.some((p) => !["floor", "jobs", "density", "waking", "installs", "originals", "download", "upload", "points", "ports", "beside", "computesdk", "sessions", "server cost"].includes(p)) || wantedRows.length > 0;
const started: Peer[] = [];
try {
  for (const peer of needed ? peers : []) {
    await peer.start();
    started.push(peer);
  }
  await part("latency", () => latency(peers, cells));
  await part("floor", () => void (bare = floor(where.root, quick ? 20 : floorSamples)));
  await part("throughput", async () => void (rates = await throughput(peers)));
  await part("100 at once", async () => void (atOnce = await burst(warm)));
  await part("kill latency", () => killLatency(peers, cells));
  await part("growth", async () => void (grown = await growth(warm)));
  await part("waking", async () => void (woken = await waking(new Caisson("caisson", "", where, { SANDBOX_REST_S: "1", SANDBOX_POOL: "0" }), quick ? 5 : restSamples)));
  await part("installs", async () => void (installed = await installs((at) => new Caisson("installs", "", at, {}), where, quick ? 2 : 5, 8)));
  await part("originals", async () => void (slower = await originals(where, quick ? 5 : 20)));
  await part("jobs", async () => void (worked = await realJobs(where, quick ? 3 : jobSamples, problems)));
  await part("density", async () => void (dense = await density(new Caisson("density", "", where, {}), quick ? [1, 100, 300] : densitySteps, quick ? 20 : densitySamples)));
  await part("server cost", async () => void (server = await serverCost(() => new Caisson("start", "", where, {}))));
  await part("download", async () => void (down = await download(() => new Caisson("download", "", where, large), bytes)));
  await part("upload", async () => void (up = await upload(() => new Caisson("upload", "", where, large), bytes)));
  await part("points", async () => void (kept = await points(() => new Caisson("points", "", where, { SANDBOX_MEMORY_LIMIT: "12g" }), quick ? pointSizesMib.slice(0, 2) : pointSizesMib, quick ? 3 : pointSamples)));
  await part("beside", async () => void (stayed = await beside(where.caisson, where.state, quick)));
  await part("computesdk", async () => void (computed = await computesdk(where.caisson, where.state, quick)));
  await part("ports", async () => void (reached = await ports(where.caisson, where.state, quick)));
  await part("sessions", async () => {
    const other = process.env.CAISSON_BEFORE ? [new Caisson("before", "", { ...where, caisson: process.env.CAISSON_BEFORE, state: process.env.CAISSON_BEFORE_STATE ?? where.state }, {})] : [];
    living = await sessions([new Caisson("caisson", "", where, {}), ...other], quick, wantedRows);
  });
  console.log(`\n${report()}${whole ? `\nwritten: ${out}latest.json, table.md, chart.svg` : ""}`);
} finally {
  for (const peer of started) await peer.stop().catch(() => {});
}
