"""Plain loops of CUDA's own copies, timed with CUDA events: the measure beside our figures.

    python scripts/cuda_copies.py --request FILE --result FILE

Started by compare_copies.py, in a process of its own for each round. Nothing of torch is on the
way: memory from ``cudaMalloc``, ``cudaMemcpyAsync(…, cudaMemcpyDeviceToDevice)`` inside a GPU and
``cudaMemcpyPeerAsync`` between two with peer access enabled, streams and events, through the
libcudart that torch carries. The source holds a 32-bit pattern without repetition, the target its
complement; after the timing every word of the target is compared.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from cudart import Cudart, Runtime, Way  # noqa: E402
from side_by_side import mapped_library, save  # noqa: E402

BATCHES = 10
# inside a GPU: as long as the probe copies in all; between GPUs: as long as our batches
BATCH_S = {"inside": 0.1, "between": 0.02}
SINGLES_S = 1.0
MOST_SINGLES = 2000
SMALL_COPIES = 200  # fewer than a stream's queue holds, since they wait behind a closed gate
CHUNK_S = 0.3
CHUNKS = 3
MOST_CHUNKS = 12
STEADY = 0.01


def measure(
    cuda: Runtime,
    *,
    n_gpus: int,
    inside_bytes: int,
    between_bytes: int,
    small_bytes: int,
    clock: Callable[[int], dict[str, Any]],
) -> dict[str, Any]:
    """Every copy of one round.

    Args:
        cuda: The runtime.
        n_gpus: One: copies inside it. Two: also between them, each way, both ways, and small.
        inside_bytes: Of a copy inside one GPU; counted twice in GB/s, read and written.
        between_bytes: Of a copy between GPUs; counted once, and both directions added together.
        small_bytes: Of the copy that is all latency.
        clock: A GPU's clock at this moment (place -> plain values).

    Returns:
        ``rows`` (GB/s of 1e9 bytes, small ones us), ``wrong``, ``warm_ups``, ``granted``.
    """
    done: dict[str, Any] = {"rows": [], "wrong": [], "warm_ups": [], "granted": None}
    for place in range(n_gpus):
        way = _way(cuda, place, place, inside_bytes)
        done["warm_ups"].append(_warm_up(cuda, [way], clock))
        row = {"src": place, "dst": place, "bytes": inside_bytes, "unit": "GB/s"}
        batches = _batches(cuda, [way], BATCH_S["inside"])
        done["rows"].append({**row, "what": "inside, loop", **_rate(2 * inside_bytes, batches)})
        singles = _singles(cuda, way)
        fastest = {"value": 2 * inside_bytes / min(singles) / 1e9, "n": len(singles)}
        done["rows"].append({**row, "what": "inside, fastest", **fastest})
        _finish(cuda, way, done)
    if n_gpus == 2:
        done["granted"] = [cuda.grant(0, 1), cuda.grant(1, 0)]
        ways = [_way(cuda, src, 1 - src, between_bytes) for src in (0, 1)]
        done["warm_ups"].append(_warm_up(cuda, ways, clock))
        for together in ([ways[0]], [ways[1]], ways):
            n_bytes = len(together) * between_bytes
            row = {"src": together[0].src, "dst": together[0].dst, "bytes": n_bytes}
            what = "both ways" if together is ways else "one way"
            rate = _rate(n_bytes, _batches(cuda, together, BATCH_S["between"]))
            done["rows"].append({**row, "what": what, "unit": "GB/s", **rate})
        for way in ways:
            _finish(cuda, way, done)
        for src in (0, 1):
            way = _way(cuda, src, 1 - src, small_bytes)
            taken = [_seconds(cuda, [way], SMALL_COPIES, held=True) for _ in range(BATCHES + 1)][1:]
            row = {"src": src, "dst": 1 - src, "bytes": small_bytes, "what": "small"}
            value = {"unit": "us", "value": median(taken) * 1e6, "n": len(taken)}
            done["rows"].append({**row, **value})
            _finish(cuda, way, done)
    return done


def pattern(n_bytes: int, salt: int) -> np.ndarray:
    """32-bit words that do not repeat, other ones for another salt."""
    # an odd factor maps the counters one to one, and no two neighbours are alike
    words = np.arange(n_bytes // 4, dtype=np.uint32)
    words *= np.uint32(2654435761)
    words += np.uint32(40503 * (salt + 1))
    return words


def is_steady(values: Sequence[float | None]) -> bool:
    """Whether the last few lie within 1 %; what cannot be read does not stand in the way."""
    last = [value for value in values[-CHUNKS:] if value is not None]
    return len(values) >= CHUNKS and (not last or max(last) <= min(last) * (1 + STEADY))


def _way(cuda: Runtime, src: int, dst: int, n_bytes: int) -> Way:
    source, target = cuda.allocate(src, n_bytes), cuda.allocate(dst, n_bytes)
    words = pattern(n_bytes, src)
    cuda.write(source, words)
    cuda.write(target, ~words)
    return Way(src, dst, n_bytes, source, target, cuda.stream(src))


def _finish(cuda: Runtime, way: Way, done: dict[str, Any]) -> None:
    arrived = cuda.read(way.target, way.n_bytes // 4)
    wrong = int((arrived != pattern(way.n_bytes, way.src)).sum())
    place = {"src": way.src, "dst": way.dst, "bytes": way.n_bytes}
    done["wrong"].append({**place, "wrong": wrong, "of": len(arrived)})
    for pointer in (way.source, way.target):
        cuda.free(pointer)


def _queue(cuda: Runtime, ways: Sequence[Way], count: int) -> list[tuple[Any, Any]]:
    begins = [cuda.mark(way.stream) for way in ways]
    for _ in range(count):
        for way in ways:  # in turn, so that no direction gets a start on the other
            cuda.copy(way)
    return list(zip(begins, [cuda.mark(way.stream) for way in ways], strict=True))


def _seconds(cuda: Runtime, ways: Sequence[Way], count: int, *, held: bool = False) -> float:
    """One batch: the slowest direction's time, a copy."""
    gates = [cuda.hold(way.stream) for way in ways] if held else []
    marks = _queue(cuda, ways, count)
    for gate in gates:
        gate()
    return max(cuda.seconds(*pair) for pair in marks) / count


