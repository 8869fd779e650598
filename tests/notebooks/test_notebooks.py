"""Every notebook runs from its first cell to its last, with this interpreter, in a copy.

A notebook checks its own outcome: it holds an assertion, which fails its cell and so the test.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
KERNEL = "this-interpreter"
cell_s_max = 120

# Sockets of the connection to the kernel are closed when they are collected.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def named(path: Path) -> str:
    return path.stem


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path) -> str:
    """A kernel that is this very interpreter, whatever kernels the machine has installed."""
    spec = tmp_path / "jupyter" / "kernels" / KERNEL
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    described = {"argv": argv, "display_name": KERNEL, "language": "python"}
    (spec / "kernel.json").write_text(json.dumps(described), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYTHONPATH", str(repository))
    return KERNEL


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
async def test_a_notebook_runs_to_its_end(path: Path, tmp_path: Path, kernel: str) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    notebook = read(Path(shutil.copy(path, copy)))
    client = NotebookClient(
        notebook,
        timeout=cell_s_max,
        kernel_name=kernel,
        resources={"metadata": {"path": str(copy)}},
    )

    await client.async_execute()

    assert [cell.execution_count for cell in code_of(notebook)] == [
        number for number, _ in enumerate(code_of(notebook), start=1)
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_a_notebook_asserts_its_outcome_and_is_stored_executed(path: Path) -> None:
    cells = code_of(read(path))

    assert any("assert " in cell.source for cell in cells)
    assert all(cell.execution_count for cell in cells)
    assert not [one for cell in cells for one in cell.outputs if one.output_type == "error"]


def code_of(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def read(path: Path) -> nbformat.NotebookNode:
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return notebook
