"""One command on a GPU machine: measure served models arm by arm and write one study.

    python3 scripts/serving_study.py one-gpu --out serving-on-h200.json
    python3 scripts/serving_study.py two-gpu --out serving-link.json --budget-s 520
    python3 scripts/serving_study.py one-gpu --tpot-only --out tpot.json

Works in pieces: what is done is kept in the state folder, and the same command goes on where the
last one stopped. vLLM is taken from this interpreter (PYTHONPATH) unless --vllm-python names one.
All arms of a model are up at the same time and their rounds interleave; weights are dummy, so
speed is real and texts are not. Needs torch, numpy, pydantic and vLLM. The file is a Bundle; put
it into data/studies/ and every explorer shows it.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from serving_plans import PLANS  # noqa: E402

from models.errors import LinkworthError  # noqa: E402
from models.result import Bundle, EvaluationRef, Result, Study, dump, parse, utc_now  # noqa: E402
from models.serving_words import cell_widths, study_sentences  # noqa: E402
from runners.events import Events, write_result  # noqa: E402
from runners.serving import check  # noqa: E402
from runners.serving_draft import Draft, new_draft  # noqa: E402
from runners.serving_interleaved import (  # noqa: E402
    Arm,
    arm_round,
    first_of_start,
    load_round,
    open_arms,
    side_by_side,
)
from runners.spec import parse_spec  # noqa: E402
from runners.vllm import free_port  # noqa: E402
from runners.vllm_command import serve_command  # noqa: E402

# as the lab's offline machines need it; whoever set something else keeps it
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_SLEEP_WHEN_IDLE": "1",  # servers that wait for their turn must not take the processors
}
KV_BYTES = 6 * 2**30  # fixed: arms that start together must not judge each other's memory
START_S, FIRST_ROUND_S = 160.0, 120.0


def main() -> int:
    options = arguments()
    for name, value in OFFLINE.items():
        os.environ.setdefault(name, value)
    began = time.monotonic()
    options.state.mkdir(parents=True, exist_ok=True)
    failures = []
    for model in options.models:
        arms = arms_of(options, model)
        if options.dry_run:
            show(arms, options)
            continue
        if not missing(options, model, arms):
            continue
        left = options.budget_s - (time.monotonic() - began)
        if left < START_S:
            print(f"{model.stem}: not begun, {left:.0f} s are left", flush=True)
            continue
        try:
            carry_out(options, model, arms, began)
        except LinkworthError as error:
            print(f"{model.stem}: {error}\n{error.detail}", file=sys.stderr, flush=True)
            failures.append(str(error))
    if options.dry_run:
        return 0
    done = write(options)
    rest = sum(len(missing(options, model, arms_of(options, model))) for model in options.models)
    print(f"{done} results in {options.out}; {rest} rounds of arms are still to do", flush=True)
    return 3 if failures else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", choices=sorted(PLANS))
    parser.add_argument("--out", type=Path, required=True, help="the study's file")
    parser.add_argument("--id", default="", help="id of the study; default: the file's name")
    parser.add_argument("--title", default="")
    parser.add_argument("--models", nargs="+", type=Path, help="config.json files, largest first")
    parser.add_argument("--only", default="", help="arms whose name matches this pattern")
    parser.add_argument("--concurrency", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--input-len", type=int, default=1024)
    parser.add_argument("--output-len", type=int, default=256)
    parser.add_argument("--prompts-per-slot", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-rounds", type=int, default=5, help="where an interval is too wide")
    parser.add_argument("--width-pct", type=float, default=5.0)
    parser.add_argument("--budget-s", type=float, default=1e9, help="begin no round after this")
    parser.add_argument("--state", type=Path, default=ROOT / "local" / "serving-study")
    parser.add_argument("--vllm-python", default=sys.executable)
    parser.add_argument("--digits", type=int, default=3, help="decimals kept of each request's ms")
    parser.add_argument("--tpot-only", action="store_true", help="concurrency 1, one round")
    parser.add_argument("--dry-run", action="store_true", help="show arms, commands and workloads")
    options = parser.parse_args()
    if options.tpot_only:
        options.concurrency, options.rounds, options.max_rounds = [1], 1, 1
        options.prompts_per_slot = min(options.prompts_per_slot, 6)
        options.only = options.only or ("graphs" if options.plan == "one-gpu" else ".")
    names = ["tiny-test-shape"] if options.plan == "cpu" else ["qwen2.5-14b", "qwen2.5-1.5b"]
    options.models = options.models or [ROOT / "data/models" / f"{name}.json" for name in names]
    options.out = options.out.resolve()
    options.id = options.id or re.sub(r"[^a-z0-9-]+", "-", options.out.stem.lower())
    options.state = (options.state / options.id).resolve()
    return options


def arms_of(options: argparse.Namespace, model: Path) -> list[Arm]:
    config = json.loads(model.read_text())
    plan = PLANS[options.plan]
    names = {row[0] for row in plan if re.search(options.only, row[0])}
    names |= {row[3] for row in plan if row[0] in names and row[3]}  # whose server it shares
    cpu = options.plan == "cpu"
    flags = {"max-model-len": options.input_len + options.output_len + 256}
    if not cpu:
        flags |= {"kv-cache-memory-bytes": KV_BYTES, "gpu-memory-utilization": 0.2}
        if options.plan == "one-gpu":
            flags["gpu-memory-utilization"] = 0.4
    arms = []
    for name, arm, extra, part_of in plan:
        if name not in names:
            continue
        spec = parse_spec(
            {
                "kind": "serving",
                "device": "cpu" if cpu else "cuda",
                "model_config_json": config,
                "model_name": model.stem,
                "load_format": "dummy",
                "vllm_python": options.vllm_python,
                "arm": {**arm, "engine_args": {**flags, **extra}},
                "workloads": [
                    {
                        "concurrency": cap,
                        "num_prompts": cap * options.prompts_per_slot,
                        "input_len": options.input_len,
                        "output_len": options.output_len,
                        "scenario": "single_stream" if cap == 1 else "online",
                    }
                    for cap in options.concurrency
                ],
                "time_limit_s": 7200,
            }
        )
        arms.append(Arm(name, spec, part_of))
    return arms


def show(arms: list[Arm], options: argparse.Namespace) -> None:
    for arm in arms:
        gpus = arm.spec.arm.gpus[: arm.spec.arm.tp]
        command = serve_command(
            arm.spec,
            arm.spec.model_name or "MODEL",
            python=options.vllm_python,
            port=free_port(),
            gpus=[str(gpu) for gpu in gpus],
        )
        print(f"{arm.name} ({arm.spec.arm.replicas} server(s)): {command.text()}")
        print(f"   workloads: {[load.model_dump() for load in arm.spec.workloads]}")


def state_file(options: argparse.Namespace, model: Path, arm: Arm) -> Path:
    return options.state / f"{model.stem}--{arm.name}.json"


def stored(options: argparse.Namespace, model: Path, arm: Arm) -> Result | None:
    path = state_file(options, model, arm)
    return parse(json.loads(path.read_text())) if path.exists() else None


def files_of(options: argparse.Namespace, model: Path, arm: Arm) -> Path:
    """The tool's own result files, beside the study: they come back with it."""
    return options.out.with_suffix(".files") / f"{model.stem}--{arm.name}"


