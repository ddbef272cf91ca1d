// SPDX-License-Identifier: Apache-2.0
// The protocol without sandboxes: requests a second over HTTP, one request at a time over stdio, idle streams, a large message.
// Servers run on one core, their clients on another. Writes results/mcp.json and results/mcp.md.
import { execFile, execFileSync, spawn, spawnSync, type ChildProcess } from "node:child_process";
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, readSync, rmSync, writeFileSync, writeSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { cpus, loadavg, release, tmpdir } from "node:os";

const here = new URL(".", import.meta.url).pathname;
const out = `${here}results/`;
const quick = process.argv.includes("--quick");
const serverCore = "0", clientCore = cpus().length > 1 ? "1" : "0";
const seconds = quick ? 1 : 4;
const trips = quick ? 500 : 5000;
const streams = quick ? 500 : 10_000;
const revision = "2025-11-25";
const ms = () => Number(process.hrtime.bigint()) / 1e6;
const sleep = (n: number) => new Promise((done) => setTimeout(done, n));
const show = (v: number) => (v < 10 ? v.toFixed(3) : v < 100 ? v.toFixed(1) : v.toFixed(0));
const work = mkdtempSync(`${tmpdir()}/caisson-bench-`);
type Json = Record<string, any>;

interface Contender {
  name: string;
  stdio: string[];
  http: (port: number) => { command: string[]; env: Record<string, string> };
}

const caisson = process.env.CAISSON ?? `${here}../build/caisson`;
const everything = `${here}node_modules/@modelcontextprotocol/server-everything/dist/index.js`;
const python = process.env.BENCH_PYTHON ?? "";
const ownEnv = {
  SANDBOX_STATE_DIR: process.env.SANDBOX_STATE_DIR ?? "/var/lib/caisson",
  SANDBOX_LOG_LEVEL: "ERROR", SANDBOX_LOG_FILE: "", SANDBOX_BRIDGE: "off", SANDBOX_SOCKET: "off", SANDBOX_HTTP_PORT: "0",
};
const contenders: Contender[] = [
  { name: "caisson", stdio: [caisson, "stdio"], http: (port) => ({ command: [caisson, "serve"], env: { SANDBOX_LISTEN: `127.0.0.1:${port}` } }) },
];
if (existsSync(everything))
  contenders.push({
    name: "everything",
    stdio: [process.execPath, everything, "stdio"],
    http: (port) => ({ command: [process.execPath, everything, "streamableHttp"], env: { PORT: String(port) } }),
  });
else console.log("bench: the reference server is not installed: its rows are left out");
if (python)
  contenders.push({
    name: "FastMCP",
    stdio: [python, `${here}python/server.py`, "stdio"],
    http: (port) => ({ command: [python, `${here}python/server.py`, String(port)], env: {} }),
  });
else console.log("bench: no FastMCP environment: its rows are left out");

const initialize = { protocolVersion: revision, capabilities: {}, clientInfo: { name: "caisson-bench", version: "1" } };
const message = (method: string, params: Json = {}, id: number | null = 1) =>
  JSON.stringify({ jsonrpc: "2.0", ...(id === null ? {} : { id }), method, params });

function freePort(): Promise<number> {
  return new Promise((ok) => {
    const s = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = s.address() as net.AddressInfo;
      s.close(() => ok(port));
    });
  });
}

function post(port: number, body: string, headers: Record<string, string> = {}): Promise<{ status: number; headers: http.IncomingHttpHeaders; body: string }> {
  return new Promise((ok, fail) => {
    const request = http.request(
      { host: "127.0.0.1", port, path: "/mcp", method: "POST", agent: false,
        headers: { "content-type": "application/json", accept: "application/json, text/event-stream", "content-length": Buffer.byteLength(body), ...headers } },
      (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (piece: string) => (text += piece));
        answer.on("end", () => ok({ status: answer.statusCode!, headers: answer.headers, body: text }));
      });
    request.on("error", fail);
    request.end(body);
  });
}

class Server {
  child!: ChildProcess;
  port = 0;
  session: Record<string, string> = {};

