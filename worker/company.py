"""Who else is on this machine's GPUs, asked while this worker has no job at work.

What then runs on a GPU belongs to somebody else: to another program, or to a job of another worker,
which the queue knows. Asking is quick, and yet done in a thread: a driver that hangs must not keep
the worker from giving signs of life.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from models.errors import LinkworthError
from runners.nvml import Nvml, open_nvml

log = logging.getLogger("linkworth.worker")

_ANSWER_LIMIT_S = 5.0


class Company:
    """The programs on the GPUs, asked for at most every so often.

    Args:
        host: Facts of this machine; without GPUs nothing is ever asked.
        opened: Gives NVML.
    """

    def __init__(self, host: Mapping[str, Any], opened: Callable[[], Nvml] = open_nvml) -> None:
        self._has_gpus = bool(host.get("gpus"))  # and a driver that tells
        self._opened = opened
        self._asking: threading.Thread | None = None
        self._seen: dict[str, int] | None = None
        self._asked_at: float | None = None

    def seen(self, *, max_age_s: float) -> dict[str, int] | None:
        """GPU UUID -> programs on it, no older than this; None where it cannot be known."""
        now = time.monotonic()
        if self._has_gpus and (self._asked_at is None or now - self._asked_at >= max_age_s):
            self._seen = self._ask()
            self._asked_at = now
        return self._seen

    def forget(self) -> None:
        """Ask anew: a job of ours was on the GPUs meanwhile."""
        self._seen = self._asked_at = None

    def _ask(self) -> dict[str, int] | None:
        if self._asking is not None and self._asking.is_alive():
            return None  # the driver still owes the last answer
        answer: list[dict[str, int]] = []
        self._asking = threading.Thread(
            target=self._look, args=(answer,), name="company", daemon=True
        )
        self._asking.start()
        self._asking.join(_ANSWER_LIMIT_S)
        return answer[0] if answer else None

    def _look(self, answer: list[dict[str, int]]) -> None:
        try:
            with self._opened() as nvml:
                rows = nvml.sample()
        except LinkworthError as error:
            log.warning("who is on the GPUs cannot be told: %s", error)
            return
        if rows and all(row.get("processes") is None for row in rows):
            # nvidia-smi, or a driver that keeps it to itself: asking again costs and brings nothing
            log.info("this driver does not tell which programs use its GPUs")
            self._has_gpus = False
            return
        answer.append({row["uuid"]: len(row["processes"]) for row in rows if row.get("processes")})
