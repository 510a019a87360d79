"""What a machine's state says about the numbers that were taken on it.

A run is *suspect* when the machine was slower than it can be, or not alone, or failing. Pure rules
on telemetry rows and probe rates; who collects them is not known here.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from models.metrics import metric
from models.result import Measurement, Notice

PROBE_METRICS = ("matmul_rate", "copy_bandwidth")
PROBE_MARGIN = 0.05  # a machine this far under its own best has been seen to stay so until a reboot
CLOCK_MARGIN = 0.05
BUSY_PCT = 50  # clocks of an idle card say nothing
MIN_BUSY_SAMPLES = 9  # three thirds of three
CAPPED_SHARE = 0.2
MIN_CAPPED_SAMPLES = 6  # of five or fewer busy ones a single sample would be `CAPPED_SHARE`

# why a clock was held back -> words; a power cap is usual under heavy load, so it only warns
_SLOWDOWNS = {
    "hw_slowdown": "its hardware slowed it down",
    "sw_thermal_slowdown": "it was too hot",
    "hw_thermal_slowdown": "it was too hot",
    "hw_power_brake_slowdown": "its power supply asked it to slow down",
}
_COUNTERS = {
    "nvlink_errors": "NVLink errors",
    "ecc.uncorrected": "uncorrected memory errors",
}

Row = Mapping[str, Any]


@dataclass
class Findings:
    """What telemetry shows: reasons make a run suspect, warnings stand beside it."""

    reasons: list[str] = field(default_factory=list)
    warnings: list[Notice] = field(default_factory=list)


def hidden_name(hostname: str) -> str:
    """How a host is known: two hosts differ, and nobody reads the name out of a result.

    Args:
        hostname: Its name in the network.

    Returns:
        16 hexadecimal digits, the same on every start.
    """
    return hashlib.sha256(hostname.encode()).hexdigest()[:16]


def suspect(
    probe: Mapping[str, float], best: Mapping[str, float], margin: float = PROBE_MARGIN
) -> str | None:
    """Whether a probe is slower than this host has been.

    Args:
        probe: Rates just measured, by metric name (``matmul_rate`` in TFLOP/s, ``copy_bandwidth``
            in GB/s); higher is better.
        best: The best rates ever measured on the same device of this host; metrics that are
            missing are not judged.
        margin: Share of the best that may be lacking, 0 to 1.

    Returns:
        A sentence for the first rate that lies more than the margin under its best, or None.

    Source: the rule of the method (5 % under this host's best).
    """
    for name, rate in probe.items():
        top = best.get(name)
        if top is None or top <= 0 or rate >= top * (1 - margin):
            continue
        known = metric(name)
        return (
            f"The machine was slow before the run: {known.label.lower()} {rate:.4g} {known.unit}, "
            f"{(1 - rate / top) * 100:.0f} % under this host's best of {top:.4g} {known.unit}."
        )
    return None


def probe_rates(measurements: Iterable[Measurement]) -> dict[tuple[str, str], dict[str, float]]:
    """The probe's rates of a result, by device and number type.

    Args:
        measurements: All measurements of a result, other metrics included.

    Returns:
        ``(device, dtype) -> {metric: highest rate}``; copies have the dtype "".
    """
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in measurements:
        if (
            row.metric not in PROBE_METRICS
            or row.value is None
            or not row.definition.startswith("linkworth:probe-")
        ):
            continue
        rates = found[str(row.dims.get("device", "")), str(row.dims.get("dtype", ""))]
        rates[row.metric] = max(row.value, rates.get(row.metric, 0.0))
    return dict(found)


def telemetry_findings(rows: Sequence[Row], own_pids: Collection[int] = ()) -> Findings:
    """Judge the GPU samples that were taken beside a run.

    Args:
        rows: Samples in the order taken, as ``runners.nvml`` gives them with ``t`` added; rows
            without ``uuid`` (CPU samples) are skipped.
        own_pids: Every process that belonged to the run.

    Returns:
        Reasons and warnings, one for each GPU and cause.
    """
    findings = Findings()
    by_gpu: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.get("uuid"):
            by_gpu[row["uuid"]].append(row)
    for samples in by_gpu.values():
        name = f"GPU {samples[0].get('index', samples[0]['uuid'])}"
        busy = [row for row in samples if (row.get("utilization_pct") or 0) >= BUSY_PCT]
        _slowdowns(name, busy, findings)
        _clock(name, busy, findings)
        _counters(name, samples, findings)
        _company(name, samples, own_pids, findings)
        _pcie(name, busy, findings)
    return findings


def _slowdowns(name: str, busy: Sequence[Row], findings: Findings) -> None:
    if not busy:
        return
    held: dict[str, int] = defaultdict(int)
    for row in busy:
        for cause in row.get("throttle_reasons") or ():
            held[cause] += 1
    for words in dict.fromkeys(_SLOWDOWNS[cause] for cause in held if cause in _SLOWDOWNS):
        findings.reasons.append(f"{name} was throttled: {words}.")
    share = held.get("sw_power_cap", 0) / len(busy)
    if len(busy) >= MIN_CAPPED_SAMPLES and share >= CAPPED_SHARE:
        text = (
            f"{name} was at its power limit in {share * 100:.0f} % of the busy samples "
            f"({held['sw_power_cap']} of {len(busy)})."
        )
        findings.warnings.append(Notice(code="power_capped", text=text))


def _clock(name: str, busy: Sequence[Row], findings: Findings) -> None:
    # a clock at the power cap follows the load, which differs from one part of a run to the next
    clocks = [
        row["sm_clock_mhz"]
        for row in busy
        if row.get("sm_clock_mhz") and "sw_power_cap" not in (row.get("throttle_reasons") or ())
    ]
    if len(clocks) < MIN_BUSY_SAMPLES:
        return
    third = len(clocks) // 3
    early, late = median(clocks[:third]), median(clocks[-third:])
    if late < early * (1 - CLOCK_MARGIN):
        findings.reasons.append(f"The clock of {name} fell from {early:.0f} to {late:.0f} MHz.")


def _counters(name: str, samples: Sequence[Row], findings: Findings) -> None:
    for path, words in _COUNTERS.items():
        first, last = _count(samples[0], path), _count(samples[-1], path)
        if first is not None and last is not None and last > first:
            findings.reasons.append(f"{name} counted {last - first} new {words}.")
    xids = sorted({xid for row in samples for xid in row.get("xids") or ()})
    if xids:
        numbers = ", ".join(str(xid) for xid in xids)
        findings.reasons.append(f"The driver reported a critical error of {name} (Xid {numbers}).")


def _company(
    name: str, samples: Sequence[Row], own_pids: Collection[int], findings: Findings
) -> None:
    """Other processes, judged only where ours are seen: containers number processes differently."""
    seen = {one["pid"] for row in samples for one in row.get("processes") or ()}
    others = seen - set(own_pids)
    if others and seen & set(own_pids):
        count = "another process" if len(others) == 1 else f"{len(others)} other processes"
        findings.reasons.append(f"{name} was also used by {count}.")


def _pcie(name: str, busy: Sequence[Row], findings: Findings) -> None:
    """A card in a narrow slot, or one whose link has degraded, tells so only under load."""
    for row in busy:
        width, full = row.get("pcie_width"), row.get("pcie_width_max")
        if width and full and width < full:
            text = f"{name} ran on {width} PCIe lanes under load; it has {full}."
            findings.warnings.append(Notice(code="pcie_narrow", text=text))
            return


def _count(row: Row, path: str) -> int | None:
    value: Any = row
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, Mapping):
        known = [number for number in value.values() if number is not None]
        return sum(known) if known else None
    return value if isinstance(value, int) else None
