from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest

from wakeline.testing.model import Fail, ModelServer, Say, Shell, Use
from wakeline.testing.model.server import ModelTimeout

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
MESSAGES = {
    "path": "/v1/messages",
    "tools": [{"name": "Bash", "input_schema": SCHEMA}, {"name": "mcp__wakeline__wait", "input_schema": {}}],
}
RESPONSES = {
    "path": "/v1/responses",
    "tools": [
        {"type": "function", "name": "shell", "parameters": SCHEMA},
        {"type": "namespace", "name": "mcp__wakeline", "tools": [{"type": "function", "name": "wait"}]},
    ],
}
CHAT = {
    "path": "/v1/chat/completions",
    "tools": [
        {"type": "function", "function": {"name": "bash", "parameters": SCHEMA}},
        {"type": "function", "function": {"name": "wakeline_wait"}},
    ],
}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(params=[MESSAGES, RESPONSES, CHAT], ids=["messages", "responses", "chat"])
def dialect(request: pytest.FixtureRequest) -> dict[str, Any]:
    chosen: dict[str, Any] = request.param
    return chosen


def ask(model: ModelServer, dialect: dict[str, Any], *words: str, session: str = "one") -> HTTPResponse:
    """One request: words of the user and of the model, in turn."""
    said = [{"role": ("user", "assistant")[at % 2], "content": word} for at, word in enumerate(words)]
    body = {"model": "m", "stream": True, "tools": dialect["tools"], "messages": said, "input": said}
    connection = HTTPConnection(model.url.removeprefix("http://"), timeout=10)
    connection.request("POST", dialect["path"], json.dumps(body), {"session-id": session, "connection": "close"})
    return connection.getresponse()


def test_what_was_asked_is_kept_with_its_session(model: ModelServer, dialect: dict[str, Any]) -> None:
    ask(model, dialect, "old", "answer", "new").read()
    request = model.wait("new", session="one")
    assert (request.news, request.text, request.model) == ("new", "old\nanswer\nnew", "m")
    assert model.turns("old") == [], "what the model has answered is no news"


def test_a_script_answers_its_session_in_order_and_nobody_else(model: ModelServer, dialect: dict[str, Any]) -> None:
    model.script("begin", Shell("ls -l"), Use("wait", {"seconds": 5}), Say("the end"))
    assert b"ls -l" in ask(model, dialect, "begin").read()
    assert b"the end" not in ask(model, dialect, "begin", session="two").read()
    assert b"wait" in ask(model, dialect, "begin", "", "listing").read()
    assert b"the end" in ask(model, dialect, "begin", "", "listing", "", "waited").read()
    assert b"Done." in ask(model, dialect, "again").read()


def test_a_line_may_depend_on_what_was_asked(model: ModelServer, dialect: dict[str, Any]) -> None:
    model.script("begin", lambda request: Say(request.news.upper()))
    assert b"BEGIN WITH THIS" in ask(model, dialect, "begin with this").read()


def test_a_failure_is_the_services_and_comes_once(model: ModelServer, dialect: dict[str, Any]) -> None:
    model.script("begin", Fail(500))
    assert [ask(model, dialect, "begin").status for _ in range(2)] == [500, 200]


def test_a_gate_holds_back_all_but_the_first_line(model: ModelServer, dialect: dict[str, Any]) -> None:
    gate = threading.Event()
    model.script("begin", Say("first\nsecond", gate))
    answer = ask(model, dialect, "begin")
    seen = b""
    while b"nothing yet" not in seen:
        seen += answer.readline()
    assert b"first" in seen
    assert b"second" not in seen
    gate.set()
    assert b"second" in answer.read()


def test_who_hangs_up_is_noticed(model: ModelServer, dialect: dict[str, Any]) -> None:
    model.script("begin", Say("first\nsecond", threading.Event()))
    ask(model, dialect, "begin").close()
    request = model.wait("begin")
    assert request.answered.wait(10)
    assert request.cut


def test_waiting_for_what_nobody_asks_ends(model: ModelServer) -> None:
    with pytest.raises(ModelTimeout):
        model.wait("nothing", timeout=0.01)
