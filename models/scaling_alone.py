"""What a step on one GPU says by itself: whose time it is, and what a faster CPU could give.

Before a second GPU is asked for, this is what a purchase could shorten at all.
"""

from models.scaling import StepTimes, cpu_ceiling, speedup
from models.scaling_words import NOTHING_MS, times_words


def alone_sentence(
    times: StepTimes,
    wall: str = "in wall clock",
    floor_ms: float | None = None,
    who: str = "One GPU",
) -> str | None:
    """Whose time a step is, in a few sentences.

    Args:
        times: The step on one GPU.
        wall: How its wall clock was driven, to be read after a time.
        floor_ms: Roofline floor, milliseconds, where it is known.
        who: Whose step it is.

    Returns:
        The sentences; None where no clock is known.
    """
    if times.whole_ms is None:
        return None
    said = [f"{who} takes {_steps(times, wall)}"]
    if times.replay_ms is None:
        return f"{said[0]}. No graph replay says how much of it is the CPU's."
    above = _above(times.replay_ms, floor_ms)
    if times.wall_ms is None and times.served_ms is None:
        return f"{said[0]}{above}. No wall clock says what the CPU adds to it."
    shares = [f"the GPU's own work (graph replay) is {times.replay_ms:.2f} ms{above}"]
    if times.cpu_ms is not None:
        shares.append(f"the CPU {_adds(times.cpu_ms)}")
    if times.engine_ms is not None:
        shares.append(f"an engine's work around the graph {_adds(times.engine_ms)}")
    said.append(_sentence(shares))
    ceiling = _ceiling(times)
    return ". ".join([*said, *([ceiling] if ceiling else [])]) + "."


def served_sentence(single: StepTimes, times: StepTimes) -> str | None:
    """The same comparison with an engine's work in the steps; None where one of them lacks it."""
    if single.served_ms is None or times.served_ms is None:
        return None
    alone, here = single.served_ms, times.served_ms
    gain = times_words(speedup(alone, here))
    return f"As an engine drives it, {here:.2f} ms a step against {alone:.2f} ms ({gain})."


def _steps(times: StepTimes, wall: str) -> str:
    found = []
    if times.wall_ms is not None:
        found.append(f"{times.wall_ms:.2f} ms a step {wall}")
    if times.served_ms is not None:
        found.append(f"{times.served_ms:.2f} ms as an engine drives it")
    if not found:
        found.append(f"{times.replay_ms:.2f} ms a step in graph replay")
    return " and ".join(found)


def _above(replay_ms: float, floor_ms: float | None) -> str:
    if not floor_ms:
        return ""
    return f", {replay_ms / floor_ms:.2f} times the roofline floor of {floor_ms:.2f} ms"


def _adds(ms: float) -> str:
    if abs(ms) < NOTHING_MS:
        return "adds nothing"
    return f"adds {ms:.2f} ms" if ms > 0 else f"reads −{-ms:.2f} ms, which is noise"


def _sentence(shares: list[str]) -> str:
    *first, last = shares
    whole = f"{', '.join(first)}, and {last}" if first else last
    return whole[0].upper() + whole[1:]


def _ceiling(times: StepTimes) -> str | None:
    if times.wall_ms is None or times.replay_ms is None:
        return None
    gain = times_words(cpu_ceiling(times.wall_ms, times.replay_ms))
    said = f"A CPU that costs nothing would give at most {gain}"
    if times.served_ms is not None:
        gain = times_words(cpu_ceiling(times.served_ms, times.replay_ms))
        said += f", {gain} as an engine drives it"
    return said
