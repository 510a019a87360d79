"""The shipped serving rows as a calibration sees them: sorted out, merged, and predicted.

Every row that is left out is counted with its reason; none disappears silently.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from importers.catalogue import catalogue  # noqa: E402
from models.catalogue import Card, cards_of  # noqa: E402
from models.prediction import Setup, Workload, terms  # noqa: E402
from models.prediction_link import CurveLink, reference_link  # noqa: E402
from models.prediction_refusals import needed_bytes, usable_bytes  # noqa: E402
from models.prediction_shape import Load, load_of  # noqa: E402

DATA = ROOT / "data"
# system of the rows -> card of the catalogue; rows of other systems are left out
SYSTEMS = {
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200-sxm",
    "b300_sxm": "b300-sxm",
}
# model of the rows -> public config.json in data/, and the name under which it is held out.
# DeepSeek R1 and V3 are one shape and one model here: holding out one would show the other.
MODELS = {
    "meta-llama/Llama-3.1-70B": "models/llama-3.1-70b.json",
    "Qwen/Qwen3-32B": "model_shapes/qwen3-32b.json",
    "deepseek-ai/DeepSeek-R1": "model_shapes/deepseek-v3.json",
    "deepseek-ai/DeepSeek-V3": "model_shapes/deepseek-v3.json",
    "MiniMaxAI/MiniMax-M2.5": "model_shapes/minimax-m2.5.json",
    "openai/gpt-oss-120b": "model_shapes/gpt-oss-120b.json",
    "Qwen/Qwen3.5-397B-A17B": "model_shapes/qwen3.5-397b-a17b.json",
    "zhipuai/GLM-5": "model_shapes/glm-5.json",
    "moonshotai/Kimi-K2.5": "model_shapes/kimi-k2.5.json",
}
MOST_TP, MOST_BATCH, CORE_BATCH, CORE_OUTPUT = 8, 128, 64, 256
KEY = [
    "model",
    "kind",
    "system",
    "engine",
    "version",
    "precision",
    "isl",
    "osl",
    "batch",
    "tp",
    "ep",
]


@dataclass(frozen=True)
class Rows:
    """What a calibration works on.

    Attributes:
        scored: One line a configuration of the core set that is not refused.
        refused: Configurations of the core set that are refused, with the reason.
        counts: Reason -> rows that were left out before merging, in order.
        merged: Configurations after merging repeated measurements.
        beyond_core: Configurations outside the core set.
    """

    scored: pd.DataFrame
    refused: pd.DataFrame
    counts: Mapping[str, int]
    merged: int
    beyond_core: int


def cards() -> dict[str, Card]:
    return cards_of(catalogue().cards.values())


def loads() -> dict[str, Load]:
    """Held-out name -> load; the name is the stem of the config's file."""
    return {
        Path(path).stem: load_of(json.loads((DATA / path).read_text(encoding="utf-8")))
        for path in MODELS.values()
    }


def cache_bytes(model: str, engine: str, precision: str) -> float:
    """Bytes of a cached element: the rows do not say; this is how their images are usually run."""
    in_eight_bits = (
        model in ("deepseek-v3", "glm-5")
        or (model == "llama-3.1-70b" and precision in ("fp8", "fp4"))
        or (model == "qwen3-32b" and engine == "trtllm")
    )
    return 1.0 if in_eight_bits else 2.0


def read_rows(folder: Path = DATA / "reference") -> Rows:
    """Read, sort out, merge and model the shipped rows."""
    raw = pd.read_csv(folder / "silicon_tp_sample.csv", keep_default_na=False)
    table = pd.read_csv(folder / "allreduce_reference.csv", keep_default_na=False)
    kept, counts = _kept(raw)
    shapes = loads()
    kept["model"] = [Path(MODELS[name]).stem for name in kept["model_path"]]
    kept["kind"] = [shapes[name].kind for name in kept["model"]]
    kept["precision"] = kept["precision"].replace("", "bf16")
    merged = kept.groupby(KEY, as_index=False).agg(
        measured=("silicon_tpot_ms", "median"), repeats=("silicon_tpot_ms", "size")
    )
    found = merged.join(_modelled(merged, shapes, table))
    in_core = (found["batch"] <= CORE_BATCH) & (found["osl"] >= CORE_OUTPUT)
    core = found[in_core]
    return Rows(
        scored=core[core["reason"] == ""].drop(columns="reason").reset_index(drop=True),
        refused=core[core["reason"] != ""].reset_index(drop=True),
        counts=counts,
        merged=len(merged),
        beyond_core=int((~in_core).sum()),
    )


def _kept(raw: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    names = {
        "batch_size": "batch",
        "tp_size": "tp",
        "moe_ep_size": "ep",
        "backend": "engine",
        "backend_version": "version",
    }
    rows = raw.rename(columns=names)
    for name in ("batch", "tp", "ep"):
        rows[name] = rows[name].astype(float).astype(int)
    counts: dict[str, int] = {"rows in the table": len(rows)}
    for reason, out in (
        ("TP above 8, or more than 128 requests", (rows.tp > MOST_TP) | (rows.batch > MOST_BATCH)),
        ("system with too few rows (GB200)", ~rows.system.isin(list(SYSTEMS))),
        ("model with too few rows (Qwen3-32B in NVFP4)", ~rows.model_path.isin(list(MODELS))),
        ("concurrency inferred", rows.silicon_data_source.str.contains("gtl_job_id")),
    ):
        still = out.reindex(rows.index)
        counts[reason] = int(still.sum())
        rows = rows[~still]
    return rows.copy(), counts


def _modelled(
    merged: pd.DataFrame, shapes: Mapping[str, Load], table: pd.DataFrame
) -> pd.DataFrame:
    """The step without the engine's constant, and why a configuration is refused."""
    known = cards()
    links: dict[tuple[str, str], CurveLink] = {}
    lines: list[dict[str, Any]] = []
    for row in merged.to_dict("records"):
        system, engine, model = row["system"], row["engine"], row["model"]
        card = known[SYSTEMS[system]]
        if (system, engine) not in links:
            links[system, engine] = reference_link(table, card.names[0], engine)
        setup = Setup(
            load=shapes[model],
            precision=row["precision"],
            cache_bytes=cache_bytes(model, engine, row["precision"]),
            engine=engine,
            card=card,
            tp=row["tp"],
            expert_parallel=row["ep"] > 1,
        )
        work = Workload(row["batch"], row["isl"], row["osl"])
        found = terms(setup, work, links[system, engine], 0.0)
        lines.append(
            {
                "base": found.tpot_ms,
                "prefill": found.prefill,
                "layers": shapes[model].arch.layers,
                "generation": card.generation,
                "expert_parallel": row["ep"] > 1,
                "reason": "memory" if needed_bytes(setup, work) > usable_bytes(setup) else "",
            }
        )
    return pd.DataFrame(lines, index=merged.index)
