"""Link A/B and ROI with more served runs than a page offers, and with runs that come later."""

import pytest
from roi_runs import serving
from serving_runs import EVALUATION, arm_result

from db import runs
from pages.widgets import offered
from pages.widgets.roi_arms import Reader
from pages.widgets.serving_arms import Arm, figures, groups


@pytest.fixture
def three(database, monkeypatch):
    """Evaluations old, middle and new of two arms each; only the newest run is offered."""
    monkeypatch.setattr(offered, "NEWEST", 1)
    return {
        name: [
            runs.store(database, serving(arm, f"evaluation-{name}", tok_s=100.0))
            for arm in ("link-off", "link-on")
        ]
        for name in ("old", "middle", "new")
    }


def own(engine, asked=()):
    return [g.code for g in groups(engine, asked) if g.code.startswith("evaluation-")]


def box(at, label):
    (found,) = [box for box in at.selectbox if box.label == label]
    return found


def test_an_evaluation_is_offered_whole(database, three):
    assert own(database) == ["evaluation-new"]
    (new,) = [group for group in groups(database) if group.code == "evaluation-new"]
    assert [arm.run_ids for arm in new.arms] == [(run_id,) for run_id in three["new"]]


def test_what_came_with_the_app_is_always_there(database, three):
    assert "nvlink-on-4x3090" in {group.code for group in groups(database)}


@pytest.mark.parametrize("by", ["run", "evaluation"])
def test_a_link_finds_an_old_evaluation_whole(database, three, by):
    asked = {"run": three["old"][1], "evaluation": "evaluation-old"}[by]
    assert own(database, [asked]) == ["evaluation-new", "evaluation-old"]
    (old,) = [group for group in groups(database, [asked]) if group.code == "evaluation-old"]
    assert [arm.run_ids for arm in old.arms] == [(run_id,) for run_id in three["old"]]


@pytest.mark.parametrize(("name", "value"), [("evaluation", "evaluation-old"), ("runs", "{run}")])
def test_link_ab_opens_the_old_evaluation_that_a_link_names(
    database, three, open_page, name, value
):
    at = open_page("link-ab", **{name: value.format(run=three["old"][0])})
    assert not at.exception
    assert box(at, "Evaluation").value == "evaluation-old"


def test_link_ab_compares_an_old_arm_with_any_other(database, three, open_page):
    codes = {"a": "evaluation-old|link-off", "b": "evaluation-new|link-on"}
    at = open_page("link-ab", evaluation="any", **codes)
    assert not at.exception
    assert box(at, "Reference").value == codes["a"]
    assert box(at, "Compared with it").value == codes["b"]


def test_link_ab_says_what_is_left_out(database, three, open_page):
    at = open_page("link-ab")
    said = "\n".join(each.value for each in at.caption)
    assert "The newest 1 of 6 served runs are offered" in said


def test_roi_weighs_an_old_evaluation_that_is_asked_for(database, three, open_page):
    reader = Reader(database)
    assert "evaluation-old" not in reader.groups
    reader.look_for("evaluation-old")
    assert "evaluation-old" in reader.groups
    reader.look_for("no such evaluation")
    assert "no such evaluation" not in reader.groups
    at = open_page("roi", source="evaluation-old")
    assert not at.exception
    assert box(at, "Evidence").value == "evaluation-old"


def test_a_further_round_is_seen_at_once(database):
    runs.store(database, arm_result("link-off", 1.2))
    runs.store(database, arm_result("link-on", 1.0, rounds=(0,)))

    def arm() -> Arm:
        (group,) = [group for group in groups(database) if group.code == EVALUATION]
        return next(arm for arm in group.arms if arm.name == "link-on")

    before = figures(database, arm())
    assert set(before["round"].dropna()) == {0}
    runs.store(database, arm_result("link-on", 1.0, rounds=(1,)))
    after = figures(database, arm())
    assert set(after["round"].dropna()) == {0, 1}
    # and what was kept before is as it was
    assert set(before["round"].dropna()) == {0}


def test_a_page_leaves_what_is_kept_as_it_was(database, open_page):
    runs.store(database, arm_result("link-off", 1.2))
    runs.store(database, arm_result("link-on", 1.0))
    (group,) = [group for group in groups(database) if group.code == EVALUATION]
    copies = {arm: figures(database, arm).copy() for arm in group.arms}
    assert not open_page("link-ab", evaluation=EVALUATION).exception
    assert not open_page("roi", source=EVALUATION).exception
    for arm, copy in copies.items():
        assert figures(database, arm).equals(copy)
