// SPDX-License-Identifier: Apache-2.0
// What stays beside runs: the echo of a key in a terminal, beside a terminal of this machine (script(1)), alone and with 99 others; a statement in
// one context and in two that take turns; code in parallel to a run. And E2B's API: a sandbox and its first command.
import { spawn, type ChildProcess } from "node:child_process";
import { ms, quantile, show } from "./parts.ts";
import { freePort, until } from "./ports.ts";

const TERMINALS = 100;

export interface Beside {
  echoMs: { local: number; one: number; hundred: number };
  contextMs: { same: number; turns: number };
  parallelMs: { run: number; parallel: number };
  e2bMs: { sequential: number; atOnceP50: number; atOnceP95: number };
}

/** Keys whose echoes are awaited one after the other. */
class Keys {
  private seen: (() => void) | undefined;
  private readonly type: (key: string) => void;
  constructor(type: (key: string) => void) {
    this.type = type;
  }
  came(): void {
    this.seen?.();
  }
  async echo(): Promise<number> {
    const from = ms(), came = new Promise<void>((done) => (this.seen = done));
    this.type("x");
    await came;
    return ms() - from;
  }
}

async function p50(keys: Keys, n: number): Promise<number> {
  const took: number[] = [];
  for (let i = 0; i < n; i++) took.push(await keys.echo());
  return quantile(took, 0.5);
}

function local(children: ChildProcess[]): Keys {
  const child = spawn("script", ["-qfc", "cat", "/dev/null"], { stdio: ["pipe", "pipe", "ignore"] });
  children.push(child);
  const keys = new Keys((key) => child.stdin.write(key));
  child.stdout.on("data", () => keys.came());
  return keys;
}

async function terminal(base: string, id: string, ask: Ask): Promise<Keys> {
  const made = await ask("POST", `/api/v1/sandboxes/${id}/terminals`, { command: "cat" });
  const socket = new WebSocket(`${base.replace("http", "ws")}/api/v1/sandboxes/${id}/terminals/${made.id}`);
  const keys = new Keys((key) => socket.send(Buffer.from(key)));
  socket.binaryType = "arraybuffer";
  await new Promise((done, fail) => {
    socket.onopen = done;
    socket.onerror = fail;
  });
  socket.onmessage = (m) => {
    if (typeof m.data !== "string") keys.came();
  };
  return keys;
}

type Ask = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Record<string, any>>;

async function statements(ask: Ask, id: string, contexts: string[], n: number): Promise<number> {
  const took: number[] = [];
  for (let i = 0; i < n; i++) {
    const from = ms();
    await ask("POST", `/api/v1/sandboxes/${id}/runs`, { code: "n = 1", stateful: true, wait: true, context: contexts[i % contexts.length] });
    took.push(ms() - from);
  }
  return quantile(took, 0.5);
}

async function codes(ask: Ask, id: string, parallel: boolean, n: number): Promise<number> {
  const took: number[] = [];
  for (let i = 0; i < n; i++) {
    const from = ms();
    await ask("POST", `/api/v1/sandboxes/${id}/runs`, { code: "1", wait: true, ...(parallel ? { parallel } : {}) });
    took.push(ms() - from);
  }
  return quantile(took, 0.5);
}

async function first(ask: Ask, base: string): Promise<number> {
  const from = ms();
  const box = await ask("POST", "/faces/e2b/v2/sandboxes", { templateID: "base", timeout: 60 });
  const message = JSON.stringify({ process: { cmd: "/bin/sh", args: ["-c", "echo ready"] }, stdin: false }), head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  const r = await fetch(`${base}/faces/e2b/process.Process/Start`, { method: "POST", body: Buffer.concat([head, Buffer.from(message)]),
    headers: { "content-type": "application/connect+json", "e2b-sandbox-id": box.sandboxID, "x-access-token": box.envdAccessToken } });
  const said = await r.text(), took = ms() - from;
  if (!said.includes(Buffer.from("ready\n").toString("base64"))) throw new Error(said);
  await ask("DELETE", `/faces/e2b/sandboxes/${box.sandboxID}`);
  return took;
}

export async function beside(caisson: string, state: string, quick: boolean): Promise<Beside> {
  const listen = await freePort(), base = `http://127.0.0.1:${listen}`, children: ChildProcess[] = [], n = quick ? 30 : 300;
  const ask: Ask = async (method, path, body, headers = {}) => {
    const r = await fetch(`${base}${path}`, { method, body: body === undefined ? undefined : JSON.stringify(body), headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers } });
    const text = await r.text();
    if (!r.ok) throw new Error(text);
    return text ? JSON.parse(text) : {};
  };
  try {
    children.push(spawn(caisson, ["serve", "--listen", `127.0.0.1:${listen}`], { stdio: "ignore", env: { ...process.env, SANDBOX_STATE_DIR: state, SANDBOX_LOG_LEVEL: "ERROR", SANDBOX_HTTP_PORT: "0", SANDBOX_FACES: "e2b", SANDBOX_MAX_SESSIONS: "200" } }));
    await until("the server", async () => (await fetch(`${base}/healthz`)).ok);
    const boxes = await Promise.all(Array.from({ length: 5 }, () => ask("POST", "/api/v1/sandboxes", {})));
    const outside = local(children), one = await terminal(base, boxes[0]!.id, ask);
    const echoMs = { local: await p50(outside, n), one: await p50(one, n), hundred: 0 };
    const all = [one];
    for (let i = 1; i < TERMINALS; i++) all.push(await terminal(base, boxes[i % boxes.length]!.id, ask));
    const took: number[] = [];
    for (let i = 0; i < (quick ? 3 : 20); i++) took.push(...await Promise.all(all.map((k) => k.echo())));
    echoMs.hundred = quantile(took, 0.5);
    const { id } = await ask("POST", "/api/v1/sandboxes", {});
    await statements(ask, id, ["a", "b"], 2);
    const contextMs = { same: await statements(ask, id, ["a"], n), turns: await statements(ask, id, ["a", "b"], n) };
    const parallelMs = { run: await codes(ask, id, false, n / 5), parallel: await codes(ask, id, true, n / 5) };
    const alone: number[] = [];
    for (let i = 0; i < n / 5; i++) alone.push(await first(ask, base));
    const burst = await Promise.all(Array.from({ length: 100 }, () => first(ask, base)));
    const e2bMs = { sequential: quantile(alone, 0.5), atOnceP50: quantile(burst, 0.5), atOnceP95: quantile(burst, 0.95) };
    console.log(`the echo of a key        a local terminal ${show(echoMs.local)} ms, one in a sandbox ${show(echoMs.one)} ms, ${TERMINALS} at once ${show(echoMs.hundred)} ms`);
    console.log(`a statement              in one context ${show(contextMs.same)} ms, in two by turns ${show(contextMs.turns)} ms`);
    console.log(`code without a session   ${show(parallelMs.run)} ms, as a parallel run ${show(parallelMs.parallel)} ms`);
    console.log(`E2B: create and command  one after the other ${show(e2bMs.sequential)} ms, 100 at once ${show(e2bMs.atOnceP50)} ms (p95 ${show(e2bMs.atOnceP95)})`);
    return { echoMs, contextMs, parallelMs, e2bMs };
  } finally {
    for (const c of children) c.kill();
  }
}