  async start(contender: Contender, more: Record<string, string> = {}): Promise<this> {
    this.port = await freePort();
    const { command, env } = contender.http(this.port);
    this.child = spawn("taskset", ["-c", serverCore, ...command], { stdio: "ignore", env: { ...process.env, ...ownEnv, ...env, ...more } });
    for (const end = ms() + 30_000; ms() < end; await sleep(50)) {
      try {
        const answer = await post(this.port, message("initialize", initialize));
        if (answer.status !== 200) throw new Error(`initialize: ${answer.status} ${answer.body}`);
        this.session = { "mcp-protocol-version": revision };
        const id = answer.headers["mcp-session-id"];
        if (id) this.session["mcp-session-id"] = String(id);
        await post(this.port, message("notifications/initialized", {}, null), this.session);
        return this;
      } catch (e) {
        if (this.child.exitCode !== null) break;
        if ((e as NodeJS.ErrnoException).code !== "ECONNREFUSED") console.log(`${contender.name}: ${(e as Error).message}`);
      }
    }
    await this.stop();
    throw new Error(`${contender.name} did not start`);
  }

  memory(field: "VmRSS" | "VmHWM"): number {
    return Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${this.child.pid}/status`, "utf8"))![1]);
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = new Promise((done) => this.child.once("exit", done));
    this.child.kill("SIGTERM");
    const killer = setTimeout(() => this.child.kill("SIGKILL"), 5000);
    await ended;
    clearTimeout(killer);
  }
}

interface Rate { server: string; method: string; perSecond: number; serverCpuShare: number; badAnswers: number; text: string }

const cpuTicks = (pid: number) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ");
  return Number(fields[11]) + Number(fields[12]);
};

async function rates(contender: Contender): Promise<Rate[]> {
  const rows: Rate[] = [];
  const server = await new Server().start(contender);
  try {
    for (const method of ["ping", "tools/list"]) {
      const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream", ...server.session };
      const script = `${work}/request.lua`;
      writeFileSync(script, `wrk.method = "POST"\nwrk.body = [==[${message(method)}]==]\n${Object.entries(headers).map(([k, v]) => `wrk.headers["${k}"] = "${v}"\n`).join("")}`);
      const ticks = cpuTicks(server.child.pid!), from = ms();
      const text = await new Promise<string>((ok, fail) =>
        execFile("taskset", ["-c", clientCore, "wrk", "-t1", "-c16", `-d${seconds}s`, "-s", script, `http://127.0.0.1:${server.port}/mcp`], (e, stdout) => (e ? fail(e) : ok(stdout))));
      const share = ((cpuTicks(server.child.pid!) - ticks) * 10) / (ms() - from); // ticks of 10 ms
      const row = {
        server: contender.name, method, perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(text)![1]), serverCpuShare: share,
        badAnswers: Number(/Non-2xx or 3xx responses: (\d+)/.exec(text)?.[1] ?? 0), text,
      };
      rows.push(row);
      console.log(`${method.padEnd(11)} over HTTP  ${contender.name.padEnd(12)} ${show(row.perSecond)} a second (its core ${(share * 100).toFixed(0)}% its own)${row.badAnswers ? `, ${row.badAnswers} refused` : ""}`);
    }
  } finally {
    await server.stop();
  }
  return rows;
}

// Writes one message and reads one line, through pipes and without an event loop.
let pipes = 0;
class Pipe {
  private child: ChildProcess;
  private down: number;
  private up: number;
  private space = Buffer.alloc(1 << 16);

  constructor(command: string[]) {
    const id = ++pipes;
    const [a, b] = [`${work}/down-${id}`, `${work}/up-${id}`];
    for (const path of [a, b]) execFileSync("mkfifo", [path]);
    this.child = spawn("sh", ["-c", `exec taskset -c ${serverCore} "$@" <"$D" >"$U"`, "sh", ...command], { stdio: "ignore", env: { ...process.env, ...ownEnv, D: a, U: b } });
    this.down = openSync(a, "r+");
    this.up = openSync(b, "r+");
  }

  trip(line: string): number {
    const from = ms();
    writeSync(this.down, line);
    let n: number;
    do n = readSync(this.up, this.space);
    while (this.space[n - 1] !== 10);
    return ms() - from;
  }

  tell(line: string): void {
    writeSync(this.down, line);
  }

