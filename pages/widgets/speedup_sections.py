"""The parts of the Speedup page: pictures, hosts side by side, conditions, break-even."""

from collections.abc import Callable, Mapping, Sequence

import altair as alt
import pandas as pd
import streamlit as st

from db.engine import Engine
from models.definitions import DEFINITIONS
from models.scaling_fits import break_even
from models.scaling_words import (
    SAME_WITHIN,
    break_even_sentence,
    one_point_sentence,
    times_words,
)
from pages.charts import speedup as pictures
from pages.widgets import environment_compare, finding, speedup_frames, url_state
from pages.widgets.downloads import chart, table
from pages.widgets.links import page_link
from pages.widgets.plain import plain
from pages.widgets.speedup_cases import Case

Cases = Sequence[Case]
# what a break-even is sought over -> its words, their unit, the title of its axis
_SWEPT = {
    "model": ("model size", " billion parameters", "Parameters (billion)"),
    "batch": ("batch", "", "Batch (sequences)"),
}
_QUANTITIES: dict[str, tuple[str, str, int, Callable[..., alt.LayerChart]]] = {
    "step": ("step (ms)", "ms", 2, pictures.step_time),
    "rate": ("tok/s", "tok/s", 0, pictures.rate),
}


def step_times(cases: Cases) -> None:
    """Step time by TP in both clocks; a picture for each definition."""
    finding.heading("Step time")
    names = speedup_frames.short_names(cases)
    panels: list[tuple[str, str, pd.DataFrame]] = []
    for clock, words in speedup_frames.CLOCKS.items():
        frame = speedup_frames.steps(cases, clock)
        if frame.empty:
            continue
        for definition, part in frame.groupby("definition", sort=False):
            panels.append((f"Step, {words}", str(definition), part))
    if not panels:
        st.info("None of the chosen runs holds a step time in wall clock or graph replay.")
        return
    column, unit, digits, picture = _quantity()
    columns = st.columns(min(2, len(panels)))
    for place, (title, definition, frame) in enumerate(panels):
        with columns[place % len(columns)]:
            low, high = frame[column].min(), frame[column].max()
            chart(
                picture(_renamed(frame, "case", names), list(names.values()), title),
                f"step-time-{place}",
                f"{title}: {low:,.{digits}f} to {high:,.{digits}f} {unit} over {len(frame)} steps",
                frame,
                key=f"step-time-{place}",
            )
            finding.caption(f"{_meaning(definition)} (`{definition}`).")
    everything = pd.concat([frame for _, _, frame in panels])
    with st.expander("Step time and tok/s as a table"):
        words = f"{len(everything)} step times"
        table(everything.round(4), "step-times", words, key="step-times")
    finding.caption(
        "Grey rules: 95 % interval over rounds. White ticks: the roofline floor, weight and KV "
        "bytes over the copy bandwidth measured in the same run. Hollow: an invalid run, which is "
        "never compared."
    )


def _renamed(frame: pd.DataFrame, column: str, names: Mapping[str, str]) -> pd.DataFrame:
    """For a picture: the numbers behind it keep the whole names."""
    return frame.assign(**{column: frame[column].map(names)})


def _quantity() -> tuple[str, str, int, Callable[..., alt.LayerChart]]:
    """What the bars show, as ``?show=`` says: column, unit, digits, picture."""
    codes = list(_QUANTITIES)
    code = st.segmented_control(
        "Show",
        codes,
        default=url_state.asked_one("show", codes, codes[0]),
        format_func={"step": "step time", "rate": "tokens a second"}.__getitem__,
        required=True,
        key="speedup-show",
    )
    url_state.keep("show", code, codes[0])
    return _QUANTITIES[str(code)]


def _meaning(definition: str) -> str:
    known = DEFINITIONS.get(definition)
    said = known.words if known else "as its author defined it"
    return said[0].upper() + said[1:]


def speedup(cases: Cases, clock: str) -> None:
    """Speedup and efficiency with the ideal line and the promised band."""
    finding.heading("Speedup")
    frame = speedup_frames.speedups(cases, clock)
    if frame.empty:
        st.info(
            f"No case has two TP sizes in {speedup_frames.CLOCKS[clock]}: measure the model on one "
            "GPU and on several."
        )
        return
    best = frame.loc[frame["speedup"].idxmax()]
    worst = frame.loc[frame["speedup"].idxmin()]
    names = speedup_frames.short_names(cases)
    chart(
        pictures.speedup(_renamed(frame, "case", names), list(names.values())),
        "speedup",
        f"Speedups in {speedup_frames.CLOCKS[clock]} from {worst['speedup']:.2f} "
        f"({worst['case']}, TP={worst['TP']}) to {best['speedup']:.2f}",
        frame,
    )
    finding.caption(
        "Over each case's smallest TP size. Dashed: ideal. Grey band: 1.5 to 1.8 times for twice "
        "the GPUs, what the author of the 3090 study expected of theory at single stream (for TP=4 "
        "over TP=2; he measured 0.87)."
    )
    # the picture shows the chosen clock, the table all of them
    clocks = speedup_frames.clocks_of(cases)
    every = pd.concat(speedup_frames.speedups(cases, each) for each in clocks).round(3)
    every = every[every["TP"] != every["reference TP"]]
    columns = ["TP", "speedup", "low", "high", "efficiency (%)", "clock", "reference TP", "origin"]
    if (every["reference TP"] > 1).any():  # then a speedup means another thing in each row
        columns = ["TP", "reference TP", *(name for name in columns[1:] if name != "reference TP")]
    table(
        _renamed(every, "case", names),
        "speedups",
        f"{len(every)} speedups in {len(clocks)} clocks",
        key="speedups",
        file=every,
        # what tells the rows apart comes first; a single case needs no name, and its fills a phone
        column_order=["case", *columns] if len(cases) > 1 else columns,
        column_config={
            "efficiency (%)": st.column_config.NumberColumn(format="%.0f"),
            **{
                name: st.column_config.NumberColumn(format="%.2f")
                for name in ("speedup", "low", "high")
            },
        },
    )


