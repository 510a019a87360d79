"""Hardware: sick machines, a second reading, other tools' outputs, two pairs or one of four."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hardware_runs import HOST, a_worker, alts, checked, measured, pair, param, texts
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import hosts, jobs, runs
from models.errors import ReadOnly, RunnerUnavailable
from models.links import is_direct
from models.placement import rank_placements
from models.result import Notice
from pages.widgets import hardware_p2p_tiers, hardware_placement, hardware_source
from runners import topology
from runners.events import Events
from runners.nvml_library import LibraryNvml
from runners.serving_presets import PRESETS, arms_for
from runners.spec import TopologySpec
from settings import settings
from tests.runners.fake_nvml import FakeLibrary, lost_card, new_card

SAMPLES = Path(__file__).parents[2].parent / "shared" / "samples"
P2P_ONLY = " \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n"


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


def told(folder: str) -> dict:
    path = SAMPLES / folder / "expected.json"
    return json.loads(path.read_text()) if path.exists() else {}


@pytest.mark.parametrize("name", told("topo") or [pytest.param("", marks=pytest.mark.skip)])
def test_every_link_table_becomes_a_described_machine(
    database: Engine, page: Callable[..., AppTest], name: str
) -> None:
    answer = told("topo")[name]
    kind, run_id = hardware_source.keep((SAMPLES / "topo" / name).read_bytes(), name)
    assert kind == "topology"
    at = page(runs=run_id)
    assert not at.exception
    assert not at.error
    words = texts(at)
    assert "described" in at.markdown[0].value
    assert "A described machine: what somebody pasted." in words
    assert not any(button.key == "open-arm" for button in at.button)
    n, links = len(answer["gpus"]), answer["links"]
    shown = [one.value for one in at.subheader]
    if links is None:
        assert "which pairs the driver lets talk directly" in words
        assert "Placement" not in shown
        return
    assert "Placement" in shown
    assert "CUDA_VISIBLE_DEVICES=" in at.code[0].value or "HIP_VISIBLE" in at.code[0].value
    if n > 1:
        pairs = [links[i][j] or links[j][i] for i in range(n) for j in range(i + 1, n)]
        direct = sum(is_direct(code) for code in pairs)
        summary = next(alt for alt in alts(at) if alt.startswith(f"{n} GPUs, {len(pairs)} pair"))
        assert ("NV" in summary or "XGMI" in summary) == bool(direct)
    assert ("Two groups of two, or one of four?" in words) == (n >= 4)


@pytest.mark.parametrize("name", told("nvlink") or [pytest.param("", marks=pytest.mark.skip)])
def test_every_output_on_links_is_shown_or_refused_in_a_sentence(
    database: Engine, page: Callable[..., AppTest], name: str
) -> None:
    answer = told("nvlink")[name]
    at = page()
    at.text_area(key="pasted-text").set_value((SAMPLES / "nvlink" / name).read_text())
    at.button(key="describe").click().run()
    assert not at.exception
    if answer["kind"] == "other":
        assert "no result file that Linkworth knows" in at.error[0].value
    elif answer["kind"] == "nvidia-smi nvlink -s":
        assert "inactive" in texts(at)
        assert "does not say which GPU they lead to" in texts(at)
    else:
        run = runs.load(database, param(at, "p2p"))
        assert (run.kind, run.origin) == ("p2p", "imported")
        assert "imported" in texts(at)
        if answer["usable"] and run.find("p2p_bandwidth"):
            assert any(alt.startswith("Copy bandwidth between GPUs") for alt in alts(at))


def test_a_benchmark_s_output_is_shown_where_no_machine_is_known(empty_database: Engine) -> None:
    path = SAMPLES / "nvlink" / "nvbandwidth_6gpu_two_groups.txt"
    if not path.exists():
        pytest.skip("no shared samples here")
    kind, run_id = hardware_source.keep(path.read_bytes(), path.name)
    assert kind == "p2p"
    at = AppTest.from_string("from pages.hardware_page import render\nrender()", default_timeout=30)
    at.query_params["p2p"] = run_id
    at.run()
    assert not at.exception
    assert "No machine is known yet" in at.info[0].value
    assert any(alt.startswith("Copy bandwidth between GPUs") for alt in alts(at))


def test_a_demo_keeps_no_benchmark_result(
    database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = SAMPLES / "nvlink" / "nvbandwidth_6gpu_two_groups.txt"
    if not path.exists():
        pytest.skip("no shared samples here")
    monkeypatch.setenv("LINKWORTH_READ_ONLY", "1")
    settings.cache_clear()
    try:
        before = runs.count(database)
        with pytest.raises(ReadOnly):
            hardware_source.keep(path.read_bytes(), path.name)
        assert runs.count(database) == before
    finally:
        settings.cache_clear()


def test_peer_access_alone_says_what_it_is_and_what_is_missing(
    page: Callable[..., AppTest],
) -> None:
    at = page()
    at.text_area(key="pasted-text").set_value(P2P_ONLY)
    at.button(key="describe").click().run()
    assert not at.exception
    words = texts(at)
    assert "which pairs the driver lets talk directly, and not by which link" in words
    assert "The driver grants no peer access: GPUs 0 and 1" in words
    assert "counts links" not in words


def earlier(**changes: object):
    machine = measured(2)
    machine = machine.model_copy(update={"finished_at": datetime(2026, 11, 29, 10, tzinfo=UTC)})
    for gpu in machine.gpus or []:
        gpu.facts.update(changes)
    return machine


def test_counters_that_rose_since_the_reading_before_are_called_out(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    a_worker(database)
    runs.store(database, earlier(nvlink_errors={"replay": 1}, pcie_replays=0))
    now = measured(2)
    for gpu in now.gpus or []:
        gpu.facts.update(nvlink_errors={"replay": 1 + 4 * gpu.index}, pcie_replays=0)
    runs.store(database, now)
    at = page()
    assert not at.exception
    warnings = "\n".join(one.value for one in at.warning)
    assert (
        "**GPU 1: NVLink replay errors rose from 1 at 2026-11-29 10:00 UTC to 5.** Resent data cost"
    ) in warnings
    assert "**Next:** Reseat the bridge" in warnings
    assert "GPU 0: NVLink replay errors rose" not in warnings
    listed = runs.list_runs(database, kinds=["topology"], hosts=[str(HOST["hostname"])])
    first = page(runs=listed["id"].iloc[-1])
    assert "rose from" not in texts(first), "nothing was read before it"


@pytest.mark.parametrize(
    ("second", "disputed", "words"),
    [
        (None, False, "Read from NVML alone: nvidia-smi was not there to say the same."),
        ("nvidia-smi topo -m and nvlink -s", False, "nvlink -s say the same."),
        ("nvidia-smi topo -m", True, "nvidia-smi topo -m says otherwise, see above."),
    ],
)
def test_the_page_says_whether_two_sources_agree(
    database: Engine, page: Callable[..., AppTest], second: str | None, disputed: bool, words: str
) -> None:
    a_worker(database)
    said = "GPUs 0 and 1: NVML says NV4, nvidia-smi says PHB."
    notices = [Notice(code="sources_disagree", text=said)] if disputed else []
    runs.store(database, measured(2, environment={"second_source": second}, warnings=notices))
    at = page()
    assert words in texts(at)
    assert (said in texts(at)) is disputed


def test_the_tiers_show_their_figures(database: Engine, page: Callable[..., AppTest]) -> None:
    a_worker(database)
    runs.store(database, measured(2))
    whole = pair(0, 1, "works", "Works as far as tested: load.", "", "load") | {
        "collective_us": {"on": {"3072": 6.5, "1048576": 15.0}, "off": {"3072": 13.0}},
        "load": {"checked": 12345, "wrong": 0, "seconds": 60.2, "kernel": "vLLM"},
    }
    runs.store(database, checked(environment={"pairs": [whole]}))
    at = page()
    assert not at.exception
    words = texts(at)
    assert (
        "GPUs 0 and 1 under load: vLLM's own all-reduce, 12,345 times in 60 s, 0 wrong values."
        in words
    )
    assert "All-reduces over 1 pair: 2 to 2 times as fast as through the host." in words
    frame = hardware_p2p_tiers.collective_frame([whole])
    assert frame["message"].tolist() == ["3 KB", "1 MB"]
    assert frame["through the host (us)"].tolist()[0] == 13.0


def test_without_vllm_the_load_says_which_kernel_it_tests(
    database: Engine, page: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_worker(database)
    runs.store(database, measured(2))
    monkeypatch.setattr(type(settings()), "vllm_interpreter", lambda self: None)
    at = page()
    assert "make vllm" not in texts(at)
    at.checkbox(key="check-load").check().run()
    assert "NCCL's all-reduce is loaded in place of the engine's own" in texts(at)


def test_a_gpu_in_use_is_told_before_the_check_starts(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    a_worker(database)
    runs.store(database, measured(2))
    facts = [
        {"index": gpu.index, "uuid": gpu.uuid, "name": gpu.name} for gpu in measured(2).gpus or []
    ]
    hosts.remember(database, HOST | {"gpus": facts})
    busy = {"GPU-00000001-0000": 1}
    jobs.heartbeat(database, "w", pid=1, host=str(HOST["hostname"]), busy_gpus=busy)
    at = page()
    assert any("is in use by another program" in one.value for one in at.warning)
    at.multiselect(key="check-gpus").set_value(["GPU-00000000-0000"]).run()
    assert not any("is in use by another program" in one.value for one in at.warning)
    assert any(button.key == "check-start" for button in at.button)


def test_two_pairs_and_one_of_four_have_commands_and_runs_of_their_own(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    a_worker(database)
    runs.store(database, measured())
    at = page(groupsize="1")
    codes = [one.value for one in at.code]
    assert codes[1].splitlines() == [
        "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,2 "
        "vllm serve MODEL --tensor-parallel-size 2 --port 8000",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1,3 "
        "vllm serve MODEL --tensor-parallel-size 2 --port 8001",
    ]
    assert codes[2] == (
        "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,1,2,3 "
        "vllm serve MODEL --tensor-parallel-size 4 --disable-custom-all-reduce"
    )
    assert {"open-2x2", "open-1x4", "open-both"} <= {button.key for button in at.button}


@pytest.mark.parametrize(
    ("key", "query"),
    [
        ("open-2x2", {"kind": "serving", "gpus": "0,2,1,3", "tp": "2", "replicas": "2"}),
        ("open-1x4", {"kind": "serving", "gpus": "0,1,2,3", "tp": "4"}),
        (
            "open-both",
            {"kind": "evaluation", "preset": "two-pairs-or-four", "gpus": "0,1,2,3"},
        ),
    ],
)
def test_each_of_the_two_opens_its_run(
    database: Engine, open_page: Callable[..., AppTest], key: str, query: dict[str, str]
) -> None:
    a_worker(database)
    runs.store(database, measured())
    at = open_page("hardware")
    at.button(key=key).click().run()
    assert not at.exception
    assert at.title[0].value == "New run"
    assert {name: param(at, name) for name in query} == query


def test_the_evaluation_of_both_puts_the_pairs_where_the_preset_wants_them() -> None:
    links = [["X", "PHB", "PHB", "NV4"], ["PHB", "X", "NV4", "PHB"],
             ["PHB", "NV4", "X", "PHB"], ["NV4", "PHB", "PHB", "X"]]  # fmt: skip
    pairs = rank_placements(links, 2, 2, indices=[4, 5, 6, 7]).best
    assert pairs.gpus == ((4, 7), (5, 6))
    query = hardware_placement.both_query(pairs)
    preset = PRESETS[query["preset"]]
    two, four = arms_for(preset.arms, query["gpus"].split(","))
    assert two.arm == {"gpus": ["4", "7", "5", "6"], "tp": 2, "replicas": 2}
    assert sorted(four.arm["gpus"]) == ["4", "5", "6", "7"]
    assert four.arm["tp"] == 4


def test_another_vendor_s_table_is_said_to_be_one(page: Callable[..., AppTest]) -> None:
    at = page()
    at.text_area(key="pasted-text").set_value(
        "|      | Device 0 | Device 1 |\n|---|---|---|\n"
        "| Device 0 | X    | NODE  |\n| Device 1 | NODE  | X    |\n"
    )
    at.button(key="describe").click().run()
    assert not at.exception
    assert "variables below are told for NVIDIA cards" in texts(at)


def mig_card() -> dict:
    return new_card(0) | {
        "nvmlDeviceGetMigMode": (1, 1),
        "nvmlDeviceGetMaxMigDeviceCount": 2,
        "nvmlDeviceGetMigDeviceHandleByIndex": {
            part: {"nvmlDeviceGetUUID": f"MIG-{part}"} for part in range(2)
        },
    }


def no_library() -> FakeLibrary:
    raise RunnerUnavailable(
        "No NVIDIA driver was found on this machine.", "CPU ranks over gloo still work."
    )


@pytest.mark.parametrize(
    ("library", "sentence", "shown"),
    [
        (lambda: FakeLibrary(new_card(0)), "This host has one GPU.", ["GPUs", "Links"]),
        (lambda: FakeLibrary(), "The NVIDIA driver runs, and it shows no GPU.", []),
        (no_library, "No NVIDIA driver was found on this machine.", []),
        (lambda: FakeLibrary(mig_card()), "GPU 0 is split by MIG into 2 parts.", ["GPUs"]),
        (
            lambda: FakeLibrary(new_card(0), lost_card()),
            "GPU 1 has fallen off the bus: the driver can no longer reach it.",
            ["GPUs"],
        ),
        (
            lambda: FakeLibrary(lost_card()),
            "GPU 0 has fallen off the bus: the driver can no longer reach it.",
            [],
        ),
        (
            lambda: FakeLibrary(start_error=FakeLibrary.NVML_ERROR_NO_PERMISSION),
            "may not talk to the NVIDIA driver",
            [],
        ),
        (
            lambda: FakeLibrary(start_error=FakeLibrary.NVML_ERROR_LIBRARY_NOT_FOUND),
            "No NVIDIA driver was found",
            [],
        ),
    ],
    ids=["one", "none", "no-library", "mig", "lost-one", "lost-all", "denied", "no-driver"],
)
def test_from_the_driver_s_answer_to_a_sentence_on_the_page(
    database: Engine,
    page: Callable[..., AppTest],
    tmp_path: Path,
    library: Callable[[], FakeLibrary],
    sentence: str,
    shown: list[str],
) -> None:
    read = topology.run(
        TopologySpec(),
        Events(str(tmp_path / "events.jsonl")),
        opened=lambda: LibraryNvml(library()),
        second=lambda: None,
    )
    a_worker(database)
    runs.store(database, read.model_copy(update={"host": HOST}))
    at = page()
    assert not at.exception
    assert sentence in texts(at)
    assert "Traceback" not in texts(at)
    headings = [one.value for one in at.subheader]
    assert [one for one in headings if one in ("GPUs", "Links")][: len(shown)] == shown
    if not shown:
        assert "There is no GPU to show here." in texts(at)
        assert any(button.key == "check-cpu" for button in at.button)


def test_a_file_can_be_uploaded_in_place_of_a_paste(
    database: Engine, page: Callable[..., AppTest]
) -> None:
    table = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"
    at = page()
    at.get("file_uploader")[0].upload("their-machine.txt", table.encode(), "text/plain")
    at.button(key="describe").click().run()
    assert not at.exception
    assert "their-machine.txt" in at.markdown[0].value
    assert runs.load(database, param(at, "runs")).origin == "described"
