"""The OpenAPI 3.1 document, generated from the table of operations and the types that validate."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from wakeline import wire
from wakeline.errors import CATALOGUE
from wakeline.faces.http.operations import OPERATIONS, PATH_PARAMETERS, Operation
from wakeline.version import VERSION

_REF = "#/components/schemas/{name}"
_OPEN = (
    ("/healthz", "health", "Is the process alive", wire.Health),
    ("/readyz", "ready", "Can it serve; 503 when not", wire.Ready),
)


@cache
def document_bytes() -> bytes:
    return msgspec.json.format(msgspec.json.encode(document(), order="deterministic"), indent=2)


def document() -> dict[str, Any]:
    kinds = _kinds()
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    by_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, by_kind)
    for path, name, summary, kind in _OPEN:
        paths[path] = {"get": _open(name, summary, by_kind[kind])}
    paths["/v1/events"] = {"get": _events()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Wakeline",
            "version": VERSION,
            "summary": "Durable messages between agent sessions and their human.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
            "responses": {"Error": _error_response()},
        },
        "security": [{"bearer": []}],
    }


def _kinds() -> list[type]:
    kinds: dict[type, None] = {wire.ErrorAnswer: None, wire.EventView: None}
    for operation in OPERATIONS:
        kinds[operation.answer] = None
        if operation.body is not None:
            kinds[operation.body] = None
    kinds.update({kind: None for _, _, _, kind in _OPEN})
    return list(kinds)


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _operation(operation: Operation, by_kind: dict[type, dict[str, Any]]) -> dict[str, Any]:
    answer = {"description": "Done", "content": _json(by_kind[operation.answer])}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [*_path_parameters(operation.path), *_query_parameters(operation.query)],
        "responses": {
            str(operation.status): answer,
            "4XX": {"$ref": "#/components/responses/Error"},
            "503": {"$ref": "#/components/responses/Error"},
        },
    }
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": _json(by_kind[operation.body])}
    return described


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": msgspec.json.schema(PATH_PARAMETERS[name])}
        for name in PATH_PARAMETERS
        if "{" + name + "}" in path
    ]


def _query_parameters(kind: type[wire.Query]) -> list[dict[str, Any]]:
    schema = msgspec.json.schema(kind)
    fields = schema["$defs"][kind.__name__]
    required = fields.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(described)}
        for name, described in fields["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query parameter is left out; it cannot be null."""
    choices = [choice for choice in schema.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        return {**{key: value for key, value in schema.items() if key not in ("anyOf", "default")}, **choices[0]}
    return schema


def _open(name: str, summary: str, schema: dict[str, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {"200": {"description": "Yes", "content": _json(schema)}}
    if name == "ready":
        responses["503"] = {"description": "No", "content": _json(schema)}
    return {"operationId": name, "summary": summary, "security": [], "responses": responses}


def _events() -> dict[str, Any]:
    last = {"name": "Last-Event-ID", "in": "header", "required": False, "schema": {"type": "string"}}
    return {
        "operationId": "stream_events",
        "summary": "The log as you may see it, live; each data line is an EventView",
        "parameters": [*_query_parameters(wire.EventsQuery), last],
        "responses": {
            "200": {"description": "A stream of events", "content": {"text/event-stream": {}}},
            "4XX": {"$ref": "#/components/responses/Error"},
        },
    }


def _error_response() -> dict[str, Any]:
    codes = ", ".join(sorted(CATALOGUE))
    return {
        "description": f"Refused. Codes: {codes}.",
        "content": _json({"$ref": _REF.format(name="ErrorAnswer")}),
    }
