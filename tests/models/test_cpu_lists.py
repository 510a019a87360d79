"""Lists of processors, written and read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.cpu_lists import compact, parse
from models.errors import InvalidSpec


@given(st.sets(st.integers(0, 4095), min_size=1, max_size=50))
def test_what_is_written_is_read_back(cpus: set[int]) -> None:
    assert parse(compact(cpus)) == sorted(cpus)


@pytest.mark.parametrize(
    "text", ["", "a", "1-", "-1", "2-1", "1,,2", "4096", "0-99999", "1;2", "٣"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec, match="no list of CPUs"):
        parse(text)
