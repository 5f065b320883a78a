"""Find a harness on this machine: on PATH, else in our cache folder; and fetch the version that we know into that.

What is fetched comes from npm, without running any package's scripts, and touches nothing outside its folder.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from wakeline.errors import Unusable
from wakeline.testing.installed import Installed, in_modules, on_path

FETCH_SECONDS = 900

# The versions that our own tests run; `requirements/node` pins the same.
PINNED: Mapping[str, tuple[str, str]] = {
    "claude-code": ("@anthropic-ai/claude-code", "2.1.325"),
    "codex": ("@openai/codex", "0.166.0"),
    "opencode": ("opencode-ai", "1.18.33"),
    "pi": ("@earendil-works/pi-coding-agent", "0.87.1"),
}


def cache_folder(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".cache")
    return Path(base) / "wakeline" / "harnesses"


def find(harness: str, environ: Mapping[str, str]) -> Installed | None:
    return on_path(harness, environ.get("PATH")) or _cached(harness, cache_folder(environ))


def is_cached(installed: Installed, environ: Mapping[str, str]) -> bool:
    return Path(installed.command[-1]).is_relative_to(cache_folder(environ))


def fetch(harness: str, environ: Mapping[str, str]) -> Installed:
    """The version that we know, in the cache folder; it is installed there unless it is there already."""
    found = _cached(harness, cache_folder(environ))
    if found is None:
        _install(harness, _folder(harness, cache_folder(environ)), environ)
        found = _cached(harness, cache_folder(environ))
    if found is None:
        package, version = PINNED[harness]
        raise Unusable(
            "HARNESS_NOT_FETCHED", f"{package} {version} has no program for this machine.", "Install it yourself."
        )
    return found


def _folder(harness: str, cache: Path) -> Path:
    return cache / f"{harness}-{PINNED[harness][1]}"


def _cached(harness: str, cache: Path) -> Installed | None:
    return in_modules(harness, _folder(harness, cache) / "node_modules")


def _install(harness: str, folder: Path, environ: Mapping[str, str]) -> None:
    npm = shutil.which("npm", path=environ.get("PATH"))
    if npm is None:
        raise Unusable("HARNESS_NOT_FETCHED", "npm is not on PATH.", "Install Node.js, or the harness itself.")
    package, version = PINNED[harness]
    folder.mkdir(parents=True, exist_ok=True)
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel", "error")
    done = subprocess.run(
        [npm, "install", "--prefix", str(folder), *quiet, f"{package}@{version}"],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=FETCH_SECONDS,
    )
    if done.returncode:
        raise Unusable("HARNESS_NOT_FETCHED", f"npm could not install {package} {version}.", done.stderr.strip()[-500:])
