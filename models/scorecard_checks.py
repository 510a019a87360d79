"""The check list of an interconnect evaluation, and alert thresholds from what was seen."""

from collections.abc import Sequence
from dataclasses import dataclass

from models.scorecard import Card, Evidence, scorecard


@dataclass(frozen=True)
class Check:
    """One line of the check list; ``done`` is None where nothing is known."""

    title: str
    done: bool | None
    why: str


def checklist(e: Evidence) -> list[Check]:
    """The six checks of the published evaluation, ticked from the same evidence."""
    cards = {card.code: card for card in scorecard(e)}
    speed = [cards[code] for code in ("throughput", "ttft", "tpot", "itl")]
    rows: list[tuple[str, list[Card]]] = [
        ("Function: the model loads, generates and ends with the link on", [cards["function"]]),
        ("Performance: throughput, TTFT, TPOT, ITL with mean, median and P99", speed),
        ("Stability: hours, repeated requests, wrong inputs, short memory", [cards["stability"]]),
        ("Compatibility: upgrade, configuration change, way back", [cards["compatibility"]]),
        ("Observability: queue, compute and link can be told apart", [cards["observability"]]),
        ("Cost: price, labour, upkeep and risk are known", [cards["cost"]]),
    ]
    found = []
    for title, several in rows:
        states = {card.status for card in several}
        gaps = [text for card in several for text in card.missing]
        if "fails" in states:
            done: bool | None = False
        elif states == {"shown"}:
            done = True
        elif states == {"not measured yet"}:
            done = None
        else:
            done = False
        why = "evidence is complete" if done else (gaps[0] if gaps else "see the scorecard")
        found.append(Check(title, done, why))
    return found


@dataclass(frozen=True)
class Threshold:
    """A proposed alert.

    Attributes:
        name: What to watch.
        value: Above (or below) this, somebody should look.
        unit: Its unit.
        above: Whether the alarm is above the value.
        basis: Where the proposal comes from.
    """

    name: str
    value: float
    unit: str
    above: bool
    basis: str


def thresholds(
    *,
    ttft_p99_ms: Sequence[float] = (),
    tpot_p99_ms: Sequence[float] = (),
    failed_pct: Sequence[float] = (),
    sm_clock_mhz: Sequence[float] = (),
    temperature_c: Sequence[float] = (),
) -> list[Threshold]:
    """Alert thresholds from what a sustained load and its telemetry showed.

    Args:
        ttft_p99_ms: P99 of each window.
        tpot_p99_ms: P99 of each window.
        failed_pct: Share of failed requests of each window, percent.
        sm_clock_mhz: Clocks of busy GPUs.
        temperature_c: Temperatures of busy GPUs.

    Returns:
        Half above the worst window for latencies, 1 % or twice the worst window for failures, 5 %
        under the median clock, 5 degrees above the hottest reading: proposals, not limits of the
        hardware. Nothing for what was not seen.
    """
    found = []
    for name, rows in (("P99 time to first token", ttft_p99_ms), ("P99 TPOT", tpot_p99_ms)):
        if rows:
            worst = max(rows)
            found.append(
                Threshold(name, 1.5 * worst, "ms", True, f"1.5 x the worst of {len(rows)} windows")
            )
    if failed_pct:
        found.append(
            Threshold(
                "Failed requests",
                max(1.0, 2 * max(failed_pct)),
                "%",
                True,
                f"twice the worst of {len(failed_pct)} windows, at least 1 %",
            )
        )
    if sm_clock_mhz:
        ordered = sorted(sm_clock_mhz)
        middle = ordered[len(ordered) // 2]
        found.append(
            Threshold("SM clock under load", 0.95 * middle, "MHz", False, "5 % under the median")
        )
    if temperature_c:
        found.append(
            Threshold(
                "GPU temperature", max(temperature_c) + 5, "°C", True, "5 degrees over the hottest"
            )
        )
    return found
