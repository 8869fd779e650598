"""The command line, ``pyrula``.

``main`` is the command. Another package hangs its own command in with an entry point of the group
``pyrula.commands`` that names a click command; it is listed by its name and loaded only when it is
called. ``pass_invocation`` hands it an ``Invocation``: the store and the namespace that stood
before the command's name.
"""

from __future__ import annotations

from pyrula_core.cli.invocation import Invocation, pass_invocation
from pyrula_core.cli.root import main

__all__ = ["Invocation", "main", "pass_invocation"]
