"""What the pictures of the Speedup page call their cases, and the values on their axes."""

import re

import pandas as pd
import pytest
from decode_runs import LARGE, at_url, pair, single, text_of

from db import runs
from models.result import Notice
from pages.charts import speedup as pictures
from pages.widgets import speedup_frames
from pages.widgets.speedup_cases import build


def measured(database):
    return [case for case in build(database) if case.origin == "measured"]


def test_a_picture_names_what_tells_its_cases_apart(database):
    for run in (single(), pair(), pair(1.1, link="off"), single(4, model=LARGE, name="large")):
        runs.store(database, run)
    runs.store(database, pair(4, model=LARGE, name="large"))
    cases = measured(database)
    assert sorted(speedup_frames.short_names(cases).values()) == [
        "large · link on",
        "small · link off",
        "small · link on",
    ]
    of_one_model = [case for case in cases if case.model == "small"]
    assert sorted(speedup_frames.short_names(of_one_model).values()) == ["link off", "link on"]
    (alone,) = [case for case in cases if case.model == "large"]
    assert speedup_frames.short_names([alone]) == {alone.label: alone.label}
    rows = speedup_frames.short_rows(of_one_model)
    assert sorted(rows.values()) == [
        "link off · TP=1",
        "link off · TP=2",
        "link on · TP=1",
        "link on · TP=2",
    ]


def test_a_study_stands_in_all_names_of_a_picture_or_in_none(database):
    for study in ("first", "second"):
        runs.store(database, pair(study=study))
    runs.store(database, pair(study="first", link="off"))
    cases = measured(database)
    # only where two cases would have one name the study is part of it
    assert sorted(case.label.rpartition(" · ")[2] for case in cases) == [
        "first",
        "link off",
        "second",
    ]
    assert sorted(speedup_frames.short_names(cases).values()) == [
        "link off · first",
        "link on · first",
        "link on · second",
    ]
    of_one = [case for case in cases if case.study == "first"]
    assert sorted(speedup_frames.short_names(of_one).values()) == ["link off", "link on"]


def test_pictures_are_drawn_with_short_names_and_their_numbers_keep_the_long_ones(database):
    for run in (single(), pair(), pair(1.1, link="off")):
        runs.store(database, run)
    at = at_url()
    drawn = "\n".join(chart.proto.spec for chart in at.get("vega_lite_chart"))
    assert re.search(r'"domain": ?\["link on", ?"link off"\]', drawn)
    assert "Example GPU · small" not in drawn
    tables = [frame.value for frame in at.dataframe if "case" in frame.value]
    assert {"Example GPU · small · batch 1 · KV 1,024 · link off"} <= set(tables[0]["case"])


def test_the_single_gpu_that_two_arms_share_is_not_held_against_itself(database):
    for run in (single(), pair(), pair(1.1, link="off")):
        runs.store(database, run)
    at = at_url()
    (frame,) = [frame.value for frame in at.dataframe if "apart (%)" in frame.value]
    assert set(frame["TP"]) == {2}
    words = text_of(at)
    assert "At TP=2 the right one's step is longer by 10.0 % in wall clock" in words
    assert "At TP=1 the" not in words


def test_a_remark_says_of_which_tp_size_it_is(database):
    apart = "wall_eager, batch 1, KV 1024: the rounds lie {}% apart."
    both = Notice(code="numerics", text="Left out in both.")
    notices = {tp: [Notice(code="spread", text=apart.format(30 * tp)), both] for tp in (1, 2)}
    runs.store(database, single(warnings=notices[1]))
    runs.store(database, pair(warnings=notices[2]))
    words = text_of(at_url()).splitlines()
    eager = "Wall clock, launched piece by piece, batch 1, KV 1024: the rounds lie"
    assert [line for line in words if line.startswith("⚠")] == [
        f"⚠ TP=1. {eager} 30% apart.",
        "⚠ Left out in both.",
        f"⚠ TP=2. {eager} 60% apart.",
    ]


@pytest.mark.parametrize(
    ("speedups", "values"),
    [
        ([0.888, 0.936], [0.88, 0.9, 0.92, 0.94, 0.96, 0.98, 1.0]),
        ([0.77, 1.26], [0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3]),
        ([1.1, 3.1], [1.0, 1.5, 2.0, 2.5, 3.0, 3.5]),
        ([0.3, 7.9], [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]),
    ],
)
def test_the_break_even_axis_has_round_values_all_along(speedups, values):
    """Vega names only some values of a logarithmic axis within a decade."""
    none = [None] * len(speedups)
    frame = pd.DataFrame(
        {"case": "a", "TP": 2, "size": [1, 8], "speedup": speedups, "low": none, "high": none}
    ).astype({"low": float, "high": float})
    drawn = pictures.break_even(frame, "Batch").to_dict()
    (axis,) = [
        layer["encoding"]["y"]["axis"]
        for layer in drawn["layer"]
        if "axis" in layer["encoding"].get("y", {})
    ]
    assert axis["values"] == values
