"""Service levels: which load an arm still serves well enough, and what batching alone brings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.errors import InvalidSpec
from models.serving import FloatArray, goodput_share


@dataclass(frozen=True)
class Slo:
    """A service level objective.

    Attributes:
        ttft_ms: Longest time to first token of a good request.
        tpot_ms: Longest time per output token of a good request.
        share: Share of requests that must be good, 0 to 1.
    """

    ttft_ms: float
    tpot_ms: float
    share: float = 0.95

    def __post_init__(self) -> None:
        if self.ttft_ms <= 0 or self.tpot_ms <= 0 or not 0 < self.share <= 1:
            raise InvalidSpec("Limits are above 0 ms, and the share lies between 0 and 1.")


@dataclass(frozen=True)
class Point:
    """One measured load of a sweep.

    Attributes:
        concurrency: Requests in flight.
        rounds: (TTFT, TPOT) of each round's requests, ms.
        output_tok_s: Mean output throughput, None where not known.
        failed: Requests of each round that failed, in the order of the rounds; empty where that is
            not known. None of them is good.
    """

    concurrency: int
    rounds: Sequence[tuple[FloatArray | Sequence[float], FloatArray | Sequence[float]]]
    output_tok_s: float | None = None
    failed: Sequence[float] = ()

    def shares(self, slo: Slo) -> list[float]:
        """Share of good requests of each round for which it can be told."""
        found = []
        for place, (ttft, tpot) in enumerate(self.rounds):
            n, lost = len(ttft), self.failed[place] if place < len(self.failed) else 0.0
            share = goodput_share(ttft, tpot, ttft_limit_ms=slo.ttft_ms, tpot_limit_ms=slo.tpot_ms)
            if share is not None:
                found.append(share * n / (n + lost))
            elif lost and not n:
                found.append(0.0)
        return found


@dataclass(frozen=True)
class Capacity:
    """What a sweep says of a service level.

    Attributes:
        concurrency: Highest measured load that met it, None where none did.
        tok_s: Output throughput there.
        next_failed: Lowest measured load above that did not meet it, None where all did.
        shares: Load -> share of good requests (the worst round).
        words: One sentence.
    """

    concurrency: int | None
    tok_s: float | None
    next_failed: int | None
    shares: dict[int, float]
    words: str


def capacity(points: Sequence[Point], slo: Slo) -> Capacity:
    """The highest measured load that meets the service level in every round.

    Nothing is interpolated: between two measured loads the capacity is not known, and the sentence
    says so. A load that passes above one that fails does not count.

    Args:
        points: The sweep, any order.
        slo: The service level.
    """
    shares: dict[int, float] = {}
    rates: dict[int, float | None] = {}
    for point in points:
        known = point.shares(slo)
        if known:
            shares[point.concurrency] = min(known)
            rates[point.concurrency] = point.output_tok_s
    loads = sorted(shares)
    if not loads:
        return Capacity(None, None, None, {}, "No per-request values: the capacity is not known.")
    best: int | None = None
    failed: int | None = None
    for load in loads:
        if shares[load] < slo.share:
            failed = load
            break
        best = load
    level = f"TTFT {slo.ttft_ms:g} ms and TPOT {slo.tpot_ms:g} ms for {slo.share:.0%} of requests"
    if best is None:
        words = f"Not even concurrency {loads[0]} meets {level}."
    elif failed is None:
        words = f"All measured loads up to concurrency {best} meet {level}."
    else:
        words = (
            f"Concurrency {best} meets {level}, {failed} does not; between the two it is not known."
        )
    return Capacity(best, rates.get(best) if best is not None else None, failed, shares, words)


@dataclass(frozen=True)
class Scaling:
    """What more requests at a time bring, beside what the link brings.

    Attributes:
        low: Lower concurrency.
        high: Higher concurrency.
        throughput_pct: Change of output throughput from low to high, percent.
        tpot_pct: Change of the time per output token, percent; None where not known.
    """

    low: int
    high: int
    throughput_pct: float
    tpot_pct: float | None


def scaling(
    throughput: dict[int, float], tpot: dict[int, float], low: int = 1, high: int = 4
) -> Scaling | None:
    """Change between two concurrencies of one arm; None where one was not measured.

    Args:
        throughput: Concurrency to output tok/s.
        tpot: Concurrency to ms per output token.
        low: Concurrency to start from.
        high: Concurrency to go to.
    """
    if not throughput.get(low) or high not in throughput:
        return None
    each = None
    if tpot.get(low) and high in tpot:
        each = 100 * (tpot[high] / tpot[low] - 1)
    return Scaling(low, high, 100 * (throughput[high] / throughput[low] - 1), each)


def drain_note(num_prompts: int | None, concurrency: int | None) -> str | None:
    """A warning where the last wave of requests is not full: its drain is in the throughput.

    Args:
        num_prompts: Requests of a round.
        concurrency: Requests in flight.
    """
    if not num_prompts or not concurrency or num_prompts % concurrency == 0:
        return None
    waves = num_prompts / concurrency
    if waves > 10:
        return None
    return (
        f"{num_prompts} requests at concurrency {concurrency} run as waves of {concurrency} and a "
        f"last one of {num_prompts % concurrency}: the drain lowers the throughput."
    )


def per_acceptance(tok_s: float | None, acceptance_length: float | None) -> float | None:
    """Output throughput divided by the acceptance length: steps a second, whatever the draft did.

    Args:
        tok_s: Output tokens a second.
        acceptance_length: Tokens a verification step yields on average, at least 1.
    """
    if tok_s is None or not acceptance_length or acceptance_length < 1:
        return None
    return tok_s / acceptance_length


def percentiles_over_time(
    times_s: Sequence[float] | FloatArray, values: Sequence[float] | FloatArray, window_s: float
) -> list[dict[str, Any]]:
    """Median and P99 of values in windows of time, for drift charts.

    Args:
        times_s: When each value was taken, seconds from any start.
        values: The values, same length.
        window_s: Length of a window.

    Returns:
        ``{"t_s", "median", "p99", "n"}`` of each window that holds values.
    """
    when, what = np.asarray(times_s, dtype=float), np.asarray(values, dtype=float)
    if when.size == 0 or when.size != what.size or window_s <= 0:
        return []
    place = np.floor((when - when.min()) / window_s).astype(int)
    return [
        {
            "t_s": float(index * window_s),
            "median": float(np.median(what[place == index])),
            "p99": float(np.percentile(what[place == index], 99)),
            "n": int((place == index).sum()),
        }
        for index in np.unique(place)
    ]
