"""Foreign text inside markdown: titles, reasons and names that came from files, tools or people.

Whatever enters ``st.markdown`` and its kin (captions, headings, messages, labels of widgets) is
markdown. A title may hold a link, a picture, ``:material/…:`` or ``<img onerror=…>``: it must be
read as text, stay on one line, and not fill the page.
"""

import re

LIMIT = 300
# signs that mean something anywhere in a line; a colon before a letter, an underscore at a word's
# edge and an ampersand before a name are markup, elsewhere they are what they look like
_MARKUP = re.compile(r"[\\`*\[\]<~$]|:(?=[a-zA-Z])|(?<![^\W_])_|_(?![^\W_])|&(?=[#\w])")
_AT_THE_START = re.compile(r"([-+=#>])|(\d{1,9})([.)])(?=\s|$)")
# what Streamlit replaces in the finished text, after escapes are gone: emoji and icon names,
# addresses, arrows. An invisible sign between keeps their parts from meeting.
_LATE = re.compile(
    r"(?<=:)(?=[\w+/-]+:|//)|(?<=\bwww)(?=\.)|(?<=\w)(?=@\w)|(?<=[<-])(?=[->])|(?<=[<>~])(?==)"
)
_JOINER = "\u2060"  # invisible, and no line breaks there


def plain(text: object, limit: int = LIMIT) -> str:
    r"""Text for a place that reads markdown, shown as it is.

    Args:
        text: Anything; None is empty.
        limit: Characters that are shown; the rest is an ellipsis.

    Returns:
        One line in which every sign that could be taken for markup is escaped.
    """
    if text is None:
        return ""
    whole = str(text)
    cut = whole[: 4 * limit]  # a megabyte need not be looked at
    line = " ".join("".join(c if c.isprintable() else " " for c in cut).split())
    if len(line) > limit or len(whole) > len(cut):
        line = line[: limit - 1].rstrip() + "…"
    line = _LATE.sub(_JOINER, line)
    line = _MARKUP.sub(lambda found: f"\\{found[0]}", line)
    return _AT_THE_START.sub(_escaped_start, line, count=1) if _AT_THE_START.match(line) else line


def _escaped_start(found: re.Match[str]) -> str:
    return f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}"
