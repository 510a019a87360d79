"""The one seam to NVML: what cards tell, what they do not, and what stands in for a driver."""

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_nvml import FakeLibrary, lost_card, new_card, old_card

from models.errors import InvalidSpec, RunnerUnavailable
from models.result import utc_now
from runners import environment, smi
from runners.events import Events, failed_result
from runners.gpu_facts import GpuFacts, throttle_names
from runners.nvml import (
    RECORDING_VARIABLE,
    Nvml,
    RecordedNvml,
    open_nvml,
    resolve,
)
from runners.nvml_library import LibraryNvml
from runners.smi import SmiNvml
from runners.spec import parse_spec


@pytest.fixture
def library() -> FakeLibrary:
    return FakeLibrary(new_card(0), new_card(1), old_card())


def test_facts_of_a_card(library: FakeLibrary) -> None:
    with LibraryNvml(library) as nvml:
        first, second, _ = nvml.gpus()
    assert first == GpuFacts(
        index=0,
        uuid="GPU-0000",
        name="Invented 9000",
        memory_bytes=24 * 2**30,
        driver="580.159.04",
        cuda="13.0",
        power_limit_w=350.0,
        sm_clock_max_mhz=1980,
        mem_clock_max_mhz=3201,
        pcie_gen_max=5,
        pcie_width_max=16,
        pci_bus_id="00000000:00:00.0",
        numa=first.numa,  # this machine's own
        cpus="0-3",
        compute_capability="9.0",
    )
    assert (second.index, second.uuid) == (1, "GPU-1111")
    assert not library.is_open
    assert json.loads(json.dumps(first.as_dict()))["mig_uuids"] == []


def test_what_an_old_card_does_not_tell_is_null(library: FakeLibrary) -> None:
    with LibraryNvml(library) as nvml:
        facts = nvml.gpus()[2].as_dict()
        state = nvml.sample(["GPU-old0"])[0]
    known = {name for name, value in facts.items() if value not in (None, [])}
    assert known == {"index", "uuid", "name", "driver", "cuda"}
    told = {name for name, value in state.items() if value not in (None, [])}
    assert told == {"uuid", "index", "ecc"}
    assert state["ecc"] == {"corrected": None, "uncorrected": None}


def test_a_sample(library: FakeLibrary) -> None:
    with LibraryNvml(library) as nvml:
        (row,) = nvml.sample(["GPU-1111"])
        assert len(nvml.sample()) == 3
    assert row == {
        "uuid": "GPU-1111",
        "index": 1,
        "sm_clock_mhz": 1755,
        "mem_clock_mhz": 3201,
        "power_w": 123.456,
        "temperature_c": 41,
        "utilization_pct": 97,
        "memory_used_bytes": 2**30,
        "throttle_reasons": ["sw_power_cap", "hw_thermal_slowdown", "reason_0x8000"],
        "pcie_gen": 4,
        "pcie_width": 8,
        "pcie_replays": 0,
        "nvlink_errors": {"crc_flit": 0, "crc_data": 1, "replay": 0, "recovery": None},
        "ecc": {"corrected": 2, "uncorrected": 0},
        "energy_mj": 987_654,
        "processes": [{"pid": 77, "memory_bytes": 5}],
        "xids": [],
    }


def test_an_old_driver_has_the_reasons_under_another_name() -> None:
    card = new_card(0)
    card["nvmlDeviceGetCurrentClocksThrottleReasons"] = card.pop(
        "nvmlDeviceGetCurrentClocksEventReasons"
    )
    with LibraryNvml(FakeLibrary(card)) as nvml:
        assert "sw_power_cap" in nvml.sample()[0]["throttle_reasons"]


def test_a_function_that_an_old_pynvml_lacks_is_an_unknown(library: FakeLibrary) -> None:
    with LibraryNvml(library) as nvml:
        assert nvml.ask("nvmlSomethingNew", 1) is None