def rounds_of(result: Result | None) -> list[int]:
    # counted by requests, which a round without any figure has too: it is not measured again
    rows = result.find("completed") if result else []
    return sorted({row.round for row in rows if row.round is not None})


def missing(options: argparse.Namespace, model: Path, arms: list[Arm]) -> list[tuple[int, Arm]]:
    """(round, arm) still to be measured, rounds interleaved: A B, B A, A B."""
    results = {arm.name: stored(options, model, arm) for arm in arms}
    widest = max(
        (width for r in results.values() if r for width in cell_widths(r).values()), default=0.0
    )
    wanted = options.rounds
    if all(len(rounds_of(r)) >= wanted for r in results.values()) and widest > options.width_pct:
        done = min(len(rounds_of(r)) for r in results.values())
        wanted = min(options.max_rounds, max(wanted, done + 1))
    order = []
    for number in range(wanted):
        for arm in arms if number % 2 == 0 else reversed(arms):
            if number not in rounds_of(results[arm.name]):
                order.append((number, arm))
    return order


def carry_out(options: argparse.Namespace, model: Path, arms: list[Arm], began: float) -> None:
    """Start the model's arms and measure rounds until all are there or the time is over."""
    events = Events(str(options.state / "events.jsonl"))
    with tempfile.TemporaryDirectory(prefix="serving-study-") as folder:
        work = Path(folder)
        print(f"{model.stem}: starting {', '.join(arm.name for arm in arms)}", flush=True)
        with open_arms(arms, work, events) as fleets:
            print(f"{model.stem}: ready, {time.monotonic() - began:.0f} s", flush=True)
            drafts = {a.name: _draft(options, model, a, fleets[a.name]) for a in arms}
            for arm in arms:
                side_by_side(drafts[arm.name], [a.name for a in arms if a is not arm])
            for arm in arms:
                first_of_start(arm, fleets[arm.name], drafts[arm.name], work, events)
            print(f"{model.stem}: warmed up, {time.monotonic() - began:.0f} s", flush=True)
            longest = FIRST_ROUND_S
            while todo := missing(options, model, arms):
                number = todo[0][0]
                turn = [arm for at, arm in todo if at == number]
                with ExitStack() as stack:
                    teams = load_round(stack, turn, number, fleets, work)
                    for arm in turn:
                        left = options.budget_s - (time.monotonic() - began)
                        if left < longest:
                            print(f"{model.stem}: stopping with {left:.0f} s left", flush=True)
                            return
                        took = one_arm(
                            options,
                            model,
                            arm,
                            number,
                            fleets[arm.name],
                            teams[arm.name],
                            drafts[arm.name],
                            events,
                        )
                        longest = took * 1.3  # the next may be slower
            for arm in arms:
                check(arm.spec, fleets[arm.name], drafts[arm.name], events, "after")
                write_result(drafts[arm.name].finished(), state_file(options, model, arm))


