"""One run of a collective benchmark, whatever printed it, and what is made of it.

Nothing is invented: a collective, a number of GPUs or a mode that the text does not state stays
unknown, unless bandwidths tell an all-reduce beyond doubt, and then it is said to be inferred.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from importers.draft import Draft, number
from models.result import Kind

# how a table writes a number type -> how we do
DTYPES = {
    "float": "float32",
    "half": "float16",
    "double": "float64",
}
_SUMS = ("sum", "avg", "prod", "max", "min", "mulsum")
_INFER_FROM_GBPS = 1.0  # below, two decimals do not tell 1.75 from 1.8
_MAX_RANKS = 128

REASONS = {
    "no_rows": "No data row was printed: the run failed, hung or was cut.",
    "tool_failed": "The test stopped with an error before the first row.",
    "single_gpu": "One GPU: nothing crosses a link, so bandwidth means nothing.",
    "two_single_runs": "Two independent one-GPU runs printed over each other (built without MPI).",
    "wrong_values": "Wrong values were computed: the speed means nothing.",
}


@dataclass
class Half:
    """The out-of-place or in-place half of a row."""

    time_us: float | None = None
    algbw: float | None = None
    busbw: float | None = None
    wrong: float | None = None
    error: float | None = None
    extra: dict[str, float] = field(default_factory=dict)  # statistic -> us
    samples_us: list[float] = field(default_factory=list)


@dataclass
class Row:
    """One message size."""

    size: int
    dtype: str | None = None
    redop: str | None = None
    root: int | None = None
    algorithm: str | None = None
    out_of_place: Half | None = None
    in_place: Half | None = None

    @property
    def halves(self) -> list[tuple[str, Half]]:
        """Name and numbers of the halves that are there."""
        both = (("out_of_place", self.out_of_place), ("in_place", self.in_place))
        return [(name, half) for name, half in both if half is not None]


@dataclass
class Run:
    """All that one run printed."""

    tool: str = "nccl-tests"
    version: str | None = None
    library: str | None = None
    collective: str | None = None
    mode: str | None = None  # "graph", "eager", or None: not stated
    ranks: set[int] = field(default_factory=set)
    gpus: dict[int, str] = field(default_factory=dict)  # rank -> name
    rank_zero_lists: int = 0
    iterations: int | None = None
    aggregated: int | None = None
    validation: bool | None = None
    cpu_time: bool = False
    rows: list[Row] = field(default_factory=list)
    zero_sizes: int = 0
    cut: bool = False
    has_header: bool = False
    has_footer: bool = False
    out_of_bounds: int | None = None
    failed: bool = False
    error_text: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def n_gpus(self) -> int | None:
        """Ranks, where the list of devices is complete from rank 0 on."""
        n = len(self.ranks)
        return n if n and self.ranks == set(range(n)) else None

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was seen of a run."""
        return not (
            self.rows or self.has_header or self.ranks or self.collective or self.has_footer
        )


def to_draft(run: Run) -> Draft:
    """The result of a run; invalid where it cannot be a measurement."""
    n_gpus, collective = run.n_gpus, run.collective
    inferred: list[str] = []
    if collective in (None, "all_reduce"):
        ranks = _inferred_ranks(run.rows)
        if ranks is not None and n_gpus in (None, ranks):
            inferred = ["n_gpus"] * (n_gpus is None) + ["collective"] * (collective is None)
            n_gpus, collective = ranks, "all_reduce"
    what = (collective or "unknown collective").replace("_", " ")
    kind: Kind = "allreduce" if collective == "all_reduce" else "collective"
    draft = Draft(kind, run.tool, version=run.version, title=f"{run.tool}: {what}")
    draft.environment = {**run.environment, **({"nccl": run.library} if run.library else {})}
    draft.spec = {
        "collective": collective,
        "n_gpus": n_gpus,
        "mode": run.mode,
        "inferred": inferred,
    }
    if run.gpus:
        draft.host = {"gpus": [{"index": i, "name": name} for i, name in run.gpus.items()]}
    reason = _unusable(run)
    if reason is not None:
        detail = f" ({run.error_text})" if reason == "tool_failed" and run.error_text else ""
        draft.invalid(reason, REASONS[reason] + detail)
    if reason in (None, "wrong_values"):
        _numbers(run, draft, n_gpus)
        _judge(run, draft)
    return draft


def _unusable(run: Run) -> str | None:
    if run.rank_zero_lists > 1 and run.ranks == {0}:
        return "two_single_runs"
    if not run.rows:
        return "tool_failed" if run.failed else "no_rows"
    busbws = [half.busbw for row in run.rows for _, half in row.halves if half.busbw is not None]
    fast = any((half.algbw or 0) > 1 for row in run.rows for _, half in row.halves)
    if run.n_gpus == 1 or (fast and busbws and not any(busbws)):
        return "single_gpu"
    wrong = any((half.wrong or 0) > 0 for row in run.rows for _, half in row.halves)
    return "wrong_values" if wrong or run.out_of_bounds else None