def test_critical_errors_are_told_once_and_to_the_right_card(library: FakeLibrary) -> None:
    with LibraryNvml(library) as nvml:
        library.cards[1]["events"] += [79, 13]
        assert [row["xids"] for row in nvml.sample()] == [[], [79, 13], []]
        assert [row["xids"] for row in nvml.sample()] == [[], [], []]


def test_who_may_not_listen_knows_of_no_critical_errors(library: FakeLibrary) -> None:
    library.may_listen = False
    with LibraryNvml(library) as nvml:
        assert [row["xids"] for row in nvml.sample()] == [None, None, None]


def test_mig_parts_are_named() -> None:
    card = new_card(0)
    card["nvmlDeviceGetMigMode"] = (1, 1)
    card["nvmlDeviceGetMaxMigDeviceCount"] = 2
    card["nvmlDeviceGetMigDeviceHandleByIndex"] = {0: {"nvmlDeviceGetUUID": "MIG-abcd"}}
    with LibraryNvml(FakeLibrary(card)) as nvml:
        assert nvml.gpus()[0].mig_uuids == ("MIG-abcd",)
        assert resolve(nvml.gpus(), ["MIG-abcd"]) == ["MIG-abcd"]
        assert [row["uuid"] for row in nvml.sample(["MIG-abcd"])] == ["GPU-0000"]


def test_links(library: FakeLibrary) -> None:
    with LibraryNvml(library) as nvml:
        links = nvml.links()
    assert links["gpus"] == ["GPU-0000", "GPU-1111", "GPU-old0"]
    assert [(row["a"], row["b"], row["ancestor"]) for row in links["pairs"]] == [
        (0, 1, "PXB"),
        (0, 2, None),
        (1, 2, None),
    ]
    assert links["complete"] is False
    assert links["pairs"][0]["p2p"] == {
        "read": "ok",
        "write": "ok",
        "nvlink": "ok",
        "atomics": "not_supported",
        "pci": "gpu_not_supported",
    }
    active, inactive = links["nvlinks"][:2]
    assert active == {
        "gpu": 0,
        "link": 0,
        "active": True,
        "version": 4,
        "speed_mbps": 26562,
        "p2p": True,
        "remote_type": "gpu",
        "remote_bus_id": "0000:01:00.0",
        "remote_gpu": 1,  # written with a domain of 4 digits there and of 8 here
        "errors": dict.fromkeys(("replay", "recovery", "crc_flit", "crc_data"), 0),
    }
    assert (inactive["active"], inactive["speed_mbps"], inactive["remote_gpu"]) == (
        False,
        None,
        None,
    )
    assert [row["gpu"] for row in links["nvlinks"]] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (12, "No NVIDIA driver was found"),
        (9, "installed but not loaded"),
        (4, "may not talk to the NVIDIA driver"),
        (18, "different versions"),
        (999, "does not answer: NVML error 999"),
    ],
)
def test_a_sentence_for_each_reason_why_there_is_no_nvml(code: int, words: str) -> None:
    with pytest.raises(RunnerUnavailable, match=words) as caught:
        LibraryNvml(FakeLibrary(start_error=code))
    assert caught.value.next_step


@pytest.mark.parametrize("lost_at_once", [True, False])
def test_a_gpu_that_fell_off_the_bus_does_not_hide_the_others(lost_at_once: bool) -> None:
    library = FakeLibrary(new_card(0), lost_card(), new_card(1))
    library.lost_at_once = lost_at_once
    with LibraryNvml(library) as nvml:
        assert [(gpu.index, gpu.uuid) for gpu in nvml.gpus()] == [(0, "GPU-0000"), (2, "GPU-1111")]
        assert [row["index"] for row in nvml.sample()] == [0, 2]
        assert nvml.links()["gpus"] == ["GPU-0000", "GPU-1111"]
        assert nvml.problems() == [
            "GPU 1 has fallen off the bus: the driver can no longer reach it."
        ]


