"""The comparison script: reading, pairing, verdicts, on invented numbers in nccl-tests' layout."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "compare_nccl_tests.py"

PERF = (Path(__file__).parent / "fixtures" / "all_reduce_perf.txt").read_text()


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("compare_nccl_tests", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


def test_the_in_place_columns_are_read(script):
    assert script.in_place_rows(PERF) == [
        {"bytes": 1024, "us": 6.6, "wrong": 0},
        {"bytes": 2048, "us": 7.0, "wrong": 3},
        {"bytes": 67108864, "us": 259.0, "wrong": None},
    ]


def steps(ours, theirs, mode="graph", n_bytes=1024):
    made = []
    for tool, values in (("linkworth", ours), ("nccl-tests", theirs)):
        made += [
            {"tool": tool, "link": "on", "rows": [{"mode": mode, "bytes": n_bytes, "us": value}]}
            for value in values
        ]
    return made


@pytest.mark.parametrize(
    ("ours", "theirs", "mode", "n_bytes", "ok"),
    [
        ([6.5, 6.4, 9.9], [6.6, 6.5, 6.7], "graph", 1024, True),  # medians: one outlier is nothing
        ([7.1, 7.2, 7.0], [6.6, 6.5, 6.7], "graph", 1024, False),
        ([31.0], [22.0], "eager", 1024, None),  # the CPU's share: no bar
        ([104.9], [100.0], "eager", 4 * 2**20, True),
        ([106.0], [100.0], "eager", 4 * 2**20, False),
        ([20.0], [], "exposed", 1024, None),
    ],
)
def test_verdicts(script, ours, theirs, mode, n_bytes, ok):
    (row,) = script.table(steps(ours, theirs, mode, n_bytes))
    assert row["ok"] is ok
    verdict = {True: "within 5 %", False: "MISSES 5 %", None: "no bar here"}[ok]
    assert verdict in script.render([row])


def test_the_plan_alternates_who_begins(script, tmp_path, capsys):
    arguments = ["--all-reduce-perf", "/opt/perf", "--out", str(tmp_path), "--dry-run"]
    assert script.main([*arguments, "--links", "off", "--modes", "graph,exposed"]) == 0
    plan = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    tools = [step["tool"] for step in plan]
    assert tools == [
        *("linkworth", "nccl-tests"),
        *("nccl-tests", "linkworth"),
        *("linkworth", "nccl-tests"),
    ]
    assert [step["modes"] for step in plan if step["tool"] == "linkworth"] == [
        ["graph", "exposed"],
        ["graph"],
        ["graph"],
    ]
    perf = plan[1]["command"]
    assert perf[0] == "/opt/perf"
    assert " ".join(perf[1:]) == ("-b 1024 -e 67108864 -f 2 -d bfloat16 -g 2 -n 56 -w 20 -G 20")


def test_both_sides_run_and_are_reported(script, tmp_path, monkeypatch):
    """A stand-in for nccl-tests, and our side replaced: what is left is the script."""
    perf = tmp_path / "all_reduce_perf"
    output = tmp_path / "output.txt"
    output.write_text(PERF.replace("       3\n", "       0\n"))
    perf.write_text(
        f'#!/bin/sh\necho "$LD_PRELOAD $NCCL_P2P_DISABLE $NCCL_NVLS_ENABLE"\ncat {output}\n'
    )
    perf.chmod(0o755)
    monkeypatch.delenv("NCCL_NVLS_ENABLE", raising=False)
    real = script._run

    def run(options, step, library):
        if step["tool"] == "nccl-tests":
            return real(options, step, library)
        rows = [{"mode": "graph", "bytes": n, "us": us} for n, us in ((1024, 6.5), (2048, 7.1))]
        return {"status": "ok", "rows": rows}

    monkeypatch.setattr(script, "_run", run)
    out = tmp_path / "out"
    code = script.main(
        [
            *("--all-reduce-perf", str(perf), "--out", str(out), "--preload", "libc.so.6"),
            *("--links", "off", "--modes", "graph", "--gpus", "GPU-aaaa,GPU-bbbb"),
        ]
    )
    report = json.loads((out / "comparison.json").read_text())
    assert code == 0
    assert [step["status"] for step in report["steps"]] == ["ok"] * 6
    assert [(row["bytes"], row["ok"]) for row in report["table"]] == [
        *((1024, True), (2048, True), (67108864, None))
    ]
    assert report["table"][0]["nccl_tests_all"] == [6.6] * 3
    raw = (out / "0-off-nccl-tests-graph.txt").read_text()
    assert raw.splitlines()[0] == "libc.so.6 1 0"  # link off, multicast off
