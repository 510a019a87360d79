"""A tiny model at one and two gloo ranks: started in the browser, finished, explained."""

import pytest
from e2e_support import Server, settled, shoot
from playwright.sync_api import Page, expect

from db import jobs
from db.engine import connect

pytestmark = pytest.mark.browser

JOBS_LIMIT_MS = 150_000


def test_a_tiny_decode_step_is_measured_and_explained(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/new-run")
    page.get_by_role("radio", name="Decode step").click()
    start = page.get_by_role("button", name="Start", exact=True)
    expect(start).to_be_visible()
    settled(page)
    expect(page.get_by_text("2 jobs, in the order shown")).to_be_visible()
    shoot(page, "decode-form")
    start.click()
    expect(page.get_by_text("✓ succeeded")).to_have_count(2, timeout=JOBS_LIMIT_MS)
    engine = connect(f"sqlite:///{server.data_dir / 'linkworth.sqlite'}")
    try:
        assert jobs.counts(engine).get("succeeded") == 2
    finally:
        engine.dispose()
    page.get_by_role("link", name="Explain this run").last.click()
    expect(page.get_by_role("heading", name="Speedup", level=1)).to_be_visible()
    settled(page)
    # three rounds at one rank and at two: a verdict with an interval, and the reason why wall only
    expect(page.get_by_text("TP=2 makes")).to_be_visible()
    expect(page.get_by_text("95 % interval").first).to_be_visible()
    expect(page.get_by_text("CPU ranks have wall clock only")).to_be_visible()
    shoot(page, "decode-explained")
