"""Bytes to text: byte-order marks, encodings, line ends, colour codes, quoting, limits.

Nothing here knows a format. What cannot be a text at all is refused with a sentence.
"""

import codecs
import re

from models.errors import UnreadableFile

MAX_BYTES = 64 * 1024 * 1024  # a detailed run of 2,000 requests has about 20 MB

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its mark begins with the same two bytes
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE = 4096  # bytes looked at to tell UTF-16 without a mark and binary files
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff\u200b\u2028\u2029]")
_QUOTE = re.compile(r"^ ?> ?", re.MULTILINE)
_WEB_PAGE = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE
)
_DECIMAL_COMMA = re.compile(r"(?<![\d.,])\d+,\d+(?![\d,])")


def refusal(code: str, sentence: str, next_step: str = "") -> UnreadableFile:
    """The error of a file that cannot be used; ``detail`` holds the code for programs."""
    return UnreadableFile(sentence, next_step, detail=code)


def megabytes(size: int) -> str:
    """A size in words."""
    return f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def check_size(size: int) -> None:
    """Refuse what is too large before it is read.

    Raises:
        UnreadableFile: Above the limit.
    """
    if size > MAX_BYTES:
        raise refusal(
            "too_large",
            f"This file has {megabytes(size)}; files above {megabytes(MAX_BYTES)} are not read.",
            "Import the tool's summary file, or save without per-request details.",
        )


def decode(data: bytes) -> str:
    """The text of a file: UTF-8 or UTF-16, no colour codes, lines that end with a line feed.

    Raises:
        UnreadableFile: Empty, too large, binary, or a web page.
    """
    check_size(len(data))
    if not data.strip(b" \t\r\n\0"):
        raise refusal("empty", "This file is empty.", "Check that the benchmark wrote its result.")
    text = _plain(_characters(data))
    if not text.strip():
        raise refusal("empty", "This file holds no text.", "Check that the benchmark wrote it.")
    if _WEB_PAGE.match(text):
        raise refusal(
            "web_page",
            "This is a web page, not a result file.",
            "Download the raw file; a page that asks for a login is often saved in its place.",
        )
    return text


def _characters(data: bytes) -> str:
    for mark, codec in _BOMS:
        if data.startswith(mark):
            return data.decode(codec, errors="replace")
    head = data[:_SAMPLE]
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if max(even, odd) * 4 > len(head) and min(even, odd) * 20 <= max(even, odd):
        return data.decode("utf-16-le" if odd > even else "utf-16-be", errors="replace")
    data = data.rstrip(b"\0")  # padding of a block device or a cut download
    if data[:_SAMPLE].count(0) or sum(byte < 9 or 13 < byte < 27 for byte in head) * 10 > len(head):
        raise refusal(
            "binary",
            "This is a binary file; results are JSON, CSV or text.",
            "Import the JSON file or the printed table that the tool wrote.",
        )
    return data.decode("utf-8", errors="replace")


def _plain(text: str) -> str:
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", text)


def unquoted(text: str) -> str:
    """The text without the ``>`` marks of a quoted mail or forum post."""
    for _ in range(4):  # quotes of quotes
        lines = [line for line in text.split("\n") if line.strip()]
        marked = sum(line.lstrip().startswith(">") for line in lines)
        if not lines or marked * 2 < len(lines):
            break
        text = _QUOTE.sub("", text)
    return text


def has_decimal_comma(text: str) -> bool:
    """Whether a number is written with a comma, which may mean thousands or decimals."""
    return _DECIMAL_COMMA.search(text) is not None


def decimal_comma(where: str) -> UnreadableFile:
    """The refusal of numbers that are written with a comma."""
    return refusal(
        "decimal_comma",
        f"A number is written with a comma ({where.strip()!r}): it may mean thousands or decimals.",
        "Export again with English number format.",
    )
