"""One workload on all replicas of an arm: the clients loaded, let go together, waited for."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from models.errors import RunTimedOut
from runners.serving_bench import BenchClient, read_detail
from runners.serving_host import Fleet
from runners.serving_metrics import Counters, between, scrape
from runners.serving_native import Loop, as_requests
from runners.serving_outcome import Outcome
from runners.serving_watch import Watch
from runners.spec import Workload
from runners.vllm_command import bench_command

SEED_STEP = 7919  # replicas of one round must not ask the same questions
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Setting:
    """What the teams of one start share."""

    servers: Fleet
    work: Path
    watch: Watch
    python: str | None
    limit_s: float


def share_of(workload: Workload, replicas: int, part: int) -> Workload | None:
    """What one replica's client does of a workload: its slots, and requests in proportion.

    Returns:
        None for a replica that gets no slot, because fewer are asked for than there are replicas.
    """
    if replicas == 1:
        return workload
    cap = workload.concurrency
    slots = None if cap is None else cap // replicas + (part < cap % replicas)
    if slots == 0:
        return None
    weight = 1 / replicas if cap is None else (slots or 0) / cap
    return workload.model_copy(
        update={"num_prompts": max(1, round(workload.num_prompts * weight)), "concurrency": slots}
    )


class Team:
    """The clients of one workload; use it in a ``with``, which ends them whatever happens.

    Args:
        workload: What all replicas together are asked to do.
        seed: Of the prompts.
        setting: Servers, folder and watch.
        tag: Start of the result files' names.
    """

    def __init__(self, workload: Workload, seed: int, setting: Setting, tag: str) -> None:
        self.workload = workload
        self._setting = setting
        self._stack = ExitStack()
        self._before: dict[str, Counters | None] = {}
        self._urls: list[str] = []
        self._clients: list[BenchClient] = []
        urls = setting.servers.base_urls
        for part, url in enumerate(urls):
            share = share_of(workload, len(urls), part)
            if share is not None:
                self._urls.append(url)
                self._clients.append(self._client(share, part, url, seed, tag))

    def __enter__(self) -> Self:
        for client in self._clients:
            self._stack.enter_context(client)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def prepare(self) -> None:
        """Wait until every client stands before its first request."""
        for client in self._clients:
            client.prepare(self._setting.servers.check)

    def work(self, number: int, progress: Progress, watch: Watch | None = None) -> Outcome:
        """Let the clients go together and wait for their results.

        Args:
            number: Of the round.
            progress: Told of requests done and total.
            watch: Samples meanwhile; by default that of the setting.

        Raises:
            RunTimedOut: They took too long.
            ServerDied: A server ended meanwhile.
        """
        servers, watch = self._setting.servers, watch or self._setting.watch
        watch.clients |= {client.pid for client in self._clients}
        began = time.time()
        offset = began - time.perf_counter()
        for client in self._clients:
            client.go()
        done = [0] * len(self._clients)

        def told(part: int) -> Progress:
            def tell(count: int, total: int) -> None:
                done[part] = count
                progress(sum(done), self.workload.num_prompts)

            return tell

        data = [
            client.finish(servers.check, self._setting.limit_s, told(part))
            for part, client in enumerate(self._clients)
        ]
        ended = time.time()
        watch.now()
        details = [read_detail(item) for item in data]
        if any(detail.get("failed") or not detail.get("completed") for detail in details):
            servers.check_after_failures()  # of a server that is gone this is no measurement
        servers.check()
        phases = [between(self._before.get(url), scrape(url)) for url in self._urls]
        return Outcome(
            workload=self.workload,
            round=number,
            details=details,
            began=began,
            ended=ended,
            clock_offset_s=offset,
            phases=phases,
            telemetry=watch.rows,
            raw=data,
            slipped=any(client.slipped for client in self._clients),
        )

    def _client(self, share: Workload, part: int, url: str, seed: int, tag: str) -> BenchClient:
        servers = self._setting.servers
        path = self._setting.work / f"{tag}-{part}.json"
        command = bench_command(
            share,
            python=self._setting.python or "",
            base_url=url,
            model=servers.model,
            tokenizer=servers.tokenizer,
            seed=seed + part * SEED_STEP,
            result=path,
        )

        def at_main() -> None:
            self._before[url] = scrape(url)

        return BenchClient(command, path, share.num_prompts, at_main)


def work_natively(
    workload: Workload, seed: int, setting: Setting, number: int, progress: Progress
) -> Outcome:
    """One workload by Linkworth's own client, for a server elsewhere and no vLLM here.

    Raises:
        RunTimedOut: It took too long.
    """
    url = setting.servers.base_urls[0]
    warm = Loop(url, setting.servers.model, workload, seed + SEED_STEP, limit=workload.warmups)
    loop = Loop(url, setting.servers.model, workload, seed, limit=workload.num_prompts)
    deadline = time.monotonic() + setting.limit_s
    before: Counters | None = None
    began = offset = 0.0
    for part in (warm, loop):
        before = scrape(url)
        began = time.time()
        offset = began - time.perf_counter()
        part.start()
        while part.running():
            part.join(0.1)
            progress(len(loop.done), workload.num_prompts)
            if time.monotonic() > deadline:
                part.stop.set()
                raise RunTimedOut(
                    f"The workload did not end within {setting.limit_s:g} s: {len(loop.done)} of "
                    f"{workload.num_prompts} requests were answered.",
                    "Look at the server, or give the workload more time.",
                )
    ended = time.time()
    setting.watch.now()
    return Outcome(
        workload=workload,
        round=number,
        details=[],
        requests=[as_requests(loop.done)],
        began=began,
        ended=ended,
        clock_offset_s=offset,
        phases=[between(before, scrape(url))],
        telemetry=setting.watch.rows,
    )
