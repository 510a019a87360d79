"""Sustained load on one served model: errors, retries, drift and wrong outputs over hours.

    python -m runners.soak --spec S --events E --result R

One window is one round of the result: its latencies, failures and timeouts. The same fixed prompts
are asked before, again and again, and after.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from models.errors import RunTimedOut, ServerDied
from models.result import Result
from models.serving import DEFINITION, figures, output_distance
from models.serving_energy import energy, median_in
from runners.events import Events
from runners.serving_check import OutputCheck, check_outputs
from runners.serving_client import Timed
from runners.serving_draft import Draft, new_draft
from runners.serving_host import Fleet, fleet
from runners.serving_interleaved import thinned
from runners.serving_native import Loop, as_requests
from runners.serving_outcome import load_dims
from runners.serving_program import serving_program
from runners.serving_team import share_of
from runners.serving_watch import Watch
from runners.spec import SoakSpec

KEPT = frozenset(
    {"output_throughput", "request_throughput", "completed", "failed", "ttft", "tpot", "e2el"}
)
STATISTICS = frozenset({"value", "median", "p99"})
SAME_OUTPUT_NATS = 0.25  # mean distance of log-probabilities that an arm may drift from itself
POLL_S = 0.2


class Window:
    """Requests that ended since the last look; filled by the load's threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: list[Timed] = []
        self.last_success = time.monotonic()

    def add(self, timed: Timed) -> None:
        """Take a finished request."""
        with self._lock:
            self._rows.append(timed)
            if not timed.error:
                self.last_success = time.monotonic()

    def take(self) -> list[Timed]:
        """All since the last call."""
        with self._lock:
            rows, self._rows = self._rows, []
        return rows


def run(
    spec: SoakSpec, events: Events, *, files: Path | None = None, telemetry: bool = False
) -> Result:
    """Load one arm for hours and watch what changes.

    Args:
        spec: Arm, load and duration.
        events: Told of every window.
        files: Folder for kept files (the server's last log lines).
        telemetry: Whether the samples go into the result; a worker takes its own.
    """
    with (
        tempfile.TemporaryDirectory(prefix="linkworth-soak-") as folder,
        fleet(spec, Path(folder), events) as servers,
    ):
        draft = new_draft("soak", spec, servers, files)
        events.partial = draft.result
        pause_s = max(0.5, spec.duration_s / 20_000)
        with Watch(servers.uuids, servers.processes(), pause_s) as watch:
            _load(spec, servers, draft, watch, events)
        draft.machine(watch.rows, is_kept=False)
        if telemetry:
            draft.result.telemetry = thinned(watch.rows)
        if servers.servers:
            draft.keep("server.log", servers.servers[0].tail(400).encode())
    return draft.finished()


def _load(spec: SoakSpec, servers: Fleet, draft: Draft, watch: Watch, events: Events) -> None:
    baseline = _check(spec, servers, draft, events, "before")
    window = Window()
    urls = servers.base_urls
    # replicas share the load, as they do in rounds
    shares = [share_of(spec.workload, len(urls), part) for part in range(len(urls))]
    loops = [
        Loop(
            url,
            servers.model,
            share,
            spec.seed + place,
            request_limit_s=spec.request_time_limit_s,
            on_done=window.add,
            keep=False,
        )
        for place, (url, share) in enumerate(zip(urls, shares, strict=True))
        if share is not None
    ]
    tally = _Tally(spec, servers, draft, watch, events)
    for loop in loops:
        loop.start()
    try:
        try:
            _watch_over(spec, servers, draft, window, tally, baseline, events)
        finally:
            tally.load_ended()
            for loop in loops:
                loop.stop.set()
        for loop in loops:
            loop.join(spec.request_time_limit_s)
        after = _check(spec, servers, draft, events, "after")
        tally.drifted(baseline, after, "at the end")
    except ServerDied:
        tally.died()
        raise
    finally:
        tally.close()


def _watch_over(
    spec: SoakSpec,
    servers: Fleet,
    draft: Draft,
    window: Window,
    tally: "_Tally",
    baseline: list[OutputCheck],
    events: Events,
) -> None:
    """Close windows and repeat the output check until the time is over."""
    began = time.monotonic()
    next_window, next_check = spec.window_s, spec.check_every_s
    patience_s = max(3 * spec.window_s, spec.request_time_limit_s + spec.window_s)
    while (elapsed := time.monotonic() - began) < spec.duration_s:
        time.sleep(POLL_S)
        servers.check()
        if elapsed >= next_window:
            servers.tell(events)
            next_window += spec.window_s
            tally.close_window(window.take(), elapsed)
        if elapsed >= next_check:
            next_check += spec.check_every_s
            again = _check(spec, servers, draft, events, "during")
            tally.drifted(baseline, again, f"after {elapsed / 60:.0f} min")
        if time.monotonic() - window.last_success > patience_s:
            tally.incident("The server hung: no request was answered any more.")
            raise RunTimedOut(
                f"No request was answered for {patience_s:.0f} s, {elapsed / 60:.0f} min into the "
                "load: the server hangs.",
                "Look at its log and at the GPUs.",
                detail=servers.tail(),
            )
    tally.close_window(window.take(), time.monotonic() - began)


