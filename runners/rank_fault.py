"""Faults on purpose, for tests: does a wrong, hanging or crashing link, or full memory, end well?

`LINKWORTH_TEST_FAULT` is read here only, inside a rank, and every result that it touched carries
the warning `test_fault`.
"""

import os
import threading
from dataclasses import dataclass

import torch

from models.errors import InvalidSpec

VARIABLE = "LINKWORTH_TEST_FAULT"
_CRASH_CODE = 70
_NO_MEMORY = "no-memory"
_MORE_THAN_THERE_IS = 1 << 46  # 64 TiB


@dataclass(frozen=True)
class Fault:
    """``wrong-values``, ``hang:<bytes>``, ``crash`` or ``no-memory``; the last rank fails."""

    text: str = ""
    strikes_here: bool = False

    @classmethod
    def from_environment(cls, rank: int, n_ranks: int) -> "Fault":
        """What the environment asks for.

        Raises:
            InvalidSpec: It asks for a fault that does not exist.
        """
        text = os.environ.get(VARIABLE, "")
        kind, _, size = text.partition(":")
        known = text in ("", "wrong-values", "crash", _NO_MEMORY) or (
            kind == "hang" and size.isdigit()
        )
        if not known:
            raise InvalidSpec(f"{VARIABLE} asks for {text!r}, which is no fault.")
        return cls(text, rank == n_ranks - 1)

    def before(self, n_bytes: int) -> None:
        """Hang or crash ahead of a message of this size."""
        if not self.strikes_here:
            return
        if self.text == "crash":
            os._exit(_CRASH_CODE)
        if self.text == f"hang:{n_bytes}":
            threading.Event().wait()

    def spoil(self, received: torch.Tensor) -> None:
        """Change one element of what arrived."""
        if self.strikes_here and self.text == "wrong-values":
            received[received.numel() // 2] += 1

    def exhaust(self, device: torch.device) -> None:
        """Ask for more memory than the device has, between two rounds of a run."""
        if self.strikes_here and self.text == _NO_MEMORY:
            torch.empty(_MORE_THAN_THERE_IS, dtype=torch.uint8, device=device)