def test_a_gpu_that_goes_while_it_is_watched_answers_nothing(library: FakeLibrary) -> None:
    with LibraryNvml(library) as nvml:
        library.cards[1] |= {"lost": True}
        row = nvml.sample(["GPU-1111"])[0]
        assert row["power_w"] is None
        assert row["processes"] is None
        assert nvml.sample(["GPU-0000"])[0]["power_w"] == 123.456


def test_where_every_gpu_is_gone_there_is_a_sentence_and_a_step() -> None:
    library = FakeLibrary(lost_card())
    with pytest.raises(RunnerUnavailable, match="GPU 0 has fallen off the bus") as caught:
        LibraryNvml(library)
    assert "Xid 79" in caught.value.next_step
    assert not library.is_open


def test_a_lost_gpu_breaks_neither_the_host_nor_a_failed_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = FakeLibrary(new_card(0), lost_card())
    monkeypatch.setattr(environment, "open_nvml", lambda: LibraryNvml(library))
    facts = environment.host_facts()
    assert [gpu["uuid"] for gpu in facts["gpus"]] == ["GPU-0000"]
    assert facts["gpu_problems"] == [
        "GPU 1 has fallen off the bus: the driver can no longer reach it."
    ]
    spec = parse_spec({"kind": "allreduce", "device": "cuda", "gpus": [0, 1]})
    error = RunnerUnavailable("The link went down.")
    result = failed_result(spec, error, Events(str(tmp_path / "e")), utc_now())
    assert result.reasons == ["The link went down."]
    assert result.host["gpu_problems"]


GPUS = [GpuFacts(0, "GPU-0000", "a"), GpuFacts(1, "GPU-1111", "b")]


def test_gpus_by_index_or_uuid_keep_their_order() -> None:
    assert resolve(GPUS, [1, "GPU-0000"]) == ["GPU-1111", "GPU-0000"]
    assert resolve(GPUS, []) == []


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([2], r"There is no GPU 2 on this machine\. The GPUs here are: 0 \(a\), 1 \(b\)"),
        (["GPU-2222"], "There is no GPU GPU-2222"),
        ([0, "GPU-0000"], "GPU GPU-0000 is named twice"),
    ],
)
def test_gpus_that_cannot_be_meant(names: list[Any], words: str) -> None:
    with pytest.raises(InvalidSpec, match=words):
        resolve(GPUS, names)


def test_throttle_names() -> None:
    assert throttle_names(0) == []
    assert throttle_names(0x1 | 0x100) == ["gpu_idle", "display_clock_setting"]
    assert throttle_names(0x400) == ["reason_0x400"]


RECORDING: dict[str, Any] = {
    "gpus": [GPUS[0].as_dict(), {"index": 1, "uuid": "GPU-1111", "name": "b"}],
    "samples": [[{"uuid": "GPU-0000", "n": 1}], [{"uuid": "GPU-0000", "n": 2}]],
    "links": {"gpus": ["GPU-0000", "GPU-1111"], "complete": True},
}


def test_a_recording_replays_and_stays_with_its_last_sample(tmp_path: Path) -> None:
    path = tmp_path / "recording.json"
    path.write_text(json.dumps(RECORDING))
    with open_nvml(path) as nvml:
        assert nvml.gpus() == GPUS
        assert [nvml.sample()[0]["n"] for _ in range(3)] == [1, 2, 2]
        assert nvml.sample(["GPU-1111"]) == []
        assert nvml.links()["complete"] is True
    assert RecordedNvml({}).sample() == []


def test_the_variable_names_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "recording.json"
    monkeypatch.setenv(RECORDING_VARIABLE, str(path))
    with pytest.raises(RunnerUnavailable, match="recording cannot be read"):
        open_nvml()
    path.write_text(json.dumps(RECORDING))
    assert open_nvml().gpus() == GPUS


