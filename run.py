#!/usr/bin/env python3
"""Set up everything in a virtual environment of this checkout, then run the demo or the tests.

    python3 run.py demo [options of "pyrula demo"]
    python3 run.py test [options of pytest]

Needs Python 3.11 or newer and a way to reach a Python package index, nothing else. The first run
makes ``.venv`` beside this file and installs into it; later runs start at once and install again
only when ``pyproject.toml`` has changed. Must stay importable by older Pythons down to 3.7, so that
they can say what is missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")

HELP = """\
Set up everything in a virtual environment of this checkout, then run the demo or the tests.

    python3 run.py demo [options]    an agent that is killed with kill -9 and finishes
    python3 run.py test [options]    linters, type checker and all tests

The first call makes .venv beside this file and installs into it; it needs Python 3.11 or newer and
a Python package index. 'python3 run.py demo --help' and '... test --help' say more.
"""
COMMAND_HELP = {
    "demo": """\
python3 run.py demo [options]

An order desk works through thirty tickets with a LangGraph agent while its worker is killed with
kill -9 again and again; at the end it is proven that nothing was lost or done twice. Files are
written to ./demo-run. No key and no network are needed once .venv is set up.

    --kills N        how often the worker is killed (default: 10)
    --no-kill        let the worker live
    --seed N         draw the moments of the kills as another demo did
    --keep           go on with the demo in ./demo-run
    --tickets FILE   tickets of your own, as JSONL
    --model NAME     'scripted' (default), 'auto', or provider:model
    --store URL      where to journal (default: a fresh SQLite file)
""",
    "test": """\
python3 run.py test [options of pytest]

Runs ruff, mypy and the whole test suite; the exit code is 0 when all pass.

    -k EXPRESSION    only the tests whose names match
    -x               stop at the first failure
    -n N             processes to use (default: up to 4)
    tests/core       only the tests below a folder

All other options are pytest's: https://docs.pytest.org/en/stable/reference/reference.html
""",
}

EXTRAS = {"demo": "agent", "test": "dev"}
"""The extra of pyproject.toml that each command needs; ``dev`` contains ``agent``."""

CHECKS = {
    "ruff check": ["-m", "ruff", "check", "."],
    "ruff format": ["-m", "ruff", "format", "--check", "."],
    "mypy --strict": ["-m", "mypy"],
}

PIP_FILES = "https://pypi.org/simple/pip/"
PIP_WHEEL = re.compile(r"pip-\d+(\.\d+)*-py3-none-any\.whl")
PIP_FILES_TYPE = "application/vnd.pypi.simple.v1+json"
pytest_workers_max = 4
download_seconds_max = 60
alive_every_seconds = 15


def main() -> int:
    """Run the command named on the command line and return its exit code."""
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command not in EXTRAS:
        return explain(command)
    if not {"-h", "--help"}.isdisjoint(sys.argv[2:]):
        print(COMMAND_HELP[command], end="")
        return 0
    if sys.version_info < (3, 11):  # noqa: UP036 - older Pythons do get this far
        use_newer_python()
    prepare(command)
    if command == "demo":
        # Not a child: Ctrl-C and SIGTERM must reach the demo, which then stops its workers.
        os.execve(PYTHON, [str(PYTHON), str(BIN / "pyrula"), *sys.argv[1:]], environment())
    return run_tests(sys.argv[2:])


def explain(command: str) -> int:
    """Print what there is to call, after a word on a command that there is not."""
    if command in {"-h", "--help"}:
        print(HELP, end="")
        return 0
    if command:
        print(f"unknown command {command!r}\n", file=sys.stderr)
    print(HELP, end="", file=sys.stderr)
    return 2


def use_newer_python() -> NoReturn:
    """Start again under the newest suitable Python on the path, or say what to install."""
    for minor in (14, 13, 12, 11):
        found = shutil.which(f"python3.{minor}")
        # A version manager may put a stub on the path that only prints an error.
        if found and subprocess.call([found, "-c", ""], stderr=subprocess.DEVNULL) == 0:
            os.execv(found, [found, str(ROOT / "run.py"), *sys.argv[1:]])
    sys.exit(
        f"Python 3.11 or newer is needed and none was found; {sys.executable} is "
        f"{sys.version.split()[0]}. Install it (Debian, Ubuntu: apt-get install python3.11; "
        "macOS: brew install python@3.11), then: python3.11 run.py test"
    )


# --- the environment ------------------------------------------------------------------------------


def prepare(command: str) -> None:
    """Make ``.venv`` hold what ``command`` needs; a no-op when its stamp still matches."""
    wanted = fingerprint()
    satisfying = {EXTRAS[command], "dev"}
    if runs() and any(stamp(extra) == wanted for extra in satisfying):
        return
    print(f"Setting up {VENV} for '{command}': a minute or two, once.", flush=True)
    if not runs():
        must([sys.executable, "-m", "venv", "--clear", "--without-pip", VENV])
    if not has_pip(PYTHON):
        install_pip()
    extra = EXTRAS[command]
    must([PYTHON, "-m", "pip", "install", "--quiet", "--editable", f".[{extra}]"])
    (VENV / f"{extra}.stamp").write_text(wanted, encoding="utf-8")


def fingerprint() -> str:
    """Name what an installed environment depends on: the requirements, the Python, the place."""
    parts = [(ROOT / "pyproject.toml").read_bytes(), sys.version.encode(), str(ROOT).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def stamp(extra: str) -> str:
    """Return the fingerprint that was installed last for ``extra``, or an empty string."""
    file = VENV / f"{extra}.stamp"
    return file.read_text(encoding="utf-8") if file.exists() else ""


def runs() -> bool:
    """Tell whether ``.venv`` holds a Python that starts and is new enough."""
    probe = "import sys; sys.exit(sys.version_info < (3, 11))"
    return PYTHON.exists() and quiet([PYTHON, "-c", probe])


def has_pip(python: str | Path) -> bool:
    """Tell whether this Python has pip."""
    return quiet([python, "-m", "pip", "--version"])


def install_pip() -> None:
    """Bring pip into ``.venv``, also where the system's Python came without ensurepip."""
    if quiet([PYTHON, "-m", "ensurepip", "--default-pip"]):
        return
    if quiet([sys.executable, "-m", "pip", "--python", PYTHON, "install", "--quiet", "pip"]):
        return
    try:
        with tempfile.TemporaryDirectory() as folder:
            wheel = download_pip(Path(folder))
            must([PYTHON, wheel / "pip", "install", "--quiet", "--no-index", wheel])
    except (OSError, ValueError) as problem:
        sys.exit(
            f"This Python has no ensurepip, and pip could not be fetched from PyPI ({problem}). "
            "Install it and try again (Debian, Ubuntu: apt-get install python3-venv)."
        )


