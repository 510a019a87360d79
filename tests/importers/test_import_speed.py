"""1,000 files of 2 KB to 2 MB come in within a minute of one core's time.

Processor time and not the clock on the wall: what else runs on the machine is no fault of the
import, which reads and stores in one thread.
"""

import json
import math
import random
import time
from pathlib import Path
from typing import Any

import pytest

from db import runs
from db.engine import connect
from db.migrations import upgrade
from importers import files

FIXTURES = Path(__file__).parent / "fixtures"
N_FILES = 1_000
SMALLEST, LARGEST = 2_000, 2_000_000
LIMIT_S = 60.0


def detailed_run(size: int, number: int, rng: random.Random) -> bytes:
    """A serving result with per-request lists, about as large as asked."""
    record: dict[str, Any] = json.loads((FIXTURES / "vllm/0.8/good.json").read_text())
    gaps_each = 64
    requests = max(1, size // (gaps_each * 22))
    itls = [[round(rng.uniform(0.01, 0.02), 18) for _ in range(gaps_each)] for _ in range(requests)]
    ttfts = [round(rng.uniform(0.05, 0.2), 18) for _ in range(requests)]
    record |= {
        "completed": requests,
        "num_prompts": requests,
        "total_output_tokens": requests * (gaps_each + 1),
        "duration": 20.0 + number,
        "ttfts": ttfts,
        "itls": itls,
        "output_lens": [gaps_each + 1] * requests,
        "input_lens": [512] * requests,
        "errors": [""] * requests,
    }
    return json.dumps(record).encode()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_thousand_files_in_a_minute(tmp_path: Path) -> None:
    rng = random.Random(5)
    low, high = math.log(SMALLEST), math.log(LARGEST)
    sizes = [math.exp(low + (high - low) * (k + 0.5) / N_FILES) for k in range(N_FILES)]
    rng.shuffle(sizes)
    several = [
        files.File(f"run-{k}.json", detailed_run(int(size), k, rng)) for k, size in enumerate(sizes)
    ]
    engine = connect(f"sqlite:///{tmp_path / 'speed.sqlite'}")
    upgrade(engine)
    told: list[int] = []
    started = time.process_time()
    readings = files.read_each(several, lambda done, name: told.append(done))
    for reading in readings:
        name, data = reading.raw
        runs.store_all(engine, reading.results, raw=data, raw_name=name)
    took = time.process_time() - started
    assert runs.count(engine) == N_FILES
    assert told == list(range(N_FILES + 1)), "the progress bar moves with every file"
    assert took < LIMIT_S, f"{took:.0f} s of processor time"
    engine.dispose()
