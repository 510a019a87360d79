"""Which numbers may share an axis, and the one exact way from one to another."""

import pytest

from models.definitions import (
    DEFINITIONS,
    caution,
    comparable,
    conversion,
    describe,
    vllm_definition,
)
from models.metrics import METRICS


def test_every_definition_belongs_to_a_metric_and_says_what_it_is() -> None:
    for name, row in DEFINITIONS.items():
        assert name == row.id
        assert row.metric in METRICS
        assert len(name.split(":")) == 3
        assert row.words
        assert not row.words.endswith(".")


def test_a_definition_compares_with_itself_also_when_unknown() -> None:
    assert comparable("vllm:ttft:2", "vllm:ttft:2") is None
    assert comparable("else:thing:1", "else:thing:1") is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("vllm:ttft:1", "vllm:ttft:2"),  # the role chunk of the chat endpoint
        ("vllm:tpot:2", "guidellm:itl:1"),  # requests against tokens
        ("vllm:tpot:2", "aiperf:itl:1"),
        ("guidellm:tpot:1", "guidellm:itl:1"),  # with and without the first token
        ("vllm:itl:2", "sglang:itl:1"),  # per chunk against per token
        ("vllm:output_throughput:1", "guidellm:output_throughput:1"),  # wall against window
        ("nccl-tests:eager:1", "nccl-tests:graph:1"),
        ("linkworth:allreduce-graph:1", "nccl-tests:graph:1"),
        ("vllm:ttft:0", "vllm:ttft:2"),
    ],
)
def test_two_meanings_never_share_an_axis(first: str, second: str) -> None:
    reason = comparable(first, second)
    assert reason is not None
    assert first in reason
    assert second in reason
    assert comparable(second, first) is not None


def test_one_meaning_under_two_names() -> None:
    assert comparable("vllm:output_throughput:1", "sglang:output_throughput:1") is None
    assert comparable("vllm:output_throughput:1", "linkworth:output_throughput:1") is None
    assert comparable("vllm:tpot:1", "vllm:tpot:2") is None


def test_a_revision_that_matters_little_is_a_caution() -> None:
    assert caution("vllm:tpot:2", "vllm:tpot:2") is None
    assert "usage chunk" in (caution("vllm:tpot:1", "vllm:tpot:2") or "")
    assert caution("vllm:output_throughput:1", "sglang:output_throughput:1") is None
    assert caution("vllm:ttft:1", "vllm:ttft:2") is None, "that is a refusal"


def test_an_unknown_revision_asks_for_the_version() -> None:
    assert "Fill in the engine version" in (comparable("vllm:ttft:0", "vllm:ttft:2") or "")


@pytest.mark.parametrize(
    ("quantity", "chat", "version", "expected"),
    [
        ("ttft", False, None, "vllm:ttft:2"),
        ("ttft", False, "0.8.5", "vllm:ttft:2"),
        ("ttft", True, "0.32.1", "vllm:ttft:1"),
        ("ttft", True, "v0.33.0", "vllm:ttft:2"),
        ("ttft", True, None, "vllm:ttft:0"),
        ("ttft", None, "0.20.1", "vllm:ttft:0"),
        ("itl", True, "1.0", "vllm:itl:2"),
        ("tpot", None, "0.29.0", "vllm:tpot:1"),
        ("e2el", None, "0.30.0", "vllm:e2el:2"),
        ("tpot", None, "nightly", "vllm:tpot:0"),
        ("output_throughput", None, None, "vllm:output_throughput:1"),
    ],
)
def test_the_definition_of_a_vllm_number(
    quantity: str, chat: bool | None, version: str | None, expected: str
) -> None:
    assert vllm_definition(quantity, chat=chat, version=version) == expected


def test_guidellms_tpot_becomes_its_inter_token_latency() -> None:
    # from one report of GuideLLM 0.8.1: 16 tokens an answer, mean TTFT 52.8357 ms, its "time per
    # output token" 13.2302 ms, its inter-token latency 10.5898 ms
    found = conversion("guidellm:tpot:1", "guidellm:itl:1")
    assert found is not None
    assert found.needs == ("output_len", "ttft_mean")
    value = found.apply(13.23018968, {"output_len": 16, "ttft_mean": 52.83566316})
    assert value == pytest.approx(10.58982478, rel=1e-6)
    assert found.apply(13.0, {"output_len": 1, "ttft_mean": 50.0}) is None
    assert conversion("guidellm:tpot:1", "vllm:tpot:2") is None
    assert conversion("vllm:ttft:1", "vllm:ttft:2") is None


def test_words_of_a_definition() -> None:
    assert describe("guidellm:tpot:1") == (
        "guidellm:tpot:1 (last token's time/tokens: contains the time to first token)"
    )
    assert describe("nobody:knows:1") == "nobody:knows:1"
