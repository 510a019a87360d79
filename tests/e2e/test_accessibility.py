"""axe-core over every page, words for every chart, and the keyboard alone from page to run.

axe-core comes from npm: `npm install --prefix tests/e2e/axe`.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from e2e_support import Server, settled, shoot
from playwright.sync_api import Browser, Page, expect

from db import jobs
from db.engine import connect
from pages import PAGES

pytestmark = pytest.mark.browser

AXE = Path(__file__).parent / "axe" / "node_modules" / "axe-core" / "axe.min.js"
GRAVE = ("serious", "critical")
needs_axe = pytest.mark.skipif(
    not AXE.exists() and os.environ.get("LINKWORTH_REQUIRE_ALL") != "1",
    reason="no axe-core: type `npm install --prefix tests/e2e/axe`",
)


class Accepted(NamedTuple):
    """A finding in what Streamlit or Vega draws, which a page cannot change."""

    rule: str
    html: str
    reason: str


STREAMLITS_OWN = (
    Accepted(
        "list",
        r'^<ul data-testid="stSidebarNavItems"',
        "navigation groups are divs inside its list",
    ),
    Accepted("listitem", r"^<li ", "the same list: its items stand inside those divs"),
    Accepted(
        "svg-img-alt",
        r'^<g class="mark-[a-z]+ role-mark[^>]*></g>$',
        "Vega writes an empty group for a layer without data in one panel; the chart has its words",
    ),
)


class Finding(NamedTuple):
    page: str
    rule: str
    target: str
    html: str
    said: str


@pytest.fixture(scope="module")
def axe() -> str:
    return AXE.read_text(encoding="utf-8")


def address(server: Server, slug: str) -> str:
    return f"{server.url}/{'' if slug == next(iter(PAGES)) else slug}"


def is_accepted(rule: str, node: dict[str, Any]) -> bool:
    return any(item.rule == rule and re.match(item.html, node["html"]) for item in STREAMLITS_OWN)


def findings(page: Page, axe: str, name: str) -> Iterator[Finding]:
    """What axe finds that is grave and ours."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert found["passes"], "axe looked at nothing"
    for violation in found["violations"]:
        if violation["impact"] not in GRAVE:
            continue
        for node in violation["nodes"]:
            if not is_accepted(violation["id"], node):
                said = (node["any"] or node["all"] or node["none"])[0]["message"]
                target = " ".join(map(str, node["target"]))
                yield Finding(name, violation["id"], target[-160:], node["html"][:160], said[:200])


def wait_for(page: Page, title: str) -> None:
    expect(page.get_by_role("heading", name=title, exact=True, level=1)).to_be_visible(
        timeout=60_000
    )
    settled(page)


@needs_axe
@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_grave_finding_on_any_page(
    start_server: Callable[..., Server], browser: Browser, axe: str, scheme: str
) -> None:
    server = start_server(LINKWORTH_START_WORKER="0")
    context = browser.new_context(
        viewport={"width": 1280, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    page = context.new_page()
    ours: list[Finding] = []
    for slug, entry in PAGES.items():
        page.goto(address(server, slug))
        wait_for(page, entry.title)
        ours += findings(page, axe, slug)
    for view in ("import", "compare", "bundle"):
        page.goto(f"{server.url}/runs?view={view}")
        wait_for(page, PAGES["runs"].title)
        ours += findings(page, axe, f"runs, {view}")
    context.close()
    assert ours == []


@pytest.mark.slow
def test_every_chart_and_table_has_words(start_server: Callable[..., Server], page: Page) -> None:
    server = start_server(LINKWORTH_START_WORKER="0")
    counted = 0
    for slug, entry in PAGES.items():
        page.goto(address(server, slug))
        wait_for(page, entry.title)
        for chart in page.get_by_test_id("stVegaLiteChart").all():
            if chart.evaluate("e => e.offsetParent === null"):
                continue  # in a closed tab: not drawn yet
            expect(chart, slug).to_have_attribute("aria-label", re.compile(r"\S.{15,}"))
            counted += 1
        for grid in page.get_by_test_id("stDataFrame").all():
            named = grid.evaluate(
                "e => !!e.closest('[aria-label]') || !!e.querySelector('[aria-label]')"
            )
            assert named, f"{slug}: a table without words"
    assert counted > 5


def tab_to(page: Page, name: str, most: int = 120) -> None:
    """Press Tab until the element with this name has the focus."""
    focused = "() => (document.activeElement?.innerText || document.activeElement?.ariaLabel || '')"
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate(focused).strip() == name:
            return
    raise AssertionError(f"{name} was not reached with {most} tabs")


def test_the_keyboard_alone_reaches_and_starts_a_run(
    start_server: Callable[..., Server], page: Page
) -> None:
    # no worker: the test is about reaching and starting; the job waits in the queue
    server = start_server(LINKWORTH_START_WORKER="0")
    page.goto(server.url)
    wait_for(page, "Overview")
    tab_to(page, "New run")
    page.keyboard.press("Enter")
    wait_for(page, "New run")
    expect(page.get_by_role("button", name="Start", exact=True)).to_be_visible()
    tab_to(page, "Start")
    shoot(page, "keyboard-start")
    page.keyboard.press("Enter")
    expect(page.get_by_text("… queued").first).to_be_visible()
    engine = connect(f"sqlite:///{server.data_dir / 'linkworth.sqlite'}")
    try:
        assert jobs.counts(engine).get("queued") == 1
    finally:
        engine.dispose()
    tab_to(page, "Cancel")
    page.keyboard.press("Enter")
    expect(page.get_by_text("■ cancelled").first).to_be_visible()
