/**
 * Wakeline in opencode: a plugin that gives every session of this process a seat at the bridge, so that mail wakes it.
 *
 * A doorbell is a prompt (`session.promptAsync`) under a message id that is made from its mark, so the same mark can
 * never make two messages.  opencode runs it at once, or after the step that it is in.  It can be left behind: a
 * rejected permission ends the turn without a look at new messages.  So what the model has not seen when the session
 * becomes idle is prompted again under the same id.  After Esc it is not: it is in the history, and the human's next
 * prompt shows it.
 *
 * opencode answers the prompt with the newest date, and with it those that are stored by then.  A prompt is dated when
 * it comes, and stored when the plugins have seen it: one that a doorbell overtakes meanwhile would never be answered.
 */

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { Seat } from "../companion/seat.js";
import { configure } from "../companion/settings.js";
import { isOurs, letterOf } from "./letter.js";

const MOST_SEATS = 16;
const MOST_POKES = 3;
const MOST_STORED = 64;

/** One session of this process: what it is doing, and which doorbells are in it. */
class Chair {
  letters = new Map(); // mark → a letter
  stored = new Map(); // message of a human or ours → when opencode stored it, the newest only
  asked = new Set(); // permissions and questions that wait for the human
  busy = false;
  interrupted = false; // the human pressed Esc and has not spoken since
  status = "completed";
  turn = null;
  answer = null; // the newest message of the assistant
  handover = null; // what was unread when the session began: mail to oneself never rings
  awaited; // the prompt that `opencode run` was started with has yet to come

  constructor(id, seat, awaited) {
    this.id = id;
    this.seat = seat;
    this.awaited = awaited;
  }

  look() {
    const word = this.asked.size > 0 ? "waitingOnApproval" : this.busy ? "active" : "idle";
    this.seat.presence(word, this.turn);
  }

  /** The doorbells that are in the history and that no call of the model has held yet. */
  unseen() {
    return [...this.letters].filter(([, letter]) => !letter.shown);
  }

  keep(id, at) {
    if (!isOurs(id)) this.awaited = false;
    this.stored.set(id, at);
    if (this.stored.size > MOST_STORED) this.stored.delete(this.stored.keys().next().value);
  }

  /** A call of the model begins, with all that was stored up to the message that it answers. */
  show(answered) {
    const until = this.stored.get(answered) ?? 0;
    const seen = this.unseen().filter(([, letter]) => this.stored.get(letter.id) <= until);
    for (const [, letter] of seen) letter.shown = true;
    this.seat.injected(seen.map(([mark]) => mark), this.turn);
  }

  /** One of our doorbells is about to be stored; unless it is a quiet one, a turn begins with it. */
  begin(id) {
    const quiet = [...this.letters.values()].some((letter) => letter.id === id && letter.quiet);
    if (!quiet) this.turn ??= id;
  }

  forget() {
    for (const [mark, letter] of this.letters) if (letter.shown) this.letters.delete(mark);
  }
}

class Desk {
  #client;
  #directory;
  #settings;
  #words; // that started this process
  #chairs = new Map();
  #roots = new Map(); // session → the session that it is a part of

  constructor(client, directory, settings, words) {
    this.#client = client;
    this.#directory = directory;
    this.#settings = settings;
    this.#words = words;
  }

  close() {
    for (const chair of this.#chairs.values()) chair.seat.close();
    this.#chairs.clear();
  }

  // -- sessions ------------------------------------------------------------------------------------------------------

  /** The chair of the session that the human sees: a subagent's session has none of its own. */
  async #chair(id) {
    const root = await this.#root(id);
    const session = root === null || this.#chairs.has(root) ? null : await this.#get(root);
    const chair = this.#chairs.get(root) ?? (session && this.#open(session)); // another event may have been faster
    if (chair) {
      this.#chairs.delete(root); // so that it becomes the newest: the oldest gives up its seat
      this.#chairs.set(root, chair);
    }
    return chair;
  }

