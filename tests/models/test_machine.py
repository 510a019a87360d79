"""What a machine's state says about the numbers taken on it."""

from typing import Any

import pytest

from models.machine import (
    CAPPED_SHARE,
    MIN_BUSY_SAMPLES,
    MIN_CAPPED_SAMPLES,
    hidden_name,
    probe_rates,
    suspect,
    telemetry_findings,
)
from models.result import Measurement

BEST = {"matmul_rate": 790.0, "copy_bandwidth": 4300.0}


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        (BEST, None),
        ({"matmul_rate": 751.0, "copy_bandwidth": 4100.0}, None),  # 4.9 % and 4.7 % under
        ({"matmul_rate": 750.5}, None),  # exactly 5 % is still allowed
        ({"matmul_rate": 742.6}, "matrix product rate 742.6 TFLOP/s, 6 % under"),
        ({"copy_bandwidth": 2150.0}, "memory copy bandwidth 2150 GB/s, 50 % under"),
        ({"matmul_rate": 900.0, "copy_bandwidth": 4300.0}, None),  # better than ever
    ],
)
def test_five_percent_under_the_best_is_suspect(probe: dict[str, float], words: str | None) -> None:
    reason = suspect(probe, BEST)
    assert (reason is None) == (words is None)
    assert words is None or (reason is not None and words in reason)


def test_without_a_history_nothing_is_suspect() -> None:
    assert suspect({"matmul_rate": 1.0}, {}) is None
    assert suspect({"matmul_rate": 1.0}, {"copy_bandwidth": 4300.0}) is None
    assert suspect({"matmul_rate": 1.0}, {"matmul_rate": 0.0}) is None


def test_a_wider_margin_is_more_patient() -> None:
    assert suspect({"matmul_rate": 700.0}, BEST) is not None
    assert suspect({"matmul_rate": 700.0}, BEST, margin=0.2) is None


def a_rate(name: str, unit: str, value: float, definition: str, **dims: Any) -> Measurement:
    return Measurement(
        metric=name, statistic="max", unit=unit, value=value, dims=dims, definition=definition
    )


def test_probe_rates_are_told_apart_by_device_and_type() -> None:
    rows = [
        a_rate("matmul_rate", "TFLOP/s", 1, "linkworth:probe-matmul:1", device="cpu", dtype="f"),
        a_rate("matmul_rate", "TFLOP/s", 2, "linkworth:probe-matmul:1", device="cpu", dtype="f"),
        a_rate("matmul_rate", "TFLOP/s", 7, "linkworth:probe-matmul:1", device="GPU-1", dtype="b"),
        a_rate("copy_bandwidth", "GB/s", 40, "linkworth:probe-copy:1", device="cpu"),
        a_rate("copy_bandwidth", "GB/s", 99, "nvbandwidth:1", device="cpu"),  # another definition
    ]
    assert probe_rates(rows) == {
        ("cpu", "f"): {"matmul_rate": 2},
        ("GPU-1", "b"): {"matmul_rate": 7},
        ("cpu", ""): {"copy_bandwidth": 40},
    }


def row(**values: Any) -> dict[str, Any]:
    return {
        "uuid": "GPU-1",
        "index": 0,
        "utilization_pct": 100,
        "sm_clock_mhz": 1900,
        "throttle_reasons": [],
        **values,
    }


def reasons(*rows: dict[str, Any], own_pids: tuple[int, ...] = ()) -> list[str]:
    return telemetry_findings(rows, own_pids).reasons


def test_a_quiet_card_gives_no_reason() -> None:
    found = telemetry_findings([row()] * 30)
    assert (found.reasons, found.warnings) == ([], [])
    assert telemetry_findings([]).reasons == []
    assert reasons({"t": 1.0, "cpu_pct": 100.0}) == []  # CPU rows are not judged


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("hw_slowdown", "its hardware slowed it down"),
        ("hw_thermal_slowdown", "it was too hot"),
        ("sw_thermal_slowdown", "it was too hot"),
        ("hw_power_brake_slowdown", "its power supply asked it to slow down"),
    ],
)
def test_throttling_under_load_is_a_reason(cause: str, words: str) -> None:
    held = row(throttle_reasons=[cause, "gpu_idle"])
    assert reasons(row(), held) == [f"GPU 0 was throttled: {words}."]
    assert reasons(row(), {**held, "utilization_pct": 3}) == []  # nothing was measured then


def test_two_words_for_heat_are_said_once() -> None:
    hot = row(throttle_reasons=["hw_thermal_slowdown", "sw_thermal_slowdown"])
    assert reasons(hot) == ["GPU 0 was throttled: it was too hot."]


def test_a_power_cap_only_warns() -> None:
    rows = [row(throttle_reasons=["sw_power_cap"])] * 2 + [row()] * 6
    found = telemetry_findings(rows)
    assert found.reasons == []
    (warning,) = found.warnings
    assert (warning.code, "25 %" in warning.text) == ("power_capped", True)
    assert telemetry_findings([*rows, *[row()] * 3]).warnings == []


