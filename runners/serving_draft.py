"""A serving result while it grows: measurements, warnings, validity, kept files."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.machine import telemetry_findings
from models.metrics import metric
from models.result import (
    VERSION,
    Artifact,
    Kind,
    Measurement,
    Notice,
    Result,
    Samples,
    Scalar,
    Tool,
    utc_now,
)
from models.rounds import Round, round_warnings
from models.secrets import scrub_bytes
from runners import environment
from runners.serving_check import OutputCheck
from runners.serving_host import Fleet
from runners.spec import ServingSpec, SoakSpec

_THROUGHPUT = "Output throughput, "
_UNSTEADY = frozenset({"spread", "first_round"})


@dataclass
class Draft:
    """A result on its way, and the folder for the files that belong to it."""

    result: Result
    files: Path | None = None

    def keep(self, name: str, data: bytes) -> None:
        """Store a file beside the result, without secrets, and name it in the result."""
        clean = scrub_bytes(data)
        self.result.artifacts.append(Artifact(name=name, sha256=hashlib.sha256(clean).hexdigest()))
        if self.files is not None:
            self.files.mkdir(parents=True, exist_ok=True)
            (self.files / name).write_bytes(clean)

    def put(self, name: str, value: float | None, definition: str, **dims: int | str) -> None:
        """Add a value that belongs to the start, not to a round; None adds nothing."""
        if value is not None:
            self.result.measurements.append(
                Measurement(
                    metric=name,
                    unit=metric(name).unit,
                    value=value,
                    dims=dict(dims),
                    definition=definition,
                )
            )

    def put_round(
        self,
        name: str,
        value: float,
        definition: str,
        round_: int | None,
        dims: Mapping[str, Scalar],
        *,
        statistic: str = "value",
    ) -> None:
        """Add a value of one round, or of all of them together where it is None."""
        known = metric(name)
        self.result.measurements.append(
            Measurement(
                metric=name,
                statistic=statistic,
                unit=known.unit,
                value=value,
                round=round_,
                dims={key: dims[key] for key in dims if key in known.dims},
                definition=definition,
            )
        )

    def warn(self, code: str, text: str) -> None:
        """Add a warning once."""
        notice = Notice(code=code, text=text)
        if notice not in self.result.warnings:
            self.result.warnings.append(notice)

    def suspect(self, reasons: Sequence[str]) -> None:
        """Say why to be careful."""
        new = self._new(reasons)
        if new and self.result.validity == "valid":
            self.result.validity = "suspect"

    def invalid(self, reasons: Sequence[str]) -> None:
        """Say why it must not be used."""
        if self._new(reasons):
            self.result.validity = "invalid"

    def machine(self, rows: Sequence[Mapping[str, Any]], *, is_kept: bool) -> None:
        """Judge the GPUs by the samples taken beside the rounds, and keep these if asked.

        Who else is on a GPU is not judged here: the arms of a study may share one on purpose.
        """
        alone = [{k: v for k, v in row.items() if k != "processes"} for row in rows]
        found = telemetry_findings(alone)
        self.suspect(found.reasons)
        for notice in found.warnings:
            self.warn(notice.code, notice.text)
        if is_kept:
            self.result.telemetry += [dict(row) for row in alone if row.get("uuid")]

    def steadiness(self) -> None:
        """Judge the rounds of this start: far apart, or the first one off, is a reason for care.

        What was said of fewer rounds is taken back first.
        """
        kept = [reason for reason in self.result.reasons if not reason.startswith(_THROUGHPUT)]
        if self.result.validity == "suspect" and not kept:
            self.result.validity = "valid"
        self.result.reasons = kept
        for load, rounds in self._throughput().items():
            for notice in round_warnings(rounds):
                if notice.code in _UNSTEADY:
                    self.suspect([f"{_THROUGHPUT}{load}: {notice.text}"])

    def _throughput(self) -> dict[str, list[Round]]:
        """Rounds of output throughput by workload."""
        found: dict[str, list[Round]] = {}
        for row in self.result.find("output_throughput", "value"):
            if row.round is None or row.value is None:
                continue
            dims = row.dims
            load = f"concurrency {dims.get('concurrency') or 'without a cap'}, "
            load += f"{dims.get('input_len')} in, {dims.get('output_len')} out"
            found.setdefault(load, []).append(Round(row.value, row.round))
        return found

    def outputs(self, check: OutputCheck, phase: str, *, keep: bool = True) -> None:
        """Take over what the fixed prompts brought, before or after the load.

        Args:
            check: What came back.
            phase: ``before`` or ``after``.
            keep: Whether the values are stored, for comparison with other arms.
        """
        known = any(row.dims.get("phase") == phase for row in self.result.samples)
        for number, values in enumerate(check.logprobs if keep and not known else [], 1):
            self.result.samples.append(
                Samples(
                    metric="output_logprob",
                    unit="",
                    dims={"prompt": number, "phase": phase},
                    values=values,
                )
            )
        self.invalid([f"Output check {phase} the load: {text}" for text in check.problems])
        for note in check.notes:
            self.warn("outputs_not_checked", note)

    def finished(self) -> Result:
        """The whole result, checked once more."""
        self.result.finished_at = utc_now()
        return Result.model_validate(self.result.model_dump(by_alias=True))

    def _new(self, reasons: Sequence[str]) -> list[str]:
        new = [reason for reason in reasons if reason not in self.result.reasons]
        self.result.reasons += new
        return new


def new_draft(
    kind: Kind, spec: ServingSpec | SoakSpec, servers: Fleet, files: Path | None = None
) -> Draft:
    """An empty result of this arm on this machine, with what its servers say of themselves."""
    host = environment.host_facts()
    if servers.uuids:
        host["ranks"] = servers.uuids
    started_here = bool(servers.servers)
    engine = "vllm" if started_here or servers.version else "openai-server"
    result = Result(
        kind=kind,
        origin="measured",
        spec=spec.model_dump(mode="json"),
        host=host if started_here else {},
        environment={**environment.environment(), "server": servers.conditions()},
        started_at=utc_now(),
        tool=Tool(name=engine, version=servers.version)
        if kind == "serving"
        else Tool(name="linkworth", version=VERSION),
    )
    draft = Draft(result, files)
    draft.put(
        "kv_cache_tokens",
        servers.kv_tokens(),
        "vllm:kv_cache_tokens:1",
        replicas=len(servers.base_urls),
    )
    draft.put("startup_time", servers.ready_s, "linkworth:server-ready:1")
    weights = servers.servers[0].facts().get("weights_gib") if started_here else None
    if weights is not None:
        draft.put("weight_bytes", float(weights) * 2**30, "vllm:model-loading:1", tp=spec.arm.tp)
    if spec.load_format == "dummy" and started_here:
        draft.warn("dummy_weights", "Dummy weights: speed is real, outputs are not checkable.")
    if not started_here:
        draft.warn(
            "server_elsewhere",
            "The server was not started here: its GPUs, flags and link are not known.",
        )
    return draft
