"""An answer and the choices it rests on: beside each other where both fit, else the answer first.

A person with a phone meets a figure before a form, and so does who listens to the page or walks
it by keyboard: the answer stands first in the document at every width.
"""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.elements.lib.grid_container import GridContainer

# below this a choice's words are cut; a page of 1280 pixels beside its navigation has three columns
COLUMN_PX = 240
# two numbers with their plus and minus side by side on a phone, one below the other in a column
FIELD_PX = 150


def places() -> tuple[DeltaGenerator, DeltaGenerator]:
    """Where the answer goes and where its choices go, to be filled in either order."""
    grid = st.grid(3, min_column_width=COLUMN_PX)
    return grid.cell(column_span=2), grid.cell()


def fields(most: int = 4) -> GridContainer:
    """Short fields of a form, as many in a row as there is room for.

    A long one takes a row of its own: ``with fields.cell(column_span="all")``.

    Args:
        most: Fields in a row of a wide page.
    """
    return st.grid(most, min_column_width=FIELD_PX)
