"""Every sample of links and bandwidths is read as its expected answer says."""

import json
from pathlib import Path
from typing import Any

import pytest

from importers import nvbandwidth, nvlink, p2p_test, topology
from models.errors import UnreadableFile

SAMPLES = Path(__file__).parents[2].parent / "shared" / "samples"
READERS = {
    "nvidia-smi nvlink -s": nvlink,
    "nvbandwidth": nvbandwidth,
    "p2pBandwidthLatencyTest": p2p_test,
}


def _expected(folder: str) -> list[tuple[str, dict[str, Any]]]:
    path = SAMPLES / folder / "expected.json"
    return list(json.loads(path.read_text()).items()) if path.exists() else []


def _cases(folder: str) -> list[Any]:
    found = _expected(folder)
    if not found:
        return [pytest.param("", {}, marks=pytest.mark.skip(reason="no shared samples here"))]
    return [pytest.param(name, answer, id=name) for name, answer in found]


def _check_warnings(result: Any, answer: dict[str, Any]) -> None:
    codes = {notice.code for notice in result.warnings}
    assert codes >= set(answer["warnings"])
    assert codes <= {*answer["warnings"], *answer.get("warnings_optional", [])}


@pytest.mark.parametrize(("name", "answer"), _cases("topo"))
def test_topology_sample(name: str, answer: dict[str, Any]) -> None:
    text = (SAMPLES / "topo" / name).read_text(encoding="utf-8")
    assert topology.looks_like(text)
    assert not any(reader.looks_like(text) for reader in READERS.values())
    (result,) = topology.read(text, name)
    assert result.kind == "topology"
    assert result.origin == "described"
    assert result.tool.name == answer["kind"]
    assert [gpu.name for gpu in result.gpus or []] == answer["gpus"]
    assert result.links == answer["links"]
    assert result.complete == answer["complete"]
    assert result.nics == answer["nic_count"]
    numa, cpus = [g.numa for g in result.gpus or []], [g.cpus for g in result.gpus or []]
    assert numa == (answer["numa"] or [None] * len(numa))
    assert cpus == (answer["cpus"] or [None] * len(cpus))
    assert result.p2p == (answer["p2p"] and answer["p2p"]["matrix"])
    if "hops" in answer:
        assert [gpu.facts["hops"] for gpu in result.gpus or []] == answer["hops"]
        assert [gpu.facts["weights"] for gpu in result.gpus or []] == answer["weights"]
    _check_warnings(result, answer)


@pytest.mark.parametrize(("name", "answer"), _cases("nvlink"))
def test_nvlink_sample(name: str, answer: dict[str, Any]) -> None:
    text = (SAMPLES / "nvlink" / name).read_text(encoding="utf-8")
    claimed = [kind for kind, reader in READERS.items() if reader.looks_like(text)]
    assert not topology.looks_like(text)
    if answer["kind"] not in READERS:
        assert claimed == []
        for reader in READERS.values():
            with pytest.raises(UnreadableFile):
                reader.read(text)
        return
    assert claimed == [answer["kind"]]
    (result,) = READERS[answer["kind"]].read(text, name)
    assert result.tool.name == answer["kind"]
    assert (result.validity != "invalid") == answer["usable"]
    if answer["gpus"] is not None:
        keys = ("links_total", "links_active", "gb_s_per_link")
        assert [
            {"index": gpu.index, "name": gpu.name, **{key: gpu.facts[key] for key in keys}}
            for gpu in result.gpus or []
        ] == answer["gpus"]
    for got, wanted in zip(result.spec.get("matrices", []), answer["matrices"], strict=True):
        assert {key: got[key] for key in wanted} == wanted
    _check_warnings(result, answer)
