"""Gates and the rule, in every branch; the published study; degenerate inputs; words."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from economics_cases import LIGHT, PRIOR, measured, published, purchase
from hypothesis import given, settings
from hypothesis import strategies as st

from models.assessment import Assessment, Question, assess
from models.gain import Gain, assumed_around, from_range, point
from models.gates import ArmFacts, Thresholds
from models.ranges import Range, fixed
from models.remarks import remarks
from models.risk import Evidence, stability
from models.service import Carried, Load, carried, judge_load
from models.serving_slo import Slo
from models.trial import ceiling_gain, ceilings, trials
from models.use_cases import USE_CASES, use_case
from models.wording import amount, chance, compact, money, months, rate, share

GOOD = Carried("passed", 4, 125.0, "Concurrency 4 meets it.")
SEEN = Evidence(0, 48)


def asked(**changed) -> Question:
    """A candidate with everything that Buy asks for."""
    fields = {
        "case": purchase(),
        "candidate": ArmFacts("measured", completed=1000, failed=0, outputs="checked"),
        "carried": (GOOD, GOOD),
        "ceiling": 1.6,
        "seen": SEEN,
        "draws": 1500,
    }
    return Question(**(fields | changed))


def words_of(found: Assessment) -> str:
    parts = [found.verdict.sentence, *found.reasons_for, *found.reasons_against, *found.changes]
    parts += [*found.rollout, *(notice.text for notice in found.remarks)]
    parts += [gate.words for gate in found.gates]
    return "\n".join(parts)


def test_buy_needs_everything_and_gets_it():
    found = assess(asked())
    assert found.verdict.word == "Buy"
    assert [gate.state for gate in found.gates] == ["passed"] * 3
    assert len(found.reasons_for) == len(found.reasons_against) == 3
    assert "shown over 5 rounds" in words_of(found)


@pytest.mark.parametrize(
    ("change", "lacks"),
    [
        ({"case": purchase(gain=published())}, "the gain is published"),
        (
            {"case": purchase(gain=assumed_around(0.22, rounds=1, origin="measured"))},
            "only one round",
        ),
        (
            {"case": purchase(gain=assumed_around(0.22, rounds=2, origin="imported"))},
            "only 2 rounds",
        ),
        ({"case": purchase(gain=from_range(0.2, 0.25, 0.3, origin="predicted"))}, "predicted"),
        ({"case": purchase(gain=from_range(0.2, 0.25, 0.3))}, "assumed"),
        ({"ceiling": None}, "ceiling of any link is not known"),
        ({"ceiling": 1.1}, "above what any link can give"),
        ({"seen": Evidence()}, "no hour of sustained load"),
        ({"seen": Evidence(0, 10)}, "only 10 h"),
        ({"candidate": None}, "correctness is not shown"),
        ({"candidate": ArmFacts("measured", completed=9, failed=0)}, "correctness is not shown"),
        ({"carried": (None, None)}, "the service level is not shown"),
    ],
)
def test_what_is_missing_turns_buy_into_measure_more(change, lacks):
    found = assess(asked(**change))
    assert found.outcome.p_positive >= 0.8
    assert found.verdict.word == "Measure more"
    assert any(lacks in phrase for phrase in found.verdict.missing)


def test_a_gain_above_the_ceiling_is_flagged():
    found = assess(asked(ceiling=1.1))
    assert any("measurement is broken" in reason for reason in found.reasons_against)


@settings(deadline=None, max_examples=20)
@given(
    st.sampled_from(["published", "predicted", "assumed", "described"]),
    st.floats(0.05, 2.0),
    st.integers(0, 1),
)
def test_a_gain_that_nobody_measured_here_never_yields_buy(origin, gain, kind):
    low = gain * 0.9
    spread = (
        from_range(low, gain, gain * 1.1, origin=origin)
        if kind
        else assumed_around(math.log1p(gain), rounds=1, origin=origin)
    )
    found = assess(
        asked(case=purchase(gain=spread), ceiling=9.0, draws=300), with_alternatives=False
    )
    assert found.verdict.word != "Buy"


@settings(deadline=None, max_examples=20)
@given(st.floats(0.01, 2.0), st.floats(0.001, 0.4), st.integers(0, 100))
def test_a_candidate_with_wrong_values_never_passes(gain, spread, hours):
    wrong = ArmFacts("measured", "invalid", ("Fixed prompts came back wrong.",))
    case = purchase(gain=Gain("rounds", math.log1p(gain), spread, 4.0, None, 5, "measured"))
    question = asked(case=case, candidate=wrong, seen=Evidence(0, hours), draws=300)
    found = assess(question, with_alternatives=False)
    assert found.gates[0].state == "failed"
    assert found.verdict.word == "Don't"
    assert "Fixed prompts came back wrong" in found.verdict.sentence
    assert [gate.state for gate in found.gates[1:]] == ["not asked", "not asked"]


def test_errors_fail_the_first_gate_and_the_limit_is_editable():
    failing = ArmFacts("measured", completed=95, failed=5, outputs="checked")
    assert assess(asked(candidate=failing)).verdict.word == "Don't"
    tolerant = asked(candidate=failing, thresholds=Thresholds(errors=0.1))
    assert assess(tolerant).verdict.word == "Buy"


def test_no_load_at_the_service_level_fails_the_second_gate():
    none = Carried("failed", None, None, "No measured load meets TTFT 500 ms.")
    found = assess(asked(carried=(GOOD, none)))
    assert found.verdict.word == "Don't"
    assert "No measured load meets" in found.verdict.sentence
    assert found.gates[2].state == "not asked"


def test_not_yet_names_the_break_even():
    # the price alone decides: a good offer would pay
    dear = purchase(price=Range(400, 2250, 2700), labour=fixed(1.0))
    found = assess(asked(case=dear))
    assert found.verdict.word == "Not yet"
    assert found.verdict.turning == "price"
    assert re.search(r"price of the upgrade alone would turn that below \$[\d,]+", words_of(found))


def test_dont_where_no_input_helps():
    found = assess(asked(case=purchase(**LIGHT)))
    assert found.verdict.word == "Don't"
    assert "no single input" in found.verdict.sentence
    assert "busy" in " ".join(found.reasons_against)


def test_an_open_case_says_what_decides_and_how_many_rounds():
    open_gain = Gain("rounds", 0.08, error=0.05, df=2.0, rounds=3, origin="measured")
    found = assess(asked(case=purchase(gain=open_gain), draws=4000))
    assert 0.2 < found.outcome.p_positive < 0.8
    assert found.verdict.word == "Measure more"
    assert "gain decides" in found.verdict.sentence
    assert found.verdict.more_rounds > 0


def test_thresholds_turn_the_verdict():
    strict = asked(thresholds=Thresholds(rounds=10, soak_hours=100))
    found = assess(strict)
    assert found.verdict.word == "Measure more"
    assert found.verdict.more_rounds == 5
    assert found.verdict.more_soak_hours == 52


def test_the_published_study_with_a_bridge():
    """The lightly used box ends in Don't, the same box at full demand in Measure more."""
    facts = {"gain": published(), "benefit": "cloud", "base_tok_s": 119.2}
    facts["stability"] = stability(PRIOR, parts=(2, 3), seen=(Evidence(), Evidence()))
    common = {"candidate": ArmFacts("published"), "seen": Evidence(), "ceiling": None}
    light = assess(asked(case=purchase(**facts, **LIGHT), **common))
    assert light.verdict.word == "Don't"
    assert "serves all that is asked for" in " ".join(light.reasons_against)
    full = assess(asked(case=purchase(**facts), **common))
    assert full.verdict.word == "Measure more"
    assert "one round" in full.verdict.sentence
    assert full.outcome.p_positive > 0.8
    for found in (light, full):
        assert found.reasons_for
        assert found.reasons_against
        assert found.changes