def _count(cuda: Runtime, ways: Sequence[Way], seconds: float) -> int:
    return max(2, int(seconds / max(_seconds(cuda, ways, 2), 1e-6)))


def _batches(cuda: Runtime, ways: Sequence[Way], batch_s: float) -> list[float]:
    count = _count(cuda, ways, batch_s)
    return [_seconds(cuda, ways, count) for _ in range(BATCHES + 1)][1:]


def _singles(cuda: Runtime, way: Way) -> list[float]:
    """One copy between two events, again and again, as the probe takes it."""
    count = min(MOST_SINGLES, _count(cuda, [way], SINGLES_S))
    return [_seconds(cuda, [way], 1) for _ in range(count)]


def _rate(n_bytes: int, batches: Sequence[float]) -> dict[str, Any]:
    rates = [n_bytes / seconds / 1e9 for seconds in batches]
    return {"value": n_bytes / median(batches) / 1e9, "n": len(rates), "batches": rates}


def _warm_up(
    cuda: Runtime, ways: Sequence[Way], clock: Callable[[int], dict[str, Any]]
) -> dict[str, Any]:
    """Copies until time and clock hold still; the clock is read while copies are under way."""
    places = [way.src for way in ways]
    before = [clock(place) for place in places]
    _seconds(cuda, ways, 2)  # the first copies pay for what is set up once
    count = _count(cuda, ways, CHUNK_S)
    taken: list[float] = []
    during: list[list[dict[str, Any]]] = []
    is_over = False
    while not is_over and len(taken) < MOST_CHUNKS:
        marks = _queue(cuda, ways, count)
        during.append([clock(place) for place in places])
        taken.append(max(cuda.seconds(*pair) for pair in marks) / count)
        clocks = [[one[at].get("sm_clock_mhz") for one in during] for at in range(len(places))]
        is_over = is_steady(taken) and all(is_steady(values) for values in clocks)
    return {
        "places": places,
        "copies": count * len(taken),
        "seconds": round(sum(taken) * count, 3),
        "is_steady": is_over,
        "clock_before": before,
        "clock_during": during[-1],
    }


def torch_copy_wrong(place: int, n_bytes: int) -> int:
    """Wrong words after torch's ``copy_`` inside one GPU, which the probe times unverified."""
    import torch

    from runners.value_check import contribution, count_wrong, fill

    period = contribution(place, 2, torch.int32)
    source = torch.empty(n_bytes // 4, dtype=torch.int32, device=f"cuda:{place}")
    target = torch.full_like(source, -1)
    fill(source, period)
    target.copy_(source)
    return count_wrong(target, period)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--request", type=Path, required=True)
    parser.add_argument("--result", type=Path, required=True)
    options = parser.parse_args(argv)
    request = json.loads(options.request.read_text())
    import torch  # loads the runtime, and is asked for nothing else before the timing

    from runners.gpu_state import GpuState, own_uuid

    path = mapped_library("libcudart")
    if path is None:
        print("torch has the CUDA runtime built in, not as a library.", file=sys.stderr)
        return 1
    cuda = Cudart(path)
    states = [GpuState(own_uuid(place)) for place in range(request["n_gpus"])]
    done = measure(cuda, **request, clock=lambda place: states[place].read())
    for place in range(request["n_gpus"]):
        n_bytes = request["inside_bytes"]
        wrong = torch_copy_wrong(place, n_bytes)
        row = {"src": place, "dst": place, "bytes": n_bytes, "wrong": wrong, "by": "torch"}
        done["wrong"].append(row)
    facts = {**cuda.facts(), "torch": torch.__version__, "torch_cuda": torch.version.cuda}
    save(options.result, {**done, "facts": facts})
    return 0


if __name__ == "__main__":
    sys.exit(main())
