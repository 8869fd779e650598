"""``python -m pyrula_core`` is ``pyrula``."""

from __future__ import annotations

from pyrula_core.cli import main

if __name__ == "__main__":
    main(prog_name="pyrula")
