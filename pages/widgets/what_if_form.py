"""What is asked on the What-if page; every answer stands in the URL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from importers.model_configs import read_upload
from models.catalogue import Card, Wire, latency_problems
from models.errors import LinkworthError
from models.prediction import ENGINES, PRECISIONS, Setup, Workload
from models.prediction_anchor import Anchor
from models.prediction_link import CurveLink, described_link
from models.prediction_refusals import MODES
from models.prediction_shape import Load, load_of
from pages.widgets import beside, store, what_if_machine, what_if_sources
from pages.widgets.what_if_sources import Point
from pages.widgets.what_if_state import choice, flags, number, unknown_or

UPLOAD = "upload"
NO_ANCHOR, BY_HAND = "none", "mine"
REFERENCE, DESCRIBED = "reference", "described"
TP_SIZES = (1, 2, 4, 8)
ENGINE_WORDS = {"vllm": "vLLM", "trtllm": "TensorRT-LLM", "sglang": "SGLang"}
PRECISION_WORDS = {"bf16": "bf16", "fp8": "fp8", "fp4": "fp4 (nvfp4, mxfp4)", "int4": "int4"}


@dataclass(frozen=True)
class Question:
    """What the person asks.

    Attributes:
        name: Of the model.
        config: Its config.json.
        setup: Model, precision, engine and card, for one GPU.
        work: Load.
        sizes: TP sizes to look at.
        link: Link between the cards, None where none is chosen or known.
        modes: What else the engine would use.
        anchor: Measured point to start from.
        points: Every measured point, for residuals.
        links: Links that were measured, by code.
    """

    name: str
    config: Mapping[str, Any]
    setup: Setup
    work: Workload
    sizes: tuple[int, ...]
    link: CurveLink | None
    modes: tuple[str, ...]
    anchor: Anchor | None
    points: tuple[Point, ...]
    links: Mapping[str, CurveLink]


def ask() -> Question | None:
    """Draw the questions; None until a model is given."""
    engine = store.engine()
    points = what_if_sources.points(engine)
    links = what_if_sources.swept(engine)
    with st.container(border=True):
        found = _model()
        machine = what_if_machine.choose()
        link_place = st.container()
        fields = beside.fields()
        with fields.cell():
            batch = number("c", "Requests at a time", 4, 1, 512)
        with fields.cell():
            tokens_in = number("in", "Input (tokens)", 1024, 1, 131_072)
        with fields.cell():
            tokens_out = number("out", "Output (tokens)", 256, 1, 131_072)
        with fields.cell():
            sizes = _sizes(machine.gpus)
        if found is None:
            return None
        name, config, load = found
        kind, precision, cache, is_by_expert, modes = _details(load)
        setup = Setup(load, precision, cache, kind, machine.card, 1, is_by_expert)
        with link_place:
            link = pick_link("link", "Link", machine.card, kind, links)
        work = Workload(batch, tokens_in, tokens_out)
        anchor = _anchor(setup, work, points, link, links)
    return Question(name, config, setup, work, sizes, link, modes, anchor, tuple(points), links)


def _model() -> tuple[str, Mapping[str, Any], Load] | None:
    shapes = what_if_sources.shapes()
    name = choice(
        "model",
        "Model",
        (*shapes, UPLOAD),
        "qwen2.5-14b",
        {UPLOAD: "Another: upload its config.json"},
        help="Only the shape matters: no weights are needed.",
    )
    config: Mapping[str, Any] | None = shapes.get(name)
    if config is None:
        file = st.file_uploader("config.json", type=["json"], key="what-if-config")
        if file is None:
            st.caption("Upload the config.json that lies beside the model's weights.")
            return None
        name = file.name.removesuffix(".json")
        try:
            config = read_upload(file.getvalue())
        except LinkworthError as error:
            store.show_error(error)
            return None
    try:
        return name, config, load_of(config)
    except LinkworthError as error:
        store.show_error(error)
        return None


def _details(load: Load) -> tuple[str, str, float, bool, tuple[str, ...]]:
    """Engine, format of weights and cache, whether experts are divided by expert, other ways."""
    is_moe = load.kind == "moe"
    names = ("engine", "precision", "kv", "experts", "also")
    with st.expander(
        "Engine, formats and features",
        expanded=any(name in st.query_params for name in names),
        key="what-if-details",
    ):
        fields = beside.fields()
        packed = {"mxfp4": "fp4"}.get(load.packed, load.packed)
        with fields.cell():
            kind = choice("engine", "Engine", ENGINES, "vllm", ENGINE_WORDS)
        with fields.cell():
            precision = choice(
                "precision",
                "Weights",
                PRECISIONS,
                packed if packed in PRECISIONS else "bf16",
                PRECISION_WORDS,
                help="Of the model's weights; embeddings stay in 16 bits.",
            )
        with fields.cell():
            bits = choice(
                "kv", "Cache", ("16", "8"), "16", {"16": "16 bits an element", "8": "8 bits (fp8)"}
            )
        is_by_expert = False
        if is_moe:
            with fields.cell():
                split = choice(
                    "experts",
                    "Experts divided by",
                    ("width", "expert"),
                    "width",
                    {"width": "width (TP)", "expert": "expert (EP)"},
                )
            is_by_expert = split == "expert"
        with fields.cell(column_span="all"):
            modes = flags(
                "also",
                "The engine would also use",
                MODES,
                help="None of these is predicted; choose what applies and the page says so.",
            )
    return kind, precision, float(bits) / 8, is_by_expert, modes


def _sizes(gpus: int | None) -> tuple[int, ...]:
    usable = [size for size in TP_SIZES if gpus is None or size <= gpus]
    asked = [part for part in st.query_params.get("tp", "").split(",") if part]
    start = [size for size in usable if str(size) in asked] or usable
    picked = st.pills(
        "TP sizes",
        usable,
        selection_mode="multi",
        default=start,
        key=f"what-if-tp-{gpus or 0}",
        help="One GPU is always predicted as well: it is what speedups are held against.",
    )
    if sorted(picked) != usable or asked:
        st.query_params["tp"] = ",".join(str(size) for size in sorted(picked))
    return tuple(sorted({1, *picked}))


def pick_link(
    key: str,
    label: str,
    card: Card,
    engine: str,
    links: Mapping[str, CurveLink],
) -> CurveLink | None:
    """A link: the reference of this card, a measured sweep, or one that is described.

    Args:
        key: URL parameter.
        label: Of the widget.
        card: Its wires are offered for a description.
        engine: Whose kernel the reference is.
        links: Measured ones.
    """
    reference = what_if_sources.reference_of(card, engine)
    codes = ([REFERENCE] if reference.curves else []) + [*links, DESCRIBED]
    words = {code: link.label for code, link in links.items()}
    words |= {
        REFERENCE: f"Reference: {reference.label}",
        DESCRIBED: "Described: latency and bandwidth",
    }
    # another card's sweep may be chosen; it is no start
    code = choice(key, label, codes, REFERENCE if reference.curves else DESCRIBED, words)
    if code == REFERENCE:
        return reference
    if code in links:
        return links[code]
    return _described(key, card)


def _described(key: str, card: Card) -> CurveLink | None:
    offers = [*card.wires]
    codes = [wire.kind for wire in offers]
    if "pcie" in codes:
        codes.append("host")
    fields = beside.fields()
    with fields.cell(column_span="all"):
        place = choice(f"{key}-wire", "Which wire", codes, codes[0], _wire_words(offers))
    with fields.cell(column_span="all"):
        alpha = unknown_or(
            f"{key}-alpha",
            "One small all-reduce in a graph (us)",
            0.1,
            1000.0,
            help="About 3 KB, measured in graph mode. A latency of the eager mode is mostly launch "
            "cost and must not stand here.",
        )
    if alpha is None:
        st.caption("Without a latency in graph mode no TP size above 1 is predicted.")
        return None
    wire = next(wire for wire in offers if wire.kind == ("pcie" if place == "host" else place))
    row = {
        "name": "The link",
        "mode": "graph",
        "alpha_us": alpha,
        "through_host": place != "nvlink",
    }
    for words in latency_problems([row]):
        st.warning(words)
    # through host memory every byte crosses the bus twice
    share = 0.5 if place == "host" else 1.0
    return described_link(alpha, share * wire.per_direction / 1e9)


def _wire_words(wires: Sequence[Wire]) -> dict[str, str]:
    words = {}
    for wire in wires:
        speed = f"{wire.per_direction / 1e9:g} GB/s one way"
        if wire.kind == "nvlink":
            words["nvlink"] = f"NVLink {wire.generation}, {wire.count} links, {speed}"
        else:
            words["pcie"] = f"PCIe {wire.generation} x{wire.count} with peer-to-peer, {speed}"
            words["host"] = f"PCIe {wire.generation} x{wire.count} through host memory"
    return words


def _anchor(
    setup: Setup,
    work: Workload,
    points: Sequence[Point],
    link: CurveLink | None,
    links: Mapping[str, CurveLink],
) -> Anchor | None:
    fitting = {point.code: point for point in points if point.load == setup.load}
    words = {code: point.label for code, point in fitting.items()}
    words |= {NO_ANCHOR: "Nothing measured", BY_HAND: "A TPOT that I measured"}
    code = choice(
        "anchor",
        "Start from",
        (NO_ANCHOR, *fitting, BY_HAND),
        NO_ANCHOR,
        words,
        help="One measured point of the same model makes a prediction far surer, and makes cards "
        "predictable that are not calibrated.",
    )
    if code == NO_ANCHOR:
        return None
    if code in fitting:
        point = fitting[code]
        used = link
        if point.tp > 1:
            used = pick_link("anchor-link", "Link of the measured point", point.card, "vllm", links)
        return point.anchor(used)
    fields = beside.fields()
    cards = what_if_sources.cards()
    with fields.cell():
        key = choice(
            "anchor-card",
            "Measured on",
            tuple(cards),
            setup.card.key,
            {name: card.label for name, card in cards.items()},
        )
    with fields.cell():
        tp = int(choice("anchor-tp", "At TP", ("1", "2", "4", "8"), "1"))
    with fields.cell():
        tpot = unknown_or("anchor-ms", "Measured TPOT (ms)", 0.01, 10_000.0)
    if tpot is None:
        st.caption("Enter the TPOT that you measured at the load above.")
        return None
    at = Setup(
        setup.load,
        setup.precision,
        setup.cache_bytes,
        setup.engine,
        cards[key],
        tp,
        setup.expert_parallel,
    )
    used = None
    if tp > 1:
        used = pick_link(
            "anchor-link", "Link of the measured point", cards[key], setup.engine, links
        )
    return Anchor(at, work, used, tpot, f"{tpot:g} ms, entered by hand", "assumed")
