"""The servers of one arm: started side by side, or found at a URL; one object for both."""

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.errors import RunnerUnavailable, ServerDidNotStart, ServerDied
from runners import vllm_log
from runners.events import Events
from runners.nvml import open_nvml, resolve
from runners.serving_client import Client
from runners.serving_metrics import kv_cache_tokens, scrape
from runners.spec import ServingSpec, SoakSpec
from runners.vllm import Server, free_port, interpreter, model_of
from runners.vllm_command import serve_command
from runners.vllm_flags import Flag, probe, vllm_version
from runners.vllm_processes import marked

ENDING_S = 10.0  # an engine that lost a process needs seconds until it is gone


@dataclass
class Fleet:
    """All replicas of the arm under test.

    Attributes:
        base_urls: One a replica.
        model: The name that the servers give their model.
        tokenizer: Folder or id for the client, where it differs from the name.
        version: vLLM's, where known.
        servers: What was started here; empty for servers found at a URL.
        uuids: GPUs in rank order.
        max_len: Tokens that the context holds, where known.
        ready_s: How long the slowest start took.
    """

    base_urls: list[str]
    model: str
    tokenizer: str | None = None
    version: str | None = None
    servers: list[Server] = field(default_factory=list)
    uuids: list[str] = field(default_factory=list)
    max_len: int | None = None
    ready_s: float | None = None

    def processes(self) -> set[int]:
        """Processes of all servers started here that live now."""
        return {pid for server in self.servers for pid in server.processes()}

    def check(self) -> None:
        """Raise when one of the servers has ended.

        Raises:
            ServerDied: With the server's own reason.
        """
        for server in self.servers:
            if server.returncode() is not None:
                raise server.died()

    def check_after_failures(self, limit_s: float = ENDING_S) -> None:
        """The same after requests that failed: a server that is ending is given time to end.

        Raises:
            ServerDied: With the server's own reason.
        """
        deadline = time.monotonic() + limit_s  # its sockets close a moment before it is gone
        while True:
            self.check()
            is_healthy = all(server.healthy() for server in self.servers)
            if is_healthy or time.monotonic() > deadline:
                return
            time.sleep(0.05)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Add the server's own reason to "it does not answer", where it has ended."""
        try:
            yield
        except ServerDied as error:
            deadline = time.monotonic() + 2.0  # its sockets close a moment before it is gone
            while time.monotonic() < deadline:
                for server in self.servers:
                    if server.returncode() is not None:
                        own = server.died()
                        raise ServerDied(
                            f"{error.sentence} {own.sentence}", own.next_step, own.detail
                        ) from None
                time.sleep(0.05)
            raise

    def tell(self, events: Events) -> None:
        """Hand the new lines of the servers' logs to the live view."""
        for server in self.servers:
            server.tell(events)

    def tail(self) -> str:
        """The last lines of the servers' logs."""
        return "\n".join(server.tail() for server in self.servers)

    def kv_tokens(self) -> int | None:
        """Tokens of context that fit in all caches together."""
        found = []
        for place, url in enumerate(self.base_urls):
            stated = kv_cache_tokens(scrape(url))
            if stated is None and place < len(self.servers):
                value = self.servers[place].facts().get("kv_cache_tokens")
                stated = int(value) if value is not None else None
            if stated is None:
                return None
            found.append(stated)
        return sum(found)

    def conditions(self) -> dict[str, Any]:
        """What must be equal for two starts to be the same arm: set-up, not luck."""
        if not self.servers:
            return {"vllm": self.version}
        facts = self.servers[0].facts()
        # those whose variables can be read: they have them from the ones that cannot
        workers = {_worker(pid) for server in self.servers for pid in marked(server.mark)}
        return {
            "vllm": self.version,
            "attention": facts.get("attention"),
            "custom_all_reduce": facts.get("custom_all_reduce"),
            **({"all_reduce": facts["all_reduce"]} if "all_reduce" in facts else {}),
            "variables": {
                name: value
                for name, value in self.servers[0].command.variables.items()
                if name != "CUDA_VISIBLE_DEVICES"
            },
            "workers": sorted(worker for worker in workers if worker is not None),
        }


