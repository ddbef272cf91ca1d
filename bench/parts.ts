// SPDX-License-Identifier: Apache-2.0
// Measurements that only this project has, or that need several calls for a sample: branches, large files, the bare interpreter.
import { execFileSync } from "node:child_process";
import http from "node:http";
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Caisson, Paths } from "./peers.ts";

export const ms = () => Number(process.hrtime.bigint()) / 1e6;

export function quantile(samples: number[], q: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
}

export const show = (v: number) => (v < 10 ? v.toFixed(2) : v < 100 ? v.toFixed(1) : v.toFixed(0));

export interface Points { mib: number; checkpointMs: number[]; branchMs: number[]; restoreMs: number[] }

// Sessions with variables of given sizes: times of a checkpoint, of a branch that runs one statement, and of going back.
export async function points(make: () => Caisson, sizesMib: number[], samples: number): Promise<Points[]> {
  const rows: Points[] = [];
  const peer = make();
  await peer.start();
  try {
    for (const mib of sizesMib) {
      const session_id = `points-${mib}`;
      const row: Points = { mib, checkpointMs: [], branchMs: [], restoreMs: [] };
      const timed = async (into: number[], tool: string, args: object) => {
        const from = ms();
        await peer.client.tool(tool, { session_id, ...args });
        into.push(ms() - from);
      };
      await peer.client.tool("sandbox_run_python", { session_id, stateful: true, code: `b = bytearray(${mib} << 20)\nfor i in range(0, len(b), 4096): b[i] = 1` });
      for (let i = 0; i < samples; i++) {
        await timed(row.checkpointMs, "sandbox_checkpoint", { name: "one" });
        await timed(row.branchMs, "sandbox_branch", { branches: [{ name: "two", code: "n = 1" }] });
        await timed(row.restoreMs, "sandbox_restore", { name: "one" });
      }
      rows.push(row);
      console.log(`a session of ${String(mib).padStart(4)} MiB: checkpoint ${show(quantile(row.checkpointMs, 0.5))} ms, branch and one statement ${show(quantile(row.branchMs, 0.5))} ms, restore ${show(quantile(row.restoreMs, 0.5))} ms  n=${samples}`);
      await peer.client.tool("sandbox_close_session", { session_id });
    }
  } finally {
    await peer.stop();
  }
  return rows;
}

export interface Moved { bytes: number; ms: number; serverPeakKiB: number }

const peakKiB = (pid: number) => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);

// Downloads a file of BYTES that a run made, by the link in the listing.
export async function download(make: () => Caisson, bytes: number): Promise<Moved> {
  const peer = make();
  await peer.start();
  try {
    await peer.client.tool("sandbox_run_python", { session_id: "bench", code: `b = bytes(range(250)) * 40000\nwith open("big", "wb") as f:\n  for _ in range(${bytes / 1e7}): f.write(b)` });
    const list = await peer.client.tool("sandbox_list_artifacts", { session_id: "bench" });
    const found = (list.artifacts ?? list.files ?? []).find((f: { download_url?: string }) => f.download_url);
    if (!found) throw new Error("the listing has no link");
    const from = ms();
    const got = await new Promise<number>((ok, fail) => {
      http.get(found.download_url, (answer) => {
        let n = 0;
        answer.on("data", (piece: Buffer) => (n += piece.length));
        answer.on("end", () => ok(n));
      }).on("error", fail);
    });
    const took = ms() - from;
    if (got !== bytes) throw new Error(`${got} bytes came instead of ${bytes}`);
    const peak = peakKiB(peer.client.child.pid!);
    console.log(`download of ${(got / 1e6).toFixed(0)} MB through an artifact link     ${show(took)} ms, ${show(got / took / 1e3)} MB/s; server at most ${peak} KiB`);
    return { bytes: got, ms: took, serverPeakKiB: peak };
  } finally {
    await peer.stop();
  }
}

