"""What the OpenAPI document says of requests beyond their types: rules that join fields, and what text may hold.

The services check all of it; here it is only told, so that nobody has to find it out by being refused.
"""

from __future__ import annotations

from typing import Any

from wakeline import wire

_REF = "#/components/schemas/{name}"
NO_NUL = "^[^\\u0000]*$"
CLAIMS = frozenset({"agent_id", "workspace_id", "sender", "from"})  # they may only repeat what the token says

JSON: dict[str, Any] = {
    "description": "Any JSON value",
    "anyOf": [
        {"type": ["null", "boolean", "number"]},
        {"type": "string", "pattern": NO_NUL},
        {"type": "array", "items": {"$ref": _REF.format(name="Json")}},
        {
            "type": "object",
            "propertyNames": {"pattern": NO_NUL},
            "additionalProperties": {"$ref": _REF.format(name="Json")},
        },
    ],
}

_given = {"type": "string"}
_with_url = {"required": ["url"], "properties": {"url": _given}}
# What one field demands of another, by the name of the shape.
RULES: dict[str, dict[str, Any]] = {
    "PostMessage": {
        "anyOf": [
            {"required": ["to"]},
            {"required": ["thread_id"]},
            {"required": ["in_reply_to"], "properties": {"in_reply_to": _given}},
        ]
    },
    "CreateThread": {
        "anyOf": [
            {"properties": {"type": {"enum": ["conversation", "incident"]}}},
            {"required": ["coordinator"], "properties": {"coordinator": _given}},
        ]
    },
    "HeartbeatSession": {"anyOf": [{"required": ["harness"]}, {"required": ["session_id"]}]},
    "SubscribeWake": {
        "anyOf": [
            {"properties": {"harness_target": {"not": {"const": "a2a-webhook"}}}},
            {"required": ["harness_target_metadata"], "properties": {"harness_target_metadata": _with_url}},
        ]
    },
    "ManageWake": {
        "anyOf": [
            {"properties": {"action": {"const": "list"}}},
            {
                "required": ["trigger"],
                "properties": {
                    "action": {"const": "subscribe"},
                    "harnessTarget": {"not": {"const": "a2a-webhook"}},
                },
            },
            {
                "required": ["trigger", "harnessTargetMetadata"],
                "properties": {"action": {"const": "subscribe"}, "harnessTargetMetadata": _with_url},
            },
            {
                "required": ["subscriptionId"],
                "properties": {"action": {"enum": ["unsubscribe", "update", "resume", "rotate_key"]}},
            },
            {"required": ["subscriptionId", "sinceLogId"], "properties": {"action": {"const": "resync"}}},
        ]
    },
    "ChangeStatus": {
        "anyOf": [
            {"properties": {"status": {"const": "blocked"}}},
            {"properties": {"escalation_owner": {"type": "null"}}},
        ]
    },
}


def requests(components: dict[str, Any]) -> dict[str, Any]:
    """The same schemas, with everything said that a request must keep to."""
    names = {kind.__name__ for kind in _subclasses(wire.Request)}
    return {name: _request(name, schema) if name in names else schema for name, schema in components.items()}


def _subclasses(kind: type[wire.Request]) -> list[type[wire.Request]]:
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in _subclasses(child))]


def _request(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    fields = {field: text(found) for field, found in schema["properties"].items() if field not in CLAIMS}
    if "to" in fields:
        fields["to"] = _to(schema["properties"]["to"])
    if "metadata" in fields:
        fields["metadata"] = {"anyOf": [{**JSON["anyOf"][-1]}, {"type": "null"}], "default": None}
    return {**schema, "properties": fields, **RULES.get(name, {})}


def _to(schema: dict[str, Any]) -> dict[str, Any]:
    """Some handles, one role, or everyone: a wide address stands alone."""
    [many] = [choice for choice in schema["anyOf"] if choice["type"] == "array"]
    handles = {**many, "items": {"type": "string", "pattern": wire.common.DIRECT_PATTERN}}
    return {"anyOf": [handles, {**many, "maxItems": 1}, many["items"]]}


def text(schema: dict[str, Any]) -> dict[str, Any]:
    """Plain text has no NUL; what has a pattern already says so."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [text(choice) for choice in schema["anyOf"]]}
    if schema.get("type") == "array":
        return {**schema, "items": text(schema["items"])}
    if schema.get("type") == "string" and not schema.keys() & {"pattern", "enum", "format"}:
        return {**schema, "pattern": NO_NUL}
    return schema
