/**
 * Wakeline in pi: an extension that gives this session a seat at the bridge, so that mail wakes it.
 *
 * A doorbell is a custom message (`pi.sendMessage`), never a user message: pi would put a queued user message into the
 * editor when the human presses Esc, and that is where a draft may be.  Idle, it starts a turn; in a turn it is
 * steered, which means before the next call of the model, with nothing cut off.  After Esc it waits for the human's
 * next prompt.  The `context` event, which shows what goes to the model, is the proof that a doorbell is in it.
 */

import { type ExtensionAPI, type ExtensionContext, VERSION } from "@earendil-works/pi-coding-agent";
import { Seat } from "../companion/seat.js";
import { configure } from "../companion/settings.js";
import { Tools } from "../companion/tools.js";

const KIND = "wakeline";
const TICK_MS = 1_000;
const TYPING_MS = 20_000; // a draft that nobody has touched for so long is not typing; a doorbell leaves it as it is
const SETTLE_MS = 5_000;
const TOOLS_MS = 5_000; // a human does not wait longer for them
const RING_TOOLS_MS = 8_000; // a doorbell may: without tools the model could not fetch what it tells of
const LONE_TOOLS_MS = 60_000; // `pi -p`, where nobody sits and nothing can be said twice: until they are there or fail
const RECENT = 32;

type Ring = { mark: string; text: string };
type Outcome = { result: string; reason?: string; detail?: string };
type Settings = NonNullable<ReturnType<typeof configure>>;

class Companion {
  private ctx: ExtensionContext | undefined;
  private seat: Seat | undefined;
  private timer: ReturnType<typeof setInterval> | undefined;
  private unlisten: (() => void) | undefined;
  private running = false;
  private preparing = 0; // since when a prompt of the human is on its way to the agent
  private prompts = 0; // dialogs that wait for an answer
  private interrupted = false; // the human pressed Esc and has not spoken since
  private turn: string | null = null;
  private turns = 0;
  private status = "completed";
  private last = "";
  private draft = "";
  private typedAt = 0;
  private rung = new Map<string, string>(); // mark → text, given to pi and not yet seen in a context
  private held = new Map<string, string>(); // mark → text, for the human's next prompt
  private handover: string | null = null; // what was unread when the session began: mail to oneself never rings

  constructor(
    private readonly pi: ExtensionAPI,
    private readonly settings: Settings,
    private readonly tools: () => Promise<void>,
  ) {}

  // -- the session's life --------------------------------------------------------------------------------------------

  attach(ctx: ExtensionContext): void {
    this.detach();
    if (isLone(ctx)) return; // one prompt and gone: nothing to wake
    this.ctx = ctx;
    this.seat = new Seat(
      this.settings.seats,
      () => this.hello(ctx),
      (ring: Ring) => this.ring(ring),
      (welcome: { doorbell?: string | null }, first: boolean) => {
        if (first) this.handover = welcome.doorbell ?? null;
      },
      (mark: string) => this.withdraw(mark),
    );
    this.seat.recall(answered(ctx.sessionManager.getBranch()));
    this.timer = setInterval(() => this.look(), TICK_MS);
    this.timer.unref?.();
    if (ctx.mode === "tui") this.unlisten = ctx.ui.onTerminalInput(() => void setImmediate(() => this.look()));
    this.look();
    this.seat.open();
  }

  detach(): void {
    clearInterval(this.timer);
    this.unlisten?.();
    this.seat?.close();
    this.ctx = this.seat = this.unlisten = undefined;
  }

  private hello(ctx: ExtensionContext): object {
    return {
      token: this.settings.token(),
      harness: "pi",
      version: VERSION,
      native_id: ctx.sessionManager.getSessionId(),
      pid: process.pid,
      cwd: ctx.cwd,
      wake_mode: "socket",
      transport: "extension",
      capabilities: ["queue_when_active"],
      resumable: ctx.sessionManager.getSessionFile() !== undefined,
    };
  }

  // -- presence ------------------------------------------------------------------------------------------------------

