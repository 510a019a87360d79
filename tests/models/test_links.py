"""Link kinds: order, words, symmetric matrices."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import links
from models.errors import InvalidSpec

CODES = ["NV1", "NV4", "NV18", "XGMI", "PSB", "PIX", "PXB", "PHB", "NODE", "PCIE", "SYS", "SOC"]


def test_the_order_of_kinds() -> None:
    order = ["X", "NV18", "NV4", "NV1", "PIX", "PXB", "PHB", "NODE", "SYS", None]
    assert sorted(order, key=links.rank, reverse=True) == order
    assert links.rank(None) == 0
    assert links.rank("SOC") == links.rank("SYS")


@pytest.mark.parametrize("code", CODES)
def test_every_kind_has_words(code: str) -> None:
    kind = links.link_kind(code)
    assert kind.code == code
    assert kind.meaning.endswith(".")
    assert code in links.phrase(code) or kind.label
    assert links.is_link(code)


def test_words_that_people_read() -> None:
    assert links.link_kind("NV1").label == "1 NVLink"
    assert links.link_kind("NV4").label == "4 NVLinks"
    assert links.phrase("PHB") == "cross the host bridge (PHB)"
    assert links.phrase("NV4") == "share NV4 (4 NVLinks)"
    assert links.phrase(None) == "are joined in a way that no source states"


@pytest.mark.parametrize("code", ["", "NV", "NVX", "FOO", "OK", "nv4", "NV0"])
def test_other_words_are_no_links(code: str) -> None:
    assert not links.is_link(code)
    with pytest.raises(InvalidSpec):
        links.link_kind(code)


def test_direct_links_are_nvlink_and_infinity_fabric() -> None:
    assert [code for code in CODES if links.is_direct(code)] == ["NV1", "NV4", "NV18", "XGMI"]


def test_a_pair_seen_once_is_known_and_a_contradiction_counts_as_the_worse() -> None:
    matrix = [["X", "NV4", None], [None, "X", "PHB"], [None, "NV4", "X"]]
    assert links.checked(matrix) == [["X", "NV4", None], ["NV4", "X", "PHB"], [None, "PHB", "X"]]
    assert not links.is_complete(matrix)
    assert links.is_complete([["X", "SYS"], [None, "X"]])


def test_a_matrix_must_be_square_and_hold_links() -> None:
    with pytest.raises(InvalidSpec):
        links.checked([["X", "SYS"]])
    with pytest.raises(InvalidSpec):
        links.checked([["X", "OK"], ["OK", "X"]])


@settings(deadline=None)
@given(st.lists(st.sampled_from([*CODES, None]), min_size=2, max_size=2))
def test_the_worse_of_two_never_ranks_above_either(pair: list[str | None]) -> None:
    worst = links.worse(*pair)
    assert links.rank(worst) == min(links.rank(pair[0]), links.rank(pair[1]))
