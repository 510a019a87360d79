"""The Hardware page: no machine, one without GPUs, published, measured, pasted ones."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hardware_runs import HOST, PASTED, a_worker, alts, checked, measured, pair, param, texts
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import hosts, jobs, runs
from models.errors import ReadOnly, UnreadableFile
from models.result import Measurement, Notice, Result, Tool
from pages.widgets import (
    hardware_p2p,
    hardware_placement,
    hardware_source,
    hardware_tables,
    incidents,
)
from runners.spec import P2PSpec
from settings import settings


@pytest.fixture
def page(database: Engine) -> Callable[..., AppTest]:
    def opened(**query: str) -> AppTest:
        at = AppTest.from_string(
            "from pages.hardware_page import render\nrender()", default_timeout=30
        )
        for name, value in query.items():
            at.query_params[name] = value
        return at.run()

    return opened


def test_without_any_machine_the_page_says_what_to_do(
    empty_database: Engine, page: Callable[..., AppTest]
) -> None:
    for run_id in runs.list_runs(empty_database, kinds=["topology"])["id"]:
        runs.delete(empty_database, run_id)
    at = page()
    assert not at.exception
    assert "No machine is known yet" in at.info[0].value
    assert at.button(key="read-machine").label == "Read this machine"


def test_after_the_first_start_the_published_machine_is_shown(page: Callable[..., AppTest]) -> None:
    at = page()
    assert not at.exception
    assert [one.value for one in at.subheader] == [
        "GPUs", "Links", "Does peer-to-peer work?", "Placement", "Host",
    ]  # fmt: skip
    said = "4 GPUs, 6 pairs: 2x NV4 (4 NVLinks), 4x PHB (host bridge)."
    assert said in texts(at)
    assert said in alts(at)
    assert "published" in at.markdown[0].value
    assert "GPUs 0 and 2: NV4 (4 NVLinks); 0 and 1 cross the host bridge (PHB)." in texts(at)
    assert "Two TP=2 replicas stay on NV4" in texts(at)
    assert "slowest link sets the pace" in texts(at)
    assert "This machine is not the one that Linkworth runs on" in texts(at)


def test_the_url_sets_group_size_and_replicas(page: Callable[..., AppTest]) -> None:
    at = page(groupsize="4", groups="1")
    assert "2 of 6 pairs NV4, 4 PHB" in texts(at)
    assert "the slowest link sets the pace, and 0 and 1 cross the host bridge" in texts(at)
    assert "vLLM's own all-reduce: off." in texts(at)
    assert "--disable-custom-all-reduce" in at.code[0].value
    two = page(groupsize="2", groups="2")
    assert two.code[0].value.splitlines() == [
        "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,2 "
        "vllm serve MODEL --tensor-parallel-size 2 --port 8000",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1,3 "
        "vllm serve MODEL --tensor-parallel-size 2 --port 8001",
    ]


def test_more_groups_than_gpus_is_a_sentence(page: Callable[..., AppTest]) -> None:
    at = page(groupsize="2", groups="4")
    assert not at.exception
    assert "4 x TP=2 needs 8 GPUs, and 4 can be used." in at.error[0].value


def test_this_machine_shows_its_gpus_findings_and_opens_a_run(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    a_worker(database)
    runs.store(database, measured())
    at = page()
    assert not at.exception
    assert "This is the machine that Linkworth runs on." in texts(at)
    frame = at.dataframe[0].value
    assert list(frame["card"]) == ["NVIDIA GeForce RTX 3090"] * 4
    assert list(frame["NVLinks active"]) == ["4 of 4"] * 4
    assert next(iter(frame["PCIe when read"])) == "gen 1 x16 (4.0 GB/s)"
    assert "PCIe under load" not in frame
    assert "memory (GB)" in frame
    assert "NCCL sends everything through the host" in texts(at)
    assert any(button.key == "open-arm" for button in at.button)


def test_a_gpu_set_aside_is_said_left_out_and_can_be_cleared(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    a_worker(database)
    runs.store(database, measured())
    incident = hosts.add_incident(
        database,
        host=HOST["hostname"],
        kind="reboot",
        text="It went down.",
        gpu="GPU-00000000-0000",
    )
    at = page(groupsize="2")
    assert at.error[0].value == "**GPU-00000000-0000 is set aside.** It went down."
    assert "Look for Xid messages" in texts(at)
    assert "CUDA_VISIBLE_DEVICES=1,3" in at.code[0].value
    at.checkbox(key="leave-out").uncheck().run()
    assert "CUDA_VISIBLE_DEVICES=0,2" in at.code[0].value
    at.button(key=f"clear-{incident}").click().run()
    assert not at.error
    assert hosts.open_incidents(database) == []


def test_a_gpu_that_another_program_uses_now_is_left_out(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    a_worker(database)
    runs.store(database, measured())
    busy = {"GPU-00000000-0000": 1}
    jobs.heartbeat(database, "w", pid=1, host=str(HOST["hostname"]), busy_gpus=busy)
    at = page(groupsize="2")
    assert "Leave out GPU 0" in at.checkbox(key="leave-out").label
    assert "CUDA_VISIBLE_DEVICES=1,3" in at.code[0].value


def test_a_generation_seen_under_load_stands_in_the_table(database: Engine) -> None:
    machine = measured()
    runs.store(
        database,
        Result(kind="allreduce", origin="measured", tool=Tool(name="linkworth"), host=HOST),
        telemetry=[
            {
                "t": 1.0,
                "uuid": "GPU-00000000-0000",
                "pcie_gen": 1,
                "pcie_width": 16,
                "utilization_pct": 0,
            },
            {
                "t": 2.0,
                "uuid": "GPU-00000000-0000",
                "pcie_gen": 4,
                "pcie_width": 8,
                "utilization_pct": 99,
            },
        ],
    )
    loaded = hardware_tables.under_load(machine)
    assert loaded == {"GPU-00000000-0000": {"pcie_gen": 4, "pcie_width": 8}}
    frame = hardware_tables.gpu_frame(machine.gpus or [], loaded)
    assert frame["PCIe under load"].iloc[0] == "gen 4 x8 (15.8 GB/s)"


def test_a_machine_without_gpus_keeps_the_page_useful(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    a_worker(database)
    text = "No NVIDIA driver was found on this machine."
    runs.store(
        database,
        measured(
            gpus=None,
            links=None,
            complete=None,
            title="This machine: its GPUs could not be read",
            warnings=[Notice(code="gpus_unreadable", text=text)],
        ),
    )
    at = page()
    assert not at.exception
    assert at.warning[0].value == text
    assert "There is no GPU to show here." in texts(at)
    assert at.button(key="check-cpu").label == "Rehearse with 2 CPU ranks"
    assert at.dataframe[-2].value["value"].tolist()[0] == "A CPU"


def test_one_gpu_has_no_link(database: Engine, page: Callable[..., AppTest]) -> None:
    a_worker(database)
    runs.store(database, measured(1))
    at = page()
    assert not at.exception
    assert "One GPU: there is no link." in texts(at)
    assert "This host has one GPU." in texts(at)


def test_reading_this_machine_is_one_job_however_often_it_is_clicked(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    at = page()
    at.button(key="read-machine").click().run()
    assert not at.exception
    (job,) = jobs.list_jobs(database)
    assert (job["kind"], job["spec"]["kind"]) == ("topology", "topology")
    assert param(at, "job") == job["id"]
    assert not any(button.key == "read-machine" for button in at.button)


def test_a_finished_reading_becomes_the_machine_on_the_page(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    job_id = jobs.enqueue(database, {"kind": "topology"}, title="Read this machine")
    claimed = jobs.claim(database, "worker-1")
    assert claimed is not None
    assert claimed["id"] == job_id
    run_id = runs.store(database, measured(title="Just read"), job_id=job_id)
    jobs.finish(database, job_id, "succeeded", run_id=run_id)
    at = page(job=job_id)
    assert not at.exception
    assert param(at, "runs") == run_id
    assert "job" not in at.query_params
    assert "Just read" in at.markdown[0].value


def test_pasting_another_machine_shows_and_stores_it_as_described(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    at = page()
    at.text_area(key="pasted-text").set_value(PASTED)
    at.button(key="describe").click().run()
    assert not at.exception
    assert not at.error
    assert "described" in at.markdown[0].value
    assert "3 GPUs, 3 pairs: 1x NV4 (4 NVLinks), 2x NODE (between host bridges)." in texts(at)
    run_id = param(at, "runs")
    kept = runs.load(database, run_id)
    assert (kept.origin, kept.links) == (
        "described",
        [["X", "NV4", "NODE"], ["NV4", "X", "NODE"], ["NODE", "NODE", "X"]],
    )
    assert runs.raw(database, run_id)[0]["data"].decode() == PASTED
    assert hardware_source.keep(PASTED.encode(), "again.txt") == ("topology", run_id)


OTHER = "\tGPU0\tGPU1\nGPU0\t X \tNV12\nGPU1\tNV12\t X \n"


def test_a_paste_of_two_machines_keeps_and_offers_both(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    at = page()
    at.text_area(key="pasted-text").set_value(PASTED + "\n" + OTHER)
    at.button(key="describe").click().run()
    assert not at.exception
    first = param(at, "runs")
    assert "3 GPUs, 3 pairs" in texts(at)
    offered = at.segmented_control(key=f"machine-of-text-{first}")
    assert offered.label == "This text describes 2 machines"
    assert offered.options == ["1: 3 GPUs", "2: 2 GPUs"]
    _, second = runs.of_same_file(database, first)
    offered.set_value(second).run()
    assert param(at, "runs") == second
    assert "2 GPUs, 1 pair: 1x NV12 (12 NVLinks)." in texts(at)
    # and back, from the address alone, by whoever is given it
    again = page(runs=second)
    again.segmented_control(key=f"machine-of-text-{second}").set_value(first).run()
    assert "3 GPUs, 3 pairs" in texts(again)
    names = [name for name in at.selectbox[0].options if "described by nvidia-smi" in name]
    assert [name.partition(" · ")[0] for name in names] == [
        "2 GPUs, described by nvidia-smi topo -m, machine 2 of 2",
        "3 GPUs, described by nvidia-smi topo -m, machine 1 of 2",
    ]


def test_a_machine_that_was_pasted_alone_offers_no_others(page: Callable[..., AppTest]) -> None:
    at = page()
    at.text_area(key="pasted-text").set_value(PASTED)
    at.button(key="describe").click().run()
    assert "3 GPUs, 3 pairs" in texts(at)
    assert not [one for one in at.segmented_control if "machine" in str(one.key)]


def test_a_text_that_is_no_table_is_refused_with_a_next_step(page: Callable[..., AppTest]) -> None:
    at = page()
    at.text_area(key="pasted-text").set_value("hello")
    at.button(key="describe").click().run()
    assert not at.exception
    assert at.error
    assert "runs" not in at.query_params


@pytest.mark.parametrize("data", [b"", b"  \n", json.dumps({"x": 1}).encode()])
def test_nothing_useful_is_never_stored(database: Engine, data: bytes) -> None:
    before = runs.count(database)
    with pytest.raises(UnreadableFile):
        hardware_source.keep(data, "")
    assert runs.count(database) == before


def test_link_counts_alone_show_no_placement(page: Callable[..., AppTest]) -> None:
    status = (
        "GPU 0: Tesla V100-SXM2-32GB (UUID: x)\n\t Link 0: 25.781 GB/s\n\t Link 1: <inactive>\n"
    )
    at = page()
    at.text_area(key="pasted-text").set_value(status)
    at.button(key="describe").click().run()
    assert not at.exception
    assert "GPU 0: 1 of 2 NVLinks are inactive." in texts(at)
    assert "does not say which GPU they lead to" in texts(at)
    assert "Placement" not in [one.value for one in at.subheader]


def test_a_later_paste_in_a_demo_leaves_the_earlier_one(
    database: Engine, page: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINKWORTH_READ_ONLY", "1")
    monkeypatch.setattr(hardware_source, "_OFFERED", 2)
    settings.cache_clear()
    try:
        at = page()
        for text, code in ((PASTED, "pasted"), (OTHER, "pasted-2"), (PASTED, "pasted")):
            at.text_area(key="pasted-text").set_value(text)
            at.button(key="describe").click().run()
            assert not at.exception
            assert param(at, "runs") == code  # a text that was pasted before is not kept twice
        assert "3 GPUs, 3 pairs" in texts(at)
        assert not [one for one in at.segmented_control if "machine" in str(one.key)]
        at.selectbox[0].set_value("pasted-2").run()
        assert "2 GPUs, 1 pair: 1x NV12 (12 NVLinks)." in texts(at)
        # no room for a third
        at.text_area(key="pasted-text").set_value(OTHER.replace("NV12", "NV4"))
        at.button(key="describe").click().run()
        assert at.error[0].value == "This demo keeps 2 pasted machines, and 2 are here already."
        assert "1x NV12" in texts(at)
    finally:
        settings.cache_clear()


def test_a_demo_shows_a_pasted_machine_and_stores_and_starts_nothing(
    database: Engine, page: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINKWORTH_READ_ONLY", "1")
    settings.cache_clear()
    try:
        before = runs.count(database)
        at = page()
        assert not any(button.key == "read-machine" for button in at.button)
        at.text_area(key="pasted-text").set_value(PASTED)
        at.button(key="describe").click().run()
        assert not at.exception
        assert "3 GPUs, 3 pairs" in texts(at)
        assert runs.count(database) == before
        at.text_area(key="pasted-text").set_value(PASTED + "\n" + OTHER)
        at.button(key="describe").click().run()
        assert "3 GPUs, 3 pairs" in texts(at)
        # the first paste's machine stands beside the two of the second
        assert param(at, "runs") == "pasted-2"
        at.segmented_control(key="machine-of-text-pasted-2").set_value("pasted-3").run()
        assert not at.exception
        assert "2 GPUs, 1 pair: 1x NV12 (12 NVLinks)." in texts(at)
        assert at.selectbox[0].options[:3] == [
            "Pasted machine 1 of 3 (not stored)",
            "Pasted machine 2 of 3 (not stored)",
            "Pasted machine 3 of 3 (not stored)",
        ]
        assert runs.count(database) == before
        with pytest.raises(ReadOnly):
            hardware_source.enqueue()
        with pytest.raises(ReadOnly):
            hardware_p2p.start(P2PSpec(device="cpu", ranks=2))
        with pytest.raises(ReadOnly):
            incidents.clear("x")
        assert jobs.list_jobs(database) == []
    finally:
        settings.cache_clear()


def test_a_link_to_a_machine_that_is_gone_says_so(page: Callable[..., AppTest]) -> None:
    at = page(runs="00000000-0000-0000-0000-000000000000")
    assert not at.exception
    assert "not stored here" in at.warning[0].value


def test_starting_a_check_queues_one_job_for_the_gpus_by_uuid(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    a_worker(database)
    runs.store(database, measured(2))
    at = page()
    at.checkbox(key="check-load").check().run()
    assert "can reset the machine" in texts(at)
    at.button(key="check-start").click().run()
    assert not at.exception
    (job,) = jobs.list_jobs(database)
    spec = job["spec"]
    assert (spec["kind"], spec["device"], spec["engine_under_load"]) == ("p2p", "cuda", True)
    assert spec["gpus"] == ["GPU-00000000-0000", "GPU-00000001-0000"]
    assert param(at, "check") == job["id"]


def test_the_last_check_of_this_machine_is_shown_with_its_matrix(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    a_worker(database)
    runs.store(database, measured(2))
    runs.store(database, checked())
    at = page()
    assert not at.exception
    assert any(
        alt == "Copy bandwidth between GPUs, one way, 256 MB: 52.1 to 52.5 GB/s over 2 directions"
        for alt in alts(at)
    )


def test_every_pair_has_its_verdict_and_a_broken_one_is_kept_out_of_groups(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    a_worker(database)
    runs.store(database, measured(3))
    wrong = "Granted but wrong: 3 values arrived wrong."
    runs.store(
        database,
        checked(
            validity="suspect",
            reasons=[f"GPUs 0 and 2: {wrong}"],
            warnings=[Notice(code="peer_wrong", text=f"GPUs 0 and 2: {wrong} Check ACS.")],
            environment={
                "pairs": [
                    pair(0, 1, "works", "Works as far as tested: a collective.", "", "collective"),
                    pair(0, 2, "wrong", wrong, "Check ACS.", "grant"),
                ]
            },
            measurements=[
                Measurement(
                    metric="wrong_values",
                    unit="",
                    value=count,
                    definition="linkworth:copy:1",
                    dims={"src": 0, "dst": target, "bytes": 4096, "test": "counting"},
                )
                for target, count in ((1, 0), (2, 3))
            ],
        ),
    )
    at = page()
    assert not at.exception
    errors = "\n".join(one.value for one in at.error)
    assert f"**GPUs 0 and 2: {wrong}**" in errors
    assert "Check ACS." in errors
    assert "0 and 2 are kept apart, since a check found them broken" in texts(at)
    assert "CUDA_VISIBLE_DEVICES=0,1" in at.code[0].value
    whole = page(groupsize="3")
    assert "GPUs 0 and 2 share a group here" in "\n".join(one.value for one in whole.error)
    assert "NCCL_P2P_DISABLE=1 vllm serve" in whole.code[0].value
    assert "--disable-custom-all-reduce" in whole.code[0].value
    assert "**2 pairs: 1 works as far as tested, 1 granted but wrong.**" in texts(at)
    assert "2 copies verified at their destination (1 sizes, 1 patterns): 3 wrong values" in texts(
        at
    )
    assert not any("Check ACS" in one.value for one in at.warning)


def test_a_real_check_counts_more_than_a_rehearsal(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    a_worker(database)
    runs.store(database, measured(2))
    runs.store(database, checked(title="real", spec={"device": "cuda"}))
    runs.store(database, checked(title="rehearsal", spec={"device": "cpu"}))
    at = page()
    shown = next(box for box in at.selectbox if box.label == "Result")
    assert shown.value is not None
    assert runs.load(database, shown.value).title == "real"


def test_another_tools_result_is_shown_with_its_reason(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    a_worker(database)
    runs.store(database, measured(2))
    run_id = runs.store(
        database,
        checked(
            origin="imported",
            host={},
            validity="invalid",
            reasons=["The copied data were wrong."],
            warnings=[Notice(code="waived", text="Not run on this machine: x.")],
            measurements=[],
        ),
    )
    at = page(p2p=run_id)
    assert not at.exception
    assert "The copied data were wrong." in [one.value for one in at.error]
    assert "Not run on this machine: x." in [one.value for one in at.warning]


def test_a_check_named_in_the_url_as_a_run_is_shown_in_its_section(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    run_id = runs.store(database, checked())
    at = page(runs=run_id)
    assert not at.exception
    assert param(at, "p2p") == run_id


def test_the_arm_of_a_placement_travels_in_the_url() -> None:
    from models.placement import rank_placements

    links = measured().links or []
    two = rank_placements(links, 2, 2).best
    assert hardware_placement.arm_query(two) == {
        "gpus": "0,2,1,3",
        "tp": "2",
        "replicas": "2",
        "kind": "serving",
    }
    broken = {frozenset((1, 3)): "Values were wrong."}
    assert hardware_placement.arm_query(two, broken)["link"] == "off"
    apart = {frozenset((0, 1)): "Values were wrong."}  # in two groups: nobody uses that link
    assert "link" not in hardware_placement.arm_query(two, apart)
    assert hardware_placement.arm_query(rank_placements(links, 2).best) == {
        "gpus": "0,2",
        "tp": "2",
    }


def test_every_sample_can_be_looked_at(database: Engine, page: Callable[..., AppTest]) -> None:
    folder = Path(__file__).parents[2].parent / "shared" / "samples" / "topo"
    if not folder.exists():
        pytest.skip("no shared samples here")
    for name in (
        "8gpu_nv12_12nics_cut_row.txt",
        "8gpu_pix_pxb_node.txt",
        "2gpu_p2p_gns.txt",
        "1gpu_vm_numa_na.txt",
        "4gpu_rocm_showtopo_pcie_cut.txt",
    ):
        _, run_id = hardware_source.keep((folder / name).read_bytes(), name)
        at = page(runs=run_id)
        assert not at.exception, name
        assert not at.error, name


def test_the_button_opens_a_new_run_with_that_arm(
    database: Engine, open_page: Callable[..., AppTest]
) -> None:
    a_worker(database)
    runs.store(database, measured())
    at = open_page("hardware")
    assert not at.exception
    at.number_input(key="groups").set_value(2).run()
    at.button(key="open-arm").click().run()
    assert not at.exception
    assert at.title[0].value == "New run"
    assert (param(at, "gpus"), param(at, "tp"), param(at, "replicas")) == ("0,2,1,3", "2", "2")
