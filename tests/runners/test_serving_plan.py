"""Plans, presets, pasted lines and commands."""

from pathlib import Path

import pytest

from models.errors import InvalidSpec
from models.layouts import alike, questions
from runners.evaluation_serving import (
    ArmPlan,
    fill_jobs,
    seconds_of,
    serving_jobs,
    soak_jobs,
    summary,
)
from runners.serving_paste import allowed_model, commands, parse_serve_line
from runners.serving_presets import PRESETS, arms_for, load
from runners.serving_team import share_of
from runners.spec import ServingSpec, Workload, parse_spec
from runners.vllm_flags import parse_help

HELP = """options:
  --max-num-seqs MAX_NUM_SEQS
  --enforce-eager, --no-enforce-eager
  --enable-prefix-caching, --no-enable-prefix-caching
  --dtype {auto,bfloat16,float16}
  --cudagraph-capture-sizes SIZES [SIZES ...]
  --speculative-config SPECULATIVE_CONFIG, -sc SPECULATIVE_CONFIG
  --max-model-len MAX_MODEL_LEN
  --trust-remote-code, --no-trust-remote-code
"""
KNOWN = parse_help(HELP)
COMMON = {"device": "cuda", "model": "own/model", "vllm_python": "/opt/vllm/bin/python"}


def plan(rounds: int = 4, starts: int = 2) -> list[dict[str, object]]:
    arms = arms_for(["link-off", "link-on"], [0, 1])
    return serving_jobs(arms, [load(1), load(4)], rounds=rounds, starts=starts, **COMMON)


def test_arms_are_interleaved_over_the_starts() -> None:
    jobs = plan()
    assert [job["evaluation"]["arm"] for job in jobs] == [
        "link-off",
        "link-on",
        "link-on",
        "link-off",
    ]
    assert [(j["spec"]["round"], j["spec"]["rounds"]) for j in jobs] == [
        (0, 2),
        (0, 2),
        (2, 2),
        (2, 2),
    ]
    assert len({job["evaluation"]["id"] for job in jobs}) == 1
    assert [job["order"] for job in jobs] == [0, 1, 2, 3]


def test_jobs_of_one_arm_differ_in_nothing_but_their_rounds() -> None:
    one, two = (j["spec"] for j in plan() if j["evaluation"]["arm"] == "link-on")
    assert {name for name in one if one[name] != two[name]} == {"round"}


def test_rounds_are_shared_evenly_so_that_every_start_is_alike() -> None:
    assert {job["spec"]["rounds"] for job in plan(rounds=3, starts=2)} == {2}


def test_the_link_arms_differ_in_link_and_kernel_as_they_must() -> None:
    jobs = plan()
    off, on = jobs[0]["spec"]["arm"], jobs[1]["spec"]["arm"]
    assert (off["link"], on["link"]) == ("off", "on")
    assert "--disable-custom-all-reduce" in commands(jobs[0]["spec"])[0]
    assert "NCCL_P2P_DISABLE=1" in commands(jobs[0]["spec"])[0]
    assert "--disable-custom-all-reduce" not in commands(jobs[1]["spec"])[0]
    assert commands(jobs[1]["spec"])[0].startswith("env -u NCCL_P2P_DISABLE")
    third = arms_for(["no-custom-all-reduce"], [0, 1])
    spec = serving_jobs(third, [load(1)], **COMMON)[0]["spec"]
    line = commands(spec)[0]
    assert "--disable-custom-all-reduce" in line
    assert "NCCL_P2P_DISABLE=1" not in line


def test_the_summary_counts_starts_seeds_and_gpus() -> None:
    told = summary(plan())
    assert told["starts"] == 4
    assert told["seeds"] == [1000, 1001, 1002, 1003]
    assert told["gpus"] == [0, 1]
    assert told["seconds"] == sum(job["expected_s"] for job in plan())


def test_expected_time_grows_with_rounds_and_the_limit_lies_above() -> None:
    short = parse_spec(plan(rounds=2)[0]["spec"])
    long = parse_spec(plan(rounds=8)[0]["spec"])
    assert isinstance(short, ServingSpec)
    assert isinstance(long, ServingSpec)
    assert seconds_of(long) > seconds_of(short) > 120
    assert all(job["time_limit_s"] > job["expected_s"] for job in plan(rounds=40))


