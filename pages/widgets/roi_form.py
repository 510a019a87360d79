"""The form of the ROI page: every money and risk input, nothing recomputed until asked."""

from collections.abc import Mapping
from datetime import date

import streamlit as st

from models.errors import InvalidSpec
from models.prices import OLD_AFTER_DAYS, Catalogue, age_days
from models.risk import Evidence, bound_words
from pages.widgets import roi_state, store
from pages.widgets.plain import plain
from pages.widgets.roi_fields import (
    FIELDS,
    GROUPS,
    Default,
    Field,
    Value,
    Values,
    changed,
    check,
    number,
    text_of,
    words,
)
from pages.widgets.roi_question import SYMBOLS, rate_age_days

PER_ROW = 3
_ENDS = ("low", "likely", "high")


def render(
    values: Values,
    given: Mapping[str, Default],
    catalogue: Catalogue,
    *,
    benefit: str,
    by_hand: bool,
    today: date,
) -> None:
    """Draw the form; a submit puts what differs from the defaults into the URL and starts over.

    Args:
        values: As they stand.
        given: The defaults.
        catalogue: For the names of the failure priors.
        benefit: What a gain brings: other inputs are not asked.
        by_hand: Whether the gain is entered here.
        today: For the age of figures.
    """
    mine = changed(values, given)
    old = sum(_is_old(given[code], today) and code not in mine for code in given)
    label = f"Money and risk inputs: {len(mine)} changed"
    label += f", {old} older than {OLD_AFTER_DAYS} days" if old else ""
    key = roi_state.stamp([roi_state.stamp([text_of(values[code]) for code in given]), benefit])
    with st.expander(label, key=f"roi-inputs-{roi_state.generation()}"), st.form(f"roi-{key}"):
        groups = [name for name in GROUPS if name != "gain" or by_hand]
        found: Values = {}
        for name, tab in zip(groups, st.tabs([GROUPS[name] for name in groups]), strict=True):
            with tab:
                _group(name, values, given, catalogue, benefit, today, key, found)
        asked = st.form_submit_button("Work it out", type="primary")
        st.caption(
            "Nothing is worked out until asked. Every value stands in the address of this page."
        )
    if asked:
        _take(values | found, given)


def _take(values: Values, given: Mapping[str, Default]) -> None:
    try:
        check(values)
    except InvalidSpec as error:
        store.show_error(error)
        return
    roi_state.put_inputs(changed(values, given))
    st.rerun()


def _group(
    name: str,
    values: Values,
    given: Mapping[str, Default],
    catalogue: Catalogue,
    benefit: str,
    today: date,
    key: str,
    found: Values,
) -> None:
    if name == "risk":
        seen = Evidence(number(values, "incidents_cand"), number(values, "hours_cand"))
        st.info(f"Candidate: {bound_words(seen)}")
    shown = [f for f in FIELDS.values() if f.group == name and benefit in f.only]
    symbol = SYMBOLS.get(words(values, "currency"), "$")
    rate = number(values, "rate") if words(values, "currency") != "USD" else 1.0
    singles: list[Field] = []
    for field in shown:
        if field.kind == "range":
            _singles(singles, values, given, catalogue, today, key, found, symbol, rate)
            singles = []
            found[field.code] = _range(field, values, key, symbol, rate)
            _source(given[field.code], values[field.code], today)
        else:
            singles.append(field)
    _singles(singles, values, given, catalogue, today, key, found, symbol, rate)
    if name == "money" and (age := rate_age_days(values, today)) is not None:
        flag = ": check it" if age > OLD_AFTER_DAYS else ""
        st.caption(f"The exchange rate is {age} days old{flag}.")


def _singles(
    fields: list[Field],
    values: Values,
    given: Mapping[str, Default],
    catalogue: Catalogue,
    today: date,
    key: str,
    found: Values,
    symbol: str,
    rate: float,
) -> None:
    """Numbers, choices and texts, three in a row."""
    for first in range(0, len(fields), PER_ROW):
        for field, column in zip(
            fields[first : first + PER_ROW], st.columns(PER_ROW), strict=False
        ):
            with column:
                found[field.code] = _single(field, values, catalogue, key, symbol, rate)
                _source(given[field.code], values[field.code], today)


def _single(
    field: Field, values: Values, catalogue: Catalogue, key: str, symbol: str, rate: float
) -> Value:
    name = f"roi-{key}-{field.code}"
    if field.kind == "text":
        return st.text_input(
            field.label, str(values[field.code]), key=name, max_chars=80, help=field.help or None
        ).strip()
    if field.kind == "choice":
        options = dict(field.options)
        if field.code == "prior":
            options = {key: prior.label for key, prior in catalogue.priors.items()}
        codes = list(options)
        now = str(values[field.code])
        return str(
            st.selectbox(
                field.label,
                codes,
                index=codes.index(now) if now in codes else 0,
                format_func=options.__getitem__,
                key=name,
                help=field.help or None,
            )
        )
    return _number(field, _label(field, symbol), number(values, field.code), name, rate)


def _range(
    field: Field, values: Values, key: str, symbol: str, rate: float
) -> tuple[float, float, float]:
    value = values[field.code]
    ends = value if isinstance(value, tuple) else (float(value),) * 3
    found = []
    for place, (end, column) in enumerate(zip(_ENDS, st.columns(3), strict=True)):
        with column:
            label = f"{_label(field, symbol)}: {end}" if place == 0 else f"{end}"
            found.append(_number(field, label, ends[place], f"roi-{key}-{field.code}-{end}", rate))
    return found[0], found[1], found[2]


def _label(field: Field, symbol: str) -> str:
    unit = field.unit.replace("$", symbol)
    # one dollar sign is no formula, and an escaped one would be read aloud with its backslash
    return f"{field.label} ({unit})" if unit else field.label


def _number(field: Field, label: str, value: float, key: str, rate: float) -> float:
    """A number in the chosen currency; untouched it stays what it was, to the last digit."""
    factor = rate if field.is_money else 1.0
    shown = float(f"{value * factor:.6g}")
    asked = st.number_input(
        label,
        min_value=float(field.least * factor),
        max_value=float(field.most * factor),
        value=shown,
        step=_step(field, shown),
        format=_format(field, shown),
        key=key,
        help=field.help or None,
    )
    return value if asked == shown else float(f"{asked / factor:.6g}")


def _step(field: Field, shown: float) -> float:
    size = abs(shown)
    if field.is_whole or 10 <= size < 1000:
        return 1.0
    if size < 10:
        return 0.01 if size < 1 else 0.1
    return float(10 ** (len(f"{size:.0f}") - 2))


def _format(field: Field, shown: float) -> str:
    if field.is_whole or field.unit == "tok/day" or abs(shown) >= 1000:
        return "%.0f"
    return "%.4f" if field.unit == "$/kWh" else "%.2f" if field.is_money else "%.1f"


def _is_old(default: Default, today: date) -> bool:
    return default.day is not None and age_days(default.day, today) > OLD_AFTER_DAYS


def _source(default: Default, value: Value, today: date) -> None:
    """Where the value comes from, and how old it is."""
    if text_of(value) != text_of(default.value):
        usual = text_of(default.value) or "empty"
        st.caption(plain(f"Yours (else {usual}: {default.source})."))
        return
    when = ""
    if default.day is not None:
        days = age_days(default.day, today)
        flag = f", ⚠ {days} days old: check it" if days > OLD_AFTER_DAYS else ""
        when = f", {default.day.isoformat()}{flag}"
    st.caption(plain(f"{default.source}{when}"))
