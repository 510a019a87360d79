"""From the ranks' messages to one result: statistics, conditions, warnings, validity."""

from collections.abc import Iterable
from datetime import datetime
from statistics import median
from typing import Any

import numpy as np

from models.result import VERSION, Measurement, Notice, Result, Samples, Tool, Validity, utc_now
from runners.allreduce_plan import size_words
from runners.allreduce_warnings import SUSPECT, Seen, places, warnings
from runners.spec import AllReduceSpec

DEFINITIONS = {
    ("cuda", "graph"): "linkworth:allreduce-graph:1",
    ("cuda", "eager"): "linkworth:allreduce-eager:1",
    ("cuda", "exposed"): "linkworth:allreduce-exposed:1",
    ("cpu", "eager"): "linkworth:allreduce-eager-gloo:1",
}


class Sweep:
    """What has come from the ranks so far.

    Args:
        spec: What was asked for.
        host: Facts of the host.
        started_at: When the run began.
    """

    def __init__(self, spec: AllReduceSpec, host: dict[str, Any], started_at: datetime) -> None:
        self.spec, self._host, self._started_at = spec, host, started_at
        self._seen = Seen()
        self._probe: list[Measurement] = []
        self._environment: dict[str, Any] = {}
        self._notices: list[Notice] = []

    def warn(self, code: str, text: str) -> None:
        """Add a warning that was found outside."""
        self._notices.append(Notice(code=code, text=text))

    def take(self, rank: int, message: dict[str, Any]) -> None:
        """Sort one message of a rank into its place."""
        if "unit" in message:
            self._seen.units.append(message["unit"])
        elif "clock" in message:
            self._seen.clocks.append(message["clock"])
        elif "facts" in message:
            self._seen.facts[rank] = message["facts"]
        elif "transports" in message:
            self._seen.transports[rank] = message["transports"]
        elif "probe" in message:
            self._probe.append(Measurement.model_validate(message["probe"]))
        elif "environment" in message:
            self._environment, self._seen.fault = message["environment"], message["fault"]

    def round_summary(self, index: int) -> dict[str, object]:
        """Median of each size and mode of one round, for the live view."""
        return {
            f"{unit['mode']} {size_words(unit['bytes'])} (us)": round(median(unit["values_us"]), 2)
            for unit in self._seen.units
            if unit["round"] == index
        }

    def result(self) -> Result:
        """The result as far as it goes; wrong values make it invalid."""
        notices = [*self._notices, *warnings(self.spec, self._seen)]
        validity: Validity = "valid"
        reasons = [notice.text for notice in notices if notice.code in SUSPECT]
        if reasons:
            validity = "suspect"
        wrong = [unit for unit in self._seen.units if unit["wrong"]]
        if wrong:
            validity = "invalid"
            reasons = [_wrong_sentence(wrong), *reasons]
        measurements = [row for unit in self._seen.units for row in self._measured(unit)]
        return Result(
            kind="allreduce",
            origin="measured",
            validity=validity,
            reasons=reasons,
            warnings=notices,
            spec=self.spec.model_dump(mode="json"),
            host=self._host,
            environment={
                **self._environment,
                "ranks": [self._seen.facts[rank] for rank in sorted(self._seen.facts)],
                "transports": [
                    self._seen.transports[rank] for rank in sorted(self._seen.transports)
                ],
                "gpu_clocks": self._seen.clocks,
                "layouts": [
                    {key: unit[key] for key in ("round", "mode", "bytes")} | unit["layout"]
                    for unit in self._seen.units
                ],
            },
            started_at=self._started_at,
            finished_at=utc_now(),
            tool=Tool(name="linkworth", version=VERSION),
            measurements=[*measurements, *self._probe],
            samples=[
                Samples(
                    metric="allreduce_latency",
                    unit="us",
                    round=unit["round"],
                    dims=self._dims(unit),
                    values=unit["values_us"],
                )
                for unit in self._seen.units
            ],
        )

    def _dims(self, unit: dict[str, Any]) -> dict[str, Any]:
        return {
            "bytes": unit["bytes"],
            "mode": unit["mode"],
            "link": self.spec.link,
            "ranks": self.spec.n_ranks,
            "dtype": self.spec.dtype,
            "placement": "in_place",  # as engines do it, and the column of nccl-tests to compare
        }

    def _measured(self, unit: dict[str, Any]) -> Iterable[Measurement]:
        values = np.asarray(unit["values_us"], dtype=float)
        definition = DEFINITIONS[self.spec.device, unit["mode"]]
        dims = self._dims(unit)
        for statistic, share in (("median", 50), ("p10", 10), ("p90", 90)):
            yield Measurement(
                metric="allreduce_latency",
                statistic=statistic,
                unit="us",
                value=float(np.percentile(values, share)),
                n=len(values),
                round=unit["round"],
                dims=dims,
                definition=definition,
            )
        yield Measurement(
            metric="wrong_values",
            unit="",
            value=unit["wrong"],
            n=1,
            round=unit["round"],
            dims=dims,
            definition="linkworth:exact-sum:1",
        )


def _wrong_sentence(wrong: list[dict[str, Any]]) -> str:
    count = sum(unit["wrong"] for unit in wrong)
    where = places((unit["mode"], unit["bytes"]) for unit in wrong)
    return (
        f"The all-reduce returned wrong values: {count} elements differ from the exact sum "
        f"({where}). Nothing measured on this link can be trusted."
    )
