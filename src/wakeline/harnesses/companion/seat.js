/**
 * A seat: the connection of one harness session to the bridge of this machine.
 *
 * Newline JSON over the bridge's Unix socket.  The bridge may be away, come back, or ring twice for the same event; so
 * a seat dials again with growing pauses, remembers which marks it has rung and which the model has seen, and says
 * after every welcome what happened last.  Nothing here throws into the harness, and nothing keeps its process alive.
 */

import { connect } from "node:net";

const LONGEST_LINE = 1 << 20;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
const ANNOUNCE_MS = 4_000; // the bridge gives up before that
const REMEMBERED = 128;
const RETOLD = 8;
const EARLIER = "earlier"; // the turns of an earlier life of the session
const TEXT_LENGTH = 4_000;

export class Seat {
  #path;
  #hello;
  #ring;
  #welcomed;
  #withdraw;
  #socket = null;
  #timer = null;
  #pause = FIRST_PAUSE_MS;
  #wanted = false;
  #seated = false;
  #buffer = "";
  #presence = null;
  #marks = new Map(); // mark → {state: "ringing" | "rung" | "injected", turn}, oldest first
  #welcomes = 0;
  #ends = []; // of turns, the last few
  #waiting = []; // turns that wait for their announcement, in order
  #arriving = null; // until it is known whether the bridge lets us sit
  #arrived = () => {};

  /**
   * @param {() => string} path the bridge's seat socket, asked for anew at every attempt
   * @param {() => object} hello the first line, made anew for every connection
   * @param {(ring: object) => Promise<object>} ring brings a doorbell into the session and answers what came of it
   * @param {(welcome: object, first: boolean) => void} welcomed
   * @param {(mark: string) => boolean | Promise<boolean>} withdraw lets go of a doorbell whose mail was read; was it kept?
   */
  constructor(path, hello, ring, welcomed = () => {}, withdraw = () => false) {
    this.#path = path;
    this.#hello = hello;
    this.#ring = ring;
    this.#welcomed = welcomed;
    this.#withdraw = withdraw;
  }

