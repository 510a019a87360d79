"""What is called out about a host: NVLinks, PCIe slots, two sources that disagree."""

import pytest

from models.host_findings import (
    CARDS,
    disagreements,
    known_card,
    nvlink_findings,
    pcie_findings,
    pcie_gb_s,
)


@pytest.mark.parametrize(
    ("name", "links"),
    [
        ("Tesla V100-SXM2-32GB", 6),
        ("Tesla V100-PCIE-16GB", 0),
        ("NVIDIA A100-SXM4-80GB", 12),
        ("NVIDIA A100 80GB PCIe", 12),
        ("NVIDIA A30", 4),
        ("NVIDIA A40", 4),
        ("NVIDIA RTX A6000", 4),
        ("NVIDIA GeForce RTX 3090", 4),
        ("NVIDIA GeForce RTX 3090 Ti", 4),
        ("NVIDIA GeForce RTX 2080 Ti", 2),
        ("NVIDIA GeForce RTX 2080", 1),
        ("NVIDIA H100 80GB HBM3", 18),
        ("NVIDIA H100 PCIe", 12),
        ("NVIDIA H200", 18),
        ("NVIDIA H800", 8),
        ("NVIDIA H20", 18),
        ("NVIDIA B200", 18),
        ("NVIDIA GB200", 18),
        ("NVIDIA GeForce RTX 4090", 0),
        ("NVIDIA GeForce RTX 5090", 0),
        ("NVIDIA L40S", 0),
        ("NVIDIA RTX 6000 Ada Generation", 0),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 0),
    ],
)
def test_known_cards_have_their_links(name: str, links: int) -> None:
    card = known_card(name)
    assert card is not None
    assert card.links == links


@pytest.mark.parametrize("name", ["NVIDIA Graphics Device", "", "AMD Instinct MI300X", "RTX 6090"])
def test_an_unknown_card_is_unknown(name: str) -> None:
    assert known_card(name) is None


def test_every_row_of_the_card_table_names_its_source() -> None:
    assert all(card.source for card in CARDS)


def test_inactive_links_are_counted_where_their_number_is_known() -> None:
    (some,) = nvlink_findings(3, "Tesla V100-SXM2-32GB", {"links_total": 6, "links_active": 4})
    assert (some.code, some.severity, some.gpus) == ("inactive_links", "problem", (3,))
    assert some.sentence == "GPU 3: 2 of 6 NVLinks are inactive."
    (every,) = nvlink_findings(2, "NVIDIA RTX A6000", {"links_total": None, "links_active": 0})
    assert every.sentence == "GPU 2: all NVLinks are inactive."
    assert "bridge" in every.next_step


@pytest.mark.parametrize(
    "facts",
    [
        {"links_total": 4, "links_active": 4},
        {"links_total": None, "links_active": None},
        {},
    ],
)
def test_whole_or_unknown_links_are_no_finding(facts: dict) -> None:
    assert nvlink_findings(0, "NVIDIA RTX A6000", facts) == []


def test_a_card_without_nvlink_has_nothing_inactive() -> None:
    assert (
        nvlink_findings(0, "NVIDIA GeForce RTX 4090", {"links_total": None, "links_active": 0})
        == []
    )


def test_fewer_links_than_the_card_has() -> None:
    (found,) = nvlink_findings(0, "NVIDIA H100 80GB HBM3", {"links_total": 12, "links_active": 12})
    assert found.code == "fewer_links"
    assert "12 NVLinks, a NVIDIA H100 80GB HBM3 has 18" in found.sentence


def test_error_counters_above_zero_are_named() -> None:
    facts = {"nvlink_errors": {"replay": 3, "crc_flit": 0, "recovery": None}}
    (found,) = nvlink_findings(1, "NVIDIA H200", facts)
    assert found.code == "nvlink_errors"
    assert "(replay 3)" in found.sentence


def test_a_narrow_slot_is_a_problem_and_a_low_generation_only_under_load() -> None:
    facts = {"pcie_width": 8, "pcie_width_max": 16, "pcie_gen": 1, "pcie_gen_max": 4}
    idle = pcie_findings(0, facts)
    assert [(one.code, one.severity) for one in idle] == [
        ("pcie_width", "problem"),
        ("pcie_idle", "note"),
    ]
    assert "1/2 of the rate" in idle[0].meaning
    loaded = pcie_findings(0, facts, under_load=True)
    assert [(one.code, one.severity) for one in loaded][1] == ("pcie_generation", "problem")
    whole = {"pcie_width": 16, "pcie_width_max": 16, "pcie_gen": 4, "pcie_gen_max": 4}
    assert pcie_findings(0, whole) == []
    assert pcie_findings(0, {"pcie_width": None, "pcie_width_max": 16}) == []


def test_pcie_ceilings() -> None:
    # 16 lanes of generation 4: 16 GT/s x 16 x 128/130 / 8 = 31.5 GB/s
    assert pcie_gb_s(4, 16) == pytest.approx(31.5, rel=1e-3)
    assert pcie_gb_s(3, 8) == pytest.approx(7.88, rel=1e-3)
    assert pcie_gb_s(9, 16) is None


def test_disagreements_name_the_pair_and_both_sources() -> None:
    ours = [["X", "NV4", None], ["NV4", "X", "SYS"], [None, "SYS", "X"]]
    theirs = [["X", "PHB", "PIX"], ["PHB", "X", "SOC"], ["PIX", "SOC", "X"]]
    (found,) = disagreements(ours, theirs, "NVML", "nvidia-smi topo -m")
    assert found.sentence == "GPUs 0 and 1: NVML says NV4, nvidia-smi topo -m says PHB."
    assert found.gpus == (0, 1)
    assert disagreements(ours, ours, "a", "b") == []
    (counts,) = disagreements(ours, [["X"]], "NVML", "nvidia-smi topo -m")
    assert "sees 3 GPUs, nvidia-smi topo -m sees 1" in counts.sentence
