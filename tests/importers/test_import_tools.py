"""GuideLLM, AIPerf and vLLM's benchmarks without a server: literal numbers of small files."""

from pathlib import Path

import pytest

from importers import recognise
from models.errors import UnreadableFile
from models.result import Result

FIXTURES = Path(__file__).parent / "fixtures"


def one(name: str) -> Result:
    (result,) = recognise.read((FIXTURES / name).read_bytes(), name).results
    return result


def values(result: Result, metric: str, **dims: str) -> dict[str, float | None]:
    return {row.statistic: row.value for row in result.find(metric, **dims)}


def codes(result: Result) -> set[str]:
    return {notice.code for notice in result.warnings}


def test_guidellm_seconds_and_milliseconds() -> None:
    run = one("guidellm/0.8/good.json")
    assert (run.tool.name, run.tool.version) == ("guidellm", "0.8.0")
    # its inter-token latency is TPOT; its own "time per output token" stays apart
    assert values(run, "tpot")["mean"] == 11.0
    assert values(run, "tpot_with_ttft")["mean"] == 11.6
    assert values(run, "itl") == {}
    assert values(run, "e2el")["mean"] == 1500.0
    assert values(run, "e2el")["p99"] == 2000.0
    assert run.find("tpot", "mean")[0].definition == "guidellm:itl:1"
    # p01 is the 1st percentile, p001 the 0.1th, which we do not keep
    assert values(run, "ttft")["p1"] == 2.0
    assert values(run, "ttft")["p99.9"] == 11.0
    assert 1.0 not in values(run, "ttft").values()
    assert run.measurements[0].dims == {"concurrency": 6, "input_len": 512, "output_len": 128}
    assert run.started_at is not None
    assert run.started_at.timestamp() == 1770000000.5
    assert "secret-value" not in run.model_dump_json()


def test_guidellm_older_schemas() -> None:
    middle = one("guidellm/0.6/good.json")
    assert middle.tool.version == "0.6.0"
    assert middle.measurements[0].dims["request_rate"] == 4.0
    assert "concurrency" not in middle.measurements[0].dims
    assert "few_requests" in codes(middle), "below 100 requests the p99 is the maximum"
    old = one("guidellm/0.3/good.json")
    assert old.tool.version is None
    assert old.measurements[0].dims["concurrency"] == 1
    assert values(old, "failed") == {"value": 3.0}
    assert old.validity == "suspect"


def test_guidellm_csv() -> None:
    run = one("guidellm/0.8/good.csv")
    assert run.tool.version == "0.8.0"
    assert values(run, "ttft")["p99"] == 120.0
    assert values(run, "ttft")["median"] == 88.0
    assert values(run, "e2el")["mean"] == 1500.0
    assert values(run, "e2el")["p99"] == 2000.0
    assert values(run, "output_throughput") == {"value": 512.0}
    assert run.measurements[0].dims == {"concurrency": 6}


def test_aiperf_reads_the_unit() -> None:
    run = one("aiperf/0.13/good.json")
    assert (run.tool.name, run.tool.version) == ("aiperf", "0.13.0")
    assert values(run, "e2el")["mean"] == 1500.0, "the file says sec"
    assert values(run, "itl")["mean"] == 10.5, "the file says us"
    assert values(run, "tpot")["mean"] == 11.0
    assert run.find("tpot", "mean")[0].definition == "aiperf:itl:1"
    assert run.find("itl", "mean")[0].definition == "aiperf:icl:1"
    assert run.measurements[0].dims == {"concurrency": 6, "num_prompts": 50}
    assert values(run, "failed") == {"value": 0.0}


def test_aiperf_failures_and_cancelled_runs_are_suspect() -> None:
    failed = one("aiperf/0.13/failed.json")
    assert failed.reasons == ["2 requests failed."]
    cancelled = one("aiperf/0.13/cancelled.json")
    assert cancelled.validity == "suspect"
    assert "cancelled" in codes(cancelled)
    assert one("aiperf/0.11/loadgen.json").measurements[0].dims["concurrency"] == 3


def test_aiperf_csv_has_three_sections() -> None:
    run = one("aiperf/0.13/good.csv")
    assert values(run, "ttft")["p99"] == 120.0
    assert values(run, "e2el")["mean"] == 1500.0, "(sec) in the name"
    assert values(run, "completed") == {"value": 50.0}
    assert values(run, "duration") == {"value": 12.5}
    assert values(run, "failed") == {}
    cut = one("aiperf/0.13/cut.csv")
    assert cut.validity == "suspect"
    assert values(cut, "e2el") == {}, "the cut row is left out"
    assert values(cut, "ttft")["mean"] == 90.0


def test_aiperf_records_without_warm_up_and_failures() -> None:
    run = one("aiperf/0.13/records.jsonl")
    assert values(run, "completed") == {"value": 2.0}
    assert values(run, "failed") == {"value": 1.0}
    assert values(run, "ttft")["mean"] == 90.0, "the warm-up's 500 ms are left out"
    samples = {sample.metric: sample.values for sample in run.samples}
    assert samples["itl"] == [9.0, 11.0, 12.0, 12.0]
    assert "warmup_dropped" in codes(run)


def test_aiperf_aggregate_is_labelled_as_means_over_runs() -> None:
    run = one("aiperf/0.13/aggregate.json")
    (p99,) = run.find("ttft", "p99")
    assert (p99.value, p99.low, p99.high, p99.n) == (120.0, 110.0, 130.0, 3)
    assert p99.definition == "aiperf-over-runs:ttft:1"
    assert values(run, "completed") == {}, "a mean of counts is no count"
    assert "mean_over_runs" in codes(run)


def test_engine_latency_is_per_batch() -> None:
    run = one("vllm-engine/0.11/latency.json")
    assert run.kind == "engine"
    assert values(run, "batch_latency")["mean"] == 1250.0
    assert values(run, "batch_latency")["p99"] == pytest.approx(1299.0)
    assert run.samples[0].values == [1200.0, 1250.0, 1300.0]


def test_engine_throughput_is_never_output_throughput() -> None:
    run = one("vllm-engine/0.11/throughput.json")
    assert values(run, "engine_token_throughput") == {"value": 2560.0}
    assert values(run, "output_throughput") == {}
    assert "input_plus_output" in codes(run)


def test_startup_cold_and_warm() -> None:
    run = one("vllm-engine/0.18/startup.json")
    assert values(run, "startup_time", temperature="cold") == {"mean": 62.0, "median": 62.0}
    assert values(run, "startup_time", temperature="warm") == {"mean": 21.0, "median": 21.0}


def test_a_forward_case_is_its_slowest_rank() -> None:
    run = one("vllm-engine/0.33/forward.json")
    assert values(run, "forward_latency", case="decode-b1") == {"median": 405.0, "p90": 415.0}
    assert run.validity == "suspect"
    assert run.reasons == ["Case decode-b8: the samples of a rank spread by 0.9 %."]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("guidellm/0.8/failed.json", "completed_zero"),
        ("guidellm/0.8/cut.json", "truncated"),
        ("guidellm/0.8/cut.csv", "truncated"),
        ("vllm-engine/0.11/throughput_failed.json", "completed_zero"),
    ],
)
def test_failed_and_cut_files_are_refused(name: str, code: str) -> None:
    with pytest.raises(UnreadableFile) as caught:
        one(name)
    assert caught.value.detail == code
