"""The invented lab: the same seed makes the same results, and all of them go through the store."""

from pathlib import Path

from db import jobs, runs
from db.engine import connect
from scripts.load_results import MIX, Maker
from scripts.make_load import DATABASE, fill, main


def test_the_same_seed_makes_the_same_results() -> None:
    first, again, other = (list(Maker(seed).results(60)) for seed in (7, 7, 8))
    assert first == again
    assert [result.id for result in first] != [result.id for result in other]
    assert {result.kind for result in first} == set(MIX)
    assert {result.validity for result in first} == {"valid", "suspect", "invalid"}
    assert len({str(result.host["hostname"]) for result in first}) > 3


def test_ten_thousand_runs_hold_a_million_samples() -> None:
    per_turn = 240  # every kind on every machine, in each of its turns
    values = [
        len(sample.values)
        for result in Maker(1).results(10 * per_turn)
        for sample in result.samples
    ]
    assert sum(values) / (10 * per_turn) * 10_000 > 1_000_000


def test_a_filled_folder(tmp_path: Path) -> None:
    n_samples = fill(tmp_path, n_runs=120, seed=3)
    engine = connect(f"sqlite:///{tmp_path / DATABASE}")
    own = runs.list_runs(engine, shipped=False)
    assert len(own) == 120
    assert own["created_at"].is_monotonic_decreasing
    # what came with the app was there first
    assert own["created_at"].min() > runs.list_runs(engine, shipped=True)["created_at"].max()
    held = sum(
        len(sample["values"]) for run_id in own["id"] for sample in runs.samples(engine, run_id)
    )
    assert held == n_samples
    counts = jobs.counts(engine)
    assert counts["failed"] > 0
    assert counts["succeeded"] > counts["failed"]
    engine.dispose()
    assert main(["--data-dir", str(tmp_path)]) == 2
