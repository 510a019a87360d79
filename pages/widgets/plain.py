"""Foreign text inside markdown: titles, reasons and names that came from files, tools or people.

Whatever enters ``st.markdown`` and its kin (captions, headings, messages, labels of widgets) is
markdown. A title may hold a link, a picture, ``:material/…:`` or ``<img onerror=…>``: it must be
read as text, stay on one line, and not fill the page.
"""

import re

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
# replaced in the finished text, after escapes are gone: emoji and icon names, addresses, arrows
_LATE = re.compile(r":(?=[\w+/-]+:)|:(?=//)|(?<=\bwww)\.|(?<=\w)@|(?<=[<-])[->]|(?<=[<>~])=")
_JOINER = "\u2060"  # invisible, and no line breaks there
LIMIT = 300


def plain(text: object, limit: int = LIMIT) -> str:
    r"""Text for a place that reads markdown, shown as it is.

    Args:
        text: Anything; None is empty.
        limit: Characters that are shown; the rest is an ellipsis.

    Returns:
        One line in which every sign that markdown could take for markup is escaped.
    """
    if text is None:
        return ""
    cut = str(text)[: 4 * limit + 1]  # a megabyte need not be looked at
    line = " ".join("".join(c if c.isprintable() else " " for c in cut).split())
    if len(line) > limit or len(str(text)) > len(cut):
        line = line[: limit - 1].rstrip() + "…"
    line = _LATE.sub(lambda found: f"{_JOINER}{found[0]}", line)
    return _PUNCTUATION.sub(r"\\\1", line)
