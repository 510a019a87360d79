"""nccl-tests and RCCL, printed and JSON: literal numbers of small files."""

from pathlib import Path
from typing import Any

import pytest

from importers import recognise
from importers.nccl_tests import release, runs_of
from models.errors import UnreadableFile
from models.result import Result

FIXTURES = Path(__file__).parent / "fixtures"
GOOD = "nccl-tests/2.17/good.txt"


def read(name: str) -> list[Result]:
    return recognise.read((FIXTURES / name).read_bytes(), name).results


def text_of(name: str = GOOD) -> str:
    return (FIXTURES / name).read_text()


def read_text(text: str) -> list[Result]:
    return recognise.read(text.encode()).results


def latency(result: Result, size: int, placement: str = "out_of_place") -> dict[str, float | None]:
    found = result.find("allreduce_latency", bytes=size, placement=placement)
    return {row.statistic: row.value for row in found}


def codes(result: Result) -> set[str]:
    return {notice.code for notice in result.warnings}


def test_a_whole_run() -> None:
    (run,) = read(GOOD)
    assert (run.kind, run.origin, run.validity, run.warnings) == (
        "allreduce",
        "imported",
        "valid",
        [],
    )
    assert (run.tool.name, run.tool.version) == ("nccl-tests", "2.17.2")
    assert run.environment == {"nccl": "2.29.7"}
    assert latency(run, 4096) == {"mean": 6.8}
    assert latency(run, 4096, "in_place") == {"mean": 6.75}
    (row,) = run.find("allreduce_latency", bytes=1024, placement="out_of_place")
    assert row.dims == {
        "bytes": 1024, "mode": "graph", "ranks": 2, "dtype": "float32", "placement": "out_of_place",
    }  # fmt: skip
    assert (row.unit, row.n, row.definition) == ("us", 50, "nccl-tests:graph:1")
    assert [row.value for row in run.find("busbw", bytes=2048)] == [0.32, 0.32]
    assert [row.value for row in run.find("wrong_values")] == [0.0] * 6
    assert run.host == {
        "gpus": [{"index": 0, "name": "NVIDIA H200"}, {"index": 1, "name": "NVIDIA H200"}]
    }
    assert "host1" not in run.model_dump_json(), "host names stay behind"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: "\x1b[32m" + text.replace("#", "\x1b[0m#"),
        lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
        lambda text: "\n".join(f"| {line} |" for line in text.split("\n")),
        lambda text: "\n".join(f"[1,0]<stdout>:{line}" for line in text.split("\n")),
        lambda text: "\n".join(f"0: {line}" for line in text.split("\n")),
        lambda text: text.replace("\n#", "\n"),
        lambda text: "user@box:~$ ./build/all_reduce_perf -b 1K\n" + text + "\nLooks good to me.\n",
        lambda text: text.replace("  2048", "host1:1:1 [0] NCCL INFO Channel 00\n  2048"),
        lambda text: text.replace("   ", "\t"),
    ],
    ids=[
        "crlf",
        "bom",
        "ansi",
        "quoted",
        "pipes",
        "tags",
        "srun",
        "no-hash",
        "prose",
        "info",
        "tabs",
    ],
)
def test_how_a_paste_looks_does_not_matter(change: Any) -> None:
    (run,) = read_text(change(text_of()))
    (plain,) = read(GOOD)
    assert run.id == plain.id


def test_a_cut_row_is_dropped_and_said() -> None:
    (run,) = read("nccl-tests/2.17/cut.txt")
    assert latency(run, 4096) == {}
    assert latency(run, 2048) == {"mean": 6.5}
    assert "truncated" in codes(run)
    assert run.validity == "suspect"


def test_wrong_values_make_a_run_invalid() -> None:
    (run,) = read("nccl-tests/2.17/wrong.txt")
    assert run.validity == "invalid"
    assert run.reasons == ["Wrong values were computed: the speed means nothing."]
    assert [row.value for row in run.find("wrong_values", bytes=4096)] == [12.0, 0.0]


def test_a_run_that_failed_before_its_first_row_is_refused() -> None:
    with pytest.raises(UnreadableFile) as caught:
        read("nccl-tests/2.17/failed.txt")
    assert caught.value.detail == "tool_failed"
    assert "unhandled cuda error" in caught.value.sentence


def test_an_error_after_some_rows_makes_them_suspect() -> None:
    text = text_of().split("# Out of bounds")[0] + " .. host1 pid 1: Test failure common.cu:590\n"
    (run,) = read_text(text)
    assert {"tool_failed", "truncated"} <= codes(run)
    assert run.validity == "suspect"


def test_values_that_were_not_checked() -> None:
    (run,) = read("nccl-tests/2.17/unchecked.txt")
    assert run.find("wrong_values") == [], "N/A is unknown, not 0"
    assert "unchecked" in codes(run)


def test_fused_operations_and_cpu_times_are_suspect() -> None:
    (fused,) = read("nccl-tests/2.17/fused.txt")
    assert (fused.validity, codes(fused)) == ("suspect", {"fused"})
    (cpu,) = read("nccl-tests/2.17/cpu_time.txt")
    assert (cpu.validity, codes(cpu)) == ("suspect", {"cpu_time"})
    assert cpu.find("allreduce_latency")[0].definition == "nccl-tests:cpu-time:1"


def test_per_iteration_columns_and_time_stamps() -> None:
    (run,) = read("nccl-tests/2.17/per_iteration.txt")
    assert latency(run, 1024) == {"mean": 6.4, "min": 6.1, "max": 9.0, "p99": 8.0}
    assert latency(run, 1024, "in_place") == {"mean": 6.3, "min": 6.0, "max": 8.9, "p99": 7.9}


