"""New run: the AllReduce form, its plan, one start however often it is clicked."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import hosts, jobs
from pages.widgets.live_job import duration_words

OpenPage = Callable[..., AppTest]
UUIDS = [f"GPU-0000000{i}-1111-2222-3333-444455556666" for i in range(2)]


def gpu_host(engine: Engine) -> None:
    gpus = [
        {"index": i, "uuid": uuid, "name": "NVIDIA H200", "memory_bytes": 150_754_820_096}
        for i, uuid in enumerate(UUIDS)
    ]
    hosts.remember(engine, {"hostname": "abc", "gpus": gpus})


def test_cpu_sweep_is_queued_once_however_often_start_is_clicked(
    database: Engine, open_page: OpenPage
) -> None:
    at = open_page("new-run")
    assert any("Expected" in block.value for block in at.markdown)
    token: dict[str, Any] = {}
    for _ in range(3):
        again = open_page("new-run")
        if token:
            again.session_state["token-allreduce"] = token["value"]
            again.run()
        again.button(key="start").click().run()
        token["value"] = again.session_state["token-allreduce"]
    queued = jobs.list_jobs(database)
    assert len(queued) == 1
    assert queued[0]["spec"]["ranks"] == 2
    assert queued[0]["spec"]["modes"] == ["eager"]
    assert len(queued[0]["spec"]["sizes_bytes"]) == 8


def test_gpus_link_arms_and_modes(database: Engine, open_page: OpenPage) -> None:
    gpu_host(database)
    at = open_page("new-run")
    at.button(key="start").click().run()
    queued = jobs.list_jobs(database)
    in_order = sorted(queued, key=lambda job: job["evaluation"]["order"])
    links = [job["spec"]["link"] for job in in_order]
    assert links == ["on", "off", "off", "on", "on", "off"]
    assert {tuple(job["spec"]["gpus"]) for job in queued} == {tuple(UUIDS)}
    assert len({job["evaluation"]["id"] for job in queued}) == 1
    assert queued[0]["spec"]["modes"] == ["graph", "eager", "exposed"]


def test_one_gpu_from_the_url(database: Engine, open_page: OpenPage) -> None:
    gpu_host(database)
    at = open_page("new-run", gpus="1")
    assert at.multiselect(key="gpu-choice").value == [UUIDS[1]]
    assert any("One GPU has no link" in caption.value for caption in at.caption)


def test_the_messages_of_a_model(database: Engine, open_page: OpenPage) -> None:
    at = open_page("new-run")
    at.segmented_control(key="sizes").set_value("model").run()
    assert any(
        "qwen2.5-1.5b sends 56 all-reduces a decode step, of 3,072 B" in caption.value
        for caption in at.caption
    )
    at.button(key="start").click().run()
    spec = jobs.list_jobs(database)[0]["spec"]
    assert spec["sizes_bytes"] == [3072 * batch for batch in (1, 2, 4, 8, 16, 32)]
    assert spec["calls_per_graph"] == 56


def test_an_impossible_request_is_a_sentence(database: Engine, open_page: OpenPage) -> None:
    gpu_host(database)
    at = open_page("new-run")
    at.multiselect(key="gpu-choice").set_value([]).run()
    assert at.info[0].value == "Choose the GPUs that take part."
    assert not [button for button in at.button if button.key == "start"]


def test_another_run_has_a_token_of_its_own(database: Engine, open_page: OpenPage) -> None:
    at = open_page("new-run")
    at.button(key="start").click().run()
    first = at.session_state["token-allreduce"]
    at.button(key="another").click().run()
    at.button(key="start").click().run()
    assert at.session_state["token-allreduce"] != first
    assert len(jobs.list_jobs(database)) == 2


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, ""), (-1, ""), (float("nan"), ""), (12, "12 s"), (600, "10 min"), (7200, "2.0 h")],
)
def test_duration_in_words(seconds: float | None, words: str) -> None:
    assert duration_words(seconds) == words
