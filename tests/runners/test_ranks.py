"""Ranks are real processes here: they meet, fail, hang, and never outlive their parent."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from models.errors import InvalidSpec, RankFailed, RunTimedOut, ValuesWrong
from runners.nccl_log import family, transports
from runners.ranks import rank_environment, run_ranks, visible_devices

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ON_PATH = {"PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}"}


def run(function, payload=None, heard=None, **limits):
    return run_ranks(
        f"rank_targets:{function}",
        payload or {},
        n_ranks=2,
        device="cpu",
        time_limit_s=limits.get("time_limit_s", 90),
        on_message=heard,
        variables=ON_PATH,
    )


def await_end(pids: list[int], timeout_s: float = 20) -> None:
    """Wait until none of these processes is left; fails when one is."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            assert select.select([descriptor], [], [], timeout_s)[0], (
                f"process {pid} is still there"
            )
        finally:
            os.close(descriptor)


def test_ranks_meet_and_their_results_come_back_in_order():
    heard = []
    results = run("talk", {"x": [1, None]}, lambda rank, message: heard.append((rank, message)))
    assert [result["sum"] for result in results] == [[3.0] * 4] * 2
    assert results[0]["rows"] == results[1]["rows"] == [[0.0, 0.5], [1.0, 0.5]]
    assert [result["agreed"] for result in results] == [7.0, 7.0]
    assert results[0]["variable"] == "lo"
    assert sorted(heard, key=lambda pair: pair[0]) == [
        (0, {"hello": 0, "payload": {"x": [1, None]}}),
        (1, {"hello": 1, "payload": {"x": [1, None]}}),
    ]


def test_an_error_of_ours_keeps_its_kind_and_names_its_rank():
    with pytest.raises(ValuesWrong, match=r"Rank 1.*Seven came back as eight") as caught:
        run("refuse")
    assert caught.value.next_step == "Replace the cable."
    assert "Traceback" in caught.value.detail


def test_a_foreign_error_comes_back_with_its_traceback():
    with pytest.raises(RankFailed, match=r"Rank 1.*KeyError: 'no such place'") as caught:
        run("stumble")
    assert "stumble" in caught.value.detail


def test_a_rank_that_dies_is_named_with_its_signal_and_place():
    with pytest.raises(
        RankFailed, match=r"Rank 1 was ended by signal 9 \(SIGKILL\) at the deep end"
    ):
        run("die")


def test_a_hang_is_named_and_leaves_no_process():
    pids = []
    with pytest.raises(RunTimedOut, match=r"hung at the sleepy hollow: not done after 1\.5 s"):
        run("hang", {"limit_s": 1.5}, lambda rank, message: pids.append(message["pid"]))
    assert len(pids) == 2
    await_end(pids, 0)


def test_the_ranks_go_when_their_parent_is_killed():
    program = (
        "import sys; from runners.ranks import run_ranks\n"
        "run_ranks('rank_targets:hang', {'limit_s': 100}, n_ranks=2, device='cpu',"
        " time_limit_s=100, on_message=lambda rank, m: print(m['pid'], flush=True))"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **ON_PATH},
    )
    try:
        assert parent.stdout is not None
        pids = [int(parent.stdout.readline()) for _ in range(2)]
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        parent.stdout.close()
    await_end(pids)


def test_link_arms_set_and_clear_what_they_stand_for(monkeypatch):
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    monkeypatch.delenv("NCCL_NVLS_ENABLE", raising=False)
    on = rank_environment("cuda", ["GPU-aaaa", "GPU-bbbb"], "on")
    assert "NCCL_P2P_DISABLE" not in on
    assert on["CUDA_VISIBLE_DEVICES"] == "GPU-aaaa,GPU-bbbb"
    assert on["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert on["NCCL_NVLS_ENABLE"] == "0"
    assert rank_environment("cuda", ["GPU-aaaa"], "off")["NCCL_P2P_DISABLE"] == "1"
    assert rank_environment("cuda", ["GPU-aaaa"], None)["NCCL_P2P_DISABLE"] == "1"


def test_multicast_stays_as_the_person_set_it(monkeypatch):
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "2")
    assert rank_environment("cuda", ["GPU-aaaa"], "on")["NCCL_NVLS_ENABLE"] == "2"


def test_indices_become_uuids_where_the_driver_answers(tmp_path, monkeypatch):
    recording = tmp_path / "nvml.json"
    gpus = [{"index": i, "uuid": f"GPU-{i}{i}{i}{i}", "name": "Card"} for i in range(2)]
    recording.write_text(json.dumps({"gpus": gpus}))
    monkeypatch.setenv("LINKWORTH_NVML_RECORDING", str(recording))
    assert visible_devices([1, "GPU-0000"]) == "GPU-1111,GPU-0000"
    with pytest.raises(InvalidSpec, match="no GPU 5"):
        visible_devices([5])


def test_without_a_driver_indices_go_to_cuda_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("LINKWORTH_NVML_RECORDING", str(tmp_path / "missing.json"))
    assert visible_devices([1, 0]) == "1,0"


LOG = """\
box:12:34 [0] NCCL INFO Channel 00/24 : 0 1
box:12:34 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
box:12:34 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read
"""


def test_transports_are_what_nccl_said():
    assert transports(LOG) == {"P2P/CUMEM/read": 2}
    assert family(transports(LOG)) == "P2P"
    shared = "x Channel 00 : 1[1] -> 0[0] via SHM/direct/direct\n"
    assert transports(shared) == {"SHM/direct/direct": 1}
    assert family(transports(LOG + shared)) == "mixed"
    same_process = "x Channel 03/1 : 1[1] -> 0[0] via P2P/direct pointer/read\n"
    assert transports(same_process) == {"P2P/direct pointer/read": 1}
    assert family(transports("nothing of the kind")) is None
