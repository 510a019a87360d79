"""One command on a GPU machine: measure served models arm by arm and write one study.

    python3 scripts/serving_study.py one-gpu --out serving-on-h200.json
    python3 scripts/serving_study.py two-gpu --out serving-link.json --budget-s 520
    python3 scripts/serving_study.py one-gpu --tpot-only --out tpot.json

Works in pieces: what is done is kept in the state folder, and the same command goes on where the
last one stopped. vLLM is taken from this interpreter (PYTHONPATH) unless --vllm-python names one.
All arms of a model are up at the same time and their rounds interleave; an arm that fails is given
up and the others go on. Weights are dummy, so speed is real and texts are not. Needs torch, numpy,
pydantic and vLLM. The file is a Bundle; put it into data/studies/ and every explorer shows it.
"""

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from serving_course import Course, missing  # noqa: E402
from serving_plans import PLANS, arms_of  # noqa: E402
from serving_state import refuse_other_options, save  # noqa: E402

from models.errors import LinkworthError  # noqa: E402
from models.result import study_id  # noqa: E402
from runners.serving_interleaved import Arm  # noqa: E402
from runners.vllm import free_port  # noqa: E402
from runners.vllm_command import serve_command  # noqa: E402

# as the lab's offline machines need it; whoever set something else keeps it
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_SLEEP_WHEN_IDLE": "1",  # servers that wait for their turn must not take the processors
}
START_S = 160.0


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
        try:
            refuse_other_options(options, model, arms)
        except LinkworthError as error:
            failures.append(told(model.stem, error))
            continue
        if not missing(options, model, arms):
            continue
        left = options.budget_s - (time.monotonic() - began)
        if left < START_S:
            print(f"{model.stem}: not begun, {left:.0f} s are left", flush=True)
            continue
        try:
            given_up = Course(options, model, arms, began).run()
        except LinkworthError as error:
            failures.append(told(model.stem, error))
        else:
            failures += [told(f"{model.stem} {name}", why) for name, why in given_up.items()]
    if options.dry_run:
        return 0
    done = write(options)
    rest = sum(len(missing(options, model, arms_of(options, model))) for model in options.models)
    print(f"{done} results in {options.out}; {rest} rounds of arms are still to do", flush=True)
    return 3 if failures else 0


def told(what: str, error: LinkworthError) -> str:
    """Say on the error stream what failed and why."""
    words = f"{what}: {error}"
    print(f"{words}\n{error.detail}".rstrip(), file=sys.stderr, flush=True)
    return words


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", choices=sorted(PLANS))
    parser.add_argument("--out", type=Path, required=True, help="the study's file")
    parser.add_argument("--id", default="", help="name of the study; default: the file's")
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
    parser.add_argument(
        "--clients-at-once",
        type=int,
        default=24,
        help="clients loaded before the rounds begin, as many rounds as that gives; each holds "
        "about a gigabyte until its turn",
    )
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
    try:
        options.id = study_id(options.id or options.out.stem)
    except ValueError as error:
        parser.error(str(error))
    options.state = (options.state / options.id).resolve()
    return options


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


def write(options: argparse.Namespace) -> int:
    """Write what is there, and print what it says; returns the number of results."""
    sentences, done = save(options)
    for sentence in sentences:
        print(sentence, flush=True)
    return done


if __name__ == "__main__":
    sys.exit(main())