  async stop(): Promise<void> {
    const ended = new Promise((done) => this.child.once("exit", done));
    this.child.kill("SIGTERM");
    const killer = setTimeout(() => this.child.kill("SIGKILL"), 3000);
    closeSync(this.down);
    closeSync(this.up);
    await ended;
    clearTimeout(killer);
  }
}

const quantile = (samples: number[], q: number) => [...samples].sort((a, b) => a - b)[Math.floor(q * (samples.length - 1))];

interface Trips { server: string; method: string; p50: number; p99: number; samples: number[] }

// A bare `cat` (the floor) and the contender take turns, so that a busy moment of the machine affects both.
async function pingPong(contender: Contender): Promise<Trips[]> {
  const floor = new Pipe(["cat"]);
  const server = new Pipe(contender.stdio);
  try {
    server.trip(message("initialize", initialize, 1) + "\n");
    server.tell(message("notifications/initialized", {}, null) + "\n");
    const rows: Trips[] = [];
    for (const method of ["ping", "tools/list"]) {
      const line = message(method) + "\n", own: number[] = [], bare: number[] = [];
      for (let i = 0; i < 50; i++) server.trip(line);
      for (let i = 0; i < trips; i++) {
        bare.push(floor.trip(line));
        own.push(server.trip(line));
      }
      for (const [name, samples] of [["bare pipe (cat)", bare], [contender.name, own]] as const)
        rows.push({ server: name, method, p50: quantile(samples, 0.5), p99: quantile(samples, 0.99), samples: samples.filter((_, i) => i % 10 === 0).map((v) => Math.round(v * 1e4) / 1e4) });
      console.log(`${method.padEnd(11)} over stdio ${contender.name.padEnd(12)} p50 ${show(quantile(own, 0.5))} ms, bare pipe ${show(quantile(bare, 0.5))} ms: ${(quantile(own, 0.5) / quantile(bare, 0.5)).toFixed(2)} times`);
    }
    return rows;
  } finally {
    await floor.stop();
    await server.stop();
  }
}

// What an idle stream costs the server. Each GET /mcp has a session of its own.
async function idleStreams(contender: Contender): Promise<{ server: string; streams: number; beforeKiB: number; afterKiB: number; seconds: number }> {
  const server = await new Server().start(contender);
  const open: net.Socket[] = [];
  try {
    const before = server.memory("VmRSS"), from = ms();
    const one = async () => {
      const answer = await post(server.port, message("initialize", initialize));
      const id = answer.headers["mcp-session-id"];
      if (!id) throw new Error(`initialize: ${answer.status}`);
      await new Promise<void>((ok, fail) => {
        const socket = net.connect(server.port, "127.0.0.1", () =>
          socket.write(`GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nAccept: text/event-stream\r\nMcp-Session-Id: ${id}\r\nMcp-Protocol-Version: ${revision}\r\n\r\n`));
        socket.once("data", (head) => (head.toString("latin1").startsWith("HTTP/1.1 200") ? ok() : fail(new Error(`GET: ${head.toString("latin1").slice(0, 200)}`))));
        socket.on("error", fail);
        open.push(socket);
      });
    };
    while (open.length < streams) await Promise.all(Array.from({ length: Math.min(50, streams - open.length) }, one));
    await sleep(500);
    const lost = open.filter((s) => s.destroyed || s.readableEnded).length;
    const row = { server: contender.name, streams: open.length - lost, beforeKiB: before, afterKiB: server.memory("VmRSS"), seconds: (ms() - from) / 1000 };
    console.log(`${row.streams} idle streams   ${contender.name.padEnd(12)} ${show(row.afterKiB / 1024)} MiB in all, ${show((row.afterKiB - before) / row.streams)} KiB each, opened in ${show(row.seconds)} s`);
    return row;
  } finally {
    for (const s of open) s.destroy();
    await server.stop();
  }
}

// Sends a request that is ready as bytes, over a socket of its own, so that the client's own work is not measured.
function rawPost(port: number, head: string, body: Buffer): Promise<string> {
  return new Promise((ok, fail) => {
    let text = "";
    const socket = net.connect(port, "127.0.0.1", () => {
      socket.write(head);
      socket.write(body);
    });
    socket.setEncoding("utf8").on("data", (piece: string) => (text += piece)).on("end", () => ok(text)).on("error", fail);
  });
}

