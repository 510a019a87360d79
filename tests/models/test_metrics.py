import pytest

from models.errors import InvalidSpec
from models.metrics import METRICS, is_better, metric


def test_names_are_keys_and_words_end_as_sentences() -> None:
    for name, row in METRICS.items():
        assert row.name == name
        assert row.meaning.endswith("."), name
        assert row.direction in ("lower", "higher", "none")


def test_direction_belongs_to_the_metric() -> None:
    assert is_better("ttft", 500, 900) is True
    assert is_better("output_throughput", 500, 900) is False
    assert is_better("duration", 1, 2) is None
    assert is_better("ttft", 5, 5) is None


def test_axis_carries_the_unit() -> None:
    assert metric("ttft").axis == "Time to first token (ms)"
    assert metric("completed").axis == "Requests completed"


def test_unknown_metric() -> None:
    with pytest.raises(InvalidSpec, match="no metric called 'speed'"):
        metric("speed")
