"""Nested facts as one table."""

from hypothesis import given
from hypothesis import strategies as st

from models.nested import flat

VALUES = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
NAMES = st.text("abc", min_size=1, max_size=3)


def test_paths_and_lists() -> None:
    assert flat({"a": {"b": 1, "c": {"d": [1, 2]}}, "e": None}) == {
        "a.b": 1,
        "a.c.d": [1, 2],
        "e": None,
    }
    assert flat({}) == {}


@given(st.recursive(VALUES, lambda inner: st.dictionaries(NAMES, inner, max_size=3)))
def test_every_leaf_is_kept_once(value: object) -> None:
    def leaves(item: object) -> int:
        return sum(map(leaves, item.values())) if isinstance(item, dict) else 1

    found = flat({"root": value})
    assert len(found) == leaves(value)
    assert not any(isinstance(item, dict) for item in found.values())
