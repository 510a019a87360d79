"""What pages read: columns, filters, order, and no query a row."""

import pandas as pd
import pytest
from sqlalchemy import event

from db import runs
from models.result import Measurement

LISTED = [
    "id", "kind", "origin", "validity", "title", "study", "evaluation", "arm", "tool",
    "tool_version", "host", "started_at", "finished_at", "created_at", "reasons", "headline",
]  # fmt: skip


@pytest.fixture
def filled(engine, make_result):
    """Six runs, oldest first: their ids by a word."""
    invalid = {"validity": "invalid", "reasons": ["Values wrong."]}
    cases = {
        "plain": make_result(),
        "study": make_result(study="my-lab", title="The 100% Lab_run", origin="imported"),
        "invalid": make_result(**invalid),
        "suspect": make_result(validity="suspect", reasons=["Throttled.", "Warm."]),
        "decode": make_result(kind="decode", host={"gpus": [{"name": "A GPU"}, {"name": "A GPU"}]}),
        "arm": make_result(evaluation="e1", arm="link-off"),
    }
    return {word: runs.store(engine, result) for word, result in cases.items()}


def test_the_list_of_an_empty_store_has_its_columns(engine):
    frame = runs.list_runs(engine)
    assert list(frame.columns) == LISTED
    assert frame.empty
    assert runs.count(engine) == 0
    assert runs.measurements(engine).empty
    assert "bytes" in runs.measurements(engine, metrics=["allreduce_latency"])


def test_the_list_is_newest_first_with_unknown_as_none(engine, filled):
    frame = runs.list_runs(engine)
    assert list(frame.columns) == LISTED
    assert list(frame["id"]) == list(filled.values())[::-1]
    row = frame[frame["id"] == filled["plain"]].iloc[0]
    assert row["study"] is None
    assert row["host"] == "A CPU"
    assert row["reasons"] == []
    assert row["headline"] == "6.53 us at 3 KB (graph)"
    assert str(frame["started_at"].dtype).endswith("UTC]")
    by_id = frame.set_index("id")
    assert by_id.loc[filled["suspect"], "reasons"] == ["Throttled.", "Warm."]
    assert by_id.loc[filled["decode"], "host"] == "2 x A GPU"
    assert (by_id.loc[filled["arm"], "evaluation"], by_id.loc[filled["arm"], "arm"]) == (
        "e1",
        "link-off",
    )


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ({"kinds": ["decode"]}, {"decode"}),
        ({"kinds": []}, set()),
        ({"origins": ["imported", "published"]}, {"study"}),
        ({"validities": ["invalid", "suspect"]}, {"invalid", "suspect"}),
        ({"study": "my-lab"}, {"study"}),
        ({"text": "LAB"}, {"study"}),
        ({"text": "100%"}, {"study"}),
        ({"text": "lab_run imported"}, set()),
        ({"text": "b_r 100"}, {"study"}),
        ({"text": "link-off"}, {"arm"}),
        ({"text": "decode"}, {"decode"}),
        ({"text": "nothing like it"}, set()),
        ({"text": "  "}, {"plain", "study", "invalid", "suspect", "decode", "arm"}),
    ],
)
def test_filters(engine, filled, filters, words):
    ids = {filled[word] for word in words}
    assert set(runs.list_runs(engine, **filters)["id"]) == ids
    assert runs.count(engine, **filters) == len(ids)


def test_pages_of_the_list(engine, filled):
    ids = list(runs.list_runs(engine)["id"])
    pages = [list(runs.list_runs(engine, limit=4, offset=at)["id"]) for at in (0, 4, 8)]
    assert pages == [ids[:4], ids[4:], []]


def test_measurements_carry_their_run_and_their_dimensions(engine, filled):
    frame = runs.measurements(engine)
    assert list(frame["run_id"]) == list(filled.values())
    row = frame.iloc[-1]
    assert (row["kind"], row["arm"], row["validity"]) == ("allreduce", "link-off", "valid")
    assert (row["metric"], row["statistic"], row["unit"], row["value"]) == (
        "allreduce_latency", "median", "us", 6.53,
    )  # fmt: skip
    assert (row["bytes"], row["mode"], row["link"], row["ranks"]) == (3072, "graph", "on", 2)
    assert row["dtype"] is None
    assert frame["bytes"].dtype == "int64"
    assert frame["value"].dtype == "float64"


def test_filters_of_measurements(engine, filled):
    def ids(**filters):
        return list(runs.measurements(engine, **filters)["run_id"])

    assert ids(run_ids=[filled["arm"]]) == [filled["arm"]]
    assert ids(run_ids=[]) == []
    assert ids(kinds=["decode"]) == [filled["decode"]]
    assert ids(metrics=["ttft"]) == []
    assert filled["invalid"] in ids()
    assert filled["invalid"] not in ids(include_invalid=False)
    assert len(ids(include_invalid=False)) == 5
    assert ids(limit=2) == [filled["decode"], filled["arm"]]


def test_dimensions_of_several_metrics_side_by_side(engine, make_result):
    result = make_result()
    result.measurements.append(
        Measurement(metric="calls_per_step", unit="", value=57, dims={"tp": 2}, definition="x:1")
    )
    runs.store(engine, result)
    frame = runs.measurements(engine)
    assert frame["tp"].isna().tolist() == [True, False]
    assert frame["bytes"].isna().tolist() == [False, True]
    assert frame["bytes"].dtype == "float64"
    assert frame.loc[1, "mode"] is None


def test_rounds(engine, make_result):
    run_id = runs.store(engine, make_result((0, 1), evaluation="e1"))
    runs.store(
        engine,
        make_result(evaluation="e1", validity="invalid", reasons=["Values wrong."]),
        job_id="job-2",
    )
    frame = runs.rounds(engine, run_id)
    assert list(frame["round"]) == [0, 1, 2]
    assert list(frame["source_round"]) == [0, 1, 0]
    assert list(frame["part"]) == [0, 0, 1]
    assert list(frame["validity"]) == ["valid", "valid", "invalid"]
    assert frame["reasons"].tolist()[2] == ["Values wrong."]
    assert frame["job_id"].tolist() == [None, None, "job-2"]


@pytest.mark.parametrize("read", [runs.list_runs, runs.measurements])
def test_no_query_a_row(sqlite_engine, make_result, read):
    def n_statements():
        seen = []

        def note(*arguments):
            seen.append(arguments[2])

        event.listen(sqlite_engine, "before_cursor_execute", note)
        read(sqlite_engine)
        event.remove(sqlite_engine, "before_cursor_execute", note)
        return len(seen)

    runs.store(sqlite_engine, make_result())
    few = n_statements()
    for _ in range(20):
        runs.store(sqlite_engine, make_result())
    assert n_statements() == few


def test_frames_go_to_csv_and_back(engine, filled, tmp_path):
    frame = runs.measurements(engine)
    frame.to_csv(tmp_path / "m.csv", index=False)
    assert pd.read_csv(tmp_path / "m.csv")["value"].tolist() == frame["value"].tolist()


def test_a_search_for_a_megabyte_finds_nothing_and_asks_little(engine, make_result):
    runs.store(engine, make_result())
    assert runs.count(engine, text="no such word " * 100_000) == 0
    assert runs.count(engine, text="linkworth " * 100_000) == 1
