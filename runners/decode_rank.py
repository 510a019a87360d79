"""What one rank of a decode run does: check memory, draw weights, build steps, read the clocks."""

import os
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from models.architecture import read_config
from models.decode import MemoryNeed, check_memory, memory_words
from models.errors import OutOfMemory, ValuesWrong
from models.numerics import read_numerics
from runners import environment
from runners.decode_clocks import ReplayLoop, WallLoop, warm_up
from runners.decode_plan import need_of
from runners.decode_served import ServedLoop, pages_of
from runners.decode_step import (
    Collectives,
    Model,
    NoCollectives,
    RankCollectives,
    Step,
    capture,
)
from runners.decoder import PLAIN, Blocks, fused
from runners.decoder_weights import build_shard, random_source
from runners.probe import probe
from runners.rank_fault import Fault
from runners.rank_program import Rank
from runners.spec import DecodeSpec

# rounding in bf16 through all layers stays far below this; a wrong kernel reads about 1.4
MAX_DEVIATION = 0.1
_PROBE_S = 1.0

ClockLoop = Callable[[int], list[float]]


def measure(rank: Rank, payload: dict[str, Any]) -> dict[str, Any]:
    """Run one rank of a decode spec (target of `runners.ranks.run_ranks`).

    Returns:
        Plain JSON values: a case for each batch and KV length with its samples by clock and round,
        the probe, and the effective conditions.
    """
    spec = DecodeSpec.model_validate(payload["spec"])
    need = need_of(spec)
    try:
        with torch.no_grad():
            return _measure(rank, spec, need)
    except (torch.cuda.OutOfMemoryError, MemoryError) as error:
        raise _exhausted(rank, need, error) from error
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
        raise _exhausted(rank, need, error) from error


def _exhausted(rank: Rank, need: MemoryNeed, error: BaseException) -> OutOfMemory:
    return OutOfMemory(
        f"Memory ran out while the decode step ran; it was to need {need.words}, and "
        f"{memory_words(_free_bytes(rank))} is free now.",
        "Pick a smaller model, a shorter KV length, a smaller batch or more GPUs.",
        detail=str(error),
    )


def _free_bytes(rank: Rank) -> float:
    """Memory that is free for this rank."""
    if rank.device.type == "cuda":
        return float(torch.cuda.mem_get_info(rank.device)[0])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") / rank.n_ranks


def _measure(rank: Rank, spec: DecodeSpec, need: MemoryNeed) -> dict[str, Any]:
    _settle(rank)
    where = f"The GPU of rank {rank.rank}" if rank.device.type == "cuda" else "Each rank"
    check_memory(need, _free_bytes(rank), where)
    with rank.within("the probe of the device", 120):
        rates = probe(str(rank.device), seconds=_PROBE_S)
        if rank.device.type == "cuda":
            torch.cuda.empty_cache()
    _tell(rank, "Drawing random weights", 0.05)
    with rank.within("the drawing of the weights", rank.time_limit_s):
        arch = read_config(spec.model)
        source = random_source(rank.device, getattr(torch, spec.dtype))
        shard = build_shard(arch, source, spec.tp, rank.rank)
        model = Model(arch, read_numerics(spec.model, arch), shard, spec.tp)
        if rank.device.type == "cuda":
            torch.cuda.empty_cache()  # the whole tensors that the shares were cut from
    pairs = [(batch, kv_len) for batch in spec.batches for kv_len in spec.kv_lens]
    cases = []
    for number, (batch, kv_len) in enumerate(pairs):
        progress = _Progress(rank, spec, batch, kv_len, number, len(pairs))
        cases.append(_case(rank, spec, Step(model, batch, kv_len), progress))
    return {
        "cases": cases,
        "probe": [row.model_dump(mode="json") for row in rates],
        "conditions": environment.process_conditions(),
        "environment": environment.environment(),
        "transports": rank.transports(),
        "numerics": model.numerics.remark,
    }


def _settle(rank: Rank) -> None:
    """Settings of torch that hold for the whole rank."""
    if rank.device.type == "cuda":
        # of the kernels for one query, only this one splits the cache over the whole GPU
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.backends.cuda.enable_flash_sdp(True)


class _Progress:
    """Where a rank stands, told by rank 0 for all."""

    def __init__(
        self, rank: Rank, spec: DecodeSpec, batch: int, kv_len: int, case: int, n_cases: int
    ) -> None:
        self._rank, self._spec = rank, spec
        self._case, self._n_cases = case, n_cases
        self.name = f"batch {batch}, KV {kv_len}"

    def tell(self, what: str, done: float) -> None:
        """Say what is done now; ``done`` is the share of this case, 0 to 1."""
        _tell(self._rank, f"{what}: {self.name}", 0.1 + 0.9 * (self._case + done) / self._n_cases)

    def round(self, number: int, medians: dict[str, float]) -> None:
        """Hand over a finished round of this case."""
        if self._rank.rank == 0:
            row = {"case": self.name, **{f"{k} (ms)": round(v, 4) for k, v in medians.items()}}
            index = self._case * self._spec.rounds + number
            self._rank.say({"round": index, "summary": row})


def _tell(rank: Rank, stage: str, fraction: float) -> None:
    if rank.rank == 0:
        rank.say({"stage": stage, "fraction": fraction})


