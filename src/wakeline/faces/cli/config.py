"""`config` and `version`: what this installation is told, by whom, and what it is."""

from __future__ import annotations

import wakeline
from wakeline.endpoint import CLIENT_SETTINGS, Sources
from wakeline.faces.cli.commands import Command
from wakeline.faces.cli.text import table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wakeline.faces.cli.context import Context


def config(context: Context) -> int:
    answer = {"settings": [*_server_settings(context), *_client_settings(context)]}
    return context.show(answer, _view, "settings")


def _server_settings(context: Context) -> list[dict[str, Any]]:
    from wakeline.runtime.settings import NAMES, describe, load, show

    settings, origins = load(context.flags, context.environ)
    return [
        {"name": name, "value": show(settings, name), "source": origins[name], "meaning": describe(name)}
        for name in NAMES
    ]


def _client_settings(context: Context) -> list[dict[str, Any]]:
    sources = Sources(context.flags, context.environ)
    rows = []
    for name, meaning in CLIENT_SETTINGS.items():
        value, source = sources.find(name) or ("", "default")
        rows.append({"name": name, "value": "***" if name == "token" and value else value, "source": source})
        rows[-1]["meaning"] = meaning
    return rows


def _view(answer: dict[str, Any]) -> str:
    rows = [(row["name"], _plain(row["value"]), row["source"], row["meaning"]) for row in answer["settings"]]
    return table(("SETTING", "VALUE", "SOURCE", "MEANING"), rows)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def version(context: Context) -> int:
    return context.show({"version": wakeline.__version__}, lambda said: f"wakeline {said['version']}")


COMMANDS = {
    "config": Command(config, examples=("wakeline config", "wakeline config -o json"), remote=False),
    "version": Command(version, examples=("wakeline version", "wakeline --version"), remote=False),
}
