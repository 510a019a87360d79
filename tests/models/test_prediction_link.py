"""Latencies of all-reduces: reference rows in graph mode only, sweeps, described links."""

import pandas as pd
import pytest
from prediction_cases import DATA, flat_link

from models.curve import make_curve
from models.errors import InvalidSpec, NotPredicted
from models.prediction_link import CurveLink, described_link, reference_link

TABLE = pd.read_csv(DATA / "reference" / "allreduce_reference.csv", keep_default_na=False)


def test_the_engines_own_kernel_in_graph_mode():
    link = reference_link(TABLE, "NVIDIA H200", "vllm")
    assert set(link.curves) == {2, 4, 8}
    rows = TABLE[
        (TABLE["system"] == "h200_sxm")
        & (TABLE["mode"] == "vllm_graph")
        & (TABLE["num_gpus"] == 2)
        & (TABLE["bytes"] == 16_384)
    ]
    assert link.us(2, 16_384) == pytest.approx(rows["latency_us"].median(), rel=0.05)
    assert link.origin == "published"


def test_eager_rows_are_never_used():
    only_eager = TABLE[TABLE["mode"].isin(["vllm_eager", "sglang_eager"])]
    assert reference_link(only_eager, "NVIDIA H200", "vllm").curves == {}
    # nccl-tests launches one by one, so its rows are no engine's
    assert reference_link(TABLE[TABLE["mode"] == ""], "NVIDIA H200", "vllm").curves == {}


@pytest.mark.parametrize("card", ["NVIDIA GeForce RTX 3090", "NVIDIA H100 PCIe", "AMD MI300X"])
def test_cards_without_rows(card):
    link = reference_link(TABLE, card, "vllm")
    assert link.curves == {}
    with pytest.raises(NotPredicted, match="2 GPUs"):
        link.us(2, 4096)


def test_an_unknown_engine():
    with pytest.raises(InvalidSpec):
        reference_link(TABLE, "NVIDIA H200", "other")


def test_outside_the_sizes():
    link = CurveLink({2: make_curve([1024, 4096], [5.0, 8.0])}, "short", "measured")
    assert link.us(2, 10) == 5.0
    assert link.us(2, 2048) == pytest.approx((5 * 8) ** 0.5)
    assert link.us(2, 40_960) == pytest.approx(80.0)


def test_a_described_link_is_a_line():
    link = described_link(10.0, 50.0)
    assert link.us(2, 65_536) == pytest.approx(10 + 65_536 / 50e3)
    assert link.us(8, 65_536) == pytest.approx(10 + 65_536 * 2 * 7 / (8 * 50e3))
    assert link.origin == "assumed"


@pytest.mark.parametrize("values", [(0.0, 10.0), (10.0, 0.0), (-1.0, 10.0)])
def test_a_described_link_must_be_positive(values):
    with pytest.raises(InvalidSpec):
        described_link(*values)


def test_another_number_of_gpus_is_not_guessed():
    with pytest.raises(NotPredicted, match="sweep over 4 GPUs"):
        flat_link(5.0, sizes=(2,)).us(4, 1024)
