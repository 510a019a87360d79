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


def choices(cases: Sequence[Named]) -> list[str]:
    """Names for a choice, where a phone shows some forty characters: what tells apart comes first.

    A part of a name tells cases apart where another case has another one in its place and all else
    the same.

    Args:
        cases: All that are offered, `tell_apart` done.

    Returns:
        One name a case, in their order, with the parts of its label and no others.
    """
    parts = [_parts(case) for case in cases]
    values: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for own in parts:
        for name in own:
            values.setdefault((name, _rest(own, name)), set()).add(own[name])
    names = []
    for own in parts:
        telling = [name for name in own if len(values[name, _rest(own, name)]) > 1]
        ordered = [*telling, *(name for name in own if name not in telling)]
        names.append(" · ".join(own[name] for name in ordered if own[name]))
    return names


def _parts(case: Named) -> dict[str, str]:
    """A label's parts by what they say, in the order in which a choice names them."""
    known = {
        "model": case.model,
        "link": f"link {case.link}" if case.link else "",
        "batch": f"batch {case.batch}",
        "kv": f"KV {case.kv_len:,}" if case.kv_len else "",
    }
    rest = [word for word in case.label.split(" · ") if word not in (*known.values(), case.host)]
    return known | {"further": " · ".join(rest), "host": case.host}


def _rest(parts: dict[str, str], name: str) -> tuple[str, ...]:
    """All but one part; the mark of a study or host counts only where it is what is looked at."""
    return tuple(said for other, said in parts.items() if other not in (name, "further"))


def _of_study(case: Named) -> str:
    return case.study or ""


def _of_host(case: Named) -> str:
    return f"host {case.host_id[:6]}"


def _of_origin(case: Named) -> str:
    return "" if case.origin == "measured" else case.origin
