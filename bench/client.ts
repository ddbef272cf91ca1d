// SPDX-License-Identifier: Apache-2.0
// A bare MCP client over stdio: one JSON message on each line, and nothing between the clock and the pipe.
import { spawn, type ChildProcess } from "node:child_process";

export type Json = Record<string, any>;

export class StdioClient {
  readonly child: ChildProcess;
  private waiting = new Map<number, { ok: (v: Json) => void; fail: (e: Error) => void }>();
  private pieces: string[] = [];
  private nextId = 1;
  private ended = false;

  constructor(command: string, args: string[], env: Record<string, string>) {
    this.child = spawn(command, args, { stdio: ["pipe", "pipe", "ignore"], env: { ...process.env, ...env } });
    this.child.stdout!.setEncoding("utf8");
    this.child.stdout!.on("data", (piece: string) => this.receive(piece));
    this.child.on("close", () => {
      this.ended = true;
      for (const w of this.waiting.values()) w.fail(new Error("the server ended"));
      this.waiting.clear();
    });
  }

  private receive(piece: string): void {
    let from = 0;
    for (let end = piece.indexOf("\n"); end >= 0; end = piece.indexOf("\n", from)) {
      this.pieces.push(piece.slice(from, end));
      const line = this.pieces.length === 1 ? this.pieces[0] : this.pieces.join("");
      this.pieces = [];
      from = end + 1;
      const message = JSON.parse(line);
      const waiter = this.waiting.get(message.id);
      if (!waiter) continue; // a notification
      this.waiting.delete(message.id);
      if (message.error) waiter.fail(new Error(message.error.message));
      else waiter.ok(message.result);
    }
    if (from < piece.length) this.pieces.push(piece.slice(from));
  }

  // The id of the next request.
  get upcoming(): number {
    return this.nextId;
  }

  // Cancels a request: tells the server that nobody waits for the answer, and forgets the request.
  cancel(id: number): void {
    this.waiting.delete(id);
    this.child.stdin!.write(JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } }) + "\n");
  }

  request(method: string, params: Json = {}): Promise<Json> {
    if (this.ended) return Promise.reject(new Error("the server ended"));
    const id = this.nextId++;
    return new Promise((ok, fail) => {
      this.waiting.set(id, { ok, fail });
      this.child.stdin!.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
    });
  }

  async initialize(): Promise<void> {
    await this.request("initialize", {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "caisson-bench", version: "1" },
    });
    this.child.stdin!.write(JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }) + "\n");
  }

  // The tool's answer as an object. Throws the text of an error that the tool reports.
  async tool(name: string, args: Json): Promise<Json> {
    return this.unwrap(name, await this.request("tools/call", { name, arguments: args }));
  }

  // The same, but PIECES writes the value of the argument "@", which may be longer than the longest string.
  async streamedTool(name: string, args: Json, pieces: (write: (text: string) => Promise<void>) => Promise<void>): Promise<Json> {
    const id = this.nextId++;
    const answer = new Promise<Json>((ok, fail) => this.waiting.set(id, { ok, fail }));
    const [head, tail] = JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args } }).split('"@"');
    const write = (text: string) => new Promise<void>((ok, fail) => this.child.stdin!.write(text, (e) => (e ? fail(e) : ok())));
    answer.catch(() => {}); // the call may fail while the pieces are being written
    await write(`${head}"`);
    await pieces(write);
    await write(`"${tail}\n`);
    return this.unwrap(name, await answer);
  }

  private unwrap(name: string, result: Json): Json {
    const text = result.content?.[0]?.text ?? "{}";
    if (result.isError) throw new Error(`${name}: ${text}`);
    const value = result.structuredContent?.result ?? result._meta?.["caisson/result"] ?? JSON.parse(text); // pictures leave no place for structured content
    if (value.error) throw new Error(`${name}: ${value.error}: ${value.message}`);
    return value;
  }

  close(): Promise<void> {
    if (this.ended) return Promise.resolve();
    return new Promise((done) => {
      this.child.once("close", () => done());
      this.child.stdin!.end();
    });
  }
}
