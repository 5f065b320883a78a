"""Files go in and come back: byte for byte, or, if somebody changed them since, without ours and nothing else."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.connect.odd_files import json_files, toml_files
from wakeline.connect import json_edit, toml_edit
from wakeline.connect.change import Edit, Element, Member, Table, Whole
from wakeline.connect.perform import check_writable, plan, restore, undo, write
from wakeline.connect.record import Connection, Records
from wakeline.errors import Conflict

PATIENT = settings(deadline=None, max_examples=20)  # a disk that is slow to confirm says nothing about us
TABLE = {"command": "/usr/bin/wakeline", "args": ["mcp"]}
SERVER = {"type": "local", "command": ["wakeline", "mcp"]}


class Home:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "harness" / "settings.json"
        self.toml = folder / "harness" / "config.toml"
        self.plugin = folder / "harness" / "plugins" / "wakeline" / "plugin.js"
        self.records = Records(folder / "data")
        self.records.directory.mkdir(parents=True)

    def edits(self, name: str = "one") -> list[Edit]:
        return [
            Whole(str(self.plugin), f"// {name}\n"),
            Member(str(self.config), ("mcp", "wakeline"), {**SERVER, "name": name}),
            Element(str(self.config), ("allow",), f"wakeline {name}"),
            Table(str(self.toml), ("mcp_servers", "wakeline"), {**TABLE, "name": name}),
        ]

    def connect(self, name: str = "one") -> list[str]:
        previous = self.records.load(self.blank.key)
        steps = plan(self.edits(name), previous)
        write(steps, previous or self.blank, self.records)
        return [step.verb for step in steps]

    @property
    def blank(self) -> Connection:
        return Connection("test", str(self.folder), "@bob", str(self.folder / "data" / "token"))

    def disconnect(self) -> list[bool]:
        connection = self.records.load(self.blank.key)
        assert connection is not None
        steps = [undo(kept) for kept in connection.files]
        restore(steps, connection, self.records)
        return [step.changed_since for step in steps]

    def contents(self) -> dict[str, bytes]:
        folder = self.folder / "harness"
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def home() -> Iterator[Home]:
    folder = Path(tempfile.mkdtemp(prefix="wl-home-"))
    try:
        yield Home(folder)
    finally:
        shutil.rmtree(folder)


def fill(place: Home, json_text: str | None, toml_text: str | None) -> dict[str, bytes]:
    """Only what the edits of this test can be made in."""
    for path, text in ((place.config, json_text), (place.toml, toml_text)):
        if text is not None:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode())
    try:
        plan(place.edits(), None)
    except Conflict:
        assume(condition=False)
    return place.contents()


@pytest.mark.guarantee("G-CONNECT-RESTORE")
@PATIENT
@given(st.none() | json_files(), st.none() | toml_files())
def test_disconnecting_restores_every_file_byte_for_byte(json_text: str | None, toml_text: str | None) -> None:
    with home() as place:
        before = fill(place, json_text, toml_text)
        place.connect()
        assert place.contents() != before
        place.disconnect()
        assert place.contents() == before
        assert (place.folder / "harness").exists() == bool(before)


@PATIENT
@given(st.none() | json_files(), st.none() | toml_files())
def test_connecting_twice_writes_once(json_text: str | None, toml_text: str | None) -> None:
    with home() as place:
        before = fill(place, json_text, toml_text)
        place.connect()
        there = place.contents()
        assert set(place.connect()) == {"keep"}
        assert place.contents() == there
        place.connect("two")
        place.disconnect()
        assert place.contents() == before


@pytest.mark.guarantee("G-CONNECT-ONLY-OURS")
@PATIENT
@given(json_files(), toml_files())
def test_what_somebody_added_since_stays_and_ours_goes(json_text: str, toml_text: str) -> None:
    with home() as place:
        fill(place, json_text, toml_text)
        assume(not json_edit.has(json_text, ("mine",)) and not json_edit.has(json_text, ("mcp", "wakeline")))
        place.connect()
        place.config.write_text(json_edit.put(read(place.config), ("mine",), [1]), newline="")
        place.toml.write_text(read(place.toml) + "\n[mine]\nx = 1\n", newline="")
        assert any(place.disconnect())
        assert json_edit.has(read(place.config), ("mine",))
        assert not json_edit.has(read(place.config), ("mcp", "wakeline"))
        assert "wakeline one" not in read(place.config)
        left = toml_edit.parse(read(place.toml))
        assert left.pop("mine") == {"x": 1}
        assert left == toml_edit.parse(toml_text)
        assert not place.plugin.exists()


def read(path: Path) -> str:
    return path.read_bytes().decode()


@PATIENT
@given(json_files())
def test_connecting_again_after_somebody_changed_the_file_keeps_their_change(json_text: str) -> None:
    with home() as place:
        fill(place, json_text, None)
        assume(not json_edit.has(json_text, ("mine",)) and not json_edit.has(json_text, ("mcp", "wakeline")))
        place.connect()
        place.config.write_text(json_edit.put(read(place.config), ("mine",), 1), newline="")
        place.connect("two")
        assert json_edit.has(read(place.config), ("mine",))
        assert "wakeline one" not in read(place.config)
        place.disconnect()
        assert json_edit.has(read(place.config), ("mine",))
        assert "wakeline" not in read(place.config) or "wakeline" in json_text


def test_a_file_of_ours_that_somebody_changed_is_set_aside_before_it_goes() -> None:
    with home() as place:
        place.connect()
        place.plugin.write_text("// mine\n")
        place.disconnect()
        assert not place.plugin.exists()
        kept = list((place.records.directory / "set-aside").rglob("plugin.js"))
        assert [path.read_text() for path in kept] == ["// mine\n"]


def test_what_somebody_removed_since_stays_removed() -> None:
    with home() as place:
        fill(place, '{"a": 1}', None)
        place.connect()
        place.config.unlink()
        place.disconnect()
        assert place.contents() == {}


def test_a_link_stays_a_link_and_a_file_keeps_its_mode() -> None:
    with home() as place:
        target = place.folder / "dotfiles.json"
        target.write_text("{}")
        target.chmod(0o640)
        place.config.parent.mkdir()
        place.config.symlink_to(target)
        place.connect()
        assert place.config.is_symlink()
        assert "wakeline" in target.read_text()
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
        place.disconnect()
        assert target.read_text() == "{}"
        assert place.config.is_symlink()


def test_a_file_that_cannot_be_read_stops_everything_before_anything_is_written() -> None:
    with home() as place:
        place.config.parent.mkdir()
        place.config.write_bytes(b'{"a": \xff}')
        with pytest.raises(Conflict, match="not UTF-8"):
            place.connect()
        assert place.contents() == {"settings.json": b'{"a": \xff}'}


def test_a_file_that_changes_while_we_write_is_left_alone() -> None:
    with home() as place:
        steps = plan(place.edits(), None)
        place.toml.parent.mkdir()
        place.toml.write_text("a = 1\n")
        with pytest.raises(Conflict, match="was changed while"):
            write(steps, place.blank, place.records)
        assert place.toml.read_text() == "a = 1\n"
        place.connect()
        place.disconnect()
        assert place.contents() == {"config.toml": b"a = 1\n"}


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_directory_that_is_not_ours_to_write_is_said_beforehand() -> None:
    with home() as place:
        place.config.parent.mkdir(mode=0o500)
        with pytest.raises(Conflict, match="not writable"):
            check_writable(plan(place.edits(), None))
