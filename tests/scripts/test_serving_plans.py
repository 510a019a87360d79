"""The arms that serving studies of two, four and eight GPUs measure, as the program plans them."""

import subprocess
import sys
from pathlib import Path

import pytest

from models.layouts import alike, questions
from runners.spec import parse_spec

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from serving_plans import PLANS  # noqa: E402


@pytest.mark.parametrize("plan", sorted(PLANS))
def test_every_arm_is_a_spec_and_shares_a_server_that_is_planned(plan):
    names = [name for name, *_ in PLANS[plan]]
    assert len(set(names)) == len(names)
    for _, arm, flags, part_of in PLANS[plan]:
        spec = parse_spec(
            {
                "kind": "serving",
                "device": "cpu" if plan == "cpu" else "cuda",
                "model": "a-model",
                "arm": {**arm, "engine_args": flags},
                "workloads": [{"concurrency": 1, "num_prompts": 10}],
            }
        )
        if plan != "cpu":
            assert len(spec.arm.gpus) == spec.arm.tp * spec.arm.replicas
        assert part_of is None or part_of in names


@pytest.mark.parametrize(
    ("plan", "names"),
    [
        ("two-gpu", "tp1 2xtp1 tp2-link-on tp2-no-custom-all-reduce tp2-link-off"),
        ("four-gpu", "tp1 4xtp1 tp2 2xtp2 tp4 tp4-no-custom-all-reduce tp4-link-off"),
        (
            "eight-gpu",
            "tp1 8xtp1 tp2 4xtp2 tp4 2xtp4 tp8 tp8-no-custom-all-reduce tp8-link-off",
        ),
    ],
)
def test_replicas_stand_against_one_server_over_all_gpus(plan, names):
    assert [name for name, *_ in PLANS[plan]] == names.split()


@pytest.mark.parametrize(("plan", "n"), [("two-gpu", 2), ("four-gpu", 4), ("eight-gpu", 8)])
def test_every_plan_splits_the_links_gain_and_asks_of_every_layout_of_its_gpus(plan, n):
    layouts = alike({name: {"arm": arm} for name, arm, *_ in PLANS[plan]})
    asked = questions(layouts)
    assert {q.code for q in asked} == {"larger", "replicas", "both", "link", "kernel"}
    told = {name for q in asked for name in (q.reference, q.other)}
    assert told == set(layouts)  # no arm is measured for nothing
    whole = [q.reference for q in asked if q.code == "replicas" and layouts[q.other].tp == n]
    assert [layouts[name].n_gpus for name in whole] == [n] * (n.bit_length() - 1)


def test_a_dry_run_shows_each_arms_command():
    shape = ROOT / "data" / "models" / "llama-3.1-70b.json"
    command = [sys.executable, "scripts/serving_study.py", "four-gpu", "--dry-run"]
    command += ["--out", "x.json", "--models", str(shape), "--only", "^(2xtp2|tp4)$"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    shown = [line for line in ended.stdout.splitlines() if "server(s)" in line]
    assert [line.split(":")[0] for line in shown] == ["2xtp2 (2 server(s))", "tp4 (1 server(s))"]
    assert "--tensor-parallel-size 4" in shown[1]
