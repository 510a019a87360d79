"""New run: the AllReduce form, its plan, one start however often it is clicked."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import hosts, jobs, runs
from models.result import Result, Tool
from pages.new_run_page import EXPLAINED, FORMS
from pages.widgets.live_job import duration_words

OpenPage = Callable[..., AppTest]


def uuid_of(index: int) -> str:
    return f"GPU-0000000{index}-1111-2222-3333-444455556666"


UUIDS = [uuid_of(0), uuid_of(1)]


def gpu_host(engine: Engine, n: int = 2) -> None:
    gpus = [
        {"index": i, "uuid": uuid_of(i), "name": "NVIDIA H200", "memory_bytes": 150_754_820_096}
        for i in range(n)
    ]
    hosts.remember(engine, {"hostname": "abc", "gpus": gpus})
    jobs.heartbeat(engine, "w", pid=1, host="abc")


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


@pytest.mark.parametrize("kind", list(FORMS))
def test_a_link_opens_the_form_that_it_names(
    database: Engine, open_page: OpenPage, kind: str
) -> None:
    at = open_page("new-run", kind=kind)
    assert not at.exception
    assert at.segmented_control(key="kind").value == kind
    assert EXPLAINED[kind] in [caption.value for caption in at.caption]


def test_the_choice_of_a_form_stands_in_the_url_as_a_code(
    database: Engine, open_page: OpenPage
) -> None:
    at = open_page("new-run", kind="no such form")
    assert at.segmented_control(key="kind").value == "allreduce"
    assert "kind" not in at.query_params
    at.segmented_control(key="kind").set_value("decode").run()
    assert at.query_params["kind"] in ("decode", ["decode"])
    assert at.multiselect(key="decode-batches").value == [1]


def test_a_link_fills_the_sweep_s_form(database: Engine, open_page: OpenPage) -> None:
    gpu_host(database)
    at = open_page(
        "new-run", gpus="1,0", link="off", modes="eager", rounds="5", dtype="float32", sizes="full"
    )
    assert at.multiselect(key="gpu-choice").value == UUIDS[::-1]  # rank order is the URL's
    at.button(key="start").click().run()
    (job,) = jobs.list_jobs(database)
    spec = job["spec"]
    assert (spec["gpus"], spec["link"], spec["modes"]) == (UUIDS[::-1], "off", ["eager"])
    assert (spec["rounds"], spec["dtype"], len(spec["sizes_bytes"])) == (5, "float32", 18)


def test_a_link_that_asks_for_nonsense_is_ignored(database: Engine, open_page: OpenPage) -> None:
    gpu_host(database)
    at = open_page(
        "new-run", gpus="7,../..", link="sideways", modes="x", rounds="-3", dtype="$(id)", limit="y"
    )
    assert not at.exception
    assert at.multiselect(key="gpu-choice").value == UUIDS
    assert at.number_input(key="rounds").value == 3
    assert at.selectbox(key="dtype").value == "bfloat16"


def test_what_is_chosen_can_be_shared(database: Engine, open_page: OpenPage) -> None:
    gpu_host(database)
    at = open_page("new-run")
    at.multiselect(key="gpu-choice").set_value([UUIDS[1]]).run()
    at.number_input(key="rounds").set_value(7).run()
    assert at.query_params["gpus"] in ("1", ["1"])
    assert at.query_params["rounds"] in ("7", ["7"])
    at.multiselect(key="gpu-choice").set_value(UUIDS).run()
    assert "gpus" not in at.query_params


def test_a_placement_of_two_pairs_sweeps_the_first(database: Engine, open_page: OpenPage) -> None:
    gpu_host(database, 4)
    at = open_page("new-run", gpus="0,2,1,3", tp="2", replicas="2")
    assert at.multiselect(key="gpu-choice").value == [uuid_of(0), uuid_of(2)]


def test_a_link_fills_the_decode_form(database: Engine, open_page: OpenPage) -> None:
    gpu_host(database, 4)
    at = open_page("new-run", kind="decode", gpus="2,3", tp="2", link="on", batch="1,8", kv="4096")
    assert at.multiselect(key="decode-gpus").value == [uuid_of(2), uuid_of(3)]
    assert at.multiselect(key="decode-tp").value == [1, 2]
    assert at.multiselect(key="decode-batches").value == [1, 8]
    assert at.multiselect(key="decode-kv").value == [4096]
    at.button(key="start").click().run()
    links = {(job["spec"]["tp"], job["spec"]["link"]) for job in jobs.list_jobs(database)}
    assert links == {(1, None), (2, "on")}


def warnings(at: AppTest) -> str:
    return "\n".join(warning.value for warning in at.warning)


def test_nothing_is_said_of_gpus_that_are_well(database: Engine, open_page: OpenPage) -> None:
    gpu_host(database)
    jobs.heartbeat(database, "w", pid=1, host="abc", busy_gpus={})
    assert warnings(open_page("new-run")) == ""


def test_a_gpu_in_use_is_told_before_the_start(database: Engine, open_page: OpenPage) -> None:
    gpu_host(database)
    jobs.heartbeat(database, "w", pid=1, host="abc", busy_gpus={UUIDS[0]: 1})
    said = warnings(open_page("new-run"))
    assert "**GPU 0 is in use by another program.** The job waits for it up to 10 min" in said
    assert "marked suspect" in said
    assert warnings(open_page("new-run", gpus="1")) == ""
    assert warnings(open_page("new-run", devices="cpu")) == ""


def test_a_gpu_set_aside_is_told_before_the_start(database: Engine, open_page: OpenPage) -> None:
    gpu_host(database)
    hosts.add_incident(database, host="abc", gpu=UUIDS[1], kind="survivor", text="It hung.")
    assert "**GPU 1 is set aside after an incident.** It hung" in warnings(open_page("new-run"))
    assert warnings(open_page("new-run", gpus="0")) == ""


def test_unlike_cards_and_a_lost_one_are_told_before_the_start(
    database: Engine, open_page: OpenPage
) -> None:
    gpus = [
        {"index": 0, "uuid": UUIDS[0], "name": "RTX 3090", "memory_bytes": 24_000_000_000},
        {"index": 1, "uuid": UUIDS[1], "name": "RTX 3060", "memory_bytes": 12_000_000_000},
    ]
    lost = ["GPU 2 has fallen off the bus."]
    hosts.remember(database, {"hostname": "abc", "gpus": gpus, "gpu_problems": lost})
    jobs.heartbeat(database, "w", pid=1, host="abc")
    said = warnings(open_page("new-run")).replace("\\", "")
    assert "GPU 2 has fallen off the bus." in said
    assert "The GPUs differ: 1x RTX 3060 and 1x RTX 3090." in said
    assert "GPU 1 (RTX 3060) has the least memory (12 GB)" in said


def test_an_imported_machine_is_not_this_one(database: Engine, open_page: OpenPage) -> None:
    """However new: nothing can be started on the machine that a file speaks of."""
    gpu_host(database)
    foreign = {"hostname": "zzz", "gpus": [{"index": 0, "uuid": "GPU-x", "name": "Far away"}]}
    tool = Tool(name="linkworth")
    runs.store(database, Result(kind="allreduce", origin="imported", tool=tool, host=foreign))
    assert hosts.list_hosts(database)[0]["id"] == "zzz"
    at = open_page("new-run")
    assert at.multiselect(key="gpu-choice").value == UUIDS


def test_an_impossible_request_is_a_sentence(database: Engine, open_page: OpenPage) -> None:
    gpu_host(database)
    at = open_page("new-run")
    at.multiselect(key="gpu-choice").set_value([]).run()
    assert at.info[0].value == "Choose the GPUs that take part."
    assert not [button for button in at.button if button.key == "start"]


def test_a_link_to_a_job_that_is_gone_leads_back_to_the_form(
    database: Engine, open_page: OpenPage
) -> None:
    at = open_page("new-run", jobs="no-such-job")
    assert "There is no such job" in at.error[0].value
    at.button(key="another").click().run()
    assert at.button(key="start")


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
