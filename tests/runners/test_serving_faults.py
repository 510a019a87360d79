"""What goes wrong with servers and clients, each with its own reason, and nothing left behind."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from serving_support import events, fake_python, serving_spec

from models.errors import (
    InvalidSpec,
    LinkworthError,
    RunnerUnavailable,
    RunTimedOut,
    ServerDidNotStart,
    ServerDied,
)
from models.result import Result, Tool
from runners import serving, serving_host, vllm_family
from runners.serving import run
from runners.serving_draft import Draft
from runners.spec import ServingSpec
from runners.vllm_flags import probe


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(autouse=True)
def nothing_left() -> object:
    yield
    # `marked` finds any process of ours that carries a server's mark, whatever its value
    left = [
        entry.name
        for entry in Path("/proc").glob("[0-9]*")
        if _environ(entry).count(b"LINKWORTH_SERVER_MARK=") and _fake(entry)
    ]
    assert left == []


def _environ(entry: Path) -> bytes:
    try:
        return (entry / "environ").read_bytes()
    except OSError:
        return b""


def _fake(entry: Path) -> bool:
    try:
        return b"fake_vllm" in _environ(entry) and b"\0" in (entry / "cmdline").read_bytes()
    except OSError:
        return False


def test_a_round_is_measured_with_the_tools_own_numbers(tmp_path: Path) -> None:
    files = tmp_path / "kept"
    result = run(serving_spec(tmp_path), events(tmp_path), files=files)
    assert result.validity == "valid", result.reasons
    assert result.tool.name == "vllm"
    assert result.tool.version == "0.33.0"
    completed = result.find("completed", concurrency=2, output_len=5)
    assert [row.value for row in completed] == [6]
    assert result.find("tpot", "mean")[0].value > 0
    assert result.find("kv_cache_tokens")[0].value == 4096
    assert result.find("preemptions")[0].value == 0  # 3 before and 3 after
    assert len(next(row for row in result.samples if row.metric == "itl").values) == 6 * 4
    kept = json.loads(next(files.iterdir()).read_text())
    assert kept["completed"] == 6


def test_rounds_use_another_seed_each_and_the_same_in_every_arm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = []
    real = serving.Team.__init__

    def noted(self: object, load: object, seed: int, *rest: object) -> None:
        seeds.append(seed)
        real(self, load, seed, *rest)

    monkeypatch.setattr(serving.Team, "__init__", noted)
    result = run(serving_spec(tmp_path, rounds=2, round=4, seed=50), events(tmp_path))
    assert seeds == [54, 55]
    assert {row.round for row in result.find("output_throughput")} == {4, 5}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("bad_flag", "does not know --no-such-flag 3"),
        ("too_long", "99,999 tokens was asked for and the model allows 4,096"),
        ("no_kv", "needs 1.75 GiB of KV cache and 0.62 GiB are left"),
        ("silent", "without saying why"),
    ],
)
def test_a_server_that_ends_at_its_start_gives_its_own_reason(
    tmp_path: Path, fault: str, words: str
) -> None:
    with pytest.raises(ServerDidNotStart, match=re.escape(words)) as caught:
        run(serving_spec(tmp_path, fault), events(tmp_path))
    assert caught.value.next_step


def test_the_servers_log_is_in_the_live_view_and_in_the_runs_last_words(tmp_path: Path) -> None:
    spec = serving_spec(tmp_path, "no_kv")
    (tmp_path / "spec.json").write_text(spec.model_dump_json())
    words = [sys.executable, "-m", "runners.serving", "--spec", str(tmp_path / "spec.json")]
    words += ["--events", str(tmp_path / "events"), "--result", str(tmp_path / "result.json")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    lines = done.stderr.splitlines()
    assert any("See root cause above" in line for line in lines[:-1])
    assert "needs 1.75 GiB of KV cache" in lines[-1]  # the reason stands last, and alone on a page
    told = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    logged = [event["message"] for event in told if event["type"] == "log"]
    assert any(text.startswith("the server: ValueError: To serve at least") for text in logged)
    kept = json.loads((tmp_path / "result.json").read_text())
    assert kept["validity"] == "invalid"
    assert "needs 1.75 GiB of KV cache" in kept["reasons"][0]


def test_what_a_server_logs_under_load_is_told_once(tmp_path: Path) -> None:
    run(serving_spec(tmp_path), events(tmp_path))
    told = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    logged = [event["message"] for event in told if event["type"] == "log"]
    assert logged.count("the server: CPU KV cache size: 4,096 tokens, Maximum concurrency") == 1
    stages = [event["message"] for event in told if event["type"] == "stage"]
    assert any("of 6 requests" in text for text in stages)


def test_a_server_that_never_gets_ready_is_ended(tmp_path: Path) -> None:
    spec = serving_spec(tmp_path, "never_ready", ready_time_limit_s=0.5)
    with pytest.raises(ServerDidNotStart, match=r"not ready after 0\.5 s"):
        run(spec, events(tmp_path))


def test_a_port_taken_meanwhile_is_replaced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = iter([taken.getsockname()[1]])
        real = serving_host.free_port
        monkeypatch.setattr(serving_host, "free_port", lambda: next(ports, None) or real())
        result = run(serving_spec(tmp_path), events(tmp_path))
    assert result.validity == "valid"
    assert "another one is tried" in (tmp_path / "events.jsonl").read_text()


def test_a_port_that_stays_taken_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(serving_host, "free_port", lambda: taken.getsockname()[1])
        with pytest.raises(ServerDidNotStart, match="port is taken"):
            run(serving_spec(tmp_path), events(tmp_path))


def test_a_server_that_dies_in_mid_round_is_told_from_one_that_did_not_start(
    tmp_path: Path,
) -> None:
    load = {"concurrency": 2, "num_prompts": 40, "input_len": 8, "output_len": 20}
    with pytest.raises(ServerDied, match="the card fell off the bus"):
        run(serving_spec(tmp_path, "dies", workloads=[load]), events(tmp_path))


def test_a_server_that_answers_until_it_ends_is_no_round_of_failed_requests(
    tmp_path: Path,
) -> None:
    loads = [{"concurrency": 2, "num_prompts": 12, "input_len": 8, "output_len": 5}]
    with pytest.raises(ServerDied, match="the card fell off the bus"):
        run(serving_spec(tmp_path, "dies_slowly", workloads=loads), events(tmp_path))


def test_when_every_request_fails_the_run_is_invalid_and_no_zero_is_stored(tmp_path: Path) -> None:
    result = run(serving_spec(tmp_path, "all_fail"), events(tmp_path))
    assert result.validity == "invalid"
    assert "no request succeeded" in result.reasons[0]
    assert [row.value for row in result.find("failed")] == [6]
    assert not result.find("output_throughput")
    assert not result.find("ttft")


def test_a_hang_ends_at_the_time_limit(tmp_path: Path) -> None:
    spec = serving_spec(tmp_path, "hang", workload_time_limit_s=1.5)
    with pytest.raises(RunTimedOut, match=r"\d of 6 requests were answered"):
        run(spec, events(tmp_path))


def test_a_slow_client_is_warned_of(tmp_path: Path) -> None:
    result = run(serving_spec(tmp_path, "slow_client"), events(tmp_path))
    assert "client_slow" in {notice.code for notice in result.warnings}
    # the client's own 200 ms, and more where the machine has other work
    assert result.find("phase_time", phase="client")[0].value >= 180


def test_not_a_number_in_an_output_makes_the_arm_invalid(tmp_path: Path) -> None:
    result = run(serving_spec(tmp_path, "nan"), events(tmp_path))
    assert result.validity == "invalid"
    assert "not JSON compliant" in result.reasons[0]


def test_nothing_in_place_of_numbers_makes_the_arm_invalid_too(tmp_path: Path) -> None:
    result = run(serving_spec(tmp_path, "null_logprobs"), events(tmp_path))
    assert result.validity == "invalid"
    assert "log-probabilities that are not finite" in result.reasons[0]


def test_garbage_makes_an_arm_with_real_weights_invalid(tmp_path: Path) -> None:
    model = tmp_path / "weights"
    model.mkdir()
    spec = serving_spec(
        tmp_path, "garbage", model=str(model), model_config_json=None, load_format="auto"
    )
    result = run(spec, events(tmp_path))
    assert result.validity == "invalid"
    assert "one token over and over" in result.reasons[0]


def test_dummy_weights_are_said_to_be_not_checkable(tmp_path: Path) -> None:
    result = run(serving_spec(tmp_path, "garbage"), events(tmp_path))
    assert result.validity == "valid"
    assert "not checkable" in {n.code: n.text for n in result.warnings}["dummy_weights"]


def test_a_tool_that_prints_other_figures_than_its_detail_is_contradicted(tmp_path: Path) -> None:
    result = run(serving_spec(tmp_path, "liar"), events(tmp_path))
    texts = [n.text for n in result.warnings if n.code == "recomputed_differs"]
    assert any("Output throughput" in text and "-1" in text for text in texts), texts


def test_a_client_that_fails_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(LinkworthError, match="the tokenizer cannot be read"):
        run(serving_spec(tmp_path, "client_fails"), events(tmp_path))


def test_abnormal_inputs_are_refused_and_the_server_goes_on(tmp_path: Path) -> None:
    result = run(serving_spec(tmp_path, workloads=[{"scenario": "abnormal"}]), events(tmp_path))
    assert [row.value for row in result.find("completed", scenario="abnormal")] == [4]
    assert [row.value for row in result.find("failed", scenario="abnormal")] == [0]


def test_a_server_error_on_abnormal_input_is_counted_and_named(tmp_path: Path) -> None:
    spec = serving_spec(tmp_path, "rude", workloads=[{"scenario": "abnormal"}])
    result = run(spec, events(tmp_path))
    assert [row.value for row in result.find("failed", scenario="abnormal")] == [2]
    texts = [n.text for n in result.warnings if n.code == "abnormal_input"]
    assert any(text.startswith("Over-long prompt: answered with status 500") for text in texts)


def test_no_prompt_is_called_too_long_for_a_server_that_states_no_length(tmp_path: Path) -> None:
    spec = serving_spec(tmp_path, "no_length", workloads=[{"scenario": "abnormal"}])
    result = run(spec, events(tmp_path))
    assert [row.value for row in result.find("completed", scenario="abnormal")] == [3]
    assert [row.value for row in result.find("failed", scenario="abnormal")] == [0]


def test_a_server_that_dies_of_abnormal_input_ends_the_run(tmp_path: Path) -> None:
    spec = serving_spec(tmp_path, "crash_on_bad_input", workloads=[{"scenario": "abnormal"}])
    with pytest.raises(ServerDied, match="over-long prompt"):
        run(spec, events(tmp_path))


def recording(folder: Path, **changes: object) -> Path:
    """Two GPUs as NVML would tell of them, each sample 150 J further than the one before."""
    gpus = [{"index": i, "uuid": f"GPU-aaaa{i}", "name": "Example GPU"} for i in range(2)]
    samples = [
        [
            {
                "uuid": gpu["uuid"],
                "index": gpu["index"],
                "power_w": 300.0,
                "sm_clock_mhz": 1980,
                "utilization_pct": 99,
                "energy_mj": 150_000 * number,
                "throttle_reasons": [],
                "processes": [{"pid": 1, "memory_bytes": 1}],
                **changes,
            }
            for gpu in gpus
        ]
        for number in range(200)
    ]
    path = folder / "nvml.json"
    path.write_text(json.dumps({"gpus": gpus, "samples": samples}))
    return path


def gpu_spec(folder: Path) -> ServingSpec:
    load = {"concurrency": 2, "num_prompts": 20, "input_len": 8, "output_len": 60}
    arm = {"gpus": ["GPU-aaaa1", "GPU-aaaa0"], "tp": 2, "link": "off"}
    return serving_spec(folder, device="cuda", arm=arm, workloads=[load])


def test_gpus_are_named_in_rank_order_and_their_energy_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINKWORTH_NVML_RECORDING", str(recording(tmp_path)))
    result = run(gpu_spec(tmp_path), events(tmp_path), telemetry=True)
    assert result.validity == "valid", result.reasons
    assert result.host["ranks"] == ["GPU-aaaa1", "GPU-aaaa0"]
    assert result.environment["server"]["variables"]["NCCL_P2P_DISABLE"] == "1"
    assert {row.dims["gpu"] for row in result.find("power")} == {"GPU-aaaa0", "GPU-aaaa1"}
    (each,) = result.find("energy_per_token")
    wall = result.find("duration")[0].value or 0
    tokens = result.find("output_tokens")[0].value or 1
    # 150 J in half a second is 300 W, of two GPUs
    assert each.value == pytest.approx(600 * wall / tokens, rel=0.25)
    assert {row["uuid"] for row in result.telemetry} == {"GPU-aaaa0", "GPU-aaaa1"}


def test_throttling_makes_the_run_suspect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hot = recording(tmp_path, throttle_reasons=["hw_thermal_slowdown"])
    monkeypatch.setenv("LINKWORTH_NVML_RECORDING", str(hot))
    result = run(gpu_spec(tmp_path), events(tmp_path))
    assert result.validity == "suspect"
    assert any("was throttled: it was too hot" in reason for reason in result.reasons)


@pytest.mark.parametrize(
    ("speeds", "words"),
    [
        ((100.0, 101.0, 99.0), None),
        ((100.0, 140.0, 80.0), "spread by 29 %"),
        ((93.7, 199.4, 198.0, 199.9), "first round lies -53 %"),
        ((100.0, 140.0), None),  # too few to tell
    ],
)
def test_rounds_that_lie_apart_make_the_run_suspect(
    speeds: tuple[float, ...], words: str | None
) -> None:
    draft = Draft(Result(kind="serving", origin="measured", tool=Tool(name="vllm")))
    dims = {"concurrency": 4, "input_len": 8, "output_len": 5}
    for number, speed in enumerate(speeds):
        draft.put_round("output_throughput", speed, "vllm:output_throughput:1", number, dims)
    draft.steadiness()
    assert draft.result.validity == ("valid" if words is None else "suspect")
    if words is not None:
        assert any(words in reason for reason in draft.result.reasons)
        assert "Output throughput, concurrency 4, 8 in, 5 out" in draft.result.reasons[0]


def test_rounds_that_settle_take_back_what_was_said_of_fewer() -> None:
    draft = Draft(Result(kind="serving", origin="measured", tool=Tool(name="vllm")))
    dims = {"concurrency": 4, "input_len": 8, "output_len": 5}
    for number, speed in enumerate((88.0, 100.0, 101.0)):
        draft.put_round("output_throughput", speed, "vllm:output_throughput:1", number, dims)
    draft.steadiness()
    (first,) = draft.result.reasons
    assert "first round lies -12 %" in first
    draft.result.measurements = [
        row.model_copy(update={"value": 100.0}) for row in draft.result.measurements
    ]
    draft.steadiness()
    assert (draft.result.validity, draft.result.reasons) == ("valid", [])
    draft.suspect(["2 requests failed."])
    draft.steadiness()
    assert (draft.result.validity, draft.result.reasons) == ("suspect", ["2 requests failed."])


def test_a_gpu_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINKWORTH_NVML_RECORDING", str(recording(tmp_path)))
    spec = serving_spec(tmp_path, device="cuda", arm={"gpus": [7]})
    with pytest.raises(InvalidSpec, match="no GPU 7"):
        run(spec, events(tmp_path))


def test_replicas_share_the_requests_and_are_pooled(tmp_path: Path) -> None:
    spec = serving_spec(tmp_path, arm={"tp": 1, "replicas": 2})
    result = run(spec, events(tmp_path))
    assert [row.value for row in result.find("completed", replicas=2)] == [6]
    assert result.find("kv_cache_tokens")[0].value == 8192
    wall = result.find("duration")[0].value
    tokens = result.find("output_tokens")[0].value
    assert result.find("output_throughput")[0].value == pytest.approx(tokens / wall)
    assert len([item for item in result.artifacts if item.name.endswith(".json")]) == 2


def test_an_engine_flag_that_may_not_be_set_is_named(tmp_path: Path) -> None:
    spec = serving_spec(tmp_path, arm={"engine_args": {"middleware": "os.system"}})
    with pytest.raises(InvalidSpec, match="--middleware"):
        run(spec, events(tmp_path))


def test_a_flag_that_this_vllm_does_not_know_is_named_before_the_start(tmp_path: Path) -> None:
    spec = serving_spec(tmp_path, arm={"engine_args": {"max_num_seqs": 4}})
    with pytest.raises(InvalidSpec, match="no flag --max-num-seqs"):
        run(spec, events(tmp_path))


def test_no_vllm_says_what_to_type(tmp_path: Path) -> None:
    spec = serving_spec(tmp_path).model_copy(update={"vllm_python": sys.executable})
    with pytest.raises(RunnerUnavailable, match="make vllm"):
        run(spec, events(tmp_path))
    spec = spec.model_copy(update={"vllm_python": None})
    with pytest.raises(RunnerUnavailable, match="make vllm"):
        run(spec, events(tmp_path))


def test_a_stubborn_server_and_its_hidden_child_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_family, "TERM_S", 0.3)
    result = run(serving_spec(tmp_path, "stubborn"), events(tmp_path))
    assert result.validity == "valid"  # `nothing_left` looks for the processes


def test_cancelling_ends_server_and_client(tmp_path: Path) -> None:
    load = {"concurrency": 1, "num_prompts": 2000, "input_len": 8, "output_len": 200}
    spec = serving_spec(tmp_path, workloads=[load])
    (tmp_path / "spec.json").write_text(spec.model_dump_json())
    words = [sys.executable, "-m", "runners.serving", "--spec", str(tmp_path / "spec.json")]
    words += ["--events", "-", "--result", str(tmp_path / "result.json")]
    program = subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ}
    )
    assert program.stderr is not None
    for line in program.stderr:
        if "1 of 2000 requests" in line:
            break
    program.send_signal(signal.SIGTERM)
    _, rest = program.communicate(timeout=60)
    assert program.returncode == 130
    assert "cancelled" in rest
    assert not (tmp_path / "result.json").exists()


def test_a_server_elsewhere_is_measured_by_our_own_client(tmp_path: Path) -> None:
    spec = serving_spec(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    with serving_host.fleet(spec, work, events(tmp_path)) as servers:
        away = serving_spec(
            tmp_path,
            base_url=servers.base_urls[0],
            model_config_json=None,
            load_format="auto",
            vllm_python=None,
            warmup_round=True,
        )
        result = run(away, events(tmp_path))
    assert result.validity == "valid", result.reasons
    assert {row.definition for row in result.find("ttft")} == {"linkworth:ttft:1"}
    assert {n.code for n in result.warnings} >= {"own_client", "server_elsewhere"}
    assert result.find("completed")[0].value == 6
    assert result.host == {}


def test_a_server_elsewhere_is_measured_by_vllms_client_where_a_tokenizer_is_named(
    tmp_path: Path,
) -> None:
    spec = serving_spec(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    with serving_host.fleet(spec, work, events(tmp_path)) as servers:
        away = serving_spec(
            tmp_path,
            base_url=f"{servers.base_urls[0]}/",
            model_config_json=None,
            model="own/tokenizer",
            load_format="auto",
        )
        result = run(away, events(tmp_path))
    assert result.validity == "valid", result.reasons
    codes = {n.code for n in result.warnings}
    assert "server_elsewhere" in codes
    assert "own_client" not in codes
    assert {row.definition.split(":")[0] for row in result.find("ttft")} == {"vllm"}
    # the client asks for the name that the server gives its model
    assert result.find("completed")[0].value == 6


def test_a_server_elsewhere_that_does_not_answer(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        spec = serving_spec(tmp_path, base_url=url, model_config_json=None, load_format="auto")
        with pytest.raises(RunnerUnavailable, match="does not answer"):
            run(spec, events(tmp_path))


def test_the_interpreter_is_asked_for_its_flags_once_a_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    python = fake_python(tmp_path)
    first = probe(python)
    assert first["dtype"].choices == ("auto", "bfloat16", "float16")
    stored = list((tmp_path / "cache" / "linkworth").glob("vllm-flags-*.json"))
    assert len(stored) == 1
    probe.cache_clear()
    assert probe(python) == first