  async #root(id) {
    if (!this.#roots.has(id)) {
      const session = await this.#get(id);
      if (session === null) return null;
      this.#roots.set(id, session.parentID ? await this.#root(session.parentID) : id);
    }
    return this.#roots.get(id);
  }

  async #get(id) {
    const answer = await this.#client.session.get({ path: { id } });
    return answer.data ?? null;
  }

  #open({ id, version }) {
    const seat = new Seat(
      this.#settings.seats,
      () => this.#hello(id, version),
      (ring) => this.#ring(chair, ring),
      (welcome, first) => {
        if (first) chair.handover = welcome.doorbell ?? null;
      },
      (mark) => this.#release(chair, mark),
    );
    const chair = new Chair(id, seat, isLone(this.#words));
    this.#chairs.set(id, chair);
    if (this.#chairs.size > MOST_SEATS) this.#remove(this.#chairs.keys().next().value);
    chair.look();
    seat.open();
    return chair;
  }

  #remove(id) {
    this.#chairs.get(id)?.seat.close();
    this.#chairs.delete(id);
  }

  #hello(id, version) {
    return {
      token: this.#settings.token(),
      harness: "opencode",
      version,
      native_id: id,
      pid: process.pid,
      cwd: this.#directory,
      wake_mode: "socket",
      transport: "plugin",
      capabilities: ["queue_when_active"],
      resumable: true,
    };
  }

  /** The session that the human opened with the program: nothing else tells of it before its next prompt. */
  async greet() {
    const continued = this.#words.some((word) => word === "-c" || word === "--continue");
    const id = named(this.#words) ?? (continued ? await this.#newest() : null);
    if (id !== null) await this.#chair(id);
  }

  async #newest() {
    const sessions = (await this.#client.session.list()).data ?? [];
    const roots = sessions.filter((session) => !session.parentID);
    return roots.toSorted((one, other) => other.time.updated - one.time.updated)[0]?.id ?? null;
  }

  // -- rings ---------------------------------------------------------------------------------------------------------

  async #ring(chair, ring) {
    chair.handover = null; // a doorbell tells of all that is unread
    const letter = letterOf(ring.mark, ring.text);
    const found = await this.#client.session.message({ path: { id: chair.id, messageID: letter.id } });
    letter.quiet = chair.interrupted || chair.awaited;
    chair.letters.set(ring.mark, letter);
    const result = found.data ? await this.#resume(chair, letter) : await this.#prompt(chair, letter, letter.quiet);
    if (result.result !== "accepted") chair.letters.delete(ring.mark);
    return result;
  }

  /** It is in the history from an earlier life of this process: was it answered? */
  async #resume(chair, letter) {
    const messages = (await this.#client.session.messages({ path: { id: chair.id }, query: { limit: 50 } })).data ?? [];
    for (const { info } of messages) if (info.role === "user") chair.keep(info.id, info.time.created);
    // An answer that was never finished died with its process.
    for (const { info } of messages) if (info.role === "assistant" && info.time.completed) chair.show(info.parentID);
    if (letter.shown) return { result: "accepted", detail: "already answered" };
    await this.#withdraw(chair, letter);
    return await this.#prompt(chair, letter, chair.awaited);
  }

  async #prompt(chair, letter, quiet) {
    const session = await this.#get(chair.id);
    if (session === null) return failed("session_gone", chair.id);
    // Without these opencode would take its defaults, and leave the mode and the model that the human has chosen.
    const model = session.model && { providerID: session.model.providerID, modelID: session.model.id };
    const body = {
      messageID: letter.id,
      ...(session.agent && { agent: session.agent }),
      ...(model && { model }),
      ...(session.model?.variant && session.model.variant !== "default" && { variant: session.model.variant }),
      // A session is named after its first prompt that is not synthetic.
      parts: [{ id: letter.part, type: "text", text: letter.text, ...(chair.awaited && { synthetic: true }) }],
    };
    const path = { id: chair.id };
    const answer = quiet
      ? await this.#client.session.prompt({ path, body: { ...body, noReply: true } })
      : await this.#client.session.promptAsync({ path, body });
    if (answer.error !== undefined) return failed("refused", JSON.stringify(answer.error));
    return { result: "accepted", detail: quiet ? "for the next prompt" : chair.busy ? "queued" : "turn started" };
  }

  /**
   * Its mail was read.  While opencode is busy it lets nobody delete a message; then it is seen to when the turn is over,
   * if the model has not seen it by then.
   */
  async #release(chair, mark) {
    const letter = chair.letters.get(mark);
    if (letter === undefined || letter.shown || !isOurs(letter.id)) return false;
    letter.unwanted = true;
    return !chair.busy && (await this.#discard(chair, mark, letter));
  }

  async #discard(chair, mark, letter) {
    const answer = await this.#withdraw(chair, letter);
    if (answer.error === undefined) chair.letters.delete(mark);
    return answer.error === undefined;
  }

  // -- what happens --------------------------------------------------------------------------------------------------

  async hear({ type, properties }) {
    const told = this[`on_${type.replaceAll(".", "_")}`];
    if (told !== undefined) await told.call(this, properties);
  }

  async on_session_created({ info }) {
    if (!info.parentID) await this.#chair(info.id);
  }

  async on_session_deleted({ info }) {
    this.#remove(info.id);
  }

  async on_session_status({ sessionID, status }) {
    const chair = await this.#chair(sessionID);
    if (chair === null || chair.id !== sessionID) return; // a subagent's turn is a part of the turn of its root
    if (status.type === "idle") return await this.#settle(chair);
    if (!chair.busy) chair.status = "completed";
    chair.busy = true;
    chair.look();
  }

  async on_message_updated({ info }) {
    const chair = this.#chairs.get(info.sessionID);
    if (chair === undefined) return;
    if (info.role === "user") return chair.keep(info.id, info.time.created);
    if (info.error?.name === "MessageAbortedError") chair.status = "interrupted";
    else if (info.error !== undefined) chair.status = "failed";
    if (chair.answer === info.id) return;
    chair.answer = info.id;
    chair.show(info.parentID);
  }

  async on_session_error({ sessionID, error }) {
    const chair = this.#chairs.get(sessionID);
    if (chair !== undefined) chair.status = error?.name === "MessageAbortedError" ? "interrupted" : "failed";
  }

  async #ask(sessionID, id) {
    const chair = await this.#chair(sessionID);
    chair?.asked.add(id);
    chair?.look();
  }

  async #answered(sessionID, id) {
    const chair = await this.#chair(sessionID);
    chair?.asked.delete(id);
    chair?.look();
  }

  on_permission_asked = ({ sessionID, id }) => this.#ask(sessionID, id);
  on_permission_replied = ({ sessionID, requestID }) => this.#answered(sessionID, requestID);
  on_question_asked = ({ sessionID, id }) => this.#ask(sessionID, id);
  on_question_replied = ({ sessionID, requestID }) => this.#answered(sessionID, requestID);
  on_question_rejected = ({ sessionID, requestID }) => this.#answered(sessionID, requestID);

  // -- turns ---------------------------------------------------------------------------------------------------------

  /** A prompt, of the human or ours, before it is stored: add the doorbell for what is unread. */
  async compose({ sessionID }, { message, parts }) {
    const chair = await this.#chair(sessionID);
    if (chair === null || chair.id !== sessionID) return;
    if (isOurs(message.id)) return chair.begin(message.id);
    chair.turn = chair.busy ? chair.turn : message.id;
    chair.interrupted = false;
    const prompt = parts.map((part) => part.text ?? "").join("\n");
    const marks = chair.unseen().map(([mark]) => mark); // in the history already: not to be announced again
    const said = await chair.seat.started(message.id, [...marks, prompt].join("\n"));
    message.time.created = Date.now(); // a doorbell may have rung meanwhile
    const text = said?.text ?? (marks.length === 0 ? chair.handover : null);
    if (!text) return;
    chair.handover = null;
    const id = `prt_${message.id.slice("msg_".length)}WL`;
    parts.push({ id, sessionID, messageID: message.id, type: "text", synthetic: true, text });
    const letter = { id: message.id, text, shown: false, pokes: MOST_POKES };
    for (const mark of said?.marks ?? []) chair.letters.set(mark, { ...letter });
  }

  async #settle(chair) {
    if (!chair.busy) return;
    chair.busy = false;
    chair.asked.clear();
    chair.interrupted = chair.status === "interrupted";
    chair.seat.ended(chair.turn, chair.status, await this.#last(chair));
    chair.turn = null;
    chair.forget();
    chair.look();
    for (const [mark, letter] of chair.unseen()) if (letter.unwanted) await this.#discard(chair, mark, letter);
    if (!chair.interrupted) await this.#poke(chair);
  }

  async #poke(chair) {
    for (const [, letter] of chair.unseen()) {
      if (letter.unwanted || letter.pokes++ >= MOST_POKES) continue;
      await this.#withdraw(chair, letter);
      await this.#prompt(chair, letter, false);
    }
  }

  /** opencode would take the second prompt as the same message, but its screen would show it twice. */
  async #withdraw(chair, letter) {
    const path = { id: chair.id, messageID: letter.id };
    return await this.#client._client.delete({ url: "/session/{id}/message/{messageID}", path });
  }

  async #last(chair) {
    if (chair.answer === null) return "";
    const found = await this.#client.session.message({ path: { id: chair.id, messageID: chair.answer } });
    return (found.data?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");
  }
}

