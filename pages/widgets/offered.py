"""Which runs an explorer offers: a choice among ten thousand is none, and takes long to draw."""

from collections.abc import Collection, Sequence

import pandas as pd
import streamlit as st

from db import runs
from db.engine import Engine

NEWEST = 500


def offered(engine: Engine, kinds: Sequence[str], asked: Collection[str] = ()) -> pd.DataFrame:
    """Rows of `db.runs.list_runs`: the newest, what came with the code, and what a link names.

    Args:
        engine: The database.
        kinds: Of these kinds only.
        asked: Ids of runs that the URL names, however old.
    """
    parts = [
        runs.list_runs(engine, kinds=kinds, shipped=False, limit=NEWEST),
        runs.list_runs(engine, kinds=kinds, shipped=True),
    ]
    missing = set(asked) - set(parts[0]["id"])
    if missing:
        parts.append(runs.list_runs(engine, kinds=kinds, ids=missing))
    listed = pd.concat([part for part in parts if not part.empty] or parts[:1])
    listed = listed.drop_duplicates("id")
    return listed.sort_values("created_at", ascending=False, kind="stable", ignore_index=True)


def say_what_is_left_out(engine: Engine, kinds: Sequence[str], words: str) -> None:
    """One line where there are more runs than are offered."""
    total = runs.count(engine, kinds=kinds, shipped=False)
    if total > NEWEST:
        st.caption(
            f"The newest {NEWEST:,} of {total:,} {words} are offered. Find an older one on the "
            "page Runs and follow its link to here."
        )
