import altair as alt
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from pages.charts import theme
from pages.widgets.downloads import picture


@pytest.mark.parametrize(("form", "magic"), [("png", b"\x89PNG"), ("svg", b"<svg")])
def test_a_chart_leaves_as_a_picture(form: str, magic: bytes) -> None:
    frame = pd.DataFrame({"x": [1, 2], "y": [3, 4]})
    drawing = alt.Chart(frame).mark_bar().encode(x="x:Q", y="y:Q")
    data = picture(drawing, form)
    assert data.startswith(magic)
    assert len(data) > 500


def test_layers_leave_as_a_picture() -> None:
    frame = pd.DataFrame({"x": [1, 2], "y": [3, 4]})
    base = alt.Chart(frame).encode(x="x:Q", y="y:Q")
    assert picture(base.mark_line() + base.mark_point(), "svg").startswith(b"<svg")


def test_an_arm_keeps_its_slot() -> None:
    assert theme.slots(["B", "link on", "A"])["link on"] == 0
    assert theme.slots(["link on"])["link on"] == 0
    both = theme.slots(["x", "link off", "link on"])
    assert both["link off"] == 1
    assert len(set(both.values())) == 3


def test_arms_beyond_the_palette_have_marks_of_their_own() -> None:
    arms = ["link-on", *(f"arm {place}" for place in range(20))]
    slots, marks = theme.slots(arms), theme.marks(arms)
    assert len({(slots[arm], marks[arm]) for arm in arms}) == len(arms)
    few = arms[:6]  # as many as there are colours: mark and colour go together
    assert theme.marks(few) == theme.slots(few)
    drawn = theme.shape("arm", arms).to_dict()["scale"]
    assert dict(zip(drawn["domain"], drawn["range"], strict=True))["link-on"] == "circle"


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", theme.PALETTE)
@pytest.mark.parametrize("background", ["#FFFFFF", "#0E1117"])
def test_contrast_on_both_themes(colour: str, background: str) -> None:
    one, other = sorted((_luminance(colour), _luminance(background)))
    assert (other + 0.05) / (one + 0.05) >= 3


def test_a_name_above_a_wrapped_column_is_no_markup() -> None:
    script = (
        "import pandas as pd\n"
        "from pages.widgets.downloads import table\n"
        "table(pd.DataFrame({'**loud** [x](http://y.z)': ['**a**']}), 'n', 'w', is_wrapped=True)\n"
    )
    at = AppTest.from_string(script).run()
    assert not at.exception
    shown = at.table[0].value
    assert list(shown) == [r"\*\*loud\*\* \[x\](http:⁠//y.z)"]
    assert shown.iloc[0, 0] == r"\*\*a\*\*"
