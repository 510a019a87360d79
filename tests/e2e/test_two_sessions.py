"""Two people at one Linkworth: each starts, both watch, one ends it, and neither loses anything."""

from collections.abc import Callable, Iterator

import pytest
from e2e_support import Server, settled, shoot
from playwright.sync_api import Page, expect

from db import jobs, runs
from db.engine import Engine, connect
from models.result import Result, Tool

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

LIMIT_MS = 120_000


@pytest.fixture
def database(server: Server) -> Iterator[Engine]:
    engine = connect(f"sqlite:///{server.data_dir / 'linkworth.sqlite'}")
    yield engine
    engine.dispose()


def filled_in(page: Page, server: Server, rounds: int) -> None:
    """The AllReduce form with so many rounds, ready to be started."""
    page.goto(f"{server.url}/new-run?rounds={rounds}")
    expect(page.get_by_role("button", name="Start", exact=True)).to_be_visible()
    settled(page)


def test_each_starts_a_run_and_one_ends_the_others(
    server: Server, page: Page, browser_window: Callable[[], Page], database: Engine
) -> None:
    other = browser_window()
    filled_in(page, server, 20)
    filled_in(other, server, 19)
    for window in (page, other):
        window.get_by_role("button", name="Start", exact=True).click()
    for window in (page, other):
        expect(window.get_by_role("button", name="Cancel")).to_be_visible(timeout=LIMIT_MS)
    listed = {job["id"]: job for job in jobs.list_jobs(database)}
    rounds = {jobs.job(database, job_id)["spec"]["rounds"]: job_id for job_id in listed}
    assert sorted(rounds) == [19, 20], "each session's click is its own job"
    # the second session looks at the first one's job, and ends it
    other.goto(f"{server.url}/new-run?jobs={rounds[20]}")
    expect(other.get_by_text("▶ running").or_(other.get_by_text("… queued"))).to_be_visible(
        timeout=LIMIT_MS
    )
    other.get_by_role("button", name="Cancel").click()
    for window in (page, other):  # the first one sees it without a click
        expect(window.get_by_text("■ cancelled")).to_be_visible(timeout=LIMIT_MS)
    shoot(page, "two-sessions-cancelled")
    assert jobs.job(database, rounds[19])["state"] in ("queued", "running", "succeeded")
    jobs.request_cancel(database, rounds[19])
    other.goto(f"{server.url}/new-run?jobs={rounds[19]}")
    expect(other.get_by_text("■ cancelled")).to_be_visible(timeout=LIMIT_MS)


def test_a_run_deleted_in_one_session_is_told_in_the_other(
    server: Server, page: Page, browser_window: Callable[[], Page], database: Engine
) -> None:
    run_id = runs.store(
        database,
        Result(kind="decode", origin="imported", title="Seen by two", tool=Tool(name="linkworth")),
    )
    other = browser_window()
    for window in (page, other):
        window.goto(f"{server.url}/runs?run={run_id}")
        expect(window.get_by_role("heading", name="Seen by two")).to_be_visible()
        settled(window)
        window.get_by_role("button", name="Delete this run").click()
        expect(window.get_by_role("dialog")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text(f"Run {run_id} was deleted.")).to_be_visible()
    other.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(other.get_by_role("dialog").get_by_text("no such run any more")).to_be_visible()
    assert runs.count(database, shipped=False) == 0
