"""Amounts as a person reads them; nothing here ever prints nan or inf."""

import math

from models.purchase import INPUTS

UNKNOWN = "not known"


def compact(value: float | None) -> str:
    """A number in thousands, millions or thousands of millions, three digits."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    for size, word in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:,.3g}{word}"
    return f"{value:,.3g}"


def money(value: float | None, symbol: str = "$") -> str:
    """An amount with its sign before the symbol; as many digits as its size deserves."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    digits = 0 if size >= 20 else 2 if size >= 0.1 or size == 0 else 4
    text = f"{size:,.{digits}f}"
    sign = "-" if value < 0 and float(text.replace(",", "")) != 0 else ""
    return f"{sign}{symbol}{text}"


def amount(name: str, value: float | None, symbol: str = "$") -> str:
    """A value of one input of `models.purchase.INPUTS`.

    Args:
        name: The input.
        value: Its value; None where not known.
        symbol: Of the currency.
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if name == "gain":
        return f"{100 * value:+.1f} %"
    if name == "resale":
        return f"{100 * value:.0f} %"
    if name == "demand":
        return f"{compact(value)} tokens a day"
    if name == "rate_added":
        return f"{value:.2g} failures a year"
    unit = INPUTS[name][1]
    if unit.startswith("$"):
        per = unit[1:].removeprefix("/")
        return money(value, symbol) + (f"/{per}" if per else "")
    return f"{value:,.1f} {unit}"


def months(value: float | None, horizon: int = 0) -> str:
    """A payback time, or that it never comes (within a horizon, where one is given)."""
    if value is None or not math.isfinite(value):
        return f"never within {horizon} months" if horizon else "never"
    if value == 0:
        return "at once"
    return f"month {value:g}" if float(value).is_integer() else f"{value:,.1f} months"


def share(value: float | None, digits: int = 0) -> str:
    """A share as a percentage."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{100 * value:.{digits}f} %"


def rate(value: float | None) -> str:
    """A rate of return a year; very high ones are not worth their digits."""
    if value is None or not math.isfinite(value):
        return "does not exist"
    return "over 1,000 % a year" if value > 10 else f"{100 * value:,.1f} % a year"


# what a draw is called where people read
CASES = "the simulated cases"


def chance(value: float | None) -> str:
    """A probability from draws: never rounded to certainty."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if 0 < value < 0.01:
        return "under 1 %"
    if 0.99 < value < 1:
        return "over 99 %"
    return f"{100 * value:.0f} %"


def plural(count: float, word: str) -> str:
    """A count with its noun: 1 round, 3 rounds."""
    return f"{count:,.0f} {word}" if count == 1 else f"{count:,.0f} {word}s"
