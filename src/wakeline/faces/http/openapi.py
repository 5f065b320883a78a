"""The OpenAPI 3.1 document, generated from the table of operations and the types that validate."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from wakeline import wire
from wakeline.errors import CATALOGUE
from wakeline.faces.http import described
from wakeline.faces.http.operation import Operation
from wakeline.faces.http.operations import OPERATIONS, PATH_PARAMETERS
from wakeline.version import VERSION

_REF = "#/components/schemas/{name}"
_ERROR = {"$ref": "#/components/responses/Error"}
_ERRORS = {"4XX": _ERROR, "5XX": _ERROR}
_DESCRIPTION = (
    "Requests are JSON in UTF-8 without NUL characters; unknown fields are refused. The fields agent_id, workspace_id, "
    "sender, from and session_id may repeat what the token says, and nothing else."
)
_OPEN = (
    ("/healthz", "health", "Is the process alive", wire.Health),
    ("/readyz", "ready", "Can it serve; 503 when not", wire.Ready),
)


@cache
def document_bytes() -> bytes:
    encoded = msgspec.json.encode(document(), order="deterministic")
    # In JSON Schema "$" is the end already, and not everybody's regular expressions can look ahead.
    return msgspec.json.format(encoded.replace(rb"$(?!\\n)", b"$"), indent=2)


def document() -> dict[str, Any]:
    kinds = _kinds()
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    by_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, by_kind)
    for path, name, summary, kind in _OPEN:
        paths[path] = {"get": _open(name, summary, by_kind[kind])}
    paths.update({"/v1/events": {"get": _events()}, "/v1/wakes": {"get": _wakes()}})
    paths.update({"/metrics": {"get": _metrics()}, "/openapi.json": {"get": _self()}})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Wakeline",
            "version": VERSION,
            "summary": "Durable messages between agent sessions and their human.",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {**described.requests(components), "Json": described.JSON},
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
    entry: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [*_path_parameters(operation.path), *_query_parameters(operation.query)],
        "responses": {
            str(operation.status): answer,
            **({"200": {**answer, "description": "It exists already"}} if operation.once else {}),
            **_ERRORS,
        },
    }
    if operation.body is not None:
        kind = operation.body
        required = kind.__name__ in described.RULES or any(field.required for field in msgspec.structs.fields(kind))
        entry["requestBody"] = {"required": required, "content": _json(by_kind[operation.body])}
    return entry


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
        {"name": name, "in": "query", "required": name in required, "schema": described.text(_without_null(field))}
        for name, field in fields["properties"].items()
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
    return {"operationId": name, "summary": summary, "security": [], "responses": {**responses, "4XX": _ERRORS["4XX"]}}


def _events() -> dict[str, Any]:
    [after] = _query_parameters(wire.EventsQuery)
    last = {**after, "name": "Last-Event-ID", "in": "header"}
    return {
        "operationId": "stream_events",
        "summary": "The log as you may see it, live; each data line is an EventView",
        "parameters": [after, last],
        "responses": {
            "200": {"description": "A stream of events", "content": {"text/event-stream": {}}},
            **_ERRORS,
        },
    }


def _wakes() -> dict[str, Any]:
    return {
        "operationId": "stream_wakes",
        "summary": "Hints for your connections: 'wake' carries a wake event, 'inbox' says that mail came",
        "parameters": _query_parameters(wire.WakesQuery),
        "responses": {
            "200": {"description": "A stream of hints", "content": {"text/event-stream": {}}},
            **_ERRORS,
        },
    }


def _metrics() -> dict[str, Any]:
    return {
        "operationId": "metrics",
        "summary": "Figures for Prometheus; from elsewhere than this machine it needs a token",
        "security": [{}, {"bearer": []}],
        "responses": {
            "200": {"description": "The figures", "content": {"text/plain": {"schema": {"type": "string"}}}},
            **_ERRORS,
        },
    }


def _self() -> dict[str, Any]:
    return {
        "operationId": "openapi",
        "summary": "This document",
        "security": [],
        "responses": {"200": {"description": "It", "content": _json({"type": "object"})}, **_ERRORS},
    }


def _error_response() -> dict[str, Any]:
    codes = ", ".join(sorted(CATALOGUE))
    return {
        "description": f"Refused. Codes: {codes}.",
        "content": _json({"$ref": _REF.format(name="ErrorAnswer")}),
    }
