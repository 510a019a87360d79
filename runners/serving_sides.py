"""What servers and machine say of a round: phases, preemptions, energy, clocks, foreign load."""

from models.result import Notice
from models.serving import Requests
from models.serving_energy import energy, foreign_load_pct, median_in
from runners.serving_outcome import Outcome, Putter, Reading

CLIENT_SHARE = 0.1  # of the end-to-end time spent in the client: it cannot keep up
MIN_CLIENT_MS = 5.0
FOREIGN_PCT = 10.0


def server_side(
    reading: Reading, put: Putter, outcome: Outcome, pooled: Requests, place: str
) -> None:
    """Phase times and preemptions of the round, by the servers' own counters."""
    known = [phases for phases in outcome.phases if phases is not None]
    if not known or len(known) != len(outcome.phases):
        return
    count = sum(phases.requests for phases in known)
    for phase in ("queue", "prefill", "decode"):
        values = [(p.phase_ms[phase], p.requests) for p in known if phase in p.phase_ms]
        if len(values) == len(known):
            mean = sum(value * n for value, n in values) / count
            put("phase_time", mean, "vllm:metrics-phase:1", "mean", n=count, phase=phase)
    lost = [p.preemptions for p in known if p.preemptions is not None]
    if len(lost) == len(known):
        put("preemptions", sum(lost), "vllm:num_preemptions:1")
    ends = [(p.end_to_end_ms, p.requests) for p in known if p.end_to_end_ms is not None]
    if len(ends) == len(known):
        server_ms = sum(value * n for value, n in ends) / count
        seen_ms = float(pooled.e2el_s.mean() * 1000)
        client_ms = max(0.0, seen_ms - server_ms)
        put("phase_time", client_ms, "linkworth:client-time:1", "mean", n=count, phase="client")
        if client_ms > MIN_CLIENT_MS and client_ms > CLIENT_SHARE * seen_ms:
            reading.warnings.append(
                Notice(
                    code="client_slow",
                    text=f"{place}: {client_ms:.0f} of {seen_ms:.0f} ms a request passed outside "
                    "the server: the client, or the way to it, cannot keep up.",
                )
            )


def machine_side(
    reading: Reading, put: Putter, outcome: Outcome, pooled: Requests, place: str
) -> None:
    """Energy, clocks, power and foreign load while the round was measured."""
    begin, end = _window(outcome, pooled)
    rows = outcome.telemetry
    used = energy(rows, begin, end)
    tokens = float(pooled.output_tokens.sum())
    if used is not None and tokens:
        put("energy_per_token", used.joules / tokens, f"linkworth:energy-{used.method}:1")
    for uuid, clock in median_in(rows, "sm_clock_mhz", begin, end).items():
        put("sm_clock", clock, "nvml:sm_clock:1", "median", gpu=uuid)
    for uuid, watts in median_in(rows, "power_w", begin, end).items():
        put("power", watts, "nvml:power:1", "median", gpu=uuid)
    foreign = foreign_load_pct(rows, begin, end)
    if foreign is not None:
        put("foreign_load", foreign, "linkworth:foreign-load:1")
        if foreign > FOREIGN_PCT:
            reading.warnings.append(
                Notice(
                    code="foreign_load",
                    text=f"{place}: other programs used {foreign:.0f} % of the host's processors.",
                )
            )


def _window(outcome: Outcome, pooled: Requests) -> tuple[float, float]:
    """The measured part in epoch seconds; the clients' warm-up lies before it."""
    span = pooled.span_s
    if span is None:
        return outcome.began, outcome.ended
    begin = float(pooled.start_s.min()) + outcome.clock_offset_s
    if not outcome.began <= begin <= outcome.ended:  # a client with a clock of its own
        return outcome.began, outcome.ended
    return begin, min(begin + span, outcome.ended)
