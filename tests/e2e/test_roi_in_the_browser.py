"""The published study weighed in a browser: both verdicts in both themes, and the page to print."""

import re
from pathlib import Path

import pytest
from e2e_support import Server, settled, shoot
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser

STUDY = "source=nvlink-on-4x3090"
FULL = "demand=10000000,12000000,15000000&peak=1.5"
LIMIT_MS = 60_000


def verdict(page: Page, word: str) -> None:
    heading = page.get_by_role("heading", name=re.compile(f"{word}$"), level=2)
    expect(heading).to_be_visible(timeout=LIMIT_MS)
    expect(page.get_by_role("heading", name="Take it away")).to_be_visible(timeout=LIMIT_MS)
    settled(page)


def test_both_verdicts_of_the_published_study(shipped_server: Server, browser: Browser) -> None:
    for scheme in ("light", "dark"):
        context = browser.new_context(
            viewport={"width": 1280, "height": 900},
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        page = context.new_page()
        for name, query, word in (("dont", STUDY, "Don't"), ("full", f"{STUDY}&{FULL}", "more")):
            page.goto(f"{shipped_server.url}/roi?{query}")
            verdict(page, word)
            shoot(page, f"roi-{name}-{scheme}")
        context.close()


def test_form_sliders_and_the_page_to_print(
    shipped_server: Server, browser: Browser, tmp_path: Path
) -> None:
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(f"{shipped_server.url}/roi?{STUDY}&{FULL}")
    verdict(page, "more")
    page.get_by_text("Money and risk inputs").click()
    labour = page.get_by_role("spinbutton", name="An hour of labour ($/h)")
    labour.fill("5000")
    # leaving the field redraws the form; on a busy machine a click at that moment is lost
    labour.press("Tab")
    page.get_by_role("button", name="Work it out").click()
    expect(page).to_have_url(re.compile("labour_rate=5000"), timeout=LIMIT_MS)
    verdict(page, "Don't")
    slider = page.get_by_role("slider").first
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("points").first).to_be_visible(timeout=LIMIT_MS)
    with page.expect_download(timeout=LIMIT_MS) as download:
        page.get_by_role("button", name="One page (HTML, A4)").click()
    path = tmp_path / "one-page.html"
    download.value.save_as(path)
    sheet = browser.new_context().new_page()
    sheet.goto(path.as_uri())
    printed = sheet.pdf(format="A4", prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1, "more than one sheet"
    sheet.context.close()
    page.context.close()