def _check(
    spec: SoakSpec, servers: Fleet, draft: Draft, events: Events, phase: str
) -> list[OutputCheck]:
    """The fixed prompts to every replica; nothing where they are not asked for."""
    if not spec.output_check:
        return []
    if phase != "during":
        events.stage("check", message=f"outputs {phase} the load")
    found = []
    for place, url in enumerate(servers.base_urls):
        with servers.explained():
            found.append(check_outputs(url, servers.model, dummy=spec.load_format == "dummy"))
        draft.outputs(found[-1], phase, keep=phase != "during" and place == 0)
    return found


class _Tally:
    """Adds up windows and incidents of one soak."""

    def __init__(
        self, spec: SoakSpec, servers: Fleet, draft: Draft, watch: Watch, events: Events
    ) -> None:
        self._spec, self._draft, self._watch, self._events = spec, draft, watch, events
        self._dims = load_dims(spec.workload, len(servers.base_urls))
        self._windows = self._completed = self._failed = self._timeouts = self._incidents = 0
        self._errors: dict[str, int] = {}
        self._began = self._from = self._until = time.time()

    def close_window(self, rows: list[Timed], elapsed: float) -> None:
        """Turn the requests of a window into one round of the result."""
        number, until = self._windows, time.time()
        self._windows += 1
        requests = as_requests(rows)
        timeouts = sum(row.timed_out for row in rows)
        self._completed += requests.completed
        self._failed += requests.failed
        self._timeouts += timeouts
        for row in rows:
            if row.error:
                self._errors[row.error[:80]] = self._errors.get(row.error[:80], 0) + 1
        put = partial(self._draft.put_round, round_=number, dims=self._dims)
        for (name, statistic), value in figures(requests).items():
            if name in KEPT and statistic in STATISTICS and not name.endswith("throughput"):
                put(name, value, DEFINITION.format(name), statistic=statistic)
        # a window's own length is its wall time: requests reach over its edges
        length = max(until - self._from, 1e-9)
        tokens = float(requests.output_tokens.sum())
        put("output_throughput", tokens / length, "linkworth:output_throughput:window")
        put("timeouts", timeouts, "linkworth:timeouts:1")
        used = energy(self._watch.rows, self._from, self._watch.rows[-1]["t"])
        if used is not None and tokens:
            put("energy_per_token", used.joules / tokens, f"linkworth:energy-{used.method}:1")
        for uuid, clock in median_in(self._watch.rows, "sm_clock_mhz", self._from, until).items():
            put(
                "sm_clock", clock, "nvml:sm_clock:1", statistic="median",
                dims={**self._dims, "gpu": uuid},
            )  # fmt: skip
        self._from = until
        self._events.stage(
            "load", min(1.0, elapsed / self._spec.duration_s), f"{elapsed / 60:.0f} min"
        )
        tpot = sorted(requests.tpot_s)
        self._events.round(
            number,
            {
                "output_tok_s": tokens / length,
                "median_tpot_ms": tpot[len(tpot) // 2] * 1000 if tpot else None,
                "failed": requests.failed,
            },
        )

    def drifted(
        self, baseline: Sequence[OutputCheck], again: Sequence[OutputCheck], when: str
    ) -> None:
        """Compare a repeated output check with the first one of the same servers."""
        for place, (before, after) in enumerate(zip(baseline, again, strict=True), 1):
            where = f" on replica {place}" if len(baseline) > 1 else ""
            pairs = zip(before.logprobs, after.logprobs, strict=False)
            for prompt, (first, later) in enumerate(pairs, 1):
                distance = output_distance(first, later)
                if distance is not None and distance > SAME_OUTPUT_NATS:
                    self.incident(
                        f"Outputs changed {when}{where}: fixed prompt {prompt} lies "
                        f"{distance:.2f} nats from where it was."
                    )
            if after.problems:
                self._incidents += 1

    def died(self) -> None:
        """Count a server that ended under the load; its own reason makes the run invalid."""
        self._incidents += 1

    def load_ended(self) -> None:
        """From now on nothing is asked any more but the fixed prompts."""
        self._until = time.time()

    def incident(self, text: str) -> None:
        """Count a hang or wrong outputs: the run must not be trusted."""
        self._incidents += 1
        self._draft.invalid([text])

    def close(self) -> None:
        """Write the sums, also of a soak that ends before its time."""
        draft = self._draft
        hours = (self._until - self._began) / 3600
        draft.put("soak_hours", hours, "linkworth:soak:1")
        draft.put_round("completed", self._completed, "linkworth:soak:1", None, self._dims)
        draft.put_round("failed", self._failed, "linkworth:soak:1", None, self._dims)
        draft.put_round("timeouts", self._timeouts, "linkworth:soak:1", None, self._dims)
        draft.put("incidents", self._incidents, "linkworth:soak:1")
        if self._failed:
            worst = max(self._errors, key=lambda text: self._errors[text])
            draft.suspect(
                [
                    f"{self._failed} of {self._failed + self._completed} requests failed, "
                    f"most often: {worst}."
                ]
            )
        if not self._completed:
            draft.invalid(["No request succeeded during the sustained load."])


def main(argv: list[str] | None = None) -> int:
    """Run as a program."""
    return serving_program("soak", run, argv)


if __name__ == "__main__":
    sys.exit(main())
