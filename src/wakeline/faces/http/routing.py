"""Find the operation that a request means, and do it: one way for HTTP itself and for the faces that stand on it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from wakeline.errors import MethodNotAllowed, NotFound, WakelineError
from wakeline.faces.http.operation import Call, Operation
from wakeline.faces.http.operations import OPERATIONS, PATH_PARAMETERS
from wakeline.faces.http.parsing import decode, parse_query, take
from wakeline.service import Caller, Services


class Route:
    __slots__ = ("decoder", "operation", "path")

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.decoder = None if operation.body is None else msgspec.json.Decoder(operation.body)
        self.path = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", operation.path))

    def parse(
        self,
        services: Services,
        caller: Caller,
        parameters: dict[str, str],
        query_string: bytes,
        body: bytes | dict[str, Any],
    ) -> Call:
        """The request in our types, or an error that says what is wrong with it."""
        query, kind, decoder = parse_query(self.operation.query, query_string), self.operation.body, self.decoder
        content: Any = None
        if kind is not None and decoder is not None:
            content = decode(decoder, body) if isinstance(body, bytes) else take(kind, decoder, body)
        return Call(services, caller, parameters, query, content)


class Router:
    def __init__(self, operations: Iterable[Operation] = OPERATIONS) -> None:
        routes = [Route(operation) for operation in operations]
        self.exact = {
            (route.operation.method, route.operation.path): route for route in routes if "{" not in route.operation.path
        }
        self._patterns = [route for route in routes if "{" in route.operation.path]

    def find(self, method: str, path: str, also: Iterable[str] = ()) -> tuple[Route, dict[str, str]]:
        """The route and the path's parameters.  `also`: methods that somebody else answers at this path."""
        exact = self.exact.get((method, path))
        if exact is not None:
            return exact, {}
        allowed = [known for known, place in self.exact if place == path]
        allowed.extend(also)
        for route in self._patterns:
            match = route.path.fullmatch(path)
            if match is None:
                continue
            if route.operation.method == method:
                return route, _parameters(match.groupdict())
            allowed.append(route.operation.method)
        if allowed:
            allow = ", ".join(sorted(set(allowed)))
            raise MethodNotAllowed("METHOD_NOT_ALLOWED", f"{path[:200]} does not take {method}.", allow=allow)
        raise NotFound("NOT_FOUND", f"There is nothing at {path[:200]}.")


async def perform(operation: Operation, call: Call) -> Any:
    """Do it; a refusal is counted against the caller before it rises."""
    try:
        return await operation.handle(call)
    except WakelineError as error:
        await call.services.audit.refused(call.caller, error)
        raise


def _parameters(found: dict[str, str]) -> dict[str, str]:
    for name, text in found.items():
        try:
            msgspec.convert(text, PATH_PARAMETERS[name])
        except msgspec.ValidationError as error:
            kind = {"handle": "AGENT", "jti": "TOKEN"}.get(name, name.removesuffix("_id").upper())
            raise NotFound(f"{kind}_NOT_FOUND", f"{text[:80]!r} is no {name}.") from error
    return found
