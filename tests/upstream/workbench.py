"""Prepares a suite: its sources as published, and an environment that can run them.

Owns a virtual environment per suite, laid over the running one: what is tested are the versions
that are installed here, and only what the suites need besides is added. Everything is kept in the
cache folder and made once.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tests.upstream.suites import Suite, Unavailable, cache_folder

__all__ = ["Workbench", "prepare"]

install_seconds_max = 900

UNNEEDED = {
    "fastmcp",  # for tests of MCP only
    "langgraph-cli",  # a server
    "py-spy",
    "pyperf",
    "pytest-watcher",
    "uvloop",  # for benchmarks only
    "vcrpy",
}
"""What the suites name among the needs of their tests and the parts that are run do not import."""

OURS_TO_ADD = ("pytest-timeout", "pytest-xdist")


@dataclass(frozen=True, slots=True)
class Workbench:
    """A suite that can be run: the interpreter, and the folder to run it in."""

    suite: Suite
    python: Path
    sources: Path


def prepare(suite: Suite) -> Workbench:
    """Return a suite's workbench, built when there is none; raises Unavailable."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / "lock"):
        pinned = installed_versions()
        mark = hashlib.sha256(
            json.dumps([sys.version, site_folders(), pinned]).encode()
        ).hexdigest()[:10]
        home = cache / f"{suite.name}-{suite.version}-{mark}"
        bench = Workbench(suite, home / "env" / "bin" / "python", home / "sources")
        if not (home / "ready").exists():
            shutil.rmtree(home, ignore_errors=True)
            make_environment(home / "env")
            fetch(suite, bench.python, bench.sources)
            install(bench, pinned)
            (home / "ready").touch()
    return bench


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file's lock, so that two runs do not build one folder."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def installed_versions() -> dict[str, str]:
    """Return the versions, by name, that adding the suites' needs must not change."""
    names = {each.name: each.version for each in metadata.distributions() if each.name}
    return {name: names[name] for name in sorted(names) if name.lower().startswith("lang")}


def site_folders() -> list[str]:
    """Return the folders that the running environment's packages are in."""
    return [path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}]


def make_environment(home: Path) -> None:
    """Make a virtual environment that sees the running one's packages behind its own."""
    venv.EnvBuilder(with_pip=importlib.util.find_spec("pip") is None, symlinks=True).create(home)
    lines = [f"import site; site.addsitedir({path!r})" for path in site_folders()]
    (site,) = home.glob("lib/python*/site-packages")
    (site / "below.pth").write_text("\n".join(lines) + "\n", "utf-8")


def fetch(suite: Suite, python: Path, target: Path) -> None:
    """Download a suite's source archive and unpack it to ``target``."""
    name, version = suite.distribution, suite.version
    with tempfile.TemporaryDirectory() as folder:
        wanted = ["--no-deps", "--no-binary", name, f"{name}=={version}", "--dest", folder]
        pip(python, "download", *wanted)
        found = sorted(Path(folder).glob("*.tar.gz"))
        if not found:
            raise Unavailable(f"{name} {version} has no source archive")
        with tarfile.open(found[0]) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = (each for each in Path(folder).iterdir() if each.is_dir())
        shutil.move(unpacked, target)


def install(bench: Workbench, pinned: dict[str, str]) -> None:
    """Install what the suite names as the needs of its tests."""
    project = tomllib.loads((bench.sources / "pyproject.toml").read_text("utf-8"))
    needs = [each for each in project["dependency-groups"]["test"] if isinstance(each, str)]
    needs = [each for each in needs if plain_name(each) not in UNNEEDED]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.writelines(f"{name}=={version}\n" for name, version in pinned.items())
        constraints.flush()
        pip(bench.python, "install", "--constraint", constraints.name, *needs, *OURS_TO_ADD)


def plain_name(requirement: str) -> str:
    """Return the name in a requirement, without extras, versions and markers."""
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower()


def pip(python: Path, *arguments: str) -> None:
    """Run pip in an environment; raises Unavailable with the last that it said."""
    try:
        done = subprocess.run(
            [python, "-m", "pip", "--disable-pip-version-check", *arguments, "--quiet"],
            capture_output=True,
            text=True,
            check=False,
            timeout=install_seconds_max,
            env={name: each for name, each in os.environ.items() if name != "PYTHONPATH"},
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"pip {arguments[0]} took over {install_seconds_max} s") from None
    if done.returncode:
        said = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise Unavailable(f"pip {arguments[0]} failed:\n{said}")
