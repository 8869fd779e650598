"""Names this process as the owner of leases, and tells when an owner on this machine is dead.

A lease protects a run from two owners whether or not anybody is alive; this only saves the wait for
it to run out after a ``kill -9``. Where nothing certain can be said the answer is "not known to be
dead". Owns the form of an owner's name: ``token@host:namespace:pid:started``.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from uuid import uuid4

__all__ = ["is_dead", "this_process"]


def this_process() -> str:
    """Return a fresh owner name for this process; no two calls return the same."""
    return f"{uuid4().hex[:12]}@{machine()}:{os.getpid()}:{started(os.getpid()) or 0}"


def is_dead(owner: str) -> bool:
    """Tell whether an owner was a process of this machine that has certainly ended.

    A process id that was given to another process since is told apart by its start time.
    """
    _, _, place = owner.partition("@")
    where, _, rest = place.rpartition(":")
    where, _, pid = where.rpartition(":")
    if where != machine() or not pid.isdigit() or not rest.isdigit() or rest == "0":
        return False
    return started(int(pid)) != int(rest)


def machine() -> str:
    """Return what tells this machine, since its last start, and this container apart."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        namespace = str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
    except OSError:
        return f"{socket.gethostname()}:unknown"
    return f"{socket.gethostname()}:{boot}-{namespace}"


def started(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the machine did; None for no process.

    The 22nd field of ``/proc/<pid>/stat`` (proc(5)); a zombie counts as ended.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])
