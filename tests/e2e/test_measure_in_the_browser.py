"""The newcomer's way: start a CPU sweep in the browser, watch it, see it explained."""

import re
from collections.abc import Callable

import psutil
import pytest
from e2e_support import Server, settled, shoot
from playwright.sync_api import Page, expect

from db import jobs, runs
from db.engine import connect

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

SWEEP_LIMIT_MS = 120_000


def database_of(server: Server) -> str:
    return f"sqlite:///{server.data_dir / 'linkworth.sqlite'}"


def runners_of(server: Server) -> list[str]:
    """Command lines of measuring programs that belong to this server's data folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = " ".join(process.info["cmdline"] or [])
        if "runners." in command and str(server.data_dir) in command:
            found.append(command)
    return found


def start_sweep(page: Page, server: Server, clicks: int = 1) -> None:
    page.goto(f"{server.url}/new-run")
    button = page.get_by_role("button", name="Start", exact=True)
    expect(button).to_be_visible()
    settled(page)
    expect(page.get_by_text(re.compile(r"Expected: \d+ (s|min)"))).to_be_visible()
    button.click(click_count=clicks, delay=20)


def test_cpu_sweep_from_form_to_stored_run(server: Server, page: Page) -> None:
    start_sweep(page, server, clicks=3)
    expect(page.get_by_text("▶ running").or_(page.get_by_text("✓ succeeded"))).to_be_visible(
        timeout=SWEEP_LIMIT_MS
    )
    shoot(page, "sweep-running")
    expect(page.get_by_text("✓ succeeded")).to_be_visible(timeout=SWEEP_LIMIT_MS)
    shoot(page, "sweep-finished")
    engine = connect(database_of(server))
    try:
        assert jobs.counts(engine).get("succeeded") == 1, "three clicks start one job"
        listed = runs.list_runs(engine, origins=["measured"], shipped=False, kinds=["allreduce"])
        assert len(listed) == 1
        assert listed["validity"].iloc[0] in ("valid", "suspect")
        run = runs.load(engine, listed["id"].iloc[0])
        assert len({row.dims["bytes"] for row in run.find("allreduce_latency", "median")}) == 8
        assert runs.raw(engine, run.id)[0]["sha256"]
    finally:
        engine.dispose()
    page.get_by_role("link", name="Conditions and raw data").click()
    expect(page.get_by_role("heading", name="Runs", level=1)).to_be_visible()
    page.get_by_text("Conditions", exact=True).last.click()
    settled(page)
    shoot(page, "sweep-conditions")


def test_reload_restart_and_cancel(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/new-run")
    expect(page.get_by_role("button", name="Start", exact=True)).to_be_visible()
    page.get_by_role("spinbutton", name="Rounds").fill("20")
    page.get_by_role("spinbutton", name="Rounds").press("Enter")
    settled(page)
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_text("▶ running")).to_be_visible(timeout=SWEEP_LIMIT_MS)
    page.reload()
    expect(page.get_by_text("▶ running")).to_be_visible(timeout=SWEEP_LIMIT_MS)
    address = page.url
    server.stop()
    server.start()
    page.goto(address)
    expect(page.get_by_text("▶ running")).to_be_visible(timeout=SWEEP_LIMIT_MS)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("■ cancelled")).to_be_visible(timeout=SWEEP_LIMIT_MS)
    assert runners_of(server) == []


def test_two_browser_sessions_see_the_same_job(
    server: Server, page: Page, browser_window: Callable[[], Page]
) -> None:
    start_sweep(page, server)
    other = browser_window()
    other.goto(f"{server.url}/runs")
    expect(other.get_by_text(re.compile("running|queued|succeeded")).first).to_be_visible()
    expect(page.get_by_text("✓ succeeded")).to_be_visible(timeout=SWEEP_LIMIT_MS)
