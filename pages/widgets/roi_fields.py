"""Every input of the ROI page: its words, unit and bounds, its place in the URL. Draws nothing.

The URL holds what differs from the defaults: ``price=40,100,200&months=24``. Money is in US dollars
there; a page may show another currency.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal

from models.errors import InvalidSpec

Kind = Literal["range", "number", "choice", "text"]
Value = tuple[float, float, float] | float | str
Values = dict[str, Value]

MAX_TEXT = 80
ALL = frozenset({"tokens", "cloud", "waiting"})
SOLD, RENTED, WAITED = frozenset({"tokens"}), frozenset({"cloud"}), frozenset({"waiting"})

GROUPS = {
    "gain": "Gain, entered by hand",
    "money": "Price, labour, resale",
    "use": "Use and value",
    "energy": "Energy",
    "risk": "Failures and stability",
    "ceiling": "Ceiling of any link",
    "others": "Alternatives, by hand",
    "rule": "Thresholds and people",
}


@dataclass(frozen=True)
class Field:
    """One input.

    Attributes:
        code: Identifier: URL, file and widget.
        label: Words for people.
        group: Where it stands in the form.
        kind: Range (low, likely, high), number, choice of codes, or text.
        unit: As shown; "$" stands for the chosen currency.
        least: Smallest value.
        most: Largest value.
        is_money: Whether it is converted into the chosen currency.
        is_whole: Whether it is a whole number.
        help: For the tooltip.
        options: Code -> words of a choice.
        only: Benefits for which it is asked.
    """

    code: str
    label: str
    group: str
    kind: Kind = "number"
    unit: str = ""
    least: float = 0.0
    most: float = 1e9
    is_money: bool = False
    is_whole: bool = False
    help: str = ""
    options: tuple[tuple[str, str], ...] = ()
    only: frozenset[str] = ALL


@dataclass(frozen=True)
class Default:
    """Where a value stands unless somebody changes it.

    Attributes:
        value: The value.
        source: Who says so; "assumed" where nobody does.
        day: When it was said; None for assumptions.
    """

    value: Value
    source: str = "assumed: change it to yours"
    day: date | None = None


_TABLE = (
    Field("gain", "Gain", "gain", "range", "%", -90, 900, help="Tokens a second over today's."),
    Field("price", "Price of the upgrade", "money", "range", "$", is_money=True,
          help="What sellers ask; where they disagree, a range."),
    Field("extras", "Cooling, power supply, cables", "money", unit="$", is_money=True),
    Field("labour", "Fitting, validation, rollback drill", "money", "range", "h", most=10_000),
    Field("labour_rate", "An hour of labour", "money", unit="$/h", is_money=True),
    Field("operations", "Running costs it adds", "money", unit="$/year", is_money=True),
    Field("resale", "Resale share at the horizon", "money", "range", "%", most=100),
    Field("months", "Horizon", "money", unit="months", most=120, is_whole=True),
    Field("discount", "Discount rate", "money", unit="%/year", most=100),
    Field("box", "The machine it goes into", "money", unit="$", is_money=True,
          help="For the cost of a token only: it is paid already, whatever you decide."),
    Field("box_resale", "Resale share of that machine", "money", unit="%", most=100),
    Field("warranty", "Warranty", "money", "choice",
          options=(("unknown", "not known"), ("kept", "kept"), ("lost", "lost"))),
    Field("currency", "Currency", "money", "choice",
          options=tuple((code, code) for code in ("USD", "EUR", "CNY", "GBP", "JPY", "INR"))),
    Field("rate", "One US dollar is", "money", unit="of that currency", least=1e-4, most=1e6),
    Field("rate_date", "Date of that rate (YYYY-MM-DD)", "money", "text"),
    Field("demand", "Demand, output tokens a day", "use", "range", "tok/day", most=1e13,
          help="What is asked for, served or not. Beyond capacity it is lost, or rented."),
    Field("peak", "Peak over average hour", "use", unit="x", least=1, most=24,
          help="1: the same load day and night. 3: an office."),
    Field("growth", "Growth of demand", "use", unit="%/year", least=-90, most=1000),
    Field("speed", "Speed of the baseline (0: as measured)", "use", unit="tok/s", most=1e9),
    Field("token_value", "A million output tokens", "use", "range", "$/Mtok", is_money=True,
          only=SOLD),
    Field("input_value", "A million input tokens", "use", "range", "$/Mtok", is_money=True,
          only=SOLD),
    Field("input_ratio", "Input tokens an output token", "use", unit="x", most=1e5, only=SOLD),
    Field("rent", "Cloud rent", "use", "range", "$/GPU-hour", is_money=True),
    Field("cloud_gpus", "GPUs rented", "use", unit="GPUs", least=0, most=10_000, is_whole=True),
    Field("cloud_speed", "Their speed (0: the baseline's)", "use", unit="tok/s", most=1e9),
    Field("step", "Billing step", "use", unit="min", most=44_640),
    Field("idle", "Rented idle hours a day", "use", unit="h", most=24),
    Field("wait", "Hours waited a day", "use", "range", "h/day", most=10_000, only=WAITED,
          help="Hours that people sit and wait for answers, all people together."),
    Field("hour_value", "An hour not waited", "use", "range", "$/h", is_money=True, only=WAITED,
          help="0: nobody says. Then the page tells the minutes a day that the money buys."),
    Field("electricity", "Electricity", "energy", "range", "$/kWh", is_money=True),
    Field("pue", "PUE", "energy", unit="x", least=1, most=5,
          help="Energy of the building over energy of the machine; 1.0 at home."),
    Field("busy_base", "Baseline, loaded", "energy", unit="W", most=1e7),
    Field("idle_base", "Baseline, idle", "energy", unit="W", most=1e7),
    Field("busy_cand", "Candidate, loaded", "energy", unit="W", most=1e7),
    Field("idle_cand", "Candidate, idle", "energy", unit="W", most=1e7),
    Field("prior", "Failure rate of a part, prior", "risk", "choice"),
    Field("parts_base", "Parts of the baseline", "risk", unit="parts", least=1, most=10_000,
          is_whole=True, help="A group fails with any of its parts: their rates add."),
    Field("parts_cand", "Parts of the candidate", "risk", unit="parts", least=1, most=10_000,
          is_whole=True, help="An added link is one more part."),
    Field("hours_base", "Baseline, hours under load", "risk", unit="h", most=1e7),
    Field("incidents_base", "Baseline, incidents seen", "risk", unit="", most=1e5, is_whole=True),
    Field("hours_cand", "Candidate, hours under load", "risk", unit="h", most=1e7),
    Field("incidents_cand", "Candidate, incidents seen", "risk", unit="", most=1e5, is_whole=True,
          help="Hangs, crashes and wrong outputs."),
    Field("repair", "Time to repair", "risk", unit="h", most=10_000),
    Field("repair_p90", "… that one in ten exceeds", "risk", unit="h", most=100_000),
    Field("service_value", "An hour of service", "risk", unit="$/h", is_money=True,
          help="What an hour without the machine costs."),
    Field("incident_labour", "Work on an incident", "risk", unit="$", is_money=True),
    Field("restart_loss", "Lost at a restart", "risk", unit="$", is_money=True),
    Field("calls", "AllReduce calls a step", "ceiling", unit="calls", most=10_000, is_whole=True,
          help="2 x layers for a dense model. 0: not known."),
    Field("decode_us", "Latency of a decode message", "ceiling", unit="us", most=1e7,
          help="Exposed, in graph mode, without the link. 0: not known."),
    Field("prefill_us", "Latency of a prefill message", "ceiling", unit="us", most=1e7,
          help="0: not known."),
    Field("tpot", "TPOT without the link", "ceiling", unit="ms", most=1e6),
    Field("ttft", "TTFT without the link and without a queue", "ceiling", unit="ms", most=1e7),
    Field("out_tokens", "Output tokens a request", "ceiling", unit="tokens", least=1, most=1e6),
    Field("layout", "Another GPU layout", "others", "range", "%", -90, 900,
          help="Two TP=2 replicas for one TP=4, or TP on the linked pair: costs hours only."),
    Field("layout_hours", "Hours for the layout", "others", unit="h", most=10_000),
    Field("software", "Quantisation, batching, cache", "others", "range", "%", -90, 900),
    Field("software_hours", "Hours for the software", "others", unit="h", most=10_000),
    Field("buy", "Buy from this probability", "rule", unit="%", least=50, most=100),
    Field("dont", "Don't up to this probability", "rule", unit="%", most=50),
    Field("min_rounds", "Rounds that Buy asks for", "rule", unit="rounds", least=1, most=100,
          is_whole=True),
    Field("min_soak", "Hours under load that Buy asks for", "rule", unit="h", most=100_000),
    Field("errors", "Failed requests tolerated", "rule", unit="%", most=100),
    Field("spread", "Assumed scatter of a round", "rule", unit="%", least=0.1, most=100,
          help="Used where fewer than three rounds show none."),
    Field("engine", "Engine version that will run", "rule", "text",
          help="Empty: the one that was measured."),
    Field("person", "Who rolls back", "rule", "text"),
)  # fmt: skip

FIELDS: dict[str, Field] = {row.code: row for row in _TABLE}


def parse(field: Field, text: str) -> Value | None:
    """A value from the URL or a file; None where it is none, or lies outside the bounds."""
    if field.kind == "text":
        return text[:MAX_TEXT]
    if field.kind == "choice":
        return text[:MAX_TEXT]
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        return None
    # the comparison is false for nan, too
    if not all(field.least <= number <= field.most for number in numbers):
        return None
    if field.kind == "number":
        return numbers[0] if len(numbers) == 1 else None
    if len(numbers) == 1:
        return (numbers[0],) * 3
    if len(numbers) != 3 or not numbers[0] <= numbers[1] <= numbers[2]:
        return None
    return numbers[0], numbers[1], numbers[2]


def text_of(value: Value) -> str:
    """A value as the URL holds it."""
    if isinstance(value, str):
        return value
    numbers = value if isinstance(value, tuple) else (value,)
    # six digits, and no exponent where a person would not write one
    return ",".join(f"{float(f'{number:.6g}'):.12g}" for number in numbers)


def read(query: Mapping[str, str], defaults: Mapping[str, Default]) -> Values:
    """All values: those of the URL where they can be read, else the defaults."""
    found: Values = {}
    for code, default in defaults.items():
        asked = parse(FIELDS[code], query[code]) if code in query else None
        found[code] = default.value if asked is None else asked
    return found


def changed(values: Mapping[str, Value], defaults: Mapping[str, Default]) -> dict[str, str]:
    """What differs from the defaults, as the URL holds it."""
    return {
        code: text_of(value)
        for code, value in values.items()
        if code in defaults and text_of(value) != text_of(defaults[code].value)
    }


def check(values: Values) -> None:
    """Refuse values that do not go together.

    Raises:
        InvalidSpec: One sentence that names the input.
    """
    for code, value in values.items():
        if isinstance(value, tuple) and not value[0] <= value[1] <= value[2]:
            raise InvalidSpec(
                f"{FIELDS[code].label}: low, likely and high are not in order.",
                "Enter them from the lowest to the highest.",
            )
    if number(values, "repair_p90") < number(values, "repair"):
        raise InvalidSpec("The repair time that one in ten exceeds is below the usual one.")
    if values["rate_date"]:
        try:
            date.fromisoformat(str(values["rate_date"]))
        except ValueError:
            raise InvalidSpec("The rate's date looks like 2026-11-29.") from None


def number(values: Values, code: str) -> float:
    """A plain number among the values."""
    value = values[code]
    return value if isinstance(value, float | int) else 0.0


def three(values: Values, code: str) -> tuple[float, float, float]:
    """A range among the values."""
    value = values[code]
    if isinstance(value, tuple):
        return value
    single = number(values, code)
    return single, single, single


def words(values: Values, code: str) -> str:
    """A choice or text among the values."""
    return str(values[code])


def bounded(text: str | None, default: float, bounds: tuple[float, float]) -> float:
    """A number from the URL; the default where it is none or lies outside the bounds."""
    try:
        value = float(text) if text is not None else default
    except ValueError:
        return default
    return value if bounds[0] <= value <= bounds[1] else default
