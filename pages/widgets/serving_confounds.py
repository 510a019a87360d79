"""What else changed between two served arms, beside what is compared. Draws nothing."""

import re
from collections.abc import Sequence
from typing import Any

from db import runs
from db.engine import Engine
from models.conditions import Difference, differences, said
from models.confounds import acceptance_warning
from models.rounds import summary
from models.serving_slo import per_acceptance
from pages.widgets.serving_arms import Arm, cell_words, facts_of
from pages.widgets.serving_compare import Row

# what a spec asks for that is load or repetition, not configuration
_NO_FACTOR = frozenset(
    "kind round rounds seed workloads workload warmup_round output_check vllm_python".split()
)
# follow from the arm's link, kernel and cores, which are told as what was asked for
_MEANT = frozenset(
    {"NCCL_P2P_DISABLE", "custom_all_reduce", "all_reduce", "workers", "VLLM_CPU_OMP_THREADS_BIND"}
)
_SIZE = frozenset({"tp", "replicas", "cpu_cores"})
_WORDS = {
    "tp": "TP size",
    "replicas": "servers side by side",
    "cpu_cores": "processor cores",
    "link": "link",
    "custom_all_reduce": "custom all-reduce",
    "gpus": "GPUs",
    "base_url": "server",
    "load_format": "weights",
}
_THREADS = re.compile(r"OMP_NUM_THREADS (\d+|unset)")


def confounds(engine: Engine, arms: tuple[Arm, Arm]) -> list[str]:
    """What else may explain a difference between two arms, a sentence each.

    Args:
        engine: The database.
        arms: Reference and other arm; of published ones only the author's own words are known.
    """
    known = _known(engine, arms)
    if known is None:
        return []
    left, right, rows = known
    specs = left["spec"], right["spec"]
    found = _kernel(specs)
    if all(spec.get("arm") for spec in specs):  # a file of another tool does not tell
        found += _several(rows)
    return found + _unasked(left, right, rows)


def unasked(engine: Engine, arms: tuple[Arm, Arm]) -> list[str]:
    """Of the same, what nobody asked for: found on the machine, or chosen by the engine."""
    known = _known(engine, arms)
    return [] if known is None else _unasked(*known)


def _known(
    engine: Engine, arms: tuple[Arm, Arm]
) -> tuple[dict[str, Any], dict[str, Any], list[Difference]] | None:
    """What both arms' latest runs say, and where they differ; None where one says nothing."""
    if any(arm.origin not in ("measured", "imported") for arm in arms):
        return None
    left, right = (_serving(facts_of(engine, arm)) for arm in arms)
    if left is None or right is None:
        return None
    rows = differences(runs.head(engine, left[0]), runs.head(engine, right[0]))
    return left[1], right[1], list(rows)


def _unasked(left: dict[str, Any], right: dict[str, Any], rows: Sequence[Difference]) -> list[str]:
    hidden = [row for row in rows if row.group == "found" and _matters(row)]
    if any(row.name in ("arm.tp", "arm.replicas") for row in rows):
        # other cards are what was asked for there; of one size they are another pair's link
        hidden = [row for row in hidden if row.name != "ranks"]
    found = [
        *_threads(left, right),
        *(
            f"{row.name} differs ({said(row.left)} against {said(row.right)}). {row.why}"
            for row in hidden
            if row.weight == "high"
        ),
    ]
    some = [f"{row.name} {said(row.left)} against {said(row.right)}" for row in hidden
            if row.weight == "some"]  # fmt: skip
    if some:
        found.append(f"The arms differ in more than the configuration: {'; '.join(some[:6])}.")
    return found


def _serving(facts: Sequence[dict[str, Any]]) -> tuple[str, dict[str, Any]] | None:
    """The latest run of an arm that served."""
    for fact in reversed(facts):
        if fact["kind"] == "serving":
            return fact["id"], fact
    return None