def test_a_power_cap_in_few_busy_samples_is_no_finding() -> None:
    capped, idle = row(throttle_reasons=["sw_power_cap"]), row(utilization_pct=0)
    assert telemetry_findings([capped, *[idle] * 30]).warnings == []  # "1 of 1, 100 %"
    assert telemetry_findings([capped] * (MIN_CAPPED_SAMPLES - 1)).warnings == []
    assert len(telemetry_findings([capped] * MIN_CAPPED_SAMPLES).warnings) == 1
    assert 1 / MIN_CAPPED_SAMPLES < CAPPED_SHARE  # one sample alone never raises it


def test_a_falling_clock_is_a_reason() -> None:
    falling = [row(sm_clock_mhz=mhz) for mhz in (1980,) * 10 + (1900,) * 10 + (1800,) * 10]
    assert reasons(*falling) == ["The clock of GPU 0 fell from 1980 to 1800 MHz."]
    assert reasons(*falling[::-1]) == []  # warming up
    assert reasons(*(row(sm_clock_mhz=mhz) for mhz in (1980,) * 10 + (1900,) * 10)) == []
    too_few = [row(sm_clock_mhz=mhz) for mhz in range(2000, 1000, -100)][: MIN_BUSY_SAMPLES - 1]
    assert reasons(*too_few) == []


def test_a_clock_that_the_power_cap_sets_only_warns() -> None:
    # light load at full clock, then prompts at the cap: another load, not a slower machine
    capped = row(sm_clock_mhz=1550, throttle_reasons=["sw_power_cap"])
    found = telemetry_findings([row(sm_clock_mhz=1980)] * 10 + [capped] * 10)
    assert found.reasons == []
    (warning,) = found.warnings
    assert "50 % of the busy samples (10 of 20)" in warning.text
    hot = [{**capped, "throttle_reasons": ["sw_thermal_slowdown"]}] * 10
    reasons_hot = telemetry_findings([row(sm_clock_mhz=1980)] * 10 + hot).reasons
    assert "The clock of GPU 0 fell from 1980 to 1550 MHz." in reasons_hot


def test_clocks_of_an_idle_card_say_nothing() -> None:
    idle = [row(sm_clock_mhz=345, utilization_pct=0)] * 10
    assert reasons(*[row()] * 10, *idle) == []
    assert reasons(*[row(utilization_pct=None, sm_clock_mhz=mhz) for mhz in range(30)]) == []


def test_counters_that_grew_are_reasons() -> None:
    first = row(nvlink_errors={"replay": 1, "crc_data": None}, ecc={"uncorrected": 0})
    last = row(nvlink_errors={"replay": 4, "crc_data": None}, ecc={"uncorrected": 1})
    assert reasons(first, last) == [
        "GPU 0 counted 3 new NVLink errors.",
        "GPU 0 counted 1 new uncorrected memory errors.",
    ]
    unknown = row(nvlink_errors=None, ecc={"uncorrected": None})
    assert reasons(unknown, last) == []
    assert reasons(first, first) == []


def test_a_critical_error_of_the_driver_is_a_reason() -> None:
    assert reasons(row(xids=None), row(xids=[79, 13]), row(xids=[13])) == [
        "The driver reported a critical error of GPU 0 (Xid 13, 79)."
    ]


def test_company_on_the_card() -> None:
    mine, other = {"pid": 10}, {"pid": 20}
    shared = row(processes=[mine, other])
    assert reasons(row(processes=[mine]), shared, own_pids=(10,)) == [
        "GPU 0 was also used by another process."
    ]
    crowd = row(processes=[mine, other, {"pid": 21}])
    assert "2 other processes" in reasons(crowd, own_pids=(10,))[0]
    assert reasons(row(processes=[mine]), own_pids=(10,)) == []
    # a container numbers processes differently: ours are not among them, so nothing is known
    assert reasons(row(processes=[other]), own_pids=(10,)) == []
    assert reasons(row(processes=None), own_pids=(10,)) == []


def test_a_narrow_slot_warns_under_load() -> None:
    narrow = row(pcie_width=8, pcie_width_max=16)
    assert [notice.code for notice in telemetry_findings([narrow]).warnings] == ["pcie_narrow"]
    assert telemetry_findings([{**narrow, "utilization_pct": 0}]).warnings == []
    assert telemetry_findings([row(pcie_width=8, pcie_width_max=None)]).warnings == []


def test_each_gpu_is_judged_by_itself() -> None:
    hot = row(uuid="GPU-2", index=1, throttle_reasons=["hw_slowdown"])
    assert reasons(row(), hot) == ["GPU 1 was throttled: its hardware slowed it down."]


def test_hidden_names_differ_and_stay() -> None:
    assert hidden_name("a") == hidden_name("a") != hidden_name("b")
    assert len(hidden_name("a")) == 16
