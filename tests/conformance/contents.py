"""What the conformance suite asks a server to say, word for word, as its scenarios describe it."""

from __future__ import annotations

from typing import Any

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def embedded(uri: str, kind: str, words: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": words}}


def said(*contents: dict[str, Any]) -> dict[str, Any]:
    return {"content": list(contents), "resultType": "complete"}


IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": WAV, "mimeType": "audio/wav"}

# Tools that always say the same.
PLAIN: dict[str, dict[str, Any]] = {
    "test_simple_text": said(text("This is a simple text response for testing.")),
    "test_image_content": said(IMAGE),
    "test_audio_content": said(AUDIO),
    "test_embedded_resource": said(
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ),
    "test_multiple_content_types": said(
        text("Multiple content types test:"),
        IMAGE,
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ),
    "test_error_handling": {**said(text("This tool intentionally returns an error for testing")), "isError": True},
}

RESOURCES: dict[str, dict[str, Any]] = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched resource content"},
}


def _prompt(*contents: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": one} for one in contents], "resultType": "complete"}


def prompt(name: str, given: dict[str, str]) -> dict[str, Any]:
    if name == "test_simple_prompt":
        return _prompt(text("This is a simple prompt for testing."))
    if name == "test_prompt_with_arguments":
        return _prompt(text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"))
    if name == "test_prompt_with_embedded_resource":
        resource = embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing.")
        return _prompt(resource, text("Please process the embedded resource above."))
    if name == "test_prompt_with_image":
        return _prompt(IMAGE, text("Please analyze the image above."))
    return _prompt(text(f"The context is {given}."))


PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_WORDS = ("option1", "option2", "option3")
_TITLED = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]

# What the user is asked in the handshake era, by tool.
FORMS: dict[str, dict[str, Any]] = {
    "test_elicitation": _object(
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    ),
    "test_elicitation_sep1034_defaults": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
    },
    "test_elicitation_sep1330_enums": _object(
        untitledSingle={"type": "string", "enum": list(_WORDS)},
        titledSingle={"type": "string", "oneOf": _TITLED},
        legacyEnum={"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": list(_WORDS)}},
        titledMulti={"type": "array", "items": {"anyOf": _TITLED}},
    ),
}


def _form(message: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": _object(**properties)}}


def _sample(words: str, tokens: int) -> dict[str, Any]:
    message = {"role": "user", "content": text(words)}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}}


NAME = _form("What is your name?", name={"type": "string"})
ROOTS: dict[str, Any] = {"method": "roots/list", "params": {}}
CONFIRM = _form("Please confirm", ok={"type": "boolean"})

# What is asked back in the stateless era, by tool; a tool with several rounds asks one after the other.
ROUNDS: dict[str, list[dict[str, dict[str, Any]]]] = {
    "test_input_required_result_elicitation": [{"user_name": NAME}],
    "test_input_required_result_sampling": [{"capital_question": _sample("What is the capital of France?", 100)}],
    "test_input_required_result_list_roots": [{"client_roots": ROOTS}],
    "test_input_required_result_request_state": [{"confirm": CONFIRM}],
    "test_input_required_result_tampered_state": [{"confirm": CONFIRM}],
    "test_input_required_result_multiple_inputs": [
        {"user_name": NAME, "greeting": _sample("Generate a greeting", 50), "client_roots": ROOTS}
    ],
    "test_input_required_result_multi_round": [
        {"step1": _form("Step 1: What is your name?", name={"type": "string"})},
        {"step2": _form("Step 2: What is your favorite color?", color={"type": "string"})},
    ],
    "test_input_required_result_capabilities": [
        {"user_name": NAME, "greeting": _sample("Generate a greeting", 50), "client_roots": ROOTS}
    ],
}
CONTEXT = _form("What context should the prompt use?", context={"type": "string"})
ASKS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
