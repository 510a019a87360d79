"""What a person adds to an imported result: put where the file is silent, and marked as said."""

from collections.abc import Mapping

from models.definitions import DEFINITIONS, vllm_definition
from models.metrics import METRICS
from models.result import Result, Scalar

# name in ``result.said`` -> what a person reads
FIELDS = {
    "gpu": "GPU",
    "tp": "GPUs that share the model (TP)",
    "link": "Link between the GPUs",
    "interconnect": "Kind of link",
    "engine_version": "Engine version",
}
SHORT = {
    "gpu": "GPU",
    "tp": "TP",
    "link": "link",
    "interconnect": "kind of link",
    "engine_version": "engine version",
}
_UNKNOWN_REVISION = ":0"


def missing(result: Result) -> list[str]:
    """Names of the facts that the file does not state and a comparison wants, in order."""
    if result.origin != "imported" or result.kind not in ("serving", "allreduce", "collective"):
        return []
    arm = result.spec.get("arm") or {}
    absent = []
    if not result.host.get("gpus"):
        absent.append("gpu")
    if result.kind == "serving" and not arm.get("tp"):
        absent.append("tp")
    if not _stated_link(result):
        absent.append("link")
    if "interconnect" not in arm and "interconnect" not in (result.spec.get("metadata") or {}):
        absent.append("interconnect")
    if result.kind == "serving" and _wants_version(result):
        absent.append("engine_version")
    return absent


def with_said(result: Result, answers: Mapping[str, Scalar]) -> Result:
    """A copy that holds a person's answers where the file is silent.

    Args:
        result: As it was read; not changed.
        answers: Names of FIELDS; empty answers count as none. Never replaces what the file says.
    """
    wanted = missing(result)
    said = {name: answers[name] for name in wanted if answers.get(name) not in (None, "", 0)}
    if not said:
        return result
    copy = result.model_copy(deep=True)
    copy.said = {**copy.said, **said}
    if "gpu" in said:
        copy.host["gpus"] = [{"name": said["gpu"]}]
    arm = {name: said[name] for name in ("tp", "link", "interconnect") if name in said}
    if arm:
        copy.spec["arm"] = {**(copy.spec.get("arm") or {}), **arm}
    if "link" in said:
        places = [(row.metric, row.dims) for row in copy.measurements]
        places += [(row.metric, row.dims) for row in copy.samples]
        for metric, dims in places:
            if "link" in METRICS[metric].dims:
                dims.setdefault("link", said["link"])
    if "engine_version" in said:
        _resolve(copy, str(said["engine_version"]))
    answered = {"gpu": "no_gpu", "tp": "no_tp", "engine_version": "no_version"}
    told = {answered[name] for name in said if name in answered}
    copy.warnings = [notice for notice in copy.warnings if notice.code not in told]
    return copy


def _resolve(copy: Result, version: str) -> None:
    """With the version known, a definition of unknown revision becomes a known one."""
    if copy.tool.name != "vllm":
        return
    chat = "chat" in str(copy.spec.get("backend") or "") if copy.spec.get("backend") else None
    for row in copy.measurements:
        quantity = row.definition.split(":")[1]
        known = vllm_definition(quantity, chat=chat, version=version)
        if row.definition.endswith(_UNKNOWN_REVISION) and known in DEFINITIONS:
            row.definition = known


def _stated_link(result: Result) -> bool:
    arm = result.spec.get("arm") or {}
    return "link" in arm or any("link" in row.dims for row in result.measurements)


def _wants_version(result: Result) -> bool:
    return result.tool.name != "vllm" or result.tool.version is None
