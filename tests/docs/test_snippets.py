from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.databases import fresh_postgres
from tests.docs.console import Console, steps
from tools.snippets import SNIPPETS, pages, shown
from wakeline.runtime.settings import NAMES, load
from wakeline.testing.server import ServerProcess

FILES = sorted(SNIPPETS.iterdir())
# `make up` of a page, on this test's own data directory; it answers once the server is there.
MAKE = """make() {
  wakeline up > up.log 2>&1 &
  disown
  until grep -s 'is ready' up.log; do sleep 0.05; done
}"""


@pytest.mark.parametrize("snippet", FILES, ids=lambda file: file.name)
def test_a_page_shows_a_snippet_as_its_file_has_it(snippet: Path) -> None:
    texts = [one.text for one in shown() if one.name == snippet.name]
    assert texts, f"no page shows {snippet.name}"
    assert set(texts) == {snippet.read_text()}, "run: make docs"


def test_every_session_and_every_program_on_a_page_is_a_snippet() -> None:
    for page in pages():
        text = page.read_text()
        blocks = len(re.findall(r"^```(?:console|python)$", text, re.MULTILINE))
        known = len(re.findall(r"^<!-- snippet: \S+ -->\n```(?:console|python)$", text, re.MULTILINE))
        assert blocks == known, f"{page} shows a session or a program that no test runs"


def environ(server: ServerProcess) -> dict[str, str]:
    """What a person has who followed the page: our commands on the path, and a server that is up."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**server.environ, "PATH": path, "WAKELINE_PORT": "0", "TZ": "UTC"}


def play(file: Path, server: ServerProcess, folder: Path) -> None:
    text = file.read_text().replace("/home/you", str(folder)).replace("http://127.0.0.1:7799", server.url)
    console = Console(environ(server), folder, MAKE)
    try:
        for step in steps(text.replace("~/.local/share/wakeline", str(server.data))):
            console.play(step)
    finally:
        console.close()
        _end(server)


def _end(server: ServerProcess) -> None:
    """A session may have killed the fixture's server and started one of its own."""
    holder = int((server.data / "lock").read_text())
    if holder != server.pid:
        os.kill(holder, signal.SIGTERM)
        server.kill()


@pytest.mark.slow
@pytest.mark.parametrize("file", [one for one in FILES if one.suffix == ".console"], ids=lambda file: file.name)
def test_a_session_goes_as_the_page_prints_it(file: Path, server: ServerProcess, tmp_path: Path) -> None:
    if "curl " in file.read_text() and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    play(file, server, tmp_path)


@pytest.mark.slow
def test_the_tour_goes_the_same_way_on_postgresql(tmp_path: Path) -> None:
    with (
        fresh_postgres() as url,
        ServerProcess(tmp_path / "data", database=url, environ={"WAKELINE_DATABASE": url}) as server,
    ):
        play(SNIPPETS / "tour.console", server, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("file", [one for one in FILES if one.suffix in (".py", ".sh")], ids=lambda file: file.name)
def test_a_program_of_a_page_runs(file: Path, server: ServerProcess, tmp_path: Path) -> None:
    program = sys.executable if file.suffix == ".py" else "bash"
    done = subprocess.run(
        [program, file], check=False, env=environ(server), cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", [one for one in FILES if one.suffix == ".toml"], ids=lambda file: file.name)
def test_a_settings_file_of_a_page_is_accepted(file: Path, tmp_path: Path) -> None:
    settings, origins = load({}, {"WAKELINE_CONFIG": str(file), "WAKELINE_DATA": str(tmp_path)})
    assert [name for name in NAMES if origins[name].startswith("file")]
    assert settings.data == tmp_path
