"""How messages, threads and events look to people."""

from __future__ import annotations

from wakeline.faces.cli.text import ago, block, clock, count, indented, one_line, pad, paint, safe, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

PREVIEW_LINES = 8
KIND_WIDTH = len("dead_letter.redriven")


def message(view: dict[str, Any], *, preview: bool = False) -> str:
    """Who to whom and when, the ids that other commands need, then what was written, set off."""
    marks = [view["priority"]] if view["priority"] != "normal" else []
    marks += [view["kind"]] if view["kind"] != "chat" else []
    marks += [view["state"]] if view["state"] != "current" else []
    marks += [f"#{one_line(tag)}" for tag in view["tags"]]
    to = ", ".join(view["to"])
    parts = [paint(f"{view['sender']} → {to}", "bold"), paint(ago(view["created_at"]), "dim")]
    parts += [paint(mark, "yellow") for mark in marks]
    ids = f"message {view['message_id']}, #{view['seq']} of thread {view['thread_id']}"
    if view["in_reply_to"]:
        ids += f", answers {view['in_reply_to']}"
    lines = ["  ".join(parts), paint(ids, "dim")]
    if view["subject"]:
        lines.append("  " + paint(one_line(view["subject"]), "bold"))
    lines.append(_body(view, preview=preview))
    return "\n".join(lines)


def _body(view: dict[str, Any], *, preview: bool) -> str:
    lines = indented(view["body"].rstrip("\n")).split("\n")
    hidden = len(lines) - PREVIEW_LINES if preview else 0
    if hidden > 0:
        lines = [*lines[:PREVIEW_LINES], paint(f"  … {count(hidden, 'more line')}", "dim")]
    if view.get("body_truncated"):
        lines.append(paint("  … cut to fit the token budget", "dim"))
    return "\n".join(lines)


def messages(views: Sequence[dict[str, Any]], *, preview: bool = False) -> str:
    return "\n\n".join(message(view, preview=preview) for view in views)


def message_with_receipts(view: dict[str, Any]) -> str:
    fields = {
        "expires": ago(view["expires_at"]) or None,
        "answer by": ago(view.get("answer_by")) or None,
        "supersedes": view["supersedes"],
        "superseded by": view["superseded_by"],
        "retracted": ago(view["retracted_at"]) or None,
        "wake policy": view["wake_policy"],
    }
    receipts = view.get("receipts") or []
    return "\n\n".join(filter(None, (message(view), block(fields), _receipts(receipts))))


def _receipts(receipts: Sequence[dict[str, Any]]) -> str:
    if not receipts:
        return ""
    rows = [
        (
            receipt["recipient"],
            ago(receipt["seen_at"]) or "-",
            ago(receipt["read_at"]) or "-",
            ago(receipt["archived_at"]) or "-",
            receipt["lapsed"] or "",
        )
        for receipt in receipts
    ]
    return table(("RECIPIENT", "SEEN", "READ", "ARCHIVED", "LAPSED"), rows)


def threads(views: Sequence[dict[str, Any]]) -> str:
    rows = [
        (view["thread_id"], view["status"], view["type"], view["last_seq"], ago(view["updated_at"]), view["title"])
        for view in views
    ]
    return table(("THREAD", "STATUS", "TYPE", "MESSAGES", "CHANGED", "TITLE"), rows)


def thread(view: dict[str, Any]) -> str:
    fields = {
        "thread": view["thread_id"],
        "title": view["title"],
        "type": view["type"],
        "status": view["status"],
        "messages": view["last_seq"],
        "created": f"{ago(view['created_at'])} by {view['created_by']}",
        "changed": ago(view["updated_at"]),
        "closed": ago(view["closed_at"]) or None,
        "coordinator": view["coordinator"],
        "escalation owner": view["escalation_owner"],
    }
    members = view.get("members")
    if not members:
        return block(fields)
    rows = [(member["handle"], ago(member["joined_at"]), f"#{member['last_read_seq']}") for member in members]
    return f"{block(fields)}\n\n{table(('MEMBER', 'JOINED', 'READ TO'), rows)}"


def summary(view: dict[str, Any]) -> str:
    return safe(view["text"])


def event(view: dict[str, Any]) -> str:
    said = view.get("message")
    about = one_line((said["subject"] or said["body"]) if said else view["subject"] or "")
    where = f"{view['stream']}#{view['stream_seq']}" if view["stream_seq"] else view["stream"]
    time = paint(clock(view["created_at"]), "dim")
    kind = pad(one_line(view["kind"]), KIND_WIDTH)
    return f"{time}  {view['log_id']:>6}  {kind}  {safe(view['actor'])}  {safe(where)}  {about}".rstrip()