def download_pip(folder: Path) -> Path:
    """Fetch pip's newest wheel from PyPI into ``folder``, checked against its published hash."""
    index = urllib.request.Request(PIP_FILES, headers={"Accept": PIP_FILES_TYPE})
    with urllib.request.urlopen(index, timeout=download_seconds_max) as reply:
        files = json.load(reply)["files"]
    wheel = max((file for file in files if PIP_WHEEL.fullmatch(file["filename"])), key=release)
    address = urllib.parse.urljoin(PIP_FILES, wheel["url"])
    with urllib.request.urlopen(address, timeout=download_seconds_max) as reply:
        content = reply.read()
    if hashlib.sha256(content).hexdigest() != wheel["hashes"]["sha256"]:
        raise ValueError(f"{address} does not have the hash that PyPI states")
    path = folder / str(wheel["filename"])
    path.write_bytes(content)
    return path


def release(wheel: dict[str, Any]) -> tuple[int, ...]:
    """Return the version in a wheel's file name, to be compared."""
    return tuple(int(number) for number in re.findall(r"\d+", wheel["filename"].split("-")[1]))


def environment() -> dict[str, str]:
    """Return the variables for a child: the caller's, less what would lead it out of ``.venv``."""
    astray = {"PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "__PYVENV_LAUNCHER__"}
    kept = {name: value for name, value in os.environ.items() if name not in astray}
    path = os.pathsep.join([str(BIN), kept.get("PATH", os.defpath)])
    ours = {"PATH": path, "VIRTUAL_ENV": str(VENV), "PYTHONNOUSERSITE": "1"}
    pip = {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    return kept | ours | pip


# --- the tests ------------------------------------------------------------------------------------


def run_tests(pytest_options: list[str]) -> int:
    """Run the linters, the type checker and pytest, all of them; non-zero when any failed."""
    failed = [title for title, arguments in CHECKS.items() if not passes(title, arguments)]
    workers = min(pytest_workers_max, os.cpu_count() or 1)
    own = [] if chooses_workers(pytest_options) else ["-n", str(workers)]
    # pytest prints the failed checks in its summary, so that its closing line stays the last one.
    variables = environment() | {"PYRULA_FAILED_CHECKS": ", ".join(failed)}
    print("pytest", flush=True)
    # The child gets Ctrl-C as well: wait for it to clean up instead of dying first.
    signal.signal(signal.SIGINT, lambda *_: None)
    tests = subprocess.call(
        [PYTHON, "-m", "pytest", *own, *pytest_options], cwd=ROOT, env=variables
    )
    return tests or (1 if failed else 0)


def passes(title: str, arguments: list[str]) -> bool:
    """Run one check and print its verdict, with its output when it failed."""
    started = time.monotonic()
    done = subprocess.run(
        [PYTHON, *arguments],
        cwd=ROOT,
        env=environment(),
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    ok = done.returncode == 0
    verdict = "ok" if ok else "FAILED"
    print(f"{title:<14} {verdict:<6} {time.monotonic() - started:5.1f} s", flush=True)
    if not ok:
        print(done.stdout, flush=True)
    return ok


def chooses_workers(pytest_options: list[str]) -> bool:
    """Tell whether the caller said how to spread the tests, or wants a debugger."""
    prefixes = ("-n", "--numprocesses", "--pdb", "--trace", "no:xdist")
    return any(option.startswith(prefixes) for option in pytest_options)


# --- processes ------------------------------------------------------------------------------------


def quiet(command: list[str | Path]) -> bool:
    """Run a command that may fail, show nothing, and tell whether it succeeded."""
    silent = subprocess.DEVNULL
    arguments = [str(part) for part in command]
    try:
        return subprocess.call(arguments, env=environment(), stdout=silent, stderr=silent) == 0
    except OSError:
        return False


def must(command: list[str | Path]) -> None:
    """Run a command whose failure ends everything; it has then printed why.

    Says from time to time that it is still at work: pip is silent for a minute or two.
    """
    arguments = [str(part) for part in command]
    started = time.monotonic()
    with subprocess.Popen(arguments, cwd=ROOT, env=environment()) as child:
        while True:
            try:
                code = child.wait(alive_every_seconds)
                break
            except subprocess.TimeoutExpired:
                print(f"  still at it, {time.monotonic() - started:.0f} s", flush=True)
    if code != 0:
        sys.exit(f"Set-up failed (exit code {code}): {' '.join(arguments)}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
