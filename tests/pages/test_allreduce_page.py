"""The AllReduce explorer: empty, published only, measured, failed, many, and from a URL."""

import uuid

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from db import runs
from models.result import Measurement, Result, Samples, Tool
from pages.charts import allreduce as pictures
from pages.widgets import allreduce_costs, allreduce_curves

BARE = "from pages.allreduce_page import render\nrender()"
SIZES = [2**k for k in range(9, 27)]
BASE = {"graph": 6.5, "eager": 30.0, "exposed": 12.0}


def run(
    *,
    link: str | None = "on",
    modes: tuple[str, ...] = ("graph", "eager", "exposed"),
    factor: float = 1.0,
    gpu: str = "NVIDIA H200",
    validity: str = "valid",
    sizes: list[int] = SIZES,
    rounds: int = 3,
    title: str | None = None,
    device: str = "cuda",
) -> Result:
    """A sweep of invented values: alpha by mode, 150 GB/s, 2 % scatter."""
    rng = np.random.default_rng(1)
    measured, samples = [], []
    for mode in modes:
        definition = f"linkworth:allreduce-{mode}{'-gloo' if device == 'cpu' else ''}:1"
        for size in sizes:
            for number in range(rounds):
                true = factor * BASE[mode] + size / 150e3
                values = true * np.exp(rng.normal(0, 0.02, 30))
                dims = {"bytes": size, "mode": mode, "link": link, "ranks": 2, "dtype": "bfloat16"}
                samples.append(
                    Samples(
                        metric="allreduce_latency",
                        unit="us",
                        round=number,
                        dims=dims,
                        values=values.tolist(),
                    )
                )
                for statistic, share in (("median", 50), ("p10", 10), ("p90", 90)):
                    measured.append(
                        Measurement(
                            metric="allreduce_latency",
                            statistic=statistic,
                            unit="us",
                            value=float(np.percentile(values, share)),
                            n=30,
                            round=number,
                            dims=dims,
                            definition=definition,
                        )
                    )
    gpus = [{"index": i, "uuid": f"GPU-{i}{i}{i}{i}", "name": gpu} for i in range(2)]
    return Result(
        id=str(uuid.uuid4()),
        kind="allreduce",
        origin="measured",
        validity=validity,
        reasons=[] if validity == "valid" else ["The all-reduce returned wrong values."],
        title=title or f"Sweep, link {link}",
        spec={"kind": "allreduce", "device": device, "gpus": ["GPU-0000", "GPU-1111"]},
        host={"hostname": "h1", "gpus": [] if device == "cpu" else gpus},
        tool=Tool(name="linkworth", version="0"),
        measurements=measured,
        samples=samples,
    )


def opened(**query: str) -> AppTest:
    at = AppTest.from_string(BARE, default_timeout=60)
    for name, value in query.items():
        at.query_params[name] = value
    at.run()
    assert not at.exception
    return at


def texts(at: AppTest) -> str:
    kinds = (at.markdown, at.caption, at.info, at.warning, at.error)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def frame_with(at: AppTest, column: str) -> pd.DataFrame:
    found = [
        d.value for d in at.dataframe if column in d.value.columns and len(d.value.columns) > 2
    ]
    assert found, f"no table has the column {column!r}"
    return found[-1]


def charts(at: AppTest) -> list[str]:
    return [element.proto.alt for element in at.get("vega_lite_chart")]


def test_an_empty_database_says_what_to_do(empty_database):
    at = opened()
    assert "Start a sweep" in texts(at)
    assert not charts(at)


def test_the_first_start_shows_the_published_study_as_printed(database):
    at = opened()
    printed = frame_with(at, "fixed cost (us)").set_index("title")
    row = printed.loc["RTX 5090 over PCIe: one 3 KB all-reduce"]
    assert row["fixed cost (us)"] == 28
    assert row["transfer (us)"] == 0.06
    assert row["total (us)"] == 28
    assert row["calls a step"] == 56
    assert row["cost a step (ms)"] == 1.59
    cost = frame_with(at, "as printed (ms)").set_index("curve")
    mine = cost.loc["RTX 5090 over PCIe: one 3 KB all-reduce"]
    assert (round(mine["cost a step (ms)"], 2), mine["as printed (ms)"]) == (1.57, 1.59)
    assert "published" in texts(at)
    assert "a link with more bandwidth and the same latency changes nothing" in texts(at)
    assert len(charts(at)) == 2


