"""From a question to jobs: which specs in which order, and how long they will take.

Pages call this while a form is filled in; nothing here needs torch.
"""

import uuid
from collections.abc import Sequence
from typing import Any

from models.errors import InvalidSpec
from runners.allreduce_plan import unit_seconds, units
from runners.decode_plan import decode_jobs, decode_seconds
from runners.spec import AllReduceSpec, DecodeSpec, P2PSpec, ServingSpec, Spec, parse_spec

__all__ = ["allreduce_jobs", "decode_jobs", "expected_seconds", "interleaved"]

_CPU_START_S = 4.0
_GPU_START_S = 15.0
_PROBE_S = 2.0
_SERVER_START_S = 90.0


def expected_seconds(spec: Spec | dict[str, Any]) -> float:
    """How long a run will take, roughly and rather too long than too short.

    Raises:
        InvalidSpec: The spec cannot be carried out as written.
    """
    known = parse_spec(spec) if isinstance(spec, dict) else spec
    if isinstance(known, AllReduceSpec):
        start_s = _CPU_START_S if known.device == "cpu" else _GPU_START_S
        return start_s + _PROBE_S + sum(unit_seconds(known, unit) for unit in units(known))
    if isinstance(known, DecodeSpec):
        return decode_seconds(known)
    if isinstance(known, P2PSpec):
        members = (known.ranks or 2) if known.device == "cpu" else len(known.gpus)
        pairs = members * (members - 1) // 2
        pair_s = 15.0 if known.device == "cpu" else 50.0
        load_s = known.load_s + _GPU_START_S if known.engine_under_load else 0.0
        devices = 1 if known.device == "cpu" else members
        return 8.0 + 12.0 * devices + pairs * (pair_s + load_s)
    if isinstance(known, ServingSpec):
        return _serving_seconds(known)
    return 3.0  # topology: a few questions to the driver


def _serving_seconds(spec: ServingSpec) -> float:
    start_s = 0.0 if spec.base_url else _SERVER_START_S
    per_token_s = 0.1 if spec.device == "cpu" else 0.02
    work_s = 0.0
    for load in spec.workloads:
        waves = -(-load.num_prompts // min(load.concurrency or load.num_prompts, load.num_prompts))
        work_s += 10.0 + waves * (0.5 + load.output_len * per_token_s)
    return start_s + work_s


def interleaved(arms: Sequence[str], rounds: int) -> list[tuple[str, int]]:
    """The order A B, B A, A B …: drift of the machine must not pose as a difference between arms.

    Args:
        arms: Names of the arms.
        rounds: Rounds of each arm.

    Returns:
        (arm, round) in the order to run.
    """
    return [
        (arm, index)
        for index in range(rounds)
        for arm in (arms if index % 2 == 0 else tuple(reversed(arms)))
    ]


def allreduce_jobs(
    *,
    device: str = "cpu",
    gpus: Sequence[int | str] = (),
    ranks: int | None = None,
    links: Sequence[str] = (),
    rounds: int = 3,
    evaluation_id: str | None = None,
    title: str = "",
    **settings: Any,
) -> list[dict[str, Any]]:
    """The jobs of an AllReduce sweep over one or two link arms.

    One arm is one job with all its rounds. Two arms are one job a round and arm, interleaved, and
    each job starts its processes anew, so that a round says what a fresh start gives.

    Args:
        device: ``cpu`` or ``cuda``.
        gpus: GPUs by index or UUID.
        ranks: CPU ranks.
        links: ``on``, ``off`` or both; empty where there is no link to switch.
        rounds: Rounds of each arm.
        evaluation_id: Identifier of the evaluation; a new one by default.
        title: For people; the arm is added.
        settings: Further fields of AllReduceSpec (sizes_bytes, modes, dtype, …).

    Returns:
        One dict a job, in order: ``spec`` (plain JSON), ``evaluation`` (id, arm, order), ``title``,
        ``order`` and ``expected_s``.

    Raises:
        InvalidSpec: What was asked for cannot be carried out.
    """
    if len(set(links)) != len(links):
        raise InvalidSpec("A link arm is named twice.", "Name each once: on, off.")
    evaluation_id = evaluation_id or str(uuid.uuid4())
    common = {"kind": "allreduce", "device": device, "gpus": list(gpus), **settings}
    if ranks is not None:
        common["ranks"] = ranks
    if len(links) < 2:
        plan = [(links[0] if links else None, rounds)]
    else:
        plan = [(link, 1) for link, _ in interleaved(links, rounds)]
    jobs = []
    for order, (link, n_rounds) in enumerate(plan):
        arm = f"link-{link}" if link else device
        spec = parse_spec({**common, "link": link, "rounds": n_rounds, "planned_rounds": rounds})
        jobs.append(
            {
                "spec": spec.model_dump(mode="json"),
                "evaluation": {"id": evaluation_id, "arm": arm, "order": order},
                "title": f"{title or 'AllReduce'}, {arm}",
                "order": order,
                "expected_s": expected_seconds(spec),
            }
        )
    return jobs
