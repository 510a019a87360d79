"""What the catalogue holds: prices, cards and failure priors, each with source and date.

Value, unit, source and date travel together; none goes without the others.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from models.errors import InvalidSpec
from models.ranges import Range

OLD_AFTER_DAYS = 90


def _text(value: object, name: str, what: str) -> str:
    words = str(value or "").strip()
    if not words:
        raise InvalidSpec(
            f"{what} has no {name}.", "Every figure needs a unit, a source and a date."
        )
    return words


def _number(value: object, name: str, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidSpec(f"{what}: {name} is not a number.")
    return float(value)


def _day(value: object, what: str) -> date:
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise InvalidSpec(f"{what} has no date.", "Dates look like 2026-03-31.") from None


@dataclass(frozen=True)
class Price:
    """One figure of money or energy, as a range where sources disagree.

    Attributes:
        key: Identifier: small letters, digits, dashes.
        label: Words for people.
        unit: Such as $/kWh.
        low: Lowest figure seen.
        likely: The one to start from.
        high: Highest figure seen.
        source: Who says so.
        date: When it was said.
        note: What to know before using it.
    """

    key: str
    label: str
    unit: str
    low: float
    likely: float
    high: float
    source: str
    date: date
    note: str = ""

    @property
    def range(self) -> Range:
        """The three values."""
        return Range(self.low, self.likely, self.high)


@dataclass(frozen=True)
class Card:
    """One GPU model.

    Attributes:
        key: Identifier.
        name: As people and drivers call it.
        memory_gb: Memory, GB of 1e9 bytes.
        memory_bandwidth_gbps: Memory bandwidth, 1e9 bytes a second.
        board_power_w: Highest power of the board.
        source: Who says so.
        date: When it was said.
        link: The GPU-to-GPU link, in words; empty where there is none.
        link_gbps: Its bandwidth per direction, 1e9 bytes a second; None where there is none.
        facts: Further figures by name, for those who need them.
    """

    key: str
    name: str
    memory_gb: float
    memory_bandwidth_gbps: float
    board_power_w: float
    source: str
    date: date
    link: str = ""
    link_gbps: float | None = None
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FailurePrior:
    """A named failure rate of one part.

    Attributes:
        key: Identifier.
        label: Words for people.
        event: What is counted; rates of different events are never mixed.
        low: Lowest figure, events a part and year.
        likely: The one to start from.
        high: Highest figure.
        strength: Incidents of evidence that the prior is worth: 1 is weak, on purpose.
        source: Who says so.
        date: When it was said.
        note: What to know before using it.
    """

    key: str
    label: str
    event: str
    low: float
    likely: float
    high: float
    source: str
    date: date
    strength: float = 1.0
    note: str = ""


@dataclass(frozen=True)
class Catalogue:
    """Everything that is known, by key.

    Attributes:
        prices: Prices.
        cards: GPU models.
        priors: Failure priors.
    """

    prices: dict[str, Price]
    cards: dict[str, Card]
    priors: dict[str, FailurePrior]

    def card_named(self, name: str) -> Card | None:
        """The card whose name stands in a driver's name for a GPU; the longest where several do."""
        words = _plain(name)
        found = [card for card in self.cards.values() if f" {_plain(card.name)} " in f" {words} "]
        return max(found, key=lambda card: len(card.name), default=None)


def _plain(name: str) -> str:
    kept = "".join(ch if ch.isalnum() else " " for ch in name.lower())
    return " ".join(kept.replace("nvidia", " ").replace("geforce", " ").split())


def read_price(key: str, row: dict[str, Any]) -> Price:
    """One price from decoded data.

    Raises:
        InvalidSpec: A part is missing or impossible; the sentence names it.
    """
    what = f"The price {key!r}"
    likely = _number(row.get("value"), "value", what)
    low = _number(row.get("low", likely), "low", what)
    high = _number(row.get("high", likely), "high", what)
    _in_order(what, low, likely, high)
    return Price(
        key=_text(key, "key", what),
        label=_text(row.get("label"), "label", what),
        unit=_text(row.get("unit"), "unit", what),
        low=low,
        likely=likely,
        high=high,
        source=_text(row.get("source"), "source", what),
        date=_day(row.get("date"), what),
        note=str(row.get("note", "")),
    )


def read_card(key: str, row: dict[str, Any]) -> Card:
    """One card from decoded data.

    Raises:
        InvalidSpec: A part is missing or impossible; the sentence names it.
    """
    what = f"The card {key!r}"
    numbers = {
        name: _number(row.get(name), name, what)
        for name in ("memory_gb", "memory_bandwidth_gbps", "board_power_w")
    }
    link_gbps = row.get("link_gbps")
    if link_gbps is not None:
        link_gbps = _number(link_gbps, "link_gbps", what)
    if min(*numbers.values(), 1.0 if link_gbps is None else link_gbps) <= 0:
        raise InvalidSpec(f"{what}: memory, bandwidths and power lie above 0.")
    facts = row.get("facts", {})
    return Card(
        key=_text(key, "key", what),
        name=_text(row.get("name"), "name", what),
        source=_text(row.get("source"), "source", what),
        date=_day(row.get("date"), what),
        link=str(row.get("link", "")),
        link_gbps=link_gbps,
        facts=dict(facts) if isinstance(facts, dict) else {},
        **numbers,
    )


def read_prior(key: str, row: dict[str, Any]) -> FailurePrior:
    """One failure prior from decoded data.

    Raises:
        InvalidSpec: A part is missing or impossible; the sentence names it.
    """
    what = f"The failure prior {key!r}"
    likely = _number(row.get("value"), "value", what)
    low = _number(row.get("low", likely), "low", what)
    high = _number(row.get("high", likely), "high", what)
    strength = _number(row.get("strength", 1.0), "strength", what)
    _in_order(what, low, likely, high)
    if likely <= 0 or strength <= 0:
        raise InvalidSpec(f"{what}: rate and strength lie above 0.")
    return FailurePrior(
        key=_text(key, "key", what),
        label=_text(row.get("label"), "label", what),
        event=_text(row.get("event"), "event", what),
        low=low,
        likely=likely,
        high=high,
        strength=strength,
        source=_text(row.get("source"), "source", what),
        date=_day(row.get("date"), what),
        note=str(row.get("note", "")),
    )


def _in_order(what: str, low: float, likely: float, high: float) -> None:
    if not 0 <= low <= likely <= high:
        raise InvalidSpec(f"{what}: low, value and high are not in order, or below 0.")


def age_days(day: date, today: date) -> int:
    """Days since a figure was said."""
    return (today - day).days


def age_words(day: date, today: date) -> str:
    """The date, with a flag where the figure is older than 90 days."""
    days = age_days(day, today)
    flag = f" ({days} days old: check it)" if days > OLD_AFTER_DAYS else ""
    return f"{day.isoformat()}{flag}"


def old_keys(rows: Iterable[Price | FailurePrior], today: date) -> list[str]:
    """Keys of the figures that are older than 90 days."""
    return [row.key for row in rows if age_days(row.date, today) > OLD_AFTER_DAYS]
