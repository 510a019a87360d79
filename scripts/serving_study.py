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
import os
import re
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from serving_plans import PLANS, arms_of  # noqa: E402
from serving_state import draft_of, files_of, rounds_of, save, state_file, stored  # noqa: E402

from models.errors import LinkworthError  # noqa: E402
from models.serving_words import cell_widths  # noqa: E402
from runners.events import Events, write_result  # noqa: E402
from runners.serving_interleaved import (  # noqa: E402
    Arm,
    arm_round,
    checked,
    clients_of,
    load_clients,
    open_arms,
    side_by_side,
    stand_by,
    warm_clients,
    warmed_up,
)
from runners.vllm import free_port  # noqa: E402
from runners.vllm_command import serve_command  # noqa: E402

# as the lab's offline machines need it; whoever set something else keeps it
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_SLEEP_WHEN_IDLE": "1",  # servers that wait for their turn must not take the processors
}
START_S = 160.0
UNKNOWN_S = 20.0  # a round is begun while so much is left, until one shows how long it takes


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
    options.id = options.id or re.sub(r"[^a-z0-9-]+", "-", options.out.stem.lower())
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

    def tell(what: str) -> None:
        print(f"{model.stem}: {what}, {time.monotonic() - began:.0f} s", flush=True)

    events = Events(str(options.state / "events.jsonl"))
    with tempfile.TemporaryDirectory(prefix="serving-study-") as folder:
        work = Path(folder)
        tell(f"starting {', '.join(arm.name for arm in arms)}")
        with open_arms(arms, work, events) as fleets:
            starts = {a.name: fleets[a.name].ready_s for a in arms if a.part_of is None}
            tell("ready (" + ", ".join(f"{k} {v or 0:.0f} s" for k, v in starts.items()) + ")")
            drafts = {a.name: draft_of(options, model, a, fleets[a.name]) for a in arms}
            for arm in arms:
                side_by_side(drafts[arm.name], [a.name for a in arms if a is not arm])
            checked(arms, fleets, drafts, events, "before")
            tell("outputs checked")
            is_warm, longest = False, dict[str, float]()
            while turns := first_turns(missing(options, model, arms), options.clients_at_once):
                with ExitStack() as stack:
                    teams = load_clients(stack, turns, fleets, work)
                    warm = {} if is_warm else warm_clients(stack, arms, fleets, work)
                    stand_by([*warm.values(), *(team for some in teams.values() for team in some)])
                    tell(f"clients of {len(turns)} rounds loaded")
                    warmed_up(list(warm.values()), events)
                    is_warm = True
                    tell("warm")
                    n_done = 0
                    for number, arm in turns:
                        left = options.budget_s - (time.monotonic() - began)
                        if left < longest.get(arm.name, UNKNOWN_S):
                            tell(f"{arm.name} round {number} not begun, {left:.0f} s left")
                            continue  # another arm may be quicker
                        took = one_arm(
                            options,
                            model,
                            arm,
                            number,
                            fleets[arm.name],
                            teams[number, arm.name],
                            drafts[arm.name],
                            events,
                        )
                        longest[arm.name] = took * 1.2  # the next may be slower
                        n_done += 1
                if n_done < len(turns):
                    break
            checked(arms, fleets, drafts, events, "after")
            for arm in arms:
                if rounds_of(drafts[arm.name].result):
                    write_result(drafts[arm.name].finished(), state_file(options, model, arm))
            keep_logs(options, model, arms, work)


def keep_logs(options: argparse.Namespace, model: Path, arms: list[Arm], work: Path) -> None:
    """The servers' logs, beside the tool's files: why a start took long stands there."""
    for arm in arms:
        for log in (work / arm.name).glob("server-*.log"):
            folder = files_of(options, model, arm)
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, folder / log.name)


def first_turns(turns: list[tuple[int, Arm]], limit: int) -> list[tuple[int, Arm]]:
    """As many of the next rounds as have clients for, at least one."""
    n_clients, found = 0, []
    for number, arm in turns:
        n_clients += clients_of(arm)
        if found and n_clients > limit:
            break
        found.append((number, arm))
    return found


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


def write(options: argparse.Namespace) -> int:
    """Write what is there, and print what it says; returns the number of results."""
    sentences, done = save(options)
    for sentence in sentences:
        print(sentence, flush=True)
    return done


if __name__ == "__main__":
    sys.exit(main())
