"""Method: topics in the URL, links between texts, every metric in the table."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from models.metrics import METRICS
from pages import method_page

OpenPage = Callable[..., AppTest]


def test_the_table_holds_every_metric(database: Engine, open_page: OpenPage) -> None:
    frame = open_page("method").table[0].value
    assert len(frame) == len(METRICS)
    for text, name in zip(frame["meaning"], METRICS, strict=True):
        assert text.replace("\\", "").endswith(f"In files: {name}.")
    assert frame["meaning"].str.len().min() > 10


@pytest.mark.parametrize("topic", method_page.topics())
def test_a_topic_of_the_url_is_shown(topic: str, database: Engine, open_page: OpenPage) -> None:
    at = open_page("method", topic=topic)
    assert not at.exception
    assert at.segmented_control(key="method-topic").value == topic
    shown = at.markdown[0].value
    assert shown.startswith("## ")
    assert ".md)" not in shown


def test_a_click_stands_in_the_url_and_an_unknown_topic_is_the_table(
    database: Engine, open_page: OpenPage
) -> None:
    at = open_page("method", topic="no-such-topic")
    assert at.segmented_control(key="method-topic").value == "metrics"
    at.segmented_control(key="method-topic").set_value("serving").run()
    assert at.query_params["topic"] == "serving"
    assert "vllm bench serve" in at.markdown[0].value


def test_texts_link_inside_the_app_and_to_nothing_that_is_not_there() -> None:
    text = "# A\n[one](allreduce.md) [two](../calibration.md) [three](../../NOTICE) [four](#b)\n"
    assert method_page.as_page(text, {"allreduce", "calibration"}) == (
        "## A\n[one](?topic=allreduce) [two](?topic=calibration) three [four](#b)\n"
    )


def test_every_topic_has_words_of_its_own() -> None:
    assert set(method_page.topics()) <= set(method_page.TITLES)
