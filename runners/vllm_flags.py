"""Which engine flags a person may set: the installed vLLM's own list, cut down to a safe part.

`vllm serve --help=all` says which flags an installation knows and what values they take; `ALLOWED`
says which of them change only how fast or how large the engine runs. Flags that load code, open
files or sockets, or carry secrets stay out, and so do those that Linkworth sets itself.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from models.errors import InvalidSpec, RunnerUnavailable

ENTRY = ("-m", "vllm.entrypoints.cli.main")
PROBE_LIMIT_S = 180.0

# set by the arm, the model or the runner, so a pasted one is taken over or left out with a word
MANAGED = {
    "model": "the model is chosen beside the flags",
    "host": "the server listens on this machine only",
    "port": "a free port is chosen",
    "served-model-name": "the model keeps its own name",
    "tensor-parallel-size": "the arm's TP size",
    "load-format": "the choice of weights",
    "disable-custom-all-reduce": "the arm's custom all-reduce",
    "device-ids": "the arm's GPUs",
}
ALLOWED = frozenset(
    """
    dtype quantization max-model-len enforce-eager seed max-logprobs generation-config
    reasoning-parser tool-call-parser enable-auto-tool-choice default-chat-template-kwargs
    attention-backend mamba-backend mamba-cache-dtype mamba-cache-mode mamba-ssm-cache-dtype
    mamba-block-size gpu-memory-utilization kv-cache-dtype kv-cache-memory-bytes block-size
    num-gpu-blocks-override enable-prefix-caching prefix-caching-hash-algo cpu-offload-gb
    max-num-seqs max-num-batched-tokens enable-chunked-prefill long-prefill-token-threshold
    max-num-partial-prefills scheduling-policy async-scheduling stream-interval
    pipeline-parallel-size data-parallel-size enable-expert-parallel all2all-backend
    distributed-executor-backend enable-dbo numa-bind moe-backend linear-backend
    max-cudagraph-capture-size cudagraph-capture-sizes compilation-config optimization-level
    performance-mode disable-cascade-attn disable-sliding-window disable-hybrid-kv-cache-manager
    speculative-config spec-method spec-tokens language-model-only limit-mm-per-prompt
    safetensors-load-strategy enable-flashinfer-autotune disable-uvicorn-access-log
    shutdown-timeout revision tokenizer-mode enable-eplb swap-space
    """.split()
)
# the keys that a flag holding a JSON object may have: others can name code or files
JSON_KEYS = {
    "speculative-config": frozenset(
        "method num_speculative_tokens model draft_tensor_parallel_size prompt_lookup_max "
        "prompt_lookup_min max_model_len quantization revision".split()
    ),
    "compilation-config": frozenset(
        "mode level cudagraph_mode cudagraph_capture_sizes custom_ops max_cudagraph_capture_size "
        "use_inductor".split()
    ),
    "default-chat-template-kwargs": None,
    "limit-mm-per-prompt": None,
}

_NAME = re.compile(r"^[a-z][a-z0-9-]{0,63}$")
_OPTION = re.compile(r"--([a-z][a-z0-9-]*)")
_TEXT = re.compile(r"^[^-\x00-\x1f][^\x00-\x1f]{0,1999}$")
_NUMBER = re.compile(r"^-?\d+(\.\d+)?$")


@dataclass(frozen=True)
class Flag:
    """One flag of an installed vLLM.

    Attributes:
        name: Without the dashes.
        takes_value: False for a switch.
        choices: The values it accepts, where the help lists them all.
        many: Whether it takes several values.
    """

    name: str
    takes_value: bool
    choices: tuple[str, ...] = ()
    many: bool = False


def parse_help(text: str) -> dict[str, Flag]:
    """Read the flags from the text of `vllm serve --help=all`."""
    flags: dict[str, Flag] = {}
    for line in text.splitlines():
        # an option stands at two blanks; its description is far to the right or on the next line
        if not line.startswith("  --"):
            continue
        head = re.split(r"\s{3,}", line.strip())[0]
        first = _OPTION.match(head)
        if first is None:
            continue
        rest = head.split(",")[0].removeprefix(f"--{first[1]}").strip() if "{" not in head else ""
        braces = re.match(r"--[a-z0-9-]+ \[?\{([^}]*)\}?", head)
        if braces is not None:
            complete = "}" in head
            choices = tuple(braces[1].split(",")) if complete else ()
        else:
            choices = ()
        for name in _OPTION.findall(head):
            if not name.startswith("no-"):
                flags[name] = Flag(
                    name=name,
                    takes_value=bool(rest or braces),
                    choices=choices,
                    many="..." in head,
                )
    return flags


def vllm_version(python: str) -> str:
    """The version that vLLM states in this interpreter.

    Raises:
        RunnerUnavailable: There is no such interpreter, or it has no vLLM.
    """
    code = "import importlib.metadata as m; print(m.version('vllm'))"
    try:
        out = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunnerUnavailable(
            f"The interpreter for vLLM cannot be started: {python}.",
            "Install vLLM with `make vllm`, or name its interpreter in the settings.",
            detail=str(error),
        ) from None
    if out.returncode != 0 or not out.stdout.strip():
        raise RunnerUnavailable(
            f"There is no vLLM in {python}.",
            "Install it with `make vllm`, or name an interpreter that has it in the settings.",
            detail=out.stderr[-2000:],
        )
    return out.stdout.strip()


@lru_cache(maxsize=4)
def probe(python: str) -> dict[str, Flag]:
    """The flags of the vLLM in this interpreter; asked once a version, then read from a file.

    Raises:
        RunnerUnavailable: It cannot be asked.
    """
    version = vllm_version(python)
    store = _store(python, version)
    try:
        known = json.loads(store.read_text(encoding="utf-8"))
        return {row["name"]: Flag(**{**row, "choices": tuple(row["choices"])}) for row in known}
    except (OSError, ValueError, TypeError, KeyError):
        pass  # not asked yet, or written by another version of this program
    try:
        out = subprocess.run(
            [python, *ENTRY, "serve", "--help=all"],
            capture_output=True,
            text=True,
            timeout=PROBE_LIMIT_S,
            check=False,
            env={**os.environ, "COLUMNS": "200", "HF_HUB_OFFLINE": "1"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunnerUnavailable(
            "vLLM did not list its flags in time.",
            "Start `vllm serve --help=all` by hand to see why.",
            detail=str(error),
        ) from None
    flags = parse_help(out.stdout)
    if out.returncode != 0 or "max-model-len" not in flags:
        raise RunnerUnavailable(
            f"vLLM {version} did not list its flags.",
            "Start `vllm serve --help=all` by hand to see why.",
            detail=(out.stderr or out.stdout)[-2000:],
        )
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        draft = store.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps([asdict(flag) for flag in flags.values()]), encoding="utf-8")
        draft.replace(store)
    except OSError:
        pass  # a read-only home only costs the seconds of the next question
    return flags


def settable(known: Mapping[str, Flag] | None) -> list[str]:
    """Names a form may offer: the allowed flags that this vLLM knows, all allowed ones unprobed."""
    return sorted(ALLOWED if known is None else ALLOWED & known.keys())


def engine_arguments(args: Mapping[str, Any], known: Mapping[str, Flag] | None = None) -> list[str]:
    """Turn an arm's flags into command line arguments.

    Args:
        args: Flag name (with - or _) to value; true and false set a switch, null leaves it out.
        known: The installed vLLM's flags; None skips the check against them.

    Raises:
        InvalidSpec: A flag is not allowed, not known to this vLLM, or its value does not fit.
    """
    out: list[str] = []
    for given, value in args.items():
        name = normal(given)
        refuse(name, known)
        if value is None:
            continue
        if isinstance(value, bool):
            if known is not None and known[name].takes_value:
                raise InvalidSpec(f"The engine flag --{name} needs a value.")
            out.append(f"--{name}" if value else f"--no-{name}")
            continue
        if known is not None and not known[name].takes_value:
            raise InvalidSpec(f"The engine flag --{name} is a switch and takes no value.")
        text = str(value)
        _check_value(name, text, known[name].choices if known else ())
        values = text.split() if known is not None and known[name].many else [text]
        out += [f"--{name}", *values]
    return out


def normal(name: str) -> str:
    """A flag's name as the command line spells it, without dashes in front."""
    return name.strip().removeprefix("--").replace("_", "-")


