"""Models' config.json files: the built-in shapes, and what a person uploads.

The built-in files hold the public configuration values of the named models; weights are not part
of them.
"""

import json
from pathlib import Path
from typing import Any

from models.errors import UnreadableFile

BUILTIN_DIR = Path(__file__).resolve().parents[1] / "data" / "models"

MAX_BYTES = 1_000_000  # the largest public config.json is a tenth of this
MAX_DEPTH = 12

_STEP = "Upload the config.json that lies beside the model's weights."


def builtin_configs() -> dict[str, dict[str, Any]]:
    """Name of each built-in shape -> its config.json content, in order of file name."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(BUILTIN_DIR.glob("*.json"))
    }


def read_upload(data: bytes) -> dict[str, Any]:
    """Decode an uploaded config.json.

    Args:
        data: The file's bytes.

    Returns:
        The JSON object.

    Raises:
        UnreadableFile: Too large, not UTF-8, not JSON, too deeply nested, or not an object.
    """
    if len(data) > MAX_BYTES:
        raise UnreadableFile(
            f"This file has {len(data) / 1e6:.1f} MB; a model's config.json has a few kB.", _STEP
        )
    try:
        content = json.loads(data.decode("utf-8-sig"), parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise UnreadableFile("This file is not text, so it is no config.json.", _STEP) from None
    except RecursionError:
        raise UnreadableFile("This file is nested too deeply for a config.json.", _STEP) from None
    except ValueError as error:
        raise UnreadableFile("This file is not JSON.", _STEP, detail=str(error)) from None
    if not isinstance(content, dict):
        raise UnreadableFile("A config.json holds an object with named values.", _STEP)
    if _depth(content) > MAX_DEPTH:
        raise UnreadableFile("This file is nested too deeply for a config.json.", _STEP)
    return content


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _depth(value: Any) -> int:
    """Levels of nesting, counted without recursion so that a hostile file cannot exhaust it."""
    deepest, stack = 0, [(value, 1)]
    while stack:
        node, level = stack.pop()
        deepest = max(deepest, level)
        children = node.values() if isinstance(node, dict) else node
        if isinstance(node, dict | list):
            stack.extend((child, level + 1) for child in children)
    return deepest
