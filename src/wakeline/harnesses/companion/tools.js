/**
 * Wakeline's tools for a harness that does not speak MCP: `wakeline mcp` as a child, spoken to over its pipes.
 *
 * So the tools have the same names, texts and answers everywhere, and are written once.  A child that has died is
 * started again by the next call.
 */

import { spawn } from "node:child_process";

const CALL_MS = 330_000; // longer than the longest wait that a tool offers
const START_MS = 15_000;
const PROTOCOL = "2025-06-18";
const SESSION = "wakeline/session";

export class Tools {
  #command;
  #environ;
  #child = null;
  #ready = null;
  #number = 0;
  #calls = new Map();

  constructor(command, environ) {
    this.#command = command;
    this.#environ = environ;
  }

  /** What there is: name, description and JSON schema of each. */
  async list() {
    return (await this.#ask("tools/list", {}, START_MS)).tools;
  }

  /** The text that the tool answered; throws what it refused.  `session` is the one that uses it, by its own name. */
  async call(name, input, signal, session) {
    const _meta = session ? { [SESSION]: session } : undefined;
    const answer = await this.#ask("tools/call", { name, arguments: input, _meta }, CALL_MS, signal);
    const text = answer.content.map((part) => part.text ?? "").join("\n");
    if (answer.isError) throw new Error(text);
    return text;
  }

  close(error = new Error("wakeline mcp was closed")) {
    this.#child?.kill();
    this.#child = null;
    this.#ready = null;
    for (const id of [...this.#calls.keys()]) this.#fail(id, error);
  }

  async #ask(method, params, limit, signal) {
    this.#ready ??= this.#start();
    try {
      await this.#ready;
    } catch (error) {
      this.close();
      throw error;
    }
    return await this.#request(method, params, limit, signal);
  }

  async #start() {
    const [program, ...words] = this.#command;
    const child = spawn(program, [...words, "mcp"], {
      env: { ...process.env, ...this.#environ },
      stdio: ["pipe", "pipe", "ignore"],
    });
    this.#child = child;
    child.on("error", (error) => this.#ended(child, error));
    child.on("exit", () => this.#ended(child, new Error("wakeline mcp ended")));
    child.stdin.on("error", () => {}); // its exit says more
    this.#listen(child);
    for (const part of [child, child.stdin, child.stdout]) part.unref?.();
    const clientInfo = { name: "wakeline-companion", version: "1" };
    await this.#request("initialize", { protocolVersion: PROTOCOL, capabilities: {}, clientInfo }, START_MS);
    this.#write({ method: "notifications/initialized" });
  }

  #listen(child) {
    let buffer = "";
    child.stdout.setEncoding("utf8");
    child.stdout.on("data", (text) => {
      const lines = (buffer + text).split("\n");
      buffer = lines.pop();
      for (const line of lines) this.#hear(line);
    });
  }

  #hear(line) {
    try {
      const said = JSON.parse(line);
      const call = said.method === undefined ? this.#calls.get(said.id) : undefined;
      if (call === undefined) return;
      this.#calls.delete(said.id);
      if (said.error) call.reject(new Error(said.error.message));
      else call.resolve(said.result);
    } catch {
      // not a line of the protocol
    }
  }

  #request(method, params, limit, signal) {
    const id = ++this.#number;
    return new Promise((resolve, reject) => {
      // It alone keeps the process there for an answer: a harness without a terminal has nothing else to wait for.
      const timer = setTimeout(() => this.#fail(id, new Error(`wakeline did not answer ${method}`)), limit);
      const settle = (done) => (value) => (clearTimeout(timer), done(value));
      this.#calls.set(id, { resolve: settle(resolve), reject: settle(reject) });
      signal?.addEventListener("abort", () => this.#fail(id, new Error("aborted")), { once: true });
      this.#write({ id, method, params });
    });
  }

  #write(message) {
    this.#child?.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  #ended(child, error) {
    if (child === this.#child) this.close(error);
  }

  #fail(id, error) {
    this.#calls.get(id)?.reject(error);
    this.#calls.delete(id);
  }
}
