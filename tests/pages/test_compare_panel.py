"""Compare: conditions first, one axis for one meaning, exports; the bundle to other machines."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import runs
from db.engine import connect
from db.migrations import upgrade
from importers import recognise
from importers.files import File, expand, read_each
from models import side_by_side
from models.result import dumps
from pages.charts import compare as drawing
from pages.widgets import bundle_panel, compare_panel, compare_table
from pages.widgets.import_store import store

FIXTURES = Path(__file__).parents[1] / "importers" / "fixtures"
PANEL = """
from pages.widgets import compare_panel, store
compare_panel.render(store.engine(), {ids!r})
"""
BUNDLE = """
from pages.charts import compare as drawing
from pages.widgets import bundle_panel, store
bundle_panel.render(store.engine())
"""

Stored = Callable[..., list[str]]
Panel = Callable[[list[str]], AppTest]


@pytest.fixture
def stored(empty_database: Engine) -> Stored:
    def put(*names: str) -> list[str]:
        ids = []
        for name in names:
            data = (FIXTURES / name).read_bytes()
            results = recognise.read(data, name).results
            ids += runs.store_all(empty_database, results, raw=data, raw_name=Path(name).name)
        return ids

    return put


@pytest.fixture
def panel(empty_database: Engine) -> Panel:
    def opened(ids: list[str]) -> AppTest:
        at = AppTest.from_string(PANEL.format(ids=ids), default_timeout=30).run()
        assert not at.exception
        return at

    return opened


def texts(at: AppTest, kind: str) -> str:
    return " ".join(element.value for element in getattr(at, kind))


def charts(at: AppTest) -> list[str]:
    return [chart.proto.alt for chart in at.get("vega_lite_chart")]


def test_one_run_is_no_comparison(panel: Panel, stored: Stored) -> None:
    (run_id,) = stored("vllm/0.8/good.json")
    assert "Choose two or more runs" in texts(panel([run_id, run_id]), "info")
    at = panel([run_id, "00000000-0000-0000-0000-000000000000"])
    assert "does not exist any more" in texts(at, "warning")


def test_conditions_come_first_then_chart_and_table(panel: Panel, stored: Stored) -> None:
    at = panel(stored("vllm/0.8/appended.json"))
    assert [header.value for header in at.subheader] == [
        "What differs", "One quantity", "All quantities",
    ]  # fmt: skip
    conditions = at.table[0].value
    assert "load: concurrency" in conditions["condition"].tolist()
    labels = ["1: vLLM serving benchmark", "2: vLLM serving benchmark"]
    row = conditions[conditions["condition"] == "load: concurrency"].iloc[0]
    assert [row[label] for label in labels] == ["1", "4"]
    numbers = at.dataframe[-1].value
    throughput = numbers[numbers["quantity"] == "Output throughput"].iloc[0]
    assert throughput[labels[0]] == 150.0
    assert throughput[f"change of {labels[1]}"] == "+241.3 % ▲ better"
    assert charts(at)


def test_values_and_their_change_stand_in_a_cell_a_run(panel: Panel, stored: Stored) -> None:
    at = panel(stored("vllm/0.8/appended.json"))
    shown = at.table[-1].value
    labels = ["1: vLLM serving benchmark", "2: vLLM serving benchmark"]
    assert list(shown) == ["quantity", *labels]  # three columns fit a phone
    row = shown[shown["quantity"] == "Output throughput (tok/s)"].iloc[0]
    assert row[labels].tolist() == ["150", "512 (+241.3 % ▲ better)"]
    # nothing is lost: all columns can be sorted and searched
    assert "Every column, to sort and search" in [expander.label for expander in at.expander]
    every = at.dataframe[-1].value
    assert len(every) == len(shown)
    assert {"statistic", "where", "unit", "as"} <= set(every)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0"), (8.34, "8.34"), (8.3412345, "8.341"), (150.0, "150"), (12345.6, "12,346"),
        (0.012345, "0.01235"), (-1.5, "-1.5"), (1e-6, "1e-06"), (2.5e12, "2.5e+12"), (100.0, "100"),
    ],
)  # fmt: skip
def test_a_number_is_read_with_four_digits(value: float, said: str) -> None:
    cell = side_by_side.Cell(value, 3, "d")
    row = side_by_side.Row("ttft", "mean", {}, (cell, None), None, None)
    assert compare_table.stacked([row], ["a", "b"]).iloc[0].tolist()[1:] == [said, None]


def test_the_chart_follows_the_chosen_quantity(panel: Panel, stored: Stored) -> None:
    at = panel(stored("vllm/0.8/appended.json"))
    at.selectbox("compare-quantity").select("output_throughput|value|wall-output_throughput").run()
    assert charts(at) == [
        "Output throughput, value: 2: vLLM serving benchmark +241.3 % against "
        "1: vLLM serving benchmark"
    ]


def test_sizes_make_a_line_and_a_range_of_changes(panel: Panel, stored: Stored) -> None:
    at = panel(stored("nccl-tests/2.17/good.txt", "nccl-tests/2.17/fused.txt"))
    assert not at.exception
    assert "AllReduce latency, mean" in charts(at)[0]
    numbers = at.dataframe[-1].value
    assert "bytes 1024" in numbers["where"][0]


def test_a_line_for_each_half_and_a_bar_for_each_place(
    stored: Stored, empty_database: Engine
) -> None:
    ids = stored("nccl-tests/2.17/good.txt", "nccl-tests/2.17/fused.txt")
    results = [runs.load(empty_database, run_id) for run_id in ids]
    labels = compare_panel.labels_of(results)
    rows = [row for row in side_by_side.rows(results) if row.metric == "allreduce_latency"]
    x = drawing.axis_of(rows)
    assert x == "bytes"
    data = drawing.frame(rows, labels, x)
    lines = drawing.compared(data, "allreduce_latency", labels, x).to_dict()
    assert lines["encoding"]["strokeDash"]["field"] == "where"
    assert lines["encoding"]["x"]["scale"]["type"] == "log"
    assert lines["encoding"]["y"]["title"] == "AllReduce latency (us)"
    one_size = [row for row in rows if row.dims["bytes"] == 1024]
    bars = drawing.compared(
        drawing.frame(one_size, labels, None), "allreduce_latency", labels, None
    ).to_dict()
    names = [row["bar"] for row in next(iter(bars["datasets"].values()))]
    assert len(set(names)) == 4
    assert names[0] == f"{labels[0]} · bytes 1024, placement out_of_place"


def test_two_meanings_are_not_drawn_on_one_axis(panel: Panel, stored: Stored) -> None:
    at = panel(stored("vllm/0.8/good.json", "guidellm/0.8/good.json"))
    at.selectbox("compare-quantity").select("tpot|mean|mixed").run()
    assert charts(at) == []
    warning = texts(at, "warning")
    assert "not drawn on one axis" in warning
    assert "weighed by tokens" in warning
    numbers = at.dataframe[-1].value
    tpot = numbers[(numbers["quantity"] == "Time per output token")]
    assert set(tpot["change of GuideLLM serving benchmark"]) == {"not comparable"}
    assert any("Not comparable" in expander.label for expander in at.expander)


def test_an_invalid_run_gives_no_number(panel: Panel, stored: Stored) -> None:
    at = panel(stored("nccl-tests/2.17/good.txt", "nccl-tests/2.17/wrong.txt"))
    assert "none of its numbers enters the comparison" in texts(at, "warning")
    assert "no quantity in common" in texts(at, "info")
    assert charts(at) == []


def test_nothing_in_common_says_so(panel: Panel, stored: Stored) -> None:
    at = panel(stored("vllm/0.8/good.json", "nccl-tests/2.17/good.txt"))
    assert "no quantity in common" in texts(at, "info")


def test_exports_hold_the_unrounded_numbers(stored: Stored, empty_database: Engine) -> None:
    results = [runs.load(empty_database, i) for i in stored("vllm/0.8/appended.json")]
    labels = compare_panel.labels_of(results)
    rows = side_by_side.rows(results)
    content = json.loads(compare_panel.as_json(rows, results, labels))
    (throughput,) = (q for q in content["quantities"] if q["metric"] == "output_throughput")
    assert throughput["values"] == [150.0, 512.0]
    assert throughput["change_pct"][1] == pytest.approx(241.3333, abs=1e-3)
    assert content["conditions"][0]["name"] == "load: concurrency"
    markdown = compare_panel.as_markdown(compare_panel.numbers(rows, labels))
    lines = markdown.splitlines()
    assert lines[0].startswith("| quantity | statistic | where | unit | as | 1: vLLM")
    start = "| Output throughput | value |  | tok/s | vllm:output_throughput:1 | 150 | 512 |"
    assert any(line.startswith(start) for line in lines)


def test_a_bundle_carries_everything_to_another_machine(
    stored: Stored, empty_database: Engine, tmp_path: Path
) -> None:
    ids = stored("vllm/0.33/detailed.json", "nccl-tests/2.17/mpirun_two_runs.txt")
    data = bundle_panel.pack(empty_database, ["imported"])
    other = connect(f"sqlite:///{tmp_path / 'other.sqlite'}")
    upgrade(other)
    outcome = store(
        other, read_each(list(expand([File("bundle.zip", data)]))), {}, lambda done, name: None
    )
    assert sorted(outcome.stored) == sorted(ids)
    assert outcome.duplicates == []
    for run_id in ids:
        there, here = runs.load(other, run_id), runs.load(empty_database, run_id)
        assert dumps([there]) == dumps([here])
        assert runs.raw(other, run_id) == runs.raw(empty_database, run_id)
    again = store(
        other, read_each(list(expand([File("bundle.zip", data)]))), {}, lambda done, name: None
    )
    assert again.stored == []
    assert len(again.duplicates) == 2
    other.dispose()


def test_the_bundle_panel_offers_a_download(stored: Stored) -> None:
    at = AppTest.from_string(BUNDLE, default_timeout=30).run()
    assert "no run of your own" in texts(at, "info")
    stored("vllm/0.8/good.json")
    at = AppTest.from_string(BUNDLE, default_timeout=30).run()
    assert not at.exception
    assert "1 run with samples" in texts(at, "caption")
    at.toggle("bundle-measured").set_value(True).run()
    assert "no run of your own" in texts(at, "info")
