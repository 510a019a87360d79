"""Names that hold secrets, and what is left of data once they are taken out.

A variable is a secret when its name holds one of six words: strict, because a lost setting does
less harm than a stored password. Nested data (a spec, a model's config, an imported file) is full
of innocent ``max_num_batched_tokens`` and ``num_key_value_heads``: there counts stay, and a few
names of model configs.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

SECRET_WORDS = ("TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL", "AUTH")
REMOVED = "(removed)"

# a number under such a name is a PIN, not a count
_NEVER_A_COUNT = ("SECRET", "PASSWORD", "CREDENTIAL")
_INNOCENT = re.compile(
    r"tokenizer.*|(bos|eos|pad|unk|sep|cls|mask|bot|eot|image|video|audio)_token|.*key_value.*"
    r"|authors?",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(r"(?P<name>-{0,2}[A-Za-z][A-Za-z0-9_-]*)(?P<sign>=)(?P<value>\S+)")
_FLAG = re.compile(r"--?[A-Za-z][A-Za-z0-9_-]*")
_KNOWN_FORMS = (
    re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]+(?=@)"),  # user:password of a URL
    re.compile(r"(?<=\bBearer )\S+", re.IGNORECASE),
    re.compile(r"\b(hf|ghp|gho|sk)[_-][A-Za-z0-9_-]{20,}"),
)
_LINE_VALUE = re.compile(
    r"(?P<head>[\"']?(?P<name>[A-Za-z][A-Za-z0-9_.-]*)[\"']?\s*[:=]\s*)"
    r"(?P<value>\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[^\s,;}\]]+)"
)


def is_secret(name: str) -> bool:
    """Whether a variable of this name must never be stored."""
    upper = name.upper()
    return any(word in upper for word in SECRET_WORDS)


def scrub(mapping: Mapping[str, Any], *, strict: bool = False) -> dict[str, Any]:
    """A copy of nested data without its secrets.

    Args:
        mapping: Data as JSON has it; not changed.
        strict: Drop every name that ``is_secret`` names, innocent or not: for environments.

    Returns:
        The same data; entries of secret names are gone, secrets inside texts read "(removed)".
    """
    return {
        str(name): _clean(value, strict)
        for name, value in mapping.items()
        if not is_secret(str(name)) or (not strict and _innocent(str(name), value))
    }


def scrub_text(text: str) -> str:
    """A text without passwords in URLs, bearer values, and assignments to secret names."""
    for form in _KNOWN_FORMS:
        text = form.sub(REMOVED, text)
    if "=" not in text:
        return text
    return _ASSIGNED.sub(
        lambda found: (
            f"{found['name']}={REMOVED}"
            if is_secret(found["name"]) and not _innocent(found["name"], found["value"])
            else found[0]
        ),
        text,
    )


def scrub_bytes(data: bytes) -> bytes:
    """The bytes of a file without its secrets; the very same bytes where it has none.

    JSON keeps its structure; other text loses the values of secret names line by line.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        cleaned = _LINE_VALUE.sub(_without_value, text)
        cleaned = "".join(scrub_text(line) for line in cleaned.splitlines(keepends=True))
        return data if cleaned == text else cleaned.encode()
    cleaned_content = _clean(content, False)
    return data if cleaned_content == content else json.dumps(cleaned_content, indent=1).encode()


def _without_value(found: re.Match[str]) -> str:
    value: Any = found["value"]
    if re.fullmatch(r"-?[\d.]+", value):
        value = 0  # any number: a count under most of the names
    if not is_secret(found["name"]) or _innocent(found["name"], value):
        return found[0]
    return f"{found['head']}{REMOVED}"


def _innocent(name: str, value: Any) -> bool:
    """Whether a name that sounds secret holds a count, a flag, or a known word of model configs."""
    if value is None or isinstance(value, bool):
        return True
    upper = name.upper()
    if any(word in upper for word in _NEVER_A_COUNT):
        return False
    name = name.lstrip("-").replace("-", "_")
    return _INNOCENT.fullmatch(name) is not None or _only_numbers(value)


def _only_numbers(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_only_numbers(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(_only_numbers(item) for item in value)
    return value is None or isinstance(value, int | float)


def _clean(value: Any, strict: bool) -> Any:
    if isinstance(value, Mapping):
        return scrub(value, strict=strict)
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, list | tuple):
        return _clean_list(list(value), strict)
    return value


def _clean_list(items: list[Any], strict: bool) -> list[Any]:
    if all(type(item) in (int, float) for item in items):
        return items
    cleaned: list[Any] = []
    for item in items:
        before = cleaned[-1] if cleaned else None
        # a command line: the value stands behind its flag
        is_value = (
            isinstance(item, str)
            and isinstance(before, str)
            and _FLAG.fullmatch(before) is not None
            and is_secret(before)
            and not _innocent(before, item)
            and not item.startswith("-")
            and not item.isdigit()
        )
        cleaned.append(REMOVED if is_value else _clean(item, strict))
    return cleaned
