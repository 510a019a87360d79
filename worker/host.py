"""What the worker knows of its machine, read by a program so that the worker stays light."""

import json
import logging
import platform
import socket
import subprocess
from pathlib import Path
from typing import Any

from models.machine import hidden_name
from settings import ROOT

log = logging.getLogger("linkworth.worker")
_TIME_LIMIT_S = 60.0


def read_host(python: Path) -> dict[str, Any]:
    """Facts of this host from ``runners.environment``; its name and boot id at least."""
    try:
        done = subprocess.run(
            [str(python), "-m", "runners.environment"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_TIME_LIMIT_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        facts: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        log.warning("the host could not be read: %r", error)
        return {
            "hostname": own_name(),
            "kernel": platform.release(),
            "boot_id": _boot_id(),
            "gpus": [],
        }
    return facts


def own_name() -> str:
    """How the database knows this host."""
    return hidden_name(socket.gethostname())


def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
