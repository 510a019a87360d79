"""From what the tiers showed to one result of the peer-to-peer check."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from statistics import median
from typing import Any

from models.errors import RunnerUnavailable
from models.metrics import metric
from models.peer_check import TierOutcome, verdict
from models.result import (
    VERSION,
    Gpu,
    Measurement,
    Notice,
    Result,
    Scalar,
    Tool,
    utc_now,
)
from runners.allreduce_plan import size_words
from runners.environment import environment, process_conditions
from runners.nvml import open_nvml, resolve
from runners.spec import P2PSpec

DEFINITIONS = {
    ("cuda", "bandwidth"): "linkworth:p2p-copy-bandwidth:1",
    ("cuda", "latency"): "linkworth:p2p-copy-latency:1",
    ("cpu", "bandwidth"): "linkworth:gloo-send-bandwidth:1",
    ("cpu", "latency"): "linkworth:gloo-send-latency:1",
}
VALUES_DEFINITION = "linkworth:verified-copy:1"
# a collective that is this much slower than through the host has failed its tier
_SLOWER = 1.10
_BAD = ("wrong", "hangs", "fails")


@dataclass(frozen=True)
class Members:
    """Who takes part, in the order asked for.

    Attributes:
        names: As the spec names them; CPU ranks by number.
        labels: What results call them: the GPU's index in PCI bus order, or the rank.
        gpus: Facts where the driver tells them.
        is_cpu: CPU ranks: a rehearsal.
    """

    names: list[int | str]
    labels: list[int | str]
    gpus: list[Gpu]
    is_cpu: bool

    def words(self, *places: int) -> str:
        """``GPU 0 and 1``; ``CPU rank 0``."""
        kind = "CPU rank" if self.is_cpu else "GPU"
        return f"{kind}{'s' if len(places) > 1 else ''} " + " and ".join(
            str(self.labels[place]) for place in places
        )


@dataclass
class PairFound:
    """All that was found out about one pair (places in Members)."""

    a: int
    b: int
    outcomes: list[TierOutcome] = field(default_factory=list)
    copies: list[dict[str, Any]] = field(default_factory=list)
    timed: list[dict[str, Any]] = field(default_factory=list)
    collective_us: dict[str, dict[int, float]] = field(default_factory=dict)
    load: dict[str, Any] | None = None

    @property
    def is_granted(self) -> bool:
        """Whether the driver grants peer access both ways."""
        return any(one.tier == "grant" and one.state == "passed" for one in self.outcomes)


def members_of(spec: P2PSpec) -> Members:
    """Names, labels and facts of those that are checked.

    Raises:
        InvalidSpec: A GPU that is named is not there.
    """
    if spec.device == "cpu":
        ranks: list[int | str] = list(range(spec.ranks or 2))
        return Members(ranks, ranks, [], is_cpu=True)
    try:
        with open_nvml() as nvml:
            known = {gpu.uuid: gpu for gpu in nvml.gpus()}
            known |= {uuid: gpu for gpu in nvml.gpus() for uuid in gpu.mig_uuids}
            uuids = resolve(known.values(), spec.gpus)
    except RunnerUnavailable:
        return Members(list(spec.gpus), list(spec.gpus), [], is_cpu=False)
    facts = [known[uuid] for uuid in uuids]
    gpus = [
        Gpu(index=one.index, name=one.name, uuid=one.uuid, numa=one.numa, cpus=one.cpus)
        for one in facts
    ]
    return Members(list(uuids), [one.index for one in facts], gpus, is_cpu=False)


def median_us(unit: dict[str, Any]) -> float:
    """Median of one unit of an AllReduce sweep."""
    return float(median(unit["values_us"]))


def compared(found: PairFound) -> TierOutcome:
    """Not slower than through the host, at any size."""
    direct, host = found.collective_us.get("on"), found.collective_us.get("off")
    slower = [
        f"{size_words(size)}: {direct[size]:.1f} us against {host[size]:.1f}"
        for size in (direct if direct and host else ())
        if direct and host and direct[size] > host[size] * _SLOWER
    ]
    if slower and found.is_granted:
        return TierOutcome(
            "collective",
            "slower",
            f"But the collective is slower than through the host ({'; '.join(slower)}).",
        )
    return TierOutcome("collective", "passed")


def build(
    spec: P2PSpec,
    members: Members,
    granted: Sequence[Sequence[bool | None]],
    pairs: Sequence[PairFound],
    probe: Sequence[dict[str, Any]],
    faults: Collection[str],
    *,
    host: dict[str, Any],
    started_at: datetime,
) -> Result:
    """The result as far as the check came."""
    verdicts = [verdict(found.outcomes) for found in pairs]
    notices, reasons = [], []
    for text in sorted(faults):
        notices.append(_notice("test_fault", f"A fault was injected for a test: {text}."))
        reasons.append(notices[-1].text)
    if members.is_cpu:
        notices.append(
            _notice("rehearsal", "CPU ranks over gloo rehearse the check: no GPU link was tested.")
        )
    for found, told in zip(pairs, verdicts, strict=True):
        text = f"{members.words(found.a, found.b)}: {told.sentence}"
        if told.code in _BAD:
            reasons.append(text)
        if told.code != "works" or told.next_step:
            code = "slower_than_host" if told.code == "works" else f"peer_{told.code}"
            notices.append(_notice(code, f"{text} {told.next_step}"))
    measurements = [_probed(row, place, members) for place, row in _by_device(probe)]
    for found, told in zip(pairs, verdicts, strict=True):
        measurements += _checked(found, members)
        if told.code not in _BAD:  # how fast wrong data move is nobody's bandwidth
            measurements += _timings(found, members)
    return Result(
        kind="p2p",
        origin="measured",
        validity="suspect" if reasons else "valid",
        reasons=reasons,
        warnings=notices,
        title=_title(members, [told.sentence for told in verdicts]),
        spec=spec.model_dump(mode="json"),
        host=host,
        environment={
            **environment(),
            "process": process_conditions(),
            "pairs": [
                {
                    "src": members.labels[found.a],
                    "dst": members.labels[found.b],
                    **asdict(told),
                    "tiers": [asdict(one) for one in found.outcomes],
                    "collective_us": {
                        arm: {str(size): value for size, value in rows.items()}
                        for arm, rows in found.collective_us.items()
                    },
                    "load": found.load,
                }
                for found, told in zip(pairs, verdicts, strict=True)
            ],
        },
        started_at=started_at,
        finished_at=utc_now(),
        tool=Tool(name="linkworth", version=VERSION),
        measurements=measurements,
        gpus=members.gpus or None,
        p2p=None if members.is_cpu or not granted else _access(granted),
    )


def _access(granted: Sequence[Sequence[bool | None]]) -> list[list[str | None]]:
    """The driver's answer in the words of nvidia-smi topo -p2p."""
    return [
        [
            "X" if a == b else None if answer is None else "OK" if answer else "NS"
            for b, answer in enumerate(row)
        ]
        for a, row in enumerate(granted)
    ]


