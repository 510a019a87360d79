"""Report: what a page said and drew, as one file that needs nothing else, foreign words as text."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import altair as alt
import pandas as pd
import pytest
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import runs
from models.result import Result, Tool
from pages.widgets import finding, finding_report
from pages.widgets.finding import Part
from pages.widgets.plain import plain

OpenPage = Callable[..., AppTest]
WHEN = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def run(title: str = "A run") -> Result:
    return Result(
        kind="allreduce",
        origin="measured",
        title=title,
        tool=Tool(name="linkworth", version="0.1.0"),
        host={"hostname": "abc", "cpu_model": "Test CPU"},
    )


def text_of(html: bytes) -> str:
    return html.decode()


def test_the_report_of_each_explorer_holds_its_charts_conditions_and_method(
    first_start: Engine, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, bytes] = {}

    def keep(engine: Engine, title: str, parts: list[Part], ids: list[str], topic: str) -> None:
        results = [runs.load(engine, run_id) for run_id in dict.fromkeys(ids)]
        made[title] = finding_report.build(title, list(parts), results, topic, WHEN)

    monkeypatch.setattr(finding_report, "offer", keep)
    for slug in ("allreduce", "speedup", "link-ab", "what-if"):
        assert not open_page(slug).exception
    for title, sentence, card in (
        ("AllReduce", "transfer", "H200"),
        ("Speedup", "TP=2 makes this model", "H200"),
        ("Link A/B", "instead of tp2-link-off", "H200"),
        ("What-if", "requests at a time", "H200"),
    ):
        html = text_of(made[title])
        assert html.count("<svg") >= 2
        assert sentence in html
        assert card in html
        assert "2026-01-02 03:04 UTC" in html
        # a prediction has no runs of its own, and says what it was asked
        assert (">Conditions</h2>" in html) is (title != "What-if")
        assert ">Method</h2>" in html
        assert len(html) < 3_000_000
        # self-contained: nothing is fetched, nothing runs
        assert not re.search(r"(?:src|href)=[\"'](?!#)", html)
        assert "<script" not in html
        assert "-badge[" not in html


def test_the_button_is_there_and_makes_the_file(first_start: Engine, open_page: OpenPage) -> None:
    for slug in ("allreduce", "speedup", "link-ab", "what-if"):
        labels = [button.proto.label for button in open_page(slug).get("download_button")]
        assert labels.count("Report") == 1


def test_foreign_words_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = "<img src=x onerror=alert(1)> **[a](javascript:b)** & more"
    frame = pd.DataFrame({bad: [bad]})
    drawing = alt.Chart(pd.DataFrame({"x": [1]})).mark_point().encode(x="x:Q")
    parts = [
        Part("heading", bad),
        Part("text", plain(bad)),
        Part("small", bad),
        Part("table", bad, frame=frame),
        Part("chart", bad, drawing=drawing),
    ]
    html = text_of(finding_report.build("T", parts, [run(bad)], "allreduce", WHEN))
    assert "<img" not in html
    assert "&lt;img src=x onerror=alert(1)&gt; **[a](javascript:b)** &amp; more" in html


@pytest.mark.parametrize(
    ("marked", "words"),
    [
        ("**TP=2** is :green-badge[● measured] fast", "TP=2 is (● measured) fast"),
        ("see [the study](?topic=a) and `code`", "see the study and code"),
        (plain("2 * 3 = a_b [x] $5 <b>"), "2 * 3 = a_b [x] $5 <b>"),
        ("2 x layers, 3 * 4", "2 x layers, 3 * 4"),
    ],
)
def test_markup_becomes_words(marked: str, words: str) -> None:
    assert finding_report.unmarked(marked) == words


def test_markdown_of_the_method_becomes_blocks() -> None:
    text = "# A\n\nOne\nline:\n1. first\n   goes on\n2. second\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    html = "".join(finding_report.from_markdown(text))
    assert "<h2>A</h2><p>One line:</p><ul><li>first goes on</li><li>second</li></ul>" in html
    assert "<th>a</th>" in html
    assert "<td>2</td>" in html


def test_every_text_of_the_method_can_be_printed() -> None:
    for path in finding_report.METHOD.glob("*.md"):
        html = "".join(finding_report.from_markdown(path.read_text(encoding="utf-8")))
        assert "**" not in html, path.name
        assert "](" not in html, path.name


def test_long_tables_are_cut_and_say_so() -> None:
    parts = [Part("table", "many", frame=pd.DataFrame({"n": range(100)}))]
    html = text_of(finding_report.build("T", parts, [], "allreduce", WHEN))
    assert "40 more rows are left out here." in html


def test_a_heading_without_a_section_is_left_out() -> None:
    parts = [Part("heading", "Empty"), Part("heading", "Full"), Part("text", "words")]
    html = text_of(finding_report.build("T", parts, [], "no-such-topic", WHEN))
    assert "Empty" not in html
    assert "Full" in html


def test_nothing_is_kept_where_no_page_asked() -> None:
    finding.note(Part("text", "lost"))
    with finding.collected() as parts:
        finding.note(Part("text", "kept"))
    finding.note(Part("text", "lost too"))
    assert [part.words for part in parts] == ["kept"]


def test_what_is_the_same_in_every_row_of_a_wide_table_stands_below_it() -> None:
    frame = pd.DataFrame({"n": [1, 2], **{f"c{k}": ["x", "x"] for k in range(8)}})
    html = text_of(finding_report.build("T", [Part("table", "t", frame=frame)], [], "none", WHEN))
    assert "<th>n</th></tr>" in html
    assert "In every row: c0: x, c1: x" in html


def test_an_endless_condition_is_cut() -> None:
    long = run().model_copy(update={"environment": {"notes": "word " * 500}})
    html = text_of(finding_report.build("T", [], [long], "none", WHEN))
    assert " …</td>" in html
    assert len(html) < 20_000
