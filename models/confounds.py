"""What else differs between two arms, and so may be the cause instead of the link."""

from collections.abc import Collection, Mapping
from typing import Any

from models.nested import flat
from models.result import Notice

# What the arms of a link comparison are meant to differ in.
LINK_VARIABLES = frozenset(("NCCL_P2P_DISABLE", "CUDA_VISIBLE_DEVICES"))
ACCEPTANCE_LIMIT = 1.0  # percentage points of drafted tokens


def environment_difference(
    reference: Mapping[str, Any],
    other: Mapping[str, Any],
    *,
    meant: Collection[str] = LINK_VARIABLES,
) -> dict[str, tuple[Any, Any]]:
    """Variables and versions that two runs do not share.

    Args:
        reference: One run's environment; nested parts are compared by their own names.
        other: The other's.
        meant: Names that are meant to differ.

    Returns:
        Name -> both values, None where one side does not say.
    """
    left, right = flat(reference), flat(other)
    names = sorted(set(left) | set(right))
    return {
        name: (left.get(name), right.get(name))
        for name in names
        if left.get(name) != right.get(name) and name.rsplit(".", 1)[-1] not in meant
    }


def environment_warning(
    reference: Mapping[str, Any],
    other: Mapping[str, Any],
    *,
    meant: Collection[str] = LINK_VARIABLES,
) -> Notice | None:
    """A warning that lists what differs besides the link, or None."""
    different = environment_difference(reference, other, meant=meant)
    if not different:
        return None
    shown = "; ".join(
        f"{name}: {_said(pair[0])} against {_said(pair[1])}" for name, pair in different.items()
    )
    return Notice(
        code="environment_differs", text=f"The arms differ in more than the link. {shown}."
    )


def acceptance_warning(
    reference_pct: float | None,
    other_pct: float | None,
    *,
    arms: tuple[str, str] = ("one arm", "the other"),
) -> Notice | None:
    """A warning where speculative decoding accepted more in one arm than in the other.

    Args:
        reference_pct: Acceptance rate of one arm, percent; None without speculative decoding.
        other_pct: The other's.
        arms: Their names.

    Returns:
        The warning, or None within a percentage point or where nothing was drafted.
    """
    if reference_pct is None or other_pct is None:
        return None
    if abs(other_pct - reference_pct) < ACCEPTANCE_LIMIT:
        return None
    return Notice(
        code="acceptance_differs",
        text=(
            f"Speculative decoding accepted {reference_pct:.1f} % in {arms[0]} and "
            f"{other_pct:.1f} % in {arms[1]}: part of a change may be the draft and not the link."
        ),
    )


def _said(value: Any) -> str:
    return "not said" if value is None else str(value)
