"""How quick a prediction is: one answer under 50 ms, a whole grid under 300 ms.

Run with ``pytest tests/benchmarks --benchmark-only -o addopts=``; plain test runs skip these.
"""

import json
from pathlib import Path

import pandas as pd
import pytest

from importers.catalogue import catalogue
from models.catalogue import cards_of
from models.prediction import Setup, Workload
from models.prediction_anchor import Anchor
from models.prediction_calibration import read_calibration
from models.prediction_layouts import grid
from models.prediction_link import reference_link
from models.prediction_refusals import answer
from models.prediction_shape import load_of

DATA = Path(__file__).resolve().parents[2] / "data"
ONE_S, GRID_S = 0.050, 0.300
LOADS = [Workload(batch, 1024, 256) for batch in (1, 2, 4, 8, 16, 32, 64, 128, 256)]


@pytest.fixture(scope="module")
def given():
    config = json.loads((DATA / "models" / "qwen2.5-14b.json").read_text())
    card = cards_of(catalogue().cards.values())["h200-sxm"]
    table = pd.read_csv(DATA / "reference" / "allreduce_reference.csv", keep_default_na=False)
    link = reference_link(table, card.names[0], "vllm")
    calibration = read_calibration(json.loads((DATA / "calibration.json").read_text()))
    setup = Setup(load_of(config), "bf16", 2.0, "vllm", card, 2)
    anchor = Anchor(setup, LOADS[2], link, 7.0, "a point", "measured")
    return setup, link, calibration, anchor


def test_one_answer(benchmark, given):
    setup, link, calibration, anchor = given
    found = benchmark(answer, setup, LOADS[2], link, calibration, anchor)
    assert found.prediction is not None
    assert benchmark.stats["median"] < ONE_S


def test_a_grid_of_sizes_and_loads(benchmark, given):
    setup, link, calibration, anchor = given
    found = benchmark(grid, setup, LOADS, (1, 2, 4, 8), link, calibration, anchor)
    assert len(found) == 4 * len(LOADS)
    assert benchmark.stats["median"] < GRID_S


def test_reading_the_calibration(benchmark):
    content = json.loads((DATA / "calibration.json").read_text())
    benchmark(read_calibration, content)
    assert benchmark.stats["median"] < ONE_S
