"""Who there is and how they prove it: `agent …`, `token …` and `whoami`."""

from __future__ import annotations

from wakeline import calls
from wakeline.faces.cli.arguments import duration, handle, usage_error
from wakeline.faces.cli.commands import Command
from wakeline.faces.cli.text import ago, block, clock, table

SYSTEM = "@system"  # whose token a bridge has

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from typing import Any

    from wakeline.faces.cli.context import Context


def _add_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("handle", type=handle, metavar="@NAME", help="the handle; it is never reused")
    add("--role", action="append", dest="roles", help="a role; may be repeated (default: participant)")
    add("--human", action="store_const", const="human", dest="kind", help="a human, not an agent")
    add("--display-name", metavar="NAME", help="how people call it")
    add("--expires", type=duration, metavar="SPAN", help="how long the token is valid, such as 12h or 90d")
    add("--no-token", action="store_false", default=None, dest="token", help="make no token")


def agent_add(context: Context) -> int:
    given = context.arguments
    call = calls.add_agent(
        given.handle,
        roles=given.roles,
        kind=given.kind,
        display_name=given.display_name,
        token=given.token,
        token_seconds=given.expires,
    )
    return context.show(context.call(call), _added_view)


def _added_view(answer: dict[str, Any]) -> str:
    roles = ", ".join(answer["roles"])
    text = f"added {answer['handle']} ({answer['kind']}, {roles})"
    return f"{text}\n\n{_token_view(answer)}" if answer.get("token") else text


def _token_view(answer: dict[str, Any]) -> str:
    """The token stands alone on its line, so that it can be copied."""
    advice = f"token {answer['jti']}, valid until {clock(answer['expires_at'])}; it is shown only now:"
    return f"{advice}\n\n{answer['token']}\n\nGive it to {answer['handle']} as WAKELINE_TOKEN."


def agent_list(context: Context) -> int:
    return context.show(context.call(calls.list_agents()), _agents_view, "agents")


def _agents_view(answer: dict[str, Any]) -> str:
    rows = [
        (
            agent["handle"],
            agent["kind"],
            ", ".join(agent["roles"]),
            agent["unread"],
            "retired" if agent.get("retired_at") else "",
            agent["display_name"],
        )
        for agent in answer["agents"]
    ]
    return table(("HANDLE", "KIND", "ROLES", "UNREAD", "STATE", "NAME"), rows)


def _role_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("handle", type=handle, metavar="@NAME", help="the agent")
    parser.add_argument("roles", nargs="+", metavar="ROLE", help="all its roles from now on")


def agent_role(context: Context) -> int:
    given = context.arguments
    answer = context.call(calls.change_agent(given.handle, roles=given.roles))
    return context.show(answer, lambda said: f"{said['handle']} is {', '.join(said['roles'])}")


def _handle_argument(parser: ArgumentParser) -> None:
    parser.add_argument("handle", type=handle, metavar="@NAME", help="the agent")


def agent_retire(context: Context) -> int:
    answer = context.call(calls.change_agent(context.arguments.handle, retired=True))
    return context.show(answer, lambda said: f"{said['handle']} is retired")


def _create_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("handle", nargs="?", type=handle, metavar="@NAME", help="the agent")
    add = parser.add_argument
    add("--bridge", metavar="HOST", help="for the bridge of this host, instead of an agent")
    add("--role", help="the role that it carries (default: the agent's first)")
    add("--expires", type=duration, metavar="SPAN", help="how long it is valid, such as 12h or 90d")
    add("--session", metavar="ID", help="the session that it belongs to")
    add("--note", help="what it is for")


def token_create(context: Context) -> int:
    given = context.arguments
    if (given.handle is None) == (given.bridge is None):
        raise usage_error("Name an agent, or a host with --bridge.", "See 'wakeline token create --help'.")
    call = calls.create_token(
        given.handle or SYSTEM,
        bridge=given.bridge,
        role=given.role,
        seconds=given.expires,
        session_id=given.session,
        note=given.note,
    )
    return context.show(context.call(call), _token_view)


def _list_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("handle", nargs="?", type=handle, metavar="@NAME", help="only those of this agent")


def token_list(context: Context) -> int:
    return context.show(context.call(calls.list_tokens(handle=context.arguments.handle)), _tokens_view, "tokens")


def _tokens_view(answer: dict[str, Any]) -> str:
    rows = [
        (
            token["jti"],
            token["handle"],
            token["role"],
            ago(token["issued_at"]),
            "revoked" if token["revoked_at"] else ago(token["expires_at"]),
            token["note"],
        )
        for token in answer["tokens"]
    ]
    return table(("ID", "HANDLE", "ROLE", "ISSUED", "EXPIRES", "NOTE"), rows) if rows else "no tokens"


def _revoke_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("jti", metavar="ID", help="the token's id, as 'token list' shows it")


def token_revoke(context: Context) -> int:
    answer = context.call(calls.revoke_token(context.arguments.jti))
    return context.show(answer, lambda said: f"revoked {said['jti']} of {said['handle']}")


def whoami(context: Context) -> int:
    return context.show(context.call(calls.whoami()), _whoami_view)


def _whoami_view(answer: dict[str, Any]) -> str:
    return block(
        {
            "handle": answer["handle"],
            "kind": answer["kind"],
            "role": answer["role"],
            "workspace": answer["workspace"],
            "operator": "yes" if answer["operator"] else "no",
            "expires": ago(answer["expires_at"]) or None,
        }
    )


COMMANDS = {
    "agent add": Command(
        agent_add,
        arguments=_add_arguments,
        usage="@NAME",
        examples=(
            "wakeline agent add @bob",
            "wakeline agent add @carol --role reviewer --role tester --expires 7d",
            "wakeline agent add @dora --human",
            "export WAKELINE_TOKEN=$(wakeline agent add @bob -o json | jq -r .token)",
        ),
    ),
    "agent list": Command(agent_list, examples=("wakeline agent list", "wakeline agent list -o jsonl")),
    "agent role": Command(
        agent_role,
        arguments=_role_arguments,
        usage="@NAME ROLE…",
        examples=("wakeline agent role @bob coordinator", "wakeline agent role @carol reviewer tester"),
    ),
    "agent retire": Command(
        agent_retire, arguments=_handle_argument, usage="@NAME", examples=("wakeline agent retire @bob",)
    ),
    "token create": Command(
        token_create,
        arguments=_create_arguments,
        usage="[@NAME]",
        examples=(
            "wakeline token create @bob",
            "wakeline token create @bob --expires 12h --note laptop",
            "wakeline token create --bridge buildhost",
        ),
    ),
    "token list": Command(
        token_list,
        arguments=_list_arguments,
        usage="[@NAME]",
        examples=("wakeline token list", "wakeline token list @bob -o json"),
    ),
    "token revoke": Command(
        token_revoke,
        arguments=_revoke_arguments,
        usage="ID",
        examples=("wakeline token revoke 01JD3Z8Q0W4T6N9X2C5V7B1M3K",),
    ),
    "whoami": Command(whoami, examples=("wakeline whoami", "wakeline whoami --as @bob")),
}
