"""The serving forms: without vLLM, on the CPU, on GPUs, by URL, pasted lines, presets."""

import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from pages.widgets import serving_form, serving_form_arms
from settings import settings

FAKE = Path(__file__).parents[1] / "runners" / "fake_vllm"
GPUS = [
    {"uuid": f"GPU-aaaa{i}", "index": i, "name": "Example GPU", "memory_bytes": 24 * 2**30}
    for i in range(4)
]
SCRIPT = """
import streamlit as st
from pages.widgets import serving_form
planned = serving_form.{name}()
st.session_state["planned"] = planned
"""


@pytest.fixture
def with_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter that says it has vLLM 0.33.0."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "bin" / "python"
    path.parent.mkdir()
    path.write_text(
        f"#!{sys.executable}\nimport os, sys\nos.environ['PYTHONPATH'] = {str(FAKE)!r}\n"
        f"os.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:]])\n"
    )
    path.chmod(0o755)
    monkeypatch.setenv("LINKWORTH_VLLM_PYTHON", str(path))
    settings.cache_clear()


@pytest.fixture
def without_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(settings()), "vllm_interpreter", lambda self: None)


@pytest.fixture
def with_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_form, "host_gpus", lambda: GPUS)


def form(name: str = "render", **query: str) -> AppTest:
    at = AppTest.from_string(SCRIPT.format(name=name), default_timeout=30)
    for key, value in query.items():
        at.query_params[key] = value
    at.run()
    assert not at.exception, at.exception
    return at


def planned(at: AppTest) -> Any:
    assert not at.exception, at.exception
    return at.session_state["planned"]


def said(at: AppTest) -> str:
    items = [*at.info, *at.warning, *at.error, *at.caption, *at.success, *at.markdown]
    return "\n".join(str(item.value) for item in items)


@pytest.mark.parametrize("name", ["render", "render_evaluation", "render_soak"])
def test_without_vllm_the_form_says_what_to_type(
    database: Engine, without_vllm: None, name: str
) -> None:
    at = form(name)
    assert "make vllm" in said(at)
    assert planned(at) is None


def test_a_server_that_runs_needs_its_address_only(database: Engine, without_vllm: None) -> None:
    at = form()
    at.segmented_control(key="serving-server").set_value(serving_form.URL).run()
    assert planned(at) is None
    at.text_input(key="serving-url").set_value("http://127.0.0.1:8000").run()
    (job,) = planned(at)
    assert job["spec"]["base_url"] == "http://127.0.0.1:8000"
    assert job["spec"]["vllm_python"] is None


def test_an_address_that_is_none_is_refused(database: Engine, without_vllm: None) -> None:
    at = form()
    at.segmented_control(key="serving-server").set_value(serving_form.URL).run()
    at.text_input(key="serving-url").set_value("file:///etc/passwd").run()
    assert planned(at) is None
    assert "base_url" in said(at)


def test_on_the_cpu_an_evaluation_compares_tp_1_and_2(database: Engine, with_vllm: None) -> None:
    at = form("render_evaluation")
    jobs = planned(at)
    assert [job["evaluation"]["arm"] for job in jobs] == ["tp1", "tp2"]
    arms = [job["spec"]["arm"] for job in jobs]
    assert [(arm["tp"], arm["cpu_cores"]) for arm in arms] == [(1, "0"), (2, "0|1")]
    assert {job["spec"]["device"] for job in jobs} == {"cpu"}
    assert {job["spec"]["model_name"] for job in jobs} == {"tiny-test-shape"}
    words = said(at)
    assert "Order of arms: tp1 → tp2" in words
    assert "the same in every arm" in words
    assert any("bench serve" in item.value for item in at.code)
    at.number_input(key="evaluation-quick-rounds").set_value(3).run()
    at.number_input(key="evaluation-quick-starts").set_value(3).run()
    order = [job["evaluation"]["arm"] for job in planned(at)]
    assert order == ["tp1", "tp2", "tp2", "tp1", "tp1", "tp2"]


def test_on_two_gpus_the_purchase_preset_has_five_arms_and_a_soak(
    database: Engine, with_vllm: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_form, "host_gpus", lambda: GPUS[:2])
    at = form("render_evaluation", preset="purchase")
    assert "cannot run" not in said(at)
    jobs = planned(at)
    serving = [job for job in jobs if job["spec"]["kind"] == "serving"]
    assert {job["evaluation"]["arm"] for job in serving} == {
        "link-off",
        "link-on",
        "no-custom-all-reduce",
        "tp1",
        "replicas",
    }
    assert len(serving) == 15  # two starts of each, and one with short memory
    assert serving[-1]["spec"]["workloads"][0]["scenario"] == "pressure"
    assert [job["order"] for job in jobs] == list(range(20))
    assert [job["spec"]["kind"] for job in jobs[-5:]] == ["soak"] * 5
    scenarios = {load["scenario"] for load in serving[0]["spec"]["workloads"]}
    assert {"long_output", "short_output", "abnormal"} <= scenarios
    arms = {job["evaluation"]["arm"]: job["spec"]["arm"] for job in serving}
    pair = ["GPU-aaaa0", "GPU-aaaa1"]
    assert {name: arm["gpus"] for name, arm in arms.items()} == {
        **dict.fromkeys(arms, pair),
        "tp1": pair[:1],
    }
    assert (arms["replicas"]["tp"], arms["replicas"]["replicas"]) == (1, 2)
    # two hours on each arm are in what is expected
    assert sum(job["expected_s"] for job in jobs) > 5 * 2 * 3600


