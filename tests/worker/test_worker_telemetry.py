"""Samples beside a run: paced, bounded, and never in the way."""

import threading
from typing import Any

import pytest

from models.errors import InvalidSpec, RunnerUnavailable
from runners.nvml import RecordedNvml
from tests.worker.scripted_context import until
from worker.telemetry import GpuSampler, Telemetry, gpu_names, sample_cpu

RECORDING: dict[str, Any] = {
    "gpus": [
        {"index": 0, "uuid": "GPU-0000", "name": "a card", "pcie_width_max": 16},
        {"index": 1, "uuid": "GPU-1111", "name": "a card", "pcie_width_max": 8},
    ],
    "samples": [
        [{"uuid": "GPU-0000", "sm_clock_mhz": 300}, {"uuid": "GPU-1111", "sm_clock_mhz": 310}],
        [{"uuid": "GPU-0000", "sm_clock_mhz": 1900}, {"uuid": "GPU-1111", "sm_clock_mhz": 1910}],
    ],
}


def test_only_the_gpus_of_the_job_are_sampled() -> None:
    sampler = GpuSampler([1], RecordedNvml(RECORDING))
    assert sampler() == [{"uuid": "GPU-1111", "sm_clock_mhz": 310, "pcie_width_max": 8}]
    assert sampler()[0]["sm_clock_mhz"] == 1910
    assert GpuSampler([], RecordedNvml(RECORDING)).uuids == ["GPU-0000", "GPU-1111"]
    with pytest.raises(InvalidSpec, match="There is no GPU 2"):
        GpuSampler([2], RecordedNvml(RECORDING))


def test_rows_carry_their_time_and_stop_with_the_block() -> None:
    calls = threading.Semaphore(0)

    def take() -> list[dict[str, Any]]:
        calls.release()
        return [{"n": 1}]

    with Telemetry(take, 200.0) as telemetry:
        for _ in range(3):
            assert calls.acquire(timeout=10)
    rows = telemetry.rows
    assert len(rows) >= 3
    times = [row["t"] for row in rows]
    assert times == sorted(times)
    assert len(telemetry.rows) == len(rows)


def test_a_long_record_is_thinned_and_slows_down() -> None:
    counted = iter(range(10**6))
    full = threading.Event()

    def take() -> list[dict[str, Any]]:
        number = next(counted)
        if number >= 40:
            full.set()
        return [{"n": number}]

    telemetry = Telemetry(take, 1000.0, max_rows=16)
    with telemetry:
        assert full.wait(10)
    numbers = [row["n"] for row in telemetry.rows]
    assert len(numbers) <= 17
    assert numbers == sorted(numbers)
    assert numbers[0] == 0
    assert telemetry._period_s > 1 / 1000


def test_a_driver_that_fails_ends_the_sampling_only(caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([[{"n": 1}]])

    def take() -> list[dict[str, Any]]:
        try:
            return next(answers)
        except StopIteration:
            raise RunnerUnavailable("The driver is gone.") from None

    with Telemetry(take, 500.0) as telemetry:
        until(lambda: "The driver is gone" in caplog.text, "the complaint")
    assert [row["n"] for row in telemetry.rows] == [1]


def test_the_cpu_row() -> None:
    (row,) = sample_cpu()
    assert row["memory_used_bytes"] > 0
    assert 0 <= row["cpu_pct"] <= 100
    assert row["cpu_mhz"] is None or row["cpu_mhz"] > 0  # unknown is never 0


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({"kind": "allreduce", "device": "cpu"}, None),
        ({"kind": "allreduce", "device": "cuda", "gpus": [1, 0]}, [1, 0]),
        ({"kind": "serving", "arm": {"gpus": ["GPU-x"]}}, ["GPU-x"]),
        ({"kind": "serving", "arm": {}}, []),
        ({"kind": "serving", "device": "cpu", "arm": {}}, None),
        ({"kind": "serving", "base_url": "http://localhost:8000"}, None),
        ({"kind": "topology"}, None),
    ],
)
def test_which_gpus_a_spec_uses(spec: dict[str, Any], names: list[Any] | None) -> None:
    assert gpu_names(spec) == names
