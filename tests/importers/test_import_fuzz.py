"""Damaged files end in a result or in UnreadableFile, nothing else, and in bounded memory."""

import tracemalloc
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated
from sample_answers import SAMPLES

from importers import recognise
from models.errors import UnreadableFile
from models.result import dumps

FIXTURES = Path(__file__).parent / "fixtures"
PEAK_LIMIT = 64 * 1024 * 1024  # bytes; the largest sample has 0.2 MB
LARGEST = 250_000


@cache
def originals() -> list[bytes]:
    """Our fixtures, and the shared samples where they are."""
    roots = [FIXTURES, *(SAMPLES / name for name in ("serving", "nccl", "topo", "nvlink"))]
    paths = [path for root in roots for path in sorted(root.rglob("*")) if path.is_file()]
    return [
        path.read_bytes()
        for path in paths
        if path.name != "expected.json" and path.stat().st_size < LARGEST
    ]


def ends_well(which: int, seed: int) -> None:
    data = mutated(originals()[which % len(originals())], seed)
    try:
        bundle = recognise.read(data, "damaged")
    except UnreadableFile as error:
        refused = error
    else:
        assert bundle.results
        assert "NaN" not in dumps(bundle.results, indent=None).replace("NaN or Infinity", "")
        return
    assert refused.sentence
    assert len(str(refused)) < 2000


cases = given(which=st.integers(0, 10_000), seed=st.integers(0, 2**32))
relaxed = settings(
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@cases
@settings(relaxed, max_examples=400)
def test_damaged_files_end_in_a_result_or_a_refusal(which: int, seed: int) -> None:
    ends_well(which, seed)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_thousand_damaged_files_in_bounded_memory() -> None:
    seen = 0

    @cases
    @settings(relaxed, max_examples=10_000)
    def run(which: int, seed: int) -> None:
        nonlocal seen
        seen += 1
        ends_well(which, seed)

    originals()
    tracemalloc.start()
    try:
        run()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seen >= 10_000
    assert peak < PEAK_LIMIT, f"{peak / 1e6:.0f} MB at the peak"