def _title(members: Members, sentences: Sequence[str]) -> str:
    count = len(members.labels)
    kind = "CPU rank" if members.is_cpu else "GPU"
    who = f"Peer-to-peer, {count} {kind}{'s' if count > 1 else ''}"
    return f"{who}: {sentences[0]}" if len(sentences) == 1 else who


def _by_device(probe: Sequence[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Each device brought two rows, in order."""
    return [(at // 2, row) for at, row in enumerate(probe)]


def _probed(row: dict[str, Any], place: int, members: Members) -> Measurement:
    told = Measurement.model_validate(row)
    label = "cpu" if members.is_cpu else members.labels[place]
    return told.model_copy(update={"dims": {**told.dims, "device": label}})


def _checked(found: PairFound, members: Members) -> list[Measurement]:
    ends = (members.labels[found.a], members.labels[found.b])
    return [
        Measurement(
            metric="wrong_values",
            unit="",
            value=row["wrong"],
            n=1,
            dims={
                "src": ends[row["src"]],
                "dst": ends[row["dst"]],
                "bytes": row["bytes"],
                "test": row["test"],
            },
            definition=VALUES_DEFINITION,
        )
        for row in found.copies
    ]


def _timings(found: PairFound, members: Members) -> list[Measurement]:
    ends = (members.labels[found.a], members.labels[found.b])
    device = "cpu" if members.is_cpu else "cuda"
    rows = []
    for row in found.timed:
        is_latency = row["quantity"] == "latency"
        name = "p2p_latency" if is_latency else "p2p_bandwidth"
        seconds = row["seconds"]
        dims: dict[str, Scalar] = {
            "src": ends[row["src"]],
            "dst": ends[row["dst"]],
            "bytes": row["bytes"],
            "direction": row["direction"],
            "method": "gloo" if members.is_cpu else "CE",
            "link": None if members.is_cpu else "on" if found.is_granted else "off",
        }
        rows.append(
            Measurement(
                metric=name,
                statistic="median",
                unit=metric(name).unit,
                value=seconds * 1e6 if is_latency else row["bytes"] / seconds / 1e9,
                dims=dims,
                definition=DEFINITIONS[device, row["quantity"]],
            )
        )
    return rows


def _notice(code: str, text: str) -> Notice:
    return Notice(code=code, text=text.strip())
