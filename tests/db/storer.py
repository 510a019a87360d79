"""Started by the kill test: stores one result after the other until it is killed."""

import sys
import uuid

from db import runs
from db.engine import connect
from models.result import Measurement, Result, Samples, Tool


def result() -> Result:
    values = [float(n) for n in range(3000)]
    return Result(
        kind="allreduce",
        origin="measured",
        tool=Tool(name="linkworth"),
        measurements=[
            Measurement(
                metric="allreduce_latency",
                statistic="median",
                unit="us",
                value=1.0,
                definition="x:1",
            )
        ],
        samples=[
            Samples(
                metric="allreduce_latency", unit="us", round=0, dims={"bytes": n}, values=values
            )
            for n in range(20)
        ],
    )


def main(url: str) -> None:
    engine = connect(url, busy_timeout_s=60)
    while True:
        runs.store(engine, result(), raw=uuid.uuid4().bytes)
        print("stored", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
