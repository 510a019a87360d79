"""Inputs at which a figure stops to exist, each with its sentence instead of nan or inf."""

from models.gain import MIN_ROUNDS
from models.purchase import Purchase
from models.result import Notice
from models.risk import Evidence
from models.typical import Typical
from models.wording import plural


def remarks(case: Purchase, found: Typical, seen: Evidence) -> list[Notice]:
    """What a person must know before reading the figures.

    Args:
        case: The purchase.
        found: Its typical case.
        seen: Incidents and hours of the candidate.

    Returns:
        A code and a sentence each, the weightiest first.
    """
    notes: list[tuple[str, str]] = []
    if case.months == 0:
        notes.append(
            (
                "horizon_zero",
                "With a horizon of 0 months nothing can come back: only the price and the resale "
                "count. Choose a longer horizon.",
            )
        )
    if case.gain.value <= 0:
        notes.append(
            (
                "no_gain",
                f"The candidate is not faster ({100 * case.gain.value:+.1f} %), so there is "
                "nothing to earn from speed.",
            )
        )
    if case.base_tok_s <= 0 and case.benefit != "waiting":
        notes.append(
            ("no_speed", "The baseline's speed is not known or 0, so no capacity follows from it.")
        )
    if case.medians()["demand"] <= 0:
        notes.append(
            (
                "no_demand",
                "Nothing is asked of the machine: it is never busy (utilisation 0 %), so there is "
                "no cost of a delivered hour or token.",
            )
        )
    elif not found.demand_binds and case.benefit != "waiting":
        notes.append(
            (
                "demand_does_not_bind",
                f"The baseline serves all that is asked for (busy {100 * found.used[0]:.0f} % of "
                "the time), so more capacity earns nothing. What remains is latency: about "
                f"{plural(round(found.minutes_a_day), 'minute')} a day less to wait for the "
                "machine.",
            )
        )
    if case.benefit == "waiting" and case.medians()["hour_value"] <= 0:
        notes.append(
            (
                "hour_without_value",
                "No value of an hour is given, so no money follows: the upgrade buys about "
                f"{plural(round(found.minutes_a_day), 'minute')} a day.",
            )
        )
    if found.monthly <= 0:
        notes.append(
            (
                "no_benefit",
                "Month by month it brings nothing or costs more than it brings, so benefits never "
                "pay it back.",
            )
        )
    elif found.irr is None and found.upfront > 0 and case.months > 0:
        notes.append(
            ("no_irr", "There is no rate of return: no rate makes this cash flow worth 0.")
        )
    if found.upfront <= 0:
        notes.append(
            (
                "free",
                "Nothing is paid at the start: it pays back at once, and a rate of return or a "
                "ratio of benefit to cost does not exist.",
            )
        )
    rounds = case.gain.rounds
    if rounds < MIN_ROUNDS and case.gain.origin in ("measured", "imported", "published"):
        notes.append(
            (
                "few_rounds",
                f"{plural(rounds, 'round').capitalize()} an arm: the gain's direction is seen, its "
                "spread is assumed.",
            )
        )
    if seen.hours <= 0:
        notes.append(
            ("no_soak", "No sustained load was watched: the failure rate is the prior's alone.")
        )
    return [Notice(code=code, text=text) for code, text in notes]
