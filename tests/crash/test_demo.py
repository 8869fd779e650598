"""``pyrula demo`` as a user runs it: killed, left alone, stopped, and with false evidence."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from pyrula_core import Client, Event, EventType, open_store
from pyrula_core.model import RunStatus
from pyrula_langgraph.demo.diary import Execution
from pyrula_langgraph.demo.effects import EffectKind
from pyrula_langgraph.demo.kills import KillPlan
from pyrula_langgraph.demo.proof import Evidence, gather, prove
from pyrula_langgraph.demo.site import NAME, kept_site, read_tickets
from pyrula_langgraph.demo.tickets import load_expected, load_tickets

pytestmark = [pytest.mark.crash, pytest.mark.slow]

demo_seconds_max = 120
DEMO = "from pyrula_langgraph.demo.command import demo; demo(prog_name='pyrula demo')"
COMMAND = [sys.executable, "-W", "error", "-c", DEMO]
FOLDER = Path("demo-run")

COPY_A_REFUND = """
    INSERT INTO attempts (ticket, kind, key, order_id, amount_cents, effective, pid, at)
    SELECT ticket, kind, key, order_id, amount_cents, 1, pid, at FROM attempts
    WHERE kind = 'refund' LIMIT 1
"""


@pytest.fixture
def place(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run demos in."""
    monkeypatch.setenv("PYTHONPATH", str(repository))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def few(place: Path) -> list[str]:
    """The options that make a demo short: two tickets, each with a refund, one asks a person."""
    chosen = [dataclasses.asdict(ticket) for ticket in load_tickets()[:2]]
    lines = "".join(json.dumps(ticket) + "\n" for ticket in chosen)
    (place / "few.jsonl").write_text(lines, "utf-8")
    return ["--tickets", "few.jsonl"]


def demo(*options: str) -> subprocess.CompletedProcess[str]:
    """Run a demo to its end."""
    return subprocess.run(
        [*COMMAND, *options],
        capture_output=True,
        text=True,
        timeout=demo_seconds_max,
        check=False,
    )


def evidence() -> Evidence:
    """Read what the demo in the working directory has left."""
    site = kept_site(FOLDER)
    with closing(open_store(site.store)) as store:
        return asyncio.run(gather(site, Client(store)))


def events(found: Evidence, kind: EventType) -> list[Event]:
    return [event for journal in found.journals.values() for event in journal if event.type is kind]


def refunds_are_the_expected_ones(found: Evidence) -> bool:
    happened = Counter(
        (entry.effect.ticket, entry.effect.order_id, entry.effect.amount_cents)
        for entry in found.entries
        if entry.effective and entry.effect.kind is EffectKind.REFUND
    )
    expected = Counter(
        (ticket, effect.order_id, effect.amount_cents)
        for ticket, effects in load_expected().items()
        for effect in effects
        if effect.kind is EffectKind.REFUND
    )
    return happened == expected


def test_ten_kills_lose_nothing_and_double_nothing(place: Path) -> None:
    ended = demo("--kills", "10", "--seed", "7")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    killed = re.findall(r"kill -9 (\d+) \((\d+) of 10\) in the middle of T-", ended.stdout)
    assert [int(number) for _, number in killed] == list(range(1, 11))
    found = evidence()
    # Each killed worker held a run, which the journal shows as lost and as claimed by another.
    lost = [e for e in events(found, EventType.RUN_REQUEUED) if e.data["reason"] == "owner_gone"]
    owners = {event.data["owner"] for event in events(found, EventType.RUN_CLAIMED)}
    assert len(lost) >= 10
    assert len(owners) >= 11
    assert {int(pid) for pid, _ in killed} <= {int(owner.split(":")[-2]) for owner in owners}
    assert refunds_are_the_expected_ones(found)
    assert prove(found).ok


def test_without_kills_every_effect_is_attempted_once(place: Path) -> None:
    ended = demo("--no-kill")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not re.findall(r"kill -9 \d+ \(", ended.stdout)
    found = evidence()
    assert not events(found, EventType.RUN_REQUEUED)
    assert all(entry.effective for entry in found.entries)
    assert refunds_are_the_expected_ones(found)


