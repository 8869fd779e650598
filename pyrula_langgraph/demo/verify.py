"""The proof at the end of the demo, from the ledger alone: each right effect happened once.

Owns what counts as proven and as violated. Pure: entries and expectations in, a report out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyrula_langgraph.demo.effects import Effect, EffectKind, Entry
from pyrula_langgraph.demo.tickets import Expected

__all__ = ["Figures", "Report", "verify"]


@dataclass(frozen=True, slots=True)
class Figures:
    """What the ledger counts: at-least-once shows as more attempts than effects."""

    tickets: int
    effects: int
    attempts: int
    repeated: int
    processes: int
    refunds: int
    refunded_cents: int


@dataclass(frozen=True, slots=True)
class Report:
    """What was proven, and every violation in words."""

    proven: tuple[str, ...]
    violations: tuple[str, ...]
    figures: Figures

    @property
    def ok(self) -> bool:
        """True when nothing was violated."""
        return not self.violations


def verify(entries: Sequence[Entry], expected: Mapping[str, Sequence[Expected]]) -> Report:
    """Compare what the ledger holds with what each ticket should have caused.

    Only effects that took effect count as having happened; a repeated attempt is harmless as long
    as it repeats the same effect under the same key.
    """
    effective = [entry.effect for entry in entries if entry.effective]
    checks = {
        "every ticket has its effects, each once": effects_match(effective, expected),
        "every ticket got one reply": one_reply_each(effective, expected),
        "every refund happened once": refunds_once(effective),
        "every repeated attempt was the same effect again": keys_are_stable(entries),
    }
    violations = {title: tuple(found) for title, found in checks.items()}
    return Report(
        proven=tuple(title for title, found in violations.items() if not found),
        violations=tuple(text for found in violations.values() for text in found),
        figures=figures(entries, effective),
    )


def effects_match(
    effective: Sequence[Effect], expected: Mapping[str, Sequence[Expected]]
) -> Iterator[str]:
    """Tell of each effect that is missing, doubled or not wanted."""
    happened: defaultdict[str, Counter[Expected]] = defaultdict(Counter)
    for effect in effective:
        outcome = Expected(effect.kind, effect.order_id, effect.amount_cents)
        happened[effect.ticket][outcome] += 1
    for ticket in sorted({*expected, *happened}):
        wanted = Counter(expected.get(ticket, ()))
        for outcome in sorted({*wanted, *happened[ticket]}, key=describe):
            times, right = happened[ticket][outcome], wanted[outcome]
            if times != right:
                yield f"{ticket}: {describe(outcome)} happened {times} times instead of {right}"


def one_reply_each(
    effective: Sequence[Effect], expected: Mapping[str, Sequence[Expected]]
) -> Iterator[str]:
    """Tell of each ticket whose customer got no answer, or several."""
    replies = Counter(effect.ticket for effect in effective if effect.kind is EffectKind.REPLY)
    for ticket in expected:
        if replies[ticket] != 1:
            yield f"{ticket}: the customer got {replies[ticket]} replies"


def refunds_once(effective: Sequence[Effect]) -> Iterator[str]:
    """Tell of each order that was refunded twice, under whatever keys and for whatever ticket."""
    keys: defaultdict[str, list[str]] = defaultdict(list)
    for effect in effective:
        if effect.kind is EffectKind.REFUND:
            keys[effect.order_id].append(effect.key)
    for order_id, used in sorted(keys.items()):
        if len(used) > 1:
            yield f"order {order_id} was refunded {len(used)} times, under the keys {used!r}"


def keys_are_stable(entries: Sequence[Entry]) -> Iterator[str]:
    """Tell of each key that was used for two different effects."""
    first: dict[tuple[EffectKind, str], Effect] = {}
    for entry in entries:
        known = first.setdefault((entry.effect.kind, entry.effect.key), entry.effect)
        if known != entry.effect:
            yield f"the key {entry.effect.key!r} stood for {known!r} and then for {entry.effect!r}"


def figures(entries: Sequence[Entry], effective: Sequence[Effect]) -> Figures:
    """Count what the ledger holds."""
    refunds = [effect for effect in effective if effect.kind is EffectKind.REFUND]
    return Figures(
        tickets=len({effect.ticket for effect in effective}),
        effects=len(effective),
        attempts=len(entries),
        repeated=len(entries) - len(effective),
        processes=len({entry.pid for entry in entries}),
        refunds=len(refunds),
        refunded_cents=sum(effect.amount_cents for effect in refunds),
    )


def describe(outcome: Expected) -> str:
    """Name an effect for a person."""
    amount = f" of {outcome.amount_cents / 100:.2f} EUR" if outcome.amount_cents else ""
    order = f" for {outcome.order_id}" if outcome.order_id else ""
    return f"{outcome.kind.value}{amount}{order}"
