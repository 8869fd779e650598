"""The demo's shop, agent and proof, run as plain LangGraph: no engine, no crash."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from pyrula_langgraph.demo.approvals import answer_by_rule
from pyrula_langgraph.demo.desk_agent import build_agent
from pyrula_langgraph.demo.desk_model import ScriptedDeskModel, choose_model
from pyrula_langgraph.demo.effects import Effect, EffectKind, Entry
from pyrula_langgraph.demo.ledger import Ledger
from pyrula_langgraph.demo.shop import Shop, build_shop
from pyrula_langgraph.demo.tickets import Ticket, load_expected, load_tickets
from pyrula_langgraph.demo.tools import DeskTools
from pyrula_langgraph.demo.verify import Report, verify

TICKETS = {ticket.ticket: ticket for ticket in load_tickets()}
EXPECTED = load_expected()


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return build_shop(tmp_path / "shop.db")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.db")


@dataclasses.dataclass(frozen=True)
class Day:
    """All tickets, worked through once on one shop."""

    entries: list[Entry]
    said: dict[str, list[AIMessage]]
    approvals: dict[str, int]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    folder = tmp_path_factory.mktemp("day")
    shop, ledger = build_shop(folder / "shop.db"), Ledger(folder / "ledger.db")
    worked = {name: work(ticket, shop, ledger) for name, ticket in TICKETS.items()}
    return Day(
        ledger.entries(),
        {name: said for name, (said, _) in worked.items()},
        {name: approvals for name, (_, approvals) in worked.items()},
    )


def work(ticket: Ticket, shop: Shop, ledger: Ledger) -> tuple[list[AIMessage], int]:
    """Run one ticket to its end; returns what the model said and how many approvals were asked."""
    tools = DeskTools(shop, ledger, delay_seconds=0.0)
    agent = build_agent(shop, ledger, ScriptedDeskModel(), tools=tools)
    agent.checkpointer = InMemorySaver()
    config = {"configurable": {"thread_id": ticket.ticket}}
    state = agent.invoke({"messages": [HumanMessage(ticket.text())]}, config)
    approvals = 0
    while interrupts := state.get("__interrupt__"):
        approvals += len(interrupts)
        answers = {asked.id: answer_by_rule(asked.value) for asked in interrupts}
        state = agent.invoke(Command(resume=answers), config)
    return [m for m in state["messages"] if isinstance(m, AIMessage)], approvals


# --- every ticket ---------------------------------------------------------------------------------


def test_tickets_and_expectations_belong_together() -> None:
    assert list(TICKETS) == list(EXPECTED)
    assert len(TICKETS) >= 24


@pytest.mark.parametrize("ticket", TICKETS)
def test_a_ticket_ends_with_exactly_the_effects_it_should_have(ticket: str, day: Day) -> None:
    own = [entry for entry in day.entries if entry.effect.ticket == ticket]
    assert verify(own, {ticket: EXPECTED[ticket]}).violations == ()
    assert ticket in day.said[ticket][-1].text


def test_the_tickets_cover_what_a_desk_meets(day: Day) -> None:
    assert verify(day.entries, EXPECTED).violations == ()
    assert sum(count > 0 for count in day.approvals.values()) >= 5
    assert max(day.approvals.values()) == 2, "two approvals at once, in one superstep"
    kinds = {effect.kind for effects in EXPECTED.values() for effect in effects}
    assert kinds == set(EffectKind)


def test_two_orders_are_looked_up_in_parallel_and_a_merged_one_after_the_other(day: Day) -> None:
    calls = {name: [len(message.tool_calls) for message in said] for name, said in day.said.items()}
    assert calls["T-16"] == [2, 2, 1, 0]
    assert calls["T-20"] == [1, 1, 1, 1, 0]


def test_a_rejected_refund_moves_no_money_and_the_customer_is_told(day: Day) -> None:
    assert day.approvals["T-21"] == 1
    kinds = [entry.effect.kind for entry in day.entries if entry.effect.ticket == "T-21"]
    assert kinds == [EffectKind.LOOKUP, EffectKind.REPLY]
    reply = day.said["T-21"][-2].tool_calls[0]["args"]["text"]
    assert "We cannot refund order A-20433 yet" in reply


def test_the_model_says_the_same_for_the_same_messages(shop: Shop, ledger: Ledger) -> None:
    first, _ = work(TICKETS["T-17"], shop, ledger)
    again, _ = work(TICKETS["T-17"], shop, ledger)
    assert first == again
    figures = verify(ledger.entries(), {"T-17": EXPECTED["T-17"]}).figures
    assert figures.attempts == 2 * figures.effects, "the second run repeated the same keys"


def test_a_changed_address_is_in_the_shop(shop: Shop, ledger: Ledger) -> None:
    work(TICKETS["T-09"], shop, ledger)
    order = shop.order("A-20419")
    assert order is not None
    assert order.address == "Korte Leidsedwarsstraat 49, 1017 PW Amsterdam, Netherlands"


def test_a_plain_question_gets_an_answer_and_no_error(shop: Shop, ledger: Ledger) -> None:
    hello = Ticket("T-90", "Kim", "kim@mail.example", "hello", "Are you open on Sunday?")
    said, _ = work(hello, shop, ledger)
    assert [entry.effect.kind for entry in ledger.entries()] == [EffectKind.REPLY]
    assert said[-1].text


def test_a_refund_above_what_was_paid_is_refused_before_anybody_is_asked(
    shop: Shop, ledger: Ledger
) -> None:
    tools = {tool.name: tool for tool in DeskTools(shop, ledger).all()}
    refund = tools["issue_refund"].func  # type: ignore[attr-defined]
    for order_id, amount in (("A-20411", 999_999), ("A-20411", 0), ("A-99999", 100)):
        assert '"refused"' in refund(order_id, amount, "because", None)
    assert ledger.entries() == []


def test_the_real_model_is_used_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    assert isinstance(choose_model(), ScriptedDeskModel)
    monkeypatch.delenv("OPENAI_API_KEY")
    assert isinstance(choose_model("auto"), ScriptedDeskModel)


# --- the ledger and the proof ---------------------------------------------------------------------

REFUND = Effect("T-01", EffectKind.REFUND, "key-1", "A-20411", 3490)


def test_the_ledger_settles_a_key_once_and_notes_every_attempt(ledger: Ledger) -> None:
    assert [ledger.record(REFUND), ledger.record(REFUND)] == [True, False]
    entries = Ledger(ledger.path).entries()
    assert [entry.effective for entry in entries] == [True, False]
    assert {entry.effect for entry in entries} == {REFUND}


def right_entries() -> list[Entry]:
    """The ledger of a desk that made no mistake, for the first two tickets."""
    return [
        Entry(
            Effect(ticket, each.kind, f"{ticket}-{n}", each.order_id, each.amount_cents),
            effective=True,
            pid=1,
            at=0.0,
        )
        for ticket in ("T-01", "T-02")
        for n, each in enumerate(EXPECTED[ticket])
    ]


def judge(entries: Sequence[Entry]) -> Report:
    return verify(entries, {ticket: EXPECTED[ticket] for ticket in ("T-01", "T-02")})


def doubled_refund(entries: list[Entry]) -> list[Entry]:
    again = dataclasses.replace(entries[1].effect, key="another-key")
    return [*entries, dataclasses.replace(entries[1], effect=again)]


def missing_reply(entries: list[Entry]) -> list[Entry]:
    return entries[:2] + entries[3:]


def other_amount(entries: list[Entry]) -> list[Entry]:
    less = dataclasses.replace(entries[1].effect, amount_cents=1)
    return [entries[0], dataclasses.replace(entries[1], effect=less), *entries[2:]]


def key_for_two_effects(entries: list[Entry]) -> list[Entry]:
    other = dataclasses.replace(entries[1].effect, order_id="A-20412")
    return [*entries, dataclasses.replace(entries[1], effect=other, effective=False)]


def unknown_ticket(entries: list[Entry]) -> list[Entry]:
    stray = dataclasses.replace(entries[0].effect, ticket="T-77", key="stray")
    return [*entries, dataclasses.replace(entries[0], effect=stray)]


def test_the_proof_accepts_a_right_ledger_and_harmless_repetitions() -> None:
    entries = right_entries()
    assert judge(entries).ok
    repeated = [*entries, dataclasses.replace(entries[1], effective=False, pid=2)]
    report = judge(repeated)
    assert report.ok
    assert len(report.proven) == 4
    assert (report.figures.repeated, report.figures.processes) == (1, 2)


@pytest.mark.parametrize(
    "fault,words",
    [
        (doubled_refund, "order A-20411 was refunded 2 times"),
        (missing_reply, "T-01: the customer got 0 replies"),
        (other_amount, "refund of 34.90 EUR for A-20411 happened 0 times instead of 1"),
        (key_for_two_effects, "the key 'T-01-1' stood for"),
        (unknown_ticket, "T-77: lookup for A-20411 happened 1 times instead of 0"),
    ],
)
def test_the_proof_names_what_went_wrong(
    fault: Callable[[list[Entry]], list[Entry]], words: str
) -> None:
    report = judge(fault(right_entries()))
    assert not report.ok
    assert any(words in violation for violation in report.violations)
