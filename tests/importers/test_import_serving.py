"""vLLM, SGLang and InferenceX serving results: literal numbers of small files."""

import json
from pathlib import Path

import pytest

from importers import files, recognise, vllm_json
from models.errors import UnreadableFile
from models.result import Result

FIXTURES = Path(__file__).parent / "fixtures"


def read(name: str) -> list[Result]:
    return recognise.read((FIXTURES / name).read_bytes(), name).results


def refused(name: str) -> UnreadableFile:
    with pytest.raises(UnreadableFile) as caught:
        read(name)
    return caught.value


def values(result: Result, metric: str) -> dict[str, float | None]:
    return {row.statistic: row.value for row in result.find(metric)}


def codes(result: Result) -> set[str]:
    return {notice.code for notice in result.warnings}


def test_a_run_of_vllm_0_8() -> None:
    (run,) = read("vllm/0.8/good.json")
    assert (run.kind, run.origin, run.validity) == ("serving", "imported", "valid")
    assert run.tool.name == "vllm"
    assert run.tool.version is None
    assert values(run, "ttft") == {"mean": 100.5, "median": 98.25, "std": 20.0, "p99": 140.0}
    assert values(run, "output_throughput") == {"value": 512.0}
    assert values(run, "e2el") == {}
    assert run.measurements[0].dims == {
        "concurrency": 4,
        "num_prompts": 40,
        "request_rate": "inf",
        "input_len": 1024,
        "output_len": 256,
    }
    assert run.find("tpot", "mean")[0].unit == "ms"
    assert run.find("tpot", "mean")[0].definition == "vllm:tpot:0"


def test_what_the_file_does_not_say_is_absent_and_named() -> None:
    (run,) = read("vllm/0.8/good.json")
    assert values(run, "failed") == {}, "0.8 prints no failed count: unknown, not 0"
    assert "arm" not in run.spec
    assert run.host == {}
    assert codes(run) == {"no_version", "no_tp", "no_gpu"}


def test_a_run_of_vllm_0_6_has_other_keys() -> None:
    (run,) = read("vllm/0.6/good.json")
    assert values(run, "output_throughput") == {"value": 512.0}
    assert values(run, "total_token_throughput") == {}
    assert "concurrency" not in run.measurements[0].dims


def test_failed_requests_make_a_run_suspect() -> None:
    (run,) = read("vllm/0.12/failed.json")
    assert run.validity == "suspect"
    assert run.reasons == ["2 of 40 requests failed."]
    assert values(run, "failed") == {"value": 2.0}
    assert run.measurements[0].dims["request_rate"] == 2.5
    assert "concurrency" not in run.measurements[0].dims
    # the tool's peaks count chunks and one-second buckets: they are not read
    assert not [row for row in run.measurements if row.value in (900.0, 31.0)]


def test_a_dead_server_is_refused() -> None:
    error = refused("vllm/0.12/all_failed.json")
    assert error.detail == "completed_zero"
    assert "every printed zero" in error.sentence


def test_chat_without_a_version_has_a_definition_of_its_own() -> None:
    (chat,) = read("vllm/0.12/failed.json")
    (completions,) = read("vllm/0.33/detailed.json")
    assert chat.find("ttft", "mean")[0].definition == "vllm:ttft:0"
    assert completions.find("ttft", "mean")[0].definition == "vllm:ttft:2"
    assert completions.find("tpot", "mean")[0].definition == "vllm:tpot:2"


def test_per_request_lists_become_samples() -> None:
    (run,) = read("vllm/0.33/detailed.json")
    samples = {sample.metric: sample.values for sample in run.samples}
    assert samples["ttft"] == pytest.approx([100.0, 110.0, 120.0])
    assert samples["itl"] == pytest.approx([10.0, 20.0, 10.0, 10.0])
    assert samples["e2el"] == pytest.approx([130.0, 130.0, 120.0])
    # one token has no time per further token
    assert samples["tpot"] == pytest.approx([15.0, 10.0])
    assert samples["queue_time"] == pytest.approx([0.0, 100.0, 200.0])


def test_a_statistic_that_its_own_list_contradicts_is_said() -> None:
    (run,) = read("vllm/0.33/detailed.json")
    texts = [notice.text for notice in run.warnings if notice.code == "recomputed_differs"]
    assert texts == ["median ITL reads 11 ms in the file and 10 ms from its per-request list."]
    assert values(run, "itl")["median"] == 11.0, "the tool's own number stays"


def test_metadata_are_strings_and_secrets_are_dropped() -> None:
    (run,) = read("vllm/0.33/detailed.json")
    assert run.spec["arm"] == {"tp": 2}
    assert run.host == {"gpus": [{"name": "H200"}]}
    assert "sk-not-a-real-key" not in run.model_dump_json()
    assert values(run, "spec_decode_acceptance_rate") == {"value": 62.5}
    assert values(run, "spec_decode_acceptance_length") == {"value": 2.25}


