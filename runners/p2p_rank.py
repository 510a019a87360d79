"""One device alone, before its pairs are looked at."""

from typing import Any

from runners.probe import probe
from runners.rank_program import Rank

# not a tier: a device that works does this in two seconds, a busy machine in some more
_PROBE_LIMIT_S = 120.0


def device(rank: Rank, payload: dict[str, Any]) -> dict[str, Any]:
    """The two-second probe: a matrix product and the copy inside this device."""
    with rank.within("the probe", _PROBE_LIMIT_S):
        for row in probe(str(rank.device)):
            rank.say({"probe": row.model_dump(mode="json")})
    return {}
