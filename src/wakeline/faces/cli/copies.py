"""`backup` and `restore`: copies of the SQLite database, made and put back on files, with or without a server."""

from __future__ import annotations

import sys
from pathlib import Path

from wakeline.endpoint import refuse_operator_in_harness
from wakeline.errors import InvalidArgument
from wakeline.faces.cli.commands import Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from typing import Any

    from wakeline.faces.cli.context import Context
    from wakeline.runtime.settings import Settings

_BAR = 30


def _backup_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the copy; it must not exist yet")


def _restore_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="the copy to put in place")
    parser.add_argument(
        "--new-epoch",
        action="store_true",
        help="for PostgreSQL, after its own tools have put a copy back: make the positions of before void",
    )
    parser.add_argument("--force", action="store_true", help="also where there is a database; it is kept beside it")


def backup(context: Context) -> int:
    from wakeline.store.sqlite import backup as copies

    settings = _settings(context)
    target = Path(context.arguments.file).absolute()
    copies.backup(settings.data / copies.DATABASE, target, progress)
    size = target.stat().st_size
    return context.show(
        {"file": str(target), "bytes": size}, lambda said: f"wrote {said['file']} ({said['bytes']:,} bytes)"
    )


def restore(context: Context) -> int:
    if context.arguments.new_epoch:
        return _renew_epoch(context)
    from wakeline.store.sqlite import backup as copies

    settings = _settings(context)
    if context.arguments.file is None:
        raise InvalidArgument("USAGE", "There is no FILE to restore.", "Name the copy to put in place.")
    epoch = copies.restore(Path(context.arguments.file).absolute(), settings.data, force=context.arguments.force)
    key = settings.key != "" or (settings.data / "key").exists()
    return context.show({"data": str(settings.data), "epoch": epoch, "key": key}, _restored)


def _restored(said: dict[str, Any]) -> str:
    text = f"restored into {said['data']}; positions of before are void (epoch {said['epoch']})"
    return text if said["key"] else f"{text}\nbefore the first start, put the old data directory's file 'key' beside it"


def _renew_epoch(context: Context) -> int:
    import asyncio

    from wakeline.runtime.settings import load
    from wakeline.store.postgres.migration import renew_epoch

    refuse_operator_in_harness(context.environ)
    settings, _ = load(context.flags, context.environ)
    if not settings.database:
        raise InvalidArgument("USAGE", "--new-epoch is for PostgreSQL.", "'wakeline restore FILE' does it by itself.")
    epoch = asyncio.run(renew_epoch(settings.database))
    return context.show({"epoch": epoch}, lambda said: f"positions of before are void (epoch {said['epoch']})")


def _settings(context: Context) -> Settings:
    """A copy holds everybody's mail, so this is the operator's business, and only where the database is a file."""
    from wakeline.runtime.settings import load

    refuse_operator_in_harness(context.environ)
    settings, _ = load(context.flags, context.environ)
    if settings.database:
        raise InvalidArgument(
            "NOT_SQLITE",
            "The database is PostgreSQL, which has its own tools for copies.",
            "Use pg_dump and pg_restore, or a base backup, then 'wakeline restore --new-epoch'.",
        )
    return settings


def progress(done: int, total: int) -> None:
    """A bar for people who wait; nothing where nobody looks."""
    if not sys.stderr.isatty():
        return
    share = done / total if total else 1.0
    bar = "█" * round(share * _BAR)
    sys.stderr.write(f"\r{bar:<{_BAR}} {share:4.0%}{'' if done < total else chr(10)}")
    sys.stderr.flush()


COMMANDS = {
    "backup": Command(
        backup,
        arguments=_backup_arguments,
        usage="FILE",
        examples=("wakeline backup monday.db", "wakeline backup --data /srv/wakeline /backups/$(date +%F).db"),
        remote=False,
    ),
    "restore": Command(
        restore,
        arguments=_restore_arguments,
        usage="FILE|--new-epoch",
        examples=(
            "wakeline restore monday.db --data /tmp/look",
            "wakeline restore monday.db --force",
            "WAKELINE_DATABASE=postgresql://… wakeline restore --new-epoch",
        ),
        remote=False,
    ),
}
