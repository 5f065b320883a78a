"""`connect tmux`: let the bridge type into one pane, for a harness that has no better way in.

Nothing is written into anybody's configuration.  The pane becomes a session of the agent; that a person ran this
command, for this pane and for the program in it now, is the permission to type.  It is kept where only that person can
write: as a mark on the pane.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wakeline import calls
from wakeline.adapters.tmux.adapter import SHELLS, Tmux
from wakeline.adapters.tmux.gift import gift
from wakeline.adapters.tmux.pane import Facts, Pane, PaneLost
from wakeline.connect import files
from wakeline.connect.record import Connection, Records, name_of
from wakeline.errors import Conflict, NotFound
from wakeline.faces.cli.arguments import usage_error
from wakeline.faces.cli.credential import Credential, default_handle, find_credential, revoke
from wakeline.faces.cli.exchange import exchange
from wakeline.faces.cli.sessions import started
from wakeline.runtime.processes import bridged_name, foreground, look

if TYPE_CHECKING:
    from wakeline.faces.cli.context import Context

NAME = "tmux"


def connect(context: Context) -> int:
    given = context.arguments
    pane, facts, folder = asyncio.run(_find(context))
    program = _program(pane, facts)
    records = Records(Path(context.endpoint().data or ""))
    key = name_of(NAME, Path(pane.native_id))
    who = find_credential(context, key, default_handle(_word(facts.command), None), records.load(key))
    answer = {"harness": NAME, "handle": who.handle, "pane": pane.pane, "program": facts.command, "written": False}
    if not given.dry_run:
        call = _heartbeat(pane, facts, folder, program, bridged_name(context.endpoint().data))
        answer |= {"written": True, **_register(context, who, call, pane, records)}
        _give(pane, gift(who.handle, str(answer["session_id"]), program, look(program)[1]))
    return context.show(answer, _connected_view)


def _register(context: Context, who: Credential, call: calls.Call, pane: Pane, records: Records) -> dict[str, str]:
    with records.locked():
        key = name_of(NAME, Path(pane.native_id))
        token_file = records.token_file(key)
        token, jti = who.obtain(token_file)
        files.replace(token_file, f"{token}\n".encode(), files.PRIVATE)
        session_id: str = exchange(context.endpoint().with_token(token), call)["session_id"]
        records.save(Connection(NAME, pane.native_id, who.handle, str(token_file), jti, note=session_id))
        who.tidy(jti)
    return {"session_id": session_id, "token_file": str(token_file)}


async def _find(context: Context) -> tuple[Pane, Facts, str]:
    """The pane on the tmux server that this terminal belongs to, or on the user's default one."""
    named = context.arguments.pane
    if not (named or "").startswith("%"):
        raise usage_error("Which pane?", "Name it: --pane %3; 'tmux list-panes -a' lists them.")
    try:
        socket, folder = await Pane(_socket(context), named).where()
        pane = Pane(socket, named)
        return pane, await pane.facts(), folder
    except PaneLost as problem:
        raise NotFound("PANE_NOT_FOUND", f"The pane {named} cannot be used: {problem}.", "") from None


def _give(pane: Pane, mark: str) -> None:
    try:
        asyncio.run(pane.give(mark))
    except PaneLost as problem:
        hint = "A pane is marked with an option of its own, which tmux knows since 3.0."
        raise NotFound("PANE_NOT_FOUND", f"The pane {pane.pane} cannot be marked: {problem}.", hint) from None


async def _take_back(connection: Connection) -> None:
    """Unless it was given to somebody else since, or is gone."""
    pane = Pane.named(connection.place)
    with contextlib.suppress(PaneLost):
        if pane is not None and (await pane.facts()).mark.startswith(f"{connection.handle}/{connection.note} "):
            await pane.take_back()


def _socket(context: Context) -> str | None:
    return context.environ.get("TMUX", "").split(",")[0] or None


def _program(pane: Pane, facts: Facts) -> int:
    pid = foreground(facts.root)
    if facts.dead or pid is None or facts.command in SHELLS:
        hint = "Start the agent in that pane first, and run this in another one."
        raise Conflict("NO_PROGRAM", f"No program is in the foreground of {pane.pane}, only {facts.command}.", hint)
    return pid


def _heartbeat(pane: Pane, facts: Facts, folder: str, pid: int, host: str) -> calls.Call:
    return calls.heartbeat_session(
        harness=_word(facts.command),
        native_id=pane.native_id,
        host=host,
        cwd=folder or None,
        pid=pid,
        pid_started_at=started(look(pid)[1]),
        transport=Tmux.transport,
        wake_mode=str(Tmux.wake_mode),
        capabilities=list(Tmux.capabilities),
        levels=dict(Tmux.levels),
        presence_source=NAME,
    )


def _word(command: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", command.lower()).strip("-.")[:60] or NAME


def _connected_view(answer: dict[str, Any]) -> str:
    if not answer["written"]:
        return f"{answer['program']} in {answer['pane']} would be a session of {answer['handle']}; nothing was written"
    return "\n".join(
        (
            f"{answer['program']} in {answer['pane']} is session {answer['session_id']} of {answer['handle']}",
            f"its token is in {answer['token_file']}: give it to the agent as WAKELINE_TOKEN_FILE",
            "mail is typed into the pane when its input line is seen to be empty and idle; any doubt leaves it alone",
        )
    )


def disconnect(context: Context) -> int:
    given = context.arguments
    records = Records(Path(context.endpoint().data or ""))
    with records.locked():
        found = [one for one in records.all() if one.harness == NAME and one.place.endswith(f",{given.pane}")]
        if not found:
            raise NotFound("NOT_CONNECTED", f"No pane {given.pane} is connected.", "'tmux list-panes -a' lists panes.")
        for connection in found:
            _let_go(context, connection, records)
    return context.show({"harness": NAME, "pane": given.pane}, lambda said: f"{said['pane']} is disconnected")


def _let_go(context: Context, connection: Connection, records: Records) -> None:
    asyncio.run(_take_back(connection))
    token = (files.read(Path(connection.token_file)) or b"").decode().strip()
    if token and connection.note:
        exchange(context.endpoint().with_token(token), calls.end_session(connection.note))
    revoke(context, connection)
    files.remove(Path(connection.token_file))
    records.forget(connection.key)
