"""Known values in, exact values out: whether a collective or a copy moved the right bytes.

Patched drivers have returned wrong data fast, with every indicator green, so every element is
compared. Contributions are small whole numbers whose sum every dtype holds exactly; the pattern's
period is a prime, so data that lands a whole chunk off does not match itself.
"""

from functools import lru_cache

import torch

_PERIOD = 8191
# largest whole number up to which all of them are exact
_EXACT = {torch.bfloat16: 256, torch.float16: 2048, torch.float32: 2**24, torch.int32: 2**24}


@lru_cache(maxsize=128)
def contribution(rank: int, n_ranks: int, dtype: torch.dtype, salt: int = 0) -> torch.Tensor:
    """One period of what a rank puts in: shape (8191,), values 1 to 16 (fewer for many ranks).

    Args:
        rank: Whose contribution.
        n_ranks: How many are summed; keeps the sum exact.
        dtype: Of the message.
        salt: Another pattern for another buffer, so that mixed-up buffers show.
    """
    levels = max(1, min(16, _EXACT[dtype] // n_ranks))
    index = torch.arange(_PERIOD, dtype=torch.int64)
    # Knuth's multiplicative hash: no two neighbours alike, nothing periodic in powers of two
    spread = (index * 2654435761 + salt * 40503) % 2**32 // 2**16
    return (((spread + 5 * rank) % levels) + 1).to(dtype)


@lru_cache(maxsize=128)
def total(n_ranks: int, dtype: torch.dtype, salt: int = 0) -> torch.Tensor:
    """One period of the exact sum over all ranks, shape (8191,)."""
    parts = [contribution(rank, n_ranks, dtype, salt).float() for rank in range(n_ranks)]
    return torch.stack(parts).sum(dim=0).to(dtype)


def fill(buffer: torch.Tensor, period: torch.Tensor) -> None:
    """Repeat one period over a whole one-dimensional buffer."""
    whole = buffer.numel() // _PERIOD * _PERIOD
    period = period.to(buffer.device)
    if whole:
        buffer[:whole].view(-1, _PERIOD).copy_(period.expand(whole // _PERIOD, _PERIOD))
    buffer[whole:].copy_(period[: buffer.numel() - whole])


def count_wrong(buffer: torch.Tensor, period: torch.Tensor) -> int:
    """How many elements differ from the repeated period; NaN differs from everything."""
    whole = buffer.numel() // _PERIOD * _PERIOD
    period = period.to(buffer.device)
    wrong = 0
    if whole:
        wrong += int((buffer[:whole].view(-1, _PERIOD) != period).sum())
    return wrong + int((buffer[whole:] != period[: buffer.numel() - whole]).sum())
