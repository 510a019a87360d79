"""From a question about decode steps to jobs: TP sizes, link arms, CPU settings, their order."""

import itertools
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from models.architecture import read_config
from models.cpu_lists import compact
from models.decode import (
    DTYPE_BYTES,
    MemoryNeed,
    check_decode,
    check_plain,
    memory_need,
    memory_words,
)
from models.errors import InvalidSpec, OutOfMemory
from models.numerics import read_numerics
from runners.spec import DecodeSpec, parse_spec

_START_S = {"cpu": 4.0, "cuda": 20.0}
_PROBE_S = 2.0
_COMPILE_S = 25.0
_DRAW_BYTES_PER_S = {"cpu": 2e8, "cuda": 2e10}
_READ_BYTES_PER_S = {"cpu": 4e9, "cuda": 1e12}
_LAUNCH_S = {"cpu": 4e-3, "cuda": 3e-4}  # a layer, launched one by one
_ENGINE_S = 1e-3  # an engine's work around one graph


def decode_seconds(spec: DecodeSpec) -> float:
    """How long a decode run will take, rather too long than too short."""
    width, device = DTYPE_BYTES[spec.dtype], spec.device
    try:
        arch = read_config(spec.model)
        check_plain(arch)
    except InvalidSpec:
        return _START_S[device]  # it will be refused at its start
    weights = memory_need(arch, spec.tp, 1, 1, dtype_bytes=width, device=device).weights
    step_s = weights / _READ_BYTES_PER_S[device]
    eager_s = step_s + arch.layers * _LAUNCH_S[device] * spec.tp ** (device == "cpu")
    of_clock: dict[str, float] = {"wall_eager": eager_s, "wall_served": step_s + _ENGINE_S}
    a_round = sum(of_clock.get(clock, step_s) for clock in spec.clocks)
    is_fused = device == "cuda" and spec.compile and set(spec.clocks) != {"wall_eager"}
    case_s = (_COMPILE_S if is_fused else 0.0) + 3.0 * (device == "cuda")
    case_s += spec.rounds * spec.steps_per_round * a_round
    start_s = _START_S[device] + _PROBE_S + weights * spec.tp / _DRAW_BYTES_PER_S[device]
    return start_s + len(spec.batches) * len(spec.kv_lens) * case_s


def largest_need(
    model: dict[str, Any],
    tp: int,
    batches: Sequence[int],
    kv_lens: Sequence[int],
    dtype: str = "bfloat16",
    device: str = "cuda",
    clocks: Sequence[str] = (),
) -> MemoryNeed:
    """Memory that each rank needs for the largest batch and KV length, all clocks read.

    Raises:
        InvalidSpec: The model cannot be built so; says why.
    """
    arch = read_config(model)
    for batch, kv_len in itertools.product(batches, kv_lens):
        check_decode(arch, tp, kv_len, batch)
    read_numerics(model, arch)  # what only the ranks would refuse is refused before they start
    return memory_need(
        arch,
        tp,
        max(batches),
        max(kv_lens),
        dtype_bytes=DTYPE_BYTES[dtype],
        device=device,
        paged="wall_served" in clocks,
    )


def need_of(spec: DecodeSpec) -> MemoryNeed:
    """Memory that each rank of a run needs.

    Raises:
        InvalidSpec: As `largest_need`.
    """
    return largest_need(
        spec.model, spec.tp, spec.batches, spec.kv_lens, spec.dtype, spec.device, spec.clocks
    )


