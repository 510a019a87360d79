"""Import time of the process that draws pages: at its start, and with every page loaded.

To see where it goes: ``python -X importtime -c "import app" 2>&1 | sort -t'|' -k2 -n | tail``.
"""

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
START = "import app; from pages import navigation; navigation()"
EVERYTHING = f"{START}; from pages import PAGES, loading; [loading.module_of(s) for s in PAGES]"


def children_cpu_s() -> float:
    """Processor time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize(
    ("code", "limit_s"), [(START, 1.0), (EVERYTHING, 3.0)], ids=["start", "every-page"]
)
def test_import(code: str, limit_s: float, benchmark: Any) -> None:
    used = []

    def load() -> None:
        before = children_cpu_s()
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, check=True, stderr=subprocess.DEVNULL
        )
        used.append(children_cpu_s() - before)

    benchmark.pedantic(load, rounds=5, warmup_rounds=1)
    benchmark.extra_info["cpu_s"] = min(used)
    assert min(used) < limit_s
