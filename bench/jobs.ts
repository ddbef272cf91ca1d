// SPDX-License-Identifier: Apache-2.0
// Whole jobs, as users feel them: not the start of a run but its work. The same code runs in a live sandbox, in a Python without
// walls that has imported everything already and forks for each job, and by `docker exec`, with runc and with gVisor.
import { spawn, type ChildProcess } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, chmodSync } from "node:fs";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ms, quantile, show } from "./parts.ts";
import { Caisson, container, type Paths } from "./peers.ts";

export interface JobTimes { job: string; title: string; peer: string; samples: number[] }

interface Worker {
  name: string;
  start(): Promise<void>;
  run(code: string): Promise<string>; // gives stdout
  install?(name: string): Promise<void>; // a package, for the runs that follow
  stop(): Promise<void>;
}

// Makes the files that the jobs read; not timed. The CSV has 50 MB.
const files = `
import os, numpy as np, pandas as pd
if not os.path.exists("ready"):
    g = np.random.default_rng(1)
    n = 1_000_000
    pd.DataFrame({"id": np.arange(n), "customer": g.integers(0, 50_000, n), "amount": g.normal(100, 20, n).round(3)}).to_parquet("orders.parquet")
    pd.DataFrame({"customer": np.arange(n), "region": g.integers(0, 40, n), "since": g.integers(1990, 2026, n)}).to_parquet("customers.parquet")
    pd.DataFrame({"id": np.arange(n), "weight": g.random(n)}).to_parquet("parcels.parquet")
    n = 1_150_000
    pd.DataFrame({"day": pd.Timestamp("2024-01-01") + pd.to_timedelta(g.integers(0, 700, n), "D"), "shop": g.choice(["north", "South ", " east", "WEST", ""], n),
        "item": g.integers(0, 500, n), "price": g.normal(20, 6, n).round(6), "count": g.integers(1, 9, n)}).to_csv("sales.csv", index=False)
    open("ready", "w").close()
print("ready")`;

const jobs: { id: string; title: string; code: string }[] = [
  { id: "csv", title: "clean and group a CSV of 50 MB", code: `
import pandas as pd
t = pd.read_csv("sales.csv", parse_dates=["day"])
t["shop"] = t["shop"].str.strip().str.lower()
t = t.dropna(subset=["shop"]).query("price > 0")
t["sum"] = t["price"] * t["count"]
r = t.groupby(["shop", t["day"].dt.to_period("M")])["sum"].agg(["sum", "mean", "count"])
r.to_csv("months.csv")
print(len(r), int(r["count"].sum()))` },
  { id: "parquet", title: "join three parquet files of a million rows", code: `
import pandas as pd
o, c, p = (pd.read_parquet(n + ".parquet") for n in ("orders", "customers", "parcels"))
r = o.merge(c, on="customer").merge(p, on="id").groupby("region").agg(amount=("amount", "sum"), weight=("weight", "mean"))
r.to_parquet("regions.parquet")
print(len(r), round(r["amount"].sum()))` },
  { id: "model", title: "train a small scikit-learn model", code: `
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
x, y = make_classification(4000, 20, random_state=1)
a, b, c, d = train_test_split(x, y, random_state=1)
print(RandomForestClassifier(50, random_state=1).fit(a, c).score(b, d) > 0.8)` },
  { id: "report", title: "a report with six charts as PDF", code: `
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt, numpy as np
from matplotlib.backends.backend_pdf import PdfPages
x = np.linspace(0, 10, 400)
with PdfPages("report.pdf") as pdf:
    for i in range(6):
        f, a = plt.subplots(figsize=(7, 4))
        if i % 3 == 0: a.plot(x, np.sin(x * (i + 1)), label="sine")
        elif i % 3 == 1: a.bar(range(12), np.arange(12) * i, label="bars")
        else: a.scatter(np.cos(x * i), np.sin(x), s=6, label="points")
        a.set(title="Chart %d" % i, xlabel="x", ylabel="y"); a.legend(); a.grid(True)
        pdf.savefig(f); plt.close(f)
print(open("report.pdf", "rb").read(4))` },
  { id: "files", title: "write 200 MB to the workspace, flush, read it", code: `
import os
b = bytes(1 << 20)
with open("big", "wb") as f:
    for _ in range(200): f.write(b)
    f.flush(); os.fsync(f.fileno())
n = 0
with open("big", "rb", 0) as f:
    while p := f.read(1 << 20): n += len(p)
os.remove("big")
print(n)` },
];
const used = "import humanize; print(humanize.naturalsize(1000)[0])";

class Sandbox implements Worker {
  readonly name = "caisson";
  private peer: Caisson;
  private made = 0;
  constructor(paths: Paths) {
    this.peer = new Caisson("jobs", "", paths, { SANDBOX_MEMORY_LIMIT: "2g", SANDBOX_CPU_LIMIT: "0" });
  }
  start = () => this.peer.start();
  stop = () => this.peer.stop();
  run = (code: string) => this.peer.again(code);
  // into a new sandbox each time, as the package is there already in the old one
  async install(name: string): Promise<void> {
    const session_id = `install-${this.made++}`;
    await this.peer.client.tool("sandbox_install_packages", { session_id, packages: name });
    const r = await this.peer.client.tool("sandbox_run_python", { session_id, code: used });
    if (r.exit_code !== 0) throw new Error(r.stderr);
    await this.peer.client.tool("sandbox_close_session", { session_id });
  }
}

