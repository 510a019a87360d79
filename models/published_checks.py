"""A published study's own arithmetic, done again: the author's figure and ours side by side.

Neither is adjusted. Where the author rounds before multiplying, the two differ in the last digit
and both are shown.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from models.curve import step_cost_ms
from models.result import Measurement, Result


@dataclass(frozen=True)
class Check:
    """One derived figure of a study.

    Attributes:
        arm: Which configuration.
        what: The quantity in words, with its unit.
        printed: The author's figure, None where only a range or nothing is printed.
        printed_range: The author's range, None where a figure is printed.
        ours: What the study's own inputs give.
        digits: Decimals that the author prints.
        formula: How ours is computed, with its inputs.
    """

    arm: str
    what: str
    printed: float | None
    printed_range: tuple[float, float] | None
    ours: float
    digits: int
    formula: str

    @property
    def agrees(self) -> bool | None:
        """Whether ours equals the printed figure to its last digit; None where none is printed."""
        rounded = round(self.ours, self.digits)
        if self.printed is not None:
            return abs(rounded - self.printed) < 0.5 * 10.0**-self.digits
        if self.printed_range is not None:
            return self.printed_range[0] <= rounded <= self.printed_range[1]
        return None


def checks(results: Iterable[Result]) -> list[Check]:
    """Every derived figure of one study's results that its own inputs allow to compute.

    Args:
        results: All results of one published study.

    Returns:
        Cost of a step from one call's total (calls x latency), tokens a second from step time,
        speedups from step times, changes between arms; and, where nothing is printed, the share
        of transfer and the CPU's part of a step.
    """
    known = list(results)
    return [
        *_allreduce([r for r in known if r.kind == "allreduce"]),
        *_decode([r for r in known if r.kind == "decode"]),
        *_changes([r for r in known if r.kind == "serving"]),
    ]


def decimals(value: float) -> int:
    """Decimals of a printed figure; a whole number has none."""
    text = f"{value:.10f}".rstrip("0")
    return len(text.partition(".")[2])


def _arm(result: Result) -> str:
    return result.evaluation.arm if result.evaluation else (result.title or result.id)


def _one(result: Result, metric: str, statistic: str = "value", **dims: str) -> float | None:
    found = result.find(metric, statistic, **dims)
    return found[0].value if found else None


def _allreduce(results: list[Result]) -> list[Check]:
    rows: list[Check] = []
    for result in results:
        arm = _arm(result)
        total = _one(result, "allreduce_latency")
        calls = _one(result, "calls_per_step")
        cost = _one(result, "allreduce_step_cost")
        transfer = _one(result, "allreduce_transfer")
        if total is not None and calls is not None:
            rows.append(
                _figure(
                    arm,
                    "all-reduces of a step (ms)",
                    cost,
                    step_cost_ms(total, int(calls)),
                    f"{total:g} us x {calls:g} calls",
                    unprinted_digits=2,
                )
            )
        if total is not None and transfer is not None:
            share = 100 * transfer / total
            formula = f"{transfer:g} us / {total:g} us"
            rows.append(_figure(arm, "transfer's share of a call (%)", None, share, formula, 2))
    return rows


def _decode(results: list[Result]) -> list[Check]:
    rows: list[Check] = []
    by_arm = {_arm(result): result for result in results}
    for result in results:
        arm = _arm(result)
        for step in result.find("decode_step"):
            clock = str(step.dims.get("clock"))
            if step.value is None:
                continue
            rate = _one(result, "decode_throughput", clock=clock)
            if rate is not None:
                rows.append(
                    _figure(
                        arm, f"tok/s, {clock}", rate, 1e3 / step.value, f"1 / {step.value:g} ms"
                    )
                )
            for speedup in result.find("decode_speedup", clock=clock):
                base = by_arm.get(str(speedup.relative_to))
                alone = None if base is None else _one(base, "decode_step", clock=clock)
                if alone is not None:
                    formula = f"{alone:g} ms / {step.value:g} ms"
                    ours = alone / step.value
                    what = f"speedup over {speedup.relative_to}, {clock}"
                    rows.append(_figure(arm, what, speedup.value, ours, formula))
        wall = _one(result, "decode_step", clock="wall")
        replay = _one(result, "decode_step", clock="replay")
        if wall is not None and replay is not None:
            formula = f"{wall:g} ms - {replay:g} ms"
            rows.append(_figure(arm, "CPU's part of a step (ms)", None, wall - replay, formula, 2))
    return rows


def _changes(results: list[Result]) -> list[Check]:
    """Printed changes in percent between arms or loads whose absolute values are printed too."""
    rows: list[Check] = []
    for result in results:
        for gain in (row for row in result.measurements if row.statistic == "change_pct"):
            base = _base(results, result, gain)
            statistic = gain.definition.rpartition("-of-")[2] if "-of-" in gain.definition else ""
            name = statistic or "value"
            after = _one(result, gain.metric, name)
            before = None if base is None else _one(base, gain.metric, name)
            if after is None or before is None:
                continue
            label = f"{_arm(result)}, concurrency {gain.dims.get('concurrency')}"
            what = f"{gain.metric} against {gain.relative_to} (%)"
            formula = f"{after:g} / {before:g} - 1"
            ours = 100 * (after / before - 1)
            if gain.value is None and gain.low is not None and gain.high is not None:
                rows.append(Check(label, what, None, (gain.low, gain.high), ours, 0, formula))
            else:
                rows.append(_figure(label, what, gain.value, ours, formula))
    return rows


def _base(results: list[Result], result: Result, gain: Measurement) -> Result | None:
    """The result that a change is relative to: another arm, or the same arm at another load."""
    relative = str(gain.relative_to)
    load = gain.dims.get("concurrency")
    arm, _, other_load = relative.partition(", concurrency ")
    wanted = other_load or str(load)
    for candidate in results:
        loads = {str(row.dims.get("concurrency")) for row in candidate.measurements}
        if _arm(candidate) == arm and wanted in loads and candidate is not result:
            return candidate
    return None


def _figure(
    arm: str,
    what: str,
    printed: float | None,
    ours: float,
    formula: str,
    unprinted_digits: int = 1,
) -> Check:
    digits = unprinted_digits if printed is None else decimals(printed)
    return Check(arm, what, printed, None, ours, digits, formula)
