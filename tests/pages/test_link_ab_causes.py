"""Slow in the queue or slow to compute: Link A/B names which, on arms of a stand-in server."""

import re
from pathlib import Path
from typing import Any

import pytest
from serving_runs import causes_said, keep_as
from sqlalchemy import Engine

from pages import PAGES, Entry
from runners.events import Events
from runners.serving import run
from tests.runners.serving_support import serving_spec

LOAD = {"concurrency": 4, "num_prompts": 16, "input_len": 8, "output_len": 8}


@pytest.fixture(autouse=True)
def _in_the_navigation(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setitem(PAGES, "link-ab", Entry("Link A/B", "Explain", "What changed?"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.mark.parametrize(
    ("fault", "words", "where"),
    [
        ("slow_client", "Queue: ", r"outside the server \(client or network\)"),
        ("queue", "Queue: ", "in its queue"),
        # with the reason that holds: on a machine that is busy beside it, the rate that was left
        ("slow_compute", "Compute: ", r"and (TP=1 has no link|the compute rate was \d+% lower)\.$"),
    ],
)
def test_the_page_names_what_is_slow(
    database: Engine, open_page: Any, tmp_path: Path, fault: str, words: str, where: str
) -> None:
    for arm, name in (("", "alone"), (fault, "disturbed")):
        folder = tmp_path / name
        folder.mkdir()
        spec = serving_spec(folder, arm, workloads=[LOAD])
        keep_as(database, name, run(spec, Events(str(folder / "events.jsonl"))))
    (found,) = causes_said(open_page, "alone", "disturbed")
    assert words in found
    assert re.search(where, found), found
