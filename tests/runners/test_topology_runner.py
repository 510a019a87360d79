"""The topology runner against recorded NVML answers and a stand-in for nvidia-smi."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.errors import RunnerUnavailable
from models.host_report import findings
from models.links import checked
from models.placement import rank_placements
from models.result import Result, parse
from runners import second_source, topology
from runners.events import Events
from runners.nvml import RecordedNvml
from runners.spec import PROGRAMS, TopologySpec

ROOT = Path(__file__).parents[2]
SPEC = TopologySpec()


def gpu(index: int, **facts: Any) -> dict[str, Any]:
    return {
        "index": index,
        "uuid": f"GPU-{index:08x}-0000-0000-0000-000000000000",
        "name": "NVIDIA GeForce RTX 3090",
        "memory_bytes": 24 << 30,
        "driver": "570.10",
        "pcie_gen_max": 4,
        "pcie_width_max": 16,
        "numa": 0,
        "cpus": "0-63",
        **facts,
    }


def state(index: int, **facts: Any) -> dict[str, Any]:
    return {
        "uuid": f"GPU-{index:08x}-0000-0000-0000-000000000000",
        "index": index,
        "pcie_gen": 1,
        "pcie_width": 16,
        "power_w": 21.5,
        "memory_used_bytes": 12 << 20,
        "processes": [],
        "xids": [],
        **facts,
    }


def link(source: int, number: int, target: int | None, **facts: Any) -> dict[str, Any]:
    return {
        "gpu": source,
        "link": number,
        "active": True,
        "speed_mbps": 14062,
        "remote_type": "gpu",
        "remote_gpu": target,
        **facts,
    }


def pair(a: int, b: int, ancestor: str | None, access: str | None, nvlink: str) -> dict[str, Any]:
    return {
        "a": a,
        "b": b,
        "ancestor": ancestor,
        "p2p": {"read": access, "write": access, "nvlink": nvlink},
    }


def two_bridges() -> dict[str, Any]:
    """4x RTX 3090, bridges between 0-2 and 1-3, no peer access over PCIe."""
    bridged = {(0, 2), (1, 3)}
    return {
        "gpus": [gpu(k) for k in range(4)],
        "samples": [[state(k) for k in range(4)]],
        "links": {
            "gpus": [f"GPU-{k:08x}-0000-0000-0000-000000000000" for k in range(4)],
            "pairs": [
                pair(
                    a,
                    b,
                    "PHB",
                    "ok" if (a, b) in bridged else "chipset_not_supported",
                    "ok" if (a, b) in bridged else "not_supported",
                )
                for a in range(4)
                for b in range(a + 1, 4)
            ],
            "nvlinks": [link(k, n, (k + 2) % 4) for k in range(4) for n in range(4)],
        },
    }


def switched(n_gpus: int = 2, n_links: int = 18, **facts: Any) -> dict[str, Any]:
    """H200 on NVLink switches, as a virtual machine may show them."""
    uuids = [f"GPU-{k:08x}-0000-0000-0000-000000000000" for k in range(n_gpus)]
    return {
        "gpus": [gpu(k, name="NVIDIA H200", numa=None, cpus=None) for k in range(n_gpus)],
        "samples": [[state(k) for k in range(n_gpus)]],
        "links": {
            "gpus": uuids,
            "pairs": [
                pair(a, b, "SYS", "ok", facts.get("nvlink", "ok"))
                for a in range(n_gpus)
                for b in range(a + 1, n_gpus)
            ],
            "nvlinks": [
                link(k, n, None, remote_type=facts.get("remote_type", "switch"), speed_mbps=26562)
                for k in range(n_gpus)
                for n in range(n_links)
            ],
        },
    }


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Result]:
    def run(recording: dict[str, Any], second: Result | None = None) -> Result:
        events = Events(str(tmp_path / "events.jsonl"))
        result = topology.run(
            SPEC, events, opened=lambda: RecordedNvml(recording), second=lambda: second
        )
        assert parse(json.loads(result.model_dump_json(by_alias=True))) == result
        return result

    return run


def codes(result: Result) -> list[str]:
    return [notice.code for notice in result.warnings]


def test_two_bridges_become_the_study_matrix(read: Callable[..., Result]) -> None:
    result = read(two_bridges())
    assert (result.kind, result.origin, result.validity) == ("topology", "measured", "valid")
    assert result.links == [
        ["X", "PHB", "NV4", "PHB"],
        ["PHB", "X", "PHB", "NV4"],
        ["NV4", "PHB", "X", "PHB"],
        ["PHB", "NV4", "PHB", "X"],
    ]
    assert result.complete is True
    assert result.p2p == [
        ["X", "CNS", "OK", "CNS"],
        ["CNS", "X", "CNS", "OK"],
        ["OK", "CNS", "X", "CNS"],
        ["CNS", "OK", "CNS", "X"],
    ]
    assert result.title == "This machine: 4x NVIDIA GeForce RTX 3090"
    first = (result.gpus or [])[0]
    assert (first.numa, first.cpus) == (0, "0-63")
    assert first.facts["links_total"] == first.facts["links_active"] == 4
    assert first.facts["gb_s_per_link"] == 14.062
    assert first.facts["power_w"] == 21.5
    assert first.facts["n_processes"] == 0
    rates = result.find("nvlink_rate", src=0)
    assert [(row.value, row.dims["dst"]) for row in rates] == [(14.062, 2)] * 4
    assert "no_peer_access" in codes(result)
    assert "partial_nvlink" in codes(result)
    best = rank_placements(result.links, 2, 2, p2p=result.p2p).best
    assert best.gpus == ((0, 2), (1, 3))


def test_links_to_switches_join_every_pair(read: Callable[..., Result]) -> None:
    result = read(switched(3))
    assert result.links == [["X", "NV18", "NV18"], ["NV18", "X", "NV18"], ["NV18", "NV18", "X"]]
    assert result.find("nvlink_rate")[0].dims["dst"] is None


def test_links_whose_end_the_driver_hides_count_where_nvlink_is_granted(
    read: Callable[..., Result],
) -> None:
    assert read(switched(remote_type=None)).links == [["X", "NV18"], ["NV18", "X"]]
    refused = read(switched(remote_type=None, nvlink="not_supported"))
    assert refused.links == [["X", "SYS"], ["SYS", "X"]]


def test_what_the_driver_does_not_tell_stays_unknown(read: Callable[..., Result]) -> None:
    recording = switched(n_links=0)
    recording["links"]["pairs"] = [pair(0, 1, None, None, "not_supported")]
    recording["samples"] = [[]]
    result = read(recording)
    assert result.links == [["X", None], [None, "X"]]
    assert result.complete is False
    assert result.p2p is None
    facts = (result.gpus or [])[0].facts
    assert facts["links_total"] is None
    assert facts["n_processes"] is None
    assert "links_unknown" in codes(result)


def test_one_gpu_is_no_error(read: Callable[..., Result]) -> None:
    result = read(switched(1, n_links=0))
    assert result.links == [["X"]]
    assert result.complete is True
    assert result.p2p is None
    assert "one_gpu" in codes(result)


def test_mig_is_a_sentence(read: Callable[..., Result]) -> None:
    recording = switched(1, n_links=0)
    recording["gpus"][0]["mig_uuids"] = ["MIG-aaaa", "MIG-bbbb"]
    result = read(recording)
    (notice,) = [notice for notice in result.warnings if notice.code == "mig"]
    assert notice.text.startswith("GPU 0 is split by MIG into 2 parts.")


def test_busy_unlike_and_broken_cards_are_said_before_a_run_starts(
    read: Callable[..., Result],
) -> None:
    recording = two_bridges()
    recording["gpus"][3].update(name="NVIDIA GeForce RTX 3080", memory_bytes=10 << 30)
    recording["samples"][0][1].update(
        processes=[{"pid": 7, "memory_bytes": 1}], pcie_width=8, memory_used_bytes=20 << 30
    )
    recording["samples"][0][2]["ecc"] = {"corrected": 1, "uncorrected": 3}
    recording["samples"][0][0]["nvlink_errors"] = {"replay": 5}
    result = read(recording)
    texts = {notice.code: notice.text for notice in result.warnings}
    assert "GPU 1 is in use by another program (21.5 GB in use)" in texts["gpu_busy"]
    assert "3x NVIDIA GeForce RTX 3090" in texts["unlike_cards"]
    assert "GPU 3 has the least memory (11 GB)" in texts["unlike_cards"]
    assert "x8" in texts["pcie_width"]
    assert "3 memory errors" in texts["ecc_errors"]
    assert "replay 5" in texts["nvlink_errors"]
    assert "pid" not in json.dumps([one.facts for one in result.gpus or []])


def test_a_generation_read_under_load_replaces_the_idle_one(read: Callable[..., Result]) -> None:
    result = read(switched(1, n_links=0))
    assert [one.code for one in findings(result)] == ["pcie_idle", "one_gpu"]
    uuid = (result.gpus or [])[0].uuid or ""
    whole = findings(result, {uuid: {"pcie_gen": 4, "pcie_width": 16}})
    assert [one.code for one in whole] == ["one_gpu"]
    slow = findings(result, {uuid: {"pcie_gen": 2, "pcie_width": 16}})
    assert next((one.code, one.severity) for one in slow) == ("pcie_generation", "problem")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RunnerUnavailable("No NVIDIA driver was found on this machine."), "No NVIDIA driver"),
        (RunnerUnavailable("This user may not talk to the NVIDIA driver."), "may not talk"),
        (type("NVMLError_GpuIsLost", (Exception,), {})("GPU is lost"), "fallen off the bus"),
        (type("NVMLError_Unknown", (Exception,), {})("Unknown Error"), "stopped answering"),
    ],
)
def test_gpus_that_cannot_be_read_are_a_sentence_and_the_cpu_is_still_told(
    tmp_path: Path, error: Exception, words: str
) -> None:
    def refuse() -> RecordedNvml:
        raise error

    result = topology.run(SPEC, Events(str(tmp_path / "e")), opened=refuse)
    assert result.validity == "valid"
    assert result.gpus is None
    (notice,) = result.warnings
    assert notice.code == "gpus_unreadable"
    assert words in notice.text
    assert result.host["cores"] == os.cpu_count()


def test_a_gpu_that_is_gone_is_named_and_the_others_are_read(read: Callable[..., Result]) -> None:
    gone = "GPU 2 has fallen off the bus: the driver can no longer reach it."
    result = read({**switched(), "problems": [gone]})
    assert len(result.gpus or []) == 2
    assert {notice.code: notice.text for notice in result.warnings}["gpu_lost"] == gone


def test_a_driver_without_gpus_is_a_sentence(read: Callable[..., Result]) -> None:
    result = read({"gpus": [], "samples": [[]], "links": {"gpus": [], "pairs": [], "nvlinks": []}})
    assert result.gpus == []
    assert "shows no GPU" in result.warnings[0].text


def smi(folder: Path, topo: str, nvlink: str = "", code: int = 0) -> str:
    """A program that prints like nvidia-smi."""
    program = folder / "nvidia-smi"
    (folder / "topo").write_text(topo)
    (folder / "nvlink").write_text(nvlink)
    program.write_text(f'#!/bin/sh\ncat "{folder}/$1"\nexit {code}\n')
    program.chmod(0o755)
    return str(program)


TOPO = (
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV18\tNODE\t0-31\t0\nGPU1\tNV18\t X \tNODE\t32-63\t1\nNIC0\tNODE\tNODE\t X \t\t\n"
)
STATUS = "".join(
    f"GPU {k}: NVIDIA H200 (UUID: GPU-{k:08x}-0000-0000-0000-000000000000)\n"
    + "".join(f"\t Link {n}: 26.562 GB/s\n" for n in range(18))
    for k in range(2)
)


def test_the_second_source_fills_what_nvml_does_not_know(
    tmp_path: Path, read: Callable[..., Result]
) -> None:
    second = second_source.read_second_source(smi(tmp_path, TOPO, STATUS))
    result = read(switched(), second)
    assert result.nics == 1
    assert [one.numa for one in result.gpus or []] == [0, 1]
    assert [one.cpus for one in result.gpus or []] == ["0-31", "32-63"]
    assert "sources_disagree" not in codes(result)
    assert result.environment["second_source"] == "nvidia-smi topo -m and nvlink -s"
    recording = switched()
    recording["links"]["pairs"] = []
    recording["links"]["nvlinks"] = []
    filled = read(recording, second)
    assert checked(filled.links or []) == [["X", "NV18"], ["NV18", "X"]]
    assert (filled.gpus or [])[1].facts["links_active"] == 18
    assert filled.complete is True


def test_what_the_two_sources_see_differently_is_named(
    tmp_path: Path, read: Callable[..., Result]
) -> None:
    status = STATUS.replace("Link 17: 26.562 GB/s", "Link 17: <inactive>", 1)
    second = second_source.read_second_source(smi(tmp_path, TOPO.replace("NV18", "SYS"), status))
    texts = [n.text for n in read(switched(), second).warnings if n.code == "sources_disagree"]
    assert texts[0].startswith("GPUs 0 and 1: NVML says NV18, nvidia-smi says SYS.")
    assert texts[1].startswith("GPU 0: NVML counts 18 active NVLinks, nvidia-smi 17.")


def swapped(status: str) -> str:
    """The same status from a tool that counts the two GPUs the other way round."""
    halves = [
        "GPU 0:" + status.split("GPU 0:")[1].split("GPU 1:")[0],
        "GPU 1:" + status.split("GPU 1:")[1],
    ]
    return halves[1].replace("GPU 1:", "GPU 0:") + halves[0].replace("GPU 0:", "GPU 1:")


def test_gpus_are_the_same_by_uuid_however_a_tool_counts_them(
    tmp_path: Path, read: Callable[..., Result]
) -> None:
    status = STATUS.replace("Link 17: 26.562 GB/s", "Link 17: <inactive>", 1)  # of GPU 0
    second = second_source.read_second_source(smi(tmp_path, TOPO, swapped(status)))
    result = read(switched(), second)
    texts = [n.text for n in result.warnings if n.code == "sources_disagree"]
    assert [text[:50] for text in texts] == ["GPU 0: NVML counts 18 active NVLinks, nvidia-smi 1"]
    assert [one.cpus for one in result.gpus or []] == ["32-63", "0-31"], "as the other counts"


def test_rates_totals_and_numa_nodes_that_differ_are_named_too(
    tmp_path: Path, read: Callable[..., Result]
) -> None:
    status = STATUS.replace("26.562", "25.781").replace("\t Link 17: 25.781 GB/s\n", "", 1)
    second = second_source.read_second_source(smi(tmp_path, TOPO, status))
    recording = switched()
    recording["gpus"][1]["numa"] = 0
    texts = [n.text for n in read(recording, second).warnings if n.code == "sources_disagree"]
    assert [text.split(". ")[0] for text in texts] == [
        "GPU 0: NVML counts 18 NVLinks, nvidia-smi 17",
        "GPU 0: NVML counts 18 active NVLinks, nvidia-smi 17",
        "GPU 0: NVML reads 26.562 GB/s a link, nvidia-smi 25.781 GB/s",
        "GPU 1: NVML reads 26.562 GB/s a link, nvidia-smi 25.781 GB/s",
        "GPU 1: the kernel puts it on NUMA node 0, nvidia-smi on 1",
    ]


def test_errors_that_the_driver_counts_link_by_link_are_added_up(
    read: Callable[..., Result],
) -> None:
    recording = two_bridges()
    for row in recording["links"]["nvlinks"]:
        is_first = row["gpu"] == 0
        row["errors"] = {"replay": 2 if is_first else 0, "crc_data": None}
    result = read(recording)
    facts = [one.facts["nvlink_errors"] for one in result.gpus or []]
    assert facts == [{"replay": 8}, {"replay": 0}, {"replay": 0}, {"replay": 0}]
    assert "replay 8" in {n.code: n.text for n in result.warnings}["nvlink_errors"]


def test_a_gap_in_the_numbers_names_the_right_gpus(
    tmp_path: Path, read: Callable[..., Result]
) -> None:
    """GPU 1 is gone: the second one that answers is GPU 2."""
    recording = switched()
    recording["gpus"][1]["index"] = 2
    second = second_source.read_second_source(smi(tmp_path, TOPO.replace("NV18", "SYS")))
    result = read(recording, second)
    texts = [n.text for n in result.warnings if n.code == "sources_disagree"]
    assert texts[0].startswith("GPUs 0 and 2: NVML says NV18, nvidia-smi says SYS.")
    assert {row.dims["src"] for row in result.find("nvlink_rate")} == {0, 2}


def test_a_second_source_that_fails_is_simply_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert second_source.read_second_source(smi(tmp_path, TOPO, STATUS, code=9)) is None
    assert second_source.read_second_source(str(tmp_path / "no-such-program")) is None
    assert second_source.read_second_source(smi(tmp_path, "Failed to initialize NVML\n")) is None
    monkeypatch.setattr(second_source, "TOOL_TIME_LIMIT_S", 0.2)
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 30\n")
    hanging.chmod(0o755)
    assert second_source.read_second_source(str(hanging)) is None


def test_the_program_reads_a_spec_and_writes_a_result(tmp_path: Path) -> None:
    assert PROGRAMS["topology"] == "runners.topology"
    recording = tmp_path / "recording.json"
    recording.write_text(json.dumps(two_bridges()))
    spec = tmp_path / "spec.json"
    spec.write_text('{"kind": "topology"}')
    result, events = tmp_path / "result.json", tmp_path / "events.jsonl"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            PROGRAMS["topology"],
            "--spec",
            str(spec),
            "--result",
            str(result),
            "--events",
            str(events),
        ],
        cwd=ROOT,
        env={**os.environ, "LINKWORTH_NVML_RECORDING": str(recording)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = parse(json.loads(result.read_text()))
    assert (found.links or [])[0] == ["X", "PHB", "NV4", "PHB"]
    assert found.environment["second_source"] is None
    stages = [json.loads(line)["stage"] for line in events.read_text().splitlines()]
    assert stages[0] == "Reading GPUs"
    assert stages[-1] == "Done"