def one_arm(options, model, arm, number, servers, teams, draft, events) -> float:  # type: ignore[no-untyped-def]
    """One round of one arm, stored; returns the seconds it took."""
    at = time.monotonic()
    arm_round(arm, number, servers, teams, draft, events)
    took = time.monotonic() - at
    write_result(draft.finished(), state_file(options, model, arm))
    save(options)  # the machine may be gone before the next round ends
    told = {
        row.dims["concurrency"]: round(row.value or 0, 3)
        for row in draft.result.find("tpot", "median")
        if row.round == number
    }
    print(f"{model.stem} {arm.name} round {number}: TPOT {told} ms, {took:.0f} s", flush=True)
    return took


def _draft(options: argparse.Namespace, model: Path, arm: Arm, servers: object) -> Draft:
    """The arm's result so far, or a new one; the plan's place is part of it."""
    before = stored(options, model, arm)
    if before is not None:
        return Draft(before, files_of(options, model, arm))
    draft = new_draft("serving", arm.spec, servers, files_of(options, model, arm))
    evaluation = uuid.uuid5(uuid.NAMESPACE_URL, f"{options.id}/{model.stem}")
    draft.result.evaluation = EvaluationRef(id=str(evaluation), arm=arm.name)
    draft.result.study = options.id
    draft.result.title = f"{model.stem}, {arm.name}"
    return draft


def write(options: argparse.Namespace) -> int:
    """Write what is there, and print what it says; returns the number of results."""
    sentences, done = save(options)
    for sentence in sentences:
        print(sentence, flush=True)
    return done


def save(options: argparse.Namespace) -> tuple[list[str], int]:
    """Write what is there as one Bundle, the larger models first, whole or not at all.

    Returns:
        What the study says, and the number of its results.
    """
    results = []
    for model in options.models:
        for arm in arms_of(options, model):
            result = stored(options, model, arm)
            if result is not None:
                results.append(rounded(result, options.digits))
    sentences = study_sentences(results)
    cards = sorted({gpu["name"] for r in results for gpu in r.host.get("gpus", [])})
    versions = sorted({r.tool.version or "" for r in results})
    title = options.title or f"Served models on {' and '.join(cards) or 'a CPU'}: {options.plan}"
    study = Study(
        id=options.id,
        title=title,
        origin="measured",
        source=f"scripts/serving_study.py {options.plan}, {utc_now():%Y-%m-%d}, "
        f"vLLM {', '.join(versions)}",
        summary=" ".join(sentences),
        limits=[
            "Dummy weights: speed is real; texts, acceptance and quality are not.",
            "One machine, random prompts of one length, no prefix cache.",
        ],
    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    bundle = Bundle(study=study, results=results)
    data = bundle.model_dump(mode="json", by_alias=True)
    data["results"] = [dump(result) for result in results]
    draft = options.out.with_suffix(".part")
    draft.write_text(json.dumps(data, allow_nan=False) + "\n")
    draft.replace(options.out)
    return sentences, len(results)


def rounded(result: Result, digits: int) -> Result:
    """Per-request values to the microsecond: nobody needs more, and the file is kept for good."""
    samples = [
        sample.model_copy(update={"values": [round(v, digits) for v in sample.values]})
        if sample.unit == "ms"
        else sample
        for sample in result.samples
    ]
    return result.model_copy(update={"samples": samples})


if __name__ == "__main__":
    sys.exit(main())
