/**
 * Where the bridge is and who we are to it: options of the harness over the environment over `wakeline.json` beside the
 * file that the harness loads.  Without a token there is nothing to do, and the companion stays away.
 */

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { homedir } from "node:os";
import { fileURLToPath } from "node:url";

/**
 * @param {string} module the `import.meta.url` of the file that the harness loads
 * @returns {{seats: () => string, token: () => string, command: string[], environ: object} | null}
 */
export function configure(module, options = {}, environ = process.env) {
  const given = { ...beside(module), ...named(environ), ...options };
  if (!given.token && !given.token_file) return null;
  const token = () => (given.token ?? readFileSync(given.token_file, "utf8")).trim();
  const variables = { WAKELINE_DATA: given.data, WAKELINE_URL: given.url };
  if (given.token) variables.WAKELINE_TOKEN = given.token;
  else variables.WAKELINE_TOKEN_FILE = given.token_file;
  const kept = Object.entries(variables).filter(([, value]) => value);
  const seats = () => given.seats ?? find(given.data);
  return { seats, token, command: given.command ?? ["wakeline"], environ: Object.fromEntries(kept) };
}

function beside(module) {
  try {
    return JSON.parse(readFileSync(join(dirname(fileURLToPath(module)), "wakeline.json"), "utf8"));
  } catch {
    return {};
  }
}

function named(environ) {
  const given = {
    seats: environ.WAKELINE_SEATS,
    token: environ.WAKELINE_TOKEN,
    token_file: environ.WAKELINE_TOKEN_FILE,
    data: environ.WAKELINE_DATA,
    url: environ.WAKELINE_URL,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value));
}

/** The data directory holds the socket, or the name of the shorter place where it had to go. */
function find(data) {
  const home = data ?? join(process.env.XDG_DATA_HOME || join(homedir(), ".local", "share"), "wakeline");
  const record = join(home, "seats");
  return existsSync(record) ? readFileSync(record, "utf8").trim() : join(home, "seats.sock");
}
