"""Does peer-to-peer work between these GPUs? Three tiers for each pair, and how fast it is.

`python -m runners.p2p --spec S --events E --result R`

Each tier runs in processes of its own with a time limit, so that a link that hangs or a driver that
breaks takes nothing else along. On CPU ranks the same steps go over gloo: a rehearsal.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from models.errors import (
    InvalidSpec,
    LinkworthError,
    RunCancelled,
    RunnerUnavailable,
    RunTimedOut,
)
from models.peer_check import State, Tier, TierOutcome, verdict
from models.result import Result, utc_now
from runners.allreduce_plan import Progress
from runners.environment import host_facts
from runners.events import Events, main_program
from runners.nccl_log import family
from runners.p2p_result import PairFound, build, compared, median_us, members_of
from runners.ranks import is_stuck, run_ranks
from runners.spec import P2PSpec, parse_spec

COLLECTIVE_BYTES = {"cuda": (3072, 1 << 20, 1 << 24), "cpu": (3072, 1 << 18)}
# a process has to start before its tier's limit counts
_START_S = 120.0
_MARGIN_S = 2.0
_SECONDS = {"grant": 8.0, "device": 12.0, "copies": 15.0, "collective": 35.0}


@dataclass
class _Heard:
    """What the ranks of one tier said, and how it ended."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    returned: list[dict[str, Any]] = field(default_factory=list)
    error: LinkworthError | None = None

    def all(self, key: str) -> list[Any]:
        return [message[key] for message in self.messages if key in message]

    def outcome(self, tier: Tier) -> TierOutcome | None:
        """How a tier that did not come to its end failed."""
        if self.error is None:
            return None
        state: State = "hang" if isinstance(self.error, RunTimedOut) else "failed"
        return TierOutcome(tier, state, self.error.sentence)


