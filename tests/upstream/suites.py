"""Which suites are run, and what each needs. The versions are those that are installed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

__all__ = ["MODES", "SUITES", "Suite", "Unavailable", "cache_folder"]

MODES = ("plain", "wrapped", "saver")


class Unavailable(Exception):
    """A suite's sources, or what it needs to run, cannot be had here."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests in one distribution's source archive; ``paths`` are the parts that are run."""

    name: str
    distribution: str
    paths: tuple[str, ...]

    @property
    def version(self) -> str:
        """The installed version; raises Unavailable without one."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            raise Unavailable(f"{self.distribution} is not installed") from None


SUITES = {
    suite.name: suite
    for suite in (
        Suite("langgraph", "langgraph", ("tests",)),
        Suite("prebuilt", "langgraph-prebuilt", ("tests",)),
        Suite("langchain", "langchain", ("tests/unit_tests/agents",)),
    )
}


def cache_folder() -> Path:
    """Return the folder of what is fetched and measured; it is never inside the repository."""
    named = os.environ.get("PYRULA_UPSTREAM_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pyrula" / "upstream"
