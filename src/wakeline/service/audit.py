"""Count the refusals that were spoken before a command was decided; those of the writer are counted there."""

from __future__ import annotations

from wakeline.core.principal import Caller
from wakeline.errors import POLICY, Unavailable, WakelineError
from wakeline.flow.bury import CountRefusal
from wakeline.service.context import Context


class Audit:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def refused(self, caller: Caller, error: WakelineError) -> None:
        """An authenticated caller met a rule.  A store that is away does not turn one refusal into another error."""
        if not isinstance(error, POLICY) or error.audited:
            return
        error.audited = True
        rule = str(error.details.get("rule", error.code))
        try:
            await self._context.store.submit(CountRefusal(caller, rule, error.message))
        except Unavailable:
            return
