// The bare surface of opencode: whatever line comes over a socket is said to the session that it names first.
import { createServer } from "node:net";
import { createInterface } from "node:readline";

export const Surface = async ({ client }) => {
  const path = process.env.BENCH_SURFACE;
  if (path) {
    createServer((socket) => {
      createInterface({ input: socket }).on("line", (line) => {
        const [id, text] = JSON.parse(line);
        client.session.promptAsync({ path: { id }, body: { parts: [{ type: "text", text }] } });
      });
    }).listen(path);
  }
  return {};
};