def _numbers(run: Run, draft: Draft, n_gpus: int | None) -> None:
    time_metric = "allreduce_latency" if draft.kind == "allreduce" else "collective_latency"
    if run.cpu_time:
        definition = f"{run.tool}:cpu-time:1"
    else:
        definition = f"{run.tool}:{run.mode or 'unknown-mode'}:1"
    for row in run.rows:
        dims = {
            "bytes": row.size,
            "mode": run.mode,
            "ranks": n_gpus,
            "dtype": DTYPES.get(row.dtype or "", row.dtype),
            "op": draft.spec["collective"] if draft.kind == "collective" else None,
            "algorithm": row.algorithm,
            "link": "off" if run.environment.get("NCCL_P2P_DISABLE") == "1" else None,
        }
        known = {name: value for name, value in dims.items() if value is not None}
        for placement, half in row.halves:
            here = {**known, "placement": placement}
            n = run.iterations
            draft.put(time_metric, half.time_us, definition, "mean", n=n, dims=here)
            for statistic, value in half.extra.items():
                draft.put(time_metric, value, definition, statistic, n=n, dims=here)
            draft.put("algbw", half.algbw, f"{run.tool}:algbw:1", "mean", n=n, dims=here)
            draft.put("busbw", half.busbw, f"{run.tool}:busbw:1", "mean", n=n, dims=here)
            draft.put("wrong_values", half.wrong, f"{run.tool}:wrong:1", dims=here)
            draft.sample(time_metric, half.samples_us, here)
    errors = [half.error for row in run.rows for _, half in row.halves if half.error is not None]
    if errors:
        draft.spec["max_relative_error"] = max(errors)


def _judge(run: Run, draft: Draft) -> None:
    if run.cut or (run.has_header and not run.has_footer):
        draft.suspect("truncated", "The output is cut: sizes may be missing at its end.")
    if run.failed:
        draft.suspect("tool_failed", "The test printed an error: later sizes may be missing.")
    if run.zero_sizes:
        draft.warn("zero_size_rows", f"{run.zero_sizes} rows of size 0 were dropped.")
    if (run.aggregated or 1) > 1:
        draft.suspect(
            "fused",
            f"{run.aggregated} operations were fused into one launch: a call looks too fast.",
        )
    if run.cpu_time:
        draft.suspect("cpu_time", "The times are the CPU's launch times, not those of the GPU.")
    checked = [half.wrong is not None for row in run.rows for _, half in row.halves]
    has_errors = "max_relative_error" in draft.spec
    if run.validation is False or (not any(checked) and not has_errors):
        draft.warn("unchecked", "The values were not checked.")
    if draft.spec["inferred"]:
        what = {"n_gpus": f"{draft.spec['n_gpus']} GPUs", "collective": "all-reduce"}
        draft.warn(
            "inferred",
            "Not stated, inferred from bus and algorithm bandwidth: "
            + ", ".join(what[name] for name in draft.spec["inferred"])
            + ".",
        )
    if draft.spec["collective"] is None:
        draft.warn("no_collective", "The text does not name the collective operation.")
    if run.mode is None:
        draft.warn("no_mode", "Whether calls ran eagerly or in a CUDA graph is not stated.")
    if not run.gpus:
        draft.warn("no_gpu", "The text does not say which GPUs took part.")
    if draft.spec["n_gpus"] is None:
        draft.warn("no_gpu_count", "The text does not say how many GPUs took part.")
    if draft.kind == "allreduce":
        _plausible(run, draft)


def _plausible(run: Run, draft: Draft) -> None:
    """Algorithm bandwidth times time must give the size: look-alike tables do not pass."""
    for row in run.rows:
        for _, half in row.halves:
            if (half.algbw or 0) < 0.1 or not half.time_us:
                continue
            moved = (half.algbw or 0) * 1e3 * half.time_us
            if abs(moved - row.size) > 0.06 * row.size:
                draft.suspect(
                    "inconsistent",
                    f"At {row.size} bytes, bandwidth times time does not give the size: this may "
                    "be another kind of table.",
                )
                return


def _inferred_ranks(rows: Sequence[Row]) -> int | None:
    """Ranks n where every fast row of a reduction shows busbw / algbw = 2(n-1)/n, n > 2."""
    fits: set[int] | None = None
    for row in rows:
        if row.redop not in _SUMS or (row.root is not None and row.root >= 0):
            return None
        for _, half in row.halves:
            algbw, busbw = number(half.algbw), number(half.busbw)
            if algbw is None or busbw is None or algbw < _INFER_FROM_GBPS:
                continue
            low, high = (busbw - 0.006) / (algbw + 0.006), (busbw + 0.006) / (algbw - 0.006)
            here = {n for n in range(3, _MAX_RANKS) if low <= 2 * (n - 1) / n <= high}
            fits = here if fits is None else fits & here
    return fits.pop() if fits is not None and len(fits) == 1 else None
