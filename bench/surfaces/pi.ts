// The bare surface of pi: whatever line comes over a socket is said to the session.
import { createServer } from "node:net";
import { createInterface } from "node:readline";

export default function (pi: any) {
  pi.on("session_start", () => {
    const path = process.env.BENCH_SURFACE;
    if (!path) return;
    createServer((socket) => {
      createInterface({ input: socket }).on("line", (text) => pi.sendUserMessage(text));
    }).listen(path);
  });
}