  look(): void {
    try {
      if (this.running && this.ctx?.isIdle()) this.settle(); // where agent_settled is not told
      if (this.ctx !== undefined) this.seat?.presence(this.presence(), this.turn);
    } catch {
      this.detach(); // pi has given the session to another runtime, which has an extension of its own
    }
  }

  private presence(): string {
    if (this.prompts > 0) return "waitingOnApproval";
    if (this.running || this.isPreparing() || !this.ctx?.isIdle()) return "active";
    return this.typing() ? "userTyping" : "idle";
  }

  private typing(): boolean {
    const text = this.ctx?.mode === "tui" ? this.ctx.ui.getEditorText() : "";
    if (text !== this.draft) this.typedAt = Date.now();
    this.draft = text;
    return text.trim() !== "" && Date.now() - this.typedAt < TYPING_MS;
  }

  asked(): void {
    this.prompts += 1;
    this.look();
  }

  answered(): void {
    this.prompts = Math.max(0, this.prompts - 1);
    this.look();
  }

  // -- rings ---------------------------------------------------------------------------------------------------------

  private async ring(ring: Ring): Promise<Outcome> {
    this.handover = null; // a doorbell tells of all that is unread
    if (this.interrupted) {
      this.held.set(ring.mark, ring.text);
      return { result: "accepted", detail: "for the next prompt" };
    }
    await atMost(RING_TOOLS_MS, this.tools());
    if (!(await this.clear())) return { result: "failed", reason: "busy", detail: "pi was preparing a turn" };
    const detail = this.running ? "steered" : "turn started";
    this.rung.set(ring.mark, ring.text);
    this.pi.sendMessage(doorbell(ring.text, [ring.mark]), { triggerTurn: true, deliverAs: "steer" });
    return { result: "accepted", detail };
  }

  /** Its mail was read.  What pi has in its own queue cannot be taken out, but Esc must not bring it back. */
  private withdraw(mark: string): boolean {
    this.rung.delete(mark);
    return this.held.delete(mark);
  }

