"""Says who holds a run: the process and machine in an owner's name, and whether it still lives.

Must never claim more than is certain: a process of another machine is neither alive nor dead here.
"""

from __future__ import annotations

from pyrula_core.owners import is_dead, this_process

__all__ = ["owner_alive", "owner_text"]


def owner_alive(owner: str | None) -> bool | None:
    """Tell whether an owner's process lives; None where that cannot be known from here."""
    if owner is None:
        return None
    if is_dead(owner):
        return False
    place, pid, started = parts(owner)
    known = pid.isdigit() and started.isdigit() and started != "0"
    return True if known and place == parts(this_process())[0] else None


def owner_text(owner: str) -> str:
    """Return an owner as ``pid 4711 on host``; a name of another form stays as it is."""
    place, pid, started = parts(owner)
    if not (place and pid.isdigit() and started.isdigit()):
        return owner
    host = place.partition(":")[0]
    return f"pid {pid} on {host}"


def parts(owner: str) -> tuple[str, str, str]:
    """Split ``token@host:namespace:pid:started`` into the place, the pid and the start."""
    place, _, started = owner.partition("@")[2].rpartition(":")
    place, _, pid = place.rpartition(":")
    return place, pid, started
