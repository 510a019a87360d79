"""The programs that load servers: where their files go, and who samples the GPUs."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from models.result import Result
from runners.events import main_program


def serving_program(kind: str, run: Callable[..., Result], argv: list[str] | None = None) -> int:
    """Carry one run out from the command line and return its exit code.

    Args:
        kind: The benchmark, as specs name it.
        run: Takes the spec, the events, ``files`` (folder for the tool's own files, beside the
            result) and ``telemetry`` (whether the samples go into the result).
        argv: Arguments, by default those of the process.
    """
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--result", type=Path)
    parser.add_argument("--events", default="-")
    known, _ = parser.parse_known_args(argv)
    files = known.result.with_name(f"{known.result.name}.files") if known.result else None
    # a worker listens on a pipe and samples the GPUs itself; by hand the result carries the samples
    by_hand = not str(known.events).startswith("/dev/fd/")
    return main_program(kind, partial(run, files=files, telemetry=by_hand), argv)
