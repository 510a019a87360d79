"""From the inputs of the ROI page to the question that the model answers. Draws nothing."""

from dataclasses import dataclass
from datetime import date

from models.alternatives import Change
from models.assessment import Question
from models.errors import InvalidSpec
from models.gain import Gain, from_range, from_rounds, point
from models.gates import ArmFacts, Thresholds
from models.prices import Catalogue, FailurePrior
from models.purchase import Benefit, Cloud, Power, Purchase
from models.ranges import Range
from models.result import Origin
from models.risk import Evidence, stability
from models.service import Carried
from models.spread import LogNormal
from models.trial import Ceilings, ceiling_gain, ceilings
from pages.widgets.roi_arms import Known, arm_words
from pages.widgets.roi_evidence import Pair
from pages.widgets.roi_facts import engine_words, gpu_of
from pages.widgets.roi_fields import FIELDS, Values, number, three, words

SYMBOLS = {"USD": "$", "EUR": "€", "CNY": "CN¥", "GBP": "£", "JPY": "JP¥", "INR": "₹"}


@dataclass(frozen=True)
class Asked:
    """What stands outside the form.

    Attributes:
        benefit: What a gain brings.
        candidate: "arm", "hand" or "none".
        pair: The arms; None where everything is entered by hand.
        hand_origin: assumed, or predicted where another page sent the gain.
        hand_name: Name of that gain.
        others: Further arms of the same evaluation, read.
    """

    benefit: Benefit
    candidate: str
    pair: Pair | None
    hand_origin: Origin = "assumed"
    hand_name: str = ""
    others: tuple[Known, ...] = ()


def ceilings_of(values: Values) -> Ceilings:
    """Exposed shares of the step, as far as the inputs tell them."""
    return ceilings(
        calls=number(values, "calls"),
        decode_latency_us=number(values, "decode_us") or None,
        prefill_latency_us=number(values, "prefill_us") or None,
        tpot_ms=number(values, "tpot") or None,
        ttft_ms=number(values, "ttft") or None,
        output_tokens=number(values, "out_tokens"),
    )


def gain_by_hand(values: Values, code: str, origin: Origin, name: str = "") -> Gain:
    """A gain that was typed, from percent."""
    low, likely, high = (value / 100 for value in three(values, code))
    return from_range(low, likely, high, origin=origin, words=name or "entered by hand")


def build(
    asked: Asked,
    values: Values,
    catalogue: Catalogue,
    *,
    old: tuple[str, ...] = (),
) -> Question:
    """The question.

    Args:
        asked: Arms, benefit and candidate.
        values: The inputs, in US dollars and percent.
        catalogue: For the failure prior.
        old: Codes of figures older than 90 days.

    Returns:
        The question, in the chosen currency.

    Raises:
        InvalidSpec: Inputs do not go together, or a gain is missing; the sentence says which.
    """
    rate = exchange(values)
    limits = Thresholds(
        buy=number(values, "buy") / 100,
        dont=number(values, "dont") / 100,
        rounds=int(number(values, "min_rounds")),
        soak_hours=number(values, "min_soak"),
        errors=number(values, "errors") / 100,
    )
    pair = asked.pair
    ceiling = ceilings_of(values).factor
    gain = _gain(asked, values, ceiling)
    base_tok_s = _speed(values, pair)
    seen = (_evidence(values, "base"), _evidence(values, "cand"))
    case = Purchase(
        base_tok_s=base_tok_s,
        benefit=asked.benefit,
        gain=gain,
        stability=stability(
            _prior(values, catalogue),
            parts=(number(values, "parts_base"), number(values, "parts_cand")),
            seen=seen,
        ),
        repair=LogNormal(number(values, "repair"), number(values, "repair_p90")),
        price=_range(values, "price", rate),
        extras=number(values, "extras") * rate,
        labour=_range(values, "labour"),
        labour_rate=number(values, "labour_rate") * rate,
        resale=_range(values, "resale", 0.01),
        operations_a_year=number(values, "operations") * rate,
        demand=_range(values, "demand"),
        peak_to_average=number(values, "peak"),
        growth=number(values, "growth") / 100,
        input_per_output=number(values, "input_ratio"),
        token_value=_range(values, "token_value", rate),
        input_value=_range(values, "input_value", rate),
        cloud_rent=_range(values, "rent", rate),
        cloud=Cloud(
            tok_s=number(values, "cloud_speed") or base_tok_s,
            gpus=number(values, "cloud_gpus"),
            step_hours=number(values, "step") / 60,
            idle_hours=number(values, "idle"),
        ),
        wait_hours=_range(values, "wait"),
        hour_value=_range(values, "hour_value", rate),
        electricity=_range(values, "electricity", rate),
        pue=number(values, "pue"),
        power=(_power(values, "base"), _power(values, "cand")),
        months=int(number(values, "months")),
        discount=number(values, "discount") / 100,
        service_value=number(values, "service_value") * rate,
        incident_labour=number(values, "incident_labour") * rate,
        restart_loss=number(values, "restart_loss") * rate,
    )
    has_arm = asked.candidate == "arm" and pair is not None and pair.other is not None
    measured = pair.other if has_arm and pair is not None else None
    return Question(
        case=case,
        thresholds=limits,
        candidate=_facts(asked),
        carried=pair.carried if has_arm and pair is not None else (_first(pair), None),
        ceiling=ceiling,
        seen=seen[1],
        has_candidate=asked.candidate != "none",
        box_price=number(values, "box") * rate,
        box_resale=number(values, "box_resale") / 100,
        confounds=pair.confounds if has_arm and pair is not None else (),
        old_figures=tuple(FIELDS[code].label for code in old),
        warranty=words(values, "warranty"),
        engine=engine_words(measured) if measured is not None else "",
        engine_planned=words(values, "engine"),
        measured_on=measured.finished if measured is not None else "",
        person=words(values, "person"),
        others=_changes(asked, values),
        symbol=SYMBOLS.get(words(values, "currency"), "$"),
    )