def refuse(name: str, known: Mapping[str, Flag] | None = None) -> None:
    """Raise unless a person may set this flag.

    Raises:
        InvalidSpec: Says which flag and why.
    """
    if not _NAME.fullmatch(name):
        raise InvalidSpec(f"{name!r} is no name of an engine flag.")
    if name in MANAGED:
        raise InvalidSpec(
            f"The engine flag --{name} is set by Linkworth: {MANAGED[name]}.",
            "Leave it out and use the form's field.",
        )
    if name not in ALLOWED:
        raise InvalidSpec(
            f"The engine flag --{name} is not on the list of flags that may be set here.",
            "Leave it out, or start the server yourself and benchmark it by its URL.",
        )
    if known is not None and name not in known:
        raise InvalidSpec(
            f"The installed vLLM has no flag --{name}.", "Leave it out, or install another vLLM."
        )


def _check_value(name: str, text: str, choices: Iterable[str]) -> None:
    if not _TEXT.fullmatch(text) and not _NUMBER.fullmatch(text):
        raise InvalidSpec(f"The value {text!r} of the engine flag --{name} is not acceptable.")
    allowed = tuple(choices)
    if allowed and text not in allowed:
        raise InvalidSpec(
            f"The engine flag --{name} does not take {text!r}.",
            f"It takes {', '.join(allowed)}.",
        )
    if name in JSON_KEYS:
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise InvalidSpec(f"The engine flag --{name} needs a JSON object in braces.")
        keys = JSON_KEYS[name]
        foreign = sorted(set(content) - keys) if keys is not None else []
        if foreign:
            raise InvalidSpec(f"The key {foreign[0]!r} in --{name} may not be set here.")


def cache_folder() -> Path:
    """Where what was learnt of an installation is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "linkworth"


def _store(python: str, version: str) -> Path:
    mark = f"{Path(python).absolute().parent.parent.name}-{version}"
    return cache_folder() / f"vllm-flags-{re.sub(r'[^A-Za-z0-9.+-]', '_', mark)}.json"
