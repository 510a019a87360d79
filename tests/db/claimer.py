"""Started by the race test: claims jobs until none is queued, and says when it held which."""

import json
import sys
import time

from db import jobs
from db.engine import connect


def main(url: str, worker_id: str) -> None:
    engine = connect(url, busy_timeout_s=60)
    jobs.heartbeat(engine, worker_id, pid=1, host="h1")
    print("ready", flush=True)
    sys.stdin.readline()  # all start at once
    while jobs.counts(engine)["queued"]:
        job = jobs.claim(engine, worker_id)
        if job is None:
            time.sleep(0.005)  # every GPU is taken: this is what a worker does too
            continue
        begin = time.monotonic()
        jobs.started(engine, job["id"], pid=1, pgid=1)
        held = {"id": job["id"], "spec": job["spec"], "begin": begin, "end": time.monotonic()}
        jobs.finish(engine, job["id"], "succeeded")
        print(json.dumps(held), flush=True)
    engine.dispose()


if __name__ == "__main__":
    main(*sys.argv[1:])
