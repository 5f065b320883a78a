/**
 * The message that a doorbell becomes in opencode.  Its ids are made from the mark alone, so that prompting twice
 * cannot make two messages; they are built as opencode builds its own, time first, because its screen sorts by them.
 */

const PREFIX = "wl-";
const DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const TIME_LENGTH = 10; // a ULID: 48 bits of milliseconds, then 80 of chance, five bits to a letter
const CHANCE_LENGTH = 14;
const SIGN = "WL"; // ends our ids; opencode's own are 26 long after their prefix, ours 28

export function letterOf(mark, text) {
  const rest = idOf(mark);
  return { id: `msg_${rest}`, part: `prt_${rest}`, text, quiet: false, shown: false, unwanted: false, pokes: 0 };
}

export function isOurs(id) {
  return id.endsWith(SIGN) && id.length === "msg_".length + 12 + CHANCE_LENGTH + SIGN.length;
}

function idOf(mark) {
  const ulid = mark.slice(PREFIX.length);
  let time = 0n;
  for (const sign of ulid.slice(0, TIME_LENGTH)) time = time * 32n + BigInt(DIGITS.indexOf(sign));
  const hex = ((time * 4096n) & ((1n << 48n) - 1n)).toString(16).padStart(12, "0");
  return hex + ulid.slice(-CHANCE_LENGTH).padStart(CHANCE_LENGTH, "0") + SIGN;
}
