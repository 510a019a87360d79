"""`python -m runners.allreduce` as the worker starts it, on two CPU ranks."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from models.result import json_schema, parse

ROOT = Path(__file__).resolve().parents[2]
SPEC = {
    **{"kind": "allreduce", "device": "cpu", "ranks": 2, "sizes_bytes": [1024, 3072]},
    **{"modes": ["eager"], "rounds": 3, "samples_per_round": 5, "time_limit_s": 100},
}

# what a bare GPU machine has: torch, numpy, pydantic and what these themselves need
ONLY = """
import sys
ALLOWED = {
    *sys.stdlib_module_names, "models", "runners", "importers",
    "torch", "functorch", "torchgen", "sympy", "mpmath", "networkx", "jinja2", "markupsafe",
    "filelock", "fsspec", "typing_extensions", "triton", "nvidia", "cuda", "setuptools", "numpy",
    "pydantic", "pydantic_core", "annotated_types", "typing_inspection", "sitecustomize",
}
class Blocker:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in ALLOWED and not top.startswith("_"):
            raise ModuleNotFoundError(f"{name} is not on this machine", name=name)
sys.meta_path.insert(0, Blocker())
"""


class Run:
    """The program in a folder, with its files."""

    def __init__(self, folder: Path, spec: dict, cwd: Path = ROOT, **variables: str) -> None:
        self.result_path, self.events_path = folder / "result.json", folder / "events.jsonl"
        spec_path = folder / "spec.json"
        spec_path.write_text(json.dumps(spec))
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "runners.allreduce", "--spec", str(spec_path)),
                *("--events", str(self.events_path), "--result", str(self.result_path)),
            ],
            cwd=cwd,
            env={**os.environ, **variables},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end(self, timeout_s: float = 120) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, said

    @property
    def events(self) -> list[dict]:
        return [json.loads(line) for line in self.events_path.read_text().splitlines()]

    @property
    def result(self) -> dict:
        return json.loads(self.result_path.read_text())

    def await_stage(self, name: str, timeout_s: float = 60) -> None:
        """Until the events file has named a stage; it is a file, so look at it as it grows."""
        with self.process_end() as ended:
            for _ in range(int(timeout_s / 0.05)):
                if self.events_path.exists() and name in self.events_path.read_text():
                    return
                assert not select.select([ended], [], [], 0.05)[0], "the program ended before that"
        raise AssertionError(f"no stage {name!r} within {timeout_s} s")

    def process_end(self):
        return os.fdopen(os.pidfd_open(self.process.pid))

    def members(self) -> list[int]:
        """Living processes of its group."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    state, _, group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
                except OSError:
                    continue
                if int(group) == self.process.pid and state not in "ZX":
                    found.append(int(entry.name))
        return found


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A sweep by hand from a copy of the three folders, where nothing else is installed."""
    folder = tmp_path_factory.mktemp("bare")
    for name in ("runners", "importers", "models"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "sitecustomize.py").write_text(ONLY)
    run = Run(folder, SPEC, cwd=folder, PYTHONPATH=str(folder))
    code, said = run.end()
    assert code == 0, said
    return run


def test_a_bare_machine_measures(bare):
    jsonschema.validate(bare.result, json_schema())
    result = parse(bare.result)
    assert result.validity in ("valid", "suspect")
    assert result.origin == "measured"
    medians = result.find("allreduce_latency", "median")
    assert [(m.round, m.dims["bytes"]) for m in medians] == [
        (index, size) for index in range(3) for size in (1024, 3072)
    ]
    assert {m.definition for m in medians} == {"linkworth:allreduce-eager-gloo:1"}
    assert medians[0].dims == {
        **{"bytes": 1024, "mode": "eager", "link": None, "ranks": 2, "dtype": "bfloat16"},
        "placement": "in_place",
    }
    assert all(m.value and m.value > 0 and m.n == 5 for m in medians)
    assert [m.value for m in result.find("wrong_values")] == [0] * 6
    assert [len(row.values) for row in result.samples] == [5] * 6
    assert len(result.find("matmul_rate")) == len(result.find("copy_bandwidth")) == 1
    assert len(result.environment["ranks"]) == 2
    assert result.environment["ranks"][0]["conditions"]["n_cpus"] >= 1
    assert result.environment["variables"]["GLOO_SOCKET_IFNAME"] == "lo"
    assert result.host["boot_id"]


def test_events_tell_how_far_it_is(bare):
    stages = [event for event in bare.events if event["type"] == "stage"]
    fractions = [event["fraction"] for event in stages]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0.0
    assert fractions[-1] == 1.0
    assert "round 2 of 3, eager, 3 KB" in [event["stage"] for event in stages]
    assert all(event["eta_s"] is not None and event["eta_s"] >= 0 for event in stages)
    rounds = [event["data"] for event in bare.events if event["type"] == "round"]
    assert [row["round"] for row in rounds] == [0, 1, 2]
    assert set(rounds[0]) == {"round", "eager 1 KB (us)", "eager 3 KB (us)"}


def test_the_blocker_blocks(bare):
    """Or the test above would show nothing."""
    program = "import torch, numpy, pydantic\nimport pandas"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=bare.result_path.parent,
        env={**os.environ, "PYTHONPATH": str(bare.result_path.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "pandas is not on this machine" in ended.stderr


def test_wrong_values_make_the_run_invalid(tmp_path):
    run = Run(tmp_path, {**SPEC, "rounds": 1}, LINKWORTH_TEST_FAULT="wrong-values")
    code, said = run.end()
    assert code == 3
    assert "wrong values" in said
    result = parse(run.result)
    assert result.validity == "invalid"
    assert "wrong values" in result.reasons[0]
    assert {m.value for m in result.find("wrong_values")} == {2}  # before and after timing
    assert "test_fault" in [notice.code for notice in result.warnings]


def test_a_hang_is_a_result_that_says_where(tmp_path):
    spec = {**SPEC, "size_time_limit_s": 3, "ranks": 2}
    run = Run(tmp_path, spec, LINKWORTH_TEST_FAULT="hang:3072")
    code, said = run.end()
    assert code == 4
    assert len(said.strip().splitlines()) == 1
    assert "3072 bytes" in said
    assert run.members() == []
    result = parse(run.result)
    assert result.validity == "invalid"
    assert any("hung at an all-reduce of 3072 bytes" in reason for reason in result.reasons)
    assert [m.dims["bytes"] for m in result.find("allreduce_latency", "median")] == [1024]
    assert "test_fault" in [notice.code for notice in result.warnings]


@pytest.mark.slow
def test_a_crashed_rank_is_named(tmp_path):
    run = Run(tmp_path, SPEC, LINKWORTH_TEST_FAULT="crash")
    code, said = run.end()
    assert code == 3
    assert "Rank 1 ended with exit code 70" in said
    assert parse(run.result).validity == "invalid"


@pytest.mark.parametrize("way", ["cancelled", pytest.param("killed", marks=pytest.mark.slow)])
def test_nothing_is_left_behind(tmp_path, way):
    run = Run(tmp_path, {**SPEC, "size_time_limit_s": 90}, LINKWORTH_TEST_FAULT="hang:1024")
    run.await_stage("round 1 of 3, eager, 1 KB")
    ranks = [os.pidfd_open(pid) for pid in run.members() if pid != run.process.pid]
    assert len(ranks) == 2
    run.process.send_signal(signal.SIGTERM if way == "cancelled" else signal.SIGKILL)
    code, said = run.end()
    for rank in ranks:
        assert select.select([rank], [], [], 20)[0], "a rank outlived its run"
        os.close(rank)
    assert code == (130 if way == "cancelled" else -signal.SIGKILL)
    assert not run.result_path.exists()
    assert ("cancelled" in said) == (way == "cancelled")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sizes_bytes": [1023]}, "bfloat16"),
        ({"sizes_bytes": [-2]}, "outside 1 B"),
        ({"dtype": "int3"}, "dtype"),
        ({"device": "cuda", "ranks": None}, "GPUs"),
        ({"modes": ["graph"]}, "CUDA graphs"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_spec_that_cannot_be_is_one_clear_line(tmp_path, changes, said):
    run = Run(tmp_path, SPEC | changes)
    code, line = run.end()
    assert code == 2
    assert len(line.strip().splitlines()) == 1
    assert said in line
    assert not run.result_path.exists()
