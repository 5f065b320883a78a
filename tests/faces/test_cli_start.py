"""What a one-shot command may import.  The time it takes is measured in `bench/`; this is what makes it so."""

from __future__ import annotations

import subprocess
import sys

from wakeline.testing.server import ServerProcess

HEAVY = {
    "aiohttp",
    "asyncio",
    "dataclasses",
    "email",
    "http",
    "importlib.metadata",
    "inspect",
    "logging",
    "msgspec",
    "pathlib",
    "selectors",
    "shutil",
    "socket",
    "ssl",
    "tempfile",
    "threading",
    "tomllib",
    "typing",
    "urllib",
    "wakeline.errors",
    "wakeline.wire",
}
PROBE = """
import sys
from wakeline.faces.cli.main import run
code = run(sys.argv[1:])
print("\\n".join(sys.modules), file=sys.stderr)
sys.exit(code)
"""


def modules_of(environ: dict[str, str], *words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stderr.split())


def test_sending_imports_next_to_nothing(server: ServerProcess) -> None:
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print('\\n'.join(sys.modules))"],
        env=server.environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    for words in (("send", "@human", "hi"), ("send", "@human", "hi", "-o", "json", "--expires", "2h")):
        loaded = modules_of(server.environ, *words) - set(bare.stdout.split())
        assert loaded & HEAVY == set()


def test_importing_the_package_imports_almost_nothing(server: ServerProcess) -> None:
    probe = "import sys; before = set(sys.modules); import wakeline; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", probe], env=server.environ, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["__future__", "wakeline", "wakeline.version"]