// Uploads a file in base64 in one tool call. It is longer than the longest JavaScript string, so it is written in pieces.
export async function upload(make: () => Caisson, bytes: number): Promise<Moved> {
  const peer = make();
  await peer.start();
  try {
    const before = peakKiB(peer.client.child.pid!);
    const piece = Buffer.alloc(3_000_000, "caisson").toString("base64"); // a multiple of 3 bytes, so that base64 needs no padding between pieces
    const from = ms();
    const result = await peer.client.streamedTool("sandbox_upload_file", { session_id: "bench", filename: "big", content_base64: "@" }, async (write) => {
      for (let left = bytes; left > 0; left -= 3_000_000) await write(left >= 3_000_000 ? piece : Buffer.alloc(left, "caisson").toString("base64"));
    });
    const took = ms() - from;
    const size = await peer.client.tool("sandbox_run_python", { session_id: "bench", code: `import os; print(os.path.getsize("big"))` });
    if (Number(size.stdout) !== bytes) throw new Error(`${String(size.stdout).trim()} bytes arrived instead of ${bytes}: ${JSON.stringify(result)}`);
    const peak = peakKiB(peer.client.child.pid!);
    console.log(`upload of ${(bytes / 1e6).toFixed(0)} MB in one call                    ${show(took)} ms, ${show(bytes / took / 1e3)} MB/s; server at most ${peak} KiB (${before} before)`);
    return { bytes, ms: took, serverPeakKiB: peak };
  } finally {
    await peer.stop();
  }
}

export interface Installs { coldMs: number[]; cachedMs: number[] }

// Installs a small package into a new sandbox, from the index that pip is configured for: with an empty state folder, then from the cache.
export async function installs(make: (where: Paths) => Caisson, where: Paths, cold: number, cached: number): Promise<Installs> {
  const row: Installs = { coldMs: [], cachedMs: [] };
  for (let i = 0; i < cold; i++) {
    const state = mkdtempSync(join(tmpdir(), "caisson-bench-"));
    symlinkSync(join(where.state, "images"), join(state, "images"));
    const peer = make({ ...where, state });
    try {
      await peer.start();
      const install = async (session_id: string): Promise<number> => {
        await peer.client.tool("sandbox_run_python", { session_id, code: "print(1)" });
        const from = ms();
        const r = await peer.client.tool("sandbox_install_packages", { session_id, packages: "humanize" });
        const took = ms() - from;
        if (r.status !== "success") throw new Error(JSON.stringify(r));
        const used = await peer.client.tool("sandbox_run_python", { session_id, code: "import humanize; print(humanize.__file__)" });
        if (!used.stdout.startsWith("/app/.venv/")) throw new Error(JSON.stringify(used));
        await peer.client.tool("sandbox_close_session", { session_id });
        return took;
      };
      row.coldMs.push(await install("first"));
      for (let k = 0; k < cached; k++) row.cachedMs.push(await install(`cached-${k}`));
    } finally {
      await peer.stop();
      rmSync(state, { recursive: true, force: true });
    }
  }
  console.log(`installation of a small package               cold p50 ${show(quantile(row.coldMs, 0.5))} ms n=${cold}, cached p50 ${show(quantile(row.cachedMs, 0.5))} ms p99 ${show(quantile(row.cachedMs, 0.99))} ms n=${row.cachedMs.length}`);
  return row;
}

// fork + exec + wait of the image's interpreter in a chroot, timed without pipes, event loop or isolation.
export function floor(root: string, samples: number): number[] {
  const script = new URL("./python/floor.py", import.meta.url).pathname;
  const out = execFileSync("/usr/bin/python3", [script, root, String(samples)], { encoding: "utf8" });
  const times = JSON.parse(out) as number[];
  console.log(`bare fork + exec + wait of python3 -c 'print(1)'  p50 ${show(quantile(times, 0.5))} ms  p99 ${show(quantile(times, 0.99))} ms  n=${times.length}`);
  return times;
}
