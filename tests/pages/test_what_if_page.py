"""The What-if page without a GPU, from measured points, for other links, and where it refuses."""

import json
import re
from urllib.parse import parse_qs, urlparse

import pytest
from streamlit.testing.v1 import AppTest

from db import hosts, jobs, runs
from models.result import Gpu, Measurement, Result, Tool
from pages import PAGES, Entry
from pages.charts import what_if as pictures
from pages.widgets import offered, what_if_sources
from settings import SHIPPED_DATA

MODEL = json.loads((SHIPPED_DATA / "models" / "qwen2.5-14b.json").read_text())
H200 = {
    "hostname": "fedcba9876543210",
    "gpus": [{"index": n, "uuid": f"GPU-{n}", "name": "NVIDIA H200"} for n in range(2)],
}


def serving_run(tp, tpot_ms, *, concurrency=4, link=None, args=None, **changes):
    """A served run of Qwen2.5-14B; tpot_ms: one value a round."""
    rows = [
        Measurement(
            metric="tpot",
            statistic="median",
            unit="ms",
            value=value,
            round=number,
            dims={"concurrency": concurrency, "input_len": 1024, "output_len": 256},
            definition="vllm:tpot:2",
        )
        for number, value in enumerate(tpot_ms)
    ]
    arm = {"gpus": list(range(tp)), "tp": tp, "replicas": 1, "engine_args": args or {}}
    fields = {
        "kind": "serving",
        "origin": "measured",
        "title": f"Qwen2.5-14B TP={tp}",
        "spec": {
            "kind": "serving",
            "model_config_json": MODEL,
            "model_name": "Qwen2.5-14B",
            "arm": {**arm, "link": link},
        },
        "host": H200,
        "tool": Tool(name="linkworth"),
        "measurements": rows,
    }
    return Result(**(fields | changes))


def sweep(*, mode="graph", link="off", latency_us=12.0, title="Sweep"):
    rows = [
        Measurement(
            metric="allreduce_latency",
            statistic="median",
            unit="us",
            value=latency_us + size / 20_000,
            round=0,
            dims={"bytes": size, "mode": mode, "ranks": 2, "link": link},
            definition=f"linkworth:allreduce-{mode}:1",
        )
        for size in (1024, 16_384, 262_144, 4_194_304, 67_108_864)
    ]
    return Result(
        kind="allreduce",
        origin="measured",
        title=title,
        spec={"kind": "allreduce", "link": link},
        host=H200,
        tool=Tool(name="linkworth"),
        measurements=rows,
    )


def said(at: AppTest) -> str:
    return "\n".join(part.value for part in (*at.markdown, *at.warning, *at.info, *at.caption))


def alts(at: AppTest) -> list[str]:
    return [chart.proto.alt for chart in at.get("vega_lite_chart")]


def select(at: AppTest, label: str):
    return next(box for box in at.selectbox if box.label == label)


def test_from_the_catalogue_without_any_run(empty_database, open_page):
    at = open_page("what-if")
    assert not at.exception
    assert at.title[0].value == "What-if"
    text = said(at)
    assert "predicted" in text
    assert "**TP=2 would make a token" in text
    assert "nothing measured" in text
    assert "not calibrated" in text  # two dense models only
    assert any(alt.startswith("Predicted TPOT is shortest at TP=8") for alt in alts(at))
    assert any("% off in the median" in alt for alt in alts(at))
    assert "Time to first token is not predicted" in text
    assert not at.query_params


def test_with_the_shipped_studies(database, open_page):
    at = open_page("what-if")
    assert not at.exception
    assert len(alts(at)) == 6


def test_without_a_model_the_answer_s_place_says_what_is_missing(empty_database, open_page):
    at = open_page("what-if", model="upload")
    assert not at.exception
    assert "The answer comes here once a model is given." in [one.value for one in at.info]
    assert not at.get("vega_lite_chart")


def test_the_answer_says_what_was_asked(empty_database, open_page):
    at = open_page("what-if", c="8")
    asked = "vLLM, bf16 weights; 8 requests at a time, 1,024 tokens in, 256 out; TP 1, 2, 4, 8; "
    assert any(one.value.startswith(asked) for one in at.caption)


def test_choices_stand_in_the_url(empty_database, open_page):
    query = {"model": "gpt-oss-120b", "card": "b200-sxm", "c": "16", "tp": "2,4", "engine": "vllm"}
    at = open_page("what-if", **query)
    text = said(at)
    assert "gpt-oss-120b on B200 SXM" in text
    assert "TP=4 would make" in text
    assert "TP=8:" not in text
    assert select(at, "Weights").value == "fp4"  # as the model is published
    at.number_input(key="what-if-c").set_value(8).run()
    assert at.query_params["c"] == "8"
    select(at, "Machine").set_value("h200-sxm").run()
    assert "card" not in at.query_params  # the default leaves no trace


