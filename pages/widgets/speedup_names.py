"""Names of cases: no two alike, for colours, legends and rows go by them; and their order."""

from collections.abc import Sequence
from typing import Protocol


class Named(Protocol):
    """What names and orders a case."""

    label: str
    host: str
    host_id: str
    origin: str
    study: str | None
    model: str
    parameters: int | None
    batch: int
    kv_len: int | None
    link: str | None


def tell_apart(cases: Sequence[Named]) -> None:
    """Give cases of one name the name of their study too, or a mark of their host, or origin."""
    for further in (_of_study, _of_host, _of_origin):
        by_label: dict[str, list[Named]] = {}
        for case in cases:
            by_label.setdefault(case.label, []).append(case)
        for same in by_label.values():
            marks = [further(case) for case in same]
            if len(set(marks)) > 1:
                for case, mark in zip(same, marks, strict=True):
                    case.label += f" · {mark}" if mark else ""


def in_order(case: Named) -> tuple[object, ...]:
    """Sort by host, model and load as numbers, link on before off, published ones last."""
    return (
        case.origin == "published",
        case.host,
        case.parameters or 0,
        case.model,
        case.batch,
        case.kv_len or 0,
        case.link == "off",
        case.label,
    )


def _of_study(case: Named) -> str:
    return case.study or ""


def _of_host(case: Named) -> str:
    return f"host {case.host_id[:6]}"


def _of_origin(case: Named) -> str:
    return "" if case.origin == "measured" else case.origin
