"""The rows of a figure: those that a look through all rows finds, while the frame lives."""

import gc

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from pages.widgets import figure_places
from pages.widgets.figure_places import places

METRICS, STATISTICS = ("tpot", "ttft"), ("median", "p99")
CELLS = ((None, 1), (None, 4), ("long_output", None))
rows = st.lists(
    st.tuples(st.sampled_from(METRICS), st.sampled_from(STATISTICS), st.sampled_from(CELLS))
)


def frame_of(figures):
    columns = ["metric", "statistic", "cell"]
    return pd.DataFrame({name: [row[i] for row in figures] for i, name in enumerate(columns)})


@given(figures=rows)
def test_they_are_what_a_look_through_all_rows_finds(figures):
    frame = frame_of(figures)
    for metric in METRICS:
        for statistic in STATISTICS:
            for cell in CELLS:
                wanted = [i for i, row in enumerate(figures) if row == (metric, statistic, cell)]
                assert places(frame, metric, statistic, cell).tolist() == wanted


def test_a_figure_that_is_not_there_has_none():
    frame = frame_of([("tpot", "median", CELLS[0])])
    found = places(frame, "tpot", "p99", CELLS[0])
    assert found.size == 0
    assert found.dtype == np.intp


def test_what_is_known_of_a_frame_ends_with_it():
    frame = frame_of([("tpot", "median", CELLS[0])])
    places(frame, "tpot", "median", CELLS[0])
    number = id(frame)
    assert number in figure_places._KNOWN
    del frame
    gc.collect()
    assert number not in figure_places._KNOWN