def test_metadata_never_replace_a_measurement() -> None:
    record = {"model_id": "m", "completed": 4, "duration": 2.0, "request_throughput": 2.0,
              "total_input_tokens": 40, "mean_ttft_ms": "1", "output_throughput": "999",
              "median_ttft_ms": 50.0}  # fmt: skip
    draft = vllm_json.draft_of(record)
    assert draft.value("ttft", "median") == 50.0
    assert draft.value("ttft", "mean") is None
    assert draft.value("output_throughput") is None


def test_appended_objects_are_several_runs() -> None:
    first, second = read("vllm/0.8/appended.json")
    assert [values(run, "output_throughput")["value"] for run in (first, second)] == [150.0, 512.0]
    assert [run.measurements[0].dims["concurrency"] for run in (first, second)] == [1, 4]
    assert first.evaluation is None
    assert first.id != second.id


def test_the_runner_reads_its_own_file_through_the_same_code() -> None:
    record = json.loads((FIXTURES / "vllm/0.8/good.json").read_text())
    draft = vllm_json.draft_of(record, version="0.33.1", round=2, dims={"scenario": "online"})
    (imported,) = read("vllm/0.8/good.json")
    theirs = [(row.metric, row.statistic, row.value, row.unit) for row in draft.measurements]
    ours = [(row.metric, row.statistic, row.value, row.unit) for row in imported.measurements]
    assert theirs == ours
    assert {row.round for row in draft.measurements} == {2}
    assert draft.measurements[0].dims["scenario"] == "online"


def sweep() -> list[files.Reading]:
    return files.read_each(files.of_folder(FIXTURES / "vllm/0.33/sweep"))


def test_a_sweep_folder_is_rounds_of_two_arms() -> None:
    results = [result for reading in sweep() for result in reading.results]
    assert len(results) == 6
    places = [(r.evaluation and r.evaluation.arm, r.measurements[0].round) for r in results]
    assert places == [
        *(("tensor_parallel_size=1", number) for number in (0, 1, 2)),
        *(("tensor_parallel_size=2", number) for number in (0, 1, 2)),
    ]
    assert len({result.evaluation and result.evaluation.id for result in results}) == 1
    assert [result.spec["arm"]["tp"] for result in results] == [1, 1, 1, 2, 2, 2]
    assert len({str(result.spec) for result in results[:3]}) == 1, "rounds of one run"


def test_summaries_warm_ups_and_failures_of_a_sweep_are_skipped() -> None:
    skipped = {reading.name.rsplit("/", 1)[-1]: reading.skipped for reading in sweep()}
    assert skipped["summary.json"] == "It only repeats the runs beside it."
    assert skipped["summary.csv"] == "It only repeats the runs beside it."
    assert skipped["warmup.json"].startswith("This is a warm-up run")
    assert skipped["run=3.failure.json"] == "It reports a run of the sweep that failed."
    assert not [reading for reading in sweep() if reading.error]


def test_a_cold_first_round_is_said() -> None:
    results = [result for reading in sweep() for result in reading.results]
    assert ["cold_run" in codes(result) for result in results] == [True, *[False] * 5]
    assert results[0].validity == "suspect"


def test_the_csv_and_the_list_hold_the_same_runs_as_the_files() -> None:
    folder = "vllm/0.33/sweep/exp"
    singly = {result.id for reading in sweep() for result in reading.results}
    assert {result.id for result in read(f"{folder}/summary.csv")} == singly
    arm = f"{folder}/SERVE--tensor_parallel_size=2-BENCH--max_concurrency=4"
    listed = read(f"{arm}/summary.json")
    assert {result.id for result in listed} < singly
    assert [values(result, "output_throughput")["value"] for result in listed] == [600, 604, 598]


def test_a_single_warm_up_is_refused() -> None:
    arm = "vllm/0.33/sweep/exp/SERVE--tensor_parallel_size=2-BENCH--max_concurrency=4"
    assert refused(f"{arm}/warmup.json").detail == "warmup"


def test_throughput_that_rises_over_equal_rounds_is_suspect() -> None:
    record = json.loads((FIXTURES / "vllm/0.8/good.json").read_text())
    rising = [
        {**record, "run_number": i, "duration": 20.0 - i, "output_throughput": 500.0 + 40 * i}
        for i in range(3)
    ]
    results = recognise.read(json.dumps(rising).encode()).results
    assert all("rising" in codes(result) for result in results)
    assert all(result.validity == "suspect" for result in results)


