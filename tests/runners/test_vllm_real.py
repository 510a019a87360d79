"""A real vLLM on the CPU: the tool's numbers, its own reasons, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from serving_support import events

from importers import recognise
from models.errors import ServerDidNotStart
from runners.evaluation_serving import ArmPlan, serving_jobs
from runners.serving import run
from runners.spec import ServingSpec, parse_spec

PYTHON = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "python"
TINY = json.loads(
    (Path(__file__).parents[2] / "data" / "models" / "tiny-test-shape.json").read_text()
)
LOADS = [
    {"concurrency": 1, "num_prompts": 6, "input_len": 48, "output_len": 24},
    {"concurrency": 4, "num_prompts": 16, "input_len": 48, "output_len": 24},
]
COMMON = {
    "device": "cpu",
    "model_config_json": TINY,
    "model_name": "tiny",
    "load_format": "dummy",
    "vllm_python": str(PYTHON),
}

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHON.exists(), reason="no .venv-vllm: type `make vllm`"),
]


def spec(arm: dict[str, Any], loads: list[dict[str, Any]], **changes: Any) -> ServingSpec:
    (job,) = serving_jobs([ArmPlan("arm", arm)], loads, rounds=1, **{**COMMON, **changes})
    found = parse_spec(job["spec"])
    assert isinstance(found, ServingSpec)
    return found


def test_tp_2_is_measured_and_its_file_imports_to_the_same_measurements(tmp_path: Path) -> None:
    asked = spec(
        {"tp": 2, "cpu_cores": "0|1", "engine_args": {"max-model-len": 256}},
        [*LOADS, {"scenario": "abnormal", "num_prompts": 4}],
    )
    files = tmp_path / "kept"
    result = run(asked, events(tmp_path), files=files)

    assert result.validity == "valid", result.reasons
    assert result.tool.name == "vllm"
    assert result.environment["server"]["vllm"].startswith("0.")
    assert "outputs are not checkable" in {n.code: n.text for n in result.warnings}["dummy_weights"]
    (bad,) = result.find("failed", scenario="abnormal")
    assert bad.value == 0, [n.text for n in result.warnings]
    # every figure recomputed from the requests agrees with the tool's own within half a percent
    apart = [n.text for n in result.warnings if n.code == "recomputed_differs"]
    assert apart == []
    for cap in (1, 4):
        (tpot,) = result.find("tpot", "median", concurrency=cap)
        assert 0 < (tpot.value or 0) < 1000
        for phase in ("queue", "prefill", "decode", "client"):
            assert result.find("phase_time", phase=phase, concurrency=cap)

    # the tool's own file, dropped onto the import page, says the same
    (name,) = [item.name for item in result.artifacts if "-c4-" in item.name]
    (imported,) = recognise.read((files / name).read_bytes(), name).results
    ours = {
        (row.metric, row.statistic): (row.value, row.unit, row.n)
        for row in result.find("ttft", concurrency=4)
        + result.find("tpot", concurrency=4)
        + result.find("itl", concurrency=4)
        + result.find("output_throughput", concurrency=4)
        + result.find("completed", concurrency=4)
    }
    theirs = {
        (row.metric, row.statistic): (row.value, row.unit, row.n)
        for row in imported.measurements
        if (row.metric, row.statistic) in ours
    }
    assert ours == theirs
    mine = {s.metric: s.values for s in result.samples if s.dims.get("concurrency") == 4}
    for sample in imported.samples:
        assert sample.values == mine[sample.metric]
    assert servers_left() == []


def test_its_own_reason_for_a_context_that_is_too_long(tmp_path: Path) -> None:
    asked = spec({"engine_args": {"max-model-len": 99_999}}, LOADS[:1])
    with pytest.raises(ServerDidNotStart, match="99,999 tokens was asked for and the model allows"):
        run(asked, events(tmp_path))


@pytest.mark.slow
def test_its_own_reason_for_too_little_cache(tmp_path: Path) -> None:
    # 4 KiB of cache a token: a context of 524,288 tokens needs 2 GiB, and 1 GiB is given
    long = {**TINY, "num_key_value_heads": 8, "max_position_embeddings": 524_288}
    asked = spec({"engine_args": {"max-model-len": 524_288}}, LOADS[:1], model_config_json=long)
    with pytest.raises(
        ServerDidNotStart, match=r"524,288 tokens needs 2\.0 GiB of KV cache and 1\.0 GiB"
    ):
        run(asked, events(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "sign"),
    [("starting", "Initializing a V1 LLM engine"), ("measuring", "1 of 400 requests")],
)
def test_cancel_leaves_nothing(tmp_path: Path, moment: str, sign: str) -> None:
    load = {"concurrency": 1, "num_prompts": 400, "input_len": 48, "output_len": 24}
    asked = spec({"tp": 2, "cpu_cores": "0|1", "engine_args": {"max-model-len": 256}}, [load])
    (tmp_path / "spec.json").write_text(asked.model_dump_json())
    words = [sys.executable, "-m", "runners.serving", "--spec", str(tmp_path / "spec.json")]
    words += ["--events", "-", "--result", str(tmp_path / "result.json")]
    program = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert program.stderr is not None
        for line in program.stderr:
            if sign in line:
                break
        assert servers_left(program.pid), moment
        program.send_signal(signal.SIGTERM)
        _, rest = program.communicate(timeout=120)
    finally:
        program.terminate()
        program.wait(120)
    assert program.returncode == 130, rest
    assert "cancelled" in rest
    assert servers_left(program.pid) == []
    assert not (tmp_path / "result.json").exists()


def servers_left(group: int | None = None) -> list[str]:
    """Processes of vLLM in a process group, by default this one: a server stays in its runner's.

    An engine that gives itself a title writes over its environment, so no variable tells.
    """
    mine = os.getpgid(0) if group is None else group
    return [
        f"{entry.name} {_command(entry)[:150].decode(errors='replace')}"
        for entry in Path("/proc").glob("[0-9]*")
        if _group(entry) == mine
        and any(sign in _command(entry) for sign in (b"VLLM::", b"vllm.entrypoints"))
    ]


def _group(entry: Path) -> int | None:
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[2])


def _command(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""
