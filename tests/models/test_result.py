import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from models.errors import UnreadableFile
from models.metrics import METRICS
from models.result import (
    Measurement,
    Result,
    Study,
    Tool,
    dump,
    dumps,
    json_schema,
    parse,
    study_id,
)


def measured(**changes: Any) -> Measurement:
    fields: dict[str, Any] = {
        "metric": "allreduce_latency",
        "statistic": "median",
        "unit": "us",
        "value": 6.5,
        "dims": {"bytes": 3072, "mode": "graph"},
        "definition": "linkworth:allreduce-graph:1",
    }
    return Measurement(**(fields | changes))


def result(**changes: Any) -> Result:
    fields: dict[str, Any] = {
        "kind": "allreduce",
        "origin": "measured",
        "tool": Tool(name="linkworth", version="0.1.0"),
        "measurements": [measured()],
    }
    return Result(**(fields | changes))


def test_round_trip_and_schema() -> None:
    run = result(started_at=datetime(2026, 1, 2, tzinfo=UTC))
    data = dump(run)
    jsonschema.validate(data, json_schema())
    assert data["schema"] == 1
    assert parse(json.loads(json.dumps(data))) == run
    assert json.loads(dumps([run])) == [data]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"metric": "speed"}, "unknown metric"),
        ({"unit": "ms"}, "stored in 'us'"),
        ({"statistic": "typical"}, "unknown statistic"),
        ({"dims": {"colour": "red"}}, "no dimension"),
        ({"value": None}, "neither a value nor a range"),
        ({"value": None, "low": 2.0, "high": 1.0}, "low end lies above"),
        ({"value": math.nan}, "finite"),
        ({"value": math.inf}, "finite"),
        ({"n": -1}, "greater than or equal"),
    ],
)
def test_a_measurement_that_cannot_be(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        measured(**changes)


def test_a_range_without_a_value_is_a_measurement() -> None:
    row = measured(statistic="change_pct", unit="%", value=None, low=8, high=10, relative_to="off")
    assert row.value is None
    assert (row.low, row.high) == (8, 10)


def test_a_doubtful_run_says_why() -> None:
    with pytest.raises(ValidationError, match="must say why"):
        result(validity="suspect")
    assert result(validity="suspect", reasons=["clock fell"]).reasons == ["clock fell"]


def test_times_need_a_zone_and_become_utc() -> None:
    with pytest.raises(ValidationError, match="time zone"):
        result(started_at=datetime(2026, 1, 2))  # noqa: DTZ001
    east = timezone(timedelta(hours=8))
    run = result(started_at=datetime(2026, 1, 2, 8, tzinfo=east))
    assert run.started_at == datetime(2026, 1, 2, 0, tzinfo=UTC)


def test_what_does_not_fit_is_named() -> None:
    data = dump(result())
    data["measurements"][0]["unit"] = "s"
    with pytest.raises(UnreadableFile, match=r"measurements\.0"):
        parse(data)
    with pytest.raises(UnreadableFile, match="not a Linkworth result"):
        parse([1, 2])


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(UnreadableFile, match="surprise"):
        parse(dump(result()) | {"surprise": 1})


def test_find_matches_dims() -> None:
    run = result(measurements=[measured(), measured(dims={"bytes": 1024, "mode": "graph"})])
    assert [row.dims["bytes"] for row in run.find("allreduce_latency", mode="graph")] == [
        3072,
        1024,
    ]
    assert run.find("allreduce_latency", "median", bytes=1024)[0].dims["bytes"] == 1024
    assert run.find("allreduce_latency", "p90") == []


@given(
    st.sampled_from(sorted(METRICS)),
    st.floats(allow_nan=False, allow_infinity=False, width=64),
    st.integers(0, 10**9),
)
def test_every_metric_survives_json(name: str, value: float, n: int) -> None:
    row = Measurement(metric=name, unit=METRICS[name].unit, value=value, n=n, definition="t:1")
    run = result(measurements=[row])
    assert parse(json.loads(dumps([run]))[0]).measurements[0].value == value


@pytest.mark.parametrize(
    ("name", "expected"),
    [("decode-1.5b", "decode-1-5b"), ("Served 14B.", "served-14b"), ("two-h200", "two-h200")],
)
def test_any_files_name_gives_an_id(name: str, expected: str) -> None:
    assert study_id(name) == expected
    assert Study(id=study_id(name), title="t", origin="measured", source="s").id == expected


@pytest.mark.parametrize("name", ["", "...", "研究"])
def test_a_name_without_a_letter_gives_none(name: str) -> None:
    with pytest.raises(ValueError, match="needs letters"):
        study_id(name)