def test_two_arms_of_one_name_are_refused() -> None:
    arm = ArmPlan("a", {"gpus": [0]})
    with pytest.raises(InvalidSpec, match="different names"):
        serving_jobs([arm, arm], [load(1)], **COMMON)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_makes_valid_jobs_on_four_gpus(name: str) -> None:
    preset = PRESETS[name]
    arms = arms_for(preset.arms, [0, 1, 2, 3])
    arms = [ArmPlan(a.name, {**a.arm, "engine_args": preset.engine_args}, a.fields) for a in arms]
    jobs = serving_jobs(
        arms, preset.workloads, rounds=preset.rounds, starts=preset.starts, **COMMON
    )
    assert len(jobs) == len(arms) * preset.starts
    for job in jobs:
        assert commands(job["spec"])
    if preset.soak_hours:
        soaks = soak_jobs(arms, load(4), hours=preset.soak_hours, **COMMON)
        assert all(job["time_limit_s"] > job["spec"]["duration_s"] for job in soaks)


def test_a_purchase_on_two_gpus_asks_whether_tp_pays_and_splits_the_links_gain() -> None:
    arms = arms_for(PRESETS["purchase"].arms, [0, 1])
    layouts = alike({arm.name: {"arm": arm.arm} for arm in arms})
    asked = {one.code: (one.reference, one.other) for one in questions(layouts)}
    assert asked == {
        "larger": ("tp1", "link-on"),
        "replicas": ("replicas", "link-on"),
        "both": ("link-off", "link-on"),
        "link": ("link-off", "no-custom-all-reduce"),
        "kernel": ("no-custom-all-reduce", "link-on"),
    }


def test_an_arm_that_needs_more_gpus_than_there_are_says_so() -> None:
    with pytest.raises(InvalidSpec, match="needs 2 GPUs and 1"):
        arms_for(["link-on"], [0])


def test_cpu_arms_are_bound_to_cores_and_twice_the_same_is_the_same() -> None:
    one, two = arms_for(["tp1", "tp2"], [], "cpu")
    assert (one.arm, two.arm) == (
        {"tp": 1, "cpu_cores": "0"},
        {"tp": 2, "cpu_cores": "0|1"},
    )
    first, again = arms_for(["A", "A again"], [], "cpu")
    assert first.arm == again.arm
    with pytest.raises(InvalidSpec, match="no arm called 'link-on' on the CPU"):
        arms_for(["link-on"], [], "cpu")


def test_two_pairs_of_replicas_keep_the_pairs_together() -> None:
    (arm,) = arms_for(["two-pairs"], [0, 1, 2, 3])
    spec = serving_jobs([arm], [load(4)], **COMMON)[0]["spec"]
    lines = commands(spec)
    assert "CUDA_VISIBLE_DEVICES=0,2" in lines[0]
    assert "CUDA_VISIBLE_DEVICES=1,3" in lines[1]


def test_what_is_missing_is_planned_on_the_arms_as_measured() -> None:
    specs = {job["evaluation"]["arm"]: job["spec"] for job in plan()}
    fills = ["abnormal", "pressure", "long_output", "short_output", "sweep", "soak"]
    jobs = fill_jobs(specs, fills, evaluation_id="e", first_order=7)
    assert [job["order"] for job in jobs] == list(range(7, 13))
    assert {job["evaluation"]["id"] for job in jobs} == {"e"}
    mine = [job["spec"] for job in jobs if job["evaluation"]["arm"] == "link-on"]
    assert [spec["kind"] for spec in mine] == ["serving", "serving", "soak"]
    assert all(spec["arm"]["link"] == "on" for spec in mine)
    seen = {load["scenario"] for load in mine[0]["workloads"]}
    assert seen == {"single_stream", "online", "long_output", "short_output", "abnormal"}
    short = mine[1]
    cache = (
        short["arm"]["engine_args"]["num-gpu-blocks-override"]
        * (short["arm"]["engine_args"]["block-size"])
    )
    (load_,) = short["workloads"]
    # one request fits, all at once do not: some must give their cache up
    assert load_["input_len"] + load_["output_len"] < cache
    assert load_["concurrency"] * (load_["input_len"] + load_["output_len"]) > 2 * cache
    assert fill_jobs(specs, [], evaluation_id="e") == []
    # part after part, the arms in turn: none is measured hours after the other
    arms = [job["evaluation"]["arm"] for job in jobs]
    assert arms == ["link-off", "link-on"] * 3


def test_once_more_is_an_evaluation_of_its_own_with_all_that_was_asked() -> None:
    specs = {job["evaluation"]["arm"]: job["spec"] for job in plan()}
    jobs = fill_jobs(specs, ["again"], evaluation_id="e")
    (anew,) = {job["evaluation"]["id"] for job in jobs}
    assert anew != "e"
    assert [job["evaluation"]["arm"] for job in jobs] == ["link-off", "link-on"]
    for job in jobs:
        before = specs[job["evaluation"]["arm"]]
        assert job["spec"]["arm"] == before["arm"]
        assert job["spec"]["workloads"] == before["workloads"]
        assert job["spec"]["rounds"] >= 3


