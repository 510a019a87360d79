"""Cards that are not alike: which one is the slowest, which one the smallest."""

from typing import Any

import pytest

from models.unlike_cards import unlike


def card(index: int, name: str = "RTX 3090", gb: float = 24.0) -> dict[str, Any]:
    return {"index": index, "uuid": f"GPU-{index}", "name": name, "memory_bytes": int(gb * 1e9)}


def test_like_cards_are_nothing_to_speak_of() -> None:
    assert unlike([card(0), card(1)], {}) is None
    assert unlike([card(0), card(1)], {"GPU-0": 850.0, "GPU-1": 830.0}) is None
    assert unlike([card(0)], {"GPU-0": 850.0}) is None
    assert unlike([], {}) is None


def test_the_slowest_and_the_smallest_are_named() -> None:
    gpus = [card(0), card(1, "RTX 3060", 12.0), card(2)]
    said = str(unlike(gpus, {"GPU-0": 850.0, "GPU-1": 330.0, "GPU-2": 845.0}))
    assert said == (
        "The GPUs differ: 1x RTX 3060 and 2x RTX 3090. GPU 1 (RTX 3060) is the slowest and sets "
        "the pace: its memory copies at 330 GB/s, the fastest at 850 GB/s. GPU 1 (RTX 3060) has "
        "the least memory (12 GB) and sets what fits."
    )


def test_before_a_run_nobody_knows_which_is_the_slowest() -> None:
    said = str(unlike([card(0), card(1, "RTX 4090")], {"GPU-0": 850.0}))
    assert "which one it is shows after a run on each" in said
    assert "least memory" not in said


@pytest.mark.parametrize("slow", ["GPU-0", "GPU-1"])
def test_one_of_two_like_cards_may_be_slow(slow: str) -> None:
    rates = {"GPU-0": 850.0, "GPU-1": 850.0, slow: 700.0}
    said = str(unlike([card(0), card(1)], rates))
    assert said.startswith(f"GPU {slow[-1]} (RTX 3090) is the slowest")


def test_unknown_memory_is_not_the_smallest() -> None:
    gpus = [card(0), {**card(1), "memory_bytes": None}]
    assert unlike(gpus, {}) is None