def _last(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _matters(row: Difference) -> bool:
    is_stated = row.left is not None and row.right is not None
    # a variable that only one arm has set is a difference, a reading that one lacks is not
    is_variable = _last(row.name).isupper()
    return (is_stated or is_variable) and _last(row.name) not in _MEANT


def _kernel(specs: tuple[dict[str, Any], dict[str, Any]]) -> list[str]:
    """Link off switches vLLM's own all-reduce off too: two changes in one."""
    arms = [dict(spec.get("arm") or {}) for spec in specs]
    if any(int(arm.get("tp") or 1) < 2 for arm in arms):
        return []
    links = [arm.get("link") == "off" for arm in arms]
    kernels = [not off and arm.get("custom_all_reduce", True) for off, arm in zip(links, arms,
               strict=True)]  # fmt: skip
    if links[0] == links[1] or kernels[0] == kernels[1]:
        return []
    return [
        "Link and vLLM's own all-reduce change together: with the link off the kernel is off too. "
        "An arm with the link on and custom all-reduce off tells the two apart."
    ]


def _several(rows: Sequence[Difference]) -> list[str]:
    """More than one thing was asked for differently: no change belongs to one of them alone."""
    factors: dict[str, str] = {}
    asked = [row for row in rows if row.group == "asked"]
    is_other_size = any(row.name == "arm.tp" or row.name == "arm.replicas" for row in asked)
    for row in asked:
        top, last = row.name.split(".", 1)[0], _last(row.name)
        if top in _NO_FACTOR or last.startswith("disable-custom-all-reduce"):
            continue
        if top == "model_config_json":
            factors["model"] = "model"
        elif last in _SIZE or (last == "gpus" and is_other_size):
            factors.setdefault("size", _size_words(asked))
        elif row.name in ("arm.link", "arm.custom_all_reduce"):
            factors.setdefault("link", _words(row))
        else:
            factors[row.name] = _words(row)
    if len(factors) < 2:
        return []
    return [
        f"The arms differ in {len(factors)} things at once ({'; '.join(factors.values())}): a "
        "change cannot be given to one of them alone."
    ]


def _words(row: Difference) -> str:
    last = _last(row.name)
    if ".engine_args." in row.name:
        values = ["default" if value is None else str(value) for value in (row.left, row.right)]
        return f"--{last} {' against '.join(values)}"
    return f"{_WORDS.get(last, last)} {_both(row)}"


def _both(row: Difference) -> str:
    return f"{said(row.left)} against {said(row.right)}"


def _size_words(asked: Sequence[Difference]) -> str:
    return next((_words(row) for row in asked if row.name in ("arm.tp", "arm.replicas")),
                "processor cores")  # fmt: skip


def _threads(left: dict[str, Any], right: dict[str, Any]) -> list[str]:
    """CPU threads of the servers' processes, whose default an engine may choose by TP size."""
    found = []
    for fact in (left, right):
        server = fact["environment"].get("server")
        workers = server.get("workers") if isinstance(server, dict) else None
        found.append(sorted({n for text in workers or () for n in _THREADS.findall(str(text))}))
    if not found[0] or not found[1] or found[0] == found[1]:
        return []
    return [
        f"OMP_NUM_THREADS of the servers' processes differs ({', '.join(found[0])} against "
        f"{', '.join(found[1])}): it sets how fast the CPU's share of a step is."
    ]


def speculation(rows: Sequence[Row], arms: tuple[Arm, Arm]) -> list[str]:
    """Where the drafts' acceptance differs between the arms, and what is left of the gain."""
    texts = []
    by_key = {(row.metric, row.cell): row for row in rows if row.statistic == "value"}
    for (name, cell), row in by_key.items():
        if name != "spec_decode_acceptance_rate":
            continue
        notice = acceptance_warning(*_means(row), arms=(arms[0].name, arms[1].name))
        if notice is None:
            continue
        text = f"{cell_words(cell)}: {notice.text}"
        length = by_key.get(("spec_decode_acceptance_length", cell))
        speed = by_key.get(("output_throughput", cell))
        if length and speed:
            slow, fast = _means(speed)
            lengths = _means(length)
            before, after = per_acceptance(slow, lengths[0]), per_acceptance(fast, lengths[1])
            if before and after and slow and fast:
                text += (
                    f" Throughput divided by acceptance length changes by "
                    f"{100 * (after / before - 1):+.1f} % instead of "
                    f"{100 * (fast / slow - 1):+.1f} %."
                )
        texts.append(text)
    return texts


def _means(row: Row) -> tuple[float | None, float | None]:
    """Mean over the valid rounds of both arms, as the comparison counts them."""
    return summary(row.reference).mean, summary(row.other).mean
