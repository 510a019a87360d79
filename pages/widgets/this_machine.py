"""The machine that this app's worker runs on: its GPUs, who uses them, what is set aside."""

import socket
from collections.abc import Mapping
from typing import Any

from db import hosts, jobs
from models.machine import hidden_name
from pages.widgets import store

_A_WEEK_S = 7 * 86_400.0


def host_id() -> str | None:
    """How the database knows it; None before the first worker's first sign of life.

    Never the host of an imported or shipped result, however new: nothing can be started there.
    """
    engine = store.engine()
    heard = jobs.alive_workers(engine)
    if not heard:
        heard = sorted(
            jobs.alive_workers(engine, stale_s=_A_WEEK_S), key=lambda row: row["heartbeat_at"]
        )[-1:]
    if not heard:
        return None
    here = hidden_name(socket.gethostname())
    # several hosts may share a database: then the one that the app itself runs on
    return here if any(row["host"] == here for row in heard) else str(heard[0]["host"])


def may_be(host: Mapping[str, Any]) -> bool:
    """Whether a result's host may be this machine: false where it is known to be another one."""
    named = hosts.host_id(host)
    return named is None or named == (host_id() or hidden_name(socket.gethostname()))


def facts() -> dict[str, Any]:
    """What is known of it; empty before its worker has read it."""
    here = host_id()
    return {} if here is None else hosts.facts(store.engine(), here)


def gpus() -> list[dict[str, Any]]:
    """Its GPUs as its worker last read them."""
    return list(facts().get("gpus") or [])


def gpu_words(name: object, known: list[dict[str, Any]]) -> str:
    """A GPU as people know it: its index, where this machine has it."""
    for gpu in known:
        if str(name) in (str(gpu.get("uuid")), str(gpu.get("index"))):
            return f"GPU {gpu['index']}"
    return str(name) if str(name).startswith(("GPU-", "MIG-")) else f"GPU {name}"