def test_without_a_candidate_the_ceiling_speaks():
    poor = assess(
        asked(
            case=purchase(gain=ceiling_gain(1.02), price=Range(2000, 3000, 4000)),
            candidate=None,
            carried=(GOOD, None),
            has_candidate=False,
            seen=Evidence(),
            ceiling=1.02,
        )
    )
    assert poor.verdict.word == "Don't"
    assert "even at its ceiling" in poor.verdict.sentence
    rich = assess(
        asked(
            case=purchase(gain=ceiling_gain(1.5)),
            candidate=None,
            carried=(GOOD, None),
            has_candidate=False,
            seen=Evidence(),
            ceiling=1.5,
        )
    )
    assert rich.verdict.word == "Measure more"
    assert "try it first" in rich.verdict.sentence


def test_ceilings_of_the_link_off_arm_and_the_cheapest_trial():
    found = ceilings(
        calls=56,
        decode_latency_us=28,
        prefill_latency_us=None,
        tpot_ms=15.68,
        ttft_ms=None,
        output_tokens=256,
    )
    assert found.decode == pytest.approx(0.1)
    assert found.factor == pytest.approx(1 / 0.9)
    both = ceilings(
        calls=56,
        decode_latency_us=28,
        prefill_latency_us=2000,
        tpot_ms=15.68,
        ttft_ms=280,
        output_tokens=101,
    )
    assert both.prefill == pytest.approx(0.4)
    assert 0.1 < both.request < 0.4
    nothing = ceilings(
        calls=0,
        decode_latency_us=None,
        prefill_latency_us=None,
        tpot_ms=None,
        ttft_ms=None,
        output_tokens=1,
    )
    assert nothing.factor is None
    ways = trials(price=100, resale=0.5, labour=60, rent=0.4, gpus=2)
    assert [round(way.cost, 2) for way in ways] == [0.8, 110]
    assert "Rent 2 cards" in ways[0].words
    assert len(trials(price=100, resale=0.5, labour=0, rent=None, gpus=2)) == 1


