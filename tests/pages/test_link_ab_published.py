"""The 3090 study on Link A/B: every figure of its two tables, to the printed digit."""

from typing import Any

import pytest
from sqlalchemy import Engine

from pages.widgets.serving_arms import figures, groups
from pages.widgets.serving_compare import rows_of, table_of

# output tok/s; median TTFT, TPOT and ITL in ms; acceptance in %; acceptance length
PRINTED: dict[tuple[int, str], tuple[str, ...]] = {
    (1, "A"): ("66.0", "509", "13.4", "32.1", "73.7", "2.47"),
    (1, "B"): ("52.6", "861", "15.7", "37.6", "70.4", "2.41"),
    (1, "C"): ("57.4", "664", "14.7", "37.8", "79.2", "2.58"),
    (4, "A"): ("181.9", "551", "19.0", "34.3", "74.6"),
    (4, "B"): ("119.2", "994", "27.1", "45.3", "75.0"),
    (4, "C"): ("127.9", "751", "24.5", "43.6", "75.6"),
}
FIGURES = (
    "Output throughput (tok/s)",
    "Time to first token, median (ms)",
    "Time per output token, median (ms)",
    "Inter-token latency, median (ms)",
    "Acceptance rate (%)",
    "Acceptance length",
)
# reference, other, concurrency, figure -> what the author prints, and what the printed values give
CHANGES = [
    ("B", "A", 1, 0, "+25.4 %", 25.5),
    ("B", "A", 4, 0, "+52.6 %", 52.6),
    ("B", "A", 4, 1, "-45 %", -44.6),
    ("B", "A", 4, 2, "-30 %", -29.9),
    ("A", "C", 1, 0, "-13 %", -13.0),
    ("A", "C", 4, 0, "-29.7 %", -29.7),
    ("A", "C", 4, 2, "+29 %", 28.9),
    ("A", "C", 4, 1, "+36 %", 36.3),
]


def table(engine: Engine, first: str, second: str) -> Any:
    arms = {a.name: a for a in {g.code: g for g in groups(engine)}["nvlink-on-4x3090"].arms}
    pair = arms[first], arms[second]
    rows = rows_of(figures(engine, pair[0]), figures(engine, pair[1]), pair, is_paired=False)
    return table_of(rows, pair).set_index(["workload", "figure"])


@pytest.mark.parametrize(("first", "second"), [("B", "A"), ("A", "C"), ("B", "C")])
def test_every_figure_of_both_tables(database: Engine, first: str, second: str) -> None:
    found = table(database, first, second)
    expected = 0
    for (cap, arm), values in PRINTED.items():
        if arm not in (first, second):
            continue
        for figure, value in zip(FIGURES, values, strict=False):
            key = (f"concurrency {cap}, 1024 in, 256 out", figure)
            assert found.loc[key, arm] == value, (key, arm)
            expected += 1
    assert expected == 22
    assert len(found) == 11, "and nothing that the author does not print"


@pytest.mark.parametrize(("first", "second", "cap", "place", "printed", "ours"), CHANGES)
def test_every_derived_percentage(
    database: Engine, first: str, second: str, cap: int, place: int, printed: str, ours: float
) -> None:
    found = table(database, first, second)
    row = found.loc[(f"concurrency {cap}, 1024 in, 256 out", FIGURES[place])]
    assert row["printed by the author"] == printed
    assert row["change (%)"] == ours
    # beside the one that does not follow from the printed values stands ours
    assert (row["note"] != "") == (printed == "+25.4 %")
    assert row["verdict"] == "direction only"
