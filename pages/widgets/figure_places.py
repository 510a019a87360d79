"""Where the rows of each figure stand in a frame of measurements, found once for each frame.

A page over five arms asks for a thousand figures; a look through every row for each of them would
be most of its time.
"""

import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

Places = np.ndarray[tuple[int], np.dtype[np.intp]]
Figure = tuple[str, str, tuple[Any, ...]]

_NONE: Places = np.empty(0, dtype=np.intp)
# by the identity of the frame, for as long as it lives
_KNOWN: dict[int, Mapping[Figure, Places]] = {}


def places(frame: pd.DataFrame, metric: str, statistic: str, cell: tuple[Any, ...]) -> Places:
    """Positions of a figure's rows, in their order.

    Args:
        frame: Columns metric, statistic, cell; it must not change once it was asked about.
        metric: Name of the metric.
        statistic: Of it.
        cell: The workload.
    """
    known = _KNOWN.get(id(frame))
    if known is None:
        known = _found(frame)
        _KNOWN[id(frame)] = known
        weakref.finalize(frame, _KNOWN.pop, id(frame), None)
    return known.get((metric, statistic, cell), _NONE)


def _found(frame: pd.DataFrame) -> Mapping[Figure, Places]:
    by_figure: dict[Figure, list[int]] = {}
    columns = (frame["metric"], frame["statistic"], frame["cell"])
    for place, figure in enumerate(zip(*columns, strict=True)):
        by_figure.setdefault(figure, []).append(place)
    return {figure: np.array(rows, dtype=np.intp) for figure, rows in by_figure.items()}
