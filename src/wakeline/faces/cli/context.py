"""What a running command has at hand: its arguments, the server, and a place to show the answer."""

from __future__ import annotations

from wakeline.calls import create_token
from wakeline.endpoint import find_endpoint
from wakeline.faces.cli.exchange import exchange
from wakeline.faces.cli.output import show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping
    from typing import Any

    from wakeline.calls import Call
    from wakeline.endpoint import Endpoint

_FLAGS = ("data", "url", "token_file", "workspace")
AS_SECONDS = 60


class Context:
    __slots__ = ("_endpoint", "arguments", "environ", "is_operator")

    def __init__(self, arguments: Namespace, environ: Mapping[str, str]) -> None:
        self.arguments = arguments
        self.environ = environ
        self.is_operator = False
        self._endpoint: Endpoint | None = None

    @property
    def flags(self) -> dict[str, Any]:
        return {name: getattr(self.arguments, name, None) for name in _FLAGS}

    @property
    def output(self) -> str:
        form: str = self.arguments.output
        return form

    def endpoint(self, as_seconds: int = AS_SECONDS) -> Endpoint:
        """The server and our credential; with `--as`, a short token that the operator makes for the agent."""
        if self._endpoint is None:
            endpoint = find_endpoint(self.flags, self.environ)
            self.is_operator = endpoint.token is None
            if self.arguments.as_handle:
                call = create_token(self.arguments.as_handle, seconds=as_seconds, note="cli --as")
                endpoint = endpoint.with_token(exchange(endpoint, call)["token"])
            self._endpoint = endpoint
        return self._endpoint

    def call(self, call: Call, *, wait: float = 0.0) -> Any:
        return exchange(self.endpoint(), call, wait=wait)

    def show(self, answer: Any, human: Callable[[Any], str], items: str | None = None) -> int:
        show(self.output, answer, human, items)
        return 0
