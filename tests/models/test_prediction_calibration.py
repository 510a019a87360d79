"""The stored calibration is what the shipped rows give, meets its targets, and is read safely."""

import copy
import json
import re
import sys

import pandas as pd
import pytest
from prediction_cases import DATA

from models.errors import InvalidSpec
from models.prediction_calibration import DISTANCES, KINDS, read_calibration

SCRIPTS = DATA.parent / "scripts"
STORED = json.loads((DATA / "calibration.json").read_text())
REPORT = STORED["report"]


@pytest.fixture(scope="module")
def again():
    """The whole calibration, done again from the shipped rows."""
    before = list(sys.path)
    sys.path.insert(0, str(SCRIPTS))
    import calibrate

    yield calibrate.calibrate(calibrate.read_rows())
    sys.path[:] = before


def _close(stored, found, path=""):
    """Same structure; numbers to a tenth of a percent point."""
    if isinstance(stored, dict):
        assert set(stored) == set(found), path
        for name, value in stored.items():
            _close(value, found[name], f"{path}/{name}")
    elif isinstance(stored, list):
        assert len(stored) == len(found), path
        for number, value in enumerate(stored):
            _close(value, found[number], f"{path}/{number}")
    elif isinstance(stored, float):
        rounding = 0.06 if path.startswith("/report") else 1e-4
        assert found == pytest.approx(stored, rel=2e-3, abs=rounding), path
    else:
        assert stored == found, path


def test_the_stored_file_is_what_the_rows_give(again):
    content, _, _ = again
    _close(STORED, json.loads(json.dumps(content)))


def test_the_document_holds_the_stored_tables(again):
    import calibration_report

    text = (DATA.parent / "docs" / "calibration.md").read_text()
    assert calibration_report.document(STORED).strip() in text


def test_the_points_of_the_picture_are_those_of_the_report():
    points = pd.read_csv(DATA / "calibration_points.csv")
    for row in REPORT["errors"]:
        if row["task"] not in DISTANCES:
            continue
        own = points[(points["task"] == row["task"]) & (points["kind"] == row["kind"])]
        off = 100 * (own["predicted_ms"] / own["measured_ms"] - 1).abs()
        assert len(own) == row["rows"]
        assert off.median() == pytest.approx(row["median"], abs=0.1)


def test_every_refused_row_is_listed_with_its_reason():
    listed = pd.read_csv(DATA / "calibration_refused.csv")
    assert listed["reason"].value_counts().to_dict() == REPORT["refused"]


def test_every_row_is_accounted_for():
    counts = list(REPORT["left_out"].values())
    left = counts[0] - sum(counts[1:])
    core = sum(REPORT["scored"].values())
    refused = sum(REPORT["refused"][name] for name in ("memory", "interference"))
    assert core + refused + REPORT["beyond_core"] == REPORT["merged"] <= left


@pytest.mark.parametrize(
    ("task", "kind", "median", "p90"),
    [
        ("same_system", "dense", 7.5, 17.0),
        ("same_system", "moe", 9.0, 23.0),
        ("nothing_measured", "dense", 10.0, 20.0),
        ("nothing_measured", "moe", 18.0, 42.0),
    ],
)
def test_errors_on_held_out_models(task, kind, median, p90):
    row = next(r for r in REPORT["errors"] if (r["task"], r["kind"]) == (task, kind))
    assert row["median"] <= median
    assert row["p90"] <= p90


def test_mean_coverage():
    assert 75.0 <= REPORT["coverage_mean"] <= 90.0
    outside = {
        (row["task"], row["kind"]) for row in REPORT["coverage"] if not 75.0 <= row["mean"] <= 90.0
    }
    # one dense model, and a width that may not be narrower than a nearer one: said in the document
    assert outside == {("same_generation", "dense"), ("same_generation", "moe")}


def test_few_models_carry_the_studys_width():
    for kind in KINDS:
        for name in DISTANCES:
            row = STORED["widths"][kind][name]
            assert row["is_calibrated"] == (row["models"] >= 3)


def test_the_method_names_the_shipped_widths():
    text = (DATA.parent / "docs" / "method" / "prediction.md").read_text()
    found = re.findall(r"\| ±(\d+) % / ±(\d+) % \|", text)
    calibration = read_calibration(STORED)
    wanted = [
        tuple(f"{calibration.widths[kind][name].pct:.0f}" for kind in KINDS) for name in DISTANCES
    ]
    assert found == wanted


def test_widths_never_shrink_with_distance():
    for kind in KINDS:
        halves = [STORED["widths"][kind][name]["half"] for name in DISTANCES]
        assert halves == sorted(halves)


def test_a_file_whose_widths_shrink_is_refused():
    wrong = copy.deepcopy(STORED)
    wrong["widths"]["dense"]["nothing_measured"]["half"] = 0.01
    with pytest.raises(InvalidSpec, match="surer"):
        read_calibration(wrong)


@pytest.mark.parametrize("part", ["widths", "us_a_layer", "parameters", "batches"])
def test_a_file_that_is_not_whole_is_refused(part):
    wrong = {name: value for name, value in STORED.items() if name != part}
    with pytest.raises(InvalidSpec, match="not whole"):
        read_calibration(wrong)


def test_constants_by_engine_and_generation():
    found = read_calibration(STORED)
    assert 40 < found.constant_us("dense", "vllm", "hopper") < 60
    on_blackwell = found.constant_us("moe", "vllm", "blackwell")
    assert on_blackwell < found.constant_us("moe", "vllm", "hopper")


def test_an_interval_is_symmetric_in_the_logarithm():
    width = read_calibration(STORED).widths["dense"]["nothing_measured"]
    low, high = width.around(10.0)
    assert low * high == pytest.approx(100.0)
    assert high == pytest.approx(10.0 * (1 + width.pct / 100))