def test_on_one_gpu_the_purchase_preset_keeps_what_can_run(
    database: Engine, with_vllm: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_form, "host_gpus", lambda: GPUS[:1])
    at = form("render_evaluation", preset="purchase")
    assert "With 1 GPU(s) these arms of the preset cannot run: TP=2, link off, TP=2" in said(at)
    assert {job["evaluation"]["arm"] for job in planned(at)} == {"tp1"}


def test_the_published_preset_repeats_prompts_flags_and_model(
    database: Engine, with_vllm: None, with_gpus: None
) -> None:
    at = form("render_evaluation", preset="nvlink-on-4x3090")
    jobs = planned(at)
    assert [job["spec"]["arm"]["gpus"] for job in jobs] == [
        ["GPU-aaaa0", "GPU-aaaa2"],
        ["GPU-aaaa0", "GPU-aaaa1"],
        [gpu["uuid"] for gpu in GPUS],
    ]
    spec = jobs[0]["spec"]
    assert spec["model"] == "cyankiwi/Qwen3.6-27B-AWQ-BF16-INT4"
    assert [load["num_prompts"] for load in spec["workloads"]] == [8, 32]
    assert spec["arm"]["engine_args"]["dtype"] == "float16"
    # the stand-in knows few flags: the others are named, not passed on to fail at the start
    assert "The installed vLLM has no flag --attention-backend" in said(at)


def test_an_arm_that_cannot_run_here_is_named(
    database: Engine, with_vllm: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_form, "host_gpus", lambda: GPUS[:1])
    at = form("render_evaluation")
    assert "With 1 GPU(s) these arms of the preset cannot run" in said(at)
    assert {job["evaluation"]["arm"] for job in planned(at)} == {"A", "A again"}


def test_one_arm_on_gpus(database: Engine, with_vllm: None, with_gpus: None) -> None:
    at = form()
    (job,) = planned(at)
    assert job["spec"]["arm"]["tp"] == 4
    at.selectbox(key="serving-tp").set_value(2).run()
    at.number_input(key="serving-replicas").set_value(2).run()
    (job,) = planned(at)
    assert job["spec"]["arm"]["replicas"] == 2
    assert len(job["spec"]["arm"]["gpus"]) == 4
    at.segmented_control(key="serving-link").set_value("off").run()
    (job,) = planned(at)
    assert job["evaluation"]["arm"] == "link-off"


def test_a_pasted_line_fills_the_form_and_names_what_was_refused(
    database: Engine, with_vllm: None, with_gpus: None
) -> None:
    at = form()
    at.text_area(key="serving-paste").set_value(
        "vllm serve own/model -tp 2 --max-model-len 4096 --enforce-eager --middleware os.system"
    ).run()
    words = said(at)
    assert "Understood: own/model, TP=2, --max-model-len 4096" in words
    assert "--middleware" in words
    (job,) = planned(at)
    assert job["spec"]["model"] == "own/model"
    assert job["spec"]["arm"]["tp"] == 2
    assert job["spec"]["arm"]["engine_args"] == {"max-model-len": "4096", "enforce-eager": True}


def test_only_flags_that_this_engine_knows_are_offered(
    database: Engine, with_vllm: None, with_gpus: None
) -> None:
    at = form()
    at.toggle(key="serving-flags").set_value(True).run()
    names = at.multiselect(key="serving-flag-names")
    assert "dtype" in names.options
    assert "max-num-seqs" not in names.options  # allowed, but not known to this engine
    names.set_value(["dtype", "enforce-eager", "max-model-len"]).run()
    at.selectbox(key="serving-flag-dtype").set_value("float16").run()
    at.text_input(key="serving-flag-max-model-len").set_value("2048").run()
    (job,) = planned(at)
    assert job["spec"]["arm"]["engine_args"] == {
        "dtype": "float16",
        "enforce-eager": True,
        "max-model-len": 2048,
    }


