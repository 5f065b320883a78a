"""Which of an agent's sessions a tool is used in, as far as its harness says so.

What is answered to a post is brought to the session that wrote it, so the post has to name that.  A companion in the
same process knows it; one that speaks to us over a pipe names it in the `_meta` of each call, and Codex does so of its
own accord.  They name it as the harness does; the server knows which of the agent's sessions that is.  Of a harness
that says nothing, it is the only session in the process that started us, or the only one there with a turn under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wakeline import calls
from wakeline.calls import Call
from wakeline.errors import Forbidden, WakelineError
from wakeline.faces.mcp.backend import Backend

SESSION = "wakeline/session"
CODEX_THREAD = "threadId"
ACTIVE = "active"
Here = Callable[[], str | None]  # the session of this process, as its harness calls it
Process = tuple[str, int]  # the host and the id of the process that started us


def nowhere() -> None:
    """There is no companion in this process."""


def names_session(meta: Mapping[str, Any] | None) -> bool:
    return meta is not None and (SESSION in meta or CODEX_THREAD in meta)


class Acting:
    def __init__(self, here: Here = nowhere, started_by: Process | None = None) -> None:
        self._here = here
        self._started_by = started_by
        self._known: dict[str, str] = {}  # sessions by what their harnesses call them

    async def post(self, call: Call, meta: Mapping[str, Any] | None, backend: Backend) -> Any:
        """In the name of the session that it comes from.  One that the server does not know stops no post."""
        session_id = await self._find(meta or {}, backend)
        if session_id is None:
            return await backend.send(call)
        try:
            return await backend.send(call.with_fields(session_id=session_id))
        except Forbidden as refusal:
            if refusal.code != "CLAIM_MISMATCH":
                raise
            self._known.clear()
            return await backend.send(call)

    async def _find(self, meta: Mapping[str, Any], backend: Backend) -> str | None:
        named = (meta.get(SESSION), meta.get(CODEX_THREAD), self._here())
        native_id = next((one for one in named if isinstance(one, str) and one), None)
        if native_id in self._known:
            return self._known[native_id]
        if native_id is None and self._started_by is None:
            return None
        try:
            sessions: list[dict[str, Any]] = (await backend.send(calls.list_sessions()))["sessions"]
        except WakelineError:
            return None  # the post will tell what is wrong
        if native_id is None:
            return self._only(sessions)
        self._known = {one["native_id"]: one["session_id"] for one in sessions if one["native_id"] is not None}
        return self._known.get(native_id)

    def _only(self, sessions: list[dict[str, Any]]) -> str | None:
        there = [one for one in sessions if (one["host"], one["pid"]) == self._started_by]
        likely = [one for one in there if one["presence"] == ACTIVE] or there
        return str(likely[0]["session_id"]) if len(likely) == 1 else None
