"""One palette, one colour an arm on all pages, and what every chart shares."""

from collections.abc import Sequence

import altair as alt

# One set for both themes and for exported pictures: each has a contrast of at least 3 on white and
# on the dark background. The same six stand in .streamlit/config.toml for marks without an arm.
PALETTE = ("#3A8EE6", "#B8620E", "#1F9268", "#D9589F", "#8C7A14", "#8A5FD0")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3])

# height of a picture of rows whose names stand above their marks
ROW = alt.Step(48)

# Arms that exist in many evaluations keep their slot everywhere.
_FIXED_SLOTS = {"link on": 0, "link-on": 0, "link off": 1, "link-off": 1}


def slots(arms: Sequence[str]) -> dict[str, int]:
    """A stable slot for each arm: fixed ones first, the others in the order given."""
    taken = {arm: _FIXED_SLOTS[arm.lower()] for arm in arms if arm.lower() in _FIXED_SLOTS}
    free = [slot for slot in range(len(PALETTE)) if slot not in taken.values()] or [0]
    others = [arm for arm in dict.fromkeys(arms) if arm not in taken]
    return taken | {arm: free[i % len(free)] for i, arm in enumerate(others)}


def marks(arms: Sequence[str]) -> dict[str, int]:
    """Place of each arm's shape and dash: its slot's, and the next one where colours come again."""
    slot = slots(arms)
    seen: list[int] = []
    found = {}
    for arm, mine in slot.items():
        found[arm] = (mine + seen.count(mine)) % len(SHAPES)
        seen.append(mine)
    return found


def colour(
    field: str,
    arms: Sequence[str],
    title: str | None = None,
    *,
    is_filled: bool = False,
    columns: int = 1,
) -> alt.Color:
    """Colour of an arm by its slot, so that filtering never recolours.

    Args:
        field: The column of arms.
        arms: All arms in order.
        title: Of the legend.
        is_filled: The legend shows filled marks, not the dashes and faint bands of other layers.
        columns: Names a line in the legend. One by default: names are long, and a phone's screen
            is 360 pixels wide.
    """
    slot = slots(arms)
    return alt.Color(
        field,
        type="nominal",
        scale=alt.Scale(domain=list(slot), range=[PALETTE[i] for i in slot.values()]),
        legend=alt.Legend(
            title=title,
            orient="bottom",
            columns=columns,
            labelLimit=285,
            labelFontSize=11,
            **({"symbolStrokeWidth": 0, "symbolOpacity": 1} if is_filled else {}),
        ),
    )


def shape(field: str, arms: Sequence[str]) -> alt.Shape:
    """Mark shape of an arm, so that colour is never alone."""
    place = marks(arms)
    return alt.Shape(
        field,
        type="nominal",
        scale=alt.Scale(domain=list(place), range=[SHAPES[i] for i in place.values()]),
        legend=None,
    )


def dash(field: str, arms: Sequence[str]) -> alt.StrokeDash:
    """Line dash of an arm."""
    place = marks(arms)
    return alt.StrokeDash(
        field,
        type="nominal",
        scale=alt.Scale(domain=list(place), range=[DASHES[i] for i in place.values()]),
        legend=None,
    )


def names_above(field: str, sort: Sequence[str] | str | None = None) -> alt.Y:
    """A row a name, with the name above its mark: a long name then costs the marks no width.

    Args:
        field: The column of names.
        sort: Order of the rows, as in `alt.Y`; None keeps the order of the data.

    The height of the picture is `ROW`.
    """
    return alt.Y(
        field,
        type="nominal",
        title=None,
        sort=sort,  # type: ignore[arg-type]
        scale=alt.Scale(paddingInner=0.5, paddingOuter=0.45),
        axis=alt.Axis(
            labelAlign="left",
            labelBaseline="bottom",
            labelOffset=-13,
            labelPadding=0,
            labelLimit=345,
            ticks=False,
            domain=False,
        ),
    )


_SIZE_LABEL = (
    "datum.value >= 1073741824 ? datum.value / 1073741824 + ' GB' : "
    "datum.value >= 1048576 ? datum.value / 1048576 + ' MB' : "
    "datum.value >= 1024 ? datum.value / 1024 + ' KB' : datum.value + ' B'"
)


def message_sizes(low: float, high: float, field: str = "bytes") -> alt.X:
    """Message sizes on a logarithmic axis of powers of two, named as people say them.

    Args:
        low: Smallest size, bytes.
        high: Largest size, bytes.
        field: The column of sizes.
    """
    ticks = [2**k for k in range(0, 41, 2) if low <= 2**k <= high]
    return alt.X(
        field,
        type="quantitative",
        title="Message size (binary KB, MB)",
        scale=alt.Scale(type="log", base=2, domain=[low, high], nice=False),
        axis=alt.Axis(values=ticks, labelExpr=_SIZE_LABEL),
    )
