"""What is allowed and what was refused: `grant …`, `block …` and `refusals`."""

from __future__ import annotations

from wakeline import calls
from wakeline.faces.cli.arguments import handle
from wakeline.faces.cli.commands import Command
from wakeline.faces.cli.text import ago, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from typing import Any

    from wakeline.faces.cli.context import Context


def _scope(text: str) -> str:
    return text.upper().replace("-", "_")


def _grant_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("scope", type=_scope, choices=calls.SCOPES, metavar="SCOPE", help=", ".join(calls.SCOPES))
    add("grantee", type=handle, metavar="@GRANTEE", help="who is allowed it")
    add("owner", type=handle, metavar="@OWNER", help="about whom")


def grant_add(context: Context) -> int:
    given = context.arguments
    return context.show(context.call(calls.put_grant(given.scope, given.grantee, given.owner)), _granted)


def grant_remove(context: Context) -> int:
    given = context.arguments
    answer = context.call(calls.remove_grant(given.scope, given.grantee, given.owner))
    return context.show(answer, lambda said: f"{said['grantee']} no longer has {said['scope']} {said['owner']}")


def _granted(answer: dict[str, Any]) -> str:
    return f"{answer['grantee']} has {answer['scope']} {answer['owner']}"


def grant_list(context: Context) -> int:
    return context.show(context.call(calls.list_grants()), _grants_view, "grants")


def _grants_view(answer: dict[str, Any]) -> str:
    rows = [
        (grant["grantee"], grant["scope"], grant["owner"], grant["granted_by"], ago(grant["created_at"]))
        for grant in answer["grants"]
    ]
    return table(("GRANTEE", "SCOPE", "OWNER", "GRANTED BY", "WHEN"), rows) if rows else "no grants"


def _block_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("blocked", type=handle, metavar="@NAME", help="whose mail is refused")
    parser.add_argument("--by", type=handle, metavar="@NAME", dest="blocker", help="by whom (default: you)")


def block_add(context: Context) -> int:
    given = context.arguments
    answer = context.call(calls.put_block(given.blocked, blocker=given.blocker))
    return context.show(answer, lambda said: f"{said['blocker']} refuses mail of {said['blocked']}")


def block_remove(context: Context) -> int:
    given = context.arguments
    answer = context.call(calls.remove_block(given.blocked, blocker=given.blocker))
    return context.show(answer, lambda said: f"{said['blocker']} takes mail of {said['blocked']} again")


def block_list(context: Context) -> int:
    return context.show(context.call(calls.list_blocks()), _blocks_view, "blocks")


def _blocks_view(answer: dict[str, Any]) -> str:
    rows = [
        (block["blocker"], block["blocked"], block["created_by"], ago(block["created_at"]))
        for block in answer["blocks"]
    ]
    return table(("BLOCKER", "BLOCKED", "SET BY", "WHEN"), rows) if rows else "no blocks"


def refusals(context: Context) -> int:
    return context.show(context.call(calls.list_refusals()), _refusals_view, "refusals")


def _refusals_view(answer: dict[str, Any]) -> str:
    rows = [
        (refusal["handle"], refusal["rule"], refusal["count"], ago(refusal["minute"]), refusal["last_message"])
        for refusal in answer["refusals"]
    ]
    return table(("HANDLE", "RULE", "TIMES", "WHEN", "LAST"), rows) if rows else "no refusals"


COMMANDS = {
    "grant add": Command(
        grant_add,
        arguments=_grant_arguments,
        usage="SCOPE @GRANTEE @OWNER",
        examples=(
            "wakeline grant add CAN_REPLY_TO @bob @alice       # @bob may write to @alice first",
            "wakeline grant add CAN_READ_INBOX_OF @carol @bob  # @carol may read @bob's inbox",
        ),
    ),
    "grant remove": Command(
        grant_remove,
        arguments=_grant_arguments,
        usage="SCOPE @GRANTEE @OWNER",
        examples=("wakeline grant remove CAN_REPLY_TO @bob @alice",),
    ),
    "grant list": Command(grant_list, examples=("wakeline grant list", "wakeline grant list -o json")),
    "block add": Command(
        block_add,
        arguments=_block_arguments,
        usage="@NAME",
        examples=("wakeline block add @bob", "wakeline block add @bob --by @alice"),
    ),
    "block remove": Command(
        block_remove, arguments=_block_arguments, usage="@NAME", examples=("wakeline block remove @bob",)
    ),
    "block list": Command(block_list, examples=("wakeline block list", "wakeline block list -o json")),
    "refusals": Command(refusals, examples=("wakeline refusals", "wakeline refusals -o jsonl")),
}
