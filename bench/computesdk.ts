// SPDX-License-Identifier: Apache-2.0
// What ComputeSDK's benchmark of sandboxes measures (github.com/computesdk/benchmarks, "time to interactive"), through its own SDK and provider
// for E2B: from the call that makes a sandbox to the answer of its first command, `node -v`. One after the other, 100 that begin 200 ms after each
// other, and 100 at once.
import { spawn } from "node:child_process";
import { ms, quantile, show } from "./parts.ts";
import { freePort, until } from "./ports.ts";

const MANY = 100;
const STAGGER_MS = 200;

export interface ComputeSdk { [mode: string]: { p50: number; p95: number; p99: number; n: number; failed: number } }

interface Sandbox { runCommand(command: string): Promise<{ stdout: string; stderr: string; exitCode: number }>; destroy(): Promise<void> }
interface Compute { sandbox: { create(): Promise<Sandbox> } }

/** The sandbox stays, as those of the benchmark do until the time is taken. */
async function one(compute: Compute, took: number[], made: Sandbox[]): Promise<void> {
  const from = ms();
  const sandbox = await compute.sandbox.create();
  made.push(sandbox);
  const ran = await sandbox.runCommand("node -v");
  if (ran.exitCode !== 0 || !/^v\d+/.test(ran.stdout)) throw new Error(`node -v: ${ran.stderr}`);
  took.push(ms() - from);
}

type Mode = (each: () => Promise<void>, end: () => Promise<void>) => Promise<PromiseSettledResult<void>[]>;

async function sequential(each: () => Promise<void>, end: () => Promise<void>, n: number): Promise<PromiseSettledResult<void>[]> {
  const all: PromiseSettledResult<void>[] = [];
  for (let i = 0; i < n; i++) {
    all.push(...await Promise.allSettled([each()]));
    await end();
  }
  return all;
}

async function together(each: () => Promise<void>, pauseMs: number): Promise<PromiseSettledResult<void>[]> {
  const all: Promise<void>[] = [];
  for (let i = 0; i < MANY; i++) {
    all.push(each());
    if (pauseMs > 0) await new Promise((done) => setTimeout(done, pauseMs));
  }
  return Promise.allSettled(all);
}

export async function computesdk(caisson: string, state: string, quick: boolean): Promise<ComputeSdk> {
  const listen = await freePort(), base = `http://127.0.0.1:${listen}`, result: ComputeSdk = {};
  // The SDK has no option for the address of the server, only variables.
  Object.assign(process.env, { E2B_API_KEY: "e2b_00", E2B_API_URL: `${base}/faces/e2b`, E2B_SANDBOX_URL: `${base}/faces/e2b` });
  const { e2b } = await import("@computesdk/e2b");
  const compute = e2b({ apiKey: "e2b_00" }) as Compute;
  const server = spawn(caisson, ["serve", "--listen", `127.0.0.1:${listen}`], { stdio: "ignore",
    env: { ...process.env, SANDBOX_STATE_DIR: state, SANDBOX_LOG_LEVEL: "ERROR", SANDBOX_HTTP_PORT: "0", SANDBOX_FACES: "e2b", SANDBOX_MAX_SESSIONS: "300" } });
  try {
    await until("the server", async () => (await fetch(`${base}/healthz`)).ok);
    const made: Sandbox[] = [];
    const end = async (): Promise<void> => void await Promise.all(made.splice(0).map((sandbox) => sandbox.destroy()));
    await one(compute, [], made); // the first one waits for the server to warm up
    await end();
    const modes: Record<string, Mode> = {
      "one after the other": (each, ended) => sequential(each, ended, quick ? 20 : MANY),
      [`${MANY}, ${STAGGER_MS} ms apart`]: (each) => together(each, STAGGER_MS),
      [`${MANY} at once`]: (each) => together(each, 0),
    };
    for (const [mode, run] of Object.entries(modes)) {
      const took: number[] = [];
      const all = await run(() => one(compute, took, made), end);
      await end();
      const failed = all.filter((r) => r.status === "rejected");
      if (took.length === 0) throw failed[0]!.reason;
      result[mode] = { p50: quantile(took, 0.5), p95: quantile(took, 0.95), p99: quantile(took, 0.99), n: took.length, failed: failed.length };
      const { p50, p95, p99 } = result[mode]!;
      console.log(`ComputeSDK, create and node -v  ${mode.padEnd(20)} p50 ${show(p50)} ms, p95 ${show(p95)}, p99 ${show(p99)}; n=${took.length}, ${failed.length} failed`);
    }
    return result;
  } finally {
    server.kill();
  }
}

export const computesdkLines = (r: ComputeSdk): string[] =>
  Object.entries(r).map(([mode, v]) => `* ComputeSDK, a new sandbox and \`node -v\`, ${mode}: p50 ${show(v.p50)} ms, p95 ${show(v.p95)}, p99 ${show(v.p99)} (${v.n} samples, ${v.failed} failed).`);
