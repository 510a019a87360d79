"""Every picture is valid Vega-Lite: the app itself does not check, because it takes so long."""

import altair as alt
import pandas as pd
import pytest

from pages import PAGES
from pages.widgets import downloads

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
