"""A page looks at a running job once a second, for every visitor who watches: it must be cheap."""

from pathlib import Path
from typing import Any

from db import jobs
from db.engine import connect
from db.migrations import upgrade
from pages.widgets.live_events import Heard

N_EVENTS = 20_000
LIMIT_S = 0.010


def test_a_look_at_a_job_that_said_much(tmp_path: Path, benchmark: Any) -> None:
    engine = connect(f"sqlite:///{tmp_path / 'live.sqlite'}")
    upgrade(engine)
    job_id = jobs.enqueue(engine, {"kind": "topology"})
    stage = {"type": "stage", "stage": "measure", "fraction": 0.5, "message": "on its way"}
    jobs.add_events(engine, job_id, [stage] * N_EVENTS)
    heard = Heard(job_id)
    heard.listen(engine)

    def look() -> None:
        jobs.job(engine, job_id)
        heard.listen(engine)

    benchmark.pedantic(look, rounds=50, warmup_rounds=2)
    engine.dispose()
    assert benchmark.stats.stats.min < LIMIT_S
