"""The constants behind a prediction and how sure they are, as `scripts/calibrate.py` wrote them."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import exp
from typing import Any

from models.errors import InvalidSpec

# How far the nearest measurement is, nearest first. A width never shrinks on this way.
DISTANCES = (
    "same_system",
    "same_generation",
    "other_generation",
    "other_engine",
    "nothing_measured",
)
DISTANCE_WORDS = {
    "same_system": "same card and engine, other TP size or load",
    "same_generation": "other card of the same generation",
    "other_generation": "card of another generation",
    "other_engine": "same card, another engine",
    "nothing_measured": "nothing measured",
}
# How far a measured point is trusted over the model: 1 scales the model to it, 0 ignores it.
WEIGHTS = {
    "same_system": 1.0,
    "same_generation": 1.0,
    "other_generation": 0.75,
    "other_engine": 0.5,
    "nothing_measured": 0.0,
}
LEAST_MODELS = 3
KINDS = ("dense", "moe")


@dataclass(frozen=True)
class Width:
    """Half of an 80 % interval on a log scale: the value times e^-half to e^+half.

    Attributes:
        half: Half-width, natural log.
        models: Calibration models behind it.
        is_calibrated: False with fewer than three: then the width is the method study's.
    """

    half: float
    models: int
    is_calibrated: bool

    @property
    def pct(self) -> float:
        """Upper half-width in percent of the value."""
        return 100.0 * (exp(self.half) - 1.0)

    def around(self, value: float) -> tuple[float, float]:
        """The interval around a value."""
        return value * exp(-self.half), value * exp(self.half)


@dataclass(frozen=True)
class Calibration:
    """Fitted constants.

    Attributes:
        us_a_layer: Kind -> engine -> microseconds a layer that are neither reading, computing nor
            communication.
        generation_factors: Kind -> generation -> factor on it; 1 where none stands.
        widths: Kind -> distance -> width.
        engine_versions: Engine -> versions of the rows.
        parameters: Kind -> smallest and largest calibration model, weights.
        batches: Smallest and largest concurrency of the rows that were scored.
        least_output: Shortest output of the rows that were scored, tokens.
    """

    us_a_layer: Mapping[str, Mapping[str, float]]
    generation_factors: Mapping[str, Mapping[str, float]]
    widths: Mapping[str, Mapping[str, Width]]
    engine_versions: Mapping[str, tuple[str, ...]]
    parameters: Mapping[str, tuple[float, float]]
    batches: tuple[int, int]
    least_output: int

    def constant_us(self, kind: str, engine: str, generation: str) -> float:
        """Microseconds a layer of an engine on a generation of cards."""
        factor = self.generation_factors.get(kind, {}).get(generation, 1.0)
        return self.us_a_layer[kind][engine] * factor


def read_calibration(content: Mapping[str, Any]) -> Calibration:
    """Read the decoded content of ``data/calibration.json``.

    Raises:
        InvalidSpec: A part is missing, or a width is narrower than one nearer to a measurement.
    """
    try:
        widths = {
            kind: {
                name: Width(float(row["half"]), int(row["models"]), bool(row["is_calibrated"]))
                for name, row in content["widths"][kind].items()
            }
            for kind in KINDS
        }
        found = Calibration(
            us_a_layer=content["us_a_layer"],
            generation_factors=content["generation_factors"],
            widths=widths,
            engine_versions={k: tuple(v) for k, v in content["engine_versions"].items()},
            parameters={kind: _pair(content["parameters"][kind]) for kind in KINDS},
            batches=(int(content["batches"][0]), int(content["batches"][1])),
            least_output=int(content["least_output"]),
        )
        chains = [[row[name].half for name in DISTANCES] for row in widths.values()]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InvalidSpec(
            "The calibration file is not whole.",
            "Write it anew with scripts/calibrate.py.",
            detail=repr(error),
        ) from error
    if any(far < near for chain in chains for near, far in pairwise(chain)):
        raise InvalidSpec("A prediction far from a measurement is surer than one near to it.")
    return found


def _pair(values: Any) -> tuple[float, float]:
    low, high = values
    return float(low), float(high)
