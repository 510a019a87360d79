"""The ROI page: the published study at both demands, measured arms, no candidate, scenarios."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import altair as alt
import pandas as pd
import pytest
from roi_runs import evaluation, serving, soak
from streamlit.testing.v1 import AppTest

from db import jobs, scenarios
from models.assessment import assess
from models.errors import ReadOnly
from models.purchase import INPUTS
from pages.widgets import catalogue_store, report, roi_export, roi_more, roi_scenarios
from pages.widgets.roi_arms import Reader
from pages.widgets.roi_case import resolve
from pages.widgets.roi_fields import FIELDS, parse, text_of
from settings import settings

BARE = "from pages.roi_page import render\nrender()"
FULL = {"demand": "10000000,12000000,15000000", "peak": "1.5"}
STUDY = "nvlink-on-4x3090"
TODAY = datetime(2026, 11, 29, tzinfo=UTC)
CEILING = {"calls": "129", "decode_us": "40", "prefill_us": "3000"}


def opened(**query: str) -> AppTest:
    at = AppTest.from_string(BARE, default_timeout=60)
    for name, value in query.items():
        at.query_params[name] = value
    at.run()
    assert not at.exception
    return at


def texts(at: AppTest) -> str:
    kinds = (at.markdown, at.caption, at.info, at.warning, at.error)
    said = "\n".join(str(element.value) for kind in kinds for element in kind)
    # as a person reads it: escapes and invisible signs of `pages.widgets.plain` are gone
    return re.sub(r"\\([^\w\s])", r"\1", said).replace("\u2060", "")


def charts(at: AppTest) -> list[str]:
    return [element.proto.alt for element in at.get("vega_lite_chart")]


def word(at: AppTest) -> str:
    found = re.search(r"^## :\w+\[. (.+)\]$", texts(at), re.MULTILINE)
    assert found, "no verdict"
    return found[1]


def frame_with(at: AppTest, column: str) -> pd.DataFrame:
    tables = (*at.dataframe, *at.table)
    found = [each.value for each in tables if column in each.value.columns]
    assert found, f"no table has the column {column!r}"
    return found[-1]


def button(at: AppTest, label: str) -> Any:
    return next(each for each in at.button if each.label == label)


def answer(database, **query: str):
    """The assessment of a state, without drawing."""
    catalogue, _ = catalogue_store.current(database)
    state = resolve(Reader(database), catalogue, query, TODAY.date())
    return state, assess(state.question(catalogue))


def test_a_lightly_used_box_with_a_bridge_ends_in_dont(database):
    at = opened(source=STUDY)
    assert word(at) == "Don't"
    said = texts(at)
    assert "no single input within its likely range changes that" in said
    assert "serves all that is asked for" in said
    assert "published" in said
    assert at.metric[1].value == "0 %"
    assert frame_with(at, "breaks even at")["breaks even at"].str.contains("no price").any()
    assert any("moves the value most" in words for words in charts(at))


def test_the_same_box_at_full_demand_ends_in_measure_more(database):
    at = opened(source=STUDY, **FULL)
    assert word(at) == "Measure more"
    said = texts(at)
    assert "only one round an arm stands behind it" in said
    assert "Buy still lacks" in said
    assert "link and kernel change together" in said
    assert "measure both arms yourself" in said  # nothing to queue on somebody else's machine
    assert len(charts(at)) == 4  # fan, payback, tornado, alternatives
    alternatives = frame_with(at, "half paid back")
    assert list(alternatives["alternative"])[:2] == ["Do nothing", "The link"]
    assert "C: TP=4 on all GPUs" in set(alternatives["alternative"])
    assert "Uses 4 GPUs, the baseline 2" in " ".join(alternatives["note"])


def test_no_studies_and_no_runs_leave_everything_by_hand(empty_database):
    at = opened()
    assert "assumed" in texts(at)
    assert word(at) == "Don't"
    assert "is assumed" in texts(at)


def test_measured_arms_with_a_soak_and_a_known_ceiling_may_end_in_buy(database):
    evaluation(
        database,
        serving("link-off", "e1", tok_s=100),
        serving("link-on", "e1", tok_s=125),
        soak("link-on", "e1", hours=48),
    )
    at = opened(source="e1", **FULL, calls="129", decode_us="100", prefill_us="1000")
    said = texts(at)
    assert word(at) == "Buy"
    assert said.count("✓ passed") == 3
    assert "shown over 3 rounds an arm" in said
    assert "48 h without an incident show only that failures are at least 16 h apart" in said
    assert "100% of requests meet it in the worst round" in said
    assert "vLLM 0.25.1" in said


def test_incidents_of_a_soak_enter_the_form_and_the_money(database):
    evaluation(
        database,
        serving("link-off", "e1", tok_s=100),
        serving("link-on", "e1", tok_s=125),
        soak("link-on", "e1", hours=48, incidents=2),
    )
    at = opened(source="e1", **FULL, **CEILING)
    assert "2 incidents in 48 h" in texts(at)
    stability = frame_with(at, "hours under load").set_index("arm")
    assert stability.loc["candidate", "incidents"] == 2
    clean, _ = answer(database, source="e1", incidents_cand="0", **FULL)[1], None
    dirty = answer(database, source="e1", **FULL)[1]
    assert dirty.outcome.npv[2] < clean.outcome.npv[2]


def test_a_candidate_with_wrong_outputs_is_out(database):
    evaluation(
        database,
        serving("link-off", "e1", tok_s=100),
        serving("link-on", "e1", tok_s=400, validity="invalid"),
    )
    at = opened(source="e1", **FULL)
    said = texts(at)
    assert word(at) == "Don't"
    assert "The candidate is invalid: Output check after the load: tokens repeat." in said
    assert not at.metric, "no money is shown for a candidate that is out"
    assert not charts(at)
    state, found = answer(database, source="e1", **FULL)
    paper = roi_export.Paper(found, state.subject, {}, state.values, state.given, TODAY)
    for page in (roi_export.one_page(paper), roi_export.full(paper)):
        assert b"tokens repeat" in page
        assert b"<svg" not in page


def resolve_only(database, **query: str):
    catalogue, _ = catalogue_store.current(database)
    return resolve(Reader(database), catalogue, query, TODAY.date()), catalogue


def test_no_load_at_the_service_level_fails_the_second_gate(database):
    evaluation(
        database,
        serving("link-off", "e1", tok_s=100),
        serving("link-on", "e1", tok_s=125, ttft_ms=900.0),
    )
    at = opened(source="e1", ttft_ms="600", **FULL)
    assert word(at) == "Don't"
    assert "No measured load meets TTFT 600 ms" in texts(at)
    assert "An earlier gate failed" in texts(at)


def test_more_rounds_are_queued_on_the_arms_as_measured(database):
    evaluation(
        database,
        serving("link-off", "e1", tok_s=100, rounds=1),
        serving("link-on", "e1", tok_s=125, rounds=1),
    )
    at = opened(source="e1", **FULL)
    assert word(at) == "Measure more"
    button(at, "Queue it").click().run()
    assert not at.exception
    queued = jobs.list_jobs(database)
    button(at, "Queue it").click().run()
    assert len(jobs.list_jobs(database)) == len(queued), "a second click starts nothing more"
    kinds = sorted(job["kind"] for job in queued)
    assert kinds == ["serving"] * 4 + ["soak"]
    serving_jobs = [job for job in queued if job["kind"] == "serving"]
    assert {job["evaluation"]["arm"] for job in serving_jobs} == {"link-off", "link-on"}
    assert {job["evaluation"]["id"] for job in queued} == {"e1"}
    assert sorted(job["spec"]["round"] for job in serving_jobs) == [1, 1, 2, 2]
    assert next(job for job in queued if job["kind"] == "soak")["spec"]["duration_s"] == 24 * 3600


def test_a_demo_queues_and_keeps_nothing(database, monkeypatch):
    evaluation(
        database,
        serving("link-off", "e1", tok_s=100, rounds=1),
        serving("link-on", "e1", tok_s=125, rounds=1),
    )
    monkeypatch.setenv("LINKWORTH_READ_ONLY", "1")
    settings.cache_clear()
    at = opened(source="e1", **FULL)
    assert "This is a demo" in texts(at)
    assert not any(each.label in ("Queue it", "Keep", "Delete") for each in at.button)
    with pytest.raises(ReadOnly):
        roi_scenarios.save(database, "x", {})
    with pytest.raises(ReadOnly):
        roi_scenarios.delete(database, "x")


def test_without_a_candidate_the_page_asks_for_the_ceiling_then_answers(database):
    at = opened(source=STUDY, cand="none")
    assert "the ceiling speaks, and it is not known" in texts(at)
    assert not charts(at)
    dont = opened(source=STUDY, cand="none", **CEILING)
    assert word(dont) == "Don't"
    assert "even at its ceiling" in texts(dont)
    more = opened(source=STUDY, cand="none", **CEILING, **FULL)
    assert word(more) == "Measure more"
    said = texts(more)
    assert "try it first" in said
    assert "Rent 2 cards with that link for 1 h" in said
    assert "sell it again" in said
    ceilings = frame_with(more, "ceiling (%)").set_index("phase")["ceiling (%)"]
    # 129 calls x 40 us in 27.1 ms
    assert ceilings["decode step"] == pytest.approx(100 * (1 / (1 - 5.16 / 27.1) - 1), abs=0.01)


def test_a_predicted_gain_from_another_page_never_yields_buy(database):
    at = opened(
        gain_low="20", gain_high="40", origin="predicted", gain_name="TP=2 <b>bold</b>", **FULL
    )
    assert word(at) == "Measure more"
    assert "predicted" in texts(at)
    assert at.query_params.get("gain_low") in ("20", ["20"])


def test_words_of_a_link_are_no_markup(database):
    at = opened(source=STUDY, person="![x](http://elsewhere/x.png) :material/home: <b>")
    raw = "\n".join(str(element.value) for element in at.markdown)
    assert "](http" not in raw.replace("\\]", "")
    assert "elsewhere" in raw


def test_an_assumed_gain_is_entered_in_the_form(database):
    at = opened(source=STUDY, cand="hand", gain="5,10,20")
    assert "is assumed" in texts(at)
    labels = {each.label for each in at.number_input}
    assert "Gain (%): low" in labels


def test_published_ranges_stay_ranges(database):
    state, found = answer(database, source="two-gpu-interconnect-evaluation")
    gain = found.question.case.gain
    assert (gain.kind, gain.origin) == ("range", "published")
    assert gain.quantile([0.0001, 0.9999]) == pytest.approx([0.08, 0.10], abs=2e-4)
    assert state.asked.pair.base_load == 1  # at 4 the mean TTFT is over two seconds
    assert "no absolute values" in " ".join(state.asked.pair.notes)


def test_the_form_recomputes_only_when_asked_and_writes_the_url(database):
    at = opened(source=STUDY)
    before = at.metric[0].value
    labour = next(each for each in at.number_input if each.label.startswith("An hour of labour"))
    labour.set_value(300.0)
    assert at.metric[0].value == before
    button(at, "Work it out").click().run()
    assert not at.exception
    assert at.query_params["labour_rate"] in ("300", ["300"])
    assert at.metric[0].value != before


def test_inputs_that_do_not_go_together_are_refused_with_a_sentence(database):
    at = opened(source=STUDY)
    low = next(each for each in at.number_input if each.label.startswith("Price of the upgrade"))
    low.set_value(5000.0)
    button(at, "Work it out").click().run()
    assert "low, likely and high are not in order" in texts(at)
    assert "price" not in at.query_params


def test_another_currency_needs_a_dated_rate(database):
    at = opened(source=STUDY, currency="EUR", rate="0.9")
    assert "needs a rate and the rate's date" in texts(at)
    dated = opened(source=STUDY, currency="EUR", rate="0.5", rate_date="2026-11-01", **FULL)
    assert "€" in str(dated.metric[0].value)
    euro = answer(
        database, source=STUDY, currency="EUR", rate="0.5", rate_date="2026-11-01", **FULL
    )[1]
    dollar = answer(database, source=STUDY, **FULL)[1]
    assert euro.outcome.npv[2] == pytest.approx(dollar.outcome.npv[2] / 2, rel=1e-6)


@pytest.mark.parametrize(
    "query",
    [
        {"months": "0"},
        {"demand": "0,0,0"},
        {"price": "0,0,0", "labour": "0,0,0", "resale": "0,0,0"},
        {"speed": "0", "source": "hand"},
        {"cand": "hand", "gain": "-20,-10,-5"},
        {"benefit": "waiting", "wait": "0,0,0"},
        {"price": "nan,1,2", "months": "inf", "demand": "<script>", "use": "x", "base": "nobody"},
        {"operations": "1000000"},
        {"peak": "24", "growth": "1000", "months": "120"},
    ],
)
def test_degenerate_and_hostile_states_answer_with_sentences(database, query):
    at = opened(
        source=query.get("source", STUDY), **{k: v for k, v in query.items() if k != "source"}
    )
    said = texts(at) + " ".join(str(metric.value) for metric in at.metric)
    assert not re.search(r"\b(nan|inf)\b", said, re.IGNORECASE)
    assert word(at)


def test_a_slider_answers_for_a_known_input(database):
    at = opened(source=STUDY, **FULL)
    _, found = answer(database, source=STUDY, **FULL)
    assert [each.label for each in at.select_slider] == [
        INPUTS[swing.name][0] for swing in found.swings[:4]
    ]
    options = roi_more.options_of(found, "gain")
    assert options[0] is None
    at.select_slider[0].set_value(options[1]).run()
    assert not at.exception
    changed = [metric for metric in at.metric if metric.delta]
    assert changed, "the sliders' figures tell the change"
    assert at.metric[0].value != changed[-1].value


def test_scenarios_are_kept_opened_duplicated_compared_and_deleted(database):
    at = opened(source=STUDY, months="24")
    at.text_input(key="roi-name").set_value("two years")
    button(at, "Keep").click().run()
    kept = scenarios.list_scenarios(database, "roi")
    assert [row["name"] for row in kept] == ["two years"]
    assert scenarios.load(database, kept[0]["id"])["state"]["query"]["months"] == "24"
    button(at, "Duplicate").click().run()
    names = {row["name"] for row in scenarios.list_scenarios(database, "roi")}
    assert names == {"two years", "two years, copy"}
    roi_scenarios.save(database, "full", {"source": STUDY, **FULL})
    fresh = opened(source=STUDY)
    ids = [row["id"] for row in scenarios.list_scenarios(database, "roi")]
    fresh.multiselect(key="roi-compare").set_value(ids).run()
    compared = frame_with(fresh, "scenario").set_index("scenario")
    assert compared.loc["full", "verdict"] == "Measure more"
    assert compared.loc["two years", "verdict"] == "Don't"
    chosen = next(
        row["id"] for row in scenarios.list_scenarios(database, "roi") if row["name"] == "full"
    )
    fresh.selectbox(key="roi-kept").set_value(chosen).run()
    button(fresh, "Open").click().run()
    assert word(fresh) == "Measure more"
    button(fresh, "Delete").click().run()
    assert len(scenarios.list_scenarios(database, "roi")) == 2


def test_a_copys_name_is_always_free(database):
    first = roi_scenarios.save(database, "a", {"months": "12"})
    names = {
        scenarios.load(database, roi_scenarios.duplicate(database, first))["name"] for _ in "123"
    }
    assert names == {"a, copy", "a, copy 2", "a, copy 3"}


def test_exports_hold_every_assumption_and_escape_everything(database):
    state, found = answer(database, source=STUDY, person="<img src=x>", **FULL)
    paper = roi_export.Paper(
        found, "<script>alert(1)</script>", {"source": STUDY}, state.values, state.given, TODAY
    )
    content = json.loads(roi_export.as_json(paper))
    assert set(content["inputs"]) == set(state.values)
    assert content["inputs"]["price"]["value"] == [40, 100, 200]
    assert content["verdict"]["word"] == "Measure more"
    assert content["seed"] == found.question.seed
    assert len(content["assumptions"]) == len(state.values)
    assert all(row["source"] for row in content["assumptions"])
    for page in (roi_export.one_page(paper).decode(), roi_export.full(paper).decode()):
        assert "<script>" not in page
        assert "<img src=x>" not in page
        assert "<svg" in page
        assert "Measure more" in page
        assert not re.search(r"(?:src|href)=\"(?!#)", page)  # nothing is loaded from elsewhere
    assert "Every assumption" in roi_export.full(paper).decode()


def test_report_blocks_are_escaped_and_empty_cells_stay_empty():
    frame = pd.DataFrame({"a<b": ["<i>", None], "n": [1.5, float("nan")]})
    table = report.table(frame)
    assert "<i>" not in table
    assert "nan" not in table
    assert "None" not in table
    chart = alt.Chart(pd.DataFrame({"x": [1], "y": [2]})).mark_bar().encode(x="x:Q", y="y:Q")
    figure = report.picture(chart, 'a "quoted" takeaway', "below")
    assert "&quot;quoted&quot;" in figure
    assert report.bullets([], "Nothing.") == "<p>Nothing.</p>"
    assert b"@page { size: A4" in report.document("t", [report.heading("h")], is_one_page=True)


def test_the_url_keeps_only_what_differs():
    price = FIELDS["price"]
    assert parse(price, "40,100,200") == (40, 100, 200)
    assert parse(price, "5") == (5, 5, 5)
    for bad in ("200,100,40", "a", "1,2", "nan", "-1,2,3", "1e99"):
        assert parse(price, bad) is None
    assert parse(FIELDS["months"], "1,2") is None
    assert text_of((1e7, 1.2e7, 1.5e7)) == "10000000,12000000,15000000"
    assert text_of(0.1872) == "0.1872"


def test_figures_of_the_catalogue_count_until_somebody_replaces_them(database):
    row = {"label": "B", "unit": "$", "value": 900, "source": "my seller", "date": "2026-11-28"}
    catalogue_store.keep(database, "prices", "bridge-3090", row)
    state, found = answer(database, source=STUDY)
    assert state.values["price"] == (900, 900, 900)
    assert state.given["price"].source == "my seller"
    assert "price" not in state.old
    assert "box" in state.old
    assert found.question.case.price.likely == 900


def test_measured_power_and_latencies_become_defaults(database):
    evaluation(database, serving("link-off", "e1", tok_s=100), serving("link-on", "e1", tok_s=125))
    state, _ = resolve_only(database, source="e1")
    # 600 J a token over 100 tok/s x 100 tok/s
    assert state.values["busy_base"] == pytest.approx(600, rel=0.03)
    assert "measured" in state.given["busy_base"].source
    assert state.values["parts_base"] == 2
    assert state.values["parts_cand"] == 3
    assert state.values["tpot"] == pytest.approx(40)
