"""What a screen of 400 pixels must show: the part of a name that tells it from the others."""

import re
from collections.abc import Callable

import pytest
from e2e_support import Server, settled, shoot
from playwright.sync_api import Browser, Page, expect

from db import runs
from db.engine import connect

pytestmark = pytest.mark.browser

# the characters of a cut text that stand before its ellipsis
SEEN = """element => {
  const text = element.firstChild, edge = element.getBoundingClientRect().right - 16;
  const range = document.createRange();
  let n = text.length;
  for (; n > 0; n--) {
    range.setStart(text, 0); range.setEnd(text, n);
    if (range.getBoundingClientRect().right <= edge) break;
  }
  return text.data.slice(0, n);
}"""


@pytest.fixture
def phone(browser: Browser) -> Page:
    """A window of 400 x 860."""
    return browser.new_context(viewport={"width": 400, "height": 860}).new_page()


def opened(page: Page, server: Server, path: str, title: str) -> None:
    page.goto(f"{server.url}/{path}")
    expect(page.get_by_role("heading", name=title, exact=True, level=1)).to_be_visible()
    settled(page)


def test_tags_of_cases_differ_in_what_is_seen_of_them(
    start_server: Callable[..., Server], phone: Page
) -> None:
    server = start_server(LINKWORTH_START_WORKER="0")
    opened(phone, server, "speedup", "Speedup")
    tags = phone.get_by_test_id("stMultiSelectTagsContainer").locator("[data-tag] > span")
    seen = [str(tag.evaluate(SEEN)) for tag in tags.all()]
    assert len(seen) == 4
    assert len(set(seen)) == 4, seen
    assert [("link on" in name, "link off" in name) for name in seen].count((True, False)) == 2
    assert all("link on" in name or "link off" in name for name in seen)
    shoot(phone, "narrow-speedup-400")
    phone.context.close()


def columns_seen(page: Page, words: re.Pattern[str]) -> list[str]:
    """Names of the columns of the table of that takeaway that lie whole within the window."""
    found = page.get_by_role("table", name=words)
    expect(found).to_be_visible()
    found.scroll_into_view_if_needed()
    size = page.viewport_size
    assert size is not None
    seen = []
    for head in found.locator("th").all():
        box = head.bounding_box()
        assert box is not None
        if box["x"] >= 0 and box["x"] + box["width"] <= size["width"]:
            seen.append(head.inner_text())
    return seen


def test_values_of_two_runs_and_their_conditions_need_no_scrolling_sideways(
    start_server: Callable[..., Server], phone: Page
) -> None:
    server = start_server(LINKWORTH_START_WORKER="0")
    opened(phone, server, "speedup", "Speedup")
    conditions = columns_seen(phone, re.compile("conditions differ"))
    assert conditions == ["condition", "left", "right"]
    engine = connect(f"sqlite:///{server.data_dir / 'linkworth.sqlite'}")
    listed = runs.list_runs(engine, kinds=["decode"], study="two-h200")
    engine.dispose()
    pair = listed[listed["title"].str.contains("14b: decode step at TP=2")]["id"].tolist()[:2]
    opened(phone, server, f"runs?view=compare&runs={','.join(pair)}", "Runs")
    quantity, *values = columns_seen(phone, re.compile("quantities of 2 runs"))
    assert quantity == "quantity"
    assert sorted("link on" in value for value in values) == [False, True]
    shoot(phone, "narrow-compare-400")
    phone.context.close()