def test_two_runs_in_one_paste_never_mix() -> None:
    first, second = read("nccl-tests/2.17/mpirun_two_runs.txt")
    assert (first.kind, first.spec["mode"]) == ("allreduce", "graph")
    assert first.environment["NCCL_ALGO"] == "Ring"
    assert first.find("allreduce_latency")[0].dims["link"] == "off"
    assert "HF_TOKEN" not in first.model_dump_json()
    assert (second.kind, second.spec["mode"]) == ("collective", "eager")
    assert "NCCL_ALGO" not in second.environment
    assert "link" not in second.find("collective_latency")[0].dims
    assert second.find("collective_latency")[0].dims["op"] == "all_gather"


def test_rccl_has_columns_of_its_own() -> None:
    (run,) = read("rccl-tests/2.27/good.txt")
    assert run.tool.name == "rccl-tests"
    assert run.environment == {"nccl": "2.27.7-develop"}
    assert run.find("allreduce_latency")[0].dims["algorithm"] == "tree"


def test_the_mode_is_unknown_where_the_header_does_not_say() -> None:
    (run,) = read_text(text_of().replace(" graph: 20", ""))
    assert "mode" not in run.find("allreduce_latency")[0].dims
    assert "no_mode" in codes(run)
    assert run.find("allreduce_latency")[0].definition == "nccl-tests:unknown-mode:1"


def test_ranks_are_counted_only_where_the_list_is_complete() -> None:
    text = text_of().replace("Rank  0 Group", "Rank 22 Group").replace("Rank  1 G", "Rank 23 G")
    (run,) = read_text(text)
    assert run.spec["n_gpus"] is None
    assert "no_gpu_count" in codes(run)


def test_bandwidths_tell_an_all_reduce_and_the_inference_is_shown() -> None:
    rows = (
        "  33554432  8388608  float sum -1  439.2  76.41 133.71 0  441.9  75.94 132.89 0\n"
        "  67108864 16777216  float sum -1  695.5  96.49 168.86 0  695.2  96.53 168.93 0\n"
    )
    (run,) = read_text(rows)
    assert (run.kind, run.spec["n_gpus"]) == ("allreduce", 8)
    assert run.spec["inferred"] == ["n_gpus", "collective"]
    assert "inferred" in codes(run)
    (unknown,) = read_text(rows.replace("sum", "none"))
    assert (unknown.kind, unknown.spec["collective"]) == ("collective", None)


def test_a_look_alike_table_is_suspect() -> None:
    (run,) = read_text(text_of().replace("0.60    0.60", "0.90    0.90"))
    assert "inconsistent" in codes(run)


def test_one_gpu_is_refused() -> None:
    text = "\n".join(line for line in text_of().split("\n") if "Rank  1" not in line)
    with pytest.raises(UnreadableFile) as caught:
        read_text(text)
    assert caught.value.detail == "single_gpu"


def test_two_lists_of_rank_0_are_a_build_without_mpi() -> None:
    text = text_of().replace("Rank  1 Group", "Rank  0 Group")
    with pytest.raises(UnreadableFile) as caught:
        read_text(text)
    assert caught.value.detail == "two_single_runs"


def test_sizes_of_0_are_dropped_and_underscores_read() -> None:
    text = text_of().replace("        2048           512", "           0             0")
    (run,) = read_text(text)
    assert sorted({row.dims["bytes"] for row in run.measurements}) == [1024, 4096]
    assert "zero_size_rows" in codes(run)
    (run,) = read_text(
        "./all_reduce_perf -g 8\n size time algbw busbw\n 1_048_576 101.9 10.29 18.00\n"
    )
    assert latency(run, 1048576) == {"mean": 101.9}


def test_decimal_commas_are_refused() -> None:
    with pytest.raises(UnreadableFile) as caught:
        read_text(text_of().replace("6.40", "6,40"))
    assert caught.value.detail == "decimal_comma"


def test_json_report() -> None:
    (run,) = read("nccl-tests/json3/good.json")
    assert (run.kind, run.spec["mode"], run.spec["n_gpus"]) == ("allreduce", "eager", 2)
    found = latency(run, 1024)
    assert found == {
        "mean": 12.25, "min": 11.0, "max": 15.0, "median": 12.0, "p95": 14.0, "p99": 15.0,
        "std": 1.0,
    }  # fmt: skip
    assert run.samples[0].values == [11.0, 12.0, 15.0]
    assert run.find("busbw", placement="in_place") == [], '"nan" is unknown'
    assert run.environment == {
        "NCCL_P2P_DISABLE": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "nccl": "2.30.7",
    }  # fmt: skip
    text = run.model_dump_json()
    assert "hf_" not in text
    assert "nope" not in text
    assert "/usr/bin" not in text


def test_json_report_that_was_not_finished_or_failed() -> None:
    (run,) = read("nccl-tests/json3/unfinished.json")
    assert "truncated" in codes(run)
    for name, code in (("failed", "no_rows"), ("cut", "truncated")):
        with pytest.raises(UnreadableFile) as caught:
            read(f"nccl-tests/json3/{name}.json")
        assert caught.value.detail == code


@pytest.mark.parametrize(
    ("number", "words"), [(23007, "2.30.7"), (2708, "2.7.8"), (22907, "2.29.7")]
)
def test_library_versions(number: int, words: str) -> None:
    assert release(number) == words


def test_a_header_again_starts_another_run() -> None:
    table = text_of().split("# Using devices")[0]
    assert len(runs_of(text_of() + text_of())) == 2
    assert len(runs_of(table)) == 1
