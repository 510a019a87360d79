"""Contrast of the theme's colours, as Streamlit 1.67 puts them together; WCAG 2.2 asks for 4.5.

The browser's view of the same is in tests/e2e/test_accessibility.py; this one needs no browser.
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest

CONFIG = Path(__file__).parent.parent / ".streamlit" / "config.toml"
WHITE = (1.0, 1.0, 1.0)
TEXT, MARK = 4.5, 3.0
CAPTION = 0.6  # a caption's share of the text colour
TINT = 0.9  # what Streamlit takes off the primary colour's opacity below a chosen button
# Streamlit's own where the config is silent (`streamlit config show`)
DEFAULTS = {
    "light": {"backgroundColor": "#FFFFFF", "secondaryBackgroundColor": "#F8F8F7"},
    "dark": {"textColor": "#EDEBE8"},
}

Colour = tuple[float, ...]


def theme(name: str) -> dict[str, Any]:
    config = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    return DEFAULTS[name] | config["theme"][name]


def read(code: str) -> tuple[Colour, float]:
    """Red, green and blue from 0 to 1, and opacity."""
    digits = code.removeprefix("#")
    parts = [int(digits[i : i + 2], 16) / 255 for i in range(0, len(digits), 2)]
    return tuple(parts[:3]), parts[3] if len(parts) == 4 else 1.0


def over(colour: Colour, opacity: float, below: Colour) -> Colour:
    return tuple(
        opacity * top + (1 - opacity) * under for top, under in zip(colour, below, strict=True)
    )


def contrast(one: Colour, other: Colour) -> float:
    def luminance(colour: Colour) -> float:
        linear = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour
        )
        return sum(
            weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)
        )

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    # WCAG's own ends, and a grey that is known to be the lightest with 4.5 on white
    assert contrast(WHITE, (0.0, 0.0, 0.0)) == pytest.approx(21)
    assert contrast(read("#767676")[0], WHITE) == pytest.approx(4.54, abs=0.005)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_the_chosen_segment_and_the_open_tab_can_be_read(name: str) -> None:
    colours = theme(name)
    page, _ = read(colours["backgroundColor"])
    primary, opacity = read(colours["primaryColor"])
    tinted = over(primary, max(0.0, opacity - TINT), page)
    assert contrast(over(primary, opacity, tinted), tinted) >= TEXT
    assert contrast(over(primary, opacity, page), page) >= TEXT


@pytest.mark.parametrize("name", ["light", "dark"])
def test_white_on_buttons_and_tags_can_be_read(name: str) -> None:
    colours = theme(name)
    primary, opacity = read(colours["primaryColor"])
    # a button stands on the page, a tag in a field
    for below in ("backgroundColor", "secondaryBackgroundColor"):
        assert contrast(WHITE, over(primary, opacity, read(colours[below])[0])) >= TEXT, below


@pytest.mark.parametrize("name", ["light", "dark"])
def test_captions_can_be_read(name: str) -> None:
    colours = theme(name)
    text, _ = read(colours["textColor"])
    for below in ("backgroundColor", "secondaryBackgroundColor"):
        ground, _ = read(colours[below])
        assert contrast(over(text, CAPTION, ground), ground) >= TEXT, below


@pytest.mark.parametrize("name", ["light", "dark"])
def test_marks_of_charts_can_be_seen(name: str) -> None:
    colours = theme(name)
    page, _ = read(colours["backgroundColor"])
    for code in colours["chartCategoricalColors"]:
        assert contrast(read(code)[0], page) >= MARK, code
