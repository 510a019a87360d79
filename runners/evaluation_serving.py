"""A serving evaluation as a plan: arms x workloads x rounds x starts -> jobs in their order."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from models.errors import InvalidSpec
from runners.evaluation import interleaved
from runners.spec import ServingSpec, SoakSpec, Workload, parse_spec

GPU_START_S = 120.0
CPU_START_S = 75.0
CLIENT_S = 12.0  # the client loads and makes its prompts
CHECK_S = 3.0
# a start whose cache holds 1,024 tokens, and a load whose contexts do not fit in it together
PRESSURE_FLAGS = {"num-gpu-blocks-override": 32, "block-size": 32, "max-model-len": 512}
PRESSURE_LOAD = Workload(
    concurrency=16, num_prompts=32, input_len=128, output_len=96, scenario="pressure"
)


@dataclass(frozen=True)
class ArmPlan:
    """One arm of an evaluation, by name.

    Attributes:
        name: As results and charts call it.
        arm: Fields of a ServingArm.
        fields: Further fields of the spec that differ from the other arms' (model, load_format).
    """

    name: str
    arm: Mapping[str, Any]
    fields: Mapping[str, Any] = field(default_factory=dict)


def seconds_of(spec: ServingSpec | SoakSpec) -> float:
    """How long one job takes, roughly and rather too long than too short."""
    start_s = 0.0
    if spec.base_url is None:
        start_s = GPU_START_S if spec.device == "cuda" else CPU_START_S
    if isinstance(spec, SoakSpec):
        return start_s + spec.duration_s + 2 * CHECK_S
    loads = [load for load in spec.workloads if load.scenario != "abnormal"]
    round_s = sum(CLIENT_S + _load_seconds(load, spec.device) for load in loads)
    warm_s = 0.0
    if spec.warmup_round and loads:
        warm_s = CLIENT_S + 2 * max(_wave_seconds(load, spec.device) for load in loads)
    return start_s + 2 * CHECK_S + warm_s + spec.rounds * round_s


def _load_seconds(load: Workload, device: str) -> float:
    slots = min(load.concurrency or load.num_prompts, load.num_prompts)
    waves = -(-load.num_prompts // slots) + 1  # the client's warm-up is one more
    return waves * _wave_seconds(load, device)


def _wave_seconds(load: Workload, device: str) -> float:
    per_token_s, per_input_s = (0.02, 0.0005) if device == "cuda" else (0.015, 0.002)
    return 0.2 + load.input_len * per_input_s + load.output_len * per_token_s


def serving_jobs(
    arms: Sequence[ArmPlan],
    workloads: Sequence[Workload | Mapping[str, Any]],
    *,
    rounds: int = 3,
    starts: int = 1,
    evaluation_id: str | None = None,
    title: str = "",
    seed: int = 1000,
    **common: Any,
) -> list[dict[str, Any]]:
    """The jobs of a serving evaluation, arms interleaved start by start: A B, B A, A B.

    Every start of an arm is a job with the same number of rounds; rounds are numbered on over the
    starts, and round r has the same seed in every arm.

    Args:
        arms: One or more; names differ.
        workloads: What every arm is asked to do in every round.
        rounds: Rounds of each arm in all, rounded up to a multiple of the starts.
        starts: Server starts of each arm.
        evaluation_id: A new one by default.
        title: For people; the arm is added.
        seed: Of round 0.
        common: Fields of every spec: device, model or model_config_json, load_format, vllm_python …

    Returns:
        One dict a job, in order: ``spec``, ``evaluation`` (id, arm, order, start), ``title``,
        ``order``, ``expected_s`` and ``time_limit_s``.

    Raises:
        InvalidSpec: What was asked for cannot be carried out.
    """
    names = [arm.name for arm in arms]
    if not arms or len(set(names)) != len(names):
        raise InvalidSpec("An evaluation needs arms with different names.", "Name each arm once.")
    if rounds < 1 or starts < 1:
        raise InvalidSpec("An evaluation needs at least one round and one start.")
    evaluation_id = evaluation_id or str(uuid.uuid4())
    each = -(-rounds // starts)
    loads = [dict(load) if isinstance(load, Mapping) else load.model_dump() for load in workloads]
    by_name = {arm.name: arm for arm in arms}
    jobs = []
    for order, (name, start) in enumerate(interleaved(names, starts)):
        arm = by_name[name]
        spec = _spec(
            {
                "kind": "serving",
                **common,
                **arm.fields,
                "arm": dict(arm.arm),
                "workloads": loads,
                "round": start * each,
                "rounds": each,
                "seed": seed,
            }
        )
        jobs.append(_job(spec, evaluation_id, name, order, start, title))
    return jobs


def soak_jobs(
    arms: Sequence[ArmPlan],
    workload: Workload | Mapping[str, Any],
    *,
    hours: float,
    evaluation_id: str | None = None,
    title: str = "",
    first_order: int = 0,
    **common: Any,
) -> list[dict[str, Any]]:
    """One sustained load an arm, one after the other.

    Raises:
        InvalidSpec: What was asked for cannot be carried out.
    """
    evaluation_id = evaluation_id or str(uuid.uuid4())
    load = dict(workload) if isinstance(workload, Mapping) else workload.model_dump()
    jobs = []
    for place, arm in enumerate(arms):
        spec = _spec(
            {
                "kind": "soak",
                **common,
                **arm.fields,
                "arm": dict(arm.arm),
                "workload": {**load, "scenario": "soak"},
                "duration_s": hours * 3600,
                "window_s": min(60.0, max(1.0, hours * 3600 / 20)),
                "check_every_s": min(600.0, max(1.0, hours * 3600 / 4)),
                "time_limit_s": hours * 3600 * 1.1 + 1800,
            }
        )
        jobs.append(_job(spec, evaluation_id, arm.name, first_order + place, 0, title))
    return jobs


def _spec(data: Mapping[str, Any]) -> ServingSpec | SoakSpec:
    spec = parse_spec(dict(data))
    if not isinstance(spec, ServingSpec | SoakSpec):
        raise InvalidSpec("This is no serving job.")
    return spec


def _job(
    spec: ServingSpec | SoakSpec,
    evaluation_id: str,
    arm: str,
    order: int,
    start: int,
    title: str,
) -> dict[str, Any]:
    expected_s = seconds_of(spec)
    if spec.time_limit_s < 2 * expected_s and isinstance(spec, ServingSpec):
        spec = spec.model_copy(update={"time_limit_s": 2 * expected_s + 300})
    words = "Sustained load" if isinstance(spec, SoakSpec) else "Serving"
    return {
        "spec": spec.model_dump(mode="json"),
        "evaluation": {"id": evaluation_id, "arm": arm, "order": order, "start": start},
        "title": f"{title or words}, {arm}",
        "order": order,
        "expected_s": expected_s,
        "time_limit_s": spec.time_limit_s,
    }


def summary(jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a person wants to know before it starts.

    Returns:
        ``order`` (arm of each job), ``seeds``, ``starts`` (server starts), ``seconds``, ``gpus``.
    """
    specs = [job["spec"] for job in jobs]
    seeds = sorted(
        {
            spec["seed"] + number
            for spec in specs
            if spec["kind"] == "serving"
            for number in range(spec["round"], spec["round"] + spec["rounds"])
        }
    )
    gpus = sorted({gpu for spec in specs for gpu in spec["arm"]["gpus"]}, key=str)
    return {
        "order": [job["evaluation"]["arm"] for job in jobs],
        "seeds": seeds,
        "starts": sum(spec["arm"]["replicas"] for spec in specs if not spec["base_url"]),
        "seconds": sum(job["expected_s"] for job in jobs),
        "gpus": gpus,
    }