def without_pynvml(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *arguments: Any, **more: Any) -> Any:
        if name == "pynvml":
            raise ImportError(name)
        return real(name, *arguments, **more)

    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)


def a_program(folder: Path, text: str) -> Path:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


SMI = """case "$1" in
*memory.total*) echo "0, GPU-0000, Invented 9000, 24576, 580.1, 350.00, 1980, 3201, 5, 16, \
00000000:01:00.0, 9.0"
  echo "1, GPU-1111, Invented 9000, 24576, 580.1, [N/A], 1980, 3201, 5, 16, \
00000000:02:00.0, 9.0";;
*) echo "0, GPU-0000, 345, 3201, 71.23, 33, 0, 1, 0x0000000000000001, 1, [Not Supported]"
  echo "1, GPU-1111, 1755, 3201, [N/A], 41, 97, 512, [N/A], 4, 8";;
esac"""


def test_without_pynvml_the_program_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pynvml(monkeypatch)
    a_program(tmp_path, SMI)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with open_nvml() as nvml:
        assert isinstance(nvml, SmiNvml)
        first, second = nvml.gpus()
        (row,) = nvml.sample(["GPU-1111"])
        idle = nvml.sample()[0]
        links = nvml.links()
    assert (first.memory_bytes, first.power_limit_w) == (24 * 2**30, 350.0)
    assert (first.driver, first.compute_capability) == ("580.1", "9.0")
    assert second.power_limit_w is None
    assert (row["sm_clock_mhz"], row["power_w"], row["throttle_reasons"]) == (1755, None, None)
    assert (row["memory_used_bytes"], row["energy_mj"]) == (512 * 2**20, None)
    assert (idle["throttle_reasons"], idle["pcie_width"]) == (["gpu_idle"], None)
    assert links["complete"] is False


def test_an_old_program_calls_the_reasons_otherwise(tmp_path: Path) -> None:
    old = 'case "$1" in *clocks_event_reasons*) echo not a valid field; exit 2;; esac\n' + SMI
    nvml = SmiNvml(str(a_program(tmp_path, old)))
    assert nvml.sample()[0]["throttle_reasons"] == ["gpu_idle"]
    assert nvml.sample(["GPU-1111"])[0]["sm_clock_mhz"] == 1755


def test_both_sources_have_the_same_fields(library: FakeLibrary, tmp_path: Path) -> None:
    program = a_program(tmp_path, SMI)
    sources: list[Nvml] = [LibraryNvml(library), SmiNvml(str(program))]
    fields = [set(nvml.sample()[0]) for nvml in sources]
    assert fields[0] == fields[1]


def test_without_pynvml_and_program_there_is_no_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pynvml(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunnerUnavailable, match="No NVIDIA driver"):
        open_nvml()
    with pytest.raises(RunnerUnavailable, match="not found"):
        SmiNvml()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "mismatch"),
        ("exit 9", "exit code 9"),
        ("exec sleep 100", "does not answer"),
    ],
)
def test_a_program_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.setattr(smi, "_TIME_LIMIT_S", 0.5)
    with pytest.raises(RunnerUnavailable, match=words):
        SmiNvml(str(a_program(tmp_path, text)))


def test_an_answer_that_was_cut_is_left_out(tmp_path: Path) -> None:
    cut = "echo '0, GPU-0000, Invented'"
    assert SmiNvml(str(a_program(tmp_path, cut))).gpus() == []


@pytest.mark.gpu
def test_the_real_driver() -> None:
    try:
        nvml = open_nvml()
    except RunnerUnavailable as error:
        pytest.skip(str(error))
    with nvml:
        gpus = nvml.gpus()
        assert gpus
        rows = nvml.sample()
        assert [row["uuid"] for row in rows] == [gpu.uuid for gpu in gpus]
        assert all(row["sm_clock_mhz"] for row in rows)
        assert nvml.links()["gpus"] == [gpu.uuid for gpu in gpus]
