"""What the What-if page starts from: constants, cards, shapes, links and measured points."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from db import reference, runs
from db.engine import Engine
from importers.catalogue import catalogue
from models.catalogue import Card, cards_of, named
from models.curve import make_curve
from models.errors import InvalidSpec
from models.prediction import Setup, Workload
from models.prediction_anchor import Anchor
from models.prediction_calibration import Calibration, read_calibration
from models.prediction_link import CurveLink, reference_link
from models.prediction_shape import Load, load_of
from models.result import Result
from pages.widgets import model_picker
from pages.widgets.allreduce_curves import curve_points
from pages.widgets.badges import plain
from pages.widgets.offered import offered

DATA = Path(__file__).resolve().parents[2] / "data"
# Only these say what a step pays; an eager latency is launch cost.
MODES = ("graph", "exposed")
LEAST_SIZES = 4
_TYPICAL = ("median", "mean", "value")
# what a point's and a link's code begins with: so many characters of its run's id
_OF_ID, _HEX = 8, frozenset("0123456789abcdef")
_LINK_KEYS = ("link", "link2", "anchor-link")
# Engine flags under which a step is another one than the predicted.
_OTHER = (
    "speculative",
    "quantization",
    "enforce_eager",
    "pipeline_parallel",
    "data_parallel",
    "kv_cache_dtype",
)


@st.cache_data(show_spinner=False)
def calibration_content() -> dict[str, Any]:
    """The calibration file as it lies there."""
    content: dict[str, Any] = json.loads((DATA / "calibration.json").read_text(encoding="utf-8"))
    return content


def calibration() -> Calibration:
    """Constants and widths."""
    return read_calibration(calibration_content())


@st.cache_data(show_spinner=False)
def calibration_points() -> pd.DataFrame:
    """Predicted against measured on held-out models."""
    return pd.read_csv(DATA / "calibration_points.csv")


def cards() -> dict[str, Card]:
    """Cards of the catalogue whose facts suffice."""
    return cards_of(catalogue().cards.values())


@st.cache_data(show_spinner=False)
def shapes() -> dict[str, dict[str, Any]]:
    """Built-in shapes, and those of the calibration's models."""
    more = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted((DATA / "model_shapes").glob("*.json"))
    }
    own = {
        name: config for name, config in model_picker.shapes().items() if "test-shape" not in name
    }
    return own | more


def reference_of(card: Card, engine: str) -> CurveLink:
    """The engine's kernel on other people's hosts with this card; empty where there is none."""
    return _reference(card.names[0] if card.names else card.label, engine)


@st.cache_resource(show_spinner=False, max_entries=200)
def _reference(gpu_name: str, engine: str) -> CurveLink:
    return reference_link(reference.allreduce_reference(), gpu_name, engine)


def swept(engine: Engine) -> dict[str, CurveLink]:
    """Links that an AllReduce sweep measured in graph or exposed mode, by the curve's code.

    Of the runs that `offered` offers, and those that the URL names. Only to be read.
    """
    asked = _asked(engine, "allreduce", _LINK_KEYS)
    return _swept(engine, runs.version(engine), asked)


@st.cache_resource(show_spinner=False, max_entries=8)
def _swept(_engine: Engine, version: str, asked: tuple[str, ...]) -> dict[str, CurveLink]:
    ids = offered(_engine, ["allreduce"], asked)["id"]
    measured = runs.measurements(
        _engine, run_ids=ids, metrics=["allreduce_latency"], include_invalid=False
    )
    points = curve_points(measured) if not measured.empty else pd.DataFrame()
    if points.empty:
        return {}
    found = {}
    for code, rows in points[points["mode"].isin(MODES)].groupby("code", sort=False):
        ranks = str(rows["ranks"].iloc[0])
        if len(rows) < LEAST_SIZES or not ranks.isdigit() or int(ranks) < 2:
            continue
        first = rows.iloc[0]
        curve = make_curve(rows["bytes"].tolist(), rows["latency_us"].tolist())
        label = f"{first['curve']} ({plain(first['origin'])})"
        found[str(code)] = CurveLink({int(ranks): curve}, label, str(first["origin"]))
    return found


@dataclass(frozen=True)
class Point:
    """A measured TPOT that a prediction may start from, or be held against.

    Attributes:
        code: For the URL.
        label: Words for people.
        origin: measured or imported.
        load: The model.
        precision: Of its weights.
        card: The GPU.
        tp: GPUs of the server.
        link: on, off, or empty where not stated.
        work: Concurrency and lengths.
        tpot_ms: Median over rounds.
        run_id: The run.
    """

    code: str
    label: str
    origin: str
    load: Load
    precision: str
    card: Card
    tp: int
    link: str
    work: Workload
    tpot_ms: float
    run_id: str

    def anchor(self, link: CurveLink | None) -> Anchor:
        """The point as a prediction starts from it, over the link that it really used."""
        setup = Setup(self.load, self.precision, 2.0, "vllm", self.card, self.tp)
        used = link if self.tp > 1 else None
        return Anchor(setup, self.work, used, self.tpot_ms, self.label, self.origin)


def points(engine: Engine) -> list[Point]:
    """Served steps whose model, card and load are known.

    Of the runs that `offered` offers, and the one that the URL names. Only to be read.
    """
    return _points(engine, runs.version(engine), _asked(engine, "serving", ("anchor",)))


