"""Choosing public rows for a card, and the distance from them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from models.reference import band_at, device_of, nearest, ratio_to, references

PATH = Path(__file__).parents[2] / "data" / "reference" / "allreduce_reference.csv"


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.read_csv(PATH, keep_default_na=False)


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("NVIDIA H200", "NVIDIA H200"),
        ("B200", "NVIDIA B200"),
        ("NVIDIA GB200", "NVIDIA GB200"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
    ],
)
def test_cards_are_found_by_name(table, name, device):
    assert device_of(table, name) == device


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce RTX 3090",
        "RTX 5090",
        "NVIDIA RTX A6000",
        "NVIDIA A100-PCIE-80GB",
        "NVIDIA H100 PCIe",
        "AMD Instinct MI300X",
        "NVIDIA H200 NVL",
        "",
    ],
)
def test_cards_without_rows_have_no_reference(table, name):
    assert device_of(table, name) is None
    assert references(table, name, 2) == []


def test_h200_has_one_reference_a_library_and_launch(table):
    found = references(table, "NVIDIA H200", 2)
    assert [(r.family, r.launch) for r in found] == [
        ("nccl", "eager"),
        ("vllm", "graph"),
        ("vllm", "eager"),
        ("sglang", "graph"),
        ("sglang", "eager"),
        ("trtllm", "graph"),
    ]
    nccl = nearest(found, "graph")
    assert nccl.family == "nccl"
    assert "loosely" in nccl.caution
    low, high = band_at(nccl, 4096)
    assert 6 < low <= high < 7  # two tables read 6.50 and 6.69 us
    assert nearest(found, "eager").family == "vllm"
    assert nearest(found, "unheard of") is None
    assert nearest([], "graph") is None


def test_copies_under_another_version_label_count_once(table):
    # L40S, 8 GPUs: vllm/0.14.0 and vllm/0.22.0 hold the same numbers
    found = {(r.family, r.launch): r for r in references(table, "NVIDIA L40S", 8)}
    assert found["vllm", "graph"].tables == 1
    assert "NCCL" in found["vllm", "graph"].caution


def test_the_known_bad_point_is_left_out(table):
    found = {(r.family, r.launch): r for r in references(table, "NVIDIA A100-SXM4-80GB", 8)}
    curve = found["vllm", "graph"].curve
    assert 4096 not in curve.message_bytes
    assert curve.latency_us[curve.message_bytes <= 16384].max() < 7


def test_distance_is_a_ratio_and_nothing_is_extrapolated(table):
    reference = nearest(references(table, "NVIDIA H200", 2), "graph")
    at = float(np.interp(4096, reference.curve.message_bytes, reference.curve.latency_us))
    assert ratio_to(reference, 4096, 2 * at) == pytest.approx(2)
    assert ratio_to(reference, 2, 5.0) is None
    assert band_at(reference, 2**40) is None


def test_unknown_rank_counts_have_no_reference(table):
    assert references(table, "NVIDIA H200", 3) == []