class Check:
    """All pairs of one run.

    Args:
        spec: What to check.
        events: Told about each tier.
    """

    def __init__(self, spec: P2PSpec, events: Events) -> None:
        # the limit of the whole run began to count a moment before this
        self._deadline = time.monotonic() + spec.time_limit_s - _MARGIN_S
        self._spec, self._events = spec, events
        self._members = members_of(spec)
        self._pairs = list(combinations(range(len(self._members.labels)), 2))
        self._progress = Progress(self._weights())
        self._probe: list[dict[str, Any]] = []
        self._faults: set[str] = set()
        self._granted: list[list[bool | None]] = []
        self._found: dict[tuple[int, int], PairFound] = {}
        self._is_stuck = False

    def run(self) -> Result:
        """Go through devices, pairs and tiers."""
        started_at = utc_now()
        self._progress.begin()
        try:
            self._devices()
            self._ask_driver()
            for pair in self._pairs:
                self._found[pair] = PairFound(*pair)
                self._check_pair(self._found[pair])
                self._tell(self._found[pair])
        finally:
            result = build(
                self._spec,
                self._members,
                self._granted,
                list(self._found.values()),
                self._probe,
                self._faults,
                host=host_facts(),
                started_at=started_at,
            )
            self._events.partial = result
        self._events.stage("done", 1.0, eta_s=0.0)
        return result

    def _weights(self) -> list[float]:
        tiers = [_SECONDS["copies"], _SECONDS["collective"]]
        if self._spec.engine_under_load:
            tiers.append(self._spec.load_s + _SECONDS["device"])
        n_devices = 1 if self._spec.device == "cpu" else len(self._members.labels)
        return [_SECONDS["device"]] * n_devices + [_SECONDS["grant"]] + tiers * len(self._pairs)

    def _step(self, name: str) -> None:
        self._events.stage(name, self._progress.fraction, eta_s=self._progress.eta_s)

    def _devices(self) -> None:
        """Each device alone: the probe, which also measures the copy inside one GPU."""
        count = 1 if self._spec.device == "cpu" else len(self._members.labels)
        for place in range(count):
            self._step(f"{self._members.words(place)}: copy and product of its own")
            heard = self._ranks("runners.p2p_rank:device", {}, [place], n_ranks=1)
            if heard.error is not None:
                raise heard.error
            self._probe += heard.all("probe")
            self._progress.advance()

    def _ask_driver(self) -> None:
        everyone = list(range(len(self._members.labels)))
        self._step("asking the driver for peer access")
        payload = {"members": len(everyone)}
        heard = self._ranks("runners.p2p_copies:grants", payload, everyone, n_ranks=1)
        if heard.error is not None:
            raise heard.error
        self._granted = heard.returned[0]["granted"]
        self._progress.advance()

    def _check_pair(self, found: PairFound) -> None:
        a, b = found.a, found.b
        if self._granted[a][b] and self._granted[b][a]:
            found.outcomes.append(TierOutcome("grant", "passed"))
        else:
            found.outcomes.append(
                TierOutcome(
                    "grant",
                    "refused",
                    f"the driver grants no peer access between {self._members.words(a, b)}.",
                )
            )
        tiers: list[tuple[Tier, Callable[[PairFound], TierOutcome]]] = [
            ("copies", self._copies),
            ("collective", self._collective),
        ]
        if self._spec.engine_under_load:
            tiers.append(("load", self._load))
        for tier, attempt in tiers:
            self._step(f"{self._members.words(a, b)}: {tier}")
            broken = any(one.state in ("wrong", "hang", "failed") for one in found.outcomes)
            # what has moved wrong data or hung is not driven further into the wall
            if broken or self._is_stuck:
                found.outcomes.append(TierOutcome(tier, "skipped"))
            else:
                found.outcomes.append(attempt(found))
            self._progress.advance()

    def _copies(self, found: PairFound) -> TierOutcome:
        is_cpu = self._spec.device == "cpu"
        target = "runners.p2p_copies:" + ("cpu_copies" if is_cpu else "gpu_copies")
        payload = {
            "sizes_bytes": [size // 4 * 4 for size in self._spec.sizes_bytes],
            "bandwidth_bytes": self._spec.bandwidth_bytes // 4 * 4,
        }
        heard = self._ranks(target, payload, [found.a, found.b], n_ranks=2 if is_cpu else 1)
        found.copies, found.timed = heard.all("copy"), heard.all("timed")
        wrong = [row for row in found.copies if row["wrong"]]
        if wrong:
            places = (found.a, found.b)
            first = wrong[0]
            ends = [self._members.words(places[first[end]]) for end in ("src", "dst")]
            return TierOutcome(
                "copies",
                "wrong",
                f"{sum(row['wrong'] for row in wrong)} values arrived wrong, first from {ends[0]} "
                f"to {ends[1]} with {first['bytes']} bytes of the pattern {first['test']}.",
            )
        return heard.outcome("copies") or TierOutcome("copies", "passed")

    def _collective(self, found: PairFound) -> TierOutcome:
        """The all-reduce sweep, small, over the link and (on GPUs) through the host."""
        is_cpu = self._spec.device == "cpu"
        for link in (None,) if is_cpu else ("on", "off"):
            spec = {
                "kind": "allreduce",
                "device": self._spec.device,
                "sizes_bytes": list(COLLECTIVE_BYTES[self._spec.device]),
                "modes": ["eager" if is_cpu else "graph"],
                "rounds": 1,
                "samples_per_round": 10,
                "link": link,
                "size_time_limit_s": self._spec.tier_time_limit_s,
                **({"ranks": 2} if is_cpu else {"gpus": self._named([found.a, found.b])}),
            }
            payload = {"spec": parse_spec(spec).model_dump(mode="json"), "probe": False}
            heard = self._ranks(
                "runners.allreduce_rank:measure", payload, [found.a, found.b], n_ranks=2, link=link
            )
            units = heard.all("unit")
            wrong = [unit for unit in units if unit["wrong"]]
            if wrong:
                return TierOutcome(
                    "collective",
                    "wrong",
                    f"an all-reduce returned {sum(unit['wrong'] for unit in wrong)} wrong values, "
                    f"first at {wrong[0]['bytes']} bytes.",
                )
            failed = heard.outcome("collective")
            if failed is not None:
                return failed
            found.collective_us[link or "cpu"] = {u["bytes"]: median_us(u) for u in units}
            if link == "on" and found.is_granted:
                chosen = {family(counts) for counts in heard.all("transports") if counts}
                if chosen and chosen != {"P2P"}:
                    said = "But NCCL did not use peer-to-peer there, although it is granted."
                    return TierOutcome("collective", "skipped", said)
        return compared(found)

    def _load(self, found: PairFound) -> TierOutcome:
        """All-reduces under load: by the engine's own kernel, else by NCCL, and which is told."""
        spec = self._spec
        note = ""
        engine = spec.vllm_python is not None and spec.device == "cuda"
        if engine and not found.is_granted:
            engine, note = False, "vLLM's own all-reduce needs peer access."
        try:
            heard = self._loaded(found, engine=engine)
        except RunnerUnavailable as error:
            if not engine:
                raise
            # a kernel that declines a pair is no failure of the link, and no end of the check
            engine, note = False, error.sentence
            self._events.log(f"{note} NCCL's all-reduce is loaded instead.", "warning")
            heard = self._loaded(found, engine=False)
        failed = heard.outcome("load")
        if failed is not None:
            return failed
        done = heard.returned[0]
        found.load = {**done, "kernel": "vLLM" if engine else "NCCL", "note": note}
        if done["wrong"]:
            return TierOutcome(
                "load",
                "wrong",
                f"{done['wrong']} values were wrong in {done['checked']} all-reduces.",
            )
        return TierOutcome("load", "passed")

    def _loaded(self, found: PairFound, *, engine: bool) -> _Heard:
        spec = self._spec
        return self._ranks(
            "runners.p2p_load:under_load",
            {"seconds": spec.load_s, "engine": engine},
            [found.a, found.b],
            n_ranks=2,
            link="on" if spec.device == "cuda" else None,
            more_s=spec.load_s,
            python=spec.vllm_python if engine else None,
        )

    def _ranks(
        self,
        target: str,
        payload: dict[str, Any],
        places: list[int],
        *,
        n_ranks: int,
        link: str | None = None,
        more_s: float = 0.0,
        python: str | None = None,
    ) -> _Heard:
        """One tier in processes of its own; a failure is an answer, not the end of the check."""
        heard = _Heard()
        limit_s = self._spec.tier_time_limit_s
        try:
            heard.returned = run_ranks(
                target,
                {"limit_s": limit_s, **payload},
                n_ranks=n_ranks,
                device=self._spec.device,
                gpus=self._named(places) if self._spec.device == "cuda" else (),
                link=link,
                # the tier's own limit stands inside; this one is for what never begins
                time_limit_s=_START_S + 10 * limit_s + more_s,
                on_message=lambda rank, message: heard.messages.append(message),
                python=python,
            )
        except (InvalidSpec, RunnerUnavailable, RunCancelled):
            raise
        except LinkworthError as error:
            if time.monotonic() >= self._deadline:
                raise  # the time of the whole run is over
            heard.error = error
            self._is_stuck = self._is_stuck or is_stuck(error)
            self._events.log(error.sentence, "warning")
        self._faults |= {text for text in heard.all("fault") if text}
        return heard

    def _named(self, places: list[int]) -> list[int | str]:
        return [self._members.names[place] for place in places]

    def _tell(self, found: PairFound) -> None:
        told = verdict(found.outcomes)
        name = self._members.words(found.a, found.b)
        self._events.round(
            self._pairs.index((found.a, found.b)), {"pair": name, "verdict": told.sentence}
        )


def run(spec: P2PSpec, events: Events) -> Result:
    """Check peer-to-peer between GPUs, tier by tier, and measure copies."""
    return Check(spec, events).run()


if __name__ == "__main__":
    sys.exit(main_program("p2p", run))
