"""Names of cases in a choice: a phone shows their first forty characters."""

from collections import Counter

from decode_runs import at_url, decode_run

from db import runs
from pages.widgets.speedup_cases import build
from pages.widgets.speedup_names import choices

SEEN = 40  # characters of a tag on a screen of 400 pixels


def named(database):
    cases = build(database)
    return dict(zip([case.label for case in cases], choices(cases), strict=True))


def test_a_choice_has_the_parts_of_its_label_and_no_others(first_start):
    for label, name in named(first_start).items():
        assert sorted(name.split(" · ")) == sorted(label.split(" · "))


def test_no_two_shipped_cases_look_alike_on_a_phone(first_start):
    seen = Counter(name[:SEEN] for name in named(first_start).values())
    assert len(seen) > 4
    assert seen.most_common(1)[0][1] == 1


def test_what_tells_apart_comes_first(database):
    for batch, link in ((1, "on"), (1, "off"), (64, "on")):
        runs.store(database, decode_run(2, {"wall_graph": [2.0]}, batch=batch, link=link))
    own = {label: name for label, name in named(database).items() if "Example GPU" in label}
    assert set(own.values()) == {
        "link off · small · batch 1 · KV 1,024 · Example GPU",
        "link on · batch 1 · small · KV 1,024 · Example GPU",
        "batch 64 · small · link on · KV 1,024 · Example GPU",
    }


def test_the_page_offers_cases_and_runs_by_these_names(database):
    for link in ("on", "off"):
        runs.store(database, decode_run(2, {"wall_graph": [2.0]}, link=link))
    at = at_url()
    offered = at.multiselect(key="speedup-cases").options
    assert "link off · small · batch 1 · KV 1,024 · Example GPU" in offered
    assert at.selectbox(key="compare-left").options == ["link on · TP=2", "link off · TP=2"]
    (one,) = [case for case in build(database) if case.label.endswith("KV 1,024 · link on")
              and case.model == "small"]  # fmt: skip
    runs.store(database, decode_run(1, {"wall_graph": [3.0]}))
    alone = at_url(cases=one.code)
    assert [name.partition(" · ")[0] for name in alone.selectbox(key="compare-left").options] == [
        "TP=1", "TP=2",
    ]  # fmt: skip
