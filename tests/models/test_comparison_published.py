"""The published studies' arithmetic: to the printed digit, or both figures side by side."""

import json
from pathlib import Path

import pytest

from importers.published import read
from models.architecture import calls_per_step, message_bytes, read_config
from models.published_checks import Check, checks, decimals

DATA = Path(__file__).parents[2] / "data"


def study(name: str) -> list[Check]:
    return checks(read((DATA / "published" / f"{name}.json").read_bytes()).results)


def pick(rows: list[Check], arm: str, what: str) -> Check:
    found = [row for row in rows if row.arm == arm and row.what.startswith(what)]
    assert len(found) == 1, (arm, what, [(r.arm, r.what) for r in rows])
    return found[0]


def test_calls_and_message_of_the_1_5b_model():
    arch = read_config(json.loads((DATA / "models" / "qwen2.5-1.5b.json").read_text()))
    assert calls_per_step(arch) == 56
    assert calls_per_step(arch, vocab_parallel_embedding=True) == 57
    assert message_bytes(arch, tokens=1) == 3072


@pytest.mark.parametrize(
    ("arm", "clock", "printed"),
    [
        ("5090-pcie TP=2", "wall", 1.29),
        ("b200-nvlink TP=2", "wall", 0.79),
        ("5090-pcie TP=2", "replay", 1.24),
        ("b200-nvlink TP=2", "replay", 0.77),
    ],
)
def test_speedups_agree_to_the_printed_digit(arm, clock, printed):
    rows = [r for r in study("tp-on-5090-and-b200") if r.what.endswith(clock)]
    row = pick(rows, arm, "speedup")
    assert row.printed == printed
    assert row.agrees


@pytest.mark.parametrize(
    ("arm", "what", "printed", "ours"),
    [
        ("5090-pcie", "all-reduces of a step", 1.59, 1.57),
        ("b200-nvlink", "all-reduces of a step", 0.57, 0.56),
        ("5090-pcie TP=2", "tok/s", 470, 469),
        ("b200-nvlink TP=2", "tok/s", 480, 481),
    ],
)
def test_where_the_author_rounds_otherwise_both_stand_side_by_side(arm, what, printed, ours):
    row = pick(study("tp-on-5090-and-b200"), arm, what)
    assert row.printed == printed
    assert round(row.ours, row.digits) == ours
    assert row.agrees is False


@pytest.mark.parametrize(("arm", "printed"), [("5090-pcie TP=1", 365), ("b200-nvlink TP=1", 610)])
def test_tokens_a_second_at_one_gpu_agree(arm, printed):
    row = pick(study("tp-on-5090-and-b200"), arm, "tok/s")
    assert row.printed == printed
    assert row.agrees


@pytest.mark.parametrize(
    ("arm", "what", "ours"),
    [
        ("5090-pcie", "transfer's share", 0.21),
        ("b200-nvlink", "transfer's share", 0.03),
        ("5090-pcie TP=1", "CPU's part", 0.12),
        ("5090-pcie TP=2", "CPU's part", 0.01),
        ("b200-nvlink TP=1", "CPU's part", 0.18),
        ("b200-nvlink TP=2", "CPU's part", 0.19),
    ],
)
def test_shares_that_the_author_does_not_print(arm, what, ours):
    row = pick(study("tp-on-5090-and-b200"), arm, what)
    assert row.printed is None
    assert row.agrees is None
    assert round(row.ours, 2) == ours


def test_every_change_of_the_3090_study_agrees_but_one():
    rows = study("nvlink-on-4x3090")
    assert len(rows) == 8
    apart = [row for row in rows if not row.agrees]
    assert [(row.arm, row.printed, round(row.ours, 1)) for row in apart] == [
        ("A, concurrency 1", 25.4, 25.5)
    ]


def test_scaling_of_the_third_study_is_held_against_its_ranges():
    rows = study("two-gpu-interconnect-evaluation")
    through = pick(rows, "link off, concurrency 4", "output_throughput")
    assert through.printed_range == (160, 170)
    assert through.ours == pytest.approx(159.5, abs=0.05)
    tpot = pick(rows, "link off, concurrency 4", "tpot")
    assert tpot.agrees  # 23.7 lies in 15 to 25
    assert len(rows) == 2  # gains with the link on have no absolute values to compute from


@pytest.mark.parametrize(("value", "digits"), [(1.59, 2), (470.0, 0), (25.4, 1), (-45, 0)])
def test_decimals_of_a_printed_figure(value, digits):
    assert decimals(value) == digits