def test_two_tickets_can_be_killed_ten_times_too(few: list[str]) -> None:
    ended = demo(*few, "--seed", "1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "(10 of 10)" in ended.stdout


def test_the_proof_fails_on_false_evidence(few: list[str]) -> None:
    assert demo(*few, "--no-kill").returncode == 0
    found = evidence()
    assert prove(found).ok
    for violation, false in falsified(found).items():
        proof = prove(false)
        told = [text for check in proof.checks for text in check.violations]
        assert not proof.ok
        assert any(violation in text for text in told), (violation, told)
    # And so does the command, when the ledger itself is changed.
    with closing(sqlite3.connect(FOLDER / "ledger.db")) as ledger:
        ledger.execute(COPY_A_REFUND)
        ledger.commit()
    ended = demo("--keep", "--no-kill")
    assert ended.returncode == 1
    assert "refunded 2 times" in " ".join(ended.stdout.split())


def falsified(found: Evidence) -> dict[str, Evidence]:
    """Return false evidence by what the proof must say about it."""
    run_id, journal = next(iter(found.journals.items()))
    done = next(event for event in journal if event.type is EventType.STEP_DONE)
    key = f"{NAME}/{run_id}/{done.data['key']}"
    late = Execution(key, pid=1, at=done.at + 1)

    def with_journal(changed: list[Event]) -> Evidence:
        return dataclasses.replace(found, journals={**found.journals, run_id: changed})

    return {
        f"step {key!r} ran and has no step:done": with_journal(
            [event for event in journal if event is not done]
        ),
        f"step {key!r} has 2 step:done events": with_journal([*journal[:-1], done, journal[-1]]),
        "ends with step:done": with_journal([*journal[:-1], done]),
        "ends with no readable journal": with_journal([]),
        f"step {key!r} ran 1 times after it was recorded": dataclasses.replace(
            found, executions=[*found.executions, late]
        ),
        "the customer got 0 replies": dataclasses.replace(found, entries=[]),
    }


def test_ctrl_c_stops_the_worker_and_the_demo_can_be_gone_on_with(few: list[str]) -> None:
    with (Path.cwd() / "out.txt").open("w+") as out:
        running = subprocess.Popen([*COMMAND, *few, "--no-kill"], stdout=out, stderr=out)
        pid = int(awaited(out.name, r"worker 1 starts \(pid (\d+)\)"))
        awaited(str(FOLDER / "executions.jsonl"), r'("key")')
        running.send_signal(signal.SIGINT)
        assert running.wait(demo_seconds_max) == 130
    assert "pyrula demo --keep" in Path("out.txt").read_text("utf-8")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    site = kept_site(FOLDER)
    with closing(open_store(site.store)) as store:
        page = asyncio.run(Client(store).list(NAME))
    assert RunStatus.COMPLETE not in {row.status for row in page.rows}
    ended = demo("--keep", "--no-kill")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def awaited(file: str, pattern: str) -> str:
    """Wait until a file says something, and return it."""
    until = time.monotonic() + demo_seconds_max
    while time.monotonic() < until:
        path = Path(file)
        said = re.search(pattern, path.read_text("utf-8") if path.exists() else "")
        if said:
            return said.group(1)
        time.sleep(0.05)
    raise AssertionError(f"{file} never said {pattern}")


@pytest.mark.parametrize(
    "options, complaint",
    [
        (["--keep"], "no demo in ./demo-run"),
        (["--keep", "--model", "auto"], "--keep goes on as it began"),
        (["--store", "memory://"], "would die with the worker"),
        (["--model", "no-such:model"], "cannot be used"),
        (["--tickets", "broken.jsonl"], "line 2 of broken.jsonl is not a ticket"),
    ],
)
def test_a_mistake_in_the_call_is_told(place: Path, options: list[str], complaint: str) -> None:
    ticket = json.dumps(dataclasses.asdict(load_tickets()[0]))
    Path("broken.jsonl").write_text(f'{ticket}\n{{"ticket": "T-02"}}\n', "utf-8")
    ended = demo(*options)
    assert ended.returncode in (1, 2)
    assert complaint in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_ticket_that_stands_twice_in_a_file_is_refused(tmp_path: Path) -> None:
    ticket = json.dumps(dataclasses.asdict(load_tickets()[0]))
    (tmp_path / "twice.jsonl").write_text(f"{ticket}\n\n{ticket}\n", "utf-8")
    with pytest.raises(ValueError, match=r"line 3 of .* repeats the ticket 'T-01'"):
        read_tickets(tmp_path / "twice.jsonl")


def test_the_same_seed_draws_the_same_kills_and_all_of_them_fall_into_the_work() -> None:
    for seed in range(50):
        moments = played(seed)
        assert moments == played(seed)
        assert len(moments) == 10
    assert played(1) != played(2)


def played(seed: int) -> list[int]:
    """Play a demo of 30 tickets with 20 events each; returns after which event each kill came."""
    plan, lengths, moments, now = KillPlan(10, seed), [0] * 30, [], 0.0
    plan.begin(ended=[], going=lengths)
    while sum(lengths) < 30 * 20:
        lengths[next(place for place, length in enumerate(lengths) if length < 20)] += 1
        now += 0.05
        if plan.due(events=sum(lengths), now=now):
            plan.struck()
            moments.append(sum(lengths))
            ended = [length for length in lengths if length == 20]
            plan.begin(ended=ended, going=[length for length in lengths if length < 20])
    return moments
