"""A real worker process with the scripted runner and short times: it may be killed."""

import json
import signal
from dataclasses import replace

from settings import settings
from tests.worker.scripted_context import FAST, PROGRAMS
from worker.context import StopSign
from worker.loop import Worker
from worker.main import make_context, ready_engine


def main() -> None:
    stop = StopSign()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    engine = ready_engine(settings().url, stop)
    context = make_context(settings(), "killable", engine, stop)
    context = replace(context, timing=FAST, programs=PROGRAMS)
    print(json.dumps({"worker_id": context.worker_id}), flush=True)
    Worker(context).run()


if __name__ == "__main__":
    main()
