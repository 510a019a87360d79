"""Verdicts from tiers: what outweighs what, and that each bad one has a next step."""

import pytest

from models.peer_check import TIERS, VERDICT_WORDS, TierOutcome, verdict


def outcomes(*states):
    return [
        TierOutcome(tier, state, f"{tier} said {state}." if state != "passed" else "")
        for tier, state in zip(TIERS, states, strict=False)
    ]


@pytest.mark.parametrize(
    ("states", "code", "tier"),
    [
        (("passed", "passed", "passed"), "works", "collective"),
        (("passed", "passed", "passed", "passed"), "works", "load"),
        (("passed",), "works", "grant"),
        (("passed", "passed", "slower"), "works", "copies"),
        (("passed", "passed", "skipped"), "works", "copies"),
        (("passed", "wrong", "skipped"), "wrong", "grant"),
        (("passed", "passed", "wrong"), "wrong", "copies"),
        (("passed", "hang", "skipped"), "hangs", "grant"),
        (("passed", "failed", "skipped"), "fails", "grant"),
        (("passed", "hang", "wrong"), "wrong", "grant"),
        (("refused", "passed", "passed"), "not_granted", None),
        (("refused", "wrong", "skipped"), "wrong", None),
        ((), "not_tested", None),
    ],
)
def test_verdicts(states, code, tier):
    told = verdict(outcomes(*states))
    assert (told.code, told.tier) == (code, tier)
    assert told.sentence.startswith(VERDICT_WORDS[code].capitalize())


def test_a_sentence_says_what_was_seen_and_what_to_do():
    slow = verdict(outcomes("passed", "passed", "slower"))
    assert "copies arrive right" in slow.sentence
    assert "collective said slower." in slow.sentence
    assert "NCCL_P2P_LEVEL" in slow.next_step
    around = verdict(outcomes("passed", "passed", "skipped"))
    assert "NCCL_P2P_LEVEL=SYS" in around.next_step
    wrong = verdict(outcomes("passed", "wrong", "skipped"))
    assert "copies said wrong." in wrong.sentence
    assert "--disable-custom-all-reduce" in wrong.next_step


def test_a_wrong_value_without_peer_access_blames_the_host():
    assert "went through the host" in verdict(outcomes("refused", "wrong")).sentence


def test_only_a_link_that_works_needs_no_next_step():
    for states in (("refused",), ("passed", "wrong"), ("passed", "hang"), ("passed", "failed"), ()):
        assert verdict(outcomes(*states)).next_step
    assert verdict(outcomes("passed", "passed", "passed")).next_step == ""


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (
            ("passed", "wrong"),
            ("NCCL_P2P_DISABLE=1", "--disable-custom-all-reduce", "driver", "ACS", "IOMMU"),
        ),
        (("passed", "hang"), ("NCCL_P2P_DISABLE=1", "--disable-custom-all-reduce", "ACS", "Xid")),
        (("passed", "failed"), ("log", "Xid")),
        (("refused",), ("driver", "ACS", "IOMMU", "NCCL_P2P_LEVEL=SYS")),
        (("passed", "passed", "slower"), ("NCCL_P2P_LEVEL=PIX", "NCCL_P2P_DISABLE=1")),
    ],
)
def test_each_answer_has_the_step_that_fits_it(states, words):
    step = verdict(outcomes(*states)).next_step
    for word in words:
        assert word in step