DEGENERATE = {
    "no_gain": {"gain": measured(0.9)},
    "free": {"price": fixed(0.0), "labour": fixed(0.0)},
    "no_demand": {"demand": fixed(0.0)},
    "horizon_zero": {"months": 0},
    "few_rounds": {"gain": assumed_around(0.2, rounds=1, origin="measured")},
    "no_benefit": {"operations_a_year": 1e5},
    "no_speed": {"base_tok_s": 0.0},
    "demand_does_not_bind": LIGHT,
    "hour_without_value": {"benefit": "waiting", "wait_hours": fixed(1.0)},
}


@pytest.mark.parametrize("code", DEGENERATE)
def test_every_degenerate_input_has_its_sentence(code):
    found = assess(asked(case=purchase(**DEGENERATE[code]), seen=Evidence(), ceiling=None))
    codes = {notice.code: notice.text for notice in found.remarks}
    assert code in codes
    assert codes[code].endswith(".")
    assert "no_soak" in codes
    assert not re.search(r"\b(nan|inf)\b", words_of(found), re.IGNORECASE)
    numbers = [*found.outcome.npv, *found.outcome.monthly, found.typical.npv]
    assert np.isfinite(numbers).all()


@pytest.mark.parametrize(
    ("minutes", "words"), [(0.0, "0 minutes"), (1.2, "1 minute"), (6.7, "7 minutes")]
)
def test_minutes_are_counted_in_words(minutes, words):
    case = purchase(**LIGHT)
    typical = replace(assess(asked(case=case)).typical, minutes_a_day=minutes)
    (text,) = [
        notice.text
        for notice in remarks(case, typical, Evidence())
        if notice.code == "demand_does_not_bind"
    ]
    assert f"about {words} a day less to wait" in text


def test_all_degenerate_inputs_at_once_divide_by_nothing():
    case = purchase(
        gain=point(0.0),
        price=fixed(0.0),
        labour=fixed(0.0),
        resale=fixed(0.0),
        demand=fixed(0.0),
        base_tok_s=0.0,
        months=0,
        token_value=fixed(0.0),
        electricity=fixed(0.0),
    )
    found = assess(asked(case=case, seen=Evidence(), ceiling=None, candidate=None))
    assert found.outcome.npv == (0, 0, 0, 0, 0)
    assert not re.search(r"\b(nan|inf)\b", words_of(found), re.IGNORECASE)


