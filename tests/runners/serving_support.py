"""A vLLM interpreter that is none: for faults that a real engine will not show on request."""

import sys
from pathlib import Path
from typing import Any

from runners.events import Events
from runners.spec import ServingSpec, parse_spec

FAKE = Path(__file__).parent / "fake_vllm"
SHAPE = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "vocab_size": 2048,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
}


def fake_python(folder: Path, fault: str = "", only: str = "") -> str:
    """An executable that starts Python with the stand-in as `vllm`.

    Args:
        folder: Where it is written.
        fault: What goes wrong.
        only: A word of the command line without which nothing does.
    """
    path = folder / f"python-{fault or 'fine'}"
    path.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        f"os.environ['PYTHONPATH'] = {str(FAKE)!r}\n"
        f"has_fault = {only!r} in ['', *sys.argv]\n"
        f"os.environ['FAKE_VLLM'] = {fault!r} if has_fault else ''\n"
        f"os.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:]])\n"
    )
    path.chmod(0o755)
    return str(path)


def serving_spec(folder: Path, fault: str = "", **changes: Any) -> ServingSpec:
    """A small serving job on the stand-in."""
    data: dict[str, Any] = {
        "kind": "serving",
        "device": "cpu",
        "model_config_json": SHAPE,
        "load_format": "dummy",
        "vllm_python": fake_python(folder, fault),
        "arm": {"tp": 1},
        "workloads": [{"concurrency": 2, "num_prompts": 6, "input_len": 8, "output_len": 5}],
        "warmup_round": False,
        "ready_time_limit_s": 30,
        "workload_time_limit_s": 30,
    }
    spec = parse_spec({**data, **changes})
    assert isinstance(spec, ServingSpec)
    return spec


def events(folder: Path) -> Events:
    return Events(str(folder / "events.jsonl"))
