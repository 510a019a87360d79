"""Reading a server's own counters (`/metrics`, Prometheus text) before and after a round."""

import http.client
import math
import re
from dataclasses import dataclass, field

from runners.serving_client import Client

_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(\{[^}]*\})? +(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

PHASES = {
    "queue": "vllm:request_queue_time_seconds",
    "prefill": "vllm:request_prefill_time_seconds",
    "decode": "vllm:request_decode_time_seconds",
}
END_TO_END = "vllm:e2e_request_latency_seconds"


@dataclass(frozen=True)
class Counters:
    """Sums over all labels of one scrape, and the labels of the information lines."""

    values: dict[str, float]
    info: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Phases:
    """What happened on the server between two scrapes; None is unknown.

    Attributes:
        requests: Requests that ended.
        phase_ms: Mean time a request spent in queue, prefill and decode.
        end_to_end_ms: Mean time from arrival to the last token, as the server saw it.
        preemptions: How often a running request lost its cache.
    """

    requests: int
    phase_ms: dict[str, float]
    end_to_end_ms: float | None
    preemptions: int | None


def parse(text: str) -> Counters:
    """Read Prometheus text; samples of one name are added up, buckets and NaN are left out."""
    values: dict[str, float] = {}
    info: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None or found[1].endswith(("_bucket", "_created")):
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        if not math.isfinite(value):
            continue
        values[found[1]] = values.get(found[1], 0.0) + value
        if found[1].endswith("_info") and found[2]:
            info[found[1]] = dict(_LABEL.findall(found[2]))
    return Counters(values, info)


def scrape(base_url: str) -> Counters | None:
    """The server's counters now; None where it has none."""
    client = Client(base_url, timeout_s=10.0)
    try:
        status, text = client.get("/metrics")
    except (OSError, http.client.HTTPException):
        return None
    finally:
        client.close()
    counters = parse(text) if status == 200 else None
    return counters if counters and counters.values else None


def between(before: Counters | None, after: Counters | None) -> Phases | None:
    """What the counters say of the time between two scrapes; None where they say nothing."""
    if before is None or after is None:
        return None

    def grown(name: str) -> float | None:
        if name not in after.values:
            return None
        return after.values[name] - before.values.get(name, 0.0)

    def mean_ms(name: str) -> float | None:
        count, total = grown(f"{name}_count"), grown(f"{name}_sum")
        return total / count * 1000 if count and total is not None else None

    count = grown(f"{END_TO_END}_count")
    if not count or count < 0:  # nothing ended, or the server was restarted between
        return None
    phases = {name: value for name, key in PHASES.items() if (value := mean_ms(key)) is not None}
    lost = grown("vllm:num_preemptions_total")
    return Phases(
        requests=round(count),
        phase_ms=phases,
        end_to_end_ms=mean_ms(END_TO_END),
        preemptions=None if lost is None else round(lost),
    )


def kv_cache_tokens(counters: Counters | None) -> int | None:
    """Tokens of context that fit in the cache, where the server states it."""
    row = counters.info.get("vllm:cache_config_info", {}) if counters else {}
    if row.get("kv_cache_size_tokens", "").isdigit():
        return int(row["kv_cache_size_tokens"])
    blocks, size = row.get("num_gpu_blocks", ""), row.get("block_size", "")
    return int(blocks) * int(size) if blocks.isdigit() and size.isdigit() else None