def test_both_figures_stand_where_the_author_rounds_otherwise(database):
    at = opened()
    rows = frame_with(at, "agrees")
    apart = rows[rows["agrees"] == "no"]
    assert set(zip(apart["as printed"], apart["ours"], strict=True)) == {
        (1.59, 1.57),
        (0.57, 0.56),
        (470, 469),
        (480, 481),
    }


def test_one_measured_run_is_explained(database):
    runs.store(database, run())
    at = opened()
    values = {metric.label: metric.value for metric in at.metric}
    assert float(values["Fixed cost (alpha)"].split()[0]) == pytest.approx(6.5, rel=0.05)
    assert float(values["Bandwidth (beta)"].split()[0]) == pytest.approx(150, rel=0.05)
    said = texts(at)
    assert "95 %:" in said
    assert "Never multiply an eager figure" in said
    assert "arriving at different times" in said
    assert "measured" in said
    cost = frame_with(at, "note").set_index("mode")
    assert cost.loc["graph", "cost a step (ms)"] == pytest.approx(56 * 6.52e-3, rel=0.05)
    assert pd.isna(cost.loc["eager", "cost a step (ms)"])
    assert "reference (NCCL" in said.replace("the ", "")
    assert any("within" in words for words in charts(at))  # residuals


def test_link_on_and_off_stand_side_by_side(database):
    first, second = run(link="on"), run(link="off", factor=1.8)
    ids = [runs.store(database, result) for result in (first, second)]
    at = opened(runs=",".join(ids), modes="graph")
    said = texts(at)
    assert "Without the link one all-reduce of 3 KB takes" in said
    cost = frame_with(at, "note")
    assert set(cost["link"]) == {"on", "off"}


def test_the_url_chooses_runs_model_batch_and_curve(database):
    run_id = runs.store(database, run())
    runs.store(database, run(factor=3.0, title="newer"))
    at = opened(
        runs=run_id, model="qwen2.5-14b", batch="4", curve=f"{run_id[:8]}-eager-on-bfloat16-2"
    )
    assert at.multiselect(key="allreduce-runs").value == [run_id]
    assert at.selectbox(key="model").value == "qwen2.5-14b"
    assert at.selectbox(key="batch").value == 4
    assert "96 calls a step (from 48 layers) of 40 KB (4 x 5120 x 2 bytes)" in texts(at)
    assert at.selectbox(key="allreduce-curve").value.endswith("eager-on-bfloat16-2")


def test_choices_are_written_into_the_url(database):
    run_id = runs.store(database, run())
    at = opened()
    study = runs.list_runs(database, kinds=["allreduce"], origins=["published"])["id"].iloc[0]
    at.multiselect(key="allreduce-runs").set_value([run_id, study]).run()
    assert f"{run_id},{study}" in at.query_params["runs"]


def test_an_entered_count_replaces_the_models(database):
    runs.store(database, run())
    at = opened(calls="10")
    cost = frame_with(at, "note").set_index("mode")
    assert cost.loc["graph", "calls a step"] == 10
    assert "as entered" in texts(at)


def test_an_invalid_run_is_shown_and_named_but_never_compared(database):
    bad = runs.store(database, run(link="off", factor=0.2, validity="invalid"))
    good = runs.store(database, run(link="on"))
    at = opened(runs=f"{good},{bad}", modes="graph")
    said = texts(at)
    assert "The all-reduce returned wrong values." in said
    assert "Without the link" not in said
    cost = frame_with(at, "note").set_index("link")
    assert cost.loc["off", "note"] == "invalid run: no cost is computed from it"
    assert pd.isna(cost.loc["off", "cost a step (ms)"])
    assert cost.loc["on", "cost a step (ms)"] > 0


def test_an_invalid_run_alone_is_shown_for_the_record(database):
    bad = runs.store(database, run(validity="invalid", modes=("graph",)))
    assert "B200 over NVLink" in texts(
        opened()
    )  # nothing sound was measured: the studies are shown
    at = opened(runs=bad)
    assert "nothing follows from it" in texts(at)
    assert "changes nothing" not in texts(at)


def test_runs_that_hold_no_all_reduce_are_counted(database):
    decode = runs.list_runs(database, kinds=["decode"])["id"].iloc[0]
    assert "1 runs of the link hold no all-reduce" in texts(opened(runs=decode))


