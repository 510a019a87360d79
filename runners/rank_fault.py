"""Faults on purpose, for tests: does a wrong, hanging or crashing link end as it should?

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


@dataclass(frozen=True)
class Fault:
    """``wrong-values``, ``hang:<bytes>`` or ``crash``; the last rank is the one that fails."""

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
        known = text in ("", "wrong-values", "crash") or (kind == "hang" and size.isdigit())
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