// Another client in a process of its own sends pings, one after the other. Gives the longest, in ms.
function pinger(port: number, session: Record<string, string>): () => Promise<number> {
  const script = `
    const http = require("node:http"), agent = new http.Agent({ keepAlive: true });
    const [port, headers] = [Number(process.argv[1]), JSON.parse(process.argv[2])];
    const body = ${JSON.stringify(message("ping", {}, 9))};
    let longest = 0, over = false;
    process.stdin.resume().on("end", () => (over = true));
    const next = () => {
      if (over) return console.log(longest), process.exit(0);
      const from = performance.now();
      const r = http.request({ host: "127.0.0.1", port, path: "/mcp", method: "POST", agent, headers: { ...headers, "content-length": body.length } }, (a) => a.resume().on("end", () => { longest = Math.max(longest, performance.now() - from); next(); }));
      r.end(body);
    };
    next();`;
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream", ...session };
  const child = spawn("taskset", ["-c", clientCore, process.execPath, "-e", script, String(port), JSON.stringify(headers)], { stdio: ["pipe", "pipe", "inherit"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (piece: string) => (text += piece));
  const ended = new Promise((done) => child.once("close", done));
  return async () => (child.stdin.end(), await ended, Number(text));
}

interface Upload { ms: number[]; sdkMs: number[]; serverCpuMs: number[]; longestPingMs: number; beforeKiB: number; peakKiB: number }

// Sends 50 MB in base64 to a sandbox in one tool call: with a client that has the bytes ready, and with the SDK's client.
async function upload(contender: Contender): Promise<Upload> {
  const server = await new Server().start(contender, { SANDBOX_PROFILE: "all" });
  try {
    const content_base64 = Buffer.alloc(50_000_000, "0123456789abcdef").toString("base64"), rounds = quick ? 1 : 5;
    const args = { filename: "big.bin", content_base64, session_id: "bench", overwrite: true };
    const first = await post(server.port, message("tools/call", { name: "sandbox_run_python", arguments: { code: "print(1)", session_id: "bench" } }), server.session);
    if (first.status !== 200) throw new Error(`run: ${first.status}`);
    const good = (what: string, text: string) => {
      if (!text.includes("/mnt/data/big.bin") || text.includes('"isError":true') || !text.includes('"result"')) throw new Error(`${what}: ${text.slice(-300).replace(/\s+/g, " ")}`);
    };
    const before = server.memory("VmRSS"), took: number[] = [], cpu: number[] = [], sdkMs: number[] = [];
    const body = Buffer.from(message("tools/call", { name: "sandbox_upload_file", arguments: args }), "latin1");
    const headers = { Host: `127.0.0.1:${server.port}`, "Content-Type": "application/json", Accept: "application/json, text/event-stream", "Content-Length": String(body.length), Connection: "close", ...server.session };
    const head = `POST /mcp HTTP/1.1\r\n${Object.entries(headers).map(([k, v]) => `${k}: ${v}\r\n`).join("")}\r\n`;
    const pings = pinger(server.port, server.session);
    for (let i = 0; i < rounds; i++) {
      const from = ms(), ticks = cpuTicks(server.child.pid!);
      good("upload", await rawPost(server.port, head, body));
      took.push(ms() - from);
      cpu.push((cpuTicks(server.child.pid!) - ticks) * 10); // ticks of 10 ms
    }
    const longestPingMs = await pings();
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const client = new Client({ name: "caisson-bench", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${server.port}/mcp`)));
    for (let i = 0; i < rounds; i++) {
      const from = ms();
      good("upload by the SDK", '"result"' + JSON.stringify(await client.callTool({ name: "sandbox_upload_file", arguments: args })));
      sdkMs.push(ms() - from);
    }
    await client.close();
    const row = { ms: took, sdkMs, serverCpuMs: cpu, longestPingMs, beforeKiB: before, peakKiB: server.memory("VmHWM") };
    console.log(`50 MB in base64 through a tool call: ${show(quantile(took, 0.5))} ms (the server's CPU time ${show(quantile(cpu, 0.5))}), by the SDK ${show(quantile(sdkMs, 0.5))} ms; ` +
      `another client's longest ping ${show(longestPingMs)} ms; the front's peak ${show(row.peakKiB / 1024)} MiB (before ${show(before / 1024)})`);
    return row;
  } finally {
    await server.stop();
  }
}

async function attempt<T>(what: string, job: () => Promise<T>, problems: string[]): Promise<T | null> {
  try {
    return await job();
  } catch (e) {
    problems.push(`${what}: ${(e as Error).message}`);
    console.log(`bench: ${what}: ${(e as Error).message}`);
    return null;
  }
}

const loadBefore = loadavg();
const problems: string[] = [];
spawnSync("taskset", ["-cp", clientCore, String(process.pid)]);
try {
  const http: Rate[] = [], stdio: Trips[] = [], idle = [];
  const wrk = spawnSync("wrk", ["-v"]).error === undefined;
  if (!wrk) console.log("bench: no wrk (package wrk): requests a second are left out");
  for (const c of contenders) {
    if (wrk) http.push(...((await attempt(`${c.name} over HTTP`, () => rates(c), problems)) ?? []));
    stdio.push(...((await attempt(`${c.name} over stdio`, () => pingPong(c), problems)) ?? []));
  }
  // The peers get only as many streams as show the cost of one.
  const own = await attempt("idle streams", () => idleStreams(contenders[0]), problems);
  if (own) idle.push(own);
  const big = await attempt("upload", () => upload(contenders[0]), problems);
  mkdirSync(out, { recursive: true });
  const host = { kernel: release(), cores: cpus().length, cpu: cpus()[0].model, date: new Date().toISOString(), loadBefore, loadAfter: loadavg() };
  writeFileSync(`${out}mcp.json`, JSON.stringify({ host, http, stdio, idle, upload: big, problems }));
  const budget = (good: boolean) => (good ? "kept" : "missed");
  const lines = [
    `${host.cores} cores (${host.cpu}), Linux ${host.kernel}; load ${loadBefore[0].toFixed(1)} before, ${host.loadAfter[0].toFixed(1)} after. The server on core ${serverCore}, its client on core ${clientCore}.`,
    "", "| Streamable HTTP, 16 connections | requests a second | share of its core that the server had | requests per second of the server's CPU time | refused | budget of 15,000 |", "|---|---:|---:|---:|---:|---|",
    ...http.map((r) => `| ${r.server}, ${r.method} | ${show(r.perSecond)} | ${(r.serverCpuShare * 100).toFixed(0)}% | ${show(r.perSecond / r.serverCpuShare)} | ${r.badAnswers} | ${r.server === "caisson" ? budget(r.perSecond >= 15000) : ""} |`),
    "", "| stdio, one at a time | p50 ms | p99 ms | times a bare pipe | budget of 2 times |", "|---|---:|---:|---:|---|",
    ...stdio.map((r, i) => {
      const floor = i % 2 === 1 ? stdio[i - 1].p50 : r.p50;
      return `| ${r.server}, ${r.method} | ${show(r.p50)} | ${show(r.p99)} | ${(r.p50 / floor).toFixed(2)} | ${r.server === "caisson" ? budget(r.p50 <= 2 * floor) : ""} |`;
    }), "",
    ...idle.map((r) => `${r.streams} idle streams, each with its session: ${show(r.afterKiB / 1024)} MiB resident (${show((r.afterKiB - r.beforeKiB) / r.streams)} KiB each); budget 60 MB for 10,000: ${r.streams >= 10_000 ? budget(r.afterKiB * 1024 <= 60e6) : "not measured"}.`),
    big ? `50 MB in base64 through a tool call: ${show(quantile(big.ms, 0.5))} ms (${show(quantile(big.serverCpuMs, 0.5))} ms of the server's CPU), ${show(quantile(big.sdkMs, 0.5))} ms with the TypeScript SDK as client, ` +
      `the front's peak ${show(big.peakKiB / 1024)} MiB, the longest ping of another client meanwhile ${show(big.longestPingMs)} ms; budgets 1 s: ${budget(quantile(big.ms, 0.5) <= 1000)}, 40 MB: ${budget(big.peakKiB * 1024 <= 40e6)}.` : "",
    ...problems.map((p) => `Not measured: ${p}.`),
  ];
  writeFileSync(`${out}mcp.md`, lines.join("\n") + "\n");
  console.log(`\n${lines.join("\n")}\n\nwritten: ${out}mcp.json, mcp.md`);
} finally {
  rmSync(work, { recursive: true, force: true });
}
