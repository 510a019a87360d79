"""The one line that a list shows of a run, made when it is stored."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median

from models.metrics import METRICS
from models.result import Measurement, Result
from models.step_clocks import CLOCKS

_TYPICAL = ("median", "mean", "value", "speedup", "change_pct")
_CLOCKS = ("wall_graph", "wall", "wall_served", "replay", "wall_eager", "replay_no_allreduce")
_MODES = ("graph", "eager", "exposed")
_TYPICAL_MESSAGE_BYTES = 3072  # what a decode step of a small model sends


def headline(result: Result) -> str:
    """The number that a person looks for first, with its unit and the case it is of."""
    if result.validity == "invalid" and not result.measurements:
        return result.reasons[0] if result.reasons else ""
    found = _BY_KIND.get(result.kind, _first)(result)
    return found or _first(result)


def amount(value: float, unit: str) -> str:
    """A number as people read it: three digits, thousands parted."""
    if abs(value) >= 1000:
        digits = f"{value:,.0f}"
    elif value == int(value):
        digits = f"{value:.0f}"
    else:
        digits = f"{value:.3g}"
    return f"{digits} {unit}".strip()


def size_words(n_bytes: float) -> str:
    """A message size in binary units, as link benchmarks name it."""
    for unit, power in (("GB", 30), ("MB", 20), ("KB", 10)):
        if n_bytes >= 1 << power:
            return f"{n_bytes / (1 << power):.4g} {unit}"
    return f"{n_bytes:.0f} B"


def _allreduce(result: Result) -> str:
    rows = _typical(result, "allreduce_latency") or _typical(result, "collective_latency")
    rows = [row for row in rows if isinstance(row.dims.get("bytes"), int | float)]
    if not rows:
        return ""
    mode = _preferred(rows, "mode", _MODES)
    rows = [row for row in rows if row.dims.get("mode") == mode]
    # the typical message, else the next larger one, else the largest there is
    sizes = sorted({_number(row, "bytes") for row in rows})
    size = next((size for size in sizes if size >= _TYPICAL_MESSAGE_BYTES), sizes[-1])
    rows = [row for row in rows if row.dims["bytes"] == size]
    words = f"{_middle(rows)} at {size_words(size)}"
    return f"{words} ({mode})" if mode else words


def _decode(result: Result) -> str:
    rows = _typical(result, "decode_step")
    if not rows:
        return ""
    clock = _preferred(rows, "clock", _CLOCKS)
    rows = _smallest([row for row in rows if row.dims.get("clock") == clock], "batch", "kv_len")
    case = [
        f"{word} {rows[0].dims[name]}"
        for name, word in (("batch", "batch"), ("kv_len", "KV"))
        if rows[0].dims.get(name) is not None
    ]
    if clock:
        case.append(CLOCKS[clock].short)
    return f"{_middle(rows)} a step" + (f" ({', '.join(case)})" if case else "")


def _serving(result: Result) -> str:
    rows = [row for row in _typical(result, "output_throughput") if row.value is not None]
    if not rows:
        return ""
    best = max(rows, key=lambda row: row.value or 0.0)
    same = [row for row in rows if row.dims == best.dims and row.statistic == best.statistic]
    words = _middle(same)
    tpot = [row for row in _typical(result, "tpot") if row.dims == best.dims]
    if tpot:
        words += f", TPOT {_middle(tpot)}"
    level = best.dims.get("concurrency")
    return f"{words} at concurrency {level}" if level is not None else words


def _soak(result: Result) -> str:
    hours, incidents = result.find("soak_hours"), result.find("incidents")
    words = [_middle(hours)] if hours else []
    if incidents:
        n = sum(int(row.value or 0) for row in incidents)
        words.append("1 incident" if n == 1 else f"{n} incidents")
    return ", ".join(words)


def _p2p(result: Result) -> str:
    wrong = sum(row.value or 0 for row in result.find("wrong_values"))
    if wrong:
        return f"{wrong:.0f} wrong values"
    rows = [row for row in _typical(result, "p2p_bandwidth") if row.value is not None]
    return f"up to {amount(max(row.value or 0.0 for row in rows), 'GB/s')}" if rows else ""


def _topology(result: Result) -> str:
    gpus = result.gpus
    if gpus is None:
        return ""
    kinds = sorted({kind for row in result.links or [] for kind in row if kind not in (None, "X")})
    words = "1 GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs"
    return f"{words}, links {', '.join(str(kind) for kind in kinds)}" if kinds else words


def _first(result: Result) -> str:
    for row in result.measurements:
        label = METRICS[row.metric].label
        if row.statistic in _TYPICAL:
            words = _middle([row])
            if row.statistic == "change_pct":
                words = f"{'' if words.startswith('-') else '+'}{words}"
            against = f" against {row.relative_to}" if row.relative_to else ""
            return f"{label}: {words}{against}"
    return ""


_BY_KIND: dict[str, Callable[[Result], str]] = {
    "allreduce": _allreduce,
    "collective": _allreduce,
    "decode": _decode,
    "serving": _serving,
    "soak": _soak,
    "p2p": _p2p,
    "topology": _topology,
}


def _typical(result: Result, metric: str) -> list[Measurement]:
    """Rows of the first typical statistic that the metric has; rounds before their summary."""
    for statistic in _TYPICAL:
        rows = result.find(metric, statistic)
        if rows:
            return [row for row in rows if row.round is not None] or rows
    return []


def _preferred(rows: Iterable[Measurement], dim: str, order: Sequence[str]) -> str | None:
    there = {row.dims.get(dim) for row in rows}
    return next((value for value in order if value in there), None)


def _smallest(rows: list[Measurement], *dims: str) -> list[Measurement]:
    for dim in dims:
        known = [row for row in rows if isinstance(row.dims.get(dim), int | float)]
        if known:
            least = min(_number(row, dim) for row in known)
            rows = [row for row in known if row.dims[dim] == least]
    return rows


def _number(row: Measurement, dim: str) -> float:
    value = row.dims[dim]
    return float(value) if isinstance(value, int | float) else 0.0


def _middle(rows: Sequence[Measurement]) -> str:
    """The median of the rows' values; a range where only one is known."""
    values = [row.value for row in rows if row.value is not None]
    unit = rows[0].unit
    if values:
        return amount(median(values), unit)
    ends = [amount(end, "") for end in (rows[0].low, rows[0].high) if end is not None]
    return f"{' to '.join(ends)} {unit}".strip()
