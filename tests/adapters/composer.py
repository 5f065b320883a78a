"""A program with an input line, as small as such programs get: run in a terminal, it shows what harnesses show.

    python composer.py LOG glyph|ruled|bare

What is submitted goes to LOG, one line each.  Keys that a person would not type choose what it shows: C-b work, C-o a
question that Enter answers, C-x nothing but the input line, C-t a title that turns, C-e that a turn was broken off, C-d
the end.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from pathlib import Path

RULE = "─" * 60
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"


class Composer:
    def __init__(self, log: Path, style: str) -> None:
        self.log, self.style = log, style
        self.text, self.state, self.turn = "", "idle", 0
        self.said: list[str] = []

    def draw(self) -> None:
        prompt = {"glyph": "❯\xa0", "ruled": "", "bare": "$ "}[self.style]  # noqa: RUF001 - as harnesses draw it - that is the sign
        lines = [*(f"> {line}" for line in self.said[-3:]), ""]
        lines += {
            "work": ["✻ Thinking… (esc to interrupt)", ""],
            "stopped": ["● Well then", "  ⎿  Interrupted · What should be done instead?", " " * 40 + "◐ medium"],
            "question": ["Do you want to proceed?", "❯ 1. Yes", "  2. No"],  # noqa: RUF001 - as the harness writes it
        }.get(self.state, [])
        out = "\x1b[2J\x1b[H" + "\r\n".join(lines)
        if self.state != "question":
            shown = self.text or "\x1b[2mAsk anything\x1b[0m" * (self.style == "glyph")
            frame = RULE if self.style != "bare" else ""
            out += f"\r\n{frame}\r\n{prompt}{shown}\r\n{frame}\r\n\x1b[2m? for shortcuts\x1b[0m"
            out += f"\x1b[{len(lines) + 2};{len(prompt) + len(self.text) + 1}H"
        sys.stdout.write(out)
        sys.stdout.flush()

    def take(self, keys: str) -> bool:
        keys = keys.replace(PASTE_BEGINS, "").replace(PASTE_ENDS, "")
        for key in keys:
            if key == "\x04":
                return False
            self.press(key)
        return True

    def press(self, key: str) -> None:
        states = {"\x02": "work", "\x0f": "question", "\x18": "idle", "\x14": "turning", "\x05": "stopped"}
        if key in states:
            self.state = states[key]
        elif key == "\r":
            self.submit()
        elif key == "\x7f":
            self.text = self.text[:-1]
        elif key.isprintable():
            self.text += key

    def submit(self) -> None:
        with self.log.open("a") as log:
            log.write(f"{'approved' if self.state == 'question' else self.text}\n")
        self.said, self.text, self.state = [*self.said, self.text], "", "idle"

    def run(self) -> None:
        sys.stdout.write("\x1b[?2004h")
        while True:
            if self.state == "turning":
                self.turn += 1
                sys.stdout.write(f"\x1b]2;{'⠋⠙⠹⠸'[self.turn % 4]} project\x07")
            self.draw()
            ready, _, _ = select.select([0], [], [], 0.1 if self.state == "turning" else None)
            if ready and not self.take(os.read(0, 65_536).decode("utf-8", "replace")):
                return


if __name__ == "__main__":
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        Composer(Path(sys.argv[1]), sys.argv[2]).run()
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
