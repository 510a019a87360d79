"""Layout and stopping rules of a sweep: pure arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners import allreduce_plan as plan
from runners.spec import AllReduceSpec

MB = 2**20


def test_rounds_then_modes_then_sizes():
    spec = AllReduceSpec(
        device="cuda", gpus=[0, 1], sizes_bytes=[1024, 3072], modes=["graph", "eager"], rounds=2
    )
    units = plan.units(spec)
    assert len(units) == 8
    assert [(u.round, u.mode, u.n_bytes) for u in units[:3]] == [
        (0, "graph", 1024),
        (0, "graph", 3072),
        (0, "eager", 1024),
    ]
    assert [u.is_first for u in units[:4]] == [True, False, True, False]
    assert units[5].name(2) == "round 2 of 2, graph, 3 KB"


def test_buffers_rotate_through_the_arena_of_nccl_tests():
    # maxbytes / size of nccl-tests with -e 64M, and never more than there are calls
    assert plan.buffer_count(64 * MB, 57) == 1
    assert plan.buffer_count(32 * MB, 57) == 2
    assert plan.buffer_count(2 * MB, 57) == 32
    assert plan.buffer_count(1024, 57) == 57
    assert plan.buffer_count(1024 * MB, 57) == 1
    assert plan.stride_bytes(3072) == 3072
    assert plan.stride_bytes(2) == 512
    assert plan.arena_bytes([1024, 64 * MB], 57) == 64 * MB
    assert plan.arena_bytes([1024], 57) == 57 * 1024


@given(st.integers(1, 2**33), st.integers(1, 1000))
def test_buffers_always_fit_their_arena(n_bytes, calls):
    count = plan.buffer_count(n_bytes, calls)
    assert 1 <= count <= calls
    assert plan.stride_bytes(n_bytes) >= n_bytes
    assert plan.stride_bytes(n_bytes) * count <= max(plan.ARENA_BYTES, plan.stride_bytes(n_bytes))


def test_slow_calls_shorten_the_graph_and_fast_ones_do_not():
    assert plan.calls_in_graph(57, 6.5) == 57
    assert plan.calls_in_graph(57, 300.0) == 57
    assert plan.calls_in_graph(57, 5_000.0) == 4
    assert plan.calls_in_graph(57, 1e6) == 1


def test_a_batch_is_never_shorter_than_its_minimum():
    assert plan.repeats_in_batch(370.0) == 14  # 57 calls of 6.5 us: 5.2 ms
    assert plan.repeats_in_batch(20_000.0) == 1
    assert plan.repeats_in_batch(0.0) == 10_000


@given(st.floats(0.51, 1e6))
def test_batches_reach_five_milliseconds(one_us):
    repeats = plan.repeats_in_batch(one_us)
    assert repeats * one_us >= plan.BATCH_US * (1 - 1e-9)
    assert repeats == 1 or (repeats - 1) * one_us < plan.BATCH_US


@pytest.mark.parametrize(
    ("elapsed_s", "replays", "ratio", "done"),
    [
        (0.9, 5000, 1.0, False),  # a second has to pass
        (1.1, 100, 1.0, False),  # and 200 replays
        (1.1, 200, 1.0, True),
        (1.1, 200, None, True),  # no clock to be read
        (1.1, 200, 0.5, False),  # the clock is not up
        (5.0, 3, 0.5, True),  # slow replays: five seconds are enough
    ],
)
def test_warm_up_ends_when_the_clock_is_up(elapsed_s, replays, ratio, done):
    assert plan.FIRST_WARM_UP.is_done(elapsed_s, replays, ratio) is done


def test_only_a_visible_clock_shortens_later_warm_ups():
    first = plan.warm_up_for("cuda", is_first=True, has_clock=True)
    later = plan.warm_up_for("cuda", is_first=False, has_clock=True)
    blind = plan.warm_up_for("cuda", is_first=False, has_clock=False)
    assert first.min_s == blind.min_s == 1.0
    assert later.min_s < 1.0
    assert later.min_replays == 200


def test_progress_follows_what_was_measured():
    now = [0.0]
    progress = plan.Progress([1.0, 1.0, 2.0], clock=lambda: now[0])
    assert progress.fraction == 0.0
    assert progress.eta_s == 4.0  # as expected
    progress.begin()
    now[0] = 3.0
    progress.advance()
    assert progress.fraction == 0.25
    assert progress.eta_s == 9.0  # three times as slow as expected
    now[0] = 12.0
    progress.advance()
    progress.advance()
    assert progress.fraction == 1.0
    assert progress.eta_s == 0.0


def test_sizes_in_words():
    words = [plan.size_words(n) for n in (512, 3072, 64 * MB, 1536, 2**30)]
    assert words == ["512 B", "3 KB", "64 MB", "1.5 KB", "1 GB"]
