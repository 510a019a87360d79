"""The form of a decode-step test: CPU ranks, GPUs, refusals as sentences."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from pages.widgets import decode_form

SCRIPT = """
import streamlit as st
from pages.widgets import decode_form
planned = decode_form.render()
st.session_state["planned"] = planned
"""
TWO = [
    {"index": n, "uuid": f"GPU-000{n}", "name": "Example GPU", "memory_bytes": 48 * 10**9}
    for n in range(2)
]

PLAIN = {
    "model_type": "qwen2",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 4096,
}

THREE_HEADS = {"hidden_size": 96, "num_attention_heads": 3, "num_key_value_heads": 3}


@pytest.fixture
def form(database):
    return AppTest.from_string(SCRIPT, default_timeout=20)


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(decode_form, "host_gpus", lambda: TWO)


def planned(at):
    assert not at.exception
    return at.session_state["planned"]


def test_without_a_gpu_a_tiny_model_runs_on_one_and_two_ranks(form):
    jobs = planned(form.run())
    assert [job["spec"]["tp"] for job in jobs] == [1, 2]
    spec = jobs[0]["spec"]
    assert spec["device"] == "cpu"
    assert spec["model_name"] == "tiny-test-shape"
    assert spec["clocks"] == ["wall_eager"]
    assert sum(job["expected_s"] for job in jobs) < 60


def test_two_gpus_give_all_clocks_and_both_link_arms(form, two_gpus):
    at = form.run()
    jobs = planned(at)
    assert [job["evaluation"]["arm"] for job in jobs] == ["TP=1", "TP=2, link on", "TP=2, link off"]
    assert jobs[1]["spec"]["clocks"] == list(decode_form.CLOCKS)
    assert jobs[0]["spec"]["model_name"] == "qwen2.5-1.5b"
    words = " ".join(caption.value for caption in at.caption)
    assert "GB weights" in words
    assert "The smallest GPU has 48.0 GB" in words


def test_a_model_that_does_not_fit_is_refused_with_the_sum(form, two_gpus):
    at = form.run()
    at.selectbox(key="decode-model").set_value("llama-3.1-70b").run()
    assert planned(at) is None
    assert "At TP=1 each GPU needs 1" in at.error[0].value
    assert "GB weights" in at.error[0].value


def test_heads_that_do_not_divide_are_refused_with_a_sentence(form, two_gpus, monkeypatch):
    three = [{**TWO[0], "index": n, "uuid": f"GPU-{n}"} for n in range(5)]
    monkeypatch.setattr(decode_form, "host_gpus", lambda: three)
    at = form.run()
    at.multiselect(key="decode-tp").set_value([1, 5]).run()
    assert planned(at) is None
    assert "do not divide over 5 GPUs" in at.error[0].value


def test_a_kv_length_beyond_the_model_is_refused(form):
    at = form.run()
    at.multiselect(key="decode-kv").set_value([8192]).run()
    assert planned(at) is None
    assert "longer than the model's 4,096" in at.error[0].value


def test_a_link_brings_the_whole_form_back(form, two_gpus):
    asked = {
        "model": "qwen2.5-0.5b", "batch": "4,1", "kv": "2048", "rounds": "5", "steps": "50",
        "clocks": "wall_graph,replay", "tp": "1,2", "link": "on", "omp": "8,1", "cpus": "all; 0-1",
        "starts": "2", "limit": "30", "connections": "1", "fusion": "combo",
    }  # fmt: skip
    for name, value in asked.items():
        form.query_params[name] = value
    jobs = planned(form.run())
    assert len(jobs) == 2 * 2 * 2 * 2
    spec = jobs[0]["spec"]
    assert (spec["batches"], spec["kv_lens"], spec["rounds"]) == ([1, 4], [2048], 5)
    assert (spec["steps_per_round"], spec["time_limit_s"]) == (50, 1800)
    assert spec["clocks"] == ["wall_graph", "replay"]
    assert (spec["cuda_device_max_connections"], spec["fusion"]) == (1, "combo")
    assert {job["spec"]["omp_num_threads"] for job in jobs} == {1, 8}
    assert [job["spec"]["cpu_affinity"] for job in jobs[:2]] == [None, [0, 1]]
    assert {name: form.query_params[name] for name in asked if name != "tp"} == {
        name: value for name, value in asked.items() if name != "tp"
    }


def test_what_a_link_must_not_ask_for_is_left_out(form):
    for name in ("batch", "kv", "steps", "starts", "limit", "omp"):
        form.query_params[name] = "0"
    (first, *_) = planned(form.run())
    assert (first["spec"]["batches"], first["spec"]["kv_lens"]) == ([1], [128])
    assert (first["spec"]["steps_per_round"], first["spec"]["omp_num_threads"]) == (20, None)


def eight_gpus():
    return [{**TWO[0], "index": n, "uuid": f"GPU-000{n}"} for n in range(8)]


def test_at_first_only_sizes_that_the_model_divides_by_are_chosen(form, monkeypatch):
    monkeypatch.setattr(decode_form, "host_gpus", eight_gpus)
    at = form.run()
    assert at.multiselect(key="decode-tp").value == [1, 2, 4]  # 12 heads do not divide over 8
    assert {job["spec"]["tp"] for job in planned(at)} == {1, 2, 4}
    at.multiselect(key="decode-tp").set_value([1, 8]).run()
    assert "12 attention heads do not divide over 8 GPUs" in at.error[0].value
    assert any("1, 2 or 4 for this model" in step.value for step in at.info)


def test_heads_of_an_upload_that_do_not_divide_are_refused(form):
    at = form.run()
    at.selectbox(key="decode-model").set_value("upload a config.json").run()
    content = json.dumps({**PLAIN, **THREE_HEADS}).encode()
    at.get("file_uploader")[0].upload("config.json", content, "application/json").run()
    assert [job["spec"]["tp"] for job in planned(at)] == [1]
    at.multiselect(key="decode-tp").set_value([1, 2]).run()
    assert planned(at) is None
    assert "heads do not divide over 2" in at.error[0].value


@pytest.mark.parametrize("key", ["decode-batches", "decode-kv", "decode-tp"])
def test_nothing_chosen_asks_for_a_choice(form, key):
    at = form.run()
    at.multiselect(key=key).set_value([]).run()
    assert planned(at) is None
    assert "Choose at least one" in at.info[0].value


def test_threads_pinning_and_starts_become_arms(form):
    at = form.run()
    at.multiselect(key="decode-omp").set_value([1, 8])
    at.text_input(key="decode-cpus").set_value("0-1")
    at.number_input(key="decode-starts").set_value(2)
    jobs = planned(at.run())
    assert len(jobs) == 2 * 2 * 2
    assert {job["spec"]["omp_num_threads"] for job in jobs} == {1, 8}
    assert all(job["spec"]["cpu_affinity"] == [0, 1] for job in jobs)


def test_pinning_is_swept_beside_no_pinning(form):
    at = form.run()
    at.multiselect(key="decode-tp").set_value([1])
    at.text_input(key="decode-cpus").set_value(" all; 0-1,3 ;0,1,3;; 2")
    jobs = planned(at.run())
    assert [job["spec"]["cpu_affinity"] for job in jobs] == [None, [0, 1, 3], [2]]
    assert [job["evaluation"]["arm"] for job in jobs] == [
        "1 CPU rank, not pinned", "1 CPU rank, CPUs 0-1,3", "1 CPU rank, CPUs 2",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["seven", "3-1", "0-9999", "1;-2", "4096"])
def test_what_is_no_list_of_cpus_is_a_sentence(form, text):
    at = form.run()
    at.text_input(key="decode-cpus").set_value(text).run()
    assert planned(at) is None
    assert "is no list of CPUs." in at.error[0].value
    assert any("Write it as 0-3,8" in step.value for step in at.info)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"x" * 4_000_000, "a few kB"),
        (b"{}", "does not say"),
        (json.dumps({"model_type": "qwen2", "hidden_size": 8}).encode(), "does not say"),
        (b"not json", "not JSON"),
        (json.dumps({**PLAIN, "model_type": "mamba2"}).encode(), "family 'mamba2'"),
        (json.dumps({**PLAIN, "num_local_experts": 8}).encode(), "mixture of experts"),
        (json.dumps({**PLAIN, "num_attention_heads": 7}).encode(), "does not divide into 7 heads"),
        (json.dumps({**PLAIN, "hidden_size": "wide"}).encode(), "hidden_size"),
        (json.dumps({**PLAIN, "num_hidden_layers": 0}).encode(), "num_hidden_layers"),
        (json.dumps({**PLAIN, "hidden_act": "xielu"}).encode(), "the activation 'xielu'"),
        (json.dumps({**PLAIN, "rope_theta": "far"}).encode(), "rope_theta is 'far'"),
        (
            json.dumps({**PLAIN, "max_position_embeddings": 64}).encode(),
            "longer than the model's 64",
        ),
        (b"[" * 200_000, "deeply"),
        (bytes(range(256)) * 15_000, "a few kB"),
    ],
)
def test_an_upload_that_is_no_model_is_refused_with_a_sentence(form, content, words):
    at = form.run()
    at.selectbox(key="decode-model").set_value("upload a config.json").run()
    at.get("file_uploader")[0].upload("config.json", content, "application/json").run()
    assert planned(at) is None
    assert any(words in error.value for error in at.error)