def decode_jobs(
    *,
    model: dict[str, Any],
    model_name: str,
    tps: Sequence[int],
    device: str = "cpu",
    gpus: Sequence[int | str] = (),
    links: Sequence[str] = (),
    omp_num_threads: Sequence[int | None] = (None,),
    cpu_affinities: Sequence[list[int] | None] = (None,),
    starts: int = 1,
    memory_bytes: float | None = None,
    evaluation_id: str | None = None,
    **settings: Any,
) -> list[dict[str, Any]]:
    """The jobs of a decode-step test: one an arm and start, interleaved over the starts.

    Args:
        model: Content of a config.json.
        model_name: Its name for people.
        tps: TP sizes; each takes the first so many GPUs.
        device: ``cpu`` or ``cuda``.
        gpus: GPUs in rank order.
        links: ``on``, ``off`` or both, for TP sizes above 1.
        omp_num_threads: Values of OMP_NUM_THREADS to sweep; None leaves it as it is.
        cpu_affinities: Sets of CPUs to sweep, each shared by all ranks; None for no pinning.
        starts: How often each arm's processes are started anew.
        memory_bytes: Memory of the smallest GPU, to refuse what does not fit; None where unknown.
        evaluation_id: Identifier of the evaluation; a new one by default.
        settings: Further fields of DecodeSpec (batches, kv_lens, clocks, rounds, …).

    Returns:
        One dict a job, in order: ``spec``, ``evaluation`` (id, arm, order, start), ``title``,
        ``order`` and ``expected_s``.

    Raises:
        InvalidSpec: What was asked for cannot be carried out.
        OutOfMemory: A TP size does not fit, with the sum.
    """
    if not tps:
        raise InvalidSpec("Choose at least one TP size.")
    evaluation_id = evaluation_id or str(uuid.uuid4())
    clocks = list(settings.pop("clocks", ["wall_eager"]))
    without_link: Sequence[str | None] = (None,)
    arms = [
        (tp, link, threads, cpus)
        for tp in tps
        for link in ((links or without_link) if tp > 1 else without_link)
        for threads in omp_num_threads
        for cpus in cpu_affinities
    ]
    specs: dict[str, DecodeSpec] = {}
    needs: dict[int, MemoryNeed] = {}
    for tp, link, threads, cpus in arms:
        if device == "cuda" and tp > len(gpus):
            raise InvalidSpec(
                f"TP={tp} needs {tp} GPUs and {len(gpus)} are chosen.", "Choose more, or less TP."
            )
        spec = parse_spec(
            {
                "kind": "decode",
                "device": device,
                "gpus": list(gpus[:tp]),
                "link": link,
                "model": model,
                "model_name": model_name,
                "tp": tp,
                "clocks": _clocks(clocks, tp),
                "omp_num_threads": threads,
                "cpu_affinity": cpus,
                **settings,
            }
        )
        assert isinstance(spec, DecodeSpec)  # noqa: S101  (by its kind)
        needs[tp] = need_of(spec)
        is_swept = len(cpu_affinities) > 1
        specs[_arm_name(device, tp, link, threads, cpus, is_swept=is_swept)] = spec
    _check_fit(needs, memory_bytes)
    jobs: list[dict[str, Any]] = []
    for start in range(starts):
        # A B, B A: drift of the machine must not pose as a difference between arms
        for arm in list(specs) if start % 2 == 0 else list(specs)[::-1]:
            jobs.append(
                {
                    "spec": specs[arm].model_dump(mode="json"),
                    "evaluation": {
                        "id": evaluation_id,
                        "arm": arm,
                        "order": len(jobs),
                        "start": start,
                    },
                    "title": f"Decode step of {model_name}, {arm}",
                    "order": len(jobs),
                    "expected_s": decode_seconds(specs[arm]),
                }
            )
    return jobs


def _check_fit(needs: Mapping[int, MemoryNeed], memory_bytes: float | None) -> None:
    """Refuse TP sizes that do not fit, and say which would.

    Raises:
        OutOfMemory: With the sum of the first of them.
    """
    if memory_bytes is None:
        return
    large = [tp for tp, need in needs.items() if need.total > memory_bytes]
    if not large:
        return
    fit = [f"TP={tp}" for tp in needs if tp not in large]
    leave = f"Leave {', '.join(f'TP={tp}' for tp in large)} out ({', '.join(fit)} would fit), or "
    step = "pick a smaller model, a shorter KV length, a smaller batch or more GPUs."
    raise OutOfMemory(
        f"At TP={large[0]} each GPU needs {needs[large[0]].words}, and the smallest one has "
        f"{memory_words(memory_bytes)}.",
        f"{leave}{step}" if fit else step[0].upper() + step[1:],
    )


def _clocks(clocks: Sequence[str], tp: int) -> list[str]:
    """One GPU has no all-reduces to leave out: its replay is what the others compare with."""
    if tp > 1:
        return list(clocks)
    return [clock for clock in clocks if clock != "replay_no_allreduce"] or ["replay"]


def _arm_name(
    device: str,
    tp: int,
    link: str | None,
    threads: int | None,
    cpus: list[int] | None,
    *,
    is_swept: bool,
) -> str:
    words = [f"TP={tp}" if device == "cuda" else f"{tp} CPU rank{'s' if tp > 1 else ''}"]
    words += [f"link {link}"] if link else []
    words += [f"OMP {threads}"] if threads is not None else []
    if cpus is not None:
        words.append(f"CPUs {compact(cpus)}")
    elif is_swept:
        words.append("not pinned")
    return ", ".join(words)