@st.cache_resource(show_spinner=False, max_entries=8)
def _points(_engine: Engine, version: str, asked: tuple[str, ...]) -> list[Point]:
    ids = offered(_engine, ["serving"], asked)["id"]
    rows = runs.measurements(
        _engine, run_ids=ids, metrics=["tpot"], statistics=_TYPICAL, include_invalid=False
    )
    if rows.empty or "concurrency" not in rows:
        return []
    rows = rows.dropna(subset=["value", "concurrency", "input_len", "output_len"])
    if "scenario" in rows:
        rows = rows[~rows["scenario"].fillna("").isin(["abnormal", "pressure"])]
    known, loads = cards(), _Loads()
    found = []
    keys = ["concurrency", "input_len", "output_len"]
    heads = runs.heads(_engine, rows["run_id"].unique())
    for run_id, own in rows.groupby("run_id", sort=False):
        facts = _served(heads[str(run_id)], loads)
        card, load = named(known, facts["gpu"]), facts["load"]
        if card is None or load is None:
            continue
        best = min(own["statistic"], key=_TYPICAL.index)
        for load_key, part in own[own["statistic"] == best].groupby(keys):
            batch, tokens_in, tokens_out = (int(value) for value in load_key)
            found.append(
                _point(str(run_id), facts, card, load, (batch, tokens_in, tokens_out), part)
            )
    return found


def _point(
    run_id: str,
    facts: dict[str, Any],
    card: Card,
    load: Load,
    sizes: tuple[int, int, int],
    rows: pd.DataFrame,
) -> Point:
    work = Workload(*sizes)
    value = float(rows["value"].median())
    origin = str(rows["origin"].iloc[0])
    link = f", link {facts['link']}" if facts["link"] else ""
    words = (
        f"{facts['model']} on {card.label}, TP={facts['tp']}{link}, {work.batch} at a time, "
        f"{work.input_tokens}/{work.output_tokens} tokens: {value:.2f} ms ({plain(origin)})"
    )
    code = f"{run_id[:_OF_ID]}-{work.batch}-{work.input_tokens}-{work.output_tokens}"
    return Point(
        code=code,
        label=words,
        origin=origin,
        load=load,
        precision=load.packed if load.packed in ("fp8", "int4") else "bf16",
        card=card,
        tp=facts["tp"],
        link=facts["link"],
        work=work,
        tpot_ms=value,
        run_id=run_id,
    )


class _Loads:
    """What a step of each model has to do: many runs serve the same few models."""

    def __init__(self) -> None:
        self._known: dict[str, Load | None] = {}

    def of(self, name: str, config: object) -> Load | None:
        """The load of a run's own config.json, else of the shape that its model's name names."""
        key = name if config is None else json.dumps(config, sort_keys=True)
        if key not in self._known:
            self._known[key] = self._read(name, config)
        return self._known[key]

    def _read(self, name: str, config: object) -> Load | None:
        if not isinstance(config, dict):
            config = next((shape for key, shape in shapes().items() if _says(name, key)), None)
        try:
            return None if config is None else load_of(config)
        except InvalidSpec:
            return None


def _served(run: Result, loads: _Loads) -> dict[str, Any]:
    """Model, GPU, TP size and link of a served run; load None where the model is not known."""
    spec = run.spec
    arm = spec.get("arm") if isinstance(spec.get("arm"), dict) else {}
    used = {str(name) for name in arm.get("gpus") or []}
    gpus = [gpu for gpu in run.host.get("gpus") or [] if isinstance(gpu, dict)]
    mine = [gpu for gpu in gpus if {str(gpu.get("uuid")), str(gpu.get("index"))} & used] or gpus
    names = {str(gpu.get("name")) for gpu in mine}
    name = str(spec.get("model_name") or spec.get("model") or "")
    flags = " ".join(str(flag).lower().replace("-", "_") for flag in arm.get("engine_args") or {})
    is_plain = int(arm.get("replicas") or 1) == 1 and not any(word in flags for word in _OTHER)
    return {
        "model": name.rstrip("/").rsplit("/", 1)[-1] or "model",
        "load": loads.of(name, spec.get("model_config_json")) if is_plain else None,
        "gpu": names.pop() if len(names) == 1 else "",
        "tp": int(arm.get("tp") or 1),
        "link": str(arm.get("link") or ""),
    }


def _says(name: str, key: str) -> bool:
    """Whether a model's path or id names a shape: "Qwen/Qwen2.5-14B-Instruct" names qwen2.5-14b."""
    last = name.rstrip("/").rsplit("/", 1)[-1].lower()
    return last == key or last.startswith((f"{key}-", f"{key}_"))


def _asked(engine: Engine, kind: str, keys: Sequence[str]) -> tuple[str, ...]:
    """Ids of the runs of a kind that the URL's codes begin with, however old they are."""
    starts = {st.query_params.get(key, "")[:_OF_ID] for key in keys}
    starts = {start for start in starts if len(start) == _OF_ID and set(start) <= _HEX}
    found = [
        str(run_id)
        for start in sorted(starts)
        for run_id in runs.list_runs(engine, kinds=[kind], text=start)["id"]
        if str(run_id).startswith(start)
    ]
    return tuple(found)