@pytest.mark.parametrize(
    "query",
    [
        {"model": "nobody/knows", "c": "-3", "tp": "3,x", "card": "<script>", "also": "magic"},
        {
            "c": "many",
            "link": "described",
            "link-alpha": "nan",
            "anchor": "mine",
            "anchor-ms": "inf",
        },
    ],
)
def test_nonsense_in_the_url_is_ignored(empty_database, open_page, query):
    at = open_page("what-if", **query)
    assert not at.exception
    assert "qwen2.5-14b on H200 SXM" in said(at)


def test_an_uncalibrated_card_refuses_and_says_what_helps(empty_database, open_page):
    at = open_page("what-if", card="rtx-3090", model="qwen2.5-7b")
    text = said(at)
    assert "**Not predicted** (TP=1, TP=2, TP=4, TP=8): No measured serving step" in text
    assert "start from it" in text
    assert "28 attention heads do not divide over 8 GPUs" in text
    assert not any(alt.startswith("Predicted TPOT") for alt in alts(at))


def test_my_own_measurement_makes_it_predictable(empty_database, open_page):
    query = {"anchor": "mine", "anchor-ms": "20", "link": "described", "link-alpha": "12"}
    at = open_page("what-if", card="rtx-3090", model="qwen2.5-7b", **query)
    text = said(at)
    assert "TP=1: 20.00 ms a token" in text
    assert "TP=2:" in text
    assert "Shown without a verdict" in text  # the interval was never checked on this card
    assert "**TP=2 would make a token" not in text


@pytest.mark.parametrize("also", ["speculative", "eager", "pipeline"])
def test_what_no_row_covers_is_refused(empty_database, open_page, also):
    at = open_page("what-if", also=also)
    assert "no measured row covers it" in said(at)
    assert not any(alt.startswith("Predicted TPOT") for alt in alts(at))


def test_memory_is_refused_with_the_sum(empty_database, open_page):
    at = open_page("what-if", model="llama-3.1-70b", card="h100-sxm")
    text = said(at)
    assert "GB on each of 1 H100 SXM" in text
    assert "One GPU cannot be predicted here, so there is no speedup over it." in text


def test_a_measured_point_narrows_the_interval_and_shows_residuals(empty_database, open_page):
    runs.store(empty_database, serving_run(1, [9.9, 10.0, 10.1]))
    runs.store(empty_database, serving_run(2, [6.9, 7.0, 7.1], link="on"))
    free = open_page("what-if")
    assert "TP=1: measured 10.00 ms, the prediction is +5.1 % off." in said(free)
    (code,) = [point.code for point in what_if_sources.points(empty_database) if point.tp == 1]
    at = open_page("what-if", anchor=code)
    text = said(at)
    assert "TP=1: 10.00 ms a token" in text
    assert "same card and engine" in text
    assert "TP=2: measured 7.00 ms, the prediction is" in text
    assert select(at, "Start from").value == code


def test_points_whose_step_is_another_one_are_not_offered(empty_database):
    runs.store(empty_database, serving_run(1, [5.0], args={"speculative_config": "{}"}))
    runs.store(empty_database, serving_run(1, [9.0], args={"enforce-eager": True}))
    runs.store(empty_database, serving_run(1, [10.0], args={"max_model_len": 4096}))
    assert [point.tpot_ms for point in what_if_sources.points(empty_database)] == [10.0]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Qwen/Qwen2.5-14B-Instruct", 1),
        ("/models/Qwen2.5-14B", 1),
        ("Qwen/Qwen2.5-140B", 0),
        ("someone/else", 0),
    ],
)
def test_a_models_name_may_say_its_shape(empty_database, name, found):
    spec = serving_run(1, [10.0]).spec
    spec = {key: value for key, value in spec.items() if key != "model_config_json"}
    runs.store(empty_database, serving_run(1, [10.0], spec={**spec, "model_name": name}))
    assert len(what_if_sources.points(empty_database)) == found


def test_another_link_from_a_measured_point(empty_database, open_page):
    runs.store(empty_database, serving_run(2, [6.9, 7.0, 7.1], link="on"))
    runs.store(empty_database, sweep())
    (code,) = [point.code for point in what_if_sources.points(empty_database)]
    (link,) = what_if_sources.swept(empty_database)
    at = open_page("what-if", anchor=code, link2=link)
    text = said(at)
    # 12 us + 40,960 bytes / 20 GB/s, up to the interpolation between two sizes of the sweep
    took = re.search(r"One small all-reduce would take ([\d.]+) instead of 4.6 us", text)
    assert float(took[1]) == pytest.approx(14.05, rel=0.2)
    assert "ms longer" in text
    assert "No link could bring more than" in text


