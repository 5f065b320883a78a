"""`send` and `ask`: post a message, and wait for the reply."""

from __future__ import annotations

import sys
from os import urandom

from wakeline.calls import KINDS, LONGEST_WAIT, PRIORITIES, WAKE_POLICIES, post_message
from wakeline.faces.cli.arguments import deadline, usage_error
from wakeline.faces.cli.commands import NO_REPLY, OK, Command
from wakeline.faces.cli.context import AS_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from wakeline.calls import Call
    from wakeline.faces.cli.context import Context


def _arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "words",
        nargs="+",
        metavar="@to… TEXT",
        help="recipients (@name, @name/session, role:x, everyone), then the text; - is stdin",
    )
    add("--thread", metavar="ID", help="post into this thread; recipients then narrow the audience")
    add("--reply-to", metavar="ID", help="the message that this answers")
    add("--subject", help="one line that says what it is about")
    add("--priority", choices=PRIORITIES, help="how it ranks (default: normal)")
    add("--wake", choices=WAKE_POLICIES, help="when receivers are woken (default: a setting of the server)")
    add("--tag", action="append", dest="tags", help="a tag; may be given several times")
    add("--kind", choices=KINDS, help="what it is (default: chat)")
    add("--expires", type=deadline, metavar="WHEN", help="when it is worthless: 10m, 2h, 7d, or an RFC 3339 instant")
    add("--answer-by", type=deadline, metavar="WHEN", help="the human is told when nobody has replied by then")
    add("--supersedes", metavar="ID", help="an earlier message of yours that this replaces")
    add("--session", metavar="ID", help="the session of yours that sends it; answers wake that one")
    add("--key", help="an idempotency key: the same key and message again is the same post")


def _ask_arguments(parser: ArgumentParser) -> None:
    _arguments(parser)
    waiting = f"seconds to wait for the reply (default: {LONGEST_WAIT})"
    parser.add_argument("--timeout", type=float, default=float(LONGEST_WAIT), metavar="S", help=waiting)


def send(context: Context) -> int:
    return context.show(context.call(_message(context.arguments)), _sent)


def ask(context: Context) -> int:
    """One request waits only so long; with the same key again, it is the same question that waits on."""
    given = context.arguments
    if not given.timeout > 0:
        raise usage_error("--timeout takes a number of seconds.", "To post without waiting, use 'wakeline send'.")
    given.key = given.key or urandom(16).hex()
    context.endpoint(as_seconds=AS_SECONDS + int(given.timeout))
    call = _message(given)
    left = given.timeout
    while True:
        wait = min(left, LONGEST_WAIT)
        answer = context.call(call.with_fields(wait_seconds=wait), wait=wait)
        left -= wait
        if answer.get("reply") is not None or left <= 0:
            break
    context.show(answer, _answered)
    if answer.get("reply") is not None:
        return OK
    sys.stderr.write(f"no reply within {given.timeout:g} s; it will reach your inbox ({answer['message_id']})\n")
    return NO_REPLY


def _message(given: Namespace) -> Call:
    *to, text = given.words
    if not (to or given.thread or given.reply_to):
        raise usage_error(
            "Who should receive it?", "Name a recipient before the text, or use --thread or --reply-to: send @bob 'hi'."
        )
    for word in to:
        if not (word.startswith(("@", "role:")) or word == "everyone"):
            raise usage_error(
                f"{word!r} is not a recipient.", "Recipients are @name, role:x or everyone; quote a text of many words."
            )
    return post_message(
        _standard_input() if text == "-" else text,
        to=to or None,
        thread_id=given.thread,
        subject=given.subject,
        kind=given.kind,
        priority=given.priority,
        wake_policy=given.wake,
        tags=given.tags,
        in_reply_to=given.reply_to,
        idempotency_key=given.key,
        expires_at=given.expires,
        answer_by=given.answer_by,
        supersedes=given.supersedes,
        session_id=given.session,
    )


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise usage_error(
            f"Standard input is not UTF-8 text ({error.reason}).", "Send a link to binary data."
        ) from None


def _sent(answer: dict[str, Any]) -> str:
    posted = f"posted {answer['message_id']} as #{answer['seq']} of thread {answer['thread_id']}"
    guard = answer.get("guard")
    return f"{posted}\n{guard['code']}: the thread is blocked, and the human was told" if guard else posted


def _answered(answer: dict[str, Any]) -> str:
    from wakeline.faces.cli.views import message

    return message(answer["reply"]) if answer.get("reply") else ""


COMMANDS = {
    "send": Command(
        send,
        arguments=_arguments,
        usage="@to… TEXT|-",
        examples=(
            "wakeline send @bob 'The tests pass now.'",
            "wakeline send @bob @carol --subject Release --priority high 'Freeze until noon.'",
            "wakeline send role:reviewer --tag review --expires 2h 'Who can look at #42?'",
            "git diff | wakeline send @bob --subject 'My change' -",
            "wakeline send @bob/01JD3Z8Q0W4T6N9X2C5V7B1M3K 'For this session of yours.'",
            "wakeline send --reply-to 01JD3Z8Q0W4T6N9X2C5V7B1M3K 'Done.'",
        ),
    ),
    "ask": Command(
        ask,
        arguments=_ask_arguments,
        usage="@to… TEXT|-",
        examples=(
            "wakeline ask @bob 'Which port does the staging server use?'",
            "wakeline ask @bob --timeout 20 'May I merge?' || echo 'no answer yet'",
        ),
    ),
}
