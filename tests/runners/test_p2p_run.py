"""`python -m runners.p2p` on two CPU ranks: the rehearsal, and faults that it must find."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from models.result import json_schema, parse

ROOT = Path(__file__).resolve().parents[2]
SPEC = {
    **{"kind": "p2p", "device": "cpu", "ranks": 2, "sizes_bytes": [4096, 65536]},
    **{"bandwidth_bytes": 1 << 20, "time_limit_s": 150},
}


def run(folder, fault="", **changes):
    files = {name: folder / f"{name}.json" for name in ("spec", "events", "result")}
    files["spec"].write_text(json.dumps(SPEC | changes))
    arguments = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    ended = subprocess.run(
        [sys.executable, "-m", "runners.p2p", *arguments],
        cwd=ROOT,
        env={**os.environ, "LINKWORTH_TEST_FAULT": fault},
        capture_output=True,
        text=True,
        timeout=160,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    data = json.loads(files["result"].read_text())
    jsonschema.validate(data, json_schema())
    return parse(data)


def test_a_rehearsal_passes_every_tier(tmp_path):
    result = run(tmp_path, engine_under_load=True, load_s=1)
    (pair,) = result.environment["pairs"]
    assert [one["state"] for one in pair["tiers"]] == ["passed"] * 4
    assert pair["load"]["checked"] > 0
    assert result.validity == "valid"
    assert [notice.code for notice in result.warnings] == ["rehearsal"]
    assert len(result.find("wrong_values")) == 16  # 2 directions, 2 sizes, 4 patterns
    assert {m.dims["method"] for m in result.find("p2p_bandwidth")} == {"gloo"}
    assert {(m.dims["src"], m.dims["dst"]) for m in result.find("p2p_latency")} == {(0, 1), (1, 0)}


@pytest.mark.slow
def test_a_hang_is_found(tmp_path):
    result = run(tmp_path, "hang:65536", tier_time_limit_s=2)
    (pair,) = result.environment["pairs"]
    assert (pair["code"], pair["tier"]) == ("hangs", "grant")
    assert "a copy of 65536 bytes" in pair["sentence"]
    assert [notice.code for notice in result.warnings] == ["test_fault", "rehearsal", "peer_hangs"]


@pytest.mark.slow
def test_wrong_data_are_found(tmp_path):
    result = run(tmp_path, "wrong-values")
    (pair,) = result.environment["pairs"]
    assert (pair["code"], pair["tier"]) == ("wrong", "grant")
    assert sum(m.value for m in result.find("wrong_values")) == 8  # where the last rank receives
    assert "test_fault" in [notice.code for notice in result.warnings]
    assert result.find("p2p_bandwidth") == []
