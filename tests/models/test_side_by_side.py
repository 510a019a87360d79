"""Runs side by side: rows that match, conditions first, no number where meanings differ."""

import pytest

from models.result import Measurement, Result, Scalar, Tool
from models.side_by_side import converted, differing_conditions, rows


def measured(
    metric: str, value: float, definition: str, statistic: str = "mean", round: int | None = None,
    **dims: Scalar,
) -> Measurement:  # fmt: skip
    units = {"allreduce_latency": "us", "output_throughput": "tok/s"}
    return Measurement(
        metric=metric, statistic=statistic, unit=units.get(metric, "ms"), value=value,
        definition=definition, round=round, dims=dims,
    )  # fmt: skip


def run(*measurements: Measurement, **fields: object) -> Result:
    return Result.model_validate({
        "kind": "serving", "origin": "imported", "tool": Tool(name="t"), **fields,
        "measurements": list(measurements),
    })  # fmt: skip


def test_a_dimension_that_holds_for_a_whole_run_is_no_row() -> None:
    on, off = (
        run(
            measured("allreduce_latency", 6.5 * f, "g:a:1", bytes=1024, link=link),
            measured("allreduce_latency", 7.0 * f, "g:a:1", bytes=4096, link=link),
        )
        for link, f in (("on", 1.0), ("off", 2.0))
    )
    found = rows([on, off])
    assert [row.dims for row in found] == [{"bytes": 1024}, {"bytes": 4096}]
    assert [row.change_pct(1) for row in found] == pytest.approx([100.0, 100.0])
    differing = {row.name: row.values for row in differing_conditions([on, off])}
    assert differing == {"load: link": ("on", "off")}


def test_what_was_asked_and_measured_alike_is_one_row_with_its_reason() -> None:
    on, off = (
        run(measured("allreduce_latency", 6.5, "g:a:1", bytes=1024, link=link), spec={"link": link})
        for link in ("on", "off")
    )
    (row,) = differing_conditions([on, off])
    assert (row.name, row.values) == ("load: link", ("on", "off"))
    assert "through the host's memory" in row.why


def test_rounds_are_gathered_to_their_median() -> None:
    several = run(*(measured("ttft", value, "vllm:ttft:2", round=number)
                    for number, value in enumerate((50.0, 90.0, 52.0))))  # fmt: skip
    single = run(measured("ttft", 26.0, "vllm:ttft:2"))
    (row,) = rows([several, single])
    assert row.cells[0] is not None
    assert (row.cells[0].value, row.cells[0].rounds) == (52.0, 3)
    assert row.change_pct(1) == -50.0


def test_two_meanings_give_a_reason_and_no_change() -> None:
    (row,) = rows([
        run(measured("tpot", 10.25, "vllm:tpot:2")), run(measured("tpot", 10.6, "guidellm:itl:1")),
    ])  # fmt: skip
    assert row.reason is not None
    assert "weighed by tokens" in row.reason
    assert row.change_pct(1) is None


def test_what_two_tools_say_of_one_run_stays_apart() -> None:
    measured_here = run(
        measured("tpot", 10.0, "vllm:tpot:2"), measured("tpot", 12.0, "linkworth:tpot:1")
    )
    imported = run(measured("tpot", 11.0, "vllm:tpot:2"))
    (row,) = rows([measured_here, imported])
    assert [cell and cell.value for cell in row.cells] == [10.0, 11.0]
    both = rows([measured_here, measured_here])
    assert [[cell and cell.value for cell in row.cells] for row in both] == [[10, 10], [12, 12]]


def test_a_third_run_that_means_something_else_is_named() -> None:
    one, two = (run(measured("tpot", value, "vllm:tpot:2")) for value in (10.0, 11.0))
    other = run(measured("tpot", 10.6, "guidellm:itl:1"))
    shared, refused = rows([one, two, other])
    assert (shared.reason, shared.cells[2]) == (None, None)
    assert refused.reason is not None
    assert [cell is not None for cell in refused.cells] == [True, False, True]


def test_revisions_that_matter_little_compare_with_a_caution() -> None:
    (row,) = rows([
        run(measured("tpot", 10.0, "vllm:tpot:1")), run(measured("tpot", 11.0, "vllm:tpot:2")),
    ])  # fmt: skip
    assert row.reason is None
    assert row.caution is not None
    assert row.change_pct(1) == pytest.approx(10.0)


def test_the_first_run_that_has_a_quantity_is_the_base() -> None:
    other = run(measured("ttft", 9.0, "vllm:ttft:2"))
    slow, fast = (run(measured("tpot", value, "vllm:tpot:2")) for value in (20.0, 10.0))
    (row,) = rows([other, slow, fast])
    assert row.base == 1
    assert [row.change_pct(index) for index in range(3)] == [None, 0.0, -50.0]


def test_counts_are_the_same_whoever_counts() -> None:
    one, two = (
        run(Measurement(metric="completed", unit="", value=n, definition=f"{tool}:completed:1"))
        for tool, n in (("vllm", 40), ("guidellm", 44))
    )
    (row,) = rows([one, two])
    assert row.reason is None


def test_what_only_one_run_has_is_no_row() -> None:
    first = run(measured("ttft", 50.0, "vllm:ttft:2"), measured("itl", 9.0, "vllm:itl:2"))
    second = run(measured("ttft", 60.0, "vllm:ttft:2"))
    assert [row.metric for row in rows([first, second])] == ["ttft"]


def test_an_invalid_run_gives_no_number() -> None:
    good = run(measured("ttft", 50.0, "vllm:ttft:2"))
    bad = run(measured("ttft", 5.0, "vllm:ttft:2"), validity="invalid", reasons=["wrong"])
    assert rows([good, bad]) == []
    (row,) = rows([good, bad, good])
    assert row.cells[1] is None
    assert row.change_pct(1) is None
    assert row.change_pct(2) == 0


def test_a_base_of_zero_gives_no_change() -> None:
    (row,) = rows([
        run(measured("ttft", 0.0, "vllm:ttft:2")), run(measured("ttft", 5.0, "vllm:ttft:2")),
    ])  # fmt: skip
    assert row.change_pct(1) is None


def test_conditions_of_three_runs_stand_in_one_row() -> None:
    found = differing_conditions([
        run(measured("ttft", 1.0, "d:d:1"), environment={"variables": {"OMP_NUM_THREADS": n}},
            said={"tp": 2} if n == "8" else {})
        for n in ("1", "1", "8")
    ])  # fmt: skip
    values = {row.name: row.values for row in found}
    assert values["OMP_NUM_THREADS"] == ("1", "1", "8")
    assert values["said by a person: tp"] == ("not stated", "not stated", "2")
    assert next(row.why for row in found if row.name == "OMP_NUM_THREADS")


def test_an_exact_conversion_is_offered() -> None:
    dims = {"output_len": 16}
    one = run(
        measured("ttft", 52.83566316, "guidellm:ttft:1", **dims),
        measured("tpot_with_ttft", 13.23018968, "guidellm:tpot:1", **dims),
    )
    two = run(
        measured("tpot", 10.6, "guidellm:itl:1", **dims),
        measured("tpot_with_ttft", 13.3, "guidellm:tpot:1", **dims),
    )
    (row,) = (row for row in rows([one, two]) if row.metric == "tpot_with_ttft")
    found = list(converted(row, [one, two]))
    assert [(index, target) for index, target, _, _ in found] == [(0, "guidellm:itl:1")]
    assert found[0][2] == pytest.approx(10.58982478, rel=1e-6)
