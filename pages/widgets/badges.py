"""Where a number comes from and whether it may be used: one badge each, everywhere the same."""

# A sign beside the word, so that colour is never the only difference.
_ORIGIN = {
    "measured": ("green", "● measured"),
    "imported": ("blue", "▲ imported"),
    "published": ("violet", "❝ published"),
    "described": ("gray", "◇ described"),
    "predicted": ("orange", "◌ predicted"),
    "assumed": ("yellow", "✎ assumed"),
}
_VALIDITY = {
    "valid": ("green", "✓ valid"),
    "suspect": ("orange", "? suspect"),
    "invalid": ("red", "✗ invalid"),
}
_STATE = {
    "queued": ("gray", "… queued"),
    "running": ("blue", "▶ running"),
    "succeeded": ("green", "✓ succeeded"),
    "failed": ("red", "✗ failed"),
    "cancelled": ("gray", "■ cancelled"),
    "timed_out": ("red", "⏱ timed out"),
    "lost": ("orange", "? lost"),
}


def _markdown(entry: tuple[str, str]) -> str:
    colour, words = entry
    return f":{colour}-badge[{words}]"


def badge(origin: str, validity: str | None = None) -> str:
    """Markdown badges for an origin and, where given, a validity."""
    words = _markdown(_ORIGIN[origin])
    return words if validity is None else f"{words} {_markdown(_VALIDITY[validity])}"


def state_badge(state: str) -> str:
    """Markdown badge for a job state."""
    return _markdown(_STATE[state])


def plain(origin: str) -> str:
    """The same words without markup, for table cells and legends."""
    return _ORIGIN[origin][1]


def plain_validity(validity: str) -> str:
    """Validity in words without markup."""
    return _VALIDITY[validity][1]
