"""Every picture is valid Vega-Lite: the app itself does not check, because it takes so long."""

import ast
from pathlib import Path

import altair as alt
import pandas as pd
import pytest

from pages import PAGES
from pages.widgets import downloads

ROOT = Path(__file__).resolve().parents[2]
# pages that draw from the shipped studies
DRAWING = ("overview", "hardware", "allreduce", "speedup", "link-ab", "what-if", "roi")


@pytest.mark.parametrize("slug", PAGES)
def test_pictures_are_valid(slug, database, open_page, monkeypatch):
    checked = []

    class Checked(downloads._Ready):
        def to_dict(self):
            checked.append(1)
            return self._drawing.to_dict(validate=True)

    monkeypatch.setattr(downloads, "_Ready", Checked)
    at = open_page(slug)
    assert not at.exception
    assert bool(checked) or slug not in DRAWING


def test_a_wrong_picture_would_be_found():
    drawing = alt.Chart(pd.DataFrame({"a": [1]})).mark_bar().encode(x=alt.X("a:Q"))
    drawing["height"] = "tall"
    assert downloads._Ready(drawing).to_dict()["height"] == "tall"
    with pytest.raises(alt.utils.schemapi.SchemaValidationError):
        drawing.to_dict(validate=True)


def shorthands(path: Path) -> list[str]:
    """Texts that stand where a channel belongs: ``encode(x="ms:Q")``."""
    found = []
    for call in ast.walk(ast.parse(path.read_text())):
        is_encode = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if not is_encode or call.func.attr != "encode":
            continue
        for keyword in call.keywords:
            value = keyword.value
            several = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
            found += [
                f"{path.name}:{one.lineno} {keyword.arg}"
                for one in several
                if isinstance(one, ast.JoinedStr)
                or (isinstance(one, ast.Constant) and isinstance(one.value, str))
            ]
    return found


def test_channels_are_objects() -> None:
    """Altair takes 4 ms to guess what a text means, every time; a page has dozens of them."""
    files = sorted((ROOT / "pages").rglob("*.py"))
    assert ROOT / "pages" / "charts" / "serving.py" in files
    assert [one for path in files for one in shorthands(path)] == []
