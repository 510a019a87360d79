"""Hardware: which GPUs, which links, does peer-to-peer really work, where should groups go?"""

import pandas as pd
import streamlit as st

from db import hosts, jobs
from models.host_report import findings
from models.result import Result
from pages.charts import topology as topology_chart
from pages.charts.topology_drawing import drawing
from pages.widgets import (
    hardware_p2p,
    hardware_placement,
    hardware_source,
    hardware_tables,
    incidents,
    store,
    study_panel,
)
from pages.widgets.badges import badge
from pages.widgets.downloads import chart, table
from pages.widgets.links import page_link
from pages.widgets.plain import plain

_HERE_NOTE = "This is the machine that Linkworth runs on."


def render() -> None:
    """Draw the machine that the URL names, or the one that was last read."""
    incidents.section()
    hardware_source.read_this_machine()
    hardware_source.describe()
    shown = hardware_source.choose()
    if shown is None:
        st.info(
            "No machine is known yet. Read this machine, or paste what nvidia-smi topo -m prints "
            "on another one."
        )
        hardware_p2p.alone()
        return
    here = hardware_source.is_here(shown)
    _head(shown, here=here)
    aside = incidents.set_aside(hosts.host_id(shown.host) if here else None)
    if not shown.gpus:
        _without_gpus(shown, here=here)
        return
    loaded = hardware_tables.under_load(shown)
    found = [*hardware_source.worse_than_before(shown), *findings(shown, loaded)]
    hardware_tables.show_notices(shown, found)
    hardware_tables.show_findings(found)
    st.subheader("GPUs")
    hardware_tables.gpus(shown, loaded)
    st.subheader("Links")
    _links(shown)
    st.subheader("Does peer-to-peer work?")
    hardware_p2p.render(shown, here=here)
    if shown.links is not None:
        st.subheader("Placement")
        hardware_placement.render(
            shown,
            here=here,
            busy=_busy(shown, aside),
            broken=hardware_p2p.broken_pairs(shown),
        )
    st.subheader("Host")
    hardware_tables.host(shown)
    study_panel.render(store.engine(), [shown.study])
    page_link("method", "How links are read, checked and used", topic="hardware")


def _head(shown: Result, *, here: bool) -> None:
    when = shown.finished_at or shown.started_at
    words = [badge(shown.origin, shown.validity), plain(shown.title)]
    if when is not None:
        words.append(f"read {when:%Y-%m-%d %H:%M} UTC")
    st.markdown(" · ".join(word for word in words if word))
    if here:
        st.caption(_HERE_NOTE)
    elif shown.origin == "described":
        st.caption(
            "A described machine: what somebody pasted. A table gives a link's kind, not its speed."
        )


def _without_gpus(shown: Result, *, here: bool) -> None:
    for notice in shown.warnings:
        st.warning(plain(notice.text, 1000))
    st.info(
        "There is no GPU to show here. Paste another machine's output above, look at the published "
        "studies, or ask What-if what another machine would do."
    )
    page_link("what-if", "Ask What-if")
    st.subheader("Does peer-to-peer work?")
    hardware_p2p.render(shown, here=here)
    st.subheader("Host")
    hardware_tables.host(shown)


def _busy(shown: Result, aside: set[str]) -> set[int]:
    """Indices of GPUs that are in use, or set aside after an incident."""
    in_use = {gpu for one in findings(shown) if one.code == "gpu_busy" for gpu in one.gpus}
    host = hosts.host_id(shown.host)
    now = jobs.in_use(store.engine(), host) if host is not None else {}
    return in_use | {
        gpu.index
        for gpu in shown.gpus or []
        if "*" in aside or {str(gpu.index), str(gpu.uuid)} & aside or gpu.uuid in now
    }


def _links(shown: Result) -> None:
    gpus = shown.gpus or []
    names = [f"GPU {gpu.index}" for gpu in gpus]
    if shown.links is not None and len(gpus) > 1:
        said = topology_chart.takeaway(shown.links)
        st.markdown(said)
        drawn, cells, access = st.tabs(["Drawing", "Matrix", "Peer access"])
        with drawn:
            made = drawing(shown.links, names, [gpu.numa for gpu in gpus])
            chart(
                topology_chart.graph(made),
                "links",
                said,
                topology_chart.matrix_frame(shown.links, names),
            )
            st.caption("Thicker lines: more NVLinks.")
            if made.n_hidden:
                st.caption(f"{made.n_hidden} more direct links are left out; see the matrix.")
        with cells:
            frame = topology_chart.matrix_frame(shown.links, names)
            chart(topology_chart.matrix(frame, names), "link matrix", said, frame)
        with access:
            _access(shown, names)
        _sources(shown)
    elif shown.links is not None:
        st.caption("One GPU: there is no link.")
    elif shown.p2p is not None:
        st.info(
            "This output says which pairs the driver lets talk directly, and not by which link. "
            "Add what nvidia-smi topo -m prints to see links and placement."
        )
        _access(shown, names)
    else:
        st.info(
            "This output counts links and does not say which GPU they lead to. Add what "
            "nvidia-smi topo -m prints to see pairs and placement."
        )


def _sources(shown: Result) -> None:
    """Where the links of a machine that was read come from, and whether two sources agree."""
    if shown.origin != "measured" or "second_source" not in shown.environment:
        return
    other = shown.environment["second_source"]
    if other is None:
        st.caption("Read from NVML alone: nvidia-smi was not there to say the same.")
    elif any(notice.code == "sources_disagree" for notice in shown.warnings):
        st.caption(f"Read from NVML; {plain(other)} says otherwise, see above.")
    else:
        st.caption(f"Read from NVML; {plain(other)} say the same.")


def _access(shown: Result, names: list[str]) -> None:
    """What the driver says of peer access: a claim, not a check."""
    if shown.p2p is None:
        st.caption("Peer access is not stated: paste nvidia-smi topo -p2p too, or run the check.")
        return
    rows = [[code or "?" for code in row] for row in shown.p2p]
    frame = pd.DataFrame(rows, columns=names)
    frame.insert(0, "GPU", names)
    n_denied = sum(code not in ("OK", "X", "?") for row in rows for code in row) // 2
    said = f"{n_denied} pairs without peer access" if n_denied else "peer access for every pair"
    table(frame, "peer-access", f"The driver states {said}")
    st.caption("OK is the driver's claim. Whether data arrive right is what the check finds out.")