def test_the_printed_table() -> None:
    (run,) = read("vllm/0.33/console_good.txt")
    assert run.tool.name == "vllm"
    assert values(run, "ttft") == {"mean": 100.5, "median": 98.25, "p99": 140.0}
    assert values(run, "itl") == {"mean": 12.4, "median": 12.0, "p99.9": 20.0}
    assert run.measurements[0].dims == {"concurrency": 4, "request_rate": 2.5}
    assert not [row for row in run.measurements if row.value in (900.0, 8.0)], "peaks are no result"


def test_a_cut_table_loses_the_number_that_may_be_cut() -> None:
    (run,) = read("vllm/0.33/console_cut.txt")
    assert values(run, "tpot") == {"mean": 12.5, "median": 12.25}
    assert "truncated" in codes(run)
    assert run.validity == "suspect"


def test_a_table_on_one_line_and_in_a_quote() -> None:
    text = (FIXTURES / "vllm/0.33/console_good.txt").read_text()
    (whole,) = recognise.read(text.encode()).results
    for other in (" ".join(text.split()), "\n".join(f"> {line}" for line in text.split("\n"))):
        (same,) = recognise.read(other.encode()).results
        assert same.id == whole.id, other[:80]


def test_a_table_without_its_banner_is_read_as_cut() -> None:
    text = (FIXTURES / "vllm/0.33/console_good.txt").read_text()
    (run,) = recognise.read(text[text.index("Successful requests") :].encode()).results
    assert values(run, "completed") == {"value": 40.0}
    assert "truncated" in codes(run)


def test_two_tables_are_two_runs() -> None:
    text = (FIXTURES / "vllm/0.33/console_good.txt").read_text()
    other = text.replace("512.00", "777.00").replace("concurrency:             4", "concurrency: 9")
    first, second = recognise.read((text + other).encode()).results
    assert values(first, "output_throughput") == {"value": 512.0}
    assert values(second, "output_throughput") == {"value": 777.0}
    assert [run.measurements[0].dims["concurrency"] for run in (first, second)] == [4, 9]


def test_a_table_of_a_dead_server_is_refused() -> None:
    assert refused("vllm/0.33/console_failed.txt").detail == "completed_zero"


def test_sglang_prints_nearly_the_same_table() -> None:
    (run,) = read("sglang/0.5/console.txt")
    assert run.tool.name == "sglang"
    assert values(run, "e2el") == {"mean": 900.0, "median": 890.0}
    assert values(run, "output_tokens") == {"value": 2560.0}, "not the retokenized count"
    assert values(run, "spec_decode_acceptance_length") == {"value": 2.75}
    assert run.measurements[0].dims == {"request_rate": "inf"}, "7.50 is measured, not a cap"


def test_sglang_json_lines() -> None:
    first, second = read("sglang/0.5/good.jsonl")
    assert (first.tool.name, first.tool.version) == ("sglang", "0.5.3")
    assert first.spec["arm"] == {"tp": 2}
    assert values(first, "total_token_throughput") == {"value": 1280.0}
    gaps = {"mean": 8.8, "median": 8.5, "p95": 12.0, "p99": 30.0, "max": 80.0}
    assert values(first, "itl") == gaps
    assert first.find("itl", "mean")[0].definition == "sglang:itl:1"
    assert first.measurements[0].dims["concurrency"] == 8
    # half of the 1024 and 256 that were asked for: the totals count
    assert first.measurements[0].dims["input_len"] == 512
    assert first.measurements[0].dims["output_len"] == 128
    assert second.measurements[0].dims["concurrency"] == 16


def test_sglang_lines_that_are_cut_or_failed() -> None:
    (run,) = read("sglang/0.5/cut.jsonl")
    assert "truncated" in codes(run)
    assert refused("sglang/0.5/failed.jsonl").detail == "completed_zero"


def test_inferencex_times_are_seconds() -> None:
    (run,) = read("inferencex/2026/aggregate.json")
    assert values(run, "ttft") == {"mean": 250.0, "median": 200.0, "p99": 900.0}
    assert values(run, "tpot") == {"mean": 12.5, "median": 12.0}
    assert values(run, "e2el") == {"mean": 3500.0}
    assert run.measurements[0].dims == {"concurrency": 16, "input_len": 1024, "output_len": 256}
    assert run.spec["arm"] == {"tp": 4}
    assert run.spec["settings"]["dp_attention"] is False
    assert run.spec["settings"]["disagg"] is True
    assert run.host == {"gpus": [{"name": "b200"}]}
    assert values(run, "output_throughput") == {}, "per GPU only: no total is invented"
    assert "per_gpu" in codes(run)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("inferencex/2026/failed.json", "completed_zero"),
        ("inferencex/2026/cut.json", "truncated"),
        ("vllm/0.8/cut.json", "truncated"),
    ],
)
def test_failed_and_cut_files_are_refused(name: str, code: str) -> None:
    assert refused(name).detail == code