// python/warm.py in the image's root file system, in a mount namespace of its own so that the image stays as it is.
class Plain implements Worker {
  readonly name = "python without walls";
  private child!: ChildProcess;
  private lines!: AsyncIterator<string>;
  private folder = "";
  private paths: Paths;
  constructor(paths: Paths) {
    this.paths = paths;
  }
  async start(): Promise<void> {
    this.folder = mkdtempSync(join(tmpdir(), "caisson-bench-"));
    chmodSync(this.folder, 0o777);
    const script = readFileSync(new URL("./python/warm.py", import.meta.url), "utf8");
    const modules = readFileSync(join(this.paths.root, "..", "preload"), "utf8").split(/\s+/).filter(Boolean);
    if (existsSync("/etc/pip.conf")) copyFileSync("/etc/pip.conf", join(this.folder, "pip.conf"));
    const enter = `root=$1; mount --bind "$2" "$root/mnt/data" && mount -t tmpfs tmpfs "$root/tmp" && mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" &&
      for f in resolv.conf hosts ssl/certs/ca-certificates.crt; do [ ! -e "/etc/$f" ] || [ ! -e "$root/etc/$f" ] || mount --bind "/etc/$f" "$root/etc/$f"; done && shift 2 && exec chroot "$root" /usr/bin/python3 "$@"`;
    this.child = spawn("unshare", ["-m", "sh", "-c", enter, "sh", this.paths.root, this.folder, "-c", script, ...modules], {
      stdio: ["pipe", "pipe", "inherit"],
      env: { ...process.env, MPLBACKEND: "Agg", MPLCONFIGDIR: "/tmp", OPENBLAS_NUM_THREADS: "1", PIP_CONFIG_FILE: "/mnt/data/pip.conf" },
    });
    this.lines = createInterface({ input: this.child.stdout! })[Symbol.asyncIterator]();
    if ((await this.lines.next()).value !== "ready") throw new Error("the plain Python does not start");
  }
  private async ask(question: object): Promise<string> {
    this.child.stdin!.write(JSON.stringify(question) + "\n");
    const answer = JSON.parse((await this.lines.next()).value ?? "{}");
    if (answer.status !== 0) throw new Error(answer.output?.trim().split("\n").slice(-3).join(" ") ?? "the plain Python ended");
    return answer.output;
  }
  run = (code: string) => this.ask({ code });
  install = async (name: string) => void (await this.ask({ code: used, install: name }));
  async stop(): Promise<void> {
    const ended = new Promise((done) => this.child.once("close", done));
    this.child.stdin!.end();
    await ended;
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function inContainer(name: string, runtime: string): Worker | null {
  const flags = ["--memory", "2g", "--cpus", "2", "--tmpfs", "/tmp:size=256m", "-v", "/mnt/data", "-u", "0"];
  const c = container(flags, runtime);
  return c && { name, start: async () => c.start(), run: (code) => c.exec(code), stop: async () => c.stop() };
}

export async function realJobs(paths: Paths, samples: number, problems: string[]): Promise<JobTimes[]> {
  const workers = [new Plain(paths), new Sandbox(paths), inContainer("docker exec", "runc"), process.env.BENCH_GVISOR ? inContainer("docker exec, gVisor", "runsc") : null]
    .filter((w): w is Worker => w !== null);
  const rows: JobTimes[] = [];
  const here: Worker[] = [];
  const failed = (what: string, w: Worker, e: unknown) => problems.push(`${what}, ${w.name}: ${(e as Error).message.split("\n")[0]}`);
  try {
    for (const w of workers) {
      try {
        await w.start();
        here.push(w);
        await w.run(files);
      } catch (e) {
        failed("jobs", w, e);
        if (here.at(-1) === w) await here.pop()!.stop().catch(() => {});
      }
    }
    const all = [...jobs, { id: "install", title: "install a package, import it, use it", code: "" }];
    for (const job of all) {
      const mine = here.filter((w) => job.code || w.install).map((w) => ({ w, row: { job: job.id, title: job.title, peer: w.name, samples: [] as number[] } }));
      const answers = new Set<string>();
      for (let i = -1; i < samples; i++) { // the first one warms the caches of files
        for (const { w, row } of i % 2 ? mine : [...mine].reverse()) {
          if (i > 1 && row.samples.length === 0) continue; // it has failed
          const from = ms();
          try {
            if (job.code) answers.add((await w.run(job.code)).trim());
            else await w.install!("humanize");
          } catch (e) {
            if (i < 1) failed(job.title, w, e);
            continue;
          }
          if (i >= 0) row.samples.push(ms() - from);
        }
      }
      if (answers.size > 1) problems.push(`${job.title}: answers differ: ${[...answers].join(" | ")}`);
      for (const { row } of mine.filter((m) => m.row.samples.length > 0)) {
        rows.push(row);
        console.log(`${job.title.padEnd(44)} ${row.peer.padEnd(20)} p50 ${show(quantile(row.samples, 0.5)).padStart(8)} ms  n=${row.samples.length}`);
      }
    }
  } finally {
    for (const w of here) await w.stop().catch(() => {});
  }
  return rows;
}

export function jobsTable(rows: JobTimes[]): string[] {
  const peers = [...new Set(rows.map((r) => r.peer))];
  const cell = (job: string, peer: string): string => {
    const p50 = (p: string) => rows.filter((r) => r.job === job && r.peer === p).map((r) => quantile(r.samples, 0.5))[0];
    const own = p50(peer), base = p50(peers[0]);
    return own === undefined ? "–" : `${show(own)}${base && peer !== peers[0] ? ` (${(own / base).toFixed(2)}×)` : ""}`;
  };
  return [`| whole jobs, p50 in ms; in brackets how many times ${peers[0]} | ${peers.join(" | ")} |`, `|---|${peers.map(() => "---:|").join("")}`,
    ...[...new Map(rows.map((r) => [r.job, r.title]))].map(([job, title]) => `| ${title} | ${peers.map((p) => cell(job, p)).join(" | ")} |`), ""];
}
