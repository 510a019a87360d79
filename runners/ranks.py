"""One process a rank: started, watched, and ended whatever happens.

The parent never loads torch. It starts `python -m runners.rank_program` for each rank with two
pipes: down go the task and the port to meet at, up come messages, the result or the error. A rank
ends when its parent does; the parent ends all ranks when one fails, hangs or time is up.
"""

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from models.errors import InvalidSpec, LinkworthError
from runners.crew import Crew, OnMessage
from runners.nvml import open_nvml, resolve

_ROOT = Path(__file__).resolve().parents[1]
_SURVIVED = "Even SIGKILL did not end"


def run_ranks(
    target: str,
    payload: dict[str, Any],
    *,
    n_ranks: int,
    device: str,
    gpus: Sequence[int | str] = (),
    link: str | None = None,
    time_limit_s: float,
    on_message: OnMessage | None = None,
    variables: dict[str, str] | None = None,
    python: str | None = None,
) -> list[dict[str, Any]]:
    """Run a function once in each of ``n_ranks`` processes that can talk to each other.

    Args:
        target: ``module:function``; called as ``function(rank, payload)`` with a
            ``runners.rank_program.Rank`` and returns plain JSON values.
        payload: Plain JSON values for the function.
        n_ranks: How many processes.
        device: ``cpu`` (gloo) or ``cuda`` (NCCL, one GPU a rank in the order of ``gpus``).
        gpus: GPUs by index in PCI bus order or by UUID.
        link: ``off`` keeps NCCL from using peer-to-peer; ``on`` makes sure that it may.
        time_limit_s: For all of it; ``Rank.begin`` sets tighter ones inside.
        on_message: Called with the rank and what its function handed to ``Rank.say``.
        variables: More environment variables for the ranks; they win.
        python: Another interpreter for the ranks; by default this one.

    Returns:
        What each rank's function returned, in rank order.

    Raises:
        RunTimedOut: A limit passed; the sentence says where the ranks stood.
        RankFailed: A rank ended with an error, or without a word.
        LinkworthError: Of the kind that a rank raised, with its rank in the sentence.
    """
    with tempfile.TemporaryDirectory(prefix="linkworth-ranks-") as folder:
        crew = Crew(Path(folder), n_ranks, on_message)
        task = {
            "target": target,
            "payload": payload,
            "n_ranks": n_ranks,
            "device": device,
            "link": link,
            "time_limit_s": time_limit_s,
        }
        environment = rank_environment(device, gpus, link) | (variables or {})
        try:
            crew.start(task, environment, python or sys.executable)
            return crew.watch(time.monotonic() + time_limit_s, time_limit_s)
        except LinkworthError as error:
            error.detail = f"{error.detail}\n{crew.logs()}".strip()
            survivors = crew.end()
            if survivors:
                error.sentence += f" {_survived(survivors)}"
            raise
        finally:
            crew.end()


def rank_environment(device: str, gpus: Sequence[int | str], link: str | None) -> dict[str, str]:
    """The environment that every rank of one run shares, built on this process's own."""
    environment = dict(os.environ)
    path = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{_ROOT}{os.pathsep}{path}" if path else str(_ROOT)
    # all ranks are on this host: no name lookup, and nothing listens on the network
    environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if device == "cuda":
        environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        environment["CUDA_VISIBLE_DEVICES"] = visible_devices(gpus)
        # NVLink multicast can leave a shared host's GPUs unusable: only a person switches it on
        environment.setdefault("NCCL_NVLS_ENABLE", "0")
        environment.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
        if link == "off":
            environment["NCCL_P2P_DISABLE"] = "1"
        elif link == "on":
            for name in ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"):
                environment.pop(name, None)
    return environment


def visible_devices(gpus: Sequence[int | str]) -> str:
    """The value of CUDA_VISIBLE_DEVICES that names these GPUs in this order, by UUID if possible.

    Raises:
        InvalidSpec: A GPU is not there, or is named twice.
    """
    if all(isinstance(name, str) for name in gpus):
        return ",".join(str(name) for name in gpus)
    try:
        with open_nvml() as nvml:
            return ",".join(resolve(nvml.gpus(), gpus))
    except InvalidSpec:
        raise
    except LinkworthError:
        # CUDA understands indices in PCI bus order itself, but not a mixture
        if all(isinstance(name, int) for name in gpus):
            return ",".join(str(name) for name in gpus)
        raise


def is_stuck(error: LinkworthError) -> bool:
    """Whether a process of the failed run survived even SIGKILL: an incident of that machine."""
    return _SURVIVED in error.sentence


def _survived(ranks: Sequence[tuple[int, int]]) -> str:
    named = ", ".join(f"rank {rank} (process {pid})" for rank, pid in ranks)
    return f"{_SURVIVED} {named}: its GPU needs a look before the next run."
