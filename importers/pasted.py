"""Text as people paste it from terminals, forums and reports, made readable for the table readers.

Colour codes, carriage returns, quoting signs and odd blanks go; tabs stay, since empty cells of a
table can only be told by them.
"""

import re
from collections.abc import Iterable, Sequence

from models.result import Notice, Result

# escape sequences; the last form is what a forum leaves of a colour code when it drops the escape
_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]"
    r"|\[\d{0,2}(?:;\d{1,2})*m(?=[\s|]|GPU|Device|NIC|$)"
)
_QUOTE = re.compile(r"^(?:[ \t]*>(?=[ \t]|$|GPU))+ ?")
_BLANKS = str.maketrans({"\u00a0": " ", "\u2007": " ", "\u202f": " ", "\ufeff": "", "\u200b": ""})


def clean(text: str) -> str:
    """The text without what terminals and forums add; line and tab structure is kept."""
    plain = _ANSI.sub("", text.translate(_BLANKS))
    plain = plain.replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(_QUOTE.sub("", line) for line in plain.split("\n"))


def is_last_line(lines: Sequence[str], index: int) -> bool:
    """Whether nothing but blanks follows this line: only there may a paste be cut."""
    return all(not line.strip() for line in lines[index + 1 :])


def number(token: str) -> float | None:
    """A number in plain notation; None for anything else, NaN and Infinity included."""
    return float(token) if re.fullmatch(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", token) else None


def decimals(token: str) -> int:
    """Digits after the decimal point."""
    return len(token.partition(".")[2])


def notices(codes: Iterable[tuple[str, str]]) -> list[Notice]:
    """Warnings, each code and text once, in the order they arose."""
    return [Notice(code=code, text=text) for code, text in dict.fromkeys(codes)]


def numbered(results: list[Result], each: str = "machine") -> list[Result]:
    """The same results; where one text holds several, their titles tell them apart.

    Args:
        results: As they stand in the text.
        each: What one of them is.
    """
    if len(results) > 1:
        for k, result in enumerate(results, start=1):
            result.title = f"{result.title}, {each} {k} of {len(results)}"
    return results


def listed(names: Sequence[str]) -> str:
    """Names as a sentence says them: "a", "a and b", "a, b and c"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