def parts(cases: Cases) -> None:
    """Where the time of a step goes."""
    finding.heading("Where a step's time goes")
    frame = speedup_frames.parts(cases)
    if frame.empty:
        st.info(
            "A step can be split once its graph replay is known, and for TP above 1 also the "
            "replay without all-reduces, or the step on one GPU and the cost of the all-reduces."
        )
        return
    widest = frame.loc[frame["ms"].abs().idxmax()]
    chart(
        pictures.step_parts(
            _renamed(frame, "step", speedup_frames.short_rows(cases)),
            list(speedup_frames.PARTS.values()),
        ),
        "step-parts",
        f"The largest part is {widest['part']} with {widest['ms']:.2f} ms ({widest['step']})",
        frame,
    )
    finding.caption(
        "Grey tick: the whole step. Triangle: roofline floor. Measured parts are differences of "
        "clocks and leave no residual; where no replay without all-reduces exists, compute is the "
        "single GPU's replay over TP, communication is calls × latency, and what both fail to "
        "explain is the residual, left of zero where the step is faster than its parts."
    )
    negative = frame[(frame["flag"] != "") & (frame["basis"] == "measured")]
    for row in negative.itertuples():
        st.warning(
            f"{row.step}: {row.part} reads {row.ms:+.3f} ms. A negative duration is noise of the "
            "two clocks: measure more rounds."
        )
    with st.expander("Parts and ceilings as tables"):
        table(frame.round(4), "step-parts-table", f"{len(frame)} parts", key="step-parts-table")
        limits = speedup_frames.ceilings(cases).round(4)
        table(limits, "ceilings", f"{len(limits)} steps with their ceilings", key="ceilings")


def hosts(engine: Engine, cases: Cases) -> None:
    """The same TP on two hosts in both clocks, and what else differs between their runs."""
    pairs = speedup_frames.comparable_pairs(cases)
    if not pairs:
        return
    finding.heading("Side by side")
    left, right = _pair(pairs, speedup_frames.short_names(cases))
    finding.caption(plain(f"Left: {left.label}. Right: {right.label}.", 600))
    frame = speedup_frames.side_by_side(left, right)
    if frame.empty:
        st.info("These two have no TP size in common in one and the same clock definition.")
        return
    words = f"{len(frame)} steps side by side"
    formats = {"apart (%)": "%.1f"} | {name: "%.2f" for name in frame if name.endswith("(x)")}
    shown = {name: st.column_config.NumberColumn(format=form) for name, form in formats.items()}
    table(frame.round(3), "side-by-side", words, key="side-by-side", column_config=shown)
    for tp, part in frame.groupby("TP"):
        finding.say(f"- At TP={tp} {_longer(part)}.{_at_most(part)}")
        if part["apart (%)"].max() > 100 * SAME_WITHIN:
            runs_of = left.valid[int(tp)].run_id, right.valid[int(tp)].run_id
            offered = environment_compare.offer(engine, *runs_of)
            if offered:
                with st.expander(f"What else differs at TP={tp} and may explain it"):
                    for sentence in offered:
                        finding.say(f"- {plain(sentence, 1000)}")


def _pair(pairs: Sequence[tuple[Case, Case]], names: Mapping[str, str]) -> tuple[Case, Case]:
    """Which two cases stand side by side, as ``?beside=code-code`` says; the first where none."""
    by_code = {f"{left.code}-{right.code}": (left, right) for left, right in pairs}
    codes = list(by_code)
    if len(codes) == 1:
        return pairs[0]
    code = st.selectbox(
        "Which two",
        codes,
        index=codes.index(url_state.asked_one("beside", codes, codes[0])),
        format_func={
            code: f"{names[left.label]} against {names[right.label]}"
            for code, (left, right) in by_code.items()
        }.__getitem__,
        key="speedup-beside",
    )
    url_state.keep("beside", code, codes[0])
    return by_code[code]