def exchange(values: Values) -> float:
    """Units of the chosen currency for a dollar.

    Raises:
        InvalidSpec: Another currency without the date of its rate.
    """
    if words(values, "currency") == "USD":
        return 1.0
    if not words(values, "rate_date"):
        raise InvalidSpec(
            f"One dollar in {words(values, 'currency')} needs a rate and the rate's date.",
            "Enter both under Price, labour, resale.",
        )
    return number(values, "rate")


def rate_age_days(values: Values, today: date) -> int | None:
    """Age of the exchange rate; None for US dollars."""
    if words(values, "currency") == "USD" or not words(values, "rate_date"):
        return None
    return (today - date.fromisoformat(words(values, "rate_date"))).days


def _gain(asked: Asked, values: Values, ceiling: float | None) -> Gain:
    if asked.candidate == "none":
        if ceiling is None:
            raise InvalidSpec(
                "Without a candidate the ceiling speaks, and it is not known: it takes the calls a "
                "step, the latency of a message and the TPOT of the arm without the link.",
                "Enter the three under Ceiling of any link; the AllReduce page measures the "
                "latency.",
            )
        return ceiling_gain(ceiling)
    if asked.candidate == "hand" or asked.pair is None:
        return gain_by_hand(values, "gain", asked.hand_origin, asked.hand_name)
    facts = asked.pair.facts
    if asked.pair.gain is None and facts is not None and facts.validity == "invalid":
        # an invalid candidate has no gain, and needs none: the first gate speaks
        return point(0.0, origin=facts.origin, words="none: it is invalid")
    if asked.pair.gain is None:
        raise InvalidSpec(
            asked.pair.why_no_gain or "No gain follows from these arms.",
            "Choose two arms that share a load, or enter the gain by hand.",
        )
    return asked.pair.gain


def _speed(values: Values, pair: Pair | None) -> float:
    typed = number(values, "speed")
    if typed > 0:
        return typed
    return (pair.base_tok_s or 0.0) if pair is not None else 0.0


def _first(pair: Pair | None) -> Carried | None:
    return pair.carried[0] if pair is not None else None


def _facts(asked: Asked) -> ArmFacts | None:
    if asked.candidate == "arm" and asked.pair is not None:
        return asked.pair.facts
    return None if asked.candidate == "none" else ArmFacts(origin=asked.hand_origin)


def _prior(values: Values, catalogue: Catalogue) -> FailurePrior:
    found = catalogue.priors.get(words(values, "prior"))
    return found if found is not None else next(iter(catalogue.priors.values()))


def _evidence(values: Values, arm: str) -> Evidence:
    return Evidence(number(values, f"incidents_{arm}"), number(values, f"hours_{arm}"))


def _range(values: Values, code: str, factor: float = 1.0) -> Range:
    return Range(*three(values, code)).scaled(factor)


def _power(values: Values, arm: str) -> Power:
    return Power(number(values, f"busy_{arm}") / 1000, number(values, f"idle_{arm}") / 1000)


def _changes(asked: Asked, values: Values) -> tuple[Change, ...]:
    """Other arms of the evaluation, and what was entered by hand."""
    found: list[Change] = []
    pair = asked.pair
    for item in asked.others:
        if pair is None or item.arm.validity == "invalid":
            continue
        load = pair.base_load
        try:
            gain = from_rounds(
                pair.base.rounds(load),
                item.rounds(load),
                is_paired=False,
                origin=item.arm.origin,  # type: ignore[arg-type]
                assumed_spread=number(values, "spread") / 100,
            )
        except InvalidSpec:
            continue
        found.append(
            Change(
                f"arm-{item.arm.name}",
                arm_words(item.arm),
                gain,
                labour=Range(*three_of(number(values, "layout_hours"))),
                note=f"Concurrency {load}. {_cards_words(pair.base, item)}",
            )
        )
    for code, label in (("layout", "Another GPU layout"), ("software", "Software change")):
        if any(three(values, code)):
            found.append(
                Change(
                    code,
                    label,
                    gain_by_hand(values, code, "assumed"),
                    labour=Range(*three_of(number(values, f"{code}_hours"))),
                    note="Entered by hand.",
                )
            )
    return tuple(found)


def _cards_words(base: Known, item: Known) -> str:
    """What an alternative costs besides hours."""
    before, after = gpu_of(base)[1], gpu_of(item)[1]
    if before == after:
        return "Costs hours only."
    return f"Uses {after} GPUs, the baseline {before}: their price and power are not counted."


def three_of(value: float) -> tuple[float, float, float]:
    """One value as a range."""
    return value, value, value