  /**
   * Between a prompt and its turn, and while pi compacts, a message would start a turn of its own, and the human's
   * prompt would be refused.  So it waits, briefly.
   */
  private async clear(): Promise<boolean> {
    const until = Date.now() + SETTLE_MS;
    while (Date.now() < until) {
      if (this.ctx === undefined) return false;
      if (this.running || (!this.isPreparing() && this.prompts === 0 && this.ctx.isIdle())) return true;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return false;
  }

  private isPreparing(): boolean {
    return Date.now() - this.preparing < SETTLE_MS;
  }

  // -- turns ---------------------------------------------------------------------------------------------------------

  spoken(): void {
    this.preparing = Date.now();
    this.interrupted = false;
  }

  /** A prompt of the human: what to add to it. */
  async announce(prompt: string): Promise<{ message: ReturnType<typeof doorbell> } | undefined> {
    this.preparing = Date.now();
    this.open();
    const said = await this.seat?.started(this.turn, prompt);
    const text = said?.text ?? [...this.held.values()].pop() ?? this.handover;
    if (!text) return undefined;
    const marks = [...new Set([...(said?.marks ?? []), ...this.held.keys()])];
    this.held.clear();
    this.handover = null;
    return { message: doorbell(text, marks) };
  }

  started(): void {
    this.preparing = 0;
    if (this.turn === null) this.open();
    this.running = true;
    this.status = "completed";
    this.look();
  }

  private open(): void {
    this.turns += 1;
    this.turn = `${this.ctx?.sessionManager.getSessionId()}.${this.turns}`;
  }

  /** What the next call of the model will see. */
  shown(messages: readonly unknown[]): void {
    const marks = [...new Set(marksOf(messages).slice(-RECENT))];
    for (const mark of marks) this.rung.delete(mark);
    this.seat?.injected(marks, this.turn);
  }

  ended(messages: readonly { role?: string; stopReason?: string; content?: unknown }[]): void {
    const answer = messages.filter((message) => message.role === "assistant").pop();
    const words: Record<string, string> = { aborted: "interrupted", error: "failed" };
    this.status = words[answer?.stopReason ?? ""] ?? "completed";
    this.last = textOf(answer?.content);
    this.seat?.context(this.ctx?.getContextUsage()?.tokens);
  }

  settle(): void {
    if (!this.running) return;
    this.running = false;
    this.interrupted = this.status === "interrupted";
    // Esc empties pi's queue.  What was in it waits for the human; after any other end nothing can be left in it.
    if (this.interrupted) for (const [mark, text] of this.rung) this.held.set(mark, text);
    this.rung.clear();
    this.seat?.ended(this.turn, this.status, this.last);
    this.turn = null;
    this.look();
  }
}

/** Without a terminal and without a program that drives it: it has the prompt that it was started with, and ends. */
function isLone(ctx: ExtensionContext): boolean {
  return ctx.mode !== "tui" && ctx.mode !== "rpc";
}

function doorbell(text: string, marks: string[]) {
  return { customType: KIND, content: text, display: true, details: { marks } };
}

function marksOf(entries: readonly unknown[]): string[] {
  const ours = entries.filter((entry) => (entry as { customType?: string }).customType === KIND);
  return ours.flatMap((entry) => (entry as { details?: { marks?: string[] } }).details?.marks ?? []);
}

/** Those that the model has answered: pi may have been killed between taking a doorbell and showing it. */
function answered(entries: readonly unknown[]): string[] {
  const isAnswer = (entry: unknown) => (entry as { message?: { role?: string } }).message?.role === "assistant";
  return marksOf(entries.slice(0, entries.findLastIndex(isAnswer) + 1)).slice(-RECENT);
}

function textOf(content: unknown): string {
  if (!Array.isArray(content)) return typeof content === "string" ? content : "";
  return content.map((part: { text?: string }) => part.text ?? "").join("");
}

// -- tools -----------------------------------------------------------------------------------------------------------

/** pi speaks no MCP, so the tools of `wakeline mcp` are registered as pi's own. */
async function offer(pi: ExtensionAPI, tools: Tools): Promise<void> {
  for (const tool of await tools.list()) {
    pi.registerTool({
      name: tool.name,
      label: `Wakeline ${tool.name}`,
      description: tool.description ?? tool.name,
      parameters: tool.inputSchema,
      async execute(_id, params, signal, _onUpdate, ctx) {
        const text = await tools.call(tool.name, params, signal, ctx?.sessionManager.getSessionId());
        return { content: [{ type: "text", text }], details: undefined };
      },
    });
  }
}

function complain(ctx: ExtensionContext, words: string): void {
  try {
    ctx.ui.notify(words, "warning");
  } catch {
    // the session has gone meanwhile
  }
}

function atMost<T>(limit: number, work: Promise<T>): Promise<T | void> {
  return Promise.race([work, new Promise<void>((resolve) => setTimeout(resolve, limit).unref?.())]);
}

export default function (pi: ExtensionAPI): void {
  const settings = configure(import.meta.url);
  if (settings === null) return;
  const tools = new Tools(settings.command, settings.environ);
  let offered: Promise<void> = Promise.resolve();
  const companion = new Companion(pi, settings, () => offered);

  pi.on("session_start", (_event, ctx) => {
    offered = offer(pi, tools).catch(() => complain(ctx, "Wakeline's tools are missing: wakeline mcp did not start"));
    companion.attach(ctx);
  });
  pi.on("session_shutdown", () => {
    companion.detach();
    tools.close();
  });
  pi.on("input", () => companion.spoken());
  pi.on("before_agent_start", async (event, ctx) => {
    await atMost(isLone(ctx) ? LONE_TOOLS_MS : TOOLS_MS, offered);
    return await companion.announce(event.prompt);
  });
  pi.on("agent_start", () => companion.started());
  pi.on("context", (event) => companion.shown(event.messages));
  pi.on("agent_end", (event) => companion.ended(event.messages));
  pi.on("agent_settled", () => companion.settle());
  pi.on("ui_prompt_start", () => companion.asked());
  pi.on("ui_prompt_end", () => companion.answered());
}