  open() {
    if (this.#wanted) return;
    this.#wanted = true;
    this.#dial();
  }

  close() {
    this.#wanted = false;
    clearTimeout(this.#timer);
    this.#socket?.end();
    this.#lost();
  }

  // -- what the companion reports ------------------------------------------------------------------------------------

  presence(word, turn = null) {
    if (this.#presence?.presence === word && this.#presence.turn_id === turn) return;
    this.#presence = { type: "presence", presence: word, turn_id: turn };
    this.#say(this.#presence);
  }

  /** A turn begins.  Answers what to add to it, or null; never later than a few seconds. */
  async started(turn, text) {
    await this.#arriving; // a session that has just been made begins its first turn at once
    if (!this.#say({ type: "turn_started", turn_id: turn, text: text.slice(0, TEXT_LENGTH) })) return null;
    return await new Promise((resolve) => {
      this.#waiting.push(resolve);
      setTimeout(() => resolve(null), ANNOUNCE_MS).unref?.();
    });
  }

  injected(marks, turn) {
    const fresh = marks.filter((mark) => this.#marks.get(mark)?.state !== "injected");
    if (fresh.length === 0) return;
    for (const mark of fresh) this.#remember(mark, "injected", turn);
    this.#say({ type: "injected", marks: fresh, turn_id: turn });
  }

  ended(turn, status, last = "") {
    const end = { type: "turn_ended", turn_id: turn, status, last: last.slice(0, TEXT_LENGTH) };
    this.#ends = [...this.#ends, end].slice(-RETOLD);
    this.#say(end);
  }

  context(tokens) {
    if (Number.isInteger(tokens)) this.#say({ type: "context", tokens });
  }

  /** Marks that the model has answered in an earlier life of this session. */
  recall(marks) {
    for (const mark of marks) this.#remember(mark, "injected", EARLIER);
    if (marks.length > 0) this.ended(EARLIER, "completed");
  }

  // -- the connection ------------------------------------------------------------------------------------------------

  #dial() {
    this.#arriving = new Promise((resolve) => {
      this.#arrived = resolve;
      setTimeout(resolve, ANNOUNCE_MS).unref?.();
    });
    try {
      this.#call(connect(this.#path()));
    } catch {
      this.#redial(this.#socket); // nothing says yet where the bridge is
    }
  }

  #call(socket) {
    this.#socket = socket;
    socket.setEncoding("utf8");
    socket.on("connect", () => this.#greet(socket));
    socket.on("data", (text) => this.#read(socket, text));
    // The first of them counts.  In Bun a socket whose bridge died under a write ends, and never closes.
    for (const over of ["end", "error", "close"]) socket.on(over, () => this.#redial(socket));
    socket.unref();
  }

  #greet(socket) {
    try {
      const presence = this.#presence?.presence ?? "unknown";
      socket.write(`${JSON.stringify({ type: "hello", protocol: 1, presence, ...this.#hello() })}\n`);
    } catch {
      socket.destroy(); // no token yet, perhaps: there is another attempt
    }
  }

  #redial(socket) {
    if (socket !== this.#socket) return;
    socket?.destroy();
    this.#lost();
    if (!this.#wanted) return;
    this.#timer = setTimeout(() => this.#dial(), this.#pause * (0.75 + Math.random() / 2));
    this.#timer.unref?.();
    this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE_MS);
  }

  #lost() {
    this.#socket = null;
    this.#seated = false;
    this.#buffer = "";
    this.#arrived();
    for (const resolve of this.#waiting.splice(0)) resolve(null);
  }

  #read(socket, text) {
    this.#buffer += text;
    if (this.#buffer.length > LONGEST_LINE) return socket.destroy();
    const lines = this.#buffer.split("\n");
    this.#buffer = lines.pop();
    for (const line of lines) this.#hear(line);
  }

  #hear(line) {
    try {
      const said = JSON.parse(line);
      if (said.type === "welcome") this.#sit(said);
      else if (said.type === "announce") this.#waiting.shift()?.(said);
      else if (said.type === "ring") void this.#answer(said);
      else if (said.type === "withdraw") void this.#release(said.mark);
      else if (said.type === "refused") this.#pause = LONGEST_PAUSE_MS;
    } catch {
      // a line that is not for us
    }
  }

  #sit(welcome) {
    this.#seated = true;
    this.#pause = FIRST_PAUSE_MS;
    this.#retell();
    if (this.#presence !== null) this.#say(this.#presence);
    this.#welcomes += 1;
    this.#welcomed(welcome, this.#welcomes === 1);
    this.#arrived();
  }

  /** What happened last, whether or not it was told: nobody knows what a bridge that died had heard and kept. */
  #retell() {
    for (const [mark, { state, turn }] of [...this.#marks].slice(-RETOLD)) {
      if (state === "injected") this.#say({ type: "injected", marks: [mark], turn_id: turn });
    }
    for (const end of this.#ends) this.#say(end);
  }

  // -- rings ---------------------------------------------------------------------------------------------------------

  /** At most one doorbell for each mark, however often the bridge asks. */
  async #answer(ring) {
    const known = this.#marks.get(ring.mark);
    if (known !== undefined) {
      this.#say({ type: "rung", id: ring.id, result: "accepted", reason: null, detail: `already ${known.state}` });
      if (known.state === "injected") this.#say({ type: "injected", marks: [ring.mark], turn_id: known.turn });
      return;
    }
    this.#remember(ring.mark, "ringing");
    const result = await this.#try(ring);
    if (result.result !== "accepted") this.#marks.delete(ring.mark);
    else if (this.#marks.get(ring.mark)?.state === "ringing") this.#remember(ring.mark, "rung");
    this.#say({ type: "rung", id: ring.id, reason: null, detail: null, ...result });
  }

  /** Its mark stays known: the same doorbell does not ring again. */
  async #release(mark) {
    let kept = false;
    try {
      kept = await this.#withdraw(mark);
    } catch {
      // then it rings, and finds nothing unread
    }
    this.#say({ type: "withdrawn", mark, kept });
  }

  async #try(ring) {
    try {
      return await this.#ring(ring);
    } catch (error) {
      return { result: "failed", reason: "companion_error", detail: String(error).slice(0, 500) };
    }
  }

  #remember(mark, state, turn = null) {
    this.#marks.delete(mark); // so that it becomes the newest
    this.#marks.set(mark, { state, turn });
    if (this.#marks.size > REMEMBERED) this.#marks.delete(this.#marks.keys().next().value);
  }

  // -- words ---------------------------------------------------------------------------------------------------------

  #say(message) {
    if (!this.#seated || this.#socket === null) return false;
    this.#socket.write(`${JSON.stringify(message)}\n`);
    return true;
  }
}
