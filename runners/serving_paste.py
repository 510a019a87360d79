"""A pasted `vllm serve` line taken apart, and any run's commands for copying. No shell anywhere."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.errors import InvalidSpec
from runners.spec import ServingSpec, SoakSpec
from runners.vllm_command import bench_command, serve_command
from runners.vllm_flags import MANAGED, Flag, engine_arguments, normal, refuse

# a hub id: owner/name, each part starting with a letter or digit
HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}$")
_ASSIGNMENT = re.compile(r"^([A-Z_][A-Z0-9_]*)=(.*)$", re.DOTALL)
_LONGEST_NAME = 1000
_SHORT = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-q": "quantization",
    "-sc": "speculative-config",
    "-cc": "compilation-config",
}
_ON = {"1", "true", "yes"}
PORT_SHOWN = 8000  # a free one is chosen at every start; a fixed one reads better


@dataclass
class Pasted:
    """What a pasted line says.

    Attributes:
        model: Folder or id.
        tp: Tensor-parallel size.
        gpus: From CUDA_VISIBLE_DEVICES.
        link: ``off`` where NCCL_P2P_DISABLE was set.
        custom_all_reduce: Whether the kernel is left on.
        load_format: ``dummy`` or ``auto``.
        engine_args: Flags that may be set.
        refused: Sentences: flags and variables that were left out, and why.
    """

    model: str | None = None
    tp: int = 1
    gpus: list[int | str] = field(default_factory=list)
    link: str | None = None
    custom_all_reduce: bool = True
    load_format: str = "auto"
    engine_args: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)


def parse_serve_line(text: str, known: Mapping[str, Flag] | None = None) -> Pasted:
    """Take a `vllm serve …` line apart.

    Args:
        text: The line, with variables in front, continuation marks and quotes as in a terminal.
        known: The installed vLLM's flags, to tell switches from flags with a value.

    Raises:
        InvalidSpec: It is no such line, or its quotes do not match.
    """
    try:
        words = shlex.split(text.replace("\\\r\n", " ").replace("\\\n", " "), comments=True)
    except ValueError:
        raise InvalidSpec(
            "The quotes in this line do not match.", "Paste the whole command again."
        ) from None
    pasted = Pasted()
    words = _variables(words, pasted)
    words = _program(words, pasted)
    place = 0
    while place < len(words):
        word = words[place]
        if not word.startswith("-"):
            if pasted.model is None and place == 0:
                pasted.model = word
            else:
                pasted.refused.append(f"{word!r} stands alone and was left out.")
            place += 1
            continue
        name, value, place = _flag(words, place, known)
        _take(pasted, name, value, known)
    return pasted


def _variables(words: list[str], pasted: Pasted) -> list[str]:
    """Read the assignments in front of the program."""
    while words and (words[0] in ("env", "export") or _ASSIGNMENT.match(words[0])):
        found = _ASSIGNMENT.match(words.pop(0))
        if found is None:
            continue
        name, value = found[1], found[2]
        if name == "CUDA_VISIBLE_DEVICES":
            names = [part.strip() for part in value.split(",") if part.strip()]
            pasted.gpus = [int(part) if part.isdigit() else part for part in names]
        elif name == "NCCL_P2P_DISABLE":
            pasted.link = "off" if value.strip().lower() in _ON else None
        elif name != "CUDA_DEVICE_ORDER":
            pasted.refused.append(
                f"The variable {name} was left out: set it where Linkworth is started."
            )
    return words


def _program(words: list[str], pasted: Pasted) -> list[str]:
    """Strip `vllm serve`, or the older module, from the front."""
    if words[:2] == ["vllm", "serve"]:
        return words[2:]
    for module in ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.cli.main"):
        if module in words[:4]:
            rest = words[words.index(module) + 1 :]
            return rest[1:] if rest[:1] == ["serve"] else rest
    raise InvalidSpec(
        "This is no `vllm serve` line.", "Paste a line such as: vllm serve MODEL --max-model-len …"
    )


def _flag(
    words: Sequence[str], place: int, known: Mapping[str, Flag] | None
) -> tuple[str, str | bool, int]:
    """One flag's name and value, and where the next word is."""
    word = words[place]
    if "=" in word and word.startswith("--"):
        head, value = word.split("=", 1)
        return normal(head), value, place + 1
    name = _SHORT.get(word) or normal(word)
    following = words[place + 1] if place + 1 < len(words) else None
    flag = known.get(name.removeprefix("no-")) if known else None
    if flag is not None and not flag.takes_value:
        return name, True, place + 1
    values = []
    at = place + 1
    while at < len(words) and not (words[at].startswith("-") and not _is_number(words[at])):
        values.append(words[at])
        at += 1
        if flag is None or not flag.many:
            break
    if following is None or not values:
        return name, True, place + 1
    return name, " ".join(values), at


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", word) is not None


