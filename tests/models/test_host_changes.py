"""Two readings of one host: counters that rise, links that went, cards that are gone."""

from typing import Any

import pytest

from models.host_changes import rising
from models.result import Gpu, Result, Tool


def reading(*facts: dict[str, Any], boot: str = "boot-1", **changes: Any) -> Result:
    return Result(
        kind="topology",
        origin="measured",
        tool=Tool(name="linkworth"),
        host={"hostname": "a", "boot_id": boot},
        finished_at="2026-11-29T10:00:00Z",
        gpus=[
            Gpu(index=k, name="NVIDIA H200", uuid=f"GPU-{k}", facts=one)
            for k, one in enumerate(facts)
        ],
        **changes,
    )


@pytest.mark.parametrize(
    ("before", "now", "sentence", "step"),
    [
        (
            {"nvlink_errors": {"replay": 3, "crc_flit": 0}},
            {"nvlink_errors": {"replay": 7, "crc_flit": 0}},
            "GPU 0: NVLink replay errors rose from 3 at 2026-11-29 10:00 UTC to 7.",
            "Reseat the bridge",
        ),
        (
            {"pcie_replays": 0},
            {"pcie_replays": 1200},
            "GPU 0: PCIe replays rose from 0 at 2026-11-29 10:00 UTC to 1,200.",
            "riser",
        ),
        (
            {"ecc": {"corrected": 0, "uncorrected": 0}},
            {"ecc": {"corrected": 0, "uncorrected": 2}},
            "GPU 0: uncorrected memory errors rose from 0 at 2026-11-29 10:00 UTC to 2.",
            "Restart the machine",
        ),
        (
            {"links_active": 18},
            {"links_active": 17},
            "GPU 0: 17 NVLinks are active, 18 were at 2026-11-29 10:00 UTC.",
            "Check the bridge",
        ),
    ],
)
def test_what_rose_is_said_with_what_it_means(
    before: dict[str, Any], now: dict[str, Any], sentence: str, step: str
) -> None:
    (found,) = rising(reading(now), reading(before))
    assert (found.sentence, found.severity, found.gpus) == (sentence, "problem", (0,))
    assert len(found.meaning) > 20
    assert step in found.next_step


def test_corrected_memory_errors_are_a_note() -> None:
    (found,) = rising(
        reading({"ecc": {"corrected": 9, "uncorrected": 0}}),
        reading({"ecc": {"corrected": 1, "uncorrected": 0}}),
    )
    assert found.severity == "note"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"pcie_replays": 5}, {"pcie_replays": 5}),
        ({"pcie_replays": None}, {"pcie_replays": 5}),  # nobody knows where it began
        ({"pcie_replays": 5}, {"pcie_replays": None}),
        ({"nvlink_errors": None}, {"nvlink_errors": {"replay": 4}}),
        ({}, {}),
        ({"links_active": 17}, {"links_active": 18}),
    ],
)
def test_what_did_not_rise_or_is_not_known_is_no_finding(
    before: dict[str, Any], now: dict[str, Any]
) -> None:
    assert rising(reading(now), reading(before)) == []


def test_a_restart_sets_counters_back_and_links_are_still_compared() -> None:
    before = reading({"pcie_replays": 1, "links_active": 18})
    now = reading({"pcie_replays": 9, "links_active": 0}, boot="boot-2")
    assert [one.code for one in rising(now, before)] == ["links_went"]


def test_cards_are_known_by_uuid_and_one_that_is_gone_is_named() -> None:
    before = reading({"pcie_replays": 0}, {"pcie_replays": 50})
    (moved,) = [Gpu(index=0, name="NVIDIA H200", uuid="GPU-1", facts={"pcie_replays": 50})]
    now = reading().model_copy(update={"gpus": [moved]})
    (gone,) = rising(now, before)
    assert gone.code == "gpu_gone"
    assert gone.sentence == ("NVIDIA H200 (GPU 0 at 2026-11-29 10:00 UTC) is not there any more.")
    assert "Xid 79" in gone.next_step


def test_a_reading_without_gpus_says_nothing_of_each_of_them() -> None:
    assert rising(reading().model_copy(update={"gpus": None}), reading({"pcie_replays": 1})) == []
    assert rising(reading({"pcie_replays": 1}), reading()) == []