def fill_jobs(
    specs: Mapping[str, Mapping[str, Any]],
    fills: Sequence[str],
    *,
    evaluation_id: str,
    first_order: int = 0,
    soak_hours: float = 2.0,
) -> list[dict[str, Any]]:
    """Jobs that measure what an evaluation lacks, on the arms as they were measured before.

    Args:
        specs: Arm -> the spec of its serving runs.
        fills: abnormal, pressure, long_output, short_output, sweep, evaluation, soak; again for
            all of it once more, as an evaluation of its own.
        evaluation_id: The evaluation they belong to.
        first_order: Order of the first job.
        soak_hours: Length of a sustained load.

    Returns:
        As `serving_jobs` does, the arms in turn; an empty list where nothing can be measured.

    Raises:
        InvalidSpec: An arm's spec cannot be carried out any more.
    """
    arms = [_Known(name, dict(given)) for name, given in specs.items()]
    jobs: list[dict[str, Any]] = []
    # part after part over all arms: an arm must not be measured hours after the other
    for arm in arms:
        loads = _missing_loads(arm.usual, fills)
        if loads:
            jobs += arm.jobs(arm.plan, loads, 3, evaluation_id, "Serving, missing evidence")
    if "pressure" in fills:
        for arm in arms:
            jobs += arm.jobs(
                short_of_memory(arm.plan), [PRESSURE_LOAD], 1, evaluation_id,
                "Serving, missing evidence",
            )  # fmt: skip
    if "again" in fills:
        anew = str(uuid.uuid4())  # rounds under other software are no further rounds of the old
        for arm in arms:
            jobs += arm.jobs(arm.plan, arm.loads, arm.rounds, anew, "Serving, once more")
    if "soak" in fills:
        for arm in arms:
            jobs += soak_jobs(
                [arm.plan],
                arm.usual.model_copy(update={"concurrency": 4, "scenario": "soak"}),
                hours=soak_hours,
                evaluation_id=evaluation_id,
                title="Sustained load",
                **arm.common,
            )
    for place, job in enumerate(jobs):
        job["order"] = first_order + place
        job["evaluation"]["order"] = first_order + place
    return jobs


