"""Foreign text inside markdown: every sign that could be markup is escaped, and little is shown."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pages.widgets.plain import LIMIT, plain

JOINER = "\u2060"
SIGNS = st.text(alphabet="ab1 \\`*_{}[]()<>#+-.!|~$:&=@/w\n\t\x00\u2028é", max_size=60)


def read(text: str) -> str:
    """The finished text of a line in which every sign of markup is escaped."""
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text).replace(JOINER, "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GPU 0 (x16), 50 % - ok: 3.5", "GPU 0 (x16), 50 % - ok: 3.5"),  # nothing to escape
        ("NCCL_P2P_DISABLE=1", "NCCL_P2P_DISABLE=1"),
        ("<img src=x onerror=alert(1)>", r"\<img src=x onerror=alert(1)>"),
        ("[here](x)", r"\[here\](x)"),
        ("![picture](x)", r"!\[picture\](x)"),
        ("**bold** `code`", r"\*\*bold\*\* \`code\`"),
        ("__init__", r"\_\_init\_\_"),
        ("$x$ ~y~", r"\$x\$ \~y\~"),
        ("1. item", r"1\. item"),
        ("# head", r"\# head"),
        ("- item", r"\- item"),
        ("> quote", r"\> quote"),
        (":red[x]", r"\:red\[x\]"),
        (":material/delete:", f":{JOINER}material/delete:"),
        (":smile:", f":{JOINER}smile:"),
        ("https://evil.example", f"https:{JOINER}//evil.example"),
        ("a -> b", f"a -{JOINER}> b"),
        ("&copy; AT&T & Co", r"\&copy; AT\&T & Co"),
        (r"\*", r"\\\*"),
        ("one\ntwo\r\n\n  three\x00\u2028four", "one two three four"),
        (None, ""),
        (3.5, "3.5"),
    ],
)
def test_what_is_escaped(text: object, shown: str) -> None:
    assert plain(text) == shown


@given(SIGNS)
@settings(max_examples=300, deadline=None)
def test_the_text_that_is_read_is_the_text_that_was_given(text: str) -> None:
    words = "".join(c if c.isprintable() else " " for c in text).split()
    assert read(plain(text)) == " ".join(words)


@given(SIGNS)
@settings(max_examples=300, deadline=None)
def test_no_markup_is_left(text: str) -> None:
    shown = plain(text)
    bare = re.sub(r"\\.", "\x01", shown)  # without what is escaped
    assert not re.search(r"[`*\[\]<~$\n]", bare)
    assert not re.search(r":[a-zA-Z]", bare)
    assert not re.search(r":[\w+/-]+:|://", bare)
    assert not re.match(r"[-+=#>]|\d+[.)](\s|$)", shown)


def test_a_megabyte_is_a_line() -> None:
    shown = plain("<" * 1_000_000)
    assert len(shown) <= 2 * LIMIT
    assert shown.endswith("…")
    assert plain("x" * LIMIT) == "x" * LIMIT
    assert len(plain("x" * (LIMIT + 1))) == LIMIT
    assert plain("\n" * 1_000_000 + "x") == "…"  # what is not looked at is not hidden
