"""What each tool means by its words, and which numbers may share an axis.

A definition reads ``tool:quantity:revision``; the revision rises when the tool changed the
meaning. Two definitions share an axis only when they stand in the same group here. Revision 0 says
that the file does not tell which revision wrote it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Definition:
    """What one tool measures under one word.

    Attributes:
        id: ``tool:quantity:revision``.
        metric: Our metric that holds its numbers.
        group: Definitions of one group measure the same thing.
        words: From where to where, weighed how.
    """

    id: str
    metric: str
    group: str
    words: str


@dataclass(frozen=True)
class Conversion:
    """An exact way from one definition's number to another's.

    Attributes:
        source: Definition of the number at hand.
        target: Definition it becomes.
        needs: Names of the further values that ``apply`` wants.
        words: The formula, and when it is exact.
        apply: (value, further values) -> converted value, or None where they do not allow it.
    """

    source: str
    target: str
    needs: tuple[str, ...]
    words: str
    apply: Callable[[float, Mapping[str, float]], float | None]


_FIRST_TEXT = "from sending to the first non-empty text"
_WALL = "of successful requests over the wall time from first sending to last answer"

_TABLE = (
    Definition(
        "vllm:ttft:0",
        "ttft",
        "vllm-ttft-unknown",
        "chat, vLLM version not stated: up to "
        "0.32 it ends at the role chunk, later at the first content",
    ),
    Definition(
        "vllm:ttft:1",
        "ttft",
        "vllm-ttft-role",
        "chat up to vLLM 0.32: from sending, after "
        "the client's queue, to the first chunk, which holds the role and no text",
    ),
    Definition(
        "vllm:ttft:2",
        "ttft",
        "vllm-ttft",
        "from sending, after the client's queue, to the "
        "first chunk with a choice, even an empty one (chat: with content, from 0.33)",
    ),
    Definition("sglang:ttft:1", "ttft", "sglang-ttft", _FIRST_TEXT + ", SGLang's client"),
    Definition("lmdeploy:ttft:1", "ttft", "sglang-ttft", _FIRST_TEXT + ", SGLang's client"),
    Definition("guidellm:ttft:1", "ttft", "guidellm-ttft", _FIRST_TEXT + ", warm-up cut off"),
    Definition("aiperf:ttft:1", "ttft", "aiperf-ttft", _FIRST_TEXT),
    Definition(
        "inferencex:ttft:1", "ttft", "inferencex-ttft", "as its fork of vLLM's client counts it"
    ),
    Definition("linkworth:ttft:1", "ttft", "linkworth-ttft", "from sending to the first content"),
    Definition(
        "vllm:tpot:0",
        "tpot",
        "vllm-tpot",
        "(E2EL - TTFT)/(tokens - 1), one value a "
        "request; before 0.30 the closing usage chunk could stretch it",
    ),
    Definition(
        "vllm:tpot:1",
        "tpot",
        "vllm-tpot",
        "(E2EL - TTFT)/(tokens - 1), one value a "
        "request; the closing usage chunk could stretch it (before vLLM 0.30)",
    ),
    Definition(
        "vllm:tpot:2",
        "tpot",
        "vllm-tpot",
        "(E2EL - TTFT)/(tokens - 1), one value a request (from vLLM 0.30)",
    ),
    Definition(
        "sglang:tpot:1",
        "tpot",
        "sglang-tpot",
        "(E2EL - TTFT)/(tokens - 1), one value a request, SGLang's client",
    ),
    Definition("lmdeploy:tpot:1", "tpot", "sglang-tpot", "as SGLang's client"),
    Definition(
        "aiperf:itl:1",
        "tpot",
        "aiperf-itl",
        "AIPerf calls it inter-token latency: (E2EL - TTFT)/(tokens - 1), one value a request",
    ),
    Definition(
        "guidellm:itl:1",
        "tpot",
        "guidellm-itl",
        "GuideLLM calls it inter-token latency: "
        "(last token - first token)/(tokens - 1), weighed by tokens, not by requests",
    ),
    Definition(
        "inferencex:tpot:1",
        "tpot",
        "inferencex-tpot",
        "(E2EL - TTFT)/(tokens - 1), one value a request, its fork of vLLM's client",
    ),
    Definition(
        "linkworth:tpot:1",
        "tpot",
        "linkworth-tpot",
        "(last token - first token)/(tokens - 1), one value a request",
    ),
    Definition(
        "guidellm:tpot:1",
        "tpot_with_ttft",
        "guidellm-tpot",
        "last token's time/tokens: contains the time to first token",
    ),
    Definition(
        "vllm:itl:0",
        "itl",
        "vllm-itl-unknown",
        "gap between streamed chunks; chat, vLLM "
        "version not stated: up to 0.32 the first gap begins at the role chunk",
    ),
    Definition(
        "vllm:itl:1",
        "itl",
        "vllm-itl-role",
        "gap between streamed chunks, the first gap from the role chunk (chat up to vLLM 0.32)",
    ),
    Definition(
        "vllm:itl:2",
        "itl",
        "vllm-itl",
        "gap between streamed chunks; with speculative decoding a chunk holds several tokens",
    ),
    Definition(
        "sglang:itl:1", "itl", "sglang-itl", "gap between chunks divided by the tokens of the chunk"
    ),
    Definition(
        "lmdeploy:itl:1", "itl", "lmdeploy-itl", "gap between streamed chunks, LMDeploy's client"
    ),
    Definition(
        "aiperf:icl:1",
        "itl",
        "aiperf-icl",
        "AIPerf calls it inter-chunk latency: gap between streamed chunks",
    ),
    Definition(
        "inferencex:itl:1",
        "itl",
        "inferencex-itl",
        "gap between streamed chunks, its fork of vLLM's client",
    ),
    Definition("linkworth:itl:1", "itl", "linkworth-itl", "gap between streamed chunks, pooled"),
    Definition(
        "vllm:e2el:0",
        "e2el",
        "vllm-e2el",
        "from sending to the last token; before 0.30 the closing usage chunk could stretch it",
    ),
    Definition(
        "vllm:e2el:1",
        "e2el",
        "vllm-e2el",
        "from sending to the last chunk, the usage chunk included (before vLLM 0.30)",
    ),
    Definition("vllm:e2el:2", "e2el", "vllm-e2el", "from sending to the last token (from 0.30)"),
    Definition(
        "sglang:e2el:1", "e2el", "sglang-e2el", "from sending to the last token, SGLang's client"
    ),
    Definition("lmdeploy:e2el:1", "e2el", "sglang-e2el", "as SGLang's client"),
    Definition(
        "guidellm:e2el:1",
        "e2el",
        "guidellm-e2el",
        "from sending to the end of the answer, which lies after the last token",
    ),
    Definition("aiperf:e2el:1", "e2el", "aiperf-e2el", "from sending to the last chunk"),
    Definition("inferencex:e2el:1", "e2el", "inferencex-e2el", "from sending to the last token"),
    Definition("linkworth:e2el:1", "e2el", "linkworth-e2el", "from sending to the last token"),
    *(
        Definition(f"{tool}:{name}:1", name, group, f"{what} {window}")
        for name, what in (
            ("output_throughput", "output tokens"),
            ("total_token_throughput", "input and output tokens"),
            ("request_throughput", "count"),
        )
        for tool, group, window in (
            *(
                (tool, f"wall-{name}", _WALL)
                for tool in ("vllm", "sglang", "lmdeploy", "inferencex", "linkworth")
            ),
            ("guidellm", f"guidellm-{name}", "of successful requests inside the measured window"),
            ("aiperf", f"aiperf-{name}", "of successful requests over AIPerf's benchmark duration"),
        )
    ),
    Definition("vllm:batch_latency:1", "batch_latency", "vllm-batch", "one whole batch, no server"),
    Definition(
        "vllm:engine_token_throughput:1",
        "engine_token_throughput",
        "vllm-engine",
        "input and output tokens over the elapsed time, no server",
    ),
    Definition(
        "nccl-tests:eager:1",
        "allreduce_latency",
        "nccl-eager",
        "mean of the timed calls, launched one by one, averaged over the ranks",
    ),
    Definition(
        "nccl-tests:graph:1",
        "allreduce_latency",
        "nccl-graph",
        "mean of the timed calls in a CUDA graph, averaged over the ranks",
    ),
    Definition(
        "nccl-tests:unknown-mode:1",
        "allreduce_latency",
        "nccl-unknown",
        "mean of the timed calls, averaged over the ranks; eager or graph not stated",
    ),
    Definition(
        "nccl-tests:cpu-time:1",
        "allreduce_latency",
        "nccl-cpu",
        "time that the CPU needs to launch a call, not the time of the call",
    ),
)

DEFINITIONS: dict[str, Definition] = {row.id: row for row in _TABLE}


def describe(name: str) -> str:
    """What a definition measures, or its name where this table does not know it."""
    known = DEFINITIONS.get(name)
    return f"{name} ({known.words})" if known else name


def comparable(first: str, second: str) -> str | None:
    """Why two definitions may not share an axis.

    Args:
        first: A definition's id.
        second: Another one's.

    Returns:
        None where they may; else one sentence that names both meanings.
    """
    if first == second:
        return None
    a, b = DEFINITIONS.get(first), DEFINITIONS.get(second)
    if a is not None and b is not None and a.group == b.group:
        return None
    unknown = [row for row in (a, b) if row is not None and row.id.endswith(":0")]
    hint = " Fill in the engine version of the run that does not state it." if unknown else ""
    return f"Not the same quantity: {describe(first)}; {describe(second)}.{hint}"


def caution(first: str, second: str) -> str | None:
    """What to keep in mind where two definitions share an axis but not the revision."""
    a, b = DEFINITIONS.get(first), DEFINITIONS.get(second)
    if a is None or b is None or first == second or a.group != b.group or a.words == b.words:
        return None
    return f"Nearly the same quantity: {describe(first)}; {describe(second)}."


def vllm_definition(quantity: str, *, chat: bool | None = None, version: str | None = None) -> str:
    """The definition of a number of ``vllm bench serve``.

    Args:
        quantity: ttft, tpot, itl, e2el, or another quantity, which has one revision.
        chat: Whether the chat endpoint was used; None where the file does not say.
        version: vLLM's version such as ``0.33.1``, or None.

    Returns:
        ``vllm:<quantity>:<revision>``; revision 0 where the version decides and is not known.

    Source: vLLM 0.30 (end of stream) and 0.33 (role chunk of the chat endpoint).
    """
    release = _release(version)
    if quantity in ("ttft", "itl"):
        if chat is False:
            return f"vllm:{quantity}:2"
        if release is None:
            return f"vllm:{quantity}:0"
        return f"vllm:{quantity}:{2 if release >= (0, 33) else 1 if chat else 0}"
    if quantity in ("tpot", "e2el"):
        if release is None:
            return f"vllm:{quantity}:0"
        return f"vllm:{quantity}:{2 if release >= (0, 30) else 1}"
    return f"vllm:{quantity}:1"


def _release(version: str | None) -> tuple[int, int] | None:
    parts = (version or "").lstrip("v").split(".")
    if len(parts) < 2 or not all(part.isdigit() for part in parts[:2]):
        return None
    return int(parts[0]), int(parts[1])


def _without_first_token(value: float, further: Mapping[str, float]) -> float | None:
    tokens = further["output_len"]
    return (tokens * value - further["ttft_mean"]) / (tokens - 1) if tokens > 1 else None


_CONVERSIONS = (
    Conversion(
        "guidellm:tpot:1",
        "guidellm:itl:1",
        ("output_len", "ttft_mean"),
        "(tokens x value - mean TTFT)/(tokens - 1): exact for means when every answer has the "
        "same number of tokens.",
        _without_first_token,
    ),
)


def conversion(source: str, target: str) -> Conversion | None:
    """The exact conversion between two definitions, or None where there is none.

    A conversion leads to every definition of the target's group.
    """
    for row in _CONVERSIONS:
        if row.source == source and comparable(row.target, target) is None:
            return row
    return None
