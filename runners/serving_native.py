"""A closed loop of requests by Linkworth's own client: sustained load, and servers without vLLM.

Prompts are token numbers, so that their length does not depend on a tokenizer; a server that takes
text only gets as many short words instead.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from models.serving import Requests
from runners.serving_client import Client, Timed
from runners.spec import Workload

FIRST_TOKEN, LAST_TOKEN = 300, 1999  # inside every vocabulary, past the special tokens
_WORDS = ("ab", "to", "we", "is", "on", "go", "at", "by", "so", "up")


@dataclass
class Loop:
    """Requests of one workload, `concurrency` at a time, until told to stop.

    Attributes:
        base_url: The server.
        model: Its model's name.
        workload: Lengths and concurrency.
        seed: Of the prompts.
        limit: Requests to send; None until `stop` is set.
        request_limit_s: Longest wait for one piece of an answer.
        on_done: Called with each finished request, in the thread that sent it.
    """

    base_url: str
    model: str
    workload: Workload
    seed: int
    limit: int | None = None
    request_limit_s: float = 300.0
    on_done: Callable[[Timed], None] = lambda timed: None
    stop: threading.Event = field(default_factory=threading.Event)
    done: list[Timed] = field(default_factory=list)
    keep: bool = True

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._sent = 0
        self._threads = [
            threading.Thread(target=self._work, name=f"load-{slot}", daemon=True)
            for slot in range(self.workload.concurrency or self.limit or 1)
        ]

    def start(self) -> None:
        """Send the first requests."""
        for thread in self._threads:
            thread.start()

    def running(self) -> bool:
        """Whether a slot still works."""
        return any(thread.is_alive() for thread in self._threads)

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for all slots."""
        for thread in self._threads:
            thread.join(timeout_s)

    def _work(self) -> None:
        client = Client(self.base_url, self.request_limit_s)
        as_text = False
        try:
            while not self.stop.is_set():
                number = self._next()
                if number is None:
                    return
                timed = client.stream(self._body(number, as_text))
                if timed.error.startswith("4") and not as_text:
                    as_text = True  # no token numbers here: the same request once more as words
                    timed = client.stream(self._body(number, as_text))
                with self._lock:
                    if self.keep:
                        self.done.append(timed)
                self.on_done(timed)
                if timed.error:
                    self.stop.wait(0.2)  # a dead server must not be asked a thousand times a second
        finally:
            client.close()

    def _next(self) -> int | None:
        with self._lock:
            if self.limit is not None and self._sent >= self.limit:
                return None
            self._sent += 1
            return self._sent - 1

    def _body(self, number: int, as_text: bool) -> dict[str, Any]:
        rng = np.random.default_rng([self.seed, number])
        load = self.workload
        prompt: str | list[int]
        if as_text:
            prompt = " ".join(_WORDS[i] for i in rng.integers(0, len(_WORDS), load.input_len))
        else:
            prompt = rng.integers(FIRST_TOKEN, LAST_TOKEN + 1, load.input_len).tolist()
        return {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": load.output_len,
            "temperature": 0,
            "ignore_eos": True,
        }


def as_requests(rows: list[Timed]) -> Requests:
    """The successful ones as arrays, the others counted."""
    fine = [row for row in rows if not row.error and row.ttft_s is not None]
    return Requests(
        start_s=np.array([row.start_s for row in fine]),
        ttft_s=np.array([row.ttft_s for row in fine], dtype=np.float64),
        e2el_s=np.array([row.e2el_s for row in fine], dtype=np.float64),
        output_tokens=np.array([row.output_tokens for row in fine], dtype=np.float64),
        input_tokens=np.array([row.input_tokens or 0 for row in fine], dtype=np.float64),
        gaps_s=np.array(list(_gaps(fine)), dtype=np.float64),
        failed=len(rows) - len(fine),
    )


def _gaps(rows: list[Timed]) -> Iterator[float]:
    for row in rows:
        yield from row.gaps_s