@contextmanager
def fleet(spec: ServingSpec | SoakSpec, work: Path, events: Events) -> Iterator[Fleet]:
    """The arm's servers, ready; those started here are ended at the end.

    Raises:
        RunnerUnavailable: No vLLM, no GPU, or no server at the URL.
        ServerDidNotStart: With the server's own reason.
        InvalidSpec: A flag or the model's shape is not acceptable.
    """
    if spec.base_url is not None:
        yield _found(spec)
        return
    python = interpreter(spec)
    events.stage("prepare", message="asking vLLM for its version and flags")
    version = vllm_version(python)
    known = probe(python)
    model = model_of(spec, work)
    uuids, indices = _gpus(spec)
    for attempt in (1, 2):
        with ExitStack() as stack:
            servers = [
                stack.enter_context(_server(spec, model, python, known, indices, part, work))
                for part in range(spec.arm.replicas)
            ]
            events.stage("start", message=f"starting {len(servers)} server(s)")
            try:
                for server in servers:
                    server.wait_ready(spec.ready_time_limit_s, events)
            except ServerDidNotStart as error:
                reason = vllm_log.find_reason(error.detail)
                if attempt == 1 and reason is not None and reason.code == "port_taken":
                    events.log("The port was taken meanwhile: another one is tried.", "warning")
                    continue
                raise
            urls = [server.base_url for server in servers]
            yield Fleet(
                base_urls=urls,
                model=model,
                version=version,
                servers=servers,
                uuids=uuids,
                max_len=_max_len(urls[0]),
                ready_s=max(server.ready_s or 0.0 for server in servers),
            )
        for server in servers:
            if server.survivors:
                events.log(
                    f"Processes {server.survivors} survived SIGKILL: their GPUs cannot be trusted.",
                    "error",
                )
        return


def _server(
    spec: ServingSpec | SoakSpec,
    model: str,
    python: str,
    known: dict[str, Flag],
    indices: Sequence[int | str],
    part: int,
    work: Path,
) -> Server:
    port = free_port()
    tp = spec.arm.tp
    command = serve_command(
        spec,
        model,
        python=python,
        port=port,
        gpus=indices[part * tp : (part + 1) * tp],
        known=known,
    )
    label = "the server" if spec.arm.replicas == 1 else f"replica {part + 1}"
    return Server(command, port, work / f"server-{part}.log", label)


def _found(spec: ServingSpec | SoakSpec) -> Fleet:
    """A server that somebody else runs."""
    url = (spec.base_url or "").rstrip("/")
    client = Client(url, timeout_s=30.0)
    try:
        name = client.model()
        version = None
        with suppress(OSError, ValueError, KeyError, TypeError):
            status, text = client.get("/version")
            version = str(json.loads(text)["version"]) if status == 200 else None
    finally:
        client.close()
    tokenizer = spec.model if spec.model and spec.model != name else None
    return Fleet([url], name, tokenizer=tokenizer, version=version, max_len=_max_len(url))


def _gpus(spec: ServingSpec | SoakSpec) -> tuple[list[str], list[int | str]]:
    """UUIDs to store, and the names for CUDA_VISIBLE_DEVICES, both in rank order.

    Older vLLM reads numbers there only; with CUDA_DEVICE_ORDER=PCI_BUS_ID they are NVML's.
    """
    if spec.device != "cuda":
        return [], []
    with open_nvml() as nvml:
        gpus = nvml.gpus()
    uuids = resolve(gpus, spec.arm.gpus)
    index = {gpu.uuid: gpu.index for gpu in gpus}
    return uuids, [index.get(uuid, uuid) for uuid in uuids]


def _max_len(base_url: str) -> int | None:
    client = Client(base_url, timeout_s=30.0)
    try:
        _, text = client.get("/v1/models")
        return int(json.loads(text)["data"][0]["max_model_len"])
    except (OSError, ValueError, LookupError, TypeError, RunnerUnavailable):
        return None
    finally:
        client.close()


def _worker(pid: int) -> str | None:
    """Processor set and thread setting of one server process, as text."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        variables = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    cpus = re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
    threads = re.search(r"(?:^|\0)OMP_NUM_THREADS=(\d+)", variables)
    return f"cpus {cpus[1] if cpus else '?'}, OMP_NUM_THREADS {threads[1] if threads else 'unset'}"
