// SPDX-License-Identifier: Apache-2.0
// Background processes and ports: how long a process takes to start, and what a request and a stream cost through a port, beside the same
// server without a sandbox.
import { spawn, type ChildProcess } from "node:child_process";
import * as http from "node:http";
import { createServer } from "node:net";
import { readFileSync } from "node:fs";
import { ms, quantile, show } from "./parts.ts";

const script = new URL("./python/answers.py", import.meta.url).pathname;
const PORT = 8000;

export interface Ports { startMs: number; requestMs: { direct: number; through: number }; streamMBs: { direct: number; through: number } }

export const freePort = () => new Promise<number>((done) => {
  const s = createServer().listen(0, "127.0.0.1", () => {
    const { port } = s.address() as { port: number };
    s.close(() => done(port));
  });
});

export async function until(what: string, ready: () => Promise<boolean>): Promise<void> {
  for (const end = ms() + 30_000; ms() < end; await new Promise((done) => setTimeout(done, 20))) if (await ready().catch(() => false)) return;
  throw new Error(`waited in vain for ${what}`);
}

/** One request on a connection of its own; the number of bytes that came. */
const get = (url: string) => new Promise<number>((done, fail) => {
  http.get(url, { agent: false }, (r) => {
    let n = 0;
    r.on("data", (piece: Buffer) => (n += piece.length)).on("end", () => done(n)).on("error", fail);
  }).on("error", fail);
});

async function requests(urls: Record<"direct" | "through", string>, n: number): Promise<Ports["requestMs"]> {
  const took = { direct: [] as number[], through: [] as number[] };
  for (let i = 0; i < n; i++) {
    for (const name of ["direct", "through"] as const) {
      const from = ms();
      await get(urls[name]);
      took[name].push(ms() - from);
    }
  }
  return { direct: quantile(took.direct, 0.5), through: quantile(took.through, 0.5) };
}

async function stream(url: string): Promise<number> {
  const from = ms();
  return (await get(`${url}big`)) / (ms() - from) / 1e3;
}

export async function ports(caisson: string, state: string, quick: boolean): Promise<Ports> {
  const listen = await freePort(), own = await freePort();
  const children: ChildProcess[] = [];
  const begin = (command: string, args: string[], env = {}) => children.push(spawn(command, args, { stdio: "ignore", env: { ...process.env, ...env } }));
  const base = `http://127.0.0.1:${listen}`;
  const ask = async (method: string, path: string, body?: string, type = "application/json") => (await fetch(`${base}/api/v1${path}`, { method, body, headers: { "content-type": type } })).json() as Promise<Record<string, any>>;
  try {
    begin(caisson, ["serve", "--listen", `127.0.0.1:${listen}`], { SANDBOX_STATE_DIR: state, SANDBOX_LOG_LEVEL: "ERROR", SANDBOX_HTTP_PORT: "0" });
    begin("python3", [script, String(own)]);
    await until("the server", async () => (await fetch(`${base}/healthz`)).ok);
    const { id } = await ask("POST", "/sandboxes", "{}");
    await ask("PUT", `/sandboxes/${id}/files/answers.py`, readFileSync(script, "utf8"), "text/plain");
    const starts: number[] = [];
    for (let i = 0; i < (quick ? 3 : 20); i++) {
      const from = ms();
      const p = await ask("POST", `/sandboxes/${id}/processes`, '{"command":"true"}');
      starts.push(ms() - from);
      await ask("GET", `/sandboxes/${id}/processes/${p.id}?wait_s=5`);
    }
    await ask("POST", `/sandboxes/${id}/processes`, `{"command":"exec python3 answers.py ${PORT}"}`);
    const urls = { direct: `http://127.0.0.1:${own}/`, through: `${base}/p/${id}/${PORT}/` };
    await until("the server in the sandbox", async () => (await get(urls.through)) === 2);
    const result = { startMs: quantile(starts, 0.5), requestMs: await requests(urls, quick ? 40 : 400), streamMBs: { direct: await stream(urls.direct), through: await stream(urls.through) } };
    console.log(`a background process, until its start is answered   ${show(result.startMs)} ms`);
    console.log(`a request to a port      direct ${show(result.requestMs.direct)} ms, through the sandbox's port ${show(result.requestMs.through)} ms`);
    console.log(`a stream of 2 GiB        direct ${show(result.streamMBs.direct)} MB/s, through the port ${show(result.streamMBs.through)} MB/s`);
    return result;
  } finally {
    for (const c of children) c.kill();
  }
}