def test_cards_without_rows_have_no_reference(database):
    runs.store(database, run(gpu="NVIDIA GeForce RTX 3090"))
    assert "No reference for this card." in texts(opened())


def test_a_cpu_rehearsal_has_no_reference_and_a_cost(database):
    runs.store(database, run(link=None, modes=("eager",), device="cpu", title="2 CPU ranks"))
    at = opened()
    assert "No reference for this card." in texts(at)
    assert frame_with(at, "note")["cost a step (ms)"].notna().all()


def test_a_message_outside_the_sweep_is_not_extrapolated(database):
    runs.store(database, run(sizes=SIZES[:4], modes=("graph",)))
    at = opened(batch="32")
    assert "was not measured, and nothing is extrapolated" in texts(at)
    assert frame_with(at, "note")["note"].iloc[0] == "not measured at 96 KB"


def test_a_run_with_few_sizes_has_no_line(database):
    runs.store(database, run(sizes=[1024, 4096], modes=("graph",)))
    assert "at least 4 message sizes" in texts(opened())


def test_a_fixed_cost_without_small_messages_is_named_as_such(database):
    runs.store(database, run(sizes=SIZES[11:], modes=("graph",)))
    assert "no message below 1 MB was measured" in texts(opened())


def test_nothing_chosen_is_no_error(database):
    at = opened()
    at.multiselect(key="allreduce-runs").set_value([]).run()
    assert not at.exception
    assert "Choose at least one run" in texts(at)


def test_many_curves_say_that_colours_repeat(database):
    ids = [runs.store(database, run(title=f"sweep {i}", rounds=1)) for i in range(3)]
    assert "share colours" in texts(opened(runs=",".join(ids)))


def curve_frame(engine) -> pd.DataFrame:
    return allreduce_curves.curve_points(
        runs.measurements(engine, kinds=["allreduce"], metrics=allreduce_curves.METRICS)
    )


def test_failed_runs_are_hollow_in_the_picture(database):
    runs.store(database, run(validity="invalid", modes=("graph",)))
    runs.store(database, run(modes=("graph",)))
    points = curve_frame(database)
    nothing = pd.DataFrame({"bytes": [], "batch": []})
    drawing = pictures.latency(
        points,
        list(points["curve"].unique()),
        line=pd.DataFrame(),
        messages=nothing,
        crossover_bytes=1e6,
        reference=pd.DataFrame(),
    ).to_dict()
    marks = {
        layer["mark"]["filled"]: {
            row["validity"] for row in drawing["datasets"][layer["data"]["name"]]
        }
        for layer in drawing["layer"]
        if layer["mark"]["type"] == "point"
    }
    assert marks == {True: {"valid"}, False: {"invalid"}}
    assert {"rect", "line", "area"} <= {layer["mark"]["type"] for layer in drawing["layer"]}


def test_bars_start_at_zero_and_printed_figures_are_ticks(database):
    frame = pd.DataFrame(
        {
            "curve": ["a", "b"],
            "cost a step (ms)": [1.0, 2.0],
            "as printed (ms)": [1.1, None],
        }
    )
    kinds = [
        layer["mark"]["type"] for layer in pictures.step_cost(frame, ["a", "b"]).to_dict()["layer"]
    ]
    assert kinds == ["bar", "tick"]


def test_launch_times_of_the_cpu_are_no_latency():
    frame = pd.DataFrame(
        {
            "metric": ["allreduce_latency"],
            "value": [3.0],
            "bytes": [1024.0],
            "definition": ["nccl-tests:cpu-time:1"],
        }
    )
    assert allreduce_curves.curve_points(frame).empty


def test_two_runs_of_the_same_name_keep_two_labels(database):
    for _ in range(2):
        runs.store(database, run(modes=("graph",), title="same"))
    mine = curve_frame(database).query("title == 'same'")
    assert mine["curve"].nunique() == mine["code"].nunique() == 2


@pytest.mark.parametrize(
    ("mode", "definition", "allowed"),
    [
        ("graph", "linkworth:allreduce-graph:1", True),
        ("exposed", "linkworth:allreduce-exposed:1", True),
        ("eager", "linkworth:allreduce-eager:1", False),
        ("eager", "linkworth:allreduce-eager-gloo:1", True),
        ("", "published:x:y", True),
    ],
)
def test_eager_figures_are_never_multiplied(mode, definition, allowed):
    assert allreduce_costs.may_be_multiplied(mode, definition) is allowed
