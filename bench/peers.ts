// SPDX-License-Identifier: Apache-2.0
// The contenders. Each can run Python in a sandbox that exists already (`again`), in a new one (`fresh`), or both.
import { execFile, execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { StdioClient } from "./client.ts";

export interface Peer {
  name: string;
  kind: "warm" | "cold"; // warm: interpreters are forked from a running one; cold: one is started for each run
  note: string; // how it isolates
  start(): Promise<void>;
  again?(code: string): Promise<string>; // run in an existing sandbox; gives stdout
  fresh?(code: string): Promise<string>; // create, run, first result; does not wait for the end of the sandbox if the contender permits that
  stateful?(code: string): Promise<string>; // a statement in a session whose variables stay
  pooled?(code: string): Promise<string>; // like fresh, but with a sandbox that was made ahead of need
  cycle?(code: string): Promise<void>; // create, run, destroy; waits for all of it
  endless?(code: string): Promise<{ cancel?: () => void; close?: () => void; clean: () => Promise<void> }>; // starts a run and gives the functions that end it
  stop(): Promise<void>;
}

export interface Paths {
  caisson: string; // the binary
  state: string; // its state directory
  root: string; // root file system of the image
}

function run(command: string, args: string[]): Promise<string> {
  return new Promise((ok, fail) => {
    execFile(command, args, { maxBuffer: 1 << 24 }, (error, stdout, stderr) => {
      if (error) fail(new Error(`${command}: ${error.message} ${stderr}`));
      else ok(stdout);
    });
  });
}

export class Caisson implements Peer {
  client!: StdioClient;
  private session = "bench";
  readonly name: string;
  readonly note: string;
  readonly kind: "warm" | "cold";
  private paths: Paths;
  private env: Record<string, string>;
  constructor(name: string, note: string, paths: Paths, env: Record<string, string>) {
    this.name = name;
    this.note = note;
    this.kind = env.SANDBOX_WARM === "off" ? "cold" : "warm";
    this.paths = paths;
    this.env = env;
  }

  // Starts the server and waits for its first answer, nothing more.
  async startOnly(): Promise<void> {
    this.client = new StdioClient(this.paths.caisson, ["stdio", "--profile", "all"], {
      SANDBOX_STATE_DIR: this.paths.state,
      SANDBOX_LOG_LEVEL: "ERROR",
      SANDBOX_MAX_SESSIONS: "4096",
      SANDBOX_HTTP_PORT: "0",
      SANDBOX_LISTEN: "127.0.0.1:0",
      SANDBOX_LOG_FILE: "",
      SANDBOX_BRIDGE: "off", // measure this process, not a server that happens to run
      ...this.env,
    });
    await this.client.initialize();
  }

  async start(): Promise<void> {
    await this.startOnly();
    await this.again("print(1)"); // the first use of a server pays its start-up once
    if (this.kind === "cold") return;
    // An interpreter in a container imports what its image names, and this image names nothing: it is ready when a session keeps state.
    const enough = this.env.SANDBOX_ENGINE ? Infinity : 60;
    // Runs start cold until the zygote has imported its modules; a stateful run waits for it or is refused. So try until one works.
    for (let tries = 0; tries < 60; tries++) {
      try {
        await this.stateful!("n = 0");
        const from = performance.now();
        await this.again("import pandas");
        if (performance.now() - from < enough) return;
      } catch {
        // not ready yet
      }
      await new Promise((done) => setTimeout(done, 500));
    }
    throw new Error(`${this.name}: no warm interpreter after half a minute`);
  }

  async again(code: string): Promise<string> {
    return (await this.client.tool("sandbox_run_python", { code, session_id: this.session })).stdout;
  }

  async fresh(code: string): Promise<string> {
    const result = await this.client.tool("sandbox_run_python", { code });
    void this.client.tool("sandbox_close_session", { session_id: result.session_id }).catch(() => {});
    return result.stdout;
  }

  // Only with a pool: its next sandbox is ready a moment after the last one was taken.
  get pooled(): ((code: string) => Promise<string>) | undefined {
    return this.env.SANDBOX_POOL === "0" ? undefined : (code) => this.fresh(code);
  }

  // Only with warm interpreters: the state of a session is a fork that is kept.
  get stateful(): ((code: string) => Promise<string>) | undefined {
    if (this.kind === "cold") return undefined;
    return async (code) => (await this.client.tool("sandbox_run_python", { code, session_id: "bench-state", stateful: true })).stdout;
  }

  async endless(code: string) {
    const session_id = `bench-endless-${this.client.upcoming}`;
    await this.client.tool("sandbox_run_python", { code: "print(1)", session_id });
    const id = this.client.upcoming;
    void this.client.tool("sandbox_run_python", { code, session_id }).catch(() => {});
    // this client cannot ask its user, so the server does not ask; the run ends with its sandbox
    const close = () => this.client.tool("sandbox_delete", { session_id }).catch(() => {});
    return { cancel: () => this.client.cancel(id), close: () => void close(), clean: async () => void (await close()) };
  }

  async cycle(code: string): Promise<void> {
    const result = await this.client.tool("sandbox_run_python", { code });
    await this.client.tool("sandbox_close_session", { session_id: result.session_id });
  }

  stop(): Promise<void> {
    return this.client.close();
  }
}

// The floor: the same interpreter without any isolation.
export function plainPython(paths: Paths): Peer {
  const once = (code: string) => run("chroot", [paths.root, "/usr/bin/python3", "-c", code]);
  return {
    name: "plain python3",
    kind: "cold",
    note: "fork + exec of the image's interpreter, no isolation",
    async start() {},
    again: once,
    fresh: once,
    cycle: async (code) => void (await once(code)),
    async stop() {},
  };
}

export function bubblewrap(paths: Paths): Peer | null {
  if (spawnSync("bwrap", ["--version"]).status !== 0) return null;
  const args = ["--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", paths.root, "/", "--proc", "/proc",
    "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/mnt/data", "--chdir", "/mnt/data", "--setenv", "MPLCONFIGDIR", "/tmp"];
  const once = (code: string) => run("bwrap", [...args, "/usr/bin/python3", "-c", code]);
  return {
    name: "bubblewrap",
    kind: "cold",
    note: "all namespaces, no cgroup, no filter",
    async start() {},
    again: once,
    fresh: once,
    async endless(code) {
      const child = spawn("bwrap", [...args, "/usr/bin/python3", "-c", code], { stdio: "ignore" });
      return { close: () => void child.kill("SIGKILL"), clean: async () => void child.kill("SIGKILL") };
    },
    cycle: async (code) => void (await once(code)),
    async stop() {},
  };
}

// A Docker engine that bench/run started; its socket is in DOCKER_HOST.
export function docker(): Peer | null {
  if (!process.env.BENCH_DOCKER_IMAGE || !process.env.DOCKER_HOST) return null;
  const image = process.env.BENCH_DOCKER_IMAGE;
  const hard = ["--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only", "--memory",
    "512m", "--cpus", "1", "--tmpfs", "/tmp:size=64m", "--tmpfs", "/mnt/data:size=64m,uid=1000,gid=1000", "-w", "/mnt/data",
    "-e", "MPLCONFIGDIR=/tmp", "-u", "1000:1000"];
  let container = "";
  return {
    name: "docker",
    kind: "cold",
    note: "hardened flags of the replaced server, overlay2",
    async start() {
      container = execFileSync("docker", ["run", "-d", ...hard, image, "sleep", "infinity"], { encoding: "utf8" }).trim();
    },
    again: (code) => run("docker", ["exec", container, "python3", "-c", code]),
    async endless(code) {
      const id = execFileSync("docker", ["run", "-d", ...hard, image, "python3", "-c", code], { encoding: "utf8" }).trim();
      const close = () => run("docker", ["rm", "-f", id]).catch(() => "");
      return { close: () => void close(), clean: async () => void (await close()) };
    },
    fresh: (code) => run("docker", ["run", "--rm", ...hard, image, "python3", "-c", code]),
    cycle: async (code) => void (await run("docker", ["run", "--rm", ...hard, image, "python3", "-c", code])),
    async stop() {
      if (container) execFileSync("docker", ["rm", "-f", container]);
    },
  };
}

// Our own engine on containers, with the daemons that bench/run started.
export function onContainers(paths: Paths): Caisson[] {
  const image = process.env.BENCH_DOCKER_IMAGE;
  const on = (host: string, more: Record<string, string> = {}) => ({ SANDBOX_ENGINE: "docker", SANDBOX_IMAGE: image!, DOCKER_HOST: host, ...more });
  const found: Caisson[] = [];
  if (image && process.env.DOCKER_HOST) {
    found.push(new Caisson("caisson on docker", "the same init in a container, warm", paths, on(process.env.DOCKER_HOST)));
    found.push(new Caisson("caisson on docker cold", "the same, a plain interpreter start", paths, on(process.env.DOCKER_HOST, { SANDBOX_WARM: "off", SANDBOX_POOL: "0" })));
  }
  if (image && process.env.DOCKER_HOST && process.env.BENCH_GVISOR)
    found.push(new Caisson("caisson on gVisor", "the same init under gVisor's kernel, warm", paths, on(process.env.DOCKER_HOST, { SANDBOX_RUNTIME: "runsc" })));
  if (image && process.env.BENCH_PODMAN) found.push(new Caisson("caisson on podman", "the same init in a container, warm", paths, on(process.env.BENCH_PODMAN)));
  return found;
}

// A container of the image for many commands; null without a Docker engine.
export function container(flags: string[], runtime: string): { start(): void; exec(code: string): Promise<string>; stop(): void } | null {
  if (!process.env.BENCH_DOCKER_IMAGE || !process.env.DOCKER_HOST) return null;
  let id = "";
  return {
    start: () => void (id = execFileSync("docker", ["run", "-d", "--runtime", runtime, "--network", "none", ...flags, "-w", "/mnt/data", "-e", "MPLCONFIGDIR=/tmp",
      process.env.BENCH_DOCKER_IMAGE!, "sleep", "infinity"], { encoding: "utf8" }).trim()),
    exec: (code) => run("docker", ["exec", id, "python3", "-c", code]),
    stop: () => void execFileSync("docker", ["rm", "-f", "-v", id]),
  };
}

export function paths(): Paths {
  const state = process.env.SANDBOX_STATE_DIR ?? "/var/lib/caisson";
  const found = {
    caisson: process.env.CAISSON ?? new URL("../build/caisson", import.meta.url).pathname,
    state,
    root: `${state}/images/${process.env.SANDBOX_IMAGE ?? "science"}/root`,
  };
  for (const [what, path] of Object.entries(found)) if (!existsSync(path)) throw new Error(`${what} is missing: ${path}`);
  return found;
}