def _case(rank: Rank, spec: DecodeSpec, step: Step, progress: _Progress) -> dict[str, Any]:
    """All clocks of one batch and KV length, all rounds; clocks alternate within a round."""
    collectives: Collectives = RankCollectives(rank.n_ranks) if spec.tp > 1 else NoCollectives()
    found: dict[str, Any] = {"batch": step.batch, "kv_len": step.kv_len, "is_fused": False}
    loops: dict[str, ClockLoop] = {}
    with rank.within(f"the building of the step ({progress.name})", rank.time_limit_s):
        progress.tell("Building the step", 0.0)
        if "wall_eager" in spec.clocks:
            loops["wall_eager"] = WallLoop(step, lambda: step.run(PLAIN, collectives))
        if set(spec.clocks) - {"wall_eager"}:
            blocks = _fast_blocks(rank, spec, step, found)
            loops |= _graph_loops(rank, spec, step, blocks, collectives, found)
        _check_same_token(rank, step, collectives)
    samples: dict[str, list[list[float]]] = {clock: [] for clock in spec.clocks if clock in loops}
    fault = Fault.from_environment(rank.rank, rank.n_ranks)
    for number in range(spec.rounds):
        if number:
            fault.exhaust(rank.device)
        progress.tell(f"Round {number + 1} of {spec.rounds}", 0.3 + 0.7 * number / spec.rounds)
        for clock, rounds in samples.items():
            with rank.within(f"{clock} ({progress.name})", rank.time_limit_s):
                rank.barrier()
                rounds.append(loops[clock](spec.steps_per_round))
        progress.round(number, {clock: median(rounds[-1]) for clock, rounds in samples.items()})
    # a captured graph keeps the communicator alive: let go of it before anything is taken down
    loops.clear()
    if rank.device.type == "cuda":
        torch.cuda.synchronize()
        torch.compiler.reset()
    return {**found, "samples": samples}


def _fast_blocks(rank: Rank, spec: DecodeSpec, step: Step, found: dict[str, Any]) -> Blocks:
    """Compiled blocks where that works and computes the same, on every rank alike, else plain."""
    if not spec.compile:
        return PLAIN
    alone = NoCollectives()
    plain = step.logits(PLAIN, alone).clone()
    problem = ""
    blocks = PLAIN
    deviation = 0.0
    try:
        # without the others: a rank that fails here must not leave them waiting
        blocks = fused(spec.fusion)
        logits = step.logits(blocks, alone)
        if spec.tp > 1:
            best = blocks.best_here(logits, step.model.shard.first_row)
            blocks.best_of_all(best.repeat(rank.n_ranks, 1, 1))
        deviation = _deviation(logits, plain)
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    rows = rank.gather([float(bool(problem)), deviation])
    found["deviation"] = max(row[1] for row in rows)
    if found["deviation"] > MAX_DEVIATION:
        raise ValuesWrong(
            f"The fused step computes something else than the plain one (relative distance "
            f"{found['deviation']:.2g} at {step.batch} sequences).",
            "Measure without fusion, and report the versions of torch and Triton.",
        )
    if any(row[0] for row in rows):
        found["not_fused"] = problem or "another rank could not"
        return PLAIN
    found["is_fused"] = True
    return blocks


def _deviation(logits: torch.Tensor, plain: torch.Tensor) -> float:
    """Relative distance of two results; padded rows, which hold minus infinity, left out."""
    real = plain.isfinite()
    reference = plain[real].float()
    distance = (logits[real].float() - reference).norm() / reference.norm()
    value = float(distance)
    return value if value == value else 1e9  # NaN must not pass as small


def _graph_loops(
    rank: Rank,
    spec: DecodeSpec,
    step: Step,
    blocks: Blocks,
    collectives: Collectives,
    found: dict[str, Any],
) -> dict[str, ClockLoop]:
    """The clocks that need a captured step."""
    step.run(blocks, collectives)  # libraries and communicators set themselves up outside a graph
    step.run(blocks, collectives)
    graph = capture(lambda: step.run(blocks, collectives))
    found["warm_up_replays"] = warm_up(graph, rank.agree)
    loops: dict[str, ClockLoop] = {
        "wall_graph": WallLoop(step, graph.replay),
        "replay": ReplayLoop(graph),
    }
    if "wall_served" in spec.clocks:
        loops["wall_served"] = _served(step, blocks, collectives)
    if spec.tp > 1 and "replay_no_allreduce" in spec.clocks:
        alone = NoCollectives()
        step.run(blocks, alone)
        loops["replay_no_allreduce"] = ReplayLoop(capture(lambda: step.run(blocks, alone)))
        step.run(blocks, collectives)
    return loops


def _served(step: Step, blocks: Blocks, collectives: Collectives) -> ServedLoop:
    """The layers in a graph of their own, and an engine's work around it."""
    pages = pages_of(step)
    hidden = torch.empty_like(step.hidden(blocks, collectives, pages))

    def layers() -> None:
        hidden.copy_(step.hidden(blocks, collectives, pages))

    return ServedLoop(step, capture(layers).replay, hidden, pages, collectives)


def _check_same_token(rank: Rank, step: Step, collectives: Collectives) -> None:
    """Every rank must have chosen the same tokens, or the sum over the ranks was wrong."""
    step.run(PLAIN, collectives)
    rows = rank.gather([float(token) for token in step.tokens.tolist()])
    if any(row != rows[0] for row in rows):
        raise ValuesWrong(
            "The ranks do not agree on the next token.",
            "Run the AllReduce check on these GPUs: it compares every value.",
        )