def _longer(part: pd.DataFrame) -> str:
    """Whose step is the longer one in each clock, and by how much."""
    by_side: dict[str, list[str]] = {}
    for row in part.to_dict("records"):
        side = "left" if row["left (ms)"] >= row["right (ms)"] else "right"
        by_side.setdefault(side, []).append(f"{row['apart (%)']:.1f} % in {row['clock']}")
    return "; ".join(
        f"the {side} one's step is longer by {' and by '.join(said)}"
        for side, said in by_side.items()
    )


def _at_most(part: pd.DataFrame) -> str:
    """The ceiling of a faster CPU beside that of a better link, left and right."""
    first = part.iloc[0]
    said = []
    for what, name in (("CPU", "faster CPU"), ("link", "better link")):
        sides = [first.get(f"{name}, {side} (x)") for side in ("left", "right")]
        if all(pd.notna(value) for value in sides):
            left, right = map(times_words, sides)
            said.append(f"a {what} that costs nothing {left} left and {right} right")
    return f" At most possible: with {', with '.join(said)}." if said else ""


def conditions(engine: Engine, cases: Cases) -> None:
    """Any two runs of the chosen cases, condition by condition."""
    choices: dict[str, str] = {}
    names = speedup_frames.short_rows(cases)
    for case in cases:
        for tp, point in sorted(case.points.items()):
            # a run of several batches goes by the first of them that was chosen
            name = names[speedup_frames.row_label(case, tp)]
            choices.setdefault(point.run_id, name if len(cases) > 1 else f"TP={tp} · {case.label}")
    if len(choices) < 2:
        return
    finding.heading("Conditions side by side")
    ids = list(choices)
    default = (cases[0].run_ids[-1], cases[1].run_ids[-1]) if len(cases) > 1 else (ids[0], ids[1])
    if default[0] == default[1]:
        default = (ids[0], ids[1])
    left, right = environment_compare.choose(choices, default, key="compare")
    environment_compare.render(engine, left, right)


def pays(all_cases: Cases, chosen: Cases, clock: str) -> None:
    """From which model size or batch on a TP size pays, from measured points."""
    finding.heading("Where does it start to pay?")
    hosts_of: dict[tuple[str, str | None, str | None], list[Case]] = {}
    for case in chosen:
        hosts_of.setdefault((case.host_id, case.study, case.link), []).append(case)
    drawn = [
        _pays(all_cases, group, clock, by, number)
        for number, group in enumerate(hosts_of.values())
        for by in _SWEPT
    ]
    if not any(drawn):
        st.info(
            "The break-even needs one model at one and several GPUs, then a second model or batch "
            "on the same host."
        )
        page_link("new-run", "Start a decode-step test", kind="decode")


def _pays(all_cases: Cases, group: Cases, clock: str, by: str, number: int) -> bool:
    """Where each TP size of one host and link pays, over one quantity; whether any is measured."""
    what, unit, title = _SWEPT[by]
    case = group[0]
    host = f"{case.host}{f', link {case.link}' if case.link else ''}"
    drawn: list[pd.DataFrame] = []
    told: list[str] = []
    alone: dict[tuple[str, str], list[int]] = {}
    sizes = sorted({tp for each in group for tp in each.valid if tp > 1})
    for tp in sizes:
        # of the chosen batches or models the one of which most was measured
        swept = [(each, speedup_frames.sweep(all_cases, each, tp, by, clock)) for each in group]
        fixed, frame = max(swept, key=lambda pair: len(pair[1]))
        where, at = (f"{host}, {fixed.model}", "") if by == "batch" else (host, fixed.batch)
        at = f" At batch {at}." if at else ""
        if len(frame) == 1:
            alone.setdefault((where, at), []).append(tp)
        if len(frame) < 2:
            continue
        gains = frame["speedup"].tolist()
        crossings = break_even(frame["size"].tolist(), gains)
        drawn.append(frame)
        # with a TP=4 about, "TP=4 pays" could be read as "more than TP=2"
        reference = 1 if len(sizes) > 1 else None
        said = break_even_sentence(crossings, gains, tp, what, unit, reference_tp=reference)
        told.append(said + at)
        finding.say(f"- {plain(where)}: {plain(told[-1], 1000)}")
    if drawn:
        name = f"break-even-{number}-{by}"
        points = pd.concat(drawn)
        chart(pictures.break_even(points, title), name, " ".join(told), points, key=name)
    for (where, at), tps in alone.items():
        finding.say(f"- {plain(where)}: {one_point_sentence(what, tps)}{at}")
    without = list(dict.fromkeys(each.model for each in group if _lacks_one_gpu(each)))
    if without and (drawn or alone) and by == "model":
        finding.say(
            f"- {plain(host)}: no step at TP=1 of {plain(', '.join(without))}: a break-even is "
            "sought against TP=1, so its sizes take no part in it."
        )
    return bool(drawn or alone)


def _lacks_one_gpu(case: Case) -> bool:
    """Whether a case was measured at several TP sizes and not on one GPU."""
    return 1 not in case.valid and len(case.valid) > 1
