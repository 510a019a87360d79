"""Cards, models and constants with round numbers, so that results can be checked by hand."""

import json
from pathlib import Path

from models.catalogue import Card
from models.curve import make_curve
from models.prediction import Setup, Workload
from models.prediction_calibration import DISTANCES, KINDS, Calibration, Width
from models.prediction_link import CurveLink
from models.prediction_shape import Load, load_of

DATA = Path(__file__).resolve().parents[2] / "data"

CARD = Card(
    key="round",
    label="Round card",
    names=("ROUND",),
    generation="hopper",
    die="gh100",
    is_calibrated=True,
    bandwidth=5e12,
    memory=100e9,
    multiprocessors=132,
    flops={"bf16": 1e15, "fp8": 2e15},
    wires=(),
)
# 2 layers of hidden size 1000 with 10 heads of 100, an MLP of 4000, 10,000 words
SMALL = {
    "model_type": "llama",
    "hidden_size": 1000,
    "num_hidden_layers": 2,
    "num_attention_heads": 10,
    "num_key_value_heads": 10,
    "intermediate_size": 4000,
    "vocab_size": 10_000,
    "tie_word_embeddings": False,
}
WIDTHS = {"same_system": 0.1, "same_generation": 0.15, "other_generation": 0.2}
WIDTHS |= {"other_engine": 0.25, "nothing_measured": 0.3}


def load(name: str) -> Load:
    """A shipped shape."""
    path = next(DATA.glob(f"model*/{name}.json"))
    return load_of(json.loads(path.read_text()))


def setup(name: str = "qwen2.5-14b", *, tp: int = 1, card: Card = CARD, **changes) -> Setup:
    values = {"precision": "bf16", "cache_bytes": 2.0, "engine": "vllm"} | changes
    return Setup(load=load(name), card=card, tp=tp, **values)


def flat_link(latency_us: float, *, sizes=(2, 4, 8)) -> CurveLink:
    """The same latency at every size up to 1 GB."""
    curve = make_curve([256.0, 2.0**30], [latency_us, latency_us])
    return CurveLink(dict.fromkeys(sizes, curve), "flat", "measured")


def calibration() -> Calibration:
    constants = {"vllm": 50.0, "trtllm": 40.0, "sglang": 60.0}
    return Calibration(
        us_a_layer={"dense": constants, "moe": {k: 2 * v for k, v in constants.items()}},
        generation_factors={"moe": {"blackwell": 0.5}},
        widths={kind: {name: Width(WIDTHS[name], 4, True) for name in DISTANCES} for kind in KINDS},
        engine_versions={"vllm": ("0.0",)},
        parameters={"dense": (10e9, 80e9), "moe": (100e9, 1000e9)},
        batches=(4, 64),
        least_output=256,
    )


WORK = Workload(4, 1024, 256)
