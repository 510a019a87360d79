"""Patterns whose sum is exact, and faults that they must show."""

import pytest
import torch

from runners.value_check import contribution, count_wrong, fill, total

DTYPES = [torch.bfloat16, torch.float16, torch.float32]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_ranks", [1, 2, 3, 8, 64])
def test_sums_are_exact_in_the_dtype_in_any_order(dtype, n_ranks):
    parts = [contribution(rank, n_ranks, dtype) for rank in range(n_ranks)]
    forward, backward = parts[0].clone(), parts[-1].clone()
    for part in parts[1:]:
        forward += part
    for part in parts[-2::-1]:
        backward += part
    wide = sum(part.double() for part in parts)
    assert torch.equal(forward, backward)
    assert torch.equal(forward.double(), wide)
    assert torch.equal(total(n_ranks, dtype).double(), wide)
    assert all(float(part.min()) >= 1 for part in parts)


def test_every_fault_shows():
    n = 20_000
    expected = total(2, torch.bfloat16)
    buffer = torch.empty(n, dtype=torch.bfloat16)
    fill(buffer, expected)
    assert count_wrong(buffer, expected) == 0
    buffer[12_345] += 1
    assert count_wrong(buffer, expected) == 1
    buffer[n - 1] = float("nan")
    assert count_wrong(buffer, expected) == 2


def test_missing_doubled_shifted_and_foreign_contributions_show():
    n = 1 << 16
    buffer = torch.empty(n, dtype=torch.bfloat16)
    expected = total(2, torch.bfloat16)
    own, other = (contribution(rank, 2, torch.bfloat16) for rank in (0, 1))
    for period in (own, other, own + own, total(2, torch.bfloat16, salt=1)):
        fill(buffer, period)
        assert count_wrong(buffer, expected) > n // 4
    fill(buffer, expected)
    for shift in (4096, 1 << 15):  # a chunk off
        assert count_wrong(torch.roll(buffer, shift), expected) > n // 4


@pytest.mark.parametrize("n", [1, 8190, 8191, 8192, 3 * 8191])
def test_lengths_around_the_period(n):
    buffer = torch.zeros(n, dtype=torch.float32)
    fill(buffer, total(2, torch.float32))
    assert count_wrong(buffer, total(2, torch.float32)) == 0
    assert count_wrong(torch.zeros(n), total(2, torch.float32)) == n
