"""What a vLLM server says of itself in its log: why it ended, and what it has.

A server that fails prints its reason once and a hundred lines of consequences after it. The rules
below look for the reason; without a match the first error that is not a mere consequence is shown.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TAIL_LINES = 40
_MAX_BYTES = 4_000_000
_PREFIX = re.compile(
    r"^(?:\([^)]*pid=\d+\)\s*)*(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+[\d-]+ [\d:]+ "
    r"\[[^\]]*\]\s?)?"
)
_CONSEQUENCE = re.compile(
    r"Engine core initialization failed|died unexpectedly|See root cause above|"
    r"WorkerProc initialization failed|EngineDeadError|cancelled|BrokenPipe|"
    r"Failed core proc|EngineCore encountered a fatal error"
)
_ERROR = re.compile(r"^(?:[A-Za-z_.]*\.)?([A-Z][A-Za-z]*(?:Error|Exception)): (.+)$")


@dataclass(frozen=True)
class Reason:
    """Why a server did not come up or ended.

    Attributes:
        code: For programs: bad_flag, model_too_long, no_kv_memory, port_taken and so on.
        sentence: For people, after "vLLM stopped before it was ready: ".
        next_step: What to try.
    """

    code: str
    sentence: str
    next_step: str


_Make = Callable[[re.Match[str]], tuple[str, str]]
_RULES: tuple[tuple[str, str, _Make], ...] = (
    (
        "bad_flag",
        r"error: unrecognized arguments: (.+)",
        lambda m: (
            f"this vLLM does not know {m[1].strip()}",
            "Leave that flag out, or install another vLLM.",
        ),
    ),
    (
        "bad_flag",
        r"error: argument (--[\w-]+)[^:]*: (.+)",
        lambda m: (f"the flag {m[1]} was refused ({m[2].strip()})", "Change that flag's value."),
    ),
    (
        "model_too_long",
        r"User-specified max_model_len \((\d+)\) is greater than the derived max_model_len \("
        r"\D*(\d+)",
        lambda m: (
            f"a context of {int(m[1]):,} tokens was asked for and the model allows {int(m[2]):,}",
            f"Set max-model-len to {int(m[2]):,} or less.",
        ),
    ),
    (
        "no_kv_memory",
        r"max seq len \((\d+)\), \(?([\d.]+) GiB KV cache is needed, which is larger than the "
        r"available KV cache memory \(([\d.]+) GiB\)",
        lambda m: (
            f"one request of {int(m[1]):,} tokens needs {m[2]} GiB of KV cache and {m[3]} GiB are "
            "left beside the weights",
            "Lower max-model-len, raise gpu-memory-utilization, or use more GPUs.",
        ),
    ),
    (
        "no_kv_memory",
        r"No available memory for the cache blocks",
        lambda m: (
            "the weights leave no memory for the KV cache",
            "Raise gpu-memory-utilization, choose a smaller model, or use more GPUs.",
        ),
    ),
    (
        "gpu_busy",
        r"Free memory on device [^(]*\(([\d.]+)/([\d.]+) GiB\) on startup is less than desired "
        r"(?:GPU|CPU) memory utilization \(([\d.]+), ([\d.]+) GiB\)",
        lambda m: (
            f"{m[4]} GiB were to be taken and {m[1]} of {m[2]} GiB are free",
            "End what uses that memory, or lower gpu-memory-utilization.",
        ),
    ),
    (
        "no_memory",
        r"(?:CUDA out of memory\.|OutOfMemoryError:)(?:.*?Tried to allocate ([\d.]+ \w+))?",
        lambda m: (
            f"GPU memory ran out{f' when {m[1]} were asked for' if m[1] else ''}",
            "Choose a smaller model, a shorter context or more GPUs.",
        ),
    ),
    (
        "port_taken",
        r"[Aa]ddress already in use",
        lambda m: ("its port is taken by another program", "Start it again: another port is used."),
    ),
    (
        "bad_tp",
        r"attention heads \((\d+)\) must be divisible by tensor parallel size \((\d+)\)",
        lambda m: (
            f"{m[1]} attention heads cannot be split over TP={m[2]}",
            "Choose a TP size that divides the heads.",
        ),
    ),
    (
        "no_model",
        r"(?:Can't load the configuration of|Repo id must|does not appear to have a file named|"
        r"is not a local folder and is not a valid model identifier|Invalid repository ID)",
        lambda m: (
            "the model was not found",
            "Check the folder, or download the model first where there is no network.",
        ),
    ),
    (
        "no_device",
        r"Failed to infer device type|No CUDA GPUs are available|no NVIDIA driver",
        lambda m: ("it found no device to run on", "Check the driver and the GPUs chosen."),
    ),
    (
        "nccl",
        r"(NCCL error[^\n]*|ncclUnhandledCudaError|ncclSystemError)",
        lambda m: (
            "the GPUs could not be connected (NCCL)",
            "Run the link check on the Hardware page first.",
        ),
    ),
)
_COMPILED = tuple((code, re.compile(pattern), make) for code, pattern, make in _RULES)


def plain(line: str) -> str:
    """A log line without the process and time in front of it."""
    return _PREFIX.sub("", line).rstrip()


def find_reason(text: str) -> Reason | None:
    """The reason for which the server ended, as far as its log tells."""
    lines = [plain(line) for line in text.splitlines()]
    body = "\n".join(lines)
    for code, pattern, make in _COMPILED:
        found = pattern.search(body)
        if found is not None:
            return Reason(code, *make(found))
    for line in lines:
        error = _ERROR.match(line.strip())
        if error is not None and not _CONSEQUENCE.search(line):
            return Reason("other", f"{error[1]}: {error[2][:300]}", "See the log's last lines.")
    return None


def read_log(path: Path) -> str:
    """The last megabytes of a log; empty where there is none yet."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _MAX_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def added(path: Path, begin: int) -> tuple[str, int]:
    """Whole lines that a log got after its first `begin` bytes, and where the next look begins."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(begin, size - _MAX_BYTES))
            whole, newline, _ = file.read().rpartition(b"\n")
    except OSError:
        return "", begin
    if not newline:
        return "", begin
    return whole.decode("utf-8", "replace"), max(begin, size - _MAX_BYTES) + len(whole) + 1


def tail(text: str, lines: int = TAIL_LINES) -> str:
    """The last lines that hold something, one string."""
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])


def facts(text: str) -> dict[str, str | int | float]:
    """What the server's log tells of its set-up; what it does not tell is absent.

    Returns:
        `version`, `kv_cache_tokens`, `weights_gib` (one GPU's), `graph_gib`, `attention`,
        `custom_all_reduce` ("off: why" where the engine switched it off by itself), `all_reduce`
        (what sums over the tensor-parallel group, in the order in which it is asked: CUSTOM is the
        engine's own kernel).
    """
    out: dict[str, str | int | float] = {}
    version = re.search(r"Initializing a V1 LLM engine \(v([^)]+)\)", text)
    if version:
        out["version"] = version[1]
    tokens = re.findall(r"KV cache size: ([\d,]+) tokens", text)
    if tokens:
        out["kv_cache_tokens"] = int(tokens[-1].replace(",", ""))
    weights = re.findall(r"Model loading took ([\d.]+) GiB", text)
    if weights:
        out["weights_gib"] = float(weights[-1])
    graphs = re.findall(r"Graph capturing finished in [\d.]+ secs?, took ([\d.-]+) GiB", text)
    if graphs:
        out["graph_gib"] = float(graphs[-1])
    attention = re.search(r"Using (\w+) (?:attention )?backend|for (\w+) backend", text)
    if attention:
        out["attention"] = attention[1] or attention[2]
    off = re.search(r"Custom allreduce is disabled ([^\n]+)", text)
    if off:
        out["custom_all_reduce"] = f"off: {off[1].strip()[:200]}"
    sums = re.search(r"Using \[([^\]\n]*)\] all-reduce backends .*for group 'tp", text)
    if sums:
        out["all_reduce"] = ", ".join(re.findall(r"\w+", sums[1]))
    return out
