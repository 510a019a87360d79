"""What a result says of its machine: facts from the system's files, and no secret."""

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from models.cpu_lists import compact
from models.machine import hidden_name
from runners import environment
from runners.environment import (
    boot_id,
    clock_mhz,
    cpu_quota,
    host_facts,
    is_secret,
    process_conditions,
    scrub,
)
from runners.nvml import RECORDING_VARIABLE
from settings import ROOT

CPUINFO = """processor	: 0
model name	: Invented CPU 9000
physical id	: 0
core id		: 0
cpu MHz		: 2400.000

processor	: 1
model name	: Invented CPU 9000
physical id	: 0
core id		: 0
cpu MHz		: 3000.000

processor	: 2
model name	: Invented CPU 9000
physical id	: 0
core id		: 1
cpu MHz		: 1000.000
"""


def a_system(root: Path, **files: str) -> Path:
    """A file system with these files; a name's ``__`` stands for a slash."""
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_host_facts_of_a_known_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.socket, "gethostname", lambda: "lab-7")
    root = a_system(
        tmp_path,
        proc__cpuinfo=CPUINFO,
        proc__meminfo="MemTotal:       1024 kB\nMemFree: 3 kB\n",
        proc__sys__kernel__random__boot_id="aaaa-bbbb\n",
        sys__devices__system__node__node0__x="",
        sys__devices__system__node__node1__x="",
        sys__devices__system__node__online="0-1",
    )
    (root / "etc").mkdir()
    (root / "etc/os-release").write_text('ID=x\nPRETTY_NAME="Invented Linux 3"\n')
    facts = host_facts(root)
    assert facts["os"] == "Invented Linux 3"
    assert facts["cpu_model"] == "Invented CPU 9000"
    assert facts["physical_cores"] == 2
    assert facts["numa_nodes"] == 2
    assert facts["memory_bytes"] == 1024 * 1024
    assert facts["boot_id"] == boot_id(root) == "aaaa-bbbb"
    assert facts["hostname"] == hidden_name("lab-7")
    assert "lab-7" not in json.dumps(facts)


def test_what_a_system_does_not_tell_is_null(tmp_path: Path) -> None:
    facts = host_facts(tmp_path)
    unknown = ("memory_bytes", "boot_id", "physical_cores", "numa_nodes", "driver", "cuda")
    assert {name: facts[name] for name in unknown} == dict.fromkeys(unknown)
    conditions = process_conditions(tmp_path)
    assert conditions["cpu_quota"] is None
    assert conditions["clock_mhz"] is None
    assert conditions["governor"] is None


def test_gpus_come_from_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = {"index": 0, "uuid": "GPU-0000", "name": "a card", "driver": "580.1", "cuda": "13.0"}
    recording = tmp_path / "recording.json"
    recording.write_text(json.dumps({"gpus": [card]}))
    monkeypatch.setenv(RECORDING_VARIABLE, str(recording))
    facts = host_facts()
    assert [gpu["uuid"] for gpu in facts["gpus"]] == ["GPU-0000"]
    assert facts["gpus"][0]["power_limit_w"] is None
    assert (facts["driver"], facts["cuda"]) == ("580.1", "13.0")


def test_only_variables_that_matter_and_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(environment.ALLOWED_PREFIXES):
            monkeypatch.delenv(name)
    for name, value in {
        "NCCL_P2P_DISABLE": "1",
        "OMP_NUM_THREADS": "4",
        "VLLM_API_KEY": "hush",
        "NCCL_AUTH_FILE": "hush",
        "TORCH_HUB_TOKEN": "hush",
        "VLLM_S3_URL": "https://me:hush@store",
        "HOME_ADDRESS": "nobody's business",
    }.items():
        monkeypatch.setenv(name, value)
    found = environment.environment()
    assert set(found["variables"]) == {"NCCL_P2P_DISABLE", "OMP_NUM_THREADS", "VLLM_S3_URL"}
    assert "hush" not in json.dumps(found)
    assert found["python"] == ".".join(str(part) for part in sys.version_info[:3])
    assert found["numpy"]
    assert found["torch"]


def test_the_filter_is_the_one_of_the_models() -> None:
    assert is_secret("HF_TOKEN")
    assert scrub({"api_key": "hush", "seed": 1}) == {"seed": 1}


def test_nccl_is_named_by_torch_where_that_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = types.ModuleType("torch")
    nccl = types.SimpleNamespace(version=lambda: (2, 27, 3))
    torch.cuda = types.SimpleNamespace(  # type: ignore[attr-defined]
        is_available=lambda: True, nccl=nccl
    )
    torch.version = types.SimpleNamespace(cuda="13.0")  # type: ignore[attr-defined]
    torch.get_num_threads = lambda: 6  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    found = environment.environment()
    assert (found["nccl"], found["torch_cuda"]) == ("2.27.3", "13.0")
    assert process_conditions()["threads"] == 6


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc__self__cgroup": "0::/\n", "sys__fs__cgroup__cpu.max": "max 100000"}, None),
        ({"proc__self__cgroup": "0::/\n", "sys__fs__cgroup__cpu.max": "150000 100000"}, 1.5),
        (
            {
                "proc__self__cgroup": "0::/a/b\n",
                "sys__fs__cgroup__a__cpu.max": "400000 100000",
                "sys__fs__cgroup__a__b__cpu.max": "max 100000",
                "sys__fs__cgroup__cpu.max": "800000 100000",
            },
            4.0,
        ),
        (
            {
                "proc__self__cgroup": "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n",
                "sys__fs__cgroup__cpu__cpu.cfs_quota_us": "250000",
                "sys__fs__cgroup__cpu__cpu.cfs_period_us": "100000",
            },
            2.5,
        ),
        (
            {
                "proc__self__cgroup": "5:cpu:/x\n",
                "sys__fs__cgroup__cpu__x__cpu.cfs_quota_us": "-1",
                "sys__fs__cgroup__cpu__x__cpu.cfs_period_us": "100000",
            },
            None,
        ),
    ],
)
def test_the_tightest_cpu_quota_counts(
    tmp_path: Path, files: dict[str, str], quota: float | None
) -> None:
    assert cpu_quota(a_system(tmp_path, **files)) == quota


def test_the_clock_is_that_of_our_cpus(tmp_path: Path) -> None:
    root = a_system(tmp_path, proc__cpuinfo=CPUINFO)
    assert clock_mhz([0, 1], root) == 2700.0
    assert clock_mhz([2], root) == 1000.0
    a_system(root, sys__devices__system__cpu__cpu1__cpufreq__scaling_cur_freq="3500000\n")
    assert clock_mhz([0, 1], root) == 3500.0  # the kernel's own statement is the better one
    assert clock_mhz([7], root) is None


def test_conditions_are_those_of_this_process() -> None:
    before = os.sched_getaffinity(0)
    one = min(before)
    try:
        os.sched_setaffinity(0, {one})
        conditions = process_conditions()
    finally:
        os.sched_setaffinity(0, before)
    assert (conditions["affinity"], conditions["n_cpus"]) == (str(one), 1)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2, 8], "0-2,8"), ([9, 0, 1, 4, 5], "0-1,4-5,9")],
)
def test_cpu_lists_read_as_the_kernels(numbers: list[int], text: str) -> None:
    assert compact(numbers) == text


def test_the_worker_asks_it_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runners.environment"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["boot_id"] == boot_id()