class _Known:
    """An arm as it was measured before."""

    def __init__(self, name: str, spec: dict[str, Any]) -> None:
        self.common = {
            key: spec[key]
            for key in ("device", "model", "model_config_json", "model_name", "load_format",
                        "base_url", "vllm_python")
            if spec.get(key) is not None
        }  # fmt: skip
        self.loads = [Workload.model_validate(load) for load in spec.get("workloads") or [{}]]
        self.usual = self.loads[0]
        self.plan = ArmPlan(name, dict(spec.get("arm") or {}))
        self.rounds = max(3, int(spec.get("rounds") or 0))
        self._seed = int(spec.get("seed", 1000))

    def jobs(
        self, plan: ArmPlan, loads: Sequence[Workload], rounds: int, evaluation_id: str, title: str
    ) -> list[dict[str, Any]]:
        """One start of it with these workloads."""
        return serving_jobs(
            [plan], loads, rounds=rounds, evaluation_id=evaluation_id, title=title,
            seed=self._seed, **self.common,
        )  # fmt: skip


def short_of_memory(plan: ArmPlan) -> ArmPlan:
    """The same arm with so little cache that running requests must give theirs up."""
    flags = {**plan.arm.get("engine_args", {}), **PRESSURE_FLAGS}
    return ArmPlan(plan.name, {**plan.arm, "engine_args": flags}, plan.fields)


def _missing_loads(usual: Workload, fills: Sequence[str]) -> list[Workload]:
    """Workloads that the usual start can do."""
    loads: list[Workload] = []
    if "evaluation" in fills or "sweep" in fills:
        for cap in (1, 4):
            scenario = "single_stream" if cap == 1 else "online"
            loads.append(_like(usual, concurrency=cap, num_prompts=10 * cap, scenario=scenario))
    if "long_output" in fills:
        size = min(4 * usual.output_len, 1_048_576)
        loads.append(_like(usual, concurrency=4, output_len=size, scenario="long_output"))
    if "short_output" in fills:
        size = max(1, usual.output_len // 8)
        loads.append(_like(usual, concurrency=4, output_len=size, scenario="short_output"))
    if "abnormal" in fills:
        loads.append(Workload(scenario="abnormal", num_prompts=4))
    return loads


def _like(usual: Workload, **changes: Any) -> Workload:
    prompts = {"num_prompts": 40} if "num_prompts" not in changes else {}
    return Workload.model_validate({**usual.model_dump(), **prompts, **changes})