def _take(pasted: Pasted, name: str, value: str | bool, known: Mapping[str, Flag] | None) -> None:
    if name == "tensor-parallel-size":
        if isinstance(value, str) and value.isdigit() and int(value) >= 1:
            pasted.tp = int(value)
        else:
            pasted.refused.append(f"--{name} {value} is no number of GPUs.")
    elif name == "model" and isinstance(value, str):
        pasted.model = value
    elif name == "load-format":
        pasted.load_format = "dummy" if value == "dummy" else "auto"
    elif name == "disable-custom-all-reduce":
        pasted.custom_all_reduce = False
    elif name in MANAGED:
        pasted.refused.append(f"--{name} was left out: {MANAGED[name]}.")
    else:
        plain = name.removeprefix("no-") if value is True else name
        setting: str | bool = False if plain != name else value
        try:
            refuse(plain, known)
            engine_arguments({plain: setting}, known)
        except InvalidSpec as error:
            pasted.refused.append(str(error))
        else:
            pasted.engine_args[plain] = setting


def allowed_model(model: str, roots: Sequence[Path]) -> str:
    """The model as it may be served: a hub id, or a folder below an allowed root.

    Raises:
        InvalidSpec: It is neither, or leads out of the roots.
    """
    name = model.strip()
    if name.startswith("-") or not name:
        raise InvalidSpec("A model's name does not start with a dash.", "Choose a model.")
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise InvalidSpec(
            "This is no name of a model: it is too long, or holds signs that no name has.",
            "Name a hub id such as owner/name, or a folder below an allowed folder.",
        )
    for root in roots:
        base = root.expanduser().resolve()
        path = (base / name).resolve() if not Path(name).is_absolute() else Path(name).resolve()
        if path.is_relative_to(base) and (path / "config.json").is_file():
            return str(path)
    if HUB_ID.fullmatch(name) and not Path(name).is_absolute():
        return name
    where = ", ".join(str(root) for root in roots) or "none is set (LINKWORTH_MODEL_ROOTS)"
    raise InvalidSpec(
        f"{name} is neither a hub id nor a model folder below an allowed folder.",
        f"Allowed folders: {where}.",
    )


def commands(spec: ServingSpec | SoakSpec | Mapping[str, Any]) -> list[str]:
    """The exact commands of a run, one line each, for reading and copying.

    Raises:
        InvalidSpec: The spec cannot be carried out.
    """
    from runners.spec import parse_spec

    known = parse_spec(dict(spec)) if isinstance(spec, Mapping) else spec
    if not isinstance(known, ServingSpec | SoakSpec):
        raise InvalidSpec("Only serving runs have serving commands.")
    model = known.model or f"./{known.model_name or 'model'}"
    url = known.base_url or f"http://127.0.0.1:{PORT_SHOWN}"
    lines = []
    if known.base_url is None:
        tp = known.arm.tp
        for part in range(known.arm.replicas):
            gpus = known.arm.gpus[part * tp : (part + 1) * tp]
            command = serve_command(
                known, model, python="python", port=PORT_SHOWN + part, gpus=gpus
            )
            lines.append(command.text())
    loads = known.workloads if isinstance(known, ServingSpec) else [known.workload]
    first = known.round if isinstance(known, ServingSpec) else 0
    for load in loads:
        if load.scenario not in ("abnormal", "soak"):
            command = bench_command(
                load, python="python", base_url=url, model=model, seed=known.seed + first
            )
            lines.append(command.text())
    return lines