@pytest.mark.parametrize(
    ("cap", "expected"), [(1, [1, None]), (3, [2, 1]), (4, [2, 2]), (None, [None, None])]
)
def test_replicas_share_the_slots(cap: int | None, expected: list[int | None]) -> None:
    whole = Workload(concurrency=cap, num_prompts=12)
    parts = [share_of(whole, 2, part) for part in range(2)]
    slots = [None if part is None else part.concurrency for part in parts]
    assert slots == expected
    assert sum(part.num_prompts for part in parts if part) == 12


PUBLISHED = """CUDA_VISIBLE_DEVICES=0,2 \\
vllm serve cyankiwi/Qwen3.6-27B-AWQ-BF16-INT4 \\
--served-model-name Qwen3.6 \\
--host 0.0.0.0 --port 8000 \\
--tensor-parallel-size 2 \\
--max-model-len 131072 \\
--max-num-seqs 8 --dtype float16 --enable-prefix-caching \\
--speculative-config '{"method":"qwen3_next_mtp","num_speculative_tokens":2}' \\
--trust-remote-code
"""


def test_the_published_line_is_taken_apart_and_what_is_refused_is_named() -> None:
    pasted = parse_serve_line(PUBLISHED, KNOWN)
    assert pasted.model == "cyankiwi/Qwen3.6-27B-AWQ-BF16-INT4"
    assert (pasted.tp, pasted.gpus) == (2, [0, 2])
    assert pasted.engine_args["max-model-len"] == "131072"
    assert pasted.engine_args["enable-prefix-caching"] is True
    assert "qwen3_next_mtp" in str(pasted.engine_args["speculative-config"])
    refused = " ".join(pasted.refused)
    for name in ("--trust-remote-code", "--served-model-name", "--host", "--port"):
        assert name in refused


def test_short_and_equals_forms_switches_off_and_lists() -> None:
    line = (
        "NCCL_P2P_DISABLE=1 python -m vllm.entrypoints.cli.main serve m/x -tp 2 --dtype=bfloat16 "
        "--no-enforce-eager --disable-custom-all-reduce --cudagraph-capture-sizes 1 2 4 "
        "--load-format dummy"
    )
    pasted = parse_serve_line(line, KNOWN)
    assert (pasted.tp, pasted.link, pasted.custom_all_reduce) == (2, "off", False)
    assert pasted.load_format == "dummy"
    assert pasted.engine_args == {
        "dtype": "bfloat16",
        "enforce-eager": False,
        "cudagraph-capture-sizes": "1 2 4",
    }
    assert pasted.refused == []


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve m/x; rm -rf /",
        "vllm serve m/x --max-model-len $(id)",
        "vllm serve m/x && curl evil",
        "vllm serve m/x --middleware os.system",
        "vllm serve m/x --dtype evil",
    ],
)
def test_nothing_pasted_becomes_more_than_words(line: str) -> None:
    pasted = parse_serve_line(line, KNOWN)
    assert pasted.refused or pasted.engine_args == {"max-model-len": "$(id)"}
    assert "rm" not in pasted.engine_args


def test_what_is_no_serve_line_is_refused() -> None:
    with pytest.raises(InvalidSpec, match=r"no `vllm serve` line"):
        parse_serve_line("rm -rf /")
    with pytest.raises(InvalidSpec, match="quotes"):
        parse_serve_line("vllm serve 'x")


def test_models_lie_below_an_allowed_folder_or_on_the_hub(tmp_path: Path) -> None:
    inside = tmp_path / "models" / "mine"
    inside.mkdir(parents=True)
    (inside / "config.json").write_text("{}")
    outside = tmp_path / "other"
    outside.mkdir()
    (outside / "config.json").write_text("{}")
    roots = [tmp_path / "models"]
    assert allowed_model("mine", roots) == str(inside)
    assert allowed_model(str(inside), roots) == str(inside)
    assert allowed_model("Qwen/Qwen2.5-1.5B", roots) == "Qwen/Qwen2.5-1.5B"
    for bad in (str(outside), "../other", "--trust-remote-code", "", "/etc"):
        with pytest.raises(InvalidSpec):
            allowed_model(bad, roots)
    (tmp_path / "models" / "link").symlink_to(outside)
    with pytest.raises(InvalidSpec):
        allowed_model("link", roots)


def test_commands_of_a_server_elsewhere_start_none() -> None:
    spec = {"kind": "serving", "base_url": "http://10.0.0.1:8000", "model": "own/model"}
    lines = commands(spec)
    assert len(lines) == 1
    assert "bench serve" in lines[0]
    assert "--base-url http://10.0.0.1:8000" in lines[0]