def test_loads_are_judged_by_requests_then_by_percentiles():
    slo = Slo(1000, 50, 0.95)
    requests = ((np.array([500.0] * 97 + [2000.0] * 3), np.array([20.0] * 100)),)
    assert judge_load(Load(1, 50, rounds=requests), slo)[0] == "passed"
    assert judge_load(Load(1, 50, rounds=requests, completed=80, failed=20), slo)[0] == "failed"
    slow = ((np.array([500.0] * 90 + [2000.0] * 10), np.array([20.0] * 100)),)
    assert judge_load(Load(1, 50, rounds=slow), slo)[0] == "failed"
    p99 = Load(1, 50, ttft={"p99": 900}, tpot={"p99": 40})
    assert judge_load(p99, slo)[0] == "passed"
    medians = Load(1, 50, ttft={"median": 900}, tpot={"median": 40})
    assert judge_load(medians, slo)[0] == "not known"
    over = Load(1, 50, ttft={"median": 1100}, tpot={"median": 40})
    assert judge_load(over, slo)[0] == "failed"
    # a P99 over the limit says nothing about 95 % of the requests
    tail = Load(1, 50, ttft={"median": 500, "p99": 1500}, tpot={"median": 40})
    assert judge_load(tail, slo)[0] == "not known"
    # but where nothing at all lies inside, nothing speaks for it
    assert judge_load(Load(1, 50, ttft={"p99": 1500}, tpot={"p99": 40}), slo)[0] == "failed"
    assert judge_load(Load(1, 50, ttft={"median": 1}), slo)[0] == "not known"


def test_the_load_that_counts_follows_the_use():
    loads = [
        Load(1, 50.0, ttft={"p99": 300}, tpot={"p99": 20}),
        Load(4, 150.0, ttft={"p99": 900}, tpot={"p99": 40}),
        Load(16, 300.0, ttft={"p99": 4000}, tpot={"p99": 90}),
        Load(32, 500.0, ttft={"p99": 900}, tpot={"p99": 40}),
    ]
    slo = Slo(1000, 50)
    online = carried(loads, "within_level", slo)
    assert (online.concurrency, online.tok_s) == (4, 150.0)  # never the one beyond a failed load
    assert "concurrency 16 does not" in online.words
    assert carried(loads, "lowest", slo).concurrency == 1
    fast = carried(loads, "fastest", None)
    assert (fast.concurrency, fast.state) == (32, "not asked")
    none = carried(loads, "within_level", Slo(10, 1))
    assert (none.state, none.concurrency, none.tok_s) == ("failed", None, None)
    assert carried([], "within_level", slo).state == "not known"


def test_the_uses():
    assert set(USE_CASES) == {"development", "online", "serving", "batch"}
    assert use_case("online").decides[0] == ("ttft", "p99")
    with pytest.raises(Exception, match="no use called"):
        use_case("mining")


def test_words_never_print_what_does_not_exist():
    for value in (None, math.nan, math.inf):
        for text in (money(value), compact(value), share(value), chance(value), months(value, 36)):
            assert not re.search(r"nan|inf", text)
        assert rate(value) == "does not exist"
        assert amount("price", value) == "not known"
    assert money(-3.5) == "-$3.50"
    assert money(-0.00001) == "$0.0000"
    assert money(1234.5) == "$1,234"
    assert chance(0.998) == "over 99 %"
    assert chance(0.002) == "under 1 %"
    assert rate(1.201) == "120.1 % a year"
    assert rate(70.0) == "over 1,000 % a year"
    assert months(13.333, 36) == "13.3 months"
    assert compact(2.05e6) == "2.05M"
    assert amount("electricity", 0.1872) == "$0.19/kWh"
