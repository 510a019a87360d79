"""The table of definitions: what each tool means by its words, one line each.

History of what changed a meaning: vLLM 0.30 ended the stream's last chunk (TPOT, E2EL), vLLM 0.33
the role chunk of the chat endpoint (TTFT, ITL). Source: the tools' own code and documentation.
"""

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


_FIRST_TEXT = "from sending to the first non-empty text"
_WALL = "of successful requests over the wall time from first sending to last answer"

_SERVING_TOOLS = (
    "vllm", "sglang", "lmdeploy", "inferencex", "guidellm", "aiperf", "linkworth",
)  # fmt: skip

TABLE = (
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
    *(
        Definition(f"{tool}:{name}:1", name, f"count-{name}", f"{what} of requests that succeeded")
        for name, what in (
            ("completed", "number"),
            ("input_tokens", "prompt tokens"),
            ("output_tokens", "generated tokens"),
        )
        for tool in _SERVING_TOOLS
    ),
    *(
        Definition(f"{tool}:failed:1", "failed", "count-failed", "number of requests that failed")
        for tool in _SERVING_TOOLS
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
