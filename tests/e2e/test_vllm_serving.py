"""An evaluation of a real vLLM on two cores, from the browser to the comparison."""

import functools
import re
from collections.abc import Callable

import numpy as np
import pytest
from e2e_support import ROOT, Server, settled, shoot
from playwright.sync_api import Page, expect

from db import jobs, runs
from db.engine import Engine, connect

PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
LIMIT_MS = 15 * 60 * 1000

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not PYTHON.exists(), reason="no .venv-vllm: type `make vllm`"),
]


def number(page: Page, label: str, value: int) -> None:
    field = page.get_by_label(label, exact=True)
    field.fill(str(value))
    field.press("Enter")
    settled(page)


def recomputed_apart(engine: Engine, run_ids: list[str]) -> list[str]:
    """Latency figures of the tool that lie over 0.5 % from those of its single requests."""
    formulas = {
        "mean": np.mean, "median": np.median, "std": np.std,
        **{f"p{q}": functools.partial(np.percentile, q=q) for q in (90, 95, 99)},
    }  # fmt: skip
    apart, count = [], 0
    frame = runs.measurements(engine, run_ids=run_ids, metrics=["ttft", "tpot", "itl", "e2el"])
    for run_id in run_ids:
        for item in runs.samples(engine, run_id):
            rows = frame[
                (frame["run_id"] == run_id)
                & (frame["metric"] == item["metric"])
                & (frame["round"] == item["round"])
                & (frame["concurrency"] == item["dims"].get("concurrency"))
                & frame["statistic"].isin(formulas)
            ]
            for row in rows.itertuples():
                count += 1
                ours = float(formulas[row.statistic](item["values"]))
                if abs(ours / row.value - 1) > 0.005:
                    apart.append(f"{row.statistic} {row.metric.upper()}")
    assert count >= 2 * 2 * 3 * 4 * 5, "arms x loads x rounds x latencies x statistics"
    return apart


def test_two_arms_two_loads_three_rounds(start_server: Callable[..., Server], page: Page) -> None:
    server = start_server(LINKWORTH_VLLM_PYTHON=str(PYTHON))
    page.goto(f"{server.url}/new-run")
    page.get_by_role("radio", name="Evaluation").click()
    expect(page.get_by_text(re.compile(r"^vLLM 0\.\d+.*on the CPU"))).to_be_visible(timeout=60_000)
    number(page, "Rounds of each arm", 3)
    number(page, "Input (tokens)", 48)
    number(page, "Output (tokens)", 24)
    expect(page.get_by_text("Order of arms: tp1 → tp2.")).to_be_visible()
    shoot(page, "new-run-evaluation")
    page.get_by_role("button", name="Start", exact=True).click()

    # while it runs: the server's start, then rounds as they come in
    expect(
        page.get_by_text(re.compile("round|warm-up|start|check", re.IGNORECASE)).first
    ).to_be_visible(timeout=LIMIT_MS)
    expect(page.get_by_text("✓ succeeded")).to_have_count(2, timeout=LIMIT_MS)
    shoot(page, "new-run-evaluation-done")

    engine = connect(f"sqlite:///{server.data_dir / 'linkworth.sqlite'}")
    try:
        done = jobs.list_jobs(engine)
        assert [job["state"] for job in done] == ["succeeded", "succeeded"]
        listed = runs.list_runs(engine, kinds=["serving"], origins=["measured"], shipped=False)
        assert sorted(listed["arm"]) == ["tp1", "tp2"]
        figures = runs.measurements(engine, run_ids=list(listed["id"]), metrics=["tpot"])
        counted = figures[figures["statistic"] == "median"].groupby(["arm", "concurrency"])
        assert {key: set(rows["round"]) for key, rows in counted} == {
            ("tp1", 1): {0, 1, 2},
            ("tp1", 4): {0, 1, 2},
            ("tp2", 1): {0, 1, 2},
            ("tp2", 4): {0, 1, 2},
        }
        differing = recomputed_apart(engine, list(listed["id"]))
        told = " ".join(
            notice.text
            for run_id in listed["id"]
            for notice in runs.head(engine, run_id).warnings
            if notice.code == "recomputed_differs"
        )
        # within half a percent, or the run says which figure differs and by how much
        assert all(words in told for words in differing), (differing, told)
    finally:
        engine.dispose()

    page.goto(f"{server.url}/link-ab")
    expect(page.get_by_role("heading", name="Link A/B")).to_be_visible()
    settled(page)
    expect(page.get_by_text("● measured").first).to_be_visible()
    expect(page.get_by_role("heading", name="Finding")).to_be_visible()
    expect(page.get_by_text(re.compile("^tp2 instead of tp1: .*throughput"))).to_be_visible()
    expect(page.get_by_text(re.compile(r"^concurrency 4, 48 in, 24 out: output throughput [+-]\d"))
           ).to_be_visible()  # fmt: skip
    conditions = page.get_by_text(re.compile("It holds for: tiny-test-shape with random weights"))
    expect(conditions).to_be_visible()
    page.get_by_text("Recomputed from each request").click()
    said = page.get_by_text(re.compile(r"figures (agree with the tool's own|differ by more)"))
    expect(said.first).to_be_visible()
    expect(page.get_by_text(re.compile("No request failed in the 12 rounds"))).to_be_visible()
    expect(page.get_by_role("heading", name="Scorecard")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    shoot(page, "link-ab-measured")