function failed(reason, detail) {
  return { result: "failed", reason, detail: detail.slice(0, 500) };
}

/** The words that started this process.  Plugins run in a worker, whose own are others. */
function words() {
  if (existsSync("/proc/self/cmdline")) return readFileSync("/proc/self/cmdline", "utf8").split("\0");
  return execFileSync("ps", ["-o", "args=", "-p", String(process.pid)], { encoding: "utf8" }).trim().split(/\s+/);
}

/**
 * `opencode run PROMPT`, where nobody sits.  It looks no more when its session was idle once, and would then let a
 * question for a permission wait for ever; so no turn may be over before the one of its prompt.
 */
function isLone(words) {
  const command = words.find((word, at) => at > 0 && !word.startsWith("-") && words[at - 1] !== "--log-level");
  return command === "run" && !words.some((word) => ["-i", "--interactive", "--mini"].includes(word));
}

/** `opencode -s ID`: the session that the terminal shows from the start. */
function named(words) {
  const at = words.findIndex((word) => word === "-s" || word === "--session");
  const joined = words.find((word) => word.startsWith("--session="));
  return joined?.slice("--session=".length) ?? (at >= 0 ? words[at + 1] : null);
}

/** What goes wrong here is ours and not the harness's. */
function quietly(work) {
  return async (...given) => {
    try {
      return await work(...given);
    } catch {
      return undefined;
    }
  };
}

const server = async ({ client, directory }, options) => {
  const settings = configure(import.meta.url, options);
  if (settings === null) return {};
  const desk = new Desk(client, directory, settings, (await quietly(words)()) ?? []);
  setTimeout(quietly(() => desk.greet()), 0); // not before opencode has finished loading us
  return {
    event: quietly(({ event }) => desk.hear(event)),
    "chat.message": quietly((input, output) => desk.compose(input, output)),
    dispose: quietly(async () => desk.close()),
  };
};

export default { id: "wakeline", server };