def test_a_model_folder_must_lie_below_an_allowed_one(
    database: Engine, with_vllm: None, with_gpus: None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder = tmp_path / "models" / "mine"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    at = form()
    at.segmented_control(key="serving-model-kind").set_value(serving_form.NAMED).run()
    at.text_input(key="serving-model").set_value(str(folder)).run()
    assert planned(at) is None
    assert "LINKWORTH_MODEL_ROOTS" in said(at)
    monkeypatch.setenv("LINKWORTH_MODEL_ROOTS", f'["{tmp_path / "models"}"]')
    settings.cache_clear()
    at.run()
    (job,) = planned(at)
    assert job["spec"]["model"] == str(folder)


def test_sustained_load(database: Engine, with_vllm: None) -> None:
    at = form("render_soak")
    (job,) = planned(at)
    assert job["spec"]["kind"] == "soak"
    assert job["time_limit_s"] > job["spec"]["duration_s"] == pytest.approx(360)


def test_every_arm_of_every_preset_has_words() -> None:
    from runners.serving_presets import PRESETS

    named = {arm for preset in PRESETS.values() for arm in preset.arms}
    assert named <= set(serving_form_arms.ARM_WORDS)


def test_a_placement_fills_the_arm(database: Engine, with_vllm: None, with_gpus: None) -> None:
    at = form(gpus="0,2,1,3", tp="2", replicas="2", link="off")
    (job,) = planned(at)[:1]
    arm = job["spec"]["arm"]
    assert arm["gpus"] == [GPUS[index]["uuid"] for index in (0, 2, 1, 3)]
    assert (arm["tp"], arm["replicas"], arm["link"]) == (2, 2, "off")
    nonsense = form(gpus="9", tp="64", replicas="many", link="maybe")
    arm = planned(nonsense)[0]["spec"]["arm"]
    assert (len(arm["gpus"]), arm["tp"], arm["replicas"], arm["link"]) == (4, 4, 1, "on")


def test_arms_of_ones_own_stand_beside_the_presets(
    database: Engine, with_vllm: None, with_gpus: None
) -> None:
    at = form("render_evaluation", preset="quick")
    at.number_input(key="evaluation-quick-own-count").set_value(2).run()
    at.text_input(key="evaluation-quick-own-name-1").set_value("second pair, eager").run()
    at.multiselect(key="evaluation-quick-own-gpus-1").set_value(["GPU-aaaa2", "GPU-aaaa3"]).run()
    at.selectbox(key="evaluation-quick-own1-tp").set_value(2).run()
    at.toggle(key="evaluation-quick-own1-flags").set_value(True).run()
    at.multiselect(key="evaluation-quick-own1-flag-names").set_value(["enforce-eager"]).run()
    at.selectbox(key="evaluation-quick-own2-tp").set_value(1).run()
    at.number_input(key="evaluation-quick-own2-replicas").set_value(4).run()
    arms = {job["evaluation"]["arm"]: job["spec"]["arm"] for job in planned(at)}
    assert list(arms) == ["link-off", "link-on", "second pair, eager", "own-2"]
    assert arms["second pair, eager"]["gpus"] == ["GPU-aaaa2", "GPU-aaaa3"]
    assert arms["second pair, eager"]["engine_args"] == {"enforce-eager": True}
    assert arms["link-on"]["engine_args"] == {}
    assert (arms["own-2"]["tp"], arms["own-2"]["replicas"]) == (1, 4)


def test_two_own_arms_of_one_name_are_refused(
    database: Engine, with_vllm: None, with_gpus: None
) -> None:
    at = form("render_evaluation", preset="quick")
    at.number_input(key="evaluation-quick-own-count").set_value(1).run()
    at.text_input(key="evaluation-quick-own-name-1").set_value("link-on").run()
    assert planned(at) is None
    assert "different names" in said(at)


def test_an_arm_against_itself_on_the_cpu_is_one_arm_twice(
    database: Engine, with_vllm: None
) -> None:
    jobs = planned(form("render_evaluation", preset="a-a"))
    assert {job["evaluation"]["arm"] for job in jobs} == {"A", "A again"}
    arms = [job["spec"]["arm"] for job in jobs]
    assert all(arm == arms[0] for arm in arms)


def test_the_form_says_what_so_many_rounds_can_show(database: Engine, with_vllm: None) -> None:
    at = form("render_evaluation", preset="quick")
    assert "there is a direction and no interval" in said(at)
    at.number_input(key="evaluation-quick-rounds").set_value(3).run()
    assert "3 rounds an arm show changes from about 2.5 % up" in said(at)


def test_a_pasted_line_chooses_its_gpus(database: Engine, with_vllm: None, with_gpus: None) -> None:
    at = form()
    at.text_area(key="serving-paste").set_value(
        "CUDA_VISIBLE_DEVICES=0,2 vllm serve own/model -tp 2"
    ).run()
    (job,) = planned(at)
    assert job["spec"]["arm"]["gpus"] == ["GPU-aaaa0", "GPU-aaaa2"]
    at.text_area(key="serving-paste").set_value(
        "CUDA_VISIBLE_DEVICES=3,9 vllm serve own/model"
    ).run()
    (job,) = planned(at)
    assert job["spec"]["arm"]["gpus"] == ["GPU-aaaa3"]
    assert "names GPUs that are not here: 9" in said(at)


def test_the_published_preset_asks_the_authors_prompts(
    database: Engine, with_vllm: None, with_gpus: None
) -> None:
    jobs = planned(form("render_evaluation", preset="nvlink-on-4x3090"))
    assert {job["spec"]["seed"] for job in jobs} == {42}
