"""Deep link to every page on a freshly started server: heading there, no dialog, no traceback."""

from collections.abc import Callable

import pytest
from e2e_support import Server, settled, shoot
from playwright.sync_api import Browser, expect

from pages import PAGES

pytestmark = pytest.mark.browser


def address(server: Server, slug: str) -> str:
    # the first page of the table answers at the root alone
    return f"{server.url}/{'' if slug == next(iter(PAGES)) else slug}"


@pytest.mark.timeout(600)
def test_deep_links(start_server: Callable[..., Server], browser: Browser) -> None:
    server = start_server(LINKWORTH_START_WORKER="0")
    for slug, entry in PAGES.items():
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.goto(address(server, slug))
        expect(page.get_by_role("heading", name=entry.title, exact=True, level=1)).to_be_visible(
            timeout=60_000
        )
        settled(page)
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.get_by_test_id("stException")).to_have_count(0)
        shoot(page, f"page-{slug}-light-1280")
        context.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_pictures_of_every_page(
    start_server: Callable[..., Server], browser: Browser, scheme: str, width: int
) -> None:
    server = start_server(LINKWORTH_START_WORKER="0")
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    page = context.new_page()
    for slug, entry in PAGES.items():
        page.goto(address(server, slug))
        expect(page.get_by_role("heading", name=entry.title, exact=True, level=1)).to_be_visible(
            timeout=60_000
        )
        settled(page)
        # nothing may be wider than the window: a person would have to scroll sideways
        overflow = page.evaluate(
            "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
        )
        assert overflow <= 0, slug
        shoot(page, f"page-{slug}-{scheme}-{width}")
    context.close()