def test_the_newest_runs_are_offered_and_those_that_a_link_names(
    empty_database, open_page, monkeypatch
):
    monkeypatch.setattr(offered, "NEWEST", 1)
    point = runs.store(empty_database, serving_run(2, [10.0], link="on"))
    link = runs.store(empty_database, sweep(title="The old sweep"))
    runs.store(empty_database, serving_run(2, [11.0], link="on"))
    runs.store(empty_database, sweep(title="The new sweep"))

    def offers(at):
        return "\n".join((*select(at, "Start from").options, *select(at, "Link").options))

    newest = offers(open_page("what-if"))
    assert "11.00 ms" in newest
    assert "The new sweep" in newest
    assert "10.00 ms" not in newest
    assert "The old sweep" not in newest
    codes = {"anchor": f"{point[:8]}-4-1024-256", "link": f"{link[:8]}-graph-off-2"}
    at = open_page("what-if", **codes)
    assert select(at, "Start from").value == codes["anchor"]
    assert select(at, "Link").value == codes["link"]


def test_no_run_is_read_one_by_one(empty_database, open_page, monkeypatch):
    runs.store(empty_database, serving_run(1, [10.0]))
    monkeypatch.setattr(runs, "load", None)
    assert len(what_if_sources.points(empty_database)) == 1
    at = open_page("what-if")
    assert not at.exception


def test_a_new_run_is_offered_at_once(empty_database):
    runs.store(empty_database, serving_run(1, [10.0]))
    assert len(what_if_sources.points(empty_database)) == 1
    runs.store(empty_database, serving_run(2, [7.0]))
    runs.store(empty_database, sweep())
    assert len(what_if_sources.points(empty_database)) == 2
    assert len(what_if_sources.swept(empty_database)) == 1


def test_eager_sweeps_are_never_a_link(empty_database):
    runs.store(empty_database, sweep(mode="eager", latency_us=30.0))
    assert what_if_sources.swept(empty_database) == {}


def test_without_a_point_another_link_is_not_predicted(empty_database, open_page):
    assert "never from nothing" in said(open_page("what-if"))


def test_a_known_machine_limits_the_sizes(empty_database, open_page):
    hosts.remember(empty_database, H200)
    hosts.remember(empty_database, {**H200, "hostname": "0123456789abcdef"})
    jobs.heartbeat(empty_database, "w", pid=1, host=H200["hostname"])
    at = open_page("what-if", card="host-fedcba987654")
    text = said(at)
    assert "TP=2:" in text
    assert "TP=4:" not in text
    offers = select(at, "Machine").options
    assert "2 x H200 SXM (this machine)" in offers
    assert "2 x H200 SXM (machine 0123)" in offers  # whose results were imported


def test_a_described_machine_is_offered(empty_database, open_page):
    runs.store(
        empty_database,
        Result(
            kind="topology",
            origin="described",
            title="Bought next month",
            gpus=[Gpu(index=n, name="NVIDIA B200") for n in range(4)],
            links=[["X" if a == b else "NV18" for b in range(4)] for a in range(4)],
            tool=Tool(name="linkworth"),
        ),
    )
    at = open_page("what-if")
    (option,) = [words for words in select(at, "Machine").options if "Bought next month" in words]
    assert option.startswith("4 x B200 SXM")


def test_the_gain_goes_to_roi_as_predicted(empty_database, open_page, monkeypatch):
    import pages.method_page

    monkeypatch.setitem(PAGES, "roi", Entry("ROI", "Decide", "Does it pay?"))
    monkeypatch.setitem(__import__("sys").modules, "pages.roi_page", pages.method_page)
    at = open_page("what-if")
    (link,) = [one.proto for one in at.get("page_link") if one.proto.label == "Send to ROI"]
    query = parse_qs(urlparse(f"?{link.query_string}").query)
    assert query["origin"] == ["predicted"]
    assert 0 < float(query["gain_low"][0]) < float(query["gain_high"][0])
    assert "never ends in Buy" in said(at)


def test_the_calibration_of_every_distance(empty_database, open_page):
    at = open_page("what-if", calibration="same_generation")
    assert "over 1 held-out models" in said(at) or "over 1 held-out model" in said(at)
    assert "Engine versions: " in said(at)


def test_every_picture_draws_what_it_is_given():
    points = what_if_sources.calibration_points()
    part = points[points["task"] == "same_system"]
    drawing = pictures.calibration(part, sorted(part["model"].unique())).to_dict()
    assert {layer["mark"]["type"] for layer in drawing["layer"]} == {"line", "point"}


def test_another_cards_sweep_is_no_link_to_start_with(empty_database, open_page):
    runs.store(empty_database, sweep())
    at = open_page("what-if", card="rtx-3090", model="qwen2.5-7b")
    assert select(at, "Link").value == "described"
    # one reason holds for every size: the others wait behind it
    assert len(at.warning) == 1
    assert any(each.label == "What else stands in the way" for each in at.expander)
