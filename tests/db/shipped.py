"""The shipped studies as tests read them: what they hold, what they say, medians over rounds."""

from functools import lru_cache
from pathlib import Path
from statistics import median

from models.result import Bundle

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "data" / "studies"


def bundle(study_id: str) -> Bundle:
    return Bundle.model_validate_json((FOLDER / f"{study_id}.json").read_bytes())


@lru_cache(maxsize=16)
def told(study_id: str) -> str:
    """All that a study says, in one text."""
    study = bundle(study_id).study
    claims = [f"{claim.claim} {claim.check}" for claim in study.claims]
    return "\n".join([study.summary, *claims, *study.limits, *study.notes])


def value(result, metric, statistic="median", **dims) -> float:
    """Median over the rounds."""
    return median(row.value for row in result.find(metric, statistic, **dims))


def step(run, clock="wall_graph", batch=1) -> float:
    """A decode step at KV 1,024, milliseconds."""
    return value(run, "decode_step", clock=clock, batch=batch, kv_len=1024)
