"""The four uses that a link is bought for: which figures decide each, and which load counts."""

from dataclasses import dataclass
from typing import Literal

from models.errors import InvalidSpec
from models.purchase import Benefit

LoadRule = Literal["lowest", "within_level", "fastest"]


@dataclass(frozen=True)
class UseCase:
    """One use.

    Attributes:
        code: Identifier in URLs and files.
        label: Words for people.
        decides: Metric and statistic that decide, most important first.
        load: Which measured load counts: the lowest, the highest that keeps the service level, or
            the fastest whatever the level.
        ttft_ms: Level to start from; None where none is asked for.
        tpot_ms: Likewise.
        share: Of requests that must meet it.
        benefit: What a gain brings unless the person says otherwise.
        also: What to look at besides, which no figure here tells.
    """

    code: str
    label: str
    decides: tuple[tuple[str, str], ...]
    load: LoadRule
    ttft_ms: float | None
    tpot_ms: float | None
    share: float
    benefit: Benefit
    also: str


USE_CASES: dict[str, UseCase] = {
    case.code: case
    for case in (
        UseCase(
            "development",
            "Single stream: one person develops",
            (("tpot", "median"), ("ttft", "median"), ("kv_cache_tokens", "value")),
            "lowest",
            5000,
            100,
            0.9,
            "waiting",
            "First whether the model fits, the memory left, and how easy it is to use; then TPOT.",
        ),
        UseCase(
            "online",
            "Online: people wait for answers",
            (("ttft", "p99"), ("failed", "value"), ("tpot", "median")),
            "within_level",
            2000,
            50,
            0.95,
            "cloud",
            "P99 TTFT and errors decide before throughput does.",
        ),
        UseCase(
            "serving",
            "High concurrency: many requests at once",
            (("output_throughput", "value"), ("queue_time", "mean"), ("ttft", "p99")),
            "within_level",
            10_000,
            100,
            0.95,
            "cloud",
            "Throughput and queue time, and whether it holds for hours.",
        ),
        UseCase(
            "batch",
            "Long outputs in batches",
            (("tpot", "median"), ("output_throughput", "value")),
            "fastest",
            None,
            None,
            0.95,
            "cloud",
            "TPOT and the total cost; nobody waits for a single answer.",
        ),
    )
}


def use_case(code: str) -> UseCase:
    """Look a use up.

    Raises:
        InvalidSpec: No such use.
    """
    try:
        return USE_CASES[code]
    except KeyError:
        raise InvalidSpec(
            f"There is no use called {code!r}.", f"Choose one of {', '.join(USE_CASES)}."
        ) from None
