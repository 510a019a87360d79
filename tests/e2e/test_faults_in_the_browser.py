"""What a person sees when something breaks: a killed worker, a hang, wrong values, foreign text."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from e2e_support import Server, settled, shoot
from playwright.sync_api import Page, expect

from db import jobs, runs
from db.engine import Engine, connect
from models.result import Result, Tool

pytestmark = pytest.mark.browser

LIMIT_MS = 120_000
SPEC: dict[str, Any] = {
    "kind": "allreduce",
    "device": "cpu",
    "ranks": 2,
    "sizes_bytes": [1024, 4096],
    "rounds": 2,
    "time_limit_s": 60,
    "size_time_limit_s": 8,
}


SIZES = [512 * 2**n for n in range(12)]


@pytest.fixture
def database() -> Iterator[Callable[[Server], Engine]]:
    """The store of a server, as a test looks into it."""
    engines: list[Engine] = []

    def opened(server: Server) -> Engine:
        engines.append(connect(f"sqlite:///{server.data_dir / 'linkworth.sqlite'}"))
        return engines[-1]

    yield opened
    for engine in engines:
        engine.dispose()


def processes_of(server: Server) -> list[int]:
    """Measuring programs and ranks that belong to this server's data folder."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        command = " ".join(process.info["cmdline"] or [])
        if "runners." in command and str(server.data_dir) in command:
            found.append(process.info["pid"])
    return found


def test_a_killed_worker_leaves_a_lost_job_and_the_page_starts_the_next(
    server: Server, page: Page, database: Callable[[Server], Engine]
) -> None:
    engine = database(server)
    job_id = jobs.enqueue(engine, {**SPEC, "rounds": 100, "sizes_bytes": SIZES}, title="Long sweep")
    after = jobs.enqueue(engine, SPEC, title="The next in the queue")
    page.goto(f"{server.url}/new-run?jobs={job_id}")
    expect(page.get_by_text("▶ running")).to_be_visible(timeout=LIMIT_MS)
    (worker,) = jobs.alive_workers(engine)
    os.kill(worker["pid"], signal.SIGKILL)
    gone = psutil.wait_procs([psutil.Process(pid) for pid in processes_of(server)], timeout=30)
    assert not gone[1], "the runner ends itself when its worker is gone"
    expect(page.get_by_text("Its worker has not been heard of for")).to_be_visible(timeout=LIMIT_MS)
    start = page.get_by_role("button", name="Start a worker")
    expect(start).to_be_visible(timeout=LIMIT_MS)
    shoot(page, "fault-worker-gone")
    start.click()
    expect(page.get_by_text("? lost")).to_be_visible(timeout=LIMIT_MS)
    expect(page.get_by_text("The worker that ran this job is gone")).to_be_visible()
    shoot(page, "fault-worker-lost")
    page.goto(f"{server.url}/new-run?jobs={after}")
    expect(page.get_by_text("✓ succeeded")).to_be_visible(timeout=LIMIT_MS)
    assert runs.count(engine, origins=["measured"], shipped=False) == 1  # nothing half-written


def test_a_hang_says_at_which_size(
    start_server: Callable[..., Server], page: Page, database: Callable[[Server], Engine]
) -> None:
    server = start_server(LINKWORTH_TEST_FAULT="hang:4096")
    job_id = jobs.enqueue(database(server), SPEC, title="Sweep over a bad link")
    page.goto(f"{server.url}/new-run?jobs={job_id}")
    expect(page.get_by_text("⏱ timed out")).to_be_visible(timeout=LIMIT_MS)
    reason = page.get_by_text("The run hung at an all-reduce of 4096 bytes").first
    expect(reason).to_be_visible()
    shoot(page, "fault-hang")
    assert processes_of(server) == []
    # what was measured before the hang is kept, and marked
    page.get_by_role("link", name="Conditions and raw data").click()
    expect(page.get_by_text("✗ invalid").first).to_be_visible()


def test_wrong_values_make_a_run_invalid_and_keep_it_out_of_comparisons(
    start_server: Callable[..., Server], page: Page, database: Callable[[Server], Engine]
) -> None:
    server = start_server(LINKWORTH_TEST_FAULT="wrong-values")
    engine = database(server)
    job_id = jobs.enqueue(engine, SPEC, title="Sweep over a lying link")
    page.goto(f"{server.url}/new-run?jobs={job_id}")
    expect(page.get_by_text("✗ failed")).to_be_visible(timeout=LIMIT_MS)
    expect(page.get_by_text(re.compile("values were wrong|wrong values")).first).to_be_visible()
    shoot(page, "fault-wrong-values")
    run_id = jobs.job(engine, job_id)["run_id"]
    page.goto(f"{server.url}/runs?run={run_id}")
    expect(page.get_by_text("✗ invalid").first).to_be_visible()
    expect(page.get_by_text("never enters a comparison").first).to_be_visible()
    # the explorer's own choice leaves it out; who asks for it is told that nothing follows from it
    page.goto(f"{server.url}/allreduce")
    expect(page.get_by_role("heading", name="AllReduce", level=1)).to_be_visible()
    settled(page)
    expect(page.get_by_text("Sweep over a lying link")).to_have_count(0)
    page.goto(f"{server.url}/allreduce?runs={run_id}")
    expect(page.get_by_text("This run is invalid").first).to_be_visible()
    shoot(page, "fault-wrong-values-explorer")


def test_foreign_text_is_text_in_a_real_browser(
    start_server: Callable[..., Server], page: Page, database: Callable[[Server], Engine]
) -> None:
    server = start_server(LINKWORTH_START_WORKER="0")
    title = (
        "<img src=x onerror=alert(1)> [here](http://evil.example) ![x](http://evil.example/x.png) "
        ":material/delete: :smile: :red[r] **b** `c` $x$ www.evil.example 1. # -> --"
    )
    alarms: list[str] = []
    page.on("dialog", lambda dialog: (alarms.append(dialog.message), dialog.dismiss()))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    run = Result(
        kind="allreduce",
        origin="imported",
        validity="suspect",
        title=title,
        reasons=[title],
        tool=Tool(name="linkworth"),
    )
    page.goto(f"{server.url}/runs?run={runs.store(database(server), run)}")
    heading = page.get_by_role("heading", level=3, name="onerror")
    expect(heading).to_be_visible()
    settled(page)
    for place in (heading, page.get_by_test_id("stAlertContentWarning").first):
        assert place.inner_text().replace("\u2060", "").strip() == title
        assert place.locator("img, a[href^='http'], strong, code, .katex").count() == 0
    shoot(page, "foreign-text")
    assert alarms == []
    assert not [url for url in asked if "evil.example" in url]
